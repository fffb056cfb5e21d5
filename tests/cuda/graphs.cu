// shows: graphs: graphs made by hand compute what is expected, launched again, on several streams, and after changes
// shows: graphs: CUDA's error codes for cycles, foreign nodes, wrong kinds and handles that have ended
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define N 1024

__global__ void add(int *a, int n, int value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] += value;
}

__global__ void multiply(int *a, int n, int factor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        a[i] *= factor;
}

__global__ void join(int *out, const int *a, const int *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] * 1000 + b[i];
}

__device__ int symbol[4];

static int *on_device(size_t count)
{
    int *p;
    MUST(cudaMalloc((void **)&p, count * sizeof *p));
    MUST(cudaMemset(p, 0, count * sizeof *p));
    MUST(cudaDeviceSynchronize());            /* other streams do not wait for it */
    return p;
}

static cudaGraphNode_t add_kernel(cudaGraph_t graph, const cudaGraphNode_t *before, size_t count, void *kernel,
                                  void **arguments)
{
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    p.func = kernel;
    p.gridDim = dim3(N / 128);
    p.blockDim = dim3(128);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, graph, before, count, &p));
    return node;
}

static cudaGraphExec_t instantiate(cudaGraph_t graph)
{
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
}

static void count_call(void *user) { ++*(int *)user; }

struct double_it { int *from, *to; };
static void double_all(void *user)
{
    const struct double_it *d = (const struct double_it *)user;
    for (int i = 0; i < N; i++)
        d->to[i] = d->from[i] * 2;
}

/* Up, two branches, join, down, a host function that writes what the next copy reads, up, down. */
static void check_diamond(bool pinned)
{
    static int pageable[4][N];
    int *host[4];
    for (int i = 0; i < 4; i++) {
        if (pinned)
            MUST(cudaMallocHost((void **)&host[i], sizeof pageable[i]));
        else
            host[i] = pageable[i];
        memset(host[i], 0, sizeof pageable[i]);
    }
    int *a = on_device(N), *b = on_device(N), *c = on_device(N), n = N, five = 5, three = 3;
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t up, set, left, right, both, down, call, up_again, down_again;
    MUST(cudaGraphAddMemcpyNode1D(&up, graph, NULL, 0, a, host[0], N * sizeof(int), cudaMemcpyHostToDevice));
    cudaMemsetParams fill = {};
    fill.dst = b;
    fill.value = 7;
    fill.elementSize = 4;
    fill.width = N;
    fill.height = 1;
    MUST(cudaGraphAddMemsetNode(&set, graph, NULL, 0, &fill));
    void *left_arguments[] = { &a, &n, &five }, *right_arguments[] = { &b, &n, &three };
    left = add_kernel(graph, &up, 1, (void *)add, left_arguments);
    right = add_kernel(graph, &set, 1, (void *)multiply, right_arguments);
    five = three = -1;                        /* the node has its own copies */
    void *join_arguments[] = { &c, &a, &b, &n };
    const cudaGraphNode_t sides[] = { left, right };
    both = add_kernel(graph, sides, 2, (void *)join, join_arguments);
    MUST(cudaGraphAddMemcpyNode1D(&down, graph, &both, 1, host[1], c, N * sizeof(int), cudaMemcpyDeviceToHost));
    static struct double_it doubled;
    doubled.from = host[1];
    doubled.to = host[2];
    cudaHostNodeParams function = { double_all, &doubled };
    MUST(cudaGraphAddHostNode(&call, graph, &down, 1, &function));
    MUST(cudaGraphAddMemcpyNode1D(&up_again, graph, &call, 1, a, host[2], N * sizeof(int), cudaMemcpyDefault));
    MUST(cudaGraphAddMemcpyNode1D(&down_again, graph, &up_again, 1, host[3], a, N * sizeof(int), cudaMemcpyDefault));

    size_t count = 0;
    MUST(cudaGraphGetNodes(graph, NULL, &count));
    HOLDS(count == 9);
    MUST(cudaGraphGetRootNodes(graph, NULL, &count));
    HOLDS(count == 2);

    cudaGraphExec_t executable = instantiate(graph);
    MUST(cudaGraphDestroy(graph));            /* the executable does not need it */
    cudaStream_t streams[3];
    for (int i = 0; i < 3; i++)
        MUST(cudaStreamCreateWithFlags(&streams[i], i == 2 ? cudaStreamDefault : cudaStreamNonBlocking));
    for (int round = 0; round < 6; round++) {
        cudaStream_t stream = round < 3 ? streams[round] : round == 3 ? 0 : streams[round % 2];
        for (int i = 0; i < N; i++)
            host[0][i] = i + round;
        MUST(cudaGraphLaunch(executable, stream));
        MUST(cudaStreamSynchronize(stream));
        int wrong = 0;
        for (int i = 0; i < N; i++) {
            int expected = (i + round + 5) * 1000 + 21;
            /* of pageable memory NVIDIA's driver takes what it holds at the launch */
            wrong += host[1][i] != expected || host[2][i] != 2 * expected || (pinned && host[3][i] != 2 * expected);
        }
        HOLDS(wrong == 0);
    }
    MUST(cudaGraphExecDestroy(executable));
    for (int i = 0; i < 3; i++)
        MUST(cudaStreamDestroy(streams[i]));
    for (int i = 0; pinned && i < 4; i++)
        MUST(cudaFreeHost(host[i]));
    cudaFree(a), cudaFree(b), cudaFree(c);
}

/* An executable comes after itself, on whatever streams it is launched. */
static void check_repeated(void)
{
    int *a = on_device(N), n = N, one = 1, two = 2, host[N];
    void *first[] = { &a, &n, &one }, *second[] = { &a, &n, &two };
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphNode_t node = add_kernel(graph, NULL, 0, (void *)add, first);
    add_kernel(graph, &node, 1, (void *)multiply, second);
    cudaGraphExec_t executable = instantiate(graph);
    cudaStream_t streams[4];
    for (int i = 0; i < 4; i++)
        MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    int expected = 0;
    for (int round = 0; round < 20; round++) {
        MUST(cudaGraphLaunch(executable, streams[round % 4]));
        expected = (expected + 1) * 2;
    }
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == expected && host[N - 1] == expected);

    /* A launch keeps the parameters that its executable had when it was launched. */
    MUST(cudaMemset(a, 0, sizeof host));
    MUST(cudaDeviceSynchronize());
    cudaKernelNodeParams p;
    MUST(cudaGraphKernelNodeGetParams(node, &p));
    HOLDS(p.func == (void *)add && p.gridDim.x == N / 128 && *(int *)p.kernelParams[2] == 1);
    MUST(cudaGraphLaunch(executable, streams[0]));                  /* 2 */
    int ten = 10;
    void *changed[] = { &a, &n, &ten };
    p.kernelParams = changed;
    MUST(cudaGraphExecKernelNodeSetParams(executable, node, &p));
    MUST(cudaGraphLaunch(executable, streams[0]));                  /* 24 */
    MUST(cudaGraphNodeSetEnabled(executable, node, 0));
    unsigned enabled = 7;
    MUST(cudaGraphNodeGetEnabled(executable, node, &enabled));
    HOLDS(enabled == 0);
    MUST(cudaGraphLaunch(executable, streams[0]));                  /* 48 */
    MUST(cudaGraphNodeSetEnabled(executable, node, 1));
    MUST(cudaStreamSynchronize(streams[0]));
    MUST(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 48);

    /* An update takes all parameters of a graph of the same form. */
    cudaGraph_t other;
    MUST(cudaGraphClone(&other, graph));
    cudaGraphNode_t in_clone;
    MUST(cudaGraphNodeFindInClone(&in_clone, node, other));
    HOLDS(in_clone != node);
    int hundred = 100;
    void *cloned[] = { &a, &n, &hundred };
    p.kernelParams = cloned;
    MUST(cudaGraphKernelNodeSetParams(in_clone, &p));
#if CUDART_VERSION >= 12000
    cudaGraphExecUpdateResultInfo result;
    MUST(cudaGraphExecUpdate(executable, other, &result));
    HOLDS(result.result == cudaGraphExecUpdateSuccess);
    cudaGraphNode_t extra;
    MUST(cudaGraphAddEmptyNode(&extra, other, NULL, 0));
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(executable, other, &result));
    HOLDS(result.result == cudaGraphExecUpdateErrorTopologyChanged);
    cudaGetLastError();
#endif
    MUST(cudaMemset(a, 0, sizeof host));
    MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 200);
    MUST(cudaGraphDestroy(other));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphExecDestroy(executable));
    for (int i = 0; i < 4; i++)
        MUST(cudaStreamDestroy(streams[i]));
    cudaFree(a);
}

/* Many branches, children in children, events from outside, symbols, boxes. */
static void check_shapes(void)
{
    enum { BRANCHES = 40 };
    int *a = on_device(BRANCHES * N), n = N, *parts[BRANCHES], values[BRANCHES];
    static int host[BRANCHES * N];
    cudaGraph_t leaf, inner, outer;
    MUST(cudaGraphCreate(&leaf, 0));
    for (int i = 0; i < BRANCHES; i++) {
        parts[i] = a + i * N;
        values[i] = i + 1;
        void *arguments[] = { &parts[i], &n, &values[i] };
        cudaGraphNode_t first = add_kernel(leaf, NULL, 0, (void *)add, arguments);
        add_kernel(leaf, &first, 1, (void *)add, arguments);
    }
    MUST(cudaGraphCreate(&inner, 0));
    cudaGraphNode_t node, second, between;
    MUST(cudaGraphAddChildGraphNode(&node, inner, NULL, 0, leaf));
    int all = BRANCHES * N, two = 2;
    void *arguments[] = { &a, &all, &two };
    cudaKernelNodeParams p = {};
    p.func = (void *)multiply;
    p.gridDim = dim3(BRANCHES * N / 128);
    p.blockDim = dim3(128);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&between, inner, &node, 1, &p));
    MUST(cudaGraphAddChildGraphNode(&second, inner, &between, 1, leaf));
    MUST(cudaGraphCreate(&outer, 0));
    MUST(cudaGraphAddChildGraphNode(&node, outer, NULL, 0, inner));
    cudaGraph_t embedded;
    MUST(cudaGraphChildGraphNodeGetGraph(node, &embedded));
    HOLDS(embedded != inner);
    size_t count = 0;
    MUST(cudaGraphGetNodes(embedded, NULL, &count));
    HOLDS(count == 3);
    cudaGraphNode_t down;
    MUST(cudaGraphAddMemcpyNode1D(&down, outer, &node, 1, host, a, sizeof host, cudaMemcpyDeviceToHost));
    MUST(cudaGraphDestroy(leaf));
    MUST(cudaGraphDestroy(inner));
    cudaGraphExec_t executable = instantiate(outer);
    MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaDeviceSynchronize());
    int wrong = 0;
    for (int i = 0; i < BRANCHES * N; i++)
        wrong += host[i] != (i / N + 1) * 6;
    HOLDS(wrong == 0);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(outer));

    /* A box on the device, a symbol, and an event that a stream waits for. */
    cudaEvent_t event;
    cudaStream_t stream, waiting;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamCreate(&waiting));
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    cudaMemcpy3DParms box = {};
    box.srcPtr = make_cudaPitchedPtr(a, 64, 64, 16);
    box.dstPtr = make_cudaPitchedPtr(a + N, 128, 64, 16);
    box.extent = make_cudaExtent(32, 8, 1);
    box.srcPos = make_cudaPos(4, 1, 0);
    box.kind = cudaMemcpyDeviceToDevice;
    cudaGraphNode_t copied, recorded, from;
    MUST(cudaGraphAddMemcpyNode(&copied, graph, NULL, 0, &box));
    cudaMemcpy3DParms read;
    MUST(cudaGraphMemcpyNodeGetParams(copied, &read));
    HOLDS(read.srcPtr.ptr == a && read.srcPtr.pitch == 64 && read.srcPos.x == 4 && read.srcPos.y == 1 &&
          read.extent.width == 32 && read.extent.height == 8 && read.dstPtr.ptr == a + N);
    static const int four[4] = { 4, 3, 2, 1 };
    MUST(cudaGraphAddMemcpyNodeToSymbol(&node, graph, &copied, 1, symbol, four, sizeof four, 0,
                                           cudaMemcpyHostToDevice));
    MUST(cudaGraphAddEventRecordNode(&recorded, graph, &node, 1, event));
    MUST(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &node, 1, a, symbol, 8, 8, cudaMemcpyDeviceToDevice));
    executable = instantiate(graph);
    static int source[2 * N];
    for (int i = 0; i < 2 * N; i++)
        source[i] = i;
    MUST(cudaMemcpy(a, source, sizeof source, cudaMemcpyHostToDevice));
    MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaStreamWaitEvent(waiting, event, 0));
    int result[4] = { 0 };
    MUST(cudaStreamSynchronize(waiting));
    MUST(cudaMemcpyFromSymbol(result, symbol, sizeof result));
    HOLDS(result[0] == 4 && result[3] == 1);
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(host, a, 2 * N * sizeof(int), cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 2 && host[1] == 1 && host[2] == 2);
    HOLDS(host[N] == 17 && host[N + 7] == 24 && host[N + 32] == 33 && host[N + 8] == N + 8);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(waiting));
    cudaFree(a);
}

static void check_errors(void)
{
    int *a = on_device(N), n = N, one = 1;
    void *arguments[] = { &a, &n, &one };
    cudaGraph_t graph, other;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphCreate(&other, 0));
    cudaGraphNode_t first = add_kernel(graph, NULL, 0, (void *)add, arguments), second, third, foreign;
    MUST(cudaGraphAddEmptyNode(&second, graph, &first, 1));
    MUST(cudaGraphAddEmptyNode(&third, graph, NULL, 0));
    MUST(cudaGraphAddEmptyNode(&foreign, other, NULL, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphCreate(NULL, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphCreate(&other, 1));
    cudaGraphNode_t node;
    const cudaGraphNode_t twice[] = { first, first };
    GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&node, graph, &foreign, 1));
    GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&node, graph, twice, 2));
    GIVES(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&node, graph, NULL, 1));
    GIVES(cudaErrorInvalidValue, cudaGraphAddHostNode(&node, graph, NULL, 0, NULL));
    cudaMemsetParams fill;
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeGetParams(first, &fill));
    cudaGraphNodeType type;
    MUST(cudaGraphNodeGetType(second, &type));
    HOLDS(type == cudaGraphNodeTypeEmpty);
    cudaGraphExec_t executable;
    /* a cycle is found when the graph is instantiated */
    cudaGraph_t cyclic;
    cudaGraphNode_t one_of[2];
    MUST(cudaGraphCreate(&cyclic, 0));
    MUST(cudaGraphAddEmptyNode(&one_of[0], cyclic, NULL, 0));
    MUST(cudaGraphAddEmptyNode(&one_of[1], cyclic, one_of, 1));
#if CUDART_VERSION >= 13000
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(cyclic, &one_of[0], &one_of[1], NULL, 1));
    MUST(cudaGraphAddDependencies(cyclic, &one_of[1], &one_of[0], NULL, 1));
#else
    GIVES(cudaErrorInvalidValue, cudaGraphAddDependencies(cyclic, &one_of[0], &one_of[1], 1));
    MUST(cudaGraphAddDependencies(cyclic, &one_of[1], &one_of[0], 1));
#endif
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithFlags(&executable, cyclic, 0));
#if CUDART_VERSION >= 12000
    cudaGraphInstantiateParams params = {};
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&executable, cyclic, &params));
    HOLDS(params.result_out == cudaGraphInstantiateInvalidStructure && params.errNode_out);
#endif
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithFlags(&executable, graph, 1 << 20));
    MUST(cudaGraphDestroy(cyclic));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch((cudaGraphExec_t)0, 0));
    /* lists: too little room, and too much */
    cudaGraphNode_t nodes[8];
    size_t count = 2;
    MUST(cudaGraphGetNodes(graph, nodes, &count));
    HOLDS(count == 2 && nodes[0] == first && nodes[1] == second);
    count = 8;
    MUST(cudaGraphGetNodes(graph, nodes, &count));
    HOLDS(count == 3 && nodes[2] == third && nodes[3] == NULL && nodes[7] == NULL);
    MUST(cudaGraphDestroyNode(first));
    count = 0;
    MUST(cudaGraphGetRootNodes(graph, NULL, &count));
    HOLDS(count == 2);
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphDestroy(other));
    cudaGetLastError();
    cudaFree(a);
}

/* Memory that a graph allocates: used inside, handed out, and freed by the program or by a later launch. */
static void check_memory(void)
{
    int *out = on_device(N), n = N, six = 6, host[N];
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    cudaMemAllocNodeParams memory = {};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.poolProps.location.id = 0;
    memory.bytesize = N * sizeof(int);
    cudaGraphNode_t allocated, filled, used, copied, freed;
    MUST(cudaGraphAddMemAllocNode(&allocated, graph, NULL, 0, &memory));
    HOLDS(memory.dptr != NULL);
    cudaMemsetParams fill = {};
    fill.dst = memory.dptr;
    fill.elementSize = 4;
    fill.width = N;
    fill.height = 1;
    MUST(cudaGraphAddMemsetNode(&filled, graph, &allocated, 1, &fill));
    void *arguments[] = { &memory.dptr, &n, &six };
    used = add_kernel(graph, &filled, 1, (void *)add, arguments);
    MUST(cudaGraphAddMemcpyNode1D(&copied, graph, &used, 1, out, memory.dptr, sizeof host, cudaMemcpyDeviceToDevice));
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&freed, graph, &copied, 1, out));
    cudaGraph_t clone;
    GIVES(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
    cudaGraphExec_t without = instantiate(graph);
    MUST(cudaGraphLaunch(without, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(without, 0));         /* it has not been freed */
    unsigned long long bytes = 0;
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
    HOLDS(bytes >= sizeof host);
    MUST(cudaFreeAsync(memory.dptr, 0));
    MUST(cudaGraphLaunch(without, 0));
    MUST(cudaFree(memory.dptr));
    GIVES(cudaErrorInvalidValue, cudaFree(memory.dptr));
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
    HOLDS(bytes >= sizeof host); /* the memory stays with the graph */
    MUST(cudaGraphExecDestroy(without));
    MUST(cudaGraphAddMemFreeNode(&freed, graph, &copied, 1, memory.dptr));
    cudaGraphNode_t again;
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&again, graph, &freed, 1, memory.dptr));
    cudaGraphExec_t executable = instantiate(graph);
    for (int i = 0; i < 3; i++)
        MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 6 && host[N - 1] == 6);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes));
    HOLDS(bytes == 0);
    MUST(cudaDeviceGraphMemTrim(0));
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &bytes));
    HOLDS(bytes == 0);
    cudaGetLastError();
    cudaFree(out);
}

static void check_objects(void)
{
    int calls = 0;
    cudaUserObject_t object;
    cudaGraph_t graph;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaUserObjectCreate(&object, &calls, count_call, 1, cudaUserObjectNoDestructorSync));
    MUST(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    cudaGraphExec_t executable = instantiate(graph);
    MUST(cudaGraphDestroy(graph));
    HOLDS(calls == 0);
    MUST(cudaGraphExecDestroy(executable));
    for (int i = 0; i < 1000 && !calls; i++)   /* natively another thread calls it */
        usleep(1000);
    HOLDS(calls == 1);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void CUDART_CB pass_gate(void *)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

/* An executable that is destroyed while it runs needs its objects to its end. */
static void check_objects_of_running(void)
{
    static volatile int calls[2];
    cudaUserObject_t object;
    cudaGraph_t graph, child;
    cudaGraphNode_t node;
    cudaHostNodeParams host = { pass_gate, NULL };
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphCreate(&child, 0));
    MUST(cudaGraphAddHostNode(&node, child, NULL, 0, &host));
    for (int i = 0; i < 2; i++) {
        MUST(cudaUserObjectCreate(&object, (void *)&calls[i], count_call, 1, cudaUserObjectNoDestructorSync));
        MUST(cudaGraphRetainUserObject(i ? child : graph, object, 1, cudaGraphUserObjectMove));
    }
    MUST(cudaGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    MUST(cudaGraphDestroy(child));
    cudaGraphExec_t executable = instantiate(graph);
    MUST(cudaGraphDestroy(graph));
    pthread_mutex_lock(&gate);
    MUST(cudaGraphLaunch(executable, 0));
    MUST(cudaGraphExecDestroy(executable));
    HOLDS(calls[0] == 0 && calls[1] == 0);
    pthread_mutex_unlock(&gate);
    MUST(cudaStreamSynchronize(0));
    for (int i = 0; i < 5000 && !(calls[0] && calls[1]); i++)
        usleep(1000);
    HOLDS(calls[0] == 1 && calls[1] == 1);
}

static cudaGraph_t gated(volatile int *calls)
{
    cudaUserObject_t object;
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaHostNodeParams host = { pass_gate, NULL };
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddHostNode(&node, graph, NULL, 0, &host));
    MUST(cudaUserObjectCreate(&object, (void *)calls, count_call, 1, cudaUserObjectNoDestructorSync));
    MUST(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    return graph;
}

/* An update replaces the objects; launches that are under way need the old ones to their end. */
static void check_objects_of_updated(void)
{
    static volatile int calls[2];
    cudaGraph_t first = gated(&calls[0]), second = gated(&calls[1]);
    cudaGraphExec_t executable = instantiate(first);
    MUST(cudaGraphDestroy(first));
    pthread_mutex_lock(&gate);
    MUST(cudaGraphLaunch(executable, 0));
#if CUDART_VERSION >= 12000
    cudaGraphExecUpdateResultInfo why;
    MUST(cudaGraphExecUpdate(executable, second, &why));
#else
    cudaGraphNode_t node;
    cudaGraphExecUpdateResult why;
    MUST(cudaGraphExecUpdate(executable, second, &node, &why));
#endif
    MUST(cudaGraphDestroy(second));
    HOLDS(calls[0] == 0 && calls[1] == 0);
    pthread_mutex_unlock(&gate);
    MUST(cudaStreamSynchronize(0));
    for (int i = 0; i < 5000 && !calls[0]; i++)
        usleep(1000);
    HOLDS(calls[0] == 1 && calls[1] == 0);
    MUST(cudaGraphExecDestroy(executable));
    for (int i = 0; i < 5000 && !calls[1]; i++)
        usleep(1000);
    HOLDS(calls[1] == 1);
}

int main(void)
{
    check_diamond(false);
    check_diamond(true);
    check_repeated();
    check_shapes();
    check_errors();
    check_memory();
    check_objects();
    check_objects_of_running();
    check_objects_of_updated();
    return check_result("graphs");
}
