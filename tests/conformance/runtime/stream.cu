// shows: conformance: streams, events and errors, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void none() {}
static void CUDART_CB nothing(void *) {}
static void CUDART_CB callback(cudaStream_t, cudaError_t, void *) {}

static void errors()
{
    void *p;
    WORKS(cudaGetLastError(), "nothing happened");
    VALUE("name of 0", "%s", cudaGetErrorName(cudaSuccess));
    VALUE("text of 1", "%s", cudaGetErrorString(cudaErrorInvalidValue));
    VALUE("name of 12345", "%s", cudaGetErrorName((cudaError_t)12345));
    VALUE("text of 12345", "%s", cudaGetErrorString((cudaError_t)12345));
    VALUE("result", "%d", cudaMalloc(NULL, 1) != cudaSuccess);
    VALUE("peek", "%s", cudaGetErrorName(cudaPeekAtLastError()));
    VALUE("peek again", "%s", cudaGetErrorName(cudaPeekAtLastError()));
    VALUE("a call that works", "%s", cudaGetErrorName(cudaMalloc(&p, 16)));
    VALUE("leaves it", "%s", cudaGetErrorName(cudaPeekAtLastError()));
    VALUE("another error", "%s", cudaGetErrorName(cudaSetDevice(99)));
    VALUE("takes its place", "%s", cudaGetErrorName(cudaPeekAtLastError()));
    VALUE("get", "%s", cudaGetErrorName(cudaGetLastError()));
    VALUE("get again", "%s", cudaGetErrorName(cudaGetLastError()));
    MUST(cudaFree(p));
}

static void streams()
{
    cudaStream_t s = NULL, t;
    int priority = 7, device = 7;
    unsigned flags = 7;
    unsigned long long id = 0, other = 0;
    GIVES(cudaErrorInvalidValue, cudaStreamCreate(NULL), "null pointer");
    WORKS(cudaStreamCreate(&s), "usual");
    GIVES(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&t, 2), "flag 2");
    GIVES(cudaErrorInvalidValue, cudaStreamCreateWithFlags(NULL, 0), "null pointer");
    WORKS(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking), "non-blocking");
    WORKS(cudaStreamGetFlags(t, &flags), "non-blocking");
    VALUE("flags", "%u", flags);
    WORKS(cudaStreamGetFlags(0, &flags), "legacy");
    VALUE("flags", "%u", flags);
    WORKS(cudaStreamGetFlags(cudaStreamPerThread, &flags), "per thread");
    VALUE("flags", "%u", flags);
    GIVES(cudaErrorInvalidValue, cudaStreamGetFlags(t, NULL), "null pointer");
    SAYS(cudaStreamGetFlags(WRONG(cudaStream_t), &flags), "no stream");
    WORKS(cudaStreamDestroy(t), "once");
    SAYS(cudaStreamDestroy(t), "twice");
    SAYS(cudaStreamDestroy(0), "legacy");
    SAYS(cudaStreamDestroy(cudaStreamLegacy), "legacy by name");
    SAYS(cudaStreamDestroy(cudaStreamPerThread), "per thread");
    for (int p = -9; p <= 3; p += 3) {
        MUST(cudaStreamCreateWithPriority(&t, 0, p));
        MUST(cudaStreamGetPriority(t, &priority));
        printf("cudaStreamCreateWithPriority: %d -> %d\n", p, priority);
        MUST(cudaStreamDestroy(t));
    }
    SAYS(cudaStreamCreateWithPriority(&t, 9, 0), "flags 9");
    GIVES(cudaErrorInvalidValue, cudaStreamGetPriority(s, NULL), "null pointer");
    WORKS(cudaStreamGetPriority(0, &priority), "legacy");
    VALUE("priority", "%d", priority);
#if RUNTIME >= 12
    WORKS(cudaStreamGetId(s, &id), "usual");
    WORKS(cudaStreamGetId(0, &other), "legacy");
    VALUE("differ", "%d", id != other);
    VALUE("id of the legacy stream", "%llu", other);
    WORKS(cudaStreamGetId(cudaStreamPerThread, &other), "per thread");
    VALUE("id of the per-thread stream", "%llu", other);
    SAYS(cudaStreamGetId(s, NULL), "null pointer");
#endif
#if RUNTIME >= 13
    SAYS(cudaStreamGetDevice(s, &device), "usual");
    VALUE("device", "%d", device);
#endif
    WORKS(cudaStreamQuery(s), "idle");
    WORKS(cudaStreamQuery(0), "legacy, idle");
    SAYS(cudaStreamQuery(WRONG(cudaStream_t)), "no stream");
    WORKS(cudaStreamSynchronize(s), "idle");
    WORKS(cudaStreamSynchronize(0), "legacy, idle");
    WORKS(cudaStreamSynchronize(cudaStreamPerThread), "per thread, idle");
    SAYS(cudaStreamSynchronize(WRONG(cudaStream_t)), "no stream");
    SAYS(cudaStreamSynchronize(t), "destroyed");
    SAYS(cudaLaunchHostFunc(s, NULL, NULL), "no function");
    SAYS(cudaLaunchHostFunc(WRONG(cudaStream_t), nothing, NULL), "no stream");
    WORKS(cudaLaunchHostFunc(s, nothing, NULL), "a function");
    SAYS(cudaStreamAddCallback(s, NULL, NULL, 0), "no function");
    SAYS(cudaStreamAddCallback(s, callback, NULL, 1), "flags");
    WORKS(cudaStreamAddCallback(s, callback, NULL, 0), "a function");
    WORKS(cudaStreamSynchronize(s), "functions");
    MUST(cudaStreamCreate(&t));
    WORKS(cudaStreamCopyAttributes(s, t), "usual");
    SAYS(cudaStreamCopyAttributes(s, s), "itself");
    SAYS(cudaStreamCopyAttributes(WRONG(cudaStream_t), s), "no stream");
    cudaStreamAttrValue value;
    for (int id = -1; id <= 18; id++) {
        memset(&value, 0, sizeof value);
        cudaError_t r = cudaStreamGetAttribute(s, (cudaStreamAttrID)id, &value);
        printf("cudaStreamGetAttribute: %d -> %s", id, cudaGetErrorName(r));
        for (int i = 0; i < 64; i++)
            if (value.pad[i])
                printf(" [%d] %d", i, value.pad[i]);
        printf("\n");
        cudaGetLastError();
    }
    SAYS(cudaStreamGetAttribute(WRONG(cudaStream_t), cudaLaunchAttributePriority, &value), "no stream");
    SAYS(cudaStreamGetAttribute(0, cudaLaunchAttributePriority, &value), "legacy");
    for (int policy = 0; policy <= 5; policy++) {
        memset(&value, 0, sizeof value);
        value.syncPolicy = (cudaSynchronizationPolicy)policy;
        SAYS(cudaStreamSetAttribute(s, cudaLaunchAttributeSynchronizationPolicy, &value), "a policy");
        MUST(cudaStreamGetAttribute(s, cudaLaunchAttributeSynchronizationPolicy, &value));
        VALUE("policy", "%d", (int)value.syncPolicy);
    }
    for (int p = -9; p <= 3; p += 3) {
        memset(&value, 0, sizeof value);
        value.priority = p;
        SAYS(cudaStreamSetAttribute(s, cudaLaunchAttributePriority, &value), "a priority");
        MUST(cudaStreamGetPriority(s, &priority));
        VALUE("priority", "%d", priority);
    }
#if RUNTIME >= 13
    for (unsigned hint = 0; hint <= 2; hint++) {
        memset(&value, 0, sizeof value);
        value.nvlinkUtilCentricScheduling = hint;
        SAYS(cudaStreamSetAttribute(s, cudaLaunchAttributeNvlinkUtilCentricScheduling, &value), "a hint about NVLink");
        SAYS(cudaStreamGetAttribute(s, cudaLaunchAttributeNvlinkUtilCentricScheduling, &value), "a hint about NVLink");
        VALUE("hint", "%u", value.nvlinkUtilCentricScheduling);
    }
#endif
    memset(&value, 0, sizeof value);
    SAYS(cudaStreamSetAttribute(s, cudaLaunchAttributeAccessPolicyWindow, &value), "no window");
    value.accessPolicyWindow.base_ptr = &value;
    value.accessPolicyWindow.num_bytes = 4096;
    value.accessPolicyWindow.hitRatio = 1;
    SAYS(cudaStreamSetAttribute(s, cudaLaunchAttributeAccessPolicyWindow, &value), "a window");
    SAYS(cudaStreamSetAttribute(s, (cudaStreamAttrID)99, &value), "attribute 99");
    SAYS(cudaStreamSetAttribute(s, cudaLaunchAttributeCooperative, &value), "of launches only");
    SAYS(cudaStreamSetAttribute(WRONG(cudaStream_t), cudaLaunchAttributePriority, &value), "no stream");
    memset(&value, 0, sizeof value);
    value.syncPolicy = cudaSyncPolicyBlockingSync;
    MUST(cudaStreamSetAttribute(s, cudaLaunchAttributeSynchronizationPolicy, &value));
    WORKS(cudaStreamCopyAttributes(t, s), "a policy");
    MUST(cudaStreamGetAttribute(t, cudaLaunchAttributeSynchronizationPolicy, &value));
    VALUE("policy of the copy", "%d", (int)value.syncPolicy);
    none<<<1, 1, 0, s>>>();
    WORKS(cudaStreamSynchronize(s), "a kernel, with attributes");
#if RUNTIME >= 12
    cudaGraph_t graph;
    cudaGraphNode_t node;
    size_t nodes = 1;
    memset(&value, 0, sizeof value);
    value.priority = -3;
    MUST(cudaStreamSetAttribute(t, cudaLaunchAttributePriority, &value));
    MUST(cudaStreamBeginCapture(t, cudaStreamCaptureModeRelaxed));
    none<<<1, 1, 0, t>>>();
    MUST(cudaStreamEndCapture(t, &graph));
    MUST(cudaGraphGetNodes(graph, &node, &nodes));
    memset(&value, 0, sizeof value);
    WORKS(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &value), "of a captured launch");
    VALUE("priority", "%d", value.priority);
    MUST(cudaGraphDestroy(graph));
#endif
    SAYS(cudaStreamAttachMemAsync(s, &value, 0, cudaMemAttachSingle), "not managed");
    cudaStreamCaptureStatus status;
    WORKS(cudaStreamIsCapturing(s, &status), "no");
    VALUE("status", "%d", (int)status);
    GIVES(cudaErrorInvalidValue, cudaStreamIsCapturing(s, NULL), "null pointer");
    SAYS(cudaStreamIsCapturing(0, &status), "legacy");
    MUST(cudaStreamDestroy(s));
    MUST(cudaStreamDestroy(t));
}

static void events()
{
    cudaEvent_t e = NULL, f, plain;
    cudaStream_t s;
    float ms = -1;
    MUST(cudaStreamCreate(&s));
    GIVES(cudaErrorInvalidValue, cudaEventCreate(NULL), "null pointer");
    WORKS(cudaEventCreate(&e), "usual");
    WORKS(cudaEventCreate(&f), "usual");
    GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(&plain, 0x100), "unknown flag");
    GIVES(cudaErrorInvalidValue, cudaEventCreateWithFlags(NULL, 0), "null pointer");
    SAYS(cudaEventCreateWithFlags(&plain, cudaEventInterprocess), "interprocess with times");
    WORKS(cudaEventCreateWithFlags(&plain, cudaEventDisableTiming | cudaEventBlockingSync), "no times");
    WORKS(cudaEventQuery(e), "never recorded");
    WORKS(cudaEventSynchronize(e), "never recorded");
    WORKS(cudaStreamWaitEvent(s, e, 0), "never recorded");
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, f), "never recorded");
    WORKS(cudaEventRecord(e, s), "usual");
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, f), "the second was never recorded");
    WORKS(cudaEventRecord(f, s), "usual");
    WORKS(cudaEventSynchronize(f), "recorded");
    WORKS(cudaEventElapsedTime(&ms, e, f), "both");
    VALUE("not negative", "%d", ms >= 0);
    GIVES(cudaErrorInvalidValue, cudaEventElapsedTime(NULL, e, f), "null pointer");
    WORKS(cudaEventRecord(plain, s), "no times");
    GIVES(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, e, plain), "one has no times");
    SAYS(cudaEventRecord(e, WRONG(cudaStream_t)), "no stream");
    SAYS(cudaEventRecord(WRONG(cudaEvent_t), s), "no event");
    SAYS(cudaEventRecord(NULL, s), "null event");
    WORKS(cudaEventRecord(e, 0), "legacy");
    WORKS(cudaEventRecord(e, cudaStreamPerThread), "per thread");
    SAYS(cudaEventRecordWithFlags(e, s, 0), "no flags");
    SAYS(cudaEventRecordWithFlags(e, s, 8), "unknown flag");
    SAYS(cudaEventRecordWithFlags(e, s, cudaEventRecordExternal), "external, not captured");
    SAYS(cudaStreamWaitEvent(s, e, 8), "unknown flag");
    SAYS(cudaStreamWaitEvent(s, WRONG(cudaEvent_t), 0), "no event");
    SAYS(cudaStreamWaitEvent(s, NULL, 0), "null event");
    SAYS(cudaStreamWaitEvent(WRONG(cudaStream_t), e, 0), "no stream");
    WORKS(cudaStreamWaitEvent(0, e, 0), "legacy");
    WORKS(cudaStreamSynchronize(s), "all");
    WORKS(cudaEventQuery(f), "over");
    SAYS(cudaEventQuery(WRONG(cudaEvent_t)), "no event");
    SAYS(cudaEventQuery(NULL), "null event");
    SAYS(cudaEventSynchronize(WRONG(cudaEvent_t)), "no event");
    WORKS(cudaEventDestroy(e), "once");
    SAYS(cudaEventDestroy(e), "twice");
    SAYS(cudaEventDestroy(NULL), "null event");
    SAYS(cudaEventQuery(e), "destroyed");
    SAYS(cudaEventElapsedTime(&ms, e, f), "destroyed");
    hold_begin(s, 100000);
    GIVES(cudaErrorNotReady, cudaStreamQuery(s), "work under way");
    WORKS(cudaEventRecord(f, s), "behind work");
    GIVES(cudaErrorNotReady, cudaEventQuery(f), "work under way");
    MUST(cudaEventCreate(&e));
    WORKS(cudaEventRecord(e, s), "behind work");
    GIVES(cudaErrorNotReady, cudaEventElapsedTime(&ms, f, e), "work under way");
    WORKS(cudaEventDestroy(e), "work under way");
    WORKS(cudaStreamDestroy(s), "work under way");
    hold_end();
    WORKS(cudaEventQuery(f), "its stream is gone");
    MUST(cudaEventDestroy(f));
    MUST(cudaEventDestroy(plain));
}

int main()
{
    MUST(cudaFree(0));
    errors();
    streams();
    events();
    return 0;
}
