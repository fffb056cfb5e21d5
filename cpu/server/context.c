/*
 * context.c: contexts are made, found, made current, and given back to the driver. See context.h.
 *
 * A context is current per thread; context_use makes it so and remembers, since it is called before every operation.
 */
#include "cpu/server/session.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/server/charge.h"

_Static_assert((int)FLYT_FIRST_STREAM == (int)FLYT_MAX_CONTEXTS, "the ids below are those of legacy streams");

/* The serial of what this thread has made current; 0: nothing that is known here. */
static _Thread_local uint64_t current;
static _Atomic uint64_t serials;

CUresult context_use(struct session *session, struct context *context)
{
    if (atomic_load_explicit(&context->ended, memory_order_relaxed))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->serial == current)
        return CUDA_SUCCESS;
    CUresult r = session->gpu->CtxSetCurrent(context->handle);
    if (r == CUDA_SUCCESS)
        current = context->serial;
    return r;
}

struct context *context_find(struct session *session, uint32_t id)
{
    FLYT_ASSERT_HELD(&session->lock);
    return id < FLYT_MAX_CONTEXTS ? session->context_by_id[id] : NULL;
}

struct context *context_other(struct session *session, const struct context *but)
{
    struct list *link = list_first(&session->contexts);
    if (link && LIST_OBJECT(link, struct context, of_session) == but)
        link = list_next(&session->contexts, link);
    return LIST_OBJECT(link, struct context, of_session);
}

void context_hold(struct context *context) { atomic_fetch_add(&context->references, 1); }

void context_drop(struct context *context)
{
    if (atomic_fetch_sub(&context->references, 1) != 1)
        return;
    pthread_mutex_destroy(&context->staging.lock);
    pthread_mutex_destroy(&context->gates_lock);
    free(context);
}

static struct context *context_new(struct session *session, uint32_t id, struct device *device, bool primary)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->references = 1;
    context->id = id;
    context->device = device;
    context->primary = primary;
    context->serial = atomic_fetch_add(&serials, 1) + 1;
    staging_start(context);
    pthread_mutex_init(&context->gates_lock, NULL);
    session->context_by_id[id] = context;
    list_append(&session->contexts, &context->of_session);
    if (primary)
        device->primary = context;
    return context;
}

/* Out of the table. */
static void context_forget(struct session *session, struct context *context)
{
    session->context_by_id[context->id] = NULL;
    list_remove(&context->of_session);
    if (context->primary)
        context->device->primary = NULL;
    context_drop(context);
}

/* The driver's context. A created one becomes current in this thread; what was current before is so again afterwards. */
static CUresult driver_context_make(struct session *session, struct context *context, unsigned flags)
{
    const struct gpu *gpu = session->gpu;
    CUcontext made;
    if (context->primary)
        return gpu->DevicePrimaryCtxRetain(&context->handle, context->device->handle);
    CUresult r = gpu->CtxCreate(&context->handle, flags, context->device->handle);
    if (r == CUDA_SUCCESS)
        gpu->CtxPopCurrent(&made);
    return r;
}

static CUresult driver_context_unmake(struct session *session, struct context *context)
{
    const struct gpu *gpu = session->gpu;
    gpu->CtxSetCurrent(NULL);
    current = 0;
    return context->primary ? gpu->DevicePrimaryCtxRelease(context->device->handle) : gpu->CtxDestroy(context->handle);
}

CUresult context_make(struct session *session, uint32_t id, struct device *device, bool primary, unsigned flags, struct context **out)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct context *context = context_new(session, id, device, primary);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = driver_context_make(session, context, flags);
    if (r != CUDA_SUCCESS) {
        context_forget(session, context);
        return r;
    }
    r = context_use(session, context);
    if (r == CUDA_SUCCESS)
        r = charge_context(session, context);
    if (r != CUDA_SUCCESS)
        context_unmake(session, context);
    *out = context;
    return r;
}

CUresult context_unmake(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    atomic_store(&context->ended, true);
    completion_settle(session);                   /* nobody is about to destroy an event that goes with the context */
    CUresult r = driver_context_unmake(session, context);
    charge_context_gone(session, context);
    context_forget(session, context);
    return r;
}
