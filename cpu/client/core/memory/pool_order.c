/*
 * pool_order.c: the order of frees and streams.
 *
 * A free is no call to the server. It takes effect at a moment in the order of its stream: behind the last call that
 * the stream has been given. So whoever knows the completed number of the stream knows whether the memory is free.
 * The legacy stream and the blocking streams precede each other; a moment in one of them can depend on the other.
 *
 * All of it is under the lock of the pools, but moment_now.
 */
#include "pool.h"

#include "cpu/client/core/api_stream.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/stream/pool_notes.h"

enum { FLAG_DISABLE_TIMING = 2 };

struct pool_order order_of(const struct client_stream *s)
{
    return (struct pool_order){ (struct client_stream *)(uintptr_t)s, s->context, atomic_load(&s->token),
                           atomic_load(&s->context->generation), 0 };
}

static bool context_gone(const struct pool_order *o) { return atomic_load(&o->context->generation) != o->generation; }

bool order_same(const struct pool_order *o, const struct client_stream *s)
{
    return o->stream == s && !o->last && atomic_load(&s->token) == o->token && o->context == s->context &&
           !context_gone(o);
}

bool order_ended(const struct pool_order *o)
{
    return o->last || context_gone(o) || atomic_load(&o->stream->token) != o->token;
}

/* ---- moments ---- */

static core_stream token_of(const struct client_stream *s)
{
    return stream_is_legacy(s) ? CORE_STREAM_LEGACY : atomic_load(&s->token);
}

/* A call of the stream that does nothing, behind all that the stream waits for. False: it could not be sent. */
static bool mark(struct client_stream *s, core_event *event)
{
    int code = core_event_create(s->context, FLAG_DISABLE_TIMING, event);
    if (code)
        return false;
    if ((code = core_event_record(s->context, *event, token_of(s), 0)))
        core_event_destroy(*event);
    return !code;
}

struct moment moment_now(struct client_stream *s)
{
    struct moment m = { .own = stream_point(s) };
    struct client_stream *legacy = &s->context->legacy;
    if (!stream_is_blocking(s))
        return m;
    if (s != legacy) {
        /* its last call may be older than calls of the legacy stream that precede the free */
        if (m.own.legacy_before < atomic_load(&legacy->serial))
            m.legacy = stream_point(legacy);
        return m;
    }
    /* Blocking streams may have been given calls behind the last one of the legacy stream, and precede the free. */
    core_event event;
    if (stream_serial() != m.own.serial && !stream_known_idle(s) && mark(s, &event)) {
        m.own = stream_point(s);
        core_event_destroy(event);
    }
    return m;
}

struct moment moment_later(const struct moment *a, const struct moment *b)
{
    struct moment later = a->own.number >= b->own.number ? *a : *b;
    const struct moment *other = a->own.number >= b->own.number ? b : a;
    if (other->legacy.stream && (!later.legacy.stream || later.legacy.number < other->legacy.number))
        later.legacy = other->legacy;
    return later;
}

static bool point_done(const struct point *p)
{
    struct client_stream *s = (struct client_stream *)(uintptr_t)p->stream;
    return stream_done(s) >= p->number && !pending_any(p);
}

bool moment_done(const struct pool_order *o, const struct moment *m)
{
    if (context_gone(o))
        return true;
    if (o->last)
        return core_event_query(o->last) != CORE_NOT_READY;
    if (atomic_load(&o->stream->token) != o->token)
        return context_known_idle(o->context);
    return point_done(&m->own) && (!m->legacy.stream || point_done(&m->legacy));
}

bool moment_precedes(const struct pool_order *o, const struct moment *m, const struct client_stream *s)
{
    if (order_ended(o))
        return false;
    if (o->context == s->context && stream_is_blocking(o->stream) && stream_is_blocking(s) &&
        (stream_is_legacy(o->stream) || stream_is_legacy(s)))
        return true;
    return pool_waits_for(s, o->stream, o->token, m->own.number);
}

bool moment_join(struct pool_order *o, const struct moment *m, struct client_stream *s)
{
    core_event event;
    /* Later calls of that stream may wait for this one. */
    if (order_ended(o) || stream_recorder(o->stream) || stream_point(o->stream).number != m->own.number ||
        !mark(o->stream, &event))
        return false;
    bool exact = stream_point(o->stream).number == m->own.number + 1;
    bool joined = exact && core_stream_wait(s->context, token_of(s), event, 0) == CORE_OK;
    core_event_destroy(event);
    return joined;
}

/* ---- the end of a stream ---- */

void order_end(struct pool_order *o)
{
    core_event event;
    if (!stream_recorder(o->stream) && mark(o->stream, &event))
        o->last = event;
}

void order_free(struct pool_order *o)
{
    if (o->last)
        core_event_destroy(o->last);
    o->last = 0;
}
