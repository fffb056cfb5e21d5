/* fake_arrays.c: arrays of the core without a server: there is one, of 16 by 8 floats, whose handle is FAKE_ARRAY.
   Textures and surfaces cannot be made. */
#include "tests/runtime/fake_core.h"

#include "api/forward/core.h"

static uint8_t bytes[8][64];
static const struct core_array_shape shape = { .width = 16, .height = 8, .format = 32, .channels = 1, .texel = 4 };

int core_array_create(core_context *context, const struct core_array_shape *wanted, core_array *array)
{
    (void)context;
    *array = FAKE_ARRAY;
    return wanted->width ? CORE_OK : CORE_INVALID_VALUE;
}

int core_array_free(core_array array) { return array == FAKE_ARRAY ? CORE_OK : CORE_INVALID_HANDLE; }

int core_array_shape(core_array array, struct core_array_shape *out)
{
    *out = shape;
    return array == FAKE_ARRAY ? CORE_OK : CORE_INVALID_HANDLE;
}

int core_array_box(core_array array, const size_t at[3], const struct core_extent *extent, struct core_box *box)
{
    *box = (struct core_box){ (uint64_t)(uintptr_t)&bytes[0][0] + at[1] * 64 + at[0], 64, 8 };
    if (array != FAKE_ARRAY)
        return CORE_INVALID_HANDLE;
    return at[0] + extent->width <= 64 && at[1] + extent->height <= 8 && at[2] + extent->depth <= 1
               ? CORE_OK
               : CORE_INVALID_VALUE;
}

bool core_array_at(uint64_t address, core_array *array, size_t at[3])
{
    (void)address;
    (void)array;
    (void)at;
    return false;
}

int core_mipmap_create(core_context *context, const struct core_array_shape *wanted, unsigned levels, core_array *out)
{
    (void)context;
    (void)wanted;
    (void)levels;
    (void)out;
    return CORE_NOT_SUPPORTED;
}

int core_mipmap_level(core_array mipmap, unsigned level, core_array *out)
{
    (void)mipmap;
    (void)level;
    (void)out;
    return CORE_INVALID_HANDLE;
}

int core_mipmap_free(core_array mipmap)
{
    (void)mipmap;
    return CORE_INVALID_HANDLE;
}

int core_mipmap_shape(core_array mipmap, struct core_array_shape *out, unsigned *levels)
{
    (void)mipmap;
    (void)out;
    (void)levels;
    return CORE_INVALID_HANDLE;
}

int core_texture_create(core_context *context, uint64_t *texture, const struct CUDA_RESOURCE_DESC *from,
                        const struct CUDA_TEXTURE_DESC *how, const struct CUDA_RESOURCE_VIEW_DESC *view)
{
    (void)context;
    (void)texture;
    (void)from;
    (void)how;
    (void)view;
    return CORE_NOT_SUPPORTED;
}

int core_tex_object_destroy(core_context *context, uint64_t texture)
{
    (void)context;
    (void)texture;
    return CORE_INVALID_VALUE;
}

int core_tex_object_get_resource_desc(core_context *context, struct CUDA_RESOURCE_DESC *out, uint64_t texture)
{
    (void)out;
    return core_tex_object_destroy(context, texture);
}

int core_tex_object_get_texture_desc(core_context *context, struct CUDA_TEXTURE_DESC *out, uint64_t texture)
{
    (void)out;
    return core_tex_object_destroy(context, texture);
}

int core_tex_object_get_resource_view_desc(core_context *context, struct CUDA_RESOURCE_VIEW_DESC *out, uint64_t texture)
{
    (void)out;
    return core_tex_object_destroy(context, texture);
}

int core_surf_object_create(core_context *context, uint64_t *surface, const struct CUDA_RESOURCE_DESC *from)
{
    (void)context;
    (void)surface;
    (void)from;
    return CORE_NOT_SUPPORTED;
}

int core_surf_object_destroy(core_context *context, uint64_t surface)
{
    return core_tex_object_destroy(context, surface);
}

int core_surf_object_get_resource_desc(core_context *context, struct CUDA_RESOURCE_DESC *out, uint64_t surface)
{
    (void)out;
    return core_tex_object_destroy(context, surface);
}

int core_device_get_texture1d_linear_max_width(size_t *width, int format, unsigned channels, int device)
{
    (void)format;
    (void)channels;
    (void)device;
    *width = 1 << 27;
    return CORE_OK;
}
