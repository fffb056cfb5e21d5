/* gpus.c: measures transfers from a GPU of one server to one of another. The servers do it; this process is their
   coordinator, and counts what its own connections carry for it. */
#include "cpu/client/coordinator/flyt_coordinator.h"
#include "cpu/comm/perf/perf.h"

#include "cpu/common/clock.h"

#include <stdio.h>
#include <string.h>

enum { JOIN_MS = 30000 };

struct perf_gpus {
    flyt_coordinator *coordinator;
    flyt_communicator *ranks;
    uint64_t from, to;
};

static int failed(void)
{
    fprintf(stderr, "flyt-comm-perf: %s\n", flyt_coordinator_error());
    return 1;
}

/* URI,URI */
static int gpus_open(const char *list, uint64_t size, struct perf_gpus *g)
{
    static const unsigned members[] = { 0, 1 };
    char first[512];
    const char *second = strchr(list, ',');
    if (!second || snprintf(first, sizeof first, "%.*s", (int)(second - list), list) >= (int)sizeof first) {
        fputs("flyt-comm-perf: --gpus takes the addresses of two GPU servers with a comma between\n", stderr);
        return 2;
    }
    const char *const servers[] = { first, second + 1 };
    if (flyt_coordinator_create(servers, 2, &g->coordinator) < 0 ||
        flyt_coordinator_memory(g->coordinator, 0, size, &g->from) < 0 ||
        flyt_coordinator_memory(g->coordinator, 1, size, &g->to) < 0 ||
        flyt_communicator_create(g->coordinator, members, 2, JOIN_MS, &g->ranks) < 0)
        return failed();
    return 0;
}

static uint64_t traffic(const struct perf_gpus *g)
{
    return flyt_coordinator_traffic(g->coordinator, 0) + flyt_coordinator_traffic(g->coordinator, 1);
}

static int gpus_measure(const struct perf_options *o, const struct perf_gpus *g, uint64_t size)
{
    double ns[REPEAT_MOST];
    uint64_t before = 0;
    for (unsigned i = 0; i <= o->repeat; i++) {            /* the first one is not counted */
        uint64_t begin = clock_now();
        before = i == 1 ? traffic(g) : before;
        if (flyt_communicator_copy(g->ranks, 0, g->from, 1, g->to, size) < 0 ||
            flyt_coordinator_wait(g->coordinator, 1) < 0)
            return failed();
        if (i)
            ns[i - 1] = (double)(clock_now() - begin);
    }
    double mb = (double)size * 1e3 / perf_median(ns, o->repeat), each = (double)(traffic(g) - before) / o->repeat;
    if (o->json)
        printf("{\"bytes\": %llu, \"gpu_mb_s\": %.1f, \"client_bytes\": %.0f}\n", (unsigned long long)size, mb, each);
    else
        printf("%12llu  %10.1f  %12.0f\n", (unsigned long long)size, mb, each);
    fflush(stdout);
    return 0;
}

int perf_gpus(const struct perf_options *o)
{
    struct perf_gpus g = { NULL, NULL, 0, 0 };
    uint64_t most = 0;
    for (unsigned i = 0; i < o->size_count; i++)
        most = o->sizes[i] > most ? o->sizes[i] : most;
    int status = gpus_open(o->gpus, most, &g);
    if (status == 0 && !o->json)
        printf("%12s  %10s  %12s\n", "bytes", "GPU MB/s", "client bytes");
    for (unsigned i = 0; i < o->size_count && status == 0; i++)
        status = gpus_measure(o, &g, o->sizes[i]);
    flyt_coordinator_destroy(g.coordinator);
    return status;
}
