/* lost.c: what becomes of the other ranks when some are gone, or a communicator is revoked. See ranks.c. */
#include <string.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

/* ---- what was revoked ---- */

static void shrinks_that_are_refused(struct nccl_comm *comm)
{
    struct nccl_comm *smaller;
    int none[] = { 0 };
    const struct {
        const int *excluded;
        int count;
        struct nccl_comm **out;
        int flags;
        const char *why;
    } wrong[] = {
        { none, 1, NULL, 0, "newcomm is NULL" },
        { NULL, 1, &smaller, 0, "excludeRanksList is NULL" },
        { none, 0, &smaller, 0, "0 ranks are excluded" },
        { none, 1, &smaller, 2, "the flags are 2" },
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        NEED(ncclCommShrink(comm, wrong[i].excluded, wrong[i].count, wrong[i].out, NULL, wrong[i].flags) ==
                     NCCL_INVALID_ARGUMENT &&
                 strstr(ncclGetLastError(NULL), wrong[i].why),
             "shrinking: %s", wrong[i].why);
}

/* While a collective waits for the last rank. Afterwards there are new ones with the same ranks. */
void revoked(void)
{
    struct nccl_comm *parts[MOST], *smaller[MOST] = { NULL };
    collectives_once(); /* no rank asks any more whether all is well */
    /* What a rank has got from this one says that all others have looked at their results. Itself it may still be under
       way elsewhere when another rank revokes: then it is an error there. */
    for (int i = 0; i < count; i++)
        GOOD(call(ALL_REDUCE, i, 1, 0));
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream);
    }
    for (int i = 0; i < count; i++)
        if (first + i < ranks - 1)
            GOOD(call(ALL_REDUCE, i, COUNT, 0));
    for (int i = 0; i < count; i++) {
        nccl_result error = NCCL_REMOTE_ERROR;
        double begin = now_s();
        NEED(ncclCommRevoke(own[i].comm, 1) == NCCL_INVALID_ARGUMENT, "flags");
        GOOD(ncclCommRevoke(own[i].comm, 0));
        NEED(now_s() < begin + 0.5, "revoking: %.2f s", now_s() - begin);
        NEED(ncclCommRevoke(own[i].comm, 0) == NCCL_INVALID_ARGUMENT, "revoked twice");
        GOOD(ncclCommGetAsyncError(own[i].comm, &error));
        GOOD(error);
        NEED(call(ALL_REDUCE, i, 1, 0) == NCCL_INVALID_USAGE, "a revoked communicator");
        NEED(ncclCommFinalize(own[i].comm) == NCCL_INVALID_ARGUMENT, "a revoked communicator's end");
    }
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream); /* an error where another rank was quicker to revoke */
    }
    fill();
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclCommSplit(own[i].comm, 0, first + i, &parts[i], NULL));
    GOOD(ncclGroupEnd());
    shrinks_that_are_refused(parts[0]);
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        int excluded[] = { ranks - 1, 0 };
        if (first + i == ranks - 1)
            continue;
        NEED(ncclCommShrink(parts[i], &ranks, 1, &smaller[i], NULL, 0) == NCCL_INVALID_ARGUMENT, "no rank");
        GOOD(ncclCommShrink(parts[i], excluded, 1, &smaller[i], NULL, 0));
    }
    nccl_result ended = ncclGroupEnd();
    NEED(ended == (first + count == ranks && count == 1 ? NCCL_SUCCESS : NCCL_INVALID_ARGUMENT), "group: %d", ended);
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        int excluded[] = { ranks - 1 };
        if (first + i < ranks - 1)
            GOOD(ncclCommShrink(parts[i], excluded, 1, &smaller[i], NULL, 0));
    }
    GOOD(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
        int number = 0, root = 0;
        struct nccl_comm *comm = smaller[i] ? smaller[i] : parts[i];
        GOOD(ncclCommCount(comm, &number));
        NEED(number == ranks - (smaller[i] != NULL), "%d ranks", number);
        if (smaller[i])
            GOOD(ncclBroadcast(at(own[i].in), at(own[i].out), COUNT, INT32, root, smaller[i], stream_of(i)));
        GOOD(ncclAllGather(at(own[i].in), at(own[i].out + (CUdeviceptr)(smaller[i] ? COUNT * 4 : 0)), COUNT / MOST,
                           INT32, parts[i], stream_of(i)));
    }
    for (int i = 0; i < count; i++) {
        const int *got = numbers_of(i, own[i].out, 2 * COUNT) + (smaller[i] ? COUNT : 0);
        for (int k = 0; k < COUNT / MOST * ranks; k++)
            NEED(got[k] == value(k / (COUNT / MOST), k % (COUNT / MOST)), "behind a revoked one: %d", got[k]);
        NEED(!smaller[i] || numbers_of(i, own[i].out, COUNT)[9] == value(0, 9), "a smaller one");
        if (smaller[i])
            GOOD(ncclCommDestroy(smaller[i]));
        GOOD(ncclCommDestroy(parts[i]));
    }
}

/* ---- a rank that is lost ---- */

/* The first ranks, so many, are gone. */
static void shrink(int gone)
{
    struct nccl_comm *smaller[MOST];
    int excluded[MOST] = { 0, 1, 2, 3 };
    double begin = now_s();
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclCommShrink(own[i].comm, excluded, gone, &smaller[i], NULL, 1));
    GOOD(ncclGroupEnd());
    NEED(now_s() < begin + 2, "shrinking: %.2f s", now_s() - begin);
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream);
        GOOD(ncclCommDestroy(own[i].comm));
        own[i].comm = smaller[i];
    }
    fill();
    for (int i = 0; i < count; i++)
        GOOD(call(ALL_GATHER, i, COUNT, 0));
    for (int i = 0; i < count; i++) {
        int rank = -1;
        const int *got = numbers_of(i, own[i].out, COUNT * (ranks - gone));
        for (int k = 0; k < COUNT * (ranks - gone); k++)
            NEED(got[k] == value(gone + k / COUNT, k % COUNT), "smaller: %d: %d", k, got[k]);
        GOOD(ncclCommUserRank(own[i].comm, &rank));
        NEED(rank == first + i - gone, "rank %d", rank);
        GOOD(ncclCommDestroy(own[i].comm));
    }
}

void await_loss(void)
{
    char line[16];
    printf("ready\n");
    NEED(fgets(line, sizeof line, stdin) != NULL, "a line");
    double begin = now_s();
    for (int i = 0; i < count; i++) {
        nccl_result error = NCCL_SUCCESS;
        while (error == NCCL_SUCCESS && now_s() < begin + 10)
            GOOD(ncclCommGetAsyncError(own[i].comm, &error));
        NEED(error == NCCL_REMOTE_ERROR && now_s() < begin + 1, "error %d after %.2f s", error, now_s() - begin);
        NEED(strstr(ncclGetLastError(own[i].comm), "rank "), "the reason");
    }
}

/* gone: the first ranks, so many; 0: the last one. */
void lost(int gone)
{
    fill();
    for (int i = 0; i < count; i++)
        GOOD(call(ALL_REDUCE, i, COUNT, 0));
    for (int i = 0; i < count; i++)
        numbers_of(i, own[i].out, 1);
    if (gone ? first == 0 : first + count == ranks) {
        printf("victim\n");
        pause();
    }
    for (int i = 0; i < count; i++)
        GOOD(call(ALL_REDUCE, i, COUNT, 0));
    await_loss();
    if (gone) {
        shrink(gone);
        return;
    }
    const double begin = now_s();
    for (int i = 0; i < count; i++)
        GOOD(ncclCommAbort(own[i].comm));
    NEED(now_s() < begin + 0.5, "aborting: %.2f s", now_s() - begin);
    /* the collective that was under way is an error once, and the GPU works */
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream);
    }
    fill();
    NEED(numbers_of(0, own[0].in, 9)[8] == value(first, 8), "the GPU goes on");
}
