/*
 * group.c: ncclGroupStart and ncclGroupEnd. What a thread calls between them is done at the end of the outermost group:
 * first communicators are made, all at a time; then windows are registered; then operations are given to their streams
 * (carry.c); at last the communicators that are finalized are waited for. Where communicators do not block, the group's
 * result is ncclInProgress.
 */
#include "cpu/client/nccl/nccl.h"

#include <stdlib.h>

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

/* ---- all of it ---- */

static nccl_result carry_out(struct nccl_job *jobs, size_t count)
{
    bool makes = false;
    for (size_t i = 0; i < count; i++)
        makes |= jobs[i].kind == NCCL_JOB_MAKE;
    nccl_result result = makes ? make_all(jobs, count) : NCCL_SUCCESS;
    if (!failed(result))
        worse(&result, nccl_windows_make(jobs, count));
    if (!failed(result))
        worse(&result, nccl_carry_out(jobs, count));
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

/* Microseconds. Messages and puts of a communicator are under way at a time: each counts with its bytes only. */
static double time_of(const struct nccl_job *job)
{
    const unsigned ranks = (unsigned)job->comm->ranks;
    if (job->kind == NCCL_JOB_MESSAGE || job->kind == NCCL_JOB_PUT)
        return (double)(job->kind == NCCL_JOB_PUT ? job->put.size : job->message.size) / usual.mb_per_s;
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
            messages |= jobs[k].kind == NCCL_JOB_MESSAGE || jobs[k].kind == NCCL_JOB_PUT;
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
    for (size_t i = 0; i < mine.count; i++) {
        if (mine.jobs[i].kind == NCCL_JOB_WAIT)
            free(mine.jobs[i].wait.list);
        if (mine.jobs[i].kind != NCCL_JOB_MAKE)
            nccl_comm_leave(mine.jobs[i].comm);
    }
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
