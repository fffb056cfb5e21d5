/*
 * graph.c: chapter "Graph Management": graphs, their nodes and edges as such. Handles are those of cpu/client/graph,
 * which does the work.
 */
#include "cpu/client/driver/graph.h"

/* BODY(whether something is wrong, the call) */
#define BODY(wrong, call)                            \
    do {                                             \
        int error = driver_ready();                  \
        if (!error && (wrong))                       \
            error = CUDA_ERROR_INVALID_VALUE;        \
        return driver_local(error ? error : (call)); \
    } while (0)

CUresult driver_cuGraphCreate(CUgraph *graph, unsigned flags) { BODY(!graph || flags, graph_create(graph)); }
CUresult driver_cuGraphDestroy(CUgraph graph) { BODY(false, graph_destroy(graph)); }
CUresult driver_cuGraphClone(CUgraph *clone, CUgraph original) { BODY(!clone, graph_clone(original, clone)); }
CUresult driver_cuGraphNodeFindInClone(CUgraphNode *node, CUgraphNode original, CUgraph clone)
{
    BODY(!node, graph_find_in_clone(original, clone, node));
}

static int kind_of(CUgraphNode node, CUgraphNodeType *type)
{
    enum graph_kind kind;
    int error = graph_kind_of(node, &kind);
    if (!error)
        *type = (CUgraphNodeType)kind;
    return error;
}

CUresult driver_cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) { BODY(!type, kind_of(node, type)); }
CUresult driver_cuGraphDestroyNode(CUgraphNode node) { BODY(false, graph_remove(node)); }
CUresult driver_cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned flags)
{
    BODY(!path, graph_print(graph, path, flags));
}

/* ---- lists ---- */

#define EDGES(edges) ((const struct graph_edge *)(const void *)(edges))
#define EDGES_OUT(edges) ((struct graph_edge *)(void *)(edges))

CUresult driver_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    BODY(!count, graph_nodes(graph, nodes, count));
}

CUresult driver_cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    BODY(!count, graph_roots(graph, nodes, count));
}

CUresult driver_cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    BODY(!count, graph_edges(graph, from, to, NULL, count));
}

CUresult driver_cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edges,
                                   size_t *count)
{
    BODY(!count, graph_edges(graph, from, to, EDGES_OUT(edges), count));
}

CUresult driver_cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *before, size_t *count)
{
    BODY(!count, graph_before(node, before, NULL, count));
}

CUresult driver_cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *before, CUgraphEdgeData *edges,
                                              size_t *count)
{
    BODY(!count, graph_before(node, before, EDGES_OUT(edges), count));
}

CUresult driver_cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *after, size_t *count)
{
    BODY(!count, graph_after(node, after, NULL, count));
}

CUresult driver_cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *after, CUgraphEdgeData *edges,
                                                size_t *count)
{
    BODY(!count, graph_after(node, after, EDGES_OUT(edges), count));
}

CUresult driver_cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    BODY(false, graph_connect(graph, from, to, NULL, count));
}

CUresult driver_cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *edges, size_t count)
{
    BODY(false, graph_connect(graph, from, to, EDGES(edges), count));
}

CUresult driver_cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
    BODY(false, graph_disconnect(graph, from, to, NULL, count));
}

CUresult driver_cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                             const CUgraphEdgeData *edges, size_t count)
{
    BODY(false, graph_disconnect(graph, from, to, EDGES(edges), count));
}

/* ---- user objects: reference counts that graphs hold ---- */

enum { OBJECT_NO_DESTRUCTOR_SYNC = 1, GIVE_MOVES = 1 };

CUresult driver_cuUserObjectCreate(CUuserObject *object, void *pointer, CUhostFn destroy, unsigned count,
                                   unsigned flags)
{
    BODY(!object || flags != OBJECT_NO_DESTRUCTOR_SYNC, graph_object_create(pointer, destroy, count, object));
}

CUresult driver_cuUserObjectRetain(CUuserObject object, unsigned count)
{
    BODY(false, graph_object_retain(object, count));
}

CUresult driver_cuUserObjectRelease(CUuserObject object, unsigned count)
{
    BODY(false, graph_object_release(object, count));
}

CUresult driver_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count, unsigned flags)
{
    BODY(flags & ~(unsigned)GIVE_MOVES, graph_object_give(graph, object, count, flags & GIVE_MOVES));
}

CUresult driver_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count)
{
    BODY(false, graph_object_take(graph, object, count));
}

/* ---- memory of graphs ---- */

CUresult driver_cuDeviceGraphMemTrim(CUdevice device)
{
    int error = driver_device(device);
    return driver_local(error ? error : graph_memory_trim(device));
}

CUresult driver_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    int error = driver_device(device);
    if (!error)
        error = value ? graph_memory_attribute(device, (int)attribute, value) : CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}

/* Only a high water mark can be set, and only to 0: it begins anew. */
CUresult driver_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    int error = driver_device(device);
    if (!error)
        error = value && !*(uint64_t *)value ? graph_memory_reset(device, (int)attribute) : CUDA_ERROR_INVALID_VALUE;
    return driver_local(error);
}
