// shows: conformance: functions that programs seldom call, and errors that they seldom see: pools of a location, atomic
//   capabilities, arrays that are asked about, occupancy, streams and captures, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void one(int *out) { *out += 1; }
__global__ void __launch_bounds__(32) small(int *out) { *out += 1; }
static void CUDART_CB nothing(void *) {}

static int *device;
static int host[64];
static cudaStream_t stream;
static const void *const no_kernel = host;

/* ---- devices ---- */

static void devices()
{
    size_t width = 0;
    const cudaChannelFormatDesc bytes = cudaCreateChannelDesc<char>(),
                                odd = cudaCreateChannelDesc(3, 0, 0, 0, cudaChannelFormatKindSigned);
    WORKS(cudaCtxResetPersistingL2Cache(), "usual");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetGraphMemAttribute(99, cudaGraphMemAttrUsedMemCurrent, host),
          "device 99");
    GIVES(cudaErrorInvalidDevice, cudaDeviceSetGraphMemAttribute(99, cudaGraphMemAttrUsedMemHigh, host), "device 99");
    SAYS(cudaDeviceGraphMemTrim(99), "device 99");
    WORKS(cudaDeviceGetTexture1DLinearMaxWidth(&width, &bytes, 0), "bytes");
    VALUE("some", "%d", width > 0);
    SAYS(cudaDeviceGetTexture1DLinearMaxWidth(&width, &odd, 0), "3 bits");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetTexture1DLinearMaxWidth(NULL, &bytes, 0), "null pointer");
    SAYS(cudaDeviceGetTexture1DLinearMaxWidth(&width, &bytes, 99), "device 99");
    int list[] = { 0, 99 };
    SAYS(cudaSetValidDevices(list, 2), "device 99");
    GIVES(cudaErrorInvalidValue, cudaSetValidDevices(NULL, 2), "null list");
    WORKS(cudaSetValidDevices(NULL, 0), "none");
#if RUNTIME >= 13
    unsigned capabilities[2] = { 0, 0 };
    cudaAtomicOperation operations[] = { cudaAtomicOperationIntegerAdd, cudaAtomicOperationCAS };
    WORKS(cudaDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 0), "two");
    VALUE("add", "%u", capabilities[0]);
    VALUE("compare and swap", "%u", capabilities[1]);
    GIVES(cudaErrorInvalidValue, cudaDeviceGetHostAtomicCapabilities(NULL, operations, 2, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaDeviceGetHostAtomicCapabilities(capabilities, NULL, 2, 0), "null operations");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetHostAtomicCapabilities(capabilities, operations, 2, 99), "device 99");
    SAYS(cudaDeviceGetHostAtomicCapabilities(capabilities, operations, 0, 0), "none");
    operations[0] = (cudaAtomicOperation)99;
    SAYS(cudaDeviceGetHostAtomicCapabilities(capabilities, operations, 1, 0), "operation 99");
    SAYS(cudaDeviceGetP2PAtomicCapabilities(capabilities, operations + 1, 1, 0, 0), "the same device");
    GIVES(cudaErrorInvalidDevice, cudaDeviceGetP2PAtomicCapabilities(capabilities, operations + 1, 1, 0, 99),
          "device 99");
    SAYS(cudaDeviceGetP2PAtomicCapabilities(NULL, operations + 1, 1, 0, 0), "null pointer");
#endif
}

/* ---- pools by location ---- */

#if RUNTIME >= 13
static void pools()
{
    cudaMemPool_t pool = NULL, other = NULL, own = NULL;
    cudaMemPoolProps props = {};
    cudaMemLocation here = { cudaMemLocationTypeDevice, { 0 } }, nowhere = { cudaMemLocationTypeDevice, { 99 } };
    const cudaMemAllocationType pinned = cudaMemAllocationTypePinned, none = (cudaMemAllocationType)77;
    WORKS(cudaMemGetDefaultMemPool(&pool, &here, pinned), "usual");
    WORKS(cudaDeviceGetDefaultMemPool(&other, 0), "usual");
    VALUE("the same", "%d", pool == other && pool);
    GIVES(cudaErrorInvalidValue, cudaMemGetDefaultMemPool(NULL, &here, pinned), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMemGetDefaultMemPool(&other, NULL, pinned), "null location");
    SAYS(cudaMemGetDefaultMemPool(&other, &nowhere, pinned), "device 99");
    SAYS(cudaMemGetDefaultMemPool(&other, &here, none), "type 77");
    props.allocType = pinned;
    props.location = here;
    MUST(cudaMemPoolCreate(&own, &props));
    WORKS(cudaMemSetMemPool(&here, pinned, own), "usual");
    WORKS(cudaMemGetMemPool(&other, &here, pinned), "usual");
    VALUE("the same", "%d", other == own);
    GIVES(cudaErrorInvalidValue, cudaMemGetMemPool(NULL, &here, pinned), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaMemGetMemPool(&other, NULL, pinned), "null location");
    GIVES(cudaErrorInvalidValue, cudaMemSetMemPool(NULL, pinned, own), "null location");
    SAYS(cudaMemSetMemPool(&here, pinned, NULL), "null pool");
    SAYS(cudaMemSetMemPool(&nowhere, pinned, own), "device 99");
    WORKS(cudaMemSetMemPool(&here, pinned, pool), "the default one");
    MUST(cudaMemPoolDestroy(own));
}
#endif

static void sharing_of_pools()
{
    cudaMemPool_t pool = NULL, other = NULL;
    cudaMemPoolPtrExportData data;
    void *p, *q;
    int fd = -1;
    MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
    MUST(cudaMallocAsync(&p, 64, stream));
    SAYS(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0), "the default one");
    GIVES(cudaErrorInvalidValue,
          cudaMemPoolExportToShareableHandle(NULL, pool, cudaMemHandleTypePosixFileDescriptor, 0), "null pointer");
    SAYS(cudaMemPoolExportToShareableHandle(&fd, NULL, cudaMemHandleTypePosixFileDescriptor, 0), "null pool");
    GIVES(cudaErrorInvalidValue,
          cudaMemPoolImportFromShareableHandle(NULL, NULL, cudaMemHandleTypePosixFileDescriptor, 0), "null pointer");
    SAYS(cudaMemPoolImportFromShareableHandle(&other, (void *)(intptr_t)9999, cudaMemHandleTypePosixFileDescriptor, 0),
         "no descriptor");
    SAYS(cudaMemPoolExportPointer(&data, p), "of a pool that is not shared");
    GIVES(cudaErrorInvalidValue, cudaMemPoolExportPointer(NULL, p), "null pointer");
    SAYS(cudaMemPoolExportPointer(&data, host), "of the host");
    memset(&data, 0, sizeof data);
    SAYS(cudaMemPoolImportPointer(&q, pool, &data), "of a pool that is not shared");
    GIVES(cudaErrorInvalidValue, cudaMemPoolImportPointer(&q, pool, NULL), "null data");
    MUST(cudaFreeAsync(p, stream));
    MUST(cudaStreamSynchronize(stream));
}

static void sharing_between_processes()
{
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t handle;
    cudaEvent_t plain, opened;
    void *p;
    memset(&memory, 0, sizeof memory);
    memset(&handle, 0, sizeof handle);
    MUST(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    SAYS(cudaIpcGetMemHandle(&memory, NULL), "null memory");
    SAYS(cudaIpcGetMemHandle(&memory, host), "of the host");
    GIVES(cudaErrorInvalidValue, cudaIpcOpenMemHandle(NULL, memory, cudaIpcMemLazyEnablePeerAccess), "null pointer");
    SAYS(cudaIpcOpenMemHandle(&p, memory, 0), "no flags");
    SAYS(cudaIpcOpenMemHandle(&p, memory, cudaIpcMemLazyEnablePeerAccess), "zeros");
    GIVES(cudaErrorInvalidValue, cudaIpcCloseMemHandle(NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaIpcCloseMemHandle(device), "not opened");
    SAYS(cudaIpcGetEventHandle(&handle, plain), "of one process");
    SAYS(cudaIpcGetEventHandle(NULL, plain), "null pointer");
    SAYS(cudaIpcGetEventHandle(&handle, WRONG(cudaEvent_t)), "no event");
    SAYS(cudaIpcOpenEventHandle(&opened, handle), "zeros");
    MUST(cudaEventDestroy(plain));
}

/* ---- arrays ---- */

static void arrays()
{
    cudaArray_t array, plane;
    cudaMipmappedArray_t mipmap;
    cudaChannelFormatDesc words = cudaCreateChannelDesc<int>(), got;
    cudaExtent extent;
    unsigned flags;
    cudaArraySparseProperties sparse;
    cudaArrayMemoryRequirements needs;
    const cudaArray_t no_array = WRONG(cudaArray_t);
    MUST(cudaMallocArray(&array, &words, 16, 16));
    MUST(cudaMallocMipmappedArray(&mipmap, &words, make_cudaExtent(16, 16, 0), 3));
    WORKS(cudaArrayGetInfo(&got, &extent, &flags, array), "usual");
    VALUE("width", "%zu", extent.width);
    SAYS(cudaArrayGetInfo(&got, &extent, &flags, NULL), "null array");
    SAYS(cudaArrayGetInfo(&got, &extent, &flags, no_array), "no array");
    SAYS(cudaArrayGetPlane(&plane, array, 0), "no planes");
    SAYS(cudaArrayGetPlane(&plane, no_array, 0), "no array");
    SAYS(cudaArrayGetSparseProperties(&sparse, array), "not sparse");
    SAYS(cudaMipmappedArrayGetSparseProperties(&sparse, mipmap), "not sparse");
    SAYS(cudaArrayGetMemoryRequirements(&needs, array, 0), "not deferred");
    SAYS(cudaMipmappedArrayGetMemoryRequirements(&needs, mipmap, 0), "not deferred");
    WORKS(cudaFreeArray(NULL), "null array");
    SAYS(cudaFreeArray(no_array), "no array");
    WORKS(cudaFreeMipmappedArray(NULL), "null array");
    SAYS(cudaFreeMipmappedArray(WRONG(cudaMipmappedArray_t)), "no array");
    MUST(cudaFreeArray(array));
    SAYS(cudaFreeArray(array), "twice");
    MUST(cudaFreeMipmappedArray(mipmap));
    SAYS(cudaMallocArray(&array, &words, 1 << 30, 1 << 20), "too large");
    SAYS(cudaMalloc3DArray(&array, &words, make_cudaExtent(1 << 20, 1 << 20, 1 << 20)), "too large");
    WORKS(cudaMallocArray(&array, &words, 32768, 16), "wide");
    MUST(cudaFreeArray(array));
}

/* ---- kernels ---- */

static void kernels()
{
    int blocks = 0;
    size_t bytes = 0;
    SAYS(cudaFuncSetAttribute(no_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 0),
          "no kernel");
    SAYS(cudaFuncSetCacheConfig(no_kernel, cudaFuncCachePreferL1), "no kernel");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, no_kernel, 32,
                                                                                                 0, 0), "no kernel");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, no_kernel, 32, 0),
          "no kernel");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, no_kernel, 1, 32),
          "no kernel");
    void *arguments[] = { &device };
    SAYS(cudaLaunchKernel((const void *)small, 1, 64, arguments, 0, stream), "more threads than its bounds");
    SAYS(cudaLaunchCooperativeKernel((const void *)small, 1, 64, arguments, 0, stream), "more threads than its bounds");
    SAYS(cudaLaunchKernel((const void *)one, 1, 32, arguments, 1 << 20, stream), "too much shared memory");
#if RUNTIME >= 12
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute attribute = {};
    const char *name = NULL;
    config.gridDim = 64;
    config.blockDim = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = 64;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    SAYS(cudaOccupancyMaxActiveClusters(&blocks, (const void *)one, &config), "clusters of 64");
    SAYS(cudaOccupancyMaxActiveClusters(&blocks, no_kernel, &config), "no kernel");
    SAYS(cudaOccupancyMaxPotentialClusterSize(&blocks, no_kernel, &config), "no kernel");
#if RUNTIME >= 13
    SAYS(cudaFuncGetName(&name, no_kernel), "no kernel");
#endif
    (void)name;
#endif
    WORKS(cudaStreamSynchronize(stream), "all");
}

/* ---- streams ---- */

static void end_elsewhere()
{
    cudaGraph_t graph;
    GIVES(cudaErrorStreamCaptureWrongThread, cudaStreamEndCapture(stream, &graph), "another thread's capture");
}

static void streams()
{
    const cudaStream_t no_stream = WRONG(cudaStream_t);
    int priority;
    cudaGraph_t graph;
    cudaStreamCaptureStatus status;
    SAYS(cudaStreamGetPriority(no_stream, &priority), "no stream");
    GIVES(cudaErrorInvalidValue, cudaStreamCreateWithPriority(NULL, 0, 0), "null pointer");
    cudaStream_t other;
    WORKS(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0), "usual");
    MUST(cudaStreamDestroy(other));
#if RUNTIME >= 12
    unsigned long long id;
    SAYS(cudaStreamGetId(no_stream, &id), "no stream");
#endif
#if RUNTIME >= 13
    int on = -1;
    SAYS(cudaStreamGetDevice(no_stream, &on), "no stream");
#endif
    cudaEvent_t event;
    MUST(cudaEventCreate(&event));
    SAYS(cudaEventRecordWithFlags(event, no_stream, 0), "no stream");
    SAYS(cudaEventRecordWithFlags(WRONG(cudaEvent_t), stream, 0), "no event");
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    in_thread(end_elsewhere);
    SAYS(cudaStreamIsCapturing(0, &status), "the legacy stream, beside a capture");
    WORKS(cudaLaunchHostFunc(stream, nothing, NULL), "captured");
    GIVES(cudaErrorInvalidValue, cudaStreamEndCapture(stream, NULL), "null pointer");
    SAYS(cudaStreamEndCapture(stream, &graph), "behind the null pointer");
    SAYS(cudaStreamEndCapture(stream, &graph), "no capture");
}

int main()
{
    MUST(cudaMalloc((void **)&device, 64));
    MUST(cudaMemset(device, 0, 64));
    MUST(cudaStreamCreate(&stream));
    devices();
#if RUNTIME >= 13
    pools();
#endif
    sharing_of_pools();
    sharing_between_processes();
    arrays();
    kernels();
    streams();
    WORKS(cudaDeviceSynchronize(), "all");
    return 0;
}
