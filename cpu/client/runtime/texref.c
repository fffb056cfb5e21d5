/*
 * texref.c: chapters "Texture Reference Management" and "Surface Reference Management", which ended with CUDA 11.
 *
 * A reference is a variable of the program (`texture<float, 2> picture;`) and one of the device code. Compiled code
 * registers the pair. The program binds it to memory, which the core keeps for each context. How texels are read stands
 * in the program's variable, and counts as it is at each launch: so NVIDIA's runtime has it.
 */
#include "cpu/client/runtime/array.h"

#if FLYT_CUDART == 11
#include <pthread.h>
#include <stdlib.h>

#include "api/driver/types.h"
#include "cpu/client/core/code/registry.h"
#include "cpu/client/core/code/texref.h"

/* Flags of texture references (CU_TRSF_…). */
enum { READ_AS_INTEGER = 1, NORMALIZED = 2, SRGB = 0x10, NO_TRILINEAR_OPTIMIZATION = 0x20 };

struct reference {
    const void *key;                    /* the program's variable */
    struct reference *next, *next_same; /* of all; registered later under the same address */
    const struct runtime_image *image;
    const char *name;
    bool surface, as_float; /* as_float: integers are read as floats of 0 … 1 */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry registered; /* the first of each address; under the lock when it changes */
static struct reference *references;

/* ---- registration ---- */

static void reference_add(const struct reference *wanted)
{
    struct reference *reference = malloc(sizeof *reference);
    if (!reference)
        return; /* its use will say that there is no such reference */
    *reference = *wanted;
    pthread_mutex_lock(&lock);
    struct reference *first = registry_find(&registered, wanted->key);
    bool kept = first || registry_set(&registered, wanted->key, reference);
    for (; first && first->next_same; first = first->next_same)
        ;
    if (first)
        first->next_same = reference;
    if (kept) {
        reference->next = references;
        references = reference;
    }
    pthread_mutex_unlock(&lock);
    if (!kept)
        free(reference);
}

/* Under the lock. */
static void reference_unlink(const struct reference *reference)
{
    struct reference *first = registry_find(&registered, reference->key);
    if (first == reference) {
        registry_set(&registered, reference->key, reference->next_same);
        return;
    }
    while (first && first->next_same != reference)
        first = first->next_same;
    if (first)
        first->next_same = reference->next_same;
}

void runtime_texrefs_forget(const struct runtime_image *image)
{
    pthread_mutex_lock(&lock);
    for (struct reference **at = &references, *reference; (reference = *at);) {
        if (reference->image != image) {
            at = &reference->next;
            continue;
        }
        *at = reference->next;
        reference_unlink(reference);
        free(reference);
    }
    pthread_mutex_unlock(&lock);
}

/* What NVIDIA's headers call the device's address is the name that the variable has in the device code; `name` is that
   of the source ("::space::picture"). */
void runtime___cudaRegisterTexture(void **handle, const textureReference *host, const void **device_name,
                                   const char *name, int dimensions, int normalized, int external)
{
    (void)name, (void)dimensions, (void)external;
    if (handle && host && device_name)
        reference_add(&(struct reference){ .key = host,
                                           .image = (const struct runtime_image *)handle,
                                           .name = (const char *)device_name,
                                           .as_float = normalized != 0 });
}

void runtime___cudaRegisterSurface(void **handle, const surfaceReference *host, const void **device_name,
                                   const char *name, int dimensions, int external)
{
    (void)name, (void)dimensions, (void)external;
    if (handle && host && device_name)
        reference_add(&(struct reference){ .key = host,
                                           .image = (const struct runtime_image *)handle,
                                           .name = (const char *)device_name,
                                           .surface = true });
}

/* ---- finding ---- */

static int no_such(bool surface) { return surface ? cudaErrorInvalidSurface : cudaErrorInvalidTexture; }

/* A copy: another thread may unload the library that registered it. */
static int registered_as(const void *key, bool surface, struct reference *out)
{
    pthread_mutex_lock(&lock);
    const struct reference *reference = registry_find(&registered, key);
    bool found = reference && reference->surface == surface;
    if (found)
        *out = *reference;
    pthread_mutex_unlock(&lock);
    return found ? cudaSuccess : no_such(surface);
}

/* How texels are read, as the program's variable says now. */
static void refresh(const void *key, struct texref_state *state)
{
    const textureReference *host = key;
    struct reference reference;
    if (registered_as(key, false, &reference))
        return;
    bool real = state->format == CU_AD_FORMAT_HALF || state->format == CU_AD_FORMAT_FLOAT;
    for (int i = 0; i < 3; i++)
        state->wrap[i] = (int)host->addressMode[i];
    state->filter = (int)host->filterMode;
    state->level_filter = (int)host->mipmapFilterMode;
    state->bias = host->mipmapLevelBias;
    state->least = host->minMipmapLevelClamp;
    state->most = host->maxMipmapLevelClamp;
    state->anisotropy = host->maxAnisotropy;
    state->flags = (reference.as_float || real ? 0 : READ_AS_INTEGER) | (host->normalized ? NORMALIZED : 0) |
                   (host->sRGB ? SRGB : 0) | (host->disableTrilinearOptimization ? NO_TRILINEAR_OPTIMIZATION : 0);
}

static int find(const void *key, bool surface, core_context **context, struct reference *reference, core_texref **out)
{
    core_image *image;
    int error = runtime_enter(context);
    if (!error)
        error = registered_as(key, surface, reference);
    if (!error)
        error = runtime_image_core(reference->image, &image);
    if (!error && (error = core_texref_find(*context, image, reference->name, surface, out)) == CORE_NOT_FOUND)
        error = no_such(surface);
    if (!error && !surface)
        core_texref_follow(*out, refresh, key);
    return error;
}

/* ---- binding to memory ---- */

/* The elements that the program declared. */
static int type_of(const textureReference *key, const cudaChannelFormatDesc *desc, int *format, unsigned *channels)
{
    int own_format, error = runtime_array_format(desc, format, channels);
    unsigned own_channels;
    if (!error)
        error = runtime_array_format(&key->channelDesc, &own_format, &own_channels);
    if (!error && (own_format != *format || own_channels != *channels))
        error = cudaErrorInvalidValue;
    return error;
}

static int unbind(core_texref *texref) { return core_texref_set_address(texref, 0, 0, NULL); }

/* *before: bytes from where a texture can begin to the pointer. */
static int memory_of(core_context *context, const void *pointer, size_t *offset, uint64_t *before,
                     struct core_range *range)
{
    const uint64_t address = (uint64_t)(uintptr_t)pointer;
    if (!core_address_lookup(address, range) || range->kind == CORE_UNKNOWN_MEMORY)
        return CORE_NOT_FOUND;
    *before = address % core_texref_alignment(context);
    return *before && !offset ? cudaErrorInvalidValue : cudaSuccess;
}

static void keep_offset(core_texref *texref, uint64_t before)
{
    core_context *context;
    struct texref_state *state = core_texref_open(texref, false, &context);
    if (!state)
        return;
    state->offset = before;
    core_texref_close(texref, false);
}

static int bind(size_t *offset, const textureReference *key, const void *pointer, const cudaChannelFormatDesc *desc,
                size_t size)
{
    core_context *context;
    struct reference reference;
    core_texref *texref;
    struct core_range range;
    uint64_t before;
    int format;
    unsigned channels;
    int error = find(key, false, &context, &reference, &texref);
    if (!error && !desc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = memory_of(context, pointer, offset, &before, &range);
    if (!error)
        error = type_of(key, desc, &format, &channels);
    if (error)
        return error;
    /* The usual size is UINT_MAX: all that there is. */
    const uint64_t address = (uint64_t)(uintptr_t)pointer, rest = range.base + range.size - address;
    if ((error = unbind(texref)) || (error = core_texref_set_format(texref, format, channels)) ||
        (error =
             core_texref_set_address(texref, address - before, size ? before + (size < rest ? size : rest) : 0, NULL)))
        return error;
    keep_offset(texref, before);
    if (offset)
        *offset = before;
    return cudaSuccess;
}

cudaError_t runtime_cudaBindTexture(size_t *offset, const textureReference *texref, const void *pointer,
                                    const cudaChannelFormatDesc *desc, size_t size)
{
    return runtime_waited(bind(offset, texref, pointer, desc, size));
}

static int bind_2d(size_t *offset, const textureReference *key, const void *pointer, const cudaChannelFormatDesc *desc,
                   size_t width, size_t height, size_t pitch)
{
    core_context *context;
    struct reference reference;
    core_texref *texref;
    struct core_range range;
    uint64_t before;
    int format;
    unsigned channels;
    int error = find(key, false, &context, &reference, &texref);
    if (!error && !desc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = memory_of(context, pointer, offset, &before, &range);
    if (!error)
        error = type_of(key, desc, &format, &channels);
    if (error || (error = unbind(texref)) ||
        (error = core_texref_set_address_2d(texref, (uint64_t)(uintptr_t)pointer - before, format, channels, width,
                                            height, pitch)))
        return error;
    keep_offset(texref, before);
    if (offset)
        *offset = before;
    return cudaSuccess;
}

cudaError_t runtime_cudaBindTexture2D(size_t *offset, const textureReference *texref, const void *pointer,
                                      const cudaChannelFormatDesc *desc, size_t width, size_t height, size_t pitch)
{
    return runtime_waited(bind_2d(offset, texref, pointer, desc, width, height, pitch));
}

/* ---- binding to arrays ---- */

/* Whether the array has the elements that `desc` says. NVIDIA's runtime does not look at its dimensions and layers. */
static int array_fits(const textureReference *key, const struct core_array_shape *shape,
                      const cudaChannelFormatDesc *desc)
{
    int format;
    unsigned channels;
    if (!desc)
        return cudaErrorInvalidValue;
    int error = type_of(key, desc, &format, &channels);
    return !error && (format != shape->format || channels != shape->channels) ? cudaErrorInvalidValue : error;
}

static int bind_array(const textureReference *key, core_array array, const cudaChannelFormatDesc *desc,
                      enum texref_resource resource)
{
    core_context *context;
    struct reference reference;
    core_texref *texref;
    struct core_array_shape shape;
    unsigned levels;
    int error = find(key, false, &context, &reference, &texref);
    if (!error)
        error = resource == TEXREF_ARRAY ? core_array_shape(array, &shape) : core_mipmap_shape(array, &shape, &levels);
    if (!error)
        error = array_fits(key, &shape, desc);
    return error ? error : core_texref_set_array(texref, resource, array, 0);
}

cudaError_t runtime_cudaBindTextureToArray(const textureReference *texref, cudaArray_const_t array,
                                           const cudaChannelFormatDesc *desc)
{
    return runtime_waited(bind_array(texref, runtime_array(array), desc, TEXREF_ARRAY));
}

cudaError_t runtime_cudaBindTextureToMipmappedArray(const textureReference *texref, cudaMipmappedArray_const_t mipmap,
                                                    const cudaChannelFormatDesc *desc)
{
    return runtime_waited(bind_array(texref, runtime_array(mipmap), desc, TEXREF_MIPMAP));
}

static int bind_surface(const surfaceReference *key, core_array array)
{
    core_context *context;
    struct reference reference;
    core_texref *texref;
    int error = find(key, true, &context, &reference, &texref);
    return error ? error : core_texref_set_surface(texref, array, 0);
}

/* NVIDIA's runtime does not look at the description. */
cudaError_t runtime_cudaBindSurfaceToArray(const surfaceReference *surfref, cudaArray_const_t array,
                                           const cudaChannelFormatDesc *desc)
{
    (void)desc;
    return runtime_waited(bind_surface(surfref, runtime_array(array)));
}

static int end_binding(const textureReference *key)
{
    core_context *context;
    struct reference reference;
    core_texref *texref;
    int error = find(key, false, &context, &reference, &texref);
    return error ? error : unbind(texref);
}

cudaError_t runtime_cudaUnbindTexture(const textureReference *texref) { return runtime_waited(end_binding(texref)); }

/* ---- asking ---- */

static int get_offset(size_t *out, const textureReference *key)
{
    core_context *context;
    struct reference reference;
    core_texref *texref;
    int error = find(key, false, &context, &reference, &texref);
    if (error)
        return error;
    const struct texref_state *state = core_texref_open(texref, false, &context);
    if (!state)
        return cudaErrorInvalidTexture;
    if (state->resource == TEXREF_UNBOUND)
        error = cudaErrorInvalidTextureBinding;
    else if (!out)
        error = cudaErrorInvalidValue;
    else
        *out = state->offset;
    core_texref_close(texref, false);
    return error;
}

cudaError_t runtime_cudaGetTextureAlignmentOffset(size_t *offset, const textureReference *texref)
{
    return runtime_waited(get_offset(offset, texref));
}

/* The program's variable is the reference. */
static int get_reference(const void **out, const void *symbol, bool surface)
{
    struct reference reference;
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = registered_as(symbol, surface, &reference);
    if (!error && !out)
        error = cudaErrorInvalidValue;
    if (!error)
        *out = symbol;
    return error;
}

/* The thread does not remember this error; NVIDIA's runtime has it so. */
cudaError_t runtime_cudaGetTextureReference(const textureReference **texref, const void *symbol)
{
    core_count_local();
    return (cudaError_t)get_reference((const void **)texref, symbol, false);
}

cudaError_t runtime_cudaGetSurfaceReference(const surfaceReference **surfref, const void *symbol)
{
    core_count_local();
    return (cudaError_t)get_reference((const void **)surfref, symbol, true);
}
#endif
