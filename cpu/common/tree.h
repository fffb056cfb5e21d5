/*
 * tree.h: an intrusive search tree, ordered by (key, tie). Every operation takes O(log n) steps and no memory.
 *
 * The caller embeds a tree_node, sets key and tie, and protects the tree. No two nodes of a tree have the same key and
 * tie.
 */
#ifndef FLYT_COMMON_TREE_H
#define FLYT_COMMON_TREE_H

#include <stddef.h>
#include <stdint.h>

struct tree_node { struct tree_node *left, *right; uint64_t key, tie; uint32_t priority; };
struct tree { struct tree_node *root; };          /* NULL: empty */

void tree_insert(struct tree *, struct tree_node *);
/* Nothing happens when the node is not in the tree. */
void tree_remove(struct tree *, struct tree_node *);
/* The first node at (key, tie) or above; the last one at it or below. NULL: none. */
struct tree_node *tree_at_or_above(const struct tree *, uint64_t key, uint64_t tie);
struct tree_node *tree_at_or_below(const struct tree *, uint64_t key, uint64_t tie);
struct tree_node *tree_first(const struct tree *);
struct tree_node *tree_last(const struct tree *);
/* The node behind this one in the order. NULL: none. */
struct tree_node *tree_next(const struct tree *, const struct tree_node *);

/* The object that embeds the node as `member`; NULL for NULL. */
#define TREE_OBJECT(node, type, member) ((type *)tree_object(node, offsetof(type, member)))
static inline void *tree_object(struct tree_node *node, size_t offset)
{
    return node ? (char *)node - offset : NULL;
}

#endif
