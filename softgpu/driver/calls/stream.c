/* stream.c: streams and host functions. CUDA reference: Stream Management, Execution Control (cuLaunchHostFunc). */
#include "softgpu/driver/calls/calls.h"

_Thread_local bool sgd_per_thread;

/* A thread remembers the last one that it used, which is mostly its only one. Ids of streams are never used again. */
static CUresult per_thread_stream(struct sgd_context *c, struct sgd_stream **out)
{
    static _Thread_local CUstream last;
    static _Thread_local uint64_t last_id;
    pthread_t self = pthread_self();
    struct sgd_stream *s = sgd_handle_get(SGD_STREAM, last);
    if (!s || s->id != last_id || s->context != c)
        for (s = c->per_thread; s && !pthread_equal(s->thread, self); s = s->next_per_thread)
            ;
    if (!s) {
        CUresult r = sgd_stream_new(c, CU_STREAM_DEFAULT, 0, &s);
        if (r)
            return r;
        s->per_thread = true;
        s->thread = self;
        s->next_per_thread = c->per_thread;
        c->per_thread = s;
    }
    last = s->handle;
    last_id = s->id;
    *out = s;
    return CUDA_SUCCESS;
}

CUresult sgd_stream_find(CUstream handle, struct sgd_context *current, struct sgd_stream **out)
{
    if (!handle)
        handle = sgd_per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    if (handle == CU_STREAM_PER_THREAD)
        return per_thread_stream(current, out);
    *out = handle == CU_STREAM_LEGACY ? current->legacy : sgd_handle_get(SGD_STREAM, handle);
    return *out && (*out)->context && (*out)->context->active ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult enter_stream(CUstream handle, struct sgd_stream **s)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_stream_find(handle, c, s);
    if (r)
        sgd_leave();
    return r;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    struct sgd_context *c;
    struct sgd_stream *s;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = sgd_stream_new(c, flags, priority, &s);
    if (!r)
        *out = s->handle;
    sgd_leave();
    return r;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags) { return cuStreamCreateWithPriority(out, flags, 0); }

CUresult cuStreamDestroy_v2(CUstream handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_stream *s = sgd_handle_get(SGD_STREAM, handle);
    if (!s || s->legacy || s->per_thread) {
        sgd_leave();
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sgd_handle_drop(handle);
    s->destroyed = true;
    if (!s->head)                            /* else when it is empty */
        sgd_stream_retire(s);
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

CUresult cuStreamQuery(CUstream handle)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    r = s->head ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    if (s->legacy && s->context->busy)       /* it is idle when every blocking stream is */
        r = CUDA_ERROR_NOT_READY;
    sgd_leave();
    return r;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    struct sgd_context *c = s->context;
    sgd_context_hold(c);
    r = s->legacy ? sgd_legacy_wait(c) : sgd_stream_wait(s, s->pushed);
    sgd_context_flush(c);
    sgd_leave();
    return r;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    struct sgd_event *e = sgd_handle_get(SGD_EVENT, event);
    if (flags & ~1u)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!e)
        r = CUDA_ERROR_INVALID_HANDLE;
    /* A wait for what is over joins the legacy stream and the blocking ones, too. */
    if (!r && (!s->non_blocking || (e->stream && !sgd_stream_done(e->stream, e->number)))) {
        struct sgd_op *op = sgd_op_new(SGD_OP_NOTHING);
        if (!op || (e->stream && !sgd_op_depend(op, e->stream, e->number))) {
            if (op)
                sgd_op_free(op);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            r = sgd_queue_push(s, op, NULL);
        }
    }
    sgd_leave();
    return r;
}

static CUresult host(CUstream handle, CUstreamCallback callback, CUhostFn function, void *data)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    struct sgd_op *op = callback || function ? sgd_op_new(SGD_OP_HOST) : NULL;
    if (!op) {
        sgd_leave();
        return callback || function ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    op->host.callback = callback;
    op->host.function = function;
    op->host.data = data;
    op->host.stream = handle;
    r = sgd_queue_push(s, op, NULL);
    sgd_leave();
    return r;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : host(stream, callback, NULL, data);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return host(stream, NULL, function, data);
}

/* ---- what is asked about streams ---------------------------------------------------------------------------- */

CUresult cuStreamGetPriority(CUstream handle, int *priority)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    if (priority)
        *priority = s->priority;
    sgd_leave();
    return priority ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned *flags)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    if (flags)
        *flags = s->flags;
    sgd_leave();
    return flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    if (context)
        *context = s->context->handle;
    sgd_leave();
    return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 12000
CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    if (id)
        *id = s->id;
    sgd_leave();
    return id ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

#if CUDA_VERSION >= 12080
CUresult cuStreamGetDevice(CUstream handle, CUdevice *device)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    if (device)
        *device = s->context->device->ordinal;
    sgd_leave();
    return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

/* Capture is not offered, so no stream is ever captured. */
CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    struct sgd_stream *s;
    CUresult r = enter_stream(handle, &s);
    if (r)
        return r;
    if (status)
        *status = CU_STREAM_CAPTURE_STATUS_NONE;
    sgd_leave();
    return status ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = own;
    own = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
