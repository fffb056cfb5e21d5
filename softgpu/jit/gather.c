/*
 * gather.c: rows from memory whose lanes are anywhere. All lanes load, also those that take no part: their offsets must
 * lead to memory that exists. The processor's own instruction for this is not used: on an EPYC with AVX-512 it took
 * longer than a loop over lanes, and 32 loads, whose offsets come from memory, take less. Elements need not be aligned.
 *
 * Often several lanes load the same words, or neighbours in another order: groups of threads that share the elements of
 * a loop. Such words are taken from a few registers. With AVX-512 these are two, for words in a window around that of
 * lane 0 (reach_around); with AVX2 one line of the cache, which may be read whole: granules begin and end with lines.
 */
#include "softgpu/jit/reach.h"

#include <string.h>

enum { LINE = 64, WORDS = LINE / 4, WIDE = 16 };

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

/* Of so many lanes' pairs of 64 bits the first or the second of each. */
static LLVMValueRef one_of_pairs(struct compiler *c, LLVMValueRef pairs, unsigned lanes, unsigned which)
{
    LLVMValueRef from[SG_LANES];
    for (unsigned l = 0; l < lanes; l++)
        from[l] = constant_32(c, 2 * l + which);
    return LLVMBuildShuffleVector(c->builder, pairs, LLVMGetUndef(LLVMTypeOf(pairs)), LLVMConstVector(from, lanes), "");
}

void gather_wide(struct compiler *c, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes, LLVMValueRef *rows)
{
    const unsigned count = WIDE / bytes, group = (c->wish->avx512 ? LINE : LINE / 2) / bytes;
    LLVMTypeRef type = LLVMVectorType(bytes == 8 ? c->i64 : c->i32, count);
    LLVMValueRef vector[SG_LANES], part[WIDE / 4], all[WIDE / 4][SG_LANES / 4];
    store_to(c, offsets, lanes_variable(c, c->lane_places), 64);
    for (unsigned g = 0; g < SG_LANES / group; g++) {
        for (unsigned l = 0; l < group; l++) {
            LLVMValueRef cell = lanes_cell(c, c->lane_places, constant_64(c, g * group + l), 4),
                         offset = LLVMBuildZExt(c->builder, load_from(c, c->i32, cell, 4), c->i64, "");
            vector[l] = load_from(c, type, LLVMBuildAdd(c->builder, base, offset, ""), 1);
        }
        if (bytes == 4)
            vectors_to_rows(c, vector, group, count, part);
        else
            vectors_join(c, vector, group);
        for (unsigned k = 0; k < count; k++)
            all[k][g] = bytes == 4 ? part[k] : one_of_pairs(c, vector[0], group, k);
    }
    for (unsigned k = 0; k < count; k++)
        rows[k] = vectors_join(c, all[k], SG_LANES / group);
}

LLVMValueRef gather_around(struct compiler *c, LLVMValueRef begin, LLVMValueRef offsets)
{
    static const char name[] = "llvm.x86.avx512.vpermi2var.d.512";
    LLVMValueRef which = LLVMBuildLShr(c->builder, offsets, splat(c, constant_32(c, 2)), ""),
                 f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0),
                 words[2], part[SG_LANES / WORDS];
    LLVMTypeRef type = LLVMVectorType(c->i32, WORDS), types[3] = { type, type, type };
    for (unsigned k = 0; k < 2; k++)
        words[k] = load_from(c, type, address_of(c, begin, k * LINE), 4);
    for (unsigned k = 0; k < SG_LANES / WORDS; k++) {
        LLVMValueRef arguments[3] = { words[0], vector_part(c, which, k * WORDS, WORDS), words[1] };
        part[k] = LLVMBuildCall2(c->builder, LLVMFunctionType(type, types, 3, false), f, arguments, 3, "");
    }
    return vectors_join(c, part, SG_LANES / WORDS);
}

/* Of the words of one register those that its lanes name, by the processor's instruction of that name. */
static LLVMValueRef permute(struct compiler *c, const char *name, LLVMValueRef words, LLVMValueRef which)
{
    LLVMTypeRef type = LLVMTypeOf(words), types[2] = { type, type };
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), NULL, 0),
                 arguments[2] = { words, which };
    return LLVMBuildCall2(c->builder, LLVMFunctionType(type, types, 2, false), f, arguments, 2, "");
}

/* The words of a line that the lanes name: 0 to 15. */
static LLVMValueRef pick(struct compiler *c, LLVMValueRef line, LLVMValueRef which)
{
    enum { EACH = WORDS / 2, PARTS = SG_LANES / EACH };
    LLVMBuilderRef b = c->builder;
    LLVMValueRef part[PARTS];
    for (unsigned k = 0; k < PARTS; k++) {
        LLVMValueRef own = vector_part(c, which, k * EACH, EACH),
                     last = vector_part(c, splat(c, constant_32(c, EACH - 1)), 0, EACH),
                     upper = LLVMBuildICmp(b, LLVMIntUGT, own, last, "");
        part[k] = LLVMBuildSelect(b, upper, permute(c, "llvm.x86.avx2.permd", vector_part(c, line, EACH, EACH), own),
                                  permute(c, "llvm.x86.avx2.permd", vector_part(c, line, 0, EACH), own), "");
    }
    return vectors_join(c, part, PARTS);
}

LLVMValueRef gather_near(struct compiler *c, LLVMValueRef base, LLVMValueRef offsets, unsigned bytes)
{
    LLVMBuilderRef b = c->builder;
    if (bytes != 4 || c->wish->avx512)
        return gather(c, base, offsets, bytes);
    LLVMBasicBlockRef near = block_new(c, "near"), far = block_new(c, "far"), done = block_new(c, "gathered"), from[2];
    LLVMValueRef first = LLVMBuildExtractElement(b, offsets, constant_32(c, 0), ""),
                 apart = LLVMBuildAnd(b, LLVMBuildXor(b, offsets, splat(c, first), ""),
                                      splat(c, constant_32(c, ~(uint32_t)(LINE - 1))), ""),
                 joined = lanes_reduced(c, "llvm.vector.reduce.or", apart), row[2];
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, joined, constant_32(c, 0), ""), near, far);
    LLVMPositionBuilderAtEnd(b, near);
    LLVMValueRef begin = LLVMBuildAnd(b, first, constant_32(c, ~(uint32_t)(LINE - 1)), ""),
                 at = LLVMBuildAdd(b, base, LLVMBuildZExt(b, begin, c->i64, ""), ""),
                 which = LLVMBuildLShr(b, offsets, splat(c, constant_32(c, 2)), "");
    which = LLVMBuildAnd(b, which, splat(c, constant_32(c, WORDS - 1)), "");
    row[0] = pick(c, load_from(c, LLVMVectorType(c->i32, WORDS), at, 4), which);
    LLVMBuildBr(b, done);
    from[0] = LLVMGetInsertBlock(b);
    LLVMPositionBuilderAtEnd(b, far);
    row[1] = gather(c, base, offsets, bytes);
    LLVMBuildBr(b, done);
    from[1] = LLVMGetInsertBlock(b);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMValueRef all = LLVMBuildPhi(b, c->row32, "");
    LLVMAddIncoming(all, row, from, 2);
    return all;
}
