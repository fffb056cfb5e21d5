/*
 * device.c: collectives on the memory of GPUs. The GPU servers carry them out; Flyt's libnccl.so.2 has their functions,
 * and is loaded when a program wants them: so that programs that only use host memory need no client library. The ranks
 * exchange by their context where they meet.
 */
#include "cpu/client/comm/library.h"

#include "cpu/rpc/transport/channel.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCCL_OF_PROGRAMS
#include "cpu/client/nccl/calls.h"

enum { MEET_MS = 60000, HOST_SCALAR = 1, BYTE = FLYT_UINT8 };

/* The functions that are used; each has the name of NCCL's. */
#define FUNCTIONS(X) \
    X(GetUniqueId) X(CommInitRank) X(CommDestroy) X(CommAbort) X(CommGetAsyncError) X(GetLastError) X(GroupStart) \
    X(GroupEnd) X(AllReduce) X(Reduce) X(Broadcast) X(AllGather) X(ReduceScatter) X(AlltoAll) X(Gather) X(Scatter) \
    X(Send) X(Recv) X(RedOpCreatePreMulSum) X(RedOpDestroy) X(MemAlloc) X(MemFree)

struct nccl_functions {
#define X(name) __typeof__(&nccl##name) name;
    FUNCTIONS(X)
#undef X
};

struct flyt_device {
    struct nccl_functions nccl;
    struct nccl_comm *comm;
    unsigned rank, ranks;
    void *byte; /* of the device: what a barrier adds */
};

/* ---- the library ---- */

static bool is_of_flyt(void *library) { return library && dlsym(library, "flyt_libnccl"); }

/* The one that flyt-run has put first; else the one beside this library. */
static void *library_find(void)
{
    char path[4096];
    Dl_info own;
    void *found = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    if (is_of_flyt(found))
        return found;
    const char *end = dladdr((const void *)(uintptr_t)flyt_device_create, &own) ? strrchr(own.dli_fname, '/') : NULL;
    if (!end || snprintf(path, sizeof path, "%.*s/nccl/libnccl.so.2", (int)(end - own.dli_fname), own.dli_fname) >=
                    (int)sizeof path)
        return NULL;
    found = dlopen(path, RTLD_NOW);
    return is_of_flyt(found) ? found : NULL;
}

static int functions_find(struct nccl_functions *nccl)
{
    void *library = library_find();
    if (!library) {
        const char *why = dlerror();
        return rpc_explain(library_error, -ENOTSUP, "memory of GPUs needs Flyt's libnccl.so.2: %s",
                           why ? why : "it is not beside libflyt-comm.so");
    }
    bool all = true;
#define X(name) \
    *(void **)&nccl->name = dlsym(library, "nccl" #name); \
    all &= nccl->name != NULL;
    FUNCTIONS(X)
#undef X
    return all ? 0 : rpc_explain(library_error, -ENOTSUP, "libnccl.so.2 is of another release than libflyt-comm.so");
}

static int status_of(const struct flyt_device *device, nccl_result result, const char *what)
{
    static const int codes[NCCL_RESULTS] = { [NCCL_CUDA_ERROR] = -EIO,
                                             [NCCL_SYSTEM_ERROR] = -EIO,
                                             [NCCL_INTERNAL_ERROR] = -EIO,
                                             [NCCL_INVALID_ARGUMENT] = -EINVAL,
                                             [NCCL_INVALID_USAGE] = -EINVAL,
                                             [NCCL_REMOTE_ERROR] = -ECONNRESET,
                                             [NCCL_IN_PROGRESS] = -EAGAIN };
    if (result == NCCL_SUCCESS)
        return 0;
    return rpc_explain(library_error, (unsigned)result < NCCL_RESULTS ? codes[result] : -EIO, "%s: %s", what,
                       device->nccl.GetLastError(device->comm));
}

/* ---- a rank's GPU ---- */

static int comm_make(struct flyt_device *device, flyt_context *context)
{
    nccl_id id = { { 0 } };
    int status = device->rank == 0 ? status_of(device, device->nccl.GetUniqueId(&id), "a unique id") : 0;
    int told = flyt_broadcast(context, id.bytes, status < 0 ? 0 : sizeof id.bytes, FLYT_UINT8, 0, MEET_MS);
    if (status < 0 || told < 0)
        return status < 0 ? status : told;
    status = status_of(device, device->nccl.CommInitRank(&device->comm, (int)device->ranks, id, (int)device->rank),
                       "ranks with GPUs");
    return status == 0 ? status_of(device, device->nccl.MemAlloc(&device->byte, 1), "memory of the GPU") : status;
}

int flyt_device_create(flyt_context *context, flyt_device **out)
{
    struct flyt_device *device = calloc(1, sizeof *device);
    *out = NULL;
    if (!device)
        return rpc_explain(library_error, -ENOMEM, "a GPU's rank: no memory");
    comm_context_rank(context->context, &device->rank, &device->ranks);
    int status = functions_find(&device->nccl);
    if (status == 0)
        status = comm_make(device, context);
    if (status == 0)
        *out = device;
    else
        flyt_device_destroy(device, "it could not be made");
    return status;
}

int flyt_device_status(flyt_device *device)
{
    nccl_result ended = NCCL_SUCCESS;
    nccl_result result = device->nccl.CommGetAsyncError(device->comm, &ended);
    return status_of(device, result != NCCL_SUCCESS ? result : ended, "the ranks with GPUs have ended");
}

void flyt_device_destroy(flyt_device *device, const char *abort)
{
    char kept[RPC_ERROR_SIZE];
    if (!device)
        return;
    memcpy(kept, library_error, sizeof kept);
    if (device->comm && abort)
        device->nccl.CommAbort(device->comm);
    else if (device->comm)
        device->nccl.CommDestroy(device->comm);
    if (device->byte)
        device->nccl.MemFree(device->byte);
    free(device);
    memcpy(library_error, kept, sizeof kept);
}

/* ---- messages ---- */

int flyt_device_send(flyt_device *device, unsigned peer, const void *memory, uint64_t size, void *stream)
{
    const core_stream of = (core_stream)(uintptr_t)stream;
    return status_of(device, device->nccl.Send(memory, size, BYTE, (int)peer, device->comm, of), "a message");
}

int flyt_device_receive(flyt_device *device, unsigned peer, void *memory, uint64_t size, void *stream)
{
    const core_stream of = (core_stream)(uintptr_t)stream;
    return status_of(device, device->nccl.Recv(memory, size, BYTE, (int)peer, device->comm, of), "a message");
}

/* ---- collectives ---- */

/* Where the part of a rank begins, in elements. */
static uint64_t place_of(const uint64_t *counts, const uint64_t *places, unsigned rank)
{
    uint64_t at = places ? places[rank] : 0;
    for (unsigned r = 0; !places && r < rank; r++)
        at += counts[r];
    return at;
}

/* Sends and receives of one group. sends, gets: whether a part goes to the rank, or comes from it. */
static nccl_result exchange(struct flyt_device *device, const flyt_collective *c, core_stream stream)
{
    const struct nccl_functions *nccl = &device->nccl;
    const size_t element = comm_type_size((enum comm_type)c->type);
    const bool all = c->kind == FLYT_ALL_TO_ALL, root = device->rank == c->root;
    nccl_result result = nccl->GroupStart();
    for (unsigned r = 0; r < device->ranks && result == NCCL_SUCCESS; r++) {
        const uint64_t out_at = place_of(c->counts, c->places, r) * element;
        if (all || (c->kind == FLYT_SCATTER && root)) /* its part of `in` */
            result = nccl->Send((const uint8_t *)c->in + out_at, c->counts[r], (int)c->type, (int)r, device->comm,
                                stream);
        else if (c->kind == FLYT_ALL_GATHER || (c->kind == FLYT_GATHER && r == c->root)) /* this rank's */
            result = nccl->Send(c->in, c->counts[device->rank], (int)c->type, (int)r, device->comm, stream);
        if (result != NCCL_SUCCESS)
            break;
        if (all)
            result = nccl->Recv((uint8_t *)c->out + place_of(c->in_counts, c->in_places, r) * element, c->in_counts[r],
                                (int)c->type, (int)r, device->comm, stream);
        else if (c->kind == FLYT_SCATTER && r == c->root)
            result = nccl->Recv(c->out, c->counts[device->rank], (int)c->type, (int)r, device->comm, stream);
        else if (c->kind == FLYT_ALL_GATHER || (c->kind == FLYT_GATHER && root))
            result = nccl->Recv((uint8_t *)c->out + out_at, c->counts[r], (int)c->type, (int)r, device->comm, stream);
    }
    nccl_result ended = nccl->GroupEnd();
    return result != NCCL_SUCCESS ? result : ended;
}

static int call_parts(struct flyt_device *device, const flyt_collective *c, core_stream stream)
{
    if (c->kind == FLYT_REDUCE_SCATTER)
        return rpc_explain(library_error, -ENOTSUP, "reduce-scatter on GPUs: its parts are of one size");
    if (c->kind < FLYT_GATHER || (c->kind == FLYT_ALL_TO_ALL && !c->in_counts))
        return rpc_explain(library_error, -EINVAL, "a collective on GPUs: it has no parts, or in_counts are missing");
    return status_of(device, exchange(device, c, stream), "a collective of parts");
}

static nccl_result call_now(struct flyt_device *device, const flyt_collective *c, int operation, core_stream stream)
{
    const struct nccl_functions *nccl = &device->nccl;
    const int type = (int)c->type, root = (int)c->root;
    struct nccl_comm *comm = device->comm;
    switch (c->kind) {
    case FLYT_BARRIER: return nccl->AllReduce(device->byte, device->byte, 1, BYTE, FLYT_MAXIMUM, comm, stream);
    case FLYT_BROADCAST: return nccl->Broadcast(c->in, c->out, c->count, type, root, comm, stream);
    case FLYT_REDUCE: return nccl->Reduce(c->in, c->out, c->count, type, operation, root, comm, stream);
    case FLYT_ALL_REDUCE: return nccl->AllReduce(c->in, c->out, c->count, type, operation, comm, stream);
    case FLYT_GATHER: return nccl->Gather(c->in, c->out, c->count, type, root, comm, stream);
    case FLYT_SCATTER: return nccl->Scatter(c->in, c->out, c->count, type, root, comm, stream);
    case FLYT_ALL_GATHER: return nccl->AllGather(c->in, c->out, c->count, type, comm, stream);
    case FLYT_REDUCE_SCATTER: return nccl->ReduceScatter(c->in, c->out, c->count, type, operation, comm, stream);
    case FLYT_ALL_TO_ALL: return nccl->AlltoAll(c->in, c->out, c->count, type, comm, stream);
    default: return NCCL_INVALID_ARGUMENT;
    }
}

int flyt_device_call(flyt_device *device, const flyt_collective *c, void *stream_of)
{
    const core_stream stream = (core_stream)(uintptr_t)stream_of;
    int operation = (int)c->operation;
    if ((unsigned)c->kind > FLYT_ALL_TO_ALL)
        return rpc_explain(library_error, -EINVAL, "a collective on GPUs: there is none of number %d", (int)c->kind);
    if (c->counts)
        return call_parts(device, c, stream);
    const bool own = comm_kind_reduces((enum comm_kind)c->kind) && c->operation == FLYT_MULTIPLIED_SUM;
    nccl_result result = NCCL_SUCCESS;
    if (own && !c->factor)
        return rpc_explain(library_error, -EINVAL, "a multiplied sum needs a factor");
    if (own)
        result = device->nccl.RedOpCreatePreMulSum(&operation, (void *)(uintptr_t)c->factor, (int)c->type, HOST_SCALAR,
                                                   device->comm);
    if (result == NCCL_SUCCESS) {
        result = call_now(device, c, operation, stream);
        if (own)
            device->nccl.RedOpDestroy(operation, device->comm);
    }
    return status_of(device, result, comm_kind_name((enum comm_kind)c->kind));
}
