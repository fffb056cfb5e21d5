/*
 * exchanges.c: what the lanes of a full warp do together: shuffles, votes, sums. All of them are here, so nobody waits:
 * whichever set of lanes the instruction names, if they all name the same one. Where they may not, the interpreter
 * looks.
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

/* By numbers of lanes that are known. */
static void shuffle_known(struct compiler *c, const struct exec_insn *i, const uint32_t *b, const uint32_t *segments)
{
    LLVMValueRef which[SG_LANES], a = row_read(c, i->s[0], ROW_32);
    uint32_t inside = 0;
    for (unsigned l = 0; l < SG_LANES; l++) {
        const int from = source_of(i->kind, l, b[l], segments[l]);
        which[l] = constant_32(c, from < 0 ? l : (unsigned)from);
        inside |= (uint32_t)(from >= 0) << l;
    }
    row_write(c, i->d, ROW_32, LLVMBuildShuffleVector(c->builder, a, LLVMGetUndef(c->row32),
                                                      LLVMConstVector(which, SG_LANES), ""));
    row_write(c, i->p, ROW_PREDICATE, constant_32(c, inside));
}

/* By the interpreter's function. */
static void shuffle(struct compiler *c, const struct exec_insn *i)
{
    LLVMBuilderRef b = c->builder;
    LLVMTypeRef types[4] = { c->i64, c->i64, c->i64, c->i64 }, type = LLVMFunctionType(c->i32, types, 4, false);
    LLVMValueRef table = load_from(c, c->i64, address_of(c, c->warp, offsetof(struct exec_warp, row)), 8);
    LLVMValueRef function = load_from(c, c->i64, address_of(c, table, offsetof(struct exec_row_functions, shuffle) +
                                                                          i->kind * sizeof(void *)), 8);
    LLVMValueRef to = LLVMBuildPtrToInt(b, c->call_result, c->i64, "");
    LLVMValueRef arguments[4] = { to, row_in_frame(c, i->s[0]), row_in_frame(c, i->s[1]), row_in_frame(c, i->s[2]) };
    LLVMValueRef inside = LLVMBuildCall2(b, type, LLVMBuildIntToPtr(b, function, LLVMPointerType(type, 0), ""),
                                         arguments, 4, "");
    row_write(c, i->d, ROW_32, load_from(c, c->row32, to, 64));
    row_write(c, i->p, ROW_PREDICATE, inside);
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

static LLVMValueRef sum_of(struct compiler *c, const struct exec_insn *i)
{
    const char *name = sum_name(i);
    LLVMValueRef a = row_read(c, i->s[0], ROW_32);
    LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, LLVMLookupIntrinsicID(name, strlen(name)), &c->row32, 1);
    return LLVMBuildCall2(c->builder, LLVMFunctionType(c->i32, &c->row32, 1, false), f, &a, 1, "");
}

static void vote(struct compiler *c, const struct exec_insn *i)
{
    LLVMValueRef in = predicate_read(c, i->in, i->in_flip), all = is(c, LLVMIntEQ, in, UINT32_MAX),
                 none = is(c, LLVMIntEQ, in, 0);
    if (i->kind == EXEC_VOTE_BALLOT) {
        row_write(c, i->d, ROW_32, splat(c, in));
        return;
    }
    row_write(c, i->p, ROW_PREDICATE,
              all_or_none(c, i->kind == EXEC_VOTE_ALL   ? all
                             : i->kind == EXEC_VOTE_ANY ? LLVMBuildNot(c->builder, none, "")
                                                        : LLVMBuildOr(c->builder, all, none, "")));
}

static bool is_known(const struct exec_insn *i)
{
    return i->kind != EXEC_MATCH_ANY && i->kind != EXEC_MATCH_ALL && i->kind != EXEC_CONVERGE &&
           !(i->kind >= EXEC_REDUX_ADD && i->kind <= EXEC_REDUX_XOR && i->type == PTX_F32);
}

static void exchange(struct compiler *c, const struct exec_insn *i)
{
    const uint32_t *b = constant_cells(i->s[1]), *segments = constant_cells(i->s[2]);
    if (i->kind <= EXEC_SHFL_IDX && b && segments)
        shuffle_known(c, i, b, segments);
    else if (i->kind <= EXEC_SHFL_IDX)
        shuffle(c, i);
    else if (i->kind <= EXEC_VOTE_BALLOT)
        vote(c, i);
    else if (i->kind == EXEC_ACTIVEMASK)
        row_write(c, i->d, ROW_32, splat(c, constant_32(c, UINT32_MAX)));
    else if (i->kind == EXEC_ELECT) {
        row_write(c, i->d, ROW_32, splat(c, constant_32(c, 0)));
        row_write(c, i->p, ROW_PREDICATE, constant_32(c, 1));
    } else if (i->kind != EXEC_WARP_SYNC)
        row_write(c, i->d, ROW_32, splat(c, sum_of(c, i)));
}

/* Do all lanes name the same set? Goes on where they do. */
static void same_set(struct compiler *c, const struct exec_insn *i, LLVMBasicBlockRef differ)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef same = block_new(c, "same");
    LLVMValueRef sets = row_read(c, i->s[3], ROW_32), first = LLVMBuildExtractElement(b, sets, constant_32(c, 0), "");
    LLVMValueRef equal = LLVMBuildBitCast(b, LLVMBuildICmp(b, LLVMIntEQ, sets, splat(c, first), ""), c->i32, "");
    branch_mostly(c, is(c, LLVMIntEQ, equal, UINT32_MAX), same, differ);
    LLVMPositionBuilderAtEnd(b, same);
}

bool emit_exchange(struct compiler *c, const struct exec_insn *i)
{
    if (i->known != EXEC_STRAIGHT_EXCHANGE || c->places || i->straight == EXEC_STRAIGHT_GUARDED || !is_known(i))
        return false;
    LLVMBasicBlockRef differ = NULL, behind = NULL;
    if ((i->s[3] & 3) == EXEC_BASE_FRAME) {
        differ = block_new(c, "differ");
        behind = block_new(c, "exchanged");
        same_set(c, i, differ);
    } else if (i->s[3] && !constant_cells(i->s[3]))
        return false;
    exchange(c, i);
    if (differ) {
        LLVMBuildBr(c->builder, behind);
        LLVMPositionBuilderAtEnd(c->builder, differ);
        rows_step(c, i);
        LLVMBuildBr(c->builder, behind);
        LLVMPositionBuilderAtEnd(c->builder, behind);
    }
    return true;
}
