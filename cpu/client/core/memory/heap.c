/*
 * heap.c: which parts of a context's device memory are used.
 *
 * Per context a heap: every byte of its pieces belongs to exactly one block, free or used; blocks are found by address,
 * free ones also by size (best fit); a freed block joins its free neighbours, across pieces too. A block becomes free
 * only when its context has finished everything that was sent before, so a free block may be used again, or unmapped,
 * at any time.
 */
#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/stream/context.h"
#include "heap.h"

struct heap *heap_of(core_context *c)
{
    struct heap *heap = atomic_load_explicit(&c->heap, memory_order_acquire), *none = NULL;
    if (heap || !(heap = calloc(1, sizeof *heap)))
        return heap;
    pthread_mutex_init(&heap->lock, NULL);
    pthread_cond_init(&heap->copied, NULL);
    heap->context = c;
    if (atomic_compare_exchange_strong(&c->heap, &none, heap))
        return heap;
    free(heap);
    return none;
}

struct heap *heap_next(const struct heap *heap)
{
    for (core_context *c = context_next(heap ? heap->context : NULL); c; c = context_next(c)) {
        struct heap *found = atomic_load_explicit(&c->heap, memory_order_acquire);
        if (found)
            return found;
    }
    return NULL;
}

static struct block *block_insert(struct heap *heap, uint64_t address, uint64_t size, bool is_free)
{
    FLYT_ASSERT_HELD(&heap->lock);
    struct block *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->by_address.key = b->by_size.tie = address;
    b->by_size.key = size;
    b->free = is_free;
    tree_insert(&heap->blocks, &b->by_address);
    if (is_free)
        tree_insert(&heap->sizes, &b->by_size);
    return b;
}

static void block_delete(struct heap *heap, struct block *b)
{
    FLYT_ASSERT_HELD(&heap->lock);
    if (b->free)
        tree_remove(&heap->sizes, &b->by_size);
    tree_remove(&heap->blocks, &b->by_address);
    free(b);
}

/* A free block changes its size; its address stays. */
static void block_resize(struct heap *heap, struct block *b, uint64_t size)
{
    FLYT_ASSERT_HELD(&heap->lock);
    tree_remove(&heap->sizes, &b->by_size);
    b->by_size.key = size;
    tree_insert(&heap->sizes, &b->by_size);
}

static void block_make_free(struct heap *heap, struct block *b)
{
    FLYT_ASSERT_HELD(&heap->lock);
    b->free = true;
    tree_insert(&heap->sizes, &b->by_size);
    struct block *next = block_of(tree_at_or_above(&heap->blocks, block_address(b) + block_size(b), 0));
    if (next && next->free && block_address(next) == block_address(b) + block_size(b)) {
        uint64_t size = block_size(b) + block_size(next);
        block_delete(heap, next);
        block_resize(heap, b, size);
    }
    struct block *previous = block_of(tree_at_or_below(&heap->blocks, block_address(b) - 1, 0));
    if (previous && previous->free && block_address(previous) + block_size(previous) == block_address(b)) {
        uint64_t size = block_size(previous) + block_size(b);
        block_delete(heap, b);
        block_resize(heap, previous, size);
    }
}

uint64_t heap_take(struct heap *heap, uint64_t size)
{
    FLYT_ASSERT_HELD(&heap->lock);
    struct tree_node *fit = tree_at_or_above(&heap->sizes, size, 0);
    if (!fit)
        return 0;
    struct block *b = CONTAINER(fit, struct block, by_size);
    uint64_t rest = block_size(b) - size;
    if (rest && !block_insert(heap, block_address(b) + size, rest, true))
        return 0;
    tree_remove(&heap->sizes, &b->by_size);
    b->by_size.key = size;
    b->free = false;
    heap->used += size;
    if (heap->mapped - heap->used < heap->idle_least)
        heap->idle_least = heap->mapped - heap->used;
    return block_address(b);
}

bool heap_give(struct heap *heap, uint64_t address)
{
    FLYT_ASSERT_HELD(&heap->lock);
    struct block *b = block_of(tree_at_or_below(&heap->blocks, address, 0));
    if (!b || b->free || block_address(b) != address)
        return false;
    heap->used -= block_size(b);
    block_make_free(heap, b);
    return true;
}

bool block_cut(struct heap *heap, struct block *b, uint64_t from, uint64_t to)
{
    FLYT_ASSERT_HELD(&heap->lock);
    uint64_t before = from - block_address(b), after = block_address(b) + block_size(b) - to;
    if (after && !block_insert(heap, to, after, true))
        return false;
    if (before)
        block_resize(heap, b, before);
    else
        block_delete(heap, b);
    return true;
}

void heap_add(struct heap *heap, struct block *block, uint64_t address, uint64_t size)
{
    FLYT_ASSERT_HELD(&heap->lock);
    heap->mapped += size;
    block->by_address.key = block->by_size.tie = address;
    block->by_size.key = size;
    tree_insert(&heap->blocks, &block->by_address);
    block_make_free(heap, block);
}

uint64_t heap_tail(const struct heap *heap, uint64_t *top)
{
    const struct block *last = block_of(tree_last(&heap->blocks));
    *top = last ? block_address(last) + block_size(last) : 0;
    return last && last->free ? block_size(last) : 0;
}

bool heap_span(const struct heap *heap, uint64_t from, uint64_t *start, uint64_t *end)
{
    FLYT_ASSERT_HELD(&heap->lock);
    struct block *b = block_of(tree_at_or_above(&heap->blocks, from, 0));
    if (!b)
        return false;
    for (*start = *end = block_address(b); b && block_address(b) == *end;) {
        *end += block_size(b);
        b = block_of(tree_at_or_above(&heap->blocks, *end, 0));
    }
    return true;
}

bool heap_covers(const struct heap *heap, uint64_t from, uint64_t to)
{
    FLYT_ASSERT_HELD(&heap->lock);
    const struct block *b = block_of(tree_at_or_below(&heap->blocks, from, 0));
    while (b && from < to && block_address(b) <= from && block_address(b) + block_size(b) > from) {
        from = block_address(b) + block_size(b);
        b = block_of(tree_at_or_above(&heap->blocks, from, 0));
    }
    return from >= to;
}

void heap_await_copied(struct heap *heap)
{
    FLYT_ASSERT_HELD(&heap->lock);
    while (heap->copied_to)
        pthread_cond_wait(&heap->copied, &heap->lock);
}

/* The helper, or another thread, may look for idle credit meanwhile. An UNMAP behind the context's end is an error. */
void memory_context_ends(core_context *c, bool ends)
{
    struct heap *heap = atomic_load(&c->heap);
    if (!heap)
        return;
    pthread_mutex_lock(&heap->lock);
    heap->ending = ends;                      /* nothing more is copied, and what is being copied comes to its end */
    heap_await_copied(heap);
    pthread_mutex_unlock(&heap->lock);
}

/* The server has unmapped all of it. The window takes whole granules. */
void memory_forget_context(core_context *c)
{
    struct heap *heap = atomic_load(&c->heap);
    if (!heap)
        return;
    pthread_mutex_lock(&heap->lock);
    for (uint64_t start, end = 0; heap_span(heap, end, &start, &end);)
        window_give(start, end - start);
    for (struct tree_node *n; (n = tree_first(&heap->blocks));)
        block_delete(heap, block_of(n));
    heap->mapped = heap->used = heap->piece = 0;          /* the structure's next life may be on another device */
    heap->ending = false;
    pthread_mutex_unlock(&heap->lock);
}
