/* array.h: CUDA arrays, and the objects that look at them. Included by driver.h. */
#ifndef SOFTGPU_ARRAY_H
#define SOFTGPU_ARRAY_H

#include "softgpu/texture.h"

struct sgd_array {
    CUarray handle;
    struct sgd_context *context;
    struct sgd_array *next, **back;          /* all of them */
    struct sgd_object *objects;              /* texture and surface objects that look at it; texture.c */
    CUDA_ARRAY3D_DESCRIPTOR description;     /* as it was asked for */
    uint64_t memory;                         /* device address of the first row */
    struct sg_texture texture;               /* what a texture or surface of it begins with */
    size_t row;                              /* bytes of a row that are texels; texture.pitch is from row to row */
    size_t slices;                           /* depth times layers */
};

struct sgd_array *sgd_array_get(CUarray);    /* NULL: none. Under the mutex, as the rest */
void sgd_arrays_forget(struct sgd_context *);            /* with its objects; before the context's memory goes */
void sgd_textures_forget(struct sgd_context *);          /* texture.c */
void sgd_textures_orphan(struct sgd_array *);            /* kernels can use its objects no more */
/* enum sg_texel; false: a format that is not known. */
bool sgd_array_format(CUarray_format, unsigned channels, uint8_t *format);

#endif
