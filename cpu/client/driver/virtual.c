/*
 * virtual.c: chapter "Virtual Memory Management". Reservations lie in the session's window of addresses. A handle is
 * the core's; another process can be given a file descriptor of it.
 */
#include "cpu/client/driver/driver.h"

static int reserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    int error = driver_ready();
    if (error)
        return error;
    return out && !flags ? core_reservation_create(size, alignment, hint, out) : CUDA_ERROR_INVALID_VALUE;
}

static bool of_host(const CUmemLocation *location)
{
    return location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* Memory of the host cannot be exported: native says 1 where it never can. */
static int check_host(const CUmemAllocationProp *properties)
{
    bool numa = properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if ((numa && properties->location.id < 0) || (!numa && properties->requestedHandleTypes))
        return CUDA_ERROR_INVALID_VALUE;
    if (!properties->requestedHandleTypes && core_handle_host_possible())
        return CUDA_SUCCESS;
    core_unsupported(properties->requestedHandleTypes ? "memory of the host that other processes can have"
                                                      : "virtual memory of the host in this session");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* 101: no such device; 801: memory that the protocol does not have. */
static int check_properties(const CUmemAllocationProp *properties)
{
    if (!properties || properties->type == CU_MEM_ALLOCATION_TYPE_INVALID || properties->win32HandleMetaData)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type == CU_MEM_LOCATION_TYPE_INVALID ||
        properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->allocFlags.gpuDirectRDMACapable ||
        (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !of_host(&properties->location)) ||
        (unsigned)properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        core_unsupported("memory with these properties (fabric handles, RDMA)");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (of_host(&properties->location))
        return check_host(properties);
    int error = driver_device(properties->location.id);
    return error || !properties->requestedHandleTypes ? error : core_share_check();
}

/* The device on which memory of the host lies: that of the thread's context, else the first. */
static int device_for_host(void)
{
    struct core_context_info info;
    return driver_current && !core_context_info(driver_current, &info) ? info.device : 0;
}

static int create(CUmemGenericAllocationHandle *out, size_t size, const CUmemAllocationProp *properties,
                  unsigned long long flags)
{
    core_handle handle;
    int error = driver_ready();
    if (!error && (!out || flags))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = check_properties(properties);
    if (error)
        return error;
    const CUmemLocation *at = &properties->location;
    if (of_host(at))
        error = core_handle_create_host(device_for_host(), size, (struct core_host_place){ (int)at->type, at->id },
                                        &handle);
    else
        error = core_handle_create(at->id, size, properties->requestedHandleTypes != 0, &handle);
    if (!error)
        *out = handle;
    return error;
}

static int release(CUmemGenericAllocationHandle handle)
{
    int error = driver_ready();
    return error ? error : core_handle_release(handle);
}

static int map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
               unsigned long long flags)
{
    int error = driver_ready();
    if (error)
        return error;
    return offset || flags ? CUDA_ERROR_INVALID_VALUE : core_handle_map(address, size, handle);
}

static int unmap(CUdeviceptr address, size_t size)
{
    int error = driver_ready();
    return error ? error : core_handle_unmap(address, size);
}

static int set_one(CUdeviceptr address, size_t size, const CUmemAccessDesc *wanted)
{
    switch (wanted->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return core_access_set(address, size, wanted->location.id, wanted->flags);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: return core_access_set_host(address, size, wanted->flags);
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

static int set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *wanted, size_t count)
{
    int error = driver_ready();
    if (!error && (!wanted || !count))
        error = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !error && i < count; i++) {
        if (wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            wanted[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        error = set_one(address, size, &wanted[i]);
    }
    return error;
}

static int get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    unsigned access;
    int error = driver_ready();
    if (!error && (!flags || !location ||
                   (location->type != CU_MEM_LOCATION_TYPE_DEVICE && !of_host(location))))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = of_host(location) ? core_access_get_host(address, &access)
                                  : core_access_get(address, location->id, &access);
    if (!error)
        *flags = access;
    return error;
}

static int get_granularity(size_t *bytes, const CUmemAllocationProp *properties,
                           CUmemAllocationGranularity_flags option)
{
    int error = driver_ready();
    if (!error && (!bytes || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        error = CUDA_ERROR_INVALID_VALUE;
    bool here = properties && properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; /* answered only */
    if (!error && !here)
        error = check_properties(properties);
    return error ? error : core_memory_granularity(bytes);
}

static int get_properties(CUmemAllocationProp *properties, CUmemGenericAllocationHandle handle)
{
    int error = driver_ready();
    struct core_handle_info info;
    if (!error && !properties)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !(error = core_handle_info(handle, &info)))
        *properties =
            (CUmemAllocationProp){ .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                   .requestedHandleTypes = info.shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
                                   .location = { CU_MEM_LOCATION_TYPE_DEVICE, info.device } };
    if (!error && info.place.type)
        properties->location = (CUmemLocation){ (CUmemLocationType)info.place.type, info.place.id };
    return error;
}

static int retain(CUmemGenericAllocationHandle *out, const void *address)
{
    core_handle handle;
    int error = driver_ready();
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !(error = core_handle_at((uint64_t)(uintptr_t)address, &handle)))
        *out = handle;
    return error;
}

/* ---- other processes ---- */

/* Other sorts of handles exist, of Windows and of fabrics. */
static int check_type(CUmemAllocationHandleType type)
{
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_SUCCESS;
    enum { WIN32 = 2, WIN32_KMT = 4, FABRIC = 8 };
    return (int)type == WIN32 || (int)type == WIN32_KMT || (int)type == FABRIC ? CUDA_ERROR_NOT_SUPPORTED
                                                                               : CUDA_ERROR_INVALID_VALUE;
}

static int export(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                  unsigned long long flags)
{
    int fd, error = driver_ready();
    if (!error && (!out || flags))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = check_type(type);
    if (!error && !(error = core_handle_export(handle, &fd)))
        *(int *)out = fd;
    return error;
}

static int import(CUmemGenericAllocationHandle *out, const void *shared, CUmemAllocationHandleType type)
{
    core_handle handle;
    int error = driver_ready();
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = check_type(type);
    if (!error && !(error = core_handle_import((int)(intptr_t)shared, &handle)))
        *out = handle;
    return error;
}

CUresult driver_cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType type, unsigned long long flags)
{
    return driver_waited(export(shared, handle, type, flags));
}

CUresult driver_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                               CUmemAllocationHandleType type)
{
    return driver_waited(import(handle, shared, type));
}

CUresult driver_cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                                    unsigned long long flags)
{
    return driver_local(reserve(out, size, alignment, hint, flags));
}

CUresult driver_cuMemAddressFree(CUdeviceptr address, size_t size)
{
    int error = driver_ready();
    return driver_local(error ? error : core_reservation_free(address, size));
}

CUresult driver_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties,
                            unsigned long long flags)
{
    return driver_waited(create(handle, size, properties, flags));
}

CUresult driver_cuMemRelease(CUmemGenericAllocationHandle handle) { return (CUresult)release(handle); }
CUresult driver_cuMemMap(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags)
{
    return driver_waited(map(address, size, offset, handle, flags));
}

CUresult driver_cuMemUnmap(CUdeviceptr address, size_t size) { return (CUresult)unmap(address, size); }
CUresult driver_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *wanted, size_t count)
{
    return driver_waited(set_access(address, size, wanted, count));
}

CUresult driver_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)
{
    return driver_local(get_access(flags, location, address));
}

CUresult driver_cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
                                              CUmemAllocationGranularity_flags option)
{
    return driver_local(get_granularity(bytes, properties, option));
}

CUresult driver_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                       CUmemGenericAllocationHandle handle)
{
    return driver_local(get_properties(properties, handle));
}

CUresult driver_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    return driver_local(retain(handle, address));
}
