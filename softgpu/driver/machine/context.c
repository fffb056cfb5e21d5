/*
 * context.c: contexts. A primary context exists from cuInit on (its handle never changes) and is active while it
 * is retained; a created one is active until cuCtxDestroy.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

static const size_t standard_limits[SGD_LIMITS] = {
    [CU_LIMIT_STACK_SIZE] = 1024,
    [CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20,
    [CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20,
    [CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2,
    [CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048,
    [CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64,
    [CU_LIMIT_PERSISTING_L2_CACHE_SIZE] = 0,
};

static unsigned active_count; /* contexts that have been activated and are not ended yet */
bool sgd_context_any(void) { return active_count > 0; }

struct sgd_context *sgd_context_get(CUcontext handle) { return sgd_handle_get(SGD_CONTEXT, handle); }

CUresult sgd_context_new(struct sgd_device *d, bool primary, unsigned flags, unsigned sm_count,
                         struct sgd_context **out)
{
    struct sgd_context *c = calloc(1, sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (struct sgd_context){
        .device = d, .sm_count = sm_count, .primary = primary, .flags = flags, .api_version = 3020, .id = sgd_next_id()
    };
    c->handle = sgd_handle_new(SGD_CONTEXT, c);
    if (!c->handle) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = c;
    return CUDA_SUCCESS;
}

/* Stacks of all threads that can be resident, and the FIFO of printf: device memory that no pointer leads to, in
   granules. */
static size_t reserve_of(const struct sgd_context *c)
{
    const struct sg_limits *l = &c->machine->limits;
    size_t bytes =
        c->limits[CU_LIMIT_STACK_SIZE] * l->max_threads_per_sm * l->sm_count + c->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
    return (bytes + SGD_GRANULE - 1) / SGD_GRANULE * SGD_GRANULE;
}

CUresult sgd_context_apply_limits(struct sgd_context *c)
{
    size_t wanted = reserve_of(c);
    if (wanted > c->reserved && wanted - c->reserved > sgd_device_free(c->device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->device->used += wanted - c->reserved;
    c->reserved = wanted;
    sg_print_resize(c->print, c->limits[CU_LIMIT_PRINTF_FIFO_SIZE]);
    return CUDA_SUCCESS;
}

CUresult sgd_context_activate(struct sgd_context *c)
{
    struct sgd_device *d = c->device;
    while (c->ending)                        /* another thread resets it */
        sgd_wait(NULL);
    if (c->active)
        return CUDA_SUCCESS;
    CUresult r = sgd_queue_start();
    if (!r && !d->machine)
        r = sgd_machine_new(d, d->limits.sm_count, &d->machine);
    if (!r && c->sm_count)
        r = sgd_machine_new(d, c->sm_count, &c->machine);
    else if (!r)
        c->machine = d->machine;
    if (!r)
        r = sgd_stream_new(c, CU_STREAM_DEFAULT, 0, &c->legacy);
    if (!r && !(c->print = sg_print_create())) {
        sgd_stream_retire(c->legacy);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r) {
        if (c->sm_count && c->machine)
            sgd_machine_destroy(c->machine);
        c->machine = NULL;
        c->legacy = NULL;
        return r;
    }
    c->legacy->legacy = true;
    memcpy(c->limits, standard_limits, sizeof c->limits);
    c->cache = CU_FUNC_CACHE_PREFER_NONE;
    c->shared_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
    c->active = true;
    active_count++;
    r = sgd_context_apply_limits(c);
    if (r)
        sgd_context_deactivate(c);
    return r;
}

void sgd_context_flush(struct sgd_context *c)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    sg_print *print = c->print;
    sgd_unlock();
    sg_print_flush(print);
    sgd_lock();
    sgd_context_release(c);
}

void sgd_context_deactivate(struct sgd_context *c)
{
    c->active = false;                       /* from now on no other thread finds its streams */
    c->ending = true;
    sgd_context_wait(c);
    sgd_context_hold(c);
    sgd_context_flush(c);
    while (c->holders)
        sgd_wait(NULL);
    while (c->modules)
        sgd_module_destroy(c->modules);
    while (c->events)
        sgd_event_retire(c->events);
    while (c->streams)
        sgd_stream_retire(c->streams);
    c->legacy = c->per_thread = NULL;
    sgd_arrays_forget(c);
    for (struct sgd_memory *m = sgd_extents_lower(&sgd_memories, 0), *next; m; m = next) {
        next = sgd_extents_next(&sgd_memories, &m->at);
        if (m->context == c)
            sgd_memory_free(m);
    }
    sgd_peers_forget(c);
    while (sgd_queue_cancelling())
        sgd_wait(NULL);
    sgd_device_give(c->device, c->reserved);
    c->reserved = 0;
    sg_heap_destroy(c->heap);
    sg_print_destroy(c->print);
    c->heap = NULL;
    c->heap_wanted = c->heap_used = false;
    c->print = NULL;
    if (c->sm_count)
        sgd_machine_destroy(c->machine);
    c->machine = NULL;
    active_count--;
    c->ending = false;
    sgd_progress();
}
