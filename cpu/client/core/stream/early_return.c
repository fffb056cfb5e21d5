/*
 * early_return.c: copies to the device that have returned before the device has done them.
 *
 * A synchronous copy that has returned comes before whatever the program begins afterwards, on whatever stream. Where
 * every stream waits for the copy's stream, the caller need not wait for the copy (early_return_may). The program may
 * create a stream later that would not wait; then the thread that creates it waits for the copy (early_return_settle),
 * but not for kernels behind the copy, which may themselves wait for the new stream. So an event is recorded directly
 * behind the copy, at the latest before the first call that may run long in any blocking stream (early_return_before,
 * early_return.h). Nothing of the kind stood before the copy, or the caller waited for the copy.
 *
 * A context counts the copies that have returned so (`early_returns`), and up to which of them there are events
 * (`marked`). Mostly the two are equal, and a launch looks at no more. seq_cst: a copy that returns early and a stream
 * that is created must not both miss each other's update.
 *
 * A context lists the streams that may have such copies (`early_returning`). A stream enters the list with such a copy,
 * and leaves it when a thread that looks finds that it has none any more. The thread that takes it out clears
 * `returning` first, and looks at its numbers then. The thread that puts it in stores its number first, and looks at
 * `returning` then. seq_cst: they must not both miss each other's update.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/client/core/api_stream.h"
#include "cpu/common/list.h"
#include "cpu/common/lock.h"
#include "early_return.h"

enum { FLAG_DISABLE_TIMING = 2, STREAMS_MOST = 16 };

static atomic_bool never;             /* another process may read what a copy has written */
static atomic_uint live, apart;       /* streams; apart: those that do not wait for the legacy streams */
static pthread_mutex_t marking = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;      /* of the lists of all contexts; a leaf */

void early_return_count(const struct client_stream *s, int change)
{
    atomic_fetch_add(&live, (unsigned)change);
    if (!stream_is_blocking(s))
        atomic_fetch_add(&apart, (unsigned)change);
}

static void list_enter(struct client_stream *s)
{
    pthread_mutex_lock(&listing);
    if (!atomic_exchange(&s->returning, true)) {
        if (stream_is_legacy(s))
            list_prepend(&s->context->early_returning, &s->early_returning);
        else
            list_append(&s->context->early_returning, &s->early_returning);
    }
    pthread_mutex_unlock(&listing);
}

void early_return_forget(struct client_stream *s)
{
    pthread_mutex_lock(&listing);
    list_remove(&s->early_returning);
    atomic_store(&s->returning, false);
    pthread_mutex_unlock(&listing);
}

bool early_return_may(struct client_stream *s)
{
    atomic_store(&s->early_returns, atomic_load(&s->sent));
    if (!atomic_load(&s->returning))
        list_enter(s);
    if (!context_only_one() || atomic_load_explicit(&never, memory_order_relaxed))
        /* no stream of another context, or of another process, waits for it */
        return false;
    if (stream_is_legacy(s) ? atomic_load(&apart) : !stream_is_blocking(s) || atomic_load(&live) != 1)
        return false;
    atomic_fetch_add(&s->context->early_returns, 1);
    return true;
}

/* An event in the stream behind all it has been given. An event of another context, or one that went with its
   context, is replaced. */
static int record(struct client_stream *s)
{
    core_stream token = stream_is_legacy(s) ? CORE_STREAM_LEGACY : atomic_load(&s->token);
    int code = s->behind.event ? core_event_record(s->context, s->behind.event, token, 0) : CORE_INVALID_HANDLE;
    if (code != CORE_INVALID_HANDLE)
        return code;
    if (s->behind.event)
        core_event_destroy(s->behind.event);
    s->behind.event = 0;
    code = core_event_create(s->context, FLAG_DISABLE_TIMING, &s->behind.event);
    return code ? code : core_event_record(s->context, s->behind.event, token, 0);
}

static void mark(struct client_stream *s)
{
    FLYT_ASSERT_HELD(&marking);
    uint64_t number = atomic_exchange(&s->early_returns, 0);
    if (!number || stream_done(s) >= number || (!stream_is_legacy(s) && !atomic_load(&s->token)))
        return;
    if (record(s) == CORE_OK)
        atomic_store(&s->behind.number, number);
    else
        stream_wait_for(s);                   /* no memory for an event. Nothing behind the copy runs long yet */
}

static bool counts(struct client_stream *s)
{
    uint64_t done = stream_done(s);
    return atomic_load(&s->early_returns) > done || atomic_load(&s->behind.number) > done;
}

/* The context's streams that have such copies: writes at most STREAMS_MOST, returns how many. Those that have none
   leave the list. */
static unsigned list_those(core_context *c, struct client_stream **out)
{
    unsigned count = 0;
    struct list *next;
    pthread_mutex_lock(&listing);
    for (struct list *link = list_first(&c->early_returning); link && count < STREAMS_MOST; link = next) {
        struct client_stream *s = LIST_OBJECT(link, struct client_stream, early_returning);
        next = list_next(&c->early_returning, link);
        atomic_store(&s->returning, false);
        if (counts(s)) {
            atomic_store(&s->returning, true);
            out[count++] = s;
        } else {
            list_remove(link);
        }
    }
    pthread_mutex_unlock(&listing);
    return count;
}

/* All streams of the context that have such copies, marked. */
static unsigned mark_all(core_context *c, struct client_stream **some)
{
    FLYT_ASSERT_HELD(&marking);
    uint64_t seen = atomic_load(&c->early_returns);
    unsigned count = list_those(c, some);
    for (unsigned i = 0; i < count; i++)
        mark(some[i]);
    atomic_store(&c->marked, seen);           /* when the events have been sent: who sees it launches behind them */
    return count;
}

void early_return_mark(core_context *c)
{
    struct client_stream *some[STREAMS_MOST];
    pthread_mutex_lock(&marking);
    mark_all(c, some);
    pthread_mutex_unlock(&marking);
}

/* Waits for the context's copies that have returned early. new: a stream of the context that did so itself; NULL:
   none. */
static void settle(core_context *c, const struct client_stream *new)
{
    struct client_stream *some[STREAMS_MOST];
    core_event events[STREAMS_MOST];
    unsigned waits = 0;
    pthread_mutex_lock(&marking);
    unsigned count = mark_all(c, some);
    for (unsigned i = 0; i < count; i++) {
        struct client_stream *s = some[i];
        if (stream_done(s) >= atomic_load(&s->behind.number))
            atomic_store(&s->behind.number, 0);
        if (atomic_load(&s->behind.number) && s != new && !(new && stream_is_legacy(s) && stream_is_blocking(new)))
            events[waits++] = s->behind.event;
    }
    pthread_mutex_unlock(&marking);
    while (waits > 0)
        core_event_synchronize(events[--waits]);     /* an error is latched; native returns it later, too */
}

void early_return_settle(const struct client_stream *new) { settle(new->context, new); }

void early_return_settle_others(const core_context *new)
{
    for (core_context *c = context_next(NULL); c; c = context_next(c))
        if (c != new)
            settle(c, NULL);
}

void early_return_stop(void)
{
    if (!atomic_exchange(&never, true))
        early_return_settle_others(NULL);
}
