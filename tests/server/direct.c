/*
 * direct.c: direct lanes spoken by hand. The test is the client of two servers, and the node manager that connects the
 * first one to the second; then each of them misbehaves.
 *
 * shows: moving: bytes go straight from the old server to the new one, over several connections, and both sessions go
 *   on when the last of them has come
 * shows: moving: without connections, with wrong keys, to a stranger, or to somebody silent there are no direct lanes,
 *   within seconds, and the session goes on
 * shows: moving: a direct lane that ends before its last record ends the session at the new server, and nothing at the
 *   old one
 * shows: moving: a direct lane whose number the session still uses from its last move is waited for, or done without
 * shows: attacks: no key opens a direct lane twice, and nonsense about direct lanes, from client and node manager,
 *   costs its sender at most
 */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/fd_message.h"
#include "cpu/common/share_order.h"
#include "cpu/rpc/call/lane.h"
#include "tests/server/peer.h"

enum { OLD, NEW, TCP = 1, LANES_WANTED = 4, FIRST = FLYT_MAX_LANES + 1, CHUNK = 512 * 1024 };
enum { INVALID = 1, NOT_SUPPORTED = 801 };

static struct server servers[2];
static struct peer peers[2];
static struct sockaddr_un control_at;
static int control;

static void begin(void)
{
    char number[16];
    control_at = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(control_at.sun_path, sizeof control_at.sun_path, "/tmp/flyt-direct-%d", (int)getpid());
    int listens = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(listens, (struct sockaddr *)&control_at, sizeof control_at), 0);
    assert_int_equal(listen(listens, 4), 0);
    snprintf(number, sizeof number, "%d", listens);
    const char *const more[] = { "--control-fd", number, NULL };
    server_start(&servers[OLD], "software", more);
    server_start(&servers[NEW], "software", NULL);
    close(listens);
    control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(control, (struct sockaddr *)&control_at, sizeof control_at), 0);
    for (int i = 0; i < 2; i++) {
        peer_open(&peers[i], servers[i].uri[TCP]);
        assert_true(peers[i].hello.capabilities & FLYT_CAP_DIRECT);
        assert_int_equal(peer_map(&peers[i], peers[i].base, peers[i].granule), 0);
    }
}

static void end(void)
{
    for (int i = 0; i < 2; i++) {
        peer_close(&peers[i]);
        server_stop(&servers[i], SIGTERM);
    }
    close(control);
    unlink(control_at.sun_path);
}

/* ---- the node manager ---- */

static int connect_to(unsigned port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static unsigned port_of(const char *uri) { return (unsigned)atoi(strrchr(uri, ':') + 1); }

/* The code of the answer. */
static unsigned give(unsigned port, unsigned count)
{
    struct share_order order = { .kind = SHARE_LANES, .number = 7, .program = 1, .departs = true };
    struct share_order_answer answer;
    uint8_t bytes[SHARE_ORDER_MOST_SIZE], said[SHARE_ANSWER_SIZE + 1];
    int fds[SHARE_LANES_MOST];
    snprintf(order.address, sizeof order.address, "tcp://127.0.0.1:%u", port);
    for (unsigned i = 0; i < count; i++)
        fds[i] = connect_to(port);
    assert_int_equal(fd_message_send(control, bytes, share_order_put(&order, bytes), fds, count), 0);
    fd_message_close(fds, count);
    ssize_t n = recv(control, said, sizeof said, 0);
    assert_true(n > 0 && share_answer_get(said, (size_t)n, &answer) && answer.number == 7);
    return answer.code;
}

/* ---- the client ---- */

static int ask_key_of(int which, uint32_t number, depart_key key)
{
    lane_args args = { number };
    lane_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_lane_1(&args, &result, peers[which].stub), RPC_SUCCESS);
    int code = result.head.result;
    memcpy(key, result.key, sizeof(depart_key));
    xdr_free((xdrproc_t)xdr_lane_result, &result);
    return code;
}

static int ask_key(uint32_t number, depart_key key) { return ask_key_of(NEW, number, key); }

static int depart_with(uint64_t session, depart_key *keys, unsigned count, unsigned *lanes)
{
    depart_args args = { .session = session, .keys = { count, keys } };
    depart_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_depart_1(&args, &result, peers[OLD].stub), RPC_SUCCESS);
    int code = result.head.result;
    *lanes = result.lanes;
    xdr_free((xdrproc_t)xdr_depart_result, &result);
    return code;
}

static unsigned depart(void)
{
    depart_key keys[LANES_WANTED];
    unsigned lanes;
    for (unsigned i = 0; i < LANES_WANTED; i++)
        assert_int_equal(ask_key(FIRST + i, keys[i]), 0);
    assert_int_equal(depart_with(peers[NEW].hello.session, keys, LANES_WANTED, &lanes), 0);
    return lanes;
}

/* As many bytes as the two calls say; the code of the old server's answer. */
static int take_along(uint64_t offset, uint64_t size, uint32_t lane, uint32_t transfer)
{
    copy_out_args out = { .from = peers[OLD].base + offset, .size = size, .via = { lane, transfer } };
    copy_in_args in = { .to = peers[NEW].base + offset,
                        .data = { .kind = FLYT_BULK_LANE, .flyt_bulk_u = { .on_lane = { transfer, size } } } };
    copy_out_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_copy_out_1(&out, &result, peers[OLD].stub), RPC_SUCCESS);
    int code = result.head.result;
    if (!code) {
        assert_int_equal(result.data.kind, FLYT_BULK_LANE);
        enum clnt_stat status = flyt_copy_in_1(&in, NULL, peers[NEW].stub);
        assert_true(status == RPC_SUCCESS || status == RPC_TIMEDOUT);
    }
    xdr_free((xdrproc_t)xdr_copy_out_result, &result);
    return code;
}

static bool is_there(int which)
{
    copy_out_args args = { .from = peers[which].base, .size = 4 };
    copy_out_result result;
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_copy_out_1(&args, &result, peers[which].stub);
    bool there = status == RPC_SUCCESS && !result.head.sticky;
    xdr_free((xdrproc_t)xdr_copy_out_result, &result);
    return there;
}

static void wait_until_ended(int which)
{
    uint64_t until = clock_now() + 8 * CLOCK_NS_PER_SECOND;
    while (is_there(which) && clock_now() < until)
        usleep(5000);
    assert_false(is_there(which));
}

/* ---- the tests ---- */

TEST(bytes_go_straight)
{
    enum { SIZE = 1 << 20, PART = 128 * 1024 };
    unsigned none;
    begin();
    uint8_t *bytes = malloc(SIZE), *back = malloc(SIZE);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < SIZE; i++)
            bytes[i] = (uint8_t)(i * 37 + i / 509 + (size_t)round);
        for (unsigned at = 0; at < SIZE; at += CHUNK)
            peer_copy_in(&peers[OLD], 0, peers[OLD].base + at, bytes + at, CHUNK);
        assert_int_equal(give(port_of(servers[NEW].uri[TCP]), LANES_WANTED), SHARE_DONE);
        assert_int_equal(depart(), LANES_WANTED);
        for (uint32_t i = 0; i < SIZE / PART; i++)
            assert_int_equal(take_along((uint64_t)i * PART, PART, FIRST + i % LANES_WANTED, 1 + i), 0);
        assert_int_equal(depart_with(peers[NEW].hello.session, NULL, 0, &none), 0);
        for (unsigned at = 0; at < SIZE; at += CHUNK)
            assert_int_equal(peer_copy_out(&peers[NEW], 0, back + at, peers[NEW].base + at, CHUNK), 0);
        assert_memory_equal(back, bytes, SIZE);
        assert_true(is_there(OLD) && is_there(NEW));
        /* They have ended. */
        assert_int_not_equal(take_along(0, PART, FIRST, 100), 0);
    }
    free(bytes);
    free(back);
    end();
}

/* Listens, and does with what comes what `does` says. */
static unsigned stranger(int *listens, bool answers)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    *listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*listens, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(*listens, 16), 0);
    assert_int_equal(getsockname(*listens, (struct sockaddr *)&at, &size), 0);
    pid_t child = answers ? fork() : 1;
    if (!child) {
        for (int fd; (fd = accept(*listens, NULL, NULL)) >= 0;)
            if (write(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28) < 0)
                _exit(1);
        _exit(0);
    }
    return answers ? (close(*listens), *listens = (int)child, ntohs(at.sin_port)) : ntohs(at.sin_port);
}

TEST(there_are_none)
{
    depart_key keys[FLYT_MAX_LANES];
    unsigned lanes;
    int child, silent;
    begin();
    for (unsigned i = 0; i < FLYT_MAX_LANES; i++)
        assert_int_equal(ask_key(FIRST + i, keys[i]), 0);
    assert_int_equal(ask_key(2 * FLYT_MAX_LANES + 1, keys[0]), INVALID);
    assert_int_equal(ask_key(FIRST, keys[0]), 0);
    /* Nobody has connected it. */
    assert_int_equal(depart_with(peers[NEW].hello.session, keys, 1, &lanes), NOT_SUPPORTED);
    assert_int_not_equal(take_along(0, 64, FIRST, 1), 0);
    /* A session that does not exist; a key of another lane. */
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), 1), SHARE_DONE);
    assert_int_equal(depart_with(peers[NEW].hello.session + 1, keys, 1, &lanes), NOT_SUPPORTED);
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), 1), SHARE_DONE);
    assert_int_equal(depart_with(peers[NEW].hello.session, keys + 1, 1, &lanes), NOT_SUPPORTED);
    /* What was given is used up. */
    assert_int_equal(depart_with(peers[NEW].hello.session, keys, 1, &lanes), NOT_SUPPORTED);
    /* Fewer connections than keys; then the same key again. */
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), 2), SHARE_DONE);
    assert_int_equal(depart_with(peers[NEW].hello.session, keys, FLYT_MAX_LANES, &lanes), 0);
    assert_int_equal(lanes, 2);
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), 1), SHARE_DONE);
    uint64_t before = clock_now();
    unsigned port = stranger(&child, true);
    assert_int_equal(give(port, 1), SHARE_DONE);
    assert_int_equal(depart_with(1, keys, 1, &lanes), NOT_SUPPORTED);
    kill((pid_t)child, SIGKILL);
    port = stranger(&silent, false);
    assert_int_equal(give(port, SHARE_LANES_MOST), SHARE_DONE);
    assert_int_equal(depart_with(1, keys, FLYT_MAX_LANES, &lanes), NOT_SUPPORTED);
    assert_true(clock_now() - before < 12 * CLOCK_NS_PER_SECOND);
    close(silent);
    assert_true(is_there(OLD));
    end();
}

TEST(a_key_opens_once)
{
    depart_key keys[1];
    unsigned lanes;
    begin();
    assert_int_equal(ask_key(FIRST, keys[0]), 0);
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), 1), SHARE_DONE);
    assert_int_equal(depart_with(peers[NEW].hello.session, keys, 1, &lanes), 0);
    assert_int_equal(depart_with(peers[NEW].hello.session, NULL, 0, &lanes), 0);
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), 1), SHARE_DONE);
    assert_int_equal(depart_with(peers[NEW].hello.session, keys, 1, &lanes), NOT_SUPPORTED);
    assert_true(is_there(OLD) && is_there(NEW));
    end();
}

/* The session came to the old server over a lane that has not ended yet: an end that comes soon is waited for. */
TEST(a_lane_is_still_in_use)
{
    depart_key key;
    unsigned lanes, none;
    uint8_t hello[RPC_LANE_HEAD], welcome[RPC_LANE_MAGIC], last[RPC_LANE_HEAD];
    begin();
    for (int ends = 0; ends < 2; ends++) {
        for (uint64_t until = clock_now() + 5 * CLOCK_NS_PER_SECOND; ask_key_of(OLD, FIRST + 1, key) != 0;)
            assert_true(clock_now() < until);       /* the lane of the turn before has just ended */
        int fd = connect_to(port_of(servers[OLD].uri[TCP]));
        rpc_lane_put_hello(hello, peers[OLD].hello.session, FIRST + 1);
        assert_int_equal(send(fd, hello, sizeof hello, 0), sizeof hello);
        assert_int_equal(send(fd, key, sizeof key, 0), sizeof key);
        assert_int_equal(recv(fd, welcome, sizeof welcome, MSG_WAITALL), sizeof welcome);
        rpc_lane_put(last, &(struct rpc_lane_record){ .lane = FIRST + 1 });
        pid_t child = ends ? fork() : 1;
        if (!child) {
            usleep(300000);
            _exit(send(fd, last, sizeof last, 0) != sizeof last);
        }
        assert_int_equal(give(port_of(servers[NEW].uri[TCP]), LANES_WANTED), SHARE_DONE);
        lanes = depart();
        assert_int_equal(lanes, ends ? LANES_WANTED : 1);
        usleep(600000);                             /* longer than a session that ends says farewell */
        assert_true(is_there(OLD) && is_there(NEW));
        assert_int_equal(take_along(0, 4096, FIRST, 1 + (uint32_t)ends), 0);
        assert_int_equal(depart_with(peers[NEW].hello.session, NULL, 0, &none), 0);
        assert_true(is_there(OLD) && is_there(NEW));
        if (!ends)
            assert_int_equal(send(fd, last, sizeof last, 0), sizeof last);
        close(fd);
    }
    end();
}

/* Cut off by its client; by the end of the old session. */
TEST(they_are_cut)
{
    unsigned none;
    for (int how = 0; how < 2; how++) {
        begin();
        assert_int_equal(give(port_of(servers[NEW].uri[TCP]), LANES_WANTED), SHARE_DONE);
        assert_int_equal(depart(), LANES_WANTED);
        assert_int_equal(take_along(0, 4096, FIRST, 1), 0);
        if (how == 0)
            assert_int_equal(depart_with(0, NULL, 0, &none), 0);
        else
            peer_close(&peers[OLD]);
        wait_until_ended(NEW);
        if (how == 1) {
            peer_open(&peers[OLD], servers[OLD].uri[TCP]);
            assert_int_equal(peer_map(&peers[OLD], peers[OLD].base, peers[OLD].granule), 0);
        }
        assert_true(is_there(OLD));
        end();
    }
}

/* The new server's worker is killed while bytes are on their way. */
TEST(target_dies)
{
    int worker = 0, code = 0;
    begin();
    assert_int_equal(give(port_of(servers[NEW].uri[TCP]), LANES_WANTED), SHARE_DONE);
    assert_int_equal(depart(), LANES_WANTED);
    assert_int_equal(server_children(&servers[NEW], &worker, 1), 1);
    kill((pid_t)worker, SIGKILL);
    uint64_t until = clock_now() + 8 * CLOCK_NS_PER_SECOND;
    copy_out_args out = { .from = peers[OLD].base, .size = CHUNK, .via = { FIRST, 1 } };
    while (!code && clock_now() < until) {
        copy_out_result result;
        memset(&result, 0, sizeof result);
        out.via.transfer++;
        assert_int_equal(flyt_copy_out_1(&out, &result, peers[OLD].stub), RPC_SUCCESS);
        code = result.head.result;
        xdr_free((xdrproc_t)xdr_copy_out_result, &result);
    }
    assert_int_not_equal(code, 0);
    assert_true(is_there(OLD));
    end();
}

/* Orders that are none end the node manager's connection; the programs go on. */
TEST(orders_that_are_none)
{
    static const struct { unsigned count; int spoil; } wrong[] = {
        { 0, 0 }, { SHARE_LANES_MOST + 1, 0 }, { 1, 1 }, { 1, 2 }, { 1, 3 },
    };
    begin();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct share_order order = { .kind = SHARE_LANES, .number = 1, .program = 1, .departs = true,
                                     .address = "tcp://127.0.0.1:1" };
        uint8_t bytes[SHARE_ORDER_MOST_SIZE], said[SHARE_ANSWER_SIZE];
        int fds[SHARE_LANES_MOST + 1];
        order.departs = wrong[i].spoil != 2;
        size_t size = share_order_put(&order, bytes);
        if (wrong[i].spoil == 1)
            memset(bytes + SHARE_ORDER_SIZE, 'x', SHARE_ADDRESS_SIZE);
        if (wrong[i].spoil == 3)
            size = SHARE_ORDER_SIZE;
        for (unsigned n = 0; n < wrong[i].count; n++)
            fds[n] = dup(control);
        assert_int_equal(fd_message_send(control, bytes, size, fds, wrong[i].count), 0);
        fd_message_close(fds, wrong[i].count);
        assert_true(recv(control, said, sizeof said, 0) <= 0);
        close(control);
        control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(control, (struct sockaddr *)&control_at, sizeof control_at), 0);
    }
    assert_true(is_there(OLD));
    end();
}

int main(void) { return unit_run(NULL, NULL); }
