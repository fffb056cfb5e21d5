// A kernel that never ends, for messages.py, which kills the client or the server; not run by itself. With a number:
// first so many MiB are copied there and back, over lanes where there are some.
#include "check.h"

__global__ void forever(volatile int *stop)
{
    while (*stop == 0)
        __nanosleep(20000);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        size_t size = (size_t)atoi(argv[1]) << 20;
        void *there, *here = malloc(size);
        MUST(cudaMalloc(&there, size));
        MUST(cudaMemcpy(there, here, size, cudaMemcpyHostToDevice));
        MUST(cudaMemcpy(here, there, size, cudaMemcpyDeviceToHost));
        free(here);
    }
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
