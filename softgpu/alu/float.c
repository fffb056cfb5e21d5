/*
 * float.c: rows of f32 and f32x2, all that IEEE 754 defines to the bit. PTX ISA, "Floating Point Instructions".
 * The approximations are in approx.c, f64 in double.c, 16-bit floats in half.c.
 *
 * Each operation is one …_rows function whose last arguments are constants in every copy made of it.
 */
#include "softgpu/alu/small_float.h"

SG_INLINE float lane_f32(enum sg_float_operation operation, float a, float b, float c, enum sg_round mode)
{
    switch (operation) {
    case SG_FLOAT_ADD: return a + b;
    case SG_FLOAT_SUB: return a - b;
    case SG_FLOAT_MUL: return a * b;
    default:           return fma_f32(a, b, c, mode);
    }
}

/*
 * Whether a result is subnormal is seen after rounding, as if exponents had no lower end (on an H200, and by x86's
 * own flushing): so a result that was rounded up to the least normal number may have to be flushed all the same. Its
 * operation is done again on numbers 2^64 times as large.
 */
#define LEAST_NORMAL 0x00800000u
#define TINY_SCALE 0x1p64f
SG_INLINE bool is_tiny(float scaled) { return __builtin_fabsf(scaled) < 0x1p-62f; }

SG_INLINE void f32_rows(const struct sg_rows *r, enum sg_float_operation operation, enum sg_round mode, bool ftz,
                        bool sat)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1);
    const uint32_t *c = SOURCE(uint32_t, operation == SG_FLOAT_FMA ? 2 : 1);
    const uint32_t before = rounding_set(mode);
    uint32_t least = 0;
    ROW_ARRAY(uint32_t, result);                      /* d may be an operand */
    SG_FOR_LANES(i) {
        result[i] = store_f32(
            lane_f32(operation, load_f32(a[i], ftz), load_f32(b[i], ftz), load_f32(c[i], ftz), mode), ftz, sat);
        least |= (uint32_t)((result[i] & 0x7fffffff) == LEAST_NORMAL);
    }
    /* not to nearest, where the executor has ways of its own for these instructions (docs/limits.md) */
    const bool again = ftz && mode != SG_RN && (operation == SG_FLOAT_MUL || operation == SG_FLOAT_FMA);
    for (unsigned i = 0; again && least && i < SG_LANES; i++)
        if ((result[i] & 0x7fffffff) == LEAST_NORMAL &&
            is_tiny(lane_f32(operation, load_f32(a[i], true) * TINY_SCALE, load_f32(b[i], true),
                             load_f32(c[i], true) * TINY_SCALE, mode)))
            result[i] = sat ? 0 : result[i] & 0x80000000;
    SG_FOR_LANES(i) d[i] = result[i];
    rounding_restore(mode, before);
}

SG_INLINE void f32x2_rows(const struct sg_rows *r, enum sg_float_operation operation, enum sg_round mode, bool ftz)
{
    uint64_t *d = ROW_OF(uint64_t, r->d);
    const uint64_t *a = SOURCE(uint64_t, 0), *b = SOURCE(uint64_t, 1);
    const uint64_t *c = SOURCE(uint64_t, operation == SG_FLOAT_FMA ? 2 : 1);
    const uint32_t before = rounding_set(mode);
    SG_FOR_LANES(i) {
        const float low = lane_f32(operation, load_f32((uint32_t)a[i], ftz), load_f32((uint32_t)b[i], ftz),
                                   load_f32((uint32_t)c[i], ftz), mode);
        const float high = lane_f32(operation, load_f32((uint32_t)(a[i] >> 32), ftz),
                                    load_f32((uint32_t)(b[i] >> 32), ftz), load_f32((uint32_t)(c[i] >> 32), ftz), mode);
        d[i] = (uint64_t)store_f32(high, ftz, false) << 32 | store_f32(low, ftz, false);
    }
    rounding_restore(mode, before);
}

enum quotient { DIV, RCP, SQRT };

SG_INLINE void quotient_rows(const struct sg_rows *r, enum quotient operation, enum sg_round mode, bool ftz)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, operation == DIV ? 1 : 0);
    const uint32_t before = rounding_set(mode);
    SG_FOR_LANES(i) {
        const float x = load_f32(a[i], ftz), y = load_f32(b[i], ftz);
        d[i] = store_f32(operation == DIV ? x / y : operation == RCP ? 1.0f / y : __builtin_sqrtf(x), ftz, false);
        if (ftz && operation == DIV && (d[i] & 0x7fffffff) == LEAST_NORMAL && is_tiny(x * TINY_SCALE / y))
            d[i] &= 0x80000000;
    }
    rounding_restore(mode, before);
}

/* Sign and order of floats as integers: -0 below +0, as min and max want it. */
SG_INLINE int32_t order32(uint32_t x) { return (int32_t)(x ^ ((uint32_t)((int32_t)x >> 31) & 0x7fffffff)); }
SG_INLINE bool is_nan32(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }

/* A NaN loses to a number unless .NaN */
SG_INLINE uint32_t extremum32(uint32_t a, uint32_t b, enum sg_extremum which, bool nan)
{
    const bool first = which == SG_MIN ? order32(a) < order32(b) : order32(a) > order32(b);
    const uint32_t x = is_nan32(a) ? b : is_nan32(b) ? a : first ? a : b;
    return (is_nan32(a) && is_nan32(b)) || (nan && (is_nan32(a) || is_nan32(b))) ? NAN_F32 : x;
}

/* absolute: of two operands .xorsign.abs, of three .abs */
SG_INLINE void extremum_rows(const struct sg_rows *r, enum sg_extremum which, bool ftz, bool nan, bool absolute,
                             bool three)
{
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *s0 = SOURCE(uint32_t, 0), *s1 = SOURCE(uint32_t, 1), *s2 = SOURCE(uint32_t, three ? 2 : 1);
    const uint32_t clear = absolute ? 0x7fffffff : UINT32_MAX;
    SG_FOR_LANES(i) {
        const uint32_t a = flush32(s0[i], ftz), b = flush32(s1[i], ftz), c = flush32(s2[i], ftz);
        uint32_t x = extremum32(a & clear, b & clear, which, nan);
        if (three)
            x = extremum32(x, c & clear, which, nan);
        d[i] = absolute && !three && !is_nan32(x) ? x | ((a ^ b) & 0x80000000) : x;
    }
}

/* A GPU's neg and abs are sums with -0, so of a NaN they make the canonical one (seen on an H200). */
ROW1(f32_neg_0, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : a ^ 0x80000000)
ROW1(f32_neg_1, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : flush32(a, true) ^ 0x80000000)
ROW1(f32_abs_0, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : a & 0x7fffffff)
ROW1(f32_abs_1, uint32_t, uint32_t, is_nan32(a) ? NAN_F32 : flush32(a, true) & 0x7fffffff)
ROW2(f32_copysign, uint32_t, uint32_t, uint32_t, (a & 0x80000000) | (b & 0x7fffffff))

SG_INLINE void testp_rows(const struct sg_rows *r, enum sg_testp test)
{
    ROW_ARRAY(uint32_t, yes);
    const uint32_t *a = SOURCE(uint32_t, 0);
    SG_FOR_LANES(i) {
        const uint32_t x = a[i] & 0x7fffffff;
        const bool is = test == SG_FINITE ? x < 0x7f800000 : test == SG_INFINITE ? x == 0x7f800000 :
                        test == SG_NUMBER ? x <= 0x7f800000 : test == SG_NOTANUMBER ? x > 0x7f800000 :
                        test == SG_NORMAL ? (x >= 0x00800000 && x < 0x7f800000) || x == 0 : x != 0 && x < 0x00800000;
        yes[i] = is ? UINT32_MAX : 0;
    }
    *r->p = pack_lanes32(yes);
}

/* ---- the copies ---- */

#define F32(mode, name, op, ftz, sat) \
    static void name##_##mode##_##ftz##_##sat(const struct sg_rows *r) { f32_rows(r, op, mode, ftz, sat); }
#define F32_ALL(name, op) MODE_VARIANTS(F32, name, op, 0, 0) MODE_VARIANTS(F32, name, op, 0, 1) \
                          MODE_VARIANTS(F32, name, op, 1, 0) MODE_VARIANTS(F32, name, op, 1, 1)
F32_ALL(add, SG_FLOAT_ADD)
F32_ALL(sub, SG_FLOAT_SUB)
F32_ALL(mul, SG_FLOAT_MUL)
F32_ALL(fma, SG_FLOAT_FMA)
#define F32_OF(mode, name)                                                                         \
    {                                                                                              \
        { name##_##mode##_0_0, name##_##mode##_0_1 }, { name##_##mode##_1_0, name##_##mode##_1_1 } \
    }

#define PAIR(mode, name, op, ftz) \
    static void name##_##mode##_##ftz(const struct sg_rows *r) { f32x2_rows(r, op, mode, ftz); }
#define PAIR_ALL(name, op) MODE_VARIANTS(PAIR, name, op, 0) MODE_VARIANTS(PAIR, name, op, 1)
PAIR_ALL(add_f32x2, SG_FLOAT_ADD)
PAIR_ALL(sub_f32x2, SG_FLOAT_SUB)
PAIR_ALL(mul_f32x2, SG_FLOAT_MUL)
PAIR_ALL(fma_f32x2, SG_FLOAT_FMA)
#define FTZ_OF(mode, name) { name##_##mode##_0, name##_##mode##_1 }

#define QUOTIENT(mode, name, op, ftz) \
    static void name##_##mode##_##ftz(const struct sg_rows *r) { quotient_rows(r, op, mode, ftz); }
#define QUOTIENT_ALL(name, op) MODE_VARIANTS(QUOTIENT, name, op, 0) MODE_VARIANTS(QUOTIENT, name, op, 1)
QUOTIENT_ALL(div, DIV)
QUOTIENT_ALL(rcp, RCP)
QUOTIENT_ALL(sqrt, SQRT)

#define EXTREMUM(name, op, ftz, nan, absolute, three)                       \
    static void name##_##ftz##nan##absolute##three(const struct sg_rows *r) \
    {                                                                       \
        extremum_rows(r, op, ftz, nan, absolute, three);                    \
    }
#define EXTREMUM_2(name, op, ftz, nan, absolute) \
    EXTREMUM(name, op, ftz, nan, absolute, 0) EXTREMUM(name, op, ftz, nan, absolute, 1)
#define EXTREMUM_4(name, op, ftz, nan) EXTREMUM_2(name, op, ftz, nan, 0) EXTREMUM_2(name, op, ftz, nan, 1)
#define EXTREMUM_ALL(name, op) \
    EXTREMUM_4(name, op, 0, 0) EXTREMUM_4(name, op, 0, 1) EXTREMUM_4(name, op, 1, 0) EXTREMUM_4(name, op, 1, 1)
EXTREMUM_ALL(min, SG_MIN)
EXTREMUM_ALL(max, SG_MAX)
#define EXTREMA(name) { { { { name##_0000, name##_0001 }, { name##_0010, name##_0011 } },  \
                          { { name##_0100, name##_0101 }, { name##_0110, name##_0111 } } },\
                        { { { name##_1000, name##_1001 }, { name##_1010, name##_1011 } },  \
                          { { name##_1100, name##_1101 }, { name##_1110, name##_1111 } } } }

#define TESTP(name, test) static void testp_##name(const struct sg_rows *r) { testp_rows(r, test); }
TESTP(finite, SG_FINITE)
TESTP(infinite, SG_INFINITE)
TESTP(number, SG_NUMBER)
TESTP(notanumber, SG_NOTANUMBER)
TESTP(normal, SG_NORMAL)
TESTP(subnormal, SG_SUBNORMAL)

#define F32_ROWS { [SG_FLOAT_ADD] = MODE_TABLE(F32_OF, add), [SG_FLOAT_SUB] = MODE_TABLE(F32_OF, sub),  \
                   [SG_FLOAT_MUL] = MODE_TABLE(F32_OF, mul), [SG_FLOAT_FMA] = MODE_TABLE(F32_OF, fma) }
static sg_alu_function *const f32_table[SG_FLOAT_OPERATION_COUNT][SG_ROUND_COUNT][2][2] = F32_ROWS;

/* add.f32.f16 and the like: the 16-bit operands become f32, which is exact; the last one is f32 already */
SG_INLINE void mixed_rows(const struct sg_rows *r, enum sg_float_operation operation, struct small_float f)
{
    ROW_ARRAY(uint32_t, x);
    ROW_ARRAY(uint32_t, y);
    const bool fused = operation == SG_FLOAT_FMA;
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, 1);
    SG_FOR_LANES(i) {
        x[i] = float_bits(small_to_f32(a[i] & 0xffff, f));
        y[i] = fused ? float_bits(small_to_f32(b[i] & 0xffff, f)) : b[i];
    }
    const struct sg_rows wide = { .d = r->d, .s = { x, y, r->s[2] } };
    f32_table[operation][r->immediate & 3][0][r->immediate >> 2 & 1](&wide);
}
#define MIXED(name, operation)                                                                              \
    static void name##_f16(const struct sg_rows *r) { mixed_rows(r, operation, FORMAT_F16); }               \
    static void name##_bf16(const struct sg_rows *r) { mixed_rows(r, operation, FORMAT_BF16); }
MIXED(add, SG_FLOAT_ADD)
MIXED(sub, SG_FLOAT_SUB)
MIXED(fma, SG_FLOAT_FMA)

const struct sg_float_table SG_CLONE(sg_float_table) = {
    .f32 = F32_ROWS,
    .mixed = { [SG_FLOAT_ADD] = { add_f16, add_bf16 }, [SG_FLOAT_SUB] = { sub_f16, sub_bf16 },
               [SG_FLOAT_FMA] = { fma_f16, fma_bf16 } },
    .f32_div = MODE_TABLE(FTZ_OF, div), .f32_rcp = MODE_TABLE(FTZ_OF, rcp), .f32_sqrt = MODE_TABLE(FTZ_OF, sqrt),
    .f32_neg = { f32_neg_0, f32_neg_1 }, .f32_abs = { f32_abs_0, f32_abs_1 },
    .f32_extremum = { [SG_MIN] = EXTREMA(min), [SG_MAX] = EXTREMA(max) },
    .f32_testp = { testp_finite, testp_infinite, testp_number, testp_notanumber, testp_normal, testp_subnormal },
    .f32_copysign = f32_copysign,
    .f32x2 = { [SG_FLOAT_ADD] = MODE_TABLE(FTZ_OF, add_f32x2), [SG_FLOAT_SUB] = MODE_TABLE(FTZ_OF, sub_f32x2),
               [SG_FLOAT_MUL] = MODE_TABLE(FTZ_OF, mul_f32x2), [SG_FLOAT_FMA] = MODE_TABLE(FTZ_OF, fma_f32x2) },
};
