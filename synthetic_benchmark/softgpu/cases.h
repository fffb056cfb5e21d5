/*
 * cases.h: what the programs of `make bench-softgpu` run: the sizes of each kernel of kernels.h, what its buffers hold
 * before, how it is timed, and the sum by which the forms of a kernel are compared.
 *
 * A program defines the four functions of a form and calls bench_all().
 */
#ifndef SYNTHETIC_BENCHMARK_SOFTGPU_CASES_H
#define SYNTHETIC_BENCHMARK_SOFTGPU_CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "warm.h"

enum { BENCH_BUFFERS = 3, BENCH_NUMBERS = 2, BENCH_RUNS = 21 };
enum bench_kind { BENCH_NONE, BENCH_FLOAT, BENCH_WORD, BENCH_BYTE };
struct bench_buffer {
    enum bench_kind kind;
    unsigned count;
};
struct bench_case {
    const char *name;
    unsigned grid[2], block[2];
    struct bench_buffer buffers[BENCH_BUFFERS]; /* the last one is the result */
    unsigned numbers[BENCH_NUMBERS], number_count;
};

#define M (1u << 20)
static const struct bench_case bench_cases[] = {
    { "vector_add", { 4 * M / 256, 1 }, { 256, 1 },
      { { BENCH_FLOAT, 4 * M }, { BENCH_FLOAT, 4 * M }, { BENCH_FLOAT, 4 * M } }, { 4 * M }, 1 },
    { "stencil", { 64, 256 }, { 32, 8 }, { { BENCH_FLOAT, 4 * M }, { BENCH_FLOAT, 4 * M } }, { 2048 }, 1 },
    { "collatz", { 1024, 1 }, { 128, 1 }, { { BENCH_WORD, M / 8 } }, { M / 8 }, 1 },
    { "matmul", { 24, 24 }, { 16, 16 },
      { { BENCH_FLOAT, 384 * 384 }, { BENCH_FLOAT, 384 * 384 }, { BENCH_FLOAT, 384 * 384 } }, { 384 }, 1 },
    { "nbody", { 32, 1 }, { 128, 1 }, { { BENCH_FLOAT, 4096 }, { BENCH_FLOAT, 4096 }, { BENCH_FLOAT, 8192 } },
      { 4096 }, 1 },
    { "histogram", { 64, 1 }, { 256, 1 }, { { BENCH_BYTE, M }, { BENCH_WORD, 256 } }, { 64 }, 1 },
    { "black_scholes", { M / 256, 1 }, { 256, 1 },
      { { BENCH_FLOAT, M }, { BENCH_FLOAT, M }, { BENCH_FLOAT, M } }, { M }, 1 },
    { "fma_chain", { M / 4 / 256, 1 }, { 256, 1 }, { { BENCH_FLOAT, M / 4 } }, { M / 4, 256 }, 2 },
    { "reduction", { 1024, 1 }, { 256, 1 }, { { BENCH_WORD, 4 * M }, { BENCH_WORD, 1024 } }, { 16 }, 1 },
    { "transpose", { 64, 64 }, { 32, 8 }, { { BENCH_FLOAT, 4 * M }, { BENCH_FLOAT, 4 * M } }, { 2048 }, 1 },
    { "grey", { 2 * M / 256, 1 }, { 256, 1 }, { { BENCH_BYTE, 6 * M }, { BENCH_BYTE, 2 * M } }, { 2 * M }, 1 },
};
#undef M

/* What a program defines. 0: done. */
static int form_prepare(const struct bench_case *);          /* of buffers that it makes; once for each case */
static int form_write(const struct bench_case *, unsigned buffer, const void *from, size_t bytes);
static int form_run(const struct bench_case *);              /* returns when it has ended */
static int form_read(const struct bench_case *, unsigned buffer, void *to, size_t bytes);

static unsigned bench_buffers(const struct bench_case *c)
{
    unsigned n = 0;
    while (n < BENCH_BUFFERS && c->buffers[n].kind != BENCH_NONE)
        n++;
    return n;
}
static size_t bench_size(const struct bench_buffer *b) { return b->count * (b->kind == BENCH_BYTE ? 1u : 4u); }

/* The result is all zeros before, unless it is the only buffer. */
static int bench_fill(const struct bench_case *c)
{
    const unsigned count = bench_buffers(c);
    for (unsigned k = 0; k < count; k++) {
        const struct bench_buffer *b = &c->buffers[k];
        unsigned char *bytes = (unsigned char *)calloc(1, bench_size(b));
        unsigned state = 12345 + k;
        for (unsigned i = 0; bytes && i < b->count && (k + 1 < count || count == 1); i++) {
            state = state * 1664525u + 1013904223u;
            if (b->kind == BENCH_FLOAT)
                ((float *)(void *)bytes)[i] = (float)(state >> 8) / 16777216.0f;
            else if (b->kind == BENCH_WORD)
                ((unsigned *)(void *)bytes)[i] = state >> 16;
            else
                bytes[i] = (unsigned char)(state >> 24);
        }
        const int failed = !bytes || form_write(c, k, bytes, bench_size(b));
        free(bytes);
        if (failed)
            return -1;
    }
    return 0;
}

static int bench_sum(const struct bench_case *c, double *sum)
{
    const unsigned last = bench_buffers(c) - 1;
    const struct bench_buffer *b = &c->buffers[last];
    unsigned char *bytes = (unsigned char *)calloc(1, bench_size(b));
    if (!bytes || form_read(c, last, bytes, bench_size(b))) {
        free(bytes);
        return -1;
    }
    *sum = 0;
    for (unsigned i = 0; i < b->count; i++) { /* places count, too */
        const double v = b->kind == BENCH_FLOAT ? (double)((float *)(void *)bytes)[i]
                         : b->kind == BENCH_WORD ? (double)((unsigned *)(void *)bytes)[i] : (double)bytes[i];
        *sum += v * (1 + i % 7);
    }
    free(bytes);
    return 0;
}

static int bench_one(const struct bench_case *c)
{
    double best = 1e9, cpu = 1e9, sum;
    if (form_prepare(c) || bench_fill(c))
        return -1;
    for (const double begun = bench_clock(CLOCK_MONOTONIC); !bench_is_warm(begun);)
        if (form_run(c))
            return -1;
    for (int k = 0; k < BENCH_RUNS; k++) {
        const double wall_before = bench_clock(CLOCK_MONOTONIC), cpu_before = bench_clock(CLOCK_PROCESS_CPUTIME_ID);
        if (form_run(c))
            return -1;
        const double wall = bench_clock(CLOCK_MONOTONIC) - wall_before,
                     used = bench_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
        best = wall < best ? wall : best;
        cpu = used < cpu ? used : cpu;
    }
    if (bench_fill(c) || form_run(c) || bench_sum(c, &sum))
        return -1;
    printf("%s %.3f %.3f %.9g\n", c->name, best * 1e6, cpu * 1e6, sum);
    fflush(stdout);
    return 0;
}

/* A line for each case: its name; the best time of a run, and the least CPU time, in µs; the sum of its result. name:
   only that case; NULL: all. */
static int bench_all(const char *name)
{
    for (size_t k = 0; k < sizeof bench_cases / sizeof *bench_cases; k++)
        if ((!name || !strcmp(name, bench_cases[k].name)) && bench_one(&bench_cases[k])) {
            fprintf(stderr, "%s: it failed\n", bench_cases[k].name);
            return 1;
        }
    return 0;
}

#endif
