/*
 * heap.c: malloc and free of kernels.
 *
 * Two bits for each 16 bytes: in use, and last of its allocation. They lie outside the heap, so a kernel that writes
 * past an allocation harms its own data only. The search goes on from where the last one ended, and once around.
 */
#include "softgpu/exec/exec.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = 16 };

struct sg_heap {
    pthread_mutex_t lock;
    uint64_t base, units, next;
    uint64_t *used, *last;
};

sg_heap *sg_heap_create(uint64_t base, size_t size)
{
    sg_heap *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->base = (base + UNIT - 1) / UNIT * UNIT;
    h->units = size > UNIT ? (size - (size_t)(h->base - base)) / UNIT : 0;
    h->used = calloc((size_t)(h->units / 64 + 1), sizeof *h->used);
    h->last = calloc((size_t)(h->units / 64 + 1), sizeof *h->last);
    if (!h->used || !h->last) {
        free(h->used);
        free(h->last);
        free(h);
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

void sg_heap_destroy(sg_heap *h)
{
    if (!h)
        return;
    pthread_mutex_destroy(&h->lock);
    free(h->used);
    free(h->last);
    free(h);
}

static bool bit(const uint64_t *map, uint64_t i) { return map[i / 64] >> (i % 64) & 1; }
static void set(uint64_t *map, uint64_t i) { map[i / 64] |= UINT64_C(1) << (i % 64); }
static void clear(uint64_t *map, uint64_t i) { map[i / 64] &= ~(UINT64_C(1) << (i % 64)); }

/* First run of n free units in [from, to), or UINT64_MAX. */
static uint64_t find(const sg_heap *h, uint64_t from, uint64_t to, uint64_t n)
{
    uint64_t run = 0;
    for (uint64_t i = from; i < to;) {
        uint64_t word = h->used[i / 64] >> (i % 64), left = 64 - i % 64;
        if (word == 0) {
            uint64_t step = left < to - i ? left : to - i;
            run += step;
            i += step;
        } else {
            uint64_t gap = (uint64_t)__builtin_ctzll(word);
            run += gap;
            if (run >= n)
                return i + gap - run;
            word >>= gap;
            i += gap + (~word ? (uint64_t)__builtin_ctzll(~word) : 64 - gap);
            run = 0;
            continue;
        }
        if (run >= n)
            return i - run;
    }
    return UINT64_MAX;
}

uint64_t exec_heap_take(sg_heap *h, uint64_t bytes)
{
    if (!h || !bytes || bytes > h->units * UNIT)
        return 0;
    uint64_t n = (bytes + UNIT - 1) / UNIT;
    pthread_mutex_lock(&h->lock);
    uint64_t at = find(h, h->next, h->units, n);
    if (at == UINT64_MAX)
        at = find(h, 0, h->units, n);
    if (at != UINT64_MAX) {
        for (uint64_t i = at; i < at + n; i++)
            set(h->used, i);
        set(h->last, at + n - 1);
        h->next = at + n;
    }
    pthread_mutex_unlock(&h->lock);
    return at == UINT64_MAX ? 0 : h->base + at * UNIT;
}

/* false: not the beginning of an allocation. */
bool exec_heap_give(sg_heap *h, uint64_t address)
{
    if (!h || address < h->base || (address - h->base) % UNIT || (address - h->base) / UNIT >= h->units)
        return false;
    uint64_t i = (address - h->base) / UNIT;
    pthread_mutex_lock(&h->lock);
    bool begins = bit(h->used, i) && (i == 0 || !bit(h->used, i - 1) || bit(h->last, i - 1));
    for (bool end = !begins; !end && i < h->units; i++) { /* bits that came from outside may have no end */
        end = bit(h->last, i);
        clear(h->used, i);
        clear(h->last, i);
    }
    pthread_mutex_unlock(&h->lock);
    return begins;
}

/* ---- moving to another process ---- */

static uint64_t map_bytes(const sg_heap *h) { return (h->units / 64 + 1) * sizeof *h->used; }

uint64_t sg_heap_state_size(const sg_heap *h) { return sizeof h->next + 2 * map_bytes(h) + h->units * UNIT; }

/* The state is: where the search goes on, the two maps, the memory. */
bool sg_heap_state(sg_heap *h, uint64_t offset, void *bytes, uint64_t size, bool write)
{
    struct { uint8_t *at; uint64_t size; } parts[] = { { (uint8_t *)&h->next, sizeof h->next },
                                                       { (uint8_t *)h->used, map_bytes(h) },
                                                       { (uint8_t *)h->last, map_bytes(h) },
                                                       { (uint8_t *)(uintptr_t)h->base, h->units * UNIT } };
    const uint64_t whole = sg_heap_state_size(h);
    uint8_t *here = bytes;
    if (offset > whole || size > whole - offset)
        return false;
    pthread_mutex_lock(&h->lock);
    for (unsigned i = 0; i < sizeof parts / sizeof *parts && size; i++) {
        uint64_t part = offset < parts[i].size ? parts[i].size - offset : 0;
        part = part < size ? part : size;
        if (part && write)
            memcpy(parts[i].at + offset, here, part);
        else if (part)
            memcpy(here, parts[i].at + offset, part);
        here += part;
        size -= part;
        offset = part ? 0 : offset - parts[i].size;
    }
    if (h->next > h->units)
        h->next = 0;
    pthread_mutex_unlock(&h->lock);
    return true;
}
