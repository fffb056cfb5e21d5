/*
 * video.h: the modifiers of a video instruction, packed into the immediate of its rows.
 *
 * There are too many combinations for a function each, and too few programs use them: one function per operation reads
 * the modifiers from here. They are the same for all lanes, so the loops over lanes still vectorise.
 */
#ifndef SOFTGPU_ALU_VIDEO_H
#define SOFTGPU_ALU_VIDEO_H

#include "softgpu/alu/tables.h"

/* What is done with the first result and c */
enum { SG_VIDEO_MERGE, SG_VIDEO_ADD, SG_VIDEO_MIN, SG_VIDEO_MAX };
/* Part of a register, for the scalar operations */
enum { SG_PART_WHOLE, SG_PART_B0, SG_PART_B1, SG_PART_B2, SG_PART_B3, SG_PART_H0, SG_PART_H1 };

struct sg_video {
    bool a_signed, b_signed, d_signed, sat;
    bool has_c, wrap, plus_one;                   /* vshl and vshr: amount modulo 32; vmad.po */
    bool negate_product, negate_c;                /* vmad */
    unsigned second;                              /* SG_VIDEO_… */
    unsigned compare;                             /* enum sg_compare */
    unsigned scale;                               /* bits that vmad shifts right */
    unsigned a, b, d; /* scalar: SG_PART_…; SIMD: a, b: 3 bits per element, lowest first, which
                                                     element of b:a it takes; d: 1 bit per element that is written */
};

static inline uint64_t sg_video_pack(const struct sg_video *v)
{
    return (uint64_t)v->a | (uint64_t)v->b << 12 | (uint64_t)v->d << 24 | (uint64_t)v->a_signed << 28 |
           (uint64_t)v->b_signed << 29 | (uint64_t)v->d_signed << 30 | (uint64_t)v->sat << 31 |
           (uint64_t)v->second << 32 | (uint64_t)v->compare << 34 | (uint64_t)v->has_c << 38 | (uint64_t)v->wrap << 39 |
           (uint64_t)v->plus_one << 40 | (uint64_t)v->negate_product << 41 | (uint64_t)v->negate_c << 42 |
           (uint64_t)v->scale << 43;
}

static inline struct sg_video sg_video_unpack(uint64_t x)
{
    return (struct sg_video){
        .a = x & 0xfff,
        .b = x >> 12 & 0xfff,
        .d = x >> 24 & 15,
        .a_signed = x >> 28 & 1,
        .b_signed = x >> 29 & 1,
        .d_signed = x >> 30 & 1,
        .sat = x >> 31 & 1,
        .second = x >> 32 & 3,
        .compare = x >> 34 & 15,
        .has_c = x >> 38 & 1,
        .wrap = x >> 39 & 1,
        .plus_one = x >> 40 & 1,
        .negate_product = x >> 41 & 1,
        .negate_c = x >> 42 & 1,
        .scale = x >> 43 & 31,
    };
}

enum sg_video_operation {
    SG_VADD,
    SG_VSUB,
    SG_VABSDIFF,
    SG_VMIN,
    SG_VMAX,
    SG_VSHL,
    SG_VSHR,
    SG_VMAD,
    SG_VSET,
    SG_VAVRG,
    SG_VIDEO_OPERATION_COUNT
};
/* [2, 4 elements] */
struct sg_video_table { sg_alu_function *scalar[SG_VIDEO_OPERATION_COUNT], *simd[SG_VIDEO_OPERATION_COUNT][2]; };
SG_CLONE_DECLARE(const struct sg_video_table, sg_video_table);

#endif
