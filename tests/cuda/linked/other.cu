#include <cuda_runtime.h>

__device__ int shared_total;
__constant__ int shared_table[4];
__device__ int from_other_unit(int x) { return (x + 1) * 2; }

static __device__ int own = 200;
static __global__ void same_name(int *out) { *out = own; shared_total += 7; }

cudaError_t run_other(int *out)
{
    same_name<<<1, 1>>>(out);
    return cudaGetLastError();
}
