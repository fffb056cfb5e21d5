/*
 * calls.h: the entry points of the CUDA Driver API, one file per chapter of NVIDIA's reference, on the objects of
 * softgpu/driver/machine/. An entry point checks its arguments, enters (takes the mutex), works on objects, and leaves.
 *
 *   init.c       cuInit, and whether the driver is usable
 *   current.c    the stack of contexts of each thread;  device.c, context.c
 *   memory.c     cuMemAlloc …;  vmm.c  cuMemAddressReserve …;  host.c  pinned and managed;  pointer.c  attributes
 *   stream.c, event.c, value.c, copy.c, set.c, launch.c   operations of streams
 *   array.c, texture.c, texref.c   arrays, texture and surface objects, texture and surface references
 *   module.c, library.c, function.c, occupancy.c   code
 *   errors.c, entry.c (cuGetProcAddress), per_thread.c, symbols.c (what is not offered)
 */
#ifndef SOFTGPU_DRIVER_CALLS_CALLS_H
#define SOFTGPU_DRIVER_CALLS_CALLS_H

#include "softgpu/driver/machine/machine.h"

/* ---- init.c ---- */

/* Is the driver usable? Then takes the mutex and returns CUDA_SUCCESS; else the code that the API function
   returns: 3 before cuInit and in the child of a fork, or the fault that sticks. */
CUresult sgd_enter(void);
void sgd_leave(void);
bool sgd_initialised(void);

/* ---- current.c: under the mutex, but for the first ---- */

/* Enters as sgd_enter does, and the calling thread's current context must be usable: 201, 709. */
CUresult sgd_enter_current(struct sgd_context **);
struct sgd_context *sgd_context_current(void);           /* of this thread; may be inactive; NULL: none */
CUresult sgd_current_push(CUcontext);
void sgd_current_forget(CUcontext);                      /* from this thread's stack top (cuCtxDestroy) */

/* ---- stream.c ---- */

/* What a stream argument means to the calling thread. `current` as sgd_enter_current gave it. */
CUresult sgd_stream_find(CUstream, struct sgd_context *current, struct sgd_stream **);
extern _Thread_local bool sgd_per_thread;                /* set around calls of the _ptds and _ptsz functions */

/* ---- texture.c, texref.c: under the mutex ---- */

/* What a fetch through such a texture needs. live: its memory must be there now; else a kernel will fault. */
CUresult sgd_texture_describe(const struct sgd_device *, const CUDA_RESOURCE_DESC *, const CUDA_TEXTURE_DESC *,
                              bool live, struct sg_texture *);
/* The references of the kernel's module as they are now: malloc'ed, in the order of their addresses. NULL: no host
   memory. */
struct sg_binding *sgd_texref_bindings(const struct sgd_module *);

/* ---- function.c ---- */

/* Enters as sgd_enter_current does and finds the function; an error has left again. */
CUresult sgd_enter_function(CUfunction, struct sgd_function **);

#endif
