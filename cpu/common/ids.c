/*
 * ids.c: see ids.h.
 *
 * id_table keeps its slots in segments of doubling size, which never move: segment s holds the slots
 * [64 * (2^s - 1), 64 * (2^(s+1) - 1)). A slot holds the token that is valid for it now, or 0. A look-up reads
 * token, object, token again: equal tokens before and after mean that the object belongs to this token, since
 * every new use of a slot raises its generation (24 bits; a token would have to be kept over 16 million uses
 * of its slot to be mistaken).
 *
 * id_map keeps its slots in pages of 4,096 behind a directory that is as large as `limit` needs.
 */
#include "cpu/common/ids.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- id_table ---- */

enum { FIRST_SEGMENT_BITS = 6, SEGMENTS = 32 - FIRST_SEGMENT_BITS, KIND_SHIFT = 56, GENERATION_SHIFT = 32 };
#define GENERATION_MASK UINT32_C(0xffffff)
#define NO_SLOT         UINT32_MAX

enum slot_state { SLOT_FREE, SLOT_USED, SLOT_REMOVED };

struct id_slot {
    _Atomic(id_token) token;
    _Atomic(void *)   object;
    uint32_t          generation;       /* this and the rest: under the lock */
    uint32_t          next_free;
    enum slot_state   state;
};

struct id_table {
    pthread_mutex_t        lock;
    _Atomic(struct id_slot *) segments[SEGMENTS];
    uint32_t               slots;       /* ever used */
    uint32_t               free;        /* head of the list of free slots, or NO_SLOT */
    _Atomic uint32_t       count;
    uint32_t               first;
    unsigned               kind;
};

static unsigned segment_of(uint32_t slot, uint32_t *offset)
{
    uint64_t shifted = (uint64_t)slot + (1u << FIRST_SEGMENT_BITS);
    unsigned top = 63u - (unsigned)__builtin_clzll(shifted);
    *offset = (uint32_t)(shifted - (UINT64_C(1) << top));
    return top - FIRST_SEGMENT_BITS;
}

static struct id_slot *slot_at(const id_table *table, uint32_t slot)
{
    uint32_t offset;
    unsigned number = segment_of(slot, &offset);
    if (number >= SEGMENTS)
        return NULL;
    struct id_slot *segment = atomic_load_explicit(&table->segments[number], memory_order_acquire);
    return segment ? segment + offset : NULL;
}

id_table *id_table_create(unsigned kind, uint32_t first)
{
    id_table *table = calloc(1, sizeof *table);
    if (!table)
        return NULL;
    if (pthread_mutex_init(&table->lock, NULL) != 0) {
        free(table);
        return NULL;
    }
    table->kind = kind & 0xff;
    table->first = first;
    table->free = NO_SLOT;
    return table;
}

void id_table_destroy(id_table *table)
{
    if (!table)
        return;
    for (unsigned i = 0; i < SEGMENTS; i++)
        free(atomic_load_explicit(&table->segments[i], memory_order_relaxed));
    pthread_mutex_destroy(&table->lock);
    free(table);
}

/* A slot that was never used, with its segment; NULL: no memory, or no index left. */
static struct id_slot *slot_new(id_table *table, uint32_t *number)
{
    uint32_t offset, slot = table->slots;
    if (slot >= UINT32_MAX - table->first)
        return NULL;
    unsigned segment = segment_of(slot, &offset);
    if (segment >= SEGMENTS)
        return NULL;
    if (!atomic_load_explicit(&table->segments[segment], memory_order_relaxed)) {
        struct id_slot *fresh = calloc((size_t)1 << (segment + FIRST_SEGMENT_BITS), sizeof *fresh);
        if (!fresh)
            return NULL;
        /* release: who finds the segment finds its zeros */
        atomic_store_explicit(&table->segments[segment], fresh, memory_order_release);
    }
    table->slots++;
    *number = slot;
    return slot_at(table, slot);
}

id_token id_table_add(id_table *table, void *object, uint32_t *index)
{
    id_token token = 0;
    uint32_t number = NO_SLOT;
    pthread_mutex_lock(&table->lock);
    struct id_slot *slot;
    if (table->free != NO_SLOT) {
        number = table->free;
        slot = slot_at(table, number);
        table->free = slot->next_free;
    } else {
        slot = slot_new(table, &number);
    }
    if (slot) {
        slot->generation = (slot->generation + 1) & GENERATION_MASK;
        slot->state = SLOT_USED;
        token = (uint64_t)table->kind << KIND_SHIFT | (uint64_t)slot->generation << GENERATION_SHIFT |
                (uint64_t)(table->first + number);
        /* release: a look-up with an old token that reads this object sees the old token gone */
        atomic_store_explicit(&slot->object, object, memory_order_release);
        atomic_store_explicit(&slot->token, token, memory_order_release);
        atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed);
        if (index)
            *index = table->first + number;
    }
    pthread_mutex_unlock(&table->lock);
    return token;
}

uint32_t id_token_index(id_token token)
{
    return (uint32_t)token;
}

/* The slot that the token may belong to; the token itself is not looked at yet. */
static struct id_slot *slot_of_token(const id_table *table, id_token token)
{
    uint32_t index = id_token_index(token);
    if (token >> KIND_SHIFT != table->kind || index < table->first)
        return NULL;
    return slot_at(table, index - table->first);
}

void *id_table_find(const id_table *table, id_token token)
{
    struct id_slot *slot = slot_of_token(table, token);
    if (!slot || atomic_load_explicit(&slot->token, memory_order_acquire) != token)
        return NULL;
    /* acquire: the second look at the token must come after this one */
    void *object = atomic_load_explicit(&slot->object, memory_order_acquire);
    return atomic_load_explicit(&slot->token, memory_order_relaxed) == token ? object : NULL;
}

void *id_table_remove(id_table *table, id_token token)
{
    void *object = NULL;
    pthread_mutex_lock(&table->lock);
    struct id_slot *slot = slot_of_token(table, token);
    if (slot && token != 0 && atomic_load_explicit(&slot->token, memory_order_relaxed) == token) {
        atomic_store_explicit(&slot->token, 0, memory_order_relaxed);
        /* release: who reads this NULL sees the token gone */
        object = atomic_exchange_explicit(&slot->object, NULL, memory_order_release);
        slot->state = SLOT_REMOVED;
        atomic_fetch_sub_explicit(&table->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&table->lock);
    return object;
}

void id_table_release(id_table *table, uint32_t index)
{
    if (index < table->first)
        return;
    pthread_mutex_lock(&table->lock);
    struct id_slot *slot = slot_at(table, index - table->first);
    if (slot && slot->state == SLOT_REMOVED) {
        slot->state = SLOT_FREE;
        slot->next_free = table->free;
        table->free = index - table->first;
    }
    pthread_mutex_unlock(&table->lock);
}

uint32_t id_table_count(const id_table *table)
{
    return atomic_load_explicit(&table->count, memory_order_relaxed);
}

void id_table_each(id_table *table, void (*visit)(void *object, id_token, void *context), void *context)
{
    pthread_mutex_lock(&table->lock);
    uint32_t slots = table->slots;
    pthread_mutex_unlock(&table->lock);
    for (uint32_t number = 0; number < slots; number++) {
        struct id_slot *slot = slot_at(table, number);
        id_token token = atomic_load_explicit(&slot->token, memory_order_acquire);
        void *object = token ? id_table_find(table, token) : NULL;
        if (object)
            visit(object, token, context);      /* without the lock: visit may remove */
    }
}

/* ---- id_map ---- */

enum { PAGE_BITS = 12 };
#define PAGE_SLOTS (UINT32_C(1) << PAGE_BITS)
#define PAGE_MASK  (PAGE_SLOTS - 1)

typedef _Atomic(void *) map_slot;

struct id_map {
    pthread_mutex_t      lock;
    uint32_t             limit;
    uint32_t             pages;
    _Atomic uint32_t     count;
    _Atomic(map_slot *)  page[];
};

id_map *id_map_create(uint32_t limit)
{
    uint32_t pages = (uint32_t)(((uint64_t)limit + PAGE_SLOTS - 1) >> PAGE_BITS);
    id_map *map = calloc(1, sizeof *map + (size_t)pages * sizeof map->page[0]);
    if (!map)
        return NULL;
    if (pthread_mutex_init(&map->lock, NULL) != 0) {
        free(map);
        return NULL;
    }
    map->limit = limit;
    map->pages = pages;
    return map;
}

void id_map_destroy(id_map *map)
{
    if (!map)
        return;
    for (uint32_t i = 0; i < map->pages; i++)
        free(atomic_load_explicit(&map->page[i], memory_order_relaxed));
    pthread_mutex_destroy(&map->lock);
    free(map);
}

static map_slot *map_slot_at(const id_map *map, uint32_t id)
{
    if (id >= map->limit)
        return NULL;
    map_slot *page = atomic_load_explicit(&map->page[id >> PAGE_BITS], memory_order_acquire);
    return page ? page + (id & PAGE_MASK) : NULL;
}

int id_map_set(id_map *map, uint32_t id, void *object)
{
    if (id >= map->limit)
        return -ERANGE;
    int status = 0;
    pthread_mutex_lock(&map->lock);
    map_slot *slot = map_slot_at(map, id);
    if (!slot) {
        map_slot *page = calloc(PAGE_SLOTS, sizeof *page);
        if (page) {
            atomic_store_explicit(&map->page[id >> PAGE_BITS], page, memory_order_release);
            slot = page + (id & PAGE_MASK);
        }
    }
    if (!slot) {
        status = -ENOMEM;
    } else if (atomic_load_explicit(slot, memory_order_relaxed)) {
        status = -EEXIST;
    } else {
        atomic_store_explicit(slot, object, memory_order_release);
        atomic_fetch_add_explicit(&map->count, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&map->lock);
    return status;
}

void *id_map_find(const id_map *map, uint32_t id)
{
    map_slot *slot = map_slot_at(map, id);
    return slot ? atomic_load_explicit(slot, memory_order_acquire) : NULL;
}

void *id_map_remove(id_map *map, uint32_t id)
{
    pthread_mutex_lock(&map->lock);
    map_slot *slot = map_slot_at(map, id);
    void *object = slot ? atomic_exchange_explicit(slot, NULL, memory_order_acq_rel) : NULL;
    if (object)
        atomic_fetch_sub_explicit(&map->count, 1, memory_order_relaxed);
    pthread_mutex_unlock(&map->lock);
    return object;
}

uint32_t id_map_count(const id_map *map)
{
    return atomic_load_explicit(&map->count, memory_order_relaxed);
}

void id_map_each(id_map *map, void (*visit)(uint32_t id, void *object, void *context), void *context)
{
    for (uint32_t number = 0; number < map->pages; number++) {
        map_slot *page = atomic_load_explicit(&map->page[number], memory_order_acquire);
        for (uint32_t i = 0; page && i < PAGE_SLOTS; i++) {
            void *object = atomic_load_explicit(&page[i], memory_order_acquire);
            if (object)
                visit((number << PAGE_BITS) | i, object, context);
        }
    }
}
