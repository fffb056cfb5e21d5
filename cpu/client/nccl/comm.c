/*
 * comm.c: communicators: made, split, asked about, ended.
 *
 * Several that are made in one group are made at a time, each in a thread of its own (group.c). One whose configuration
 * says that it does not block is made in a thread, too: until it is ready, ncclCommGetAsyncError says ncclInProgress.
 * Nobody waits for that thread: it is a user of what it makes, and leaves when it finds that the program has ended it.
 */
#include "cpu/client/nccl/nccl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"

#define ASK_NS CLOCK_NS_PER_MS /* between two questions to the server */
enum { RANKS_MOST = 1024 };

/* ---- checks ---- */

static nccl_result known(const struct nccl_comm *comm, const char *function)
{
    return comm && !nccl_comm_ended(comm)
               ? NCCL_SUCCESS
               : nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no such communicator", function);
}

nccl_result nccl_comm_check(const struct nccl_comm *comm, const char *function)
{
    nccl_result result = known(comm, function);
    int state = result == NCCL_SUCCESS ? atomic_load(&comm->state) : NCCL_SUCCESS;
    if (state == NCCL_IN_PROGRESS)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator is not ready yet", function);
    if (state != NCCL_SUCCESS || (result == NCCL_SUCCESS && !comm->made))
        return nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator could not be made, or has ended", function);
    return result;
}

nccl_result nccl_comm_open(const struct nccl_comm *comm, const char *function)
{
    nccl_result result = nccl_comm_check(comm, function);
    return result == NCCL_SUCCESS && comm->finalized
               ? nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator has been finalized", function)
               : result;
}

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

/* Without a configuration *blocking stays what it is. */
static nccl_result blocks(const struct nccl_config *config, const char *function, bool *blocking)
{
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
    *blocking = config->blocking != 0;
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

struct split_card {
    int color, key;
};

/* Which ranks of the parent are in this one's part, in their order. False: this one is in none. */
static nccl_result split_ranks(struct nccl_comm *comm, const struct nccl_making *making, int *members)
{
    struct nccl_comm *parent = making->parent;
    char key[60];
    struct split_card own = { making->color, making->key }, *cards = calloc((unsigned)parent->ranks, sizeof *cards);
    if (!cards)
        return nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommSplit: no memory");
    const unsigned number = making->number;
    snprintf(key, sizeof key, "split_%u_%d", number, parent->rank);
    nccl_result result = nccl_store_set(parent, key, &own, sizeof own);
    for (int r = 0; r < parent->ranks && result == NCCL_SUCCESS; r++) {
        size_t size = sizeof *cards;
        snprintf(key, sizeof key, "split_%u_%d", number, r);
        result = nccl_store_get(parent, comm, key, &cards[r], &size);
    }
    comm->ranks = 0;
    for (int r = 0; r < parent->ranks && result == NCCL_SUCCESS && own.color >= 0; r++) {
        int at = comm->ranks;
        if (cards[r].color != own.color)
            continue;
        for (; at > 0 && cards[members[at - 1]].key > cards[r].key; at--)
            members[at] = members[at - 1];
        members[at] = r;
        comm->ranks++;
    }
    free(cards);
    comm->rank = 0;
    while (comm->rank < comm->ranks && members[comm->rank] != parent->rank)
        comm->rank++;
    /* Its first rank gives it a name. */
    comm->place = parent->place;
    snprintf(key, sizeof key, "part_%u_%d", number, own.color);
    if (result == NCCL_SUCCESS && comm->ranks && comm->rank == 0) {
        result = nccl_random(comm->place.name, sizeof comm->place.name);
        if (result == NCCL_SUCCESS)
            result = nccl_store_set(parent, key, comm->place.name, sizeof comm->place.name);
    }
    size_t size = sizeof comm->place.name;
    return result == NCCL_SUCCESS && comm->ranks ? nccl_store_get(parent, comm, key, comm->place.name, &size) : result;
}

nccl_result nccl_make(struct nccl_comm *comm)
{
    const struct nccl_making *making = &comm->making;
    nccl_result result = NCCL_SUCCESS;
    comm->place = making->place;
    if (making->parent) {
        int *members = calloc((unsigned)making->parent->ranks, sizeof *members);
        result = members ? split_ranks(comm, making, members) : nccl_fail(NCCL_SYSTEM_ERROR, "no memory");
        free(members);
    }
    bool part = comm->ranks > 0;
    if (result == NCCL_SUCCESS && part)
        result = nccl_store_open(comm);
    if (result == NCCL_SUCCESS && part)
        result = nccl_connect(comm);
    if (result == NCCL_SUCCESS && nccl_comm_ended(comm))
        result = nccl_fail(NCCL_INTERNAL_ERROR, "the communicator was aborted while it was made");
    if (result != NCCL_SUCCESS)
        nccl_disconnect(comm, "it could not be made");
    atomic_store(&comm->state, (int)result);
    nccl_comm_leave(making->parent);
    if (making->blocking && (result != NCCL_SUCCESS || !part)) { /* else the program has it, and asks how it is */
        *making->out = NULL;
        nccl_comm_end(comm);
    }
    nccl_comm_leave(comm);
    return result;
}

static void *make_thread(void *comm)
{
    nccl_make(comm);
    return NULL;
}

/* Now, at the end of the group, or in a thread. */
static nccl_result begin(struct nccl_comm *comm, const struct nccl_making *given)
{
    comm->making = *given;
    *given->out = comm;
    if (given->blocking)
        return nccl_submit(&(struct nccl_job){ .comm = comm, .kind = NCCL_JOB_MAKE });
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_thread, comm) != 0)
        return nccl_make(comm);
    pthread_detach(thread);
    return NCCL_IN_PROGRESS;
}

static nccl_result init_rank(struct nccl_comm **out, int ranks, const nccl_id *id, int rank,
                             const struct nccl_config *config, const char *function)
{
    struct nccl_making making = { .out = out, .blocking = true };
    core_context *context;
    int device;
    if (!out)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: comm is NULL", function);
    *out = NULL;
    nccl_result result = blocks(config, function, &making.blocking);
    if (result != NCCL_SUCCESS)
        return result;
    if (ranks < 1 || ranks > RANKS_MOST || rank < 0 || rank >= ranks)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: rank %d of %d; there are 1 to %d ranks, from 0", function, rank,
                         ranks, RANKS_MOST);
    if (!nccl_place_of(id, &making.place))
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "%s: the unique id was not made by Flyt's libnccl.so.2; all ranks must use it, or with "
                         "FLYT_NCCL=program all the program's own",
                         function);
    result = current(&context, &device);
    if (result != NCCL_SUCCESS)
        return result;
    struct nccl_comm *comm = nccl_comm_new(rank, ranks, context, device);
    return comm ? begin(comm, &making) : nccl_fail(NCCL_SYSTEM_ERROR, "%s: no memory", function);
}

nccl_result ncclCommInitRank(struct nccl_comm **out, int ranks, nccl_id id, int rank)
{
    NCCL_ENTER();
    return nccl_group_failed(init_rank(out, ranks, &id, rank, NULL, __func__));
}

nccl_result ncclCommInitRankConfig(struct nccl_comm **out, int ranks, nccl_id id, int rank,
                                   const struct nccl_config *config)
{
    NCCL_ENTER();
    return nccl_group_failed(init_rank(out, ranks, &id, rank, config, __func__));
}

nccl_result ncclCommInitRankScalable(struct nccl_comm **out, int ranks, int rank, int count, const nccl_id *ids,
                                     const struct nccl_config *config)
{
    NCCL_ENTER();
    if (count < 1 || !ids)
        return nccl_group_failed(nccl_fail(NCCL_INVALID_ARGUMENT, "%s: there is no unique id", __func__));
    return nccl_group_failed(init_rank(out, ranks, &ids[0], rank, config, __func__)); /* one store is enough */
}

static nccl_result init_all(struct nccl_comm **comms, int count, const int *devices)
{
    nccl_id id;
    struct nccl_making making = { .blocking = true };
    int available = 0;
    nccl_result result = nccl_of_core(core_device_count(&available), "ncclCommInitAll", NULL);
    if (result == NCCL_SUCCESS)
        result = ncclGetUniqueId(&id);
    if (result != NCCL_SUCCESS || !nccl_place_of(&id, &making.place))
        return result;
    for (int i = 0; i < count && result == NCCL_SUCCESS; i++) {
        int device = devices ? devices[i] : i;
        core_context *context = device >= 0 && device < available ? core_context_primary(device) : NULL;
        if (!context)
            return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommInitAll: there is no device %d", device);
        result = nccl_of_core(core_context_retain(context), "ncclCommInitAll", NULL);
        struct nccl_comm *comm = result == NCCL_SUCCESS ? nccl_comm_new(i, count, context, device) : NULL;
        making.out = &comms[i];
        if (result == NCCL_SUCCESS)
            result = comm ? begin(comm, &making) : nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommInitAll: no memory");
    }
    return result;
}

nccl_result ncclCommInitAll(struct nccl_comm **comms, int count, const int *devices)
{
    NCCL_ENTER();
    if (!comms || count < 1 || count > RANKS_MOST)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommInitAll: comms is NULL, or %d devices", count);
    memset(comms, 0, (size_t)count * sizeof *comms);
    ncclGroupStart();
    nccl_group_failed(init_all(comms, count, devices));
    return ncclGroupEnd();
}

/* One that new ones can be made of: also one that was revoked. */
static nccl_result parent_check(const struct nccl_comm *parent, const char *function)
{
    return known(parent, function) == NCCL_SUCCESS && parent->revoked ? NCCL_SUCCESS : nccl_comm_open(parent, function);
}

static nccl_result split(struct nccl_comm *parent, int color, int key, struct nccl_comm **out,
                         const struct nccl_config *config)
{
    struct nccl_making making = { .parent = parent, .color = color, .key = key, .out = out };
    nccl_result result = parent_check(parent, "ncclCommSplit");
    if (result == NCCL_SUCCESS)
        making.blocking = parent->making.blocking;
    if (result == NCCL_SUCCESS && (!out || (color < 0 && color != NCCL_SPLIT_NOCOLOR)))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommSplit: newcomm is NULL, or color is %d", color);
    if (result == NCCL_SUCCESS)
        result = blocks(config, "ncclCommSplit", &making.blocking);
    if (result != NCCL_SUCCESS)
        return result;
    making.blocking |= color < 0; /* there is nothing that could be asked about */
    struct nccl_comm *comm = nccl_comm_new(0, parent->ranks, parent->context, parent->device);
    making.number = ++parent->splits; /* by the calling thread: those that make communicators run in any order */
    if (!comm)
        return nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommSplit: no memory");
    making.parent = nccl_comm_enter(parent);
    if (making.parent)
        return begin(comm, &making);
    nccl_comm_drop(comm);
    return known(parent, "ncclCommSplit");
}

nccl_result ncclCommSplit(struct nccl_comm *comm, int color, int key, struct nccl_comm **out,
                          const struct nccl_config *config)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return nccl_group_failed(split(comm, color, key, out, config));
}

/* ---- going on without some ranks ---- */

nccl_result ncclCommRevoke(struct nccl_comm *comm, int flags)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = known(comm, __func__);
    if (result == NCCL_SUCCESS && flags)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the flags are %d, and must be 0", __func__, flags);
    if (result == NCCL_SUCCESS && !comm->revoked && !comm->made)
        result = nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator is not ready yet, or could not be made", __func__);
    if (result != NCCL_SUCCESS)
        return result;
    comm->revoked = true;
    nccl_cut(comm, "its program has revoked it");
    atomic_store(&comm->state, (int)NCCL_SUCCESS);
    return NCCL_SUCCESS;
}

/* A name that only these members of this communicator come to. */
static void shrunk_name(const struct nccl_comm *parent, const bool *gone, uint8_t name[16])
{
    uint64_t halves[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };
    const uint64_t prime = UINT64_C(0x100000001b3);
    for (int half = 0; half < 2; half++) { /* FNV-1a */
        for (unsigned i = 0; i < sizeof parent->place.name; i++)
            halves[half] = (halves[half] ^ parent->place.name[i]) * prime;
        halves[half] = (halves[half] ^ parent->shrinks) * prime;
        for (int r = 0; r < parent->ranks; r++)
            halves[half] = (halves[half] ^ gone[r]) * prime;
    }
    memcpy(name, halves, sizeof halves);
}

/* The remaining ranks meet in the store of the first of them that has one: the unique id's may be gone. */
static nccl_result shrunk_place(struct nccl_comm *parent, const bool *gone, struct nccl_comm *comm,
                                struct nccl_place *place)
{
    int home = -1;
    comm->rank = comm->ranks = 0;
    for (int r = 0; r < parent->ranks; r++) {
        if (gone[r])
            continue;
        if (r == parent->rank)
            comm->rank = comm->ranks;
        comm->ranks++;
        home = home < 0 && *parent->homes[r].uri ? r : home;
    }
    if (home < 0)
        return nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommShrink: no process of the remaining ranks could serve a store");
    *place = parent->homes[home];
    shrunk_name(parent, gone, place->name);
    return NCCL_SUCCESS;
}

static nccl_result excluded_read(const struct nccl_comm *parent, const int *excluded, int count, bool *gone)
{
    for (int i = 0; i < count; i++) {
        if (excluded[i] < 0 || excluded[i] >= parent->ranks || gone[excluded[i]])
            return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommShrink: rank %d is excluded; there are %d, each once",
                             excluded[i], parent->ranks);
        gone[excluded[i]] = true;
    }
    return gone[parent->rank]
               ? nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommShrink: rank %d calls it, and is excluded", parent->rank)
               : NCCL_SUCCESS;
}

static nccl_result shrink(struct nccl_comm *parent, const int *excluded, int count, struct nccl_comm **out,
                          const struct nccl_config *config, int flags)
{
    enum { ABORT = 1 };
    struct nccl_making making = { .out = out };
    nccl_result result = flags & ABORT ? known(parent, "ncclCommShrink") : parent_check(parent, "ncclCommShrink");
    if (result == NCCL_SUCCESS && (!out || !excluded || count < 1 || flags & ~ABORT ||
                                   atomic_load(&parent->state) == NCCL_IN_PROGRESS || !parent->homes))
        result = nccl_fail(NCCL_INVALID_ARGUMENT,
                           "ncclCommShrink: a pointer is NULL, %d ranks are excluded, the flags "
                           "are %d, or the communicator could not be made",
                           count, flags);
    if (result == NCCL_SUCCESS) {
        *out = NULL;
        making.blocking = parent->making.blocking;
        result = blocks(config, "ncclCommShrink", &making.blocking);
    }
    if (result != NCCL_SUCCESS)
        return result;
    bool *gone = calloc((unsigned)parent->ranks, sizeof *gone);
    struct nccl_comm *comm = nccl_comm_new(0, 0, parent->context, parent->device);
    result = gone && comm ? excluded_read(parent, excluded, count, gone)
                          : nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommShrink: no memory");
    parent->shrinks += result == NCCL_SUCCESS;
    if (result == NCCL_SUCCESS)
        result = shrunk_place(parent, gone, comm, &making.place);
    free(gone);
    if (result != NCCL_SUCCESS) {
        if (comm)
            nccl_comm_drop(comm);
        return result;
    }
    if (flags & ABORT)
        nccl_cut(parent, "its program goes on without some of its ranks");
    return begin(comm, &making);
}

nccl_result ncclCommShrink(struct nccl_comm *comm, const int *excluded, int count, struct nccl_comm **out,
                           const struct nccl_config *config, int flags)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return nccl_group_failed(shrink(comm, excluded, count, out, config, flags));
}

/* ---- ending ---- */

nccl_result ncclCommFinalize(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_check(comm, __func__);
    if (result == NCCL_SUCCESS && atomic_exchange(&comm->finalized, true))
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator has been finalized already", __func__);
    return result; /* the server carries out what it was given before it lets a rank go */
}

static nccl_result end(struct nccl_comm *comm, const char *function, const char *abort)
{
    nccl_result result = known(comm, function);
    if (result != NCCL_SUCCESS)
        return result;
    bool unready = atomic_load(&comm->state) == NCCL_IN_PROGRESS; /* what makes it has all of it yet */
    if (unready && !abort)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator is not ready yet; ncclCommAbort ends it",
                         function);
    if (!nccl_comm_end(comm))
        return known(comm, function);
    comm->why = abort;
    if (!unready)
        nccl_cut(comm, abort);
    return NCCL_SUCCESS;
}

nccl_result ncclCommDestroy(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return comm ? end(comm, __func__, NULL) : NCCL_SUCCESS;
}

nccl_result ncclCommAbort(struct nccl_comm *comm)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return comm ? end(comm, __func__, "its program has aborted it") : NCCL_SUCCESS;
}

/* ---- questions ---- */

/* `out` is where the caller wants the answer; `name` is what NCCL calls that argument. */
static nccl_result can_answer(const struct nccl_comm *comm, const void *out, const char *function, const char *name)
{
    nccl_result result = known(comm, function);
    return result != NCCL_SUCCESS || out ? result : nccl_fail(NCCL_INVALID_ARGUMENT, "%s: %s is NULL", function, name);
}

nccl_result ncclCommGetAsyncError(struct nccl_comm *comm, nccl_result *error)
{
    char why[CORE_WHY_SIZE];
    int status = 0;
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = can_answer(comm, error, __func__, "error");
    if (result != NCCL_SUCCESS)
        return result;
    *error = (nccl_result)atomic_load(&comm->state);
    pthread_mutex_lock(&comm->lock);
    uint64_t now = clock_now();
    bool ask = *error == NCCL_SUCCESS && comm->made && now - comm->asked >= ASK_NS;
    comm->asked = ask ? now : comm->asked;
    pthread_mutex_unlock(&comm->lock);
    int code = ask ? core_comm_status(comm->id, &status, why) : CORE_OK;
    if (code)
        *error = nccl_of_core(code, "the GPU server of a communicator", NULL);
    else if (status)
        *error = nccl_fail(NCCL_REMOTE_ERROR, "a communicator has ended: %s", why);
    if (code || status)
        atomic_store(&comm->state, (int)*error);
    return NCCL_SUCCESS;
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
