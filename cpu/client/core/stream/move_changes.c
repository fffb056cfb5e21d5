/* move_changes.c: see move_changes.h. Parts are found by a table with open addressing. */
#include "move_changes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "cpu/checkpoint/checkpoint.h"
#include "move_written.h"

struct noted_part {
    uint64_t object, offset;
    uint32_t kind, size;
    bool new_all;                        /* all of it had changed */
    size_t hashes;                       /* the first of its chunks */
};

struct move_changes {
    char id[CHECKPOINT_ID_TEXT];
    struct noted_part *parts;
    struct move_hash *hashes;
    uint32_t *files;                     /* of each hash: where its chunk is */
    uint32_t file;                       /* the checkpoint's own */
    uint32_t *table;                     /* numbers of parts, from 1 on; 0: free */
    size_t count, room, hash_count, hash_room, file_room, places;   /* places: a power of two, or 0 */
    bool failed;
    uint32_t question;                   /* 0: nothing is known of writes since */
};

struct move_changes *move_changes_new(const char *id, uint32_t file)
{
    struct move_changes *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    snprintf(c->id, sizeof c->id, "%s", id);
    c->file = file;
    return c;
}

const char *move_changes_id(const struct move_changes *c) { return c->id; }

void move_changes_begin(struct move_changes *c, uint32_t question) { c->question = question; }

uint32_t move_changes_question(const struct move_changes *c) { return c->question; }

void move_changes_free(struct move_changes *c)
{
    if (!c)
        return;
    free(c->parts);
    free(c->hashes);
    free(c->files);
    free(c->table);
    free(c);
}

static bool is(const struct noted_part *noted, const struct move_part *part)
{
    return noted->object == part->object && noted->offset == part->offset && noted->kind == part->kind &&
           noted->size == part->size;
}

/* Where the part is, or would be. */
static size_t place_of(const struct move_changes *c, const struct move_part *part)
{
    const uint64_t words[] = { part->object, part->offset, part->kind, part->size };
    size_t at = (size_t)XXH3_64bits(words, sizeof words) & (c->places - 1);
    while (c->table[at] && !is(&c->parts[c->table[at] - 1], part))
        at = (at + 1) & (c->places - 1);
    return at;
}

static bool table_grow(struct move_changes *c)
{
    uint32_t *old = c->table;
    const size_t places = c->places ? 2 * c->places : 256;
    uint32_t *table = calloc(places, sizeof *table);
    if (!table)
        return false;
    c->table = table;
    c->places = places;
    for (size_t i = 0; i < c->count; i++) {
        const struct noted_part *noted = &c->parts[i];
        c->table[place_of(c, &(struct move_part){ noted->kind, noted->object, noted->offset, noted->size })] =
            (uint32_t)i + 1;
    }
    free(old);
    return true;
}

static bool array_grow(void **array, size_t *room, size_t size, size_t wanted)
{
    if (wanted <= *room)
        return true;
    const size_t more = *room ? 2 * *room : 256;
    void *grown = reallocarray(*array, more > wanted ? more : wanted, size);
    if (!grown)
        return false;
    *array = grown;
    *room = more > wanted ? more : wanted;
    return true;
}

/* NULL: there is no such part. */
static const struct noted_part *find(const struct move_changes *c, const struct move_part *part)
{
    const uint32_t number = c && c->places ? c->table[place_of(c, part)] : 0;
    return number ? &c->parts[number - 1] : NULL;
}

/* A part that comes twice is kept as it came first. */
bool move_changes_add(struct move_changes *c, const struct move_part *part, const struct move_hashes *hashes,
                      const struct move_changes *before, uint32_t same)
{
    const struct noted_part *old = find(before, part);
    const unsigned count = hashes->count;
    if (c->failed || c->count >= UINT32_MAX - 1 || (2 * (c->count + 1) > c->places && !table_grow(c)) ||
        !array_grow((void **)&c->parts, &c->room, sizeof *c->parts, c->count + 1) ||
        !array_grow((void **)&c->hashes, &c->hash_room, sizeof *c->hashes, c->hash_count + count) ||
        !array_grow((void **)&c->files, &c->file_room, sizeof *c->files, c->hash_count + count)) {
        c->failed = true;
        return false;
    }
    const size_t at = place_of(c, part);
    if (c->table[at])
        return true;
    c->parts[c->count] = (struct noted_part){ part->object, part->offset, part->kind, (uint32_t)part->size,
                                              old && !same, c->hash_count };
    memcpy(&c->hashes[c->hash_count], hashes->of, count * sizeof *hashes->of);
    for (unsigned i = 0; i < count; i++)
        c->files[c->hash_count + i] = old && same >> i & 1 ? before->files[old->hashes + i] : c->file;
    c->hash_count += count;
    c->table[at] = (uint32_t)++c->count;
    return true;
}

void move_hashes_make(struct move_hashes *hashes, const void *bytes, uint64_t size)
{
    hashes->count = 0;
    for (uint64_t at = 0; at < size && hashes->count < MOVE_CHUNKS_MOST; at += MOVE_CHUNK) {
        const uint64_t left = size - at;
        const XXH128_hash_t hash = XXH3_128bits((const uint8_t *)bytes + at, left < MOVE_CHUNK ? left : MOVE_CHUNK);
        hashes->of[hashes->count++] = (struct move_hash){ hash.low64, hash.high64 };
    }
}

bool move_changes_know(const struct move_changes *c, const struct move_part *part) { return find(c, part); }

uint32_t move_changes_same(const struct move_changes *c, const struct move_part *part, const struct move_hashes *hashes)
{
    const struct noted_part *noted = find(c, part);
    uint32_t same = 0;
    for (unsigned i = 0; noted && i < hashes->count; i++) {
        const struct move_hash *old = &c->hashes[noted->hashes + i];
        if (old->low == hashes->of[i].low && old->high == hashes->of[i].high)
            same |= UINT32_C(1) << i;
    }
    return same;
}

bool move_changes_untouched(const struct move_changes *c, const struct move_part *part, uint64_t address)
{
    return c && c->question && find(c, part) && !move_written_since(c->question, address, part->size);
}

bool move_changes_carry(struct move_changes *c, const struct move_changes *from, const struct move_part *part)
{
    const struct noted_part *noted = find(from, part);
    struct move_hashes hashes = { .count = (unsigned)((part->size + MOVE_CHUNK - 1) / MOVE_CHUNK) };
    memcpy(hashes.of, &from->hashes[noted->hashes], hashes.count * sizeof *hashes.of);
    return move_changes_add(c, part, &hashes, from, UINT32_MAX);
}

bool move_changes_new_all(const struct move_changes *c, const struct move_part *part)
{
    const struct noted_part *noted = find(c, part);
    return noted && noted->new_all;
}

bool move_changes_in(const struct move_changes *c, uint32_t file)
{
    bool in = c->failed;
    for (size_t i = 0; i < c->hash_count && !in; i++)
        in = c->files[i] == file;
    return in;
}

void move_changes_merged(struct move_changes *c, uint32_t file)
{
    c->file = file;
    for (size_t i = 0; i < c->hash_count; i++)
        c->files[i] = file;
}
