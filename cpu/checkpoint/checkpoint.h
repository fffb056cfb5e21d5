/*
 * checkpoint.h: the file that holds what a session has on its GPU: for a program that is suspended, and for a
 * checkpoint. It is written and read from the beginning to the end, so it can go through a pipe.
 *
 *   "FLYTCKP1", then frames. A frame is a head of CHECKPOINT_HEAD bytes, and its data:
 *     u32 type, stored (bytes of data), size (bytes when unpacked), packing, kind, 0; u64 object, offset, XXH3
 *   Numbers are little-endian. XXH3 (64 bits) is that of the data, its seed is that of the head before it.
 *     FACTS   the first, once: lines "name=value"
 *     SEAL    the second, once, in a file that is encrypted: how its key is kept (seal.h)
 *     KIND    data: the name of a kind of objects; kind: its number in this file; object: how many there are
 *     PART    a part of what an object holds: at most CHECKPOINT_PART_MOST bytes
 *     KEPT    so many bytes of an object are those of the file before (the fact "base" is its fact "id"): no data
 *     END     the last, once: object: how many PART and KEPT; offset: how many bytes they stand for; data: BLAKE2b-256
 *             of the file's first eight bytes and the heads of all frames before this one, or nothing. Each head holds
 *             the hash of its data. (To hash all bytes once more, in their order, would take as long as packing them.)
 *
 * Behind SEAL each frame's data ends with a tag of CHECKPOINT_TAG bytes (AES-256-GCM). The data of PART are encrypted
 * after they were packed; those of the other frames are not secret. The tag also stands for the frame's head, its
 * number in the file, and the hash of everything up to SEAL. So a frame that is changed, left out, swapped or repeated,
 * or that comes from another file, is noticed by whoever has the key.
 *
 * A reader trusts nothing: whatever the file holds, it ends with an error and a reason.
 *
 * writer.c decides what stands in each frame, pipe.c gives it to threads, pack.c packs and encrypts it there, out.c
 * writes it; frame.c: heads and checksums; seal.c, cipher.c: keys and AES; reader.c; chain.c: one file of a whole one
 * and its changes; file.c: the file's name.
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
    CHECKPOINT_WHY_SIZE = 256,
    CHECKPOINT_KEY = 32,
    CHECKPOINT_KEY_ID = 8,
    CHECKPOINT_TAG = 16,
    CHECKPOINT_WRAPPED = 72,               /* bytes of SEAL */
    CHECKPOINT_ID_TEXT = 33                /* a file's id, as text with its end */
};
#define CHECKPOINT_MAGIC "FLYTCKP1"

enum checkpoint_type {
    CHECKPOINT_FACTS = 1,
    CHECKPOINT_KIND = 2,
    CHECKPOINT_PART = 3,
    CHECKPOINT_END = 4,
    CHECKPOINT_SEAL = 5,
    CHECKPOINT_KEPT = 6
};

struct checkpoint_frame {
    enum checkpoint_type type;
    uint32_t kind, size;                   /* size: of data */
    uint64_t object, offset;
    const void *data;                      /* the reader's, until the next frame; NULL: of KEPT, and of a PART that the
                                              reader has no key for */
    uint64_t number, position;             /* of the frame in the file, and its first byte's: filled in by the reader */
};

/* ---- keys ---- */

/* The key of one file, which its frames are encrypted with, and how SEAL keeps it. */
struct checkpoint_seal { uint8_t key[CHECKPOINT_KEY], wrapped[CHECKPOINT_WRAPPED]; };

/* Makes a new key. With the key `machine` the file can be read, too; NULL: with the seal only. False: no random
   bytes. */
bool checkpoint_seal_make(const uint8_t machine[CHECKPOINT_KEY], struct checkpoint_seal *);
/* A machine's key, from its text: 64 hexadecimal digits. False: it is none. */
bool checkpoint_key_parse(const void *text, size_t size, uint8_t machine[CHECKPOINT_KEY]);
/* What names the key of the machine: it says nothing about the key. */
void checkpoint_key_id(const uint8_t machine[CHECKPOINT_KEY], uint8_t id[CHECKPOINT_KEY_ID]);
/* That of the key that a file needs: the data of its SEAL. False: the key is not kept in the file. */
bool checkpoint_seal_key_id(const void *wrapped, uint8_t id[CHECKPOINT_KEY_ID]);
/* Leaves nothing of a key in memory. */
void checkpoint_key_wipe(void *key, size_t size);
/* A new name for a file: its fact "id". False: no random bytes. */
bool checkpoint_id_make(char id[CHECKPOINT_ID_TEXT]);

/* ---- writing ---- */

struct checkpoint_writer;

/* hashed: a file that is kept: END holds a hash of all heads, and the disk gets the bytes as they come; XXH3 of each
   frame is always there. seal: NULL: the file is not encrypted. From the first part on threads pack and write, with up
   to 2 MiB of memory for each of some frames. NULL: no memory. */
struct checkpoint_writer *checkpoint_writer_new(int fd, bool hashed, const struct checkpoint_seal *seal);
/* 0, or -errno: -ENOSPC where the disk is full; it may be that of an earlier frame. After an error every further call
   gives it. After END everything is in the file, and no thread is left. The data are the caller's again at once. */
int  checkpoint_write(struct checkpoint_writer *, const struct checkpoint_frame *);
/* As checkpoint_write, for a PART whose data begin at *buffer: CHECKPOINT_PART_MOST bytes from malloc, which are the
   writer's from here on. *buffer becomes another one of this size. After an error it may be the same. */
int  checkpoint_write_swap(struct checkpoint_writer *, const struct checkpoint_frame *, uint8_t **buffer);
/* A PART as it is stored, but not encrypted. */
struct checkpoint_packed { uint32_t packing, stored; const void *data; };
/* As checkpoint_write, of a PART that checkpoint_read_packed has read, with frame->size bytes when unpacked. */
int  checkpoint_write_packed(struct checkpoint_writer *, const struct checkpoint_frame *frame,
                             const struct checkpoint_packed *);
/* Bytes of the parts that were given, and bytes of the file so far. */
uint64_t checkpoint_written(const struct checkpoint_writer *, uint64_t *file_bytes);
void checkpoint_writer_free(struct checkpoint_writer *);

/* ---- reading ---- */

struct checkpoint_reader;

/* Reads from where fd stands. NULL: no memory. */
struct checkpoint_reader *checkpoint_reader_new(int fd);
/* Before the first frame: reads from the beginning of the file, which can be sought, wherever fd stands, and leaves it
   there: so several readers may use one descriptor. */
void checkpoint_reader_places(struct checkpoint_reader *);
/* Before the first frame. The machine's key, or that of the file itself. Without one, an encrypted file is read as far
   as that is possible. */
void checkpoint_reader_machine_key(struct checkpoint_reader *, const uint8_t machine[CHECKPOINT_KEY]);
void checkpoint_reader_file_key(struct checkpoint_reader *, const uint8_t key[CHECKPOINT_KEY]);
/* 1: *frame, that of END is the last. -EIO, -EPROTO or another -errno: why not, as a sentence without a full stop in
   `why` (CHECKPOINT_WHY_SIZE). In a good file FACTS is the first frame. */
int  checkpoint_read(struct checkpoint_reader *, struct checkpoint_frame *, char *why);
/* As checkpoint_read, after checkpoint_reader_places; but the data of a PART are neither read nor checked, and are
   NULL. */
int  checkpoint_read_places(struct checkpoint_reader *, struct checkpoint_frame *, char *why);
/* Reads a PART once more, of which *frame has number and position: the file can be sought. Then checkpoint_read gives
   no more frames. Otherwise as checkpoint_read. */
int  checkpoint_read_again(struct checkpoint_reader *, struct checkpoint_frame *frame, char *why);
/* As checkpoint_read_again, but the data are not unpacked: *packed has them, until the next frame. The reader has the
   key of the file, if that is encrypted. */
int  checkpoint_read_packed(struct checkpoint_reader *, struct checkpoint_frame *frame,
                            struct checkpoint_packed *packed, char *why);
/* Another reader of the file, for another thread, which can checkpoint_read_again alone. The first one has given END.
   NULL: no memory. */
struct checkpoint_reader *checkpoint_reader_twin(const struct checkpoint_reader *);
void checkpoint_reader_free(struct checkpoint_reader *);

/* The value of a line of FACTS: copied to `value` (size bytes, the rest is cut off). False: there is none. */
bool checkpoint_fact(const struct checkpoint_frame *facts, const char *name, char *value, size_t size);

#endif
