/*
 * array.c: CUDA arrays.
 *
 * An array is a block of device memory of the context: rows at a fixed pitch, layers and depth behind each other. Its
 * address is told to nobody; copies come through calls/copy.c, kernels through the objects of texture.c. Formats: the
 * eight plain ones. No mip maps, no sparse arrays, no planes.
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

enum { ROW_ALIGNMENT = 64 };
static const unsigned known_flags =
    CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;
static struct sgd_array *arrays;

bool sgd_array_format(CUarray_format asked, unsigned channels, uint8_t *format)
{
    static const struct { CUarray_format asked; uint8_t format;
    } formats[] = { { CU_AD_FORMAT_UNSIGNED_INT8, SG_TEXEL_U8 },   { CU_AD_FORMAT_UNSIGNED_INT16, SG_TEXEL_U16 },
                    { CU_AD_FORMAT_UNSIGNED_INT32, SG_TEXEL_U32 }, { CU_AD_FORMAT_SIGNED_INT8, SG_TEXEL_S8 },
                    { CU_AD_FORMAT_SIGNED_INT16, SG_TEXEL_S16 },   { CU_AD_FORMAT_SIGNED_INT32, SG_TEXEL_S32 },
                    { CU_AD_FORMAT_HALF, SG_TEXEL_F16 },           { CU_AD_FORMAT_FLOAT, SG_TEXEL_F32 } };
    if (channels != 1 && channels != 2 && channels != 4)
        return false;
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
        if (formats[k].asked == asked) {
            *format = formats[k].format;
            return true;
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

CUresult sgd_array_new(struct sgd_context *c, const CUDA_ARRAY3D_DESCRIPTOR *wanted, CUarray *out)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    uint8_t format;
    if (wanted->Flags & ~known_flags)
        return wanted->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_DEPTH_TEXTURE)
                   ? CUDA_ERROR_NOT_SUPPORTED
                   : CUDA_ERROR_INVALID_VALUE;
    if (!sgd_array_format(wanted->Format, wanted->NumChannels, &format) || !fits(c->device, wanted))
        return CUDA_ERROR_INVALID_VALUE;
    struct sgd_array *a = calloc(1, sizeof *a);
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool layers = wanted->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    a->description = *wanted;
    a->context = c;
    a->slices = wanted->Depth ? wanted->Depth : 1;
    a->row = wanted->Width * wanted->NumChannels * sg_texel_bytes(format);
    size_t pitch = (a->row + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT,
           height = wanted->Height ? wanted->Height : 1;
    a->texture = (struct sg_texture){ .pitch = pitch,
                                      .slice = pitch * height,
                                      .width = (uint32_t)wanted->Width,
                                      .height = (uint32_t)height,
                                      .depth = layers ? 1 : (uint32_t)a->slices,
                                      .layers = layers ? (uint32_t)a->slices : 1,
                                      .format = format,
                                      .channels = (uint8_t)wanted->NumChannels };
    CUresult r = sgd_memory_new(c, c->device, SGD_MEMORY_DEVICE, pitch * height * a->slices, &a->memory);
    if (r) {
        free(a);
        return r;
    }
    sgd_memory_find(a->memory)->internal = true;
    a->texture.base = a->memory;
    a->handle = sgd_handle_new(SGD_ARRAY, a);
    if (!a->handle) {
        sgd_memory_free(sgd_memory_find(a->memory));
        free(a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    a->next = arrays;
    a->back = &arrays;
    if (a->next)
        a->next->back = &a->next;
    arrays = a;
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
        if (a->context == c)
            forget(a);
    }
}

void sgd_array_destroy(struct sgd_array *a)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    sgd_textures_orphan(a);
    struct sgd_memory *m = sgd_memory_find(a->memory);
    if (m && m->at.base == a->memory)
        sgd_memory_free(m);
    forget(a);
}
