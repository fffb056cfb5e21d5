/* context_make.c: contexts are made, and given back to the driver. What is in them is others' affair
   (context_calls.c). */
#include "cpu/server/session.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/server/tenant/charge.h"

static _Atomic uint64_t serials;

static struct context *context_new(struct session *session, uint32_t id, struct device *device, bool primary)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    if (id_map_set(session->ids[KIND_CONTEXT], id, context) != 0) {
        free(context);
        return NULL;
    }
    context->references = 1;
    context->id = id;
    context->device = device;
    context->primary = primary;
    context->serial = atomic_fetch_add(&serials, 1) + 1;
    staging_start(context);
    pthread_mutex_init(&context->gates_lock, NULL);
    list_append(&session->contexts, &context->of_session);
    if (primary)
        device->primary = context;
    return context;
}

/* Out of the table. */
static void context_forget(struct session *session, struct context *context)
{
    id_map_remove(session->ids[KIND_CONTEXT], context->id);
    list_remove(&context->of_session);
    if (context->primary)
        context->device->primary = NULL;
    context_drop(context);
}

/* The driver's context. A created one becomes current in this thread; what was current before is so again
   afterwards. */
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
    context_use_none(session);
    return context->primary ? gpu->DevicePrimaryCtxRelease(context->device->handle) : gpu->CtxDestroy(context->handle);
}

CUresult context_make(struct session *session, uint32_t id, struct device *device, bool primary, unsigned flags,
                      struct context **out)
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
