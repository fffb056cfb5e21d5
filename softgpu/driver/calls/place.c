/*
 * place.c: a session that comes from another process has numbers that its software GPU chose: what is made again here
 * gets the same ones. None of this is CUDA's; the server finds it by dlsym (cpu/server/gpu/gpu.h). What is placed is
 * what is made next in the current context.
 */
#include "softgpu/driver/calls/calls.h"

#define EXPORTED __attribute__((visibility("default")))

/* A texture or surface object. */
EXPORTED CUresult softgpu_place_object(uint64_t handle);
CUresult softgpu_place_object(uint64_t handle)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    c->place_object = handle;
    sgd_leave();
    return CUDA_SUCCESS;
}

/* No object is ever to have it: the program has it of one that has ended. */
EXPORTED void softgpu_retire_object(uint64_t handle);
void softgpu_retire_object(uint64_t handle) { sgd_object_retire(handle); }

/* The heap of malloc() in kernels: where it is and how many bytes its state has, 0, 0: there is none. */
EXPORTED CUresult softgpu_heap(uint64_t *address, uint64_t *size);
CUresult softgpu_heap(uint64_t *address, uint64_t *size)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    *address = c->heap ? c->heap_memory : 0;
    *size = sgd_heap_state_size(c);
    sgd_leave();
    return CUDA_SUCCESS;
}

EXPORTED CUresult softgpu_heap_state(uint64_t offset, void *bytes, uint64_t size, bool write);
CUresult softgpu_heap_state(uint64_t offset, void *bytes, uint64_t size, bool write)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_heap_state(c, offset, bytes, size, write);
    sgd_leave();
    return r;
}

EXPORTED CUresult softgpu_place_heap(uint64_t address);
CUresult softgpu_place_heap(uint64_t address)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_heap_place(c, address);
    sgd_leave();
    return r;
}

EXPORTED CUresult softgpu_place_module(const struct softgpu_module_place *place);
CUresult softgpu_place_module(const struct softgpu_module_place *place)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    c->place_module = *place;
    sgd_leave();
    return CUDA_SUCCESS;
}

EXPORTED CUresult softgpu_module_place(CUmodule handle, struct softgpu_module_place *place);
CUresult softgpu_module_place(CUmodule handle, struct softgpu_module_place *place)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_module *m = sgd_handle_get(SGD_MODULE, handle);
    if (m)
        *place = m->place;
    sgd_leave();
    return m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
