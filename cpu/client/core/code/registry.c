/* registry.c: growth and writing of the address table; registry.h explains it. */
#include "cpu/client/core/code/registry.h"

#include <stdlib.h>

enum { FIRST_SIZE = 64 };

/* Puts a pair into a table that has room. */
static void table_put(struct registry_table *table, const void *key, void *value)
{
    for (size_t i = registry_hash(key);; i++) {
        struct registry_slot *slot = &table->slots[i & table->mask];
        const void *found = atomic_load_explicit(&slot->key, memory_order_relaxed);
        if (found && found != key)
            continue;
        atomic_store_explicit(&slot->value, value, memory_order_release);
        if (!found) {
            table->used++;
            /* release: whoever sees the key sees its value */
            atomic_store_explicit(&slot->key, key, memory_order_release);
        }
        return;
    }
}

static bool table_grow(struct registry *registry)
{
    struct registry_table *old = atomic_load_explicit(&registry->table, memory_order_relaxed);
    size_t live = 0;
    for (size_t i = 0; old && i <= old->mask; i++)
        live += atomic_load_explicit(&old->slots[i].value, memory_order_relaxed) != NULL;
    size_t size = FIRST_SIZE;
    while (size < live * 4 + 2)
        size *= 2;
    struct registry_table *table = calloc(1, sizeof *table + size * sizeof table->slots[0]);
    if (!table)
        return false;
    table->mask = size - 1;
    table->older = old;
    for (size_t i = 0; old && i <= old->mask; i++) {
        void *value = atomic_load_explicit(&old->slots[i].value, memory_order_relaxed);
        if (value)
            table_put(table, atomic_load_explicit(&old->slots[i].key, memory_order_relaxed), value);
    }
    atomic_store_explicit(&registry->table, table, memory_order_release);
    return true;
}

bool registry_set(struct registry *registry, const void *key, void *value)
{
    struct registry_table *table = atomic_load_explicit(&registry->table, memory_order_relaxed);
    if (!value && !registry_find(registry, key))
        return true;
    if (!table || table->used * 2 > table->mask) {
        if (!value) {
            table_put(table, key, NULL); /* the key is there: no room needed */
            return true;
        }
        if (!table_grow(registry))
            return false;
        table = atomic_load_explicit(&registry->table, memory_order_relaxed);
    }
    table_put(table, key, value);
    return true;
}
