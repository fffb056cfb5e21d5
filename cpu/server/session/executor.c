/*
 * executor.c: the thread that serves queued calls in order, gives deferred operations to the driver when their turn has
 * come, and goes on with work of the server's own (inside.c). Operations deferred in streams are bounded like the
 * queue: while there are too many, the executor takes no further call and only issues what becomes possible. Small
 * collectives that it has kept back for others of their kind are let go before it sleeps.
 */
#include "cpu/server/comm/comms.h"
#include "cpu/server/session.h"
#include "cpu/server/stream/inside.h"

#include <stdlib.h>
#include <sys/prctl.h>

static void *executor_main(void *context)
{
    prctl(PR_SET_NAME, "flyt-executor");
    struct session *session = context;
    struct executor *e = &session->executor;
    bool stalled = false;
    for (;;) {
        struct queued *queued = executor_next(session, stalled);
        pthread_mutex_lock(&session->lock);
        if (e->stop) {
            pthread_mutex_unlock(&session->lock);
            if (queued) {
                rpc_request_free(queued->request);
                free(queued);
            }
            return NULL;
        }
        executor_serving(session);
        if (atomic_exchange(&e->kick, false)) {
            insides_serve(session);
            deferred_issue(session);
        }
        if (queued)
            call_serve(session, queued->procedure, queued->request);
        stalled = e->deferred_calls >= SESSION_DEFERRED_CALLS || e->deferred_bytes >= SESSION_DEFERRED_BYTES;
        executor_served(session);
        pthread_mutex_unlock(&session->lock);
        if (queued) {
            rpc_request_free(queued->request);
            free(queued);
            atomic_fetch_sub(&e->unserved, 1);
        }
        completion_wake(session);
        if (comms_keep_some(session) && executor_rests(session, stalled))
            comms_let_go(session);
    }
}

int executor_start(struct session *session)
{
    struct executor *e = &session->executor;
    int r = pthread_create(&e->thread, NULL, executor_main, session);
    e->started = r == 0;
    return r;
}

void executor_stop(struct session *session)
{
    struct executor *e = &session->executor;
    if (e->started) {
        pthread_mutex_lock(&session->lock);
        pthread_mutex_lock(&e->queue_lock);
        e->stop = true;
        pthread_cond_broadcast(&e->wake);
        pthread_cond_broadcast(&e->room);
        pthread_mutex_unlock(&e->queue_lock);
        pthread_mutex_unlock(&session->lock);
        pthread_join(e->thread, NULL);
        e->started = false;
    }
}
