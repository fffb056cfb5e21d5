/* devices.c: a session with two devices (of the software GPU): each has its own streams, memory and end. */
#include <signal.h>

#include "cpu/code/hash.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

static struct server server;

struct fixture { struct peer peer; uint64_t at[2]; };

static int device_map(struct fixture *f, int device)
{
    map_args args = { .context = (flyt_id)device, .address = f->at[device], .size = f->peer.granule };
    map_result result = { 0 };
    assert_int_equal(flyt_map_1(&args, &result, f->peer.stub), RPC_SUCCESS);
    peer_note(&f->peer, &result.head);
    xdr_free((xdrproc_t)xdr_map_result, (char *)&result);
    return result.head.result;
}

/* Device, module and function `device + 1`, a granule of memory; streams 64 and 65. */
static void device_begin(struct fixture *f, int device)
{
    uint32_t bytes;
    f->at[device] = f->peer.base + (uint64_t)device * f->peer.granule;
    assert_int_equal(PLAIN(&f->peer, context_retain, context_retain_args, { (flyt_id)device, device }), 0);
    assert_int_equal(device_map(f, device), 0);
    stream_create_args stream = { 64 + (uint32_t)device, (flyt_id)device, 1, 0 };
    flyt_stream_create_1(&stream, NULL, f->peer.stub);
    if (device == 0)
        assert_int_equal(peer_load(&f->peer, 1, kernels_ptx, NULL, 0), 0);      /* also sends the image */
    module_load_args load = { .module = (flyt_id)device + 1, .context = (flyt_id)device };
    module_load_result loaded = { 0 };
    hash_bytes(kernels_ptx, sizeof kernels_ptx, (uint8_t *)load.hash);
    assert_int_equal(flyt_module_load_1(&load, &loaded, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(loaded.head.result, 0);
    xdr_free((xdrproc_t)xdr_module_load_result, (char *)&loaded);
    assert_int_equal(peer_function(&f->peer, (uint32_t)device + 1, (uint32_t)device + 1, "add", &bytes), 0);
    assert_int_equal(peer_function(&f->peer, (uint32_t)device + 11, (uint32_t)device + 1, "spin", &bytes), 0);
    peer_set(&f->peer, 64 + (uint32_t)device, f->at[device], f->peer.granule, 0, 1);
    assert_int_equal(PLAIN(&f->peer, context_sync, context_args, { (flyt_id)device }), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    peer_open(&f->peer, server.uri[0]);
    assert_int_equal(f->peer.hello.devices.devices_len, 2);
    device_begin(f, 0);
    device_begin(f, 1);
    assert_int_equal(f->peer.last.latched, 0);
    *state = f;
    return 0;
}

static void add(struct fixture *f, int device, uint64_t at)
{
    struct { uint64_t p; uint32_t n; } __attribute__((packed)) params = { at, 1 };
    peer_launch(&f->peer, (uint32_t)device + 1, 64 + (uint32_t)device, 1, 1, &params, 12);
}

TEST_WITH(memory_crosses, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value = 41, grid[16];
    peer_copy_in(&f->peer, 64, f->at[0], &value, 4);
    add(f, 0, f->at[0]);
    copy_args copy = { 64, f->at[1] + 256, f->at[0], 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    assert_int_equal(peer_stream_sync(&f->peer, 64), 0);
    add(f, 1, f->at[1] + 256);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, f->at[1] + 256, 4), 0);
    assert_int_equal(value, 43);
    for (uint32_t i = 0; i < 16; i++)
        grid[i] = i;
    peer_copy_in(&f->peer, 64, f->at[0], grid, sizeof grid);
    copy_box_args box = { 64, { f->at[1], 32, 4 }, { f->at[0], 16, 4 }, { 8, 4, 1 } };
    flyt_copy_box_1(&box, NULL, f->peer.stub);
    assert_int_equal(peer_stream_sync(&f->peer, 64), 0);
    assert_int_equal(peer_copy_out(&f->peer, 65, grid, f->at[1] + 32, 8), 0);
    assert_int_equal(grid[0], 4);
    assert_int_equal(grid[1], 5);
    assert_int_equal(f->peer.last.latched, 0);
}

/* An event of one device orders a stream of the other; also when its recording waits in the server. */
TEST_WITH(events_cross, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value, one = 1;
    uint64_t at = f->at[0];
    stream_create_args other = { 66, 0, 1, 0 };
    flyt_stream_create_1(&other, NULL, f->peer.stub);
    peer_event_create(&f->peer, 0);
    peer_launch(&f->peer, 11, 64, 1, 1, &at, 8);                          /* spins until at[0] is not 0 */
    for (int i = 0; i < 2000; i++)
        add(f, 0, f->at[0] + 64);
    copy_args copy = { 64, f->at[1] + 64, f->at[0] + 64, 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    peer_event_record(&f->peer, 0, 64);
    peer_stream_wait(&f->peer, 65, 0);
    add(f, 1, f->at[1] + 64);
    assert_int_equal(peer_stream_query(&f->peer, 65), 600);
    peer_copy_in(&f->peer, 66, f->at[0], &one, 4);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, f->at[1] + 64, 4), 0);
    assert_int_equal(value, 2001);
    assert_int_equal(f->peer.last.latched, 0);
    /* what belongs to one device is no use on the other */
    peer_event_record(&f->peer, 0, 65);
    assert_int_equal(PLAIN(&f->peer, context_sync, context_args, { 1 }), 0);
    assert_int_equal(f->peer.last.latched, 400);
    peer_launch(&f->peer, 1, 65, 1, 1, "123456789012", 12);
    assert_int_equal(PLAIN(&f->peer, context_sync, context_args, { 1 }), 0);
    assert_int_equal(f->peer.last.latched, 400);
}

TEST_WITH(reset_leaves_the_other_alone, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value = 5;
    peer_copy_in(&f->peer, 65, f->at[1], &value, 4);
    add(f, 1, f->at[1]);
    assert_int_equal(PLAIN(&f->peer, context_reset, context_args, { 0 }), 0);
    assert_int_equal(peer_stream_sync(&f->peer, 64), 400);
    assert_int_equal(peer_copy_out(&f->peer, 65, NULL, f->at[0], 4), 1);
    add(f, 1, f->at[1]);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, f->at[1], 4), 0);
    assert_int_equal(value, 7);
    assert_int_equal(PLAIN(&f->peer, context_sync, context_args, { 0 }), 201); /* not active */
    device_begin(f, 0);
    add(f, 0, f->at[0]);
    assert_int_equal(peer_copy_out(&f->peer, 64, &value, f->at[0], 4), 0);
    assert_int_equal(value, 1);
    assert_int_equal(f->peer.last.latched, 0);
}

static int peers(struct fixture *f, uint32_t context, uint32_t peer, int may)
{
    return PLAIN(&f->peer, peer_access, peer_access_args, { context, peer, may });
}

/* A kernel of device 1 may touch what is mapped for device 0, before and after the permission, until one of the two
   contexts ends. */
TEST_WITH(peers_reach, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value;
    assert_int_equal(peers(f, 1, 0, 0), 705);
    assert_int_equal(peers(f, 1, 1, 1), 101);
    assert_int_equal(peers(f, 1, 7, 1), 201);
    assert_int_equal(peers(f, 1, 0, 1), 0);
    assert_int_equal(peers(f, 1, 0, 1), 704);
    uint64_t later = f->peer.base + 5 * f->peer.granule, first = f->at[0];
    f->at[0] = later;
    assert_int_equal(device_map(f, 0), 0);
    peer_set(&f->peer, 64, later, 4, 0, 1);
    peer_stream_sync(&f->peer, 64);
    add(f, 1, first);
    add(f, 1, later);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, first, 4), 0);
    assert_int_equal(value, 1);
    assert_int_equal(peer_copy_out(&f->peer, 65, &value, later, 4), 0);
    assert_int_equal(value, 1);
    assert_int_equal(peers(f, 1, 0, 0), 0);
    assert_int_equal(peers(f, 1, 0, 0), 705);
    assert_int_equal(peers(f, 1, 0, 1), 0);
    assert_int_equal(PLAIN(&f->peer, context_reset, context_args, { 0 }), 0);
    assert_int_equal(peers(f, 1, 0, 1), 201);
    f->at[0] = first;
    device_begin(f, 0);
    assert_int_equal(peers(f, 1, 0, 0), 705);
    assert_int_equal(f->peer.last.latched, 0);
    add(f, 1, f->at[0]);
    assert_int_equal(peer_stream_sync(&f->peer, 65), 700);
}

int main(void)
{
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    server_start(&server, "software", NULL);
    int failed = unit_run(NULL, NULL);
    server_stop(&server, SIGTERM);
    return failed;
}
