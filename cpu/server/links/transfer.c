/*
 * transfer.c: SEND, RECEIVE and their like for boxes, in the order of their streams.
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
#include "cpu/server/copy/copy_plan.h"
#include "cpu/server/stream/host_function.h"
#include "cpu/server/stream/inside.h"

enum transfer_state { TRANSFER_WAITS, TRANSFER_POSTED, TRANSFER_LEAVES };

/* What a call asks for. */
struct transfer_request {
    bool sends, boxed; /* boxed: SEND_BOX or RECEIVE_BOX */
    uint32_t stream, link;
    uint64_t number;     /* as the client expects; 0: it does not count */
    flyt_box box;        /* one row unless it is boxed */
    flyt_extent extent;
};

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
    struct transfer_request asked;
    bool packed;      /* rows with gaps between, or an array: its bytes are packed in `staging` */
    bool answers;     /* RECEIVE_BOX: the call xid is answered with `result` */
    uint32_t xid;
    CUresult result;
    bool registered;  /* the memory was, for this transfer */
    struct link_buffer *staging; /* or NULL */
};

/* ---- the end ---- */

static void transfer_free(struct link_transfer *t)
{
    struct session *session = t->inside.session;
    struct server_link *link = t->link;
    list_remove(&t->of_all);
    if (t->staging)
        link_buffer_give(session->links, t->staging);
    if (t->registered)
        session->links->ways->unregister_memory(session->links->engine, t->comm.memory, t->comm.size);
    if (t->answers)
        session_reply_plain(session, t->xid, t->result, false);
    stream_drop(session, t->stream);
    free(t);
    link_idle(link);
}

/* The stream goes on. What has failed is latched, or answered; a link whose transfer was never posted ends. */
static void transfer_end(struct link_transfer *t, CUresult r)
{
    struct session *session = t->inside.session;
    if (t->state == TRANSFER_WAITS)
        link_abort(t->link, -ECANCELED,
                   t->sends ? "a transfer that was announced could not be sent" : "a transfer could not be received");
    t->result = r;
    if (r != CUDA_SUCCESS && !t->asked.boxed)
        report_latch(session, r);
    if (t->gated)
        gate_pass(t->inside.session, t->stream, t->ticket);
    if (t->copies) {
        t->state = TRANSFER_LEAVES;
        if (inside_wait(&t->inside, t->stream, false) == CUDA_SUCCESS) {
            completion_wait(session, t->stream, &t->inside.waiter);
            return;
        }
        t->staging = NULL; /* the driver may still read it: nobody uses it again */
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
        session->gpu->host_view(t->asked.box.address, t->comm.size, true);
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
        t->result = t->result ? t->result : inside->waiter.result;
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

/* Between the device and page-locked memory. */
static CUresult staged_copy(struct session *session, struct link_transfer *t)
{
    const flyt_extent row = copy_row(t->comm.size), *extent = t->packed ? &t->asked.extent : &row;
    struct server_copy_side there = copy_box(session, &t->asked.box), here = copy_at(t->staging->memory, extent);
    struct server_copy copy = { .to = t->sends ? here : there, .from = t->sends ? there : here, .extent = *extent };
    return copy_start(session, &copy, t->stream->handle);
}

static bool is_alone(struct links *links, const struct link_transfer *t)
{
    return list_first(&links->transfers) == &t->of_all && !list_next(&links->transfers, &t->of_all);
}

/* What the stream is given: its bytes to page-locked memory, a marker, the gate, bytes from page-locked memory. */
static CUresult transfer_give(struct session *session, struct link_transfer *t)
{
    struct stream *stream = t->stream;
    const bool staged = (session->links->staged || t->packed) && t->comm.size;
    CUresult r = gate_take(session, stream);
    if (r == CUDA_SUCCESS && staged)
        r = link_buffer_take(session->links, stream->context, t->comm.size, is_alone(session->links, t), &t->staging);
    if (r == CUDA_SUCCESS && staged)
        t->comm.memory = t->staging->memory;
    if (r == CUDA_SUCCESS && staged && t->sends)
        r = staged_copy(session, t);
    t->copies = r == CUDA_SUCCESS && staged && t->sends;
    if (r == CUDA_SUCCESS)
        r = inside_wait(&t->inside, stream, false);
    if (r == CUDA_SUCCESS)
        r = gate_wait(session, stream, &t->ticket);
    t->gated = r == CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && staged && !t->sends)
        r = staged_copy(session, t);
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
            gate_pass(t->inside.session, t->stream, t->ticket);
    }
}

/* ---- the calls ---- */

static struct transfer_request request_line(const struct call *call, bool sends)
{
    const send_args *args = &call->args.send;
    return (struct transfer_request){ .sends = sends,
                                      .stream = args->stream,
                                      .link = args->link,
                                      .number = args->transfer,
                                      .box = { .address = args->address },
                                      .extent = copy_row(args->size) };
}

static struct transfer_request request_box(const struct call *call, bool sends)
{
    const send_box_args *args = &call->args.send_box;
    return (struct transfer_request){ .sends = sends,
                                      .boxed = true,
                                      .stream = args->stream,
                                      .link = args->link,
                                      .number = args->transfer,
                                      .box = args->box,
                                      .extent = args->extent };
}

/* Whether the client may name the box, and it may be sent or received as one transfer. */
static bool box_good(struct session *session, const struct transfer_request *asked)
{
    const struct server_copy_side side = copy_box(session, &asked->box);
    const struct server_copy copy = { side, copy_packed(), asked->extent };
    return !side.host && !copy_empty(&asked->extent) &&
           copy_check_within(session, &copy, FLYT_MAX_BOX_TRANSFER) == CUDA_SUCCESS;
}

/* Whether the client may name the memory. *packed: it is no line. *view: where the engine finds it, unless the bytes
   are staged. */
static bool memory_good(struct session *session, const struct transfer_request *asked, bool *packed, void **view)
{
    static char nothing;
    const uint64_t address = asked->box.address, size = copy_bytes(&asked->extent);
    *view = &nothing;
    *packed = false;
    if (asked->boxed && !box_good(session, asked))
        return false;
    if (asked->boxed) {
        *packed = asked->extent.height != 1 || asked->extent.depth != 1 || copy_box(session, &asked->box).array;
    } else if (size && (host_memory_here(session, address) || !memory_known(session, address, size))) {
        return false;
    }
    if (size && !*packed && !session->links->staged)
        *view = session->gpu->host_view(address, size, false);
    return *view != NULL;
}

/* What the call asks for, or NULL: it has been refused, and its link has ended. */
static struct link_transfer *transfer_new(struct session *session, struct call *call, struct server_link *link,
                                          const struct transfer_request *asked)
{
    const bool sends = asked->sends;
    const uint64_t number = sends ? ++link->sent : asked->number, size = copy_bytes(&asked->extent);
    bool packed;
    void *view = NULL;
    bool good = memory_good(session, asked, &packed, &view) && number && (!asked->number || asked->number == number);
    const bool registers = good && asked->boxed && !packed && !session->links->staged;
    if (registers)
        good = session->links->ways->register_memory(session->links->engine, view, size) == 0;
    struct link_transfer *t = good ? calloc(1, sizeof *t) : NULL;
    if (good && !t && registers)
        session->links->ways->unregister_memory(session->links->engine, view, size);
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
        .asked = *asked,
        .packed = packed,
        .answers = asked->boxed && !sends,
        .xid = call->xid,
        .registered = registers,
        .comm = { .name = { 0, number }, .memory = view, .size = size, .done = transfer_done }
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
static void transfer_serve(struct session *session, struct call *call, const struct transfer_request *asked,
                           bool begins)
{
    struct links *links = session->links;
    if (!server_stream_enter(session, call, asked->stream))
        return;
    struct server_link *link = links ? link_find(session, asked->link) : NULL;
    const CUresult refusal = link_check(session, link);
    struct link_transfer *t = refusal == CUDA_SUCCESS ? transfer_new(session, call, link, asked) : NULL;
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

void serve_send(struct session *session, struct call *call)
{
    const struct transfer_request asked = request_line(call, true);
    transfer_serve(session, call, &asked, false);
}

void serve_send_begin(struct session *session, struct call *call)
{
    const struct transfer_request asked = request_line(call, true);
    transfer_serve(session, call, &asked, true);
}

void serve_receive(struct session *session, struct call *call)
{
    const struct transfer_request asked = request_line(call, false);
    transfer_serve(session, call, &asked, false);
}

void serve_send_box(struct session *session, struct call *call)
{
    const struct transfer_request asked = request_box(call, true);
    transfer_serve(session, call, &asked, false);
}

void serve_receive_box(struct session *session, struct call *call)
{
    const struct transfer_request asked = request_box(call, false);
    transfer_serve(session, call, &asked, false);
}
