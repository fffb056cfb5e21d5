/* fake_arrays.c: arrays of the core without a server: there is one, of 16 by 8 floats, whose handle is FAKE_ARRAY.
   Textures and surfaces cannot be made. */
#include "tests/runtime/fake_core.h"

#include "api/forward/core.h"
#include "cpu/client/core/code/texref.h"

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

int core_texture_destroy(core_context *context, uint64_t texture)
{
    (void)context;
    (void)texture;
    return CORE_INVALID_VALUE;
}

int core_tex_object_get_resource_desc(core_context *context, struct CUDA_RESOURCE_DESC *out, uint64_t texture)
{
    (void)out;
    return core_texture_destroy(context, texture);
}

int core_tex_object_get_texture_desc(core_context *context, struct CUDA_TEXTURE_DESC *out, uint64_t texture)
{
    (void)out;
    return core_texture_destroy(context, texture);
}

int core_tex_object_get_resource_view_desc(core_context *context, struct CUDA_RESOURCE_VIEW_DESC *out, uint64_t texture)
{
    (void)out;
    return core_texture_destroy(context, texture);
}

int core_surface_create(core_context *context, uint64_t *surface, const struct CUDA_RESOURCE_DESC *from)
{
    (void)context;
    (void)surface;
    (void)from;
    return CORE_NOT_SUPPORTED;
}

int core_surface_destroy(core_context *context, uint64_t surface)
{
    return core_texture_destroy(context, surface);
}

int core_surf_object_get_resource_desc(core_context *context, struct CUDA_RESOURCE_DESC *out, uint64_t surface)
{
    (void)out;
    return core_texture_destroy(context, surface);
}

int core_device_get_texture1d_linear_max_width(size_t *width, int format, unsigned channels, int device)
{
    (void)format;
    (void)channels;
    (void)device;
    *width = 1 << 27;
    return CORE_OK;
}

/* ---- texture references: the core has none ---- */

int core_texref_find(core_context *context, core_image *image, const char *name, bool surface, core_texref **out)
{
    (void)context;
    (void)image;
    (void)name;
    (void)surface;
    (void)out;
    return CORE_NOT_SUPPORTED;
}

struct texref_state *core_texref_open(core_texref *texref, bool surface, core_context **context)
{
    (void)texref;
    (void)surface;
    (void)context;
    return NULL;
}

void core_texref_close(core_texref *texref, bool changed)
{
    (void)texref;
    (void)changed;
}

int core_texref_set_array(core_texref *texref, enum texref_resource resource, core_array array, unsigned flags)
{
    (void)texref;
    (void)resource;
    (void)array;
    (void)flags;
    return CORE_INVALID_VALUE;
}

int core_texref_set_surface(core_texref *texref, core_array array, unsigned flags)
{
    return core_texref_set_array(texref, TEXREF_ARRAY, array, flags);
}

int core_texref_set_address(core_texref *texref, uint64_t address, uint64_t size, size_t *offset)
{
    (void)address;
    (void)size;
    (void)offset;
    return core_texref_set_array(texref, TEXREF_LINEAR, 0, 0);
}

int core_texref_set_address_2d(core_texref *texref, uint64_t address, int format, unsigned channels, uint64_t width,
                               uint64_t height, uint64_t pitch)
{
    (void)address;
    (void)format;
    (void)channels;
    (void)width;
    (void)height;
    (void)pitch;
    return core_texref_set_array(texref, TEXREF_PITCH2D, 0, 0);
}

int core_texref_set_format(core_texref *texref, int format, unsigned channels)
{
    (void)format;
    return core_texref_set_array(texref, TEXREF_LINEAR, channels, 0);
}

uint64_t core_texref_alignment(core_context *context)
{
    (void)context;
    return 512;
}

void core_texref_follow(core_texref *texref, core_texref_refresh *refresh, const void *user)
{
    (void)texref;
    (void)refresh;
    (void)user;
}
