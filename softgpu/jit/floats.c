/* floats.c: numbers, and f32 as bits: what the files of arithmetic share. See arithmetic.h. */
#include "softgpu/jit/arithmetic.h"

#include <string.h>

LLVMValueRef splat_32(struct compiler *c, uint32_t value) { return splat(c, constant_32(c, value)); }
LLVMValueRef splat_64(struct compiler *c, uint64_t value) { return splat(c, constant_64(c, value)); }

LLVMValueRef call_intrinsic(struct compiler *c, const char *name, LLVMTypeRef type, LLVMValueRef *s, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, id, &type, 1);
    LLVMTypeRef types[3];
    for (unsigned k = 0; k < n; k++)
        types[k] = LLVMTypeOf(s[k]);
    return LLVMBuildCall2(c->builder, LLVMFunctionType(type, types, n, false), f, s, n, "");
}

/* Subnormals become zeros of their sign. */
LLVMValueRef float_flush(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef exponent = LLVMBuildAnd(b, bits, splat_32(c, 0x7f800000), "");
    LLVMValueRef stays = LLVMBuildICmp(b, LLVMIntNE, exponent, splat_32(c, 0), "");
    return LLVMBuildSelect(b, stays, bits, LLVMBuildAnd(b, bits, splat_32(c, 0x80000000), ""), "");
}

LLVMValueRef float_from(struct compiler *c, LLVMValueRef bits, bool ftz)
{
    return LLVMBuildBitCast(c->builder, ftz ? float_flush(c, bits) : bits, c->floats, "");
}

LLVMValueRef float_is_nan(struct compiler *c, LLVMValueRef bits)
{
    LLVMValueRef x = LLVMBuildBitCast(c->builder, bits, c->floats, "");
    return LLVMBuildFCmp(c->builder, LLVMRealUNO, x, x, "");
}

/* Any NaN is 0x7fffffff, where something needs it. */
LLVMValueRef float_to(struct compiler *c, LLVMValueRef x, bool ftz)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef bits = LLVMBuildBitCast(b, x, c->row32, "");
    if (ftz)
        bits = float_flush(c, bits);
    c->raw = c->may_raw;
    return c->raw ? bits : canonical(c, bits);
}

/* Between 0 and 1; NaN is 0. */
LLVMValueRef float_saturated(struct compiler *c, LLVMValueRef bits)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef one = splat_32(c, 0x3f800000), zero = splat_32(c, 0);
    LLVMValueRef none = LLVMBuildOr(b, float_is_nan(c, bits), LLVMBuildICmp(b, LLVMIntSLT, bits, zero, ""), "");
    LLVMValueRef most = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGT, bits, one, ""), one, bits, "");
    return LLVMBuildSelect(b, none, zero, most, "");
}

LLVMRealPredicate float_predicate(unsigned number)
{
    static const LLVMRealPredicate predicates[] = { LLVMRealOEQ, LLVMRealONE, LLVMRealOLT, LLVMRealOLE,
                                                    LLVMRealOGT, LLVMRealOGE, LLVMRealUEQ, LLVMRealUNE,
                                                    LLVMRealULT, LLVMRealULE, LLVMRealUGT, LLVMRealUGE };
    return predicates[number];
}
