/*
 * move_changes.h: what the last checkpoint of this process holds, as a hash (XXH3, 128 bits) of each MOVE_CHUNK bytes
 * of each part. The next one can leave out what has the same hash. Nothing watches writes:
 * all bytes are read each time. Two different chunks have one hash by chance once in 2^64 pairs; a program that wants
 * to can make such a pair of its own memory.
 */
#ifndef FLYT_CLIENT_CORE_MOVE_CHANGES_H
#define FLYT_CLIENT_CORE_MOVE_CHANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/client/core/stream/move_store.h"

enum { MOVE_CHUNK = 64 << 10, MOVE_CHUNKS_MOST = 32 };

struct move_changes;
/* For the checkpoint with this fact "id". NULL: no memory. */
struct move_changes *move_changes_new(const char *id);
const char *move_changes_id(const struct move_changes *);
/* Notes the part, of at most MOVE_CHUNKS_MOST chunks. Bit i of *same: `before` (NULL: nothing) has its chunk i alike. A
   part is only compared with one of the same object, place and size. False: no memory; *same is right nevertheless. */
bool move_changes_note(struct move_changes *, const struct move_changes *before, const struct move_part *,
                       const void *bytes, uint32_t *same);
void move_changes_free(struct move_changes *);

#endif
