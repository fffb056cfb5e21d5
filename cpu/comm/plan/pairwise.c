/*
 * pairwise.c: each rank sends to each other one what that one needs, all at once. One step one after the other, so the
 * quickest for few ranks and few bytes, and the only way for gather, scatter and parts of different sizes in
 * all-to-all.
 *
 * Sums are made by everybody who needs them, of all ranks' values in the order of the ranks.
 */
#include "cpu/comm/plan/build.h"

/* OUT = the sum of the parts of all ranks, which lie in `from` one behind the other; each waits for its own step. */
static void add_all(struct comm_plan *plan, const struct comm_shape *s, uint64_t from, uint64_t size, uint64_t stride,
                    const unsigned *ready)
{
    struct comm_place sum = plan_at(COMM_SCRATCH, from), out = plan_at(COMM_OUT, 0);
    unsigned last = NO_STEP;
    for (unsigned rank = 1; rank < s->ranks; rank++) {
        unsigned add = plan_reduce(plan, out, sum, plan_at(COMM_SCRATCH, from + rank * stride), size);
        plan_wait(plan, add, rank == 1 ? ready[0] : last);
        plan_wait(plan, add, ready[rank]);
        if (rank == 1) { /* in place it overwrites what is copied and sent */
            plan_wait(plan, add, ready[s->rank]);
            plan_wait(plan, add, ready[s->ranks]);
        }
        last = add;
        sum = out;
    }
}

/* Reduce (to the root), all-reduce and reduce-scatter. */
static void sums(struct comm_plan *plan, const struct comm_shape *s)
{
    bool scatter = s->kind == COMM_REDUCE_SCATTER, adds = s->kind != COMM_REDUCE || s->rank == s->root;
    uint64_t size = plan_part_size(s, s->rank), stride = (size + 63) / 64 * 64;
    uint64_t scratch = adds ? plan_scratch(plan, stride * s->ranks) : 0;
    uint64_t own_at = scatter ? plan_part_at(s, s->rank) : 0;
    unsigned ready[COMM_RANKS_MOST + 1], last = NO_STEP;
    /* A sum in place must not overwrite what is still to be sent: the last send, which waits for all others. */
    for (unsigned k = 1; k < s->ranks; k++) {
        unsigned peer = (s->rank + k) % s->ranks, from = (s->rank + s->ranks - k) % s->ranks;
        if (s->kind != COMM_REDUCE || peer == s->root) {
            unsigned send = plan_send(plan, peer, 0, plan_at(COMM_IN, scatter ? plan_part_at(s, peer) : 0),
                                      scatter ? plan_part_size(s, peer) : size);
            plan_wait(plan, send, scatter || s->kind == COMM_REDUCE ? NO_STEP : last);
            last = send;
        }
        struct comm_place come = plan_at(COMM_SCRATCH, scratch + from * stride);
        ready[from] = adds ? plan_receive(plan, from, 0, come, size) : NO_STEP;
    }
    if (!adds)
        return;
    ready[s->rank] = plan_copy(plan, plan_at(COMM_SCRATCH, scratch + s->rank * stride), plan_at(COMM_IN, own_at), size);
    ready[s->ranks] = s->kind == COMM_ALL_REDUCE ? last : NO_STEP;
    add_all(plan, s, scratch, size, stride, ready);
}

static void gather(struct comm_plan *plan, const struct comm_shape *s)
{
    bool all = s->kind == COMM_ALL_GATHER;
    if (all || s->rank == s->root)
        plan_copy(plan, plan_at(COMM_OUT, plan_part_at(s, s->rank)), plan_at(COMM_IN, 0), plan_part_size(s, s->rank));
    for (unsigned k = 1; k < s->ranks; k++) {
        unsigned peer = (s->rank + k) % s->ranks, from = (s->rank + s->ranks - k) % s->ranks;
        if (all || peer == s->root)
            plan_send(plan, peer, 0, plan_at(COMM_IN, 0), plan_part_size(s, s->rank));
        if (all || s->rank == s->root)
            plan_receive(plan, from, 0, plan_at(COMM_OUT, plan_part_at(s, from)), plan_part_size(s, from));
    }
}

static void scatter(struct comm_plan *plan, const struct comm_shape *s)
{
    if (s->rank != s->root) {
        plan_receive(plan, s->root, 0, plan_at(COMM_OUT, 0), plan_part_size(s, s->rank));
        return;
    }
    plan_copy(plan, plan_at(COMM_OUT, 0), plan_at(COMM_IN, plan_part_at(s, s->rank)), plan_part_size(s, s->rank));
    for (unsigned k = 1; k < s->ranks; k++) {
        unsigned peer = (s->rank + k) % s->ranks;
        plan_send(plan, peer, 0, plan_at(COMM_IN, plan_part_at(s, peer)), plan_part_size(s, peer));
    }
}

static void broadcast(struct comm_plan *plan, const struct comm_shape *s)
{
    uint64_t size = s->count * s->element;
    if (s->rank != s->root) {
        plan_receive(plan, s->root, 0, plan_at(COMM_OUT, 0), size);
        return;
    }
    plan_copy(plan, plan_at(COMM_OUT, 0), plan_at(COMM_IN, 0), size);
    for (unsigned k = 1; k < s->ranks; k++)
        plan_send(plan, (s->rank + k) % s->ranks, 0, plan_at(COMM_IN, 0), size);
}

static void all_to_all(struct comm_plan *plan, const struct comm_shape *s)
{
    /* what comes, as if it were sent */
    struct comm_shape in = *s;
    in.counts = s->in_counts;
    in.places = s->in_places;
    plan_copy(plan, plan_at(COMM_OUT, plan_part_at(&in, s->rank)), plan_at(COMM_IN, plan_part_at(s, s->rank)),
              plan_part_size(s, s->rank));
    for (unsigned k = 1; k < s->ranks; k++) {
        unsigned peer = (s->rank + k) % s->ranks, from = (s->rank + s->ranks - k) % s->ranks;
        plan_send(plan, peer, 0, plan_at(COMM_IN, plan_part_at(s, peer)), plan_part_size(s, peer));
        plan_receive(plan, from, 0, plan_at(COMM_OUT, plan_part_at(&in, from)), plan_part_size(&in, from));
    }
}

void plan_pairwise(struct comm_plan *plan, const struct comm_shape *s)
{
    switch (s->kind) {
    case COMM_BROADCAST: broadcast(plan, s); break;
    case COMM_GATHER:
    case COMM_ALL_GATHER: gather(plan, s); break;
    case COMM_SCATTER: scatter(plan, s); break;
    case COMM_ALL_TO_ALL: all_to_all(plan, s); break;
    default: sums(plan, s); break;
    }
}
