/*
 * executor_queue.c: the queue between reader and executor. The thread that serves it is in executor.c.
 *
 * The queue is bounded in calls and bytes: when it is full the reader stops reading, TCP fills up, the client
 * waits, and hears from the pulse that the server lives. The bounds grow eightfold while a host function is
 * outstanding, since its end travels behind what the client has sent.
 */
#include "cpu/server/session.h"
#include "cpu/server/stream/host_function.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

static bool executor_full(struct session *session)
{
    struct executor *e = &session->executor;
    unsigned factor = atomic_load(&session->host_functions->count) ? 8 : 1;
    return e->calls >= SESSION_QUEUE_CALLS * factor || e->bytes >= SESSION_QUEUE_BYTES * factor;
}

int executor_push(struct session *session, const struct procedure *procedure, rpc_request *request)
{
    struct executor *e = &session->executor;
    struct queued *queued = malloc(sizeof *queued);
    request = queued ? rpc_request_keep(request) : NULL;
    if (!request) {
        free(queued);
        return -1;
    }
    *queued = (struct queued){ .procedure = procedure, .request = request };
    pthread_mutex_lock(&e->queue_lock);
    while (executor_full(session) && !e->stop && !atomic_load(&session->ended)) {
        atomic_store(&e->full, true);
        pthread_cond_wait(&e->room, &e->queue_lock);
    }
    atomic_store(&e->full, false);
    atomic_fetch_add(&e->unserved, 1);
    *e->last = queued;
    e->last = &queued->next;
    e->calls++;
    e->bytes += rpc_request_size(request);
    if (e->asleep)
        pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->queue_lock);
    return 0;
}

bool executor_idle(struct session *session)
{
    return atomic_load(&session->executor.unserved) == 0;
}

void executor_kick(struct session *session)
{
    struct executor *e = &session->executor;
    if (atomic_exchange(&e->kick, true))
        return;
    pthread_mutex_lock(&e->queue_lock);
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->queue_lock);
}

void executor_ended(struct session *session)
{
    struct executor *e = &session->executor;
    pthread_mutex_lock(&e->queue_lock);
    pthread_cond_broadcast(&e->room);
    pthread_mutex_unlock(&e->queue_lock);
}

/* Only under session.lock, so no locked instruction is needed; relaxed: nothing else is concluded from the numbers. */
static void add_served(struct session *session, unsigned more)
{
    FLYT_ASSERT_HELD(&session->lock);
    _Atomic uint64_t *served = &session->executor.served;
    atomic_store_explicit(served, atomic_load_explicit(served, memory_order_relaxed) + more, memory_order_relaxed);
}

void executor_serving(struct session *session) { add_served(session, 1); }
void executor_served(struct session *session) { add_served(session, 1); }
void executor_moved(struct session *session) { add_served(session, 2); }

void executor_driver_enter(struct session *session)
{
    FLYT_ASSERT_HELD(&session->lock);
    _Atomic unsigned *in = &session->executor.in_driver;
    atomic_store_explicit(in, atomic_load_explicit(in, memory_order_relaxed) + 1, memory_order_relaxed);
}

void executor_driver_leave(struct session *session)
{
    FLYT_ASSERT_HELD(&session->lock);
    _Atomic unsigned *in = &session->executor.in_driver;
    atomic_store_explicit(in, atomic_load_explicit(in, memory_order_relaxed) - 1, memory_order_relaxed);
}

bool executor_rests(struct session *session, bool stalled)
{
    struct executor *e = &session->executor;
    pthread_mutex_lock(&e->queue_lock);
    bool rests = !e->stop && !atomic_load(&e->kick) && (stalled || !e->first);
    pthread_mutex_unlock(&e->queue_lock);
    return rests;
}

struct queued *executor_next(struct session *session, bool stalled)
{
    struct executor *e = &session->executor;
    pthread_mutex_lock(&e->queue_lock);
    while (!e->stop && !atomic_load(&e->kick) && (stalled || !e->first)) {
        e->asleep = true;
        pthread_cond_wait(&e->wake, &e->queue_lock);
        e->asleep = false;
    }
    struct queued *queued = NULL;
    if (!e->stop && !stalled && e->first) {
        queued = e->first;
        e->first = queued->next;
        if (!e->first)
            e->last = &e->first;
        bool was_full = executor_full(session);
        e->calls--;
        e->bytes -= rpc_request_size(queued->request);
        if (was_full && !executor_full(session))
            pthread_cond_signal(&e->room);
    }
    pthread_mutex_unlock(&e->queue_lock);
    return queued;
}

void executor_open(struct session *session)
{
    struct executor *e = &session->executor;
    e->last = &e->first;
    pthread_mutex_init(&e->queue_lock, NULL);
    pthread_cond_init(&e->wake, NULL);
    pthread_cond_init(&e->room, NULL);
}

void executor_free(struct session *session)
{
    struct executor *e = &session->executor;
    while (e->first) {
        struct queued *next = e->first->next;
        rpc_request_free(e->first->request);
        free(e->first);
        e->first = next;
    }
    pthread_mutex_destroy(&e->queue_lock);
    pthread_cond_destroy(&e->wake);
    pthread_cond_destroy(&e->room);
}
