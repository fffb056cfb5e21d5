/*
 * completion.c: who waits for the device, and the thread that watches it.
 *
 * A marker is an event recorded in a stream behind operation `number`. When the driver says that it is complete, the
 * stream's done number rises, staging memory used up to there is free, and waiters for numbers up to there are
 * finished. Markers of a stream are kept in order of number and only the first is asked about. The streams that have
 * markers form a list; completion_poll goes over it once. Anybody may poll. The thread does so without a pause while the
 * youngest wait is young, so that a short kernel is answered quickly; then it hands the first marker of each stream to a
 * thread that sleeps in the driver (long_wait.c). Where there are more streams than such threads, it looks at intervals in
 * proportion to how long the youngest wait has lasted (1/8, at most 1 ms). It also answers the client's EVENTS in time (events.c).
 *
 * What is told is told in order: the bytes of a copy leave before the news that a host function behind it is due, and
 * before the answer to a synchronisation. So waiters of a stream are kept by number, and from looking at the device until the
 * answers have been sent a thread holds `telling`.
 */
#include "cpu/server/session.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"

enum { COMPLETION_SPIN_NS = 30000, COMPLETION_MIN_NS = 10000, COMPLETION_MAX_NS = 1000000, COMPLETION_MAX_SPARES = 1024 };
#define COMPLETION_IDLE_NS (250 * CLOCK_NS_PER_MS)
#define COMPLETION_ATTENDED_NS (20 * CLOCK_NS_PER_MS)    /* between looks while others wait in the driver */

/* ---- spare events ---- */

void completion_spare(struct session *session, struct device *device, CUevent event)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    if (long_wait_leave(session, event))
        return;
    if (device->spare_count == device->spare_room && device->spare_room < COMPLETION_MAX_SPARES) {
        unsigned room = device->spare_room ? 2 * device->spare_room : 32;
        CUevent *more = realloc(device->spare_events, room * sizeof(CUevent));
        if (more) {
            device->spare_events = more;
            device->spare_room = room;
        }
    }
    if (device->spare_count < device->spare_room)
        device->spare_events[device->spare_count++] = event;
    else
        session->gpu->EventDestroy(event);
}

CUresult completion_event(struct session *session, struct device *device, CUevent *event)
{
    *event = NULL;
    pthread_mutex_lock(&session->completion.lock);
    if (device->spare_count)
        *event = device->spare_events[--device->spare_count];
    pthread_mutex_unlock(&session->completion.lock);
    return *event ? CUDA_SUCCESS : session->gpu->EventCreate(event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

void completion_event_back(struct session *session, struct device *device, CUevent event)
{
    pthread_mutex_lock(&session->completion.lock);
    completion_spare(session, device, event);
    pthread_mutex_unlock(&session->completion.lock);
}

void completion_events_free(struct session *session, struct device *device)
{
    pthread_mutex_lock(&session->completion.lock);
    while (device->spare_count)
        session->gpu->EventDestroy(device->spare_events[--device->spare_count]);
    free(device->spare_events);
    device->spare_events = NULL;
    device->spare_room = 0;
    pthread_mutex_unlock(&session->completion.lock);
}

/* ---- markers and waiters ---- */

/* Under completion.lock. event NULL: of every marker. */
static void completion_passed(struct stream *stream, CUevent event)
{
    for (struct waiter *waiter = stream->waiters; waiter; waiter = waiter->next)
        if (!event || waiter->behind == event)
            waiter->behind = NULL;
}

static void completion_watch(struct completion *completion, struct stream *stream)
{
    FLYT_ASSERT_HELD(&completion->lock);
    if (stream->watched)
        return;
    stream->watched = true;
    stream_hold(stream);
    stream->next_watched = completion->watched;
    completion->watched = stream;
    completion->fresh = true;                         /* nobody waits for it in the driver yet */
    if (atomic_fetch_add(&completion->watching, 1) == 0)
        completion->since = clock_now();
}

CUresult completion_mark(struct session *session, struct stream *stream, CUevent event, struct record *record, uint64_t number)
{
    struct marker *marker = malloc(sizeof *marker);
    if (!marker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *marker = (struct marker){ .event = event, .record = record, .number = number };
    if (record)
        record_hold(record);
    pthread_mutex_lock(&session->completion.lock);
    struct marker **at = &stream->markers;
    while (*at && (*at)->number <= number)
        at = &(*at)->next;
    marker->next = *at;
    *at = marker;
    completion_watch(&session->completion, stream);
    pthread_mutex_unlock(&session->completion.lock);
    return CUDA_SUCCESS;
}

/* Everything that becomes free or due when a stream has come so far, gathered under the lock, dealt with outside. */
struct harvest { struct waiter *waiters, **last; struct slot *slots; struct marker *markers; bool progress; };

static void completion_reach(struct session *session, struct stream *stream, uint64_t number, CUresult result,
                             struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    if (number > atomic_load(&stream->done)) {
        atomic_store(&stream->done, number);
        ledger_progress(session, stream);
        harvest->progress = true;
    }
    number = atomic_load(&stream->done);
    for (struct waiter **at = &stream->waiters; *at;) {
        struct waiter *waiter = *at;
        if (waiter->number > number || waiter->behind) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        waiter->next = NULL;
        waiter->result = result;
        *harvest->last = waiter;
        harvest->last = &waiter->next;
    }
    while (stream->slots && stream->slots->number <= number) {
        struct slot *slot = stream->slots;
        stream->slots = slot->next;
        if (!stream->slots)
            stream->slots_last = &stream->slots;
        slot->next = harvest->slots;
        harvest->slots = slot;
    }
}

/* Beside `telling` at most session.lock is held. */
static void completion_finish(struct session *session, struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.telling);
    while (harvest->markers) {
        struct marker *marker = harvest->markers;
        harvest->markers = marker->next;
        record_drop(marker->record);
        free(marker);
    }
    while (harvest->slots) {
        struct slot *slot = harvest->slots;
        harvest->slots = slot->next;
        staging_give(session, slot);
    }
    while (harvest->waiters) {
        struct waiter *waiter = harvest->waiters;
        harvest->waiters = waiter->next;
        ledger_note(session, waiter->result);
        waiter->finish(session, waiter);
    }
    if (harvest->progress && atomic_load(&session->executor.deferred_calls))
        executor_kick(session);
}

void completion_wait(struct session *session, struct stream *stream, struct waiter *waiter)
{
    struct harvest harvest = { .last = &harvest.waiters };
    pthread_mutex_lock(&session->completion.telling);
    pthread_mutex_lock(&session->completion.lock);
    struct waiter **at = &stream->waiters;
    while (*at && (*at)->number <= waiter->number)
        at = &(*at)->next;
    waiter->next = *at;
    *at = waiter;
    const struct marker *behind = waiter->behind ? stream->markers : NULL;
    while (behind && behind->event != waiter->behind)
        behind = behind->next;
    if (!behind)                                          /* it has been found complete already */
        waiter->behind = NULL;
    if (waiter->number <= atomic_load(&stream->done) && !waiter->behind) {
        completion_reach(session, stream, 0, ledger_sticky(session), &harvest);
    } else {
        session->completion.since = clock_now();          /* a long wait elsewhere must not slow this one down */
        session->completion.fresh = true;
    }
    pthread_mutex_unlock(&session->completion.lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&session->completion.telling);
}

void completion_slot(struct session *session, struct stream *stream, struct slot *slot)
{
    slot->next = NULL;
    pthread_mutex_lock(&session->completion.lock);
    *stream->slots_last = slot;
    stream->slots_last = &slot->next;
    pthread_mutex_unlock(&session->completion.lock);
}

void completion_settle(struct session *session)
{
    pthread_mutex_lock(&session->completion.telling);
    pthread_mutex_unlock(&session->completion.telling);
}

void completion_advance(struct session *session, struct stream *stream, uint64_t number)
{
    struct harvest harvest = { .last = &harvest.waiters };
    pthread_mutex_lock(&session->completion.telling);
    pthread_mutex_lock(&session->completion.lock);
    completion_reach(session, stream, number, CUDA_SUCCESS, &harvest);
    pthread_mutex_unlock(&session->completion.lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&session->completion.telling);
}

/* Asks about one stream's markers. False: the stream has none left. */
static bool completion_ask(struct session *session, struct stream *stream, struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    CUresult unusable = device_use(session, stream->device);
    if (unusable != CUDA_SUCCESS && !stream->device->context)
        return true;                                  /* a reset is going on; completion_abort will come */
    while (stream->markers) {
        struct marker *marker = stream->markers;
        /* A context that a fault has ended cannot even be made current: that fault is the answer. */
        CUresult r = unusable != CUDA_SUCCESS ? unusable : session->gpu->EventQuery(marker->event);
        if (r == CUDA_ERROR_NOT_READY)
            return true;
        stream->markers = marker->next;
        bool speaks = false;
        for (struct waiter *w = stream->waiters; w; w = w->next)
            speaks |= w->speaks && w->number <= marker->number;
        if (speaks)
            session->gpu->EventSynchronize(marker->event);      /* complete: this only makes the driver print */
        ledger_note(session, r);                      /* before it counts as done: a waiter that comes now must learn it too */
        completion_passed(stream, marker->event);
        completion_reach(session, stream, marker->number, r, harvest);
        if (marker->record) {
            marker->next = harvest->markers;
            harvest->markers = marker;
        } else {
            completion_spare(session, stream->device, marker->event);
            free(marker);
        }
    }
    return false;
}

/* The same. The driver may take its time meanwhile: the pulse sees that it is the driver. */
static bool completion_look(struct session *session, struct stream *stream, struct harvest *harvest)
{
    _Atomic bool *in = &session->completion.in_driver;
    atomic_store_explicit(in, true, memory_order_relaxed);
    bool more = completion_ask(session, stream, harvest);
    atomic_store_explicit(in, false, memory_order_relaxed);
    return more;
}

bool completion_poll(struct session *session)
{
    struct completion *completion = &session->completion;
    struct harvest harvest = { .last = &harvest.waiters };
    struct stream *idle = NULL;
    pthread_mutex_lock(&completion->telling);
    pthread_mutex_lock(&completion->lock);
    for (struct stream **at = &completion->watched; *at;) {
        struct stream *stream = *at;
        if (completion_look(session, stream, &harvest)) {
            at = &stream->next_watched;
            continue;
        }
        *at = stream->next_watched;
        stream->watched = false;
        atomic_fetch_sub(&completion->watching, 1);
        stream->next_watched = idle;
        idle = stream;
    }
    if (harvest.progress)
        completion->since = clock_now();
    bool more = completion->watched != NULL;
    /* The references of streams that are no longer watched; none of them can be watched again meanwhile and
       overwrite next_watched, since that needs the lock. */
    while (idle) {
        struct stream *stream = idle;
        idle = stream->next_watched;
        stream_drop(session, stream);
    }
    pthread_mutex_unlock(&completion->lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&completion->telling);
    return more;
}

unsigned completion_lingering(struct session *session, struct device *device, struct stream **out, unsigned room)
{
    unsigned count = 0;
    pthread_mutex_lock(&session->completion.lock);
    for (struct stream *stream = session->completion.watched; stream && count < room; stream = stream->next_watched)
        if (stream->dead && stream->device == device) {
            stream_hold(stream);
            out[count++] = stream;
        }
    pthread_mutex_unlock(&session->completion.lock);
    return count;
}

static void completion_abort_stream(struct session *session, struct stream *stream, CUresult code, struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    while (stream->markers) {
        struct marker *marker = stream->markers;
        stream->markers = marker->next;
        if (!marker->record)
            completion_spare(session, stream->device, marker->event);
        marker->next = harvest->markers;
        harvest->markers = marker;
    }
    completion_passed(stream, NULL);
    completion_reach(session, stream, stream->received, code, harvest);
}

void completion_abort(struct session *session, struct device *device, CUresult code)
{
    struct completion *completion = &session->completion;
    struct harvest harvest = { .last = &harvest.waiters };
    pthread_mutex_lock(&completion->telling);
    pthread_mutex_lock(&completion->lock);
    for (struct stream *stream = device->streams; stream; stream = stream->next_of_device)
        completion_abort_stream(session, stream, code, &harvest);
    /* Destroyed streams with work left are in this list only. */
    for (struct stream **at = &completion->watched; *at;) {
        struct stream *stream = *at;
        if (stream->device != device) {
            at = &stream->next_watched;
            continue;
        }
        completion_abort_stream(session, stream, code, &harvest);
        *at = stream->next_watched;
        stream->watched = false;
        atomic_fetch_sub(&completion->watching, 1);
        stream_drop(session, stream);
    }
    pthread_mutex_unlock(&completion->lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&completion->telling);
    pthread_mutex_lock(&completion->lock);
    long_waits_end(session, device);
    pthread_mutex_unlock(&completion->lock);
}

/* ---- the thread ---- */

static uint64_t completion_pause(uint64_t age)
{
    if (age < COMPLETION_SPIN_NS)
        return 0;
    uint64_t pause = age / 8;
    return pause < COMPLETION_MIN_NS ? COMPLETION_MIN_NS : pause > COMPLETION_MAX_NS ? COMPLETION_MAX_NS : pause;
}

/* How long the thread may sleep. */
static uint64_t completion_rest(struct session *session, uint64_t now)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    struct completion *completion = &session->completion;
    uint64_t pause = completion_pause(now > completion->since ? now - completion->since : 0);
    bool attended = pause > 0;
    for (struct stream *stream = attended ? completion->watched : NULL; stream; stream = stream->next_watched)
        attended = long_wait_begin(session, stream) && attended;
    return attended ? COMPLETION_ATTENDED_NS : pause;
}

static void *completion_main(void *context)
{
    prctl(PR_SET_NAME, "flyt-completion");
    struct session *session = context;
    struct completion *completion = &session->completion;
    for (;;) {
        bool more = completion_poll(session);
        uint64_t now = clock_now();
        atomic_store_explicit(&completion->turns, atomic_load_explicit(&completion->turns, memory_order_relaxed) + 1, memory_order_relaxed);
        events_beat(session, now);
        pthread_mutex_lock(&completion->lock);
        if (completion->stop) {
            pthread_mutex_unlock(&completion->lock);
            return NULL;
        }
        uint64_t pause = COMPLETION_IDLE_NS;
        if (more || completion->watched) {
            pause = completion_rest(session, now);
        } else {
            completion->asleep = true;
        }
        if (!pause) {
            pthread_mutex_unlock(&completion->lock);
            sched_yield();
            continue;
        }
        struct timespec until = clock_timespec(now + pause);
        pthread_cond_clockwait(&completion->wake, &completion->lock, CLOCK_MONOTONIC, &until);
        completion->asleep = false;
        pthread_mutex_unlock(&completion->lock);
    }
}

void completion_wake(struct session *session)
{
    struct completion *completion = &session->completion;
    if (atomic_load_explicit(&completion->watching, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&completion->lock);
    if ((completion->asleep || completion->fresh) && completion->watched) {
        completion->asleep = completion->fresh = false;
        pthread_cond_signal(&completion->wake);
    }
    pthread_mutex_unlock(&completion->lock);
}

void completion_rouse(struct session *session)
{
    struct completion *completion = &session->completion;
    pthread_mutex_lock(&completion->lock);
    completion->since = clock_now();
    completion->fresh = false;
    pthread_cond_signal(&completion->wake);
    pthread_mutex_unlock(&completion->lock);
}

int completion_start(struct session *session)
{
    pthread_cond_init(&session->completion.wake, NULL);
    pthread_cond_init(&session->completion.returned, NULL);
    int r = pthread_create(&session->completion.thread, NULL, completion_main, session);
    session->completion.started = r == 0;
    return r;
}

void completion_stop(struct session *session)
{
    struct completion *completion = &session->completion;
    if (!completion->started)
        return;
    pthread_mutex_lock(&completion->lock);
    completion->stop = true;
    pthread_cond_signal(&completion->wake);
    pthread_mutex_unlock(&completion->lock);
    pthread_join(completion->thread, NULL);
    completion->started = false;
    long_waits_stop(session);
    pthread_cond_destroy(&completion->wake);
    if (!session->abandoned)
        pthread_cond_destroy(&completion->returned);
}
