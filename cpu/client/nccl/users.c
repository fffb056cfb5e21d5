/*
 * users.c: who uses a communicator, and what becomes of its memory.
 *
 * A thread may still hold the handle of a communicator that another one has ended, and ask whether it is one. So its
 * memory is not given back: it waits in a list, behind that of those that ended before, until there are RETIRED of
 * them. A handle is known to be a former one up to then.
 */
#include "cpu/client/nccl/nccl.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x466c79744e43434c)
enum { RETIRED = 64 };
static const unsigned ended = 1u << 31; /* of `users` */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nccl_comm *first, *last;
static unsigned retired;

static struct nccl_comm *memory_take(void)
{
    struct nccl_comm *comm = NULL;
    pthread_mutex_lock(&lock);
    if (retired >= RETIRED) {
        comm = first;
        first = comm->next;
        retired--;
    }
    pthread_mutex_unlock(&lock);
    return comm ? comm : calloc(1, sizeof *comm);
}

static void memory_give(struct nccl_comm *comm)
{
    comm->next = NULL;
    pthread_mutex_lock(&lock);
    if (retired++)
        last->next = comm;
    else
        first = comm;
    last = comm;
    pthread_mutex_unlock(&lock);
}

struct nccl_comm *nccl_comm_new(int rank, int ranks, core_context *context, int device)
{
    const size_t keep = offsetof(struct nccl_comm, next);
    struct nccl_comm *comm = memory_take();
    if (!comm)
        return NULL;
    memset((char *)comm + keep, 0, sizeof *comm - keep);
    comm->rank = rank;
    comm->ranks = ranks;
    comm->context = context;
    comm->device = device;
    pthread_mutex_init(&comm->lock, NULL);
    atomic_init(&comm->state, NCCL_IN_PROGRESS);
    comm->magic = MAGIC;
    atomic_store(&comm->users, 1);
    return comm;
}

struct nccl_comm *nccl_comm_enter(const struct nccl_comm *handle)
{
    struct nccl_comm *comm = (struct nccl_comm *)(uintptr_t)handle;
    if (!comm || comm->magic != MAGIC)
        return NULL;
    unsigned users = atomic_load(&comm->users);
    while (!(users & ended))
        if (atomic_compare_exchange_weak(&comm->users, &users, users + 1))
            return comm;
    return NULL;
}

void nccl_comm_leave(struct nccl_comm *comm)
{
    if (!comm || atomic_fetch_sub(&comm->users, 1) != ended + 1)
        return;
    nccl_disconnect(comm, comm->why);
    pthread_mutex_destroy(&comm->lock);
    memory_give(comm);
}

void nccl_comm_used(struct nccl_comm *const *comm) { nccl_comm_leave(*comm); }

bool nccl_comm_end(struct nccl_comm *comm) { return !(atomic_fetch_or(&comm->users, ended) & ended); }

bool nccl_comm_ended(const struct nccl_comm *comm)
{
    return comm->magic != MAGIC || (atomic_load(&comm->users) & ended);
}

bool nccl_making_ended(const struct nccl_comm *comm)
{
    const struct nccl_comm *parent = comm->making.parent;
    return nccl_comm_ended(comm) || (parent && nccl_comm_ended(parent));
}
