/* object.c: the table of objects that forwarded calls make. See object.h. */
#include "cpu/server/memory/object.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/server/tenant/charge.h"
#include "cpu/server/stream/late.h"

enum { OBJECTS_MOST = SESSION_MAX_OBJECTS };
#define NAMES_MOST (FLYT_ARRAY_SPACE - 1)

struct object {
    struct tree_node node;                /* of session.objects: by name */
    struct context *context;
    uint64_t handle;
    struct object_shape shape;
    uint64_t bytes;                       /* of the shape; 0: it has none */
    struct list lends;                    /* objects that belong to it */
    struct object *owner;                 /* whose it is; NULL: nobody's */
    struct list lent;                     /* in owner.lends */
    const struct object_kind *kind;
    struct late late;                     /* it has ended, and deferred launches may use it */
};

static struct object *object_find(struct session *session, const struct object_kind *kind, uint64_t name)
{
    struct tree_node *node = tree_at_or_above(&session->objects[kind->kind].names, name, 0);
    return node && node->key == name ? TREE_OBJECT(node, struct object, node) : NULL;
}

static CUresult shape_of(struct session *session, const struct object_kind *kind, struct object *object)
{
    const struct object_shape *shape = &object->shape;
    if (!kind->shape)
        return CUDA_SUCCESS;
    CUresult r = kind->shape(session->gpu, object->handle, &object->shape);
    if (r == CUDA_SUCCESS && (__builtin_mul_overflow(shape->row, shape->height, &object->bytes) ||
                              __builtin_mul_overflow(object->bytes, shape->depth, &object->bytes)))
        r = CUDA_ERROR_INVALID_VALUE;
    return r;
}

static uint64_t names_of(const struct object *object) { return object->bytes ? object->bytes : 1; }

/* Whether another object has the name, or a number that is to be one of this object's bytes. */
static bool name_taken(const struct objects *objects, uint64_t name, const struct object *object)
{
    struct tree_node *node = tree_at_or_below(&objects->names, name + names_of(object) - 1, 0);
    return node && (node->key >= name || names_of(TREE_OBJECT(node, struct object, node)) > name - node->key);
}

/* Into the table, under a name of its own, or under that which the client has placed. */
static CUresult object_enter(struct session *session, const struct object_kind *kind, struct object *object)
{
    struct objects *objects = &session->objects[kind->kind];
    const uint64_t placed = objects->placed;
    objects->placed = 0;
    CUresult r = shape_of(session, kind, object);
    if (r != CUDA_SUCCESS)
        return r;
    const uint64_t name = kind->value ? object->handle : placed ? placed : objects->last + 1;
    if (placed && name != placed)
        return CUDA_ERROR_ALREADY_MAPPED;
    if (objects->count >= OBJECTS_MOST || (!kind->value && (name > NAMES_MOST || object->bytes >= NAMES_MOST - name)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (name_taken(objects, name, object))
        return placed ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_OUT_OF_MEMORY;
    object->node.key = name;
    if (!kind->value && name + object->bytes > objects->last)
        objects->last = name + object->bytes;
    tree_insert(&objects->names, &object->node);
    objects->count++;
    return CUDA_SUCCESS;
}

static struct object *object_new(struct context *context, const struct object_kind *kind, uint64_t handle)
{
    struct object *object = calloc(1, sizeof *object);
    if (!object)
        return NULL;
    object->context = context;
    object->handle = handle;
    object->kind = kind;
    return object;
}

CUresult object_add(struct session *session, struct context *context, const struct object_kind *kind, uint64_t handle,
                    uint64_t *name)
{
    struct object *object = object_new(context, kind, handle);
    CUresult r = object ? object_enter(session, kind, object) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        free(object);
        kind->end(session->gpu, handle);
        return r;
    }
    *name = object->node.key;
    return CUDA_SUCCESS;
}

CUresult object_lend(struct session *session, const struct object_kind *owner_kind, uint64_t owner_name,
                     const struct object_kind *kind, uint64_t handle, uint64_t *name)
{
    struct object *owner = object_find(session, owner_kind, owner_name), *object;
    if (!owner)
        return owner_kind->missing;
    for (struct list *link = list_first(&owner->lends); link; link = list_next(&owner->lends, link))
        if ((object = LIST_OBJECT(link, struct object, lent))->kind == kind && object->handle == handle) {
            session->objects[kind->kind].placed = 0;
            *name = object->node.key;
            return CUDA_SUCCESS;
        }
    object = object_new(owner->context, kind, handle);
    CUresult r = object ? object_enter(session, kind, object) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        free(object);
        return r;
    }
    object->owner = owner;
    list_append(&owner->lends, &object->lent);
    *name = object->node.key;
    return CUDA_SUCCESS;
}

void object_name_next(struct session *session, enum kind kind, uint64_t name)
{
    session->objects[kind].placed = name;
}

CUresult object_look(struct session *session, const struct object_kind *kind, uint64_t name, uint64_t *handle)
{
    const struct object *object = object_find(session, kind, name);
    if (!object)
        return kind->missing;
    *handle = object->handle;
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

uint64_t object_handle(struct session *session, enum kind kind, uint64_t name)
{
    struct tree_node *node = tree_at_or_above(&session->objects[kind].names, name, 0);
    return node && node->key == name ? TREE_OBJECT(node, struct object, node)->handle : 0;
}

CUresult object_name(struct session *session, const struct object_kind *kind, uint64_t handle, uint64_t *name)
{
    const struct tree *names = &session->objects[kind->kind].names;
    for (struct tree_node *node = tree_first(names); node; node = tree_next(names, node))
        if (TREE_OBJECT(node, struct object, node)->handle == handle) {
            *name = node->key;
            return CUDA_SUCCESS;
        }
    return kind->missing;
}

bool object_place(struct session *session, enum kind kind, uint64_t number, struct object_place *place)
{
    struct tree_node *node = tree_at_or_below(&session->objects[kind].names, number, 0);
    const struct object *object = TREE_OBJECT(node, struct object, node);
    if (!object || number - node->key >= object->bytes)
        return false;
    const struct object_shape *shape = &object->shape;
    uint64_t at = number - node->key, line = at / shape->row;
    *place = (struct object_place){ object->handle, object->context, *shape,
                                    .x = at % shape->row, .y = line % shape->height, .z = line / shape->height };
    return true;
}

/* ---- the end ---- */

static void object_out(struct session *session, struct object *object)
{
    struct objects *objects = &session->objects[object->kind->kind];
    tree_remove(&objects->names, &object->node);
    objects->count--;
}

/* Nobody finds it, and what it lends, any more. The caller ends and frees it. */
static void object_take_out(struct session *session, struct object *object)
{
    for (struct list *link; (link = list_first(&object->lends));) {
        struct object *lent = LIST_OBJECT(link, struct object, lent);
        list_remove(link);
        object_out(session, lent);
        free(lent);
    }
    object_out(session, object);
}

static CUresult object_drop(struct session *session, const struct object_kind *kind, struct object *object)
{
    CUresult r = context_use(session, object->context);
    object_take_out(session, object);
    if (r == CUDA_SUCCESS)
        r = kind->end(session->gpu, object->handle);
    free(object);
    return r;
}

/* What it is made of may be given to another one only now: until then it counts. */
static void end_late(struct session *session, struct late *late, bool ending)
{
    struct object *object = LIST_OBJECT(&late->link, struct object, late.link);
    (void)ending;
    session->objects[object->kind->kind].count--;
    if (context_use(session, object->context) == CUDA_SUCCESS)
        object->kind->end(session->gpu, object->handle);
    free(object);
}

CUresult object_end(struct session *session, const struct object_kind *kind, uint64_t name)
{
    struct object *object = object_find(session, kind, name);
    if (!object || object->owner)
        return kind->missing;
    if (!late_needed(session, object->context))
        return object_drop(session, kind, object);
    object_take_out(session, object);
    session->objects[kind->kind].count++;
    late_add(session, &object->late, object->context, end_late);
    return CUDA_SUCCESS;
}

CUresult object_charge(struct session *session, struct charge *charge, const struct object_kind *kind, uint64_t handle)
{
    CUresult r = charge_end(session, charge);
    if (r == CUDA_SUCCESS)
        return r;
    kind->end(session->gpu, handle);
    charge_end(session, charge);
    return r;
}

CUresult object_end_charged(struct session *session, const struct object_kind *kind, uint64_t name)
{
    pthread_mutex_lock(&session->lock);
    struct object *object = object_find(session, kind, name);
    if (object && object->owner)
        object = NULL;
    if (object)
        object_take_out(session, object);
    pthread_mutex_unlock(&session->lock);
    if (!object)
        return kind->missing;
    CUresult r = context_use(session, object->context);
    if (r == CUDA_SUCCESS) {
        struct charge charge = charge_begin(session, object->context);
        r = kind->end(session->gpu, object->handle);
        charge_end(session, &charge);
        charge_finish(session);
    }
    free(object);
    return r;
}

void objects_drop_all(struct session *session, struct context *context, const struct object_kind *kind)
{
    const struct tree *names = &session->objects[kind->kind].names;
    uint64_t from = 0;
    for (struct tree_node *node; (node = tree_at_or_above(names, from, 0));) {
        struct object *object = TREE_OBJECT(node, struct object, node);
        from = node->key + 1;
        if (object->context == context && !object->owner)
            object_drop(session, kind, object);
    }
}

uint64_t objects_count(const struct session *session, const struct object_kind *kind)
{
    return session->objects[kind->kind].count;
}
