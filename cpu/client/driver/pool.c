/* pool.c: memory pools, of chapter "Stream Ordered Memory Allocator". A pool's handle is the core's token. */
#include "cpu/client/driver/driver.h"

/* The values of these attributes are int, of the others 64 bits. */
static bool is_switch(CUmemPool_attribute attribute)
{
    return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* Of handleTypes: those that Flyt makes, and those of all systems. */
enum { DESCRIPTOR = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, HANDLE_TYPES_KNOWN = 0xF };

/* ---- making and ending ---- */

static int check_properties(const CUmemPoolProps *p)
{
    if (!p || p->win32SecurityAttributes)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof p->reserved; i++)
        if (p->reserved[i])
            return CUDA_ERROR_INVALID_VALUE;
    bool host = p->location.type == CU_MEM_LOCATION_TYPE_HOST || p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (!host && p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)p->handleTypes & ~(unsigned)HANDLE_TYPES_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED || host || (unsigned)p->handleTypes & ~(unsigned)DESCRIPTOR ||
        p->usage) {
        core_unsupported("a memory pool with these properties (fabric handles, managed memory, the host)");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    int error = driver_device(p->location.id);
    if (error == CUDA_ERROR_INVALID_DEVICE)
        error = CUDA_ERROR_INVALID_VALUE;
    return error || !p->handleTypes ? error : core_share_check();
}

static int create(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    int error = driver_ready();
    if (!error && !pool)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = check_properties(properties);
    return error ? error : core_pool_create(properties->location.id, properties->maxSize,
                                            properties->handleTypes != 0, pool);
}

CUresult driver_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties)
{
    return driver_local(create(pool, properties));
}

CUresult driver_cuMemPoolDestroy(CUmemoryPool pool)
{
    int error = driver_ready();
    return driver_local(error ? error : core_pool_destroy(pool));
}

CUresult driver_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    int error = driver_ready();
    return driver_local(error ? error : core_pool_trim(pool, keep));
}

/* ---- a device's pools ---- */

static int of_device(CUmemoryPool *pool, CUdevice device, int (*get)(int, core_pool *))
{
    int error = driver_device(device);
    return error ? error : pool ? get(device, pool) : CUDA_ERROR_INVALID_VALUE;
}

static int set_current(CUdevice device, CUmemoryPool pool)
{
    int error = driver_device(device);
    return error ? error : core_pool_set_current(device, pool);
}

CUresult driver_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    return driver_local(of_device(pool, device, core_pool_default));
}

CUresult driver_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
    return driver_local(of_device(pool, device, core_pool_current));
}

CUresult driver_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    return driver_local(set_current(device, pool));
}

/* Only devices have pools here. */
static int check_place(const CUmemLocation *location, CUmemAllocationType type)
{
    int error = driver_ready();
    if (error)
        return error;
    if (!location || (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
        return CUDA_ERROR_INVALID_VALUE;
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: return CUDA_ERROR_NOT_SUPPORTED;
    case CU_MEM_LOCATION_TYPE_NONE:
        return type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    error = driver_device(location->id) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    return error ? error : type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

CUresult driver_cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    int error = check_place(location, type);
    return driver_local(error ? error : of_device(pool, location->id, core_pool_default));
}

CUresult driver_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    int error = check_place(location, type);
    return driver_local(error ? error : of_device(pool, location->id, core_pool_current));
}

CUresult driver_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    int error = check_place(location, type);
    return driver_local(error ? error : set_current(location->id, pool));
}

/* ---- attributes ---- */

static int get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    uint64_t number;
    int error = driver_ready();
    if (!error && !value)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = core_pool_get(pool, (enum core_pool_attribute)attribute, &number)))
        return error;
    if (is_switch(attribute))
        *(int *)value = (int)number;
    else
        *(uint64_t *)value = number;
    return CUDA_SUCCESS;
}

static int set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, const void *value)
{
    int error = driver_ready();
    if (error)
        return error;
    if (!value || attribute < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t number = is_switch(attribute) ? *(const int *)value != 0 : *(const uint64_t *)value;
    return core_pool_set(pool, (enum core_pool_attribute)attribute, number);
}

CUresult driver_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return driver_local(get_attribute(pool, attribute, value));
}

CUresult driver_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    return driver_local(set_attribute(pool, attribute, value));
}

/* ---- access ---- */

static int set_access(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count)
{
    int error = driver_ready();
    if (!error && count && !wanted)
        error = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !error && i < count; i++)
        error = wanted[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE
                    ? core_pool_access_set(pool, wanted[i].location.id, wanted[i].flags)
                    : CUDA_ERROR_INVALID_VALUE;
    return error;
}

static int get_access(CUmemAccess_flags *flags, CUmemoryPool pool, const CUmemLocation *location)
{
    unsigned access;
    int error = driver_ready();
    if (!error && (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !(error = core_pool_access_get(pool, location->id, &access)))
        *flags = (CUmemAccess_flags)access;
    return error;
}

CUresult driver_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *wanted, size_t count)
{
    return driver_local(set_access(pool, wanted, count));
}

CUresult driver_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
    return driver_local(get_access(flags, pool, location));
}

/* ---- other processes ---- */

static int export_pool(void *out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags)
{
    int fd, error = driver_ready();
    if (!error && (!out || flags))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && (int)type != DESCRIPTOR)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !(error = core_pool_export(pool, &fd)))
        *(int *)out = fd;
    return error;
}

static int import_pool(CUmemoryPool *out, const void *handle, CUmemAllocationHandleType type, unsigned long long flags)
{
    int error = driver_ready();
    if (!error && (!out || flags || (int)type != DESCRIPTOR))
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_pool_import((int)(intptr_t)handle, out);
}

static int export_pointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    int error = driver_ready();
    return error ? error : data ? core_pool_pointer_export(address, data->reserved) : CUDA_ERROR_INVALID_VALUE;
}

static int import_pointer(CUdeviceptr *address, CUmemoryPool pool, const CUmemPoolPtrExportData *data)
{
    int error = driver_ready();
    if (!error && (!address || !data))
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_pool_pointer_import(pool, data->reserved, address);
}

CUresult driver_cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool, CUmemAllocationHandleType type,
                                                 unsigned long long flags)
{
    return driver_local(export_pool(handle, pool, type, flags));
}

CUresult driver_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle, CUmemAllocationHandleType type,
                                                   unsigned long long flags)
{
    return driver_local(import_pool(pool, handle, type, flags));
}

CUresult driver_cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    return driver_waited(export_pointer(data, address));
}

CUresult driver_cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool pool, CUmemPoolPtrExportData *data)
{
    return driver_waited(import_pointer(address, pool, data));
}
