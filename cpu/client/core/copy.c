/*
 * copy.c: copies of contiguous memory.
 *
 * Where the bytes go:
 *   shared    the host's side is memory that the device reaches (pinned; host.h): one COPY names both sides, no byte passes
 *             through a CPU of ours
 *   chunk     through a piece of such memory (chunks.c): what is not small, where there is a host window
 *   lane      over a connection of their own (lanes.c): what is large, over TCP, where others would have to wait behind it or its
 *             stream may stand still (lanes_choice.c)
 *   inline    inside the calls and replies, in parts of CHUNK_SIZE: all else, and while no chunk can be had
 *
 * To the device. The source is copied to a chunk or encoded into the calls, so it has been taken when the function
 * returns. A synchronous copy also waits where native would wait and report: if something that may run long or fail
 * precedes it, or if the source is pinned; and if there is a stream that would not wait for the copy's (returned.c). A
 * source that queued work may still write (a pinned buffer that an earlier copy from the device fills, or a host
 * function) must not be taken early: a synchronous copy waits for its stream first; an asynchronous one is done in its
 * turn by a host function, through a stream of the core's own.
 *
 * From the device. Several calls are in flight, each writes its part of the destination as it arrives.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/past_cache.h"
#include "host.h"
#include "host_function.h"
#include "lanes.h"
#include "memory.h"
#include "pending.h"
#include "perf.h"
#include "returned.h"
#include "rows.h"
#include "state.h"
#include "stats.h"

enum { PARTS_IN_FLIGHT = 8, CHUNKS_IN_FLIGHT = 4, PIECES = 4, PIECE_IN_LEAST = 32 * 1024, PIECE_OUT_LEAST = 64 * 1024,
       LATE_LEAST = 256 * 1024, LATE_LEAST_SHARED = 16 << 20 };

/* ---- in memory that the device reaches ---- */

static int send_shared(struct stream *s, uint64_t to, uint64_t from, size_t size, const struct chunk *chunk)
{
    copy_args args = { .stream = s->wire, .to = to, .from = from, .size = size,
                       .mark = chunk ? (uint64_t)(uintptr_t)chunk->mark : 0 };
    return stream_send(s, FLYT_COPY, (xdrproc_t)xdr_copy_args, &args, STREAM_LIGHT, NULL);
}

static int copy_shared(struct stream *s, uint64_t to, uint64_t from, size_t size, bool blocking)
{
    if (!blocking)
        return send_shared(s, to, from, size, NULL);
    copy_args args = { .stream = s->wire, .to = to, .from = from, .size = size };
    plain_result result = { 0 };
    struct submitted at = { 0 };
    struct wire_call call;
    wire_prepare(&call, FLYT_COPY_WAITED, (xdrproc_t)xdr_copy_args, &args, (xdrproc_t)xdr_plain_result, &result);
    stream_submit(s, &call, NULL, &at);
    int code = wire_wait(&call);
    xdr_free((xdrproc_t)xdr_plain_result, &result);
    if (!code)
        stream_finished(s, atomic_load(&at.number));
    return code;
}

/* ---- to the device ---- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* A copy in pieces, so that the device works on one while the next is on its way. */
static size_t piece_of(size_t size, size_t least)
{
    size_t piece = (size / PIECES + 4095) & ~(size_t)4095;
    return piece < least ? least : smaller(piece, CHUNK_SIZE);
}

/* At most a chunk full. The last call carries the mark, for all of them. */
static int send_chunk(struct stream *s, uint64_t to, const uint8_t *from, size_t size, size_t piece,
                      struct chunk *chunk)
{
    int code = CORE_OK;
    chunk_send(chunk, s->context);
    for (size_t at = 0; at < size && !code; at += piece) {
        size_t part = smaller(size - at, piece);
        memcpy((void *)(uintptr_t)(chunk->address + at), from + at, part);
        code = send_shared(s, to + at, chunk->address + at, part, at + part == size ? chunk : NULL);
    }
    return code;
}

/* ---- over lanes ---- */

struct span { uint64_t to; const uint8_t *from; size_t size; };

static int send_span(struct stream *s, const struct lane_in *in)
{
    copy_in_args args = { .stream = s->wire, .to = in->to, .data = in->data };
    return stream_send(s, FLYT_COPY_IN, (xdrproc_t)xdr_copy_in_args, &args, STREAM_LIGHT, NULL);
}

static void next_span(void *context, size_t most, struct lane_in *in)
{
    struct span *span = context;
    size_t part = smaller(span->size, most);
    *in = (struct lane_in){ .from = { .address = (uint8_t *)(uintptr_t)span->from, .width = part, .rows = 1,
                                      .slices = 1 },
                            .to = span->to, .send = send_span };
    *span = (struct span){ span->to + part, span->from + part, span->size - part };
}

/* What is not sent stays in the span. */
static int send_on_lanes(struct stream *s, struct span *span, enum lanes_patience patience)
{
    size_t left = span->size;
    return lanes_send(s, next_span, span, &left, patience);
}

static int send_in(struct stream *s, uint64_t to, const void *from, size_t size, bool may_wait)
{
    struct span left = { to, from, size };
    bool tried = false;
    int code = CORE_OK;
    for (size_t at = 0, part; at < size && !code; at += part) {
        if (!tried && lanes_wanted(size - at, !stream_known_light(s))) {
            tried = true;                     /* what has no credit goes with the calls */
            code = send_on_lanes(s, &left, may_wait ? LANES_WAIT : LANES_WAIT_A_MOMENT);
            part = size - at - left.size;
            continue;
        }
        struct chunk *chunk = chunks_serve(size - at) ? chunk_take(size - at, true) : NULL;
        if (chunk) {
            part = smaller(size - at, CHUNK_SIZE);
            throttle_enter(s, 0);
            code = send_chunk(s, to + at, (const uint8_t *)from + at, part, piece_of(size, PIECE_IN_LEAST), chunk);
            continue;
        }
        part = smaller(size - at, CHUNK_SIZE);
        uint64_t begun = part == CHUNK_SIZE ? clock_now() : 0;
        copy_in_args args = { .stream = s->wire, .to = to + at, .data = { .kind = FLYT_BULK_INLINE } };
        args.data.flyt_bulk_u.bytes.bytes_len = (u_int)part;
        args.data.flyt_bulk_u.bytes.bytes_val = (char *)(uintptr_t)from + at;
        throttle_enter(s, part);
        code = stream_send(s, FLYT_COPY_IN, (xdrproc_t)xdr_copy_in_args, &args, STREAM_LIGHT, NULL);
        left = (struct span){ to + at + part, (const uint8_t *)from + at + part, size - at - part };
        if (part == CHUNK_SIZE)
            lanes_pace(part, clock_now() - begun);
    }
    return code;
}

struct late_in { core_context *context; uint64_t to; const void *from; size_t size; };

static void late_copy_in(void *user, int status)
{
    struct late_in *late = user;
    struct stream *s;
    int code = status ? CORE_OK : stream_transfer(late->context, &s);
    if (!status && !code && !(code = send_in(s, late->to, late->from, late->size, true)))
        code = stream_wait_for(s);
    if (code)
        session_latch(code);
    free(late);
}

static int copy_in_late(struct stream *s, uint64_t to, const void *from, size_t size)
{
    struct late_in *late = malloc(sizeof *late);
    if (!late)
        return CORE_OUT_OF_MEMORY;
    *late = (struct late_in){ s->context, to, from, size };
    int code = host_function_put(s, late_copy_in, late, true, false);
    if (code)
        free(late);
    return code;
}

/* Without lanes: behind what may stand still the session takes only so many bytes, and a pinned copy must not wait. */
bool copy_waits_its_turn(struct stream *s, size_t size)
{
    return size >= (host_space_any() ? LATE_LEAST_SHARED : LATE_LEAST) && !stream_known_light(s);
}

bool copy_may_be_early(struct stream *s)
{
    return (!outs_writers() && !core_perf.no_early) || stream_known_idle(s);
}

static int copy_in_uncounted(core_context *c, core_stream stream, uint64_t to, const void *from, size_t size,
                             bool blocking)
{
    struct stream *s;
    int code = stream_enter(c, stream, &s);
    if (code || !size)
        return code;
    if (!from || !address_on_device(s, to, size))
        return CORE_INVALID_VALUE;
    uint64_t shared = host_shared(from, size);
    if (shared)
        return copy_shared(s, to, shared, size, blocking);
    bool early = copy_may_be_early(s);
    if (!early && !blocking && address_pinned(from, size))
        return copy_in_late(s, to, from, size);
    if (!early && blocking && (code = stream_wait_for(s)))
        return code;
    if (!blocking && address_pinned(from, size) && lanes_wanted(size, !stream_known_light(s))) {
        /* what cannot be sent without waiting for the stream goes in its turn */
        struct span span = { to, from, size };
        code = send_on_lanes(s, &span, LANES_WAIT_NEVER);
        return code || !span.size ? code : copy_in_late(s, span.to, span.from, span.size);
    }
    if (!blocking && copy_waits_its_turn(s, size) && address_pinned(from, size))
        return copy_in_late(s, to, from, size);
    bool wait = !stream_known_light(s) || address_pinned(from, size) || lanes_wanted(size, false);
    code = send_in(s, to, from, size, blocking);
    return code || !blocking || (!wait && returned_may(s)) ? code : stream_wait_for(s);
}

int core_copy_in(core_context *c, core_stream stream, uint64_t to, const void *from, size_t size, bool blocking)
{
    CANCEL_DEFERRED;
    uint64_t begun = stats_copy_begins();
    int code = copy_in_uncounted(c, stream, to, from, size, blocking);
    if (!code)
        stats_copy_ends(begun, STATS_FROM_PAGEABLE, from, size);
    return code;
}

/* ---- from the device ---- */

struct part_out {
    struct wire_call wire;
    struct chunk    *chunk;           /* NULL: the bytes come with the reply */
    uint8_t         *to;
    size_t           size, whole;     /* whole: of the copy that it is a part of */
    union { copy_out_args bytes; copy_args chunk; } args;
    union { struct chunk_out_result bytes; plain_result chunk; } result;
    struct lane_out  lane;
};

static void part_begin(struct part_out *part, struct stream *s, uint8_t *to, uint64_t from, size_t size, size_t whole,
                       struct chunk *chunk, bool on_lane, struct submitted *at)
{
    part->lane.via.lane = 0;
    part->chunk = chunk;
    part->to = to;
    part->size = size;
    part->whole = whole;
    if (chunk) {
        part->args.chunk = (copy_args){ .stream = s->wire, .to = chunk->address, .from = from, .size = size };
        part->result.chunk = (plain_result){ 0 };
        wire_prepare(&part->wire, FLYT_COPY_WAITED, (xdrproc_t)xdr_copy_args, &part->args.chunk,
                     (xdrproc_t)xdr_plain_result, &part->result.chunk);
    } else {
        part->args.bytes = (copy_out_args){ .stream = s->wire, .from = from, .size = size };
        part->result.bytes = (struct chunk_out_result){ .to = { .address = to, .width = size, .rows = 1,
                                                                .slices = 1 } };
        if (on_lane)
            part->args.bytes.via = part->result.bytes.via = lane_out_begin(&part->lane, &part->result.bytes.to, false);
        wire_prepare(&part->wire, FLYT_COPY_OUT, (xdrproc_t)xdr_copy_out_args, &part->args.bytes,
                     (xdrproc_t)xdr_chunk_out_result, &part->result.bytes);
    }
    stream_submit(s, &part->wire, NULL, at);
}

static int part_wait(struct part_out *part)
{
    int code = wire_wait(&part->wire);
    if (part->lane.via.lane && !code && part->result.bytes.on_lane)
        code = lane_out_wait(&part->lane);
    else
        lane_out_cancel(&part->lane);
    xdr_free(part->chunk ? (xdrproc_t)xdr_plain_result : (xdrproc_t)xdr_chunk_out_result, &part->result);
    if (part->chunk && !code)
        past_cache_copy_piece(part->to, (const void *)(uintptr_t)part->chunk->address, part->size, part->whole);
    if (part->chunk)
        chunk_give(part->chunk);
    return code;
}

static int receive_out(struct stream *s, uint8_t *to, uint64_t from, size_t size)
{
    struct part_out parts[PARTS_IN_FLIGHT];
    bool chunks = chunks_serve(size), on_lanes = lanes_wanted(size, false), all_on_lanes = on_lanes;
    uint64_t start = clock_now(), heard = 0;
    unsigned window = core_perf.no_pipeline ? 1 : chunks ? CHUNKS_IN_FLIGHT : PARTS_IN_FLIGHT, begun = 0, ended = 0;
    size_t piece = piece_of(size, PIECE_OUT_LEAST);
    struct submitted last = { 0 };
    int first = CORE_OK;
    struct point before = stream_point_next(s);
    outs_wait_place(&before, to, size);
    for (size_t at = 0; at < size || ended < begun;) {
        if (at < size && !first && begun - ended < window) {
            struct chunk *chunk = chunks ? chunk_take(smaller(size - at, piece), begun == ended) : NULL;
            if (chunk || !chunks || begun == ended) {
                size_t bytes = smaller(size - at, chunk ? piece : CHUNK_SIZE);
                on_lanes = on_lanes || lanes_wanted(size - at, false);
                part_begin(&parts[begun++ % PARTS_IN_FLIGHT], s, to + at, from + at, bytes, size, chunk, on_lanes,
                           &last);
                at += bytes;
                continue;
            }
        }
        if (ended == begun)
            break;                            /* a part failed: the rest is not asked for */
        struct part_out *part = &parts[ended++ % PARTS_IN_FLIGHT];
        int code = part_wait(part);
        if (!first)
            first = code;
        uint64_t now = on_lanes ? 0 : clock_now();
        if (heard && now && part->size == CHUNK_SIZE)     /* the first part may have waited for its stream */
            lanes_pace(part->size, now - heard);
        heard = now;
    }
    if (!first)
        stream_finished(s, atomic_load(&last.number));
    if (!first && all_on_lanes)
        lanes_copied_out(size, clock_now() - start);
    return first;
}

static int copy_out_uncounted(core_context *c, core_stream stream, void *to, uint64_t from, size_t size, bool blocking)
{
    struct stream *s;
    int code = stream_enter(c, stream, &s);
    if (code || !size)
        return code;
    if (!to || !address_on_device(s, from, size))
        return CORE_INVALID_VALUE;
    uint64_t shared = host_shared(to, size);
    if (shared)
        return copy_shared(s, shared, from, size, blocking);
    if (!blocking && address_pinned(to, size))
        return outs_start(s, to, from, size);
    return receive_out(s, to, from, size);
}

int core_copy_out(core_context *c, core_stream stream, void *to, uint64_t from, size_t size, bool blocking)
{
    CANCEL_DEFERRED;
    uint64_t begun = stats_copy_begins();
    int code = copy_out_uncounted(c, stream, to, from, size, blocking);
    if (!code)
        stats_copy_ends(begun, STATS_TO_PAGEABLE, to, size);
    return code;
}

/* ---- on the device, and in the program ---- */

static int copy_uncounted(core_context *c, core_stream stream, uint64_t to, uint64_t from, size_t size, bool blocking)
{
    (void)blocking;                           /* native does not wait for these either */
    struct stream *s;
    int code = stream_enter(c, stream, &s);
    if (code || !size)
        return code;
    if (!address_on_device(s, to, size) || !address_on_device(s, from, size))
        return CORE_INVALID_VALUE;
    return send_shared(s, to, from, size, NULL);
}

int core_copy(core_context *c, core_stream stream, uint64_t to, uint64_t from, size_t size, bool blocking)
{
    CANCEL_DEFERRED;
    uint64_t begun = stats_copy_begins();
    int code = copy_uncounted(c, stream, to, from, size, blocking);
    if (!code)
        stats_copy_ends(begun, STATS_ON_DEVICE, NULL, size);
    return code;
}

/* Native is fully synchronous here, whatever the function is called and the memory is (reference, "API synchronization
   behavior"): the source may be written again, and the copy read, as soon as the function has returned. */
static int copy_host_uncounted(core_context *c, core_stream stream, void *to, const void *from, size_t size)
{
    struct stream *s;
    int code = stream_enter(c, stream, &s);
    if (code || !size)
        return code;
    if (!to || !from)
        return CORE_INVALID_VALUE;
    if ((code = stream_wait_for(s)))
        return code;
    memmove(to, from, size);
    return CORE_OK;
}

int core_copy_host(core_context *c, core_stream stream, void *to, const void *from, size_t size, bool blocking)
{
    CANCEL_DEFERRED;
    (void)blocking;
    uint64_t begun = stats_copy_begins();
    int code = copy_host_uncounted(c, stream, to, from, size);
    if (!code)
        stats_copy_ends(begun, STATS_ON_HOST, NULL, size);
    return code;
}
