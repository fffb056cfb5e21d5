/*
 * registry.h: address → record, read without a lock on every launch.
 *
 * An open-addressing table. A key, once in a table, stays in its slot for ever (programs that load and unload a
 * library again and again reuse its addresses), only the value comes and goes; so a reader never meets memory
 * that was freed by the removal of another key. A table that has grown too full is replaced by a larger one; the
 * old ones are kept, since a reader may be inside: their sum is bounded by the distinct addresses ever registered.
 * Writers hold the owner's lock.
 */
#ifndef FLYT_CLIENT_REGISTRY_H
#define FLYT_CLIENT_REGISTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/api_errors.h"

struct registry_slot { _Atomic(const void *) key; _Atomic(void *) value; };
struct registry_table { size_t mask, used; struct registry_table *older; struct registry_slot slots[]; };
struct registry { _Atomic(struct registry_table *) table; };

static inline size_t registry_hash(const void *key)
{
    uint64_t x = (uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(x ^ x >> 32);
}

static inline void *registry_find(struct registry *registry, const void *key)
{
    struct registry_table *table = atomic_load_explicit(&registry->table, memory_order_acquire);
    if (!table || !key)
        return NULL;
    for (size_t i = registry_hash(key);; i++) {
        struct registry_slot *slot = &table->slots[i & table->mask];
        /* acquire: pairs with the release in registry_set, so the value belongs to the key */
        const void *found = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (found == key)
            return atomic_load_explicit(&slot->value, memory_order_acquire);
        if (!found)
            return NULL;
    }
}

/* value NULL removes. false: no memory (never when removing). */
CORE_API bool registry_set(struct registry *, const void *key, void *value);

#endif
