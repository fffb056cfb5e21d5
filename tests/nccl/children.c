/* children.c: communicators that are made of others, that do not block, and that are finalized. See ranks.c. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

nccl_result error_of(struct nccl_comm *comm, double seconds)
{
    nccl_result error = NCCL_IN_PROGRESS;
    for (double until = now_s() + seconds; error == NCCL_IN_PROGRESS && now_s() < until; usleep(1000))
        GOOD(ncclCommGetAsyncError(comm, &error));
    return error;
}

static nccl_result state_of(struct nccl_comm *comm)
{
    nccl_result error = NCCL_SUCCESS;
    GOOD(ncclCommGetAsyncError(comm, &error));
    return error;
}

static nccl_result sum_of(int i, struct nccl_comm *comm)
{
    return ncclAllReduce(at(own[i].in), at(own[i].out), COUNT, INT32, SUM, comm, stream_of(i));
}

/* ---- those that do not block ---- */

/* Ranks of this process only, one on each GPU. */
static void made_behind(struct nccl_comm *comms[MOST])
{
    struct nccl_config config = CONFIG(0);
    nccl_id id;
    GOOD(ncclGetUniqueId(&id));
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        GOOD(ncclCommInitRankConfig(&comms[i], count, id, i, &config));
        NEED(state_of(comms[i]) == NCCL_IN_PROGRESS, "made before the group ends");
    }
    NEED(ncclGroupEnd() == NCCL_IN_PROGRESS, "a group of communicators that do not block");
    for (int i = 0; i < count; i++)
        GOOD(error_of(comms[i], 10));
}

static void summed(struct nccl_comm *const comms[MOST])
{
    fill();
    for (int i = 0; i < count; i++)
        GOOD(sum_of(i, comms[i]));
    for (int i = 0; i < count; i++)
        NEED(numbers_of(i, own[i].out, COUNT)[7] == sum(7), "the sum of a child");
}

static void destroyed(struct nccl_comm *comms[MOST])
{
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(comms[i]));
}

/* The program asks the parent, and gets its handle at last. */
static void split_behind(struct nccl_comm *const parents[MOST])
{
    struct nccl_config blocking = CONFIG(1);
    struct nccl_comm *children[MOST], *none;
    int number;
    for (int i = 0; i < count; i++) {
        children[i] = parents[i];
        NEED(ncclCommSplit(parents[i], 0, 0, &children[i], i ? NULL : &blocking) == NCCL_IN_PROGRESS, "a split");
        if (i)
            continue;
        usleep(100000);
        NEED(!children[0] && state_of(parents[0]) == NCCL_IN_PROGRESS, "a child that cannot be made yet");
        NEED(sum_of(0, parents[0]) == NCCL_INVALID_ARGUMENT && strstr(ncclGetLastError(NULL), "not ready yet"),
             "a parent that is in progress");
        NEED(ncclCommSplit(parents[0], 0, 0, &none, NULL) == NCCL_INVALID_ARGUMENT, "another child");
        NEED(ncclCommCount(parents[0], &number) == NCCL_INVALID_ARGUMENT, "its number of ranks");
        NEED(ncclCommDestroy(parents[0]) == NCCL_INVALID_ARGUMENT, "its end");
    }
    for (int i = 0; i < count; i++)
        GOOD(error_of(parents[i], 10));
    summed(children);
    /* the child of this configuration blocks, the others do not */
    for (int i = 0; i < count; i++)
        NEED(ncclCommFinalize(children[i]) == (i ? NCCL_IN_PROGRESS : NCCL_SUCCESS), "its own configuration");
    for (int i = 0; i < count; i++)
        GOOD(error_of(children[i], 10));
    destroyed(children);
}

/* Of two children in one group the rank is in one. */
static void split_in_group(struct nccl_comm *const parents[MOST])
{
    struct nccl_comm *children[MOST], *others[MOST];
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        GOOD(ncclCommSplit(parents[i], -1, 0, &others[i], NULL));
        GOOD(ncclCommSplit(parents[i], 3, -i, &children[i], NULL));
    }
    NEED(ncclGroupEnd() == NCCL_IN_PROGRESS, "a group of splits");
    for (int i = 0; i < count; i++) {
        int rank = -1;
        GOOD(error_of(parents[i], 10));
        NEED(children[i] && !others[i], "of two splits");
        GOOD(ncclCommUserRank(children[i], &rank));
        NEED(rank == count - 1 - i, "rank %d", rank);
    }
    summed(children);
    destroyed(children);
}

/* The program asks the communicator, and gets the window when all ranks have registered theirs. */
static void windows_behind(struct nccl_comm *const comms[MOST])
{
    struct nccl_window *windows[MOST];
    for (int i = 0; i < count; i++) {
        NEED(ncclCommWindowRegister(comms[i], at(own[i].in), COUNT * 4, &windows[i], 1) == NCCL_IN_PROGRESS,
             "a window");
        NEED(i == count - 1 || (!windows[i] && state_of(comms[i]) == NCCL_IN_PROGRESS), "a window before all have one");
    }
    for (int i = 0; i < count; i++)
        GOOD(error_of(comms[i], 10));
    summed(comms);
    for (int i = 0; i < count; i++)
        GOOD(ncclSignal((i + 1) % count, 0, 0, 0, comms[i], stream_of(i)));
    for (int i = 0; i < count; i++) {
        struct nccl_signals one = { 1, (i + count - 1) % count, 0, 0 };
        GOOD(ncclWaitSignal(1, &one, comms[i], stream_of(i)));
        GOOD(ncclCommWindowDeregister(comms[i], windows[i]));
    }
}

static void shrink_behind(struct nccl_comm *const parents[MOST])
{
    struct nccl_comm *children[MOST] = { NULL };
    int excluded[] = { count - 1 };
    for (int i = 0; i < count - 1; i++)
        NEED(ncclCommShrink(parents[i], excluded, 1, &children[i], NULL, 0) == NCCL_IN_PROGRESS, "shrinking");
    for (int i = 0; i < count - 1; i++) {
        int number = 0;
        GOOD(error_of(parents[i], 10));
        GOOD(ncclCommCount(children[i], &number));
        NEED(number == count - 1, "%d ranks", number);
        GOOD(ncclCommDestroy(children[i]));
    }
}

/* Nothing is written into the program's variable behind the abort. */
static void aborted_parent(struct nccl_comm *const parents[MOST])
{
    struct nccl_comm *child;
    NEED(ncclCommSplit(parents[0], 0, 0, &child, NULL) == NCCL_IN_PROGRESS, "a split");
    usleep(20000);
    double begin = now_s();
    GOOD(ncclCommAbort(parents[0]));
    NEED(now_s() < begin + 0.5, "aborting: %.2f s", now_s() - begin);
    struct nccl_comm *const mark = child = (struct nccl_comm *)&begin;
    usleep(200000);
    NEED(child == mark, "a handle behind the abort");
    for (int i = 1; i < count; i++)
        GOOD(ncclCommAbort(parents[i]));
}

void behind_the_program(void)
{
    struct nccl_comm *comms[MOST];
    made_behind(comms);
    summed(comms);
    split_behind(comms);
    windows_behind(comms);
    split_in_group(comms);
    shrink_behind(comms);
    summed(comms);
    aborted_parent(comms);
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    NEED(ncclCommInitAll(comms, count, NULL) == NCCL_IN_PROGRESS, "NCCL_COMM_BLOCKING");
    unsetenv("NCCL_COMM_BLOCKING");
    for (int i = 0; i < count; i++)
        GOOD(error_of(comms[i], 10));
    destroyed(comms);
}

/* ---- operations that are under way at the end ---- */

static struct nccl_comm *late_comm;
static double late_at;

/* The last rank calls what the others wait for. */
static void *late_call(void *unused)
{
    usleep(300000);
    late_at = now_s();
    GOOD(sum_of(count - 1, late_comm));
    return unused;
}

/* All ranks but the last one have called a sum. */
static pthread_t under_way(struct nccl_comm *const comms[MOST])
{
    pthread_t thread;
    fill();
    for (int i = 0; i < count - 1; i++)
        GOOD(sum_of(i, comms[i]));
    late_comm = comms[count - 1];
    NEED(pthread_create(&thread, NULL, late_call, NULL) == 0, "a thread");
    return thread;
}

static void all_summed(void)
{
    for (int i = 0; i < count; i++)
        NEED(numbers_of(i, own[i].out, COUNT)[7] == sum(7), "a sum that was under way");
}

static void finalized_behind(void)
{
    struct nccl_comm *comms[MOST];
    made_behind(comms);
    pthread_t thread = under_way(comms);
    NEED(ncclCommFinalize(comms[0]) == NCCL_IN_PROGRESS, "finalizing");
    usleep(50000);
    NEED(state_of(comms[0]) == NCCL_IN_PROGRESS, "what is under way");
    NEED(ncclCommFinalize(comms[0]) == NCCL_INVALID_ARGUMENT, "twice");
    NEED(ncclCommDestroy(comms[0]) == NCCL_INVALID_ARGUMENT, "too early");
    GOOD(error_of(comms[0], 10));
    NEED(late_at && now_s() >= late_at, "ready before the last rank has called");
    pthread_join(thread, NULL);
    all_summed();
    destroyed(comms);
}

/* Finalize and Destroy of one that blocks. */
static void waited_for(nccl_result (*end)(struct nccl_comm *))
{
    struct nccl_comm *comms[MOST];
    GOOD(ncclCommInitAll(comms, count, NULL));
    late_at = 0;
    pthread_t thread = under_way(comms);
    for (int i = 0; i < count - 1; i++)
        GOOD(end(comms[i]));
    NEED(late_at && now_s() >= late_at, "it did not wait");
    pthread_join(thread, NULL);
    GOOD(end(comms[count - 1]));
    all_summed();
    if (end == ncclCommFinalize)
        destroyed(comms);
}

void finalized(void)
{
    finalized_behind();
    waited_for(ncclCommFinalize);
    waited_for(ncclCommDestroy);
}

/* ---- growing ---- */

/* All ranks but the last one; which joins them. */
void grown(void)
{
    struct nccl_comm *parts[MOST], *whole[MOST], *none;
    nccl_id id = { "" }, ids[2];
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclCommSplit(own[i].comm, first + i < ranks - 1 ? 0 : -1, 0, &parts[i], NULL));
    GOOD(ncclGroupEnd());
    if (first == 0) {
        GOOD(ncclCommGetUniqueId(parts[0], &id));
        NEED(ncclCommGetUniqueId(parts[0], &ids[0]) == NCCL_INVALID_USAGE, "a second unique id");
        NEED(ncclCommGrow(parts[0], ranks - 1, NULL, -1, &none, NULL) == NCCL_INVALID_ARGUMENT, "no new ranks");
        NEED(ncclCommGrow(parts[0], ranks, NULL, 0, &none, NULL) == NCCL_INVALID_ARGUMENT, "a rank that there is");
    }
    NEED(ncclCommGrow(NULL, ranks, NULL, ranks - 1, &none, NULL) == NCCL_INVALID_ARGUMENT, "no unique id");
    /* the last rank gets it from rank 0 */
    CUDA(cuCtxSetCurrent(own[0].context));
    CUDA(cuMemcpyHtoD(own[0].in, &id, sizeof id));
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclBroadcast(at(own[i].in), at(own[i].out), sizeof id, 0, 0, own[i].comm, stream_of(i)));
    GOOD(ncclGroupEnd());
    memcpy(&id, numbers_of(count - 1, own[count - 1].out, (int)sizeof id / 4), sizeof id);
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        if (parts[i])
            GOOD(ncclCommGrow(parts[i], ranks, first + i ? NULL : &id, -1, &whole[i], NULL));
        else
            GOOD(ncclCommGrow(NULL, ranks, &id, ranks - 1, &whole[i], NULL));
    }
    GOOD(ncclGroupEnd());
    fill();
    for (int i = 0; i < count; i++) {
        int number = 0;
        GOOD(ncclCommDestroy(parts[i]));
        GOOD(ncclCommUserRank(whole[i], &number));
        NEED(number == first + i, "rank %d of the grown one", number);
        GOOD(sum_of(i, whole[i]));
    }
    for (int i = 0; i < count; i++)
        NEED(numbers_of(i, own[i].out, COUNT)[7] == sum(7), "the sum of a grown one");
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(whole[i]));
}
