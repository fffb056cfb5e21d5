/* gaps.c: see gaps.h. */
#include "cpu/common/gaps.h"

#include <stdlib.h>

/* So many gaps that are long enough are looked at for one where the unit fits, before the longer ones that fit in any
 * case. */
enum { TRIES = 8 };

struct gap { struct tree_node by_address, by_size; };       /* keys: address; size */

static struct gap *at_address(struct tree_node *node) { return TREE_OBJECT(node, struct gap, by_address); }
static struct gap *at_size(struct tree_node *node) { return TREE_OBJECT(node, struct gap, by_size); }
static uint64_t base_of(const struct gap *gap) { return gap->by_address.key; }
static uint64_t size_of(const struct gap *gap) { return gap->by_size.key; }

static bool gap_add(struct gaps *gaps, uint64_t base, uint64_t size)
{
    struct gap *gap = size ? malloc(sizeof *gap) : NULL;
    if (!gap)
        return !size;
    gap->by_address = (struct tree_node){ .key = base };
    gap->by_size = (struct tree_node){ .key = size, .tie = base };
    tree_insert(&gaps->by_address, &gap->by_address);
    tree_insert(&gaps->by_size, &gap->by_size);
    return true;
}

static void gap_remove(struct gaps *gaps, struct gap *gap)
{
    tree_remove(&gaps->by_address, &gap->by_address);
    tree_remove(&gaps->by_size, &gap->by_size);
    free(gap);
}

/* Its base stays. */
static void gap_resize(struct gaps *gaps, struct gap *gap, uint64_t size)
{
    tree_remove(&gaps->by_size, &gap->by_size);
    gap->by_size.key = size;
    tree_insert(&gaps->by_size, &gap->by_size);
}

bool gaps_give(struct gaps *gaps, uint64_t base, uint64_t size)
{
    struct gap *below = at_address(tree_at_or_below(&gaps->by_address, base, 0));
    struct gap *above = at_address(tree_at_or_above(&gaps->by_address, base, 0));
    if (above && size && base_of(above) - base == size) {
        size += size_of(above);
        gap_remove(gaps, above);
    }
    if (!below || base - base_of(below) != size_of(below))
        return gap_add(gaps, base, size);
    gap_resize(gaps, below, size_of(below) + size);
    return true;
}

/* Takes [base, base + size) out of the gap, which holds it. */
static bool cut(struct gaps *gaps, struct gap *gap, uint64_t base, uint64_t size)
{
    uint64_t before = base - base_of(gap), after = size_of(gap) - before - size;
    if (!gap_add(gaps, base + size, after))
        return false;
    if (before)
        gap_resize(gaps, gap, before);
    else
        gap_remove(gaps, gap);
    return true;
}

bool gaps_take_at(struct gaps *gaps, uint64_t base, uint64_t size)
{
    struct gap *gap = at_address(tree_at_or_below(&gaps->by_address, base, 0));
    return gap && base - base_of(gap) < size_of(gap) && size <= size_of(gap) - (base - base_of(gap)) &&
           cut(gaps, gap, base, size);
}

/* Where it fits into the gap. False: nowhere. */
static bool fit(const struct gap *gap, uint64_t size, uint64_t unit, uint64_t origin, bool top, uint64_t *at)
{
    uint64_t low = base_of(gap), last = low + size_of(gap) - size;      /* addresses at which it could begin */
    if (size > size_of(gap))
        return false;
    uint64_t lowest = low + ((origin - low) & (unit - 1)), highest = last - ((last - origin) & (unit - 1));
    *at = top ? highest : lowest;
    return lowest >= low && lowest <= last;
}

uint64_t gaps_take(struct gaps *gaps, uint64_t size, uint64_t unit, uint64_t origin, bool top)
{
    uint64_t at = 0;
    struct gap *gap = at_size(tree_at_or_above(&gaps->by_size, size, 0));
    for (int i = 0; gap && i < TRIES && !fit(gap, size, unit, origin, top, &at); i++)
        gap = at_size(tree_next(&gaps->by_size, &gap->by_size));
    if (gap && !fit(gap, size, unit, origin, top, &at))
        gap = at_size(tree_at_or_above(&gaps->by_size, size + unit - 1, 0));
    return gap && fit(gap, size, unit, origin, top, &at) && cut(gaps, gap, at, size) ? at : 0;
}
