/*
 * outs.h: what pending.c (which copies have not arrived, and what they come before) and outs.c (how they begin and
 * arrive) share.
 */
#ifndef FLYT_CLIENT_CORE_OUTS_H
#define FLYT_CLIENT_CORE_OUTS_H

#include "host.h"
#include "lanes.h"
#include "pending.h"
#include "rows.h"
#include "stream.h"

struct mark { const struct stream *stream; uint64_t number, serial; };

struct out {
    struct wire_call     wire;
    struct stream       *stream;
    struct submitted     at;          /* who could have it before him before it is submitted has not returned */
    struct mark         *marks;       /* in other streams */
    unsigned             mark_count;
    union {
        copy_out_args     line;
        copy_box_out_args box;
        copy_args         chunk;
    } args;
    struct chunk_out_result result;
    struct lane_out      lane;
    struct host_rows     place;       /* where the bytes belong; result.to may be a buffer instead */
    uint8_t             *buffer;      /* NULL: received in place */
    struct chunk        *chunk;       /* the device writes there; NULL: the bytes come with the reply or on a lane */
    plain_result         waited;      /* the reply, then */
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
