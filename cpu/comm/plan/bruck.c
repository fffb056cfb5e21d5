/*
 * bruck.c: all-gather and all-to-all in as many rounds as the number of ranks has binary digits, for small parts: what
 * goes the same way is sent together. All parts must have the same size.
 */
#include "cpu/comm/plan/build.h"

enum { ROUNDS = 32 };

static void all_gather(struct comm_plan *plan, const struct comm_shape *s)
{
    uint64_t part = plan_part_size(s, 0), scratch = plan_scratch(plan, part * s->ranks);
    struct comm_place begin = plan_at(COMM_SCRATCH, scratch);
    unsigned own = plan_copy(plan, begin, plan_at(COMM_IN, 0), part), received[ROUNDS], rounds = 0;
    for (unsigned distance = 1; distance < s->ranks; distance *= 2, rounds++) {
        unsigned count = distance < s->ranks - distance ? distance : s->ranks - distance;
        unsigned send = plan_send(plan, (s->rank + s->ranks - distance) % s->ranks, rounds, begin, count * part);
        plan_wait(plan, send, own);
        for (unsigned i = 0; i < rounds; i++)
            plan_wait(plan, send, received[i]);
        received[rounds] = plan_receive(plan, (s->rank + distance) % s->ranks, rounds,
                                        plan_at(COMM_SCRATCH, scratch + distance * part), count * part);
    }
    /* SCRATCH begins with this rank's part. */
    unsigned first = s->ranks - s->rank;
    for (unsigned half = 0; half < 2; half++) {
        unsigned copy =
            plan_copy(plan, plan_at(COMM_OUT, half ? 0 : s->rank * part),
                      plan_at(COMM_SCRATCH, scratch + (half ? first * part : 0)), (half ? s->rank : first) * part);
        plan_wait(plan, copy, own);
        for (unsigned i = 0; i < rounds; i++)
            plan_wait(plan, copy, received[i]);
    }
}

/*
 * Part i of SCRATCH is for the rank i further on. In the round of digit d all parts whose number has that digit go 2^d
 * ranks on, and others come in their place.
 */
static void all_to_all(struct comm_plan *plan, const struct comm_shape *s)
{
    uint64_t part = plan_part_size(s, 0), scratch = plan_scratch(plan, part * s->ranks);
    unsigned last[2], round = 0; /* the copies that all of SCRATCH waits for */
    last[0] =
        plan_copy(plan, plan_at(COMM_SCRATCH, scratch), plan_at(COMM_IN, s->rank * part), (s->ranks - s->rank) * part);
    last[1] = plan_copy(plan, plan_at(COMM_SCRATCH, scratch + (s->ranks - s->rank) * part), plan_at(COMM_IN, 0),
                        s->rank * part);
    for (unsigned digit = 1; digit < s->ranks; digit *= 2, round++) {
        unsigned count = 0, before = NO_STEP;
        uint64_t out = plan_scratch(plan, part * s->ranks), in = plan_scratch(plan, part * s->ranks);
        for (unsigned i = 0; i < s->ranks; i++) {
            if (!(i & digit))
                continue;
            unsigned pack = plan_copy(plan, plan_at(COMM_SCRATCH, out + count++ * part),
                                      plan_at(COMM_SCRATCH, scratch + i * part), part);
            plan_wait(plan, pack, last[0]);
            plan_wait(plan, pack, last[1]);
            plan_wait(plan, pack, before);
            before = pack;
        }
        unsigned send = plan_send(plan, (s->rank + digit) % s->ranks, round, plan_at(COMM_SCRATCH, out), count * part);
        plan_wait(plan, send, before);
        unsigned come =
            plan_receive(plan, (s->rank + s->ranks - digit) % s->ranks, round, plan_at(COMM_SCRATCH, in), count * part);
        unsigned placed = NO_STEP;
        for (unsigned i = 0, n = 0; i < s->ranks; i++) {
            if (!(i & digit))
                continue;
            unsigned unpack = plan_copy(plan, plan_at(COMM_SCRATCH, scratch + i * part),
                                        plan_at(COMM_SCRATCH, in + n++ * part), part);
            plan_wait(plan, unpack, come);
            plan_wait(plan, unpack, before);
            plan_wait(plan, unpack, placed);
            placed = unpack;
        }
        last[0] = placed;
        last[1] = NO_STEP;
    }
    for (unsigned i = 0; i < s->ranks; i++) {
        unsigned copy = plan_copy(plan, plan_at(COMM_OUT, (s->rank + s->ranks - i) % s->ranks * part),
                                  plan_at(COMM_SCRATCH, scratch + i * part), part);
        plan_wait(plan, copy, last[0]);
        plan_wait(plan, copy, last[1]);
    }
}

void plan_bruck(struct comm_plan *plan, const struct comm_shape *s)
{
    if (s->kind == COMM_ALL_GATHER)
        all_gather(plan, s);
    else
        all_to_all(plan, s);
}
