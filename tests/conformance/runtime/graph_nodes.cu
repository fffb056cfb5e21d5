// shows: conformance: the parameters of graph nodes: each kind is added, read and changed, in the graph and in its
//   executable, with what CUDA refuses, line by line with NVIDIA's runtime
#include "../suite.h"

__global__ void one(int *out, int value) { *out += value; }
__device__ int variable[16];
static void CUDART_CB nothing(void *) {}
static void CUDART_CB other_nothing(void *) {}

enum { BYTES = 256 };
static char *device, *more;
static char host[BYTES];
static cudaStream_t stream;
static cudaGraph_t graph;
static cudaGraphNode_t empty, node;
static cudaGraphExec_t ready;
static const cudaGraphNode_t no_node = WRONG(cudaGraphNode_t);

static void begin()
{
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphAddEmptyNode(&empty, graph, NULL, 0));
}

static void instantiate()
{
    WORKS(cudaGraphInstantiate(&ready, graph, 0), "usual");
}

static void end()
{
    WORKS(cudaGraphLaunch(ready, stream), "usual");
    WORKS(cudaStreamSynchronize(stream), "usual");
    MUST(cudaGraphExecDestroy(ready));
    MUST(cudaGraphDestroy(graph));
}

/* ---- kernels ---- */

static void kernels()
{
    int value = 1, *at = (int *)device;
    void *arguments[] = { &at, &value };
    cudaGraphNode_t second;
    cudaKernelNodeParams p = {}, got = {};
    cudaLaunchAttributeValue v = {};
    begin();
    p.func = (void *)one;
    p.gridDim = p.blockDim = 1;
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, graph, NULL, 0, &p));
    MUST(cudaGraphAddKernelNode(&second, graph, &node, 1, &p));
    WORKS(cudaGraphKernelNodeGetParams(node, &got), "usual");
    VALUE("function", "%d", got.func == (void *)one);
    VALUE("blocks", "%u", got.gridDim.x);
    VALUE("value", "%d", *(int *)got.kernelParams[1]);
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeGetParams(no_node, &got), "no node");
    p.blockDim = 2;
    WORKS(cudaGraphKernelNodeSetParams(node, &p), "usual");
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetParams(empty, &p), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetParams(no_node, &p), "no node");
    p.func = (void *)&value;
    SAYS(cudaGraphKernelNodeSetParams(node, &p), "no kernel");
    p.func = (void *)one;
    p.kernelParams = NULL;
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeSetParams(node, &p), "no arguments");
    p.kernelParams = arguments;
    v.priority = -2;
    MUST(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &v));
    WORKS(cudaGraphKernelNodeCopyAttributes(second, node), "usual");
    v.priority = 0;
    WORKS(cudaGraphKernelNodeGetAttribute(second, cudaLaunchAttributePriority, &v), "copied");
    VALUE("priority", "%d", v.priority);
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeCopyAttributes(second, empty), "of an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphKernelNodeCopyAttributes(NULL, node), "to null");
    instantiate();
    value = 5;
    WORKS(cudaGraphExecKernelNodeSetParams(ready, node, &p), "usual");
    GIVES(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(ready, empty, &p), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(NULL, node, &p), "null executable");
    p.func = (void *)&value;
    SAYS(cudaGraphExecKernelNodeSetParams(ready, node, &p), "no kernel");
    end();
}

/* ---- copies ---- */

static cudaMemcpy3DParms box(void *to, const void *from, size_t width)
{
    cudaMemcpy3DParms p = {};
    p.dstPtr = make_cudaPitchedPtr(to, width, width, 1);
    p.srcPtr = make_cudaPitchedPtr((void *)from, width, width, 1);
    p.extent = make_cudaExtent(width, 1, 1);
    p.kind = cudaMemcpyDefault;
    return p;
}

static void copies()
{
    cudaMemcpy3DParms p = box(device, host, 64), got = {};
    begin();
    WORKS(cudaGraphAddMemcpyNode(&node, graph, &empty, 1, &p), "a copy");
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(NULL, graph, NULL, 0, &p), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(&node, NULL, NULL, 0, &p), "null graph");
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(&node, graph, NULL, 1, &p), "null dependencies");
    GIVES(cudaErrorInvalidValue, cudaGraphAddMemcpyNode(&node, graph, NULL, 0, NULL), "null parameters");
    p.kind = (cudaMemcpyKind)9;
    SAYS(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &p), "kind 9");
    p = box(device, NULL, 64);
    SAYS(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &p), "from null");
    p = box(device, host, 0);
    SAYS(cudaGraphAddMemcpyNode(&node, graph, NULL, 0, &p), "no bytes");
    WORKS(cudaGraphMemcpyNodeGetParams(node, &got), "usual");
    VALUE("to", "%d", got.dstPtr.ptr == device);
    VALUE("from", "%d", got.srcPtr.ptr == host);
    VALUE("width", "%zu", got.extent.width);
    VALUE("kind", "%d", (int)got.kind);
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeGetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeGetParams(empty, &got), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeGetParams(no_node, &got), "no node");
    p = box(device, host, 32);
    WORKS(cudaGraphMemcpyNodeSetParams(node, &p), "32 bytes");
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeSetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeSetParams(empty, &p), "an empty node");
    WORKS(cudaGraphMemcpyNodeSetParams1D(node, device, host, 16, cudaMemcpyHostToDevice), "16 bytes");
    GIVES(cudaErrorInvalidValue, cudaGraphMemcpyNodeSetParams1D(node, NULL, host, 16, cudaMemcpyDefault), "to null");
    SAYS(cudaGraphMemcpyNodeSetParams1D(node, device, host, 16, (cudaMemcpyKind)9), "kind 9");
    SAYS(cudaGraphMemcpyNodeSetParams1D(empty, device, host, 16, cudaMemcpyDefault), "an empty node");
    instantiate();
    p = box(more, host, 64);
    WORKS(cudaGraphExecMemcpyNodeSetParams(ready, node, &p), "elsewhere");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemcpyNodeSetParams(ready, node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemcpyNodeSetParams(ready, empty, &p), "an empty node");
    p = box(host, device, 64);
    SAYS(cudaGraphExecMemcpyNodeSetParams(ready, node, &p), "the other way round");
    WORKS(cudaGraphExecMemcpyNodeSetParams1D(ready, node, device, host, 8, cudaMemcpyHostToDevice), "8 bytes");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemcpyNodeSetParams1D(ready, node, NULL, host, 8, cudaMemcpyDefault),
          "to null");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemcpyNodeSetParams1D(NULL, node, device, host, 8, cudaMemcpyDefault),
          "null executable");
    end();
}

static void symbols()
{
    const void *none = host;
    begin();
    WORKS(cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, variable, host, 16, 0, cudaMemcpyHostToDevice), "to");
    SAYS(cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, none, host, 16, 0, cudaMemcpyHostToDevice), "none");
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, variable, host, 16, 60, cudaMemcpyHostToDevice),
          "beyond the end");
    SAYS(cudaGraphAddMemcpyNodeToSymbol(&node, graph, NULL, 0, variable, host, 16, 0, cudaMemcpyDeviceToHost),
         "the wrong way");
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNodeToSymbol(&node, NULL, NULL, 0, variable, host, 16, 0, cudaMemcpyHostToDevice),
          "null graph");
    WORKS(cudaGraphMemcpyNodeSetParamsToSymbol(node, variable, host, 8, 4, cudaMemcpyHostToDevice), "8 bytes");
    GIVES(cudaErrorInvalidValue,
          cudaGraphMemcpyNodeSetParamsToSymbol(node, variable, host, 8, 60, cudaMemcpyHostToDevice), "beyond the end");
    SAYS(cudaGraphMemcpyNodeSetParamsToSymbol(node, none, host, 8, 0, cudaMemcpyHostToDevice), "none");
    instantiate();
    WORKS(cudaGraphExecMemcpyNodeSetParamsToSymbol(ready, node, variable, host, 4, 4, cudaMemcpyHostToDevice), "4");
    GIVES(cudaErrorInvalidValue,
          cudaGraphExecMemcpyNodeSetParamsToSymbol(ready, node, variable, host, 8, 60, cudaMemcpyHostToDevice),
          "beyond the end");
    SAYS(cudaGraphExecMemcpyNodeSetParamsToSymbol(ready, node, none, host, 8, 0, cudaMemcpyHostToDevice), "none");
    end();
    begin();
    WORKS(cudaGraphAddMemcpyNodeFromSymbol(&node, graph, NULL, 0, host, variable, 16, 0, cudaMemcpyDeviceToHost),
          "from");
    SAYS(cudaGraphAddMemcpyNodeFromSymbol(&node, graph, NULL, 0, host, none, 16, 0, cudaMemcpyDeviceToHost), "none");
    GIVES(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNodeFromSymbol(&node, graph, NULL, 0, host, variable, 16, 60, cudaMemcpyDeviceToHost),
          "beyond the end");
    WORKS(cudaGraphMemcpyNodeSetParamsFromSymbol(node, host, variable, 8, 4, cudaMemcpyDeviceToHost), "8 bytes");
    GIVES(cudaErrorInvalidValue,
          cudaGraphMemcpyNodeSetParamsFromSymbol(node, host, variable, 8, 60, cudaMemcpyDeviceToHost),
          "beyond the end");
    instantiate();
    WORKS(cudaGraphExecMemcpyNodeSetParamsFromSymbol(ready, node, host, variable, 4, 4, cudaMemcpyDeviceToHost), "4");
    GIVES(cudaErrorInvalidValue,
          cudaGraphExecMemcpyNodeSetParamsFromSymbol(ready, node, host, variable, 8, 60, cudaMemcpyDeviceToHost),
          "beyond the end");
    end();
}

/* ---- sets, host functions ---- */

static void sets()
{
    cudaMemsetParams p = {}, got = {};
    p.dst = device;
    p.elementSize = 4;
    p.value = 7;
    p.width = 4;
    p.height = 1;
    begin();
    MUST(cudaGraphAddMemsetNode(&node, graph, NULL, 0, &p));
    WORKS(cudaGraphMemsetNodeGetParams(node, &got), "usual");
    VALUE("value", "%u", got.value);
    VALUE("width", "%zu", got.width);
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeGetParams(node, NULL), "null pointer");
    p.width = 2;
    WORKS(cudaGraphMemsetNodeSetParams(node, &p), "2 words");
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(empty, &p), "an empty node");
    p.elementSize = 3;
    GIVES(cudaErrorInvalidValue, cudaGraphMemsetNodeSetParams(node, &p), "elements of 3 bytes");
    p.elementSize = 4;
    instantiate();
    p.dst = more;
    WORKS(cudaGraphExecMemsetNodeSetParams(ready, node, &p), "elsewhere");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(ready, node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(ready, empty, &p), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(NULL, node, &p), "null executable");
    p.dst = NULL;
    GIVES(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(ready, node, &p), "null memory");
    end();
}

static void functions()
{
    cudaHostNodeParams p = { nothing, host }, got = {};
    begin();
    MUST(cudaGraphAddHostNode(&node, graph, NULL, 0, &p));
    WORKS(cudaGraphHostNodeGetParams(node, &got), "usual");
    VALUE("function", "%d", got.fn == nothing && got.userData == host);
    GIVES(cudaErrorInvalidValue, cudaGraphHostNodeGetParams(node, NULL), "null pointer");
    p.fn = other_nothing;
    WORKS(cudaGraphHostNodeSetParams(node, &p), "another");
    GIVES(cudaErrorInvalidValue, cudaGraphHostNodeSetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphHostNodeSetParams(empty, &p), "an empty node");
    instantiate();
    WORKS(cudaGraphExecHostNodeSetParams(ready, node, &p), "another");
    GIVES(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(ready, node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(ready, empty, &p), "an empty node");
    p.fn = NULL;
    GIVES(cudaErrorInvalidValue, cudaGraphExecHostNodeSetParams(ready, node, &p), "null function");
    end();
}

/* ---- events ---- */

static void events()
{
    cudaEvent_t first, second, got = NULL;
    cudaGraphNode_t wait;
    MUST(cudaEventCreate(&first));
    MUST(cudaEventCreate(&second));
    begin();
    WORKS(cudaGraphAddEventRecordNode(&node, graph, NULL, 0, first), "usual");
    GIVES(cudaErrorInvalidValue, cudaGraphAddEventRecordNode(NULL, graph, NULL, 0, first), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphAddEventRecordNode(&wait, NULL, NULL, 0, first), "null graph");
    SAYS(cudaGraphAddEventRecordNode(&wait, graph, NULL, 0, NULL), "null event");
    SAYS(cudaGraphAddEventRecordNode(&wait, graph, NULL, 0, WRONG(cudaEvent_t)), "no event");
    WORKS(cudaGraphAddEventWaitNode(&wait, graph, &node, 1, first), "usual");
    GIVES(cudaErrorInvalidValue, cudaGraphAddEventWaitNode(NULL, graph, NULL, 0, first), "null pointer");
    SAYS(cudaGraphAddEventWaitNode(&empty, graph, NULL, 0, NULL), "null event");
    WORKS(cudaGraphEventRecordNodeGetEvent(node, &got), "usual");
    VALUE("it", "%d", got == first);
    GIVES(cudaErrorInvalidValue, cudaGraphEventRecordNodeGetEvent(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphEventRecordNodeGetEvent(wait, &got), "a node that waits");
    WORKS(cudaGraphEventWaitNodeGetEvent(wait, &got), "usual");
    VALUE("it", "%d", got == first);
    GIVES(cudaErrorInvalidValue, cudaGraphEventWaitNodeGetEvent(wait, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphEventWaitNodeGetEvent(node, &got), "a node that records");
    WORKS(cudaGraphEventRecordNodeSetEvent(node, second), "another");
    GIVES(cudaErrorInvalidValue, cudaGraphEventRecordNodeSetEvent(wait, second), "a node that waits");
    SAYS(cudaGraphEventRecordNodeSetEvent(node, NULL), "null event");
    WORKS(cudaGraphEventWaitNodeSetEvent(wait, second), "another");
    GIVES(cudaErrorInvalidValue, cudaGraphEventWaitNodeSetEvent(node, second), "a node that records");
    SAYS(cudaGraphEventWaitNodeSetEvent(wait, NULL), "null event");
    instantiate();
    WORKS(cudaGraphExecEventRecordNodeSetEvent(ready, node, first), "the first");
    GIVES(cudaErrorInvalidValue, cudaGraphExecEventRecordNodeSetEvent(ready, wait, first), "a node that waits");
    SAYS(cudaGraphExecEventRecordNodeSetEvent(ready, node, NULL), "null event");
    WORKS(cudaGraphExecEventWaitNodeSetEvent(ready, wait, first), "the first");
    GIVES(cudaErrorInvalidValue, cudaGraphExecEventWaitNodeSetEvent(ready, node, first), "a node that records");
    SAYS(cudaGraphExecEventWaitNodeSetEvent(ready, wait, NULL), "null event");
    end();
    WORKS(cudaEventQuery(first), "recorded");
    MUST(cudaEventDestroy(first));
    MUST(cudaEventDestroy(second));
}

/* ---- children ---- */

static void children()
{
    cudaGraph_t child, other, larger;
    cudaGraphNode_t inner;
    cudaHostNodeParams p = { nothing, NULL };
    MUST(cudaGraphCreate(&child, 0));
    MUST(cudaGraphCreate(&other, 0));
    MUST(cudaGraphCreate(&larger, 0));
    MUST(cudaGraphAddHostNode(&inner, child, NULL, 0, &p));
    MUST(cudaGraphAddHostNode(&inner, other, NULL, 0, &p));
    MUST(cudaGraphAddHostNode(&inner, larger, NULL, 0, &p));
    MUST(cudaGraphAddHostNode(&inner, larger, NULL, 0, &p));
    begin();
    MUST(cudaGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    instantiate();
    WORKS(cudaGraphExecChildGraphNodeSetParams(ready, node, other), "of the same form");
    GIVES(cudaErrorInvalidValue, cudaGraphExecChildGraphNodeSetParams(ready, empty, other), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphExecChildGraphNodeSetParams(ready, node, NULL), "null graph");
    SAYS(cudaGraphExecChildGraphNodeSetParams(ready, node, larger), "of another form");
    end();
    MUST(cudaGraphDestroy(child));
    MUST(cudaGraphDestroy(other));
    MUST(cudaGraphDestroy(larger));
}

/* ---- any kind by one function ---- */

static void any_kind()
{
    cudaGraphNodeParams p = {};
    cudaGraphNode_t added;
    begin();
    p.type = cudaGraphNodeTypeMemset;
    p.memset.dst = device;
    p.memset.elementSize = 1;
    p.memset.width = 8;
    p.memset.height = 1;
    WORKS(cudaGraphAddNode(&node, graph, &empty, NULL, 1, &p), "a set");
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(NULL, graph, NULL, NULL, 0, &p), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&added, NULL, NULL, NULL, 0, &p), "null graph");
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&added, graph, NULL, NULL, 0, NULL), "null parameters");
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&added, graph, NULL, NULL, 1, &p), "null dependencies");
    p.memset.width = 16;
    WORKS(cudaGraphNodeSetParams(node, &p), "16 bytes");
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetParams(node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetParams(empty, &p), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphNodeSetParams(no_node, &p), "no node");
    instantiate();
    p.memset.width = 32;
    WORKS(cudaGraphExecNodeSetParams(ready, node, &p), "32 bytes");
    GIVES(cudaErrorInvalidValue, cudaGraphExecNodeSetParams(ready, node, NULL), "null pointer");
    GIVES(cudaErrorInvalidValue, cudaGraphExecNodeSetParams(ready, empty, &p), "an empty node");
    GIVES(cudaErrorInvalidValue, cudaGraphExecNodeSetParams(NULL, node, &p), "null executable");
    p.type = (cudaGraphNodeType)77;
    GIVES(cudaErrorInvalidValue, cudaGraphAddNode(&added, graph, NULL, NULL, 0, &p), "kind 77");
    SAYS(cudaGraphExecNodeSetParams(ready, node, &p), "kind 77");
    end();
}

/* ---- neighbours ---- */

static void neighbours()
{
    cudaGraphNode_t nodes[4];
    size_t count = 4;
    begin();
    MUST(cudaGraphAddEmptyNode(&node, graph, &empty, 1));
    WORKS(cudaGraphGetRootNodes(graph, nodes, &count), "one");
    VALUE("count", "%zu", count);
    GIVES(cudaErrorInvalidValue, cudaGraphGetRootNodes(graph, nodes, NULL), "null count");
    GIVES(cudaErrorInvalidValue, cudaGraphGetRootNodes(NULL, nodes, &count), "null graph");
    GIVES(cudaErrorInvalidValue, cudaGraphGetEdges(graph, nodes, nodes, NULL, NULL), "null count");
    GIVES(cudaErrorInvalidValue, cudaGraphGetEdges(NULL, NULL, NULL, NULL, &count), "null graph");
    GIVES(cudaErrorInvalidValue, cudaGraphNodeGetDependencies(node, nodes, NULL, NULL), "null count");
    GIVES(cudaErrorInvalidValue, cudaGraphNodeGetDependentNodes(empty, nodes, NULL, NULL), "null count");
    GIVES(cudaErrorInvalidValue, cudaGraphNodeGetDependentNodes(no_node, nodes, NULL, &count), "no node");
    MUST(cudaGraphDestroy(graph));
}

int main()
{
    MUST(cudaMalloc((void **)&device, BYTES));
    MUST(cudaMalloc((void **)&more, BYTES));
    MUST(cudaMemset(device, 0, BYTES));
    MUST(cudaStreamCreate(&stream));
    kernels();
    copies();
    symbols();
    sets();
    functions();
    events();
    children();
    any_kind();
    neighbours();
    return 0;
}
