// A module of its own with 8 MiB of variables, loaded at their first use.
#include <cuda_runtime.h>

__device__ unsigned char big[8 << 20];

__global__ void write_big(unsigned char value)
{
    big[0] = big[sizeof big - 1] = value;
}

int touch_big(void);
int touch_big(void)
{
    unsigned char last = 0;
    write_big<<<1, 1>>>(7);
    cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess)
        error = cudaMemcpyFromSymbol(&last, big, 1, sizeof big - 1);
    return error != cudaSuccess ? (int)error : last == 7 ? 0 : -1;
}
