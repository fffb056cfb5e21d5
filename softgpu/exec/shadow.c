/*
 * shadow.c: a byte of state for each byte of global memory that the driver has spoken of, in pieces of a granule.
 * Pieces are found without a lock and live as long as the process. States are plain bytes that several threads may
 * write at once: blocks that race for a byte of memory race for its state too, and either order is right.
 */
#include "softgpu/exec/shadow.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/common/lock.h"
#include "cpu/common/tree.h"
#include "softgpu/check.h"
#include "softgpu/exec/access.h"
#include "softgpu/memory.h"

enum shadow_state { NOBODYS, FREED, ALLOCATED, WRITTEN };
enum { BUCKETS = 4096, FREED_KEPT = 4096 };
static const uint64_t GRANULE = UINT64_C(1) << SG_GRANULE_SHIFT;

struct shadow_piece {
    struct shadow_piece *next;
    uint64_t granule;
    uint8_t state[UINT64_C(1) << SG_GRANULE_SHIFT];
};
struct extent { struct tree_node node; uint64_t size; };             /* key: where it begins */

unsigned sg_check;
static _Atomic(struct shadow_piece *) buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tree extents;
static struct { uint64_t base, size; } freed[FREED_KEPT];            /* the latest, in a ring */
static unsigned freed_next;

static _Atomic(struct shadow_piece *) *bucket_of(uint64_t granule)
{
    return &buckets[granule * UINT64_C(0x9E3779B97F4A7C15) >> 52];
}

static struct shadow_piece *piece_find(uint64_t granule)
{
    struct shadow_piece *p = atomic_load_explicit(bucket_of(granule), memory_order_acquire);
    while (p && p->granule != granule)
        p = p->next;
    return p;
}

/* Without memory for it nothing is known of that granule. */
static struct shadow_piece *piece_make(uint64_t granule)
{
    FLYT_ASSERT_HELD(&lock);
    struct shadow_piece *p = piece_find(granule);
    if (p)
        return p;
    p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    p->granule = granule;
    p->next = atomic_load_explicit(bucket_of(granule), memory_order_relaxed);
    atomic_store_explicit(bucket_of(granule), p, memory_order_release);
    return p;
}

EXEC_RACY static void fill(uint8_t *state, uint64_t n, enum shadow_state to, bool allocated_only)
{
    for (uint64_t i = 0; i < n; i++)
        if (!allocated_only || state[i] >= ALLOCATED)
            state[i] = (uint8_t)to;
}

static void set(uint64_t base, uint64_t size, enum shadow_state to)
{
    FLYT_ASSERT_HELD(&lock);
    for (uint64_t at = base, end = base + size, next; at < end; at = next) {
        next = (at / GRANULE + 1) * GRANULE < end ? (at / GRANULE + 1) * GRANULE : end;
        struct shadow_piece *p = piece_make(at / GRANULE);
        if (p)
            fill(&p->state[at % GRANULE], next - at, to, false);
    }
}

static void forget_extents(uint64_t base, uint64_t size)
{
    FLYT_ASSERT_HELD(&lock);
    struct tree_node *n;
    while ((n = tree_at_or_above(&extents, base, 0)) && n->key < base + size) {
        tree_remove(&extents, n);
        free(TREE_OBJECT(n, struct extent, node));
    }
}

void sg_check_allocated(uint64_t base, uint64_t size)
{
    struct extent *e = calloc(1, sizeof *e);
    pthread_mutex_lock(&lock);
    forget_extents(base, size);
    set(base, size, ALLOCATED);
    if (e) {
        e->node.key = base;
        e->size = size;
        tree_insert(&extents, &e->node);
    }
    pthread_mutex_unlock(&lock);
}

void sg_check_freed(uint64_t base, uint64_t size)
{
    pthread_mutex_lock(&lock);
    forget_extents(base, size);
    set(base, size, FREED);
    freed[freed_next % FREED_KEPT].base = base;
    freed[freed_next++ % FREED_KEPT].size = size;
    pthread_mutex_unlock(&lock);
}

void sg_check_nobodys(uint64_t base, uint64_t size)
{
    pthread_mutex_lock(&lock);
    forget_extents(base, size);
    set(base, size, NOBODYS);
    pthread_mutex_unlock(&lock);
}

void sg_check_written(uint64_t base, uint64_t size)
{
    for (uint64_t at = base, end = base + size, next; at < end; at = next) {
        next = (at / GRANULE + 1) * GRANULE < end ? (at / GRANULE + 1) * GRANULE : end;
        struct shadow_piece *p = piece_find(at / GRANULE);
        if (p)
            fill(&p->state[at % GRANULE], next - at, WRITTEN, true);
    }
}

EXEC_RACY enum shadow_found shadow_access(uint64_t address, uint64_t n, bool read, bool write, uint64_t *at,
                                          bool *known)
{
    const struct shadow_piece *p = NULL;
    *known = true;
    for (uint64_t i = 0; i < n; i++) {
        *at = address + i;
        if (!p || p->granule != *at / GRANULE)
            p = piece_find(*at / GRANULE);
        if (!p) {
            *known = false;
            return SHADOW_FINE;
        }
        uint8_t state = p->state[*at % GRANULE];
        if (state < ALLOCATED)
            return state == FREED ? SHADOW_FREED : SHADOW_OUTSIDE;
        if (read && state != WRITTEN)
            return SHADOW_UNWRITTEN;
    }
    if (write)
        sg_check_written(address, n);
    return SHADOW_FINE;
}

static uint64_t distance(uint64_t address, uint64_t base, uint64_t size)
{
    return address < base ? base - address : address < base + size ? 0 : address - (base + size) + 1;
}

bool shadow_nearest(uint64_t address, bool was_freed, uint64_t *base, uint64_t *size)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    if (was_freed)
        for (unsigned k = 1; k <= FREED_KEPT && k <= freed_next && !found; k++) {
            unsigned i = (freed_next - k) % FREED_KEPT;
            found = !distance(address, freed[i].base, freed[i].size);
            *base = freed[i].base, *size = freed[i].size;
        }
    else {
        struct extent *sides[] = { TREE_OBJECT(tree_at_or_below(&extents, address, 0), struct extent, node),
                                   TREE_OBJECT(tree_at_or_above(&extents, address, 0), struct extent, node) };
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < 2; i++)
            if (sides[i] && distance(address, sides[i]->node.key, sides[i]->size) < least) {
                *base = sides[i]->node.key, *size = sides[i]->size;
                least = distance(address, *base, *size);
                found = true;
            }
    }
    pthread_mutex_unlock(&lock);
    return found;
}
