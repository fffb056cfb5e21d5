/* ranks.c: flyt-comm-perf --ranks: all-reduce of several ranks, which meet in a folder. Rank 0 measures. See perf.h. */
#include "cpu/comm/perf/perf.h"

#include "cpu/comm/comm.h"
#include "cpu/common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALL_SECONDS = 120, SMALL_CALLS = 1000 };

static uint64_t soon(void) { return clock_now() + CALL_SECONDS * CLOCK_NS_PER_SECOND; }

static int barrier(struct comm_context *context, char *error)
{
    const struct comm_call call = { .kind = COMM_BARRIER };
    return comm_call(context, &call, soon(), error);
}

/* In us, the median. All ranks call it alike. */
static int time_all_reduce(struct comm_context *context, float *memory, uint64_t size, unsigned repeat, double *us,
                           char *error)
{
    const struct comm_call call = { .kind = COMM_ALL_REDUCE,
                                    .in = memory,
                                    .out = memory,
                                    .count = size / sizeof(float),
                                    .type = COMM_FLOAT32,
                                    .operation = COMM_MAXIMUM };
    double *times = malloc(repeat * sizeof *times);
    int status = times ? comm_call(context, &call, soon(), error) : -ENOMEM;
    for (unsigned i = 0; i < repeat && status == 0; i++) {
        status = size > COMM_EAGER ? barrier(context, error) : 0;
        uint64_t begin = clock_now();
        if (status == 0)
            status = comm_call(context, &call, soon(), error);
        times[i] = (double)(clock_now() - begin) / 1e3;
    }
    if (status == 0)
        *us = perf_median(times, repeat);
    free(times);
    return status;
}

static void print_size(const struct perf_options *o, uint64_t size, double us)
{
    double mb = (double)size / us, bus = mb * 2 * (o->ranks - 1) / o->ranks;
    if (o->json)
        printf("{\"ranks\": %u, \"bytes\": %llu, \"us\": %.1f, \"mb_s\": %.1f, \"bus_mb_s\": %.1f}\n", o->ranks,
               (unsigned long long)size, us, mb, bus);
    else
        printf("%12llu  %12.1f  %10.1f  %10.1f\n", (unsigned long long)size, us, mb, bus);
    fflush(stdout);
}

static int measure(const struct perf_options *o, struct comm_context *context, double made_ms, char *error)
{
    uint64_t largest = 8;
    double us;
    for (unsigned i = 0; i < o->size_count; i++)
        largest = o->sizes[i] > largest ? o->sizes[i] : largest;
    float *memory = malloc(largest);
    if (!memory)
        return -ENOMEM;
    memset(memory, 0, largest); /* its pages are there before anything is timed */
    bool says = o->rank == 0;
    int status = time_all_reduce(context, memory, 8, SMALL_CALLS, &us, error);
    if (status == 0 && says && o->json)
        printf("{\"ranks\": %u, \"made_ms\": %.1f, \"all_reduce_8_us\": %.1f}\n", o->ranks, made_ms, us);
    else if (status == 0 && says)
        printf("%u ranks, connected in %.1f ms; all-reduce of 8 bytes: %.1f us (median)\n%12s  %12s  %10s  %10s\n",
               o->ranks, made_ms, us, "bytes", "us", "MB/s", "bus MB/s");
    for (unsigned i = 0; i < o->size_count && status == 0; i++) {
        status = time_all_reduce(context, memory, o->sizes[i] / 4 * 4, o->repeat, &us, error);
        if (status == 0 && says)
            print_size(o, o->sizes[i] / 4 * 4, us);
    }
    free(memory);
    return status;
}

int perf_rank(const struct perf_options *o)
{
    const struct comm_settings settings = { .interfaces = o->interfaces,
                                            .channels = o->channels,
                                            .tls = strcmp(o->transport, "tls") == 0,
                                            .no_shared_memory = strcmp(o->transport, "shm") != 0 };
    struct comm_engine *engine = NULL;
    struct comm_store *store = NULL;
    struct comm_context *context = NULL;
    char error[RPC_ERROR_SIZE] = "";
    int status = comm_engine_create(&settings, &engine, error);
    if (status == 0)
        status = comm_store_file(o->store, &store, error);
    const struct comm_context_settings ranks = { .rank = o->rank, .size = o->ranks, .engine = engine };
    uint64_t begin = clock_now();
    if (status == 0)
        status = comm_context_create(&ranks, store, &context, error);
    if (status == 0)
        status = comm_context_connect_full_mesh(context, soon(), error);
    if (status == 0)
        status = barrier(context, error);
    double made_ms = (double)(clock_now() - begin) / 1e6;
    if (status == 0)
        status = measure(o, context, made_ms, error);
    if (status == 0)
        status = barrier(context, error);
    comm_context_destroy(context);
    comm_store_destroy(store);
    comm_engine_destroy(engine);
    if (status < 0)
        fprintf(stderr, "flyt-comm-perf: rank %u: %s\n", o->rank, *error ? error : strerror(-status));
    return status < 0;
}

int perf_ranks(struct perf_options *o)
{
    char folder[] = "/tmp/flyt-comm-perf-XXXXXX", command[64];
    int worst = 0, status;
    if (!o->interfaces)
        o->interfaces = "lo";
    if (!mkdtemp(folder)) {
        fprintf(stderr, "flyt-comm-perf: a folder in /tmp: %s\n", strerror(errno));
        return 1;
    }
    o->store = folder;
    fflush(stdout);
    for (unsigned r = 0; r < o->ranks; r++) {
        pid_t child = fork();
        if (child == 0) {
            o->rank = r;
            _exit(perf_rank(o));
        }
        worst |= child < 0;
    }
    while (wait(&status) > 0)
        worst |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0 || worst;
}
