/* conversions.c: from f32 to whole numbers, from integers, and between f32 and f16. See arithmetic.c. */
#include "softgpu/jit/arithmetic.h"

static LLVMValueRef to_float(struct compiler *c, LLVMValueRef bits)
{
    return LLVMBuildBitCast(c->builder, bits, c->floats, "");
}

static LLVMValueRef number(struct compiler *c, uint32_t bits) { return to_float(c, splat_32(c, bits)); }

/* mode: an exec_round */
static LLVMValueRef whole(struct compiler *c, unsigned mode, LLVMValueRef bits)
{
    static const char *const names[] = { "llvm.roundeven", "llvm.trunc", "llvm.floor", "llvm.ceil" };
    LLVMValueRef x = to_float(c, bits);
    return call_intrinsic(c, names[mode], c->floats, &x, 1);
}

/* What a type cannot hold becomes the nearest that it can, and NaN 0. LLVM leaves such conversions undefined, so what
   is converted is in range. */
static LLVMValueRef clamped(struct compiler *c, LLVMValueRef x, bool sign)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef low = number(c, sign ? 0xcf000000 : 0), /* -2^31, 0; 2^31, 2^32 */
                 high = number(c, sign ? 0x4f000000 : 0x4f800000);
    LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGE, x, high, ""), inside =
        LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOGE, x, low, ""), LLVMBuildNot(b, above, ""), "");
    LLVMValueRef safe = LLVMBuildSelect(b, inside, x, number(c, 0), "");
    LLVMValueRef value = sign ? LLVMBuildFPToSI(b, safe, c->row32, "") : LLVMBuildFPToUI(b, safe, c->row32, "");
    value = LLVMBuildSelect(b, above, splat_32(c, sign ? 0x7fffffff : 0xffffffff), value, "");
    if (!sign)
        return value;
    LLVMValueRef below = LLVMBuildFCmp(b, LLVMRealOLT, x, low, "");
    return LLVMBuildSelect(b, below, splat_32(c, 0x80000000), value, "");
}

/* A vector of numbers of 16 bits. */
static LLVMTypeRef halves(const struct compiler *c, LLVMTypeRef of) { return LLVMVectorType(of, c->width); }

LLVMValueRef whole_float(struct compiler *c, uint8_t k, unsigned mode, LLVMValueRef bits)
{
    LLVMValueRef x = whole(c, mode, bits);
    return k == EXEC_STRAIGHT_INTEGRAL_F32 ? canonical(c, LLVMBuildBitCast(c->builder, x, c->row32, ""))
                                           : clamped(c, x, k == EXEC_STRAIGHT_F32_TO_S32);
}

LLVMValueRef half_conversion(struct compiler *c, uint8_t k, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef words = halves(c, LLVMInt16TypeInContext(c->context)),
                half = halves(c, LLVMHalfTypeInContext(c->context));
    if (k == EXEC_STRAIGHT_CVT_F32_F16) {
        LLVMValueRef x = LLVMBuildBitCast(b, LLVMBuildTrunc(b, bits, words, ""), half, "");
        return canonical(c, LLVMBuildBitCast(b, LLVMBuildFPExt(b, x, c->floats, ""), c->row32, ""));
    }
    LLVMValueRef x = to_float(c, bits), narrow = LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, x, half, ""), words, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealUNO, x, x, ""), splat_32(c, 0x7fff),
                           LLVMBuildZExt(b, narrow, c->row32, ""), "");
}

LLVMValueRef float_of_integer(struct compiler *c, uint8_t k, unsigned detail, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    const bool wide = k == EXEC_STRAIGHT_CVT_F64_64, sign = detail & EXEC_FROM_SIGNED;
    LLVMTypeRef type = wide ? LLVMVectorType(LLVMDoubleTypeInContext(c->context), c->width) : c->floats;
    if (k == EXEC_STRAIGHT_CVT_F32_SMALL) { /* what is above its bits does not count */
        LLVMValueRef above = splat_32(c, 32 - (detail & EXEC_FROM_BITS));
        bits = LLVMBuildShl(b, bits, above, "");
        bits = sign ? LLVMBuildAShr(b, bits, above, "") : LLVMBuildLShr(b, bits, above, "");
    }
    LLVMValueRef x = sign ? LLVMBuildSIToFP(b, bits, type, "") : LLVMBuildUIToFP(b, bits, type, "");
    return LLVMBuildBitCast(b, x, wide ? c->row64 : c->row32, "");
}
