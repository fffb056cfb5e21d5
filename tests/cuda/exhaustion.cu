// shows: memory: CUDA arrays take the same memory, count against the same limit and give it back
// shows: memory: no memory left fails in cudaMalloc itself, leaves everything usable, and every success can be written
//   to
#include "check.h"
#include <vector>

__global__ void stamp(unsigned char **blocks, int count, size_t size)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        blocks[i][0] = (unsigned char)i;
        blocks[i][size - 1] = (unsigned char)(i + 1);
    }
}
__global__ void verify(unsigned char **blocks, int count, size_t size, int *wrong)
{
    for (int i = threadIdx.x; i < count; i += blockDim.x)
        if (blocks[i][0] != (unsigned char)i || blocks[i][size - 1] != (unsigned char)(i + 1))
            atomicAdd(wrong, 1);
}

/* Arrays come out of the same memory, and what cudaMalloc gave and took back does not stand in their way. */
static void arrays(void)
{
    const cudaChannelFormatDesc texel = cudaCreateChannelDesc<float4>();
    size_t free_at_first, free_at_last, total;
    std::vector<cudaArray_t> all;
    cudaArray_t array;
    cudaError_t error;
    void *p;
    MUST(cudaMemGetInfo(&free_at_first, &total));
    while ((error = cudaMallocArray(&array, &texel, 2048, 2048, 0)) == cudaSuccess && all.size() < 5000)
        all.push_back(array);
    GIVES(cudaErrorMemoryAllocation, error);
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    HOLDS(all.size() << 26 <= total && ((all.size() + 2) << 26) >= free_at_first);
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&p, (size_t)128 << 20));
    while (!all.empty()) {
        MUST(cudaFreeArray(all.back()));
        all.pop_back();
    }
    MUST(cudaMemGetInfo(&free_at_last, &total));
    HOLDS(free_at_last + ((size_t)4 << 20) >= free_at_first);
    MUST(cudaMalloc(&p, (size_t)128 << 20));
    MUST(cudaFree(p));
    printf("as many arrays: %d\n", free_at_last + ((size_t)4 << 20) >= free_at_first);
}

int main()
{
    const size_t size = (size_t)64 << 20;
    unsigned char **table;
    int *wrong, h = -1;
    size_t free_at_first, total, free_at_last;
    MUST(cudaMalloc((void **)&table, 8 << 20));
    MUST(cudaMalloc((void **)&wrong, 4));
    MUST(cudaMemset(wrong, 0, 4));
    MUST(cudaMemGetInfo(&free_at_first, &total));
    std::vector<unsigned char *> blocks;
    cudaError_t error;
    unsigned char *p;
    while ((error = cudaMalloc((void **)&p, size)) == cudaSuccess && blocks.size() < 5000)
        blocks.push_back(p);
    GIVES(cudaErrorMemoryAllocation, error);
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    GIVES(cudaSuccess, cudaGetLastError());
    HOLDS(blocks.size() * size <= total && (blocks.size() + 2) * size >= free_at_first);
    MUST(cudaMemcpy(table, blocks.data(), blocks.size() * sizeof p, cudaMemcpyHostToDevice));
    stamp<<<1, 256>>>(table, (int)blocks.size(), size);
    verify<<<1, 256>>>(table, (int)blocks.size(), size, wrong);
    MUST(cudaMemcpy(&h, wrong, sizeof h, cudaMemcpyDeviceToHost));
    HOLDS(h == 0);
    for (unsigned char *block : blocks)
        MUST(cudaFree(block));
    MUST(cudaMemGetInfo(&free_at_last, &total));
    HOLDS(free_at_last + ((size_t)4 << 20) >= free_at_first);
    MUST(cudaMalloc((void **)&p, size));
    MUST(cudaFree(p));
    printf("%zu blocks of 64 MiB\n", blocks.size());
    arrays();
    return check_result("exhaustion");
}
