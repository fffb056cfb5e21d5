/*
 * reach.c: global memory whose lanes are anywhere. All that take part must lie in one span (softgpu/exec/span.h), which
 * accesses share: the machine looks for another one where lanes have left it. So a subtraction and a comparison for
 * each lane say whether they may be there, however many granules they are apart.
 */
#include "softgpu/jit/reach.h"

#include <string.h>

#include "softgpu/jit/access.h"

static unsigned span_of(struct compiler *c, struct reach *r, unsigned rights)
{
    const unsigned first = rights == SG_READ    ? 0
                           : rights == SG_WRITE ? EXEC_REACHES_READ
                                                : EXEC_REACHES_READ + EXEC_REACHES_WRITE,
                   count = rights == SG_READ    ? EXEC_REACHES_READ
                           : rights == SG_WRITE ? EXEC_REACHES_WRITE
                                                : EXEC_REACHES_BOTH;
    if (!r->span)
        r->span = first + c->reaches++ % count + 1;
    return r->span - 1;
}

static LLVMValueRef member(struct compiler *c, unsigned span, size_t offset)
{
    const size_t at = offsetof(struct exec_block, reaches) + span * sizeof(struct exec_span) + offset;
    return load_from(c, c->i64, address_of(c, c->block, at), 8);
}

/* How far an access may begin behind the span's first byte: less than that. */
static LLVMValueRef room_of(struct compiler *c, const struct reach *r, unsigned span)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef count = member(c, span, offsetof(struct exec_span, count)), last = constant_64(c, r->bytes - 1),
                 more = LLVMBuildICmp(b, LLVMIntUGT, count, last, "");
    return LLVMBuildSelect(b, more, LLVMBuildSub(b, count, last, ""), constant_64(c, 0), "");
}

/* How far the lanes are behind the span's first byte. */
static LLVMValueRef behind_first(struct compiler *c, const struct reach *r, unsigned span)
{
    return LLVMBuildSub(c->builder, r->at, splat(c, member(c, span, offsetof(struct exec_span, first))), "");
}

/* Of these lanes those that are not in the span with so many bytes, or not aligned. */
static LLVMValueRef wrong_lanes(struct compiler *c, const struct reach *r, unsigned span, LLVMValueRef offset,
                                LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef wrong = LLVMBuildICmp(b, LLVMIntUGE, offset, splat(c, room_of(c, r, span)), "");
    if (r->align > 1) {
        LLVMValueRef odd = LLVMBuildAnd(b, r->at, splat(c, constant_64(c, r->align - 1)), "");
        wrong = LLVMBuildOr(b, wrong, LLVMBuildICmp(b, LLVMIntNE, odd, LLVMConstNull(c->row64), ""), "");
    }
    return LLVMBuildAnd(b, LLVMBuildBitCast(b, wrong, c->i32, ""), lanes, "");
}

LLVMValueRef lanes_reduced(struct compiler *c, const char *name, LLVMValueRef row)
{
    LLVMTypeRef type = LLVMTypeOf(row), function = LLVMFunctionType(LLVMGetElementType(type), &type, 1, false);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), &type, 1);
    return LLVMBuildCall2(c->builder, function, f, &row, 1, "");
}

/* Are all of these lanes in the span, and aligned? low: how far they are behind its first byte, if they are. AVX2
   compares no numbers of 64 bits without sign and has no registers for masks: there the largest of all offsets says
   it, and all of them joined. The span begins with a granule. */
static LLVMValueRef all_right(struct compiler *c, const struct reach *r, unsigned span, LLVMValueRef lanes,
                              LLVMValueRef *low)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef offset = behind_first(c, r, span), zero = constant_64(c, 0);
    *low = LLVMBuildTrunc(b, offset, c->row32, "");
    if (c->wish->avx512)
        return LLVMBuildICmp(b, LLVMIntEQ, wrong_lanes(c, r, span, offset, lanes), constant_32(c, 0), "");
    LLVMValueRef own = *low;
    if (!LLVMIsConstant(lanes)) { /* not all */
        offset = LLVMBuildSelect(b, lanes_spread(c, lanes, ROW_64), offset, LLVMConstNull(c->row64), "");
        own = LLVMBuildTrunc(b, offset, c->row32, "");
    }
    LLVMValueRef high = LLVMBuildLShr(b, lanes_reduced(c, "llvm.vector.reduce.or", offset), constant_64(c, 32), ""),
                 most = LLVMBuildZExt(b, lanes_reduced(c, "llvm.vector.reduce.umax", own), c->i64, ""),
                 right = both(c, LLVMBuildICmp(b, LLVMIntEQ, high, zero, ""),
                              LLVMBuildICmp(b, LLVMIntULT, most, room_of(c, r, span), ""));
    if (r->align == 1)
        return right;
    return both(c, right, is_aligned(c, lanes_reduced(c, "llvm.vector.reduce.or", own), r->align));
}

/* Asks the machine for the span around the place of the lowest of these lanes. */
static LLVMValueRef look(struct compiler *c, const struct reach *r, unsigned span, LLVMValueRef lanes, unsigned rights)
{
    LLVMTypeRef types[5] = { c->i64, c->i32, c->i64, c->i32, c->i32 }, type = LLVMFunctionType(c->i8, types, 5, false);
    store_to(c, r->at, lanes_variable(c, c->lane_places), 64);
    LLVMValueRef at = load_from(c, c->i64, lanes_cell(c, c->lane_places, lanes_first(c, lanes), 8), 8),
                 arguments[5] = { c->block, constant_32(c, EXEC_SPANS + span), at, constant_32(c, 1),
                                  constant_32(c, rights) };
    return LLVMBuildTrunc(c->builder, call_machine(c, type, MACHINE(c->wish->find), arguments), c->i1, "");
}

void reach_find(struct compiler *c, struct reach *r, LLVMValueRef lanes, unsigned rights, LLVMBasicBlockRef step)
{
    LLVMBuilderRef b = c->builder;
    const unsigned span = span_of(c, r, rights);
    LLVMBasicBlockRef right = block_new(c, "right"), other = block_new(c, "other"), again = block_new(c, "again");
    LLVMValueRef low[2], none = constant_32(c, 0), at_once = all_right(c, r, span, lanes, &low[0]);
    LLVMBasicBlockRef from[2] = { LLVMGetInsertBlock(b), again };
    branch_mostly(c, at_once, right, other);
    LLVMPositionBuilderAtEnd(b, other);
    LLVMValueRef wrong = wrong_lanes(c, r, span, behind_first(c, r, span), lanes);
    branch_mostly(c, look(c, r, span, wrong, rights), again, step);
    LLVMPositionBuilderAtEnd(b, again);
    LLVMValueRef offset = behind_first(c, r, span);
    low[1] = LLVMBuildTrunc(b, offset, c->row32, "");
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntEQ, wrong_lanes(c, r, span, offset, lanes), none, ""), right, step);
    LLVMPositionBuilderAtEnd(b, right);
    r->offsets = LLVMBuildPhi(b, c->row32, "");
    LLVMAddIncoming(r->offsets, low, from, 2);
    r->first = member(c, span, offsetof(struct exec_span, first));
}

/* Are all numbers of 64 bits in the row multiples of `align` below `bytes`? */
static LLVMValueRef all_small(struct compiler *c, LLVMValueRef row, unsigned align, unsigned bytes)
{
    enum { EACH = 8, PARTS = SG_LANES / EACH }; /* of a register of the processor */
    LLVMBuilderRef b = c->builder;
    LLVMValueRef joined = vector_part(c, row, 0, EACH), wrong[EACH];
    for (unsigned k = 1; k < PARTS; k++)
        joined = LLVMBuildOr(b, joined, vector_part(c, row, k * EACH, EACH), "");
    for (unsigned k = 0; k < EACH; k++)
        wrong[k] = constant_64(c, ~(uint64_t)(bytes - 1) | (align - 1));
    joined = LLVMBuildAnd(b, joined, LLVMConstVector(wrong, EACH), "");
    LLVMValueRef lanes = LLVMBuildICmp(b, LLVMIntNE, joined, LLVMConstNull(LLVMTypeOf(joined)), "");
    return LLVMBuildICmp(b, LLVMIntEQ, LLVMBuildBitCast(b, lanes, c->i8, ""), LLVMConstInt(c->i8, 0, false), "");
}

void reach_around(struct compiler *c, struct reach *r, unsigned bytes, LLVMBasicBlockRef far)
{
    LLVMBuilderRef b = c->builder;
    const unsigned span = span_of(c, r, SG_READ);
    const struct reach window = { .bytes = bytes };
    LLVMBasicBlockRef near = block_new(c, "near");
    LLVMValueRef first = member(c, span, offsetof(struct exec_span, first)), half = constant_64(c, bytes / 2),
                 lane = LLVMBuildExtractElement(b, r->at, constant_32(c, 0), ""),
                 own = LLVMBuildAnd(b, LLVMBuildSub(b, lane, first, ""), constant_64(c, ~(uint64_t)(r->align - 1)), "");
    LLVMValueRef begin = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, own, half, ""), constant_64(c, 0),
                                         LLVMBuildSub(b, own, half, ""), ""),
                 exists = LLVMBuildICmp(b, LLVMIntULT, begin, room_of(c, &window, span), "");
    r->first = LLVMBuildAdd(b, first, begin, "");
    LLVMValueRef apart = LLVMBuildSub(b, r->at, splat(c, r->first), "");
    LLVMBuildCondBr(b, both(c, exists, all_small(c, apart, r->align, bytes)), near, far);
    LLVMPositionBuilderAtEnd(b, near);
    r->offsets = LLVMBuildTrunc(b, apart, c->row32, "");
}

LLVMValueRef reach_offsets(struct compiler *c, const struct reach *r, LLVMValueRef lanes)
{
    if (!lanes)
        return r->offsets;
    return LLVMBuildSelect(c->builder, lanes_spread(c, lanes, ROW_32), r->offsets, LLVMConstNull(c->row32), "");
}
