/*
 * link.c: links of several channels, both ends in this process or one in a child.
 *
 * shows: communication: a link moves transfers of every size over TCP, TLS and shared memory, in any order of posting
 * shows: communication: early data is bounded, and never in the way of a transfer that is wanted
 * shows: communication: a link by UCX does all that links over sockets do, over UCX's TCP and its shared memory
 * shows: communication: a link's failure ends all its transfers: abort, a killed peer, a stopped peer, other sizes
 */
#include "tests/comm/ends.h"
#include "tests/lib/unit.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_MS = 60000 };

/* With FLYT_TEST_UCX all are links by UCX, of as many channels. */
static struct comm_settings kinds[] = {
    { .interfaces = "lo", .no_shared_memory = true },
    { .interfaces = "lo", .no_shared_memory = true, .tls = true },
    { .interfaces = "lo" },
    { .interfaces = "lo", .no_shared_memory = true, .channels = 1 },
    { .interfaces = "lo", .channels = 16 },
};
static const char *transports[] = { "tcp", "tls", "shm", "tcp", "shm" };
enum { KINDS = sizeof kinds / sizeof *kinds };

static void fill(uint8_t *bytes, size_t size, unsigned seed)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < size; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(x >> 56);
    }
}

static const size_t sizes[] = { 0, 1, 63, 4096, COMM_EAGER - 1, COMM_EAGER, COMM_EAGER + 1, COMM_CHUNK - 1, COMM_CHUNK,
                                COMM_CHUNK + 1, 5 * COMM_CHUNK - 1, 5 * COMM_CHUNK + 1, 20 * COMM_CHUNK + 77 };
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 20 * COMM_CHUNK + 77 };

TEST(every_size_arrives_in_both_directions_over_every_transport)
{
    uint8_t *from = malloc(LARGEST + 1), *to[2] = { malloc(LARGEST + 1), malloc(LARGEST + 1) };
    fill(from, LARGEST + 1, 1);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct ends ends;
        ends_open(&ends, &kinds[kind]);
        assert_string_equal(comm_link_transport(ends.a.link), transports[kind]);
        assert_int_equal(comm_link_channels(ends.a.link), kinds[kind].channels ? kinds[kind].channels : 8);
        for (unsigned i = 0; i < SIZES; i++) {
            struct waited send[2], receive[2];
            memset(to[0], 0xee, LARGEST + 1);
            memset(to[1], 0xee, LARGEST + 1);
            uint64_t number = comm_link_number(ends.a.link);
            assert_int_equal(number, i + 1);
            assert_int_equal(comm_link_number(ends.b.link), i + 1);
            bool late = i % 2;                  /* the receive comes after the send */
            for (int turn = 0; turn < 2; turn++) {
                if ((turn == 0) == late) {
                    assert_true(waited_send(ends.a.link, &send[0], 0, number, from, sizes[i]) >= 0);
                    assert_true(waited_send(ends.b.link, &send[1], 0, number, from + 1, sizes[i]) >= 0);
                } else {
                    assert_true(waited_receive(ends.b.link, &receive[0], 0, number, to[0], sizes[i]) >= 0);
                    assert_true(waited_receive(ends.a.link, &receive[1], 0, number, to[1], sizes[i]) >= 0);
                }
            }
            for (int d = 0; d < 2; d++) {
                assert_int_equal(waited_wait(&receive[d], LIMIT_MS), 0);
                assert_int_equal(waited_wait(&send[d], LIMIT_MS), 0);
                assert_memory_equal(to[d], from + d, sizes[i]);
                assert_int_equal(to[d][sizes[i]], 0xee);
                assert_int_equal(receive[d].t.peer_size, sizes[i]);
                assert_memory_equal(receive[d].t.peer_note, send[d].t.note, COMM_NOTE_SIZE);
            }
        }
        ends_close(&ends);
    }
    free(from);
    free(to[0]);
    free(to[1]);
}

TEST(listening_again_gives_the_same_handles)
{
    uint8_t first[COMM_HANDLES_MOST * COMM_HANDLE_SIZE], second[sizeof first];
    unsigned counts[2];
    char error[RPC_ERROR_SIZE];
    struct end end;
    end_open(&end, &kinds[0]);
    assert_int_equal(comm_link_listen(end.link, first, &counts[0], error), 0);
    assert_int_equal(comm_link_listen(end.link, second, &counts[1], error), 0);
    assert_int_equal(counts[0], 9);
    assert_int_equal(counts[1], 9);
    assert_memory_equal(first, second, 9 * COMM_HANDLE_SIZE);
    /* joining itself, or nonsense, is refused */
    assert_int_equal(comm_link_join(end.link, first, 9, clock_now() + CLOCK_NS_PER_SECOND, error), -EINVAL);
    first[0] ^= 1;
    assert_int_equal(comm_link_join(end.link, first, 9, clock_now() + CLOCK_NS_PER_SECOND, error), -EINVAL);
    end_close(&end);
}

TEST(many_transfers_in_any_order_of_posting)
{
    enum { MANY = 400, MOST = 90000 };
    static struct waited sends[MANY], receives[MANY];
    static uint8_t from[MANY][MOST], to[MANY][MOST];
    unsigned seed = 20261126;
    for (unsigned kind = 0; kind < 3; kind++) {
        struct ends ends;
        unsigned order[MANY], lengths[MANY];
        ends_open(&ends, &kinds[kind]);
        for (unsigned i = 0; i < MANY; i++) {
            order[i] = i;
            lengths[i] = (unsigned)rand_r(&seed) % (i % 3 ? 300 : MOST);
            fill(from[i], lengths[i], i);
        }
        /* all sends first in one order, then all receives in another one: the early bound is reached */
        for (unsigned i = 0; i < MANY; i++)
            assert_true(waited_send(ends.a.link, &sends[i], 7, i, from[i], lengths[i]) >= 0);
        for (unsigned i = MANY; i-- > 1;) {
            unsigned j = (unsigned)rand_r(&seed) % (i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (unsigned i = 0; i < MANY; i++)
            assert_true(waited_receive(ends.b.link, &receives[order[i]], 7, order[i], to[order[i]],
                                       lengths[order[i]]) >= 0);
        for (unsigned i = 0; i < MANY; i++) {
            assert_int_equal(waited_wait(&receives[i], LIMIT_MS), 0);
            assert_int_equal(waited_wait(&sends[i], LIMIT_MS), 0);
            assert_memory_equal(from[i], to[i], lengths[i]);
        }
        ends_close(&ends);
    }
}

TEST(early_data_stops_at_its_bound_and_wanted_transfers_pass)
{
    enum { UNWANTED = 64, SIZE = 60000, LARGE = 4 * COMM_CHUNK };
    static struct waited unwanted[UNWANTED], late[UNWANTED], wanted[2];
    static uint8_t small[SIZE], to[SIZE], large[LARGE], large_to[LARGE];
    struct ends ends;
    fill(large, LARGE, 3);
    fill(small, SIZE, 4);
    ends_open(&ends, &kinds[0]);
    for (unsigned i = 0; i < UNWANTED; i++)     /* 3.8 MB that nobody wants */
        assert_true(waited_send(ends.a.link, &unwanted[i], 1, i, small, SIZE) >= 0);
    for (int i = 0; i < 3; i++) {
        assert_true(waited_receive(ends.b.link, &wanted[1], 2, (unsigned)i, large_to, LARGE) >= 0);
        assert_true(waited_send(ends.a.link, &wanted[0], 2, (unsigned)i, large, LARGE) >= 0);
        assert_int_equal(waited_wait(&wanted[1], LIMIT_MS), 0);
        assert_int_equal(waited_wait(&wanted[0], LIMIT_MS), 0);
        assert_memory_equal(large, large_to, LARGE);
    }
    unsigned complete = 0;
    for (unsigned i = 0; i < UNWANTED; i++)
        complete += waited_wait(&unwanted[i], 0) == 0;
    assert_true(complete <= COMM_EARLY / SIZE); /* the others wait: nothing keeps them */
    for (unsigned i = 0; i < UNWANTED; i++) {
        memset(to, 0, SIZE);
        assert_true(waited_receive(ends.b.link, &late[i], 1, i, to, SIZE) >= 0);
        assert_int_equal(waited_wait(&late[i], LIMIT_MS), 0);
        assert_memory_equal(small, to, SIZE);
        assert_int_equal(waited_wait(&unwanted[i], LIMIT_MS), 0);
    }
    ends_close(&ends);
}

TEST(a_receive_of_another_size_fails_on_both_sides_and_the_link_goes_on)
{
    static uint8_t from[3 * COMM_CHUNK], to[3 * COMM_CHUNK];
    static const size_t pairs[][2] = { { 10, 11 }, { 3 * COMM_CHUNK, COMM_CHUNK }, { COMM_EAGER, 2 * COMM_CHUNK } };
    struct ends ends;
    struct waited send, receive;
    ends_open(&ends, &kinds[0]);
    for (unsigned i = 0; i < 6; i++) {
        const size_t *pair = pairs[i / 2];
        if (i % 2) {
            assert_true(waited_receive(ends.b.link, &receive, 0, i, to, pair[1]) >= 0);
            assert_true(waited_send(ends.a.link, &send, 0, i, from, pair[0]) >= 0);
        } else {
            assert_true(waited_send(ends.a.link, &send, 0, i, from, pair[0]) >= 0);
            assert_true(waited_receive(ends.b.link, &receive, 0, i, to, pair[1]) >= 0);
        }
        assert_int_equal(waited_wait(&receive, LIMIT_MS), -EMSGSIZE);
        assert_int_equal(receive.t.peer_size, pair[0]);
        int status = waited_wait(&send, LIMIT_MS);
        assert_true(status == -EMSGSIZE || (pair[0] <= COMM_EAGER && status == 0));
    }
    fill(from, sizeof from, 5);
    assert_true(waited_send(ends.a.link, &send, 0, 99, from, sizeof from) >= 0);
    assert_true(waited_receive(ends.b.link, &receive, 0, 99, to, sizeof to) >= 0);
    assert_int_equal(waited_wait(&receive, LIMIT_MS), 0);
    assert_int_equal(waited_wait(&send, LIMIT_MS), 0);
    assert_memory_equal(from, to, sizeof to);
    ends_close(&ends);
}

TEST(a_receive_of_any_size_takes_what_comes)
{
    static uint8_t from[3 * COMM_CHUNK], to[4 * COMM_CHUNK];
    struct ends ends;
    struct waited send, receive;
    ends_open(&ends, &kinds[2]);
    fill(from, sizeof from, 6);
    for (unsigned i = 0; i < 6; i++) {
        size_t size = i < 2 ? 0 : i < 4 ? 1000 : sizeof from;
        for (int turn = 0; turn < 2; turn++) {
            if ((unsigned)turn == i % 2) {
                assert_true(waited_send(ends.a.link, &send, 9, i, from, size) >= 0);
            } else {
                assert_true(waited_receive_any(ends.b.link, &receive, 9, i, to, sizeof to) >= 0);
            }
        }
        assert_int_equal(waited_wait(&receive, LIMIT_MS), 0);
        assert_int_equal(waited_wait(&send, LIMIT_MS), 0);
        assert_int_equal(receive.t.peer_size, size);
        assert_memory_equal(from, to, size);
    }
    ends_close(&ends);
}

TEST(the_same_name_twice_is_refused_and_unregistered_memory_too)
{
    struct comm_settings settings = kinds[0];
    struct ends ends;
    struct waited first, second;
    static uint8_t bytes[3 * 4096 + 10];
    settings.registered_only = true;
    ends_open(&ends, &settings);
    assert_int_equal(waited_receive(ends.a.link, &first, 0, 1, bytes, 100), -EFAULT);
    assert_int_equal(comm_engine_register(ends.a.engine, bytes, sizeof bytes), 0);
    assert_int_equal(comm_engine_register(ends.a.engine, bytes, sizeof bytes), 0);
    assert_int_equal(comm_engine_unregister(ends.a.engine, bytes, sizeof bytes), 0);
    assert_int_equal(waited_receive(ends.a.link, &first, 0, 1, bytes, sizeof bytes), 0);
    assert_int_equal(waited_receive(ends.a.link, &second, 0, 1, bytes, 100), -EEXIST);
    assert_int_equal(waited_receive(ends.a.link, &second, 0, 2, bytes, sizeof bytes + 2 * 4096), -EFAULT);
    assert_int_equal(comm_engine_unregister(ends.a.engine, bytes, sizeof bytes), 0);
    assert_int_equal(comm_engine_unregister(ends.a.engine, bytes, sizeof bytes), -ENOENT);
    assert_int_equal(waited_receive(ends.a.link, &second, 0, 2, bytes, 100), -EFAULT);
    ends_close(&ends);
    assert_int_equal(waited_wait(&first, 0), -ECANCELED);       /* complete before the end is gone */
}

/* ---- failure ---- */

TEST(abort_is_immediate_here_and_says_why_there)
{
    static uint8_t large[40 * COMM_CHUNK], to[40 * COMM_CHUNK];
    for (unsigned kind = 0; kind < 3; kind++) {
        struct ends ends;
        struct waited never, send, receive;
        ends_open(&ends, &kinds[kind]);
        assert_int_equal(waited_receive(ends.a.link, &never, 5, 1, to, 10), 0);
        assert_true(waited_send(ends.a.link, &send, 5, 2, large, sizeof large) >= 0);
        assert_true(waited_receive(ends.b.link, &receive, 5, 2, to, sizeof to) >= 0);
        uint64_t begin = clock_now();
        comm_link_abort(ends.a.link, -EINTR, "the operator wanted it");
        assert_true(clock_now() - begin < CLOCK_NS_PER_SECOND / 2);
        assert_int_equal(waited_wait(&never, LIMIT_MS), -EINTR);
        int status = waited_wait(&send, LIMIT_MS);
        assert_true(status == -EINTR || status == 0);
        assert_int_equal(end_wait_lost(&ends.b, LIMIT_MS), -EINTR);
        assert_string_equal(ends.b.why, "the operator wanted it");
        assert_true(waited_wait(&receive, LIMIT_MS) <= 0);
        assert_int_equal(waited_receive(ends.b.link, &receive, 5, 3, to, 10), -EINTR);
        assert_int_equal(ends.a.lost, 0);       /* who aborts knows it */
        ends_close(&ends);
    }
}

TEST(closing_lets_the_peer_read_all_that_was_sent)
{
    static uint8_t from[COMM_EAGER], to[COMM_EAGER];
    fill(from, sizeof from, 8);
    for (unsigned kind = 0; kind < 3; kind++) {
        struct ends ends;
        struct waited send[10], receive;
        ends_open(&ends, &kinds[kind]);
        for (unsigned i = 0; i < 10; i++)
            assert_true(waited_send(ends.a.link, &send[i], 3, i, from, sizeof from) >= 0);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(waited_wait(&send[i], LIMIT_MS), 0);
        end_close(&ends.a);
        assert_int_equal(end_wait_lost(&ends.b, LIMIT_MS), -ESHUTDOWN);
        for (unsigned i = 0; i < 10; i++) {
            memset(to, 0, sizeof to);
            assert_int_equal(waited_receive(ends.b.link, &receive, 3, i, to, sizeof to), 1);
            assert_int_equal(receive.t.status, 0);
            assert_memory_equal(from, to, sizeof to);
        }
        assert_int_equal(waited_receive(ends.b.link, &receive, 3, 10, to, sizeof to), -ESHUTDOWN);
        end_close(&ends.b);
    }
}

/* A child with the other end, which does nothing more. Its pid. */
static pid_t open_with_child(struct end *end, const struct comm_settings *settings)
{
    struct shared {
        uint8_t      handles[2][COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
        unsigned     count[2];
        atomic_int   ready[2];
    } *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char error[RPC_ERROR_SIZE];
    assert_ptr_not_equal(shared, MAP_FAILED);
    pid_t child = fork();
    int side = child == 0;
    end_open(end, settings);
    if (comm_link_listen(end->link, shared->handles[side], &shared->count[side], error) < 0)
        abort();
    atomic_store(&shared->ready[side], 1);
    uint64_t limit = clock_now() + 20 * CLOCK_NS_PER_SECOND;
    while (!atomic_load(&shared->ready[!side]) && clock_now() < limit)
        usleep(500);
    int status = comm_link_join(end->link, shared->handles[!side], shared->count[!side], limit, error);
    if (side) {
        static uint8_t bytes[64 * COMM_CHUNK];
        static struct waited w;
        if (status < 0 || waited_send(end->link, &w, 1, 1, bytes, sizeof bytes) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    if (status < 0)
        fail_msg("%s", error);
    munmap(shared, sizeof *shared);
    return child;
}

static void lose_child(const struct comm_settings *settings, int signal, unsigned limit_ms)
{
    static uint8_t to[64 * COMM_CHUNK];
    struct end end;
    struct waited receives[2];
    pid_t child = open_with_child(&end, settings);
    assert_true(waited_receive(end.link, &receives[0], 1, 2, to, 10) >= 0);
    assert_true(waited_receive(end.link, &receives[1], 1, 3, to, sizeof to) >= 0);
    uint64_t begin = clock_now();
    kill(child, signal);
    int status = end_wait_lost(&end, 30000);
    double ms = (double)(clock_now() - begin) / 1e6;
    assert_true(status < 0);
    if (ms > limit_ms)
        fail_msg("noticed after %.0f ms", ms);
    assert_true(waited_wait(&receives[0], 1000) < 0);
    assert_true(waited_wait(&receives[1], 1000) < 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    end_close(&end);
}

TEST(a_peer_that_is_killed_is_noticed_within_a_second)
{
    for (unsigned kind = 0; kind < 3; kind++)
        lose_child(&kinds[kind], SIGKILL, 1000);
}

TEST(a_peer_that_is_stopped_is_noticed_within_the_silence)
{
    lose_child(&kinds[0], SIGSTOP, 4000);       /* FLYT_SILENCE=2 */
    lose_child(&kinds[2], SIGSTOP, 4000);
}

/* ---- who connects ---- */

struct hand { struct comm_engine *to; unsigned count; };

static int connect_for(void *context, const struct comm_address *to, const struct comm_address *from,
                       uint64_t deadline, char *error)
{
    struct hand *hand = context;
    int pair[2];
    (void)to;
    (void)from;
    (void)deadline;
    (void)error;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return -errno;
    hand->count++;
    /* An end that listens takes it as a connection from the network would come: not as one through memory. */
    int status = comm_engine_adopt(hand->to, pair[1]);
    if (status < 0)
        close(pair[0]);
    return status < 0 ? status : pair[0];
}

struct join_one { struct comm_link *link; const uint8_t *handles; int status; };

static void *join_one_thread(void *context)
{
    struct join_one *one = context;
    one->status = comm_link_join(one->link, one->handles, 9, clock_now() + 20 * CLOCK_NS_PER_SECOND, NULL);
    return NULL;
}

TEST(descriptors_may_come_from_somebody_else)
{
    static uint8_t handles[2][COMM_HANDLES_MOST * COMM_HANDLE_SIZE];
    static uint8_t from[2 * COMM_CHUNK], to[2 * COMM_CHUNK];
    unsigned counts[2];
    char error[RPC_ERROR_SIZE];
    struct hand hands[2] = { { NULL, 0 }, { NULL, 0 } };
    struct end ends[2];
    for (int i = 0; i < 2; i++) {
        struct comm_settings settings = kinds[0];
        settings.connector = (struct comm_connector){ connect_for, &hands[i] };
        end_open(&ends[i], &settings);
        hands[!i].to = ends[i].engine;
        assert_int_equal(comm_link_listen(ends[i].link, handles[i], &counts[i], error), 0);
    }
    pthread_t thread;
    struct join_one one = { ends[0].link, handles[1], 1 };
    assert_int_equal(pthread_create(&thread, NULL, join_one_thread, &one), 0);
    int status = comm_link_join(ends[1].link, handles[0], counts[0], clock_now() + 20 * CLOCK_NS_PER_SECOND, error);
    pthread_join(thread, NULL);
    if (status < 0)
        fail_msg("%s", error);
    assert_int_equal(one.status, 0);
    assert_int_equal(hands[0].count + hands[1].count, 9);
    struct waited send, receive;
    fill(from, sizeof from, 9);
    assert_true(waited_send(ends[0].link, &send, 0, 1, from, sizeof from) >= 0);
    assert_true(waited_receive(ends[1].link, &receive, 0, 1, to, sizeof to) >= 0);
    assert_int_equal(waited_wait(&receive, LIMIT_MS), 0);
    assert_int_equal(waited_wait(&send, LIMIT_MS), 0);
    assert_memory_equal(from, to, sizeof to);
    end_close(&ends[0]);
    end_close(&ends[1]);
}

int main(void)
{
    setenv("FLYT_SILENCE", "2", 1);
    for (unsigned kind = 0; getenv("FLYT_TEST_UCX") && kind < KINDS; kind++) {
        kinds[kind].no_shared_memory = true;
        kinds[kind].transport = kinds[kind].tls ? "ucx-in-clear" : "ucx";
        transports[kind] = "ucx";
    }
    end_need(&kinds[0]);
    return unit_run(NULL, NULL);
}
