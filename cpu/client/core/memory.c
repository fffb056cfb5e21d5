/*
 * memory.c: device memory. The program's allocations are cut, on this side, from credit: pieces of memory that
 * the server has created and mapped already (FLYT_MAP), at addresses that we chose.
 *
 * Per context a heap: every byte of its pieces belongs to exactly one block, free or used; blocks are found by
 * address, free ones also by size (best fit); a freed block joins its free neighbours, across pieces too. All pieces of
 * a heap are of one size and begin at multiples of it from the window's base, so that which whole ones lie in
 * a free block is a matter of rounding. A block becomes free only when its context has finished everything that was
 * sent before, so a free block may be used again, or unmapped, at any time.
 *
 * Credit is asked for ahead of need while the tenant has plenty (the server decides). It goes back: what lay
 * idle for a beat beyond the usual amount (memory_tend); when another program lacks memory and the server asks for it
 * (memory_recall); all of it, before an allocation fails. So at the edge of the tenant's limit only whole pieces count
 * that really hold something.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/common/tree.h"
#include "cpu/rpc/credit.h"
#include "context.h"
#include "device.h"
#include "extent.h"
#include "managed.h"
#include "move.h"
#include "memory.h"
#include "perf.h"
#include "pool_notes.h"
#include "share.h"
#include "state.h"

enum { MEMORY_ALIGNMENT = 512, RECALL_TRIES = 200 };
#define TEND_NS CLOCK_NS_PER_SECOND
uint64_t memory_grow_at_least = UINT64_C(32) << 20;

struct block {
    struct tree_node by_address;      /* key: address */
    struct tree_node by_size;         /* key: size, tie: address; in the tree while free */
    bool             free;
};

struct heap {
    pthread_mutex_t lock;
    core_context   *context;
    struct tree     blocks, sizes;
    uint64_t        mapped, used;
    uint64_t        idle_least;       /* of mapped - used, since the last memory_tend */
    uint64_t        piece;            /* 0: not known yet */
    atomic_bool     bare;             /* whoever holds the lock has given back all that can be */
};

#define CONTAINER(node, type, member) ((type *)(void *)((char *)(node) - offsetof(type, member)))

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* The context's heap, made at its first use; it lives as long as the structure. NULL: no memory. */
static struct heap *heap_of(core_context *c)
{
    struct heap *heap = atomic_load_explicit(&c->heap, memory_order_acquire), *none = NULL;
    if (heap || !(heap = calloc(1, sizeof *heap)))
        return heap;
    pthread_mutex_init(&heap->lock, NULL);
    heap->context = c;
    if (atomic_compare_exchange_strong(&c->heap, &none, heap))
        return heap;
    free(heap);
    return none;
}

/* The heap of each context in turn that has one; NULL: the first, and behind the last. */
static struct heap *heap_next(const struct heap *heap)
{
    for (core_context *c = context_next(heap ? heap->context : NULL); c; c = context_next(c)) {
        struct heap *found = atomic_load_explicit(&c->heap, memory_order_acquire);
        if (found)
            return found;
    }
    return NULL;
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

/* The best fit, cut to size. 0: none. */
static uint64_t heap_take(struct heap *heap, uint64_t size)
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

static bool heap_give(struct heap *heap, uint64_t address)
{
    FLYT_ASSERT_HELD(&heap->lock);
    struct block *b = block_of(tree_at_or_below(&heap->blocks, address, 0));
    if (!b || b->free || block_address(b) != address)
        return false;
    heap->used -= block_size(b);
    block_make_free(heap, b);
    return true;
}

/* ---- pieces ---- */

static uint64_t heap_piece(struct heap *heap)
{
    if (!heap->piece)
        heap->piece = credit_piece(core_session.granularity, heap->context->facts->total_memory);
    return heap->piece;
}

static uint64_t piece_above(const struct heap *heap, uint64_t address)
{
    return core_session.window + round_up(address - core_session.window, heap->piece);
}

static int unmap(const core_context *c, uint64_t address, uint64_t size)
{
    unmap_args args = { .context = c->wire, .address = address, .size = size };
    int code = wire_send(FLYT_UNMAP, (xdrproc_t)xdr_unmap_args, &args);
    window_give(address, size);
    return code;
}

/* Takes [from, to) out of a free block that holds it. */
static bool block_cut(struct heap *heap, struct block *b, uint64_t from, uint64_t to)
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

/* Gives back whole unused pieces, from the largest free blocks, until at least `bytes` have been. */
static void heap_give_back(struct heap *heap, uint64_t bytes)
{
    FLYT_ASSERT_HELD(&heap->lock);
    uint64_t given = 0;
    struct tree_node *next;
    for (struct tree_node *n = tree_last(&heap->sizes); n && given < bytes && n->key >= heap->piece; n = next) {
        struct block *b = CONTAINER(n, struct block, by_size);
        next = tree_at_or_below(&heap->sizes, n->key, n->tie - 1);
        uint64_t from = piece_above(heap, block_address(b)),
                 to = piece_above(heap, block_address(b) + block_size(b) + 1) - heap->piece;
        if (to <= from)
            continue;
        if (to - from > bytes - given)
            from = to - round_up(bytes - given, heap->piece);
        if (!block_cut(heap, b, from, to))
            return;
        heap->mapped -= to - from;
        given += to - from;
        unmap(heap->context, from, to - from);
    }
}

/* New memory, which becomes the block. */
static void heap_add(struct heap *heap, struct block *block, uint64_t address, uint64_t size)
{
    FLYT_ASSERT_HELD(&heap->lock);
    heap->mapped += size;
    block->by_address.key = block->by_size.tie = address;
    block->by_size.key = size;
    tree_insert(&heap->blocks, &block->by_address);
    block_make_free(heap, block);
}

/* A MAP under way. */
struct map_question {
    struct heap *heap;
    struct block *block; /* which the new memory becomes */
    map_args args;
    map_result result;
    struct wire_call call;
};

/* Asks for `size` bytes at `top` if they are free there, else elsewhere; at least `least` bytes. 0, or 2: not asked.
   map_answered is the second half; the heap stays locked meanwhile. */
static int map_ask(struct heap *heap, uint64_t top, uint64_t size, uint64_t least, bool recall, struct map_question *q)
{
    FLYT_ASSERT_HELD(&heap->lock);
    /* Contexts start at different parts of the window, so that each usually grows in one piece: the primary ones in
       its lower half. */
    const core_context *c = heap->context;
    uint64_t half = core_session.window_size / 2;
    uint64_t hint = c->primary ? half / (uint64_t)device_count() * c->wire : half + half / 2 / CONTEXTS_MOST * c->wire;
    hint = core_session.window + hint / heap->piece * heap->piece;
    struct block *block = calloc(1, sizeof *block);
    uint64_t address = block ? window_take(top, hint, size, heap->piece) : 0;
    if (!address) {
        free(block);
        return CORE_OUT_OF_MEMORY;
    }
    q->heap = heap;
    q->block = block;
    q->args = (map_args){
        .context = c->wire, .address = address, .size = size, .least = least, .piece = heap->piece, .recall = recall
    };
    q->result = (map_result){ 0 };
    wire_prepare(&q->call, FLYT_MAP, (xdrproc_t)xdr_map_args, &q->args, (xdrproc_t)xdr_map_result, &q->result);
    wire_submit(&q->call);
    return CORE_OK;
}

/* code: of the call, which has been waited for. */
static int map_answered(struct map_question *q, int code)
{
    struct heap *heap = q->heap;
    struct block *block = q->block;
    FLYT_ASSERT_HELD(&heap->lock);
    uint64_t address = q->args.address, size = q->args.size, mapped = code ? 0 : q->result.size;
    xdr_free((xdrproc_t)xdr_map_result, &q->result);
    if (!code && mapped != size && mapped != q->args.least)
        code = CORE_OUT_OF_MEMORY;            /* nonsense */
    if (code)
        mapped = 0;
    if (mapped < size)
        window_give(address + mapped, size - mapped);
    if (code) {
        free(block);
        return code;
    }
    heap_add(heap, block, address, mapped);
    return CORE_OK;
}

static int heap_map(struct heap *heap, uint64_t top, uint64_t size, uint64_t least, bool recall)
{
    struct map_question q;
    int code = map_ask(heap, top, size, least, recall, &q);
    return code ? code : map_answered(&q, wire_wait(&q.call));
}

/* Bytes that are free right below the end of the highest block, which a new piece there would extend. */
static uint64_t heap_tail(const struct heap *heap, uint64_t *top)
{
    const struct block *last = block_of(tree_last(&heap->blocks));
    *top = last ? block_address(last) + block_size(last) : 0;
    return last && last->free ? block_size(last) : 0;
}

/* How much may be mapped and unused for long. */
static uint64_t heap_ahead(const struct heap *heap)
{
    uint64_t ahead = heap->used / 8;
    ahead = ahead > memory_grow_at_least ? ahead : memory_grow_at_least;
    return core_perf.no_cache ? 0 : credit_ahead(ahead, heap->context->facts->total_memory);
}

/* Idle credit of this program's other contexts counts against the same limit. */
static void others_give_back(const struct heap *heap)
{
    for (struct heap *other = heap_next(NULL); other; other = heap_next(other)) {
        if (other == heap || pthread_mutex_trylock(&other->lock))
            continue;
        if (other->piece)
            heap_give_back(other, UINT64_MAX);
        pthread_mutex_unlock(&other->lock);
    }
}

/* More credit, so that `size` bytes may fit: some ahead of need if there is plenty; then, all idle credit given back,
   what is needed, for which the server asks other programs too. */
static int heap_grow(struct heap *heap, uint64_t size)
{
    FLYT_ASSERT_HELD(&heap->lock);
    uint64_t piece = heap_piece(heap), top, tail = heap_tail(heap, &top);
    uint64_t need = round_up(size - (tail < size ? tail : 0), piece), ahead = heap_ahead(heap);
    int code = heap_map(heap, top, ahead > need ? round_up(ahead, piece) : need, need, false);
    if (code != CORE_OUT_OF_MEMORY)
        return code;
    atomic_store(&heap->bare, true);          /* whoever asks for our credit need not wait for this lock */
    heap_give_back(heap, UINT64_MAX);
    others_give_back(heap);
    tail = heap_tail(heap, &top);
    need = round_up(size - (tail < size ? tail : 0), piece);
    code = heap_map(heap, top, need, need, true);
    atomic_store(&heap->bare, false);
    return code;
}

static int heap_allocate(struct heap *heap, uint64_t size, uint64_t *address)
{
    FLYT_ASSERT_HELD(&heap->lock);
    *address = heap_take(heap, size);
    if (*address)
        return CORE_OK;
    int code = heap_grow(heap, size);
    if (code)
        return code;
    *address = heap_take(heap, size);
    if (*address)
        return CORE_OK;
    /* The new piece did not become the neighbour of the free tail that was counted on. */
    uint64_t need = round_up(size, heap->piece);
    heap_give_back(heap, UINT64_MAX);
    code = heap_map(heap, 0, need, need, true);
    if (!code)
        *address = heap_take(heap, size);
    return code ? code : *address ? CORE_OK : CORE_OUT_OF_MEMORY;
}

void memory_give_back(void)
{
    for (struct heap *heap = heap_next(NULL); heap; heap = heap_next(heap)) {
        pthread_mutex_lock(&heap->lock);
        if (heap->piece)
            heap_give_back(heap, UINT64_MAX);
        pthread_mutex_unlock(&heap->lock);
    }
}

/* ---- memory with a new context ---- */

struct map_question *memory_ask_first(core_context *c)
{
    struct heap *heap = heap_of(c);
    struct map_question *q = heap ? malloc(sizeof *q) : NULL;
    if (!q)
        return NULL;
    pthread_mutex_lock(&heap->lock);
    uint64_t piece = heap_piece(heap), size = round_up(heap_ahead(heap), piece);
    if (size && map_ask(heap, 0, size, piece, false, q) == CORE_OK)
        return q;
    pthread_mutex_unlock(&heap->lock);
    free(q);
    return NULL;
}

void memory_first_answered(struct map_question *q)
{
    if (!q)
        return;
    struct heap *heap = q->heap;
    if (map_answered(q, wire_wait_along(&q->call)))
        heap->piece = 0;      /* there may be no context, and the structure's next life may be on another device */
    pthread_mutex_unlock(&heap->lock);
    free(q);
}

uint64_t memory_first_wanted(void) { return core_perf.no_cache ? 0 : memory_grow_at_least; }

void memory_first_granted(core_context *c, uint64_t size)
{
    uint64_t address = core_session.window;
    struct heap *heap = heap_of(c);
    if (!heap || !size || size % heap_piece(heap) || window_take(address, address, size, heap->piece) != address)
        return;
    struct block *block = calloc(1, sizeof *block);
    pthread_mutex_lock(&heap->lock);
    if (block)
        heap_add(heap, block, address, size);
    else
        unmap(c, address, size);
    pthread_mutex_unlock(&heap->lock);
}

/* ---- the public face ---- */

/* CUDA's error does not say whose limit it was. Once: a program may try again and again with less. */
static int memory_say_limit(const core_context *c, uint64_t size, int code)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (code != CORE_OUT_OF_MEMORY || atomic_flag_test_and_set(&told))
        return code;
    unsigned long long asked = size >> 20, all = c->facts->total_memory >> 20;
    if (core_session.managed)
        log_warning("out of GPU memory: %llu MiB were asked for, and the programs of this VM may use %llu MiB together."
                    " `flytctl vm set` with --memory raises the limit, for the VM's next GPU server", asked, all);
    else
        log_warning("out of GPU memory: %llu MiB were asked for, and the programs of this GPU server may use %llu MiB"
                    " together", asked, all);
    return code;
}

static int allocate(core_context *c, struct heap *heap, size_t size, uint64_t *address)
{
    pthread_mutex_lock(&heap->lock);
    int code = heap_allocate(heap, round_up(size, MEMORY_ALIGNMENT), address);
    if (!code && address_add(CORE_DEVICE_MEMORY, c, *address, size, 0)) {
        heap_give(heap, *address);
        code = CORE_OUT_OF_MEMORY;
    }
    if (!code)
        code = extent_say(*address, size, FLYT_EXTENT_ALLOCATED);
    pthread_mutex_unlock(&heap->lock);
    return code;
}

int core_memory_allocate(core_context *c, size_t size, uint64_t *address)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (!size)
        return CORE_INVALID_VALUE;
    struct heap *heap = heap_of(c);
    if (size > core_session.window_size || !heap)
        return memory_say_limit(c, size, CORE_OUT_OF_MEMORY);
    uint64_t at;                              /* the caller's place may be managed memory: no lock is held there */
    code = allocate(c, heap, size, &at);
    if (code == CORE_OUT_OF_MEMORY && (handle_give_back(true) | pool_give_back()))
        code = allocate(c, heap, size, &at);
    if (!code)
        *address = at;
    return memory_say_limit(c, size, code);
}

int memory_settle(core_context *owner)
{
    int code = CORE_OK;
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c))
        if (!owner || c == owner || atomic_load(&c->cross_context))
            code = context_settle(c);
    return code;
}

int core_memory_free(uint64_t address)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    struct core_range range;
    bool known = core_address_lookup(address, &range) && range.kind == CORE_DEVICE_MEMORY && range.base == address;
    if (known && address_is_pooled(&range)) {
        code = memory_settle(NULL);
        return pool_free_now(address) ? code : CORE_INVALID_VALUE;
    }
    if (!known)
        return CORE_INVALID_VALUE;
    if (range.flags)
        return range.flags == CORE_MANAGED ? managed_free(address) : CORE_INVALID_VALUE;
    if (!address_remove(CORE_DEVICE_MEMORY, address, NULL))
        return CORE_INVALID_VALUE;            /* another thread was quicker */
    share_freed(address);
    code = memory_settle(range.context);
    struct heap *heap = heap_of(range.context);
    pthread_mutex_lock(&heap->lock);
    extent_say(address, range.size, FLYT_EXTENT_FREED);
    heap_give(heap, address);
    if (core_perf.no_cache)
        heap_give_back(heap, UINT64_MAX);
    pthread_mutex_unlock(&heap->lock);
    return code;
}

int memory_take(core_context *c, uint64_t size, uint64_t *address)
{
    struct heap *heap = heap_of(c);
    if (size > core_session.window_size || !heap)
        return memory_say_limit(c, size, CORE_OUT_OF_MEMORY);
    pthread_mutex_lock(&heap->lock);
    int code = heap_allocate(heap, round_up(size, MEMORY_ALIGNMENT), address);
    if (!code)
        code = extent_say(*address, size, FLYT_EXTENT_ALLOCATED);
    pthread_mutex_unlock(&heap->lock);
    return memory_say_limit(c, size, code);
}

void memory_put(core_context *c, uint64_t address)
{
    struct heap *heap = heap_of(c);
    pthread_mutex_lock(&heap->lock);
    const struct block *b = block_of(tree_at_or_below(&heap->blocks, address, 0));
    if (b && block_address(b) == address)
        extent_say(address, block_size(b), FLYT_EXTENT_FREED);
    heap_give(heap, address);
    if (core_perf.no_cache)
        heap_give_back(heap, UINT64_MAX);
    pthread_mutex_unlock(&heap->lock);
}

uint64_t memory_pieces(void)
{
    uint64_t pieces = 0;
    for (struct heap *heap = heap_next(NULL); heap; heap = heap_next(heap)) {
        if (pthread_mutex_trylock(&heap->lock))
            continue;                         /* a MAP is under way, for which the end of the process does not wait */
        pieces += heap->piece ? heap->mapped / heap->piece : 0;
        pthread_mutex_unlock(&heap->lock);
    }
    return pieces;
}

uint64_t memory_credit(core_context *c)
{
    struct heap *heap = heap_of(c);
    if (!heap)
        return 0;
    pthread_mutex_lock(&heap->lock);
    uint64_t credit = heap->mapped - heap->used;
    pthread_mutex_unlock(&heap->lock);
    return credit;
}

int core_memory_info(core_context *c, size_t *free_bytes, size_t *total_bytes)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    handle_give_back(true);
    context_args args = { .context = c->wire };
    memory_info_result result = { 0 };
    code = wire_call(FLYT_MEMORY_INFO, (xdrproc_t)xdr_context_args, &args, (xdrproc_t)xdr_memory_info_result, &result);
    if (!code) {
        *free_bytes = result.free + memory_credit(c);
        *total_bytes = result.total;
    }
    xdr_free((xdrproc_t)xdr_memory_info_result, &result);
    return code;
}

/* Takes the lock, unless its holder is at the very end of its credit: then there is nothing to give. The helper has
   other duties, on which a MAP may depend that the holder waits for: it does not wait for long. */
static bool heap_lock_for_recall(struct heap *heap)
{
    for (int tries = 0; pthread_mutex_trylock(&heap->lock); tries++) {
        if (atomic_load(&heap->bare) || tries == RECALL_TRIES)
            return false;
        usleep(20);                           /* an allocation, or a MAP that is answered at once */
    }
    return true;
}

void memory_recall(unsigned number, uint64_t bytes)
{
    recalled_args answer = { .number = number };
    handle_give_back(false);
    for (struct heap *heap = heap_next(NULL); heap; heap = heap_next(heap)) {
        if (!heap_lock_for_recall(heap))
            continue;
        uint64_t before = heap->mapped;
        if (heap->piece)
            heap_give_back(heap, bytes);
        bytes -= before - heap->mapped < bytes ? before - heap->mapped : bytes;
        answer.idle += heap->mapped - heap->used;
        pthread_mutex_unlock(&heap->lock);
    }
    wire_send(FLYT_RECALLED, (xdrproc_t)xdr_recalled_args, &answer);
    rpc_client_flush(core_session.client);
}

/* Called by the helper only. */
void memory_tend(void)
{
    static uint64_t next;
    uint64_t now = clock_now();
    if (now < next)
        return;
    next = now + TEND_NS;
    handle_give_back(false);
    for (struct heap *heap = heap_next(NULL); heap; heap = heap_next(heap)) {
        if (pthread_mutex_trylock(&heap->lock))
            continue;
        uint64_t keep = heap_ahead(heap);
        if (heap->piece && heap->idle_least > keep)
            heap_give_back(heap, heap->idle_least - keep);
        heap->idle_least = heap->mapped - heap->used;
        pthread_mutex_unlock(&heap->lock);
    }
}

/* What is mapped, from the address on: blocks fill it without gaps. False: nothing more. */
static bool heap_span(const struct heap *heap, uint64_t from, uint64_t *start, uint64_t *end)
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
    pthread_mutex_unlock(&heap->lock);
}

/* ---- moving to another server ---- */

static int span_restore(struct move *move, const struct heap *heap, uint64_t start, uint64_t size)
{
    map_args args = { .context = heap->context->wire, .address = start, .size = size, .piece = heap->piece,
                      .recall = true };
    map_result result = { 0 };
    int code = wire_call(FLYT_MAP, (xdrproc_t)xdr_map_args, &args, (xdrproc_t)xdr_map_result, &result);
    if (!code && result.size != size)
        code = CORE_OUT_OF_MEMORY;
    xdr_free((xdrproc_t)xdr_map_result, &result);
    return code ? move_refuse(move, code, "the new server does not give %llu MiB of memory on device %d (error %d)",
                              (unsigned long long)(size >> 20), heap->context->device, code)
                : CORE_OK;
}

static void extent_again(const struct core_range *range, void *context)
{
    int *code = context;
    if (!*code)
        *code = extent_say(range->base, range->size, FLYT_EXTENT_ALLOCATED);
}

int memory_restore(struct move *move)
{
    int code = CORE_OK;
    for (struct heap *heap = heap_next(NULL); heap && !code; heap = heap_next(heap)) {
        pthread_mutex_lock(&heap->lock);
        for (uint64_t start, end = 0; !code && heap_span(heap, end, &start, &end);)
            code = span_restore(move, heap, start, end - start);
        pthread_mutex_unlock(&heap->lock);
    }
    if (!code)
        address_each_allocation(extent_again, &code);
    return code;
}

struct copying { struct move *move; int code; };

static void allocation_contents(const struct core_range *range, void *context)
{
    struct copying *copying = context;
    if (!copying->code)
        copying->code = move_bytes(copying->move, range->context, range->base, range->size);
}

int allocations_contents(struct move *move)
{
    struct copying copying = { move, CORE_OK };
    address_each_allocation(allocation_contents, &copying);
    return copying.code;
}
