/* array.c: arrays and mipmapped arrays, of chapters "Memory Management" and "Texture Object Management". Copies are in
   copy_array.c. */
#include "cpu/client/runtime/array.h"

#include "api/forward/core.h"
#include "cpu/client/graph/capture.h"

/* ---- formats: CUarray_format ---- */

enum { FORMAT_UNSIGNED = 1, FORMAT_SIGNED = 8, FORMAT_HALF = 16, FORMAT_FLOAT = 32 };

/* The other kinds, from NV12 on: each has one description only. Some releases lack the last ones. */
enum { KIND_SPECIAL = 4 };
static const struct { unsigned char format, bits[4]; } special_kinds[] = {
    { 176, { 8, 8, 8, 0 } },   { 192, { 8, 0, 0, 0 } },   { 193, { 8, 8, 0, 0 } },     { 194, { 8, 8, 8, 8 } },
    { 195, { 16, 0, 0, 0 } },  { 196, { 16, 16, 0, 0 } }, { 197, { 16, 16, 16, 16 } }, { 198, { 8, 0, 0, 0 } },
    { 199, { 8, 8, 0, 0 } },   { 200, { 8, 8, 8, 8 } },   { 201, { 16, 0, 0, 0 } },    { 202, { 16, 16, 0, 0 } },
    { 203, { 16, 16, 16, 16 } }, { 145, { 8, 8, 8, 8 } }, { 146, { 8, 8, 8, 8 } },     { 147, { 8, 8, 8, 8 } },
    { 148, { 8, 8, 8, 8 } },   { 149, { 8, 8, 8, 8 } },   { 150, { 8, 8, 8, 8 } },     { 151, { 8, 0, 0, 0 } },
    { 152, { 8, 0, 0, 0 } },   { 153, { 8, 8, 0, 0 } },   { 154, { 8, 8, 0, 0 } },     { 155, { 16, 16, 16, 0 } },
    { 156, { 16, 16, 16, 0 } }, { 157, { 8, 8, 8, 8 } },  { 158, { 8, 8, 8, 8 } },     { 80, { 10, 10, 10, 2 } },
};
enum { SPECIAL_KINDS = sizeof special_kinds / sizeof *special_kinds };

cudaChannelFormatDesc runtime_cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind)
{
    return (cudaChannelFormatDesc){ x, y, z, w, kind };
}

/* 8, 16 and 32 bits have consecutive numbers. */
static int sized(int format, int bits)
{
    return bits == 8 ? format : bits == 16 ? format + 1 : bits == 32 ? format + 2 : 0;
}

static int special_format(int kind, const int bits[4], int *format, unsigned *channels)
{
    const unsigned char *wanted = special_kinds[kind - KIND_SPECIAL].bits;
    for (unsigned i = 0; i < 4; i++) {
        if (bits[i] != wanted[i])
            return cudaErrorInvalidChannelDescriptor;
        *channels += bits[i] != 0;
    }
    *format = special_kinds[kind - KIND_SPECIAL].format;
    return cudaSuccess; /* the core says why, if it refuses the format */
}

int runtime_array_format(const cudaChannelFormatDesc *d, int *format, unsigned *channels)
{
    const int bits[4] = { d->x, d->y, d->z, d->w };
    unsigned count = 0;
    *channels = 0;
    *format = 0;
    if ((int)d->f >= KIND_SPECIAL && (int)d->f < KIND_SPECIAL + SPECIAL_KINDS)
        return special_format((int)d->f, bits, format, channels);
    while (count < 4 && bits[count])
        count++;
    *channels = count;
    for (unsigned i = 1; i < 4; i++)
        if (bits[i] != (i < count ? bits[0] : 0))
            return cudaErrorInvalidChannelDescriptor;
    switch (d->f) {
    case cudaChannelFormatKindSigned: *format = sized(FORMAT_SIGNED, bits[0]); break;
    case cudaChannelFormatKindUnsigned: *format = sized(FORMAT_UNSIGNED, bits[0]); break;
    case cudaChannelFormatKindFloat: *format = bits[0] == 16 ? FORMAT_HALF : bits[0] == 32 ? FORMAT_FLOAT : 0; break;
    default: break;
    }
    return *format && (count == 1 || count == 2 || count == 4) ? cudaSuccess : cudaErrorInvalidChannelDescriptor;
}

cudaChannelFormatDesc runtime_channel_desc(int format, unsigned channels)
{
    for (int k = 0; k < SPECIAL_KINDS; k++)
        if (special_kinds[k].format == format) {
            const unsigned char *bits = special_kinds[k].bits;
            return (cudaChannelFormatDesc){ bits[0], bits[1], bits[2], bits[3],
                                            (cudaChannelFormatKind)(KIND_SPECIAL + k) };
        }
    bool is_signed = format >= FORMAT_SIGNED && format < FORMAT_HALF;
    int bits = format == FORMAT_HALF    ? 16
               : format == FORMAT_FLOAT ? 32
                                        : 8 << (format - (is_signed ? FORMAT_SIGNED : FORMAT_UNSIGNED));
    return (cudaChannelFormatDesc){ bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0,
                                    format >= FORMAT_HALF ? cudaChannelFormatKindFloat
                                    : is_signed           ? cudaChannelFormatKindSigned
                                                          : cudaChannelFormatKindUnsigned };
}

/* ---- allocation ---- */

/* What NVIDIA's runtime says before it looks at the format. */
static int shape_check(const cudaExtent *extent, unsigned flags)
{
    enum { LAYERED = 1, CUBEMAP = 4 };
    bool layered = flags & LAYERED, cubemap = flags & CUBEMAP;
    if (!extent->width || (layered && !extent->depth))
        return cudaErrorInvalidValue;
    if (cubemap && (extent->width != extent->height || (layered ? extent->depth % 6 : extent->depth != 6)))
        return cudaErrorInvalidValue;
    return !layered && !extent->height && extent->depth ? cudaErrorInvalidValue : cudaSuccess;
}

/* levels: 0: no mipmapped array. */
static int allocate(void **out, const cudaChannelFormatDesc *desc, const cudaExtent *extent, unsigned levels,
                    unsigned flags)
{
    core_context *context;
    struct core_array_shape shape = {
        .width = extent->width, .height = extent->height, .depth = extent->depth, .flags = flags
    };
    core_array array;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out || !desc)
        return cudaErrorInvalidValue;
    if ((error = shape_check(extent, flags)) ||
        (error = runtime_array_format(desc, &shape.format, &shape.channels)) || (error = issue_check_unsafe()))
        return error;
    error = levels ? core_mipmap_create(context, &shape, levels, &array) : core_array_create(context, &shape, &array);
    if (!error)
        *out = (void *)(uintptr_t)array;
    return error;
}

cudaError_t runtime_cudaMallocArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, size_t width, size_t height,
                                    unsigned flags)
{
    return runtime_waited(allocate(array, desc, &(cudaExtent){ width, height, 0 }, 0, flags));
}

cudaError_t runtime_cudaMalloc3DArray(cudaArray_t *array, const cudaChannelFormatDesc *desc, cudaExtent extent,
                                      unsigned flags)
{
    return runtime_waited(allocate(array, desc, &extent, 0, flags));
}

cudaError_t runtime_cudaMallocMipmappedArray(cudaMipmappedArray_t *array, const cudaChannelFormatDesc *desc,
                                             cudaExtent extent, unsigned levels, unsigned flags)
{
    return runtime_waited(allocate(array, desc, &extent, levels ? levels : 1, flags));
}

static int level(cudaArray_t *out, cudaMipmappedArray_const_t mipmap, unsigned number)
{
    core_context *context;
    core_array array;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out)
        return cudaErrorInvalidValue;
    error = core_mipmap_level(runtime_array(mipmap), number, &array);
    if (!error)
        *out = (void *)(uintptr_t)array;
    return error;
}

cudaError_t runtime_cudaGetMipmappedArrayLevel(cudaArray_t *out, cudaMipmappedArray_const_t mipmap, unsigned number)
{
    return runtime_waited(level(out, mipmap, number));
}

/* NULL can be freed. */
static int release(const void *handle, int (*end)(core_array))
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error || !handle || (error = issue_check_unsafe()))
        return error;
    return end(runtime_array(handle));
}

cudaError_t runtime_cudaFreeArray(cudaArray_t array) { return runtime_waited(release(array, core_array_free)); }

cudaError_t runtime_cudaFreeMipmappedArray(cudaMipmappedArray_t array)
{
    return runtime_waited(release(array, core_mipmap_free));
}

/* ---- questions ---- */

static int shape_of(const void *array, struct core_array_shape *shape)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : core_array_shape(runtime_array(array), shape);
}

cudaError_t runtime_cudaArrayGetInfo(cudaChannelFormatDesc *desc, cudaExtent *extent, unsigned *flags,
                                     cudaArray_t array)
{
    struct core_array_shape shape;
    int error = shape_of(array, &shape);
    if (!error && desc)
        *desc = runtime_channel_desc(shape.format, shape.channels);
    if (!error && extent)
        *extent = (cudaExtent){ shape.width, shape.height, shape.depth };
    if (!error && flags)
        *flags = shape.flags;
    return runtime_local(error);
}

cudaError_t runtime_cudaGetChannelDesc(cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    struct core_array_shape shape;
    int error = shape_of(array, &shape);
    if (!error && !desc)
        error = cudaErrorInvalidValue;
    if (!error)
        *desc = runtime_channel_desc(shape.format, shape.channels);
    return runtime_local(error);
}

static int width_of_texture(size_t *width, const cudaChannelFormatDesc *desc, int device)
{
    int format, error = runtime_attach_device(device);
    unsigned channels;
    if (!error && (!width || !desc))
        error = cudaErrorInvalidValue;
    if (error || (error = runtime_array_format(desc, &format, &channels)))
        return error;
    return core_device_get_texture1d_linear_max_width(width, format, channels, device);
}

cudaError_t runtime_cudaDeviceGetTexture1DLinearMaxWidth(size_t *width, const cudaChannelFormatDesc *desc, int device)
{
    return runtime_waited(width_of_texture(width, desc, device));
}

/* ---- what only special arrays have ---- */

/* Sparse ones, ones without memory, and planar formats cannot be made here. */
static int no_special_array(const void *array)
{
    struct core_array_shape shape;
    int error = shape_of(array, &shape);
    return error ? error : cudaErrorInvalidValue;
}

static int no_special_mipmap(const void *mipmap)
{
    core_context *context;
    struct core_array_shape shape;
    unsigned levels;
    int error = runtime_enter(&context);
    if (!error)
        error = core_mipmap_shape(runtime_array(mipmap), &shape, &levels);
    return error ? error : cudaErrorInvalidValue;
}

cudaError_t runtime_cudaArrayGetPlane(cudaArray_t *out, cudaArray_t array, unsigned plane)
{
    (void)out;
    (void)plane;
    return runtime_local(no_special_array(array));
}

cudaError_t runtime_cudaArrayGetMemoryRequirements(cudaArrayMemoryRequirements *out, cudaArray_t array, int device)
{
    int error = runtime_attach_device(device);
    (void)out;
    return runtime_local(error ? error : no_special_array(array));
}

cudaError_t runtime_cudaMipmappedArrayGetMemoryRequirements(cudaArrayMemoryRequirements *out,
                                                            cudaMipmappedArray_t mipmap, int device)
{
    int error = runtime_attach_device(device);
    (void)out;
    return runtime_local(error ? error : no_special_mipmap(mipmap));
}

cudaError_t runtime_cudaArrayGetSparseProperties(cudaArraySparseProperties *out, cudaArray_t array)
{
    (void)out;
    return runtime_local(no_special_array(array));
}

cudaError_t runtime_cudaMipmappedArrayGetSparseProperties(cudaArraySparseProperties *out, cudaMipmappedArray_t mipmap)
{
    (void)out;
    return runtime_local(no_special_mipmap(mipmap));
}
