/*
 * copy_calls.h: the calls of copies (copy_calls.c). The program's bytes are encoded from, and decoded into, its own
 * memory. A line has the shorter calls.
 */
#ifndef FLYT_CLIENT_CORE_COPY_CALLS_H
#define FLYT_CLIENT_CORE_COPY_CALLS_H

#include "cpu/client/core/wire/span.h"
#include "cpu/client/core/stream/stream.h"

static inline flyt_box wire_box(const struct core_box *box)
{
    return (flyt_box){ .address = box->address, .pitch = box->pitch, .height = box->height };
}

static inline flyt_extent wire_extent(const struct core_extent *e)
{
    return (flyt_extent){ .width = e->width, .height = e->height, .depth = e->depth };
}

/* The device reaches both sides. mark: as in copy_args. */
int copy_call_reach(struct client_stream *, const struct copy_span *, uint64_t mark);
/* To the device: the bytes travel inside the call, or over a lane. on_lane: NULL: inside. */
int copy_call_in(struct client_stream *, const struct copy_span *, const flyt_on_lane *on_lane);

/* The call whose answer says that a copy is complete. The device reaches both sides. */
struct copy_waited {
    struct wire_call wire;            /* first */
    copy_args        args;
    plain_result     result;
};
/* arrived (NULL: wire_wait is called): as in stream_submit. */
void copy_call_waited(struct copy_waited *, struct client_stream *, const struct copy_span *,
                      void (*arrived)(struct wire_call *), struct submitted *);

/* From the device: the call whose answer has the bytes, or says that they come over a lane. */
struct copy_answered {
    struct wire_call wire;            /* first */
    union { copy_out_args line; copy_box_out_args box; } args;
    struct copy_out_bytes {
        flyt_head head;               /* first: see wire_call */
        struct host_rows to;
        flyt_via via;                 /* as the call said */
        bool on_lane;                 /* the bytes come there (lanes.h) */
    } result;
};
void copy_call_out(struct copy_answered *, struct client_stream *, const struct copy_span *, const struct host_rows *to,
                   flyt_via, void (*arrived)(struct wire_call *), struct submitted *);
void copy_answer_free(struct copy_answered *);

#endif
