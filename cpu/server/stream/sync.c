/*
 * sync.c: synchronisation of a stream and of a context. See stream.c on markers.
 *
 * What is complete already is answered at once, after a synchronisation of the driver's own that cannot block then
 * and that makes it print what kernels left. Otherwise a marker is set and the completion thread answers.
 */
#include "cpu/server/session.h"

#include <stdlib.h>

/* A wait that several streams must end: CONTEXT_SYNC, and the legacy stream behind blocking ones. */
struct group {
    _Atomic unsigned pending;
    _Atomic int result;
    uint32_t xid;
};

/* One of the group's parts has come to its end; the last one answers the call. Any thread. */
static void group_part(struct session *session, struct group *group, CUresult r)
{
    int none = CUDA_SUCCESS;
    if (r != CUDA_SUCCESS)
        atomic_compare_exchange_strong(&group->result, &none, (int)r);
    if (atomic_fetch_sub(&group->pending, 1) != 1)
        return;
    session_reply_plain(session, group->xid, (CUresult)atomic_load(&group->result), true);
    free(group);
}

struct group_waiter { struct waiter waiter; struct stream *stream; struct group *group; };

static void group_finish(struct session *session, struct waiter *waiter)
{
    struct group_waiter *part = (struct group_waiter *)waiter;
    group_part(session, part->group, waiter->result);
    stream_drop(session, part->stream);
    free(part);
}

/* Waits for what has been issued into the stream; a marker stands there. */
static void group_wait(struct session *session, struct group *group, struct stream *stream)
{
    struct group_waiter *part = malloc(sizeof *part);
    if (!part) {
        group_part(session, group, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    *part = (struct group_waiter){ .waiter = { .number = stream->issued, .speaks = true, .finish = group_finish },
                                   .stream = stream, .group = group };
    stream_hold(stream);
    completion_wait(session, stream, &part->waiter);
}

/* One stream's part, when its turn has come. */
static int group_issue(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    /* STREAM_DESTROY went before and set a marker; no handle would be the legacy stream */
    if (stream->dead && !stream->handle) {
        if (atomic_load(&stream->done) < stream->issued && stream->marked == stream->issued)
            group_wait(session, call->group, stream);
        else
            group_part(session, call->group, CUDA_SUCCESS);
        return CUDA_SUCCESS;
    }
    CUresult r = session->gpu->StreamQuery(stream->handle);
    if (r == CUDA_SUCCESS) {
        r = session->gpu->StreamSynchronize(stream->handle);      /* idle: makes the driver print */
        completion_advance(session, stream, stream->issued);
        group_part(session, call->group, r);
        return CUDA_SUCCESS;
    }
    if (r == CUDA_ERROR_NOT_READY)
        r = stream_mark(session, stream);
    if (r == CUDA_SUCCESS)
        group_wait(session, call->group, stream);
    else
        group_part(session, call->group, r);
    return CUDA_SUCCESS;
}

static void group_dropped(struct session *session, struct call *call, CUresult r)
{
    group_part(session, call->group, r);
}

static const struct operation group_operation = { .issue = group_issue, .dropped = group_dropped };

/* A part for each stream of the context that may have work: all, or the blocking ones. The call is answered by the
   last part. 1 + parts are pending until the end of this function. */
static void group_start(struct session *session, struct context *context, uint32_t xid,
                        const struct procedure *procedure, bool only_blocking)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group) {
        session_reply_plain(session, xid, CUDA_ERROR_OUT_OF_MEMORY, false);
        return;
    }
    group->pending = 1;
    group->xid = xid;
    for (int blocking = only_blocking; blocking < 2; blocking++) {
        struct stream *next;
        for (struct stream *stream = stream_busy(session, context, blocking, NULL); stream; stream = next) {
            next = stream_busy(session, context, blocking, stream);
            struct call part = { .procedure = procedure, .xid = xid, .group = group, .stream = stream,
                                 .order = ++session->order };
            stream_hold(stream);
            atomic_fetch_add(&group->pending, 1);
            server_stream_submit(session, &part, &group_operation);
        }
    }
    group_part(session, group, CUDA_SUCCESS);
}

void serve_context_sync(struct session *session, struct call *call)
{
    struct context *context = context_find(session, call->args.context.context);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r != CUDA_SUCCESS) {
        call_fail(session, call, r);
        return;
    }
    bool busy = stream_busy(session, context, false, NULL) || stream_busy(session, context, true, NULL);
    if (!busy && atomic_load(&session->completion.watching) == 0) {
        completion_settle(session);
        /* idle: prints, and reports */
        session_reply_plain(session, call->xid, session->gpu->CtxSynchronize(), true);
        return;
    }
    group_start(session, context, call->xid, call->procedure, false);
}

/* ---- one stream ---- */

struct sync_waiter { struct waiter waiter; struct stream *stream; uint32_t xid; };

static void sync_finish(struct session *session, struct waiter *waiter)
{
    struct sync_waiter *sync = (struct sync_waiter *)waiter;
    session_reply_plain(session, sync->xid, waiter->result, true);
    stream_drop(session, sync->stream);
    free(sync);
}

static int stream_sync_issue(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    CUresult r = session->gpu->StreamQuery(stream->handle);
    if (r == CUDA_SUCCESS) {
        r = session->gpu->StreamSynchronize(stream->handle);      /* idle: makes the driver print */
        completion_advance(session, stream, stream->issued);
        session_reply_plain(session, call->xid, r, true);
        return CUDA_SUCCESS;
    }
    if (r != CUDA_ERROR_NOT_READY)
        return (int)r;
    /* The legacy stream stands behind the blocking ones, also where these were given work after its own last. */
    if (stream == stream->context->legacy &&
        (atomic_load(&stream->done) >= stream->issued || stream_others_busy(session, stream))) {
        group_start(session, stream->context, call->xid, call->procedure, true);
        return CUDA_SUCCESS;
    }
    struct sync_waiter *sync = malloc(sizeof *sync);
    if (!sync)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = stream_mark(session, stream);
    if (r != CUDA_SUCCESS) {
        free(sync);
        return (int)r;
    }
    *sync = (struct sync_waiter){ .waiter = { .number = stream->issued, .speaks = true, .finish = sync_finish },
                                  .stream = stream, .xid = call->xid };
    stream_hold(stream);
    completion_wait(session, stream, &sync->waiter);
    return CUDA_SUCCESS;
}
static const struct operation stream_sync_operation = { .issue = stream_sync_issue };

void serve_stream_sync(struct session *session, struct call *call)
{
    struct stream *stream = server_stream_find(session, call->args.stream.stream);
    if (!stream) {
        call_fail(session, call, stream_missing(call->args.stream.stream));
        return;
    }
    call->stream = stream;
    call->order = ++session->order;
    stream_hold(stream);
    server_stream_submit(session, call, &stream_sync_operation);
}
