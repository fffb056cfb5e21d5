/* ended.c: communicators that are ended while they are made, or used: by another thread, or in a group. See ranks.c. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

enum { FORMER = 8 };

static nccl_result split_result;
static struct nccl_comm *split_new;

static void *split_waits(void *parent)
{
    split_result = ncclCommSplit(parent, 0, 0, &split_new, NULL);
    return NULL;
}

static void ends_at_once(struct nccl_comm *comm)
{
    double begin = now_s();
    GOOD(ncclCommAbort(comm));
    NEED(now_s() < begin + 0.5, "aborting: %.2f s", now_s() - begin);
    NEED(ncclCommAbort(comm) == NCCL_INVALID_ARGUMENT, "aborted twice");
}

/* Of ranks 0 and 1 only the first comes. */
static void initialising(void)
{
    struct nccl_config config = CONFIG(0);
    struct nccl_comm *comm;
    nccl_id id;
    for (int wait = 0; wait < 2; wait++) {
        GOOD(ncclGetUniqueId(&id));
        NEED(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == NCCL_IN_PROGRESS, "not blocking");
        usleep(wait ? 200000 : 0);
        double begin = now_s();
        NEED(ncclCommDestroy(comm) == NCCL_INVALID_ARGUMENT && strstr(ncclGetLastError(NULL), "ncclCommAbort"),
             "destroyed while it is made");
        NEED(now_s() < begin + 0.5, "destroying: %.2f s", now_s() - begin);
        ends_at_once(comm);
    }
}

static void all_again(void)
{
    struct nccl_comm *comms[MOST];
    GOOD(ncclCommInitAll(comms, count, NULL));
    for (int i = 0; i < count; i++)
        own[i].comm = comms[i];
}

static void other_thread(void)
{
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, split_waits, own[0].comm) == 0, "a thread");
    usleep(300000);
    double begin = now_s();
    ends_at_once(own[0].comm);
    pthread_join(thread, NULL);
    NEED(now_s() < begin + 1, "leaving: %.2f s", now_s() - begin);
    NEED(split_result == NCCL_INTERNAL_ERROR && !split_new, "what another thread has aborted: %d", split_result);
    NEED(ncclCommAbort(own[0].comm) == NCCL_INVALID_ARGUMENT && strstr(ncclGetLastError(NULL), "no such"),
         "a former one");
    ends_at_once(own[1].comm);
}

static void in_groups(void)
{
    GOOD(ncclGroupStart());
    GOOD(call(ALL_REDUCE, 0, 1, 0));
    GOOD(ncclCommDestroy(own[0].comm));
    NEED(call(ALL_REDUCE, 0, 1, 0) == NCCL_INVALID_ARGUMENT, "a destroyed one");
    NEED(ncclGroupEnd() == NCCL_INVALID_ARGUMENT, "a group with it");
    ends_at_once(own[1].comm);
    all_again();
    GOOD(ncclGroupStart());
    GOOD(call(ALL_REDUCE, 0, 1, 0));
    GOOD(ncclSend(at(own[1].in), 1, INT32, 0, own[1].comm, stream_of(1)));
    GOOD(ncclCommDestroy(own[0].comm));
    GOOD(ncclCommAbort(own[1].comm));
    NEED(ncclGroupEnd() == NCCL_INVALID_USAGE && strstr(ncclGetLastError(NULL), "destroyed or aborted after"),
         "a group");
}

/* None of the later ones is where the former one was. */
static void former(void)
{
    const struct nccl_comm *old = own[0].comm;
    int number;
    for (int turn = 0; turn < FORMER; turn++) {
        for (int i = 0; i < count; i++)
            GOOD(ncclCommDestroy(own[i].comm));
        all_again();
        NEED(ncclCommCount(old, &number) == NCCL_INVALID_ARGUMENT, "a former communicator");
    }
}

void ended(void)
{
    NEED(count == 2 && ranks == 2, "two ranks");
    initialising();
    other_thread();
    all_again();
    in_groups();
    all_again();
    former();
    fill();
    collectives_once();
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(own[i].comm));
}
