// shows: assert: text on stderr, error 710, cleared by cudaDeviceReset
#include "check.h"
#include <assert.h>

__global__ void claims(int limit) { assert((int)threadIdx.x < limit); }
__global__ void plain(int *p) { *p = 7; }

int main()
{
    int *d, h = 0;
    claims<<<1, 4>>>(4);
    MUST(cudaDeviceSynchronize());
    claims<<<2, 4>>>(3);
    GIVES(cudaErrorAssert, cudaDeviceSynchronize());
    GIVES(cudaErrorAssert, cudaMalloc((void **)&d, 4));
    cudaGetLastError();
    MUST(cudaDeviceReset());
    cudaGetLastError();
    MUST(cudaMalloc((void **)&d, 4));
    plain<<<1, 1>>>(d);
    MUST(cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 7);
    return check_result("assertion");
}
