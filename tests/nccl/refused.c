/* refused.c: what libnccl.so.2 refuses, with which code and text. See ranks.c. */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

/* In the place of the C library's, for libnccl.so.2 too. */
static bool no_random;
__attribute__((visibility("default"))) ssize_t getrandom(void *bytes, size_t size, unsigned flags)
{
    if (!no_random)
        return syscall(SYS_getrandom, bytes, size, flags);
    errno = ENOSYS;
    return -1;
}

static void refused(nccl_result result, nccl_result wanted_one, const char *text, int line)
{
    NEED(result == wanted_one && strstr(ncclGetLastError(NULL), text), "line %d: %d, not %d", line, result, wanted_one);
}
#define REFUSED(call, result, text) refused(call, result, text, __LINE__)

/* What NVIDIA's library refuses of a configuration; of programs of an NCCL before 2.17 the fields behind are none. */
static void configurations(const nccl_id *id)
{
    struct nccl_comm *comm;
    const struct nccl_config given[] = { CONFIG(7), CONFIG(-1), CONFIG(1), CONFIG(1), CONFIG(1), CONFIG(1), CONFIG(1) };
    static const char *const texts[] = { "blocking 7",        "blocking -1",  "minCTAs -4", "minCTAs 8, maxCTAs 2",
                                         "cgaClusterSize -1", "splitShare 2", "maxCTAs 0" };
    struct nccl_config changed[sizeof given / sizeof *given];
    memcpy(changed, given, sizeof given);
    changed[2].ctas_least = -4;
    changed[3].ctas_least = 8;
    changed[3].ctas_most = 2;
    changed[4].cluster_size = -1;
    changed[5].split_share = 2;
    changed[6].ctas_most = 0;
    for (unsigned i = 0; i < sizeof given / sizeof *given; i++)
        REFUSED(ncclCommInitRankConfig(&comm, 1, *id, 0, &changed[i]), NCCL_INVALID_ARGUMENT, texts[i]);
    struct nccl_config good = CONFIG(1);
    nccl_id own_id;
    good.ctas_least = good.ctas_most = 4;
    for (int old = 0; old < 2; old++) {
        GOOD(ncclGetUniqueId(&own_id));
        GOOD(ncclCommInitRankConfig(&comm, 1, own_id, 0, &good));
        GOOD(ncclCommDestroy(comm));
        good = (struct nccl_config){ 24, 0xcafebeef, 21403, 1, -1, -1, -1, NULL, -1 };
    }
}

void wrong(const nccl_id *id)
{
    struct nccl_comm *comm = own[0].comm, *other = comm;
    core_stream s = stream_of(0);
    void *in = at(own[0].in), *out = at(own[0].out);
    int here = 0, op = 0;
    nccl_id foreign = { { 1, 2, 3 } };
    struct nccl_config config = CONFIG(0), nonsense = { 0 };
    CUDA(cuCtxSetCurrent(own[0].context));
    REFUSED(ncclAllReduce(&here, out, 1, INT32, SUM, comm, s), NCCL_INVALID_ARGUMENT, "sendbuff");
    REFUSED(ncclAllReduce(in, NULL, 1, INT32, SUM, comm, s), NCCL_INVALID_ARGUMENT, "recvbuff is NULL");
    REFUSED(ncclAllReduce(in, out, 1, 12, SUM, comm, s), NCCL_INVALID_ARGUMENT, "type 12");
    REFUSED(ncclAllReduce(in, out, 1, INT32, 5, comm, s), NCCL_INVALID_ARGUMENT, "operation 5");
    REFUSED(ncclAllReduce(in, out, SIZE_MAX, INT32, SUM, comm, s), NCCL_INVALID_ARGUMENT, "count");
    REFUSED(ncclAllReduce(in, out, 1, INT32, SUM, NULL, s), NCCL_INVALID_ARGUMENT, "communicator");
    REFUSED(ncclAllReduce(in, out, 1, INT32, SUM, comm, 12345), NCCL_INVALID_ARGUMENT, "stream");
    REFUSED(ncclAllReduce(in, out, 1, INT32, SUM, comm, stream_of(1)), NCCL_INVALID_ARGUMENT, "stream");
    REFUSED(ncclBroadcast(in, out, 1, INT32, ranks, comm, s), NCCL_INVALID_ARGUMENT, "root");
    REFUSED(ncclSend(in, 1, INT32, ranks, comm, s), NCCL_INVALID_ARGUMENT, "peer");
    REFUSED(ncclSend(in, 1, INT32, 0, comm, s), NCCL_INVALID_USAGE, "itself");
    REFUSED(ncclGroupEnd(), NCCL_INVALID_USAGE, "group");
    REFUSED(ncclRedOpCreatePreMulSum(&op, NULL, INT32, HOST_IMMEDIATE, comm), NCCL_INVALID_ARGUMENT, "NULL");
    REFUSED(ncclRedOpCreatePreMulSum(&op, at(own[0].in + COUNT * MOST * 4 - 1), INT32, DEVICE, comm),
            NCCL_INVALID_ARGUMENT, "ends too early");
    REFUSED(ncclRedOpCreatePreMulSum(&op, &here, INT32, DEVICE, comm), NCCL_INVALID_ARGUMENT, "scalar");
    REFUSED(ncclRedOpDestroy(9, comm), NCCL_INVALID_ARGUMENT, "operation 9");
    REFUSED(ncclCommInitRank(&other, 2, foreign, 0), NCCL_INVALID_ARGUMENT, "unique id");
    REFUSED(ncclCommInitRank(&other, 2, *id, 2), NCCL_INVALID_ARGUMENT, "rank 2 of 2");
    REFUSED(ncclCommInitRankConfig(&other, 1, *id, 0, &nonsense), NCCL_INVALID_ARGUMENT, "INITIALIZER");
    REFUSED(ncclCommInitRankScalable(&other, 1, 0, 2, &foreign, NULL), NCCL_INVALID_ARGUMENT, "2 unique ids");
    configurations(id);
    void *memory;
    REFUSED(ncclMemAlloc(&memory, (size_t)1 << 46), NCCL_CUDA_ERROR, "no memory for");
    NEED(!memory, "memory that there is not");
    /* a failure in a group is the group's */
    GOOD(ncclGroupStart());
    REFUSED(ncclAllReduce(in, out, 1, INT32, 99, comm, s), NCCL_INVALID_ARGUMENT, "operation 99");
    REFUSED(ncclGroupEnd(), NCCL_INVALID_ARGUMENT, "operation 99");
    struct nccl_comm *unmade;
    GOOD(ncclGroupStart());
    GOOD(ncclCommInitRank(&unmade, 1, *id, 0));
    REFUSED(ncclAllReduce(in, out, 1, INT32, 99, comm, s), NCCL_INVALID_ARGUMENT, "operation 99");
    REFUSED(ncclGroupEnd(), NCCL_INVALID_ARGUMENT, "operation 99");
    NEED(!unmade, "a communicator of a group that has failed");
    /* one GPU for two ranks */
    GOOD(ncclGetUniqueId(&foreign));
    struct nccl_comm *two[2];
    GOOD(ncclGroupStart());
    for (int r = 0; r < 2; r++)
        GOOD(ncclCommInitRank(&two[r], 2, foreign, r));
    REFUSED(ncclGroupEnd(), NCCL_INVALID_USAGE, "duplicate GPU");
    NEED(!two[0] && !two[1], "a communicator that could not be made");
    /* the same beside one whose other rank does not come */
    nccl_id alone;
    double begin = now_s();
    GOOD(ncclGetUniqueId(&foreign));
    GOOD(ncclGetUniqueId(&alone));
    GOOD(ncclGroupStart());
    GOOD(ncclCommInitRank(&other, 2, alone, 0));
    for (int r = 0; r < 2; r++)
        GOOD(ncclCommInitRank(&two[r], 2, foreign, r));
    REFUSED(ncclGroupEnd(), NCCL_INVALID_USAGE, "duplicate GPU");
    NEED(now_s() < begin + 5 && !other && !two[0], "a group of which one has failed: %.1f s", now_s() - begin);
    /* buffers that end too early */
    CUdeviceptr small;
    void *pinned;
    CUDA(cuMemAllocManaged(&small, 1000, CU_MEM_ATTACH_GLOBAL));
    CUDA(cuMemAllocHost(&pinned, 1000));
    const size_t far = (size_t)1 << 32;
    REFUSED(ncclAllReduce(in, out, far, INT32, SUM, comm, s), NCCL_INVALID_ARGUMENT, "sendbuff");
    REFUSED(ncclAllReduce(at(small), out, far, INT32, SUM, comm, s), NCCL_INVALID_ARGUMENT, "ends too early");
    REFUSED(ncclAllReduce(pinned, out, far, INT32, SUM, comm, s), NCCL_INVALID_ARGUMENT, "ends too early");
    REFUSED(ncclRecv(at((uintptr_t)pinned + 999), 2, 0, 1, comm, s), NCCL_INVALID_ARGUMENT, "ends too early");
    CUDA(cuMemFree(small));
    CUDA(cuMemFreeHost(pinned));
    /* one that does not block */
    nccl_result error = NCCL_IN_PROGRESS;
    GOOD(ncclGetUniqueId(&foreign));
    NEED(ncclCommInitRankConfig(&other, 1, foreign, 0, &config) == NCCL_IN_PROGRESS, "not blocking");
    for (double until = now_s() + 10; error == NCCL_IN_PROGRESS && now_s() < until; usleep(1000))
        GOOD(ncclCommGetAsyncError(other, &error));
    GOOD(error);
    GOOD(ncclAllReduce(in, out, 1, INT32, SUM, other, s));
    GOOD(ncclCommDestroy(other));
    collectives();
    for (int i = 0; i < count; i++) {
        GOOD(ncclCommFinalize(own[i].comm));
        REFUSED(ncclCommFinalize(own[i].comm), NCCL_INVALID_ARGUMENT, "finalized already");
        REFUSED(call(ALL_REDUCE, i, 1, 0), NCCL_INVALID_USAGE, "has been finalized");
        REFUSED(ncclCommSplit(own[i].comm, 0, 0, &other, NULL), NCCL_INVALID_USAGE, "has been finalized");
    }
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(own[i].comm));
}

/* Without random bytes there is no id that others could not guess. The server has no communicators. */
void none(void)
{
    nccl_id id;
    struct nccl_comm *comm = NULL;
    no_random = true;
    REFUSED(ncclGetUniqueId(&id), NCCL_SYSTEM_ERROR, "random bytes");
    no_random = false;
    GOOD(ncclGetUniqueId(&id));
    CUDA(cuCtxSetCurrent(own[0].context));
    REFUSED(ncclCommInitRank(&comm, 1, id, 0), NCCL_INVALID_USAGE, "a communicator: the GPU server does not support");
    NEED(!comm, "a communicator that could not be made");
}
