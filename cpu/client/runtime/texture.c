/* texture.c: chapters "Texture Object Management" and "Surface Object Management": the structures of this API become
   those of the Driver API, whose calls are handed on. */
#include <string.h>

#include "api/driver/types.h"
#include "api/forward/core.h"
#include "cpu/client/runtime/array.h"
#include "cpu/common/texel.h"

/* Flags of CUDA_TEXTURE_DESC. */
enum { READ_AS_INTEGER = 1, NORMALIZED = 2, SRGB = 0x10, NO_TRILINEAR_OPTIMIZATION = 0x20, SEAMLESS = 0x40 };

/* ---- resources ---- */

static int read_resource(const cudaResourceDesc *from, struct CUDA_RESOURCE_DESC *to)
{
    int format, error;
    unsigned channels;
    *to = (struct CUDA_RESOURCE_DESC){ .resType = (CUresourcetype)from->resType };
    switch (from->resType) {
    case cudaResourceTypeArray: to->res.array.hArray = runtime_array(from->res.array.array); return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
        to->res.mipmap.hMipmappedArray = runtime_array(from->res.mipmap.mipmap);
        return cudaSuccess;
    case cudaResourceTypeLinear:
        error = runtime_array_format(&from->res.linear.desc, &format, &channels);
        to->res.linear.devPtr = (uint64_t)(uintptr_t)from->res.linear.devPtr;
        to->res.linear.format = (CUarray_format)format;
        to->res.linear.numChannels = channels;
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        return error;
    case cudaResourceTypePitch2D:
        error = runtime_array_format(&from->res.pitch2D.desc, &format, &channels);
        to->res.pitch2D.devPtr = (uint64_t)(uintptr_t)from->res.pitch2D.devPtr;
        to->res.pitch2D.format = (CUarray_format)format;
        to->res.pitch2D.numChannels = channels;
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        return error;
    default: return cudaErrorInvalidValue;
    }
}

static void write_resource(const struct CUDA_RESOURCE_DESC *from, cudaResourceDesc *to)
{
    memset(to, 0, sizeof *to);
    to->resType = (cudaResourceType)from->resType;
    switch (from->resType) {
    case CU_RESOURCE_TYPE_ARRAY: to->res.array.array = (void *)(uintptr_t)from->res.array.hArray; break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        to->res.mipmap.mipmap = (void *)(uintptr_t)from->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        to->res.linear.devPtr = (void *)(uintptr_t)from->res.linear.devPtr;
        to->res.linear.desc = runtime_channel_desc((int)from->res.linear.format, from->res.linear.numChannels);
        to->res.linear.sizeInBytes = from->res.linear.sizeInBytes;
        break;
    case CU_RESOURCE_TYPE_PITCH2D:
        to->res.pitch2D.devPtr = (void *)(uintptr_t)from->res.pitch2D.devPtr;
        to->res.pitch2D.desc = runtime_channel_desc((int)from->res.pitch2D.format, from->res.pitch2D.numChannels);
        to->res.pitch2D.width = from->res.pitch2D.width;
        to->res.pitch2D.height = from->res.pitch2D.height;
        to->res.pitch2D.pitchInBytes = from->res.pitch2D.pitchInBytes;
        break;
    default: break;
    }
}

/* ---- how a texture is read. seamless: only some releases have that member. ---- */

static struct CUDA_TEXTURE_DESC read_sampler(const cudaTextureDesc *from, bool seamless)
{
    struct CUDA_TEXTURE_DESC to = { .filterMode = (CUfilter_mode)from->filterMode,
                                    .maxAnisotropy = from->maxAnisotropy,
                                    .mipmapFilterMode = (CUfilter_mode)from->mipmapFilterMode,
                                    .mipmapLevelBias = from->mipmapLevelBias,
                                    .minMipmapLevelClamp = from->minMipmapLevelClamp,
                                    .maxMipmapLevelClamp = from->maxMipmapLevelClamp };
    for (int i = 0; i < 3; i++)
        to.addressMode[i] = (CUaddress_mode)from->addressMode[i];
    memcpy(to.borderColor, from->borderColor, sizeof to.borderColor);
    to.flags = (from->readMode == cudaReadModeElementType ? READ_AS_INTEGER : 0) |
               (from->normalizedCoords ? NORMALIZED : 0) | (from->sRGB ? SRGB : 0) |
               (from->disableTrilinearOptimization ? NO_TRILINEAR_OPTIMIZATION : 0) | (seamless ? SEAMLESS : 0);
    return to;
}

static void write_sampler(const struct CUDA_TEXTURE_DESC *from, cudaTextureDesc *to)
{
    memset(to, 0, sizeof *to);
    for (int i = 0; i < 3; i++)
        to->addressMode[i] = (cudaTextureAddressMode)from->addressMode[i];
    to->filterMode = (cudaTextureFilterMode)from->filterMode;
    to->readMode = from->flags & READ_AS_INTEGER ? cudaReadModeElementType : cudaReadModeNormalizedFloat;
    to->sRGB = (from->flags & SRGB) != 0;
    memcpy(to->borderColor, from->borderColor, sizeof to->borderColor);
    to->normalizedCoords = (from->flags & NORMALIZED) != 0;
    to->maxAnisotropy = from->maxAnisotropy;
    to->mipmapFilterMode = (cudaTextureFilterMode)from->mipmapFilterMode;
    to->mipmapLevelBias = from->mipmapLevelBias;
    to->minMipmapLevelClamp = from->minMipmapLevelClamp;
    to->maxMipmapLevelClamp = from->maxMipmapLevelClamp;
    to->disableTrilinearOptimization = (from->flags & NO_TRILINEAR_OPTIMIZATION) != 0;
#if FLYT_CUDART >= 12
    to->seamlessCubemap = (from->flags & SEAMLESS) != 0;
#endif
}

static struct CUDA_RESOURCE_VIEW_DESC read_view(const cudaResourceViewDesc *from)
{
    return (struct CUDA_RESOURCE_VIEW_DESC){ .format = (CUresourceViewFormat)from->format,
                                             .width = from->width,
                                             .height = from->height,
                                             .depth = from->depth,
                                             .firstMipmapLevel = from->firstMipmapLevel,
                                             .lastMipmapLevel = from->lastMipmapLevel,
                                             .firstLayer = from->firstLayer,
                                             .lastLayer = from->lastLayer };
}

/* ---- texture objects ---- */

/* Of the elements. 0: not known; who makes the object says why. */
static int format_of(const struct CUDA_RESOURCE_DESC *from)
{
    struct core_array_shape shape = { 0 };
    unsigned levels;
    switch (from->resType) {
    case CU_RESOURCE_TYPE_ARRAY: return core_array_shape(from->res.array.hArray, &shape) ? 0 : shape.format;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return core_mipmap_shape(from->res.mipmap.hMipmappedArray, &shape, &levels) ? 0 : shape.format;
    case CU_RESOURCE_TYPE_LINEAR: return (int)from->res.linear.format;
    default: return (int)from->res.pitch2D.format;
    }
}

/* Whether elements can be read so, as NVIDIA's runtime looks at it. */
static int reading_check(const struct CUDA_RESOURCE_DESC *from, const cudaTextureDesc *how)
{
    const int format = format_of(from);
    bool small = format == CU_AD_FORMAT_UNSIGNED_INT8 || format == CU_AD_FORMAT_UNSIGNED_INT16 ||
                 format == CU_AD_FORMAT_SIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT16;
    bool wide = format == CU_AD_FORMAT_UNSIGNED_INT32 || format == CU_AD_FORMAT_SIGNED_INT32;
    bool normalized = how->readMode == cudaReadModeNormalizedFloat;
    if (how->filterMode == cudaFilterModeLinear && (wide || (small && !normalized)))
        return cudaErrorInvalidFilterSetting;
    if (texel_normalized(format))
        return normalized ? cudaSuccess : cudaErrorInvalidNormSetting;
    return normalized && format && !small ? cudaErrorInvalidNormSetting : cudaSuccess;
}

static int create(cudaTextureObject_t *out, const cudaResourceDesc *resource, const cudaTextureDesc *how, bool seamless,
                  const cudaResourceViewDesc *view)
{
    core_context *context;
    struct CUDA_RESOURCE_DESC from;
    uint64_t made;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out || !resource)
        return cudaErrorInvalidValue;
    if (!how)
        return cudaErrorInvalidResourceHandle; /* as NVIDIA's runtime says */
    if ((error = read_resource(resource, &from)))
        return error;
    if ((error = reading_check(&from, how)))
        return error;
    const struct CUDA_TEXTURE_DESC sampler = read_sampler(how, seamless);
    struct CUDA_RESOURCE_VIEW_DESC looked;
    if (view)
        looked = read_view(view);
    error = core_texture_create(context, &made, &from, &sampler, view ? &looked : NULL);
    if (!error)
        *out = made;
    return error;
}

cudaError_t runtime_cudaCreateTextureObject(cudaTextureObject_t *out, const cudaResourceDesc *resource,
                                            const cudaTextureDesc *how, const cudaResourceViewDesc *view)
{
#if FLYT_CUDART >= 12
    bool seamless = how && how->seamlessCubemap;
#else
    bool seamless = false;
#endif
    return runtime_waited(create(out, resource, how, seamless, view));
}

static int destroy(uint64_t object, int (*end)(core_context *, uint64_t))
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : end(context, object);
}

cudaError_t runtime_cudaDestroyTextureObject(cudaTextureObject_t texture)
{
    return runtime_waited(destroy(texture, core_texture_destroy));
}

/* no_room: what NVIDIA's runtime says where `out` is NULL. */
static int get_resource(cudaResourceDesc *out, uint64_t object,
                        int (*get)(core_context *, struct CUDA_RESOURCE_DESC *, uint64_t), int no_room)
{
    core_context *context;
    struct CUDA_RESOURCE_DESC from;
    int error = runtime_enter(&context);
    if (!error && !out)
        error = no_room;
    if (!error)
        error = get(context, &from, object);
    if (!error)
        write_resource(&from, out);
    return error;
}

cudaError_t runtime_cudaGetTextureObjectResourceDesc(cudaResourceDesc *out, cudaTextureObject_t texture)
{
    return runtime_waited(get_resource(out, texture, core_tex_object_get_resource_desc, cudaErrorInvalidValue));
}

static int get_sampler(void *out, cudaTextureObject_t texture, struct CUDA_TEXTURE_DESC *how)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && !out)
        error = cudaErrorInvalidResourceHandle; /* as NVIDIA's runtime says */
    return error ? error : core_tex_object_get_texture_desc(context, how, texture);
}

cudaError_t runtime_cudaGetTextureObjectTextureDesc(cudaTextureDesc *out, cudaTextureObject_t texture)
{
    struct CUDA_TEXTURE_DESC how;
    int error = get_sampler(out, texture, &how);
    if (!error)
        write_sampler(&how, out);
    return runtime_waited(error);
}

cudaError_t runtime_cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc *out, cudaTextureObject_t texture)
{
    core_context *context;
    struct CUDA_RESOURCE_VIEW_DESC view = { 0 };
    int error = runtime_enter(&context);
    if (!error && !out)
        error = cudaErrorInvalidValue;
    if (!error)
        error = core_tex_object_get_resource_view_desc(context, &view, texture);
    if (!error) {
        memset(out, 0, sizeof *out);
        out->format = (cudaResourceViewFormat)view.format;
        out->width = view.width;
        out->height = view.height;
        out->depth = view.depth;
        out->firstMipmapLevel = view.firstMipmapLevel;
        out->lastMipmapLevel = view.lastMipmapLevel;
        out->firstLayer = view.firstLayer;
        out->lastLayer = view.lastLayer;
    }
    return runtime_waited(error);
}

#if FLYT_CUDART == 11
/* The description of the second version has one member more, at its end. */
cudaError_t runtime_cudaCreateTextureObject_v2(cudaTextureObject_t *out, const cudaResourceDesc *resource,
                                               const cudaTextureDesc_v2 *how, const cudaResourceViewDesc *view)
{
    _Static_assert(sizeof(cudaTextureDesc) == offsetof(cudaTextureDesc_v2, seamlessCubemap), "the same members");
    return runtime_waited(create(out, resource, (const cudaTextureDesc *)how, how && how->seamlessCubemap, view));
}

cudaError_t runtime_cudaGetTextureObjectTextureDesc_v2(cudaTextureDesc_v2 *out, cudaTextureObject_t texture)
{
    struct CUDA_TEXTURE_DESC how;
    int error = get_sampler(out, texture, &how);
    if (!error) {
        write_sampler(&how, (cudaTextureDesc *)out);
        out->seamlessCubemap = (how.flags & SEAMLESS) != 0;
    }
    return runtime_waited(error);
}
#endif

/* ---- surface objects ---- */

static int create_surface(cudaSurfaceObject_t *out, const cudaResourceDesc *resource)
{
    core_context *context;
    struct CUDA_RESOURCE_DESC from;
    uint64_t made;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out || !resource)
        return cudaErrorInvalidValue;
    if ((error = read_resource(resource, &from)) || (error = core_surface_create(context, &made, &from)))
        return error;
    *out = made;
    return cudaSuccess;
}

cudaError_t runtime_cudaCreateSurfaceObject(cudaSurfaceObject_t *out, const cudaResourceDesc *resource)
{
    return runtime_waited(create_surface(out, resource));
}

cudaError_t runtime_cudaDestroySurfaceObject(cudaSurfaceObject_t surface)
{
    return runtime_waited(destroy(surface, core_surface_destroy));
}

cudaError_t runtime_cudaGetSurfaceObjectResourceDesc(cudaResourceDesc *out, cudaSurfaceObject_t surface)
{
    return runtime_waited(get_resource(out, surface, core_surf_object_get_resource_desc, cudaErrorInvalidDevice));
}
