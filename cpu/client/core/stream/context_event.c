/*
 * context_event.c: events for a whole context (cuCtxRecordEvent, cuCtxWaitEvent), made of events of its streams.
 *
 * A record: a stream of our own waits for each stream of the context that has work, and the event is recorded there. A
 * wait: each stream waits for the event. What waits for a stream that does not exist yet is kept as the context's gate,
 * an event that is recorded behind all that the context must wait for: a new stream waits for it first
 * (stream_pass_gate).
 */
#include <stdlib.h>

#include "cpu/client/core/api_stream.h"
#include "cpu/common/cancel.h"
#include "context.h"

enum { NO_TIMING = 2 };

/* The stream waits for all that the other one has been given; `between` is an event of our own. */
static int follow(core_context *c, core_stream stream, core_stream other, core_event between)
{
    struct client_stream *s;
    if (client_stream_find(c, other, &s) || stream_alone_idle(s))
        return CORE_OK;
    int code = core_event_record(c, between, other, 0);
    if (code == CORE_INVALID_HANDLE)
        return CORE_OK;                       /* another thread has destroyed the stream meanwhile */
    return code ? code : core_stream_wait(c, stream, between, 0);
}

static int gather(core_context *c, core_stream stream, core_event event)
{
    core_stream *streams;
    core_event between;
    unsigned count;
    int code = stream_list(c, &streams, &count);
    if (code || (code = core_event_create(c, NO_TIMING, &between))) {
        free(streams);
        return code;
    }
    for (unsigned i = 0; i < count && !code; i++)
        code = streams[i] == stream ? CORE_OK : follow(c, stream, streams[i], between);
    if (!code)
        code = core_event_record(c, event, stream, 0);
    core_event_destroy(between);
    free(streams);
    return code;
}

int core_context_record(core_context *c, core_event event)
{
    CANCEL_DEFERRED;
    core_stream own;
    int code = core_event_check(event);
    if (code || (code = core_stream_create(c, STREAM_NON_BLOCKING, 0, &own)))
        return code;
    code = gather(c, own, event);
    core_stream_destroy(own);
    return code;
}

/* Under the context's lock. */
static int gate_move(core_context *c, core_event event)
{
    core_stream own;
    core_event gate = atomic_load(&c->gate);
    int code = gate ? CORE_OK : core_event_create(c, NO_TIMING, &gate);
    if (code || (code = core_stream_create(c, STREAM_NON_BLOCKING, 0, &own)))  /* it passes the gate, if there is one */
        return code;
    code = core_stream_wait(c, own, event, 0);
    if (!code)
        code = core_event_record(c, gate, own, 0);
    core_stream_destroy(own);
    if (!code)
        atomic_store(&c->gate, gate);
    return code;
}

int core_context_wait(core_context *c, core_event event)
{
    CANCEL_DEFERRED;
    core_stream *streams = NULL;
    unsigned count = 0;
    int code = core_event_check(event);
    if (code || (code = context_enter(c)))    /* before the lock: a promised context is settled under it */
        return code;
    pthread_mutex_lock(&c->lock);
    code = gate_move(c, event);
    pthread_mutex_unlock(&c->lock);
    /* Those that are made from here on pass the gate. */
    if (!code)
        code = stream_list(c, &streams, &count);
    for (unsigned i = 0; i < count && !code; i++) {
        code = core_stream_wait(c, streams[i], event, 0);
        code = code == CORE_INVALID_HANDLE ? CORE_OK : code;
    }
    free(streams);
    return code;
}
