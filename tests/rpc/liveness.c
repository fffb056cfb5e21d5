/*
 * liveness: when a client takes its server for dead, and what a server's beats do. One second of silence is enough
 * here.
 *
 * shows: life and death: beats keep a call waiting, and a write that the server does not take, for as long as they
  *   come; silence ends both
 * shows: life and death: time in which the process was stopped, or in which nobody read what had come, is no silence
 */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/transport/liveness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

enum { SILENCE = 1, LONG_MS = 1800, TICK_MS = 20 };
#define BEAT_NS (100 * CLOCK_NS_PER_MS)

/* A server that reads nothing and only beats. */
struct beating { rpc_server *server; pthread_t thread; _Atomic bool stop; };

static void *beat(void *context)
{
    struct beating *beating = context;
    while (!atomic_load(&beating->stop)) {
        rpc_server_beat(beating->server, BEAT_NS);
        poll(NULL, 0, TICK_MS);
    }
    return NULL;
}

static void beating_start(struct beating *beating, rpc_channel *channel)
{
    atomic_store(&beating->stop, false);
    assert_int_equal(rpc_server_create(channel, &rpc_flyt_program, &beating->server, NULL), 0);
    assert_int_equal(pthread_create(&beating->thread, NULL, beat, beating), 0);
}

static void beating_stop(struct beating *beating)
{
    if (!atomic_exchange(&beating->stop, true))
        pthread_join(beating->thread, NULL);
}

struct client { rpc_client *client; struct test_loss losses; struct beating beating; };

static void start(struct client *c, const char *kind)
{
    rpc_channel *channels[2];
    memset(c, 0, sizeof *c);
    test_channels(kind, channels);
    assert_int_equal(
        rpc_client_create(channels[0], &rpc_flyt_program, SILENCE, test_loss_note, &c->losses, &c->client, NULL), 0);
    beating_start(&c->beating, channels[1]);
}

static void end(struct client *c)
{
    beating_stop(&c->beating);
    rpc_client_destroy(c->client);
    rpc_server_destroy(c->beating.server);
}

/* The time that this process could run. Silence is counted so, and the machine may stop a test for a minute. */
static _Atomic uint64_t running;

static void *count_running(void *unused)
{
    struct clock_run run = { .looked = clock_now() };
    for (;;) {
        poll(NULL, 0, TICK_MS);
        atomic_store(&running, clock_run_look(&run, clock_now(), TICK_MS * CLOCK_NS_PER_MS));
    }
    return unused;
}

static void count_begin(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, count_running, NULL), 0);
    pthread_detach(thread);
}

struct moment { uint64_t at, running; };

static struct moment this_moment(void)
{
    return (struct moment){ .at = clock_now(), .running = atomic_load(&running) };
}

/* At least so many seconds have passed, and at most so many in which this process could run. */
static bool passed(struct moment begun, double least, double most)
{
    return (double)(clock_now() - begun.at) / 1e9 > least &&
           (double)(atomic_load(&running) - begun.running) / 1e9 < most;
}

static void *wait_for_answer(void *context)
{
    stream_args args = { 0 };
    plain_result result = { 0 };
    return (void *)(uintptr_t)flyt_stream_sync_1(&args, &result, stub_of(context));
}

/* A call that is never answered. */
TEST_ON(call_waits, "unix", "shm", "tls", "local")
{
    struct client c;
    pthread_t thread;
    void *status;
    start(&c, *state);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_answer, c.client), 0);
    poll(NULL, 0, LONG_MS);
    assert_false(rpc_client_lost(c.client));
    struct moment begun = this_moment();
    beating_stop(&c.beating);
    pthread_join(thread, &status);
    assert_int_equal((enum clnt_stat)(uintptr_t)status, RPC_CANTRECV);
    assert_true(passed(begun, 0.7, 5));
    assert_int_equal(c.losses.count, 1);
    assert_non_null(strstr(c.losses.reason, "sent nothing for 1 seconds"));
    end(&c);
}

static void *write_much(void *client) { return (void *)(uintptr_t)test_flood(client); }

static void *read_all(void *context)
{
    rpc_server *server = context;
    rpc_request *request;
    uint64_t calls = 0;
    for (; calls < 64 && rpc_server_next(server, 10000, &request, NULL) == 0 && request; calls++)
        ;
    return (void *)(uintptr_t)calls;
}

/* A server that has no room for what is written to it; later it has. */
TEST_ON(write_waits, "unix", "shm", "tls")
{
    struct client c;
    pthread_t writer, reader;
    void *status, *calls;
    start(&c, *state);
    assert_int_equal(pthread_create(&writer, NULL, write_much, c.client), 0);
    poll(NULL, 0, LONG_MS);
    assert_false(rpc_client_lost(c.client));
    assert_int_equal(pthread_create(&reader, NULL, read_all, c.beating.server), 0);
    pthread_join(writer, &status);
    pthread_join(reader, &calls);
    assert_int_equal((enum clnt_stat)(uintptr_t)status, RPC_SUCCESS);
    assert_int_equal((uintptr_t)calls, 64);
    end(&c);
}

TEST_ON(write_gives_up, "tcp", "shm")
{
    struct client c;
    start(&c, *state);
    beating_stop(&c.beating);
    struct moment begun = this_moment();
    assert_int_equal(test_flood(c.client), RPC_CANTSEND);
    assert_true(passed(begun, 0.7, 5));
    end(&c);
}

/* A client that takes nothing does not hold up who beats, and has all beats that fit when it reads again. */
TEST_ON(beat_never_waits, "unix", "shm", "tcp", "tls")
{
    rpc_channel *channels[2];
    rpc_server *server;
    test_channels(*state, channels);
    assert_int_equal(rpc_server_create(channels[1], &rpc_flyt_program, &server, NULL), 0);
    struct moment begun = this_moment();
    for (unsigned i = 0; i < 500000; i++)
        rpc_server_beat(server, 0);
    assert_true(passed(begun, 0, 20));

    rpc_client *client;
    struct test_loss losses = { 0 };
    pthread_t thread;
    void *status;
    rpc_request *request;
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 5, test_loss_note, &losses, &client, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_answer, client), 0);
    assert_int_equal(rpc_server_next(server, 10000, &request, NULL), 0);
    assert_non_null(request);
    plain_result result = { 0 };
    assert_int_equal(rpc_server_reply(server, rpc_request_xid(request), (xdrproc_t)xdr_plain_result, &result), 0);
    pthread_join(thread, &status);
    /* no beat was cut, and none took the answer's place */
    assert_int_equal((enum clnt_stat)(uintptr_t)status, RPC_SUCCESS);
    assert_int_equal(losses.count, 0);
    rpc_client_destroy(client);
    rpc_server_destroy(server);
}

/* Only who has said nothing beats. */
TEST(beats_only_in_silence)
{
    struct client c;
    struct rpc_client_statistics before, after;
    rpc_request *request;
    start(&c, "unix");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_answer, c.client), 0);
    assert_int_equal(rpc_server_next(c.beating.server, 10000, &request, NULL), 0);
    poll(NULL, 0, 300);
    rpc_client_statistics(c.client, &before);
    poll(NULL, 0, 1000);
    rpc_client_statistics(c.client, &after);
    uint64_t beats = (after.bytes_received - before.bytes_received) / 28;     /* a mark, and the head of a reply */
    assert_in_range(beats, 3, 11);
    plain_result result = { 0 };
    assert_int_equal(rpc_server_reply(c.beating.server, rpc_request_xid(request), (xdrproc_t)xdr_plain_result, &result),
                     0);
    pthread_join(thread, NULL);
    end(&c);
}

/* The process stands still for more than twice the silence, and nothing comes in that time: the server may have been as
 * still. */
TEST_ON(stopped_process, "unix", "shm")
{
    pid_t child = fork();
    if (child == 0) {
        struct client c;
        pthread_t thread;
        void *status;
        start(&c, *state);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_answer, c.client), 0);
        poll(NULL, 0, 200);
        kill(getpid(), SIGSTOP);                /* and with us the beats */
        poll(NULL, 0, 500);
        bool lost = rpc_client_lost(c.client);
        beating_stop(&c.beating);
        pthread_join(thread, &status);
        _exit(lost);
    }
    int status;
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    poll(NULL, 0, LONG_MS);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The thread that reads is held up in a done function, and beats wait to be read: another, whose write is stuck, finds
 * that out. */
static _Atomic bool held;

static void hold(struct rpc_call *call, void *context)
{
    (void)call;
    (void)context;
    while (atomic_load(&held))
        poll(NULL, 0, TICK_MS);
}

static void *read_for_others(void *context)
{
    events_args args = { 0 };
    events_result result = { 0 };
    struct rpc_call call = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &args,
                             .decode = (xdrproc_t)xdr_events_result, .result = &result };
    if (rpc_client_submit(context, &call) == RPC_SUCCESS)
        rpc_client_attend(context, &call);
    return NULL;
}

TEST_ON(unread_is_no_silence, "tcp", "shm")
{
    struct client c;
    pthread_t reader, writer, server;
    void *status, *calls;
    rpc_request *request;
    plain_result result = { 0 };
    stream_args args = { 0 };
    struct rpc_call call = { .procedure = FLYT_STREAM_SYNC, .encode = (xdrproc_t)xdr_stream_args, .args = &args,
                             .decode = (xdrproc_t)xdr_plain_result, .result = &result, .done = hold };
    start(&c, *state);
    atomic_store(&held, true);
    assert_int_equal(pthread_create(&reader, NULL, read_for_others, c.client), 0);
    do                                          /* EVENTS is not answered */
        assert_int_equal(rpc_server_next(c.beating.server, 10000, &request, NULL), 0);
    while (rpc_request_procedure(request) != FLYT_EVENTS);
    assert_int_equal(rpc_client_submit(c.client, &call), RPC_SUCCESS);
    assert_int_equal(rpc_server_next(c.beating.server, 10000, &request, NULL), 0);
    plain_result answer = { 0 };
    assert_int_equal(rpc_server_reply(c.beating.server, rpc_request_xid(request), (xdrproc_t)xdr_plain_result, &answer),
                     0);
    poll(NULL, 0, 200);                         /* the reader is in hold() */
    assert_int_equal(pthread_create(&writer, NULL, write_much, c.client), 0);
    poll(NULL, 0, LONG_MS);
    assert_false(rpc_client_lost(c.client));
    atomic_store(&held, false);
    assert_int_equal(pthread_create(&server, NULL, read_all, c.beating.server), 0);
    pthread_join(writer, &status);
    pthread_join(server, &calls);
    assert_int_equal((enum clnt_stat)(uintptr_t)status, RPC_SUCCESS);
    assert_int_equal((uintptr_t)calls, 64);
    rpc_client_shutdown(c.client);
    pthread_join(reader, NULL);
    end(&c);
}

/* ---- the parts ---- */

TEST(clock_counts_running)
{
    struct clock_run run = { .looked = 1000 };
    assert_int_equal(clock_run_look(&run, 1100, 100), 100);
    assert_int_equal(clock_run_look(&run, 1150, 100), 150);
    assert_int_equal(clock_run_look(&run, 1350, 100), 350);         /* late, but not stopped */
    assert_int_equal(clock_run_look(&run, 1000000, 100), 450);      /* stopped */
    assert_int_equal(clock_run_look(&run, 1000100, 100), 550);
}

/* The peer's end is known without reading; a peer that is only full, or slow, is there. */
TEST_ON(peer_is_known, "unix", "tcp")
{
    rpc_channel *channels[2];
    test_channels(*state, channels);
    assert_int_equal(rpc_channel_peer(channels[0]), 0);
    char byte = 0;
    struct iovec vector = { &byte, 1 };
    ssize_t sent = 1;
    for (unsigned i = 0; i < 10000000 && sent > 0; i++)
        sent = rpc_channel_send(channels[0], &vector, 1);
    assert_int_equal(sent, -EAGAIN);
    assert_int_equal(rpc_channel_send(channels[1], &vector, 1), 1);
    assert_int_equal(rpc_channel_peer(channels[0]), 0);
    assert_int_equal(rpc_channel_peer(channels[1]), 0);
    rpc_channel_destroy(channels[1]);
    uint64_t until = clock_now() + 5 * CLOCK_NS_PER_SECOND;
    while (rpc_channel_peer(channels[0]) == 0 && clock_now() < until)
        poll(NULL, 0, 1);
    assert_int_equal(rpc_channel_peer(channels[0]), -ECONNRESET);
    rpc_channel_destroy(channels[0]);
}

TEST(settings)
{
    assert_int_equal(rpc_silence_seconds(), RPC_SILENCE_USUAL);
    assert_true(rpc_silence_valid());
    assert_true(3 * rpc_beat_interval() < (uint64_t)rpc_silence_seconds() * CLOCK_NS_PER_SECOND);
    for (int seconds = 1; seconds < 100000; seconds *= 7)
        assert_true(rpc_silence_look(seconds) >= CLOCK_NS_PER_MS &&
                    8 * rpc_silence_look(seconds) <= (uint64_t)seconds * CLOCK_NS_PER_SECOND);
}

int main(void)
{
    count_begin();
    return unit_run(NULL, NULL);
}
