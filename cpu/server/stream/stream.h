/*
 * stream.h: streams and events (stream.c, event.c), which deferred call may be next (deferred.c), and who refers to
 * them (references.c). Everything under session.lock where nothing else is said.
 */
#ifndef FLYT_SERVER_STREAM_H
#define FLYT_SERVER_STREAM_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/list.h"
#include "cpu/common/tree.h"
#include "cpu/server/call/call.h"
#include "cpu/server/stream/context.h"

struct session;

/* Bytes that all streams together have inside the driver (crowd.c). */
struct crowd {
    uint64_t         most;
    uint64_t         entered;             /* since the session began; under session.lock */
    _Atomic uint64_t left;                /* of them; under completion.lock, read by anybody */
};

/* One recording of an event: what STREAM_WAIT and EVENT_SYNC refer to. A new one is made when the last is still
   referred to, so that recording an event again does not change what an earlier wait meant. */
struct record {
    _Atomic unsigned references;
    struct session *session;
    struct context *context;
    CUevent event;
    bool recorded, issued;                /* asked for; given to the driver */
    struct stream *stream;                /* where; holds a reference */
    uint64_t number;
    bool wanted;                          /* somebody waits: mark it when it is issued */
    bool watched;                         /* a query has seen to it that a marker stands there */
    struct list parked;                   /* streams that wait for it to be issued */
};

struct event {
    struct context *context;
    unsigned flags;
    struct record *record;
};

/* A place in a stream: when the event is complete, so are all operations up to number. */
struct marker {
    struct tree_node node;                /* of the stream: number, serial */
    struct marker *next;                  /* when it has been passed */
    CUevent event;                        /* an unused one, or record's */
    struct record *record;
    struct waiter *waiter;                /* that is behind it; NULL: none */
    uint64_t entered;                     /* of the stream, up to here: crowd.c */
};

/* Somebody who waits for a number of a stream. First member of what finish knows about. */
struct waiter {
    struct tree_node node;                /* of the stream: number, serial */
    struct waiter *next;                  /* when it is due */
    uint64_t number;
    uint64_t behind;                      /* 0, or the serial of a marker that must be complete too */
    CUresult result;
    bool speaks;                          /* its reply carries what kernels printed */
    void (*finish)(struct session *, struct waiter *);
};

struct stream {
    _Atomic unsigned references;
    uint32_t id;
    struct context *context;
    CUstream handle;
    unsigned flags;
    _Atomic bool dead;                    /* destroyed by the client, or by a reset */
    /* order; under session.lock */
    struct list of_context, busy, holding, unmarked;    /* members of the context's lists */
    uint64_t received, issued, marked;
    uint64_t entered;                     /* bytes that it has given the driver; crowd.c */
    struct call *first, **last;           /* deferred */
    struct list parked;                   /* where it waits for its first deferred call's turn: deferred.c */
    struct tree_node head;                /* of context->heads */
    _Atomic bool deferred;                /* there are any: whoever lets it progress says so */
    /* gate of host functions */
    uint32_t *gate;                       /* host's view, NULL: none yet */
    CUdeviceptr gate_address;
    uint32_t gate_ticket;                 /* the last one waited for */
    /* the last collective that it was given: of which communicator, which may have gone; its number */
    const void *collective_of;
    uint64_t collective;
    /* of a stream that the client does not know: conditions run their bodies there (condition.c) */
    bool inner;
    unsigned depth;                       /* conditions that it stands in */
    uint32_t *seen;                       /* what the word of its condition was; host-mapped, beside the gates */
    struct gate seen_gate;
    struct stream *next_spare;
    /* under completion.lock */
    struct tree markers, waiters;         /* by number; a waiter that is behind a marker is not among them yet */
    unsigned waiting;                     /* waiters, all of them */
    struct slot *slots, **slots_last;     /* staging in use, by number */
    _Atomic uint64_t done;
    uint64_t left;                        /* of `entered`: what is known to be complete; crowd.c */
    struct list watched;                  /* member of completion.awaited or .watched */
    struct list progressed;               /* of completion.progressed */
    /* under report.lock */
    struct list dirty;                    /* of report.dirty */
};

void stream_hold(struct stream *);
void stream_drop(struct session *, struct stream *);
struct stream *server_stream_find(struct session *, uint32_t id);
/* What to say where there is none of that id: the client's stream has gone, or the context whose default stream it
   was. */
CUresult stream_missing(uint32_t id);
/* A stream of the context that the client does not know, with a word `seen`; NULL with *result: there is none. The
   caller holds it, and gives it back when its work is complete. */
struct stream *stream_inner_take(struct session *, struct context *, CUresult *result);
void stream_inner_give(struct session *, struct stream *);
/* First thing of every numbered call: finds the stream, unless call->stream is set, and takes the number. NULL: no such
   stream, the call has failed. */
struct stream *server_stream_enter(struct session *, struct call *, uint32_t id);
/* Gives the entered call to the driver now or, when its turn has not come, later. */
void server_stream_submit(struct session *, struct call *, const struct operation *);
/* The entered call is wrong: its number passes without work. */
void stream_refuse(struct session *, struct call *, CUresult);
/* Sees to it that a marker stands at what has been issued. */
CUresult stream_mark(struct session *, struct stream *);
/* A new one, also where nothing is new in the stream itself; its serial. */
CUresult stream_mark_again(struct session *, struct stream *, uint64_t *serial);
/* The first stream of the context, of the blocking or the other ones, that has work which is not known to be
   complete, or deferred calls; also one that the client has destroyed. Then the next one. NULL: none. */
struct stream *stream_busy(struct session *, struct context *, bool blocking, const struct stream *behind);
/* Whether another blocking stream of its context may have work. */
bool stream_others_busy(struct session *, const struct stream *legacy);
/* Its first deferred call, given to the driver if its turn has come. False: it has not, and the call says what it
   wants. */
bool stream_issue_first(struct session *, struct stream *);
CUresult stream_create_legacy(struct session *, struct context *);
/* All of a context's streams go; deferred calls fail with CUDA_ERROR_CONTEXT_IS_DESTROYED. */
void streams_drop_all(struct session *, struct context *);
void streams_free(struct session *);

/* ---- what the driver holds of all streams (crowd.c) ---- */

void crowd_open(struct session *);
/* Whether one more operation of the stream must wait because of what all streams have inside the driver. */
bool crowd_full(const struct session *, const struct stream *);
void crowd_enter(struct session *, struct stream *, const struct call *);     /* the driver has it; session.lock */
/* The stream's operations are complete up to the place where it had entered so much. Under completion.lock. */
void crowd_leave(struct session *, struct stream *, uint64_t entered);

/* ---- deferred calls (deferred.c): which streams' first ones are worth a try. Under session.lock. ---- */

void deferred_begin(struct session *, struct stream *);           /* its list is no longer empty */
/* it has another first call, or none; the last one's place */
void deferred_moved(struct session *, struct stream *, uint64_t order);
/* Does CUDA order it with the legacy stream? (Which is none of these itself.) */
static inline bool stream_ordered(const struct stream *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING) && stream != stream->context->legacy;
}
/* Is there any that CUDA orders before this place in the stream? */
static inline bool deferred_before(const struct stream *stream, uint64_t order)
{
    const struct context *context = stream->context;
    if (stream == context->legacy)
        return context->heads.root && tree_first(&context->heads)->key < order;
    return stream_ordered(stream) && context->legacy->first && context->legacy->first->order < order;
}
void deferred_wake(struct session *, struct list *parked);        /* what these streams wait for has come */
void deferred_issue(struct session *);                            /* gives the driver what it can */

void record_drop(struct record *);
void record_hold(struct record *);
void record_issued(struct session *, struct record *);            /* given to the driver, or never will be */
void events_drop_all(struct session *, struct context *);          /* of the context */

#endif
