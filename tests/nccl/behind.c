/* behind.c: ranks of which one has not called yet what the others wait for. */
#include "tests/nccl/ranks.h"

#include <string.h>
#include <unistd.h>

static void one_more(void)
{
    for (int i = 0; i < count; i++)
        GOOD(ncclAllReduce(at(own[i].in), at(own[i].out), 1000, INT32, SUM, own[i].comm, stream_of(i)));
}

static void destroy(void)
{
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(own[i].comm));
}

void behind(void)
{
    char line[16];
    for (int times = 0; times < 3; times++)
        one_more();
    if (first == 0)
        one_more();
    printf("ready\n");
    NEED(fgets(line, sizeof line, stdin), "a line");
    if (first != 0)
        one_more();
    for (int i = 0; i < count; i++)
        CUDA(cuStreamSynchronize(own[i].stream));
    destroy();
}

void ahead(void)
{
    enum { CALLS = 1500 }; /* more than a driver takes into a stream */
    CUstream streams[MOST];
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuStreamCreate(&streams[i], 0)); /* a blocking one: each collective is several operations there */
        for (int n = 0; n < CALLS; n++)
            GOOD(ncclAllReduce(at(own[i].in), at(own[i].out), 1, INT32, SUM, own[i].comm,
                               (core_stream)(uintptr_t)streams[i]));
    }
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuStreamSynchronize(streams[i]));
        CUDA(cuStreamDestroy(streams[i]));
        NEED(numbers_of(i, own[i].out, 1)[0] == sum(0), "behind many");
    }
}

void many(void)
{
    enum { PARTS = 32 }; /* with the ones that there are more ranks than a server records */
    struct nccl_comm *parts[MOST][PARTS];
    char line[16];
    for (int n = 0; n < PARTS; n++) {
        GOOD(ncclGroupStart());
        for (int i = 0; i < count; i++)
            GOOD(ncclCommSplit(own[i].comm, 0, 0, &parts[i][n], NULL));
        GOOD(ncclGroupEnd());
    }
    printf("ready\n");
    NEED(fgets(line, sizeof line, stdin), "a line");
    for (int n = 0; n < PARTS; n++)
        for (int i = 0; i < count; i++)
            GOOD(ncclCommDestroy(parts[i][n]));
    destroy();
}

void late(void)
{
    nccl_result error = NCCL_SUCCESS;
    if (first == 0)
        one_more();
    for (double until = now_s() + 20; error == NCCL_SUCCESS && now_s() < until; usleep(1000))
        GOOD(ncclCommGetAsyncError(own[0].comm, &error));
    NEED(error == NCCL_REMOTE_ERROR && strstr(ncclGetLastError(own[0].comm), "not complete in time"), "%d", error);
    printf("# %s\n", ncclGetLastError(own[0].comm));
    destroy();
}
