/* stream.c: streams as objects; what they carry is queue.c's and turn.c's. */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

CUresult sgd_stream_new(struct sgd_context *c, unsigned flags, int priority, struct sgd_stream **out)
{
    struct sgd_stream *s = calloc(1, sizeof *s);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->handle = sgd_handle_new(SGD_STREAM, s);
    if (!s->handle) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->context = c;
    s->flags = flags;
    s->non_blocking = flags & CU_STREAM_NON_BLOCKING;
    s->priority = priority > SGD_PRIORITY_LEAST ? SGD_PRIORITY_LEAST
                : priority < SGD_PRIORITY_GREATEST ? SGD_PRIORITY_GREATEST : priority;
    s->id = sgd_next_id();
    s->refs = 1;
    s->tail = &s->head;
    s->next = c->streams;
    s->back = &c->streams;
    if (s->next)
        s->next->back = &s->next;
    c->streams = s;
    *out = s;
    return CUDA_SUCCESS;
}

void sgd_stream_unref(struct sgd_stream *s)
{
    if (!--s->refs)
        free(s);
}

void sgd_stream_stale(struct sgd_stream *s)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!s->fresh_back)
        return;
    *s->fresh_back = s->fresh_next;
    if (s->fresh_next)
        s->fresh_next->fresh_back = s->fresh_back;
    s->fresh_back = NULL;
}

/* A destroyed stream with work left keeps its context, so that synchronising the context waits for it. */
static void unlink_stream(struct sgd_stream *s)
{
    *s->back = s->next;
    if (s->next)
        s->next->back = s->back;
    sgd_stream_stale(s);
    if (s->head && !s->non_blocking)
        s->context->busy--;
    s->context = NULL;
}

void sgd_stream_retire(struct sgd_stream *s)
{
    if (!s->destroyed)
        sgd_handle_drop(s->handle);
    unlink_stream(s);
    sgd_stream_unref(s);
}
