/*
 * reach.c: global memory whose lanes are anywhere. All that take part must lie in one span (softgpu/exec/span.h), which
 * accesses share: the machine looks for another one where lanes have left it. So a subtraction and a comparison for
 * each lane say whether they may be there, however many granules they are apart.
 */
#include "softgpu/jit/reach.h"

static unsigned span_of(struct compiler *c, unsigned rights)
{
    const unsigned first = rights == SG_READ    ? 0
                           : rights == SG_WRITE ? EXEC_REACHES_READ
                                                : EXEC_REACHES_READ + EXEC_REACHES_WRITE,
                   count = rights == SG_READ    ? EXEC_REACHES_READ
                           : rights == SG_WRITE ? EXEC_REACHES_WRITE
                                                : EXEC_REACHES_BOTH;
    return first + c->reaches++ % count;
}

static LLVMValueRef member(struct compiler *c, unsigned span, size_t offset)
{
    const size_t at = offsetof(struct exec_block, reaches) + span * sizeof(struct exec_span) + offset;
    return load_from(c, c->i64, address_of(c, c->block, at), 8);
}

/* Of these lanes those that are not in the span with so many bytes, or not aligned. */
static LLVMValueRef wrong_lanes(struct compiler *c, const struct reach *r, unsigned span, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef first = member(c, span, offsetof(struct exec_span, first)),
                 count = member(c, span, offsetof(struct exec_span, count)), last = constant_64(c, r->bytes - 1),
                 more = LLVMBuildICmp(b, LLVMIntUGT, count, last, "");
    LLVMValueRef room = LLVMBuildSelect(b, more, LLVMBuildSub(b, count, last, ""), constant_64(c, 0), "");
    LLVMValueRef offset = LLVMBuildSub(b, r->at, splat(c, first), ""),
                 wrong = LLVMBuildICmp(b, LLVMIntUGE, offset, splat(c, room), "");
    if (r->align > 1) {
        LLVMValueRef odd = LLVMBuildAnd(b, r->at, splat(c, constant_64(c, r->align - 1)), "");
        wrong = LLVMBuildOr(b, wrong, LLVMBuildICmp(b, LLVMIntNE, odd, LLVMConstNull(c->row64), ""), "");
    }
    return LLVMBuildAnd(b, LLVMBuildBitCast(b, wrong, c->i32, ""), lanes, "");
}

/* Asks the machine for the span around the place of the lowest of these lanes. */
static LLVMValueRef look(struct compiler *c, const struct reach *r, unsigned span, LLVMValueRef lanes, unsigned rights)
{
    LLVMTypeRef types[5] = { c->i64, c->i32, c->i64, c->i32, c->i32 }, type = LLVMFunctionType(c->i8, types, 5, false);
    store_to(c, r->at, lanes_variable(c, c->lane_places), 64);
    LLVMValueRef at = load_from(c, c->i64, lanes_cell(c, c->lane_places, lanes_first(c, lanes), 8), 8),
                 arguments[5] = { c->block, constant_32(c, EXEC_SPANS + span), at, constant_32(c, 1),
                                  constant_32(c, rights) };
    LLVMValueRef f =
        LLVMBuildIntToPtr(c->builder, constant_64(c, (uintptr_t)c->wish->find), LLVMPointerType(type, 0), "");
    return LLVMBuildTrunc(c->builder, LLVMBuildCall2(c->builder, type, f, arguments, 5, ""), c->i1, "");
}

void reach_find(struct compiler *c, struct reach *r, LLVMValueRef lanes, unsigned rights, LLVMBasicBlockRef step)
{
    LLVMBuilderRef b = c->builder;
    const unsigned span = span_of(c, rights);
    LLVMBasicBlockRef right = block_new(c, "right"), other = block_new(c, "other"), again = block_new(c, "again");
    LLVMValueRef wrong = wrong_lanes(c, r, span, lanes), none = constant_32(c, 0);
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, wrong, none, ""), right, other);
    LLVMPositionBuilderAtEnd(b, other);
    branch_mostly(c, look(c, r, span, wrong, rights), again, step);
    LLVMPositionBuilderAtEnd(b, again);
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, wrong_lanes(c, r, span, lanes), none, ""), right, step);
    LLVMPositionBuilderAtEnd(b, right);
    r->first = member(c, span, offsetof(struct exec_span, first));
}

LLVMValueRef reach_offsets(struct compiler *c, const struct reach *r, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef offsets = LLVMBuildTrunc(b, LLVMBuildSub(b, r->at, splat(c, r->first), ""), c->row32, "");
    return lanes ? LLVMBuildSelect(b, lanes_spread(c, lanes, ROW_32), offsets, LLVMConstNull(c->row32), "") : offsets;
}
