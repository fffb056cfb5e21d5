/* sgemm.h: the product of two square matrices of f32 that cublas.cu and openblas.c time. */
#ifndef SYNTHETIC_BENCHMARK_SOFTGPU_SGEMM_H
#define SYNTHETIC_BENCHMARK_SOFTGPU_SGEMM_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "warm.h"

/* Launches, of which the best counts. */
enum { SGEMM_SIZE = 1024, SGEMM_ELEMENTS = SGEMM_SIZE * SGEMM_SIZE, SGEMM_LAUNCHES = 21 };

static float *sgemm_matrix(unsigned seed)
{
    float *m = (float *)malloc(SGEMM_ELEMENTS * sizeof *m);
    for (unsigned i = 0; m && i < SGEMM_ELEMENTS; i++)
        m[i] = (float)((i * 7919u + seed) % 1000u) / 1000.0f;
    return m;
}

/* As the lines of cases.h. */
static void sgemm_print(double wall, double cpu, const float *result)
{
    double sum = 0;
    for (unsigned i = 0; i < SGEMM_ELEMENTS; i++)
        sum += (double)result[i] * (1 + i % 7);
    printf("sgemm_1024 %.3f %.3f %.9g\n", wall * 1e6, cpu * 1e6, sum);
}

#endif
