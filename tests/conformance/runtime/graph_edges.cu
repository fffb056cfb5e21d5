// shows: conformance: edges, ports, moved children, memory and objects of graphs, line by line with NVIDIA's runtime
#include "../suite.h"

#include <unistd.h>

#if CUDART_VERSION >= 13000
__global__ void one(int *out, int value) { *out += value; }
static void CUDART_CB nothing(void *) {}

static int *device;
static cudaStream_t stream, other;
static cudaEvent_t event;

static cudaGraphNode_t kernel_node(cudaGraph_t g)
{
    static int value = 1;
    void *arguments[] = { &device, &value };
    cudaGraphNode_t node;
    cudaKernelNodeParams p = {};
    p.func = (void *)one;
    p.gridDim = 1;
    p.blockDim = 1;
    p.kernelParams = arguments;
    MUST(cudaGraphAddKernelNode(&node, g, NULL, 0, &p));
    return node;
}

static cudaGraphNode_t empty_node(cudaGraph_t g)
{
    cudaGraphNode_t node;
    MUST(cudaGraphAddEmptyNode(&node, g, NULL, 0));
    return node;
}

static cudaGraphEdgeData edge_of(int from, int to, int type, int reserved)
{
    cudaGraphEdgeData e = {};
    e.from_port = (unsigned char)from;
    e.to_port = (unsigned char)to;
    e.type = (unsigned char)type;
    e.reserved[2] = (unsigned char)reserved;
    return e;
}

static void print_edges(cudaGraph_t g)
{
    cudaGraphNode_t from[16], to[16];
    cudaGraphEdgeData edges[16];
    size_t count = 16;
    WORKS(cudaGraphGetEdges(g, from, to, edges, &count), "all");
    VALUE("edges", "%zu", count);
    for (size_t i = 0; i < count; i++)
        printf("  type %d from %d to %d\n", edges[i].type, edges[i].from_port, edges[i].to_port);
}

static void ports()
{
    cudaGraph_t g;
    MUST(cudaGraphCreate(&g, 0));
    cudaGraphNode_t a = kernel_node(g), b = kernel_node(g), c = empty_node(g), nodes[4];
    const struct { const char *what; int from, to, type, reserved; } rows[] = {
        { "plain", 0, 0, 0, 0 },          { "programmatic", 1, 0, 1, 0 }, { "begun, programmatic", 2, 0, 1, 0 },
        { "begun", 2, 0, 0, 0 },          { "port 1, plain", 1, 0, 0, 0 }, { "port 0, programmatic", 0, 0, 1, 0 },
        { "port 3", 3, 0, 0, 0 },         { "type 2", 0, 0, 2, 0 },       { "to port 1", 0, 1, 0, 0 },
        { "reserved", 0, 0, 0, 1 },
    };
    for (const auto &r : rows) {
        cudaGraphEdgeData e = edge_of(r.from, r.to, r.type, r.reserved);
        VALUE("edge", "%s", r.what);
        if (cudaGraphAddDependencies(g, &a, &b, &e, 1) == cudaSuccess) {
            print_edges(g);
            size_t count = 2;
            bool says = r.from || r.type;
            GIVES(says ? cudaErrorLossyQuery : cudaSuccess, cudaGraphGetEdges(g, nodes, nodes + 2, NULL, &count),
                  "without data");
            count = 2;
            GIVES(says ? cudaErrorLossyQuery : cudaSuccess, cudaGraphNodeGetDependencies(b, nodes, NULL, &count),
                  "without data");
            count = 2;
            GIVES(says ? cudaErrorLossyQuery : cudaSuccess, cudaGraphNodeGetDependentNodes(a, nodes, NULL, &count),
                  "without data");
            cudaGraphEdgeData edge;
            count = 1;
            SAYS(cudaGraphNodeGetDependencies(b, NULL, &edge, &count), "only the edge");
            SAYS(cudaGraphRemoveDependencies(g, &a, &b, NULL, 1), "without data");
            SAYS(cudaGraphRemoveDependencies(g, &a, &b, &e, 1), "with data");
        } else {
            SAYS(cudaGraphAddDependencies(g, &a, &b, &e, 1), "kernels");
        }
        SAYS(cudaGraphAddDependencies(g, &a, &c, &e, 1), "to an empty node");
        SAYS(cudaGraphRemoveDependencies(g, &a, &c, &e, 1), "it");
        SAYS(cudaGraphAddDependencies(g, &c, &a, &e, 1), "from an empty node");
        SAYS(cudaGraphRemoveDependencies(g, &c, &a, &e, 1), "it");
    }
    cudaGraphEdgeData plain = edge_of(0, 0, 0, 0);
    SAYS(cudaGraphAddDependencies(g, &a, &a, &plain, 1), "itself");
    SAYS(cudaGraphAddDependencies(g, NULL, &a, &plain, 1), "null pointer");
    SAYS(cudaGraphAddDependencies(g, NULL, NULL, NULL, 0), "none");
    WORKS(cudaGraphAddDependencies(g, &a, &b, NULL, 1), "once");
    SAYS(cudaGraphAddDependencies(g, &a, &b, NULL, 1), "twice");
    WORKS(cudaGraphRemoveDependencies(g, &a, &b, NULL, 1), "once");
    SAYS(cudaGraphRemoveDependencies(g, &a, &b, NULL, 1), "twice");
    MUST(cudaGraphDestroy(g));
}

/* ---- captured launches ---- */

static cudaError_t launch(cudaLaunchAttribute *attribute, cudaStream_t where)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 1;
    config.stream = where;
    config.attrs = attribute;
    config.numAttrs = attribute ? 1 : 0;
    return cudaLaunchKernelEx(&config, one, device, 1);
}

static cudaLaunchAttribute serialization(int value)
{
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = value;
    return a;
}

static cudaLaunchAttribute programmatic(cudaEvent_t e, int at_start)
{
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeProgrammaticEvent;
    a.val.programmaticEvent.event = e;
    a.val.programmaticEvent.triggerAtBlockStart = at_start;
    return a;
}

static cudaLaunchAttribute begun(cudaEvent_t e)
{
    cudaLaunchAttribute a = {};
    a.id = cudaLaunchAttributeLaunchCompletionEvent;
    a.val.launchCompletionEvent.event = e;
    return a;
}

static void end_and_print()
{
    cudaGraph_t g;
    cudaGraphExec_t e;
    WORKS(cudaStreamEndCapture(stream, &g), "usual");
    print_edges(g);
    WORKS(cudaGraphInstantiate(&e, g, 0), "usual");
    WORKS(cudaGraphLaunch(e, stream), "usual");
    WORKS(cudaStreamSynchronize(stream), "usual");
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

static void launches()
{
    cudaLaunchAttribute yes = serialization(1), no = serialization(0);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    WORKS(launch(&yes, stream), "the first one");
    WORKS(launch(&yes, stream), "behind a kernel");
    WORKS(launch(&no, stream), "not allowed");
    WORKS(cudaMemsetAsync(device, 0, 4, stream), "between");
    WORKS(launch(&yes, stream), "behind a set");
    end_and_print();
    for (int at_start = 0; at_start < 2; at_start++) {
        cudaLaunchAttribute a = programmatic(event, at_start);
        MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
        WORKS(launch(&a, stream), "with an event");
        WORKS(cudaStreamWaitEvent(other, event, 0), "joins");
        WORKS(launch(NULL, other), "behind it");
        WORKS(cudaEventRecord(event, other), "usual");
        WORKS(cudaStreamWaitEvent(stream, event, 0), "joined");
        end_and_print();
    }
    cudaLaunchAttribute a = begun(event);
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    WORKS(launch(&a, stream), "with an event");
    WORKS(cudaStreamWaitEvent(other, event, 0), "joins");
    WORKS(launch(NULL, other), "behind it");
    WORKS(cudaEventRecord(event, other), "usual");
    WORKS(cudaStreamWaitEvent(stream, event, 0), "joined");
    end_and_print();
    /* outside a capture */
    WORKS(launch(&a, stream), "begun");
    WORKS(cudaEventSynchronize(event), "begun");
    a = programmatic(event, 0);
    WORKS(launch(&a, stream), "programmatic");
    WORKS(cudaEventSynchronize(event), "programmatic");
    WORKS(cudaStreamSynchronize(stream), "all");
}

/* ---- children ---- */

static cudaError_t add_child(cudaGraphNode_t *node, cudaGraph_t g, cudaGraph_t child, int ownership)
{
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeGraph;
    p.graph.graph = child;
    p.graph.ownership = (cudaGraphChildGraphNodeOwnership)ownership;
    return cudaGraphAddNode(node, g, NULL, NULL, 0, &p);
}

static cudaMemAllocNodeParams memory_of(size_t size)
{
    cudaMemAllocNodeParams p = {};
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = size;
    return p;
}

static void children()
{
    cudaGraph_t g, child, found, clone;
    cudaGraphNode_t node, inner, more;
    cudaGraphExec_t e;
    cudaMemAllocNodeParams p = memory_of(4096);
    cudaGraphExecUpdateResultInfo info;
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphCreate(&child, 0));
    WORKS(cudaGraphAddMemAllocNode(&inner, child, NULL, 0, &p), "in the child");
    SAYS(add_child(&node, g, child, cudaGraphChildGraphOwnershipClone), "a copy, with memory");
    SAYS(add_child(&node, g, child, 7), "ownership 7");
    SAYS(add_child(&node, g, g, cudaGraphChildGraphOwnershipMove), "itself");
    WORKS(add_child(&node, g, child, cudaGraphChildGraphOwnershipMove), "moved");
    WORKS(cudaGraphChildGraphNodeGetGraph(node, &found), "moved");
    VALUE("the same", "%d", found == child);
    SAYS(add_child(&more, g, child, cudaGraphChildGraphOwnershipMove), "moved again");
    SAYS(add_child(&more, g, child, cudaGraphChildGraphOwnershipClone), "moved, copied");
    SAYS(cudaGraphInstantiate(&e, child, 0), "a moved graph");
    SAYS(cudaGraphDestroy(child), "a moved graph");
    SAYS(cudaGraphAddMemAllocNode(&more, child, NULL, 0, &p), "more memory");
    SAYS(cudaGraphAddMemFreeNode(&more, child, &inner, 1, p.dptr), "a free");
    SAYS(cudaGraphAddEmptyNode(&more, child, NULL, 0), "an empty node");
    SAYS(cudaGraphClone(&clone, g), "with memory");
    WORKS(cudaGraphAddMemFreeNode(&more, g, &node, 1, p.dptr), "in the parent");
    WORKS(cudaGraphInstantiate(&e, g, 0), "usual");
    for (int i = 0; i < 3; i++)
        WORKS(cudaGraphLaunch(e, stream), "usual");
    SAYS(cudaGraphExecUpdate(e, child, &info), "by a moved graph");
    WORKS(cudaStreamSynchronize(stream), "all");
    MUST(cudaGraphExecDestroy(e));
    WORKS(cudaGraphDestroy(g), "the parent");
    SAYS(cudaGraphDestroy(child), "gone with the parent");
}

/* ---- memory ---- */

static void memory()
{
    cudaGraph_t g;
    cudaGraphNode_t a, f;
    cudaGraphExec_t e;
    void *freed = NULL;
    cudaMemAllocNodeParams p = memory_of(1 << 20), read = {};
    cudaMemAccessDesc access = {};
    access.location.type = cudaMemLocationTypeDevice;
    access.flags = cudaMemAccessFlagsProtReadWrite;
    MUST(cudaGraphCreate(&g, 0));
    p.accessDescs = &access;
    p.accessDescCount = 1;
    WORKS(cudaGraphAddMemAllocNode(&a, g, NULL, 0, &p), "its own device");
    access.location.id = 77;
    SAYS(cudaGraphAddMemAllocNode(&f, g, NULL, 0, &p), "device 77");
    access.location.id = 0;
    access.flags = (cudaMemAccessFlags)9;
    SAYS(cudaGraphAddMemAllocNode(&f, g, NULL, 0, &p), "access 9");
    WORKS(cudaGraphMemAllocNodeGetParams(a, &read), "usual");
    VALUE("bytes", "%zu", read.bytesize);
    VALUE("device", "%d", read.poolProps.location.id);
    SAYS(cudaGraphMemAllocNodeGetParams(a, NULL), "null pointer");
    SAYS(cudaGraphMemFreeNodeGetParams(a, &freed), "an allocation");
    WORKS(cudaGraphAddMemFreeNode(&f, g, &a, 1, read.dptr), "usual");
    SAYS(cudaGraphMemAllocNodeGetParams(f, &read), "a free");
    WORKS(cudaGraphMemFreeNodeGetParams(f, &freed), "usual");
    VALUE("the same", "%d", freed == read.dptr);
    SAYS(cudaFree(freed), "before the launch");
    SAYS(cudaGraphRemoveDependencies(g, &a, &f, NULL, 1), "with memory");
    SAYS(cudaGraphDestroyNode(f), "a free");
    WORKS(cudaGraphInstantiate(&e, g, 0), "usual");
    SAYS(cudaGraphNodeSetEnabled(e, a, 0), "an allocation");
    WORKS(cudaGraphUpload(e, stream), "usual");
    uint64_t bytes = 0;
    for (int which = 0; which < 4; which++) {
        WORKS(cudaDeviceGetGraphMemAttribute(0, (cudaGraphMemAttributeType)which, &bytes), "uploaded");
        VALUE("bytes", "%llu", (unsigned long long)bytes);
    }
    for (int which = 0; which < 5; which++) {
        bytes = 0;
        SAYS(cudaDeviceSetGraphMemAttribute(0, (cudaGraphMemAttributeType)which, &bytes), "zero");
        bytes = 1;
        SAYS(cudaDeviceSetGraphMemAttribute(0, (cudaGraphMemAttributeType)which, &bytes), "one");
    }
    WORKS(cudaGraphLaunch(e, stream), "usual");
    SAYS(cudaFree(freed), "the graph has freed it");
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
    WORKS(cudaStreamSynchronize(stream), "all");
    WORKS(cudaDeviceGraphMemTrim(0), "nothing is used");
    WORKS(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &bytes), "trimmed");
    VALUE("bytes", "%llu", (unsigned long long)bytes);
}

/* ---- capture: what it tells, and how it is steered ---- */

static void steering()
{
    cudaStreamCaptureStatus status;
    unsigned long long id = 0;
    cudaGraph_t g, into, foreign;
    const cudaGraphNode_t *before = NULL;
    const cudaGraphEdgeData *edges = NULL;
    size_t count = 9;
    MUST(cudaGraphCreate(&into, 0));
    MUST(cudaGraphCreate(&foreign, 0));
    cudaGraphNode_t node = kernel_node(into), strange = empty_node(foreign);
    SAYS(cudaStreamGetCaptureInfo(stream, NULL, &id, &g, &before, &edges, &count), "null status");
    WORKS(cudaStreamGetCaptureInfo(stream, &status, &id, &g, &before, &edges, &count), "no capture");
    VALUE("status", "%d", (int)status);
    SAYS(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, 0), "no capture");
    SAYS(cudaStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, cudaStreamCaptureModeRelaxed), "null graph");
    SAYS(cudaStreamBeginCaptureToGraph(stream, into, &strange, NULL, 1, cudaStreamCaptureModeRelaxed), "foreign node");
    SAYS(cudaStreamBeginCaptureToGraph(stream, into, NULL, NULL, 1, cudaStreamCaptureModeRelaxed), "null nodes");
    SAYS(cudaStreamBeginCaptureToGraph(stream, into, &node, NULL, 1, (cudaStreamCaptureMode)5), "mode 5");
    cudaGraphEdgeData early = edge_of(1, 0, 1, 0);
    WORKS(cudaStreamBeginCaptureToGraph(stream, into, &node, &early, 1, cudaStreamCaptureModeRelaxed), "usual");
    WORKS(cudaStreamGetCaptureInfo(stream, &status, &id, &g, &before, &edges, &count), "begun");
    VALUE("status", "%d", (int)status);
    VALUE("graph", "%d", g == into);
    VALUE("count", "%zu", count);
    VALUE("node", "%d", before[0] == node);
    VALUE("type", "%d", edges[0].type);
    SAYS(cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL, NULL), "only the status");
    GIVES(cudaErrorLossyQuery, cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, &before, NULL, &count),
          "without edges, which say more");
    GIVES(cudaErrorInvalidValue, cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, &edges, &count),
          "only edges");
    SAYS(cudaStreamUpdateCaptureDependencies(stream, &strange, NULL, 1, 0), "foreign node");
    SAYS(cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 1, 0), "null nodes");
    SAYS(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, 7), "flags 7");
    WORKS(launch(NULL, stream), "behind the edge");
    WORKS(cudaStreamUpdateCaptureDependencies(stream, &node, NULL, 1, cudaStreamAddCaptureDependencies), "one more");
    WORKS(cudaStreamGetCaptureInfo(stream, &status, &id, &g, &before, &edges, &count), "two");
    VALUE("count", "%zu", count);
    WORKS(cudaStreamUpdateCaptureDependencies(stream, NULL, NULL, 0, cudaStreamSetCaptureDependencies), "none");
    WORKS(cudaMemsetAsync(device, 0, 4, stream), "behind nothing");
    SAYS(cudaGraphDestroy(into), "captured");
    SAYS(cudaStreamEndCapture(stream, &g), "usual");
    VALUE("graph", "%d", g == into);
    print_edges(into);
    WORKS(cudaGraphGetRootNodes(into, NULL, &count), "how many");
    VALUE("count", "%zu", count);
    MUST(cudaGraphDestroy(into));
    MUST(cudaGraphDestroy(foreign));
}

/* ---- executables ---- */

static void flags()
{
    cudaGraph_t g, none;
    cudaGraphExec_t e = NULL;
    MUST(cudaGraphCreate(&g, 0));
    cudaGraphNode_t node = kernel_node(g), empty = empty_node(g), host, recorded, set;
    cudaHostNodeParams h = { nothing, NULL };
    cudaMemsetParams m = {};
    m.dst = device, m.elementSize = 4, m.width = 1, m.height = 1;
    MUST(cudaGraphAddMemsetNode(&set, g, NULL, 0, &m));
    MUST(cudaGraphAddHostNode(&host, g, NULL, 0, &h));
    MUST(cudaGraphAddEventRecordNode(&recorded, g, NULL, 0, event));
    cudaGraphInstantiateParams how = {};
    SAYS(cudaGraphInstantiate(&e, g, cudaGraphInstantiateFlagDeviceLaunch), "with a host function");
    for (unsigned flag : { 0u, 1u, 2u, 4u, 8u, 5u, 6u, 9u, 16u }) {
        how.flags = flag;
        how.uploadStream = stream;
        VALUE("flags", "%u", flag);
        SAYS(cudaGraphInstantiateWithParams(&e, g, &how), "flags");
        VALUE("result", "%d", (int)how.result_out);
        VALUE("node", "%d", how.errNode_out == empty);
    }
    MUST(cudaGraphCreate(&none, 0));
    how.flags = cudaGraphInstantiateFlagDeviceLaunch;
    GIVES(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&e, none, &how), "an empty graph, for devices");
    MUST(cudaGraphDestroy(none));
    WORKS(cudaGraphInstantiate(&e, g, 0), "usual");
    const struct { const char *what; cudaGraphNode_t node; } rows[] = {
        { "kernel", node }, { "empty", empty }, { "set", set }, { "host", host }, { "event", recorded },
    };
    for (const auto &r : rows) {
        unsigned is = 7;
        VALUE("node", "%s", r.what);
        SAYS(cudaGraphNodeSetEnabled(e, r.node, 0), "off");
        SAYS(cudaGraphNodeGetEnabled(e, r.node, &is), "off");
        VALUE("enabled", "%u", is);
    }
    WORKS(cudaGraphLaunch(e, stream), "partly off");
    WORKS(cudaStreamSynchronize(stream), "all");
    MUST(cudaGraphExecDestroy(e));
    MUST(cudaGraphDestroy(g));
}

static void objects()
{
    cudaUserObject_t object;
    cudaGraph_t g;
    int value;
    MUST(cudaGraphCreate(&g, 0));
    SAYS(cudaUserObjectCreate(NULL, &value, nothing, 1, cudaUserObjectNoDestructorSync), "null pointer");
    SAYS(cudaUserObjectCreate(&object, &value, NULL, 1, cudaUserObjectNoDestructorSync), "null function");
    SAYS(cudaUserObjectCreate(&object, &value, nothing, 0, cudaUserObjectNoDestructorSync), "no references");
    SAYS(cudaUserObjectCreate(&object, &value, nothing, 1u << 31, cudaUserObjectNoDestructorSync), "2^31 references");
    SAYS(cudaUserObjectCreate(&object, &value, nothing, 1, 0), "no flags");
    WORKS(cudaUserObjectCreate(&object, &value, nothing, 2, cudaUserObjectNoDestructorSync), "usual");
    WORKS(cudaUserObjectRetain(object, 1), "one");
    WORKS(cudaUserObjectRelease(object, 1), "one");
    SAYS(cudaUserObjectRetain(object, 0), "none");
    SAYS(cudaUserObjectRelease(object, 0), "none");
    SAYS(cudaUserObjectRetain(NULL, 1), "null object");
    SAYS(cudaGraphRetainUserObject(g, object, 0, 0), "none");
    SAYS(cudaGraphRetainUserObject(g, object, 1, 4), "flags 4");
    SAYS(cudaGraphRetainUserObject(NULL, object, 1, 0), "null graph");
    SAYS(cudaGraphReleaseUserObject(g, object, 1), "it has none");
    WORKS(cudaGraphRetainUserObject(g, object, 2, 0), "two");
    WORKS(cudaGraphReleaseUserObject(g, object, 1), "one");
    WORKS(cudaUserObjectRelease(object, 2), "the program's");
    MUST(cudaGraphDestroy(g));
}

/* The file has to be what Graphviz reads: braces and quotes in pairs. */
static void description()
{
    cudaGraph_t g, child;
    cudaGraphNode_t node;
    char path[] = "/tmp/flyt-conformance-XXXXXX";
    static char text[1 << 16];
    close(mkstemp(path));
    MUST(cudaGraphCreate(&g, 0));
    MUST(cudaGraphCreate(&child, 0));
    kernel_node(child);
    kernel_node(g);
    empty_node(g);
    MUST(cudaGraphAddChildGraphNode(&node, g, NULL, 0, child));
    for (unsigned bit = 0; bit <= 16; bit++) {
        VALUE("bit", "%u", bit);
        SAYS(cudaGraphDebugDotPrint(g, path, 1u << bit), "one flag");
        FILE *f = fopen(path, "r");
        size_t size = f ? fread(text, 1, sizeof text - 1, f) : 0;
        if (f)
            fclose(f);
        text[size] = 0;
        int depth = 0, quotes = 0, arrows = 0;
        for (size_t i = 0; i < size; i++) {
            quotes ^= text[i] == '"' && (!i || text[i - 1] != '\\');
            depth += quotes ? 0 : (text[i] == '{') - (text[i] == '}');
            arrows += !quotes && !strncmp(&text[i], "->", 2);
        }
        VALUE("begins", "%d", !strncmp(text, "digraph", 7));
        VALUE("balanced", "%d", !depth && !quotes);
        VALUE("names the kernel", "%d", strstr(text, "_Z3onePii") != NULL);
        VALUE("edges", "%d", arrows);
    }
    SAYS(cudaGraphDebugDotPrint(g, NULL, 0), "null path");
    SAYS(cudaGraphDebugDotPrint(NULL, path, 0), "null graph");
    SAYS(cudaGraphDebugDotPrint(g, "/nowhere/at/all", 0), "no such folder");
    unlink(path);
    MUST(cudaGraphDestroy(child));
    MUST(cudaGraphDestroy(g));
}

int main()
{
    MUST(cudaMalloc((void **)&device, 64));
    MUST(cudaStreamCreate(&stream));
    MUST(cudaStreamCreate(&other));
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    ports();
    launches();
    children();
    memory();
    steering();
    flags();
    objects();
    description();
    return 0;
}
#else
int main() { return 0; } /* the functions have other forms there */
#endif
