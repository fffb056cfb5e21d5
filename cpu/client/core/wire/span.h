/*
 * span.h: the shape of a copy, and its parts (span.c); the program's side of a part (rows).
 */
#ifndef FLYT_CLIENT_CORE_SPAN_H
#define FLYT_CLIENT_CORE_SPAN_H

#include <sys/uio.h>

#include "cpu/client/core/api_copy.h"

/* A copy of any shape: extent.height * extent.depth rows of extent.width bytes on both sides. A line is a box with one
   row; the pitches and heights of its sides say nothing. */
struct copy_span { struct core_box to, from; struct core_extent extent; };

static inline size_t copy_bytes(const struct copy_span *s)
{
    return s->extent.width * s->extent.height * s->extent.depth;
}

static inline bool copy_is_line(const struct copy_span *s)
{
    return s->extent.height == 1 && s->extent.depth == 1;
}

/* A copy that is cut into parts, in the order of memory: the parts before slice, row and column have been cut off. */
struct copy_cut { struct copy_span whole; size_t slice, row, column, bytes; };      /* bytes: what is left */

struct copy_cut copy_cut_begin(const struct copy_span *);
/* Cuts off a part of at most `most` bytes: whole slices if they fit, else whole rows, else a piece of a row. `most` may
   differ from part to part. False: nothing is left. */
bool copy_cut_next(struct copy_cut *, size_t most, struct copy_span *part);

/* 0, or 1: pitch or height smaller than the extent, or the end overflows. *bytes: from the first to the last byte. */
int  box_check(const struct core_box *, const struct core_extent *, uint64_t *bytes);

/* The program's side of a part: rows of a pitched box, or one piece (rows and slices 1). */
struct host_rows { uint8_t *address; size_t width, rows, slices, pitch, slice_pitch; };

struct host_rows rows_of(const struct core_box *, const struct core_extent *);
size_t rows_size(const struct host_rows *);
void   rows_pack(void *to, const struct host_rows *from);           /* the rows without gaps, and back */
/* whole: the bytes of the copy that this is a part of */
void   rows_unpack(const struct host_rows *to, const void *from, size_t whole);
/* The pieces of at most `size` bytes, from byte `at` on, at most `most` of them; returns how many. */
int    rows_vector(const struct host_rows *, size_t at, size_t size, struct iovec *, int most);

#endif
