/*
 * bench_nccl.h: what the programs that measure NCCL's calls share. Each defines BENCH_NAME, which stands before its
 * messages, and includes NCCL's functions first.
 */
#ifndef FLYT_BENCH_NCCL_H
#define FLYT_BENCH_NCCL_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define GOOD(call)                                                                                     \
    do {                                                                                               \
        int result_ = (int)(call);                                                                     \
        if (result_) {                                                                                 \
            fprintf(stderr, BENCH_NAME ": %s: %d, %s\n", #call, result_, ncclGetLastError(NULL));      \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

/* Seconds. */
static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* For qsort, of doubles. */
static inline int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
