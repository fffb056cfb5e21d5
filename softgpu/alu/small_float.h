/*
 * small_float.h: formats narrower than f32, as patterns of bits: f16, bf16, tf32, e4m3, e5m2 and smaller.
 *
 * A format is its number of exponent and fraction bits and what its highest patterns mean. Widening to f32 is exact.
 * Narrowing rounds once, in integers, in any mode, so it needs no mode of the processor and is the same in
 * every clone; with constant arguments all of it folds and loops over it vectorise.
 */
#ifndef SOFTGPU_ALU_SMALL_FLOAT_H
#define SOFTGPU_ALU_SMALL_FLOAT_H

#include "softgpu/alu/rounding.h"

/* k ? x : y in a form that no compiler turns into a jump, which would keep a loop from being vectorised. For the
   same reason conditions below are joined with & and |. */
SG_INLINE uint32_t pick32(bool k, uint32_t x, uint32_t y) { return y ^ ((x ^ y) & (0 - (uint32_t)k)); }
SG_INLINE uint64_t pick64(bool k, uint64_t x, uint64_t y) { return y ^ ((x ^ y) & (0 - (uint64_t)k)); }

enum small_top { TOP_IEEE,      /* the highest exponent is infinity and NaN */
                 TOP_NAN,       /* the highest pattern alone is NaN (e4m3) */
                 TOP_FINITE };  /* neither (e2m1, e2m3, e3m2) */
struct small_float { unsigned exponent_bits, fraction_bits; enum small_top top; };

static const struct small_float FORMAT_F16  = { 5, 10, TOP_IEEE };
static const struct small_float FORMAT_BF16 = { 8, 7, TOP_IEEE };
static const struct small_float FORMAT_TF32 = { 8, 10, TOP_IEEE };
static const struct small_float FORMAT_E4M3 = { 4, 3, TOP_NAN };
static const struct small_float FORMAT_E5M2 = { 5, 2, TOP_IEEE };
static const struct small_float FORMAT_E2M1 = { 2, 1, TOP_FINITE };
static const struct small_float FORMAT_E2M3 = { 2, 3, TOP_FINITE };
static const struct small_float FORMAT_E3M2 = { 3, 2, TOP_FINITE };

enum { SMALL_RN = SG_RN, SMALL_RZ = SG_RZ, SMALL_RM = SG_RM, SMALL_RP = SG_RP,
       SMALL_RNA = SG_ROUND_COUNT };                      /* to nearest, ties away from zero */

/* Patterns, without sign */
SG_INLINE uint32_t small_highest(struct small_float f)   /* the largest finite number */
{
    const uint32_t all = (1u << (f.exponent_bits + f.fraction_bits)) - 1;
    return f.top == TOP_FINITE ? all : f.top == TOP_NAN ? all - 1 : all - (1u << f.fraction_bits);
}
SG_INLINE uint32_t small_nan(struct small_float f) { return (1u << (f.exponent_bits + f.fraction_bits)) - 1; }
SG_INLINE uint32_t small_sign(struct small_float f) { return 1u << (f.exponent_bits + f.fraction_bits); }

SG_INLINE float small_to_f32(uint32_t x, struct small_float f)
{
    const unsigned up = 23 - f.fraction_bits, bias = (1u << (f.exponent_bits - 1)) - 1;
    const uint32_t magnitude = x & (small_sign(f) - 1), sign = (x & small_sign(f))
                                                               << (31 - f.exponent_bits - f.fraction_bits);
    if (f.exponent_bits == 8)                             /* f32 with fewer bits */
        return bits_float(pick32(magnitude << up > 0x7f800000, NAN_F32, sign | magnitude << up));
    const uint32_t normal = (magnitude << up) + ((127 - bias) << 23);
    /* a subnormal is a fraction on the least normal exponent, less that exponent's one; no f32 here is subnormal */
    const uint32_t least = (128 - bias) << 23;
    const uint32_t subnormal = float_bits(bits_float(least + (magnitude << up)) - bits_float(least));
    uint32_t bits = sign | pick32(magnitude < 1u << f.fraction_bits, subnormal, normal);
    if (f.top == TOP_IEEE)
        bits = pick32(magnitude == small_highest(f) + 1, sign | 0x7f800000, bits);
    if (f.top != TOP_FINITE)
        bits = pick32(magnitude > small_highest(f) + (f.top == TOP_IEEE), NAN_F32, bits);
    return bits_float(bits);
}

/*
 * small_from_NAME: a finite magnitude of a wider format (U, with FRACTION and EXPONENT bits) rounded to format f.
 * The result is rounded as if the exponent had no upper end; the caller sees to overflow. The significand is
 * shifted right to where f's last bit is, further for f's subnormals; carries run into the exponent by themselves.
 */
#define SMALL_ROUND(NAME, U, S, PICK, FRACTION, EXPONENT)                                                          \
    SG_INLINE U small_round_##NAME(U magnitude, bool negative, struct small_float f, int mode)                     \
    {                                                                                                              \
        const S bias = (1 << (EXPONENT - 1)) - 1, least = 2 - (1 << (f.exponent_bits - 1));                        \
        const S field = (S)(magnitude >> FRACTION), normal = field != 0, exponent = field + 1 - normal - bias;     \
        const U significand = (magnitude & (((U)1 << FRACTION) - 1)) | (U)normal << FRACTION;                      \
        const S below = least - exponent, above = -below, drop = FRACTION - (S)f.fraction_bits;                    \
        const S wanted = drop + (S)PICK(below > 0, (U)below, 0);                                                   \
        const S shift = (S)PICK(wanted > FRACTION + 2, FRACTION + 2, (U)wanted); /* further off is all the same */ \
        const U half = (U)1 << (shift - 1), rest = significand & (2 * half - 1), kept = significand >> shift;      \
        bool up = false;                                                                                           \
        switch (mode) {                                                                                            \
        case SMALL_RN: up = rest + (kept & 1) > half; break; /* above half, or half and odd */                     \
        case SMALL_RNA: up = rest >= half; break;                                                                  \
        case SMALL_RM: up = negative & (rest != 0); break;                                                         \
        case SMALL_RP: up = !negative & (rest != 0); break;                                                        \
        default: break;                                                                                            \
        }                                                                                                          \
        const U base = PICK(above > 0, (U)above, 0) << f.fraction_bits;                                            \
        return base + kept + up;                                                                                   \
    }
SMALL_ROUND(f32, uint32_t, int32_t, pick32, 23, 8)
SMALL_ROUND(f64, uint64_t, int64_t, pick64, 52, 11)

/*
 * The same for f32 where random bits decide: they are added to as many of the highest bits that are lost (fewer are
 * kept where the format is subnormal), and a carry rounds up.
 */
SG_INLINE uint32_t small_round_random(uint32_t magnitude, struct small_float f, uint32_t random, unsigned random_bits)
{
    enum { FRACTION = 23, BIAS = 127, FAR = 48 }; /* FAR: nothing is left of the significand and its carries */
    const int32_t field = (int32_t)(magnitude >> FRACTION), normal = field != 0, exponent = field + 1 - normal - BIAS,
                  above = exponent - (2 - (1 << (f.exponent_bits - 1)));
    const uint32_t significand = (magnitude & ((1u << FRACTION) - 1)) | (uint32_t)normal << FRACTION;
    const uint32_t wanted = FRACTION - f.fraction_bits + pick32(above < 0, 0 - (uint32_t)above, 0),
                   shift = pick32(wanted > FAR, FAR, wanted);
    const uint64_t sum = significand + ((uint64_t)random << (shift - random_bits));
    return (pick32(above > 0, (uint32_t)above, 0) << f.fraction_bits) + (uint32_t)(sum >> shift);
}
SG_INLINE uint32_t small_from_random(uint32_t x, struct small_float f, uint32_t random, unsigned random_bits,
                                     bool finite)
{
    const uint32_t magnitude = x & 0x7fffffff, sign = x >> 31 << (f.exponent_bits + f.fraction_bits),
                   highest = small_highest(f);
    const bool stays = finite | (f.top != TOP_IEEE);
    uint32_t bits = small_round_random(magnitude, f, random, random_bits);
    bits = pick32((bits > highest) | (magnitude == 0x7f800000), highest + !stays, bits);
    return pick32(magnitude > 0x7f800000, f.top == TOP_FINITE ? highest : small_nan(f), bits | sign);
}

/* finite: overflow and infinity become the largest finite number (.satfinite); formats without infinity always do so */
#define SMALL_FROM(NAME, U, PICK, INFINITY_BITS)                                                                    \
    SG_INLINE uint32_t small_from_##NAME(U x, struct small_float f, int mode, bool finite)                          \
    {                                                                                                               \
        const U top = (U)1 << (8 * sizeof(U) - 1), magnitude = x & (top - 1), sign_bits = 8 * sizeof(U) - 1;        \
        const bool negative = (x & top) != 0;                                                                       \
        const U sign = (x >> sign_bits) << (f.exponent_bits + f.fraction_bits), highest = small_highest(f);         \
        const bool stays = finite | (f.top != TOP_IEEE);                                                            \
        const bool inward = (mode == SMALL_RZ) | ((mode == SMALL_RM) & !negative) | ((mode == SMALL_RP) & negative); \
        U bits = small_round_##NAME(magnitude, negative, f, mode);                                                  \
        bits = PICK(bits > highest, highest + !(stays | inward), bits);                                             \
        bits = PICK(magnitude == INFINITY_BITS, highest + !stays, bits);                                            \
        return (uint32_t)PICK(magnitude > INFINITY_BITS, f.top == TOP_FINITE ? highest : small_nan(f), bits | sign); \
    }
SMALL_FROM(f32, uint32_t, pick32, 0x7f800000u)
SMALL_FROM(f64, uint64_t, pick64, 0x7ff0000000000000u)

SG_INLINE uint32_t flush_small(uint32_t x, struct small_float f, bool ftz)
{
    const uint32_t exponent = ((1u << f.exponent_bits) - 1) << f.fraction_bits;
    return pick32(!ftz | ((x & exponent) != 0), x, x & small_sign(f));
}

/* Rows of f32 to rows of f16, which the processor does from v3 on. d and x may be one array's two views. */
SG_INLINE void narrow_row_f16(uint32_t *d, const float *x, int mode)
{
#if defined __AVX512BW__
#define NARROW(imm) _mm512_cvtps_ph(v, (imm) | _MM_FROUND_NO_EXC)
    for (unsigned i = 0; i < SG_LANES; i += 16) {
        const __m512 v = _mm512_loadu_ps(x + i);
        const __m256i h = mode == SMALL_RN   ? NARROW(_MM_FROUND_TO_NEAREST_INT)
                          : mode == SMALL_RM ? NARROW(_MM_FROUND_TO_NEG_INF)
                          : mode == SMALL_RP ? NARROW(_MM_FROUND_TO_POS_INF)
                                             : NARROW(_MM_FROUND_TO_ZERO);
        const __m512i wide = _mm512_cvtepu16_epi32(h);
        _mm512_storeu_si512(
            d + i, _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), wide, _mm512_set1_epi32(0x7fff)));
    }
#undef NARROW
#elif defined __F16C__ && defined __AVX2__
#define NARROW(imm) _mm256_cvtps_ph(v, imm)
    for (unsigned i = 0; i < SG_LANES; i += 8) {
        const __m256 v = _mm256_loadu_ps(x + i);
        const __m128i h = mode == SMALL_RN   ? NARROW(_MM_FROUND_TO_NEAREST_INT)
                          : mode == SMALL_RM ? NARROW(_MM_FROUND_TO_NEG_INF)
                          : mode == SMALL_RP ? NARROW(_MM_FROUND_TO_POS_INF)
                                             : NARROW(_MM_FROUND_TO_ZERO);
        const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
        _mm256_storeu_si256((__m256i *)(d + i),
                            _mm256_blendv_epi8(_mm256_cvtepu16_epi32(h), _mm256_set1_epi32(0x7fff), nan));
    }
#undef NARROW
#else
    SG_FOR_LANES(i) d[i] = small_from_f32(float_bits(x[i]), FORMAT_F16, mode, false);
#endif
}

#endif
