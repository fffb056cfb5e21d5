/*
 * memory.c: what stands behind every allocation that is not a mapping.
 *
 * An allocation of half a granule or less is cut from a slab, a granule in units of 512 bytes with a bitmap; a larger
 * one has granules of its own. Neighbours in a slab are not protected from each other, as on hardware. Slabs
 * belong to a context, so that a context's end leaves none half used by another. A context keeps its slabs in a tree by
 * their longest free run, so that an allocation looks into one slab only.
 */
#include "softgpu/driver/machine/machine.h"
#include "softgpu/check.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { UNIT = SGD_MEMORY_UNIT, UNITS = SGD_GRANULE / UNIT, SMALL = SGD_GRANULE / 2 };

struct sgd_slab {
    struct tree_node node;                   /* of *tree; key: the longest free run, tie: base */
    struct tree *tree;                       /* context->slabs or code_slabs */
    uint64_t base;
    unsigned used;                           /* units */
    uint64_t taken[UNITS / 64];
};

struct sgd_extents sgd_memories;

struct sgd_memory *sgd_memory_find(uint64_t address) { return sgd_extents_find(&sgd_memories, address); }

bool sgd_memory_covers(uint64_t address, uint64_t size, unsigned rights)
{
    if (!sgd_space_any(address, size, rights))
        return false;
    for (;;) {
        const struct sgd_memory *m = sgd_memory_find(address);
        if (!m)
            return false;
        uint64_t here = m->at.base + m->at.size - address;
        if (size <= here)
            return true;
        if (m->kind != SGD_MEMORY_MAPPED)
            return false;
        address += here;
        size -= here;
    }
}

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

/* The devices that may touch it: its own and the peers of its context; all touch host and managed memory. */
static unsigned devices_for(enum sgd_memory_kind kind, const struct sgd_context *c, const struct sgd_device *d)
{
    return kind == SGD_MEMORY_DEVICE ? 1u << d->ordinal | (c ? sgd_peers_of(c) : 0) : ~0u;
}

/* Where memory is to lie. code: where variables and heaps of kernels lie; at: exactly there, or 0. */
struct wanted_place { bool code; uint64_t at; };

/* Granules with private memory behind them. */
static uint64_t granules_new(uint64_t size, unsigned device_mask, struct wanted_place where)
{
    uint64_t base = where.code ? sgd_space_reserve_code(size, where.at) : sgd_space_reserve(size, SGD_GRANULE, 0);
    if (base && !sgd_space_back(base, size, -1, 0)) {
        sgd_space_release(base, size);
        return 0;
    }
    if (base)
        sgd_space_rights(base, size, device_mask, SG_READ | SG_WRITE);
    return base;
}

static void granules_free(uint64_t base, uint64_t size)
{
    sgd_space_unback(base, size);
    sgd_space_release(base, size);
}

/* ---- slabs ------------------------------------------------------------------------------------------------------- */

/* The first unit from there on that is taken, or that is free; UNITS: none. */
static unsigned slab_next(const struct sgd_slab *s, unsigned from, bool is_taken)
{
    for (unsigned word = from / 64; word < UNITS / 64; word++) {
        uint64_t bits = is_taken ? s->taken[word] : ~s->taken[word];
        if (word == from / 64)
            bits &= UINT64_MAX << from % 64;
        if (bits)
            return word * 64 + (unsigned)__builtin_ctzll(bits);
    }
    return UNITS;
}

/* The first free run of at least `least` units, or the longest one if none is so long. Its length; 0: all is taken. */
static unsigned slab_run(const struct sgd_slab *s, unsigned least, unsigned *first)
{
    unsigned longest = 0;
    for (unsigned begin = slab_next(s, 0, false), end; begin < UNITS && longest < least;
         begin = slab_next(s, end, false)) {
        end = slab_next(s, begin, true);
        if (end - begin > longest) {
            longest = end - begin;
            *first = begin;
        }
    }
    return longest;
}

static void slab_place(struct sgd_slab *s)
{
    unsigned ignored;
    s->node.key = slab_run(s, UNITS, &ignored);
    s->node.tie = s->base;
    tree_insert(s->tree, &s->node);
}

static void mark(struct sgd_slab *s, unsigned first, unsigned count, bool as)
{
    tree_remove(s->tree, &s->node);
    for (unsigned u = first; u < first + count; u++)
        if (as)
            s->taken[u / 64] |= (uint64_t)1 << (u % 64);
        else
            s->taken[u / 64] &= ~((uint64_t)1 << (u % 64));
    s->used = as ? s->used + count : s->used - count;
    slab_place(s);
}

static CUresult slab_new(struct sgd_context *c, struct wanted_place where, struct sgd_slab **out)
{
    struct sgd_slab *s = calloc(1, sizeof *s);
    if (!s || !sgd_device_take(c->device, SGD_GRANULE)) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->base = granules_new(SGD_GRANULE, devices_for(SGD_MEMORY_DEVICE, c, c->device), where);
    if (!s->base) {
        sgd_device_give(c->device, SGD_GRANULE);
        free(s);
        return where.at ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->tree = where.code ? &c->code_slabs : &c->slabs;
    slab_place(s);
    *out = s;
    return CUDA_SUCCESS;
}

static void slab_free(struct sgd_slab *s, struct sgd_device *d)
{
    tree_remove(s->tree, &s->node);
    granules_free(s->base, SGD_GRANULE);
    sgd_device_give(d, SGD_GRANULE);
    free(s);
}

static void small_in(struct sgd_slab *s, unsigned first, unsigned count, size_t size, struct sgd_memory *m)
{
    mark(s, first, count, true);
    m->slab = s;
    m->at = (struct sgd_extent){ .base = s->base + (uint64_t)first * UNIT, .size = size };
}

static CUresult small_new(struct sgd_context *c, size_t size, bool code, struct sgd_memory *m)
{
    unsigned count = (unsigned)(round_up(size, UNIT) / UNIT), first = 0;
    struct sgd_slab *s = TREE_OBJECT(tree_at_or_above(code ? &c->code_slabs : &c->slabs, count, 0), struct sgd_slab,
                                     node);
    CUresult r = s ? CUDA_SUCCESS : slab_new(c, (struct wanted_place){ code, 0 }, &s);
    if (r)
        return r;
    slab_run(s, count, &first);
    small_in(s, first, count, size, m);
    return CUDA_SUCCESS;
}

/* In the slab that has the address, or in a new one. */
static CUresult small_new_at(struct sgd_context *c, size_t size, uint64_t at, struct sgd_memory *m)
{
    const uint64_t base = at & ~(uint64_t)(SGD_GRANULE - 1);
    unsigned count = (unsigned)(round_up(size, UNIT) / UNIT), first = (unsigned)((at - base) / UNIT);
    struct tree_node *node = tree_first(&c->code_slabs);
    while (node && TREE_OBJECT(node, struct sgd_slab, node)->base != base)
        node = tree_next(&c->code_slabs, node);
    struct sgd_slab *s = TREE_OBJECT(node, struct sgd_slab, node);
    if (at % UNIT || count > UNITS - first || (s && slab_next(s, first, true) < first + count))
        return CUDA_ERROR_ALREADY_MAPPED;
    CUresult r = s ? CUDA_SUCCESS : slab_new(c, (struct wanted_place){ true, base }, &s);
    if (!r)
        small_in(s, first, count, size, m);
    return r;
}

static void small_free(struct sgd_memory *m)
{
    struct sgd_slab *s = m->slab;
    mark(s, (unsigned)((m->at.base - s->base) / UNIT), (unsigned)(round_up(m->at.size, UNIT) / UNIT), false);
    if (!s->used)
        slab_free(s, m->device);
}

/* ---- one allocation ---------------------------------------------------------------------------------------------- */

static CUresult large_new(const struct sgd_context *c, struct sgd_device *d, enum sgd_memory_kind kind, size_t size,
                          struct wanted_place where, struct sgd_memory *m)
{
    uint64_t whole = round_up(size, SGD_GRANULE);
    bool counted = kind != SGD_MEMORY_HOST;
    if (counted && !sgd_device_take(d, whole))
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t base = granules_new(whole, devices_for(kind, c, d), where);
    if (!base) {
        if (counted)
            sgd_device_give(d, whole);
        return where.at ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->at = (struct sgd_extent){ .base = base, .size = size };
    m->rights_size = whole;
    return CUDA_SUCCESS;
}

static CUresult memory_new(struct sgd_context *c, struct sgd_device *d, enum sgd_memory_kind kind, size_t size,
                           struct wanted_place where, uint64_t *out)
{
    if (!size || size > (uint64_t)1 << 46)
        return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    struct sgd_memory *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct sgd_memory){ .kind = kind, .context = c, .device = d, .id = sgd_next_id() };
    const bool small = kind == SGD_MEMORY_DEVICE && c && size <= SMALL;
    CUresult r = !small     ? large_new(c, d, kind, size, where, m)
                 : where.at ? small_new_at(c, size, where.at, m)
                            : small_new(c, size, where.code, m);
    if (!r && !sgd_extents_add(&sgd_memories, &m->at)) {
        sgd_memory_free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r) {
        free(m);
        return r;
    }
    *out = m->at.base;
    if (sg_check)
        sg_check_allocated(m->at.base, size);
    if (sg_check && kind != SGD_MEMORY_DEVICE) /* the program writes there unseen */
        sg_check_written(m->at.base, size);
    return CUDA_SUCCESS;
}

CUresult sgd_memory_new(struct sgd_context *c, struct sgd_device *d, enum sgd_memory_kind kind, size_t size,
                        uint64_t *out)
{
    return memory_new(c, d, kind, size, (struct wanted_place){ false, 0 }, out);
}

CUresult sgd_memory_new_code(struct sgd_context *c, enum sgd_memory_kind kind, size_t size, uint64_t at, uint64_t *out)
{
    return memory_new(c, c->device, kind, size, (struct wanted_place){ true, at }, out);
}

void sgd_watch_mapped(uint64_t at, size_t size, bool written)
{
    if (sg_check)
        sg_check_allocated(at, size);
    if (sg_check && written)
        sg_check_written(at, size);
}

void sgd_watch_unmapped(uint64_t at, size_t size)
{
    if (sg_check)
        sg_check_freed(at, size);
}

void sgd_memory_free(struct sgd_memory *m)
{
    if (sg_check && m->kind != SGD_MEMORY_REGISTERED)
        sg_check_freed(m->at.base, m->at.size);
    sgd_extents_remove(&sgd_memories, &m->at);
    if (m->kind == SGD_MEMORY_REGISTERED) {
        sgd_space_unshare((int)m->window, m->at.base, m->at.size);
    } else if (m->slab) {
        small_free(m);
    } else {
        granules_free(m->at.base, m->rights_size);
        if (m->kind != SGD_MEMORY_HOST)
            sgd_device_give(m->device, m->rights_size);
    }
    free(m);
}

void sgd_memory_peer(const struct sgd_context *owner, unsigned devices, bool may)
{
    unsigned rights = may ? SG_READ | SG_WRITE : 0;
    for (const struct sgd_memory *m = sgd_extents_lower(&sgd_memories, 0); m;
         m = sgd_extents_next(&sgd_memories, &m->at))
        if (m->kind == SGD_MEMORY_DEVICE && m->context == owner)
            sgd_space_rights(m->slab ? m->slab->base : m->at.base, m->slab ? SGD_GRANULE : m->rights_size, devices,
                             rights);
}

/* For servers that send from device memory and receive into it (cpu/server/links): where it is in this process, or
   NULL. written: bytes have come there. */
__attribute__((visibility("default"))) void *softgpu_host_view(uint64_t address, uint64_t size, bool written);
void *softgpu_host_view(uint64_t address, uint64_t size, bool written)
{
    pthread_mutex_lock(&sgd_mutex);
    bool there = sgd_memory_covers(address, size, SG_READ | SG_WRITE);
    pthread_mutex_unlock(&sgd_mutex);
    if (there && written && sg_check)
        sg_check_written(address, size);
    return there ? (void *)(uintptr_t)address : NULL;
}

/* For servers that only look at device memory (cpu/server/copy/fingerprints.c): read() gets the bytes where they lie,
   and none of them is unmapped meanwhile. False: they are no memory that can be read. */
__attribute__((visibility("default")))
bool softgpu_read(uint64_t address, uint64_t size, void (*read)(const void *, uint64_t, void *), void *context);
bool softgpu_read(uint64_t address, uint64_t size, void (*read)(const void *, uint64_t, void *), void *context)
{
    sgd_space_hold();
    bool may = sgd_space_any(address, size, SG_READ);
    if (may)
        read((const void *)(uintptr_t)address, size, context);
    sgd_space_unhold();
    return may;
}
