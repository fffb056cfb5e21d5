/*
 * check.h: what every end-to-end program shares. A program computes on the device, compares with a reference computed
 * on the host, and exits 0 only if everything agreed. It fails if no kernel runs: results are compared with values
 * that only a kernel can have written.
 *
 * Each program names what it shows in lines "// shows: <tag>: <sentence>"; docs/tests.md is made from them.
 */
#ifndef FLYT_TESTS_CUDA_CHECK_H
#define FLYT_TESTS_CUDA_CHECK_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST_NAME(code) cudaGetErrorString((cudaError_t)(code))
#include "../lib/must.h"

static int check_failures;

/* A call that must give exactly this error. */
#define GIVES(expected, call)                                                                              \
    do {                                                                                                   \
        cudaError_t gives_error_ = (call);                                                                 \
        if (gives_error_ != (expected)) {                                                                  \
            fprintf(stderr, "%s:%d: %s: got %d (%s), expected %d\n", __FILE__, __LINE__, #call, (int)gives_error_, \
                    cudaGetErrorName(gives_error_), (int)(expected));                                      \
            check_failures++;                                                                              \
        }                                                                                                  \
    } while (0)

#define HOLDS(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                 \
            check_failures++;                                                                              \
        }                                                                                                  \
    } while (0)

static inline int check_result(const char *name)
{
    if (check_failures) {
        fprintf(stderr, "%s: %d checks failed\n", name, check_failures);
        return 1;
    }
    printf("%s: passed\n", name);
    return 0;
}

#endif
