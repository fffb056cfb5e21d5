/* event.c: an event is (stream, number of the record operation). CUDA reference: Event Management. */
#include "softgpu/driver/calls/calls.h"

#include <stdlib.h>

static CUresult enter_event(CUevent handle, struct sgd_event **e)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    *e = sgd_handle_get(SGD_EVENT, handle);
    if (*e)
        return CUDA_SUCCESS;
    sgd_leave();
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    struct sgd_event *e = NULL;
    if (!out || flags & ~known || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (flags & CU_EVENT_INTERPROCESS)
        r = CUDA_ERROR_NOT_SUPPORTED;
    else if (!(e = calloc(1, sizeof *e)) || !(e->handle = sgd_handle_new(SGD_EVENT, e)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r) {
        free(e);
        sgd_leave();
        return r;
    }
    e->refs = 1;
    e->flags = flags;
    e->context = c;
    e->next = c->events;
    e->back = &c->events;
    if (e->next)
        e->next->back = &e->next;
    c->events = e;
    *out = e->handle;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle)
{
    struct sgd_event *e;
    CUresult r = enter_event(handle, &e);
    if (r)
        return r;
    sgd_event_retire(e);
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream, unsigned flags)
{
    struct sgd_context *c;
    struct sgd_stream *s;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    struct sgd_event *e = sgd_handle_get(SGD_EVENT, handle);
    if (flags & ~1u)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!e)
        r = CUDA_ERROR_INVALID_HANDLE;
    else
        r = sgd_stream_find(stream, c, &s);
    if (!r && s->context != e->context)
        r = CUDA_ERROR_INVALID_HANDLE;
    struct sgd_op *op = r ? NULL : sgd_op_new(SGD_OP_RECORD);
    if (!r && !op)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) {
        op->event = e;
        e->refs++;
        r = sgd_queue_push(s, op, NULL);
    }
    sgd_leave();
    return r;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) { return cuEventRecordWithFlags(handle, stream, 0); }

CUresult cuEventQuery(CUevent handle)
{
    struct sgd_event *e;
    CUresult r = enter_event(handle, &e);
    if (r)
        return r;
    if (e->stream && !sgd_stream_done(e->stream, e->number))
        r = CUDA_ERROR_NOT_READY;
    sgd_leave();
    return r;
}

CUresult cuEventSynchronize(CUevent handle)
{
    struct sgd_event *e;
    CUresult r = enter_event(handle, &e);
    if (r)
        return r;
    struct sgd_context *c = e->context;
    sgd_context_hold(c);
    if (e->stream)
        r = sgd_stream_wait(e->stream, e->number);
    sgd_context_flush(c);
    sgd_leave();
    return r;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    const struct sgd_event *a = sgd_handle_get(SGD_EVENT, start), *b = sgd_handle_get(SGD_EVENT, end);
    if (!milliseconds)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!a || !b || !a->stream || !b->stream || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) ||
             a->context != b->context)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (!sgd_stream_done(a->stream, a->number) || !sgd_stream_done(b->stream, b->number))
        r = CUDA_ERROR_NOT_READY;
    else
        *milliseconds = (float)((double)(int64_t)(b->time - a->time) / 1e6);
    sgd_leave();
    return r;
}

#if CUDA_VERSION >= 12080
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime(milliseconds, start, end);
}
#endif
