/*
 * graph.c: chapter "Graph Management": graphs, their nodes and edges as such. Handles are those of cpu/client/graph,
 * which does the work; nothing here needs a server but the first use of a device.
 */
#include "cpu/client/runtime/graph.h"

/* The chapter's calls make a context where there is none, as natively. Graphs are no work: a kernel's fault stops none
   of these calls. */
static int enter(void)
{
    core_context *context;
    int error = runtime_enter(&context);
    bool behind_fault = error && error == core_sticky() && core_context_active(runtime_thread.context);
    return behind_fault ? cudaSuccess : error;
}

/* BODY(whether a pointer lacks, the call) */
#define BODY(lacks, call)                              \
    do {                                               \
        int error = enter();                           \
        if (!error && (lacks))                         \
            error = cudaErrorInvalidValue;             \
        return runtime_return(error ? error : (call)); \
    } while (0)

cudaError_t runtime_cudaGraphCreate(cudaGraph_t *graph, unsigned flags) { BODY(!graph || flags, graph_create(graph)); }

cudaError_t runtime_cudaGraphDestroy(cudaGraph_t graph) { BODY(false, graph_destroy(graph)); }
cudaError_t runtime_cudaGraphClone(cudaGraph_t *clone, cudaGraph_t original)
{
    BODY(!clone, graph_clone(original, clone));
}

cudaError_t runtime_cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t original, cudaGraph_t clone)
{
    BODY(!node, graph_find_in_clone(original, clone, node));
}

static int kind_of(cudaGraphNode_t node, cudaGraphNodeType *type)
{
    enum graph_kind kind;
    int error = graph_kind_of(node, &kind);
    if (!error)
        *type = (cudaGraphNodeType)kind;
    return error;
}

cudaError_t runtime_cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type)
{
    BODY(!type, kind_of(node, type));
}

cudaError_t runtime_cudaGraphDestroyNode(cudaGraphNode_t node) { BODY(false, graph_remove(node)); }
cudaError_t runtime_cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned flags)
{
    BODY(!path, graph_print(graph, path, flags));
}

/* ---- lists ---- */

cudaError_t runtime_cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    BODY(!count, graph_nodes(graph, nodes, count));
}

cudaError_t runtime_cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    BODY(!count, graph_roots(graph, nodes, count));
}

/* What an edge says beyond "after" came with CUDA 12.3: there the plain names lost it, and in 13 they took the place
   of the others. */
#if FLYT_CUDART <= 12
cudaError_t runtime_cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count)
{
    BODY(!count, graph_edges(graph, from, to, NULL, count));
}

cudaError_t runtime_cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *before, size_t *count)
{
    BODY(!count, graph_before(node, before, NULL, count));
}

cudaError_t runtime_cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *after, size_t *count)
{
    BODY(!count, graph_after(node, after, NULL, count));
}

cudaError_t runtime_cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                             size_t count)
{
    BODY(false, graph_connect(graph, from, to, NULL, count));
}

cudaError_t runtime_cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                const cudaGraphNode_t *to, size_t count)
{
    BODY(false, graph_disconnect(graph, from, to, NULL, count));
}
#endif

#if FLYT_CUDART >= 12
#if FLYT_CUDART == 12
#define WITH_EDGES(name) name##_v2
#else
#define WITH_EDGES(name) name
#endif
#define EDGES(edges) ((const struct graph_edge *)(const void *)(edges))
#define EDGES_OUT(edges) ((struct graph_edge *)(void *)(edges))

cudaError_t WITH_EDGES(runtime_cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                                  cudaGraphEdgeData *edges, size_t *count)
{
    BODY(!count, graph_edges(graph, from, to, EDGES_OUT(edges), count));
}

cudaError_t WITH_EDGES(runtime_cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t *before,
                                                             cudaGraphEdgeData *edges, size_t *count)
{
    BODY(!count, graph_before(node, before, EDGES_OUT(edges), count));
}

cudaError_t WITH_EDGES(runtime_cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t *after,
                                                               cudaGraphEdgeData *edges, size_t *count)
{
    BODY(!count, graph_after(node, after, EDGES_OUT(edges), count));
}

cudaError_t WITH_EDGES(runtime_cudaGraphAddDependencies)(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                         const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                                         size_t count)
{
    BODY(false, graph_connect(graph, from, to, EDGES(edges), count));
}

cudaError_t WITH_EDGES(runtime_cudaGraphRemoveDependencies)(cudaGraph_t graph, const cudaGraphNode_t *from,
                                                            const cudaGraphNode_t *to, const cudaGraphEdgeData *edges,
                                                            size_t count)
{
    BODY(false, graph_disconnect(graph, from, to, EDGES(edges), count));
}
#endif

/* ---- user objects: reference counts that graphs hold ---- */

enum { OBJECT_NO_DESTRUCTOR_SYNC = 1, GIVE_MOVES = 1 };

cudaError_t runtime_cudaUserObjectCreate(cudaUserObject_t *object, void *pointer, cudaHostFn_t destroy, unsigned count,
                                         unsigned flags)
{
    BODY(!object || flags != OBJECT_NO_DESTRUCTOR_SYNC, graph_object_create(pointer, destroy, count, object));
}

cudaError_t runtime_cudaUserObjectRetain(cudaUserObject_t object, unsigned count)
{
    BODY(false, graph_object_retain(object, count));
}

cudaError_t runtime_cudaUserObjectRelease(cudaUserObject_t object, unsigned count)
{
    BODY(false, graph_object_release(object, count));
}

cudaError_t runtime_cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count,
                                              unsigned flags)
{
    BODY(flags & ~(unsigned)GIVE_MOVES, graph_object_give(graph, object, count, flags & GIVE_MOVES));
}

cudaError_t runtime_cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned count)
{
    BODY(false, graph_object_take(graph, object, count));
}

/* ---- memory of graphs ---- */

enum { USED_HIGH = 1, RESERVED_HIGH = 3 };

cudaError_t runtime_cudaDeviceGraphMemTrim(int device)
{
    int error = runtime_attach_device(device);
    return runtime_local(error ? error : graph_memory_trim(device));
}

cudaError_t runtime_cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void *value)
{
    int error = runtime_attach_device(device);
    if (!error)
        error = value ? graph_memory_attribute(device, (int)attribute, value) : cudaErrorInvalidValue;
    return runtime_local(error);
}

/* Only a high water mark can be set, and only to 0: it begins anew. */
cudaError_t runtime_cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute, void *value)
{
    int error = runtime_attach_device(device);
    if (!error)
        error = value && !*(uint64_t *)value ? graph_memory_reset(device, (int)attribute) : cudaErrorInvalidValue;
    return runtime_local(error);
}
