/* session.c: a session from HELLO to its end, on the null device, in this process. */
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/server/gpu/gpu.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

static int setup(void **state)
{
    struct peer *peer = calloc(1, sizeof *peer);
    peer_local(peer, "null");
    peer_hello(peer);
    *state = peer;
    return 0;
}

static int teardown(void **state)
{
    struct gpu_null_count count;
    peer_close(*state);
    free(*state);
    gpu_null_counted(&count);
    assert_int_equal(count.mapped, 0);                    /* everything was given back */
    return 0;
}

TEST_WITH(hello_describes, setup, teardown)
{
    struct peer *peer = *state;
    assert_int_equal(peer->hello.major, FLYT_PROTOCOL_MAJOR);
    assert_int_equal(peer->hello.in_process, 1);
    assert_non_null(strstr(peer->hello.server, "null"));
    assert_int_equal(peer->hello.devices.devices_len, 1);
    flyt_device *device = peer->hello.devices.devices_val;
    assert_string_equal(device->name, "Flyt null device");
    assert_int_equal(device->priority_greatest, -5);
    int major = 0;
    for (u_int i = 0; i < device->attributes.attributes_len; i++)
        if (device->attributes.attributes_val[i].name == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
            major = device->attributes.attributes_val[i].value;
    assert_int_equal(major, 9);
}

TEST_WITH(map_launch_sync, setup, teardown)
{
    struct peer *peer = *state;
    struct gpu_null_count before, after;
    uint32_t bytes;
    assert_int_equal(peer_map(peer, peer->base, 2 * peer->granule), 0);
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, 1, 1, "add", &bytes), 0);
    assert_int_equal(bytes, 12);
    assert_int_equal(peer_function(peer, 2, 1, "none", &bytes), 500);
    gpu_null_counted(&before);
    struct { uint64_t p; uint32_t n; } __attribute__((packed)) params = { peer->base, 100 };
    peer_stream_create(peer, 64, 0);
    for (int i = 0; i < 10000; i++)
        peer_launch(peer, 1, 64, 1, 128, &params, 12);
    assert_int_equal(peer_stream_sync(peer, 64), 0);
    assert_int_equal(peer->last.latched, 0);
    assert_int_equal(peer_done(peer, 64), 10000);
    gpu_null_counted(&after);
    assert_int_equal(after.launches - before.launches, 10000);
    uint8_t host[256];
    peer_copy_in(peer, 64, peer->base, host, sizeof host);
    assert_int_equal(peer_copy_out(peer, 64, NULL, peer->base + 5, 300), 0);
    assert_int_equal(peer_done(peer, 64), 10002);
    peer_set(peer, 0, peer->base, 1000, 7, 4);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer_done(peer, 0), 1);
    assert_int_equal(peer->last.latched, 0);
}

/* The reader lets a launch wait until it runs it itself, and does so before it answers the next call. Now and then the
   executor has the launch. */
TEST_WITH(the_reader_runs_what_it_launches, setup, teardown)
{
    enum { TRIES = 10000 };
    struct peer *peer = *state;
    struct gpu_null_count before, after;
    uint32_t bytes;
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, 1, 1, "add", &bytes), 0);
    gpu_null_counted(&before);
    after = before;
    for (int k = 0; k < TRIES && after.held == before.held; k++) {
        peer_launch(peer, 1, 0, 1, 128, "123456789012", 12);
        assert_int_equal(peer_context_sync(peer), 0);
        gpu_null_counted(&after);
        assert_int_equal(after.ran, after.held);
    }
    assert_true(after.held > before.held);
}

/* A wrong call latches its error for the next reply, once, and its number passes. */
TEST_WITH(errors_latch, setup, teardown)
{
    struct peer *peer = *state;
    uint32_t bytes;
    assert_int_equal(peer_map(peer, peer->base, peer->granule), 0);
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, 1, 1, "add", &bytes), 0);
    peer_launch(peer, 1, 0, 1, 2048, "123456789012", 12);          /* too many threads */
    peer_launch(peer, 99, 0, 1, 1, NULL, 0);                       /* later, so not reported */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(peer_done(peer, 0), 2);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 0);
    peer_launch(peer, 1, 0, 1, 1, "1234", 4);                      /* parameters cut short */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, CUDA_ERROR_INVALID_VALUE);
    peer_launch(peer, 1, 77, 1, 1, "123456789012", 12);            /* no such stream */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, CUDA_ERROR_INVALID_HANDLE);
}

TEST_WITH(addresses_are_checked, setup, teardown)
{
    struct peer *peer = *state;
    uint64_t g = peer->granule, base = peer->base, end = base + peer->hello.window_size;
    assert_int_equal(peer_map(peer, base + 1, g), 1);
    assert_int_equal(peer_map(peer, base, g + 1), 1);
    assert_int_equal(peer_map(peer, base, 0), 1);
    assert_int_equal(peer_map(peer, base - g, g), 1);
    assert_int_equal(peer_map(peer, end, g), 1);
    assert_int_equal(peer_map(peer, end - g, 2 * g), 1);
    assert_int_equal(peer_map(peer, base, UINT64_MAX & ~(g - 1)), 1);
    assert_int_equal(peer_map(peer, base, UINT64_C(32) << 30), 2);        /* more than the device has */
    assert_int_equal(peer_map(peer, base, 2 * g), 0);
    assert_int_equal(peer_map(peer, base + g, g), 1);                     /* taken */
    static const struct { int64_t offset; uint64_t size; int good; } copies[] = {
        { 0, 1, 1 }, { -1, 1, 0 }, { -1, 2, 0 }, { 0, 1 << 20, 1 }, { (4 << 20) - 1, 1, 1 }, { (4 << 20) - 1, 2, 0 },
        { 4 << 20, 1, 0 }, { 0, 0, 1 }, { 4 << 20, 0, 1 }, { 0, (1 << 20) + 1, 0 },
    };
    assert_int_equal(g, 2 << 20);
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        assert_int_equal(peer_copy_out(peer, 0, NULL, base + (uint64_t)copies[i].offset, copies[i].size),
                         copies[i].good ? 0 : 1);
    assert_int_equal(peer_copy_out(peer, 0, NULL, 8, 8), 1);
    assert_int_equal(peer_copy_out(peer, 0, NULL, UINT64_MAX - 3, 8), 1);
    peer_set(peer, 0, base, UINT64_MAX / 2, 0, 4);                        /* overflows */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    peer_set(peer, 0, base, 8, 0, 3);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    copy_box_args box = { 0, { base, 1024, 16 }, { base + 65536, 1024, 16 }, { 1000, 16, 4 } };
    flyt_copy_box_1(&box, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 0);
    box.extent.depth = UINT64_MAX / 16;
    flyt_copy_box_1(&box, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    /* unmapping: exactly what was mapped */
    unmap_args unmap = { 0, base, g };
    flyt_unmap_1(&unmap, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    unmap.size = 2 * g;
    flyt_unmap_1(&unmap, NULL, peer->stub);
    flyt_unmap_1(&unmap, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    assert_int_equal(peer_copy_out(peer, 0, NULL, base, 1), 1);
    assert_int_equal(peer_map(peer, base, g), 0);
}

TEST_WITH(ids_are_checked, setup, teardown)
{
    struct peer *peer = *state;
    uint32_t bytes;
    assert_int_equal(peer_stream_sync(peer, 64), 400);
    assert_int_equal(peer_event_sync(peer, 0), 400);
    assert_int_equal(peer_event_query(peer, UINT32_MAX), 400);
    assert_int_equal(peer_function(peer, 0, 5, "add", &bytes), 400);
    peer_stream_create(peer, 5, 0);                                       /* a legacy stream's id */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    peer_stream_create(peer, 64, 0);
    peer_stream_create(peer, 64, 0);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    peer_stream_create(peer, 65, 77);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    stream_args destroy = { 0 };
    flyt_stream_destroy_1(&destroy, NULL, peer->stub);                    /* not the legacy one */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 400);
    destroy.stream = 64;
    flyt_stream_destroy_1(&destroy, NULL, peer->stub);
    flyt_stream_destroy_1(&destroy, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 400);
    peer_stream_create(peer, 64, 1);                                      /* the id can be used again */
    assert_int_equal(peer_stream_sync(peer, 64), 0);
    assert_int_equal(peer->last.latched, 0);
}

TEST_WITH(events_work, setup, teardown)
{
    struct peer *peer = *state;
    peer_stream_create(peer, 64, 1);
    peer_event_create(peer, 0);
    peer_event_create(peer, 1);
    assert_int_equal(peer_event_query(peer, 0), 0);                       /* never recorded */
    peer_event_record(peer, 0, 64);
    peer_stream_wait(peer, 0, 0);
    peer_event_record(peer, 1, 0);
    assert_int_equal(peer_event_sync(peer, 1), 0);
    assert_int_equal(peer_done(peer, 0), 2);
    event_elapsed_time_args args = { 0, 1 };
    event_elapsed_time_result result = { 0 };
    assert_int_equal(flyt_event_elapsed_time_1(&args, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    xdr_free((xdrproc_t)xdr_event_elapsed_time_result, (char *)&result);
    event_args destroy = { 0 };
    flyt_event_destroy_1(&destroy, NULL, peer->stub);
    flyt_event_destroy_1(&destroy, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 400);
}

TEST_WITH(images_are_checked, setup, teardown)
{
    struct peer *peer = *state;
    char log[512];
    static const char wrong[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() { this is no ptx; }\n";
    assert_int_equal(peer_load(peer, 3, wrong, log, sizeof log), 218);
    assert_true(strlen(log) > 0);
    /* a hash that does not fit the bytes */
    image_args announce = { .kind = FLYT_IMAGE_PTX, .size = 4 };
    image_result present = { 0 };
    memset(announce.hash, 7, sizeof announce.hash);
    assert_int_equal(flyt_image_1(&announce, &present, peer->stub), RPC_SUCCESS);
    assert_int_equal(present.head.result, 0);
    assert_int_equal(present.present, 0);
    xdr_free((xdrproc_t)xdr_image_result, (char *)&present);
    image_data_args data = { .offset = 0, .bytes = { 4, (char *)"abc" } };
    memset(data.hash, 7, sizeof data.hash);
    flyt_image_data_1(&data, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 200);
    /* bytes of an image that was refused */
    flyt_image_data_1(&data, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 0);
    /* bytes of an image that are not the next ones */
    assert_int_equal(flyt_image_1(&announce, &present, peer->stub), RPC_SUCCESS);
    assert_int_equal(present.head.result, 0);
    xdr_free((xdrproc_t)xdr_image_result, (char *)&present);
    data.offset = 2;
    flyt_image_data_1(&data, NULL, peer->stub);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    module_load_args load = { .module = 9 };
    module_load_result result = { 0 };
    memset(load.hash, 7, sizeof load.hash);
    assert_int_equal(flyt_module_load_1(&load, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 200);
    xdr_free((xdrproc_t)xdr_module_load_result, (char *)&result);
    announce.size = (uint64_t)FLYT_MAX_IMAGE + 1;
    announce.hash[0] = 1;
    memset(&present, 0, sizeof present);
    assert_int_equal(flyt_image_1(&announce, &present, peer->stub), RPC_SUCCESS);
    assert_int_equal(present.head.result, 1);
    xdr_free((xdrproc_t)xdr_image_result, (char *)&present);
}

/* Images of which no byte comes may not pile up; one alone may be as large as any. */
TEST_WITH(images_under_way_are_bounded, setup, teardown)
{
    struct peer *peer = *state;
    for (int i = 0; i < 3; i++) {
        image_args announce = { .kind = FLYT_IMAGE_PTX, .size = 600 << 20 };
        image_result present = { 0 };
        memset(announce.hash, 20 + i, sizeof announce.hash);
        assert_int_equal(flyt_image_1(&announce, &present, peer->stub), RPC_SUCCESS);
        assert_int_equal(present.head.result, i ? 2 : 0);
        xdr_free((xdrproc_t)xdr_image_result, (char *)&present);
    }
}

TEST_WITH(reset_gives_all_back, setup, teardown)
{
    struct peer *peer = *state;
    struct gpu_null_count count;
    uint32_t bytes;
    assert_int_equal(peer_map(peer, peer->base, 4 * peer->granule), 0);
    assert_int_equal(peer_load(peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(peer, 1, 1, "add", &bytes), 0);
    peer_stream_create(peer, 64, 0);
    peer_event_create(peer, 0);
    peer_event_record(peer, 0, 64);
    peer_launch(peer, 1, 0, 1, 1, "123456789012", 12);
    assert_int_equal(peer_context_reset(peer), 0);
    gpu_null_counted(&count);
    assert_int_equal(count.mapped, 0);
    assert_int_equal(peer_stream_sync(peer, 64), 400);
    context_retain_args primary = { 0, 0 };
    plain_result result = { 0 };
    assert_int_equal(flyt_context_retain_1(&primary, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&result);
    peer_stream_create(peer, 64, 0);
    assert_int_equal(peer_stream_sync(peer, 64), 0);
    assert_int_equal(peer->last.latched, 0);
    peer_set(peer, 0, peer->base, 1, 1, 1);                               /* nothing is mapped any more */
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 1);
    assert_int_equal(peer_done(peer, 0), 2);                              /* the legacy stream counts on */
}

/* Beats come while nothing happens; a second EVENTS call releases the first. */
TEST_WITH(events_beat, setup, teardown)
{
    struct peer *peer = *state;
    events_args args = { 0 };
    events_result first = { 0 }, second = { 0 };
    struct rpc_call calls[2] = {
        { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &args,
          .decode = (xdrproc_t)xdr_events_result, .result = &first },
        { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &args,
          .decode = (xdrproc_t)xdr_events_result, .result = &second },
    };
    uint64_t start = clock_now();
    assert_int_equal(rpc_client_submit(peer->client, &calls[0]), RPC_SUCCESS);
    assert_int_equal(rpc_client_submit(peer->client, &calls[1]), RPC_SUCCESS);
    assert_int_equal(rpc_client_wait(peer->client, &calls[0]), RPC_SUCCESS);
    assert_true(clock_now() - start < CLOCK_NS_PER_SECOND);
    assert_int_equal(rpc_client_wait(peer->client, &calls[1]), RPC_SUCCESS);
    uint64_t waited = clock_now() - start;
    assert_true(waited > CLOCK_NS_PER_SECOND && waited < 2 * FLYT_BEAT_SECONDS * CLOCK_NS_PER_SECOND);
    assert_int_equal(second.serial, first.serial + 1);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&first);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&second);
}

/* A driver that does not make a context current. */
static struct {
    CUresult (*set)(CUcontext);
    _Atomic(CUcontext) refused;
} current;

static CUresult set_current(CUcontext context)
{
    return context && context == current.refused ? CUDA_ERROR_LAUNCH_FAILED : current.set(context);
}

/* An operation whose context cannot be used at its turn ends as one that waits when its context ends: whoever waits for
   it learns why. */
TEST_WITH(a_context_that_cannot_be_used, setup, teardown)
{
    struct peer *peer = *state;
    char error[GPU_ERROR_SIZE];
    const struct gpu *gpu;
    CUcontext primary;
    assert_int_equal(gpu_open("null", &gpu, error), 0);
    assert_int_equal(gpu->DevicePrimaryCtxRetain(&primary, 0), 0);
    assert_int_equal(gpu->DevicePrimaryCtxRelease(0), 0);
    current.set = gpu->CtxSetCurrent;
    ((struct gpu *)(uintptr_t)gpu)->CtxSetCurrent = set_current;
    assert_int_equal(PLAIN(peer, context_create, context_create_args, { 1, 0, 0 }), 0);
    assert_int_equal(PLAIN(peer, context_sync, context_args, { 1 }), 0); /* the primary one is not current any more */
    current.refused = primary;
    host_function_args function = { 0, 7 };
    flyt_host_function_1(&function, NULL, peer->stub);
    events_args args = { 0 };
    events_result result = { 0 };
    assert_int_equal(flyt_events_1(&args, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.events.events_len, 1);
    assert_int_equal(result.events.events_val[0].flyt_event_u.due.id, 7);
    assert_int_equal(result.events.events_val[0].flyt_event_u.due.status, CUDA_ERROR_LAUNCH_FAILED);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    assert_int_equal(PLAIN(peer, context_sync, context_args, { 1 }), 0);
    assert_int_equal(peer->last.latched, CUDA_ERROR_LAUNCH_FAILED);
    current.refused = NULL;
    ((struct gpu *)(uintptr_t)gpu)->CtxSetCurrent = current.set;
    assert_int_equal(PLAIN(peer, context_destroy, context_args, { 1 }), 0);
}

TEST_WITH(host_functions_are_due, setup, teardown)
{
    struct peer *peer = *state;
    host_function_args function = { 0, 5 };
    flyt_host_function_1(&function, NULL, peer->stub);
    function.stream = 99;                                                 /* told even so */
    function.id = 6;
    flyt_host_function_1(&function, NULL, peer->stub);
    bool seen[2] = { false, false };
    while (!seen[0] || !seen[1]) {
        events_args args = { 0 };
        events_result result = { 0 };
        assert_int_equal(flyt_events_1(&args, &result, peer->stub), RPC_SUCCESS);
        for (u_int i = 0; i < result.events.events_len; i++) {
            flyt_event *event = &result.events.events_val[i];
            assert_int_equal(event->kind, FLYT_EVENT_HOST_FUNCTION);
            assert_int_equal(event->flyt_event_u.due.status, event->flyt_event_u.due.id == 5 ? 0 : 400);
            seen[event->flyt_event_u.due.id - 5] = true;
        }
        xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    }
}

/* An error of a call without an answer is for the next call that a thread waits for, not for the helper's EVENTS. */
TEST_WITH(events_take_no_errors, setup, teardown)
{
    struct peer *peer = *state;
    peer_launch(peer, 99, 0, 1, 1, NULL, 0);
    host_function_args function = { 0, 1 };
    flyt_host_function_1(&function, NULL, peer->stub);
    events_args args = { 0 };
    events_result result = { 0 };
    assert_int_equal(flyt_events_1(&args, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.events.events_len, 1);
    assert_int_equal(result.head.latched, 0);
    xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    assert_int_equal(peer_context_sync(peer), 0);
    assert_int_equal(peer->last.latched, 400);
}

/* Streams with host functions come and go: what each needs of the device is used again. */
TEST_WITH(gates_are_used_again, setup, teardown)
{
    struct peer *peer = *state;
    enum { ROUNDS = 200, STREAMS = 100 };
    static flyt_id ended[STREAMS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < STREAMS; i++) {
            host_function_args function = { 64 + i, i };
            stream_args destroy = { 64 + i };
            peer_stream_create(peer, 64 + i, 1);
            flyt_host_function_1(&function, NULL, peer->stub);
            flyt_stream_destroy_1(&destroy, NULL, peer->stub);
        }
        unsigned due = 0;
        while (due < STREAMS) {
            events_args args = { 0 };
            events_result result = { 0 };
            assert_int_equal(flyt_events_1(&args, &result, peer->stub), RPC_SUCCESS);
            for (u_int i = 0; i < result.events.events_len; i++) {
                assert_int_equal(result.events.events_val[i].flyt_event_u.due.status, 0);
                ended[due++] = result.events.events_val[i].flyt_event_u.due.id;
            }
            xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
        }
        events_args args = { .host_functions_done = { STREAMS, ended } };
        events_result result = { 0 };
        struct rpc_call call = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &args,
                                 .decode = (xdrproc_t)xdr_events_result, .result = &result };
        assert_int_equal(rpc_client_submit(peer->client, &call), RPC_SUCCESS);
        host_function_args wake = { 0, 1000 + round };    /* answers the call that waits */
        flyt_host_function_1(&wake, NULL, peer->stub);
        assert_int_equal(rpc_client_wait(peer->client, &call), RPC_SUCCESS);
        xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
        assert_int_equal(peer_context_sync(peer), 0);
        assert_int_equal(peer->last.latched, 0);
    }
}

TEST(wrong_version_is_refused)
{
    struct peer peer;
    peer_local(&peer, "null");
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR + 1, .host = (char *)"h", .executable = (char *)"e" };
    assert_int_equal(flyt_hello_1(&args, &peer.hello, peer.stub), RPC_SUCCESS);
    assert_int_equal(peer.hello.head.result, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
    assert_non_null(strstr(peer.hello.refusal, "version"));
    peer_close(&peer);
}

TEST(hello_must_be_first)
{
    struct peer peer;
    peer_local(&peer, "null");
    context_args args = { 0 };
    plain_result result = { 0 };
    assert_int_not_equal(flyt_context_sync_1(&args, &result, peer.stub), RPC_SUCCESS);
    peer_close(&peer);
}

/* The null device has no textures: what is not there is said by generated code. */
TEST_WITH(lacking_calls_are_refused, setup, teardown)
{
    struct peer *peer = *state;
    tex_object_create_args args = { .pResDesc.res = { .resType = CU_RESOURCE_TYPE_LINEAR } };
    tex_object_create_result result = { 0 };
    args.pResDesc.res.flyt_cuda_resource_desc_res_u.linear.format = CU_AD_FORMAT_FLOAT;
    assert_int_equal(flyt_tex_object_create_1(&args, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, CUDA_ERROR_NOT_SUPPORTED);
    xdr_free((xdrproc_t)xdr_tex_object_create_result, (char *)&result);
    args.pResDesc.res.flyt_cuda_resource_desc_res_u.linear.format = 12345;
    assert_int_equal(flyt_tex_object_create_1(&args, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, CUDA_ERROR_INVALID_VALUE);
    xdr_free((xdrproc_t)xdr_tex_object_create_result, (char *)&result);
    tex_object_destroy_args destroy = { 1 };
    plain_result plain = { 0 };
    assert_int_equal(flyt_tex_object_destroy_1(&destroy, &plain, peer->stub), RPC_SUCCESS);
    assert_int_equal(plain.head.result, CUDA_ERROR_INVALID_VALUE);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&plain);
}

int main(void) { return unit_run(NULL, NULL); }
