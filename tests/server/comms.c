/*
 * comms.c: communicators of GPU servers, spoken by hand. The test is the client of all ranks: two sessions, of two
 * servers with two GPUs each. Ranks 0 and 1 are contexts of the first session, rank 2 is of the second one.
 *
 * shows: collectives: each collective and every type on device memory, between GPUs of one server and of two, in the
 *   order of streams, in and out of place
 * shows: collectives: messages of one group between GPUs; streams and communicators do not wait for each other
 * shows: collectives: an operation that is refused, an abort, a context that ends and a killed worker are an error on
 *   every rank within a second, and their programs go on
 * shows: one-sided operations: puts between GPUs of one server and of two, in the order of streams; a window is
 *   removed when nothing comes into it
 * shows: collectives: a server says how many operations of a communicator are under way
 * shows: attacks: closed communicators whose operations wait do not add up without end
 * shows: attacks: wrong memory, counts, ranks, links, streams and windows of communicators are refused
 */
#include "tests/server/linked.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu/comm/plan/plan.h"
#include "cpu/comm/reduce/reduce.h"
#include "cpu/comm/sided.h"
#include "cpu/common/clock.h"

enum { RANKS = 3, TCP = 1, WORDS = 300000, COMM = 5, STREAM = FLYT_FIRST_STREAM, LINK = 1 };
enum { INVALID = 1, NO_MEMORY = 2, UNAVAILABLE = 46, HANDLE = 400, FORBIDDEN = 800 };
#define AREA ((uint64_t)WORDS * 4 * RANKS)

static struct server servers[2];
static struct peer peers[2];
/* Of each rank: its session, its context there, its stream, its memory: `in`, and `out` behind it. */
static const int session_of[RANKS] = { 0, 0, 1 };
static const uint32_t context_of[RANKS] = { 0, 1, 0 }, stream_of[RANKS] = { STREAM, STREAM + 1, STREAM };
static uint64_t in[RANKS], out[RANKS];

static struct peer *peer_of(int rank) { return &peers[session_of[rank]]; }

static void sent(enum clnt_stat status) { assert_true(status == RPC_SUCCESS || status == RPC_TIMEDOUT); }

/* ---- the ranks ---- */

static void link_ranks(uint32_t first)
{
    /* rank 0 and 2: link `first` of both; rank 1 and 2: the next one */
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct link_handles handles[2];
        for (int i = 0; i < 2; i++)
            assert_int_equal(linked_listen(&peers[i], first + rank, &handles[i]), 0);
        struct linked_end ends[2] = {
            { &peers[0], first + rank, servers[1].uri[TCP], &handles[1], 8000, .channels = 0 },
            { &peers[1], first + rank, servers[0].uri[TCP], &handles[0], 8000, .channels = 0 }
        };
        linked_join(ends);
        if (ends[0].code || ends[1].code)
            fail_msg("joining: %d %s, %d %s", ends[0].code, ends[0].why, ends[1].code, ends[1].why);
    }
}

static char create_why[FLYT_MAX_SHORT];

static int comm_create(struct peer *peer, uint32_t comm, uint32_t context, uint32_t rank, uint32_t *links, u_int ranks,
                       char place)
{
    comm_create_args args = { .comm = comm, .context = context, .rank = rank, .links = { ranks, links } };
    comm_create_result result;
    memset(args.place, place, sizeof args.place);
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_comm_create_1(&args, &result, peer->stub);
    assert_int_equal(status, RPC_SUCCESS);
    snprintf(create_why, sizeof create_why, "%s", result.why);
    return peer_took(peer, status, (xdrproc_t)xdr_comm_create_result, &result);
}

/* Rank r is communicator id + r of its session. */
static void comm_up(uint32_t id, uint32_t first_link)
{
    const uint32_t near = FLYT_COMM_NEAR;
    uint32_t links[RANKS][RANKS] = { { near, near, first_link },
                                     { near, near, first_link + 1 },
                                     { first_link, first_link + 1, near } };
    link_ranks(first_link);
    for (uint32_t r = 0; r < RANKS; r++)
        if (comm_create(peer_of((int)r), id + r, context_of[r], r, links[r], RANKS, (char)id))
            fail_msg("rank %u: %s", r, create_why);
}

static void begin(void)
{
    static const char *const more[] = { "--links", "tcp://127.0.0.1:*", NULL };
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    for (int i = 0; i < 2; i++) {
        server_start(&servers[i], "software", more);
        peer_connect(&peers[i], servers[i].uri[TCP]);
        peer_hello(&peers[i]);
        assert_true(peers[i].hello.capabilities & FLYT_CAP_COLLECTIVES);
    }
    assert_int_equal(PLAIN(&peers[0], context_retain, context_retain_args, { 1, 1 }), 0);
    for (int r = 0; r < RANKS; r++) {
        struct peer *peer = peer_of(r);
        uint64_t size = (2 * AREA / peer->granule + 1) * peer->granule;
        in[r] = peer->base + context_of[r] * size;
        out[r] = in[r] + AREA;
        map_args map = { .context = context_of[r], .address = in[r], .size = size };
        map_result mapped;
        memset(&mapped, 0, sizeof mapped);
        assert_int_equal(peer_took(peer, flyt_map_1(&map, &mapped, peer->stub), (xdrproc_t)xdr_map_result, &mapped), 0);
        stream_create_args stream = { stream_of[r], context_of[r], 1, 0 };
        sent(flyt_stream_create_1(&stream, NULL, peer->stub));
    }
    comm_up(COMM, LINK);
}

static void end(void)
{
    for (int i = 0; i < 2; i++) {
        peer_close(&peers[i]);
        server_stop(&servers[i], SIGTERM);
    }
}

/* ---- the calls ---- */

static void op(int rank, comm_op_args args)
{
    args.comm = args.comm ? args.comm : COMM + (uint32_t)rank;
    args.stream = args.stream ? args.stream : stream_of[rank];
    args.in = args.in ? args.in : in[rank];
    args.out = args.out ? args.out : out[rank];
    sent(flyt_comm_op_1(&args, NULL, peer_of(rank)->stub));
}

static void op_all(comm_op_args args)
{
    for (int r = 0; r < RANKS; r++)
        op(r, args);
}

static void messages(int rank, flyt_comm_message *list, u_int count)
{
    comm_messages_args args = { stream_of[rank], COMM + (uint32_t)rank, { count, list } };
    sent(flyt_comm_messages_1(&args, NULL, peer_of(rank)->stub));
}

/* A put, a signal (size 0), or a wait for `size` signals. */
static void sided(int rank, int waits, flyt_comm_sided *list, u_int count)
{
    comm_sided_args args = { stream_of[rank], COMM + (uint32_t)rank, waits, { count, list } };
    sent(flyt_comm_sided_1(&args, NULL, peer_of(rank)->stub));
}

static int window_add(int rank, uint32_t comm, uint64_t address, uint64_t size, uint32_t *number)
{
    comm_window_args args = { comm, address, size };
    comm_window_result result;
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_comm_window_1(&args, &result, peer_of(rank)->stub);
    *number = result.window;
    return peer_took(peer_of(rank), status, (xdrproc_t)xdr_comm_window_result, &result);
}

/* A result code; *ready: all ranks have one, of `size` bytes each. */
static int window_status(int rank, uint32_t number, bool *ready, uint64_t size)
{
    comm_window_status_args args = { COMM + (uint32_t)rank, number };
    comm_window_status_result result;
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_comm_window_status_1(&args, &result, peer_of(rank)->stub);
    *ready = result.ready;
    assert_int_equal(result.sizes.sizes_len, *ready ? RANKS : 0);
    for (unsigned r = 0; *ready && r < RANKS; r++)
        assert_int_equal(result.sizes.sizes_val[r], size);
    return peer_took(peer_of(rank), status, (xdrproc_t)xdr_comm_window_status_result, &result);
}

static int window_remove(int rank, uint32_t number)
{
    return PLAIN(peer_of(rank), comm_window_remove, comm_window_remove_args, { COMM + (uint32_t)rank, number });
}

/* The output of each rank, when all have registered it. */
static void windows_up(uint32_t number)
{
    for (int r = 0; r < RANKS; r++) {
        uint32_t mine;
        bool ready = true;
        assert_int_equal(window_add(r, COMM + (uint32_t)r, out[r], AREA, &mine), 0);
        assert_int_equal(mine, number);
        assert_int_equal(window_status(0, number, &ready, AREA), 0);
        assert_true(!ready || r == RANKS - 1);
    }
    for (int r = 0; r < RANKS; r++) {
        bool ready = false;
        while (!ready)
            assert_int_equal(window_status(r, number, &ready, AREA), 0);
    }
}

static int latched[2]; /* by session: what an answer of COMM_STATUS has delivered */

static int comm_status(int rank, char why[FLYT_MAX_SHORT])
{
    comm_status_args args = { COMM + (uint32_t)rank };
    comm_status_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_comm_status_1(&args, &result, peer_of(rank)->stub), RPC_SUCCESS);
    int status = result.head.result ? -result.head.result : result.status;
    latched[session_of[rank]] = result.head.latched ? result.head.latched : latched[session_of[rank]];
    snprintf(why, FLYT_MAX_SHORT, "%s", result.why);
    xdr_free((xdrproc_t)xdr_comm_status_result, &result);
    return status;
}

static void comm_close(int rank, uint32_t comm, const char *why)
{
    comm_close_args args = { comm + (uint32_t)rank, (char *)(uintptr_t)why };
    sent(flyt_comm_close_1(&args, NULL, peer_of(rank)->stub));
}

/* What the rank's stream has latched by its end. */
static int synchronise(int rank)
{
    int r = peer_stream_sync(peer_of(rank), stream_of[rank]);
    int earlier = latched[session_of[rank]];
    latched[session_of[rank]] = 0;
    return r ? r : peer_of(rank)->last.latched ? peer_of(rank)->last.latched : earlier;
}

static void all_good(void)
{
    char why[FLYT_MAX_SHORT];
    for (int r = 0; r < RANKS; r++) {
        int code = synchronise(r);
        if (code)
            fail_msg("rank %d: %d (%d %s)", r, code, comm_status(r, why), why);
    }
}

static int32_t value(int rank, unsigned i) { return (int32_t)(rank * 1000 + (int)(i % 977)); }

static void fill(unsigned words)
{
    int32_t *bytes = malloc((size_t)words * 4);
    for (int r = 0; r < RANKS; r++) {
        for (unsigned i = 0; i < words; i++)
            bytes[i] = value(r, i);
        for (unsigned at = 0; at < words; at += 200000) {
            unsigned part = words - at < 200000 ? words - at : 200000;
            peer_copy_in(peer_of(r), stream_of[r], in[r] + at * 4ul, bytes + at, part * 4);
        }
        peer_set(peer_of(r), stream_of[r], out[r], WORDS * RANKS, 0xeeeeeeee, 4);
    }
    free(bytes);
}

static int32_t *words_at(int rank, uint64_t address, unsigned words)
{
    static int32_t back[WORDS * RANKS];
    for (unsigned at = 0; at < words; at += 200000) {
        unsigned part = words - at < 200000 ? words - at : 200000;
        assert_int_equal(peer_copy_out(peer_of(rank), stream_of[rank], back + at, address + at * 4ul, part * 4ul), 0);
    }
    return back;
}

static int32_t sum(unsigned i) { return value(0, i) + value(1, i) + value(2, i); }

/* ---- what works ---- */

static void check_kind(enum comm_kind kind, unsigned count, unsigned root)
{
    fill(count * RANKS);
    op_all((comm_op_args){ .kind = (int)kind, .type = COMM_INT32, .count = count, .root = root });
    all_good();
    for (int r = 0; r < RANKS; r++) {
        bool parts = kind == COMM_GATHER || kind == COMM_ALL_GATHER || kind == COMM_ALL_TO_ALL;
        bool none = (kind == COMM_REDUCE || kind == COMM_GATHER) && (unsigned)r != root;
        unsigned words = none ? 0 : parts ? count * RANKS : count, mine = (unsigned)r * count;
        const int32_t *got = words_at(r, out[r], words + 1);
        for (unsigned i = 0; i < words; i++) {
            int32_t want = kind == COMM_BROADCAST                           ? value((int)root, i)
                           : kind == COMM_REDUCE || kind == COMM_ALL_REDUCE ? sum(i)
                           : kind == COMM_GATHER || kind == COMM_ALL_GATHER ? value((int)(i / count), i % count)
                           : kind == COMM_SCATTER                           ? value((int)root, mine + i)
                           : kind == COMM_REDUCE_SCATTER                    ? sum(mine + i)
                                                                            : value((int)(i / count), mine + i % count);
            if (got[i] != want)
                fail_msg("%s of %u, rank %d, element %u: %d, not %d", comm_kind_name(kind), count, r, i, got[i], want);
        }
        assert_int_equal(got[words], (int32_t)0xeeeeeeee);
    }
}

TEST(each_collective)
{
    begin();
    for (enum comm_kind kind = COMM_BROADCAST; kind < COMM_KINDS; kind++) {
        check_kind(kind, 1, 1);
        check_kind(kind, 3000, 2);
        check_kind(kind, WORDS - 1, (unsigned)kind % RANKS);
    }
    op_all((comm_op_args){ .kind = COMM_BARRIER });
    all_good();
    end();
}

TEST(in_place_and_every_type)
{
    begin();
    fill(300);
    for (int r = 0; r < RANKS; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 300, .out = in[r] });
    all_good();
    assert_int_equal(words_at(2, in[2], 300)[299], sum(299));
    fill(300);
    for (int r = 0; r < RANKS; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_GATHER,
                              .type = COMM_INT32,
                              .count = 100,
                              .in = in[r] + (unsigned)r * 400,
                              .out = in[r] });
    all_good();
    assert_int_equal(words_at(0, in[0], 300)[299], value(2, 299));
    fill(300);
    for (int r = 0; r < RANKS; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_TO_ALL, .type = COMM_INT32, .count = 100, .out = in[r] });
    all_good();
    for (int r = 0; r < RANKS; r++)
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(words_at(r, in[r], 300)[i], value((int)(i / 100), (unsigned)r * 100 + i % 100));
    for (int type = 0; type < COMM_TYPES; type++)
        for (int operation = 0; operation < COMM_OPERATIONS; operation++) {
            /* sums of zeros, with the factor once in the call and once on the device */
            for (int r = 0; r < RANKS; r++) {
                peer_set(peer_of(r), stream_of[r], in[r], 64, 0, 1);
                op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE,
                                      .type = type,
                                      .operation = operation,
                                      .count = 5,
                                      .factor_at = operation == COMM_MULTIPLIED_SUM && type % 2 ? in[r] : 0 });
            }
            all_good();
            assert_int_equal(words_at(1, out[1], 1)[0], 0);
        }
    end();
}

TEST(in_the_order_of_streams)
{
    begin();
    enum { ROUNDS = 60, COUNT = 50000 };
    for (unsigned i = 1; i <= ROUNDS; i++) {
        for (int r = 0; r < RANKS; r++)
            peer_set(peer_of(r), stream_of[r], in[r], COUNT, i * 10 + (unsigned)r, 4);
        op_all((comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = COUNT });
        for (int r = 0; r < RANKS; r++)
            peer_set(peer_of(r), stream_of[r], in[r], COUNT, 0, 4); /* behind it: is not seen */
        if (i % 20)
            continue;
        for (int r = 0; r < RANKS; r++)
            for (unsigned k = 0; k < COUNT; k += 4999)
                assert_int_equal(words_at(r, out[r], COUNT)[k], (int)(i * 30 + 3));
    }
    all_good();
    end();
}

/* Rank 0 calls the second communicator first, the others the first one: neither waits for the other. */
TEST(two_communicators_in_any_order)
{
    begin();
    comm_up(COMM + 10, LINK + 2);
    uint32_t others[RANKS] = { STREAM + 5, STREAM + 6, STREAM + 5 };
    for (int r = 0; r < RANKS; r++) {
        stream_create_args stream = { others[r], context_of[r], 1, 0 };
        sent(flyt_stream_create_1(&stream, NULL, peer_of(r)->stub));
    }
    fill(1000);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(peer_stream_sync(peer_of(r), stream_of[r]), 0);
    for (int r = 0; r < RANKS; r++)
        for (int turn = 0; turn < 2; turn++) {
            bool second = (turn == 0) == (r == 0);
            op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE,
                                  .type = COMM_INT32,
                                  .count = 1000,
                                  .comm = second ? COMM + 10 + (uint32_t)r : 0,
                                  .stream = second ? others[r] : 0,
                                  .out = second ? out[r] + 8000 : 0 });
        }
    all_good();
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(peer_stream_sync(peer_of(r), others[r]), 0);
        assert_int_equal(words_at(r, out[r], 3000)[999], sum(999));
        assert_int_equal(words_at(r, out[r], 3000)[2999], sum(999));
        comm_close(r, COMM + 10, "");
    }
    check_kind(COMM_ALL_REDUCE, 100, 0);
    end();
}

TEST(messages_of_a_group)
{
    begin();
    for (unsigned turn = 0; turn < 3; turn++) {
        unsigned count = turn == 0 ? 1 : turn == 1 ? 100 : 100000;
        fill(3 * count);
        for (int r = 0; r < RANKS; r++) {
            flyt_comm_message list[2 * RANKS];
            for (unsigned i = 0; i < RANKS; i++) {
                uint64_t at = (uint64_t)i * count * 4;
                list[i] = (flyt_comm_message){ 1, i, in[r] + at, count * 4ul };
                list[RANKS + i] = (flyt_comm_message){ 0, i, out[r] + at, count * 4ul };
            }
            messages(r, list, 2 * RANKS);
        }
        all_good();
        for (int r = 0; r < RANKS; r++) {
            const int32_t *got = words_at(r, out[r], 3 * count);
            for (unsigned i = 0; i < 3 * count; i++)
                assert_int_equal(got[i], value((int)(i / count), (unsigned)r * count + i % count));
        }
    }
    end();
}

/* ---- what goes wrong ---- */

/* All ranks have ended within a second, and say why. */
static void all_end(const char *named)
{
    uint64_t until = clock_now() + CLOCK_NS_PER_SECOND;
    char why[FLYT_MAX_SHORT];
    for (int r = 0; r < RANKS; r++) {
        while (comm_status(r, why) == 0 && clock_now() < until)
            usleep(2000);
        if (comm_status(r, why) <= 0 || !strstr(why, named))
            fail_msg("rank %d: %d %s", r, comm_status(r, why), why);
    }
}

static bool goes_on(int rank)
{
    peer_set(peer_of(rank), stream_of[rank], in[rank], 1, 0x1234567, 4);
    return words_at(rank, in[rank], 1)[0] == 0x1234567;
}

TEST(wrong_calls_end_the_communicator_and_nothing_else)
{
    static const comm_op_args wrong[] = {
        { .kind = COMM_KINDS },
        { .kind = -1 },
        { .kind = COMM_ALL_REDUCE, .type = COMM_TYPES, .count = 1 },
        { .kind = COMM_ALL_REDUCE, .operation = COMM_OPERATIONS, .count = 1 },
        { .kind = COMM_BROADCAST, .root = RANKS, .count = 1 },
        { .kind = COMM_ALL_REDUCE, .count = UINT64_MAX },
        { .kind = COMM_ALL_REDUCE, .count = UINT64_MAX / 8, .type = COMM_INT64 },
        { .kind = COMM_ALL_REDUCE, .count = UINT64_C(1) << 40 },
        { .kind = COMM_ALL_REDUCE, .count = 1, .in = 4096 },
        { .kind = COMM_ALL_REDUCE, .count = 1, .out = UINT64_MAX - 1 },
        { .kind = COMM_ALL_REDUCE, .count = 1, .operation = COMM_MULTIPLIED_SUM, .factor_at = 64 },
        { .kind = COMM_ALL_REDUCE, .count = 1, .stream = STREAM + 1 }, /* the other GPU's */
        { .kind = COMM_ALL_REDUCE, .count = 1, .stream = STREAM + 77 },
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (i == 0)
            begin();
        else
            comm_up(COMM, LINK);
        fill(100);
        for (int r = 1; r < RANKS; r++)
            op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
        op(0, wrong[i]);
        all_end("rank 0");
        assert_int_equal(synchronise(2), UNAVAILABLE);
        for (int r = 0; r < RANKS; r++) {
            synchronise(r);
            comm_close(r, COMM, "");
            assert_true(goes_on(r));
        }
        for (uint32_t l = 0; l < 2; l++)
            for (int s = 0; s < 2; s++) {
                link_close_args args = { LINK + l, (char *)(uintptr_t) "" };
                sent(flyt_link_close_1(&args, NULL, peers[s].stub));
            }
    }
    end();
}

/* ---- puts ---- */

TEST(puts_go_into_the_windows_of_all_ranks)
{
    begin();
    windows_up(1);
    for (unsigned words = 1; words <= WORDS; words = words * 500 + 1) {
        fill(words < 1000 ? 1000 : words);
        all_good();
        for (int r = 0; r < RANKS; r++) {
            flyt_comm_sided puts[RANKS], waits[RANKS];
            for (uint32_t p = 0; p < RANKS; p++) {
                puts[p] = (flyt_comm_sided){ p, 1, (uint64_t)r * WORDS * 4, in[r], words * 4ul };
                waits[p] = (flyt_comm_sided){ .peer = p, .size = 2 };
            }
            sided(r, 0, puts, RANKS);
            for (uint32_t p = 0; p < RANKS; p++)
                puts[p] = (flyt_comm_sided){ .peer = p };
            sided(r, 0, puts, RANKS);
            sided(r, 1, waits, RANKS);
        }
        all_good();
        for (int r = 0; r < RANKS; r++) {
            const int32_t *got = words_at(r, out[r], WORDS * RANKS);
            for (unsigned i = 0; i < WORDS * RANKS; i++) {
                const int32_t want = i % WORDS < words ? value((int)(i / WORDS), i % WORDS) : (int32_t)0xeeeeeeee;
                if (got[i] != want)
                    fail_msg("%u words, rank %d, word %u: %d, not %d", words, r, i, got[i], want);
            }
        }
    }
    for (int r = 0; r < RANKS; r++) {
        bool ready;
        assert_int_equal(window_remove(r, 1), 0);
        assert_int_equal(window_remove(r, 1), INVALID);
        assert_int_equal(window_status(r, 1, &ready, AREA), INVALID);
    }
    windows_up(2);
    end();
}

TEST(wrong_windows_are_refused)
{
    uint32_t number;
    bool ready;
    begin();
    assert_int_equal(window_add(0, 99, out[0], 64, &number), HANDLE);
    assert_int_equal(window_add(0, COMM, out[0], 0, &number), INVALID);
    assert_int_equal(window_add(0, COMM, 0, 64, &number), INVALID);
    assert_int_equal(window_add(0, COMM, 4096, 64, &number), INVALID);
    assert_int_equal(window_add(0, COMM, out[0], UINT64_MAX, &number), INVALID);
    assert_int_equal(window_add(0, COMM, peers[0].base + (UINT64_C(1) << 36), 64, &number), INVALID);
    assert_int_equal(window_status(0, 1, &ready, 0), INVALID);
    assert_int_equal(window_remove(0, 1), INVALID);
    assert_int_equal(window_add(0, COMM, out[0], AREA, &number), 0);
    for (int r = 1; r < RANKS; r++)
        assert_int_equal(window_add(r, COMM + (uint32_t)r, out[r], AREA, &number), 0);
    while (!ready)
        assert_int_equal(window_status(0, 1, &ready, AREA), 0);
    assert_int_equal(window_add(0, COMM, out[0], AREA, &number), 0);
    int removed; /* the others never register theirs */
    while ((removed = window_remove(0, number)) == 600)
        usleep(100);
    assert_int_equal(removed, 0);
    assert_int_equal(window_remove(0, number), INVALID);
    assert_int_equal(window_status(0, number, &ready, 0), INVALID);
    /* a communicator of the other session, which has no such id */
    comm_window_args foreign = { COMM, out[2], 64 };
    comm_window_result result;
    memset(&result, 0, sizeof result);
    enum clnt_stat status = flyt_comm_window_1(&foreign, &result, peers[1].stub);
    assert_int_equal(peer_took(&peers[1], status, (xdrproc_t)xdr_comm_window_result, &result), HANDLE);
    assert_int_equal(PLAIN(&peers[1], comm_window_remove, comm_window_remove_args, { COMM, 1 }), HANDLE);
    for (unsigned n = 2; n < COMM_WINDOWS_MOST; n++) /* the one that was removed counts until all have heard of it */
        assert_int_equal(window_add(0, COMM, out[0], 64, &number), 0);
    assert_int_equal(window_add(0, COMM, out[0], 64, &number), NO_MEMORY);
    assert_int_equal(window_remove(0, 1), 0);
    assert_int_equal(window_add(0, COMM, out[0], 64, &number), 0);
    comm_close(0, COMM, "");
    assert_int_equal(window_add(0, COMM, out[0], 64, &number), HANDLE);
    assert_int_equal(window_remove(0, 2), HANDLE);
    assert_true(goes_on(0) && goes_on(2));
    end();
}

TEST(wrong_puts_end_the_communicator_and_nothing_else)
{
    static const struct { int waits; flyt_comm_sided one; } wrong[] = {
        { 0, { .peer = RANKS } },
        { 0, { .peer = 2, .window = 2, .size = 4 } },
        { 0, { .peer = 2, .window = 1, .size = 4, .offset = AREA } },
        { 0, { .peer = 2, .window = 1, .size = 4, .offset = UINT64_MAX - 1 } },
        { 0, { .peer = 0, .window = 1, .size = 4, .offset = AREA - 3 } },
        { 0, { .peer = 2, .window = 1, .size = UINT64_MAX } },
        { 0, { .peer = 2, .window = 1, .size = 4, .address = 4096 } },
        { 1, { .peer = RANKS, .size = 1 } },
        { 1, { .peer = 1, .size = 0 } },
        { 1, { .peer = 1, .size = UINT64_MAX } },
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        flyt_comm_sided one = wrong[i].one, wait = { .peer = 0, .size = 1 };
        if (i == 0)
            begin();
        else
            comm_up(COMM, LINK);
        fill(100);
        windows_up(1);
        one.address = one.address ? one.address : in[0];
        for (int r = 1; r < RANKS; r++)
            sided(r, 1, &wait, 1);
        sided(0, wrong[i].waits, &one, 1);
        all_end("rank 0");
        for (int r = 0; r < RANKS; r++) {
            synchronise(r);
            comm_close(r, COMM, "");
            assert_true(goes_on(r));
            const int32_t *got = words_at(r, out[r], WORDS * RANKS);
            for (unsigned w = 0; w < WORDS * RANKS; w++)
                assert_int_equal(got[w], (int32_t)0xeeeeeeee);
        }
        for (uint32_t l = 0; l < 2; l++)
            for (int s = 0; s < 2; s++) {
                link_close_args args = { LINK + l, (char *)(uintptr_t) "" };
                sent(flyt_link_close_1(&args, NULL, peers[s].stub));
            }
    }
    end();
}

/* Its owner's program may name no transfer on it; the communicator notices nothing. */
TEST(a_link_of_a_communicator_is_its_own)
{
    begin();
    fill(100);
    send_args send = { stream_of[0], LINK, in[0], 64, 1 };
    sent(flyt_send_1(&send, NULL, peer_of(0)->stub));
    assert_int_equal(synchronise(0), FORBIDDEN);
    receive_args receive = { stream_of[2], LINK, in[2], 64, 1 };
    sent(flyt_receive_1(&receive, NULL, peer_of(2)->stub));
    assert_int_equal(synchronise(2), FORBIDDEN);
    op_all((comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    all_good();
    assert_int_equal(words_at(1, out[1], 100)[99], sum(99));
    end();
}

TEST(calls_that_differ_are_named)
{
    begin();
    fill(100);
    op(0, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    op(1, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    op(2, (comm_op_args){ .kind = COMM_BROADCAST, .type = COMM_INT32, .count = 100, .root = 2 });
    all_end("broadcast of 100 int32, root 2");
    end();
}

TEST(a_rank_that_does_not_call_is_named_when_the_time_is_over)
{
    setenv("FLYT_COMM_TIMEOUT", "1", 1);
    begin();
    unsetenv("FLYT_COMM_TIMEOUT");
    fill(100);
    for (int r = 0; r < 2; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    usleep(800000);
    all_end("expected from rank");
    end();
}

static int pending(int rank)
{
    comm_pending_args args = { COMM + (uint32_t)rank };
    comm_pending_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_comm_pending_1(&args, &result, peer_of(rank)->stub), RPC_SUCCESS);
    return result.head.result ? -result.head.result : (int)result.operations;
}

TEST(what_is_under_way_is_counted)
{
    begin();
    fill(100);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pending(r), 0);
    for (int turn = 0; turn < 2; turn++)
        for (int r = 0; r < 2; r++)
            op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    usleep(50000);
    assert_true(pending(0) == 2 && pending(1) == 2 && pending(2) == 0);
    for (int turn = 0; turn < 2; turn++)
        op(2, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    all_good();
    for (int r = 0; r < RANKS; r++) {
        for (uint64_t until = clock_now() + CLOCK_NS_PER_SECOND; pending(r) && clock_now() < until;)
            usleep(1000);
        assert_int_equal(pending(r), 0);
        comm_close(r, COMM, "");
        assert_int_equal(pending(r), -HANDLE);
    }
    end();
}

TEST(an_abort_is_local_and_at_once)
{
    begin();
    fill(100);
    for (int r = 0; r < 2; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    uint64_t before = clock_now();
    comm_close(0, COMM, "enough");
    assert_int_equal(peer_stream_sync(peer_of(0), stream_of[0]), 0);
    assert_true(clock_now() - before < CLOCK_NS_PER_SECOND / 2);
    char why[FLYT_MAX_SHORT];
    while (comm_status(2, why) == 0)
        usleep(1000);
    assert_true(clock_now() - before < CLOCK_NS_PER_SECOND);
    assert_non_null(strstr(why, "enough"));
    op(2, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    assert_int_equal(synchronise(2), UNAVAILABLE);
    assert_true(goes_on(0) && goes_on(1) && goes_on(2));
    assert_int_equal(comm_status(0, why), -HANDLE);
    end();
}

TEST(a_context_that_ends)
{
    begin();
    fill(100);
    for (int r = 0; r < 2; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    assert_int_equal(PLAIN(&peers[0], context_reset, context_args, { 1 }), 0);
    all_end("context has ended");
    assert_true(goes_on(0) && goes_on(2));
    end();
}

/* Rank 1 calls two operations of one communicator. The first one waits in its stream for another communicator; the
   second one's turn has come, in another stream. */
TEST(a_context_that_ends_with_an_operation_before_its_turn)
{
    begin();
    comm_up(COMM + 10, LINK + 2);
    for (uint32_t id = STREAM + 6; id < STREAM + 8; id++) {
        stream_create_args stream = { id, context_of[1], 1, 0 };
        sent(flyt_stream_create_1(&stream, NULL, peer_of(1)->stub));
    }
    const comm_op_args call = { .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 };
    comm_op_args other = call, free_stream = call;
    other.comm = COMM + 11;
    free_stream.stream = STREAM + 6;
    op(1, other);
    op(1, call);
    op(1, free_stream);
    for (int i = 0; i < 10; i++) { /* so that the server has seen that the second one's turn has come */
        int32_t word;
        assert_int_equal(peer_copy_out(peer_of(1), STREAM + 7, &word, in[1], sizeof word), 0);
    }
    assert_int_equal(PLAIN(&peers[0], context_reset, context_args, { 1 }), 0);
    all_end("context has ended");
    assert_true(goes_on(0) && goes_on(2));
    end();
}

TEST(a_killed_worker)
{
    begin();
    fill(100);
    for (int r = 0; r < 2; r++)
        op(r, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 100 });
    int pids[8];
    int count = server_children(&servers[1], pids, 8);
    uint64_t before = clock_now();
    for (int i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
    for (int r = 0; r < 2; r++)
        assert_int_equal(synchronise(r) == UNAVAILABLE || r == 1, true); /* latched once for the session */
    assert_true(clock_now() - before < CLOCK_NS_PER_SECOND);
    char why[FLYT_MAX_SHORT];
    assert_true(comm_status(0, why) > 0 && comm_status(1, why) > 0);
    assert_non_null(strstr(why, "rank 2"));
    assert_true(goes_on(0) && goes_on(1));
    end();
}

TEST(wrong_communicators)
{
    begin();
    uint32_t links[RANKS] = { FLYT_COMM_NEAR, FLYT_COMM_NEAR, FLYT_COMM_NEAR };
    assert_int_equal(comm_create(&peers[0], COMM, 0, 0, links, 1, 'x'), INVALID); /* the id is taken */
    assert_int_equal(comm_create(&peers[0], FLYT_MAX_COMMS, 0, 0, links, 1, 'x'), INVALID);
    assert_int_equal(comm_create(&peers[0], 40, 9, 0, links, 1, 'x'), INVALID); /* no such context */
    assert_int_equal(comm_create(&peers[0], 40, 0, 1, links, 1, 'x'), INVALID);
    assert_int_equal(comm_create(&peers[0], 40, 0, 0, links, 0, 'x'), INVALID);
    links[1] = 77;
    assert_int_equal(comm_create(&peers[0], 40, 0, 0, links, 2, 'x'), INVALID); /* no such link */
    links[1] = LINK;
    assert_int_equal(comm_create(&peers[0], 40, 0, 0, links, 2, 'x'), INVALID); /* another one's */
    assert_non_null(strstr(create_why, "another communicator"));
    links[1] = FLYT_COMM_NEAR;
    assert_int_equal(comm_create(&peers[0], 40, 0, 0, links, 3, 'x'), 0);
    assert_int_equal(comm_create(&peers[0], 41, 0, 1, links, 2, 'x'), INVALID); /* the place has three */
    assert_int_not_equal(comm_create(&peers[0], 41, 0, 0, links, 3, 'x'), 0);   /* rank 0 is there */
    /* a rank alone, whose operations need nobody */
    assert_int_equal(comm_create(&peers[0], 42, 0, 0, links, 1, 'y'), 0);
    fill(10);
    op(0, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 10, .comm = 42 });
    assert_int_equal(synchronise(0), 0);
    assert_int_equal(words_at(0, out[0], 10)[9], value(0, 9));
    end();
}

/* A rank whose operation waits for the place's third one, which never comes; closed, so that its id is free. */
static int waiting(unsigned i)
{
    uint32_t links[3] = { FLYT_COMM_NEAR, FLYT_COMM_NEAR, FLYT_COMM_NEAR };
    int code = comm_create(&peers[0], 40, 0, i % 2, links, 3, (char)(100 + i / 2));
    if (code)
        return code;
    op(0, (comm_op_args){ .kind = COMM_ALL_REDUCE, .type = COMM_INT32, .count = 1, .comm = 40 });
    comm_close(0, 40, "");
    return 0;
}

TEST(closed_communicators_that_wait_are_counted)
{
    begin();
    for (unsigned i = 0; i < FLYT_MAX_COMMS; i++)
        assert_int_equal(waiting(i), 0);
    assert_int_equal(waiting(0), 2);
    assert_non_null(strstr(create_why, "closed ones wait"));
    assert_int_equal(PLAIN(&peers[0], context_reset, context_args, { 0 }), 0);
    uint64_t until = clock_now() + CLOCK_NS_PER_SECOND;
    uint32_t links[1] = { FLYT_COMM_NEAR };
    while (comm_create(&peers[0], 40, 1, 0, links, 1, 'x') && clock_now() < until)
        usleep(1000);
    assert_int_equal(comm_create(&peers[0], 41, 1, 0, links, 1, 'y'), 0);
    end();
}

TEST(a_program_with_communicators_does_not_move)
{
    begin();
    movable_args args = { ~0u };
    movable_result result;
    memset(&result, 0, sizeof result);
    assert_int_equal(flyt_movable_1(&args, &result, peers[0].stub), RPC_SUCCESS);
    assert_non_null(strstr(result.refusal, "communicator"));
    xdr_free((xdrproc_t)xdr_movable_result, &result);
    end();
}

/* The loader looks for libflyt-tls.so where this said at the start of the process. */
int main(int argc, char **argv)
{
    (void)argc;
    if (!getenv("COMMS_AGAIN")) {
        setenv("COMMS_AGAIN", "1", 1);
        setenv("LD_LIBRARY_PATH", COMMS_LIBRARIES, 1);
        execv("/proc/self/exe", argv);
    }
    setenv("FLYT_SILENCE", "2", 1);
    return unit_run(NULL, NULL);
}
