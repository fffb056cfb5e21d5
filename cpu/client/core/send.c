/*
 * send.c: giving calls to streams: their numbers, and what must come before them.
 */
#include "cpu/common/lock.h"
#include "internal.h"

/* ---- numbers ---- */

/* `sent` and the context's count grow only after the call was submitted: who reads them, and then synchronises, must
   not take for finished what is still on its way to the connection. Under the stream's lock, so what is the stream's
   is only stored, and released: who learns of the call in any way finds its numbers. */
static struct point number_begin(struct stream *s, enum stream_weight weight, size_t bytes)
{
    struct point p = { .stream = s, .number = atomic_load_explicit(&s->numbered, memory_order_relaxed) + 1 };
    atomic_store_explicit(&s->numbered, p.number, memory_order_release);
    if (weight == STREAM_WEIGHTY)
        atomic_store_explicit(&s->weighty, p.number, memory_order_release);
    if (stream_is_blocking(s) && !stream_is_legacy(s))
        p.legacy_before = atomic_load(&s->context->legacy.serial);
    atomic_store_explicit(&s->backlog.spent,
                          atomic_load_explicit(&s->backlog.spent, memory_order_relaxed) + 1 + bytes / 1024,
                          memory_order_relaxed);
    p.serial = progress_next_serial();
    if (!s->listed)
        rest_disturb(s);
    atomic_store_explicit(&s->legacy_before, p.legacy_before, memory_order_release);
    atomic_store_explicit(&s->serial, p.serial, memory_order_release);
    return p;
}

static void number_end(struct stream *s, uint64_t number)
{
    atomic_store_explicit(&s->sent, number, memory_order_release);
    s->counted = atomic_fetch_add(&s->context->sent, 1) + 1;
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

int stream_send(struct stream *s, uint32_t procedure, xdrproc_t encode, void *args, enum stream_weight weight,
                struct point *point)
{
    throttle_enter(s, 0);
    backlog_enter(s);
    if (weight == STREAM_WEIGHTY && stream_is_blocking(s))
        returned_before(s->context);
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
    throttle_enter(s, 0);
    backlog_enter(s);
    if (stream_is_blocking(s))
        returned_before(s->context);
    pthread_mutex_lock(&s->lock);
    struct point mine = number_begin(s, STREAM_WEIGHTY, size);
    int code = wire_send_ready(procedure, record, size);
    number_end(s, mine.number);
    pthread_mutex_unlock(&s->lock);
    return code;
}

void stream_submit(struct stream *s, struct wire_call *call, void (*arrived)(struct wire_call *),
                   atomic_uint_fast64_t *number, atomic_uint_fast64_t *serial)
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
    wire_prepare(&b->call, FLYT_STREAM_SYNC, (xdrproc_t)xdr_stream_args, &b->args, (xdrproc_t)xdr_plain_result,
                 &b->result);
    wire_submit_detached(&b->call, answered);
}

static bool usable(void)
{
    return session_ready() && !rpc_client_lost(core_session.client);
}

static const struct backlog_streams backlog_streams = { .done = stream_done, .ask = ask, .usable = usable };

void send_open(void)
{
    backlog_open(&backlog_streams);
}
