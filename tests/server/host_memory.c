/*
 * host_memory.c: host memory that a client shares with its worker and the software GPU: what may be added, named and
 * taken away, and that nothing a client does with its side of it hurts the worker.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

/* With a server in a process of its own, which ThreadSanitizer leaves out: two processes find no window in common. */
#ifdef __SANITIZE_THREAD__
#define APART __attribute__((unused))
#else
#define APART
#endif

#include "tests/server/kernels.h"
#include "tests/server/peer.h"

enum { ALREADY = 712, NOT_READY = 600, INVALID = 1 };
#define GRANULE ((uint64_t)FLYT_HOST_GRANULE)

static struct server server;

struct fixture { struct peer peer; uint64_t base, host; int fd; uint64_t payload; };

static void open_peer(struct fixture *f)
{
    struct rpc_shared_memory shared;
    peer_hello(&f->peer);
    f->base = f->peer.base;
    f->host = f->base + f->peer.hello.window_size;
    assert_int_equal(peer_map(&f->peer, f->base, 2 * f->peer.granule), 0);
    void *at = (void *)(uintptr_t)f->host;
    if (f->peer.local)                        /* the server has reserved the addresses; memory is the client's to map */
        assert_ptr_equal(mmap(at, f->peer.hello.host_size, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
                         at);
    if (f->peer.local || !f->peer.hello.host_size)
        return;
    assert_true(rpc_client_shared_memory(f->peer.client, &shared));
    assert_true(shared.payload_size >= f->peer.hello.host_size);
    f->fd = shared.fd;
    f->payload = shared.payload;
    assert_ptr_equal(mmap(at, f->peer.hello.host_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                          shared.fd, (off_t)shared.payload),
                     at);
}

static void shm_uri(const struct server *of, char *uri, size_t room)
{
    snprintf(uri, room, "shm%s", of->uri[0] + strlen("unix"));
}

APART static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char uri[300];
    shm_uri(&server, uri, sizeof uri);
    peer_connect(&f->peer, uri);
    open_peer(f);
    *state = f;
    return 0;
}

static int setup_local(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    peer_library(&f->peer, "software");
    open_peer(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    if (!f->peer.local && f->peer.hello.host_size)
        munmap((void *)(uintptr_t)f->host, f->peer.hello.host_size);
    peer_close(&f->peer);
    free(f);
    return 0;
}

static int add(struct fixture *f, uint64_t address, uint64_t size)
{
    return PLAIN(&f->peer, host_add, host_args, { address, size });
}
static int take(struct fixture *f, uint64_t address, uint64_t size)
{
    return PLAIN(&f->peer, host_remove, host_args, { address, size });
}

static int copy_waited(struct fixture *f, uint64_t to, uint64_t from, uint64_t size)
{
    return PLAIN(&f->peer, copy_waited, copy_args, { 0, to, from, size, 0 });
}

static void copy(struct fixture *f, uint32_t stream, uint64_t to, uint64_t from, uint64_t size, uint64_t mark)
{
    copy_args args = { stream, to, from, size, mark };
    assert_int_equal(flyt_copy_1(&args, NULL, f->peer.stub), RPC_SUCCESS);
}

/* What the copies before it left behind. */
static int latched(struct fixture *f)
{
    assert_int_equal(peer_context_sync(&f->peer), 0);
    return f->peer.last.latched;
}

static _Atomic uint32_t *word(uint64_t at) { return (_Atomic uint32_t *)(uintptr_t)at; }

static void ranges(void **state)
{
    struct fixture *f = *state;
    uint64_t host = f->host, size = f->peer.hello.host_size;
    assert_true(size >= 16 * GRANULE && size % GRANULE == 0);
    assert_int_equal(add(f, host, 0), INVALID);
    assert_int_equal(add(f, host + 4096, GRANULE), INVALID);
    assert_int_equal(add(f, host, GRANULE - 4096), INVALID);
    assert_int_equal(add(f, host - GRANULE, GRANULE), INVALID);
    assert_int_equal(add(f, f->base, GRANULE), INVALID);
    assert_int_equal(add(f, host + size, GRANULE), INVALID);
    assert_int_equal(add(f, host + size - GRANULE, 2 * GRANULE), INVALID);
    assert_int_equal(add(f, host, UINT64_MAX & ~(GRANULE - 1)), INVALID);
    assert_int_equal(add(f, 0, GRANULE), INVALID);
    assert_int_equal(add(f, host + size - GRANULE, GRANULE), 0);
    assert_int_equal(add(f, host + 2 * GRANULE, 2 * GRANULE), 0);
    assert_int_equal(add(f, host + 2 * GRANULE, GRANULE), ALREADY);
    assert_int_equal(add(f, host + GRANULE, 2 * GRANULE), ALREADY);
    assert_int_equal(add(f, host + 3 * GRANULE, 2 * GRANULE), ALREADY);
    assert_int_equal(add(f, host + 4 * GRANULE, GRANULE), 0);
    assert_int_equal(take(f, host + 2 * GRANULE, GRANULE), INVALID);
    assert_int_equal(take(f, host + 3 * GRANULE, GRANULE), INVALID);
    assert_int_equal(take(f, host + GRANULE, GRANULE), INVALID);
    assert_int_equal(take(f, host - GRANULE, GRANULE), INVALID);
    assert_int_equal(take(f, host + 2 * GRANULE, 2 * GRANULE), 0);
    assert_int_equal(take(f, host + 2 * GRANULE, 2 * GRANULE), INVALID);
    for (int i = 0; i < 300; i++)            /* more often than the software GPU has windows */
        assert_int_equal(add(f, host + 5 * GRANULE + 2 * GRANULE * (uint64_t)(i % 5), GRANULE) +
                             take(f, host + 5 * GRANULE + 2 * GRANULE * (uint64_t)(i % 5), GRANULE),
                         0);
}

static void copies(void **state)
{
    struct fixture *f = *state;
    uint64_t host = f->host;
    assert_int_equal(add(f, host, 2 * GRANULE), 0);
    assert_int_equal(add(f, host + 2 * GRANULE, GRANULE), 0);
    uint8_t *p = (uint8_t *)(uintptr_t)host;
    for (unsigned i = 0; i < 100000; i++)
        p[i] = (uint8_t)(i * 7 + i / 256);
    atomic_store(word(host + GRANULE), 0);
    copy(f, 0, f->base, host, 100000, host + GRANULE);
    copy(f, 0, host + GRANULE + 64, f->base, 100000, 0);
    assert_int_equal(latched(f), 0);
    assert_int_equal(atomic_load(word(host + GRANULE)), 1);
    assert_memory_equal(p, p + GRANULE + 64, 100000);
    assert_int_equal(copy_waited(f, host + 2 * GRANULE, f->base, 5000), 0);
    assert_memory_equal(p, p + 2 * GRANULE, 5000);
    copy(f, 0, host + 2 * GRANULE + 8192, host + 100, 5000, 0);            /* within host memory */
    assert_int_equal(latched(f), 0);
    assert_memory_equal(p + 100, p + 2 * GRANULE + 8192, 5000);
    copy_box_args box = { 0, { f->base + 200000, 40, 5 }, { host, 30, 4 }, { 20, 4, 3 } };
    assert_int_equal(flyt_copy_box_1(&box, NULL, f->peer.stub), RPC_SUCCESS);
    box = (copy_box_args){ 0, { host + 2 * GRANULE, 20, 4 }, { f->base + 200000, 40, 5 }, { 20, 4, 3 } };
    assert_int_equal(flyt_copy_box_1(&box, NULL, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(latched(f), 0);
    for (int row = 0; row < 12; row++)
        assert_memory_equal(p + 2 * GRANULE + 20 * row, p + 30 * row, 20);
    peer_set(&f->peer, 0, host + 5, 10, 0xab, 1);
    assert_int_equal(latched(f), 0);
    assert_true(p[5] == 0xab && p[14] == 0xab && p[15] == (uint8_t)(15 * 7));

    /* what is not added, in parts or at all, or spans two */
    copy(f, 0, f->base, host + 3 * GRANULE, 16, 0);
    assert_int_equal(latched(f), INVALID);
    copy(f, 0, f->base, host + 3 * GRANULE - 8, 16, 0);
    assert_int_equal(latched(f), INVALID);
    copy(f, 0, f->base, host + 2 * GRANULE - 8, 16, 0);
    assert_int_equal(latched(f), INVALID);
    copy(f, 0, host - 8, f->base, 16, 0);
    assert_int_equal(latched(f), INVALID);
    copy(f, 0, f->base, host, UINT64_MAX - 5, 0);
    assert_int_equal(latched(f), INVALID);
    assert_int_equal(copy_waited(f, f->base, host + 3 * GRANULE, 16), INVALID);
    /* marks */
    copy(f, 0, f->base, host, 16, host + 1);
    assert_int_equal(latched(f), INVALID);
    copy(f, 0, f->base, host, 16, host + 3 * GRANULE);
    assert_int_equal(latched(f), INVALID);
    copy(f, 0, f->base, host, 16, f->base);
    assert_int_equal(latched(f), INVALID);
    atomic_store(word(host), 0);
    copy(f, 0, f->base, host + 3 * GRANULE, 16, host);         /* the copy is refused: who waits for its mark is told */
    assert_int_equal(latched(f), INVALID);
    assert_int_equal(atomic_load(word(host)), 1);
    assert_int_equal(PLAIN(&f->peer, copy_waited, copy_args, { 0, f->base, host, 16, host }), INVALID);
}

/* A kernel in a stream, in what the client wants to take away; and what is queued behind it. */
static void in_use(void **state)
{
    struct fixture *f = *state;
    uint64_t host = f->host;
    uint32_t bytes;
    assert_int_equal(peer_load(&f->peer, 1, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, 1, 1, "spin", &bytes), 0);
    assert_int_equal(add(f, host, GRANULE), 0);
    assert_int_equal(add(f, host + GRANULE, GRANULE), 0);
    peer_stream_create(&f->peer, 64, 1);
    atomic_store(word(host), 0);
    atomic_store(word(host + GRANULE), 0);
    peer_launch(&f->peer, 1, 64, 1, 1, &host, 8);
    copy(f, 64, f->base, host + GRANULE + 64, 1000, host + GRANULE);
    assert_int_equal(take(f, host, GRANULE), NOT_READY);
    assert_int_equal(take(f, host + GRANULE, GRANULE), NOT_READY);
    assert_int_equal(atomic_load(word(host + GRANULE)), 0);
    atomic_store(word(host), 1);
    assert_int_equal(peer_stream_sync(&f->peer, 64), 0);
    assert_int_equal(atomic_load(word(host + GRANULE)), 1);
    assert_int_equal(take(f, host, GRANULE), 0);
    peer_launch(&f->peer, 1, 64, 1, 1, (uint64_t[]){ host + GRANULE }, 8);         /* not 0: it ends */
    assert_int_equal(peer_stream_sync(&f->peer, 64), 0);
    assert_int_equal(take(f, host + GRANULE, GRANULE), 0);
    copy(f, 64, f->base, host, 16, 0);
    assert_int_equal(latched(f), INVALID);
}

static void outlives_a_reset(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(add(f, f->host, GRANULE), 0);
    memset((void *)(uintptr_t)f->host, 0x5a, 4096);
    assert_int_equal(peer_context_reset(&f->peer), 0);
    /* without a context it waits for the next one */
    assert_int_equal(add(f, f->host + GRANULE, GRANULE), 0);
    assert_int_equal(add(f, f->host + GRANULE, GRANULE), ALREADY);
    assert_int_equal(add(f, f->host + 2 * GRANULE, GRANULE), 0);
    assert_int_equal(take(f, f->host + 2 * GRANULE, GRANULE), 0);
    context_retain_args primary = { 0, 0 };
    plain_result result = { 0 };
    assert_int_equal(flyt_context_retain_1(&primary, &result, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    assert_int_equal(peer_map(&f->peer, f->base, f->peer.granule), 0);
    assert_int_equal(copy_waited(f, f->base, f->host, 4096), 0);
    assert_int_equal(copy_waited(f, f->host + 8192, f->base, 4096), 0);
    assert_memory_equal((void *)(uintptr_t)f->host, (void *)(uintptr_t)(f->host + 8192), 4096);
    assert_int_equal(copy_waited(f, f->host + GRANULE, f->base, 4096), 0);
    assert_memory_equal((void *)(uintptr_t)f->host, (void *)(uintptr_t)(f->host + GRANULE), 4096);
    assert_int_equal(take(f, f->host, GRANULE), 0);
    assert_int_equal(take(f, f->host + GRANULE, GRANULE), 0);
}

/* The client pulls pages away and lets go of its own mapping while the device copies from and to them. */
APART static void pages_pulled_away(void **state)
{
    struct fixture *f = *state;
    uint64_t size = 8 * GRANULE;
    assert_int_equal(add(f, f->host, size), 0);
    for (int i = 0; i < 40; i++) {
        copy(f, 0, f->host + GRANULE, f->base, GRANULE, f->host);
        copy(f, 0, f->base, f->host + 3 * GRANULE, GRANULE, 0);
        assert_int_equal(fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)f->payload, (off_t)size),
                         0);
    }
    assert_true(ftruncate(f->fd, 4096) != 0);
    munmap((void *)(uintptr_t)f->host, f->peer.hello.host_size);
    assert_int_equal(copy_waited(f, f->base, f->host + 3 * GRANULE, GRANULE), 0);
    assert_int_equal(latched(f), 0);
}

APART static void as_much_as_asked_for(void **unused)
{
    (void)unused;
    static const struct { const char *option; uint64_t size; } cases[] = { { "0", 0 }, { "9M", 8 << 20 }, { "1000", 0 },
                                                                           { "6144K", 6 << 20 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct server other;
        struct fixture f = { 0 };
        char uri[300];
        server_start(&other, "null", (const char *const[]){ "--host-memory", cases[i].option, NULL });
        shm_uri(&other, uri, sizeof uri);
        peer_connect(&f.peer, uri);
        open_peer(&f);
        assert_int_equal(f.peer.hello.host_size, cases[i].size);
        assert_int_equal(add(&f, f.host, GRANULE), cases[i].size ? 0 : INVALID);
        munmap((void *)(uintptr_t)f.host, cases[i].size ? cases[i].size : 1);
        peer_close(&f.peer);
        server_stop(&other, SIGTERM);
    }
}

static void none_over_a_network(void **unused)
{
    (void)unused;
    struct fixture f = { 0 };
    peer_connect(&f.peer, server.uri[1]);
    open_peer(&f);
    assert_int_equal(f.peer.hello.host_size, 0);
    assert_int_equal(add(&f, f.host, GRANULE), INVALID);
    assert_int_equal(copy_waited(&f, f.base, f.host, 16), INVALID);
    assert_int_equal(copy_waited(&f, f.base, f.base + 4096, 16), 0);
    peer_close(&f.peer);
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
    const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test_setup_teardown(ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(copies, setup, teardown),
        cmocka_unit_test_setup_teardown(in_use, setup, teardown),
        cmocka_unit_test_setup_teardown(outlives_a_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_pulled_away, setup, teardown),
        cmocka_unit_test(as_much_as_asked_for),
#endif
        cmocka_unit_test_setup_teardown(ranges, setup_local, teardown),
        cmocka_unit_test_setup_teardown(copies, setup_local, teardown),
        cmocka_unit_test_setup_teardown(in_use, setup_local, teardown),
        cmocka_unit_test_setup_teardown(outlives_a_reset, setup_local, teardown),
        cmocka_unit_test(none_over_a_network),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start, stop);
}
