/*
 * copy.c: every copy is planned here: its shape, its sides, and from these its route.
 *
 * The shape is a box (span.h); a line is a box with one row, and a box without gaps becomes a line. The sides are the
 * device's memory, pinned memory, or pageable memory (any other of the program's). The direction is the program's
 * statement about the two pointers; with unified addressing the address says what is true. So a copy goes as its
 * addresses ask for, after a check that the statement does not contradict them: what would read device memory through a
 * host pointer is 1, as natively, and does not crash the program.
 *
 *   here      both sides are the program's: this thread moves the bytes
 *   reach     the device reaches both sides (its own memory, or the host's; host.h): one call names them, and no byte
 *             passes through a CPU of ours
 *   in, out   all other copies to and from the device. Their bytes travel in parts, each
 *     chunk     through a piece of memory that the device reaches (chunks.c): what is not small, where there is a host
 *               window
 *     lane      over a connection of its own (lanes.c): what is large, over TCP, where others would have to wait behind
 *               it or its stream may stand still (lanes_choice.c)
 *     inside    in the calls and replies: all else, and while no chunk can be had
 *
 * To the device. The source has been taken when the function returns. A synchronous copy also waits where native would
 * wait and report: if something that may run long or fail precedes it, or if the source is pinned; and if there is a
 * stream that would not wait for the copy's stream (early_return.c). A source that queued work may still write (a
 * pinned buffer that an earlier copy from the device fills, or a host function) must not be taken early: a synchronous
 * copy waits for its stream first; an asynchronous one is deferred: a host function does it in its turn, through a
 * stream of the core's own.
 */
#include <stdatomic.h>
#include <string.h>

#include "array.h"
#include "copy_calls.h"
#include "cpu/common/cancel.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/memory/host.h"
#include "cpu/client/core/stream/managed.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/op.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/stream/early_return.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/stats.h"

enum { DEFERRED_LEAST = 256 * 1024, DEFERRED_LEAST_SHARED = 16 << 20 };

/* ---- what the device reaches ---- */

static int wait_reached(struct client_stream *s, const struct copy_span *span)
{
    struct copy_waited call;
    struct submitted at = { 0 };
    copy_call_waited(&call, s, span, NULL, &at);
    int code = wire_wait(&call.wire);
    xdr_free((xdrproc_t)xdr_plain_result, &call.result);
    if (!code)
        stream_finished(s, atomic_load(&at.number));
    return code;
}

static bool managed(const struct copy_plan *plan)
{
    return plan->managed_to || plan->managed_from;
}

/* Between two devices a synchronous copy comes after all that both have under way, and before all that they are given
   later (programming guide, "Peer-to-Peer Memory Copy"), whatever its stream is. */
static int copy_devices(struct client_stream *s, const struct copy_plan *plan)
{
    int code = context_settle(plan->source);
    if (!code)
        code = context_settle(plan->target);
    if (!code)
        code = copy_call_reach(s, &plan->span, 0);
    return code ? code : stream_wait_for(s);
}

/* On the device alone native does not wait either. */
static int copy_reach(struct client_stream *s, const struct copy_plan *plan)
{
    if (plan->target && plan->source)
        return copy_devices(s, plan);
    bool wait = plan->blocking && (!(plan->to_device && plan->from_device) || managed(plan));
    return wait ? wait_reached(s, &plan->span) : copy_call_reach(s, &plan->span, 0);
}

/* ---- in the program ---- */

/* Native is fully synchronous here, whatever the function is called and the memory is (reference, "API synchronization
   behavior"): the source may be written again, and the copy read, as soon as the function has returned. */
static int copy_here(struct client_stream *s, const struct copy_span *span)
{
    const struct host_rows to = rows_of(&span->to, &span->extent), from = rows_of(&span->from, &span->extent);
    int code = stream_wait_for(s);
    if (!code)
        code = mirror_synchronised();
    for (size_t z = 0; z < to.slices && !code; z++)
        for (size_t y = 0; y < to.rows; y++)
            memmove(to.address + z * to.slice_pitch + y * to.pitch,
                    from.address + z * from.slice_pitch + y * from.pitch, to.width);
    return code;
}

/* ---- to the device, in parts ---- */

/* The source may be read now, before its turn in the stream: nothing that is queued can still write it. */
static bool may_be_early(struct client_stream *s)
{
    return (!pending_writers() && !core_perf.no_early) || stream_known_idle(s);
}

/* For a copy of pinned memory that must not wait: without lanes, the session takes only so many bytes behind what may
   stand still. */
static bool waits_its_turn(struct client_stream *s, size_t bytes)
{
    return bytes >= (host_space_any() ? DEFERRED_LEAST_SHARED : DEFERRED_LEAST) && !stream_known_light(s);
}

/* The caller must not wait, and the program leaves the source alone: what cannot be sent at once goes in its turn. */
static int copy_in_pinned(struct client_stream *s, struct copy_cut *left)
{
    int code = CORE_OK;
    if (may_be_early(s)) {
        bool on_lanes = lanes_wanted(left->bytes, !stream_known_light(s));
        if (on_lanes || !waits_its_turn(s, left->bytes))
            code = copy_send(s, left, on_lanes ? LANES_WAIT_NEVER : LANES_WAIT_A_MOMENT);
    }
    return code || !left->bytes ? code : copy_send_deferred(s, left);
}

/* Pinned memory that kernels use over a network, while they may be at it: the copy's turn must have come. */
static bool in_use(const struct copy_plan *plan, const struct core_box *side)
{
    const struct host_rows rows = rows_of(side, &plan->span.extent);
    return plan->pinned && mirror_in_use(&rows);
}

/* What kernels wrote there has come when this returns 0. */
static int settle(struct client_stream *s)
{
    int code = stream_wait_for(s);
    return code ? code : mirror_synchronised();
}

static int copy_in(struct client_stream *s, const struct copy_plan *plan)
{
    struct copy_cut left = copy_cut_begin(&plan->span);
    if (in_use(plan, &plan->span.from)) {
        if (!plan->blocking)
            return copy_send_deferred(s, &left);
        int settled = settle(s);
        if (settled)
            return settled;
    }
    if (!plan->blocking)
        return plan->pinned ? copy_in_pinned(s, &left) : copy_send(s, &left, LANES_WAIT_A_MOMENT);
    int code = may_be_early(s) ? CORE_OK : stream_wait_for(s);
    if (code)
        return code;
    bool wait = !stream_known_light(s) || plan->pinned || lanes_wanted(left.bytes, false) || managed(plan);
    code = copy_send(s, &left, LANES_WAIT);
    return code || (!wait && early_return_may(s)) ? code : stream_wait_for(s);
}

/* ---- from the device ---- */

static int copy_out(struct client_stream *s, const struct copy_plan *plan)
{
    bool pending = plan->pinned && !plan->blocking;
    if (in_use(plan, &plan->span.to)) {
        int code = pending ? mirror_room->fence(s) : settle(s);
        if (code)
            return code;
    }
    return pending ? copy_begin_pending(s, &plan->span) : copy_receive(s, &plan->span);
}

/* ---- the plan ---- */

static int array_side(const struct client_stream *s, const struct core_box *box, const struct core_extent *e,
                      struct copy_side *side)
{
    core_context *owner;
    int code = array_check(box->address, e, &owner);
    if (code)
        return code;
    *side = (struct copy_side){ .kind = CORE_DEVICE_MEMORY, .reach = box->address, .owner = owner };
    if (owner != s->context)
        atomic_store(&s->context->cross_context, true);
    return CORE_OK;
}

/* Where addresses of several servers are equal, that of this session is meant. */
static int copy_side_at(const struct client_session *session, const struct client_stream *s,
                        const struct core_box *box, const struct core_extent *e, struct copy_side *side)
{
    struct core_range r;
    uint64_t bytes;
    *side = (struct copy_side){ .kind = CORE_UNKNOWN_MEMORY };
    if (!box->address || box_check(box, e, &bytes))
        return CORE_INVALID_VALUE;
    if (array_address(box->address))
        return array_side(s, box, e, side);
    if (!address_lookup_at(session, box->address, &r))       /* what is no memory of the device's is the program's */
        return box->address - core_session.window < core_session.window_size ? CORE_INVALID_VALUE : CORE_OK;
    bool whole = bytes <= r.size - (box->address - r.base) || address_covers(box->address, bytes);
    side->kind = r.kind;
    if (r.kind == CORE_DEVICE_MEMORY) {
        side->reach = box->address;
        side->managed = r.flags & (CORE_MANAGED | CORE_HOST_MAPPED);
        side->bytes = bytes;
        side->owner = session_several() ? copy_owner(&r) : r.context;
        if (whole && r.context != s->context)
            atomic_store(&s->context->cross_context, true);
        return whole ? CORE_OK : CORE_INVALID_VALUE;
    }
    side->pinned = whole;
    side->reach = whole ? host_shared(box->address, bytes) : 0;
    return CORE_OK;
}

int copy_side(const struct client_stream *s, const struct core_box *box, const struct core_extent *e,
              struct copy_side *side)
{
    return copy_side_at(s->context->session, s, box, e, side);
}

/* Whether memory of the kind may stand where the direction says "host" or "device". As NVIDIA's driver has it, where
   addresses are unified "host" may be any address, and "device" any that CUDA knows. */
static bool fits(const struct copy_side *side, bool host)
{
    return host || side->managed || side->kind != CORE_UNKNOWN_MEMORY;
}

static bool contradicts(enum core_direction stated, const struct copy_side *to, const struct copy_side *from)
{
    return stated != CORE_ANY_DIRECTION && (!fits(to, stated == CORE_HOST_TO_HOST || stated == CORE_DEVICE_TO_HOST) ||
                                            !fits(from, stated == CORE_HOST_TO_HOST || stated == CORE_HOST_TO_DEVICE));
}

static bool dense(const struct core_box *box, const struct core_extent *e)
{
    return box->pitch == e->width && (e->depth == 1 || box->height == e->height);
}

static bool elsewhere(const struct client_stream *s, const struct copy_side *side)
{
    return side->kind == CORE_DEVICE_MEMORY && (!side->owner || side->owner->session != s->context->session);
}

/* There are several servers: does the stream's have all of the memory? */
static void plan_across(const struct client_stream *s, struct copy_plan *plan, const struct copy_side *target,
                        const struct copy_side *source)
{
    if (!elsewhere(s, target) && !elsewhere(s, source))
        return;
    plan->route = COPY_ACROSS;
    plan->target = target->owner;
    plan->source = source->owner;
}

static _Thread_local struct core_copy_servers named;

void core_copy_between(core_context *to, core_context *from)
{
    CANCEL_DEFERRED;
    named = (struct core_copy_servers){ to ? to->session : NULL, from ? from->session : NULL };
}

struct core_copy_servers core_copy_servers(void)
{
    CANCEL_DEFERRED;
    return named;
}

void core_copy_between_servers(struct core_copy_servers servers)
{
    CANCEL_DEFERRED;
    named = servers;
}

static int plan_make(const struct client_stream *s, struct copy_plan *plan, enum core_direction stated)
{
    struct core_box *to = &plan->span.to, *from = &plan->span.from;
    struct core_extent *e = &plan->span.extent;
    struct copy_side target, source;
    const struct client_session *here = s->context->session;
    if (copy_side_at(named.to ? named.to : here, s, to, e, &target) ||
        copy_side_at(named.from ? named.from : here, s, from, e, &source) ||
        contradicts(stated, &target, &source))
        return CORE_INVALID_VALUE;
    if (dense(to, e) && dense(from, e) && !array_address(to->address) && !array_address(from->address))
        *e = (struct core_extent){ copy_bytes(&plan->span), 1, 1 };
    plan->to_device = target.kind == CORE_DEVICE_MEMORY;
    plan->from_device = source.kind == CORE_DEVICE_MEMORY;
    plan->pinned = plan->to_device ? source.pinned : target.pinned;
    plan->managed_to = target.managed ? target.bytes : 0;
    plan->managed_from = source.managed ? source.bytes : 0;
    plan->route = !plan->to_device && !plan->from_device ? COPY_HERE
                  : target.reach && source.reach         ? COPY_REACH
                  : plan->to_device                      ? COPY_IN
                                                         : COPY_OUT;
    if (session_several())
        plan_across(s, plan, &target, &source);
    if (plan->route == COPY_REACH && plan->blocking && target.owner && source.owner &&
        target.owner->device != source.owner->device) {
        plan->target = target.owner;
        plan->source = source.owner;
    }
    if (plan->route == COPY_REACH) {
        to->address = target.reach;
        from->address = source.reach;
    }
    return CORE_OK;
}

/* What the program has written into managed memory goes first, and it loses access to what the copy will write. */
static int copy_prepare(const struct copy_plan *plan)
{
    uint64_t from = plan->span.from.address, to = plan->span.to.address;
    int code = plan->managed_from ? managed_before_access(from, plan->managed_from, false, false) : CORE_OK;
    if (code || !plan->managed_to)
        return code;
    return managed_before_access(to, plan->managed_to, true, plan->managed_to == copy_bytes(&plan->span));
}

static int copy_go(struct client_stream *s, const struct copy_plan *plan)
{
    int code = managed(plan) ? copy_prepare(plan) : CORE_OK;
    if (code)
        return code;
    switch (plan->route) {
    case COPY_HERE: return copy_here(s, &plan->span);
    case COPY_REACH: return copy_reach(s, plan);
    case COPY_IN: return copy_in(s, plan);
    case COPY_ACROSS: return copy_across(s, plan);
    default: return copy_out(s, plan);
    }
}

int copy_op(struct client_stream *s, const struct op *op)
{
    const struct copy_plan *plan = &op->copy;
    managed_write_comes(plan->managed_to);
    int code = copy_go(s, plan);
    managed_work_sent(plan->managed_to);
    return code;
}

static enum stats_copy counted_as(const struct copy_plan *plan)
{
    if (plan->to_device)
        return plan->from_device ? STATS_ON_DEVICE : plan->pinned ? STATS_FROM_PINNED : STATS_FROM_PAGEABLE;
    return !plan->from_device ? STATS_ON_HOST : plan->pinned ? STATS_TO_PINNED : STATS_TO_PAGEABLE;
}

static struct copy_side side_at(const void *address)
{
    struct core_range r;
    if (array_address((uint64_t)(uintptr_t)address))
        return (struct copy_side){ .kind = CORE_DEVICE_MEMORY };
    if (!core_address_lookup((uint64_t)(uintptr_t)address, &r))
        return (struct copy_side){ .kind = CORE_UNKNOWN_MEMORY };
    bool managed = r.kind == CORE_DEVICE_MEMORY && r.flags & (CORE_MANAGED | CORE_HOST_MAPPED);
    return (struct copy_side){ .kind = r.kind, .managed = managed };
}

int core_copy_check(const void *to, const void *from, enum core_direction stated)
{
    CANCEL_DEFERRED;
    const struct copy_side target = side_at(to), source = side_at(from);
    return !to || !from || contradicts(stated, &target, &source) ? CORE_INVALID_VALUE : CORE_OK;
}

static int copy(core_context *c, core_stream stream, const struct core_box *to, const struct core_box *from,
                const struct core_extent *e, enum core_direction stated, bool blocking)
{
    struct client_stream *s;
    struct op op = { .kind = OP_COPY, .copy = { .span = { *to, *from, *e }, .blocking = blocking } };
    uint64_t begun = stats_copy_begins(), bytes = copy_bytes(&op.copy.span);
    op.copy.span.to.address = mirror_host(to->address);
    op.copy.span.from.address = mirror_host(from->address);
    if (!e->width || !e->height || !e->depth)
        return CORE_OK;
    int code = client_stream_enter(c, stream, &s);
    if (code || (code = plan_make(s, &op.copy, stated)) || (code = op_submit(s, &op)))
        return code;
    stats_copy_ends(begun, counted_as(&op.copy), bytes);
    if (blocking && atomic_load_explicit(&address_any_synchronous, memory_order_relaxed) &&
        (address_is_synchronous(to->address) || address_is_synchronous(from->address)))
        code = stream_wait_for(s);
    return code || !blocking ? code : mirror_synchronised();
}

int core_copy(core_context *c, core_stream stream, void *to, const void *from, size_t size, enum core_direction stated,
              bool blocking)
{
    CANCEL_DEFERRED;
    const struct core_box target = { (uint64_t)(uintptr_t)to, size, 1 };
    const struct core_box source = { (uint64_t)(uintptr_t)from, size, 1 };
    return copy(c, stream, &target, &source, &(struct core_extent){ size, 1, 1 }, stated, blocking);
}

int core_copy_box(core_context *c, core_stream stream, const struct core_box *to, const struct core_box *from,
                  const struct core_extent *e, enum core_direction stated, bool blocking)
{
    CANCEL_DEFERRED;
    return copy(c, stream, to, from, e, stated, blocking);
}
