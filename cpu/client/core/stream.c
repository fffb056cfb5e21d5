/*
 * stream.c: streams as tokens, the numbers of their calls, and what is known to have ended.
 *
 * The structures stand in a directory by wire id and are reused, never freed. An id is used again only when a reply
 * has come to a call that was sent after the STREAM_DESTROY, so that no completed number of the old stream can be
 * taken for the new one's. That holds for the published numbers too: the server sets an id's word to 0 when it serves the
 * STREAM_DESTROY, and writes no number of that stream after it. The legacy streams count on for ever.
 *
 * Shared memory has a word for each of the first ids, where the server publishes the stream's completed number. It does so
 * only while no error waits to be told: what is published has ended well, and nobody need ask. The program's
 * synchronisations do ask after a launch, though the work is known to have ended, because what kernels printed comes with
 * the answer (`heard`).
 */
#include <stdlib.h>

#include "cpu/common/ids.h"
#include "cpu/common/lock.h"
#include "internal.h"

enum { TOKEN_KIND = 1, CHUNK = 256, CHUNKS = 4096, FLAG_NON_BLOCKING = 1 };

struct chunk { struct stream *_Atomic at[CHUNK]; };

static id_table *table;
static struct chunk *_Atomic directory[CHUNKS];             /* by wire id, above FLYT_FIRST_STREAM */
static struct stream legacy[FLYT_MAX_DEVICES];              /* by the server's device number */
static uint64_t transfer[FLYT_MAX_DEVICES];                 /* tokens of the core's own streams */
static struct rpc_shared_memory shared;                     /* numbers NULL: none are published */
static _Atomic uint64_t unpublished;                        /* stays 0 */

/* Lists. `live` holds a device's streams, also destroyed ones until their id may be used again. */
static struct {
    pthread_mutex_t lock;
    struct stream  *live[FLYT_MAX_DEVICES];
    struct stream  *spare;
    struct retired { struct stream *stream; uint64_t serial; struct retired *next; } *retired, **last;
} lists = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_key_t per_thread_key;

struct per_thread { uint64_t token[FLYT_MAX_DEVICES]; };
static void per_thread_end(void *);

static _Atomic uint64_t *published_at(flyt_id wire)
{
    return shared.numbers && wire < shared.number_count ? &shared.numbers[wire] : &unpublished;
}

static const struct backlog_streams backlog_streams;

int stream_open(void)
{
    rpc_client_shared_memory(core_session.client, &shared);
    backlog_open(&backlog_streams);
    table = id_table_create(TOKEN_KIND, FLYT_FIRST_STREAM);
    if (!table || pthread_key_create(&per_thread_key, per_thread_end))
        return CORE_OUT_OF_MEMORY;
    for (int i = 0; i < FLYT_MAX_DEVICES; i++) {
        pthread_mutex_init(&legacy[i].lock, NULL);
        backlog_leave(&legacy[i]);
        legacy[i].wire = (flyt_id)i;
        legacy[i].published = published_at((flyt_id)i);
    }
    for (int i = 0; i < device_count(); i++)
        legacy[device_context(device_find(i))].device = i;
    return CORE_OK;
}

/* ---- numbers ---- */

static bool raise_to(atomic_uint_fast64_t *value, uint64_t to)
{
    uint64_t now = atomic_load_explicit(value, memory_order_relaxed);
    while (now < to)
        if (atomic_compare_exchange_weak(value, &now, to))
            return true;
    return false;
}

void stream_ended(struct stream *s, uint64_t number)
{
    if (raise_to(&s->done, number))
        wire_heard();
}

void stream_finished(struct stream *s, uint64_t number)
{
    stream_ended(s, number);
    raise_to(&s->heard, number);
}

bool stream_is_published(const struct stream *s)
{
    return s->published != &unpublished;
}

/* The acquire pairs with the server's release: who learns here that a copy has ended may look at what it wrote into shared
   memory. The other side may write anything there: a number that was never given out is not believed. */
uint64_t stream_done(struct stream *s)
{
    uint64_t done = atomic_load(&s->done);
    uint64_t said = atomic_load_explicit(s->published, memory_order_acquire);
    if (said <= done || said > atomic_load(&s->numbered))
        return done;
    stream_ended(s, said);
    return said;
}

static struct stream *by_wire(flyt_id wire)
{
    if (wire < FLYT_FIRST_STREAM)
        return wire < FLYT_MAX_DEVICES ? &legacy[wire] : NULL;
    uint32_t index = wire - FLYT_FIRST_STREAM;
    struct chunk *chunk = index / CHUNK < CHUNKS ? atomic_load_explicit(&directory[index / CHUNK], memory_order_acquire) : NULL;
    return chunk ? atomic_load_explicit(&chunk->at[index % CHUNK], memory_order_acquire) : NULL;
}

void stream_progress(flyt_id wire, uint64_t done)
{
    struct stream *s = by_wire(wire);
    if (s && done <= atomic_load(&s->numbered))   /* more than was ever sent: not to be believed */
        stream_ended(s, done);
}

static atomic_uint_fast64_t serials;

bool stream_is_legacy(const struct stream *s)
{
    return s->wire < FLYT_FIRST_STREAM;
}

bool stream_is_blocking(const struct stream *s)
{
    return !(s->flags & FLAG_NON_BLOCKING);
}

uint64_t stream_serial(void)
{
    return atomic_load(&serials);
}

struct point stream_point(const struct stream *s)
{
    struct point p = { .stream = s, .number = atomic_load(&s->sent) };
    p.serial = atomic_load(&s->serial);
    p.legacy_before = atomic_load(&s->legacy_before);
    return p;
}

struct point stream_point_next(const struct stream *s)
{
    struct point p = stream_point(s);
    if (!stream_is_blocking(s))
        return p;
    p.serial = stream_serial() + 1;
    if (!stream_is_legacy(s))
        p.legacy_before = atomic_load(&legacy[device_context(device_find(s->device))].serial) + 1;
    return p;
}

/* `sent` and the device's count grow only after the call was submitted: who reads them, and then synchronises,
   must not take for finished what is still on its way to the connection. Under the stream's lock, so what is the stream's
   is only stored, and released: who learns of the call in any way finds its numbers. */
static struct point number_begin(struct stream *s, enum stream_weight weight, size_t bytes)
{
    struct point p = { .stream = s, .number = atomic_load_explicit(&s->numbered, memory_order_relaxed) + 1 };
    atomic_store_explicit(&s->numbered, p.number, memory_order_release);
    if (weight == STREAM_WEIGHTY)
        atomic_store_explicit(&s->weighty, p.number, memory_order_release);
    if (stream_is_blocking(s) && !stream_is_legacy(s))
        p.legacy_before = atomic_load(&legacy[device_context(device_find(s->device))].serial);
    atomic_store_explicit(&s->backlog.spent, atomic_load_explicit(&s->backlog.spent, memory_order_relaxed) + 1 + bytes / 1024,
                          memory_order_relaxed);
    p.serial = atomic_fetch_add(&serials, 1) + 1;
    atomic_store_explicit(&s->legacy_before, p.legacy_before, memory_order_release);
    atomic_store_explicit(&s->serial, p.serial, memory_order_release);
    return p;
}

static void number_end(struct stream *s, uint64_t number)
{
    atomic_store_explicit(&s->sent, number, memory_order_release);
    atomic_fetch_add(&device_find(s->device)->sent, 1);
}

/* ---- sending ---- */

/* How much of the program's travels inside the call. */
static size_t bytes_inside(uint32_t procedure, xdrproc_t encode, const void *args)
{
    switch (procedure) {
    case FLYT_LAUNCH:
        return ((const launch_args *)args)->params.params_len;
    case FLYT_COPY_IN: {
        const flyt_bulk *data = &((const copy_in_args *)args)->data;
        return data->kind == FLYT_BULK_INLINE ? data->flyt_bulk_u.bytes.bytes_len : 0;
    }
    case FLYT_COPY_BOX_IN: {
        const struct host_rows *rows = &((const struct chunk_in *)args)->from;
        return encode == (xdrproc_t)xdr_chunk_in ? rows->width * rows->rows * rows->slices : 0;      /* else on a lane */
    }
    default:
        return 0;
    }
}

int stream_send(struct stream *s, uint32_t procedure, xdrproc_t encode, void *args, enum stream_weight weight, struct point *point)
{
    host_function_throttle(s, 0);
    backlog_enter(s);
    if (weight == STREAM_WEIGHTY && stream_is_blocking(s))
        returned_before(s->device);
    pthread_mutex_lock(&s->lock);
    struct point mine = number_begin(s, weight, bytes_inside(procedure, encode, args));
    int code = wire_send(procedure, encode, args);
    number_end(s, mine.number);
    pthread_mutex_unlock(&s->lock);
    if (point)
        *point = mine;
    return code;
}

int stream_send_ready(struct stream *s, uint32_t procedure, uint8_t *record, size_t size)
{
    host_function_throttle(s, 0);
    backlog_enter(s);
    if (stream_is_blocking(s))
        returned_before(s->device);
    pthread_mutex_lock(&s->lock);
    struct point mine = number_begin(s, STREAM_WEIGHTY, size);
    int code = wire_send_ready(procedure, record, size);
    number_end(s, mine.number);
    pthread_mutex_unlock(&s->lock);
    return code;
}

void stream_submit(struct stream *s, struct wire_call *call, void (*arrived)(struct wire_call *), atomic_uint_fast64_t *number,
                   atomic_uint_fast64_t *serial)
{
    backlog_enter(s);
    pthread_mutex_lock(&s->lock);
    struct point mine = number_begin(s, STREAM_LIGHT, 0);
    if (serial)
        atomic_store(serial, mine.serial);
    if (number)
        atomic_store(number, mine.number);
    if (arrived)
        wire_submit_detached(call, arrived);
    else
        wire_submit(call);
    number_end(s, mine.number);
    pthread_mutex_unlock(&s->lock);
}

/* ---- what the stream has under way, for backlog.c ---- */

static void answered(struct wire_call *call)
{
    struct stream *s = (struct stream *)(void *)((char *)call - offsetof(struct stream, backlog.call));
    bool good = call->result == CORE_OK;
    xdr_free((xdrproc_t)xdr_plain_result, &s->backlog.result);
    if (good)
        stream_ended(s, s->backlog.asked_at);
    backlog_answered(s, good);
}

static void ask(struct stream *s)
{
    struct backlog *b = &s->backlog;
    b->args = (stream_args){ .stream = s->wire };
    b->result = (plain_result){ 0 };
    b->asked_at = atomic_load(&s->sent);
    wire_prepare(&b->call, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &b->args, (xdrproc_t)xdr_plain_result, &b->result);
    wire_submit_detached(&b->call, answered);
}

static bool usable(void)
{
    return session_ready() && !rpc_client_lost(core_session.client);
}

static const struct backlog_streams backlog_streams = { .done = stream_done, .ask = ask, .usable = usable };

/* ---- what is known to have ended ---- */

static bool alone_idle(struct stream *s)
{
    struct point p = stream_point(s);
    return stream_done(s) >= p.number && !outs_pending(&p);
}

static bool alone_light(struct stream *s)
{
    return stream_done(s) >= atomic_load(&s->weighty);
}

static bool alone_heard(struct stream *s)
{
    return atomic_load(&s->heard) >= atomic_load(&s->weighty);
}

/* All of a device's streams; blocking_only: those that the legacy stream waits for. */
static bool all(int device, bool blocking_only, bool (*test)(struct stream *))
{
    struct device *d = device_find(device);
    if (atomic_load(&d->orphaned) > atomic_load(&d->idle_at) || !test(&legacy[device_context(d)]))
        return false;
    bool yes = true;
    pthread_mutex_lock(&lists.lock);
    for (struct stream *s = lists.live[device]; s && yes; s = s->next)
        yes = !s->token || (blocking_only && s->flags & FLAG_NON_BLOCKING) || test(s);
    pthread_mutex_unlock(&lists.lock);
    return yes;
}

/* of_device: idle_at or heard_at. */
static bool known(struct stream *s, const atomic_uint_fast64_t *of_device, bool (*test)(struct stream *))
{
    struct device *d = device_find(s->device);
    if (atomic_load(of_device) >= atomic_load(&d->sent))
        return true;
    if (!test(s))
        return false;
    if (stream_is_legacy(s))
        return all(s->device, true, test);
    /* A blocking stream waits for what the legacy stream was given before. */
    return s->flags & FLAG_NON_BLOCKING || test(&legacy[device_context(d)]);
}

bool stream_known_idle(struct stream *s)
{
    return known(s, &device_find(s->device)->idle_at, alone_idle);
}

bool stream_known_light(struct stream *s)
{
    return known(s, &device_find(s->device)->idle_at, alone_light);
}

bool stream_known_heard(struct stream *s)
{
    return known(s, &device_find(s->device)->heard_at, alone_heard) && stream_known_idle(s);
}

bool stream_device_idle(int device)
{
    return all(device, false, alone_idle);
}

unsigned stream_select(int device, bool (*test)(const struct stream *), struct stream **out, unsigned room)
{
    struct stream *first = &legacy[device_context(device_find(device))];
    unsigned count = 0;
    if (test(first))
        out[count++] = first;
    pthread_mutex_lock(&lists.lock);
    for (struct stream *s = lists.live[device]; s && count < room; s = s->next)
        if (test(s))
            out[count++] = s;
    pthread_mutex_unlock(&lists.lock);
    return count;
}

int stream_wait_for(struct stream *s)
{
    if (!core_perf.no_cache && stream_known_heard(s)) {
        core_count_local();
        return CORE_OK;
    }
    struct point point = stream_point(s);
    stream_args args = { .stream = s->wire };
    int code = wire_plain(FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &args);
    if (code)
        return code;
    stream_finished(s, point.number);
    outs_wait(&point);
    return CORE_OK;
}

/* ---- making and ending ---- */

static bool directory_set(uint32_t index, struct stream *s)
{
    index -= FLYT_FIRST_STREAM;
    if (index / CHUNK >= CHUNKS)
        return false;
    struct chunk *chunk = atomic_load(&directory[index / CHUNK]);
    if (!chunk) {
        chunk = calloc(1, sizeof *chunk);
        if (!chunk)
            return false;
        atomic_store_explicit(&directory[index / CHUNK], chunk, memory_order_release);
    }
    atomic_store_explicit(&chunk->at[index % CHUNK], s, memory_order_release);
    return true;
}

/* Ids whose end the server has certainly seen become free. */
static void release_retired(void)
{
    FLYT_ASSERT_HELD(&lists.lock);
    uint64_t confirmed = wire_confirmed();
    struct retired *r;
    while ((r = lists.retired) && r->serial <= confirmed && !outs_refer_to(r->stream) && backlog_leave(r->stream)) {
        struct stream *s = r->stream, **at = &lists.live[s->device];
        lists.retired = r->next;
        free(r);
        while (*at && *at != s)
            at = &(*at)->next;
        if (*at)
            *at = s->next;
        directory_set(s->wire, NULL);
        id_table_release(table, s->wire);
        s->next = lists.spare;
        lists.spare = s;
    }
}

static struct stream *stream_new(int device, unsigned flags, int priority)
{
    pthread_mutex_lock(&lists.lock);
    release_retired();
    struct stream *s = lists.spare;
    if (s)
        lists.spare = s->next;
    else if ((s = calloc(1, sizeof *s))) {
        pthread_mutex_init(&s->lock, NULL);
        backlog_leave(s);
    }
    uint32_t index = 0;
    uint64_t token = s ? id_table_add(table, s, &index) : 0;
    if (!token || !directory_set(index, s)) {
        if (token) {
            id_table_remove(table, token);
            id_table_release(table, index);
        }
        if (s) {
            s->next = lists.spare;
            lists.spare = s;
        }
        pthread_mutex_unlock(&lists.lock);
        return NULL;
    }
    s->wire = index;
    s->device = device;
    s->flags = flags;
    s->priority = priority;
    s->published = published_at(index);
    atomic_store(&s->heard, 0);
    atomic_store(&s->asked.at, 0);
    atomic_store(&s->sent, 0);
    atomic_store(&s->numbered, 0);
    atomic_store(&s->done, 0);
    atomic_store(&s->weighty, 0);
    atomic_store(&s->serial, 0);
    atomic_store(&s->legacy_before, 0);
    atomic_store(&s->returned, 0);
    atomic_store(&s->behind.number, 0);
    atomic_store(&s->token, token);
    returned_count(s, 1);
    s->next = lists.live[device];
    lists.live[device] = s;
    pthread_mutex_unlock(&lists.lock);
    return s;
}

/* The token is gone from the table; the id follows later. */
static void stream_retire(struct stream *s)
{
    struct retired *r = malloc(sizeof *r);    /* without memory the id is never used again */
    returned_count(s, -1);
    pthread_mutex_lock(&lists.lock);
    atomic_store(&s->token, 0);
    if (r) {
        *r = (struct retired){ .stream = s, .serial = wire_next_serial() };
        if (!lists.retired)
            lists.last = &lists.retired;
        *lists.last = r;
        lists.last = &r->next;
    }
    pthread_mutex_unlock(&lists.lock);
}

static int stream_create(int device, unsigned flags, int priority, struct stream **out)
{
    struct device *d;
    int code = device_enter(device, &d);
    if (code)
        return code;
    if (!(*out = stream_new(device, flags, priority)))
        return CORE_OUT_OF_MEMORY;
    stream_create_args args = { .stream = (*out)->wire, .context = device_context(d), .flags = flags, .priority = priority };
    return wire_send(FLYT_STREAM_CREATE, (xdrproc_t)xdr_stream_create_args, &args);
}

int core_stream_create(int device, unsigned flags, int priority, core_stream *out)
{
    CANCEL_DEFERRED;
    struct device *d;
    int code = device_enter(device, &d);
    if (code)
        return code;
    if (flags & ~(unsigned)FLAG_NON_BLOCKING)
        return CORE_INVALID_VALUE;
    /* Out of range is not an error: it is clamped. Smaller numbers are greater priorities. */
    int least = d->public.priority_least, greatest = d->public.priority_greatest;
    priority = priority < greatest ? greatest : priority > least ? least : priority;
    struct stream *s;
    code = stream_create(device, flags, priority, &s);
    *out = code ? 0 : s->token;
    if (!code)
        returned_settle(s);
    return code;
}

static int stream_destroy(uint64_t token)
{
    struct stream *s = id_table_find(table, token);
    if (s && atomic_load(&s->returned))
        returned_mark(s->device);             /* it can be recorded only while it has a name */
    if (!(s = id_table_remove(table, token)))
        return CORE_INVALID_HANDLE;
    struct device *d = device_find(s->device);
    if (!alone_idle(s))
        raise_to(&d->orphaned, atomic_fetch_add(&d->sent, 1) + 1);
    stream_args args = { .stream = s->wire };
    int code = wire_send(FLYT_STREAM_DESTROY, (xdrproc_t)xdr_stream_args, &args);
    stream_retire(s);
    return code;
}

int core_stream_destroy(core_stream token)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    return code ? code : stream_destroy(token);
}

void stream_forget_device(int device)
{
    struct device *d = device_find(device);
    pthread_mutex_lock(&lists.lock);
    for (struct stream *s = lists.live[device], *next; s; s = next) {
        next = s->next;
        uint64_t token = atomic_load(&s->token);
        if (!token || !id_table_remove(table, token))
            continue;
        pthread_mutex_unlock(&lists.lock);
        stream_finished(s, atomic_load(&s->sent));
        stream_retire(s);
        pthread_mutex_lock(&lists.lock);
    }
    transfer[device] = 0;
    pthread_mutex_unlock(&lists.lock);
    stream_finished(&legacy[device_context(d)], atomic_load(&legacy[device_context(d)].sent));
}

/* ---- finding ---- */

static void per_thread_end(void *mine)
{
    struct per_thread *p = mine;
    for (int i = 0; i < FLYT_MAX_DEVICES; i++)
        if (p->token[i] && session_ready() && !core_sticky())
            stream_destroy(p->token[i]);
    free(p);
}

/* A blocking stream of its own for each host thread and device, as CUDA's per-thread default stream is. */
static int per_thread_stream(int device, struct stream **out)
{
    struct per_thread *p = pthread_getspecific(per_thread_key);
    if (!p && (!(p = calloc(1, sizeof *p)) || pthread_setspecific(per_thread_key, p))) {
        free(p);
        return CORE_OUT_OF_MEMORY;
    }
    *out = p->token[device] ? id_table_find(table, p->token[device]) : NULL;
    if (*out)
        return CORE_OK;
    int code = stream_create(device, 0, 0, out);
    p->token[device] = code ? 0 : (*out)->token;
    if (!code)
        returned_settle(*out);
    return code;
}

int stream_transfer(int device, struct stream **out)
{
    pthread_mutex_lock(&lists.lock);
    uint64_t token = transfer[device];
    pthread_mutex_unlock(&lists.lock);
    *out = token ? id_table_find(table, token) : NULL;
    if (*out)
        return CORE_OK;
    /* Only the host function thread comes here; what it would catch up with may wait for it. */
    int code = stream_create(device, FLAG_NON_BLOCKING, 0, out);
    if (code)
        return code;
    pthread_mutex_lock(&lists.lock);
    transfer[device] = (*out)->token;
    pthread_mutex_unlock(&lists.lock);
    return CORE_OK;
}

int stream_enter(int device, core_stream token, struct stream **out)
{
    struct device *d;
    int code = core_enter();
    if (code)
        return code;
    if (token <= CORE_STREAM_PER_THREAD) {
        if ((code = device_enter(device, &d)))
            return code;
        if (token == CORE_STREAM_PER_THREAD)
            return per_thread_stream(device, out);
        *out = &legacy[device_context(d)];
        return CORE_OK;
    }
    *out = id_table_find(table, token);
    return *out ? CORE_OK : CORE_INVALID_HANDLE;
}

/* ---- the rest of the public face ---- */

int core_stream_synchronize(int device, core_stream token)
{
    CANCEL_DEFERRED;
    struct stream *s;
    int code = stream_enter(device, token, &s);
    return code ? code : stream_wait_for(s);
}

int core_stream_query(int device, core_stream token)
{
    CANCEL_DEFERRED;
    struct stream *s;
    int code = stream_enter(device, token, &s);
    if (code)
        return code;
    if (!core_perf.no_cache && stream_known_idle(s)) {
        core_count_local();
        return CORE_OK;
    }
    /* What the legacy stream waits for in others is not in its own number. */
    if (wire_not_ready_yet(&s->asked, stream_is_published(s) && !stream_is_legacy(s)))
        return CORE_NOT_READY;
    uint64_t news = wire_news();
    struct point point = stream_point(s);
    stream_args args = { .stream = s->wire };
    code = wire_plain(FLYT_STREAM_QUERY, (xdrproc_t)xdr_stream_args, &args);
    if (code == CORE_NOT_READY)
        wire_not_ready(&s->asked, news);
    if (code)
        return code;
    stream_ended(s, point.number);
    return outs_pending(&point) ? CORE_NOT_READY : CORE_OK;
}

int core_stream_info(int device, core_stream token, struct core_stream_info *out)
{
    CANCEL_DEFERRED;
    struct stream *s;
    int code = stream_enter(device, token, &s);
    if (!code)
        *out = (struct core_stream_info){ .device = s->device, .flags = s->flags, .priority = s->priority, .id = (uint64_t)s->wire + 1 };
    return code;
}
