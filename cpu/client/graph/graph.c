/*
 * graph.c: graphs, nodes and edges: how they are made, copied, changed and ended.
 */
#include "cpu/client/graph/model.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/client/graph/handles.h"
#include "cpu/common/cancel.h"

/* ---- edges ---- */

static struct edge *edge_find(const struct edges *edges, const struct model_node *node)
{
    for (size_t i = 0; i < edges->count; i++)
        if (edges->items[i].node == node)
            return &edges->items[i];
    return NULL;
}

static bool edge_add(struct edges *edges, struct model_node *node, const struct graph_edge *data)
{
    if (edges->count == edges->room) {
        size_t room = edges->room ? edges->room * 2 : 4;
        struct edge *more = realloc(edges->items, room * sizeof *more);
        if (!more)
            return false;
        edges->items = more;
        edges->room = room;
    }
    edges->items[edges->count++] = (struct edge){ node, data ? *data : (struct graph_edge){ 0 } };
    return true;
}

static void edge_remove(struct edges *edges, const struct model_node *node)
{
    struct edge *edge = edge_find(edges, node);
    if (!edge)
        return;
    edges->count--;
    memmove(edge, edge + 1, (size_t)(edges->items + edges->count - edge) * sizeof *edge);
}

bool node_connect(struct model_node *from, struct model_node *to, const struct graph_edge *data)
{
    if (!edge_add(&from->after, to, data))
        return false;
    if (edge_add(&to->before, from, data))
        return true;
    edge_remove(&from->after, to);
    return false;
}

static void node_disconnect(struct model_node *from, struct model_node *to)
{
    edge_remove(&from->after, to);
    edge_remove(&to->before, from);
}

/* Only a kernel has ports, and only a kernel can begin before the end of the one before. */
static bool edge_fits(const struct model_node *from, enum graph_kind to, const struct graph_edge *data)
{
    static const struct graph_edge none;
    if (!data)
        return true;
    bool programmatic = data->type == GRAPH_PROGRAMMATIC, early = data->from_port == GRAPH_PORT_PROGRAMMATIC;
    if (data->type > GRAPH_PROGRAMMATIC || data->from_port > GRAPH_PORT_BEGUN || data->to_port ||
        memcmp(data->reserved, none.reserved, sizeof none.reserved))
        return false;
    if ((data->from_port && from->parameters.kind != GRAPH_KERNEL) || (early && !programmatic))
        return false;
    return !programmatic || (data->from_port && to == GRAPH_KERNEL);
}

/* ---- nodes ---- */

struct model_node *node_new(struct graph *g, struct graph_parameters *parameters, bool has_handle)
{
    struct model_node *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    if (has_handle && !(n->token = handle_add(HANDLE_NODE, n))) {
        free(n);
        return NULL;
    }
    n->graph = g;
    n->parameters = *parameters;
    list_append(&g->nodes, &n->of_graph);
    g->count++;
    return n;
}

static void node_free(struct model_node *n)
{
    while (n->before.count)
        node_disconnect(n->before.items[0].node, n);
    while (n->after.count)
        node_disconnect(n, n->after.items[0].node);
    free(n->before.items);
    free(n->after.items);
    if (n->child)
        graph_free(n->child);
    bodies_drop(n);
    if (n->memory)
        memory_drop(n->memory);
    parameters_drop(&n->parameters);
    if (n->token)
        handle_remove(HANDLE_NODE, n->token);
    list_remove(&n->of_graph);
    n->graph->count--;
    free(n);
}

int node_add(struct graph *g, struct model_node *const *before, const struct graph_edge *edges, size_t count,
             struct graph_parameters *parameters, struct model_node **out)
{
    bool of_memory = parameters->kind == GRAPH_ALLOCATE || parameters->kind == GRAPH_FREE;
    int code = of_memory && g->moved ? CORE_INVALID_VALUE : condition_admit(g, parameters);
    struct memory *freed = NULL;
    if (!code && parameters->kind == GRAPH_FREE && !(freed = memory_to_free(g, parameters->freed)))
        code = CORE_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (!before[i] || before[i]->graph != g || !edge_fits(before[i], parameters->kind, edges ? &edges[i] : NULL))
            return CORE_INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (before[j] == before[i])
                return CORE_INVALID_VALUE;
    }
    if (code)
        return code;
    struct model_node *n = node_new(g, parameters, true);
    if (!n)
        return CORE_OUT_OF_MEMORY;
    bool good = true;
    for (size_t i = 0; i < count && good; i++)
        good = node_connect(before[i], n, edges ? &edges[i] : NULL);
    if (good && parameters->kind == GRAPH_CONDITION) {
        condition_hold(parameters->condition.word);
        good = bodies_make(n, NULL, true);
        if (!good) {
            bodies_drop(n);
            condition_drop(parameters->condition.word);
        }
    }
    if (!good) {
        n->parameters = (struct graph_parameters){ .kind = GRAPH_EMPTY }; /* what they point to is the caller's */
        n->bodies = NULL;
        node_free(n);
        return CORE_OUT_OF_MEMORY;
    }
    if ((n->memory = freed)) {
        memory_hold(freed);
        memory_freed_by(freed, n);
    }
    *out = n;
    return CORE_OK;
}

/* ---- graphs ---- */

struct graph *graph_new(bool has_handle)
{
    struct graph *g = calloc(1, sizeof *g);
    if (g && has_handle && !(g->token = handle_add(HANDLE_GRAPH, g))) {
        free(g);
        return NULL;
    }
    return g;
}

void graph_free(struct graph *g)
{
    for (struct list *link; (link = list_first(&g->nodes));)
        node_free(LIST_OBJECT(link, struct model_node, of_graph));
    ground_leave(g);
    users_drop(g);
    conditions_drop(g);
    if (g->token)
        handle_remove(HANDLE_GRAPH, g->token);
    free(g);
}

static struct model_node *node_copy(struct graph *to, struct model_node *n, bool with_handles)
{
    struct graph_parameters parameters;
    if (!parameters_copy(&n->parameters, &parameters))
        return NULL;
    struct model_node *copy = node_new(to, &parameters, with_handles);
    if (!copy) {
        parameters_drop(&parameters);
        return NULL;
    }
    copy->original = n->token ? n->token : n->original;
    copy->disabled = n->disabled;
    if ((copy->memory = n->memory))
        memory_hold(copy->memory);
    if (n->bodies && !bodies_make(copy, n, with_handles))
        return NULL;
    if (n->child) {
        if (!(copy->child = graph_copy_of(n->child, with_handles)))
            return NULL;
        copy->child->parent = copy;
        copy->parameters.child = copy->child->token;
    }
    return copy;
}

struct graph *graph_copy_of(struct graph *g, bool with_handles)
{
    struct graph *copy = graph_new(with_handles);
    struct model_node **copies = copy ? malloc((g->count + 1) * sizeof *copies) : NULL;
    size_t count = 0;
    bool good = copies && users_copy(copy, g);
    if (copy)
        copy->original = g->token;
    for (EACH_NODE(n, g)) {
        if (!good)
            break;
        n->place = count;
        good = (copies[count++] = node_copy(copy, n, with_handles)) != NULL;
    }
    for (EACH_NODE(n, g))
        for (size_t i = 0; good && i < n->after.count; i++)
            good = node_connect(copies[n->place], copies[n->after.items[i].node->place], &n->after.items[i].data);
    /* Each list keeps its own order: the one of the nodes before is not that of the nodes after. */
    for (EACH_NODE(n, g))
        for (size_t i = 0; good && i < n->before.count; i++)
            copies[n->place]->before.items[i] =
                (struct edge){ copies[n->before.items[i].node->place], n->before.items[i].data };
    free(copies);
    if (copy && !good) {
        graph_free(copy);
        copy = NULL;
    }
    return copy;
}

/* It or a child allocates or frees. */
static bool graph_uses_memory(struct graph *g)
{
    for (EACH_NODE(n, g))
        if (n->parameters.kind == GRAPH_ALLOCATE || n->parameters.kind == GRAPH_FREE ||
            (n->child && graph_uses_memory(n->child)))
            return true;
    return false;
}

bool graph_is_single(struct graph *g) { return graph_uses_memory(g) || graph_has_conditions(g); }

/* ---- the public face ---- */

int graph_create(graph_handle *out)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_new(true);
    if (g)
        *out = g->token;
    graphs_leave();
    return g ? CORE_OK : CORE_OUT_OF_MEMORY;
}

int graph_destroy(graph_handle handle)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    if (!g || g->parent || g->captures)
        code = CORE_INVALID_VALUE;
    else
        graph_free(g);
    graphs_leave();
    return code;
}

int graph_clone(graph_handle handle, graph_handle *out)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle), *copy = NULL;
    if (!g)
        code = CORE_INVALID_VALUE;
    else if (graph_is_single(g))
        code = CORE_NOT_SUPPORTED;
    else if (!(copy = graph_copy_of(g, true)))
        code = CORE_OUT_OF_MEMORY;
    if (!code)
        *out = copy->token;
    graphs_leave();
    return code;
}

int graph_find_in_clone(graph_node original, graph_handle clone, graph_node *out)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(clone);
    code = CORE_INVALID_VALUE;
    if (g && original)
        for (EACH_NODE(n, g))
            if (n->original == original) {
                *out = n->token;
                code = CORE_OK;
            }
    graphs_leave();
    return code;
}

static int nodes_of(const graph_node *tokens, size_t count, struct model_node ***out)
{
    *out = NULL;
    if (count && !tokens)
        return CORE_INVALID_VALUE;
    if (!(*out = malloc((count + 1) * sizeof **out)))
        return CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        (*out)[i] = node_of(tokens[i]);
    return CORE_OK;
}

/* A child is a copy of the graph that the program names. */
static int child_copy(graph_handle handle, struct graph **out)
{
    struct graph *child = graph_of(handle);
    if (!child || child->moved)
        return CORE_INVALID_VALUE;
    if (graph_is_single(child))
        return CORE_NOT_SUPPORTED;
    return (*out = graph_copy_of(child, true)) ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* The program's graph itself: nothing else may have it, and it must not contain g. */
static int child_move(const struct graph *g, graph_handle handle, struct graph **out)
{
    struct graph *child = graph_of(handle);
    if (!child || child->parent || child->captures || child->instantiated)
        return CORE_INVALID_VALUE;
    for (; g; g = g->parent ? g->parent->graph : NULL)
        if (g == child)
            return CORE_INVALID_VALUE;
    if (graph_has_conditions(child))
        return CORE_NOT_SUPPORTED;
    *out = child;
    return CORE_OK;
}

static void child_adopt(struct model_node *n, struct graph *child)
{
    if (n->child)
        graph_free(n->child);
    n->child = child;
    child->parent = n;
    n->parameters.child = child->token;
}

static int add(graph_handle handle, const graph_node *before, const struct graph_edge *edges, size_t count,
               struct graph_parameters *parameters, struct memory_block **room, graph_node *out)
{
    struct graph *g = graph_of(handle), *child = NULL;
    struct model_node **nodes = NULL, *n = NULL;
    struct memory *memory = NULL;
    int code = g ? nodes_of(before, count, &nodes) : CORE_INVALID_VALUE;
    bool moves = parameters->kind == GRAPH_CHILD && parameters->moves;
    if (!code && parameters->kind == GRAPH_CHILD)
        code = moves ? child_move(g, parameters->child, &child) : child_copy(parameters->child, &child);
    if (!code && parameters->kind == GRAPH_ALLOCATE)
        code = memory_new(g, nodes, count, parameters, room, &memory);
    if (!code)
        code = node_add(g, nodes, edges, count, parameters, &n);
    if (!code) {
        if (memory)
            n->memory = memory;
        if (child)
            child_adopt(n, child);
        if (moves)
            child->moved = true;
        *out = n->token;
    } else if (child && !moves) {
        graph_free(child);
    } else if (memory) {
        memory_drop(memory);
    }
    free(nodes);
    return code;
}

int graph_add(graph_handle handle, const graph_node *before, const struct graph_edge *edges, size_t count,
              struct graph_parameters *parameters, graph_node *out)
{
    CANCEL_DEFERRED;
    struct graph_parameters own;
    struct memory_block *room = NULL;
    int code = parameters_prepare(parameters, &own);
    if (code)
        return code;
    do {
        if ((code = graphs_enter()))
            break;
        code = add(handle, before, edges, count, &own, &room, out);
        if (!code && own.kind == GRAPH_CONDITION)
            parameters->condition.bodies = node_of(*out)->body_handles;
        graphs_leave();
    } while (code == MEMORY_LACKS_ROOM && !(code = room_make(&own, &room)));
    room_drop(room);
    if (!code && own.kind == GRAPH_ALLOCATE)
        parameters->allocation.address = own.allocation.address;
    if (code && own.kind == GRAPH_CONDITION)
        own.condition.word = NULL; /* nothing holds it here */
    if (code)
        parameters_drop(&own);
    return code;
}

int graph_remove(graph_node token)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct model_node *n = node_of(token);
    if (!n)
        code = CORE_INVALID_VALUE;
    else if (graph_uses_memory(n->graph))
        code = CORE_NOT_SUPPORTED;
    else
        node_free(n);
    graphs_leave();
    return code;
}

/* All of the pairs, or none. */
static int connect(struct graph *g, struct model_node *const *from, struct model_node *const *to,
                   const struct graph_edge *edges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct graph_edge *data = edges ? &edges[i] : NULL;
        int code = !from[i] || !to[i] || from[i]->graph != g || to[i]->graph != g || from[i] == to[i] ||
                           edge_find(&from[i]->after, to[i]) || !edge_fits(from[i], to[i]->parameters.kind, data)
                       ? CORE_INVALID_VALUE
                   : node_connect(from[i], to[i], data) ? CORE_OK
                                                        : CORE_OUT_OF_MEMORY;
        if (code) {
            while (i--)
                node_disconnect(from[i], to[i]);
            return code;
        }
    }
    return CORE_OK;
}

static int disconnect(struct graph *g, struct model_node *const *from, struct model_node *const *to,
                      const struct graph_edge *edges, size_t count)
{
    if (graph_uses_memory(g))
        return CORE_NOT_SUPPORTED;
    for (size_t i = 0; i < count; i++) {
        struct edge *edge = from[i] && to[i] && from[i]->graph == g ? edge_find(&from[i]->after, to[i]) : NULL;
        if (!edge || (edges && memcmp(&edge->data, &edges[i], sizeof edge->data))) /* NULL: whatever data it has */
            return CORE_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++)
        node_disconnect(from[i], to[i]);
    return CORE_OK;
}

typedef int (*edge_change)(struct graph *, struct model_node *const *, struct model_node *const *,
                           const struct graph_edge *, size_t);

static int change_edges(edge_change change, graph_handle handle, const graph_node *from, const graph_node *to,
                        const struct graph_edge *edges, size_t count)
{
    struct model_node **sources = NULL, **targets = NULL;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    code = g ? nodes_of(from, count, &sources) : CORE_INVALID_VALUE;
    if (!code)
        code = nodes_of(to, count, &targets);
    if (!code)
        code = change(g, sources, targets, edges, count);
    free(sources);
    free(targets);
    graphs_leave();
    return code;
}

int graph_connect(graph_handle handle, const graph_node *from, const graph_node *to, const struct graph_edge *edges,
                  size_t count)
{
    CANCEL_DEFERRED;
    return change_edges(connect, handle, from, to, edges, count);
}

int graph_disconnect(graph_handle handle, const graph_node *from, const graph_node *to, const struct graph_edge *edges,
                     size_t count)
{
    CANCEL_DEFERRED;
    return change_edges(disconnect, handle, from, to, edges, count);
}

int graph_set_parameters(graph_node token, const struct graph_parameters *parameters)
{
    CANCEL_DEFERRED;
    struct graph_parameters own;
    struct graph *child = NULL;
    int code = parameters_prepare(parameters, &own);
    if (code)
        return code;
    if ((code = graphs_enter())) {
        parameters_drop(&own);
        return code;
    }
    struct model_node *n = node_of(token);
    if (!n || n->parameters.kind != own.kind || own.kind == GRAPH_ALLOCATE || own.kind == GRAPH_FREE ||
        own.kind == GRAPH_CONDITION)
        code = CORE_INVALID_VALUE;
    if (!code && own.kind == GRAPH_CHILD)
        code = own.moves ? CORE_NOT_SUPPORTED : child_copy(own.child, &child);
    if (!code && own.kind == GRAPH_KERNEL && !(code = attributes_keep(&own, &n->parameters)))
        code = kernel_check(own.context, &own.kernel); /* a grid that suits the node's attributes */
    if (!code) {
        struct graph_parameters before = n->parameters;
        n->parameters = own;
        own = before;
        if (child)
            child_adopt(n, child);
    }
    graphs_leave();
    parameters_drop(&own);
    return code;
}
