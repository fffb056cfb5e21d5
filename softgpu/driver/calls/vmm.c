/*
 * vmm.c: virtual memory management, as strict as NVIDIA's driver: granules of 2 MiB, whole handles mapped at offset 0,
 * no access before cuMemSetAccess, unmapping that waits for nobody. CUDA reference: Virtual Memory Management.
 *
 * A handle is a piece of its device's backing file (memfd), or of a file of its own when it is to be exported; so it
 * can be mapped at several addresses. Its memory goes when the last handle and the last mapping have gone: a hole is
 * punched; offsets are not used again (the file is sparse and 8 EiB long).
 */
#include "softgpu/driver/calls/calls.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool whole_granules(uint64_t n) { return n && !(n % SGD_GRANULE); }

/* ---- address space -------------------------------------------------------------------------------------------- */

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (!out || !whole_granules(size) || flags || (alignment & (alignment - 1)) || size > (uint64_t)1 << 46)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!(*out = sgd_space_reserve(size, alignment, hint)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    sgd_leave();
    return r;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t size)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    uint64_t reserved = 0;
    const struct sgd_extent *inside = sgd_extents_lower(&sgd_memories, base);
    if (!base || sgd_space_reserved(base, &reserved) != base || reserved != size ||
        (inside && inside->base - base < size))
        r = CUDA_ERROR_INVALID_VALUE;        /* not a whole reservation, or something is still mapped there */
    else
        sgd_space_release(base, size);
    sgd_leave();
    return r;
}

/* ---- handles ---------------------------------------------------------------------------------------------------- */

static CUresult check_prop(const CUmemAllocationProp *p)
{
    if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->win32HandleMetaData)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return (int)p->location.type > 1 && (int)p->location.type <= 4 ? CUDA_ERROR_NOT_SUPPORTED
                                                                       : CUDA_ERROR_INVALID_VALUE;
    if (!sgd_device(p->location.id))
        return CUDA_ERROR_INVALID_DEVICE;
    if ((unsigned)p->requestedHandleTypes & ~1u)
        return CUDA_ERROR_NOT_SUPPORTED;
    return p->allocFlags.gpuDirectRDMACapable ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static struct sgd_physical *physical_of(CUmemGenericAllocationHandle h)
{
    struct sgd_physical *p = sgd_handle_get(SGD_PHYSICAL, (const void *)(uintptr_t)h);
    return p && p->handles ? p : NULL;
}

enum { FILE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static CUresult file_new(const struct sgd_device *d, size_t size, int *fd)
{
    char name[64];
    snprintf(name, sizeof name, "flyt-softgpu-%d", d->ordinal);     /* import reads the device from the name */
    *fd = fd_keep(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    /* Another process may get the file: it must not be able to take pages away that this one uses. */
    if (*fd < 0 || ftruncate(*fd, (off_t)size) || (size && fcntl(*fd, F_ADD_SEALS, FILE_SEALS))) {
        log_error("software GPU: no file for %zu bytes of device memory: %s", size, strerror(errno));
        if (*fd >= 0)
            close(*fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static CUresult physical_back(struct sgd_physical *p)
{
    struct sgd_device *d = p->device;
    if (p->prop.requestedHandleTypes) {
        p->own_fd = true;
        return file_new(d, p->size, &p->fd);
    }
    if (d->pool_fd < 0) {
        CUresult r = file_new(d, 0, &d->pool_fd);
        if (r)
            return r;
    }
    if (ftruncate(d->pool_fd, d->pool_end + (off_t)p->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->fd = d->pool_fd;
    p->offset = d->pool_end;
    d->pool_end += (int64_t)p->size;
    return CUDA_SUCCESS;
}

static void physical_unref(struct sgd_physical *p)
{
    if (!p->handles)
        sgd_handle_drop((const void *)(uintptr_t)p->handle);
    if (p->handles || p->mappings)
        return;
    if (p->own_fd)
        close(p->fd);
    else if (fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p->offset, (off_t)p->size))
        log_warning("software GPU: %zu bytes of device memory stay with the host: %s", p->size, strerror(errno));
    if (!p->imported)
        sgd_device_give(p->device, p->size);
    free(p);
}

/* For tests: what a driver hands out that does not clear. */
static CUresult physical_soil(const struct sgd_physical *p)
{
    void *at = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, (off_t)p->offset);
    if (at == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(at, 0xd1, p->size);
    munmap(at, p->size);
    return CUDA_SUCCESS;
}

/* fd: the file of memory that another process has made, which this function takes over; -1: new memory. own: it counts
   as made here. */
static CUresult physical_new(struct sgd_device *d, size_t size, const CUmemAllocationProp *prop, int fd, bool own,
                             struct sgd_physical **out)
{
    struct sgd_physical *p = calloc(1, sizeof *p);
    if (!p) {
        if (fd >= 0)
            close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *p = (struct sgd_physical){ .device = d, .size = size, .fd = fd, .own_fd = fd >= 0, .handles = 1, .prop = *prop };
    p->imported = fd >= 0 && !own;
    if (!p->imported && !sgd_device_take(d, size)) {
        if (fd >= 0)
            close(fd);
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult r = fd < 0 ? physical_back(p) : CUDA_SUCCESS;
    if (!r && fd < 0 && sgd_config.dirty)
        r = physical_soil(p);
    if (!r && !(p->handle = (CUmemGenericAllocationHandle)(uintptr_t)sgd_handle_new(SGD_PHYSICAL, p))) {
        if (p->own_fd)
            close(p->fd);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r) {
        if (!p->imported)
            sgd_device_give(d, size);
        free(p);
        return r;
    }
    *out = p;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_physical *p;
    r = out && whole_granules(size) && !flags ? check_prop(prop) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = physical_new(sgd_device(prop->location.id), size, prop, -1, true, &p);
    if (!r)
        *out = p->handle;
    sgd_leave();
    return r;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_physical *p = physical_of(handle);
    if (p) {
        p->handles--;
        physical_unref(p);
    } else {
        r = CUDA_ERROR_INVALID_VALUE;
    }
    sgd_leave();
    return r;
}

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

static CUresult map(uint64_t at, size_t size, struct sgd_physical *p)
{
    uint64_t room = 0, base = sgd_space_reserved(at, &room);
    if (!base || size > room - (at - base) || size != p->size)
        return CUDA_ERROR_INVALID_VALUE;
    struct sgd_memory *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct sgd_memory){ .at = { .base = at, .size = size },
                              .kind = SGD_MEMORY_MAPPED,
                              .device = p->device,
                              .physical = p,
                              .id = sgd_next_id(),
                              .rights_size = size };
    if (!sgd_extents_add(&sgd_memories, &m->at)) {
        free(m);
        return CUDA_ERROR_INVALID_VALUE;     /* something is mapped there already */
    }
    if (!sgd_space_back(at, size, p->fd, p->offset)) {
        sgd_extents_remove(&sgd_memories, &m->at);
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sgd_watch_mapped(at, size, p->mappings);
    p->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_physical *p = physical_of(handle);
    if (!p || offset || flags || !whole_granules(size) || at % SGD_GRANULE)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = map(at, size, p);
    sgd_leave();
    return r;
}

/* Do mappings fill [at, at+size) exactly, without gaps? */
static bool mapped(uint64_t at, uint64_t size)
{
    const struct sgd_memory *m = sgd_extents_find(&sgd_memories, at);
    for (uint64_t next = at; next < at + size; m = sgd_extents_next(&sgd_memories, &m->at)) {
        if (!m || m->kind != SGD_MEMORY_MAPPED || m->at.base != next || m->at.size > at + size - next)
            return false;
        next += m->at.size;
    }
    return size != 0;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (!whole_granules(size) || at + size < at || !mapped(at, size))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        sgd_space_unback(at, size);
    if (!r)
        sgd_watch_unmapped(at, size);
    struct sgd_memory *next;
    for (struct sgd_memory *m = r ? NULL : sgd_memory_find(at); m && m->at.base < at + size; m = next) {
        next = sgd_extents_next(&sgd_memories, &m->at);
        sgd_extents_remove(&sgd_memories, &m->at);
        m->physical->mappings--;
        physical_unref(m->physical);
        free(m);
    }
    sgd_leave();
    return r;
}

static CUresult check_access(const CUmemAccessDesc *d)
{
    if ((int)d->location.type == 2 ||
        (int)d->location.type == 3) /* the host has access in any case; native: only to host memory */
        return CUDA_ERROR_NOT_SUPPORTED;
    if (d->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (d->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && d->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         d->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
        return CUDA_ERROR_INVALID_VALUE;
    return sgd_device(d->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (!desc || !count || !whole_granules(size) || at + size < at || !mapped(at, size))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && !r; i++)
        r = check_access(&desc[i]);
    for (size_t i = 0; i < count && !r; i++)
        sgd_space_rights(at, size, 1u << desc[i].location.id,
                         desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? SG_READ | SG_WRITE
                         : desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? SG_READ : 0);
    sgd_leave();
    return r;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr at)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_memory *m = sgd_memory_find(at);
    if (!flags || !location || !m || m->kind != SGD_MEMORY_MAPPED || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!sgd_device(location->id))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r) {
        unsigned rights = sgd_space_rights_of(at, location->id);
        *flags = rights & SG_WRITE ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : rights          ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    sgd_leave();
    return r;
}

/* ---- sharing ----------------------------------------------------------------------------------------------------- */

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_physical *p = physical_of(handle);
    if (!out || !p || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !p->own_fd) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, FD_FIRST);
        if (fd < 0)
            r = CUDA_ERROR_OPERATING_SYSTEM;
        else
            *(int *)out = fd;
    }
    sgd_leave();
    return r;
}

/* fd stays the caller's. size 0: as it is. */
static CUresult physical_of_file(int ordinal, int fd, size_t size, bool own, CUmemGenericAllocationHandle *out)
{
    struct sgd_device *d = sgd_device(ordinal);
    struct sgd_physical *p;
    struct stat st;
    if (!d || fstat(fd, &st) || st.st_size <= 0 || !whole_granules((uint64_t)st.st_size) ||
        (size && (uint64_t)st.st_size != size) || (fcntl(fd, F_GET_SEALS) & FILE_SEALS) != FILE_SEALS)
        return CUDA_ERROR_INVALID_VALUE;
    if ((fd = fcntl(fd, F_DUPFD_CLOEXEC, FD_FIRST)) < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal } };
    CUresult r = physical_new(d, (size_t)st.st_size, &prop, fd, own, &p);
    if (!r)
        *out = p->handle;
    return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *handle, CUmemAllocationHandleType type)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    char path[64], target[64] = "";
    int ordinal = -1, fd = (int)(intptr_t)handle;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || readlink(path, target, sizeof target - 1) < 0
        || sscanf(target, "/memfd:flyt-softgpu-%d", &ordinal) != 1)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = physical_of_file(ordinal, fd, 0, false, out);
    sgd_leave();
    return r;
}

/* The memory of that file, which another process has made, is memory of this device from now on, as if it had been made
   here; the maker is about to end. fd stays the caller's. Not CUDA's: see place.c. */
__attribute__((visibility("default"))) CUresult softgpu_adopt_memory(CUmemGenericAllocationHandle *out, int fd,
                                                                     size_t size, int device);
CUresult softgpu_adopt_memory(CUmemGenericAllocationHandle *out, int fd, size_t size, int device)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    r = out && size ? physical_of_file(device, fd, size, true, out) : CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    r = granularity && (unsigned)option <= CU_MEM_ALLOC_GRANULARITY_RECOMMENDED ? check_prop(prop)
                                                                                : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *granularity = SGD_GRANULE;
    sgd_leave();
    return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_physical *p = physical_of(handle);
    if (p && prop)
        *prop = p->prop;
    sgd_leave();
    return p && prop ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_memory *m = sgd_memory_find((uint64_t)(uintptr_t)address);
    struct sgd_physical *p = m && m->kind == SGD_MEMORY_MAPPED ? m->physical : NULL;
    if (!out || !p) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else if (!p->handles && !(p->handle = (CUmemGenericAllocationHandle)(uintptr_t)sgd_handle_new(SGD_PHYSICAL, p))) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        p->handles++;
        *out = p->handle;
    }
    sgd_leave();
    return r;
}
