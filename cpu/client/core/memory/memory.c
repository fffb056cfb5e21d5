/*
 * memory.c: device memory. The program's allocations are cut, on this side (heap.c), from credit: pieces of memory that
 * the server has created and mapped already (credit.c), at addresses that we chose.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "extent.h"
#include "heap.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/stream/pool_notes.h"
#include "share.h"
#include "windows.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

enum { MEMORY_ALIGNMENT = 512 };

/* CUDA's error does not say whose limit it was. Once: a program may try again and again with less. */
static int memory_say_limit(const core_context *c, uint64_t size, int code)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (code != CORE_OUT_OF_MEMORY || atomic_flag_test_and_set(&told))
        return code;
    unsigned long long asked = size >> 20, all = c->facts->total_memory >> 20;
    if (core_session.managed)
        log_warning("out of GPU memory: %llu MiB were asked for, and the programs of this VM may use %llu MiB together."
                    " `flytctl vm set` with --memory raises the limit, with --now at once", asked, all);
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

/* Both give back what they hold: true if either had anything. */
static bool give_back(void)
{
    bool handles = handle_give_back(true);
    return pool_give_back() || handles;
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
    if (code == CORE_OUT_OF_MEMORY && give_back())
        code = allocate(c, heap, size, &at);
    if (!code)
        *address = at;
    return memory_say_limit(c, size, code);
}

int memory_settle(core_context *owner)
{
    int code = CORE_OK;
    for (core_context *c = context_next(NULL); c && !code; c = context_next(c)) {
        if (session_several() && c != owner && atomic_load(&c->session->sticky))
            continue;                         /* its server is lost, or its work has failed; others are in order */
        if (!owner || c == owner || atomic_load(&c->cross_context))
            code = context_settle(c);
    }
    return code ? code : mirror_synchronised();
}

int core_memory_settle(core_context *owner)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    return code ? code : memory_settle(owner);
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
        windows_end_in(address, range.size);
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
    windows_end_in(address, range.size);
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

int core_memory_info(core_context *c, size_t *free_bytes, size_t *total_bytes)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    handle_give_back(true);
    context_args args = { .context = c->wire };
    memory_info_result result = { 0 };
    code = wire_call(c->session, FLYT_MEMORY_INFO, (xdrproc_t)xdr_context_args, &args,
                     (xdrproc_t)xdr_memory_info_result, &result);
    if (!code) {
        *free_bytes = result.free + memory_credit(c);
        *total_bytes = result.total;
    }
    xdr_free((xdrproc_t)xdr_memory_info_result, &result);
    return code;
}
