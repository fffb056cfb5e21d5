// shows: copies: while the server's staging memory is used up by one stream, a stream whose own work is done is idle,
//   although the legacy stream has newer work
#include "check.h"
#include <unistd.h>
#include <vector>

__global__ void gate(volatile int *open)
{
    while (!*open)
        __nanosleep(20000);
}

int main()
{
    enum { COPIES = 300, BYTES = 1024 };      // more than the server has room for
    setenv("FLYT_PERF", "no_cache", 1);       // each query asks the server
    alarm(60);
    int *open, mapped;
    char *device;
    cudaStream_t done, waits;
    std::vector<char> host(BYTES);
    MUST(cudaDeviceGetAttribute(&mapped, cudaDevAttrCanMapHostMemory, 0));
    if (!mapped)
        return 77;                            // nothing holds a kernel back
    MUST(cudaHostAlloc((void **)&open, sizeof *open, cudaHostAllocMapped));
    MUST(cudaMalloc((void **)&device, BYTES));
    MUST(cudaStreamCreate(&done));
    MUST(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
    gate<<<1, 1>>>((*open = 1, open));        // the module is loaded
    MUST(cudaDeviceSynchronize());
    // The copy has ended before anybody asks for it: so the server has no marker behind it.
    MUST(cudaMemcpyAsync(device, host.data(), BYTES, cudaMemcpyHostToDevice, done));
    usleep(50000);
    MUST(cudaStreamSynchronize(done));
    *open = 0;
    gate<<<1, 1>>>(open);
    gate<<<1, 1, 0, waits>>>(open);
    for (int i = 0; i < COPIES; i++)
        MUST(cudaMemcpyAsync(device, host.data(), BYTES, cudaMemcpyHostToDevice, waits));
    GIVES(cudaErrorNotReady, cudaStreamQuery(0));
    GIVES(cudaErrorNotReady, cudaStreamQuery(waits));
    GIVES(cudaSuccess, cudaStreamQuery(done));
    __atomic_store_n(open, 1, __ATOMIC_SEQ_CST);
    MUST(cudaDeviceSynchronize());
    GIVES(cudaSuccess, cudaStreamQuery(done));
    return check_result("staging");
}
