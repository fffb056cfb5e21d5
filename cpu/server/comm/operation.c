/*
 * operation.c: COMM_OP, COMM_MESSAGES and COMM_SIDED, in the order of their streams.
 *
 * At its turn an operation puts a marker behind the work before it and lets the stream wait at its gate, as a transfer
 * of a link does (links/transfer.c). When the marker is complete the executor makes it ready; the communicator's thread
 * carries it out, and opens the gate. An operation that fails has its gate opened by the executor, behind its error.
 * Where nothing, or an operation of the same communicator, stands before it in the stream, it is ready without marker.
 * A small one of ranks that are all of this session is carried out by the executor (together.c).
 *
 * Memory is looked at when the call is served: device memory of this session, which the worker sees at its own
 * addresses. The program must not free it before the operation is complete.
 *
 * An operation that cannot be carried out (the call is wrong, or its stream or context ends before its turn) aborts the
 * communicator: the other ranks wait for it.
 *
 * Life: from its call until the executor has opened the gate. `over` is set by the communicator's thread: afterwards
 * that touches neither the memory nor the operation.
 */
#include "cpu/server/comm/comms_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/comm/plan/parts.h"
#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/transport/channel.h"
#include "cpu/server/memory/memory.h"
#include "cpu/server/stream/host_function.h"

/* ---- in the communicator's thread ---- */

/* cpu/comm does no all-to-all in place: it gets a copy of what this rank gives. */
static int call_carry_out(const struct comms_ways *ways, struct server_comm_operation *o, uint64_t deadline,
                          char *error)
{
    const bool copies = o->call.kind == COMM_ALL_TO_ALL && o->call.in == o->call.out && o->out_size;
    void *copy = copies ? malloc(o->out_size) : NULL;
    if (copies && !copy)
        return rpc_explain(error, -ENOMEM, "all-to-all in place: no memory");
    if (copies)
        o->call.in = memcpy(copy, o->call.out, o->out_size);
    if (o->factor_view)
        memcpy(o->factor, o->factor_view, ways->type_size(o->call.type));
    int status = ways->call(o->comm->comm, &o->call, deadline, error);
    free(copy);
    return status;
}

static void tell_written(struct server_comm_operation *o)
{
    const struct gpu *gpu = o->inside.session->gpu;
    for (unsigned i = 0; o->messages && i < o->count; i++)
        if (!o->messages[i].sends && o->messages[i].size)
            gpu->host_view((uint64_t)(uintptr_t)o->messages[i].memory, o->messages[i].size, true);
    if (o->out_size)
        gpu->host_view((uint64_t)(uintptr_t)o->call.out, o->out_size, true);
}

void operation_carry_out(struct server_comm_operation *o)
{
    const struct comms *comms = o->inside.session->comms;
    const struct comms_ways *ways = comms->ways;
    const uint64_t deadline = clock_now() + comms->patience;
    char error[RPC_ERROR_SIZE] = "";
    struct comm_context *comm = o->comm->comm;
    int status = o->kind == OPERATION_CALL       ? call_carry_out(ways, o, deadline, error)
                 : o->kind == OPERATION_MESSAGES ? ways->exchange(comm, o->messages, o->count, deadline, error)
                 : o->kind == OPERATION_PUTS     ? ways->put(comm, o->sided, o->count, deadline, error)
                                                 : ways->await(comm, o->sided, o->count, deadline, error);
    operation_carried_out(o, status, error);
    if (status == 0 && o->gated)
        completion_poll(o->inside.session, o->stream); /* answers calls that wait for the stream */
}

void operation_carried_out(struct server_comm_operation *o, int status, const char *error)
{
    const struct comms_ways *ways = o->inside.session->comms->ways;
    o->status = status;
    if (o->status == -ETIMEDOUT) {
        char recorded[1024];
        ways->recorded(o->comm->comm, recorded, sizeof recorded);
        log_warning("event=collective-late rank=%u ranks=%u why=\"%s\" last=\"%s\"", o->comm->rank, o->comm->ranks,
                    error, recorded);
    }
    if (o->status < 0) /* wrong arguments, or no memory: the other ranks wait for it. Else it has ended by itself. */
        ways->abort(o->comm->comm, -ECANCELED, error);
    if (o->status != 0)
        return;
    tell_written(o);
    if (o->gated)
        gate_pass(o->inside.session, o->stream, o->ticket);
}

/* ---- the end ---- */

void comm_wake_if_due(struct server_comm *comm)
{
    struct list *first = list_first(&comm->queue);
    if (first ? LIST_OBJECT(first, struct server_comm_operation, queued)->ready : comm->closing)
        pthread_cond_signal(&comm->wake);
}

static void memory_give(struct server_comm_operation *o)
{
    free(o->messages);
    free(o->sided);
    free(o);
}

static void operation_free(struct server_comm_operation *o)
{
    struct session *session = o->inside.session;
    struct comms *comms = session->comms;
    list_remove(&o->of_all);
    pthread_mutex_lock(&comms->lock);
    list_remove(&o->queued);
    o->comm->operations--;
    comm_wake_if_due(o->comm); /* it may go now, or the next one may be ready */
    pthread_mutex_unlock(&comms->lock);
    stream_drop(session, o->stream);
    memory_give(o);
}

/* What has failed is latched, unless the client wanted that. */
void operation_end(struct server_comm_operation *o, CUresult r)
{
    if (r != CUDA_SUCCESS && !o->comm->aborted)
        report_latch(o->inside.session, r);
    if (o->gated)
        gate_pass(o->inside.session, o->stream, o->ticket);
    operation_free(o);
}

/* It was never begun. */
static void operation_give_up(struct server_comm_operation *o, CUresult r)
{
    comm_abort(o->comm, "an operation could not be carried out: its stream or its context has ended");
    operation_end(o, r);
}

/* The thread takes it when those before it are over; or the executor carries it out with those of all other ranks, and
   it is freed. */
static void operation_begin(struct server_comm_operation *o)
{
    struct comms *comms = o->inside.session->comms;
    struct server_comm_operation *all[COMM_TOGETHER_MOST] = { NULL };
    o->begun = true;
    pthread_mutex_lock(&comms->lock);
    o->ready = true;
    if (!together_keep(o, all))
        comm_wake_if_due(o->comm);
    pthread_mutex_unlock(&comms->lock);
    if (all[0])
        together_carry_out(all);
}

/* In the executor. */
static void operation_go_on(struct inside *inside)
{
    struct server_comm_operation *o = (struct server_comm_operation *)inside;
    struct session *session = inside->session;
    if (o->begun) {
        operation_end(o, comms_result(o->status));
        return;
    }
    if (o->cancelled || inside->waiter.result != CUDA_SUCCESS || atomic_load(&o->stream->context->ended) ||
        atomic_load(&session->ended)) {
        operation_give_up(o, CUDA_ERROR_DEVICE_UNAVAILABLE);
        return;
    }
    operation_begin(o);
}

/* ---- its turn ---- */

/* Nothing that the stream was given before can still be under way when the thread comes to this operation. The work of
   a blocking stream also stands behind that of the legacy stream. */
static bool operation_follows(const struct server_comm_operation *o)
{
    const struct stream *stream = o->stream;
    bool behind_own = stream->collective_of == o->comm && stream->collective == stream->issued;
    return stream->flags & CU_STREAM_NON_BLOCKING && (behind_own || atomic_load(&stream->done) >= stream->issued);
}

/* What the stream is given: a marker if need be, and the gate. */
static CUresult operation_give(struct session *session, struct server_comm_operation *o)
{
    struct stream *stream = o->stream;
    CUresult r = gate_take(session, stream);
    if (r == CUDA_SUCCESS && !o->follows)
        r = inside_wait(&o->inside, stream, false);
    if (r == CUDA_SUCCESS)
        r = gate_wait(session, stream, &o->ticket);
    o->gated = r == CUDA_SUCCESS;
    return r;
}

/* Errors are latched here. */
static int operation_issue(struct session *session, struct call *call)
{
    struct server_comm_operation *o = (struct server_comm_operation *)call->inside;
    struct context *context = o->stream->context;
    o->follows = operation_follows(o);
    CUresult r = operation_give(session, o);
    if (r != CUDA_SUCCESS) {
        operation_give_up(o, r);
        return CUDA_SUCCESS;
    }
    o->stream->collective_of = o->comm;
    o->stream->collective = call->number;
    if (!o->follows) {
        completion_wait(session, o->stream, &o->inside.waiter);
        return CUDA_SUCCESS;
    }
    call->inside = NULL; /* it may be freed */
    operation_begin(o);
    context_use(session, context); /* another rank's may be current now */
    return CUDA_SUCCESS;
}

static void operation_dropped(struct session *session, struct call *call, CUresult code)
{
    (void)session;
    operation_give_up((struct server_comm_operation *)call->inside, code);
}

static const struct operation operation_row = {
    .issue = operation_issue,
    .numbered = true,
    .twofold = true, /* a marker, a gate and a wait */
    .dropped = operation_dropped,
};

/* ---- a context, or the session, ends ---- */

static void wait_until_over(struct comms *comms, struct server_comm_operation *o)
{
    pthread_mutex_lock(&comms->lock);
    while (!o->over)
        pthread_cond_wait(&comms->changed, &comms->lock);
    pthread_mutex_unlock(&comms->lock);
}

/* Those that were made ready end by themselves, once the communicator has: their thread waits for nothing else. */
void comms_release_all(struct session *session, struct context *context)
{
    struct comms *comms = session->comms;
    if (!comms)
        return;
    for (struct list *one = list_first(&comms->all); one; one = list_next(&comms->all, one)) {
        struct server_comm *comm = LIST_OBJECT(one, struct server_comm, of_all);
        if (context && comm->context != context)
            continue;
        comm->aborted = true;
        comm_abort(comm, "its context has ended");
        comms->ways->sided_end(comm->comm);
        pthread_mutex_lock(&comms->lock);
        comm->fails = true;
        pthread_cond_broadcast(&comms->changed);
        pthread_mutex_unlock(&comms->lock);
    }
    for (struct list *one = list_first(&comms->operations); one; one = list_next(&comms->operations, one)) {
        struct server_comm_operation *o = LIST_OBJECT(one, struct server_comm_operation, of_all);
        if (context && o->stream->context != context)
            continue;
        o->cancelled = true;
        if (o->gated)
            gate_pass(o->inside.session, o->stream, o->ticket);
        pthread_mutex_lock(&comms->lock);
        bool given_up = !o->begun;
        if (given_up) { /* the thread would wait for its turn, and this one for those behind it */
            list_remove(&o->queued);
            pthread_cond_signal(&o->comm->wake);
        }
        pthread_mutex_unlock(&comms->lock);
    }
    comms_let_go(session);
    for (struct list *one = list_first(&comms->operations); one; one = list_next(&comms->operations, one)) {
        struct server_comm_operation *o = LIST_OBJECT(one, struct server_comm_operation, of_all);
        if (o->begun && (!context || o->stream->context == context))
            wait_until_over(comms, o);
    }
}

/* ---- the calls ---- */

bool comm_memory_view(struct session *session, uint64_t address, uint64_t size, void **view)
{
    *view = NULL;
    if (!size)
        return true;
    if (!address || host_memory_here(session, address) || !memory_known(session, address, size))
        return false;
    *view = session->gpu->host_view(address, size, false);
    return *view != NULL;
}

static bool call_prepare(struct session *session, struct server_comm_operation *o, const comm_op_args *args)
{
    const struct server_comm *comm = o->comm;
    void *in, *out, *factor = NULL;
    bool known = args->kind >= 0 && args->kind < COMM_KINDS && args->type >= 0 && args->type < COMM_TYPES &&
                 args->operation >= 0 && args->operation < COMM_OPERATIONS && args->root < comm->ranks;
    size_t element = known ? session->comms->ways->type_size((enum comm_type)args->type) : 0;
    if (!known || args->count > UINT64_MAX / FLYT_MAX_RANKS / 16)
        return false;
    const struct comm_parts parts = comm_parts_of((enum comm_kind)args->kind, comm->rank, comm->ranks, args->root);
    if (!comm_memory_view(session, args->in, args->count * element * parts.in, &in) ||
        !comm_memory_view(session, args->out, args->count * element * parts.out, &out) ||
        !comm_memory_view(session, args->factor_at, args->factor_at ? element : 0, &factor))
        return false;
    memcpy(o->factor, args->factor, sizeof o->factor);
    o->factor_view = factor;
    o->out_size = args->count * element * parts.out;
    o->call = (struct comm_call){ .kind = (enum comm_kind)args->kind,
                                  .in = in,
                                  .out = out,
                                  .count = args->count,
                                  .type = (enum comm_type)args->type,
                                  .operation = (enum comm_operation)args->operation,
                                  .factor = o->factor,
                                  .root = args->root };
    return true;
}

static bool messages_prepare(struct session *session, struct server_comm_operation *o, const comm_messages_args *args)
{
    const unsigned count = args->messages.messages_len;
    o->kind = OPERATION_MESSAGES;
    o->messages = calloc(count + 1, sizeof *o->messages);
    if (!o->messages)
        return false;
    for (unsigned i = 0; i < count; i++) {
        const flyt_comm_message *m = &args->messages.messages_val[i];
        struct comm_message *mine = &o->messages[i];
        *mine = (struct comm_message){ .sends = m->sends != 0, .peer = m->peer, .size = m->size };
        if (m->peer >= o->comm->ranks || !comm_memory_view(session, m->address, m->size, &mine->memory))
            return false;
    }
    o->count = count;
    return true;
}

/* Windows are looked at when it is carried out. */
static bool sided_prepare(struct session *session, struct server_comm_operation *o, const comm_sided_args *args)
{
    const unsigned count = args->list.list_len;
    o->kind = args->waits ? OPERATION_WAITS : OPERATION_PUTS;
    o->sided = calloc(count + 1, sizeof *o->sided);
    if (!o->sided)
        return false;
    for (unsigned i = 0; i < count; i++) {
        const flyt_comm_sided *one = &args->list.list_val[i];
        void *memory = NULL;
        if (one->peer >= o->comm->ranks ||
            (!args->waits && !comm_memory_view(session, one->address, one->size, &memory)))
            return false;
        o->sided[i] = (struct comm_sided){ one->peer, one->window, one->offset, memory, one->size };
    }
    o->count = count;
    return true;
}

static bool prepare(struct session *session, struct server_comm_operation *o, const struct call *call,
                    uint32_t procedure)
{
    switch (procedure) {
    case FLYT_COMM_OP: return call_prepare(session, o, &call->args.comm_op);
    case FLYT_COMM_MESSAGES: return messages_prepare(session, o, &call->args.comm_messages);
    default: return sided_prepare(session, o, &call->args.comm_sided);
    }
}

/* NULL: there is no memory, or the call is wrong. */
static struct server_comm_operation *operation_new(struct session *session, struct server_comm *comm,
                                                   const struct call *call, uint32_t procedure)
{
    struct server_comm_operation *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->inside = (struct inside){ .session = session, .go_on = operation_go_on };
    o->comm = comm;
    o->stream = call->stream;
    if (call->stream->context != comm->context || call->stream->depth || !prepare(session, o, call, procedure)) {
        memory_give(o);
        return NULL;
    }
    o->small = together_may(o);
    stream_hold(o->stream);
    list_append(&session->comms->operations, &o->of_all);
    pthread_mutex_lock(&session->comms->lock);
    list_append(&comm->queue, &o->queued);
    comm->operations++;
    pthread_mutex_unlock(&session->comms->lock);
    return o;
}

static void operation_serve(struct session *session, struct call *call, uint32_t stream, uint32_t id,
                            uint32_t procedure)
{
    struct server_comm *comm = comm_find(session, id);
    if (!server_stream_enter(session, call, stream)) {
        if (comm)
            comm_abort(comm, "its program has called it in a stream that is not there");
        return;
    }
    struct server_comm_operation *o = comm ? operation_new(session, comm, call, procedure) : NULL;
    if (!o) {
        if (comm)
            comm_abort(comm, "its program has named wrong memory, another GPU's stream, or no such operation");
        stream_refuse(session, call, comm ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE);
        return;
    }
    call->inside = &o->inside;
    server_stream_submit(session, call, &operation_row);
}

void serve_comm_op(struct session *session, struct call *call)
{
    operation_serve(session, call, call->args.comm_op.stream, call->args.comm_op.comm, FLYT_COMM_OP);
}

void serve_comm_messages(struct session *session, struct call *call)
{
    operation_serve(session, call, call->args.comm_messages.stream, call->args.comm_messages.comm, FLYT_COMM_MESSAGES);
}

void serve_comm_sided(struct session *session, struct call *call)
{
    operation_serve(session, call, call->args.comm_sided.stream, call->args.comm_sided.comm, FLYT_COMM_SIDED);
}
