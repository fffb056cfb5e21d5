/*
 * library.c: a program that knows flyt_comm.h only, and is linked with libflyt-comm.so: ranks that are processes and
 * meet in a store that rank 0 serves.
 *
 * shows: libflyt-comm: a program with its header alone runs collectives and messages between processes, with parts of
 *   different sizes and multiplied sums
 */
#include "cpu/client/comm/flyt_comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, COUNT = 1000, LIMIT = 60000 };

static unsigned me;

static void must(int status, const char *what)
{
    if (status == 0)
        return;
    printf("# rank %u: %s: %d: %s\n", me, what, status, flyt_comm_error());
    exit(1);
}

static void need(int holds, const char *what)
{
    if (holds)
        return;
    printf("# rank %u: wrong: %s\n", me, what);
    exit(1);
}

/* Rank r gives r + 1 elements; each rank multiplies by its number, and 1. */
static void described(flyt_context *context)
{
    uint64_t counts[RANKS] = { 1, 2, 3 }, places[RANKS] = { 10, 20, 30 };
    int32_t in[8], out[40] = { 0 }, factor = (int32_t)me + 1;
    for (int i = 0; i < 8; i++)
        in[i] = (int32_t)me * 10000 + i;
    flyt_collective call = { .kind = FLYT_ALL_GATHER, .in = in, .out = out, .type = FLYT_INT32, .counts = counts,
                             .places = places };
    must(flyt_call(context, &call, LIMIT), "parts");
    need(out[10] == 0 && out[20] == 10000 && out[21] == 10001 && out[32] == 20002 && out[22] == 0, "parts");
    call = (flyt_collective){ .kind = FLYT_REDUCE_SCATTER, .in = in, .out = out, .type = FLYT_INT32, .counts = counts };
    must(flyt_call(context, &call, LIMIT), "parts of sums");
    need(out[0] == 30000 + 3 * (int32_t)(me * (me + 1) / 2), "parts of sums");
    call = (flyt_collective){ .kind = FLYT_ALL_REDUCE, .in = in, .out = out, .count = 8, .type = FLYT_INT32,
                              .operation = FLYT_MULTIPLIED_SUM, .factor = &factor };
    must(flyt_call(context, &call, LIMIT), "multiplied sum");
    need(out[1] == 1 + 2 * 10001 + 3 * 20001, "multiplied sum");
    call = (flyt_collective){ .kind = FLYT_ALL_REDUCE, .in = in, .out = out, .count = 8, .type = FLYT_INT32,
                              .operation = FLYT_MULTIPLIED_SUM };
    need(flyt_call(context, &call, LIMIT) == -EINVAL, "no factor");
}

static void collectives(flyt_context *context)
{
    static int32_t in[RANKS * COUNT], out[RANKS * COUNT];
    for (int i = 0; i < RANKS * COUNT; i++)
        in[i] = (int32_t)me * 10000 + i;
    must(flyt_barrier(context, LIMIT), "barrier");
    must(flyt_all_reduce(context, in, out, COUNT, FLYT_INT32, FLYT_SUM, LIMIT), "all-reduce");
    need(out[5] == 30000 + 15 && out[COUNT - 1] == 30000 + 3 * (COUNT - 1), "all-reduce");
    must(flyt_all_reduce(context, in, out, COUNT, FLYT_INT32, FLYT_AVERAGE, LIMIT), "average");
    need(out[5] == 10005, "average");
    must(flyt_reduce(context, in, out, COUNT, FLYT_INT32, FLYT_MAXIMUM, 1, LIMIT), "reduce");
    need(me != 1 || out[7] == 20007, "reduce");
    must(flyt_all_gather(context, in, out, COUNT, FLYT_INT32, LIMIT), "all-gather");
    need(out[COUNT + 3] == 10003 && out[2 * COUNT] == 20000, "all-gather");
    must(flyt_gather(context, in, out, COUNT, FLYT_INT32, 2, LIMIT), "gather");
    need(me != 2 || out[COUNT + 4] == 10004, "gather");
    must(flyt_scatter(context, in, out, COUNT, FLYT_INT32, 1, LIMIT), "scatter");
    need(out[1] == 10000 + (int32_t)me * COUNT + 1, "scatter");
    must(flyt_reduce_scatter(context, in, out, COUNT, FLYT_INT32, FLYT_MINIMUM, LIMIT), "reduce-scatter");
    need(out[2] == (int32_t)me * COUNT + 2, "reduce-scatter");
    must(flyt_all_to_all(context, in, out, COUNT, FLYT_INT32, LIMIT), "all-to-all");
    need(out[2 * COUNT + 1] == 20000 + (int32_t)me * COUNT + 1, "all-to-all");
    described(context);
    must(flyt_broadcast(context, in, COUNT, FLYT_INT32, 2, LIMIT), "broadcast");
    need(in[9] == 20009, "broadcast");
    char word[8] = "";
    uint64_t got = 0;
    must(flyt_send(context, (me + 1) % RANKS, 7, "ring", 5, LIMIT), "send");
    must(flyt_receive(context, (me + 2) % RANKS, 7, word, sizeof word, &got, LIMIT), "receive");
    need(got == 5 && strcmp(word, "ring") == 0, "message");
    need(flyt_all_reduce(context, in, out, COUNT, (flyt_type)99, FLYT_SUM, LIMIT) == -EINVAL &&
         strstr(flyt_comm_error(), "type"), "a type that there is not");
}

static void abort_ends_it(flyt_context *context)
{
    char byte = 0;
    for (unsigned r = 1; r < RANKS; r++)        /* not before all have done all before it */
        must(me == 0   ? flyt_receive(context, r, 9, &byte, 1, NULL, LIMIT)
             : me == r ? flyt_send(context, 0, 9, &byte, 1, LIMIT)
                       : 0,
             "the last message");
    if (me == 0)
        flyt_context_abort(context, "enough");
    int status = flyt_barrier(context, LIMIT);
    if (status == 0)
        status = flyt_barrier(context, LIMIT);
    need(status == -ECANCELED && strcmp(flyt_comm_error(), "rank 0: enough") == 0, "abort");
}

static void run(const char *uri, const uint8_t *key)
{
    flyt_store *store, *ours;
    flyt_context *context;
    char text[8];
    size_t size = 0;
    const char *const keys[] = { "greeting" };
    must(flyt_store_tcp(uri, key, LIMIT, &store), "a store");
    must(flyt_store_prefix(store, "job/", &ours), "a prefix");
    if (me == 0)
        must(flyt_store_set(ours, "greeting", "hello", 6, LIMIT), "set");
    must(flyt_store_wait(ours, keys, 1, LIMIT), "wait");
    must(flyt_store_get(ours, "greeting", text, sizeof text, &size, LIMIT), "get");
    need(size == 6 && strcmp(text, "hello") == 0, "the store's value");
    const flyt_context_options options = { .rank = me, .size = RANKS, .interfaces = "lo", .channels = 2 };
    must(flyt_context_create(&options, ours, &context), "a context");
    must(flyt_context_connect_full_mesh(context, LIMIT), "connecting");
    collectives(context);
    abort_ends_it(context);
    flyt_context_destroy(context);
    flyt_store_destroy(ours);
    flyt_store_destroy(store);
}

int main(void)
{
    uint8_t key[FLYT_COMM_KEY_SIZE] = { 4, 2 };
    int pipes[2], status, worst = 0;
    char uri[128] = "";
    flyt_store *alone;
    must(flyt_store_hash(&alone), "a store of this process");
    flyt_store_destroy(alone);
    need(flyt_store_file("/nowhere/at/all", &alone) == -ENOENT && strstr(flyt_comm_error(), "/nowhere"), "no folder");
    if (pipe(pipes) != 0)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned r = 1; r < RANKS; r++)        /* before there are threads */
        if (fork() == 0) {
            me = r;
            need(read(pipes[0], uri, sizeof uri) == sizeof uri, "the address");
            run(uri, key);
            return 0;
        }
    flyt_store_server *server;
    must(flyt_store_serve("tcp://127.0.0.1:0", key, &server), "serving");
    snprintf(uri, sizeof uri, "%s", flyt_store_server_uri(server));
    for (unsigned r = 1; r < RANKS; r++)
        need(write(pipes[1], uri, sizeof uri) == sizeof uri, "writing");
    run(uri, key);
    while (wait(&status) > 0)
        worst |= !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    flyt_store_server_stop(server);
    printf("%sok 1 - ranks that are processes\n1..1\n", worst ? "not " : "");
    return worst;
}
