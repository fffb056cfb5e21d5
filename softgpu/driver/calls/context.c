/* context.c: contexts that the program creates, and the primary one. CUDA reference: Primary Context Management,
   Context Management. */
#include "softgpu/driver/calls/calls.h"

#include <stdlib.h>

static const unsigned known_flags = CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX
                                  | 0x20 | 0x40 | 0x80;     /* core dumps, SYNC_MEMOPS: names are newer than 11.8 */

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

/* Whoever had retained it still has to release it, but it is active again only after another retain. Behind a fault it
   ends too; the fault stays, so that nothing retains it again. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    sgd_lock();
    struct sgd_device *d = sgd_device(device);
    while (d && d->primary->ending)
        sgd_wait(NULL);
    if (d && d->primary->active)
        sgd_context_deactivate(d->primary);
    while (sgd_queue_cancelling())           /* or it would cancel what comes next */
        sgd_wait(NULL);
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

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

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
