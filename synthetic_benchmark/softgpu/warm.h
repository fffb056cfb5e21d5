/* warm.h: how long the programs of `make bench-softgpu` run a kernel before they time it. */
#ifndef SYNTHETIC_BENCHMARK_SOFTGPU_WARM_H
#define SYNTHETIC_BENCHMARK_SOFTGPU_WARM_H

#include <stdlib.h>
#include <time.h>

static inline double bench_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* BENCH_WARM: seconds from `begun` (of CLOCK_MONOTONIC) in which code that is hot is compiled in the background. PoCL
   and gcc have compiled theirs beforehand. */
static inline int bench_is_warm(double begun)
{
    const char *seconds = getenv("BENCH_WARM");
    return bench_clock(CLOCK_MONOTONIC) - begun >= (seconds ? atof(seconds) : 0);
}

#endif
