// shows: graphs: random programs with conditions, loops and memory nodes give the same as the host computes, made by
//   hand, captured, and updated
//
// A program is a list of steps: kernels, memsets, copies, children, memory that is allocated, used and freed, and
// conditions that kernels set from the data. The host runs the same program. Arguments: a seed, and how many rounds.
#include <vector>

#include "check.h"
#include "../lib/dice.h"

#if CUDART_VERSION < 12080
int main(void) { return check_result("condition_random"); } /* the toolkit has not all of these nodes */
#else

enum { N = 64, BUFFERS = 4, TURNS_MOST = 4, DEPTH = 3 };
enum kind { MIX, FILL, COPY, CHILD, MEMORY, IF, IF_ELSE, SWITCH, WHILE, KINDS };

struct step { enum kind kind; int to, from, value; std::vector<std::vector<step>> bodies; };
typedef std::vector<step> program;

static unsigned long long state;
static unsigned random_below(unsigned n) { return dice(&state, n); }

__host__ __device__ static unsigned chosen(const int *data, int value, unsigned among)
{
    return (((unsigned)data[0] * 2654435761u + (unsigned)value * 40503u) >> 9) % among;
}

__global__ void mix(int *to, const int *from, int value)
{
    to[threadIdx.x] = to[threadIdx.x] * 3 + (from[threadIdx.x] ^ value);
}
__global__ void choose(cudaGraphConditionalHandle handle, const int *data, int value, unsigned among)
{
    cudaGraphSetConditional(handle, chosen(data, value, among));
}
/* Turns of a loop: a counter of its own, so that each loop ends. */
__global__ void begin_loop(cudaGraphConditionalHandle handle, int *left, const int *data, int value)
{
    *left = (int)chosen(data, value, TURNS_MOST);
    cudaGraphSetConditional(handle, *left > 0);
}
__global__ void end_turn(cudaGraphConditionalHandle handle, int *left)
{
    cudaGraphSetConditional(handle, --*left > 0);
}

static int *buffers[BUFFERS], model[BUFFERS][N], *counters;
static int counter_count;
static cudaStream_t streams[DEPTH + 2]; /* one for each level of a capture */

/* ---- the model ---- */

static void compute(const program &p)
{
    for (const step &s : p) {
        int *to = model[s.to], *from = model[s.from];
        switch (s.kind) {
        case MIX:
        case MEMORY: /* adds by way of memory of the graph's own */
            for (int i = 0; i < N; i++)
                to[i] = to[i] * 3 + (from[i] ^ s.value);
            break;
        case FILL: memset(to, s.value & 255, N * sizeof(int)); break;
        case COPY: memmove(to, from, N * sizeof(int)); break;
        case CHILD: compute(s.bodies[0]); break;
        case IF:
        case IF_ELSE: {
            unsigned other = chosen(from, s.value, 2) == 0;
            if (other < s.bodies.size())
                compute(s.bodies[other]);
            break;
        }
        case SWITCH: {
            unsigned body = chosen(from, s.value, 5);
            if (body < s.bodies.size())
                compute(s.bodies[body]);
            break;
        }
        case WHILE:
            for (unsigned turns = chosen(from, s.value, TURNS_MOST); turns; turns--)
                compute(s.bodies[0]);
            break;
        default: break;
        }
    }
}

/* A child has no conditions, and neither a child nor a body allocates. */
static program random_program(int depth, bool in_child, bool top)
{
    program p;
    unsigned count = 1 + random_below(top ? 8 : 4);
    for (unsigned i = 0; i < count; i++) {
        step s = { (enum kind)random_below(KINDS), (int)random_below(BUFFERS), (int)random_below(BUFFERS),
                   (int)random_below(1000), {} };
        bool deep = s.kind == CHILD || s.kind >= IF;
        if ((deep && depth == 0) || (s.kind >= IF && in_child) || (s.kind == MEMORY && !top) ||
            (s.kind == COPY && s.to == s.from))
            s.kind = MIX;
        unsigned bodies = s.kind == CHILD || s.kind == IF || s.kind == WHILE ? 1 : s.kind == IF_ELSE ? 2
                          : s.kind == SWITCH                                      ? 1 + random_below(4)
                                                                                  : 0;
        for (unsigned b = 0; b < bodies; b++)
            s.bodies.push_back(random_program(depth - 1, in_child || s.kind == CHILD, false));
        p.push_back(s);
    }
    return p;
}

/* ---- the program as a graph: each step follows the one before ---- */

static cudaGraphNode_t kernel(cudaGraph_t g, const cudaGraphNode_t *before, void *function, unsigned threads,
                              void **arguments)
{
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    p.func = function;
    p.gridDim = dim3(1);
    p.blockDim = dim3(threads);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, g, before, before != NULL, &p));
    return node;
}

static cudaGraphNode_t add_condition(cudaGraph_t g, const cudaGraphNode_t *before, cudaGraphConditionalHandle handle,
                                     cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t *bodies)
{
    cudaGraphNode_t node;
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = handle;
    p.conditional.type = type;
    p.conditional.size = size;
#if CUDART_VERSION >= 13000
    MUST(cudaGraphAddNode(&node, g, before, NULL, before != NULL, &p));
#else
    MUST(cudaGraphAddNode(&node, g, before, before != NULL, &p));
#endif
    memcpy(bodies, p.conditional.phGraph_out, size * sizeof *bodies);
    return node;
}

static cudaGraphNode_t add_step(cudaGraph_t g, const cudaGraphNode_t *before, const step &s);

static cudaGraphNode_t add_all(cudaGraph_t g, const program &p, const cudaGraphNode_t *before)
{
    cudaGraphNode_t last;
    MUST(cudaGraphAddEmptyNode(&last, g, before, before != NULL));
    for (const step &s : p)
        last = add_step(g, &last, s);
    return last;
}

/* to becomes a copy in fresh memory, is computed there, and copied back. */
static cudaGraphNode_t add_memory(cudaGraph_t g, const cudaGraphNode_t *before, const step &s)
{
    cudaGraphNode_t nodes[5];
    cudaMemAllocNodeParams p = {};
    int value = s.value;
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = N * sizeof(int);
    MUST(cudaGraphAddMemAllocNode(&nodes[0], g, before, 1, &p));
    const size_t size = N * sizeof(int);
    MUST(cudaGraphAddMemcpyNode1D(&nodes[1], g, &nodes[0], 1, p.dptr, buffers[s.to], size, cudaMemcpyDefault));
    void *arguments[] = { &p.dptr, &buffers[s.from], &value };
    nodes[2] = kernel(g, &nodes[1], (void *)mix, N, arguments);
    MUST(cudaGraphAddMemcpyNode1D(&nodes[3], g, &nodes[2], 1, buffers[s.to], p.dptr, size, cudaMemcpyDefault));
    MUST(cudaGraphAddMemFreeNode(&nodes[4], g, &nodes[3], 1, p.dptr));
    return nodes[4];
}

static cudaGraphNode_t add_choice(cudaGraph_t g, const cudaGraphNode_t *before, const step &s)
{
    cudaGraphConditionalHandle handle;
    cudaGraph_t bodies[4];
    int value = s.value, *left = counters + counter_count++;
    unsigned among = s.kind == SWITCH ? 5 : 2, size = (unsigned)s.bodies.size();
    MUST(cudaGraphConditionalHandleCreate(&handle, g, 0, 0));
    void *choice[] = { &handle, &buffers[s.from], &value, &among }, *turn[] = { &handle, &left };
    void *loop[] = { &handle, &left, &buffers[s.from], &value };
    cudaGraphNode_t set = s.kind == WHILE ? kernel(g, before, (void *)begin_loop, 1, loop)
                                          : kernel(g, before, (void *)choose, 1, choice);
    cudaGraphNode_t node = add_condition(g, &set, handle, s.kind == SWITCH  ? cudaGraphCondTypeSwitch
                                                          : s.kind == WHILE ? cudaGraphCondTypeWhile
                                                                            : cudaGraphCondTypeIf, size, bodies);
    for (unsigned i = 0; i < size; i++) {
        cudaGraphNode_t last = add_all(bodies[i], s.bodies[i], NULL);
        if (s.kind == WHILE)
            kernel(bodies[i], &last, (void *)end_turn, 1, turn);
    }
    return node;
}

static cudaGraphNode_t add_step(cudaGraph_t g, const cudaGraphNode_t *before, const step &s)
{
    cudaGraphNode_t node;
    int value = s.value;
    void *arguments[] = { &buffers[s.to], &buffers[s.from], &value };
    cudaMemsetParams set = {};
    cudaGraph_t child;
    switch (s.kind) {
    case MIX: return kernel(g, before, (void *)mix, N, arguments);
    case FILL:
        set.dst = buffers[s.to];
        set.value = (unsigned)s.value & 255;
        set.elementSize = 1;
        set.width = N * sizeof(int);
        set.height = 1;
        MUST(cudaGraphAddMemsetNode(&node, g, before, 1, &set));
        return node;
    case COPY:
        MUST(cudaGraphAddMemcpyNode1D(&node, g, before, 1, buffers[s.to], buffers[s.from], N * sizeof(int),
                                      cudaMemcpyDeviceToDevice));
        return node;
    case CHILD:
        MUST(cudaGraphCreate(&child, 0));
        add_all(child, s.bodies[0], NULL);
        MUST(cudaGraphAddChildGraphNode(&node, g, before, 1, child));
        MUST(cudaGraphDestroy(child));
        return node;
    case MEMORY: return add_memory(g, before, s);
    default: return add_choice(g, before, s);
    }
}

/* ---- the program, captured ---- */

static cudaGraph_t captured_graph(cudaStream_t stream, const cudaGraphNode_t **before)
{
    cudaStreamCaptureStatus status;
    cudaGraph_t g;
    size_t count;
#if CUDART_VERSION >= 13000
    MUST(cudaStreamGetCaptureInfo(stream, &status, NULL, &g, before, NULL, &count));
#else
    MUST(cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &g, before, &count));
#endif
    if (!count)
        *before = NULL;
    return g;
}

static void capture_all(const program &p, int level);

static void capture_choice(const step &s, int level)
{
    cudaStream_t stream = streams[level];
    const cudaGraphNode_t *before;
    cudaGraphConditionalHandle handle;
    cudaGraph_t bodies[4], same, g = captured_graph(stream, &before);
    int *left = counters + counter_count++;
    MUST(cudaGraphConditionalHandleCreate(&handle, g, 0, 0));
    if (s.kind == WHILE)
        begin_loop<<<1, 1, 0, stream>>>(handle, left, buffers[s.from], s.value);
    else
        choose<<<1, 1, 0, stream>>>(handle, buffers[s.from], s.value, s.kind == SWITCH ? 5 : 2);
    MUST(cudaGetLastError());
    captured_graph(stream, &before);
    cudaGraphNode_t node = add_condition(g, before, handle, s.kind == SWITCH  ? cudaGraphCondTypeSwitch
                                                            : s.kind == WHILE ? cudaGraphCondTypeWhile
                                                                              : cudaGraphCondTypeIf,
                                         (unsigned)s.bodies.size(), bodies);
#if CUDART_VERSION >= 13000
    MUST(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
#else
    MUST(cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies));
#endif
    for (size_t i = 0; i < s.bodies.size(); i++) {
        MUST(cudaStreamBeginCaptureToGraph(streams[level + 1], bodies[i], NULL, NULL, 0, cudaStreamCaptureModeRelaxed));
        capture_all(s.bodies[i], level + 1);
        if (s.kind == WHILE)
            end_turn<<<1, 1, 0, streams[level + 1]>>>(handle, left);
        MUST(cudaStreamEndCapture(streams[level + 1], &same));
        HOLDS(same == bodies[i]);
    }
}

static void capture_all(const program &p, int level)
{
    cudaStream_t stream = streams[level];
    for (const step &s : p) {
        int *memory;
        switch (s.kind) {
        case MIX: mix<<<1, N, 0, stream>>>(buffers[s.to], buffers[s.from], s.value); break;
        case FILL: MUST(cudaMemsetAsync(buffers[s.to], s.value & 255, N * sizeof(int), stream)); break;
        case COPY:
            MUST(cudaMemcpyAsync(buffers[s.to], buffers[s.from], N * sizeof(int), cudaMemcpyDeviceToDevice, stream));
            break;
        case CHILD: capture_all(s.bodies[0], level); break;
        case MEMORY:
            MUST(cudaMallocAsync((void **)&memory, N * sizeof(int), stream));
            MUST(cudaMemcpyAsync(memory, buffers[s.to], N * sizeof(int), cudaMemcpyDeviceToDevice, stream));
            mix<<<1, N, 0, stream>>>(memory, buffers[s.from], s.value);
            MUST(cudaMemcpyAsync(buffers[s.to], memory, N * sizeof(int), cudaMemcpyDeviceToDevice, stream));
            MUST(cudaFreeAsync(memory, stream));
            break;
        default: capture_choice(s, level); break;
        }
        MUST(cudaGetLastError());
    }
}

/* ---- rounds ---- */

static void begin(void)
{
    for (int b = 0; b < BUFFERS; b++) {
        for (int i = 0; i < N; i++)
            model[b][i] = b * 7919 + i * 31;
        MUST(cudaMemcpy(buffers[b], model[b], sizeof model[b], cudaMemcpyHostToDevice));
    }
    MUST(cudaDeviceSynchronize());
}

static void compare(const char *form, unsigned long long seed, int round)
{
    int found[N];
    MUST(cudaDeviceSynchronize());
    for (int b = 0; b < BUFFERS; b++) {
        MUST(cudaMemcpy(found, buffers[b], sizeof found, cudaMemcpyDeviceToHost));
        if (memcmp(found, model[b], sizeof found)) {
            fprintf(stderr, "seed %llu, round %d, %s: buffer %d begins %d instead of %d\n", seed, round, form, b,
                    found[0], model[b][0]);
            check_failures++;
        }
    }
}

static void change(program &p)
{
    for (step &s : p) {
        s.value += s.kind == MIX || s.kind == FILL;
        for (program &body : s.bodies)
            change(body);
    }
}

static bool has_memory(const program &p)
{
    for (const step &s : p)
        if (s.kind == MEMORY)
            return true;
    return false;
}

static void run_round(unsigned long long seed, int round)
{
    program p = random_program(DEPTH, false, true), changed = p;
    cudaGraph_t g, captured, other;
    cudaGraphExec_t e;
    counter_count = 0;
    MUST(cudaGraphCreate(&g, 0));
    add_all(g, p, NULL);
    MUST(cudaGraphInstantiateWithFlags(&e, g, 0));
    begin();
    for (unsigned i = 0, launches = 1 + random_below(3); i < launches; i++) {
        MUST(cudaGraphLaunch(e, streams[random_below(2)]));
        compute(p);
    }
    compare("graph", seed, round);
    if (!has_memory(p)) { /* another graph has other memory */
        cudaGraphExecUpdateResultInfo info;
        change(changed);
        MUST(cudaGraphCreate(&other, 0));
        add_all(other, changed, NULL);
        MUST(cudaGraphExecUpdate(e, other, &info));
        begin();
        MUST(cudaGraphLaunch(e, streams[0]));
        compute(changed);
        compare("updated", seed, round);
        MUST(cudaGraphDestroy(other));
    }
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));

    MUST(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed));
    capture_all(p, 0);
    MUST(cudaStreamEndCapture(streams[0], &captured));
    MUST(cudaGraphInstantiateWithFlags(&e, captured, 0));
    begin();
    MUST(cudaGraphLaunch(e, streams[1]));
    compute(p);
    compare("captured", seed, round);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(captured));
}

int main(int argc, char **argv)
{
    unsigned long long seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 25;
    for (int b = 0; b < BUFFERS; b++)
        MUST(cudaMalloc((void **)&buffers[b], sizeof model[b]));
    MUST(cudaMalloc((void **)&counters, 4096 * sizeof *counters));
    for (cudaStream_t &s : streams)
        MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (int round = 0; round < rounds && !check_failures; round++) {
        state = seed * 1000003 + (unsigned)round;
        run_round(seed, round);
    }
    return check_result("condition_random");
}
#endif
