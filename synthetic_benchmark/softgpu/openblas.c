/* openblas.c: sgemm of 1024³ by OpenBLAS, for `make bench-softgpu`. */
#include <cblas.h>

#include "sgemm.h"

int main(void)
{
    float *a = sgemm_matrix(1), *b = sgemm_matrix(2), *c = sgemm_matrix(3);
    if (!a || !b || !c)
        return 1;
    double wall = 1e9, cpu = 1e9;
    for (int k = 0; k < SGEMM_LAUNCHES; k++) {
        const double before = bench_clock(CLOCK_MONOTONIC), cpu_before = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, SGEMM_SIZE, SGEMM_SIZE, SGEMM_SIZE, 1, a, SGEMM_SIZE, b,
                    SGEMM_SIZE, 0, c, SGEMM_SIZE);
        const double t = bench_clock(CLOCK_MONOTONIC) - before, u = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
        wall = t < wall ? t : wall;
        cpu = u < cpu ? u : cpu;
    }
    sgemm_print(wall, cpu, c);
    return 0;
}
