/*
 * Which programs should move, by itself.
 * shows: policies: room for the first in the queue is made by the moves of the fewest bytes, each of which fits while
 *   all places are booked
 * shows: policies: random clusters: after the moves the first in the queue has room, without one of them it has none,
 *   and no GPU is promised twice in between
 * shows: policies: the move that evens loads most, and none where it gains less than the margin
 */
#include "control-managers/cluster-manager/balance.h"
#include "control-managers/common/protocol.h"
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES = 40, GPUS = 12, BEST_FIT = 0, SPREAD = 1 };

static struct place_pool pool;
static struct balance_piece pieces[PIECES];
static struct balance_step steps[PIECES];
static size_t count;
static int nodes[GPUS], owners[GPUS];

static int clear(void **state)
{
    (void)state;
    place_free(&pool);
    pool.overcommit_sms = pool.overcommit_memory = 1;
    count = 0;
    return 0;
}

static size_t add(uint32_t sms, uint64_t memory)
{
    size_t at = place_add(&pool, &owners[pool.count], &nodes[pool.count], "");
    pool.gpus[at].sms = sms;
    pool.gpus[at].memory = memory;
    pool.gpus[at].offered = CTL_SHARING_TIME_SLICE | CTL_SHARING_EXCLUSIVE;
    pool.gpus[at].schedulable = pool.gpus[at].sm_limits = true;
    return at;
}

static struct place_request share(uint32_t sms, uint64_t memory)
{
    return (struct place_request){ .sms = sms, .memory = memory, .accepted = CTL_SHARING_TIME_SLICE };
}

static void put(size_t gpu, uint32_t sms, uint64_t memory)
{
    pieces[count] = (struct balance_piece){ count, gpu, share(sms, memory) };
    count++;
    place_take(&pool, gpu, CTL_SHARING_TIME_SLICE, sms, memory);
}

static bool fits(const struct place_request *wanted)
{
    struct place_result result;
    return place_choose(&pool, BEST_FIT, wanted, &result) == PLACE_FOUND;
}

/* As a move does it: both places are booked, then one is given back. */
static void carry_out(const struct balance_step *step)
{
    const struct balance_piece *piece = &pieces[step->piece];
    struct place_request there = piece->request;
    struct place_result result;
    there.only = pool.gpus[step->to.gpu].owner;
    assert_true(step->to.gpu != piece->gpu);
    assert_int_equal(place_choose(&pool, BEST_FIT, &there, &result), PLACE_FOUND);
    assert_int_equal(step->to.sms, piece->request.sms);
    assert_int_equal(step->to.memory, piece->request.memory);
    place_take(&pool, step->to.gpu, step->to.sharing, step->to.sms, step->to.memory);
    place_give_back(&pool, piece->gpu, piece->request.sms, piece->request.memory);
}

/* The books are as they were. */
static void assert_unchanged(const struct place_gpu *before)
{
    for (size_t i = 0; i < pool.count; i++) {
        assert_int_equal(before[i].used_sms, pool.gpus[i].used_sms);
        assert_int_equal(before[i].used_memory, pool.gpus[i].used_memory);
        assert_int_equal(before[i].users, pool.gpus[i].users);
        assert_int_equal(before[i].sharing, pool.gpus[i].sharing);
    }
}

/* As policy.c does it, for all GPUs at once: the plan with the fewest bytes. */
static size_t make_room(const struct place_request *wanted, size_t *gpu)
{
    struct place_gpu before[GPUS];
    struct balance_piece on[PIECES];
    struct balance_step tried[PIECES];
    size_t best = 0, names[PIECES];
    uint64_t fewest = 0, bytes;
    memcpy(before, pool.gpus, pool.count * sizeof *before);
    for (size_t slot = 0; slot < pool.count && !fits(wanted); slot++) {
        size_t there = 0;
        for (size_t i = 0; i < count; i++)
            if (pieces[i].gpu == slot) {
                names[there] = i;
                on[there++] = pieces[i];
            }
        if (!pool.gpus[slot].schedulable || !place_could_hold(&pool, slot, wanted) ||
            (pool.gpus[slot].keeper && pool.gpus[slot].keeper != wanted->asker))
            continue;
        size_t moves = balance_room_on(&pool, BEST_FIT, wanted, slot, on, there, tried, &bytes);
        assert_unchanged(before);
        if (!moves || (best && bytes >= fewest))
            continue;
        best = moves;
        fewest = bytes;
        *gpu = slot;
        for (size_t i = 0; i < moves; i++) {
            steps[i] = tried[i];
            steps[i].piece = names[tried[i].piece];
        }
    }
    return best;
}

/* The one that gains most, if that is the margin at least; of equal ones the smallest. */
static bool even(double margin, struct balance_step *best)
{
    bool found = false;
    double most = 0, gain;
    for (size_t i = 0; i < count; i++) {
        struct balance_step step = { .piece = i };
        if (!balance_gain(&pool, SPREAD, &pieces[i], &step.to, &gain) || gain < margin || gain < most ||
            (found && gain == most && pieces[i].request.memory >= pieces[best->piece].request.memory))
            continue;
        *best = step;
        most = gain;
        found = true;
    }
    return found;
}

TEST_WITH(test_fewest_bytes, clear, NULL)
{
    size_t a = add(16, 1000), b = add(16, 1000), gpu = 99;
    put(a, 8, 600);
    put(a, 4, 100);
    put(b, 10, 300);
    struct place_request wanted = share(8, 200);
    assert_false(fits(&wanted));
    /* 4 SMs are free on a, 6 on b: the smaller of a goes. */
    assert_int_equal(make_room(&wanted, &gpu), 1);
    assert_int_equal(steps[0].piece, 1);
    assert_true(gpu == a && steps[0].to.gpu == b);
    /* Kept for another one, who waits longer: then what is on b goes, but a has no room for it. */
    pool.gpus[a].keeper = &wanted;
    assert_int_equal(make_room(&wanted, &gpu), 0);
    wanted.asker = &wanted;
    assert_int_equal(make_room(&wanted, &gpu), 1);
    /* Nothing goes where nothing new may go, and nothing leaves in vain. */
    pool.gpus[b].schedulable = false;
    assert_int_equal(make_room(&wanted, &gpu), 0);
    pool.gpus[b].schedulable = true;
    wanted.sms = 17;
    assert_int_equal(make_room(&wanted, &gpu), 0);
    wanted.sms = 4;
    assert_int_equal(make_room(&wanted, &gpu), 0);
}

TEST_WITH(test_one_large_piece_is_enough, clear, NULL)
{
    size_t a = add(16, 1000), gpu;
    add(16, 1000);
    pool.gpus[1].used_sms = 4;
    pool.gpus[1].users = 1;
    pool.gpus[1].sharing = CTL_SHARING_TIME_SLICE;
    put(a, 2, 10);
    put(a, 2, 20);
    put(a, 10, 30);
    struct place_request wanted = share(12, 100);
    pool.gpus[1].keeper = &wanted;          /* it may not go there itself */
    assert_int_equal(make_room(&wanted, &gpu), 0);
    pool.gpus[1].keeper = NULL;
    pool.gpus[1].used_sms = 5;
    assert_int_equal(make_room(&wanted, &gpu), 1);
    assert_int_equal(steps[0].piece, 2);
}

static unsigned next_random(unsigned most)
{
    static unsigned state = 1;
    state = state * 1103515245u + 12345u;
    return state / 65536 % most;
}

static void fill_at_random(void)
{
    unsigned gpus = 2 + next_random(GPUS - 2);
    clear(NULL);
    for (unsigned i = 0; i < gpus; i++) {
        size_t at = add(8 + 8 * next_random(3), 400 + 400 * next_random(3));
        pool.gpus[at].schedulable = next_random(8) != 0;
    }
    for (unsigned tries = next_random(2 * PIECES); tries-- && count < PIECES;) {
        size_t gpu = next_random(gpus);
        struct place_request piece = share(1 + next_random(10), 1 + next_random(400));
        struct place_result result;
        bool schedulable = pool.gpus[gpu].schedulable;
        pool.gpus[gpu].schedulable = true;
        piece.only = pool.gpus[gpu].owner;
        if (place_choose(&pool, BEST_FIT, &piece, &result) == PLACE_FOUND)
            put(gpu, piece.sms, piece.memory);
        pool.gpus[gpu].schedulable = schedulable;
    }
}

static bool room_after(const struct balance_step *done, size_t so_many, size_t but, const struct place_request *wanted)
{
    struct place_pool kept = pool;
    kept.gpus = malloc(pool.count * sizeof *pool.gpus);
    memcpy(kept.gpus, pool.gpus, pool.count * sizeof *pool.gpus);
    for (size_t i = 0; i < so_many; i++)
        if (i != but)
            carry_out(&done[i]);
    bool result = fits(wanted);
    memcpy(pool.gpus, kept.gpus, pool.count * sizeof *pool.gpus);
    free(kept.gpus);
    return result;
}

TEST_WITH(test_random_clusters, clear, NULL)
{
    unsigned helped = 0;
    for (unsigned round = 0; round < 20000; round++) {
        size_t gpu = 0;
        fill_at_random();
        struct place_request wanted = share(4 + next_random(20), 100 + next_random(900));
        size_t moves = make_room(&wanted, &gpu);
        if (fits(&wanted))
            assert_int_equal(moves, 0);
        if (!moves)
            continue;
        helped++;
        assert_true(room_after(steps, moves, moves, &wanted));
        for (size_t i = 0; i < moves; i++) {
            assert_int_equal(pieces[steps[i].piece].gpu, gpu);
            assert_false(room_after(steps, moves, i, &wanted));
        }
        wanted.only = pool.gpus[gpu].owner;
        assert_true(room_after(steps, moves, moves, &wanted));
    }
    assert_true(helped > 1000);
}

TEST_WITH(test_even, clear, NULL)
{
    size_t a = add(16, 1000);
    struct balance_step step;
    put(a, 4, 100);
    put(a, 4, 200);
    put(a, 8, 50);
    assert_false(even(0.25, &step));
    size_t b = add(16, 1000);
    assert_true(even(0.25, &step));
    assert_true(step.piece == 2 && step.to.gpu == b);
    carry_out(&step);
    pieces[2].gpu = b;
    /* 0.5 on both. */
    assert_false(even(0.01, &step));
    size_t c = add(16, 1000);
    pool.gpus[c].schedulable = false;
    assert_false(even(0.01, &step));
    /* 4 of 16 SMs go to an empty one: 0.5 becomes 0.25, equals go by their bytes. */
    pool.gpus[c].schedulable = true;
    assert_false(even(0.26, &step));
    assert_true(even(0.25, &step));
    assert_int_equal(step.piece, 0);
}

int main(void) { return unit_run(NULL, NULL); }
