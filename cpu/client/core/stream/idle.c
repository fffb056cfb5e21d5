/*
 * idle.c: tracks which streams are known to be idle. It answers three questions about the work of a stream: has all
 * of it ended; has everything ended that may run long or fail (light); and has the text arrived that kernels printed
 * (heard)? After a launch a synchronisation asks the server even if the work is known to have ended, because the text
 * comes with the answer.
 *
 * The legacy stream waits for all blocking streams of its context, so these questions are asked about all of them
 * with many a call. A context may have thousands of streams, mostly idle. So it keeps lists of those that may have
 * work: `working`, and `unheard`. A stream enters both with a call, if it is not in them; it leaves one when somebody
 * who asks finds it at rest.
 *
 * A stream enters under its own lock, in which its calls are numbered. Whoever finds it at rest tries that lock: if
 * it is taken, the stream is just given a call, and stays in the list. So a call that is numbered meanwhile cannot be
 * missed.
 *
 * Locks: stream.lock > lists.lock. lists.lock > stream.lock is only ever tried.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/list.h"
#include "cpu/common/lock.h"
#include "context.h"
#include "pending.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/gate.h"
#include "cpu/client/core/wire/perf.h"

static struct { pthread_mutex_t lock; } lists = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- one stream ---- */

bool stream_alone_idle(struct client_stream *s)
{
    struct point p = stream_point(s);
    return stream_done(s) >= p.number && !pending_any(&p);
}

static bool alone_light(struct client_stream *s) { return stream_done(s) >= atomic_load(&s->weighty); }

static bool alone_heard(struct client_stream *s) { return atomic_load(&s->heard) >= atomic_load(&s->weighty); }

/* ---- the lists ---- */

void rest_disturb(struct client_stream *s)
{
    FLYT_ASSERT_HELD(&s->lock);
    bool blocking = stream_is_blocking(s);
    pthread_mutex_lock(&lists.lock);
    if (!list_linked(&s->working))
        list_append(&s->context->working[blocking], &s->working);
    if (!list_linked(&s->unheard))
        list_append(&s->context->unheard[blocking], &s->unheard);
    s->listed = true;
    pthread_mutex_unlock(&lists.lock);
}

void rest_forget(struct client_stream *s)
{
    pthread_mutex_lock(&s->lock);
    pthread_mutex_lock(&lists.lock);
    list_remove(&s->working);
    list_remove(&s->unheard);
    s->listed = false;
    pthread_mutex_unlock(&lists.lock);
    pthread_mutex_unlock(&s->lock);
}

/* One of a stream's two lists, and the question whose answer lets the stream leave it. */
struct idle_kind {
    size_t link;
    bool (*at_rest)(struct client_stream *);
};
static const struct idle_kind working = { offsetof(struct client_stream, working), stream_alone_idle };
static const struct idle_kind unheard = { offsetof(struct client_stream, unheard), alone_heard };

static struct client_stream *stream_of(struct list *link, const struct idle_kind *kind)
{
    return list_object(link, kind->link);
}

static void try_leave(struct client_stream *s, struct list *link, const struct idle_kind *kind)
{
    FLYT_ASSERT_HELD(&lists.lock);
    if (pthread_mutex_trylock(&s->lock))
        return;
    if (kind->at_rest(s)) {
        list_remove(link);
        s->listed = false;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Does the test say yes of all streams in the list? (Of those that are not in it, it does.) */
static bool list_passes(struct list *list, const struct idle_kind *kind, bool (*test)(struct client_stream *))
{
    struct list *next;
    FLYT_ASSERT_HELD(&lists.lock);
    for (struct list *link = list_first(list); link; link = next) {
        struct client_stream *s = stream_of(link, kind);
        next = list_next(list, link);
        if (atomic_load(&s->token) && !test(s))
            return false;
        try_leave(s, link, kind);
    }
    return true;
}

/* All of a context's streams; blocking_only: those that the legacy stream waits for. */
static bool all(core_context *c, bool blocking_only, bool (*test)(struct client_stream *))
{
    bool heard = test == alone_heard;
    struct list *of = heard ? c->unheard : c->working;
    const struct idle_kind *kind = heard ? &unheard : &working;
    if (atomic_load(&c->orphaned) > atomic_load(&c->idle_at) || !test(&c->legacy))
        return false;
    pthread_mutex_lock(&lists.lock);
    bool yes = list_passes(&of[true], kind, test) && (blocking_only || list_passes(&of[false], kind, test));
    pthread_mutex_unlock(&lists.lock);
    return yes;
}

/* Under the stream's lock. The context's first `sent` calls have ended, and what kernels printed has come. */
static bool ended_with(struct client_stream *s, uint64_t sent)
{
    FLYT_ASSERT_HELD(&s->lock);
    if (s->counted > sent)
        return false;
    stream_finished(s, atomic_load(&s->sent));
    return true;
}

static void list_ended(struct list *list, const struct idle_kind *kind, uint64_t sent)
{
    struct list *next;
    FLYT_ASSERT_HELD(&lists.lock);
    for (struct list *link = list_first(list); link; link = next) {
        struct client_stream *s = stream_of(link, kind);
        next = list_next(list, link);
        if (pthread_mutex_trylock(&s->lock))
            continue;
        if (ended_with(s, sent)) {
            list_remove(link);
            s->listed = false;
        }
        pthread_mutex_unlock(&s->lock);
    }
}

void stream_context_ended(core_context *c, uint64_t sent)
{
    if (pthread_mutex_trylock(&c->legacy.lock) == 0) {
        ended_with(&c->legacy, sent);
        pthread_mutex_unlock(&c->legacy.lock);
    }
    pthread_mutex_lock(&lists.lock);
    for (int blocking = 0; blocking < 2; blocking++) {
        list_ended(&c->working[blocking], &working, sent);
        list_ended(&c->unheard[blocking], &unheard, sent);
    }
    pthread_mutex_unlock(&lists.lock);
}

/* ---- the questions ---- */

/* of_context: idle_at or heard_at. */
static bool known(struct client_stream *s, const atomic_uint_fast64_t *of_context, bool (*test)(struct client_stream *))
{
    core_context *c = s->context;
    if (atomic_load(of_context) >= atomic_load(&c->sent))
        return true;
    if (!test(s))
        return false;
    if (stream_is_legacy(s))
        return all(c, true, test);
    /* A blocking stream waits for what the legacy stream was given before. */
    return !stream_is_blocking(s) || test(&c->legacy);
}

bool stream_known_idle(struct client_stream *s) { return known(s, &s->context->idle_at, stream_alone_idle); }

bool stream_known_light(struct client_stream *s) { return known(s, &s->context->idle_at, alone_light); }

/* stream_known_idle, and what kernels printed has come, or none has run since it last came: a synchronisation need not
   ask. */
static bool stream_known_heard(struct client_stream *s)
{
    return known(s, &s->context->heard_at, alone_heard) && stream_known_idle(s);
}

static bool list_idle(struct list *list, const struct client_stream *but)
{
    FLYT_ASSERT_HELD(&lists.lock);
    for (struct list *link = list_first(list); link; link = list_next(list, link)) {
        struct client_stream *s = stream_of(link, &working);
        if (s != but && atomic_load(&s->token) && !stream_alone_idle(s))
            return false;
    }
    return true;
}

bool stream_others_idle(const struct client_stream *s)
{
    core_context *c = s->context;
    if (atomic_load(&c->orphaned) > atomic_load(&c->idle_at) || (s != &c->legacy && !stream_alone_idle(&c->legacy)))
        return false;
    pthread_mutex_lock(&lists.lock);
    bool yes = list_idle(&c->working[true], s) && list_idle(&c->working[false], s);
    pthread_mutex_unlock(&lists.lock);
    return yes;
}

bool stream_context_idle(core_context *c)
{
    return all(c, false, stream_alone_idle);
}

int stream_wait_for(struct client_stream *s)
{
    if (!core_perf.no_cache && stream_known_heard(s)) {
        core_count_local();
        return CORE_OK;
    }
    struct point point = stream_point(s);
    stream_args args = { .stream = s->wire };
    gate_note_stream(atomic_load(&s->token));
    int code = wire_plain(s->context->session, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &args);
    gate_note_stream(0);
    if (code)
        return code;
    stream_finished(s, point.number);
    pending_wait(&point);
    return CORE_OK;
}
