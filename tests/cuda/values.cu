// shows: stream memory operations: a stream waits for a value in device memory, or in pinned memory that the host
//   writes, under each condition; it writes 32 and 64 bits in its order; batches; errors
#include "check.h"

#include <cuda.h>

template <typename F> static F entry(const char *name, unsigned version)
{
    void *function = NULL;
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    MUST(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
#else
    MUST(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
    return (F)function;
}

__global__ void copy(const unsigned *from, unsigned *to) { *to = *from; }

int main()
{
    typedef CUresult (*values32)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    typedef CUresult (*values64)(CUstream, CUdeviceptr, cuuint64_t, unsigned);
    typedef CUresult (*values)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
    values32 wait32 = entry<values32>("cuStreamWaitValue32", 12000);
    values32 write32 = entry<values32>("cuStreamWriteValue32", 12000);
    values64 wait64 = entry<values64>("cuStreamWaitValue64", 12000);
    values64 write64 = entry<values64>("cuStreamWriteValue64", 12000);
    values batch = entry<values>("cuStreamBatchMemOp", 12000);
    cudaStream_t a, b;
    unsigned *words, host[4];
    MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&words, 64));
    CUdeviceptr at = (CUdeviceptr)words;

    // each condition: the stream does not go on before it holds, and then does
    struct { unsigned flags, before, value, after; } conditions[] = {
        { CU_STREAM_WAIT_VALUE_GEQ, 4, 5, 5 },
        { CU_STREAM_WAIT_VALUE_GEQ, 0x7ffffff0u, 0x80000005u, 0x80000009u }, // cyclic
        { CU_STREAM_WAIT_VALUE_EQ, 6, 5, 5 },
        { CU_STREAM_WAIT_VALUE_AND, 8, 3, 2 },
        { CU_STREAM_WAIT_VALUE_NOR, 0xfffffff0u, 0xf, 0xffff0000u },
    };
    for (auto &c : conditions) {
        MUST(cudaMemset(words, 0, 64));
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpy(words, &c.before, 4, cudaMemcpyHostToDevice));
        HOLDS(wait32(a, at, c.value, c.flags) == CUDA_SUCCESS);
        copy<<<1, 1, 0, a>>>(words, words + 1);
        HOLDS(cudaStreamQuery(a) == cudaErrorNotReady);
        HOLDS(write32(b, at, c.after, 0) == CUDA_SUCCESS);
        MUST(cudaStreamSynchronize(a));
        MUST(cudaMemcpy(host, words, 16, cudaMemcpyDeviceToHost));
        HOLDS(host[1] == c.after);
    }
    // 64 bits, and a copy that writes what is waited for
    unsigned long long wide = 5ull << 33, got;
    MUST(cudaMemset(words, 0, 64));
    MUST(cudaDeviceSynchronize());
    HOLDS(wait64(a, at + 8, wide, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    HOLDS(write64(a, at + 16, wide + 1, 0) == CUDA_SUCCESS);
    HOLDS(cudaStreamQuery(a) == cudaErrorNotReady);
    MUST(cudaMemcpyAsync(words + 2, &wide, 8, cudaMemcpyHostToDevice, b));
    MUST(cudaStreamSynchronize(a));
    MUST(cudaMemcpy(&got, words + 4, 8, cudaMemcpyDeviceToHost));
    HOLDS(got == wide + 1);

    // a batch in its order
    CUstreamBatchMemOpParams list[3];
    memset(list, 0, sizeof list);
    list[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    list[0].writeValue.address = at;
    list[0].writeValue.value = 11;
    list[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    list[1].waitValue.address = at + 4;
    list[1].waitValue.value = 12;
    list[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    list[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    list[2].writeValue.address = at + 8;
    list[2].writeValue.value64 = 13;
    MUST(cudaMemset(words, 0, 64));
    MUST(cudaDeviceSynchronize());
    HOLDS(batch(a, 3, list, 0) == CUDA_SUCCESS);
    HOLDS(wait32(b, at, 11, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS); // the first of the batch
    MUST(cudaStreamSynchronize(b));
    HOLDS(cudaStreamQuery(a) == cudaErrorNotReady);
    HOLDS(write32(b, at + 4, 12, 0) == CUDA_SUCCESS);
    MUST(cudaStreamSynchronize(a));
    MUST(cudaMemcpy(host, words, 16, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 11 && host[1] == 12 && host[2] == 13);

    // memory that host and device share, where there is such
    int mapped = 0;
    MUST(cudaDeviceGetAttribute(&mapped, cudaDevAttrCanMapHostMemory, 0));
    if (mapped) {
        volatile unsigned *flag;
        unsigned *seen;
        MUST(cudaHostAlloc((void **)&flag, 64, cudaHostAllocMapped));
        MUST(cudaHostGetDevicePointer((void **)&seen, (void *)flag, 0));
        flag[0] = flag[1] = 0;
        HOLDS(wait32(a, (CUdeviceptr)seen, 1, 0) == CUDA_SUCCESS);
        HOLDS(write32(a, (CUdeviceptr)(seen + 1), 2, 0) == CUDA_SUCCESS);
        HOLDS(cudaStreamQuery(a) == cudaErrorNotReady && flag[1] == 0);
        flag[0] = 1;
        MUST(cudaStreamSynchronize(a));
        HOLDS(flag[1] == 2);
        MUST(cudaFreeHost((void *)flag));
    }

    // errors
    HOLDS(wait32(a, at + 2, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(wait64(a, at + 4, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(wait32(a, (CUdeviceptr)host, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(wait32(a, at, 0, 4) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(wait32(a, at, 0, CU_STREAM_WAIT_VALUE_FLUSH) == CUDA_ERROR_NOT_SUPPORTED);
    HOLDS(write32(a, at, 0, 8) == CUDA_ERROR_INVALID_VALUE);
    unsigned *managed;
    MUST(cudaMallocManaged(&managed, 64));
    HOLDS(write32(a, (CUdeviceptr)managed, 1, 0) == CUDA_ERROR_INVALID_VALUE);
    MUST(cudaFree(managed));
    HOLDS(batch(a, 0, list, 0) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(batch(a, 256, list, 0) == CUDA_ERROR_INVALID_VALUE);
    HOLDS(batch(a, 1, list, 1) == CUDA_ERROR_INVALID_VALUE);
    list[1].waitValue.address = 8; // all or none
    list[0].writeValue.value = 99;
    HOLDS(batch(a, 3, list, 0) == CUDA_ERROR_INVALID_VALUE);
    MUST(cudaStreamSynchronize(a));
    MUST(cudaMemcpy(host, words, 16, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 11);
    MUST(cudaStreamDestroy(a));
    MUST(cudaStreamDestroy(b));
    MUST(cudaFree(words));
    return check_result("values");
}
