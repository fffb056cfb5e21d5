/* extents.c: disjoint address ranges, in a tree by their base. */
#include "softgpu/driver/machine/machine.h"

static struct sgd_extent *of(struct tree_node *node) { return TREE_OBJECT(node, struct sgd_extent, node); }

void *sgd_extents_find(const struct sgd_extents *set, uint64_t address)
{
    struct sgd_extent *e = of(tree_at_or_below(&set->tree, address, 0));
    return e && address - e->base < e->size ? e : NULL;
}

void *sgd_extents_lower(const struct sgd_extents *set, uint64_t address)
{
    struct sgd_extent *e = sgd_extents_find(set, address);
    return e ? e : of(tree_at_or_above(&set->tree, address, 0));
}

void *sgd_extents_next(const struct sgd_extents *set, const struct sgd_extent *e)
{
    return of(tree_next(&set->tree, &e->node));
}

bool sgd_extents_add(struct sgd_extents *set, struct sgd_extent *e)
{
    const struct sgd_extent *other = sgd_extents_lower(set, e->base);
    if (!e->size || (other && other->base < e->base + e->size))
        return false;
    e->node.key = e->base;
    e->node.tie = 0;
    tree_insert(&set->tree, &e->node);
    return true;
}

void sgd_extents_remove(struct sgd_extents *set, struct sgd_extent *e) { tree_remove(&set->tree, &e->node); }
