/*
 * notify.c: the EVENTS calls that are outstanding.
 *
 * Usually one is out. When host functions have ended, another is sent at once to say so; the server then answers the
 * older one. So the calls form a queue: the helper attends the oldest (start/helper.c).
 *
 * The first session's helper lives as long as the process: when its connection has ended, it waits for the next one,
 * which comes if the session moves. Another session's helper ends with its connection.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "notify.h"
#include "state.h"

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

/* ---- the helper ---- */

static pthread_mutex_t acting = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pthread_mutex_t lock;         /* of client_session.listened */
    pthread_cond_t  changed;
} listening = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void listened_set(struct client_session *session, bool listened)
{
    pthread_mutex_lock(&listening.lock);
    session->listened = listened;
    pthread_cond_broadcast(&listening.changed);
    pthread_mutex_unlock(&listening.lock);
}

static void listened_await(const struct client_session *session, bool listened)
{
    pthread_mutex_lock(&listening.lock);
    while (session->listened != listened)
        pthread_cond_wait(&listening.changed, &listening.lock);
    pthread_mutex_unlock(&listening.lock);
}

/* From here on calls go to the session's present server; none is outstanding. */
static void events_open(struct client_session *session)
{
    pthread_mutex_lock(&session->events.lock);
    session->events.client = session->client;
    session->events.acknowledged = 0;
    pthread_mutex_unlock(&session->events.lock);
}

bool helper_listen(struct client_session *session)
{
    events_open(session);
    if (!events_send(session, NULL, 0))
        return false;
    listened_set(session, true);
    return true;
}

bool helper_await(struct client_session *session)
{
    listened_set(session, false);
    if (session != &core_session)
        return false;
    listened_await(session, true);
    return true;
}

bool helper_act(void)
{
    pthread_mutex_lock(&acting);
    if (!session_moving())
        return true;
    pthread_mutex_unlock(&acting);
    return false;
}

void helper_acted(void) { pthread_mutex_unlock(&acting); }

void helper_rest(void)
{
    pthread_mutex_lock(&acting);
    pthread_mutex_unlock(&acting);
}

void helper_end(rpc_client *client)
{
    CANCEL_OFF;
    rpc_client_shutdown(client);
    listened_await(&core_session, false);
}
