/* device.c: chapter "Device Management": all from the snapshot that came at connect. */
#include <stdio.h>
#include <string.h>

#include "cpu/client/driver/driver.h"

#include "api/forward/core.h"
#include "cpu/client/core/stream/link_atomics.h"

/* Every attribute that the header of this version names has an answer, 0 where the server's driver does not know it:
   the runtimes give up at the first one that has none. */
enum { ATTRIBUTE_FIRST = 1, ATTRIBUTE_LAST = CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED };

CUresult driver_cuDeviceGet(CUdevice *device, int ordinal)
{
    int error = driver_device(ordinal);
    if (error == CUDA_ERROR_NOT_INITIALIZED || (!error && device)) {
        if (!error)
            *device = ordinal;
        return driver_local(error);
    }
    return driver_local(device ? error : CUDA_ERROR_INVALID_VALUE);
}

CUresult driver_cuDeviceGetCount(int *count)
{
    int error = driver_ready();
    if (!error)
        error = count ? core_device_count(count) : CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}

static int check(const void *out, CUdevice device)
{
    int error = driver_ready();
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : driver_device(device);
}

CUresult driver_cuDeviceGetName(char *name, int size, CUdevice device)
{
    int error = check(name, device);
    if (!error && size <= 0)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        snprintf(name, (size_t)size, "%s", core_device(device)->name);
    return driver_local(error);
}

CUresult driver_cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    int error = check(uuid, device);
    if (!error)
        memcpy(uuid->bytes, core_device(device)->uuid, sizeof uuid->bytes);
    return driver_local(error);
}

/* They differ where the device is a MIG instance, which Flyt does not show. */
CUresult driver_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return driver_cuDeviceGetUuid(uuid, device); }

CUresult driver_cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    int error = check(bytes, device);
    if (!error)
        *bytes = core_device(device)->total_memory;
    return driver_local(error);
}

static int get_attribute(int *value, int attribute, CUdevice device)
{
    int error = check(value, device);
    if (error)
        return error;
    if (attribute < ATTRIBUTE_FIRST || attribute > ATTRIBUTE_LAST)
        return CUDA_ERROR_INVALID_VALUE;
    if (core_device_attribute(device, attribute, value))
        *value = 0;
    return CUDA_SUCCESS;
}

CUresult driver_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    return driver_local(get_attribute(value, (int)attribute, device));
}

static int attribute_of(CUdevice device, int attribute)
{
    int value = 0;
    get_attribute(&value, attribute, device);
    return value;
}

CUresult driver_cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    int error = check(major && minor ? major : NULL, device);
    if (!error) {
        *major = attribute_of(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        *minor = attribute_of(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    }
    return driver_local(error);
}

CUresult driver_cuDeviceGetProperties(CUdevprop *out, CUdevice device)
{
    int error = check(out, device);
    if (error)
        return driver_local(error);
    *out = (CUdevprop){
        .maxThreadsPerBlock = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .sharedMemPerBlock = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
        .totalConstantMemory = attribute_of(device, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        .SIMDWidth = attribute_of(device, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
        .memPitch = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        .regsPerBlock = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
        .clockRate = attribute_of(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        .textureAlign = attribute_of(device, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    };
    for (int i = 0; i < 3; i++) {
        out->maxThreadsDim[i] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
        out->maxGridSize[i] = attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
    }
    return driver_local(CUDA_SUCCESS);
}

/* ---- PCI bus ids ---- */

CUresult driver_cuDeviceGetPCIBusId(char *text, int size, CUdevice device)
{
    int error = check(text, device);
    if (!error && (size <= 0 || strlen(core_device(device)->pci_bus_id) >= (size_t)size))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        strcpy(text, core_device(device)->pci_bus_id);
    return driver_local(error);
}

CUresult driver_cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
    int error = driver_ready();
    if (!error)
        error = device && text ? core_device_by_pci_bus_id(text, device) : CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}

/* ---- atomic operations over a link ---- */

static int check_operations(const unsigned *capabilities, const CUatomicOperation *operations, unsigned count)
{
    if (!capabilities || !operations || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if ((int)operations[i] < 0 || operations[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Flyt's hostNativeAtomicSupported is 0: between program and device lies a network, or at best a bus. */
CUresult driver_cuDeviceGetHostAtomicCapabilities(unsigned *capabilities, const CUatomicOperation *operations,
                                                  unsigned count, CUdevice device)
{
    int error = driver_device(device);
    if (!error)
        error = check_operations(capabilities, operations, count);
    for (unsigned i = 0; i < count && !error; i++)
        capabilities[i] = 0;
    return driver_local(error);
}

static int between(unsigned *capabilities, const CUatomicOperation *operations, unsigned count, CUdevice source,
                   CUdevice target)
{
    int native = 0, error = capabilities ? driver_device(source) : CUDA_ERROR_INVALID_VALUE;
    if (error || (error = driver_device(target)))
        return error;
    if (source == target)
        return CUDA_ERROR_INVALID_DEVICE;
    if ((error = check_operations(capabilities, operations, count)) ||
        (error = core_device_get_p2p_attribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, source,
                                               target)))
        return error;
    for (unsigned i = 0; i < count; i++)
        capabilities[i] = native ? link_atomic_capabilities((int)operations[i]) : 0;
    return CUDA_SUCCESS;
}

CUresult driver_cuDeviceGetP2PAtomicCapabilities(unsigned *capabilities, const CUatomicOperation *operations,
                                                 unsigned count, CUdevice source, CUdevice target)
{
    return driver_waited(between(capabilities, operations, count, source, target));
}

CUresult driver_cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    int error = driver_device(device);
    if (!error && (!supported || (int)type < 0 || type >= CU_EXEC_AFFINITY_TYPE_MAX))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *supported = 0;
    return driver_local(error);
}

/* ---- the SMs as a resource: cuSOLVER asks how many it may use. They cannot be split (green contexts) ---- */

/* The smallest part of a device's SMs, and its alignment, are facts of the architecture (CUDA's reference). */
static int resource_of(CUdevResource *resource, CUdevResourceType type, CUdevice device)
{
    if (!resource || type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_VALUE;
    int major = attribute_of(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    unsigned alignment = major >= 9 ? 8 : major >= 7 ? 2 : 1;
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm = (CUdevSmResource){
        .smCount = (unsigned)attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        .minSmPartitionSize = major == 8 ? 4 : alignment,
        .smCoscheduledAlignment = alignment,
    };
    return CUDA_SUCCESS;
}

CUresult driver_cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    int error = driver_device(device);
    return driver_local(error ? error : resource_of(resource, type, device));
}

CUresult driver_cuCtxGetDevResource(CUcontext handle, CUdevResource *resource, CUdevResourceType type)
{
    core_context *context;
    struct core_context_info info;
    int error = driver_context(handle, &context);
    if (!error)
        error = core_context_info(context, &info);
    return driver_local(error ? error : resource_of(resource, type, info.device));
}
