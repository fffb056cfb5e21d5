/* memory.c: cuMemAlloc and its like, peer access. CUDA reference: Memory Management, Peer Context Memory Access. */
#include "softgpu/driver/calls/calls.h"

CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    uint64_t address = 0;
    r = out ? sgd_memory_new(c, c->device, SGD_MEMORY_DEVICE, size, &address) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = address;
    sgd_leave();
    return r;
}

/* Waits until the device has finished everything of the allocation's context, as native does. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_memory *m = address ? sgd_memory_find(address) : NULL;
    if (address &&
        (!m || m->at.base != address || m->internal || (m->kind != SGD_MEMORY_DEVICE && m->kind != SGD_MEMORY_MANAGED)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (m && !r) {
        uint64_t id = m->id;
        struct sgd_context *c = m->context;
        if (c) {
            sgd_context_hold(c);
            r = sgd_context_wait(c);
            sgd_context_flush(c);
        }
        m = sgd_memory_find(address);        /* another thread may have freed it meanwhile */
        if (!r && m && m->id == id)
            sgd_memory_free(m);
    }
    sgd_leave();
    return r;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned element)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    size_t row = 0, size = 0;
    uint64_t address = 0;
    if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16) || width > 2147483647)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (__builtin_mul_overflow(row = (width + SGD_MEMORY_UNIT - 1) / SGD_MEMORY_UNIT * SGD_MEMORY_UNIT, height,
                                    &size))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else
        r = sgd_memory_new(c, c->device, SGD_MEMORY_DEVICE, size, &address);
    if (!r) {
        *out = address;
        *pitch = row;
    }
    sgd_leave();
    return r;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    size_t now = sgd_device_total(c->device), used = c->device->used;
    if (free_bytes)
        *free_bytes = now > used ? now - used : 0;
    if (total)
        *total = now;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_memory *m = sgd_memory_find(address);
    if (m && base)
        *base = m->at.base;
    if (m && size)
        *size = m->at.size;
    sgd_leave();
    return m ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* The current context and another one, of another device. */
static CUresult peers(CUcontext handle, struct sgd_context **from, struct sgd_context **to)
{
    *to = sgd_context_get(handle);
    if (!*to || !(*to)->active)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*to)->device == (*from)->device ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned flags)
{
    struct sgd_context *from, *to;
    CUresult r = sgd_enter_current(&from);
    if (r)
        return r;
    r = flags ? CUDA_ERROR_INVALID_VALUE : peers(handle, &from, &to);
    if (!r)
        r = sgd_peer_enable(from, to);
    sgd_leave();
    return r;
}

CUresult cuCtxDisablePeerAccess(CUcontext handle)
{
    struct sgd_context *from, *to;
    CUresult r = sgd_enter_current(&from);
    if (r)
        return r;
    r = peers(handle, &from, &to);
    if (!r || r == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
        r = r ? CUDA_ERROR_PEER_ACCESS_NOT_ENABLED : sgd_peer_disable(from, to);
    sgd_leave();
    return r;
}
