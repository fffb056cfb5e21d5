/*
 * context_calls.c: the calls by which contexts begin and end, and their end with the session.
 *
 * Before the driver destroys a context everything that the session has in it is given back, so that we hold no handle
 * of something that is gone.
 */
#include "cpu/server/session.h"

#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/server/session/kinds.h"

#define CONTEXT_CLOSE_NS CLOCK_NS_PER_SECOND

/* ---- the beginning ---- */

/* Of cuCtxCreate: those that change what the driver does with the context. How a host thread waits (CU_CTX_SCHED_…) the
   client knows; our threads wait in their own way. Core dumps (0x20, 0x40) would be written on this machine. */
enum { FLAGS_DRIVER = CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | 0x80 /* CU_CTX_SYNC_MEMOPS, newer than CUDA 11.8 */,
       FLAGS_KNOWN = FLAGS_DRIVER | CU_CTX_SCHED_MASK, FLAGS_CORE_DUMP = 0x60 };

static CUresult context_flags_check(unsigned flags)
{
    unsigned wait = flags & CU_CTX_SCHED_MASK;
    if (flags & ~(unsigned)(FLAGS_KNOWN | FLAGS_CORE_DUMP) || wait > CU_CTX_SCHED_BLOCKING_SYNC || wait == 3)
        return CUDA_ERROR_INVALID_VALUE;
    return flags & FLAGS_CORE_DUMP ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

/* May the client give the id to a new context of that device? */
static CUresult context_check(struct session *session, uint32_t id, int device)
{
    if (!server_device_find(session, device))
        return CUDA_ERROR_INVALID_DEVICE;
    return id < FLYT_MAX_CONTEXTS && !context_find(session, id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult context_begin(struct session *session, uint32_t id, struct device *device, bool primary, unsigned flags)
{
    struct context *context;
    CUresult r = context_make(session, id, device, primary, flags, &context);
    if (r != CUDA_SUCCESS)
        return r;
    r = stream_create_legacy(session, context);
    if (r != CUDA_SUCCESS) {
        context_unmake(session, context);
        return r;
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (server_kinds[kind].begin)
            server_kinds[kind].begin(session, context);
    return CUDA_SUCCESS;
}

struct context *context_begin_first(struct session *session)
{
    CUresult r = context_begin(session, 0, server_device_find(session, 0), true, 0);
    report_note(session, r);
    return r == CUDA_SUCCESS ? context_find(session, 0) : NULL;
}

void serve_context_create(struct session *session, struct call *call)
{
    const context_create_args *args = &call->args.context_create;
    struct device *device = server_device_find(session, args->device);
    CUresult r = context_check(session, args->context, args->device);
    if (r == CUDA_SUCCESS)
        r = context_flags_check(args->flags);
    if (r == CUDA_SUCCESS)
        r = context_begin(session, args->context, device, false, args->flags & FLAGS_DRIVER);
    session_reply_plain(session, call->xid, r, false);
}

void serve_context_retain(struct session *session, struct call *call)
{
    const context_retain_args *args = &call->args.context_retain;
    struct device *device = server_device_find(session, args->device);
    CUresult r = CUDA_SUCCESS;
    if (!device || !device->primary || device->primary->id != args->context) {
        r = context_check(session, args->context, args->device);
        if (r == CUDA_SUCCESS && device->primary)
            r = CUDA_ERROR_INVALID_VALUE;                 /* it has another name */
        if (r == CUDA_SUCCESS)
            r = context_begin(session, args->context, device, true, 0);
    }
    session_reply_plain(session, call->xid, r, false);
}

/* ---- the end ---- */

/* What waits for the client in the context waits no longer. */
static void context_let_go(struct session *session, struct context *context)
{
    for (int kind = 0; kind < KINDS; kind++)
        if (server_kinds[kind].release)
            server_kinds[kind].release(session, context);
}

/* Everything that the session has in the context goes, but the memory that it has mapped. What waits is answered with
   CUDA_ERROR_CONTEXT_IS_DESTROYED. The context is idle, or has failed. */
static void context_clear(struct session *session, struct context *context)
{
    context_use(session, context);
    for (int kind = 0; kind < KINDS; kind++)
        if (server_kinds[kind].drop && kind != KIND_MAPPING)
            server_kinds[kind].drop(session, context);
}

/* Mapped memory goes last: mappings are not the context's, so a reset does not end them, and behind a fault the driver
   unmaps nothing until the reset has taken the fault away. */
static CUresult context_end(struct session *session, struct context *context, bool reset)
{
    struct device *device = context->device;
    context_let_go(session, context);
    if (context_use(session, context) == CUDA_SUCCESS)
        session->gpu->CtxSynchronize();
    context_clear(session, context);
    CUresult r = reset ? session->gpu->DevicePrimaryCtxReset(device->handle) : CUDA_SUCCESS;
    server_kinds[KIND_MAPPING].drop(session, context);
    CUresult unmade = context_unmake(session, context);
    if (reset)
        report_clear_sticky(session, CUDA_ERROR_ASSERT);
    else
        r = unmade;
    return r;
}

static void serve_end(struct session *session, struct call *call, bool primary, bool reset)
{
    struct context *context = context_find(session, call->args.context.context);
    CUresult r = CUDA_ERROR_INVALID_CONTEXT;
    if (context && context->primary == primary)
        r = context_end(session, context, reset);
    session_reply_plain(session, call->xid, r, false);
}

void serve_context_release(struct session *session, struct call *call) { serve_end(session, call, true, false); }
void serve_context_reset(struct session *session, struct call *call) { serve_end(session, call, true, true); }
void serve_context_destroy(struct session *session, struct call *call) { serve_end(session, call, false, false); }

/* ---- with the session ---- */

/* Waits a little for what runs. True: the context is idle, or has failed. */
static bool context_settles(struct session *session, struct context *context)
{
    uint64_t until = clock_now() + CONTEXT_CLOSE_NS;
    for (struct list *link = list_first(&context->streams); link; link = list_next(&context->streams, link)) {
        const struct stream *stream = LIST_OBJECT(link, struct stream, of_context);
        while (context_use(session, context) == CUDA_SUCCESS &&
               session->gpu->StreamQuery(stream->handle) == CUDA_ERROR_NOT_READY) {
            if (clock_now() > until)
                return false;
            usleep(1000);
        }
    }
    return !atomic_load(&session->completion.watching) || !completion_poll(session, NULL) || clock_now() < until;
}

/* In a process that goes on. False: a kernel does not end, and neither driver lets its memory go under it. */
static bool context_close(struct session *session, struct context *context)
{
    context_let_go(session, context);
    if (!context_settles(session, context))
        return false;
    context_clear(session, context);
    server_kinds[KIND_MAPPING].drop(session, context);
    context_unmake(session, context);
    return true;
}

bool contexts_close(struct session *session)
{
    bool closed = true;
    struct list *next;
    for (struct list *link = list_first(&session->contexts); link; link = next) {
        next = list_next(&session->contexts, link);
        closed = context_close(session, LIST_OBJECT(link, struct context, of_session)) && closed;
    }
    return closed;
}
