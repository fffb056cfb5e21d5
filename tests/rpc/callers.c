/* callers: the client lies, stops, trickles: bytes on its side, a server of ours on the other. The other way round:
 * peers.c. */
#include "tests/rpc/service.h"
#include "tests/rpc/words.h"

#include "cpu/common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/unit.h"

static struct service *server_side(int *fd)
{
    int fds[2];
    rpc_channel *channel;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    /* as the real one: it looks for an offer first */
    assert_int_equal(rpc_channel_accept(fds[1], 0, &channel, NULL), 0);
    *fd = fds[0];
    return service_start(channel);
}

static int server_side_end(struct service *service, int fd, char why[RPC_ERROR_SIZE])
{
    if (fd >= 0)
        close(fd);
    pthread_join(service->thread, NULL);
    int ended = service->ended;
    memcpy(why, service->why, RPC_ERROR_SIZE);
    service_destroy(service);
    return ended;
}

static struct words call_head(uint32_t xid, uint32_t rpc, uint32_t program, uint32_t version, uint32_t procedure)
{
    struct words words = { .count = 0 };
    const uint32_t list[] = { xid, 0, rpc, program, version, procedure, 0, 0, 0, 0 };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        words_add(&words, list[i]);
    return words;
}

TEST(wrong_calls)
{
    int fd;
    struct service *service = server_side(&fd);
    char why[RPC_ERROR_SIZE];
    struct words call, reply;

    call = call_head(1, 3, FLYT_PROGRAM, FLYT_VERSION_1, 0);              /* RPC version */
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    static const uint32_t rpc_mismatch[] = { 1, 1, 1, 0, 2, 2 };
    assert_int_equal(reply.count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(words_at(&reply, i), rpc_mismatch[i]);

    call = call_head(2, 2, 100003, 3, 0);                               /* program */
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 0), 2);
    assert_int_equal(words_at(&reply, 5), PROG_UNAVAIL);
    assert_int_equal(reply.count, 6);

    call = call_head(3, 2, FLYT_PROGRAM, FLYT_VERSION_1 + 1, 0);          /* version, with the range */
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 5), PROG_MISMATCH);
    assert_int_equal(words_at(&reply, 6), FLYT_VERSION_1);
    assert_int_equal(words_at(&reply, 7), FLYT_VERSION_1);

    static const uint32_t unknown[] = { 9, 9999, 0xffffffff };          /* procedures */
    for (size_t i = 0; i < 3; i++) {
        call = call_head(4, 2, FLYT_PROGRAM, FLYT_VERSION_1, unknown[i]);
        words_send(fd, &call);
        assert_true(words_receive(fd, &reply));
        assert_int_equal(words_at(&reply, 5), PROC_UNAVAIL);
    }

    call = call_head(7, 2, FLYT_PROGRAM, FLYT_VERSION_1, 0);              /* a credential of another kind */
    call.word[6] = htonl(AUTH_SYS);
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 2), MSG_DENIED);
    assert_int_equal(words_at(&reply, 3), AUTH_ERROR);

    call = call_head(8, 2, FLYT_PROGRAM, FLYT_VERSION_1, 0);              /* NULL works all the same */
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 0), 8);
    assert_int_equal(words_at(&reply, 5), SUCCESS);
    assert_int_equal(reply.count, 6);

    assert_int_equal(server_side_end(service, fd, why), -ECONNRESET);
}

TEST(garbage_arguments)
{
    int fd;
    char why[RPC_ERROR_SIZE];
    struct words reply;
    struct service *service = server_side(&fd);
    struct words call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION_1, FLYT_MODULE_LOAD);
    words_add(&call, 1);                                                      /* module */
    words_add(&call, 0);                                                      /* context */
    for (unsigned i = 0; i < FLYT_HASH_SIZE / 4; i++)
        words_add(&call, 0);
    /* symbols: three are announced, one comes */
    words_add(&call, 3);
    words_add(&call, 4);
    words_add(&call, 0x61626364);
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 5), GARBAGE_ARGS);
    assert_int_equal(server_side_end(service, fd, why), -EPROTO);

    service = server_side(&fd);                                         /* bytes left over */
    call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION_1, FLYT_CONTEXT_SYNC);
    words_add(&call, 1);
    words_add(&call, 1);
    words_send(fd, &call);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 5), GARBAGE_ARGS);
    assert_int_equal(server_side_end(service, fd, why), -EPROTO);

    service = server_side(&fd);                                         /* ASYNC: no answer, but the end */
    call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION_1, FLYT_UNMAP);
    words_send(fd, &call);
    assert_false(words_receive(fd, &reply));
    assert_int_equal(server_side_end(service, fd, why), -EPROTO);
}

TEST(no_call)
{
    static const struct words nonsense[] = {
        { .count = 0 }, { .word = { 1 }, .count = 1 }, { .word = { 1, 0x01000000 }, .count = 2 },
        /* credential of 401 bytes */
        { .word = { 1, 0, 0x02000000, 5, 6, 7, 0, 0x90010000, 0, 0 }, .count = 10 },
        { .word = { 1, 0, 0x02000000, 5, 6, 7, 0, 0x80000000 }, .count = 8 },
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        int fd;
        char why[RPC_ERROR_SIZE];
        struct words reply;
        struct service *service = server_side(&fd);
        words_send(fd, &nonsense[i]);
        assert_false(words_receive(fd, &reply));
        assert_int_equal(server_side_end(service, fd, why), -EPROTO);
        assert_non_null(strstr(why, "no call"));
    }
}

TEST(long_messages)
{
    static const uint32_t marks[] = { 0xffffffff, 0x7fffffff, 0x80000000 | (16 * 1024 * 1024 + 1) };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        int fd;
        char why[RPC_ERROR_SIZE];
        uint32_t mark = htonl(marks[i]);
        struct words reply;
        struct service *service = server_side(&fd);
        words_send_bytes(fd, &mark, 4);
        assert_false(words_receive(fd, &reply));
        assert_int_equal(server_side_end(service, fd, why), -EMSGSIZE);
    }
    /* many fragments, each of allowed size */
    int fd;
    char why[RPC_ERROR_SIZE];
    struct words reply;
    struct service *service = server_side(&fd);
    size_t fragment = 4 * 1024 * 1024;
    char *bytes = calloc(1, fragment + 4);
    uint32_t mark = htonl((uint32_t)fragment);
    memcpy(bytes, &mark, 4);
    for (unsigned i = 0; i < 4; i++)
        words_send_bytes(fd, bytes, fragment + 4);
    mark = htonl(1);
    words_send_bytes(fd, &mark, 4);
    assert_false(words_receive(fd, &reply));
    assert_int_equal(server_side_end(service, fd, why), -EMSGSIZE);
    free(bytes);
}

TEST(half_a_call)
{
    struct words call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION_1, 0);
    uint32_t mark = htonl(0x80000000u | (uint32_t)(call.count * 4));
    for (size_t cut = 1; cut < 4 + call.count * 4; cut += 5) {
        int fd;
        char why[RPC_ERROR_SIZE];
        struct service *service = server_side(&fd);
        words_send_bytes(fd, &mark, cut < 4 ? cut : 4);
        if (cut > 4)
            words_send_bytes(fd, call.word, cut - 4);
        assert_int_equal(server_side_end(service, fd, why), -ECONNRESET);
        assert_non_null(strstr(why, "within a message"));
    }
}

TEST(slow_call)
{
    int fd;
    char why[RPC_ERROR_SIZE];
    struct words reply;
    struct service *service = server_side(&fd);
    struct words_slow slow = { fd, call_head(9, 2, FLYT_PROGRAM, FLYT_VERSION_1, 0) };
    words_trickle(&slow);
    assert_true(words_receive(fd, &reply));
    assert_int_equal(words_at(&reply, 0), 9);
    assert_int_equal(server_side_end(service, fd, why), -ECONNRESET);
}

TEST_ON(next_times_out, "unix", "local", "shm", "tls")
{
    rpc_channel *channels[2];
    rpc_server *server;
    rpc_request *request;
    test_channels(*state, channels);
    assert_int_equal(rpc_server_create(channels[1], &rpc_flyt_program, &server, NULL), 0);
    uint64_t began = clock_now();
    assert_int_equal(rpc_server_next(server, 0, &request, NULL), 0);
    assert_null(request);
    assert_int_equal(rpc_server_next(server, 30, &request, NULL), 0);
    assert_null(request);
    assert_true(clock_now() - began >= 29 * CLOCK_NS_PER_MS);
    rpc_channel_destroy(channels[0]);
    assert_int_equal(rpc_server_next(server, -1, &request, NULL), -ECONNRESET);
    rpc_server_destroy(server);
}

int main(void) { return unit_run(NULL, NULL); }
