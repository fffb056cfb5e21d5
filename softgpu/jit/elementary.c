/*
 * elementary.c: functions that PTX calls approximations: the operations of softgpu/alu/elementary.h and approx.c, in
 * their order, so that results have the same bits.
 */
#include "softgpu/jit/arithmetic.h"

#include <string.h>

/* ---- numbers ---- */

static LLVMTypeRef doubles(const struct compiler *c)
{
    return LLVMVectorType(LLVMDoubleTypeInContext(c->context), c->width);
}
static LLVMValueRef to_double(struct compiler *c, LLVMValueRef bits)
{
    return LLVMBuildBitCast(c->builder, bits, doubles(c), "");
}
static LLVMValueRef double_bits(struct compiler *c, LLVMValueRef x)
{
    return LLVMBuildBitCast(c->builder, x, c->row64, "");
}
static LLVMValueRef float_bits(struct compiler *c, LLVMValueRef x)
{
    return LLVMBuildBitCast(c->builder, x, c->row32, "");
}

/* In each lane. */
static LLVMValueRef number(struct compiler *c, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return LLVMBuildBitCast(c->builder, splat_32(c, bits), c->floats, "");
}
static LLVMValueRef number_f64(struct compiler *c, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return to_double(c, splat_64(c, bits));
}

/* With so many coefficients, that of the highest power first; each step is rounded once. */
static LLVMValueRef polynomial(struct compiler *c, LLVMValueRef x, const float *coefficients, unsigned count)
{
    LLVMValueRef p = number(c, coefficients[0]);
    for (unsigned k = 1; k < count; k++) {
        LLVMValueRef s[3] = { p, x, number(c, coefficients[k]) };
        p = call_intrinsic(c, "llvm.fma", c->floats, s, 3);
    }
    return p;
}
/* A polynomial whose steps are rounded twice. */
static LLVMValueRef polynomial_f64(struct compiler *c, LLVMValueRef x, const double *coefficients, unsigned count)
{
    LLVMValueRef p = number_f64(c, coefficients[0]);
    for (unsigned k = 1; k < count; k++)
        p = LLVMBuildFAdd(c->builder, number_f64(c, coefficients[k]), LLVMBuildFMul(c->builder, x, p, ""), "");
    return p;
}

/* ---- 2^x ---- */

static LLVMValueRef clamped(struct compiler *c, LLVMValueRef x, LLVMValueRef high, LLVMValueRef low)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef least = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, x, low, ""), low, x, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGT, x, high, ""), high, least, "");
}

/* p times a power of two in two factors, so that only the second product rounds. */
static LLVMValueRef scaled(struct compiler *c, LLVMValueRef p, LLVMValueRef exponent)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef bias = splat_32(c, 127), place = splat_32(c, 23),
                 whole = LLVMBuildSub(b, exponent, float_bits(c, number(c, 0x1.8p23f)), ""),
                 half = LLVMBuildAShr(b, whole, splat_32(c, 1), ""), rest = LLVMBuildSub(b, exponent, half, "");
    LLVMValueRef first = LLVMBuildShl(b, LLVMBuildAdd(b, half, bias, ""), place, ""),
                 second = LLVMBuildShl(b, LLVMBuildAdd(b, rest, bias, ""), place, "");
    p = LLVMBuildFMul(b, p, LLVMBuildBitCast(b, first, c->floats, ""), "");
    return LLVMBuildFMul(b, p, LLVMBuildBitCast(b, second, c->floats, ""), "");
}

static LLVMValueRef ex2(struct compiler *c, LLVMValueRef x, bool ftz)
{
    static const float coefficients[] = { 0x1.416b52p-13f, 0x1.5f082ep-10f, 0x1.3b2dep-7f, 0x1.c6af7cp-5f,
                                          0x1.ebfbdcp-3f,   0x1.62e43p-1f,   1 };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef integer = number(c, 0x1.8p23f), within = ftz ? x : clamped(c, x, number(c, 160), number(c, -160)),
                 shifted = LLVMBuildFAdd(b, within, integer, ""),
                 f = LLVMBuildFSub(b, within, LLVMBuildFSub(b, shifted, integer, ""), "");
    LLVMValueRef exponent = float_bits(c, shifted),
                 p = polynomial(c, f, coefficients, sizeof coefficients / sizeof *coefficients);
    if (!ftz)
        return scaled(c, p, exponent);
    LLVMValueRef y = LLVMBuildAdd(b, float_bits(c, p), LLVMBuildShl(b, exponent, splat_32(c, 23), ""), ""),
                 high = LLVMBuildFAdd(b, x, number(c, __builtin_inff()), "");
    y = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, x, number(c, 128), ""),
                        LLVMBuildBitCast(b, y, c->floats, ""), high, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, x, number(c, -126), ""), number(c, 0), y, "");
}

static LLVMValueRef ex2_f64(struct compiler *c, LLVMValueRef x)
{
    static const double coefficients[] = { 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                                           1.0 / 6,      1.0 / 2,     1,          1 };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef integer = number_f64(c, 0x1.8p52);
    x = clamped(c, x, number_f64(c, 200), number_f64(c, -200));
    LLVMValueRef shifted = LLVMBuildFAdd(b, x, integer, ""),
                 f = LLVMBuildFMul(b, LLVMBuildFSub(b, x, LLVMBuildFSub(b, shifted, integer, ""), ""),
                                   number_f64(c, 0x1.62e42fefa39efp-1), "");
    LLVMValueRef biased = LLVMBuildAdd(b, double_bits(c, shifted), splat_64(c, 1023), ""),
                 scale = to_double(c, LLVMBuildShl(b, biased, splat_64(c, 52), ""));
    return LLVMBuildFMul(b, polynomial_f64(c, f, coefficients, sizeof coefficients / sizeof *coefficients), scale, "");
}

/* ---- the others ---- */

/* Of a positive, finite, normal x. */
static LLVMValueRef log2_f64(struct compiler *c, LLVMValueRef x)
{
    static const double coefficients[] = { 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1 };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef bits = double_bits(c, x), one = number_f64(c, 1), place = splat_64(c, 52),
                 exponent = LLVMBuildSub(b, bits, splat_64(c, 0x3fe6a09e667f3bcd), "");
    exponent = LLVMBuildLShr(b, LLVMBuildAdd(b, exponent, splat_64(c, (uint64_t)1024 << 52), ""), place, "");
    LLVMValueRef power = LLVMBuildShl(b, LLVMBuildSub(b, exponent, splat_64(c, 1024), ""), place, ""),
                 m = to_double(c, LLVMBuildSub(b, bits, power, ""));
    LLVMValueRef f = LLVMBuildFDiv(b, LLVMBuildFSub(b, m, one, ""), LLVMBuildFAdd(b, m, one, ""), ""),
                 g = LLVMBuildFMul(b, f, f, ""),
                 p = LLVMBuildFMul(b, f, polynomial_f64(c, g, coefficients,
                                                        sizeof coefficients / sizeof *coefficients), "");
    LLVMValueRef whole = LLVMBuildSub(b, LLVMBuildTrunc(b, exponent, c->row32, ""), splat_32(c, 1024), "");
    return LLVMBuildFAdd(b, LLVMBuildSIToFP(b, whole, doubles(c), ""),
                         LLVMBuildFMul(b, p, number_f64(c, 0x1.71547652b82fep+1), ""), "");
}

static LLVMValueRef lg2(struct compiler *c, LLVMValueRef x)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef zero = number(c, 0), infinity = number(c, __builtin_inff()), nan = number(c, __builtin_nanf("")),
                 positive = LLVMBuildFCmp(b, LLVMRealOGT, x, zero, ""),
                 inside = LLVMBuildAnd(b, positive, LLVMBuildFCmp(b, LLVMRealOLT, x, infinity, ""), "");
    LLVMValueRef wide = LLVMBuildSelect(b, inside, LLVMBuildFPExt(b, x, doubles(c), ""), number_f64(c, 1), ""),
                 y = LLVMBuildFPTrunc(b, log2_f64(c, wide), c->floats, "");
    y = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOEQ, x, infinity, ""), x, y, "");
    y = LLVMBuildSelect(b, positive, y, nan, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOEQ, x, zero, ""), number(c, -__builtin_inff()), y, "");
}

/* quadrant: 0 for the sine, 1 for the cosine. Not far from 0. */
static LLVMValueRef sine(struct compiler *c, LLVMValueRef x, uint64_t quadrant)
{
    static const double odd[] = { -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1 },
                        even[] = { 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -1.0 / 2, 1 };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef wide = LLVMBuildFPExt(b, x, doubles(c), ""), integer = number_f64(c, 0x1.8p52), none = splat_64(c, 0),
                 shifted = LLVMBuildFAdd(b, LLVMBuildFMul(b, wide, number_f64(c, 0x1.45f306dc9c883p-1), ""), integer,
                                         ""),
                 turns = LLVMBuildFSub(b, shifted, integer, "");
    LLVMValueRef r = LLVMBuildFSub(b, wide, LLVMBuildFMul(b, turns, number_f64(c, 0x1.921fb544p+0), ""), "");
    r = LLVMBuildFSub(b, r, LLVMBuildFMul(b, turns, number_f64(c, 0x1.0b4611a626331p-34), ""), "");
    LLVMValueRef g = LLVMBuildFMul(b, r, r, ""),
                 one = LLVMBuildFMul(b, r, polynomial_f64(c, g, odd, sizeof odd / sizeof *odd), ""),
                 other = polynomial_f64(c, g, even, sizeof even / sizeof *even);
    LLVMValueRef n = LLVMBuildAdd(b, double_bits(c, shifted), splat_64(c, quadrant), ""),
                 first = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, n, splat_64(c, 1), ""), none, ""),
                 second = LLVMBuildICmp(b, LLVMIntNE, LLVMBuildAnd(b, n, splat_64(c, 2), ""), none, "");
    LLVMValueRef y = LLVMBuildSelect(b, first, other, one, "");
    y = LLVMBuildSelect(b, second, LLVMBuildFNeg(b, y, ""), y, "");
    return LLVMBuildFPTrunc(b, y, c->floats, "");
}

static LLVMValueRef sine_of(struct compiler *c, LLVMValueRef x) { return sine(c, x, 0); }
static LLVMValueRef cosine_of(struct compiler *c, LLVMValueRef x) { return sine(c, x, 1); }

static LLVMValueRef tangent(struct compiler *c, LLVMValueRef x)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef size = LLVMBuildAnd(b, float_bits(c, x), splat_32(c, 0x7fffffff), ""),
                 sign = LLVMBuildAnd(b, float_bits(c, x), splat_32(c, 0x80000000), ""), one = number_f64(c, 1),
                 a = LLVMBuildFPExt(b, LLVMBuildBitCast(b, size, c->floats, ""), doubles(c), "");
    LLVMValueRef e = ex2_f64(c, LLVMBuildFMul(b, a, number_f64(c, 0x1.71547652b82fep+1), "")),
                 g = LLVMBuildFMul(b, a, a, "");
    LLVMValueRef third = LLVMBuildFSub(b, number_f64(c, 1.0 / 3), LLVMBuildFMul(b, g, number_f64(c, 2.0 / 15), ""), ""),
                 near = LLVMBuildFMul(b, a, LLVMBuildFSub(b, one, LLVMBuildFMul(b, g, third, ""), ""), ""),
                 far = LLVMBuildFSub(b, one, LLVMBuildFDiv(b, number_f64(c, 2), LLVMBuildFAdd(b, e, one, ""), ""), "");
    LLVMValueRef y = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, a, number_f64(c, 0x1p-7), ""), near, far, "");
    size = LLVMBuildAnd(b, float_bits(c, LLVMBuildFPTrunc(b, y, c->floats, "")), splat_32(c, 0x7fffffff), "");
    return LLVMBuildBitCast(b, LLVMBuildOr(b, size, sign, ""), c->floats, "");
}

/* Above 2^126 the quotient is 0, since a GPU flushes 1 / y. */
static LLVMValueRef quotient(struct compiler *c, LLVMValueRef x, LLVMValueRef y)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef bits = float_bits(c, y), size = LLVMBuildAnd(b, bits, splat_32(c, 0x7fffffff), ""),
                 zero = LLVMBuildBitCast(b, LLVMBuildAnd(b, bits, splat_32(c, 0x80000000), ""), c->floats, "");
    LLVMValueRef large = LLVMBuildAnd(b, LLVMBuildICmp(b, LLVMIntSGT, size, splat_32(c, 0x7e800000), ""),
                                      LLVMBuildICmp(b, LLVMIntSLT, size, splat_32(c, 0x7f800000), ""), "");
    return LLVMBuildSelect(b, large, LLVMBuildFMul(b, x, zero, ""), LLVMBuildFDiv(b, x, y, ""), "");
}

/* ---- rows ---- */

/* Some lanes after the other: of f64 no more than two registers. */
static LLVMValueRef in_parts(struct compiler *c, LLVMValueRef x,
                             LLVMValueRef (*function)(struct compiler *, LLVMValueRef))
{
    const unsigned width = c->width, lanes = c->wish->avx512 ? 16 : 8;
    LLVMValueRef parts[SG_LANES];
    for (unsigned part = 0; part < width / lanes; part++) {
        LLVMValueRef some = vector_part(c, x, part * lanes, lanes);
        set_width(c, lanes);
        parts[part] = function(c, some);
        set_width(c, width);
    }
    return vectors_join(c, parts, width / lanes);
}

/* Beyond 2^20 the function knows better. */
static LLVMValueRef circle(struct compiler *c, const struct exec_insn *i, LLVMValueRef x, bool ftz,
                           LLVMValueRef (*function)(struct compiler *, LLVMValueRef))
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef size = LLVMBuildAnd(b, float_bits(c, x), splat_32(c, 0x7fffffff), ""),
                 far = LLVMBuildFCmp(b, LLVMRealOGT, LLVMBuildBitCast(b, size, c->floats, ""), number(c, 0x1p20f), "");
    return function_where(c, i, far, float_to(c, in_parts(c, x, function), ftz));
}

/* Subnormals become zeros of their sign. */
static LLVMValueRef flushed(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef exponent = LLVMBuildAnd(b, bits, splat_64(c, 0x7ff0000000000000), "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntNE, exponent, splat_64(c, 0), ""), bits,
                           LLVMBuildAnd(b, bits, splat_64(c, 0x8000000000000000), ""), "");
}

/* Of f64; those with .ftz only look at the upper halves of numbers. */
static LLVMValueRef reciprocal_f64(struct compiler *c, unsigned function, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    const bool ftz = function != EXEC_APPROX_RSQRT_F64;
    LLVMValueRef upper = splat_64(c, 0xffffffff00000000);
    LLVMValueRef x = to_double(c, ftz ? flushed(c, LLVMBuildAnd(b, bits, upper, "")) : bits);
    if (function != EXEC_APPROX_RCP_FTZ_F64)
        x = call_intrinsic(c, "llvm.sqrt", doubles(c), &x, 1);
    x = LLVMBuildFDiv(b, number_f64(c, 1), x, "");
    LLVMValueRef y = double_bits(c, x);
    if (!ftz)
        return y;
    y = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), splat_64(c, 0x7fffffff00000000),
                        LLVMBuildAnd(b, y, upper, ""), "");
    return function == EXEC_APPROX_RCP_FTZ_F64 ? flushed(c, y) : y;
}

LLVMValueRef approximation(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    const unsigned function = i->detail & (EXEC_APPROX_FTZ - 1);
    const bool ftz = i->detail & EXEC_APPROX_FTZ;
    if (function >= EXEC_APPROX_RCP_FTZ_F64)
        return reciprocal_f64(c, function, s[0]);
    LLVMValueRef x = float_from(c, s[0], ftz && function != EXEC_APPROX_EX2); /* of a subnormal 2^x is 1 anyway */
    switch (function) {
    case EXEC_APPROX_EX2: return float_to(c, ex2(c, x, ftz), false);
    case EXEC_APPROX_LG2: return float_to(c, in_parts(c, x, lg2), ftz);
    case EXEC_APPROX_SIN: return circle(c, i, x, ftz, sine_of);
    case EXEC_APPROX_COS: return circle(c, i, x, ftz, cosine_of);
    case EXEC_APPROX_DIV: return float_to(c, quotient(c, x, float_from(c, s[1], ftz)), ftz);
    default:              return float_to(c, in_parts(c, x, tangent), ftz);
    }
}
