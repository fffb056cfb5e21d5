/* memory.c: see memory.h. */
#include "cpu/comm/link/memory.h"

#include <errno.h>
#include <stdlib.h>

struct page_range {
    struct tree_node node;              /* key: begin, tie: end */
    unsigned         count;
};

void comm_memory_begin(struct comm_memory *memory)
{
    *memory = (struct comm_memory){ .ranges = { NULL } };
    pthread_mutex_init(&memory->lock, NULL);
}

void comm_memory_end(struct comm_memory *memory)
{
    for (struct tree_node *node; (node = tree_first(&memory->ranges));) {
        tree_remove(&memory->ranges, node);
        free(TREE_OBJECT(node, struct page_range, node));
    }
    pthread_mutex_destroy(&memory->lock);
}

/* Whole pages. False: it has no bytes, or reaches over the end of the address space. */
static bool pages(const void *memory, uint64_t size, uint64_t *begin, uint64_t *end)
{
    uint64_t at = (uint64_t)(uintptr_t)memory;
    if (size == 0 || at + size < at || at + size > UINT64_MAX - COMM_PAGE)
        return false;
    *begin = at / COMM_PAGE * COMM_PAGE;
    *end = (at + size + COMM_PAGE - 1) / COMM_PAGE * COMM_PAGE;
    return true;
}

static struct page_range *find(const struct comm_memory *memory, uint64_t begin, uint64_t end)
{
    struct tree_node *node = tree_at_or_above(&memory->ranges, begin, end);
    return node && node->key == begin && node->tie == end ? TREE_OBJECT(node, struct page_range, node) : NULL;
}

int comm_memory_add(struct comm_memory *memory, const void *at, uint64_t size)
{
    uint64_t begin, end;
    if (!pages(at, size, &begin, &end))
        return -EINVAL;
    int status = 0;
    pthread_mutex_lock(&memory->lock);
    struct page_range *range = find(memory, begin, end);
    if (!range && memory->count >= COMM_RANGES_MOST) {
        status = -ENOSPC;
    } else if (!range && (range = calloc(1, sizeof *range))) {
        range->node.key = begin;
        range->node.tie = end;
        tree_insert(&memory->ranges, &range->node);
        memory->count++;
        memory->longest = end - begin > memory->longest ? end - begin : memory->longest;
    }
    if (range)
        range->count++;
    else if (status == 0)
        status = -ENOMEM;
    pthread_mutex_unlock(&memory->lock);
    return status;
}

int comm_memory_remove(struct comm_memory *memory, const void *at, uint64_t size)
{
    uint64_t begin, end;
    if (!pages(at, size, &begin, &end))
        return -ENOENT;
    pthread_mutex_lock(&memory->lock);
    struct page_range *range = find(memory, begin, end);
    bool last = range && --range->count == 0;
    if (last) {
        tree_remove(&memory->ranges, &range->node);
        memory->count--;
    }
    pthread_mutex_unlock(&memory->lock);
    if (last)
        free(range);
    return range ? 0 : -ENOENT;
}

bool comm_memory_has(struct comm_memory *memory, const void *at, uint64_t size)
{
    uint64_t begin, end;
    if (size == 0)
        return true;
    if (!pages(at, size, &begin, &end))
        return false;
    pthread_mutex_lock(&memory->lock);
    bool has = false;
    for (struct tree_node *node = tree_at_or_below(&memory->ranges, begin, UINT64_MAX); node && !has;) {
        if (begin - node->key > memory->longest)
            break;
        has = node->tie >= end;
        node = node->key || node->tie ? tree_at_or_below(&memory->ranges, node->tie ? node->key : node->key - 1,
                                                         node->tie ? node->tie - 1 : UINT64_MAX)
                                      : NULL;
    }
    pthread_mutex_unlock(&memory->lock);
    return has;
}
