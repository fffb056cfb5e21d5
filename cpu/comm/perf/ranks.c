/* ranks.c: flyt-comm-perf --ranks: all-reduce of several ranks, which meet in a folder; of two ranks also raw streams,
   in both directions at once, in the same repetition. Rank 0 measures. See perf.h. */
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

/* ---- raw streams between two ranks: both directions at once ---- */

struct raw_pair {
    bool used;
    struct perf_raw peer; /* where the other rank listens */
    int fds[COMM_NICS_MOST];
    unsigned count, channels;
    uint8_t *in, *out;
    uint64_t size;
    int status; /* of the receiving thread */
};

static int raw_open(const struct perf_options *o, struct comm_store *store, unsigned channels, uint64_t largest,
                    struct raw_pair *raw, char *error)
{
    struct perf_raw own;
    char key[16];
    size_t size = 0;
    raw->channels = channels;
    raw->in = malloc(largest);
    raw->out = malloc(largest);
    if (!raw->in || !raw->out)
        return -ENOMEM;
    memset(raw->in, 0, largest);
    memset(raw->out, 0, largest);
    memset(&own, 0, sizeof own);
    int status = perf_raw_listen(o, &own, raw->fds, error);
    if (status < 0)
        return status;
    raw->used = true;
    raw->count = own.count;
    snprintf(key, sizeof key, "raw_%u", o->rank);
    status = comm_store_set(store, key, &own, sizeof own, soon(), error);
    snprintf(key, sizeof key, "raw_%u", 1 - o->rank);
    if (status == 0)
        status = comm_store_get(store, key, &raw->peer, sizeof raw->peer, &size, soon(), error);
    return status == 0 && size != sizeof raw->peer ? -EPROTO : status;
}

static void raw_close(struct raw_pair *raw)
{
    for (unsigned i = 0; i < raw->count; i++)
        close(raw->fds[i]);
    free(raw->in);
    free(raw->out);
}

static void *raw_receive(void *context)
{
    struct raw_pair *raw = context;
    raw->status = perf_raw_receive(raw->fds, raw->count, raw->channels, raw->in, raw->size);
    return NULL;
}

/* What an all-reduce of so many bytes moves between two ranks, without the sums. */
static int raw_exchange(struct raw_pair *raw, uint64_t size, double *us)
{
    pthread_t thread;
    uint64_t ns, begin = clock_now();
    raw->size = size;
    int status = -pthread_create(&thread, NULL, raw_receive, raw);
    if (status < 0)
        return status;
    status = perf_raw_send(&raw->peer, raw->channels, raw->out, size, &ns);
    pthread_join(thread, NULL);
    *us = (double)(clock_now() - begin) / 1e3;
    return status < 0 ? status : raw->status;
}

/* ---- all-reduce ---- */

struct perf_times {
    double us, raw_us, ratio; /* medians; ratio: of raw_us / us of one repetition */
};

/* All ranks call it alike. */
static int time_all_reduce(struct comm_context *context, struct raw_pair *raw, float *memory, uint64_t size,
                           unsigned repeat, struct perf_times *out, char *error)
{
    const struct comm_call call = { .kind = COMM_ALL_REDUCE,
                                    .in = memory,
                                    .out = memory,
                                    .count = size / sizeof(float),
                                    .type = COMM_FLOAT32,
                                    .operation = COMM_SUM };
    const bool large = size > COMM_EAGER;
    double *times = calloc(3 * repeat, sizeof *times), *raws = times + repeat, *ratios = raws + repeat;
    int status = times ? comm_call(context, &call, soon(), error) : -ENOMEM;
    for (unsigned i = 0; i < repeat && status == 0; i++) {
        status = large ? barrier(context, error) : 0;
        uint64_t begin = clock_now();
        if (status == 0)
            status = comm_call(context, &call, soon(), error);
        times[i] = (double)(clock_now() - begin) / 1e3;
        if (status == 0 && large && raw->used)
            status = barrier(context, error);
        if (status == 0 && large && raw->used)
            status = raw_exchange(raw, size, &raws[i]);
        ratios[i] = raws[i] / times[i];
    }
    if (status == 0)
        *out = (struct perf_times){ .us = perf_median(times, repeat),
                                    .raw_us = perf_median(raws, repeat),
                                    .ratio = perf_median(ratios, repeat) };
    free(times);
    return status;
}

static void print_size(const struct perf_options *o, uint64_t size, const struct perf_times *times)
{
    double mb = (double)size / times->us, bus = mb * 2 * (o->ranks - 1) / o->ranks;
    if (o->json)
        printf("{\"ranks\": %u, \"bytes\": %llu, \"us\": %.1f, \"mb_s\": %.1f, \"bus_mb_s\": %.1f", o->ranks,
               (unsigned long long)size, times->us, mb, bus);
    else
        printf("%12llu  %12.1f  %10.1f  %10.1f", (unsigned long long)size, times->us, mb, bus);
    if (times->raw_us > 0)
        printf(o->json ? ", \"raw_mb_s\": %.1f, \"ratio\": %.3f" : "  %10.1f  %6.3f", (double)size / times->raw_us,
               times->ratio);
    puts(o->json ? "}" : "");
    fflush(stdout);
}

static void print_head(const struct perf_options *o, bool raw, double made_ms, double us)
{
    if (o->json)
        printf("{\"ranks\": %u, \"made_ms\": %.1f, \"all_reduce_8_us\": %.1f}\n", o->ranks, made_ms, us);
    else
        printf("%u ranks, connected in %.1f ms; all-reduce of 8 bytes: %.1f us (median)\n%12s  %12s  %10s  %10s%s\n",
               o->ranks, made_ms, us, "bytes", "us", "MB/s", "bus MB/s", raw ? "    raw MB/s   ratio" : "");
}

static int measure(const struct perf_options *o, struct comm_context *context, struct raw_pair *raw, uint64_t largest,
                   double made_ms, char *error)
{
    struct perf_times times;
    float *memory = malloc(largest);
    if (!memory)
        return -ENOMEM;
    memset(memory, 0, largest); /* its pages are there before anything is timed */
    int status = time_all_reduce(context, raw, memory, 8, SMALL_CALLS, &times, error);
    if (status == 0 && o->rank == 0)
        print_head(o, raw->used, made_ms, times.us);
    for (unsigned i = 0; i < o->size_count && status == 0; i++) {
        status = time_all_reduce(context, raw, memory, o->sizes[i] / 4 * 4, o->repeat, &times, error);
        if (status == 0 && o->rank == 0)
            print_size(o, o->sizes[i] / 4 * 4, &times);
    }
    free(memory);
    return status;
}

static int measure_all(const struct perf_options *o, struct comm_context *context, struct comm_store *store,
                       double made_ms, char *error)
{
    struct raw_pair raw = { .used = false };
    uint64_t largest = 8;
    for (unsigned i = 0; i < o->size_count; i++)
        largest = o->sizes[i] > largest ? o->sizes[i] : largest;
    int status = o->ranks == 2 && !o->no_raw
                     ? raw_open(o, store, o->channels ? o->channels : COMM_CHANNELS_USUAL, largest, &raw, error)
                     : 0;
    if (status == 0)
        status = measure(o, context, &raw, largest, made_ms, error);
    raw_close(&raw);
    return status;
}

int perf_rank(const struct perf_options *o)
{
    const struct comm_settings settings = perf_settings(o);
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
        status = measure_all(o, context, store, made_ms, error);
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
