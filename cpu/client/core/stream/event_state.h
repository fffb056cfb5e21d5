/* event_state.h: what event.c and event_move.c (another server) share. */
#ifndef FLYT_CLIENT_CORE_EVENT_STATE_H
#define FLYT_CLIENT_CORE_EVENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/ids.h"
#include "cpu/client/core/memory/event_shared.h"
#include "pending.h"

/* Flags of events: cudaEventDisableTiming, cudaEventInterprocess. */
enum { FLAG_DISABLE_TIMING = 2, FLAG_INTERPROCESS = 4 };

struct client_event {
    pthread_mutex_t lock; /* what the last record said */
    flyt_id wire;
    core_context *context;
    unsigned flags;
    atomic_uint_fast64_t token;
    struct client_stream *stream; /* NULL: never recorded */
    uint64_t stream_token;        /* to see whether the structure has become another stream's */
    struct point point;
    struct asked asked;
    /* Recorded at another server, from which the session moved: so many ms after (or, negative, before) the context's
       reference event. to_be: the same of a move that is under way. */
    struct recorded_there {
        bool is;
        double ms;
    } there, to_be;
    struct cell cell; /* other processes know it: then this says what was recorded */
    struct client_event *next;
};

extern id_table *event_table; /* every struct client_event, by its token */

#endif
