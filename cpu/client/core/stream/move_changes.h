/*
 * move_changes.h: what the last checkpoint of this process holds, as a hash (XXH3, 128 bits) of each MOVE_CHUNK bytes
 * of each part. The next one can leave out what has the same hash. Where the server says which memory was written
 * (move_written.h), the other memory is not hashed again. Else all bytes are hashed each time, here or at the server
 * (FINGERPRINTS). Two different chunks have one hash by chance once in 2^64 pairs; a program that wants to can make
 * such a pair of its own memory.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_CHANGES_H
#define FLYT_CLIENT_CORE_MOVE_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/core/stream/move_store.h"

enum { MOVE_CHUNK = 64 << 10, MOVE_CHUNKS_MOST = 32 };

/* Of a part's chunks, from the first one on. */
struct move_hashes {
    unsigned count;
    struct move_hash { uint64_t low, high; } of[MOVE_CHUNKS_MOST];
};
/* Of `size` bytes, at most MOVE_CHUNKS_MOST chunks. */
void move_hashes_make(struct move_hashes *, const void *bytes, uint64_t size);

struct move_changes;
/* For the checkpoint with this fact "id". file: the number of its own file (move_changes_in). NULL: no memory. */
struct move_changes *move_changes_new(const char *id, uint32_t file);
const char *move_changes_id(const struct move_changes *);
/* Before the first part: the number of the question that the server was asked just before (move_written_begin). */
void move_changes_begin(struct move_changes *, uint32_t question);
/* Notes a part. before, same: chunk i is where `before` has it, if bit i is set. False: no memory. */
bool move_changes_add(struct move_changes *, const struct move_part *, const struct move_hashes *,
                      const struct move_changes *before, uint32_t same);
/* Whether there is a part of the same object, place and size. */
bool move_changes_know(const struct move_changes *, const struct move_part *);
/* Bit i: it has the part's chunk i alike. A part is only compared with one of the same object, place and size. */
uint32_t move_changes_same(const struct move_changes *, const struct move_part *, const struct move_hashes *);
/* What move_changes_begin was told. */
uint32_t move_changes_question(const struct move_changes *);
/* Whether the part, which lies at this address, is there and was not written since. NULL: false. */
bool move_changes_untouched(const struct move_changes *, const struct move_part *, uint64_t address);
/* Notes a part as `from` has it. False: no memory. */
bool move_changes_carry(struct move_changes *, const struct move_changes *from, const struct move_part *);
/* Whether no chunk of the part was as it is in the checkpoint before that one. */
bool move_changes_new_all(const struct move_changes *, const struct move_part *);
/* Whether a chunk is in the file with that number. True where that is not known. */
bool move_changes_in(const struct move_changes *, uint32_t file);
/* All chunks are in that file from here on, and so are those that come. */
void move_changes_merged(struct move_changes *, uint32_t file);
void move_changes_free(struct move_changes *);

#endif
