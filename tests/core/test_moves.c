/*
 * Moving a session between two real servers with the software GPU (core_move, docs/moving.md): the program goes on with
 * the handles and pointers that it has, or the move is refused and nothing has changed. Arguments: unix or tcp, and the
 * path of cricket-rpc-server; and `suspend`, if sessions are to be suspended and resumed in place of moves. Each test
 * in a process of its own.
 *
 * shows: moving: contexts, streams, events with their times, modules, functions, memory, pools, graphs and pinned
 *   memory are made again at another server, under the same handles and addresses and with the same contents, and back
 * shows: moving: random programs compute the same with moves and without
 * shows: suspending: a session is suspended and resumed at another server: the same as for moves, also where the first
 *   server that it is to go on at is not there
 * shows: moving: what cannot move (a server that is not there, one in the program's process) is named, and the program
 *   goes on where it was
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/driver/types.h"
#include "api/forward/core.h"
#include "tests/core/kernels.h"
#include "tests/lib/dice.h"
#include "tests/lib/fnv.h"
#include "tests/lib/unit.h"
#include "program.h"
#include "two_servers.h"

/* fill(address, count, value); count_up(out): adds 1 to a variable that the program never names, and stores it at out;
   shared(out): uses as much dynamic shared memory as the launch gives. */
const char program_code[] =
    KERNELS_BEGIN KERNEL_FILL KERNEL_COUNT_UP
    ".visible .global .align 8 .b8 table[4096];\n"
    ".extern .shared .align 4 .b8 dynamic[];\n"
    ".visible .entry shared(.param .u64 a) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<6>;\n"
    "  ld.param.u64 %a1, [a]; mov.u32 %i1, 77; st.shared.u32 [dynamic+60000], %i1;\n"
    "  ld.shared.u32 %i2, [dynamic+60000]; st.global.u32 [%a1], %i2; ret;\n}\n";

/* ---- the servers ---- */

static bool suspends;                        /* in place of moves: the session is suspended, and resumed elsewhere */

/* Each other time nobody is at the first server that it is to go on at. */
static int suspend_and_resume(const char *uri, char *why, size_t size)
{
    static unsigned count;
    int result = core_suspend(0, why, size);
    if (!result && count++ % 2) {
        CHECK(core_resume("tcp://127.0.0.1:1", why, size) != 0 && strstr(why, "127.0.0.1:1"));
        CHECK(core_suspend(0, why, size) == 802 && strstr(why, "already"));
    }
    return result ? result : core_resume(uri, why, size);
}

static int move_to(int number)
{
    static char why[512];
    if (!suspends)
        two_servers_bridge(number);
    int result = suspends ? suspend_and_resume(server_uris[number], why, sizeof why)
                          : core_move(server_uris[number], 0, why, sizeof why);
    if (result)
        fprintf(stderr, "not moved: %s\n", why);
    return result;
}

/* ---- what the programs do ---- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool near(float a, float b) { return a - b < 0.02f && b - a < 0.02f; }

/* ---- each kind of object, at the other server and back ---- */

/* The context that came with the connection has not been used yet. */
static void body_not_yet_used(void)
{
    CHECK(core_attach_to_use() == 0 && move_to(1) == 0);
    core_context *p = on(0);
    uint64_t a = allocate(p, 64 * MIB);
    CHECK(fill(p, 0, a, 1000, 4711) == 0 && word_at(p, a + 4) == 4711 && move_to(0) == 0 && word_at(p, a + 4) == 4711);
}

static void body_memory(void)
{
    core_context *p = on(0), *c;
    enum { SIZE = 5 * 1024 * 1024 + 333 };
    static unsigned char data[SIZE], got[SIZE];
    CHECK(core_context_create(0, 0, &c) == 0);
    uint64_t a = allocate(p, SIZE), b = allocate(c, 64 * MIB), small = allocate(p, 1);
    for (int i = 0; i < SIZE; i++)
        data[i] = (unsigned char)(i * 7 + i / 251);
    CHECK(copy_in(p, 0, a, data, SIZE, true) == 0 && fill(c, 0, b + 64 * MIB - 4000, 1000, 4711) == 0);
    for (int i = 1; i <= 4; i++) {
        CHECK(move_to(i % 2) == 0);
        CHECK(copy_out(p, 0, got, a, SIZE, true) == 0 && memcmp(got, data, SIZE) == 0);
        CHECK(word_at(c, b + 64 * MIB - 4) == 4711);
        data[i]++;
        CHECK(copy_in(p, 0, a, data, SIZE, true) == 0);
        uint64_t more = allocate(p, (size_t)i * 3 * MIB);
        CHECK(more != a && fill(p, 0, more, 10, 5) == 0 && core_memory_free(more) == 0);
    }
    CHECK(core_memory_free(a) == 0 && core_memory_free(small) == 0 && move_to(1) == 0);
    CHECK(core_memory_free(a) == 1 && core_context_destroy(c) == 0 && core_memory_free(b) == 1 &&
          core_context_check(c) == 709);
}

static void body_handles(void)
{
    size_t granule;
    uint64_t base;
    core_handle h[2];
    unsigned access;
    core_context *p = on(0);
    CHECK(core_memory_granularity(&granule) == 0 && core_reservation_create(4 * granule, 0, 0, &base) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(core_handle_create(0, granule, false, &h[i]) == 0 &&
              core_handle_map(base + (uint64_t)i * granule, granule, h[i]) == 0 &&
              core_access_set(base + (uint64_t)i * granule, granule, 0, 3) == 0 &&
              fill(p, 0, base + (uint64_t)i * granule, 100, 50 + (uint32_t)i) == 0);
    /* the first at two places, the second at none */
    CHECK(core_handle_map(base + 2 * granule, granule, h[0]) == 0 &&
          core_access_set(base + 2 * granule, granule, 0, 3) == 0);
    CHECK(core_context_synchronize(p) == 0 && core_handle_unmap(base + granule, granule) == 0);
    for (int i = 1; i <= 2; i++) {
        CHECK(move_to(i % 2) == 0);
        CHECK(word_at(p, base + 4) == 50 + 10 * (uint32_t)(i - 1));
        CHECK(word_at(p, base + 2 * granule + 4) == word_at(p, base + 4));
        CHECK(core_access_get(base, 0, &access) == 0 && access == 3);
        CHECK(fill(p, 0, base + 2 * granule, 100, 50 + 10 * (uint32_t)i) == 0);
    }
    CHECK(core_handle_map(base + 3 * granule, granule, h[1]) == 0 &&
          core_access_set(base + 3 * granule, granule, 0, 3) == 0 && word_at(p, base + 3 * granule + 396) == 51);
}

/* Kernels of device 1 reach memory of device 0: of its context, of a handle, of a pool. */
static void body_peers(void)
{
    core_context *p[2] = { on(0), on(1) };
    size_t granule;
    uint64_t base, a = allocate(p[0], 4096), pooled;
    unsigned access;
    core_handle h;
    core_pool pool;
    CHECK(core_peer_enable(p[1], p[0]) == 0 && core_memory_granularity(&granule) == 0 &&
          core_reservation_create(granule, 0, 0, &base) == 0 && core_handle_create(0, granule, false, &h) == 0 &&
          core_handle_map(base, granule, h) == 0 && core_access_set(base, granule, 1, 3) == 0 &&
          core_pool_default(0, &pool) == 0 && core_pool_access_set(pool, 1, 3) == 0 &&
          core_pool_allocate(p[0], 0, pool, 4096, &pooled) == 0 && core_context_synchronize(p[0]) == 0);
    for (int i = 1; i <= 2; i++) {
        CHECK(move_to(i % 2) == 0);
        uint64_t later = allocate(p[0], 4096), all[] = { a, later, base, pooled };
        for (int m = 0; m < 4; m++)
            CHECK(fill(p[1], 0, all[m], 32, 10 * (uint32_t)i) == 0);
        CHECK(core_context_synchronize(p[1]) == 0);
        for (int m = 0; m < 4; m++)
            CHECK(word_at(p[0], all[m] + 4) == 10 * (uint32_t)i);
        CHECK(core_access_get(base, 1, &access) == 0 && access == 3 && core_access_get(base, 0, &access) == 0 &&
              access == 0 && core_pool_access_get(pool, 1, &access) == 0 && access == 3);
    }
    CHECK(core_peer_enable(p[1], p[0]) == 704 && core_peer_disable(p[1], p[0]) == 0 &&
          core_peer_disable(p[1], p[0]) == 705 && move_to(1) == 0);
    CHECK(fill(p[1], 0, a, 32, 5) == 0 && core_context_synchronize(p[1]) == 700);
}

static void body_code(void)
{
    core_context *p = on(0), *c;
    core_variable *v;
    uint64_t out = allocate(p, 64), table[2], again;
    size_t size;
    CHECK(core_context_create(0, 0, &c) == 0);
    CHECK(launch(p, 0, "count_up", (void *[]){ &out }) == 0 && word_at(p, out) == 1);
    CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0 && launch(c, 0, "count_up", (void *[]){ &out }) == 0);
    CHECK(core_context_synchronize(c) == 0 && word_at(p, out) == 2);
    CHECK(core_variable_add(image, "table", 4096, false, &v) == 0 &&
          core_variable_address(p, v, &table[0], &size) == 0 && core_variable_address(c, v, &table[1], &size) == 0);
    CHECK(fill(p, 0, table[0], 1024, 5) == 0 && fill(c, 0, table[1], 1024, 6) == 0);
    CHECK(core_function_set(p, function("shared"), 8, 65536) == 0);
    CHECK(core_limit_set(p, 0, 2048) == 0);
    for (uint32_t i = 1; i <= 2; i++) {
        CHECK(move_to((int)i % 2) == 0);
        CHECK(core_variable_address(p, v, &again, &size) == 0 && again == table[0]);
        CHECK(word_at(p, table[0] + 4092) == 5 && word_at(c, table[1] + 4092) == 6);
        CHECK(launch(p, 0, "count_up", (void *[]){ &out }) == 0 && word_at(p, out) == 1 + i);
        CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0 && core_context_synchronize(c) == 0 &&
              word_at(p, out) == 2 + i);
        CHECK(core_launch(p, &(struct core_launch){ .function = function("shared"), .grid = { 1, 1, 1 },
                                                    .block = { 32, 1, 1 }, .shared = 65536,
                                                    .arguments = (void *[]){ &out } }) == 0 && word_at(p, out) == 77);
        CHECK(core_ctx_get_limit(p, &size, 0) == 0 && size >= 2048);
    }
    CHECK(core_context_synchronize(p) == 0 && core_sticky() == 0 && core_take_latched() == 0);
}

static void note(void *flag, int status)
{
    atomic_store((_Atomic int *)flag, 1 + status);
}

static void body_streams(void)
{
    static _Atomic int ran;
    core_context *p = on(0);
    uint64_t a = allocate(p, 4096);
    core_stream s[3], mine = CORE_STREAM_PER_THREAD;
    core_event e[2];
    struct core_stream_info info;
    for (int i = 0; i < 3; i++)
        CHECK(core_stream_create(p, (unsigned)i % 2, -i, &s[i]) == 0 &&
              fill(p, s[i], a + 64 * (uint64_t)i, 16, 9) == 0);
    CHECK(core_stream_destroy(s[1]) == 0 && core_event_create(p, 2, &e[0]) == 0 && core_event_create(p, 2, &e[1]) == 0);
    CHECK(fill(p, mine, a + 1024, 16, 8) == 0 && core_event_record(p, e[0], s[0], 0) == 0);
    for (uint32_t i = 1; i <= 6; i++) {
        CHECK(move_to((int)i % 2) == 0);
        CHECK(core_stream_query(p, s[0]) == 0 && core_event_query(e[0]) == 0 && core_event_query(e[1]) == 0);
        CHECK(core_stream_query(p, s[1]) == 400 && core_stream_info(p, s[2], &info) == 0 && info.priority <= 0);
        atomic_store(&ran, 0);
        CHECK(core_host_function(p, s[2], note, &ran, false) == 0 && fill(p, s[2], a, 16, i) == 0);
        CHECK(core_event_record(p, e[1], s[2], 0) == 0 && core_stream_wait(p, s[0], e[1], 0) == 0);
        CHECK(copy_on_device(p, s[0], a + 2048, a, 64, false) == 0 && core_event_record(p, e[0], s[0], 0) == 0);
        CHECK(core_event_synchronize(e[0]) == 0 && atomic_load(&ran) == 1 && word_at(p, a + 2048 + 60) == i);
        CHECK(fill(p, mine, a + 1024, 16, 100 + i) == 0 && core_stream_synchronize(p, mine) == 0);
        CHECK(word_at(p, a + 1024) == 100 + i);
        /* an id that is used again, and one that is new */
        CHECK(core_stream_create(p, 1, 0, &s[1]) == 0 && fill(p, s[1], a + 64, 16, 200 + i) == 0);
        CHECK(core_stream_synchronize(p, s[1]) == 0 && word_at(p, a + 64) == 200 + i && core_stream_destroy(s[1]) == 0);
    }
}

static void body_times(void)
{
    core_context *p = on(0);
    uint64_t a = allocate(p, 4096), before, after;
    core_event e[4];
    float first, second, third, later;
    for (int i = 0; i < 4; i++)
        CHECK(core_event_create(p, 0, &e[i]) == 0);
    before = now_ns();
    CHECK(core_event_record(p, e[0], 0, 0) == 0 && fill(p, 0, a, 1024, 1) == 0 &&
          core_event_record(p, e[1], 0, 0) == 0);
    CHECK(core_event_synchronize(e[1]) == 0 && core_event_elapsed(e[0], e[1], &first) == 0);
    usleep(200000);                           /* counts, since the events are that much apart */
    CHECK(move_to(1) == 0 && core_event_elapsed(e[0], e[1], &later) == 0 && near(first, later));
    CHECK(core_event_record(p, e[2], 0, 0) == 0 && core_event_synchronize(e[2]) == 0);
    after = now_ns();
    /* exact to a round trip to each server, and the machine may be busy */
    double most = (double)(after - before) / 1e6 + 1000;
    CHECK(core_event_elapsed(e[0], e[2], &second) == 0 && second > 150 && second < most);
    CHECK(core_event_elapsed(e[2], e[0], &later) == 0 && near(later, -second));
    CHECK(core_event_elapsed(e[3], e[0], &later) == 400);
    CHECK(move_to(0) == 0 && core_event_elapsed(e[0], e[2], &later) == 0 && near(second, later));
    CHECK(core_event_record(p, e[3], 0, 0) == 0 && core_event_synchronize(e[3]) == 0);
    CHECK(core_event_elapsed(e[2], e[3], &third) == 0 && third > 0);
    CHECK(core_event_elapsed(e[0], e[3], &later) == 0 && near(later, second + third));
    /* recorded anew, it belongs to the new server again */
    CHECK(core_event_record(p, e[0], 0, 0) == 0 && core_event_record(p, e[1], 0, 0) == 0);
    CHECK(core_event_synchronize(e[1]) == 0 && core_event_elapsed(e[0], e[1], &later) == 0 && later >= 0 &&
          later < first + 1000);
}

static void body_host_memory(void)
{
    core_context *p = on(0);
    enum { COUNT = 1 << 20 };
    static uint32_t registered[COUNT];
    uint32_t *pinned[2];
    uint64_t a = allocate(p, COUNT * 4), device = 0;
    CHECK(core_host_allocate(COUNT * 4, 0, (void **)&pinned[0]) == 0);
    CHECK(core_host_allocate(4096, 2, (void **)&pinned[1]) == 0 && core_host_register(registered, COUNT * 4, 0) == 0);
    for (uint32_t i = 0; i < COUNT; i++)
        pinned[0][i] = registered[i] = i;
    bool mapped = core_host_device_pointer(pinned[1], &device) == 0;
    for (uint32_t i = 1; i <= 4; i++) {
        CHECK(move_to((int)i % 2) == 0 && pinned[0][COUNT - 1] == COUNT - 1);
        CHECK(copy_in(p, 0, a, pinned[0], COUNT * 4, false) == 0 && core_stream_synchronize(p, 0) == 0);
        pinned[0][COUNT - 1] = 0;
        CHECK(copy_out(p, 0, pinned[0], a, COUNT * 4, false) == 0 && core_context_synchronize(p) == 0);
        CHECK(pinned[0][COUNT - 1] == COUNT - 1);
        CHECK(copy_in(p, 0, a, registered, COUNT * 4, false) == 0 && word_at(p, a + 400) == 100);
        if (mapped) {
            uint64_t again = 0;
            CHECK(core_host_device_pointer(pinned[1], &again) == 0 && again == device);
            CHECK(fill(p, 0, device, 10, 1000 + i) == 0 && core_context_synchronize(p) == 0 &&
                  pinned[1][9] == 1000 + i);
        }
    }
    CHECK(core_host_free(pinned[0]) == 0 && core_host_free(pinned[1]) == 0 && core_host_unregister(registered) == 0);
    CHECK(core_host_allocate(3 * MIB, 0, (void **)&pinned[0]) == 0 && move_to(1) == 0);
    memset(pinned[0], 1, 3 * MIB);
    CHECK(core_host_free(pinned[0]) == 0);
}

/* As the graph room does it before a launch, when anything may have changed (cpu/client/graph/server_copy.c). */
static void record(core_sequence *q, core_context *c, uint64_t out)
{
    core_stream stand_in;
    CHECK(core_sequence_begin(q, c, NULL, 0, &stand_in) == 0);
    CHECK(launch(c, stand_in, "count_up", (void *[]){ &out }) == 0);
    CHECK(copy_on_device(c, stand_in, out + 64, out, 4, false) == 0);
    CHECK(core_sequence_kept(q, 0) && core_sequence_cut(q) && core_sequence_end(q, true) == 0);
}

/* Memory of pools is that of handles; a graph that the server keeps is given to the new one before its next launch. */
static void body_pools_and_graphs(void)
{
    core_context *p = on(0);
    core_pool pool;
    core_stream s;
    core_sequence *q;
    uint64_t a, b, out = allocate(p, 4096);
    CHECK(core_stream_create(p, 1, 0, &s) == 0 && core_pool_default(0, &pool) == 0);
    CHECK(core_pool_allocate(p, s, pool, 3 * MIB, &a) == 0 && fill(p, s, a, 700000, 5) == 0);
    CHECK(core_pool_allocate(p, s, pool, MIB, &b) == 0 && core_pool_free(p, s, b) == 0);
    CHECK(core_sequence_create(&q) == 0);
    record(q, p, out);
    CHECK(core_sequence_launch(q, p, s, 0) == 0);
    for (uint32_t i = 1; i <= 4; i++) {
        CHECK(move_to((int)i % 2) == 0 && word_at(p, a + 4 * 699999) == 5);
        CHECK(core_pool_allocate(p, s, pool, MIB, &b) == 0 && fill(p, s, b, 1000, i) == 0);
        record(q, p, out);
        CHECK(core_sequence_launch(q, p, s, 0) == 0 && core_stream_synchronize(p, s) == 0);
        CHECK(word_at(p, out + 64) == 1 + i && word_at(p, b + 4 * 999) == i && core_pool_free(p, s, b) == 0);
    }
    core_sequence_destroy(q);
    CHECK(core_pool_free(p, s, a) == 0 && core_context_synchronize(p) == 0 && move_to(1) == 0);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

/* ---- what cannot move stays as it is ---- */

static void body_refusals(void)
{
    static const char other[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                ".visible .global .align 8 .b8 first[3000000];\n.visible .entry nothing() { ret; }\n";
    core_context *p = on(0);
    core_image *extra;
    core_function *f;
    char why[300];
    uint64_t a = allocate(p, 4096), out = allocate(p, 64);
    CHECK(fill(p, 0, a, 16, 3) == 0);
    CHECK(core_move("tcp://127.0.0.1:1", 0, why, sizeof why) != 0 && strstr(why, "127.0.0.1:1"));
    CHECK(word_at(p, a) == 3);
    CHECK(core_move("local:software", 0, why, sizeof why) == 1);
    /* The variables of the second module lie behind those of the first, which goes. */
    CHECK(core_image_add(other, &extra) == 0 && core_function_add(extra, "nothing", &f) == 0);
    core_context *c;
    CHECK(core_context_create(0, 0, &c) == 0);
    CHECK(core_launch(c, &(struct core_launch){ .function = f, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } }) == 0);
    CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0 && core_context_synchronize(c) == 0);
    core_image_remove(extra);
    CHECK(move_to(1) == 0);
    CHECK(core_sticky() == 0 && core_take_latched() == 0 && word_at(p, a) == 3);
    CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0 && core_context_synchronize(c) == 0 &&
          word_at(p, out) == 2);
    CHECK(core_context_destroy(c) == 0 && move_to(0) == 0 && word_at(p, a) == 3);
}

/* A move, a suspension or a checkpoint begins no session: the program may fork, and its child use CUDA. */
static void body_no_session(void)
{
    char why[300];
    int status = -1;
    CHECK(core_move(server_uris[1], 0, why, sizeof why) == CORE_NOT_READY && strstr(why, "not used CUDA"));
    CHECK(core_suspend(0, why, sizeof why) == CORE_NOT_READY && strstr(why, "not used CUDA"));
    CHECK(core_checkpoint("/dev/null", "", why, sizeof why) != CORE_OK);
    pid_t child = fork();
    if (!child) {
        core_context *p = on(0);
        uint64_t a = allocate(p, 4096);
        _exit(fill(p, 0, a, 16, 3) != 0 || word_at(p, a) != 3 || move_to(1) != 0 || word_at(p, a) != 3);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    on(0);
    CHECK(move_to(1) == 0);
}

/* Takes connections, hears something, and hangs up. */
static void *hang_up(void *listener)
{
    char bytes[64];
    for (int fd; (fd = accept((int)(intptr_t)listener, NULL, NULL)) >= 0; close(fd))
        while (read(fd, bytes, sizeof bytes) < 0 && errno == EINTR)
            ;
    return NULL;
}

static void body_not_a_server(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    char uri[64], why[300];
    pthread_t thread;
    core_context *p = on(0);
    uint64_t a = allocate(p, 4096);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fill(p, 0, a, 16, 3) == 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&at, size) == 0 && listen(listener, 8) == 0 &&
          getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    CHECK(pthread_create(&thread, NULL, hang_up, (void *)(intptr_t)listener) == 0);
    snprintf(uri, sizeof uri, "tcp://127.0.0.1:%u", ntohs(at.sin_port));
    CHECK(core_move(uri, 0, why, sizeof why) != 0);
    fprintf(stderr, "# %s\n", why);
    CHECK(strstr(why, "closed the connection") && !strstr(why, "version") && word_at(p, a) == 3);
    CHECK(move_to(1) == 0 && word_at(p, a) == 3);
}

/* Waits until the process has ended; its parent, not this process, will reap it. */
static void wait_for_end(pid_t pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    while (state != 'Z') {
        FILE *file = fopen(path, "r");
        if (!file)
            return;
        CHECK(fscanf(file, "%*d %*s %c", &state) == 1);
        fclose(file);
        usleep(1000);
    }
}

/* The server that the session has left may go; the one where it is may not. */
static void body_left_server(void)
{
    core_context *p = on(0);
    uint64_t a = allocate(p, 4096);
    CHECK(fill(p, 0, a, 16, 3) == 0 && move_to(1) == 0);
    kill(servers[0], SIGTERM);
    wait_for_end(servers[0]);
    CHECK(fill(p, 0, a + 64, 16, 4) == 0 && word_at(p, a) == 3 && word_at(p, a + 64) == 4 && core_sticky() == 0);
    kill(servers[1], SIGKILL);
    uint32_t word;
    while (copy_out(p, 0, &word, a, sizeof word, true) == 0)
        usleep(1000);
    CHECK(core_sticky() == 46 && core_context_synchronize(p) == 46);
}

/* ---- random programs: the same with moves and without ---- */

static uint64_t seed;

enum { BLOCKS = 6, STREAMS = 4, BLOCK = 96 * 1024, STEPS = 120 };

/* What every step saw. Streams are joined by events, and each is idle or waited for where the host looks. */
static uint64_t random_program(uint64_t with, bool moves)
{
    uint64_t hash = UINT64_C(14695981039346656037), block[BLOCKS];
    core_stream stream[STREAMS];
    core_event event;
    static uint32_t host[BLOCK / 4];
    uint32_t counter = 0, *pinned;
    int where = 0;
    core_context *c[2] = { on(0) };
    seed = with;
    CHECK(core_context_create(0, 0, &c[1]) == 0 && core_event_create(c[0], 2, &event) == 0);
    CHECK(core_host_allocate(BLOCK, 0, (void **)&pinned) == 0);
    memset(pinned, 0, BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        block[i] = allocate(c[i % 2], BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        CHECK(fill(c[i % 2], 0, block[i], BLOCK / 4, (uint32_t)i) == 0 && core_context_synchronize(c[i % 2]) == 0);
    for (int i = 0; i < STREAMS; i++)
        CHECK(core_stream_create(c[0], i % 2 ? 1 : 0, 0, &stream[i]) == 0);
    uint64_t out = allocate(c[0], 64);
    for (int step = 0; step < STEPS; step++) {
        uint32_t b = dice(&seed, BLOCKS), o = dice(&seed, BLOCKS), s = dice(&seed, STREAMS);
        uint32_t at = dice(&seed, BLOCK / 8) & ~1u, what = dice(&seed, 10);
        bool move = dice(&seed, 12) == 0;
        if (move && moves)
            CHECK(move_to(where = !where) == 0);
        switch (what) {
        case 0:
        case 1:
            CHECK(fill(c[0], stream[s], block[b] + 4 * at, BLOCK / 8, ++counter) == 0);
            break;
        case 2:
            for (unsigned i = 0; i < BLOCK / 4; i++)
                host[i] = dice(&seed, 1000);
            CHECK(copy_in(c[0], stream[s], block[b], host, BLOCK, dice(&seed, 2)) == 0);
            break;
        case 3:
            CHECK(copy_out(c[0], stream[s], host, block[b], BLOCK, true) == 0);
            fnv_add(&hash, host, BLOCK);
            break;
        case 4:
            CHECK(copy_on_device(c[0], stream[s], block[b], block[o] + 4 * at, BLOCK / 2, false) == 0 || b == o);
            break;
        case 5:
            CHECK(copy_out(c[0], stream[s], pinned, block[b], BLOCK, false) == 0 &&
                  core_stream_synchronize(c[0], stream[s]) == 0);
            fnv_add(&hash, pinned, BLOCK);
            break;
        case 6:
            CHECK(launch(c[0], stream[s], "count_up", (void *[]){ &out }) == 0 &&
                  core_stream_synchronize(c[0], stream[s]) == 0);
            hash += word_at(c[0], out);
            break;
        case 7:
            CHECK(core_stream_destroy(stream[s]) == 0 && core_stream_create(c[0], s % 2, 0, &stream[s]) == 0);
            break;
        case 8:
            CHECK(core_context_synchronize(c[0]) == 0 && core_memory_free(block[b]) == 0);
            block[b] = allocate(c[b % 2], BLOCK);
            CHECK(fill(c[b % 2], 0, block[b], BLOCK / 4, counter) == 0 && core_context_synchronize(c[b % 2]) == 0);
            break;
        default:
            CHECK(core_event_destroy(event) == 0 && core_event_create(c[0], 0, &event) == 0);
        }
        /* the next operation's stream comes behind this one */
        CHECK(core_event_record(c[0], event, stream[s], 0) == 0);
        for (int i = 0; i < STREAMS; i++)
            CHECK(core_stream_wait(c[0], stream[i], event, 0) == 0);
    }
    CHECK(core_context_synchronize(c[0]) == 0 && core_context_synchronize(c[1]) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(copy_out(c[0], 0, host, block[i], BLOCK, true) == 0);
        fnv_add(&hash, host, BLOCK);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
    return hash;
}

static uint64_t program_seed;
static void body_still(void) { printf("%016llx\n", (unsigned long long)random_program(program_seed, false)); }
static void body_moving(void) { printf("%016llx\n", (unsigned long long)random_program(program_seed, true)); }

TEST(random_programs)
{
    for (program_seed = 1; program_seed <= 6; program_seed++) {
        char still[2000], moving[2000];
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        assert_int_equal(isolated_output(body_moving, 60, moving, sizeof moving), 0);
        assert_string_equal(still, moving);
    }
}

#define ISOLATED(name, limit) TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(not_yet_used, 60)
ISOLATED(memory, 60)
ISOLATED(handles, 60)
ISOLATED(peers, 60)
ISOLATED(code, 60)
ISOLATED(streams, 60)
ISOLATED(times, 60)
ISOLATED(host_memory, 60)
ISOLATED(pools_and_graphs, 60)
ISOLATED(refusals, 60)
ISOLATED(no_session, 60)
ISOLATED(not_a_server, 60)
ISOLATED(left_server, 60)

int main(int argc, char **argv)
{
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    suspends = argc > 3 && strcmp(argv[3], "suspend") == 0;
    return two_servers_run(argc, argv, " [suspend]");
}
