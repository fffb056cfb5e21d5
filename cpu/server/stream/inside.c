/*
 * inside.c: work that the server itself gives streams. The completion thread sees its end; the executor, which alone
 * gives work to the driver, then goes on.
 */
#include "cpu/server/session.h"
#include "cpu/server/stream/inside.h"

#include <string.h>

#include "cpu/common/lock.h"

int insides_start(struct session *session)
{
    session->insides->last = &session->insides->due;
    return pthread_mutex_init(&session->insides->lock, NULL);
}

void insides_stop(struct session *session) { pthread_mutex_destroy(&session->insides->lock); }

void inside_due(struct inside *inside)
{
    struct insides *all = inside->session->insides;
    inside->next_due = NULL;
    pthread_mutex_lock(&all->lock);
    *all->last = inside;
    all->last = &inside->next_due;
    pthread_mutex_unlock(&all->lock);
    executor_kick(inside->session);
}

static void waited(struct session *session, struct waiter *waiter)
{
    (void)session;
    inside_due((struct inside *)waiter);
}

CUresult inside_wait(struct inside *inside, struct stream *stream, bool look)
{
    struct session *session = inside->session;
    CUresult r = CUDA_SUCCESS;
    uint64_t behind;
    if (look)
        r = session->gpu->MemcpyDtoHAsync(inside->seen, inside->word, sizeof *inside->seen, stream->handle);
    if (r == CUDA_SUCCESS)
        r = stream_mark_again(session, stream, &behind);
    if (r == CUDA_SUCCESS)
        inside->waiter = (struct waiter){ .number = stream->issued, .behind = behind, .finish = waited };
    return r;
}

/* ---- behind the calls ---- */

static int behind_issue(struct session *session, struct call *call)
{
    struct inside *inside = call->inside;
    call->stream->issued = call->number;
    CUresult r = inside_wait(inside, call->stream, inside->looks);
    if (r == CUDA_SUCCESS) {
        completion_wait(session, call->stream, &inside->waiter);
    } else {
        inside->waiter.result = r;
        inside_due(inside);
    }
    return (int)r;
}

static void behind_dropped(struct session *session, struct call *call, CUresult code)
{
    (void)session;
    call->inside->waiter.result = code;
    inside_due(call->inside);
}

static const struct operation behind_operation = {
    .issue = behind_issue, .numbered = true, .own_number = true, .dropped = behind_dropped,
};

bool inside_run(struct inside *inside, struct stream *stream, const struct procedure *procedure,
                const flyt_graph_call *calls, unsigned count)
{
    struct session *session = inside->session;
    for (unsigned i = 0; i < count; i++)
        if (!call_serve_inside(session, procedure_find(calls[i].procedure), (uint8_t *)calls[i].args.args_val,
                               calls[i].args.args_len, stream))
            return false;
    struct call behind;
    memset(&behind, 0, sizeof behind);
    behind.procedure = procedure;
    behind.stream = stream;
    behind.inside = inside;
    server_stream_enter(session, &behind, stream->id);
    server_stream_submit(session, &behind, &behind_operation);
    call_clear(&behind);
    return true;
}

/* ---- the executor ---- */

void insides_serve(struct session *session)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct insides *all = session->insides;
    pthread_mutex_lock(&all->lock);
    struct inside *inside = all->due;
    all->due = NULL;
    all->last = &all->due;
    pthread_mutex_unlock(&all->lock);
    for (struct inside *next; inside; inside = next) {
        next = inside->next_due;
        inside->go_on(inside);
        executor_moved(session);
    }
}
