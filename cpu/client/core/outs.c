/*
 * outs.c: asynchronous copies from the device into pinned memory. Their calls are answered when their turn in the
 * stream has come; whoever reads the reply writes the bytes to their place. Until then they are pending (pending.c).
 *
 * A copy into memory that an earlier one, still under way, writes too is received into a buffer of its own and moved
 * to its place when the earlier one has arrived: replies of different streams come in no order that could be relied
 * on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/lock.h"
#include "outs.h"
#include "pending.h"
#include "rows.h"
#include "state.h"

/* ---- copies into the same memory; under outs.lock ---- */

/* A copy that comes before it writes there too and has not arrived. One of a stream that has no order with this one
   is not waited for: the program may let that stream go on only when it has seen these bytes. */
static bool blocked(const struct out *out)
{
    FLYT_ASSERT_HELD(&outs.lock);
    const struct point point = { out->stream, atomic_load(&out->at.number), atomic_load(&out->at.serial),
                                 atomic_load(&out->at.legacy_before) };
    for (const struct out *o = outs.first; o; o = o->next)
        if (o != out && atomic_load(&o->at.serial) < point.serial && outs_overlap(&o->place, &out->place) &&
            out_before(o, &point))
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
    atomic_store(&out->at.number, UINT64_MAX);
    atomic_store(&out->at.serial, UINT64_MAX);
    atomic_store(&out->at.legacy_before, UINT64_MAX);
    out->place = out->result.to = *place;
    pthread_mutex_lock(&outs.lock);
    bool shared = false;
    for (const struct out *o = outs.first; o && !shared; o = o->next)
        shared = outs_overlap(&o->place, place);
    if (shared && !(out->buffer = malloc(place->width * place->rows * place->slices))) {
        pthread_mutex_unlock(&outs.lock);
        free(out);
        return NULL;
    }
    if (shared)
        out->result.to = (struct host_rows){ .address = out->buffer,
                                             .width = place->width * place->rows * place->slices,
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
    stream_submit(out->stream, &out->wire, out_arrived, &out->at);
}

int outs_start(struct stream *stream, void *to, uint64_t from, size_t size)
{
    bool on_lanes = lanes_wanted(size, true);
    for (size_t at = 0, part; at < size; at += part) {
        struct chunk *chunk = chunks_serve(size - at) ? chunk_take(size - at, false) : NULL;
        part = size - at < CHUNK_SIZE ? size - at : CHUNK_SIZE;
        struct out *out = out_new(stream,
                                  &(struct host_rows){ .address = (uint8_t *)to + at, .width = part, .rows = 1,
                                                       .slices = 1 });
        if (!out && chunk)
            chunk_give(chunk);
        if (!out)
            return CORE_OUT_OF_MEMORY;
        out->chunk = chunk;
        if (chunk) {
            out->args.chunk = (copy_args){ .stream = stream->wire, .to = chunk->address, .from = from + at,
                                           .size = part };
            wire_prepare(&out->wire, FLYT_COPY_WAITED, (xdrproc_t)xdr_copy_args, &out->args.chunk,
                         (xdrproc_t)xdr_plain_result, &out->waited);
            stream_submit(stream, &out->wire, out_in_chunk, &out->at);
            continue;
        }
        out->args.line = (copy_out_args){ .stream = stream->wire, .from = from + at, .size = part };
        if (on_lanes)
            out->args.line.via = out->result.via = lane_out_begin(&out->lane, &out->result.to, true);
        out_send(out, FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args, &out->args.line);
    }
    return CORE_OK;
}

int outs_start_box(struct stream *stream, const struct core_box *to, const struct core_box *from,
                   const struct core_extent *extent)
{
    struct box_cursor cursor = { 0 };
    size_t origin[3];
    struct core_extent part;
    bool on_lanes = lanes_want_boxes(extent->width * extent->height * extent->depth, true);
    while (box_next(extent, &cursor, CHUNK_SIZE, origin, &part)) {
        struct host_rows place = { .address = (uint8_t *)(uintptr_t)(to->address + box_offset(to, origin)),
                                   .width = part.width,
                                   .rows = part.height,
                                   .slices = part.depth,
                                   .pitch = to->pitch,
                                   .slice_pitch = to->pitch * to->height };
        struct out *out = out_new(stream, &place);
        if (!out)
            return CORE_OUT_OF_MEMORY;
        out->args.box = (copy_box_out_args){
            .stream = stream->wire,
            .from = { .address = from->address + box_offset(from, origin), .pitch = from->pitch,
                      .height = from->height },
            .extent = { .width = part.width, .height = part.height, .depth = part.depth } };
        if (on_lanes)
            out->args.box.via = out->result.via = lane_out_begin(&out->lane, &out->result.to, true);
        out_send(out, FLYT_COPY_BOX_OUT, (xdrproc_t)xdr_copy_box_out_args, &out->args.box);
    }
    return CORE_OK;
}
