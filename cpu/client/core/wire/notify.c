/*
 * notify.c: the EVENTS calls that are outstanding.
 *
 * Usually one is out. When host functions have ended, another is sent at once to say so; the server then answers the
 * older one. So the calls form a queue: the helper attends the oldest (helper.c).
 */
#include <pthread.h>
#include <stdlib.h>

#include "notify.h"
#include "state.h"

void events_open(struct client_session *session)
{
    pthread_mutex_lock(&session->events.lock);
    session->events.client = session->client;
    session->events.acknowledged = 0;
    pthread_mutex_unlock(&session->events.lock);
}

bool events_send(struct client_session *session, const flyt_id *ids, unsigned count)
{
    struct events_call *call = calloc(1, sizeof *call);
    if (!call)
        return false;
    pthread_mutex_lock(&session->events.lock);
    call->args.acknowledged = session->events.acknowledged;
    call->args.host_functions_done.host_functions_done_len = count;
    /* read before submit returns */
    call->args.host_functions_done.host_functions_done_val = (flyt_id *)(uintptr_t)ids;
    wire_prepare(&call->wire, FLYT_EVENTS, (xdrproc_t)xdr_events_args, &call->args, (xdrproc_t)xdr_events_result,
                 &call->result);
    if (!session->events.first)
        session->events.last = &session->events.first;
    *session->events.last = call;
    session->events.last = &call->next;
    rpc_client *client = session->events.client;
    wire_submit_to(session, client, &call->wire);      /* under the lock: the queue is in the order sent */
    pthread_mutex_unlock(&session->events.lock);
    rpc_client_flush(client);
    return true;
}

void events_tell_done(struct client_session *session, const flyt_id *ids, unsigned count)
{
    for (unsigned at = 0; at < count; at += FLYT_MAX_EVENTS)
        if (!events_send(session, ids + at, count - at < FLYT_MAX_EVENTS ? count - at : FLYT_MAX_EVENTS))
            session_lost(session, "no memory is left to tell the server that a host function has ended");
}

struct events_call *events_oldest(struct client_session *session)
{
    pthread_mutex_lock(&session->events.lock);
    struct events_call *call = session->events.first;
    pthread_mutex_unlock(&session->events.lock);
    return call;
}

bool events_ended(struct client_session *session, struct events_call *call, bool answered)
{
    pthread_mutex_lock(&session->events.lock);
    if (answered)
        session->events.acknowledged = call->result.serial;
    session->events.first = call->next;
    bool none_left = !session->events.first;
    pthread_mutex_unlock(&session->events.lock);
    return none_left;
}
