/*
 * credit.c: the pieces of device memory that the server has created and mapped for this program.
 *
 * All pieces of a heap are of one size and begin at multiples of it from the window's base, so that which whole ones
 * lie in a free block is a matter of rounding.
 *
 * Credit is asked for ahead of need while the tenant has plenty (the server decides). It goes back: what lay idle for a
 * beat beyond the usual amount (memory_tend); when another program lacks memory and the server asks for it
 * (memory_recall); all of it, before an allocation fails. So at the edge of the tenant's limit only whole pieces count
 * that really hold something.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/rpc/credit.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/wire/device.h"
#include "heap.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

enum { RECALL_TRIES = 200 };
#define TEND_NS CLOCK_NS_PER_SECOND
uint64_t memory_grow_at_least = UINT64_C(32) << 20;

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
    int code = wire_send(c->session, FLYT_UNMAP, (xdrproc_t)xdr_unmap_args, &args);
    window_give(address, size);
    return code;
}

void heap_give_back(struct heap *heap, uint64_t bytes)
{
    FLYT_ASSERT_HELD(&heap->lock);
    uint64_t given = 0;
    struct tree_node *next;
    if (heap->ending)
        return;
    for (struct tree_node *n = tree_last(&heap->sizes); n && given < bytes && n->key >= heap->piece; n = next) {
        struct block *b = CONTAINER(n, struct block, by_size);
        next = tree_at_or_below(&heap->sizes, n->key, n->tie - 1);
        uint64_t from = piece_above(heap, block_address(b)),
                 to = piece_above(heap, block_address(b) + block_size(b) + 1) - heap->piece;
        if (to <= from || (from < heap->copied_to && to > heap->copied_from))
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

/* A MAP under way. */
struct map_question {
    struct heap *heap;
    struct block *block; /* which the new memory becomes */
    map_args args;
    map_result result;
    struct wire_call call;
};

/* Asks for `size` bytes at `top` if they are free there, else elsewhere; at least `least` bytes. 0, or 2: not asked.
   map_answered is the second half; the heap stays locked meanwhile, unless nobody else knows of its context yet. */
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
    wire_submit(c->session, &q->call);
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
        if (other == heap || other->context->session != heap->context->session || pthread_mutex_trylock(&other->lock))
            continue;
        if (other->piece) {
            heap_await_copied(other);
            heap_give_back(other, UINT64_MAX);
        }
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
    heap_await_copied(heap);                  /* which could be given back otherwise */
    atomic_store(&heap->bare, true);          /* whoever asks for our credit need not wait for this lock */
    heap_give_back(heap, UINT64_MAX);
    others_give_back(heap);
    tail = heap_tail(heap, &top);
    need = round_up(size - (tail < size ? tail : 0), piece);
    code = heap_map(heap, top, need, need, true);
    atomic_store(&heap->bare, false);
    return code;
}

int heap_allocate(struct heap *heap, uint64_t size, uint64_t *address)
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
        if (heap->piece) {
            heap_await_copied(heap);              /* else a free block of which a move copies a part would stay */
            heap_give_back(heap, UINT64_MAX);
        }
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
    bool asked = size && map_ask(heap, 0, size, piece, false, q) == CORE_OK;
    pthread_mutex_unlock(&heap->lock);
    if (asked)
        return q;
    free(q);
    return NULL;
}

void memory_first_answered(struct map_question *q)
{
    if (!q)
        return;
    struct heap *heap = q->heap;
    int code = wire_wait_along(&q->call);
    pthread_mutex_lock(&heap->lock);
    if (map_answered(q, code))
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

uint64_t memory_mapped_of(core_context *c)
{
    struct heap *heap = atomic_load(&c->heap);
    if (!heap)
        return 0;
    pthread_mutex_lock(&heap->lock);
    uint64_t mapped = heap->mapped;
    pthread_mutex_unlock(&heap->lock);
    return mapped;
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

void memory_recall(struct client_session *session, unsigned number, uint64_t bytes)
{
    recalled_args answer = { .number = number };
    handle_give_back(false);
    for (struct heap *heap = heap_next(NULL); heap; heap = heap_next(heap)) {
        if (heap->context->session != session || !heap_lock_for_recall(heap))
            continue;
        uint64_t before = heap->mapped;
        if (heap->piece)
            heap_give_back(heap, bytes);
        bytes -= before - heap->mapped < bytes ? before - heap->mapped : bytes;
        answer.idle += heap->mapped - heap->used;
        pthread_mutex_unlock(&heap->lock);
    }
    wire_send(session, FLYT_RECALLED, (xdrproc_t)xdr_recalled_args, &answer);
    rpc_client_flush(session->client);
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
