/* texel.h: the elements of CUDA arrays, for client and server. */
#ifndef FLYT_COMMON_TEXEL_H
#define FLYT_COMMON_TEXEL_H

/* Bytes of one element of so many channels. format: CUarray_format. 0: no such element, or one of a compressed or
   planar format, whose arrays are not made of rows of elements. */
static inline unsigned texel_size(int format, unsigned channels)
{
    unsigned size = 0;
    switch (format) {
    case 1: case 8: size = 1; break;                         /* 8 bits, unsigned and signed */
    case 2: case 9: case 16: size = 2; break;                /* 16 bits, and half */
    case 3: case 10: case 32: size = 4; break;               /* 32 bits, and float */
    default: break;
    }
    return channels == 1 || channels == 2 || channels == 4 ? size * channels : 0;
}

#endif
