/*
 * properties.c: cudaGetDeviceProperties in the layout of each version, and cudaChooseDevice. Every member that has an
 * attribute of its own is that attribute. What the core says of a device never changes while the process lives, so the
 * structure is put together once per device and then copied.
 */
#include "cpu/client/runtime/runtime.h"

#include <string.h>

/* Member, index within it, attribute (numbers as in cudaDeviceAttr). */
static const struct property { uint16_t offset; uint8_t size, attribute; } property_table[] = {
#define ELEMENT(member, index, attribute) \
    {offsetof(struct cudart_properties, member) + (index) * sizeof(int), sizeof(int), attribute}
#define MEMBER(member, attribute) \
    {offsetof(struct cudart_properties, member), sizeof ((struct cudart_properties *)0)->member, attribute}
    MEMBER(sharedMemPerBlock, 8), MEMBER(regsPerBlock, 12), MEMBER(warpSize, 10), MEMBER(memPitch, 11), MEMBER(maxThreadsPerBlock, 1),
    ELEMENT(maxThreadsDim, 0, 2), ELEMENT(maxThreadsDim, 1, 3), ELEMENT(maxThreadsDim, 2, 4),
    ELEMENT(maxGridSize, 0, 5), ELEMENT(maxGridSize, 1, 6), ELEMENT(maxGridSize, 2, 7),
    MEMBER(totalConstMem, 9), MEMBER(major, CUDART_ATTRIBUTE_MAJOR), MEMBER(minor, CUDART_ATTRIBUTE_MINOR),
    MEMBER(textureAlignment, 14), MEMBER(texturePitchAlignment, 51), MEMBER(multiProcessorCount, 16), MEMBER(integrated, 18), MEMBER(canMapHostMemory, 19),
    MEMBER(maxTexture1D, 21), MEMBER(maxTexture1DMipmap, 77), ELEMENT(maxTexture2D, 0, 22), ELEMENT(maxTexture2D, 1, 23),
    ELEMENT(maxTexture2DMipmap, 0, 73), ELEMENT(maxTexture2DMipmap, 1, 74),
    ELEMENT(maxTexture2DLinear, 0, 70), ELEMENT(maxTexture2DLinear, 1, 71), ELEMENT(maxTexture2DLinear, 2, 72),
    ELEMENT(maxTexture2DGather, 0, 45), ELEMENT(maxTexture2DGather, 1, 46),
    ELEMENT(maxTexture3D, 0, 24), ELEMENT(maxTexture3D, 1, 25), ELEMENT(maxTexture3D, 2, 26),
    ELEMENT(maxTexture3DAlt, 0, 47), ELEMENT(maxTexture3DAlt, 1, 48), ELEMENT(maxTexture3DAlt, 2, 49), MEMBER(maxTextureCubemap, 52),
    ELEMENT(maxTexture1DLayered, 0, 42), ELEMENT(maxTexture1DLayered, 1, 43),
    ELEMENT(maxTexture2DLayered, 0, 27), ELEMENT(maxTexture2DLayered, 1, 28), ELEMENT(maxTexture2DLayered, 2, 29),
    ELEMENT(maxTextureCubemapLayered, 0, 53), ELEMENT(maxTextureCubemapLayered, 1, 54),
    MEMBER(maxSurface1D, 55), ELEMENT(maxSurface2D, 0, 56), ELEMENT(maxSurface2D, 1, 57),
    ELEMENT(maxSurface3D, 0, 58), ELEMENT(maxSurface3D, 1, 59), ELEMENT(maxSurface3D, 2, 60),
    ELEMENT(maxSurface1DLayered, 0, 61), ELEMENT(maxSurface1DLayered, 1, 62),
    ELEMENT(maxSurface2DLayered, 0, 63), ELEMENT(maxSurface2DLayered, 1, 64), ELEMENT(maxSurface2DLayered, 2, 65),
    MEMBER(maxSurfaceCubemap, 66), ELEMENT(maxSurfaceCubemapLayered, 0, 67), ELEMENT(maxSurfaceCubemapLayered, 1, 68), MEMBER(surfaceAlignment, 30),
    MEMBER(concurrentKernels, 31), MEMBER(ECCEnabled, 32), MEMBER(pciBusID, 33), MEMBER(pciDeviceID, 34), MEMBER(pciDomainID, 50),
    MEMBER(tccDriver, 35), MEMBER(asyncEngineCount, 40), MEMBER(unifiedAddressing, 41), MEMBER(memoryBusWidth, 37), MEMBER(l2CacheSize, 38),
    MEMBER(persistingL2CacheMaxSize, 108), MEMBER(maxThreadsPerMultiProcessor, 39), MEMBER(streamPrioritiesSupported, 78),
    MEMBER(globalL1CacheSupported, 79), MEMBER(localL1CacheSupported, 80), MEMBER(sharedMemPerMultiprocessor, 81), MEMBER(regsPerMultiprocessor, 82),
    MEMBER(managedMemory, CUDART_ATTRIBUTE_MANAGED), MEMBER(isMultiGpuBoard, 84), MEMBER(multiGpuBoardGroupID, 85), MEMBER(hostNativeAtomicSupported, 86),
    MEMBER(pageableMemoryAccess, CUDART_ATTRIBUTE_PAGEABLE_ACCESS), MEMBER(concurrentManagedAccess, CUDART_ATTRIBUTE_CONCURRENT_MANAGED),
    MEMBER(computePreemptionSupported, 90), MEMBER(canUseHostPointerForRegisteredMem, 91), MEMBER(cooperativeLaunch, 95), MEMBER(sharedMemPerBlockOptin, 97),
    MEMBER(pageableMemoryAccessUsesHostPageTables, CUDART_ATTRIBUTE_HOST_PAGE_TABLES), MEMBER(directManagedMemAccessFromHost, CUDART_ATTRIBUTE_DIRECT_MANAGED),
    MEMBER(maxBlocksPerMultiProcessor, 106), MEMBER(accessPolicyMaxWindowSize, 109), MEMBER(reservedSharedMemPerBlock, 111),
#if FLYT_CUDART <= 12
    MEMBER(clockRate, 13), MEMBER(deviceOverlap, 15), MEMBER(kernelExecTimeoutEnabled, 17), MEMBER(computeMode, 20), MEMBER(maxTexture1DLinear, 69),
    MEMBER(memoryClockRate, 36), MEMBER(singleToDoublePrecisionPerfRatio, 87), MEMBER(cooperativeMultiDeviceLaunch, CUDART_ATTRIBUTE_MULTI_DEVICE_LAUNCH),
#endif
#if FLYT_CUDART >= 12
    MEMBER(hostRegisterSupported, 99), MEMBER(sparseCudaArraySupported, CUDART_ATTRIBUTE_SPARSE_ARRAYS), MEMBER(hostRegisterReadOnlySupported, 113),
    MEMBER(timelineSemaphoreInteropSupported, CUDART_ATTRIBUTE_TIMELINE_SEMAPHORES), MEMBER(memoryPoolsSupported, CUDART_ATTRIBUTE_MEMORY_POOLS),
    MEMBER(gpuDirectRDMASupported, CUDART_ATTRIBUTE_GPUDIRECT), MEMBER(gpuDirectRDMAFlushWritesOptions, 117), MEMBER(gpuDirectRDMAWritesOrdering, 118),
    MEMBER(memoryPoolSupportedHandleTypes, CUDART_ATTRIBUTE_POOL_HANDLES), MEMBER(deferredMappingCudaArraySupported, CUDART_ATTRIBUTE_DEFERRED_ARRAYS),
    MEMBER(ipcEventSupported, CUDART_ATTRIBUTE_IPC_EVENTS), MEMBER(clusterLaunch, 120), MEMBER(unifiedFunctionPointers, CUDART_ATTRIBUTE_UNIFIED_FUNCTIONS),
#endif
#if FLYT_CUDART >= 13
    MEMBER(deviceNumaConfig, 130), MEMBER(deviceNumaId, 131), MEMBER(mpsEnabled, 133), MEMBER(hostNumaId, 134), MEMBER(gpuPciDeviceID, 139),
    MEMBER(gpuPciSubsystemID, 140), MEMBER(hostNumaMultinodeIpcSupported, 143),
#endif
};

static int fill_properties(int ordinal, struct cudart_properties *properties) {
    const struct core_device *device = core_device(ordinal);
    if (!device)
        return CUDART_INVALID_DEVICE;
    memset(properties, 0, sizeof *properties);
    strncpy(properties->name, device->name, sizeof properties->name - 1);
    memcpy(properties->uuid, device->uuid, sizeof properties->uuid);
    properties->totalGlobalMem = (size_t)device->total_memory;
    for (size_t i = 0; i < sizeof property_table / sizeof property_table[0]; i++) {
        const struct property *row = &property_table[i];
        int value;
        if (runtime_attribute(ordinal, row->attribute, &value))
            value = 0;                          /* newer than the server's driver */
        char *member = (char *)properties + row->offset;
        size_t wide = (size_t)value;
        if (row->size == sizeof wide)
            memcpy(member, &wide, sizeof wide);
        else
            memcpy(member, &value, sizeof value);
    }
    return CUDART_OK;
}

static struct kept { atomic_bool known; struct cudart_properties properties; } kept_properties[RUNTIME_MAX_DEVICES];

/* Makes a table of the device's own, or NULL: *space has been filled instead. Two threads may come here at once: both
   would write the same values, so the table is written only by the one that wins the flag `filling`. */
static const struct cudart_properties *keep_properties(int device, struct cudart_properties *space, int *error) {
    static atomic_flag filling[RUNTIME_MAX_DEVICES];
    *error = fill_properties(device, space);
    if (*error || device >= RUNTIME_MAX_DEVICES || atomic_flag_test_and_set(&filling[device]))
        return NULL;
    struct kept *kept = &kept_properties[device];
    kept->properties = *space;
    atomic_store_explicit(&kept->known, true, memory_order_release);
    return &kept->properties;
}

/* size: how much of the structure the caller's layout has. */
static int get_properties(void *out, int device, size_t size) {
    struct cudart_properties space;
    const struct cudart_properties *properties = NULL;
    int error = runtime_attach_device(device);
    if (!error && !out)
        error = CUDART_INVALID_VALUE;
    if (error)
        return error;
    if (LIKELY(device < RUNTIME_MAX_DEVICES && atomic_load_explicit(&kept_properties[device].known, memory_order_acquire)))
        properties = &kept_properties[device].properties;
    else
        properties = keep_properties(device, &space, &error);
    if (!error)
        memcpy(out, properties ? properties : &space, size);
    return error;
}

#if FLYT_CUDART == 12
/* CUDA 12 added members and a second entry for them; the first keeps 11's size, which is a prefix. */
RUNTIME_API int cudaGetDeviceProperties(void *out, int device) { return runtime_local(get_properties(out, device, CUDART_PROPERTIES_11_SIZE)); }
RUNTIME_API int cudaGetDeviceProperties_v2(void *out, int device) { return runtime_local(get_properties(out, device, sizeof(struct cudart_properties))); }
#else
RUNTIME_API int cudaGetDeviceProperties(void *out, int device) { return runtime_local(get_properties(out, device, sizeof(struct cudart_properties))); }
#endif

/* How much of what was asked for a device has; members that are zero in the request ask for nothing. Only members
   of 11's layout are read, because CUDA 12 has one entry for both sizes. */
static int score(const struct cudart_properties *wanted, const struct cudart_properties *has) {
    int points = 0;
    if (wanted->major)
        points += (has->major > wanted->major || (has->major == wanted->major && has->minor >= wanted->minor)) * 8;
    points += (wanted->name[0] && strncmp(wanted->name, has->name, sizeof has->name) == 0) * 4;
    points += wanted->totalGlobalMem && has->totalGlobalMem >= wanted->totalGlobalMem;
    points += wanted->multiProcessorCount && has->multiProcessorCount >= wanted->multiProcessorCount;
    points += wanted->sharedMemPerBlock && has->sharedMemPerBlock >= wanted->sharedMemPerBlock;
    points += wanted->regsPerBlock && has->regsPerBlock >= wanted->regsPerBlock;
    points += wanted->maxThreadsPerBlock && has->maxThreadsPerBlock >= wanted->maxThreadsPerBlock;
    return points;
}

static int choose_device(int *device, const struct cudart_properties *wanted) {
    int count, best = -1;
    struct cudart_properties has;
    int error = runtime_attach(&count);
    if (!error && (!device || !wanted))
        error = CUDART_INVALID_VALUE;
    for (int i = 0; !error && i < count; i++) {
        error = get_properties(&has, i, sizeof has);
        if (!error && score(wanted, &has) > best) {
            best = score(wanted, &has);
            *device = i;
        }
    }
    return error;
}

RUNTIME_API int cudaChooseDevice(int *device, const struct cudart_properties *wanted) { return runtime_local(choose_device(device, wanted)); }
