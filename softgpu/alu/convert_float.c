/*
 * convert_float.c: rows of cvt between floats. PTX ISA, "cvt".
 *
 * Narrowing rounds once, from the source itself. .ftz flushes f32 on either side, but not where the result is f16;
 * .sat, .relu and .satfinite are flags that all lanes share. What becomes of NaN was seen on an H200: mostly the
 * canonical one of the destination. From and to f64 it keeps what fits of its payload, and is made quiet. bf16 is
 * widened to f32 by a shift.
 */
#include "softgpu/alu/integral.h"
#include "softgpu/alu/small_float.h"

/* What follows the conversion, on the pattern of the result; sat and relu make NaN +0 and NaN, as PTX has it. */
SG_INLINE uint32_t finish(uint32_t x, uint32_t sign, uint32_t one, uint32_t infinity, uint64_t flags)
{
    const bool negative = (x & sign) != 0, nan = (x & (sign - 1)) > infinity, sat = (flags & SG_CVT_SAT) != 0,
               relu = (flags & SG_CVT_RELU) != 0;
    x = pick32((relu & negative & !nan) | (sat & (nan | negative)), 0, x);
    return pick32(sat & (x > one), one, x);
}

SG_INLINE uint32_t to_half(uint32_t from, struct small_float f, int mode, uint64_t flags)
{
    const uint32_t x =
        small_from_f32(flush32(from, f.exponent_bits == 8 && flags & SG_CVT_FTZ), f, mode, flags & SG_CVT_SATFINITE);
    return finish(x, 0x8000, f.exponent_bits == 8 ? 0x3f80 : 0x3c00, small_highest(f) + 1, flags);
}
SG_INLINE uint32_t half_from_f64(uint64_t from, struct small_float f, int mode, uint64_t flags)
{
    const uint32_t x = small_from_f64(from, f, mode, flags & SG_CVT_SATFINITE);
    if (!(flags & (SG_CVT_RELU | SG_CVT_SATFINITE | SG_CVT_SAT)) && (from & 0x7fffffffffffffff) > 0x7ff0000000000000)
        return (uint32_t)(from >> 63 << 15 | (small_highest(f) + 1) | 1u << (f.fraction_bits - 1) |
                          (from >> (52 - f.fraction_bits) & ((1u << f.fraction_bits) - 1)));
    return finish(x, 0x8000, f.exponent_bits == 8 ? 0x3f80 : 0x3c00, small_highest(f) + 1, flags);
}
SG_INLINE uint32_t finish_f32(uint32_t x, uint64_t flags)
{
    return finish(flush32(x, flags & SG_CVT_FTZ), 0x80000000, 0x3f800000, 0x7f800000, flags);
}
SG_INLINE uint64_t finish_f64(double x, uint64_t flags)
{
    if (flags & SG_CVT_SAT) {
        x = x > 0 ? x : 0;
        x = x < 1 ? x : 1;
    }
    return double_bits(x);
}
SG_INLINE uint32_t half_bits(uint32_t x, struct small_float f) { return float_bits(small_to_f32(x & 0xffff, f)); }
/* tf32 is the upper 19 bits of an f32 */
SG_INLINE uint32_t tf32_from_f32(uint32_t from, int mode, uint64_t flags)
{
    const uint32_t x = small_from_f32(from, FORMAT_TF32, mode, flags & SG_CVT_SATFINITE) << 13;
    if ((from & 0x7fffffff) > 0x7f800000) /* .rna cuts a NaN, and .satfinite takes the last bit from that */
        return mode != SMALL_RNA ? 0x7fffe000 : (from & 0xffffe000) - (flags & SG_CVT_SATFINITE ? 0x2000 : 0);
    return finish(x, 0x80000000, 0x3f800000, 0x7f800000, flags);
}

/* EXPRESSION of a (the pattern), mode and flags */
#define CVT(name, D, A, MODE, EXPRESSION)                                                         \
    SG_INLINE D name##_##MODE##_lane(A a, int mode, uint64_t flags)                               \
    {                                                                                             \
        (void)flags; (void)mode;                                                                  \
        return (EXPRESSION);                                                                      \
    }                                                                                             \
    static void name##_##MODE(const struct sg_rows *r)                                            \
    {                                                                                             \
        D *d = ROW_OF(D, r->d);                                                                   \
        const A *a = SOURCE(A, 0);                                                                \
        const uint64_t flags = r->immediate;                                                      \
        if (!flags)                                       /* vectorises better without them */    \
            SG_FOR_LANES(i) d[i] = name##_##MODE##_lane(a[i], MODE, 0);                           \
        else                                                                                      \
            SG_FOR_LANES(i) d[i] = name##_##MODE##_lane(a[i], MODE, flags);                       \
    }
#define CVT_MODES(name, D, A, EXPRESSION)                                                         \
    CVT(name, D, A, SMALL_RN, EXPRESSION) CVT(name, D, A, SMALL_RZ, EXPRESSION)                   \
    CVT(name, D, A, SMALL_RM, EXPRESSION) CVT(name, D, A, SMALL_RP, EXPRESSION)
CVT_MODES(f16_f32_soft, uint32_t, uint32_t, to_half(a, FORMAT_F16, mode, flags))
#define F16_F32(MODE)                                                                             \
    static void f16_f32_##MODE(const struct sg_rows *r)                                           \
    {                                                                                             \
        ROW_ARRAY(float, x);                                                                      \
        if (r->immediate) {                                                                       \
            f16_f32_soft_##MODE(r);                                                               \
            return;                                                                               \
        }                                                                                         \
        const uint32_t *a = SOURCE(uint32_t, 0);                                                  \
        SG_FOR_LANES(i) x[i] = bits_float(a[i]);                                                  \
        narrow_row_f16(ROW_OF(uint32_t, r->d), x, MODE);                                          \
    }
F16_F32(SMALL_RN)
F16_F32(SMALL_RZ)
F16_F32(SMALL_RM)
F16_F32(SMALL_RP)
CVT_MODES(bf16_f32, uint32_t, uint32_t, to_half(a, FORMAT_BF16, mode, flags))
CVT_MODES(f16_f64, uint32_t, uint64_t, half_from_f64(a, FORMAT_F16, mode, flags))
CVT_MODES(bf16_f64, uint32_t, uint64_t, half_from_f64(a, FORMAT_BF16, mode, flags))
CVT_MODES(f16_bf16, uint32_t, uint32_t, to_half(half_bits(a, FORMAT_BF16), FORMAT_F16, mode, flags))
CVT_MODES(bf16_f16, uint32_t, uint32_t, to_half(half_bits(a, FORMAT_F16), FORMAT_BF16, mode, flags))
/* The processor rounds, in the mode that is set */
#define F32_F64(MODE)                                                                             \
    static void f32_f64_##MODE(const struct sg_rows *r)                                           \
    {                                                                                             \
        uint32_t *d = ROW_OF(uint32_t, r->d);                                                     \
        const uint64_t *a = SOURCE(uint64_t, 0);                                                  \
        const uint64_t flags = r->immediate;                                                      \
        const uint32_t before = rounding_set((enum sg_round)MODE);                                \
        SG_FOR_LANES(i) {                                                                         \
            d[i] = float_bits((float)bits_double(a[i]));          /* NaN with its upper bits */   \
        }                                                                                         \
        rounding_restore((enum sg_round)MODE, before);                                            \
        for (unsigned i = 0; flags && i < SG_LANES; i++)                                          \
            d[i] = finish_f32(d[i], flags);                                                       \
    }
F32_F64(SMALL_RN)
F32_F64(SMALL_RZ)
F32_F64(SMALL_RM)
F32_F64(SMALL_RP)
CVT_MODES(tf32_f32, uint32_t, uint32_t, tf32_from_f32(a, mode, flags))
CVT(tf32_f32, uint32_t, uint32_t, SMALL_RNA, tf32_from_f32(a, mode, flags))
/* exact */
CVT(f32_f16, uint32_t, uint32_t, SMALL_RN, finish_f32(half_bits(a, FORMAT_F16), flags))
CVT(f32_bf16, uint32_t, uint32_t, SMALL_RN,
    flags ? finish_f32(half_bits(a, FORMAT_BF16), flags) : (a & 0xffff) << 16)
CVT(f64_f16, uint64_t, uint32_t, SMALL_RN,
    !flags && (a & 0x7fff) > 0x7c00 ? (uint64_t)(a & 0x8000) << 48 | 0x7ff8000000000000 | (uint64_t)(a & 0x3ff) << 42
                                    : finish_f64(small_to_f32(a & 0xffff, FORMAT_F16), flags))
CVT(f64_bf16, uint64_t, uint32_t, SMALL_RN,
    finish_f64(flags ? small_to_f32(a & 0xffff, FORMAT_BF16) : bits_float((a & 0xffff) << 16), flags))
CVT(f64_f32, uint64_t, uint32_t, SMALL_RN,
    finish_f64(bits_float(flags & SG_CVT_FTZ && (a & 0x7fffffff) > 0x7f800000 ? NAN_F32
                                                                              : flush32(a, flags & SG_CVT_FTZ)),
               flags))
CVT(f16_f16, uint32_t, uint32_t, SMALL_RN,
    finish((a & 0x7fff) > 0x7c00 ? 0x7fff : a & 0xffff, 0x8000, 0x3c00, 0x7c00, flags))
CVT(bf16_bf16, uint32_t, uint32_t, SMALL_RN,
    finish((a & 0x7fff) > 0x7f80 ? 0x7fff : a & 0xffff, 0x8000, 0x3f80, 0x7f80, flags))
CVT(f32_f32, uint32_t, uint32_t, SMALL_RN,
    finish_f32(flags & SG_CVT_FTZ && (a & 0x7fffffff) > 0x7f800000 ? NAN_F32 : a, flags))
CVT(f64_f64, uint64_t, uint64_t, SMALL_RN, finish_f64(bits_double(a), flags))

/* Whole numbers of the same type. f16 and bf16 hold every whole number that rounding in f32 can give them. */
SG_INLINE uint32_t integral_half(uint32_t a, struct small_float f, enum sg_round mode, uint64_t flags)
{
    return to_half(float_bits(integral_f32(small_to_f32(a & 0xffff, f), mode)), f, SMALL_RN,
                   flags & ~(uint64_t)SG_CVT_FTZ);
}
SG_INLINE uint32_t integral_single(uint32_t a, enum sg_round mode, uint64_t flags)
{
    const float x = integral_f32(load_f32(a, flags & SG_CVT_FTZ), mode);
    return finish_f32(x != x ? NAN_F32 : float_bits(x), flags);
}
CVT_MODES(integral_f16, uint32_t, uint32_t, integral_half(a, FORMAT_F16, (enum sg_round)mode, flags))
CVT_MODES(integral_bf16, uint32_t, uint32_t, integral_half(a, FORMAT_BF16, (enum sg_round)mode, flags))
CVT_MODES(integral_f32, uint32_t, uint32_t, integral_single(a, (enum sg_round)mode, flags))
CVT_MODES(integral_f64, uint64_t, uint64_t, finish_f64(integral_f64(bits_double(a), (enum sg_round)mode), flags))

/* ---- pairs: a goes above b ---- */

#define CVT_PAIR(name, MODE, EXPRESSION)                                                          \
    SG_INLINE uint32_t name##_##MODE##_lane(uint32_t a, uint32_t b, int mode, uint64_t flags)     \
    {                                                                                             \
        (void)flags; (void)mode;                                                                  \
        return (EXPRESSION);                                                                      \
    }                                                                                             \
    static void name##_##MODE(const struct sg_rows *r)                                            \
    {                                                                                             \
        uint32_t *d = ROW_OF(uint32_t, r->d);                                                     \
        const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1);                        \
        const uint64_t flags = r->immediate;                                                      \
        if (!flags)                                                                               \
            SG_FOR_LANES(i) d[i] = name##_##MODE##_lane(a[i], b[i], MODE, 0);                     \
        else                                                                                      \
            SG_FOR_LANES(i) d[i] = name##_##MODE##_lane(a[i], b[i], MODE, flags);                 \
    }
#define PAIR_MODES(name, FORMAT)                                                                      \
    CVT_PAIR(name, SMALL_RN, to_half(a, FORMAT, mode, flags) << 16 | to_half(b, FORMAT, mode, flags)) \
    CVT_PAIR(name, SMALL_RZ, to_half(a, FORMAT, mode, flags) << 16 | to_half(b, FORMAT, mode, flags)) \
    CVT_PAIR(name, SMALL_RM, to_half(a, FORMAT, mode, flags) << 16 | to_half(b, FORMAT, mode, flags)) \
    CVT_PAIR(name, SMALL_RP, to_half(a, FORMAT, mode, flags) << 16 | to_half(b, FORMAT, mode, flags))
PAIR_MODES(f16x2_f32, FORMAT_F16)
PAIR_MODES(bf16x2_f32, FORMAT_BF16)

/* Small floats are always .satfinite. e2m1 has four bits, and its pair one byte; the six-bit ones lie in bytes. */
SG_INLINE uint32_t small_of(uint32_t from, struct small_float f, uint64_t flags)
{
    const bool negative = from >> 31 && (from & 0x7fffffff) <= 0x7f800000;
    return flags & SG_CVT_RELU && negative ? 0 : small_from_f32(from, f, SMALL_RN, true);
}
/* A pair of ue8m0 scales bf16x2 after it is converted from something smaller. */
enum { SCALE_ONE = 0x7f7f };
SG_INLINE float scale_of(uint32_t x)
{
    return bits_float(pick32(x == 255, NAN_F32, pick32(x != 0, x << 23, 0x00400000)));
}
SG_INLINE uint32_t bf16x2_of(float high, float low, uint32_t scales, uint64_t flags)
{
    return to_half(float_bits(high * scale_of(scales >> 8 & 0xff)), FORMAT_BF16, SMALL_RN, flags) << 16 |
           to_half(float_bits(low * scale_of(scales & 0xff)), FORMAT_BF16, SMALL_RN, flags);
}
#define SMALL_PAIR(name, FORMAT, SHIFT)                                                                             \
    CVT_PAIR(name##_f32, SMALL_RN, small_of(a, FORMAT, flags) << SHIFT | small_of(b, FORMAT, flags))                \
    CVT(name##_f16x2, uint32_t, uint32_t, SMALL_RN,                                                                 \
        small_of(half_bits(a >> 16, FORMAT_F16), FORMAT, flags) << SHIFT |                                          \
            small_of(half_bits(a, FORMAT_F16), FORMAT, flags))                                                      \
    CVT(name##_bf16x2, uint32_t, uint32_t, SMALL_RN,                                                                \
        small_of(half_bits(a >> 16, FORMAT_BF16), FORMAT, flags) << SHIFT |                                         \
            small_of(half_bits(a, FORMAT_BF16), FORMAT, flags))                                                     \
    CVT(bf16x2_##name, uint32_t, uint32_t, SMALL_RN,                                                                \
        bf16x2_of(small_to_f32(a >> SHIFT & 0xff, FORMAT), small_to_f32(a % (1u << SHIFT), FORMAT), SCALE_ONE, \
                  flags))                                                                                           \
    CVT_PAIR(                                                                                                       \
        bf16x2_##name##_scaled, SMALL_RN,                                                                           \
        bf16x2_of(small_to_f32(a >> SHIFT & 0xff, FORMAT), small_to_f32(a % (1u << SHIFT), FORMAT), b, flags)) \
    CVT(f16x2_##name, uint32_t, uint32_t, SMALL_RN,                                                                 \
        to_half(float_bits(small_to_f32(a >> SHIFT & 0xff, FORMAT)), FORMAT_F16, SMALL_RN, flags) << 16 |           \
            to_half(float_bits(small_to_f32(a & ((1u << SHIFT) - 1), FORMAT)), FORMAT_F16, SMALL_RN, flags))
SMALL_PAIR(e4m3, FORMAT_E4M3, 8)
SMALL_PAIR(e5m2, FORMAT_E5M2, 8)
SMALL_PAIR(e2m1, FORMAT_E2M1, 4)
SMALL_PAIR(e2m3, FORMAT_E2M3, 8)
SMALL_PAIR(e3m2, FORMAT_E3M2, 8)

/* s2f6: signed numbers of 1/64 in eight bits, divided by the scale before; always .satfinite, NaN is the largest. */
SG_INLINE uint32_t fixed_of(uint32_t from, uint32_t scale, uint64_t flags)
{
    float x = integral_f32(bits_float(from) / scale_of(scale & 0xff) * 64, SG_RN);
    const float least = flags & SG_CVT_RELU ? 0 : -128;
    x = x < least ? least : x;
    return (uint32_t)(int32_t)(x < 127 ? x : 127) & 0xff;
}
SG_INLINE uint32_t fixed_pair(uint32_t high, uint32_t low, uint32_t scales, uint64_t flags)
{
    return fixed_of(high, scales >> 8, flags) << 8 | fixed_of(low, scales, flags);
}
SG_INLINE uint32_t bf16x2_of_fixed(uint32_t x, uint32_t scales, uint64_t flags)
{
    return bf16x2_of((float)(int8_t)(x >> 8) / 64, (float)(int8_t)x / 64, scales, flags);
}
CVT_PAIR(fixed_f32, SMALL_RN, fixed_pair(a, b, SCALE_ONE, flags))
static void fixed_f32_scaled(const struct sg_rows *r)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1), *c = SOURCE(uint32_t, 2);
    const uint64_t flags = r->immediate;
    SG_FOR_LANES(i) d[i] = fixed_pair(a[i], b[i], c[i], flags);
}
CVT(fixed_bf16x2, uint32_t, uint32_t, SMALL_RN, fixed_pair(a & 0xffff0000, a << 16, SCALE_ONE, flags))
CVT_PAIR(fixed_bf16x2_scaled, SMALL_RN, fixed_pair(a & 0xffff0000, a << 16, b, flags))
CVT(bf16x2_fixed, uint32_t, uint32_t, SMALL_RN, bf16x2_of_fixed(a, SCALE_ONE, flags))
CVT_PAIR(bf16x2_fixed_scaled, SMALL_RN, bf16x2_of_fixed(a, b, flags))

/* ---- .rs: random bits of the last operand decide how to round ---- */

SG_INLINE uint32_t half_from_random(uint32_t from, struct small_float f, uint32_t random, unsigned bits, uint64_t flags)
{
    const uint32_t x = small_from_random(from, f, random & ((1u << bits) - 1), bits, flags & SG_CVT_SATFINITE);
    return finish(x, 0x8000, f.exponent_bits == 8 ? 0x3f80 : 0x3c00, small_highest(f) + 1, flags);
}
/* Each half has the lowest bits of its half of the operand: as many as f32 has beyond the format. */
#define PAIR_RANDOM(name, FORMAT, BITS)                                                              \
    static void name##_random(const struct sg_rows *r)                                               \
    {                                                                                                \
        uint32_t *d = ROW_OF(uint32_t, r->d);                                                        \
        const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1), *c = SOURCE(uint32_t, 2); \
        const uint64_t flags = r->immediate;                                                         \
        SG_FOR_LANES(i)                                                                              \
        d[i] = half_from_random(a[i], FORMAT, c[i] >> 16, BITS, flags) << 16 |                       \
               half_from_random(b[i], FORMAT, c[i], BITS, flags);                                    \
    }
PAIR_RANDOM(f16x2, FORMAT_F16, 13)
PAIR_RANDOM(bf16x2, FORMAT_BF16, 16)

SG_INLINE uint32_t reversed16(uint32_t x)
{
    x = (x & 0x5555) << 1 | (x >> 1 & 0x5555);
    x = (x & 0x3333) << 2 | (x >> 2 & 0x3333);
    x = (x & 0x0f0f) << 4 | (x >> 4 & 0x0f0f);
    return (x & 0xff) << 8 | x >> 8;
}
SG_INLINE uint32_t small_of_random(uint32_t from, struct small_float f, uint32_t random, uint64_t flags)
{
    const bool negative = from >> 31 && (from & 0x7fffffff) <= 0x7f800000;
    return flags & SG_CVT_RELU && negative ? 0 : small_from_random(from, f, random, 16, true);
}
/* Four f32: two share 16 random bits, which the first of them takes in reversed order (seen on a B200). The result
   of e2m1 has 16 bits: there each of the two fields is a byte of either half of the operand. */
SG_INLINE void four_rows(const struct sg_rows *r, struct small_float f, unsigned shift)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1), *c = SOURCE(uint32_t, 2),
                   *e = SOURCE(uint32_t, 3), *random = SOURCE(uint32_t, 4);
    const uint64_t flags = r->immediate;
    SG_FOR_LANES(i)
    {
        const uint32_t x = random[i], high = shift == 8 ? x >> 16 : (x >> 16 & 0xff00) | (x >> 8 & 0xff),
                       low = shift == 8 ? x & 0xffff : (x >> 8 & 0xff00) | (x & 0xff);
        d[i] = small_of_random(a[i], f, reversed16(high), flags) << 3 * shift |
               small_of_random(b[i], f, high, flags) << 2 * shift |
               small_of_random(c[i], f, reversed16(low), flags) << shift | small_of_random(e[i], f, low, flags);
    }
}
#define FOUR_RANDOM(name, FORMAT, SHIFT) \
    static void name##_random(const struct sg_rows *r) { four_rows(r, FORMAT, SHIFT); }
FOUR_RANDOM(e4m3, FORMAT_E4M3, 8)
FOUR_RANDOM(e5m2, FORMAT_E5M2, 8)
FOUR_RANDOM(e2m1, FORMAT_E2M1, 4)
FOUR_RANDOM(e2m3, FORMAT_E2M3, 8)
FOUR_RANDOM(e3m2, FORMAT_E3M2, 8)

/* ue8m0: the power of two 2^(x - 127), 255 is NaN; the sign is lost. Rounded to zero or up; no power below 2^-127.
   .satfinite keeps what is above 2^127 there; without it that is NaN. */
SG_INLINE uint32_t ue8m0_of(uint32_t from, int mode, uint64_t flags)
{
    const uint32_t magnitude = from & 0x7fffffff, exponent = magnitude >> 23, fraction = magnitude & 0x7fffff;
    /* 2^-127 is half of the least normal number, a subnormal with the top fraction bit */
    const uint32_t up = exponent ? fraction != 0 : fraction > 0x400000;
    const uint32_t x = exponent + (mode == SMALL_RP ? up : 0);
    return magnitude > 0x7f800000 ? 255 : x > 254 ? 255 - ((flags & SG_CVT_SATFINITE) != 0) : x;
}
#define UE8M0(MODE)                                                                     \
    CVT_PAIR(ue8m0_f32, MODE, ue8m0_of(a, mode, flags) << 8 | ue8m0_of(b, mode, flags)) \
    CVT(ue8m0_bf16x2, uint32_t, uint32_t, MODE,                                         \
        ue8m0_of(a & 0xffff0000, mode, flags) << 8 | ue8m0_of(a << 16, mode, flags))
UE8M0(SMALL_RZ)
UE8M0(SMALL_RP)
SG_INLINE uint32_t bf16_of_ue8m0(uint32_t x) { return x == 255 ? 0x7fff : x ? x << 7 : 0x0040; }
CVT(bf16x2_ue8m0, uint32_t, uint32_t, SMALL_RN, bf16_of_ue8m0(a >> 8 & 255) << 16 | bf16_of_ue8m0(a & 255))

#define MODES(name) { name##_SMALL_RN, name##_SMALL_RZ, name##_SMALL_RM, name##_SMALL_RP }
#define EXACT(name) { name##_SMALL_RN }
#define SMALLS(before, after)                                                                           \
    {                                                                                                   \
        before##e4m3##after##_SMALL_RN, before##e5m2##after##_SMALL_RN, before##e2m1##after##_SMALL_RN, \
            before##e2m3##after##_SMALL_RN, before##e3m2##after##_SMALL_RN                              \
    }
const struct sg_convert_float_table SG_CLONE(sg_convert_float_table) = {
    .row = {
        [SG_CVT_F16] = { [SG_CVT_F16] = EXACT(f16_f16), [SG_CVT_BF16] = MODES(f16_bf16), [SG_CVT_F32] = MODES(f16_f32),
                         [SG_CVT_F64] = MODES(f16_f64) },
        [SG_CVT_BF16] = { [SG_CVT_F16] = MODES(bf16_f16), [SG_CVT_BF16] = EXACT(bf16_bf16),
                          [SG_CVT_F32] = MODES(bf16_f32), [SG_CVT_F64] = MODES(bf16_f64) },
        [SG_CVT_F32] = { [SG_CVT_F16] = EXACT(f32_f16), [SG_CVT_BF16] = EXACT(f32_bf16), [SG_CVT_F32] = EXACT(f32_f32),
                         [SG_CVT_F64] = MODES(f32_f64) },
        [SG_CVT_F64] = { [SG_CVT_F16] = EXACT(f64_f16), [SG_CVT_BF16] = EXACT(f64_bf16), [SG_CVT_F32] = EXACT(f64_f32),
                         [SG_CVT_F64] = EXACT(f64_f64) },
        [SG_CVT_TF32] = { [SG_CVT_F32] = { tf32_f32_SMALL_RN, tf32_f32_SMALL_RZ, tf32_f32_SMALL_RM, tf32_f32_SMALL_RP,
                                           tf32_f32_SMALL_RNA } },
    },
    .integral = { MODES(integral_f16), MODES(integral_bf16), MODES(integral_f32), MODES(integral_f64) },
    .pair = { MODES(f16x2_f32), MODES(bf16x2_f32) },
    .pair_random = { f16x2_random, bf16x2_random },
    .four_random = { e4m3_random, e5m2_random, e2m1_random, e2m3_random, e3m2_random },
    .small_from_f32 = SMALLS(, _f32), .small_from_f16x2 = SMALLS(, _f16x2), .small_to_f16x2 = SMALLS(f16x2_, ),
    .small_from_bf16x2 = SMALLS(, _bf16x2), .small_to_bf16x2 = { SMALLS(bf16x2_, ), SMALLS(bf16x2_, _scaled) },
    .fixed_from_f32 = { fixed_f32_SMALL_RN, fixed_f32_scaled },
    .fixed_from_bf16x2 = { fixed_bf16x2_SMALL_RN, fixed_bf16x2_scaled_SMALL_RN },
    .fixed_to_bf16x2 = { bf16x2_fixed_SMALL_RN, bf16x2_fixed_scaled_SMALL_RN },
    .ue8m0_from_f32 = { ue8m0_f32_SMALL_RZ, ue8m0_f32_SMALL_RP }, .ue8m0_from_bf16x2 = { ue8m0_bf16x2_SMALL_RZ,
                                                                                         ue8m0_bf16x2_SMALL_RP },
    .ue8m0_to_bf16x2 = bf16x2_ue8m0_SMALL_RN,
};
