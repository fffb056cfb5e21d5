/* texel.h: the elements of CUDA arrays, for client and server. Copies move whole elements. */
#ifndef FLYT_COMMON_TEXEL_H
#define FLYT_COMMON_TEXEL_H

#include <stddef.h>

/* format, everywhere here: CUarray_format. */
enum { TEXEL_BC1 = 0x91, TEXEL_BC1_SRGB = 0x92, TEXEL_BC4_U = 0x97, TEXEL_BC4_S = 0x98, TEXEL_BC6_U = 0x9b,
       TEXEL_BC6_S = 0x9c, TEXEL_BC7_SRGB = 0x9e,
       TEXEL_UNORM_8X1 = 0xc0, TEXEL_SNORM_16X4 = 0xcb };

/* Bytes of an element that is a compressed block of 4 by 4 texels; 0: the format has no blocks. */
static inline unsigned texel_block(int format)
{
    if (format < TEXEL_BC1 || format > TEXEL_BC7_SRGB)
        return 0;
    return format <= TEXEL_BC1_SRGB || format == TEXEL_BC4_U || format == TEXEL_BC4_S ? 8 : 16;
}

/* Elements along a width or a height of so many texels. */
static inline size_t texel_elements(int format, size_t texels)
{
    return texel_block(format) ? texels / 4 + (texels % 4 != 0) : texels;
}

/* Channels of a format that says them itself: of a block, or of normalized integers. 0: the format says nothing. */
static inline unsigned texel_channels(int format)
{
    static const unsigned char of_block[] = { 4, 4, 4, 4, 4, 4, 1, 1, 2, 2, 3, 3, 4, 4 };
    if (texel_block(format))
        return of_block[format - TEXEL_BC1];
    return format >= TEXEL_UNORM_8X1 && format <= TEXEL_SNORM_16X4 ? 1u << (format - TEXEL_UNORM_8X1) % 3 : 0;
}

/* Textures read such integers and blocks as numbers of 0 … 1 or -1 … 1 in any case. BC6H has halves. */
static inline int texel_normalized(int format)
{
    return texel_channels(format) && format != TEXEL_BC6_U && format != TEXEL_BC6_S;
}

/* Bytes of one element of so many channels. 0: no such element, or one of a planar format, whose arrays are not made of
   rows of elements. */
static inline unsigned texel_size(int format, unsigned channels)
{
    unsigned size = 0;
    if (texel_channels(format) && texel_channels(format) != channels)
        return 0;
    if (texel_block(format))
        return texel_block(format);
    if (texel_channels(format))                              /* UNORM_INT8X1 … 8X4, 16X1 …, SNORM_INT8X1 … */
        return channels << ((format - TEXEL_UNORM_8X1) / 3 & 1);
    switch (format) {
    case 1: case 8: size = 1; break;                         /* 8 bits, unsigned and signed */
    case 2: case 9: case 16: size = 2; break;                /* 16 bits, and half */
    case 3: case 10: case 32: size = 4; break;               /* 32 bits, and float */
    default: break;
    }
    return channels == 1 || channels == 2 || channels == 4 ? size * channels : 0;
}

#endif
