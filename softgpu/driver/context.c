/*
 * context.c: contexts. A primary context exists from cuInit on (its handle never changes) and is active while it
 * is retained; a created one is active until cuCtxDestroy. CUDA reference: Primary Context Management, Context
 * Management.
 */
#include "softgpu/driver/driver.h"

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
static const unsigned known_flags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX
                                  | 0x20 | 0x40 | 0x80;     /* core dumps, SYNC_MEMOPS: names are newer than 11.8 */

struct sgd_context *sgd_context_get(CUcontext handle) { return sgd_handle_get(SGD_CONTEXT, handle); }

CUresult sgd_context_new(struct sgd_device *d, bool primary, unsigned flags, unsigned sm_count, struct sgd_context **out)
{
    struct sgd_context *c = calloc(1, sizeof *c);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (struct sgd_context){ .device = d, .sm_count = sm_count, .primary = primary, .flags = flags, .api_version = 3020, .id = sgd_next_id() };
    c->handle = sgd_handle_new(SGD_CONTEXT, c);
    if (!c->handle) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = c;
    return CUDA_SUCCESS;
}

/* Stacks of all threads that can be resident, and the FIFO of printf: device memory that no pointer leads to, in granules. */
static size_t reserve_of(const struct sgd_context *c)
{
    const struct sg_limits *l = &c->machine->limits;
    size_t bytes = c->limits[CU_LIMIT_STACK_SIZE] * l->max_threads_per_sm * l->sm_count + c->limits[CU_LIMIT_PRINTF_FIFO_SIZE];
    return (bytes + SGD_GRANULE - 1) / SGD_GRANULE * SGD_GRANULE;
}

CUresult sgd_context_apply_limits(struct sgd_context *c)
{
    size_t wanted = reserve_of(c);
    if (wanted > c->reserved && wanted - c->reserved > c->device->total - c->device->used)
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
    r = sgd_context_apply_limits(c);
    if (r)
        sgd_context_deactivate(c);
    return r;
}

void sgd_context_hold(struct sgd_context *c)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    c->holders++;
}

void sgd_context_release(struct sgd_context *c)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!--c->holders && c->ending)
        sgd_progress();
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
    c->peer_enabled = 0;
    while (sgd_queue_cancelling())
        sgd_wait(NULL);
    sgd_device_give(c->device, c->reserved);
    c->reserved = 0;
    sg_heap_destroy(c->heap);
    sg_print_destroy(c->print);
    c->heap = NULL;
    c->print = NULL;
    if (c->sm_count)
        sgd_machine_destroy(c->machine);
    c->machine = NULL;
    c->ending = false;
    sgd_progress();
}

/* ---- created contexts --------------------------------------------------------------------------------------- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice device, unsigned sm_count)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_device *d = sgd_device(device);
    struct sgd_context *c = NULL;
    if (!out || flags & ~known_flags || (flags & CU_CTX_SCHED_MASK) > 4 || (flags & CU_CTX_SCHED_MASK) == 3)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = d ? sgd_context_new(d, false, flags, sm_count, &c) : CUDA_ERROR_INVALID_DEVICE;
    if (!r && sm_count > d->limits.sm_count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = sgd_context_activate(c);
    if (!r)
        r = sgd_current_push(c->handle);
    if (!r) {
        *out = c->handle;
    } else if (c) {
        if (c->active)
            sgd_context_deactivate(c);
        sgd_handle_drop(c->handle);
        free(c);
    }
    sgd_leave();
    return r;
}

CUresult cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device) { return create(out, flags, device, 0); }
CUresult cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device) { return create(out, flags, device, 0); }

/* Execution affinity: the context's grids run on so many SMs of their own. */
CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned flags, CUdevice device)
{
    if (!params && !count)
        return create(out, flags, device, 0);
    if (!params || count != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (params->type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return params->param.smCount.val ? create(out, flags, device, params->param.smCount.val) : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 12050
CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags, CUdevice device)
{
    if (!params)
        return create(out, flags, device, 0);
    if (params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cuCtxCreate_v3(out, params->execAffinityParams, params->numExecAffinityParams, flags, device);
}
#endif

CUresult cuCtxDestroy_v2(CUcontext handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_context *c = sgd_context_get(handle);
    if (!c || c->primary) {
        sgd_leave();
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sgd_current_forget(handle);
    sgd_handle_drop(handle);
    sgd_context_deactivate(c);
    free(c);
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

/* ---- primary contexts ------------------------------------------------------------------------------------- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_device *d = sgd_device(device);
    if (!d || !out) {
        sgd_leave();
        return d ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    if (!d->primary->active)
        r = sgd_context_activate(d->primary);
    if (!r) {
        d->primary->retains++;
        *out = d->primary->handle;
    }
    sgd_leave();
    return r;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_device *d = sgd_device(device);
    r = !d ? CUDA_ERROR_INVALID_DEVICE : !d->primary->retains ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    if (!r && !--d->primary->retains && d->primary->active)
        sgd_context_deactivate(d->primary);
    sgd_leave();
    return r;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }

/* Whoever had retained it still has to release it, but it is active again only after another retain. An assertion
   (710) is forgotten with the context in which it failed; nothing else is. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult stuck = sgd_fault();
    if (stuck && stuck != CUDA_ERROR_ASSERT)
        return stuck;
    sgd_lock();
    struct sgd_device *d = sgd_device(device);
    while (d && d->primary->ending)
        sgd_wait(NULL);
    if (d && d->primary->active)
        sgd_context_deactivate(d->primary);
    while (sgd_queue_cancelling())           /* or it would cancel what comes next */
        sgd_wait(NULL);
    if (d)
        sgd_fault_clear_assert();
    sgd_unlock();
    return d ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_device *d = sgd_device(device);
    if (!d)
        r = CUDA_ERROR_INVALID_DEVICE;
    else if (flags & ~known_flags || (flags & CU_CTX_SCHED_MASK) > 4 || (flags & CU_CTX_SCHED_MASK) == 3)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        d->primary->flags = flags;
    sgd_leave();
    return r;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) { return cuDevicePrimaryCtxSetFlags_v2(device, flags); }

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_device *d = sgd_device(device);
    r = !d ? CUDA_ERROR_INVALID_DEVICE : !flags || !active ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (!r) {
        *flags = d->primary->flags;
        *active = d->primary->active;
    }
    sgd_leave();
    return r;
}
