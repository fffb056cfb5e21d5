/*
 * software.c: sessions on the software GPU, in worker processes: data that arrives, waits that end in the right order,
 * operations that wait their turn, faults, and printed text.
 */
#include <signal.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cpu/common/clock.h"
#include "cpu/code/hash.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

static struct server server;
static const uint32_t one = 1, zero = 0;

struct fixture { struct peer peer; uint64_t base; flyt_due due[8]; unsigned due_count; };

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    uint32_t bytes;
    peer_open(&f->peer, server.uri[0]);
    f->base = f->peer.base;
    assert_int_equal(peer_map(&f->peer, f->base, 4 * f->peer.granule), 0);
    assert_int_equal(peer_load(&f->peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, 1, 1, "add", &bytes), 0);
    assert_int_equal(bytes, 12);
    assert_int_equal(peer_function(&f->peer, 2, 1, "spin", &bytes), 0);
    assert_int_equal(peer_function(&f->peer, 3, 1, "bad", &bytes), 0);
    peer_set(&f->peer, 0, f->base, 4 << 20, 0, 1);
    assert_int_equal(peer_context_sync(&f->peer), 0);
    *state = f;
    return 0;
}

static void add(struct fixture *f, uint32_t stream, uint64_t at, uint32_t n)
{
    struct { uint64_t p; uint32_t n; } __attribute__((packed)) params = { at, n };
    peer_launch(&f->peer, 1, stream, (n + 127) / 128, 128, &params, 12);
}

/* Ends when the word at `at` is not 0. */
static void spin(struct fixture *f, uint32_t stream, uint64_t at)
{
    peer_launch(&f->peer, 2, stream, 1, 1, &at, 8);
}

/* A synchronising call in flight. */
struct flight {
    struct rpc_call call;
    plain_result result;
    union {
        context_args context;
        stream_args stream;
        event_args event;
    } args;
};

static void fly(struct fixture *f, struct flight *flight, uint32_t procedure, xdrproc_t encode, uint32_t id)
{
    memset(flight, 0, sizeof *flight);
    flight->args.stream.stream = id;
    flight->call = (struct rpc_call){ .procedure = procedure, .encode = encode, .args = &flight->args,
                                      .decode = (xdrproc_t)xdr_plain_result, .result = &flight->result };
    assert_int_equal(rpc_client_submit(f->peer.client, &flight->call), RPC_SUCCESS);
    assert_int_equal(rpc_client_flush(f->peer.client), 0);
}

static int land(struct fixture *f, struct flight *flight)
{
    assert_int_equal(rpc_client_wait(f->peer.client, &flight->call), RPC_SUCCESS);
    int r = flight->result.head.result;
    peer_note(&f->peer, &flight->result.head);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&flight->result);
    return r;
}

static void fly_device(struct fixture *f, struct flight *flight)
{
    fly(f, flight, FLYT_CONTEXT_SYNC, (xdrproc_t)xdr_context_args, 0);
}
static void fly_stream(struct fixture *f, struct flight *flight, uint32_t id)
{
    fly(f, flight, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, id);
}
static void fly_event(struct fixture *f, struct flight *flight, uint32_t id)
{
    fly(f, flight, FLYT_EVENT_SYNC, (xdrproc_t)xdr_event_args, id);
}

/* ---- data ---- */

TEST_WITH(data_arrives, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t in[1000], out[1000];
    for (uint32_t i = 0; i < 1000; i++)
        in[i] = i * i;
    peer_copy_in(&f->peer, 0, f->base, in, sizeof in);
    add(f, 0, f->base, 1000);
    assert_int_equal(peer_copy_out(&f->peer, 0, out, f->base, sizeof out), 0);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(out[i], i * i + 1);
    peer_set(&f->peer, 0, f->base, 10, 0x01020304, 4);
    copy_args copy = { 0, f->base + 8192, f->base, 4000, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    assert_int_equal(peer_copy_out(&f->peer, 0, out, f->base + 8192, sizeof out), 0);
    assert_int_equal(out[9], 0x01020304);
    assert_int_equal(out[10], 101);
    /* a box of 3 slices of 2 rows of 5 bytes, out of 7 x 4 */
    uint8_t bytes[84], box[30];
    for (int i = 0; i < 84; i++)
        bytes[i] = (uint8_t)i;
    peer_copy_in(&f->peer, 0, f->base, bytes, sizeof bytes);
    copy_box_out_args boxed = { .from = { f->base + 1, 7, 4 }, .extent = { 5, 2, 3 } };
    copy_out_result result = { 0 };
    assert_int_equal(flyt_copy_box_out_1(&boxed, &result, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    assert_int_equal(result.data.flyt_bulk_u.bytes.bytes_len, 30);
    memcpy(box, result.data.flyt_bulk_u.bytes.bytes_val, 30);
    xdr_free((xdrproc_t)xdr_copy_out_result, (char *)&result);
    for (int z = 0; z < 3; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 5; x++)
                assert_int_equal(box[(z * 2 + y) * 5 + x], 1 + x + 7 * (y + 4 * z));
    fingerprints_args asked = { 0, { f->base + 1, 7, 4 }, { 5, 2, 3 } };
    fingerprints_result marks = { 0 };
    XXH128_hash_t expected = XXH3_128bits(box, sizeof box);
    assert_int_equal(flyt_fingerprints_1(&asked, &marks, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(marks.head.result, 0);
    assert_int_equal(marks.all.all_len, 1);
    assert_true(marks.all.all_val[0].low == expected.low64 && marks.all.all_val[0].high == expected.high64);
    xdr_free((xdrproc_t)xdr_fingerprints_result, (char *)&marks);
    copy_box_in_args inward = { 0, { f->base + 4096, 16, 2 }, { 5, 2, 3 }, { .kind = FLYT_BULK_INLINE } };
    inward.data.flyt_bulk_u.bytes.bytes_val = (char *)box;
    inward.data.flyt_bulk_u.bytes.bytes_len = 30;
    flyt_copy_box_in_1(&inward, NULL, f->peer.stub);
    assert_int_equal(peer_copy_out(&f->peer, 0, bytes, f->base + 4096 + 16 * 3, 5), 0);
    assert_memory_equal(bytes, box + 15, 5);
    assert_int_equal(f->peer.last.latched, 0);
}

/* More copies in flight than staging has slots, and large ones. */
TEST_WITH(many_copies, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint8_t *big = malloc(FLYT_MAX_INLINE), *back = malloc(FLYT_MAX_INLINE);
    for (uint32_t i = 0; i < 1000; i++)
        peer_copy_in(&f->peer, 0, f->base + 4 * i, &i, 4);
    uint32_t words[1000];
    assert_int_equal(peer_copy_out(&f->peer, 0, words, f->base, sizeof words), 0);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(words[i], i);
    for (int round = 0; round < 40; round++) {
        memset(big, round, FLYT_MAX_INLINE);
        peer_copy_in(&f->peer, 0, f->base + (uint64_t)(round % 8) * FLYT_MAX_INLINE, big, FLYT_MAX_INLINE);
    }
    for (int at = 0; at < 8; at++) {
        assert_int_equal(peer_copy_out(&f->peer, 0, back, f->base + (uint64_t)at * FLYT_MAX_INLINE, FLYT_MAX_INLINE),
                         0);
        assert_int_equal(back[0], 32 + at);
        assert_int_equal(back[FLYT_MAX_INLINE - 1], 32 + at);
    }
    assert_int_equal(f->peer.last.latched, 0);
    free(big);
    free(back);
}

TEST_WITH(symbols_have_addresses, setup, peer_tear_down)
{
    struct fixture *f = *state;
    module_load_args load = { .module = 1 };
    char *name[2] = { (char *)"counter", (char *)"nothing" };
    load.symbols.symbols_val = name;
    load.symbols.symbols_len = 2;
    module_load_result result = { 0 };
    image_args announce = { .kind = FLYT_IMAGE_PTX, .size = sizeof kernels_ptx };

    hash_bytes(kernels_ptx, sizeof kernels_ptx, (uint8_t *)announce.hash);
    memcpy(load.hash, announce.hash, sizeof load.hash);
    assert_int_equal(flyt_module_load_1(&load, &result, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    assert_int_equal(result.symbols.symbols_len, 2);
    assert_int_equal(result.symbols.symbols_val[0].result, 0);
    assert_int_equal(result.symbols.symbols_val[0].size, 4);
    assert_int_equal(result.symbols.symbols_val[1].result, 500);
    uint64_t at = result.symbols.symbols_val[0].address;
    xdr_free((xdrproc_t)xdr_module_load_result, (char *)&result);
    uint32_t value = 41;
    peer_copy_in(&f->peer, 0, at, &value, 4);
    add(f, 0, at, 1);
    assert_int_equal(peer_copy_out(&f->peer, 0, &value, at, 4), 0);
    assert_int_equal(value, 42);
    assert_int_equal(peer_copy_out(&f->peer, 0, NULL, at, 5), 1);
}

/* ---- order and waiting ---- */

/* A wait for one stream is answered though an earlier wait for another is not. */
TEST_WITH(replies_out_of_order, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct flight slow, quick;
    peer_stream_create(&f->peer, 64, 1);
    peer_stream_create(&f->peer, 65, 1);
    spin(f, 64, f->base);
    fly_stream(f, &slow, 64);
    assert_int_equal(peer_stream_query(&f->peer, 64), 600);
    add(f, 65, f->base + 4096, 100);
    fly_stream(f, &quick, 65);
    assert_int_equal(land(f, &quick), 0);
    assert_false(slow.call.complete);
    peer_copy_in(&f->peer, 65, f->base, &one, 4);
    assert_int_equal(land(f, &slow), 0);
    assert_int_equal(peer_stream_query(&f->peer, 64), 0);
}

/* A device synchronisation in progress holds up no stream: a kernel waits for what a later copy brings. With
   work in the legacy stream before, so that a marker there is tempting. */
TEST_WITH(device_sync_blocks_nobody, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct flight sync, legacy;
    peer_stream_create(&f->peer, 64, 0);
    peer_stream_create(&f->peer, 65, 0);
    peer_set(&f->peer, 0, f->base, 4, 0, 1);
    spin(f, 64, f->base);
    fly_device(f, &sync);
    fly_stream(f, &legacy, 0);
    peer_copy_in(&f->peer, 65, f->base, &one, 4);
    assert_int_equal(land(f, &sync), 0);
    assert_int_equal(land(f, &legacy), 0);
    assert_int_equal(peer_stream_query(&f->peer, 64), 0);
}

TEST_WITH(legacy_stream_is_ordered, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value;
    peer_stream_create(&f->peer, 64, 0);
    peer_stream_create(&f->peer, 66, 1);
    spin(f, 64, f->base);
    /* after the spin, which ends when base is 1 */
    copy_args copy = { 0, f->base + 8, f->base, 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    assert_int_equal(peer_stream_query(&f->peer, 0), 600);
    peer_copy_in(&f->peer, 66, f->base, &one, 4);                      /* not ordered with the legacy stream */
    assert_int_equal(peer_copy_out(&f->peer, 0, &value, f->base + 8, 4), 0);
    assert_int_equal(value, 1);
}

TEST_WITH(events_order_streams, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct flight sync;
    uint32_t value;
    for (uint32_t s = 64; s < 67; s++)
        peer_stream_create(&f->peer, s, 1);
    peer_event_create(&f->peer, 0);
    spin(f, 64, f->base);
    peer_copy_in(&f->peer, 64, f->base + 4, &one, 4);
    peer_event_record(&f->peer, 0, 64);
    peer_stream_wait(&f->peer, 65, 0);
    add(f, 65, f->base + 4, 1);
    fly_event(f, &sync, 0);
    peer_event_record(&f->peer, 0, 66);                                /* recorded again: the waits mean the first */
    assert_int_equal(peer_event_sync(&f->peer, 0), 0);
    assert_int_equal(peer_stream_query(&f->peer, 65), 600);
    assert_false(sync.call.complete);
    peer_copy_in(&f->peer, 66, f->base, &one, 4);
    assert_int_equal(land(f, &sync), 0);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, f->base + 4, 4), 0);
    assert_int_equal(value, 2);
}

/* The next host function that is due; the client says first that `ended` has ended. */
static uint32_t await_due(struct fixture *f, int *status, uint32_t ended, bool has_ended)
{
    while (has_ended || !f->due_count) {
        events_args args = { 0 };
        events_result result = { 0 };
        if (has_ended) {
            args.host_functions_done.host_functions_done_val = &ended;
            args.host_functions_done.host_functions_done_len = 1;
        }
        has_ended = false;
        assert_int_equal(flyt_events_1(&args, &result, f->peer.stub), RPC_SUCCESS);
        for (u_int i = 0; i < result.events.events_len; i++)
            f->due[f->due_count++ % 8] = result.events.events_val[i].flyt_event_u.due;
        xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    }
    flyt_due due = f->due[0];
    memmove(f->due, f->due + 1, sizeof f->due - sizeof *f->due);
    f->due_count--;
    if (status)
        *status = due.status;
    return due.id;
}

static void host_function(struct fixture *f, uint32_t stream, uint32_t id)
{
    host_function_args args = { stream, id };
    assert_int_equal(flyt_host_function_1(&args, NULL, f->peer.stub), RPC_SUCCESS);
}

TEST_WITH(host_functions_hold_their_stream, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value;
    int status = -1;
    peer_stream_create(&f->peer, 64, 1);
    add(f, 64, f->base, 1);
    host_function(f, 64, 7);
    copy_args copy = { 64, f->base + 4, f->base, 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    host_function(f, 64, 8);
    assert_int_equal(await_due(f, &status, 0, false), 7);
    assert_int_equal(status, 0);
    assert_int_equal(peer_copy_out(&f->peer, 0, &value, f->base, 4), 0);
    assert_int_equal(value, 1);
    assert_int_equal(peer_stream_query(&f->peer, 64), 600);
    value = 55;                                                        /* what the function does */
    peer_copy_in(&f->peer, 0, f->base, &value, 4);
    assert_int_equal(peer_stream_sync(&f->peer, 0), 0);
    assert_int_equal(await_due(f, &status, 7, true), 8);
    events_args done = { .host_functions_done = { 1, (flyt_id[]){ 8 } } };
    events_result result = { 0 };
    struct flight sync;
    fly_stream(f, &sync, 64);
    struct rpc_call call = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &done,
                             .decode = (xdrproc_t)xdr_events_result, .result = &result };
    assert_int_equal(rpc_client_submit(f->peer.client, &call), RPC_SUCCESS);
    assert_int_equal(land(f, &sync), 0);
    assert_int_equal(rpc_client_wait(f->peer.client, &call), RPC_SUCCESS);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    assert_int_equal(peer_copy_out(&f->peer, 64, &value, f->base + 4, 4), 0);
    assert_int_equal(value, 55);
}

/* The bytes of a copy are there before a host function behind it is due. */
TEST_WITH(copies_arrive_before_host_functions, setup, peer_tear_down)
{
    struct fixture *f = *state;
    enum { ROUNDS = 300 };
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        flyt_id ended = round - 1;
        copy_out_args args = { .from = f->base, .size = 200000 };
        copy_out_result result = { 0 };
        events_args told = { .host_functions_done = { round != 0, &ended } };
        events_result due = { 0 };
        struct rpc_call events = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &told,
                                   .decode = (xdrproc_t)xdr_events_result, .result = &due };
        struct rpc_call copy = { .procedure = FLYT_COPY_OUT, .encode = (xdrproc_t)xdr_copy_out_args, .args = &args,
                                 .decode = (xdrproc_t)xdr_copy_out_result, .result = &result };
        assert_int_equal(rpc_client_submit(f->peer.client, &events), RPC_SUCCESS);
        if (round < ROUNDS) {
            add(f, 0, f->base, 50000);
            assert_int_equal(rpc_client_submit(f->peer.client, &copy), RPC_SUCCESS);
            host_function(f, 0, round);
        }
        assert_int_equal(rpc_client_wait(f->peer.client, &events), RPC_SUCCESS);
        assert_int_equal(due.events.events_len, round < ROUNDS);
        assert_true(copy.complete || round == ROUNDS);
        xdr_free((xdrproc_t)xdr_copy_out_result, (char *)&result);
        xdr_free((xdrproc_t)xdr_events_result, (char *)&due);
    }
}

/* The size of the heap of malloc(), as a program sets it. */
static int set_heap(struct fixture *f, uint64_t size)
{
    limit_args args = { .limit = 2 /* CU_LIMIT_MALLOC_HEAP_SIZE */, .value = size };
    limit_result result = { 0 };
    enum clnt_stat status = flyt_limit_set_1(&args, &result, f->peer.stub);
    return peer_took(&f->peer, status, (xdrproc_t)xdr_limit_result, &result);
}

/* As natively: behind the launch of a kernel that calls malloc() the heap keeps its size, also where the launch waits
   in the server. */
TEST_WITH(heaps_stay_behind_launches_that_wait, setup, peer_tear_down)
{
    static const char text[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n.extern .func (.param .b64 r) malloc(.param .b64 n);\n"
        ".visible .entry take(.param .u64 out)\n{ .reg .b64 %a, %b; ld.param.u64 %a, [out]; mov.u64 %b, 16;\n"
        "{ .param .b64 x; .param .b64 y; st.param.b64 [x], %b; call.uni (y), malloc, (x); ld.param.b64 %b, [y]; }\n"
        "st.global.u64 [%a], %b; ret; }\n";
    struct fixture *f = *state;
    enum { DEEP = 2000 };
    uint64_t taken = 0;
    uint32_t bytes;
    assert_int_equal(peer_load(&f->peer, 2, text, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, 9, 2, "take", &bytes), 0);
    peer_stream_create(&f->peer, 64, 1);
    host_function(f, 64, 1);
    assert_int_equal(await_due(f, NULL, 0, false), 1);
    for (int i = 0; i < DEEP; i++) /* more than a stream gives the driver */
        add(f, 64, f->base, 1);
    assert_int_equal(set_heap(f, 16 << 20), 0); /* what waits does not use it */
    peer_launch(&f->peer, 9, 64, 1, 1, &f->base, 8);
    assert_int_equal(set_heap(f, 32 << 20), 1);
    assert_int_equal(set_heap(f, 0), 1);
    assert_int_equal(set_heap(f, 16 << 20), 0); /* nothing changes */
    host_function(f, 64, 2);
    assert_int_equal(await_due(f, NULL, 1, true), 2);
    assert_int_equal(peer_copy_out(&f->peer, 0, &taken, f->base, sizeof taken), 0);
    assert_true(taken > 1);
    assert_int_equal(set_heap(f, 32 << 20), 1); /* by the driver, which has the launch */
    assert_int_equal(f->peer.last.latched, 0);
}

/* Thousands of operations behind a host function: they wait in the server, the driver's queue is never full, other
   streams go on, and everything that is ordered behind them stays so. */
TEST_WITH(deep_queues_block_nobody, setup, peer_tear_down)
{
    struct fixture *f = *state;
    enum { MANY = 5000 };
    struct flight sync, event, device;
    uint32_t value;
    for (uint32_t s = 64; s < 68; s++)
        peer_stream_create(&f->peer, s, s == 66 ? 0 : 1);              /* 66 is a blocking one */
    peer_event_create(&f->peer, 0);
    host_function(f, 64, 1);
    for (int i = 0; i < MANY; i++)
        add(f, 64, f->base, 1);
    peer_event_record(&f->peer, 0, 64);
    peer_stream_wait(&f->peer, 65, 0);
    copy_args copy = { 65, f->base + 4, f->base, 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    fly_stream(f, &sync, 65);
    fly_event(f, &event, 0);
    assert_int_equal(peer_event_query(&f->peer, 0), 600);
    /* the same with a blocking stream and the legacy one */
    host_function(f, 66, 2);
    for (int i = 0; i < MANY; i++)
        add(f, 66, f->base + 8, 1);
    copy = (copy_args){ 0, f->base + 12, f->base + 8, 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    fly_device(f, &device);
    /* a stream that depends on none of it */
    add(f, 67, f->base + 16, 1);
    assert_int_equal(peer_copy_out(&f->peer, 67, &value, f->base + 16, 4), 0);
    assert_int_equal(value, 1);
    assert_false(sync.call.complete || event.call.complete || device.call.complete);
    uint32_t first = await_due(f, NULL, 0, false), second = await_due(f, NULL, first, true);
    assert_int_equal(first + second, 3);
    events_args done = { .host_functions_done = { 1, &second } };
    events_result result = { 0 };
    struct rpc_call call = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &done,
                             .decode = (xdrproc_t)xdr_events_result, .result = &result };
    assert_int_equal(rpc_client_submit(f->peer.client, &call), RPC_SUCCESS);
    assert_int_equal(rpc_client_flush(f->peer.client), 0);
    assert_int_equal(land(f, &sync), 0);
    assert_int_equal(land(f, &event), 0);
    assert_int_equal(land(f, &device), 0);
    assert_int_equal(rpc_client_wait(f->peer.client, &call), RPC_SUCCESS);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    assert_int_equal(peer_copy_out(&f->peer, 67, &value, f->base + 4, 4), 0);
    assert_int_equal(value, MANY);
    assert_int_equal(peer_copy_out(&f->peer, 67, &value, f->base + 12, 4), 0);
    assert_int_equal(value, MANY);
    assert_int_equal(f->peer.last.latched, 0);
    assert_int_equal(peer_stream_query(&f->peer, 64), 0);
    assert_int_equal(peer_done(&f->peer, 64), MANY + 2);
}

/* A stream destroyed with work left finishes it, and a device synchronisation waits for it. */
TEST_WITH(destroyed_streams_finish, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct flight sync;
    uint32_t value;
    peer_stream_create(&f->peer, 64, 1);
    peer_stream_create(&f->peer, 65, 1);
    spin(f, 64, f->base);
    add(f, 64, f->base + 4, 1);
    stream_args destroy = { 64 };
    flyt_stream_destroy_1(&destroy, NULL, f->peer.stub);
    fly_device(f, &sync);
    peer_stream_create(&f->peer, 64, 1);                               /* the id again, for another stream */
    assert_int_equal(peer_stream_sync(&f->peer, 64), 0);
    assert_false(sync.call.complete);
    peer_copy_in(&f->peer, 65, f->base, &one, 4);
    assert_int_equal(land(f, &sync), 0);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, f->base + 4, 4), 0);
    assert_int_equal(value, 1);
}

/* ---- faults ---- */

/* What the answer to an EVENTS call says, which a second one brings. */
static int sticky_of_events(struct fixture *f)
{
    events_args nothing = { 0 };
    events_result results[2] = { 0 };
    struct rpc_call calls[2];
    for (int i = 0; i < 2; i++) {
        calls[i] = (struct rpc_call){ .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &nothing,
                                      .decode = (xdrproc_t)xdr_events_result, .result = &results[i] };
        assert_int_equal(rpc_client_submit(f->peer.client, &calls[i]), RPC_SUCCESS);
    }
    assert_int_equal(rpc_client_wait(f->peer.client, &calls[0]), RPC_SUCCESS);
    int sticky = results[0].head.sticky;
    host_function(f, 0, 99); /* it is due at once, behind a fault */
    assert_int_equal(rpc_client_wait(f->peer.client, &calls[1]), RPC_SUCCESS);
    for (int i = 0; i < 2; i++)
        xdr_free((xdrproc_t)xdr_events_result, (char *)&results[i]);
    return sticky;
}

TEST_WITH(faults_stay_with_their_client, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct fixture *other;
    uint32_t value;
    setup((void **)&other);
    add(other, 0, other->base, 1);
    peer_launch(&f->peer, 3, 0, 1, 1, NULL, 0);
    assert_int_equal(peer_context_sync(&f->peer), 700);
    assert_int_equal(f->peer.last.sticky, 700);
    assert_int_equal(sticky_of_events(f), 0); /* else a client might learn of it without what its kernels printed */
    assert_int_equal(peer_stream_sync(&f->peer, 0), 700);
    assert_int_equal(peer_copy_out(&f->peer, 0, &value, f->base, 4), 700);
    assert_int_equal(peer_context_sync(&f->peer), 700);
    add(other, 0, other->base, 1);
    assert_int_equal(peer_copy_out(&other->peer, 0, &value, other->base, 4), 0);
    assert_int_equal(value, 2);
    assert_int_equal(other->peer.last.sticky, 0);
    peer_tear_down((void **)&other);
}

/* An error ends what waits behind it, host functions too. */
TEST_WITH(faults_end_every_wait, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct flight sync, device;
    int status = -1;
    peer_stream_create(&f->peer, 64, 1);
    peer_stream_create(&f->peer, 65, 1);
    spin(f, 64, f->base);
    host_function(f, 64, 3);
    fly_stream(f, &sync, 64);
    fly_device(f, &device);
    peer_launch(&f->peer, 3, 65, 1, 1, NULL, 0);
    assert_int_equal(land(f, &sync), 700);
    assert_int_equal(land(f, &device), 700);
    assert_int_equal(await_due(f, &status, 0, false), 3);
    assert_int_equal(status, 700);
}

/* ---- text ---- */

static const char print_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 text[10] = {104, 101, 108, 108, 111, 32, 37, 100, 10, 0};\n"
    ".visible .entry print(.param .u32 n)\n{\n"
    " .local .align 8 .b8 args[8]; .reg .b64 %d<6>; .reg .b32 %r<3>;\n"
    " mov.u64 %d1, args; cvta.local.u64 %d2, %d1; ld.param.u32 %r1, [n]; st.local.u32 [%d1], %r1;\n"
    " mov.u64 %d3, text; cvta.global.u64 %d4, %d3;\n"
    " { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %d4; st.param.b64 [a], %d2;\n"
    " call.uni (r), vprintf, (f, a); ld.param.b32 %r2, [r]; }\n ret;\n}\n";

TEST_WITH(printed_text_comes_with_the_sync, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t bytes, n = 42;
    uint8_t byte;
    assert_int_equal(peer_load(&f->peer, 2, print_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, 9, 2, "print", &bytes), 0);
    peer_launch(&f->peer, 9, 0, 1, 1, &n, 4);
    peer_printed(&f->peer);
    assert_int_equal(peer_context_sync(&f->peer), 0);
    assert_string_equal(peer_printed(&f->peer), "hello 42\n");
    peer_stream_create(&f->peer, 64, 1);
    n = 43;
    peer_launch(&f->peer, 9, 64, 1, 1, &n, 4);
    assert_int_equal(peer_stream_sync(&f->peer, 64), 0);
    assert_string_equal(peer_printed(&f->peer), "hello 43\n");
    n = 44;
    peer_launch(&f->peer, 9, 0, 1, 1, &n, 4);
    assert_int_equal(peer_copy_out(&f->peer, 0, &byte, f->base, 1), 0);
    assert_string_equal(peer_printed(&f->peer), "hello 44\n");
    /* behind a wait that is not over at once */
    spin(f, 64, f->base);
    n = 45;
    peer_launch(&f->peer, 9, 64, 1, 1, &n, 4);
    struct flight sync;
    fly_stream(f, &sync, 64);
    peer_copy_in(&f->peer, 0, f->base, &one, 4);
    assert_int_equal(rpc_client_wait(f->peer.client, &sync.call), RPC_SUCCESS);
    assert_int_equal(sync.result.head.printed.printed_len, 1);
    assert_memory_equal(sync.result.head.printed.printed_val[0].bytes.bytes_val, "hello 45\n", 9);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&sync.result);
}

/* ---- life ---- */

TEST_WITH(reset_starts_anew, setup, peer_tear_down)
{
    struct fixture *f = *state;
    struct flight sync;
    uint32_t value = 0;
    peer_stream_create(&f->peer, 64, 1);
    host_function(f, 64, 1);
    for (int i = 0; i < 2000; i++)
        add(f, 64, f->base, 1);
    fly_stream(f, &sync, 64);
    assert_int_equal(peer_context_reset(&f->peer), 0);
    assert_int_not_equal(land(f, &sync), 0);
    context_retain_args primary = { 0, 0 };
    plain_result result = { 0 };
    assert_int_equal(flyt_context_retain_1(&primary, &result, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&result);
    assert_int_equal(peer_map(&f->peer, f->base, f->peer.granule), 0);
    assert_int_equal(peer_load(&f->peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, 1, 1, "add", &value), 0);
    peer_copy_in(&f->peer, 0, f->base, &zero, 4);
    add(f, 0, f->base, 1);
    assert_int_equal(peer_copy_out(&f->peer, 0, &value, f->base, 4), 0);
    assert_int_equal(value, 1);
}

/* A client that goes away inside a host function, with a kernel running: its worker is gone soon. */
TEST(a_dead_client_frees_everything)
{
    struct fixture *f;
    int before[64], now[64];
    setup((void **)&f);
    usleep(100000);
    int n = server_children(&server, before, 64);
    peer_stream_create(&f->peer, 64, 1);
    peer_stream_create(&f->peer, 65, 1);
    host_function(f, 64, 1);
    spin(f, 65, f->base);
    await_due(f, NULL, 0, false);
    peer_tear_down((void **)&f);
    uint64_t until = clock_now() + 5 * CLOCK_NS_PER_SECOND;
    while (server_children(&server, now, 64) >= n && clock_now() < until)
        usleep(10000);
    assert_true(server_children(&server, now, 64) < n);
}

/* ---- the compute capability that a client asks for ---- */

static int attribute(const hello_result *hello, int name)
{
    const flyt_device *device = hello->devices.devices_val;
    for (u_int i = 0; i < device->attributes.attributes_len; i++)
        if (device->attributes.attributes_val[i].name == name)
            return device->attributes.attributes_val[i].value;
    return -1;
}

/* What a session of this server shows to a client that says `asks`, times ten. */
static int shown(const struct server *where, uint64_t asks)
{
    struct peer peer = { 0 };
    peer_connect(&peer, where->uri[0]);
    peer.capabilities = asks << FLYT_COMPUTE_SHIFT;
    peer_hello(&peer);
    int capability = attribute(&peer.hello, 75) * 10 + attribute(&peer.hello, 76);
    peer_close(&peer);
    return capability;
}

TEST(capability_is_chosen)
{
    struct server operated;
    assert_int_equal(shown(&server, 0), 130); /* as a client of an earlier release */
    assert_int_equal(shown(&server, 90), 90);
    assert_int_equal(shown(&server, 120 | FLYT_COMPUTE_INSISTS), 120);
    /* What is none is not believed. */
    assert_int_equal(shown(&server, 29), 130);
    assert_int_equal(shown(&server, 1000), 130);
    assert_int_equal(shown(&server, 1023 | FLYT_COMPUTE_INSISTS), 130);
    setenv("FLYT_SOFTGPU_CC", "9.0", 1);
    server_start(&operated, "software", NULL);
    unsetenv("FLYT_SOFTGPU_CC");
    assert_int_equal(shown(&operated, 0), 90);
    assert_int_equal(shown(&operated, 120), 90);
    assert_int_equal(shown(&operated, 120 | FLYT_COMPUTE_INSISTS), 120);
    server_stop(&operated, SIGTERM);
}

int main(void)
{
    server_start(&server, "software", NULL);
    int failed = unit_run(NULL, NULL);
    server_stop(&server, SIGTERM);
    return failed;
}
