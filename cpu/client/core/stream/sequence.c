/*
 * sequence.c: what a graph gives its streams, kept by the server and given again at one message (GRAPH_LAUNCH).
 *
 * A sequence is recorded by the functions that would send it: the streams have a recorder meanwhile, which decides what
 * can be kept, and takes the encoded calls in place of the connection. The stream of a launch is not known yet; a
 * stand-in takes its place. What has been recorded is compared with what the server has, and only what differs is sent.
 *
 * A segment is launched in chunks of at most FLYT_MAX_GRAPH_CALLS calls, each one message. A launch numbers the calls
 * of each stream, as the server will, and says of the events in it where they are recorded now: a call that comes later
 * and waits for one of them finds it as if it had been recorded by a call of its own.
 *
 * Lock: recording, held from core_sequence_begin to core_sequence_end, since there is one stand-in. Before all others.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/ids.h"
#include "context.h"
#include "mirror.h"
#include "move.h"
#include "op.h"
#include "cpu/client/core/api_graph.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"

enum { TOKEN_KIND = 32, STREAMS_MOST = CORE_SEQUENCE_STREAMS + 1, MESSAGE_MOST = 512 << 10 };
_Static_assert((int)STREAMS_MOST <= (int)STREAM_SHARES_MOST, "each stream of a sequence has a share of a message");

/* A call. stream: its place in core_sequence.streams. event: what it records or waits for, or NULL. number: among its
   stream's calls of its chunk, from 1. next_event: the chunk's next call with an event, or NO_CALL. */
enum { NO_CALL = -1 };
struct sequence_kept {
    uint32_t procedure, size, stream, number;
    int32_t next_event;
    bool weighty;
    struct client_event *event;
    size_t at; /* of its arguments, in `bytes` */
};
struct contents {
    struct sequence_kept *calls;
    uint8_t *bytes;
    size_t count, room, used, size;
};

struct chunk {
    uint32_t first, count;
    int32_t first_event; /* a call, or NO_CALL */
    struct sequence_share {
        uint32_t calls, weighty;
        size_t bytes;
    } shares[STREAMS_MOST];
};
struct segment {
    uint32_t first, end; /* chunks */
};

struct core_sequence {
    struct stream_recorder recorder; /* first: the structure is found by it */
    id_token token;
    uint32_t wire;
    bool sent;                /* the server has a graph of this id */
    struct contents now;      /* what the server has */
    struct contents next;     /* what is being recorded */
    bool refused, exhausted;  /* while recording: something could not be kept; for lack of memory */
    struct client_stream *streams[STREAMS_MOST]; /* the first: the stand-in */
    core_stream stand_in;
    unsigned stream_count;
    uint32_t cut; /* the call with which the next segment begins */
    struct chunk *chunks;
    struct segment *segments;
    size_t chunk_count, segment_count;
};

static struct {
    pthread_mutex_t lock;
    struct client_stream stand_in;
} recording = { .lock = PTHREAD_MUTEX_INITIALIZER, .stand_in = { .wire = FLYT_GRAPH_STREAM } };

static id_table *table;
static atomic_size_t total; /* bytes as the server counts them, of all sequences */

int sequence_open(void)
{
    pthread_mutex_init(&recording.stand_in.lock, NULL);
    table = id_table_create(TOKEN_KIND, 1);
    return table ? CORE_OK : CORE_OUT_OF_MEMORY;
}

uint64_t sequence_count(void) { return table ? id_table_count(table) : 0; }

static size_t cost(const struct contents *c) { return c->count * FLYT_GRAPH_PLACE_COST + c->used; }

static void contents_free(struct contents *c)
{
    free(c->calls);
    free(c->bytes);
    *c = (struct contents){ 0 };
}

/* ---- recording ---- */

static bool room_make(struct contents *c, size_t bytes)
{
    if (c->count == c->room) {
        size_t room = c->room ? c->room * 2 : 32;
        struct sequence_kept *calls = realloc(c->calls, room * sizeof *calls);
        if (!calls)
            return false;
        c->calls = calls;
        c->room = room;
    }
    if (c->size - c->used >= bytes)
        return true;
    size_t size = (c->size + bytes) * 2;
    uint8_t *grown = realloc(c->bytes, size);
    if (!grown)
        return false;
    c->bytes = grown;
    c->size = size;
    return true;
}

/* The arguments are encoded now: what they point to is the caller's. */
static int keep(struct stream_recorder *recorder, struct client_stream *s, const struct stream_call *call,
                const uint8_t *body, size_t size)
{
    struct core_sequence *q = (struct core_sequence *)recorder;
    struct contents *c = &q->next;
    uint32_t stream = 0;
    while (q->streams[stream] != s)
        stream++;
    if (!body)
        size = xdr_sizeof(call->encode, call->args);
    if (size > FLYT_MAX_GRAPH_ARGS || !room_make(c, size) || !stream_call_put(call, body, c->bytes + c->used, size)) {
        q->refused = q->exhausted = true;
        return CORE_OUT_OF_MEMORY;
    }
    c->calls[c->count++] = (struct sequence_kept){
        .procedure = call->procedure, .size = (uint32_t)size, .stream = stream, .weighty = call->weighty, .at = c->used
    };
    c->used += size;
    return CORE_OK;
}

static int keep_event(struct core_sequence *q, struct client_stream *s, const struct op *op)
{
    flyt_id event = event_name(op->event.event);
    event_record_args record = { .event = event, .stream = s->wire, .flags = op->event.flags };
    event_wait_args wait = { .event = event, .stream = s->wire, .flags = op->event.flags };
    const struct stream_call call =
        op->kind == OP_EVENT_RECORD
            ? (struct stream_call){ FLYT_EVENT_RECORD, (xdrproc_t)xdr_event_record_args, &record, false, 0 }
            : (struct stream_call){ FLYT_STREAM_WAIT, (xdrproc_t)xdr_event_wait_args, &wait, true, 0 };
    int code = keep(&q->recorder, s, &call, NULL, 0);
    if (!code)
        q->next.calls[q->next.count - 1].event = op->event.event;
    return code;
}

static int take(struct stream_recorder *recorder, struct client_stream *s, const struct op *op)
{
    struct core_sequence *q = (struct core_sequence *)recorder;
    switch (op->kind) {
    case OP_LAUNCH:
    case OP_CONDITION:
    case OP_GRAPH_END: return op_send(s, op);
    case OP_VALUES:
        if (core_session.hello.capabilities & FLYT_CAP_KEPT_VALUES)
            return op_send(s, op);
        break;
    case OP_COLLECTIVE:
        if (core_session.hello.capabilities & FLYT_CAP_KEPT_COLLECTIVES)
            return op_send(s, op);
        break;
    case OP_SET:
        if (op->set.reach && !op->set.blocking)
            return op_send(s, op);
        break;
    case OP_COPY:
        if (op->copy.route == COPY_REACH && !op->copy.blocking)
            return op_send(s, op);
        break;
    case OP_EVENT_RECORD:
    case OP_EVENT_WAIT: return keep_event(q, s, op);
    default: break;
    }
    q->refused = true;
    return CORE_NOT_READY;
}

int core_sequence_create(core_sequence **out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (core_perf.no_graph || !(core_session.hello.capabilities & FLYT_CAP_GRAPHS))
        return CORE_NOT_SUPPORTED;
    struct core_sequence *q = calloc(1, sizeof *q);
    if (!q)
        return CORE_OUT_OF_MEMORY;
    *q = (struct core_sequence){ .recorder = { take, keep } };
    if (!(q->token = id_table_add(table, q, &q->wire))) {
        free(q);
        return CORE_OUT_OF_MEMORY;
    }
    *out = q;
    return CORE_OK;
}

static void streams_attach(struct core_sequence *q, bool recording_now)
{
    for (unsigned i = 0; i < q->stream_count; i++)
        atomic_store(&q->streams[i]->recorder, recording_now ? &q->recorder : NULL);
}

static void recorded_forget(struct core_sequence *q)
{
    free(q->chunks);
    free(q->segments);
    q->chunks = NULL;
    q->segments = NULL;
    q->chunk_count = q->segment_count = 0;
    q->cut = 0;
}

int core_sequence_begin(core_sequence *q, core_context *c, const core_stream *streams, unsigned count,
                        core_stream *stand_in)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (count > CORE_SEQUENCE_STREAMS)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&recording.lock);
    q->streams[0] = &recording.stand_in;
    q->stream_count = count + 1;
    for (unsigned i = 0; i < count && !code; i++)
        code = client_stream_find(c, streams[i], &q->streams[i + 1]);
    q->stand_in = code ? 0 : stream_lend(&recording.stand_in, c);
    if (!q->stand_in) {
        pthread_mutex_unlock(&recording.lock);
        return code ? code : CORE_OUT_OF_MEMORY;
    }
    recorded_forget(q);
    q->next = (struct contents){ 0 };
    q->refused = q->exhausted = false;
    streams_attach(q, true);
    *stand_in = q->stand_in;
    return CORE_OK;
}

uint32_t core_sequence_mark(const core_sequence *q) { return (uint32_t)q->next.count; }

bool core_sequence_kept(core_sequence *q, uint32_t mark)
{
    CANCEL_DEFERRED;
    struct contents *c = &q->next;
    if (!q->refused)
        return true;
    q->refused = false;
    if (mark < c->count)
        c->used = c->calls[mark].at;
    c->count = mark;
    return false;
}

/* ---- segments ---- */

/* The next calls of q, as many as a message launches. */
static void chunk_fill(struct core_sequence *q, struct chunk *chunk)
{
    *chunk = (struct chunk){ .first = q->cut, .first_event = NO_CALL };
    int32_t *event = &chunk->first_event;
    for (; q->cut < q->next.count && chunk->count < FLYT_MAX_GRAPH_CALLS; q->cut++) {
        struct sequence_kept *call = &q->next.calls[q->cut];
        struct sequence_share *share = &chunk->shares[call->stream];
        chunk->count++;
        call->number = ++share->calls;
        call->next_event = NO_CALL;
        share->bytes += call->size;
        if (call->weighty)
            share->weighty = share->calls;
        if (call->event) {
            *event = (int32_t)q->cut;
            event = &call->next_event;
        }
    }
}

bool core_sequence_cut(core_sequence *q)
{
    CANCEL_DEFERRED;
    uint32_t count = (uint32_t)q->next.count - q->cut, more = (count + FLYT_MAX_GRAPH_CALLS - 1) / FLYT_MAX_GRAPH_CALLS;
    if (!count || q->exhausted)
        return false;
    struct segment *segments = realloc(q->segments, (q->segment_count + 1) * sizeof *segments);
    if (segments)
        q->segments = segments;
    struct chunk *chunks = segments ? realloc(q->chunks, (q->chunk_count + more) * sizeof *chunks) : NULL;
    if (!chunks) {
        q->exhausted = true;
        return false;
    }
    q->chunks = chunks;
    segments[q->segment_count++] = (struct segment){ (uint32_t)q->chunk_count, (uint32_t)q->chunk_count + more };
    for (; q->cut < q->next.count; q->chunk_count++)
        chunk_fill(q, &chunks[q->chunk_count]);
    return true;
}

/* ---- what the server has ---- */

static bool same(const struct core_sequence *q, size_t i)
{
    if (i >= q->now.count)
        return false;
    const struct sequence_kept *a = &q->now.calls[i], *b = &q->next.calls[i];
    return a->procedure == b->procedure && a->size == b->size &&
           memcmp(q->now.bytes + a->at, q->next.bytes + b->at, a->size) == 0;
}

/* Sends the calls that differ from `first` on, as many as a message holds. *behind: the next to be looked at. */
static int upload_some(const struct core_sequence *q, size_t first, size_t *behind)
{
    const struct contents *c = &q->next;
    size_t count = 0, bytes = 0, i = first, most = c->count - first;
    flyt_graph_call *calls = calloc(most < FLYT_MAX_GRAPH_CALLS ? most + 1 : FLYT_MAX_GRAPH_CALLS, sizeof *calls);
    *behind = i;
    if (!calls)
        return CORE_OUT_OF_MEMORY;
    for (; i < c->count && count < FLYT_MAX_GRAPH_CALLS && bytes < MESSAGE_MOST && !same(q, i); i++) {
        const struct sequence_kept *call = &c->calls[i];
        calls[count++] = (flyt_graph_call){ call->procedure, { call->size, (char *)c->bytes + call->at } };
        bytes += call->size;
    }
    *behind = i;
    graph_set_args args = { q->wire, (u_int)c->count, (u_int)first, { (u_int)count, calls } };
    int code = wire_send(&core_session, FLYT_GRAPH_SET, (xdrproc_t)xdr_graph_set_args, &args);
    free(calls);
    return code;
}

static int upload(struct core_sequence *q)
{
    size_t before = q->now.count, i = 0;
    int code = CORE_OK;
    bool told = q->sent && before == q->next.count;
    q->sent = true;
    while (!code && i < q->next.count) {
        if (same(q, i)) {
            i++;
            continue;
        }
        code = upload_some(q, i, &i);
        told = true;
    }
    return told || code ? code : upload_some(q, q->next.count, &i);
}

/* The server may have both for a moment. */
static bool total_take(size_t bytes)
{
    if (atomic_fetch_add(&total, bytes) + bytes <= FLYT_MAX_GRAPH_BYTES)
        return true;
    atomic_fetch_sub(&total, bytes);
    return false;
}

int core_sequence_end(core_sequence *q, bool good)
{
    CANCEL_DEFERRED;
    streams_attach(q, false);
    stream_return(q->stand_in);
    q->streams[0] = NULL;
    pthread_mutex_unlock(&recording.lock);
    int code = good && !q->exhausted && total_take(cost(&q->next)) ? CORE_OK : CORE_OUT_OF_MEMORY;
    if (code) {
        contents_free(&q->next);
        recorded_forget(q);
        return good ? code : CORE_OK;
    }
    code = upload(q);
    atomic_fetch_sub(&total, cost(&q->now));
    contents_free(&q->now);
    q->now = q->next;
    q->next = (struct contents){ 0 };
    return code;
}

static void unsent(void *object, id_token token, void *unused)
{
    (void)token;
    (void)unused;
    struct core_sequence *q = object;
    q->sent = false;
    atomic_fetch_sub(&total, cost(&q->now));
    contents_free(&q->now);
}

static void forgotten(void *object, id_token token, void *code)
{
    struct core_sequence *q = object;
    graph_args args = { .graph = q->wire };
    if (!q->sent)
        return;
    int sent = wire_send(&core_session, FLYT_GRAPH_DROP, (xdrproc_t)xdr_graph_args, &args);
    *(int *)code = *(int *)code ? *(int *)code : sent;
    unsent(object, token, NULL);
}

/* A journal that begins anew does not have them. */
int sequence_save(struct move *move)
{
    int code = CORE_OK;
    if (!move->notes)
        return CORE_OK;
    changes_note();
    id_table_each(table, forgotten, &code);
    return code ? move_refuse(move, code, "a graph that the server keeps could not be dropped (error %d)", code)
                : CORE_OK;
}

void sequence_moved(struct move *move, bool moved)
{
    if (!moved || move->notes)
        return;
    changes_note();
    id_table_each(table, unsent, NULL);
}

void core_sequence_destroy(core_sequence *q)
{
    CANCEL_DEFERRED;
    if (!q)
        return;
    graph_args args = { .graph = q->wire };
    if (!core_enter()) {
        if (q->sent)
            wire_send(&core_session, FLYT_GRAPH_DROP, (xdrproc_t)xdr_graph_args, &args);
        id_table_remove(table, q->token);
        id_table_release(table, q->wire);
    }
    atomic_fetch_sub(&total, cost(&q->now));
    contents_free(&q->now);
    recorded_forget(q);
    free(q);
}

/* ---- launching ---- */

/* Informs the events of the chunk where they are now. */
static void events_move(const struct core_sequence *q, const struct chunk *chunk, const struct stream_share *shares,
                        const unsigned *share_of)
{
    for (int32_t i = chunk->first_event; i != NO_CALL; i = q->now.calls[i].next_event) {
        const struct sequence_kept *call = &q->now.calls[i];
        const struct stream_share *share = &shares[share_of[call->stream]];
        struct point point = share->place;
        point.number -= share->calls - call->number;
        if (call->procedure == FLYT_EVENT_RECORD)
            event_recorded_at(call->event, share->stream, &point);
        else
            event_waited_at(call->event, &point);
    }
}

static int chunk_launch(const struct core_sequence *q, const struct chunk *chunk, struct client_stream *s)
{
    /* Threads with 16 KiB of stack have no room for STREAMS_MOST of them. The first stream is always there. */
    struct stream_share shares[q->stream_count];
    unsigned count = 0, share_of[q->stream_count];
    for (unsigned i = 0; i < q->stream_count; i++) {
        const struct sequence_share *share = &chunk->shares[i];
        share_of[i] = count;
        if (share->calls)
            shares[count++] = (struct stream_share){ .stream = i ? q->streams[i] : s, .calls = share->calls,
                                                     .weighty = share->weighty, .bytes = share->bytes };
    }
    graph_launch_args args = { q->wire, s->wire, chunk->first, chunk->count };
    int code = stream_send_shares(shares, count, FLYT_GRAPH_LAUNCH, (xdrproc_t)xdr_graph_launch_args, &args);
    if (!code)
        events_move(q, chunk, shares, share_of);
    return code;
}

int core_sequence_launch(core_sequence *q, core_context *c, core_stream stream, unsigned segment)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    if (code)
        return code;
    if (segment >= q->segment_count)
        return CORE_INVALID_VALUE;
    bool mirrored = mirror_heeded();
    if (mirrored && (code = mirror_room->before_work(s)))
        return code;
    for (uint32_t i = q->segments[segment].first; i < q->segments[segment].end && !code; i++)
        code = chunk_launch(q, &q->chunks[i], s);
    if (mirrored)
        mirror_work_sent();
    return code;
}
