/* cublas.cu: sgemm of 1024³ by cuBLAS, for `make bench-softgpu`. */
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "sgemm.h"

/* 0: done. */
static int multiply(cublasHandle_t handle, float *const *device)
{
    const float one = 1, zero = 0;
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, SGEMM_SIZE, SGEMM_SIZE, SGEMM_SIZE, &one, device[0],
                       SGEMM_SIZE, device[1], SGEMM_SIZE, &zero, device[2], SGEMM_SIZE) || cudaDeviceSynchronize();
}

int main()
{
    float *host[3] = { sgemm_matrix(1), sgemm_matrix(2), sgemm_matrix(3) }, *device[3];
    const size_t bytes = SGEMM_ELEMENTS * sizeof(float);
    cublasHandle_t handle;
    if (cublasCreate(&handle))
        return 1;
    for (int k = 0; k < 3; k++)
        if (!host[k] || cudaMalloc(&device[k], bytes) || cudaMemcpy(device[k], host[k], bytes, cudaMemcpyHostToDevice))
            return 1;
    for (const double begun = bench_clock(CLOCK_MONOTONIC); !bench_is_warm(begun);)
        if (multiply(handle, device))
            return 1;
    double wall = 1e9, cpu = 1e9;
    for (int k = 0; k < SGEMM_LAUNCHES; k++) {
        const double before = bench_clock(CLOCK_MONOTONIC), cpu_before = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        if (multiply(handle, device))
            return 1;
        const double t = bench_clock(CLOCK_MONOTONIC) - before, u = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
        wall = t < wall ? t : wall;
        cpu = u < cpu ? u : cpu;
    }
    if (cudaMemcpy(host[2], device[2], bytes, cudaMemcpyDeviceToHost))
        return 1;
    sgemm_print(wall, cpu, host[2]);
    return 0;
}
