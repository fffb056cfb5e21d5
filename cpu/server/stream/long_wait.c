/*
 * long_wait.c: threads that sleep in the driver until a marker is complete, so that the end of a long kernel is known
 * at once and costs nothing before.
 *
 * completion.c hands over the first marker of a stream when it has looked for a while. A thread waits for the event
 * (which was made with CU_EVENT_BLOCKING_SYNC, so the driver sleeps too) and then polls as anybody may. There are at
 * most COMPLETION_LONG_WAITS of them, started when first needed; streams beyond that are looked at by the completion
 * thread.
 *
 * While a thread is in the driver with an event, nobody records or destroys it: a client's record is held, and an
 * unused event that becomes free meanwhile is `left` to the thread. A context goes only after long_waits_end.
 */
#include "cpu/server/session.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

/* Gives completion.lock up while the thread is in the driver. */
static void long_wait_attend(struct long_wait *wait)
{
    FLYT_ASSERT_HELD(&wait->session->completion.lock);
    struct session *session = wait->session;
    struct completion *completion = &session->completion;
    pthread_mutex_unlock(&completion->lock);
    if (context_use(session, wait->context) == CUDA_SUCCESS)
        session->gpu->EventSynchronize(wait->event);      /* what it says, completion_poll learns too */
    pthread_mutex_lock(&completion->lock);
    struct record *record = wait->record;
    struct stream *stream = wait->stream;
    CUevent left = wait->left ? wait->event : NULL;
    bool stop = completion->stop;
    if (!stop)
        /* before long_waits_end lets the context end: it may destroy the event */
        record_drop(record);
    wait->event = NULL;
    wait->record = NULL;
    wait->stream = NULL;
    wait->left = false;
    if (left)
        completion_spare(session, wait->context, left);
    pthread_cond_broadcast(&completion->returned);
    pthread_mutex_unlock(&completion->lock);
    if (!stop) {
        if (completion_poll(session, stream))
            completion_rouse(session);                    /* what is next in the stream wants a look */
        stream_drop(session, stream);
    }
    pthread_mutex_lock(&completion->lock);
}

static void *long_wait_main(void *context)
{
    struct long_wait *wait = context;
    struct completion *completion = &wait->session->completion;
    pthread_mutex_lock(&completion->lock);
    while (!completion->stop) {
        if (wait->event)
            long_wait_attend(wait);
        else
            pthread_cond_wait(&wait->wake, &completion->lock);
    }
    pthread_mutex_unlock(&completion->lock);
    return NULL;
}

static bool long_wait_start(struct session *session, struct long_wait *wait)
{
    if (wait->started)
        return true;
    wait->session = session;
    pthread_cond_init(&wait->wake, NULL);
    wait->started = pthread_create(&wait->thread, NULL, long_wait_main, wait) == 0;
    if (!wait->started)
        pthread_cond_destroy(&wait->wake);
    return wait->started;
}

static struct long_wait *long_wait_on(struct completion *completion, CUevent event)
{
    for (int i = 0; i < COMPLETION_LONG_WAITS; i++)
        if (completion->long_waits[i].event == event)
            return &completion->long_waits[i];
    return NULL;
}

bool long_wait_begin(struct session *session, struct stream *stream)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    struct completion *completion = &session->completion;
    struct marker *marker = TREE_OBJECT(tree_first(&stream->markers), struct marker, node);
    if (!marker || long_wait_on(completion, marker->event))
        return true;
    struct long_wait *wait = long_wait_on(completion, NULL);
    if (!wait || !long_wait_start(session, wait))
        return false;
    wait->event = marker->event;
    wait->context = stream->context;
    wait->record = marker->record;
    if (wait->record)
        record_hold(wait->record);
    wait->stream = stream;
    stream_hold(stream);
    pthread_cond_signal(&wait->wake);
    return true;
}

bool long_wait_leave(struct session *session, CUevent event)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    struct long_wait *wait = long_wait_on(&session->completion, event);
    if (wait)
        wait->left = true;
    return wait != NULL;
}

void long_waits_end(struct session *session, const struct context *context)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    struct completion *completion = &session->completion;
    for (int i = 0; i < COMPLETION_LONG_WAITS; i++)
        while (completion->long_waits[i].event && completion->long_waits[i].context == context)
            pthread_cond_wait(&completion->returned, &completion->lock);
}

void long_waits_stop(struct session *session)
{
    struct completion *completion = &session->completion;
    for (int i = 0; i < COMPLETION_LONG_WAITS; i++) {
        struct long_wait *wait = &completion->long_waits[i];
        if (!wait->started)
            continue;
        pthread_mutex_lock(&completion->lock);
        /* behind a kernel without end: the thread stays with the session */
        bool stuck = session->abandoned && wait->event;
        pthread_cond_signal(&wait->wake);
        pthread_mutex_unlock(&completion->lock);
        if (stuck) {
            pthread_detach(wait->thread);
            continue;
        }
        pthread_join(wait->thread, NULL);
        pthread_cond_destroy(&wait->wake);
        wait->started = false;
    }
}
