/* extents.c: disjoint address ranges, ordered, in an array of pointers. Finding is a binary search. */
#include "softgpu/driver/driver.h"

#include <stdlib.h>
#include <string.h>

size_t sgd_extents_lower(const struct sgd_extents *set, uint64_t address)
{
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct sgd_extent *e = set->items[middle];
        if (e->base + e->size > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

void *sgd_extents_find(const struct sgd_extents *set, uint64_t address)
{
    size_t i = sgd_extents_lower(set, address);
    return i < set->count && set->items[i]->base <= address ? set->items[i] : NULL;
}

bool sgd_extents_add(struct sgd_extents *set, struct sgd_extent *e)
{
    size_t i = sgd_extents_lower(set, e->base);
    if (!e->size || (i < set->count && set->items[i]->base < e->base + e->size))
        return false;
    if (set->count == set->room) {
        size_t room = set->room ? set->room * 2 : 64;
        struct sgd_extent **grown = realloc(set->items, room * sizeof *grown);
        if (!grown)
            return false;
        set->items = grown;
        set->room = room;
    }
    memmove(set->items + i + 1, set->items + i, (set->count - i) * sizeof *set->items);
    set->items[i] = e;
    set->count++;
    return true;
}

void sgd_extents_remove(struct sgd_extents *set, struct sgd_extent *e)
{
    size_t i = sgd_extents_lower(set, e->base);
    if (i >= set->count || set->items[i] != e)
        return;
    set->count--;
    memmove(set->items + i, set->items + i + 1, (set->count - i) * sizeof *set->items);
}
