/*
 * blocks.h: textures of compressed blocks, BC1 to BC7: each block of 8 or 16 bytes stands for 4 by 4 texels.
 */
#ifndef SOFTGPU_EXEC_BLOCKS_H
#define SOFTGPU_EXEC_BLOCKS_H

#include <stdint.h>

/* The texel in column x (0 … 3) and row y of a block. format: one of enum sg_texel from SG_TEXEL_BC1 on (texture.h);
   `block` has sg_texel_bytes(format) bytes, and every content is valid. The four components are colours of 0 … 1 (BC4
   and BC5 signed: -1 … 1; BC6H: any), before any conversion from sRGB. Those that the format lacks are 0, 0, 0, 1. */
void sg_block_texel(unsigned format, const uint8_t *block, unsigned x, unsigned y, float out[4]);

#endif
