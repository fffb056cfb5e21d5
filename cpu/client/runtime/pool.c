/* pool.c: memory pools, of chapter "Stream Ordered Memory Allocator". A pool's handle is the core's token. */
#include "cpu/client/runtime/runtime.h"

/* The values of these attributes are int, of the others 64 bits. */
static bool is_switch(cudaMemPoolAttr attribute) { return attribute <= cudaMemPoolReuseAllowInternalDependencies; }
enum { NOWHERE = 0, DEVICE = 1, HOST = 2, HOST_NUMA = 3, MANAGED = 2 }; /* numbers of later releases, too */

/* Of handleTypes: those that Flyt makes, and those of all systems. */
enum { DESCRIPTOR = cudaMemHandleTypePosixFileDescriptor, HANDLE_TYPES_KNOWN = 0xF };

/* ---- making and ending ---- */

#if FLYT_CUDART >= 12
static size_t most_of(const cudaMemPoolProps *p) { return p->maxSize; }
static unsigned usage_of(const cudaMemPoolProps *p) { return p->usage; }
#else /* it has no such members */
static size_t most_of(const cudaMemPoolProps *p) { return (void)p, 0; }
static unsigned usage_of(const cudaMemPoolProps *p) { return (void)p, 0; }
#endif

static int check_properties(const cudaMemPoolProps *p)
{
    if (!p || p->win32SecurityAttributes)
        return cudaErrorInvalidValue;
    for (size_t i = 0; i < sizeof p->reserved; i++)
        if (p->reserved[i])
            return cudaErrorInvalidValue;
    bool host = (int)p->location.type == HOST || (int)p->location.type == HOST_NUMA;
    if (!host && (int)p->location.type != DEVICE)
        return cudaErrorInvalidValue;
    if ((unsigned)p->handleTypes & ~(unsigned)HANDLE_TYPES_KNOWN)
        return cudaErrorInvalidValue;
    if ((int)p->allocType == MANAGED || host || (unsigned)p->handleTypes & ~(unsigned)DESCRIPTOR || usage_of(p)) {
        core_unsupported("a memory pool with these properties (fabric handles, managed memory, the host)");
        return cudaErrorNotSupported;
    }
    if (p->allocType != cudaMemAllocationTypePinned)
        return cudaErrorInvalidValue;
    int error = runtime_attach_device(p->location.id);
    if (error == cudaErrorInvalidDevice)
        error = cudaErrorInvalidValue;
    return error || !p->handleTypes ? error : core_share_check();
}

static int create(cudaMemPool_t *pool, const cudaMemPoolProps *properties)
{
    int error = runtime_attach(NULL);
    if (!error && !pool)
        error = cudaErrorInvalidValue;
    if (!error)
        error = check_properties(properties);
    return error ? error : core_pool_create(properties->location.id, most_of(properties),
                                            properties->handleTypes != 0, pool);
}

cudaError_t runtime_cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *properties)
{
    return runtime_local(create(pool, properties));
}

cudaError_t runtime_cudaMemPoolDestroy(cudaMemPool_t pool)
{
    int error = runtime_attach(NULL);
    return runtime_local(error ? error : core_pool_destroy(pool));
}

cudaError_t runtime_cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    int error = runtime_attach(NULL);
    return runtime_local(error ? error : core_pool_trim(pool, keep));
}

/* ---- a device's pools ---- */

static int of_device(cudaMemPool_t *pool, int device, int (*get)(int, core_pool *))
{
    int error = runtime_attach_device(device);
    return error ? error : pool ? get(device, pool) : cudaErrorInvalidValue;
}

static int set_current(int device, cudaMemPool_t pool)
{
    int error = runtime_attach_device(device);
    return error ? error : core_pool_set_current(device, pool);
}

cudaError_t runtime_cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    return runtime_local(of_device(pool, device, core_pool_default));
}

cudaError_t runtime_cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
    return runtime_local(of_device(pool, device, core_pool_current));
}

cudaError_t runtime_cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
    return runtime_local(set_current(device, pool));
}

#if FLYT_CUDART >= 13
/* Only devices have pools here. */
static int check_place(const cudaMemLocation *location, cudaMemAllocationType type)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!location || (type != cudaMemAllocationTypePinned && (int)type != MANAGED))
        return cudaErrorInvalidValue;
    switch ((int)location->type) {
    case DEVICE: break;
    case HOST:
    case HOST_NUMA: return cudaErrorNotSupported;
    case NOWHERE: return (int)type == MANAGED ? cudaErrorNotSupported : cudaErrorInvalidValue;
    default: return cudaErrorInvalidValue;
    }
    error = runtime_attach_device(location->id) ? cudaErrorInvalidValue : cudaSuccess;
    return error ? error : (int)type == MANAGED ? cudaErrorNotSupported : cudaSuccess;
}

cudaError_t runtime_cudaMemGetDefaultMemPool(cudaMemPool_t *pool, cudaMemLocation *location, cudaMemAllocationType type)
{
    int error = check_place(location, type);
    return runtime_local(error ? error : of_device(pool, location->id, core_pool_default));
}

cudaError_t runtime_cudaMemGetMemPool(cudaMemPool_t *pool, cudaMemLocation *location, cudaMemAllocationType type)
{
    int error = check_place(location, type);
    return runtime_local(error ? error : of_device(pool, location->id, core_pool_current));
}

cudaError_t runtime_cudaMemSetMemPool(cudaMemLocation *location, cudaMemAllocationType type, cudaMemPool_t pool)
{
    int error = check_place(location, type);
    return runtime_local(error ? error : set_current(location->id, pool));
}
#endif

/* ---- attributes ---- */

static int get_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
{
    uint64_t number;
    int error = runtime_attach(NULL);
    if (!error && !value)
        error = cudaErrorInvalidValue;
    if (error || (error = core_pool_get(pool, (enum core_pool_attribute)attribute, &number)))
        return error;
    if (is_switch(attribute))
        *(int *)value = (int)number;
    else
        *(uint64_t *)value = number;
    return cudaSuccess;
}

static int set_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void *value)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!value || attribute < cudaMemPoolReuseFollowEventDependencies || attribute > cudaMemPoolAttrUsedMemHigh)
        return cudaErrorInvalidValue;
    uint64_t number = is_switch(attribute) ? *(const int *)value != 0 : *(const uint64_t *)value;
    return core_pool_set(pool, (enum core_pool_attribute)attribute, number);
}

cudaError_t runtime_cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
{
    return runtime_local(get_attribute(pool, attribute, value));
}

cudaError_t runtime_cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
{
    return runtime_local(set_attribute(pool, attribute, value));
}

/* ---- access ---- */

static int set_access(cudaMemPool_t pool, const cudaMemAccessDesc *wanted, size_t count)
{
    int error = runtime_attach(NULL);
    if (!error && count && !wanted)
        error = cudaErrorInvalidValue;
    for (size_t i = 0; !error && i < count; i++)
        error = (int)wanted[i].location.type == DEVICE
                    ? core_pool_access_set(pool, wanted[i].location.id, wanted[i].flags)
                    : cudaErrorInvalidValue;
    return error;
}

static int get_access(cudaMemAccessFlags *flags, cudaMemPool_t pool, const cudaMemLocation *location)
{
    unsigned access;
    int error = runtime_attach(NULL);
    if (!error && (!flags || !location || (int)location->type != DEVICE))
        error = cudaErrorInvalidValue;
    if (!error && !(error = core_pool_access_get(pool, location->id, &access)))
        *flags = (cudaMemAccessFlags)access;
    return error;
}

cudaError_t runtime_cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *wanted, size_t count)
{
    return runtime_local(set_access(pool, wanted, count));
}

cudaError_t runtime_cudaMemPoolGetAccess(cudaMemAccessFlags *flags, cudaMemPool_t pool, cudaMemLocation *location)
{
    return runtime_local(get_access(flags, pool, location));
}

/* ---- other processes ---- */

static int export_pool(void *out, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned long long flags)
{
    int fd, error = runtime_attach(NULL);
    if (!error && (!out || flags))
        error = cudaErrorInvalidValue;
    if (!error && (int)type != DESCRIPTOR)
        error = cudaErrorInvalidValue;
    if (!error && !(error = core_pool_export(pool, &fd)))
        *(int *)out = fd;
    return error;
}

static int import_pool(cudaMemPool_t *out, const void *handle, cudaMemAllocationHandleType type,
                       unsigned long long flags)
{
    int error = runtime_attach(NULL);
    if (!error && (!out || flags || (int)type != DESCRIPTOR))
        error = cudaErrorInvalidValue;
    return error ? error : core_pool_import((int)(intptr_t)handle, out);
}

static int export_pointer(cudaMemPoolPtrExportData *data, const void *pointer)
{
    int error = runtime_attach(NULL);
    if (!error && !data)
        error = cudaErrorInvalidValue;
    return error ? error : core_pool_pointer_export((uint64_t)(uintptr_t)pointer, data->reserved);
}

static int import_pointer(void **pointer, cudaMemPool_t pool, const cudaMemPoolPtrExportData *data)
{
    uint64_t address;
    int error = runtime_attach(NULL);
    if (!error && (!pointer || !data))
        error = cudaErrorInvalidValue;
    if (!error && !(error = core_pool_pointer_import(pool, data->reserved, &address)))
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t runtime_cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
                                                       cudaMemAllocationHandleType type, unsigned flags)
{
    return runtime_local(export_pool(handle, pool, type, flags));
}

cudaError_t runtime_cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
                                                         cudaMemAllocationHandleType type, unsigned flags)
{
    return runtime_local(import_pool(pool, handle, type, flags));
}

cudaError_t runtime_cudaMemPoolExportPointer(cudaMemPoolPtrExportData *data, void *pointer)
{
    return runtime_waited(export_pointer(data, pointer));
}

cudaError_t runtime_cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool, cudaMemPoolPtrExportData *data)
{
    return runtime_waited(import_pointer(pointer, pool, data));
}
