/*
 * make.c: how communicators are made.
 *
 * Several that are made in one group are made at a time, each in a thread of its own (group.c). When one fails, the
 * others stop waiting for ranks: usually it is one of these. One that does not block
 * is made in a thread, too: until it is ready, ncclCommGetAsyncError says ncclInProgress. Nobody waits for that thread:
 * it is a user of what it makes, and leaves when it finds that the program has ended it.
 *
 * What Split and Shrink make blocks as its parent does, whatever its own configuration says. Where it does not block,
 * the program asks the parent, which is in progress meanwhile, and has no handle of the child before that is made: so
 * NVIDIA's library does it.
 */
#include "cpu/client/nccl/nccl.h"

#include <limits.h>
#include <string.h>

#include "cpu/common/env.h"

/* ---- configurations ---- */

/* What the program has not set. */
enum { UNDEFINED = INT_MIN, SINCE_2_17 = 21700 };

static bool is_flag(int value) { return value == UNDEFINED || value == 0 || value == 1; }

/* They change nothing here, but what NVIDIA's library refuses is refused. */
static bool sizes_good(const struct nccl_config *c)
{
    const bool least = c->ctas_least != UNDEFINED, most = c->ctas_most != UNDEFINED;
    return (c->cluster_size == UNDEFINED || c->cluster_size >= 0) && (!least || c->ctas_least > 0) &&
           (!most || c->ctas_most > 0) && (!least || !most || c->ctas_least <= c->ctas_most) && is_flag(c->split_share);
}

/* NCCL_COMM_BLOCKING is in force for all communicators, as with NVIDIA's library. */
static bool blocks(bool configured)
{
    const char *text = env_get("NCCL_COMM_BLOCKING");
    return text && (strcmp(text, "0") == 0 || strcmp(text, "1") == 0) ? *text == '1' : configured;
}

nccl_result nccl_config_read(const struct nccl_config *config, const char *function, bool inherited, bool *blocking)
{
    *blocking = blocks(inherited);
    if (!config)
        return NCCL_SUCCESS;
    if (config->magic != (unsigned)NCCL_CONFIG_MAGIC ||
        config->size < (config->version < SINCE_2_17 ? offsetof(struct nccl_config, cluster_size) : sizeof *config))
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "%s: the configuration was not initialised by "
                         "NCCL_CONFIG_INITIALIZER",
                         function);
    if (!is_flag(config->blocking))
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the configuration has blocking %d, not 0 or 1", function,
                         config->blocking);
    if (config->version >= SINCE_2_17 && !sizes_good(config))
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "%s: the configuration has cgaClusterSize %d, minCTAs %d, maxCTAs %d, splitShare %d", function,
                         config->cluster_size, config->ctas_least, config->ctas_most, config->split_share);
    *blocking = blocks(config->blocking != 0);
    return NCCL_SUCCESS;
}

/* ---- structures ---- */

/* The thread's context; that of device 0 where it has none. */
static nccl_result current(core_context **context, int *device)
{
    struct core_context_info info;
    int code = core_attach();
    *context = core_current;
    if (!code && !*context) {
        *context = core_context_primary(0);
        code = *context ? core_context_retain(*context) : CORE_NO_DEVICE;
    }
    if (!code)
        code = core_context_enter(*context);
    if (!code)
        code = core_context_info(*context, &info);
    *device = code ? -1 : info.device;
    return nccl_of_core(code, "the GPU of a communicator", NULL);
}

void nccl_comm_drop(struct nccl_comm *comm)
{
    nccl_comm_leave(comm->making.parent);
    nccl_comm_end(comm);
    nccl_comm_leave(comm);
}

/* ---- making ---- */

/* Split and Shrink: the program gets its handle when the communicator is made. */
static bool is_hidden(const struct nccl_making *making)
{
    return making->way == NCCL_BY_SPLIT || making->way == NCCL_BY_SHRINK;
}

/* The program gets its handle of a child, unless it has ended the parent: where the handle would go may be gone. */
static bool give(struct nccl_comm *comm, struct nccl_comm *parent)
{
    pthread_mutex_lock(&parent->lock);
    const bool wanted = !nccl_comm_ended(parent);
    if (wanted)
        __atomic_store_n(comm->making.out, comm, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&parent->lock);
    return wanted;
}

/* Behind the making; `made`: the rank is one. True: the program has a handle, and ends the communicator. */
static bool hand_over(struct nccl_comm *comm, bool made)
{
    const struct nccl_making *making = &comm->making;
    if (is_hidden(making))
        return made && give(comm, making->parent);
    if (!made && making->waits)
        *making->out = NULL;
    return made || !making->waits; /* else the program has it, and asks how it is */
}

/* The program asks the parent how this was. */
static void tell_parent(struct nccl_comm *parent, nccl_result result)
{
    int ready = NCCL_SUCCESS;
    if (result != NCCL_SUCCESS)
        atomic_compare_exchange_strong(&parent->state, &ready, (int)result);
    atomic_fetch_sub(&parent->children, 1);
}

nccl_result nccl_make(struct nccl_comm *comm)
{
    struct nccl_comm *parent = comm->making.parent;
    const bool behind = parent && !comm->making.waits && is_hidden(&comm->making);
    comm->deadline = nccl_deadline();
    nccl_result result = nccl_child_find(comm);
    const bool part = comm->ranks > 0;
    if (result == NCCL_SUCCESS && part)
        result = nccl_meet(comm);
    if (result == NCCL_SUCCESS && part)
        result = nccl_connect(comm);
    if (result == NCCL_SUCCESS && nccl_making_ended(comm))
        result = nccl_fail(NCCL_INTERNAL_ERROR, "the communicator was aborted while it was made");
    nccl_part(comm);
    int none = NCCL_SUCCESS;
    if (comm->making.group && result != NCCL_SUCCESS)
        atomic_compare_exchange_strong(comm->making.group, &none, (int)result);
    if (result != NCCL_SUCCESS)
        nccl_disconnect(comm, "it could not be made");
    const bool made = result == NCCL_SUCCESS && part;
    atomic_store(&comm->state, (int)result);
    if (!hand_over(comm, made)) {
        if (made)
            result = nccl_fail(NCCL_INTERNAL_ERROR, "the communicator of which this one was made was aborted");
        comm->why = "its parent was aborted";
        nccl_comm_end(comm);
    }
    if (behind)
        tell_parent(parent, result);
    comm->making.parent = NULL;
    comm->making.group = NULL;
    nccl_comm_leave(parent);
    nccl_comm_leave(comm);
    return result;
}

static void *make_thread(void *comm)
{
    nccl_make(comm);
    return NULL;
}

nccl_result nccl_make_behind(struct nccl_comm *comm)
{
    pthread_t thread;
    if (is_hidden(&comm->making))
        atomic_fetch_add(&comm->making.parent->children, 1);
    if (pthread_create(&thread, NULL, make_thread, comm) != 0)
        return nccl_make(comm);
    pthread_detach(thread);
    return NCCL_IN_PROGRESS;
}

nccl_result nccl_make_begin(struct nccl_comm *comm, const struct nccl_making *given)
{
    comm->making = *given;
    *given->out = is_hidden(given) ? NULL : comm;
    return nccl_submit(&(struct nccl_job){ .comm = comm, .kind = NCCL_JOB_MAKE, .waits = given->waits });
}

/* ---- from a unique id ---- */

nccl_result nccl_init_rank(struct nccl_comm **out, int ranks, const nccl_id *id, int rank,
                           const struct nccl_config *config, const char *function)
{
    struct nccl_making making = { .way = NCCL_BY_ID, .out = out };
    struct nccl_place place;
    bool blocking;
    core_context *context;
    int device;
    if (!out)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: comm is NULL", function);
    *out = NULL;
    nccl_result result = nccl_config_read(config, function, true, &blocking);
    if (result != NCCL_SUCCESS)
        return result;
    if (ranks < 1 || ranks > NCCL_RANKS_MOST || rank < 0 || rank >= ranks)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: rank %d of %d; there are 1 to %d ranks, from 0", function, rank,
                         ranks, NCCL_RANKS_MOST);
    if (!nccl_place_of(id, &place))
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "%s: the unique id was not made by Flyt's libnccl.so.2; all ranks must use it, or with "
                         "FLYT_NCCL=program all the program's own",
                         function);
    result = current(&context, &device);
    if (result != NCCL_SUCCESS)
        return result;
    struct nccl_comm *comm = nccl_comm_new(rank, ranks, context, device);
    if (!comm)
        return nccl_fail(NCCL_SYSTEM_ERROR, "%s: no memory", function);
    comm->place = place;
    comm->blocking = making.waits = blocking;
    return nccl_make_begin(comm, &making);
}

nccl_result ncclCommInitRank(struct nccl_comm **out, int ranks, nccl_id id, int rank)
{
    NCCL_ENTER();
    return nccl_group_failed(nccl_init_rank(out, ranks, &id, rank, NULL, __func__));
}

nccl_result ncclCommInitRankConfig(struct nccl_comm **out, int ranks, nccl_id id, int rank,
                                   const struct nccl_config *config)
{
    NCCL_ENTER();
    return nccl_group_failed(nccl_init_rank(out, ranks, &id, rank, config, __func__));
}

nccl_result ncclCommInitRankScalable(struct nccl_comm **out, int ranks, int rank, int count, const nccl_id *ids,
                                     const struct nccl_config *config)
{
    NCCL_ENTER();
    if (count < 1 || count > ranks || !ids)
        return nccl_group_failed(
            nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %d unique ids for %d ranks; there are 1 to as many as ranks, at %p",
                      __func__, count, ranks, (const void *)ids));
    return nccl_group_failed(nccl_init_rank(out, ranks, &ids[0], rank, config, __func__)); /* one store is enough */
}

static nccl_result init_all(struct nccl_comm **comms, int count, const int *devices)
{
    nccl_id id = { .bytes = { 0 } };
    struct nccl_place place;
    bool blocking;
    int available = 0;
    nccl_result result = nccl_of_core(core_device_count(&available), "ncclCommInitAll", NULL);
    if (result == NCCL_SUCCESS)
        result = ncclGetUniqueId(&id);
    if (result == NCCL_SUCCESS)
        result = nccl_config_read(NULL, "ncclCommInitAll", true, &blocking);
    if (result != NCCL_SUCCESS || !nccl_place_of(&id, &place))
        return result;
    for (int i = 0; i < count && result == NCCL_SUCCESS; i++) {
        int device = devices ? devices[i] : i;
        core_context *context = device >= 0 && device < available ? core_context_primary(device) : NULL;
        if (!context)
            return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommInitAll: there is no device %d", device);
        result = nccl_of_core(core_context_retain(context), "ncclCommInitAll", NULL);
        struct nccl_comm *comm = result == NCCL_SUCCESS ? nccl_comm_new(i, count, context, device) : NULL;
        if (result == NCCL_SUCCESS && !comm)
            result = nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommInitAll: no memory");
        if (result != NCCL_SUCCESS)
            continue;
        comm->place = place;
        comm->blocking = blocking;
        result = nccl_make_begin(comm, &(struct nccl_making){ NCCL_BY_ID, .waits = blocking, .out = &comms[i] });
    }
    return result;
}

nccl_result ncclCommInitAll(struct nccl_comm **comms, int count, const int *devices)
{
    NCCL_ENTER();
    if (!comms || count < 1 || count > NCCL_RANKS_MOST)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommInitAll: comms is NULL, or %d devices", count);
    memset(comms, 0, (size_t)count * sizeof *comms);
    ncclGroupStart();
    nccl_group_failed(init_all(comms, count, devices));
    return ncclGroupEnd();
}
