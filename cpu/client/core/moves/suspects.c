/* suspects.c: see suspects.h. One thread at a time: the one that makes the session again. */
#include <stdlib.h>

#include "cpu/client/core/stream/stream.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "suspects.h"
#include "unanswered.h"

/* A server that has been there for so long has not ended of a call that nobody waits for. */
#define SERVED_NS (10 * CLOCK_NS_PER_SECOND)

struct suspect_work {
    const struct client_stream *stream;
    uint64_t number; /* of the last operation that it had been given */
    struct suspect_work *next;
};

static struct {
    struct unanswered calls;
    struct suspect_work *work;
} suspects;

static bool stream_is_suspect(const struct suspect_work *work)
{
    /* a new stream in the same structure counts from 0 */
    return atomic_load(&work->stream->done) < work->number && work->number <= atomic_load(&work->stream->numbered);
}

static bool some_remain(const struct unanswered *now)
{
    for (size_t i = 0; i < suspects.calls.count; i++)
        if (suspects.calls.calls[i].procedure != FLYT_EVENTS && unanswered_has(now, suspects.calls.calls[i].xid))
            return true;
    for (const struct suspect_work *work = suspects.work; work; work = work->next)
        if (stream_is_suspect(work))
            return true;
    return false;
}

/* Without memory one suspect less. */
static void suspect(struct client_stream *stream, void *unused)
{
    (void)unused;
    const struct suspect_work here = { stream, atomic_load(&stream->numbered), suspects.work };
    if (!stream_is_suspect(&here))
        return;
    struct suspect_work *work = malloc(sizeof *work);
    if (!work)
        return;
    *work = here;
    suspects.work = work;
}

static void begin_anew(struct unanswered *now)
{
    for (struct suspect_work *next, *work = suspects.work; work; work = next) {
        next = work->next;
        free(work);
    }
    suspects.work = NULL;
    stream_each(suspect, NULL);
    unanswered_free(&suspects.calls);
    suspects.calls = *now;
}

bool suspects_cleared(uint64_t since)
{
    struct unanswered now = { 0 };
    if (!unanswered_find(&now))
        log_debug("no memory to look at all calls without an answer");
    bool answered = now.answers != suspects.calls.answers || clock_now() - since > SERVED_NS;
    if (answered && !some_remain(&now)) {
        begin_anew(&now);
        return true;
    }
    unanswered_free(&now);
    return false;
}
