/*
 * outs.h: what pending.c (which copies have not arrived, and what they come before) and copy_pending.c (how they begin
 * and arrive) share.
 */
#ifndef FLYT_CLIENT_CORE_OUTS_H
#define FLYT_CLIENT_CORE_OUTS_H

#include "copy_part.h"
#include "pending.h"

struct mark { const struct stream *stream; uint64_t number, serial; };

struct out {
    struct copy_part     part;        /* first: its call is first there */
    struct stream       *stream;
    struct submitted     at;          /* who could have it before him before it is submitted has not returned */
    struct mark         *marks;       /* in other streams */
    unsigned             mark_count;
    struct host_rows     place;       /* where the bytes belong; part.to may be a buffer instead */
    uint8_t             *buffer;      /* NULL: received in place */
    bool                 here;        /* in its buffer, waiting for an earlier one */
    struct out          *next, **from;
};

extern struct outs {
    pthread_mutex_t lock;
    pthread_cond_t  arrived;
    struct out     *first;
    atomic_uint     count, writers;
} outs;

bool out_before(const struct out *, const struct point *);     /* by the rules of streams and events; under outs.lock */
bool outs_overlap(const struct host_rows *, const struct host_rows *);

#endif
