/* tensor.c: tensor maps. CUDA reference: Tensor Map Object Management. The map is softgpu/tensor.h's. */
#include "softgpu/driver/calls/calls.h"

#include <string.h>

#include "softgpu/tensor.h"

#if CUDA_VERSION >= 12000
enum { BOX_MOST = 256, PIXELS_MOST = 1024, STEP_MOST = 8, PIECE = 16 };

static CUresult enter_and_leave(void)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (!r)
        sgd_leave();
    return r;
}

static bool is_float(unsigned type) { return type >= SG_TENSOR_F16 && type <= SG_TENSOR_TF32_FTZ; }
/* Elements that take more room in shared memory than in global memory. */
static bool is_wide(unsigned type) { return type == SG_TENSOR_U4_WIDE || type == SG_TENSOR_U6_WIDE; }

/* Swizzles that elements with gaps between them can have. */
static bool wide_swizzle(unsigned type, unsigned swizzle)
{
    return swizzle == SG_TENSOR_SWIZZLE_NONE || swizzle == SG_TENSOR_SWIZZLE_128 ||
           swizzle == SG_TENSOR_SWIZZLE_PIECES_32 ||
           (type == SG_TENSOR_U6_WIDE && swizzle == SG_TENSOR_SWIZZLE_PIECES_64);
}

/* What all kinds of maps have. */
static CUresult begin(struct sg_tensor *t, const CUtensorMap *map, unsigned type, unsigned rank, unsigned interleave,
                      unsigned swizzle, unsigned promotion, unsigned fill)
{
    static const uint8_t modes[SG_TENSOR_SWIZZLES] = { 0, 1, 2, 3, 3, 3, 3 }, pieces[] = { 0, 0, 0, 0, 1, 2, 3 };
    CUresult r = enter_and_leave();
    if (r)
        return r;
    if (!map || (uintptr_t)map % 64 || !rank || rank > SG_TENSOR_RANK || type >= SG_TENSOR_TYPES || interleave > 2 ||
        swizzle >= SG_TENSOR_SWIZZLES || promotion > 3 || fill > 1 || (fill && !is_float(type)) ||
        (interleave && (rank < 3 || type == SG_TENSOR_U6_WIDE)) ||
        (interleave == CU_TENSOR_MAP_INTERLEAVE_32B && swizzle != SG_TENSOR_SWIZZLE_32) ||
        (is_wide(type) && !wide_swizzle(type, swizzle)))
        return CUDA_ERROR_INVALID_VALUE;
    if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
        sgd_log("interleaved tensor maps are not implemented: CUDA's documents do not say which stride leads from one "
                "slice of channels to the next");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *t = (struct sg_tensor){ .magic = SG_TENSOR_MAGIC, .rank = (uint8_t)rank, .type = (uint8_t)type,
                             .swizzle = (uint8_t)swizzle, .swizzle_mode = modes[swizzle],
                             .swizzle_pieces = pieces[swizzle], .fill_nan = fill != 0 };
    return CUDA_SUCCESS;
}

/* How the tensor lies in global memory. */
static CUresult lay_out(struct sg_tensor *t, void *address, const cuuint64_t *dims, const cuuint64_t *strides)
{
    const unsigned align = is_wide(t->type) ? 2 * PIECE : PIECE;
    const cuuint64_t together = is_wide(t->type) ? 128 : sg_tensor_unit(t->type).elements;
    t->address = (uintptr_t)address;
    if (t->address % align || !dims || (t->rank > 1 && !strides) || dims[0] % together)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; k < t->rank; k++) {
        if (!dims[k] || dims[k] > UINT64_C(1) << 32)
            return CUDA_ERROR_INVALID_VALUE;
        t->last[k] = (uint32_t)(dims[k] - 1);
        if (!k)
            continue;
        t->strides[k - 1] = strides[k - 1];
        if (strides[k - 1] % align || strides[k - 1] >= UINT64_C(1) << 40)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult steps_of(struct sg_tensor *t, const cuuint32_t *steps)
{
    for (unsigned k = 0; steps && k < t->rank; k++) {
        if (!steps[k] || steps[k] > STEP_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        t->steps[k] = (uint8_t)(k ? steps[k] : 1);            /* no steps along the first dimension */
    }
    return steps ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The line of a box fits the pieces and the span of the swizzle. */
static CUresult line_of(const struct sg_tensor *t)
{
    unsigned line = sg_tensor_line_bytes(t), span = sg_tensor_span(t);
    if (is_wide(t->type) ? t->box[0] != 128 : t->box[0] % sg_tensor_unit(t->type).elements != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return line % PIECE || (span && line > span) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult box_of(struct sg_tensor *t, const cuuint32_t *box)
{
    for (unsigned k = 0; box && k < t->rank; k++) {
        if (!box[k] || box[k] > BOX_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        t->box[k] = (uint16_t)box[k];
    }
    return box ? line_of(t) : CUDA_ERROR_INVALID_VALUE;
}

static void put(CUtensorMap *map, const struct sg_tensor *t)
{
    memset(map, 0, sizeof *map);
    memcpy(map, t, sizeof *t);
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box,
                                const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct sg_tensor t;
    CUresult r = begin(&t, map, (unsigned)type, rank, (unsigned)interleave, (unsigned)swizzle, (unsigned)promotion,
                       (unsigned)fill);
    if (!r)
        r = lay_out(&t, address, dims, strides);
    if (!r)
        r = steps_of(&t, steps);
    if (!r)
        r = box_of(&t, box);
    if (!r)
        put(map, &t);
    return r;
}

/* The bounding box of pixels: corners have 16 bits, 8 or 5, so that all fit. */
static CUresult pixels_of(struct sg_tensor *t, const int *lower, const int *upper, cuuint32_t channels,
                          cuuint32_t pixels)
{
    static const uint8_t bits[] = { [3] = 16, [4] = 8, [5] = 5 };
    if (!lower || !upper || !channels || channels > BOX_MOST || !pixels || pixels > PIXELS_MOST)
        return CUDA_ERROR_INVALID_VALUE;
    const int least = -(1 << (bits[t->rank] - 1)), most = -least - 1;
    for (unsigned k = 0; k < t->rank - 2u; k++) {
        if (lower[k] < least || lower[k] > most || upper[k] < least || upper[k] > most ||
            (int64_t)t->last[k + 1] + upper[k] < lower[k])
            return CUDA_ERROR_INVALID_VALUE;
        t->lower[k] = (int16_t)lower[k];
        t->upper[k] = (int16_t)upper[k];
    }
    t->im2col = SG_TENSOR_IM2COL;
    t->box[0] = (uint16_t)channels;
    t->pixels = (uint16_t)pixels;
    return line_of(t);
}

#if CUDA_VERSION >= 12080
enum { WIDE_CAPABILITY = 10 };

static bool has_wide(void)
{
    struct sgd_context *c;
    if (sgd_enter_current(&c))
        return true; /* begin() finds the same error */
    const bool has = sgd_attribute(c->device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= WIDE_CAPABILITY;
    sgd_leave();
    return has;
}

/* Corners in dimension 1 only, of a box that has pixels. */
static CUresult row_of(struct sg_tensor *t, int lower, int upper, cuuint32_t channels, cuuint32_t pixels, bool all_128)
{
    if (lower < INT16_MIN || lower > INT16_MAX || upper < INT16_MIN || upper > INT16_MAX ||
        (int64_t)t->last[1] + upper < lower || !channels || channels > BOX_MOST ||
        (!all_128 && (!pixels || pixels > PIXELS_MOST)))
        return CUDA_ERROR_INVALID_VALUE;
    t->im2col = all_128 ? SG_TENSOR_IM2COL_W128 : SG_TENSOR_IM2COL_W;
    t->lower[0] = (int16_t)lower;
    t->upper[0] = (int16_t)upper;
    t->box[0] = (uint16_t)channels;
    t->pixels = all_128 ? 0 : (uint16_t)pixels;
    return line_of(t);
}

CUresult cuTensorMapEncodeIm2colWide(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                     const cuuint64_t *dims, const cuuint64_t *strides, int lower, int upper,
                                     cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
                                     CUtensorMapInterleave interleave, CUtensorMapIm2ColWideMode mode,
                                     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                     CUtensorMapFloatOOBfill fill)
{
    const bool allowed = swizzle == CU_TENSOR_MAP_SWIZZLE_64B || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
                         swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B;
    struct sg_tensor t;
    if (!has_wide())
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = interleave == CU_TENSOR_MAP_INTERLEAVE_NONE
                     ? begin(&t, map, (unsigned)type, rank, 0, (unsigned)swizzle, (unsigned)promotion, (unsigned)fill)
                     : CUDA_ERROR_INVALID_VALUE; /* PTX: these modes have no interleaved layouts */
    if (!r && (rank < 3 || !allowed || (unsigned)mode > CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = lay_out(&t, address, dims, strides);
    if (!r)
        r = steps_of(&t, steps);
    if (!r)
        r = row_of(&t, lower, upper, channels, pixels, mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128);
    if (!r)
        put(map, &t);
    return r;
}
#endif

CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                 const cuuint64_t *dims, const cuuint64_t *strides, const int *lower, const int *upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t *steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    struct sg_tensor t;
    CUresult r = begin(&t, map, (unsigned)type, rank, (unsigned)interleave, (unsigned)swizzle, (unsigned)promotion,
                       (unsigned)fill);
    if (!r && rank < 3)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = lay_out(&t, address, dims, strides);
    if (!r)
        r = steps_of(&t, steps);
    if (!r)
        r = pixels_of(&t, lower, upper, channels, pixels);
    if (!r)
        put(map, &t);
    return r;
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
