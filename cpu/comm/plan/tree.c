/*
 * tree.c: a binary tree of ranks, the root on top, in pieces. A call takes as many steps one after the other as the
 * tree is deep, so it is for broadcasts and reductions that are not large. All-reduce goes up and down again.
 *
 * A number is the piece; on the way down it has DOWN in it.
 */
#include "cpu/comm/plan/build.h"

#include <stdlib.h>

#define DOWN (UINT64_C(1) << 40)

struct tree_branch {
    unsigned place, parent, children[2], child_count; /* place: 0 is the root */
};

static struct tree_branch branch_of(const struct comm_shape *s, unsigned root)
{
    struct tree_branch b = { .place = (s->rank + s->ranks - root) % s->ranks };
    b.parent = ((b.place + 1) / 2 - 1 + root) % s->ranks;
    for (unsigned i = 0; i < 2; i++)
        if (2 * b.place + 1 + i < s->ranks)
            b.children[b.child_count++] = (2 * b.place + 1 + i + root) % s->ranks;
    return b;
}

/* Piece p goes up: what the parent, or for the root whoever needs the result, waits for. */
static unsigned up(struct comm_plan *plan, const struct tree_branch *b, uint64_t p, uint64_t at, uint64_t size,
                   const uint64_t scratch[3])
{
    struct comm_place sum = plan_at(COMM_IN, at),
                      own = b->place ? plan_at(COMM_SCRATCH, scratch[2] + at) : plan_at(COMM_OUT, at);
    unsigned last = NO_STEP;
    for (unsigned i = 0; i < b->child_count; i++) {
        struct comm_place come = plan_at(COMM_SCRATCH, scratch[i] + at);
        unsigned receive = plan_receive(plan, b->children[i], p, come, size);
        unsigned add = plan_reduce(plan, own, sum, come, size);
        plan_wait(plan, add, receive);
        plan_wait(plan, add, last);
        last = add;
        sum = own;
    }
    if (b->place) {
        unsigned send = plan_send(plan, b->parent, p, sum, size);
        plan_wait(plan, send, last);
        last = send;
    }
    return last;
}

/* Piece p comes down; `before` must be complete first. */
static void down(struct comm_plan *plan, const struct tree_branch *b, uint64_t p, uint64_t at, uint64_t size,
                 enum comm_buffer from, unsigned before)
{
    unsigned have = before;
    if (b->place) {
        have = plan_receive(plan, b->parent, p | DOWN, plan_at(COMM_OUT, at), size);
        plan_wait(plan, have, before);
    }
    for (unsigned i = 0; i < b->child_count; i++) {
        unsigned send = plan_send(plan, b->children[i], p | DOWN, plan_at(b->place ? COMM_OUT : from, at), size);
        plan_wait(plan, send, have);
    }
}

void plan_tree(struct comm_plan *plan, const struct comm_shape *s)
{
    struct tree_branch b = branch_of(s, s->kind == COMM_ALL_REDUCE ? 0 : s->root);
    uint64_t size = s->count * s->element, piece = plan_piece(s), scratch[3] = { 0, 0, 0 };
    bool goes_up = s->kind != COMM_BROADCAST, goes_down = s->kind != COMM_REDUCE;
    for (unsigned i = 0; goes_up && i < 3; i++)
        scratch[i] = i < b.child_count || (i == 2 && b.place && b.child_count) ? plan_scratch(plan, size) : 0;
    for (uint64_t p = 0; p < plan_pieces(size, piece); p++) {
        uint64_t at = p * piece, part = size - at < piece ? size - at : piece;
        unsigned last = goes_up ? up(plan, &b, p, at, part, scratch) : NO_STEP;
        if (goes_down)
            down(plan, &b, p, at, part, goes_up ? COMM_OUT : COMM_IN, last);
    }
    if (s->kind == COMM_BROADCAST && !b.place)
        plan_copy(plan, plan_at(COMM_OUT, 0), plan_at(COMM_IN, 0), size);
}
