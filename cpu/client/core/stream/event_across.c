/*
 * event_across.c: a stream waits for an event of another server.
 *
 * The event's server is asked to say when the event is complete; the stream's server waits for this process meanwhile,
 * as for a host function. So no thread waits, and streams of two servers can wait for each other's events in any order.
 */
#include <stdlib.h>

#include "context.h"
#include "event_state.h"
#include "host_function.h"
#include "op.h"
#include "pending.h"
#include "pool_notes.h"
#include "cpu/client/core/wire/state.h"

struct wait_across {
    struct wire_call call;            /* first: across_arrived finds the rest by it */
    event_args args;
    plain_result result;
    struct client_session *session;   /* of the stream */
    flyt_id held;
};

static void across_arrived(struct wire_call *call)
{
    struct wait_across *w = (struct wait_across *)call;
    if (call->result)
        session_fail(w->session, "a wait for an event of another GPU server", call->result);
    host_function_release(w->held);
    xdr_free((xdrproc_t)xdr_plain_result, &w->result);
    free(w);
}

int event_across_op(struct client_stream *s, const struct op *op)
{
    struct client_event *e = op->event.event;
    pthread_mutex_lock(&e->lock);
    const struct client_stream *on = e->stream;
    const struct point before = e->point;
    uint64_t token = e->stream_token;
    pthread_mutex_unlock(&e->lock);
    struct wait_across *w = on ? malloc(sizeof *w) : NULL;
    if (!w)
        return on ? CORE_OUT_OF_MEMORY : CORE_OK;     /* never recorded: nothing to wait for */
    pool_note_wait(s, atomic_load(&s->sent), on, token, before.number);
    *w = (struct wait_across){ .args = { .event = e->wire }, .session = s->context->session };
    wire_prepare(&w->call, FLYT_EVENT_SYNC, (xdrproc_t)xdr_event_args, &w->args, (xdrproc_t)xdr_plain_result,
                 &w->result);
    int code = host_function_hold(s, &w->held);
    if (code) {
        free(w);
        return code;
    }
    const struct point behind = stream_point(s);
    wire_submit_detached(e->context->session, &w->call, across_arrived);      /* w is not ours any more */
    rpc_client_flush(e->context->session->client);
    pending_join(&before, &behind);
    return CORE_OK;
}
