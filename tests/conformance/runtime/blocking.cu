// shows: conformance: which calls wait for work under way, and which return, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void none() {}
__device__ int variable;
static void CUDART_CB nothing(void *) {}

int main()
{
    char *a, *b, *pinned;
    static char host[1 << 16];
    cudaStream_t s, t, u;
    cudaEvent_t e;
    void *p = NULL;
    size_t free_bytes, total;
    cudaFuncAttributes attributes;
    cudaGraph_t g;
    cudaGraphExec_t x;
    MUST(cudaMalloc((void **)&a, sizeof host));
    MUST(cudaMalloc((void **)&b, sizeof host));
    MUST(cudaMallocHost((void **)&pinned, sizeof host));
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    MUST(cudaEventCreate(&e));
#if RUNTIME >= 12
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphInstantiate(&x, g, 0));
#endif
    none<<<1, 1>>>();
    MUST(cudaDeviceSynchronize());

    WAITS(s, , cudaDeviceSynchronize(), "work of any stream");
    WAITS(s, , cudaStreamSynchronize(s), "its work");
    WAITS(s, , cudaStreamSynchronize(t), "another's work");
    WAITS(s, , cudaStreamSynchronize(0), "legacy waits for blocking streams");
    WAITS(t, , cudaStreamSynchronize(0), "and not for others");
    WAITS(s, , cudaStreamQuery(s), "its work");
    WAITS(s, , cudaEventRecord(e, s), "its work");
    WAITS(s, cudaEventRecord(e, s), cudaEventSynchronize(e), "recorded before");
    WAITS(s, , cudaStreamWaitEvent(t, e, 0), "another stream");
    WAITS(s, , (none<<<1, 1, 0, s>>>(), cudaGetLastError()), "a launch");
    WAITS(s, , cudaLaunchHostFunc(s, nothing, NULL), "behind it");
    WAITS(s, , cudaMalloc(&p, 1 << 16), "any");
    WAITS(s, , cudaFree(NULL), "nothing");
    WAITS(s, cudaMalloc(&p, 1 << 16), cudaFree(p), "memory that nobody uses");
    WAITS(t, cudaMalloc(&p, 1 << 16), cudaFree(p), "work of a non-blocking stream");
    WAITS(s, , cudaMallocHost(&p, 1 << 16), "any");
    WAITS(s, cudaMallocHost(&p, 1 << 16), cudaFreeHost(p), "any");
    WAITS(s, , cudaMemGetInfo(&free_bytes, &total), "any");
    WAITS(s, , cudaMemcpy(a, host, 1 << 16, cudaMemcpyHostToDevice), "legacy, behind a blocking stream");
    WAITS(t, , cudaMemcpy(a, host, 1 << 16, cudaMemcpyHostToDevice), "legacy, beside a non-blocking stream");
    WAITS(s, , cudaMemcpy(host, a, 1 << 16, cudaMemcpyDeviceToHost), "legacy, behind a blocking stream");
    WAITS(t, , cudaMemcpy(host, a, 1 << 16, cudaMemcpyDeviceToHost), "legacy, beside a non-blocking stream");
    WAITS(s, , cudaMemcpy(b, a, 1 << 16, cudaMemcpyDeviceToDevice), "on the device");
    WAITS(s, , cudaMemcpy(pinned, a, 1 << 16, cudaMemcpyDeviceToHost), "to pinned memory");
    WAITS(s, , cudaMemcpyAsync(b, a, 1 << 16, cudaMemcpyDeviceToDevice, s), "on the device");
    WAITS(s, , cudaMemcpyAsync(a, pinned, 1 << 16, cudaMemcpyHostToDevice, s), "from pinned memory");
    WAITS(s, , cudaMemcpyAsync(pinned, a, 1 << 16, cudaMemcpyDeviceToHost, s), "to pinned memory");
    WAITS(s, , cudaMemcpyAsync(a, host, 1024, cudaMemcpyHostToDevice, s), "from pageable memory, small");
    WAITS(s, , cudaMemcpyAsync(host, a, 1024, cudaMemcpyDeviceToHost, s), "to pageable memory");
    WAITS(s, , cudaMemset(a, 0, 1 << 16), "legacy");
    WAITS(s, , cudaMemsetAsync(a, 0, 1 << 16, s), "in the stream");
    WAITS(s, , cudaMemset(pinned, 0, 1 << 16), "pinned memory");
    WAITS(s, , cudaMemcpyToSymbol(variable, host, 4), "legacy");
    WAITS(s, , cudaFuncGetAttributes(&attributes, (const void *)none), "any");
    WAITS(s, , cudaStreamCreate(&u), "any");
    WAITS(s, cudaStreamCreate(&u), cudaStreamDestroy(u), "an idle stream");
    WAITS(s, , cudaEventDestroy(e), "any");
#if RUNTIME >= 12
    WAITS(s, , cudaGraphLaunch(x, s), "behind it");
#endif
    WAITS(s, , cudaMallocAsync(&p, 4096, s), "behind it");
    MUST(cudaMallocAsync(&p, 4096, s));
    WAITS(s, cudaMallocAsync(&p, 4096, s), cudaFreeAsync(p, s), "behind it");
    WAITS(s, , cudaHostRegister(host, sizeof host, 0), "any");
    WAITS(s, cudaHostRegister(host, sizeof host, 0), cudaHostUnregister(host), "any");
    WAITS(s, , cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20), "any");
    return 0;
}
