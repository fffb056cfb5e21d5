/*
 * xdr_copy.c: the bytes of box copies are encoded from, and those of copies from the device decoded into, the
 * program's own memory. The layout on the wire is that of copy_box_in_args and copy_out_result; these functions
 * stand in for rpcgen's, which would want the rows packed in one buffer.
 */
#include <string.h>

#include "rows.h"

static size_t rows_bytes(const struct host_rows *r)
{
    return r->width * r->rows * r->slices;
}

static bool_t xdr_rows(XDR *xdrs, struct host_rows *r)
{
    bool dense =
        r->rows * r->slices == 1 || (r->pitch == r->width && (r->slices == 1 || r->slice_pitch == r->width * r->rows));
    size_t width = dense ? rows_bytes(r) : r->width, rows = dense ? 1 : r->rows, slices = dense ? 1 : r->slices;
    for (size_t z = 0; z < slices; z++)
        for (size_t y = 0; y < rows; y++) {
            char *at = (char *)r->address + z * r->slice_pitch + y * r->pitch;
            if (!(xdrs->x_op == XDR_ENCODE ? XDR_PUTBYTES(xdrs, at, (u_int)width)
                                           : XDR_GETBYTES(xdrs, at, (u_int)width)))
                return FALSE;
        }
    char padding[4] = { 0 };
    u_int pad = (u_int)(-rows_bytes(r) & 3);
    return !pad || (xdrs->x_op == XDR_ENCODE ? XDR_PUTBYTES(xdrs, padding, pad) : XDR_GETBYTES(xdrs, padding, pad));
}

bool_t xdr_chunk_in(XDR *xdrs, struct chunk_in *chunk)
{
    flyt_bulk_kind kind = FLYT_BULK_INLINE;
    u_int size = (u_int)rows_bytes(&chunk->from);
    return xdr_flyt_id(xdrs, &chunk->stream) && xdr_flyt_box(xdrs, &chunk->to) && xdr_flyt_extent(xdrs, &chunk->extent)
           && xdr_flyt_bulk_kind(xdrs, &kind) && xdr_u_int(xdrs, &size) && xdr_rows(xdrs, &chunk->from);
}

/* A successful answer has exactly the bytes that were asked for, a failed one none; anything else is refused
   before a byte of the program's memory is written. */
bool_t xdr_chunk_out_result(XDR *xdrs, struct chunk_out_result *result)
{
    flyt_bulk_kind kind = FLYT_BULK_INLINE;
    /* encoded: to be measured */
    u_int size = xdrs->x_op == XDR_ENCODE && !result->head.result ? (u_int)rows_bytes(&result->to) : 0;
    if (!xdr_flyt_head(xdrs, &result->head))
        return FALSE;
    if (xdrs->x_op == XDR_FREE)
        return TRUE;
    if (result->on_lane)
        kind = FLYT_BULK_LANE;
    if (!xdr_flyt_bulk_kind(xdrs, &kind))
        return FALSE;
    if (kind == FLYT_BULK_LANE && result->via.lane) {
        flyt_on_lane on_lane = { result->via.transfer, rows_bytes(&result->to) };
        result->on_lane = xdr_flyt_on_lane(xdrs, &on_lane) && on_lane.transfer == result->via.transfer &&
                          on_lane.size == rows_bytes(&result->to);
        return result->on_lane && !result->head.result;
    }
    if (kind != FLYT_BULK_INLINE || !xdr_u_int(xdrs, &size))
        return FALSE;
    if (result->head.result)
        return size == 0;
    return size == rows_bytes(&result->to) && xdr_rows(xdrs, &result->to);
}

/* ---- boxes ---- */

void rows_pack(void *to, const struct host_rows *from)
{
    uint8_t *at = to;
    for (size_t z = 0; z < from->slices; z++)
        for (size_t y = 0; y < from->rows; y++, at += from->width)
            memcpy(at, from->address + z * from->slice_pitch + y * from->pitch, from->width);
}

void rows_unpack(const struct host_rows *to, const void *from)
{
    const uint8_t *at = from;
    for (size_t z = 0; z < to->slices; z++)
        for (size_t y = 0; y < to->rows; y++, at += to->width)
            memcpy(to->address + z * to->slice_pitch + y * to->pitch, at, to->width);
}

int box_check(const struct core_box *box, const struct core_extent *e, uint64_t *bytes)
{
    uint64_t rows, slices, end;
    if ((e->height > 1 || e->depth > 1) && box->pitch < e->width)
        return CORE_INVALID_VALUE;
    if (e->depth > 1 && box->height < e->height)
        return CORE_INVALID_VALUE;
    if (__builtin_mul_overflow(box->height, e->depth - 1, &slices) ||
        __builtin_add_overflow(slices, e->height - 1, &rows) || __builtin_mul_overflow(rows, box->pitch, bytes) ||
        __builtin_add_overflow(*bytes, e->width, bytes) || __builtin_add_overflow(box->address, *bytes, &end))
        return CORE_INVALID_VALUE;
    return CORE_OK;
}

uint64_t box_offset(const struct core_box *box, const size_t origin[3])
{
    return (origin[2] * box->height + origin[1]) * box->pitch + origin[0];
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Whole slices if they fit a chunk, else whole rows, else pieces of rows. */
bool box_next(const struct core_extent *e, struct box_cursor *at, size_t most, size_t origin[3],
              struct core_extent *chunk)
{
    if (at->slice == e->depth)
        return false;
    origin[0] = at->column;
    origin[1] = at->row;
    origin[2] = at->slice;
    *chunk = (struct core_extent){ e->width, 1, 1 };
    if (e->width > most) {
        chunk->width = smaller(e->width - at->column, most);
        at->column += chunk->width;
        if (at->column < e->width)
            return true;
        at->column = 0;
    } else {
        size_t rows = most / e->width;
        chunk->height = smaller(e->height - at->row, rows);
        if (rows >= e->height) {
            chunk->depth = smaller(e->depth - at->slice, rows / e->height);
            at->slice += chunk->depth;
            return true;
        }
    }
    at->row += chunk->height;
    if (at->row == e->height) {
        at->row = 0;
        at->slice++;
    }
    return true;
}
