// shows: graphs: memory of allocation nodes is taken at the launch, shared by graphs that cannot run at once, trimmed
#include <pthread.h>

#include "software.h"

enum { MIB = 1 << 20, N = 4 * MIB / sizeof(int) };

__global__ void add(int *to, int from, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] += from;
}

static unsigned long long attribute(cudaGraphMemAttributeType which)
{
    unsigned long long value = ~0ull;
    MUST(cudaDeviceGetGraphMemAttribute(0, which, &value));
    return value;
}
/* A driver reserves more than is used, in steps of its own: 32 MiB on an H200. */
static bool reserves(unsigned long long reserved, unsigned long long needed)
{
    return on_software_gpu() ? reserved == needed : reserved >= needed;
}
static unsigned long long used(void) { return attribute(cudaGraphMemAttrUsedMemCurrent); }
static unsigned long long reserved(void) { return attribute(cudaGraphMemAttrReservedMemCurrent); }

static cudaGraphNode_t allocate(cudaGraph_t graph, const cudaGraphNode_t *before, size_t count, size_t size, int **out)
{
    cudaGraphNode_t node;
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = size;
    MUST(cudaGraphAddMemAllocNode(&node, graph, before, count, &p));
    *out = (int *)p.dptr;
    return node;
}

static cudaGraphNode_t add_node(cudaGraph_t graph, cudaGraphNode_t before, int *to, int value, int n)
{
    cudaGraphNode_t node;
    void *arguments[] = { &to, &value, &n };
    cudaKernelNodeParams p = {};
    p.func = (void *)add;
    p.gridDim = dim3(4);
    p.blockDim = dim3(64);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, graph, &before, 1, &p));
    return node;
}

static cudaGraphNode_t fill_node(cudaGraph_t graph, cudaGraphNode_t before, int *to, int value, int n)
{
    cudaGraphNode_t node;
    cudaMemsetParams p = {};
    p.dst = to;
    p.value = (unsigned)value;
    p.elementSize = 4;
    p.width = (size_t)n;
    p.height = 1;
    MUST(cudaGraphAddMemsetNode(&node, graph, &before, 1, &p));
    return node;
}

static cudaGraphNode_t copy_node(cudaGraph_t graph, cudaGraphNode_t before, void *to, const void *from, size_t size)
{
    cudaGraphNode_t node;
    MUST(cudaGraphAddMemcpyNode1D(&node, graph, &before, 1, to, from, size, cudaMemcpyDefault));
    return node;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph, unsigned flags)
{
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, flags));
    return executable;
}

/* Allocates, computes `value` there, copies it to `out`, frees. */
static cudaGraph_t working_graph(int *out, int value, int **address)
{
    cudaGraph_t graph;
    cudaGraphNode_t freed;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node = allocate(graph, NULL, 0, N * sizeof(int), address);
    node = fill_node(graph, node, *address, value - 7, N);
    node = add_node(graph, node, *address, 7, N);
    node = copy_node(graph, node, out, *address, N * sizeof(int));
    MUST(cudaGraphAddMemFreeNode(&freed, graph, &node, 1, *address));
    return graph;
}

static int wrong(const int *device, int value)
{
    static int host[N];
    int count = 0;
    MUST(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        count += host[i] != value;
    return count;
}

/* When memory is taken, and when it goes. */
static void check_footprint(int *out)
{
    int *address;
    MUST(cudaDeviceGraphMemTrim(0));
    HOLDS(reserved() == 0 && used() == 0);
    cudaGraph_t graph = working_graph(out, 40, &address);
    cudaGraphExec_t executable = instantiate(graph, 0);
    HOLDS(reserved() == 0 && used() == 0);
    MUST(cudaGraphLaunch(executable, 0));
    HOLDS(reserves(reserved(), 4 * MIB) && reserves(used(), 4 * MIB));
    MUST(cudaDeviceSynchronize());
    HOLDS(wrong(out, 40) == 0);
    HOLDS(reserves(reserved(), 4 * MIB) && reserves(used(), 4 * MIB)); /* it stays with the graph, behind the free */
    MUST(cudaDeviceGraphMemTrim(0));
    HOLDS(reserved() == 0 && used() == 0);
    HOLDS(reserves(attribute(cudaGraphMemAttrReservedMemHigh), 4 * MIB));
    unsigned long long zero = 0;
    MUST(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &zero));
    MUST(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
    HOLDS(attribute(cudaGraphMemAttrReservedMemHigh) == 0 && attribute(cudaGraphMemAttrUsedMemHigh) == 0);
    MUST(cudaGraphUpload(executable, 0));
    HOLDS(reserves(reserved(), 4 * MIB));
    MUST(cudaMemset(out, 0, N * sizeof(int)));
    MUST(cudaGraphLaunch(executable, 0));
    HOLDS(wrong(out, 40) == 0);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    HOLDS(used() == 0 && reserves(reserved(), 4 * MIB)); /* kept for the next graph */
    MUST(cudaDeviceGraphMemTrim(0));
    HOLDS(reserved() == 0);
}

/* In one graph the second allocation gets the memory of the first one, which has been freed before. */
static void check_reuse_in_a_graph(int *out)
{
    int *first, *second, *third;
    cudaGraph_t graph;
    cudaGraphNode_t freed, other;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node = allocate(graph, NULL, 0, N * sizeof(int), &first);
    node = fill_node(graph, node, first, 5, N);
    MUST(cudaGraphAddMemFreeNode(&freed, graph, &node, 1, first));
    node = allocate(graph, &freed, 1, N * sizeof(int), &second);
    HOLDS(second == first);
    other = allocate(graph, NULL, 0, N * sizeof(int), &third);
    HOLDS(third != first);
    node = fill_node(graph, node, second, 6, N);
    node = copy_node(graph, node, out, second, N * sizeof(int));
    cudaGraphNode_t both[] = { node, other };
    MUST(cudaGraphAddMemFreeNode(&freed, graph, both, 2, second));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&other, graph, both, 2, second));
    MUST(cudaGraphAddMemFreeNode(&freed, graph, both, 2, third));
    cudaGraphExec_t executable = instantiate(graph, 0);
    for (int i = 0; i < 3; i++)
        MUST(cudaGraphLaunch(executable, 0));
    HOLDS(wrong(out, 6) == 0);
    HOLDS(reserves(reserved(), 8 * MIB));
    GIVES(cudaErrorInvalidValue, cudaFree(second)); /* the graph has freed it */
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaDeviceGraphMemTrim(0));
}

struct hold { pthread_mutex_t lock; };
static void CUDART_CB hold_run(void *data)
{
    struct hold *h = (struct hold *)data;
    pthread_mutex_lock(&h->lock);
    pthread_mutex_unlock(&h->lock);
}

/* Graphs of one stream share memory; graphs that run at the same time must not. */
static void check_sharing(int *out_a, int *out_b)
{
    int *a, *b;
    cudaStream_t s, t;
    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    cudaGraph_t graphs[] = { working_graph(out_a, 11, &a), working_graph(out_b, 12, &b) };
    HOLDS(a != b);
    cudaGraphExec_t executables[] = { instantiate(graphs[0], 0), instantiate(graphs[1], 0) };
    struct hold hold = { PTHREAD_MUTEX_INITIALIZER };
    pthread_mutex_lock(&hold.lock);
    MUST(cudaLaunchHostFunc(s, hold_run, &hold));
    for (int i = 0; i < 4; i++)
        MUST(cudaGraphLaunch(executables[i % 2], s));
    HOLDS(reserves(reserved(), 4 * MIB));
    pthread_mutex_unlock(&hold.lock);
    MUST(cudaDeviceSynchronize());
    HOLDS(wrong(out_a, 11) == 0 && wrong(out_b, 12) == 0);
    MUST(cudaMemset(out_a, 0, N * sizeof(int)));
    MUST(cudaMemset(out_b, 0, N * sizeof(int)));
    MUST(cudaDeviceSynchronize());            /* streams that do not block do not wait for cudaMemset */
    /* The first one cannot run before the second one has: that one must have memory of its own, and not wait. */
    pthread_mutex_lock(&hold.lock);
    MUST(cudaLaunchHostFunc(s, hold_run, &hold));
    MUST(cudaGraphLaunch(executables[0], s));
    MUST(cudaGraphLaunch(executables[1], t));
    HOLDS(reserves(reserved(), 8 * MIB));
    MUST(cudaStreamSynchronize(t));
    pthread_mutex_unlock(&hold.lock);
    MUST(cudaDeviceSynchronize());
    HOLDS(wrong(out_a, 11) == 0 && wrong(out_b, 12) == 0);
    /* Gone while they may run. */
    for (int i = 0; i < 2; i++) {
        MUST(cudaMemset(i ? out_b : out_a, 0, N * sizeof(int)));
        MUST(cudaDeviceSynchronize());
        pthread_mutex_lock(&hold.lock);
        MUST(cudaLaunchHostFunc(s, hold_run, &hold));
        MUST(cudaGraphLaunch(executables[i], s));
        MUST(cudaGraphExecDestroy(executables[i]));
        MUST(cudaGraphDestroy(graphs[i]));
        MUST(cudaDeviceGraphMemTrim(0));
        HOLDS(reserves(reserved(), 4 * MIB)); /* work uses it */
        pthread_mutex_unlock(&hold.lock);
        MUST(cudaDeviceSynchronize());
        HOLDS(wrong(i ? out_b : out_a, 11 + i) == 0);
        MUST(cudaDeviceGraphMemTrim(0));
        HOLDS(reserved() == 0);
    }
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(t));
}

/* An allocation that the program frees, or another graph. Nobody else gets its memory meanwhile. */
static void check_escape(int *out)
{
    int *kept, *other;
    cudaGraph_t graph, frees;
    cudaGraphNode_t freed;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node = allocate(graph, NULL, 0, N * sizeof(int), &kept);
    fill_node(graph, node, kept, 21, N);
    cudaGraph_t working = working_graph(out, 22, &other);
    cudaGraphExec_t executable = instantiate(graph, 0), second = instantiate(working, 0);
    MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaGraphLaunch(second, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(executable, 0));
    MUST(cudaDeviceGraphMemTrim(0));
    HOLDS(wrong(kept, 21) == 0 && wrong(out, 22) == 0);
    MUST(cudaFreeAsync(kept, 0));
    MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaGraphCreate(&frees, 0));
    MUST(cudaGraphAddMemFreeNode(&freed, frees, NULL, 0, kept));
    cudaGraphExec_t third = instantiate(frees, 0);
    MUST(cudaGraphLaunch(third, 0));
    GIVES(cudaErrorInvalidValue, cudaFree(kept));
    MUST(cudaGraphExecDestroy(executable));
    executable = instantiate(graph, cudaGraphInstantiateFlagAutoFreeOnLaunch);
    for (int i = 0; i < 3; i++)
        MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphExecDestroy(third));
    MUST(cudaGraphDestroy(frees));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaDeviceSynchronize());
    MUST(cudaDeviceGraphMemTrim(0));
    HOLDS(wrong(kept, 21) == 0);                   /* it is still the program's */
    MUST(cudaFree(kept));
    GIVES(cudaErrorInvalidValue, cudaFree(kept));
    MUST(cudaGraphExecDestroy(second));
    MUST(cudaGraphDestroy(working));
    MUST(cudaDeviceGraphMemTrim(0));
    HOLDS(reserved() == 0);
}

/* What there is not enough memory for fails when it is launched, and harms nothing. */
static void check_exhaustion(int *out)
{
    size_t available, total;
    int *huge, *small;
    cudaGraph_t graph;
    cudaGraphNode_t freed;
    MUST(cudaMemGetInfo(&available, &total));
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node = allocate(graph, NULL, 0, total * 2, &huge);
    node = fill_node(graph, node, huge, 1, 16);
    MUST(cudaGraphAddMemFreeNode(&freed, graph, &node, 1, huge));
    cudaGraphExec_t executable = instantiate(graph, 0);
    GIVES(cudaErrorMemoryAllocation, cudaGraphUpload(executable, 0));
    GIVES(cudaErrorMemoryAllocation, cudaGraphLaunch(executable, 0));
    GIVES(cudaErrorMemoryAllocation, cudaGraphLaunch(executable, 0));
    cudaGetLastError();
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    graph = working_graph(out, 31, &small);
    executable = instantiate(graph, 0);
    MUST(cudaGraphLaunch(executable, 0));
    HOLDS(wrong(out, 31) == 0);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
}

/* Many small allocations share granules. */
static void check_small(void)
{
    enum { COUNT = 300 };
    int *address[COUNT];
    cudaStream_t s;
    cudaGraph_t graph;
    MUST(cudaDeviceGraphMemTrim(0));
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < COUNT; i++) {
        MUST(cudaMallocAsync((void **)&address[i], 1000, s));
        MUST(cudaMemsetAsync(address[i], 0, 1000, s));
        add<<<1, 64, 0, s>>>(address[i], i, 250);
    }
    for (int i = 0; i < COUNT; i++)
        MUST(cudaFreeAsync(address[i], s));
    MUST(cudaStreamEndCapture(s, &graph));
    cudaGraphExec_t executable = instantiate(graph, 0);
    MUST(cudaGraphLaunch(executable, s));
    MUST(cudaStreamSynchronize(s));
    HOLDS(reserves(reserved(), 2 * MIB));
    for (int i = 1; i < COUNT; i++)
        HOLDS(!on_software_gpu() || (char *)address[i] - (char *)address[i - 1] == 1024);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(s));
}

int main(void)
{
    int *out[2];
    for (int *&p : out)
        MUST(cudaMalloc((void **)&p, N * sizeof(int)));
    check_footprint(out[0]);
    check_reuse_in_a_graph(out[0]);
    check_sharing(out[0], out[1]);
    check_escape(out[0]);
    check_exhaustion(out[0]);
    check_small();
    return check_result("graph_memory");
}
