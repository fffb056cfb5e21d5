// shows: conformance: graphs and capture, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void one(int *out, int value) { *out += value; }
static void CUDART_CB nothing(void *) {}

static int *device;
static cudaStream_t stream;

static cudaKernelNodeParams kernel_node(void **arguments)
{
    cudaKernelNodeParams p = {};
    p.func = (void *)one;
    p.gridDim = 1;
    p.blockDim = 1;
    p.kernelParams = arguments;
    return p;
}

static void making()
{
    cudaGraph_t g, other, clone = NULL, child = NULL;
    cudaGraphNode_t a, b, c = NULL, nodes[8];
    int value = 1, host[16];
    void *arguments[] = { &device, &value };
    size_t count = 0;
    cudaGraphNodeType kind;
    GIVES(cudaErrorInvalidValue, cudaGraphCreate(NULL, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphCreate(&g, 1), "flags");
    WORKS(cudaGraphCreate(&g, 0), "usual");
    WORKS(cudaGraphCreate(&other, 0), "usual");
    WORKS(cudaGraphAddEmptyNode(&a, g, NULL, 0), "first");
    WORKS(cudaGraphAddEmptyNode(&b, g, &a, 1), "behind it");
    SAYS(cudaGraphAddEmptyNode(&c, other, &a, 1), "behind a node of another graph");
    SAYS(cudaGraphAddEmptyNode(NULL, g, NULL, 0), "null pointer");
    SAYS(cudaGraphAddEmptyNode(&c, NULL, NULL, 0), "null graph");
    SAYS(cudaGraphAddEmptyNode(&c, g, NULL, 2), "null dependencies");
    SAYS(cudaGraphAddEmptyNode(&c, WRONG(cudaGraph_t), NULL, 0), "no graph");
    cudaKernelNodeParams p = kernel_node(arguments);
    WORKS(cudaGraphAddKernelNode(&c, g, &b, 1, &p), "a kernel");
    SAYS(cudaGraphAddKernelNode(&c, g, &b, 1, NULL), "null parameters");
    p.func = (void *)&value;
    SAYS(cudaGraphAddKernelNode(&c, g, NULL, 0, &p), "no kernel");
    p = kernel_node(arguments);
    p.blockDim = 2000;
    SAYS(cudaGraphAddKernelNode(&c, g, NULL, 0, &p), "2000 threads");
    p.blockDim = 0;
    SAYS(cudaGraphAddKernelNode(&c, g, NULL, 0, &p), "no threads");
    SAYS(cudaGraphAddMemcpyNode1D(&c, g, NULL, 0, device, host, 4, cudaMemcpyHostToDevice), "a copy");
    SAYS(cudaGraphAddMemcpyNode1D(&c, g, NULL, 0, device, host, 0, cudaMemcpyHostToDevice), "no bytes");
    SAYS(cudaGraphAddMemcpyNode1D(&c, g, NULL, 0, NULL, host, 4, cudaMemcpyHostToDevice), "to null");
    SAYS(cudaGraphAddMemcpyNode1D(&c, g, NULL, 0, device, host, 4, (cudaMemcpyKind)9), "kind 9");
    cudaMemsetParams m = {};
    SAYS(cudaGraphAddMemsetNode(&c, g, NULL, 0, &m), "all zero");
    m.dst = device;
    m.elementSize = 4;
    m.width = 1;
    m.height = 1;
    WORKS(cudaGraphAddMemsetNode(&c, g, NULL, 0, &m), "a set");
    m.elementSize = 3;
    SAYS(cudaGraphAddMemsetNode(&c, g, NULL, 0, &m), "elements of 3 bytes");
    SAYS(cudaGraphAddMemsetNode(&c, g, NULL, 0, NULL), "null parameters");
    cudaHostNodeParams h = { nothing, NULL };
    WORKS(cudaGraphAddHostNode(&c, g, NULL, 0, &h), "a host function");
    SAYS(cudaGraphAddHostNode(&c, g, NULL, 0, NULL), "null parameters");
    h.fn = NULL;
    SAYS(cudaGraphAddHostNode(&c, g, NULL, 0, &h), "null function");
    WORKS(cudaGraphAddChildGraphNode(&c, g, NULL, 0, other), "a child");
    SAYS(cudaGraphAddChildGraphNode(&c, g, NULL, 0, NULL), "null child");
    SAYS(cudaGraphAddChildGraphNode(&c, g, NULL, 0, g), "itself");
    WORKS(cudaGraphGetNodes(g, NULL, &count), "how many");
    VALUE("count", "%zu", count);
    count = 2;
    WORKS(cudaGraphGetNodes(g, nodes, &count), "two");
    VALUE("in order", "%d", nodes[0] == a && nodes[1] == b);
    GIVES(cudaErrorInvalidValue, cudaGraphGetNodes(g, nodes, NULL), "null count");
    SAYS(cudaGraphGetNodes(NULL, nodes, &count), "null graph");
    WORKS(cudaGraphGetRootNodes(g, NULL, &count), "how many");
    VALUE("count", "%zu", count);
    WORKS(cudaGraphNodeGetType(a, &kind), "empty");
    VALUE("kind", "%d", (int)kind);
    SAYS(cudaGraphNodeGetType(a, NULL), "null pointer");
    SAYS(cudaGraphNodeGetType(NULL, &kind), "null node");
    SAYS(cudaGraphNodeGetType(WRONG(cudaGraphNode_t), &kind), "no node");
    SAYS(cudaGraphKernelNodeGetParams(a, &p), "an empty node");
    SAYS(cudaGraphChildGraphNodeGetGraph(a, &child), "an empty node");
    SAYS(cudaGraphHostNodeGetParams(a, &h), "an empty node");
    SAYS(cudaGraphMemsetNodeGetParams(a, &m), "an empty node");
    WORKS(cudaGraphClone(&clone, g), "usual");
    GIVES(cudaErrorInvalidValue, cudaGraphClone(NULL, g), "null pointer");
    SAYS(cudaGraphClone(&clone, NULL), "null graph");
    WORKS(cudaGraphNodeFindInClone(&c, a, clone), "a node");
    SAYS(cudaGraphNodeFindInClone(&c, c, clone), "a node of the clone");
    SAYS(cudaGraphNodeFindInClone(NULL, a, clone), "null pointer");
    WORKS(cudaGraphDestroyNode(b), "once");
    SAYS(cudaGraphDestroyNode(b), "twice");
    SAYS(cudaGraphDestroyNode(NULL), "null node");
    WORKS(cudaGraphDestroy(clone), "once");
    SAYS(cudaGraphDestroy(clone), "twice");
    SAYS(cudaGraphDestroy(NULL), "null graph");
    MUST(cudaGraphDestroy(g));
    MUST(cudaGraphDestroy(other));
}

static void executables()
{
    cudaGraph_t g, other;
    cudaGraphExec_t e = NULL;
    cudaGraphNode_t a, b;
    int value = 1;
    void *arguments[] = { &device, &value };
    cudaKernelNodeParams p = kernel_node(arguments);
    unsigned long long flags = 9;
    unsigned enabled = 9;
    cudaGraphExecUpdateResultInfo info;
    MUST(cudaGraphCreate(&g, 0));
    WORKS(cudaGraphInstantiate(&e, g, 0), "an empty graph");
    WORKS(cudaGraphLaunch(e, stream), "an empty graph");
    WORKS(cudaGraphExecDestroy(e), "once");
    SAYS(cudaGraphExecDestroy(e), "twice");
    SAYS(cudaGraphExecDestroy(NULL), "null executable");
    MUST(cudaGraphAddKernelNode(&a, g, NULL, 0, &p));
    WORKS(cudaGraphInstantiate(&e, g, 0), "a kernel");
    SAYS(cudaGraphInstantiate(NULL, g, 0), "null pointer");
    SAYS(cudaGraphInstantiate(&e, NULL, 0), "null graph");
    SAYS(cudaGraphInstantiate(&e, g, 1 << 12), "unknown flag");
    WORKS(cudaGraphExecGetFlags(e, &flags), "no flags");
    VALUE("flags", "%llu", flags);
    SAYS(cudaGraphExecGetFlags(e, NULL), "null pointer");
    WORKS(cudaGraphUpload(e, stream), "usual");
    SAYS(cudaGraphUpload(NULL, stream), "null executable");
    SAYS(cudaGraphUpload(e, WRONG(cudaStream_t)), "no stream");
    WORKS(cudaGraphLaunch(e, stream), "usual");
    SAYS(cudaGraphLaunch(NULL, stream), "null executable");
    SAYS(cudaGraphLaunch(e, WRONG(cudaStream_t)), "no stream");
    WORKS(cudaGraphExecKernelNodeSetParams(e, a, &p), "the same");
    SAYS(cudaGraphExecKernelNodeSetParams(e, NULL, &p), "null node");
    SAYS(cudaGraphExecKernelNodeSetParams(NULL, a, &p), "null executable");
    WORKS(cudaGraphNodeGetEnabled(e, a, &enabled), "usual");
    VALUE("enabled", "%u", enabled);
    WORKS(cudaGraphNodeSetEnabled(e, a, 0), "off");
    WORKS(cudaGraphNodeGetEnabled(e, a, &enabled), "off");
    VALUE("enabled", "%u", enabled);
    SAYS(cudaGraphNodeSetEnabled(e, NULL, 0), "null node");
    SAYS(cudaGraphNodeGetEnabled(e, a, NULL), "null pointer");
    WORKS(cudaGraphExecUpdate(e, g, &info), "the same");
    VALUE("result", "%d", (int)info.result);
    MUST(cudaGraphCreate(&other, 0));
    SAYS(cudaGraphExecUpdate(e, other, &info), "fewer nodes");
    VALUE("result", "%d", (int)info.result);
    MUST(cudaGraphAddEmptyNode(&b, other, NULL, 0));
    SAYS(cudaGraphExecUpdate(e, other, &info), "another kind");
    VALUE("result", "%d", (int)info.result);
    SAYS(cudaGraphExecUpdate(e, NULL, &info), "null graph");
    SAYS(cudaGraphExecKernelNodeSetParams(e, b, &p), "a node of another graph");
    WORKS(cudaGraphDestroyNode(a), "a node of an executable");
    WORKS(cudaGraphLaunch(e, stream), "its graph has changed");
    WORKS(cudaGraphDestroy(g), "an executable is there");
    WORKS(cudaGraphLaunch(e, stream), "its graph is gone");
    WORKS(cudaGraphExecDestroy(e), "while it may run");
    WORKS(cudaStreamSynchronize(stream), "all");
    MUST(cudaGraphDestroy(other));
}

static void memory_nodes()
{
    cudaGraph_t g, clone;
    cudaGraphNode_t a, b;
    cudaGraphExec_t e, second;
    cudaMemAllocNodeParams p = {};
    SAYS(cudaGraphCreate(&g, 0), "usual");
    SAYS(cudaGraphAddMemAllocNode(&a, g, NULL, 0, NULL), "null parameters");
    SAYS(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &p), "all zero");
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    SAYS(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &p), "no bytes");
    p.bytesize = 4096;
    p.poolProps.location.id = 9;
    SAYS(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &p), "no device");
    p.poolProps.location.id = 0;
    WORKS(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &p), "4096 bytes");
    SAYS(cudaGraphAddMemFreeNode(&b, g, &a, 1, NULL), "null pointer");
    SAYS(cudaGraphAddMemFreeNode(&b, g, &a, 1, device), "memory of no graph");
    SAYS(cudaGraphDestroyNode(a), "an allocation");
    SAYS(cudaGraphClone(&clone, g), "with an allocation");
    WORKS(cudaGraphInstantiate(&e, g, 0), "first");
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiate(&second, g, 0), "second");
    WORKS(cudaGraphLaunch(e, stream), "first");
    SAYS(cudaGraphLaunch(e, stream), "its memory has not been freed");
    WORKS(cudaStreamSynchronize(stream), "all");
    WORKS(cudaFree(p.dptr), "its memory");
    WORKS(cudaGraphLaunch(e, stream), "again");
    WORKS(cudaFreeAsync(p.dptr, stream), "its memory");
    SAYS(cudaGraphExecDestroy(e), "first");
    SAYS(cudaGraphInstantiate(&second, g, cudaGraphInstantiateFlagAutoFreeOnLaunch), "after the first has gone");
    WORKS(cudaGraphLaunch(second, stream), "frees at launch");
    WORKS(cudaGraphLaunch(second, stream), "frees at launch");
    WORKS(cudaStreamSynchronize(stream), "all");
    SAYS(cudaGraphExecDestroy(second), "second");
    SAYS(cudaGraphDestroy(g), "it");
    SAYS(cudaDeviceGraphMemTrim(0), "usual");
    SAYS(cudaDeviceGraphMemTrim(9), "no device");
}

static void capture()
{
    cudaGraph_t g = NULL;
    cudaStreamCaptureStatus status;
    cudaStream_t other;
    cudaEvent_t event;
    int host;
    void *p;
    MUST(cudaStreamCreate(&other));
    MUST(cudaEventCreate(&event));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal), "legacy");
    SAYS(cudaStreamBeginCapture(stream, (cudaStreamCaptureMode)7), "mode 7");
    SAYS(cudaStreamBeginCapture(WRONG(cudaStream_t), cudaStreamCaptureModeGlobal), "no stream");
    SAYS(cudaStreamEndCapture(stream, &g), "not begun");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "usual");
    SAYS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "again");
    WORKS(cudaStreamIsCapturing(stream, &status), "yes");
    VALUE("status", "%d", (int)status);
    SAYS(cudaStreamQuery(stream), "captured");
    WORKS(cudaStreamIsCapturing(stream, &status), "after a query");
    VALUE("status", "%d", (int)status);
    SAYS(cudaStreamEndCapture(stream, &g), "invalidated");
    VALUE("graph", "%d", g != NULL);
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "once more");
    SAYS(cudaStreamSynchronize(stream), "captured");
    SAYS(cudaMemsetAsync(device, 0, 4, stream), "invalidated");
    SAYS(cudaStreamEndCapture(stream, &g), "invalidated");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "once more");
    SAYS(cudaMemset(device, 0, 4), "legacy, while one is captured");
    SAYS(cudaStreamEndCapture(stream, &g), "after it");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "once more");
    SAYS(cudaMalloc(&p, 16), "an unsafe call");
    SAYS(cudaStreamEndCapture(stream, &g), "after it");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "relaxed");
    SAYS(cudaMalloc(&p, 16), "an unsafe call");
    SAYS(cudaDeviceSynchronize(), "captured");
    SAYS(cudaStreamEndCapture(stream, &g), "after it");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "for events");
    WORKS(cudaEventRecord(event, stream), "captured");
    SAYS(cudaEventQuery(event), "captured");
    SAYS(cudaStreamEndCapture(stream, &g), "after it");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "for a fork");
    WORKS(cudaEventRecord(event, stream), "captured");
    WORKS(cudaStreamWaitEvent(other, event, 0), "another stream joins");
    WORKS(cudaMemsetAsync(device, 0, 4, other), "there");
    GIVES(cudaErrorStreamCaptureUnjoined, cudaStreamEndCapture(stream, &g), "not joined");
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "for a node");
    WORKS(cudaMemcpyAsync(&host, device, 4, cudaMemcpyDeviceToHost, stream), "captured");
    one<<<1, 1, 0, stream>>>(device, 1);
    WORKS(cudaGetLastError(), "captured launch");
    SAYS(cudaStreamDestroy(other), "another stream");
    WORKS(cudaStreamEndCapture(stream, &g), "two nodes");
    size_t count = 0;
    WORKS(cudaGraphGetNodes(g, NULL, &count), "how many");
    VALUE("count", "%zu", count);
    MUST(cudaGraphDestroy(g));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    WORKS(cudaThreadExchangeStreamCaptureMode(&mode), "relaxed");
    VALUE("mode before", "%d", (int)mode);
    mode = (cudaStreamCaptureMode)8;
    SAYS(cudaThreadExchangeStreamCaptureMode(&mode), "mode 8");
    SAYS(cudaThreadExchangeStreamCaptureMode(NULL), "null pointer");
    MUST(cudaEventDestroy(event));
}

/* A captured kernel has the priority of its stream; it counts where the executable says so. */
static void priorities()
{
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t e;
    cudaGraphNode_t node;
    size_t count = 1;
    unsigned long long flags = 0;
    cudaLaunchAttributeValue value = {};
    int result = 0;
    MUST(cudaStreamCreateWithPriority(&s, 0, -3));
    MUST(cudaMemset(device, 0, 4));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    one<<<1, 1, 0, s>>>(device, 1);
    MUST(cudaStreamEndCapture(s, &g));
    MUST(cudaGraphGetNodes(g, &node, &count));
    WORKS(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &value), "captured");
    VALUE("priority", "%d", value.priority);
    value.priority = -1;
    WORKS(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value), "another");
    value.priority = 0;
    WORKS(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &value), "another");
    VALUE("priority", "%d", value.priority);
    for (unsigned flag : { 0u, (unsigned)cudaGraphInstantiateFlagUseNodePriority }) {
        WORKS(cudaGraphInstantiate(&e, g, flag), "without and with priorities");
        WORKS(cudaGraphExecGetFlags(e, &flags), "its flags");
        VALUE("flags", "%llu", flags);
        WORKS(cudaGraphLaunch(e, stream), "without and with priorities");
        MUST(cudaGraphExecDestroy(e));
    }
    WORKS(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost), "both have run");
    VALUE("result", "%d", result);
    MUST(cudaGraphDestroy(g));
    MUST(cudaStreamDestroy(s));
}

/* Which attributes a node has, whatever their values. */
static void attributes()
{
    cudaGraph_t g;
    cudaGraphNode_t node, empty;
    int number = 1;
    void *arguments[] = { &device, &number };
    cudaKernelNodeParams p = kernel_node(arguments);
    cudaLaunchAttributeValue value = {};
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphAddKernelNode(&node, g, NULL, 0, &p));
    MUST(cudaGraphAddEmptyNode(&empty, g, NULL, 0));
    for (int id = -1; id < (RUNTIME >= 13 ? 16 : 14); id++) {     // 12.4 has no 14
        VALUE("attribute", "%d", id);
        SAYS(cudaGraphKernelNodeGetAttribute(node, (cudaLaunchAttributeID)id, &value), "of a node");
        memset(&value, 0, sizeof value);
        SAYS(cudaGraphKernelNodeSetAttribute(node, (cudaLaunchAttributeID)id, &value), "zero");
    }
#if RUNTIME >= 13
    for (int updatable = 0; updatable <= 2; updatable++) {
        memset(&value, 0, sizeof value);
        value.deviceUpdatableKernelNode.deviceUpdatable = updatable;
        VALUE("updatable", "%d", updatable);
        SAYS(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributeDeviceUpdatableKernelNode, &value), "of a node");
    }
    SAYS(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeDeviceUpdatableKernelNode, &value), "of a node");
    VALUE("updatable", "%d", value.deviceUpdatableKernelNode.deviceUpdatable);
    VALUE("has a device node", "%d", value.deviceUpdatableKernelNode.devNode != NULL);
#endif
    SAYS(cudaGraphKernelNodeGetAttribute(empty, cudaLaunchAttributePriority, &value), "no kernel");
    SAYS(cudaGraphKernelNodeSetAttribute(empty, cudaLaunchAttributePriority, &value), "no kernel");
    MUST(cudaGraphDestroy(g));
}

/* Memory that a capture allocates is freed once there. A launch whose memory has not been freed is refused. */
static void captured_memory()
{
    cudaGraph_t g;
    cudaGraphExec_t e;
    void *memory;
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "for memory");
    WORKS(cudaMallocAsync(&memory, 4096, stream), "captured");
    WORKS(cudaFreeAsync(memory, stream), "captured");
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(memory, stream), "once more");
    GIVES(cudaErrorInvalidValue, cudaFreeAsync(device, stream), "memory of cudaMalloc");
    SAYS(cudaStreamEndCapture(stream, &g), "after it");
    size_t count = 0;
    WORKS(cudaGraphGetNodes(g, NULL, &count), "how many");
    VALUE("count", "%zu", count);
    MUST(cudaGraphDestroy(g));
    WORKS(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "for memory");
    WORKS(cudaMallocAsync(&memory, 4096, stream), "captured");
    WORKS(cudaStreamEndCapture(stream, &g), "it stays");
    WORKS(cudaGraphInstantiateWithFlags(&e, g, 0), "usual");
    WORKS(cudaGraphLaunch(e, stream), "first");
    GIVES(cudaErrorInvalidValue, cudaGraphLaunch(e, stream), "its memory is not free");
    WORKS(cudaFreeAsync(memory, stream), "of the launch");
    WORKS(cudaGraphLaunch(e, stream), "again");
    WORKS(cudaFree(memory), "of the launch");
    GIVES(cudaErrorInvalidValue, cudaFree(memory), "once more");
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
    WORKS(cudaDeviceGraphMemTrim(0), "usual");
    SAYS(cudaDeviceGraphMemTrim(99), "device 99");
    uint64_t bytes = 0;
    WORKS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes), "now");
    VALUE("used", "%llu", (unsigned long long)bytes);
    SAYS(cudaDeviceGetGraphMemAttribute(0, (cudaGraphMemAttributeType)9, &bytes), "attribute 9");
    SAYS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, NULL), "null pointer");
    SAYS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &bytes), "not a high water mark");
    bytes = 0;
    WORKS(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &bytes), "zero");
}

#if RUNTIME >= 13 // before, cudaGraphAddNode has other arguments
static cudaError_t add_condition(cudaGraphNode_t *node, cudaGraph_t g, cudaGraphConditionalHandle handle, int type,
                                 unsigned size, cudaGraph_t *body)
{
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = handle;
    p.conditional.type = (cudaGraphConditionalNodeType)type;
    p.conditional.size = size;
    cudaError_t error = cudaGraphAddNode(node, g, NULL, NULL, 0, &p);
    if (!error)
        *body = p.conditional.phGraph_out[size - 1];
    return error;
}

static void conditions()
{
    cudaGraph_t g, other, body, inner, clone;
    cudaGraphNode_t node, child;
    cudaGraphExec_t e, second;
    cudaGraphConditionalHandle handle, again;
    cudaHostNodeParams host = { nothing, NULL };
    int number = 5, result = 0;
    void *arguments[] = { &device, &number };
    cudaKernelNodeParams p = kernel_node(arguments);
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphCreate(&other, 0));
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(NULL, g, 0, 0), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, NULL, 0, 0), "null graph");
    GIVES(cudaErrorInvalidValue, cudaGraphConditionalHandleCreate(&handle, g, 0, 2), "flags");
    WORKS(cudaGraphConditionalHandleCreate(&handle, g, 0, cudaGraphCondAssignDefault), "0");
    const struct { int type; unsigned size; } wrong[] = { { 0, 0 }, { 0, 3 }, { 1, 0 }, { 1, 2 }, { 2, 0 }, { 3, 1 } };
    for (const auto &w : wrong)
        GIVES(cudaErrorInvalidValue, add_condition(&node, g, handle, w.type, w.size, &body), "type and size");
    GIVES(cudaErrorInvalidValue, add_condition(&node, g, 0, 0, 1, &body), "no handle");
    GIVES(cudaErrorInvalidValue, add_condition(&node, other, handle, 0, 1, &body), "the handle of another graph");
    cudaGraphInstantiateParams how = {};
    SAYS(cudaGraphInstantiateWithParams(&e, g, &how), "a handle without a node");
    VALUE("result", "%d", (int)how.result_out);
    WORKS(add_condition(&node, g, handle, cudaGraphCondTypeIf, 2, &body), "if and else");
    GIVES(cudaErrorInvalidValue, add_condition(&child, g, handle, 0, 1, &inner), "the same handle");
    WORKS(cudaGraphAddKernelNode(&child, body, NULL, 0, &p), "in the else");
    cudaGraphNode_t unwanted = NULL;
    SAYS(cudaGraphAddHostNode(&unwanted, body, NULL, 0, &host), "in a body");
    if (unwanted)
        MUST(cudaGraphDestroyNode(unwanted));
    SAYS(cudaGraphClone(&clone, g), "with a condition");
    SAYS(cudaGraphAddChildGraphNode(&child, other, NULL, 0, g), "with a condition");
    SAYS(cudaGraphDestroy(body), "a body");
    cudaGraphNodeType kind;
    WORKS(cudaGraphNodeGetType(node, &kind), "a condition");
    VALUE("kind", "%d", (int)kind);
    WORKS(cudaGraphConditionalHandleCreate(&again, body, 3, cudaGraphCondAssignDefault), "of the body");
    WORKS(add_condition(&child, body, again, cudaGraphCondTypeSwitch, 4, &inner), "in the body");
    WORKS(cudaGraphAddKernelNode(&child, inner, NULL, 0, &p), "in the last one");
    WORKS(cudaGraphInstantiateWithParams(&e, g, &how), "usual");
    SAYS(cudaGraphInstantiateWithFlags(&second, g, 0), "a second one");
    MUST(cudaMemset(device, 0, 4));
    for (int i = 0; i < 3; i++)
        WORKS(cudaGraphLaunch(e, stream), "several times");
    WORKS(cudaStreamSynchronize(stream), "they have run");
    MUST(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost));
    VALUE("result", "%d", result);
    cudaGraphExecUpdateResultInfo info;
    number = 7;
    WORKS(cudaGraphKernelNodeSetParams(child, &p), "in a body");
    WORKS(cudaGraphExecUpdate(e, g, &info), "by its own graph");
    VALUE("result", "%d", (int)info.result);
    WORKS(cudaGraphLaunch(e, stream), "with it");
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost));
    VALUE("result", "%d", result);
    SAYS(cudaGraphExecUpdate(e, other, &info), "by another graph");
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
    MUST(cudaGraphDestroy(other));
}
#else
static void conditions() {}
#endif

int main()
{
    MUST(cudaMalloc((void **)&device, 64));
    MUST(cudaStreamCreate(&stream));
    making();
    executables();
    memory_nodes();
    capture();
    priorities();
    attributes();
    captured_memory();
    conditions();
    return 0;
}
