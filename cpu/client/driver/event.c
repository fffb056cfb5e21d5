/* event.c: chapter "Event Management". An event handle is the core's token. */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"

enum { EVENT_NO_TIMING = 2, EVENT_INTERPROCESS = 4, EVENT_FLAGS_KNOWN = 7, RECORD_FLAGS_KNOWN = 1 };

static int create(CUevent *event, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!event || flags & ~(unsigned)EVENT_FLAGS_KNOWN || (flags & EVENT_INTERPROCESS && !(flags & EVENT_NO_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    return core_event_create(context, flags, event);
}

/* An event is asked about, and destroyed, whatever context is current. */
static int enter(CUevent event)
{
    int error = driver_ready();
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (!error && !event)
        error = CUDA_ERROR_INVALID_HANDLE;
    return error;
}

static int record(CUevent event, CUstream stream, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !event)
        error = CUDA_ERROR_INVALID_HANDLE;
    if (!error && flags & ~(unsigned)RECORD_FLAGS_KNOWN)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : issue_record(context, event, stream, flags);
}

static int elapsed(float *milliseconds, CUevent start, CUevent end)
{
    int error = enter(start);
    if (!error)
        error = enter(end);
    if (!error && !milliseconds)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = issue_check_event(start);
    if (!error)
        error = issue_check_event(end);
    return error ? error : core_event_elapsed(start, end, milliseconds);
}

static int destroy(CUevent event)
{
    int error = enter(event);
    return error ? error : issue_event_destroy(event);
}

CUresult driver_cuEventCreate(CUevent *event, unsigned flags) { return (CUresult)create(event, flags); }
CUresult driver_cuEventDestroy_v2(CUevent event) { return (CUresult)destroy(event); }
CUresult driver_cuEventDestroy(CUevent event) { return (CUresult)destroy(event); }
CUresult driver_cuEventRecord(CUevent event, CUstream stream) { return (CUresult)record(event, stream, 0); }
CUresult driver_cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    return (CUresult)record(event, stream, flags);
}

CUresult driver_cuEventQuery(CUevent event)
{
    int error = enter(event);
    if (!error)
        error = issue_check_event(event);
    return driver_waited(error ? error : core_event_query(event));
}

CUresult driver_cuEventSynchronize(CUevent event)
{
    int error = enter(event);
    if (!error)
        error = issue_check_event(event);
    return driver_waited(error ? error : core_event_synchronize(event));
}

CUresult driver_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return driver_waited(elapsed(milliseconds, start, end));
}

CUresult driver_cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return driver_waited(elapsed(milliseconds, start, end));
}
