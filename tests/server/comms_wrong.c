/*
 * comms_wrong.c: what goes wrong with communicators of GPU servers, spoken by hand: wrong calls, aborts, and ranks that
 * end.
 *
 * shows: collectives: an operation that is refused, an abort, a context that ends and a killed worker are an error on
 *   every rank within a second, and their programs go on
 * shows: attacks: closed communicators whose operations wait do not add up without end
 * shows: attacks: wrong memory, counts, ranks, links and streams of communicators are refused
 */
#include "tests/server/ranked.h"

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
        links_down();
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

int main(int argc, char **argv)
{
    (void)argc;
    linked_prepare(argv);
    return unit_run(NULL, NULL);
}
