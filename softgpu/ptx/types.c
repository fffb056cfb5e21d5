/* Names and sizes of PTX's fundamental types. */
#include "softgpu/ptx/ptx.h"

static const struct { const char *name; uint8_t size; } types[PTX_TYPE_COUNT] = {
    [PTX_NONE] = { "none", 0 },   [PTX_PRED] = { "pred", 0 },
    [PTX_B8]   = { "b8", 1 },     [PTX_B16]  = { "b16", 2 },  [PTX_B32] = { "b32", 4 },  [PTX_B64] = { "b64", 8 },
    [PTX_B128] = { "b128", 16 },
    [PTX_U8]   = { "u8", 1 },     [PTX_U16]  = { "u16", 2 },  [PTX_U32] = { "u32", 4 },  [PTX_U64] = { "u64", 8 },
    [PTX_S8]   = { "s8", 1 },     [PTX_S16]  = { "s16", 2 },  [PTX_S32] = { "s32", 4 },  [PTX_S64] = { "s64", 8 },
    [PTX_F16]  = { "f16", 2 },    [PTX_F16X2] = { "f16x2", 4 },
    [PTX_BF16] = { "bf16", 2 },   [PTX_BF16X2] = { "bf16x2", 4 },
    [PTX_F32]  = { "f32", 4 },    [PTX_F32X2] = { "f32x2", 8 }, [PTX_F64] = { "f64", 8 },
    /* Opaque objects are held as a 64-bit handle. */
    [PTX_TEXREF] = { "texref", 8 }, [PTX_SAMPLERREF] = { "samplerref", 8 }, [PTX_SURFREF] = { "surfref", 8 },
};

size_t ptx_type_size(enum ptx_type type)
{
    return type < PTX_TYPE_COUNT ? types[type].size : 0;
}

const char *ptx_type_name(enum ptx_type type)
{
    return type < PTX_TYPE_COUNT ? types[type].name : "?";
}
