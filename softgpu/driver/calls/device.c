/* device.c: what is asked about devices; calls that need no context. CUDA reference: Device Management. */
#include "softgpu/driver/calls/calls.h"

#include <stdio.h>
#include <string.h>

/* As NVIDIA's: the version of the API that this library offers; works before cuInit. */
CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static CUresult enter_device(int ordinal, const void *out, struct sgd_device **d)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    *d = sgd_device(ordinal);
    r = !*d ? CUDA_ERROR_INVALID_DEVICE : !out ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (r)
        sgd_leave();
    return r;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    struct sgd_device *d;
    CUresult r = enter_device(ordinal, device, &d);
    if (r)
        return r;
    *device = ordinal;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (count)
        *count = (int)sgd_config.devices;
    sgd_leave();
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, name, &d);
    if (r)
        return r;
    if (size > 0)
        snprintf(name, (size_t)size, "Flyt software GPU");
    sgd_leave();
    return size > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A device of this ordinal has this UUID in every process of every machine. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    static const unsigned char base[16] = { 0xf1, 0x7a, 0x50, 0xf7, 0x69, 0x70, 0x40, 0x75,
                                            0x80, 0x00, 'F', 'l', 'y', 't', 0, 0 };
    struct sgd_device *d;
    CUresult r = enter_device(device, uuid, &d);
    if (r)
        return r;
    memcpy(uuid->bytes, base, sizeof base);
    uuid->bytes[15] = (char)d->ordinal;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, bytes, &d);
    if (r)
        return r;
    *bytes = sgd_device_total(d);
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, value, &d);
    if (r)
        return r;
    bool known = attribute >= 1 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
    if (known)
        *value = sgd_attribute(d, (int)attribute);
    sgd_leave();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, major && minor ? major : NULL, &d);
    if (r)
        return r;
    *major = (int)d->limits.cc_major;
    *minor = (int)d->limits.cc_minor;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *p, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, p, &d);
    if (r)
        return r;
    const struct sg_limits *l = &d->limits;
    *p = (CUdevprop){
        .maxThreadsPerBlock = (int)l->max_threads_per_block,
        .maxThreadsDim = { (int)l->max_block[0], (int)l->max_block[1], (int)l->max_block[2] },
        .maxGridSize = { (int)l->max_grid[0], (int)l->max_grid[1], (int)l->max_grid[2] },
        .sharedMemPerBlock = (int)l->shared_per_block,
        .totalConstantMemory = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        .SIMDWidth = (int)l->warp_size,
        .memPitch = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        .regsPerBlock = (int)l->regs_per_block,
        .clockRate = (int)l->clock_khz,
        .textureAlign = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    };
    sgd_leave();
    return CUDA_SUCCESS;
}

/* "0000:01:00.0": the devices sit on buses 1, 2 … */
CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, id, &d);
    if (r)
        return r;
    int need = size > 0 ? snprintf(id, (size_t)size, "%04X:%02X:%02X.0", 0, (unsigned)d->ordinal + 1, 0) : 1;
    sgd_leave();
    return need < size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    bool read = id && (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4
                       || (domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function) == 3)
                       || (function = 0, sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3));
    r = !device || !id ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (!r && (!read || domain || slot || function || !bus || !sgd_device((int)bus - 1)))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        *device = (int)bus - 1;
    sgd_leave();
    return r;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, can, &d);
    if (r)
        return r;
    if (sgd_device(peer))
        *can = peer != device;
    else
        r = CUDA_ERROR_INVALID_DEVICE;
    sgd_leave();
    return r;
}

/* Newer than the oldest header that this is built with. */
enum { ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5 };

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    struct sgd_device *d;
    CUresult r = enter_device(from, value, &d);
    if (r)
        return r;
    if (!sgd_device(to) || from == to)
        r = CUDA_ERROR_INVALID_DEVICE;
    else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
        *value = 0;
    else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
        *value = 1;
    else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED ||
             (int)attribute == ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED)
        *value = 0;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, supported, &d);
    if (r)
        return r;
    if (type == CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        *supported = 1;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}
