/*
 * divisions.c: quotients and remainders of integers of 32 bits, as softgpu/alu/integer.c has them: of doubles, whose
 * 53 bits leave enough for truncation to be exact. By a divisor that all lanes share, one division is made, and 32
 * products with a reciprocal that is a bit too large, by 2^-52 or 2^-51 of it: then no product is below a quotient that
 * is whole. Nor does it reach the next whole number, which is 1/b away at least, while a/b is below 2^32.
 */
#include "softgpu/jit/arithmetic.h"

#define IS(name) EXEC_STRAIGHT_##name

static LLVMTypeRef doubles(const struct compiler *c)
{
    return LLVMVectorType(LLVMDoubleTypeInContext(c->context), c->width);
}

static LLVMValueRef to_double(struct compiler *c, bool sign, LLVMValueRef value, LLVMTypeRef type)
{
    return sign ? LLVMBuildSIToFP(c->builder, value, type, "") : LLVMBuildUIToFP(c->builder, value, type, "");
}

/* Is the divisor the same in all lanes? */
static bool is_shared(const struct compiler *c, exec_source at)
{
    const struct row_shape shape = shape_of(c, at, ROW_32);
    return c->width == SG_LANES && shape.kind == SHAPE_STEPS && !shape.step;
}

static LLVMValueRef reciprocal(struct compiler *c, bool sign, exec_source at)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef type = LLVMDoubleTypeInContext(c->context);
    LLVMValueRef divisor = to_double(c, sign, row_first_lane(c, at, ROW_32), type),
                 near = LLVMBuildFDiv(b, LLVMConstReal(type, 1), divisor, "");
    return LLVMBuildBitCast(b, splat(c, address_of(c, LLVMBuildBitCast(b, near, c->i64, ""), 1)), doubles(c), "");
}

LLVMValueRef division(struct compiler *c, const struct exec_insn *i, LLVMValueRef *s)
{
    LLVMBuilderRef b = c->builder;
    const bool sign = i->known == IS(DIV_S32) || i->known == IS(REM_S32),
               remainder = i->known == IS(REM_U32) || i->known == IS(REM_S32);
    const uint64_t whole = sign ? 0x4338000000000000 : 0x4330000000000000; /* 2^52, and a half more for the sign */
    LLVMValueRef x = to_double(c, sign, s[0], doubles(c)), none = splat_32(c, UINT32_MAX), q;
    q = is_shared(c, i->s[1]) ? LLVMBuildFMul(b, x, reciprocal(c, sign, i->s[1]), "")
                              : LLVMBuildFDiv(b, x, to_double(c, sign, s[1], doubles(c)), "");
    q = LLVMBuildFAdd(b, call_intrinsic(c, "llvm.trunc", doubles(c), &q, 1),
                      LLVMBuildBitCast(b, splat_64(c, whole), doubles(c), ""), "");
    q = LLVMBuildTrunc(b, LLVMBuildBitCast(b, q, c->row64, ""), c->row32, "");
    if (remainder)
        q = LLVMBuildSub(b, s[0], LLVMBuildMul(b, q, s[1], ""), "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntEQ, s[1], splat_32(c, 0), ""), none, q, "");
}
