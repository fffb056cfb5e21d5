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

static struct {
    pthread_mutex_t     lock;
    struct events_call *first, **last;
    unsigned            acknowledged;
    rpc_client         *client;
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER };

void events_open(rpc_client *client)
{
    pthread_mutex_lock(&queue.lock);
    queue.client = client;
    queue.acknowledged = 0;
    pthread_mutex_unlock(&queue.lock);
}

bool events_send(const flyt_id *ids, unsigned count)
{
    struct events_call *call = calloc(1, sizeof *call);
    if (!call)
        return false;
    pthread_mutex_lock(&queue.lock);
    call->args.acknowledged = queue.acknowledged;
    call->args.host_functions_done.host_functions_done_len = count;
    /* read before submit returns */
    call->args.host_functions_done.host_functions_done_val = (flyt_id *)(uintptr_t)ids;
    wire_prepare(&call->wire, FLYT_EVENTS, (xdrproc_t)xdr_events_args, &call->args, (xdrproc_t)xdr_events_result,
                 &call->result);
    if (!queue.first)
        queue.last = &queue.first;
    *queue.last = call;
    queue.last = &call->next;
    rpc_client *client = queue.client;
    wire_submit_to(client, &call->wire);      /* under the lock: the queue is in the order sent */
    pthread_mutex_unlock(&queue.lock);
    rpc_client_flush(client);
    return true;
}

void events_tell_done(const flyt_id *ids, unsigned count)
{
    for (unsigned at = 0; at < count; at += FLYT_MAX_EVENTS)
        if (!events_send(ids + at, count - at < FLYT_MAX_EVENTS ? count - at : FLYT_MAX_EVENTS))
            session_lost(NULL, "no memory is left to tell the server that a host function has ended");
}

struct events_call *events_oldest(void)
{
    pthread_mutex_lock(&queue.lock);
    struct events_call *call = queue.first;
    pthread_mutex_unlock(&queue.lock);
    return call;
}

bool events_ended(struct events_call *call, bool answered)
{
    pthread_mutex_lock(&queue.lock);
    if (answered)
        queue.acknowledged = call->result.serial;
    queue.first = call->next;
    bool none_left = !queue.first;
    pthread_mutex_unlock(&queue.lock);
    return none_left;
}
