/*
 * watch.c: WATCH: which of the session's device memory was written since its client asked last, so that a move copies
 * no more than that while the program stands still (docs/moving.md). The software GPU knows; its window goes with the
 * session, and the watch with that.
 */
#include <stdlib.h>

#include "cpu/server/session.h"

bool memory_writes_watchable(const struct session *session)
{
    return session->gpu->watch && session->disposable && !session->in_process;
}

static void answer(struct session *session, struct call *call, uint64_t granule, uint8_t *changed, unsigned size,
                   CUresult r)
{
    watch_result result;
    memset(&result, 0, sizeof result);
    result.granule = granule;
    result.changed.changed_val = (char *)changed;
    while (size && !changed[size - 1])
        size--;
    result.changed.changed_len = r ? 0 : size;
    session_reply(session, call->xid, (xdrproc_t)xdr_watch_result, &result, r, false);
}

/* In a thread of its own: turns of blocks are waited for. The window stays where it is from the first context on. */
static void watch_blocking(struct session *session, struct call *call)
{
    uint8_t *changed = calloc(1, FLYT_MAX_WATCH);
    uint64_t granule = 0;
    CUresult r = changed ? session->gpu->watch(session->window.base, changed, FLYT_MAX_WATCH, &granule,
                                               call->args.watch.again)
                         : CUDA_ERROR_OUT_OF_MEMORY;
    answer(session, call, granule, changed, FLYT_MAX_WATCH, r);
    free(changed);
}

void serve_watch(struct session *session, struct call *call)
{
    if (!memory_writes_watchable(session) || !list_first(&session->contexts) ||
        !call_serve_blocking(session, call, watch_blocking))
        answer(session, call, 0, NULL, 0, CUDA_ERROR_NOT_SUPPORTED);
}
