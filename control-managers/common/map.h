/*
 * map.h: pointers found by a name or a number, and listed in order of it.
 *
 * Keys are copied. Listing needs the keys sorted: what has been added since is put in order when it is asked for, so a
 * change between two listings costs a few microseconds, however many keys there are.
 */
#ifndef FLYT_CONTROL_MAP_H
#define FLYT_CONTROL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_entry;
struct map {
    struct map_entry **buckets, **sorted;
    size_t bucket_count, count;
    /* sorted[]: `ordered` entries in order, behind them `added` ones that are not; room: of the array. stale: nothing
       of that holds, and the array is made anew. */
    size_t ordered, added, room;
    bool stale;
}; /* zero: empty */

void map_free(struct map *);                         /* not what it points to */
void *map_get(const struct map *, const char *name); /* NULL: none */
void *map_get_id(const struct map *, uint64_t id);
/* Replaces. false: no memory. */
bool map_put(struct map *, const char *name, void *);
bool map_put_id(struct map *, uint64_t id, void *);
void *map_remove(struct map *, const char *name); /* what was there */
void *map_remove_id(struct map *, uint64_t id);

/* The position, in order, of the first key greater than this one ("" or 0: of the first). */
size_t map_after(struct map *, const char *name);
size_t map_after_id(struct map *, uint64_t id);
void *map_at(struct map *, size_t position); /* NULL: past the end */
/* All of them as an array of `count`, to be freed; for who changes the map meanwhile. NULL: empty, or no memory. */
void **map_values(struct map *);

#endif
