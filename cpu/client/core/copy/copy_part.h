/*
 * copy_part.h: one part of a copy from the device on its way (copy_part.c): through a chunk, over a lane, or inside the
 * answer. copy_out.c waits for its parts; copy_pending.c does not.
 */
#ifndef FLYT_CLIENT_CORE_COPY_PART_H
#define FLYT_CLIENT_CORE_COPY_PART_H

#include "copy_calls.h"
#include "cpu/client/core/memory/host.h"
#include "lanes.h"

struct copy_part {
    union {                           /* first: each begins with its wire_call */
        struct wire_call     wire;
        struct copy_waited   waited;
        struct copy_answered answered;
    } call;
    struct chunk    *chunk;           /* the device writes there; NULL: the bytes come with the answer or on a lane */
    struct host_rows to;
    size_t           whole;           /* bytes of the copy that it is a part of */
    struct lane_out  lane;
};

enum copy_lane { COPY_NO_LANE, COPY_LANE, COPY_LANE_PENDING };     /* pending: no thread will wait for the part */

/* to: where the bytes go, span->to or a buffer. chunk: NULL, or the part's from now on. arrived (NULL: part_wait is
   called): as in stream_submit; it calls part_answered. */
void copy_part_begin(struct copy_part *, struct client_stream *, const struct copy_span *, const struct host_rows *to,
                     size_t whole, struct chunk *, enum copy_lane, void (*arrived)(struct wire_call *),
                     struct submitted *);
/* The answer is here. True: the bytes come over the lane (lane_out_wait, lane_out_deferred). Else they have come. */
bool copy_part_answered(struct copy_part *);
int  copy_part_wait(struct copy_part *);

/* A copy in pieces, so that the device works on one while the next is on its way: the size of a piece. */
size_t copy_piece(size_t bytes, size_t least);

#endif
