/*
 * cluster.c: clusters: blocks that start together, wait for each other and reach each other's shared memory.
 *
 * One host thread runs the blocks of a cluster in turns, one after the other, and the cluster ends as a whole. So
 * shared memory needs no atomics, also where another block of the cluster accesses it, and it is there until all have
 * ended.
 *
 * The barrier (barrier.cluster) has two halves. A thread that arrives goes on; it waits only in the second half, until
 * every thread of the cluster has arrived or exited. Each warp keeps which of its lanes have arrived in this phase, and
 * forgets it when the barrier opens: a lane that finds itself forgotten need not wait. Follows: PTX ISA,
 * "barrier.cluster".
 */
#include "softgpu/exec/exec.h"

/* As after a barrier of the block (op_barrier.c, block.c). */
enum { HALTS = 4 };

enum exec_turn exec_cluster_turn(struct exec_cluster *c)
{
    bool any = false, live = false;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->blocks[i]->fresh)
            exec_block_start(c->blocks[i]);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->blocks[i]->live_threads && !exec_block_must_end(c->blocks[i]))
            any |= exec_block_run(c->blocks[i]);
    for (uint32_t i = 0; i < c->count; i++) {
        if (exec_block_must_end(c->blocks[i]))
            return EXEC_TURN_DONE;
        live |= c->blocks[i]->live_threads != 0;
    }
    return !live ? EXEC_TURN_DONE : any ? EXEC_TURN_MORE : EXEC_TURN_WAIT;
}

bool exec_in_shared(const struct exec_block *b, const void *at)
{
    uint32_t count = b->cluster ? b->cluster->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct exec_block *of = b->cluster ? b->cluster->blocks[i] : b;
        if ((uintptr_t)at - (uintptr_t)of->shared < of->shared_size)
            return true;
    }
    return false;
}

static bool has_arrived(const struct exec_block *b)
{
    for (uint32_t i = 0; i < b->warp_count; i++)
        if (b->warps[i].alive & ~b->warps[i].cluster_arrived)
            return false;
    return true;
}

static void open_barrier(struct exec_block *b)
{
    bool ordered = b->warp_count > 1 && !b->grid->engine->chaos, waited = false;
    for (uint32_t i = 0; i < b->warp_count; i++) {
        struct exec_warp *w = &b->warps[i];
        w->cluster_arrived = 0;
        for (uint32_t k = 0; k < w->group_count; k++)
            if (w->groups[k].state == EXEC_AT_BARRIER && w->groups[k].barrier == EXEC_BARRIER_CLUSTER) {
                w->groups[k].state = EXEC_RUNNABLE;
                waited = true;
            }
    }
    for (uint32_t i = 0; waited && ordered && i < b->warp_count; i++)
        b->warps[i].halts = HALTS;
    b->released |= waited && ordered;
}

void exec_cluster_recheck(struct exec_block *b)
{
    uint32_t count = b->cluster ? b->cluster->count : 1;
    for (uint32_t i = 0; i < count; i++)
        if (!has_arrived(b->cluster ? b->cluster->blocks[i] : b))
            return;
    for (uint32_t i = 0; i < count; i++)
        open_barrier(b->cluster ? b->cluster->blocks[i] : b);
}
