/*
 * completion.h: who waits for the device (completion.c), and threads that wait in the driver (long_wait.c).
 */
#ifndef FLYT_SERVER_COMPLETION_H
#define FLYT_SERVER_COMPLETION_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/list.h"
#include "cpu/server/stream/stream.h"

struct session;

enum { COMPLETION_LONG_WAITS = 4 };

/* A thread that waits in the driver for one marker (long_wait.c); under completion.lock. */
struct long_wait {
    struct session *session;
    pthread_t       thread;
    pthread_cond_t  wake;
    bool            started, left;
    struct context *context;
    CUevent         event;                /* NULL: it waits for nothing */
    struct record  *record;               /* held */
    struct stream  *stream;               /* held */
};

struct completion {
    pthread_mutex_t reporting;            /* outermost but for session.lock */
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    /* streams with markers, and with waiters or without; each holds a reference */
    struct list     awaited, watched;
    _Atomic unsigned watching;            /* how many */
    struct list     progressed;           /* streams with deferred calls whose done number has risen; the same */
    uint64_t        serial;               /* of markers and waiters */
    unsigned        waits;                /* waiters of all streams */
    uint64_t        since;                /* when the youngest wait began, or something was last complete, ns */
    _Atomic uint64_t turns;               /* of the thread */
    _Atomic bool    in_driver;            /* somebody asks about markers; changed under the lock */
    bool            asleep, stop, started;
    bool            fresh;                /* a wait has begun that the thread does not know of */
    pthread_t       thread;
    struct long_wait long_waits[COMPLETION_LONG_WAITS];
    pthread_cond_t  returned;             /* one of them is back from the driver */
};

int  completion_start(struct session *);
void completion_stop(struct session *);
/* A place to watch. record NULL: the event came from the unused ones, and returns to its context. Takes a reference to
   record. serial may be NULL. */
CUresult completion_mark(struct session *, struct stream *, CUevent, struct record *, uint64_t number,
                         uint64_t *serial);
/* finish runs when the stream's operations up to waiter->number are complete (perhaps at once, in this call), and
   the marker waiter->behind of that number is, which nobody else is behind. */
void completion_wait(struct session *, struct stream *, struct waiter *);
void completion_slot(struct session *, struct stream *, struct slot *);
/* Looks at some of the streams that are watched, `first` (NULL: any) and those that somebody waits for before
   others; each has its turn. True while something is still being watched. Any thread with no lock but session.lock. */
bool completion_poll(struct session *, struct stream *first);
/* Whatever another thread has seen complete has been reported when this returns. */
void completion_settle(struct session *);
/* The stream is known to be idle: everything up to number is complete. */
void completion_advance(struct session *, struct stream *, uint64_t number);
/* the next of them, held for the caller; NULL: none */
struct stream *completion_progressed(struct session *);
void completion_wake(struct session *);
void completion_rouse(struct session *);                          /* the thread looks again, and quickly for a while */
/* The event is not needed any more. Under completion.lock. */
void completion_spare(struct session *, struct context *, CUevent);
/* Every wait on streams of the context ends with `code`. */
void completion_abort(struct session *, struct context *, CUresult code);
CUresult completion_event(struct session *, struct context *, CUevent *);      /* an unused one, or a new one */
void completion_event_back(struct session *, struct context *, CUevent);
void completion_events_free(struct session *, struct context *);

/* ---- long_wait.c: under completion.lock, but for long_waits_stop ---- */

bool long_wait_begin(struct session *, struct stream *);          /* false: nobody free to wait for its first marker */
/* true: a thread is in the driver with the event, and returns it to the unused ones afterwards */
bool long_wait_leave(struct session *, CUevent);
/* nobody is in the driver any more for this context, which is idle */
void long_waits_end(struct session *, const struct context *);
void long_waits_stop(struct session *);                           /* after completion.stop */

#endif
