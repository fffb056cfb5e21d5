/*
 * block.c: a block's turn on a core, and its beginning and end.
 *
 * A turn gives each warp that can run one slice. It is short (some ten to hundreds of microseconds), since blocks that
 * wait for other blocks only spin. Blocks are used again by the grid's later blocks, with all their memory.
 */
#include "softgpu/exec/exec.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 4096 };

static bool block_memory(struct exec_block *b)
{
    const sg_grid *g = b->grid;
    size_t local = (g->local_size + 15) / 16 * 16 * SG_LANES;
    if (!b->warps) {
        b->warps = aligned_alloc(64, g->warps_per_block * sizeof *b->warps);
        if (!b->warps)
            return false;
        memset(b->warps, 0, g->warps_per_block * sizeof *b->warps);
        b->warp_count = g->warps_per_block;
        b->shared_size = g->engine->limits.shared_reserved + g->shared_size;
        b->shared = aligned_alloc(128, (b->shared_size + 255) / 128 * 128);
        if (!b->shared)
            return false;
        b->local_size = local * g->warps_per_block;
        b->local = b->local_size ? aligned_alloc(64, b->local_size) : NULL;
        if (b->local_size && !b->local)
            return false;
        for (uint32_t i = 0; i < b->warp_count; i++) {
            exec_warp_init(&b->warps[i], b, i);
            b->warps[i].local = b->local ? b->local + i * local : NULL;
        }
    }
    return true;
}

static void block_start(struct exec_block *b)
{
    sg_grid *g = b->grid;
    b->fresh = false;
    b->failed = false;
    b->ctaid[0] = (uint32_t)(b->index % g->launch.grid[0]);
    b->ctaid[1] = (uint32_t)(b->index / g->launch.grid[0] % g->launch.grid[1]);
    b->ctaid[2] = (uint32_t)(b->index / g->launch.grid[0] / g->launch.grid[1]);
    if (!block_memory(b)) {
        int none = 0;
        atomic_compare_exchange_strong(&g->error, &none, CUDA_ERROR_OUT_OF_MEMORY);
        b->failed = true;
        return;
    }
    memset(b->barriers, 0, sizeof b->barriers);
    memset(b->shared, 0, g->engine->limits.shared_reserved);     /* cooperative groups finds its barriers in rest there */
    b->live_threads = g->threads_per_block;
    b->live_warps = b->warp_count;
    for (uint32_t i = 0; i < b->warp_count; i++) {
        uint32_t left = g->threads_per_block - i * SG_LANES;
        exec_warp_start(&b->warps[i], left >= SG_LANES ? UINT32_MAX : (1u << left) - 1);
    }
}

void exec_block_free(struct exec_block *b)
{
    for (uint32_t i = 0; i < b->warp_count; i++)
        exec_frames_free(&b->warps[i]);
    free(b->warps);
    free(b->shared);
    free(b->local);
    free(b);
}

void exec_block_exited(struct exec_block *b, struct exec_warp *w, uint32_t lanes)
{
    b->live_threads -= (uint32_t)__builtin_popcount(lanes);
    if (!w->alive)
        b->live_warps--;
    if (b->live_threads)
        exec_barrier_recheck(b);
}

/* Under chaos: from a few instructions to a long turn. */
static int32_t some_slice(struct exec_block *b)
{
    b->chaos = b->chaos * 6364136223846793005u + 1442695040888963407u + b->index + b->grid->id;
    return 1 + (int32_t)(b->chaos >> 33) % (1 << (b->chaos >> 40) % 14);
}

enum exec_turn exec_block_turn(struct exec_block *b)
{
    sg_grid *g = b->grid;
    if (b->fresh)
        block_start(b);
    bool any = false;
    for (uint32_t i = 0; i < b->warp_count && !b->failed; i++) {
        struct exec_warp *w = &b->warps[i];
        if (!w->alive || !exec_warp_ready(w))
            continue;
        if (atomic_load_explicit(&g->error, memory_order_relaxed)) {
            b->failed = true;
            break;
        }
        exec_warp_slice(w, g->engine->chaos ? some_slice(b) : SLICE);
        any = true;
    }
    if (b->failed || atomic_load_explicit(&g->error, memory_order_relaxed) || !b->live_threads)
        return EXEC_TURN_DONE;
    return any ? EXEC_TURN_MORE : EXEC_TURN_WAIT;
}
