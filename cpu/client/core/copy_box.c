/*
 * copy_box.c: copies of boxes in pitched memory, and memset. The same rules as in copy.c; host sides travel packed.
 * In chunks too: a COPY_BOX names the chunk, and an empty copy behind it carries the mark, or is waited for.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"
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

static bool empty(const struct core_extent *e)
{
    return !e->width || !e->height || !e->depth;
}

static flyt_box wire_box(const struct core_box *box, uint64_t offset)
{
    return (flyt_box){ .address = box->address + offset, .pitch = box->pitch, .height = box->height };
}

static flyt_extent wire_extent(const struct core_extent *e)
{
    return (flyt_extent){ .width = e->width, .height = e->height, .depth = e->depth };
}

static struct host_rows rows_at(const struct core_box *box, const size_t origin[3], const struct core_extent *part)
{
    return (struct host_rows){ .address = (uint8_t *)(uintptr_t)(box->address + box_offset(box, origin)),
                               .width = part->width,
                               .rows = part->height,
                               .slices = part->depth,
                               .pitch = box->pitch,
                               .slice_pitch = box->pitch * box->height };
}

/* One piece of memory on both sides: the plain copies do it better. */
static bool dense(const struct core_box *box, const struct core_extent *e)
{
    return (e->height == 1 && e->depth == 1) || (box->pitch == e->width && (e->depth == 1 || box->height == e->height));
}

static int check(const struct stream *s, const struct core_box *device_side, const struct core_box *host_side,
                 const struct core_extent *e, uint64_t *host_bytes)
{
    uint64_t bytes;
    if (box_check(device_side, e, &bytes) || !address_on_device(s, device_side->address, bytes))
        return CORE_INVALID_VALUE;
    return !host_side->address || box_check(host_side, e, host_bytes) ? CORE_INVALID_VALUE : CORE_OK;
}

/* Both sides are the device's, or memory that it reaches. */
static int copy_shared(struct stream *s, const struct core_box *to, const struct core_box *from,
                       const struct core_extent *e, bool blocking)
{
    copy_box_args args = { .stream = s->wire, .to = wire_box(to, 0), .from = wire_box(from, 0),
                           .extent = wire_extent(e) };
    int code = stream_send(s, FLYT_COPY_BOX, (xdrproc_t)xdr_copy_box_args, &args, STREAM_LIGHT, NULL);
    return code || !blocking ? code : stream_wait_for(s);
}

/* ---- to the device ---- */

static size_t bytes_of(const struct core_extent *e)
{
    return e->width * e->height * e->depth;
}

/* What is left of a copy. */
struct box_left { const struct core_box *to, *from; const struct core_extent *extent; struct box_cursor cursor; };

static int send_box(struct stream *s, const struct lane_in *in)
{
    copy_box_in_args args = { .stream = s->wire, .to = in->box, .extent = in->extent, .data = in->data };
    return stream_send(s, FLYT_COPY_BOX_IN, (xdrproc_t)xdr_copy_box_in_args, &args, STREAM_LIGHT, NULL);
}

static void next_box(void *context, size_t most, struct lane_in *in)
{
    struct box_left *left = context;
    struct core_extent part;
    size_t origin[3];
    (void)most;                               /* lanes_want_boxes: it is as much as box_next gives */
    box_next(left->extent, &left->cursor, CHUNK_SIZE, origin, &part);
    *in = (struct lane_in){ .from = rows_at(left->from, origin, &part), .send = send_box,
                            .box = wire_box(left->to, box_offset(left->to, origin)),
                            .extent = wire_extent(&part) };
}

/* Packed in a chunk, which is free again when an empty copy behind it has come to its turn. */
static int send_chunk(struct stream *s, const struct core_box *to, const size_t origin[3],
                      const struct core_extent *part, const struct host_rows *from, struct chunk *chunk)
{
    const struct core_box target = { to->address + box_offset(to, origin), to->pitch, to->height };
    const struct core_box source = { chunk->address, part->width, part->height };
    copy_args behind = { .stream = s->wire, .mark = (uint64_t)(uintptr_t)chunk->mark };
    rows_pack((void *)(uintptr_t)chunk->address, from);
    throttle_enter(s, 0);
    chunk_send(chunk, s->context);
    int code = copy_shared(s, &target, &source, part, false);
    int marked = stream_send(s, FLYT_COPY, (xdrproc_t)xdr_copy_args, &behind, STREAM_LIGHT, NULL);
    return code ? code : marked;
}

static int send_in(struct stream *s, const struct core_box *to, const struct core_box *from,
                   const struct core_extent *e, bool may_wait)
{
    struct box_left left = { to, from, e, { 0 } };
    struct core_extent part;
    size_t origin[3], bytes = bytes_of(e);
    int code = lanes_want_boxes(bytes, !stream_known_light(s))
                   ? lanes_send(s, next_box, &left, &bytes, may_wait ? LANES_WAIT : LANES_WAIT_A_MOMENT)
                   : CORE_OK;
    struct box_cursor cursor = left.cursor;
    for (;;) {
        struct chunk *shared = chunks_serve(bytes) && cursor.slice < e->depth && !code ? chunk_take(bytes, true) : NULL;
        if (code || !box_next(e, &cursor, CHUNK_SIZE, origin, &part))
            break;
        if (shared) {
            struct host_rows rows = rows_at(from, origin, &part);
            code = send_chunk(s, to, origin, &part, &rows, shared);
            continue;
        }
        struct chunk_in chunk = { .stream = s->wire, .to = wire_box(to, box_offset(to, origin)),
                                  .extent = wire_extent(&part),
                                  .from = rows_at(from, origin, &part) };
        throttle_enter(s, bytes_of(&part));
        code = stream_send(s, FLYT_COPY_BOX_IN, (xdrproc_t)xdr_chunk_in, &chunk, STREAM_LIGHT, NULL);
    }
    return code;
}

struct late_in { core_context *context; struct core_box to, from; struct core_extent extent; };

static void late_copy_in(void *user, int status)
{
    struct late_in *late = user;
    struct stream *s;
    int code = status ? CORE_OK : stream_transfer(late->context, &s);
    if (!status && !code && !(code = send_in(s, &late->to, &late->from, &late->extent, true)))
        code = stream_wait_for(s);
    if (code)
        session_latch(code);
    free(late);
}

static int copy_in_late(struct stream *s, const struct core_box *to, const struct core_box *from,
                        const struct core_extent *e)
{
    struct late_in *late = malloc(sizeof *late);
    if (!late)
        return CORE_OUT_OF_MEMORY;
    *late = (struct late_in){ s->context, *to, *from, *e };
    int code = host_function_put(s, late_copy_in, late, true, false);
    if (code)
        free(late);
    return code;
}

static int copy_box_in_uncounted(core_context *c, core_stream stream, const struct core_box *to,
                                 const struct core_box *from, const struct core_extent *e, bool blocking)
{
    struct stream *s;
    uint64_t bytes;
    int code = stream_enter(c, stream, &s);
    if (code || empty(e))
        return code;
    if ((code = check(s, to, from, e, &bytes)))
        return code;
    if (dense(to, e) && dense(from, e))
        return core_copy_in(c, stream, to->address, (const void *)(uintptr_t)from->address,
                            e->width * e->height * e->depth, blocking);
    uint64_t shared = host_shared((const void *)(uintptr_t)from->address, bytes);
    if (shared)
        return copy_shared(s, to, &(struct core_box){ shared, from->pitch, from->height }, e, blocking);
    bool early = copy_may_be_early(s);
    bool stands = !stream_known_light(s) && lanes_want_boxes(bytes_of(e), true);     /* and sending might wait for it */
    if ((!early || stands || copy_waits_its_turn(s, bytes_of(e))) && !blocking &&
        address_pinned((const void *)(uintptr_t)from->address, bytes))
        return copy_in_late(s, to, from, e);
    if (!early && blocking && (code = stream_wait_for(s)))
        return code;
    bool wait = !stream_known_light(s) || address_pinned((const void *)(uintptr_t)from->address, bytes) ||
                lanes_wanted(bytes_of(e), false);
    code = send_in(s, to, from, e, blocking);
    return code || !blocking || (!wait && returned_may(s)) ? code : stream_wait_for(s);
}

int core_copy_box_in(core_context *c, core_stream stream, const struct core_box *to, const struct core_box *from,
                     const struct core_extent *e, bool blocking)
{
    CANCEL_DEFERRED;
    uint64_t begun = stats_copy_begins();
    int code = copy_box_in_uncounted(c, stream, to, from, e, blocking);
    if (!code)
        stats_copy_ends(begun, STATS_FROM_PAGEABLE, (const void *)(uintptr_t)from->address,
                        e->width * e->height * e->depth);
    return code;
}

/* ---- from the device ---- */

struct part_out {
    struct wire_call        wire;
    copy_box_out_args       args;
    struct chunk_out_result result;
    struct lane_out         lane;
    struct chunk           *chunk;    /* NULL: the bytes come with the reply or on a lane */
    copy_args               behind;   /* else this is what is waited for */
    plain_result            waited;
};

static void part_begin_chunk(struct part_out *p, struct stream *s, const struct core_box *to,
                             const struct core_box *from, const size_t origin[3], const struct core_extent *part,
                             struct submitted *at)
{
    const struct core_box source = { from->address + box_offset(from, origin), from->pitch, from->height };
    p->result.to = rows_at(to, origin, part);
    p->behind = (copy_args){ .stream = s->wire };
    p->waited = (plain_result){ 0 };
    copy_shared(s, &(struct core_box){ p->chunk->address, part->width, part->height }, &source, part, false);
    wire_prepare(&p->wire, FLYT_COPY_WAITED, (xdrproc_t)xdr_copy_args, &p->behind, (xdrproc_t)xdr_plain_result,
                 &p->waited);
    stream_submit(s, &p->wire, NULL, at);
}

static int part_wait_chunk(struct part_out *p)
{
    int code = wire_wait(&p->wire);
    xdr_free((xdrproc_t)xdr_plain_result, &p->waited);
    if (!code)
        rows_unpack(&p->result.to, (const void *)(uintptr_t)p->chunk->address);
    chunk_give(p->chunk);
    return code;
}

static int receive_out(struct stream *s, const struct core_box *to, const struct core_box *from,
                       const struct core_extent *e)
{
    struct point before = stream_point_next(s);
    uint64_t bytes;
    if (box_check(to, e, &bytes) == CORE_OK)
        outs_wait_place(&before, (const void *)(uintptr_t)to->address, bytes);
    enum { IN_FLIGHT = 4 };
    struct part_out parts[IN_FLIGHT];
    unsigned begun = 0, ended = 0, window = core_perf.no_pipeline ? 1 : IN_FLIGHT;
    struct submitted last = { 0 };
    struct box_cursor cursor = { 0 };
    struct core_extent part;
    size_t origin[3];
    int first = CORE_OK;
    bool on_lanes = lanes_want_boxes(bytes_of(e), false);
    for (bool more = true; more || ended < begun;) {
        struct chunk *chunk =
            more && begun - ended < window && !first && chunks_serve(bytes_of(e)) && cursor.slice < e->depth
                ? chunk_take(bytes_of(e), begun == ended)
                : NULL;
        if (more && begun - ended < window &&
            (more = !first && box_next(e, &cursor, CHUNK_SIZE, origin, &part))) {
            struct part_out *p = &parts[begun++ % IN_FLIGHT];
            p->chunk = chunk;
            p->lane.via.lane = 0;
            if (chunk) {
                part_begin_chunk(p, s, to, from, origin, &part, &last);
                continue;
            }
            p->args = (copy_box_out_args){ .stream = s->wire, .from = wire_box(from, box_offset(from, origin)),
                                           .extent = wire_extent(&part) };
            p->result = (struct chunk_out_result){ .to = rows_at(to, origin, &part) };
            if (on_lanes)
                p->args.via = p->result.via = lane_out_begin(&p->lane, &p->result.to, false);
            wire_prepare(&p->wire, FLYT_COPY_BOX_OUT, (xdrproc_t)xdr_copy_box_out_args, &p->args,
                         (xdrproc_t)xdr_chunk_out_result, &p->result);
            stream_submit(s, &p->wire, NULL, &last);
            continue;
        }
        if (ended == begun)
            break;
        struct part_out *p = &parts[ended++ % IN_FLIGHT];
        if (p->chunk) {
            int code = part_wait_chunk(p);
            first = first ? first : code;
            continue;
        }
        int code = wire_wait(&p->wire);
        if (p->lane.via.lane && !code && p->result.on_lane)
            code = lane_out_wait(&p->lane);
        else
            lane_out_cancel(&p->lane);
        xdr_free((xdrproc_t)xdr_chunk_out_result, &p->result);
        if (!first)
            first = code;
    }
    if (!first)
        stream_finished(s, atomic_load(&last.number));
    return first;
}

static int copy_box_out_uncounted(core_context *c, core_stream stream, const struct core_box *to,
                                  const struct core_box *from, const struct core_extent *e, bool blocking)
{
    struct stream *s;
    uint64_t bytes;
    int code = stream_enter(c, stream, &s);
    if (code || empty(e))
        return code;
    if ((code = check(s, from, to, e, &bytes)))
        return code;
    if (dense(to, e) && dense(from, e))
        return core_copy_out(c, stream, (void *)(uintptr_t)to->address, from->address, e->width * e->height * e->depth,
                             blocking);
    uint64_t shared = host_shared((const void *)(uintptr_t)to->address, bytes);
    if (shared)
        return copy_shared(s, &(struct core_box){ shared, to->pitch, to->height }, from, e, blocking);
    if (!blocking && address_pinned((const void *)(uintptr_t)to->address, bytes))
        return outs_start_box(s, to, from, e);
    return receive_out(s, to, from, e);
}

int core_copy_box_out(core_context *c, core_stream stream, const struct core_box *to, const struct core_box *from,
                      const struct core_extent *e, bool blocking)
{
    CANCEL_DEFERRED;
    uint64_t begun = stats_copy_begins();
    int code = copy_box_out_uncounted(c, stream, to, from, e, blocking);
    if (!code)
        stats_copy_ends(begun, STATS_TO_PAGEABLE, (const void *)(uintptr_t)to->address,
                        e->width * e->height * e->depth);
    return code;
}

/* ---- on the device ---- */

static int copy_box_uncounted(core_context *c, core_stream stream, const struct core_box *to,
                              const struct core_box *from, const struct core_extent *e, bool blocking)
{
    (void)blocking;
    struct stream *s;
    uint64_t bytes;
    int code = stream_enter(c, stream, &s);
    if (code || empty(e))
        return code;
    if (box_check(to, e, &bytes) || !address_on_device(s, to->address, bytes) || box_check(from, e, &bytes)
        || !address_on_device(s, from->address, bytes))
        return CORE_INVALID_VALUE;
    return copy_shared(s, to, from, e, false);
}

int core_copy_box(core_context *c, core_stream stream, const struct core_box *to, const struct core_box *from,
                  const struct core_extent *e, bool blocking)
{
    CANCEL_DEFERRED;
    uint64_t begun = stats_copy_begins();
    int code = copy_box_uncounted(c, stream, to, from, e, blocking);
    if (!code)
        stats_copy_ends(begun, STATS_ON_DEVICE, NULL, e->width * e->height * e->depth);
    return code;
}

/* ---- set ---- */

/* Pinned memory that the device does not reach. */
struct late_set { struct core_box to; struct core_extent extent; uint32_t value; unsigned element; };

static void set_here(const struct late_set *set)
{
    uint8_t bytes[4];
    /* both sides are little-endian, as every machine with a GPU is */
    memcpy(bytes, &set->value, sizeof bytes);
    for (size_t z = 0; z < set->extent.depth; z++)
        for (size_t y = 0; y < set->extent.height; y++) {
            uint8_t *row = (uint8_t *)(uintptr_t)(set->to.address + (z * set->to.height + y) * set->to.pitch);
            for (size_t x = 0; x < set->extent.width; x++)
                memcpy(row + x * set->element, bytes, set->element);
        }
}

static void late_set(void *user, int status)
{
    if (!status)
        set_here(user);
    free(user);
}

static int set_pinned(struct stream *s, const struct late_set *set, bool blocking)
{
    int code;
    if (blocking) {
        if (!(code = stream_wait_for(s)))
            set_here(set);
        return code;
    }
    struct late_set *late = malloc(sizeof *late);
    if (!late)
        return CORE_OUT_OF_MEMORY;
    *late = *set;
    if ((code = host_function_put(s, late_set, late, true, true)))
        free(late);
    return code;
}

int core_set(core_context *c, core_stream stream, const struct core_box *to, const struct core_extent *e,
             uint32_t value, unsigned element, bool blocking)
{
    CANCEL_DEFERRED;
    struct stream *s;
    uint64_t bytes;
    int code = stream_enter(c, stream, &s);
    if (code || empty(e))
        return code;
    if ((element != 1 && element != 2 && element != 4) || to->address % element)
        return CORE_INVALID_VALUE;
    struct core_extent in_bytes = *e;
    if (__builtin_mul_overflow(e->width, element, &in_bytes.width) || box_check(to, &in_bytes, &bytes))
        return CORE_INVALID_VALUE;
    uint64_t shared = host_shared((const void *)(uintptr_t)to->address, bytes);
    if (!shared && !address_on_device(s, to->address, bytes))
        return address_pinned((const void *)(uintptr_t)to->address, bytes)
                   ? set_pinned(s, &(struct late_set){ *to, *e, value, element }, blocking) : CORE_INVALID_VALUE;
    set_args args = { .stream = s->wire, .to = wire_box(to, 0), .extent = wire_extent(e), .value = value,
                      .element = element };
    if (shared)
        args.to.address = shared;
    code = stream_send(s, FLYT_SET, (xdrproc_t)xdr_set_args, &args, STREAM_LIGHT, NULL);
    /* asynchronous to the host only on device memory */
    return code || !shared || !blocking ? code : stream_wait_for(s);
}
