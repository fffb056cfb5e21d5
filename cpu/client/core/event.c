/*
 * event.c: events as tokens. An event remembers the stream in which it was last recorded and the number of that
 * call, so whoever knows the stream's completed number knows the event's state without asking. (A synchronisation asks
 * all the same while what kernels before it printed has not come.)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/ids.h"
#include "api/forward/core.h"
#include "context.h"
#include "forward.h"
#include "op.h"
#include "pending.h"
#include "perf.h"
#include "state.h"

enum { TOKEN_KIND = 2, FLAG_DISABLE_TIMING = 2, EVENT_FLAGS = 7 };

struct client_event {
    pthread_mutex_t lock;             /* what the last record said */
    flyt_id         wire;
    core_context   *context;
    unsigned        flags;
    atomic_uint_fast64_t token;
    struct client_stream *stream;     /* NULL: never recorded */
    uint64_t        stream_token;     /* to see whether the structure has become another stream's */
    struct point    point;
    struct asked    asked;
    struct client_event *next;
};

static id_table *table;
static struct {
    pthread_mutex_t lock;
    struct client_event *spare;
} events = { .lock = PTHREAD_MUTEX_INITIALIZER };

int event_open(void)
{
    table = id_table_create(TOKEN_KIND, 1);
    return table ? CORE_OK : CORE_OUT_OF_MEMORY;
}

static int event_enter(core_event token, struct client_event **out)
{
    int code = core_enter();
    if (code)
        return code;
    *out = id_table_find(table, token);
    return *out ? CORE_OK : CORE_INVALID_HANDLE;
}

int core_event_check(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    return event_enter(token, &e);
}

int core_event_create(core_context *c, unsigned flags, core_event *out)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (flags & ~(unsigned)EVENT_FLAGS)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&events.lock);
    struct client_event *e = events.spare;
    if (e)
        events.spare = e->next;
    else if ((e = calloc(1, sizeof *e)))
        pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_unlock(&events.lock);
    if (!e)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&e->lock);
    e->stream = NULL;
    atomic_store(&e->asked.at, 0);
    e->context = c;
    e->flags = flags;
    uint32_t index = 0;
    uint64_t token = id_table_add(table, e, &index);
    e->wire = index;
    atomic_store(&e->token, token);
    pthread_mutex_unlock(&e->lock);
    if (!token)
        return CORE_OUT_OF_MEMORY;
    event_create_args args = { .event = index, .context = c->wire, .flags = flags };
    code = wire_send(FLYT_EVENT_CREATE, (xdrproc_t)xdr_event_create_args, &args);
    *out = token;
    return code;
}

static void event_recycle(struct client_event *e, uint32_t index)
{
    id_table_release(table, index);
    pthread_mutex_lock(&events.lock);
    e->next = events.spare;
    events.spare = e;
    pthread_mutex_unlock(&events.lock);
}

int core_event_destroy(core_event token)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    struct client_event *e = id_table_remove(table, token);
    if (!e)
        return CORE_INVALID_HANDLE;
    event_args args = { .event = e->wire };
    code = wire_send(FLYT_EVENT_DESTROY, (xdrproc_t)xdr_event_args, &args);
    event_recycle(e, id_token_index(token));
    return code;
}

uint64_t event_count(void)
{
    return table ? id_table_count(table) : 0;
}

static void forget(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    if (e->context == context && id_table_remove(table, token))
        event_recycle(e, id_token_index(token));
}

void event_forget_context(core_context *c)
{
    id_table_each(table, forget, c);
}

int core_event_record(core_context *c, core_event token, core_stream stream, unsigned flags)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    struct client_stream *s;
    int code = event_enter(token, &e);
    if (code || (code = client_stream_enter(c, stream, &s)))
        return code;
    if (e->context != s->context)
        return CORE_INVALID_HANDLE;
    return op_submit(s, &(struct op){ .kind = OP_EVENT_RECORD, .event = { e, flags } });
}

int event_record_op(struct client_stream *s, const struct op *op)
{
    struct client_event *e = op->event.event;
    pthread_mutex_lock(&e->lock);
    event_record_args args = { .event = e->wire, .stream = s->wire, .flags = op->event.flags };
    const struct stream_call call = { FLYT_EVENT_RECORD, (xdrproc_t)xdr_event_record_args, .args = &args };
    int code = stream_send(s, &call, &e->point);
    e->stream = s;
    e->stream_token = atomic_load(&s->token);
    atomic_store(&e->asked.at, 0);            /* what was said of the record before says nothing of this one */
    pthread_mutex_unlock(&e->lock);
    return code;
}

flyt_id event_name(const struct client_event *e) { return e->wire; }

void event_recorded_at(struct client_event *e, struct client_stream *s, const struct point *point)
{
    pthread_mutex_lock(&e->lock);
    e->point = *point;
    e->stream = s;
    e->stream_token = atomic_load(&s->token);
    atomic_store(&e->asked.at, 0);
    pthread_mutex_unlock(&e->lock);
}

void event_waited_at(struct client_event *e, const struct point *point)
{
    pthread_mutex_lock(&e->lock);
    const struct point before = e->point;
    bool recorded = e->stream != NULL;
    pthread_mutex_unlock(&e->lock);
    if (recorded)
        pending_join(&before, point);
}

struct recorded {
    struct client_stream *stream;
    uint64_t stream_token;
    struct point point;
};

static struct recorded event_recorded(struct client_event *e)
{
    pthread_mutex_lock(&e->lock);
    struct recorded r = { e->stream, e->stream_token, e->point };
    pthread_mutex_unlock(&e->lock);
    return r;
}

/* False also when its stream was destroyed: then only the server knows. */
static bool known_done(const struct recorded *r)
{
    return !core_perf.no_cache && atomic_load(&r->stream->token) == r->stream_token
           && stream_done(r->stream) >= r->point.number && !pending_any(&r->point);
}

static bool known_heard(const struct recorded *r)
{
    uint64_t heard = atomic_load(&r->stream->heard);
    return known_done(r) && (heard >= r->point.number || heard >= atomic_load(&r->stream->weighty));
}

static void learn_done(const struct recorded *r, void (*learn)(struct client_stream *, uint64_t))
{
    if (atomic_load(&r->stream->token) == r->stream_token)
        learn(r->stream, r->point.number);
}

static int event_ask(struct client_event *e, uint32_t procedure)
{
    event_args args = { .event = e->wire };
    return wire_plain(procedure, (xdrproc_t)xdr_event_args, &args);
}

int core_event_synchronize(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    int code = event_enter(token, &e);
    if (code)
        return code;
    struct recorded r = event_recorded(e);
    if (!r.stream || known_heard(&r)) {
        core_count_local();
        return CORE_OK;
    }
    code = event_ask(e, FLYT_EVENT_SYNC);
    if (code)
        return code;
    learn_done(&r, stream_finished);
    pending_wait(&r.point);
    return CORE_OK;
}

int core_event_query(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    int code = event_enter(token, &e);
    if (code)
        return code;
    struct recorded r = event_recorded(e);
    if (!r.stream || known_done(&r)) {
        core_count_local();
        return CORE_OK;
    }
    if (wire_not_ready_yet(&e->asked, stream_is_published(r.stream) && atomic_load(&r.stream->token) == r.stream_token))
        return CORE_NOT_READY;
    uint64_t news = wire_news();
    code = event_ask(e, FLYT_EVENT_QUERY);
    if (code == CORE_NOT_READY)
        wire_not_ready(&e->asked, news);
    if (code)
        return code;
    learn_done(&r, stream_ended);
    return pending_any(&r.point) ? CORE_NOT_READY : CORE_OK;
}

int core_event_elapsed(core_event start, core_event end, float *milliseconds)
{
    CANCEL_DEFERRED;
    struct client_event *a, *b;
    int code = event_enter(start, &a);
    if (code || (code = event_enter(end, &b)))
        return code;
    if ((a->flags | b->flags) & FLAG_DISABLE_TIMING || a->context != b->context || !event_recorded(a).stream ||
        !event_recorded(b).stream)
        return CORE_INVALID_HANDLE;
    return core_event_elapsed_time(a->context, milliseconds, start, end);
}

int forward_event(core_context *c, core_event token, flyt_id *wire)
{
    struct client_event *e;
    int code = event_enter(token, &e);
    (void)c;
    if (!code)
        *wire = e->wire;
    return code;
}

int core_stream_wait(core_context *c, core_stream stream, core_event token, unsigned flags)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    struct client_stream *s;
    int code = event_enter(token, &e);
    if (code || (code = client_stream_enter(c, stream, &s)))
        return code;
    return op_submit(s, &(struct op){ .kind = OP_EVENT_WAIT, .event = { e, flags } });
}

int event_wait_op(struct client_stream *s, const struct op *op)
{
    struct client_event *e = op->event.event;
    struct recorded r = event_recorded(e);
    if (!r.stream || known_done(&r))
        return CORE_OK;                       /* nothing to wait for */
    event_wait_args args = { .stream = s->wire, .event = e->wire, .flags = op->event.flags };
    struct point point;
    int code = stream_send(s, &(struct stream_call){ FLYT_STREAM_WAIT, (xdrproc_t)xdr_event_wait_args, &args,
                                                     .weighty = true }, &point);
    pending_join(&r.point, &point);
    return code;
}
