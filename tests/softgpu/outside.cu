// outside.cu: writes behind an allocation, or into one that is freed, as its argument says: mistakes that no GPU
// notices by itself. For memcheck.sh. `pool…`: the same with memory of a pool.
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

__global__ void fill(int *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] = i;                     // line 11
}

static bool is_pool;
static cudaStream_t stream;

static cudaError_t allocate(int **p)
{
    size_t size = 100 * sizeof **p;
    return is_pool ? cudaMallocAsync((void **)p, size, stream) : cudaMalloc(p, size);
}

static cudaError_t give_back(int *p) { return is_pool ? cudaFreeAsync(p, stream) : cudaFree(p); }

// Memory that is freed and given out again while kernels still write to it, in the stream's order.
static bool again()
{
    int *first = NULL, *p;
    bool same = false;
    for (int i = 0; i < 50; i++) {
        if (allocate(&p))
            return false;
        same = same || p == first;
        first = p;
        fill<<<4, 32, 0, stream>>>(p, 100);
        if (give_back(p))
            return false;
    }
    return same;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing", *mistake = what;
    int *p, *q, zero = 0;
    if (!strncmp(what, "pool-", 5)) {
        is_pool = true;
        mistake = what + 5;
        if (cudaStreamCreate(&stream) || !again())
            return 1;
    }
    if (allocate(&p) || allocate(&q) || cudaStreamSynchronize(stream) ||
        cudaMemcpy(q, &zero, sizeof zero, cudaMemcpyHostToDevice) || (!strcmp(mistake, "freed") && give_back(p)) ||
        (!strcmp(mistake, "freed-at-once") && cudaFree(p)))
        return 1;
    fill<<<4, 32, 0, stream>>>(p, !strcmp(mistake, "beyond") ? 101 : 100);
    printf("%s: error %d\n", what, (int)cudaDeviceSynchronize());
    return 0;
}
