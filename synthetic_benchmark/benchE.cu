/* benchE: one pass from allocation to result. benchE MEMORY_KB THREADS ITERATIONS */
#include "workload.h"

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: benchE MEMORY_KB THREADS ITERATIONS\n");
        return 2;
    }
    struct workload w;
    workload_prepare(&w, workload_number(argv[1]), workload_number(argv[2]), workload_number(argv[3]));
    MUST(cudaDeviceSynchronize());
    uint64_t began = bench_now();
    workload_upload(&w);
    workload_launch(&w, 0);
    MUST(cudaDeviceSynchronize());
    workload_download(&w);
    printf("time_us %.3f\n", workload_us(began));
    workload_check(&w);
    return 0;
}
