/*
 * copy_calls.c: the calls of copies. On the wire they look as cpu_rpc_prot.x says; the encoders here stand in for
 * rpcgen's, which would want the bytes in one buffer.
 */
#include "copy_calls.h"

static bool_t xdr_rows(XDR *xdrs, const struct host_rows *r)
{
    bool dense =
        r->rows * r->slices == 1 || (r->pitch == r->width && (r->slices == 1 || r->slice_pitch == r->width * r->rows));
    size_t width = dense ? rows_size(r) : r->width, rows = dense ? 1 : r->rows, slices = dense ? 1 : r->slices;
    for (size_t z = 0; z < slices; z++)
        for (size_t y = 0; y < rows; y++) {
            char *at = (char *)r->address + z * r->slice_pitch + y * r->pitch;
            if (!(xdrs->x_op == XDR_ENCODE ? XDR_PUTBYTES(xdrs, at, (u_int)width)
                                           : XDR_GETBYTES(xdrs, at, (u_int)width)))
                return FALSE;
        }
    char padding[4] = { 0 };
    u_int pad = (u_int)(-rows_size(r) & 3);
    return !pad || (xdrs->x_op == XDR_ENCODE ? XDR_PUTBYTES(xdrs, padding, pad) : XDR_GETBYTES(xdrs, padding, pad));
}

/* ---- both sides within the device's reach ---- */

static copy_args line_args(const struct client_stream *s, const struct copy_span *span, uint64_t mark)
{
    return (copy_args){
        .stream = s->wire, .to = span->to.address, .from = span->from.address, .size = span->extent.width, .mark = mark
    };
}

static int send_box(struct client_stream *s, const struct copy_span *span)
{
    copy_box_args args = { .stream = s->wire,
                           .to = wire_box(&span->to),
                           .from = wire_box(&span->from),
                           .extent = wire_extent(&span->extent) };
    return stream_send(s, &(struct stream_call){ FLYT_COPY_BOX, (xdrproc_t)xdr_copy_box_args, .args = &args }, NULL);
}

/* The call of a box has no mark, and no answer: an empty line behind it has. */
static copy_args behind_box(const struct client_stream *s, uint64_t mark)
{
    return (copy_args){ .stream = s->wire, .mark = mark };
}

int copy_call_reach(struct client_stream *s, const struct copy_span *span, uint64_t mark)
{
    bool line = copy_is_line(span);
    int code = line ? CORE_OK : send_box(s, span);
    if (!line && !mark)
        return code;
    copy_args args = line ? line_args(s, span, mark) : behind_box(s, mark);
    int marked = stream_send(s, &(struct stream_call){ FLYT_COPY, (xdrproc_t)xdr_copy_args, .args = &args }, NULL);
    return code ? code : marked;
}

void copy_call_waited(struct copy_waited *call, struct client_stream *s, const struct copy_span *span,
                      void (*arrived)(struct wire_call *), struct submitted *at)
{
    bool line = copy_is_line(span);
    if (!line)
        send_box(s, span); /* what fails is latched, or the next call finds it */
    call->args = line ? line_args(s, span, 0) : behind_box(s, 0);
    call->result = (plain_result){ 0 };
    wire_prepare(&call->wire, FLYT_COPY_WAITED, (xdrproc_t)xdr_copy_args, &call->args, (xdrproc_t)xdr_plain_result,
                 &call->result);
    client_stream_submit(s, &call->wire, arrived, at);
}

/* ---- to the device ---- */

/* Encoded as copy_in_args or copy_box_in_args. */
struct in_args {
    flyt_id stream;
    const struct copy_span *span;
    const flyt_on_lane *on_lane;
};

static bool_t xdr_in(XDR *xdrs, struct in_args *args)
{
    const struct copy_span *span = args->span;
    flyt_box to = wire_box(&span->to);
    flyt_extent extent = wire_extent(&span->extent);
    if (!xdr_flyt_id(xdrs, &args->stream))
        return FALSE;
    if (copy_is_line(span) ? !xdr_flyt_addr(xdrs, &to.address)
                           : !xdr_flyt_box(xdrs, &to) || !xdr_flyt_extent(xdrs, &extent))
        return FALSE;
    if (args->on_lane) {
        flyt_bulk data = { .kind = FLYT_BULK_LANE, .flyt_bulk_u = { .on_lane = *args->on_lane } };
        return xdr_flyt_bulk(xdrs, &data);
    }
    flyt_bulk_kind kind = FLYT_BULK_INLINE;
    u_int size = (u_int)copy_bytes(span);
    const struct host_rows rows = rows_of(&span->from, &span->extent);
    return xdr_flyt_bulk_kind(xdrs, &kind) && xdr_u_int(xdrs, &size) && xdr_rows(xdrs, &rows);
}

int copy_call_in(struct client_stream *s, const struct copy_span *span, const flyt_on_lane *on_lane)
{
    struct in_args args = { .stream = s->wire, .span = span, .on_lane = on_lane };
    return stream_send(s,
                       &(struct stream_call){ copy_is_line(span) ? FLYT_COPY_IN : FLYT_COPY_BOX_IN, (xdrproc_t)xdr_in,
                                              &args, .bytes = on_lane ? 0 : copy_bytes(span) },
                       NULL);
}

/* ---- from the device ---- */

/* Decodes a copy_out_result into `to`. A successful answer has exactly the bytes that were asked for, a failed one
   none; anything else is refused before a byte of the program's memory is written. */
static bool_t xdr_out_bytes(XDR *xdrs, struct copy_out_bytes *result)
{
    flyt_bulk_kind kind = FLYT_BULK_INLINE;
    /* encoded: to be measured */
    u_int size = xdrs->x_op == XDR_ENCODE && !result->head.result ? (u_int)rows_size(&result->to) : 0;
    if (!xdr_flyt_head(xdrs, &result->head))
        return FALSE;
    if (xdrs->x_op == XDR_FREE)
        return TRUE;
    if (result->on_lane)
        kind = FLYT_BULK_LANE;
    if (!xdr_flyt_bulk_kind(xdrs, &kind))
        return FALSE;
    if (kind == FLYT_BULK_LANE && result->via.lane) {
        flyt_on_lane on_lane = { result->via.transfer, rows_size(&result->to) };
        result->on_lane = xdr_flyt_on_lane(xdrs, &on_lane) && on_lane.transfer == result->via.transfer &&
                          on_lane.size == rows_size(&result->to);
        return result->on_lane && !result->head.result;
    }
    if (kind != FLYT_BULK_INLINE || !xdr_u_int(xdrs, &size))
        return FALSE;
    if (result->head.result)
        return size == 0;
    return size == rows_size(&result->to) && xdr_rows(xdrs, &result->to);
}

void copy_call_out(struct copy_answered *call, struct client_stream *s, const struct copy_span *span,
                   const struct host_rows *to, flyt_via via, void (*arrived)(struct wire_call *), struct submitted *at)
{
    bool line = copy_is_line(span);
    if (line)
        call->args.line =
            (copy_out_args){ .stream = s->wire, .from = span->from.address, .size = span->extent.width, .via = via };
    else
        call->args.box = (copy_box_out_args){
            .stream = s->wire, .from = wire_box(&span->from), .extent = wire_extent(&span->extent), .via = via
        };
    call->result = (struct copy_out_bytes){ .to = *to, .via = via };
    wire_prepare(&call->wire, line ? FLYT_COPY_OUT : FLYT_COPY_BOX_OUT,
                 line ? (xdrproc_t)xdr_copy_out_args : (xdrproc_t)xdr_copy_box_out_args, &call->args,
                 (xdrproc_t)xdr_out_bytes, &call->result);
    client_stream_submit(s, &call->wire, arrived, at);
}

void copy_answer_free(struct copy_answered *call) { xdr_free((xdrproc_t)xdr_out_bytes, &call->result); }
