/*
 * whole.c: code for whole blocks. Such a kernel has no loops and no barriers, so its threads wait for nothing that
 * other warps of their block do, and each warp may run to its end before the next one begins.
 *
 * That code reads and writes no more of a warp than the frame of its registers, unless something happens that it leaves
 * to others: then it sets the warp up (exec_warp_begin) and ends with its number. Lanes that part at a branch have code
 * of their own, for this warp; behind that, the code for the block goes on with the next one. All else is for turns.
 */
#include "softgpu/exec/whole.h"

#include "softgpu/check.h"
#include "softgpu/exec/callbacks.h"
#include "softgpu/exec/jit.h"
#include "softgpu/exec/phases.h"

struct exec_region *exec_whole_of(const sg_grid *g)
{
    const struct exec_insn *i = g->entry->insns;
    return i->straight != EXEC_STRAIGHT_REGION || g->threads_per_block < SG_LANES || g->cluster_size > 1 ||
                   g->engine->chaos || sg_check || g->kernel->has_cluster_barriers ||
                   (g->kernel->has_barriers && !exec_phases_may(g))
               ? NULL
               : (struct exec_region *)(uintptr_t)i->extra;
}

void exec_whole_turn(struct exec_block *b)
{
    memset(b->reaches, 0, sizeof b->reaches);
    if (b->grid->whole)
        memset(b->spans, 0, sizeof b->spans);
}

bool exec_whole_ready(struct exec_block *b)
{
    if (b->clean)
        return true;
    for (uint32_t i = 0; i < b->warp_count && !b->failed; i++) {
        struct exec_warp *w = &b->warps[i];
        exec_warp_begin(w);
        w->alive = w->group_count = 0;
    }
    b->clean = !b->failed;
    return b->clean;
}

bool exec_whole_stand(struct exec_warp *w)
{
    if (!w->mask) {
        w->groups[w->current] = w->groups[--w->group_count];
        return false;
    }
    struct exec_group *g = &w->groups[w->current];
    g->pc = w->pc;
    g->mask = w->mask;
    return w->mask == UINT32_MAX && w->group_count == 1 && !w->block->failed;
}

/* The code has left the warp before w->pc. true: code for some lanes has taken it to its end. */
static bool part(struct exec_warp *w)
{
    const bool parted = !w->block->failed && w->mask == UINT32_MAX &&
                        exec_region_part(w, w->block->grid->entry->insns, w->pc);
    return exec_whole_stand(w) && parted && w->pc->known == EXEC_STRAIGHT_END;
}

void exec_whole_count(struct exec_block *b)
{
    for (uint32_t i = 0; exec_callbacks_counted && i < b->warp_count; i++)
        exec_instructions_add(&b->warps[i]);
}

/* The code has run so many blocks behind the block, and stands in the last one. */
static void go_on(struct exec_block *b, uint32_t blocks)
{
    b->index += blocks;
    b->behind -= blocks;
    if (blocks) {
        b->live_threads = b->grid->threads_per_block;
        b->live_warps = b->warp_count;
    }
}

/* Blocks that the code may run behind the block. */
static uint64_t blocks_behind(const struct exec_block *b, uint32_t full)
{
    const uint64_t in_line = b->grid->launch.grid[0] - 1 - b->ctaid[0];
    return full < b->warp_count ? 0 : b->behind < in_line ? b->behind : in_line;
}

uint32_t exec_whole_run(struct exec_block *b, uint32_t *started)
{
    sg_jit_whole *code = exec_region_whole(b->grid->whole, b->grid->entry, b->warps[0].in_line);
    const struct exec_insn *entry = b->grid->entry->insns;
    const uint32_t full = b->grid->threads_per_block / SG_LANES;
    *started = 0;
    if (!code || !exec_whole_ready(b))
        return 0;
    uint32_t i = 0;
    for (;; i++) {
        const uint32_t place = b->ctaid[0];
        uint32_t first = i;
        i = first < full ? (uint32_t)code(b, first, full, blocks_behind(b, full), entry) : full;
        go_on(b, b->ctaid[0] - place);
        first = b->ctaid[0] == place ? first : 0;
        b->live_threads -= (i - first) * SG_LANES;
        b->live_warps -= i - first;
        if (i == full || !part(&b->warps[i]))
            break;
        exec_warp_end(&b->warps[i]);
    }
    *started = i < full ? i + 1 : full;
    exec_whole_count(b);
    return i;
}
