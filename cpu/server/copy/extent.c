/* extent.c: what is allocated of the session's memory, for a device that watches what kernels do to memory. */
#include <stdlib.h>

#include "cpu/server/copy/copy_plan.h"

bool memory_watched(const struct session *session)
{
    return session->gpu->extent && session->gpu->extent(0, 0, GPU_EXTENT_NOBODYS);
}

static int state_of(flyt_extent_state state)
{
    return state == FLYT_EXTENT_FREED ? GPU_EXTENT_FREED
           : state == FLYT_EXTENT_ALLOCATED ? GPU_EXTENT_ALLOCATED : GPU_EXTENT_NOBODYS;
}

static bool extent_good(struct session *session, uint64_t address, uint64_t size)
{
    return memory_watched(session) && memory_known(session, address, size);
}

void serve_extent(struct session *session, struct call *call)
{
    const extent_args *args = &call->args.extent;
    if (extent_good(session, args->address, args->size))
        session->gpu->extent(args->address, args->size, state_of(args->state));
    else
        call_fail(session, call, CUDA_ERROR_INVALID_VALUE);
}

struct later { const struct gpu *gpu; uint64_t address, size; int state; };

static void CUDA_CB extent_now(void *user)
{
    struct later *later = user;
    later->gpu->extent(later->address, later->size, later->state);
    free(later);
}

static int extent_issue(struct session *session, struct call *call)
{
    const stream_extent_args *args = &call->args.stream_extent;
    struct later *later = malloc(sizeof *later);
    if (!later)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *later = (struct later){ session->gpu, args->address, args->size, state_of(args->state) };
    CUresult r = session->gpu->LaunchHostFunc(call->stream->handle, extent_now, later);
    if (r != CUDA_SUCCESS)
        free(later);
    return (int)r;
}
static const struct operation extent_operation = { .issue = extent_issue, .numbered = true };

void serve_stream_extent(struct session *session, struct call *call)
{
    const stream_extent_args *args = &call->args.stream_extent;
    if (!server_stream_enter(session, call, args->stream))
        return;
    if (extent_good(session, args->address, args->size))
        server_stream_submit(session, call, &extent_operation);
    else
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
}
