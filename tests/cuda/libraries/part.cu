/* Compiled four times, each time with another NAME and VALUE: a kernel and variables whose names all copies share. */
#include <cuda_runtime.h>

static __device__ int offset = VALUE;
static __constant__ int factor = VALUE;

template <typename T> static __global__ void apply(T *p)
{
    *p = *p * factor + offset;
}

static __global__ void touch(int *p)
{
    offset += *p;
}

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)

extern "C" cudaError_t GLUE(apply_, NAME)(int *p)
{
    apply<int><<<1, 1>>>(p);
    return cudaGetLastError();
}

extern "C" cudaError_t GLUE(touch_, NAME)(int *p)
{
    touch<<<1, 1>>>(p);
    return cudaGetLastError();
}

extern "C" cudaError_t GLUE(set_, NAME)(int value)
{
    return cudaMemcpyToSymbol(offset, &value, sizeof value);
}
