/*
 * copy.c: copies. Each call is a plan (copy_plan.h): two sides and an extent. Which sides it has decides its route:
 *   in        the bytes come with the call, at most FLYT_MAX_INLINE of them, or beside the calls on a lane; they pass
 *             through staging memory
 *   out       the bytes go with the reply or on a lane, likewise; or only their fingerprints do, for which the software
 *             GPU lets them be read where they lie
 *   between   two places that the device reaches: its memory, and host memory that the client shares
 * What a call has of its own is a row at the end of this file.
 * Addresses are checked against what the client owns when the call is received.
 */
#include "cpu/server/copy/copy_plan.h"
#include "cpu/server/copy/fingerprints.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/tenant_ledger.h"
#include "cpu/server/lanes/lanes.h"

/* What a call asks for. The pointers are into its arguments. */
struct copy_request {
    uint32_t stream;
    struct server_copy plan;
    const flyt_bulk *bulk;                /* in: the bytes */
    const flyt_via *via;                  /* out: how the bytes go; NULL: only their fingerprints do */
    uint64_t mark;                        /* between: a word to be set behind the copy, or 0 */
};

/* What a procedure is as a copy. */
struct form {
    struct operation operation;
    struct copy_request (*read)(struct session *, const struct call *);
};

static struct copy_request request_of(struct session *session, const struct call *call)
{
    return ((const struct form *)call->operation)->read(session, call);
}

/* Somebody or something that waits for a copy. */
struct copy_waiter {
    struct waiter waiter;
    struct stream *stream;
    uint32_t xid;
    struct slot *slot;                    /* out: the bytes; NULL: there are none */
    uint64_t in_place;                    /* out: the bytes lie at this address of the device; 0: in the slot */
    uint64_t size;
    flyt_via via;
    uint64_t mark;
};

/* The copy has been issued. wait: what finish needs, the rest is filled in here. */
static void copy_wait(struct session *session, struct call *call, struct copy_waiter *wait,
                      void (*finish)(struct session *, struct waiter *), bool speaks)
{
    wait->waiter = (struct waiter){ .number = call->number, .speaks = speaks, .finish = finish };
    wait->stream = call->stream;
    wait->xid = call->xid;
    stream_hold(call->stream);
    completion_wait(session, call->stream, &wait->waiter);
}

static void copy_waited(struct session *session, struct copy_waiter *wait)
{
    stream_drop(session, wait->stream);
    free(wait);
}

/* ---- staging ---- */

/* Where all work is known to be complete, a marker would only make the stream wait for the legacy stream's newer work,
   or the other way round, and a query of the stream would not find it idle. */
static void copy_mark(struct session *session, struct stream *stream)
{
    if (atomic_load(&stream->done) < stream->issued)
        stream_mark(session, stream);
}

/* A slot, or none now: then whoever has one is marked, so that those in use come back; and something is on its way in
   this stream, after which it tries again. */
static CUresult copy_slot(struct session *session, struct call *call, uint64_t size, struct slot **slot, bool *scarce)
{
    struct stream *mine = call->stream;
    struct context *context = mine->context;
    CUresult r = staging_take(session, context, size, slot, scarce);
    if (r != CUDA_SUCCESS || *slot)
        return r;
    for (struct list *link; (link = list_first(&context->holding));) {
        list_remove(link);
        copy_mark(session, LIST_OBJECT(link, struct stream, holding));
    }
    copy_mark(session, mine);
    completion_poll(session, mine);
    r = staging_take(session, context, size, slot, scarce);
    if (r == CUDA_SUCCESS && !*slot && atomic_load(&mine->done) >= mine->issued)
        r = staging_extra(session, context, size, slot);
    call->wants = staging_wanted(context, size);
    return r;
}

/* It has staging memory that no marker stands behind. */
static void stream_holds(struct stream *stream)
{
    if (!list_linked(&stream->holding))
        list_append(&stream->context->holding, &stream->holding);
}

/* The slot comes back when the stream has passed this call. */
static void copy_slot_used(struct session *session, struct call *call, struct slot *slot)
{
    slot->number = call->number;
    completion_slot(session, call->stream, slot);
}

/* ---- in ---- */

/* How many bytes the client sends. */
static CUresult bulk_size(const struct session *session, const flyt_bulk *bulk, uint64_t *size)
{
    if (bulk->kind == FLYT_BULK_INLINE) {
        *size = bulk->flyt_bulk_u.bytes.bytes_len;
        return CUDA_SUCCESS;
    }
    if (bulk->kind != FLYT_BULK_LANE || !session->lanes)
        return CUDA_ERROR_NOT_SUPPORTED;
    const flyt_on_lane *on_lane = &bulk->flyt_bulk_u.on_lane;
    *size = on_lane->size;
    return on_lane->transfer && on_lane->size && on_lane->size <= lanes_chunk() ? CUDA_SUCCESS
                                                                                : CUDA_ERROR_INVALID_VALUE;
}

/* The bytes in staging memory. CUDA_SUCCESS, OPERATION_LATER, or an error. */
static int in_slot(struct session *session, struct call *call, const flyt_bulk *bulk, uint64_t size,
                   struct slot **slot, bool *scarce)
{
    if (bulk->kind == FLYT_BULK_LANE) {
        if (!(*slot = lanes_claim(session, call->transfer, size, scarce)))
            return OPERATION_LATER;
        call->transfer = 0;
        return CUDA_SUCCESS;
    }
    CUresult r = copy_slot(session, call, size, slot, scarce);
    if (r == CUDA_SUCCESS && !*slot)
        return OPERATION_LATER;
    if (r == CUDA_SUCCESS)
        memcpy((*slot)->memory, bulk->flyt_bulk_u.bytes.bytes_val, size);
    return (int)r;
}

static int in_issue(struct session *session, struct call *call)
{
    struct copy_request request = request_of(session, call);
    struct server_copy *plan = &request.plan;
    struct stream *stream = call->stream;
    uint64_t size = copy_bytes(&plan->extent);
    struct slot *slot;
    bool scarce;
    int r = size ? in_slot(session, call, request.bulk, size, &slot, &scarce) : CUDA_SUCCESS;
    if (r == OPERATION_LATER)
        return r;
    stream->issued = call->number;
    if (r != CUDA_SUCCESS || !size)
        return r;
    plan->from = copy_at(slot->memory, &plan->extent);
    r = (int)copy_start(session, plan, stream->handle);
    copy_slot_used(session, call, slot);
    if (scarce)
        stream_mark(session, stream);
    else
        stream_holds(stream);
    return r;
}

/* Whatever becomes of the call, what comes for it on a lane is accounted for. */
static bool in_enter(struct session *session, struct call *call, uint32_t stream, const flyt_bulk *bulk)
{
    const flyt_on_lane *on_lane = bulk->kind == FLYT_BULK_LANE ? &bulk->flyt_bulk_u.on_lane : NULL;
    if (!server_stream_enter(session, call, stream)) {
        if (on_lane && on_lane->transfer)
            lanes_discard(session, on_lane->transfer, on_lane->size);
        return false;
    }
    call->transfer = on_lane ? on_lane->transfer : 0;
    call->transfer_size = on_lane ? on_lane->size : 0;
    return true;
}

static void serve_in(struct session *session, struct call *call, const struct form *form)
{
    struct copy_request request = form->read(session, call);
    uint64_t size = 0;
    if (!in_enter(session, call, request.stream, request.bulk))
        return;
    CUresult r = bulk_size(session, request.bulk, &size);
    if (r == CUDA_SUCCESS)
        r = copy_check(session, &request.plan);
    if (r == CUDA_SUCCESS && copy_bytes(&request.plan.extent) != size)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        stream_refuse(session, call, r);
        return;
    }
    figure_add(&session->figures->bytes_in, size);
    server_stream_submit(session, call, &form->operation);
}

/* ---- out ---- */

static void out_finish(struct session *session, struct waiter *waiter)
{
    struct copy_waiter *out = (struct copy_waiter *)waiter;
    copy_out_result result;
    memset(&result, 0, sizeof result);
    if (waiter->result == CUDA_SUCCESS && out->slot && out->via.lane) {
        result.data.kind = FLYT_BULK_LANE;
        result.data.flyt_bulk_u.on_lane = (flyt_on_lane){ out->via.transfer, out->size };
        if (lanes_write(session, out->via.lane, out->via.transfer, out->slot, out->size)) {
            out->slot = NULL;
        } else {
            memset(&result, 0, sizeof result);
            waiter->result = CUDA_ERROR_OPERATING_SYSTEM;
        }
    } else if (waiter->result == CUDA_SUCCESS && out->slot) {
        result.data.flyt_bulk_u.bytes.bytes_val = (char *)out->slot->memory;
        result.data.flyt_bulk_u.bytes.bytes_len = (u_int)out->size;
    }
    session_reply(session, out->xid, (xdrproc_t)xdr_copy_out_result, &result, waiter->result, true);
    if (out->slot)
        staging_give(session, out->slot);
    copy_waited(session, out);
}

static void fingerprints_finish(struct session *session, struct waiter *waiter)
{
    struct copy_waiter *out = (struct copy_waiter *)waiter;
    flyt_fingerprint all[FLYT_MAX_FINGERPRINTS];
    fingerprints_result result;
    memset(&result, 0, sizeof result);
    if (waiter->result == CUDA_SUCCESS && out->in_place) {
        result.all.all_len = copy_fingerprints_in_place(session->gpu, out->in_place, out->size, all);
        waiter->result = result.all.all_len ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    } else if (waiter->result == CUDA_SUCCESS && out->slot) {
        result.all.all_len = copy_fingerprints(out->slot->memory, out->size, all);
    }
    result.all.all_val = all;
    session_reply(session, out->xid, (xdrproc_t)xdr_fingerprints_result, &result, waiter->result, true);
    if (out->slot)
        staging_give(session, out->slot);
    copy_waited(session, out);
}

/* What only fingerprints are wanted of, if it can be read at its address; else 0. */
static uint64_t place_to_read(const struct session *session, const struct copy_request *request)
{
    const struct server_copy_side *from = &request->plan.from;
    const bool row = request->plan.extent.height == 1 && request->plan.extent.depth == 1;
    return session->gpu->read && !request->via && row && !from->array && !from->host ? from->address : 0;
}

/* Issues the copy into a slot and arranges for the answer. */
static int out_issue(struct session *session, struct call *call)
{
    struct copy_request request = request_of(session, call);
    struct server_copy *plan = &request.plan;
    struct stream *stream = call->stream;
    uint64_t size = copy_bytes(&plan->extent);
    struct slot *slot = NULL;
    bool scarce;
    if (request.via && request.via->lane && lanes_congested(session)) {
        call->wants = &session->congested;
        return OPERATION_LATER;
    }
    const uint64_t in_place = size ? place_to_read(session, &request) : 0;
    const bool copies = size && !in_place;
    CUresult r = copies ? copy_slot(session, call, size, &slot, &scarce) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && copies && !slot)
        return OPERATION_LATER;
    struct copy_waiter *out = r == CUDA_SUCCESS ? calloc(1, sizeof *out) : NULL;
    if (!out && r == CUDA_SUCCESS)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && copies) {
        plan->to = copy_at(slot->memory, &plan->extent);
        r = copy_start(session, plan, stream->handle);
    }
    stream->issued = call->number;
    if (r == CUDA_SUCCESS)
        r = stream_mark(session, stream);
    if (r == CUDA_SUCCESS) {
        *out = (struct copy_waiter){ .slot = slot, .size = size, .in_place = in_place };
        if (request.via)
            out->via = *request.via;
        copy_wait(session, call, out, request.via ? out_finish : fingerprints_finish, true);
        return CUDA_SUCCESS;
    }
    if (slot) {
        /* Should the copy be under way after all, the slot must not be used again before it has ended. */
        copy_slot_used(session, call, slot);
        stream_holds(stream);
    }
    free(out);
    return (int)r;
}

static void serve_out(struct session *session, struct call *call, const struct form *form)
{
    struct copy_request request = form->read(session, call);
    const flyt_via *via = request.via;
    if (!server_stream_enter(session, call, request.stream))
        return;
    bool known = !via || !via->lane || (via->transfer && lanes_known(session, via->lane));
    if (!known || copy_check(session, &request.plan) != CUDA_SUCCESS) {
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
        return;
    }
    if (via)
        figure_add(&session->figures->bytes_out, copy_bytes(&request.plan.extent));
    server_stream_submit(session, call, &form->operation);
}

/* ---- between ---- */

static CUresult between(struct session *session, struct call *call, uint64_t *mark)
{
    struct copy_request request = request_of(session, call);
    *mark = request.mark;
    call->stream->issued = call->number;
    figure_add(&session->figures->bytes_between, copy_bytes(&request.plan.extent));
    return copy_empty(&request.plan.extent) ? CUDA_SUCCESS
                                            : copy_start(session, &request.plan, call->stream->handle);
}

/* The word is in the client's hands: it is written, never read. */
static void mark_now(uint64_t mark)
{
    atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)mark, 1, memory_order_release);
}

static void mark_finish(struct session *session, struct waiter *waiter)
{
    struct copy_waiter *wait = (struct copy_waiter *)waiter;
    mark_now(wait->mark);
    copy_waited(session, wait);
}

/* The copy has been issued: its mark follows it in the stream, by the device where it can. */
static CUresult mark_behind(struct session *session, struct call *call, uint64_t mark)
{
    const struct gpu *gpu = session->gpu;
    if (gpu->StreamWriteValue32 && gpu->StreamWriteValue32(call->stream->handle, mark, 1,
                                                           CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    CUresult r = stream_mark(session, call->stream);
    struct copy_waiter *wait = r == CUDA_SUCCESS ? calloc(1, sizeof *wait) : NULL;
    if (!wait)
        return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
    wait->mark = mark;
    copy_wait(session, call, wait, mark_finish, false);
    return CUDA_SUCCESS;
}

static int between_issue(struct session *session, struct call *call)
{
    uint64_t mark;
    CUresult r = between(session, call, &mark);
    if (mark && r == CUDA_SUCCESS)
        r = mark_behind(session, call, mark);
    else if (mark)
        mark_now(mark);                       /* nothing of it is under way */
    return (int)r;
}

static void answer_finish(struct session *session, struct waiter *waiter)
{
    struct copy_waiter *wait = (struct copy_waiter *)waiter;
    session_reply_plain(session, wait->xid, waiter->result, true);
    copy_waited(session, wait);
}

static int answered_issue(struct session *session, struct call *call)
{
    uint64_t mark;
    struct copy_waiter *wait = calloc(1, sizeof *wait);
    CUresult r = wait ? between(session, call, &mark) : CUDA_ERROR_OUT_OF_MEMORY;
    call->stream->issued = call->number;
    if (r == CUDA_SUCCESS)
        r = stream_mark(session, call->stream);
    if (r == CUDA_SUCCESS)
        copy_wait(session, call, wait, answer_finish, true);
    else
        free(wait);
    return (int)r;
}

static void serve_between(struct session *session, struct call *call, const struct form *form)
{
    struct copy_request request = form->read(session, call);
    uint64_t mark = request.mark;
    if (!server_stream_enter(session, call, request.stream))
        return;
    bool markable = !mark || (mark % 4 == 0 && !call->procedure->answers && host_memory_known(session, mark, 4));
    if (markable && copy_check(session, &request.plan) == CUDA_SUCCESS) {
        server_stream_submit(session, call, &form->operation);
        return;
    }
    if (markable && mark)
        mark_now(mark);
    stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
}

/* ---- the calls ---- */

static struct copy_request read_in(struct session *session, const struct call *call)
{
    const copy_in_args *args = &call->args.copy_in;
    const flyt_bulk *bulk = &args->data;
    uint64_t size = bulk->kind == FLYT_BULK_LANE ? bulk->flyt_bulk_u.on_lane.size : bulk->flyt_bulk_u.bytes.bytes_len;
    return (struct copy_request){ args->stream,
                                  { copy_line(session, args->to), copy_packed(), copy_row(size) },
                                  .bulk = bulk };
}

static struct copy_request read_box_in(struct session *session, const struct call *call)
{
    const copy_box_in_args *args = &call->args.copy_box_in;
    return (struct copy_request){ args->stream,
                                  { copy_box(session, &args->to), copy_packed(), args->extent },
                                  .bulk = &args->data };
}

static struct copy_request read_out(struct session *session, const struct call *call)
{
    const copy_out_args *args = &call->args.copy_out;
    return (struct copy_request){ args->stream,
                                  { copy_packed(), copy_line(session, args->from), copy_row(args->size) },
                                  .via = &args->via };
}

static struct copy_request read_box_out(struct session *session, const struct call *call)
{
    const copy_box_out_args *args = &call->args.copy_box_out;
    return (struct copy_request){ args->stream,
                                  { copy_packed(), copy_box(session, &args->from), args->extent },
                                  .via = &args->via };
}

static struct copy_request read_fingerprints(struct session *session, const struct call *call)
{
    const fingerprints_args *args = &call->args.fingerprints;
    return (struct copy_request){ .stream = args->stream,
                                  .plan = { copy_packed(), copy_box(session, &args->from), args->extent } };
}

static struct copy_request read_copy(struct session *session, const struct call *call)
{
    const copy_args *args = &call->args.copy;
    return (
        struct copy_request){ args->stream,
                              { copy_line(session, args->to), copy_line(session, args->from), copy_row(args->size) },
                              .mark = args->mark };
}

static struct copy_request read_box(struct session *session, const struct call *call)
{
    const copy_box_args *args = &call->args.copy_box;
    struct server_copy plan = { copy_box(session, &args->to), copy_box(session, &args->from), args->extent };
    return (struct copy_request){ .stream = args->stream, .plan = plan };
}

/* Each call: how its request is read, what checks it, and what issues it. */
#define COPY(name, read, check, how) \
    static const struct form form_##name = { { .issue = how, .numbered = true, .own_number = true }, read }; \
    void serve_##name(struct session *session, struct call *call) { check(session, call, &form_##name); }
COPY(copy_in, read_in, serve_in, in_issue)
COPY(copy_box_in, read_box_in, serve_in, in_issue)
COPY(copy_out, read_out, serve_out, out_issue)
COPY(copy_box_out, read_box_out, serve_out, out_issue)
COPY(fingerprints, read_fingerprints, serve_out, out_issue)
COPY(copy, read_copy, serve_between, between_issue)
COPY(copy_waited, read_copy, serve_between, answered_issue)
COPY(copy_box, read_box, serve_between, between_issue)
