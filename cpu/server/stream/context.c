/*
 * context.c: contexts are found and made current. See context.h.
 *
 * A context is current per thread; context_use makes it so and remembers, since it is called before every operation.
 */
#include "cpu/common/thread_block.h"
#include "cpu/server/session.h"

#include "cpu/common/lock.h"

_Static_assert((int)FLYT_FIRST_STREAM == (int)FLYT_MAX_CONTEXTS, "the ids below are those of legacy streams");

/* The serial of what this thread has made current; 0: nothing that is known here. */
static THREAD_BLOCK uint64_t current;

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

void context_use_none(struct session *session)
{
    session->gpu->CtxSetCurrent(NULL);
    current = 0;
}

struct context *context_find(struct session *session, uint32_t id)
{
    FLYT_ASSERT_HELD(&session->lock);
    return id_map_find(session->ids[KIND_CONTEXT], id);
}

struct context *context_other(struct session *session, const struct context *but)
{
    struct list *link = list_first(&session->contexts);
    if (link && LIST_OBJECT(link, struct context, of_session) == but)
        link = list_next(&session->contexts, link);
    return LIST_OBJECT(link, struct context, of_session);
}
