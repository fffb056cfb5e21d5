/* benchH: benchE with the kernel's attributes asked for before the launch. benchH MEMORY_KB THREADS ITERATIONS */
#include "workload.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: benchH MEMORY_KB THREADS ITERATIONS\n");
        return 2;
    }
    struct workload w;
    struct cudaFuncAttributes attributes;
    workload_prepare(&w, workload_number(argv[1]), workload_number(argv[2]), workload_number(argv[3]));
    MUST(cudaDeviceSynchronize());
    uint64_t began = bench_now();
    workload_upload(&w);
    uint64_t asked = bench_now();
    MUST(cudaFuncGetAttributes(&attributes, workload_kernel));
    double attributes_us = workload_us(asked);
    workload_launch(&w, 0);
    MUST(cudaDeviceSynchronize());
    workload_download(&w);
    printf("time_us %.3f\nattributes_us %.3f\n", workload_us(began), attributes_us);
    printf("registers %d\nshared_bytes %zu\nconstant_bytes %zu\nlocal_bytes %zu\nmax_threads %d\nptx %d\nbinary %d\n",
           attributes.numRegs, attributes.sharedSizeBytes, attributes.constSizeBytes, attributes.localSizeBytes,
           attributes.maxThreadsPerBlock, attributes.ptxVersion, attributes.binaryVersion);
    workload_check(&w);
    return 0;
}
