/*
 * graph_node.c: chapter "Graph Management": nodes are added, and their parameters read and changed, in a graph or in
 * an executable.
 */
#include <string.h>

#include "cpu/client/driver/graph.h"

static int add(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const void *edges, size_t count,
               struct graph_parameters *p)
{
    return node ? graph_add(graph, before, edges, count, p, node) : CUDA_ERROR_INVALID_VALUE;
}

/* With the reading of the parameters; the parameters of the function are called node, graph, before and count. */
#define ADD(read)                                                                        \
    do {                                                                                 \
        struct graph_parameters p;                                                       \
        int error = (read);                                                              \
        return driver_waited(error ? error : add(node, graph, before, NULL, count, &p)); \
    } while (0)
#define CHANGE(read)                                                          \
    do {                                                                      \
        struct graph_parameters p;                                            \
        int error = (read);                                                   \
        return driver_waited(error ? error : graph_set_parameters(node, &p)); \
    } while (0)
#define CHANGE_EXECUTABLE(read)                                                           \
    do {                                                                                  \
        struct graph_parameters p;                                                        \
        int error = (read);                                                               \
        return driver_waited(error ? error : graph_executable_set(executable, node, &p)); \
    } while (0)

static int get(CUgraphNode node, enum graph_kind kind, const void *out, struct graph_parameters *p)
{
    int error = driver_ready();
    if (error)
        return error;
    return out ? graph_get(node, kind, p) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- kernels ---- */

/* A function of a library has a kernel, which NVIDIA's runtime asks for. Both are the same here. */
static CUkernel kernel_of(core_function *function)
{
    core_image *image;
    return core_function_check(function, &image, NULL) || !core_library_of(image) ? NULL : function;
}

static int get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out, size_t size)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_KERNEL, out, &p);
    if (error)
        return error;
    const struct graph_kernel *k = &p.kernel;
    const CUDA_KERNEL_NODE_PARAMS all = {
        .func = k->function,
        .gridDimX = k->grid[0],
        .gridDimY = k->grid[1],
        .gridDimZ = k->grid[2],
        .blockDimX = k->block[0],
        .blockDimY = k->block[1],
        .blockDimZ = k->block[2],
        .sharedMemBytes = (unsigned)k->shared,
        .kernelParams = k->arguments,
        .kern = kernel_of(k->function),
        .ctx = p.context,
    };
    memcpy(out, &all, size);
    return CUDA_SUCCESS;
}

CUresult driver_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
    ADD(graph_read_kernel((const void *)parameters, false, &p));
}

CUresult driver_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    ADD(graph_read_kernel(parameters, true, &p));
}

CUresult driver_cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
    return driver_local(get_kernel(node, (void *)out, sizeof *out));
}

CUresult driver_cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out)
{
    return driver_local(get_kernel(node, out, sizeof *out));
}

CUresult driver_cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
    CHANGE(graph_read_kernel((const void *)parameters, false, &p));
}

CUresult driver_cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    CHANGE(graph_read_kernel(parameters, true, &p));
}

CUresult driver_cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
    CHANGE_EXECUTABLE(graph_read_kernel((const void *)parameters, false, &p));
}

CUresult driver_cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *parameters)
{
    CHANGE_EXECUTABLE(graph_read_kernel(parameters, true, &p));
}

CUresult driver_cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from)
{
    return driver_local(graph_copy_attributes(to, from));
}

CUresult driver_cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue *value)
{
    return driver_local(value ? graph_get_attribute(node, (int)id, (void *)value) : CUDA_ERROR_INVALID_VALUE);
}

CUresult driver_cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                              const CUkernelNodeAttrValue *value)
{
    return driver_local(value ? graph_set_attribute(node, (int)id, (const void *)value) : CUDA_ERROR_INVALID_VALUE);
}

/* ---- copies and memsets ---- */

CUresult driver_cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_MEMCPY3D *parameters, CUcontext context)
{
    ADD(graph_read_copy(parameters, context, &p));
}

CUresult driver_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_COPY, out, &p);
    if (!error)
        graph_write_copy(&p.copy, out);
    return driver_local(error);
}

/* A node keeps its context. */
static CUcontext context_of(CUgraphNode node, enum graph_kind kind)
{
    struct graph_parameters p;
    return graph_get(node, kind, &p) ? NULL : p.context;
}

CUresult driver_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *parameters)
{
    CHANGE(graph_read_copy(parameters, context_of(node, GRAPH_COPY), &p));
}

CUresult driver_cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMCPY3D *parameters, CUcontext context)
{
    CHANGE_EXECUTABLE(graph_read_copy(parameters, context, &p));
}

CUresult driver_cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context)
{
    ADD(graph_read_set(parameters, context, &p));
}

CUresult driver_cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_SET, out, &p);
    if (!error)
        *out =
            (CUDA_MEMSET_NODE_PARAMS){ p.set.to, p.set.pitch, p.set.value, p.set.element, p.set.width, p.set.height };
    return driver_local(error);
}

CUresult driver_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *parameters)
{
    CHANGE(graph_read_set(parameters, context_of(node, GRAPH_SET), &p));
}

CUresult driver_cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                               const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context)
{
    CHANGE_EXECUTABLE(graph_read_set(parameters, context, &p));
}

/* ---- host functions ---- */

CUresult driver_cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                   const CUDA_HOST_NODE_PARAMS *parameters)
{
    ADD(graph_read_host(parameters, &p));
}

CUresult driver_cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_HOST, out, &p);
    if (!error)
        *out = (CUDA_HOST_NODE_PARAMS){ p.host.function, p.host.user };
    return driver_local(error);
}

CUresult driver_cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *parameters)
{
    CHANGE(graph_read_host(parameters, &p));
}

CUresult driver_cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                             const CUDA_HOST_NODE_PARAMS *parameters)
{
    CHANGE_EXECUTABLE(graph_read_host(parameters, &p));
}

/* ---- graphs as nodes, and nodes without work ---- */

CUresult driver_cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                         CUgraph child)
{
    ADD(graph_read_number(GRAPH_CHILD, child, &p));
}

CUresult driver_cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_CHILD, out, &p);
    if (!error)
        *out = p.child;
    return driver_local(error);
}

CUresult driver_cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraph child)
{
    CHANGE_EXECUTABLE(graph_read_number(GRAPH_CHILD, child, &p));
}

CUresult driver_cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count)
{
    ADD(graph_read_number(GRAPH_EMPTY, 0, &p));
}

/* ---- events ---- */

static CUresult get_event(CUgraphNode node, enum graph_kind kind, CUevent *out)
{
    struct graph_parameters p;
    int error = get(node, kind, out, &p);
    if (!error)
        *out = p.event;
    return driver_local(error);
}

CUresult driver_cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                          CUevent event)
{
    ADD(graph_read_event(GRAPH_RECORD_EVENT, event, &p));
}

CUresult driver_cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out)
{
    return get_event(node, GRAPH_RECORD_EVENT, out);
}

CUresult driver_cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
    CHANGE(graph_read_event(GRAPH_RECORD_EVENT, event, &p));
}

CUresult driver_cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    CHANGE_EXECUTABLE(graph_read_event(GRAPH_RECORD_EVENT, event, &p));
}

CUresult driver_cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                        CUevent event)
{
    ADD(graph_read_event(GRAPH_WAIT_EVENT, event, &p));
}

CUresult driver_cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out)
{
    return get_event(node, GRAPH_WAIT_EVENT, out);
}

CUresult driver_cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
    CHANGE(graph_read_event(GRAPH_WAIT_EVENT, event, &p));
}

CUresult driver_cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node, CUevent event)
{
    CHANGE_EXECUTABLE(graph_read_event(GRAPH_WAIT_EVENT, event, &p));
}

/* ---- memory ---- */

CUresult driver_cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
    struct graph_parameters p;
    int error = graph_read_allocation(parameters, &p);
    if (!error)
        error = add(node, graph, before, NULL, count, &p);
    if (!error)
        parameters->dptr = p.allocation.address;
    return (CUresult)error;
}

CUresult driver_cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_ALLOCATE, out, &p);
    if (!error) {
        *out = (CUDA_MEM_ALLOC_NODE_PARAMS){ .accessDescs = (const void *)p.allocation.access,
                                             .accessDescCount = p.allocation.access_count,
                                             .bytesize = p.allocation.size,
                                             .dptr = p.allocation.address };
        memcpy(&out->poolProps, p.allocation.properties, sizeof out->poolProps);
    }
    return driver_local(error);
}

CUresult driver_cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                      CUdeviceptr address)
{
    ADD(graph_read_number(GRAPH_FREE, address, &p));
}

CUresult driver_cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_FREE, out, &p);
    if (!error)
        *out = p.freed;
    return driver_local(error);
}

/* ---- batched memory operations ---- */

CUresult driver_cuGraphAddBatchMemOpNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                                         const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters)
{
    GRAPH_ROOM room = NULL;
    ADD(graph_read_batch(parameters, &room, &p));
}

CUresult driver_cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS *out)
{
    struct graph_parameters p;
    int error = get(node, GRAPH_VALUES, out, &p);
    if (!error)
        *out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){ p.context, p.values.count,
                                                (CUstreamBatchMemOpParams *)(uintptr_t)p.values.given, 0 };
    return driver_local(error);
}

CUresult driver_cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters)
{
    GRAPH_ROOM room = NULL;
    CHANGE(graph_read_batch(parameters, &room, &p));
}

CUresult driver_cuGraphExecBatchMemOpNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                   const CUDA_BATCH_MEM_OP_NODE_PARAMS *parameters)
{
    GRAPH_ROOM room = NULL;
    CHANGE_EXECUTABLE(graph_read_batch(parameters, &room, &p));
}

/* ---- any kind ---- */

static int add_any(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const void *edges, size_t count,
                   CUgraphNodeParams *parameters)
{
    struct graph_parameters p;
    GRAPH_ROOM room = NULL;
    int error = graph_read_any(parameters, &room, &p);
    if (!error)
        error = add(node, graph, before, edges, count, &p);
    if (!error && p.kind == GRAPH_ALLOCATE)
        parameters->alloc.dptr = p.allocation.address;
    if (!error && p.kind == GRAPH_CONDITION)
        parameters->conditional.phGraph_out = (CUgraph *)(uintptr_t)p.condition.bodies;
    return error;
}

CUresult driver_cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count,
                               CUgraphNodeParams *parameters)
{
    return driver_waited(add_any(node, graph, before, NULL, count, parameters));
}

CUresult driver_cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                  const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters)
{
    return driver_waited(add_any(node, graph, before, edges, count, parameters));
}

CUresult driver_cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph graph, CUcontext ctx,
                                               unsigned value, unsigned flags)
{
    core_context *context;
    uint64_t word;
    int error = driver_ready();
    if (!error && !handle)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_context(ctx, &context);
    if (!error && !(error = graph_condition_create(graph, context, value, flags, &word)))
        *handle = word;
    return driver_waited(error);
}

CUresult driver_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *parameters)
{
    GRAPH_ROOM room = NULL;
    CHANGE(graph_read_any(parameters, &room, &p));
}

CUresult driver_cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node, CUgraphNodeParams *parameters)
{
    GRAPH_ROOM room = NULL;
    CHANGE_EXECUTABLE(graph_read_any(parameters, &room, &p));
}
