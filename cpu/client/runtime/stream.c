/*
 * stream.c: chapter "Stream Management". A stream handle is the core's token. Capture is not there yet: no stream ever
 * captures, and the questions about it say so.
 */
#include "cpu/client/runtime/runtime.h"

#include <stdlib.h>

enum { STREAM_FLAGS_KNOWN = 1, WAIT_FLAGS_KNOWN = 1, CAPTURE_NONE = 0, CAPTURE_MODES = 3 };

static int create(core_stream *stream, unsigned flags, int priority) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!stream || flags & ~(unsigned)STREAM_FLAGS_KNOWN)
        return CUDART_INVALID_VALUE;
    return core_stream_create(device, flags, priority, stream);
}

static int destroy(core_stream stream) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return stream <= CORE_STREAM_PER_THREAD ? CUDART_INVALID_HANDLE : core_stream_destroy(stream);
}

RUNTIME_API int cudaStreamCreate(core_stream *stream) { return runtime_return(create(stream, 0, 0)); }
RUNTIME_API int cudaStreamCreateWithFlags(core_stream *stream, unsigned flags) { return runtime_return(create(stream, flags, 0)); }
RUNTIME_API int cudaStreamCreateWithPriority(core_stream *stream, unsigned flags, int priority) { return runtime_return(create(stream, flags, priority)); }
RUNTIME_API int cudaStreamDestroy(core_stream stream) { return runtime_return(destroy(stream)); }

static int synchronize(core_stream stream) {
    int device;
    int error = runtime_enter(&device);
    return error ? error : core_stream_synchronize(device, stream);
}

static int query(core_stream stream) {
    int device;
    int error = runtime_enter(&device);
    return error ? error : core_stream_query(device, stream);
}

RUNTIME_API int cudaStreamSynchronize(core_stream stream) { return runtime_waited(synchronize(stream)); }
RUNTIME_API int cudaStreamSynchronize_ptsz(core_stream stream) { return runtime_waited(synchronize(runtime_per_thread(stream))); }
RUNTIME_API int cudaStreamQuery(core_stream stream) { return runtime_waited(query(stream)); }
RUNTIME_API int cudaStreamQuery_ptsz(core_stream stream) { return runtime_waited(query(runtime_per_thread(stream))); }

static int wait_event(core_stream stream, core_event event, unsigned flags) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return flags & ~(unsigned)WAIT_FLAGS_KNOWN ? CUDART_INVALID_VALUE : core_stream_wait(device, stream, event, flags);
}

RUNTIME_API int cudaStreamWaitEvent(core_stream stream, core_event event, unsigned flags) { return runtime_return(wait_event(stream, event, flags)); }
RUNTIME_API int cudaStreamWaitEvent_ptsz(core_stream stream, core_event event, unsigned flags) { return runtime_return(wait_event(runtime_per_thread(stream), event, flags)); }

/* ---- what a stream is ---- */

static int info(core_stream stream, const void *out, struct core_stream_info *filled) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return out ? core_stream_info(device, stream, filled) : CUDART_INVALID_VALUE;
}

static int get_flags(core_stream stream, unsigned *flags) {
    struct core_stream_info filled;
    int error = info(stream, flags, &filled);
    if (!error)
        *flags = filled.flags;
    return runtime_local(error);
}

static int get_priority(core_stream stream, int *priority) {
    struct core_stream_info filled;
    int error = info(stream, priority, &filled);
    if (!error)
        *priority = filled.priority;
    return runtime_local(error);
}

static int get_id(core_stream stream, unsigned long long *id) {
    struct core_stream_info filled;
    int error = info(stream, id, &filled);
    if (!error)
        *id = filled.id;
    return runtime_local(error);
}

static int get_device(core_stream stream, int *device) {
    struct core_stream_info filled;
    int error = info(stream, device, &filled);
    if (!error)
        *device = filled.device;
    return runtime_local(error);
}

RUNTIME_API int cudaStreamGetFlags(core_stream stream, unsigned *flags) { return get_flags(stream, flags); }
RUNTIME_API int cudaStreamGetFlags_ptsz(core_stream stream, unsigned *flags) { return get_flags(runtime_per_thread(stream), flags); }
RUNTIME_API int cudaStreamGetPriority(core_stream stream, int *priority) { return get_priority(stream, priority); }
RUNTIME_API int cudaStreamGetPriority_ptsz(core_stream stream, int *priority) { return get_priority(runtime_per_thread(stream), priority); }
RUNTIME_API int cudaStreamGetId(core_stream stream, unsigned long long *id) { return get_id(stream, id); }
RUNTIME_API int cudaStreamGetId_ptsz(core_stream stream, unsigned long long *id) { return get_id(runtime_per_thread(stream), id); }
RUNTIME_API int cudaStreamGetDevice(core_stream stream, int *device) { return get_device(stream, device); }
RUNTIME_API int cudaStreamGetDevice_ptsz(core_stream stream, int *device) { return get_device(runtime_per_thread(stream), device); }

/* ---- capture: status questions and the thread's mode ---- */

static int is_capturing(core_stream stream, int *status) {
    struct core_stream_info filled;
    int error = info(stream, status, &filled);
    if (!error)
        *status = CAPTURE_NONE;
    return runtime_local(error);
}

RUNTIME_API int cudaStreamIsCapturing(core_stream stream, int *status) { return is_capturing(stream, status); }
RUNTIME_API int cudaStreamIsCapturing_ptsz(core_stream stream, int *status) { return is_capturing(runtime_per_thread(stream), status); }

/* The further out-parameters of the later forms are optional and untouched while nothing is captured. */
#if FLYT_CUDART <= 12
RUNTIME_API int cudaStreamGetCaptureInfo(core_stream stream, int *status, unsigned long long *id) {
    (void)id;
    return is_capturing(stream, status);
}
RUNTIME_API int cudaStreamGetCaptureInfo_ptsz(core_stream stream, int *status, unsigned long long *id) {
    (void)id;
    return is_capturing(runtime_per_thread(stream), status);
}
RUNTIME_API int cudaStreamGetCaptureInfo_v2(core_stream stream, int *status, unsigned long long *id, void **graph, const void **dependencies, size_t *count) {
    (void)id, (void)graph, (void)dependencies, (void)count;
    return is_capturing(stream, status);
}
RUNTIME_API int cudaStreamGetCaptureInfo_v2_ptsz(core_stream stream, int *status, unsigned long long *id, void **graph, const void **dependencies, size_t *count) {
    (void)id, (void)graph, (void)dependencies, (void)count;
    return is_capturing(runtime_per_thread(stream), status);
}
#define CAPTURE_INFO_WITH_EDGES cudaStreamGetCaptureInfo_v3
#define CAPTURE_INFO_WITH_EDGES_PTSZ cudaStreamGetCaptureInfo_v3_ptsz
#else
#define CAPTURE_INFO_WITH_EDGES cudaStreamGetCaptureInfo
#define CAPTURE_INFO_WITH_EDGES_PTSZ cudaStreamGetCaptureInfo_ptsz
#endif
RUNTIME_API int CAPTURE_INFO_WITH_EDGES(core_stream stream, int *status, unsigned long long *id, void **graph, const void **dependencies, const void **edges, size_t *count) {
    (void)id, (void)graph, (void)dependencies, (void)edges, (void)count;
    return is_capturing(stream, status);
}
RUNTIME_API int CAPTURE_INFO_WITH_EDGES_PTSZ(core_stream stream, int *status, unsigned long long *id, void **graph, const void **dependencies, const void **edges, size_t *count) {
    (void)id, (void)graph, (void)dependencies, (void)edges, (void)count;
    return is_capturing(runtime_per_thread(stream), status);
}

RUNTIME_API int cudaThreadExchangeStreamCaptureMode(int *mode) {
    int error = runtime_attach(NULL);
    if (error)
        return runtime_local(error);
    if (!mode || *mode < 0 || *mode >= CAPTURE_MODES)
        return runtime_local(CUDART_INVALID_VALUE);
    int previous = runtime_thread.capture_mode;
    runtime_thread.capture_mode = *mode;
    *mode = previous;
    return runtime_local(CUDART_OK);
}

/* ---- host functions ---- */

struct host_work {
    core_stream stream;
    void (*callback)(core_stream, int status, void *user);      /* cudaStreamAddCallback */
    void (*function)(void *user);                               /* cudaLaunchHostFunc */
    void *user;
};

static void run_host_work(void *data, int status) {
    struct host_work work = *(struct host_work *)data;
    free(data);
    if (work.callback)
        work.callback(work.stream, status, work.user);
    else if (!status)
        work.function(work.user);
}

static int add_host_work(struct host_work work, unsigned flags) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (flags || (!work.callback && !work.function))
        return CUDART_INVALID_VALUE;
    struct host_work *kept = malloc(sizeof *kept);
    if (!kept)
        return CUDART_OUT_OF_MEMORY;
    *kept = work;
    if ((error = core_host_function(device, work.stream, run_host_work, kept, work.callback != NULL)))
        free(kept);
    return error;
}

RUNTIME_API int cudaLaunchHostFunc(core_stream stream, void (*function)(void *), void *user) {
    return runtime_return(add_host_work((struct host_work){.stream = stream, .function = function, .user = user}, 0));
}
RUNTIME_API int cudaLaunchHostFunc_ptsz(core_stream stream, void (*function)(void *), void *user) {
    return runtime_return(add_host_work((struct host_work){.stream = runtime_per_thread(stream), .function = function, .user = user}, 0));
}

static int add_callback(core_stream stream, void (*callback)(core_stream, int, void *), void *user, unsigned flags) {
    return runtime_return(add_host_work((struct host_work){.stream = stream, .callback = callback, .user = user}, flags));
}

RUNTIME_API int cudaStreamAddCallback(core_stream stream, void (*callback)(core_stream, int, void *), void *user, unsigned flags) {
    return add_callback(stream, callback, user, flags);
}
RUNTIME_API int cudaStreamAddCallback_ptsz(core_stream stream, void (*callback)(core_stream, int, void *), void *user, unsigned flags) {
    return add_callback(runtime_per_thread(stream), callback, user, flags);
}
