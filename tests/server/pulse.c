/*
 * pulse.c: the server's part of docs/liveness.md, with a client that does not hold itself back: one that gives the
 * server more than it has room for. FLYT_SILENCE is 2 here.
 *
 * shows: life and death: a server that has no room for more calls says all the time that it lives, to clients that know
  *   of beats
 * shows: life and death: a client that dies while the server has no room for its calls leaves no worker, over each
  *   transport
 */
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

/* More launches than the server's queues and the buffers of a TCP connection hold. The kernel enlarges those as it sees
   fit: the receiver's alone up to 32 MiB by default, or 250,000 launches. */
enum { SILENCE = 2, STREAM = 64, OTHER = 65, LAUNCHES = 10000000, SPIN = 7, ADD = 8 };

static const char *const one_spare[] = { "--workers", "1", NULL };

static void lost(void *context, const char *reason)
{
    (void)reason;
    (*(_Atomic int *)context)++;
}

static void greet(struct peer *peer, uint64_t capabilities)
{
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR, .minor = FLYT_PROTOCOL_MINOR, .capabilities = capabilities,
                        .host = (char *)"here",
                        .executable = (char *)"/bin/test", .pid = (u_int)getpid() };
    assert_int_equal(flyt_hello_1(&args, &peer->hello, peer->stub), RPC_SUCCESS);
    assert_int_equal(peer->hello.head.result, 0);
    peer->base = peer->hello.window;
    peer->granule = peer->hello.granularity;
    context_retain_args primary = { 0, 0 };
    plain_result result = { 0 };
    assert_int_equal(flyt_context_retain_1(&primary, &result, peer->stub), RPC_SUCCESS);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
}

/* A client that takes its server for dead after SILENCE, and keeps no EVENTS outstanding. */
static void connect_to(struct peer *peer, const char *uri, bool share, uint64_t capabilities, _Atomic int *losses)
{
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    memset(peer, 0, sizeof *peer);
    if (rpc_channel_connect(uri, 5000, &channel, error) != 0 ||
        (share && rpc_channel_share(&channel, NULL, error) != 0) ||
        rpc_client_create(channel, &rpc_flyt_program, SILENCE, lost, losses, &peer->client, error) != 0)
        fail_msg("connect: %s", error);
    peer->stub = stub_of(peer->client);
    greet(peer, capabilities);
}

/* A stream that stands still until release(). */
static void hold(struct peer *peer)
{
    uint32_t bytes;
    assert_int_equal(peer_map(peer, peer->base, peer->granule), 0);
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, SPIN, 1, "spin", &bytes), 0);
    assert_int_equal(peer_function(peer, ADD, 1, "add", &bytes), 0);
    peer_stream_create(peer, STREAM, 1);
    peer_stream_create(peer, OTHER, 1);
    peer_set(peer, OTHER, peer->base, 1024, 0, 4);
    assert_int_equal(peer_stream_sync(peer, OTHER), 0);
    peer_launch(peer, SPIN, STREAM, 1, 1, &peer->base, sizeof peer->base);
}

static void release(struct peer *peer)
{
    peer_set(peer, OTHER, peer->base, 1, 1, 4);
}

static void *flood(void *context)
{
    struct peer *peer = context;
    struct { uint64_t p; uint32_t n; } params = { peer->base + 4, 1 };
    launch_args args = { .function = ADD, .stream = STREAM, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
    args.params.params_val = (char *)&params;
    args.params.params_len = 12;
    enum clnt_stat status = RPC_SUCCESS;
    for (int i = 0; i < LAUNCHES && status == RPC_SUCCESS; i++)
        status = flyt_launch_1(&args, NULL, peer->stub);
    return (void *)(uintptr_t)status;
}

static void *sync_stream(void *context)
{
    stream_args args = { STREAM };
    plain_result result = { 0 };
    enum clnt_stat status = flyt_stream_sync_1(&args, &result, ((struct peer *)context)->stub);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    return (void *)(uintptr_t)status;
}

/* No EVENTS is outstanding, and nothing is answered. */
TEST(beats_to_who_takes_them)
{
    struct server server;
    struct peer peer;
    pthread_t thread;
    void *status;
    _Atomic int losses = 0;
    server_start(&server, "software", one_spare);
    connect_to(&peer, server.uri[0], true, FLYT_CAP_BEATS, &losses);
    hold(&peer);
    assert_int_equal(pthread_create(&thread, NULL, sync_stream, &peer), 0);
    poll(NULL, 0, 2 * SILENCE * 1000);
    assert_int_equal(losses, 0);
    release(&peer);
    pthread_join(thread, &status);
    assert_int_equal((enum clnt_stat)(uintptr_t)status, RPC_SUCCESS);
    peer_close(&peer);

    connect_to(&peer, server.uri[0], true, 0, &losses);          /* it would not understand */
    hold(&peer);
    assert_int_equal((enum clnt_stat)(uintptr_t)sync_stream(&peer), RPC_CANTRECV);
    assert_int_equal(losses, 1);
    peer_close(&peer);
    server_stop(&server, SIGTERM);
}

/* The server's queue is full, and its reader reads nothing. */
TEST_ON(beats_while_full, "unix", "tcp")
{
    struct server server;
    struct peer peer;
    pthread_t thread;
    void *status;
    _Atomic int losses = 0;
    server_start(&server, "software", one_spare);
    connect_to(&peer, server.uri[strcmp(*state, "tcp") == 0], false, FLYT_CAP_BEATS, &losses);
    hold(&peer);
    assert_int_equal(pthread_create(&thread, NULL, flood, &peer), 0);
    poll(NULL, 0, 3 * SILENCE * 1000);
    assert_int_equal(losses, 0);
    /* What would release it stands behind all that: so the kernel is ended by the end of the session. */
    rpc_client_shutdown(peer.client);
    pthread_join(thread, &status);
    assert_int_not_equal((enum clnt_stat)(uintptr_t)status, RPC_SUCCESS);        /* it had been stuck */
    peer_close(&peer);
    server_stop(&server, SIGTERM);
}

static void children_become(const struct server *server, int count, uint64_t within)
{
    int pids[64];
    uint64_t until = clock_now() + within;
    while (server_children(server, pids, 64) != count) {
        if (clock_now() > until)
            fail_msg("the server has %d workers, not %d", server_children(server, pids, 64), count);
        poll(NULL, 0, 5);
    }
}

/* The client is another process, and is killed when the server reads no more. */
static void killed_while_full(const char *uri, bool share, const struct server *server)
{
    children_become(server, 1, 10 * CLOCK_NS_PER_SECOND);
    pid_t child = fork();
    if (child == 0) {
        struct peer peer;
        _Atomic int losses = 0;
        connect_to(&peer, uri, share, FLYT_CAP_BEATS, &losses);
        hold(&peer);
        flood(&peer);
        _exit(1);
    }
    children_become(server, 2, 10 * CLOCK_NS_PER_SECOND);
    poll(NULL, 0, 2000);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    children_become(server, 1, (SILENCE + 3) * CLOCK_NS_PER_SECOND);
}

TEST(frees_who_died_while_full)
{
    struct server server;
    server_start(&server, "software", one_spare);
    killed_while_full(server.uri[0], true, &server);
    killed_while_full(server.uri[0], false, &server);
    killed_while_full(server.uri[1], false, &server);
    server_stop(&server, SIGTERM);
}

int main(void)
{
    setenv("FLYT_SILENCE", "2", 1);
    return unit_run(NULL, NULL);
}
