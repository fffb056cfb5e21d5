// shows: conformance: a program of --default-stream per-thread: what stream 0 is, what it waits for, threads, line by
//   line with NVIDIA's runtime
//
// Compiled with --default-stream per-thread, so that all calls are those of the names that end in _ptsz and _ptds.
#include "../gate.h"

__global__ void add(int *at, int n) { *at += n; }
__global__ void none() {}
__device__ int variable;
static void CUDART_CB nothing(void *) {}
static cudaStream_t called_with;
static cudaError_t called_status;
static void CUDART_CB tells(cudaStream_t stream, cudaError_t status, void *)
{
    called_with = stream;
    called_status = status;
}
/* What the callback was given, which has run. */
static void told()
{
    printf("callback: stream %s, status %s\n",
           !called_with                         ? "0"
           : called_with == cudaStreamPerThread ? "per thread"
           : called_with == cudaStreamLegacy    ? "legacy"
                                                : "another",
           cudaGetErrorName(called_status));
}

static struct gate *g;
static int *device;
static cudaStream_t blocking, apart;

static void what_it_is()
{
    unsigned flags = 7;
    int priority = 7;
    unsigned long long id = 0;
    WORKS(cudaStreamGetFlags(0, &flags), "stream 0");
    VALUE("flags", "%u", flags);
    WORKS(cudaStreamGetFlags(cudaStreamLegacy, &flags), "legacy");
    VALUE("flags", "%u", flags);
    WORKS(cudaStreamGetFlags(cudaStreamPerThread, &flags), "per thread");
    VALUE("flags", "%u", flags);
    WORKS(cudaStreamGetPriority(0, &priority), "stream 0");
    VALUE("priority", "%d", priority);
#if RUNTIME >= 12
    WORKS(cudaStreamGetId(0, &id), "stream 0");
    VALUE("id", "%llu", id);
    WORKS(cudaStreamGetId(cudaStreamLegacy, &id), "legacy");
    VALUE("id", "%llu", id);
    WORKS(cudaStreamGetId(cudaStreamPerThread, &id), "per thread");
    VALUE("id", "%llu", id);
#endif
    (void)id;
    SAYS(cudaStreamDestroy(0), "stream 0");
    WORKS(cudaStreamAddCallback(0, tells, NULL, 0), "stream 0");
    WORKS(cudaStreamSynchronize(0), "stream 0");
    told();
    WORKS(cudaStreamAddCallback(cudaStreamPerThread, tells, NULL, 0), "per thread");
    WORKS(cudaStreamSynchronize(0), "stream 0");
    told();
    WORKS(cudaStreamAddCallback(cudaStreamLegacy, tells, NULL, 0), "legacy");
    WORKS(cudaStreamSynchronize(cudaStreamLegacy), "legacy");
    told();
    cudaStreamAttrValue value;
    memset(&value, 0, sizeof value);
    SAYS(cudaStreamGetAttribute(0, cudaLaunchAttributeSynchronizationPolicy, &value), "stream 0");
    VALUE("policy", "%d", (int)value.syncPolicy);
    SAYS(cudaStreamSetAttribute(0, cudaLaunchAttributeSynchronizationPolicy, &value), "stream 0");
    SAYS(cudaStreamCopyAttributes(0, blocking), "to stream 0");
    SAYS(cudaStreamCopyAttributes(blocking, 0), "from stream 0");
    cudaStreamCaptureStatus status = (cudaStreamCaptureStatus)7;
    WORKS(cudaStreamIsCapturing(0, &status), "stream 0");
    VALUE("status", "%d", (int)status);
}

/* Stream 0 is one that can be captured. */
static void captured()
{
    cudaGraph_t graph = NULL;
    cudaStreamCaptureStatus status = (cudaStreamCaptureStatus)7;
    size_t nodes = 77;
    WORKS(cudaStreamBeginCapture(0, cudaStreamCaptureModeThreadLocal), "stream 0");
    WORKS(cudaStreamIsCapturing(0, &status), "stream 0");
    VALUE("status", "%d", (int)status);
    add<<<1, 1>>>(device, 1);
    WORKS(cudaGetLastError(), "a launch into stream 0");
    WORKS(cudaMemsetAsync(device, 0, 4), "into stream 0");
    WORKS(cudaLaunchHostFunc(0, nothing, NULL), "into stream 0");
    WORKS(cudaStreamEndCapture(0, &graph), "stream 0");
    WORKS(cudaGraphGetNodes(graph, NULL, &nodes), "it");
    VALUE("nodes", "%zu", nodes);
    MUST(cudaGraphDestroy(graph));
    SAYS(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeThreadLocal), "legacy");
}

static void copies()
{
    int host[16] = { 1, 2, 3 };
    float ms;
    cudaEvent_t e, f;
    void *p = NULL;
    cudaPointerAttributes a;
    MUST(cudaEventCreate(&e));
    MUST(cudaEventCreate(&f));
    WORKS(cudaEventRecord(e), "stream 0");
    WORKS(cudaEventRecordWithFlags(e, 0), "stream 0");
    WORKS(cudaMemcpy(device, host, 64, cudaMemcpyHostToDevice), "stream 0");
    WORKS(cudaMemcpy2D(device, 16, host, 16, 16, 4, cudaMemcpyHostToDevice), "stream 0");
    WORKS(cudaMemcpyToSymbol(variable, host, 4), "stream 0");
    WORKS(cudaMemcpyFromSymbol(host + 5, variable, 4), "stream 0");
    WORKS(cudaMemset(device, 1, 64), "stream 0");
    WORKS(cudaMemset2D(device, 16, 2, 16, 4), "stream 0");
    WORKS(cudaMemset3D(make_cudaPitchedPtr(device, 16, 16, 2), 3, make_cudaExtent(16, 2, 2)), "stream 0");
    WORKS(cudaMemcpyAsync(host, device, 64, cudaMemcpyDeviceToHost), "stream 0");
    WORKS(cudaEventRecord(f), "stream 0");
    WORKS(cudaEventSynchronize(f), "stream 0");
    WORKS(cudaEventElapsedTime(&ms, e, f), "stream 0");
    VALUE("copied", "%x", (unsigned)host[0]);
    WORKS(cudaStreamWaitEvent(0, f), "stream 0");
    WORKS(cudaMallocAsync(&p, 64, 0), "stream 0");
    WORKS(cudaFreeAsync(p, 0), "stream 0");
    WORKS(cudaStreamQuery(0) == cudaErrorNotReady ? cudaSuccess : cudaPeekAtLastError(), "stream 0");
    WORKS(cudaStreamSynchronize(0), "stream 0");
    WORKS(cudaPointerGetAttributes(&a, device), "it");
    void *arguments[] = { &device, host };
    WORKS(cudaLaunchKernel((const void *)add, 1, 1, arguments, 0, 0), "stream 0");
    WORKS(cudaLaunchCooperativeKernel((const void *)add, 1, 1, arguments, 0, 0), "stream 0");
    WORKS(cudaDeviceSynchronize(), "all");
    SAYS(cudaMemcpy(device, host, 64, (cudaMemcpyKind)9), "kind 9");
    SAYS(cudaMemcpyAsync(device, host, 64, cudaMemcpyHostToDevice, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaMemset(NULL, 1, 4), "null pointer");
    SAYS(cudaEventRecord(NULL), "null event");
    SAYS(cudaLaunchHostFunc(0, NULL, NULL), "null function");
    MUST(cudaEventDestroy(e));
    MUST(cudaEventDestroy(f));
}

/* What stream 0 waits for: the legacy stream, and no other one. */
static void beside()
{
    gate_close(g, blocking, 100000);
    none<<<1, 1>>>();
    WORKS(cudaStreamSynchronize(0), "a blocking stream works");
    WORKS(cudaMemset(device, 0, 64), "a blocking stream works");
    WORKS(cudaMemsetAsync(device, 0, 64), "a blocking stream works");
    WORKS(cudaStreamSynchronize(0), "a blocking stream works");
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy), "a blocking stream works");
    gate_open(g);
    MUST(cudaDeviceSynchronize());
    gate_close(g, cudaStreamLegacy, 100000);
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy), "the legacy stream works");
    none<<<1, 1>>>();
    GIVES(cudaErrorNotReady, cudaStreamQuery(0), "the legacy stream works");
    none<<<1, 1, 0, apart>>>();
    WORKS(cudaStreamSynchronize(apart), "the legacy stream works");
    gate_open(g);
    WORKS(cudaStreamSynchronize(0), "then");
    gate_close(g, 0, 100000);
    GIVES(cudaErrorNotReady, cudaStreamQuery(0), "stream 0 works");
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread), "stream 0 works");
    GIVES(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy), "stream 0 works");
    none<<<1, 1, 0, blocking>>>();
    WORKS(cudaStreamSynchronize(blocking), "stream 0 works");
    gate_open(g);
    MUST(cudaDeviceSynchronize());
}

static int sum;
static void other_thread()
{
    cudaStreamCaptureStatus status = (cudaStreamCaptureStatus)7;
    WORKS(cudaStreamQuery(0), "another thread's stream 0 works");
    WORKS(cudaStreamIsCapturing(0, &status), "in another thread");
    add<<<1, 1>>>(device + 1, 7);
    WORKS(cudaStreamSynchronize(0), "in another thread");
    WORKS(cudaMemcpy(&sum, device + 1, 4, cudaMemcpyDeviceToHost), "in another thread");
    WORKS(cudaMemset(device + 2, 1, 4), "in another thread");
    add<<<1, 1>>>(device + 3, 9); /* its thread ends with work under way */
}
static void threads()
{
    MUST(cudaMemset(device, 0, 64));
    MUST(cudaStreamSynchronize(0));
    gate_close(g, 0, 100000);
    in_thread(other_thread);
    VALUE("sum of another thread", "%d", sum);
    GIVES(cudaErrorNotReady, cudaStreamQuery(0), "of this thread");
    gate_open(g);
    WORKS(cudaStreamSynchronize(0), "of this thread");
    MUST(cudaDeviceSynchronize());
    WORKS(cudaMemcpy(&sum, device + 3, 4, cudaMemcpyDeviceToHost), "of a thread that has ended");
    VALUE("sum", "%d", sum);
}

static void waits()
{
    static char host[256];
    char *pinned;
    cudaStream_t s[] = { blocking, apart, 0, cudaStreamLegacy };
    const char *names[] = { "a blocking stream works", "a non-blocking stream works", "stream 0 works",
                            "the legacy stream works" };
    MUST(cudaMallocHost((void **)&pinned, 256));
    for (int i = 0; i < 4; i++) {
        bool before = i >= 2; /* what stream 0 is behind */
        WAITS_FOR_KERNEL(before, g, s[i], , cudaMemcpy(device, host, 256, cudaMemcpyHostToDevice), names[i]);
        WAITS_FOR_KERNEL(before, g, s[i], , cudaMemcpy(host, device, 256, cudaMemcpyDeviceToHost), names[i]);
        WAITS_FOR_KERNEL(false, g, s[i], , cudaMemcpyAsync(device, pinned, 256, cudaMemcpyHostToDevice), names[i]);
        WAITS_FOR_KERNEL(false, g, s[i], , cudaMemset(device, 0, 256), names[i]);
        WAITS_FOR_KERNEL(before, g, s[i], , cudaMemset(pinned, 0, 256), names[i]);
        WAITS_FOR_KERNEL(before, g, s[i], , cudaMemcpyToSymbol(variable, host, 4), names[i]);
        WAITS_FOR_KERNEL(i == 2, g, s[i], , cudaStreamSynchronize(0), names[i]); /* work of its own only */
        WAITS_FOR_KERNEL(i != 1, g, s[i], , cudaStreamSynchronize(cudaStreamLegacy), names[i]);
    }
    MUST(cudaFreeHost(pinned));
}

int main()
{
    MUST(cudaFree(0));
    g = gate_new();
    MUST(cudaMalloc((void **)&device, 256));
    MUST(cudaMemset(device, 0, 256));
    MUST(cudaStreamCreate(&blocking));
    MUST(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking));
    what_it_is();
    captured();
    copies();
    beside();
    threads();
    waits();
    return 0;
}
