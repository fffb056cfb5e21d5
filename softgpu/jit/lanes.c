/*
 * lanes.c: accesses of memory lane by lane: where lanes are not side by side, or only some take part. All of them must
 * be right before the first is made: aligned, and in shared memory, or in global memory that may be touched so
 * (reach.c). Else the interpreter does the instruction.
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

/* Loads of global memory, without a loop. */
static void gather_global(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef step)
{
    struct reach r = reach_of(c, i);
    reach_find(c, &r, lanes ? lanes : constant_32(c, UINT32_MAX), SG_READ, step);
    LLVMValueRef offsets = reach_offsets(c, &r, lanes),
                 elements = (lanes ? gather : gather_near)(c, r.first, offsets, i->size);
    row_put(c, i, i->d, access_bits(i), widened(c, i, elements));
}

void lanes_access(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef step,
                  LLVMBasicBlockRef behind)
{
    LLVMBuilderRef b = c->builder;
    const enum row_bits bits = access_bits(i);
    const bool store = access_is_store(i), vector = i->vector > 1;
    const bool all = !lanes && store && !vector && access_is_shared(i);
    if (!store && !vector && !access_is_shared(i) && !(i->flags & EXEC_POLL)) { /* those are volatile */
        gather_global(c, i, lanes, step);
        LLVMBuildBr(b, behind);
        return;
    }
    if (!lanes)
        lanes = constant_32(c, UINT32_MAX);
    if (access_is_shared(i))
        lanes_find_shared(c, i, lanes, step);
    else
        lanes_find_global(c, i, lanes, store ? SG_WRITE : SG_READ, step);
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
