/*
 * balance.h: which programs should move to other GPUs. Pure arithmetic over the placement model (place.h), no I/O, so
 * that it can be tested by itself. It takes nothing and books nothing.
 *
 * Each step fits while all places are still booked, those that are left too, and however many steps before it have been
 * carried out: a program that moves has a place on both GPUs for a while.
 */
#ifndef FLYT_CLUSTER_BALANCE_H
#define FLYT_CLUSTER_BALANCE_H

#include "control-managers/cluster-manager/place.h"

/* What can move: a server with its program. */
struct balance_piece {
    uint64_t id;                  /* the caller's */
    size_t gpu;                   /* where it is, a slot of the pool */
    struct place_request request; /* as of a new program, with the share that it has: neither 0; no `only` */
};

struct balance_step {
    size_t piece;
    struct place_result to;
};

/* Moves off one GPU, after which `wanted` has room there, of pieces that are all on it. They are tried in the order of
   their memory, from either end, which need not find the best combination; the plan with fewer bytes is given. The
   moves are written to steps, which has room for `count` of them. Returns how many, and how many bytes move; 0: it has
   room now, no moves were found, or memory is short. The pool is changed meanwhile, and is as before at the end. policy
   as of place_choose. */
size_t balance_room_on(struct place_pool *, int policy, const struct place_request *wanted, size_t gpu,
                       const struct balance_piece *, size_t count, struct balance_step *steps, uint64_t *bytes);

/* Where the piece would go, and how much less the more loaded of both GPUs has to bear then than its own has now. The
   load of a GPU is the part of its SMs or of its memory that is booked, whichever is more. False: it can go nowhere. */
bool balance_gain(const struct place_pool *, int policy, const struct balance_piece *, struct place_result *to,
                  double *gain);

#endif
