/*
 * plans.c: the plans of all ranks of a collective, carried out together in memory, in any order that they allow.
 *
 * shows: collectives: each algorithm on 1 to 16 ranks gives the model's result in every order of its steps
 * shows: collectives: all ranks have the same bits, and the same call gives the same bits in every order
 */
#include "tests/lib/unit.h"

#include "cpu/comm/plan/plan.h"
#include "cpu/comm/reduce/reduce.h"

#include <math.h>

enum { RANKS = 16, TRANSFERS = 200000 };

static unsigned seed = 20261126;

struct rank_state {
    struct comm_plan *plan;
    uint8_t          *buffers[COMM_BUFFERS];
    unsigned         *left;                     /* waits of each step */
    bool             *done, *started;
};

struct carried { unsigned from, to; uint64_t number; const uint8_t *bytes; uint64_t size; unsigned step; bool taken; };

static struct rank_state states[RANKS];
static struct carried transfers[TRANSFERS];
static unsigned transfer_count;

static uint8_t *at(const struct rank_state *state, struct comm_place place)
{
    return state->buffers[place.buffer] + place.at;
}

static void finish(struct rank_state *state, unsigned step)
{
    state->done[step] = true;
    for (unsigned i = 0; i < state->plan->count; i++)
        for (unsigned w = 0; w < state->plan->steps[i].waits; w++)
            if (state->plan->waits[state->plan->steps[i].first_wait + w] == step)
                state->left[i]--;
}

/* A send is complete when its receive has taken the bytes, at any later time: so memory that is overwritten too early
   shows. False: it must wait. */
static bool carry_out(unsigned rank, unsigned number, enum comm_type type, enum comm_operation operation)
{
    struct rank_state *state = &states[rank];
    const struct comm_step *step = &state->plan->steps[number];
    switch (step->kind) {
    case STEP_SEND:
        assert_true(transfer_count < TRANSFERS);
        for (unsigned i = 0; i < transfer_count; i++)
            assert_false(transfers[i].from == rank && transfers[i].to == step->peer &&
                         transfers[i].number == step->number);
        transfers[transfer_count++] = (struct carried){ rank, step->peer, step->number, at(state, step->a), step->size,
                                                        number, false };
        return true;
    case STEP_RECEIVE:
        for (unsigned i = 0; i < transfer_count; i++) {
            struct carried *t = &transfers[i];
            if (t->taken || t->from != step->peer || t->to != rank || t->number != step->number)
                continue;
            assert_int_equal(t->size, step->size);
            memcpy(at(state, step->to), t->bytes, t->size);
            t->taken = true;
            finish(&states[t->from], t->step);
            finish(state, number);
            return true;
        }
        return false;
    case STEP_COPY: memmove(at(state, step->to), at(state, step->a), step->size); break;
    default:
        comm_reduce(type, operation, at(state, step->to), at(state, step->a), at(state, step->b),
                    step->size / comm_type_size(type));
    }
    finish(state, number);
    return true;
}

/* All plans, in a random order of what may be done. */
static void run(unsigned ranks, enum comm_type type, enum comm_operation operation)
{
    unsigned total = 0, complete = 0;
    transfer_count = 0;
    for (unsigned r = 0; r < ranks; r++) {
        struct rank_state *state = &states[r];
        unsigned count = state->plan->count;
        state->left = calloc(count + 1, sizeof *state->left);
        state->done = calloc(count + 1, sizeof *state->done);
        state->started = calloc(count + 1, sizeof *state->started);
        for (unsigned i = 0; i < count; i++)
            state->left[i] = state->plan->steps[i].waits;
        total += count;
    }
    for (unsigned idle = 0; complete < total;) {
        unsigned r = (unsigned)rand_r(&seed) % ranks, count = states[r].plan->count;
        unsigned first = count ? (unsigned)rand_r(&seed) % count : 0;
        bool moved = false;
        for (unsigned n = 0; n < count && !moved; n++) {
            unsigned i = (first + n) % count;
            moved = !states[r].started[i] && states[r].left[i] == 0 && carry_out(r, i, type, operation);
            states[r].started[i] |= moved;
        }
        idle = moved ? 0 : idle + 1;
        assert_true(idle < 100000);             /* nothing can go on */
        complete += moved;
    }
    for (unsigned i = 0; i < transfer_count; i++)
        assert_true(transfers[i].taken);
    for (unsigned r = 0; r < ranks; r++) {
        free(states[r].left);
        free(states[r].done);
        free(states[r].started);
    }
}

struct call { enum comm_kind kind; unsigned ranks, root; uint64_t count; bool in_place, uneven; };

static uint64_t counts[RANKS], places[RANKS], total_count;

/* Small integers: sums of them are exact in every type that takes part, whatever the order. */
static int value(unsigned rank, uint64_t i) { return (int)((rank * 7 + i * 3 + rank * i) % 5) - (i % 2 ? 1 : 0); }

static uint64_t in_count(const struct call *c, unsigned rank)
{
    switch (c->kind) {
    case COMM_GATHER:
    case COMM_ALL_GATHER: return counts[rank];
    case COMM_SCATTER:
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_TO_ALL: return total_count;
    default: return c->count;
    }
}

static uint64_t out_count(const struct call *c, unsigned rank)
{
    switch (c->kind) {
    case COMM_SCATTER:
    case COMM_REDUCE_SCATTER: return counts[rank];
    case COMM_GATHER:
    case COMM_ALL_GATHER:
    case COMM_ALL_TO_ALL: return total_count;
    default: return c->count;
    }
}

static double sum_of(const struct call *c, uint64_t i)
{
    double sum = 0;
    for (unsigned r = 0; r < c->ranks; r++)
        sum += value(r, i);
    return sum;
}

/* False: the element is not of the result. */
static bool expected(const struct call *c, unsigned rank, uint64_t i, double *want)
{
    unsigned part = 0;
    while (part + 1 < c->ranks && i >= places[part + 1])
        part++;
    switch (c->kind) {
    case COMM_BROADCAST: *want = value(c->root, i); return true;
    case COMM_REDUCE: *want = sum_of(c, i); return rank == c->root;
    case COMM_ALL_REDUCE: *want = sum_of(c, i); return true;
    case COMM_GATHER: *want = value(part, i - places[part]); return rank == c->root;
    case COMM_ALL_GATHER: *want = value(part, i - places[part]); return true;
    case COMM_SCATTER: *want = value(c->root, places[rank] + i); return true;
    case COMM_REDUCE_SCATTER: *want = sum_of(c, places[rank] + i); return true;
    default: *want = value(part, places[rank] + i - places[part]); return true;
    }
}

/* In place as NCCL has it: the smaller buffer is this rank's part of the larger one. */
static uint8_t *place_of_in(const struct call *c, unsigned rank, uint8_t *out)
{
    return c->kind == COMM_GATHER || c->kind == COMM_ALL_GATHER ? out + places[rank] * sizeof(float) : out;
}

static void check_call(const struct call *c, enum comm_algorithm algorithm)
{
    static uint8_t whole[2][RANKS][(1 << 21) + 64];
    total_count = 0;
    for (unsigned r = 0; r < c->ranks; r++) {
        counts[r] = c->uneven ? (r * 5 + c->count) % (c->count + 3) : c->count;
        places[r] = total_count;
        total_count += counts[r];
    }
    bool larger_in = c->kind == COMM_SCATTER || c->kind == COMM_REDUCE_SCATTER;
    for (unsigned r = 0; r < c->ranks; r++) {
        struct comm_shape shape = { .kind = c->kind, .algorithm = algorithm, .rank = r, .ranks = c->ranks,
                                    .root = c->root, .element = sizeof(float), .count = c->count,
                                    .counts = c->uneven ? counts : NULL, .places = c->uneven ? places : NULL };
        states[r].plan = comm_plan_make(&shape);
        assert_non_null(states[r].plan);
        uint8_t *in = whole[0][r], *out = whole[1][r];
        if (c->in_place && larger_in)
            out = in + places[r] * sizeof(float);
        else if (c->in_place)
            in = place_of_in(c, r, out);
        if (!c->in_place)
            memset(out, 0xee, out_count(c, r) * sizeof(float));
        bool has_input = (c->kind != COMM_BROADCAST && c->kind != COMM_SCATTER) || r == c->root;
        for (uint64_t i = 0; has_input && i < in_count(c, r); i++)
            ((float *)(void *)in)[i] = (float)value(r, i);
        states[r].buffers[COMM_IN] = in;
        states[r].buffers[COMM_OUT] = out;
        states[r].buffers[COMM_SCRATCH] = malloc(states[r].plan->scratch + 1);
    }
    run(c->ranks, COMM_FLOAT32, COMM_SUM);
    for (unsigned r = 0; r < c->ranks; r++) {
        const float *out = (const void *)states[r].buffers[COMM_OUT];
        double want;
        for (uint64_t i = 0; i < out_count(c, r); i++)
            if (expected(c, r, i, &want) && (double)out[i] != want)
                fail_msg("kind %d algorithm %d ranks %u root %u count %llu%s%s: rank %u element %llu: %g, not %g",
                         c->kind, algorithm, c->ranks, c->root, (unsigned long long)c->count,
                         c->in_place ? " in place" : "", c->uneven ? " uneven" : "", r, (unsigned long long)i,
                         (double)out[i], want);
        free(states[r].buffers[COMM_SCRATCH]);
        comm_plan_free(states[r].plan);
    }
}

static void check_all(uint64_t count, unsigned least, unsigned most)
{
    for (enum comm_kind kind = COMM_BROADCAST; kind < COMM_KINDS; kind++)
        for (enum comm_algorithm algorithm = COMM_RING; algorithm < COMM_ALGORITHMS; algorithm++)
            for (unsigned ranks = least; ranks <= most; ranks++)
                for (int way = 0; way < 4; way++) {
                    struct call c = { kind, ranks, (unsigned)rand_r(&seed) % ranks, count, way & 1, way & 2 };
                    bool parts = kind == COMM_GATHER || kind == COMM_SCATTER || kind == COMM_ALL_GATHER ||
                                 kind == COMM_REDUCE_SCATTER;
                    if (!comm_algorithm_fits(kind, algorithm, c.uneven) || (c.uneven && !parts) ||
                        (c.in_place && kind == COMM_ALL_TO_ALL))
                        continue;
                    check_call(&c, algorithm);
                }
}

TEST(each_algorithm_is_right_for_small_calls_on_1_to_16_ranks)
{
    static const uint64_t sizes[] = { 0, 1, 2, 3, 15, 16, 17, 33 };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_all(sizes[i], 1, RANKS);
}

TEST(each_algorithm_is_right_for_calls_of_several_pieces)
{
    static const uint64_t sizes[] = { (512 << 10) / 4 - 1, (512 << 10) / 4, (512 << 10) / 4 + 1 };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_all(sizes[i], 3, 3);
    struct call large = { COMM_ALL_REDUCE, 3, 0, (1 << 21) / 4, true, false };
    for (enum comm_algorithm algorithm = COMM_RING; algorithm < COMM_ALGORITHMS; algorithm++)
        if (comm_algorithm_fits(COMM_ALL_REDUCE, algorithm, false))
            check_call(&large, algorithm);
}

/* Random floats: sums depend on the order. */
static void random_sum(enum comm_algorithm algorithm, unsigned ranks, uint64_t count, float *result)
{
    static float in[RANKS][1000], out[RANKS][1000];
    for (unsigned r = 0; r < ranks; r++) {
        unsigned own = 77 + r;
        struct comm_shape shape = { .kind = COMM_ALL_REDUCE, .algorithm = algorithm, .rank = r, .ranks = ranks,
                                    .element = sizeof(float), .count = count };
        for (uint64_t i = 0; i < count; i++)
            in[r][i] = (float)rand_r(&own) / (float)(1 + rand_r(&own) % 1000);
        states[r].plan = comm_plan_make(&shape);
        states[r].buffers[COMM_IN] = (uint8_t *)in[r];
        states[r].buffers[COMM_OUT] = (uint8_t *)out[r];
        states[r].buffers[COMM_SCRATCH] = malloc(states[r].plan->scratch + 1);
    }
    run(ranks, COMM_FLOAT32, COMM_SUM);
    for (unsigned r = 0; r < ranks; r++) {
        assert_memory_equal(out[r], out[0], count * sizeof(float));
        free(states[r].buffers[COMM_SCRATCH]);
        comm_plan_free(states[r].plan);
    }
    memcpy(result, out[0], count * sizeof(float));
}

TEST(all_ranks_have_the_same_bits_in_every_order)
{
    static float first[1000], again[1000];
    for (enum comm_algorithm algorithm = COMM_RING; algorithm < COMM_ALGORITHMS; algorithm++)
        for (unsigned ranks = 2; ranks <= RANKS && comm_algorithm_fits(COMM_ALL_REDUCE, algorithm, false); ranks++) {
            random_sum(algorithm, ranks, 1000, first);
            random_sum(algorithm, ranks, 1000, again);
            assert_memory_equal(first, again, sizeof first);
        }
}

TEST(a_barrier_ends_after_all_have_come)
{
    for (unsigned ranks = 1; ranks <= RANKS; ranks++) {
        for (unsigned r = 0; r < ranks; r++) {
            struct comm_shape shape = { .kind = COMM_BARRIER, .algorithm = COMM_DISSEMINATION, .rank = r,
                                        .ranks = ranks, .element = 1 };
            states[r].plan = comm_plan_make(&shape);
            states[r].buffers[COMM_SCRATCH] = calloc(1, states[r].plan->scratch + 1);
        }
        /* a rank's last receive depends on every other rank: follow who has heard of whom */
        uint32_t heard[RANKS];
        for (unsigned r = 0; r < ranks; r++)
            heard[r] = 1u << r;
        for (unsigned round = 0; 1u << round < ranks; round++) {
            uint32_t before[RANKS];
            memcpy(before, heard, sizeof before);
            for (unsigned r = 0; r < ranks; r++)
                for (unsigned i = 0; i < states[r].plan->count; i++) {
                    const struct comm_step *s = &states[r].plan->steps[i];
                    if (s->kind == STEP_RECEIVE && s->number == round)
                        heard[r] |= before[s->peer];
                }
        }
        run(ranks, COMM_UINT8, COMM_SUM);
        for (unsigned r = 0; r < ranks; r++) {
            assert_int_equal(heard[r], (1u << ranks) - 1);
            free(states[r].buffers[COMM_SCRATCH]);
            comm_plan_free(states[r].plan);
        }
    }
}

TEST(the_choice_depends_on_its_arguments_only_and_can_be_forced)
{
    const struct comm_table table = { .latency_us = 30, .mb_per_s = 1000 };
    assert_int_equal(comm_choose(COMM_ALL_REDUCE, 8, 8, false, &table, COMM_AUTOMATIC), COMM_DOUBLING);
    assert_int_equal(comm_choose(COMM_ALL_REDUCE, 256 << 10, 8, false, &table, COMM_AUTOMATIC), COMM_HALVING);
    assert_int_equal(comm_choose(COMM_ALL_REDUCE, 64 << 20, 8, false, &table, COMM_AUTOMATIC), COMM_RING);
    assert_int_equal(comm_choose(COMM_ALL_REDUCE, 64 << 20, 7, false, &table, COMM_AUTOMATIC), COMM_RING);
    assert_int_equal(comm_choose(COMM_ALL_REDUCE, 8, 8, false, &table, COMM_TREE), COMM_TREE);
    assert_int_equal(comm_choose(COMM_BARRIER, 0, 8, false, &table, COMM_RING), COMM_DISSEMINATION);
    assert_int_equal(comm_choose(COMM_ALL_TO_ALL, 64, 16, true, &table, COMM_BRUCK), COMM_PAIRWISE);
    assert_int_equal(comm_algorithm_of("halving"), COMM_HALVING);
    assert_int_equal(comm_algorithm_of("nonsense"), COMM_AUTOMATIC);
}

int main(void)
{
    return unit_run(NULL, NULL);
}
