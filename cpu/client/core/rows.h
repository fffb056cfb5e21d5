/*
 * rows.h: copies encoded from and decoded into the program's own memory (xdr_copy.c).
 */
#ifndef FLYT_CLIENT_CORE_ROWS_H
#define FLYT_CLIENT_CORE_ROWS_H

#include "core.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

/* Host side of a chunk: rows of a pitched box, or one piece (rows and slices 1). */
struct host_rows { uint8_t *address; size_t width, rows, slices, pitch, slice_pitch; };
struct chunk_in { flyt_id stream; flyt_box to; flyt_extent extent; struct host_rows from; };
struct chunk_out_result {
    flyt_head head;                   /* first: see wire_call */
    struct host_rows to;
    flyt_via via;                     /* as the call said */
    bool on_lane;                     /* the bytes come there (lanes.h) */
};
bool_t xdr_chunk_in(XDR *, struct chunk_in *);              /* as copy_box_in_args */
bool_t xdr_chunk_out_result(XDR *, struct chunk_out_result *);      /* as copy_out_result, into `to` */

void rows_pack(void *to, const struct host_rows *from);     /* the rows without gaps, and back */
void rows_unpack(const struct host_rows *to, const void *from);

/* Cuts a box into chunks of at most `most` bytes, packed. Start with a zeroed cursor. */
struct box_cursor { size_t slice, row, column; };
bool box_next(const struct core_extent *, struct box_cursor *, size_t most, size_t origin[3],
              struct core_extent *chunk);
/* 0, or 1: pitch or height smaller than the extent, or the end overflows. *bytes: from the first to the last byte. */
int  box_check(const struct core_box *, const struct core_extent *, uint64_t *bytes);
uint64_t box_offset(const struct core_box *, const size_t origin[3]);

#endif
