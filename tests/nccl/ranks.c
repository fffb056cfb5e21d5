/*
 * ranks.c MODE RANKS FIRST COUNT ID_FILE: a program with COUNT ranks, on as many GPUs, from rank FIRST on; of RANKS in
 * all. ranks.py starts it. Rank 0's process writes the unique id into ID_FILE. Modes:
 *   all      each function, its results against a model
 *   brief    nothing at all between the beginning and the end
 *   lost     a collective that never ends, since the process of the last rank is killed; the others go on without it
 *   shrink   the same, of the process of the first ranks, which has made the unique id; the others shrink
 *   random   FLYT_COMM_RANDOM random collectives, from FLYT_COMM_SEED on
 *   puts     FLYT_COMM_RANDOM rounds of random puts, from FLYT_COMM_SEED on
 *   sided-lost, sided-aborted   ranks wait for signals that never come, since a process is killed, or aborts
 *   window-alone   a rank registers a window alone
 *   freed, freed-async, freed-of-graph, freed-by-graph, freed-reset   a rank frees the memory of one
 *   staggered   one rank comes after the other, and the last one never
 *   many     more communicators than a GPU server records
 *   ended    communicators are ended while they are made, or used
 *   aside    communicators that do not block; what waits for operations that are under way
 *   wrong    what is refused
 *   none     what is refused where the server has no communicators, or there are no random bytes
 * The last line that it prints is "ok".
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

int ranks, first, count;
struct rank own[MOST];

/* ---- the ranks ---- */

static void exchange_id(const char *path, nccl_id *id)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    if (first == 0) {
        GOOD(ncclGetUniqueId(id));
        int fd = open(part, O_CREAT | O_WRONLY | O_EXCL, 0600);
        NEED(fd >= 0 && write(fd, id, sizeof *id) == sizeof *id && close(fd) == 0 && rename(part, path) == 0, "the id");
        return;
    }
    int fd = -1;
    for (double until = now_s() + 20; fd < 0 && now_s() < until; usleep(2000))
        fd = open(path, O_RDONLY);
    NEED(fd >= 0 && read(fd, id, sizeof *id) == sizeof *id, "the id");
    close(fd);
}

static void gpus(void)
{
    CUDA(cuInit(0));
    for (int i = 0; i < count; i++) {
        CUDA(cuDevicePrimaryCtxRetain(&own[i].context, i));
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuStreamCreate(&own[i].stream, 1));
        CUDA(cuMemAlloc(&own[i].in, COUNT * MOST * 4));
        CUDA(cuMemAlloc(&own[i].out, COUNT * MOST * 4));
    }
}

static void init(const nccl_id *id)
{
    double begin = now_s();
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        GOOD(ncclCommInitRank(&own[i].comm, ranks, *id, first + i));
    }
    GOOD(ncclGroupEnd());
    printf("# %d ranks: %.1f ms\n", ranks, (now_s() - begin) * 1e3);
    for (int i = 0; i < count; i++) {
        int number = -1;
        GOOD(ncclCommCount(own[i].comm, &number));
        NEED(number == ranks, "count %d", number);
        GOOD(ncclCommUserRank(own[i].comm, &number));
        NEED(number == first + i, "rank %d", number);
        GOOD(ncclCommCuDevice(own[i].comm, &number));
        NEED(number == i, "device %d", number);
    }
}

/* ---- values ---- */

int value(int rank, int i) { return rank * 100 + i % 89; }

int sum(int i)
{
    int all = 0;
    for (int r = 0; r < ranks; r++)
        all += value(r, i);
    return all;
}

void fill(void)
{
    static int numbers[COUNT * MOST];
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < COUNT * MOST; k++)
            numbers[k] = value(first + i, k);
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuMemcpyHtoDAsync(own[i].in, numbers, sizeof numbers, own[i].stream));
        CUDA(cuMemsetD32Async(own[i].out, 0xeeeeeeee, COUNT * MOST, own[i].stream));
        CUDA(cuStreamSynchronize(own[i].stream));
    }
}

int *numbers_of(int i, CUdeviceptr from, int numbers)
{
    static int back[COUNT * MOST];
    CUDA(cuCtxSetCurrent(own[i].context));
    CUDA(cuStreamSynchronize(own[i].stream));
    CUDA(cuMemcpyDtoH(back, from, (size_t)numbers * 4));
    return back;
}

nccl_result call(enum kind kind, int i, size_t part, int root)
{
    const void *in = at(own[i].in);
    void *out = at(own[i].out);
    struct nccl_comm *comm = own[i].comm;
    core_stream stream = stream_of(i);
    switch (kind) {
    case BROADCAST: return ncclBroadcast(in, out, part, INT32, root, comm, stream);
    case REDUCE: return ncclReduce(in, out, part, INT32, SUM, root, comm, stream);
    case ALL_REDUCE: return ncclAllReduce(in, out, part, INT32, SUM, comm, stream);
    case GATHER: return ncclGather(in, out, part, INT32, root, comm, stream);
    case SCATTER: return ncclScatter(in, out, part, INT32, root, comm, stream);
    case ALL_GATHER: return ncclAllGather(in, out, part, INT32, comm, stream);
    case REDUCE_SCATTER: return ncclReduceScatter(in, out, part, INT32, SUM, comm, stream);
    default: return ncclAlltoAll(in, out, part, INT32, comm, stream);
    }
}

static int wanted(enum kind kind, int rank, int part, int root, int i)
{
    switch (kind) {
    case BROADCAST: return value(root, i);
    case GATHER:
    case ALL_GATHER: return value(i / part, i % part);
    case SCATTER: return value(root, rank * part + i);
    case REDUCE_SCATTER: return sum(rank * part + i);
    case ALL_TO_ALL: return value(i / part, rank * part + i % part);
    default: return sum(i);
    }
}

void collective(enum kind kind, int part, int root)
{
    fill();
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(call(kind, i, (size_t)part, root));
    GOOD(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
        bool none = (kind == REDUCE || kind == GATHER) && first + i != root;
        bool parts = kind == GATHER || kind == ALL_GATHER || kind == ALL_TO_ALL;
        int numbers = none ? 0 : parts ? part * ranks : part;
        const int *got = numbers_of(i, own[i].out, numbers + 1);
        for (int k = 0; k < numbers; k++)
            NEED(got[k] == wanted(kind, first + i, part, root, k), "kind %d of %d, rank %d, %d: %d", kind, part,
                 first + i, k, got[k]);
        NEED(numbers == COUNT * MOST || got[numbers] == (int)0xeeeeeeee, "kind %d: behind the end", kind);
    }
}

void collectives(void)
{
    for (enum kind kind = BROADCAST; kind < KINDS; kind++)
        for (int part = 1; part <= COUNT; part *= 141)
            collective(kind, part, (int)kind % ranks);
}

void collectives_once(void)
{
    for (int i = 0; i < count; i++)
        GOOD(call(ALL_GATHER, i, COUNT, 0));
    for (int i = 0; i < count; i++)
        NEED(numbers_of(i, own[i].out, COUNT * ranks)[COUNT] == value(1, 0), "gathered");
}

/* To all, and from all, in one group; then around, where each rank sends first. */
static void messages(void)
{
    int part = COUNT / MOST;
    for (int turn = 0; turn < 2; turn++) {
        fill();
        GOOD(ncclGroupStart());
        for (int i = 0; i < count; i++)
            for (int p = 0; p < ranks; p++) {
                GOOD(ncclSend(at(own[i].in + (size_t)(p * part) * 4), (size_t)part, INT32, p, own[i].comm,
                              stream_of(i)));
                GOOD(ncclRecv(at(own[i].out + (size_t)(p * part) * 4), (size_t)part, INT32, p, own[i].comm,
                              stream_of(i)));
            }
        GOOD(ncclGroupEnd());
        for (int i = 0; i < count; i++) {
            const int *got = numbers_of(i, own[i].out, part * ranks);
            for (int k = 0; k < part * ranks; k++)
                NEED(got[k] == value(k / part, (first + i) * part + k % part), "message %d: %d", k, got[k]);
        }
    }
}

static void own_operations(void)
{
    int op[MOST];
    int factor = 3;
    void *pinned;
    char before[600];
    CUDA(cuCtxSetCurrent(own[0].context));
    CUDA(cuMemAllocHost(&pinned, sizeof factor));
    memcpy(pinned, &factor, sizeof factor);
    snprintf(before, sizeof before, "%s", ncclGetLastError(NULL));
    fill();
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < count; i++) {
            void *scalars[] = { &factor, at(own[i].out + COUNT * 4), pinned };
            CUDA(cuCtxSetCurrent(own[i].context));
            CUDA(cuMemsetD32Async(own[i].out + COUNT * 4, 3, 1, own[i].stream));
            GOOD(ncclRedOpCreatePreMulSum(&op[i], scalars[turn], INT32, turn ? DEVICE : HOST_IMMEDIATE, own[i].comm));
        }
        GOOD(ncclGroupStart());
        for (int i = 0; i < count; i++)
            GOOD(ncclAllReduce(at(own[i].in), at(own[i].out), COUNT, INT32, op[i], own[i].comm, stream_of(i)));
        GOOD(ncclGroupEnd());
        for (int i = 0; i < count; i++) {
            NEED(numbers_of(i, own[i].out, COUNT)[777] == 3 * sum(777), "a pre-multiplied sum, %d", turn);
            GOOD(ncclRedOpDestroy(op[i], own[i].comm));
        }
    }
    NEED(strcmp(before, ncclGetLastError(NULL)) == 0, "an error without a failure");
    CUDA(cuMemFreeHost(pinned));
}

/* Odd and even ranks, in the opposite order; the last one is in none. */
static void splits(void)
{
    struct nccl_comm *parts[MOST] = { NULL };
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        int rank = first + i;
        GOOD(ncclCommSplit(own[i].comm, rank == ranks - 1 ? -1 : rank % 2, -rank, &parts[i], NULL));
    }
    GOOD(ncclGroupEnd());
    fill();
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        if (parts[i])
            GOOD(ncclBroadcast(at(own[i].in), at(own[i].out), COUNT, INT32, 0, parts[i], stream_of(i)));
    GOOD(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
        int rank = first + i, root = 0;
        NEED((rank == ranks - 1) == (parts[i] == NULL), "rank %d's part", rank);
        for (int r = 0; r < ranks - 1; r++)
            root = r % 2 == rank % 2 ? r : root; /* the greatest has the least key */
        if (parts[i])
            NEED(numbers_of(i, own[i].out, COUNT)[5] == value(root, 5), "a part's broadcast");
        GOOD(ncclCommDestroy(parts[i]));
    }
}

/* ---- memory of the host, and managed memory ---- */

/* Of both: managed memory, or pinned memory where programs have no managed memory, as with several GPU servers. */
static bool managed_take(int device, CUdeviceptr memory[2])
{
    int managed = 0;
    CUDA(cuDeviceGetAttribute(&managed, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, device));
    for (int side = 0; side < 2; side++)
        if (managed)
            CUDA(cuMemAllocManaged(&memory[side], COUNT * 4, CU_MEM_ATTACH_GLOBAL));
        else
            CUDA(cuMemAllocHost((void **)&memory[side], COUNT * 4));
    return managed;
}

static void managed_give(bool managed, void *memory)
{
    if (managed)
        CUDA(cuMemFree((CUdeviceptr)(uintptr_t)memory));
    else
        CUDA(cuMemFreeHost(memory));
}

static void other_memory(void)
{
    bool is_managed[MOST];
    enum { WAYS = 3 };
    int *in[WAYS][MOST], *out[WAYS][MOST];
    fill();
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        CUdeviceptr managed[2];
        is_managed[i] = managed_take(i, managed);
        CUDA(cuMemAllocHost((void **)&in[0][i], COUNT * 4));
        CUDA(cuMemAllocHost((void **)&out[0][i], COUNT * MOST * 4));
        in[1][i] = at(managed[0]);
        out[1][i] = at(managed[1]);
        in[2][i] = aligned_alloc(4096, 1 << 20);
        out[2][i] = in[2][i] + COUNT;
        CUDA(cuMemHostRegister(in[2][i], 1 << 20, 0));
        for (int way = 0; way < WAYS; way++)
            for (int k = 0; k < COUNT; k++)
                in[way][i][k] = value(first + i, k);
    }
    for (int way = 0; way < WAYS; way++) {
        GOOD(ncclGroupStart());
        for (int i = 0; i < count; i++)
            GOOD(ncclAllReduce(in[way][i], out[way][i], COUNT, INT32, SUM, own[i].comm, stream_of(i)));
        GOOD(ncclGroupEnd());
        for (int i = 0; i < count; i++)
            CUDA(cuStreamSynchronize(own[i].stream));
        for (int i = 0; i < count; i++)
            for (int k = 0; k < COUNT; k++)
                NEED(out[way][i][k] == sum(k), "memory %d, rank %d, %d: %d", way, first + i, k, out[way][i][k]);
    }
    /* to the device, and from it, around */
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        for (int way = 0; way < WAYS; way++) {
            int before = (first + i + ranks - 1) % ranks, behind = (first + i + 1) % ranks;
            GOOD(ncclSend(in[way][i], COUNT, INT32, behind, own[i].comm, stream_of(i)));
            GOOD(ncclRecv(out[WAYS - 1 - way][i], COUNT, INT32, before, own[i].comm, stream_of(i)));
        }
    GOOD(ncclGroupEnd());
    for (int i = 0; i < count; i++)
        CUDA(cuStreamSynchronize(own[i].stream));
    for (int i = 0; i < count; i++)
        for (int way = 0; way < WAYS; way++)
            for (int k = 0; k < COUNT; k += 7)
                NEED(out[way][i][k] == value((first + i + ranks - 1) % ranks, k), "a message, memory %d", way);
    /* the root's own list, in place: gathered into pinned memory */
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclGather(in[0][i], out[0][i], COUNT, INT32, 0, own[i].comm, stream_of(i)));
    GOOD(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
        CUDA(cuStreamSynchronize(own[i].stream));
        for (int k = 0; first + i == 0 && k < COUNT * ranks; k++)
            NEED(out[0][0][k] == value(k / COUNT, k % COUNT), "gathered: %d", k);
    }
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuMemFreeHost(in[0][i]));
        CUDA(cuMemFreeHost(out[0][i]));
        managed_give(is_managed[i], in[1][i]);
        managed_give(is_managed[i], out[1][i]);
        CUDA(cuMemHostUnregister(in[2][i]));
        free(in[2][i]);
    }
}

/* ---- captured streams ---- */

/* An all-reduce, messages around, and behind both, in a stream that joins the capture, a broadcast of pinned memory. */
static void capture(int i, int *pinned, CUgraphExec *executable)
{
    CUstream second;
    CUevent forked, joined;
    CUgraph graph;
    struct nccl_comm *comm = own[i].comm;
    const size_t part = COUNT * 4;
    CUDA(cuCtxSetCurrent(own[i].context));
    CUDA(cuStreamCreate(&second, 1));
    CUDA(cuEventCreate(&forked, CU_EVENT_DISABLE_TIMING));
    CUDA(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
    CUDA(cuStreamBeginCapture(own[i].stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    GOOD(ncclAllReduce(at(own[i].in), at(own[i].out), COUNT, INT32, SUM, comm, stream_of(i)));
    GOOD(ncclGroupStart());
    GOOD(ncclSend(at(own[i].in), COUNT, INT32, (first + i + 1) % ranks, comm, stream_of(i)));
    GOOD(ncclRecv(at(own[i].out + part), COUNT, INT32, (first + i + ranks - 1) % ranks, comm, stream_of(i)));
    GOOD(ncclGroupEnd());
    CUDA(cuEventRecord(forked, own[i].stream));
    CUDA(cuStreamWaitEvent(second, forked, 0));
    GOOD(ncclBroadcast(pinned, pinned, 1, INT32, ranks - 1, comm, (core_stream)(uintptr_t)second));
    CUDA(cuEventRecord(joined, second));
    CUDA(cuStreamWaitEvent(own[i].stream, joined, 0));
    CUDA(cuMemcpyHtoDAsync(own[i].out + 2 * part, pinned, 4, own[i].stream));
    CUDA(cuStreamEndCapture(own[i].stream, &graph));
    CUDA(cuGraphInstantiate(executable, graph, 0));
    CUDA(cuGraphDestroy(graph));
    CUDA(cuStreamDestroy(second));
    CUDA(cuEventDestroy(forked));
    CUDA(cuEventDestroy(joined));
}

static void captured(CUgraphExec executables[MOST])
{
    static int *pinned[MOST];
    for (int i = 0; i < count; i++) {
        CUDA(cuMemAllocHost((void **)&pinned[i], 4));
        capture(i, pinned[i], &executables[i]);
    }
    for (int turn = 0; turn < 3; turn++) {
        fill();
        for (int i = 0; i < count; i++) {
            *pinned[i] = 10 * (first + i) + turn;
            CUDA(cuGraphLaunch(executables[i], own[i].stream));
        }
        for (int i = 0; i < count; i++) {
            const int *got = numbers_of(i, own[i].out, 2 * COUNT + 1);
            for (int k = 0; k < COUNT; k++)
                NEED(got[k] == sum(k) && got[COUNT + k] == value((first + i + ranks - 1) % ranks, k),
                     "captured, turn %d, rank %d, %d: %d, %d", turn, first + i, k, got[k], got[COUNT + k]);
            NEED(got[2 * COUNT] == 10 * (ranks - 1) + turn && *pinned[i] == 10 * (ranks - 1) + turn,
                 "captured, turn %d: %d", turn, got[2 * COUNT]);
        }
        collectives_once(); /* between launches */
    }
}

static void all_functions(void)
{
    void *memory, *handle;
    int version;
    GOOD(ncclGetVersion(&version));
    NEED(version == 22809, "version %d", version);
    CUgraphExec executables[MOST];
    collectives();
    fill();
    ahead();
    messages();
    other_memory();
    own_operations();
    splits();
    grown();
    captured(executables);
    sided();
    CUDA(cuCtxSetCurrent(own[0].context));
    GOOD(ncclMemAlloc(&memory, 1 << 20));
    GOOD(ncclCommRegister(own[0].comm, memory, 1 << 20, &handle));
    GOOD(ncclCommDeregister(own[0].comm, handle));
    GOOD(ncclMemFree(memory));
    collectives();
    for (int i = 0; i < count; i++) {
        nccl_result error = NCCL_REMOTE_ERROR;
        GOOD(ncclCommGetAsyncError(own[i].comm, &error));
        GOOD(error);
    }
    revoked();
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(own[i].comm));
    /* what was captured of it, behind its end */
    for (int i = 0; i < count; i++) {
        NEED(cuGraphLaunch(executables[i], own[i].stream) == CUDA_ERROR_INVALID_HANDLE, "a launch without one");
        CUDA(cuGraphExecDestroy(executables[i]));
    }
}

/* Whoever is quick leaves before the others know that they are ranks. */
static void brief(void)
{
    for (int i = 0; i < count; i++)
        GOOD(ncclCommDestroy(own[i].comm));
}

/* Each rank is in time, counted from the one before. The time is of all. */
static void staggered(const nccl_id *id)
{
    if (first + 1 == ranks)
        pause();
    usleep(1500000u * (unsigned)first);
    const double begin = now_s();
    const nccl_result result = ncclCommInitRank(&own[0].comm, ranks, *id, first);
    NEED(result != NCCL_SUCCESS, "a rank is missing");
    NEED(first || now_s() < begin + 4, "%.2f s", now_s() - begin);
}

int main(int argc, char **argv)
{
    nccl_id id;
    if (argc != 6)
        return 2;
    ranks = atoi(argv[2]);
    first = atoi(argv[3]);
    count = atoi(argv[4]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    gpus();
    if (strcmp(argv[1], "none") == 0) {
        none();
        printf("ok\n");
        return 0;
    }
    const int how = freed_by_name(argv[1]);
    if (how == CONTEXT_RESET)
        other_context();
    exchange_id(argv[5], &id);
    if (strcmp(argv[1], "staggered") == 0)
        staggered(&id);
    else
        init(&id);
    if (strcmp(argv[1], "brief") == 0)
        brief();
    else if (strcmp(argv[1], "lost") == 0)
        lost(0);
    else if (strcmp(argv[1], "shrink") == 0)
        lost(ranks == 4 ? 2 : 1);
    else if (strcmp(argv[1], "behind") == 0)
        behind();
    else if (strcmp(argv[1], "staggered") == 0)
        printf("# %s\n", ncclGetLastError(NULL));
    else if (strcmp(argv[1], "many") == 0)
        many();
    else if (strcmp(argv[1], "late") == 0)
        late();
    else if (strcmp(argv[1], "ended") == 0)
        ended();
    else if (strcmp(argv[1], "aside") == 0) {
        later();
        behind_the_program();
        finalized();
    }
    else if (strcmp(argv[1], "wrong") == 0) {
        wrong_puts();
        wrong(&id);
    }
    else if (strcmp(argv[1], "puts") == 0)
        random_puts((unsigned)atoi(getenv("FLYT_COMM_SEED")), atoi(getenv("FLYT_COMM_RANDOM")));
    else if (strcmp(argv[1], "sided-lost") == 0)
        sided_lost();
    else if (strcmp(argv[1], "sided-aborted") == 0)
        sided_aborted();
    else if (strcmp(argv[1], "window-alone") == 0)
        window_alone();
    else if (how >= 0)
        window_freed((enum freed)how);
    else if (strcmp(argv[1], "random") == 0)
        random_collectives((unsigned)atoi(getenv("FLYT_COMM_SEED")), atoi(getenv("FLYT_COMM_RANDOM")));
    else
        all_functions();
    printf("ok\n");
    return 0;
}
