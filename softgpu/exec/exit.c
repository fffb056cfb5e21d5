/*
 * exit.c: the end of threads. Lanes of the warp and warps of the block that waited for these threads may go on, so this
 * file calls those that let lanes meet (op_warp.c, op_barrier.c). warp.c and block.c stand below them.
 */
#include "softgpu/exec/exec.h"

static void block_exited(struct exec_block *b, struct exec_warp *w, uint32_t lanes)
{
    b->live_threads -= lanes == UINT32_MAX ? SG_LANES : (uint32_t)__builtin_popcount(lanes);
    if (!w->alive)
        b->live_warps--;
    if (b->live_threads)
        exec_barrier_recheck(b);
    if (b->grid->kernel->has_cluster_barriers)
        exec_cluster_recheck(b);
}

void exec_warp_exit(struct exec_warp *w)
{
    uint32_t lanes = w->mask;
    w->alive &= ~lanes;
    w->mask = 0;
    exec_leave(w);
    struct exec_frame *parent;
    for (struct exec_frame *f = w->frame; f; f = parent) {
        parent = f->parent;           /* before leave: f may be gone after it */
        exec_frame_leave(w, f, lanes);
    }
    if (w->alive)
        exec_sync_recheck(w);
    block_exited(w->block, w, lanes);
}
