/*
 * latency: what the rpc layer costs by itself, over each transport. Not a test: `build/plain/tests/rpc_latency
 * [shm|unix|tcp|local …]`. The server is a process of its own, except for local. Figures of one run compare with each
 * other only.
 */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUND_TRIPS = 20000, BURST = 200000, COPIES = 200 };

static rpc_client *client;
static cpu_set_t   everywhere;

static void *help(void *context)
{
    (void)context;
    events_args args = { 0 };
    events_result result = { 0 };
    struct rpc_call call = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &args,
                             .decode = (xdrproc_t)xdr_events_result, .result = &result };
    if (rpc_client_submit(client, &call) == RPC_SUCCESS)
        rpc_client_attend(client, &call);
    return NULL;
}

/* Client and server on processors of their own, as far as there are two: what the scheduler would do on an idle
   machine. ONE_CPU=1 puts both on one. */
static void place(bool server)
{
    cpu_set_t all, one;
    int wanted = server && !getenv("ONE_CPU");
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || wanted-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        return;
    }
}

static double seconds(uint64_t since)
{
    return (double)(clock_now() - since) / 1e9;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void wait_for_all(void)
{
    context_args context = { 0 };
    memory_info_result info = { 0 };
    if (flyt_memory_info_1(&context, &info, stub_of(client)) != RPC_SUCCESS)
        exit(1);
}

static uint64_t times[ROUND_TRIPS];

static double percentile(unsigned percent)
{
    qsort(times, ROUND_TRIPS, sizeof times[0], compare);
    return (double)times[ROUND_TRIPS * percent / 100] / 1e3;
}

/* Waits as rpc_channel_receive_spinning does. */
static void await(_Atomic uint64_t *word, uint64_t value)
{
    for (;;) {
        for (unsigned i = 0; i < 20; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) == value)
                return;
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        }
        sched_yield();
    }
}

/* A number back and forth between two processes, each way on a cache line of its own: the limit of shm. */
static double cache_line(void)
{
    struct { _Alignas(128) _Atomic uint64_t there; _Alignas(128) _Atomic uint64_t back; } *lines;
    lines = mmap(NULL, sizeof *lines, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (lines == MAP_FAILED)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        sched_setaffinity(0, sizeof everywhere, &everywhere);
        place(true);
        for (uint64_t i = 1; i <= ROUND_TRIPS; i++) {
            await(&lines->there, i);
            atomic_store_explicit(&lines->back, i, memory_order_release);
        }
        _exit(0);
    }
    for (uint64_t i = 1; i <= ROUND_TRIPS; i++) {
        uint64_t began = clock_now();
        atomic_store_explicit(&lines->there, i, memory_order_release);
        await(&lines->back, i);
        times[i - 1] = clock_now() - began;
    }
    waitpid(child, NULL, 0);
    return percentile(50);
}

/* 64 bytes back and forth over a unix socket, both sides asking again and again: the limit of unix. */
static double unix_socket(void)
{
    int fds[2];
    char bytes[64] = { 0 };
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        sched_setaffinity(0, sizeof everywhere, &everywhere);
        place(true);
        close(fds[0]);
        for (;;) {
            ssize_t got = recv(fds[1], bytes, sizeof bytes, MSG_DONTWAIT);
            if (got == 0)
                _exit(0);
            if (got > 0)
                send(fds[1], bytes, sizeof bytes, 0);
            else
                sched_yield();
        }
    }
    close(fds[1]);
    for (unsigned i = 0; i < ROUND_TRIPS; i++) {
        uint64_t began = clock_now();
        send(fds[0], bytes, sizeof bytes, 0);
        while (recv(fds[0], bytes, sizeof bytes, MSG_DONTWAIT) < 0)
            sched_yield();
        times[i] = clock_now() - began;
    }
    close(fds[0]);
    waitpid(child, NULL, 0);
    return percentile(50);
}

static double limit;                /* of what is measured now, us */

static void measure(const char *kind)
{
    CLIENT *stub = stub_of(client);
    for (unsigned i = 0; i < ROUND_TRIPS; i++) {
        uint64_t began = clock_now();
        wait_for_all();
        times[i] = clock_now() - began;
    }
    double median = percentile(50), p99 = percentile(99);

    struct rpc_client_statistics before, after;
    rpc_client_statistics(client, &before);
    launch_args launch = { .function = 1, .stream = 1, .grid = { 1, 1, 1 }, .block = { 32, 1, 1 } };
    char params[32] = { 0 };
    launch.params.params_val = params;
    launch.params.params_len = sizeof params;
    uint64_t began = clock_now();
    for (unsigned i = 0; i < BURST; i++)
        if (flyt_launch_1(&launch, NULL, stub) != RPC_SUCCESS)
            exit(1);
    double submitted = seconds(began);
    wait_for_all();
    double launched = seconds(began);
    rpc_client_statistics(client, &after);

    char *bytes = malloc(FLYT_MAX_INLINE);
    memset(bytes, 1, FLYT_MAX_INLINE);
    image_data_args image = { .bytes = { .bytes_val = bytes, .bytes_len = FLYT_MAX_INLINE } };
    began = clock_now();
    for (unsigned i = 0; i < COPIES; i++)
        if (flyt_image_data_1(&image, NULL, stub) != RPC_SUCCESS)
            exit(1);
    wait_for_all();
    double copied = seconds(began);
    free(bytes);
    printf("%-6s round trip %5.2f us median (%.1f of the limit), %5.1f us p99; %4.2f M launches/s (submitted at %4.2f "
           "M/s, %.1f per write); "
           "%.2f GB/s in calls of 1 MiB\n",
           kind, median, limit > 0 ? median / limit : 0.0, p99, BURST / launched / 1e6, BURST / submitted / 1e6,
           (double)BURST / (double)(after.writes - before.writes), (double)COPIES * FLYT_MAX_INLINE / copied / 1e9);
}

static bool wanted(int argc, char **argv, const char *kind)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], kind) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = { "local", "shm", "unix", "tcp", "tls" };
    sched_getaffinity(0, sizeof everywhere, &everywhere);
    place(false);
    double limits[4] = { 0, cache_line(), unix_socket(), 0 };
    printf("limits: cache line %.2f us, unix socket with 64 bytes %.2f us\n", limits[1], limits[2]);
    for (unsigned i = 0; i < 4; i++) {
        if (!wanted(argc, argv, kinds[i]))
            continue;
        limit = limits[i];
        place(false);
        rpc_channel *channels[2];
        struct service *service = NULL;
        pid_t child = 0;
        test_channels(kinds[i], channels);
        if (i == 0) {
            sched_setaffinity(0, sizeof everywhere, &everywhere);
            service = service_start(channels[1]);
        } else if ((child = fork()) == 0) {
            sched_setaffinity(0, sizeof everywhere, &everywhere);
            place(true);
            rpc_channel_abandon(channels[0]);
            service = service_create(channels[1]);
            rpc_server_set_spinning(service->server, !getenv("ONE_CPU"));   /* it sees one processor, being pinned */
            service_run(service);
            _exit(0);
        } else {
            rpc_channel_abandon(channels[1]);
        }
        if (rpc_client_create(channels[0], &rpc_flyt_program, 10, NULL, NULL, &client, NULL) != 0)
            return 1;
        rpc_client_set_spinning(client, !getenv("ONE_CPU"));
        pthread_t helper;
        pthread_create(&helper, NULL, help, NULL);
        measure(kinds[i]);
        rpc_client_shutdown(client);
        pthread_join(helper, NULL);
        rpc_client_destroy(client);
        if (service)
            service_join(service);
        else
            waitpid(child, NULL, 0);
    }
    return 0;
}
