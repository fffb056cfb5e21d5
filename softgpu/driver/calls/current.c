/*
 * current.c: the stack of contexts of each thread, and what is asked about the current one.
 * The stack holds handles, so a context that was destroyed in another thread is found out, not followed.
 */
#include "softgpu/driver/calls/calls.h"

static _Thread_local CUcontext stack[SGD_STACK_DEPTH];
static _Thread_local unsigned depth;

struct sgd_context *sgd_context_current(void)
{
    return depth ? sgd_context_get(stack[depth - 1]) : NULL;
}

/* The current context was reset after the fault. */
static bool ended_behind_fault(void)
{
    sgd_lock();
    const struct sgd_context *c = sgd_context_current();
    bool ended = c && !c->active;
    sgd_unlock();
    return ended;
}

CUresult sgd_enter_current(struct sgd_context **context)
{
    CUresult r = sgd_enter();
    if (r)
        return r == sgd_fault() && ended_behind_fault() ? CUDA_ERROR_CONTEXT_IS_DESTROYED : r;
    *context = sgd_context_current();
    if (*context && (*context)->active)
        return CUDA_SUCCESS;
    r = depth ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
    sgd_leave();
    return r;
}

CUresult sgd_current_push(CUcontext c)
{
    if (depth == SGD_STACK_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stack[depth++] = c;
    return CUDA_SUCCESS;
}

static CUcontext pop(void) { return depth ? stack[--depth] : NULL; }

void sgd_current_forget(CUcontext c)
{
    if (depth && stack[depth - 1] == c)
        depth--;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    r = sgd_context_get(handle) ? sgd_current_push(handle) : CUDA_ERROR_INVALID_CONTEXT;
    sgd_leave();
    return r;
}

CUresult cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    CUcontext popped = pop();
    if (out)
        *out = popped;
    sgd_leave();
    return popped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxPopCurrent(CUcontext *out) { return cuCtxPopCurrent_v2(out); }

CUresult cuCtxSetCurrent(CUcontext handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (handle && !sgd_context_get(handle)) {
        r = CUDA_ERROR_INVALID_CONTEXT;
    } else {
        pop();
        if (handle)
            r = sgd_current_push(handle);
    }
    sgd_leave();
    return r;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (out)
        *out = depth ? stack[depth - 1] : NULL;
    sgd_leave();
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A context that the caller names, or the current one for NULL. */
static CUresult enter_named(CUcontext handle, struct sgd_context **c)
{
    if (!handle)
        return sgd_enter_current(c);
    CUresult r = sgd_enter();
    if (r)
        return r;
    *c = sgd_context_get(handle);
    if (*c && (*c)->active)
        return CUDA_SUCCESS;
    sgd_leave();
    return *c ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_ERROR_INVALID_CONTEXT;
}

/* The device is known even of a primary context that nobody retains. */
static CUresult get_device(CUdevice *device, CUcontext handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_context *c = handle ? sgd_context_get(handle) : sgd_context_current();
    r = !c ? CUDA_ERROR_INVALID_CONTEXT : !device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (!r)
        *device = c->device->ordinal;
    sgd_leave();
    return r;
}

CUresult cuCtxGetDevice(CUdevice *device) { return get_device(device, NULL); }

static CUresult synchronize(CUcontext handle)
{
    struct sgd_context *c;
    CUresult r = enter_named(handle, &c);
    if (r)
        return r;
    sgd_context_hold(c);
    r = sgd_context_wait(c);
    sgd_context_flush(c);
    sgd_leave();
    return r;
}

CUresult cuCtxSynchronize(void) { return synchronize(NULL); }

#if CUDA_VERSION >= 13000
CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle) { return get_device(device, handle); }
CUresult cuCtxSynchronize_v2(CUcontext handle) { return synchronize(handle); }
#endif

CUresult cuCtxGetFlags(unsigned *flags)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (flags)
        *flags = c->flags;
    sgd_leave();
    return flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 12010
CUresult cuCtxSetFlags(unsigned flags)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (flags & ~(unsigned)(CU_CTX_SCHED_MASK | 0xF8))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        c->flags = flags;
    sgd_leave();
    return r;
}
#endif

#if CUDA_VERSION >= 12000
CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
    struct sgd_context *c;
    CUresult r = enter_named(handle, &c);
    if (r)
        return r;
    if (id)
        *id = c->id;
    sgd_leave();
    return id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

/* No line of a cache persists. */
CUresult cuCtxResetPersistingL2Cache(void)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (!r)
        sgd_leave();
    return r;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (!affinity)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        r = CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    else
        *affinity = (CUexecAffinityParam){ .type = type, .param.smCount.val = c->machine->limits.sm_count };
    sgd_leave();
    return r;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned *version)
{
    struct sgd_context *c;
    CUresult r = enter_named(handle, &c);
    if (r)
        return r;
    if (version)
        *version = c->api_version;
    sgd_leave();
    return version ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

enum { LIMIT_SHARED_MEMORY = 7 }; /* the largest dynamic shared memory of a block; it cannot be set */

/* cudaDeviceSynchronize in kernels went with capability 9.0. */
static bool lacks_limit(const struct sgd_context *c, CUlimit limit)
{
    return limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH && c->machine->limits.cc_major >= 9;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (!value || (unsigned)limit >= CU_LIMIT_MAX)
        r = CUDA_ERROR_INVALID_VALUE;
    else if ((unsigned)limit == LIMIT_SHARED_MEMORY)
        *value = c->machine->limits.shared_per_block_optin;
    else if (limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE || lacks_limit(c, limit))
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    else
        *value = c->limits[limit];
    sgd_leave();
    return r;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    size_t before = (unsigned)limit < SGD_LIMITS ? c->limits[limit] : 0;
    switch ((int)limit) {
    case CU_LIMIT_STACK_SIZE:               /* NVIDIA's rounds up to 16 and stops at 512 KiB less a little */
        if (value > 512 << 10)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            c->limits[limit] = (value + 15) & ~(size_t)15;
        break;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
        r = sgd_heap_resize(c, value);
        before = c->limits[limit];
        break;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
        if (value > (size_t)1 << 30)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            c->limits[limit] = value;
        break;
    case LIMIT_SHARED_MEMORY:
        r = CUDA_ERROR_NOT_PERMITTED;
        break;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        if (lacks_limit(c, limit))
            r = CUDA_ERROR_UNSUPPORTED_LIMIT;
        else
            c->limits[limit] = value;
        break;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        c->limits[limit] = value;
        break;
    case CU_LIMIT_MAX_L2_FETCH_GRANULARITY: /* a hint of 0 to 128 */
        if (value > 128)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            c->limits[limit] = value;
        break;
    default:
        r = (unsigned)limit < CU_LIMIT_MAX ? CUDA_ERROR_UNSUPPORTED_LIMIT : CUDA_ERROR_INVALID_VALUE;
    }
    if (!r)
        r = sgd_context_apply_limits(c);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        c->limits[limit] = before;
    sgd_leave();
    return r;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (config)
        *config = c->cache;
    sgd_leave();
    return config ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A preference without effect: shared memory and cache are not one here. */
CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if ((unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL)
        c->cache = config;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (config)
        *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    sgd_leave();
    return config ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    sgd_leave();
    return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (least)
        *least = SGD_PRIORITY_LEAST;
    if (greatest)
        *greatest = SGD_PRIORITY_GREATEST;
    sgd_leave();
    return CUDA_SUCCESS;
}
