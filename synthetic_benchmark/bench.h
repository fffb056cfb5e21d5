/* bench.h: what the benchmark programs share. Times are in nanoseconds of CLOCK_MONOTONIC. */
#ifndef FLYT_BENCH_H
#define FLYT_BENCH_H

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MUST(call)                                                                                                   \
    do {                                                                                                             \
        cudaError_t must_error_ = (call);                                                                            \
        if (must_error_ != cudaSuccess) {                                                                            \
            fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call, cudaGetErrorString(must_error_),        \
                    (int)must_error_);                                                                               \
            exit(1);                                                                                                 \
        }                                                                                                            \
    } while (0)

static inline uint64_t bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int bench_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the times and prints their median, 99th percentile and smallest value. */
static inline void bench_times(uint64_t *times, size_t count)
{
    qsort(times, count, sizeof *times, bench_compare);
    printf("p50_ns %llu\np99_ns %llu\nmin_ns %llu\ncount %zu\n", (unsigned long long)times[count / 2],
           (unsigned long long)times[count * 99 / 100], (unsigned long long)times[0], count);
}

static inline uint64_t *bench_array(size_t count)
{
    uint64_t *times = (uint64_t *)calloc(count, sizeof *times);
    if (!times) {
        fprintf(stderr, "no memory for %zu times\n", count);
        exit(1);
    }
    return times;
}

#endif
