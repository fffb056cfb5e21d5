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
#include "cpu/server/graph/condition.h"
#include "cpu/server/stream/host_function.h"
#include "cpu/server/stream/inside.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

struct condition {
    struct inside inside;                 /* waits for the copy of the word, or for the end of a body */
    struct list of_all;
    struct stream *outer, *inner;         /* both held */
    struct call *call;                    /* has the bodies */
    uint32_t ticket;                      /* which opens the outer stream's gate */
    size_t bytes;                         /* that it counts for; inside another one 0 */
    bool running;                         /* a body has begun */
    bool cancelled;
};

bool conditions_offered(const struct session *session)
{
    return session->gpu->StreamWaitValue32 && strcmp(session->gpu->kind, "software") == 0;
}

uint64_t conditions_count(const struct session *session) { return session->conditions->count; }

/* ---- the end ---- */

static void condition_free(struct condition *condition)
{
    struct session *session = condition->inside.session;
    list_remove(&condition->of_all);
    session->conditions->count--;
    session->conditions->bytes -= condition->bytes;
    stream_inner_give(session, condition->inner);
    stream_drop(session, condition->outer);
    call_free(condition->call);
    free(condition);
}

static void condition_end(struct condition *condition)
{
    struct session *session = condition->inside.session;
    gate_pass(session, condition->outer, condition->ticket);
    condition_free(condition);
    if (atomic_load(&session->executor.deferred_calls))
        executor_kick(session);                       /* one may have waited for the bytes */
}

void conditions_release_all(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    const struct list *all = &session->conditions->all;
    for (struct list *link = list_first(all); link; link = list_next(all, link)) {
        struct condition *condition = LIST_OBJECT(link, struct condition, of_all);
        if (context && condition->outer->context != context)
            continue;
        condition->cancelled = true;
        gate_pass(session, condition->outer, condition->ticket);
    }
}

void conditions_stop(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    for (struct list *link; (link = list_first(&session->conditions->all));)
        condition_free(LIST_OBJECT(link, struct condition, of_all));
    pthread_mutex_unlock(&session->lock);
}

/* ---- looking ---- */

static const flyt_body *body_chosen(const condition_args *args, uint32_t value)
{
    uint32_t chosen = args->kind == FLYT_CONDITION_SWITCH ? value : value == 0;
    return chosen < args->bodies.bodies_len ? &args->bodies.bodies_val[chosen] : NULL;
}

static void condition_go_on(struct inside *inside)
{
    struct condition *condition = (struct condition *)inside;
    const condition_args *args = &condition->call->args.condition;
    const flyt_body *body = NULL;
    bool ended = condition->cancelled || inside->waiter.result != CUDA_SUCCESS ||
                 atomic_load(&condition->outer->context->ended) || atomic_load(&inside->session->ended);
    if (!ended && (!condition->running || args->kind == FLYT_CONDITION_WHILE))
        body = body_chosen(args, *inside->seen);
    condition->running = true;
    if (body && inside_run(inside, condition->inner, condition->call->procedure, body->calls.calls_val,
                           body->calls.calls_len))
        return;
    if (body)
        session_end(inside->session, "a call in a body of its graph cannot be kept");
    condition_end(condition);
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
    *condition = (struct condition){ .inside = { .session = session, .go_on = condition_go_on,
                                                 .word = kept->args.condition.word, .seen = inner->seen,
                                                 .looks = kept->args.condition.kind == FLYT_CONDITION_WHILE },
                                     .outer = call->stream, .inner = inner, .call = kept, .bytes = bytes };
    list_append(&session->conditions->all, &condition->of_all);
    session->conditions->count++;
    inner->depth = call->stream->depth + 1;
    session->conditions->bytes += bytes;
    return condition;
}

static int condition_issue(struct session *session, struct call *call)
{
    struct stream *stream = call->stream;
    /* Each one inside copies a part of it. Those never wait for room: the one outside would wait for them. */
    size_t bytes = stream->depth ? 0 : call->bytes * FLYT_MAX_CONDITION_DEPTH;
    if (stream->depth == FLYT_MAX_CONDITION_DEPTH)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes && session->conditions->bytes && session->conditions->bytes + bytes > FLYT_MAX_GRAPH_BYTES)
        return OPERATION_LATER;
    CUresult r;
    struct condition *condition = condition_new(session, call, bytes, &r);
    if (!condition)
        return (int)r;
    r = inside_wait(&condition->inside, stream, true);
    if (r == CUDA_SUCCESS)
        r = gate_wait(session, stream, &condition->ticket);
    if (r == CUDA_SUCCESS)
        completion_wait(session, stream, &condition->inside.waiter);
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
