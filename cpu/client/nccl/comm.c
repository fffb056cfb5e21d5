/* comm.c: what a communicator is asked, and how it ends. */
#include "cpu/client/nccl/nccl.h"

#include <time.h>

#include "cpu/common/clock.h"

#define ASK_NS CLOCK_NS_PER_MS /* between two questions to the server */
/* Between two looks whether operations are complete: the first ones follow soon. */
enum { LOOK_FIRST_NS = 50 * 1000, LOOK_LAST_NS = 2000 * 1000 };

/* ---- checks ---- */

nccl_result nccl_comm_known(const struct nccl_comm *comm, const char *function)
{
    return comm && !nccl_comm_ended(comm)
               ? NCCL_SUCCESS
               : nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no such communicator", function);
}

/* As far as this process knows. */
static nccl_result state_of(const struct nccl_comm *comm)
{
    return atomic_load(&comm->children) ? NCCL_IN_PROGRESS : (nccl_result)atomic_load(&comm->state);
}

nccl_result nccl_comm_idle(const struct nccl_comm *comm, const char *function)
{
    nccl_result result = nccl_comm_known(comm, function);
    return result == NCCL_SUCCESS && state_of(comm) == NCCL_IN_PROGRESS
               ? nccl_fail(NCCL_INVALID_ARGUMENT,
                           "%s: the communicator is not ready yet: ncclCommGetAsyncError says ncclInProgress", function)
               : result;
}

nccl_result nccl_comm_check(const struct nccl_comm *comm, const char *function)
{
    nccl_result result = nccl_comm_idle(comm, function);
    if (result == NCCL_SUCCESS && (state_of(comm) != NCCL_SUCCESS || !comm->made))
        return nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator could not be made, or has ended", function);
    return result;
}

nccl_result nccl_comm_open(const struct nccl_comm *comm, const char *function)
{
    nccl_result result = nccl_comm_check(comm, function);
    if (result == NCCL_SUCCESS && comm->finalized)
        result = nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator has been finalized", function);
    if (result == NCCL_SUCCESS && comm->suspended)
        result = nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator is suspended; ncclCommResume ends that", function);
    return result;
}

/* ---- how it is ---- */

/* False, or the server was asked less than ASK_NS ago. */
static bool may_ask(struct nccl_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    uint64_t now = clock_now();
    bool ask = comm->made && now - comm->asked >= ASK_NS;
    comm->asked = ask ? now : comm->asked;
    pthread_mutex_unlock(&comm->lock);
    return ask;
}

/* Asks the server: NCCL_SUCCESS, or why it has ended, which becomes its state. */
static nccl_result ask(struct nccl_comm *comm)
{
    char why[CORE_WHY_SIZE];
    int status = 0, code = core_comm_status(comm->id, &status, why);
    nccl_result result = NCCL_SUCCESS;
    if (code)
        result = nccl_of_core(code, "the GPU server of a communicator", NULL);
    else if (status)
        result = nccl_fail(NCCL_REMOTE_ERROR, "a communicator has ended: %s", why);
    if (result != NCCL_SUCCESS)
        atomic_store(&comm->state, (int)result);
    return result;
}

/* Whether operations of it are under way still. Of one that has ended there are none. */
static bool is_busy(struct nccl_comm *comm)
{
    unsigned operations = 0;
    return comm->made && core_comm_pending(comm->id, &operations) == CORE_OK && operations > 0;
}

nccl_result ncclCommGetAsyncError(struct nccl_comm *comm, nccl_result *error)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && !error)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: asyncError is NULL", __func__);
    if (result != NCCL_SUCCESS)
        return result;
    *error = state_of(comm);
    const bool flushing = comm->flushing;
    if (*error == NCCL_SUCCESS && may_ask(comm)) {
        comm->flushing = flushing && is_busy(comm);
        *error = ask(comm);
    }
    if (*error == NCCL_SUCCESS && comm->flushing)
        *error = NCCL_IN_PROGRESS;
    return NCCL_SUCCESS;
}

/* `out` is where the caller wants the answer; `name` is what NCCL calls that argument. */
static nccl_result can_answer(const struct nccl_comm *comm, const void *out, const char *function, const char *name)
{
    nccl_result result = nccl_comm_known(comm, function);
    if (result == NCCL_SUCCESS && !out)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %s is NULL", function, name);
    return result == NCCL_SUCCESS ? nccl_comm_idle(comm, function) : result;
}

nccl_result ncclCommCount(const struct nccl_comm *comm, int *count)
{
    NCCL_USE(comm);
    nccl_result result = can_answer(comm, count, __func__, "count");
    if (result == NCCL_SUCCESS)
        *count = comm->ranks;
    return result;
}

nccl_result ncclCommCuDevice(const struct nccl_comm *comm, int *device)
{
    NCCL_USE(comm);
    nccl_result result = can_answer(comm, device, __func__, "device");
    if (result == NCCL_SUCCESS)
        *device = comm->device;
    return result;
}

nccl_result ncclCommUserRank(const struct nccl_comm *comm, int *rank)
{
    NCCL_USE(comm);
    nccl_result result = can_answer(comm, rank, __func__, "rank");
    if (result == NCCL_SUCCESS)
        *rank = comm->rank;
    return result;
}

/* ---- ending ---- */

/* ncclCommFinalize did not wait, and operations are under way still. */
static bool is_flushing(struct nccl_comm *comm)
{
    if (comm->flushing && !comm->blocking)
        comm->flushing = is_busy(comm);
    return comm->flushing && !comm->blocking;
}

/* Waits until all operations that it was given are complete, or it has ended. */
static void flush(struct nccl_comm *comm)
{
    struct timespec pause = { .tv_nsec = LOOK_FIRST_NS };
    while (!nccl_comm_ended(comm) && is_busy(comm) && ask(comm) == NCCL_SUCCESS) {
        nanosleep(&pause, NULL);
        pause.tv_nsec = pause.tv_nsec < LOOK_LAST_NS / 2 ? 2 * pause.tv_nsec : LOOK_LAST_NS;
    }
}

nccl_result nccl_finalize(struct nccl_comm *comm)
{
    if (!comm->blocking)
        return NCCL_IN_PROGRESS;
    flush(comm);
    comm->flushing = false;
    if (nccl_comm_ended(comm))
        return nccl_fail(NCCL_INTERNAL_ERROR, "ncclCommFinalize: another thread has aborted the communicator");
    return ask(comm);
}

nccl_result ncclCommFinalize(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    if (!comm)
        return NCCL_SUCCESS;
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && comm->revoked)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator has been revoked", __func__);
    if (result == NCCL_SUCCESS)
        result = nccl_comm_check(comm, __func__);
    if (result == NCCL_SUCCESS && atomic_exchange(&comm->finalized, true))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator has been finalized already", __func__);
    if (result == NCCL_SUCCESS) {
        comm->flushing = true;
        result = nccl_submit(&(struct nccl_job){ .comm = comm, .kind = NCCL_JOB_FINALIZE });
    }
    return nccl_group_failed(result);
}

static nccl_result end(struct nccl_comm *comm, const char *abort)
{
    if (!nccl_comm_end(comm))
        return NCCL_INVALID_ARGUMENT;
    comm->why = abort;
    /* Of one that is being made its maker has all of it yet, and ends it. */
    if (atomic_load(&comm->state) != NCCL_IN_PROGRESS)
        nccl_cut(comm, abort);
    return NCCL_SUCCESS;
}

nccl_result ncclCommDestroy(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    if (!comm)
        return NCCL_SUCCESS;
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && (state_of(comm) == NCCL_IN_PROGRESS || is_flushing(comm)))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator is not ready yet; ncclCommAbort ends it",
                           __func__);
    if (result != NCCL_SUCCESS)
        return result;
    if (state_of(comm) == NCCL_SUCCESS)
        flush(comm);
    return end(comm, NULL) == NCCL_SUCCESS ? NCCL_SUCCESS : nccl_comm_known(comm, __func__);
}

nccl_result ncclCommAbort(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    if (!comm)
        return NCCL_SUCCESS;
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && end(comm, "its program has aborted it") != NCCL_SUCCESS)
        result = nccl_comm_known(comm, __func__);
    return result;
}
