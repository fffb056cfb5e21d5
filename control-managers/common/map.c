#include "control-managers/common/map.h"

#include <stdlib.h>
#include <string.h>

struct map_entry { struct map_entry *next; void *value; uint32_t hash; size_t size; unsigned char key[]; };

/* So few that were added are put into their places one by one; so many at most are looked through for one that goes. */
enum { FEW = 16, LOOKED_THROUGH = 256 };

struct key { const unsigned char *bytes; size_t size; };
struct id_key { unsigned char bytes[8]; };

/* Big endian, so that the order of the bytes is that of the numbers. */
static struct id_key id_key(uint64_t id)
{
    struct id_key key;
    for (int i = 0; i < 8; i++)
        key.bytes[i] = (unsigned char)(id >> (56 - 8 * i));
    return key;
}

static struct key name_key(const char *name)
{
    return (struct key){ (const unsigned char *)name, strlen(name) };
}

static uint32_t hash_of(struct key key)         /* FNV-1a */
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ key.bytes[i]) * 16777619u;
    return hash;
}

static int compare(struct key a, struct key b)
{
    int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static struct map_entry **find(const struct map *map, struct key key, uint32_t hash)
{
    struct map_entry **at = &map->buckets[hash & (map->bucket_count - 1)];
    while (*at && ((*at)->hash != hash || (*at)->size != key.size || memcmp((*at)->key, key.bytes, key.size)))
        at = &(*at)->next;
    return at;
}

static bool grow(struct map *map)
{
    size_t count = map->bucket_count ? 2 * map->bucket_count : 16;
    struct map_entry **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return map->bucket_count > 0;           /* slower, but it works */
    for (size_t i = 0; i < map->bucket_count; i++)
        for (struct map_entry *entry = map->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    free(map->buckets);
    map->buckets = buckets;
    map->bucket_count = count;
    return true;
}

static struct key key_of(const struct map_entry *entry) { return (struct key){ entry->key, entry->size }; }

/* How many of the first `count` entries have a key that is not greater. */
static size_t place_of(const struct map *map, size_t count, struct key key)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(key_of(map->sorted[middle]), key) > 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* One that is new. */
static void list(struct map *map, struct map_entry *entry)
{
    size_t used = map->ordered + map->added;
    if (map->stale)
        return;
    if (used == map->room) {
        size_t room = map->room ? 2 * map->room : 16;
        struct map_entry **sorted = realloc(map->sorted, room * sizeof *sorted);
        map->stale = !sorted;
        if (!sorted)
            return;
        map->sorted = sorted;
        map->room = room;
    }
    map->sorted[used] = entry;
    if (!map->added && (!used || compare(key_of(map->sorted[used - 1]), key_of(entry)) < 0))
        map->ordered++;
    else
        map->added++;
}

/* One that goes. */
static void unlist(struct map *map, const struct map_entry *entry)
{
    if (map->stale)
        return;
    size_t used = map->ordered + map->added, at = place_of(map, map->ordered, key_of(entry));
    if (at && map->sorted[at - 1] == entry) {
        at--;
        map->ordered--;
    } else if (map->added > LOOKED_THROUGH) {
        map->stale = true;
        return;
    } else {
        for (at = map->ordered; map->sorted[at] != entry;)
            at++;
        map->added--;
    }
    memmove(map->sorted + at, map->sorted + at + 1, (used - at - 1) * sizeof *map->sorted);
}

static void *get(const struct map *map, struct key key)
{
    struct map_entry *entry = map->count ? *find(map, key, hash_of(key)) : NULL;
    return entry ? entry->value : NULL;
}

static bool put(struct map *map, struct key key, void *value)
{
    if (map->count >= map->bucket_count && !grow(map))
        return false;
    uint32_t hash = hash_of(key);
    struct map_entry **at = find(map, key, hash);
    if (*at) {
        (*at)->value = value;
        return true;
    }
    struct map_entry *entry = malloc(sizeof *entry + key.size);
    if (!entry)
        return false;
    *entry = (struct map_entry){ .value = value, .hash = hash, .size = key.size };
    memcpy(entry->key, key.bytes, key.size);
    *at = entry;
    map->count++;
    list(map, entry);
    return true;
}

static void *take(struct map *map, struct key key)
{
    if (!map->count)
        return NULL;
    struct map_entry **at = find(map, key, hash_of(key)), *entry = *at;
    if (!entry)
        return NULL;
    void *value = entry->value;
    unlist(map, entry);
    *at = entry->next;
    free(entry);
    map->count--;
    return value;
}

void *map_get(const struct map *map, const char *name) { return get(map, name_key(name)); }
bool map_put(struct map *map, const char *name, void *value) { return put(map, name_key(name), value); }
void *map_remove(struct map *map, const char *name) { return take(map, name_key(name)); }

void *map_get_id(const struct map *map, uint64_t id)
{
    struct id_key key = id_key(id);
    return get(map, (struct key){ key.bytes, 8 });
}

bool map_put_id(struct map *map, uint64_t id, void *value)
{
    struct id_key key = id_key(id);
    return put(map, (struct key){ key.bytes, 8 }, value);
}

void *map_remove_id(struct map *map, uint64_t id)
{
    struct id_key key = id_key(id);
    return take(map, (struct key){ key.bytes, 8 });
}

/* ---- in order ---- */

static int compare_entries(const void *a, const void *b)
{
    const struct map_entry *x = *(struct map_entry *const *)a, *y = *(struct map_entry *const *)b;
    return compare(key_of(x), key_of(y));
}

/* The array anew, from the buckets. */
static bool list_all(struct map *map)
{
    size_t room = map->room > map->count ? map->room : map->count + 1, at = 0;
    struct map_entry **sorted = realloc(map->sorted, room * sizeof *sorted);
    if (!sorted)
        return false;
    map->sorted = sorted;
    map->room = room;
    for (size_t i = 0; i < map->bucket_count; i++)
        for (struct map_entry *entry = map->buckets[i]; entry; entry = entry->next)
            sorted[at++] = entry;
    map->ordered = 0;
    map->added = at;
    map->stale = false;
    return true;
}

static void insert_few(struct map *map)
{
    for (; map->added; map->added--, map->ordered++) {
        struct map_entry *entry = map->sorted[map->ordered];
        size_t at = place_of(map, map->ordered, key_of(entry));
        memmove(map->sorted + at + 1, map->sorted + at, (map->ordered - at) * sizeof *map->sorted);
        map->sorted[at] = entry;
    }
}

/* Those that were added are sorted, and merged with the others from the end on. */
static void merge(struct map *map)
{
    size_t count = map->added, before = map->ordered, at = before + count;
    struct map_entry **added = before ? malloc(count * sizeof *added) : NULL;
    if (added) {
        memcpy(added, map->sorted + before, count * sizeof *added);
        qsort(added, count, sizeof *added, compare_entries);
    } else {
        qsort(map->sorted, at, sizeof *map->sorted, compare_entries);
    }
    map->ordered = at;
    map->added = 0;
    while (added && count)
        if (before && compare_entries(&map->sorted[before - 1], &added[count - 1]) > 0)
            map->sorted[--at] = map->sorted[--before];
        else
            map->sorted[--at] = added[--count];
    free(added);
}

static bool sort(struct map *map)
{
    if (map->stale && !list_all(map))
        return false;
    if (map->added > FEW)
        merge(map);
    insert_few(map);
    return true;
}

static size_t after(struct map *map, struct key key)
{
    return sort(map) ? place_of(map, map->ordered, key) : map->count;
}

size_t map_after(struct map *map, const char *name) { return *name ? after(map, name_key(name)) : 0; }

size_t map_after_id(struct map *map, uint64_t id)
{
    struct id_key key = id_key(id);
    return id ? after(map, (struct key){ key.bytes, 8 }) : 0;
}

void *map_at(struct map *map, size_t position)
{
    return position < map->count && sort(map) ? map->sorted[position]->value : NULL;
}

void **map_values(struct map *map)
{
    void **values = map->count && sort(map) ? malloc(map->count * sizeof *values) : NULL;
    for (size_t i = 0; values && i < map->count; i++)
        values[i] = map->sorted[i]->value;
    return values;
}

void map_free(struct map *map)
{
    for (size_t i = 0; i < map->bucket_count; i++)
        for (struct map_entry *entry = map->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry);
        }
    free(map->buckets);
    free(map->sorted);
    *map = (struct map){ 0 };
}
