/*
 * helper.c: the thread that keeps an EVENTS call outstanding, and so always has somebody read the connection.
 *
 * Usually one EVENTS call is out. When host functions have ended, another is sent at once to say so; the server
 * then answers the older one. So the calls form a queue: the thread attends the oldest, acts on its answer, and
 * sends a new one when none is left.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "internal.h"

struct events_call {
    struct wire_call    wire;
    events_args         args;
    events_result       result;
    struct events_call *next;
};

static struct {
    pthread_mutex_t     lock;
    struct events_call *first, **last;
    unsigned            acknowledged;
} helper = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool events_send(const flyt_id *ids, unsigned count)
{
    struct events_call *call = calloc(1, sizeof *call);
    if (!call)
        return false;
    pthread_mutex_lock(&helper.lock);
    call->args.acknowledged = helper.acknowledged;
    call->args.host_functions_done.host_functions_done_len = count;
    call->args.host_functions_done.host_functions_done_val = (flyt_id *)(uintptr_t)ids;   /* read before submit returns */
    wire_prepare(&call->wire, FLYT_EVENTS, (xdrproc_t)xdr_events_args, &call->args, (xdrproc_t)xdr_events_result, &call->result);
    if (!helper.first)
        helper.last = &helper.first;
    *helper.last = call;
    helper.last = &call->next;
    wire_submit(&call->wire);                 /* under the lock: the queue is in the order sent */
    pthread_mutex_unlock(&helper.lock);
    rpc_client_flush(core_session.client);
    return true;
}

void helper_tell_done(const flyt_id *ids, unsigned count)
{
    for (unsigned at = 0; at < count; at += FLYT_MAX_EVENTS)
        if (!events_send(ids + at, count - at < FLYT_MAX_EVENTS ? count - at : FLYT_MAX_EVENTS))
            session_lost(NULL, "no memory is left to tell the server that a host function has ended");
}

static void act(const flyt_event *event)
{
    switch (event->kind) {
    case FLYT_EVENT_HOST_FUNCTION:
        host_function_due(event->flyt_event_u.due.id, event->flyt_event_u.due.status);
        break;
    case FLYT_EVENT_TEXT:
        wire_queue_text(&event->flyt_event_u.text);
        break;
    case FLYT_EVENT_RECALL:
        memory_recall(event->flyt_event_u.recall.number, event->flyt_event_u.recall.bytes);
        break;
    case FLYT_EVENT_LOST:
        session_lost(NULL, event->flyt_event_u.why);
        rpc_client_shutdown(core_session.client);
        break;
    case FLYT_EVENT_BEAT:
    case FLYT_EVENT_LIMITS:
    case FLYT_EVENT_MOVING:
        break;
    }
}

static void *helper_run(void *unused)
{
    (void)unused;
    cancel_state_off();
    for (;;) {
        pthread_mutex_lock(&helper.lock);
        struct events_call *call = helper.first;
        pthread_mutex_unlock(&helper.lock);
        bool answered = wire_attend(&call->wire);
        pthread_mutex_lock(&helper.lock);
        if (answered)
            helper.acknowledged = call->result.serial;
        helper.first = call->next;
        bool none_left = !helper.first;
        pthread_mutex_unlock(&helper.lock);
        /* The next call goes out first, so that the server can speak while we act. */
        if (answered && none_left && !events_send(NULL, 0))
            session_lost(NULL, "no memory is left to listen to the server");
        if (answered)
            for (unsigned i = 0; i < call->result.events.events_len; i++)
                act(&call->result.events.events_val[i]);
        if (answered)
            memory_tend();
        wire_print_texts();
        xdr_free((xdrproc_t)xdr_events_result, &call->result);
        free(call);
        pthread_mutex_lock(&helper.lock);
        none_left = !helper.first;
        pthread_mutex_unlock(&helper.lock);
        if (none_left)
            return NULL;                      /* the connection is gone */
    }
}

int helper_start(void)
{
    if (!events_send(NULL, 0))
        return CORE_OUT_OF_MEMORY;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, helper_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        log_error("cannot start the thread that listens to the GPU server: %s", strerror(error));
        return CORE_OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    return CORE_OK;
}
