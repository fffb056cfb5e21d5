// shows: graphs: conditional nodes (IF, ELSE, WHILE, SWITCH, nested ones) run what kernels and default values choose
// shows: graphs: bodies are made by hand or captured, and change with the executable; what they may not have is refused
//
// Arguments: `loop N M`: M launches of a WHILE of N turns; `endless`: a WHILE without end; `leave`: the program ends
// beside one. tests/graph/conditions.py runs these. Without arguments: all checks.
#include <unistd.h>

#include "check.h"

#if CUDART_VERSION < 12080
int main(void) { return check_result("conditions"); } /* the toolkit has no such nodes, or not all of them */
#else

__global__ void choose(cudaGraphConditionalHandle handle, const unsigned *value)
{
    cudaGraphSetConditional(handle, *value);
}

/* Counts down, and says whether there is more. */
__global__ void count_down(cudaGraphConditionalHandle handle, int *left)
{
    cudaGraphSetConditional(handle, --*left > 0);
}

__global__ void restart(cudaGraphConditionalHandle handle, int *left, int value)
{
    *left = value;
    cudaGraphSetConditional(handle, value > 0);
}

__global__ void add(int *to, int value) { atomicAdd(to, value); }

static cudaStream_t stream;
static int *cell; /* 16 of them */

static int value_of(const int *p)
{
    int value;
    MUST(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    return value;
}

static void set_value(int *p, int value)
{
    MUST(cudaMemcpyAsync(p, &value, sizeof value, cudaMemcpyHostToDevice, stream));
    MUST(cudaStreamSynchronize(stream));
}

static void clear(void)
{
    MUST(cudaMemsetAsync(cell, 0, 16 * sizeof *cell, stream));
    MUST(cudaStreamSynchronize(stream));
}

static cudaGraphNode_t kernel(cudaGraph_t graph, const cudaGraphNode_t *before, void *function, void **arguments)
{
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    p.func = function;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, graph, before, before != NULL, &p));
    return node;
}

static cudaGraphNode_t add_node(cudaGraph_t graph, const cudaGraphNode_t *before, int *to, int value)
{
    void *arguments[] = { &to, &value };
    return kernel(graph, before, (void *)add, arguments);
}

static cudaError_t add_any(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, size_t count,
                           cudaGraphNodeParams *p)
{
#if CUDART_VERSION >= 13000
    return cudaGraphAddNode(node, graph, before, NULL, count, p);
#else
    return cudaGraphAddNode(node, graph, before, count, p);
#endif
}

static cudaError_t try_condition(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                 cudaGraphConditionalHandle handle, cudaGraphConditionalNodeType type, unsigned size,
                                 cudaGraph_t *bodies)
{
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = handle;
    p.conditional.type = type;
    p.conditional.size = size;
    cudaError_t error = add_any(node, graph, before, before != NULL, &p);
    for (unsigned i = 0; i < size && !error; i++)
        bodies[i] = p.conditional.phGraph_out[i];
    return error;
}

static cudaGraphNode_t condition(cudaGraph_t graph, const cudaGraphNode_t *before, cudaGraphConditionalHandle handle,
                                 cudaGraphConditionalNodeType type, unsigned size, cudaGraph_t *bodies)
{
    cudaGraphNode_t node;
    MUST(try_condition(&node, graph, before, handle, type, size, bodies));
    return node;
}

static cudaGraphConditionalHandle handle_of(cudaGraph_t graph)
{
    cudaGraphConditionalHandle handle;
    MUST(cudaGraphConditionalHandleCreate(&handle, graph, 0, 0));
    return handle;
}

static cudaGraphConditionalHandle default_handle(cudaGraph_t graph, unsigned value)
{
    cudaGraphConditionalHandle handle;
    MUST(cudaGraphConditionalHandleCreate(&handle, graph, value, cudaGraphCondAssignDefault));
    return handle;
}

static void launch(cudaGraphExec_t e)
{
    MUST(cudaGraphLaunch(e, stream));
    MUST(cudaStreamSynchronize(stream));
}

static cudaGraphExec_t made(cudaGraph_t graph)
{
    cudaGraphExec_t e;
    MUST(cudaGraphInstantiateWithFlags(&e, graph, 0));
    return e;
}

static void end(cudaGraph_t graph, cudaGraphExec_t e)
{
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(graph));
}

/* A kernel reads cell[15] and chooses a body. Body i adds i + 1 to cell[i]; a node behind adds to cell[14]. */
static void chosen_bodies(cudaGraphConditionalNodeType type, unsigned size)
{
    cudaGraph_t graph, bodies[8];
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handle = handle_of(graph);
    int *word = cell + 15;
    void *arguments[] = { &handle, &word };
    const cudaGraphNode_t first = kernel(graph, NULL, (void *)choose, arguments);
    const cudaGraphNode_t node = condition(graph, &first, handle, type, size, bodies);
    for (unsigned i = 0; i < size; i++)
        add_node(bodies[i], NULL, cell + i, (int)i + 1);
    add_node(graph, &node, cell + 14, 1);
    cudaGraphNodeType found;
    MUST(cudaGraphNodeGetType(node, &found));
    HOLDS(found == cudaGraphNodeTypeConditional);
    cudaGraphExec_t e = made(graph);
    for (unsigned value = 0; value < size + 2; value++) {
        clear();
        set_value(word, (int)value);
        launch(e);
        unsigned expected = type == cudaGraphCondTypeSwitch ? value : value == 0;
        for (unsigned i = 0; i < size; i++)
            HOLDS(value_of(cell + i) == (i == expected ? (int)i + 1 : 0));
        HOLDS(value_of(cell + 14) == 1);
    }
    end(graph, e);
}

static cudaGraphExec_t loop(cudaGraph_t *graph, int turns, cudaGraphNode_t *added)
{
    cudaGraph_t body;
    MUST(cudaGraphCreate(graph, 0));
    cudaGraphConditionalHandle handle = handle_of(*graph);
    int *left = cell;
    void *begin[] = { &handle, &left, &turns }, *count[] = { &handle, &left };
    const cudaGraphNode_t first = kernel(*graph, NULL, (void *)restart, begin);
    const cudaGraphNode_t node = condition(*graph, &first, handle, cudaGraphCondTypeWhile, 1, &body);
    *added = add_node(body, NULL, cell + 1, 1);
    kernel(body, added, (void *)count_down, count);
    add_node(*graph, &node, cell + 2, 1);
    return made(*graph);
}

static void loops_run_on_the_device(void)
{
    cudaGraph_t graph;
    cudaGraphNode_t added;
    clear();
    cudaGraphExec_t e = loop(&graph, 50, &added);
    launch(e);
    HOLDS(value_of(cell) == 0 && value_of(cell + 1) == 50 && value_of(cell + 2) == 1);
    for (int i = 0; i < 3; i++)
        MUST(cudaGraphLaunch(e, stream)); /* one behind the other */
    HOLDS(value_of(cell + 1) == 200 && value_of(cell + 2) == 4);
    /* A node of the body in the executable. */
    int *to = cell + 1, two = 2;
    void *arguments[] = { &to, &two };
    cudaKernelNodeParams p = {};
    p.func = (void *)add;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    MUST(cudaGraphExecKernelNodeSetParams(e, added, &p));
    clear();
    launch(e);
    HOLDS(value_of(cell + 1) == 100);
    /* The same by an update. */
    int three = 3;
    arguments[1] = &three;
    MUST(cudaGraphKernelNodeSetParams(added, &p));
    cudaGraphExecUpdateResultInfo info;
    MUST(cudaGraphExecUpdate(e, graph, &info));
    HOLDS(info.result == cudaGraphExecUpdateSuccess);
    clear();
    launch(e);
    HOLDS(value_of(cell + 1) == 150);
    end(graph, e);
}

static void defaults_are_assigned(void)
{
    cudaGraph_t graph, body, inner;
    MUST(cudaGraphCreate(&graph, 0));
    const cudaGraphNode_t first = condition(graph, NULL, default_handle(graph, 1), cudaGraphCondTypeIf, 1, &body);
    add_node(body, NULL, cell, 1);
    condition(graph, &first, default_handle(graph, 0), cudaGraphCondTypeIf, 1, &inner);
    add_node(inner, NULL, cell + 1, 1);
    cudaGraphExec_t e = made(graph);
    clear();
    launch(e);
    launch(e);
    HOLDS(value_of(cell) == 2 && value_of(cell + 1) == 0);
    end(graph, e);
}

/* Three times: set the inner count to 4, count it down; an IF with a default in each turn. */
static void conditions_nest(void)
{
    cudaGraph_t graph, outer, inner, extra;
    MUST(cudaGraphCreate(&graph, 0));
    cudaGraphConditionalHandle handles[2] = { default_handle(graph, 1), handle_of(graph) };
    int *left = cell, *inner_left = cell + 1, turns = 3, inner_turns = 4;
    condition(graph, NULL, handles[0], cudaGraphCondTypeWhile, 1, &outer);
    void *begin[] = { &handles[1], &inner_left, &inner_turns }, *count_inner[] = { &handles[1], &inner_left };
    const cudaGraphNode_t first = kernel(outer, NULL, (void *)restart, begin);
    const cudaGraphNode_t second = condition(outer, &first, handles[1], cudaGraphCondTypeWhile, 1, &inner);
    const cudaGraphNode_t in = add_node(inner, NULL, cell + 2, 1);
    kernel(inner, &in, (void *)count_down, count_inner);
    const cudaGraphNode_t third = condition(outer, &second, default_handle(outer, 1), cudaGraphCondTypeIf, 1, &extra);
    add_node(extra, NULL, cell + 3, 10);
    void *count[] = { &handles[0], &left };
    kernel(outer, &third, (void *)count_down, count);
    cudaGraphExec_t e = made(graph);
    clear();
    set_value(left, turns);
    launch(e);
    HOLDS(value_of(cell + 2) == 12 && value_of(cell + 3) == 30);
    end(graph, e);
}

/* The stream is captured up to the condition, and then its body. */
static void bodies_are_captured(void)
{
    cudaGraph_t graph, body, same;
    cudaStream_t other;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    clear();
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaStreamCaptureStatus status;
    const cudaGraphNode_t *before;
    size_t count;
#if CUDART_VERSION >= 13000
    MUST(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, NULL, &count));
#else
    MUST(cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &before, &count));
#endif
    cudaGraphConditionalHandle handle = handle_of(graph);
    restart<<<1, 1, 0, stream>>>(handle, cell, 5);
#if CUDART_VERSION >= 13000
    MUST(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, &before, NULL, &count));
#else
    MUST(cudaStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, &before, &count));
#endif
    HOLDS(status == cudaStreamCaptureStatusActive && count == 1);
    cudaGraphNode_t node = condition(graph, before, handle, cudaGraphCondTypeWhile, 1, &body);
#if CUDART_VERSION >= 13000
    MUST(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamSetCaptureDependencies));
#else
    MUST(cudaStreamUpdateCaptureDependencies(stream, &node, 1, cudaStreamSetCaptureDependencies));
#endif
    MUST(cudaStreamBeginCaptureToGraph(other, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal));
    add<<<1, 1, 0, other>>>(cell + 1, 7);
    MUST(cudaMemsetAsync(cell + 3, 1, sizeof *cell, other));
    count_down<<<1, 1, 0, other>>>(handle, cell);
    MUST(cudaStreamEndCapture(other, &same));
    HOLDS(same == body);
    add<<<1, 1, 0, stream>>>(cell + 2, 1);
    MUST(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t e = made(graph);
    launch(e);
    HOLDS(value_of(cell + 1) == 35 && value_of(cell + 2) == 1 && value_of(cell + 3) == 0x01010101);
    end(graph, e);
    /* What a body may not have. */
    MUST(cudaGraphCreate(&graph, 0));
    condition(graph, NULL, handle_of(graph), cudaGraphCondTypeIf, 1, &body);
    MUST(cudaStreamBeginCaptureToGraph(other, body, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal));
    MUST(cudaLaunchHostFunc(other, [](void *) {}, NULL)); // refused when the graph is instantiated
    cudaStreamEndCapture(other, &same);
    cudaGetLastError();
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(other));
}

/* Copies and a child in a body; its nodes are given in another order than they follow each other. Where the GPU does
   not reach pinned memory, over a network, a launch with such a copy is refused. */
static void bodies_have_other_nodes(void)
{
    cudaGraph_t graph, body, child;
    cudaGraphNode_t nodes[4];
    int *pinned, *reached;
    MUST(cudaMallocHost((void **)&pinned, 64 * sizeof *pinned));
    pinned[0] = 11;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphCreate(&child, 0));
    add_node(child, NULL, cell + 1, 100);
    condition(graph, NULL, default_handle(graph, 1), cudaGraphCondTypeIf, 1, &body);
    MUST(cudaGraphAddMemcpyNode1D(&nodes[3], body, NULL, 0, pinned + 1, cell + 1, sizeof *cell, cudaMemcpyDefault));
    MUST(cudaGraphAddChildGraphNode(&nodes[2], body, NULL, 0, child));
    MUST(cudaGraphAddMemcpyNode1D(&nodes[0], body, NULL, 0, cell, pinned, sizeof *cell, cudaMemcpyHostToDevice));
    MUST(cudaGraphAddMemcpyNode1D(&nodes[1], body, &nodes[0], 1, cell + 1, cell, sizeof *cell,
                                  cudaMemcpyDeviceToDevice));
#if CUDART_VERSION >= 13000
    MUST(cudaGraphAddDependencies(body, &nodes[1], &nodes[2], NULL, 1));
    MUST(cudaGraphAddDependencies(body, &nodes[2], &nodes[3], NULL, 1));
#else
    MUST(cudaGraphAddDependencies(body, &nodes[1], &nodes[2], 1));
    MUST(cudaGraphAddDependencies(body, &nodes[2], &nodes[3], 1));
#endif
    cudaGraphExec_t e = made(graph);
    bool reaches = cudaHostGetDevicePointer((void **)&reached, pinned, 0) == cudaSuccess;
    if (!reaches)
        GIVES(cudaErrorNotSupported, cudaGraphLaunch(e, stream));
    for (int i = 11; i < 14 && reaches; i++) {
        pinned[0] = i; /* read when the copy's turn comes */
        pinned[1] = 0;
        launch(e);
        HOLDS(pinned[1] == 100 + i);
    }
    end(graph, e);
    MUST(cudaGraphDestroy(child));
    cudaGetLastError();
    MUST(cudaFreeHost(pinned));
}

/* Others wait for a stream that waits for a condition, where CUDA says so. */
static void order_holds(void)
{
    cudaGraph_t graph;
    cudaGraphNode_t added;
    cudaStream_t blocking, free_one;
    cudaEvent_t event;
    MUST(cudaStreamCreate(&blocking));
    MUST(cudaStreamCreateWithFlags(&free_one, cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cudaGraphExec_t e = loop(&graph, 20, &added);
    const cudaStream_t streams[] = { stream, 0, blocking };
    for (unsigned i = 0; i < 3; i++) {
        clear();
        MUST(cudaGraphLaunch(e, streams[i]));
        MUST(cudaEventRecord(event, streams[i]));
        MUST(cudaStreamWaitEvent(free_one, event, 0));
        MUST(cudaMemcpyAsync(cell + 8, cell + 1, sizeof *cell, cudaMemcpyDeviceToDevice, free_one));
        MUST(cudaGraphLaunch(e, free_one));
        MUST(cudaDeviceSynchronize());
        HOLDS(value_of(cell + 8) == 20 && value_of(cell + 1) == 40);
    }
    MUST(cudaGraphLaunch(e, 0));
    MUST(cudaGraphExecDestroy(e)); /* what was launched goes on */
    MUST(cudaGraphDestroy(graph));
    MUST(cudaMemcpyAsync(cell + 8, cell + 1, sizeof *cell, cudaMemcpyDeviceToDevice, blocking));
    MUST(cudaStreamSynchronize(blocking));
    HOLDS(value_of(cell + 8) == 60);
    MUST(cudaEventDestroy(event));
    MUST(cudaStreamDestroy(blocking));
    MUST(cudaStreamDestroy(free_one));
}

static void ignore(void *) {}

static void codes_are_cudas(void)
{
    cudaGraph_t graph, other, body, bodies[4], clone;
    cudaGraphNode_t node, child;
    cudaGraphConditionalHandle handle;
    cudaGraphExec_t e, second;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphCreate(&other, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(NULL, graph, 0, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, graph, 0, 2));
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, NULL, 0, 0));
    handle = handle_of(graph);
    GIVES(cudaErrorInvalidValue, try_condition(&node, graph, NULL, handle, cudaGraphCondTypeIf, 0, bodies));
    GIVES(cudaErrorInvalidValue, try_condition(&node, graph, NULL, handle, cudaGraphCondTypeIf, 3, bodies));
    GIVES(cudaErrorInvalidValue, try_condition(&node, graph, NULL, handle, cudaGraphCondTypeWhile, 2, bodies));
    GIVES(cudaErrorInvalidValue, try_condition(&node, graph, NULL, handle, cudaGraphCondTypeSwitch, 0, bodies));
    GIVES(cudaErrorInvalidValue, try_condition(&node, graph, NULL, 0, cudaGraphCondTypeIf, 1, bodies));
    GIVES(cudaErrorInvalidValue, try_condition(&node, other, NULL, handle, cudaGraphCondTypeIf, 1, bodies));
    cudaGraphInstantiateParams p = {};
    HOLDS(cudaGraphInstantiateWithParams(&e, graph, &p) != cudaSuccess);
    HOLDS(p.result_out == cudaGraphInstantiateConditionalHandleUnused);
    node = condition(graph, NULL, handle, cudaGraphCondTypeIf, 1, &body);
    GIVES(cudaErrorInvalidValue, try_condition(&child, graph, NULL, handle, cudaGraphCondTypeIf, 1, bodies));
    HOLDS(cudaGraphClone(&clone, graph) != cudaSuccess);
    HOLDS(cudaGraphAddChildGraphNode(&child, other, NULL, 0, graph) != cudaSuccess);
    cudaHostNodeParams host = { ignore, NULL };
    MUST(cudaGraphAddHostNode(&child, body, NULL, 0, &host));
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithFlags(&e, graph, 0));
    MUST(cudaGraphDestroyNode(child));
    HOLDS(cudaGraphDestroy(body) != cudaSuccess);
    e = made(graph);
    HOLDS(cudaGraphInstantiateWithFlags(&second, graph, 0) != cudaSuccess);
    MUST(cudaGraphExecDestroy(e));
    e = made(graph);
    size_t count = 0;
    MUST(cudaGraphGetNodes(graph, NULL, &count));
    HOLDS(count == 1);
    MUST(cudaGraphGetNodes(body, NULL, &count));
    HOLDS(count == 0);
    end(graph, e);
    MUST(cudaGraphDestroy(other));
    cudaGetLastError();
}

static int run_loop(int turns, int launches)
{
    cudaGraph_t graph;
    cudaGraphNode_t added;
    clear();
    cudaGraphExec_t e = loop(&graph, turns, &added);
    for (int i = 0; i < launches; i++)
        MUST(cudaGraphLaunch(e, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(value_of(cell + 1) == turns * launches);
    return check_result("conditions");
}

static void run_for_ever(bool waits)
{
    cudaGraph_t graph, body;
    MUST(cudaGraphCreate(&graph, 0));
    condition(graph, NULL, default_handle(graph, 1), cudaGraphCondTypeWhile, 1, &body);
    add_node(body, NULL, cell, 1);
    cudaGraphExec_t e = made(graph);
    MUST(cudaGraphLaunch(e, stream));
    printf("running\n");
    fflush(stdout);
    if (waits)
        cudaDeviceSynchronize();
    printf(waits ? "the loop has ended\n" : "leaving\n");
}

int main(int argc, char **argv)
{
    MUST(cudaMalloc((void **)&cell, 16 * sizeof *cell));
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (argc > 3 && strcmp(argv[1], "loop") == 0)
        return run_loop(atoi(argv[2]), atoi(argv[3]));
    if (argc > 1) {
        bool waits = strcmp(argv[1], "leave") != 0;
        run_for_ever(waits);
        return waits;
    }
    chosen_bodies(cudaGraphCondTypeIf, 1);
    chosen_bodies(cudaGraphCondTypeIf, 2);
    chosen_bodies(cudaGraphCondTypeSwitch, 5);
    loops_run_on_the_device();
    defaults_are_assigned();
    conditions_nest();
    bodies_are_captured();
    bodies_have_other_nodes();
    order_holds();
    codes_are_cudas();
    MUST(cudaStreamDestroy(stream));
    MUST(cudaFree(cell));
    return check_result("conditions");
}
#endif
