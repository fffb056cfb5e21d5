/*
 * phases.c: code for whole blocks of kernels with barriers (softgpu/exec/phases.h). The loop around warps has one turn
 * for each phase: what stands behind a head, up to the next points. A switch leads a warp to its head, where the rows
 * that are still read come from its frame; at a point, those that the phase has written go back.
 *
 * A place where a warp may halt before a store ends a phase where the warp may have read shared memory since the
 * barrier. Some lanes may halt there, which a branch has led to it, and the others wait where the branch leads: then
 * the instructions between follow once more, behind a head of their own.
 */
#include "softgpu/jit/compile.h"

#include <stdlib.h>

static uint64_t bit(unsigned n) { return UINT64_C(1) << n; }

/* ---- which instructions belong to which phase ---- */

static unsigned number_behind(const struct compiler *c, uint32_t point)
{
    unsigned n = 1;
    while (c->phase.heads[n] != point + 1)
        n++;
    return n;
}

bool phase_is_for_some(const struct compiler *c, uint32_t k)
{
    return c->phase.count && c->phase.state[k] & PHASE_FOR_SOME;
}

bool phase_has_line(struct compiler *c, uint32_t from, uint32_t to)
{
    enum { SHORT = 16 };
    bool own = c->phase.count && to - from <= SHORT;
    for (uint32_t k = from; own && k < to; k++)
        own = !c->target[k];
    for (uint32_t k = from; own && k < to; k++)
        c->phase.state[k] |= PHASE_FOR_SOME;
    return own;
}

static bool is_used(const struct compiler *c, unsigned n)
{
    const uint32_t head = c->phase.heads[n];
    return c->in_region[head] && !phase_is_for_some(c, head) &&
           (!n || phase_waits(c, head - 1) || phase_splits(c, head - 1));
}

/* Calls act for what may come next in the same phase. */
static bool for_each_next(struct compiler *c, uint32_t k, bool (*act)(struct compiler *, uint32_t next, uint64_t),
                          uint64_t what)
{
    const struct exec_insn *i = &c->wish->insns[k];
    bool more = false;
    if (!c->in_region[k])
        return false;
    if (i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF)
        more |= act(c, (uint32_t)(i->target - c->wish->insns), what);
    if (i->straight != EXEC_STRAIGHT_BRANCH)
        more |= act(c, k + 1, what);
    return more;
}

static bool add_state(struct compiler *c, uint32_t k, uint64_t what)
{
    const uint8_t before = c->phase.state[k];
    c->phase.state[k] |= (uint8_t)what;
    return c->phase.state[k] != before;
}

static bool reads_shared(const struct exec_insn *i)
{
    return i->flags & EXEC_READS_SHARED || i->known == EXEC_STRAIGHT_MATRIX;
}

/* Behind a barrier, the kernel's beginning apart: where shared memory may have been read since, and phases end. */
static void find_splits(struct compiler *c)
{
    uint8_t *state = c->phase.state;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t k = 0; k < c->wish->count; k++) {
            const struct exec_insn *i = &c->wish->insns[k];
            if (k && c->in_region[k] && phase_waits(c, k - 1))
                state[k] |= PHASE_FOLLOWS;
            if (!(state[k] & PHASE_FOLLOWS))
                continue;
            if (i->straight == EXEC_STRAIGHT_HALT && state[k] & PHASE_READ)
                state[k] |= PHASE_SPLITS;
            const bool read = reads_shared(i) || (state[k] & PHASE_READ && !(state[k] & PHASE_SPLITS));
            more |= for_each_next(c, k, add_state, PHASE_FOLLOWS | (read ? PHASE_READ : 0));
        }
    }
}

static bool add_phases(struct compiler *c, uint32_t k, uint64_t what)
{
    const uint64_t before = c->phase.in[k];
    c->phase.in[k] |= what;
    return c->phase.in[k] != before;
}

static void find_members(struct compiler *c)
{
    for (unsigned n = 0; n < c->phase.count; n++)
        if (is_used(c, n))
            c->phase.in[c->phase.heads[n]] |= bit(n);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t k = 0; k < c->wish->count; k++)
            if (c->phase.in[k] && !phase_splits(c, k))
                more |= for_each_next(c, k, add_phases, c->phase.in[k]);
    }
}

/* Would a warp halt in a loop? Then there would be as many phases as rounds. */
static bool halts_in_loop(const struct compiler *c)
{
    for (uint32_t k = 0; k < c->wish->count; k++)
        if (phase_splits(c, k) && c->phase.in[k] & bit(number_behind(c, k)))
            return true;
    return false;
}

static bool take_memory(struct compiler *c)
{
    c->phase.state = calloc(c->wish->count + 1u, sizeof *c->phase.state);
    c->phase.in = calloc(c->wish->count + 1u, sizeof *c->phase.in);
    return c->phase.state && c->phase.in;
}

bool phases_find(struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    if (!take_memory(c))
        return false;
    c->phase.count = 1;
    for (uint32_t k = 0; k < w->count; k++) {
        if (!exec_phase_ends(&w->insns[k]))
            continue;
        if (c->phase.count > EXEC_PHASES || w->insns[k + 1].straight != EXEC_STRAIGHT_REGION)
            return false;
        c->phase.heads[c->phase.count++] = k + 1;
    }
    find_splits(c);
    find_members(c);
    return !halts_in_loop(c) && !runs_find(c);
}

void phases_free(struct compiler *c)
{
    free(c->phase.state);
    free(c->phase.in);
}

/* ---- the block's memory of them ---- */

static LLVMValueRef member(struct compiler *c, size_t offset)
{
    return address_of(c, c->block, offsetof(struct exec_block, phases) + offset);
}

static LLVMValueRef of_warp(struct compiler *c, size_t array, unsigned bytes)
{
    return LLVMBuildAdd(c->builder, member(c, array),
                        LLVMBuildMul(c->builder, c->whole.index, constant_64(c, bytes), ""), "");
}

static LLVMValueRef place_of_warp(struct compiler *c)
{
    return of_warp(c, offsetof(struct exec_phases, places), 1);
}

static LLVMValueRef lanes_of_warp(struct compiler *c)
{
    return of_warp(c, offsetof(struct exec_phases, lanes), sizeof(uint32_t));
}

/* The warp is at its place, and the next one has its turn. */
static void leave_warp(struct compiler *c, unsigned place, uint64_t seen)
{
    LLVMValueRef at = member(c, offsetof(struct exec_phases, seen)),
                 all = LLVMBuildOr(c->builder, load_from(c, c->i64, at, 8), constant_64(c, seen), "");
    store_to(c, all, at, 8);
    store_to(c, LLVMConstInt(c->i8, place, false), place_of_warp(c), 1);
    LLVMBuildBr(c->builder, c->whole.next);
}

/* ---- ways out of a phase ---- */

LLVMBasicBlockRef phase_ended(struct compiler *c)
{
    if (!c->wish->phases)
        return c->whole.next;
    if (!c->phase.ended) {
        LLVMBasicBlockRef here = LLVMGetInsertBlock(c->builder);
        c->phase.ended = block_new(c, "ended");
        LLVMPositionBuilderAtEnd(c->builder, c->phase.ended);
        leave_warp(c, EXEC_PHASE_ENDED, EXEC_SEEN_END);
        LLVMPositionBuilderAtEnd(c->builder, here);
    }
    return c->phase.ended;
}

LLVMBasicBlockRef phase_point(struct compiler *c, uint32_t k)
{
    if (c->leaves[k])
        return c->leaves[k];
    LLVMBasicBlockRef here = LLVMGetInsertBlock(c->builder);
    struct row_shape *now = c->now;
    const unsigned n = number_behind(c, k);
    c->leaves[k] = block_new(c, "point");
    LLVMPositionBuilderAtEnd(c->builder, c->leaves[k]);
    c->now = shapes_at(c, k);
    rows_end_phase(c, k);
    c->now = now;
    if (phase_waits(c, k))
        leave_warp(c, EXEC_PHASE_WAITS + n, bit(n));
    else
        leave_warp(c, n, EXEC_SEEN_HALT);
    LLVMPositionBuilderAtEnd(c->builder, here);
    return c->leaves[k];
}

void phase_halt_some(struct compiler *c, uint32_t k)
{
    const unsigned n = number_behind(c, k);
    store_to(c, c->whole.rest, lanes_of_warp(c), 4);
    rows_end_phase(c, k);
    leave_warp(c, EXEC_PHASE_SOME + n, EXEC_SEEN_HALT);
    c->phase.some[n] = block_new(c, "some");
    LLVMPositionBuilderAtEnd(c->builder, c->phase.some[n]);
    rows_begin_phase(c, c->phase.heads[n]);
    c->whole.rest = load_from(c, c->i32, lanes_of_warp(c), 4);
}

/* A branch backward, in a loop within a phase. */
void phase_spend(struct compiler *c, uint32_t cost, LLVMBasicBlockRef target, LLVMBasicBlockRef spent)
{
    LLVMValueRef at = member(c, offsetof(struct exec_phases, budget)),
                 left = LLVMBuildSub(c->builder, load_from(c, c->i32, at, 4), constant_32(c, cost), "");
    store_to(c, left, at, 4);
    branch_mostly(c, LLVMBuildICmp(c->builder, LLVMIntSGT, left, constant_32(c, 0), ""), target, spent);
}

/* ---- the loop around warps ---- */

void phases_begin(struct compiler *c) { c->phase.dispatch = LLVMGetInsertBlock(c->builder); }

/* The switch, and what stands behind the heads before their code. */
static void dispatch(struct compiler *c)
{
    LLVMBuilderRef b = c->builder;
    LLVMPositionBuilderAtEnd(b, c->phase.dispatch);
    LLVMValueRef place = load_from(c, c->i8, place_of_warp(c), 1),
                 way = LLVMBuildSwitch(b, place, c->whole.next, 2 * c->phase.count);
    for (unsigned n = 0; n < c->phase.count; n++) {
        if (c->phase.some[n])
            LLVMAddCase(way, LLVMConstInt(c->i8, EXEC_PHASE_SOME + n, false), c->phase.some[n]);
        if (!is_used(c, n))
            continue;
        LLVMBasicBlockRef head = block_new(c, "head");
        LLVMAddCase(way, LLVMConstInt(c->i8, n, false), head);
        LLVMPositionBuilderAtEnd(b, head);
        rows_begin_phase(c, c->phase.heads[n]);
        LLVMBuildBr(b, c->blocks[c->phase.heads[n]]);
    }
}

/* All warps go on behind one barrier, unless the turn is long enough. */
static void open_barrier(struct compiler *c, unsigned n, LLVMBasicBlockRef again, LLVMBasicBlockRef done)
{
    LLVMBuilderRef b = c->builder;
    LLVMValueRef places[EXEC_MAX_WARPS];
    for (unsigned k = 0; k < EXEC_MAX_WARPS; k++)
        places[k] = LLVMConstInt(c->i8, n, false);
    store_to(c, LLVMConstVector(places, EXEC_MAX_WARPS), member(c, offsetof(struct exec_phases, places)), 1);
    store_to(c, constant_64(c, 0), member(c, offsetof(struct exec_phases, seen)), 8);
    LLVMValueRef at = member(c, offsetof(struct exec_phases, budget)),
                 left = LLVMBuildSub(b, load_from(c, c->i32, at, 4), constant_32(c, EXEC_PHASE_COST), "");
    store_to(c, left, at, 4);
    branch_mostly(c, LLVMBuildICmp(b, LLVMIntSGT, left, constant_32(c, EXEC_PHASE_LEAST), ""), again, done);
}

void phases_end(struct compiler *c)
{
    LLVMBuilderRef b = c->builder;
    LLVMBasicBlockRef loop = LLVMGetInstructionParent(c->whole.index), done = c->whole.done;
    LLVMBasicBlockRef again = block_new(c, "again"), halted = block_new(c, "halted"), opens = block_new(c, "opens");
    LLVMPositionBuilderAtEnd(b, c->whole.over);
    LLVMValueRef at = member(c, offsetof(struct exec_phases, seen)), seen = load_from(c, c->i64, at, 8),
                 none = constant_64(c, 0), halts = LLVMBuildAnd(b, seen, constant_64(c, EXEC_SEEN_HALT), "");
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntNE, halts, none, ""), halted, opens);
    LLVMPositionBuilderAtEnd(b, halted);
    store_to(c, LLVMBuildXor(b, seen, halts, ""), at, 8);
    LLVMBuildBr(b, again);
    LLVMPositionBuilderAtEnd(b, opens);
    LLVMValueRef which = LLVMBuildSwitch(b, seen, done, c->phase.count);
    for (unsigned n = 1; n < c->phase.count; n++) {
        if (!is_used(c, n) || !phase_waits(c, c->phase.heads[n] - 1))
            continue;
        LLVMBasicBlockRef open = block_new(c, "open");
        LLVMAddCase(which, constant_64(c, bit(n)), open);
        LLVMPositionBuilderAtEnd(b, open);
        open_barrier(c, n, again, done);
    }
    LLVMPositionBuilderAtEnd(b, again);
    LLVMBuildBr(b, loop);
    LLVMAddIncoming(c->whole.index, &none, &again, 1);
    dispatch(c);
}
