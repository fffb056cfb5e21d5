/*
 * texture.c: what of texture and surface objects is not only handed on. The memory that one is made of is the
 * program's. What each was made from is kept, so that a session that moves makes it again. Kernels and the program have
 * the values that the old server's driver chose, so the client says them to the new server (PLACE).
 */
#include <pthread.h>
#include <stdlib.h>

#include "api/driver/types.h"
#include "api/forward/core.h"
#include "cpu/common/cancel.h"
#include "cpu/common/texel.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/code/texture.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/common/tree.h"

struct kept_object {
    struct tree_node node;                   /* key: the value; tie: of tie_of */
    core_context *context;
    struct CUDA_RESOURCE_DESC from;
    struct CUDA_TEXTURE_DESC how;            /* of a texture */
    struct CUDA_RESOURCE_VIEW_DESC view;
    bool has_view;
    bool gone;                               /* no server has it: its array had ended when the session moved */
};

static struct {
    pthread_mutex_t lock;
    struct tree objects;
    uint64_t count[2];                       /* textures, surfaces */
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct kept_object *object_of(struct tree_node *node) { return TREE_OBJECT(node, struct kept_object, node); }
static bool is_surface(const struct kept_object *o) { return o->node.tie & 1; }
/* Drivers of two servers may choose the same value. */
static uint64_t tie_of(const core_context *c, bool surface) { return 2 * (uint64_t)c->session->number + surface; }

/* ---- making and ending ---- */

/* The server's driver sees pieces of memory, and an allocation is a part of one (memory.c). */
static bool memory_fits(const struct CUDA_RESOURCE_DESC *from)
{
    if (from->resType == CU_RESOURCE_TYPE_LINEAR)
        return address_covers(from->res.linear.devPtr, 1);       /* it may be longer than the allocation, as natively */
    if (from->resType != CU_RESOURCE_TYPE_PITCH2D)
        return true;
    size_t width = from->res.pitch2D.width, height = from->res.pitch2D.height, pitch = from->res.pitch2D.pitchInBytes;
    size_t texel = texel_size((int)from->res.pitch2D.format, from->res.pitch2D.numChannels), row, bytes;
    return width && height && texel && !__builtin_mul_overflow(width, texel, &row) && pitch >= row &&
           !__builtin_mul_overflow(height - 1, pitch, &bytes) && !__builtin_add_overflow(bytes, row, &bytes) &&
           address_covers(from->res.pitch2D.devPtr, bytes);
}

/* In the tables; without them it would be left behind, so there is none without memory for it. */
static int enter(core_context *context, uint64_t value, bool surface, const struct kept_object *made,
                 int (*end)(core_context *, uint64_t))
{
    struct kept_object *o = malloc(sizeof *o);
    if (!o) {
        end(context, value);
        return CORE_OUT_OF_MEMORY;
    }
    *o = *made;
    o->node = (struct tree_node){ .key = value, .tie = tie_of(context, surface) };
    o->context = context;
    pthread_mutex_lock(&all.lock);
    tree_insert(&all.objects, &o->node);
    all.count[surface]++;
    pthread_mutex_unlock(&all.lock);
    return CORE_OK;
}

static void leave(struct kept_object *o)
{
    tree_remove(&all.objects, &o->node);
    all.count[is_surface(o)]--;
    free(o);
}

/* Takes it out of the tables. True: no server has it. */
static bool take_out(const core_context *context, uint64_t value, bool surface)
{
    pthread_mutex_lock(&all.lock);
    uint64_t tie = context ? tie_of(context, surface) : surface;
    struct tree_node *node = tree_at_or_above(&all.objects, value, tie);
    struct kept_object *o = node && node->key == value && node->tie == tie ? object_of(node) : NULL;
    bool gone = o && o->gone;
    if (o)
        leave(o);
    pthread_mutex_unlock(&all.lock);
    return gone;
}

int core_texture_create(core_context *context, uint64_t *texture, const struct CUDA_RESOURCE_DESC *from,
                        const struct CUDA_TEXTURE_DESC *how, const struct CUDA_RESOURCE_VIEW_DESC *view)
{
    CANCEL_DEFERRED;
    if (!texture || !from || !how || !memory_fits(from))
        return CORE_INVALID_VALUE;
    int code = core_tex_object_create(context, texture, from, how, view);
    if (code)
        return code;
    struct kept_object made = { .from = *from, .how = *how, .has_view = view != NULL };
    if (view)
        made.view = *view;
    return enter(context, *texture, false, &made, core_tex_object_destroy);
}

int core_texture_destroy(core_context *context, uint64_t texture)
{
    CANCEL_DEFERRED;
    if (take_out(context, texture, false))
        return CORE_OK;
    int code = core_tex_object_destroy(context, texture);
    return code == CORE_INVALID_VALUE ? CORE_OK : code; /* NVIDIA's driver takes any number for a texture */
}

int core_surface_create(core_context *context, uint64_t *surface, const struct CUDA_RESOURCE_DESC *from)
{
    CANCEL_DEFERRED;
    if (!surface || !from)
        return CORE_INVALID_VALUE;
    int code = core_surf_object_create(context, surface, from);
    return code ? code
                : enter(context, *surface, true, &(struct kept_object){ .from = *from }, core_surf_object_destroy);
}

int core_surface_destroy(core_context *context, uint64_t surface)
{
    CANCEL_DEFERRED;
    return take_out(context, surface, true) ? CORE_OK : core_surf_object_destroy(context, surface);
}

void textures_forget_context(core_context *context)
{
    pthread_mutex_lock(&all.lock);
    for (struct tree_node *next, *node = tree_first(&all.objects); node; node = next) {
        next = tree_next(&all.objects, node);
        if (object_of(node)->context == context)
            leave(object_of(node));
    }
    pthread_mutex_unlock(&all.lock);
}

uint64_t textures_count(void)
{
    pthread_mutex_lock(&all.lock);
    uint64_t count = all.count[false];
    pthread_mutex_unlock(&all.lock);
    return count;
}

uint64_t surfaces_count(void)
{
    pthread_mutex_lock(&all.lock);
    uint64_t count = all.count[true];
    pthread_mutex_unlock(&all.lock);
    return count;
}

/* ---- moving to another server; no other thread makes calls meanwhile ---- */

static bool resource_is_there(const struct kept_object *o)
{
    struct core_array_shape shape;
    unsigned levels;
    if (o->from.resType == CU_RESOURCE_TYPE_ARRAY)
        return !core_array_shape(o->from.res.array.hArray, &shape);
    if (o->from.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        return !core_mipmap_shape(o->from.res.mipmap.hMipmappedArray, &shape, &levels);
    return true;
}

static int object_restore(struct move *move, const struct kept_object *o)
{
    const char *name = is_surface(o) ? "surface" : "texture";
    uint64_t value = 0;
    int code = move_place(move, o->context, is_surface(o) ? FLYT_PLACE_SURFACE : FLYT_PLACE_TEXTURE, o->node.key);
    if (!code)
        code = is_surface(o) ? core_surf_object_create(o->context, &value, &o->from)
                             : core_tex_object_create(o->context, &value, &o->from, &o->how,
                                                      o->has_view ? &o->view : NULL);
    if (code)
        return move_refuse(move, code, "the new server does not make the %s 0x%llx (error %d)", name,
                           (unsigned long long)o->node.key, code);
    return value == o->node.key ? CORE_OK
                                : move_refuse(move, 0, "the %s 0x%llx would be 0x%llx at the new server", name,
                                              (unsigned long long)o->node.key, (unsigned long long)value);
}

static int objects_restore(struct move *move, bool surfaces)
{
    int code = CORE_OK;
    for (struct tree_node *node = tree_first(&all.objects); node && !code; node = tree_next(&all.objects, node)) {
        const struct kept_object *o = object_of(node);
        if (is_surface(o) == surfaces)
            code = !o->gone && resource_is_there(o) ? object_restore(move, o)
                                                    : move_place(move, o->context, FLYT_PLACE_NONE, o->node.key);
    }
    return code;
}

int texture_restore(struct move *move) { return objects_restore(move, false); }
int surface_restore(struct move *move) { return objects_restore(move, true); }

/* What looks at an array that has ended can only be destroyed. The new server may give the array's name to another. */
void textures_moved(struct move *move, bool moved)
{
    (void)move;
    for (struct tree_node *node = moved ? tree_first(&all.objects) : NULL; node; node = tree_next(&all.objects, node))
        object_of(node)->gone = object_of(node)->gone || !resource_is_there(object_of(node));
}
