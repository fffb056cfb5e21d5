/* tensor_map.c: chapter "Tensor Map Object Management". */
#include "cpu/client/driver/driver.h"

#include <string.h>

enum { ALIGNMENT = 64, RANK_LEAST = 3, RANK_MOST = 5 }; /* RANK_LEAST: of im2col */

/* Takes the arrays whose length is the rank, and has the server write the map. */
static int encode(CUtensorMap *map, struct core_tensor *t, const cuuint64_t *dims, const cuuint64_t *strides,
                  const cuuint32_t *steps)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!map || (uintptr_t)map % ALIGNMENT || !t->rank || t->rank > RANK_MOST || !dims || (t->rank > 1 && !strides) ||
        !steps)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(t->dims, dims, t->rank * sizeof *dims);
    if (t->rank > 1)
        memcpy(t->strides, strides, (t->rank - 1) * sizeof *strides);
    memcpy(t->steps, steps, t->rank * sizeof *steps);
    return core_tensor_map_encode(context, t, map);
}

CUresult driver_cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                       const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                       const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    struct core_tensor t = { .address = (uintptr_t)address, .rank = rank, .type = (int)type,
                             .interleave = (int)interleave, .swizzle = (int)swizzle, .promotion = (int)promotion,
                             .fill = (int)fill };
    if (box && rank <= RANK_MOST)
        memcpy(t.box, box, rank * sizeof *box);
    return driver_waited(encode(box ? map : NULL, &t, dims, strides, steps));
}

CUresult driver_cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                        const cuuint64_t *dims, const cuuint64_t *strides, const int *lower,
                                        const int *upper, cuuint32_t channels, cuuint32_t pixels,
                                        const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                        CUtensorMapFloatOOBfill fill)
{
    struct core_tensor t = { .kind = CORE_TENSOR_IM2COL,
                             .address = (uintptr_t)address,
                             .rank = rank,
                             .type = (int)type,
                             .box = { channels, pixels },
                             .interleave = (int)interleave,
                             .swizzle = (int)swizzle,
                             .promotion = (int)promotion,
                             .fill = (int)fill };
    bool fit = lower && upper && rank >= RANK_LEAST && rank <= RANK_MOST;
    for (cuuint32_t k = 0; fit && k < rank - 2; k++) {
        t.lower[k] = lower[k];
        t.upper[k] = upper[k];
    }
    return driver_waited(encode(fit ? map : NULL, &t, dims, strides, steps));
}

CUresult driver_cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                            const cuuint64_t *dims, const cuuint64_t *strides, int lower, int upper,
                                            cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
                                            CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                            CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                            CUtensorMapFloatOOBfill fill)
{
    struct core_tensor t = { .kind = CORE_TENSOR_IM2COL_WIDE,
                             .address = (uintptr_t)address,
                             .rank = rank,
                             .box = { channels, pixels, (unsigned)mode },
                             .lower = { lower },
                             .upper = { upper },
                             .type = (int)type,
                             .interleave = (int)interleave,
                             .swizzle = (int)swizzle,
                             .promotion = (int)promotion,
                             .fill = (int)fill };
    return driver_waited(encode(rank >= RANK_LEAST ? map : NULL, &t, dims, strides, steps));
}

CUresult driver_cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && (!map || (uintptr_t)map % ALIGNMENT))
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_waited(error ? error : core_tensor_map_replace(context, map, (uintptr_t)address));
}
