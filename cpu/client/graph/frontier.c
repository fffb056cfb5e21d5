/* frontier.c: the nodes that the next node of a captured stream follows, or whoever waits for a captured event. */
#include <stdlib.h>

#include "cpu/client/graph/capture_state.h"

bool frontier_add(struct frontier *f, graph_node node, const struct graph_edge *edge)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->nodes[i] == node)
            return true;
    if (f->count == f->room) {
        size_t room = f->room ? f->room * 2 : 4;
        graph_node *nodes = realloc(f->nodes, room * sizeof *nodes);
        if (nodes)
            f->nodes = nodes;
        struct graph_edge *edges = nodes ? realloc(f->edges, room * sizeof *edges) : NULL;
        if (!edges)
            return false;
        f->edges = edges;
        f->room = room;
    }
    f->nodes[f->count] = node;
    f->edges[f->count++] = edge ? *edge : (struct graph_edge){ 0 };
    return true;
}

bool frontier_merge(struct frontier *to, const struct frontier *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!frontier_add(to, from->nodes[i], &from->edges[i]))
            return false;
    return true;
}

void frontier_drop(struct frontier *f)
{
    free(f->nodes);
    free(f->edges);
    *f = (struct frontier){ 0 };
}

struct model_node **frontier_nodes(const struct frontier *f)
{
    struct model_node **nodes = malloc((f->count + 1) * sizeof *nodes);
    for (size_t i = 0; nodes && i < f->count; i++)
        nodes[i] = node_of(f->nodes[i]);
    return nodes;
}

void frontier_fit(struct frontier *f, enum graph_kind kind, graph_node own)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct model_node *n = node_of(f->nodes[i]);
        bool early = kind == GRAPH_KERNEL && f->nodes[i] == own && n && n->parameters.kind == GRAPH_KERNEL;
        if (early)
            f->edges[i] = (struct graph_edge){ .type = GRAPH_PROGRAMMATIC, .from_port = GRAPH_PORT_PROGRAMMATIC };
        else if (kind != GRAPH_KERNEL && f->edges[i].type == GRAPH_PROGRAMMATIC)
            f->edges[i] = (struct graph_edge){ 0 };
    }
}
