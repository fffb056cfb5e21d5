/* host.c: pinned, registered and managed memory: memory that the program and every device see at one address. */
#include "softgpu/driver/calls/calls.h"

#include <stdlib.h>
#include <sys/mman.h>

CUresult cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    uint64_t address = 0;
    if (!out ||
        flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = sgd_memory_new(c, c->device, SGD_MEMORY_HOST, size, &address);
    if (!r) {                                /* with unified addressing all of it is portable and mapped */
        sgd_memory_find(address)->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
        *out = (void *)(uintptr_t)address;
    }
    sgd_leave();
    return r;
}

CUresult cuMemAllocHost_v2(void **out, size_t size) { return cuMemHostAlloc(out, size, 0); }

CUresult cuMemFreeHost(void *p)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_memory *m = sgd_memory_find((uint64_t)(uintptr_t)p);
    if (!m || m->kind != SGD_MEMORY_HOST || m->at.base != (uint64_t)(uintptr_t)p) {
        sgd_leave();
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t id = m->id;
    r = sgd_context_wait(m->context);
    m = sgd_memory_find((uint64_t)(uintptr_t)p);
    if (!r && m && m->id == id)
        sgd_memory_free(m);
    sgd_leave();
    return r;
}

static CUresult do_register(struct sgd_context *c, uint64_t p, size_t size, unsigned flags, bool shut)
{
    struct sgd_memory *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct sgd_memory){ .at = { .base = p, .size = size },
                              .kind = SGD_MEMORY_REGISTERED,
                              .context = c,
                              .device = c->device,
                              .id = sgd_next_id(),
                              .flags = flags | CU_MEMHOSTREGISTER_DEVICEMAP };
    if (!sgd_extents_add(&sgd_memories, &m->at)) {
        free(m);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    uint64_t first = p & ~(uint64_t)4095, last = (p + size + 4095) & ~(uint64_t)4095;   /* pages are pinned whole */
    int slot = sgd_space_share(first, last - first);
    if (slot < 0) {
        sgd_extents_remove(&sgd_memories, &m->at);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->window = (unsigned)slot;
    if (shut && sgd_space_shut(first, last - first))
        return CUDA_SUCCESS;
    sgd_space_rights(first, last - first, ~0u, flags & CU_MEMHOSTREGISTER_READ_ONLY ? SG_READ : SG_READ | SG_WRITE);
    return CUDA_SUCCESS;
}

static CUresult host_register(void *p, size_t size, unsigned flags, bool shut)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    uint64_t a = (uint64_t)(uintptr_t)p;
    unsigned char resident;
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                           CU_MEMHOSTREGISTER_READ_ONLY;
    if (!p || !size || a + size < a || flags & ~known)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (mincore((void *)(uintptr_t)(a & ~(uint64_t)4095), 1, &resident)
             || mincore((void *)(uintptr_t)((a + size - 1) & ~(uint64_t)4095), 1, &resident))
        r = CUDA_ERROR_INVALID_VALUE;        /* not memory of this process */
    else if (sgd_memory_find(a) || sgd_memory_find(a + size - 1))
        r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else if (sgd_space_inside(a) && !sgd_space_shared(a))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = do_register(c, a, size, flags, shut);
    sgd_leave();
    return r;
}

CUresult cuMemHostRegister_v2(void *p, size_t size, unsigned flags) { return host_register(p, size, flags, false); }

/* For servers that bring memory when a kernel touches it: registered memory is shut until it is opened: an access to it
   asks (softgpu_absences). It may be shut again. */
__attribute__((visibility("default"))) CUresult softgpu_register_shut(void *p, size_t size, unsigned flags);
CUresult softgpu_register_shut(void *p, size_t size, unsigned flags) { return host_register(p, size, flags, true); }
__attribute__((visibility("default"))) void softgpu_shut(uint64_t address, uint64_t size, bool shut);
void softgpu_shut(uint64_t address, uint64_t size, bool shut)
{
    if (sgd_enter())
        return;
    const struct sgd_memory *m = sgd_memory_find(address);
    bool here = m && m->kind == SGD_MEMORY_REGISTERED && size <= m->at.base + m->at.size - address;
    if (here && !(shut && sgd_space_shut(address, size)))
        sgd_space_rights(address, size, ~0u, SG_READ | SG_WRITE);
    sgd_leave();
}

CUresult cuMemHostRegister(void *p, size_t size, unsigned flags) { return cuMemHostRegister_v2(p, size, flags); }

CUresult cuMemHostUnregister(void *p)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_memory *m = sgd_memory_find((uint64_t)(uintptr_t)p);
    if (!m || m->kind != SGD_MEMORY_REGISTERED || m->at.base != (uint64_t)(uintptr_t)p) {
        sgd_leave();
        return m || !p ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    uint64_t id = m->id;
    r = sgd_context_wait(m->context);
    m = sgd_memory_find((uint64_t)(uintptr_t)p);
    if (!r && m && m->id == id)
        sgd_memory_free(m);
    sgd_leave();
    return r;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned flags)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_memory *m = sgd_memory_find((uint64_t)(uintptr_t)p);
    if (!out || flags || !m ||
        (m->kind != SGD_MEMORY_HOST && m->kind != SGD_MEMORY_REGISTERED && m->kind != SGD_MEMORY_MANAGED))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *out = (uint64_t)(uintptr_t)p;
    sgd_leave();
    return r;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *p)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const struct sgd_memory *m = sgd_memory_find((uint64_t)(uintptr_t)p);
    if (!flags || !m || (m->kind != SGD_MEMORY_HOST && m->kind != SGD_MEMORY_REGISTERED))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *flags = m->flags;
    sgd_leave();
    return r;
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned flags)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    uint64_t address = 0;
    if (!out || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = sgd_memory_new(c, c->device, SGD_MEMORY_MANAGED, size, &address);
    if (!r) {
        sgd_memory_find(address)->flags = flags;
        *out = address;
    }
    sgd_leave();
    return r;
}

static bool managed(uint64_t address, size_t size)
{
    const struct sgd_memory *m = sgd_memory_find(address);
    return m && m->kind == SGD_MEMORY_MANAGED && size && size <= m->at.base + m->at.size - address;
}

/* Advice is taken note of by nobody: the memory is where everybody sees it. */
CUresult cuMemAdvise(CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (!managed(address, size) || advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && device != CU_DEVICE_CPU && !sgd_device(device))
        r = CUDA_ERROR_INVALID_DEVICE;
    sgd_leave();
    return r;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
    struct sgd_context *c;
    struct sgd_stream *s;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_stream_find(stream, c, &s);
    if (!r && !managed(address, size))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!r && device != CU_DEVICE_CPU && !sgd_device(device))
        r = CUDA_ERROR_INVALID_DEVICE;
    sgd_leave();
    return r;
}

CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t size, unsigned flags)
{
    struct sgd_context *c;
    struct sgd_stream *s;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_stream_find(stream, c, &s);
    if (!r && (!managed(address, size ? size : 1) || !flags || flags & (flags - 1) || flags > CU_MEM_ATTACH_SINGLE))
        r = CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

#if CUDA_VERSION >= 12020
static CUresult location_device(const CUmemLocation *l, CUdevice *device)
{
    if (l->type == CU_MEM_LOCATION_TYPE_DEVICE)
        *device = l->id;
    else if (l->type == CU_MEM_LOCATION_TYPE_HOST || l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
             l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        *device = CU_DEVICE_CPU;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location)
{
    CUdevice device = CU_DEVICE_CPU;
    CUresult r = advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? location_device(&location, &device) : CUDA_SUCCESS;
    return r ? r : cuMemAdvise(address, size, advice, device);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
                               CUstream stream)
{
    CUdevice device;
    CUresult r = flags ? CUDA_ERROR_INVALID_VALUE : location_device(&location, &device);
    return r ? r : cuMemPrefetchAsync(address, size, device, stream);
}
#endif
