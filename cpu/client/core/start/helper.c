/*
 * helper.c: the thread of each session that keeps an EVENTS call outstanding, and so always has somebody read the
 * connection. It attends the oldest one (notify.c), acts on its answer, and sends a new one when none is left.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/copy/lanes.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/journal.h"
#include "cpu/client/core/wire/notify.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/start/helper.h"
#include "cpu/client/core/moves/mover.h"
#include "cpu/client/core/moves/recover_report.h"
#include "cpu/client/core/wire/state.h"

/* A session that moves gives no memory back: the server does without the answer. */
static void recall(struct client_session *session, const flyt_recall *wanted)
{
    if (!helper_act())
        return;
    memory_recall(session, wanted->number, wanted->bytes);
    helper_acted();
}

static void tend(void)
{
    if (!helper_act())
        return;
    memory_tend();
    helper_acted();
}

static void act(struct client_session *session, rpc_client *client, const flyt_event *event)
{
    switch (event->kind) {
    case FLYT_EVENT_HOST_FUNCTION:
        host_function_due(session, event->flyt_event_u.due.id, event->flyt_event_u.due.status);
        break;
    case FLYT_EVENT_TEXT:
        wire_queue_text(&event->flyt_event_u.text);
        break;
    case FLYT_EVENT_RECALL:
        recall(session, &event->flyt_event_u.recall);
        break;
    case FLYT_EVENT_LOST:
        if (journal_on()) {
            rpc_client_break(client, event->flyt_event_u.why);
            break;
        }
        session_lost(session, event->flyt_event_u.why);
        rpc_client_shutdown(client);
        break;
    case FLYT_EVENT_HOST_WANTED:
        /* The server asks also where this side does without the window. The kernel waits until it has an answer. */
        if (mirror_room)
            mirror_room->wanted(session, &event->flyt_event_u.wanted);
        else
            mirror_call_served(session, event->flyt_event_u.wanted.id, CORE_INVALID_VALUE);
        break;
    case FLYT_EVENT_BEAT:
    case FLYT_EVENT_LIMITS:
    case FLYT_EVENT_MOVING:
        break;
    }
}

static void *helper_run(void *of)
{
    struct client_session *session = of;
    bool first = session == &core_session;
    cancel_state_off();
    gate_pass();
    for (;;) {
        struct events_call *call = events_oldest(session);
        bool answered = wire_attend(&call->wire), none_left = events_ended(session, call, answered);
        /* The next call goes out first, so that the server can speak while we act. */
        if (answered && none_left && !events_send(session, NULL, 0))
            session_lost(session, "no memory is left to listen to the server");
        if (answered)
            for (unsigned i = 0; i < call->result.events.events_len; i++)
                act(session, call->wire.client, &call->result.events.events_val[i]);
        if (answered)
            tend();
        if (answered && first) {
            lanes_look();                     /* at least every FLYT_BEAT_SECONDS */
            mover_look();
            recover_report();
        }
        wire_print_texts();
        xdr_free((xdrproc_t)xdr_events_result, &call->result);
        free(call);
        if (!events_oldest(session) && !helper_await(session))
            return NULL;
    }
}

int helper_start(struct client_session *session)
{
    if (!helper_listen(session))
        return CORE_OUT_OF_MEMORY;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, helper_run, session);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        log_error("cannot start the thread that listens to the GPU server: %s", strerror(error));
        return CORE_OUT_OF_MEMORY;
    }
    pthread_detach(thread);
    return CORE_OK;
}
