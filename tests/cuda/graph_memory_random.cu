// shows: graphs: random graphs that allocate memory compute in several streams what a model on the host computes
//
// Each slot has a graph that changes a buffer of its own through memory that the graph allocates. The slots' graphs may
// run at the same time, share memory, are destroyed while they run, get other values, and lose their memory to trims.
// Where there are two devices, memory and kernels are of either, and memory says which device may use it. Parts of a
// graph are children that allocate. Arguments: a seed, and how many steps.
#include <vector>

#include "check.h"
#include "../lib/dice.h"

enum { SLOTS = 5, STREAMS = 3, N = 2048 };

__global__ void fold(unsigned *to, const unsigned *from, unsigned length)
{
    for (unsigned i = threadIdx.x; i < N; i += blockDim.x)
        to[i] = to[i] * 3 + from[(i * 97) % length];
}

static unsigned long long state;
static unsigned random_below(unsigned n) { return dice(&state, n); }

/* A node that fills memory of that device. Its value is one of the slot's. */
struct filling {
    cudaGraphNode_t node;
    unsigned *at, length;
    int device;
};

struct slot {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t used; /* behind what the program itself has done with its memory */
    unsigned *buffer, *escaped, escaped_length, escaped_value, model[N];
    std::vector<unsigned> values;
    std::vector<filling> fillings;
    bool frees_itself, live;
};
static struct slot slots[SLOTS];
static cudaStream_t streams[STREAMS];
static int devices; /* 1 or 2. The slots' buffers are the first one's */

static void model_fold(struct slot *s, unsigned value)
{
    for (unsigned &m : s->model)
        m = m * 3 + value;
}

static unsigned random_length()
{
    static const unsigned lengths[] = { 100, 5000, 400000, 524288, 800000 };
    return lengths[random_below(5)];
}

typedef std::vector<cudaGraphNode_t> nodes_t;

static int any_device() { return (int)random_below((unsigned)devices); }

/* Memory of the owner, which `user` may use, too. */
static cudaGraphNode_t allocate(cudaGraph_t graph, const nodes_t &before, unsigned length, int owner, int user,
                                unsigned **out)
{
    cudaGraphNode_t node;
    cudaMemAllocNodeParams p = {};
    cudaMemAccessDesc access = { { cudaMemLocationTypeDevice, user },
                                 random_below(2) ? cudaMemAccessFlagsProtRead : cudaMemAccessFlagsProtReadWrite };
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.poolProps.location.id = owner;
    p.bytesize = length * sizeof(unsigned);
    p.accessDescs = &access;
    p.accessDescCount = user != owner;
    MUST(cudaGraphAddMemAllocNode(&node, graph, before.data(), before.size(), &p));
    *out = (unsigned *)p.dptr;
    return node;
}

static cudaMemsetParams filled(const filling &f, unsigned value)
{
    cudaMemsetParams p = {};
    p.dst = f.at;
    p.value = value;
    p.elementSize = 4;
    p.width = f.length;
    p.height = 1;
    return p;
}

static void fill(cudaGraph_t graph, cudaGraphNode_t before, filling *f, unsigned value)
{
    cudaMemsetParams p = filled(*f, value);
    MUST(cudaSetDevice(f->device));
    MUST(cudaGraphAddMemsetNode(&f->node, graph, &before, 1, &p));
    MUST(cudaSetDevice(0));
}

static cudaGraphNode_t fold_node(cudaGraph_t graph, const nodes_t &before, unsigned *to, const filling &from,
                                 int device)
{
    cudaGraphNode_t node;
    void *arguments[] = { &to, (void *)&from.at, (void *)&from.length };
    cudaKernelNodeParams p = {};
    p.func = (void *)fold;
    p.gridDim = dim3(1);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    MUST(cudaSetDevice(device));
    MUST(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &p));
    MUST(cudaSetDevice(0));
    return node;
}

static nodes_t fold_all(struct slot *s, cudaGraph_t graph, nodes_t folded, unsigned count, bool children);

/* The same in a child that becomes a part of the graph: only such a child may allocate. */
static nodes_t fold_child(struct slot *s, cudaGraph_t graph, const nodes_t &before)
{
#if CUDART_VERSION >= 13000
    cudaGraphNode_t node;
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeGraph;
    MUST(cudaGraphCreate(&p.graph.graph, 0));
    p.graph.ownership = cudaGraphChildGraphOwnershipMove;
    fold_all(s, p.graph.graph, {}, 1 + random_below(2), false);
    MUST(cudaGraphAddNode(&node, graph, before.data(), NULL, before.size(), &p));
    return { node };
#else
    return fold_all(s, graph, before, 1, false); /* the toolkit has no such children */
#endif
}

/* Several allocations, filled at any time, folded into the buffer in order, freed at once or at the end. What the next
   nodes follow. */
static nodes_t fold_all(struct slot *s, cudaGraph_t graph, nodes_t folded, unsigned count, bool children)
{
    std::vector<unsigned *> later;
    for (unsigned i = 0; i < count; i++) {
        if (children && random_below(4) == 0) {
            folded = fold_child(s, graph, folded);
            continue;
        }
        int owner = any_device(), user = any_device();
        filling f = { NULL, NULL, random_length(), owner };
        unsigned value = random_below(1000);
        nodes_t before = random_below(2) ? folded : nodes_t();
        cudaGraphNode_t node = allocate(graph, before, f.length, owner, user, &f.at), freed;
        fill(graph, node, &f, value);
        nodes_t both = { f.node };
        both.insert(both.end(), folded.begin(), folded.end());
        folded = { fold_node(graph, both, s->buffer, f, user) };
        s->values.push_back(value);
        s->fillings.push_back(f);
        if (random_below(2)) {
            MUST(cudaGraphAddMemFreeNode(&freed, graph, folded.data(), 1, f.at));
            if (random_below(2))
                folded = { freed };
        } else {
            later.push_back(f.at);
        }
    }
    for (unsigned *memory : later) {
        cudaGraphNode_t freed;
        MUST(cudaGraphAddMemFreeNode(&freed, graph, folded.data(), 1, memory));
    }
    return folded;
}

static void build(struct slot *s)
{
    MUST(cudaGraphCreate(&s->graph, 0));
    s->values.clear();
    s->fillings.clear();
    fold_all(s, s->graph, {}, 1 + random_below(4), true);
    s->escaped = NULL;
    if (random_below(3) == 0) {
        filling f = { NULL, NULL, random_length(), any_device() };
        s->escaped_value = random_below(1000);
        cudaGraphNode_t node = allocate(s->graph, {}, f.length, f.device, 0, &f.at);
        fill(s->graph, node, &f, s->escaped_value);
        s->escaped = f.at;
        s->escaped_length = f.length;
    }
    s->frees_itself = s->escaped && random_below(2);
    MUST(cudaGraphInstantiateWithFlags(&s->executable, s->graph,
                                       s->frees_itself ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0));
}

/* Other values for later launches; earlier ones may still run. */
static void change(struct slot *s)
{
    for (size_t i = 0; i < s->fillings.size(); i++)
        if (random_below(2)) {
            const filling &f = s->fillings[i];
            s->values[i] = random_below(1000);
            cudaMemsetParams p = filled(f, s->values[i]);
            MUST(cudaSetDevice(f.device));
            MUST(cudaGraphExecMemsetNodeSetParams(s->executable, f.node, &p));
            MUST(cudaSetDevice(0));
        }
}

/* The program's own work with what the graph has left, and perhaps its free. */
static void use_escaped(struct slot *s, cudaStream_t stream)
{
    fold<<<1, 64, 0, stream>>>(s->buffer, s->escaped, s->escaped_length);
    MUST(cudaGetLastError());
    model_fold(s, s->escaped_value);
    unsigned how = s->frees_itself ? random_below(3) : 1 + random_below(2);
    s->live = how == 0;
    if (how == 1)
        MUST(cudaFreeAsync(s->escaped, stream));
    if (how == 2)
        MUST(cudaFree(s->escaped));
}

static void launch(struct slot *s)
{
    cudaStream_t stream = streams[random_below(STREAMS)];
    MUST(cudaStreamWaitEvent(stream, s->used, 0));
    MUST(cudaGraphLaunch(s->executable, stream));
    for (unsigned value : s->values)
        model_fold(s, value);
    if (s->escaped)
        use_escaped(s, stream);
    MUST(cudaEventRecord(s->used, stream));
}

static void destroy(struct slot *s)
{
    MUST(cudaGraphExecDestroy(s->executable));
    MUST(cudaGraphDestroy(s->graph));
    if (s->live)
        MUST(cudaFree(s->escaped));
    s->live = false;
}

static void synchronize()
{
    for (int d = devices - 1; d >= 0; d--) {
        MUST(cudaSetDevice(d));
        MUST(cudaDeviceSynchronize());
    }
}

static void compare(unsigned long long seed, int step)
{
    static unsigned found[N];
    synchronize();
    for (int g = 0; g < SLOTS; g++) {
        MUST(cudaMemcpy(found, slots[g].buffer, sizeof found, cudaMemcpyDeviceToHost));
        for (int i = 0; i < N; i++)
            if (found[i] != slots[g].model[i]) {
                fprintf(stderr, "seed %llu, step %d: slot %d, element %d: %u instead of %u\n", seed, step, g, i,
                        found[i], slots[g].model[i]);
                check_failures++;
                break;
            }
    }
}

int main(int argc, char **argv)
{
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 300;
    state = seed * 1000003;
    MUST(cudaGetDeviceCount(&devices));
    if (devices > 1) {
        devices = 2;
        MUST(cudaSetDevice(1));
        MUST(cudaDeviceEnablePeerAccess(0, 0));
        MUST(cudaSetDevice(0));
    }
    for (cudaStream_t &s : streams)
        MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (struct slot &s : slots) {
        MUST(cudaMalloc((void **)&s.buffer, sizeof s.model));
        MUST(cudaMemset(s.buffer, 0, sizeof s.model));
        MUST(cudaEventCreateWithFlags(&s.used, cudaEventDisableTiming));
        build(&s);
    }
    MUST(cudaDeviceSynchronize());
    for (int step = 0; step < steps && !check_failures; step++) {
        struct slot *s = &slots[random_below(SLOTS)];
        unsigned what = random_below(20);
        if (what == 0) {
            compare(seed, step);
        } else if (what == 1) {
            MUST(cudaDeviceGraphMemTrim(any_device()));
        } else if (what == 2) {
            MUST(cudaGraphUpload(s->executable, streams[random_below(STREAMS)]));
        } else if (what < 5) {
            destroy(s);
            build(s);
        } else if (what < 8) {
            change(s);
        } else {
            launch(s);
        }
    }
    if (!check_failures)
        compare(seed, steps);
    for (struct slot &s : slots)
        destroy(&s);
    synchronize();
    for (int d = 0; d < devices; d++) {
        unsigned long long left = 1;
        MUST(cudaDeviceGraphMemTrim(d));
        MUST(cudaDeviceGetGraphMemAttribute(d, cudaGraphMemAttrReservedMemCurrent, &left));
        HOLDS(left == 0);
    }
    return check_result("graph_memory_random");
}
