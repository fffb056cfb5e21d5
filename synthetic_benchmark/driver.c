/*
 * driver.c: the figures of the Driver API's front end. What calls.cu is for the Runtime API; figures are printed as
 * lines `key value`.
 *
 *     driver launches N    N launches with three arguments, then a synchronise      per_second, launches,
 *                          best_ns (a launch, in the fastest batch)
 *     driver entry N       N calls that only look at the thread (cuCtxGetCurrent), in batches     best_ns (a call)
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The kernel `three` of calls.cu. */
static const char code[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
                           ".visible .entry three(.param .u64 out, .param .u32 a, .param .u32 b)\n{\n"
                           "  .reg .pred %p; .reg .u32 %a, %b; .reg .u64 %out;\n"
                           "  ld.param.u64 %out, [out]; ld.param.u32 %a, [a]; ld.param.u32 %b, [b];\n"
                           "  setp.eq.u64 %p, %out, 0;\n  @%p ret;\n"
                           "  add.u32 %a, %a, %b;\n  st.global.u32 [%out], %a;\n  ret;\n}\n";

static void must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "driver: %s failed: %d\n", what, (int)result);
    exit(1);
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void launch(CUfunction function, CUdeviceptr out, int number)
{
    int two = 2;
    void *arguments[] = { &out, &number, &two };
    must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL), "cuLaunchKernel");
}

static void launches(long n)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUdeviceptr memory;
    must(cuInit(0), "cuInit");
    must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuModuleLoadData(&module, code), "cuModuleLoadData");
    must(cuModuleGetFunction(&function, module, "three"), "cuModuleGetFunction");
    must(cuMemAlloc(&memory, sizeof(int)), "cuMemAlloc");
    launch(function, memory, 0);
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    uint64_t began = now();
    enum { BATCH = 500 };
    uint64_t best = UINT64_MAX;
    for (long i = 0; i < n;) {
        uint64_t batch = now();
        long end = i + BATCH;
        for (; i < end && i < n; i++)
            launch(function, memory, (int)i);
        uint64_t took = now() - batch;
        best = i == end && took < best ? took : best;
    }
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    printf("per_second %.1f\nlaunches %ld\nbest_ns %.2f\n", (double)n * 1e9 / (double)(now() - began), n + 1,
           n < BATCH ? 0 : (double)best / BATCH);
}

/* The fastest batch: others were interrupted. */
static void entry(long n)
{
    enum { BATCH = 20000 };
    CUcontext context;
    double best = 1e9;
    must(cuInit(0), "cuInit");
    for (long done = 0; done < n; done += BATCH) {
        uint64_t began = now();
        for (int i = 0; i < BATCH; i++)
            must(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
        double took = (double)(now() - began) / BATCH;
        best = took < best ? took : best;
    }
    printf("best_ns %.3f\n", best);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "launches") == 0)
        launches(strtol(argv[2], NULL, 10));
    else if (argc == 3 && strcmp(argv[1], "entry") == 0)
        entry(strtol(argv[2], NULL, 10));
    else
        return fprintf(stderr, "usage: driver launches|entry N\n"), 2;
    return 0;
}
