/*
 * benchR: benchF on a stream of its own, with as many synchronisations as asked for: SYNC 0 synchronises after every
 * launch, N after every N launches, 100 only at the end. What is timed for each launch is the time of its caller.
 *
 *     benchR MEMORY_KB THREADS ITERATIONS SYNC [RESULT_FILE [START_FILE]]
 */
#include "workload.h"

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 7) {
        fprintf(stderr, "usage: benchR MEMORY_KB THREADS ITERATIONS SYNC [RESULT_FILE [START_FILE]]\n");
        return 2;
    }
    struct workload w;
    uint64_t times[WORKLOAD_LAUNCHES];
    cudaStream_t stream;
    unsigned long every = workload_number(argv[4]);
    workload_prepare(&w, workload_number(argv[1]), workload_number(argv[2]), workload_number(argv[3]));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamSynchronize(stream));
    if (argc > 6)
        workload_start_together(argv[6]);
    uint64_t began = bench_now();
    workload_upload(&w);
    for (unsigned long i = 0; i < WORKLOAD_LAUNCHES; i++) {
        uint64_t before = bench_now();
        workload_launch(&w, stream);
        if (every == 0 || (i + 1) % every == 0)
            MUST(cudaStreamSynchronize(stream));
        times[i] = bench_now() - before;
    }
    MUST(cudaStreamSynchronize(stream));
    workload_download(&w);
    printf("time_us %.3f\n", workload_us(began));
    workload_check(&w);
    MUST(cudaStreamDestroy(stream));
    FILE *results = argc > 5 ? fopen(argv[5], "w") : NULL;
    for (int i = 0; results && i < WORKLOAD_LAUNCHES; i++)
        fprintf(results, "%.3f\n", (double)times[i] / 1e3);
    if (argc > 5 && (!results || fclose(results) != 0)) {
        perror(argv[5]);
        return 1;
    }
    bench_times(times, WORKLOAD_LAUNCHES);
    return 0;
}
