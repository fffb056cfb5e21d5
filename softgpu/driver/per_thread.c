/*
 * per_thread.c: the _ptds and _ptsz functions: as those without, but stream 0 is the calling thread's own default
 * stream. They say so in a thread-local flag that sgd_stream_find reads.
 */
#include "softgpu/driver/driver.h"

#define PER_THREAD(name, suffix, parameters, arguments) \
    CUresult name##_##suffix parameters                  \
    {                                                    \
        sgd_per_thread = true;                           \
        CUresult r = name arguments;                     \
        sgd_per_thread = false;                          \
        return r;                                        \
    }

PER_THREAD(cuEventRecordWithFlags, ptsz, (CUevent a, CUstream b, unsigned int c), (a, b, c))
PER_THREAD(cuEventRecord, ptsz, (CUevent a, CUstream b), (a, b))
PER_THREAD(cuLaunchCooperativeKernel, ptsz, (CUfunction a, unsigned int b, unsigned int c, unsigned int d, unsigned int e, unsigned int f, unsigned int g, unsigned int h, CUstream i, void **j), (a, b, c, d, e, f, g, h, i, j))
PER_THREAD(cuLaunchHostFunc, ptsz, (CUstream a, CUhostFn b, void *c), (a, b, c))
PER_THREAD(cuLaunchKernelEx, ptsz, (const CUlaunchConfig *a, CUfunction b, void **c, void **d), (a, b, c, d))
PER_THREAD(cuLaunchKernel, ptsz, (CUfunction a, unsigned int b, unsigned int c, unsigned int d, unsigned int e, unsigned int f, unsigned int g, unsigned int h, CUstream i, void **j, void **k), (a, b, c, d, e, f, g, h, i, j, k))
PER_THREAD(cuMemPrefetchAsync, ptsz, (CUdeviceptr a, size_t b, CUdevice c, CUstream d), (a, b, c, d))
#if CUDA_VERSION >= 12020
PER_THREAD(cuMemPrefetchAsync_v2, ptsz, (CUdeviceptr a, size_t b, CUmemLocation c, unsigned int d, CUstream e), (a, b, c, d, e))
#endif
PER_THREAD(cuMemcpy2DAsync_v2, ptsz, (const CUDA_MEMCPY2D *a, CUstream b), (a, b))
PER_THREAD(cuMemcpy2DUnaligned_v2, ptds, (const CUDA_MEMCPY2D *a), (a))
PER_THREAD(cuMemcpy2D_v2, ptds, (const CUDA_MEMCPY2D *a), (a))
PER_THREAD(cuMemcpy3DAsync_v2, ptsz, (const CUDA_MEMCPY3D *a, CUstream b), (a, b))
PER_THREAD(cuMemcpy3DPeerAsync, ptsz, (const CUDA_MEMCPY3D_PEER *a, CUstream b), (a, b))
PER_THREAD(cuMemcpy3DPeer, ptds, (const CUDA_MEMCPY3D_PEER *a), (a))
PER_THREAD(cuMemcpy3D_v2, ptds, (const CUDA_MEMCPY3D *a), (a))
PER_THREAD(cuMemcpyAtoA_v2, ptds, (CUarray a, size_t b, CUarray c, size_t d, size_t e), (a, b, c, d, e))
PER_THREAD(cuMemcpyAtoD_v2, ptds, (CUdeviceptr a, CUarray b, size_t c, size_t d), (a, b, c, d))
PER_THREAD(cuMemcpyAtoHAsync_v2, ptsz, (void *a, CUarray b, size_t c, size_t d, CUstream e), (a, b, c, d, e))
PER_THREAD(cuMemcpyAtoH_v2, ptds, (void *a, CUarray b, size_t c, size_t d), (a, b, c, d))
PER_THREAD(cuMemcpyDtoA_v2, ptds, (CUarray a, size_t b, CUdeviceptr c, size_t d), (a, b, c, d))
PER_THREAD(cuMemcpyHtoAAsync_v2, ptsz, (CUarray a, size_t b, const void *c, size_t d, CUstream e), (a, b, c, d, e))
PER_THREAD(cuMemcpyHtoA_v2, ptds, (CUarray a, size_t b, const void *c, size_t d), (a, b, c, d))
PER_THREAD(cuMemcpyAsync, ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemcpyDtoDAsync_v2, ptsz, (CUdeviceptr a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemcpyDtoD_v2, ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
PER_THREAD(cuMemcpyDtoHAsync_v2, ptsz, (void *a, CUdeviceptr b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemcpyDtoH_v2, ptds, (void *a, CUdeviceptr b, size_t c), (a, b, c))
PER_THREAD(cuMemcpyHtoDAsync_v2, ptsz, (CUdeviceptr a, const void *b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemcpyHtoD_v2, ptds, (CUdeviceptr a, const void *b, size_t c), (a, b, c))
PER_THREAD(cuMemcpyPeerAsync, ptsz, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e, CUstream f), (a, b, c, d, e, f))
PER_THREAD(cuMemcpyPeer, ptds, (CUdeviceptr a, CUcontext b, CUdeviceptr c, CUcontext d, size_t e), (a, b, c, d, e))
PER_THREAD(cuMemcpy, ptds, (CUdeviceptr a, CUdeviceptr b, size_t c), (a, b, c))
PER_THREAD(cuMemsetD16Async, ptsz, (CUdeviceptr a, unsigned short b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemsetD16_v2, ptds, (CUdeviceptr a, unsigned short b, size_t c), (a, b, c))
PER_THREAD(cuMemsetD2D16Async, ptsz, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e, CUstream f), (a, b, c, d, e, f))
PER_THREAD(cuMemsetD2D16_v2, ptds, (CUdeviceptr a, size_t b, unsigned short c, size_t d, size_t e), (a, b, c, d, e))
PER_THREAD(cuMemsetD2D32Async, ptsz, (CUdeviceptr a, size_t b, unsigned int c, size_t d, size_t e, CUstream f), (a, b, c, d, e, f))
PER_THREAD(cuMemsetD2D32_v2, ptds, (CUdeviceptr a, size_t b, unsigned int c, size_t d, size_t e), (a, b, c, d, e))
PER_THREAD(cuMemsetD2D8Async, ptsz, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e, CUstream f), (a, b, c, d, e, f))
PER_THREAD(cuMemsetD2D8_v2, ptds, (CUdeviceptr a, size_t b, unsigned char c, size_t d, size_t e), (a, b, c, d, e))
PER_THREAD(cuMemsetD32Async, ptsz, (CUdeviceptr a, unsigned int b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemsetD32_v2, ptds, (CUdeviceptr a, unsigned int b, size_t c), (a, b, c))
PER_THREAD(cuMemsetD8Async, ptsz, (CUdeviceptr a, unsigned char b, size_t c, CUstream d), (a, b, c, d))
PER_THREAD(cuMemsetD8_v2, ptds, (CUdeviceptr a, unsigned char b, size_t c), (a, b, c))
PER_THREAD(cuStreamAddCallback, ptsz, (CUstream a, CUstreamCallback b, void *c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamAttachMemAsync, ptsz, (CUstream a, CUdeviceptr b, size_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamBatchMemOp, ptsz, (CUstream a, unsigned int b, CUstreamBatchMemOpParams *c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamBatchMemOp_v2, ptsz, (CUstream a, unsigned int b, CUstreamBatchMemOpParams *c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamGetCtx, ptsz, (CUstream a, CUcontext *b), (a, b))
#if CUDA_VERSION >= 12080
PER_THREAD(cuStreamGetDevice, ptsz, (CUstream a, CUdevice *b), (a, b))
#endif
PER_THREAD(cuStreamGetFlags, ptsz, (CUstream a, unsigned int *b), (a, b))
#if CUDA_VERSION >= 12000
PER_THREAD(cuStreamGetId, ptsz, (CUstream a, unsigned long long *b), (a, b))
#endif
PER_THREAD(cuStreamGetPriority, ptsz, (CUstream a, int *b), (a, b))
PER_THREAD(cuStreamIsCapturing, ptsz, (CUstream a, CUstreamCaptureStatus *b), (a, b))
PER_THREAD(cuStreamQuery, ptsz, (CUstream a), (a))
PER_THREAD(cuStreamSynchronize, ptsz, (CUstream a), (a))
PER_THREAD(cuStreamWaitEvent, ptsz, (CUstream a, CUevent b, unsigned int c), (a, b, c))
PER_THREAD(cuStreamWaitValue32, ptsz, (CUstream a, CUdeviceptr b, cuuint32_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWaitValue32_v2, ptsz, (CUstream a, CUdeviceptr b, cuuint32_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWaitValue64, ptsz, (CUstream a, CUdeviceptr b, cuuint64_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWaitValue64_v2, ptsz, (CUstream a, CUdeviceptr b, cuuint64_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWriteValue32, ptsz, (CUstream a, CUdeviceptr b, cuuint32_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWriteValue32_v2, ptsz, (CUstream a, CUdeviceptr b, cuuint32_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWriteValue64, ptsz, (CUstream a, CUdeviceptr b, cuuint64_t c, unsigned int d), (a, b, c, d))
PER_THREAD(cuStreamWriteValue64_v2, ptsz, (CUstream a, CUdeviceptr b, cuuint64_t c, unsigned int d), (a, b, c, d))
