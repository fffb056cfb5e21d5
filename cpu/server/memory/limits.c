/* limits.c: a context's limits (stack, heap …), and how much memory its device has left for this program. */
#include "cpu/server/session.h"

#include <string.h>

#include "cpu/server/tenant/charge.h"
#include "cpu/server/code/code.h"
#include "cpu/server/tenant/tenant.h"

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

/* By the loader. The context cannot end meanwhile: its end waits for the loader. */
static void limit_set(struct session *session, struct call *call)
{
    const limit_args *args = &call->args.limit;
    limit_result result;
    size_t value = 0;
    memset(&result, 0, sizeof result);
    pthread_mutex_lock(&session->lock);
    struct context *context = context_find(session, args->context);
    pthread_mutex_unlock(&session->lock);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS)
        r = limit_set_charged(session, context, (CUlimit)args->limit, args->value);
    if (r == CUDA_SUCCESS)
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
    uint64_t left = tenant_left(share, &idle), most = tenant_limit();
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

/* Where a limit is shared each question asks the others: what one program is told by another to have freed, is free. */
void serve_memory_info(struct session *session, struct call *call)
{
    if (!charge_shared(session) || !call_serve_blocking(session, call, memory_info_blocking))
        memory_info_reply(session, call);
}
