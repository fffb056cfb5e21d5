// shows: registers of kernels: as many as a GPU's compiler would give, so that blocks are as large as on a GPU, and
//   launches that need more are refused with 701
// shows: function attributes: registers, shared, local and constant bytes, limits, dynamic shared memory beyond 48 KiB
// shows: occupancy: blocks per SM fall with block size and shared memory; the suggested block size can be launched
#include "check.h"
#include <cooperative_groups.h>

__constant__ int numbers[16] = {1, 2, 3};
__global__ void shared_user(int *out)
{
    __shared__ int fixed[256];
    extern __shared__ int dynamic[];
    fixed[threadIdx.x] = threadIdx.x;
    dynamic[threadIdx.x] = 1;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = fixed[threadIdx.x ^ 1] + dynamic[threadIdx.x] + numbers[2];
}
__global__ void __launch_bounds__(128) bounded(int *out) { out[threadIdx.x] = 1; }
__global__ void large_shared(int *out, int n)
{
    extern __shared__ int dynamic[];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        dynamic[i] = i;
    __syncthreads();
    if (threadIdx.x == 0)
        *out = dynamic[n - 1];
}
__global__ void together(int *data, int *out)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    int i = grid.thread_rank();
    data[i] = i;
    grid.sync();
    out[i] = data[grid.size() - 1 - i];
    grid.sync();
    data[i] = out[i] * 2;
}


// 100 numbers that are all needed until the end: two registers each. ptxas gives it 228 for compute capability 9.0.
enum { NUMBERS = 100 };
__host__ __device__ static inline void mix(double *v)
{
#pragma unroll
    for (int round = 0; round < 3; round++)
#pragma unroll
        for (int i = 0; i < NUMBERS; i++)
            v[i] = v[i] * v[(i * 7 + 1) % NUMBERS] + v[(i + 13) % NUMBERS];
}
__device__ static inline void mix_all(double *p)
{
    double v[NUMBERS];
#pragma unroll
    for (int i = 0; i < NUMBERS; i++)
        v[i] = p[i * 37 + threadIdx.x];
    mix(v);
#pragma unroll
    for (int i = 0; i < NUMBERS; i++)
        p[i * 37 + threadIdx.x] = v[i];
}
__global__ void hungry(double *p) { mix_all(p); }
__global__ void __launch_bounds__(1024) hungry_1024(double *p) { mix_all(p); }
__global__ void __launch_bounds__(128, 6) hungry_128_6(double *p) { mix_all(p); }

// Programs choose the size of their blocks by the registers of a kernel.
static void test_registers()
{
    struct cudaFuncAttributes a;
    int blocks = -1;
    MUST(cudaFuncGetAttributes(&a, hungry));
    HOLDS(a.numRegs > 170 && a.numRegs <= 255 && a.maxThreadsPerBlock == 256);
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, hungry, 256, 0));
    HOLDS(blocks == 1);
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, hungry, 257, 0));
    HOLDS(blocks == 0);
    MUST(cudaFuncGetAttributes(&a, hungry_1024));
    HOLDS(a.numRegs == 64 && a.maxThreadsPerBlock == 1024);
    MUST(cudaFuncGetAttributes(&a, hungry_128_6));
    HOLDS(a.numRegs == 80 && a.maxThreadsPerBlock == 128);
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, hungry_128_6, 128, 0));
    HOLDS(blocks == 6);
    MUST(cudaFuncGetAttributes(&a, bounded));
    HOLDS(a.numRegs <= 16);

    const int count = NUMBERS * 37 + 256;
    double *p, *host = (double *)malloc(count * sizeof *host), v[NUMBERS];
    for (int i = 0; i < count; i++)
        host[i] = 1 / (i + 2.0);
    MUST(cudaMalloc(&p, count * sizeof *p));
    MUST(cudaMemcpy(p, host, count * sizeof *p, cudaMemcpyHostToDevice));
    hungry<<<1, 512>>>(p);
    GIVES(cudaErrorLaunchOutOfResources, cudaGetLastError());
    for (int i = 0; i < NUMBERS; i++)
        v[i] = host[i * 37];
    mix(v);
    hungry<<<1, 1>>>(p);
    GIVES(cudaSuccess, cudaGetLastError());
    MUST(cudaMemcpy(host, p, count * sizeof *p, cudaMemcpyDeviceToHost));
    for (int i = 0; i < NUMBERS; i++)
        HOLDS(host[i * 37] - v[i] < 1e-9 && v[i] - host[i * 37] < 1e-9);
    MUST(cudaFree(p));
    free(host);
}

int main()
{
    struct cudaFuncAttributes a;
    test_registers();
    MUST(cudaFuncGetAttributes(&a, shared_user));
    HOLDS(a.sharedSizeBytes == 1024 && a.maxThreadsPerBlock == 1024 && a.numRegs > 0 && a.ptxVersion >= 70);
    MUST(cudaFuncGetAttributes(&a, bounded));
    HOLDS(a.maxThreadsPerBlock == 128 && a.sharedSizeBytes == 0);
    int few = 0, many = 0, grid = 0, block = 0;
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, shared_user, 256, 40 << 10));
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&many, shared_user, 256, 0));
    HOLDS(few >= 1 && many > few);
    MUST(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded));
    HOLDS(block > 0 && block <= 128 && grid > 0);
    int *d, *e, h[4096];
    MUST(cudaMalloc((void **)&d, 1 << 20));
    MUST(cudaMalloc((void **)&e, 1 << 20));
    shared_user<<<2, 256, 1024>>>(d);
    MUST(cudaMemcpy(h, d, 512 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 512; i++)
        HOLDS(h[i] == ((i & 255) ^ 1) + 1 + 3);

    int optin = 0;
    MUST(cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
    large_shared<<<1, 64, optin>>>(d, optin / 4);
    HOLDS(cudaGetLastError() == cudaErrorInvalidValue);
    MUST(cudaFuncSetAttribute(large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, optin));
    large_shared<<<1, 64, optin>>>(d, optin / 4);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(h, d, sizeof(int), cudaMemcpyDeviceToHost));
    HOLDS(h[0] == optin / 4 - 1);
    GIVES(cudaErrorInvalidValue,
          cudaFuncSetAttribute(large_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, optin + 1));
    cudaGetLastError();

    struct cudaDeviceProp p;
    MUST(cudaGetDeviceProperties(&p, 0));
    int per_sm = 0;
    MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, together, 64, 0));
    int blocks = p.multiProcessorCount * 2 < 60 ? p.multiProcessorCount * 2 : 60;
    void *arguments[] = {&d, &e};
    MUST(cudaLaunchCooperativeKernel((const void *)together, dim3(blocks), dim3(64), arguments, 0, 0));
    MUST(cudaMemcpy(h, d, blocks * 64 * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < blocks * 64; i++)
        HOLDS(h[i] == 2 * (blocks * 64 - 1 - i));
    GIVES(cudaErrorCooperativeLaunchTooLarge,
          cudaLaunchCooperativeKernel((const void *)together, dim3(p.multiProcessorCount * per_sm + 1), dim3(64),
                                      arguments, 0, 0));
    GIVES(cudaErrorCooperativeLaunchTooLarge, cudaGetLastError());
    return check_result("occupancy");
}
