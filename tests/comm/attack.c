/*
 * attack.c: what somebody on the network, or a peer that breaks the rules, can do to a link.
 *
 * shows: attacks: a link's channel refuses wrong, foreign and late keys, and silent callers hold up nobody
 * shows: attacks: a link's peer that sends nonsense or reads nothing ends the link, and nothing else
 */
#include "tests/comm/ends.h"
#include "tests/lib/unit.h"

#include "cpu/comm/link/handle.h"
#include "cpu/comm/link/record.h"
#include "cpu/common/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT = 3, LIMIT_MS = 60000 };

static const struct comm_settings settings = { .interfaces = "lo", .no_shared_memory = true, .channels = COUNT - 1 };
static uint8_t handles[COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
static char error[RPC_ERROR_SIZE];

static uint64_t in_ms(unsigned ms) { return clock_now() + ms * CLOCK_NS_PER_MS; }

static struct comm_handle handle_of(unsigned channel)
{
    struct comm_handle h;
    assert_true(comm_handle_get(handles + (size_t)channel * COMM_HANDLE_SIZE, &h));
    return h;
}

static int raw_connection(const struct comm_handle *h)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(h->address.port) };
    memcpy(&to.sin_addr, h->address.bytes, 4);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Calls a channel with this key, as a link does. */
static int call(const struct comm_handle *h, const uint8_t key[COMM_KEY_SIZE], rpc_channel **out)
{
    uint8_t about[COMM_ABOUT_SIZE] = { 0 };
    rpc_channel *channel;
    memcpy(about, h->link, COMM_ID_SIZE);
    about[COMM_ID_SIZE] = h->channel;
    about[COMM_ID_SIZE + 1] = h->channels;
    assert_int_equal(rpc_channel_from_fd(raw_connection(h), &channel, error), 0);
    int status = comm_greet_call(channel, "FlytLink", about, key, in_ms(10000));
    if (status == 0 && out)
        *out = channel;
    else
        rpc_channel_destroy(channel);
    return status;
}

/* The victim, which waits to be called. */
static void open_victim(struct end *end)
{
    unsigned count;
    end_open(end, &settings);
    assert_int_equal(comm_link_listen(end->link, handles, &count, error), 0);
    assert_int_equal(count, COUNT);
}

/* Joins the victim to a peer that this test plays: whose id is the largest, so that it calls. */
static void play(struct end *end, rpc_channel *wires[COUNT])
{
    uint8_t mine[COUNT * COMM_HANDLE_SIZE];
    for (unsigned i = 0; i < COUNT; i++) {
        struct comm_handle h = { .channel = (uint8_t)i, .channels = COUNT, .address = { .family = 4, .port = 9 } };
        struct comm_handle theirs = handle_of(i);
        memset(h.link, 0xff, sizeof h.link);
        comm_handle_put(mine + (size_t)i * COMM_HANDLE_SIZE, &h);
        assert_int_equal(call(&theirs, theirs.key, &wires[i]), 0);
    }
    assert_int_equal(comm_link_join(end->link, mine, COUNT, in_ms(10000), error), 0);
}

static void stop_playing(struct end *end, rpc_channel *wires[COUNT])
{
    for (unsigned i = 0; i < COUNT; i++)
        rpc_channel_destroy(wires[i]);
    end_close(end);
}

static void say(rpc_channel *wire, struct comm_record record, size_t body)
{
    static uint8_t bytes[RECORD_SIZE + COMM_CHUNK];
    comm_record_put(bytes, &record);
    assert_int_equal(comm_send_all(wire, bytes, RECORD_SIZE + body, in_ms(10000)), 0);
}

TEST(a_wrong_key_is_refused_and_the_right_one_still_welcome)
{
    struct end end;
    rpc_channel *wires[COUNT];
    open_victim(&end);
    struct comm_handle h = handle_of(1);
    uint8_t wrong[COMM_KEY_SIZE];
    memcpy(wrong, h.key, sizeof wrong);
    wrong[0] ^= 1;
    assert_int_equal(call(&h, wrong, NULL), -EACCES);
    struct comm_handle other = handle_of(2);
    assert_int_equal(call(&h, other.key, NULL), -EACCES);       /* a key is for one channel only */
    h.link[0] ^= 1;
    assert_int_equal(call(&h, h.key, NULL), -EACCES);           /* no such link */
    play(&end, wires);
    stop_playing(&end, wires);
}

TEST(a_channel_that_is_connected_takes_nobody_else)
{
    struct end end;
    rpc_channel *wires[COUNT];
    open_victim(&end);
    play(&end, wires);
    struct comm_handle h = handle_of(1);
    assert_int_equal(call(&h, h.key, NULL), -EACCES);
    assert_int_equal(comm_link_status(end.link), 0);
    stop_playing(&end, wires);
}

TEST(callers_that_say_nothing_hold_up_nobody)
{
    struct end end;
    rpc_channel *wires[COUNT];
    int silent[40];
    open_victim(&end);
    struct comm_handle h = handle_of(0);
    for (int i = 0; i < 40; i++)
        silent[i] = raw_connection(&h);
    uint64_t begin = clock_now();
    play(&end, wires);
    assert_true(clock_now() - begin < 4 * CLOCK_NS_PER_SECOND);         /* theirs is 5 s */
    for (int i = 0; i < 40; i++)
        close(silent[i]);
    stop_playing(&end, wires);
}

static const struct { const char *what; unsigned channel; struct comm_record record; size_t body; } wrongs[] = {
    { "no record", 0, { .kind = 99 }, 0 },
    { "data on channel 0", 0, { .kind = RECORD_DATA, .flags = RECORD_EARLY }, 0 },
    { "control on a data channel", 1, { .kind = RECORD_CLEAR }, 0 },
    { "data that nobody wants", 1, { .kind = RECORD_DATA, .length = 8, .total = 8 }, 8 },
    { "early data that is cut", 1, { .kind = RECORD_DATA, .flags = RECORD_EARLY, .length = 8, .total = 100 }, 8 },
    { "data behind the end", 1, { .kind = RECORD_DATA, .flags = RECORD_EARLY, .length = 9, .total = 8 }, 0 },
    { "a chunk that is too long", 1, { .kind = RECORD_DATA, .length = COMM_CHUNK + 1, .total = 1 << 30 }, 0 },
    { "credit that was not owed", 0, { .kind = RECORD_CREDIT, .channel = 1, .length = 1 }, 0 },
    { "credit for no channel", 0, { .kind = RECORD_CREDIT, .channel = 15, .length = 1 }, 0 },
};

TEST(a_record_that_breaks_the_rules_ends_the_link)
{
    for (unsigned i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        struct end end;
        rpc_channel *wires[COUNT];
        open_victim(&end);
        play(&end, wires);
        say(wires[wrongs[i].channel], wrongs[i].record, wrongs[i].body);
        int status = end_wait_lost(&end, LIMIT_MS);
        if (status != -EPROTO)
            fail_msg("%s: %d", wrongs[i].what, status);
        stop_playing(&end, wires);
    }
}

TEST(a_record_outside_of_the_memory_is_not_written)
{
    struct end end;
    struct waited receive;
    rpc_channel *wires[COUNT];
    static uint8_t memory[3 * COMM_CHUNK];
    memset(memory, 0xee, sizeof memory);
    open_victim(&end);
    play(&end, wires);
    assert_int_equal(waited_receive(end.link, &receive, 1, 1, memory + COMM_CHUNK, COMM_CHUNK), 0);
    say(wires[1], (struct comm_record){ .kind = RECORD_DATA, .name = { 1, 1 }, .length = COMM_CHUNK,
                                        .offset = COMM_CHUNK, .total = 2 * COMM_CHUNK }, COMM_CHUNK);
    assert_int_equal(waited_wait(&receive, LIMIT_MS), -EMSGSIZE);
    for (size_t i = 0; i < sizeof memory; i++)
        assert_int_equal(memory[i], 0xee);
    stop_playing(&end, wires);
}

TEST(early_data_without_end_is_refused_at_the_bound)
{
    struct end end;
    rpc_channel *wires[COUNT];
    unsigned sent = 0;
    open_victim(&end);
    play(&end, wires);
    while (comm_link_status(end.link) == 0 && sent < 100) {
        uint8_t head[RECORD_SIZE];
        static uint8_t body[COMM_EAGER];
        comm_record_put(head, &(struct comm_record){ .kind = RECORD_DATA, .flags = RECORD_EARLY, .length = COMM_EAGER,
                                                     .name = { 3, sent }, .total = COMM_EAGER });
        if (comm_send_all(wires[1 + sent % 2], head, sizeof head, in_ms(5000)) < 0 ||
            comm_send_all(wires[1 + sent % 2], body, sizeof body, in_ms(5000)) < 0)
            break;
        sent++;
    }
    assert_true(sent >= COMM_EARLY / COMM_EAGER);
    assert_int_equal(end_wait_lost(&end, LIMIT_MS), -EPROTO);
    stop_playing(&end, wires);
}

TEST(a_peer_that_reads_nothing_and_says_nothing_is_given_up)
{
    struct end end;
    struct waited sends[4];
    rpc_channel *wires[COUNT];
    static uint8_t large[64 * COMM_CHUNK];
    open_victim(&end);
    play(&end, wires);
    for (unsigned i = 0; i < 4; i++)
        assert_true(waited_send(end.link, &sends[i], 1, i, large, sizeof large) >= 0);
    uint64_t begin = clock_now();
    assert_int_equal(end_wait_lost(&end, LIMIT_MS), -ETIMEDOUT);
    assert_true(clock_now() - begin < 4 * CLOCK_NS_PER_SECOND);         /* FLYT_SILENCE is 2 s */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(waited_wait(&sends[i], LIMIT_MS), -ETIMEDOUT);
    stop_playing(&end, wires);
}

int main(void)
{
    setenv("FLYT_SILENCE", "2", 1);
    return unit_run(NULL, NULL);
}
