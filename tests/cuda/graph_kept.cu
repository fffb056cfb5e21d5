// shows: graphs: a launched graph that the server keeps gives what its nodes give, also after changes of nodes, memory
//   and streams
//
// Arguments: a kind of graph (line, branches, host, pageable, changed), and how many launches. tests/graph/launches.py
// counts the messages. Without arguments: all kinds.
#include "check.h"

enum { N = 256, NODES = 20 };

__global__ void add(int *to, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] += value;
}
__global__ void join(int *to, const int *a, const int *b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    to[i] = a[i] + b[i];
}

static int *a, *b, *c;
static cudaStream_t stream;

static void expect(const int *from, int value)
{
    static int host[N];
    MUST(cudaMemcpyAsync(host, from, sizeof host, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    for (int i = 0; i < N; i++)
        if (host[i] != value) {
            fprintf(stderr, "element %d is %d, expected %d\n", i, host[i], value);
            check_failures++;
            return;
        }
}

static cudaGraphNode_t add_node(cudaGraph_t g, const cudaGraphNode_t *before, int *to, int value)
{
    void *arguments[] = { &to, &value };
    cudaKernelNodeParams p = {};
    p.func = (void *)add;
    p.gridDim = dim3(N / 64);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    cudaGraphNode_t node;
    MUST(cudaGraphAddKernelNode(&node, g, before, before != NULL, &p));
    return node;
}

static cudaGraphExec_t made(cudaGraph_t g)
{
    cudaGraphExec_t e;
    MUST(cudaGraphInstantiateWithFlags(&e, g, 0));
    return e;
}

static void launch(cudaGraphExec_t e, int times)
{
    for (int i = 0; i < times; i++)
        MUST(cudaGraphLaunch(e, stream));
}

static void clear()
{
    for (int *all : { a, b, c })
        MUST(cudaMemsetAsync(all, 0, N * sizeof(int), stream));
    MUST(cudaStreamSynchronize(stream));
}

/* Each node adds its place to a. */
static cudaGraph_t line(cudaGraphNode_t nodes[NODES])
{
    cudaGraph_t g;
    MUST(cudaGraphCreate(&g, 0));
    for (int i = 0; i < NODES; i++)
        nodes[i] = add_node(g, i ? &nodes[i - 1] : NULL, a, i);
    return g;
}
enum { LINE = NODES * (NODES - 1) / 2 };

static void one_line(int times)
{
    cudaGraphNode_t nodes[NODES];
    cudaGraph_t g = line(nodes);
    cudaGraphExec_t e = made(g);
    launch(e, times);
    expect(a, times * LINE);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

/* b and c beside each other, joined in a; a copy and a set are among them. */
static void branches(int times)
{
    cudaGraph_t g;
    cudaGraphNode_t start, left, right, copy, last;
    MUST(cudaGraphCreate(&g, 0));
    cudaMemsetParams set = {};
    set.dst = b;
    set.value = 7;
    set.elementSize = 4;
    set.width = N;
    set.height = 1;
    MUST(cudaGraphAddMemsetNode(&start, g, NULL, 0, &set));
    left = add_node(g, &start, b, 1);
    right = add_node(g, &start, c, 2);
    const cudaGraphNode_t both[] = { left, right };
    MUST(cudaGraphAddMemcpyNode1D(&copy, g, both, 2, b, c, 4, cudaMemcpyDeviceToDevice));
    void *arguments[] = { &a, &b, &c };
    cudaKernelNodeParams p = {};
    p.func = (void *)join;
    p.gridDim = dim3(N / 64);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&last, g, &copy, 1, &p));
    cudaGraphExec_t e = made(g);
    launch(e, times);
    MUST(cudaMemcpyAsync(a, a + 1, 4, cudaMemcpyDeviceToDevice, stream)); /* the element that was copied */
    expect(a, 8 + 2 * times);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

static int calls;
static void count(void *) { calls++; }

/* A host function between two halves. */
static void host(int times)
{
    cudaGraph_t g;
    cudaGraphNode_t first, middle;
    MUST(cudaGraphCreate(&g, 0));
    first = add_node(g, NULL, a, 1);
    cudaHostNodeParams p = { count, NULL };
    MUST(cudaGraphAddHostNode(&middle, g, &first, 1, &p));
    add_node(g, &middle, a, 2);
    cudaGraphExec_t e = made(g);
    calls = 0;
    launch(e, times);
    expect(a, 3 * times);
    HOLDS(calls == times);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

/* The source is the program's own memory: each launch reads what stands there then. */
static void pageable(int times)
{
    static int source[N];
    cudaGraph_t g;
    cudaGraphNode_t copy;
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphAddMemcpyNode1D(&copy, g, NULL, 0, a, source, sizeof source, cudaMemcpyHostToDevice));
    add_node(g, &copy, a, 5);
    cudaGraphExec_t e = made(g);
    for (int i = 0; i < times; i++) {
        for (int &of : source)
            of = i;
        launch(e, 1);
        expect(a, i + 5);
    }
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

/* One node gets other parameters before each launch; sometimes one is switched off. */
static void changed(int times)
{
    cudaGraphNode_t nodes[NODES];
    cudaGraph_t g = line(nodes);
    cudaGraphExec_t e = made(g);
    int sum = 0;
    for (int i = 0; i < times; i++) {
        int value = 100 + i;
        void *arguments[] = { &a, &value };
        cudaKernelNodeParams p = {};
        p.func = (void *)add;
        p.gridDim = dim3(N / 64);
        p.blockDim = dim3(64);
        p.kernelParams = arguments;
        MUST(cudaGraphExecKernelNodeSetParams(e, nodes[3], &p));
        MUST(cudaGraphNodeSetEnabled(e, nodes[5], i % 7 != 6));
        launch(e, 1);
        sum += LINE - 3 + value - (i % 7 != 6 ? 0 : 5);
    }
    expect(a, sum);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

/* A graph that is launched into one stream and another is one behind the other; it also follows the legacy stream. */
static void streams(int times)
{
    cudaGraphNode_t nodes[NODES];
    cudaGraph_t g = line(nodes);
    cudaGraphExec_t e = made(g);
    cudaStream_t other;
    MUST(cudaStreamCreate(&other));
    for (int i = 0; i < times; i++)
        MUST(cudaGraphLaunch(e, i % 3 == 0 ? other : i % 3 == 1 ? stream : 0));
    MUST(cudaDeviceSynchronize());
    expect(a, times * LINE);
    MUST(cudaStreamDestroy(other));
    MUST(cudaGraphLaunch(e, stream));
    expect(a, (times + 1) * LINE);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

/* The context ends: the graph is made again, with the same names, and another graph's kept calls are not taken for
   it. */
static void reset(int times)
{
    cudaGraphNode_t nodes[NODES];
    cudaGraph_t g = line(nodes);
    cudaGraphExec_t e = made(g);
    launch(e, times);
    expect(a, times * LINE);
    MUST(cudaDeviceReset());
    MUST(cudaStreamCreate(&stream));
    for (int **each : { &a, &b, &c })
        MUST(cudaMalloc(each, N * sizeof(int)));
    clear();
    g = line(nodes);
    e = made(g);
    launch(e, times);
    expect(a, times * LINE);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

/* More nodes than one message launches, in several branches. */
static void large(int times)
{
    enum { MANY = 1500, BRANCHES = 3 };
    cudaGraph_t g;
    cudaGraphNode_t last[BRANCHES];
    int *to[BRANCHES] = { a, b, c };
    MUST(cudaGraphCreate(&g, 0));
    for (int i = 0; i < MANY; i++)
        last[i % BRANCHES] = add_node(g, i < BRANCHES ? NULL : &last[i % BRANCHES], to[i % BRANCHES], 1);
    cudaGraphExec_t e = made(g);
    launch(e, times);
    for (int *each : to)
        expect(each, times * MANY / BRANCHES);
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

static const struct { const char *name; void (*run)(int); } kinds[] = {
    { "line", one_line },   { "branches", branches }, { "host", host },   { "pageable", pageable },
    { "changed", changed }, { "streams", streams },   { "large", large }, { "reset", reset },
};

int main(int argc, char **argv)
{
    int times = argc > 2 ? atoi(argv[2]) : 10;
    MUST(cudaStreamCreate(&stream));
    for (int **each : { &a, &b, &c })
        MUST(cudaMalloc(each, N * sizeof(int)));
    for (auto &kind : kinds)
        if (argc < 2 || strcmp(argv[1], kind.name) == 0) {
            clear();
            kind.run(times);
        }
    return check_result("graph_kept");
}
