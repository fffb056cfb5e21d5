/* peers: the other end lies, stops, trickles, dies. Raw bytes on one side, ours on the other. */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- words on a wire ---- */

struct words { uint32_t word[64]; size_t count; };

static void add(struct words *words, uint32_t word)
{
    assert_true(words->count < sizeof words->word / sizeof words->word[0]);
    words->word[words->count++] = htonl(word);
}

static void send_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        assert_true(sent > 0);
        at += sent;
        size -= (size_t)sent;
    }
}

static bool receive_all(int fd, void *bytes, size_t size)
{
    char *at = bytes;
    while (size > 0) {
        ssize_t got = recv(fd, at, size, 0);
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

static void send_words(int fd, const struct words *words)
{
    uint32_t mark = htonl(0x80000000u | (uint32_t)(words->count * 4));
    send_all(fd, &mark, 4);
    send_all(fd, words->word, words->count * 4);
}

/* The next record; false at the end. */
static bool receive_words(int fd, struct words *words)
{
    uint32_t mark;
    if (!receive_all(fd, &mark, 4))
        return false;
    words->count = (ntohl(mark) & 0x7fffffff) / 4;
    assert_true(words->count <= sizeof words->word / sizeof words->word[0]);
    return receive_all(fd, words->word, words->count * 4);
}

static uint32_t at(const struct words *words, size_t i)
{
    assert_true(i < words->count);
    return ntohl(words->word[i]);
}

/* ---- a client of ours, and a peer made of bytes ---- */

struct client_side {
    int         fd;             /* the peer's end */
    rpc_client *client;
    unsigned    losses;
    char        reason[RPC_ERROR_SIZE];
};

static void lost(void *context, const char *reason)
{
    struct client_side *side = context;
    side->losses++;
    snprintf(side->reason, sizeof side->reason, "%s", reason);
}

static struct client_side *client_side(int dead_seconds)
{
    struct client_side *side = calloc(1, sizeof *side);
    int fds[2];
    rpc_channel *channel;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    side->fd = fds[1];
    assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, dead_seconds, lost, side, &side->client, NULL), 0);
    return side;
}

static void client_side_end(struct client_side *side)
{
    rpc_client_destroy(side->client);
    if (side->fd >= 0)
        close(side->fd);
    free(side);
}

struct asked {
    struct rpc_call call;
    stream_args     args;
    plain_result    result;
};

/* Submits a call and gives its xid as the peer sees it. */
static uint32_t ask(struct client_side *side, struct asked *asked)
{
    struct words words;
    memset(asked, 0, sizeof *asked);
    asked->call = (struct rpc_call){ .procedure = FLYT_STREAM_SYNC, .encode = (xdrproc_t)xdr_stream_args,
                                     .args = &asked->args, .decode = (xdrproc_t)xdr_plain_result,
                                     .result = &asked->result };
    assert_int_equal(rpc_client_submit(side->client, &asked->call), RPC_SUCCESS);
    assert_true(receive_words(side->fd, &words));
    assert_int_equal(words.count, 11);
    assert_int_equal(at(&words, 1), 0);                 /* CALL */
    assert_int_equal(at(&words, 2), 2);
    assert_int_equal(at(&words, 3), FLYT_PROGRAM);
    assert_int_equal(at(&words, 4), FLYT_VERSION);
    assert_int_equal(at(&words, 5), FLYT_STREAM_SYNC);
    return at(&words, 0);
}

/* A good reply to STREAM_SYNC with this result. */
static struct words good_reply(uint32_t xid, uint32_t result)
{
    struct words words = { .count = 0 };
    const uint32_t list[] = { xid, 1, 0, 0, 0, 0, result, 0, 0, 0, 0 };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        add(&words, list[i]);
    return words;
}

static void expect_loss(struct client_side *side, struct asked *asked, const char *because)
{
    assert_int_equal(rpc_client_wait(side->client, &asked->call), RPC_CANTRECV);
    assert_true(rpc_client_lost(side->client));
    assert_int_equal(side->losses, 1);
    if (!strstr(side->reason, because))
        fail_msg("\"%s\" does not say \"%s\"", side->reason, because);
    struct rpc_call again = { .procedure = FLYT_DEVICE_SYNC, .encode = (xdrproc_t)xdr_stream_args, .args = &asked->args };
    assert_int_equal(rpc_client_submit(side->client, &again), RPC_CANTSEND);
    assert_int_equal(side->losses, 1);
}

static void good(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = good_reply(ask(side, &asked), 600);
    send_words(side->fd, &reply);
    assert_int_equal(rpc_client_wait(side->client, &asked.call), RPC_SUCCESS);
    assert_int_equal(asked.result.head.result, 600);
    client_side_end(side);
}

static void foreign_xid(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = good_reply(ask(side, &asked) + 1, 0);
    send_words(side->fd, &reply);
    expect_loss(side, &asked, "not in flight");
    client_side_end(side);
}

static void replayed_reply(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked first, second;
    struct words reply = good_reply(ask(side, &first), 0);
    ask(side, &second);
    send_words(side->fd, &reply);
    assert_int_equal(rpc_client_wait(side->client, &first.call), RPC_SUCCESS);
    send_words(side->fd, &reply);
    expect_loss(side, &second, "not in flight");
    client_side_end(side);
}

static void no_reply_at_all(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = { .count = 0 };
    add(&reply, ask(side, &asked));
    send_words(side->fd, &reply);
    expect_loss(side, &asked, "no reply");
    client_side_end(side);
}

static void announced_4_gib(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked asked;
    ask(side, &asked);
    send_all(side->fd, "\xff\xff\xff\xff", 4);
    expect_loss(side, &asked, "too long");
    client_side_end(side);
}

static void half_a_reply(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = good_reply(ask(side, &asked), 0);
    uint32_t mark = htonl(0x80000000u | (uint32_t)(reply.count * 4));
    send_all(side->fd, &mark, 4);
    send_all(side->fd, reply.word, reply.count * 2);
    close(side->fd);
    side->fd = -1;
    expect_loss(side, &asked, "closed");
    client_side_end(side);
}

/* One byte every now and then, and in several fragments, one of them empty: slow, but right. */
struct trickle { int fd; struct words words; };

static void *trickle(void *context)
{
    struct trickle *trickle = context;
    uint8_t stream[sizeof trickle->words.word + 12];
    size_t size = trickle->words.count * 4, used = 0;
    uint32_t first = htonl(20), empty = htonl(0), rest = htonl(0x80000000u | (uint32_t)(size - 20));
    memcpy(stream, &first, 4);
    memcpy(stream + 4, trickle->words.word, 20);
    memcpy(stream + 24, &empty, 4);
    memcpy(stream + 28, &rest, 4);
    memcpy(stream + 32, (char *)trickle->words.word + 20, size - 20);
    while (used < size + 12) {
        send_all(trickle->fd, stream + used++, 1);
        poll(NULL, 0, 2);
    }
    return NULL;
}

static void slow_reply(void **state)
{
    (void)state;
    struct client_side *side = client_side(10);
    struct asked asked;
    struct trickle slow = { side->fd, good_reply(ask(side, &asked), 77) };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, trickle, &slow), 0);
    assert_int_equal(rpc_client_wait(side->client, &asked.call), RPC_SUCCESS);
    assert_int_equal(asked.result.head.result, 77);
    pthread_join(thread, NULL);
    client_side_end(side);
}

static void statuses(void **state)
{
    (void)state;
    static const struct { uint32_t words[5]; size_t count; enum clnt_stat status; } answers[] = {
        { { 0, 0, 0, 1 }, 4, RPC_PROGUNAVAIL },
        { { 0, 0, 0, 2, 1 }, 5, RPC_PROGVERSMISMATCH },
        { { 0, 0, 0, 3 }, 4, RPC_PROCUNAVAIL },
        { { 0, 0, 0, 4 }, 4, RPC_CANTDECODEARGS },
        { { 0, 0, 0, 5 }, 4, RPC_SYSTEMERROR },
        { { 0, 0, 0, 6 }, 4, RPC_FAILED },
        { { 1, 0, 2, 2 }, 4, RPC_VERSMISMATCH },
        { { 1, 1, 2 }, 3, RPC_AUTHERROR },
        { { 0, 0, 0, 0 }, 4, RPC_CANTDECODERES },           /* success, but no result */
        { { 0, 0, 0, 0, 1 }, 5, RPC_CANTDECODERES },
    };
    struct client_side *side = client_side(10);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        struct asked asked;
        struct words reply = { .count = 0 };
        add(&reply, ask(side, &asked));
        add(&reply, 1);
        for (size_t k = 0; k < answers[i].count; k++)
            add(&reply, answers[i].words[k]);
        send_words(side->fd, &reply);
        assert_int_equal(rpc_client_wait(side->client, &asked.call), answers[i].status);
    }
    assert_false(rpc_client_lost(side->client));
    client_side_end(side);
}

static void silence(void **state)
{
    (void)state;
    struct client_side *side = client_side(1);
    struct asked asked;
    poll(NULL, 0, 1200);                /* nothing was due meanwhile */
    assert_false(rpc_client_lost(side->client));
    uint64_t began = clock_now();
    ask(side, &asked);
    expect_loss(side, &asked, "nothing for 1 seconds");
    assert_in_range((clock_now() - began) / CLOCK_NS_PER_MS, 900, 10000);
    client_side_end(side);
}

/* The peer reads nothing: a writer with full buffers gives up too. */
static void deaf(void **state)
{
    (void)state;
    struct client_side *side = client_side(1);
    char *bytes = calloc(1, FLYT_MAX_INLINE);
    copy_in_args in = { .data = { .kind = FLYT_BULK_INLINE } };
    in.data.flyt_bulk_u.bytes.bytes_val = bytes;
    in.data.flyt_bulk_u.bytes.bytes_len = FLYT_MAX_INLINE;
    enum clnt_stat status = RPC_SUCCESS;
    for (unsigned i = 0; i < 64 && status == RPC_SUCCESS; i++)
        status = flyt_copy_in_1(&in, NULL, rpc_client_stub(side->client));
    assert_int_equal(status, RPC_CANTSEND);
    assert_int_equal(side->losses, 1);
    free(bytes);
    client_side_end(side);
}

/* All who wait are told: threads, done functions, the helper. */
static _Atomic unsigned told;

static void done_is_told(struct rpc_call *call, void *context)
{
    (void)context;
    if (call->status == RPC_CANTRECV)
        atomic_fetch_add(&told, 1);
}

struct waiting { struct client_side *side; struct asked asked; bool attend; pthread_t thread; };

static void *wait_for_loss(void *context)
{
    struct waiting *waiting = context;
    enum clnt_stat status = waiting->attend ? rpc_client_attend(waiting->side->client, &waiting->asked.call)
                                            : rpc_client_wait(waiting->side->client, &waiting->asked.call);
    if (status == RPC_CANTRECV)
        atomic_fetch_add(&told, 1);
    return NULL;
}

static void everybody_is_told(void **state)
{
    (void)state;
    enum { WAITERS = 6 };
    struct client_side *side = client_side(10);
    static struct waiting waiting[WAITERS];
    struct asked with_done;
    atomic_store(&told, 0);
    ask(side, &with_done);
    /* like ask, but with a done function */
    struct asked other = { .call = { .procedure = FLYT_STREAM_SYNC, .encode = (xdrproc_t)xdr_stream_args,
                                     .done = done_is_told } };
    other.call.args = &other.args;
    assert_int_equal(rpc_client_submit(side->client, &other.call), RPC_SUCCESS);
    struct words ignored;
    assert_true(receive_words(side->fd, &ignored));
    for (unsigned i = 0; i < WAITERS; i++) {
        waiting[i].side = side;
        waiting[i].attend = i == 0;
        ask(side, &waiting[i].asked);
        assert_int_equal(pthread_create(&waiting[i].thread, NULL, wait_for_loss, &waiting[i]), 0);
    }
    poll(NULL, 0, 20);
    close(side->fd);
    side->fd = -1;
    for (unsigned i = 0; i < WAITERS; i++)
        pthread_join(waiting[i].thread, NULL);
    assert_int_equal(atomic_load(&told), WAITERS + 1);
    assert_int_equal(with_done.call.status, RPC_CANTRECV);
    assert_int_equal(side->losses, 1);
    client_side_end(side);
}

/* ---- processes ---- */

static void killed_server(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rpc_channel *channel;
        close(fds[0]);
        if (rpc_channel_from_fd(fds[1], &channel, NULL) == 0)
            service_run(service_create(channel));
        _exit(0);
    }
    close(fds[1]);
    rpc_channel *channel;
    rpc_client *client;
    assert_int_equal(rpc_channel_from_fd(fds[0], &channel, NULL), 0);
    assert_int_equal(rpc_client_create(channel, &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    device_args device = { .device = 1 };
    plain_result result = { 0 };
    assert_int_equal(flyt_device_sync_1(&device, &result, rpc_client_stub(client)), RPC_SUCCESS);
    device.device = TEST_DIE;
    assert_int_equal(flyt_device_sync_1(&device, &result, rpc_client_stub(client)), RPC_CANTRECV);
    assert_int_equal(flyt_device_sync_1(&device, &result, rpc_client_stub(client)), RPC_CANTSEND);
    assert_int_equal(waitpid(child, NULL, 0), child);
    rpc_client_destroy(client);
}

/* A child gives the connection up; the parent's goes on, and ends when the parent ends it, not before. */
static void forked(void **state)
{
    rpc_channel *channels[2];
    rpc_client *client;
    test_channels(*state, channels);
    struct service *service = service_start(channels[1]);
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    device_args device = { .device = 5 };
    plain_result result = { 0 };
    assert_int_equal(flyt_device_sync_1(&device, &result, rpc_client_stub(client)), RPC_SUCCESS);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rpc_client_abandon(client);
        bool refused = flyt_device_sync_1(&device, &result, rpc_client_stub(client)) == RPC_CANTSEND;
        _exit(refused && rpc_client_lost(client) ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(flyt_device_sync_1(&device, &result, rpc_client_stub(client)), RPC_SUCCESS);
    rpc_client_destroy(client);
    service_join(service);
}

/* ---- a server of ours, and a client made of bytes ---- */

static struct service *server_side(int *fd)
{
    int fds[2];
    rpc_channel *channel;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(rpc_channel_accept(fds[1], 0, &channel, NULL), 0);     /* as the real one: it looks for an offer first */
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
        add(&words, list[i]);
    return words;
}

static void wrong_calls(void **state)
{
    (void)state;
    int fd;
    struct service *service = server_side(&fd);
    char why[RPC_ERROR_SIZE];
    struct words call, reply;

    call = call_head(1, 3, FLYT_PROGRAM, FLYT_VERSION, 0);              /* RPC version */
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    static const uint32_t rpc_mismatch[] = { 1, 1, 1, 0, 2, 2 };
    assert_int_equal(reply.count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(at(&reply, i), rpc_mismatch[i]);

    call = call_head(2, 2, 100003, 3, 0);                               /* program */
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 0), 2);
    assert_int_equal(at(&reply, 5), PROG_UNAVAIL);
    assert_int_equal(reply.count, 6);

    call = call_head(3, 2, FLYT_PROGRAM, FLYT_VERSION + 1, 0);          /* version, with the range */
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 5), PROG_MISMATCH);
    assert_int_equal(at(&reply, 6), FLYT_VERSION);
    assert_int_equal(at(&reply, 7), FLYT_VERSION);

    static const uint32_t unknown[] = { 9, 9999, 0xffffffff };          /* procedures */
    for (size_t i = 0; i < 3; i++) {
        call = call_head(4, 2, FLYT_PROGRAM, FLYT_VERSION, unknown[i]);
        send_words(fd, &call);
        assert_true(receive_words(fd, &reply));
        assert_int_equal(at(&reply, 5), PROC_UNAVAIL);
    }

    call = call_head(7, 2, FLYT_PROGRAM, FLYT_VERSION, 0);              /* a credential of another kind */
    call.word[6] = htonl(AUTH_SYS);
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 2), MSG_DENIED);
    assert_int_equal(at(&reply, 3), AUTH_ERROR);

    call = call_head(8, 2, FLYT_PROGRAM, FLYT_VERSION, 0);              /* NULL works all the same */
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 0), 8);
    assert_int_equal(at(&reply, 5), SUCCESS);
    assert_int_equal(reply.count, 6);

    assert_int_equal(server_side_end(service, fd, why), -ECONNRESET);
}

static void garbage_arguments(void **state)
{
    (void)state;
    int fd;
    char why[RPC_ERROR_SIZE];
    struct words reply;
    struct service *service = server_side(&fd);
    struct words call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION, FLYT_MODULE_LOAD);
    add(&call, 1);                                                      /* module */
    add(&call, 0);                                                      /* device */
    for (unsigned i = 0; i < FLYT_HASH_SIZE / 4; i++)
        add(&call, 0);
    add(&call, 3);                                                      /* symbols: three are announced, one comes */
    add(&call, 4);
    add(&call, 0x61626364);
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 5), GARBAGE_ARGS);
    assert_int_equal(server_side_end(service, fd, why), -EPROTO);

    service = server_side(&fd);                                         /* bytes left over */
    call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION, FLYT_DEVICE_SYNC);
    add(&call, 1);
    add(&call, 1);
    send_words(fd, &call);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 5), GARBAGE_ARGS);
    assert_int_equal(server_side_end(service, fd, why), -EPROTO);

    service = server_side(&fd);                                         /* ASYNC: no answer, but the end */
    call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION, FLYT_UNMAP);
    send_words(fd, &call);
    assert_false(receive_words(fd, &reply));
    assert_int_equal(server_side_end(service, fd, why), -EPROTO);
}

static void no_call(void **state)
{
    (void)state;
    static const struct words nonsense[] = {
        { .count = 0 }, { .word = { 1 }, .count = 1 }, { .word = { 1, 0x01000000 }, .count = 2 },
        { .word = { 1, 0, 0x02000000, 5, 6, 7, 0, 0x90010000, 0, 0 }, .count = 10 },        /* credential of 401 bytes */
        { .word = { 1, 0, 0x02000000, 5, 6, 7, 0, 0x80000000 }, .count = 8 },
    };
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        int fd;
        char why[RPC_ERROR_SIZE];
        struct words reply;
        struct service *service = server_side(&fd);
        send_words(fd, &nonsense[i]);
        assert_false(receive_words(fd, &reply));
        assert_int_equal(server_side_end(service, fd, why), -EPROTO);
        assert_non_null(strstr(why, "no call"));
    }
}

static void long_messages(void **state)
{
    (void)state;
    static const uint32_t marks[] = { 0xffffffff, 0x7fffffff, 0x80000000 | (16 * 1024 * 1024 + 1) };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        int fd;
        char why[RPC_ERROR_SIZE];
        uint32_t mark = htonl(marks[i]);
        struct words reply;
        struct service *service = server_side(&fd);
        send_all(fd, &mark, 4);
        assert_false(receive_words(fd, &reply));
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
        send_all(fd, bytes, fragment + 4);
    mark = htonl(1);
    send_all(fd, &mark, 4);
    assert_false(receive_words(fd, &reply));
    assert_int_equal(server_side_end(service, fd, why), -EMSGSIZE);
    free(bytes);
}

static void half_a_call(void **state)
{
    (void)state;
    struct words call = call_head(1, 2, FLYT_PROGRAM, FLYT_VERSION, 0);
    uint32_t mark = htonl(0x80000000u | (uint32_t)(call.count * 4));
    for (size_t cut = 1; cut < 4 + call.count * 4; cut += 5) {
        int fd;
        char why[RPC_ERROR_SIZE];
        struct service *service = server_side(&fd);
        send_all(fd, &mark, cut < 4 ? cut : 4);
        if (cut > 4)
            send_all(fd, call.word, cut - 4);
        assert_int_equal(server_side_end(service, fd, why), -ECONNRESET);
        assert_non_null(strstr(why, "within a message"));
    }
}

static void slow_call(void **state)
{
    (void)state;
    int fd;
    char why[RPC_ERROR_SIZE];
    struct words reply;
    struct service *service = server_side(&fd);
    struct trickle slow = { fd, call_head(9, 2, FLYT_PROGRAM, FLYT_VERSION, 0) };
    trickle(&slow);
    assert_true(receive_words(fd, &reply));
    assert_int_equal(at(&reply, 0), 9);
    assert_int_equal(server_side_end(service, fd, why), -ECONNRESET);
}

static void next_times_out(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good), cmocka_unit_test(foreign_xid), cmocka_unit_test(replayed_reply),
        cmocka_unit_test(no_reply_at_all), cmocka_unit_test(announced_4_gib), cmocka_unit_test(half_a_reply),
        cmocka_unit_test(slow_reply), cmocka_unit_test(statuses), cmocka_unit_test(silence), cmocka_unit_test(deaf),
        cmocka_unit_test(everybody_is_told), cmocka_unit_test(killed_server), cmocka_unit_test_prestate(forked, (void *)"tcp"), cmocka_unit_test_prestate(forked, (void *)"tls"),
        cmocka_unit_test_prestate(forked, (void *)"shm"),
        cmocka_unit_test(wrong_calls), cmocka_unit_test(garbage_arguments), cmocka_unit_test(no_call),
        cmocka_unit_test(long_messages), cmocka_unit_test(half_a_call), cmocka_unit_test(slow_call),
        cmocka_unit_test_prestate(next_times_out, (void *)"unix"), cmocka_unit_test_prestate(next_times_out, (void *)"local"),
        cmocka_unit_test_prestate(next_times_out, (void *)"shm"), cmocka_unit_test_prestate(next_times_out, (void *)"tls"),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
