/*
 * comms_sided.c: puts of communicators of GPU servers, and the windows that they go into, spoken by hand.
 *
 * shows: one-sided operations: puts between GPUs of one server and of two, in the order of streams; a window is
 *   removed when nothing comes into it
 * shows: attacks: wrong memory, ranks, windows and puts of communicators are refused
 */
#include "tests/server/ranked.h"

#include "cpu/comm/sided.h"

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
        links_down();
    }
    end();
}

int main(int argc, char **argv)
{
    (void)argc;
    linked_prepare(argv);
    return unit_run(NULL, NULL);
}
