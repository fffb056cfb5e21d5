/*
 * tensor.h: tensor maps (CUtensorMap), between softgpu/driver/ (which writes them) and softgpu/exec/ (which copies by
 * them). Programs keep a map in 128 bytes of their own and hand it to kernels; what stands in it is for the device
 * alone. The server's driver writes it, so a client of another GPU gets that GPU's form.
 */
#ifndef SOFTGPU_TENSOR_H
#define SOFTGPU_TENSOR_H

#include <stdint.h>

enum { SG_TENSOR_MAGIC = 0x544d4731, SG_TENSOR_RANK = 5 };
/* "OOB NaN", which copies write beyond a tensor's edges: each 16 bits of an element, whatever its type. Seen on GPUs of
   compute capability 12.0 and 12.1; fma.oob knows it (softgpu/alu/half.c). */
enum { SG_TENSOR_OOB_NAN = 0x7ff7 };
/* CUtensorMapDataType */
enum sg_tensor_type {
    SG_TENSOR_U8, SG_TENSOR_U16, SG_TENSOR_U32, SG_TENSOR_S32, SG_TENSOR_U64, SG_TENSOR_S64, SG_TENSOR_F16,
    SG_TENSOR_F32, SG_TENSOR_F64, SG_TENSOR_BF16, SG_TENSOR_F32_FTZ, SG_TENSOR_TF32, SG_TENSOR_TF32_FTZ,
    SG_TENSOR_U4, SG_TENSOR_U4_WIDE, SG_TENSOR_U6_WIDE, SG_TENSOR_TYPES
};
/* CUtensorMapSwizzle: pieces of 16 bytes in spans of 32, 64 and 128 bytes, or larger pieces in spans of 128. FLIP: in
   each second line of 128 bytes the halves of 16 bytes change places, too */
enum sg_tensor_swizzle {
    SG_TENSOR_SWIZZLE_NONE, SG_TENSOR_SWIZZLE_32, SG_TENSOR_SWIZZLE_64, SG_TENSOR_SWIZZLE_128,
    SG_TENSOR_SWIZZLE_PIECES_32, SG_TENSOR_SWIZZLE_PIECES_32_FLIP, SG_TENSOR_SWIZZLE_PIECES_64, SG_TENSOR_SWIZZLES
};

enum sg_tensor_im2col { SG_TENSOR_TILED, SG_TENSOR_IM2COL, SG_TENSOR_IM2COL_W, SG_TENSOR_IM2COL_W128 };

struct sg_tensor {
    uint64_t address;
    uint64_t strides[SG_TENSOR_RANK - 1];  /* bytes, of dimensions 1 and up */
    uint32_t last[SG_TENSOR_RANK];         /* the last index of each dimension */
    uint16_t box[SG_TENSOR_RANK];          /* elements of the tensor that a box spans; im2col: [0]: channels */
    uint8_t steps[SG_TENSOR_RANK];         /* elements of the tensor between two of the box */
    uint8_t rank, type;                    /* enum sg_tensor_type */
    uint8_t swizzle;                       /* enum sg_tensor_swizzle */
    uint8_t swizzle_mode, swizzle_pieces;  /* the same as tensormap.replace names it: two numbers */
    uint8_t fill_nan;                      /* beyond the edges; else zeros */
    uint32_t magic;
    /* im2col: that many pixels along dimensions 1 and up but the last, from lower to the last index + upper. W and
       W128: along dimensions 1 and the last only, so only the first of each corner counts; W128: 128 pixels */
    uint8_t im2col; /* enum sg_tensor_im2col */
    uint16_t pixels;
    int16_t lower[SG_TENSOR_RANK - 2], upper[SG_TENSOR_RANK - 2];
};
_Static_assert(sizeof(struct sg_tensor) <= 128, "a tensor map has 128 bytes");

/* What is copied as one: elements of whole bytes, alone or, where they are narrower than a byte, several. WIDE: 16
   elements lie next to each other in global memory, and at the begin of 16 bytes in shared memory. */
struct sg_tensor_unit { uint8_t elements, global, shared; };
static inline struct sg_tensor_unit sg_tensor_unit(unsigned type)
{
    static const struct sg_tensor_unit units[SG_TENSOR_TYPES] = {
        { 1, 1, 1 }, { 1, 2, 2 }, { 1, 4, 4 }, { 1, 4, 4 }, { 1, 8, 8 }, { 1, 8, 8 }, { 1, 2, 2 }, { 1, 4, 4 },
        { 1, 8, 8 }, { 1, 2, 2 }, { 1, 4, 4 }, { 1, 4, 4 }, { 1, 4, 4 }, { 2, 1, 1 }, { 16, 8, 16 }, { 16, 12, 16 },
    };
    return units[type < SG_TENSOR_TYPES ? type : SG_TENSOR_U8];
}

/* Elements of a box in shared memory along a dimension. */
static inline unsigned sg_tensor_count(const struct sg_tensor *t, unsigned dimension)
{
    return (t->box[dimension] + t->steps[dimension] - 1u) / t->steps[dimension];
}
/* Units of a line of a box, and bytes that it has in shared memory. */
static inline unsigned sg_tensor_line(const struct sg_tensor *t)
{
    return t->box[0] / sg_tensor_unit(t->type).elements;
}
static inline unsigned sg_tensor_line_bytes(const struct sg_tensor *t)
{
    return sg_tensor_line(t) * sg_tensor_unit(t->type).shared;
}
/* Bytes within which pieces are exchanged; 0: they are not. */
static inline unsigned sg_tensor_span(const struct sg_tensor *t)
{
    return !t->swizzle ? 0 : t->swizzle < SG_TENSOR_SWIZZLE_128 ? 16u << t->swizzle : 128;
}

#endif
