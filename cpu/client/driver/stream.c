/*
 * stream.c: chapter "Stream Management". A stream handle is the core's token. (Capture is in capture.c.)
 */
#include "cpu/client/driver/driver.h"
#include "cpu/client/graph/capture.h"
#include "cpu/client/graph/host_work.h"

enum { STREAM_FLAGS_KNOWN = 1, WAIT_FLAGS_KNOWN = 1 };

static int create(CUstream *stream, unsigned flags, int priority)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    if (!stream || flags & ~(unsigned)STREAM_FLAGS_KNOWN)
        return CUDA_ERROR_INVALID_VALUE;
    return core_stream_create(context, flags, priority, stream);
}

/* Of any context, whether or not one is current. */
static int destroy(CUstream stream)
{
    int error = driver_ready();
    if (!error && core_in_host_function())
        error = CUDA_ERROR_NOT_PERMITTED;
    if (error)
        return error;
    if (stream <= CORE_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    return driver_current ? issue_stream_destroy(driver_current, stream) : core_stream_destroy(stream);
}

CUresult driver_cuStreamCreate(CUstream *stream, unsigned flags) { return (CUresult)create(stream, flags, 0); }
CUresult driver_cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    return (CUresult)create(stream, flags, priority);
}

CUresult driver_cuStreamDestroy_v2(CUstream stream) { return (CUresult)destroy(stream); }
CUresult driver_cuStreamDestroy(CUstream stream) { return (CUresult)destroy(stream); }

CUresult driver_cuStreamSynchronize(CUstream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return driver_waited(error ? error : core_stream_synchronize(context, stream));
}

CUresult driver_cuStreamQuery(CUstream stream)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = issue_check_stream(context, stream);
    return driver_waited(error ? error : core_stream_query(context, stream));
}

CUresult driver_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !event)
        error = CUDA_ERROR_INVALID_HANDLE;
    if (!error && flags & ~(unsigned)WAIT_FLAGS_KNOWN)
        error = CUDA_ERROR_INVALID_VALUE;
    return (CUresult)(error ? error : issue_wait(context, stream, event, flags));
}

/* ---- what a stream is ---- */

static int info(CUstream stream, const void *out, struct core_stream_info *filled)
{
    core_context *context;
    int error = driver_enter(&context);
    if (error)
        return error;
    return out ? core_stream_info(context, stream, filled) : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuStreamGetFlags(CUstream stream, unsigned *flags)
{
    struct core_stream_info filled;
    core_context *context;
    int error = info(stream, flags, &filled);
    if (!error && !(error = driver_enter(&context)) && !(error = issue_check_captured(context, stream)))
        *flags = filled.flags;
    return driver_local(error);
}

CUresult driver_cuStreamGetPriority(CUstream stream, int *priority)
{
    struct core_stream_info filled;
    int error = info(stream, priority, &filled);
    if (!error)
        *priority = filled.priority;
    return driver_local(error);
}

CUresult driver_cuStreamGetId(CUstream stream, unsigned long long *id)
{
    struct core_stream_info filled;
    int error = info(stream, id, &filled);
    if (!error)
        *id = filled.id;
    return driver_local(error);
}

CUresult driver_cuStreamGetDevice(CUstream stream, CUdevice *device)
{
    struct core_stream_info filled;
    int error = info(stream, device, &filled);
    if (!error)
        *device = filled.device;
    return driver_local(error);
}

CUresult driver_cuStreamGetCtx(CUstream stream, CUcontext *context)
{
    struct core_stream_info filled;
    int error = info(stream, context, &filled);
    if (!error)
        *context = filled.context;
    return driver_local(error);
}

CUresult driver_cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
{
    struct core_stream_info filled;
    int error = info(stream, context, &filled);
    if (!error)
        *context = filled.context;
    if (!error && green)
        *green = NULL; /* no stream belongs to a green context */
    return driver_local(error);
}

/* No stream belongs to one. */
CUresult driver_cuStreamGetGreenCtx(CUstream stream, CUgreenCtx *green)
{
    struct core_stream_info filled;
    int error = info(stream, green, &filled);
    if (!error)
        *green = NULL;
    return driver_local(error);
}

/* ---- host functions ---- */

static void call_back(const struct host_work *work, int status)
{
    ((CUstreamCallback)work->callback)(work->stream, (CUresult)status, work->user);
}

static CUresult add_host_work(const struct host_work *work, unsigned flags)
{
    core_context *context;
    int error = driver_enter(&context);
    return (CUresult)(error ? error : host_work_add(context, work, flags));
}

CUresult driver_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user)
{
    return add_host_work(&(struct host_work){ .stream = stream, .function = function, .user = user }, 0);
}

CUresult driver_cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *user, unsigned flags)
{
    return add_host_work(&(struct host_work){ .stream = stream,
                                              .callback = (void (*)(void))callback,
                                              .call_back = call_back,
                                              .user = user },
                         flags);
}

/* ---- attributes ---- */

CUresult driver_cuStreamGetAttribute(CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !value)
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_local(error ? error : core_stream_get_attribute(context, stream, (int)attribute, value));
}

CUresult driver_cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !value)
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_local(error ? error : core_stream_set_attribute(context, stream, (int)attribute, value));
}

CUresult driver_cuStreamCopyAttributes(CUstream to, CUstream from)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_local(error ? error : core_stream_copy_attributes(context, to, from));
}
