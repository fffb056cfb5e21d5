/*
 * ucx.c: links by UCX: who is let in, what a peer that breaks the rules can do, and what is said where UCX does not
 * work.
 *
 * shows: attacks: a stranger who reaches UCX's worker, and a peer that breaks the rules of its messages, harm no link
 * shows: communication: a link by UCX that cannot be made says why on both ends, in seconds, and what to do
 */
#include "tests/comm/ends.h"
#include "tests/lib/unit.h"

#include "cpu/comm/link/link_state.h"
#include "cpu/comm/ucx/ucx_state.h"
#include "cpu/common/clock.h"
#include "cpu/common/little_endian.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT = 3, LIMIT_MS = 60000 };

static const struct comm_settings settings = {
    .interfaces = "lo", .no_shared_memory = true, .channels = COUNT - 1, .transport = "ucx"
};
static uint8_t handles[COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
static char error[RPC_ERROR_SIZE];

static uint64_t in_ms(unsigned ms) { return clock_now() + ms * CLOCK_NS_PER_MS; }

/* ---- a peer that the test plays ---- */

struct player {
    struct comm_ucx *u;
    pthread_t thread;
    atomic_bool over;
    rpc_channel *wires[COUNT];
};

static void *make_progress(void *context)
{
    struct player *p = context;
    bool in, out;
    while (!atomic_load(&p->over)) {
        struct pollfd poller = { .fd = comm_ucx_descriptor(p->u), .events = POLLIN };
        comm_ucx_progress(p->u);
        while (comm_ucx_next(p->u, &in, &out))
            ;
        if (comm_ucx_rest(p->u))
            poll(&poller, 1, 10);
    }
    return NULL;
}

static void player_open(struct player *p)
{
    memset(p, 0, sizeof *p);
    if (comm_ucx_open("lo", &p->u, error) < 0)
        fail_msg("%s", error);
    assert_int_equal(pthread_create(&p->thread, NULL, make_progress, p), 0);
}

static void player_close(struct player *p)
{
    for (unsigned i = 0; i < COUNT; i++)
        rpc_channel_destroy(p->wires[i]);
    atomic_store(&p->over, true);
    pthread_join(p->thread, NULL);
    comm_ucx_close(p->u);
}

static struct comm_handle handle_of(unsigned channel)
{
    struct comm_handle h;
    assert_true(comm_handle_get(handles + (size_t)channel * COMM_HANDLE_SIZE, &h));
    return h;
}

/* Calls a channel with this key, as a link by UCX does, up to where the addresses are exchanged. */
static int call(const struct comm_handle *h, const uint8_t key[COMM_KEY_SIZE], uint8_t way, rpc_channel **out)
{
    uint8_t about[COMM_ABOUT_SIZE] = { 0 };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(h->address.port) };
    rpc_channel *channel;
    memcpy(&to.sin_addr, h->address.bytes, 4);
    memcpy(about, h->link, COMM_ID_SIZE);
    about[COMM_ID_SIZE] = h->channel;
    about[COMM_ID_SIZE + 1] = h->channels;
    about[COMM_ID_SIZE + 2] = way;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(rpc_channel_from_fd(fd, &channel, error), 0);
    int status = comm_greet_call(channel, "FlytLink", about, key, in_ms(10000));
    if (status == 0)
        *out = channel;
    else
        rpc_channel_destroy(channel);
    return status;
}

enum { BY_UCX = 2 };

static void open_victim(struct end *end)
{
    unsigned count;
    end_open(end, &settings);
    assert_int_equal(comm_link_listen(end->link, handles, &count, error), 0);
    assert_int_equal(count, COUNT);
}

/* The handles of the player, whose link's id is the largest, so that it calls. */
static void make_handles(uint8_t mine[COUNT * COMM_HANDLE_SIZE], uint8_t flags)
{
    for (unsigned i = 0; i < COUNT; i++) {
        struct comm_handle h = {
            .flags = flags, .channel = (uint8_t)i, .channels = COUNT, .address = { .family = 4, .port = 9 }
        };
        memset(h.link, 0xff, sizeof h.link);
        comm_handle_put(mine + (size_t)i * COMM_HANDLE_SIZE, &h);
    }
}

static void play(struct end *end, struct player *p)
{
    uint8_t mine[COUNT * COMM_HANDLE_SIZE];
    open_victim(end);
    player_open(p);
    make_handles(mine, HANDLE_UCX);
    for (unsigned i = 0; i < COUNT; i++) {
        struct comm_handle theirs = handle_of(i);
        rpc_channel *socket;
        assert_int_equal(call(&theirs, theirs.key, BY_UCX, &socket), 0);
        if (comm_ucx_join(p->u, socket, in_ms(10000), &p->wires[i], error) < 0)
            fail_msg("%s", error);
    }
    if (comm_link_join(end->link, mine, COUNT, in_ms(10000), error) < 0)
        fail_msg("%s", error);
}

static void stop_playing(struct end *end, struct player *p)
{
    player_close(p);
    end_close(end);
}

static void say(rpc_channel *wire, struct comm_record record, size_t body)
{
    static uint8_t bytes[RECORD_SIZE + COMM_CHUNK];
    uint64_t limit = in_ms(10000);
    comm_record_put(bytes, &record);
    for (size_t done = 0; done < RECORD_SIZE + body;) {
        struct iovec vector = { bytes + done, RECORD_SIZE + body - done };
        ssize_t sent = rpc_channel_send(wire, &vector, 1);
        assert_true((sent > 0 || sent == -EAGAIN) && clock_now() < limit);
        done += sent > 0 ? (size_t)sent : 0;
    }
}

/* ---- who is let in ---- */

TEST(a_wrong_key_is_refused_and_the_right_one_still_welcome)
{
    struct end end;
    struct player p;
    rpc_channel *socket;
    open_victim(&end);
    struct comm_handle h = handle_of(1), other = handle_of(2);
    uint8_t wrong[COMM_KEY_SIZE];
    memcpy(wrong, h.key, sizeof wrong);
    wrong[0] ^= 1;
    assert_int_equal(call(&h, wrong, BY_UCX, &socket), -EACCES);
    assert_int_equal(call(&h, other.key, BY_UCX, &socket), -EACCES);
    assert_int_equal(call(&h, h.key, 0, &socket), -ECONNRESET); /* the right key, but a channel over a socket */
    assert_int_equal(comm_link_status(end.link), 0);
    end_close(&end);
    play(&end, &p);
    stop_playing(&end, &p);
}

static void sent_away(void *request, ucs_status_t status, void *context)
{
    const struct ucx_library *ucx = ucx_library(error);
    (void)status;
    atomic_fetch_sub((atomic_int *)context, 1);
    ucx->ucp_request_free(request);
}

static const uint8_t nothing[UCX_MESSAGE];

/* Sends one message, and waits until it is gone. */
static void send_raw(struct player *p, ucp_ep_h ep, unsigned id, const void *head, size_t head_size, size_t body)
{
    atomic_int left = 1;
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.send = sent_away,
                                        .user_data = &left };
    pthread_mutex_lock(&p->u->lock);
    ucs_status_ptr_t result = p->u->ucx->ucp_am_send_nbx(ep, id, head, head_size, nothing, body, &param);
    ucx_nudge(p->u);
    pthread_mutex_unlock(&p->u->lock);
    assert_false(ucx_is_error(result));
    for (uint64_t limit = in_ms(10000); result && atomic_load(&left) && clock_now() < limit;)
        usleep(500);
    assert_true(!result || atomic_load(&left) == 0);
}

TEST(a_stranger_who_reaches_the_worker_is_not_heard)
{
    struct end end;
    struct player peer, stranger;
    struct waited receive;
    static uint8_t to[1000];
    play(&end, &peer);
    player_open(&stranger);
    const struct comm_ucx *victim = end.engine->threads[0].ucx;
    const ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = victim->address };
    ucp_ep_h ep;
    pthread_mutex_lock(&stranger.u->lock);
    assert_int_equal(stranger.u->ucx->ucp_ep_create(stranger.u->worker, &params, &ep), UCS_OK);
    pthread_mutex_unlock(&stranger.u->lock);
    uint8_t head[UCX_DATA_HEAD + 8] = { 1, 2, 3 };
    static const size_t heads[] = { 0, 1, UCX_TOKEN, UCX_ACK_HEAD, UCX_DATA_HEAD, UCX_DATA_HEAD + 8 };
    static const size_t bodies[] = { 0, 1, 5000, UCX_MESSAGE };
    for (unsigned id = UCX_DATA; id <= UCX_HELLO; id++)
        for (unsigned i = 0; i < sizeof heads / sizeof *heads; i++)
            for (unsigned j = 0; j < sizeof bodies / sizeof *bodies; j++)
                send_raw(&stranger, ep, id, head, heads[i], bodies[j]);
    /* The link goes on. */
    assert_int_equal(waited_receive(end.link, &receive, 1, 1, to, sizeof to), 0);
    say(peer.wires[1], (struct comm_record){ .kind = RECORD_DATA, .flags = RECORD_EARLY, .name = { 1, 1 },
                                             .length = sizeof to, .total = sizeof to }, sizeof to);
    assert_int_equal(waited_wait(&receive, LIMIT_MS), 0);
    assert_int_equal(comm_link_status(end.link), 0);
    player_close(&stranger);
    stop_playing(&end, &peer);
}

/* ---- a peer that has the key ---- */

static const struct { const char *what; unsigned channel; struct comm_record record; size_t body; } wrongs[] = {
    { "no record", 0, { .kind = 99 }, 0 },
    { "data that nobody wants", 1, { .kind = RECORD_DATA, .length = 8, .total = 8 }, 8 },
    { "credit that was not owed", 0, { .kind = RECORD_CREDIT, .channel = 1, .length = 1 }, 0 },
};

TEST(a_record_that_breaks_the_rules_ends_the_link)
{
    for (unsigned i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        struct end end;
        struct player p;
        play(&end, &p);
        say(p.wires[wrongs[i].channel], wrongs[i].record, wrongs[i].body);
        int status = end_wait_lost(&end, LIMIT_MS);
        if (status != -EPROTO)
            fail_msg("%s: %d", wrongs[i].what, status);
        stop_playing(&end, &p);
    }
}

static const struct { const char *what; uint64_t number, begin; size_t size; unsigned times; } outside[] = {
    { "a number behind the window", UCX_MESSAGES, 0, 100, 1 },
    { "a number that was taken", UINT64_MAX, 0, 100, 1 },
    { "a number twice", 1, 0, 100, 2 },
    { "a place behind the ring", 0, UCX_RING, 100, 1 },
    { "a place that is not the next one", 0, 100, 100, 1 },
    { "more than the ring has room for", 0, UCX_RING - 100, 101, 1 },
    { "a place far away", 0, UINT64_MAX - 50, 100, 1 },
    { "a large one behind the ring", 0, UCX_RING - 100, UCX_MESSAGE, 1 },
    { "an empty one", 0, 0, 0, 1 },
};

TEST(a_message_outside_of_its_window_ends_the_link)
{
    for (unsigned i = 0; i < sizeof outside / sizeof *outside; i++) {
        struct end end;
        struct player p;
        uint8_t head[UCX_DATA_HEAD];
        play(&end, &p);
        struct ucx_channel *c = (struct ucx_channel *)p.wires[1];
        memcpy(head, c->theirs, UCX_TOKEN);
        little_put(little_put(head + UCX_TOKEN, outside[i].number, 8), outside[i].begin, 8);
        for (unsigned n = 0; n < outside[i].times; n++)
            send_raw(&p, c->ep, UCX_DATA, head, sizeof head, outside[i].size);
        int status = end_wait_lost(&end, LIMIT_MS);
        if (status != -EPROTO)
            fail_msg("%s: %d", outside[i].what, status);
        stop_playing(&end, &p);
    }
}

TEST(a_peer_that_takes_what_was_not_sent_ends_the_link)
{
    struct end end;
    struct player p;
    uint8_t head[UCX_ACK_HEAD];
    play(&end, &p);
    struct ucx_channel *c = (struct ucx_channel *)p.wires[0];
    memcpy(head, c->theirs, UCX_TOKEN);
    little_put(head + UCX_TOKEN, UINT64_C(1) << 40, 8);
    send_raw(&p, c->ep, UCX_ACK, head, sizeof head, 0);
    assert_int_equal(end_wait_lost(&end, LIMIT_MS), -EPROTO);
    stop_playing(&end, &p);
}

TEST(a_peer_that_reads_nothing_and_says_nothing_is_given_up)
{
    struct end end;
    struct player p;
    struct waited sends[4];
    static uint8_t large[64 * COMM_CHUNK];
    play(&end, &p);
    for (unsigned i = 0; i < 4; i++)
        assert_true(waited_send(end.link, &sends[i], 1, i, large, sizeof large) >= 0);
    uint64_t begin = clock_now();
    assert_int_equal(end_wait_lost(&end, LIMIT_MS), -ETIMEDOUT);
    assert_true(clock_now() - begin < 4 * CLOCK_NS_PER_SECOND); /* FLYT_SILENCE is 2 s */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(waited_wait(&sends[i], LIMIT_MS), -ETIMEDOUT);
    stop_playing(&end, &p);
}

/* ---- what is said where it does not work ---- */

/* Each byte string in place of what comm_ucx_join says first. */
static const struct { const char *what, *why; uint8_t head[32]; } firsts[] = {
    { "another protocol", "of another release", "GET / HTTP/1.0\r\n\r\n" },
    { "another UCX", "install one release", { 'F', 'l', 'y', 't', 'U', 'C', 'X', '1', 99, 1, 0, 0, 16 } },
    { "an address without end", "bytes", { 'F', 'l', 'y', 't', 'U', 'C', 'X', '1', 0, 0, 0, 0, 0, 0, 0, 0x7f } },
};

TEST(an_end_that_says_nonsense_for_an_address_ends_the_link_only)
{
    unsigned version[3];
    ucx_library(error)->ucp_get_version(&version[0], &version[1], &version[2]);
    for (unsigned i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        struct end end;
        rpc_channel *socket;
        uint8_t mine[COUNT * COMM_HANDLE_SIZE], head[32];
        open_victim(&end);
        struct comm_handle h = handle_of(0);
        assert_int_equal(call(&h, h.key, BY_UCX, &socket), 0);
        memcpy(head, firsts[i].head, sizeof head);
        if (i == 2) {
            head[8] = (uint8_t)version[0];
            head[9] = (uint8_t)version[1];
        }
        assert_int_equal(comm_send_all(socket, head, sizeof head, in_ms(5000)), 0);
        make_handles(mine, HANDLE_UCX);
        uint64_t begin = clock_now();
        assert_true(comm_link_join(end.link, mine, COUNT, in_ms(20000), error) < 0);
        assert_true(clock_now() - begin < 5 * CLOCK_NS_PER_SECOND);
        if (!strstr(error, firsts[i].why))
            fail_msg("%s: %s", firsts[i].what, error);
        rpc_channel_destroy(socket);
        end_close(&end);
    }
}

TEST(both_ends_must_want_ucx)
{
    struct end end;
    uint8_t mine[COUNT * COMM_HANDLE_SIZE];
    open_victim(&end);
    make_handles(mine, 0);
    assert_int_equal(comm_link_join(end.link, mine, COUNT, in_ms(1000), error), -EINVAL);
    assert_non_null(strstr(error, "FLYT_LINK_TRANSPORT"));
    end_close(&end);
}

TEST(ucx_with_tls_is_refused_unless_the_user_says_that_he_knows)
{
    struct comm_settings both = settings;
    struct comm_engine *engine = NULL;
    both.tls = true;
    assert_int_equal(comm_engine_create(&both, &engine, error), -EPROTONOSUPPORT);
    assert_non_null(strstr(error, "ucx-in-clear"));
    both.transport = "ucx-in-clear";
    assert_int_equal(comm_engine_create(&both, &engine, error), 0);
    comm_engine_destroy(engine);
    both.transport = "carrier-pigeon";
    assert_int_equal(comm_engine_create(&both, &engine, error), -EINVAL);
    assert_non_null(strstr(error, "carrier-pigeon"));
}

struct join_one { struct comm_link *link; const uint8_t *handles; int status; char why[RPC_ERROR_SIZE]; };

static void *join_thread(void *context)
{
    struct join_one *one = context;
    one->status = comm_link_join(one->link, one->handles, COUNT, in_ms(20000), one->why);
    return NULL;
}

/* Two engines, each with its own UCX_TLS. */
TEST(ends_without_a_common_transport_say_so_at_once)
{
    static uint8_t both[2][COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
    static const char *const wishes[] = { "tcp", "posix" };
    const char *before = getenv("UCX_TLS");
    char kept[64];
    struct end ends[2];
    struct join_one joins[2];
    pthread_t threads[2];
    unsigned count;
    snprintf(kept, sizeof kept, "%s", before ? before : "all");
    for (int i = 0; i < 2; i++) {
        setenv("UCX_TLS", wishes[i], 1);
        end_open(&ends[i], &settings);
        assert_int_equal(comm_link_listen(ends[i].link, both[i], &count, error), 0);
    }
    setenv("UCX_TLS", kept, 1);
    uint64_t begin = clock_now();
    for (int i = 0; i < 2; i++) {
        joins[i] = (struct join_one){ ends[i].link, both[!i], 1, "" };
        assert_int_equal(pthread_create(&threads[i], NULL, join_thread, &joins[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(clock_now() - begin < 5 * CLOCK_NS_PER_SECOND);
    for (int i = 0; i < 2; i++) {
        assert_true(joins[i].status < 0);
        if (!strstr(joins[i].why, "UCX finds no way to the other end"))
            fail_msg("%s", joins[i].why);
        end_close(&ends[i]);
    }
}

static struct sigaction at_begin;       /* of SIGSEGV, when UCX had been loaded */

static void on_signal(int number) { (void)number; }

TEST(the_program_keeps_its_handlers_of_signals)
{
    assert_ptr_equal(at_begin.sa_handler, on_signal);
}

int main(void)
{
    setenv("FLYT_SILENCE", "2", 1);
    signal(SIGSEGV, on_signal);
    end_need(&settings);
    sigaction(SIGSEGV, NULL, &at_begin);
    signal(SIGSEGV, SIG_DFL);
    return unit_run(NULL, NULL);
}
