/*
 * pending_copy.h: what pending.c (which copies have not arrived, and what they come before) and copy_pending.c (how
 * they begin and arrive) share.
 */
#ifndef FLYT_CLIENT_CORE_PENDING_COPY_H
#define FLYT_CLIENT_CORE_PENDING_COPY_H

#include "cpu/client/core/copy/copy_part.h"
#include "pending.h"

struct copy_mark {
    const struct client_stream *stream;
    uint64_t number, serial;
};

struct pending_copy {
    struct copy_part     part;        /* first: its call is first there */
    struct client_stream *stream;
    /* Until it is submitted, no call that it could come before has returned. */
    struct submitted     at;
    struct copy_mark    *marks;       /* in other streams */
    unsigned             mark_count;
    struct host_rows     place;       /* where the bytes belong; part.to may be a buffer instead */
    uint8_t             *buffer;      /* NULL: received in place */
    bool                 here;        /* in its buffer, waiting for an earlier one */
    struct pending_copy          *next, **from;
};

extern struct pending_copies {
    pthread_mutex_t lock;
    pthread_cond_t  arrived;
    struct pending_copy     *first;
    atomic_uint     count, writers;
} pending_copies;

/* By the rules of streams and events; under pending_copies.lock. */
bool pending_before(const struct pending_copy *, const struct point *);
bool pending_overlap(const struct host_rows *, const struct host_rows *);

#endif
