/*
 * memory_move.c: the device memory of heaps on a move to another server (move.h): the new one maps it at the same
 * addresses, and what the program's allocations hold is copied, unless the new one maps the very pages.
 */
#include <pthread.h>

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
    int code = wire_call(&core_session, FLYT_MAP, (xdrproc_t)xdr_map_args, &args, (xdrproc_t)xdr_map_result, &result);
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

static void add_size(const struct core_range *range, void *sum)
{
    *(uint64_t *)sum += range->size;
}

uint64_t allocations_size(const struct move *move, bool adopts)
{
    uint64_t sum = 0;
    (void)move;
    if (!adopts)
        address_each_allocation(add_size, &sum);
    return sum;
}

int allocations_contents(struct move *move)
{
    struct copying copying = { move, CORE_OK };
    if (move->adopts)
        return CORE_OK;
    address_each_allocation(allocation_contents, &copying);
    return copying.code;
}
