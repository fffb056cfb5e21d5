/*
 * arithmetic.c: what arithmetic becomes: the same operations as in straight.c, of 32 lanes at once. Nothing is fast
 * math: results are those of the interpreter, bit for bit.
 */
#include "softgpu/jit/arithmetic.h"

/* ---- f32 ---- */

static LLVMValueRef float_operation(struct compiler *c, uint8_t operation, LLVMValueRef *s, bool ftz)
{
    LLVMValueRef x[3];
    for (unsigned k = 0; k < 3; k++)
        x[k] = s[k] ? float_from(c, s[k], ftz) : NULL;
    LLVMValueRef result = operation == EXEC_STRAIGHT_ADD_F32   ? LLVMBuildFAdd(c->builder, x[0], x[1], "")
                          : operation == EXEC_STRAIGHT_SUB_F32 ? LLVMBuildFSub(c->builder, x[0], x[1], "")
                          : operation == EXEC_STRAIGHT_MUL_F32 ? LLVMBuildFMul(c->builder, x[0], x[1], "")
                                                               : call_intrinsic(c, "llvm.fma", c->floats, x, 3);
    return float_to(c, result, ftz);
}

static LLVMValueRef square_root(struct compiler *c, LLVMValueRef x)
{
    return call_intrinsic(c, "llvm.sqrt", c->floats, &x, 1);
}

/* Divisions and roots, rounded to nearest also where PTX allows less: so does softgpu/alu. */
static LLVMValueRef quotient(struct compiler *c, uint8_t operation, LLVMValueRef *s, bool ftz)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef x = float_from(c, s[0], ftz), one = LLVMBuildBitCast(b, splat_32(c, 0x3f800000), c->floats, "");
    switch (operation) {
    case EXEC_STRAIGHT_DIV_F32:  x = LLVMBuildFDiv(b, x, float_from(c, s[1], ftz), ""); break;
    case EXEC_STRAIGHT_RCP_F32:  x = LLVMBuildFDiv(b, one, x, ""); break;
    case EXEC_STRAIGHT_SQRT_F32: x = square_root(c, x); break;
    default:                     x = LLVMBuildFDiv(b, one, square_root(c, x), "");
    }
    return float_to(c, x, ftz);
}

/* Signs and magnitudes of floats as integers in their order, -0 below +0. */
static LLVMValueRef order_of(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef sign = LLVMBuildAShr(b, bits, splat_32(c, 31), "");
    return LLVMBuildXor(b, bits, LLVMBuildAnd(b, sign, splat_32(c, 0x7fffffff), ""), "");
}

/* A NaN loses to a number. */
static LLVMValueRef float_extremum(struct compiler *c, bool least, LLVMValueRef *s, bool ftz)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef x = ftz ? float_flush(c, s[0]) : s[0], y = ftz ? float_flush(c, s[1]) : s[1],
                 no_x = float_is_nan(c, x), no_y = float_is_nan(c, y);
    LLVMValueRef first = LLVMBuildICmp(b, least ? LLVMIntSLT : LLVMIntSGT, order_of(c, x), order_of(c, y), "");
    LLVMValueRef one = LLVMBuildSelect(b, no_y, x, LLVMBuildSelect(b, first, x, y, ""), "");
    return LLVMBuildSelect(b, LLVMBuildAnd(b, no_x, no_y, ""), splat_32(c, 0x7fffffff),
                           LLVMBuildSelect(b, no_x, y, one, ""), "");
}

/* ---- other operations ---- */

static LLVMValueRef with_sign(struct compiler *c, LLVMValueRef bits)
{
    c->raw = c->may_raw;
    return c->raw ? bits : canonical(c, bits);
}

/* Conversions and signs. NULL: none of these. */
static LLVMValueRef conversion(struct compiler *c, uint8_t operation, LLVMValueRef a)
{
    LLVMBuilderRef b = c->builder;
    switch (operation) {
    case EXEC_STRAIGHT_NEG_F32: return with_sign(c, LLVMBuildXor(b, a, splat_32(c, 0x80000000), ""));
    case EXEC_STRAIGHT_ABS_F32: return with_sign(c, LLVMBuildAnd(b, a, splat_32(c, 0x7fffffff), ""));
    case EXEC_STRAIGHT_CVT_F32_S32: return LLVMBuildBitCast(b, LLVMBuildSIToFP(b, a, c->floats, ""), c->row32, "");
    case EXEC_STRAIGHT_CVT_F32_U32: return LLVMBuildBitCast(b, LLVMBuildUIToFP(b, a, c->floats, ""), c->row32, "");
    case EXEC_STRAIGHT_SAT_F32: return float_saturated(c, a);
    default: return NULL;
    }
}

static LLVMValueRef float_comparison(struct compiler *c, uint8_t operation, LLVMValueRef *s, bool ftz)
{
    return LLVMBuildFCmp(c->builder, float_predicate(operation - EXEC_STRAIGHT_EQ_F32), float_from(c, s[0], ftz),
                         float_from(c, s[1], ftz), "");
}

static LLVMValueRef value_of(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    uint8_t k = i->known;
    if (k >= EXEC_STRAIGHT_ADD_F32 && k <= EXEC_STRAIGHT_FMA_F32)
        return float_operation(c, k, s, false);
    if (k >= EXEC_STRAIGHT_ADD_FTZ_F32 && k <= EXEC_STRAIGHT_FMA_FTZ_F32)
        return float_operation(c, (uint8_t)(k - EXEC_STRAIGHT_ADD_FTZ_F32 + EXEC_STRAIGHT_ADD_F32), s, true);
    if (k >= EXEC_STRAIGHT_EQ_F32 && k <= EXEC_STRAIGHT_GEU_F32)
        return LLVMBuildBitCast(b, float_comparison(c, k, s, i->kind & EXEC_ALU_FLUSHED), c->i32, "");
    if (k >= EXEC_STRAIGHT_DIV_F32 && k <= EXEC_STRAIGHT_MAX_FTZ_F32) {
        const bool ftz = k >= EXEC_STRAIGHT_DIV_FTZ_F32;
        const uint8_t plain = (uint8_t)(ftz ? k - EXEC_STRAIGHT_DIV_FTZ_F32 + EXEC_STRAIGHT_DIV_F32 : k);
        if (plain >= EXEC_STRAIGHT_MIN_F32)
            return float_extremum(c, plain == EXEC_STRAIGHT_MIN_F32, s, ftz);
        LLVMValueRef result = quotient(c, plain, s, ftz);
        return k == EXEC_STRAIGHT_DIV_FTZ_F32 ? float_least(c, i, result) : result;
    }
    if (k >= EXEC_STRAIGHT_ADD_F64 && k <= EXEC_STRAIGHT_CVT_F64_U32)
        return double_operation(c, i, s);
    if (k == EXEC_STRAIGHT_CVT_F32_F16 || k == EXEC_STRAIGHT_CVT_F16_F32)
        return half_conversion(c, k, s[0]);
    if (k >= EXEC_STRAIGHT_INTEGRAL_F32 && k <= EXEC_STRAIGHT_F32_TO_U32)
        return whole_float(c, k, i->detail, s[0]);
    if (k >= EXEC_STRAIGHT_DIV_U32 && k <= EXEC_STRAIGHT_REM_S32)
        return division(c, i, s);
    if (k >= EXEC_STRAIGHT_INTEGRAL_F64 && k <= EXEC_STRAIGHT_F64_TO_U32)
        return whole_double(c, k, i->detail, s[0]);
    if (k >= EXEC_STRAIGHT_CVT_F32_SMALL && k <= EXEC_STRAIGHT_CVT_F64_64)
        return float_of_integer(c, k, i->detail, s[0]);
    if (k >= EXEC_STRAIGHT_APPROX_F32 && k <= EXEC_STRAIGHT_APPROX_F64)
        return approximation(c, i, s);
    if (k == EXEC_STRAIGHT_ROUNDED_2_F32 || k == EXEC_STRAIGHT_ROUNDED_3_F32)
        return rounded(c, i, s);
    if (k == EXEC_STRAIGHT_SELP_32 || k == EXEC_STRAIGHT_SELP_64)
        return LLVMBuildSelect(b, lanes_of(c, predicate_read(c, i->in, i->in_flip)), s[0], s[1], "");
    LLVMValueRef result = conversion(c, k, s[0]);
    return result ? result : integer_operation(c, i, s);
}

/* Do the bits of a NaN among the operands make no difference? */
static bool takes_raw(uint8_t k)
{
    return (k >= EXEC_STRAIGHT_ADD_F32 && k <= EXEC_STRAIGHT_FMA_FTZ_F32) ||
           (k >= EXEC_STRAIGHT_EQ_F32 && k <= EXEC_STRAIGHT_MAX_FTZ_F32) || k == EXEC_STRAIGHT_NEG_F32 ||
           k == EXEC_STRAIGHT_ABS_F32 || k == EXEC_STRAIGHT_SAT_F32 || k == EXEC_STRAIGHT_APPROX_F32 ||
           k == EXEC_STRAIGHT_APPROX_2_F32 || k == EXEC_STRAIGHT_ROUNDED_2_F32 || k == EXEC_STRAIGHT_ROUNDED_3_F32 ||
           (k >= EXEC_STRAIGHT_INTEGRAL_F32 && k <= EXEC_STRAIGHT_F32_TO_U32) || k == EXEC_STRAIGHT_CVT_F16_F32;
}

/* Does it give one of its sources, which all are raw? */
static bool passes_raw(struct compiler *c, const struct exec_insn *i, const struct arithmetic_form *form)
{
    bool raw = c->may_raw && c->width == SG_LANES && (i->known == EXEC_STRAIGHT_SELP_32 ||
                                                      i->known == EXEC_STRAIGHT_COPY_32);
    for (unsigned k = 0; raw && k < 2; k++)
        raw = !form->s[k] || row_is_raw(c, i->s[k], ROW_32);
    return raw;
}

/* What setp makes of a comparison. */
static LLVMValueRef combined(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes)
{
    const unsigned how = i->kind & EXEC_ALU_COMBINED;
    LLVMValueRef in = how ? predicate_read(c, i->in, i->in_flip) : NULL;
    return !how                  ? lanes
           : how == EXEC_ALU_AND ? LLVMBuildAnd(c->builder, lanes, in, "")
           : how == EXEC_ALU_OR  ? LLVMBuildOr(c->builder, lanes, in, "")
                                 : LLVMBuildXor(c->builder, lanes, in, "");
}

bool emit_arithmetic(struct compiler *c, const struct exec_insn *i)
{
    const struct arithmetic_form *form = arithmetic_form_of(i);
    LLVMValueRef s[4] = { NULL };
    if (!form)
        return false;
    const bool same = shapes_all_equal(c, i);
    if (same)
        set_width(c, 1);
    c->may_raw = row_may_be_raw(c, i, form->d);
    const bool passes = passes_raw(c, i, form);
    c->takes_raw = passes || takes_raw(i->known);
    for (unsigned k = 0; k < 4; k++)
        if (form->s[k])
            s[k] = row_read(c, i->s[k], form->s[k]);
    c->takes_raw = false;
    LLVMValueRef value = value_of(c, i, s);
    c->raw |= passes;
    if (same)
        set_width(c, SG_LANES);
    if (form->d == ROW_PREDICATE)
        row_put(c, i, i->p, ROW_PREDICATE, combined(c, i, value));
    else
        row_put(c, i, i->d, form->d, value ? value : function_row(c, i, form->d));
    c->raw = c->raw && c->width < SG_LANES; /* of a run: until the next instruction */
    return true;
}
