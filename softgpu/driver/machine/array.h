/* array.h: CUDA arrays, and the objects that look at them. */
#ifndef SOFTGPU_ARRAY_H
#define SOFTGPU_ARRAY_H

#include "cpu/common/texref.h"
#include "softgpu/driver/machine/device.h"
#include "softgpu/texture.h"

struct sgd_array {
    CUarray handle;
    struct sgd_context *context;
    struct sgd_array *next, **back;          /* all of them */
    struct sgd_object *objects;              /* texture and surface objects that look at it; texture.c */
    CUDA_ARRAY3D_DESCRIPTOR description;     /* as it was asked for */
    uint64_t memory;                         /* device address of the first row */
    struct sg_texture texture;               /* what a texture or surface of it begins with */
    size_t row;                              /* bytes of a row that are elements; texture.pitch is from row to row */
    size_t slices;                           /* depth times layers */
    struct sgd_mipmap *owner;                /* of which it is a level, which has its memory; NULL: none */
};

struct sgd_mipmap {                          /* a mipmapped array */
    CUmipmappedArray handle;
    struct sgd_context *context;
    struct sg_texture texture;               /* of the whole */
    struct sgd_array *level[SG_LEVELS_MOST]; /* texture.levels of them; objects of the whole look at the first */
};

struct sgd_object {                          /* a texture or surface object */
    struct tree_node node;                   /* of all of them, by handle */
    struct sgd_object *next, **back;         /* of its array; back NULL: it has none, or none any more */
    uint64_t handle;                         /* sg_texture_add's */
    bool surface;
    struct sgd_context *context;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;            /* its format is 0: it has none */
};

struct sgd_texref {   /* a texture, sampler or surface reference: a variable of a module */
    CUtexref handle;  /* or CUsurfref */
    uint64_t address; /* of the variable; 0: cuTexRefCreate has made it */
    const char *name;
    bool is_sampler; /* which no call names: the module's PTX says what it is; `state` means nothing */
    struct sg_texture sampler;
    struct texref_state state;
};

/* All under the mutex. */
CUresult sgd_array_new(struct sgd_context *, const CUDA_ARRAY3D_DESCRIPTOR *, CUarray *);
void sgd_array_destroy(struct sgd_array *);              /* with its memory */
struct sgd_array *sgd_array_get(CUarray);                /* NULL: none */
void sgd_arrays_forget(struct sgd_context *);            /* with its objects; before the context's memory goes */
/* levels: at most as many as there are become. */
CUresult sgd_mipmap_new(struct sgd_context *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned levels, CUmipmappedArray *);
void sgd_mipmap_destroy(struct sgd_mipmap *);
struct sgd_mipmap *sgd_mipmap_get(CUmipmappedArray);
/* The levels from first to last of a texture that has levels. */
struct sg_texture sgd_mipmap_levels(const struct sg_texture *, unsigned first, unsigned last);
/* Fills in what a format says: format, channels, unit, srgb. False: it is not known, or has other channels. */
bool sgd_array_format(CUarray_format, unsigned channels, struct sg_texture *);

/* texture.c */
/* Has a handle, or this one; the caller fills in the rest. array: what it looks at, or NULL. NULL: no host memory, or
   the handle cannot be had. */
struct sgd_object *sgd_object_new(const struct sg_texture *, struct sgd_array *, uint64_t placed);
struct sgd_object *sgd_object_get(uint64_t handle, bool surface);    /* NULL: none */
void sgd_object_retire(uint64_t handle);                 /* none ever has it */
void sgd_object_drop(struct sgd_object *);               /* launches that were queued before may still use it */
unsigned sgd_textures_hold(void);                        /* by a launch that is queued; what to release when it ended */
void sgd_textures_release(unsigned epoch);
void sgd_textures_forget(struct sgd_context *);
void sgd_textures_orphan(struct sgd_array *);            /* kernels can use its objects no more */

/* texref.c */
struct sgd_module;
bool sgd_texrefs_begin(struct sgd_module *, const struct ptx_module *); /* false: no host memory */
void sgd_texrefs_end(struct sgd_module *);
/* NULL: the module has none of that name and kind. */
struct sgd_texref *sgd_texref_find(struct sgd_module *, const char *name, bool surface);

#endif
