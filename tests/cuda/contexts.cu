// shows: contexts: the runtime works in the context that the Driver API has made current, else in the primary one
#include "check.h"

#include <cuda.h>
#include <pthread.h>

__device__ int counter;
__global__ void count(int *out) { *out = ++counter; }

template <class Function> static Function *entry(const char *name, unsigned version)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    MUST(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found));
#else
    (void)version;
    MUST(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found));
#endif
    HOLDS(found == cudaDriverEntryPointSuccess && function);
    return (Function *)function;
}

static CUresult (*ctx_destroy)(CUcontext);
static void *destroy(void *context) { return (void *)(uintptr_t)ctx_destroy((CUcontext)context); }

/* What the kernel counts in the context that is current. */
static int counted(cudaStream_t stream)
{
    int *device, value = -1;
    MUST(cudaMalloc(&device, sizeof *device));
    count<<<1, 1, 0, stream>>>(device);
    MUST(cudaGetLastError());
    MUST(cudaMemcpyAsync(&value, device, sizeof value, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaFree(device));
    return value;
}

int main(void)
{
    auto *ctx_create = entry<CUresult(CUcontext *, unsigned, CUdevice)>("cuCtxCreate", 3020);
    auto *ctx_get = entry<CUresult(CUcontext *)>("cuCtxGetCurrent", 4000);
    auto *ctx_set = entry<CUresult(CUcontext)>("cuCtxSetCurrent", 4000);
    auto *ctx_pop = entry<CUresult(CUcontext *)>("cuCtxPopCurrent", 4000);
    auto *stream_context = entry<CUresult(CUstream, CUcontext *)>("cuStreamGetCtx", 9020);
    auto *attribute = entry<CUresult(void *, CUpointer_attribute, CUdeviceptr)>("cuPointerGetAttribute", 4000);
    ctx_destroy = entry<CUresult(CUcontext)>("cuCtxDestroy", 4000);

    CUcontext primary = NULL, own = NULL, found = NULL;
    MUST(cudaSetDevice(0));
    HOLDS(counted(0) == 1 && counted(0) == 2);
    HOLDS(ctx_get(&primary) == CUDA_SUCCESS && primary);

    /* A context of the program's: memory, streams, variables and kernels are its own. */
    HOLDS(ctx_create(&own, 0, 0) == CUDA_SUCCESS && own && own != primary);
    HOLDS(counted(0) == 1);
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    HOLDS(stream_context(stream, &found) == CUDA_SUCCESS && found == own);
    HOLDS(counted(stream) == 2);
    int *memory, value, device = -1;
    MUST(cudaMalloc(&memory, 4096));
    HOLDS(attribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)memory) == CUDA_SUCCESS && found == own);
    MUST(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    HOLDS(value == 2);
    MUST(cudaGetDevice(&device));
    HOLDS(device == 0);
    HOLDS(ctx_get(&found) == CUDA_SUCCESS && found == own);

    /* Back in the primary one. A stream of the other context takes a kernel of that context. */
    HOLDS(ctx_pop(&found) == CUDA_SUCCESS && found == own);
    MUST(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    HOLDS(value == 2);
    HOLDS(counted(0) == 3);
    count<<<1, 1, 0, stream>>>(memory);
    cudaError_t foreign = cudaGetLastError();
    printf("a launch in a stream of another context: %d\n", foreign);
    HOLDS(foreign == cudaSuccess);

    /* Where none is current, the runtime makes the primary one current. */
    while (ctx_get(&found) == CUDA_SUCCESS && found)
        HOLDS(ctx_pop(&found) == CUDA_SUCCESS);
    HOLDS(counted(0) == 4);
    HOLDS(ctx_get(&found) == CUDA_SUCCESS && found == primary);

    /* cudaSetDevice replaces what is current. */
    HOLDS(ctx_set(own) == CUDA_SUCCESS);
    HOLDS(counted(stream) == 4);
    MUST(cudaSetDevice(0));
    HOLDS(ctx_get(&found) == CUDA_SUCCESS && found == primary);
    HOLDS(counted(0) == 5);

    /* The context ends while it is current here. */
    HOLDS(ctx_set(own) == CUDA_SUCCESS);
    pthread_t other;
    void *result;
    pthread_create(&other, NULL, destroy, own);
    pthread_join(other, &result);
    HOLDS((CUresult)(uintptr_t)result == CUDA_SUCCESS);
    cudaError_t ended[3];
    ended[0] = cudaMalloc(&memory, 16);
    ended[1] = cudaDeviceSynchronize();
    count<<<1, 1>>>(memory);
    ended[2] = cudaGetLastError();
    printf("calls in a context that has ended: %d %d %d\n", ended[0], ended[1], ended[2]);
    for (cudaError_t error : ended)
        HOLDS(error == cudaErrorDeviceUninitialized);
    MUST(cudaSetDevice(0));
    HOLDS(counted(0) == 6);
    return check_result("contexts");
}
