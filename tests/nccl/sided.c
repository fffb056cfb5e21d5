/* sided.c: windows, puts, signals and waits. See ranks.h. */
#include <string.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

enum { INT8 = 0 };

static struct nccl_window *from[MOST], *into[MOST]; /* of each rank here: its input, its output */

static nccl_result put(int i, int peer, CUdeviceptr source, size_t bytes, size_t offset)
{
    return ncclPutSignal(at(source), bytes, INT8, peer, into[i], offset, 0, 0, 0, own[i].comm, stream_of(i));
}

/* So many signals of each rank. */
static void await_all(int i, int signals)
{
    struct nccl_signals list[MOST];
    for (int p = 0; p < ranks; p++)
        list[p] = (struct nccl_signals){ signals, p, 0, 0 };
    GOOD(ncclWaitSignal(ranks, list, own[i].comm, stream_of(i)));
}

static void synchronise(void)
{
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuStreamSynchronize(own[i].stream));
    }
}

/* The barrier of NVIDIA's manual, whose ranks signal themselves, too. */
void meet(void)
{
    for (int i = 0; i < count; i++) {
        GOOD(ncclGroupStart());
        for (int p = 0; p < ranks; p++)
            GOOD(ncclSignal(p, 0, 0, 0, own[i].comm, stream_of(i)));
        GOOD(ncclGroupEnd());
        await_all(i, 1);
    }
    synchronise();
}

void windows(void)
{
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++) {
        GOOD(ncclCommWindowRegister(own[i].comm, at(own[i].in), WHOLE, &from[i], SYMMETRIC));
        GOOD(ncclCommWindowRegister(own[i].comm, at(own[i].out), WHOLE, &into[i], SYMMETRIC));
        NEED(!from[i] && !into[i], "a window in a group");
    }
    GOOD(ncclGroupEnd());
    for (int i = 0; i < count; i++) {
        void *memory = NULL;
        NEED(from[i] && into[i], "no windows");
        GOOD(ncclWinGetUserPtr(own[i].comm, into[i], &memory));
        NEED(memory == at(own[i].out), "another pointer");
    }
}

static void windows_gone(void)
{
    for (int i = 0; i < count; i++) {
        GOOD(ncclCommWindowDeregister(own[i].comm, from[i]));
        GOOD(ncclCommWindowDeregister(own[i].comm, into[i]));
        NEED(ncclCommWindowDeregister(own[i].comm, into[i]) == NCCL_INVALID_ARGUMENT, "a window that was removed");
    }
}

/* ---- what arrives ---- */

static void to_all(void)
{
    for (int part = 1; part <= COUNT; part *= 141) {
        fill();
        meet();
        GOOD(ncclGroupStart());
        for (int i = 0; i < count; i++)
            for (int p = 0; p < ranks; p++)
                GOOD(ncclPutSignal(at(own[i].in), (size_t)part, INT32, p, into[i], (size_t)(first + i) * PART, 0, 0, 0,
                                   own[i].comm, stream_of(i)));
        GOOD(ncclGroupEnd());
        for (int i = 0; i < count; i++)
            await_all(i, 1);
        for (int i = 0; i < count; i++) {
            const int *got = numbers_of(i, own[i].out, COUNT * ranks);
            for (int k = 0; k < COUNT * ranks; k++)
                NEED(got[k] == (k % COUNT < part ? value(k / COUNT, k % COUNT) : (int)0xeeeeeeee),
                     "put %d of %d: %d", k, part, got[k]);
        }
        meet();
    }
}

/* In other streams, of which one stands behind a kernel's work, and the signal alone in a third one. */
static void in_streams(void)
{
    CUstream others[MOST][2];
    fill();
    meet();
    for (int i = 0; i < count; i++) {
        const int next = (first + i + 1) % ranks, previous = (first + i + ranks - 1) % ranks;
        struct nccl_signals two = { 2, previous, 0, 0 };
        CUDA(cuCtxSetCurrent(own[i].context));
        for (int s = 0; s < 2; s++)
            CUDA(cuStreamCreate(&others[i][s], s));
        CUDA(cuMemsetD32Async(own[i].in, 4711, COUNT, others[i][0]));
        GOOD(ncclGroupStart());
        GOOD(ncclPutSignal(at(own[i].in), COUNT, INT32, next, into[i], 0, 0, 0, 0, own[i].comm,
                           (core_stream)(uintptr_t)others[i][0]));
        GOOD(ncclSignal(next, 0, 0, 0, own[i].comm, (core_stream)(uintptr_t)others[i][1]));
        GOOD(ncclWaitSignal(1, &two, own[i].comm, stream_of(i)));
        GOOD(ncclGroupEnd());
    }
    for (int i = 0; i < count; i++)
        NEED(numbers_of(i, own[i].out, COUNT)[COUNT - 1] == 4711, "a put behind other work");
    meet();
    for (int i = 0; i < count; i++)
        for (int s = 0; s < 2; s++) {
            CUDA(cuCtxSetCurrent(own[i].context));
            CUDA(cuStreamDestroy(others[i][s]));
        }
}

/* As in NVIDIA's manual: each answers the other. A number grows on the way. */
static void ping_pong(void)
{
    enum { TURNS = 50 };
    fill();
    meet();
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < count; i++) {
            const int rank = first + i;
            struct nccl_signals wait = { 1, 1 - rank, 0, 0 };
            if (rank > 1)
                continue;
            CUDA(cuCtxSetCurrent(own[i].context));
            if (rank == 1)
                GOOD(ncclWaitSignal(1, &wait, own[i].comm, stream_of(i)));
            CUDA(cuMemsetD32Async(own[i].in, (unsigned)turn, 1, own[i].stream));
            GOOD(put(i, 1 - rank, own[i].in, 4, 4 * (size_t)turn));
            if (rank == 0)
                GOOD(ncclWaitSignal(1, &wait, own[i].comm, stream_of(i)));
        }
    for (int i = 0; i < count; i++)
        for (int turn = 0; first + i < 2 && turn < TURNS; turn++)
            NEED(numbers_of(i, own[i].out, TURNS)[turn] == turn, "turn %d", turn);
    meet();
}

/* ---- in graphs ---- */

static void in_graphs(void)
{
    CUgraphExec executables[MOST];
    for (int i = 0; i < count; i++) {
        const int next = (first + i + 1) % ranks;
        CUgraph graph;
        CUDA(cuCtxSetCurrent(own[i].context));
        CUDA(cuStreamBeginCapture(own[i].stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        GOOD(ncclGroupStart());
        for (int p = 0; p < ranks; p++)
            GOOD(put(i, p, own[i].in, PART / 2, (size_t)(first + i) * PART));
        GOOD(ncclSignal(next, 0, 0, 0, own[i].comm, stream_of(i)));
        GOOD(ncclGroupEnd());
        await_all(i, 1);
        GOOD(ncclWaitSignal(1, &(struct nccl_signals){ 1, (first + i + ranks - 1) % ranks, 0, 0 }, own[i].comm,
                            stream_of(i)));
        CUDA(cuStreamEndCapture(own[i].stream, &graph));
        CUDA(cuGraphInstantiate(&executables[i], graph, 0));
        CUDA(cuGraphDestroy(graph));
    }
    for (int turn = 0; turn < 3; turn++) {
        fill();
        for (int i = 0; i < count; i++) {
            CUDA(cuCtxSetCurrent(own[i].context));
            CUDA(cuMemsetD32Async(own[i].in, (unsigned)(10 * (first + i) + turn), COUNT / 2, own[i].stream));
        }
        meet();
        for (int i = 0; i < count; i++) {
            CUDA(cuCtxSetCurrent(own[i].context));
            CUDA(cuGraphLaunch(executables[i], own[i].stream));
        }
        for (int i = 0; i < count; i++) {
            const int *got = numbers_of(i, own[i].out, COUNT * ranks);
            for (int p = 0; p < ranks; p++)
                NEED(got[p * COUNT] == 10 * p + turn && got[p * COUNT + COUNT / 2 - 1] == 10 * p + turn &&
                         got[p * COUNT + COUNT / 2] == (int)0xeeeeeeee,
                     "a graph, turn %d, of rank %d: %d", turn, p, got[p * COUNT]);
        }
        meet();
    }
    for (int i = 0; i < count; i++)
        CUDA(cuGraphExecDestroy(executables[i]));
}

/* ---- by chance ---- */

struct draw {
    int to;
    size_t source, at, bytes;
};

static struct draw draw(unsigned *seed)
{
    static const size_t most[] = { 1, 40, 4200, 70000, PART };
    struct draw d = { .to = rand_r(seed) % ranks };
    d.bytes = (size_t)rand_r(seed) % (most[rand_r(seed) % 5] + 1);
    d.at = (size_t)rand_r(seed) % (PART - d.bytes + 1);
    d.source = (size_t)rand_r(seed) % (WHOLE - d.bytes + 1);
    return d;
}

/* All processes draw what all ranks put. A rank has a part of each window for itself, so the last put there counts. */
void random_puts(unsigned seed, int rounds)
{
    enum { PUTS = 20 };
    static uint8_t model[MOST][WHOLE], source[WHOLE];
    unsigned seeds[MOST];
    windows();
    fill();
    memset(model, 0xee, sizeof model);
    for (int r = 0; r < ranks; r++)
        seeds[r] = seed * 31 + (unsigned)r;
    meet();
    for (int n = 0; n < rounds; n++) {
        int signals[MOST][MOST] = { 0 }; /* from, to */
        for (int r = 0; r < ranks; r++) {
            const int i = r - first;
            const bool here = i >= 0 && i < count, group = rand_r(&seeds[r]) % 2;
            for (int k = 0; k < COUNT * MOST; k++)
                ((int *)(void *)source)[k] = value(r, k);
            if (here && group)
                GOOD(ncclGroupStart());
            for (int k = 0; k < PUTS; k++) {
                const struct draw d = draw(&seeds[r]);
                signals[r][d.to]++;
                if (d.to >= first && d.to < first + count)
                    memcpy(model[d.to - first] + (size_t)r * PART + d.at, source + d.source, d.bytes);
                if (here)
                    GOOD(put(i, d.to, own[i].in + d.source, d.bytes, (size_t)r * PART + d.at));
            }
            if (here && group)
                GOOD(ncclGroupEnd());
        }
        for (int i = 0; i < count; i++) {
            struct nccl_signals list[MOST];
            int waits = 0;
            for (int r = 0; r < ranks; r++)
                if (signals[r][first + i])
                    list[waits++] = (struct nccl_signals){ signals[r][first + i], r, 0, 0 };
            if (waits)
                GOOD(ncclWaitSignal(waits, list, own[i].comm, stream_of(i)));
        }
        for (int i = 0; i < count; i++)
            NEED(memcmp(numbers_of(i, own[i].out, COUNT * MOST), model[i], (size_t)PART * (unsigned)ranks) == 0,
                 "seed %u, round %d, rank %d: the window differs from the model", seed, n, first + i);
        meet();
    }
    windows_gone();
}

void sided(void)
{
    windows();
    to_all();
    in_streams();
    if (ranks > 1)
        ping_pong();
    in_graphs();
    fill();
    meet();
    collectives_once(); /* in between */
    windows_gone();
    random_puts(7, 4);
}

/* ---- what is refused ---- */

static void refused(nccl_result result, nccl_result wanted, const char *text, int line)
{
    NEED(result == wanted && strstr(ncclGetLastError(NULL), text), "line %d: %d, not %d", line, result, wanted);
}
#define REFUSED(call, text) refused(call, NCCL_INVALID_ARGUMENT, text, __LINE__)

void wrong_puts(void)
{
    struct nccl_comm *comm = own[0].comm;
    struct nccl_window *plain[MOST], *window;
    const core_stream s = stream_of(0);
    struct nccl_signals wait = { 1, 0, 0, 0 };
    void *in = at(own[0].in), *out = at(own[0].out), *memory, *pinned;
    int here;
    windows();
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclCommWindowRegister(own[i].comm, at(own[i].out), WHOLE, &plain[i], 0));
    GOOD(ncclGroupEnd());
    CUDA(cuCtxSetCurrent(own[0].context));
    CUDA(cuMemAllocHost(&pinned, 4096));
    REFUSED(ncclCommWindowRegister(comm, in, WHOLE, NULL, 1), "win is NULL");
    REFUSED(ncclCommWindowRegister(NULL, in, WHOLE, &window, 1), "communicator");
    REFUSED(ncclCommWindowRegister(comm, NULL, WHOLE, &window, 1), "buff is NULL");
    REFUSED(ncclCommWindowRegister(comm, in, 0, &window, 1), "size is 0");
    REFUSED(ncclCommWindowRegister(comm, at(own[0].in + 512), 512, &window, 1), "multiple of 4096");
    REFUSED(ncclCommWindowRegister(comm, pinned, 4096, &window, 1), "not all memory of device 0");
    REFUSED(ncclCommWindowRegister(comm, &here, 4, &window, 1), "not all memory of device 0");
    REFUSED(ncclCommWindowRegister(comm, in, (size_t)1 << 40, &window, 1), "not all memory of device 0");
    REFUSED(ncclCommWindowRegister(comm, at(own[1].in), WHOLE, &window, 1), "not all memory of device 0");
    REFUSED(ncclCommWindowDeregister(comm, from[1]), "no window");
    REFUSED(ncclWinGetUserPtr(comm, NULL, &memory), "no window");
    REFUSED(ncclWinGetUserPtr(comm, into[0], NULL), "outUserPtr");
    GOOD(ncclCommWindowDeregister(comm, NULL));
    REFUSED(ncclPutSignal(in, 1, INT32, ranks, into[0], 0, 0, 0, 0, comm, s), "peer");
    REFUSED(ncclPutSignal(in, 1, INT32, -1, into[0], 0, 0, 0, 0, comm, s), "peer");
    REFUSED(ncclPutSignal(in, 1, 12, 1, into[0], 0, 0, 0, 0, comm, s), "type 12");
    REFUSED(ncclPutSignal(in, SIZE_MAX, INT32, 1, into[0], 0, 0, 0, 0, comm, s), "count");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, into[0], 0, 1, 0, 0, comm, s), "sigIdx 1");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, into[0], 0, 0, 1, 0, comm, s), "ctx is 1");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, into[0], 0, 0, 0, 4, comm, s), "flags 4");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, NULL, 0, 0, 0, 0, comm, s), "peerWin");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, into[1], 0, 0, 0, 0, comm, s), "peerWin");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, plain[0], 0, 0, 0, 0, comm, s), "NCCL_WIN_COLL_SYMMETRIC");
    REFUSED(ncclPutSignal(NULL, 1, INT32, 1, into[0], 0, 0, 0, 0, comm, s), "localbuff is NULL");
    REFUSED(ncclPutSignal(pinned, 1, INT32, 1, into[0], 0, 0, 0, 0, comm, s), "localbuff");
    REFUSED(ncclPutSignal(at(own[0].in + WHOLE - 3), 1, INT32, 1, into[0], 0, 0, 0, 0, comm, s), "localbuff");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, into[0], WHOLE - 3, 0, 0, 0, comm, s), "has registered");
    REFUSED(ncclPutSignal(in, 1, INT32, 1, into[0], SIZE_MAX, 0, 0, 0, comm, s), "has registered");
    REFUSED(ncclPutSignal(out, 1, INT32, 1, into[0], 0, 0, 0, 0, comm, 12345), "stream");
    REFUSED(ncclSignal(ranks, 0, 0, 0, comm, s), "peer");
    REFUSED(ncclSignal(1, 1, 0, 0, comm, s), "sigIdx 1");
    REFUSED(ncclSignal(1, 0, 1, 0, comm, s), "ctx is 1");
    REFUSED(ncclSignal(1, 0, 0, 1, comm, s), "flags 1");
    REFUSED(ncclWaitSignal(1, NULL, comm, s), "signalDescs");
    REFUSED(ncclWaitSignal(0, &wait, comm, s), "nDesc is 0");
    wait.count = 0;
    REFUSED(ncclWaitSignal(1, &wait, comm, s), "opCnt is 0");
    wait = (struct nccl_signals){ 1, ranks, 0, 0 };
    REFUSED(ncclWaitSignal(1, &wait, comm, s), "peer");
    wait = (struct nccl_signals){ 1, 0, 1, 0 };
    REFUSED(ncclWaitSignal(1, &wait, comm, s), "sigIdx 1");
    GOOD(ncclGroupStart());
    REFUSED(ncclSignal(1, 0, 0, 1, comm, s), "flags 1");
    REFUSED(ncclGroupEnd(), "flags 1");
    CUDA(cuMemFreeHost(pinned));
    for (int i = 0; i < count; i++)
        GOOD(ncclCommWindowDeregister(own[i].comm, plain[i]));
    meet(); /* all goes on */
    windows_gone();
}

/* ---- a rank that is lost ---- */

/* All wait for signals of the last rank, whose process is killed, or its server; the first one also puts to it. */
void sided_lost(void)
{
    windows();
    meet();
    if (first + count == ranks) {
        printf("victim\n");
        pause();
    }
    for (int i = 0; i < count; i++)
        GOOD(ncclWaitSignal(1, &(struct nccl_signals){ 1, ranks - 1, 0, 0 }, own[i].comm, stream_of(i)));
    await_loss();
    for (int i = 0; i < count; i++) {
        const double begin = now_s();
        GOOD(ncclCommAbort(own[i].comm));
        NEED(now_s() < begin + 0.5, "aborting: %.2f s", now_s() - begin);
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream);
    }
    fill();
    NEED(numbers_of(0, own[0].in, 9)[8] == value(first, 8), "the GPU goes on");
}

/* The first process aborts its ranks while it waits itself; those of the others learn why. It hears first that these
   have met: an abort may be quicker than a signal. */
void sided_aborted(void)
{
    windows();
    meet();
    for (int i = 0; i < count; i++)
        if (first)
            GOOD(ncclSignal(0, 0, 0, 0, own[i].comm, stream_of(i)));
    for (int p = first ? ranks : count; p < ranks; p++)
        GOOD(ncclWaitSignal(1, &(struct nccl_signals){ 1, p, 0, 0 }, own[0].comm, stream_of(0)));
    synchronise();
    for (int i = 0; i < count; i++)
        GOOD(ncclWaitSignal(1, &(struct nccl_signals){ 1, ranks - 1, 0, 0 }, own[i].comm, stream_of(i)));
    double begin = now_s();
    for (int i = 0; i < count; i++) {
        nccl_result error = NCCL_SUCCESS;
        if (first == 0) {
            GOOD(ncclCommAbort(own[i].comm));
            continue;
        }
        while (error == NCCL_SUCCESS && now_s() < begin + 20)
            GOOD(ncclCommGetAsyncError(own[i].comm, &error));
        NEED(error == NCCL_REMOTE_ERROR && strstr(ncclGetLastError(NULL), "its program has aborted it"), "%d", error);
        GOOD(ncclCommAbort(own[i].comm));
    }
    NEED(first || now_s() < begin + 0.5, "aborting: %.2f s", now_s() - begin);
    for (int i = 0; i < count; i++) {
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream); /* an error where another rank has aborted first */
    }
}
