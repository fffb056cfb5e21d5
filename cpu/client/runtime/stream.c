/*
 * stream.c: chapter "Stream Management". A stream handle is the core's token. (Capture is in capture.c.)
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/graph/host_work.h"
#include "cpu/client/runtime/runtime.h"

enum { STREAM_FLAGS_KNOWN = 1, WAIT_FLAGS_KNOWN = 1 };

static int create(core_stream *stream, unsigned flags, int priority)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!stream || flags & ~(unsigned)STREAM_FLAGS_KNOWN)
        return cudaErrorInvalidValue;
    return core_stream_create(context, flags, priority, stream);
}

static int destroy(core_stream stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (stream <= CORE_STREAM_PER_THREAD)
        return cudaErrorInvalidResourceHandle;
    return issue_stream_destroy(context, stream);
}

cudaError_t runtime_cudaStreamCreate(cudaStream_t *stream) { return runtime_return(create(stream, 0, 0)); }
cudaError_t runtime_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return runtime_return(create(stream, flags, 0));
}

cudaError_t runtime_cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    return runtime_return(create(stream, flags, priority));
}

cudaError_t runtime_cudaStreamDestroy(cudaStream_t stream) { return runtime_return(destroy(stream)); }

static int synchronize(core_stream stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return error ? error : core_stream_synchronize(context, stream);
}

static int query(core_stream stream)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return error ? error : core_stream_query(context, stream);
}

cudaError_t runtime_cudaStreamSynchronize(cudaStream_t stream) { return runtime_waited(synchronize(stream)); }
cudaError_t runtime_cudaStreamQuery(cudaStream_t stream) { return runtime_waited(query(stream)); }

static int wait_event(core_stream stream, core_event event, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return flags & ~(unsigned)WAIT_FLAGS_KNOWN ? cudaErrorInvalidValue : issue_wait(context, stream, event, flags);
}

cudaError_t runtime_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return runtime_return(wait_event(stream, event, flags));
}

/* ---- what a stream is ---- */

static int info(core_stream stream, const void *out, struct core_stream_info *filled)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return out ? core_stream_info(context, stream, filled) : cudaErrorInvalidValue;
}

static int get_flags(core_stream stream, unsigned *flags)
{
    struct core_stream_info filled;
    core_context *context;
    int error = info(stream, flags, &filled);
    if (!error && !(error = runtime_enter(&context)) && !(error = issue_check_captured(context, stream)))
        *flags = filled.flags;
    return runtime_local(error);
}

static int get_priority(core_stream stream, int *priority)
{
    struct core_stream_info filled;
    int error = info(stream, priority, &filled);
    if (!error)
        *priority = filled.priority;
    return runtime_local(error);
}

cudaError_t runtime_cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) { return get_flags(stream, flags); }
cudaError_t runtime_cudaStreamGetPriority(cudaStream_t stream, int *priority) { return get_priority(stream, priority); }

#if FLYT_CUDART >= 12
static int get_id(core_stream stream, unsigned long long *id)
{
    struct core_stream_info filled;
    int error = info(stream, id, &filled);
    if (!error)
        *id = filled.id;
    return runtime_local(error);
}

static int get_device(core_stream stream, int *device)
{
    struct core_stream_info filled;
    int error = info(stream, device, &filled);
    if (!error)
        *device = filled.device;
    return runtime_local(error);
}

cudaError_t runtime_cudaStreamGetId(cudaStream_t stream, unsigned long long *id) { return get_id(stream, id); }
cudaError_t runtime_cudaStreamGetDevice(cudaStream_t stream, int *device) { return get_device(stream, device); }
#endif

/* ---- host functions ---- */

static void call_back(const struct host_work *work, int status)
{
    ((cudaStreamCallback_t)work->callback)(work->stream, (cudaError_t)status, work->user);
}

static cudaError_t add_host_work(const struct host_work *work, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    return (cudaError_t)runtime_return(error ? error : host_work_add(context, work, flags));
}

cudaError_t runtime_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user)
{
    return add_host_work(&(struct host_work){ .stream = stream, .function = function, .user = user }, 0);
}

cudaError_t runtime_cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *user,
                                          unsigned flags)
{
    return add_host_work(&(struct host_work){ .stream = stream,
                                              .callback = (void (*)(void))callback,
                                              .call_back = call_back,
                                              .user = user },
                         flags);
}

/* ---- attributes: CUDA 11 has the first two of them ---- */

/* -1: no attribute has that number. */
static int known(int attribute) { return attribute <= (FLYT_CUDART == 11 ? 3 : 10) ? attribute : -1; }

static int get_attribute(core_stream stream, int attribute, void *value)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && !value)
        error = cudaErrorInvalidValue;
    return error ? error : core_stream_get_attribute(context, stream, known(attribute), value);
}

static int set_attribute(core_stream stream, int attribute, const void *value)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && (!value || known(attribute) < 0))
        error = cudaErrorInvalidValue;
    return error ? error : core_stream_set_attribute(context, stream, attribute, value);
}

static int copy_attributes(core_stream to, core_stream from)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : core_stream_copy_attributes(context, to, from);
}

cudaError_t runtime_cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                           cudaLaunchAttributeValue *value)
{
    return runtime_local(get_attribute(stream, (int)attribute, value));
}

cudaError_t runtime_cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attribute,
                                           const cudaLaunchAttributeValue *value)
{
    return runtime_local(set_attribute(stream, (int)attribute, value));
}

cudaError_t runtime_cudaStreamCopyAttributes(cudaStream_t to, cudaStream_t from)
{
    return runtime_local(copy_attributes(to, from));
}
