/* benchMem: 512 MiB in pieces of 4 MiB are allocated, then freed. benchMem [TOTAL_MB [PIECE_MB]] */
#include "workload.h"

int main(int argc, char **argv)
{
    size_t total = (argc > 1 ? workload_number(argv[1]) : 512) << 20, piece = (argc > 2 ? workload_number(argv[2]) : 4)
                                                                              << 20;
    size_t count = piece ? total / piece : 0;
    if (argc > 3 || count == 0) {
        fprintf(stderr, "usage: benchMem [TOTAL_MB [PIECE_MB]]\n");
        return 2;
    }
    void **pieces = (void **)calloc(count, sizeof *pieces);
    uint64_t *times = bench_array(count);
    MUST(cudaDeviceSynchronize());
    uint64_t began = bench_now();
    for (size_t i = 0; i < count; i++) {
        uint64_t before = bench_now();
        MUST(cudaMalloc(&pieces[i], piece));
        times[i] = bench_now() - before;
    }
    double allocated = workload_us(began);
    uint64_t freeing = bench_now();
    for (size_t i = 0; i < count; i++)
        MUST(cudaFree(pieces[i]));
    printf("time_us %.3f\nallocate_us %.3f\nfree_us %.3f\n", workload_us(began), allocated, workload_us(freeing));
    bench_times(times, count);
    return 0;
}
