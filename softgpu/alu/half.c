/*
 * half.c: rows of f16, bf16 and their pairs. PTX ISA, "Half Precision Floating Point Instructions".
 *
 * A sum of two f16 or bf16, and a product of two f16, rounded to f32 and then to the format is the same as rounded
 * once (24 bits are at least 2n + 2, and what is subnormal is exact). fma has three operands: its product is exact in
 * f32 and its sum is rounded to odd, which may round once more. Products of bf16 can leave the range of f32: a row with
 * such a lane goes through double. The modifiers are flags in the immediate, the same for all lanes; rows without any
 * take a way of their own (plain_row).
 */
#include "softgpu/alu/small_float.h"
#include "softgpu/alu/elementary.h"

/* a + b; what does not fit goes into the last bit */
SG_INLINE float sum_odd_f32(float a, float b)
{
    const float sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
    const uint32_t bits = float_bits(sum);
    /* towards zero, then the last bit says that something was lost */
    return bits_float(pick32((error > 0) | (error < 0), (bits - ((error > 0) ^ (sum > 0))) | 1, bits));
}
SG_INLINE double sum_odd_f64(double a, double b)
{
    const double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
    const uint64_t bits = double_bits(sum);
    return bits_double(pick64((error > 0) | (error < 0), (bits - ((error > 0) ^ (sum > 0))) | 1, bits));
}

/* Order as integers: -0 below +0 */
SG_INLINE int32_t half_order(uint32_t x) { return (int32_t)pick32((x & 0x8000) != 0, 0 - (x & 0x7fff) - 1, x); }

SG_INLINE uint32_t half_extremum(uint32_t a, uint32_t b, struct small_float f, bool least, uint64_t flags)
{
    const uint32_t infinity = small_highest(f) + 1, clear = flags & SG_HALF_XORSIGN ? 0x7fff : 0xffff;
    const bool a_nan = (a & 0x7fff) > infinity, b_nan = (b & 0x7fff) > infinity, strict = (flags & SG_HALF_NAN) != 0;
    const uint32_t x = a & clear, y = b & clear, sign = (a ^ b) & (clear ^ 0xffff);
    const bool first = least ? half_order(x) < half_order(y) : half_order(x) > half_order(y);
    const uint32_t chosen = pick32(b_nan | (first & !a_nan), x, y) | sign;
    return pick32((a_nan & b_nan) | (strict & (a_nan | b_nan)), small_nan(f), chosen);
}

/* What tensor copies write beyond a tensor's edges in both formats (softgpu/tensor.h); fma.oob makes +0 of a factor. */
enum { OOB_NAN = 0x7ff7 };

/* One value: a, b and c have 16 bits */
SG_INLINE uint32_t half_lane(enum sg_half_operation operation, struct small_float f, uint32_t a, uint32_t b, uint32_t c,
                             uint64_t flags)
{
    const bool ftz = (flags & SG_HALF_FTZ) != 0, relu = (flags & SG_HALF_RELU) != 0, sat = (flags & SG_HALF_SAT) != 0,
               wide = f.exponent_bits == 8, outside = (flags & SG_HALF_OOB) != 0 && (a == OOB_NAN || b == OOB_NAN);
    a = flush_small(a, f, ftz);
    b = flush_small(b, f, ftz);
    c = flush_small(c, f, ftz);
    const float x = small_to_f32(a, f), y = small_to_f32(b, f);
    uint32_t d;
    double exact = 1;                                 /* what a product or a fused sum is before it is rounded */
    switch (operation) {
    case SG_HALF_NEG:  return pick32((a & 0x7fff) > small_highest(f) + 1, small_nan(f), a ^ 0x8000);
    case SG_HALF_ABS:  return pick32((a & 0x7fff) > small_highest(f) + 1, small_nan(f), a & 0x7fff);
    case SG_HALF_MIN:  return half_extremum(a, b, f, true, flags);
    case SG_HALF_MAX:  return half_extremum(a, b, f, false, flags);
    case SG_HALF_ADD:  d = small_from_f32(float_bits(x + y), f, SMALL_RN, false); break;
    case SG_HALF_SUB:  d = small_from_f32(float_bits(x - y), f, SMALL_RN, false); break;
    case SG_HALF_MUL:
        d = wide ? small_from_f64(double_bits((double)x * y), f, SMALL_RN, false)
                 : small_from_f32(float_bits(x * y), f, SMALL_RN, false);
        exact = (double)x * y;
        break;
    case SG_HALF_FMA:
        exact = sum_odd_f64((double)x * y, small_to_f32(c, f));
        d = small_from_f64(double_bits(exact), f, SMALL_RN, false);
        break;
    case SG_HALF_EX2:  d = small_from_f32(float_bits((float)elementary_ex2(x)), f, SMALL_RN, false); break;
    default:           d = small_from_f32(float_bits(elementary_tanh(x)), f, SMALL_RN, false); break;
    }
    d = flush_small(d, f, ftz);
    /* rounded up to the least normal number, but subnormal if exponents had no lower end: see float.c */
    d = pick32(ftz & ((d & 0x7fff) == 0x0400) & (__builtin_fabs(exact) < 0x1p-14 * (1 - 0x1p-12)), d & 0x8000, d);
    const bool nan = (d & 0x7fff) > small_highest(f) + 1, negative = (d & 0x8000) != 0;
    const uint32_t one = wide ? 0x3f80 : 0x3c00;
    d = pick32((relu & negative & !nan) | (sat & (nan | negative)) | outside, 0, d);
    return pick32(sat & (d > one), one, d);
}

/* Half `at` of the registers, without modifiers. True, and d, unless a product of bf16 is out of the range of f32. */
SG_INLINE bool plain_row(uint32_t *d, enum sg_half_operation operation, struct small_float f, const uint32_t *a,
                         const uint32_t *b, const uint32_t *c, unsigned at)
{
    const bool product = operation == SG_HALF_MUL || operation == SG_HALF_FMA;
    ROW_ARRAY(float, result);
    uint32_t outside = 0;
    SG_FOR_LANES(i) {
        const float x = small_to_f32(a[i] >> at & 0xffff, f), y = small_to_f32(b[i] >> at & 0xffff, f);
        const float p = x * y, size = __builtin_fabsf(p);
        /* NaN is not outside, infinity is; 0 is only where a factor is */
        outside |=
            (uint32_t)(size > 0x1p120f) | ((uint32_t)(size < 0x1p-100f) & (uint32_t)(x != 0) & (uint32_t)(y != 0));
        result[i] = operation == SG_HALF_ADD ? x + y : operation == SG_HALF_SUB ? x - y : operation == SG_HALF_MUL ? p :
                    operation == SG_HALF_FMA ? sum_odd_f32(p, small_to_f32(c[i] >> at & 0xffff, f)) :
                    operation == SG_HALF_EX2 ? (float)elementary_ex2(x) : elementary_tanh(x);
    }
    if (f.exponent_bits == 8 && product && outside)
        return false;
    if (f.exponent_bits == 5)
        narrow_row_f16(d, result, SMALL_RN);
    else
        SG_FOR_LANES(i) d[i] = small_from_f32(float_bits(result[i]), f, SMALL_RN, false);
    return true;
}

SG_INLINE uint32_t half_register(enum sg_half_operation operation, struct small_float f, bool pair, uint32_t a,
                                 uint32_t b, uint32_t c, uint64_t flags)
{
    const uint32_t low = half_lane(operation, f, a & 0xffff, b & 0xffff, c & 0xffff, flags);
    return pair ? low | half_lane(operation, f, a >> 16, b >> 16, c >> 16, flags) << 16 : low;
}

SG_INLINE void half_rows(const struct sg_rows *r, enum sg_half_operation operation, struct small_float f, bool pair)
{
    const bool unary =
        operation == SG_HALF_NEG || operation == SG_HALF_ABS || operation == SG_HALF_EX2 || operation == SG_HALF_TANH;
    const bool bitwise =
        operation == SG_HALF_NEG || operation == SG_HALF_ABS || operation == SG_HALF_MIN || operation == SG_HALF_MAX;
    uint32_t *d = ROW_OF(uint32_t, r->d);
    const uint32_t *a = SOURCE(uint32_t, 0), *b = SOURCE(uint32_t, unary ? 0 : 1),
                   *c = SOURCE(uint32_t, operation == SG_HALF_FMA ? 2 : 0);
    const uint64_t flags = r->immediate;
    ROW_ARRAY(uint32_t, low);
    ROW_ARRAY(uint32_t, high);
    if (!bitwise && !flags && plain_row(low, operation, f, a, b, c, 0) &&
        (!pair || plain_row(high, operation, f, a, b, c, 16)))
        SG_FOR_LANES(i) d[i] = pair ? low[i] | high[i] << 16 : low[i];
    else if (!flags)                                  /* vectorises better without them */
        SG_FOR_LANES(i) d[i] = half_register(operation, f, pair, a[i], b[i], c[i], 0);
    else
        SG_FOR_LANES(i) d[i] = half_register(operation, f, pair, a[i], b[i], c[i], flags);
}

#define ROWS(name, operation)                                                                                       \
    static void name##_f16(const struct sg_rows *r)    { half_rows(r, operation, FORMAT_F16, false); }              \
    static void name##_bf16(const struct sg_rows *r)   { half_rows(r, operation, FORMAT_BF16, false); }             \
    static void name##_f16x2(const struct sg_rows *r)  { half_rows(r, operation, FORMAT_F16, true); }               \
    static void name##_bf16x2(const struct sg_rows *r) { half_rows(r, operation, FORMAT_BF16, true); }
ROWS(add, SG_HALF_ADD)
ROWS(sub, SG_HALF_SUB)
ROWS(mul, SG_HALF_MUL)
ROWS(fma, SG_HALF_FMA)
ROWS(neg, SG_HALF_NEG)
ROWS(abs, SG_HALF_ABS)
ROWS(min, SG_HALF_MIN)
ROWS(max, SG_HALF_MAX)
ROWS(ex2, SG_HALF_EX2)
ROWS(tanh, SG_HALF_TANH)

#define KINDS(name) { name##_f16, name##_bf16, name##_f16x2, name##_bf16x2 }
const struct sg_half_table SG_CLONE(sg_half_table) = {
    .row = { [SG_HALF_ADD] = KINDS(add),
             [SG_HALF_SUB] = KINDS(sub),
             [SG_HALF_MUL] = KINDS(mul),
             [SG_HALF_FMA] = KINDS(fma),
             [SG_HALF_NEG] = KINDS(neg),
             [SG_HALF_ABS] = KINDS(abs),
             [SG_HALF_MIN] = KINDS(min),
             [SG_HALF_MAX] = KINDS(max),
             [SG_HALF_EX2] = KINDS(ex2),
             [SG_HALF_TANH] = KINDS(tanh) },
};
