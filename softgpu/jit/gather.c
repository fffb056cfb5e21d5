/*
 * gather.c: rows from memory whose lanes are anywhere. All lanes load, also those that take no part: their offsets must
 * lead to memory that exists. The processor's own instruction for this is not used: on an EPYC with AVX-512 it took
 * longer than a loop over lanes, and 32 loads, whose offsets come from memory, take less. Elements need not be aligned.
 */
#include "softgpu/jit/compile.h"

LLVMValueRef gather(struct compiler *c, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes)
{
    LLVMTypeRef element = LLVMIntTypeInContext(c->context, 8 * bytes);
    LLVMValueRef row = LLVMGetUndef(LLVMVectorType(element, SG_LANES));
    store_to(c, offsets, lanes_variable(c, c->lane_places), 64);
    for (unsigned l = 0; l < SG_LANES; l++) {
        LLVMValueRef offset = load_from(c, c->i32, lanes_cell(c, c->lane_places, constant_64(c, l), 4), 4),
                     at = LLVMBuildAdd(c->builder, base, LLVMBuildZExt(c->builder, offset, c->i64, ""), ""),
                     value = load_from(c, element, at, 1);
        row = LLVMBuildInsertElement(c->builder, row, value, constant_32(c, l), "");
    }
    return row;
}
