/*
 * mirror.c: pinned memory that kernels use over a network, from the client's side spoken by hand: what is offered, what
 * patches do and what of them is refused, kernels that wait for memory, limits, and clients that end or lie.
 */
#include <signal.h>

#include "cpu/common/clock.h"
#include "cpu/common/patch.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

enum { INVALID = 1, NO_MEMORY = 2, NOT_READY = 600, ILLEGAL = 700, ADD = 1, SPIN = 2, TELL = 3, STREAM = 64 };
#define GRANULE ((uint64_t)FLYT_HOST_GRANULE)

static struct server server;

struct fixture { struct peer peer; uint64_t host; };

static void connect_to(struct fixture *f, const struct server *to, uint64_t capabilities)
{
    uint32_t bytes;
    peer_connect(&f->peer, to->uri[1]);
    f->peer.capabilities = capabilities;
    peer_hello(&f->peer);
    f->host = f->peer.base + f->peer.hello.window_size;
    assert_int_equal(peer_map(&f->peer, f->peer.base, f->peer.granule), 0);
    assert_int_equal(peer_load(&f->peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, ADD, 1, "add", &bytes), 0);
    assert_int_equal(peer_function(&f->peer, SPIN, 1, "spin", &bytes), 0);
    assert_int_equal(peer_function(&f->peer, TELL, 1, "tell", &bytes), 0);
    peer_stream_create(&f->peer, STREAM, 1);
}

/* Clients of some tests do without FLYT_CAP_PULL, too. */
#define BOTH "pull", "no pull"
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    connect_to(f, &server, *state && !strcmp(*state, "no pull") ? FLYT_CAP_MIRROR : FLYT_CAP_MIRROR | FLYT_CAP_PULL);
    *state = f;
    return 0;
}

static int host_call(struct fixture *f, bool adds, uint64_t address, uint64_t size)
{
    host_args args = { address, size };
    plain_result result = { 0 };
    assert_int_equal((adds ? flyt_host_add_1 : flyt_host_remove_1)(&args, &result, f->peer.stub), RPC_SUCCESS);
    int code = result.head.result;
    peer_note(&f->peer, &result.head);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&result);
    return code;
}
static int add(struct fixture *f, uint64_t address, uint64_t size) { return host_call(f, true, address, size); }
static int take(struct fixture *f, uint64_t address, uint64_t size) { return host_call(f, false, address, size); }

static void patch(struct fixture *f, const void *bytes, size_t size, bool more)
{
    host_patch_args args = { more, { (u_int)size, (char *)(uintptr_t)bytes } };
    assert_int_equal(flyt_host_patch_1(&args, NULL, f->peer.stub), RPC_SUCCESS);
}

/* Writes these bytes, of one line, at the address. */
static void write_there(struct fixture *f, uint64_t address, const void *bytes, size_t size, bool more)
{
    uint8_t record[16 + PATCH_LINE];
    uint64_t line = address & ~(uint64_t)(PATCH_LINE - 1), offset = address - line;
    uint64_t mask = (size == 64 ? UINT64_MAX : (UINT64_C(1) << size) - 1) << offset;
    assert_true(offset + size <= PATCH_LINE);
    memcpy(record, &line, 8);
    memcpy(record + 8, &mask, 8);
    memcpy(record + 16, bytes, size);
    patch(f, record, 16 + size, more);
}
static void put(struct fixture *f, uint64_t address, uint32_t value) { write_there(f, address, &value, 4, false); }

/* What the device has changed, applied to `there`, which begins at the host window. How many bytes of patch. */
static struct { uint8_t *memory, *base; size_t size; uint64_t at; } there;
static bool place(void *unused, uint64_t address, size_t size, uint8_t **memory, uint8_t **base)
{
    (void)unused;
    if (address - there.at >= there.size || size > there.size - (address - there.at))
        return false;
    *memory = there.memory + (address - there.at);
    *base = there.base + (address - there.at);
    return true;
}
static size_t changes(struct fixture *f)
{
    host_changes_args args = { 0 };
    size_t bytes = 0;
    do {
        host_changes_result result = { 0 };
        assert_int_equal(flyt_host_changes_1(&args, &result, f->peer.stub), RPC_SUCCESS);
        assert_int_equal(result.head.result, 0);
        assert_true(!result.next || result.next > args.from);
        assert_true(patch_apply((uint8_t *)result.patch.patch_val, result.patch.patch_len, place, NULL));
        bytes += result.patch.patch_len;
        args.from = result.next;
        peer_note(&f->peer, &result.head);
        xdr_free((xdrproc_t)xdr_host_changes_result, (char *)&result);
    } while (args.from);
    return bytes;
}
static void there_begin(struct fixture *f, size_t size)
{
    there.memory = aligned_alloc(4096, size);
    there.base = aligned_alloc(4096, size);
    memset(there.memory, 0, size);
    memset(there.base, 0, size);
    there.size = size;
    there.at = f->host;
}
static void there_end(void)
{
    free(there.memory);
    free(there.base);
}
static uint32_t word(uint64_t at)
{
    uint32_t value;
    memcpy(&value, there.memory + (at - there.at), 4);
    return value;
}

static void launch_add(struct fixture *f, uint64_t at, uint32_t n)
{
    struct { uint64_t p; uint32_t n; } params = { at, n };
    peer_launch(&f->peer, ADD, STREAM, (n + 63) / 64, 64, &params, 12);
}

static int latched(struct fixture *f)
{
    assert_int_equal(peer_context_sync(&f->peer), 0);
    return f->peer.last.latched;
}

/* The next HOST_WANTED. */
static flyt_host_wanted wanted(struct fixture *f, char kernel[FLYT_MAX_SHORT])
{
    flyt_host_wanted found = { 0 };
    for (uint32_t serial = 0; !found.id;) {
        events_args args = { .acknowledged = serial };
        events_result result = { 0 };
        assert_int_equal(flyt_events_1(&args, &result, f->peer.stub), RPC_SUCCESS);
        serial = result.serial;
        for (u_int i = 0; i < result.events.events_len; i++)
            if (result.events.events_val[i].kind == FLYT_EVENT_HOST_WANTED) {
                found = result.events.events_val[i].flyt_event_u.wanted;
                strcpy(kernel, found.kernel);
            }
        xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    }
    found.kernel = kernel;
    return found;
}
static void served(struct fixture *f, uint32_t id, int code)
{
    host_served_args args = { id, code };
    assert_int_equal(flyt_host_served_1(&args, NULL, f->peer.stub), RPC_SUCCESS);
}

TEST(what_is_offered)
{
    for (int way = 0; way < 3; way++) {
        struct fixture f = { 0 };
        connect_to(&f, &server, way == 0 ? 0 : way == 1 ? FLYT_CAP_MIRROR : FLYT_CAP_MIRROR | FLYT_CAP_PULL);
        uint64_t offered = f.peer.hello.capabilities & (FLYT_CAP_MIRROR | FLYT_CAP_PULL);
        assert_true(offered == f.peer.capabilities && (f.peer.hello.host_size != 0) == (way != 0));
        assert_int_equal(add(&f, f.host, GRANULE), way ? 0 : INVALID);
        peer_close(&f.peer);
    }
}

/* With and without pulls. */
TEST_ON_WITH(there_and_back, setup, peer_tear_down, BOTH)
{
    struct fixture *f = *state;
    there_begin(f, 3 * GRANULE);
    assert_int_equal(add(f, f->host, GRANULE), 0);
    assert_int_equal(add(f, f->host + GRANULE, 2 * GRANULE), 0);
    patch(f, NULL, 0, false);
    assert_int_equal(changes(f), 0);
    put(f, f->host + 4, 100);
    put(f, f->host + 2 * GRANULE + 60, 7);
    assert_int_equal(changes(f), 0);              /* what the client has sent is known to both */
    launch_add(f, f->host + 4, 1);
    launch_add(f, f->host + 2 * GRANULE + 60, 1);
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
    assert_int_equal(changes(f), 2 * (8 + 8 + 1));              /* one byte each */
    assert_true(there.memory[4] == 101 && there.memory[2 * GRANULE + 60] == 8 && there.memory[0] == 0);
    assert_int_equal(changes(f), 0);
    launch_add(f, f->host, 700000);               /* more than one answer holds */
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
    assert_true(changes(f) > 700000);
    assert_true(word(f->host) == 1 && word(f->host + 4) == 102 && word(f->host + 699999 * 4) == 1);
    assert_int_equal(changes(f), 0);
    assert_int_equal(take(f, f->host, GRANULE), 0);
    assert_int_equal(add(f, f->host, GRANULE), 0);              /* zeros again, on both sides */
    patch(f, NULL, 0, false);
    memset(there.memory, 0, GRANULE);
    launch_add(f, f->host, 3);
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
    assert_true(changes(f) != 0 && word(f->host) == 1);
    there_end();
}

TEST_ON_WITH(what_is_no_patch, setup, peer_tear_down, BOTH)
{
    struct fixture *f = *state;
    uint8_t bytes[4096] = { 0 };
    assert_int_equal(add(f, f->host, GRANULE), 0);
    assert_int_equal(add(f, f->host + GRANULE, GRANULE), 0);
    patch(f, bytes, 0, false);
    assert_int_equal(latched(f), 0);
    const uint64_t wrong[] = { 0, 64, f->peer.base, f->host - 64, f->host + 2 * GRANULE, f->host + 3 * GRANULE,
                               f->host + GRANULE - 64 + 1 /* over two ranges */, f->host + 2 * GRANULE - 64 + 1,
                               f->host + f->peer.hello.host_size, UINT64_MAX, UINT64_MAX - 4095,
                               (uint64_t)(uintptr_t)bytes & ~UINT64_C(63) };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(bytes, &wrong[i], 8);
        bytes[8] = 1;
        bytes[16] = 0xee;
        patch(f, bytes, 17 + 8, i % 2);
        assert_int_equal(latched(f), INVALID);
    }
    for (size_t cut = 1; cut < 17; cut++) {
        memcpy(bytes, &f->host, 8);
        patch(f, bytes, cut, false);
        assert_int_equal(latched(f), INVALID);
    }
    srandom(1);
    for (int round = 0; round < 3000; round++) {
        size_t size = (size_t)random() % sizeof bytes;
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)random();
        uint64_t head = f->host + (uint64_t)random() % (3 * GRANULE);
        if (round % 2)
            memcpy(bytes, &head, 8);
        patch(f, bytes, size, round % 5 == 0);
        served(f, (uint32_t)random() % 9, (int)random() % 3);
        if (round % 100 == 0) {
            host_changes_args args = { (uint64_t)random() << 33 | (uint64_t)random() };
            host_changes_result result = { 0 };
            assert_int_equal(flyt_host_changes_1(&args, &result, f->peer.stub), RPC_SUCCESS);
            xdr_free((xdrproc_t)xdr_host_changes_result, (char *)&result);
        }
    }
    latched(f);
    patch(f, bytes, 0, false);
    launch_add(f, f->host, 10);                   /* the session lives, and kernels go on */
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
}

TEST_WITH(a_kernel_waits_for_memory, setup, peer_tear_down)
{
    struct fixture *f = *state;
    char kernel[FLYT_MAX_SHORT];
    there_begin(f, 4 * GRANULE);
    launch_add(f, f->host + GRANULE + 8, 2);
    flyt_host_wanted w = wanted(f, kernel);
    assert_true(w.address / GRANULE == (f->host + GRANULE) / GRANULE && strcmp(kernel, "add") == 0 && !w.writes);
    assert_int_equal(peer_stream_query(&f->peer, STREAM), NOT_READY);
    served(f, w.id + 1, 0);                       /* another one: nothing happens */
    assert_int_equal(peer_stream_query(&f->peer, STREAM), NOT_READY);
    assert_int_equal(add(f, f->host + GRANULE, GRANULE), 0);
    put(f, f->host + GRANULE + 8, 41);
    served(f, w.id, 0);
    served(f, w.id, ILLEGAL);                     /* said twice: the first counts */
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
    assert_true(changes(f) && word(f->host + GRANULE + 8) == 42 && word(f->host + GRANULE + 12) == 1);
    there_end();
}

/* No kernel sees a part of what belongs together. */
TEST_WITH(patches_that_belong_together, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t one = 1;
    uint64_t at = f->host;
    assert_int_equal(add(f, f->host, GRANULE), 0);
    peer_launch(&f->peer, SPIN, STREAM, 1, 1, &at, 8);          /* waits: the memory is shut until a patch ends */
    assert_int_equal(peer_stream_query(&f->peer, STREAM), NOT_READY);
    write_there(f, f->host + 128, &one, 4, true);
    write_there(f, f->host, &one, 4, true);
    for (int i = 0; i < 20; i++)                  /* the kernel has had its chances */
        assert_int_equal(peer_stream_query(&f->peer, STREAM), NOT_READY);
    patch(f, NULL, 0, false);
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
}

/* A word that the client writes while the kernel looks at it. */
TEST_WITH(a_kernel_that_polls, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint64_t at = f->host + 4096;
    assert_int_equal(add(f, f->host, GRANULE), 0);
    patch(f, NULL, 0, false);
    peer_launch(&f->peer, SPIN, STREAM, 1, 1, &at, 8);
    assert_int_equal(peer_stream_query(&f->peer, STREAM), NOT_READY);
    assert_int_equal(take(f, f->host, GRANULE), NOT_READY);
    put(f, at, 1);
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
    assert_int_equal(take(f, f->host, GRANULE), 0);
}

/* What a kernel wrote before a fence comes before what it wrote behind it, although it lies behind it. */
TEST_WITH(what_kernels_tell, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint64_t at = f->host, first, second;
    assert_int_equal(add(f, f->host, GRANULE), 0);
    patch(f, NULL, 0, false);
    for (int round = 0; round < 3; round++) {
        put(f, at, 0);
        put(f, at + 4096, 0);
        peer_launch(&f->peer, TELL, STREAM, 1, 1, &at, 8);
        assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
        assert_int_equal(take(f, f->host, GRANULE), NOT_READY);      /* first it has to be asked for */
        host_changes_args args = { 0 };
        host_changes_result result = { 0 };
        assert_int_equal(flyt_host_changes_1(&args, &result, f->peer.stub), RPC_SUCCESS);
        assert_true(!result.head.result && !result.next && result.patch.patch_len == 2 * 17);
        memcpy(&first, result.patch.patch_val, 8);
        memcpy(&second, result.patch.patch_val + 17, 8);
        assert_true(first == at + 4096 && second == at);
        xdr_free((xdrproc_t)xdr_host_changes_result, (char *)&result);
    }
    assert_int_equal(take(f, f->host, GRANULE), 0);
}

/* More of them than the server keeps for a client that does not ask. */
TEST_WITH(too_much_to_tell, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint64_t at = f->host;
    there_begin(f, GRANULE);
    assert_int_equal(add(f, f->host, GRANULE), 0);
    patch(f, NULL, 0, false);
    for (int round = 0; round < 12; round++) {
        launch_add(f, f->host + 8192, 400000);
        peer_launch(&f->peer, TELL, STREAM, 1, 1, &at, 8);
    }
    assert_int_equal(peer_stream_sync(&f->peer, STREAM), 0);
    unsigned asked = 0;
    for (uint64_t from = 1; from; asked++) {
        host_changes_args args = { from };
        host_changes_result result = { 0 };
        assert_int_equal(flyt_host_changes_1(&args, &result, f->peer.stub), RPC_SUCCESS);
        assert_true(patch_apply((uint8_t *)result.patch.patch_val, result.patch.patch_len, place, NULL));
        from = result.next;
        xdr_free((xdrproc_t)xdr_host_changes_result, (char *)&result);
    }
    assert_true(asked < 40 && word(f->host) == 1 && word(f->host + 4096) == 7);
    for (uint64_t i = 0; i < 400000; i += 997)
        assert_int_equal(word(f->host + 8192 + 4 * i), 12);
    assert_int_equal(take(f, f->host, GRANULE), 0);
    there_end();
}

TEST(memory_that_nobody_has)
{
    for (int inside = 0; inside < 2; inside++) {
        struct fixture f = { 0 };
        char kernel[FLYT_MAX_SHORT];
        connect_to(&f, &server, FLYT_CAP_MIRROR | FLYT_CAP_PULL);
        launch_add(&f, inside ? f.host + 5 * GRANULE : f.peer.base + 20 * f.peer.granule, 1);
        served(&f, wanted(&f, kernel).id, 1);
        assert_int_equal(peer_stream_sync(&f.peer, STREAM), ILLEGAL);
        peer_close(&f.peer);
    }
    /* Says that it has sent the memory, and has not. */
    struct fixture f = { 0 };
    char kernel[FLYT_MAX_SHORT];
    connect_to(&f, &server, FLYT_CAP_MIRROR | FLYT_CAP_PULL);
    launch_add(&f, f.host, 1);
    served(&f, wanted(&f, kernel).id, 0);
    assert_int_equal(peer_stream_sync(&f.peer, STREAM), ILLEGAL);
    peer_close(&f.peer);
}

/* The worker ends with its client, whoever waits for what. */
TEST(clients_that_end)
{
    struct server other;
    char kernel[FLYT_MAX_SHORT];
    server_start(&other, "software", NULL);
    for (int i = 0; i < 3; i++) {
        struct fixture f = { 0 };
        connect_to(&f, &other, FLYT_CAP_MIRROR | FLYT_CAP_PULL);
        launch_add(&f, f.host, 1);
        if (i)
            wanted(&f, kernel);
        if (i == 2)
            assert_int_equal(add(&f, f.host, GRANULE), 0);      /* shut */
        peer_close(&f.peer);
    }
    assert_int_equal(server_stop(&other, SIGTERM), 0);
}

TEST(limits)
{
    struct server small;
    struct fixture f = { 0 };
    server_start(&small, "software", (const char *const[]){ "--host-memory", "4M", NULL });
    connect_to(&f, &small, FLYT_CAP_MIRROR | FLYT_CAP_PULL);
    assert_true(f.peer.hello.host_size > 100 * GRANULE);        /* addresses; memory is another thing */
    assert_int_equal(add(&f, f.host, 3 * GRANULE), NO_MEMORY);
    assert_int_equal(add(&f, f.host, GRANULE), 0);
    assert_int_equal(add(&f, f.host + 10 * GRANULE, GRANULE), 0);
    assert_int_equal(add(&f, f.host + 5 * GRANULE, GRANULE), NO_MEMORY);
    assert_int_equal(take(&f, f.host, GRANULE), 0);
    assert_int_equal(add(&f, f.host + 5 * GRANULE, GRANULE), 0);
    assert_int_equal(add(&f, f.host, f.peer.hello.host_size), 712);
    peer_close(&f.peer);
    assert_int_equal(server_stop(&small, SIGTERM), 0);
}

/* Behind that many offers that do not suit the client: the host window that the last one has, or 0. */
static uint64_t host_behind(struct fixture *f, int refusals)
{
    window_result result = { .window = f->peer.base, .host_size = f->peer.hello.host_size };
    assert_int_equal(PLAIN(&f->peer, context_release, context_args, { 0 }), 0);
    for (int i = 0; i < refusals; i++) {
        window_args args = { .refused = result.window };
        memset(&result, 0, sizeof result);
        enum clnt_stat status = flyt_window_1(&args, &result, f->peer.stub);
        assert_int_equal(peer_took(&f->peer, status, (xdrproc_t)xdr_window_result, &result), 0);
        assert_true(result.window && result.window != args.refused);
    }
    return result.host_size ? result.window + f->peer.hello.window_size : 0;
}

/* The reply to WINDOW names no size. A driver that refuses a large window now and then would give a small one there. */
TEST(later_offers_are_as_large)
{
    enum { SEEDS = 8, REFUSALS = 4 };
    for (int seed = 1, found = 0; seed <= SEEDS; seed++, found = 0) {
        struct server other;
        char text[16];
        snprintf(text, sizeof text, "%d", seed);
        setenv("FLYT_SOFTGPU_CHAOS", text, 1);
        server_start(&other, "software", NULL);
        unsetenv("FLYT_SOFTGPU_CHAOS");
        for (int refusals = 1; refusals <= REFUSALS; refusals++) {
            struct fixture f = { 0 };
            peer_connect(&f.peer, other.uri[1]);
            f.peer.capabilities = FLYT_CAP_MIRROR;
            peer_hello(&f.peer);
            uint64_t host = host_behind(&f, refusals);
            found += host != 0;
            assert_int_equal(host ? add(&f, host, GRANULE) : 0, 0);
            peer_close(&f.peer);
        }
        assert_int_not_equal(found, 0);
        assert_int_equal(server_stop(&other, SIGTERM), 0);
    }
}

static int start(void **unused)
{
    (void)unused;
    server_start(&server, "software", NULL);
    return 0;
}

static int stop(void **unused)
{
    (void)unused;
    return server_stop(&server, SIGTERM);
}

int main(void)
{
#ifdef __SANITIZE_THREAD__
    return 0;                                     /* two processes find no window in common */
#endif
    return unit_run(start, stop);
}
