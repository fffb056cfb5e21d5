/*
 * collectives.c GPUS [BYTES]: an all-reduce on so many GPUs of one process, through libnccl.so.2. One JSON object on a
 * line of stdout: how long the communicator took; of 8 bytes, the time until all ranks have the sum (median, and the
 * tenth and the nine tenths); the time of a call that is not waited for; of BYTES (64 MiB) the median of 5.
 *
 * collectives.c RANKS RANK FILE: one of so many processes with a GPU each. How long its rank took, from the moment on
 * at which all processes had reached their GPUs. Rank 0 leaves the unique id in FILE, the others FILE.RANK before.
 */
#include <cuda.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NCCL_OF_PROGRAMS
#include "cpu/client/nccl/calls.h"

#define BENCH_NAME "collectives"
#include "synthetic_benchmark/bench_nccl.h"

enum { MOST = 16, WARM = 50, TIMES = 1000, CALLS = 50, BATCHES = 20, LARGE_TIMES = 5, FLOAT32 = 7, SUM = 0 };

static int count;
static struct {
    struct nccl_comm *comm;
    CUcontext context;
    CUstream stream;
    CUdeviceptr in, out;
} own[MOST];

static void all_reduce(size_t numbers)
{
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclAllReduce((void *)(uintptr_t)own[i].in, (void *)(uintptr_t)own[i].out, numbers, FLOAT32, SUM,
                           own[i].comm, (core_stream)(uintptr_t)own[i].stream));
    GOOD(ncclGroupEnd());
}

static void wait_for_all(void)
{
    for (int i = 0; i < count; i++)
        GOOD(cuStreamSynchronize(own[i].stream));
}

/* Sorted, in seconds. */
static void measure(size_t numbers, double *times, int repeat)
{
    for (int i = 0; i < repeat; i++) {
        double begin = now();
        all_reduce(numbers);
        wait_for_all();
        times[i] = now() - begin;
    }
    qsort(times, (size_t)repeat, sizeof *times, compare);
}

/* Calls that are not waited for, all in one stream of each rank; the median of batches, of one call. */
static double call_time(void)
{
    double times[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        double begin = now();
        for (int i = 0; i < CALLS; i++)
            all_reduce(2);
        times[b] = (now() - begin) / CALLS / count;
        wait_for_all();
    }
    qsort(times, BATCHES, sizeof *times, compare);
    return times[BATCHES / 2];
}

/* ---- processes ---- */

static void leave(const char *path, const void *bytes, size_t size)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    int fd = open(part, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    GOOD(fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd) || rename(part, path));
}

/* Who started us ends us where it does not come. */
static void await(const char *path, void *bytes, size_t size)
{
    int fd;
    while ((fd = open(path, O_RDONLY)) < 0)
        usleep(200);
    GOOD(read(fd, bytes, size) != (ssize_t)size || close(fd));
}

static int one_of_processes(int ranks, int rank, const char *path)
{
    CUcontext context;
    struct nccl_comm *comm;
    nccl_id id;
    char ready[4096], nothing;
    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, rank));
    GOOD(cuCtxSetCurrent(context));
    for (int r = 1; rank == 0 && r < ranks; r++) {
        snprintf(ready, sizeof ready, "%s.%d", path, r);
        await(ready, &nothing, 0);
    }
    if (rank == 0) {
        GOOD(ncclGetUniqueId(&id));
        leave(path, &id, sizeof id);
    } else {
        snprintf(ready, sizeof ready, "%s.%d", path, rank);
        leave(ready, "", 0);
        await(path, &id, sizeof id);
    }
    double begin = now();
    GOOD(ncclCommInitRank(&comm, ranks, id, rank));
    printf("%.2f\n", (now() - begin) * 1e3);
    GOOD(ncclCommDestroy(comm));
    return 0;
}

int main(int argc, char **argv)
{
    static double times[TIMES], large[LARGE_TIMES];
    struct nccl_comm *comms[MOST];
    size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : (size_t)64 << 20;
    if (argc == 4)
        return one_of_processes(atoi(argv[1]), atoi(argv[2]), argv[3]);
    count = argc > 1 ? atoi(argv[1]) : 0;
    if (count < 1 || count > MOST)
        return 2;
    GOOD(cuInit(0));
    for (int i = 0; i < count; i++) {
        GOOD(cuDevicePrimaryCtxRetain(&own[i].context, i));
        GOOD(cuCtxSetCurrent(own[i].context));
        GOOD(cuStreamCreate(&own[i].stream, CU_STREAM_NON_BLOCKING));
        GOOD(cuMemAlloc(&own[i].in, bytes));
        GOOD(cuMemAlloc(&own[i].out, bytes));
        GOOD(cuMemsetD8(own[i].in, 0, bytes));
    }
    double begin = now();
    GOOD(ncclCommInitAll(comms, count, NULL));
    double made = now() - begin;
    for (int i = 0; i < count; i++)
        own[i].comm = comms[i];
    measure(2, times, WARM);
    measure(2, times, TIMES);
    double call = call_time();
    measure(bytes / 4, large, LARGE_TIMES);
    printf("{\"ranks\": %d, \"made_ms\": %.2f, \"small_us\": %.1f, \"small_us_10\": %.1f, \"small_us_90\": %.1f, "
           "\"call_us\": %.3f, \"bytes\": %zu, \"large_ms\": %.2f}\n",
           count, made * 1e3, times[TIMES / 2] * 1e6, times[TIMES / 10] * 1e6, times[TIMES * 9 / 10] * 1e6, call * 1e6,
           bytes, large[LARGE_TIMES / 2] * 1e3);
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(comms[i]));
    return 0;
}
