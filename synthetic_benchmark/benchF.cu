/*
 * benchF: a pass with 100 launches, each synchronised and timed; several processes start together.
 *
 *     benchF MEMORY_KB THREADS ITERATIONS [RESULT_FILE [START_FILE]]   one launch's microseconds a line in RESULT_FILE
 */
#include "workload.h"

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: benchF MEMORY_KB THREADS ITERATIONS [RESULT_FILE [START_FILE]]\n");
        return 2;
    }
    struct workload w;
    uint64_t times[WORKLOAD_LAUNCHES];
    workload_prepare(&w, workload_number(argv[1]), workload_number(argv[2]), workload_number(argv[3]));
    MUST(cudaDeviceSynchronize());
    if (argc > 5)
        workload_start_together(argv[5]);
    uint64_t began = bench_now();
    workload_upload(&w);
    for (int i = 0; i < WORKLOAD_LAUNCHES; i++) {
        uint64_t before = bench_now();
        workload_launch(&w, 0);
        MUST(cudaDeviceSynchronize());
        times[i] = bench_now() - before;
    }
    workload_download(&w);
    printf("time_us %.3f\n", workload_us(began));
    workload_check(&w);
    FILE *results = argc > 4 ? fopen(argv[4], "w") : NULL;
    for (int i = 0; results && i < WORKLOAD_LAUNCHES; i++)
        fprintf(results, "%.3f\n", (double)times[i] / 1e3);
    if (argc > 4 && (!results || fclose(results) != 0)) {
        perror(argv[4]);
        return 1;
    }
    bench_times(times, WORKLOAD_LAUNCHES);
    return 0;
}
