/* tensor_map.c: tensor maps: the driver writes them in the form of its device.
   Twin: cpu/client/core/code/tensor_map.c. */
#include <string.h>

#include "cpu/server/code/forward.h"

#if CUDA_VERSION >= 12000
/* The arrays of the arguments, as the driver wants them. */
struct arrays {
    cuuint64_t dims[FLYT_TENSOR_RANK], strides[FLYT_TENSOR_RANK];
    cuuint32_t box[FLYT_TENSOR_RANK], steps[FLYT_TENSOR_RANK];
};

static struct arrays arrays_of(const tensor_map_args *args)
{
    struct arrays a;
    for (unsigned i = 0; i < FLYT_TENSOR_RANK; i++) {
        a.dims[i] = args->dims[i];
        a.strides[i] = args->strides[i];
        a.box[i] = args->box[i];
        a.steps[i] = args->steps[i];
    }
    return a;
}

static CUresult encode_wide(const struct gpu *gpu, const tensor_map_args *args, CUtensorMap *map)
{
#if CUDA_VERSION >= 12080
    const struct arrays a = arrays_of(args);
    if (gpu->TensorMapEncodeIm2colWide)
        return gpu->TensorMapEncodeIm2colWide(
            map, (CUtensorMapDataType)args->type, args->rank, (void *)(uintptr_t)args->address, a.dims, a.strides,
            args->lower[0], args->upper[0], a.box[0], a.box[1], a.steps, (CUtensorMapInterleave)args->interleave,
            (CUtensorMapIm2ColWideMode)a.box[2], (CUtensorMapSwizzle)args->swizzle,
            (CUtensorMapL2promotion)args->promotion, (CUtensorMapFloatOOBfill)args->fill);
#else
    (void)gpu, (void)args, (void)map;
#endif
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult encode(struct session *session, const tensor_map_args *args, CUtensorMap *map)
{
    const struct gpu *gpu = session->gpu;
    struct context *context;
    CUresult r = server_find_context(session, args->context, &context);
    if (r != CUDA_SUCCESS)
        return r;
    if (args->rank > FLYT_TENSOR_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(map, args->map, sizeof *map);
    void *address = (void *)(uintptr_t)args->address;
    if (args->kind == FLYT_TENSOR_REPLACE)
        return gpu->TensorMapReplaceAddress ? gpu->TensorMapReplaceAddress(map, address) : CUDA_ERROR_NOT_SUPPORTED;
    if (args->kind == FLYT_TENSOR_IM2COL_WIDE)
        return encode_wide(gpu, args, map);
    bool im2col = args->kind == FLYT_TENSOR_IM2COL;
    if (im2col ? !gpu->TensorMapEncodeIm2col : !gpu->TensorMapEncodeTiled)
        return CUDA_ERROR_NOT_SUPPORTED;
    const struct arrays a = arrays_of(args);
    if (im2col)
        return gpu->TensorMapEncodeIm2col(map, (CUtensorMapDataType)args->type, args->rank, address, a.dims, a.strides,
                                          args->lower, args->upper, a.box[0], a.box[1], a.steps,
                                          (CUtensorMapInterleave)args->interleave, (CUtensorMapSwizzle)args->swizzle,
                                          (CUtensorMapL2promotion)args->promotion, (CUtensorMapFloatOOBfill)args->fill);
    return gpu->TensorMapEncodeTiled(map, (CUtensorMapDataType)args->type, args->rank, address, a.dims, a.strides,
                                     a.box, a.steps, (CUtensorMapInterleave)args->interleave,
                                     (CUtensorMapSwizzle)args->swizzle, (CUtensorMapL2promotion)args->promotion,
                                     (CUtensorMapFloatOOBfill)args->fill);
}
#endif

void serve_tensor_map(struct session *session, struct call *call)
{
    tensor_map_result result;
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    memset(&result, 0, sizeof result);
#if CUDA_VERSION >= 12000
    CUtensorMap map;
    r = encode(session, &call->args.tensor_map, &map);
    if (r == CUDA_SUCCESS) {
        _Static_assert(sizeof result.map == sizeof map, "the protocol carries whole maps");
        memcpy(result.map, &map, sizeof map);
    }
#endif
    session_reply(session, call->xid, (xdrproc_t)xdr_tensor_map_result, &result, r, false);
}
