/*
 * texref.h: the state of a texture or surface reference, which is what textures were before CUDA had texture objects:
 * a variable of a module that the program binds to memory. Here is what the calls cuTexRef… and cuSurfRef… check and
 * keep. Both drivers use it: libcuda.so.1 of programs, and the software GPU.
 *
 * Numbers are those of cuda.h. Functions that return int return a CUresult, and change nothing if it is not 0.
 * Follows: CUDA Driver API, "Texture Reference Management", "Surface Reference Management".
 */
#ifndef FLYT_COMMON_TEXREF_H
#define FLYT_COMMON_TEXREF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What it is bound to. All but the first as CUresourcetype. */
enum texref_resource { TEXREF_UNBOUND = -1, TEXREF_ARRAY, TEXREF_MIPMAP, TEXREF_LINEAR, TEXREF_PITCH2D };

struct texref_state {
    bool surface;
    enum texref_resource resource;
    uint64_t array;                /* handle of the array, or of the mipmapped array */
    uint64_t address, bytes;       /* of linear memory; the address that the program gave */
    uint64_t width, height, pitch; /* of pitched memory: elements, rows, bytes from row to row */
    uint64_t offset;               /* from where the texture begins to what the Runtime API was given */
    int format;                    /* CUarray_format */
    unsigned channels;
    int wrap[3];              /* CUaddress_mode */
    int filter, level_filter; /* CUfilter_mode */
    float bias, least, most;  /* of the level of detail */
    unsigned anisotropy;
    float border[4];
    unsigned flags; /* CU_TRSF_… */
};

/* What a device demands; from its attributes. */
struct texref_limits {
    uint64_t alignment, pitch_alignment, linear_width, width, height, pitch;
};

/* As it is before the first call. */
void texref_begin(struct texref_state *, bool surface);

/* format, channels: of the array's elements, which the texture takes. flags: CU_TRSA_OVERRIDE_FORMAT, or 0, as NVIDIA's
   runtime has it. */
int texref_set_array(struct texref_state *, enum texref_resource, uint64_t array, int format, unsigned channels,
                     unsigned flags);
/* *offset: bytes from where the texture begins to the address. NULL where that is not 0: 1. The caller has looked at
   the memory. Address and bytes 0: it is bound to nothing, as NVIDIA's runtime unbinds. */
int texref_set_address(struct texref_state *, const struct texref_limits *, uint64_t address, uint64_t bytes,
                       size_t *offset);
int texref_set_address_2d(struct texref_state *, const struct texref_limits *, uint64_t address, int format,
                          unsigned channels, uint64_t width, uint64_t height, uint64_t pitch);
int texref_set_format(struct texref_state *, int format, int channels);
int texref_set_wrap(struct texref_state *, int dimension, int mode);
int texref_set_filter(int *filter, int mode);
int texref_set_bias(struct texref_state *, float);
int texref_set_levels(struct texref_state *, float least, float most);
int texref_set_anisotropy(struct texref_state *, unsigned most);
int texref_set_border(struct texref_state *, const float color[4]);
int texref_set_flags(struct texref_state *, unsigned flags);
/* Surfaces: an array that kernels may write. flags: 0. */
int texref_set_surface(struct texref_state *, uint64_t array, bool writable, unsigned flags);

/* 1 where it is bound to something else. */
int texref_get_address(const struct texref_state *, uint64_t *address);
int texref_get_array(const struct texref_state *, enum texref_resource, uint64_t *array);
int texref_get_wrap(const struct texref_state *, int dimension, int *mode);
int texref_get_format(const struct texref_state *, int *format, int *channels); /* either may be NULL */
int texref_get_levels(const struct texref_state *, float *least, float *most);
int texref_get_border(const struct texref_state *, float color[4]);
int texref_tell(int *to, int value); /* 1: `to` is NULL */
int texref_tell_float(float *to, float value);

#endif
