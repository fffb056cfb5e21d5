/*
 * phases.c: see phases.h. The code runs a phase of each warp, up to where it waits, and goes on with the next phase as
 * soon as all have come to the barrier. A warp has the frame of the entry then, where its registers are between
 * phases, and nothing else. What the code has no way for sets all warps up, each where it stands, and the rest of the
 * block is for turns.
 *
 * A warp that has read shared memory since the barrier, and is about to store to it, lets the others come so far first
 * (block.c says why). The code does that, too, each time: EXEC_SEEN_HALT says that it has to go over the warps again.
 */
#include "softgpu/exec/phases.h"

#include "softgpu/exec/callbacks.h"
#include "softgpu/exec/jit.h"
#include "softgpu/exec/parted.h"
#include "softgpu/exec/whole.h"

/* Of each warp in a turn, in instructions, as branches backward count them. */
enum { TURN = 4096 };

bool exec_phases_may(const sg_grid *g)
{
    return g->threads_per_block % SG_LANES == 0;
}

static const struct exec_insn *head_of(const struct exec_block *b, unsigned n)
{
    const struct exec_insn *i = b->grid->entry->insns;
    while (n)
        n -= exec_phase_ends(i++);
    return i;
}

void exec_phases_begin(struct exec_warp *w, uint32_t lanes, const struct exec_insn *others)
{
    unsigned char fixed[EXEC_CLEARED];
    memcpy(fixed, w->rows, sizeof fixed);
    exec_parted_begin(w, lanes, others);
    if (w->alive)
        memcpy(w->rows, fixed, sizeof fixed);
    w->halts = EXEC_HALTS;
}

/* Sets a warp up where it stands. */
static void set_up(struct exec_block *b, uint32_t k)
{
    struct exec_warp *w = &b->warps[k];
    const unsigned place = b->phases.places[k];
    if (place == EXEC_PHASE_ENDED) {
        w->alive = w->group_count = 0;
        b->live_threads -= SG_LANES;
        b->live_warps--;
        return;
    }
    const bool some = place >= EXEC_PHASE_SOME && place < EXEC_PHASE_WAITS;
    const struct exec_insn *at = head_of(b, place % EXEC_PHASE_SOME), *branch = at;
    while (some && branch->straight != EXEC_STRAIGHT_BRANCH_IF)
        branch--;
    exec_phases_begin(w, some ? b->phases.lanes[k] : UINT32_MAX, some ? branch->target : NULL);
    if (w->alive)
        w->groups[0].pc = place >= EXEC_PHASE_WAITS ? at - 1 : at;
}

/* The code has left one of them before w->pc. Its lanes may part there; then what the code knows of registers at the
   next barrier would not hold for it. */
static void set_all_up(struct exec_block *b, uint32_t left)
{
    exec_whole_stand(&b->warps[left]);
    for (uint32_t k = 0; k < b->warp_count && !b->failed; k++)
        if (k != left)
            set_up(b, k);
    b->phases.on = false;
    b->clean = false;
}

/* All warps wait or have ended: those that wait go on. */
static void open_barrier(struct exec_block *b)
{
    b->phases.seen = 0;
    for (uint32_t k = 0; k < b->warp_count; k++)
        if (b->phases.places[k] == EXEC_PHASE_ENDED)
            b->phases.seen = EXEC_SEEN_END;
        else
            b->phases.places[k] %= EXEC_PHASE_SOME;
}

static void run(struct exec_block *b, sg_jit_whole *code)
{
    struct exec_phases *p = &b->phases;
    p->budget = (int32_t)b->warp_count * TURN + EXEC_PHASE_LEAST;
    while (!exec_block_must_end(b)) {
        const uint32_t k = (uint32_t)code(b, 0, b->warp_count, 0, b->grid->entry->insns);
        if (k < b->warp_count) {
            set_all_up(b, k);
            return;
        }
        if (p->seen == EXEC_SEEN_END) {
            b->live_threads = b->live_warps = 0;
            p->on = false;
            return;
        }
        if (p->seen)
            open_barrier(b);
        p->budget -= EXEC_PHASE_COST;
        if (p->budget <= EXEC_PHASE_LEAST)
            return;
    }
}

void exec_phases_turn(struct exec_block *b)
{
    run(b, exec_region_whole(b->grid->whole, b->grid->entry, b->warps[0].in_line));
    exec_whole_count(b);
}

bool exec_phases_start(struct exec_block *b)
{
    b->grid->whole->phases = true;
    if (!exec_region_whole(b->grid->whole, b->grid->entry, b->warps[0].in_line) || !exec_whole_ready(b))
        return false;
    memset(&b->phases, 0, sizeof b->phases);
    b->phases.on = true;
    exec_phases_turn(b);
    return true;
}
