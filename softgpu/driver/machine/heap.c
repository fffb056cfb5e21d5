/*
 * heap.c: the heap of malloc() in kernels, in memory of its context. It exists from the first module on that calls
 * malloc(), so that loading the module is what fails when there is no room for it. Its size can change until a kernel
 * of such a module is launched: a program may set it after its modules were loaded.
 */
#include "softgpu/driver/machine/machine.h"
#include "softgpu/check.h"

#include "cpu/common/lock.h"

static CUresult heap_new(struct sgd_context *c, size_t size)
{
    uint64_t at;
    /* Kernels keep its addresses, so it has to be there again where a session moves to. It goes with the context's
       other memory. */
    CUresult r = sgd_memory_new_code(c, SGD_MEMORY_DEVICE, size, c->place_heap, &at);
    c->place_heap = 0;
    if (r)
        return r;
    struct sgd_memory *memory = sgd_memory_find(at);
    memory->internal = true;
    if (sg_check)
        sg_check_written(at, size);
    c->heap = sg_heap_create(at, size);
    if (!c->heap) {
        sgd_memory_free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->heap_memory = at;
    return CUDA_SUCCESS;
}

static void heap_end(struct sgd_context *c)
{
    sg_heap_destroy(c->heap);
    c->heap = NULL;
    sgd_memory_free(sgd_memory_find(c->heap_memory));
}

CUresult sgd_heap_ensure(struct sgd_context *c)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    size_t size = c->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    c->heap_wanted = true;
    return c->heap || !size ? CUDA_SUCCESS : heap_new(c, size);
}

CUresult sgd_heap_resize(struct sgd_context *c, size_t size)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    size_t before = c->limits[CU_LIMIT_MALLOC_HEAP_SIZE];
    if (size == before)
        return CUDA_SUCCESS;
    if (c->heap_used || size > sgd_device_total(c->device))
        return CUDA_ERROR_INVALID_VALUE;
    if (c->heap)
        heap_end(c);
    CUresult r = c->heap_wanted && size ? heap_new(c, size) : CUDA_SUCCESS;
    if (!r)
        c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = size;
    else if (before)
        heap_new(c, before);                 /* there is room: what it took is free, and nobody else had the mutex */
    return r;
}

CUresult sgd_heap_place(struct sgd_context *c, uint64_t address)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (c->heap)
        return c->heap_memory == address ? CUDA_SUCCESS : CUDA_ERROR_ALREADY_MAPPED;
    c->place_heap = address;
    CUresult r = sgd_heap_ensure(c);
    return r == CUDA_SUCCESS && !c->heap ? CUDA_ERROR_INVALID_VALUE : r;
}

uint64_t sgd_heap_state_size(const struct sgd_context *c) { return c->heap ? sg_heap_state_size(c->heap) : 0; }

CUresult sgd_heap_state(struct sgd_context *c, uint64_t offset, void *bytes, uint64_t size, bool write)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!c->heap || !sg_heap_state(c->heap, offset, bytes, size, write))
        return CUDA_ERROR_INVALID_VALUE;
    c->heap_used |= write;
    return CUDA_SUCCESS;
}
