/*
 * lanes.c: accesses of memory lane by lane: where lanes are not side by side, or only some take part. All of them must
 * be right before the first is made: aligned, and in shared memory, or in global memory that may be touched so
 * (reach.c). Else the interpreter does the instruction. With AVX-512, some lanes whose elements lie as if all halves of
 * the warp were side by side are done at once.
 */
#include "softgpu/jit/access.h"
#include "softgpu/jit/reach.h"

#include <string.h>

/* The value of a variable of `begin`, one cell for each lane, as an address. */
LLVMValueRef lanes_variable(struct compiler *c, LLVMValueRef variable)
{
    return LLVMBuildPtrToInt(c->builder, variable, c->i64, "");
}

void lanes_begin(struct compiler *c)
{
    c->lane_places = variable_new(c, c->row64, "places");
    c->lane_cells = variable_new(c, c->row64, "cells");
    c->lane_vectors = variable_new(c, LLVMArrayType(c->row64, 2), "vectors"); /* 16 bytes each */
    LLVMSetAlignment(c->lane_places, 64);
    LLVMSetAlignment(c->lane_cells, 64);
    LLVMSetAlignment(c->lane_vectors, 64);
}

LLVMValueRef lanes_first(struct compiler *c, LLVMValueRef lanes)
{
    unsigned id = LLVMLookupIntrinsicID("llvm.cttz", strlen("llvm.cttz"));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, id, &c->i32, 1);
    LLVMTypeRef types[2] = { c->i32, c->i1 };
    LLVMValueRef arguments[2] = { lanes, LLVMConstInt(c->i1, true, false) }; /* there is one */
    LLVMValueRef lane = LLVMBuildCall2(c->builder, LLVMFunctionType(c->i32, types, 2, false), f, arguments, 2, "");
    return LLVMBuildZExt(c->builder, lane, c->i64, "");
}

LLVMValueRef lanes_cell(struct compiler *c, LLVMValueRef variable, LLVMValueRef lane, unsigned bytes)
{
    LLVMValueRef offset = LLVMBuildMul(c->builder, lane, constant_64(c, bytes), "");
    return LLVMBuildAdd(c->builder, lanes_variable(c, variable), offset, "");
}

/* Goes on in `step` if one of the lanes is among the wrong ones. */
static void leave_if(struct compiler *c, LLVMValueRef wrong, LLVMValueRef lanes, LLVMBasicBlockRef step)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef mask = LLVMBuildAnd(b, LLVMBuildBitCast(b, wrong, c->i32, ""), lanes, "");
    LLVMBasicBlockRef right = block_new(c, "right");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, mask, constant_32(c, 0), ""), right, step);
    LLVMPositionBuilderAtEnd(b, right);
}

static LLVMValueRef some_bits(struct compiler *c, LLVMValueRef row, uint64_t bits)
{
    LLVMTypeRef type = LLVMTypeOf(row);
    LLVMValueRef mask = splat(c, type == c->row64 ? constant_64(c, bits) : constant_32(c, bits));
    return LLVMBuildICmp(c->builder, LLVMIntNE, LLVMBuildAnd(c->builder, row, mask, ""), LLVMConstNull(type), "");
}

static struct reach reach_of(struct compiler *c, const struct exec_insn *i)
{
    const unsigned bytes = i->size * i->vector;
    LLVMValueRef offset = splat(c, constant_64(c, (uint64_t)i->offset));
    return (struct reach){ .at = LLVMBuildAdd(c->builder, row_read(c, i->s[0], ROW_64), offset, ""),
                           .bytes = bytes,
                           .align = bytes };
}

void lanes_find_global(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, unsigned rights,
                       LLVMBasicBlockRef step)
{
    struct reach r = reach_of(c, i);
    reach_find(c, &r, lanes, rights, step);
    store_to(c, r.at, lanes_variable(c, c->lane_places), 64);
}

void lanes_find_shared(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef step)
{
    LLVMBuilderRef b = c->builder;
    const bool narrow = i->flags & EXEC_ADDRESS_32, none = i->flags & EXEC_ADDRESS_UNIFORM;
    LLVMValueRef a = none ? LLVMConstNull(c->row32) : row_read(c, i->s[0], narrow ? ROW_32 : ROW_64);
    if (!none && !narrow)
        a = LLVMBuildTrunc(b, a, c->row32, "");
    LLVMValueRef at = LLVMBuildAdd(b, a, splat(c, constant_32(c, (uint32_t)i->offset)), ""),
                 end = LLVMBuildAdd(b, at, splat(c, constant_32(c, i->size)), "");
    LLVMValueRef size = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared_size)), 8);
    LLVMValueRef beyond = LLVMBuildICmp(b, LLVMIntUGT, end, splat(c, LLVMBuildTrunc(b, size, c->i32, "")), "");
    leave_if(c, LLVMBuildOr(b, beyond, some_bits(c, at, 0x80000000u | (i->size - 1u)), ""), lanes, step);
    LLVMValueRef shared = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, shared)), 8);
    LLVMValueRef all = LLVMBuildAdd(b, LLVMBuildZExt(b, at, c->row64, ""), splat(c, shared), "");
    store_to(c, all, lanes_variable(c, c->lane_places), 64);
}

static void move_vector(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane)
{
    const unsigned bytes = i->size * i->vector;
    LLVMTypeRef type = LLVMVectorType(i->size == 8 ? c->i64 : c->i32, i->vector);
    LLVMValueRef memory = load_from(c, c->i64, lanes_cell(c, c->lane_places, lane, 8), 8),
                 own = lanes_cell(c, c->lane_vectors, lane, bytes);
    const bool store = access_is_store(i);
    LLVMValueRef value = load_from(c, type, store ? own : memory, bytes);
    LLVMSetVolatile(value, true);
    LLVMSetVolatile(store_to(c, value, store ? memory : own, bytes), true);
}

/* One lane's access: from or to its cell. */
static void move(struct compiler *c, const struct exec_insn *i, LLVMValueRef lane)
{
    LLVMBuilderRef b = c->builder;
    if (i->vector > 1) {
        move_vector(c, i, lane);
        return;
    }
    LLVMTypeRef type = LLVMIntTypeInContext(c->context, 8u * i->size), cell_type = i->size == 8 ? c->i64 : c->i32;
    LLVMValueRef at = load_from(c, c->i64, lanes_cell(c, c->lane_places, lane, 8), 8),
                 cell = lanes_cell(c, c->lane_cells, lane, i->size == 8 ? 8 : 4);
    if (access_is_store(i)) {
        LLVMValueRef value = load_from(c, cell_type, cell, 4);
        LLVMSetVolatile(store_to(c, i->size < 4 ? LLVMBuildTrunc(b, value, type, "") : value, at, i->size), true);
        return;
    }
    LLVMValueRef value = load_from(c, type, at, i->size);
    LLVMSetVolatile(value, true);
    store_to(c, widened(c, i, value), cell, 4);
}

/* All lanes, without a loop: tiles are often turned on their way to shared memory, and products of matrices wait for
   these stores. */
static void store_all(struct compiler *c, const struct exec_insn *i)
{
    for (unsigned l = 0; l < SG_LANES; l++)
        move(c, i, constant_64(c, l));
}

void lanes_each(struct compiler *c, LLVMValueRef lanes,
                void (*body)(struct compiler *, const struct exec_insn *, LLVMValueRef lane), const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b), loop = block_new(c, "lane"), done = block_new(c, "lanes");
    LLVMBuildBr(b, loop);
    LLVMPositionBuilderAtEnd(b, loop);
    LLVMValueRef left = LLVMBuildPhi(b, c->i32, "");
    body(c, i, lanes_first(c, left));
    LLVMBasicBlockRef end = LLVMGetInsertBlock(b);
    LLVMValueRef rest = LLVMBuildAnd(b, left, LLVMBuildSub(b, left, constant_32(c, 1), ""), "");
    LLVMAddIncoming(left, &lanes, &from, 1);
    LLVMAddIncoming(left, &rest, &end, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, rest, constant_32(c, 0), ""), done, loop);
    LLVMPositionBuilderAtEnd(b, done);
}

/* Where lane 0 or 16 would be, if all lanes of its half were as far apart as elements are. Of the lowest of the half's
   lanes that take part; of none, any number. */
static LLVMValueRef half_begin(struct compiler *c, LLVMValueRef lanes, unsigned half, unsigned size)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef own = LLVMBuildLShr(b, lanes, constant_32(c, half * HALF), ""),
                 first = lanes_first(c, LLVMBuildOr(b, own, constant_32(c, 1u << (HALF - 1)), "")),
                 lane = address_of(c, first, half * HALF),
                 offset = load_from(c, c->i32, lanes_cell(c, c->lane_places, lane, 4), 4),
                 before = LLVMBuildTrunc(b, LLVMBuildMul(b, first, constant_64(c, size), ""), c->i32, "");
    return LLVMBuildSub(b, offset, before, "");
}

/* Goes on where these lanes are not few, and the elements of each half lie side by side, with the addresses of lanes 0
   and 16, which may take no part; in `each` where not. */
static void go_on_beside(struct compiler *c, const struct reach *r, LLVMValueRef lanes, unsigned size,
                         LLVMBasicBlockRef each, LLVMValueRef *address)
{
    enum { FEW = 4 };
    static const char count[] = "llvm.ctpop";
    LLVMBuilderRef b = c->builder;
    LLVMValueRef begin[2];
    LLVMTypeRef type = LLVMFunctionType(c->i32, &c->i32, 1, false);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(count, strlen(count)), &c->i32, 1);
    store_to(c, r->offsets, lanes_variable(c, c->lane_places), 64);
    for (unsigned h = 0; h < 2; h++)
        begin[h] = half_begin(c, lanes, h, size);
    LLVMValueRef beside = LLVMBuildICmp(b, LLVMIntEQ, r->offsets, half_ramps(c, begin[0], begin[1], size), ""),
                 right = LLVMBuildOr(b, LLVMBuildBitCast(b, beside, c->i32, ""), LLVMBuildNot(b, lanes, ""), ""),
                 all = LLVMBuildICmp(b, LLVMIntEQ, right, constant_32(c, UINT32_MAX), ""),
                 those = LLVMBuildCall2(b, type, f, &lanes, 1, ""),
                 many = LLVMBuildICmp(b, LLVMIntUGT, those, constant_32(c, FEW), "");
    LLVMBasicBlockRef found = block_new(c, "beside");
    LLVMBuildCondBr(b, both(c, many, all), found, each);
    LLVMPositionBuilderAtEnd(b, found);
    for (unsigned h = 0; h < 2; h++)
        address[h] = LLVMBuildAdd(b, r->first, LLVMBuildSExt(b, begin[h], c->i64, ""), "");
}

/* Of elements that lie so. */
static void move_beside(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, const LLVMValueRef *address)
{
    LLVMBuilderRef b = c->builder;
    const enum row_bits bits = access_bits(i);
    const bool store = access_is_store(i);
    LLVMTypeRef element = LLVMIntTypeInContext(c->context, 8u * i->size), type = LLVMVectorType(element, HALF),
                all = LLVMVectorType(element, SG_LANES), none = LLVMVoidTypeInContext(c->context);
    LLVMValueRef which = lanes_of(c, lanes), align = constant_32(c, i->size), half[2], value = NULL;
    if (store)
        value = row_read(c, i->s[1], bits);
    if (store && i->size < 4)
        value = LLVMBuildTrunc(b, value, all, "");
    for (unsigned h = 0; h < 2; h++) {
        LLVMValueRef at = LLVMBuildIntToPtr(b, address[h], LLVMPointerType(type, 0), ""),
                     own = vector_part(c, which, h * HALF, HALF);
        if (store) {
            LLVMValueRef s[4] = { vector_part(c, value, h * HALF, HALF), at, align, own };
            masked(c, "llvm.masked.store", type, none, s);
        } else {
            LLVMValueRef s[4] = { at, align, own, LLVMConstNull(type) };
            half[h] = masked(c, "llvm.masked.load", type, type, s);
        }
    }
    if (!store)
        row_put(c, i, i->d, bits, widened(c, i, halves_join(c, half)));
}

/* Goes on where that is not how these lanes lie, which may be touched. */
static void beside_or_on(struct compiler *c, const struct exec_insn *i, const struct reach *r, LLVMValueRef lanes,
                         LLVMBasicBlockRef behind)
{
    LLVMValueRef address[2];
    if (!c->wish->avx512 || !lanes)
        return;
    LLVMBasicBlockRef each = block_new(c, "each");
    go_on_beside(c, r, lanes, i->size, each, address);
    move_beside(c, i, lanes, address);
    LLVMBuildBr(c->builder, behind);
    LLVMPositionBuilderAtEnd(c->builder, each);
}

/* Loads of global memory, without a loop. */
static void gather_global(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef step,
                          LLVMBasicBlockRef behind)
{
    enum { WINDOW = 128 };
    LLVMBuilderRef b = c->builder;
    struct reach r = reach_of(c, i), near = r;
    const bool around = !lanes && c->wish->avx512 && i->size == 4;
    LLVMBasicBlockRef from[2], far = around ? block_new(c, "far") : NULL, done = around ? block_new(c, "done") : NULL;
    LLVMValueRef elements[2];
    if (around) {
        reach_around(c, &near, WINDOW, far);
        elements[0] = gather_around(c, near.first, near.offsets);
        from[0] = LLVMGetInsertBlock(b);
        LLVMBuildBr(b, done);
        LLVMPositionBuilderAtEnd(b, far);
        r.span = near.span;
    }
    reach_find(c, &r, lanes ? lanes : constant_32(c, UINT32_MAX), SG_READ, step);
    beside_or_on(c, i, &r, lanes, behind);
    LLVMValueRef offsets = reach_offsets(c, &r, lanes);
    elements[1] = (lanes ? gather : gather_near)(c, r.first, offsets, i->size);
    if (around) {
        from[1] = LLVMGetInsertBlock(b);
        LLVMBuildBr(b, done);
        LLVMPositionBuilderAtEnd(b, done);
        LLVMValueRef all = LLVMBuildPhi(b, c->row32, "");
        LLVMAddIncoming(all, elements, from, 2);
        elements[1] = all;
    }
    row_put(c, i, i->d, access_bits(i), widened(c, i, elements[1]));
}

void lanes_access(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef step,
                  LLVMBasicBlockRef behind)
{
    LLVMBuilderRef b = c->builder;
    const enum row_bits bits = access_bits(i);
    const bool store = access_is_store(i), vector = i->vector > 1;
    const bool all = !lanes && store && !vector && access_is_shared(i);
    if (!store && !vector && !access_is_shared(i) && !(i->flags & EXEC_POLL)) { /* those are volatile */
        gather_global(c, i, lanes, step, behind);
        LLVMBuildBr(b, behind);
        return;
    }
    LLVMValueRef some = lanes;
    if (!lanes)
        lanes = constant_32(c, UINT32_MAX);
    if (access_is_shared(i))
        lanes_find_shared(c, i, lanes, step);
    else {
        struct reach r = reach_of(c, i);
        reach_find(c, &r, lanes, store ? SG_WRITE : SG_READ, step);
        if (store && !vector)
            beside_or_on(c, i, &r, some, behind);
        store_to(c, r.at, lanes_variable(c, c->lane_places), 64);
    }
    const LLVMValueRef vectors = lanes_variable(c, c->lane_vectors),
                       half[2] = { vectors, address_of(c, vectors, SG_LANES / 2 * i->size * i->vector) };
    if (!vector) /* lanes that do not load keep what they have */
        store_to(c, row_read(c, store ? i->s[1] : i->d | EXEC_BASE_FRAME, bits), lanes_variable(c, c->lane_cells), 64);
    else if (store)
        vector_store(c, i, half);
    if (all)
        store_all(c, i);
    else
        lanes_each(c, lanes, move, i);
    if (!store && access_is_shared(i))
        note_read(c, i);
    if (!store && vector)
        vector_load(c, i, half, false);
    else if (!store)
        row_write(c, i->d, bits,
                  load_from(c, bits == ROW_64 ? c->row64 : c->row32, lanes_variable(c, c->lane_cells), 64));
    LLVMBuildBr(b, behind);
}
