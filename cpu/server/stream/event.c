/*
 * event.c: events. The client's event is an object of ours; behind it stands one driver event per recording that
 * somebody still refers to (struct record), mostly one in all. It is made for blocking waits: see long_wait.c.
 */
#include "cpu/server/code/forward.h"

#include <stdlib.h>

static struct record *record_new(struct session *session, struct context *context, unsigned flags, CUresult *r)
{
    struct record *record = calloc(1, sizeof *record);
    *r = CUDA_ERROR_OUT_OF_MEMORY;
    if (!record)
        return NULL;
    executor_driver_enter(session);
    *r = context_use(session, context);
    if (*r == CUDA_SUCCESS)
        *r = session->gpu->EventCreate(&record->event, flags | CU_EVENT_BLOCKING_SYNC);
    executor_driver_leave(session);
    if (*r != CUDA_SUCCESS) {
        free(record);
        return NULL;
    }
    record->references = 1;
    record->session = session;
    record->context = context;
    context_hold(context);
    return record;
}

static struct event *event_find(struct session *session, uint32_t id)
{
    return id_map_find(session->ids[KIND_EVENT], id);
}

void serve_event_create(struct session *session, struct call *call)
{
    const event_create_args *args = &call->args.event_create;
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    struct context *context = context_find(session, args->context);
    CUresult r = !context                 ? CUDA_ERROR_INVALID_CONTEXT
                 : (args->flags & ~known) ? CUDA_ERROR_INVALID_VALUE
                                          : CUDA_SUCCESS;
    struct event *event = NULL;
    if (r == CUDA_SUCCESS) {
        event = calloc(1, sizeof *event);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (event) {
        event->context = context;
        event->flags = args->flags;
        event->record = record_new(session, context, args->flags, &r);
        if (event->record && id_map_set(session->ids[KIND_EVENT], args->event, event) != 0)
            r = CUDA_ERROR_INVALID_VALUE;
    }
    if (r == CUDA_SUCCESS)
        return;
    if (event)
        record_drop(event->record);
    free(event);
    call_fail(session, call, r);
}

void serve_event_destroy(struct session *session, struct call *call)
{
    struct event *event = id_map_remove(session->ids[KIND_EVENT], call->args.event.event);
    if (!event) {
        call_fail(session, call, CUDA_ERROR_INVALID_HANDLE);
        return;
    }
    executor_driver_enter(session);
    record_drop(event->record);
    executor_driver_leave(session);
    free(event);
}

/* ---- recording ---- */

static int event_record_issue(struct session *session, struct call *call)
{
    struct record *record = call->record;
    unsigned flags = call->args.event_record.flags;
    CUresult r = flags && session->gpu->EventRecordWithFlags
                     ? session->gpu->EventRecordWithFlags(record->event, call->stream->handle, flags)
                     : session->gpu->EventRecord(record->event, call->stream->handle);
    record_issued(session, record);
    if (r == CUDA_SUCCESS && record->wanted) {
        record->wanted = false;
        r = completion_mark(session, record->stream, record->event, record, record->number, NULL);
    }
    return (int)r;
}
static const struct operation event_record_operation = { .issue = event_record_issue, .numbered = true };

void serve_event_record(struct session *session, struct call *call)
{
    const event_record_args *args = &call->args.event_record;
    struct event *event = event_find(session, args->event);
    struct stream *stream = server_stream_enter(session, call, args->stream);
    if (!stream)
        return;
    CUresult r = !event ? CUDA_ERROR_INVALID_HANDLE
                 : event->context != stream->context ? CUDA_ERROR_INVALID_HANDLE
                 : args->flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && atomic_load(&event->record->references) > 1) {
        struct record *record = record_new(session, event->context, event->flags, &r);
        if (record) {
            record_drop(event->record);
            event->record = record;
        }
    }
    if (r != CUDA_SUCCESS) {
        stream_refuse(session, call, r);
        return;
    }
    struct record *record = event->record;
    stream_hold(stream);
    stream_drop(session, record->stream);
    record->stream = stream;
    record->number = call->number;
    record->recorded = true;
    record->issued = false;
    record->wanted = false;
    record->watched = false;
    call->record = record;
    record_hold(record);
    server_stream_submit(session, call, &event_record_operation);
}

/* ---- asking ---- */

/* A client that polls looks where completed numbers are published, and asks only now and then: the end must be noticed
   without it. */
static void event_watch(struct session *session, struct record *record)
{
    if (!session->report.numbers || record->watched)
        return;
    record->watched = true;
    if (!record->issued) {
        record->wanted = true;
        return;
    }
    if (completion_mark(session, record->stream, record->event, record, record->number, NULL) == CUDA_SUCCESS)
        completion_rouse(session);
}

struct event_waiter { struct waiter waiter; struct record *record; uint32_t xid; };

static void event_finish(struct session *session, struct waiter *waiter)
{
    struct event_waiter *wait = (struct event_waiter *)waiter;
    session_reply_plain(session, wait->xid, waiter->result, true);
    record_drop(wait->record);
    free(wait);
}

void serve_event_sync(struct session *session, struct call *call)
{
    struct event *event = event_find(session, call->args.event.event);
    CUresult r = event ? context_use(session, event->context) : CUDA_ERROR_INVALID_HANDLE;
    struct record *record = event ? event->record : NULL;
    if (r == CUDA_SUCCESS && record->recorded) {
        r = record->issued ? session->gpu->EventQuery(record->event) : CUDA_ERROR_NOT_READY;
        if (r == CUDA_SUCCESS) {
            r = session->gpu->EventSynchronize(record->event);    /* complete: makes the driver print */
            completion_advance(session, record->stream, record->number);
        }
    }
    struct event_waiter *wait = r == CUDA_ERROR_NOT_READY ? malloc(sizeof *wait) : NULL;
    if (!wait) {
        session_reply_plain(session, call->xid, r == CUDA_ERROR_NOT_READY ? CUDA_ERROR_OUT_OF_MEMORY : r, true);
        return;
    }
    if (!record->issued)
        record->wanted = true;
    else
        r = completion_mark(session, record->stream, record->event, record, record->number, NULL);
    if (r != CUDA_ERROR_NOT_READY && r != CUDA_SUCCESS) {
        free(wait);
        call_fail(session, call, r);
        return;
    }
    *wait = (struct event_waiter){ .waiter = { .number = record->number, .speaks = true, .finish = event_finish },
                                   .record = record, .xid = call->xid };
    record_hold(record);
    completion_wait(session, record->stream, &wait->waiter);
}

void serve_event_query(struct session *session, struct call *call)
{
    struct event *event = event_find(session, call->args.event.event);
    CUresult r = event ? context_use(session, event->context) : CUDA_ERROR_INVALID_HANDLE;
    struct record *record = event ? event->record : NULL;
    if (r == CUDA_SUCCESS && record->recorded) {
        r = record->issued ? session->gpu->EventQuery(record->event) : CUDA_ERROR_NOT_READY;
        if (r == CUDA_SUCCESS)
            completion_advance(session, record->stream, record->number);
        else if (r == CUDA_ERROR_NOT_READY)
            event_watch(session, record);
    }
    session_reply_plain(session, call->xid, r, false);
}

CUresult server_find_event(struct session *session, uint32_t id, CUevent *handle)
{
    const struct event *event = event_find(session, id);
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->record->recorded && !event->record->issued)
        return CUDA_ERROR_NOT_READY;
    *handle = event->record->event;
    return context_use(session, event->context);
}

/* ---- the end ---- */

struct drop_events { struct session *session; struct context *context; };

static void event_drop_one(uint32_t id, void *object, void *context)
{
    struct drop_events *drop = context;
    struct event *event = object;
    if (event->context != drop->context)
        return;
    id_map_remove(drop->session->ids[KIND_EVENT], id);
    record_drop(event->record);
    free(event);
}

void events_drop_all(struct session *session, struct context *context)
{
    struct drop_events drop = { session, context };
    id_map_each(session->ids[KIND_EVENT], event_drop_one, &drop);
}
