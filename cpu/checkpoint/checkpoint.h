/*
 * checkpoint.h: the file that holds what a session has on its GPU: for a program that is suspended, and for a
 * checkpoint. It is written and read from the beginning to the end, so it can go through a pipe.
 *
 *   "FLYTCKP1", then frames. A frame is a head of CHECKPOINT_HEAD bytes, and its data:
 *     u32 type, stored (bytes of data), size (bytes when unpacked), packing, kind, 0; u64 object, offset, XXH3
 *   Numbers are little-endian. XXH3 (64 bits) is that of the data, its seed is that of the head before it.
 *     FACTS   the first, once: lines "name=value"
 *     KIND    data: the name of a kind of objects; kind: its number in this file; object: how many there are
 *     PART    a part of what an object holds: at most CHECKPOINT_PART_MOST bytes
 *     END     the last, once: object: how many parts; offset: how many bytes they have; data: BLAKE2b-256 of all before
 *             this frame, or nothing
 *
 * A reader trusts nothing: whatever the file holds, it ends with an error and a reason.
 */
#ifndef FLYT_CHECKPOINT_H
#define FLYT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHECKPOINT_VERSION = 1,
    CHECKPOINT_HEAD = 48,
    CHECKPOINT_PART_MOST = 1 << 20,
    CHECKPOINT_TEXT_MOST = 4096,           /* of FACTS and of KIND */
    CHECKPOINT_KINDS_MOST = 256,
    CHECKPOINT_WHY_SIZE = 256
};
#define CHECKPOINT_MAGIC "FLYTCKP1"

enum checkpoint_type {
    CHECKPOINT_FACTS = 1,
    CHECKPOINT_KIND = 2,
    CHECKPOINT_PART = 3,
    CHECKPOINT_END = 4
};

struct checkpoint_frame {
    enum checkpoint_type type;
    uint32_t kind, size;                   /* size: of data */
    uint64_t object, offset;
    const void *data;                      /* the reader's, until the next frame */
};

/* ---- writing ---- */

struct checkpoint_writer;

/* hashed: END holds BLAKE2b of everything; XXH3 of each frame is always there. NULL: no memory. */
struct checkpoint_writer *checkpoint_writer_new(int fd, bool hashed);
/* 0, or -errno: -ENOSPC where the disk is full. After an error every further call gives it. */
int  checkpoint_write(struct checkpoint_writer *, const struct checkpoint_frame *);
/* What has been written so far: bytes of parts, and bytes of the file. */
uint64_t checkpoint_written(const struct checkpoint_writer *, uint64_t *file_bytes);
void checkpoint_writer_free(struct checkpoint_writer *);

/* ---- reading ---- */

struct checkpoint_reader;

/* Reads from where fd stands. NULL: no memory. */
struct checkpoint_reader *checkpoint_reader_new(int fd);
/* 1: *frame, that of END is the last. -EIO, -EPROTO or another -errno: why not, as a sentence without a full stop in
   `why` (CHECKPOINT_WHY_SIZE). In a good file FACTS is the first frame. */
int  checkpoint_read(struct checkpoint_reader *, struct checkpoint_frame *, char *why);
void checkpoint_reader_free(struct checkpoint_reader *);

/* The value of a line of FACTS: copied to `value` (size bytes, the rest is cut off). False: there is none. */
bool checkpoint_fact(const struct checkpoint_frame *facts, const char *name, char *value, size_t size);

#endif
