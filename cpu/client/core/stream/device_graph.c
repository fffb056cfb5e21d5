/*
 * device_graph.c: see device_graph.h. A kernel may launch a graph that the program has uploaded long ago, so a session
 * that moves takes with it what was uploaded last: not what the program's graph is by now.
 */
#include "device_graph.h"

#include <pthread.h>
#include <stdlib.h>

#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/wire/wire.h"
#include "cpu/common/tree.h"

struct kept_graph {
    struct tree_node node;                    /* by executable */
    core_context *context;
    u_int size;
    char bytes[];                             /* its device_graph_args, encoded */
};

static struct { pthread_mutex_t lock; struct tree graphs; uint64_t count; } all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct kept_graph *graph_of(struct tree_node *node)
{
    return node ? TREE_OBJECT(node, struct kept_graph, node) : NULL;
}

static struct kept_graph *find(uint64_t executable)
{
    struct kept_graph *graph = graph_of(tree_at_or_above(&all.graphs, executable, 0));
    return graph && graph->node.key == executable ? graph : NULL;
}

static void drop(struct kept_graph *graph)
{
    tree_remove(&all.graphs, &graph->node);
    all.count--;
    free(graph);
}

int device_graph_keep(core_context *c, const device_graph_args *args)
{
    device_graph_args *from = (device_graph_args *)(uintptr_t)args;
    u_int size = (u_int)xdr_sizeof((xdrproc_t)xdr_device_graph_args, from);
    struct kept_graph *graph = calloc(1, sizeof *graph + size);
    XDR xdr;
    if (!graph)
        return CORE_OUT_OF_MEMORY;
    graph->node.key = args->executable;
    graph->context = c;
    graph->size = size;
    xdrmem_create(&xdr, graph->bytes, size, XDR_ENCODE);
    if (!xdr_device_graph_args(&xdr, from)) {
        free(graph);
        return CORE_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&all.lock);
    struct kept_graph *before = find(args->executable);
    if (before)
        drop(before);
    tree_insert(&all.graphs, &graph->node);
    all.count++;
    pthread_mutex_unlock(&all.lock);
    return CORE_OK;
}

void device_graph_forget(uint64_t executable)
{
    pthread_mutex_lock(&all.lock);
    struct kept_graph *graph = find(executable);
    if (graph)
        drop(graph);
    pthread_mutex_unlock(&all.lock);
}

void device_graphs_forget_context(core_context *c)
{
    pthread_mutex_lock(&all.lock);
    for (struct tree_node *node = tree_first(&all.graphs), *next; node; node = next) {
        next = tree_next(&all.graphs, node);
        if (graph_of(node)->context == c)
            drop(graph_of(node));
    }
    pthread_mutex_unlock(&all.lock);
}

uint64_t device_graphs_count(void)
{
    pthread_mutex_lock(&all.lock);
    uint64_t count = all.count;
    pthread_mutex_unlock(&all.lock);
    return count;
}

/* ---- a move ---- */

static int graph_again(struct move *move, const struct kept_graph *graph)
{
    device_graph_args args = { 0 };
    XDR xdr;
    xdrmem_create(&xdr, (char *)(uintptr_t)graph->bytes, graph->size, XDR_DECODE);
    int code = xdr_device_graph_args(&xdr, &args) ? CORE_OK : CORE_OUT_OF_MEMORY;
    if (!code)
        code = move_stream(move, graph->context, &args.stream);
    if (!code)
        code = wire_send(&core_session, FLYT_DEVICE_GRAPH, (xdrproc_t)xdr_device_graph_args, &args);
    xdr_free((xdrproc_t)xdr_device_graph_args, (char *)&args);
    return code;
}

/* No thread is inside a call, so the graphs stay as they are. */
int device_graphs_restore(struct move *move)
{
    int code = CORE_OK;
    if (all.count && !(move->at[MOVE_TARGET].hello.capabilities & FLYT_CAP_DEVICE_GRAPHS))
        return move_refuse(move, 0, "the new server knows no graphs that kernels launch, and the program has %llu",
                           (unsigned long long)all.count);
    for (struct tree_node *node = tree_first(&all.graphs); node && !code; node = tree_next(&all.graphs, node))
        code = graph_again(move, graph_of(node));
    return code;
}
