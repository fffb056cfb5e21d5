/*
 * warp.c: the groups of a warp: which one runs, when they part and when they meet again.
 *
 * The scheduler takes the deepest call first, then the lowest pc. The code is laid out so that lanes that part thereby
 * meet again at the immediate post-dominator of the branch, as on a GPU (order.c): the arms of a branch run one after
 * the other, and the first lanes to arrive behind them wait there for the rest. That is for speed, and for programs
 * whose lanes exchange data through memory without __syncwarp.
 *
 * CUDA does not promise it, and progress comes first. Where lanes wait for one another, a group that has used up its
 * slice while others could run is set aside until each of them has had its turn: at once if it did what loops wait
 * with (volatile, relaxed or acquiring loads, compare-and-swap, clocks …), after SLICES_BEFORE_TURN slices if not,
 * since lanes that left a long loop early had better wait for the rest. Groups that part and meet again within a slice
 * are new ones each time, and none of them ever seems to have had its share. So a group that has waited while others
 * gave way FORGOTTEN times goes first, wherever it is.
 */
#include "softgpu/alu/clones.h"
#include "softgpu/exec/callbacks.h"
#include "softgpu/exec/jit.h"

#include <cuda.h>

/* BEGINNING: the budget of a warp that runs to its end if it can; a slice of block.c has as much. */
enum { SLICES_BEFORE_TURN = 512, FORGOTTEN = 8, BEGINNING = 512 };

SG_CLONE_DECLARE(const struct exec_row_functions, exec_row_functions);

static const struct exec_row_functions *exec_row_functions_best(void)
{
    static const struct exec_row_functions *const tables[] = SG_CLONE_ADDRESSES(exec_row_functions);
    return tables[sg_cpu_level()];
}

void exec_warp_init(struct exec_warp *w, struct exec_block *b, uint32_t index)
{
    const sg_grid *g = b->grid;
    const uint32_t *n = g->launch.block;
    w->block = b;
    w->index = index;
    w->row = exec_row_functions_best();
    w->bases[EXEC_BASE_ABSOLUTE] = 0;
    w->bases[EXEC_BASE_WARP] = (uintptr_t)w;
    w->granule_device = g->engine->ordinal & 3u;
    w->near = &sg_memory.windows[0];
    w->in_line = n[0] % SG_LANES == 0 || (n[1] == 1 && n[2] == 1);
    for (unsigned l = 0; l < SG_LANES; l++) {
        uint32_t t = index * SG_LANES + l;
        w->special[EXEC_ROW_TID][l] = t % n[0];
        w->special[EXEC_ROW_TID + 1][l] = t / n[0] % n[1];
        w->special[EXEC_ROW_TID + 2][l] = t / n[0] / n[1];
        w->special[EXEC_ROW_LANEID][l] = l;
    }
    for (unsigned k = 0; k < 3; k++) {
        w->row->fill32(w->special[EXEC_ROW_NTID + k], n[k]);
        w->row->fill32(w->special[EXEC_ROW_NCTAID + k], g->launch.grid[k]);
    }
}

void exec_warp_start(struct exec_warp *w, uint32_t lanes)
{
    const struct exec_block *b = w->block;
    const sg_grid *g = b->grid;
    w->alive = lanes;
    w->cluster_arrived = 0;
    w->products_committed = 0;
    w->group_count = 0;
    w->united = w->in_line;
    w->halts = 0;
    for (unsigned k = 0; k < 3; k++)
        if (w->special[EXEC_ROW_CTAID + k][0] != b->ctaid[k])
            w->row->fill32(w->special[EXEC_ROW_CTAID + k], b->ctaid[k]);
    struct exec_frame *frame = exec_frame_first(w, g->entry, lanes);
    if (!frame) {
        exec_fault(w, NULL, CUDA_ERROR_OUT_OF_MEMORY, "no host memory for registers");
        w->alive = 0;
        return;
    }
    exec_group_add(w, g->entry->insns, frame, lanes);
}

struct exec_group *exec_group_add(struct exec_warp *w, const struct exec_insn *pc, struct exec_frame *frame,
                                  uint32_t mask)
{
    w->united &= !w->group_count;
    struct exec_group *g = &w->groups[w->group_count++];     /* disjoint and not empty: never more than lanes */
    *g = (struct exec_group){ .pc = pc, .frame = frame, .mask = mask };
    return g;
}

bool exec_warp_ready(const struct exec_warp *w)
{
    for (uint32_t i = 0; i < w->group_count; i++)
        if (w->groups[i].state == EXEC_RUNNABLE)
            return true;
    return false;
}

static bool goes_before(const struct exec_group *a, const struct exec_group *b)
{
    if (a->frame->depth != b->frame->depth)
        return a->frame->depth > b->frame->depth;
    return a->pc < b->pc;
}

static void group_remove(struct exec_warp *w, uint32_t i)
{
    w->groups[i] = w->groups[--w->group_count];
}

/* The group that has waited longest, if that is too long; else -1. */
static int forgotten(const struct exec_warp *w)
{
    int longest = -1;
    for (uint32_t i = 0; i < w->group_count; i++) {
        const struct exec_group *g = &w->groups[i];
        if (g->state == EXEC_RUNNABLE && g->waited >= FORGOTTEN &&
            (longest < 0 || g->waited > w->groups[longest].waited))
            longest = (int)i;
    }
    return longest;
}

/* The group to run next, merged with those that stand at the same place; its index, or -1. */
static int pick(struct exec_warp *w)
{
    if (w->group_count == 1)
        return w->groups[0].state == EXEC_RUNNABLE ? 0 : -1;
    int best = forgotten(w);
    for (int round = 0; round < 2 && best < 0; round++) {
        for (uint32_t i = 0; i < w->group_count; i++) {
            struct exec_group *g = &w->groups[i];
            if (g->state != EXEC_RUNNABLE)
                continue;
            if (round)
                g->gave_way = false;
            if (!g->gave_way && (best < 0 || goes_before(g, &w->groups[best])))
                best = (int)i;
        }
    }
    if (best < 0)
        return -1;
    struct exec_frame *frame = w->groups[best].frame;
    const struct exec_insn *pc = w->groups[best].pc;
    uint32_t mask = 0, spent = 0;
    for (uint32_t i = 0; i < w->group_count;) {
        struct exec_group *g = &w->groups[i];
        if (g->state == EXEC_RUNNABLE && g->frame == frame && g->pc == pc) {
            mask |= g->mask;
            spent = g->spent > spent ? g->spent : spent;
            group_remove(w, i);
        } else
            i++;
    }
    exec_group_add(w, pc, frame, mask)->spent = spent;
    return (int)w->group_count - 1;
}

static void load(struct exec_warp *w, uint32_t i)
{
    struct exec_group *g = &w->groups[i];
    w->current = i;
    w->pc = g->pc;
    w->frame = g->frame;
    w->mask = g->mask;
    w->rows = g->frame->rows;
    w->bases[EXEC_BASE_FRAME] = (uintptr_t)w->rows;
    w->whole = g->frame->live;
    w->stop = NULL;
    if (w->group_count == 1)
        return;
    for (uint32_t k = 0; k < w->group_count; k++) {          /* where it may meet another */
        const struct exec_group *o = &w->groups[k];
        if (k != i && o->state == EXEC_RUNNABLE && o->frame == g->frame && o->pc > g->pc &&
            (!w->stop || o->pc < w->stop))
            w->stop = o->pc;
    }
}

static void run(struct exec_warp *w)
{
    do {
        const struct exec_insn *i = w->pc;
        w->pc = i + 1;
        w->interpreted++;
        i->run(w, i);
    } while (w->pc != w->stop);
}

/* The group that ran has given way. */
static void count_waits(struct exec_warp *w)
{
    for (uint32_t i = 0; i < w->group_count; i++)
        if (i != w->current && w->groups[i].state == EXEC_RUNNABLE)
            w->groups[i].waited++;
}

/* Is there a group that has not had its share? */
static bool another(const struct exec_warp *w)
{
    for (uint32_t i = 0; i < w->group_count; i++)
        if (w->groups[i].state == EXEC_RUNNABLE && !w->groups[i].gave_way)
            return true;
    return false;
}

void exec_warp_end(struct exec_warp *w)
{
    struct exec_block *b = w->block;
    w->alive = w->mask = 0;
    w->group_count = 0;
    b->live_threads -= SG_LANES;
    b->live_warps--;
}

static void begin(struct exec_warp *w)
{
    w->budget = BEGINNING;
    w->polled = w->halted = false;
    w->nap = 0;
    load(w, 0);
}

void exec_warp_begin(struct exec_warp *w)
{
    w->block->clean = false;
    exec_warp_start(w, UINT32_MAX);
    if (w->alive)
        begin(w);
}

bool exec_warp_may_run_through(const struct exec_warp *w)
{
    const struct exec_insn *i = w->block->grid->entry->insns;
    return w->alive == UINT32_MAX && i->straight == EXEC_STRAIGHT_REGION && exec_region_ready(w, i);
}

bool exec_warp_run_through(struct exec_warp *w)
{
    const struct exec_insn *i = w->block->grid->entry->insns;
    sg_jit_code *code = exec_region_ready(w, i);
    begin(w);
    i = code(w, i);
    exec_instructions_add(w);
    if (i && i->known == EXEC_STRAIGHT_END) {
        exec_warp_end(w);
        return true;
    }
    if (i)
        w->pc = i;
    struct exec_group *g = &w->groups[w->current];
    g->pc = w->pc;
    g->mask = w->mask;
    g->frame = w->frame;
    return false;
}

int32_t exec_warp_slice(struct exec_warp *w, int32_t budget)
{
    unsigned more = SG_LANES;
    int32_t given = budget;
    bool loaded = w->halted && w->group_count == 1;      /* the usual case by far: it goes on where it stands */
    w->budget = budget;
    w->polled = w->halted = false;
    w->nap = 0;
    while (w->budget > 0 && !w->block->failed) {
        if (loaded) {
            w->stop = NULL;
            loaded = false;
        } else {
            int i = pick(w);
            if (i < 0)
                break;
            load(w, (uint32_t)i);
        }
        run(w);
        if (w->halted && w->group_count == 1)
            break;
        struct exec_group *g = &w->groups[w->current];
        if (!w->mask) {
            group_remove(w, w->current);
            if (w->block->released)
                break;
            continue;
        }
        g->pc = w->pc;
        g->mask = w->mask;
        g->frame = w->frame;
        if (w->halted || w->block->released)
            break;
        if (w->budget > 0)
            continue;
        g->spent = w->group_count > 1 ? g->spent + 1 : 0;
        g->gave_way = w->polled || g->spent >= SLICES_BEFORE_TURN;
        if (!g->gave_way)
            break;
        g->spent = 0;
        count_waits(w);
        if (!more-- || !another(w))
            break;
        given += budget - w->budget;
        w->budget = budget;           /* what it waits for may well be in its own warp */
        w->polled = false;
    }
    exec_instructions_add(w);
    return given - w->budget;
}
