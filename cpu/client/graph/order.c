/* order.c: what comes before what in a graph. The results are in the nodes' `place`. */
#include <stdlib.h>

#include "cpu/client/graph/model.h"

struct model_node **graph_order(struct graph *g, struct model_node **cycle)
{
    struct model_node **order = malloc((g->count + 1) * sizeof *order);
    size_t done = 0, found = 0;
    *cycle = NULL;
    if (!order)
        return NULL;
    for (EACH_NODE(n, g))
        if (!(n->place = n->before.count))
            order[found++] = n;
    for (; done < found; done++)
        for (size_t i = 0; i < order[done]->after.count; i++)
            if (--order[done]->after.items[i].node->place == 0)
                order[found++] = order[done]->after.items[i].node;
    if (found == g->count)
        return order;
    for (EACH_NODE(n, g))
        if (n->place && !*cycle)
            *cycle = n;
    free(order);
    return NULL;
}

/* Marks the node, if that is to be done, and puts it with those whose own predecessors are still to be marked. */
static void mark(struct model_node *n, struct model_node **unvisited, size_t *count)
{
    if (n->place)
        return;
    n->place = 1;
    unvisited[(*count)++] = n;
}

bool graph_mark_before(struct graph *g, struct model_node *const *nodes, size_t count)
{
    struct model_node **unvisited = malloc((g->count + 1) * sizeof *unvisited);
    size_t found = 0;
    if (!unvisited)
        return false;
    for (EACH_NODE(n, g))
        n->place = 0;
    for (size_t i = 0; i < count; i++)
        if (nodes[i] && nodes[i]->graph == g)
            mark(nodes[i], unvisited, &found);
    while (found) {
        const struct edges *before = &unvisited[--found]->before;
        for (size_t i = 0; i < before->count; i++)
            mark(before->items[i].node, unvisited, &found);
    }
    free(unvisited);
    return true;
}
