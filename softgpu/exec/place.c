/*
 * place.c: which blocks are resident, and on which SM.
 *
 * Blocks of the grid launched first become resident first, in index order, then later grids fill what room is left. A
 * cooperative grid becomes resident all at once, and while it waits for that no later grid takes the room (two halves
 * of two such grids would wait for ever).
 *
 * A resident block has no memory before its first turn: registers, shared and local memory. It gets that of the block
 * that has ended last, if there is one, because that is still in the processor's caches. So a grid of many short blocks
 * uses as much memory as host threads run blocks at a time, not as much as blocks are resident.
 *
 * While blocks of the oldest grid wait for room, a thread that begins one claims some more, and runs them in its place
 * one after the other, without the lock: as many as take it some ten microseconds. When one of them is not over after
 * its first turn, the thread gives back those that it has not begun: the block may wait for one of these. So the oldest
 * block that has not ended has always begun, or is the next of a thread whose block before it ends in its turn.
 *
 * The number of SMs may change while blocks run (sg_active_sms). It says where blocks are placed, no more: those that
 * are resident stay until they end. A grid that needs more SMs at once, and was launched by the number that programs
 * see, gets the SMs of that number.
 */
#include "softgpu/exec/place.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "softgpu/check.h"
#include "softgpu/exec/family.h"

enum { RESIDENT_GRIDS = 128 };        /* of a device: CUDA's table for compute capability 7.5 and later */
/* CLAIM_MOST: blocks. LONG, SHORT: nanoseconds. A grid's last blocks are for all threads: each claims a fraction of
   what is left. */
enum { CLAIM_MOST = 1024, CLAIM_LONG = 50000, CLAIM_SHORT = 20000, CLAIM_FRACTION = 4 };

unsigned exec_blocks_that_fit(const struct sg_limits *l, const struct exec_sm *sm, unsigned threads,
                                unsigned registers, size_t shared)
{
    unsigned warps_threads = (threads + 31) / 32 * 32;
    unsigned n = l->max_blocks_per_sm - sm->blocks;
    unsigned by_threads = (l->max_threads_per_sm - sm->threads) / warps_threads;
    n = by_threads < n ? by_threads : n;
    unsigned by_registers = (l->regs_per_sm - sm->registers) / (registers * warps_threads);
    n = by_registers < n ? by_registers : n;
    unsigned at_most = exec_warps_of_registers(l, registers) / (warps_threads / 32);
    n = at_most < n ? at_most : n;
    size_t each = (shared + l->shared_reserved + 127) / 128 * 128;
    if (each) {
        size_t by_shared = (l->shared_per_sm - sm->shared) / each;
        n = by_shared < n ? (unsigned)by_shared : n;
    }
    return n;
}

unsigned sg_occupancy(const struct sg_limits *l, const sg_kernel *k, unsigned block_size, size_t dynamic_shared)
{
    if (!block_size)
        return 0;
    const struct exec_sm none = { 0 };
    return exec_blocks_that_fit(l, &none, block_size, exec_registers_of_thread(k), k->static_shared + dynamic_shared);
}

static void sm_account(const sg_engine *e, const sg_grid *g, unsigned sm, bool take)
{
    FLYT_ASSERT_HELD(&e->lock);
    struct exec_sm *s = &e->sms[sm];
    unsigned threads = (g->threads_per_block + 31) / 32 * 32;
    size_t shared = (g->shared_size + e->limits.shared_reserved + 127) / 128 * 128;
    if (take) {
        s->blocks++, s->threads += threads, s->registers += threads * g->registers, s->shared += shared;
    } else {
        s->blocks--, s->threads -= threads, s->registers -= threads * g->registers, s->shared -= shared;
    }
}

static unsigned room(const sg_engine *e, const sg_grid *g, unsigned sm)
{
    return exec_blocks_that_fit(&e->limits, &e->sms[sm], g->threads_per_block, g->registers, g->shared_size);
}

_Atomic(const _Atomic uint32_t *) sg_active_sms;

unsigned exec_active_sms(const sg_engine *e)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&sg_active_sms, memory_order_acquire);
    unsigned now = word ? atomic_load_explicit(word, memory_order_relaxed) : 0, most = EXEC_MAX_SMS;
    if (e->part)
        most = e->limits.sm_count;
    return !now ? e->limits.sm_count : now < most ? now : most;
}

/* On how many SMs blocks of the grid are placed. */
static unsigned reach_of(const sg_engine *e, const sg_grid *g)
{
    const struct exec_sm none = { 0 };
    unsigned active = exec_active_sms(e), told = e->limits.sm_count;
    uint64_t each = exec_blocks_that_fit(&e->limits, &none, g->threads_per_block, g->registers, g->shared_size);
    bool together = g->launch.flags & SG_GRID_COOPERATIVE || each * active < g->cluster_size;
    return together && told > active ? told : active;
}

/* For how many blocks of a grid each of the first `sms` SMs has room, and all of them have. */
struct rooms { unsigned sms; uint64_t total; unsigned of[EXEC_MAX_SMS]; };

static void rooms_count(struct rooms *r, const sg_engine *e, const sg_grid *g)
{
    r->sms = reach_of(e, g);
    r->total = 0;
    for (unsigned sm = 0; sm < r->sms; sm++)
        r->total += r->of[sm] = room(e, g, sm);
}

/* A block of the grid has been placed there. */
static void rooms_take(struct rooms *r, const sg_engine *e, const sg_grid *g, unsigned sm)
{
    r->total -= r->of[sm];
    r->total += r->of[sm] = room(e, g, sm);
}

/* The SM with the most room. */
static unsigned emptiest(const struct rooms *r)
{
    unsigned best = 0, most = 0;
    for (unsigned sm = 0; sm < r->sms; sm++)
        if (r->of[sm] > most)
            most = r->of[sm], best = sm;
    return best;
}

static struct exec_block *pop(struct exec_block **list)
{
    struct exec_block *b = *list;
    if (b)
        *list = b->next;
    return b;
}

static struct exec_block *take_block(sg_grid *g)
{
    struct exec_block *b = pop(&g->bare);
    if (!b)
        b = pop(&g->warm);
    return b ? b : calloc(1, sizeof *b);
}

static void keep_block(sg_grid *g, struct exec_block *b)
{
    struct exec_block **list = b->warps ? &g->warm : &g->bare;
    b->next = *list;
    *list = b;
}

void exec_free_blocks(sg_grid *g)
{
    struct exec_block *b;
    while ((b = pop(&g->bare)) || (b = pop(&g->warm)))
        exec_block_free(b);
}

/* ---- blocks that stay behind ----
 *
 * Most of what a short kernel costs is memory for its first block: warps are some kilobytes each. Clearing it costs
 * less. So the last grids leave a block behind, unless it is large, has local memory, which is counted, or is watched.
 */

enum { SPARE_MOST = 256 << 10 };

static bool may_stay(const sg_grid *g, const struct exec_block *b)
{
    const size_t size = b->warp_count * (sizeof *b->warps + g->entry->rows_size) + b->shared_size;
    if (size > SPARE_MOST || b->local_size || b->failed || g->cluster_size > 1 || g->engine->chaos || sg_check)
        return false;
    for (uint32_t i = 0; i < b->warp_count; i++)
        if (b->warps[i].spare || !b->warps[i].chunk || b->warps[i].chunk->previous)
            return false;
    return true;
}

static bool is_for(const struct exec_spare *s, const sg_grid *g)
{
    return s->kernel == g->kernel && !memcmp(s->grid, g->launch.grid, sizeof s->grid) &&
           !memcmp(s->shape, g->launch.block, sizeof s->shape);
}

void exec_spare_take(sg_engine *e, sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    for (unsigned k = 0; k < EXEC_SPARES; k++) {
        struct exec_spare *s = &e->spares[k];
        if (s->block && is_for(s, g) && s->block->shared_size == exec_shared_size(g) && !sg_check) {
            g->warm = s->block;
            s->block = NULL;
            s->kernel = NULL;
            return;
        }
    }
}

void exec_spare_leave(sg_engine *e, sg_grid *g)
{
    FLYT_ASSERT_HELD(&e->lock);
    struct exec_block *b = g->warm;
    struct exec_spare *s = NULL;
    if (!b || !may_stay(g, b) || atomic_load_explicit(&g->error, memory_order_relaxed))
        return;
    for (unsigned k = 0; k < EXEC_SPARES && !s; k++)
        if (!e->spares[k].block || is_for(&e->spares[k], g))
            s = &e->spares[k];
    if (!s)
        s = &e->spares[e->next_spare++ % EXEC_SPARES];
    if (s->block)
        exec_block_free(s->block);
    *s = (struct exec_spare){ .kernel = g->kernel, .block = b };
    memcpy(s->grid, g->launch.grid, sizeof s->grid);
    memcpy(s->shape, g->launch.block, sizeof s->shape);
    g->warm = b->next;
    b->next = NULL;
    b->grid = NULL;
    b->used = true;
}

void exec_spares_free(sg_engine *e, const sg_kernel *kernel)
{
    struct exec_block *gone = NULL;
    pthread_mutex_lock(&e->lock);
    for (unsigned k = 0; k < EXEC_SPARES; k++) {
        struct exec_spare *s = &e->spares[k];
        if (!s->block || (kernel && s->kernel != kernel))
            continue;
        s->block->next = gone;
        gone = s->block;
        *s = (struct exec_spare){ .kernel = NULL };
    }
    pthread_mutex_unlock(&e->lock);
    for (struct exec_block *b; (b = pop(&gone));)
        exec_block_free(b);
}

static void resident_add(sg_grid *g, struct exec_block *b)
{
    b->resident_next = g->resident;
    b->resident_link = &g->resident;
    if (b->resident_next)
        b->resident_next->resident_link = &b->resident_next;
    g->resident = b;
}

static void resident_remove(struct exec_block *b)
{
    *b->resident_link = b->resident_next;
    if (b->resident_next)
        b->resident_next->resident_link = b->resident_link;
}

uint64_t exec_blocks_left(const sg_grid *g)
{
    uint64_t left = g->block_count - g->next_block;
    for (uint32_t k = 0; k < g->returned_count; k++)
        left += g->returned[k].count;
    return left;
}

/* The oldest of those given back, else the first that nobody has taken. */
uint64_t exec_take_block(sg_grid *g)
{
    struct exec_range *oldest = NULL;
    for (uint32_t k = 0; k < g->returned_count; k++)
        if (!oldest || g->returned[k].first < oldest->first)
            oldest = &g->returned[k];
    if (!oldest)
        return g->next_block++;
    const uint64_t index = oldest->first++;
    if (!--oldest->count)
        *oldest = g->returned[--g->returned_count];
    return index;
}

static void become_next(sg_grid *g, struct exec_block *b, unsigned sm)
{
    b->grid = g;
    b->index = exec_take_block(g);
    b->sm = sm;
    b->fresh = true;
}

static void place_block(sg_engine *e, sg_grid *g, struct exec_block *b, unsigned sm)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (!g->next_block && g->task)
        e->waiting_children--;
    become_next(g, b, sm);
    g->running++;
    sm_account(e, g, sm, true);
}

/* The block, or the first one of its cluster, may take turns. */
static void begin_turns(sg_engine *e, sg_grid *g, struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    resident_add(g, b);
    exec_ready_push(e, b);
}

/* Starts the grid's next block; there is room for it. The blocks spread over the SMs, as on hardware. */
static bool start_block(sg_engine *e, sg_grid *g, struct rooms *rooms)
{
    struct exec_block *b = take_block(g);
    if (!b)
        return false;
    const unsigned sm = emptiest(rooms);
    place_block(e, g, b, sm);
    rooms_take(rooms, e, g, sm);
    begin_turns(e, g, b);
    return true;
}

/* Starts the grid's next cluster; there is room for it. */
static bool start_cluster(sg_engine *e, sg_grid *g, struct rooms *rooms)
{
    struct exec_cluster *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    for (; c->count < g->cluster_size; c->count++)
        if (!(c->blocks[c->count] = take_block(g))) {
            while (c->count)
                keep_block(g, c->blocks[--c->count]);
            free(c);
            return false;
        }
    for (uint32_t i = 0; i < c->count; i++) {
        const unsigned sm = emptiest(rooms);
        c->blocks[i]->cluster = c;
        place_block(e, g, c->blocks[i], sm);
        rooms_take(rooms, e, g, sm);
    }
    begin_turns(e, g, c->blocks[0]);
    return true;
}

void exec_end_block(sg_engine *e, sg_grid *g, struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    struct exec_cluster *c = b->cluster;
    resident_remove(b);
    for (uint32_t i = 0; i < (c ? c->count : 1); i++) {
        struct exec_block *one = c ? c->blocks[i] : b;
        one->cluster = NULL;
        exec_family_leave_block(one);
        exec_buffers_leave(one);
        keep_block(g, one);
        g->running--;
        sm_account(e, g, one->sm, false);
    }
    free(c);
}

/* Do blocks of the oldest grid wait for room, and would one of them get that of this block when it ends? No SM has more
   room, since exec_place_blocks() has used what others left. */
static bool has_next(const sg_engine *e, const sg_grid *g, const struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    return g == e->grids && g->crowded && exec_blocks_left(g) && g->cluster_size == 1 &&
           !atomic_load_explicit(&g->error, memory_order_relaxed) && e->placed_on == exec_active_sms(e) &&
           b->sm < e->placed_on;
}

struct exec_range exec_claim_blocks(sg_engine *e, struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    sg_grid *g = b->grid;
    const struct exec_range none = { 0, 0 };
    if (!b->fresh || e->chaos || g->returned_count || g->claims == EXEC_CLAIMS_MOST || !has_next(e, g, b))
        return none;
    const uint64_t left = (g->block_count - g->next_block) / (CLAIM_FRACTION * e->thread_count);
    struct exec_range r = { g->next_block, left < g->claim_size ? left : g->claim_size };
    g->next_block += r.count;
    g->claims += r.count > 0;
    return r;
}

void exec_claim_over(sg_engine *e, sg_grid *g, struct exec_range r, uint64_t done, uint64_t nanoseconds)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (r.count)
        g->claims--;
    if (done < r.count) {
        g->returned[g->returned_count++] = (struct exec_range){ r.first + done, r.count - done };
        exec_place_blocks(e);         /* there may be room: the others found none left to begin */
    }
    if (done < r.count || nanoseconds > CLAIM_LONG)
        g->claim_size /= 2;
    else if (nanoseconds < CLAIM_SHORT && g->claim_size < CLAIM_MOST)
        g->claim_size = g->claim_size ? 2 * g->claim_size : 1;
}

bool exec_next_block(sg_engine *e, sg_grid *g, struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    if (!has_next(e, g, b))
        return false;
    struct exec_block *next = take_block(g);
    if (!next)
        return false;
    unsigned sm = b->sm;
    resident_remove(b);
    exec_family_leave_block(b);
    exec_buffers_leave(b);
    keep_block(g, b);
    become_next(g, next, sm);
    begin_turns(e, g, next);
    return true;
}

struct exec_block *exec_warm_block(sg_engine *e, struct exec_block *b)
{
    FLYT_ASSERT_HELD(&e->lock);
    sg_grid *g = b->grid;
    struct exec_block *warm = b->warps || b->cluster ? NULL : pop(&g->warm);
    if (!warm)
        return b;
    warm->index = b->index;
    warm->sm = b->sm;
    warm->fresh = true;
    resident_remove(b);
    resident_add(g, warm);
    keep_block(g, b);
    return warm;
}

/* As on hardware, the oldest RESIDENT_GRIDS only: so a program with thousands of grids does not make each step go
   through them. Grids that only wait for those that they have launched do not count. */
void exec_place_blocks(sg_engine *e)
{
    FLYT_ASSERT_HELD(&e->lock);
    unsigned resident = 0;
    e->placed_on = exec_active_sms(e);
    for (sg_grid *g = e->grids; g && resident < RESIDENT_GRIDS; g = g->next) {
        uint64_t left = exec_blocks_left(g);
        resident += left || g->running;
        g->crowded = false;
        if (!left || atomic_load_explicit(&g->error, memory_order_relaxed))
            continue;
        struct rooms rooms;
        rooms_count(&rooms, e, g);
        if (g->launch.flags & SG_GRID_COOPERATIVE && rooms.total < left)
            return;
        for (bool placed = true; placed && exec_blocks_left(g);) {
            placed = rooms.total >= g->cluster_size &&
                     (g->cluster_size > 1 ? start_cluster(e, g, &rooms) : start_block(e, g, &rooms));
            g->crowded = !placed;
        }
    }
}
