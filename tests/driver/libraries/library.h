/* library.h: what the programs that use NVIDIA's libraries share. Each compares results with its own computation. */
#ifndef TESTS_DRIVER_LIBRARY_H
#define TESTS_DRIVER_LIBRARY_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* The libraries' status types differ; 0 is success in all of them. */
#define GOOD(call)                                                       \
    do {                                                                 \
        int status_ = (int)(call);                                       \
        if (status_) {                                                   \
            fprintf(stderr, "%d: %s gives %d\n", __LINE__, #call, status_); \
            failures++;                                                  \
        }                                                                \
    } while (0)

static inline void near(const char *what, double got, double wanted, double within)
{
    if (!(fabs(got - wanted) <= within)) {
        fprintf(stderr, "%s: %g instead of %g\n", what, got, wanted);
        failures++;
    }
}

/* The larger of two errors; a NaN is the largest. */
static inline double worse(double a, double b)
{
    return b > a || isnan(b) ? b : a;
}

static inline void *to_device(const void *from, size_t size)
{
    void *memory = NULL;
    GOOD(cudaMalloc(&memory, size));
    if (from)
        GOOD(cudaMemcpy(memory, from, size, cudaMemcpyHostToDevice));
    else
        GOOD(cudaMemset(memory, 0, size));
    return memory;
}

static inline void from_device(void *to, const void *memory, size_t size)
{
    GOOD(cudaDeviceSynchronize());
    GOOD(cudaMemcpy(to, memory, size, cudaMemcpyDeviceToHost));
}

static inline int result(const char *name)
{
    printf("%s: %s\n", name, failures ? "failed" : "passed");
    return failures != 0;
}

#endif
