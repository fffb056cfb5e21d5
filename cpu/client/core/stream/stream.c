/*
 * stream.c: streams as tokens: how they are made, found and ended.
 *
 * Structures are reused, never freed. An id is used again only when a reply has come to a call that was sent after the
 * STREAM_DESTROY (progress.c says why).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/ids.h"
#include "cpu/common/list.h"
#include "cpu/common/lock.h"
#include "cpu/client/core/api_stream.h"
#include "cpu/client/core/wire/device.h"
#include "managed.h"
#include "mirror.h"
#include "move.h"
#include "pending.h"
#include "cpu/client/core/wire/perf.h"
#include "pool_notes.h"
#include "early_return.h"
#include "cpu/client/core/wire/state.h"

enum { TOKEN_KIND = 1 };

static id_table *table;

/* A context's list holds its streams, also destroyed ones until their id may be used again. */
static struct {
    pthread_mutex_t lock;
    struct list     spare;
    struct retired {
        struct client_stream *stream;
        uint64_t serial;
        struct retired *next;
    } * retired, **last;
} lists = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_key_t per_thread_key;

struct per_thread { uint64_t token[CONTEXTS_MOST]; };
static void per_thread_end(void *);

int stream_open(void)
{
    table = id_table_create(TOKEN_KIND, FLYT_FIRST_STREAM);
    if (!table || pthread_key_create(&per_thread_key, per_thread_end))
        return CORE_OUT_OF_MEMORY;
    for (int i = 0; i < device_count(); i++)
        stream_open_context(context_of_wire((flyt_id)i));
    return CORE_OK;
}

void stream_open_context(core_context *c)
{
    struct client_stream *s = &c->legacy;
    if (s->context)
        return;
    pthread_mutex_init(&s->lock, NULL);
    backlog_leave(s);
    s->context = c;
    s->wire = c->wire;
    s->published = progress_published(c, c->wire);
    s->listed = true;                         /* it is looked at in any case (idle.c) */
}

/* ---- making and ending ---- */

/* Ids whose end the server has certainly seen become free. */
static void release_retired(void)
{
    FLYT_ASSERT_HELD(&lists.lock);
    struct retired *r;
    while ((r = lists.retired) && r->serial <= wire_confirmed(r->stream->context->session) &&
           !pending_refer_to(r->stream) && backlog_leave(r->stream)) {
        struct client_stream *s = r->stream;
        lists.retired = r->next;
        free(r);
        progress_direct(s->wire, NULL);
        id_table_release(table, s->wire);
        list_remove(&s->of_context);
        list_prepend(&lists.spare, &s->of_context);
    }
}

static struct client_stream *structure_take(void)
{
    pthread_mutex_lock(&lists.lock);
    release_retired();
    struct client_stream *s = LIST_OBJECT(list_first(&lists.spare), struct client_stream, of_context);
    if (s)
        list_remove(&s->of_context);
    pthread_mutex_unlock(&lists.lock);
    if (!s && (s = calloc(1, sizeof *s))) {
        pthread_mutex_init(&s->lock, NULL);
        backlog_leave(s);
    }
    return s;
}

static void structure_spare(struct client_stream *s)
{
    pthread_mutex_lock(&lists.lock);
    list_prepend(&lists.spare, &s->of_context);
    pthread_mutex_unlock(&lists.lock);
}

static struct client_stream *stream_new(core_context *c, unsigned flags, int priority)
{
    struct client_stream *s = structure_take();
    if (!s)
        return NULL;
    uint32_t index = 0;
    uint64_t token = id_table_add(table, s, &index);
    if (token && !progress_direct(index, s)) {
        id_table_remove(table, token);
        id_table_release(table, index);
        token = 0;
    }
    if (!token) {
        structure_spare(s);
        return NULL;
    }
    rest_forget(s);                           /* a call that raced with the end of the stream that it was */
    early_return_forget(s);
    s->wire = index;
    s->context = c;
    s->flags = flags;
    s->priority = priority;
    s->published = progress_published(c, index);
    atomic_store(&s->base, 0);
    s->counted = 0;
    atomic_store(&s->recorder, NULL);
    pthread_mutex_lock(&s->lock);             /* a launch that raced with the end of the stream that it was */
    free(s->attributes);
    s->attributes = NULL;
    pthread_mutex_unlock(&s->lock);
    atomic_store(&s->heard, 0);
    atomic_store(&s->asked.at, 0);
    atomic_store(&s->sent, 0);
    atomic_store(&s->numbered, 0);
    atomic_store(&s->done, 0);
    atomic_store(&s->weighty, 0);
    atomic_store(&s->serial, 0);
    atomic_store(&s->legacy_before, 0);
    atomic_store(&s->early_returns, 0);
    atomic_store(&s->behind.number, 0);
    atomic_fetch_add(&s->life, 1);
    atomic_store(&s->token, token);
    early_return_count(s, 1);
    pthread_mutex_lock(&lists.lock);
    list_prepend(&c->streams, &s->of_context);
    pthread_mutex_unlock(&lists.lock);
    return s;
}

/* The token is gone from the table; the id follows later. */
static void stream_retire(struct client_stream *s)
{
    struct retired *r = malloc(sizeof *r);    /* without memory the id is never used again */
    early_return_count(s, -1);
    rest_forget(s);
    pthread_mutex_lock(&lists.lock);
    atomic_store(&s->token, 0);
    if (r) {
        *r = (struct retired){ .stream = s, .serial = wire_next_serial(s->context->session) };
        if (!lists.retired)
            lists.last = &lists.retired;
        *lists.last = r;
        lists.last = &r->next;
    }
    pthread_mutex_unlock(&lists.lock);
}

static int stream_create(core_context *c, unsigned flags, int priority, struct client_stream **out)
{
    if (!(*out = stream_new(c, flags, priority)))
        return CORE_OUT_OF_MEMORY;
    stream_create_args args = { .stream = (*out)->wire, .context = c->wire, .flags = flags, .priority = priority };
    return wire_send(c->session, FLYT_STREAM_CREATE, (xdrproc_t)xdr_stream_create_args, &args);
}

/* What the context must wait for holds for new streams too. */
static int stream_pass_gate(core_context *c, const struct client_stream *s)
{
    core_event gate = atomic_load(&c->gate);
    return __builtin_expect(gate != 0, 0) ? core_stream_wait(c, atomic_load(&s->token), gate, 0) : CORE_OK;
}

int stream_list(core_context *c, core_stream **out, unsigned *count)
{
    core_stream *streams = NULL;
    unsigned room;
    *count = 0;
    do {
        room = (unsigned)id_table_count(table) + 2;
        free(streams);
        if (!(streams = malloc(room * sizeof *streams)))
            break;
        unsigned used = 0;
        streams[used++] = CORE_STREAM_LEGACY;
        pthread_mutex_lock(&lists.lock);
        for (struct list *link = list_first(&c->streams); link && used < room; link = list_next(&c->streams, link)) {
            struct client_stream *s = LIST_OBJECT(link, struct client_stream, of_context);
            uint64_t token = atomic_load(&s->token);
            if (token && token != c->transfer && token != c->sends)
                streams[used++] = token;
        }
        pthread_mutex_unlock(&lists.lock);
        *count = used;
    } while (*count == room);                 /* others have made streams meanwhile */
    *out = streams;
    return streams ? CORE_OK : CORE_OUT_OF_MEMORY;
}

void stream_each(void (*visit)(struct client_stream *, void *), void *context)
{
    core_context *c;
    pthread_mutex_lock(&lists.lock);
    for (flyt_id wire = 0; (c = context_of_wire(wire)); wire++) {
        visit(&c->legacy, context);
        for (struct list *link = list_first(&c->streams); link; link = list_next(&c->streams, link))
            visit(LIST_OBJECT(link, struct client_stream, of_context), context);
    }
    pthread_mutex_unlock(&lists.lock);
}

core_stream stream_lend(struct client_stream *s, core_context *c)
{
    s->context = c;
    s->flags = STREAM_NON_BLOCKING;
    s->published = progress_published(c, UINT32_MAX);
    s->listed = true;
    uint64_t token = id_table_add(table, s, NULL);
    atomic_store(&s->token, token);
    return token;
}

void stream_return(core_stream token)
{
    if (id_table_remove(table, token))
        id_table_release(table, id_token_index(token));
}

int core_stream_create(core_context *c, unsigned flags, int priority, core_stream *out)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (flags & ~(unsigned)STREAM_NON_BLOCKING)
        return CORE_INVALID_VALUE;
    /* Out of range is not an error: it is clamped. Smaller numbers are greater priorities. */
    int least = c->facts->priority_least, greatest = c->facts->priority_greatest;
    priority = priority < greatest ? greatest : priority > least ? least : priority;
    struct client_stream *s;
    code = stream_create(c, flags, priority, &s);
    *out = code ? 0 : s->token;
    if (!code)
        early_return_settle(s);
    return code ? code : stream_pass_gate(c, s);
}

static void raise_to(atomic_uint_fast64_t *value, uint64_t to)
{
    uint64_t now = atomic_load(value);
    while (now < to && !atomic_compare_exchange_weak(value, &now, to))
        ;
}

static int stream_destroy(uint64_t token)
{
    struct client_stream *s = id_table_find(table, token);
    if (s && atomic_load(&s->early_returns))
        early_return_mark(s->context);            /* it can be recorded only while it has a name */
    if (s)
        pool_note_stream_end(s);
    if (!(s = id_table_remove(table, token)))
        return CORE_INVALID_HANDLE;
    core_context *c = s->context;
    if (!stream_alone_idle(s))
        raise_to(&c->orphaned, atomic_load(&c->sent));
    stream_args args = { .stream = s->wire };
    int code = wire_send(c->session, FLYT_STREAM_DESTROY, (xdrproc_t)xdr_stream_args, &args);
    stream_retire(s);
    return code;
}

int core_stream_destroy(core_stream token)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    return code ? code : stream_destroy(token);
}

uint64_t stream_count(void)
{
    return table ? id_table_count(table) : 0;
}

void stream_forget_context(core_context *c)
{
    pthread_mutex_lock(&lists.lock);
    for (struct list *link = list_first(&c->streams), *next; link; link = next) {
        struct client_stream *s = LIST_OBJECT(link, struct client_stream, of_context);
        next = list_next(&c->streams, link);
        uint64_t token = atomic_load(&s->token);
        if (!token || !id_table_remove(table, token))
            continue;
        pthread_mutex_unlock(&lists.lock);
        stream_finished(s, atomic_load(&s->sent));
        stream_retire(s);
        pthread_mutex_lock(&lists.lock);
    }
    c->transfer = c->sends = 0;
    pthread_mutex_unlock(&lists.lock);
    atomic_store(&c->gate, 0);                /* the event goes with the context */
    stream_finished(&c->legacy, atomic_load(&c->legacy.sent));
}

flyt_id stream_id_take(uint64_t *token)
{
    static char nobody;
    uint32_t index = 0;
    *token = id_table_add(table, &nobody, &index);
    if (*token)
        id_table_remove(table, *token);           /* nobody finds it; the index stays taken */
    return *token ? index : 0;
}

void stream_id_give(uint64_t token)
{
    id_table_release(table, id_token_index(token));
}

/* ---- moving to another server ---- */

static void stream_again(void *object, id_token token, void *context)
{
    struct client_stream *s = object;
    int *code = context;
    (void)token;
    stream_create_args args = { .stream = s->wire, .context = s->context->wire, .flags = s->flags,
                                .priority = s->priority };
    if (!*code)
        *code = wire_send(s->context->session, FLYT_STREAM_CREATE, (xdrproc_t)xdr_stream_create_args, &args);
}

int stream_restore(struct move *move)
{
    int code = CORE_OK;
    (void)move;
    id_table_each(table, stream_again, &code);
    return code;
}

/* All that it was given has ended, and it is the new server that says what ends from here on. */
static void stream_adopt(struct client_stream *s, void *unused)
{
    (void)unused;
    stream_finished(s, atomic_load(&s->numbered));
    atomic_store(&s->base, atomic_load(&s->numbered));
    s->published = progress_published(s->context, s->wire);
}

void stream_moved(struct move *move, bool moved)
{
    if (!moved || move->notes)
        return;
    progress_open();
    stream_each(stream_adopt, NULL);
}

struct bases {
    const uint64_t *of;
    size_t count;
};

static void rebase(struct client_stream *s, void *context)
{
    const struct bases *bases = context;
    atomic_store(&s->base, s->wire < bases->count ? bases->of[s->wire] : 0);
}

void streams_rebase(const uint64_t *bases, size_t count) { stream_each(rebase, &(struct bases){ bases, count }); }

/* ---- finding ---- */

static void per_thread_end(void *mine)
{
    struct per_thread *p = mine;
    for (int i = 0; i < CONTEXTS_MOST; i++)
        if (p->token[i] && !core_enter())
            stream_destroy(p->token[i]);
    free(p);
}

/* A blocking stream of its own for each host thread and context, as CUDA's per-thread default stream is. */
static int per_thread_stream(core_context *c, struct client_stream **out)
{
    struct per_thread *p = pthread_getspecific(per_thread_key);
    if (!p && (!(p = calloc(1, sizeof *p)) || pthread_setspecific(per_thread_key, p))) {
        free(p);
        return CORE_OUT_OF_MEMORY;
    }
    *out = p->token[c->wire] ? id_table_find(table, p->token[c->wire]) : NULL;
    if (*out)
        return CORE_OK;
    int code = stream_create(c, 0, 0, out);
    p->token[c->wire] = code ? 0 : (*out)->token;
    if (!code)
        early_return_settle(*out);
    return code ? code : stream_pass_gate(c, *out);
}

/* kept: the context's token of it. */
static int own_stream(core_context *c, uint64_t *kept, struct client_stream **out)
{
    pthread_mutex_lock(&lists.lock);
    uint64_t token = *kept;
    pthread_mutex_unlock(&lists.lock);
    *out = token ? id_table_find(table, token) : NULL;
    if (*out)
        return CORE_OK;
    /* Only threads of the core come here; what they would catch up with may wait for them. */
    int code = stream_create(c, STREAM_NON_BLOCKING, 0, out);
    if (code)
        return code;
    pthread_mutex_lock(&lists.lock);
    *kept = (*out)->token;
    pthread_mutex_unlock(&lists.lock);
    return CORE_OK;
}

static int own_stream_of(core_context *c, uint64_t *kept, struct client_stream **out)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    int code = own_stream(c, kept, out);
    pthread_mutex_unlock(&making);
    return code;
}

int stream_transfer(core_context *c, struct client_stream **out) { return own_stream_of(c, &c->transfer, out); }
int stream_sends(core_context *c, struct client_stream **out) { return own_stream_of(c, &c->sends, out); }

int client_stream_find(core_context *c, core_stream token, struct client_stream **out)
{
    if (token == CORE_STREAM_PER_THREAD)
        return per_thread_stream(c, out);
    *out = token < CORE_STREAM_PER_THREAD ? &c->legacy : id_table_find(table, token);
    return *out ? CORE_OK : CORE_INVALID_HANDLE;
}

int client_stream_enter(core_context *c, core_stream token, struct client_stream **out)
{
    int code = context_enter(c);
    return code ? code : client_stream_find(c, token, out);
}

/* ---- the rest of the public face ---- */

int core_stream_synchronize(core_context *c, core_stream token)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, token, &s);
    managed_synchronised();
    if (code || (code = stream_wait_for(s)))
        return code;
    pool_release();
    return mirror_synchronised();
}

int core_stream_query(core_context *c, core_stream token)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, token, &s);
    if (code)
        return code;
    if (!core_perf.no_cache && stream_known_idle(s)) {
        core_count_local();
        return mirror_synchronised();
    }
    /* What the legacy stream waits for in others is not in its own number. */
    if (wire_not_ready_yet(&s->asked, stream_is_published(s) && !stream_is_legacy(s)))
        return CORE_NOT_READY;
    uint64_t news = wire_news();
    struct point point = stream_point(s);
    stream_args args = { .stream = s->wire };
    code = wire_plain(s->context->session, FLYT_STREAM_QUERY, (xdrproc_t)xdr_stream_args, &args);
    if (code == CORE_NOT_READY)
        wire_not_ready(&s->asked, news);
    if (code)
        return code;
    stream_ended(s, point.number);
    return pending_any(&point) ? CORE_NOT_READY : mirror_synchronised();
}

int core_stream_info(core_context *c, core_stream token, struct core_stream_info *out)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, token, &s);
    if (!code)
        *out = (struct core_stream_info){ .context = s->context, .device = s->context->device, .flags = s->flags,
                                          .priority = s->priority, .id = (uint64_t)s->wire + 1 };
    return code;
}
