/*
 * ring.c: each rank sends to the next one and receives from the one before, in pieces: while one piece is under way the
 * one before it is already being passed on. The network carries each byte about once per rank, whatever the number of
 * ranks, so it is for large calls.
 *
 * A number is the round, and the piece in it.
 */
#include "cpu/comm/plan/build.h"

#include <stdlib.h>

static uint64_t number(unsigned round, uint64_t piece) { return (uint64_t)round << 32 | piece; }

static uint64_t cut(uint64_t size, uint64_t piece, uint64_t i)
{
    uint64_t at = i * piece;
    return at >= size ? 0 : size - at < piece ? size - at : piece;
}

static unsigned back(const struct comm_shape *s, unsigned by) { return (s->rank + 2 * s->ranks - by) % s->ranks; }

/* The steps that later ones wait for, of each round and piece. */
struct step_table {
    unsigned *steps;
    uint64_t pieces;
};

static bool table_make(struct comm_plan *plan, struct step_table *table, unsigned rounds, uint64_t pieces)
{
    size_t count = rounds * (size_t)pieces;
    table->pieces = pieces;
    table->steps = malloc((count ? count : 1) * sizeof *table->steps);
    plan->failed |= !table->steps;
    for (size_t i = 0; table->steps && i < count; i++)
        table->steps[i] = NO_STEP;
    return table->steps != NULL;
}

static unsigned *table_at(struct step_table *table, unsigned round, uint64_t piece)
{
    return &table->steps[round * table->pieces + piece];
}

/* Where values lie while they are received, in turn; and the last step that has read each. */
enum { SLOTS = 8 };
struct slot_ring {
    uint64_t scratch, piece;
    unsigned next, read[SLOTS];
};

static struct slot_ring slot_ring_make(struct comm_plan *plan, uint64_t most)
{
    struct slot_ring ring = { .piece = (most + 63) / 64 * 64 };
    ring.scratch = plan_scratch(plan, SLOTS * ring.piece);
    for (unsigned i = 0; i < SLOTS; i++)
        ring.read[i] = NO_STEP;
    return ring;
}

/* Where the partial sums of round k lie while they are received: two places in turn. */
static struct comm_place slot(uint64_t scratch, uint64_t longest, unsigned k, uint64_t at)
{
    return plan_at(COMM_SCRATCH, scratch + k % 2 * ((longest + 63) / 64 * 64) + at);
}

/*
 * Reduce-scatter: in round k a rank sends the sum of part rank - k - 1 (the first time its own values), and adds its
 * values to the sum of part rank - k - 2, which comes. After the last round that is its own part.
 */
static void sums(struct comm_plan *plan, const struct comm_shape *s, uint64_t longest, struct step_table *reduced,
                 struct step_table *sent)
{
    uint64_t piece = plan_piece(s), scratch = plan_scratch(plan, 2 * ((longest + 63) / 64 * 64));
    for (unsigned k = 0; k + 1 < s->ranks; k++) {
        unsigned out = back(s, k + 1), in = back(s, k + 2);
        uint64_t out_size = plan_part_size(s, out), in_at = plan_part_at(s, in), in_size = plan_part_size(s, in);
        bool last = k + 2 == s->ranks;
        for (uint64_t p = 0; p < reduced->pieces; p++) {
            uint64_t at = p * piece;
            struct comm_place sum =
                k == 0 ? plan_at(COMM_IN, plan_part_at(s, out) + at) : slot(scratch, longest, k - 1, at);
            unsigned send = plan_send(plan, back(s, s->ranks - 1), number(k, p), sum, cut(out_size, piece, p));
            plan_wait(plan, send, k ? *table_at(reduced, k - 1, p) : NO_STEP);
            *table_at(sent, k, p) = send != NO_STEP || k < 2 ? send : *table_at(sent, k - 2, p);
            struct comm_place come = slot(scratch, longest, k, at);
            unsigned receive = plan_receive(plan, back(s, 1), number(k, p), come, cut(in_size, piece, p));
            if (k >= 2) { /* what was in this place has been added, and passed on */
                plan_wait(plan, receive, *table_at(reduced, k - 2, p));
                plan_wait(plan, receive, *table_at(sent, k - 1, p));
            }
            unsigned reduce = plan_reduce(plan, last ? plan_at(COMM_OUT, at) : come, come, plan_at(COMM_IN, in_at + at),
                                          cut(in_size, piece, p));
            plan_wait(plan, reduce, receive);
            /* A part without bytes leaves its place to the one before it. */
            *table_at(reduced, k, p) = reduce != NO_STEP || k < 2 ? reduce : *table_at(reduced, k - 2, p);
        }
    }
}

/*
 * The first half of all-reduce: as reduce-scatter, one block further on, so that afterwards each rank has all of one
 * block. Sums are passed on from the result, so what comes needs a place only until it has been added: few places,
 * which stay in the processor's cache.
 */
static void block_sums(struct comm_plan *plan, const struct comm_shape *s, uint64_t longest, struct step_table *reduced,
                       struct step_table *sent)
{
    uint64_t piece = plan_piece(s);
    struct slot_ring ring = slot_ring_make(plan, longest < piece ? longest : piece);
    for (unsigned k = 0; k + 1 < s->ranks; k++) {
        unsigned out = back(s, k), in = back(s, k + 1);
        uint64_t out_at = plan_block_at(s, out), out_size = plan_block_size(s, out), in_at = plan_block_at(s, in),
                 in_size = plan_block_size(s, in);
        for (uint64_t p = 0; p < reduced->pieces; p++) {
            uint64_t at = p * piece, size = cut(in_size, piece, p);
            unsigned send = plan_send(plan, back(s, s->ranks - 1), number(k, p),
                                      plan_at(k ? COMM_OUT : COMM_IN, out_at + at), cut(out_size, piece, p));
            plan_wait(plan, send, k ? *table_at(reduced, k - 1, p) : NO_STEP);
            *table_at(sent, k, p) = send;
            unsigned *read = &ring.read[ring.next % SLOTS];
            struct comm_place come = plan_at(COMM_SCRATCH, ring.scratch + ring.next++ % SLOTS * ring.piece);
            unsigned receive = plan_receive(plan, back(s, 1), number(k, p), come, size);
            plan_wait(plan, receive, *read);
            unsigned reduce =
                plan_reduce(plan, plan_at(COMM_OUT, in_at + at), come, plan_at(COMM_IN, in_at + at), size);
            plan_wait(plan, reduce, receive);
            *read = reduce != NO_STEP ? reduce : *read;
            *table_at(reduced, k, p) = reduce;
        }
    }
}

static uint64_t longest_of(const struct comm_shape *s)
{
    uint64_t longest = 0;
    for (unsigned i = 0; i < s->ranks; i++) {
        uint64_t size = s->kind == COMM_ALL_REDUCE ? plan_block_size(s, i) : plan_part_size(s, i);
        longest = size > longest ? size : longest;
    }
    return longest;
}

/* The blocks go around. In round j a rank receives block rank - j, which it may have sent before. */
static void pass_blocks(struct comm_plan *plan, const struct comm_shape *s, struct step_table *reduced,
                        struct step_table *sent)
{
    struct step_table received;
    uint64_t piece = plan_piece(s);
    if (!table_make(plan, &received, s->ranks, reduced->pieces))
        return;
    for (unsigned j = 0; j + 1 < s->ranks; j++) {
        unsigned out = back(s, s->ranks + j - 1), in = back(s, j);
        for (uint64_t p = 0; p < reduced->pieces; p++) {
            struct comm_place from = plan_at(COMM_OUT, plan_block_at(s, out) + p * piece),
                              to = plan_at(COMM_OUT, plan_block_at(s, in) + p * piece);
            unsigned round = s->ranks + j;
            unsigned send =
                plan_send(plan, back(s, s->ranks - 1), number(round, p), from, cut(plan_block_size(s, out), piece, p));
            plan_wait(plan, send, j ? *table_at(&received, j - 1, p) : *table_at(reduced, s->ranks - 2, p));
            unsigned receive =
                plan_receive(plan, back(s, 1), number(round, p), to, cut(plan_block_size(s, in), piece, p));
            plan_wait(plan, receive, *table_at(sent, j, p));
            plan_wait(plan, receive, j ? *table_at(reduced, j - 1, p) : NO_STEP);
            *table_at(&received, j, p) = receive;
        }
    }
    free(received.steps);
}

static void all_gather(struct comm_plan *plan, const struct comm_shape *s)
{
    struct step_table received;
    uint64_t piece = plan_piece(s), pieces = plan_pieces(longest_of(s), piece);
    unsigned own =
        plan_copy(plan, plan_at(COMM_OUT, plan_part_at(s, s->rank)), plan_at(COMM_IN, 0), plan_part_size(s, s->rank));
    if (!table_make(plan, &received, s->ranks, pieces))
        return;
    for (unsigned j = 0; j + 1 < s->ranks; j++) {
        unsigned out = back(s, j), in = back(s, j + 1);
        for (uint64_t p = 0; p < pieces; p++) {
            unsigned send =
                plan_send(plan, back(s, s->ranks - 1), number(j, p),
                          plan_at(COMM_OUT, plan_part_at(s, out) + p * piece), cut(plan_part_size(s, out), piece, p));
            plan_wait(plan, send, j ? *table_at(&received, j - 1, p) : own);
            *table_at(&received, j, p) =
                plan_receive(plan, back(s, 1), number(j, p), plan_at(COMM_OUT, plan_part_at(s, in) + p * piece),
                             cut(plan_part_size(s, in), piece, p));
        }
    }
    free(received.steps);
}

/* From the root along the chain of ranks. */
static void broadcast(struct comm_plan *plan, const struct comm_shape *s)
{
    uint64_t size = s->count * s->element, piece = plan_piece(s);
    unsigned place = (s->rank + s->ranks - s->root) % s->ranks, before = back(s, 1), next = back(s, s->ranks - 1);
    for (uint64_t p = 0; p < plan_pieces(size, piece); p++) {
        uint64_t part = cut(size, piece, p);
        unsigned receive = place ? plan_receive(plan, before, p, plan_at(COMM_OUT, p * piece), part) : NO_STEP;
        if (place + 1 < s->ranks) {
            unsigned send = plan_send(plan, next, p, plan_at(place ? COMM_OUT : COMM_IN, p * piece), part);
            plan_wait(plan, send, receive);
        }
    }
    if (!place)
        plan_copy(plan, plan_at(COMM_OUT, 0), plan_at(COMM_IN, 0), size);
}

/* Towards the root along the chain; the last rank begins. */
static void reduce(struct comm_plan *plan, const struct comm_shape *s)
{
    uint64_t size = s->count * s->element, piece = plan_piece(s);
    unsigned place = (s->rank + s->ranks - s->root) % s->ranks, before = back(s, 1), next = back(s, s->ranks - 1);
    bool first = place + 1 == s->ranks;
    uint64_t scratch = first ? 0 : plan_scratch(plan, size);
    for (uint64_t p = 0; p < plan_pieces(size, piece); p++) {
        uint64_t at = p * piece, part = cut(size, piece, p);
        struct comm_place come = plan_at(COMM_SCRATCH, scratch + at), own = plan_at(COMM_IN, at);
        struct comm_place sum = place ? come : plan_at(COMM_OUT, at);
        unsigned receive = first ? NO_STEP : plan_receive(plan, next, p, come, part);
        unsigned add = first ? NO_STEP : plan_reduce(plan, sum, come, own, part);
        plan_wait(plan, add, receive);
        unsigned send = place ? plan_send(plan, before, p, first ? own : sum, part) : NO_STEP;
        plan_wait(plan, send, add);
    }
}

void plan_ring(struct comm_plan *plan, const struct comm_shape *s)
{
    struct step_table reduced, sent;
    uint64_t longest = longest_of(s), pieces = plan_pieces(longest, plan_piece(s));
    if (s->kind == COMM_BROADCAST) {
        broadcast(plan, s);
    } else if (s->kind == COMM_REDUCE) {
        reduce(plan, s);
    } else if (s->kind == COMM_ALL_GATHER) {
        all_gather(plan, s);
    } else if (table_make(plan, &reduced, s->ranks, pieces)) {
        if (table_make(plan, &sent, s->ranks, pieces)) {
            if (s->kind == COMM_ALL_REDUCE) {
                block_sums(plan, s, longest, &reduced, &sent);
                pass_blocks(plan, s, &reduced, &sent);
            } else {
                sums(plan, s, longest, &reduced, &sent);
            }
            free(sent.steps);
        }
        free(reduced.steps);
    }
}
