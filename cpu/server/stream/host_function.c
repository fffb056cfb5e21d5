/*
 * host_function.c: functions of the client's that run in the order of a stream.
 *
 * The stream gets a marker, then waits on a word of host-mapped memory (its gate) for a ticket. When the marker is
 * complete the client is informed (notify.c); when the client says that the function has ended, the ticket is written
 * to the gate and the stream goes on. Nothing of this occupies a thread of the driver's. Tickets of a stream rise, and
 * its functions are due one after the other, so the gate needs only ever hold the last one that ended. A gate that
 * passes to another stream keeps its value and counts on: the device may not have looked at it for the last time.
 *
 * Drivers without cuStreamWaitValue32 get a callback that waits (wait_in_callback): it holds up the driver's
 * callback thread, and with it the callbacks of other streams, as the CUDA documentation warns.
 *
 * When the session ends all gates are opened, so that the device can finish and be given back.
 */
#include "cpu/server/session.h"
#include "cpu/server/call/notify.h"
#include "cpu/server/stream/host_function.h"

#include <stdlib.h>

#include "cpu/common/lock.h"

struct host_function {
    struct waiter waiter;                 /* for the work before it */
    struct list pending;                  /* of all that the client has not ended */
    struct session *session;
    struct stream *stream;
    uint32_t id, ticket;
    uint32_t *gate;                       /* NULL: wait_in_callback */
    bool told, ended;
    bool named; /* in the map of ids */
    /* of wait_in_callback */
    pthread_cond_t go;
    bool passed, callback;
};

int host_functions_start(struct session *session)
{
    return pthread_mutex_init(&session->host_functions->lock, NULL);
}

void host_functions_stop(struct session *session)
{
    pthread_mutex_destroy(&session->host_functions->lock);
}

static void gate_open(struct host_function *function)
{
    FLYT_ASSERT_HELD(&function->session->host_functions->lock);
    function->ended = true;
    if (function->gate) {
        __atomic_store_n(function->gate, function->ticket, __ATOMIC_RELEASE);
        gate_look(function->session);
    } else {
        pthread_cond_signal(&function->go);
    }
}

static void host_function_free(struct host_function *function)
{
    pthread_cond_destroy(&function->go);
    stream_drop(function->session, function->stream);
    free(function);
}

/* The client may use the id again as soon as it has said that the function has ended: a callback that waits may pass
   later, while another function has that id. */
static void host_function_unname(struct host_function *function)
{
    if (function->named)
        id_map_remove(function->session->ids[KIND_HOST_FUNCTION], function->id);
    function->named = false;
}

/* Taken out of the list when reported, ended and, with a callback, passed. */
static void host_function_settle(struct host_functions *all, struct host_function *function)
{
    FLYT_ASSERT_HELD(&all->lock);
    if (!function->told || !function->ended || (function->callback && !function->passed))
        return;
    list_remove(&function->pending);
    host_function_unname(function);
    atomic_fetch_sub(&all->count, 1);
    host_function_free(function);
}

/* In the driver's callback thread. */
static void CUDA_CB wait_in_callback(void *context)
{
    struct host_function *function = context;
    struct host_functions *all = function->session->host_functions;
    pthread_mutex_lock(&all->lock);
    while (!function->ended)
        pthread_cond_wait(&function->go, &all->lock);
    function->passed = true;
    host_function_settle(all, function);
    pthread_mutex_unlock(&all->lock);
}

/* The work before it is complete, or has failed: the client is informed in both cases. */
static void host_function_due(struct session *session, struct waiter *waiter)
{
    struct host_function *function = (struct host_function *)waiter;
    uint32_t id = function->id;
    CUresult result = waiter->result;
    pthread_mutex_lock(&session->host_functions->lock);
    function->told = true;                                /* first: the client's answer may be quicker than we */
    host_function_settle(session->host_functions, function);
    pthread_mutex_unlock(&session->host_functions->lock);
    events_due(session, id, (int)result);
}

/* The client chose the id. */
static CUresult host_function_add(struct host_functions *all, struct host_function *function)
{
    FLYT_ASSERT_HELD(&all->lock);
    if (id_map_set(function->session->ids[KIND_HOST_FUNCTION], function->id, function) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    function->named = true;
    list_prepend(&all->pending, &function->pending);
    atomic_fetch_add(&all->count, 1);
    return CUDA_SUCCESS;
}

static int host_function_issue(struct session *session, struct call *call)
{
    struct host_functions *all = session->host_functions;
    struct stream *stream = call->stream;
    const struct gpu *gpu = session->gpu;
    CUresult r = gpu->StreamWaitValue32 ? gate_take(session, stream) : CUDA_SUCCESS;
    struct host_function *function = r == CUDA_SUCCESS ? calloc(1, sizeof *function) : NULL;
    if (r == CUDA_SUCCESS && !function)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    /* Behind what is before it: that may be in other streams only, between the legacy stream and the blocking ones. */
    uint64_t behind = 0;
    if (r == CUDA_SUCCESS)
        r = stream->flags & CU_STREAM_NON_BLOCKING ? stream_mark(session, stream)
                                                   : stream_mark_again(session, stream, &behind);
    if (r != CUDA_SUCCESS) {
        free(function);
        events_due(session, call->args.host_function.id, (int)r);
        return (int)r;
    }
    *function = (struct host_function){ .waiter = { .number = stream->issued, .behind = behind,
                                                    .finish = host_function_due },
                                        .session = session, .stream = stream, .id = call->args.host_function.id };
    pthread_cond_init(&function->go, NULL);
    stream_hold(stream);
    function->callback = !gpu->StreamWaitValue32;
    if (!function->callback) {
        function->gate = stream->gate;
        function->ticket = ++stream->gate_ticket;
    }
    pthread_mutex_lock(&all->lock);
    r = host_function_add(all, function);
    pthread_mutex_unlock(&all->lock);
    if (r != CUDA_SUCCESS) {
        host_function_free(function);
        events_due(session, call->args.host_function.id, (int)r);
        return (int)r;
    }
    r = function->callback
            ? gpu->LaunchHostFunc(stream->handle, wait_in_callback, function)
            : gpu->StreamWaitValue32(stream->handle, stream->gate_address, function->ticket, CU_STREAM_WAIT_VALUE_GEQ);
    if (r != CUDA_SUCCESS) {                              /* the client is informed all the same, with the reason */
        pthread_mutex_lock(&all->lock);
        function->passed = true;
        gate_open(function);
        pthread_mutex_unlock(&all->lock);
        function->waiter.result = r;
        host_function_due(session, &function->waiter);
        return (int)r;
    }
    completion_wait(session, stream, &function->waiter);
    return CUDA_SUCCESS;
}
/* The client hears of it: it decides whether the function runs. */
static void host_function_dropped(struct session *session, struct call *call, CUresult code)
{
    events_due(session, call->args.host_function.id, (int)code);
}

static const struct operation host_function_operation = {
    .issue = host_function_issue, .numbered = true, .twofold = true, .dropped = host_function_dropped,
};

void serve_host_function(struct session *session, struct call *call)
{
    if (server_stream_enter(session, call, call->args.host_function.stream))
        server_stream_submit(session, call, &host_function_operation);
    else
        events_due(session, call->args.host_function.id, CUDA_ERROR_INVALID_HANDLE);
}

void host_functions_done(struct session *session, uint32_t id)
{
    struct host_functions *all = session->host_functions;
    pthread_mutex_lock(&all->lock);
    struct host_function *f = id_map_find(session->ids[KIND_HOST_FUNCTION], id);
    if (f && f->told && !f->ended) {
        gate_open(f);
        host_function_unname(f);
        host_function_settle(all, f);
    }
    pthread_mutex_unlock(&all->lock);
}

void host_functions_release_all(struct session *session, struct context *context)
{
    struct host_functions *all = session->host_functions;
    struct list *next;
    pthread_mutex_lock(&all->lock);
    for (struct list *link = list_first(&all->pending); link; link = next) {
        struct host_function *f = LIST_OBJECT(link, struct host_function, pending);
        next = list_next(&all->pending, link);
        if (context && f->stream->context != context)
            continue;
        /* The list is the newest first: a gate must end at the highest ticket. */
        if (f->gate && __atomic_load_n(f->gate, __ATOMIC_ACQUIRE) - f->ticket < UINT32_MAX / 2)
            f->ended = true;
        else
            gate_open(f);
        host_function_settle(all, f);
    }
    pthread_mutex_unlock(&all->lock);
}
