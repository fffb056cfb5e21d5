// outside.cu: writes behind an allocation, or into one that is freed, as its argument says: mistakes that no GPU
// notices by itself. For memcheck.sh.
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

__global__ void fill(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = i;                     // line 11
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing";
    int *p, *q, zero = 0;
    if (cudaMalloc(&p, 100 * sizeof *p) || cudaMalloc(&q, 100 * sizeof *q) ||
        cudaMemcpy(q, &zero, sizeof zero, cudaMemcpyHostToDevice) || (!strcmp(what, "freed") && cudaFree(p)))
        return 1;
    fill<<<4, 32>>>(p, !strcmp(what, "beyond") ? 101 : 100);
    printf("%s: error %d\n", what, (int)cudaDeviceSynchronize());
    return 0;
}
