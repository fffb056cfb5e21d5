/*
 * condition.c: conditions of graphs: IF, WHILE and SWITCH (cpu_rpc_prot.x says what each does).
 *
 * The stream copies the condition's word to host-mapped memory and then waits at its gate, as for a host function
 * (host_function.c). When the copy is complete the executor looks at the value and serves the calls of the chosen body
 * in an inner stream: a non-blocking stream of the server's, which the client does not know. When the body is complete
 * the gate opens; a WHILE copies its word behind the body, and the executor looks at it first. So a loop costs no
 * message, the executor waits for nothing, and a condition inside a body is one more call of the inner stream.
 *
 * Nothing of this keeps a condition going whose session or context ends: conditions_release_all opens the gates, and no
 * further body begins.
 */
#include "cpu/server/session.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

struct condition {
    struct waiter waiter;                 /* for the copy of the word, or for the end of a body */
    struct condition *next_due;
    struct list of_all;
    struct session *session;
    struct stream *outer, *inner;         /* both held */
    struct call *call;                    /* has the bodies */
    uint32_t ticket;                      /* which opens the outer stream's gate */
    size_t bytes;                         /* that it counts for; inside another one 0 */
    bool running;                         /* a body has begun */
    bool cancelled;
};

int conditions_start(struct session *session)
{
    session->conditions.last = &session->conditions.due;
    return pthread_mutex_init(&session->conditions.lock, NULL);
}

bool conditions_offered(const struct session *session)
{
    return session->gpu->StreamWaitValue32 && strcmp(session->gpu->kind, "software") == 0;
}

uint64_t conditions_count(const struct session *session) { return session->conditions.count; }

static void condition_due(struct session *session, struct waiter *waiter)
{
    struct condition *condition = (struct condition *)waiter;
    struct conditions *all = &session->conditions;
    condition->next_due = NULL;
    pthread_mutex_lock(&all->lock);
    *all->last = condition;
    all->last = &condition->next_due;
    pthread_mutex_unlock(&all->lock);
    executor_kick(session);
}

/* ---- the end ---- */

/* Tickets rise: a gate that has been opened further stays so. */
static void gate_pass(const struct condition *condition)
{
    uint32_t *gate = condition->outer->gate;
    if (gate && (int32_t)(condition->ticket - __atomic_load_n(gate, __ATOMIC_ACQUIRE)) > 0)
        __atomic_store_n(gate, condition->ticket, __ATOMIC_RELEASE);
}

static void condition_free(struct condition *condition)
{
    struct session *session = condition->session;
    list_remove(&condition->of_all);
    session->conditions.count--;
    session->conditions.bytes -= condition->bytes;
    stream_inner_give(session, condition->inner);
    stream_drop(session, condition->outer);
    call_free(condition->call);
    free(condition);
}

static void condition_end(struct condition *condition)
{
    struct session *session = condition->session;
    gate_pass(condition);
    condition_free(condition);
    if (atomic_load(&session->executor.deferred_calls))
        executor_kick(session);                       /* one may have waited for the bytes */
}

void conditions_release_all(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    const struct list *all = &session->conditions.all;
    for (struct list *link = list_first(all); link; link = list_next(all, link)) {
        struct condition *condition = LIST_OBJECT(link, struct condition, of_all);
        if (context && condition->outer->context != context)
            continue;
        condition->cancelled = true;
        gate_pass(condition);
    }
}

void conditions_stop(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    for (struct list *link; (link = list_first(&session->conditions.all));)
        condition_free(LIST_OBJECT(link, struct condition, of_all));
    pthread_mutex_unlock(&session->lock);
    pthread_mutex_destroy(&session->conditions.lock);
}

/* ---- looking ---- */

/* Due when what the stream has been given is complete; with `look`, the word has been read then. */
static CUresult condition_wait(struct condition *condition, struct stream *stream, bool look)
{
    struct session *session = condition->session;
    CUresult r = CUDA_SUCCESS;
    uint64_t behind;
    if (look)
        r = session->gpu->MemcpyDtoHAsync(condition->inner->seen, condition->call->args.condition.word,
                                          sizeof *condition->inner->seen, stream->handle);
    if (r == CUDA_SUCCESS)
        r = stream_mark_again(session, stream, &behind);
    if (r == CUDA_SUCCESS)
        condition->waiter = (struct waiter){ .number = stream->issued, .behind = behind, .finish = condition_due };
    return r;
}

static int behind_body_issue(struct session *session, struct call *call)
{
    struct condition *condition = call->condition;
    call->stream->issued = call->number;
    CUresult r = condition_wait(condition, call->stream,
                                condition->call->args.condition.kind == FLYT_CONDITION_WHILE);
    if (r == CUDA_SUCCESS) {
        completion_wait(session, call->stream, &condition->waiter);
    } else {
        condition->waiter.result = r;
        condition_due(session, &condition->waiter);
    }
    return (int)r;
}

static void behind_body_dropped(struct session *session, struct call *call, CUresult code)
{
    call->condition->waiter.result = code;
    condition_due(session, &call->condition->waiter);
}

static const struct operation behind_body = {
    .issue = behind_body_issue, .numbered = true, .own_number = true, .dropped = behind_body_dropped,
};

static const flyt_body *body_chosen(const condition_args *args, uint32_t value)
{
    uint32_t chosen = args->kind == FLYT_CONDITION_SWITCH ? value : value == 0;
    return chosen < args->bodies.bodies_len ? &args->bodies.bodies_val[chosen] : NULL;
}

/* False: a call of the body is none that a graph may keep. */
static bool body_begin(struct condition *condition, const flyt_body *body)
{
    struct session *session = condition->session;
    for (u_int i = 0; i < body->calls.calls_len; i++) {
        const flyt_graph_call *call = &body->calls.calls_val[i];
        if (!call_serve_inside(session, session->procedure_find(call->procedure), (uint8_t *)call->args.args_val,
                               call->args.args_len, condition->inner))
            return false;
    }
    struct call behind;
    memset(&behind, 0, sizeof behind);
    behind.procedure = condition->call->procedure;
    behind.stream = condition->inner;
    behind.condition = condition;
    condition->running = true;
    server_stream_enter(session, &behind, condition->inner->id);
    server_stream_submit(session, &behind, &behind_body);
    call_clear(&behind);
    return true;
}

static void condition_go_on(struct condition *condition)
{
    const condition_args *args = &condition->call->args.condition;
    const flyt_body *body = NULL;
    bool ended = condition->cancelled || condition->waiter.result != CUDA_SUCCESS ||
                 atomic_load(&condition->outer->context->ended) || atomic_load(&condition->session->ended);
    if (!ended && (!condition->running || args->kind == FLYT_CONDITION_WHILE))
        body = body_chosen(args, *condition->inner->seen);
    if (body && body_begin(condition, body))
        return;
    if (body)
        session_end(condition->session, "a call in a body of its graph cannot be kept");
    condition_end(condition);
}

void conditions_serve(struct session *session)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct conditions *all = &session->conditions;
    pthread_mutex_lock(&all->lock);
    struct condition *condition = all->due;
    all->due = NULL;
    all->last = &all->due;
    pthread_mutex_unlock(&all->lock);
    for (struct condition *next; condition; condition = next) {
        next = condition->next_due;
        condition_go_on(condition);
        executor_moved(session);
    }
}

/* ---- the call ---- */

static struct condition *condition_new(struct session *session, struct call *call, size_t bytes, CUresult *result)
{
    struct condition *condition = calloc(1, sizeof *condition);
    struct stream *inner = NULL;
    *result = condition ? gate_take(session, call->stream) : CUDA_ERROR_OUT_OF_MEMORY;
    if (*result == CUDA_SUCCESS)
        inner = stream_inner_take(session, call->stream->context, result);
    struct call *kept = inner ? call_keep(call) : NULL;
    if (!kept) {
        if (inner) {
            stream_inner_give(session, inner);
            *result = CUDA_ERROR_OUT_OF_MEMORY;
        }
        free(condition);
        return NULL;
    }
    stream_hold(call->stream);
    *condition = (struct condition){ .session = session, .outer = call->stream, .inner = inner, .call = kept,
                                     .bytes = bytes };
    list_append(&session->conditions.all, &condition->of_all);
    session->conditions.count++;
    inner->depth = call->stream->depth + 1;
    session->conditions.bytes += bytes;
    return condition;
}

static int condition_issue(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    /* Each one inside copies a part of it. Those never wait for room: the one outside would wait for them. */
    size_t bytes = stream->depth ? 0 : call->bytes * FLYT_MAX_CONDITION_DEPTH;
    if (stream->depth == FLYT_MAX_CONDITION_DEPTH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes && session->conditions.bytes && session->conditions.bytes + bytes > FLYT_MAX_GRAPH_BYTES)
        return OPERATION_LATER;
    CUresult r;
    struct condition *condition = condition_new(session, call, bytes, &r);
    if (!condition)
        return (int)r;
    r = condition_wait(condition, stream, true);
    if (r == CUDA_SUCCESS) {
        condition->ticket = ++stream->gate_ticket;
        r = session->gpu->StreamWaitValue32(stream->handle, stream->gate_address, condition->ticket,
                                            CU_STREAM_WAIT_VALUE_GEQ);
    }
    if (r == CUDA_SUCCESS)
        completion_wait(session, stream, &condition->waiter);
    else
        condition_end(condition);
    return (int)r;
}
static const struct operation condition_operation = { .issue = condition_issue, .numbered = true };

void serve_condition(struct session *session, struct call *call)
{
    const condition_args *args = &call->args.condition;
    if (!server_stream_enter(session, call, args->stream))
        return;
    bool good = args->kind >= FLYT_CONDITION_IF && args->kind <= FLYT_CONDITION_SWITCH && args->word % 4 == 0 &&
                memory_known(session, args->word, sizeof(uint32_t));
    if (args->kind == FLYT_CONDITION_WHILE && args->bodies.bodies_len > 1)
        good = false;
    if (!good)
        stream_refuse(session, call, CUDA_ERROR_INVALID_VALUE);
    else if (!conditions_offered(session))
        stream_refuse(session, call, CUDA_ERROR_NOT_SUPPORTED);
    else
        server_stream_submit(session, call, &condition_operation);
}
