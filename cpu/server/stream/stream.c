/*
 * stream.c: streams, and the order in which their operations reach the driver.
 *
 * An operation is given to the driver as soon as it is received, unless its turn has not come: because the stream
 * has SESSION_STREAM_CAP operations inside the driver already (a launch would block), because earlier operations of
 * the stream are waiting, because it waits for an event whose recording is still waiting elsewhere, or because its
 * function is being loaded. Then it is kept in its stream's list, and tried again when what it waits for may have come
 * (deferred.c).
 *
 * The legacy default stream is ordered with all blocking streams of its context. Where operations wait, their place
 * in the session's sequence (order) keeps that: a legacy operation passes only when no earlier operation of a
 * blocking stream waits, and the other way round. A synchronisation of a blocking stream is no work: it passes.
 *
 * So that no call costs more where there are many streams, each context keeps a list of those that may have work. A
 * stream is entered when a call comes; whether its work is over is looked at when somebody asks, and for two others
 * whenever one is entered.
 *
 * A synchronisation records its event when it is asked for. Between the legacy stream and the blocking ones an event
 * that is recorded so late would wait for work that the program gave the other side meanwhile, and hold up what it
 * gives that side next. So a side gets a marker behind its work before the other side is given more: `unmarked` lists
 * the blocking streams that have none.
 */
#include "cpu/server/session.h"
#include "cpu/server/stream/host_function.h"

#include <stdlib.h>

#include "cpu/common/lock.h"
#include "cpu/server/code/code.h"
#include "cpu/server/lanes/lanes.h"
#include "cpu/server/stream/late.h"
#include "cpu/server/code/settings.h"
#include "cpu/server/code/texref.h"

/* ---- life ---- */

static struct stream *stream_make(struct context *context, uint32_t id, unsigned flags)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->references = 1;
    stream->id = id;
    stream->context = context;
    stream->flags = flags;
    stream->last = &stream->first;
    stream->slots_last = &stream->slots;
    context_hold(context);
    list_append(&context->streams, &stream->of_context);
    return stream;
}

static struct stream *stream_new(struct session *session, struct context *context, uint32_t id, unsigned flags)
{
    struct stream *stream = stream_make(context, id, flags);
    if (!stream || id_map_set(session->ids[KIND_STREAM], id, stream) == 0)
        return stream;
    list_remove(&stream->of_context);
    stream_drop(session, stream);
    return NULL;
}

/* It must not wait for the legacy stream: a condition in that waits for it. */
static struct stream *stream_inner_new(struct session *session, struct context *context, CUresult *result)
{
    CUstream handle;
    *result = context_use(session, context);
    if (*result == CUDA_SUCCESS)
        *result = session->gpu->StreamCreateWithPriority(&handle, CU_STREAM_NON_BLOCKING, 0);
    if (*result != CUDA_SUCCESS)
        return NULL;
    struct stream *stream = stream_make(context, FLYT_GRAPH_STREAM, CU_STREAM_NON_BLOCKING);
    if (!stream) {
        session->gpu->StreamDestroy(handle);
        *result = CUDA_ERROR_OUT_OF_MEMORY;
        return NULL;
    }
    stream->handle = handle;
    stream->inner = true;
    stream_hold(stream);
    *result = gate_seen_take(session, stream);
    if (*result == CUDA_SUCCESS)
        return stream;
    stream_inner_give(session, stream);
    return NULL;
}

struct stream *stream_inner_take(struct session *session, struct context *context, CUresult *result)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct stream *stream = context->inner_spare;
    if (!stream)
        return stream_inner_new(session, context, result);
    context->inner_spare = stream->next_spare;
    *result = gate_seen_take(session, stream);
    if (*result == CUDA_SUCCESS)
        return stream;
    stream_inner_give(session, stream);
    return NULL;
}

void stream_inner_give(struct session *session, struct stream *stream)
{
    FLYT_ASSERT_HELD(&session->lock);
    if (stream->dead) {                                /* with its context */
        stream_drop(session, stream);
        return;
    }
    stream->next_spare = stream->context->inner_spare;
    stream->context->inner_spare = stream;
}

/* It has the context's id, and goes on with the numbers of the last one of that id. */
CUresult stream_create_legacy(struct session *session, struct context *context)
{
    uint64_t received = session->legacy_received[context->id];
    struct stream *legacy = stream_new(session, context, context->id, CU_STREAM_DEFAULT);
    if (!legacy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    legacy->handle = CU_STREAM_LEGACY;
    legacy->received = legacy->issued = legacy->marked = received;
    atomic_store(&legacy->done, received);
    context->legacy = legacy;
    if (received)
        report_progress(session, legacy);             /* calls that came while there was no context have passed, too */
    return CUDA_SUCCESS;
}

struct stream *server_stream_find(struct session *session, uint32_t id)
{
    return id_map_find(session->ids[KIND_STREAM], id);
}

CUresult stream_missing(uint32_t id)
{
    return id < FLYT_MAX_CONTEXTS ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
}

static bool stream_blocking(const struct stream *stream) { return !(stream->flags & CU_STREAM_NON_BLOCKING); }

/* ---- who may have work ---- */

static bool stream_idle(const struct stream *stream)
{
    return !stream->first && atomic_load(&stream->done) >= stream->received;
}

static void stream_not_busy(struct session *session, struct stream *stream)
{
    if (!list_linked(&stream->busy))
        return;
    list_remove(&stream->busy);
    stream_drop(session, stream);
}

static void stream_may_be_busy(struct session *session, struct stream *stream)
{
    struct list *busy = &stream->context->busy[stream_blocking(stream)];
    struct list *link;
    if (list_linked(&stream->busy))
        return;
    for (int i = 0; i < 2 && (link = list_first(busy)); i++) {
        struct stream *other = LIST_OBJECT(link, struct stream, busy);
        if (stream_idle(other)) {
            stream_not_busy(session, other);
        } else {
            list_remove(link);
            list_append(busy, link);
        }
    }
    stream_hold(stream);
    list_append(busy, &stream->busy);
}

struct stream *stream_busy(struct session *session, struct context *context, bool blocking, const struct stream *behind)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct list *busy = &context->busy[blocking];
    for (;;) {
        struct list *link = behind ? list_next(busy, &behind->busy) : list_first(busy);
        struct stream *stream = LIST_OBJECT(link, struct stream, busy);
        if (!stream || !stream_idle(stream))
            return stream;
        stream_not_busy(session, stream);
    }
}

/* ---- markers ---- */

CUresult stream_mark(struct session *session, struct stream *stream)
{
    FLYT_ASSERT_HELD(&session->lock);
    return stream->marked >= stream->issued ? CUDA_SUCCESS : stream_mark_again(session, stream, NULL);
}

CUresult stream_mark_again(struct session *session, struct stream *stream, uint64_t *serial)
{
    CUresult r = context_use(session, stream->context);
    if (r != CUDA_SUCCESS)
        return r;
    CUevent event;
    r = completion_event(session, stream->context, &event);
    if (r != CUDA_SUCCESS)
        return r;
    r = session->gpu->EventRecord(event, stream->handle);
    if (r == CUDA_SUCCESS)
        r = completion_mark(session, stream, event, NULL, stream->issued, serial);
    if (r != CUDA_SUCCESS) {
        completion_event_back(session, stream->context, event);
        report_note(session, r);
        return r;
    }
    stream->marked = stream->issued;
    return CUDA_SUCCESS;
}

static bool stream_lacks_marker(const struct stream *stream)
{
    return stream->marked < stream->issued && atomic_load(&stream->done) < stream->issued;
}

/* The stream is about to be given work that waits for the other side. */
static void stream_mark_before(struct session *session, struct stream *stream)
{
    struct context *context = stream->context;
    if (stream_ordered(stream)) {
        if (stream_lacks_marker(context->legacy))
            stream_mark(session, context->legacy);
        if (!list_linked(&stream->unmarked) && stream->handle) /* none: it has ended, and is in no list any more */
            list_append(&context->unmarked, &stream->unmarked);
    } else if (stream == context->legacy) {
        for (struct list *link; (link = list_first(&context->unmarked)); list_remove(link)) {
            struct stream *other = LIST_OBJECT(link, struct stream, unmarked);
            if (stream_lacks_marker(other))
                stream_mark(session, other);
        }
    }
}

/* ---- order ---- */

/* Streams whose last operations have no marker behind them are counted as if those were still inside. */
static void stream_mark_some(struct session *session, struct context *context)
{
    enum { LOOKS = 16 };
    for (int blocking = 0; blocking < 2; blocking++) {
        struct list *busy = &context->busy[blocking], *link;
        for (unsigned looks = 0; looks < LOOKS && (link = list_first(busy)); looks++) {
            struct stream *other = LIST_OBJECT(link, struct stream, busy);
            if (stream_lacks_marker(other))
                stream_mark(session, other);
            list_remove(link);
            list_append(busy, link);
        }
    }
}

/* Looks whether any of what fills the driver is complete. False: not enough of it, and the call waits. */
static __attribute__((noinline, cold)) bool stream_makes_room(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    stream_mark(session, stream);
    stream_mark_some(session, stream->context);
    completion_poll(session, stream);
    if (!crowd_full(session, stream))
        return true;
    call->wants = &session->crowded;
    return false;
}

/* A stream takes half as many operations of a kind that the driver counts twice. */
static bool stream_full(const struct stream *stream, const struct call *call)
{
    unsigned most = call->operation->twofold ? SESSION_STREAM_CAP / 2 : SESSION_STREAM_CAP;
    return stream->issued - atomic_load(&stream->done) >= most;
}

/* Has the call's turn come, as far as is known without the driver? */
static bool stream_ready(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    if (stream_full(stream, call) && call->operation->numbered) {
        stream_mark(session, stream);
        completion_poll(session, stream);
        if (stream_full(stream, call))
            return false;
    }
    if (crowd_full(session, stream) && call->operation->numbered && !stream_makes_room(session, call))
        return false;
    /* what stands behind STREAM_DESTROY asks for the stream's end, and this list is not looked at again */
    if (stream->dead && !stream->handle)
        return true;
    /* A synchronisation is no work: that of a blocking stream waits for no work of the legacy stream which waits. */
    if ((call->operation->numbered || stream == stream->context->legacy) && deferred_before(stream, call->order))
        return false;
    if (call->record && call->record->recorded && !call->record->issued && call->record->stream != stream) {
        call->wants = &call->record->parked;
        return false;
    }
    if (call->function && !function_settled(call->function)) {
        call->wants = &call->function->parked;
        return false;
    }
    return true;
}

/* Its turn has come, and its context cannot be made current: a fault has ended it. */
static int stream_issue_nowhere(struct session *session, struct call *call, CUresult r)
{
    if (!call->operation->dropped)
        return (int)r;
    call->operation->dropped(session, call, r);
    if (call->operation->numbered)
        call->stream->issued = call->number;
    if (!call->procedure->answers)
        report_latch(session, r);
    return CUDA_SUCCESS;
}

/* Gives it to the driver. False: later. */
static bool stream_issue_now(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    CUresult r = context_use(session, stream->context);
    if (r == CUDA_SUCCESS)
        stream_mark_before(session, stream);
    int result =
        r == CUDA_SUCCESS ? call->operation->issue(session, call) : stream_issue_nowhere(session, call, r);
    if (result == OPERATION_LATER)
        return false;
    if (call->operation->numbered && !call->operation->own_number)
        stream->issued = call->number;
    if (call->operation->numbered)
        crowd_enter(session, stream, call);
    if (result != CUDA_SUCCESS)
        call_fail(session, call, (CUresult)result);
    if (stream->issued - stream->marked >= SESSION_MARK_EVERY)
        stream_mark(session, stream);
    return true;
}

/* Issues a call so that the pulse sees it: the driver may take its time, and then something has been done. */
static bool stream_issue(struct session *session, struct call *call)
{
    executor_driver_enter(session);
    bool issued = stream_issue_now(session, call);
    executor_driver_leave(session);
    executor_moved(session);
    return issued;
}

/* What the call referred to. */
static void stream_call_done(struct session *session, struct call *call)
{
    if (__builtin_expect(call->settings != NULL, 0))
        settings_drop(call->settings);
    call->settings = NULL;
    if (__builtin_expect(call->bindings != NULL, 0))
        texref_bindings_drop(call->bindings); /* before the function: they refer to its module */
    call->bindings = NULL;
    if (call->function)
        function_drop(session, call->function);
    if (call->record) {
        if (call->record->stream == call->stream && !call->record->issued)
            record_issued(session, call->record);     /* dropped before it was issued */
        executor_driver_enter(session);               /* it may be the last to refer to an event */
        record_drop(call->record);
        executor_driver_leave(session);
    }
    if (call->transfer)
        lanes_discard(session, call->transfer, call->transfer_size);
    call->transfer = 0;
    call->function = NULL;
    call->record = NULL;
    if (!call->number)                                /* it has not come by server_stream_enter */
        stream_drop(session, call->stream);
    call->stream = NULL;
}

static int operation_nothing(struct session *session, struct call *call)
{
    (void)session;
    (void)call;
    return CUDA_SUCCESS;
}
static const struct operation nothing = { .issue = operation_nothing, .numbered = true };

static void stream_defer(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    struct call *kept = call_keep(call);
    if (!kept) {
        /* Its place in the order is lost with it; nothing that follows in this stream would be right. */
        session_end(session, "no memory left for a waiting operation");
        stream_call_done(session, call);
        return;
    }
    bool head = !stream->first;
    *stream->last = kept;
    stream->last = &kept->next;
    session->executor.deferred_calls++;
    session->executor.deferred_bytes += kept->bytes;
    /* What it waits for may have come just before it was counted, when nobody had a reason to kick. */
    if (head) {
        deferred_begin(session, stream);
        executor_kick(session);
    }
}

/* Not inline: the way of every operation stays short. */
static __attribute__((noinline, cold)) struct stream *stream_enter_none(struct session *session, struct call *call,
                                                                        uint32_t id)
{
    if (id < FLYT_MAX_CONTEXTS)
        session->legacy_received[id]++;
    call_fail(session, call, stream_missing(id));
    return NULL;
}

/* The call needs no reference to the stream: STREAM_DESTROY gives the last one back, and its turn comes after this
 * call's. */
struct stream *server_stream_enter(struct session *session, struct call *call, uint32_t id)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct stream *stream = call->stream;
    if (__builtin_expect(!stream, 1))
        stream = id_map_find(session->ids[KIND_STREAM], id);
    if (!stream)
        return stream_enter_none(session, call, id);
    call->number = ++stream->received;
    call->order = ++session->order;
    call->stream = stream;
    stream_may_be_busy(session, stream);
    return stream;
}

void server_stream_submit(struct session *session, struct call *call, const struct operation *operation)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct stream *stream = call->stream;
    call->operation = operation;
    if (stream->first || !stream_ready(session, call) || !stream_issue(session, call)) {
        stream_defer(session, call);
        return;
    }
    stream_call_done(session, call);
}

void stream_refuse(struct session *session, struct call *call, CUresult code)
{
    FLYT_ASSERT_HELD(&session->lock);
    call_fail(session, call, code);
    struct stream *stream = call->stream;
    if (!stream->first) {
        stream->issued = call->number;
        stream_call_done(session, call);
        return;
    }
    settings_drop(call->settings);
    call->settings = NULL;
    if (call->function)
        function_drop(session, call->function);
    call->function = NULL;
    record_drop(call->record);
    call->record = NULL;
    server_stream_submit(session, call, &nothing);
}

/* The first of the stream's waiting calls goes out of the list. */
static struct call *stream_take_first(struct session *session, struct stream *stream)
{
    struct call *call = stream->first;
    stream->first = call->next;
    if (!stream->first)
        stream->last = &stream->first;
    deferred_moved(session, stream, call->order);
    session->executor.deferred_calls--;
    session->executor.deferred_bytes -= call->bytes;
    return call;
}

bool stream_issue_first(struct session *session, struct stream *stream)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct call *call = stream->first;
    call->wants = NULL;
    if (!stream_ready(session, call))
        return false;
    if (!stream_issue(session, call)) {
        if (!call->wants)
            call->wants = &session->starved;
        return false;
    }
    stream_take_first(session, stream);
    stream_call_done(session, call);
    call_free(call);
    return true;
}

/* ---- the calls ---- */

void serve_stream_create(struct session *session, struct call *call)
{
    const stream_create_args *args = &call->args.stream_create;
    struct context *context = context_find(session, args->context);
    CUstream handle = NULL;
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && (args->stream < FLYT_FIRST_STREAM || (args->flags & ~(unsigned)CU_STREAM_NON_BLOCKING)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = session->gpu->StreamCreateWithPriority(&handle, args->flags, args->priority);
    if (r == CUDA_SUCCESS) {
        struct stream *stream = stream_new(session, context, args->stream, args->flags);
        if (stream) {
            stream->handle = handle;
            return;
        }
        session->gpu->StreamDestroy(handle);
        r = CUDA_ERROR_INVALID_VALUE;
    }
    call_fail(session, call, r);
}

/* After everything before it has been issued. The driver finishes the stream's work by itself; a marker set first
   keeps staging memory from being used again before. */
static int stream_destroy_issue(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    stream_mark(session, stream);
    list_remove(&stream->of_context);
    list_remove(&stream->holding);
    list_remove(&stream->unmarked);
    CUresult r = session->gpu->StreamDestroy(stream->handle);
    stream->handle = NULL;
    if (stream_idle(stream))
        stream_not_busy(session, stream);
    stream_drop(session, stream);
    return (int)r;
}
static const struct operation stream_destroy_operation = { .issue = stream_destroy_issue };

void serve_stream_destroy(struct session *session, struct call *call)
{
    struct stream *stream = server_stream_find(session, call->args.stream.stream);
    if (!stream || stream == stream->context->legacy) {
        call_fail(session, call, CUDA_ERROR_INVALID_HANDLE);
        return;
    }
    id_map_remove(session->ids[KIND_STREAM], stream->id);
    stream->dead = true;
    report_forget(session, stream);
    call->stream = stream;
    call->order = ++session->order;
    stream_hold(stream);
    server_stream_submit(session, call, &stream_destroy_operation);
}

bool stream_others_busy(struct session *session, const struct stream *legacy)
{
    struct stream *first = stream_busy(session, legacy->context, true, NULL);
    return first && (first != legacy || stream_busy(session, legacy->context, true, legacy));
}

/* For a client that looks where completed numbers are published: the end must be noticed without it. No marker is put
   into a legacy stream that has blocking streams to wait for. */
static void stream_watch(struct session *session, struct stream *stream)
{
    if (!session->report.numbers || stream->marked >= stream->issued)
        return;
    if (stream == stream->context->legacy && stream_others_busy(session, stream))
        return;
    if (stream_mark(session, stream) == CUDA_SUCCESS)
        completion_rouse(session);
}

void serve_stream_query(struct session *session, struct call *call)
{
    struct stream *stream = server_stream_find(session, call->args.stream.stream);
    CUresult r = stream_missing(call->args.stream.stream);
    if (stream) {
        r = stream->first ? CUDA_ERROR_NOT_READY : context_use(session, stream->context);
        if (r == CUDA_SUCCESS)
            r = session->gpu->StreamQuery(stream->handle);
        if (r == CUDA_SUCCESS)
            completion_advance(session, stream, stream->issued);
        else if (r == CUDA_ERROR_NOT_READY && !stream->first)
            stream_watch(session, stream);
    }
    session_reply_plain(session, call->xid, r, false);
}

static int stream_wait_issue(struct session *session, struct call *call)
{
    if (atomic_load(&call->record->context->ended))       /* with all work in it */
        return CUDA_SUCCESS;
    return (int)session->gpu->StreamWaitEvent(call->stream->handle, call->record->event, call->args.event_wait.flags);
}
static const struct operation stream_wait_operation = { .issue = stream_wait_issue, .numbered = true };

void serve_stream_wait(struct session *session, struct call *call)
{
    struct event *event = id_map_find(session->ids[KIND_EVENT], call->args.event_wait.event);
    if (!server_stream_enter(session, call, call->args.event_wait.stream))
        return;
    if (!event) {
        stream_refuse(session, call, CUDA_ERROR_INVALID_HANDLE);
        return;
    }
    call->record = event->record;
    record_hold(call->record);
    server_stream_submit(session, call, &stream_wait_operation);
}

/* ---- the end of a context's streams ---- */

static void stream_drop_calls(struct session *session, struct stream *stream, CUresult code)
{
    while (stream->first) {
        struct call *call = stream_take_first(session, stream);
        if (call->operation->dropped)
            call->operation->dropped(session, call, code);
        else if (call->procedure->answers)
            call_fail(session, call, code);
        stream_call_done(session, call);
        call_free(call);
    }
    stream->issued = stream->marked = stream->received;
}

void streams_drop_all(struct session *session, struct context *context)
{
    const CUresult code = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (context->legacy)
        session->legacy_received[context->id] = context->legacy->received;
    for (struct list *link = list_first(&context->streams); link; link = list_next(&context->streams, link))
        stream_drop_calls(session, LIST_OBJECT(link, struct stream, of_context), code);
    late_drop_all(session, context);
    completion_abort(session, context, code);
    for (int i = 0; i < 2; i++)
        for (struct list *link; (link = list_first(&context->busy[i]));)
            stream_not_busy(session, LIST_OBJECT(link, struct stream, busy));
    for (struct stream *spare; (spare = context->inner_spare);) {
        context->inner_spare = spare->next_spare;
        stream_drop(session, spare);
    }
    struct list *next;
    for (struct list *link = list_first(&context->streams); link; link = next) {
        struct stream *stream = LIST_OBJECT(link, struct stream, of_context);
        next = list_next(&context->streams, link);
        stream->gate = stream->seen = NULL;
        if (stream->handle && stream != context->legacy)
            session->gpu->StreamDestroy(stream->handle);
        if (!stream->dead && !stream->inner)
            id_map_remove(session->ids[KIND_STREAM], stream->id);
        stream->dead = true;
        /* the numbers of the legacy stream count on, and are still to be reported */
        if (stream != context->legacy && !stream->inner)
            report_forget(session, stream);
        list_remove(link);
        list_remove(&stream->holding);
        list_remove(&stream->unmarked);
        stream_drop(session, stream);
    }
    context->legacy = NULL;
}

void streams_free(struct session *session)
{
    report_stop(session);
    for (struct stream *stream; (stream = completion_progressed(session));)
        stream_drop(session, stream);
}
