/* peers: the server lies, stops, trickles, dies: bytes on its side, a client of ours on the other. The other way round:
 * callers.c. */
#include "tests/rpc/service.h"
#include "tests/rpc/words.h"

#include "cpu/common/clock.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/unit.h"

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
    assert_true(words_receive(side->fd, &words));
    assert_int_equal(words.count, 11);
    assert_int_equal(words_at(&words, 1), 0);                 /* CALL */
    assert_int_equal(words_at(&words, 2), 2);
    assert_int_equal(words_at(&words, 3), FLYT_PROGRAM);
    assert_int_equal(words_at(&words, 4), FLYT_VERSION_1);
    assert_int_equal(words_at(&words, 5), FLYT_STREAM_SYNC);
    return words_at(&words, 0);
}

/* A good reply to STREAM_SYNC with this result. */
static struct words good_reply(uint32_t xid, uint32_t result)
{
    struct words words = { .count = 0 };
    const uint32_t list[] = { xid, 1, 0, 0, 0, 0, result, 0, 0, 0, 0 };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        words_add(&words, list[i]);
    return words;
}

static void expect_loss(struct client_side *side, struct asked *asked, const char *because)
{
    assert_int_equal(rpc_client_wait(side->client, &asked->call), RPC_CANTRECV);
    assert_true(rpc_client_lost(side->client));
    assert_int_equal(side->losses, 1);
    if (!strstr(side->reason, because))
        fail_msg("\"%s\" does not say \"%s\"", side->reason, because);
    struct rpc_call again = { .procedure = FLYT_CONTEXT_SYNC, .encode = (xdrproc_t)xdr_stream_args,
                              .args = &asked->args };
    assert_int_equal(rpc_client_submit(side->client, &again), RPC_CANTSEND);
    assert_int_equal(side->losses, 1);
}

TEST(good)
{
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = good_reply(ask(side, &asked), 600);
    words_send(side->fd, &reply);
    assert_int_equal(rpc_client_wait(side->client, &asked.call), RPC_SUCCESS);
    assert_int_equal(asked.result.head.result, 600);
    client_side_end(side);
}

TEST(foreign_xid)
{
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = good_reply(ask(side, &asked) + 1, 0);
    words_send(side->fd, &reply);
    expect_loss(side, &asked, "not in flight");
    client_side_end(side);
}

TEST(replayed_reply)
{
    struct client_side *side = client_side(10);
    struct asked first, second;
    struct words reply = good_reply(ask(side, &first), 0);
    ask(side, &second);
    words_send(side->fd, &reply);
    assert_int_equal(rpc_client_wait(side->client, &first.call), RPC_SUCCESS);
    words_send(side->fd, &reply);
    expect_loss(side, &second, "not in flight");
    client_side_end(side);
}

TEST(no_reply_at_all)
{
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = { .count = 0 };
    words_add(&reply, ask(side, &asked));
    words_send(side->fd, &reply);
    expect_loss(side, &asked, "no reply");
    client_side_end(side);
}

TEST(announced_4_gib)
{
    struct client_side *side = client_side(10);
    struct asked asked;
    ask(side, &asked);
    words_send_bytes(side->fd, "\xff\xff\xff\xff", 4);
    expect_loss(side, &asked, "too long");
    client_side_end(side);
}

TEST(half_a_reply)
{
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words reply = good_reply(ask(side, &asked), 0);
    uint32_t mark = htonl(0x80000000u | (uint32_t)(reply.count * 4));
    words_send_bytes(side->fd, &mark, 4);
    words_send_bytes(side->fd, reply.word, reply.count * 2);
    close(side->fd);
    side->fd = -1;
    expect_loss(side, &asked, "closed");
    client_side_end(side);
}

TEST(slow_reply)
{
    struct client_side *side = client_side(10);
    struct asked asked;
    struct words_slow slow = { side->fd, good_reply(ask(side, &asked), 77) };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, words_trickle, &slow), 0);
    assert_int_equal(rpc_client_wait(side->client, &asked.call), RPC_SUCCESS);
    assert_int_equal(asked.result.head.result, 77);
    pthread_join(thread, NULL);
    client_side_end(side);
}

TEST(statuses)
{
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
        words_add(&reply, ask(side, &asked));
        words_add(&reply, 1);
        for (size_t k = 0; k < answers[i].count; k++)
            words_add(&reply, answers[i].words[k]);
        words_send(side->fd, &reply);
        assert_int_equal(rpc_client_wait(side->client, &asked.call), answers[i].status);
    }
    assert_false(rpc_client_lost(side->client));
    client_side_end(side);
}

TEST(silence)
{
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
TEST(deaf)
{
    struct client_side *side = client_side(1);
    assert_int_equal(test_flood(side->client), RPC_CANTSEND);
    assert_int_equal(side->losses, 1);
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

TEST(everybody_is_told)
{
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
    assert_true(words_receive(side->fd, &ignored));
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

TEST(killed_server)
{
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
    context_args context = { .context = 1 };
    plain_result result = { 0 };
    assert_int_equal(flyt_context_sync_1(&context, &result, stub_of(client)), RPC_SUCCESS);
    context.context = TEST_DIE;
    assert_int_equal(flyt_context_sync_1(&context, &result, stub_of(client)), RPC_CANTRECV);
    assert_int_equal(flyt_context_sync_1(&context, &result, stub_of(client)), RPC_CANTSEND);
    assert_int_equal(waitpid(child, NULL, 0), child);
    rpc_client_destroy(client);
}

/* A child gives the connection up; the parent's goes on, and ends when the parent ends it, not before. */
TEST_ON(forked, "tcp", "tls", "shm")
{
    rpc_channel *channels[2];
    rpc_client *client;
    test_channels(*state, channels);
    struct service *service = service_start(channels[1]);
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 10, NULL, NULL, &client, NULL), 0);
    context_args context = { .context = 5 };
    plain_result result = { 0 };
    assert_int_equal(flyt_context_sync_1(&context, &result, stub_of(client)), RPC_SUCCESS);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rpc_client_abandon(client);
        bool refused = flyt_context_sync_1(&context, &result, stub_of(client)) == RPC_CANTSEND;
        _exit(refused && rpc_client_lost(client) ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(flyt_context_sync_1(&context, &result, stub_of(client)), RPC_SUCCESS);
    rpc_client_destroy(client);
    service_join(service);
}

int main(void) { return unit_run(NULL, NULL); }
