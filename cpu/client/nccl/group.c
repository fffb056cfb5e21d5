/*
 * group.c: ncclGroupStart and ncclGroupEnd. What a thread calls between them is done at the end of the outermost group:
 * first communicators are made, all at a time; then each communicator has its collectives, in their order, and its
 * sends and receives as one operation, so that they do not wait for each other.
 */
#include "cpu/client/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local struct nccl_group {
    unsigned depth;
    struct nccl_job *jobs;
    size_t count, room;
    nccl_result failed;
} group;

bool nccl_in_group(void) { return group.depth > 0; }

nccl_result nccl_group_failed(nccl_result result)
{
    if (group.depth && group.failed == NCCL_SUCCESS && result != NCCL_IN_PROGRESS)
        group.failed = result;
    return result;
}

/* ---- making communicators ---- */

static void *make_thread(void *context)
{
    struct nccl_job *job = context;
    return (void *)(uintptr_t)nccl_make(job->comm);
}

static nccl_result make_all(struct nccl_job *jobs, size_t count)
{
    nccl_result result = NCCL_SUCCESS;
    pthread_t *threads = calloc(count, sizeof *threads);
    bool *started = calloc(count, sizeof *started);
    if (!threads || !started) {
        free(threads);
        free(started);
        return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for threads");
    }
    for (size_t i = 0; i < count; i++)
        if (jobs[i].kind == NCCL_JOB_MAKE)
            started[i] = pthread_create(&threads[i], NULL, make_thread, &jobs[i]) == 0;
    for (size_t i = 0; i < count; i++) {
        void *one = NULL;
        if (started[i])
            pthread_join(threads[i], &one);
        else if (jobs[i].kind == NCCL_JOB_MAKE)
            one = make_thread(&jobs[i]);
        result = result == NCCL_SUCCESS ? (nccl_result)(uintptr_t)one : result;
    }
    free(threads);
    free(started);
    return result;
}

/* ---- operations ---- */

static nccl_result call_now(const struct nccl_job *job)
{
    return nccl_of_core(core_comm_call(job->comm->context, job->stream, job->comm->id, &job->call), "a collective",
                        NULL);
}

/* `to` waits for what `from` was given. */
static int order(core_context *context, core_stream from, core_stream to)
{
    core_event event;
    int code = core_event_create(context, 2 /* no times */, &event);
    if (code)
        return code;
    code = core_event_record(context, event, from, 0);
    if (!code)
        code = core_stream_wait(context, to, event, 0);
    core_event_destroy(event);
    return code;
}

/* All messages of the communicator from this one on: in the first one's stream, in which the others' wait, and which
   waits for them. */
static nccl_result messages_now(struct nccl_job *jobs, size_t count)
{
    struct nccl_comm *comm = jobs[0].comm;
    struct core_comm_message *list = calloc(count, sizeof *list);
    unsigned found = 0;
    int code = CORE_OK;
    if (!list)
        return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for messages");
    for (int turn = 0; turn < 2 && !code; turn++) {
        for (size_t i = 0; i < count && !code; i++) {
            if (jobs[i].kind != NCCL_JOB_MESSAGE || jobs[i].comm != comm)
                continue;
            if (turn == 0)
                list[found++] = jobs[i].message;
            if (jobs[i].stream != jobs[0].stream)
                code = turn == 0 ? order(comm->context, jobs[i].stream, jobs[0].stream)
                                 : order(comm->context, jobs[0].stream, jobs[i].stream);
            if (turn == 1)
                jobs[i].comm = NULL; /* it is done */
        }
        if (turn == 0 && !code)
            code = core_comm_messages(comm->context, jobs[0].stream, comm->id, list, found);
    }
    free(list);
    return nccl_of_core(code, "send and receive", NULL);
}

static nccl_result do_all(struct nccl_job *jobs, size_t count)
{
    nccl_result result = NCCL_SUCCESS;
    for (size_t i = 0; i < count && result == NCCL_SUCCESS; i++)
        if (jobs[i].kind == NCCL_JOB_CALL)
            result = call_now(&jobs[i]);
    for (size_t i = 0; i < count && result == NCCL_SUCCESS; i++)
        if (jobs[i].kind == NCCL_JOB_MESSAGE && jobs[i].comm)
            result = messages_now(&jobs[i], count - i);
    return result;
}

static nccl_result carry_out(struct nccl_job *jobs, size_t count)
{
    bool makes = false;
    for (size_t i = 0; i < count; i++)
        makes |= jobs[i].kind == NCCL_JOB_MAKE;
    nccl_result result = makes ? make_all(jobs, count) : NCCL_SUCCESS;
    return result == NCCL_SUCCESS ? do_all(jobs, count) : result;
}

static nccl_result keep(const struct nccl_job *job)
{
    if (group.count == group.room) {
        size_t room = group.room ? 2 * group.room : 32;
        struct nccl_job *more = realloc(group.jobs, room * sizeof *more);
        if (!more)
            return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for a group");
        group.jobs = more;
        group.room = room;
    }
    group.jobs[group.count++] = *job;
    return NCCL_SUCCESS;
}

nccl_result nccl_submit(const struct nccl_job *job)
{
    struct nccl_job now = *job;
    return group.depth ? keep(job) : job->kind == NCCL_JOB_MAKE ? nccl_make(now.comm) : carry_out(&now, 1);
}

nccl_result ncclGroupStart(void)
{
    group.depth++;
    return NCCL_SUCCESS;
}

nccl_result ncclGroupEnd(void)
{
    NCCL_ENTER();
    if (group.depth == 0)
        return nccl_fail(NCCL_INVALID_USAGE, "ncclGroupEnd: no group has begun");
    if (--group.depth > 0)
        return NCCL_SUCCESS;
    struct nccl_group mine = group;
    group = (struct nccl_group){ 0 };
    nccl_result result = mine.failed;
    if (result == NCCL_SUCCESS)
        result = mine.count ? carry_out(mine.jobs, mine.count) : NCCL_SUCCESS;
    else
        for (size_t i = 0; i < mine.count; i++)
            if (mine.jobs[i].kind == NCCL_JOB_MAKE) { /* another one has failed before any was begun */
                *mine.jobs[i].comm->making.out = NULL;
                nccl_comm_free(mine.jobs[i].comm);
            }
    free(mine.jobs);
    return result;
}

NCCL_ALIAS(ncclGroupStart);
NCCL_ALIAS(ncclGroupEnd);
