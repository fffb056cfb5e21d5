// shows: graphs: random work gives the same as a graph made by hand, captured, cloned, updated, or issued to streams
//
// Each round makes a list of operations on a few buffers. Operations that touch the same buffer keep their order; all
// others may run at the same time. The host computes what they must give. Arguments: a seed, and how many rounds.
#include <cuda.h>
#include <vector>

#include "check.h"

enum { N = 512, ON_DEVICE = 5, PINNED = 2, PAGEABLE = 2, BUFFERS = ON_DEVICE + PINNED + PAGEABLE, STREAMS = 4 };
/* SCRATCH copies through memory of its own; WRITES is a batch of memory operations; EVENT an event of the program's
   that is recorded and waited for; IF a conditional node. */
enum kind { KERNEL, FILL, COPY, COPY_2D, HOST, CHILD, EMPTY, SCRATCH, WRITES, EVENT, IF, KINDS };
enum { WRITTEN = 3 };

/* Of functions that another release has in another form. */
#define HAS_CONDITIONS (CUDART_VERSION >= 13000)
#if CUDART_VERSION >= 12050
#define ENTRY(name, out, found) cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableDefault, found)
#else
#define ENTRY(name, out, found) cudaGetDriverEntryPoint(name, out, cudaEnableDefault, found)
#endif

struct operation { enum kind kind; int to, from, also, value; std::vector<operation> child; };
typedef std::vector<operation> work;

static unsigned long long state;
static unsigned random_below(unsigned n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % n;
}

__global__ void mix(int *to, const int *from, const int *also, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = to[i] * 3 + (from[i] ^ (also[i] + value));
}

static int *buffers[BUFFERS], model[BUFFERS][N];
static cudaStream_t streams[STREAMS];

/* ---- what an operation does, in the model ---- */

static void host_work(int *to, const int *from, int value)
{
    for (int i = 0; i < N; i++)
        to[i] = to[i] * 5 - from[i] + value;
}

static void compute(const work &w)
{
    for (const operation &o : w) {
        int *to = model[o.to], *from = model[o.from], *also = model[o.also];
        switch (o.kind) {
        case KERNEL:
            for (int i = 0; i < N; i++)
                to[i] = to[i] * 3 + (from[i] ^ (also[i] + o.value));
            break;
        case FILL:
            for (int i = 0; i < N / 2; i++)
                to[i] = o.value;
            break;
        case COPY: memmove(to, from, sizeof model[0]); break;
        case COPY_2D:                         /* 4 rows of 32 elements, 64 apart here and 128 apart there */
            for (int row = 0; row < 4; row++)
                memcpy(to + row * 128, from + row * 64, 32 * sizeof(int));
            break;
        case HOST: host_work(to, from, o.value); break;
        case CHILD: compute(o.child); break;
        case SCRATCH:
            for (int i = 0; i < N; i++)
                to[i] = to[i] * 3 + (from[i] ^ (from[i] + o.value));
            break;
        case WRITES:
            for (int i = 0; i < WRITTEN; i++)
                to[i] = o.value + i;
            break;
        case IF:
            for (int i = 0; i < N && o.value % 2; i++)
                to[i] = to[i] * 3 + (from[i] ^ (also[i] + o.value));
            break;
        default: break;
        }
    }
}

/* ---- random work ---- */

static int any_device() { return (int)random_below(ON_DEVICE); }
static int any_host() { return ON_DEVICE + (int)random_below(BUFFERS - ON_DEVICE); }

/* memory, whole: graphs of it may allocate, may have conditions. */
static work random_work(unsigned most, int depth, bool memory, bool whole)
{
    work w;
    unsigned count = 1 + random_below(most);
    for (unsigned i = 0; i < count; i++) {
        operation o = { (enum kind)random_below(KINDS), any_device(), any_device(), any_device(),
                        (int)random_below(1000), {} };
        if ((o.kind == CHILD && depth == 0) || (o.kind == IF && !(HAS_CONDITIONS && whole)) ||
            (o.kind == SCRATCH && !(memory && whole)))
            o.kind = KERNEL;
        if (o.kind == CHILD)
            o.child = random_work(5, depth - 1, false, false);
        if (o.kind == HOST) {
            o.to = any_host();
            o.from = any_host();
        }
        if (o.kind == COPY || o.kind == COPY_2D) {
            o.to = random_below(2) ? any_host() : any_device();
            o.from = o.to >= ON_DEVICE && random_below(4) == 0 ? any_host() : any_device();
            if (o.to < ON_DEVICE && random_below(2))
                o.from = any_host();
            if (o.to == o.from)
                o.kind = EMPTY;
        }
        w.push_back(o);
    }
    return w;
}

/* Which buffers are read and written: bits. */
static void touches(const operation &o, unsigned &reads, unsigned &writes)
{
    if (o.kind == CHILD)
        for (const operation &inner : o.child)
            touches(inner, reads, writes);
    if (o.kind == CHILD || o.kind == EMPTY || o.kind == EVENT)
        return;
    writes |= 1u << o.to;
    if (o.kind == KERNEL || o.kind == HOST || o.kind == SCRATCH || o.kind == IF)
        reads |= 1u << o.to;
    if (o.kind != FILL && o.kind != WRITES)
        reads |= 1u << o.from;
    if (o.kind == KERNEL || o.kind == IF)
        reads |= 1u << o.also;
}

static bool must_follow(const operation &later, const operation &earlier)
{
    unsigned reads = 0, writes = 0, before_reads = 0, before_writes = 0;
    touches(later, reads, writes);
    touches(earlier, before_reads, before_writes);
    return (writes & (before_reads | before_writes)) || (reads & before_writes);
}

/* ---- the work on streams, captured or not ---- */

struct call { int *to, *from, value; };
static void run_call(void *data)
{
    const struct call *c = (const struct call *)data;
    host_work(c->to, c->from, c->value);
}

/* Kept to the end of the round: a graph may call it again. */
static std::vector<struct call *> calls;
static struct call *call_of(const operation &o)
{
    struct call *c = new struct call;
    *c = { buffers[o.to], buffers[o.from], o.value };
    calls.push_back(c);
    return c;
}

static cudaEvent_t event;
static CUresult (*batch)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
static CUresult (*add_batch)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                             const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
static CUcontext context;

static void write_operations(const operation &o, CUstreamBatchMemOpParams list[WRITTEN])
{
    memset(list, 0, WRITTEN * sizeof *list);
    for (int i = 0; i < WRITTEN; i++) {
        list[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        list[i].writeValue.address = (CUdeviceptr)(uintptr_t)&buffers[o.to][i];
        list[i].writeValue.value = (cuuint32_t)(o.value + i);
    }
}

static cudaGraph_t graph_of(const work &w, bool shuffle, std::vector<cudaGraphNode_t> *all);
static cudaGraphNode_t add_node(cudaGraph_t graph, const operation &o, const std::vector<cudaGraphNode_t> &before);

#if HAS_CONDITIONS
/* A node that no call of a stream makes is put into the captured graph, at the stream's place. */
static void capture_node(const operation &o, cudaStream_t stream)
{
    cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    const cudaGraphNode_t *before;
    const cudaGraphEdgeData *edges;
    size_t count;
    MUST(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, &edges, &count));
    cudaGraphNode_t node = add_node(graph, o, std::vector<cudaGraphNode_t>(before, before + count));
    MUST(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
}

#else
static void capture_node(const operation &, cudaStream_t) {}
#endif

/* A captured launch is a child of the captured graph. */
static void capture_child(const operation &o, cudaStream_t stream)
{
    cudaGraph_t child = graph_of(o.child, true, NULL);
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, child, 0));
    MUST(cudaGraphDestroy(child));
    MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaGraphExecDestroy(executable));
}

static void issue_scratch(const operation &o, cudaStream_t stream)
{
    int *scratch;
    MUST(cudaMallocAsync((void **)&scratch, sizeof model[0], stream));
    MUST(cudaMemcpyAsync(scratch, buffers[o.from], sizeof model[0], cudaMemcpyDefault, stream));
    mix<<<N / 64, 64, 0, stream>>>(buffers[o.to], scratch, scratch, o.value);
    MUST(cudaGetLastError());
    MUST(cudaFreeAsync(scratch, stream));
}

static bool pageable(int buffer) { return buffer >= ON_DEVICE + PINNED; }

/* A stream reads pageable memory when it is given the copy; a graph, when the copy's turn has come. */
static void issue(const operation &o, cudaStream_t stream, bool captured)
{
    if (!captured && (o.kind == COPY || o.kind == COPY_2D) && (pageable(o.to) || pageable(o.from)))
        MUST(cudaDeviceSynchronize());
    switch (o.kind) {
    case KERNEL:
        mix<<<N / 64, 64, 0, stream>>>(buffers[o.to], buffers[o.from], buffers[o.also], o.value);
        MUST(cudaGetLastError());
        break;
    case FILL: MUST(cudaMemsetAsync(buffers[o.to], o.value & 255, N * 2, stream)); break;
    case COPY: MUST(cudaMemcpyAsync(buffers[o.to], buffers[o.from], sizeof model[0], cudaMemcpyDefault, stream)); break;
    case COPY_2D:
        MUST(cudaMemcpy2DAsync(buffers[o.to], 512, buffers[o.from], 256, 128, 4, cudaMemcpyDefault, stream));
        break;
    case HOST: MUST(cudaLaunchHostFunc(stream, run_call, call_of(o))); break;
    case CHILD:
        if (captured && o.value % 2)
            return capture_child(o, stream);
        for (const operation &inner : o.child)
            issue(inner, stream, captured);
        break;
    case SCRATCH: issue_scratch(o, stream); break;
    case WRITES: {
        CUstreamBatchMemOpParams list[WRITTEN];
        write_operations(o, list);
        HOLDS(batch((CUstream)stream, WRITTEN, list, 0) == CUDA_SUCCESS);
        break;
    }
    case EVENT:
        MUST(cudaEventRecordWithFlags(event, stream, captured ? cudaEventRecordExternal : cudaEventRecordDefault));
        MUST(cudaStreamWaitEvent(stream, event, captured ? cudaEventWaitExternal : cudaEventWaitDefault));
        break;
    case IF:
        if (captured)
            return capture_node(o, stream);
        if (o.value % 2)
            mix<<<N / 64, 64, 0, stream>>>(buffers[o.to], buffers[o.from], buffers[o.also], o.value);
        MUST(cudaGetLastError());
        break;
    default: break;
    }
}

/* stream 0 comes first and last. */
static void issue_all(const work &w, bool captured)
{
    std::vector<cudaEvent_t> events(w.size() + 1), joined(STREAMS);
    std::vector<int> on(w.size());
    for (cudaEvent_t &e : events)
        MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (cudaEvent_t &e : joined)
        MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    MUST(cudaEventRecord(events[w.size()], streams[0]));
    for (int s = 1; s < STREAMS; s++)
        MUST(cudaStreamWaitEvent(streams[s], events[w.size()], 0));
    for (size_t i = 0; i < w.size(); i++) {
        on[i] = (int)random_below(STREAMS);
        for (size_t j = 0; j < i; j++)
            if (on[j] != on[i] && must_follow(w[i], w[j]))
                MUST(cudaStreamWaitEvent(streams[on[i]], events[j], 0));
        issue(w[i], streams[on[i]], captured);
        MUST(cudaEventRecord(events[i], streams[on[i]]));
    }
    for (int s = 1; s < STREAMS; s++) {
        MUST(cudaEventRecord(joined[s], streams[s]));
        MUST(cudaStreamWaitEvent(streams[0], joined[s], 0));
    }
    for (cudaEvent_t e : events)
        MUST(cudaEventDestroy(e));
    for (cudaEvent_t e : joined)
        MUST(cudaEventDestroy(e));
}

/* ---- the work as a graph ---- */

typedef std::vector<cudaGraphNode_t> nodes_t;

static cudaGraphNode_t add_mix(cudaGraph_t graph, const nodes_t &before, int *to, int *from, int *also, int value)
{
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    void *arguments[] = { &to, &from, &also, &value };
    p.func = (void *)mix;
    p.gridDim = dim3(N / 64);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &p));
    return node;
}

static cudaGraphNode_t add_scratch(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node, next;
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = sizeof model[0];
    MUST(cudaGraphAddMemAllocNode(&node, graph, before.data(), before.size(), &p));
    MUST(cudaGraphAddMemcpyNode1D(&next, graph, &node, 1, p.dptr, buffers[o.from], sizeof model[0], cudaMemcpyDefault));
    node = add_mix(graph, { next }, buffers[o.to], (int *)p.dptr, (int *)p.dptr, o.value);
    MUST(cudaGraphAddMemFreeNode(&next, graph, &node, 1, p.dptr));
    return next;
}

#if HAS_CONDITIONS
static cudaGraphNode_t add_if(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node;
    cudaGraphNodeParams p = {};
    MUST(cudaGraphConditionalHandleCreate(&p.conditional.handle, graph, (unsigned)o.value % 2,
                                          cudaGraphCondAssignDefault));
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.type = cudaGraphCondTypeIf;
    p.conditional.size = 1;
    MUST(cudaGraphAddNode(&node, graph, before.data(), NULL, before.size(), &p));
    add_mix(p.conditional.phGraph_out[0], {}, buffers[o.to], buffers[o.from], buffers[o.also], o.value);
    return node;
}

#else
static cudaGraphNode_t add_if(cudaGraph_t, const operation &, const nodes_t &) { return NULL; }
#endif

static cudaGraphNode_t add_event(cudaGraph_t graph, const nodes_t &before)
{
    cudaGraphNode_t node, next;
    MUST(cudaGraphAddEventRecordNode(&node, graph, before.data(), before.size(), event));
    MUST(cudaGraphAddEventWaitNode(&next, graph, &node, 1, event));
    return next;
}

static cudaGraphNode_t add_writes(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node;
    CUstreamBatchMemOpParams list[WRITTEN];
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = { context, WRITTEN, list, 0 };
    write_operations(o, list);
    HOLDS(add_batch((CUgraphNode *)&node, (CUgraph)graph, (const CUgraphNode *)before.data(), before.size(), &p) ==
          CUDA_SUCCESS);
    return node;
}

static cudaGraphNode_t add_node(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node;
    if (o.kind == KERNEL) {
        node = add_mix(graph, before, buffers[o.to], buffers[o.from], buffers[o.also], o.value);
    } else if (o.kind == SCRATCH) {
        node = add_scratch(graph, o, before);
    } else if (o.kind == IF) {
        node = add_if(graph, o, before);
    } else if (o.kind == EVENT) {
        node = add_event(graph, before);
    } else if (o.kind == WRITES) {
        node = add_writes(graph, o, before);
    } else if (o.kind == FILL) {
        cudaMemsetParams p = {};
        p.dst = buffers[o.to];
        p.value = (unsigned)o.value & 255;
        p.elementSize = 1;
        p.width = N * 2;
        p.height = 1;
        MUST(cudaGraphAddMemsetNode(&node, graph, before.data(), before.size(), &p));
    } else if (o.kind == COPY) {
        MUST(cudaGraphAddMemcpyNode1D(&node, graph, before.data(), before.size(), buffers[o.to], buffers[o.from],
                                      sizeof model[0], cudaMemcpyDefault));
    } else if (o.kind == COPY_2D) {
        cudaMemcpy3DParms p = {};
        p.dstPtr = make_cudaPitchedPtr(buffers[o.to], 512, 512, 4);
        p.srcPtr = make_cudaPitchedPtr(buffers[o.from], 256, 256, 4);
        p.extent = make_cudaExtent(128, 4, 1);
        p.kind = cudaMemcpyDefault;
        MUST(cudaGraphAddMemcpyNode(&node, graph, before.data(), before.size(), &p));
    } else if (o.kind == HOST) {
        cudaHostNodeParams p = { run_call, call_of(o) };
        MUST(cudaGraphAddHostNode(&node, graph, before.data(), before.size(), &p));
    } else if (o.kind == CHILD) {
        cudaGraph_t child = graph_of(o.child, true, NULL);
        MUST(cudaGraphAddChildGraphNode(&node, graph, before.data(), before.size(), child));
        MUST(cudaGraphDestroy(child));
    } else {
        MUST(cudaGraphAddEmptyNode(&node, graph, before.data(), before.size()));
    }
    return node;
}

/* extra: also some edges that the buffers do not ask for, always the same. */
static cudaGraph_t graph_of(const work &w, bool extra, std::vector<cudaGraphNode_t> *all)
{
    cudaGraph_t graph;
    std::vector<cudaGraphNode_t> nodes;
    MUST(cudaGraphCreate(&graph, 0));
    for (size_t i = 0; i < w.size(); i++) {
        std::vector<cudaGraphNode_t> before;
        for (size_t j = 0; j < i; j++)
            if (must_follow(w[i], w[j]) || (extra && (i * 7 + j * 13) % 16 == 0))
                before.push_back(nodes[j]);
        nodes.push_back(add_node(graph, w[i], before));
    }
    if (all)
        *all = nodes;
    return graph;
}

/* ---- rounds ---- */

static int pattern(int buffer, int i) { return buffer * 7919 + i * 31; }

static void begin(void)
{
    for (int b = 0; b < BUFFERS; b++) {
        for (int i = 0; i < N; i++)
            model[b][i] = pattern(b, i);
        MUST(cudaMemcpy(buffers[b], model[b], sizeof model[b], cudaMemcpyDefault));
    }
    MUST(cudaDeviceSynchronize());
}

/* In the model a fill writes elements; on the device it writes bytes, all of them the same. */
static void fills_are_bytes(work &w)
{
    for (operation &o : w) {
        if (o.kind == FILL)
            o.value = (o.value & 255) * 0x01010101;
        fills_are_bytes(o.child);
    }
}

static void compare(const char *form, unsigned long long seed, int round)
{
    static int found[N];
    MUST(cudaDeviceSynchronize());
    for (int b = 0; b < BUFFERS; b++) {
        MUST(cudaMemcpy(found, buffers[b], sizeof found, cudaMemcpyDefault));
        for (int i = 0; i < N; i++)
            if (found[i] != model[b][i]) {
                fprintf(stderr, "seed %llu, round %d, %s: buffer %d, element %d: %d instead of %d\n", seed, round, form,
                        b, i, found[i], model[b][i]);
                check_failures++;
                break;
            }
    }
}

static void run_graph(cudaGraph_t graph, const work &w, unsigned launches, const char *form, unsigned long long seed,
                      int round)
{
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    begin();
    for (unsigned i = 0; i < launches; i++) {
        MUST(cudaGraphLaunch(executable, streams[random_below(STREAMS)]));
        compute(w);
    }
    compare(form, seed, round);
    MUST(cudaGraphExecDestroy(executable));
}

static bool has_memory(const work &w)
{
    for (const operation &o : w)
        if (o.kind == SCRATCH)
            return true;
    return false;
}

/* No copies of its graphs, and no second executable. */
static bool single(const work &w)
{
    for (const operation &o : w)
        if (o.kind == SCRATCH || o.kind == IF)
            return true;
    return false;
}

static void run_round(unsigned long long seed, int round)
{
    bool memory = random_below(3) == 0, whole = memory || random_below(3) == 0;
    work w = random_work(25, 2, memory, whole);
    fills_are_bytes(w);

    begin();
    issue_all(w, false);
    compute(w);
    compare("issued", seed, round);

    std::vector<cudaGraphNode_t> nodes;
    cudaGraph_t graph = graph_of(w, false, &nodes), captured, clone;
    run_graph(graph, w, 1 + random_below(3), "graph", seed, round);

    MUST(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    issue_all(w, true);
    MUST(cudaStreamEndCapture(streams[0], &captured));
    run_graph(captured, w, 1 + random_below(3), "captured", seed, round);

    if (single(w)) {
        GIVES(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
        cudaGetLastError();
        MUST(cudaGraphCreate(&clone, 0));
    } else {
        MUST(cudaGraphClone(&clone, graph));
        run_graph(clone, w, 1, "clone", seed, round);
    }

    /* one kernel after the other gets another value: in the executable, and by an update */
    work changed = w;
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    begin();
    MUST(cudaGraphLaunch(executable, streams[0]));
    compute(w);
    for (size_t i = 0; i < w.size(); i++)
        if (w[i].kind == KERNEL && random_below(2)) {
            changed[i].value++;
            cudaKernelNodeParams p = {};
            void *arguments[] = { &buffers[w[i].to], &buffers[w[i].from], &buffers[w[i].also], &changed[i].value };
            p.func = (void *)mix;
            p.gridDim = dim3(N / 64);
            p.blockDim = dim3(64);
            p.kernelParams = arguments;
            MUST(cudaGraphExecKernelNodeSetParams(executable, nodes[i], &p));
        }
    MUST(cudaGraphLaunch(executable, streams[1]));
    compute(changed);
    if (!has_memory(w))
        for (operation &o : changed)
            o.value = o.kind == FILL ? o.value ^ 0x11111111 : o.value + 3;
    cudaGraph_t other = graph_of(changed, false, NULL);
    cudaGraphExecUpdateResultInfo result;
    if (!has_memory(w)) {
        MUST(cudaGraphExecUpdate(executable, other, &result));
        MUST(cudaGraphLaunch(executable, streams[2]));
        compute(changed);
    }
    for (size_t i = 0; i < w.size(); i++)
        if ((w[i].kind == KERNEL || w[i].kind == FILL || w[i].kind == COPY) && random_below(2)) {
            MUST(cudaGraphNodeSetEnabled(executable, nodes[i], 0));
            changed[i].kind = EMPTY;
        }
    MUST(cudaGraphLaunch(executable, streams[3]));
    compute(changed);
    compare("changed", seed, round);
    MUST(cudaGraphExecDestroy(executable));

    MUST(cudaGraphDestroy(other));
    MUST(cudaGraphDestroy(clone));
    MUST(cudaGraphDestroy(captured));
    MUST(cudaGraphDestroy(graph));
    for (struct call *c : calls)
        delete c;
    calls.clear();
}

int main(int argc, char **argv)
{
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 12;
    for (int b = 0; b < BUFFERS; b++) {
        if (b < ON_DEVICE)
            MUST(cudaMalloc((void **)&buffers[b], sizeof model[b]));
        else if (b < ON_DEVICE + PINNED)
            MUST(cudaMallocHost((void **)&buffers[b], sizeof model[b]));
        else
            buffers[b] = (int *)malloc(sizeof model[b]);
    }
    cudaDriverEntryPointQueryResult found;
    MUST(ENTRY("cuStreamBatchMemOp", (void **)&batch, &found));
    MUST(ENTRY("cuGraphAddBatchMemOpNode", (void **)&add_batch, &found));
    CUresult (*current)(CUcontext *);
    MUST(ENTRY("cuCtxGetCurrent", (void **)&current, &found));
    HOLDS(current(&context) == CUDA_SUCCESS);
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int s = 0; s < STREAMS; s++)
        MUST(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    for (int round = 0; round < rounds && !check_failures; round++) {
        state = seed * 1000003 + (unsigned)round;
        run_round(seed, round);
    }
    return check_result("graph_random");
}
