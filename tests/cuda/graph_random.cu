// shows: graphs: random work gives the same as a graph made by hand, captured, cloned, updated, or issued to streams
//
// Each round makes a list of operations (graph_work.h). The host computes what they must give. Where there are two
// devices, kernels and memory are of either. Arguments: a seed, and how many rounds.
#include <cuda.h>
#include <vector>

#include "check.h"
#include "graph_work.h"

/* Of functions that another release has in another form. */
#if CUDART_VERSION >= 12050
#define ENTRY(name, out, found) cudaGetDriverEntryPointByVersion(name, out, 12000, cudaEnableDefault, found)
#else
#define ENTRY(name, out, found) cudaGetDriverEntryPoint(name, out, cudaEnableDefault, found)
#endif

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

static cudaEvent_t event, other_event;
static cudaStream_t away; /* the second device's */
static cudaMemPool_t pools[2];
static bool two_devices, have_conditions;
static CUresult (*batch)(CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned);
static CUresult (*add_batch)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                             const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
static CUresult (*set_batch)(CUgraphExec, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *);
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

/* Launches of graphs cannot be captured: a child is put into the captured graph. */
static void capture_child(const operation &o, cudaStream_t stream)
{
#if HAS_CONDITIONS
    capture_node(o, stream);
#else
    cudaStreamCaptureStatus status;
    cudaGraph_t graph, child = graph_of(o.child, true, NULL);
    cudaGraphNode_t node;
    const cudaGraphNode_t *before;
    size_t count;
    MUST(cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &before, &count));
    MUST(cudaGraphAddChildGraphNode(&node, graph, before, count, child));
    MUST(cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies));
    MUST(cudaGraphDestroy(child));
#endif
}

static int device_of(bool is_away) { return is_away && two_devices; }

/* What is given to the first stream from now on comes after what the other one, of that device, has been given. */
static void follow(cudaStream_t later, cudaStream_t earlier, int device)
{
    cudaEvent_t between;
    MUST(cudaSetDevice(device));
    MUST(cudaEventCreateWithFlags(&between, cudaEventDisableTiming));
    MUST(cudaEventRecord(between, earlier));
    MUST(cudaStreamWaitEvent(later, between, 0));
    MUST(cudaEventDestroy(between));
}

static void issue_mix(const operation &o, int *to, const int *from, const int *also, cudaStream_t stream)
{
    bool elsewhere = device_of(o.away);
    if (elsewhere) {
        follow(away, stream, 0);
        MUST(cudaSetDevice(1));
    }
    mix<<<N / 64, 64, 0, elsewhere ? away : stream>>>(to, from, also, o.value);
    MUST(cudaGetLastError());
    if (elsewhere) {
        follow(stream, away, 1);
        MUST(cudaSetDevice(0));
    }
}

static void issue_scratch(const operation &o, cudaStream_t stream)
{
    int *scratch;
    MUST(cudaMallocFromPoolAsync((void **)&scratch, sizeof model[0], pools[device_of(memory_away(o))], stream));
    MUST(cudaMemcpyAsync(scratch, buffers[o.from], sizeof model[0], cudaMemcpyDefault, stream));
    issue_mix(o, buffers[o.to], scratch, scratch, stream);
    MUST(cudaFreeAsync(scratch, stream));
}

static bool pageable(int buffer) { return buffer >= ON_DEVICE + PINNED; }

/* A stream reads pageable memory when it is given the copy; a graph, when the copy's turn has come. */
static void issue(const operation &o, cudaStream_t stream, bool captured)
{
    if (!captured && (o.kind == COPY || o.kind == COPY_2D) && (pageable(o.to) || pageable(o.from)))
        MUST(cudaDeviceSynchronize());
    switch (o.kind) {
    case KERNEL: issue_mix(o, buffers[o.to], buffers[o.from], buffers[o.also], stream); break;
    case FILL: MUST(cudaMemsetAsync(buffers[o.to], o.value & 255, N * 2, stream)); break;
    case COPY: MUST(cudaMemcpyAsync(buffers[o.to], buffers[o.from], sizeof model[0], cudaMemcpyDefault, stream)); break;
    case COPY_2D:
        MUST(cudaMemcpy2DAsync(buffers[o.to], 512, buffers[o.from], 256, 128, 4, cudaMemcpyDefault, stream));
        break;
    case HOST: MUST(cudaLaunchHostFunc(stream, run_call, call_of(o))); break;
    case CHILD:
        if (captured && o.value % 2 && !allocates(o.child)) /* a child that allocates is no copy */
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

/* Parameters of a kernel node, and what they point to. */
struct mix_parameters {
    int *to, *from, *also, value;
    void *arguments[4];
    cudaKernelNodeParams p;
    mix_parameters(int *t, int *f, int *a, int v)
        : to(t), from(f), also(a), value(v), arguments{ &to, &from, &also, &value }, p{}
    {
        p.func = (void *)mix;
        p.gridDim = dim3(N / 64);
        p.blockDim = dim3(64);
        p.kernelParams = arguments;
    }
};

static cudaGraphNode_t add_mix(cudaGraph_t graph, const nodes_t &before, bool is_away, const mix_parameters &m)
{
    cudaGraphNode_t node;
    MUST(cudaSetDevice(device_of(is_away)));
    MUST(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &m.p));
    MUST(cudaSetDevice(0));
    return node;
}

static mix_parameters mix_of(const operation &o)
{
    return mix_parameters(buffers[o.to], buffers[o.from], buffers[o.also], o.value);
}

static cudaGraphNode_t add_scratch(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node, next;
    cudaMemAllocNodeParams p = {};
    int device = device_of(memory_away(o));
    cudaMemAccessDesc other = { { cudaMemLocationTypeDevice, !device }, cudaMemAccessFlagsProtReadWrite };
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.poolProps.location.id = device;
    p.bytesize = sizeof model[0];
    p.accessDescs = &other;
    p.accessDescCount = two_devices;
    MUST(cudaGraphAddMemAllocNode(&node, graph, before.data(), before.size(), &p));
    MUST(cudaGraphAddMemcpyNode1D(&next, graph, &node, 1, p.dptr, buffers[o.from], sizeof model[0], cudaMemcpyDefault));
    int *scratch = (int *)p.dptr;
    node = add_mix(graph, { next }, o.away, mix_parameters(buffers[o.to], scratch, scratch, o.value));
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
    add_mix(p.conditional.phGraph_out[0], {}, false, mix_of(o));
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

static cudaMemsetParams fill_of(const operation &o)
{
    cudaMemsetParams p = {};
    p.dst = buffers[o.to];
    p.value = (unsigned)o.value & 255;
    p.elementSize = 1;
    p.width = N * 2;
    p.height = 1;
    return p;
}

static cudaMemcpy3DParms rows_of(const operation &o)
{
    cudaMemcpy3DParms p = {};
    p.dstPtr = make_cudaPitchedPtr(buffers[o.to], 512, 512, 4);
    p.srcPtr = make_cudaPitchedPtr(buffers[o.from], 256, 256, 4);
    p.extent = make_cudaExtent(128 >> o.half, 4, 1);
    p.kind = cudaMemcpyDefault;
    return p;
}

static cudaGraphNode_t add_child(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node;
    cudaGraph_t child = graph_of(o.child, true, NULL);
#if HAS_MOVED_CHILDREN
    if (allocates(o.child)) {
        cudaGraphNodeParams p = {};
        p.type = cudaGraphNodeTypeGraph;
        p.graph.graph = child;
        p.graph.ownership = cudaGraphChildGraphOwnershipMove;
        MUST(cudaGraphAddNode(&node, graph, before.data(), NULL, before.size(), &p));
        return node;
    }
#endif
    MUST(cudaGraphAddChildGraphNode(&node, graph, before.data(), before.size(), child));
    MUST(cudaGraphDestroy(child));
    return node;
}

static cudaGraphNode_t add_node(cudaGraph_t graph, const operation &o, const nodes_t &before)
{
    cudaGraphNode_t node;
    const cudaGraphNode_t *list = before.data();
    const size_t count = before.size();
    const cudaMemsetParams fill = fill_of(o);
    const cudaMemcpy3DParms rows = rows_of(o);
    switch (o.kind) {
    case KERNEL: return add_mix(graph, before, o.away, mix_of(o));
    case SCRATCH: return add_scratch(graph, o, before);
    case IF: return add_if(graph, o, before);
    case EVENT: return add_event(graph, before);
    case WRITES: return add_writes(graph, o, before);
    case CHILD: return add_child(graph, o, before);
    case FILL: MUST(cudaGraphAddMemsetNode(&node, graph, list, count, &fill)); return node;
    case COPY_2D: MUST(cudaGraphAddMemcpyNode(&node, graph, list, count, &rows)); return node;
    case COPY:
        MUST(cudaGraphAddMemcpyNode1D(&node, graph, list, count, buffers[o.to], buffers[o.from],
                                      sizeof model[0] >> o.half, cudaMemcpyDefault));
        return node;
    case HOST: {
        cudaHostNodeParams p = { run_call, call_of(o) };
        MUST(cudaGraphAddHostNode(&node, graph, list, count, &p));
        return node;
    }
    default: MUST(cudaGraphAddEmptyNode(&node, graph, list, count)); return node;
    }
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

/* ---- other parameters for single nodes of an executable ---- */

static cudaGraphNode_t only_before(cudaGraphNode_t node)
{
    cudaGraphNode_t before;
    size_t count = 1;
#if CUDART_VERSION >= 13000
    MUST(cudaGraphNodeGetDependencies(node, &before, NULL, &count));
#else
    MUST(cudaGraphNodeGetDependencies(node, &before, &count));
#endif
    return before;
}

/* The kernel of a SCRATCH, which reads memory whose address is known to the node before it only. */
static void set_scratch(cudaGraphExec_t executable, cudaGraphNode_t release, const operation &o)
{
    void *scratch;
    MUST(cudaGraphMemFreeNodeGetParams(release, &scratch));
    mix_parameters m(buffers[o.to], (int *)scratch, (int *)scratch, o.value);
    MUST(cudaSetDevice(device_of(o.away)));
    MUST(cudaGraphExecKernelNodeSetParams(executable, only_before(release), &m.p));
    MUST(cudaSetDevice(0));
}

static void set_node(cudaGraphExec_t executable, cudaGraphNode_t node, const operation &o)
{
    const mix_parameters m = mix_of(o);
    const cudaMemsetParams fill = fill_of(o);
    const cudaMemcpy3DParms rows = rows_of(o);
    switch (o.kind) {
    case KERNEL:
        MUST(cudaSetDevice(device_of(o.away)));
        MUST(cudaGraphExecKernelNodeSetParams(executable, node, &m.p));
        MUST(cudaSetDevice(0));
        break;
    case FILL: MUST(cudaGraphExecMemsetNodeSetParams(executable, node, &fill)); break;
    case COPY_2D: MUST(cudaGraphExecMemcpyNodeSetParams(executable, node, &rows)); break;
    case COPY:
        MUST(cudaGraphExecMemcpyNodeSetParams1D(executable, node, buffers[o.to], buffers[o.from],
                                                sizeof model[0] >> o.half, cudaMemcpyDefault));
        break;
    case HOST: {
        cudaHostNodeParams p = { run_call, call_of(o) };
        MUST(cudaGraphExecHostNodeSetParams(executable, node, &p));
        break;
    }
    case WRITES: {
        CUstreamBatchMemOpParams list[WRITTEN];
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = { context, WRITTEN, list, 0 };
        write_operations(o, list);
        HOLDS(set_batch((CUgraphExec)executable, (CUgraphNode)node, &p) == CUDA_SUCCESS);
        break;
    }
    case EVENT:
        MUST(cudaGraphExecEventRecordNodeSetEvent(executable, only_before(node), other_event));
        MUST(cudaGraphExecEventWaitNodeSetEvent(executable, node, other_event));
        break;
    case SCRATCH: set_scratch(executable, node, o); break;
    case CHILD: {
        cudaGraph_t child = graph_of(o.child, true, NULL);
        MUST(cudaGraphExecChildGraphNodeSetParams(executable, node, child));
        MUST(cudaGraphDestroy(child));
        break;
    }
    default: break;
    }
}

static void run_round(unsigned long long seed, int round)
{
    bool memory = random_below(3) == 0, conditions = memory || random_below(3) == 0;
    conditions = conditions && have_conditions;
    work w = random_work(25, 2, memory, conditions);
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

    /* one node after the other gets other parameters: in the executable, and by an update */
    work changed = w;
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    begin();
    MUST(cudaGraphLaunch(executable, streams[0]));
    compute(w);
    for (size_t i = 0; i < w.size(); i++)
        if (can_set(w[i]) && random_below(2)) {
            vary(changed[i]);
            set_node(executable, nodes[i], changed[i]);
        }
    MUST(cudaGraphLaunch(executable, streams[1]));
    compute(changed);
    compare("set", seed, round);
    bool updated = !allocates(w); /* another graph has other memory */
    if (updated)
        for (operation &o : changed)
            vary(o);
    cudaGraph_t other = graph_of(changed, false, NULL);
    cudaGraphExecUpdateResultInfo result;
    if (updated) {
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

/* Either device uses the memory of both. */
static void second_device()
{
    int devices;
    MUST(cudaGetDeviceCount(&devices));
    two_devices = devices > 1;
    for (int d = 0; d < 1 + two_devices; d++) {
        cudaMemAccessDesc other = { { cudaMemLocationTypeDevice, !d }, cudaMemAccessFlagsProtReadWrite };
        MUST(cudaDeviceGetDefaultMemPool(&pools[d], d));
        if (two_devices)
            MUST(cudaMemPoolSetAccess(pools[d], &other, 1));
    }
    if (!two_devices)
        return;
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    MUST(cudaStreamCreateWithFlags(&away, cudaStreamNonBlocking));
    MUST(cudaSetDevice(0));
}

/* NVIDIA's driver behind a server has no conditional nodes for us (docs/limits.md). */
static bool find_conditions()
{
#if HAS_CONDITIONS
    cudaGraph_t graph;
    cudaGraphConditionalHandle handle;
    MUST(cudaGraphCreate(&graph, 0));
    cudaError_t result = cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault);
    MUST(cudaGraphDestroy(graph));
    HOLDS(result == cudaSuccess || result == cudaErrorNotSupported);
    cudaGetLastError();
    return result == cudaSuccess;
#else
    return false;
#endif
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
    MUST(ENTRY("cuGraphExecBatchMemOpNodeSetParams", (void **)&set_batch, &found));
    CUresult (*current)(CUcontext *);
    MUST(ENTRY("cuCtxGetCurrent", (void **)&current, &found));
    HOLDS(current(&context) == CUDA_SUCCESS);
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&other_event, cudaEventDisableTiming));
    second_device();
    have_conditions = find_conditions();
    for (int s = 0; s < STREAMS; s++)
        MUST(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    for (int round = 0; round < rounds && !check_failures; round++) {
        state = seed * 1000003 + (unsigned)round;
        run_round(seed, round);
    }
    return check_result("graph_random");
}
