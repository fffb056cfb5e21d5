/* tree.c: see tree.h. It is a treap: a search tree that random priorities keep balanced. */
#include "cpu/common/tree.h"

#include <stdbool.h>

static bool before(uint64_t key, uint64_t tie, const struct tree_node *node)
{
    return key < node->key || (key == node->key && tie < node->tie);
}

/* xorshift; quality hardly matters, only that programs cannot line up addresses with it by accident */
static uint32_t priority_next(void)
{
    static _Thread_local uint32_t x = 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return x;
}

/* Splits into nodes before (key, tie) and the others. */
static void split(struct tree_node *node, uint64_t key, uint64_t tie, struct tree_node **low, struct tree_node **high)
{
    while (node) {
        if (before(key, tie, node) || (key == node->key && tie == node->tie)) {
            *high = node;
            high = &node->left;
            node = node->left;
        } else {
            *low = node;
            low = &node->right;
            node = node->right;
        }
    }
    *low = *high = NULL;
}

static struct tree_node *join(struct tree_node *low, struct tree_node *high)
{
    struct tree_node *root = NULL, **at = &root;
    while (low && high) {
        if (low->priority > high->priority) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low ? low : high;
    return root;
}

void tree_insert(struct tree *tree, struct tree_node *node)
{
    node->priority = priority_next();
    struct tree_node **at = &tree->root;
    while (*at && (*at)->priority >= node->priority)
        at = before(node->key, node->tie, *at) ? &(*at)->left : &(*at)->right;
    split(*at, node->key, node->tie, &node->left, &node->right);
    *at = node;
}

void tree_remove(struct tree *tree, struct tree_node *node)
{
    struct tree_node **at = &tree->root;
    while (*at && *at != node)
        at = before(node->key, node->tie, *at) ? &(*at)->left : &(*at)->right;
    if (*at)
        *at = join(node->left, node->right);
}

struct tree_node *tree_at_or_above(const struct tree *tree, uint64_t key, uint64_t tie)
{
    struct tree_node *best = NULL;
    for (struct tree_node *node = tree->root; node;) {
        if (node->key > key || (node->key == key && node->tie >= tie)) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return best;
}

struct tree_node *tree_at_or_below(const struct tree *tree, uint64_t key, uint64_t tie)
{
    struct tree_node *best = NULL;
    for (struct tree_node *node = tree->root; node;) {
        if (before(key, tie, node)) {
            node = node->left;
        } else {
            best = node;
            node = node->right;
        }
    }
    return best;
}

struct tree_node *tree_first(const struct tree *tree)
{
    return tree_at_or_above(tree, 0, 0);
}

struct tree_node *tree_last(const struct tree *tree)
{
    return tree_at_or_below(tree, UINT64_MAX, UINT64_MAX);
}

struct tree_node *tree_next(const struct tree *tree, const struct tree_node *node)
{
    if (node->tie < UINT64_MAX)
        return tree_at_or_above(tree, node->key, node->tie + 1);
    return node->key < UINT64_MAX ? tree_at_or_above(tree, node->key + 1, 0) : NULL;
}
