/*
 * texture.c: texture and surface objects. The handle is that of the executor's table (softgpu/texture.h). An array that
 * goes takes the handles of its objects with it: kernels that use them then fail with an illegal address.
 *
 * Destroying an object does not wait, and programs do so right after a launch. So the executor's table keeps a
 * destroyed object until all launches that were queued before have ended. Launches are counted by epochs. Those that
 * have not ended are of this epoch or of the last. An epoch begins when an object was destroyed in this one and no
 * launch of the last is left. What was destroyed in the last epoch goes when no launch of it is left.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

static struct tree objects;
static struct {
    unsigned now;                            /* 0 or 1: which of the two is this epoch's */
    unsigned launches[2];                    /* queued or running */
    struct sgd_object *destroyed[2];         /* by next */
} epochs;

struct sgd_object *sgd_object_get(uint64_t handle, bool surface)
{
    struct sgd_object *o = TREE_OBJECT(tree_at_or_above(&objects, handle, 0), struct sgd_object, node);
    return o && o->handle == handle && o->surface == surface ? o : NULL;
}

static void leave_array(struct sgd_object *o)
{
    if (!o->back)
        return;
    *o->back = o->next;
    if (o->next)
        o->next->back = o->back;
    o->back = NULL;
}

static void advance(void)
{
    while (!epochs.launches[!epochs.now] && (epochs.destroyed[0] || epochs.destroyed[1])) {
        struct sgd_object *o = epochs.destroyed[!epochs.now];
        epochs.destroyed[!epochs.now] = NULL;
        for (struct sgd_object *next; o; o = next) {
            next = o->next;
            sg_texture_remove(o->handle);
            free(o);
        }
        if (epochs.destroyed[epochs.now])
            epochs.now = !epochs.now;
    }
}

unsigned sgd_textures_hold(void)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    epochs.launches[epochs.now]++;
    return epochs.now;
}

void sgd_textures_release(unsigned epoch)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!--epochs.launches[epoch])
        advance();
}

void sgd_object_retire(uint64_t handle) { sg_texture_retire(handle); }

void sgd_object_drop(struct sgd_object *o)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    tree_remove(&objects, &o->node);
    leave_array(o);
    o->next = epochs.destroyed[epochs.now];
    epochs.destroyed[epochs.now] = o;
    advance();
}

void sgd_textures_forget(struct sgd_context *c)
{
    for (struct tree_node *node = tree_first(&objects), *next; node; node = next) {
        struct sgd_object *o = TREE_OBJECT(node, struct sgd_object, node);
        next = tree_next(&objects, node);
        if (o->context == c)
            sgd_object_drop(o);
    }
}

/* The objects themselves stay until they are destroyed. */
void sgd_textures_orphan(struct sgd_array *array)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    while (array->objects) {
        sg_texture_remove(array->objects->handle);
        leave_array(array->objects);
    }
}

struct sgd_object *sgd_object_new(const struct sg_texture *t, struct sgd_array *array, uint64_t placed)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sgd_object *o = calloc(1, sizeof *o);
    if (o && (!placed || sg_texture_add_at(t, placed)))
        o->handle = placed ? placed : sg_texture_add(t);
    if (!o || !o->handle) {
        free(o);
        return NULL;
    }
    o->node = (struct tree_node){ .key = o->handle };
    tree_insert(&objects, &o->node);
    if (!array)
        return o;
    o->next = array->objects;
    o->back = &array->objects;
    if (o->next)
        o->next->back = &o->next;
    array->objects = o;
    return o;
}
