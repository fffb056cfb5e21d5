/*
 * double.c: rows of f64. PTX ISA, "Floating Point Instructions". See float.c, which this follows; f64 has
 * neither .ftz nor .sat, but for its two coarse approximations.
 */
#include "softgpu/alu/rounding.h"

SG_INLINE void f64_rows(const struct sg_rows *r, enum sg_float_operation operation, enum sg_round mode)
{
    uint64_t *d = ROW_OF(uint64_t, r->d);
    const uint64_t *s0 = SOURCE(uint64_t, 0), *s1 = SOURCE(uint64_t, 1);
    const uint64_t *s2 = SOURCE(uint64_t, operation == SG_FLOAT_FMA ? 2 : 1);
    const uint32_t before = rounding_set(mode);
    SG_FOR_LANES(i) {
        const double a = bits_double(s0[i]), b = bits_double(s1[i]), c = bits_double(s2[i]);
        d[i] = double_bits(operation == SG_FLOAT_ADD ? a + b : operation == SG_FLOAT_SUB ? a - b :
                           operation == SG_FLOAT_MUL ? a * b : fma_f64(a, b, c));
    }
    rounding_restore(mode, before);
}

enum quotient { DIV, RCP, SQRT };

SG_INLINE void quotient_rows(const struct sg_rows *r, enum quotient operation, enum sg_round mode)
{
    uint64_t *d = ROW_OF(uint64_t, r->d);
    const uint64_t *s0 = SOURCE(uint64_t, 0), *s1 = SOURCE(uint64_t, operation == DIV ? 1 : 0);
    const uint32_t before = rounding_set(mode);
    SG_FOR_LANES(i) {
        const double a = bits_double(s0[i]), b = bits_double(s1[i]);
        d[i] = double_bits(operation == DIV ? a / b : operation == RCP ? 1.0 / b : __builtin_sqrt(a));
    }
    rounding_restore(mode, before);
}

SG_INLINE uint64_t flush64(uint64_t x, bool ftz)
{
    return !ftz || (x & 0x7ff0000000000000) ? x : x & 0x8000000000000000;
}

/* rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at the upper 32 bits of the operand and leave the lower 32 of
   the result 0: that is their definition. rsqrt.approx.f64 without .ftz is accurate and takes subnormals. */
#define UPPER 0xffffffff00000000u
SG_INLINE uint64_t upper_of(double x) { return x != x ? 0x7fffffff00000000 : double_bits(x) & UPPER; }
ROW1(rcp_approx, uint64_t, uint64_t, flush64(upper_of(1.0 / bits_double(flush64(a & UPPER, true))), true))
ROW1(rsqrt_approx_ftz, uint64_t, uint64_t, upper_of(1.0 / __builtin_sqrt(bits_double(flush64(a & UPPER, true)))))
ROW1(rsqrt_approx, uint64_t, uint64_t, double_bits(1.0 / __builtin_sqrt(bits_double(a))))

ROW2(f64_copysign, uint64_t, uint64_t, uint64_t, (a & 0x8000000000000000) | (b & 0x7fffffffffffffff))

SG_INLINE int64_t order64(uint64_t x) { return (int64_t)(x ^ ((uint64_t)((int64_t)x >> 63) & 0x7fffffffffffffff)); }
SG_INLINE bool is_nan64(uint64_t x) { return (x & 0x7fffffffffffffff) > 0x7ff0000000000000; }
SG_INLINE uint64_t quiet64(uint64_t nan) { return nan | 0x0008000000000000; }
/* NaNs as an H200 has them: neg and abs keep the sign of one, and of two min and max take the second. */
ROW1(f64_neg, uint64_t, uint64_t, is_nan64(a) ? quiet64(a) : a ^ 0x8000000000000000)
ROW1(f64_abs, uint64_t, uint64_t, is_nan64(a) ? quiet64(a) : a & 0x7fffffffffffffff)
SG_INLINE uint64_t extremum64(uint64_t a, uint64_t b, bool first)
{
    return is_nan64(a) && is_nan64(b) ? quiet64(b) : is_nan64(a) ? b : is_nan64(b) ? a : first ? a : b;
}
ROW2(f64_min, uint64_t, uint64_t, uint64_t, extremum64(a, b, order64(a) < order64(b)))
ROW2(f64_max, uint64_t, uint64_t, uint64_t, extremum64(a, b, order64(a) > order64(b)))

SG_INLINE void testp_rows(const struct sg_rows *r, enum sg_testp test)
{
    ROW_ARRAY(uint64_t, yes);
    const uint64_t *a = SOURCE(uint64_t, 0), infinity = 0x7ff0000000000000, least = 0x0010000000000000;
    SG_FOR_LANES(i) {
        const uint64_t x = a[i] & 0x7fffffffffffffff;
        const bool is = test == SG_FINITE ? x < infinity : test == SG_INFINITE ? x == infinity :
                        test == SG_NUMBER ? x <= infinity : test == SG_NOTANUMBER ? x > infinity :
                        test == SG_NORMAL ? (x >= least && x < infinity) || x == 0 : x != 0 && x < least;
        yes[i] = is ? UINT64_MAX : 0;
    }
    *r->p = pack_lanes64(yes);
}

/* ---- the copies ---- */

#define F64(mode, name, op) static void name##_##mode(const struct sg_rows *r) { f64_rows(r, op, mode); }
MODE_VARIANTS(F64, add, SG_FLOAT_ADD)
MODE_VARIANTS(F64, sub, SG_FLOAT_SUB)
MODE_VARIANTS(F64, mul, SG_FLOAT_MUL)
MODE_VARIANTS(F64, fma, SG_FLOAT_FMA)
#define QUOTIENT(mode, name, op) static void name##_##mode(const struct sg_rows *r) { quotient_rows(r, op, mode); }
MODE_VARIANTS(QUOTIENT, div, DIV)
MODE_VARIANTS(QUOTIENT, rcp, RCP)
MODE_VARIANTS(QUOTIENT, sqrt, SQRT)
#define OF(mode, name) name##_##mode

#define TESTP(name, test) static void testp_##name(const struct sg_rows *r) { testp_rows(r, test); }
TESTP(finite, SG_FINITE)
TESTP(infinite, SG_INFINITE)
TESTP(number, SG_NUMBER)
TESTP(notanumber, SG_NOTANUMBER)
TESTP(normal, SG_NORMAL)
TESTP(subnormal, SG_SUBNORMAL)

const struct sg_double_table SG_CLONE(sg_double_table) = {
    .f64 = { [SG_FLOAT_ADD] = MODE_TABLE(OF, add), [SG_FLOAT_SUB] = MODE_TABLE(OF, sub),
             [SG_FLOAT_MUL] = MODE_TABLE(OF, mul), [SG_FLOAT_FMA] = MODE_TABLE(OF, fma) },
    .div = MODE_TABLE(OF, div), .rcp = MODE_TABLE(OF, rcp), .sqrt = MODE_TABLE(OF, sqrt),
    .rcp_approx = { NULL, rcp_approx }, .rsqrt_approx = { rsqrt_approx, rsqrt_approx_ftz },
    .neg = f64_neg, .abs = f64_abs, .extremum = { f64_min, f64_max }, .copysign = f64_copysign,
    .testp = { testp_finite, testp_infinite, testp_number, testp_notanumber, testp_normal, testp_subnormal },
};
