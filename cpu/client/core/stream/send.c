/*
 * send.c: giving calls to streams: their numbers, and what must come before them.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu/common/lock.h"
#include "host_function.h"
#include "early_return.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/state.h"

/* ---- numbers ---- */

/* A call that is being given a number. */
struct numbering {
    struct rpc_place      place;              /* first: placed() finds the rest by it */
    struct client_stream *stream;
    struct point          point;
    struct submitted     *told;               /* NULL: nobody else wants to know */
};

/* Under the lock of the connection, so what is the session's or the context's is only stored, too.
   Serials say which call of which stream comes before which, so they are given out in the order in which calls travel.
   If two streams took theirs before it, the later one could travel first: a host function of a blocking stream would
   wait for a copy of the legacy stream that waits for the host function on the device.
   `sent` of stream and context grow here: a thread that reads them, and then synchronises, submits its call behind this
   one. The stream's first: a thread that knows the context's number finds the stream's. */
static void placed(struct rpc_place *place)
{
    struct numbering *n = (struct numbering *)place;
    struct client_stream *s = n->stream;
    core_context *c = s->context;
    if (stream_is_blocking(s) && !stream_is_legacy(s))
        n->point.legacy_before = atomic_load_explicit(&c->legacy.serial, memory_order_acquire);
    n->point.serial = progress_next_serial();
    atomic_store_explicit(&s->legacy_before, n->point.legacy_before, memory_order_release);
    atomic_store_explicit(&s->serial, n->point.serial, memory_order_release);
    s->counted = atomic_load_explicit(&c->sent, memory_order_relaxed) + 1;
    atomic_store_explicit(&s->sent, n->point.number, memory_order_release);
    atomic_store_explicit(&c->sent, s->counted, memory_order_release);
    if (!n->told)
        return;
    atomic_store(&n->told->legacy_before, n->point.legacy_before);
    atomic_store(&n->told->serial, n->point.serial);
    atomic_store(&n->told->number, n->point.number);
}

/* Under the stream's lock, so what is the stream's is only stored, and released: who learns of the call in any way
   finds its numbers. */
static void number_several(struct numbering *n, struct client_stream *s, uint32_t calls, uint32_t weighty, size_t bytes)
{
    FLYT_ASSERT_HELD(&s->lock);
    uint64_t before = atomic_load_explicit(&s->numbered, memory_order_relaxed), number = before + calls;
    *n = (struct numbering){ .place = { placed }, .stream = s,
                             .point = { .stream = s, .life = atomic_load_explicit(&s->life, memory_order_relaxed),
                                        .number = number } };
    atomic_store_explicit(&s->numbered, number, memory_order_release);
    if (weighty)
        atomic_store_explicit(&s->weighty, before + weighty, memory_order_release);
    atomic_store_explicit(&s->backlog.spent,
                          atomic_load_explicit(&s->backlog.spent, memory_order_relaxed) + calls + bytes / 1024,
                          memory_order_relaxed);
    if (!s->listed)
        rest_disturb(s);
}

static void number_begin(struct numbering *n, struct client_stream *s, bool weighty, size_t bytes)
{
    number_several(n, s, 1, weighty, bytes);
}

/* ---- sending ---- */

int stream_send(struct client_stream *s, const struct stream_call *call, struct point *point)
{
    struct numbering mine;
    struct stream_recorder *recorder = stream_recorder(s);
    if (__builtin_expect(recorder != NULL, 0))
        return recorder->keep(recorder, s, call, NULL, 0);
    throttle_enter(s, 0);
    backlog_enter(s);
    if (call->weighty && stream_is_blocking(s))
        early_return_before(s->context);
    pthread_mutex_lock(&s->lock);
    number_begin(&mine, s, call->weighty, call->bytes);
    int code = wire_send_placed(s->context->session, call->procedure, call->encode, call->args, &mine.place);
    pthread_mutex_unlock(&s->lock);
    if (point)
        *point = mine.point;
    return code;
}

int stream_send_ready(struct client_stream *s, uint32_t procedure, uint8_t *record, size_t size)
{
    struct numbering mine;
    struct stream_recorder *recorder = stream_recorder(s);
    if (__builtin_expect(recorder != NULL, 0))
        return recorder->keep(recorder, s, &(struct stream_call){ procedure, .weighty = true }, record + RPC_CALL_ROOM,
                              size);
    throttle_enter(s, 0);
    backlog_enter(s);
    if (stream_is_blocking(s))
        early_return_before(s->context);
    pthread_mutex_lock(&s->lock);
    number_begin(&mine, s, true, size);
    int code = wire_send_ready(s->context->session, procedure, record, size, &mine.place);
    pthread_mutex_unlock(&s->lock);
    return code;
}

bool stream_call_put(const struct stream_call *call, const uint8_t *body, uint8_t *to, size_t size)
{
    if (body) {
        memcpy(to, body, size);
        return true;
    }
    XDR xdr;
    xdrmem_create(&xdr, (char *)to, (u_int)size, XDR_ENCODE);
    return call->encode(&xdr, call->args);
}

struct sharing {
    struct rpc_place place; /* first: shares_placed() finds the rest by it */
    struct numbering *of;
    unsigned count;
};

static void shares_placed(struct rpc_place *place)
{
    struct sharing *sharing = (struct sharing *)place;
    for (unsigned i = 0; i < sharing->count; i++)
        placed(&sharing->of[i].place);
}

/* In the order of their addresses, as every thread does that locks several. */
static void shares_lock(const struct stream_share *shares, unsigned count)
{
    struct client_stream *sorted[STREAM_SHARES_MOST];
    for (unsigned i = 0, at; i < count; i++) {
        for (at = i; at > 0 && (uintptr_t)sorted[at - 1] > (uintptr_t)shares[i].stream; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = shares[i].stream;
    }
    for (unsigned i = 0; i < count; i++)
        pthread_mutex_lock(&sorted[i]->lock);
}

/* All streams are locked until the call has its place: the server counts the calls of each of them when it reads this
   one. */
int stream_send_shares(struct stream_share *shares, unsigned count, uint32_t procedure, xdrproc_t encode, void *args)
{
    struct numbering all[STREAM_SHARES_MOST];
    struct sharing sharing = { { shares_placed }, all, count };
    for (unsigned i = 0; i < count; i++) {
        struct client_stream *s = shares[i].stream;
        throttle_enter(s, shares[i].bytes);
        backlog_enter(s);
        if (shares[i].weighty && stream_is_blocking(s))
            early_return_before(s->context);
    }
    shares_lock(shares, count);
    for (unsigned i = 0; i < count; i++)
        number_several(&all[i], shares[i].stream, shares[i].calls, shares[i].weighty, shares[i].bytes);
    int code = wire_send_placed(shares[0].stream->context->session, procedure, encode, args, &sharing.place);
    for (unsigned i = count; i--;) {
        pthread_mutex_unlock(&shares[i].stream->lock);
        shares[i].place = all[i].point;
    }
    return code;
}

void client_stream_submit(struct client_stream *s, struct wire_call *call, void (*arrived)(struct wire_call *),
                          struct submitted *told)
{
    struct numbering mine;
    backlog_enter(s);
    pthread_mutex_lock(&s->lock);
    number_begin(&mine, s, false, 0);
    mine.told = told;
    call->rpc.place = &mine.place;
    if (arrived)
        wire_submit_detached(s->context->session, call, arrived);
    else
        wire_submit(s->context->session, call);
    pthread_mutex_unlock(&s->lock);
}
