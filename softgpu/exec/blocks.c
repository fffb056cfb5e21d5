/*
 * blocks.c: the texels of compressed blocks. A fetch decodes one texel of a block: nothing is kept between fetches.
 *
 * BC1 to BC3 have two colours of 5, 6 and 5 bits, and two bits per texel that mix them. BC4 and BC5 have two values of
 * 8 bits per channel, and three bits per texel; so has the alpha of BC3. Colours are widened to 8 bits, and mixed as
 * floats. BC6H and BC7 have modes: how many pairs of end points a block has, which of 64 fixed patterns says to which
 * pair a texel belongs, how many bits end points and indices have. Their arithmetic is of integers, to the bit.
 *
 * Follows: Khronos Data Format Specification 1.3, "S3TC", "RGTC" and "BPTC Compressed Texture Image Formats".
 */
#include "softgpu/exec/blocks.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "softgpu/texture.h"

/* ---- bits: the lowest bit of byte 0 is bit 0 ---- */

struct bits {
    uint64_t low, high;
    unsigned at;
};

static struct bits bits_of(const uint8_t block[16])
{
    struct bits b = { 0, 0, 0 };
    memcpy(&b.low, block, 8);
    memcpy(&b.high, block + 8, 8);
    return b;
}

static unsigned take(struct bits *b, unsigned count)
{
    uint64_t rest = b->at >= 64  ? b->high >> (b->at - 64)
                    : b->at == 0 ? b->low
                                 : b->low >> b->at | b->high << (64 - b->at);
    b->at += count;
    return (unsigned)(rest & ((UINT64_C(1) << count) - 1));
}

/* ---- BC1 to BC5 ---- */

static void widen(unsigned colour, float out[3])
{
    const unsigned red = colour >> 11, green = colour >> 5 & 63, blue = colour & 31;
    out[0] = (float)(red << 3 | red >> 2) / 255;
    out[1] = (float)(green << 2 | green >> 4) / 255;
    out[2] = (float)(blue << 3 | blue >> 2) / 255;
}

/* alone: BC1, where the order of the colours says whether there is a transparent one. */
static void colour_texel(const uint8_t *block, unsigned texel, bool alone, float out[4])
{
    const unsigned first = block[0] | (unsigned)block[1] << 8, second = block[2] | (unsigned)block[3] << 8,
                   index = block[4 + texel / 4] >> 2 * (texel % 4) & 3;
    const bool thirds = !alone || first > second;
    float a[3], b[3], part = index < 2 ? (float)index : thirds ? (float)(index - 1) / 3 : 0.5f;
    if (!thirds && index == 3) {
        out[0] = out[1] = out[2] = out[3] = 0;
        return;
    }
    widen(first, a);
    widen(second, b);
    for (unsigned c = 0; c < 3; c++)
        out[c] = a[c] * (1 - part) + b[c] * part;
    out[3] = 1;
}

/* One channel: BC4, half of BC5, the alpha of BC3. */
static float channel_texel(const uint8_t *block, unsigned texel, bool is_signed)
{
    float most = is_signed ? 127 : 255, least = is_signed ? -127 : 0;
    float a = is_signed ? fmaxf((float)(int8_t)block[0], least) : (float)block[0],
          b = is_signed ? fmaxf((float)(int8_t)block[1], least) : (float)block[1];
    const bool sevenths = is_signed ? (int8_t)block[0] > (int8_t)block[1] : block[0] > block[1];
    uint64_t indices = 0;
    memcpy(&indices, block + 2, 6);
    const unsigned index = (unsigned)(indices >> 3 * texel) & 7;
    if (index < 2)
        return (index ? b : a) / most;
    if (!sevenths && index >= 6)
        return (index == 6 ? least : most) / most;
    const float part = (float)(index - 1) / (sevenths ? 7 : 5);
    return (a * (1 - part) + b * part) / most;
}

/* ---- what BC6H and BC7 share ---- */

/* To which of two pairs of end points a texel belongs: bit 4 y + x. BC6H has the first 32. */
static const uint16_t patterns_of_2[64] = {
    0xcccc, 0x8888, 0xeeee, 0xecc8, 0xc880, 0xfeec, 0xfec8, 0xec80, 0xc800, 0xffec, 0xfe80, 0xe800, 0xffe8,
    0xff00, 0xfff0, 0xf000, 0xf710, 0x008e, 0x7100, 0x08ce, 0x008c, 0x7310, 0x3100, 0x8cce, 0x088c, 0x3110,
    0x6666, 0x366c, 0x17e8, 0x0ff0, 0x718e, 0x399c, 0xaaaa, 0xf0f0, 0x5a5a, 0x33cc, 0x3c3c, 0x55aa, 0x9696,
    0xa55a, 0x73ce, 0x13c8, 0x324c, 0x3bdc, 0x6996, 0xc33c, 0x9966, 0x0660, 0x0272, 0x04e4, 0x4e40, 0x2720,
    0xc936, 0x936c, 0x39c6, 0x639c, 0x9336, 0x9cc6, 0x817e, 0xe718, 0xccf0, 0x0fcc, 0x7744, 0xee22,
};
/* Of three pairs: two bits per texel. */
static const uint32_t patterns_of_3[64] = {
    0xaa685050, 0x6a5a5040, 0x5a5a4200, 0x5450a0a8, 0xa5a50000, 0xa0a05050, 0x5555a0a0, 0x5a5a5050,
    0xaa550000, 0xaa555500, 0xaaaa5500, 0x90909090, 0x94949494, 0xa4a4a4a4, 0xa9a59450, 0x2a0a4250,
    0xa5945040, 0x0a425054, 0xa5a5a500, 0x55a0a0a0, 0xa8a85454, 0x6a6a4040, 0xa4a45000, 0x1a1a0500,
    0x0050a4a4, 0xaaa59090, 0x14696914, 0x69691400, 0xa08585a0, 0xaa821414, 0x50a4a450, 0x6a5a0200,
    0xa9a58000, 0x5090a0a8, 0xa8a09050, 0x24242424, 0x00aa5500, 0x24924924, 0x24499224, 0x50a50a50,
    0x500aa550, 0xaaaa4444, 0x66660000, 0xa5a0a5a0, 0x50a050a0, 0x69286928, 0x44aaaa44, 0x66666600,
    0xaa444444, 0x54a854a8, 0x95809580, 0x96969600, 0xa85454a8, 0x80959580, 0xaa141414, 0x96960000,
    0xaaaa1414, 0xa05050a0, 0xa0a5a5a0, 0x96000000, 0x40804080, 0xa9a8a9a8, 0xaaaaaa44, 0x2a4a5254,
};
/* The texel of the second pair (of two, of three) and of the third whose index lacks its highest bit, which is 0. For
   the first pair that is texel 0. */
static const uint8_t anchors_2[64] = {
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 2,  8, 2, 2, 8,
    8,  15, 2,  8,  2,  2,  8,  8,  2,  2,  15, 15, 6,  8,  2,  8,  15, 15, 2, 8, 2, 2,
    2,  15, 15, 6,  6,  2,  6,  8,  15, 15, 2,  2,  15, 15, 15, 15, 15, 2,  2, 15,
};
static const uint8_t anchors_3_second[64] = {
    3, 3, 15, 15, 8, 3,  15, 15, 8, 8,  6,  6, 6,  5, 3,  3,  3,  3,  8, 15, 3, 3,
    6, 10, 5, 8,  8, 6,  8,  5,  15, 15, 8, 15, 3,  5, 6,  10, 8,  15, 15, 3, 15, 5,
    15, 15, 15, 15, 3, 15, 5, 5, 5, 8, 5, 10, 5, 10, 8, 13, 15, 12, 3, 3,
};
static const uint8_t anchors_3_third[64] = {
    15, 8, 8, 3, 15, 15, 3, 8, 15, 15, 15, 15, 15, 15, 15, 8, 15, 8, 15, 3, 15, 8,
    15, 8, 3, 15, 6, 10, 15, 15, 10, 8, 15, 3, 15, 10, 10, 8, 9, 10, 6, 15, 8, 15,
    3, 6, 6, 8, 15, 3, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 3, 15, 15, 8,
};

static unsigned pair_of(unsigned pairs, unsigned pattern, unsigned texel)
{
    return pairs == 1   ? 0
           : pairs == 2 ? patterns_of_2[pattern] >> texel & 1
                        : patterns_of_3[pattern] >> 2 * texel & 3;
}

static bool is_anchor(unsigned pairs, unsigned pattern, unsigned texel)
{
    return !texel || (pairs == 2 && texel == anchors_2[pattern]) ||
           (pairs == 3 && (texel == anchors_3_second[pattern] || texel == anchors_3_third[pattern]));
}

/* The texel's index, of those that begin at b. */
static unsigned index_of(struct bits b, unsigned count, unsigned pairs, unsigned pattern, unsigned texel)
{
    for (unsigned t = 0; t < texel; t++)
        b.at += count - is_anchor(pairs, pattern, t);
    return take(&b, count - is_anchor(pairs, pattern, texel));
}

static int mix(int a, int b, unsigned index, unsigned count)
{
    static const uint8_t weights[5][16] = { [2] = { 0, 21, 43, 64 },
                                            [3] = { 0, 9, 18, 27, 37, 46, 55, 64 },
                                            [4] = { 0, 4, 9, 13, 17, 21, 26, 30, 34, 38, 43, 47, 51, 55, 60, 64 } };
    const int w = weights[count][index];
    return (a * (64 - w) + b * w + 32) >> 6;
}

/* ---- BC7 ---- */

enum { CHANNELS = 4, PAIRS_MOST = 3 };
static const struct mode {
    uint8_t pairs, pattern, rotation, selection; /* the number of pairs; bits of the others */
    uint8_t colour, alpha;                       /* bits of an end point's channel */
    uint8_t own_low, shared_low;                 /* a lowest bit of each end point, or of both of a pair */
    uint8_t index, second;                       /* bits of an index; of one for alpha alone */
} modes[8] = {
    { 3, 4, 0, 0, 4, 0, 1, 0, 3, 0 }, { 2, 6, 0, 0, 6, 0, 0, 1, 3, 0 }, { 3, 6, 0, 0, 5, 0, 0, 0, 2, 0 },
    { 2, 6, 0, 0, 7, 0, 1, 0, 2, 0 }, { 1, 0, 2, 1, 5, 6, 0, 0, 2, 3 }, { 1, 0, 2, 0, 7, 8, 0, 0, 2, 2 },
    { 1, 0, 0, 0, 7, 7, 1, 0, 4, 0 }, { 2, 6, 0, 0, 5, 5, 1, 0, 2, 0 },
};

/* End points as bytes; those that the mode does not have stay 0. */
static void ends_take(struct bits *b, const struct mode *m, uint8_t ends[2 * PAIRS_MOST][CHANNELS])
{
    const unsigned count = 2u * m->pairs;
    const bool low = m->own_low || m->shared_low;
    for (unsigned c = 0; c < CHANNELS; c++)
        for (unsigned e = 0; e < count; e++)
            ends[e][c] = (uint8_t)take(b, c < 3 ? m->colour : m->alpha);
    for (unsigned e = 0; low && e < count; e += m->own_low ? 1 : 2) {
        const unsigned bit = take(b, 1);
        for (unsigned c = 0; c < CHANNELS; c++) {
            ends[e][c] = (uint8_t)(ends[e][c] << 1 | bit);
            if (m->shared_low)
                ends[e + 1][c] = (uint8_t)(ends[e + 1][c] << 1 | bit);
        }
    }
    for (unsigned e = 0; e < 2 * PAIRS_MOST; e++)
        for (unsigned c = 0; c < CHANNELS; c++) {
            const unsigned size = (unsigned)(c < 3 ? m->colour : m->alpha) + low;
            ends[e][c] = c == 3 && !m->alpha ? 255 : (uint8_t)(ends[e][c] << (8 - size) | ends[e][c] >> (2 * size - 8));
        }
}

static void bc7_texel(const uint8_t *block, unsigned texel, float out[4])
{
    out[0] = out[1] = out[2] = out[3] = 0;
    if (!block[0])
        return; /* no mode */
    struct bits b = bits_of(block);
    const unsigned number = (unsigned)__builtin_ctz(block[0]);
    const struct mode *m = &modes[number];
    uint8_t ends[2 * PAIRS_MOST][CHANNELS] = { { 0 } };
    b.at = number + 1;
    const unsigned pattern = take(&b, m->pattern), rotation = take(&b, m->rotation), swapped = take(&b, m->selection);
    ends_take(&b, m, ends);
    unsigned index = index_of(b, m->index, m->pairs, pattern, texel), bits = m->index, alpha = index, alpha_bits = bits;
    if (m->second) {
        b.at += 16u * m->index - 1;
        alpha = index_of(b, m->second, 1, 0, texel);
        alpha_bits = m->second;
    }
    if (swapped) {
        const unsigned other = index, other_bits = bits;
        index = alpha, bits = alpha_bits;
        alpha = other, alpha_bits = other_bits;
    }
    const uint8_t(*pair)[CHANNELS] = &ends[2 * pair_of(m->pairs, pattern, texel)];
    for (unsigned c = 0; c < CHANNELS; c++)
        out[c] = (float)mix(pair[0][c], pair[1][c], c < 3 ? index : alpha, c < 3 ? bits : alpha_bits) / 255;
    if (rotation) {
        const float turned = out[rotation - 1];
        out[rotation - 1] = out[3];
        out[3] = turned;
    }
}

/* ---- BC6H ---- */

/* Where the bits of the end points stand: channel and end point, the lowest of `count` bits. From the highest bit down
   where `down`. A list ends with a count of 0. */
enum { R0, G0, B0, R1, G1, B1, R2, G2, B2, R3, G3, B3, VALUES };
struct field { uint8_t value, lowest, count, down; };
static const struct half_mode {
    uint8_t pairs, base, delta[3]; /* bits of the first end point, and of the channels of the others */
    bool relative;                 /* which are added to the first */
    struct field fields[28];
} half_modes[] = {
    { 2, 10, { 5, 5, 5 }, true,
      { { G2, 4, 1, 0 }, { B2, 4, 1, 0 }, { B3, 4, 1, 0 }, { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 },
        { R1, 0, 5, 0 }, { G3, 4, 1, 0 }, { G2, 0, 4, 0 }, { G1, 0, 5, 0 }, { B3, 0, 1, 0 }, { G3, 0, 4, 0 },
        { B1, 0, 5, 0 }, { B3, 1, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 5, 0 }, { B3, 2, 1, 0 }, { R3, 0, 5, 0 },
        { B3, 3, 1, 0 } } },
    { 2, 7, { 6, 6, 6 }, true,
      { { G2, 5, 1, 0 }, { G3, 4, 1, 0 }, { G3, 5, 1, 0 }, { R0, 0, 7, 0 }, { B3, 0, 1, 0 }, { B3, 1, 1, 0 },
        { B2, 4, 1, 0 }, { G0, 0, 7, 0 }, { B2, 5, 1, 0 }, { B3, 2, 1, 0 }, { G2, 4, 1, 0 }, { B0, 0, 7, 0 },
        { B3, 3, 1, 0 }, { B3, 5, 1, 0 }, { B3, 4, 1, 0 }, { R1, 0, 6, 0 }, { G2, 0, 4, 0 }, { G1, 0, 6, 0 },
        { G3, 0, 4, 0 }, { B1, 0, 6, 0 }, { B2, 0, 4, 0 }, { R2, 0, 6, 0 }, { R3, 0, 6, 0 } } },
    { 2, 11, { 5, 4, 4 }, true,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 5, 0 }, { R0, 10, 1, 0 }, { G2, 0, 4, 0 },
        { G1, 0, 4, 0 }, { G0, 10, 1, 0 }, { B3, 0, 1, 0 }, { G3, 0, 4, 0 }, { B1, 0, 4, 0 }, { B0, 10, 1, 0 },
        { B3, 1, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 5, 0 }, { B3, 2, 1, 0 }, { R3, 0, 5, 0 }, { B3, 3, 1, 0 } } },
    { 2, 11, { 4, 5, 4 }, true,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 4, 0 }, { R0, 10, 1, 0 }, { G3, 4, 1, 0 },
        { G2, 0, 4, 0 }, { G1, 0, 5, 0 }, { G0, 10, 1, 0 }, { G3, 0, 4, 0 }, { B1, 0, 4, 0 }, { B0, 10, 1, 0 },
        { B3, 1, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 4, 0 }, { B3, 0, 1, 0 }, { B3, 2, 1, 0 }, { R3, 0, 4, 0 },
        { G2, 4, 1, 0 }, { B3, 3, 1, 0 } } },
    { 2, 11, { 4, 4, 5 }, true,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 4, 0 }, { R0, 10, 1, 0 }, { B2, 4, 1, 0 },
        { G2, 0, 4, 0 }, { G1, 0, 4, 0 }, { G0, 10, 1, 0 }, { B3, 0, 1, 0 }, { G3, 0, 4, 0 }, { B1, 0, 5, 0 },
        { B0, 10, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 4, 0 }, { B3, 1, 1, 0 }, { B3, 2, 1, 0 }, { R3, 0, 4, 0 },
        { B3, 4, 1, 0 }, { B3, 3, 1, 0 } } },
    { 2, 9, { 5, 5, 5 }, true,
      { { R0, 0, 9, 0 }, { B2, 4, 1, 0 }, { G0, 0, 9, 0 }, { G2, 4, 1, 0 }, { B0, 0, 9, 0 }, { B3, 4, 1, 0 },
        { R1, 0, 5, 0 }, { G3, 4, 1, 0 }, { G2, 0, 4, 0 }, { G1, 0, 5, 0 }, { B3, 0, 1, 0 }, { G3, 0, 4, 0 },
        { B1, 0, 5, 0 }, { B3, 1, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 5, 0 }, { B3, 2, 1, 0 }, { R3, 0, 5, 0 },
        { B3, 3, 1, 0 } } },
    { 2, 8, { 6, 5, 5 }, true,
      { { R0, 0, 8, 0 }, { G3, 4, 1, 0 }, { B2, 4, 1, 0 }, { G0, 0, 8, 0 }, { B3, 2, 1, 0 }, { G2, 4, 1, 0 },
        { B0, 0, 8, 0 }, { B3, 3, 1, 0 }, { B3, 4, 1, 0 }, { R1, 0, 6, 0 }, { G2, 0, 4, 0 }, { G1, 0, 5, 0 },
        { B3, 0, 1, 0 }, { G3, 0, 4, 0 }, { B1, 0, 5, 0 }, { B3, 1, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 6, 0 },
        { R3, 0, 6, 0 } } },
    { 2, 8, { 5, 6, 5 }, true,
      { { R0, 0, 8, 0 }, { B3, 0, 1, 0 }, { B2, 4, 1, 0 }, { G0, 0, 8, 0 }, { G2, 5, 1, 0 }, { G2, 4, 1, 0 },
        { B0, 0, 8, 0 }, { G3, 5, 1, 0 }, { B3, 4, 1, 0 }, { R1, 0, 5, 0 }, { G3, 4, 1, 0 }, { G2, 0, 4, 0 },
        { G1, 0, 6, 0 }, { G3, 0, 4, 0 }, { B1, 0, 5, 0 }, { B3, 1, 1, 0 }, { B2, 0, 4, 0 }, { R2, 0, 5, 0 },
        { B3, 2, 1, 0 }, { R3, 0, 5, 0 }, { B3, 3, 1, 0 } } },
    { 2, 8, { 5, 5, 6 }, true,
      { { R0, 0, 8, 0 }, { B3, 1, 1, 0 }, { B2, 4, 1, 0 }, { G0, 0, 8, 0 }, { B2, 5, 1, 0 }, { G2, 4, 1, 0 },
        { B0, 0, 8, 0 }, { B3, 5, 1, 0 }, { B3, 4, 1, 0 }, { R1, 0, 5, 0 }, { G3, 4, 1, 0 }, { G2, 0, 4, 0 },
        { G1, 0, 5, 0 }, { B3, 0, 1, 0 }, { G3, 0, 4, 0 }, { B1, 0, 6, 0 }, { B2, 0, 4, 0 }, { R2, 0, 5, 0 },
        { B3, 2, 1, 0 }, { R3, 0, 5, 0 }, { B3, 3, 1, 0 } } },
    { 2, 6, { 6, 6, 6 }, false,
      { { R0, 0, 6, 0 }, { G3, 4, 1, 0 }, { B3, 0, 1, 0 }, { B3, 1, 1, 0 }, { B2, 4, 1, 0 }, { G0, 0, 6, 0 },
        { G2, 5, 1, 0 }, { B2, 5, 1, 0 }, { B3, 2, 1, 0 }, { G2, 4, 1, 0 }, { B0, 0, 6, 0 }, { G3, 5, 1, 0 },
        { B3, 3, 1, 0 }, { B3, 5, 1, 0 }, { B3, 4, 1, 0 }, { R1, 0, 6, 0 }, { G2, 0, 4, 0 }, { G1, 0, 6, 0 },
        { G3, 0, 4, 0 }, { B1, 0, 6, 0 }, { B2, 0, 4, 0 }, { R2, 0, 6, 0 }, { R3, 0, 6, 0 } } },
    { 1, 10, { 10, 10, 10 }, false,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 10, 0 }, { G1, 0, 10, 0 }, { B1, 0, 10, 0 } } },
    { 1, 11, { 9, 9, 9 }, true,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 9, 0 }, { R0, 10, 1, 0 }, { G1, 0, 9, 0 },
        { G0, 10, 1, 0 }, { B1, 0, 9, 0 }, { B0, 10, 1, 0 } } },
    { 1, 12, { 8, 8, 8 }, true,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 8, 0 }, { R0, 10, 2, 1 }, { G1, 0, 8, 0 },
        { G0, 10, 2, 1 }, { B1, 0, 8, 0 }, { B0, 10, 2, 1 } } },
    { 1, 16, { 4, 4, 4 }, true,
      { { R0, 0, 10, 0 }, { G0, 0, 10, 0 }, { B0, 0, 10, 0 }, { R1, 0, 4, 0 }, { R0, 10, 6, 1 }, { G1, 0, 4, 0 },
        { G0, 10, 6, 1 }, { B1, 0, 4, 0 }, { B0, 10, 6, 1 } } },
};

static const struct half_mode *half_mode_take(struct bits *b)
{
    /* by bits 2 to 4, where bit 1 is set: first with bit 0 clear, then with it set; 0: none */
    static const uint8_t by_bits[2][8] = { { 3, 4, 5, 6, 7, 8, 9, 10 }, { 11, 12, 13, 14, 0, 0, 0, 0 } };
    const unsigned first = take(b, 2);
    const unsigned number = first < 2 ? first + 1 : by_bits[first & 1][take(b, 3)];
    return number ? &half_modes[number - 1] : NULL;
}

static int sign_extend(int value, unsigned bits)
{
    const int sign = 1 << (bits - 1);
    return ((value & ((1 << bits) - 1)) ^ sign) - sign;
}

/* To 16 bits. */
static int unquantized(int value, unsigned bits, bool is_signed)
{
    if (!is_signed)
        return bits >= 15 || !value ? value : value == (1 << bits) - 1 ? 0xffff : ((value << 16) + 0x8000) >> bits;
    const int size = value < 0 ? -value : value;
    if (bits >= 16 || !value)
        return value;
    const int wide = size >= (1 << (bits - 1)) - 1 ? 0x7fff : ((size << 15) + 0x4000) >> (bits - 1);
    return value < 0 ? -wide : wide;
}

static void half_ends_take(struct bits *b, const struct half_mode *m, bool is_signed, int ends[VALUES])
{
    memset(ends, 0, VALUES * sizeof *ends);
    for (const struct field *f = m->fields; f->count; f++)
        for (unsigned k = 0; k < f->count; k++)
            ends[f->value] |= (int)(take(b, 1) << (f->lowest + (f->down ? f->count - 1u - k : k)));
    for (unsigned v = 0; v < 6u * m->pairs; v++) {
        const unsigned c = v % 3, bits = v < 3 ? m->base : m->delta[c];
        if (is_signed || (v >= 3 && m->relative))
            ends[v] = sign_extend(ends[v], bits);
        if (v >= 3 && m->relative) {
            ends[v] = (ends[v] + ends[c]) & ((1 << m->base) - 1);
            if (is_signed)
                ends[v] = sign_extend(ends[v], m->base);
        }
    }
    for (unsigned v = 0; v < 6u * m->pairs; v++)
        ends[v] = unquantized(ends[v], m->base, is_signed);
}

static float half_float(unsigned half)
{
    const float size = ldexpf((float)(half & 1023u) + (half & 0x7c00u ? 1024.0f : 0.0f),
                              (int)(half & 0x7c00u ? half >> 10 & 31u : 1u) - 25);
    return half & 0x8000u ? -size : size;
}

static void bc6_texel(const uint8_t *block, unsigned texel, bool is_signed, float out[4])
{
    struct bits b = bits_of(block);
    const struct half_mode *m = half_mode_take(&b);
    int ends[VALUES];
    out[0] = out[1] = out[2] = 0;
    out[3] = 1;
    if (!m)
        return;
    half_ends_take(&b, m, is_signed, ends);
    const unsigned pattern = m->pairs == 2 ? take(&b, 5) : 0, bits = m->pairs == 2 ? 3 : 4,
                   index = index_of(b, bits, m->pairs, pattern, texel);
    const int *pair = &ends[6 * pair_of(m->pairs, pattern, texel)];
    for (unsigned c = 0; c < 3; c++) {
        const int value = mix(pair[c], pair[c + 3], index, bits), size = value < 0 ? -value : value;
        out[c] = half_float(is_signed ? (value < 0 ? 0x8000u : 0u) | (unsigned)(size * 31 >> 5)
                                      : (unsigned)(value * 31 >> 6));
    }
}

void sg_block_texel(unsigned format, const uint8_t *block, unsigned x, unsigned y, float out[4])
{
    const unsigned texel = 4 * y + x;
    out[0] = out[1] = out[2] = 0;
    out[3] = 1;
    switch (format) {
    case SG_TEXEL_BC1: colour_texel(block, texel, true, out); break;
    case SG_TEXEL_BC2:
        colour_texel(block + 8, texel, false, out);
        out[3] = (float)(block[texel / 2] >> 4 * (texel % 2) & 15) / 15;
        break;
    case SG_TEXEL_BC3:
        colour_texel(block + 8, texel, false, out);
        out[3] = channel_texel(block, texel, false);
        break;
    case SG_TEXEL_BC4_U:
    case SG_TEXEL_BC4_S: out[0] = channel_texel(block, texel, format == SG_TEXEL_BC4_S); break;
    case SG_TEXEL_BC5_U:
    case SG_TEXEL_BC5_S:
        out[0] = channel_texel(block, texel, format == SG_TEXEL_BC5_S);
        out[1] = channel_texel(block + 8, texel, format == SG_TEXEL_BC5_S);
        break;
    case SG_TEXEL_BC6_U:
    case SG_TEXEL_BC6_S: bc6_texel(block, texel, format == SG_TEXEL_BC6_S, out); break;
    default: bc7_texel(block, texel, out); break;
    }
}
