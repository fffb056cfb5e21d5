// shows: graphs: kernels launch graphs beside their own, behind it and as siblings; a launch ends when all have ended
// shows: graphs: random trees of graphs that launch each other keep CUDA's order
// shows: graphs: what kernels launch is what was uploaded last; launches that CUDA refuses give errors in the kernel
// shows: graphs: no kernel launches a graph whose device was reset before its upload was reached
//
// Arguments: `loop N M`: M launches of a graph that runs N times, since it launches itself; `endless`: one that does
// so without end; `leave`: the program ends beside one. tests/graph/conditions.py runs these. Without arguments: all
// checks.
#include <vector>

#include "check.h"

#if CUDART_VERSION < 12000
int main(void) { return check_result("device_graphs"); } /* the toolkit has no such launches */
#else

enum { CELLS = 1024, LOG = 64 };
static cudaStream_t stream;
static int *cell;                       /* CELLS, managed by copies; the log begins at LOG: its length, then entries */

enum mode { BESIDE, BEHIND, SIBLING, ELSEWHERE };

__device__ static cudaStream_t stream_of(int mode)
{
    return mode == BESIDE    ? cudaStreamGraphFireAndForget
           : mode == BEHIND  ? cudaStreamGraphTailLaunch
           : mode == SIBLING ? cudaStreamGraphFireAndForgetAsSibling
                             : (cudaStream_t)0;
}

__device__ static void log_value(int *cells, int value) { cells[LOG + 1 + atomicAdd(&cells[LOG], 1)] = value; }

__global__ void add(int *to, int value) { atomicAdd(to, value); }
__global__ void note(int *cells, int value) { log_value(cells, value); }

/* Launches them in this order, and keeps what each launch returned. */
struct list { int count; cudaGraphExec_t graphs[12]; int modes[12]; };
__global__ void launch_all(list l, int *results)
{
    for (int i = 0; i < l.count; i++)
        results[i] = (int)cudaGraphLaunch(l.graphs[i], stream_of(l.modes[i]));
}

__global__ void launch_many(const cudaGraphExec_t *graphs, int count, int mode, int *results)
{
    for (int i = 0; i < count; i++)
        results[i] = (int)cudaGraphLaunch(graphs[i], stream_of(mode));
}

/* Counts up, and runs its graph again until it has run so many times. */
__global__ void again(int *count, int most, int *result)
{
    if (++*count % most)
        *result = (int)cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}

__global__ void ask(unsigned long long *to) { *to = (unsigned long long)cudaGetCurrentGraphExec(); }

__device__ static long long now_ns()
{
    long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

/* Waits, not for ever, for another kernel's value. */
__device__ static void wait_for(volatile int *flag, int *seen)
{
    for (long long until = now_ns() + 20000000000; !*flag && now_ns() < until;)
        __nanosleep(10000);
    *seen = *flag;
}
__global__ void await(volatile int *flag, int *seen) { wait_for(flag, seen); }

__global__ void set(volatile int *flag, int value) { *flag = value; }

/* Launches a graph beside its own, and sees it end before it ends itself. */
__global__ void launch_and_await(cudaGraphExec_t graph, volatile int *flag, int *seen, int *result)
{
    *result = (int)cudaGraphLaunch(graph, cudaStreamGraphFireAndForget);
    wait_for(flag, seen);
}

/* ---- making ---- */

static cudaGraph_t graph_new()
{
    cudaGraph_t g;
    MUST(cudaGraphCreate(&g, 0));
    return g;
}

template <typename... A>
static cudaGraphNode_t node(cudaGraph_t g, cudaGraphNode_t before, void (*function)(A...), A... arguments)
{
    cudaGraphNode_t n;
    void *list[] = { &arguments..., NULL };
    cudaKernelNodeParams p = {};
    p.func = (void *)function;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = list;
    MUST(cudaGraphAddKernelNode(&n, g, &before, before != NULL, &p));
    return n;
}

static cudaGraphExec_t for_device(cudaGraph_t g, bool upload = true)
{
    cudaGraphExec_t e;
    MUST(cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagDeviceLaunch));
    if (upload)
        MUST(cudaGraphUpload(e, stream));
    return e;
}

static cudaGraphExec_t for_host(cudaGraph_t g)
{
    cudaGraphExec_t e;
    MUST(cudaGraphInstantiate(&e, g, 0));
    return e;
}

static std::vector<cudaGraphExec_t> executables;
static std::vector<cudaGraph_t> graphs;

template <typename... A> static cudaGraphExec_t one(void (*function)(A...), A... arguments)
{
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, function, arguments...);
    graphs.push_back(g);
    executables.push_back(for_device(g));
    return executables.back();
}

static cudaGraphExec_t noting(int value) { return one(note, cell, value); }

static cudaGraphExec_t launching(const list &l, int *results, bool host = false)
{
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, launch_all, l, results);
    graphs.push_back(g);
    executables.push_back(host ? for_host(g) : for_device(g));
    return executables.back();
}

static void clear()
{
    MUST(cudaStreamSynchronize(stream));
    for (cudaGraphExec_t e : executables)
        MUST(cudaGraphExecDestroy(e));
    for (cudaGraph_t g : graphs)
        MUST(cudaGraphDestroy(g));
    executables.clear();
    graphs.clear();
    MUST(cudaMemsetAsync(cell, 0, CELLS * sizeof *cell, stream));
}

static std::vector<int> cells()
{
    std::vector<int> all(CELLS);
    MUST(cudaMemcpyAsync(all.data(), cell, CELLS * sizeof *cell, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    return all;
}

static void log_is(std::initializer_list<int> expected)
{
    const std::vector<int> now = cells();
    bool same = now[LOG] == (int)expected.size();
    int i = 0;
    for (int value : expected)
        same = same && now[LOG + 1 + i++] == value;
    HOLDS(same);
    for (i = 0; !same && i < now[LOG]; i++)
        fprintf(stderr, "%s%d", i ? " " : "  the log has: ", now[LOG + 1 + i]);
    if (!same)
        fprintf(stderr, "\n");
}

static void run(cudaGraphExec_t e) { MUST(cudaGraphLaunch(e, stream)); }

/* ---- modes ---- */

static void a_launch_ends_with_what_runs_beside_it()
{
    clear();
    cudaGraphExec_t slow = one(launch_and_await, one(add, cell + 2, 5), (volatile int *)(cell + 2), cell + 3, cell + 4);
    list l = { 1, { slow }, { BESIDE } };
    run(launching(l, cell, true));
    const std::vector<int> now = cells(); /* behind it in the stream */
    HOLDS(now[0] == 0 && now[2] == 5 && now[3] == 5 && now[4] == 0);
}

static void graphs_run_beside_the_kernel_that_launched_them()
{
    clear();
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, launch_and_await, one(set, (volatile int *)cell, 7), (volatile int *)cell, cell + 1,
         cell + 2);
    graphs.push_back(g);
    executables.push_back(for_host(g));
    for (int i = 1; i <= 3; i++) {
        run(executables.back());
        const std::vector<int> now = cells();
        HOLDS(now[0] == 7 && now[1] == 7 && now[2] == 0);
        MUST(cudaMemsetAsync(cell, 0, sizeof *cell, stream));
    }
}

static void tails_run_in_order()
{
    clear();
    list inner = { 2, { noting(3), noting(4) }, { BEHIND, BEHIND } };
    cudaGraph_t g = graph_new();
    cudaGraphNode_t first = node(g, (cudaGraphNode_t)NULL, note, cell, 2);
    node(g, first, launch_all, inner, cell + 10);
    graphs.push_back(g);
    cudaGraphExec_t middle = for_device(g);
    executables.push_back(middle);
    list l = { 3, { noting(1), middle, noting(5) }, { BEHIND, BEHIND, BEHIND } };
    cudaGraphExec_t e = launching(l, cell, true);
    run(e);
    log_is({ 1, 2, 3, 4, 5 });
    const std::vector<int> now = cells();
    HOLDS(!now[0] && !now[1] && !now[2] && !now[10] && !now[11]);
    run(e); /* and once more */
    log_is({ 1, 2, 3, 4, 5, 1, 2, 3, 4, 5 });
}

static void a_tail_waits_for_what_runs_beside()
{
    clear();
    cudaGraph_t g = graph_new();
    cudaGraphNode_t before = NULL;
    for (int i = 1; i <= 4; i++)
        before = node(g, before, note, cell, i);
    graphs.push_back(g);
    cudaGraphExec_t slow = for_device(g);
    executables.push_back(slow);
    list l = { 2, { noting(9), slow }, { BEHIND, BESIDE } };
    run(launching(l, cell, true));
    log_is({ 1, 2, 3, 4, 9 });
}

static void no_tail_waits_for_siblings()
{
    clear();
    cudaGraphExec_t sibling = one(await, (volatile int *)cell, cell + 1), tail = one(set, (volatile int *)cell, 1);
    list inner = { 2, { sibling, tail }, { SIBLING, BEHIND } };
    list l = { 1, { launching(inner, cell + 10) }, { BESIDE } };
    run(launching(l, cell + 12, true));
    std::vector<int> now = cells();
    HOLDS(now[0] == 1 && now[1] == 1 && !now[10] && !now[11] && !now[12]);
    clear(); /* the same, from the graph that the host launches */
    sibling = one(await, (volatile int *)cell, cell + 1), tail = one(set, (volatile int *)cell, 1);
    list outer = { 2, { sibling, tail }, { SIBLING, BEHIND } };
    run(launching(outer, cell + 10, true));
    now = cells();
    HOLDS(now[0] == 1 && now[1] == 1 && !now[10] && !now[11]);
}

static cudaGraphExec_t repeating(int most)
{
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, again, cell, most, cell + 1);
    graphs.push_back(g);
    executables.push_back(for_device(g));
    return executables.back();
}

static void a_graph_launches_itself()
{
    clear();
    run(repeating(100)); /* the host's launch is an upload, too */
    std::vector<int> now = cells();
    HOLDS(now[0] == 100 && now[1] == 0);
    clear();
    list l = { 1, { repeating(50) }, { BESIDE } };
    run(launching(l, cell + 2, true));
    now = cells();
    HOLDS(now[0] == 50 && now[1] == 0 && now[2] == 0);
}

/* Trees of graphs, each launched by the one above it, beside it or behind it. The log must have each graph once, all of
   a subtree behind its root, what runs beside a graph before its tails, and these one after the other. */
static void random_trees(unsigned seed)
{
    enum { GRAPHS = 12 };
    list lists[GRAPHS] = {};
    int above[GRAPHS] = {}, modes[GRAPHS] = {}, place[GRAPHS], first[GRAPHS], last[GRAPHS];
    clear();
    srand(seed);
    for (int i = 1; i < GRAPHS; i++) {
        above[i] = rand() % i;
        modes[i] = rand() % 3 ? BEHIND : BESIDE;
    }
    for (int i = GRAPHS - 1; i >= 0; i--) { /* those below it have been made */
        cudaGraph_t g = graph_new();
        cudaGraphNode_t noted = node(g, (cudaGraphNode_t)NULL, note, cell, i);
        node(g, noted, launch_all, lists[i], cell + 256 + 16 * i);
        graphs.push_back(g);
        executables.push_back(i ? for_device(g) : for_host(g));
        list &l = lists[above[i]];
        if (i) {
            l.modes[l.count] = modes[i];
            l.graphs[l.count++] = executables.back();
        }
    }
    run(executables.back());
    const std::vector<int> now = cells();
    HOLDS(now[LOG] == GRAPHS);
    for (int i = 0; i < GRAPHS; i++) {
        place[i] = -1;
        for (int k = 0; k < now[LOG]; k++)
            place[i] = now[LOG + 1 + k] == i ? k : place[i];
        HOLDS(place[i] >= 0);
        first[i] = last[i] = place[i];
        for (int k = 0; k < lists[i].count; k++)
            HOLDS(now[256 + 16 * i + k] == 0);
    }
    for (int i = GRAPHS - 1; i > 0; i--) {
        HOLDS(place[i] > place[above[i]]);
        first[above[i]] = first[i] < first[above[i]] ? first[i] : first[above[i]];
        last[above[i]] = last[i] > last[above[i]] ? last[i] : last[above[i]];
    }
    for (int a = 1; a < GRAPHS; a++) /* the later ones were launched first */
        for (int b = 1; b < GRAPHS; b++)
            if (above[a] == above[b] && modes[b] == BEHIND && (modes[a] == BESIDE || a > b))
                HOLDS(last[a] < first[b]);
}

/* ---- what is launched ---- */

static void all_kinds_of_nodes()
{
    clear();
    int *pinned;
    void *reached;
    MUST(cudaMallocHost(&pinned, sizeof *pinned));
    *pinned = 40;
    const bool mapped = cudaHostGetDevicePointer(&reached, pinned, 0) == cudaSuccess;
    cudaGetLastError();
    cudaGraph_t child = graph_new(), g = graph_new();
    node(child, (cudaGraphNode_t)NULL, add, cell + 2, 2);
    cudaGraphNode_t set_node, in, copy, inner;
    cudaMemsetParams m = {};
    m.dst = cell, m.value = 1, m.elementSize = 4, m.width = 4, m.height = 1;
    MUST(cudaGraphAddMemsetNode(&set_node, g, NULL, 0, &m));
    MUST(cudaGraphAddMemcpyNode1D(&in, g, &set_node, 1, cell + 1, pinned, sizeof *cell, cudaMemcpyHostToDevice));
    MUST(cudaGraphAddMemcpyNode1D(&copy, g, &in, 1, cell + 2, cell + 1, sizeof *cell, cudaMemcpyDeviceToDevice));
    MUST(cudaGraphAddChildGraphNode(&inner, g, &copy, 1, child));
    graphs.push_back(g);
    graphs.push_back(child);
    if (!mapped) { /* the device must reach it */
        cudaGraphExec_t e;
        GIVES(cudaErrorNotSupported, cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagDeviceLaunch));
        MUST(cudaFreeHost(pinned));
        return;
    }
    executables.push_back(for_device(g));
    list l = { 1, { executables.back() }, { BESIDE } };
    run(launching(l, cell + 8, true));
    const std::vector<int> now = cells();
    HOLDS(now[0] == 1 && now[1] == 40 && now[2] == 42 && now[3] == 1 && now[8] == 0);
    MUST(cudaFreeHost(pinned));
}

static void updates_need_an_upload()
{
    clear();
    cudaGraph_t g = graph_new();
    cudaGraphNode_t n = node(g, (cudaGraphNode_t)NULL, note, cell, 1);
    graphs.push_back(g);
    cudaGraphExec_t e = for_device(g);
    executables.push_back(e);
    list l = { 1, { e }, { BESIDE } };
    cudaGraphExec_t from = launching(l, cell, true);
    run(from);
    MUST(cudaStreamSynchronize(stream));
    int value = 2;
    void *arguments[] = { &cell, &value };
    cudaKernelNodeParams p = {};
    p.func = (void *)note;
    p.gridDim = p.blockDim = dim3(1);
    p.kernelParams = arguments;
    MUST(cudaGraphExecKernelNodeSetParams(e, n, &p));
    run(from); /* as it was uploaded */
    MUST(cudaGraphUpload(e, stream));
    run(from); /* as it is now */
    MUST(cudaStreamSynchronize(stream));
    value = 3;
    MUST(cudaGraphKernelNodeSetParams(n, &p));
    cudaGraphExecUpdateResultInfo info;
    MUST(cudaGraphExecUpdate(e, g, &info));
    run(e); /* a launch is an upload */
    run(from);
    log_is({ 1, 1, 2, 3, 3 });
}

static void graphs_are_uploaded_when_they_are_made()
{
    clear();
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, note, cell, 6);
    graphs.push_back(g);
    cudaGraphExec_t e;
    cudaGraphInstantiateParams how = {};
    how.flags = cudaGraphInstantiateFlagDeviceLaunch | cudaGraphInstantiateFlagUpload;
    how.uploadStream = stream;
    MUST(cudaGraphInstantiateWithParams(&e, g, &how));
    HOLDS(how.result_out == cudaGraphInstantiateSuccess);
    executables.push_back(e);
    unsigned long long flags;
    MUST(cudaGraphExecGetFlags(e, &flags));
    HOLDS(flags == cudaGraphInstantiateFlagDeviceLaunch);
    list l = { 1, { e }, { BEHIND } };
    run(launching(l, cell, true));
    log_is({ 6 });
}

static void a_captured_graph()
{
    clear();
    cudaGraph_t g;
    cudaGraphExec_t e = noting(1), beside = noting(2);
    list l = { 2, { e, beside }, { BEHIND, BESIDE } };
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    note<<<1, 1, 0, stream>>>(cell, 0);
    launch_all<<<1, 1, 0, stream>>>(l, cell);
    MUST(cudaStreamEndCapture(stream, &g));
    graphs.push_back(g);
    executables.push_back(for_host(g));
    run(executables.back());
    log_is({ 0, 2, 1 });
}

static void which_graph_it_is()
{
    clear();
    unsigned long long *to = (unsigned long long *)cell, now[3];
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, ask, to + 1);
    graphs.push_back(g);
    executables.push_back(for_host(g));
    run(executables.back());
    cudaGraphExec_t device = one(ask, to + 2);
    list l = { 1, { device }, { BESIDE } };
    run(launching(l, cell + 10, true));
    MUST(cudaMemsetAsync(to, 0xff, sizeof *to, stream));
    ask<<<1, 1, 0, stream>>>(to);
    MUST(cudaMemcpyAsync(now, to, sizeof now, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
    HOLDS(now[0] == 0 && now[1] == 0 && now[2] == (unsigned long long)device);
}

/* ---- errors ---- */

static void wrong_launches()
{
    clear();
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, note, cell, 1);
    graphs.push_back(g);
    cudaGraphExec_t fresh = for_device(g, false), host = for_host(g), good = noting(7), gone = for_device(g);
    executables.push_back(fresh);
    executables.push_back(host);
    MUST(cudaGraphExecDestroy(gone));
    list l = { 9,
               { fresh, host, (cudaGraphExec_t)0x1234567, NULL, gone, good, good, good, (cudaGraphExec_t)~0ull },
               { BESIDE, BESIDE, BESIDE, BEHIND, BESIDE, ELSEWHERE, BEHIND, BEHIND, SIBLING } };
    run(launching(l, cell, true));
    std::vector<int> now = cells();
    for (int i : { 0, 1, 2, 3, 4, 5, 7, 8 })
        HOLDS(now[i] == cudaErrorInvalidValue);
    HOLDS(now[6] == cudaSuccess);
    log_is({ 7 });
    list again = { 1, { good }, { BESIDE } };
    MUST(cudaMemsetAsync(cell, 0xff, sizeof *cell, stream));
    launch_all<<<1, 1, 0, stream>>>(again, cell); /* a kernel outside graphs */
    now = cells();
    HOLDS(now[0] == cudaErrorInvalidValue);
    log_is({ 7 });
}

static void a_running_graph_cannot_be_launched()
{
    clear();
    cudaGraphExec_t busy = one(await, (volatile int *)cell, cell + 1), end = one(set, (volatile int *)cell, 1);
    list l = { 4, { busy, busy, busy, end }, { BESIDE, BESIDE, SIBLING, BESIDE } };
    run(launching(l, cell + 10, true));
    const std::vector<int> now = cells();
    HOLDS(now[1] == 1 && now[10] == 0 && now[11] == cudaErrorInvalidValue && now[12] == cudaErrorInvalidValue &&
          now[13] == 0);
}

/* The graph's own device is reset while its upload waits in a stream of another device. */
static void a_device_is_reset_before_the_upload()
{
    int devices, *there;
    MUST(cudaGetDeviceCount(&devices));
    if (devices < 2)
        return;
    clear();
    MUST(cudaSetDevice(1));
    MUST(cudaMalloc(&there, sizeof *there));
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, add, there, 1);
    cudaGraphExec_t e = for_device(g, false);
    MUST(cudaSetDevice(0));
    list l = { 1, { e }, { BESIDE } };
    cudaGraphExec_t from = launching(l, cell + 10, true);
    cudaStream_t other;
    MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    await<<<1, 1, 0, stream>>>(cell, cell + 1);
    MUST(cudaGraphUpload(e, stream));
    run(from);
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceReset());
    MUST(cudaSetDevice(0));
    set<<<1, 1, 0, other>>>(cell, 1);
    const std::vector<int> now = cells();
    HOLDS(now[1] == 1 && now[10] == cudaErrorInvalidValue);
    MUST(cudaStreamDestroy(other));
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

static void limits(int mode, int most)
{
    clear();
    std::vector<cudaGraphExec_t> many;
    for (int i = 0; i <= most; i++)
        many.push_back(one(add, cell + 1, 1));
    cudaGraphExec_t *list;
    MUST(cudaMalloc(&list, many.size() * sizeof *list));
    MUST(cudaMemcpyAsync(list, many.data(), many.size() * sizeof *list, cudaMemcpyHostToDevice, stream));
    cudaGraph_t g = graph_new();
    node(g, (cudaGraphNode_t)NULL, launch_many, (const cudaGraphExec_t *)list, most + 1, mode, cell + LOG);
    graphs.push_back(g);
    executables.push_back(for_host(g));
    for (int i = 1; i <= 2; i++) {
        run(executables.back());
        const std::vector<int> now = cells();
        int good = 0;
        for (int k = 0; k <= most; k++)
            good += now[LOG + k] == 0;
        HOLDS(good == most && now[LOG + most] != 0 && now[1] == i * most);
    }
    MUST(cudaFree(list));
}

static void instantiation()
{
    clear();
    cudaGraphExec_t e;
    cudaGraphInstantiateParams how = {};
    how.flags = cudaGraphInstantiateFlagDeviceLaunch;
    cudaGraph_t g = graph_new();
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&e, g, &how)); /* it is empty */
    HOLDS(how.result_out == cudaGraphInstantiateError && !how.errNode_out);
    cudaGraphNode_t good = node(g, (cudaGraphNode_t)NULL, note, cell, 1), bad;
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagDeviceLaunch |
                                                                 cudaGraphInstantiateFlagAutoFreeOnLaunch));
    MUST(cudaGraphAddEmptyNode(&bad, g, &good, 1));
    GIVES(cudaErrorNotSupported, cudaGraphInstantiateWithParams(&e, g, &how));
    HOLDS(how.result_out == cudaGraphInstantiateNodeOperationNotSupported && how.errNode_out == bad);
    MUST(cudaGraphDestroyNode(bad));
    int here = 0;
    MUST(cudaGraphAddMemcpyNode1D(&bad, g, &good, 1, cell, &here, sizeof here, cudaMemcpyHostToDevice));
    GIVES(cudaErrorNotSupported, cudaGraphInstantiateWithParams(&e, g, &how)); /* pageable memory */
    HOLDS(how.result_out == cudaGraphInstantiateNodeOperationNotSupported && how.errNode_out == bad);
    MUST(cudaGraphDestroyNode(bad));
    MUST(cudaGraphInstantiateWithParams(&e, g, &how));
    HOLDS(how.result_out == cudaGraphInstantiateSuccess && !how.errNode_out);
    MUST(cudaGraphExecDestroy(e));
    graphs.push_back(g);
}

/* No kernel of the graph launched others when it was made, so none can get there. */
static void a_launching_kernel_is_no_update()
{
    clear();
    cudaGraph_t a = graph_new(), b = graph_new();
    list l = {};
    node(a, (cudaGraphNode_t)NULL, note, cell, 1);
    node(b, (cudaGraphNode_t)NULL, launch_all, l, cell);
    cudaGraphExec_t host = for_host(a), device = for_device(a);
    cudaGraphExecUpdateResultInfo info;
    GIVES(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(host, b, &info));
    HOLDS(info.result == cudaGraphExecUpdateErrorUnsupportedFunctionChange);
    MUST(cudaGraphExecUpdate(device, b, &info));
    graphs.push_back(a);
    graphs.push_back(b);
    executables.push_back(host);
    executables.push_back(device);
}

/* ---- for tests/graph/conditions.py ---- */

static int loop(int turns, int launches)
{
    clear();
    cudaGraphExec_t e = repeating(turns);
    for (int i = 0; i < launches; i++)
        run(e);
    HOLDS(cells()[0] == turns * launches);
    clear();
    return check_result("device_graphs");
}

static int endless(bool leave)
{
    clear();
    run(repeating(0x7fffffff));
    printf("running\n");
    fflush(stdout);
    if (leave) {
        printf("leaving\n");
        return 0;
    }
    cudaDeviceSynchronize();
    return 1;
}

int main(int argc, char **argv)
{
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMalloc(&cell, CELLS * sizeof *cell));
    if (argc > 3 && !strcmp(argv[1], "loop"))
        return loop(atoi(argv[2]), atoi(argv[3]));
    if (argc > 1)
        return endless(!strcmp(argv[1], "leave"));
    a_launch_ends_with_what_runs_beside_it();
    graphs_run_beside_the_kernel_that_launched_them();
    tails_run_in_order();
    a_tail_waits_for_what_runs_beside();
    no_tail_waits_for_siblings();
    a_graph_launches_itself();
    for (unsigned seed = 1; seed <= 20; seed++)
        random_trees(seed);
    all_kinds_of_nodes();
    updates_need_an_upload();
    graphs_are_uploaded_when_they_are_made();
    a_captured_graph();
    which_graph_it_is();
    wrong_launches();
    a_running_graph_cannot_be_launched();
    a_device_is_reset_before_the_upload();
    limits(BESIDE, 120);
    limits(BEHIND, 255);
    instantiation();
    a_launching_kernel_is_no_update();
    clear();
    MUST(cudaFree(cell));
    MUST(cudaStreamDestroy(stream));
    return check_result("device_graphs");
}
#endif
