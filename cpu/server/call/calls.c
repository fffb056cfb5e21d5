/* calls.c: the life of one call: decoded, served, kept for later, answered when it failed. Which function serves it
   stands in the table of procedures.c, which this file does not know. */
#include "cpu/server/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/rpc/quick.h"
#include "cpu/server/tenant/figures.h"

/* False: not this way. */
static bool decode_quickly(struct call *call, rpc_request *request)
{
    size_t size;
    const uint8_t *body = rpc_request_body(request, &size);
    return quick_launch_decode(body, size, &call->args.launch, call->room, sizeof call->room);
}

static void call_begin(struct call *call, const struct procedure *procedure, uint32_t xid, size_t bytes)
{
    call->procedure = procedure;
    call->xid = xid;
    call->moved = false;
    call->bytes = bytes;
    call->parts = 1;
    call->operation = NULL;
    call->stream = NULL;
    call->number = call->order = 0;
    call->function = NULL;
    call->settings = NULL;
    call->bindings = NULL;
    call->record = NULL;
    call->group = NULL;
    call->inside = NULL;
    call->transfer = 0;
    call->next = NULL;
}

int call_serve(struct session *session, const struct procedure *procedure, rpc_request *request)
{
    struct call call;
    call_begin(&call, procedure, rpc_request_xid(request), rpc_request_size(request));
    bool decoded = procedure->launches && decode_quickly(&call, request);
    if (!decoded)
        memset(&call.args, 0, procedure->size);
    if (!decoded && rpc_request_arguments(request, procedure->arguments, &call.args) != 0) {
        char why[128];
        snprintf(why, sizeof why, "the arguments of its %s cannot be decoded", procedure->name);
        session_end(session, why);
        return -EPROTO;
    }
    if (!session->greeted && !procedure->greets) {
        session_end(session, "its first call was not HELLO");
        call_clear(&call);
        return -EPROTO;
    }
    bool asks = !procedure->quick || procedure->answers;      /* the others say themselves when they call the driver */
    bool timed = procedure->answers && figures_timed(session->figures);
    uint64_t began = timed ? clock_now() : 0;
    figure_add(&session->figures->calls, 1);
    if (asks)
        executor_driver_enter(session);
    procedure->serve(session, &call);
    if (asks)
        executor_driver_leave(session);
    if (timed)
        figures_time(session->figures, clock_now() - began);
    call_clear(&call);
    return 0;
}

/* ---- calls that the server has kept ---- */

static bool decode_kept(struct call *call, uint8_t *body, size_t size)
{
    const struct procedure *procedure = call->procedure;
    if (procedure->launches && quick_launch_decode(body, size, &call->args.launch, call->room, sizeof call->room))
        return true;
    XDR xdr;
    memset(&call->args, 0, procedure->size);
    xdrmem_create(&xdr, (char *)body, (u_int)size, XDR_DECODE);
    bool decoded = procedure->arguments(&xdr, &call->args, 0) && XDR_GETPOS(&xdr) == size;
    if (!decoded)
        xdr_free(procedure->arguments, (char *)&call->args);
    return decoded;
}

bool call_may_be_kept(const struct procedure *procedure, uint8_t *body, size_t size)
{
    struct call call;
    if (!procedure || !procedure->stream_of)
        return false;
    call_begin(&call, procedure, 0, size);
    bool decoded = decode_kept(&call, body, size);
    if (decoded)
        call_clear(&call);
    return decoded;
}

bool call_serve_kept(struct session *session, const struct procedure *procedure, uint8_t *body, size_t size,
                     uint32_t stream)
{
    struct call call;
    call_begin(&call, procedure, 0, size);
    if (!decode_kept(&call, body, size))
        return false;
    flyt_id *of_call = procedure->stream_of(&call.args);
    if (*of_call == FLYT_GRAPH_STREAM)
        *of_call = stream;
    procedure->serve(session, &call);
    call_clear(&call);
    return true;
}

bool call_serve_inside(struct session *session, const struct procedure *procedure, uint8_t *body, size_t size,
                       struct stream *stream)
{
    struct call call;
    if (!procedure || !procedure->stream_of)
        return false;
    call_begin(&call, procedure, 0, size);
    if (!decode_kept(&call, body, size))
        return false;
    call.stream = stream;
    procedure->serve(session, &call);
    call_clear(&call);
    return true;
}

static bool call_in_room(const struct call *call)
{
    return call->procedure->launches && call->args.launch.params.params_val == (const char *)call->room;
}

struct call *call_keep(struct call *call)
{
    struct call *kept = malloc(sizeof *kept);
    if (!kept)
        return NULL;
    *kept = *call;
    kept->next = NULL;
    if (call_in_room(call))
        kept->args.launch.params.params_val = (char *)kept->room;
    call->moved = true;
    return kept;
}

void call_clear(struct call *call)
{
    if (call->moved)
        return;
    if (!call_in_room(call))                  /* a launch whose parameters are there has nothing else to be freed */
        xdr_free(call->procedure->arguments, (char *)&call->args);
    call->moved = true;
}

void call_free(struct call *call)
{
    call_clear(call);
    free(call);
}

void call_fail(struct session *session, struct call *call, CUresult code)
{
    report_note(session, code);
    if (!call->procedure->answers) {
        report_latch(session, code);
        return;
    }
    /* Every result begins with the head, and a zeroed one is an empty one of each kind. */
    union {
#define MEMBER(name) name##_result name;
        FLYT_RESULTS(MEMBER)
#undef MEMBER
    } result;
    memset(&result, 0, sizeof result);
    session_reply(session, call->xid, call->procedure->results, &result, code, false);
}

/* ---- blocking calls: they wait for other programs of the tenant (tenant.h) ----
 *
 * Each has a short-lived thread of its own, so that it holds up no other call. Only worker processes have such threads,
 * because a worker ends without waiting for them. */

enum { BLOCKING_MOST = 16 };

struct blocking_call {
    struct session *session;
    struct call *call;
    void (*serve)(struct session *, struct call *);
};

static void *blocking_main(void *context)
{
    struct blocking_call *blocking = context;
    blocking->serve(blocking->session, blocking->call);
    atomic_fetch_sub(&blocking->session->blocking_calls, 1);
    call_free(blocking->call);
    free(blocking);
    return NULL;
}

bool call_serve_blocking(struct session *session, struct call *call, void (*serve)(struct session *, struct call *))
{
    bool may = session->disposable && atomic_load(&session->blocking_calls) < BLOCKING_MOST;
    struct blocking_call *blocking = may ? malloc(sizeof *blocking) : NULL;
    struct call *kept = blocking ? call_keep(call) : NULL;
    pthread_t thread;
    if (kept) {
        *blocking = (struct blocking_call){ session, kept, serve };
        atomic_fetch_add(&session->blocking_calls, 1);
        if (pthread_create(&thread, NULL, blocking_main, blocking) == 0) {
            pthread_detach(thread);
            return true;
        }
        atomic_fetch_sub(&session->blocking_calls, 1);
        call->moved = false;
        free(kept);
    }
    free(blocking);
    return false;
}
