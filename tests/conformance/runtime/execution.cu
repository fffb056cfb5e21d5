// shows: conformance: execution control and occupancy, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void one(int *out, int value)
{
    if (out)
        *out = value;
}
__global__ void none() {}
__global__ void __launch_bounds__(64) bounded(int *out) { *out = threadIdx.x; }
__global__ void dynamic(int *out)
{
    extern __shared__ int room[];
    room[threadIdx.x] = threadIdx.x;
    *out = room[0];
}
static int not_a_kernel;

static cudaError_t launched(void (*kernel)(), dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    kernel<<<grid, block, shared, stream>>>();
    return cudaGetLastError();
}

static void launches()
{
    int *out, value = 3, zero = 0;
    void *arguments[] = { &out, &value };
    cudaStream_t s;
    MUST(cudaMalloc((void **)&out, 64));
    MUST(cudaStreamCreate(&s));
    WORKS(launched(none, 1, 1, 0, 0), "usual");
    WORKS(launched(none, 1, 1024, 0, s), "1024 threads");
    SAYS(launched(none, 1, 1025, 0, s), "1025 threads");
    SAYS(launched(none, 1, dim3(1, 1, 65), 0, s), "65 threads in z");
    SAYS(launched(none, 0, 1, 0, s), "no blocks");
    SAYS(launched(none, 1, 0, 0, s), "no threads");
    SAYS(launched(none, dim3(1, 65536), 1, 0, s), "65536 blocks in y");
    SAYS(launched(none, dim3(1, 1, 65536), 1, 0, s), "65536 blocks in z");
    SAYS(launched(none, dim3(0x80000000u), 1, 0, s), "2^31 blocks");
    SAYS(launched(none, 1, 1, 1 << 20, s), "1 MiB of shared memory");
    SAYS(launched(none, 1, 1, 49153, s), "one byte more than 48 KiB");
    SAYS(launched(none, 1, 1, 0, WRONG(cudaStream_t)), "no stream");
    SAYS(launched((void (*)())bounded, 1, 65, 0, s), "more threads than its bounds");
    WORKS(cudaLaunchKernel((const void *)one, 1, 1, arguments, 0, s), "usual");
    SAYS(cudaLaunchKernel((const void *)&not_a_kernel, 1, 1, arguments, 0, s), "no kernel");
    SAYS(cudaLaunchKernel((const void *)NULL, 1, 1, arguments, 0, s), "null kernel");
    WORKS(cudaLaunchKernel((const void *)none, 1, 1, NULL, 0, s), "no arguments");
    SAYS(cudaLaunchKernel((const void *)one, 0, 1, arguments, 0, s), "no blocks");
    SAYS(cudaLaunchKernel((const void *)one, 1, 2048, arguments, 0, s), "2048 threads");
    WORKS(cudaLaunchCooperativeKernel((const void *)one, 1, 32, arguments, 0, s), "cooperative");
    GIVES(cudaErrorCooperativeLaunchTooLarge,
          cudaLaunchCooperativeKernel((const void *)one, 100000, 32, arguments, 0, s), "too large");
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 1;
    config.stream = s;
    WORKS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "no attributes");
    cudaLaunchAttribute attribute = {};
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = cudaLaunchAttributeIgnore;
    WORKS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "one to be ignored");
    attribute.id = cudaLaunchAttributePriority;
    attribute.val.priority = 0;
    WORKS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "priority 0");
    attribute.val.priority = 99;
    SAYS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "priority 99");
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    WORKS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "cooperative");
    attribute.id = (cudaLaunchAttributeID)99;
    SAYS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "attribute 99");
    config.attrs = NULL;
    SAYS(cudaLaunchKernelExC(&config, (const void *)one, arguments), "null attributes");
    WORKS(cudaMemcpy(&zero, out, 4, cudaMemcpyDeviceToHost), "the result");
    VALUE("value", "%d", zero);
    MUST(cudaFree(out));
    MUST(cudaStreamDestroy(s));
}

static void functions()
{
    cudaFuncAttributes a;
    memset(&a, 0, sizeof a);
    WORKS(cudaFuncGetAttributes(&a, (const void *)one), "usual");
    VALUE("constant", "%zu", a.constSizeBytes);
    VALUE("local", "%zu", a.localSizeBytes);
    VALUE("shared", "%zu", a.sharedSizeBytes);
    VALUE("threads", "%d", a.maxThreadsPerBlock);
    VALUE("dynamic shared", "%d", a.maxDynamicSharedSizeBytes);
    VALUE("carveout", "%d", a.preferredShmemCarveout);
    WORKS(cudaFuncGetAttributes(&a, (const void *)bounded), "bounded");
    VALUE("threads", "%d", a.maxThreadsPerBlock);
    GIVES(cudaErrorInvalidValue, cudaFuncGetAttributes(NULL, (const void *)one), "null pointer");
    SAYS(cudaFuncGetAttributes(&a, (const void *)&not_a_kernel), "no kernel");
    SAYS(cudaFuncGetAttributes(&a, (const void *)NULL), "null kernel");
    WORKS(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536), "64 KiB");
    WORKS(cudaFuncGetAttributes(&a, (const void *)dynamic), "64 KiB");
    VALUE("dynamic shared", "%d", a.maxDynamicSharedSizeBytes);
    SAYS(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30), "1 GiB");
    SAYS(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributeMaxDynamicSharedMemorySize, -1), "-1 bytes");
    WORKS(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributePreferredSharedMemoryCarveout, 50),
          "carveout 50");
    SAYS(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributePreferredSharedMemoryCarveout, 101),
         "carveout 101");
    SAYS(cudaFuncSetAttribute((const void *)dynamic, cudaFuncAttributePreferredSharedMemoryCarveout, -1),
         "carveout -1");
    SAYS(cudaFuncSetAttribute((const void *)dynamic, (cudaFuncAttribute)77, 1), "attribute 77");
    SAYS(cudaFuncSetAttribute((const void *)&not_a_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1),
         "no kernel");
    WORKS(cudaFuncSetCacheConfig((const void *)one, cudaFuncCachePreferShared), "shared");
    SAYS(cudaFuncSetCacheConfig((const void *)one, (cudaFuncCache)9), "9");
    SAYS(cudaFuncSetCacheConfig((const void *)&not_a_kernel, cudaFuncCachePreferShared), "no kernel");
#if RUNTIME >= 12
    const char *name = NULL;
    SAYS(cudaFuncGetName(&name, (const void *)one), "usual");
    VALUE("name", "%s", name ? name : "none");
    SAYS(cudaFuncGetName(NULL, (const void *)one), "null pointer");
    SAYS(cudaFuncGetName(&name, (const void *)&not_a_kernel), "no kernel");
    size_t offset = 0, size = 0;
    SAYS(cudaFuncGetParamInfo((const void *)one, 0, &offset, &size), "first");
    VALUE("size", "%zu", size);
    SAYS(cudaFuncGetParamInfo((const void *)one, 1, &offset, &size), "second");
    VALUE("offset", "%zu", offset);
    SAYS(cudaFuncGetParamInfo((const void *)one, 2, &offset, &size), "third");
    SAYS(cudaFuncGetParamInfo((const void *)one, 0, NULL, &size), "null pointer");
#endif
    cudaFunction_t function = NULL;
    SAYS(cudaGetFuncBySymbol(&function, (const void *)one), "usual");
    SAYS(cudaGetFuncBySymbol(&function, (const void *)&not_a_kernel), "no kernel");
#if RUNTIME >= 12
    cudaKernel_t kernel = NULL;
    SAYS(cudaGetKernel(&kernel, (const void *)one), "usual");
    SAYS(cudaGetKernel(&kernel, (const void *)&not_a_kernel), "no kernel");
    SAYS(cudaGetKernel(NULL, (const void *)one), "null pointer");
#endif
}

static void occupancy()
{
    int blocks = -1, least = -1, size = -1;
    size_t shared = 0;
    WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 128, 0), "128 threads");
    VALUE("blocks", "%d", blocks);
    WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 1024, 0), "1024 threads");
    VALUE("blocks", "%d", blocks);
    WORKS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 128, 40000), "much shared memory");
    VALUE("blocks", "%d", blocks);
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 128, 1 << 20),
         "too much shared memory");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 0, 0), "no threads");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, -1, 0), "-1 threads");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)one, 2000, 0), "2000 threads");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(NULL, (const void *)one, 128, 0), "null pointer");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)&not_a_kernel, 128, 0), "no kernel");
    SAYS(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (const void *)one, 128, 0, 7), "flags 7");
    WORKS(cudaOccupancyMaxPotentialBlockSize(&least, &size, one), "usual");
    VALUE("size", "%d", size);
    WORKS(cudaOccupancyMaxPotentialBlockSize(&least, &size, bounded), "bounded");
    VALUE("size", "%d", size);
    WORKS(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, (const void *)one, 2, 128), "2 blocks");
    VALUE("shared", "%zu", shared);
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, (const void *)one, 0, 128), "no blocks");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(NULL, (const void *)one, 2, 128), "null pointer");
    SAYS(cudaOccupancyAvailableDynamicSMemPerBlock(&shared, (const void *)&not_a_kernel, 2, 128), "no kernel");
}

int main()
{
    MUST(cudaFree(0));
    launches();
    functions();
    occupancy();
    return 0;
}
