/*
 * query.c: what a program asks about graphs and nodes.
 */
#include <string.h>

#include "cpu/client/graph/model.h"
#include "cpu/common/cancel.h"

/* A list that is being handed out: see graph.h. */
struct rows {
    graph_node *first, *second;
    struct graph_edge *edges;
    size_t room, count;
    bool lossy;
};

static void row(struct rows *rows, const struct model_node *first, const struct model_node *second,
                const struct graph_edge *data)
{
    static const struct graph_edge none;
    size_t at = rows->count++;
    if (!rows->edges && data && memcmp(data, &none, sizeof none))
        rows->lossy = true;
    if (at >= rows->room)
        return;
    if (rows->first)
        rows->first[at] = first->token;
    if (rows->second)
        rows->second[at] = second->token;
    if (rows->edges)
        rows->edges[at] = *data;
}

/* NULL for the nodes asks for their number. */
static int rows_end(struct rows *rows, size_t *count)
{
    if (!rows->first && !rows->second) {
        *count = rows->count;
        return CORE_OK;
    }
    if (rows->lossy)
        return GRAPH_LOSSY_QUERY;
    for (size_t i = rows->count; i < rows->room; i++) {
        if (rows->first)
            rows->first[i] = 0;
        if (rows->second)
            rows->second[i] = 0;
    }
    *count = rows->count < rows->room ? rows->count : rows->room;
    return CORE_OK;
}

static int list(graph_handle handle, bool roots, graph_node *nodes, size_t *count)
{
    struct rows rows = { .first = nodes, .room = nodes ? *count : 0 };
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    if (g)
        for (EACH_NODE(n, g))
            if (!roots || !n->before.count)
                row(&rows, n, NULL, NULL);
    code = g ? rows_end(&rows, count) : CORE_INVALID_VALUE;
    graphs_leave();
    return code;
}

int graph_nodes(graph_handle handle, graph_node *nodes, size_t *count)
{
    CANCEL_DEFERRED;
    return list(handle, false, nodes, count);
}

int graph_roots(graph_handle handle, graph_node *nodes, size_t *count)
{
    CANCEL_DEFERRED;
    return list(handle, true, nodes, count);
}

int graph_edges(graph_handle handle, graph_node *from, graph_node *to, struct graph_edge *edges, size_t *count)
{
    CANCEL_DEFERRED;
    struct rows rows = { from, to, edges, from || to ? *count : 0, 0, false };
    if (!from != !to || (edges && !from))
        return CORE_INVALID_VALUE;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    if (g)
        for (EACH_NODE(n, g))
            for (size_t i = 0; i < n->after.count; i++)
                row(&rows, n, n->after.items[i].node, &n->after.items[i].data);
    code = g ? rows_end(&rows, count) : CORE_INVALID_VALUE;
    graphs_leave();
    return code;
}

static int neighbours(graph_node token, bool after, graph_node *nodes, struct graph_edge *edges, size_t *count)
{
    struct rows rows = { .first = nodes, .edges = edges, .room = nodes ? *count : 0 };
    if (edges && !nodes)
        return CORE_INVALID_VALUE;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *n = node_of(token);
    const struct edges *list = !n ? NULL : after ? &n->after : &n->before;
    for (size_t i = 0; n && i < list->count; i++)
        row(&rows, list->items[i].node, NULL, &list->items[i].data);
    code = n ? rows_end(&rows, count) : CORE_INVALID_VALUE;
    graphs_leave();
    return code;
}

int graph_before(graph_node token, graph_node *nodes, struct graph_edge *edges, size_t *count)
{
    CANCEL_DEFERRED;
    return neighbours(token, false, nodes, edges, count);
}

int graph_after(graph_node token, graph_node *nodes, struct graph_edge *edges, size_t *count)
{
    CANCEL_DEFERRED;
    return neighbours(token, true, nodes, edges, count);
}

int graph_kind_of(graph_node token, enum graph_kind *kind)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *n = node_of(token);
    if (n)
        *kind = n->parameters.kind == GRAPH_COLLECTIVE ? GRAPH_EMPTY : n->parameters.kind;
    graphs_leave();
    return n ? CORE_OK : CORE_INVALID_VALUE;
}

int graph_get(graph_node token, enum graph_kind kind, struct graph_parameters *out)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *n = node_of(token);
    if (n && n->parameters.kind == kind)
        *out = n->parameters;
    else
        code = CORE_INVALID_VALUE;
    graphs_leave();
    return code;
}
