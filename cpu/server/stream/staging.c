/*
 * staging.c: pinned memory through which the bytes of copies pass, in slots of two sizes. Made with the
 * context, one set per context: page-locked memory made later could wait for kernels. A slot given to COPY_IN belongs
 * to its stream until the copy is complete
 * (completion.c gives it back); one given to COPY_OUT until its reply has been sent.
 *
 * A stream that is held (by a host function, say) may keep any number of slots for any time. So that it cannot stop
 * the others, a stream that has nothing in the driver gets a slot made for it (staging_extra), which stays in the set.
 *
 * Pinned, because a copy from pageable memory may wait for the stream inside the driver.
 */
#include "cpu/server/session.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/server/lanes/lanes.h"

enum {
    STAGING_SMALL_SIZE = 16384,
    STAGING_SMALL_COUNT = 256,
    STAGING_LARGE_SIZE = FLYT_MAX_INLINE,
    STAGING_LARGE_COUNT = 16
};

int staging_start(struct context *context)
{
    context->staging.small = (struct staging_class){ .count = STAGING_SMALL_COUNT, .size = STAGING_SMALL_SIZE };
    context->staging.large = (struct staging_class){ .count = STAGING_LARGE_COUNT, .size = STAGING_LARGE_SIZE };
    return pthread_mutex_init(&context->staging.lock, NULL);
}

/* A context is current. */
static CUresult staging_make(struct session *session, struct context *context, struct staging_class *class)
{
    FLYT_ASSERT_HELD(&context->staging.lock);
    void *memory = NULL;
    class->slots = calloc(class->count, sizeof *class->slots);
    if (!class->slots)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = session->gpu->MemHostAlloc(&memory, class->count * class->size, CU_MEMHOSTALLOC_PORTABLE);
    if (r != CUDA_SUCCESS) {
        free(class->slots);
        class->slots = NULL;
        return r;
    }
    class->memory = memory;
    for (unsigned i = 0; i < class->count; i++) {
        class->slots[i] = (struct slot){ .context = context, .memory = class->memory + i * class->size,
                                         .size = class->size,
                                         .large = class->size == STAGING_LARGE_SIZE, .next = class->unused };
        class->unused = &class->slots[i];
    }
    class->free_count = class->count;
    return CUDA_SUCCESS;
}

static struct staging_class *class_of(struct context *context, size_t size)
{
    return size <= STAGING_SMALL_SIZE ? &context->staging.small : &context->staging.large;
}

struct list *staging_wanted(struct context *context, size_t size) { return &class_of(context, size)->wanted; }

CUresult staging_take(struct session *session, struct context *context, size_t size, struct slot **slot, bool *scarce)
{
    struct staging *staging = &context->staging;
    CUresult r = CUDA_SUCCESS;
    *slot = NULL;
    if (size > STAGING_LARGE_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&staging->lock);
    struct staging_class *class = class_of(context, size);
    if (!class->memory)
        r = staging_make(session, context, class);
    if (class->unused) {
        *slot = class->unused;
        class->unused = (*slot)->next;
        class->free_count--;
        (*slot)->next = NULL;
    }
    *scarce = class->free_count <= class->count / 2;
    pthread_mutex_unlock(&staging->lock);
    return r;
}

CUresult staging_extra(struct session *session, struct context *context, size_t size, struct slot **out)
{
    struct staging *staging = &context->staging;
    struct staging_class *class = class_of(context, size);
    void *memory = NULL;
    struct slot *slot = calloc(1, sizeof *slot);
    CUresult r =
        slot ? session->gpu->MemHostAlloc(&memory, class->size, CU_MEMHOSTALLOC_PORTABLE) : CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        free(slot);
        return r;
    }
    pthread_mutex_lock(&staging->lock);
    *slot = (struct slot){ .context = context, .memory = memory, .size = class->size, .large = class == &staging->large,
                           .next_extra = staging->extras };
    staging->extras = slot;
    class->count++;
    pthread_mutex_unlock(&staging->lock);
    *out = slot;
    return CUDA_SUCCESS;
}

void staging_prepare(struct session *session, struct context *context)
{
    struct staging *staging = &context->staging;
    pthread_mutex_lock(&staging->lock);
    if (!staging->small.memory)
        staging_make(session, context, &staging->small);
    if (!staging->large.memory)
        staging_make(session, context, &staging->large);
    pthread_mutex_unlock(&staging->lock);
}

void staging_give(struct session *session, struct slot *slot)
{
    if (!slot->context) {
        lanes_give(session, slot);
        return;
    }
    struct staging *staging = &slot->context->staging;
    struct staging_class *class = slot->large ? &staging->large : &staging->small;
    pthread_mutex_lock(&staging->lock);
    slot->next = class->unused;
    class->unused = slot;
    class->free_count++;
    pthread_mutex_unlock(&staging->lock);
    if (atomic_load(&session->executor.deferred_calls))
        executor_kick(session);
}

void staging_stop(struct session *session, struct context *context)
{
    struct staging_class *classes[2] = { &context->staging.small, &context->staging.large };
    for (int i = 0; i < 2; i++) {
        if (classes[i]->memory)
            session->gpu->MemFreeHost(classes[i]->memory);
        free(classes[i]->slots);
        classes[i]->memory = NULL;
        classes[i]->slots = classes[i]->unused = NULL;
        classes[i]->free_count = 0;
    }
    for (struct slot *extra; (extra = context->staging.extras); free(extra)) {
        context->staging.extras = extra->next_extra;
        session->gpu->MemFreeHost(extra->memory);
    }
    context->staging.small.count = STAGING_SMALL_COUNT;
    context->staging.large.count = STAGING_LARGE_COUNT;
}
