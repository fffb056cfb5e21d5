/*
 * executor.h: the queue of calls between reader and executor (executor_queue.c), and the executor (executor.c).
 */
#ifndef FLYT_SERVER_EXECUTOR_H
#define FLYT_SERVER_EXECUTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/rpc/rpc.h"
#include "cpu/server/call/call.h"

struct session;

struct executor {
    pthread_mutex_t queue_lock;
    pthread_cond_t  wake, room;
    struct queued  *first, **last;
    size_t          bytes;
    unsigned        calls;
    _Atomic unsigned unserved;            /* queued or being served by the executor */
    _Atomic bool    kick;
    bool            stop, started, asleep;
    pthread_t       thread;
    size_t          deferred_bytes;       /* under session.lock */
    _Atomic unsigned deferred_calls;
    /* Changed under session.lock only, read by anybody. */
    _Atomic uint64_t served;              /* odd: a call is being served; grows with whatever is done */
    _Atomic unsigned in_driver;
    _Atomic bool    full;                 /* the reader waits for room */
};

struct queued { struct queued *next; const struct procedure *procedure; rpc_request *request; };

int  executor_start(struct session *);                            /* executor.c */
void executor_stop(struct session *);                             /* joins; others may still kick it */

void executor_open(struct session *);                             /* executor_queue.c; before anything else of it */
void executor_free(struct session *);
/* The next queued call; NULL: none now, but the deferred ones want a look, or the end. */
struct queued *executor_next(struct session *, bool stalled);
/* Whether executor_next would wait. */
bool executor_rests(struct session *, bool stalled);
int  executor_push(struct session *, const struct procedure *, rpc_request *);   /* takes the request */
bool executor_idle(struct session *);                             /* nothing queued, nothing being served */
void executor_kick(struct session *);                             /* look at the deferred operations again */
void executor_ended(struct session *);                            /* the session has: who waits for room goes on */
/* A call is being served from the first to the second, and something of it has been done. Under session.lock. */
void executor_serving(struct session *);
void executor_served(struct session *);
void executor_moved(struct session *);
/* The driver may block from the first to the second. Under session.lock. */
void executor_driver_enter(struct session *);
void executor_driver_leave(struct session *);

#endif
