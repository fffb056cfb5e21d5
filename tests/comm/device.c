/*
 * device.c RANK RANKS FOLDER: a rank that knows flyt_comm.h and CUDA's Driver API only, with buffers of its GPU; the
 * ranks meet in a store in FOLDER. device.py starts them.
 */
#include <cuda.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/comm/flyt_comm.h"

enum { COUNT = 1000, MOST = 8, LIMIT = 60000 };

static unsigned me, ranks;
static CUdeviceptr in, out;
static CUstream stream;
static int32_t host[MOST * COUNT];

static void must(int status, const char *what)
{
    if (status == 0)
        return;
    printf("rank %u: %s: %d: %s\n", me, what, status, flyt_comm_error());
    exit(1);
}

static void need(int holds, const char *what)
{
    if (holds)
        return;
    printf("rank %u: wrong: %s: %d %d %d\n", me, what, host[0], host[1], host[2]);
    exit(1);
}

/* Value i of what a rank gives. */
static int32_t given(unsigned rank, int i) { return (int32_t)rank * 10000 + i; }

static void fetch(void)
{
    must((int)cuMemcpyDtoHAsync(host, out, sizeof host, stream), "a copy");
    must((int)cuMemsetD8Async(out, 0, sizeof host, stream), "a memset");
    must((int)cuStreamSynchronize(stream), "waiting for the stream");
}

static void call(flyt_device *device, flyt_collective c)
{
    c.in = (const void *)(uintptr_t)in;
    c.out = (void *)(uintptr_t)out;
    c.type = FLYT_INT32;
    c.count = COUNT;
    must(flyt_device_call(device, &c, stream), "a collective");
    fetch();
}

static void collectives(flyt_device *device)
{
    const int32_t all = (int32_t)(ranks * (ranks - 1) / 2 * 10000), factor = (int32_t)me + 1;
    call(device, (flyt_collective){ .kind = FLYT_BARRIER });
    call(device, (flyt_collective){ .kind = FLYT_ALL_REDUCE });
    need(host[5] == all + (int32_t)ranks * 5, "all-reduce");
    call(device, (flyt_collective){ .kind = FLYT_REDUCE, .operation = FLYT_MAXIMUM, .root = 1 });
    need(me != 1 || host[7] == given(ranks - 1, 7), "reduce");
    call(device, (flyt_collective){ .kind = FLYT_BROADCAST, .root = 1 });
    need(host[9] == given(1, 9), "broadcast");
    call(device, (flyt_collective){ .kind = FLYT_ALL_GATHER });
    need(host[COUNT + 3] == given(1, 3), "all-gather");
    call(device, (flyt_collective){ .kind = FLYT_GATHER });
    need(me != 0 || host[COUNT + 4] == given(1, 4), "gather");
    call(device, (flyt_collective){ .kind = FLYT_SCATTER });
    need(host[2] == given(0, (int)me * COUNT + 2), "scatter");
    call(device, (flyt_collective){ .kind = FLYT_REDUCE_SCATTER, .operation = FLYT_MINIMUM });
    need(host[2] == given(0, (int)me * COUNT + 2), "reduce-scatter");
    call(device, (flyt_collective){ .kind = FLYT_ALL_TO_ALL });
    need(host[COUNT + 1] == given(1, (int)me * COUNT + 1), "all-to-all");
    call(device, (flyt_collective){ .kind = FLYT_ALL_REDUCE, .operation = FLYT_MULTIPLIED_SUM, .factor = &factor });
    int32_t sum = 0;
    for (unsigned r = 0; r < ranks; r++)
        sum += (int32_t)(r + 1) * given(r, 3);
    need(host[3] == sum, "multiplied sum");
}

/* Rank r has r + 1 elements; between two ranks go as many as their numbers together. */
static void parts(flyt_device *device)
{
    uint64_t counts[MOST], sends[MOST], gets[MOST];
    unsigned before = me * (me + 1) / 2;
    for (unsigned r = 0; r < ranks; r++) {
        counts[r] = r + 1;
        sends[r] = gets[r] = r + me;
    }
    call(device, (flyt_collective){ .kind = FLYT_ALL_GATHER, .counts = counts });
    need(host[0] == given(0, 0) && host[1] == given(1, 0) && host[2] == given(1, 1), "parts of an all-gather");
    call(device, (flyt_collective){ .kind = FLYT_GATHER, .counts = counts, .root = 1 });
    need(me != 1 || (host[1] == given(1, 0) && host[2] == given(1, 1)), "parts of a gather");
    call(device, (flyt_collective){ .kind = FLYT_SCATTER, .counts = counts, .root = 1 });
    need(host[me] == given(1, (int)(before + me)), "parts of a scatter");
    call(device, (flyt_collective){ .kind = FLYT_ALL_TO_ALL, .counts = sends, .in_counts = gets });
    /* What comes from rank 1 stands behind that of rank 0, and was behind what rank 1 gave the ranks before. */
    unsigned at = 0;
    for (unsigned r = 0; r < me; r++)
        at += r + 1;
    need(host[me] == given(1, (int)at), "parts of an all-to-all");
    const flyt_collective refused = { .kind = FLYT_REDUCE_SCATTER, .counts = counts };
    need(flyt_device_call(device, &refused, stream) == -ENOTSUP, "parts of a reduce-scatter");
}

static void messages(flyt_device *device)
{
    const unsigned next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    if (me % 2 == 0)
        must(flyt_device_send(device, next, (const void *)(uintptr_t)in, 4000, stream), "a send");
    must(flyt_device_receive(device, before, (void *)(uintptr_t)out, 4000, stream), "a receive");
    if (me % 2)
        must(flyt_device_send(device, next, (const void *)(uintptr_t)in, 4000, stream), "a send");
    fetch();
    need(host[999] == given(before, 999), "a message");
}

int main(int argc, char **argv)
{
    flyt_store *store;
    flyt_context *context;
    flyt_device *device;
    CUdevice gpu;
    CUcontext cuda;
    if (argc < 4)
        return 2;
    me = (unsigned)atoi(argv[1]);
    ranks = (unsigned)atoi(argv[2]);
    must((int)cuInit(0), "CUDA");
    must((int)cuDeviceGet(&gpu, (int)me), "the GPU");
    must((int)cuDevicePrimaryCtxRetain(&cuda, gpu), "a context of CUDA");
    must((int)cuCtxSetCurrent(cuda), "a context of CUDA");
    must((int)cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "a stream");
    must((int)cuMemAlloc(&in, sizeof host), "memory");
    must((int)cuMemAlloc(&out, sizeof host), "memory");
    for (int i = 0; i < MOST * COUNT; i++)
        host[i] = given(me, i);
    must((int)cuMemcpyHtoD(in, host, sizeof host), "a copy");
    must(flyt_store_file(argv[3], &store), "the store");
    const flyt_context_options options = { .rank = me, .size = ranks, .interfaces = "lo" };
    must(flyt_context_create(&options, store, &context), "a context");
    must(flyt_device_create(context, &device), "the rank's GPU");
    collectives(device);
    parts(device);
    messages(device);
    must(flyt_device_status(device), "the status");
    must(flyt_barrier(context, LIMIT), "a barrier");
    /* The last rank aborts; the others learn it. */
    if (me == ranks - 1) {
        flyt_device_destroy(device, "enough");
    } else {
        const flyt_collective again = { .kind = FLYT_BARRIER };
        for (int tries = 0; flyt_device_call(device, &again, stream) == 0 && flyt_device_status(device) == 0 &&
                            tries < 1000; tries++)
            cuStreamSynchronize(stream);
        need(flyt_device_status(device) == -ECONNRESET && strstr(flyt_comm_error(), "abort"), "the other rank's abort");
        flyt_device_destroy(device, NULL);
    }
    flyt_context_destroy(context);
    flyt_store_destroy(store);
    printf("rank %u: all good\n", me);
    return 0;
}
