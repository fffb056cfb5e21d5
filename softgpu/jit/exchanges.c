/*
 * exchanges.c: what lanes do together: shuffles, votes, sums. Where a full warp comes, nobody waits: whichever set of
 * lanes the instruction names, if they all name the same one. Where some lanes come, nobody waits if they are all that
 * their set names of those that have not exited. In all other cases the interpreter looks. `lanes` is NULL for a full
 * warp.
 */
#include "softgpu/exec/exchange.h"
#include "softgpu/jit/compile.h"

#include <string.h>

static const uint32_t *constant_cells(exec_source at)
{
    return (at & 3) == EXEC_BASE_ABSOLUTE && at ? (const uint32_t *)at : NULL;
}

static LLVMValueRef all_or_none(struct compiler *c, LLVMValueRef condition)
{
    return LLVMBuildSExt(c->builder, condition, c->i32, "");
}

static LLVMValueRef is(struct compiler *c, LLVMIntPredicate how, LLVMValueRef lanes, uint32_t value)
{
    return LLVMBuildICmp(c->builder, how, lanes, constant_32(c, value), "");
}

/* ---- shuffles ---- */

/* From which lane a lane takes its value; -1: from itself, since that one is not in its part of the warp. */
static int source_of(uint8_t kind, unsigned lane, uint32_t b, uint32_t clamp_and_segment)
{
    const int l = (int)lane, clamp = (int)(clamp_and_segment & 31), segment = (int)(clamp_and_segment >> 8 & 31),
              by = (int)(b & 31), most = (l & segment) | (clamp & ~segment);
    const int from = kind == EXEC_SHFL_UP     ? l - by
                     : kind == EXEC_SHFL_DOWN ? l + by
                     : kind == EXEC_SHFL_BFLY ? l ^ by
                                              : (l & segment) | (by & ~segment);
    return (kind == EXEC_SHFL_UP ? from >= most : from <= most) ? from & 31 : -1;
}

/* What the instruction gives; lanes that have not come keep what they have. */
static void put(struct compiler *c, const struct exec_insn *i, uint32_t d, enum row_bits bits, LLVMValueRef value)
{
    if (c->places)
        row_put(c, i, d, bits, value);
    else
        row_write(c, d, bits, value);
}

/* The operand; `other` in lanes that have not come. */
static LLVMValueRef operand(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, uint32_t other)
{
    LLVMValueRef a = row_read(c, i->s[0], ROW_32);
    return lanes ? LLVMBuildSelect(c->builder, lanes_of(c, lanes), a, splat(c, constant_32(c, other)), "") : a;
}

/* By numbers of lanes that are known. */
static void shuffle_known(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, const uint32_t *b,
                          const uint32_t *segments)
{
    LLVMValueRef which[SG_LANES], a = operand(c, i, lanes, 0);
    uint32_t inside = 0;
    for (unsigned l = 0; l < SG_LANES; l++) {
        const int from = source_of(i->kind, l, b[l], segments[l]);
        which[l] = constant_32(c, from < 0 ? l : (unsigned)from);
        inside |= (uint32_t)(from >= 0) << l;
    }
    put(c, i, i->d, ROW_32, LLVMBuildShuffleVector(c->builder, a, LLVMGetUndef(c->row32),
                                                   LLVMConstVector(which, SG_LANES), ""));
    put(c, i, i->p, ROW_PREDICATE, constant_32(c, inside));
}

/* By the interpreter's function. */
static void shuffle(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef types[4] = { c->i64, c->i64, c->i64, c->i64 }, type = LLVMFunctionType(c->i32, types, 4, false);
    LLVMValueRef table = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, row)), 8);
    LLVMValueRef function = load_from(c, c->i64, address_of(c, table, offsetof(struct exec_row_functions, shuffle) +
                                                                          i->kind * sizeof(void *)), 8);
    LLVMValueRef to = LLVMBuildPtrToInt(b, c->call_result, c->i64, "");
    LLVMValueRef from = lanes ? lanes_variable(c, c->lane_cells) : row_in_frame(c, i->s[0]);
    if (lanes)
        store_to(c, operand(c, i, lanes, 0), from, 64);
    LLVMValueRef arguments[4] = { to, from, row_in_frame(c, i->s[1]), row_in_frame(c, i->s[2]) };
    LLVMValueRef inside = LLVMBuildCall2(b, type, LLVMBuildIntToPtr(b, function, LLVMPointerType(type, 0), ""),
                                         arguments, 4, "");
    put(c, i, i->d, ROW_32, load_from(c, c->row32, to, 64));
    put(c, i, i->p, ROW_PREDICATE, inside);
}

/* ---- one value for all lanes ---- */

static const char *sum_name(const struct exec_insn *i)
{
    const bool sign = i->type == PTX_S32;
    switch (i->kind) {
    case EXEC_REDUX_ADD: return "llvm.vector.reduce.add";
    case EXEC_REDUX_MIN: return sign ? "llvm.vector.reduce.smin" : "llvm.vector.reduce.umin";
    case EXEC_REDUX_MAX: return sign ? "llvm.vector.reduce.smax" : "llvm.vector.reduce.umax";
    case EXEC_REDUX_AND: return "llvm.vector.reduce.and";
    case EXEC_REDUX_OR:  return "llvm.vector.reduce.or";
    default:             return "llvm.vector.reduce.xor";
    }
}

/* What changes no sum. */
static uint32_t sum_of_none(const struct exec_insn *i)
{
    const bool sign = i->type == PTX_S32;
    switch (i->kind) {
    case EXEC_REDUX_MIN: return sign ? INT32_MAX : UINT32_MAX;
    case EXEC_REDUX_MAX: return sign ? (uint32_t)INT32_MIN : 0;
    case EXEC_REDUX_AND: return UINT32_MAX;
    default:             return 0;
    }
}

static LLVMValueRef sum_of(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes)
{
    const char *name = sum_name(i);
    LLVMValueRef a = operand(c, i, lanes, sum_of_none(i));
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), &c->row32, 1);
    return LLVMBuildCall2(c->builder, LLVMFunctionType(c->i32, &c->row32, 1, false), f, &a, 1, "");
}

static void vote(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef in = predicate_read(c, i->in, i->in_flip);
    if (lanes)
        in = LLVMBuildAnd(b, in, lanes, "");
    LLVMValueRef all = LLVMBuildICmp(b, LLVMIntEQ, in, lanes ? lanes : constant_32(c, UINT32_MAX), ""),
                 none = is(c, LLVMIntEQ, in, 0);
    if (i->kind == EXEC_VOTE_BALLOT) {
        put(c, i, i->d, ROW_32, splat(c, in));
        return;
    }
    put(c, i, i->p, ROW_PREDICATE, all_or_none(c, i->kind == EXEC_VOTE_ALL   ? all
                                                  : i->kind == EXEC_VOTE_ANY ? LLVMBuildNot(b, none, "")
                                                                             : LLVMBuildOr(b, all, none, "")));
}

/* The first of the lanes is the one. */
static void elect(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes)
{
    LLVMValueRef first = LLVMBuildTrunc(c->builder, lanes_first(c, lanes), c->i32, "");
    put(c, i, i->d, ROW_32, splat(c, first));
    put(c, i, i->p, ROW_PREDICATE, LLVMBuildShl(c->builder, constant_32(c, 1), first, ""));
}

static bool is_known(const struct exec_insn *i)
{
    return i->kind != EXEC_MATCH_ANY && i->kind != EXEC_MATCH_ALL &&
           !(i->kind >= EXEC_REDUX_ADD && i->kind <= EXEC_REDUX_XOR && i->type == PTX_F32);
}

static void exchange(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes)
{
    const uint32_t *b = constant_cells(i->s[1]), *segments = constant_cells(i->s[2]);
    LLVMValueRef here = lanes ? lanes : constant_32(c, UINT32_MAX);
    if (i->kind <= EXEC_SHFL_IDX && b && segments)
        shuffle_known(c, i, lanes, b, segments);
    else if (i->kind <= EXEC_SHFL_IDX)
        shuffle(c, i, lanes);
    else if (i->kind <= EXEC_VOTE_BALLOT)
        vote(c, i, lanes);
    else if (i->kind == EXEC_ACTIVEMASK)
        put(c, i, i->d, ROW_32, splat(c, here));
    else if (i->kind == EXEC_ELECT)
        elect(c, i, here);
    else if (i->kind != EXEC_WARP_SYNC && i->kind != EXEC_CONVERGE)
        put(c, i, i->d, ROW_32, splat(c, sum_of(c, i, lanes)));
}

static void go_on_if(struct compiler *c, LLVMValueRef condition, LLVMBasicBlockRef differ)
{
    LLVMBasicBlockRef same = block_new(c, "same");
    branch_mostly(c, condition, same, differ);
    LLVMPositionBuilderAtEnd(c->builder, same);
}

/* Do all lanes name the same set? Goes on where they do. */
static void same_set(struct compiler *c, LLVMValueRef sets, LLVMBasicBlockRef differ)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef first = LLVMBuildExtractElement(b, sets, constant_32(c, 0), ""),
                 equal = LLVMBuildBitCast(b, LLVMBuildICmp(b, LLVMIntEQ, sets, splat(c, first), ""), c->i32, "");
    go_on_if(c, is(c, LLVMIntEQ, equal, UINT32_MAX), differ);
}

/* Are these lanes all that each of them waits for? Goes on where they are. */
static void all_have_come(struct compiler *c, const struct exec_insn *i, LLVMValueRef lanes, LLVMBasicBlockRef differ)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef alive = load_from(c, c->i32, address_of(c, c->warp, offsetof(struct exec_warp, alive)), 4);
    if (i->kind == EXEC_CONVERGE) {
        go_on_if(c, LLVMBuildICmp(b, LLVMIntEQ, lanes, alive, ""), differ);
        return;
    }
    LLVMValueRef sets = row_read(c, i->s[3], ROW_32);
    store_to(c, sets, lanes_variable(c, c->lane_cells), 64);
    LLVMValueRef set = load_from(c, c->i32, lanes_cell(c, c->lane_cells, lanes_first(c, lanes), 4), 4),
                 others = LLVMBuildBitCast(b, LLVMBuildICmp(b, LLVMIntNE, sets, splat(c, set), ""), c->i32, ""),
                 absent = LLVMBuildAnd(b, LLVMBuildAnd(b, set, alive, ""), LLVMBuildNot(b, lanes, ""), ""),
                 wrong = LLVMBuildOr(b, LLVMBuildAnd(b, others, lanes, ""), absent, "");
    go_on_if(c, is(c, LLVMIntEQ, wrong, 0), differ);
}

bool emit_exchange(struct compiler *c, const struct exec_insn *i)
{
    const bool waits = i->s[3] || i->kind == EXEC_CONVERGE, named = (i->s[3] & 3) == EXEC_BASE_FRAME;
    LLVMBasicBlockRef differ = NULL, behind = NULL;
    if (i->known != EXEC_STRAIGHT_EXCHANGE || i->straight == EXEC_STRAIGHT_GUARDED || !is_known(i) ||
        (i->s[3] && !named && !constant_cells(i->s[3])))
        return false;
    LLVMValueRef lanes = c->places ? active_lanes(c) : NULL;
    if (lanes ? waits : named) {
        differ = block_new(c, "differ");
        behind = block_new(c, "exchanged");
        if (lanes)
            all_have_come(c, i, lanes, differ);
        else
            same_set(c, row_read(c, i->s[3], ROW_32), differ);
    }
    exchange(c, i, lanes);
    if (differ)
        rows_step_apart(c, i, differ, behind);
    return true;
}
