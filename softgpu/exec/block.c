/*
 * block.c: a block's turn on a core, and its beginning and end.
 *
 * A turn is short (some ten to hundreds of microseconds), since blocks that wait for other blocks only spin. Within
 * it the warps that can run get slices one after the other, until each has had its share.
 *
 * Hardware issues the warps of a block in turn, so they stay close to each other: none stores to memory in the next
 * iteration of a loop before the others have executed the few instructions behind the barrier. Programs that lack a
 * barrier rely on it without knowing. So when a barrier opens, the oldest warp goes first, and each warp halts before
 * its next few stores until the others have had a slice too: they have then read what was to be read. Where all have
 * come to a store, or wait, none halts again before one has read more. Under chaos there is no such order.
 *
 * Blocks are used again by the grid's later blocks, with all their memory, and one of them by a later grid of the same
 * kernel, cleared. What a kernel finds in shared and local memory and in registers before it has written them is zero,
 * or what the same grid has left: never what else was in this process, or in another one.
 */
#include "softgpu/check.h"
#include "softgpu/exec/phases.h"
#include "softgpu/exec/whole.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

/* In instructions, as branches backward count them. STEP: what a slice counts at least, so that a turn ends. */
enum { TURN = 4096, SLICE = 512, STEP = 16 };
/* A block whose warps did not run through more than a few times in a hundred does not try it any more. */
enum { STOPPED_MORE = 32, STOPPED_MOST = 256 };
enum { SHARED_UNIT = 128 }; /* of shared memory, since compute capability 8.0 */
enum { LOCAL_REST = 64 };   /* bytes behind local memory: compiled code moves so many at once (softgpu/jit/locals.c) */

/* A GPU takes local memory of its own memory; ours is the host's, and so has the same bound. */
static bool local_take(struct exec_block *b, size_t size)
{
    sg_engine *e = b->grid->engine;
    size_t held = atomic_fetch_add(&e->local_held, size) + size;
    b->local = size && !(e->limits.local_memory && held > e->limits.local_memory) ? exec_zeroed(64, size + LOCAL_REST)
                                                                                  : NULL;
    if (size && !b->local) {
        atomic_fetch_sub(&e->local_held, size);
        return false;
    }
    b->local_size = size;
    return true;
}

/* A GPU allocates in units, and compilers count on it: they read 16 bytes where the last 12 are asked for. */
size_t exec_shared_size(const sg_grid *g)
{
    const size_t size = g->engine->limits.shared_reserved + g->shared_size;
    return sg_check ? size : (size + SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT;
}

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
        b->shared_size = exec_shared_size(g);
        b->shared = exec_zeroed(SHARED_UNIT, (b->shared_size + 2 * SHARED_UNIT - 1) / SHARED_UNIT * SHARED_UNIT);
        if (!b->shared)
            return false;
        if (!local_take(b, local * g->warps_per_block))
            return false;
        for (uint32_t i = 0; i < b->warp_count; i++) {
            exec_warp_init(&b->warps[i], b, i);
            b->warps[i].local = b->local ? b->local + i * local : NULL;
        }
    }
    return true;
}

/* Blocks are counted cluster by cluster. */
static void find_place(struct exec_block *b)
{
    const sg_grid *g = b->grid;
    const uint32_t *n = g->cluster, *grid = g->launch.grid;
    if (g->cluster_size == 1 && b->index <= UINT32_MAX) { /* the usual case, and a quick one */
        const uint32_t line = (uint32_t)b->index / grid[0];
        b->rank = 0;
        b->ctaid[0] = (uint32_t)b->index % grid[0];
        b->ctaid[1] = line % grid[1];
        b->ctaid[2] = line / grid[1];
        return;
    }
    uint64_t cluster = b->index / g->cluster_size;
    uint32_t x = g->launch.grid[0] / n[0], y = g->launch.grid[1] / n[1];
    b->rank = (uint32_t)(b->index % g->cluster_size);
    b->ctaid[0] = (uint32_t)(cluster % x) * n[0] + b->rank % n[0];
    b->ctaid[1] = (uint32_t)(cluster / x % y) * n[1] + b->rank / n[0] % n[1];
    b->ctaid[2] = (uint32_t)(cluster / x / y) * n[2] + b->rank / n[0] / n[1];
}

/* Clears the shared memory and the registers that an earlier grid has left in the block. */
static void make_new(struct exec_block *b)
{
    b->used = false;
    memset(b->shared, 0, b->shared_size);
    for (uint32_t i = 0; i < b->warp_count; i++)
        exec_frame_clear(&b->warps[i]);
}

/* All but its warps. */
static void prepare(struct exec_block *b)
{
    sg_grid *g = b->grid;
    b->fresh = false;
    b->failed = false;
    find_place(b);
    if (!block_memory(b) || (sg_check && !exec_check_start(b))) {
        int none = 0;
        atomic_compare_exchange_strong(&g->error, &none, CUDA_ERROR_OUT_OF_MEMORY);
        b->failed = true;
        return;
    }
    for (uint32_t m = b->barriers_in_use; m; m &= m - 1)  /* threads that came, and did not wait */
        memset(&b->barriers[__builtin_ctz(m)], 0, sizeof *b->barriers);
    b->barriers_in_use = 0;
    /* cooperative groups keeps its barriers there and expects them at rest */
    if (b->used)
        make_new(b);
    else if (!b->clean || g->kernel->has_barriers)
        memset(b->shared, 0, g->engine->limits.shared_reserved);
    b->released = false;
    b->phases.on = false;
    b->live_threads = g->threads_per_block;
    b->live_warps = b->warp_count;
}

static void start_warp(struct exec_block *b, uint32_t i)
{
    const uint32_t left = b->grid->threads_per_block - i * SG_LANES;
    b->clean = false;
    exec_warp_start(&b->warps[i], left >= SG_LANES ? UINT32_MAX : (1u << left) - 1);
}

void exec_block_start(struct exec_block *b)
{
    prepare(b);
    for (uint32_t i = 0; i < b->warp_count && !b->failed; i++)
        start_warp(b, i);
}

/* So many warps have run through, and another one, perhaps, has not. */
static void note_stops(struct exec_block *b, uint32_t ran, bool stopped)
{
    b->stopped -= ran < b->stopped ? ran : b->stopped;
    b->stopped += stopped ? STOPPED_MORE : 0;
}

/* Where there are no barriers, each warp of a short kernel runs to its end before the next one begins, as turn() would
   have it, if compiled code takes it there. What is left has turns. */
static void start_and_run(struct exec_block *b)
{
    uint32_t i = 0, ran = 0;
    bool through = !b->grid->engine->chaos && !b->grid->kernel->has_barriers && b->stopped < STOPPED_MOST;
    prepare(b);
    if (b->grid->kernel->has_barriers && b->grid->whole && b->stopped < STOPPED_MOST && !exec_block_must_end(b) &&
        exec_phases_start(b)) {
        note_stops(b, b->warp_count, b->live_warps && !b->phases.on);
        return;
    }
    if (through && b->grid->whole && !exec_block_must_end(b))
        ran = exec_whole_run(b, &i);
    note_stops(b, ran, ran < i);
    for (through &= !i; through && i < b->warp_count && !exec_block_must_end(b); i++) {
        start_warp(b, i);
        if (!exec_warp_may_run_through(&b->warps[i])) { /* there may be no code yet: later blocks try again */
            i++;
            break;
        }
        through = exec_warp_run_through(&b->warps[i]);
        note_stops(b, through, !through);
    }
    for (; i < b->warp_count && !b->failed; i++)
        start_warp(b, i);
}

void exec_block_free(struct exec_block *b)
{
    for (uint32_t i = 0; i < b->warp_count; i++)
        exec_frames_free(&b->warps[i]);
    exec_check_free(b);
    free(b->warps);
    free(b->shared);
    free(b->local);
    if (b->local_size)
        atomic_fetch_sub(&b->grid->engine->local_held, b->local_size);
    free(b);
}

/* Under chaos: from a few instructions to a long turn. */
static int32_t some_slice(struct exec_block *b)
{
    b->chaos = b->chaos * 6364136223846793005u + 1442695040888963407u + b->index + b->grid->id;
    return 1 + (int32_t)(b->chaos >> 33) % (1 << (b->chaos >> 40) % 14);
}

/* Has the grid failed meanwhile? */
bool exec_block_must_end(struct exec_block *b)
{
    if (atomic_load_explicit(&b->grid->error, memory_order_relaxed))
        b->failed = true;
    return b->failed;
}

/* One slice of random length for each warp. */
static bool chaotic_turn(struct exec_block *b)
{
    bool any = false;
    for (uint32_t i = 0; i < b->warp_count && !exec_block_must_end(b); i++)
        if (b->warps[i].alive && exec_warp_ready(&b->warps[i])) {
            exec_warp_slice(&b->warps[i], some_slice(b));
            any = true;
        }
    return any;
}

/* Does the warp stand before a store, or wait for others? Then it has read what comes before that. */
static bool has_stopped(const struct exec_warp *w)
{
    return (w->halted && w->group_count == 1) || !exec_warp_ready(w);
}

/* Slices in order of age, and again from the oldest when a barrier has opened. A warp that sleeps (nanosleep) has had
   its share. */
static bool turn(struct exec_block *b)
{
    bool any = false, again = true;
    uint32_t nap = UINT32_MAX;
    int32_t left[EXEC_MAX_WARPS];
    for (uint32_t i = 0; i < b->warp_count; i++)
        left[i] = TURN;
    while (again && b->live_threads) {
        bool stopped = true;
        again = false;
        for (uint32_t i = 0; i < b->warp_count && !exec_block_must_end(b); i++) {
            struct exec_warp *w = &b->warps[i];
            if (!w->alive || !exec_warp_ready(w))
                continue;
            if (left[i] <= 0) {
                stopped = false;
                continue;
            }
            int32_t used = exec_warp_slice(w, left[i] < SLICE ? left[i] : SLICE);
            left[i] -= w->nap ? left[i] : used > STEP ? used : STEP;
            nap = w->nap < nap ? w->nap : nap;
            any = again = true;
            stopped &= has_stopped(w);
            if (b->released) {
                b->released = stopped = false;
                break;
            }
        }
        b->read &= !stopped;
    }
    b->nap = any ? nap : 0;
    return any;
}

bool exec_block_run(struct exec_block *b)
{
    return !b->failed && (b->grid->engine->chaos ? chaotic_turn(b) : turn(b));
}

enum exec_turn exec_block_turn(struct exec_block *b)
{
    const bool goes_on = !b->fresh && b->phases.on;
    if (b->fresh)
        start_and_run(b);
    else if (goes_on && !exec_block_must_end(b))
        exec_phases_turn(b);
    bool any = b->live_threads && (b->phases.on || exec_block_run(b));
    if (exec_block_must_end(b) || !b->live_threads)
        return EXEC_TURN_DONE;
    return any ? EXEC_TURN_MORE : EXEC_TURN_WAIT;
}
