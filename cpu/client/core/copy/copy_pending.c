/*
 * copy_pending.c: asynchronous copies from the device into pinned memory. The server answers their calls in their turn
 * in the stream; the thread that reads the reply writes the bytes to their place. Until then they are pending
 * (pending.c).
 *
 * A copy into memory that an earlier one, still under way, writes too is received into a buffer of its own and moved
 * to its place when the earlier one has arrived: replies of different streams come in no order that could be relied
 * on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "copy_engine.h"
#include "cpu/common/lock.h"
#include "cpu/client/core/api_errors.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/pending_copy.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/state.h"

/* ---- copies into the same memory; under pending_copies.lock ---- */

/* A copy that comes before it writes there too and has not arrived. One of a stream that has no order with this one
   is not waited for: the program may let that stream go on only when it has seen these bytes. */
static bool blocked(const struct pending_copy *out)
{
    FLYT_ASSERT_HELD(&pending_copies.lock);
    const struct point point = { .stream = out->stream, .life = atomic_load(&out->stream->life),
                                 .number = atomic_load(&out->at.number), .serial = atomic_load(&out->at.serial),
                                 .legacy_before = atomic_load(&out->at.legacy_before) };
    for (const struct pending_copy *o = pending_copies.first; o; o = o->next)
        if (o != out && atomic_load(&o->at.serial) < point.serial && pending_overlap(&o->place, &out->place) &&
            pending_before(o, &point))
            return true;
    return false;
}

static void out_end(struct pending_copy *out)
{
    FLYT_ASSERT_HELD(&pending_copies.lock);
    *out->from = out->next;
    if (out->next)
        out->next->from = out->from;
    atomic_fetch_sub(&pending_copies.count, 1);
    pending_writer_ends();
    free(out->marks);
    free(out->buffer);
    free(out);
}

/* Those that have arrived and whose turn has come. */
static void settle_buffered(void)
{
    FLYT_ASSERT_HELD(&pending_copies.lock);
    bool moved = true;
    while (moved) {
        moved = false;
        for (struct pending_copy *o = pending_copies.first, *next; o; o = next) {
            next = o->next;
            if (!o->here || blocked(o))
                continue;
            rows_unpack(&o->place, o->buffer, rows_size(&o->place));
            out_end(o);
            moved = true;
        }
    }
}

/* ---- beginning and arriving ---- */

static void out_landed(struct pending_copy *out, int code)
{
    if (code)
        session_latch(out->stream->context->session, code);
    pthread_mutex_lock(&pending_copies.lock);
    if (out->buffer && !code)
        out->here = true;
    else
        out_end(out);
    settle_buffered();
    pthread_cond_broadcast(&pending_copies.arrived);
    pthread_mutex_unlock(&pending_copies.lock);
}

static void out_landed_by_lane(struct lane_out *lane, int code)
{
    out_landed((struct pending_copy *)(void *)((char *)lane - offsetof(struct pending_copy, part.lane)), code);
}

static void out_arrived(struct wire_call *call)
{
    struct pending_copy *out = (struct pending_copy *)call; /* it begins with its part, which begins with the call */
    int code = call->result;
    if (copy_part_answered(&out->part))
        lane_out_deferred(&out->part.lane, out_landed_by_lane);
    else
        out_landed(out, code);
}

static struct pending_copy *out_new(struct client_stream *stream, const struct host_rows *place)
{
    struct pending_copy *out = calloc(1, sizeof *out);
    if (!out)
        return NULL;
    out->stream = stream;
    atomic_store(&out->at.number, UINT64_MAX);
    atomic_store(&out->at.serial, UINT64_MAX);
    atomic_store(&out->at.legacy_before, UINT64_MAX);
    out->place = *place;
    pthread_mutex_lock(&pending_copies.lock);
    bool shared = false;
    for (const struct pending_copy *o = pending_copies.first; o && !shared; o = o->next)
        shared = pending_overlap(&o->place, place);
    if (shared && !(out->buffer = malloc(rows_size(place)))) {
        pthread_mutex_unlock(&pending_copies.lock);
        free(out);
        return NULL;
    }
    out->next = pending_copies.first;
    out->from = &pending_copies.first;
    if (out->next)
        out->next->from = &out->next;
    pending_copies.first = out;
    atomic_fetch_add(&pending_copies.count, 1);
    pending_writer_begins();
    pthread_mutex_unlock(&pending_copies.lock);
    return out;
}

int copy_begin_pending(struct client_stream *stream, const struct copy_span *span)
{
    struct copy_cut left = copy_cut_begin(span);
    struct copy_span part;
    size_t bytes = left.bytes;
    enum copy_lane lane = lanes_wanted(bytes, true) ? COPY_LANE_PENDING : COPY_NO_LANE;
    while (left.bytes) {
        struct chunk *chunk = chunks_serve(left.bytes) ? chunk_take(left.bytes, false) : NULL;
        copy_cut_next(&left, CHUNK_SIZE, &part);
        const struct host_rows place = rows_of(&part.to, &part.extent);
        struct pending_copy *out = out_new(stream, &place);
        if (!out && chunk)
            chunk_give(chunk);
        if (!out)
            return CORE_OUT_OF_MEMORY;
        struct host_rows to = { .address = out->buffer, .width = rows_size(&place), .rows = 1, .slices = 1 };
        copy_part_begin(&out->part, stream, &part, out->buffer ? &to : &place, bytes, chunk, lane, out_arrived,
                        &out->at);
    }
    return CORE_OK;
}
