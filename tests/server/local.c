/*
 * local.c: a server inside the client's process, through libflyt-server.so and the software GPU: whatever state a
 * session is left in, it ends soon and another one can follow in the same process.
 */
#include "cpu/common/clock.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

static void begin(struct peer *peer)
{
    uint32_t bytes;
    peer_library(peer, "software");
    peer_hello(peer);
    assert_int_equal(peer->hello.in_process, 1);
    assert_int_equal(peer_map(peer, peer->base, 2 * peer->granule), 0);
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, 1, 1, "add", &bytes), 0);
    assert_int_equal(peer_function(peer, 2, 1, "spin", &bytes), 0);
    peer_set(peer, 0, peer->base, 4096, 0, 1);
    assert_int_equal(peer_context_sync(peer), 0);
}

/* The session ends within seconds. */
static void end(struct peer *peer)
{
    uint64_t start = clock_now();
    peer_close(peer);
    assert_true(clock_now() - start < 5 * CLOCK_NS_PER_SECOND);
}

static void add_one(struct peer *peer, uint32_t stream)
{
    struct { uint64_t p; uint32_t n; } __attribute__((packed)) params = { peer->base, 1 };
    peer_launch(peer, 1, stream, 1, 32, &params, 12);
}

static void works(void **state)
{
    (void)state;
    struct peer peer;
    uint32_t value;
    begin(&peer);
    add_one(&peer, 0);
    assert_int_equal(peer_copy_out(&peer, 0, &value, peer.base, 4), 0);
    assert_int_equal(value, 1);
    end(&peer);
}

static void ends_with_work_left(void **state)
{
    (void)state;
    struct peer peer;
    begin(&peer);
    peer_stream_create(&peer, 64, 1);
    peer_event_create(&peer, 0);
    for (int i = 0; i < 3000; i++)
        add_one(&peer, 64);
    peer_event_record(&peer, 0, 64);
    peer_stream_wait(&peer, 0, 0);
    add_one(&peer, 0);
    rpc_client_flush(peer.client);
    end(&peer);
}

static void ends_inside_a_host_function(void **state)
{
    (void)state;
    struct peer peer;
    begin(&peer);
    host_function_args args = { 0, 1 };
    flyt_host_function_1(&args, NULL, peer.stub);
    for (int i = 0; i < 3000; i++)
        add_one(&peer, 0);
    events_args none = { 0 };
    events_result due = { 0 };
    assert_int_equal(flyt_events_1(&none, &due, peer.stub), RPC_SUCCESS);
    assert_int_equal(due.events.events_len, 1);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&due);
    end(&peer);
}

static void ends_under_a_kernel_without_end(void **state)
{
    (void)state;
    struct peer peer;
    begin(&peer);
    uint64_t at = peer.base;
    peer_stream_create(&peer, 64, 1);
    peer_launch(&peer, 2, 64, 1, 1, &at, 8);
    assert_int_equal(peer_stream_query(&peer, 64), 600);
    end(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works), cmocka_unit_test(ends_with_work_left), cmocka_unit_test(works),
        cmocka_unit_test(ends_inside_a_host_function), cmocka_unit_test(works),
        /* last: the kernel runs on, and another session of this process would wait for it as for its own */
        cmocka_unit_test(ends_under_a_kernel_without_end),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
