/* api.h: the entry points that the tests call, with the types of cpu/client/runtime/abi.h. */
#ifndef FLYT_TESTS_RUNTIME_API_H
#define FLYT_TESTS_RUNTIME_API_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu/client/runtime/abi.h"
#include "tests/runtime/fake_core.h"

typedef struct cudart_dim3 dim3;

int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorName(int);
const char *cudaGetErrorString(int);

int cudaGetDeviceCount(int *);
int cudaGetDevice(int *);
int cudaSetDevice(int);
int cudaSetValidDevices(int *, int);
int cudaDeviceGetAttribute(int *, int, int);
int cudaGetDeviceProperties(void *, int);
int cudaGetDeviceProperties_v2(void *, int);
int cudaChooseDevice(int *, const struct cudart_properties *);
int cudaDeviceSynchronize(void);
int cudaDeviceReset(void);
int cudaDeviceGetLimit(size_t *, unsigned);
int cudaDeviceSetLimit(unsigned, size_t);
int cudaSetDeviceFlags(unsigned);
int cudaGetDeviceFlags(unsigned *);
int cudaDeviceSetCacheConfig(unsigned);
int cudaDeviceGetCacheConfig(unsigned *);
int cudaDeviceGetStreamPriorityRange(int *, int *);
int cudaDeviceGetPCIBusId(char *, int, int);
int cudaDeviceGetByPCIBusId(int *, const char *);
int cudaDeviceCanAccessPeer(int *, int, int);
int cudaDeviceEnablePeerAccess(int, unsigned);
int cudaDeviceDisablePeerAccess(int);
int cudaRuntimeGetVersion(int *);
int cudaDriverGetVersion(int *);
int cudaProfilerStart(void);
#if FLYT_CUDART == 11
int cudaGetDriverEntryPoint(const char *, void **, unsigned long long);
#else
int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
#endif

int cudaMalloc(void **, size_t);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMalloc3D(struct cudart_pitched *, struct cudart_extent);
int cudaFree(void *);
int cudaMemGetInfo(size_t *, size_t *);
int cudaHostAlloc(void **, size_t, unsigned);
int cudaMallocHost(void **, size_t);
int cudaFreeHost(void *);
int cudaHostRegister(void *, size_t, unsigned);
int cudaHostUnregister(void *);
int cudaHostGetDevicePointer(void **, void *, unsigned);
int cudaHostGetFlags(unsigned *, void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpy_ptds(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, core_stream);
int cudaMemcpyAsync_ptsz(void *, const void *, size_t, int, core_stream);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
int cudaMemcpy3D(const struct cudart_copy_3d *);
int cudaMemcpyPeer(void *, int, const void *, int, size_t);
int cudaMemset(void *, int, size_t);
int cudaMemset2D(void *, size_t, int, size_t, size_t);
int cudaMemset3D(struct cudart_pitched, int, struct cudart_extent);
int cudaMallocAsync(void **, size_t, core_stream);
int cudaFreeAsync(void *, core_stream);
int cudaFreeArray(void *);
int cudaMallocArray(void **, const void *, size_t, size_t, unsigned);
int cudaPointerGetAttributes(struct cudart_pointer_attributes *, const void *);

int cudaStreamCreate(core_stream *);
int cudaStreamCreateWithFlags(core_stream *, unsigned);
int cudaStreamCreateWithPriority(core_stream *, unsigned, int);
int cudaStreamDestroy(core_stream);
int cudaStreamSynchronize(core_stream);
int cudaStreamQuery(core_stream);
int cudaStreamQuery_ptsz(core_stream);
int cudaStreamGetFlags(core_stream, unsigned *);
int cudaStreamGetPriority(core_stream, int *);
int cudaStreamIsCapturing(core_stream, int *);
int cudaThreadExchangeStreamCaptureMode(int *);
int cudaStreamWaitEvent(core_stream, core_event, unsigned);
int cudaLaunchHostFunc(core_stream, void (*)(void *), void *);
int cudaStreamAddCallback(core_stream, void (*)(core_stream, int, void *), void *, unsigned);
int cudaEventCreate(core_event *);
int cudaEventCreateWithFlags(core_event *, unsigned);
int cudaEventDestroy(core_event);
int cudaEventRecord(core_event, core_stream);
int cudaEventQuery(core_event);
int cudaEventElapsedTime(float *, core_event, core_event);

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
void __cudaRegisterManagedVar(void **, void **, char *, const char *, int, size_t, int, int);
char __cudaInitModule(void **);
int __cudaGetKernel(const void **, const void *);
int __cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, core_stream);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, core_stream);
int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, core_stream);
int cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, core_stream);
int cudaLaunchCooperativeKernel(const void *, dim3, dim3, void **, size_t, core_stream);
int cudaLaunchKernelExC(const struct cudart_launch_config *, const void *, void **);
int cudaFuncGetAttributes(struct cudart_function_attributes *, const void *);
int cudaFuncSetAttribute(const void *, int, int);
int cudaFuncSetCacheConfig(const void *, unsigned);
int cudaFuncGetName(const char **, const void *);
int cudaFuncGetParamInfo(const void *, size_t, size_t *, size_t *);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
int cudaGetSymbolAddress(void **, const void *);
int cudaGetSymbolSize(size_t *, const void *);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);

/* Every test begins with a process that has not used CUDA. */
int runtime_begin(void **state);

int device_tests(void);
int memory_tests(void);
int code_tests(void);
int stream_tests(void);

#endif
