// A kernel that never ends, for messages.py, which kills the client or the server; not run by itself.
#include "check.h"

__global__ void forever(volatile int *stop)
{
    while (*stop == 0)
        ;
}

int main()
{
    int *stop;
    MUST(cudaMalloc((void **)&stop, sizeof *stop));
    MUST(cudaMemset(stop, 0, sizeof *stop));
    forever<<<1, 32>>>(stop);
    printf("running\n");
    fflush(stdout);
    cudaError_t error = cudaDeviceSynchronize();
    printf("ended with (%d) %s\n", (int)error, cudaGetErrorString(error));
    return error == cudaSuccess ? 0 : 3;
}
