/*
 * child.c: communicators that are made of others: Split, Shrink, Grow; and Revoke, behind which the first two go on.
 *
 * In the store of their parent ranks leave
 *
 *   split_N_R   of split N: what rank R wants
 *   grow_N      of growth N: where old and new ranks meet
 */
#include "cpu/client/nccl/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checks ---- */

/* One that new ones can be made of: also one that was revoked. */
static nccl_result parent_check(const struct nccl_comm *parent, const char *function)
{
    return nccl_comm_known(parent, function) == NCCL_SUCCESS && parent->revoked ? nccl_comm_idle(parent, function)
                                                                                : nccl_comm_open(parent, function);
}

/* ---- names ---- */

/* FNV-1a, twice. */
static void mix(uint64_t halves[2], const void *bytes, size_t size)
{
    for (int half = 0; half < 2; half++)
        for (size_t i = 0; i < size; i++)
            halves[half] = (halves[half] ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

/* A name to which only the ranks come that make the same child of this communicator. which: its members, or color. */
static void name_child(const struct nccl_comm *parent, enum nccl_way way, unsigned number, const void *which,
                       size_t size, uint8_t name[16])
{
    uint64_t halves[2] = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };
    const uint32_t turn[] = { (uint32_t)way, number };
    mix(halves, parent->place.name, sizeof parent->place.name);
    mix(halves, turn, sizeof turn);
    mix(halves, which, size);
    memcpy(name, halves, sizeof halves);
}

/* A new communicator, and how it is made. Without a configuration it blocks if its parent does. */
static nccl_result child_new(struct nccl_comm *parent, const struct nccl_config *config, const char *function,
                             struct nccl_making *making, struct nccl_comm **out)
{
    bool blocking;
    nccl_result result = nccl_config_read(config, function, parent->blocking, &blocking);
    if (result != NCCL_SUCCESS)
        return result;
    making->parent = nccl_comm_enter(parent);
    if (!making->parent)
        return nccl_comm_known(parent, function);
    *out = nccl_comm_new(parent->rank, parent->ranks, parent->context, parent->device);
    if (!*out) {
        nccl_comm_leave(making->parent);
        return nccl_fail(NCCL_SYSTEM_ERROR, "%s: no memory", function);
    }
    (*out)->blocking = blocking;
    (*out)->making.parent = making->parent;
    making->waits = making->way == NCCL_BY_GROW ? blocking : parent->blocking;
    return NCCL_SUCCESS;
}

/* ---- split ---- */

struct split_card {
    int color, key;
};

/* Those of one color, by key, then by rank. */
static void split_members(struct nccl_comm *comm, int color, const struct split_card *cards, int *members)
{
    const struct nccl_comm *parent = comm->making.parent;
    comm->ranks = 0;
    for (int r = 0; r < parent->ranks; r++) {
        int at = comm->ranks;
        if (cards[r].color != color)
            continue;
        for (; at > 0 && cards[members[at - 1]].key > cards[r].key; at--)
            members[at] = members[at - 1];
        members[at] = r;
        comm->ranks++;
    }
    comm->rank = 0;
    while (members[comm->rank] != parent->rank)
        comm->rank++;
}

/* A rank without a color is in none: ranks becomes 0. */
static nccl_result split_find(struct nccl_comm *comm, struct split_card *cards, int *members)
{
    struct nccl_comm *parent = comm->making.parent;
    const struct split_card own = { comm->making.color, comm->making.key };
    char key[60];
    snprintf(key, sizeof key, "split_%u_%d", comm->making.number, parent->rank);
    nccl_result result = nccl_leave_for(comm, parent->place.name, key, &own, sizeof own, parent->ranks - 1);
    cards[parent->rank] = own;
    for (int r = 0; r < parent->ranks && result == NCCL_SUCCESS; r++) {
        size_t size = sizeof *cards;
        snprintf(key, sizeof key, "split_%u_%d", comm->making.number, r);
        if (r != parent->rank)
            result = nccl_find(comm, parent->place.name, key, &cards[r], &size);
    }
    comm->ranks = 0;
    if (result != NCCL_SUCCESS || own.color < 0)
        return result;
    split_members(comm, own.color, cards, members);
    name_child(parent, NCCL_BY_SPLIT, comm->making.number, &own.color, sizeof own.color, comm->place.name);
    return NCCL_SUCCESS;
}

static nccl_result split_found(struct nccl_comm *comm)
{
    const size_t ranks = (unsigned)comm->making.parent->ranks;
    struct split_card *cards = calloc(ranks, sizeof *cards);
    int *members = calloc(ranks, sizeof *members);
    nccl_result result = cards && members ? NCCL_SUCCESS : nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommSplit: no memory");
    comm->place = comm->making.parent->place; /* the new one's store is that one's, too */
    if (result == NCCL_SUCCESS)
        result = nccl_meet(comm);
    if (result == NCCL_SUCCESS)
        result = split_find(comm, cards, members);
    free(cards);
    free(members);
    return result;
}

static nccl_result split(struct nccl_comm *parent, int color, int key, struct nccl_comm **out,
                         const struct nccl_config *config)
{
    struct nccl_making making = { .way = NCCL_BY_SPLIT, .color = color, .key = key, .out = out };
    struct nccl_comm *comm;
    nccl_result result = parent_check(parent, "ncclCommSplit");
    if (result == NCCL_SUCCESS && !out)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommSplit: newcomm is NULL");
    if (result == NCCL_SUCCESS && color < 0 && color != NCCL_SPLIT_NOCOLOR)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommSplit: color is %d", color);
    if (result == NCCL_SUCCESS)
        result = child_new(parent, config, "ncclCommSplit", &making, &comm);
    if (result != NCCL_SUCCESS)
        return result;
    making.number = ++parent->splits; /* by the calling thread: those that make communicators run in any order */
    return nccl_make_begin(comm, &making);
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
    if (!comm)
        return NCCL_SUCCESS;
    nccl_result result = nccl_comm_known(comm, __func__);
    if (result == NCCL_SUCCESS && flags)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the flags are %d, and must be 0", __func__, flags);
    if (result == NCCL_SUCCESS && comm->finalized)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator has been finalized", __func__);
    if (result == NCCL_SUCCESS && !comm->revoked && !comm->made)
        result = nccl_fail(NCCL_INVALID_USAGE, "%s: the communicator is not ready yet, or could not be made", __func__);
    if (result == NCCL_SUCCESS && atomic_exchange(&comm->revoked, true))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: the communicator has been revoked already", __func__);
    if (result != NCCL_SUCCESS)
        return result;
    nccl_cut(comm, "its program has revoked it");
    atomic_store(&comm->state, (int)NCCL_SUCCESS);
    return NCCL_SUCCESS;
}

/* The remaining ranks meet in the store of the first of them that has one: the unique id's may be gone. */
static nccl_result shrunk_place(const struct nccl_comm *parent, unsigned number, const bool *gone,
                                struct nccl_comm *comm)
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
    comm->place = parent->homes[home];
    name_child(parent, NCCL_BY_SHRINK, number, gone, (unsigned)parent->ranks * sizeof *gone, comm->place.name);
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

enum { SHRINK_ABORT = 1 };

static nccl_result shrink_check(const struct nccl_comm *parent, const int *excluded, int count,
                                struct nccl_comm *const *out, int flags)
{
    nccl_result result = flags & SHRINK_ABORT ? nccl_comm_idle(parent, "ncclCommShrink")
                                              : parent_check(parent, "ncclCommShrink");
    if (result != NCCL_SUCCESS)
        return result;
    if (!out)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommShrink: newcomm is NULL");
    if (!excluded)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommShrink: excludeRanksList is NULL");
    if (count < 1)
        return nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommShrink: %d ranks are excluded; it is at least one", count);
    if (flags & ~SHRINK_ABORT)
        return nccl_fail(NCCL_INVALID_ARGUMENT,
                         "ncclCommShrink: the flags are %d, not NCCL_SHRINK_DEFAULT (0) or NCCL_SHRINK_ABORT (1)",
                         flags);
    if (!parent->homes)
        return nccl_fail(NCCL_INVALID_USAGE, "ncclCommShrink: the communicator could not be made");
    return NCCL_SUCCESS;
}

static nccl_result shrink(struct nccl_comm *parent, const int *excluded, int count, struct nccl_comm **out,
                          const struct nccl_config *config, int flags)
{
    struct nccl_making making = { .way = NCCL_BY_SHRINK, .out = out };
    struct nccl_comm *comm = NULL;
    nccl_result result = shrink_check(parent, excluded, count, out, flags);
    if (result != NCCL_SUCCESS)
        return result;
    *out = NULL;
    bool *gone = calloc((unsigned)parent->ranks, sizeof *gone);
    result = gone ? excluded_read(parent, excluded, count, gone)
                  : nccl_fail(NCCL_SYSTEM_ERROR, "ncclCommShrink: no memory");
    if (result == NCCL_SUCCESS)
        result = child_new(parent, config, "ncclCommShrink", &making, &comm);
    if (result == NCCL_SUCCESS)
        result = shrunk_place(parent, ++parent->shrinks, gone, comm);
    free(gone);
    if (result != NCCL_SUCCESS) {
        if (comm)
            nccl_comm_drop(comm);
        return result;
    }
    if (flags & SHRINK_ABORT) {
        nccl_cut(parent, "its program goes on without some of its ranks");
        if (!parent->blocking) /* the program asks it how the making goes on */
            atomic_store(&parent->state, (int)NCCL_SUCCESS);
    }
    return nccl_make_begin(comm, &making);
}

nccl_result ncclCommShrink(struct nccl_comm *comm, const int *excluded, int count, struct nccl_comm **out,
                           const struct nccl_config *config, int flags)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    return nccl_group_failed(shrink(comm, excluded, count, out, config, flags));
}

/* ---- growing ---- */

nccl_result ncclCommGetUniqueId(struct nccl_comm *comm, nccl_id *id)
{
    struct nccl_place place;
    char key[40];
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = nccl_comm_open(comm, __func__);
    if (result == NCCL_SUCCESS && !id)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: uniqueId is NULL", __func__);
    if (result == NCCL_SUCCESS && comm->offered)
        result = nccl_fail(NCCL_INVALID_USAGE, "%s: ncclCommGrow has not used the unique id of before yet", __func__);
    if (result == NCCL_SUCCESS)
        result = ncclGetUniqueId(id);
    if (result != NCCL_SUCCESS || !nccl_place_of(id, &place))
        return result;
    snprintf(key, sizeof key, "grow_%u", comm->growths + 1);
    comm->deadline = nccl_deadline();
    result = nccl_meet(comm);
    if (result == NCCL_SUCCESS)
        result = nccl_leave_for(comm, comm->place.name, key, &place, sizeof place, comm->ranks);
    nccl_part(comm);
    comm->offered = result == NCCL_SUCCESS;
    return result;
}

static nccl_result grow_found(struct nccl_comm *comm)
{
    const struct nccl_comm *parent = comm->making.parent;
    char key[40];
    size_t size = sizeof comm->place;
    snprintf(key, sizeof key, "grow_%u", comm->making.number);
    comm->place = parent->place;
    nccl_result result = nccl_meet(comm);
    if (result == NCCL_SUCCESS)
        result = nccl_find(comm, parent->place.name, key, &comm->place, &size);
    nccl_part(comm);
    return result;
}

/* For a rank of the communicator that grows. */
static nccl_result grow(struct nccl_comm *parent, int ranks, int rank, struct nccl_comm **out,
                        const struct nccl_config *config)
{
    struct nccl_making making = { .way = NCCL_BY_GROW, .out = out };
    struct nccl_comm *comm;
    nccl_result result = nccl_comm_open(parent, "ncclCommGrow");
    if (result == NCCL_SUCCESS && (ranks <= parent->ranks || ranks > NCCL_RANKS_MOST))
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "ncclCommGrow: from %d ranks to %d, of at most %d", parent->ranks,
                           ranks, NCCL_RANKS_MOST);
    if (result == NCCL_SUCCESS && rank != -1)
        result = nccl_fail(NCCL_INVALID_ARGUMENT,
                           "ncclCommGrow: the rank is %d, and must be -1: ranks that there are keep theirs", rank);
    if (result == NCCL_SUCCESS)
        result = child_new(parent, config, "ncclCommGrow", &making, &comm);
    if (result != NCCL_SUCCESS)
        return result;
    making.number = ++parent->growths;
    parent->offered = false;
    comm->ranks = ranks;
    return nccl_make_begin(comm, &making);
}

nccl_result ncclCommGrow(struct nccl_comm *comm, int ranks, const nccl_id *id, int rank, struct nccl_comm **out,
                         const struct nccl_config *config)
{
    NCCL_ENTER();
    NCCL_USE(comm);
    nccl_result result = NCCL_SUCCESS;
    if (!out)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: newcomm is NULL", __func__);
    else if (!comm && !id)
        result = nccl_fail(NCCL_INVALID_ARGUMENT, "%s: a new rank has no unique id", __func__);
    else
        *out = NULL;
    if (result == NCCL_SUCCESS)
        result = comm ? grow(comm, ranks, rank, out, config) : nccl_init_rank(out, ranks, id, rank, config, __func__);
    return nccl_group_failed(result);
}

/* ---- what only all ranks together know ---- */

nccl_result nccl_child_find(struct nccl_comm *comm)
{
    switch (comm->making.way) {
    case NCCL_BY_SPLIT: return split_found(comm);
    case NCCL_BY_GROW: return grow_found(comm);
    default: return NCCL_SUCCESS;
    }
}
