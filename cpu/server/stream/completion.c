/*
 * completion.c: who waits for the device, and the thread that watches it.
 *
 * A marker is an event recorded in a stream behind operation `number`. When the driver says that it is complete, the
 * stream's done number rises, staging memory used up to there is free, and waiters for numbers up to there are
 * finished. Markers of a stream are kept in order of number and only the first is asked about. The streams that have
 * markers stand in two lines, those that somebody waits for and the others; completion_poll looks at some of both,
 * however many there are, and puts them at the end. Anybody may poll. The thread goes round all of them without a pause
 * while the youngest wait is young, so that a short kernel is answered quickly; then it hands the first marker of each
 * stream to a thread that sleeps in the driver (long_wait.c). Where there are more streams than such threads, it looks
 * at intervals in proportion to how long the youngest wait has lasted (1/8, at most 1 ms). It also answers the client's
 * EVENTS in time (notify.c).
 *
 * Replies are sent in order: the bytes of a copy leave before the news that a host function behind it is due, and
 * before the answer to a synchronisation. So waiters of a stream are kept by number, and from looking at the device
 * until the answers have been sent a thread holds `reporting`.
 */
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "cpu/common/clock.h"
#include "cpu/common/lock.h"

enum { COMPLETION_SPIN_NS = 30000, COMPLETION_MIN_NS = 10000, COMPLETION_MAX_NS = 1000000, COMPLETION_MAX_SPARES = 1024,
       COMPLETION_LOOKS = 32 };           /* streams of either line that one poll looks at */
#define COMPLETION_IDLE_NS (250 * CLOCK_NS_PER_MS)
#define COMPLETION_ATTENDED_NS (20 * CLOCK_NS_PER_MS)    /* between looks while others wait in the driver */

/* ---- unused events ---- */

void completion_spare(struct session *session, struct context *context, CUevent event)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    if (long_wait_leave(session, event))
        return;
    if (context->spare_count == context->spare_room && context->spare_room < COMPLETION_MAX_SPARES) {
        unsigned room = context->spare_room ? 2 * context->spare_room : 32;
        CUevent *more = realloc(context->spare_events, room * sizeof(CUevent));
        if (more) {
            context->spare_events = more;
            context->spare_room = room;
        }
    }
    if (context->spare_count < context->spare_room)
        context->spare_events[context->spare_count++] = event;
    else
        session->gpu->EventDestroy(event);
}

CUresult completion_event(struct session *session, struct context *context, CUevent *event)
{
    *event = NULL;
    pthread_mutex_lock(&session->completion.lock);
    if (context->spare_count)
        *event = context->spare_events[--context->spare_count];
    pthread_mutex_unlock(&session->completion.lock);
    return *event ? CUDA_SUCCESS : session->gpu->EventCreate(event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
}

void completion_event_back(struct session *session, struct context *context, CUevent event)
{
    pthread_mutex_lock(&session->completion.lock);
    completion_spare(session, context, event);
    pthread_mutex_unlock(&session->completion.lock);
}

void completion_events_free(struct session *session, struct context *context)
{
    pthread_mutex_lock(&session->completion.lock);
    while (context->spare_count)
        session->gpu->EventDestroy(context->spare_events[--context->spare_count]);
    free(context->spare_events);
    context->spare_events = NULL;
    context->spare_room = 0;
    pthread_mutex_unlock(&session->completion.lock);
}

/* ---- markers and waiters ---- */

#define MARKER(link) TREE_OBJECT(link, struct marker, node)
#define WAITER(link) TREE_OBJECT(link, struct waiter, node)

static struct marker *marker_first(const struct stream *stream) { return MARKER(tree_first(&stream->markers)); }
static struct waiter *waiter_first(const struct stream *stream) { return WAITER(tree_first(&stream->waiters)); }

/* At the end of the line that the stream belongs into now. */
static void completion_queue(struct completion *completion, struct stream *stream)
{
    FLYT_ASSERT_HELD(&completion->lock);
    list_remove(&stream->watched);
    list_append(stream->waiting ? &completion->awaited : &completion->watched, &stream->watched);
}

static void completion_watch(struct completion *completion, struct stream *stream)
{
    FLYT_ASSERT_HELD(&completion->lock);
    if (list_linked(&stream->watched))
        return;
    stream_hold(stream);
    completion_queue(completion, stream);
    completion->fresh = true;                         /* nobody waits for it in the driver yet */
    if (atomic_fetch_add(&completion->watching, 1) == 0)
        completion->since = clock_now();
}

/* The reference is the caller's now. */
static void completion_unwatch(struct completion *completion, struct stream *stream)
{
    FLYT_ASSERT_HELD(&completion->lock);
    list_remove(&stream->watched);
    atomic_fetch_sub(&completion->watching, 1);
}

/* Takes the marker out of the stream. Whoever is behind it has only its number to wait for. */
static void marker_remove(struct stream *stream, struct marker *marker)
{
    tree_remove(&stream->markers, &marker->node);
    if (marker->waiter)
        tree_insert(&stream->waiters, &marker->waiter->node);
    marker->waiter = NULL;
}

CUresult completion_mark(struct session *session, struct stream *stream, CUevent event, struct record *record,
                         uint64_t number, uint64_t *serial)
{
    struct marker *marker = malloc(sizeof *marker);
    if (!marker)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *marker = (struct marker){ .event = event, .record = record, .node.key = number };
    if (number >= stream->issued)
        marker->entered = stream->entered;                /* else later operations are counted, too */
    if (record)
        record_hold(record);
    pthread_mutex_lock(&session->completion.lock);
    marker->node.tie = ++session->completion.serial;
    if (serial)
        *serial = marker->node.tie;
    tree_insert(&stream->markers, &marker->node);
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
        if (!stream->inner)
            report_progress(session, stream);
        harvest->progress = true;
        if (atomic_load(&stream->deferred) && !list_linked(&stream->progressed)) {
            stream_hold(stream);
            list_append(&session->completion.progressed, &stream->progressed);
        }
    }
    number = atomic_load(&stream->done);
    for (struct waiter *waiter; (waiter = waiter_first(stream)) && waiter->number <= number;) {
        tree_remove(&stream->waiters, &waiter->node);
        stream->waiting--;
        session->completion.waits--;
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

/* Beside `reporting` at most session.lock is held. */
static void completion_finish(struct session *session, struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.reporting);
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
        report_note(session, waiter->result);
        waiter->finish(session, waiter);
    }
    if (harvest->progress && atomic_load(&session->executor.deferred_calls))
        executor_kick(session);
}

void completion_wait(struct session *session, struct stream *stream, struct waiter *waiter)
{
    struct harvest harvest = { .last = &harvest.waiters };
    pthread_mutex_lock(&session->completion.reporting);
    pthread_mutex_lock(&session->completion.lock);
    struct tree_node *place =
        waiter->behind ? tree_at_or_above(&stream->markers, waiter->number, waiter->behind) : NULL;
    struct marker *behind =
        place && place->key == waiter->number && place->tie == waiter->behind ? MARKER(place) : NULL;
    waiter->node = (struct tree_node){ .key = waiter->number, .tie = ++session->completion.serial };
    stream->waiting++;
    bool too_many = ++session->completion.waits > SESSION_WAITS;
    if (behind)
        behind->waiter = waiter;
    else                                                  /* it may have been found complete already */
        tree_insert(&stream->waiters, &waiter->node);
    if (!behind && waiter->number <= atomic_load(&stream->done)) {
        completion_reach(session, stream, 0, report_sticky(session), &harvest);
    } else {
        if (list_linked(&stream->watched))
            completion_queue(&session->completion, stream);
        session->completion.since = clock_now();          /* a long wait elsewhere must not slow this one down */
        session->completion.fresh = true;
    }
    pthread_mutex_unlock(&session->completion.lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&session->completion.reporting);
    if (too_many && !atomic_load(&session->ended))
        session_end(session, "too many of its calls wait for streams");
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
    pthread_mutex_lock(&session->completion.reporting);
    pthread_mutex_unlock(&session->completion.reporting);
}

void completion_advance(struct session *session, struct stream *stream, uint64_t number)
{
    struct harvest harvest = { .last = &harvest.waiters };
    pthread_mutex_lock(&session->completion.reporting);
    pthread_mutex_lock(&session->completion.lock);
    if (number >= stream->issued)
        crowd_leave(session, stream, stream->entered);
    completion_reach(session, stream, number, CUDA_SUCCESS, &harvest);
    pthread_mutex_unlock(&session->completion.lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&session->completion.reporting);
}

/* Is there a waiter up to there whose reply carries what kernels printed? All of them are about to be finished. */
static bool somebody_speaks(const struct stream *stream, uint64_t number)
{
    struct waiter *waiter = waiter_first(stream);
    while (waiter && waiter->number <= number && !waiter->speaks)
        waiter = WAITER(tree_next(&stream->waiters, &waiter->node));
    return waiter && waiter->number <= number;
}

/* Asks about one stream's markers. False: the stream has none left. */
static bool completion_ask(struct session *session, struct stream *stream, struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    CUresult unusable = context_use(session, stream->context);
    if (unusable != CUDA_SUCCESS && atomic_load(&stream->context->ended))
        return true;                                  /* a reset is going on; completion_abort will come */
    for (struct marker *marker; (marker = marker_first(stream));) {
        /* A context that a fault has ended cannot even be made current: that fault is the answer. */
        CUresult r = unusable != CUDA_SUCCESS ? unusable : session->gpu->EventQuery(marker->event);
        if (r == CUDA_ERROR_NOT_READY)
            return true;
        if (somebody_speaks(stream, marker->node.key))
            session->gpu->EventSynchronize(marker->event);      /* complete: this only makes the driver print */
        /* before it counts as done: a waiter that comes now must learn it too */
        report_note(session, r);
        marker_remove(stream, marker);
        crowd_leave(session, stream, marker->entered);
        completion_reach(session, stream, marker->node.key, r, harvest);
        if (marker->record) {
            marker->next = harvest->markers;
            harvest->markers = marker;
        } else {
            completion_spare(session, stream->context, marker->event);
            free(marker);
        }
    }
    return false;
}

/* Looks at what is complete. The driver may take its time meanwhile: the pulse sees that it is the driver. */
static bool completion_look(struct session *session, struct stream *stream, struct harvest *harvest)
{
    _Atomic bool *in = &session->completion.in_driver;
    atomic_store_explicit(in, true, memory_order_relaxed);
    bool more = completion_ask(session, stream, harvest);
    atomic_store_explicit(in, false, memory_order_relaxed);
    return more;
}

static void completion_take(struct list *line, unsigned count, struct list *taken)
{
    for (struct list *link; count && (link = list_first(line)); count--) {
        list_remove(link);
        list_append(taken, link);
    }
}

bool completion_poll(struct session *session, struct stream *first)
{
    struct completion *completion = &session->completion;
    struct harvest harvest = { .last = &harvest.waiters };
    struct list taken = { NULL, NULL }, idle = { NULL, NULL };
    pthread_mutex_lock(&completion->reporting);
    pthread_mutex_lock(&completion->lock);
    if (first && list_linked(&first->watched)) {
        list_remove(&first->watched);
        list_append(&taken, &first->watched);
    }
    completion_take(&completion->awaited, COMPLETION_LOOKS, &taken);
    completion_take(&completion->watched, COMPLETION_LOOKS, &taken);
    for (struct list *link; (link = list_first(&taken));) {
        struct stream *stream = LIST_OBJECT(link, struct stream, watched);
        if (completion_look(session, stream, &harvest)) {
            completion_queue(completion, stream);
        } else {
            completion_unwatch(completion, stream);
            list_append(&idle, link);
        }
    }
    if (harvest.progress)
        completion->since = clock_now();
    bool more = atomic_load(&completion->watching) != 0;
    /* Under the lock: none of them can be watched again meanwhile and leave this list. */
    for (struct list *link; (link = list_first(&idle));) {
        list_remove(link);
        stream_drop(session, LIST_OBJECT(link, struct stream, watched));
    }
    pthread_mutex_unlock(&completion->lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&completion->reporting);
    return more;
}

struct stream *completion_progressed(struct session *session)
{
    pthread_mutex_lock(&session->completion.lock);
    struct stream *stream = LIST_OBJECT(list_first(&session->completion.progressed), struct stream, progressed);
    if (stream)
        list_remove(&stream->progressed);
    pthread_mutex_unlock(&session->completion.lock);
    return stream;
}

static void completion_abort_stream(struct session *session, struct stream *stream, CUresult code,
                                    struct harvest *harvest)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    for (struct marker *marker; (marker = marker_first(stream));) {
        marker_remove(stream, marker);
        if (!marker->record)
            completion_spare(session, stream->context, marker->event);
        marker->next = harvest->markers;
        harvest->markers = marker;
    }
    crowd_leave(session, stream, stream->entered);
    completion_reach(session, stream, stream->received, code, harvest);
}

/* Those of the context in this line, which are watched no more. Destroyed streams with work left are here only. */
static void completion_abort_line(struct session *session, struct list *line, struct context *context, CUresult code,
                                  struct harvest *harvest)
{
    struct list *next;
    for (struct list *link = list_first(line); link; link = next) {
        struct stream *stream = LIST_OBJECT(link, struct stream, watched);
        next = list_next(line, link);
        if (stream->context != context)
            continue;
        completion_abort_stream(session, stream, code, harvest);
        completion_unwatch(&session->completion, stream);
        stream_drop(session, stream);
    }
}

void completion_abort(struct session *session, struct context *context, CUresult code)
{
    struct completion *completion = &session->completion;
    struct harvest harvest = { .last = &harvest.waiters };
    pthread_mutex_lock(&completion->reporting);
    pthread_mutex_lock(&completion->lock);
    for (struct list *link = list_first(&context->streams); link; link = list_next(&context->streams, link))
        completion_abort_stream(session, LIST_OBJECT(link, struct stream, of_context), code, &harvest);
    completion_abort_line(session, &completion->awaited, context, code, &harvest);
    completion_abort_line(session, &completion->watched, context, code, &harvest);
    pthread_mutex_unlock(&completion->lock);
    completion_finish(session, &harvest);
    pthread_mutex_unlock(&completion->reporting);
    pthread_mutex_lock(&completion->lock);
    long_waits_end(session, context);
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

/* Does somebody wait in the driver for each stream of the line? */
static bool completion_attend(struct session *session, struct list *line)
{
    for (struct list *link = list_first(line); link; link = list_next(line, link))
        if (!long_wait_begin(session, LIST_OBJECT(link, struct stream, watched)))
            return false;
    return true;
}

/* How long the thread may sleep. `round`: what the last one took, which it should not do all the time. */
static uint64_t completion_rest(struct session *session, uint64_t now, uint64_t round)
{
    FLYT_ASSERT_HELD(&session->completion.lock);
    struct completion *completion = &session->completion;
    uint64_t pause = completion_pause(now > completion->since ? now - completion->since : 0);
    if (pause && completion_attend(session, &completion->awaited) && completion_attend(session, &completion->watched))
        return COMPLETION_ATTENDED_NS;
    return atomic_load(&completion->watching) > COMPLETION_LOOKS && pause < round ? round : pause;
}

/* Looks at every stream that is watched, once. */
static void completion_round(struct session *session)
{
    struct completion *completion = &session->completion;
    unsigned streams = atomic_load(&completion->watching);
    bool more = true;
    for (unsigned looked = 0; more && looked <= streams; looked += COMPLETION_LOOKS) {
        more = completion_poll(session, NULL);
        atomic_store_explicit(&completion->turns, atomic_load_explicit(&completion->turns, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    }
}

static void *completion_main(void *context)
{
    prctl(PR_SET_NAME, "flyt-completion");
    struct session *session = context;
    struct completion *completion = &session->completion;
    for (;;) {
        uint64_t began = clock_now();
        uint32_t wanted = mirror_newest(session);
        completion_round(session);
        mirror_tell(session, wanted);
        uint64_t now = clock_now();
        events_beat(session, now);
        pthread_mutex_lock(&completion->lock);
        if (completion->stop) {
            pthread_mutex_unlock(&completion->lock);
            return NULL;
        }
        uint64_t pause = COMPLETION_IDLE_NS;
        if (atomic_load(&completion->watching)) {
            pause = completion_rest(session, now, now - began);
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
    if ((completion->asleep || completion->fresh) && atomic_load(&completion->watching)) {
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
