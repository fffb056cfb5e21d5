// shows: assert: text on stderr, error 710, which cudaDeviceReset ends with the use of the device
#include "check.h"
#include <assert.h>

__global__ void claims(int limit) { assert((int)threadIdx.x < limit); }

int main()
{
    int *d;
    claims<<<1, 4>>>(4);
    MUST(cudaDeviceSynchronize());
    claims<<<2, 4>>>(3);
    GIVES(cudaErrorAssert, cudaDeviceSynchronize());
    GIVES(cudaErrorAssert, cudaMalloc((void **)&d, 4));
    cudaGetLastError();
    MUST(cudaDeviceReset());
    cudaGetLastError();
    GIVES(cudaErrorDevicesUnavailable, cudaMalloc((void **)&d, 4));
    GIVES(cudaErrorDevicesUnavailable, cudaDeviceSynchronize());
    return check_result("assertion");
}
