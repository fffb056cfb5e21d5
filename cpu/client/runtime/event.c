/* event.c: chapter "Event Management". An event handle is the core's token. */
#include "cpu/client/runtime/runtime.h"

enum { EVENT_BLOCKING = 1, EVENT_NO_TIMING = 2, EVENT_INTERPROCESS = 4, EVENT_FLAGS_KNOWN = 7, RECORD_FLAGS_KNOWN = 1 };

static int create(core_event *event, unsigned flags) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!event || flags & ~(unsigned)EVENT_FLAGS_KNOWN || (flags & EVENT_INTERPROCESS && !(flags & EVENT_NO_TIMING)))
        return CUDART_INVALID_VALUE;
    if (flags & EVENT_INTERPROCESS) {
        core_unsupported("cudaEventCreateWithFlags(cudaEventInterprocess)");
        return CUDART_NOT_SUPPORTED;
    }
    return core_event_create(device, flags, event);
}

static int destroy(core_event event) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return event ? core_event_destroy(event) : CUDART_INVALID_HANDLE;
}

RUNTIME_API int cudaEventCreate(core_event *event) { return runtime_return(create(event, 0)); }
RUNTIME_API int cudaEventCreateWithFlags(core_event *event, unsigned flags) { return runtime_return(create(event, flags)); }
RUNTIME_API int cudaEventDestroy(core_event event) { return runtime_return(destroy(event)); }

static int record(core_event event, core_stream stream, unsigned flags) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return runtime_return(error);
    if (!event)
        return runtime_return(CUDART_INVALID_HANDLE);
    return runtime_return(flags & ~(unsigned)RECORD_FLAGS_KNOWN ? CUDART_INVALID_VALUE : core_event_record(device, event, stream, flags));
}

RUNTIME_API int cudaEventRecord(core_event event, core_stream stream) { return record(event, stream, 0); }
RUNTIME_API int cudaEventRecord_ptsz(core_event event, core_stream stream) { return record(event, runtime_per_thread(stream), 0); }
RUNTIME_API int cudaEventRecordWithFlags(core_event event, core_stream stream, unsigned flags) { return record(event, stream, flags); }
RUNTIME_API int cudaEventRecordWithFlags_ptsz(core_event event, core_stream stream, unsigned flags) { return record(event, runtime_per_thread(stream), flags); }

static int query(core_event event) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return event ? core_event_query(event) : CUDART_INVALID_HANDLE;
}

static int synchronize(core_event event) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return event ? core_event_synchronize(event) : CUDART_INVALID_HANDLE;
}

static int elapsed(float *milliseconds, core_event start, core_event end) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!milliseconds)
        return CUDART_INVALID_VALUE;
    return start && end ? core_event_elapsed(start, end, milliseconds) : CUDART_INVALID_HANDLE;
}

RUNTIME_API int cudaEventQuery(core_event event) { return runtime_waited(query(event)); }
RUNTIME_API int cudaEventSynchronize(core_event event) { return runtime_waited(synchronize(event)); }
RUNTIME_API int cudaEventElapsedTime(float *milliseconds, core_event start, core_event end) { return runtime_waited(elapsed(milliseconds, start, end)); }
#if FLYT_CUDART == 12
RUNTIME_API int cudaEventElapsedTime_v2(float *milliseconds, core_event start, core_event end) { return runtime_waited(elapsed(milliseconds, start, end)); }
#endif
