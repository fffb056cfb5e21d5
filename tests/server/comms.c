/*
 * comms.c: communicators of GPU servers, spoken by hand: their collectives and messages. One-sided operations are in
 * comms_sided.c, and what goes wrong in comms_wrong.c.
 *
 * shows: collectives: each collective and every type on device memory, between GPUs of one server and of two, in the
 *   order of streams, in and out of place
 * shows: collectives: messages of one group between GPUs; streams and communicators do not wait for each other
 * shows: collectives: a server says how many operations of a communicator are under way
 */
#include "tests/server/ranked.h"

static void messages(int rank, flyt_comm_message *list, u_int count)
{
    comm_messages_args args = { stream_of[rank], COMM + (uint32_t)rank, { count, list } };
    sent(flyt_comm_messages_1(&args, NULL, peer_of(rank)->stub));
}

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

int main(int argc, char **argv)
{
    (void)argc;
    linked_prepare(argv);
    return unit_run(NULL, NULL);
}
