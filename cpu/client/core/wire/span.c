/* span.c: the shape of a copy, cutting it into parts, and the rows of the program's memory. */
#include "span.h"

#include <string.h>

#include "cpu/client/core/api_copy.h"
#include "cpu/common/past_cache.h"

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- cutting ---- */

struct copy_cut copy_cut_begin(const struct copy_span *whole)
{
    return (struct copy_cut){ .whole = *whole, .bytes = copy_bytes(whole) };
}

static struct core_box moved(const struct core_box *box, const struct copy_cut *at)
{
    return (struct core_box){ box->address + (at->slice * box->height + at->row) * box->pitch + at->column, box->pitch,
                              box->height };
}

bool copy_cut_next(struct copy_cut *cut, size_t most, struct copy_span *part)
{
    const struct core_extent *e = &cut->whole.extent;
    struct core_extent *of_part = &part->extent;
    if (!cut->bytes)
        return false;
    *part = (struct copy_span){ moved(&cut->whole.to, cut), moved(&cut->whole.from, cut), { e->width, 1, 1 } };
    size_t rows = most / e->width;
    if (!rows || cut->column) {
        of_part->width = smaller(e->width - cut->column, most);
    } else if (rows < e->height || cut->row) {
        of_part->height = smaller(e->height - cut->row, rows);
    } else {
        of_part->height = e->height;
        of_part->depth = smaller(e->depth - cut->slice, rows / e->height);
    }
    cut->bytes -= copy_bytes(part);
    cut->column += of_part->width;
    if (cut->column < e->width)
        return true;
    cut->column = 0;
    cut->row += of_part->height;
    if (cut->row < e->height)
        return true;
    cut->row = 0;
    cut->slice += of_part->depth;
    return true;
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

/* ---- rows of the program's memory ---- */

struct host_rows rows_of(const struct core_box *box, const struct core_extent *e)
{
    return (struct host_rows){ .address = (uint8_t *)(uintptr_t)box->address,
                               .width = e->width,
                               .rows = e->height,
                               .slices = e->depth,
                               .pitch = box->pitch,
                               .slice_pitch = box->pitch * box->height };
}

size_t rows_size(const struct host_rows *r) { return r->width * r->rows * r->slices; }

void rows_pack(void *to, const struct host_rows *from)
{
    uint8_t *at = to;
    for (size_t z = 0; z < from->slices; z++)
        for (size_t y = 0; y < from->rows; y++, at += from->width)
            memcpy(at, from->address + z * from->slice_pitch + y * from->pitch, from->width);
}

void rows_unpack(const struct host_rows *to, const void *from, size_t whole)
{
    const uint8_t *at = from;
    bool past_cache = whole >= PAST_CACHE_LEAST;
    for (size_t z = 0; z < to->slices; z++)
        for (size_t y = 0; y < to->rows; y++, at += to->width) {
            uint8_t *row = to->address + z * to->slice_pitch + y * to->pitch;
            if (past_cache)
                past_cache_copy(row, at, to->width);
            else
                memcpy(row, at, to->width);           /* rows may be short: no call but this */
        }
}

int rows_vector(const struct host_rows *r, size_t at, size_t size, struct iovec *vector, int most)
{
    int count = 0;
    while (size > 0 && count < most) {
        size_t row = at / r->width, column = at % r->width, part = smaller(r->width - column, size);
        vector[count++] =
            (struct iovec){ r->address + row / r->rows * r->slice_pitch + row % r->rows * r->pitch + column, part };
        at += part;
        size -= part;
    }
    return count;
}
