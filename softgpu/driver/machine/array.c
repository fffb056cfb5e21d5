/*
 * array.c: CUDA arrays.
 *
 * An array is a block of device memory of the context: rows at a fixed pitch, layers and depth behind each other. Its
 * address is given to nobody; copies come through calls/copy.c, kernels through the objects of texture.c. Formats: the
 * eight plain ones, the normalized ones, compressed blocks. No sparse arrays, no planes. A mipmapped array
 * is one piece of memory too, in which the levels follow each other (sg_texture_level); each level is an array whose
 * memory is the whole's.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

static const unsigned known_flags =
    CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;
static struct sgd_array *arrays;

bool sgd_array_format(CUarray_format asked, unsigned channels, struct sg_texture *t)
{
    /* unit: integers that are read as 0 … 1 or -1 … 1 in any case */
    static const struct { uint8_t asked, channels, format; bool unit, srgb; } formats[] = {
        { CU_AD_FORMAT_UNSIGNED_INT8, 0, SG_TEXEL_U8, false, false },
        { CU_AD_FORMAT_UNSIGNED_INT16, 0, SG_TEXEL_U16, false, false },
        { CU_AD_FORMAT_UNSIGNED_INT32, 0, SG_TEXEL_U32, false, false },
        { CU_AD_FORMAT_SIGNED_INT8, 0, SG_TEXEL_S8, false, false },
        { CU_AD_FORMAT_SIGNED_INT16, 0, SG_TEXEL_S16, false, false },
        { CU_AD_FORMAT_SIGNED_INT32, 0, SG_TEXEL_S32, false, false },
        { CU_AD_FORMAT_HALF, 0, SG_TEXEL_F16, false, false },
        { CU_AD_FORMAT_FLOAT, 0, SG_TEXEL_F32, false, false },
        { CU_AD_FORMAT_UNORM_INT8X1, 1, SG_TEXEL_U8, true, false },
        { CU_AD_FORMAT_UNORM_INT8X2, 2, SG_TEXEL_U8, true, false },
        { CU_AD_FORMAT_UNORM_INT8X4, 4, SG_TEXEL_U8, true, false },
        { CU_AD_FORMAT_UNORM_INT16X1, 1, SG_TEXEL_U16, true, false },
        { CU_AD_FORMAT_UNORM_INT16X2, 2, SG_TEXEL_U16, true, false },
        { CU_AD_FORMAT_UNORM_INT16X4, 4, SG_TEXEL_U16, true, false },
        { CU_AD_FORMAT_SNORM_INT8X1, 1, SG_TEXEL_S8, true, false },
        { CU_AD_FORMAT_SNORM_INT8X2, 2, SG_TEXEL_S8, true, false },
        { CU_AD_FORMAT_SNORM_INT8X4, 4, SG_TEXEL_S8, true, false },
        { CU_AD_FORMAT_SNORM_INT16X1, 1, SG_TEXEL_S16, true, false },
        { CU_AD_FORMAT_SNORM_INT16X2, 2, SG_TEXEL_S16, true, false },
        { CU_AD_FORMAT_SNORM_INT16X4, 4, SG_TEXEL_S16, true, false },
        { CU_AD_FORMAT_BC1_UNORM, 4, SG_TEXEL_BC1, false, false },
        { CU_AD_FORMAT_BC1_UNORM_SRGB, 4, SG_TEXEL_BC1, false, true },
        { CU_AD_FORMAT_BC2_UNORM, 4, SG_TEXEL_BC2, false, false },
        { CU_AD_FORMAT_BC2_UNORM_SRGB, 4, SG_TEXEL_BC2, false, true },
        { CU_AD_FORMAT_BC3_UNORM, 4, SG_TEXEL_BC3, false, false },
        { CU_AD_FORMAT_BC3_UNORM_SRGB, 4, SG_TEXEL_BC3, false, true },
        { CU_AD_FORMAT_BC4_UNORM, 1, SG_TEXEL_BC4_U, false, false },
        { CU_AD_FORMAT_BC4_SNORM, 1, SG_TEXEL_BC4_S, false, false },
        { CU_AD_FORMAT_BC5_UNORM, 2, SG_TEXEL_BC5_U, false, false },
        { CU_AD_FORMAT_BC5_SNORM, 2, SG_TEXEL_BC5_S, false, false },
        { CU_AD_FORMAT_BC6H_UF16, 3, SG_TEXEL_BC6_U, false, false },
        { CU_AD_FORMAT_BC6H_SF16, 3, SG_TEXEL_BC6_S, false, false },
        { CU_AD_FORMAT_BC7_UNORM, 4, SG_TEXEL_BC7, false, false },
        { CU_AD_FORMAT_BC7_UNORM_SRGB, 4, SG_TEXEL_BC7, false, true },
    };
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        if ((unsigned)asked != formats[k].asked)
            continue;
        t->format = formats[k].format;
        t->channels = (uint8_t)channels;
        t->unit = formats[k].unit;
        t->srgb = formats[k].srgb;
        return formats[k].channels ? channels == formats[k].channels : channels == 1 || channels == 2 || channels == 4;
    }
    return false;
}

struct sgd_array *sgd_array_get(CUarray handle) { return sgd_handle_get(SGD_ARRAY, handle); }

/* Extents against what device attributes say (numbers of CUdevice_attribute: the reference names them so). */
static bool fits(const struct sgd_device *d, const CUDA_ARRAY3D_DESCRIPTOR *a)
{
    bool layered = a->Flags & CUDA_ARRAY3D_LAYERED, cube = a->Flags & CUDA_ARRAY3D_CUBEMAP;
    int width, height = 0, depth = 0;
    if (cube) {
        width = height = sgd_attribute(d, layered ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH
                                                  : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH);
        depth = layered ? sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS) : 6;
        if (a->Width != a->Height || a->Depth % 6 || !a->Depth || (!layered && a->Depth != 6))
            return false;
    } else if (layered) {
        width = sgd_attribute(d, a->Height ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH
                                           : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH);
        height = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT);
        depth = sgd_attribute(d, a->Height ? CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS
                                           : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS);
        if (!a->Depth)
            return false;
    } else if (a->Depth) {
        width = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH);
        height = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT);
        depth = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH);
        if (!a->Height)
            return false;
    } else if (a->Height) {
        width = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH);
        height = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT);
    } else                                               /* elsewhere surfaces may be as large as textures */
        width = sgd_attribute(d, a->Flags & CUDA_ARRAY3D_SURFACE_LDST ? CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH
                                                                      : CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH);
    return a->Width && a->Width <= (size_t)width && a->Height <= (size_t)height && a->Depth <= (size_t)depth;
}

static CUresult check(const struct sgd_context *c, const CUDA_ARRAY3D_DESCRIPTOR *wanted, struct sg_texture *t)
{
    if (wanted->Flags & ~known_flags)
        return wanted->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_DEPTH_TEXTURE)
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    *t = (struct sg_texture){ 0 };
    if (!sgd_array_format(wanted->Format, wanted->NumChannels, t) || !fits(c->device, wanted))
        return CUDA_ERROR_INVALID_VALUE;
    const bool writable = wanted->Flags & CUDA_ARRAY3D_SURFACE_LDST;
    return sg_in_blocks(t->format) && (writable || !wanted->Height) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static size_t row_of(const struct sg_texture *t) { return (size_t)sg_texture_columns(t) * sg_element_bytes(t); }

/* Fills in all but the address of a texture that has its format. */
static void lay_out(struct sg_texture *t, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    bool layers = wanted->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    size_t slices = wanted->Depth ? wanted->Depth : 1;
    t->width = (uint32_t)wanted->Width;
    t->height = wanted->Height ? (uint32_t)wanted->Height : 1;
    t->depth = layers ? 1 : (uint32_t)slices;
    t->layers = layers ? (uint32_t)slices : 1;
    t->layered = wanted->Flags & CUDA_ARRAY3D_LAYERED;
    t->pitch = (row_of(t) + SG_ROW_ALIGNMENT - 1) / SG_ROW_ALIGNMENT * SG_ROW_ALIGNMENT;
    t->slice = t->pitch * sg_texture_rows(t);
}

/* An array in memory that is there. NULL: no host memory. */
static struct sgd_array *array_in(struct sgd_context *c, const CUDA_ARRAY3D_DESCRIPTOR *description,
                                  const struct sg_texture *texture)
{
    struct sgd_array *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->description = *description;
    a->context = c;
    a->memory = texture->base;
    a->texture = *texture;
    a->slices = description->Depth ? description->Depth : 1;
    a->row = row_of(texture);
    a->handle = sgd_handle_new(SGD_ARRAY, a);
    if (!a->handle) {
        free(a);
        return NULL;
    }
    a->next = arrays;
    a->back = &arrays;
    if (a->next)
        a->next->back = &a->next;
    arrays = a;
    return a;
}

static CUresult block_new(struct sgd_context *c, uint64_t bytes, uint64_t *base)
{
    CUresult r = sgd_memory_new(c, c->device, SGD_MEMORY_DEVICE, bytes, base);
    if (!r)
        sgd_memory_find(*base)->internal = true;
    return r;
}

static void block_free(uint64_t base)
{
    struct sgd_memory *m = sgd_memory_find(base);
    if (m && m->at.base == base)
        sgd_memory_free(m);
}

CUresult sgd_array_new(struct sgd_context *c, const CUDA_ARRAY3D_DESCRIPTOR *wanted, CUarray *out)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sg_texture texture;
    CUresult r = check(c, wanted, &texture);
    if (r)
        return r;
    lay_out(&texture, wanted);
    if ((r = block_new(c, sg_texture_bytes(&texture), &texture.base)))
        return r;
    struct sgd_array *a = array_in(c, wanted, &texture);
    if (!a) {
        block_free(texture.base);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = a->handle;
    return CUDA_SUCCESS;
}

/* Leaves the memory: the context's end frees it with the rest. */
static void forget(struct sgd_array *a)
{
    *a->back = a->next;
    if (a->next)
        a->next->back = a->back;
    sgd_handle_drop(a->handle);
    free(a);
}

void sgd_arrays_forget(struct sgd_context *c)
{
    sgd_textures_forget(c);
    for (struct sgd_array *a = arrays, *next; a; a = next) {
        next = a->next;
        if (a->context != c)
            continue;
        if (a->owner && --a->owner->texture.levels == 0) {         /* the last of its levels */
            sgd_handle_drop(a->owner->handle);
            free(a->owner);
        }
        forget(a);
    }
}

void sgd_array_destroy(struct sgd_array *a)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    sgd_textures_orphan(a);
    block_free(a->memory);
    forget(a);
}

/* ---- mipmapped arrays ---- */

struct sgd_mipmap *sgd_mipmap_get(CUmipmappedArray handle) { return sgd_handle_get(SGD_MIPMAP, handle); }

static size_t half(size_t size, unsigned times) { return !size || size >> times ? size >> times : 1; }

static CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR *whole, unsigned level)
{
    CUDA_ARRAY3D_DESCRIPTOR d = *whole;
    d.Width = half(whole->Width, level);
    d.Height = half(whole->Height, level);
    if (!(whole->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)))
        d.Depth = half(whole->Depth, level);
    return d;
}

/* The reference: 1 + floor(log2(the largest extent)) at most. */
static uint8_t levels_of(const struct sg_texture *t, unsigned wanted)
{
    uint32_t largest = t->width > t->height ? t->width : t->height;
    unsigned most = 1;
    largest = t->depth > largest ? t->depth : largest;
    while (most < SG_LEVELS_MOST && largest >> most)
        most++;
    return (uint8_t)(wanted < most ? wanted : most);
}

CUresult sgd_mipmap_new(struct sgd_context *c, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels,
                        CUmipmappedArray *out)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct sg_texture texture;
    CUresult r = levels ? check(c, wanted, &texture) : CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    struct sgd_mipmap *m = calloc(1, sizeof *m);
    if (!m || !(m->handle = sgd_handle_new(SGD_MIPMAP, m))) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->context = c;
    lay_out(&texture, wanted);
    m->texture = texture;
    unsigned count = levels_of(&m->texture, levels);
    struct sg_texture last = sg_texture_level(&m->texture, count - 1);
    r = block_new(c, last.base + sg_texture_bytes(&last), &m->texture.base);
    for (unsigned k = 0; k < count && !r; k++) {
        const struct sg_texture level = sg_texture_level(&m->texture, k);
        const CUDA_ARRAY3D_DESCRIPTOR description = level_of(wanted, k);
        m->level[k] = array_in(c, &description, &level);
        if (m->level[k])
            m->level[k]->owner = m;
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->texture.levels = (uint8_t)count;
    if (r) {
        sgd_mipmap_destroy(m);
        return r;
    }
    *out = m->handle;
    return CUDA_SUCCESS;
}

struct sg_texture sgd_mipmap_levels(const struct sg_texture *t, unsigned first, unsigned last)
{
    struct sg_texture levels = sg_texture_level(t, first);
    levels.levels = (uint8_t)(last - first + 1);
    return levels;
}

void sgd_mipmap_destroy(struct sgd_mipmap *m)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    for (unsigned k = 0; k < m->texture.levels && m->level[k]; k++) {
        sgd_textures_orphan(m->level[k]);
        forget(m->level[k]);
    }
    if (m->texture.base)
        block_free(m->texture.base);
    sgd_handle_drop(m->handle);
    free(m);
}
