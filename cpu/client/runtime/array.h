/* array.h: what the chapters on arrays, textures and surfaces share. */
#ifndef FLYT_RUNTIME_ARRAY_H
#define FLYT_RUNTIME_ARRAY_H

#include "cpu/client/runtime/runtime.h"

/* Handles of arrays are the core's. */
static inline core_array runtime_array(const void *handle) { return (core_array)(uintptr_t)handle; }

/* CUarray_format and the number of channels, and back. 20: the description fits no element. */
int runtime_array_format(const cudaChannelFormatDesc *, int *format, unsigned *channels);
cudaChannelFormatDesc runtime_channel_desc(int format, unsigned channels);

/* copy_array.c. The sides of a cudaMemcpy3D in which there is an array: then the extent, and the positions in arrays,
   are in elements. An array's side is a box at the position. */
struct runtime_copy_sides {
    struct core_box to, from;
    struct core_extent extent;
};
static inline bool runtime_copy_has_array(const cudaMemcpy3DParms *copy) { return copy->srcArray || copy->dstArray; }
int runtime_copy_sides(const cudaMemcpy3DParms *, struct runtime_copy_sides *);
/* A side that a graph has kept: the array, if it is one, and the position in elements; *bytes: of an element. */
bool runtime_array_of(uint64_t address, cudaArray_t *, cudaPos *, unsigned *bytes);

#endif
