/* tensor_map.c: chapter "Tensor Map Object Management". */
#include "cpu/client/driver/driver.h"

#include <string.h>

enum { ALIGNMENT = 64, RANK_MOST = 5 };

static int tiled(CUtensorMap *map, struct core_tensor_tiled *t, const cuuint64_t *dims, const cuuint64_t *strides,
                 const cuuint32_t *box, const cuuint32_t *steps)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!map || (uintptr_t)map % ALIGNMENT || !t->rank || t->rank > RANK_MOST || !dims || (t->rank > 1 && !strides) ||
        !box || !steps)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(t->dims, dims, t->rank * sizeof *dims);
    if (t->rank > 1)
        memcpy(t->strides, strides, (t->rank - 1) * sizeof *strides);
    memcpy(t->box, box, t->rank * sizeof *box);
    memcpy(t->steps, steps, t->rank * sizeof *steps);
    return core_tensor_map_tiled(context, t, map);
}

CUresult driver_cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                       const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    struct core_tensor_tiled t = { .address = (uintptr_t)address, .rank = rank, .type = (int)type,
                                   .interleave = (int)interleave, .swizzle = (int)swizzle,
                                   .promotion = (int)promotion, .fill = (int)fill };
    return driver_waited(tiled(map, &t, dims, strides, box, steps));
}

CUresult driver_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && (!map || (uintptr_t)map % ALIGNMENT))
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_waited(error ? error : core_tensor_map_replace(context, map, (uintptr_t)address));
}
