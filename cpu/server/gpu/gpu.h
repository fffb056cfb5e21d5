/*
 * gpu.h: the CUDA driver functions that the server uses, as a table.
 *
 * The table is filled from libcuda.so.1 (nvidia) or libsoftgpu.so (software) with dlopen, or with the null
 * device's functions (null.c). Nothing above knows which. A field is the function's name without "cu"; the
 * symbol is the one that the driver exports for that signature, with its version suffix, so that the meaning of
 * a field does not depend on the cuda.h this is built with (11.8 to 13).
 *
 * There is one driver per process: gpu_open may be called again and gives the same table.
 * Follows: CUDA Driver API reference.
 */
#ifndef FLYT_SERVER_GPU_H
#define FLYT_SERVER_GPU_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* X(field, symbol, arguments): without these the driver cannot be used. */
#define GPU_REQUIRED(X) \
    X(Init, "cuInit", (unsigned int flags)) \
    X(DriverGetVersion, "cuDriverGetVersion", (int *version)) \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count)) \
    X(DeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal)) \
    X(DeviceGetName, "cuDeviceGetName", (char *name, int size, CUdevice device)) \
    X(DeviceGetUuid, "cuDeviceGetUuid", (CUuuid *uuid, CUdevice device)) \
    X(DeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device)) \
    X(DeviceGetAttribute, "cuDeviceGetAttribute", (int *value, CUdevice_attribute name, CUdevice device)) \
    X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *id, int size, CUdevice device)) \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *context, CUdevice device)) \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device)) \
    X(DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2", (CUdevice device)) \
    X(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext context)) \
    X(CtxSynchronize, "cuCtxSynchronize", (void)) \
    X(CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int *least, int *greatest)) \
    X(CtxGetLimit, "cuCtxGetLimit", (size_t *value, CUlimit limit)) \
    X(CtxSetLimit, "cuCtxSetLimit", (CUlimit limit, size_t value)) \
    X(MemGetInfo, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *total)) \
    X(MemGetAllocationGranularity, "cuMemGetAllocationGranularity", (size_t *bytes, const CUmemAllocationProp *properties, CUmemAllocationGranularity_flags option)) \
    X(MemAddressReserve, "cuMemAddressReserve", (CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
    X(MemAddressFree, "cuMemAddressFree", (CUdeviceptr address, size_t size)) \
    X(MemCreate, "cuMemCreate", (CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *properties, unsigned long long flags)) \
    X(MemRelease, "cuMemRelease", (CUmemGenericAllocationHandle handle)) \
    X(MemMap, "cuMemMap", (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
    X(MemUnmap, "cuMemUnmap", (CUdeviceptr address, size_t size)) \
    X(MemSetAccess, "cuMemSetAccess", (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count)) \
    X(MemHostAlloc, "cuMemHostAlloc", (void **memory, size_t size, unsigned int flags)) \
    X(MemFreeHost, "cuMemFreeHost", (void *memory)) \
    X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr *address, void *memory, unsigned int flags)) \
    X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t size, CUstream stream)) \
    X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t size, CUstream stream)) \
    X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)) \
    X(Memcpy3DAsync, "cuMemcpy3DAsync_v2", (const CUDA_MEMCPY3D *copy, CUstream stream)) \
    X(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr to, unsigned char value, size_t count, CUstream stream)) \
    X(MemsetD16Async, "cuMemsetD16Async", (CUdeviceptr to, unsigned short value, size_t count, CUstream stream)) \
    X(MemsetD32Async, "cuMemsetD32Async", (CUdeviceptr to, unsigned int value, size_t count, CUstream stream)) \
    X(MemsetD2D8Async, "cuMemsetD2D8Async", (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream)) \
    X(MemsetD2D16Async, "cuMemsetD2D16Async", (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream)) \
    X(MemsetD2D32Async, "cuMemsetD2D32Async", (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream)) \
    X(StreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream *stream, unsigned int flags, int priority)) \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
    X(StreamQuery, "cuStreamQuery", (CUstream stream)) \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream)) \
    X(StreamWaitEvent, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned int flags)) \
    X(LaunchHostFunc, "cuLaunchHostFunc", (CUstream stream, CUhostFn function, void *user)) \
    X(EventCreate, "cuEventCreate", (CUevent *event, unsigned int flags)) \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event)) \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream)) \
    X(EventQuery, "cuEventQuery", (CUevent event)) \
    X(EventSynchronize, "cuEventSynchronize", (CUevent event)) \
    X(EventElapsedTime, "cuEventElapsedTime", (float *milliseconds, CUevent start, CUevent end)) \
    X(ModuleLoadDataEx, "cuModuleLoadDataEx", (CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values)) \
    X(ModuleUnload, "cuModuleUnload", (CUmodule module)) \
    X(ModuleGetFunction, "cuModuleGetFunction", (CUfunction *function, CUmodule module, const char *name)) \
    X(ModuleGetGlobal, "cuModuleGetGlobal_v2", (CUdeviceptr *address, size_t *size, CUmodule module, const char *name)) \
    X(FuncGetAttribute, "cuFuncGetAttribute", (int *value, CUfunction_attribute name, CUfunction function)) \
    X(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction function, CUfunction_attribute name, int value)) \
    X(FuncSetCacheConfig, "cuFuncSetCacheConfig", (CUfunction function, CUfunc_cache config)) \
    X(LaunchKernel, "cuLaunchKernel", (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **params, void **extra)) \
    X(OccupancyMaxActiveBlocksPerMultiprocessorWithFlags, "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", (int *blocks, CUfunction function, int block_size, size_t shared, unsigned int flags)) \
    X(OccupancyAvailableDynamicSMemPerBlock, "cuOccupancyAvailableDynamicSMemPerBlock", (size_t *shared, CUfunction function, int blocks, int block_size)) \
    X(GetErrorName, "cuGetErrorName", (CUresult error, const char **name)) \
    X(GetErrorString, "cuGetErrorString", (CUresult error, const char **text))

/* Newer or not everywhere: NULL where the driver lacks them; whoever uses one has a second way. */
#define GPU_OPTIONAL(X) \
    X(FuncGetParamInfo, "cuFuncGetParamInfo", (CUfunction function, size_t index, size_t *offset, size_t *size)) \
    X(MemHostRegister, "cuMemHostRegister_v2", (void *memory, size_t size, unsigned int flags)) \
    X(MemHostUnregister, "cuMemHostUnregister", (void *memory)) \
    X(StreamWriteValue32, "cuStreamWriteValue32_v2", (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)) \
    X(StreamWaitValue32, "cuStreamWaitValue32_v2", (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)) \
    X(MemcpyPeerAsync, "cuMemcpyPeerAsync", (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t size, CUstream stream)) \
    X(Memcpy3DPeerAsync, "cuMemcpy3DPeerAsync", (const CUDA_MEMCPY3D_PEER *copy, CUstream stream)) \
    X(EventRecordWithFlags, "cuEventRecordWithFlags", (CUevent event, CUstream stream, unsigned int flags)) \
    X(LaunchKernelEx, "cuLaunchKernelEx", (const CUlaunchConfig *config, CUfunction function, void **params, void **extra))

struct gpu {
    const char *kind;                 /* "nvidia", "software", "null" */
#define X(field, symbol, arguments) CUresult (CUDAAPI *field) arguments;
    GPU_REQUIRED(X)
    GPU_OPTIONAL(X)
#undef X
    /* The software GPU's: text of the last failure of the calling thread; its length. NULL elsewhere. */
    size_t (*last_log)(char *buffer, size_t size);
};

enum { GPU_ERROR_SIZE = 512 };

/* kind: "auto", "nvidia", "software" or "null". Loads the driver, initialises it and looks for a device; auto is
   nvidia where libcuda.so.1 loads and has a device, else software. 0, or -1 and a sentence in error
   (GPU_ERROR_SIZE bytes). *out stays valid as long as the process lives. Thread-safe. */
int gpu_open(const char *kind, const struct gpu **out, char *error);

/* "CUDA_ERROR_INVALID_VALUE (1)"; for messages. The text is the driver's or in buffer. */
const char *gpu_error_name(const struct gpu *, CUresult, char *buffer, size_t size);

/* null.c: fills the table. */
void gpu_null_fill(struct gpu *);
/* Operations that the null device has been given so far, for tests and measurements. */
struct gpu_null_count { unsigned long launches, copies, sets, waits, mapped; };
void gpu_null_counted(struct gpu_null_count *);

#endif
