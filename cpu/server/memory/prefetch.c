/* prefetch.c: managed memory moves to where it will be used, in the order of a stream. */
#include "cpu/server/session.h"

enum { HOST = -1 };

static int prefetch_issue(struct session *session, struct call *call)
{
    const prefetch_args *args = &call->args.prefetch;
    const struct device *device = args->device == HOST ? NULL : server_device_find(session, args->device);
    return (int)session->gpu->MemPrefetchAsync(args->address, args->size, device ? device->handle : CU_DEVICE_CPU,
                                               call->stream->handle);
}
static const struct operation prefetch_operation = { .issue = prefetch_issue, .numbered = true };

/* The driver says whether the memory is managed. */
void serve_prefetch(struct session *session, struct call *call)
{
    const prefetch_args *args = &call->args.prefetch;
    if (!server_stream_enter(session, call, args->stream))
        return;
    if (!args->size || !memory_known(session, args->address, args->size))
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
    else if (args->device != HOST && !server_device_find(session, args->device))
        stream_refuse(session, call, CUDA_ERROR_INVALID_DEVICE);
    else if (!session->gpu->MemPrefetchAsync)
        stream_refuse(session, call, CUDA_ERROR_NOT_SUPPORTED);
    else
        server_stream_submit(session, call, &prefetch_operation);
}
