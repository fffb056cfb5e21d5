/* tensor.c: tensor maps. CUDA reference: Tensor Map Object Management. The map is softgpu/tensor.h's. */
#include "softgpu/driver/calls/calls.h"

#include <string.h>

#include "softgpu/tensor.h"

#if CUDA_VERSION >= 12000
enum { BOX_MOST = 256, STEP_MOST = 8, PIECE = 16 };

static CUresult enter_and_leave(void)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (!r)
        sgd_leave();
    return r;
}

static bool is_float(unsigned type) { return type >= SG_TENSOR_F16 && type < SG_TENSOR_TYPES; }

/* How the tensor lies in global memory. */
static CUresult lay_out(struct sg_tensor *t, void *address, const cuuint64_t *dims, const cuuint64_t *strides)
{
    t->address = (uintptr_t)address;
    if (t->address % PIECE)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < t->rank; k++) {
        if (!dims[k] || dims[k] > UINT64_C(1) << 32)
            return CUDA_ERROR_INVALID_VALUE;
        t->last[k] = (uint32_t)(dims[k] - 1);
        if (!k)
            continue;
        t->strides[k - 1] = strides[k - 1];
        if (strides[k - 1] % PIECE || strides[k - 1] >= UINT64_C(1) << 40)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult box_of(struct sg_tensor *t, const cuuint32_t *box, const cuuint32_t *steps)
{
    for (unsigned k = 0; k < t->rank; k++) {
        if (!box[k] || box[k] > BOX_MOST || !steps[k] || steps[k] > STEP_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        t->steps[k] = (uint8_t)(k ? steps[k] : 1);            /* no steps along the first dimension */
        t->box[k] = (uint16_t)((box[k] + t->steps[k] - 1) / t->steps[k]);
    }
    unsigned line = t->box[0] * sg_tensor_size(t->type);
    return line % PIECE || (t->swizzle && line > (unsigned)PIECE << t->swizzle) ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct sg_tensor t = { .magic = SG_TENSOR_MAGIC, .rank = (uint8_t)rank, .type = (uint8_t)type,
                           .swizzle = (uint8_t)swizzle, .fill_nan = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };
    CUresult r = enter_and_leave();
    if (r)
        return r;
    if (!map || (uintptr_t)map % 64 || !rank || rank > SG_TENSOR_RANK || !dims || (rank > 1 && !strides) || !box ||
        !steps || (unsigned)type > 15 || (unsigned)interleave > 2 || (unsigned)swizzle > 6 || (unsigned)promotion > 3 ||
        (unsigned)fill > 1 || (t.fill_nan && !is_float((unsigned)type)))
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)type >= SG_TENSOR_TYPES || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        swizzle > CU_TENSOR_MAP_SWIZZLE_128B) {
        sgd_log("tensor maps of packed types, interleaved ones, and pieces of more than 16 bytes are not implemented");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    r = lay_out(&t, address, dims, strides);
    if (!r)
        r = box_of(&t, box, steps);
    if (r)
        return r;
    memset(map, 0, sizeof *map);
    memcpy(map, &t, sizeof t);
    return CUDA_SUCCESS;
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address)
{
    struct sg_tensor t;
    CUresult r = enter_and_leave();
    if (r)
        return r;
    if (!map || (uintptr_t)map % 64 || (uintptr_t)address % PIECE)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&t, map, sizeof t);
    if (t.magic != SG_TENSOR_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    t.address = (uintptr_t)address;
    memcpy(map, &t, sizeof t);
    return CUDA_SUCCESS;
}
#endif
