/*
 * meet.c: the store in which ranks meet while a communicator is made.
 *
 * A connection is needed only meanwhile. It then waits for the next communicator of this process with the same store:
 * so a store has no more clients than threads that make communicators, however many communicators there are.
 */
#include "cpu/client/nccl/nccl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/comm/store/store.h"
#include "cpu/common/clock.h"

/* A thread that waits for a rank looks this often whether the program has aborted or destroyed the communicator. */
#define LOOK_NS (50 * CLOCK_NS_PER_MS)
enum { IDLE_MOST = 16, KEY_SIZE = 80 };

struct nccl_meeting {
    struct nccl_meeting *next; /* idle */
    struct nccl_place place;   /* without the name */
    struct comm_store *store;
    bool lost; /* something has failed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nccl_meeting *idle;
static unsigned idle_count;

static struct nccl_meeting *take_idle(const struct nccl_place *place)
{
    pthread_mutex_lock(&lock);
    struct nccl_meeting **at = &idle, *found;
    while ((found = *at) && (strcmp(found->place.uri, place->uri) != 0 ||
                             memcmp(found->place.key, place->key, sizeof place->key) != 0))
        at = &found->next;
    if (found) {
        *at = found->next;
        idle_count--;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static nccl_result connect_to(const struct nccl_place *place, uint64_t deadline, struct nccl_meeting **out)
{
    char error[RPC_ERROR_SIZE] = "";
    struct nccl_meeting *m = calloc(1, sizeof *m);
    if (!m)
        return nccl_fail(NCCL_SYSTEM_ERROR, "the store of the ranks: no memory");
    m->place = *place;
    int status = comm_store_tcp(place->uri, place->key, deadline, &m->store, error);
    if (status < 0) {
        free(m);
        m = NULL;
    }
    *out = m;
    return nccl_of_errno(status, "the store of the ranks", error);
}

nccl_result nccl_meet(struct nccl_comm *comm)
{
    if (comm->meeting)
        return NCCL_SUCCESS;
    comm->meeting = take_idle(&comm->place);
    return comm->meeting ? NCCL_SUCCESS : connect_to(&comm->place, comm->deadline, &comm->meeting);
}

static void forget(struct nccl_meeting *m)
{
    comm_store_destroy(m->store);
    explicit_bzero(m, sizeof *m);
    free(m);
}

void nccl_part(struct nccl_comm *comm)
{
    struct nccl_meeting *m = comm->meeting;
    comm->meeting = NULL;
    if (!m)
        return;
    pthread_mutex_lock(&lock);
    const bool keeps = !m->lost && idle_count < IDLE_MOST;
    if (keeps) {
        m->next = idle;
        idle = m;
        idle_count++;
    }
    pthread_mutex_unlock(&lock);
    if (!keeps)
        forget(m);
}

static void whole_key(const uint8_t name[16], const char *key, char whole[KEY_SIZE])
{
    for (unsigned i = 0; i < 16; i++)
        snprintf(whole + 2 * i, 3, "%02x", name[i]);
    snprintf(whole + 32, KEY_SIZE - 32, "/%s", key);
}

nccl_result nccl_leave_for(struct nccl_comm *comm, const uint8_t name[16], const char *key, const void *value,
                           size_t size, int ranks)
{
    char error[RPC_ERROR_SIZE] = "", whole[KEY_SIZE];
    if (ranks < 1)
        return NCCL_SUCCESS;
    whole_key(name, key, whole);
    int status = comm_store_lend(comm->meeting->store, whole, value, size, (unsigned)ranks, comm->deadline, error);
    comm->meeting->lost |= status < 0;
    return nccl_of_errno(status, "meeting", error);
}

void nccl_await(struct nccl_comm *comm, const uint8_t name[16], const char *key, uint64_t deadline)
{
    char whole[KEY_SIZE], nothing;
    whole_key(name, key, whole);
    int status = comm_store_get(comm->meeting->store, whole, &nothing, sizeof nothing, NULL, deadline, NULL);
    comm->meeting->lost |= status < 0 && status != -ETIMEDOUT;
}

/* Another rank may be lost while this one waits for a further one. */
static nccl_result goes_on(struct nccl_comm *comm)
{
    char why[CORE_WHY_SIZE];
    int status = 0;
    if (nccl_making_ended(comm))
        return nccl_fail(NCCL_INTERNAL_ERROR, "meeting: the communicator was aborted or destroyed");
    if (comm->making.group && atomic_load(comm->making.group) != NCCL_SUCCESS)
        return (nccl_result)atomic_load(comm->making.group);
    int code = comm->made ? core_comm_status(comm->id, &status, why) : CORE_OK;
    return code     ? nccl_of_core(code, "meeting", why)
           : status ? nccl_fail(NCCL_REMOTE_ERROR, "the communicator has ended while it was made: %s", why)
                    : NCCL_SUCCESS;
}

nccl_result nccl_find(struct nccl_comm *comm, const uint8_t name[16], const char *key, void *value, size_t *size)
{
    char error[RPC_ERROR_SIZE] = "", whole[KEY_SIZE];
    const uint64_t deadline = comm->deadline;
    const size_t room = *size;
    whole_key(name, key, whole);
    for (;;) {
        const uint64_t look = clock_now() + LOOK_NS;
        *size = room;
        int status = comm_store_get(comm->meeting->store, whole, value, room, size, look < deadline ? look : deadline,
                                    error);
        const nccl_result result = status == -ETIMEDOUT ? goes_on(comm) : NCCL_SUCCESS;
        if (result != NCCL_SUCCESS)
            return result;
        if (status == -ETIMEDOUT && look < deadline)
            continue;
        comm->meeting->lost |= status < 0;
        return nccl_of_errno(status, "meeting", error);
    }
}
