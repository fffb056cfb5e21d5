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

/* Moves off one GPU, *gpu, after which `wanted` has room there. Of all GPUs the one where the fewest bytes move; there
   pieces are tried in the order of their memory, from either end, which need not find the best combination. The moves
   are written to steps, which has room for `count` of them. Returns how many; 0: it has room now, no moves were found,
   or memory is short. policy as of place_choose. */
size_t balance_make_room(const struct place_pool *, int policy, const struct place_request *wanted,
                         const struct balance_piece *, size_t count, struct balance_step *steps, size_t *gpu);

/* The one move after which the more loaded of its two GPUs has least load compared with before, if that is at least
   `margin` less. The load of a GPU is the part of its SMs or of its memory that is booked, whichever is more. False:
   there is none. */
bool balance_even(const struct place_pool *, int policy, double margin, const struct balance_piece *, size_t count,
                  struct balance_step *);

#endif
