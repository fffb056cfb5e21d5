/*
 * latency: what the rpc layer costs by itself, over each transport. Not a test: `build/plain/tests/rpc_latency`.
 * The server is a process of its own, except for local. Figures of one run compare with each other only.
 */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUND_TRIPS = 20000, BURST = 200000, COPIES = 200 };

static rpc_client *client;

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
    device_args device = { 0 };
    memory_info_result info = { 0 };
    if (flyt_memory_info_1(&device, &info, rpc_client_stub(client)) != RPC_SUCCESS)
        exit(1);
}

static void measure(const char *kind)
{
    static uint64_t times[ROUND_TRIPS];
    CLIENT *stub = rpc_client_stub(client);
    for (unsigned i = 0; i < ROUND_TRIPS; i++) {
        uint64_t began = clock_now();
        wait_for_all();
        times[i] = clock_now() - began;
    }
    qsort(times, ROUND_TRIPS, sizeof times[0], compare);

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
    printf("%-6s round trip %5.1f us median, %5.1f us p99; %4.2f M launches/s (submitted at %4.2f M/s, %.1f per write); "
           "%.2f GB/s in calls of 1 MiB\n",
           kind, (double)times[ROUND_TRIPS / 2] / 1e3, (double)times[ROUND_TRIPS * 99 / 100] / 1e3, BURST / launched / 1e6,
           BURST / submitted / 1e6, (double)BURST / (double)(after.writes - before.writes),
           (double)COPIES * FLYT_MAX_INLINE / copied / 1e9);
}

int main(void)
{
    static const char *const kinds[] = { "local", "shm", "unix", "tcp" };
    for (unsigned i = 0; i < 4; i++) {
        rpc_channel *channels[2];
        struct service *service = NULL;
        pid_t child = 0;
        test_channels(kinds[i], channels);
        if (i == 0) {
            service = service_start(channels[1]);
        } else if ((child = fork()) == 0) {
            rpc_channel_abandon(channels[0]);
            service_run(service_create(channels[1]));
            _exit(0);
        } else {
            rpc_channel_abandon(channels[1]);
        }
        if (rpc_client_create(channels[0], &rpc_flyt_program, 10, NULL, NULL, &client, NULL) != 0)
            return 1;
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
