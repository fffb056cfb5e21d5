/*
 * whole.c: code for whole blocks: a loop around the code of a warp. What is the same for all warps of the block is
 * computed once, before it. A warp has the frame of the entry and nothing else: whoever is called for it gets it set up
 * before (softgpu/exec/whole.c).
 */
#include "softgpu/jit/compile.h"

/* Bytes from what a warp touches to what is fetched ahead, where each warp has a row of its own: four blocks' words of
   32 bits; and where all are in one line: two warps'. Shorter and longer distances were slower. */
enum { AHEAD_ROWS = 512, AHEAD_LINE = 256 };

static LLVMValueRef member_32(struct compiler *c, LLVMValueRef base, size_t offset)
{
    return load_from(c, c->i32, address_of(c, base, offset), 4);
}

/* Parameters, and special registers that do not differ in a block. */
static void load_shared(struct compiler *c)
{
    struct whole_code *w = &c->whole;
    LLVMValueRef grid = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, grid)), 8);
    w->params = load_from(c, c->i64, address_of(c, grid, offsetof(struct sg_grid, params)), 8);
    for (unsigned k = 0; k < 3; k++) {
        const size_t at = k * sizeof(uint32_t);
        w->shared[EXEC_ROW_CTAID + k] = member_32(c, c->block, offsetof(struct exec_block, ctaid) + at);
        w->shared[EXEC_ROW_NTID + k] = member_32(c, grid, offsetof(struct sg_grid, launch.block) + at);
        w->shared[EXEC_ROW_NCTAID + k] = member_32(c, grid, offsetof(struct sg_grid, launch.grid) + at);
    }
}

/* Where each block begins, of those that are side by side in x. Returns the first warp's number. */
static LLVMValueRef begin_block(struct compiler *c, LLVMValueRef first)
{
    struct whole_code *w = &c->whole;
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    w->block = block_new(c, "block");
    LLVMBuildBr(b, w->block);
    LLVMPositionBuilderAtEnd(b, w->block);
    LLVMValueRef warp = LLVMBuildPhi(b, c->i64, ""), more = LLVMGetParam(c->function, 3);
    w->place = LLVMBuildPhi(b, c->i32, "");
    w->left = LLVMBuildPhi(b, c->i64, "");
    LLVMAddIncoming(warp, &first, &before, 1);
    LLVMAddIncoming(w->place, &w->first_place, &before, 1);
    LLVMAddIncoming(w->left, &more, &before, 1);
    return warp;
}

/* All warps have had their turn: the next block has its own, if there is one. */
static void end_block(struct compiler *c, LLVMValueRef warp)
{
    struct whole_code *w = &c->whole;
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef another = block_new(c, "another");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, w->left, constant_64(c, 0), ""), w->done, another);
    LLVMPositionBuilderAtEnd(b, another);
    LLVMValueRef none = constant_64(c, 0), left = address_of(c, w->left, UINT64_MAX),
                 place = LLVMBuildAdd(b, w->place, constant_32(c, 1), "");
    store_to(c, place, address_of(c, c->block, offsetof(struct exec_block, ctaid)), 4);
    LLVMAddIncoming(warp, &none, &another, 1);
    LLVMAddIncoming(w->place, &place, &another, 1);
    LLVMAddIncoming(w->left, &left, &another, 1);
    LLVMBuildBr(b, w->block);
}

void whole_begin(struct compiler *c)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef loop = block_new(c, "warp");
    LLVMValueRef first = LLVMGetParam(c->function, 1), end = LLVMGetParam(c->function, 2);
    c->whole.over = block_new(c, "over");
    c->block = LLVMGetParam(c->function, 0);
    load_shared(c);
    LLVMValueRef warps = load_from(c, c->i64, address_of(c, c->block, offsetof(struct exec_block, warps)), 8);
    LLVMValueRef more = LLVMBuildTrunc(b, LLVMGetParam(c->function, 3), c->i32, "");
    c->whole.first_place = c->whole.shared[EXEC_ROW_CTAID];
    c->whole.last_place = LLVMBuildAdd(b, c->whole.first_place, more, "");
    ranges_begin(c, first, end);
    LLVMValueRef rows = LLVMBuildICmp(b, LLVMIntEQ, c->whole.shared[EXEC_ROW_NTID], constant_32(c, SG_LANES), "");
    c->whole.ahead = LLVMBuildSelect(b, rows, constant_64(c, AHEAD_ROWS), constant_64(c, AHEAD_LINE), "");
    if (!c->wish->phases)
        first = begin_block(c, first);
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(b);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, first, end, ""), loop, c->whole.over);
    LLVMPositionBuilderAtEnd(b, loop);
    c->whole.index = LLVMBuildPhi(b, c->i64, "");
    LLVMAddIncoming(c->whole.index, &first, &entry, 1);
    c->warp = LLVMBuildAdd(b, warps, LLVMBuildMul(b, c->whole.index, constant_64(c, sizeof(struct exec_warp)), ""), "");
    c->frame = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, rows)), 8);
    c->whole.next = block_new(c, "next");
}

void whole_end(struct compiler *c)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef done = block_new(c, "done"), loop = LLVMGetInstructionParent(c->whole.index);
    LLVMValueRef end = LLVMGetParam(c->function, 2);
    LLVMPositionBuilderAtEnd(b, c->whole.next);
    LLVMValueRef more = address_of(c, c->whole.index, 1);
    LLVMAddIncoming(c->whole.index, &more, &c->whole.next, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntULT, more, end, ""), loop, c->whole.over);
    LLVMPositionBuilderAtEnd(b, done);
    LLVMBuildRet(b, end);
    c->whole.done = done;
    LLVMPositionBuilderAtEnd(b, c->whole.over);
    if (!c->wish->phases)
        end_block(c, LLVMGetFirstInstruction(c->whole.block));
}

void whole_begin_warp(struct compiler *c)
{
    LLVMTypeRef types[3] = { c->i64, c->i32, c->i64 },
                type = LLVMFunctionType(LLVMVoidTypeInContext(c->context), types, 3, false);
    LLVMValueRef others = c->whole.end ? insn_address(c, (uint32_t)(c->whole.end - c->wish->insns)) : constant_64(c, 0),
                 arguments[3] = { c->warp, c->whole.rest ? c->whole.rest : constant_32(c, UINT32_MAX), others };
    call_machine(c, type, MACHINE(c->wish->begin), arguments);
}

void whole_forget_warp(struct compiler *c)
{
    store_to(c, constant_32(c, 0), address_of(c, c->warp, offsetof(struct exec_warp, alive)), 4);
    store_to(c, constant_32(c, 0), address_of(c, c->warp, offsetof(struct exec_warp, group_count)), 4);
}

void whole_return(struct compiler *c) { LLVMBuildRet(c->builder, c->whole.index); }

LLVMValueRef whole_special(struct compiler *c, exec_source at)
{
    const exec_source first = offsetof(struct exec_warp, special), place = at & ~(exec_source)3,
                      row = (place - first) / sizeof(uint32_t[SG_LANES]);
    const bool special = (at & 3) == EXEC_BASE_WARP && place >= first && row < EXEC_ROW_COUNT;
    if (!c->wish->whole || !special)
        return NULL;
    return row == EXEC_ROW_CTAID && c->whole.place ? ranges_block(c) : c->whole.shared[row];
}

/* The number of the access's span; EXEC_SPANS: it has none. */
static unsigned span_of(struct compiler *c, const struct exec_insn *i, unsigned bytes)
{
    struct whole_code *w = &c->whole;
    unsigned k = 0;
    while (k < w->span_count && (w->spans[k].access != i || w->spans[k].bytes != bytes))
        k++;
    if (k == w->span_count && k < EXEC_SPANS) {
        w->spans[k].access = i;
        w->spans[k].bytes = bytes;
        w->span_count++;
    }
    return k;
}

bool whole_has_span(struct compiler *c, const struct exec_insn *i, unsigned bytes)
{
    return c->wish->whole && span_of(c, i, bytes) < EXEC_SPANS;
}

/* Asks the machine. */
static LLVMValueRef look(struct compiler *c, unsigned span, LLVMValueRef address, unsigned bytes, unsigned rights)
{
    LLVMTypeRef types[5] = { c->i64, c->i32, c->i64, c->i32, c->i32 }, type = LLVMFunctionType(c->i8, types, 5, false);
    LLVMValueRef arguments[5] = { c->block, constant_32(c, span), address, constant_32(c, bytes),
                                  constant_32(c, rights) };
    return LLVMBuildTrunc(c->builder, call_machine(c, type, MACHINE(c->wish->find), arguments), c->i1, "");
}

bool whole_find(struct compiler *c, const struct exec_insn *i, LLVMValueRef address, unsigned align, unsigned bytes,
                LLVMBasicBlockRef rare)
{
    LLVMBuilderRef b = c->builder;
    const unsigned span = c->wish->whole ? span_of(c, i, bytes) : EXEC_SPANS;
    if (span == EXEC_SPANS)
        return false;
    LLVMBasicBlockRef aligned = block_new(c, "aligned"), outside = block_new(c, "outside"),
                      right = block_new(c, "right");
    const size_t place = offsetof(struct exec_block, spans) + span * sizeof(struct exec_span);
    ranges_inside(c, address, align, place, right);
    LLVMValueRef at = address_of(c, c->block, place),
                 odd = LLVMBuildAnd(b, address, constant_64(c, align - 1), "");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, odd, constant_64(c, 0), ""), aligned, rare);
    LLVMPositionBuilderAtEnd(b, aligned);
    LLVMValueRef first = load_from(c, c->i64, address_of(c, at, offsetof(struct exec_span, first)), 8),
                 count = load_from(c, c->i64, address_of(c, at, offsetof(struct exec_span, count)), 8);
    LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntULT, LLVMBuildSub(b, address, first, ""), count, "");
    branch_mostly(c, inside, right, outside);
    LLVMPositionBuilderAtEnd(b, outside);
    branch_mostly(c, look(c, span, address, bytes, access_is_store(i) ? SG_WRITE : SG_READ), right, rare);
    LLVMPositionBuilderAtEnd(b, right);
    return true;
}
