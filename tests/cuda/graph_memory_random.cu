// shows: graphs: random graphs that allocate memory compute in several streams what a model on the host computes
//
// Each slot has a graph that changes a buffer of its own through memory that the graph allocates. The slots' graphs may
// run at the same time, share memory, are destroyed while they run, and lose their memory to trims. Arguments: a seed,
// and how many steps.
#include <vector>

#include "check.h"

enum { SLOTS = 5, STREAMS = 3, N = 2048 };

__global__ void fold(unsigned *to, const unsigned *from, unsigned length)
{
    for (unsigned i = threadIdx.x; i < N; i += blockDim.x)
        to[i] = to[i] * 3 + from[(i * 97) % length];
}

static unsigned long long state;
static unsigned random_below(unsigned n)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % n;
}

struct slot {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t used; /* behind what the program itself has done with its memory */
    unsigned *buffer, *escaped, escaped_length, escaped_value, model[N];
    std::vector<unsigned> values;
    bool frees_itself, live;
};
static struct slot slots[SLOTS];
static cudaStream_t streams[STREAMS];

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

static cudaGraphNode_t allocate(cudaGraph_t graph, const nodes_t &before, unsigned length, unsigned **out)
{
    cudaGraphNode_t node;
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = length * sizeof(unsigned);
    MUST(cudaGraphAddMemAllocNode(&node, graph, before.data(), before.size(), &p));
    *out = (unsigned *)p.dptr;
    return node;
}

static cudaGraphNode_t fill(cudaGraph_t graph, cudaGraphNode_t before, unsigned *at, unsigned value, unsigned length)
{
    cudaGraphNode_t node;
    cudaMemsetParams p = {};
    p.dst = at;
    p.value = value;
    p.elementSize = 4;
    p.width = length;
    p.height = 1;
    MUST(cudaGraphAddMemsetNode(&node, graph, &before, 1, &p));
    return node;
}

static cudaGraphNode_t fold_node(cudaGraph_t graph, const nodes_t &before, unsigned *to, unsigned *from,
                                 unsigned length)
{
    cudaGraphNode_t node;
    void *arguments[] = { &to, &from, &length };
    cudaKernelNodeParams p = {};
    p.func = (void *)fold;
    p.gridDim = dim3(1);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &p));
    return node;
}

/* Several allocations, filled at any time, folded into the buffer in order, freed at once or at the end. */
static void build(struct slot *s)
{
    unsigned count = 1 + random_below(4);
    nodes_t folded, ends;
    std::vector<unsigned *> later;
    MUST(cudaGraphCreate(&s->graph, 0));
    s->values.clear();
    for (unsigned i = 0; i < count; i++) {
        unsigned *memory, length = random_length(), value = random_below(1000);
        nodes_t before = random_below(2) ? folded : nodes_t();
        cudaGraphNode_t node = allocate(s->graph, before, length, &memory), freed;
        nodes_t filled = { fill(s->graph, node, memory, value, length) };
        filled.insert(filled.end(), folded.begin(), folded.end());
        folded = { fold_node(s->graph, filled, s->buffer, memory, length) };
        s->values.push_back(value);
        if (random_below(2)) {
            MUST(cudaGraphAddMemFreeNode(&freed, s->graph, folded.data(), 1, memory));
            if (random_below(2))
                folded = { freed };
        } else {
            later.push_back(memory);
        }
    }
    for (unsigned *memory : later) {
        cudaGraphNode_t freed;
        MUST(cudaGraphAddMemFreeNode(&freed, s->graph, folded.data(), 1, memory));
    }
    s->escaped = NULL;
    if (random_below(3) == 0) {
        s->escaped_length = random_length();
        s->escaped_value = random_below(1000);
        cudaGraphNode_t node = allocate(s->graph, {}, s->escaped_length, &s->escaped);
        fill(s->graph, node, s->escaped, s->escaped_value, s->escaped_length);
    }
    s->frees_itself = s->escaped && random_below(2);
    MUST(cudaGraphInstantiateWithFlags(&s->executable, s->graph,
                                       s->frees_itself ? cudaGraphInstantiateFlagAutoFreeOnLaunch : 0));
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

static void compare(unsigned long long seed, int step)
{
    static unsigned found[N];
    MUST(cudaDeviceSynchronize());
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
            MUST(cudaDeviceGraphMemTrim(0));
        } else if (what == 2) {
            MUST(cudaGraphUpload(s->executable, streams[random_below(STREAMS)]));
        } else if (what < 5) {
            destroy(s);
            build(s);
        } else {
            launch(s);
        }
    }
    if (!check_failures)
        compare(seed, steps);
    for (struct slot &s : slots)
        destroy(&s);
    MUST(cudaDeviceSynchronize());
    MUST(cudaDeviceGraphMemTrim(0));
    unsigned long long left = 1;
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &left));
    HOLDS(left == 0);
    return check_result("graph_memory_random");
}
