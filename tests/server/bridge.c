/*
 * bridge.c: a session goes to another server of its node, and its memory with it, without being copied; spoken by hand
 * to two servers. The test is the node manager, the program, its enemies, and at last a server that was taken over.
 *
 * shows: attacks: memory goes from server to server only between the workers of one program, whom the node manager has
 *   connected: others, with any ticket and at any moment, get none
 * shows: moving: the new server has the very pages, counts them as its own, and gives them up without loss
 * shows: moving: a server that was taken over hands over false files, sizes and messages: none of them is mapped, and
 *   its own is given to nobody by nonsense
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/bridge_message.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/share_order.h"
#include "cpu/common/ticket.h"
#include "tests/lib/keys.h"
#include "tests/server/peer.h"

enum { INVALID = 1, OUT_OF_MEMORY = 2, BAD_CONTEXT = 201, SYSTEM = 304, NOT_PERMITTED = 800, NOT_SUPPORTED = 801 };
enum { MIB = 1 << 20, UNIT = 2 * MIB, LIMIT = 64 * MIB };
enum { OLD, NEW };

static char folder[] = "/tmp/flyt-bridge-XXXXXX";
static struct ticket_signer *signer;
static struct place {
    struct server server;
    struct sockaddr_un at;
    char number[16], control[16], ledger[128];
    int connection;
} places[2];
static uint64_t empty[2]; /* bytes that each uses without a program */

static size_t make_ticket(int place, uint64_t program, uint8_t bytes[TICKET_MAX_SIZE])
{
    size_t size = TICKET_MAX_SIZE;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    int64_t now = (int64_t)time.tv_sec * 1000000;
    struct ticket ticket = { .tenant = "vm", .node = "n", .gpu = "g", .server = (uint64_t)place + 1,
                             .program = program, .sms = 1, .memory = LIMIT, .issued = now,
                             .expires = now + 60 * 1000000 };
    assert_int_equal(ticket_sign(signer, &ticket, bytes, &size, NULL), 0);
    return size;
}

/* ---- the node manager ---- */

static void place_start(int number, const char *keys)
{
    static char states[2][128];
    struct place *place = &places[number];
    char limit[32];
    snprintf(states[number], sizeof states[number], "%s/%d", folder, number);
    assert_int_equal(mkdir(states[number], 0700), 0);
    snprintf(place->number, sizeof place->number, "%d", number + 1);
    snprintf(place->ledger, sizeof place->ledger, "%s/ledger%d", folder, number);
    snprintf(limit, sizeof limit, "%d", LIMIT);
    setenv("FLYT_TENANT_LEDGER", place->ledger, 1);
    setenv("FLYT_TENANT_MEMORY", limit, 1);
    place->at = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(place->at.sun_path, sizeof place->at.sun_path, "%s/c%d", folder, number);
    int listens = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(listens, (struct sockaddr *)&place->at, sizeof place->at), 0);
    assert_int_equal(listen(listens, 4), 0);
    snprintf(place->control, sizeof place->control, "%d", listens);
    const char *const more[] = { "--workers", "2", "--ticket-key", keys, "--ticket-state", states[number],
                                 "--ticket-server", place->number, "--control-fd", place->control, NULL };
    server_start(&place->server, "software", more);
    close(listens);
    place->connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(place->connection, (struct sockaddr *)&place->at, sizeof place->at), 0);
}

static struct share_order_answer ordered(int place, const struct share_order *order, const int *fd)
{
    struct share_order_answer answer;
    uint8_t bytes[SHARE_ORDER_MOST_SIZE], said[SHARE_ANSWER_SIZE + 1];
    struct pollfd polled = { .fd = places[place].connection, .events = POLLIN };
    const size_t wanted = share_order_put(order, bytes);
    assert_int_equal(fd_message_send(places[place].connection, bytes, wanted, fd, fd != NULL), 0);
    assert_int_equal(poll(&polled, 1, 20000), 1);
    ssize_t size = recv(places[place].connection, said, sizeof said, 0);
    assert_true(size > 0 && share_answer_get(said, (size_t)size, &answer));
    assert_int_equal(answer.number, order->number);
    return answer;
}

/* Gives fd away. */
static unsigned give(int place, uint64_t program, int fd)
{
    static uint64_t number = 100;
    number++;
    const struct share_order order = { .kind = SHARE_BRIDGE, .number = number, .program = program,
                                       .departs = place == OLD };
    unsigned code = ordered(place, &order, &fd).code;
    close(fd);
    return code;
}

static void connect_both(uint64_t program)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(give(OLD, program, ends[0]), SHARE_DONE);
    assert_int_equal(give(NEW, program, ends[1]), SHARE_DONE);
}

static uint64_t used(int place)
{
    return ordered(place, &(struct share_order){ .kind = SHARE_LOOK, .number = 1 }, NULL).used;
}

static void used_becomes(int place, uint64_t bytes)
{
    for (int i = 0; used(place) != bytes && i < 10000; i++)
        usleep(2000);
    assert_int_equal(used(place), bytes);
}

/* Nothing of the test before is left. */
static void quiet(void)
{
    for (int i = 0; i < 2; i++)
        used_becomes(i, empty[i]);
}

/* ---- programs ---- */

static void begin_program(struct peer *p, int place, uint64_t program)
{
    uint8_t ticket[TICKET_MAX_SIZE];
    size_t size = make_ticket(place, program, ticket);
    plain_result result = { 0 };
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR, .host = (char *)"h", .executable = (char *)"e",
                        .ticket = { (u_int)size, (char *)ticket } };
    peer_connect_with(p, places[place].server.uri[0], ticket, size);
    assert_int_equal(flyt_hello_1(&args, &p->hello, p->stub), RPC_SUCCESS);
    assert_int_equal(p->hello.head.result, 0);
    assert_true(p->hello.capabilities & FLYT_CAP_BRIDGE);
    p->base = p->hello.window;
    assert_int_equal(flyt_context_retain_1(&(context_retain_args){ 0, 0 }, &result, p->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    xdr_free((xdrproc_t)xdr_plain_result, (char *)&result);
}

#define ASK(p, name, ...) \
    ({ \
        plain_result asked = { 0 }; \
        assert_int_equal(flyt_##name##_1(&(__VA_ARGS__), &asked, (p)->stub), RPC_SUCCESS); \
        int code_ = asked.head.result; \
        xdr_free((xdrproc_t)xdr_plain_result, (char *)&asked); \
        code_; \
    })
static int bridge(struct peer *p, int departs) { return ASK(p, bridge, (bridge_args){ departs }); }
static int adopt(struct peer *p, uint64_t offset, uint64_t size)
{
    return ASK(p, adopt, (adopt_args){ p->context, p->base + offset, size });
}
static int create(struct peer *p, uint32_t id, uint64_t size)
{
    return ASK(p, handle_create, (handle_create_args){ id, 0, size });
}
static int handle_adopt(struct peer *p, uint32_t id, uint64_t size)
{
    return ASK(p, handle_adopt, (handle_create_args){ id, 0, size });
}

static int map_pieces(struct peer *p, uint64_t offset, uint64_t size, uint64_t piece)
{
    map_args args = { .context = p->context, .address = p->base + offset, .size = size, .piece = piece };
    map_result result = { 0 };
    assert_int_equal(flyt_map_1(&args, &result, p->stub), RPC_SUCCESS);
    int code = result.head.result;
    xdr_free((xdrproc_t)xdr_map_result, (char *)&result);
    return code;
}

static void fill(struct peer *p, uint64_t offset, uint64_t size, unsigned byte)
{
    peer_set(p, 0, p->base + offset, size, byte, 1);
    assert_int_equal(peer_context_sync(p), 0);
}

static unsigned byte_at(struct peer *p, uint64_t offset)
{
    unsigned char byte = 0;
    assert_int_equal(peer_copy_out(p, 0, &byte, p->base + offset, 1), 0);
    return byte;
}

static int setup(void **state)
{
    static char keys[128], path[128];
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/signer", folder);
    assert_int_equal(ticket_signer_open(path, &signer, NULL), 0);
    snprintf(keys, sizeof keys, "%s/keys", folder);
    keys_write(keys, signer);
    place_start(OLD, keys);
    place_start(NEW, keys);
    for (int i = 0; i < 2; i++)
        empty[i] = used(i);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    for (int i = 0; i < 2; i++) {
        close(places[i].connection);
        server_stop(&places[i].server, SIGTERM);
    }
    ticket_signer_close(signer);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* ---- */

/* 70 pieces are more than a message has. */
TEST(the_pages_go)
{
    struct peer a, b;
    const uint64_t old = empty[OLD], new = empty[NEW];
    quiet();
    assert_non_null(strstr(ordered(NEW, &(struct share_order){ .kind = SHARE_LOOK, .number = 1 }, NULL).text,
                           SHARE_BRIDGES));
    begin_program(&a, OLD, 5);
    assert_int_equal(map_pieces(&a, 0, 10 * UNIT, UNIT), 0);
    assert_int_equal(map_pieces(&a, 20 * UNIT, 2 * UNIT, 2 * UNIT), 0);
    assert_int_equal(create(&a, 7, UNIT), 0);
    fill(&a, 0, 10 * UNIT, 0x11);
    fill(&a, 20 * UNIT, 2 * UNIT, 0x22);
    connect_both(5);
    begin_program(&b, NEW, 5);
    const uint64_t overhead_old = used(OLD) - old - 13 * UNIT, overhead_new = used(NEW) - new;
    assert_int_equal(bridge(&b, 1), NOT_SUPPORTED); /* it has come by it */
    assert_int_equal(bridge(&a, 0), NOT_SUPPORTED);
    assert_int_equal(bridge(&b, 0), 0);
    assert_int_equal(adopt(&b, 0, 10 * UNIT), NOT_PERMITTED); /* the program has not said that it leaves */
    assert_int_equal(handle_adopt(&b, 7, UNIT), NOT_PERMITTED);
    assert_int_equal(bridge(&a, 1), 0);
    b.base = a.base;
    assert_int_equal(adopt(&b, 0, 10 * UNIT), 0);
    assert_int_equal(adopt(&b, 20 * UNIT, 2 * UNIT), 0);
    assert_int_equal(handle_adopt(&b, 7, UNIT), 0);
    assert_int_equal(used(NEW), new + overhead_new + 13 * UNIT);
    assert_int_equal(byte_at(&b, 10 * UNIT - 1), 0x11);
    assert_int_equal(byte_at(&b, 20 * UNIT), 0x22);
    fill(&a, UNIT, 1, 0x33); /* the test is no good program: both have the page */
    assert_int_equal(byte_at(&b, UNIT), 0x33);
    /* It goes back. */
    peer_close(&b);
    used_becomes(NEW, new);
    assert_int_equal(byte_at(&a, 10 * UNIT - 1), 0x11);
    assert_int_equal(used(OLD), old + overhead_old + 13 * UNIT);
    /* And once more, for good. */
    connect_both(5);
    begin_program(&b, NEW, 5);
    b.base = a.base;
    assert_int_equal(bridge(&a, 1), 0);
    assert_int_equal(bridge(&b, 0), 0);
    assert_int_equal(adopt(&b, 0, 10 * UNIT), 0);
    peer_close(&a);
    used_becomes(OLD, old);
    fill(&b, 3 * UNIT, UNIT, 0x44);
    assert_int_equal(byte_at(&b, 3 * UNIT), 0x44);
    assert_int_equal(byte_at(&b, 10 * UNIT - 1), 0x11);
    assert_int_equal(adopt(&b, 30 * UNIT, UNIT), SYSTEM); /* nobody is there any more */
    peer_close(&b);
    used_becomes(NEW, new);
}

TEST(many_pieces_and_no_room)
{
    struct peer a, b;
    const uint64_t new = empty[NEW];
    quiet();
    begin_program(&a, OLD, 5);
    const uint64_t most = (LIMIT - used(OLD)) / UNIT * UNIT, piece = a.hello.granularity;
    assert_int_equal(map_pieces(&a, 0, most, piece), 0);
    fill(&a, 0, most, 0x55);
    connect_both(5);
    begin_program(&b, NEW, 5);
    b.base = a.base;
    assert_int_equal(bridge(&a, 1), 0);
    assert_int_equal(map_pieces(&b, most, 2 * UNIT, UNIT), 0);
    assert_int_equal(adopt(&b, 0, most), OUT_OF_MEMORY);
    const uint64_t held = used(NEW);
    assert_int_equal(adopt(&b, 0, most - 4 * UNIT), 0);
    assert_int_equal(used(NEW), held + most - 4 * UNIT);
    assert_int_equal(byte_at(&b, most - 4 * UNIT - 1), 0x55);
    peer_close(&b);
    peer_close(&a);
    used_becomes(NEW, new);
}

TEST(wrong_ranges)
{
    struct peer a, b;
    quiet();
    begin_program(&a, OLD, 5);
    assert_int_equal(map_pieces(&a, 0, 4 * UNIT, 2 * UNIT), 0);
    assert_int_equal(create(&a, 7, UNIT), 0);
    connect_both(5);
    begin_program(&b, NEW, 5);
    b.base = a.base;
    assert_int_equal(bridge(&a, 1), 0);
    const uint64_t held = used(NEW);
    assert_int_equal(adopt(&b, UNIT, UNIT), INVALID);             /* within a piece */
    assert_int_equal(adopt(&b, 0, 3 * UNIT), INVALID);            /* part of one */
    assert_int_equal(adopt(&b, 2 * UNIT, 4 * UNIT), INVALID);     /* nothing is behind it */
    assert_int_equal(adopt(&b, 8 * UNIT, UNIT), INVALID);
    assert_int_equal(adopt(&b, 0, 0), INVALID);
    assert_int_equal(adopt(&b, 1, UNIT), INVALID);
    assert_int_equal(adopt(&b, 0, UINT64_MAX - UNIT + 1), INVALID);
    assert_int_equal(adopt(&b, UINT64_MAX / 2, UNIT), INVALID);
    assert_int_equal(ASK(&b, adopt, (adopt_args){ 3, b.base, 2 * UNIT }), BAD_CONTEXT);
    assert_int_equal(ASK(&b, adopt, (adopt_args){ UINT32_MAX, b.base, 2 * UNIT }), BAD_CONTEXT);
    assert_int_equal(handle_adopt(&b, 8, UNIT), INVALID);
    assert_int_equal(handle_adopt(&b, 7, 2 * UNIT), INVALID);
    assert_int_equal(ASK(&b, handle_adopt, (handle_create_args){ 7, 1, UNIT }), 101);
    assert_int_equal(used(NEW), held);
    assert_int_equal(adopt(&b, 2 * UNIT, 2 * UNIT), 0);
    assert_int_equal(adopt(&b, 2 * UNIT, 2 * UNIT), INVALID); /* it has it */
    assert_int_equal(adopt(&b, 0, 4 * UNIT), INVALID);
    assert_int_equal(handle_adopt(&b, 7, UNIT), 0);
    assert_int_equal(handle_adopt(&b, 7, UNIT), INVALID);
    assert_int_equal(used(NEW), held + 3 * UNIT);
    peer_close(&b);
    peer_close(&a);
}

/* Program 6 wants what program 5 has. */
TEST(others_get_nothing)
{
    struct peer a, b, enemy_there, enemy_here, again;
    uint8_t ticket[TICKET_MAX_SIZE];
    quiet();
    begin_program(&a, OLD, 5);
    begin_program(&enemy_here, OLD, 6);
    assert_int_equal(map_pieces(&a, 0, UNIT, UNIT), 0);
    connect_both(5);
    begin_program(&enemy_there, NEW, 6);
    enemy_there.base = a.base;
    assert_int_equal(bridge(&enemy_there, 0), NOT_SUPPORTED);
    assert_int_equal(bridge(&enemy_there, 1), NOT_SUPPORTED);
    assert_int_equal(bridge(&enemy_here, 1), NOT_SUPPORTED);
    assert_int_equal(adopt(&enemy_there, 0, UNIT), NOT_SUPPORTED);
    assert_int_equal(handle_adopt(&enemy_there, 0, UNIT), NOT_SUPPORTED);
    assert_int_equal(adopt(&enemy_here, 0, UNIT), NOT_SUPPORTED);
    assert_int_equal(bridge(&a, 1), 0);
    assert_int_equal(adopt(&enemy_there, 0, UNIT), NOT_SUPPORTED);
    assert_int_equal(adopt(&a, UNIT, UNIT), NOT_SUPPORTED); /* by the wrong end */
    /* It has seen the program's pass, and not what proves it. */
    size_t size = make_ticket(NEW, 5, ticket);
    peer_connect_with(&again, places[NEW].server.uri[0], ticket, size);
    ticket[size - 1] ^= 1;
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR, .host = (char *)"h", .executable = (char *)"e",
                        .ticket = { (u_int)size, (char *)ticket } };
    assert_int_equal(flyt_hello_1(&args, &again.hello, again.stub), RPC_SUCCESS);
    assert_int_equal(again.hello.head.result, 800);
    plain_result result = { 0 };
    assert_true(flyt_adopt_1(&(adopt_args){ 0, a.base, UNIT }, &result, again.stub) != RPC_SUCCESS);
    peer_close(&again);
    /* The program itself comes in spite of that. */
    begin_program(&b, NEW, 5);
    b.base = a.base;
    assert_int_equal(bridge(&b, 0), 0);
    assert_int_equal(adopt(&b, 0, UNIT), 0);
    peer_close(&b);
    /* A second session of it has none: an end is given once. The listener hears of the first before it answers this. */
    used(NEW);
    begin_program(&again, NEW, 5);
    assert_int_equal(bridge(&again, 0), NOT_SUPPORTED);
    peer_close(&again);
    peer_close(&enemy_here);
    peer_close(&enemy_there);
    peer_close(&a);
}

/* A program that came back: its older session has not ended yet. The one that ends in between lets the listener's list
   of workers change its order. */
TEST(the_newest_session_departs)
{
    struct peer first, older, a, b;
    quiet();
    begin_program(&first, OLD, 6);
    const uint64_t one = used(OLD) - empty[OLD];
    begin_program(&older, OLD, 5);
    peer_close(&first);
    used_becomes(OLD, empty[OLD] + one);
    begin_program(&a, OLD, 5);
    assert_int_equal(map_pieces(&a, 0, UNIT, UNIT), 0);
    connect_both(5);
    begin_program(&b, NEW, 5);
    b.base = a.base;
    assert_int_equal(bridge(&a, 1), 0);
    assert_int_equal(bridge(&b, 0), 0);
    assert_int_equal(adopt(&b, 0, UNIT), 0);
    peer_close(&b);
    peer_close(&a);
    peer_close(&older);
}

/* Orders that make no sense, and the server that was taken over at either end. */
TEST(orders_and_their_descriptors)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(give(OLD, 77, ends[0]), SHARE_INVALID); /* such a program is not here */
    struct pollfd polled = { .fd = ends[1], .events = POLLIN };
    assert_int_equal(poll(&polled, 1, 20000), 1);            /* closed */
    for (int i = 0; i < 200; i++) {                          /* more than wait */
        int more[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, more), 0);
        assert_int_equal(give(NEW, 1000 + (uint64_t)i, more[0]), SHARE_DONE);
        close(more[1]);
    }
    close(ends[1]);
    struct share_order order = { .kind = SHARE_BRIDGE, .number = 9, .program = 5 };
    uint8_t bytes[SHARE_ORDER_MOST_SIZE];
    const size_t wanted = share_order_put(&order, bytes);
    assert_int_equal(send(places[NEW].connection, bytes, wanted, 0), wanted);             /* without one */
    char byte;
    assert_int_equal(recv(places[NEW].connection, &byte, 1, 0), 0);                       /* costs the connection */
    close(places[NEW].connection);
    places[NEW].connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(places[NEW].connection, (struct sockaddr *)&places[NEW].at, sizeof places[NEW].at), 0);
    used(NEW);
    order.program = 0;
    share_order_put(&order, bytes);
    struct share_order got;
    assert_false(share_order_get(bytes, wanted, &got));
    for (int i = 0; i < SHARE_ORDER_SIZE; i++)
        for (int bit = 0; bit < 8; bit++) {
            order.program = 5;
            share_order_put(&order, bytes);
            bytes[i] ^= (uint8_t)(1 << bit);
            if (share_order_get(bytes, wanted, &got) && got.kind == SHARE_BRIDGE)
                assert_true(got.program != 0 && bytes[28] == 0);
        }
}

static int file_of(uint64_t size, bool sealed, bool readable_only)
{
    int fd = memfd_create("flyt-softgpu-0", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    if (sealed)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    if (!readable_only)
        return fd;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    close(fd);
    return other;
}

/* Hears the question of an ADOPT that `asks` sends, and answers it so. */
struct lie { uint64_t number_off, size; unsigned count, descriptors; bool cut; int fd; };
struct liar { int end; const struct lie *lie; };

static void *answers(void *context)
{
    const struct liar *liar = context;
    const struct lie *lie = liar->lie;
    uint8_t bytes[BRIDGE_ANSWER_SIZE];
    struct bridge_question question;
    int fds[FD_MESSAGE_MOST];
    ssize_t n = recv(liar->end, bytes, sizeof bytes, 0);
    assert_true(n > 0 && bridge_question_get(bytes, (size_t)n, &question));
    struct bridge_answer answer = { .count = lie->count, .number = question.number + lie->number_off };
    for (unsigned i = 0; i < lie->count; i++)
        answer.size[i] = lie->size;
    for (unsigned i = 0; i < lie->descriptors; i++)
        fds[i] = lie->fd;
    bridge_answer_put(&answer, bytes);
    assert_int_equal(fd_message_send(liar->end, bytes, lie->cut ? 20 : sizeof bytes, fds, lie->descriptors), 0);
    return NULL;
}

TEST(an_old_server_that_lies)
{
    const uint64_t new = empty[NEW];
    const int pipe_fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
    const struct { struct lie lie; int code; } lies[] = {
        { { .size = UNIT, .count = 1, .descriptors = 1, .fd = file_of(UNIT, true, false) }, 0 },
        { { .size = UNIT, .count = 1, .descriptors = 1, .fd = file_of(UNIT, false, false) }, INVALID },
        { { .size = UNIT, .count = 1, .descriptors = 1, .fd = file_of(UNIT, true, true) }, OUT_OF_MEMORY },
        { { .size = UNIT, .count = 1, .descriptors = 1, .fd = file_of(UNIT / 2, true, false) }, INVALID },
        { { .size = UNIT, .count = 1, .descriptors = 1, .fd = file_of(2 * UNIT, true, false) }, INVALID },
        { { .size = 2 * UNIT, .count = 1, .descriptors = 1, .fd = file_of(2 * UNIT, true, false) }, INVALID },
        { { .size = 4096, .count = 1, .descriptors = 1, .fd = file_of(4096, true, false) }, INVALID },
        { { .size = UNIT, .count = 1, .descriptors = 1, .fd = pipe_fd }, INVALID },
        { { .size = UNIT, .count = 1, .descriptors = 0, .fd = pipe_fd }, SYSTEM },
        { { .size = UNIT, .count = 1, .descriptors = 3, .fd = pipe_fd }, SYSTEM },
        { { .size = UNIT, .count = 0, .descriptors = 0, .fd = pipe_fd }, SYSTEM },
        { { .size = UNIT, .count = 1, .descriptors = 1, .cut = true, .fd = pipe_fd }, SYSTEM },
        { { .size = UNIT, .count = 64, .descriptors = 64, .fd = pipe_fd }, INVALID },
        { { .size = UINT64_MAX, .count = 2, .descriptors = 2, .fd = pipe_fd }, SYSTEM },
    };
    quiet();
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct peer b;
        int ends[2];
        pthread_t thread;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(give(NEW, 5, ends[0]), SHARE_DONE);
        begin_program(&b, NEW, 5);
        const uint64_t held = used(NEW);
        struct liar liar = { ends[1], &lies[i].lie };
        assert_int_equal(pthread_create(&thread, NULL, answers, &liar), 0);
        int code = adopt(&b, 0, UNIT);
        if (code != lies[i].code)
            fail_msg("lie %zu: %d, not %d", i, code, lies[i].code);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(used(NEW), code == 0 ? held + UNIT : held);
        assert_int_equal(map_pieces(&b, 4 * UNIT, UNIT, UNIT), 0); /* it goes on */
        peer_close(&b);
        close(ends[1]);
        close(lies[i].lie.fd);
        used_becomes(NEW, new);
    }
}

TEST(a_new_server_that_asks_nonsense)
{
    struct peer a;
    uint8_t bytes[BRIDGE_ANSWER_SIZE + 1];
    int ends[2], fds[FD_MESSAGE_MOST];
    unsigned count;
    quiet();
    begin_program(&a, OLD, 5);
    assert_int_equal(map_pieces(&a, 0, UNIT, UNIT), 0);
    for (int i = 0; i < 4; i++) {
        struct bridge_question question = { .kind = i == 0 ? 9 : BRIDGE_PIECES, .number = 1, .address = a.base,
                                            .size = UNIT };
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(give(OLD, 5, ends[0]), SHARE_DONE);
        ssize_t n;
        struct bridge_answer answer = { 0 };
        do {
            if (i == 3) /* till then the program has not left. The close of the end before may not have been seen */
                while (bridge(&a, 1) != 0)
                    usleep(1000);
            bridge_question_put(&question, bytes);
            assert_int_equal(send(ends[1], bytes, i == 1 ? 39 : BRIDGE_QUESTION_SIZE, 0),
                             i == 1 ? 39 : BRIDGE_QUESTION_SIZE);
            n = fd_message_receive(ends[1], bytes, BRIDGE_ANSWER_SIZE, 0, fds, &count);
            assert_true(i < 2 || bridge_answer_get(bytes, (size_t)n, &answer));
        } while (i == 3 && answer.status == NOT_PERMITTED);
        if (i < 2) {
            assert_int_equal(n, 0); /* it has closed */
        } else {
            assert_int_equal(answer.status, i == 2 ? NOT_PERMITTED : 0);
            assert_int_equal(count, i == 2 ? 0 : 1);
            fd_message_close(fds, count);
        }
        close(ends[1]);
    }
    fill(&a, 0, UNIT, 0x66);
    assert_int_equal(byte_at(&a, UNIT - 1), 0x66);
    peer_close(&a);
}

/* Any bytes: what is taken for a message keeps the bounds, and is written as it was read. */
TEST(any_bytes)
{
    unsigned seed = 1;
    uint8_t bytes[BRIDGE_ANSWER_SIZE], again[BRIDGE_ANSWER_SIZE];
    for (int i = 0; i < 200000; i++) {
        struct bridge_answer answer = { .status = 0, .count = 1 + (uint32_t)i % BRIDGE_PARTS, .number = 7 };
        struct bridge_question question = { .kind = 1 + (uint32_t)i % 2, .number = 7, .size = 5 };
        for (unsigned part = 0; part < answer.count; part++)
            answer.size[part] = UNIT;
        bridge_answer_put(&answer, bytes);
        for (int change = rand_r(&seed) % 3; change > 0; change--)
            bytes[rand_r(&seed) % (i % 4 ? 40 : BRIDGE_ANSWER_SIZE)] ^= (uint8_t)(1 << rand_r(&seed) % 8);
        size_t size = rand_r(&seed) % 16 ? sizeof bytes : (size_t)rand_r(&seed) % sizeof bytes;
        if (bridge_answer_get(bytes, size, &answer)) {
            assert_true(size == sizeof bytes && answer.count <= BRIDGE_PARTS && !answer.status == !!answer.count);
            bridge_answer_put(&answer, again);
            assert_memory_equal(bytes, again, 24 + 8 * answer.count);
        }
        bridge_question_put(&question, bytes);
        bytes[rand_r(&seed) % BRIDGE_QUESTION_SIZE] ^= (uint8_t)(1 << rand_r(&seed) % 8);
        if (bridge_question_get(bytes, BRIDGE_QUESTION_SIZE, &question)) {
            bridge_question_put(&question, again);
            assert_memory_equal(bytes, again, BRIDGE_QUESTION_SIZE);
        }
        assert_false(bridge_question_get(bytes, (size_t)rand_r(&seed) % BRIDGE_QUESTION_SIZE, &question));
    }
}

int main(void) { return unit_run(setup, teardown); }
