/*
 * tensor.h: tensor maps (CUtensorMap), between softgpu/driver/ (which writes them) and softgpu/exec/ (which copies by
 * them). Programs keep a map in 128 bytes of their own and hand it to kernels; what stands in it is for the device
 * alone. The server's driver writes it, so a client of another GPU gets that GPU's form.
 */
#ifndef SOFTGPU_TENSOR_H
#define SOFTGPU_TENSOR_H

#include <stdint.h>

enum { SG_TENSOR_MAGIC = 0x544d4731, SG_TENSOR_RANK = 5 };
/* CUtensorMapDataType */
enum sg_tensor_type {
    SG_TENSOR_U8, SG_TENSOR_U16, SG_TENSOR_U32, SG_TENSOR_S32, SG_TENSOR_U64, SG_TENSOR_S64, SG_TENSOR_F16,
    SG_TENSOR_F32, SG_TENSOR_F64, SG_TENSOR_BF16, SG_TENSOR_F32_FTZ, SG_TENSOR_TF32, SG_TENSOR_TF32_FTZ,
    SG_TENSOR_TYPES
};

struct sg_tensor {
    uint64_t address;
    uint64_t strides[SG_TENSOR_RANK - 1];  /* bytes, of dimensions 1 and up */
    uint32_t last[SG_TENSOR_RANK];         /* the last index of each dimension */
    uint16_t box[SG_TENSOR_RANK];          /* elements of a box in shared memory, element strides considered */
    uint8_t steps[SG_TENSOR_RANK];         /* elements of the tensor between two of the box */
    uint8_t rank, type;                    /* enum sg_tensor_type */
    uint8_t swizzle;                       /* CUtensorMapSwizzle, 0 to 3: pieces of 16 bytes in spans of 16 << it */
    uint8_t fill_nan;                      /* beyond the edges; else zeros */
    uint32_t magic;
};
_Static_assert(sizeof(struct sg_tensor) <= 128, "a tensor map has 128 bytes");

static inline unsigned sg_tensor_size(unsigned type)
{
    static const uint8_t sizes[SG_TENSOR_TYPES] = { 1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4 };
    return type < SG_TENSOR_TYPES ? sizes[type] : 0;
}

#endif
