/*
 * carry.c: operations go to their streams: each communicator has its puts and waits (as NVIDIA's library does it), then
 * its collectives, in their order, then its sends and receives as one operation, so that they do not wait for each
 * other.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/nccl/nccl.h"

#include <stdlib.h>

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

/* ---- puts and waits ---- */

static bool is_sided(const struct nccl_job *job) { return job->kind == NCCL_JOB_PUT || job->kind == NCCL_JOB_WAIT; }

/* To the first one's stream and back: it waits for the others' (before), or they for it. */
static int sided_order(const struct nccl_job *jobs, size_t count, bool before)
{
    const struct nccl_comm *comm = jobs[0].comm;
    const core_stream stream = jobs[0].stream;
    int code = CORE_OK;
    for (size_t i = 1; i < count && !code; i++)
        if (is_sided(&jobs[i]) && jobs[i].comm == comm && jobs[i].stream != stream)
            code = before ? order(comm->context, jobs[i].stream, stream) : order(comm->context, stream, jobs[i].stream);
    return code;
}

static int sided_issue(const struct nccl_job *job, bool waits, const struct core_comm_sided *list, unsigned count)
{
    int code = CORE_OK;
    for (unsigned at = 0, part; at < count && !code; at += part) {
        part = count - at < CORE_COMM_SIDED_MOST ? count - at : CORE_COMM_SIDED_MOST;
        const struct graph_collective c = {
            .comm = job->comm->id, .sided = list + at, .waits = waits, .count = part
        };
        code = issue_collective(job->comm->context, job->stream, &c);
    }
    return code;
}

/* All puts and waits of the communicator from this one on, in the first one's stream. Puts with no wait between them
   are one operation. */
static nccl_result sided_now(struct nccl_job *jobs, size_t count)
{
    const struct nccl_comm *comm = jobs[0].comm;
    struct core_comm_sided *puts = calloc(count, sizeof *puts);
    unsigned found = 0;
    nccl_result result = puts ? here_still(&jobs[0]) : nccl_fail(NCCL_SYSTEM_ERROR, "no memory for puts");
    if (result != NCCL_SUCCESS) {
        free(puts);
        return result;
    }
    int code = sided_order(jobs, count, true);
    for (size_t i = 0; i < count && !code; i++) {
        if (!is_sided(&jobs[i]) || jobs[i].comm != comm)
            continue;
        jobs[i].done = true;
        if (jobs[i].kind == NCCL_JOB_PUT) {
            puts[found++] = jobs[i].put;
            continue;
        }
        code = sided_issue(&jobs[0], false, puts, found);
        found = 0;
        if (!code)
            code = sided_issue(&jobs[0], true, jobs[i].wait.list, jobs[i].wait.count);
    }
    if (!code)
        code = sided_issue(&jobs[0], false, puts, found);
    if (!code)
        code = sided_order(jobs, count, false);
    free(puts);
    return nccl_of_core(code, "one-sided operations", NULL);
}

/* ---- all ---- */

nccl_result nccl_carry_out(struct nccl_job *jobs, size_t count)
{
    nccl_result result = NCCL_SUCCESS;
    for (size_t i = 0; i < count && result == NCCL_SUCCESS; i++)
        if (is_sided(&jobs[i]) && !jobs[i].done)
            result = sided_now(&jobs[i], count - i);
    for (size_t i = 0; i < count && result == NCCL_SUCCESS; i++)
        if (jobs[i].kind == NCCL_JOB_CALL)
            result = call_now(&jobs[i]);
    for (size_t i = 0; i < count && result == NCCL_SUCCESS; i++)
        if (jobs[i].kind == NCCL_JOB_MESSAGE && !jobs[i].done)
            result = messages_now(&jobs[i], count - i);
    return result;
}
