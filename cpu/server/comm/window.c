/*
 * window.c: windows of communicators (cpu/comm/sided.h): device memory of this session into which other ranks put, for
 * as long as it is registered.
 *
 * Memory is looked at when it is registered, and again before each put: where the program has freed it, the
 * communicator ends. It must not free it while a put comes: it removes the window first, which waits for that. Where
 * the communicator or its context ends, nothing comes any more.
 */
#include "cpu/server/comm/comms_state.h"

#include <errno.h>
#include <stdlib.h>

#include "cpu/rpc/transport/channel.h"
#include "cpu/server/memory/memory.h"

/* In a thread of the engine of links, or of another rank. */
static bool window_look(const void *of, void *memory, uint64_t size, bool written)
{
    const struct gpu *gpu = of;
    return gpu->host_view((uint64_t)(uintptr_t)memory, size, written) != NULL;
}

static int window_add(struct session *session, const comm_window_args *args, uint32_t *number, char *why)
{
    struct server_comm *comm = comm_find(session, args->comm);
    const struct context *owner = memory_context(session, args->address); /* of handles' memory there is none */
    void *memory;
    if (!comm)
        return rpc_explain(why, -EBADF, "there is no communicator %u", args->comm);
    if (!args->size || (owner && owner != comm->context) ||
        !comm_memory_view(session, args->address, args->size, &memory))
        return rpc_explain(why, -EINVAL, "a window is device memory of the communicator's context");
    const struct comm_window window = { memory, args->size, window_look, session->gpu };
    return session->comms->ways->window_add(comm->comm, &window, number, why);
}

static CUresult result_of(int status)
{
    return status == -EBADF    ? CUDA_ERROR_INVALID_HANDLE
           : status == -ENOENT ? CUDA_ERROR_INVALID_VALUE
                               : comms_result(status);
}

void serve_comm_window(struct session *session, struct call *call)
{
    char why[RPC_ERROR_SIZE] = "";
    comm_window_result result = { .why = why };
    const int status = window_add(session, &call->args.comm_window, &result.window, why);
    why[FLYT_MAX_SHORT - 1] = '\0';
    session_reply(session, call->xid, (xdrproc_t)xdr_comm_window_result, &result, result_of(status), false);
}

void serve_comm_window_status(struct session *session, struct call *call)
{
    const comm_window_status_args *args = &call->args.comm_window_status;
    struct server_comm *comm = comm_find(session, args->comm);
    char why[RPC_ERROR_SIZE] = "";
    uint64_t *sizes = comm ? calloc(comm->ranks, sizeof *sizes) : NULL;
    int status = !comm ? -EBADF : sizes ? 0 : -ENOMEM;
    if (status == 0)
        status = session->comms->ways->window_sizes(comm->comm, args->window, sizes, why);
    why[FLYT_MAX_SHORT - 1] = '\0';
    comm_window_status_result result = { .ready = status == 1, .why = why };
    if (status == 1)
        result.sizes = (__typeof__(result.sizes)){ comm->ranks, sizes };
    session_reply(session, call->xid, (xdrproc_t)xdr_comm_window_status_result, &result,
                  result_of(status < 0 ? status : 0), false);
    free(sizes);
}

void serve_comm_window_remove(struct session *session, struct call *call)
{
    const comm_window_remove_args *args = &call->args.comm_window_remove;
    struct server_comm *comm = comm_find(session, args->comm);
    plain_result result = { .head = { 0 } };
    const int status = comm ? session->comms->ways->window_remove(comm->comm, args->window) : -EBADF;
    session_reply(session, call->xid, (xdrproc_t)xdr_plain_result, &result,
                  result_of(status), false);
}
