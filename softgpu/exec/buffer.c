/*
 * buffer.c: where kernels write the arguments of the kernels that they launch. Each buffer is a slot of the block,
 * since the thread that got it launches with it.
 */
#include "softgpu/exec/exec.h"

#include <stdlib.h>

enum { SLOTS = 1 << (32 - EXEC_LAUNCH_SHIFT) };

static struct exec_buffer **free_slot(struct exec_block *b)
{
    for (uint32_t i = 0; i < b->buffer_count; i++)
        if (!b->buffers[i])
            return &b->buffers[i];
    uint32_t before = b->buffer_count, count = before ? 2 * before : 4;
    struct exec_buffer **more = count <= SLOTS ? realloc(b->buffers, count * sizeof *more) : NULL;
    if (!more)
        return NULL;
    memset(more + before, 0, (count - before) * sizeof *more);
    b->buffers = more;
    b->buffer_count = count;
    return &b->buffers[before];
}

struct exec_buffer **exec_buffer_new(struct exec_block *b, sg_kernel *k)
{
    size_t size = k->ptx->param_size;
    struct exec_buffer **slot = size <= UINT64_C(1) << EXEC_LAUNCH_SHIFT ? free_slot(b) : NULL;
    if (!slot || !(*slot = calloc(1, sizeof **slot + size + 16)))
        return NULL;
    (*slot)->kernel = k;
    return slot;
}

void *exec_buffer_address(struct exec_block *b, uint64_t offset, uint64_t n)
{
    uint64_t slot = offset >> EXEC_LAUNCH_SHIFT, at = offset & ((UINT64_C(1) << EXEC_LAUNCH_SHIFT) - 1);
    struct exec_buffer *buffer = slot < b->buffer_count ? b->buffers[slot] : NULL;
    uint64_t size = buffer ? buffer->kernel->ptx->param_size : 0;
    return at <= size && n <= size - at ? buffer->bytes + at : NULL;
}

void exec_buffers_leave(struct exec_block *b)
{
    for (uint32_t i = 0; i < b->buffer_count; i++)
        free(b->buffers[i]);
    free(b->buffers);
    free(b->errors);
    b->buffers = NULL;
    b->errors = NULL;
    b->buffer_count = 0;
}
