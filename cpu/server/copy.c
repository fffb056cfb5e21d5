/*
 * copy.c: copies and memset. Where the bytes are on the host's side:
 *   inline         come with the call (COPY_IN) or go with the reply (COPY_OUT), at most FLYT_MAX_INLINE of them, by way of
 *                  staging memory
 *   lanes          the same bytes, beside the calls (lanes.c)
 *   host memory    that the client shares (COPY, COPY_WAITED, COPY_BOX): the device reads and writes them where they are
 * Addresses are checked against what the client owns when the call is received.
 */
#include "cpu/server/lanes.h"

#include <stdlib.h>
#include <string.h>

enum { COPY_MAX_SLICES = 65536 };

/* The bytes of a bulk argument; NULL: they come on a lane. */
static CUresult bulk_bytes(struct session *session, const flyt_bulk *bulk, const uint8_t **bytes, uint64_t *size)
{
    *bytes = NULL;
    *size = 0;
    if (bulk->kind == FLYT_BULK_LANE && session->lanes) {
        const flyt_on_lane *on_lane = &bulk->flyt_bulk_u.on_lane;
        if (!on_lane->transfer || !on_lane->size || on_lane->size > lanes_chunk())
            return CUDA_ERROR_INVALID_VALUE;
        *size = on_lane->size;
        return CUDA_SUCCESS;
    }
    if (bulk->kind != FLYT_BULK_INLINE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *bytes = (const uint8_t *)bulk->flyt_bulk_u.bytes.bytes_val;
    *size = bulk->flyt_bulk_u.bytes.bytes_len;
    return CUDA_SUCCESS;
}

/* From its first to its last byte. False: the box makes no sense. Extents are not zero. */
static bool box_span(const flyt_box *box, const flyt_extent *extent, uint64_t width, uint64_t *span)
{
    uint64_t rows, bytes;
    if (extent->height > 1 || extent->depth > 1) {
        if (box->pitch < width || (extent->depth > 1 && box->height < extent->height))
            return false;
        if (__builtin_mul_overflow(extent->depth - 1, box->height, &rows) ||
            __builtin_add_overflow(rows, extent->height - 1, &rows) ||
            __builtin_mul_overflow(rows, box->pitch, &bytes) || __builtin_add_overflow(bytes, width, span))
            return false;
        return true;
    }
    *span = width;
    return true;
}

static CUresult box_check(struct session *session, const flyt_box *box, const flyt_extent *extent)
{
    uint64_t span;
    if (!box_span(box, extent, extent->width, &span))
        return CUDA_ERROR_INVALID_VALUE;
    return memory_known(session, box->address, span) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Packed bytes of an extent; more than fits inline is refused. */
static bool extent_packed(const flyt_extent *extent, uint64_t *size)
{
    return !__builtin_mul_overflow(extent->width, extent->height, size) &&
           !__builtin_mul_overflow(*size, extent->depth, size) && *size <= FLYT_MAX_INLINE;
}

static bool extent_empty(const flyt_extent *extent) { return !extent->width || !extent->height || !extent->depth; }

/* ---- staging ---- */

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
        stream_mark(session, LIST_OBJECT(link, struct stream, holding));
    }
    stream_mark(session, mine);
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

/* A copy in has been issued from slot: it comes back when the stream has passed this call. */
static void copy_slot_used(struct session *session, struct call *call, struct slot *slot, bool scarce)
{
    slot->number = call->number;
    completion_slot(session, call->stream, slot);
    call->stream->issued = call->number;
    if (scarce)
        stream_mark(session, call->stream);
    else
        stream_holds(call->stream);
}

/* ---- to the device ---- */

/* First thing of a copy in: whatever becomes of it, what comes for it on a lane is accounted for. */
static bool copy_in_enter(struct session *session, struct call *call, uint32_t stream, const flyt_bulk *data)
{
    const flyt_on_lane *on_lane = data->kind == FLYT_BULK_LANE ? &data->flyt_bulk_u.on_lane : NULL;
    if (!stream_enter(session, call, stream)) {
        if (on_lane && on_lane->transfer)
            lanes_discard(session, on_lane->transfer, on_lane->size);
        return false;
    }
    call->transfer = on_lane ? on_lane->transfer : 0;
    call->transfer_size = on_lane ? on_lane->size : 0;
    return true;
}

/* The bytes in staging memory. CUDA_SUCCESS, OPERATION_LATER, or an error. */
static int copy_in_slot(struct session *session, struct call *call, const uint8_t *bytes, uint64_t size,
                        struct slot **slot, bool *scarce)
{
    if (!bytes) {
        if (!(*slot = lanes_claim(session, call->transfer, size, scarce)))
            return OPERATION_LATER;
        call->transfer = 0;
        return CUDA_SUCCESS;
    }
    CUresult r = copy_slot(session, call, size, slot, scarce);
    if (r == CUDA_SUCCESS && !*slot)
        return OPERATION_LATER;
    if (r == CUDA_SUCCESS)
        memcpy((*slot)->memory, bytes, size);
    return (int)r;
}

static int copy_in_issue(struct session *session, struct call *call)
{
    const copy_in_args *args = &call->args.copy_in;
    const uint8_t *bytes;
    uint64_t size;
    struct slot *slot;
    bool scarce;
    bulk_bytes(session, &args->data, &bytes, &size);
    if (!size) {
        call->stream->issued = call->number;
        return CUDA_SUCCESS;
    }
    int r = copy_in_slot(session, call, bytes, size, &slot, &scarce);
    if (r == OPERATION_LATER)
        return r;
    if (r == CUDA_SUCCESS) {
        r = (int)session->gpu->MemcpyHtoDAsync(args->to, slot->memory, size, call->stream->handle);
        copy_slot_used(session, call, slot, scarce);
    }
    call->stream->issued = call->number;
    return r;
}
static const struct operation copy_in_operation = { .issue = copy_in_issue, .numbered = true, .own_number = true };

void serve_copy_in(struct session *session, struct call *call)
{
    const copy_in_args *args = &call->args.copy_in;
    const uint8_t *bytes;
    uint64_t size;
    if (!copy_in_enter(session, call, args->stream, &args->data))
        return;
    CUresult r = bulk_bytes(session, &args->data, &bytes, &size);
    if (r == CUDA_SUCCESS && !memory_known(session, args->to, size))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        stream_refuse(session, call, r);
    else
        stream_submit(session, call, &copy_in_operation);
}

/* Describes one end of a box copy, on the device or in host memory. */
static void box_source(const struct session *session, CUDA_MEMCPY3D *copy, const flyt_box *box,
                       const flyt_extent *extent)
{
    bool host = host_memory_here(session, box->address);
    copy->srcMemoryType = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy->srcDevice = host ? 0 : box->address;
    copy->srcHost = host ? (const void *)(uintptr_t)box->address : NULL;
    copy->srcPitch = box->pitch < extent->width ? extent->width : box->pitch;
    copy->srcHeight = box->height < extent->height ? extent->height : box->height;
}

static void box_target(const struct session *session, CUDA_MEMCPY3D *copy, const flyt_box *box,
                       const flyt_extent *extent)
{
    bool host = host_memory_here(session, box->address);
    copy->dstMemoryType = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    copy->dstDevice = host ? 0 : box->address;
    copy->dstHost = host ? (void *)(uintptr_t)box->address : NULL;
    copy->dstPitch = box->pitch < extent->width ? extent->width : box->pitch;
    copy->dstHeight = box->height < extent->height ? extent->height : box->height;
}

static void box_extent(CUDA_MEMCPY3D *copy, const flyt_extent *extent)
{
    copy->WidthInBytes = extent->width;
    copy->Height = extent->height;
    copy->Depth = extent->depth;
}

static int copy_box_in_issue(struct session *session, struct call *call)
{
    const copy_box_in_args *args = &call->args.copy_box_in;
    const uint8_t *bytes;
    uint64_t size;
    struct slot *slot;
    bool scarce;
    bulk_bytes(session, &args->data, &bytes, &size);
    int r = size ? copy_in_slot(session, call, bytes, size, &slot, &scarce) : CUDA_SUCCESS;
    if (r == OPERATION_LATER)
        return r;
    if (r == CUDA_SUCCESS && size) {
        CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = slot->memory,
                               .srcPitch = args->extent.width, .srcHeight = args->extent.height };
        box_target(session, &copy, &args->to, &args->extent);
        box_extent(&copy, &args->extent);
        r = (int)session->gpu->Memcpy3DAsync(&copy, call->stream->handle);
        copy_slot_used(session, call, slot, scarce);
    }
    call->stream->issued = call->number;
    return r;
}
static const struct operation copy_box_in_operation = { .issue = copy_box_in_issue, .numbered = true,
                                                        .own_number = true };

void serve_copy_box_in(struct session *session, struct call *call)
{
    const copy_box_in_args *args = &call->args.copy_box_in;
    const uint8_t *bytes;
    uint64_t size, packed;
    if (!copy_in_enter(session, call, args->stream, &args->data))
        return;
    CUresult r = bulk_bytes(session, &args->data, &bytes, &size);
    if (r == CUDA_SUCCESS && (!extent_packed(&args->extent, &packed) || packed != size))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !extent_empty(&args->extent))
        r = box_check(session, &args->to, &args->extent);
    if (r != CUDA_SUCCESS)
        stream_refuse(session, call, r);
    else
        stream_submit(session, call, &copy_box_in_operation);
}

/* ---- from the device ---- */

struct copy_out_waiter {
    struct waiter waiter;
    struct stream *stream;
    struct slot *slot;
    uint64_t size;
    uint32_t xid;
    flyt_via via;
};

static void copy_out_finish(struct session *session, struct waiter *waiter)
{
    struct copy_out_waiter *out = (struct copy_out_waiter *)waiter;
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
    stream_drop(session, out->stream);
    free(out);
}

/* Issues the copy into a slot and arranges for the answer. copy: from the device, its host end filled in here. */
static int copy_out_start(struct session *session, struct call *call, uint64_t size, CUdeviceptr from,
                          CUDA_MEMCPY3D *box, const flyt_via *via)
{
    struct stream *stream = call->stream;
    struct slot *slot = NULL;
    bool scarce;
    if (via->lane && lanes_congested(session)) {
        call->wants = &session->congested;
        return OPERATION_LATER;
    }
    CUresult r = size ? copy_slot(session, call, size, &slot, &scarce) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && size && !slot)
        return OPERATION_LATER;
    struct copy_out_waiter *out = r == CUDA_SUCCESS ? calloc(1, sizeof *out) : NULL;
    if (!out && r == CUDA_SUCCESS)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && size) {
        if (box) {
            box->dstMemoryType = CU_MEMORYTYPE_HOST;
            box->dstHost = slot->memory;
            r = session->gpu->Memcpy3DAsync(box, stream->handle);
        } else {
            r = session->gpu->MemcpyDtoHAsync(slot->memory, from, size, stream->handle);
        }
    }
    stream->issued = call->number;
    if (r == CUDA_SUCCESS)
        r = stream_mark(session, stream);
    if (r != CUDA_SUCCESS) {
        if (slot) {
            /* Should the copy be under way after all, the slot must not be used again before it has ended. */
            slot->number = call->number;
            completion_slot(session, stream, slot);
            stream_holds(stream);
        }
        free(out);
        return (int)r;
    }
    *out = (struct copy_out_waiter){ .waiter = { .number = call->number, .speaks = true, .finish = copy_out_finish },
                                     .stream = stream, .slot = slot, .size = size, .xid = call->xid, .via = *via };
    stream_hold(stream);
    completion_wait(session, stream, &out->waiter);
    return CUDA_SUCCESS;
}

static bool via_known(struct session *session, const flyt_via *via)
{
    return !via->lane || (via->transfer && lanes_known(session, via->lane));
}

static int copy_out_issue(struct session *session, struct call *call)
{
    return copy_out_start(session, call, call->args.copy_out.size, call->args.copy_out.from, NULL,
                          &call->args.copy_out.via);
}
static const struct operation copy_out_operation = { .issue = copy_out_issue, .numbered = true, .own_number = true };

void serve_copy_out(struct session *session, struct call *call)
{
    const copy_out_args *args = &call->args.copy_out;
    if (!stream_enter(session, call, args->stream))
        return;
    if (args->size > FLYT_MAX_INLINE || !via_known(session, &args->via) ||
        !memory_known(session, args->from, args->size))
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
    else
        stream_submit(session, call, &copy_out_operation);
}

static int copy_box_out_issue(struct session *session, struct call *call)
{
    const copy_box_out_args *args = &call->args.copy_box_out;
    CUDA_MEMCPY3D copy = { .dstPitch = args->extent.width, .dstHeight = args->extent.height };
    uint64_t size;
    extent_packed(&args->extent, &size);
    box_source(session, &copy, &args->from, &args->extent);
    box_extent(&copy, &args->extent);
    return copy_out_start(session, call, size, 0, &copy, &args->via);
}
static const struct operation copy_box_out_operation = { .issue = copy_box_out_issue, .numbered = true,
                                                         .own_number = true };

void serve_copy_box_out(struct session *session, struct call *call)
{
    const copy_box_out_args *args = &call->args.copy_box_out;
    uint64_t size;
    if (!stream_enter(session, call, args->stream))
        return;
    CUresult r =
        extent_packed(&args->extent, &size) && via_known(session, &args->via) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !extent_empty(&args->extent))
        r = box_check(session, &args->from, &args->extent);
    if (r != CUDA_SUCCESS)
        stream_refuse(session, call, r);
    else
        stream_submit(session, call, &copy_box_out_operation);
}

/* ---- on the device, and between it and host memory that the client shares ---- */

/* Memory of two devices: the driver wants to know the contexts, since neither device may map the other's memory. */
static bool copy_crosses(struct session *session, uint64_t to, uint64_t from, CUcontext *to_context,
                         CUcontext *from_context)
{
    const struct context *target = memory_context(session, to), *source = memory_context(session, from);
    if (!target || !source || target->device == source->device)
        return false;
    *to_context = target->handle;
    *from_context = source->handle;
    return true;
}

static CUresult copy_line(struct session *session, const copy_args *args, CUstream stream)
{
    const struct gpu *gpu = session->gpu;
    bool to_host = host_memory_here(session, args->to), from_host = host_memory_here(session, args->from);
    void *target = (void *)(uintptr_t)args->to, *source = (void *)(uintptr_t)args->from;
    CUcontext to, from;
    if (!args->size)
        return CUDA_SUCCESS;
    if (to_host && from_host) {
        CUDA_MEMCPY3D copy = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = source,
                               .dstMemoryType = CU_MEMORYTYPE_HOST,
                               .dstHost = target, .WidthInBytes = args->size, .Height = 1, .Depth = 1 };
        return gpu->Memcpy3DAsync(&copy, stream);
    }
    if (to_host)
        return gpu->MemcpyDtoHAsync(target, args->from, args->size, stream);
    if (from_host)
        return gpu->MemcpyHtoDAsync(args->to, source, args->size, stream);
    if (copy_crosses(session, args->to, args->from, &to, &from) && gpu->MemcpyPeerAsync)
        return gpu->MemcpyPeerAsync(args->to, to, args->from, from, args->size, stream);
    return gpu->MemcpyDtoDAsync(args->to, args->from, args->size, stream);
}

/* The word is in the client's hands: it is written, never read. */
static void copy_mark_now(uint64_t mark)
{
    atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)mark, 1, memory_order_release);
}

struct copy_mark_waiter { struct waiter waiter; struct stream *stream; uint64_t mark; };

static void copy_mark_finish(struct session *session, struct waiter *waiter)
{
    struct copy_mark_waiter *out = (struct copy_mark_waiter *)waiter;
    copy_mark_now(out->mark);
    stream_drop(session, out->stream);
    free(out);
}

/* The copy has been issued: its mark follows it in the stream, by the device where it can. */
static CUresult copy_mark(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    if (session->gpu->StreamWriteValue32 &&
        session->gpu->StreamWriteValue32(stream->handle, call->args.copy.mark, 1, CU_STREAM_WRITE_VALUE_DEFAULT) ==
            CUDA_SUCCESS)
        return CUDA_SUCCESS;
    CUresult r = stream_mark(session, stream);
    struct copy_mark_waiter *out = r == CUDA_SUCCESS ? calloc(1, sizeof *out) : NULL;
    if (!out)
        return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
    *out = (struct copy_mark_waiter){ .waiter = { .number = call->number, .finish = copy_mark_finish },
                                      .stream = stream,
                                      .mark = call->args.copy.mark };
    stream_hold(stream);
    completion_wait(session, stream, &out->waiter);
    return CUDA_SUCCESS;
}

static int copy_issue(struct session *session, struct call *call)
{
    CUresult r = copy_line(session, &call->args.copy, call->stream->handle);
    call->stream->issued = call->number;
    if (call->args.copy.mark && r == CUDA_SUCCESS)
        r = copy_mark(session, call);
    else if (call->args.copy.mark)
        copy_mark_now(call->args.copy.mark);      /* nothing of it is under way */
    return (int)r;
}
static const struct operation copy_operation = { .issue = copy_issue, .numbered = true, .own_number = true };

static bool copy_known(struct session *session, const copy_args *args)
{
    return memory_known(session, args->to, args->size) && memory_known(session, args->from, args->size);
}

void serve_copy(struct session *session, struct call *call)
{
    const copy_args *args = &call->args.copy;
    if (!stream_enter(session, call, args->stream))
        return;
    bool markable = !args->mark || (args->mark % 4 == 0 && host_memory_known(session, args->mark, 4));
    if (markable && copy_known(session, args)) {
        stream_submit(session, call, &copy_operation);
        return;
    }
    if (markable && args->mark)
        copy_mark_now(args->mark);
    stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
}

struct copy_waiter { struct waiter waiter; struct stream *stream; uint32_t xid; };

static void copy_waited_finish(struct session *session, struct waiter *waiter)
{
    struct copy_waiter *out = (struct copy_waiter *)waiter;
    session_reply_plain(session, out->xid, waiter->result, true);
    stream_drop(session, out->stream);
    free(out);
}

static int copy_waited_issue(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    struct copy_waiter *out = calloc(1, sizeof *out);
    CUresult r = out ? copy_line(session, &call->args.copy, stream->handle) : CUDA_ERROR_OUT_OF_MEMORY;
    stream->issued = call->number;
    if (r == CUDA_SUCCESS)
        r = stream_mark(session, stream);
    if (r != CUDA_SUCCESS) {
        free(out);
        return (int)r;
    }
    *out = (struct copy_waiter){ .waiter = { .number = call->number, .speaks = true, .finish = copy_waited_finish },
                                 .stream = stream, .xid = call->xid };
    stream_hold(stream);
    completion_wait(session, stream, &out->waiter);
    return CUDA_SUCCESS;
}
static const struct operation copy_waited_operation = { .issue = copy_waited_issue, .numbered = true,
                                                        .own_number = true };

void serve_copy_waited(struct session *session, struct call *call)
{
    const copy_args *args = &call->args.copy;
    if (!stream_enter(session, call, args->stream))
        return;
    if (args->mark || !copy_known(session, args))
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
    else
        stream_submit(session, call, &copy_waited_operation);
}

static int copy_box_issue(struct session *session, struct call *call)
{
    const copy_box_args *args = &call->args.copy_box;
    CUDA_MEMCPY3D copy = { 0 };
    if (extent_empty(&args->extent))
        return CUDA_SUCCESS;
    box_source(session, &copy, &args->from, &args->extent);
    box_target(session, &copy, &args->to, &args->extent);
    box_extent(&copy, &args->extent);
    CUcontext to, from;
    if (copy_crosses(session, args->to.address, args->from.address, &to, &from) && session->gpu->Memcpy3DPeerAsync) {
        CUDA_MEMCPY3D_PEER peer = {
            .srcMemoryType = copy.srcMemoryType,
            .srcDevice = copy.srcDevice,
            .srcContext = from,
            .srcPitch = copy.srcPitch,
            .srcHeight = copy.srcHeight,
            .dstMemoryType = copy.dstMemoryType,
            .dstDevice = copy.dstDevice,
            .dstContext = to,
            .dstPitch = copy.dstPitch,
            .dstHeight = copy.dstHeight,
            .WidthInBytes = copy.WidthInBytes,
            .Height = copy.Height,
            .Depth = copy.Depth,
        };
        return (int)session->gpu->Memcpy3DPeerAsync(&peer, call->stream->handle);
    }
    return (int)session->gpu->Memcpy3DAsync(&copy, call->stream->handle);
}
static const struct operation copy_box_operation = { .issue = copy_box_issue, .numbered = true };

void serve_copy_box(struct session *session, struct call *call)
{
    const copy_box_args *args = &call->args.copy_box;
    if (!stream_enter(session, call, args->stream))
        return;
    CUresult r = CUDA_SUCCESS;
    if (!extent_empty(&args->extent)) {
        r = box_check(session, &args->from, &args->extent);
        if (r == CUDA_SUCCESS)
            r = box_check(session, &args->to, &args->extent);
    }
    if (r != CUDA_SUCCESS)
        stream_refuse(session, call, r);
    else
        stream_submit(session, call, &copy_box_operation);
}

/* ---- memset ---- */

static CUresult set_row(const struct gpu *gpu, const set_args *args, CUstream stream)
{
    uint64_t to = args->to.address, width = args->extent.width;
    switch (args->element) {
    case 1: return gpu->MemsetD8Async(to, (unsigned char)args->value, width, stream);
    case 2: return gpu->MemsetD16Async(to, (unsigned short)args->value, width, stream);
    default: return gpu->MemsetD32Async(to, args->value, width, stream);
    }
}

static CUresult set_rows(const struct gpu *gpu, const set_args *args, uint64_t to, uint64_t rows, CUstream stream)
{
    uint64_t width = args->extent.width, pitch = args->to.pitch;
    switch (args->element) {
    case 1: return gpu->MemsetD2D8Async(to, pitch, (unsigned char)args->value, width, rows, stream);
    case 2: return gpu->MemsetD2D16Async(to, pitch, (unsigned short)args->value, width, rows, stream);
    default: return gpu->MemsetD2D32Async(to, pitch, args->value, width, rows, stream);
    }
}

static int set_issue(struct session *session, struct call *call)
{
    const set_args *args = &call->args.set;
    const flyt_extent *extent = &args->extent;
    CUstream stream = call->stream->handle;
    if (extent_empty(extent))
        return CUDA_SUCCESS;
    if (extent->height == 1 && extent->depth == 1)
        return (int)set_row(session->gpu, args, stream);
    if (extent->depth == 1 || args->to.height == extent->height)      /* slices without a gap are rows */
        return (int)set_rows(session->gpu, args, args->to.address, extent->height * extent->depth, stream);
    CUresult r = CUDA_SUCCESS;
    for (uint64_t z = 0; z < extent->depth && r == CUDA_SUCCESS; z++)
        r = set_rows(session->gpu, args, args->to.address + z * args->to.height * args->to.pitch, extent->height,
                     stream);
    return (int)r;
}
static const struct operation set_operation = { .issue = set_issue, .numbered = true };

void serve_set(struct session *session, struct call *call)
{
    const set_args *args = &call->args.set;
    const flyt_extent *extent = &args->extent;
    uint64_t width, span;
    if (!stream_enter(session, call, args->stream))
        return;
    CUresult r = CUDA_SUCCESS;
    if (args->element != 1 && args->element != 2 && args->element != 4)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (extent->depth > COPY_MAX_SLICES && args->to.height != extent->height)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!extent_empty(extent) &&
             (__builtin_mul_overflow(extent->width, (uint64_t)args->element, &width) ||
              !box_span(&args->to, extent, width, &span) || !memory_known(session, args->to.address, span)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        stream_refuse(session, call, r);
    else
        stream_submit(session, call, &set_operation);
}
