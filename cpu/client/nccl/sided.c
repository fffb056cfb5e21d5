/*
 * sided.c: puts, signals, and waits for signals. There is one signal and one context, number 0, as in NVIDIA's library
 * up to 2.30. Checks come in its order.
 */
#include "cpu/client/nccl/nccl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "cpu/comm/reduce/reduce.h"

/* The checks that puts, signals and waits share. */
static nccl_result sided_check(const struct nccl_comm *comm, core_stream stream, int type, uint64_t count,
                               const char *function)
{
    nccl_result result = nccl_operation_check(comm, stream, type, count, function);
    return result == NCCL_SUCCESS && !comm->sided
               ? nccl_fail(NCCL_INVALID_ARGUMENT,
                           "%s: the GPU server of a rank has no one-sided operations: it is of an earlier release",
                           function)
               : result;
}

static nccl_result peer_check(const struct nccl_comm *comm, int peer, const char *function)
{
    return peer < 0 || peer >= comm->ranks
               ? nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the peer is %d, of %d ranks", function, peer, comm->ranks)
               : NCCL_SUCCESS;
}

static nccl_result numbers_check(int signal, int context, unsigned flags, const char *function)
{
    return context || signal || flags ? nccl_fail(NCCL_INVALID_ARGUMENT,
                                                  "%s: ctx is %d, sigIdx %d, flags %u: each must be 0", function,
                                                  context, signal, flags)
                                      : NCCL_SUCCESS;
}

static nccl_result window_check(struct nccl_comm *comm, const struct nccl_window *window, const void *memory,
                                const char *function, struct core_comm_sided *put)
{
    struct nccl_window known;
    uint64_t size;
    if (!nccl_window_known(comm, window, (int)put->peer, &known, &size))
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: peerWin (%p) is no window of the communicator", function,
                         (const void *)window);
    if (!known.symmetric)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: peerWin was registered without NCCL_WIN_COLL_SYMMETRIC", function);
    if (!memory)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: localbuff is NULL", function);
    if (!nccl_window_covers(comm, memory, put->size))
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "%s: localbuff (%p, %" PRIu64 " bytes) is not all in a window of this rank that was "
                         "registered with NCCL_WIN_COLL_SYMMETRIC",
                         function, memory, put->size);
    if (put->offset > size || put->size > size - put->offset)
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "%s: %" PRIu64 " bytes at %" PRIu64 ": rank %u has registered %" PRIu64 " bytes", function,
                         put->size, put->offset, put->peer, size);
    put->window = known.number;
    return NCCL_SUCCESS;
}

nccl_result ncclPutSignal(const void *memory, size_t count, int type, int peer, struct nccl_window *window,
                          size_t offset, int signal, int context, unsigned flags, struct nccl_comm *comm,
                          core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    struct nccl_job job = { .comm = comm, .stream = stream, .kind = NCCL_JOB_PUT };
    nccl_result result = sided_check(comm, stream, type, count, __func__);
    if (result == NCCL_SUCCESS)
        result = peer_check(comm, peer, __func__);
    if (result == NCCL_SUCCESS)
        result = numbers_check(signal, context, flags, __func__);
    if (result != NCCL_SUCCESS)
        return nccl_group_failed(result);
    job.put = (struct core_comm_sided){ .peer = (unsigned)peer,
                                        .offset = offset,
                                        .address = (uint64_t)(uintptr_t)memory,
                                        .size = count * comm_type_size((enum comm_type)type) };
    result = window_check(comm, window, memory, __func__, &job.put);
    if (result == NCCL_SUCCESS)
        result = nccl_submit(&job);
    return nccl_group_failed(result);
}

nccl_result ncclSignal(int peer, int signal, int context, unsigned flags, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = sided_check(comm, stream, COMM_INT8, 0, __func__);
    if (result == NCCL_SUCCESS)
        result = peer_check(comm, peer, __func__);
    if (result == NCCL_SUCCESS)
        result = numbers_check(signal, context, flags, __func__);
    if (result == NCCL_SUCCESS)
        result = nccl_submit(&(struct nccl_job){
            .comm = comm, .stream = stream, .kind = NCCL_JOB_PUT, .put = { .peer = (unsigned)peer } });
    return nccl_group_failed(result);
}

static nccl_result signals_check(const struct nccl_comm *comm, const struct nccl_signals *one, const char *function)
{
    if (one->count <= 0)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: opCnt is %d; it must be positive", function, one->count);
    nccl_result result = numbers_check(one->signal, one->context, 0, function);
    return result == NCCL_SUCCESS ? peer_check(comm, one->peer, function) : result;
}

nccl_result ncclWaitSignal(int count, struct nccl_signals *list, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    struct nccl_job job = { .comm = comm, .stream = stream, .kind = NCCL_JOB_WAIT };
    nccl_result result = sided_check(comm, stream, COMM_INT8, 0, __func__);
    if (result == NCCL_SUCCESS && (!list || count <= 0))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: signalDescs is NULL, or nDesc is %d", __func__, count);
    for (int i = 0; i < count && result == NCCL_SUCCESS; i++)
        result = signals_check(comm, &list[i], __func__);
    if (result != NCCL_SUCCESS)
        return nccl_group_failed(result);
    job.wait = (struct nccl_wait){ calloc((unsigned)count, sizeof *job.wait.list), (unsigned)count };
    if (!job.wait.list)
        return nccl_group_failed(nccl_fail(NCCL_SYSTEM_ERROR, "%s: no memory", __func__));
    for (int i = 0; i < count; i++)
        job.wait.list[i] = (struct core_comm_sided){ .peer = (unsigned)list[i].peer, .size = (uint64_t)list[i].count };
    result = nccl_submit(&job);
    if (!nccl_in_group() || result != NCCL_SUCCESS)
        free(job.wait.list);
    return nccl_group_failed(result);
}
