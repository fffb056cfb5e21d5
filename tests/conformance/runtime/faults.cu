// shows: conformance: what calls return after a kernel's fault, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void faulty(int *at) { *at = 1; }
__global__ void none() {}
__device__ int variable;

static void in_another_thread()
{
    int device;
    SAYS(cudaGetDevice(&device), "another thread");
    SAYS(cudaDeviceSynchronize(), "another thread");
}

int main()
{
    void *p, *old, *host;
    int value;
    size_t size, total;
    cudaStream_t s;
    cudaEvent_t e;
    cudaDeviceProp prop;
    cudaFuncAttributes attributes;
    cudaPointerAttributes pointer;
    cudaGraph_t g;
    MUST(cudaMalloc(&old, 64));
    MUST(cudaMallocHost(&host, 64));
    MUST(cudaStreamCreate(&s));
    MUST(cudaEventCreate(&e));
    faulty<<<1, 1, 0, s>>>((int *)0x100);
    WORKS(cudaGetLastError(), "the launch");
    GIVES(cudaErrorIllegalAddress, cudaStreamSynchronize(s), "finds it");
    SAYS(cudaGetLastError(), "it stays");
    SAYS(cudaPeekAtLastError(), "it stays");
    in_thread(in_another_thread);
    SAYS(cudaDeviceSynchronize(), "behind the fault");
    SAYS(cudaStreamQuery(s), "behind the fault");
    SAYS(cudaStreamSynchronize(0), "behind the fault");
    SAYS(cudaStreamCreate(&s), "behind the fault");
    SAYS(cudaEventRecord(e, 0), "behind the fault");
    SAYS(cudaEventQuery(e), "behind the fault");
    SAYS(cudaEventSynchronize(e), "behind the fault");
    SAYS(cudaEventCreate(&e), "behind the fault");
    SAYS(cudaMalloc(&p, 64), "behind the fault");
    SAYS(cudaFree(old), "behind the fault");
    SAYS(cudaFree(NULL), "behind the fault");
    SAYS(cudaMallocHost(&p, 64), "behind the fault");
    SAYS(cudaFreeHost(host), "behind the fault");
    SAYS(cudaMemcpy(old, &value, 4, cudaMemcpyHostToDevice), "behind the fault");
    SAYS(cudaMemset(old, 0, 4), "behind the fault");
    SAYS(cudaMemGetInfo(&size, &total), "behind the fault");
    SAYS(cudaGetSymbolAddress(&p, variable), "behind the fault");
    SAYS(cudaFuncGetAttributes(&attributes, (const void *)none), "behind the fault");
    SAYS(cudaPointerGetAttributes(&pointer, old), "behind the fault");
    SAYS(cudaGetDevice(&value), "behind the fault");
    SAYS(cudaSetDevice(0), "behind the fault");
    SAYS(cudaGetDeviceCount(&value), "behind the fault");
    SAYS(cudaGetDeviceProperties(&prop, 0), "behind the fault");
    SAYS(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0), "behind the fault");
    SAYS(cudaDriverGetVersion(&value), "behind the fault");
    SAYS(cudaRuntimeGetVersion(&value), "behind the fault");
    SAYS(cudaGraphCreate(&g, 0), "behind the fault");
    SAYS(cudaDeviceGetLimit(&size, cudaLimitStackSize), "behind the fault");
    none<<<1, 1>>>();
    SAYS(cudaGetLastError(), "a launch behind the fault");
    return 0;
}
