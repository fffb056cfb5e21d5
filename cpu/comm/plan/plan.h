/*
 * plan.h: what one rank does in a collective, as data: steps, and what each waits for. A plan is made of the shape of
 * a call only, so all ranks make plans that fit together. Nothing here sends anything; run.c carries plans out, and a
 * test carries out those of all ranks at once in any order that they allow.
 *
 * Numbers. A transfer is named by the call's number and the step's: unique for each pair of ranks and direction within
 * a plan. Steps without bytes are left out on both sides, except in a barrier.
 *
 * Results do not depend on the order of arrival: a step REDUCE has its operands in the order of the ranks, and all that
 * uses its result waits for it. Where several ranks compute the same value, they compute it with the same operands in
 * the same order, so that all ranks have the same bits.
 */
#ifndef FLYT_COMM_PLAN_PLAN_H
#define FLYT_COMM_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum comm_kind {
    COMM_BARRIER,
    COMM_BROADCAST,
    COMM_REDUCE,
    COMM_ALL_REDUCE,
    COMM_GATHER,
    COMM_SCATTER,
    COMM_ALL_GATHER,
    COMM_REDUCE_SCATTER,
    COMM_ALL_TO_ALL,
    COMM_KINDS
};
enum comm_algorithm {
    COMM_AUTOMATIC,
    COMM_RING,
    COMM_TREE,
    COMM_DOUBLING,
    COMM_HALVING,
    COMM_BRUCK,
    COMM_PAIRWISE,
    COMM_DISSEMINATION,
    COMM_ALGORITHMS
};

enum comm_buffer { COMM_IN, COMM_OUT, COMM_SCRATCH, COMM_BUFFERS };
enum comm_step_kind { STEP_SEND, STEP_RECEIVE, STEP_REDUCE, STEP_COPY };

enum { COMM_RANKS_MOST = 1024 };

struct comm_place {
    enum comm_buffer buffer;
    uint64_t at;
}; /* bytes from its start */

struct comm_step {
    enum comm_step_kind kind;
    unsigned peer; /* of SEND and RECEIVE */
    uint64_t number;
    struct comm_place to, a, b; /* SEND: a. RECEIVE: to. COPY: to, a. REDUCE: to = a op b */
    uint64_t size;              /* bytes */
    unsigned first_wait, waits; /* in comm_plan.waits */
};

struct comm_plan {
    struct comm_step *steps;
    unsigned *waits; /* numbers of steps */
    unsigned count, room, wait_count, wait_room;
    uint64_t scratch; /* bytes of the buffer SCRATCH */
    bool failed;      /* no memory */
};

/* Counts and places are in elements. Where a call has the same count for each rank, `counts` is NULL. */
struct comm_shape {
    enum comm_kind kind;
    enum comm_algorithm algorithm; /* not AUTOMATIC: see comm_choose */
    unsigned rank, ranks, root;
    size_t element;                        /* bytes */
    uint64_t count;                        /* of one rank's part; of the whole in broadcast, reduce, all-reduce */
    const uint64_t *counts, *places;       /* of each rank's part: gathered, scattered, sent in all-to-all */
    const uint64_t *in_counts, *in_places; /* all-to-all: of what comes from each rank */
};

/* NULL: no memory. */
struct comm_plan *comm_plan_make(const struct comm_shape *);
void comm_plan_free(struct comm_plan *);

/* A measure of the network between the ranks; the same on all ranks. */
struct comm_table {
    double latency_us, mb_per_s;
};
/* Of a network that nobody has measured. */
#define COMM_TABLE_USUAL                    \
    {                                       \
        .latency_us = 30, .mb_per_s = 1000  \
    }
/* The algorithm for this call: `forced`, if it is one for this kind; else a pure function of the arguments. */
enum comm_algorithm comm_choose(enum comm_kind, uint64_t bytes, unsigned ranks, bool uneven, const struct comm_table *,
                                enum comm_algorithm forced);
/* Microseconds that it takes then, by the table. */
double comm_cost(enum comm_kind, uint64_t bytes, unsigned ranks, const struct comm_table *);
/* AUTOMATIC for a name that is none. */
enum comm_algorithm comm_algorithm_of(const char *name);
const char *comm_algorithm_name(enum comm_algorithm);
const char *comm_kind_name(enum comm_kind);
bool comm_kind_reduces(enum comm_kind);
bool comm_kind_has_root(enum comm_kind);
bool comm_algorithm_fits(enum comm_kind, enum comm_algorithm, bool uneven);

#endif
