/* array.c: arrays and mipmapped arrays, of chapter "Memory Management". Copies are in copy.c. */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

static struct core_array_shape shape_of(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    return (struct core_array_shape){ .width = d->Width,
                                      .height = d->Height,
                                      .depth = d->Depth,
                                      .format = (int)d->Format,
                                      .channels = d->NumChannels,
                                      .flags = d->Flags };
}

static int create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!out || !wanted)
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = issue_check_unsafe()))
        return error;
    const struct core_array_shape shape = shape_of(wanted);
    return core_array_create(context, &shape, out);
}

CUresult driver_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
    return driver_waited(create(out, wanted));
}

CUresult driver_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
    if (!wanted)
        return driver_waited(create(out, NULL));
    const CUDA_ARRAY3D_DESCRIPTOR same = {
        .Width = wanted->Width, .Height = wanted->Height, .Format = wanted->Format, .NumChannels = wanted->NumChannels
    };
    return driver_waited(create(out, &same));
}

CUresult driver_cuArrayDestroy(CUarray array)
{
    int error = driver_ready();
    if (!error)
        error = issue_check_unsafe();
    return driver_waited(error ? error : core_array_free(array));
}

static int describe(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    core_context *context;
    struct core_array_shape shape;
    int error = driver_enter(&context);
    if (error || (error = core_array_shape(array, &shape)))
        return error;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUDA_ARRAY3D_DESCRIPTOR){ .Width = shape.width,
                                      .Height = shape.height,
                                      .Depth = shape.depth,
                                      .Format = (CUarray_format)shape.format,
                                      .NumChannels = shape.channels,
                                      .Flags = shape.flags };
    return CUDA_SUCCESS;
}

CUresult driver_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    return driver_local(describe(out, array));
}

CUresult driver_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *out, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR whole;
    int error = describe(out ? &whole : NULL, array);
    if (!error)
        *out = (CUDA_ARRAY_DESCRIPTOR){ whole.Width, whole.Height, whole.Format, whole.NumChannels };
    return driver_local(error);
}

/* ---- mipmapped arrays ---- */

static int create_mipmap(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!out || !wanted)
        return CUDA_ERROR_INVALID_VALUE;
    if ((error = issue_check_unsafe()))
        return error;
    const struct core_array_shape shape = shape_of(wanted);
    return core_mipmap_create(context, &shape, levels, out);
}

CUresult driver_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
    return driver_waited(create_mipmap(out, wanted, levels));
}

CUresult driver_cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray mipmap, unsigned level)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_waited(error ? error : core_mipmap_level(mipmap, level, out));
}

CUresult driver_cuMipmappedArrayDestroy(CUmipmappedArray mipmap)
{
    int error = driver_ready();
    if (!error)
        error = issue_check_unsafe();
    return driver_waited(error ? error : core_mipmap_free(mipmap));
}

/* ---- what only special arrays have ---- */

/* Sparse ones, ones without memory, and planar formats cannot be made here. */
static int no_special_array(CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR described;
    int error = describe(&described, array);
    return error ? error : CUDA_ERROR_INVALID_VALUE;
}

static int no_special_mipmap(CUmipmappedArray mipmap)
{
    core_context *context;
    struct core_array_shape shape;
    unsigned levels;
    int error = driver_enter(&context);
    if (!error)
        error = core_mipmap_shape(mipmap, &shape, &levels);
    return error ? error : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUarray array)
{
    (void)out;
    return driver_local(no_special_array(array));
}

CUresult driver_cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *out, CUmipmappedArray mipmap)
{
    (void)out;
    return driver_local(no_special_mipmap(mipmap));
}

CUresult driver_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array, CUdevice device)
{
    int error = driver_device(device);
    (void)out;
    return driver_local(error ? error : no_special_array(array));
}

CUresult driver_cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray mipmap,
                                                      CUdevice device)
{
    int error = driver_device(device);
    (void)out;
    return driver_local(error ? error : no_special_mipmap(mipmap));
}

CUresult driver_cuArrayGetPlane(CUarray *out, CUarray array, unsigned plane)
{
    (void)out;
    (void)plane;
    return driver_local(no_special_array(array));
}
