/*
 * op_barrier.c: barriers of a block, and fences.
 *
 * Threads arrive one by one, not warp by warp: what PTX promises for barrier without .aligned, and what a warp whose
 * lanes come in several groups needs for the aligned forms too. Where the program gives a number of threads, a warp
 * counts whole once some of its lanes that still run have come: lanes that exited, and those that the last warp of a
 * block never had, count with it.
 */
#include "softgpu/exec/access.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/straight.h"

#include <cuda.h>
#include <string.h>

enum barrier_kind { SYNC, ARRIVE, POPC, AND, OR };

static bool is_complete(const struct exec_block *b, const struct exec_barrier *r)
{
    uint32_t threads = 0;
    for (uint32_t i = 0; i < b->warp_count; i++) {
        uint32_t alive = b->warps[i].alive;
        if (!r->expected) {
            if (alive & ~r->arrived[i])
                return false;
        } else if (r->arrived[i])
            threads += (uint32_t)__builtin_popcount(r->arrived[i] | ~alive);
    }
    return threads >= r->expected;
}

static void release(struct exec_block *b, uint32_t id)
{
    struct exec_barrier *r = &b->barriers[id];
    bool ordered = b->warp_count > 1 && !b->grid->engine->chaos;
    b->released = ordered;
    b->read = false;
    for (uint32_t i = 0; i < b->warp_count; i++) {
        struct exec_warp *w = &b->warps[i];
        w->halts = ordered ? EXEC_HALTS : 0;
        for (uint32_t k = 0; k < w->group_count; k++) {
            struct exec_group *g = &w->groups[k];
            if (g->state != EXEC_AT_BARRIER || g->barrier != id)
                continue;
            g->state = EXEC_RUNNABLE;
            const struct exec_insn *n = g->at;
            unsigned char *rows = g->frame->rows;
            if (n->kind == POPC)
                for (uint32_t m = g->mask; m; m &= m - 1)
                    ((uint32_t *)(void *)(rows + n->d))[__builtin_ctz(m)] = r->ones;
            if (n->kind == AND || n->kind == OR) {
                uint32_t *p = (uint32_t *)(void *)(rows + n->p),
                         v = (n->kind == AND ? r->all : r->any) ? UINT32_MAX : 0;
                *p = (*p & ~g->mask) | (v & g->mask);
            }
        }
    }
    memset(r, 0, sizeof *r);
    b->barriers_in_use &= ~(1u << id);
}

void exec_barrier_recheck(struct exec_block *b)
{
    for (uint32_t m = b->barriers_in_use; m; m &= m - 1) {
        const uint32_t id = (uint32_t)__builtin_ctz(m);
        if (is_complete(b, &b->barriers[id]))
            release(b, id);
    }
}

/* Lanes that name another barrier than the first do it again as a group of their own. */
static void same_only(struct exec_warp *w, const struct exec_insn *i, const uint32_t *ids)
{
    uint32_t first = ids[__builtin_ctz(w->mask)], rest = 0;
    if (!w->row->differ(ids, first, w->mask))
        return;
    for (uint32_t m = w->mask; m; m &= m - 1)
        if (ids[__builtin_ctz(m)] != first)
            rest |= m & -m;
    exec_group_add(w, i, w->frame, rest);
    w->mask &= ~rest;
}

/* The caller ends the group's run. */
static void park(struct exec_warp *w, const struct exec_insn *i, uint32_t id)
{
    struct exec_group *g = &w->groups[w->current];
    g->pc = w->pc;
    g->frame = w->frame;
    g->mask = w->mask;
    g->state = EXEC_AT_BARRIER;
    g->barrier = (uint8_t)id;
    g->at = i;
}

static void run_barrier(struct exec_warp *w, const struct exec_insn *i)
{
    struct exec_block *b = w->block;
    const uint32_t *ids = exec_row(w, i->s[0]);
    same_only(w, i, ids);
    uint32_t id = ids[__builtin_ctz(w->mask)];
    if (id >= EXEC_BARRIERS) {
        exec_fault(w, i, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a barrier beyond the sixteen that there are");
        return;
    }
    struct exec_barrier *r = &b->barriers[id];
    if (!(b->barriers_in_use >> id & 1)) {
        b->barriers_in_use |= 1u << id;
        r->all = true;
    }
    if (i->s[1])
        r->expected = ((const uint32_t *)exec_row(w, i->s[1]))[__builtin_ctz(w->mask)];
    if (i->kind >= POPC) {
        uint32_t in = (*exec_pred(w, i->in) ^ i->in_flip) & w->mask;
        r->ones += (uint32_t)__builtin_popcount(in);
        r->any |= in != 0;
        r->all &= in == w->mask;
    }
    uint32_t fresh = w->mask & ~r->arrived[w->index];
    r->arrived_count += fresh == UINT32_MAX ? SG_LANES : (uint32_t)__builtin_popcount(fresh);
    r->arrived[w->index] |= w->mask;
    if (i->kind != ARRIVE)
        park(w, i, id);
    exec_leave(w);
    /* The count may be too high (lanes that arrived and then exited), so it only says when to look closely. */
    if ((r->expected || r->arrived_count >= b->live_threads) && is_complete(b, r))
        release(b, id);
}

/* --- barrier.cluster --- */

static void run_cluster_arrive(struct exec_warp *w, const struct exec_insn *i)
{
    (void)i;
    w->cluster_arrived |= w->mask;
    exec_leave(w);
    if (!(w->alive & ~w->cluster_arrived))
        exec_cluster_recheck(w->block);
}

static void run_cluster_wait(struct exec_warp *w, const struct exec_insn *i)
{
    if (w->cluster_arrived & w->mask)
        park(w, i, EXEC_BARRIER_CLUSTER);
    exec_leave(w);
}

static int decode_cluster(struct exec_decoder *d)
{
    bool waits = decode_has(d, "wait");
    if (waits == decode_has(d, "arrive"))
        return decode_error(d, "neither .arrive nor .wait");
    return decode_put_control(d, (struct exec_insn){ .run = waits ? run_cluster_wait : run_cluster_arrive });
}

static int decode_bar(struct exec_decoder *d)
{
    const struct ptx_instruction *in = d->in;
    if (decode_has(d, "warp"))
        return decode_warp_barrier(d);
    struct exec_insn n = { .run = run_barrier, .in = EXEC_PRED_FALSE };
    if (decode_has(d, "cluster"))
        return decode_cluster(d);
    uint32_t at = 0, count = in->operand_count;
    const struct ptx_operand *predicate = NULL;
    if (decode_has(d, "arrive"))
        n.kind = ARRIVE;
    if (decode_has(d, "red")) {
        n.kind = decode_has(d, "popc") ? POPC : decode_has(d, "and") ? AND : OR;
        enum ptx_type declared;
        if (count < 3)
            return decode_error(d, "%u operands", count);
        if (n.kind == POPC ? decode_destination(d, &in->operands[0], PTX_B32, &n.d, &declared)
                           : decode_predicate_destination(d, &in->operands[0], &n.p))
            return -1;
        if (n.kind == POPC && ptx_type_size(declared) != 4)
            return decode_error(d, "the destination has to have 32 bits");
        predicate = &in->operands[--count];
        at = 1;
    }
    if (count <= at)
        return decode_error(d, "no barrier named");
    if (predicate && decode_predicate(d, predicate, &n.in, &n.in_flip))
        return -1;
    if (decode_source(d, &in->operands[at], PTX_B32, &n.s[0]))
        return -1;
    if (count > at + 1 && decode_source(d, &in->operands[at + 1], PTX_B32, &n.s[1]))
        return -1;
    if (!n.p)
        n.known = EXEC_STRAIGHT_BARRIER;
    const struct ptx_operand *number = &in->operands[at];
    if (n.kind == SYNC && !n.s[1] && number->kind == PTX_OP_INTEGER && !number->integer)
        n.flags |= EXEC_WHOLE_BARRIER;
    return decode_put_control(d, n);
}

/* --- fences --- */

static void run_fence(struct exec_warp *w, const struct exec_insn *i)
{
    (void)w;
    if (i->order == EXEC_SEQ_CST)
        exec_fence_full();
    else
        exec_fence_acq_rel();
    if (i->kind)                              /* of system scope */
        exec_release();
}

static int decode_fence(struct exec_decoder *d)
{
    struct exec_insn n = { .run = run_fence, .order = EXEC_ACQ_REL, .kind = decode_has(d, "sys") };
    /* membar is fence.sc; within a block one core runs all, in order */
    if ((!strcmp(d->in->opcode, "membar") && !decode_has(d, "cta")) || (decode_has(d, "sc") && !decode_has(d, "cta")))
        n.order = EXEC_SEQ_CST;
    if (!n.kind)
        n.known = EXEC_STRAIGHT_FENCE;
    return decode_put_guarded(d, n);
}

/* Sleeping for less than asked is allowed: the group gives way, and a warp that does nothing else may sleep (block.c).
   Its lanes wake together, so the time is that of any one of them. */
static void run_nanosleep(struct exec_warp *w, const struct exec_insn *i)
{
    w->budget = 0;
    w->polled = true;
    if (w->group_count == 1)
        w->nap = ((const uint32_t *)exec_row(w, i->s[0]))[__builtin_ctz(w->mask)];
    exec_leave(w);
}

static int decode_nanosleep(struct exec_decoder *d)
{
    struct exec_insn n = { .run = run_nanosleep };
    if (d->in->operand_count != 1)
        return decode_error(d, "%u operands", d->in->operand_count);
    if (decode_source(d, &d->in->operands[0], PTX_U32, &n.s[0]))
        return -1;
    return decode_put_control(d, n);
}

const struct decode_entry decode_barrier[] = {
    { "bar", decode_bar }, { "barrier", decode_bar }, { "membar", decode_fence }, { "fence", decode_fence },
    { "nanosleep", decode_nanosleep }, { NULL, NULL }
};
