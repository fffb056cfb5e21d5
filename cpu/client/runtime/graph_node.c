/*
 * graph_node.c: chapter "Graph Management": nodes are added, and their parameters read and changed, in a graph or in
 * an executable.
 */
#include <string.h>

#include "api/launch_attributes.h"
#include "cpu/client/runtime/array.h"
#include "cpu/client/runtime/graph.h"

static int add(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, const void *edges, size_t count,
               struct graph_parameters *p)
{
    return node ? graph_add(graph, before, edges, count, p, node) : cudaErrorInvalidValue;
}

/* ADD(reading the parameters, …): the parameters of the function are called node, graph, before and count. */
#define ADD(read)                                                                         \
    do {                                                                                  \
        struct graph_parameters p;                                                        \
        int error = (read);                                                               \
        return runtime_waited(error ? error : add(node, graph, before, NULL, count, &p)); \
    } while (0)
#define CHANGE(read)                                                           \
    do {                                                                       \
        struct graph_parameters p;                                             \
        int error = (read);                                                    \
        return runtime_waited(error ? error : graph_set_parameters(node, &p)); \
    } while (0)
#define CHANGE_EXECUTABLE(read)                                                            \
    do {                                                                                   \
        struct graph_parameters p;                                                         \
        int error = (read);                                                                \
        return runtime_waited(error ? error : graph_executable_set(executable, node, &p)); \
    } while (0)
/* The parameters of a node, unless something is wrong. */
static int get(cudaGraphNode_t node, enum graph_kind kind, const void *out, struct graph_parameters *p)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return out ? graph_get(node, kind, p) : cudaErrorInvalidValue;
}

/* ---- kernels ---- */

cudaError_t runtime_cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                           size_t count, const cudaKernelNodeParams *parameters)
{
    ADD(graph_read_kernel(parameters, &p));
}

cudaError_t runtime_cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_KERNEL, out, &p);
    if (!error)
        *out = (cudaKernelNodeParams){
            .func = (void *)(uintptr_t)(p.kernel.key ? p.kernel.key : p.kernel.function),
            .gridDim = { p.kernel.grid[0], p.kernel.grid[1], p.kernel.grid[2] },
            .blockDim = { p.kernel.block[0], p.kernel.block[1], p.kernel.block[2] },
            .sharedMemBytes = (unsigned)p.kernel.shared,
            .kernelParams = p.kernel.arguments,
        };
    return runtime_local(error);
}

cudaError_t runtime_cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams *parameters)
{
    CHANGE(graph_read_kernel(parameters, &p));
}

cudaError_t runtime_cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                     const cudaKernelNodeParams *parameters)
{
    CHANGE_EXECUTABLE(graph_read_kernel(parameters, &p));
}

cudaError_t runtime_cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t to, cudaGraphNode_t from)
{
    return runtime_local(graph_copy_attributes(to, from));
}

/* NVIDIA's runtime of 13.0 does not let preferred clusters through, which the Driver API's nodes have. -1: no
   attribute. */
static int attribute_known(int id)
{
    return id == LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION ? -1 : id;
}

cudaError_t runtime_cudaGraphKernelNodeGetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                                    cudaLaunchAttributeValue *value)
{
    return runtime_local(value ? graph_get_attribute(node, attribute_known((int)id), (void *)value)
                               : cudaErrorInvalidValue);
}

cudaError_t runtime_cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, cudaLaunchAttributeID id,
                                                    const cudaLaunchAttributeValue *value)
{
    return runtime_local(value ? graph_set_attribute(node, attribute_known((int)id), (const void *)value)
                               : cudaErrorInvalidValue);
}

/* ---- copies ---- */

cudaError_t runtime_cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                           size_t count, const cudaMemcpy3DParms *parameters)
{
    ADD(graph_read_copy(parameters, &p));
}

cudaError_t runtime_cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                             size_t count, void *to, const void *from, size_t size, cudaMemcpyKind kind)
{
    ADD(graph_read_line(to, from, size, kind, &p));
}

cudaError_t runtime_cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                   const cudaGraphNode_t *before, size_t count, const void *symbol,
                                                   const void *from, size_t size, size_t offset, cudaMemcpyKind kind)
{
    ADD(graph_read_to_symbol(symbol, from, size, offset, kind, &p));
}

cudaError_t runtime_cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *node, cudaGraph_t graph,
                                                     const cudaGraphNode_t *before, size_t count, void *to,
                                                     const void *symbol, size_t size, size_t offset,
                                                     cudaMemcpyKind kind)
{
    ADD(graph_read_from_symbol(to, symbol, size, offset, kind, &p));
}

/* Of a copy with an array the extent is in elements; *element: bytes of one. */
static void write_side(const struct graph_side *side, cudaArray_t *array, cudaPitchedPtr *memory, cudaPos *position,
                       unsigned *element)
{
    uint64_t begins = side->base + (side->at[2] * side->height + side->at[1]) * side->pitch + side->at[0];
    if (runtime_array_of(begins, array, position, element))
        return;
    *memory = (cudaPitchedPtr){ (void *)(uintptr_t)side->base, side->pitch, side->width, side->height };
    *position = (cudaPos){ side->at[0], side->at[1], side->at[2] };
}

cudaError_t runtime_cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_COPY, out, &p);
    if (!error) {
        *out = (cudaMemcpy3DParms){
            .extent = { p.copy.extent.width, p.copy.extent.height, p.copy.extent.depth },
            .kind = (cudaMemcpyKind)p.copy.direction,
        };
        unsigned element = 1;
        write_side(&p.copy.to, &out->dstArray, &out->dstPtr, &out->dstPos, &element);
        write_side(&p.copy.from, &out->srcArray, &out->srcPtr, &out->srcPos, &element);
        out->extent.width /= element;
    }
    return runtime_local(error);
}

cudaError_t runtime_cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const cudaMemcpy3DParms *parameters)
{
    CHANGE(graph_read_copy(parameters, &p));
}

cudaError_t runtime_cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t size,
                                                   cudaMemcpyKind kind)
{
    CHANGE(graph_read_line(to, from, size, kind, &p));
}

cudaError_t runtime_cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *from,
                                                         size_t size, size_t offset, cudaMemcpyKind kind)
{
    CHANGE(graph_read_to_symbol(symbol, from, size, offset, kind, &p));
}

cudaError_t runtime_cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *to, const void *symbol,
                                                           size_t size, size_t offset, cudaMemcpyKind kind)
{
    CHANGE(graph_read_from_symbol(to, symbol, size, offset, kind, &p));
}

cudaError_t runtime_cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                     const cudaMemcpy3DParms *parameters)
{
    CHANGE_EXECUTABLE(graph_read_copy(parameters, &p));
}

cudaError_t runtime_cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t executable, cudaGraphNode_t node, void *to,
                                                       const void *from, size_t size, cudaMemcpyKind kind)
{
    CHANGE_EXECUTABLE(graph_read_line(to, from, size, kind, &p));
}

cudaError_t runtime_cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                             const void *symbol, const void *from, size_t size,
                                                             size_t offset, cudaMemcpyKind kind)
{
    CHANGE_EXECUTABLE(graph_read_to_symbol(symbol, from, size, offset, kind, &p));
}

cudaError_t runtime_cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                               void *to, const void *symbol, size_t size, size_t offset,
                                                               cudaMemcpyKind kind)
{
    CHANGE_EXECUTABLE(graph_read_from_symbol(to, symbol, size, offset, kind, &p));
}

/* ---- memsets ---- */

cudaError_t runtime_cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                           size_t count, const cudaMemsetParams *parameters)
{
    ADD(graph_read_set(parameters, &p));
}

cudaError_t runtime_cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_SET, out, &p);
    if (!error)
        *out = (cudaMemsetParams){
            (void *)(uintptr_t)p.set.to, p.set.pitch, p.set.value, p.set.element, p.set.width, p.set.height
        };
    return runtime_local(error);
}

cudaError_t runtime_cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams *parameters)
{
    CHANGE(graph_read_set(parameters, &p));
}

cudaError_t runtime_cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                     const cudaMemsetParams *parameters)
{
    CHANGE_EXECUTABLE(graph_read_set(parameters, &p));
}

/* ---- host functions ---- */

cudaError_t runtime_cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                         size_t count, const cudaHostNodeParams *parameters)
{
    ADD(graph_read_host(parameters, &p));
}

cudaError_t runtime_cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_HOST, out, &p);
    if (!error)
        *out = (cudaHostNodeParams){ p.host.function, p.host.user };
    return runtime_local(error);
}

cudaError_t runtime_cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams *parameters)
{
    CHANGE(graph_read_host(parameters, &p));
}

cudaError_t runtime_cudaGraphExecHostNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                   const cudaHostNodeParams *parameters)
{
    CHANGE_EXECUTABLE(graph_read_host(parameters, &p));
}

/* ---- graphs as nodes, and nodes without work ---- */

static int read_child(cudaGraph_t child, struct graph_parameters *p)
{
    *p = (struct graph_parameters){ .kind = GRAPH_CHILD, .child = child };
    return runtime_enter(&p->context);
}

static int read_empty(struct graph_parameters *p)
{
    *p = (struct graph_parameters){ .kind = GRAPH_EMPTY };
    return runtime_enter(&p->context);
}

cudaError_t runtime_cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                               size_t count, cudaGraph_t child)
{
    ADD(read_child(child, &p));
}

cudaError_t runtime_cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_CHILD, out, &p);
    if (!error)
        *out = p.child;
    return runtime_local(error);
}

cudaError_t runtime_cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                         cudaGraph_t child)
{
    CHANGE_EXECUTABLE(read_child(child, &p));
}

cudaError_t runtime_cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                          size_t count)
{
    ADD(read_empty(&p));
}

/* ---- events ---- */

/* Without an event, the functions that are for events alone return 1, and the others 400, as in NVIDIA's runtime. */
static int read_event(enum graph_kind kind, cudaEvent_t event, struct graph_parameters *out)
{
    int error = graph_read_event(kind, event, out);
    return !event && error == cudaErrorInvalidResourceHandle ? cudaErrorInvalidValue : error;
}

static cudaError_t get_event(cudaGraphNode_t node, enum graph_kind kind, cudaEvent_t *out)
{
    struct graph_parameters p;
    int error = get(node, kind, out, &p);
    if (!error)
        *out = p.event;
    return runtime_local(error);
}

cudaError_t runtime_cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                                size_t count, cudaEvent_t event)
{
    ADD(read_event(GRAPH_RECORD_EVENT, event, &p));
}

cudaError_t runtime_cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out)
{
    return get_event(node, GRAPH_RECORD_EVENT, out);
}

cudaError_t runtime_cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    CHANGE(read_event(GRAPH_RECORD_EVENT, event, &p));
}

cudaError_t runtime_cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                         cudaEvent_t event)
{
    CHANGE_EXECUTABLE(read_event(GRAPH_RECORD_EVENT, event, &p));
}

cudaError_t runtime_cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                              size_t count, cudaEvent_t event)
{
    ADD(read_event(GRAPH_WAIT_EVENT, event, &p));
}

cudaError_t runtime_cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *out)
{
    return get_event(node, GRAPH_WAIT_EVENT, out);
}

cudaError_t runtime_cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    CHANGE(read_event(GRAPH_WAIT_EVENT, event, &p));
}

cudaError_t runtime_cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t executable, cudaGraphNode_t node,
                                                       cudaEvent_t event)
{
    CHANGE_EXECUTABLE(read_event(GRAPH_WAIT_EVENT, event, &p));
}

/* ---- memory ---- */

cudaError_t runtime_cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                             size_t count, cudaMemAllocNodeParams *parameters)
{
    struct graph_parameters p;
    int error = graph_read_allocation(parameters, &p);
    if (!error)
        error = add(node, graph, before, NULL, count, &p);
    if (!error)
        parameters->dptr = (void *)(uintptr_t)p.allocation.address;
    return runtime_return(error);
}

cudaError_t runtime_cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_ALLOCATE, out, &p);
    if (!error) {
        *out = (cudaMemAllocNodeParams){ .accessDescs = (const void *)p.allocation.access,
                                         .accessDescCount = p.allocation.access_count,
                                         .bytesize = p.allocation.size,
                                         .dptr = (void *)(uintptr_t)p.allocation.address };
        memcpy(&out->poolProps, p.allocation.properties, sizeof out->poolProps);
    }
    return runtime_local(error);
}

static int read_free(void *pointer, struct graph_parameters *p)
{
    *p = (struct graph_parameters){ .kind = GRAPH_FREE, .freed = (uint64_t)(uintptr_t)pointer };
    return runtime_enter(&p->context);
}

cudaError_t runtime_cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                            size_t count, void *pointer)
{
    ADD(read_free(pointer, &p));
}

cudaError_t runtime_cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_FREE, out, &p);
    if (!error)
        *(void **)out = (void *)(uintptr_t)p.freed;
    return runtime_local(error);
}

/* ---- any kind ---- */

#if FLYT_CUDART >= 12
static cudaError_t add_any(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before, const void *edges,
                           size_t count, cudaGraphNodeParams *parameters)
{
    struct graph_parameters p;
    int error = graph_read_any(parameters, &p);
    if (!error)
        error = add(node, graph, before, edges, count, &p);
    if (!error && p.kind == GRAPH_ALLOCATE)
        parameters->alloc.dptr = (void *)(uintptr_t)p.allocation.address;
    if (!error && p.kind == GRAPH_CONDITION)
        parameters->conditional.phGraph_out = (cudaGraph_t *)(uintptr_t)p.condition.bodies;
    return runtime_waited(error);
}

#if FLYT_CUDART == 12
cudaError_t runtime_cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                     size_t count, cudaGraphNodeParams *parameters)
{
    return add_any(node, graph, before, NULL, count, parameters);
}

cudaError_t runtime_cudaGraphAddNode_v2(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                        const cudaGraphEdgeData *edges, size_t count, cudaGraphNodeParams *parameters)
#else
cudaError_t runtime_cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                     const cudaGraphEdgeData *edges, size_t count, cudaGraphNodeParams *parameters)
#endif
{
    return add_any(node, graph, before, edges, count, parameters);
}

cudaError_t runtime_cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                                     unsigned value, unsigned flags)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && !handle)
        error = cudaErrorInvalidValue;
    uint64_t word;
    if (!error && !(error = graph_condition_create(graph, context, value, flags, &word)))
        *handle = word;
    return runtime_waited(error);
}

cudaError_t runtime_cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams *parameters)
{
    CHANGE(graph_read_any(parameters, &p));
}

cudaError_t runtime_cudaGraphExecNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                               cudaGraphNodeParams *parameters)
{
    CHANGE_EXECUTABLE(graph_read_any(parameters, &p));
}
#endif
