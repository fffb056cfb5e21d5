/*
 * main.cu: runs the random programs of units that generate.py made, one after the other, and compares each with what
 * the host computes. The units are modules of their own, and each program gets functions of a program of the unit
 * before its own, as pointers.
 *
 * pointers [SEED]: all programs, or the one with that seed.
 *
 * shows: pointers to functions: 200 random programs (tests/pointers/generate.py) compute what the host computes: some
 *   are optimised, some made with -G, some with -Xcicc -O1; functions of one module are called in kernels of another
 */
#include "common.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

extern const Unit *const units[];
extern const unsigned unit_count;

enum { MOST_THREADS = 1024, STACK = 48 << 10 };

static unsigned *in, *out;
static Plain *taken[2];

static bool fails(const Program *p, const char *unit, const char *what, cudaError_t error)
{
    if (error)
        fprintf(stderr, "%s, seed %u: %s: %s\n", unit, p->seed, what, cudaGetErrorName(error));
    return error != cudaSuccess;
}

static bool take(const Program *p, const char *unit, Plain *to)
{
    p->take(to);
    return !fails(p, unit, "taking addresses", cudaGetLastError());
}

/* foreign: of another unit, or NULL. */
static bool run(const Unit *u, const Program *p, const Unit *other, const Program *foreign)
{
    static unsigned host_in[MOST_THREADS], host_out[MOST_THREADS], want[MOST_THREADS];
    unsigned count = p->blocks * p->threads;
    for (unsigned i = 0; i < count; i++)
        host_in[i] = mix(p->seed, i);
    cudaMemcpy(in, host_in, count * sizeof *in, cudaMemcpyHostToDevice);
    cudaMemset(out, 0xa5, count * sizeof *out);
    p->make();
    if (foreign)
        foreign->make();                              /* its functions use its objects */
    if (!take(p, u->name, taken[0]) || (foreign && !take(foreign, other->name, taken[1])))
        return false;
    p->run(p->blocks, p->threads, in, out, taken[0], taken[foreign ? 1 : 0]);
    if (fails(p, u->name, "launch", cudaGetLastError()) ||
        fails(p, u->name, "run", cudaMemcpy(host_out, out, count * sizeof *out, cudaMemcpyDeviceToHost)))
        return false;
    for (unsigned b = 0; b < p->blocks; b++)
        p->model(p->threads, host_in + b * p->threads, want + b * p->threads, p->taken,
                 foreign ? foreign->taken : p->taken);
    for (unsigned i = 0; i < count; i++)
        if (host_out[i] != want[i]) {
            fprintf(stderr, "%s, seed %u: thread %u: %u instead of %u\n", u->name, p->seed, i, host_out[i], want[i]);
            return false;
        }
    return true;
}

int main(int argc, char **argv)
{
    unsigned only = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0, passed = 0, failed = 0;
    if (cudaDeviceSetLimit(cudaLimitStackSize, STACK) || cudaMalloc(&in, MOST_THREADS * sizeof *in) ||
        cudaMalloc(&out, MOST_THREADS * sizeof *out) || cudaMalloc(&taken[0], TAKEN * sizeof(Plain)) ||
        cudaMalloc(&taken[1], TAKEN * sizeof(Plain))) {
        fprintf(stderr, "pointers: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    for (unsigned n = 0; n < unit_count; n++)
        for (unsigned i = 0; i < units[n]->count; i++) {
            const Program *p = &units[n]->programs[i];
            const Unit *other = units[n ? n - 1 : unit_count - 1];
            if (only && p->seed != only)
                continue;
            bool good = run(units[n], p, other, other != units[n] ? &other->programs[i % other->count] : NULL);
            good ? passed++ : failed++;
            if (!good && cudaDeviceSynchronize())
                goto end;                             /* after a fault nothing runs any more */
        }
end:
    printf("%u programs of %u units passed, %u failed\n", passed, unit_count, failed);
    return failed || !passed;
}
