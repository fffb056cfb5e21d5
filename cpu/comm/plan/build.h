/* build.h: what the files that make plans share. A step is named by its number in the plan; NO_STEP: there is none. */
#ifndef FLYT_COMM_PLAN_BUILD_H
#define FLYT_COMM_PLAN_BUILD_H

#include "cpu/comm/plan/plan.h"

#define NO_STEP UINT32_MAX
enum { PLAN_PIECE = 512 * 1024 }; /* bytes that a pipeline moves at a time */

/* Each gives the step's number, or NO_STEP: it has no bytes. */
unsigned plan_send(struct comm_plan *, unsigned peer, uint64_t number, struct comm_place from, uint64_t size);
unsigned plan_receive(struct comm_plan *, unsigned peer, uint64_t number, struct comm_place to, uint64_t size);
unsigned plan_reduce(struct comm_plan *, struct comm_place to, struct comm_place a, struct comm_place b, uint64_t size);
unsigned plan_copy(struct comm_plan *, struct comm_place to, struct comm_place from, uint64_t size);
/* The newest step of the plan begins when `other` is complete. Nothing happens for NO_STEP. */
void plan_wait(struct comm_plan *, unsigned step, unsigned other);

static inline struct comm_place plan_at(enum comm_buffer buffer, uint64_t at)
{
    return (struct comm_place){ buffer, at };
}

/* So many bytes of SCRATCH, from this place. */
uint64_t plan_scratch(struct comm_plan *, uint64_t size);
/* The part of `rank` in bytes: where it begins and how long it is. */
uint64_t plan_part_at(const struct comm_shape *, unsigned rank);
uint64_t plan_part_size(const struct comm_shape *, unsigned rank);
/* Of the whole, cut into a block for each rank. */
uint64_t plan_block_at(const struct comm_shape *, unsigned block);
uint64_t plan_block_size(const struct comm_shape *, unsigned block);
/* Bytes of a pipeline's piece, whole elements; and how many pieces that is. */
uint64_t plan_piece(const struct comm_shape *);
static inline uint64_t plan_pieces(uint64_t size, uint64_t piece) { return (size + piece - 1) / piece; }

void plan_ring(struct comm_plan *, const struct comm_shape *);
void plan_tree(struct comm_plan *, const struct comm_shape *);
void plan_doubling(struct comm_plan *, const struct comm_shape *);
void plan_halving(struct comm_plan *, const struct comm_shape *);
void plan_bruck(struct comm_plan *, const struct comm_shape *);
void plan_pairwise(struct comm_plan *, const struct comm_shape *);
void plan_dissemination(struct comm_plan *, const struct comm_shape *);

#endif
