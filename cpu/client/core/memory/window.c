/*
 * window.c: which parts of the session's window of addresses are taken. Free ranges in a tree by address,
 * never adjacent to each other. Device memory is taken from below, pinned host memory from the top.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cpu/client/core/api_errors.h"
#include "cpu/common/tree.h"
#include "memory.h"

struct window_gap { struct tree_node node; uint64_t size; }; /* key: address */

static struct tree gaps;
static uint64_t window_base, window_granularity;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool gap_add(uint64_t address, uint64_t size)
{
    struct window_gap *gap = size ? malloc(sizeof *gap) : NULL;
    if (!gap)
        return !size;
    gap->node.key = address;
    gap->node.tie = 0;
    gap->size = size;
    tree_insert(&gaps, &gap->node);
    return true;
}

int window_open(uint64_t base, uint64_t size, uint64_t granularity)
{
    window_base = base;
    window_granularity = granularity;
    return gap_add(base, size) ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* Takes [at, at + size) out of gap, which holds it. */
static uint64_t cut(struct window_gap *gap, uint64_t at, uint64_t size)
{
    uint64_t before = at - gap->node.key, after = gap->size - before - size;
    if (after && !gap_add(at + size, after))
        return 0;
    if (before) {
        gap->size = before;
    } else {
        tree_remove(&gaps, &gap->node);
        free(gap);
    }
    return at;
}

static struct window_gap *next_gap(const struct window_gap *gap)
{
    return (struct window_gap *)tree_at_or_above(&gaps, gap->node.key + 1, 0);
}

/* The lowest place for it in the gap at or above `from`. 0: none. */
static uint64_t cut_above(struct window_gap *gap, uint64_t from, uint64_t size, uint64_t unit)
{
    uint64_t end = gap->node.key + gap->size, at = gap->node.key > from ? gap->node.key : from;
    at = window_base + (at - window_base + unit - 1) / unit * unit;
    return at < end && end - at >= size ? cut(gap, at, size) : 0;
}

uint64_t window_take(uint64_t at, uint64_t from, uint64_t size, uint64_t unit)
{
    pthread_mutex_lock(&lock);
    uint64_t taken = 0;
    struct window_gap *gap = at ? (struct window_gap *)tree_at_or_below(&gaps, at, 0) : NULL;
    if (gap && at - gap->node.key < gap->size && gap->size - (at - gap->node.key) >= size)
        taken = cut(gap, at, size);
    for (int round = 0; round < 2 && !taken; round++, from = window_base) {
        gap = (struct window_gap *)tree_at_or_below(&gaps, from, 0);
        for (gap = gap ? gap : (struct window_gap *)tree_at_or_above(&gaps, from, 0); gap && !taken;) {
            struct window_gap *next = next_gap(gap);
            taken = cut_above(gap, from, size, unit);
            gap = next;
        }
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

uint64_t window_take_top(uint64_t size)
{
    pthread_mutex_lock(&lock);
    uint64_t taken = 0;
    size = (size + window_granularity - 1) & ~(window_granularity - 1);
    for (struct window_gap *gap = (struct window_gap *)tree_last(&gaps); gap && size && !taken;) {
        struct tree_node *before = gap->node.key ? tree_at_or_below(&gaps, gap->node.key - 1, 0) : NULL;
        if (gap->size >= size)
            taken = cut(gap, gap->node.key + gap->size - size, size);
        gap = (struct window_gap *)before;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

void window_give(uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&lock);
    size = (size + window_granularity - 1) & ~(window_granularity - 1);
    struct window_gap *below = (struct window_gap *)tree_at_or_below(&gaps, address, 0);
    struct window_gap *above = (struct window_gap *)tree_at_or_above(&gaps, address, 0);
    uint64_t after = above && above->node.key == address + size ? above->size : 0;
    if (after) {
        tree_remove(&gaps, &above->node);
        free(above);
    }
    if (below && below->node.key + below->size == address)
        below->size += size + after;
    else
        gap_add(address, size + after);       /* without memory the addresses are lost, nothing else */
    pthread_mutex_unlock(&lock);
}
