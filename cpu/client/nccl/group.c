/*
 * group.c: ncclGroupStart and ncclGroupEnd. What a thread calls between them is done at the end of the outermost group:
 * first communicators are made, all at a time; then each communicator has its collectives, in their order, and its
 * sends and receives as one operation, so that they do not wait for each other; at last those that are finalized are
 * waited for. Where communicators do not block, the group's result is ncclInProgress.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/comm/plan/plan.h"
#include "cpu/comm/reduce/reduce.h"

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

/* Those of the list that are to be made will not be. */
static void make_none(const struct nccl_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].kind == NCCL_JOB_MAKE) {
            *jobs[i].comm->making.out = NULL;
            nccl_comm_drop(jobs[i].comm);
        }
}

static void *make_thread(void *context)
{
    struct nccl_job *job = context;
    return (void *)(uintptr_t)nccl_make(job->comm);
}

/* Of several results the first failure counts, then NCCL_IN_PROGRESS. */
static void worse(nccl_result *all, nccl_result one)
{
    if (*all == NCCL_SUCCESS || (*all == NCCL_IN_PROGRESS && one != NCCL_SUCCESS))
        *all = one;
}

static bool failed(nccl_result result) { return result != NCCL_SUCCESS && result != NCCL_IN_PROGRESS; }

/* Before another thread makes it, and frees it. */
static bool waits_for(const struct nccl_job *job) { return job->kind == NCCL_JOB_MAKE && job->waits; }

static nccl_result make_all(struct nccl_job *jobs, size_t count)
{
    nccl_result result = NCCL_SUCCESS;
    atomic_int failure = NCCL_SUCCESS;
    pthread_t *threads = calloc(count, sizeof *threads);
    bool *started = calloc(count, sizeof *started);
    if (!threads || !started) {
        free(threads);
        free(started);
        make_none(jobs, count);
        return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for threads");
    }
    for (size_t i = 0; i < count; i++)
        if (jobs[i].kind == NCCL_JOB_MAKE)
            jobs[i].comm->making.group = jobs[i].waits ? &failure : NULL;
    for (size_t i = 0; i < count; i++)
        if (waits_for(&jobs[i]))
            started[i] = pthread_create(&threads[i], NULL, make_thread, &jobs[i]) == 0;
    for (size_t i = 0; i < count; i++) {
        void *one = NULL;
        if (started[i])
            pthread_join(threads[i], &one);
        else if (waits_for(&jobs[i]))
            one = make_thread(&jobs[i]);
        else if (jobs[i].kind == NCCL_JOB_MAKE)
            one = (void *)(uintptr_t)nccl_make_behind(jobs[i].comm);
        worse(&result, (nccl_result)(uintptr_t)one);
    }
    free(threads);
    free(started);
    return failure ? (nccl_result)failure : result;
}

/* ---- operations ---- */

static nccl_result here_still(const struct nccl_job *job)
{
    return nccl_comm_ended(job->comm)
               ? nccl_fail(
                     NCCL_INVALID_USAGE,
                     "ncclGroupEnd: a communicator was destroyed or aborted after an operation of it in the group")
               : NCCL_SUCCESS;
}

static nccl_result call_now(const struct nccl_job *job)
{
    nccl_result result = here_still(job);
    if (result != NCCL_SUCCESS)
        return result;
    core_context *context = job->comm->context;
    struct graph_collective c = { .comm = job->comm->id, .call = job->call };
    int code = nccl_stage_begin(context, job->stream, &c.call.in, job->in_size, true);
    if (!code)
        code = nccl_stage_begin(context, job->stream, &c.call.out, job->out_size, false);
    if (!code)
        code = issue_collective(context, job->stream, &c);
    int in = nccl_stage_end(context, job->stream, job->call.in, c.call.in, job->in_size, false);
    int out = nccl_stage_end(context, job->stream, job->call.out, c.call.out, job->out_size, !code);
    return nccl_of_core(code ? code : in ? in : out, "a collective", NULL);
}

/* `to` waits for what `from` was given. */
static int order(core_context *context, core_stream from, core_stream to)
{
    core_event event;
    int code = core_event_create(context, 2 /* no times */, &event);
    if (code)
        return code;
    code = issue_record(context, event, from, 0);
    if (!code)
        code = issue_wait(context, to, event, 0);
    issue_event_destroy(event);
    return code;
}

static bool is_message_of(const struct nccl_job *job, const struct nccl_comm *comm)
{
    return job->kind == NCCL_JOB_MESSAGE && !job->done && job->comm == comm;
}

/* The stream waits for those of the other messages, and has their bytes on the device. list: as many as there are. */
static int messages_begin(const struct nccl_job *jobs, size_t count, struct core_comm_message *list, unsigned *found)
{
    const struct nccl_comm *comm = jobs[0].comm;
    const core_stream stream = jobs[0].stream;
    int code = CORE_OK;
    *found = 0;
    for (size_t i = 0; i < count && !code; i++) {
        if (!is_message_of(&jobs[i], comm))
            continue;
        struct core_comm_message *m = &list[(*found)++];
        *m = jobs[i].message;
        if (jobs[i].stream != stream)
            code = order(comm->context, jobs[i].stream, stream);
        if (!code)
            code = nccl_stage_begin(comm->context, stream, &m->address, m->size, m->sends);
    }
    return code;
}

/* And they for it. The jobs are done. */
static int messages_end(struct nccl_job *jobs, size_t count, const struct core_comm_message *list, unsigned found,
                        int code)
{
    const struct nccl_comm *comm = jobs[0].comm;
    const core_stream stream = jobs[0].stream;
    int result = CORE_OK;
    for (size_t i = 0, n = 0; i < count && n < found; i++) {
        if (!is_message_of(&jobs[i], comm))
            continue;
        const struct core_comm_message *m = &list[n++];
        int ended =
            nccl_stage_end(comm->context, stream, jobs[i].message.address, m->address, m->size, !code && !m->sends);
        result = result ? result : ended;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_message_of(&jobs[i], comm))
            continue;
        if (jobs[i].stream != stream && !code && !result)
            result = order(comm->context, stream, jobs[i].stream);
        jobs[i].done = true;
    }
    return code ? code : result;
}

/* All messages of the communicator from this one on: in the first one's stream, in which the others' wait, and which
   waits for them. */
static nccl_result messages_now(struct nccl_job *jobs, size_t count)
{
    const struct nccl_comm *comm = jobs[0].comm;
    struct core_comm_message *list = calloc(count, sizeof *list);
    unsigned found;
    nccl_result result = here_still(&jobs[0]);
    if (result != NCCL_SUCCESS) {
        free(list);
        return result;
    }
    if (!list)
        return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for messages");
    int code = messages_begin(jobs, count, list, &found);
    if (!code)
        code = issue_collective(comm->context, jobs[0].stream,
                                &(struct graph_collective){ .comm = comm->id, .messages = list, .count = found });
    code = messages_end(jobs, count, list, found, code);
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
        if (jobs[i].kind == NCCL_JOB_MESSAGE && !jobs[i].done)
            result = messages_now(&jobs[i], count - i);
    return result;
}

static nccl_result carry_out(struct nccl_job *jobs, size_t count)
{
    bool makes = false;
    for (size_t i = 0; i < count; i++)
        makes |= jobs[i].kind == NCCL_JOB_MAKE;
    nccl_result result = makes ? make_all(jobs, count) : NCCL_SUCCESS;
    if (!failed(result))
        worse(&result, do_all(jobs, count));
    for (size_t i = 0; i < count && !failed(result); i++)
        if (jobs[i].kind == NCCL_JOB_FINALIZE)
            worse(&result, nccl_finalize(jobs[i].comm));
    return result;
}

static nccl_result keep(const struct nccl_job *job)
{
    if (group.count == group.room) {
        size_t room = group.room ? 2 * group.room : 32;
        struct nccl_job *more = realloc(group.jobs, room * sizeof *more);
        if (!more) {
            make_none(job, 1);
            return nccl_fail(NCCL_SYSTEM_ERROR, "no memory for a group");
        }
        group.jobs = more;
        group.room = room;
    }
    if (job->kind != NCCL_JOB_MAKE && !nccl_comm_enter(job->comm)) /* up to ncclGroupEnd */
        return nccl_fail(NCCL_INVALID_ARGUMENT, "a group: the communicator has been destroyed or aborted");
    group.jobs[group.count++] = *job;
    return NCCL_SUCCESS;
}

nccl_result nccl_submit(const struct nccl_job *job)
{
    struct nccl_job now = *job;
    if (group.depth)
        return keep(job);
    if (job->kind != NCCL_JOB_MAKE)
        return carry_out(&now, 1);
    return job->waits ? nccl_make(job->comm) : nccl_make_behind(job->comm);
}

nccl_result ncclGroupStart(void)
{
    group.depth++;
    return NCCL_SUCCESS;
}

/* ---- simulation ---- */

/* Before a server has measured its network. */
static const struct comm_table usual = COMM_TABLE_USUAL;

/* Microseconds. Messages of a communicator are under way at a time, so each counts with its bytes only. */
static double time_of(const struct nccl_job *job)
{
    const unsigned ranks = (unsigned)job->comm->ranks;
    if (job->kind == NCCL_JOB_MESSAGE)
        return (double)job->message.size / usual.mb_per_s;
    if (job->kind != NCCL_JOB_CALL)
        return 0;
    const enum comm_kind kind = (enum comm_kind)job->call.kind;
    const bool parts = kind != COMM_BROADCAST && kind != COMM_REDUCE && kind != COMM_ALL_REDUCE;
    const uint64_t bytes = job->call.count * comm_type_size((enum comm_type)job->call.type) * (parts ? ranks : 1);
    return comm_cost(kind, bytes, ranks, &usual);
}

/* Communicators do not wait for each other: that of the one which takes longest. */
static float time_of_all(const struct nccl_job *jobs, size_t count)
{
    double longest = 0;
    for (size_t i = 0; i < count; i++) {
        double time = 0;
        bool messages = false;
        for (size_t k = 0; k < count; k++) {
            if (jobs[k].comm != jobs[i].comm)
                continue;
            time += time_of(&jobs[k]);
            messages |= jobs[k].kind == NCCL_JOB_MESSAGE;
        }
        time += messages ? usual.latency_us : 0;
        longest = time > longest ? time : longest;
    }
    return (float)longest;
}

/* info: NULL: the group is carried out. */
static nccl_result group_end(struct nccl_simulation *info, const char *function)
{
    if (group.depth == 0)
        return nccl_fail(NCCL_INVALID_USAGE, "%s: no group has begun", function);
    if (--group.depth > 0)
        return NCCL_SUCCESS;
    struct nccl_group mine = group;
    group = (struct nccl_group){ 0 };
    nccl_result result = mine.failed;
    if (result == NCCL_SUCCESS && info && info->magic != NCCL_SIMULATION_MAGIC)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: simInfo was not initialised by NCCL_SIM_INFO_INITIALIZER",
                           function);
    if (result == NCCL_SUCCESS && info)
        info->time = time_of_all(mine.jobs, mine.count);
    if (result == NCCL_SUCCESS && !info)
        result = mine.count ? carry_out(mine.jobs, mine.count) : NCCL_SUCCESS;
    else
        make_none(mine.jobs, mine.count); /* another one has failed before any was begun */
    for (size_t i = 0; i < mine.count; i++)
        if (mine.jobs[i].kind != NCCL_JOB_MAKE)
            nccl_comm_leave(mine.jobs[i].comm);
    free(mine.jobs);
    return result;
}

nccl_result ncclGroupEnd(void)
{
    NCCL_ENTER();
    return group_end(NULL, __func__);
}

nccl_result ncclGroupSimulateEnd(struct nccl_simulation *info)
{
    NCCL_ENTER();
    return group_end(info, __func__);
}
