/*
 * transfer.c: SEND and RECEIVE, in the order of their streams.
 *
 * At its turn a transfer puts a marker behind the work before it and lets the stream wait at its gate, as a host
 * function does (host_function.c). When the marker is complete the executor posts the transfer; a thread of the engine
 * says when it is over; the executor opens the gate. So no thread waits, other streams go on, and transfers of several
 * links and streams cannot keep each other from going on.
 *
 * On the software GPU the engine sends from device memory and receives into it. Elsewhere (`staged`) the bytes pass
 * through page-locked memory: a SEND copies them out before its marker, a RECEIVE copies them in behind its gate, and
 * keeps the memory until that copy is complete.
 *
 * Page-locked memory that the stream may still use is not freed: where it cannot be known, it is given up.
 *
 * A transfer that cannot be posted aborts its link: the other end waits for it. That is so when the call is wrong, when
 * its stream or context ends before its turn, and when the work before it has failed.
 *
 * Life of a transfer: from its call until it is over, or for a staged RECEIVE until its copy is; the link is busy so
 * long. `over` is set by a thread of the engine, under links.lock: afterwards nothing touches the memory.
 */
#include "cpu/server/links/links_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"
#include "cpu/server/stream/host_function.h"
#include "cpu/server/stream/inside.h"

#define STAGED_MOST ((uint64_t)1 << 30) /* page-locked for all transfers of a session */

enum transfer_state { TRANSFER_WAITS, TRANSFER_POSTED, TRANSFER_LEAVES };

struct link_transfer {
    struct inside inside; /* of the marker before it, then of its end */
    struct list of_all;
    struct server_link *link;
    struct stream *stream; /* held */
    struct comm_transfer comm;
    enum transfer_state state;
    bool sends, gated; /* gated: the stream waits at its gate, for this ticket */
    bool copies;       /* the stream has been given a copy from or to `staging`, which is not known to be complete */
    bool over;         /* under links.lock */
    bool cancelled;
    uint32_t ticket;
    uint64_t address;
    void *staging; /* or NULL */
};

/* ---- memory ---- */

static void staging_free(struct links *links, struct link_transfer *t)
{
    if (!t->staging)
        return;
    links->ways->unregister_memory(links->engine, t->staging, t->comm.size);
    links->session->gpu->MemFreeHost(t->staging);
    links->staged_bytes -= t->comm.size;
    t->staging = NULL;
}

static CUresult staging_make(struct links *links, struct link_transfer *t)
{
    if (t->comm.size > STAGED_MOST - links->staged_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = links->session->gpu->MemHostAlloc(&t->staging, t->comm.size, CU_MEMHOSTALLOC_PORTABLE);
    if (r != CUDA_SUCCESS)
        return r;
    links->staged_bytes += t->comm.size;
    int status = links->ways->register_memory(links->engine, t->staging, t->comm.size);
    if (status < 0) {
        links->session->gpu->MemFreeHost(t->staging);
        links->staged_bytes -= t->comm.size;
        t->staging = NULL;
    }
    return links_result(status);
}

/* ---- the end ---- */

static void transfer_free(struct link_transfer *t)
{
    struct session *session = t->inside.session;
    struct server_link *link = t->link;
    list_remove(&t->of_all);
    staging_free(session->links, t);
    stream_drop(session, t->stream);
    free(t);
    link_idle(link);
}

/* The stream goes on. What has failed is latched; a link whose transfer was never posted ends. */
static void transfer_end(struct link_transfer *t, CUresult r)
{
    struct session *session = t->inside.session;
    if (t->state == TRANSFER_WAITS)
        link_abort(t->link, -ECANCELED,
                   t->sends ? "a transfer that was announced could not be sent" : "a transfer could not be received");
    if (r != CUDA_SUCCESS)
        report_latch(session, r);
    if (t->gated)
        gate_pass(t->stream, t->ticket);
    if (t->copies) {
        t->state = TRANSFER_LEAVES;
        if (inside_wait(&t->inside, t->stream, false) == CUDA_SUCCESS) {
            completion_wait(session, t->stream, &t->inside.waiter);
            return;
        }
        t->staging = NULL; /* the driver may still read it: it is given up */
    }
    transfer_free(t);
}

/* In a thread of the engine. */
static void transfer_done(struct comm_transfer *comm)
{
    struct link_transfer *t = comm->context;
    struct links *links = t->inside.session->links;
    pthread_mutex_lock(&links->lock);
    t->over = true;
    pthread_cond_broadcast(&links->changed);
    pthread_mutex_unlock(&links->lock);
    inside_due(&t->inside);
}

static void transfer_over(struct link_transfer *t)
{
    struct session *session = t->inside.session;
    if (t->comm.status == 0 && !t->sends && !t->staging && t->comm.size)
        session->gpu->host_view(t->address, t->comm.size, true);
    transfer_end(t, links_result(t->comm.status));
}

/* ---- its turn ---- */

static void transfer_post(struct link_transfer *t)
{
    const struct links_ways *ways = t->inside.session->links->ways;
    t->state = TRANSFER_POSTED;
    int status = t->sends ? ways->send(t->link->link, &t->comm) : ways->receive(t->link->link, &t->comm);
    if (status == 0)
        return;
    t->over = true;
    t->comm.status = status < 0 ? status : t->comm.status;
    if (status < 0 && ways->status(t->link->link) == 0)
        t->state = TRANSFER_WAITS; /* the peer waits for it: the link ends */
    transfer_over(t);
}

/* In the executor. */
static void transfer_go_on(struct inside *inside)
{
    struct link_transfer *t = (struct link_transfer *)inside;
    struct session *session = inside->session;
    t->copies &= !t->sends; /* the marker is behind the copy of a SEND */
    if (t->state == TRANSFER_LEAVES) {
        transfer_free(t);
    } else if (t->state == TRANSFER_POSTED) {
        transfer_over(t);
    } else if (t->cancelled || inside->waiter.result != CUDA_SUCCESS || atomic_load(&t->stream->context->ended) ||
               atomic_load(&session->ended)) {
        transfer_end(t, CUDA_ERROR_DEVICE_UNAVAILABLE);
    } else {
        transfer_post(t);
    }
}

/* What the stream is given: its bytes to page-locked memory, a marker, the gate, bytes from page-locked memory. */
static CUresult transfer_give(struct session *session, struct link_transfer *t)
{
    const struct gpu *gpu = session->gpu;
    struct stream *stream = t->stream;
    const bool staged = session->links->staged && t->comm.size;
    CUresult r = gate_take(session, stream);
    if (r == CUDA_SUCCESS && staged)
        r = staging_make(session->links, t);
    if (r == CUDA_SUCCESS && staged)
        t->comm.memory = t->staging;
    if (r == CUDA_SUCCESS && staged && t->sends)
        r = gpu->MemcpyDtoHAsync(t->staging, t->address, t->comm.size, stream->handle);
    t->copies = r == CUDA_SUCCESS && staged && t->sends;
    if (r == CUDA_SUCCESS)
        r = inside_wait(&t->inside, stream, false);
    if (r == CUDA_SUCCESS)
        r = gate_wait(session, stream, &t->ticket);
    t->gated = r == CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && staged && !t->sends)
        r = gpu->MemcpyHtoDAsync(t->address, t->staging, t->comm.size, stream->handle);
    t->copies |= r == CUDA_SUCCESS && staged && !t->sends;
    return r;
}

/* Errors are latched here, and never the call's: SEND_BEGIN has been answered. */
static int transfer_issue(struct session *session, struct call *call)
{
    struct link_transfer *t = (struct link_transfer *)call->inside;
    CUresult r = transfer_give(session, t);
    if (r == CUDA_SUCCESS)
        completion_wait(session, t->stream, &t->inside.waiter);
    else
        transfer_end(t, r);
    return CUDA_SUCCESS;
}

static void transfer_dropped(struct session *session, struct call *call, CUresult code)
{
    (void)session;
    transfer_end((struct link_transfer *)call->inside, code);
}

static const struct operation transfer_operation = {
    .issue = transfer_issue,
    .numbered = true,
    .dropped = transfer_dropped,
};

/* ---- a context, or the session, ends ---- */

static bool transfer_of(const struct link_transfer *t, const struct context *context)
{
    return !context || t->stream->context == context;
}

static void wait_until_over(struct links *links, struct link_transfer *t)
{
    pthread_mutex_lock(&links->lock);
    while (!t->over)
        pthread_cond_wait(&links->changed, &links->lock);
    pthread_mutex_unlock(&links->lock);
}

void links_release_all(struct session *session, struct context *context)
{
    struct links *links = session->links;
    if (!links)
        return;
    for (struct list *one = list_first(&links->transfers); one; one = list_next(&links->transfers, one)) {
        struct link_transfer *t = LIST_OBJECT(one, struct link_transfer, of_all);
        if (!transfer_of(t, context))
            continue;
        t->cancelled = true;
        if (t->state != TRANSFER_LEAVES)
            link_abort(t->link, -ECANCELED, "the context of a transfer has ended");
        if (t->state == TRANSFER_POSTED)
            wait_until_over(links, t);
        if (t->gated)
            gate_pass(t->stream, t->ticket);
    }
}

/* ---- the calls ---- */

/* Whether the client may name the memory; *view: where the engine finds it, unless the bytes are staged. */
static bool memory_good(struct session *session, const send_args *args, void **view)
{
    static char nothing;
    *view = &nothing;
    if (!args->size)
        return true;
    if (host_memory_here(session, args->address) || !memory_known(session, args->address, args->size))
        return false;
    if (!session->links->staged)
        *view = session->gpu->host_view(args->address, args->size, false);
    return *view != NULL;
}

/* What the call asks for, or NULL: it has been refused, and its link has ended. */
static struct link_transfer *transfer_new(struct session *session, struct call *call, struct server_link *link,
                                          bool sends)
{
    const send_args *args = &call->args.send;
    void *view = NULL;
    const uint64_t number = sends ? ++link->sent : args->transfer;
    bool good = memory_good(session, args, &view) && number && (!args->transfer || args->transfer == number);
    struct link_transfer *t = good ? calloc(1, sizeof *t) : NULL;
    if (!t) {
        link_abort(link, -ECANCELED,
                   sends ? "the sender's program has named wrong memory, or a wrong number"
                         : "the receiver's program has named wrong memory, or no number");
        return NULL;
    }
    *t = (struct link_transfer){
        .inside = { .session = session, .go_on = transfer_go_on },
        .link = link,
        .stream = call->stream,
        .sends = sends,
        .address = args->address,
        .comm = { .name = { 0, number }, .memory = view, .size = args->size, .done = transfer_done }
    };
    t->comm.context = t;
    stream_hold(t->stream);
    list_append(&session->links->transfers, &t->of_all);
    link->busy++;
    return t;
}

/* The client may name no transfer on a link that a communicator uses: it would be taken for one of its own. */
static CUresult link_check(struct session *session, const struct server_link *link)
{
    struct links *links = session->links;
    if (!links)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&links->lock);
    const bool borrowed = link->borrower.lost != NULL;
    pthread_mutex_unlock(&links->lock);
    return borrowed ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

/* begins: it is answered at once, and is no call that waits for an answer any more. */
static void transfer_serve(struct session *session, struct call *call, bool sends, bool begins)
{
    struct links *links = session->links;
    if (!server_stream_enter(session, call, call->args.send.stream))
        return;
    struct server_link *link = links ? link_find(session, call->args.send.link) : NULL;
    const CUresult refusal = link_check(session, link);
    struct link_transfer *t = refusal == CUDA_SUCCESS ? transfer_new(session, call, link, sends) : NULL;
    if (!t) {
        stream_refuse(session, call, refusal ? refusal : CUDA_ERROR_INVALID_VALUE);
        return;
    }
    if (begins) {
        send_begin_result result = { .transfer = t->comm.name.number };
        session_reply(session, call->xid, (xdrproc_t)xdr_send_begin_result, &result, CUDA_SUCCESS, false);
        links->begun = *call->procedure;
        links->begun.answers = false;
        call->procedure = &links->begun;
    }
    call->inside = &t->inside;
    server_stream_submit(session, call, &transfer_operation);
}

void serve_send(struct session *session, struct call *call) { transfer_serve(session, call, true, false); }
void serve_send_begin(struct session *session, struct call *call) { transfer_serve(session, call, true, true); }
void serve_receive(struct session *session, struct call *call) { transfer_serve(session, call, false, false); }
