/*
 * buffers.c: page-locked memory through which the bytes of staged transfers pass.
 *
 * The driver frees such memory only when its context is idle, and a transfer may wait for another one of its context.
 * So a buffer stays with its context when its transfer is over, for the next one. Buffers have a few sizes, so that
 * they are used again. Where there is no room for another one, a larger one will do; and while no other transfer is
 * under way, unused ones are freed.
 */
#include "cpu/server/links/links_state.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

#define BUFFERS_MOST ((uint64_t)1 << 30) /* bytes, of a session */

static uint64_t rounded(uint64_t size)
{
    static const uint64_t sizes[] = { (uint64_t)1 << 20, (uint64_t)8 << 20, (uint64_t)64 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (size <= sizes[i])
            return sizes[i];
    return size;
}

static void buffer_free(struct links *links, struct link_buffer *buffer)
{
    list_remove(&buffer->of_all);
    links->ways->unregister_memory(links->engine, buffer->memory, buffer->size);
    links->session->gpu->MemFreeHost(buffer->memory);
    links->staged_bytes -= buffer->size;
    free(buffer);
}

/* The smallest unused one of the context that is large enough, and no larger than `most`; or NULL. */
static struct link_buffer *buffer_find(struct links *links, const struct context *context, uint64_t size, uint64_t most)
{
    struct link_buffer *best = NULL;
    for (struct list *one = list_first(&links->buffers); one; one = list_next(&links->buffers, one)) {
        struct link_buffer *buffer = LIST_OBJECT(one, struct link_buffer, of_all);
        if (!buffer->used && buffer->context == context && buffer->size >= size && buffer->size <= most &&
            (!best || buffer->size < best->size))
            best = buffer;
    }
    return best;
}

static void free_unused(struct links *links)
{
    for (struct list *one = list_first(&links->buffers), *next; one; one = next) {
        struct link_buffer *buffer = LIST_OBJECT(one, struct link_buffer, of_all);
        next = list_next(&links->buffers, one);
        if (!buffer->used)
            buffer_free(links, buffer);
    }
}

static CUresult buffer_make(struct links *links, struct context *context, uint64_t size, struct link_buffer **out)
{
    const struct gpu *gpu = links->session->gpu;
    struct link_buffer *buffer = calloc(1, sizeof *buffer);
    CUresult r = buffer ? gpu->MemHostAlloc(&buffer->memory, size, CU_MEMHOSTALLOC_PORTABLE) : CUDA_ERROR_OUT_OF_MEMORY;
    int status = r == CUDA_SUCCESS ? links->ways->register_memory(links->engine, buffer->memory, size) : 0;
    if (status < 0) {
        gpu->MemFreeHost(buffer->memory);
        r = links_result(status);
    }
    if (r != CUDA_SUCCESS) {
        free(buffer);
        return r;
    }
    buffer->context = context;
    buffer->size = size;
    links->staged_bytes += size;
    list_append(&links->buffers, &buffer->of_all);
    *out = buffer;
    return CUDA_SUCCESS;
}

CUresult link_buffer_take(struct links *links, struct context *context, uint64_t size, bool alone,
                          struct link_buffer **out)
{
    FLYT_ASSERT_HELD(&links->session->lock);
    const uint64_t whole = rounded(size);
    CUresult r = CUDA_SUCCESS;
    *out = buffer_find(links, context, whole, whole);
    if (!*out && alone && whole > BUFFERS_MOST - links->staged_bytes)
        free_unused(links);
    if (!*out && whole > BUFFERS_MOST - links->staged_bytes)
        *out = buffer_find(links, context, whole, UINT64_MAX);
    if (!*out)
        r = whole > BUFFERS_MOST - links->staged_bytes ? CUDA_ERROR_OUT_OF_MEMORY
                                                       : buffer_make(links, context, whole, out);
    if (r == CUDA_SUCCESS)
        (*out)->used = true;
    return r;
}

void link_buffer_give(struct links *links, struct link_buffer *buffer)
{
    FLYT_ASSERT_HELD(&links->session->lock);
    buffer->used = false;
    if (!buffer->context)
        buffer_free(links, buffer);
}

void links_drop_buffers(struct session *session, struct context *context)
{
    struct links *links = session->links;
    for (struct list *one = links ? list_first(&links->buffers) : NULL, *next; one; one = next) {
        struct link_buffer *buffer = LIST_OBJECT(one, struct link_buffer, of_all);
        next = list_next(&links->buffers, one);
        if (buffer->context != context)
            continue;
        buffer->context = NULL;
        if (!buffer->used)
            buffer_free(links, buffer);
    }
}
