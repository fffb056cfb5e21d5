/*
 * puts.c [BYTES]: between two GPUs, through libnccl.so.2: puts with their signals beside sends, of the same repetition.
 * One JSON object on a line of stdout:
 *
 *   put_us, send_us      of 8 bytes there and back, TURNS times, given to the streams in advance: one way, the median
 *   put_mb_s, send_mb_s  of BYTES (64 MiB), one after the other; the median
 *   latency, rate        put ÷ send of each repetition; the medians
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NCCL_OF_PROGRAMS
#include "cpu/client/nccl/calls.h"

#define BENCH_NAME "puts"
#include "synthetic_benchmark/bench_nccl.h"

enum { TURNS = 200, REPEAT = 9, LARGE = 5, INT8 = 0, SYMMETRIC = 1 };

static struct {
    struct nccl_comm *comm;
    CUcontext context;
    CUstream stream;
    CUdeviceptr from, into;
    struct nccl_window *window, *source;
} own[2];

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

static void *at(CUdeviceptr address) { return (void *)(uintptr_t)address; }
static core_stream stream_of(int i) { return (core_stream)(uintptr_t)own[i].stream; }

static void give(int i, size_t bytes, int puts)
{
    if (puts)
        GOOD(ncclPutSignal(at(own[i].from), bytes, INT8, 1 - i, own[i].window, 0, 0, 0, 0, own[i].comm, stream_of(i)));
    else
        GOOD(ncclSend(at(own[i].from), bytes, INT8, 1 - i, own[i].comm, stream_of(i)));
}

static void take(int i, size_t bytes, int puts)
{
    struct nccl_signals one = { 1, 1 - i, 0, 0 };
    if (puts)
        GOOD(ncclWaitSignal(1, &one, own[i].comm, stream_of(i)));
    else
        GOOD(ncclRecv(at(own[i].into), bytes, INT8, 1 - i, own[i].comm, stream_of(i)));
}

/* Seconds. both: there and back. */
static double measure(size_t bytes, int turns, int both, int puts)
{
    double begin = now();
    for (int n = 0; n < turns; n++) {
        give(0, bytes, puts);
        if (both)
            take(0, bytes, puts);
        take(1, bytes, puts);
        if (both)
            give(1, bytes, puts);
    }
    for (int i = 0; i < 2; i++)
        GOOD(cuStreamSynchronize(own[i].stream));
    return now() - begin;
}

static void open_all(size_t bytes)
{
    const int devices[] = { 0, 1 };
    struct nccl_comm *comms[2];
    GOOD(cuInit(0));
    GOOD(ncclCommInitAll(comms, 2, devices));
    GOOD(ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        own[i].comm = comms[i];
        GOOD(cuDevicePrimaryCtxRetain(&own[i].context, i));
        GOOD(cuCtxSetCurrent(own[i].context));
        GOOD(cuStreamCreate(&own[i].stream, CU_STREAM_NON_BLOCKING));
        GOOD(cuMemAlloc(&own[i].from, bytes));
        GOOD(cuMemAlloc(&own[i].into, bytes));
        GOOD(cuMemsetD8(own[i].from, 7, bytes));
        GOOD(cuMemsetD8(own[i].into, 0, bytes));
        GOOD(ncclCommWindowRegister(own[i].comm, at(own[i].from), bytes, &own[i].source, SYMMETRIC));
        GOOD(ncclCommWindowRegister(own[i].comm, at(own[i].into), bytes, &own[i].window, SYMMETRIC));
    }
    GOOD(ncclGroupEnd());
}

int main(int argc, char **argv)
{
    const size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 64ul << 20;
    double small[2][REPEAT], large[2][LARGE], latency[REPEAT], rate[LARGE];
    open_all(bytes);
    for (int puts = 0; puts < 2; puts++) { /* once before, unmeasured */
        measure(8, TURNS, 1, puts);
        measure(bytes, 1, 0, puts);
    }
    for (int n = 0; n < REPEAT; n++) {
        for (int puts = 0; puts < 2; puts++)
            small[puts][n] = measure(8, TURNS, 1, puts) / TURNS / 2 * 1e6;
        latency[n] = small[1][n] / small[0][n];
    }
    for (int n = 0; n < LARGE; n++) {
        for (int puts = 0; puts < 2; puts++)
            large[puts][n] = (double)bytes * 4 / 1e6 / measure(bytes, 4, 0, puts);
        rate[n] = large[1][n] / large[0][n];
    }
    printf("{\"put_us\": %.1f, \"send_us\": %.1f, \"latency\": %.2f, ", median(small[1], REPEAT),
           median(small[0], REPEAT), median(latency, REPEAT));
    printf("\"put_mb_s\": %.0f, \"send_mb_s\": %.0f, \"rate\": %.3f}\n", median(large[1], LARGE),
           median(large[0], LARGE), median(rate, LARGE));
    for (int i = 0; i < 2; i++)
        GOOD(ncclCommDestroy(own[i].comm));
    return 0;
}
