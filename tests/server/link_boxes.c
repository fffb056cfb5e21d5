/*
 * link_boxes.c: boxes over links, as the copies of a program with several GPU servers send them.
 *
 * shows: links: boxes with gaps between their rows go from GPU to GPU, with and without page-locked memory in between;
 *   the receiver is answered when they are in their place, nothing is latched where the link is lost, and wrong boxes
 *   are refused
 * shows: links: a transfer through page-locked memory that is over waits for no other one of its context
 */
#include <stdlib.h>

#include "tests/server/linking.h"

enum { WIDTH = 96, ROWS = 40, SLICES = 3, PITCH = 256, HEIGHT = 64, OTHER = 128 };

static void send_box(uint64_t offset, uint64_t pitch, const flyt_extent *extent, uint64_t transfer)
{
    send_box_args args = { 0, LINK, { peers[0].base + offset, pitch, HEIGHT }, *extent, transfer };
    enum clnt_stat status = flyt_send_box_1(&args, NULL, peers[0].stub);
    assert_true(status == RPC_SUCCESS || status == RPC_TIMEDOUT);
}

static int receive_box(uint64_t offset, uint64_t pitch, const flyt_extent *extent, uint64_t transfer)
{
    receive_box_args args = { 0, LINK, { peers[1].base + offset, pitch, HEIGHT }, *extent, transfer };
    plain_result result = { { 0 } };
    assert_int_equal(flyt_receive_box_1(&args, &result, peers[1].stub), RPC_SUCCESS);
    assert_int_equal(result.head.latched, 0);
    int code = result.head.result;
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    return code;
}

static uint8_t byte_of(unsigned x, unsigned y, unsigned z) { return (uint8_t)(1 + x * 3 + y * 7 + z * 31); }

static void fill(void)
{
    uint8_t *bytes = calloc(1, MIB);
    for (unsigned z = 0; z < SLICES; z++)
        for (unsigned y = 0; y < ROWS; y++)
            for (unsigned x = 0; x < WIDTH; x++)
                bytes[(z * HEIGHT + y) * PITCH + x] = byte_of(x, y, z);
    peer_copy_in(&peers[0], 0, peers[0].base, bytes, MIB);
    assert_int_equal(peer_context_sync(&peers[0]), 0);
    free(bytes);
}

static void boxes(void)
{
    const flyt_extent box = { WIDTH, ROWS, SLICES }, line = { 4 * MIB + 5, 1, 1 };
    uint8_t *back = malloc(MIB);
    begin();
    both_linked(LINK);
    fill();
    peer_set(&peers[1], 0, peers[1].base, MIB, 0, 1);
    send_box(0, PITCH, &box, 1);
    assert_int_equal(receive_box(0, OTHER, &box, 1), 0);
    assert_int_equal(peer_copy_out(&peers[1], 0, back, peers[1].base, MIB), 0);
    for (unsigned at = 0; at < SLICES * HEIGHT * OTHER; at++) {
        unsigned x = at % OTHER, y = at / OTHER % HEIGHT, z = at / OTHER / HEIGHT;
        assert_int_equal(back[at], x < WIDTH && y < ROWS ? byte_of(x, y, z) : 0);
    }
    /* A line needs no registered memory either. */
    assert_int_equal(link_memory(0, 0, memory_size, 0), 0);
    assert_int_equal(link_memory(1, 0, memory_size, 0), 0);
    peer_set(&peers[0], 0, peers[0].base, line.width, 77, 1);
    send_box(0, 0, &line, 2);
    assert_int_equal(receive_box(MIB, 0, &line, 2), 0);
    assert_int_equal(word_at(1, 5 * MIB) & 0xff, 77);
    free(back);
    end();
}

TEST(boxes_and_lines) { boxes(); }

TEST(boxes_and_lines_staged)
{
    setenv("FLYT_PERF", "no_host_view", 1);
    boxes();
    unsetenv("FLYT_PERF");
}

TEST(wrong_boxes)
{
    static const flyt_extent wrong[] = { { 0, 1, 1 },      { WIDTH, 0, 1 },         { UINT64_MAX, 2, 2 },
                                         { WIDTH, ROWS, UINT64_MAX / WIDTH }, { (uint64_t)300 << 20, 1, 1 } };
    const flyt_extent box = { WIDTH, ROWS, 1 };
    char why[FLYT_MAX_SHORT];
    for (unsigned i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        const bool whole = i < sizeof wrong / sizeof *wrong;
        begin();
        both_linked(LINK);
        /* The last one reaches beyond the program's memory. */
        assert_int_equal(receive_box(whole ? 0 : memory_size - PITCH, PITCH, whole ? &wrong[i] : &box, 1), INVALID);
        wait_for_end(0, LINK, 5, why);
        send_box(0, PITCH, &box, 1);      /* the link has gone: that is an error of nobody's */
        assert_int_equal(synchronise(0, 0), 0);
        assert_true(goes_on(0) && goes_on(1));
        end();
    }
}

TEST(the_sender_goes)
{
    const flyt_extent box = { WIDTH, ROWS, 1 };
    begin();
    both_linked(LINK);
    link_close(0, LINK, "no more");
    assert_int_equal(receive_box(0, PITCH, &box, 1), UNAVAILABLE);
    assert_int_equal(synchronise(1, 0), 0);
    assert_true(goes_on(0) && goes_on(1));
    end();
}

/* The driver frees page-locked memory when all streams of its context have come to an end. */
TEST(staged_ones_do_not_wait_for_each_other)
{
    setenv("FLYT_PERF", "no_host_view", 1);
    begin();
    both_linked(LINK);
    for (int i = 0; i < 2; i++)
        for (uint32_t s = 0; s < 2; s++)
            peer_stream_create(&peers[i], STREAM + s, 1);
    receive_on(LINK, STREAM + 1, MIB, MIB, 2);
    send_on(LINK, STREAM, 0, MIB, 1);
    receive_on(LINK, STREAM, 0, MIB, 1);
    assert_int_equal(synchronise(1, STREAM), 0);
    assert_int_equal(synchronise(0, STREAM), 0);
    assert_true(goes_on(0));
    send_on(LINK, STREAM + 1, MIB, MIB, 2);
    assert_int_equal(synchronise(1, STREAM + 1), 0);
    end();
    unsetenv("FLYT_PERF");
}

int main(int argc, char **argv)
{
    (void)argc;
    linked_prepare(argv);
    return unit_run(NULL, NULL);
}
