/* operation.c: collectives, send and receive, and pre-multiplied sums. */
#include "cpu/client/nccl/nccl.h"

#include <inttypes.h>
#include <string.h>

#include "cpu/comm/plan/parts.h"
#include "cpu/comm/reduce/reduce.h"

_Static_assert((int)COMM_TYPES == (int)NCCL_TYPES && (int)COMM_MULTIPLIED_SUM == (int)NCCL_OPERATIONS,
               "types and operations have NCCL's numbers");

/* ---- checks ---- */

static size_t size_of(int type) { return comm_type_size((enum comm_type)type); }

/* Managed memory, and the host's that is mapped there, is none. */
static bool is_device_only(const struct core_range *range)
{
    return range->kind == CORE_DEVICE_MEMORY && !(range->flags & (CORE_MANAGED | CORE_HOST_MAPPED));
}

/* All of it is memory that CUDA knows: of the device, in allocations side by side; or pinned, in one. */
static nccl_result memory(const void *address, uint64_t size, const char *function, const char *what)
{
    struct core_range range;
    uint64_t at = core_host_behind((uint64_t)(uintptr_t)address);
    if (!size)
        return NCCL_SUCCESS;
    if (!address)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
    if (!core_address_lookup(at, &range))
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %s (%p) is no memory that CUDA knows", function, what, address);
    const bool device = range.kind == CORE_DEVICE_MEMORY;
    for (uint64_t left = size, here; (here = range.size - (at - range.base)) < left; left -= here) {
        at += here;
        if (!device || !core_address_lookup(at, &range) || range.kind != CORE_DEVICE_MEMORY)
            return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %s (%p) ends too early: %" PRIu64 " bytes are wanted",
                             function, what, address, size);
    }
    return NCCL_SUCCESS;
}

static nccl_result stream_good(const struct nccl_comm *comm, core_stream stream, const char *function)
{
    struct core_stream_info info;
    if (core_stream_info(comm->context, stream, &info) || info.context != comm->context)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the stream is not one of the communicator's device %d", function,
                         comm->device);
    return NCCL_SUCCESS;
}

nccl_result nccl_operation_check(const struct nccl_comm *comm, core_stream stream, int type, uint64_t count,
                                 const char *function)
{
    nccl_result result = nccl_comm_open(comm, function);
    if (result == NCCL_SUCCESS && (type < 0 || type >= NCCL_TYPES))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no type %d", function, type);
    if (result == NCCL_SUCCESS && count > UINT64_MAX / 16 / (unsigned)comm->ranks)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the count is too large", function);
    return result == NCCL_SUCCESS ? stream_good(comm, stream, function) : result;
}

/* ---- collectives ---- */

static nccl_result operation_set(const struct nccl_comm *comm, int op, struct core_comm_call *call,
                                 const char *function)
{
    int own = op - NCCL_OPERATIONS;
    if (op >= 0 && op < NCCL_OPERATIONS) {
        call->operation = op;
        return NCCL_SUCCESS;
    }
    if (own < 0 || own >= NCCL_OWN_OPERATIONS_MOST || !comm->factors[own].used || comm->factors[own].type != call->type)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no operation %d for that type", function, op);
    call->operation = COMM_MULTIPLIED_SUM;
    call->factor_at = comm->factors[own].at;
    memcpy(call->factor, comm->factors[own].value, sizeof call->factor);
    return NCCL_SUCCESS;
}

static nccl_result collective(enum comm_kind kind, const void *in, void *out, uint64_t count, int type, int op,
                              int root, struct nccl_comm *comm, core_stream stream, const char *function)
{
    nccl_result result = nccl_operation_check(comm, stream, type, count, function);
    if (result == NCCL_SUCCESS && (root < 0 || root >= comm->ranks))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the root is %d, of %d ranks", function, root, comm->ranks);
    if (result != NCCL_SUCCESS)
        return nccl_group_failed(result);
    struct nccl_job job = { .comm = comm, .stream = stream, .kind = NCCL_JOB_CALL };
    const struct comm_parts parts = comm_parts_of(kind, (unsigned)comm->rank, (unsigned)comm->ranks, (unsigned)root);
    job.call = (struct core_comm_call){ .kind = kind, .type = type, .root = (unsigned)root, .count = count };
    job.in_size = parts.in * count * size_of(type);
    job.out_size = parts.out * count * size_of(type);
    result = operation_set(comm, op, &job.call, function);
    if (result == NCCL_SUCCESS)
        result = memory(in, job.in_size, function, "sendbuff");
    if (result == NCCL_SUCCESS)
        result = memory(out, job.out_size, function, "recvbuff");
    job.call.in = parts.in ? (uint64_t)(uintptr_t)in : 0;
    job.call.out = parts.out ? (uint64_t)(uintptr_t)out : 0;
    if (result == NCCL_SUCCESS && count)
        result = nccl_submit(&job);
    return nccl_group_failed(result);
}

nccl_result ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, struct nccl_comm *comm,
                       core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_REDUCE, in, out, count, type, op, root, comm, stream, __func__);
}

nccl_result ncclBcast(void *buffer, size_t count, int type, int root, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_BROADCAST, buffer, buffer, count, type, 0, root, comm, stream, __func__);
}

nccl_result ncclBroadcast(const void *in, void *out, size_t count, int type, int root, struct nccl_comm *comm,
                          core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_BROADCAST, in, out, count, type, 0, root, comm, stream, __func__);
}

nccl_result ncclAllReduce(const void *in, void *out, size_t count, int type, int op, struct nccl_comm *comm,
                          core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_ALL_REDUCE, in, out, count, type, op, 0, comm, stream, __func__);
}

nccl_result ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, struct nccl_comm *comm,
                              core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_REDUCE_SCATTER, in, out, count, type, op, 0, comm, stream, __func__);
}

nccl_result ncclAllGather(const void *in, void *out, size_t count, int type, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_ALL_GATHER, in, out, count, type, 0, 0, comm, stream, __func__);
}

nccl_result ncclAlltoAll(const void *in, void *out, size_t count, int type, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_ALL_TO_ALL, in, out, count, type, 0, 0, comm, stream, __func__);
}

nccl_result ncclGather(const void *in, void *out, size_t count, int type, int root, struct nccl_comm *comm,
                       core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_GATHER, in, out, count, type, 0, root, comm, stream, __func__);
}

nccl_result ncclScatter(const void *in, void *out, size_t count, int type, int root, struct nccl_comm *comm,
                        core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return collective(COMM_SCATTER, in, out, count, type, 0, root, comm, stream, __func__);
}

/* ---- send and receive ---- */

static nccl_result message(bool sends, const void *buffer, size_t count, int type, int peer, struct nccl_comm *comm,
                           core_stream stream, const char *function)
{
    nccl_result result = nccl_operation_check(comm, stream, type, count, function);
    if (result == NCCL_SUCCESS && (peer < 0 || peer >= comm->ranks))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the peer is %d, of %d ranks", function, peer, comm->ranks);
    if (result == NCCL_SUCCESS)
        result = memory(buffer, count * size_of(type), function, sends ? "sendbuff" : "recvbuff");
    if (result == NCCL_SUCCESS && peer == comm->rank && !nccl_in_group())
        result = nccl_fail(NCCL_INVALID_USAGE, "%s: a rank sends to itself in a group only", function);
    if (result != NCCL_SUCCESS)
        return nccl_group_failed(result);
    const struct nccl_job job = { .comm = comm,
                                  .stream = stream,
                                  .kind = NCCL_JOB_MESSAGE,
                                  .message = { sends, (unsigned)peer, (uint64_t)(uintptr_t)buffer,
                                               count * size_of(type) } };
    return nccl_group_failed(nccl_submit(&job));
}

nccl_result ncclSend(const void *buffer, size_t count, int type, int peer, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return message(true, buffer, count, type, peer, comm, stream, __func__);
}

nccl_result ncclRecv(void *buffer, size_t count, int type, int peer, struct nccl_comm *comm, core_stream stream)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return message(false, buffer, count, type, peer, comm, stream, __func__);
}

/* ---- operations of the program's own ---- */

enum { SCALAR_DEVICE = 0, SCALAR_HOST_IMMEDIATE = 1 };

/* Of a scalar on the device the server reads the value; one of the host, or in managed memory, is read now. */
static nccl_result factor_set(struct nccl_factor *factor, const void *scalar, int type, int residence,
                              const char *function)
{
    const uint64_t at = (uint64_t)(uintptr_t)scalar, size = size_of(type);
    struct core_range range = { .kind = CORE_UNKNOWN_MEMORY };
    if (residence == SCALAR_DEVICE && (!core_address_lookup(at, &range) || range.size - (at - range.base) < size))
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: scalar (%p) is no memory that CUDA knows, or ends too early",
                         function, scalar);
    *factor = (struct nccl_factor){ .used = true, .type = type, .at = is_device_only(&range) ? at : 0 };
    if (!factor->at)
        memcpy(factor->value, scalar, size);
    return NCCL_SUCCESS;
}

nccl_result ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result != NCCL_SUCCESS)
        return result;
    if (!op || !scalar || type < 0 || type >= NCCL_TYPES || residence < SCALAR_DEVICE ||
        residence > SCALAR_HOST_IMMEDIATE)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: a pointer is NULL, or the type or the residence is none",
                         __func__);
    int own = 0;
    while (own < NCCL_OWN_OPERATIONS_MOST && comm->factors[own].used)
        own++;
    if (own == NCCL_OWN_OPERATIONS_MOST)
        return nccl_fail(NCCL_SYSTEM_ERROR, "%s: a communicator has at most %d operations", __func__,
                         NCCL_OWN_OPERATIONS_MOST);
    result = factor_set(&comm->factors[own], scalar, type, residence, __func__);
    *op = result == NCCL_SUCCESS ? NCCL_OPERATIONS + own : *op;
    return result;
}

nccl_result ncclRedOpDestroy(int op, struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    int own = op - NCCL_OPERATIONS;
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result != NCCL_SUCCESS)
        return result;
    if (own < 0 || own >= NCCL_OWN_OPERATIONS_MOST || !comm->factors[own].used)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no operation %d of the program's own", __func__, op);
    comm->factors[own].used = false;
    return NCCL_SUCCESS;
}
