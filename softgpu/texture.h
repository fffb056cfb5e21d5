/*
 * texture.h: texture and surface objects, between softgpu/driver/ (which makes them) and softgpu/exec/ (which reads and
 * writes through them).
 *
 * A handle is what a kernel holds in a 64-bit register: a tag, a generation and a slot of a table of the process. The
 * table gives out copies, so a kernel that looks while another thread destroys the object has either the whole
 * descriptor or none. The memory behind it is looked up in sg_memory at each access, as for every other
 * access of a kernel: an object that outlives its memory makes the kernel fault, never the process.
 *
 * Follows: CUDA programming guide, appendix "Texture Fetching"; PTX ISA, "Texture Instructions", "Surface
 * Instructions".
 */
#ifndef SOFTGPU_TEXTURE_H
#define SOFTGPU_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

enum sg_texel {
    SG_TEXEL_U8,
    SG_TEXEL_U16,
    SG_TEXEL_U32,
    SG_TEXEL_S8,
    SG_TEXEL_S16,
    SG_TEXEL_S32,
    SG_TEXEL_F16,
    SG_TEXEL_F32,
    SG_TEXEL_BC1, /* from here on: blocks of 4 by 4 texels (softgpu/exec/blocks.h) */
    SG_TEXEL_BC2,
    SG_TEXEL_BC3,
    SG_TEXEL_BC4_U,
    SG_TEXEL_BC4_S,
    SG_TEXEL_BC5_U,
    SG_TEXEL_BC5_S,
    SG_TEXEL_BC6_U,
    SG_TEXEL_BC6_S,
    SG_TEXEL_BC7
};
/* CUaddress_mode, and what only PTX has: clamped to the edge, where a filter mixes texels of the border in. */
enum sg_wrap { SG_WRAP, SG_CLAMP, SG_MIRROR, SG_BORDER, SG_CLAMP_OGL };

struct sg_texture {
    uint64_t base;                       /* device address of texel 0,0,0, aligned to a texel */
    uint64_t pitch, slice;               /* bytes from row to row, from layer (or depth) to layer */
    uint32_t width;                      /* texels */
    uint32_t height, depth;              /* 1 where the object has no such dimension */
    uint32_t layers;                     /* 1 where there are none; a cube map has 6, or 6 times its layers */
    bool layered;                        /* its array has layers */
    uint8_t format, channels;            /* enum sg_texel; 1, 2 or 4; of BC6 3 */
    uint32_t columns, rows;              /* blocks of a view whose array has other elements; 0, 0: as the texels want */
    uint8_t wrap[3];                     /* enum sg_wrap */
    bool surface;                        /* for suld and sust, not for tex */
    bool sampler;                        /* only a sampler: wrap, linear_filter and unnormalized count */
    bool unnormalized;                   /* of a sampler: coordinates are texels, whatever the texture says */
    bool linear_memory;                  /* fetched by index only; outside: 0 */
    bool linear_filter, normalized;      /* normalized: coordinates */
    bool unit;                           /* integers of 8 and 16 bits are read as floats of 0 … 1 or -1 … 1 */
    uint8_t levels;                      /* of a mipmapped array, behind each other from base on; 0: it is none */
    uint32_t first_layer, all_layers;    /* of a view of some layers of a mipmapped array; 0, 0: it has all */
    bool linear_levels;                  /* the filter between levels */
    float bias, least, most;             /* of the level of detail */
    bool srgb;                           /* colours of 8 bits become linear before they are filtered */
    float border[4];                     /* of a texture that is read as integers: their bits */
    int8_t offset[3];                    /* texels, of one fetch */
};

/* A texture, sampler or surface reference, as it was bound when its kernel was launched. A kernel names it by the
   address of its variable. width 0: it is bound to nothing, and every texel is 0. */
struct sg_binding {
    uint64_t address;
    struct sg_texture texture;
};

enum { SG_LEVELS_MOST = 16, SG_ROW_ALIGNMENT = 64 };
/* One level of it; levels is 0 then. Level 0 is where base says, with its pitch and slice. */
struct sg_texture sg_texture_level(const struct sg_texture *, unsigned level);
/* Bytes of all layers that there are. */
static inline uint64_t sg_texture_bytes(const struct sg_texture *t)
{
    return t->slice * t->depth * (t->all_layers ? t->all_layers : t->layers);
}

static inline bool sg_in_blocks(unsigned format) { return format >= SG_TEXEL_BC1; }

/* Of one channel, or of a block. */
static inline unsigned sg_texel_bytes(unsigned format)
{
    if (sg_in_blocks(format))
        return format == SG_TEXEL_BC1 || format == SG_TEXEL_BC4_U || format == SG_TEXEL_BC4_S ? 8 : 16;
    return format == SG_TEXEL_U8 || format == SG_TEXEL_S8                               ? 1
           : format == SG_TEXEL_U32 || format == SG_TEXEL_S32 || format == SG_TEXEL_F32 ? 4
                                                                                        : 2;
}

/* Elements are what copies move: texels, or blocks. Bytes of one, how many a row has, how many rows a layer has. */
static inline unsigned sg_element_bytes(const struct sg_texture *t)
{
    return sg_texel_bytes(t->format) * (sg_in_blocks(t->format) ? 1 : t->channels);
}
static inline uint32_t sg_texture_columns(const struct sg_texture *t)
{
    return !sg_in_blocks(t->format) ? t->width : t->columns ? t->columns : (t->width + 3) / 4;
}
static inline uint32_t sg_texture_rows(const struct sg_texture *t)
{
    return !sg_in_blocks(t->format) ? t->height : t->rows ? t->rows : (t->height + 3) / 4;
}

/* 0: no host memory. Any thread. */
uint64_t sg_texture_add(const struct sg_texture *);
/* Under a handle that sg_texture_add gave in another process. False: it is in use, cannot be one, or no host memory. */
bool sg_texture_add_at(const struct sg_texture *, uint64_t handle);
void sg_texture_retire(uint64_t handle);                 /* no object gets it from now on */
void sg_texture_remove(uint64_t handle);                 /* one that is none is ignored */
bool sg_texture_get(uint64_t handle, struct sg_texture *);

/* The texel of these numbers; layer is clamped. dimensions 1 to 3. Each of out[4] is a float's bits or an integer,
   channels that the texture lacks are 0, 0 and 1. False: memory that `device` may not read. */
bool sg_texture_fetch(const struct sg_texture *, unsigned dimensions, unsigned device, const int32_t at[3],
                      int64_t layer, uint32_t out[4]);
/* A sample at a level of detail, which counts for mipmapped arrays only. at: texels, or 0 … 1 if normalized. The rest
   as of a fetch. */
bool sg_texture_sample_level(const struct sg_texture *, unsigned dimensions, unsigned device, const float at[3],
                             int64_t layer, float detail, uint32_t out[4]);
/* The level of detail for coordinates that change so much from one point of the picture to the next. */
float sg_texture_detail(const struct sg_texture *, unsigned dimensions, const float dx[3], const float dy[3]);
/* The four texels that a linear filter would look at, of one component: in the order of tld4. */
bool sg_texture_gather(const struct sg_texture *, unsigned device, const float at[3], int64_t layer, unsigned component,
                       uint32_t out[4]);
/* Direction to face 0 … 5 and the place on it, 0 … 1. */
unsigned sg_texture_face(const float direction[3], float at[2]);

#endif
