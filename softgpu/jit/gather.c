/*
 * gather.c: rows from memory whose lanes are anywhere. All lanes load, also those that take no part: their offsets must
 * lead to memory that exists. AVX-512 has an instruction for it; for AVX2 LLVM makes 32 loads.
 */
#include "softgpu/jit/compile.h"

#include <string.h>

/* Addresses of the lanes, as LLVM wants them: a pointer, and how far each lane is from it. */
static LLVMValueRef pointers(struct compiler *c, LLVMTypeRef element, LLVMValueRef base, LLVMValueRef offsets)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef from = LLVMBuildIntToPtr(b, base, LLVMPointerType(c->i8, 0), ""),
                 by = LLVMBuildSExt(b, offsets, c->row64, ""), at = LLVMBuildGEP2(b, c->i8, from, &by, 1, "");
    return LLVMBuildBitCast(b, at, LLVMVectorType(LLVMPointerType(element, 0), SG_LANES), "");
}

LLVMValueRef gather(struct compiler *c, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes)
{
    static const char name[] = "llvm.masked.gather";
    LLVMTypeRef element = bytes == 8 ? c->i64 : c->i32, row = bytes == 8 ? c->row64 : c->row32, types[4];
    LLVMValueRef s[4] = { pointers(c, element, base, offsets), constant_32(c, bytes), LLVMConstAllOnes(c->lanes),
                          LLVMGetUndef(row) };
    for (unsigned k = 0; k < 4; k++)
        types[k] = LLVMTypeOf(s[k]);
    LLVMTypeRef overloaded[2] = { row, types[0] };
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), overloaded, 2);
    return LLVMBuildCall2(c->builder, LLVMFunctionType(row, types, 4, false), f, s, 4, "");
}
