/*
 * convert_int.c: rows of cvt from integers. PTX ISA, "cvt" and "cvt.pack". Plain integers to integers are
 * in bits.c (resize), floats to integers in convert_to_int.c.
 */
#include "softgpu/alu/small_float.h"

/* ---- integers with .sat ---- */

SG_INLINE int64_t clamp_s(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
SG_INLINE uint64_t clamp_u(uint64_t x, int64_t low, uint64_t high) { (void)low; return x > high ? high : x; }
#define SATURATE(TO, FROM, D, NARROW, A, T, SIGN, LOW, HIGH) \
    ROW1(saturate_##TO##_##FROM, D, A, (NARROW)clamp_##SIGN((T)a, LOW, HIGH))
/* a signed operand never exceeds INT64_MAX, so as a bound for u64 it does */
#define SATURATE_FROM(FROM, A, T, SIGN, U64_HIGH)                                                         \
    SATURATE(u8, FROM, uint32_t, uint8_t, A, T, SIGN, 0, UINT8_MAX)                                       \
    SATURATE(s8, FROM, uint32_t, uint8_t, A, T, SIGN, INT8_MIN, INT8_MAX)                                 \
    SATURATE(u16, FROM, uint32_t, uint16_t, A, T, SIGN, 0, UINT16_MAX)                                    \
    SATURATE(s16, FROM, uint32_t, uint16_t, A, T, SIGN, INT16_MIN, INT16_MAX)                             \
    SATURATE(u32, FROM, uint32_t, uint32_t, A, T, SIGN, 0, (int64_t)UINT32_MAX)                           \
    SATURATE(s32, FROM, uint32_t, uint32_t, A, T, SIGN, INT32_MIN, INT32_MAX)                             \
    SATURATE(u64, FROM, uint64_t, uint64_t, A, T, SIGN, 0, U64_HIGH)                                      \
    SATURATE(s64, FROM, uint64_t, uint64_t, A, T, SIGN, INT64_MIN, INT64_MAX)
SATURATE_FROM(u8, uint32_t, uint8_t, u, UINT64_MAX)
SATURATE_FROM(s8, uint32_t, int8_t, s, INT64_MAX)
SATURATE_FROM(u16, uint32_t, uint16_t, u, UINT64_MAX)
SATURATE_FROM(s16, uint32_t, int16_t, s, INT64_MAX)
SATURATE_FROM(u32, uint32_t, uint32_t, u, UINT64_MAX)
SATURATE_FROM(s32, uint32_t, int32_t, s, INT64_MAX)
SATURATE_FROM(u64, uint64_t, uint64_t, u, UINT64_MAX)
SATURATE_FROM(s64, uint64_t, int64_t, s, INT64_MAX)
#define SATURATE_TO(TO) { saturate_##TO##_u8, saturate_##TO##_s8, saturate_##TO##_u16, saturate_##TO##_s16,    \
                          saturate_##TO##_u32, saturate_##TO##_s32, saturate_##TO##_u64, saturate_##TO##_s64 }

/* cvt.pack: a and b saturated to some bits, a above b; what is left above them comes from c */
SG_INLINE void pack_rows(const struct sg_rows *r, bool with_c)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1), *c = SOURCE(uint32_t, with_c ? 2 : 1);
    const unsigned bits = r->immediate & 31;
    const bool is_signed = r->immediate >> 8 & 1;
    const int32_t high = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, low = is_signed ? -high - 1 : 0;
    const uint32_t mask = (1u << bits) - 1;
    SG_FOR_LANES(i) {
        const int32_t x = (int32_t)a[i], y = (int32_t)b[i];
        const uint32_t pair = ((uint32_t)(x < low ? low : x > high ? high : x) & mask) << bits |
                              ((uint32_t)(y < low ? low : y > high ? high : y) & mask);
        d[i] = with_c ? (uint32_t)((uint64_t)c[i] << (2 * bits)) | pair : pair;
    }
}
static void pack_2(const struct sg_rows *r) { pack_rows(r, false); }
static void pack_3(const struct sg_rows *r) { pack_rows(r, true); }

/* ---- integers to floats ---- */

/*
 * To f32, and to nearest in f64, is C's conversion in the mode that is set; only 0 has to be looked after, since
 * compilers make some conversions of differences, which are -0 when rounding down. All else goes by magnitude: an
 * integer above 2^53 is shifted to below that, with the lost bits gathered in the last (round to odd), so that it is
 * exact in double and then rounds once more to whatever is narrower; f64 is rounded on the integer.
 */
SG_INLINE uint32_t narrow_magnitude(uint64_t magnitude, bool negative, struct small_float f, enum sg_round mode)
{
    const bool big = magnitude >> 53 != 0;
    const uint64_t odd = pick64(big, magnitude >> 11 | ((magnitude & 0x7ff) + 0x7ff) >> 11, magnitude);
    const double x = (double)(int64_t)odd * bits_double(pick64(big, double_bits(0x1p11), double_bits(1.0)));
    return small_from_f64(double_bits(x) | (uint64_t)negative << 63, f, (int)mode, false);
}

SG_INLINE uint64_t double_magnitude(uint64_t magnitude, bool negative, enum sg_round mode)
{
    const int lost = magnitude >> 53 ? 11 - __builtin_clzll(magnitude | 1) : 0;
    const uint64_t kept = magnitude >> lost, rest = magnitude & (((uint64_t)1 << lost) - 1);
    const bool up = rest && (negative ? mode == SG_RM : mode == SG_RP);
    const double scale = bits_double((uint64_t)(1023 + lost) << 52);
    return double_bits((double)(int64_t)(kept + up) * scale) | (uint64_t)negative << 63;
}

/* .sat of a float: to [+0, 1]; a pattern of an integer is never NaN */
SG_INLINE uint32_t saturate_bits(uint32_t x, uint32_t sign, uint32_t one) { return x & sign ? 0 : x > one ? one : x; }

SG_INLINE uint32_t saturate_f16(uint32_t x)  { return saturate_bits(x, 0x8000, 0x3c00); }
SG_INLINE uint32_t saturate_bf16(uint32_t x) { return saturate_bits(x, 0x8000, 0x3f80); }
SG_INLINE uint32_t saturate_f32(uint32_t x)  { return saturate_bits(x, 0x80000000, 0x3f800000); }
SG_INLINE uint64_t saturate_f64(uint64_t x)  { return x >> 63 ? 0 : x > 0x3ff0000000000000 ? 0x3ff0000000000000 : x; }

/* SET: the mode that the processor is in meanwhile */
#define TO_ROW(TO, D, FROM, A, T, MODE, SET, EXPRESSION)                                                             \
    SG_INLINE D TO##_##FROM##_##MODE##_lane(T a) { return (EXPRESSION); }                                            \
    static void TO##_##FROM##_##MODE(const struct sg_rows *r)                                                        \
    {                                                                                                                \
        D *d = ROW_OF(D, r->d);                                                                                      \
        const A *a = SOURCE(A, 0);                                                                                   \
        const uint32_t before = rounding_set(SET);                                                                   \
        SG_FOR_LANES(i) d[i] = TO##_##FROM##_##MODE##_lane((T)a[i]);                                                 \
        rounding_restore(SET, before);                                                                               \
        for (unsigned i = 0; r->immediate & SG_CVT_SAT && i < SG_LANES; i++)                                         \
            d[i] = saturate_##TO(d[i]);                                                                              \
    }
#define MAGNITUDE(NEGATIVE) ((NEGATIVE) ? 0 - (uint64_t)a : (uint64_t)a)
#define TO_FLOAT(FROM, A, T, NEGATIVE, MODE)                                                                          \
    TO_ROW(f16, uint32_t, FROM, A, T, MODE, SG_RN, narrow_magnitude(MAGNITUDE(NEGATIVE), NEGATIVE, FORMAT_F16, MODE)) \
    TO_ROW(bf16, uint32_t, FROM, A, T, MODE, SG_RN,                                                                   \
           narrow_magnitude(MAGNITUDE(NEGATIVE), NEGATIVE, FORMAT_BF16, MODE))                                        \
    TO_ROW(f32, uint32_t, FROM, A, T, MODE, MODE,                                                                     \
           MODE == SG_RM ? pick32(a != 0, float_bits((float)a), 0) : float_bits((float)a))                            \
    TO_ROW(f64, uint64_t, FROM, A, T, MODE, SG_RN,                                                                    \
           MODE == SG_RN || sizeof(T) < 8 ? double_bits((double)a)                                                    \
                                          : double_magnitude(MAGNITUDE(NEGATIVE), NEGATIVE, MODE))
#define TO_FLOAT_ALL(FROM, A, T, NEGATIVE)                                                                           \
    TO_FLOAT(FROM, A, T, NEGATIVE, SG_RN) TO_FLOAT(FROM, A, T, NEGATIVE, SG_RZ)                                      \
    TO_FLOAT(FROM, A, T, NEGATIVE, SG_RM) TO_FLOAT(FROM, A, T, NEGATIVE, SG_RP)
TO_FLOAT_ALL(u8, uint32_t, uint8_t, false)
TO_FLOAT_ALL(s8, uint32_t, int8_t, (a < 0))
TO_FLOAT_ALL(u16, uint32_t, uint16_t, false)
TO_FLOAT_ALL(s16, uint32_t, int16_t, (a < 0))
TO_FLOAT_ALL(u32, uint32_t, uint32_t, false)
TO_FLOAT_ALL(s32, uint32_t, int32_t, (a < 0))
TO_FLOAT_ALL(u64, uint64_t, uint64_t, false)
TO_FLOAT_ALL(s64, uint64_t, int64_t, (a < 0))
#define MODES(TO, FROM) { TO##_##FROM##_SG_RN, TO##_##FROM##_SG_RZ, TO##_##FROM##_SG_RM, TO##_##FROM##_SG_RP }
#define FROM_ALL(TO)                                                                                                  \
    {                                                                                                                 \
        MODES(TO, u8), MODES(TO, s8), MODES(TO, u16), MODES(TO, s16), MODES(TO, u32), MODES(TO, s32), MODES(TO, u64), \
            MODES(TO, s64)                                                                                            \
    }

const struct sg_convert_int_table SG_CLONE(sg_convert_int_table) = {
    .saturate = { SATURATE_TO(u8), SATURATE_TO(s8), SATURATE_TO(u16), SATURATE_TO(s16),
                  SATURATE_TO(u32), SATURATE_TO(s32), SATURATE_TO(u64), SATURATE_TO(s64) },
    .to_float = { [SG_CVT_F16] = FROM_ALL(f16), [SG_CVT_BF16] = FROM_ALL(bf16), [SG_CVT_F32] = FROM_ALL(f32),
                  [SG_CVT_F64] = FROM_ALL(f64) },
    .pack = { pack_2, pack_3 },
};
