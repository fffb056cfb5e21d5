/*
 * limits.c: a context's limits (stack, heap …), and how much memory its device has left for this program.
 *
 * A launch has the stack that the limit gave it when it was called. So a limit that is lowered while launches wait
 * becomes lower for the driver when they have been issued; the program sees the new value at once. One that is
 * raised is raised at once: more stack than it was promised hurts no kernel.
 *
 * The heap of malloc() keeps its size from the first launch on that may use it. The driver knows the launches that it
 * has been given, and the server those that wait.
 */
#include "cpu/server/session.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/server/tenant/charge.h"
#include "cpu/server/code/code.h"
#include "cpu/server/stream/late.h"
#include "cpu/server/tenant/tenant.h"

/* CUlimit: those that a launch needs: the stack, the device runtime's synchronisations and waiting launches. */
enum { LIMITS = 5, LOWERED_LATE = 1 << CU_LIMIT_STACK_SIZE | 1 << CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH |
                                  1 << CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT };

struct context_limits {
    struct late late;
    unsigned waiting;                     /* a bit for each limit */
    size_t value[LIMITS];                 /* that it will have */
};

static bool waits(const struct context *context, int limit)
{
    return context->limits && limit >= 0 && limit < LIMITS && context->limits->waiting & 1u << limit;
}

/* Stacks and the like grow with it: what the tenant may not have is undone. */
static CUresult limit_set_charged(struct session *session, struct context *context, CUlimit limit, size_t value)
{
    size_t before = 0;
    CUresult r = session->gpu->CtxGetLimit(&before, limit);
    struct charge charge = charge_begin(session, context);
    if (r == CUDA_SUCCESS)
        r = session->gpu->CtxSetLimit(limit, value);
    if (r == CUDA_SUCCESS && (r = charge_end(session, &charge)) != CUDA_SUCCESS) {
        session->gpu->CtxSetLimit(limit, before);
        charge_end(session, &charge);
    }
    charge_finish(session);
    return r;
}

/* ---- later ---- */

static void limits_free(struct context *context)
{
    list_remove(&context->limits->late.link);
    free(context->limits);
    context->limits = NULL;
}

/* By the loader. */
static void lower_now(struct session *session, struct context *context)
{
    struct context_limits limits = { .waiting = 0 };
    pthread_mutex_lock(&session->lock);
    if (context->limits && !list_linked(&context->limits->late.link)) { /* else more calls have been deferred */
        limits = *context->limits;
        limits_free(context);
    }
    pthread_mutex_unlock(&session->lock);
    if (!limits.waiting || context_use(session, context) != CUDA_SUCCESS)
        return;
    for (int limit = 0; limit < LIMITS; limit++)
        if (limits.waiting & 1u << limit)
            limit_set_charged(session, context, (CUlimit)limit, limits.value[limit]);
}

static void lower_late(struct session *session, struct late *late, bool ending)
{
    if (ending)
        limits_free(late->context);
    else
        loader_run(session, late->context, lower_now);
}

/* What the driver would make of the value. It has the old one again afterwards, before it is given any work. */
static CUresult try_value(struct session *session, CUlimit limit, size_t before, size_t *value)
{
    CUresult r = session->gpu->CtxSetLimit(limit, *value);
    if (r == CUDA_SUCCESS)
        r = session->gpu->CtxGetLimit(value, limit);
    CUresult back = session->gpu->CtxSetLimit(limit, before);
    return r ? r : back;
}

/* Under session.lock. True: the limit is lowered later, or not at all (*result). *value: what it will be. */
static bool lowered_late(struct session *session, struct context *context, int limit, size_t *value, CUresult *result)
{
    size_t before = 0;
    if (waits(context, limit))            /* this call replaces that one */
        context->limits->waiting &= ~(1u << limit);
    if (limit < 0 || limit >= LIMITS || !(LOWERED_LATE & 1u << limit) || !late_needed(session, context) ||
        session->gpu->CtxGetLimit(&before, (CUlimit)limit) != CUDA_SUCCESS || *value >= before)
        return false;
    if (!context->limits && !(context->limits = calloc(1, sizeof *context->limits))) {
        *result = CUDA_ERROR_OUT_OF_MEMORY;
        return true;
    }
    *result = try_value(session, (CUlimit)limit, before, value);
    if (*result == CUDA_SUCCESS) {
        context->limits->waiting |= 1u << limit;
        context->limits->value[limit] = *value;
    }
    late_add(session, &context->limits->late, context, lower_late);
    return true;
}

/* ---- the heap ---- */

/* Under session.lock, by the loader, so the functions of all launches up to here have been looked up. */
static bool heap_is_needed(struct session *session, struct context *context)
{
    for (struct list *link = list_first(&context->streams); link; link = list_next(&context->streams, link))
        for (struct call *call = LIST_OBJECT(link, struct stream, of_context)->first; call; call = call->next)
            if (launch_may_allocate(session, call))
                return true;
    return false;
}

/* Would the heap change behind a launch that has been called, and waits? */
static bool heap_overtakes(struct session *session, struct context *context, int limit, size_t value)
{
    size_t before = 0;
    return limit == CU_LIMIT_MALLOC_HEAP_SIZE && late_needed(session, context) &&
           session->gpu->CtxGetLimit(&before, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_SUCCESS && value != before &&
           heap_is_needed(session, context);
}

/* ---- the calls ---- */

/* By the loader. The context cannot end meanwhile: its end waits for the loader. */
static void limit_set(struct session *session, struct call *call)
{
    const limit_args *args = &call->args.limit;
    limit_result result;
    size_t value = args->value;
    memset(&result, 0, sizeof result);
    pthread_mutex_lock(&session->lock);
    struct context *context = context_find(session, args->context);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && heap_overtakes(session, context, args->limit, value))
        r = CUDA_ERROR_INVALID_VALUE;
    bool late = r == CUDA_SUCCESS && lowered_late(session, context, args->limit, &value, &r);
    pthread_mutex_unlock(&session->lock);
    if (r == CUDA_SUCCESS && !late)
        r = limit_set_charged(session, context, (CUlimit)args->limit, value);
    if (r == CUDA_SUCCESS && !late)
        r = session->gpu->CtxGetLimit(&value, (CUlimit)args->limit);      /* what was really set */
    result.value = value;
    session_reply(session, call->xid, (xdrproc_t)xdr_limit_result, &result, r, false);
}

/* In order with the modules, which need heaps and stacks. */
void serve_limit_set(struct session *session, struct call *call)
{
    if (!loader_serve(session, call, limit_set))
        call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);
}

void serve_ctx_get_limit(struct session *session, struct call *call)
{
    const ctx_get_limit_args *args = &call->args.ctx_get_limit;
    ctx_get_limit_result result;
    struct context *context = context_find(session, args->context);
    size_t value = 0;
    memset(&result, 0, sizeof result);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && waits(context, args->limit))
        value = context->limits->value[args->limit];
    else if (r == CUDA_SUCCESS)
        r = session->gpu->CtxGetLimit(&value, (CUlimit)args->limit);
    if (r == CUDA_SUCCESS)
        result.pvalue = value;
    session_reply(session, call->xid, (xdrproc_t)xdr_ctx_get_limit_result, &result, r, false);
}

/* What the tenant's other programs use is not free; what they hold unused is. */
static void memory_info_reply(struct session *session, struct call *call)
{
    struct context *context = context_find(session, call->args.context.context);
    memory_info_result result;
    size_t free_bytes = 0, total = 0;
    uint64_t idle;
    memset(&result, 0, sizeof result);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS)
        r = session->gpu->MemGetInfo(&free_bytes, &total);
    bool share = !charge_private(session);
    uint64_t left = tenant_left(context ? (unsigned)context->device->index : 0, share, &idle), most = tenant_limit();
    result.free = free_bytes + (share ? idle : 0);
    result.free = result.free < left ? result.free : left;
    result.total = total < most ? total : most;
    session_reply(session, call->xid, (xdrproc_t)xdr_memory_info_result, &result, r, false);
}

static void memory_info_blocking(struct session *session, struct call *call)
{
    tenant_survey(TENANT_PATIENCE_NS);
    pthread_mutex_lock(&session->lock);
    memory_info_reply(session, call);
    pthread_mutex_unlock(&session->lock);
}

/* Where a limit is shared each question asks the others: what another program reports as freed is free. */
void serve_memory_info(struct session *session, struct call *call)
{
    if (!charge_shared(session) || !call_serve_blocking(session, call, memory_info_blocking))
        memory_info_reply(session, call);
}
