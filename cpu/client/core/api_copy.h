/*
 * api_copy.h: copies, memset and arrays.
 */
#ifndef FLYT_CLIENT_CORE_API_COPY_H
#define FLYT_CLIENT_CORE_API_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/api_stream.h"

/* ---- copies and memset (copy.c, set.c) --------------------------------------------------------------------------
 * The stream is a token; `blocking` says that the caller is a synchronous function: it returns when native's would.
 * Without it, pageable sources have been taken on return, pinned ones need not; a device-to-host copy into pageable
 * memory has arrived on return, into pinned memory it arrives later, before any synchronisation with its stream
 * returns. A copy between host memory and host memory is done when the function returns, as native. */

struct core_box { uint64_t address; size_t pitch, height; };   /* address: host pointer or device address */
struct core_extent { size_t width, height, depth; };            /* bytes, rows, slices */

/* What the program states about the two addresses. The addresses say how the copy travels; 1: the statement contradicts
   them. The numbers are those of cudaMemcpyKind. */
enum core_direction {
    CORE_HOST_TO_HOST,
    CORE_HOST_TO_DEVICE,
    CORE_DEVICE_TO_HOST,
    CORE_DEVICE_TO_DEVICE,
    CORE_ANY_DIRECTION
};
/* Whether the direction fits what lies at the addresses: 0 or 1. Nothing is sent. */
CORE_API int core_copy_check(const void *to, const void *from, enum core_direction);
CORE_API int core_copy(core_context *, core_stream, void *to, const void *from, size_t size, enum core_direction,
                       bool blocking);
CORE_API int core_copy_box(core_context *, core_stream, const struct core_box *to, const struct core_box *from,
                           const struct core_extent *, enum core_direction, bool blocking);
/* The calling thread's next copies concern memory of these two contexts, which a peer copy has named: where the
   drivers of two GPU servers have given one address to variables of modules, it means theirs. NULL: as the stream's
   context says. */
CORE_API void core_copy_between(core_context *to, core_context *from);
/* The servers that the calling thread has named so, for one who makes the copy later: a node of a graph. NULL: none. */
struct client_session;
struct core_copy_servers {
    const struct client_session *to, *from;
};
CORE_API struct core_copy_servers core_copy_servers(void);
CORE_API void core_copy_between_servers(struct core_copy_servers);
/* A copy that is made when its turn in the stream comes: ordinary memory of the process is read or written then, by a
   function of the stream (core_host_function). Errors are latched. */
CORE_API int core_copy_box_deferred(core_context *, core_stream, const struct core_box *to, const struct core_box *from,
                                    const struct core_extent *, enum core_direction);
/* Elements of 1, 2 or 4 bytes; extent.width counts elements. */
CORE_API int core_set(core_context *, core_stream, const struct core_box *to, const struct core_extent *,
                      uint32_t value, unsigned element, bool blocking);

/* ---- arrays (array.c) -------------------------------------------------------------------------------------------
 * CUDA arrays and mipmapped arrays. The handle is what programs hold. An array belongs to a context and ends with it.
 * Textures and surfaces are forwarded calls (api/forward/core.h), but for the one below. */

typedef uint64_t core_array;
/* As CUDA_ARRAY3D_DESCRIPTOR says it; format: CUarray_format. A dimension that the array lacks is 0. texel: bytes of an
   element, which the core fills in. */
struct core_array_shape { size_t width, height, depth; int format; unsigned channels, flags, texel; };

/* Both wait. 1: no such shape; 801: of this format or with these flags there are none yet. */
CORE_API int core_array_create(core_context *, const struct core_array_shape *, core_array *);
CORE_API int core_mipmap_create(core_context *, const struct core_array_shape *, unsigned levels, core_array *);
/* Waits. A level of a mipmapped array: it belongs to that, and is the same each time. 1: no such level. */
CORE_API int core_mipmap_level(core_array mipmap, unsigned level, core_array *);
/* Waits for the array's context. A level cannot be freed: 400. */
CORE_API int core_array_free(core_array);
CORE_API int core_mipmap_free(core_array);
CORE_API int core_array_shape(core_array, struct core_array_shape *);
CORE_API int core_mipmap_shape(core_array, struct core_array_shape *, unsigned *levels);
/* The bytes of an array from a place on (x in bytes), as a side of a copy: pitch and height are the array's. Valid as
   long as the array is. 1: the extent does not fit. */
CORE_API int core_array_box(core_array, const size_t at[3], const struct core_extent *, struct core_box *);
/* Of a side that core_array_box made: the array, and where in it; false: the address is none in an array. */
CORE_API bool core_array_at(uint64_t address, core_array *, size_t at[3]);
/* core_tex_object_create, after a look at the memory that the texture is made of (texture.c). Waits. 1: NULL where the
   driver has none, or memory that is not the program's; view may be NULL. */
struct CUDA_RESOURCE_DESC;
struct CUDA_TEXTURE_DESC;
struct CUDA_RESOURCE_VIEW_DESC;
CORE_API int core_texture_create(core_context *, uint64_t *texture, const struct CUDA_RESOURCE_DESC *,
                                 const struct CUDA_TEXTURE_DESC *, const struct CUDA_RESOURCE_VIEW_DESC *view);
/* Each waits. Destroying: 1: there is no such object. */
CORE_API int core_texture_destroy(core_context *, uint64_t texture);
CORE_API int core_surface_create(core_context *, uint64_t *surface, const struct CUDA_RESOURCE_DESC *);
CORE_API int core_surface_destroy(core_context *, uint64_t surface);

#endif
