/*
 * peer.c: peer access: kernels of one context may touch the device memory of a context of another device.
 *
 * The driver knows two sorts of a context's memory. What it allocated itself (variables of modules, arrays, the heap of
 * kernels) becomes reachable by cuCtxEnablePeerAccess. The pieces that MAP made (memory.c) do not: cuMemSetAccess gives
 * each device its access. That holds for all contexts of the device, so a device may touch the pieces while one of its
 * contexts has access.
 */
#include "cpu/server/session.h"

#include "cpu/common/lock.h"
#include "cpu/server/memory/memory.h"

static uint64_t bit(const struct context *context) { return UINT64_C(1) << context->id; }

_Static_assert(FLYT_MAX_CONTEXTS <= 64, "context.reached_by has a bit for each");

/* One of the device's contexts may touch the owner's memory. */
static bool device_reaches(struct session *session, const struct device *device, const struct context *owner)
{
    for (struct list *link = list_first(&session->contexts); link; link = list_next(&session->contexts, link)) {
        const struct context *other = LIST_OBJECT(link, struct context, of_session);
        if (other->device == device && owner->reached_by & bit(other))
            return true;
    }
    return false;
}

unsigned peer_access(struct session *session, const struct context *owner, CUmemAccessDesc *out)
{
    FLYT_ASSERT_HELD(&session->lock);
    unsigned count = 0;
    for (int i = 0; i < session->device_count; i++) {
        const struct device *device = &session->devices[i];
        if (device == owner->device || device_reaches(session, device, owner))
            out[count++] = (CUmemAccessDesc){ .location = memory_properties(session, device).location,
                                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
    }
    return count;
}

/* Another session of this process (thread-mode) may have given the driver's two contexts access, or taken it. */
static CUresult driver_access(struct session *session, struct context *from, struct context *to, bool may)
{
    const struct gpu *gpu = session->gpu;
    if (!gpu->CtxEnablePeerAccess || !gpu->CtxDisablePeerAccess)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    CUresult r = context_use(session, from);
    if (r == CUDA_SUCCESS)
        r = may ? gpu->CtxEnablePeerAccess(to->handle, 0) : gpu->CtxDisablePeerAccess(to->handle);
    bool already = r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED || r == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    return already ? CUDA_SUCCESS : r;
}

static CUresult disable(struct session *session, struct context *from, struct context *to)
{
    CUresult r = driver_access(session, from, to, false), taken = CUDA_SUCCESS;
    to->reached_by &= ~bit(from);
    if (!device_reaches(session, from->device, to))
        taken = memory_pieces_access(session, to, from->device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    return r ? r : taken;
}

static CUresult enable(struct session *session, struct context *from, struct context *to)
{
    CUresult r = driver_access(session, from, to, true);
    if (r != CUDA_SUCCESS)
        return r;
    to->reached_by |= bit(from);
    r = memory_pieces_access(session, to, from->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (r != CUDA_SUCCESS)
        disable(session, from, to);
    return r;
}

static CUresult change(struct session *session, const peer_access_args *args)
{
    struct context *from = context_find(session, args->context), *to = context_find(session, args->peer);
    if (!from || !to)
        return CUDA_ERROR_INVALID_CONTEXT;
    bool may = to->reached_by & bit(from);
    if (!args->may)
        return may ? disable(session, from, to) : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (from->device == to->device)
        return CUDA_ERROR_INVALID_DEVICE;
    return may ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : enable(session, from, to);
}

void serve_peer_access(struct session *session, struct call *call)
{
    CUresult r = change(session, &call->args.peer_access);
    session_reply_plain(session, call->xid, r, false);
}

void peers_drop(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    for (struct list *link = list_first(&session->contexts); link; link = list_next(&session->contexts, link)) {
        struct context *other = LIST_OBJECT(link, struct context, of_session);
        if (other->reached_by & bit(context))
            disable(session, context, other);
        if (context->reached_by & bit(other))
            disable(session, other, context);
    }
    context_use(session, context);            /* for the kinds that are dropped next */
}
