/*
 * memory_move.c: the device memory of heaps on a move to another server (move.h): the new one maps it at the same
 * addresses, and what the program's allocations hold is copied, unless the new one maps the very pages. Heaps may have
 * been mapped and copied there while the program went on (move_prepare.c): then only the difference is made.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/memory/extent.h"
#include "cpu/client/core/memory/heap.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/wire.h"

static int span_restore(struct move *move, const struct heap *heap, uint64_t start, uint64_t size)
{
    if (move->adopts) {
        adopt_args adopt = { .context = heap->context->wire, .address = start, .size = size };
        int adopted = move_adopt(move, FLYT_ADOPT, (xdrproc_t)xdr_adopt_args, &adopt);
        if (adopted)
            return move_refuse(move, adopted, "the new server does not take %llu MiB of memory over (error %d)",
                               (unsigned long long)(size >> 20), adopted);
        if (move->adopts)
            return CORE_OK;
    }
    map_args args = { .context = heap->context->wire, .address = start, .size = size, .piece = heap->piece,
                      .recall = true };
    map_result result = { 0 };
    int code = wire_call(move_calls(move), FLYT_MAP, (xdrproc_t)xdr_map_args, &args, (xdrproc_t)xdr_map_result,
                         &result);
    if (!code && result.size != size)
        code = CORE_OUT_OF_MEMORY;
    xdr_free((xdrproc_t)xdr_map_result, &result);
    return code ? move_refuse(move, code, "the new server does not give %llu MiB of memory on device %d (error %d)",
                              (unsigned long long)(size >> 20), heap->context->device, code)
                : CORE_OK;
}

/* Of a heap of which the new server has some already: what went back meanwhile is unmapped there, and what is new is
   mapped. */
static int spans_differ(struct move *move, const struct heap *heap, const struct ahead_spans *mapped)
{
    struct ahead_spans now = { 0 };
    struct ahead_span part;
    int code = CORE_OK;
    for (uint64_t start, end = 0; !code && heap_span(heap, end, &start, &end);)
        code = ahead_spans_add(&now, start, end) ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < mapped->count && !code; i++) {
        const struct ahead_span *had = &mapped->all[i];
        for (uint64_t from = had->start; !code && ahead_spans_gap(&now, from, had->end, &part); from = part.end) {
            unmap_args args = { .context = heap->context->wire, .address = part.start, .size = part.end - part.start };
            code = wire_send(&core_session, FLYT_UNMAP, (xdrproc_t)xdr_unmap_args, &args);
        }
    }
    for (size_t i = 0; i < now.count && !code; i++)
        for (uint64_t from = now.all[i].start;
             !code && ahead_spans_gap(mapped, from, now.all[i].end, &part); from = part.end)
            code = span_restore(move, heap, part.start, part.end - part.start);
    free(now.all);
    return code;
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
        const struct ahead_context *ahead = move_ahead_of(move->ahead, heap->context);
        if (ahead && ahead->mapped.count)
            code = spans_differ(move, heap, &ahead->mapped);
        else
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

struct move_sum { const struct move *move; uint64_t sum; };

static void add_size(const struct core_range *range, void *context)
{
    struct move_sum *counting = context;
    counting->sum += move_ahead_left(counting->move->ahead, range->context, range->base, range->size);
}

uint64_t allocations_size(const struct move *move, bool adopts)
{
    struct move_sum counting = { move, 0 };
    if (!adopts)
        address_each_allocation(add_size, &counting);
    return counting.sum;
}

int allocations_contents(struct move *move)
{
    struct copying copying = { move, CORE_OK };
    if (move->adopts)
        return CORE_OK;
    address_each_allocation(allocation_contents, &copying);
    return copying.code;
}

/* ---- while the program goes on ---- */

enum { AHEAD_BATCH = 32 << 20 };       /* no more stays mapped for the move's sake, or holds up the context's end */

/* The heap's, now. False: no memory. */
static bool spans_take(struct heap *heap, struct ahead_spans *spans)
{
    bool good = true;
    pthread_mutex_lock(&heap->lock);
    for (uint64_t start, end = 0; good && !heap->ending && heap_span(heap, end, &start, &end);)
        good = ahead_spans_add(spans, start, end);
    pthread_mutex_unlock(&heap->lock);
    return good;
}

int memory_ahead_map(struct move *move, struct ahead_context *ahead)
{
    struct heap *heap = heap_of(ahead->context);
    struct ahead_spans now = { 0 };
    struct ahead_span gap;
    int code = !heap || spans_take(heap, &now) ? CORE_OK : CORE_OUT_OF_MEMORY;
    move_go(move, MOVE_TARGET);
    for (size_t i = 0; i < now.count && !code; i++)
        for (uint64_t from = now.all[i].start;
             !code && ahead_spans_gap(&ahead->mapped, from, now.all[i].end, &gap); from = gap.end) {
            code = span_restore(move, heap, gap.start, gap.end - gap.start);
            if (!code && !ahead_spans_add(&ahead->mapped, gap.start, gap.end))
                code = CORE_OUT_OF_MEMORY;
        }
    free(now.all);
    return code;
}

/* The heap is not locked meanwhile: the program allocates and frees. Where some of it has been given back, all of it
   stays to be copied. Of a context that has ended and was made again nothing is copied: the move's stream has ended. */
static int copy_batch(struct move *move, struct heap *heap, const struct ahead_context *ahead,
                      const struct ahead_span *batch)
{
    pthread_mutex_lock(&heap->lock);
    bool there = !heap->ending && move_ahead_stays(ahead) && heap_covers(heap, batch->start, batch->end);
    heap->copied_from = there ? batch->start : 0;
    heap->copied_to = there ? batch->end : 0;
    pthread_mutex_unlock(&heap->lock);
    if (!there)
        return CORE_OK;
    int code = move_bytes(move, heap->context, batch->start, batch->end - batch->start);
    int ended = code ? move_bytes_end(move) : move_bytes_there(move);
    pthread_mutex_lock(&heap->lock);
    heap->copied_from = heap->copied_to = 0;
    pthread_cond_broadcast(&heap->copied);
    pthread_mutex_unlock(&heap->lock);
    code = code ? code : ended;
    if (!code)
        move_ahead_copied(move->ahead, batch->start, batch->end);
    return code;
}

/* The parts of the heap that both servers have: visit() gets each. */
static int each_there(struct move *move, const struct ahead_context *ahead,
                      int (*visit)(struct move *, struct heap *, struct ahead_span part, void *), void *context)
{
    struct heap *heap = heap_of(ahead->context);
    struct ahead_spans now = { 0 };
    struct ahead_span part;
    int code = !heap || spans_take(heap, &now) ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < now.count && !code; i++)
        for (uint64_t from = now.all[i].start;
             !code && ahead_spans_part(&ahead->mapped, from, now.all[i].end, &part); from = part.end)
            code = visit(move, heap, part, context);
    free(now.all);
    return code;
}

static int copy_part(struct move *move, struct heap *heap, struct ahead_span part, void *ahead)
{
    struct ahead_span batch = { part.start, part.start };
    int code = CORE_OK;
    while (!code && move_ahead_next(move->ahead, ahead, batch.end, part.end, AHEAD_BATCH, &batch))
        code = copy_batch(move, heap, ahead, &batch);
    return code;
}

static int count_part(struct move *move, struct heap *heap, struct ahead_span part, void *sum)
{
    *(uint64_t *)sum += move_ahead_left(move->ahead, heap->context, part.start, part.end - part.start);
    return CORE_OK;
}

int memory_ahead_copy(struct move *move, struct ahead_context *ahead)
{
    return each_there(move, ahead, copy_part, ahead);
}

uint64_t memory_ahead_left(struct move *move, const struct ahead_context *ahead)
{
    uint64_t sum = 0;
    each_there(move, ahead, count_part, &sum);
    return sum;
}
