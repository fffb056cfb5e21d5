/*
 * notify.c: what the server says by itself. The client keeps one EVENTS call outstanding; it is answered when there
 * is something to say, when a newer one comes, or with a beat every FLYT_BEAT_SECONDS.
 */
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"

/* Something to say, in order. kernel: what the event points to. */
struct due {
    struct due *next;
    flyt_event event;
    char kernel[FLYT_MAX_SHORT];
};

static void dues_free(struct due *due)
{
    while (due) {
        struct due *next = due->next;
        free(due);
        due = next;
    }
}

int events_start(struct session *session)
{
    session->events->last = &session->events->first;
    return pthread_mutex_init(&session->events->lock, NULL);
}

void events_stop(struct session *session)
{
    struct events *events = session->events;
    dues_free(events->first);
    events->first = NULL;
    pthread_mutex_destroy(&events->lock);
}

/* Answers the outstanding call with whatever there is. The lock is kept during the reply, so that replies bear their
   serials in order. */
static void events_answer(struct session *session)
{
    FLYT_ASSERT_HELD(&session->events->lock);
    struct events *events = session->events;
    struct due *taken = events->first, **rest = &taken;
    flyt_event said[FLYT_MAX_EVENTS];
    events_result result;
    memset(&result, 0, sizeof result);
    result.serial = ++events->serial;
    while (*rest && result.events.events_len < FLYT_MAX_EVENTS) {
        said[result.events.events_len++] = (*rest)->event;
        rest = &(*rest)->next;
        events->count--;
    }
    events->first = *rest;
    *rest = NULL;
    if (!events->first)
        events->last = &events->first;
    if (events->recall && result.events.events_len < FLYT_MAX_EVENTS) {
        flyt_event *event = &said[result.events.events_len++];
        memset(event, 0, sizeof *event);
        event->kind = FLYT_EVENT_RECALL;
        event->flyt_event_u.recall = (flyt_recall){ events->recall, events->recall_bytes };
        events->recall = 0;
        events->recall_bytes = 0;
    }
    if (*events->lost && result.events.events_len < FLYT_MAX_EVENTS)
        said[result.events.events_len++] = (flyt_event){ .kind = FLYT_EVENT_LOST,
                                                         .flyt_event_u = { .why = events->lost } };
    result.events.events_val = said;
    events->outstanding = false;
    session_say(session, events->xid, &result);
    dues_free(taken);
}

void events_asked(struct session *session, uint32_t xid)
{
    struct events *events = session->events;
    pthread_mutex_lock(&events->lock);
    if (events->outstanding)
        events_answer(session);
    events->outstanding = true;
    events->xid = xid;
    events->beat_at = clock_now() + FLYT_BEAT_SECONDS * CLOCK_NS_PER_SECOND;
    if (events->first || events->recall)
        events_answer(session);
    pthread_mutex_unlock(&events->lock);
}

static void say(struct session *session, const flyt_event *event, const char *kernel)
{
    struct events *events = session->events;
    struct due *due = malloc(sizeof *due);
    if (!due) {
        session_end(session, "no memory left to report a host function, or memory that a kernel wants");
        return;
    }
    due->next = NULL;
    due->event = *event;
    if (kernel) {
        snprintf(due->kernel, sizeof due->kernel, "%s", kernel);
        due->event.flyt_event_u.wanted.kernel = due->kernel;
    }
    pthread_mutex_lock(&events->lock);
    *events->last = due;
    events->last = &due->next;
    events->count++;
    if (events->outstanding)
        events_answer(session);
    pthread_mutex_unlock(&events->lock);
}

void events_due(struct session *session, uint32_t id, int status)
{
    say(session, &(flyt_event){ .kind = FLYT_EVENT_HOST_FUNCTION, .flyt_event_u = { .due = { id, status } } }, NULL);
}

void events_wanted(struct session *session, const flyt_host_wanted *wanted)
{
    say(session, &(flyt_event){ .kind = FLYT_EVENT_HOST_WANTED, .flyt_event_u = { .wanted = *wanted } },
        wanted->kernel);
}

void events_recall(void *context, uint32_t number, uint64_t bytes)
{
    struct session *session = context;
    struct events *events = session->events;
    pthread_mutex_lock(&events->lock);
    events->recall = number;
    events->recall_bytes = bytes > events->recall_bytes ? bytes : events->recall_bytes;
    if (events->outstanding)
        events_answer(session);
    pthread_mutex_unlock(&events->lock);
}

void events_lost(struct session *session, const char *why)
{
    struct events *events = session->events;
    pthread_mutex_lock(&events->lock);
    snprintf(events->lost, sizeof events->lost, "%s", why);
    if (events->outstanding)
        events_answer(session);
    pthread_mutex_unlock(&events->lock);
}

void events_beat(struct session *session, uint64_t now)
{
    struct events *events = session->events;
    pthread_mutex_lock(&events->lock);
    if (events->outstanding && now >= events->beat_at && !atomic_load(&session->pulse.stuck))
        events_answer(session);
    pthread_mutex_unlock(&events->lock);
}
