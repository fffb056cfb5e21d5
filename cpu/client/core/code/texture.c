/* texture.c: what of textures is not only handed on: the memory that one is made of is the program's. */
#include "api/driver/types.h"
#include "api/forward/core.h"
#include "cpu/common/cancel.h"
#include "cpu/common/texel.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/memory/memory.h"

/* The server's driver sees pieces of memory, and an allocation is a part of one (memory.c). */
static bool memory_fits(const struct CUDA_RESOURCE_DESC *from)
{
    if (from->resType == CU_RESOURCE_TYPE_LINEAR)
        return address_covers(from->res.linear.devPtr, 1);       /* it may be longer than the allocation, as natively */
    if (from->resType != CU_RESOURCE_TYPE_PITCH2D)
        return true;
    size_t width = from->res.pitch2D.width, height = from->res.pitch2D.height, pitch = from->res.pitch2D.pitchInBytes;
    size_t texel = texel_size((int)from->res.pitch2D.format, from->res.pitch2D.numChannels), row, bytes;
    return width && height && texel && !__builtin_mul_overflow(width, texel, &row) && pitch >= row &&
           !__builtin_mul_overflow(height - 1, pitch, &bytes) && !__builtin_add_overflow(bytes, row, &bytes) &&
           address_covers(from->res.pitch2D.devPtr, bytes);
}

int core_texture_create(core_context *context, uint64_t *texture, const struct CUDA_RESOURCE_DESC *from,
                        const struct CUDA_TEXTURE_DESC *how, const struct CUDA_RESOURCE_VIEW_DESC *view)
{
    CANCEL_DEFERRED;
    if (!texture || !from || !how || !memory_fits(from))
        return CORE_INVALID_VALUE;
    return core_tex_object_create(context, texture, from, how, view);
}
