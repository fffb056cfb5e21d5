/* windows.c: windows that are not as they should be: of one rank alone, and of memory that is freed. See ranks.h. */
#include <string.h>
#include <unistd.h>

#include "tests/nccl/ranks.h"

/* The others do not register theirs, and wait until rank 0 has ended its communicator. */
void window_alone(void)
{
    struct nccl_window *window;
    nccl_result error = NCCL_SUCCESS;
    double begin = now_s();
    if (first == 0) {
        NEED(ncclCommWindowRegister(own[0].comm, at(own[0].in), WHOLE, &window, SYMMETRIC) == NCCL_SYSTEM_ERROR &&
                 strstr(ncclGetLastError(NULL), "is not registered by rank 1 2 in the time of FLYT_NCCL_TIMEOUT"),
             "a window of one rank");
        NEED(!window && now_s() > begin + 2.9 && now_s() < begin + 7, "%.2f s", now_s() - begin);
        GOOD(ncclCommGetAsyncError(own[0].comm, &error));
        NEED(error == NCCL_SYSTEM_ERROR, "error %d", error);
    }
    for (begin = now_s(); error == NCCL_SUCCESS && now_s() < begin + 10;)
        GOOD(ncclCommGetAsyncError(own[0].comm, &error));
    NEED(error == (first ? NCCL_REMOTE_ERROR : NCCL_SYSTEM_ERROR), "error %d", error);
    for (int i = 0; i < count; i++)
        GOOD(ncclCommAbort(own[i].comm));
}

/* A graph of one node: of an allocation on the device (the address is known then), or of the free of it. */
static CUgraphExec graph_of(CUdevice device, CUdeviceptr *memory)
{
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = { .poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                             .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } },
                                              .bytesize = PART };
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec executable;
    CUDA(cuGraphCreate(&graph, 0));
    if (*memory)
        CUDA(cuGraphAddMemFreeNode(&node, graph, NULL, 0, *memory));
    else
        CUDA(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters));
    *memory = *memory ? *memory : parameters.dptr;
    CUDA(cuGraphInstantiate(&executable, graph, 0));
    return executable;
}

/* How memory begins and ends; again: behind that. */
static void allocate(enum freed how, int i, bool again, CUdeviceptr *memory)
{
    static CUgraphExec executable[MOST];
    static CUdeviceptr known[MOST];
    CUdevice device;
    CUDA(cuCtxSetCurrent(own[i].context));
    CUDA(cuCtxGetDevice(&device));
    if (how == FREED) {
        CUDA(cuMemAlloc(memory, PART));
    } else if (how == FREED_ASYNC || how == CONTEXT_RESET) {
        CUDA(cuMemAllocAsync(memory, PART, own[i].stream));
    } else {
        if (!again)
            executable[i] = graph_of(device, &known[i]);
        CUDA(cuGraphLaunch(executable[i], own[i].stream));
        *memory = known[i];
    }
    CUDA(cuStreamSynchronize(own[i].stream));
}

static void end_memory(enum freed how, CUdeviceptr memory)
{
    CUdevice device;
    CUDA(cuCtxGetDevice(&device));
    switch (how) {
    case FREED: CUDA(cuMemFree(memory)); break;
    case FREED_ASYNC:
    case OF_GRAPH_FREED_ASYNC: CUDA(cuMemFreeAsync(memory, own[0].stream)); break;
    case OF_GRAPH_FREED_BY_GRAPH: CUDA(cuGraphLaunch(graph_of(device, &memory), own[0].stream)); break;
    case CONTEXT_RESET: CUDA(cuDevicePrimaryCtxReset(device)); break;
    }
}

/* The primary context has memory of pools; the communicator is in another one, which does not end with it. */
void other_context(void)
{
    CUdevice device;
    CUDA(cuCtxSetCurrent(own[0].context));
    CUDA(cuCtxGetDevice(&device));
#if CUDA_VERSION >= 13000
    CUDA(cuCtxCreate(&own[0].context, NULL, 0, device));
#else
    CUDA(cuCtxCreate(&own[0].context, 0, device));
#endif
    CUDA(cuStreamCreate(&own[0].stream, 1));
    CUDA(cuMemAlloc(&own[0].in, WHOLE));
    CUDA(cuMemAlloc(&own[0].out, WHOLE));
}

int freed_by_name(const char *mode)
{
    static const char *const names[] = { "freed", "freed-async", "freed-of-graph", "freed-by-graph", "freed-reset" };
    for (int how = 0; how < (int)(sizeof names / sizeof *names); how++)
        if (strcmp(names[how], mode) == 0)
            return how;
    return -1;
}

/* Rank 0 frees a window's memory while another rank may put into it, and has other memory at that place then. Nothing
   of a put comes there. */
void window_freed(enum freed how)
{
    struct nccl_window *window[MOST];
    CUdeviceptr memory[MOST], again;
    for (int i = 0; i < count; i++)
        allocate(how, i, false, &memory[i]);
    GOOD(ncclGroupStart());
    for (int i = 0; i < count; i++)
        GOOD(ncclCommWindowRegister(own[i].comm, at(memory[i]), PART, &window[i], SYMMETRIC));
    GOOD(ncclGroupEnd());
    windows();
    meet();
    if (first == 0) {
        CUDA(cuCtxSetCurrent(own[0].context));
        end_memory(how, memory[0]);
        allocate(how, 0, true, &again);
        NEED(again == memory[0], "the memory is elsewhere");
        CUDA(cuMemsetD32Async(again, 4711, COUNT, own[0].stream));
        CUDA(cuStreamSynchronize(own[0].stream));
    }
    for (int i = 0; i < count; i++)
        if (first + i == 0) {
            GOOD(ncclSignal(1, 0, 0, 0, own[i].comm, stream_of(i)));
        } else if (first + i == 1) {
            GOOD(ncclWaitSignal(1, &(struct nccl_signals){ 1, 0, 0, 0 }, own[i].comm, stream_of(i)));
            GOOD(ncclPutSignal(at(own[i].in), COUNT, INT32, 0, window[i], 0, 0, 0, 0, own[i].comm, stream_of(i)));
        }
    for (int i = 0; i < count; i++) {
        nccl_result error = NCCL_SUCCESS;
        for (double begin = now_s(); error == NCCL_SUCCESS && now_s() < begin + 10;)
            GOOD(ncclCommGetAsyncError(own[i].comm, &error));
        NEED(error == NCCL_REMOTE_ERROR && strstr(ncclGetLastError(NULL), "which is not registered here"), "%d", error);
    }
    for (int i = 0; i < count; i++) {
        GOOD(ncclCommAbort(own[i].comm));
        CUDA(cuCtxSetCurrent(own[i].context));
        cuStreamSynchronize(own[i].stream);
    }
    const int *there = first ? NULL : numbers_of(0, again, COUNT);
    for (int k = 0; there && k < COUNT; k++)
        NEED(there[k] == 4711, "number %d of other memory was written", k);
}
