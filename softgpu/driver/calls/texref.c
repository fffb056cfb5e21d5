/*
 * texref.c: CUDA reference: Texture Reference Management, Surface Reference Management. What the calls keep, and what
 * they refuse, is in cpu/common/texref.c. A launch takes a copy of what the references of its module are bound to.
 */
#include "softgpu/driver/calls/calls.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

/* ---- what a launch takes ---- */

static struct texref_limits limits_of(const struct sgd_device *d)
{
    return (struct texref_limits){
        .alignment = (uint64_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
        .pitch_alignment = (uint64_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
        .linear_width = (uint64_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH),
        .width = (uint64_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
        .height = (uint64_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
        .pitch = (uint64_t)sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH),
    };
}

/* A texture of linear memory begins where the device can have one begin. */
static void whole_address(const struct texref_limits *limits, const struct texref_state *s, CUDA_RESOURCE_DESC *from)
{
    uint64_t before = s->address % limits->alignment;
    from->res.linear.devPtr = s->address - before;
    from->res.linear.sizeInBytes = s->bytes + before;
    from->res.linear.format = (CUarray_format)s->format;
    from->res.linear.numChannels = s->channels;
}

static CUDA_RESOURCE_DESC resource_of(const struct sgd_device *d, const struct texref_state *s)
{
    const struct texref_limits limits = limits_of(d);
    CUDA_RESOURCE_DESC from = { .resType = (CUresourcetype)s->resource };
    switch (s->resource) {
    case TEXREF_ARRAY: from.res.array.hArray = (CUarray)(uintptr_t)s->array; break;
    case TEXREF_MIPMAP: from.res.mipmap.hMipmappedArray = (CUmipmappedArray)(uintptr_t)s->array; break;
    case TEXREF_PITCH2D:
        from.res.pitch2D.devPtr = s->address;
        from.res.pitch2D.format = (CUarray_format)s->format;
        from.res.pitch2D.numChannels = s->channels;
        from.res.pitch2D.width = s->width;
        from.res.pitch2D.height = s->height;
        from.res.pitch2D.pitchInBytes = s->pitch;
        break;
    default: whole_address(&limits, s, &from); break;
    }
    return from;
}

static CUDA_TEXTURE_DESC sampler_of(const struct texref_state *s)
{
    bool wide = s->format == CU_AD_FORMAT_UNSIGNED_INT32 || s->format == CU_AD_FORMAT_SIGNED_INT32;
    bool real = s->format == CU_AD_FORMAT_HALF || s->format == CU_AD_FORMAT_FLOAT;
    bool integers = !real && (wide || s->flags & CU_TRSF_READ_AS_INTEGER);
    CUDA_TEXTURE_DESC how = { .flags = s->flags,
                              .maxAnisotropy = s->anisotropy,
                              .mipmapFilterMode = (CUfilter_mode)s->level_filter,
                              .mipmapLevelBias = s->bias,
                              .minMipmapLevelClamp = s->least,
                              .maxMipmapLevelClamp = s->most };
    how.filterMode = integers ? CU_TR_FILTER_MODE_POINT : (CUfilter_mode)s->filter;
    for (int k = 0; k < 3; k++)
        how.addressMode[k] = (CUaddress_mode)s->wrap[k];
    memcpy(how.borderColor, s->border, sizeof how.borderColor);
    return how;
}

struct sg_binding *sgd_texref_bindings(const struct sgd_module *m)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    const struct sgd_device *d = m->context->device;
    struct sg_binding *all = sgd_bindings_new(m->texref_count);
    for (uint32_t i = 0; all && i < m->texref_count; i++) {
        const struct texref_state *s = &m->texrefs[i].state;
        struct sg_texture *t = &all[i].texture;
        CUresult r = CUDA_ERROR_INVALID_VALUE;
        all[i].address = m->texrefs[i].address;
        if (m->texrefs[i].is_sampler) {
            *t = m->texrefs[i].sampler;
            continue;
        }
        if (s->resource != TEXREF_UNBOUND) {
            const CUDA_RESOURCE_DESC from = resource_of(d, s);
            const CUDA_TEXTURE_DESC how = sampler_of(s);
            r = sgd_texture_describe(d, &from, s->surface ? NULL : &how, false, t);
        }
        if (r) /* bound to nothing, or to an array that has been destroyed */
            *t = (struct sg_texture){ .channels = 1 };
        t->surface = s->surface;
    }
    return all;
}

/* ---- handles ---- */

static CUresult of_module(void **out, CUmodule handle, const char *name, bool surface)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    struct sgd_module *m = sgd_handle_get(SGD_MODULE, handle);
    struct sgd_texref *t = m && name ? sgd_texref_find(m, name, surface) : NULL;
    if (!out || !name)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!m)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (!t)
        r = CUDA_ERROR_NOT_FOUND;
    else if (!t->handle && !(t->handle = sgd_handle_new(SGD_TEXREF, t)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    else
        *out = t->handle;
    sgd_leave();
    return r;
}

CUresult cuModuleGetTexRef(CUtexref *out, CUmodule module, const char *name)
{
    return of_module((void **)out, module, name, false);
}

CUresult cuModuleGetSurfRef(CUsurfref *out, CUmodule module, const char *name)
{
    return of_module((void **)out, module, name, true);
}

/* Enters, and finds what such a handle stands for; an error has left again. */
static CUresult enter_with(void *handle, bool surface, struct sgd_context **c, struct texref_state **s)
{
    CUresult r = sgd_enter_current(c);
    if (r)
        return r;
    struct sgd_texref *t = sgd_handle_get(SGD_TEXREF, handle);
    if (t && t->state.surface == surface) {
        *s = &t->state;
        return CUDA_SUCCESS;
    }
    sgd_leave();
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult leave_with(int r)
{
    sgd_leave();
    return (CUresult)r;
}

CUresult cuTexRefCreate(CUtexref *out)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    struct sgd_texref *t = out ? calloc(1, sizeof *t) : NULL;
    if (!out)
        return leave_with(CUDA_ERROR_INVALID_VALUE);
    if (!t || !(t->handle = sgd_handle_new(SGD_TEXREF, t))) {
        free(t);
        return leave_with(CUDA_ERROR_OUT_OF_MEMORY);
    }
    texref_begin(&t->state, false);
    *out = t->handle;
    return leave_with(CUDA_SUCCESS);
}

/* Those of a module end with it. */
CUresult cuTexRefDestroy(CUtexref handle)
{
    struct sgd_context *c;
    struct texref_state *s;
    CUresult r = enter_with(handle, false, &c, &s);
    if (r)
        return r;
    struct sgd_texref *t = sgd_handle_get(SGD_TEXREF, handle);
    if (t->address)
        return leave_with(CUDA_ERROR_INVALID_VALUE);
    sgd_handle_drop(handle);
    free(t);
    return leave_with(CUDA_SUCCESS);
}

/* ---- binding ---- */

CUresult cuTexRefSetArray(CUtexref handle, CUarray array, unsigned flags)
{
    struct sgd_context *c;
    struct texref_state *s;
    CUresult r = enter_with(handle, false, &c, &s);
    if (r)
        return r;
    const struct sgd_array *a = sgd_array_get(array);
    return leave_with(a ? texref_set_array(s, TEXREF_ARRAY, (uintptr_t)array, (int)a->description.Format,
                                           a->description.NumChannels, flags)
                        : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuTexRefSetMipmappedArray(CUtexref handle, CUmipmappedArray mipmap, unsigned flags)
{
    struct sgd_context *c;
    struct texref_state *s;
    CUresult r = enter_with(handle, false, &c, &s);
    if (r)
        return r;
    const struct sgd_mipmap *m = sgd_mipmap_get(mipmap);
    return leave_with(m ? texref_set_array(s, TEXREF_MIPMAP, (uintptr_t)mipmap, (int)m->level[0]->description.Format,
                                           m->level[0]->description.NumChannels, flags)
                        : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref handle, CUdeviceptr address, size_t bytes)
{
    struct sgd_context *c;
    struct texref_state *s;
    CUresult r = enter_with(handle, false, &c, &s);
    if (r)
        return r;
    const struct texref_limits limits = limits_of(c->device);
    if ((address || bytes) && (!bytes || !sgd_memory_covers(address, bytes, SG_READ)))
        return leave_with(CUDA_ERROR_INVALID_VALUE);
    return leave_with(texref_set_address(s, &limits, address, bytes, offset));
}

CUresult cuTexRefSetAddress2D_v3(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *d, CUdeviceptr address, size_t pitch)
{
    struct sgd_context *c;
    struct texref_state *s, next;
    CUresult r = enter_with(handle, false, &c, &s);
    if (r)
        return r;
    if (!d)
        return leave_with(CUDA_ERROR_INVALID_VALUE);
    const struct texref_limits limits = limits_of(c->device);
    struct sg_texture unused;
    next = *s;
    r = (CUresult)texref_set_address_2d(&next, &limits, address, (int)d->Format, d->NumChannels, d->Width, d->Height,
                                        pitch);
    const CUDA_RESOURCE_DESC from = resource_of(c->device, &next);
    if (!r) /* whether the memory is there */
        r = sgd_texture_describe(c->device, &from, NULL, true, &unused);
    if (!r)
        *s = next;
    return leave_with(r);
}

CUresult cuSurfRefSetArray(CUsurfref handle, CUarray array, unsigned flags)
{
    struct sgd_context *c;
    struct texref_state *s;
    CUresult r = enter_with(handle, true, &c, &s);
    if (r)
        return r;
    const struct sgd_array *a = sgd_array_get(array);
    return leave_with(
        a ? texref_set_surface(s, (uintptr_t)array, a->description.Flags & CUDA_ARRAY3D_SURFACE_LDST, flags)
          : CUDA_ERROR_INVALID_HANDLE);
}

/* ---- reading and asking ---- */

static CUresult texref_enter(void *handle, bool surface, struct texref_state **s)
{
    struct sgd_context *c;
    return enter_with(handle, surface, &c, s);
}

static CUresult texref_changed(void *handle, int r)
{
    (void)handle;
    return leave_with(r);
}

static CUresult texref_asked(void *handle, int r)
{
    (void)handle;
    return leave_with(r);
}

#define TEXREF_CALL(name) name
#include "cpu/common/texref_calls.h"
