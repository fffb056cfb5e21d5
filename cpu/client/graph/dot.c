/*
 * dot.c: a graph in the language of Graphviz, as cudaGraphDebugDotPrint writes it: one subgraph for the graph and one
 * for each child, nodes by number, and what the flags ask for about each.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cpu/client/graph/model.h"
#include "cpu/common/cancel.h"

/* As in CUgraphDebugDot_flags. */
enum {
    VERBOSE = 1 << 0,
    KERNELS = 1 << 2,
    COPIES = 1 << 3,
    SETS = 1 << 4,
    HOSTS = 1 << 5,
    EVENTS = 1 << 6,
    ATTRIBUTES = 1 << 9,
    HANDLES = 1 << 10,
    ALLOCATIONS = 1 << 11,
    FREES = 1 << 12,
    VALUES = 1 << 13,
    TOPOLOGY = 1 << 14,
    CONDITIONS = 1 << 15
};

static const char *name_of(enum graph_kind kind)
{
    static const char *const names[] = { "KERNEL",
                                         "MEMCPY",
                                         "MEMSET",
                                         "HOST",
                                         "GRAPH",
                                         "EMPTY",
                                         "EVENT_WAIT",
                                         "EVENT_RECORD",
                                         [GRAPH_ALLOCATE] = "MEM_ALLOC",
                                         [GRAPH_FREE] = "MEM_FREE",
                                         [GRAPH_VALUES] = "BATCH_MEM_OP",
                                         [GRAPH_CONDITION] = "CONDITIONAL",
                                         [GRAPH_COLLECTIVE] = "COLLECTIVE" };
    return names[kind];
}

/* The first bytes of each value, which are all that most have. */
static void print_attributes(FILE *f, const struct graph_kernel *k)
{
    for (uint32_t i = 0; i < k->attribute_count; i++) {
        int32_t value;
        memcpy(&value, k->attributes[i].value, sizeof value);
        fprintf(f, "\\nattribute %d: %" PRId32, k->attributes[i].id, value);
    }
}

/* Whatever the flags are: tools that draw graphs look for it. */
static void print_kernel_name(FILE *f, const struct graph_kernel *k)
{
    const char *name;
    if (core_function_check(k->function, NULL, &name) == CORE_OK)
        fprintf(f, "\\n%s", name);
}

static void print_parameters(FILE *f, const struct graph_parameters *p, unsigned flags)
{
    if (p->kind == GRAPH_KERNEL)
        print_kernel_name(f, &p->kernel);
    if (p->kind == GRAPH_KERNEL && flags & ATTRIBUTES)
        print_attributes(f, &p->kernel);
    if (p->kind == GRAPH_KERNEL && flags & KERNELS) {
        const struct graph_kernel *k = &p->kernel;
        fprintf(f, "\\ngrid %ux%ux%u block %ux%ux%u shared %zu", k->grid[0], k->grid[1], k->grid[2], k->block[0],
                k->block[1], k->block[2], k->shared);
    } else if (p->kind == GRAPH_COPY && flags & COPIES) {
        fprintf(f, "\\n0x%" PRIx64 " to 0x%" PRIx64 ", %zux%zux%zu", p->copy.from.base, p->copy.to.base,
                p->copy.extent.width, p->copy.extent.height, p->copy.extent.depth);
    } else if (p->kind == GRAPH_SET && flags & SETS) {
        fprintf(f, "\\n0x%" PRIx64 " value %u, %zux%zu of %u", p->set.to, p->set.value, p->set.width, p->set.height,
                p->set.element);
    } else if (p->kind == GRAPH_HOST && flags & HOSTS) {
        fprintf(f, "\\n%p(%p)", *(void *const *)&p->host.function, p->host.user);
    } else if ((p->kind == GRAPH_WAIT_EVENT || p->kind == GRAPH_RECORD_EVENT) && flags & EVENTS) {
        fprintf(f, "\\nevent 0x%" PRIx64, p->event);
    } else if (p->kind == GRAPH_ALLOCATE && flags & ALLOCATIONS) {
        fprintf(f, "\\n0x%" PRIx64 ", %zu bytes", p->allocation.address, p->allocation.size);
    } else if (p->kind == GRAPH_FREE && flags & FREES) {
        fprintf(f, "\\n0x%" PRIx64, p->freed);
    } else if (p->kind == GRAPH_VALUES && flags & VALUES) {
        fprintf(f, "\\n%u operations", p->values.count);
    } else if (p->kind == GRAPH_CONDITION && flags & CONDITIONS) {
        static const char *const types[] = { "if", "while", "switch" };
        fprintf(f, "\\n%s, %u bodies, handle 0x%" PRIx64, types[p->condition.type], p->condition.count,
                p->condition.handle);
    }
}

static void print_edge(FILE *f, const struct graph_edge *data, size_t number, unsigned flags)
{
    if (flags & TOPOLOGY)
        fprintf(f, "[label=\"edge %zu, type %u, from port %u to port %u\"]", number, data->type, data->from_port,
                data->to_port);
    fprintf(f, ";\n");
}

/* Graphs are numbered as they are printed. */
static void print_graph(FILE *f, struct graph *g, unsigned flags, unsigned *number)
{
    unsigned own = (*number)++;
    size_t place = 0, edge = 0;
    fprintf(f, "subgraph cluster_%u {\nlabel=\"graph_%u\"\n", own, own);
    for (EACH_NODE(n, g)) {
        n->place = place++;
        fprintf(f, "\"graph_%u_node_%zu\"[label=\"%zu\\n%s", own, n->place, n->place, name_of(n->parameters.kind));
        if (flags & HANDLES)
            fprintf(f, "\\nhandle 0x%" PRIx64, n->token);
        print_parameters(f, &n->parameters, flags);
        fprintf(f, "\"];\n");
    }
    for (EACH_NODE(n, g))
        for (size_t i = 0; i < n->after.count; i++) {
            fprintf(f, "\"graph_%u_node_%zu\" -> \"graph_%u_node_%zu\"", own, n->place, own,
                    n->after.items[i].node->place);
            print_edge(f, &n->after.items[i].data, edge++, flags);
        }
    fprintf(f, "}\n");
    struct graph *inner;
    for (EACH_NODE(n, g))
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            print_graph(f, inner, flags, number);
}

int graph_print(graph_handle handle, const char *path, unsigned flags)
{
    CANCEL_OFF;
    unsigned number = 0;
    int code = graphs_enter();
    if (code)
        return code;
    struct graph *g = graph_of(handle);
    FILE *f = g && path ? fopen(path, "we") : NULL;
    if (f) {
        fprintf(f, "digraph dot {\n");
        print_graph(f, g, flags & VERBOSE ? ~0u : flags, &number);
        fprintf(f, "}\n");
    }
    graphs_leave();
    return f && fclose(f) == 0 ? CORE_OK : CORE_INVALID_VALUE;
}
