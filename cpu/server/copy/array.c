/* array.c: what copies need to know of CUDA arrays, which forwarded calls make (object.h). */
#include "cpu/server/memory/object.h"

#include "cpu/common/texel.h"

CUresult array_shape(const struct gpu *gpu, uint64_t handle, struct object_shape *shape)
{
    CUDA_ARRAY3D_DESCRIPTOR array;
    if (!gpu->Array3DGetDescriptor)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = gpu->Array3DGetDescriptor(&array, (CUarray)(uintptr_t)handle);
    if (r != CUDA_SUCCESS)
        return r;
    uint64_t texel = texel_size((int)array.Format, array.NumChannels);
    if (!texel)
        return CUDA_ERROR_NOT_SUPPORTED;
    *shape = (struct object_shape){ .height = array.Height ? texel_elements((int)array.Format, array.Height) : 1,
                                    .depth = array.Depth ? array.Depth : 1 };
    const size_t columns = texel_elements((int)array.Format, array.Width);
    return __builtin_mul_overflow(columns, texel, &shape->row) || !shape->row ? CUDA_ERROR_INVALID_VALUE
                                                                                  : CUDA_SUCCESS;
}
