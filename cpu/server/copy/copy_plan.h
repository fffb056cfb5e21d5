/*
 * copy_plan.h: what a copy is, whatever call asked for it: two sides and an extent (copy_plan.c), to be carried out by
 * copy.c. A line is a box with one row.
 */
#ifndef FLYT_SERVER_COPY_PLAN_H
#define FLYT_SERVER_COPY_PLAN_H

#include "cpu/server/session.h"

/* One side of a copy. Packed: rows without gaps in the server's staging memory, which are the client's bytes. */
struct server_copy_side {
    bool packed;
    bool host;                            /* memory of this process, not of the device */
    CUarray array;                        /* not NULL: its bytes from x, y and z on; no address and no pitch */
    uint64_t x, y, z;
    uint64_t address;
    uint64_t pitch, height;               /* bytes from row to row, rows from slice to slice */
};

struct server_copy {
    struct server_copy_side to, from;
    flyt_extent extent;
};

/* The client's box, or line. Pitch and height say nothing where there is one row, or one slice. */
struct server_copy_side copy_box(struct session *, const flyt_box *);
struct server_copy_side copy_line(struct session *, uint64_t address);
/* Which memory it is comes with copy_at. */
struct server_copy_side copy_packed(void);
flyt_extent copy_row(uint64_t bytes);
struct server_copy_side copy_at(const void *memory, const flyt_extent *);

bool copy_empty(const flyt_extent *);
uint64_t copy_bytes(const flyt_extent *);                         /* of what copy_check has allowed to be packed */
/* From its first to its last byte, for rows of `width` bytes. False: the box makes no sense. Extents are not zero. */
bool copy_span(uint64_t pitch, uint64_t height, const flyt_extent *, uint64_t width, uint64_t *span);
/* 1: it makes no sense, names memory that the client does not have, or packs more than
   FLYT_MAX_INLINE. Under session.lock. */
CUresult copy_check(struct session *, const struct server_copy *);
/* As copy_check, but a packed side has at most so many bytes. */
CUresult copy_check_within(struct session *, const struct server_copy *, uint64_t most);
/* Gives the copy to the driver. Packed sides have their memory by now, and extents are not zero. */
CUresult copy_start(struct session *, const struct server_copy *, CUstream);

#endif
