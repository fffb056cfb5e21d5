/*
 * lanes.c: lanes spoken by hand to a server of processes: who gets one, what bytes and calls in any order become, and
 * what a client gets that keeps to nothing.
 *
 * shows: lanes: no lane without a key, with a wrong or used one, of an unknown session, beyond eight; the session goes
  *   on
 * shows: lanes: who connects and says nothing, or half of it, is closed in time and in nobody's way
 * shows: attacks: strangers who name a session and fill all places for lanes that have not shown their key do not keep
 *   its client from its lanes
 * shows: attacks: the key of a lane is worth nothing at another session, nor after its session has ended
 * shows: lanes: bytes before their call, after it, in pieces over several lanes in any order make the same copy
 * shows: lanes: a copy whose bytes do not come holds its stream and no other
 * shows: lanes: a device's synchronisation is answered behind a stream destroyed while the legacy stream waits for
  *   bytes
 * shows: lanes: bytes of copies that cannot be made are dropped, and their places used again
 * shows: lanes: a client that sends more than the window is not read further; the server's memory does not grow; the
  *   rest of its session works
 * shows: lanes: a client that asks for bytes and does not read them holds up copies only, and leaves nothing behind
 * shows: lanes: random records and calls end the session at most
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>

#include "cpu/common/clock.h"
#include "cpu/rpc/call/lane.h"
#include "tests/server/peer.h"

enum { CHUNK = 512 * 1024, TCP = 1 };           /* CHUNK: what the server takes in one transfer */

static struct server server;

static int start_server(void **state)
{
    (void)state;
    server_start(&server, "software", NULL);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    int status = server_stop(&server, SIGTERM);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static void begin(struct peer *peer)
{
    peer_open(peer, server.uri[TCP]);
    assert_true(peer->hello.capabilities & FLYT_CAP_LANES);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(peer_map(peer, peer->base + i * peer->granule, peer->granule), 0);
}

/* ---- lanes by hand ---- */

static int ask(struct peer *peer, uint32_t number, lane_result *result)
{
    lane_args args = { number };
    memset(result, 0, sizeof *result);
    assert_int_equal(flyt_lane_1(&args, result, peer->stub), RPC_SUCCESS);
    peer_note(peer, &result->head);
    xdr_free((xdrproc_t)xdr_flyt_head, &result->head);
    return peer->last.result;
}

static rpc_channel *connect_as(uint64_t session, uint32_t number)
{
    uint8_t hello[RPC_LANE_HEAD];
    char error[RPC_ERROR_SIZE] = "";
    rpc_channel *channel;
    rpc_lane_put_hello(hello, session, number);
    if (rpc_lane_connect(server.uri[TCP], 5000, hello, &channel, error) != 0)
        fail_msg("%s", error);
    return channel;
}

static uint64_t soon(unsigned ms) { return clock_now() + ms * CLOCK_NS_PER_MS; }

/* True: the server has made a lane of it. False: it has closed it. */
static bool offer_key(rpc_channel *channel, const void *key)
{
    struct iovec vector = { (void *)(uintptr_t)key, FLYT_LANE_KEY_SIZE };
    char welcome[RPC_LANE_MAGIC];
    rpc_lane_send(channel, &vector, 1, soon(5000));
    int status = rpc_lane_receive(channel, welcome, sizeof welcome, soon(9000));
    assert_int_not_equal(status, -ETIMEDOUT);
    return status == 0 && memcmp(welcome, rpc_lane_magic, sizeof welcome) == 0;
}

static rpc_channel *lane(struct peer *peer, uint32_t number)
{
    lane_result asked;
    assert_int_equal(ask(peer, number, &asked), 0);
    assert_true(asked.chunk == CHUNK && asked.window >= 2);
    rpc_channel *channel = connect_as(peer->hello.session, number);
    assert_true(offer_key(channel, asked.key));
    return channel;
}

static int put_record(rpc_channel *channel, uint32_t number, uint32_t transfer, uint64_t offset, const void *bytes,
                      size_t size, uint64_t deadline)
{
    uint8_t head[RPC_LANE_HEAD];
    rpc_lane_put(head, &(struct rpc_lane_record){ .transfer = transfer, .lane = number, .offset = offset,
                                                  .length = size });
    struct iovec vector[2] = { { head, sizeof head }, { (void *)(uintptr_t)bytes, size } };
    return rpc_lane_send(channel, vector, 2, deadline);
}

static void call_in(struct peer *peer, uint32_t stream, uint64_t to, uint32_t transfer, uint64_t size)
{
    copy_in_args args = { .stream = stream, .to = to,
                          .data = { .kind = FLYT_BULK_LANE, .flyt_bulk_u = { .on_lane = { transfer, size } } } };
    enum clnt_stat status = flyt_copy_in_1(&args, NULL, peer->stub);
    assert_true(status == RPC_SUCCESS || status == RPC_TIMEDOUT);
}

static uint8_t *pattern(size_t size, unsigned seed)
{
    uint8_t *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251 + seed * 7);
    return bytes;
}

static void expect(struct peer *peer, uint32_t stream, uint64_t from, const uint8_t *bytes, size_t size)
{
    uint8_t *back = malloc(size);
    assert_int_equal(peer_copy_out(peer, stream, back, from, size), 0);
    assert_memory_equal(back, bytes, size);
    free(back);
}

/* ---- tests ---- */

TEST(who_gets_one)
{
    struct peer peer;
    lane_result asked, again;
    rpc_channel *lanes[FLYT_MAX_LANES];
    begin(&peer);
    uint8_t nothing[FLYT_LANE_KEY_SIZE] = { 0 };

    rpc_channel *unasked = connect_as(peer.hello.session, 1);
    assert_false(offer_key(unasked, nothing));
    rpc_channel_destroy(unasked);

    assert_int_equal(ask(&peer, 0, &asked), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ask(&peer, 2 * FLYT_MAX_LANES + 1, &asked), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ask(&peer, 1, &asked), 0);
    for (unsigned bit = 0; bit < 3; bit++) {
        uint8_t wrong[FLYT_LANE_KEY_SIZE];
        memcpy(wrong, asked.key, sizeof wrong);
        wrong[bit * 15] ^= 1;
        rpc_channel *channel = connect_as(peer.hello.session, 1);
        assert_false(offer_key(channel, wrong));
        rpc_channel_destroy(channel);
    }
    rpc_channel *other = connect_as(peer.hello.session, 2);      /* the key is lane 1's */
    assert_false(offer_key(other, asked.key));
    rpc_channel_destroy(other);
    rpc_channel *nobody = connect_as(peer.hello.session + ((uint64_t)1 << 32), 1);
    assert_false(offer_key(nobody, asked.key));
    rpc_channel_destroy(nobody);
    rpc_channel *elder = connect_as(peer.hello.session + 1, 1);
    assert_false(offer_key(elder, asked.key));
    rpc_channel_destroy(elder);

    assert_int_equal(ask(&peer, 1, &again), 0);                   /* asked anew: the older key is worth nothing */
    assert_memory_not_equal(asked.key, again.key, sizeof asked.key);
    rpc_channel *late = connect_as(peer.hello.session, 1);
    assert_false(offer_key(late, asked.key));
    rpc_channel_destroy(late);
    lanes[0] = connect_as(peer.hello.session, 1);
    assert_true(offer_key(lanes[0], again.key));
    assert_int_equal(ask(&peer, 1, &asked), CUDA_ERROR_INVALID_VALUE);        /* it is open */
    for (uint32_t i = 1; i < FLYT_MAX_LANES; i++)
        lanes[i] = lane(&peer, i + 1);
    rpc_channel *twice = connect_as(peer.hello.session, 1);
    assert_false(offer_key(twice, again.key));
    rpc_channel_destroy(twice);

    assert_int_equal(peer_context_sync(&peer), 0);
    /* Closed between two records it may be had again. */
    rpc_channel_destroy(lanes[3]);
    uint64_t until = soon(5000);
    while (ask(&peer, 4, &asked) != 0 && clock_now() < until)
        usleep(1000);
    lanes[3] = connect_as(peer.hello.session, 4);
    assert_true(offer_key(lanes[3], asked.key));
    assert_int_equal(peer_context_sync(&peer), 0);
    peer_close(&peer);
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        rpc_channel_destroy(lanes[i]);
}

TEST(silent_ones)
{
    struct peer peer, next;
    lane_result asked;
    rpc_channel *silent[FLYT_MAX_LANES + 2], *half;
    char error[RPC_ERROR_SIZE];
    begin(&peer);
    assert_int_equal(ask(&peer, 1, &asked), 0);
    for (unsigned i = 0; i < FLYT_MAX_LANES + 2; i++)
        silent[i] = connect_as(peer.hello.session, 1);
    /* Half a hello waits in the listener; nobody else does. */
    assert_int_equal(rpc_channel_connect(server.uri[TCP], 5000, &half, error), 0);
    struct iovec some = { (void *)(uintptr_t)rpc_lane_magic, 5 };
    assert_int_equal(rpc_lane_send(half, &some, 1, 0), 0);
    begin(&next);
    peer_close(&next);
    assert_int_equal(peer_context_sync(&peer), 0);
    uint64_t start = clock_now();
    char byte;
    for (unsigned i = 0; i < FLYT_MAX_LANES + 2; i++) {
        assert_int_not_equal(rpc_lane_receive(silent[i], &byte, 1, soon(9000)), -ETIMEDOUT);
        rpc_channel_destroy(silent[i]);
    }
    assert_true(clock_now() - start < 9 * CLOCK_NS_PER_SECOND);
    rpc_channel *good = connect_as(peer.hello.session, 1);
    assert_true(offer_key(good, asked.key));
    assert_int_equal(peer_context_sync(&peer), 0);
    peer_close(&peer);
    rpc_channel_destroy(good);
    rpc_channel_destroy(half);
}

/* Connections that name the session, and do not know its key: all places that there are for them, and more. */
TEST(strangers)
{
    enum { STRANGERS = 3 * FLYT_MAX_LANES };
    struct peer peer;
    lane_result asked;
    rpc_channel *crowd[STRANGERS], *first = NULL;
    begin(&peer);
    for (uint32_t number = 1; number <= 2; number++) {
        assert_int_equal(ask(&peer, number, &asked), 0);
        for (unsigned i = 0; i < STRANGERS; i++)
            crowd[i] = connect_as(peer.hello.session, 1 + i % FLYT_MAX_LANES);
        uint64_t start = clock_now();
        rpc_channel *good = connect_as(peer.hello.session, number);
        assert_true(offer_key(good, asked.key));
        assert_true(clock_now() - start < 4 * CLOCK_NS_PER_SECOND); /* and not when those are closed for silence */
        uint8_t *bytes = pattern(5000, number);
        call_in(&peer, 0, peer.base, 7 + number, 5000);
        assert_int_equal(put_record(good, number, 7 + number, 0, bytes, 5000, 0), 0);
        expect(&peer, 0, peer.base, bytes, 5000);
        free(bytes);
        for (unsigned i = 0; i < STRANGERS; i++)
            rpc_channel_destroy(crowd[i]);
        if (number == 1)
            first = good;
        else
            rpc_channel_destroy(good);
    }
    assert_int_equal(peer_context_sync(&peer), 0);
    rpc_channel_destroy(first);
    peer_close(&peer);
}

/* Keys of one session at another one, and of one that has ended. */
TEST(stolen_keys)
{
    struct peer mine, theirs;
    lane_result my_key, their_key;
    begin(&mine);
    begin(&theirs);
    assert_int_equal(ask(&mine, 1, &my_key), 0);
    assert_int_equal(ask(&theirs, 1, &their_key), 0);
    rpc_channel *channel = connect_as(theirs.hello.session, 1);
    assert_false(offer_key(channel, my_key.key));
    rpc_channel_destroy(channel);
    channel = connect_as(mine.hello.session, 1);
    assert_false(offer_key(channel, their_key.key));
    rpc_channel_destroy(channel);
    uint64_t ended = theirs.hello.session;
    rpc_channel *last = lane(&theirs, 2);
    char byte;
    peer_close(&theirs);
    assert_int_not_equal(rpc_lane_receive(last, &byte, 1, soon(9000)), -ETIMEDOUT); /* the server has seen the end */
    rpc_channel_destroy(last);
    channel = connect_as(ended, 1);
    assert_false(offer_key(channel, their_key.key));
    rpc_channel_destroy(channel);
    begin(&theirs); /* its worker may be that of the session that has ended */
    assert_int_not_equal(theirs.hello.session, ended);
    assert_int_equal(ask(&theirs, 1, &my_key), 0);
    channel = connect_as(theirs.hello.session, 1);
    assert_false(offer_key(channel, their_key.key));
    rpc_channel_destroy(channel);
    assert_int_equal(peer_context_sync(&mine), 0);
    assert_int_equal(peer_context_sync(&theirs), 0);
    peer_close(&theirs);
    peer_close(&mine);
}

TEST(any_order)
{
    struct peer peer;
    begin(&peer);
    rpc_channel *one = lane(&peer, 1), *two = lane(&peer, 2);
    peer_stream_create(&peer, FLYT_FIRST_STREAM, CU_STREAM_NON_BLOCKING);
    peer_stream_create(&peer, FLYT_FIRST_STREAM + 1, CU_STREAM_NON_BLOCKING);
    for (uint32_t round = 0; round < 40; round++) {
        size_t size = 1 + (round * 77777) % CHUNK, cut = size / 3;
        uint8_t *bytes = pattern(size, round);
        uint32_t transfer = 1000 + round, stream = FLYT_FIRST_STREAM + round % 2;
        uint64_t to = peer.base + round * 4096;
        bool before = round % 4 < 2, pieces = round % 2 && cut > 0;
        if (before)
            call_in(&peer, stream, to, transfer, size);
        if (pieces) {
            assert_int_equal(put_record(two, 2, transfer, cut, bytes + cut, size - cut, 0), 0);
            if (!before && round % 8 == 3)
                usleep(2000);
            assert_int_equal(put_record(one, 1, transfer, 0, bytes, cut, 0), 0);
        } else {
            assert_int_equal(put_record(one, 1, transfer, 0, bytes, size, 0), 0);
        }
        if (!before)
            call_in(&peer, stream, to, transfer, size);
        expect(&peer, stream, to, bytes, size);
        free(bytes);
    }
    peer_close(&peer);
    rpc_channel_destroy(one);
    rpc_channel_destroy(two);
}

TEST(holds_its_stream)
{
    struct peer peer;
    begin(&peer);
    rpc_channel *one = lane(&peer, 1);
    const uint32_t a = FLYT_FIRST_STREAM, b = FLYT_FIRST_STREAM + 1;
    uint8_t *bytes = pattern(CHUNK, 1), *others = pattern(50000, 2);
    peer_stream_create(&peer, a, CU_STREAM_NON_BLOCKING);
    peer_stream_create(&peer, b, CU_STREAM_NON_BLOCKING);
    call_in(&peer, a, peer.base, 5, CHUNK);
    peer_set(&peer, a, peer.base, 100, 0x11, 1);                /* behind it */
    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(put_record(one, 1, 100 + i, 0, others, 50000, 0), 0);
        call_in(&peer, b, peer.base + peer.granule, 100 + i, 50000);
        assert_int_equal(peer_stream_sync(&peer, b), 0);
    }
    expect(&peer, b, peer.base + peer.granule, others, 50000);
    assert_int_equal(peer_stream_query(&peer, a), CUDA_ERROR_NOT_READY);
    assert_int_equal(put_record(one, 1, 5, 0, bytes, CHUNK, 0), 0);
    assert_int_equal(peer_stream_sync(&peer, a), 0);
    memset(bytes, 0x11, 100);
    expect(&peer, a, peer.base, bytes, CHUNK);
    free(bytes);
    free(others);
    peer_close(&peer);
    rpc_channel_destroy(one);
}

static void arrived(struct rpc_call *call, void *context)
{
    (void)call;
    *(bool *)context = true;
}

/* Behind the copy that waits for its bytes stand the end of a blocking stream, then more of the legacy stream's, then a
   synchronisation of both: its part of the stream that has ended comes to its turn when the stream is in no list any
   more. */
TEST(synchronised_behind_an_end)
{
    struct peer peer;
    begin(&peer);
    rpc_channel *one = lane(&peer, 1);
    const uint32_t a = FLYT_FIRST_STREAM, b = a + 1;
    uint8_t *bytes = pattern(CHUNK, 6);
    peer_stream_create(&peer, a, CU_STREAM_DEFAULT);
    peer_stream_create(&peer, b, CU_STREAM_NON_BLOCKING);
    call_in(&peer, 0, peer.base, 5, CHUNK);
    stream_args ended = { .stream = a };
    flyt_stream_destroy_1(&ended, NULL, peer.stub);
    peer_set(&peer, 0, peer.base, 100, 0x22, 1);
    bool answered = false;
    context_args args = { 0 };
    plain_result result = { 0 };
    struct rpc_call sync = { .procedure = FLYT_CONTEXT_SYNC,
                             .encode = (xdrproc_t)xdr_context_args,
                             .args = &args,
                             .decode = (xdrproc_t)xdr_plain_result,
                             .result = &result,
                             .done = arrived,
                             .context = &answered };
    assert_int_equal(rpc_client_submit(peer.client, &sync), RPC_SUCCESS);
    assert_int_equal(peer_stream_query(&peer, 0), CUDA_ERROR_NOT_READY);
    assert_false(answered);
    assert_int_equal(put_record(one, 1, 5, 0, bytes, CHUNK, 0), 0);
    for (uint64_t until = soon(10000); !answered && clock_now() < until; usleep(1000))
        assert_int_equal(peer_stream_sync(&peer, b), 0);         /* who waits for this reads the other answer */
    assert_true(answered);
    assert_int_equal(result.head.result, 0);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    memset(bytes, 0x22, 100);
    expect(&peer, 0, peer.base, bytes, CHUNK);
    free(bytes);
    peer_close(&peer);
    rpc_channel_destroy(one);
}

TEST(cannot_be_made)
{
    struct peer peer;
    begin(&peer);
    rpc_channel *one = lane(&peer, 1);
    uint8_t *bytes = pattern(CHUNK, 3);
    uint32_t transfer = 1;
    for (unsigned i = 0; i < 60; i++, transfer++) {
        bool first = i % 2;
        if (first)
            assert_int_equal(put_record(one, 1, transfer, 0, bytes, 30000, 0), 0);
        if (i % 3 == 0)
            call_in(&peer, 4000, peer.base, transfer, 30000);                     /* no such stream */
        else if (i % 3 == 1)
            call_in(&peer, 0, peer.base + 64 * peer.granule, transfer, 30000);     /* no such memory */
        else
            call_in(&peer, 0, 12, transfer, 30000);
        if (!first)
            assert_int_equal(put_record(one, 1, transfer, 0, bytes, 30000, 0), 0);
    }
    peer_context_sync(&peer);
    assert_int_not_equal(peer.last.latched, 0);
    for (unsigned i = 0; i < 40; i++, transfer++) {
        assert_int_equal(put_record(one, 1, transfer, 0, bytes, CHUNK, soon(10000)), 0);
        call_in(&peer, 0, peer.base, transfer, CHUNK);
    }
    expect(&peer, 0, peer.base, bytes, CHUNK);
    free(bytes);
    peer_close(&peer);
    rpc_channel_destroy(one);
}

/* Private memory of all the server's processes. */
static long memory_used(void)
{
    int pids[64], count = server_children(&server, pids, 64);
    long sum = 0, part;
    for (int i = 0; i < count; i++) {
        char path[64], line[128];
        snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pids[i]);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "Private_Dirty: %ld", &part) == 1)
                sum += part;
        if (file)
            fclose(file);
    }
    return sum;
}

TEST(beyond_the_window)
{
    struct peer peer;
    begin(&peer);
    rpc_channel *one = lane(&peer, 1);
    uint8_t *bytes = pattern(CHUNK, 4);
    enum { MANY = 400 };
    long before = memory_used();
    uint32_t sent = 0;
    int status = 0;
    /* Sockets take some; the rest waits here. */
    while (sent < MANY && (status = put_record(one, 1, 1 + sent, 0, bytes, CHUNK, soon(700))) == 0)
        sent++;
    assert_int_equal(status, -ETIMEDOUT);
    assert_true(sent < 100);
    assert_int_equal(peer_context_sync(&peer), 0);
    peer_copy_in(&peer, 0, peer.base, bytes, 1000);
    expect(&peer, 0, peer.base, bytes, 1000);
    assert_true(memory_used() - before < 100000);              /* KiB: the window, and what sanitizers add */
    peer_close(&peer);                                          /* a record is half sent */
    rpc_channel_destroy(one);
    free(bytes);
}

TEST(does_not_read)
{
    struct peer peer;
    begin(&peer);
    rpc_channel *one = lane(&peer, 1);
    enum { MANY = 200 };
    static struct rpc_call calls[MANY];
    static copy_out_result results[MANY];
    const uint32_t a = FLYT_FIRST_STREAM, b = FLYT_FIRST_STREAM + 1;
    uint8_t *bytes = pattern(CHUNK, 5);
    peer_stream_create(&peer, a, CU_STREAM_NON_BLOCKING);
    peer_stream_create(&peer, b, CU_STREAM_NON_BLOCKING);
    peer_copy_in(&peer, a, peer.base, bytes, CHUNK);
    long before = memory_used();
    memset(results, 0, sizeof results);
    for (uint32_t i = 0; i < MANY; i++) {
        copy_out_args args = { .stream = a, .from = peer.base, .size = CHUNK, .via = { 1, 1 + i } };
        calls[i] = (struct rpc_call){ .procedure = FLYT_COPY_OUT, .encode = (xdrproc_t)xdr_copy_out_args, .args = &args,
                                      .decode = (xdrproc_t)xdr_copy_out_result, .result = &results[i] };
        assert_int_equal(rpc_client_submit(peer.client, &calls[i]), RPC_SUCCESS);
    }
    for (unsigned i = 0; i < 20; i++) {
        peer_set(&peer, b, peer.base + peer.granule, 1000, i, 1);
        assert_int_equal(peer_stream_sync(&peer, b), 0);
        usleep(10000);
    }
    assert_true(memory_used() - before < 150000);
    /* Then it reads, and all is there. */
    uint8_t *back = malloc(CHUNK);
    for (uint32_t i = 0; i < MANY; i++) {
        uint8_t head[RPC_LANE_HEAD];
        struct rpc_lane_record record;
        assert_int_equal(rpc_lane_receive(one, head, sizeof head, soon(20000)), 0);
        rpc_lane_get(head, &record);
        assert_int_equal(record.transfer, 1 + i);
        assert_int_equal(record.length, CHUNK);
        assert_int_equal(rpc_lane_receive(one, back, CHUNK, soon(20000)), 0);
        assert_memory_equal(back, bytes, CHUNK);
        assert_int_equal(rpc_client_wait(peer.client, &calls[i]), RPC_SUCCESS);
        assert_int_equal(results[i].head.result, 0);
        assert_int_equal(results[i].data.kind, FLYT_BULK_LANE);
        xdr_free((xdrproc_t)xdr_copy_out_result, &results[i]);
    }
    copy_out_args nowhere = { .stream = a, .from = peer.base, .size = 100, .via = { 2, 9 } };
    copy_out_result result = { 0 };
    assert_int_equal(flyt_copy_out_1(&nowhere, &result, peer.stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, CUDA_ERROR_INVALID_VALUE);
    xdr_free((xdrproc_t)xdr_copy_out_result, &result);
    free(back);
    free(bytes);
    peer_close(&peer);
    rpc_channel_destroy(one);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t any(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

TEST(random_things)
{
    uint8_t *bytes = pattern(2 * CHUNK, 6);
    uint64_t until = clock_now() + 3 * CLOCK_NS_PER_SECOND;
    unsigned sessions = 0;
    for (; clock_now() < until; sessions++) {
        struct peer peer;
        begin(&peer);
        rpc_channel *lanes[2] = { lane(&peer, 1), lane(&peer, 2) };
        /* heads make sense, only what they say does not fit together */
        bool sane = sessions % 3 != 0;
        for (unsigned i = 0; i < 200 && !rpc_client_lost(peer.client); i++) {
            uint32_t number = 1 + any() % 2, transfer = (uint32_t)(any() % 6);
            uint64_t size = any() % 3 ? any() % 5000 : any() % (CHUNK + 2), offset = any() % 3 ? 0 : any() % 5000;
            if (sane) {
                transfer += !transfer;
                size = size > CHUNK ? CHUNK : size;
                offset = offset > CHUNK - size ? 0 : offset;
            }
            if (any() % 2) {
                int status = put_record(lanes[number - 1], sane ? number : 1 + (uint32_t)any() % 2, transfer, offset,
                                        bytes, size, soon(50));
                if (status < 0)
                    break;                                      /* closed, or not read any more */
                continue;
            }
            copy_in_args args = { .stream = (u_int)(any() % 2), .to = peer.base + any() % (5 * peer.granule),
                                  .data = { .kind = FLYT_BULK_LANE,
                                            .flyt_bulk_u = { .on_lane = { transfer, size } } } };
            if (flyt_copy_in_1(&args, NULL, peer.stub) != RPC_SUCCESS)
                break;
            if (any() % 50 == 0) {
                context_args context = { 0 };
                plain_result result = { 0 };
                if (any() % 2 && flyt_context_reset_1(&context, &result, peer.stub) != RPC_SUCCESS)
                    break;
                xdr_free((xdrproc_t)xdr_plain_result, &result);
            }
        }
        peer_close(&peer);
        rpc_channel_destroy(lanes[0]);
        rpc_channel_destroy(lanes[1]);
    }
    free(bytes);
    struct peer peer;
    begin(&peer);
    assert_int_equal(peer_context_sync(&peer), 0);
    peer_close(&peer);
    assert_true(sessions > 1);
}

int main(void) { return unit_run(start_server, stop_server); }
