/*
 * array_state.h: what this process keeps of each array, for array.c, and for array_move.c, which makes them again at
 * another server.
 */
#ifndef FLYT_CLIENT_CORE_ARRAY_STATE_H
#define FLYT_CLIENT_CORE_ARRAY_STATE_H

#include <pthread.h>

#include "cpu/client/core/api_copy.h"
#include "cpu/common/tree.h"

struct array {
    struct tree_node node; /* by handle */
    core_context *context;
    struct core_array_shape shape;
    core_array owner;   /* the mipmapped array of which it is a level; 0: none */
    unsigned levels;    /* of a mipmapped array; else 0 */
    core_array level[]; /* 0: the program has not asked for this level */
};

struct array_tables {
    pthread_mutex_t lock;
    struct tree arrays, mipmaps;
    uint64_t array_count, mipmap_count;
};
extern struct array_tables array_tables;

static inline struct array *array_of(struct tree_node *node) { return TREE_OBJECT(node, struct array, node); }

/* Asks the server for one. levels: 0: a plain array. */
int array_make(core_context *, const struct core_array_shape *, unsigned levels, core_array *out);

#endif
