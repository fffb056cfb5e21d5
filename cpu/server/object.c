/* object.c: the table of objects that forwarded calls make. See object.h. */
#include "cpu/server/object.h"

#include <stdlib.h>

enum { OBJECTS_MOST = SESSION_MAX_OBJECTS };

struct object {
    struct tree_node node;                /* of session.objects: by name */
    struct context *context;
    uint64_t handle;
};

static struct object *object_find(struct session *session, const struct object_kind *kind, uint64_t name)
{
    struct tree_node *node = tree_at_or_above(&session->objects[kind->kind].names, name, 0);
    return node && node->key == name ? TREE_OBJECT(node, struct object, node) : NULL;
}

CUresult object_add(struct session *session, struct context *context, const struct object_kind *kind, uint64_t handle,
                    uint64_t *name)
{
    struct objects *objects = &session->objects[kind->kind];
    uint64_t given = kind->value ? handle : ++objects->last;
    struct object *object = objects->count < OBJECTS_MOST && !object_find(session, kind, given)
                                ? calloc(1, sizeof *object) : NULL;
    if (!object) {
        kind->end(session->gpu, handle);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    object->node.key = *name = given;
    object->context = context;
    object->handle = handle;
    tree_insert(&objects->names, &object->node);
    objects->count++;
    return CUDA_SUCCESS;
}

CUresult object_use(struct session *session, const struct object_kind *kind, uint64_t name, uint64_t *handle)
{
    const struct object *object = object_find(session, kind, name);
    if (!object)
        return kind->missing;
    *handle = object->handle;
    return context_use(session, object->context);
}

static CUresult object_drop(struct session *session, const struct object_kind *kind, struct object *object)
{
    CUresult r = context_use(session, object->context);
    if (r == CUDA_SUCCESS)
        r = kind->end(session->gpu, object->handle);
    tree_remove(&session->objects[kind->kind].names, &object->node);
    session->objects[kind->kind].count--;
    free(object);
    return r;
}

CUresult object_end(struct session *session, const struct object_kind *kind, uint64_t name)
{
    struct object *object = object_find(session, kind, name);
    return object ? object_drop(session, kind, object) : kind->missing;
}

void objects_drop_all(struct session *session, struct context *context, const struct object_kind *kind)
{
    const struct tree *names = &session->objects[kind->kind].names;
    for (struct tree_node *next, *node = tree_first(names); node; node = next) {
        struct object *object = TREE_OBJECT(node, struct object, node);
        next = tree_next(names, node);
        if (object->context == context)
            object_drop(session, kind, object);
    }
}

uint64_t objects_count(const struct session *session, const struct object_kind *kind)
{
    return session->objects[kind->kind].count;
}
