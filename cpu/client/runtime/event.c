/* event.c: chapter "Event Management". An event handle is the core's token. */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

enum { EVENT_BLOCKING = 1, EVENT_NO_TIMING = 2, EVENT_INTERPROCESS = 4, EVENT_FLAGS_KNOWN = 7, RECORD_FLAGS_KNOWN = 1 };

static int create(core_event *event, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!event || flags & ~(unsigned)EVENT_FLAGS_KNOWN || (flags & EVENT_INTERPROCESS && !(flags & EVENT_NO_TIMING)))
        return cudaErrorInvalidValue;
    return core_event_create(context, flags, event);
}

static int destroy(core_event event)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return event ? issue_event_destroy(event) : cudaErrorInvalidResourceHandle;
}

cudaError_t runtime_cudaEventCreate(cudaEvent_t *event) { return runtime_return(create(event, 0)); }
cudaError_t runtime_cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    return runtime_return(create(event, flags));
}

cudaError_t runtime_cudaEventDestroy(cudaEvent_t event) { return runtime_return(destroy(event)); }

static int record(core_event event, core_stream stream, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return runtime_return(error);
    if (!event)
        return runtime_return(cudaErrorInvalidResourceHandle);
    return runtime_return(flags & ~(unsigned)RECORD_FLAGS_KNOWN ? cudaErrorInvalidValue
                                                                : issue_record(context, event, stream, flags));
}

cudaError_t runtime_cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return record(event, stream, 0); }
cudaError_t runtime_cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    return record(event, stream, flags);
}

static int query(core_event event)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!event)
        return cudaErrorInvalidResourceHandle;
    error = issue_check_event(event);
    return error ? error : core_event_query(event);
}

static int synchronize(core_event event)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!event)
        return cudaErrorInvalidResourceHandle;
    error = issue_check_event(event);
    return error ? error : core_event_synchronize(event);
}

static int elapsed(float *milliseconds, core_event start, core_event end)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!milliseconds)
        return cudaErrorInvalidValue;
    if (!start || !end)
        return cudaErrorInvalidResourceHandle;
    if ((error = issue_check_event(start)) || (error = issue_check_event(end)))
        return error;
    return core_event_elapsed(start, end, milliseconds);
}

cudaError_t runtime_cudaEventQuery(cudaEvent_t event) { return runtime_waited(query(event)); }
cudaError_t runtime_cudaEventSynchronize(cudaEvent_t event) { return runtime_waited(synchronize(event)); }
cudaError_t runtime_cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    return runtime_waited(elapsed(milliseconds, start, end));
}
#if FLYT_CUDART == 12
cudaError_t runtime_cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    return runtime_waited(elapsed(milliseconds, start, end));
}
#endif
