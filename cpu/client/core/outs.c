/*
 * outs.c: asynchronous copies from the device into pinned memory. Their calls are answered when their turn in the
 * stream has come; whoever reads the reply writes the bytes to their place. Each call stands in a list until then, so
 * that a synchronisation (or a host function) can wait for exactly those that come before it: replies of different
 * streams come in no order that could be relied on. A copy comes before a point of another stream if an event carried it
 * there (its marks: one per stream that has been made to wait for it), or by the rules of the legacy stream.
 *
 * For the same reason a copy into memory that an earlier one, still under way, writes too is received into a buffer of its
 * own and moved to its place when the earlier one has arrived.
 *
 * `writers` counts what may still write memory of the program behind its back: these copies and host functions.
 * While it is 0, a copy to the device may take its source at once.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"
#include "host.h"
#include "lanes.h"

struct mark { const struct stream *stream; uint64_t number, serial; };

struct out {
    struct wire_call     wire;
    struct stream       *stream;
    atomic_uint_fast64_t number, serial;      /* UINT64_MAX until submitted: who could have it before him has not returned */
    struct mark         *marks;       /* in other streams */
    unsigned             mark_count;
    union {
        copy_out_args     line;
        copy_box_out_args box;
        copy_args         chunk;
    } args;
    struct chunk_out_result result;
    struct lane_out      lane;
    struct host_rows     place;       /* where the bytes belong; result.to may be a buffer instead */
    uint8_t             *buffer;      /* NULL: received in place */
    struct chunk        *chunk;       /* the device writes there; NULL: the bytes come with the reply or on a lane */
    plain_result         waited;      /* the reply, then */
    bool                 here;        /* in its buffer, waiting for an earlier one */
    struct out          *next, **from;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  arrived;
    struct out     *first;
    atomic_uint     count, writers;
} outs = { .lock = PTHREAD_MUTEX_INITIALIZER, .arrived = PTHREAD_COND_INITIALIZER };

unsigned outs_writers(void)
{
    return atomic_load(&outs.writers);
}

void outs_writer_begins(void)
{
    atomic_fetch_add(&outs.writers, 1);
}

void outs_writer_ends(void)
{
    atomic_fetch_sub(&outs.writers, 1);
}

/* ---- copies into the same memory; under outs.lock ---- */

static const uint8_t *rows_end(const struct host_rows *r)
{
    return r->address + (r->slices - 1) * r->slice_pitch + (r->rows - 1) * r->pitch + r->width;
}

static bool overlap(const struct host_rows *a, const struct host_rows *b)
{
    return a->address < rows_end(b) && b->address < rows_end(a);
}

/* An earlier copy that writes there too and has not arrived. */
static bool blocked(const struct out *out)
{
    FLYT_ASSERT_HELD(&outs.lock);
    for (const struct out *o = outs.first; o; o = o->next)
        if (o != out && atomic_load(&o->serial) < atomic_load(&out->serial) && overlap(&o->place, &out->place))
            return true;
    return false;
}

static void out_end(struct out *out)
{
    FLYT_ASSERT_HELD(&outs.lock);
    *out->from = out->next;
    if (out->next)
        out->next->from = out->from;
    atomic_fetch_sub(&outs.count, 1);
    outs_writer_ends();
    free(out->marks);
    free(out->buffer);
    free(out);
}

/* Those that have arrived and whose turn has come. */
static void settle_buffered(void)
{
    FLYT_ASSERT_HELD(&outs.lock);
    bool moved = true;
    while (moved) {
        moved = false;
        for (struct out *o = outs.first, *next; o; o = next) {
            next = o->next;
            if (!o->here || blocked(o))
                continue;
            rows_unpack(&o->place, o->buffer);
            out_end(o);
            moved = true;
        }
    }
}

/* ---- what comes before what; under outs.lock ---- */

static bool mark_before(const struct mark *m, const struct point *p)
{
    if (m->stream == p->stream)
        return m->number <= p->number;
    if (m->stream->context != p->stream->context || !stream_is_blocking(m->stream) || !stream_is_blocking(p->stream))
        return false;
    if (stream_is_legacy(m->stream) || stream_is_legacy(p->stream))
        return m->serial < p->serial;
    return m->serial < p->legacy_before;
}

static bool out_before(const struct out *out, const struct point *p)
{
    FLYT_ASSERT_HELD(&outs.lock);
    struct mark own = { out->stream, atomic_load(&out->number), atomic_load(&out->serial) };
    bool before = mark_before(&own, p);
    for (unsigned i = 0; i < out->mark_count && !before; i++)
        before = mark_before(&out->marks[i], p);
    return before;
}

static bool out_marked(const struct out *out, const struct stream *stream)
{
    bool marked = out->stream == stream;
    for (unsigned i = 0; i < out->mark_count && !marked; i++)
        marked = out->marks[i].stream == stream;
    return marked;
}

static void out_mark(struct out *out, const struct mark *mark)
{
    if (out_marked(out, mark->stream))
        return;                               /* an earlier mark in the same stream says more */
    struct mark *more = realloc(out->marks, (out->mark_count + 1) * sizeof *more);
    if (!more)
        return;
    out->marks = more;
    out->marks[out->mark_count++] = *mark;
}

void outs_join(const struct point *before, const struct point *after)
{
    if (!atomic_load(&outs.count))
        return;
    const struct mark mark = { after->stream, after->number, after->serial };
    pthread_mutex_lock(&outs.lock);
    for (struct out *o = outs.first; o; o = o->next)
        if (out_before(o, before))
            out_mark(o, &mark);
    pthread_mutex_unlock(&outs.lock);
}

/* Not those that another thread is still submitting: they may come behind the next call, and have to wait for it. */
void outs_join_next(const struct stream *stream)
{
    if (!atomic_load(&outs.count) || !stream_is_blocking(stream))
        return;
    const struct point next = stream_point_next(stream);
    const struct mark mark = { stream, next.number + 1, next.serial };
    pthread_mutex_lock(&outs.lock);
    for (struct out *o = outs.first; o; o = o->next)
        if (atomic_load(&o->number) <= atomic_load(&o->stream->sent) && out_before(o, &next))
            out_mark(o, &mark);
    pthread_mutex_unlock(&outs.lock);
}

bool outs_refer_to(const struct stream *stream)
{
    if (!atomic_load(&outs.count))
        return false;
    bool refers = false;
    pthread_mutex_lock(&outs.lock);
    for (const struct out *o = outs.first; o && !refers; o = o->next)
        refers = out_marked(o, stream);
    pthread_mutex_unlock(&outs.lock);
    return refers;
}

static bool any_before(const struct point *p)
{
    for (const struct out *o = outs.first; o; o = o->next)
        if (out_before(o, p))
            return true;
    return false;
}

static bool any_on(const core_context *c, uint64_t serial)
{
    for (const struct out *o = outs.first; o; o = o->next)
        if ((!c || o->stream->context == c) && atomic_load(&o->serial) <= serial)
            return true;
    return false;
}

/* ---- waiting ---- */

bool outs_pending(const struct point *p)
{
    if (!atomic_load(&outs.count))
        return false;
    pthread_mutex_lock(&outs.lock);
    bool pending = any_before(p);
    pthread_mutex_unlock(&outs.lock);
    return pending;
}

void outs_wait(const struct point *p)
{
    if (!atomic_load(&outs.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&outs.lock);
    while (any_before(p))
        pthread_cond_wait(&outs.arrived, &outs.lock);
    pthread_mutex_unlock(&outs.lock);
    wire_print_texts();
}

void outs_wait_place(const struct point *p, const void *address, size_t size)
{
    struct host_rows place = { .address = (uint8_t *)(uintptr_t)address, .width = size, .rows = 1, .slices = 1 };
    if (!atomic_load(&outs.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&outs.lock);
    for (struct out *o = outs.first; o;) {
        bool first = overlap(&o->place, &place) && out_before(o, p);
        if (first)
            pthread_cond_wait(&outs.arrived, &outs.lock);
        o = first ? outs.first : o->next;
    }
    pthread_mutex_unlock(&outs.lock);
}

void outs_wait_context(const core_context *c, uint64_t serial)
{
    if (!atomic_load(&outs.count))
        return;
    CANCEL_OFF;
    pthread_mutex_lock(&outs.lock);
    while (any_on(c, serial))
        pthread_cond_wait(&outs.arrived, &outs.lock);
    pthread_mutex_unlock(&outs.lock);
    wire_print_texts();
}

/* ---- beginning and arriving ---- */

static void out_landed(struct out *out, int code)
{
    if (code)
        session_latch(code);
    pthread_mutex_lock(&outs.lock);
    if (out->buffer && !code)
        out->here = true;
    else
        out_end(out);
    settle_buffered();
    pthread_cond_broadcast(&outs.arrived);
    pthread_mutex_unlock(&outs.lock);
}

static void out_landed_by_lane(struct lane_out *lane, int code)
{
    out_landed((struct out *)(void *)((char *)lane - offsetof(struct out, lane)), code);
}

static void out_arrived(struct wire_call *call)
{
    struct out *out = (struct out *)call;     /* wire is the first member */
    bool on_lane = out->result.on_lane;
    xdr_free((xdrproc_t)xdr_chunk_out_result, &out->result);
    if (!call->result && on_lane) {
        lane_out_later(&out->lane, out_landed_by_lane);
        return;
    }
    lane_out_cancel(&out->lane);
    out_landed(out, call->result);
}

static void out_in_chunk(struct wire_call *call)
{
    struct out *out = (struct out *)call;
    xdr_free((xdrproc_t)xdr_plain_result, &out->waited);
    if (!call->result)
        rows_unpack(&out->result.to, (const void *)(uintptr_t)out->chunk->address);
    chunk_give(out->chunk);
    out_landed(out, call->result);
}

static struct out *out_new(struct stream *stream, const struct host_rows *place)
{
    struct out *out = calloc(1, sizeof *out);
    if (!out)
        return NULL;
    out->stream = stream;
    atomic_store(&out->number, UINT64_MAX);
    atomic_store(&out->serial, UINT64_MAX);
    out->place = out->result.to = *place;
    pthread_mutex_lock(&outs.lock);
    bool shared = false;
    for (const struct out *o = outs.first; o && !shared; o = o->next)
        shared = overlap(&o->place, place);
    if (shared && !(out->buffer = malloc(place->width * place->rows * place->slices))) {
        pthread_mutex_unlock(&outs.lock);
        free(out);
        return NULL;
    }
    if (shared)
        out->result.to = (struct host_rows){ .address = out->buffer, .width = place->width * place->rows * place->slices,
                                             .rows = 1, .slices = 1 };
    out->next = outs.first;
    out->from = &outs.first;
    if (out->next)
        out->next->from = &out->next;
    outs.first = out;
    atomic_fetch_add(&outs.count, 1);
    outs_writer_begins();
    pthread_mutex_unlock(&outs.lock);
    return out;
}

static void out_send(struct out *out, uint32_t procedure, xdrproc_t encode, void *args)
{
    wire_prepare(&out->wire, procedure, encode, args, (xdrproc_t)xdr_chunk_out_result, &out->result);
    stream_submit(out->stream, &out->wire, out_arrived, &out->number, &out->serial);
}

int outs_start(struct stream *stream, void *to, uint64_t from, size_t size)
{
    bool on_lanes = lanes_wanted(size, true);
    for (size_t at = 0, part; at < size; at += part) {
        struct chunk *chunk = chunks_serve(size - at) ? chunk_take(size - at, false) : NULL;
        part = size - at < CHUNK_SIZE ? size - at : CHUNK_SIZE;
        struct out *out = out_new(stream, &(struct host_rows){ .address = (uint8_t *)to + at, .width = part, .rows = 1, .slices = 1 });
        if (!out && chunk)
            chunk_give(chunk);
        if (!out)
            return CORE_OUT_OF_MEMORY;
        out->chunk = chunk;
        if (chunk) {
            out->args.chunk = (copy_args){ .stream = stream->wire, .to = chunk->address, .from = from + at, .size = part };
            wire_prepare(&out->wire, FLYT_COPY_WAITED, (xdrproc_t)xdr_copy_args, &out->args.chunk, (xdrproc_t)xdr_plain_result, &out->waited);
            stream_submit(stream, &out->wire, out_in_chunk, &out->number, &out->serial);
            continue;
        }
        out->args.line = (copy_out_args){ .stream = stream->wire, .from = from + at, .size = part };
        if (on_lanes)
            out->args.line.via = out->result.via = lane_out_begin(&out->lane, &out->result.to, true);
        out_send(out, FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args, &out->args.line);
    }
    return CORE_OK;
}

int outs_start_box(struct stream *stream, const struct core_box *to, const struct core_box *from, const struct core_extent *extent)
{
    struct box_cursor cursor = { 0 };
    size_t origin[3];
    struct core_extent part;
    bool on_lanes = lanes_want_boxes(extent->width * extent->height * extent->depth, true);
    while (box_next(extent, &cursor, CHUNK_SIZE, origin, &part)) {
        struct host_rows place = { .address = (uint8_t *)(uintptr_t)(to->address + box_offset(to, origin)), .width = part.width,
                                   .rows = part.height, .slices = part.depth, .pitch = to->pitch, .slice_pitch = to->pitch * to->height };
        struct out *out = out_new(stream, &place);
        if (!out)
            return CORE_OUT_OF_MEMORY;
        out->args.box = (copy_box_out_args){
            .stream = stream->wire,
            .from = { .address = from->address + box_offset(from, origin), .pitch = from->pitch, .height = from->height },
            .extent = { .width = part.width, .height = part.height, .depth = part.depth } };
        if (on_lanes)
            out->args.box.via = out->result.via = lane_out_begin(&out->lane, &out->result.to, true);
        out_send(out, FLYT_COPY_BOX_OUT, (xdrproc_t)xdr_copy_box_out_args, &out->args.box);
    }
    return CORE_OK;
}
