// shows: capture: work captured from one stream, and from streams joined by events, gives what it gives on streams
// shows: capture: what a capture forbids gives CUDA's error codes, by thread and mode, and invalidates the capture
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define N 1024

__global__ void add(int *a, int value) { a[blockIdx.x * blockDim.x + threadIdx.x] += value; }
__global__ void join(int *out, const int *a, const int *b)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i] * 100 + b[i];
}

static int *on_device(void)
{
    int *p;
    MUST(cudaMalloc((void **)&p, N * sizeof *p));
    MUST(cudaMemset(p, 0, N * sizeof *p));
    MUST(cudaDeviceSynchronize());            /* other streams do not wait for it */
    return p;
}

static cudaStream_t stream_of(unsigned flags)
{
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, flags));
    return stream;
}

static void count_call(void *user) { ++*(int *)user; }
static void called(cudaStream_t stream, cudaError_t status, void *user) { (void)stream, (void)status, (void)user; }

static cudaStreamCaptureStatus status_of(cudaStream_t stream)
{
    cudaStreamCaptureStatus status;
    MUST(cudaStreamIsCapturing(stream, &status));
    return status;
}

static size_t nodes_in(cudaGraph_t graph)
{
    size_t count = 0;
    MUST(cudaGraphGetNodes(graph, NULL, &count));
    return count;
}

static void check_one_stream(void)
{
    int *a = on_device(), host[N], source[N], calls = 0;
    cudaStream_t stream = stream_of(cudaStreamDefault);
    for (int i = 0; i < N; i++)
        source[i] = i;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    HOLDS(status_of(stream) == cudaStreamCaptureStatusActive);
    MUST(cudaMemcpyAsync(a, source, sizeof source, cudaMemcpyHostToDevice, stream));
    add<<<N / 128, 128, 0, stream>>>(a, 3);
    MUST(cudaGetLastError());
    MUST(cudaMemcpyAsync(host, a, sizeof host, cudaMemcpyDeviceToHost, stream));
    MUST(cudaLaunchHostFunc(stream, count_call, &calls));
    MUST(cudaMemsetAsync(a, 0, N * sizeof(int), stream));
    cudaGraph_t graph;
    MUST(cudaStreamEndCapture(stream, &graph));
    HOLDS(status_of(stream) == cudaStreamCaptureStatusNone);
    HOLDS(nodes_in(graph) == 5 && calls == 0);
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    for (int round = 1; round <= 3; round++) {
        memset(host, 0, sizeof host);
        for (int i = 0; i < N; i++)
            source[i] = i * round;
        MUST(cudaGraphLaunch(executable, stream));
        MUST(cudaStreamSynchronize(stream));
        HOLDS(host[1] == round + 3 && host[N - 1] == (N - 1) * round + 3 && calls == round);
    }
    /* a launch of a graph cannot be captured */
    cudaGraph_t outer = graph;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaGraphLaunch(executable, stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &outer));
    HOLDS(!outer && calls == 3);
    cudaGetLastError();
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(stream));
    cudaFree(a);
}

static void check_joined_streams(void)
{
    int *a = on_device(), *b = on_device(), *c = on_device(), host[N];
    cudaStream_t origin = stream_of(cudaStreamNonBlocking), other = stream_of(cudaStreamNonBlocking);
    cudaEvent_t fork, joined;
    MUST(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    MUST(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    MUST(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
    add<<<N / 128, 128, 0, origin>>>(a, 1);
    MUST(cudaEventRecord(fork, origin));
    HOLDS(status_of(other) == cudaStreamCaptureStatusNone);
    MUST(cudaStreamWaitEvent(other, fork, 0));
    HOLDS(status_of(other) == cudaStreamCaptureStatusActive);
    add<<<N / 128, 128, 0, other>>>(b, 2);
    add<<<N / 128, 128, 0, origin>>>(a, 4);
    MUST(cudaEventRecord(joined, other));
    MUST(cudaStreamWaitEvent(origin, joined, 0));
    join<<<N / 128, 128, 0, origin>>>(c, a, b);
    cudaGraph_t graph;
    MUST(cudaStreamEndCapture(origin, &graph));
    HOLDS(status_of(other) == cudaStreamCaptureStatusNone);
    HOLDS(nodes_in(graph) == 4);
    size_t edges = 0;
#if CUDART_VERSION >= 13000
    MUST(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
#else
    MUST(cudaGraphGetEdges(graph, NULL, NULL, &edges));
#endif
    HOLDS(edges == 4);
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, other));
    MUST(cudaGraphLaunch(executable, origin));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host, c, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 1004 && host[N - 1] == 1004);
    /* the event stands for captured work until it is recorded again */
    GIVES(cudaErrorCapturedEvent, cudaEventQuery(fork));
    GIVES(cudaErrorCapturedEvent, cudaEventSynchronize(fork));
    cudaGetLastError();
    MUST(cudaEventRecord(fork, other));
    MUST(cudaEventSynchronize(fork));
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaEventDestroy(fork));
    MUST(cudaEventDestroy(joined));
    MUST(cudaStreamDestroy(origin));
    MUST(cudaStreamDestroy(other));
    cudaFree(a), cudaFree(b), cudaFree(c);
}

/* The capture is invalidated: ending it says so, and then the stream can be used again. */
static void ends_invalidated(cudaStream_t stream, int line)
{
    cudaGraph_t graph = (cudaGraph_t)1;
    cudaStreamCaptureStatus status;
    cudaStreamIsCapturing(stream, &status);
    if (status != cudaStreamCaptureStatusInvalidated) {
        fprintf(stderr, "%s:%d: the capture is not invalidated\n", __FILE__, line);
        check_failures++;
    }
    int error = cudaStreamEndCapture(stream, &graph);
    if (error != cudaErrorStreamCaptureInvalidated || graph) {
        fprintf(stderr, "%s:%d: the end gives %d\n", __FILE__, line, error);
        check_failures++;
    }
    cudaGetLastError();
    HOLDS(status_of(stream) == cudaStreamCaptureStatusNone);
}

#define INVALIDATES(error, call)                                                 \
    do {                                                                         \
        MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));       \
        GIVES(error, call);                                                      \
        ends_invalidated(stream, __LINE__);                                      \
    } while (0)

static void check_forbidden(void)
{
    int *a = on_device(), host[N];
    cudaStream_t stream = stream_of(cudaStreamNonBlocking), other = stream_of(cudaStreamNonBlocking),
                 blocking = stream_of(cudaStreamDefault);
    cudaEvent_t event, before;
    cudaGraph_t graph;
    MUST(cudaEventCreate(&event));
    MUST(cudaEventCreate(&before));
    MUST(cudaEventRecord(before, other));
    MUST(cudaDeviceSynchronize());

    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorInvalidValue, cudaStreamBeginCapture(stream, (cudaStreamCaptureMode)3));
    GIVES(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorIllegalState, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaStreamEndCapture(stream, &graph));
    HOLDS(nodes_in(graph) == 0);
    MUST(cudaGraphDestroy(graph));

    void *p;
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaMalloc(&p, 16));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaMallocHost(&p, 16));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaFree(a));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaEventQuery(before));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    INVALIDATES(cudaErrorStreamCaptureUnsupported, cudaStreamAddCallback(stream, called, NULL, 0));
    INVALIDATES(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, before, 0));
    INVALIDATES(cudaErrorCapturedEvent, (cudaEventRecord(event, stream), cudaEventSynchronize(event)));

    /* what follows in an invalidated capture fails too */
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamQuery(stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(a, 0, 16, stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaEventRecord(event, stream));
    ends_invalidated(stream, __LINE__);

    /* the legacy stream would wait for a blocking stream */
    MUST(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    cudaStreamCaptureStatus status;
    GIVES(cudaErrorStreamCaptureImplicit, cudaStreamIsCapturing(0, &status));
    HOLDS(status_of(blocking) == cudaStreamCaptureStatusActive);
    GIVES(cudaErrorStreamCaptureImplicit, cudaMemsetAsync(a, 0, 16, 0));
    ends_invalidated(blocking, __LINE__);
    MUST(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorStreamCaptureImplicit, cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    ends_invalidated(blocking, __LINE__);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaMemsetAsync(a, 0, 16, 0));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphDestroy(graph));

    /* two captures cannot become one, and each ends where it began */
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
    MUST(cudaMemsetAsync(a, 0, 16, stream));
    MUST(cudaEventRecord(event, stream));
    GIVES(cudaErrorStreamCaptureMerge, cudaStreamWaitEvent(other, event, 0));
    ends_invalidated(stream, __LINE__);
    ends_invalidated(other, __LINE__);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaMemsetAsync(a, 0, 16, stream));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(other, event, 0));
    GIVES(cudaErrorStreamCaptureUnmatched, cudaStreamEndCapture(other, &graph));
    ends_invalidated(stream, __LINE__);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(other, event, 0));
    MUST(cudaMemsetAsync(a, 0, 16, other));
    GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));
    HOLDS(!graph && status_of(stream) == cudaStreamCaptureStatusNone);
    HOLDS(status_of(other) == cudaStreamCaptureStatusNone);

    /* a joined stream may go before the end; its work must have been joined */
    cudaStream_t passing = stream_of(cudaStreamNonBlocking);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(passing, event, 0));
    MUST(cudaMemsetAsync(a, 0, 16, passing));
    MUST(cudaEventRecord(event, passing));
    MUST(cudaStreamWaitEvent(stream, event, 0));
    MUST(cudaStreamDestroy(passing));
    MUST(cudaStreamEndCapture(stream, &graph));
    HOLDS(nodes_in(graph) == 1);
    MUST(cudaGraphDestroy(graph));
    passing = stream_of(cudaStreamNonBlocking);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaEventRecord(event, stream));
    MUST(cudaStreamWaitEvent(passing, event, 0));
    MUST(cudaMemsetAsync(a, 0, 16, passing));
    MUST(cudaStreamDestroy(passing));
    GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &graph));

    /* in mode relaxed, only what concerns the captured work itself is forbidden */
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    MUST(cudaMalloc(&p, 16));
    MUST(cudaFree(p));
    MUST(cudaEventQuery(before));
    MUST(cudaStreamSynchronize(other));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaDeviceSynchronize());
    ends_invalidated(stream, __LINE__);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaMalloc(&p, 16));
    MUST(cudaFree(p));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaThreadExchangeStreamCaptureMode(&mode));
    HOLDS(mode == cudaStreamCaptureModeRelaxed);

    MUST(cudaStreamDestroy(stream));
    MUST(cudaStreamDestroy(other));
    MUST(cudaStreamDestroy(blocking));
    MUST(cudaEventDestroy(event));
    MUST(cudaEventDestroy(before));
    cudaGetLastError();
    cudaFree(a);
}

/* Another thread, while this one captures. */
struct other_thread { cudaStreamCaptureMode mode; cudaStream_t stream; int allocated, ended; };
static void *run_other(void *data)
{
    struct other_thread *t = (struct other_thread *)data;
    void *p = NULL;
    cudaGraph_t graph;
    MUST(cudaThreadExchangeStreamCaptureMode(&t->mode));
    t->ended = cudaStreamEndCapture(t->stream, &graph);
    t->allocated = cudaMalloc(&p, 16);
    if (!t->allocated)
        cudaFree(p);
    return NULL;
}

static struct other_thread beside(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    struct other_thread t = { mode, stream, -1, -1 };
    pthread_t thread;
    pthread_create(&thread, NULL, run_other, &t);
    pthread_join(thread, NULL);
    return t;
}

static void check_threads(void)
{
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
    cudaGraph_t graph;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    struct other_thread t = beside(stream, cudaStreamCaptureModeThreadLocal);
    HOLDS(t.ended == cudaErrorStreamCaptureWrongThread && t.allocated == cudaSuccess);
    HOLDS(status_of(stream) == cudaStreamCaptureStatusActive);
    t = beside(stream, cudaStreamCaptureModeGlobal);
    HOLDS(t.allocated == cudaErrorStreamCaptureUnsupported);
    ends_invalidated(stream, __LINE__);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    t = beside(stream, cudaStreamCaptureModeGlobal);
    HOLDS(t.ended == cudaErrorStreamCaptureWrongThread && t.allocated == cudaSuccess);
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    t = beside(stream, cudaStreamCaptureModeGlobal);
    HOLDS(t.ended == cudaSuccess && t.allocated == cudaSuccess);
    HOLDS(status_of(stream) == cudaStreamCaptureStatusNone);
    MUST(cudaStreamDestroy(stream));
}

/* What the capture tells, and how a program steers it; memory that is allocated and freed in stream order. */
static void check_info(void)
{
    int *a = on_device(), *inner, host[N];
    cudaStream_t stream = stream_of(cudaStreamNonBlocking);
#if CUDART_VERSION >= 12030
    cudaGraph_t graph, own;
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    const cudaGraphNode_t *before;
    const cudaGraphEdgeData *edges;
    size_t count = 9;
    cudaGraphNode_t empty;
    MUST(cudaGraphCreate(&own, 0));
    MUST(cudaGraphAddEmptyNode(&empty, own, NULL, 0));
    MUST(cudaStreamBeginCaptureToGraph(stream, own, &empty, NULL, 1, cudaStreamCaptureModeGlobal));
#if CUDART_VERSION >= 13000
#define INFO() cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &before, &edges, &count)
#define UPDATE(nodes, count, flags) cudaStreamUpdateCaptureDependencies(stream, nodes, NULL, count, flags)
#else
#define INFO() cudaStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &before, &edges, &count)
#define UPDATE(nodes, count, flags) cudaStreamUpdateCaptureDependencies_v2(stream, nodes, NULL, count, flags)
#endif
    MUST(INFO());
    HOLDS(status == cudaStreamCaptureStatusActive && id && graph == own && count == 1 && before[0] == empty);
    MUST(cudaMallocAsync((void **)&inner, N * sizeof(int), stream));
    MUST(cudaMemsetAsync(inner, 0, N * sizeof(int), stream));
    add<<<N / 128, 128, 0, stream>>>(inner, 9);
    MUST(cudaMemcpyAsync(a, inner, N * sizeof(int), cudaMemcpyDeviceToDevice, stream));
    MUST(cudaFreeAsync(inner, stream));
    MUST(INFO());
    cudaGraphNode_t last = before[0];
    MUST(UPDATE(&empty, 1, cudaStreamSetCaptureDependencies));
    MUST(INFO());
    HOLDS(count == 1 && before[0] == empty);
    MUST(UPDATE(&last, 1, cudaStreamAddCaptureDependencies));
    MUST(INFO());
    HOLDS(count == 2);
    MUST(cudaStreamEndCapture(stream, &graph));
    HOLDS(graph == own && nodes_in(own) == 6);
    cudaGraphExec_t executable;
    MUST(cudaGraphInstantiateWithFlags(&executable, own, 0));
    for (int i = 0; i < 2; i++)
        MUST(cudaGraphLaunch(executable, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 9 && host[N - 1] == 9);
    MUST(cudaGraphExecDestroy(executable));

    /* The program has this graph and need not say where to store it. A graph that a capture makes is another matter. */
    MUST(cudaStreamBeginCaptureToGraph(stream, own, &empty, NULL, 1, cudaStreamCaptureModeGlobal));
    MUST(cudaMemsetAsync(a, 0, N * sizeof(int), stream));
    MUST(cudaStreamEndCapture(stream, NULL));
    HOLDS(nodes_in(own) == 7);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    GIVES(cudaErrorInvalidValue, cudaStreamEndCapture(stream, NULL));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphDestroy(own));
#endif
    MUST(cudaStreamDestroy(stream));
    cudaFree(a);
}

/* The per-thread default stream can be captured. */
static void check_per_thread(void)
{
    int *a = on_device(), host[N];
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    MUST(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal));
    add<<<N / 128, 128, 0, cudaStreamPerThread>>>(a, 6);
    MUST(cudaStreamEndCapture(cudaStreamPerThread, &graph));
    MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cudaGraphLaunch(executable, cudaStreamPerThread));
    MUST(cudaGraphLaunch(executable, cudaStreamPerThread));
    MUST(cudaStreamSynchronize(cudaStreamPerThread));
    MUST(cudaMemcpy(host, a, sizeof host, cudaMemcpyDeviceToHost));
    HOLDS(host[0] == 12);
    MUST(cudaGraphExecDestroy(executable));
    MUST(cudaGraphDestroy(graph));
    cudaFree(a);
}

int main(void)
{
    check_one_stream();
    check_joined_streams();
    check_forbidden();
    check_threads();
    check_info();
    check_per_thread();
    return check_result("capture");
}
