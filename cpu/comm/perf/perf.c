/* perf.c: flyt-comm-perf(1). See perf.h. */
#include "cpu/comm/perf/perf.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "cpu/common/version.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOIN_SECONDS = 60, PINGS = 1000, RANKS_MOST = 64 };
#define SIZE_MOST (UINT64_C(1) << 34)

static const char usage[] =
    "usage: flyt-comm-perf [OPTION...]             both ends on this machine\n"
    "       flyt-comm-perf --serve [OPTION...]     one end, for --to of another machine\n"
    "       flyt-comm-perf --to HOST [OPTION...]   the other end, which measures\n"
    "       flyt-comm-perf --ranks N [--rank R --store FOLDER] [OPTION...]\n"
    "       flyt-comm-perf --gpus URI,URI [OPTION...]\n"
    "\n"
    "Measures a link of several channels, and raw streams of the same number of connections; or, with --ranks,\n"
    "all-reduce of N ranks, which are processes of this machine unless each is started with --rank and --store.\n"
    "With --gpus: transfers from a GPU of one server to one of another, which were started with --links; and how many\n"
    "bytes this program's own connections carry for each.\n"
    "\n"
    "  -s, --size LIST          bytes of a transfer, as 64K,1M,256M (64K,1M,16M,256M)\n"
    "  -n, --repeat N           repetitions of each size; the median counts (5)\n"
    "  -c, --channels N         data channels, 1 to 16 (FLYT_CHANNELS, or 8)\n"
    "  -t, --transport WHICH    tcp, tls, shm, ucx, or ucx-in-clear, where TLS protects the keys only\n"
    "                           (FLYT_LINK_TRANSPORT if that is ucx or ucx-in-clear, else tcp)\n"
    "  -i, --interfaces LIST    network cards (FLYT_COMM_INTERFACES, or all; lo if both ends are here)\n"
    "      --no-raw             no raw streams\n"
    "      --json               one JSON object on a line for each size\n"
    "  -h, --help, -V, --version\n"
    "\n"
    "The ends meet at port FLYT_BOOTSTRAP_PORT_BASE (20000).\n";

/* ---- transfers that are waited for ---- */

struct perf_waiting {
    struct comm_transfer t;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void finished(struct comm_transfer *t)
{
    struct perf_waiting *w = t->context;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static int carry(struct comm_link *link, uint64_t space, uint64_t number, void *memory, uint64_t size,
                 int (*post)(struct comm_link *, struct comm_transfer *))
{
    struct perf_waiting w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    w.t = (struct comm_transfer){
        .name = { space, number }, .memory = memory, .size = size, .done = finished, .context = &w
    };
    int posted = post(link, &w.t);
    pthread_mutex_lock(&w.lock);
    while (posted == 0 && !w.done)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
    return posted < 0 ? posted : w.t.status;
}

static int perf_send(struct comm_link *link, uint64_t space, uint64_t number, const void *memory, uint64_t size)
{
    return carry(link, space, number, (void *)(uintptr_t)memory, size, comm_link_send);
}

static int perf_receive(struct comm_link *link, uint64_t space, uint64_t number, void *memory, uint64_t size)
{
    return carry(link, space, number, memory, size, comm_link_receive);
}

/* ---- both ends ---- */

static int fail(const char *what, int status, const char *why)
{
    fprintf(stderr, "flyt-comm-perf: %s: %s\n", what, why && *why ? why : strerror(-status));
    return 1;
}

struct comm_settings perf_settings(const struct perf_options *o)
{
    bool ucx = strncmp(o->transport, "ucx", 3) == 0;
    return (struct comm_settings){ .interfaces = o->interfaces,
                                   .channels = o->channels,
                                   .transport = ucx ? o->transport : "sockets",
                                   .tls = strcmp(o->transport, "tls") == 0 || strcmp(o->transport, "ucx-in-clear") == 0,
                                   .no_shared_memory = strcmp(o->transport, "shm") != 0 };
}

/* Handles and addresses in one message. */
struct perf_meeting {
    uint8_t handles[COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
    uint32_t count;
    struct perf_raw raw;
};

static int join(const struct perf_options *o, int fd, struct perf_end *end, const struct perf_raw *mine,
                struct perf_raw *theirs, char *error)
{
    const struct comm_settings settings = perf_settings(o);
    static struct perf_meeting here, there;
    size_t got = 0;
    unsigned count = 0;
    uint64_t deadline = clock_now() + JOIN_SECONDS * CLOCK_NS_PER_SECOND;
    int status = comm_engine_create(&settings, &end->engine, error);
    if (status == 0)
        status = comm_link_create(end->engine, NULL, &end->link, error);
    if (status == 0)
        status = comm_link_listen(end->link, here.handles, &count, error);
    here.count = count;
    here.raw = *mine;
    if (status == 0)
        status = comm_bootstrap_exchange(fd, &here, sizeof here, &there, sizeof there, &got, deadline, error);
    if (status == 0 && (got != sizeof there || there.count > COMM_HANDLES_MOST || there.raw.count < 1 ||
                        there.raw.count > COMM_NICS_MOST)) {
        snprintf(error, RPC_ERROR_SIZE, "the other end is of another release");
        status = -EPROTO;
    }
    if (status == 0)
        status = comm_link_join(end->link, there.handles, there.count, deadline, error);
    *theirs = there.raw;
    return status;
}

static int resize(struct perf_end *end, uint64_t size)
{
    if (size <= end->size)
        return 0;
    uint8_t *larger = size > SIZE_MOST ? NULL : realloc(end->memory, size);
    if (!larger)
        return -ENOMEM;
    memset(larger + end->size, 0x5a, size - end->size); /* its pages are there before anything is timed */
    end->memory = larger;
    end->size = size;
    return 0;
}

static void leave(struct perf_end *end)
{
    comm_link_close(end->link);
    comm_engine_destroy(end->engine);
    free(end->memory);
}

/* ---- the end that serves ---- */

static int serve_one(struct perf_end *end, const struct perf_command *c, const int *fds, unsigned count)
{
    int status = resize(end, c->size);
    char byte = 0;
    switch (c->wish) {
    case PERF_LINK:
        for (uint64_t i = 0; i < c->count && status == 0; i++)
            status = perf_receive(end->link, SPACE_DATA, ++end->pieces, end->memory, c->size);
        return status < 0 ? status : perf_send(end->link, SPACE_TAKEN, end->pieces, &byte, 1);
    case PERF_RAW:
        if (status == 0 && c->channels >= 1 && c->channels <= COMM_CHANNELS_MOST)
            status = perf_raw_receive(fds, count, c->channels, end->memory, c->size);
        return status;
    case PERF_PING:
        for (uint64_t i = 0; i < c->count && status == 0; i++) {
            status = perf_receive(end->link, SPACE_PING, ++end->pings, &byte, 1);
            if (status == 0)
                status = perf_send(end->link, SPACE_ANSWER, end->pings, &byte, 1);
        }
        return status;
    default: return -EPROTO;
    }
}

static int serve(const struct perf_options *o, int fd)
{
    struct perf_end end = { 0 };
    struct perf_raw mine = { 0 }, theirs;
    struct perf_command command = { 0 };
    char error[RPC_ERROR_SIZE] = "";
    int fds[COMM_NICS_MOST], status = perf_raw_listen(o, &mine, fds, error);
    if (status == 0)
        status = join(o, fd, &end, &mine, &theirs, error);
    close(fd);
    while (status == 0) {
        status = perf_receive(end.link, SPACE_COMMAND, ++end.commands, &command, sizeof command);
        if (status == 0 && command.wish == PERF_END)
            break;
        if (status == 0)
            status = serve_one(&end, &command, fds, mine.count);
    }
    leave(&end);
    for (unsigned i = 0; i < mine.count; i++)
        close(fds[i]);
    return status < 0 ? fail("serving", status, error) : 0;
}

/* ---- the end that measures ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double perf_median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int want(struct perf_end *end, struct perf_command command)
{
    return perf_send(end->link, SPACE_COMMAND, ++end->commands, &command, sizeof command);
}

static int time_link(struct perf_end *end, uint64_t size, double *mb)
{
    char byte;
    int status = want(end, (struct perf_command){ .wish = PERF_LINK, .size = size, .count = 1 });
    uint64_t begin = clock_now();
    if (status == 0)
        status = perf_send(end->link, SPACE_DATA, ++end->pieces, end->memory, size);
    if (status == 0)
        status = perf_receive(end->link, SPACE_TAKEN, end->pieces, &byte, 1);
    *mb = (double)size * 1e3 / (double)(clock_now() - begin);
    return status;
}

static int time_raw(struct perf_end *end, const struct perf_raw *raw, uint64_t size, double *mb)
{
    uint64_t ns = 1;
    unsigned channels = comm_link_channels(end->link);
    int status = want(end, (struct perf_command){ .wish = PERF_RAW, .size = size, .channels = channels });
    if (status == 0)
        status = perf_raw_send(raw, channels, end->memory, size, &ns);
    *mb = (double)size * 1e3 / (double)ns;
    return status;
}

static int measure_size(const struct perf_options *o, struct perf_end *end, const struct perf_raw *raw, uint64_t size)
{
    static double link[REPEAT_MOST], streams[REPEAT_MOST], ratio[REPEAT_MOST];
    double warm;
    int status = resize(end, size);
    if (status == 0)
        status = time_link(end, size, &warm);
    for (unsigned i = 0; i < o->repeat && status == 0; i++) {
        status = time_link(end, size, &link[i]);
        if (status == 0 && !o->no_raw)
            status = time_raw(end, raw, size, &streams[i]);
        ratio[i] = status == 0 && !o->no_raw ? link[i] / streams[i] : 0;
    }
    if (status < 0)
        return status;
    const char *transport = comm_link_transport(end->link);
    unsigned channels = comm_link_channels(end->link);
    double mb = perf_median(link, o->repeat), raw_mb = o->no_raw ? 0 : perf_median(streams, o->repeat),
           of = perf_median(ratio, o->repeat);
    if (o->json && o->no_raw)
        printf("{\"transport\": \"%s\", \"channels\": %u, \"bytes\": %llu, \"link_mb_s\": %.1f}\n", transport, channels,
               (unsigned long long)size, mb);
    else if (o->json)
        printf("{\"transport\": \"%s\", \"channels\": %u, \"bytes\": %llu, \"link_mb_s\": %.1f, \"raw_mb_s\": %.1f, "
               "\"ratio\": %.3f}\n",
               transport, channels, (unsigned long long)size, mb, raw_mb, of);
    else if (o->no_raw)
        printf("%12llu  %10.1f\n", (unsigned long long)size, mb);
    else
        printf("%12llu  %10.1f  %10.1f  %6.3f\n", (unsigned long long)size, mb, raw_mb, of);
    fflush(stdout);
    return 0;
}

static int measure_latency(const struct perf_options *o, struct perf_end *end)
{
    static double half[PINGS];
    char byte = 0;
    int status = want(end, (struct perf_command){ .wish = PERF_PING, .count = PINGS });
    for (unsigned i = 0; i < PINGS && status == 0; i++) {
        uint64_t begin = clock_now();
        status = perf_send(end->link, SPACE_PING, ++end->pings, &byte, 1);
        if (status == 0)
            status = perf_receive(end->link, SPACE_ANSWER, end->pings, &byte, 1);
        half[i] = (double)(clock_now() - begin) / 2e3;
    }
    if (status < 0)
        return status;
    double us = perf_median(half, PINGS);
    if (o->json)
        printf("{\"transport\": \"%s\", \"channels\": %u, \"latency_us\": %.1f, \"latency_p99_us\": %.1f}\n",
               comm_link_transport(end->link), comm_link_channels(end->link), us, half[PINGS * 99 / 100]);
    else
        printf("one way, 1 byte: %.1f us (median), %.1f us (99 %%)\n", us, half[PINGS * 99 / 100]);
    fflush(stdout);
    return 0;
}

static int measure(const struct perf_options *o, int fd)
{
    struct perf_end end = { 0 };
    struct perf_raw mine = { .count = 1 }, theirs = { 0 };
    char error[RPC_ERROR_SIZE] = "";
    int status = join(o, fd, &end, &mine, &theirs, error);
    close(fd);
    if (status == 0 && !o->json)
        printf("link over %s, %u channels, %u network cards here\n", comm_link_transport(end.link),
               comm_link_channels(end.link), comm_engine_nics(end.engine));
    if (status == 0)
        status = measure_latency(o, &end);
    if (status == 0 && !o->json)
        printf("%12s  %10s%s\n", "bytes", "link MB/s", o->no_raw ? "" : "    raw MB/s   ratio");
    for (unsigned i = 0; i < o->size_count && status == 0; i++)
        status = measure_size(o, &end, &theirs, o->sizes[i]);
    if (status == 0)
        status = want(&end, (struct perf_command){ .wish = PERF_END });
    leave(&end);
    return status < 0 ? fail("measuring", status, error) : 0;
}

/* ---- the command line ---- */

/* True: a number, and K, M or G behind it perhaps. */
static bool parse_size(const char *text, size_t length, uint64_t *size)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift > 0;
    *size = (uint64_t)value << shift;
    return end > text && end == text + length && value <= SIZE_MOST >> shift && *size >= 1;
}

static bool parse_sizes(const char *text, struct perf_options *o)
{
    for (o->size_count = 0; *text && o->size_count < sizeof o->sizes / sizeof *o->sizes;) {
        size_t length = strcspn(text, ",");
        if (!parse_size(text, length, &o->sizes[o->size_count++]))
            return false;
        text += length + (text[length] == ',');
    }
    return o->size_count > 0 && !*text;
}

static bool parse_number(const char *text, unsigned least, unsigned most, unsigned *out)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *out = (unsigned)value;
    return end > text && !*end && value >= least && value <= most;
}

static bool is_transport(const char *text)
{
    return strcmp(text, "tcp") == 0 || strcmp(text, "tls") == 0 || strcmp(text, "shm") == 0 ||
           strcmp(text, "ucx") == 0 || strcmp(text, "ucx-in-clear") == 0;
}

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct perf_options *o)
{
    enum { SERVE = 256, TO, NO_RAW, JSON, RANKS, RANK, STORE, GPUS };
    static const struct option options[] = {
        { "serve", no_argument, NULL, SERVE },
        { "to", required_argument, NULL, TO },
        { "size", required_argument, NULL, 's' },
        { "repeat", required_argument, NULL, 'n' },
        { "channels", required_argument, NULL, 'c' },
        { "transport", required_argument, NULL, 't' },
        { "interfaces", required_argument, NULL, 'i' },
        { "no-raw", no_argument, NULL, NO_RAW },
        { "ranks", required_argument, NULL, RANKS },
        { "rank", required_argument, NULL, RANK },
        { "store", required_argument, NULL, STORE },
        { "gpus", required_argument, NULL, GPUS },
        { "json", no_argument, NULL, JSON },
        { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "s:n:c:t:i:hV", options, NULL)) != -1;) {
        switch (option) {
        case SERVE: o->serve = true; break;
        case TO: o->host = optarg; break;
        case NO_RAW: o->no_raw = true; break;
        case JSON: o->json = true; break;
        case RANKS: good = parse_number(optarg, 1, RANKS_MOST, &o->ranks); break;
        case RANK: good = parse_number(optarg, 0, RANKS_MOST - 1, &o->rank); break;
        case STORE: o->store = optarg; break;
        case GPUS: o->gpus = optarg; break;
        case 's': good = parse_sizes(optarg, o); break;
        case 'n': good = parse_number(optarg, 1, REPEAT_MOST, &o->repeat); break;
        case 'c': good = parse_number(optarg, 1, COMM_CHANNELS_MOST, &o->channels); break;
        case 't': good = is_transport(o->transport = optarg); break;
        case 'i': o->interfaces = optarg; break;
        case 'h': fputs(usage, stdout); return 0;
        case 'V': printf("flyt-comm-perf %s\n", flyt_version); return 0;
        default: good = false;
        }
    }
    if (good && optind == argc && !(o->serve && o->host) && !(o->ranks && (o->serve || o->host)) &&
        !(o->gpus && (o->ranks || o->serve || o->host)) &&
        (o->ranks ? o->rank < o->ranks : !o->store))
        return -1;
    fputs("flyt-comm-perf: the command line is wrong; --help shows what may stand there\n", stderr);
    return 2;
}

static int both_here(struct perf_options *o)
{
    int pair[2], child_status = 0;
    if (!o->interfaces)
        o->interfaces = "lo";
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return fail("starting", -errno, NULL);
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return fail("starting", -errno, NULL);
    if (child == 0) {
        close(pair[0]);
        _exit(serve(o, pair[1]));
    }
    close(pair[1]);
    int status = measure(o, pair[0]);
    waitpid(child, &child_status, 0);
    return status ? status : WIFEXITED(child_status) ? WEXITSTATUS(child_status) : 1;
}

int main(int argc, char **argv)
{
    struct perf_options o = {
        .repeat = 5, .transport = "tcp", .sizes = { 64 << 10, 1 << 20, 16 << 20, 256 << 20 }, .size_count = 4
    };
    char error[RPC_ERROR_SIZE] = "";
    const char *wish = env_get("FLYT_LINK_TRANSPORT");
    log_set_name("flyt-comm-perf");
    if (wish && *wish && strcmp(wish, "sockets") != 0)
        o.transport = wish;
    int status = parse(argc, argv, &o);
    if (status >= 0)
        return status;
    if (!is_transport(o.transport))
        return fail("FLYT_LINK_TRANSPORT", -EINVAL, "it is sockets, ucx or ucx-in-clear");
    if (o.gpus)
        return perf_gpus(&o);
    if (o.ranks)
        return o.store ? perf_rank(&o) : perf_ranks(&o);
    if (!o.serve && !o.host)
        return both_here(&o);
    uint64_t deadline = clock_now() + (o.serve ? 3600 : JOIN_SECONDS) * CLOCK_NS_PER_SECOND;
    int fd = o.serve ? comm_bootstrap_accept(0, deadline, error) : comm_bootstrap_call(o.host, 0, deadline, error);
    if (fd < 0)
        return fail(o.serve ? "waiting" : o.host, fd, error);
    return o.serve ? serve(&o, fd) : measure(&o, fd);
}
