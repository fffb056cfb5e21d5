/*
 * doubling.c: all-reduce among partners whose distance doubles. The number of ranks is made a power of two first: of
 * the first ranks, each even one gives its values to the odd one behind it, and gets the result in the end.
 *
 *   doubling   partners exchange all they have: few steps, for small calls
 *   halving    partners exchange halves, so each ends with a part of the sum; then the parts are collected the same way
 *              back: twice the steps, and few bytes
 *
 * Partners add in the order of their ranks, so both have the same bits.
 */
#include "cpu/comm/plan/build.h"

enum { FOLD = 1000, UNFOLD, LEVELS = 32 }; /* numbers beside those of the rounds */

/* size: a power of two; place: this rank's in it; outside: it has given its values away. */
struct fold_group {
    unsigned size, rest, place;
    bool outside;
};

static struct fold_group group_of(const struct comm_shape *s)
{
    struct fold_group g = { .size = 1 };
    while (g.size * 2 <= s->ranks)
        g.size *= 2;
    g.rest = s->ranks - g.size;
    g.outside = s->rank < 2 * g.rest && s->rank % 2 == 0;
    g.place = s->rank < 2 * g.rest ? s->rank / 2 : s->rank - g.rest;
    return g;
}

static unsigned rank_of(const struct fold_group *g, unsigned place)
{
    return place < g->rest ? 2 * place + 1 : place + g->rest;
}

/* to = the peer's values and ours, in the order of the ranks. */
static unsigned add_peer(struct comm_plan *plan, const struct comm_shape *s, unsigned peer, struct comm_place come,
                         struct comm_place own, uint64_t size)
{
    return peer < s->rank ? plan_reduce(plan, own, come, own, size) : plan_reduce(plan, own, own, come, size);
}

/* The values are in OUT when the step that is given is complete. */
static unsigned fold(struct comm_plan *plan, const struct comm_shape *s, const struct fold_group *g)
{
    uint64_t size = s->count * s->element;
    struct comm_place out = plan_at(COMM_OUT, 0);
    unsigned own = plan_copy(plan, out, plan_at(COMM_IN, 0), size);
    if (s->rank >= 2 * g->rest)
        return own;
    if (g->outside) {
        unsigned send = plan_send(plan, s->rank + 1, FOLD, out, size);
        plan_wait(plan, send, own);
        unsigned receive = plan_receive(plan, s->rank + 1, UNFOLD, out, size);
        plan_wait(plan, receive, send);
        return receive;
    }
    struct comm_place come = plan_at(COMM_SCRATCH, plan_scratch(plan, size));
    unsigned receive = plan_receive(plan, s->rank - 1, FOLD, come, size);
    unsigned add = add_peer(plan, s, s->rank - 1, come, out, size);
    plan_wait(plan, add, receive);
    plan_wait(plan, add, own);
    return add;
}

void plan_doubling(struct comm_plan *plan, const struct comm_shape *s)
{
    struct fold_group g = group_of(s);
    uint64_t size = s->count * s->element;
    struct comm_place out = plan_at(COMM_OUT, 0);
    unsigned last = fold(plan, s, &g), round = 0;
    for (unsigned mask = 1; mask < g.size && !g.outside; mask *= 2, round++) {
        unsigned peer = rank_of(&g, g.place ^ mask);
        struct comm_place come = plan_at(COMM_SCRATCH, plan_scratch(plan, size));
        unsigned send = plan_send(plan, peer, round, out, size);
        plan_wait(plan, send, last);
        unsigned receive = plan_receive(plan, peer, round, come, size);
        unsigned add = add_peer(plan, s, peer, come, out, size);
        plan_wait(plan, add, send);
        plan_wait(plan, add, receive);
        last = add;
    }
    if (s->rank < 2 * g.rest && !g.outside)
        plan_wait(plan, plan_send(plan, s->rank - 1, UNFOLD, out, size), last);
}

struct halving_level {
    unsigned peer, sent;
    uint64_t mine[2], others[2];
}; /* ranges of elements */

static struct comm_place element(enum comm_buffer buffer, const struct comm_shape *s, uint64_t at)
{
    return plan_at(buffer, at * s->element);
}

/* Gives the last step; the levels are filled in from the top. */
static unsigned halve(struct comm_plan *plan, const struct comm_shape *s, const struct fold_group *g, unsigned last,
                      struct halving_level *levels)
{
    uint64_t low = 0, high = s->count;
    unsigned round = 0;
    for (unsigned mask = g->size / 2; mask > 0; mask /= 2, round++) {
        uint64_t middle = low + (high - low) / 2;
        bool upper = g->place & mask;
        struct halving_level *l = &levels[round];
        *l = (struct halving_level){ .peer = rank_of(g, g->place ^ mask),
                                     .mine = { upper ? middle : low, upper ? high : middle },
                                     .others = { upper ? low : middle, upper ? middle : high } };
        uint64_t kept = (l->mine[1] - l->mine[0]) * s->element, given = (l->others[1] - l->others[0]) * s->element;
        l->sent = plan_send(plan, l->peer, round, element(COMM_OUT, s, l->others[0]), given);
        plan_wait(plan, l->sent, last);
        struct comm_place come = plan_at(COMM_SCRATCH, plan_scratch(plan, kept));
        unsigned receive = plan_receive(plan, l->peer, round, come, kept);
        unsigned add = add_peer(plan, s, l->peer, come, element(COMM_OUT, s, l->mine[0]), kept);
        plan_wait(plan, add, receive);
        plan_wait(plan, add, last);
        last = add != NO_STEP ? add : last;
        low = l->mine[0];
        high = l->mine[1];
    }
    return last;
}

void plan_halving(struct comm_plan *plan, const struct comm_shape *s)
{
    struct fold_group g = group_of(s);
    struct halving_level levels[LEVELS];
    unsigned received[LEVELS], count = 0, last = fold(plan, s, &g), rounds = 0;
    if (g.outside)
        return;
    last = halve(plan, s, &g, last, levels);
    while ((1u << rounds) < g.size)
        rounds++;
    for (unsigned round = rounds; round-- > 0;) {
        const struct halving_level *l = &levels[round];
        unsigned send = plan_send(plan, l->peer, FOLD + 100 + round, element(COMM_OUT, s, l->mine[0]),
                                  (l->mine[1] - l->mine[0]) * s->element);
        plan_wait(plan, send, last);
        for (unsigned i = 0; i < count; i++)
            plan_wait(plan, send, received[i]);
        received[count] = plan_receive(plan, l->peer, FOLD + 100 + round, element(COMM_OUT, s, l->others[0]),
                                       (l->others[1] - l->others[0]) * s->element);
        plan_wait(plan, received[count], l->sent);
        count++;
    }
    if (s->rank >= 2 * g.rest)
        return;
    unsigned give = plan_send(plan, s->rank - 1, UNFOLD, plan_at(COMM_OUT, 0), s->count * s->element);
    plan_wait(plan, give, last);
    for (unsigned i = 0; i < count; i++)
        plan_wait(plan, give, received[i]);
}

/* In round r each rank sends a byte 2^r ranks on: after all rounds it has heard of every other one. */
void plan_dissemination(struct comm_plan *plan, const struct comm_shape *s)
{
    unsigned last = NO_STEP, round = 0;
    uint64_t out = plan_scratch(plan, 1);
    for (unsigned distance = 1; distance < s->ranks; distance *= 2, round++) {
        unsigned send = plan_send(plan, (s->rank + distance) % s->ranks, round, plan_at(COMM_SCRATCH, out), 1);
        plan_wait(plan, send, last);
        unsigned receive = plan_receive(plan, (s->rank + s->ranks - distance) % s->ranks, round,
                                        plan_at(COMM_SCRATCH, plan_scratch(plan, 1)), 1);
        plan_wait(plan, receive, last); /* so this one stands for all before it */
        last = receive;
    }
}
