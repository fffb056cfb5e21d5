/*
 * doubles.c: arithmetic of f64. A NaN that comes out is the quieted operand; of two operands, the one that the
 * processor takes, which is up to the order in which a compiler hands them to it. So where a lane's result is NaN, the
 * interpreter's function computes the row again, or the interpreter does many instructions again (late.c).
 */
#include "softgpu/jit/arithmetic.h"

static LLVMTypeRef doubles(const struct compiler *c)
{
    return LLVMVectorType(LLVMDoubleTypeInContext(c->context), c->width);
}

static LLVMValueRef to_double(struct compiler *c, LLVMValueRef bits)
{
    return LLVMBuildBitCast(c->builder, bits, doubles(c), "");
}

static LLVMValueRef is_nan(struct compiler *c, LLVMValueRef x)
{
    return LLVMBuildFCmp(c->builder, LLVMRealUNO, x, x, "");
}

/* With NaNs as the function makes them. */
static LLVMValueRef from_double(struct compiler *c, const struct exec_insn *i, LLVMValueRef x)
{
    LLVMValueRef bits = LLVMBuildBitCast(c->builder, x, c->row64, "");
    const bool one = i->known == EXEC_STRAIGHT_RCP_F64 || i->known == EXEC_STRAIGHT_SQRT_F64; /* operand, and NaN */
    return one || c->late.open ? bits : function_where(c, i, is_nan(c, x), bits);
}

static LLVMValueRef computed(struct compiler *c, uint8_t k, LLVMValueRef *x)
{
    LLVMBuilderRef b = c->builder;
    switch (k) {
    case EXEC_STRAIGHT_ADD_F64: return LLVMBuildFAdd(b, x[0], x[1], "");
    case EXEC_STRAIGHT_SUB_F64: return LLVMBuildFSub(b, x[0], x[1], "");
    case EXEC_STRAIGHT_MUL_F64: return LLVMBuildFMul(b, x[0], x[1], "");
    case EXEC_STRAIGHT_DIV_F64: return LLVMBuildFDiv(b, x[0], x[1], "");
    case EXEC_STRAIGHT_RCP_F64: return LLVMBuildFDiv(b, to_double(c, splat_64(c, 0x3ff0000000000000)), x[0], "");
    case EXEC_STRAIGHT_FMA_F64: return call_intrinsic(c, "llvm.fma", doubles(c), x, 3);
    default:                    return call_intrinsic(c, "llvm.sqrt", doubles(c), x, 1);
    }
}

static LLVMValueRef quiet(struct compiler *c, LLVMValueRef bits)
{
    return LLVMBuildOr(c->builder, bits, splat_64(c, 0x0008000000000000), "");
}

/* Signs and magnitudes as integers in their order, -0 below +0. */
static LLVMValueRef order_of(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef sign = LLVMBuildAShr(b, bits, splat_64(c, 63), "");
    return LLVMBuildXor(b, bits, LLVMBuildAnd(b, sign, splat_64(c, 0x7fffffffffffffff), ""), "");
}

/* A NaN loses to a number; of two the second stays. */
static LLVMValueRef extremum(struct compiler *c, bool least, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef no_x = is_nan(c, to_double(c, s[0])), no_y = is_nan(c, to_double(c, s[1]));
    LLVMValueRef first = LLVMBuildICmp(b, least ? LLVMIntSLT : LLVMIntSGT, order_of(c, s[0]), order_of(c, s[1]), "");
    LLVMValueRef one = LLVMBuildSelect(b, no_y, s[0], LLVMBuildSelect(b, first, s[0], s[1], ""), "");
    return LLVMBuildSelect(b, LLVMBuildAnd(b, no_x, no_y, ""), quiet(c, s[1]), LLVMBuildSelect(b, no_x, s[1], one, ""),
                           "");
}

static LLVMValueRef with_sign(struct compiler *c, uint8_t k, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef number = k == EXEC_STRAIGHT_NEG_F64
                              ? LLVMBuildXor(b, bits, splat_64(c, 0x8000000000000000), "")
                              : LLVMBuildAnd(b, bits, splat_64(c, 0x7fffffffffffffff), "");
    if (c->late.open)
        return number;
    return LLVMBuildSelect(b, is_nan(c, to_double(c, bits)), quiet(c, bits), number, "");
}

/* Of one operand the processor has one NaN only. */
static LLVMValueRef conversion(struct compiler *c, uint8_t k, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef x;
    switch (k) {
    case EXEC_STRAIGHT_CVT_F64_F32:
        x = LLVMBuildFPExt(b, LLVMBuildBitCast(b, bits, c->floats, ""), doubles(c), "");
        break;
    case EXEC_STRAIGHT_CVT_F32_F64:
        return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, to_double(c, bits), c->floats, ""), c->row32, "");
    case EXEC_STRAIGHT_CVT_F64_S32: x = LLVMBuildSIToFP(b, bits, doubles(c), ""); break;
    default:                        x = LLVMBuildUIToFP(b, bits, doubles(c), "");
    }
    return LLVMBuildBitCast(b, x, c->row64, "");
}

/* Replaces numbers that the integer type cannot hold by the nearest that it can, and NaNs by 2^31: LLVM leaves
   conversions of such numbers undefined. */
static LLVMValueRef clamped(struct compiler *c, LLVMValueRef x, bool sign)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef low = to_double(c, splat_64(c, sign ? 0xc1e0000000000000 : 0)), /* -2^31, 0; 2^31, 2^32 */
                 high = to_double(c, splat_64(c, sign ? 0x41e0000000000000 : 0x41f0000000000000));
    LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGE, x, high, ""), below = LLVMBuildFCmp(b, LLVMRealOLT, x, low, ""),
                 inside = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOGE, x, low, ""), LLVMBuildNot(b, above, ""), "");
    LLVMValueRef safe = LLVMBuildSelect(b, inside, x, to_double(c, splat_64(c, 0)), "");
    LLVMValueRef value = sign ? LLVMBuildFPToSI(b, safe, c->row32, "") : LLVMBuildFPToUI(b, safe, c->row32, "");
    value = LLVMBuildSelect(b, above, splat_32(c, sign ? 0x7fffffff : 0xffffffff), value, "");
    value = LLVMBuildSelect(b, below, splat_32(c, sign ? 0x80000000 : 0), value, "");
    return LLVMBuildSelect(b, is_nan(c, x), splat_32(c, 0x80000000), value, "");
}

LLVMValueRef whole_double(struct compiler *c, uint8_t k, unsigned mode, LLVMValueRef bits)
{
    static const char *const names[] = { "llvm.roundeven", "llvm.trunc", "llvm.floor", "llvm.ceil" };
    LLVMValueRef x = to_double(c, bits), whole = call_intrinsic(c, names[mode], doubles(c), &x, 1);
    return k == EXEC_STRAIGHT_INTEGRAL_F64 ? LLVMBuildBitCast(c->builder, whole, c->row64, "")
                                           : clamped(c, whole, k == EXEC_STRAIGHT_F64_TO_S32);
}

LLVMValueRef double_operation(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    const uint8_t k = i->known;
    LLVMValueRef x[3];
    if (k >= EXEC_STRAIGHT_CVT_F64_F32)
        return conversion(c, k, s[0]);
    if (k == EXEC_STRAIGHT_NEG_F64 || k == EXEC_STRAIGHT_ABS_F64)
        return with_sign(c, k, s[0]);
    if (k == EXEC_STRAIGHT_MIN_F64 || k == EXEC_STRAIGHT_MAX_F64)
        return extremum(c, k == EXEC_STRAIGHT_MIN_F64, s);
    for (unsigned n = 0; n < 3; n++)
        x[n] = s[n] ? to_double(c, s[n]) : NULL;
    if (k >= EXEC_STRAIGHT_EQ_F64)
        return LLVMBuildBitCast(c->builder, LLVMBuildFCmp(c->builder, float_predicate(k - EXEC_STRAIGHT_EQ_F64), x[0],
                                                          x[1], ""), c->i32, "");
    return from_double(c, i, computed(c, k, x));
}
