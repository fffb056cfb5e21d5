/*
 * memory.c: device memory. The program's allocations are cut, on this side, from credit: pieces of memory that
 * the server has created and mapped already (FLYT_MAP), at addresses that we chose.
 *
 * Per device a heap: every byte of its pieces belongs to exactly one block, free or used; blocks are found by
 * address, free ones also by size (best fit); a freed block joins its free neighbours, across pieces too. Pieces
 * are remembered as they were mapped, because they must be unmapped whole. A block becomes free only when the
 * device has finished everything that was sent before, so a free block may be used again, or unmapped, at any time.
 */
#include <stdlib.h>

#include "internal.h"

enum { MEMORY_ALIGNMENT = 512 };
uint64_t memory_grow_at_least = UINT64_C(32) << 20;

struct block {
    struct tree_node by_address;      /* key: address */
    struct tree_node by_size;         /* key: size, tie: address; in the tree while free */
    bool             free;
};

struct piece { struct tree_node node; uint64_t size; };     /* key: address */

struct heap {
    pthread_mutex_t lock;
    struct tree     blocks, sizes, pieces;
    uint64_t        mapped, used;
};

static struct heap heaps[FLYT_MAX_DEVICES] = { [0 ... FLYT_MAX_DEVICES - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

#define CONTAINER(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* ---- blocks ---- */

static struct block *block_of(struct tree_node *by_address)
{
    return by_address ? CONTAINER(by_address, struct block, by_address) : NULL;
}

static uint64_t block_address(const struct block *b)
{
    return b->by_address.key;
}

static uint64_t block_size(const struct block *b)
{
    return b->by_size.key;
}

static struct block *block_insert(struct heap *heap, uint64_t address, uint64_t size, bool is_free)
{
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
    if (b->free)
        tree_remove(&heap->sizes, &b->by_size);
    tree_remove(&heap->blocks, &b->by_address);
    free(b);
}

/* A free block changes its size; its address stays. */
static void block_resize(struct heap *heap, struct block *b, uint64_t size)
{
    tree_remove(&heap->sizes, &b->by_size);
    b->by_size.key = size;
    tree_insert(&heap->sizes, &b->by_size);
}

static void block_make_free(struct heap *heap, struct block *b)
{
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

/* The best fit, cut to size. 0: none. */
static uint64_t heap_take(struct heap *heap, uint64_t size)
{
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
    return block_address(b);
}

static bool heap_give(struct heap *heap, uint64_t address)
{
    struct block *b = block_of(tree_at_or_below(&heap->blocks, address, 0));
    if (!b || b->free || block_address(b) != address)
        return false;
    heap->used -= block_size(b);
    block_make_free(heap, b);
    return true;
}

/* ---- pieces ---- */

static int unmap(int device, uint64_t address, uint64_t size)
{
    unmap_args args = { .device = device_find(device)->wire, .address = address, .size = size };
    int code = wire_send(FLYT_UNMAP, (xdrproc_t)xdr_unmap_args, &args);
    window_give(address, size);
    return code;
}

/* Gives back pieces that are wholly free, until `bytes` have been. Returns how many were. */
static uint64_t heap_give_back(struct heap *heap, int device, uint64_t bytes)
{
    uint64_t given = 0;
    struct tree_node *next;
    for (struct tree_node *n = tree_last(&heap->pieces); n && given < bytes; n = next) {
        next = n->key ? tree_at_or_below(&heap->pieces, n->key - 1, UINT64_MAX) : NULL;
        struct piece *piece = (struct piece *)n;
        uint64_t at = n->key, end = at + piece->size;
        struct block *b = block_of(tree_at_or_below(&heap->blocks, at, 0));
        if (!b || !b->free || block_address(b) + block_size(b) < end)
            continue;
        uint64_t before = at - block_address(b), after = block_address(b) + block_size(b) - end;
        if (after && !block_insert(heap, end, after, true))
            break;
        if (before)
            block_resize(heap, b, before);
        else
            block_delete(heap, b);
        tree_remove(&heap->pieces, n);
        heap->mapped -= piece->size;
        given += piece->size;
        unmap(device, at, piece->size);
        free(piece);
    }
    return given;
}

static int piece_map(struct heap *heap, int device, uint64_t top, uint64_t size)
{
    /* Devices start at different parts of the window, so that each usually grows in one piece. */
    uint64_t hint = core_session.window + core_session.window_size / 2 / (uint64_t)device_count() * (uint64_t)device;
    hint = hint / core_session.granularity * core_session.granularity;
    struct piece *piece = malloc(sizeof *piece);
    struct block *block = calloc(1, sizeof *block);
    uint64_t address = piece && block ? window_take(top, hint, size) : 0;
    if (!address) {
        free(piece);
        free(block);
        return CORE_OUT_OF_MEMORY;
    }
    map_args args = { .device = device_find(device)->wire, .address = address, .size = size };
    int code = wire_plain(FLYT_MAP, (xdrproc_t)xdr_map_args, &args);
    if (code) {
        window_give(address, size);
        free(piece);
        free(block);
        return code;
    }
    piece->node.key = address;
    piece->node.tie = 0;
    piece->size = size;
    tree_insert(&heap->pieces, &piece->node);
    heap->mapped += size;
    block->by_address.key = block->by_size.tie = address;
    block->by_size.key = size;
    tree_insert(&heap->blocks, &block->by_address);
    block_make_free(heap, block);
    return CORE_OK;
}

/* Bytes that are free right below the end of the highest piece, which a new piece there would extend. */
static uint64_t heap_tail(const struct heap *heap, uint64_t *top)
{
    const struct piece *last = (const struct piece *)tree_last(&heap->pieces);
    *top = last ? last->node.key + last->size : 0;
    struct block *b = last ? block_of(tree_at_or_below(&heap->blocks, *top - 1, 0)) : NULL;
    return b && b->free ? block_size(b) : 0;
}

/* More credit, so that `size` bytes may fit: generously first; then, all idle credit given back, exactly. */
static int heap_grow(struct heap *heap, int device, uint64_t size)
{
    uint64_t granularity = core_session.granularity, top;
    uint64_t tail = heap_tail(heap, &top), ahead = heap->used / 8;
    uint64_t need = round_up(size - (tail < size ? tail : 0), granularity);
    uint64_t generous = round_up(ahead > memory_grow_at_least ? ahead : memory_grow_at_least, granularity);
    if (core_perf.no_cache || generous < need)
        generous = need;
    int code = piece_map(heap, device, top, generous);
    if (code == CORE_OUT_OF_MEMORY && generous > need)
        code = piece_map(heap, device, top, need);
    if (code != CORE_OUT_OF_MEMORY)
        return code;
    heap_give_back(heap, device, UINT64_MAX);
    tail = heap_tail(heap, &top);
    need = round_up(size - (tail < size ? tail : 0), granularity);
    return piece_map(heap, device, top, need);
}

static int heap_allocate(struct heap *heap, int device, uint64_t size, uint64_t *address)
{
    *address = heap_take(heap, size);
    if (*address)
        return CORE_OK;
    int code = heap_grow(heap, device, size);
    if (code)
        return code;
    *address = heap_take(heap, size);
    if (*address)
        return CORE_OK;
    /* The new piece did not become the neighbour of the free tail that was counted on. */
    uint64_t top;
    heap_tail(heap, &top);
    code = piece_map(heap, device, top, round_up(size, core_session.granularity));
    if (!code)
        *address = heap_take(heap, size);
    return code ? code : *address ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* ---- the public face ---- */

int core_memory_allocate(int device, size_t size, uint64_t *address)
{
    struct device *d;
    int code = device_enter(device, &d);
    if (code)
        return code;
    if (!size)
        return CORE_INVALID_VALUE;
    if (size > core_session.window_size)
        return CORE_OUT_OF_MEMORY;
    struct heap *heap = &heaps[device];
    pthread_mutex_lock(&heap->lock);
    code = heap_allocate(heap, device, round_up(size, MEMORY_ALIGNMENT), address);
    if (!code && address_add(CORE_DEVICE_MEMORY, device, *address, size, 0)) {
        heap_give(heap, *address);
        code = CORE_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&heap->lock);
    return code;
}

int core_memory_free(uint64_t address)
{
    int code = core_enter();
    if (code)
        return code;
    struct core_range range;
    if (!core_address_lookup(address, &range) || range.kind != CORE_DEVICE_MEMORY || range.base != address || range.flags)
        return CORE_INVALID_VALUE;
    if (!address_remove(CORE_DEVICE_MEMORY, address, NULL))
        return CORE_INVALID_VALUE;            /* another thread was quicker */
    code = device_settle(range.device);
    struct heap *heap = &heaps[range.device];
    pthread_mutex_lock(&heap->lock);
    heap_give(heap, address);
    if (core_perf.no_cache)
        heap_give_back(heap, range.device, UINT64_MAX);
    pthread_mutex_unlock(&heap->lock);
    return code;
}

uint64_t memory_credit(int device)
{
    pthread_mutex_lock(&heaps[device].lock);
    uint64_t credit = heaps[device].mapped - heaps[device].used;
    pthread_mutex_unlock(&heaps[device].lock);
    return credit;
}

int core_memory_info(int device, size_t *free_bytes, size_t *total_bytes)
{
    struct device *d;
    int code = device_enter(device, &d);
    if (code)
        return code;
    device_args args = { .device = d->wire };
    memory_info_result result = { 0 };
    code = wire_call(FLYT_MEMORY_INFO, (xdrproc_t)xdr_device_args, &args, (xdrproc_t)xdr_memory_info_result, &result);
    if (!code) {
        *free_bytes = result.free + memory_credit(device);
        *total_bytes = result.total;
    }
    xdr_free((xdrproc_t)xdr_memory_info_result, &result);
    return code;
}

/* A heap that is just growing gives back by itself when it must; waiting for it here would hold up the helper. */
void memory_recall(uint64_t bytes)
{
    for (int i = 0; i < device_count() && bytes; i++) {
        if (pthread_mutex_trylock(&heaps[i].lock))
            continue;
        uint64_t given = heap_give_back(&heaps[i], i, bytes);
        bytes -= given < bytes ? given : bytes;
        pthread_mutex_unlock(&heaps[i].lock);
    }
    rpc_client_flush(core_session.client);
}

void memory_forget_device(int device)
{
    struct heap *heap = &heaps[device];
    pthread_mutex_lock(&heap->lock);
    for (struct tree_node *n; (n = tree_first(&heap->pieces)); free(n)) {
        tree_remove(&heap->pieces, n);
        window_give(n->key, ((struct piece *)n)->size);
    }
    for (struct tree_node *n; (n = tree_first(&heap->blocks));)
        block_delete(heap, block_of(n));
    heap->mapped = heap->used = 0;
    pthread_mutex_unlock(&heap->lock);
}
