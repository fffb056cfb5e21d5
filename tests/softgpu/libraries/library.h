/* library.h: what the programs share that call NVIDIA's libraries and compare results with sums of their own. */
#ifndef TESTS_SOFTGPU_LIBRARY_H
#define TESTS_SOFTGPU_LIBRARY_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program when a call does not succeed. */
#define MUST(call)                                                                    \
    do {                                                                              \
        int must_result = (int)(call);                                                \
        if (must_result) {                                                            \
            printf("%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, must_result);   \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

static int failures;

/* A result is good when its error is at most `most`. */
static inline void judge(const char *what, double error, double most)
{
    int good = error <= most;                       /* a NaN is not */
    printf("%s: error %g%s\n", what, error, good ? "" : ", too much");
    failures += !good;
}

static inline void *on_device(const void *bytes, size_t size)
{
    void *p;
    MUST(cudaMalloc(&p, size));
    if (bytes)
        MUST(cudaMemcpy(p, bytes, size, cudaMemcpyHostToDevice));
    else
        MUST(cudaMemset(p, 0, size));
    return p;
}

static inline void to_host(void *to, const void *from, size_t size)
{
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost));
}

static inline double worse(double a, double b) { return b > a || isnan(b) ? b : a; }

#endif
