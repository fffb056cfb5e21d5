/*
 * returned.c: copies to the device that have returned before the device has done them.
 *
 * A synchronous copy that has returned comes before whatever the program begins afterwards, on whatever stream. Where every
 * stream waits for the copy's, the copy need not be waited for (returned_may). A stream that would not wait may be made later:
 * then who makes it waits for the copy (returned_settle), but not for kernels behind it, which may wait for the new stream. So
 * an event is recorded directly behind the copy, at the latest before the first call that may run long in any blocking stream
 * (returned_before, internal.h). Before the copy stood nothing of the kind, or the copy was waited for.
 *
 * A device counts the copies that have returned so (`returned`), and up to which of them there are events (`marked`): mostly
 * the two are equal, and a launch looks at no more. Of a copy that returns and a stream that is made, one sees the other:
 * seq_cst.
 */
#include "cpu/common/lock.h"
#include "internal.h"

enum { FLAG_DISABLE_TIMING = 2, STREAMS_MOST = 16 };

static atomic_uint live, apart;       /* streams; apart: those that do not wait for the legacy streams */
static pthread_mutex_t marking = PTHREAD_MUTEX_INITIALIZER;

void returned_count(const struct stream *s, int change)
{
    atomic_fetch_add(&live, (unsigned)change);
    if (!stream_is_blocking(s))
        atomic_fetch_add(&apart, (unsigned)change);
}

bool returned_may(struct stream *s)
{
    atomic_store(&s->returned, atomic_load(&s->sent));
    if (!device_only_one())                   /* no stream of another device waits for it */
        return false;
    if (stream_is_legacy(s) ? atomic_load(&apart) : !stream_is_blocking(s) || atomic_load(&live) != 1)
        return false;
    atomic_fetch_add(&device_find(s->device)->returned, 1);
    return true;
}

/* An event in the stream behind all it has been given. An event of another device, or one that went with a reset, is replaced. */
static int record(struct stream *s)
{
    core_stream token = stream_is_legacy(s) ? CORE_STREAM_LEGACY : atomic_load(&s->token);
    int code = s->behind.event ? core_event_record(s->device, s->behind.event, token, 0) : CORE_INVALID_HANDLE;
    if (code != CORE_INVALID_HANDLE)
        return code;
    if (s->behind.event)
        core_event_destroy(s->behind.event);
    s->behind.event = 0;
    code = core_event_create(s->device, FLAG_DISABLE_TIMING, &s->behind.event);
    return code ? code : core_event_record(s->device, s->behind.event, token, 0);
}

static void mark(struct stream *s)
{
    FLYT_ASSERT_HELD(&marking);
    uint64_t number = atomic_exchange(&s->returned, 0);
    if (!number || stream_done(s) >= number || (!stream_is_legacy(s) && !atomic_load(&s->token)))
        return;
    if (record(s) == CORE_OK)
        atomic_store(&s->behind.number, number);
    else
        stream_wait_for(s);                   /* no memory for an event. Nothing behind the copy runs long yet */
}

static bool counts(const struct stream *s)
{
    return atomic_load(&s->returned) || atomic_load(&s->behind.number);
}

/* All streams of the device that have such copies, marked. */
static unsigned mark_all(int device, struct stream **some)
{
    FLYT_ASSERT_HELD(&marking);
    struct device *d = device_find(device);
    uint64_t seen = atomic_load(&d->returned);
    unsigned count = stream_select(device, counts, some, STREAMS_MOST);
    for (unsigned i = 0; i < count; i++)
        mark(some[i]);
    atomic_store(&d->marked, seen);           /* when the events have been sent: who sees it launches behind them */
    return count;
}

void returned_mark(int device)
{
    struct stream *some[STREAMS_MOST];
    pthread_mutex_lock(&marking);
    mark_all(device, some);
    pthread_mutex_unlock(&marking);
}

void returned_settle(const struct stream *new)
{
    struct stream *some[STREAMS_MOST];
    core_event events[STREAMS_MOST];
    unsigned waits = 0;
    pthread_mutex_lock(&marking);
    unsigned count = mark_all(new->device, some);
    for (unsigned i = 0; i < count; i++) {
        struct stream *s = some[i];
        if (stream_done(s) >= atomic_load(&s->behind.number))
            atomic_store(&s->behind.number, 0);
        if (atomic_load(&s->behind.number) && s != new && !(stream_is_legacy(s) && stream_is_blocking(new)))
            events[waits++] = s->behind.event;
    }
    pthread_mutex_unlock(&marking);
    while (waits > 0)
        core_event_synchronize(events[--waits]);             /* an error is latched, and told where native tells it */
}
