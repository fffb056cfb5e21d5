/*
 * abi.h: the binary interface of the CUDA Runtime, as far as this library uses it, in words of our own.
 *
 * These sources are compiled once per major version, with FLYT_CUDART = 11, 12 or 13; no NVIDIA header is
 * read, so that one build makes all three whatever toolkit is at hand. tests/runtime/abi.c compares every
 * structure with the toolkit's header.
 *
 * Handles are what programs hold as opaque pointers: a stream or event is the core's token, a kernel is the
 * host address under which it was registered.
 */
#ifndef FLYT_RUNTIME_ABI_H
#define FLYT_RUNTIME_ABI_H

#include <stddef.h>
#include <stdint.h>

#if !defined(FLYT_CUDART) || FLYT_CUDART < 11 || FLYT_CUDART > 13
#error "compile with -DFLYT_CUDART=11, 12 or 13"
#endif

#define RUNTIME_API __attribute__((visibility("default")))

/* cudaError_t; the values that this library gives by itself. */
enum {
    CUDART_OK = 0, CUDART_INVALID_VALUE = 1, CUDART_OUT_OF_MEMORY = 2, CUDART_INITIALIZATION = 3,
    CUDART_INVALID_CONFIGURATION = 9, CUDART_INVALID_PITCH = 12, CUDART_INVALID_SYMBOL = 13,
    CUDART_INVALID_DIRECTION = 21, CUDART_MISSING_CONFIGURATION = 52, CUDART_INVALID_FUNCTION = 98,
    CUDART_NO_DEVICE = 100, CUDART_INVALID_DEVICE = 101, CUDART_PEER_UNSUPPORTED = 217,
    CUDART_FILE_NOT_FOUND = 301, CUDART_INVALID_HANDLE = 400, CUDART_NOT_FOUND = 500, CUDART_NOT_READY = 600,
    CUDART_PEER_NOT_ENABLED = 705, CUDART_ACTIVE_PROCESS = 708, CUDART_NOT_PERMITTED = 800, CUDART_NOT_SUPPORTED = 801
};

enum cudart_copy_kind {
    CUDART_HOST_TO_HOST = 0, CUDART_HOST_TO_DEVICE = 1, CUDART_DEVICE_TO_HOST = 2,
    CUDART_DEVICE_TO_DEVICE = 3, CUDART_COPY_DEFAULT = 4
};

enum cudart_memory_type { CUDART_MEMORY_UNREGISTERED = 0, CUDART_MEMORY_HOST = 1, CUDART_MEMORY_DEVICE = 2 };

/* cudaDeviceAttr and CUdevice_attribute agree. Those that code names: */
enum cudart_attribute {
    CUDART_ATTRIBUTE_THREADS_PER_BLOCK = 1, CUDART_ATTRIBUTE_BLOCK_X = 2, CUDART_ATTRIBUTE_GRID_X = 5,
    CUDART_ATTRIBUTE_MAX_PITCH = 11, CUDART_ATTRIBUTE_MAJOR = 75, CUDART_ATTRIBUTE_MINOR = 76,
    CUDART_ATTRIBUTE_MANAGED = 83, CUDART_ATTRIBUTE_PAGEABLE_ACCESS = 88, CUDART_ATTRIBUTE_CONCURRENT_MANAGED = 89,
    CUDART_ATTRIBUTE_MULTI_DEVICE_LAUNCH = 96, CUDART_ATTRIBUTE_FLUSH_REMOTE = 98, CUDART_ATTRIBUTE_HOST_PAGE_TABLES = 100,
    CUDART_ATTRIBUTE_DIRECT_MANAGED = 101, CUDART_ATTRIBUTE_SPARSE_ARRAYS = 112, CUDART_ATTRIBUTE_TIMELINE_SEMAPHORES = 114,
    CUDART_ATTRIBUTE_MEMORY_POOLS = 115, CUDART_ATTRIBUTE_GPUDIRECT = 116, CUDART_ATTRIBUTE_POOL_HANDLES = 119, CUDART_ATTRIBUTE_DEFERRED_ARRAYS = 121,
    CUDART_ATTRIBUTE_IPC_EVENTS = 125, CUDART_ATTRIBUTE_UNIFIED_FUNCTIONS = 129,
    CUDART_ATTRIBUTE_HOST_NUMA_POOLS = 142, CUDART_ATTRIBUTE_HOST_POOLS = 144
};

struct cudart_dim3 { uint32_t x, y, z; };
struct cudart_extent { size_t width, height, depth; };
struct cudart_position { size_t x, y, z; };
struct cudart_pitched { void *pointer; size_t pitch, xsize, ysize; };

struct cudart_copy_3d {
    void *source_array; struct cudart_position source_position; struct cudart_pitched source;
    void *target_array; struct cudart_position target_position; struct cudart_pitched target;
    struct cudart_extent extent;
    int kind;
};

struct cudart_copy_3d_peer {
    void *source_array; struct cudart_position source_position; struct cudart_pitched source; int source_device;
    void *target_array; struct cudart_position target_position; struct cudart_pitched target; int target_device;
    struct cudart_extent extent;
};

struct cudart_channel { int x, y, z, w, kind; };

struct cudart_pointer_attributes {
    int type, device;
    void *device_pointer, *host_pointer;
#if FLYT_CUDART >= 13
    long reserved[8];
#endif
};

struct cudart_function_attributes {
    size_t shared, constant, local;
    int max_threads, registers, ptx_version, binary_version, cache_mode_ca, max_dynamic_shared, preferred_carveout;
#if FLYT_CUDART >= 12
    int cluster_must_be_set, cluster_width, cluster_height, cluster_depth, cluster_scheduling, non_portable_cluster;
    int reserved[16];
#endif
};

struct cudart_launch_attribute { int id; char pad[4]; uint8_t value[64] __attribute__((aligned(8))); };
struct cudart_launch_config {
    struct cudart_dim3 grid, block;
    size_t shared;
    uint64_t stream;
    const struct cudart_launch_attribute *attributes;
    unsigned attribute_count;
};

/* cudaDeviceProp, under NVIDIA's names for its members. CUDA 12 appended to 11's; 13 removed what had become attributes only. */
struct cudart_properties {
    char name[256];
    uint8_t uuid[16];
    char luid[8];
    unsigned luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
#if FLYT_CUDART <= 12
    int clockRate;
#endif
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
#if FLYT_CUDART <= 12
    int deviceOverlap;
#endif
    int multiProcessorCount;
#if FLYT_CUDART <= 12
    int kernelExecTimeoutEnabled;
#endif
    int integrated, canMapHostMemory;
#if FLYT_CUDART <= 12
    int computeMode;
#endif
    int maxTexture1D, maxTexture1DMipmap;
#if FLYT_CUDART <= 12
    int maxTexture1DLinear;
#endif
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
    int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing;
#if FLYT_CUDART <= 12
    int memoryClockRate;
#endif
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;
#if FLYT_CUDART <= 12
    int singleToDoublePrecisionPerfRatio;
#endif
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem, cooperativeLaunch;
#if FLYT_CUDART <= 12
    int cooperativeMultiDeviceLaunch;
#endif
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
#if FLYT_CUDART >= 12
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported, timelineSemaphoreInteropSupported;
    int memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;
#endif
#if FLYT_CUDART == 12
    int reserved[63];
#elif FLYT_CUDART == 13
    int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
    unsigned gpuPciDeviceID, gpuPciSubsystemID;
    int hostNumaMultinodeIpcSupported;
    int reserved[56];
#endif
};

/* What a program of 11 expects of cudaGetDeviceProperties, also from CUDA 12's entry without a version. */
#define CUDART_PROPERTIES_11_SIZE 728

#endif
