/*
 * array.c: CUDA arrays and mipmapped arrays.
 *
 * The server makes them and gives their names, which are the handles that programs hold. This side keeps their shapes,
 * so that copies are checked before they are sent. The bytes of an array have numbers (FLYT_ARRAY_SPACE in
 * cpu_rpc_prot.x): rows, slices and layers without gaps. So a side of a copy that is an array is a box like any other,
 * and the copy engine treats both alike.
 */
#include "array.h"
#include "array_state.h"

#include <pthread.h>
#include <stdlib.h>

#include "api/driver/types.h"
#include "api/forward/core.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/stream/context.h"
#include "cpu/common/cancel.h"
#include "cpu/common/lock.h"
#include "cpu/common/texel.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

/* Of CUDA_ARRAY3D_DESCRIPTOR: their layers do not become fewer from level to level. */
enum { NAME_SHIFT = 37 };             /* an array's bytes have the numbers behind its own: no array has so many */
enum { FLAG_LAYERED = 1, FLAG_SURFACE = 2, FLAG_CUBEMAP = 4, FLAG_GATHER = 8, LEVELS_MOST = 32 };
enum {
    FLAG_DEPTH_TEXTURE = 0x10,
    FLAG_COLOR_ATTACHMENT = 0x20,
    FLAG_SPARSE = 0x40,
    FLAG_DEFERRED = 0x80,
    FLAG_VIDEO = 0x100,
    FLAGS_UNSUPPORTED = FLAG_DEPTH_TEXTURE | FLAG_COLOR_ATTACHMENT | FLAG_SPARSE | FLAG_DEFERRED | FLAG_VIDEO
};

#define all array_tables
struct array_tables all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct array *find(const struct tree *tree, core_array handle)
{
    FLYT_ASSERT_HELD(&all.lock);
    struct tree_node *node = tree_at_or_below(tree, handle, 0);
    return node && node->key == handle ? array_of(node) : NULL;
}

static void enter(struct array *array)
{
    FLYT_ASSERT_HELD(&all.lock);
    tree_insert(array->levels ? &all.mipmaps : &all.arrays, &array->node);
    *(array->levels ? &all.mipmap_count : &all.array_count) += 1;
}

static void leave(struct array *array)
{
    FLYT_ASSERT_HELD(&all.lock);
    tree_remove(array->levels ? &all.mipmaps : &all.arrays, &array->node);
    *(array->levels ? &all.mipmap_count : &all.array_count) -= 1;
    free(array);
}

/* ---- making ---- */

/* Formats whose arrays are not made of rows of elements, and one of 10, 10, 10 and 2 bits. */
static bool special(int format)
{
    return (format >= CU_AD_FORMAT_P010 && format <= CU_AD_FORMAT_Y410) ||
           (format >= CU_AD_FORMAT_NV12 && format <= CU_AD_FORMAT_YUV444_16bit_SemiPlanar) ||
           format == CU_AD_FORMAT_UNORM_INT_101010_2;
}

static int shape_check(struct core_array_shape *shape)
{
    const bool is_special = special(shape->format);
    if (!is_special && !texel_size(shape->format, shape->channels))
        return CORE_INVALID_VALUE; /* no format has that number, or it has other channels */
    if (texel_block(shape->format) && (!shape->height || shape->flags & FLAG_SURFACE))
        return CORE_INVALID_VALUE; /* blocks have two dimensions, and no kernel can write a texel of one */
    if (shape->flags & FLAG_CUBEMAP && shape->width != shape->height)
        return CORE_INVALID_VALUE;
    if (shape->flags & FLAG_GATHER && (!shape->height || (shape->depth && !(shape->flags & FLAG_LAYERED))))
        return CORE_INVALID_VALUE; /* of two dimensions only */
    if (shape->flags & FLAGS_UNSUPPORTED) {
        core_unsupported("an array that is sparse, or for graphics or video");
        return CORE_NOT_SUPPORTED;
    }
    if (!is_special) {
        shape->texel = texel_size(shape->format, shape->channels);
        return CORE_OK;
    }
    core_unsupported("an array of a planar format, or of UNORM_INT_101010_2");
    return CORE_NOT_SUPPORTED;
}

static struct array *array_new(core_context *context, const struct core_array_shape *shape, unsigned levels)
{
    struct array *array = calloc(1, sizeof *array + levels * sizeof *array->level);
    if (!array)
        return NULL;
    array->context = context;
    array->shape = *shape;
    array->levels = levels;
    return array;
}

/* Servers number their arrays. Where there are several, each array gets a number here that no other has: the next one
   that the server makes. Held until it has been made. */
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

static int name_next(core_context *c, int kind)
{
    static uint64_t names;
    uint64_t name = ++names << NAME_SHIFT;
    place_args args = { .context = c->wire, .kind = kind, .numbers = { 1, &name } };
    return core_session.hello.capabilities & FLYT_CAP_PLACES
               ? wire_send(c->session, FLYT_PLACE, (xdrproc_t)xdr_place_args, &args)
               : CORE_NOT_SUPPORTED;
}

static int make_named(core_context *c, const struct CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels, core_array *out)
{
    pthread_mutex_lock(&naming);
    int code = name_next(c, levels ? FLYT_PLACE_MIPMAP : FLYT_PLACE_ARRAY);
    if (!code)
        code = levels ? core_mipmapped_array_create(c, out, wanted, levels) : core_array3d_create(c, out, wanted);
    pthread_mutex_unlock(&naming);
    return code;
}

static int level_named(core_context *c, core_array *out, core_array mipmap, unsigned level)
{
    pthread_mutex_lock(&naming);
    int code = name_next(c, FLYT_PLACE_ARRAY);
    if (!code)
        code = core_mipmapped_array_get_level(c, out, mipmap, level);
    pthread_mutex_unlock(&naming);
    return code;
}

int array_make(core_context *context, const struct core_array_shape *shape, unsigned levels, core_array *out)
{
    const struct CUDA_ARRAY3D_DESCRIPTOR wanted = { shape->width,    shape->height,
                                                    shape->depth,    (CUarray_format)shape->format,
                                                    shape->channels, shape->flags };
    if (session_several())
        return make_named(context, &wanted, levels, out);
    return levels ? core_mipmapped_array_create(context, out, &wanted, levels)
                  : core_array3d_create(context, out, &wanted);
}

/* Memory that this program holds and does not use counts against the tenant's limit: it goes back before the server's
   refusal is believed. levels: 0: a plain array. */
static int create(core_context *context, const struct core_array_shape *wanted, unsigned levels, core_array *out)
{
    struct core_array_shape shape = *wanted;
    int code = context_enter(context);
    if (code || (code = shape_check(&shape)))
        return code;
    struct array *array = array_new(context, &shape, levels);
    if (!array)
        return CORE_OUT_OF_MEMORY;
    code = array_make(context, &shape, levels, out);
    if (code == CORE_OUT_OF_MEMORY) {
        memory_give_back();
        code = array_make(context, &shape, levels, out);
    }
    if (code) {
        free(array);
        return code;
    }
    array->node.key = *out;
    pthread_mutex_lock(&all.lock);
    enter(array);
    pthread_mutex_unlock(&all.lock);
    return CORE_OK;
}

int core_array_create(core_context *context, const struct core_array_shape *shape, core_array *out)
{
    CANCEL_DEFERRED;
    return create(context, shape, 0, out);
}

static size_t half(size_t size, unsigned times) { return !size || size >> times ? size >> times : 1; }

static struct core_array_shape level_shape(const struct core_array_shape *whole, unsigned level)
{
    struct core_array_shape shape = *whole;
    shape.width = half(whole->width, level);
    shape.height = half(whole->height, level);
    if (!(whole->flags & (FLAG_LAYERED | FLAG_CUBEMAP)))
        shape.depth = half(whole->depth, level);
    return shape;
}

/* As many levels as there are, at most: the driver does the same (reference, cuMipmappedArrayCreate). */
static unsigned levels_of(const struct core_array_shape *shape, unsigned wanted)
{
    size_t largest = shape->width > shape->height ? shape->width : shape->height;
    if (!(shape->flags & (FLAG_LAYERED | FLAG_CUBEMAP)) && shape->depth > largest)
        largest = shape->depth;
    unsigned most = 1;
    while (most < LEVELS_MOST && largest >> most)
        most++;
    return wanted > most ? most : wanted ? wanted : 1;
}

int core_mipmap_create(core_context *context, const struct core_array_shape *shape, unsigned levels, core_array *out)
{
    CANCEL_DEFERRED;
    return create(context, shape, levels_of(shape, levels), out);
}

int core_mipmap_level(core_array handle, unsigned level, core_array *out)
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&all.lock);
    const struct array *mipmap = find(&all.mipmaps, handle);
    int code = !mipmap ? CORE_INVALID_HANDLE : level >= mipmap->levels ? CORE_INVALID_VALUE : CORE_OK;
    core_context *context = code ? NULL : mipmap->context;
    *out = code ? 0 : mipmap->level[level];
    struct array *array = NULL;
    if (!code && !*out) {
        const struct core_array_shape shape = level_shape(&mipmap->shape, level);
        array = array_new(context, &shape, 0);
        code = array ? CORE_OK : CORE_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&all.lock);
    if (code || *out)
        return code;
    code = session_several() ? level_named(context, out, handle, level)
                             : core_mipmapped_array_get_level(context, out, handle, level);
    pthread_mutex_lock(&all.lock);
    struct array *owner = code ? NULL : find(&all.mipmaps, handle);
    if (owner && !owner->level[level]) {
        array->owner = handle;
        array->node.key = owner->level[level] = *out;
        enter(array);
        array = NULL;
    }
    pthread_mutex_unlock(&all.lock);
    free(array); /* another thread was quicker, or destroyed the whole */
    return code || owner ? code : CORE_INVALID_HANDLE;
}

/* ---- ending ---- */

/* Out of the tables; what works on it is waited for. *context: whose it was. */
static int take_out(struct tree *tree, core_array handle, core_context **context)
{
    int code = core_enter();
    if (code)
        return code;
    pthread_mutex_lock(&all.lock);
    struct array *array = find(tree, handle);
    *context = array && !array->owner ? array->context : NULL;
    if (*context) {
        for (unsigned i = 0; i < array->levels; i++)
            if (array->level[i])
                leave(find(&all.arrays, array->level[i]));
        leave(array);
    }
    pthread_mutex_unlock(&all.lock);
    return *context ? memory_settle(*context) : CORE_INVALID_HANDLE;
}

int core_array_free(core_array handle)
{
    CANCEL_DEFERRED;
    core_context *context;
    int code = take_out(&all.arrays, handle, &context);
    return code ? code : core_array_destroy(context, handle);
}

int core_mipmap_free(core_array handle)
{
    CANCEL_DEFERRED;
    core_context *context;
    int code = take_out(&all.mipmaps, handle, &context);
    return code ? code : core_mipmapped_array_destroy(context, handle);
}

static void forget(struct tree *tree, const core_context *context)
{
    for (struct tree_node *next, *node = tree_first(tree); node; node = next) {
        next = tree_next(tree, node);
        if (array_of(node)->context == context)
            leave(array_of(node));
    }
}

void array_forget_context(core_context *context)
{
    pthread_mutex_lock(&all.lock);
    forget(&all.arrays, context);
    forget(&all.mipmaps, context);
    pthread_mutex_unlock(&all.lock);
}

uint64_t arrays_count(void)
{
    pthread_mutex_lock(&all.lock);
    uint64_t count = all.array_count;
    pthread_mutex_unlock(&all.lock);
    return count;
}

uint64_t mipmaps_count(void)
{
    pthread_mutex_lock(&all.lock);
    uint64_t count = all.mipmap_count;
    pthread_mutex_unlock(&all.lock);
    return count;
}

/* ---- questions ---- */

int core_array_shape(core_array handle, struct core_array_shape *shape)
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&all.lock);
    const struct array *array = find(&all.arrays, handle);
    if (array)
        *shape = array->shape;
    pthread_mutex_unlock(&all.lock);
    return array ? CORE_OK : CORE_INVALID_HANDLE;
}

int core_mipmap_shape(core_array handle, struct core_array_shape *shape, unsigned *levels)
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&all.lock);
    const struct array *array = find(&all.mipmaps, handle);
    if (array) {
        *shape = array->shape;
        *levels = array->levels;
    }
    pthread_mutex_unlock(&all.lock);
    return array ? CORE_OK : CORE_INVALID_HANDLE;
}

/* ---- as a side of a copy ---- */

static size_t at_least_one(size_t size) { return size ? size : 1; }
static size_t row_of(const struct array *array)
{
    return texel_elements(array->shape.format, array->shape.width) * array->shape.texel;
}
static size_t rows_of(const struct array *array)
{
    return texel_elements(array->shape.format, at_least_one(array->shape.height));
}

static bool fits(const struct array *array, const size_t at[3], const struct core_extent *extent)
{
    const size_t most[3] = { row_of(array), rows_of(array), at_least_one(array->shape.depth) };
    const size_t size[3] = { extent->width, extent->height, extent->depth };
    for (int k = 0; k < 3; k++)
        if (at[k] > most[k] || size[k] > most[k] - at[k])
            return false;
    return true;
}

int core_array_box(core_array handle, const size_t at[3], const struct core_extent *extent, struct core_box *box)
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&all.lock);
    const struct array *array = find(&all.arrays, handle);
    int code = !array ? CORE_INVALID_HANDLE : fits(array, at, extent) ? CORE_OK : CORE_INVALID_VALUE;
    if (!code) {
        size_t row = row_of(array), height = rows_of(array);
        *box = (struct core_box){ FLYT_ARRAY_SPACE + handle + (at[2] * height + at[1]) * row + at[0], row, height };
    }
    pthread_mutex_unlock(&all.lock);
    return code;
}

bool array_address(uint64_t address) { return address >= FLYT_ARRAY_SPACE; }

/* The array that has this number, and the number's place in it. NULL: none. */
static const struct array *array_at(uint64_t address, size_t at[3])
{
    FLYT_ASSERT_HELD(&all.lock);
    if (!array_address(address))
        return NULL;
    uint64_t number = address - FLYT_ARRAY_SPACE;
    const struct array *array = array_of(tree_at_or_below(&all.arrays, number, 0));
    if (!array)
        return NULL;
    size_t row = row_of(array), height = rows_of(array);
    uint64_t line = (number - array->node.key) / row;
    at[0] = (number - array->node.key) % row;
    at[1] = line % height;
    at[2] = line / height;
    return at[2] < at_least_one(array->shape.depth) ? array : NULL;
}

bool core_array_at(uint64_t address, core_array *handle, size_t at[3])
{
    CANCEL_DEFERRED;
    pthread_mutex_lock(&all.lock);
    const struct array *array = array_at(address, at);
    if (array)
        *handle = array->node.key;
    pthread_mutex_unlock(&all.lock);
    return array != NULL;
}

int array_check(uint64_t address, const struct core_extent *extent, core_context **owner)
{
    size_t at[3];
    pthread_mutex_lock(&all.lock);
    const struct array *array = array_at(address, at);
    bool whole = array && fits(array, at, extent);
    if (whole)
        *owner = array->context;
    pthread_mutex_unlock(&all.lock);
    return whole ? CORE_OK : CORE_INVALID_VALUE;
}
