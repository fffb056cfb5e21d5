/*
 * move_store.h: what stands between the two servers of a move (move.h). Contents are copied in two steps: out of the
 * old server, and into the new one. A move takes both at once, one piece after the other, and keeps no more than the
 * pieces that are on their way. A session that is suspended takes the first step alone, into a store, and the second
 * from it.
 *
 * The client's tables do not change in between, so both steps go over the same objects in the same order.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_STORE_H
#define FLYT_CLIENT_CORE_MOVE_STORE_H

#include <stdint.h>

/* The steps that are taken now: struct move has one or both. */
enum move_steps { MOVE_OUT = 1, MOVE_IN = 2, MOVE_ACROSS = MOVE_OUT | MOVE_IN };

/* A part of what an object holds. */
struct move_part {
    unsigned kind;           /* enum client_kind */
    uint64_t object;         /* its address; of an array FLYT_ARRAY_SPACE and its name; of a heap its context's id;
                                of a memory handle its id */
    uint64_t offset, size;   /* in bytes; of a box without gaps */
};

enum { MOVE_PART_MOST = 1 << 20 }; /* bytes of one part */

struct move_store {
    /* Each returns a result code. get is called for the same parts as put, in the same order, as often as somebody
       begins again (again). part->size of get: room for so many bytes; it says how many were put. */
    int (*put)(struct move_store *, const struct move_part *, const void *bytes);
    int (*get)(struct move_store *, struct move_part *, void *bytes);
    int (*again)(struct move_store *);
};

#endif
