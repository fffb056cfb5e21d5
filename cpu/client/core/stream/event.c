/*
 * event.c: events as tokens. An event remembers the stream in which it was last recorded and the number of that
 * call, so whoever knows the stream's completed number knows the event's state without asking. (A synchronisation asks
 * all the same while what kernels before it printed has not come.)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/ids.h"
#include "api/forward/core.h"
#include "context.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/memory/event_shared.h"
#include "event_state.h"
#include "cpu/client/core/code/forward.h"
#include "mirror.h"
#include "op.h"
#include "pending.h"
#include "cpu/client/core/wire/perf.h"
#include "pool_notes.h"
#include "cpu/client/core/wire/state.h"

enum { TOKEN_KIND = 2, EVENT_FLAGS = 7 };

id_table *event_table;
static struct {
    pthread_mutex_t lock;
    struct client_event *spare;
} events = { .lock = PTHREAD_MUTEX_INITIALIZER };

int event_open(void)
{
    event_table = id_table_create(TOKEN_KIND, 1);
    return event_table ? CORE_OK : CORE_OUT_OF_MEMORY;
}

static int event_enter(core_event token, struct client_event **out)
{
    int code = core_enter();
    if (code)
        return code;
    *out = id_table_find(event_table, token);
    return *out ? atomic_load_explicit(&(*out)->context->session->sticky, memory_order_relaxed) : CORE_INVALID_HANDLE;
}

int core_event_check(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    return event_enter(token, &e);
}

int core_event_check_of_launch(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    int code = event_enter(token, &e);
    if (code)
        return code;
    return (e->flags & (FLAG_DISABLE_TIMING | FLAG_INTERPROCESS)) == FLAG_DISABLE_TIMING ? CORE_OK : CORE_NOT_SUPPORTED;
}

int core_event_create(core_context *c, unsigned flags, core_event *out)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (flags & ~(unsigned)EVENT_FLAGS)
        return CORE_INVALID_VALUE;
    if (flags & FLAG_INTERPROCESS && (code = core_share_check()))
        return code;
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
    e->cell.arena = NULL;
    e->there.is = e->to_be.is = false;
    atomic_store(&e->asked.at, 0);
    e->context = c;
    e->flags = flags;
    uint32_t index = 0;
    uint64_t token = id_table_add(event_table, e, &index);
    e->wire = index;
    atomic_store(&e->token, token);
    pthread_mutex_unlock(&e->lock);
    if (!token)
        return CORE_OUT_OF_MEMORY;
    event_create_args args = { .event = index, .context = c->wire,
                               .flags = flags & ~(unsigned)FLAG_INTERPROCESS };
    code = wire_send(c->session, FLYT_EVENT_CREATE, (xdrproc_t)xdr_event_create_args, &args);
    *out = token;
    return code;
}

static void event_recycle(struct client_event *e, uint32_t index)
{
    id_table_release(event_table, index);
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
    struct client_event *e = id_table_remove(event_table, token);
    if (!e)
        return CORE_INVALID_HANDLE;
    event_args args = { .event = e->wire };
    code = wire_send(e->context->session, FLYT_EVENT_DESTROY, (xdrproc_t)xdr_event_args, &args);
    if (e->cell.arena)
        cell_close(&e->cell);
    event_recycle(e, id_token_index(token));
    return code;
}

uint64_t event_count(void)
{
    return event_table ? id_table_count(event_table) : 0;
}

static void forget(void *object, id_token token, void *context)
{
    struct client_event *e = object;
    if (e->context == context && id_table_remove(event_table, token))
        event_recycle(e, id_token_index(token));
}

void event_forget_context(core_context *c)
{
    id_table_each(event_table, forget, c);
    cells_forget_context(c);
    c->reference = 0;
}

/* Held for the caller, who closes it. False: only this process knows the event. */
static bool cell_of(struct client_event *e, struct cell *cell)
{
    if (!(e->flags & FLAG_INTERPROCESS))
        return false;
    pthread_mutex_lock(&e->lock);
    bool known = e->cell.arena != NULL;
    if (known)
        *cell = cell_hold(&e->cell);
    pthread_mutex_unlock(&e->lock);
    return known;
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
    struct cell cell;
    if (!cell_of(e, &cell))
        return op_submit(s, &(struct op){ .kind = OP_EVENT_RECORD, .event = { e, flags } });
    code = cell_record(&cell, stream);
    cell_close(&cell);
    return code;
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
    e->there.is = false;
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
    e->there.is = false;
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
    return wire_plain(e->context->session, procedure, (xdrproc_t)xdr_event_args, &args);
}

int core_event_synchronize(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    int code = event_enter(token, &e);
    if (code)
        return code;
    struct cell cell;
    if (cell_of(e, &cell)) {
        code = cell_synchronize(&cell);
        cell_close(&cell);
        pool_release();
        return code ? code : mirror_synchronised();
    }
    struct recorded r = event_recorded(e);
    if (!r.stream || known_heard(&r)) {
        core_count_local();
        pool_release();
        return mirror_synchronised();
    }
    code = event_ask(e, FLYT_EVENT_SYNC);
    if (code)
        return code;
    learn_done(&r, stream_finished);
    pending_wait(&r.point);
    pool_release();
    return mirror_synchronised();
}

int core_event_query(core_event token)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    int code = event_enter(token, &e);
    if (code)
        return code;
    struct cell cell;
    if (cell_of(e, &cell)) {
        code = cell_query(&cell);
        cell_close(&cell);
        return code ? code : mirror_synchronised();
    }
    struct recorded r = event_recorded(e);
    if (!r.stream || known_done(&r)) {
        core_count_local();
        return mirror_synchronised();
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
    return pending_any(&r.point) ? CORE_NOT_READY : mirror_synchronised();
}

/* When it was recorded, in ms after the context's reference event. */
static int event_time(const struct client_event *e, double *ms)
{
    float elapsed = 0;
    *ms = e->there.ms;
    int code = e->there.is ? CORE_OK : core_event_elapsed_time(e->context, &elapsed, e->context->reference, e->token);
    if (!e->there.is)
        *ms = elapsed;
    return code;
}

static int elapsed_across(struct client_event *a, struct client_event *b, float *milliseconds)
{
    double start, end;
    int code = event_time(a, &start);
    if (!code && !(code = event_time(b, &end)))
        *milliseconds = (float)(end - start);
    return code;
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
    if (a->there.is || b->there.is)
        return elapsed_across(a, b, milliseconds);
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
    struct cell cell;
    bool across = e->context->session != s->context->session;
    if (!cell_of(e, &cell))
        return op_submit(s, &(struct op){ .kind = across ? OP_EVENT_ACROSS : OP_EVENT_WAIT, .event = { e, flags } });
    code = cell_wait(&cell, c, stream);
    cell_close(&cell);
    return code;
}

/* ---- other processes ---- */

/* What was recorded before anybody else knew the event. */
static int cell_catch_up(struct client_event *e, core_event token, const struct cell *cell)
{
    core_stream stream;
    struct recorded r = event_recorded(e);
    if (!r.stream || known_done(&r))
        return CORE_OK;
    int code = core_stream_create(e->context, STREAM_NON_BLOCKING, 0, &stream);
    if (code)
        return code;
    if (!(code = core_stream_wait(e->context, stream, token, 0)))
        code = cell_record(cell, stream);
    core_stream_destroy(stream);
    return code;
}

int core_ipc_event_get(core_event token, void *handle)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    struct cell cell = { NULL, 0 };
    int code = event_enter(token, &e);
    if (code)
        return code;
    if (!(e->flags & FLAG_INTERPROCESS))
        return CORE_INVALID_HANDLE;
    if (cell_of(e, &cell)) {
        cell_name(&cell, handle);
        cell_close(&cell);
        return CORE_OK;
    }
    if ((code = cell_make(e->context, &cell, handle)))
        return code;
    code = cell_catch_up(e, token, &cell);
    pthread_mutex_lock(&e->lock);
    bool first = !code && !e->cell.arena;
    if (first)
        e->cell = cell;
    else if (!code)
        cell_name(&e->cell, handle);          /* another thread was quicker */
    pthread_mutex_unlock(&e->lock);
    if (!first)
        cell_close(&cell);
    return code;
}

int core_ipc_event_open(core_context *c, const void *handle, core_event *out)
{
    CANCEL_DEFERRED;
    struct client_event *e;
    struct cell cell;
    core_event token;
    int code = context_enter(c);
    if (!code)
        code = core_share_check();
    if (!code)
        code = cell_open(c, handle, &cell);
    if (code)
        return code;
    if (!(code = core_event_create(c, FLAG_DISABLE_TIMING | FLAG_INTERPROCESS, &token)) &&
        !(code = event_enter(token, &e))) {
        pthread_mutex_lock(&e->lock);
        e->cell = cell;
        pthread_mutex_unlock(&e->lock);
        *out = token;
    }
    if (code)
        cell_close(&cell);
    return code;
}

/* A wait is work of its stream also where the event is complete: work of the legacy stream stands behind that of all
   blocking streams, and theirs behind it. Does it put the stream behind anything that the stream is not behind yet? */
static bool wait_joins(struct client_stream *s)
{
    struct client_stream *legacy = &s->context->legacy;
    if (!stream_is_blocking(s))
        return false;
    if (s == legacy)
        return core_perf.no_cache || !stream_known_idle(s);
    return atomic_load(&s->legacy_before) < atomic_load(&legacy->serial) &&
           (core_perf.no_cache || !stream_alone_idle(legacy));
}

int event_wait_op(struct client_stream *s, const struct op *op)
{
    struct client_event *e = op->event.event;
    struct recorded r = event_recorded(e);
    if (r.stream)
        pool_note_wait(s, atomic_load(&s->sent), r.stream, r.stream_token, r.point.number);
    if ((!r.stream || known_done(&r)) && !wait_joins(s))
        return CORE_OK;                       /* nothing to wait for */
    event_wait_args args = { .stream = s->wire, .event = e->wire, .flags = op->event.flags };
    struct point point;
    int code = stream_send(s, &(struct stream_call){ FLYT_STREAM_WAIT, (xdrproc_t)xdr_event_wait_args, &args,
                                                     .weighty = true }, &point);
    if (r.stream)
        pending_join(&r.point, &point);
    return code;
}
