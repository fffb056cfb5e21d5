/*
 * texture.c: CUDA reference: Texture Object Management, Surface Object Management.
 *
 * The handle is that of the executor's table (softgpu/texture.h). Destroying an object does not wait: a kernel that
 * is launched later and uses it fails with an illegal address. One that was launched before may still use it. An array
 * that goes takes the handles of its objects with it, which fail the same way.
 */
#include "softgpu/driver/calls/calls.h"

#include <string.h>

#include "cpu/common/lock.h"

static bool plain_memory(const struct sgd_device *d, CUdeviceptr at, size_t bytes)
{
    return bytes && at % (unsigned)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT) == 0 &&
           sgd_memory_covers(at, bytes, SG_READ);
}

/* The format of texels in linear memory, which has no blocks. */
static bool plain_format(CUarray_format asked, unsigned channels, struct sg_texture *t)
{
    return sgd_array_format(asked, channels, t) && !sg_in_blocks(t->format);
}

/* Where the texels are. live: the memory must be there. */
static CUresult resource(const struct sgd_device *d, const CUDA_RESOURCE_DESC *r, bool live, struct sg_texture *t)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (r->flags)
        return CUDA_ERROR_INVALID_VALUE;
    switch (r->resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
        const struct sgd_array *a = sgd_array_get(r->res.array.hArray);
        if (!a)
            return CUDA_ERROR_INVALID_HANDLE;
        *t = a->texture;
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR: {
        *t = (struct sg_texture){ .height = 1, .depth = 1, .layers = 1, .linear_memory = true };
        if (!plain_format(r->res.linear.format, r->res.linear.numChannels, t) ||
            (live && !plain_memory(d, r->res.linear.devPtr, 1)))     /* it may be longer, as natively */
            return CUDA_ERROR_INVALID_VALUE;
        size_t texels = r->res.linear.sizeInBytes / (sg_texel_bytes(t->format) * t->channels);
        if (!texels || texels > (size_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH))
            return CUDA_ERROR_INVALID_VALUE;
        t->base = r->res.linear.devPtr;
        t->width = (uint32_t)texels;
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_PITCH2D: {
        size_t width = r->res.pitch2D.width, height = r->res.pitch2D.height, pitch = r->res.pitch2D.pitchInBytes;
        *t = (struct sg_texture){ .depth = 1, .layers = 1 };
        if (!plain_format(r->res.pitch2D.format, r->res.pitch2D.numChannels, t) || !width || !height
            || width > (size_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH)
            || height > (size_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)
            || pitch > (size_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH)
            || pitch % (unsigned)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT))
            return CUDA_ERROR_INVALID_VALUE;
        size_t row = width * sg_texel_bytes(t->format) * r->res.pitch2D.numChannels;
        if (pitch < row || (live && !plain_memory(d, r->res.pitch2D.devPtr, (height - 1) * pitch + row)))
            return CUDA_ERROR_INVALID_VALUE;
        t->base = r->res.pitch2D.devPtr;
        t->pitch = pitch;
        t->width = (uint32_t)width;
        t->height = (uint32_t)height;
        return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
        const struct sgd_mipmap *m = sgd_mipmap_get(r->res.mipmap.hMipmappedArray);
        if (!m)
            return CUDA_ERROR_INVALID_HANDLE;
        *t = m->texture;
        return CUDA_SUCCESS;
    }
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* How they are read. */
static CUresult sampler(const CUDA_TEXTURE_DESC *s, struct sg_texture *t)
{
    static const unsigned known = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                                  CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION | CU_TRSF_SEAMLESS_CUBEMAP;
    if (s->flags & ~known)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)s->filterMode > CU_TR_FILTER_MODE_LINEAR)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < 3; k++) {
        if ((unsigned)s->addressMode[k] > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
        t->wrap[k] = (uint8_t)s->addressMode[k];
    }
    if ((unsigned)s->mipmapFilterMode > CU_TR_FILTER_MODE_LINEAR)
        return CUDA_ERROR_INVALID_VALUE;
    t->linear_levels = s->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    t->bias = s->mipmapLevelBias;
    t->least = s->minMipmapLevelClamp;
    t->most = s->maxMipmapLevelClamp;
    bool integer = t->format <= SG_TEXEL_S32, wide = t->format == SG_TEXEL_U32 || t->format == SG_TEXEL_S32;
    t->normalized = s->flags & CU_TRSF_NORMALIZED_COORDINATES;
    t->unit |= integer && !wide && !(s->flags & CU_TRSF_READ_AS_INTEGER);
    t->linear_filter = s->filterMode == CU_TR_FILTER_MODE_LINEAR && !t->linear_memory;
    const bool colours = (t->unit && t->format == SG_TEXEL_U8) || t->format == SG_TEXEL_BC7 ||
                         (t->format >= SG_TEXEL_BC1 && t->format <= SG_TEXEL_BC3);
    t->srgb |= s->flags & CU_TRSF_SRGB && colours;
    memcpy(t->border, s->borderColor, sizeof t->border); /* of integers: their bits */
    return t->linear_filter && integer && !t->unit ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult sgd_texture_describe(const struct sgd_device *d, const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how,
                              bool live, struct sg_texture *t)
{
    CUresult r = resource(d, from, live, t);
    return r || !how ? r : sampler(how, t);
}

/* Words of 32 bits, two or four to an element, that are blocks of 4 by 4 texels each. False: others. */
static bool look_at_blocks(struct sg_texture *t, unsigned format)
{
    /* in order of CUresourceViewFormat, which is that of enum sg_texel */
    static const uint8_t channels[] = { 4, 4, 4, 1, 1, 2, 2, 3, 3, 4 };
    const unsigned kind = format - CU_RES_VIEW_FORMAT_UNSIGNED_BC1;
    if (t->format != SG_TEXEL_U32)
        return false;
    t->columns = t->width;
    t->rows = t->height;
    t->width *= 4;
    t->height *= 4;
    t->format = (uint8_t)(SG_TEXEL_BC1 + kind);
    t->channels = channels[kind];
    return true;
}

/* Shows the texels in another format, and some of the levels or of the layers. */
static CUresult look_at(struct sg_texture *t, const CUDA_RESOURCE_VIEW_DESC *v)
{
    /* in order of CUresourceViewFormat: each with one, two and four channels */
    static const uint8_t formats[] = { SG_TEXEL_U8,  SG_TEXEL_S8,  SG_TEXEL_U16, SG_TEXEL_S16,
                                       SG_TEXEL_U32, SG_TEXEL_S32, SG_TEXEL_F16, SG_TEXEL_F32 };
    unsigned format = (unsigned)v->format, levels = t->levels ? t->levels : 1, bytes = sg_element_bytes(t);
    if (format > CU_RES_VIEW_FORMAT_UNSIGNED_BC7 || t->linear_memory || v->firstMipmapLevel > v->lastMipmapLevel ||
        v->lastMipmapLevel >= levels || v->firstLayer > v->lastLayer || v->lastLayer >= t->layers)
        return CUDA_ERROR_INVALID_VALUE;
    if (format > CU_RES_VIEW_FORMAT_FLOAT_4X32) {
        if (!look_at_blocks(t, format))
            return CUDA_ERROR_INVALID_VALUE;
    } else if (sg_in_blocks(t->format)) {
        return CUDA_ERROR_INVALID_VALUE;
    } else {
        t->format = formats[(format - 1) / 3];
        t->channels = (uint8_t)(1u << (format - 1) % 3);
        t->unit = t->srgb = false;           /* as the view's format and the sampler say */
    }
    if (sg_element_bytes(t) != bytes || v->width != t->width || (v->height ? v->height : 1) != t->height)
        return CUDA_ERROR_INVALID_VALUE;
    if (t->levels) {
        *t = sgd_mipmap_levels(t, v->firstMipmapLevel, v->lastMipmapLevel);
        t->first_layer = v->firstLayer;
        t->all_layers = t->layers;
    } else {
        t->base += v->firstLayer * t->slice * t->depth;
    }
    t->layers = v->lastLayer - v->firstLayer + 1;
    return CUDA_SUCCESS;
}

/* What an object of the resource goes with; NULL: no array. resource() has found it. */
static struct sgd_array *array_of(const CUDA_RESOURCE_DESC *r)
{
    if (r->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        return sgd_mipmap_get(r->res.mipmap.hMipmappedArray)->level[0];
    return r->resType == CU_RESOURCE_TYPE_ARRAY ? sgd_array_get(r->res.array.hArray) : NULL;
}

/* view: NULL: none */
static CUresult create(uint64_t *out, const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how,
                       const CUDA_RESOURCE_VIEW_DESC *view, bool surface)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    struct sg_texture t = { .surface = false };
    /* One that comes from another process: its memory may have gone since it was made. */
    const uint64_t placed = c->place_object;
    c->place_object = 0;
    r = out && from && (how || surface) ? resource(c->device, from, !placed, &t) : CUDA_ERROR_INVALID_VALUE;
    struct sgd_array *array = r ? NULL : array_of(from);
    bool writable = array && array->description.Flags & CUDA_ARRAY3D_SURFACE_LDST;
    if (!r && surface && (from->resType != CU_RESOURCE_TYPE_ARRAY || !writable))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && view)
        r = from->resType == CU_RESOURCE_TYPE_PITCH2D ? CUDA_ERROR_INVALID_VALUE : look_at(&t, view);
    if (!r && !surface)
        r = sampler(how, &t);
    if (!r && !surface && from->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY && !t.normalized)
        r = CUDA_ERROR_INVALID_VALUE; /* CUDA: only normalized coordinates reach levels */
    t.surface = surface;
    struct sgd_object *o = r ? NULL : sgd_object_new(&t, array, placed);
    if (!r && !o)
        r = placed ? CUDA_ERROR_ALREADY_MAPPED : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) {
        o->surface = surface;
        o->context = c;
        o->resource = *from;
        if (how)
            o->texture = *how;
        if (view)
            o->view = *view;
        *out = o->handle;
    }
    sgd_leave();
    return r;
}

static CUresult destroy(uint64_t handle, bool surface)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_object *o = sgd_object_get(handle, surface);
    if (o)
        sgd_object_drop(o);
    sgd_leave();
    return o || !surface ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; /* NVIDIA's driver takes any number for a texture */
}

static CUresult describe(uint64_t handle, bool surface, CUDA_RESOURCE_DESC *from, CUDA_TEXTURE_DESC *how,
                         CUDA_RESOURCE_VIEW_DESC *view)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_object *o = sgd_object_get(handle, surface);
    if (!o || (!from && !how && !view))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (view)
        *view = o->view;
    else if (from)
        *from = o->resource;
    else
        *how = o->texture;
    sgd_leave();
    return r;
}

/* In texels, whatever their size. */
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels, CUdevice device)
{
    struct sg_texture known;
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_device *d = sgd_device(device);
    if (!d)
        r = CUDA_ERROR_INVALID_DEVICE;
    else if (!width || !plain_format(format, channels, &known))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        *width = (size_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    sgd_leave();
    return r;
}

/* A view without a format of its own is none. */
CUresult cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *from, const CUDA_TEXTURE_DESC *how,
                           const CUDA_RESOURCE_VIEW_DESC *view)
{
    uint64_t handle = 0;
    if (view && view->format == CU_RES_VIEW_FORMAT_NONE)
        view = NULL;
    CUresult r = create(out ? &handle : NULL, from, how, view, false);
    if (!r)
        *out = handle;
    return r;
}

CUresult cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *from)
{
    uint64_t handle = 0;
    CUresult r = create(out ? &handle : NULL, from, NULL, NULL, true);
    if (!r)
        *out = handle;
    return r;
}

CUresult cuTexObjectDestroy(CUtexObject handle) { return destroy(handle, false); }
CUresult cuSurfObjectDestroy(CUsurfObject handle) { return destroy(handle, true); }
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject handle)
{
    return describe(handle, false, out, NULL, NULL);
}
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject handle)
{
    return describe(handle, true, out, NULL, NULL);
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject handle)
{
    return describe(handle, false, NULL, out, NULL);
}

/* Zeros of an object that has no view. */
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject handle)
{
    return describe(handle, false, NULL, NULL, out);
}
