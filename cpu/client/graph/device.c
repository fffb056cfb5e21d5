/*
 * device.c: executable graphs that kernels launch (cudaGraphInstantiateFlagDeviceLaunch), and graphs whose kernels
 * launch others.
 *
 * The server keeps the calls of such an executable, one node behind the other, under the handle that the program has
 * for it. They come in force with an upload, or with a launch of the program's. A graph whose kernels launch others has
 * one more call at its end: the stream waits there for what they have launched (cpu/server/graph/device_graph.c).
 */
#include "cpu/client/graph/executable.h"

/* ---- what such a graph may have ---- */

static bool reached(const struct graph_side *side)
{
    struct core_range range;
    if (!core_address_lookup(side->base, &range) || range.kind == CORE_UNKNOWN_MEMORY)
        return false;
    return range.kind == CORE_DEVICE_MEMORY || core_host_reached((void *)(uintptr_t)range.base);
}

static bool kind_fits(const struct graph_parameters *p)
{
    switch (p->kind) {
    case GRAPH_KERNEL: return !(p->kernel.uses & CORE_USES_CHILDREN);
    case GRAPH_COPY: return reached(&p->copy.to) && reached(&p->copy.from);
    case GRAPH_SET:
    case GRAPH_CHILD: return true;
    default: return false;
    }
}

/* Kernels, copies and sets, and children of these, all of one context. *work: there is any. */
static int check_all(struct graph *g, const core_context **context, bool *work, struct graph_failure *failure)
{
    for (EACH_NODE(n, g)) {
        const struct graph_parameters *p = &n->parameters;
        if (!kind_fits(p)) {
            *failure = (struct graph_failure){ n->token, GRAPH_LACKS_OPERATION };
            return CORE_NOT_SUPPORTED;
        }
        int code = n->child ? check_all(n->child, context, work, failure) : CORE_OK;
        if (code)
            return code;
        if (n->child)
            continue;
        if (*work && p->context != *context) {
            *failure = (struct graph_failure){ n->token, GRAPH_SEVERAL_CONTEXTS };
            return CORE_NOT_SUPPORTED;
        }
        *context = p->context;
        *work = true;
    }
    return CORE_OK;
}

int device_check(struct graph *g, struct graph_failure *failure)
{
    const core_context *context = NULL;
    bool work = false;
    int code = check_all(g, &context, &work, failure);
    return code ? code : work ? CORE_OK : CORE_INVALID_VALUE;
}

/* ---- kernels that launch graphs ---- */

static int look(struct executable *e, struct graph *g, const core_context **from, struct graph_failure *failure)
{
    for (EACH_NODE(n, g)) {
        const struct graph_parameters *p = &n->parameters;
        struct graph *inner;
        for (size_t i = 0; (inner = node_inner(n, i)); i++) {
            int code = look(e, inner, from, failure);
            if (code)
                return code;
        }
        if (p->kind != GRAPH_KERNEL || !(p->kernel.uses & CORE_USES_GRAPHS))
            continue;
        if (*from && *from != p->context) {
            *failure = (struct graph_failure){ n->original, GRAPH_SEVERAL_CONTEXTS };
            return CORE_NOT_SUPPORTED;
        }
        *from = p->context;
    }
    return CORE_OK;
}

int device_look(struct executable *e, struct graph_failure *failure)
{
    const core_context *from = NULL;
    int code = look(e, e->graph, &from, failure);
    e->launches |= from != NULL;
    if (!e->launches_from)
        e->launches_from = from;
    return code;
}

bool device_may_use(const struct model_node *n, unsigned uses)
{
    const struct executable *e = executable_of(n);
    const unsigned more = uses & ~n->parameters.kernel.uses;
    if (more & CORE_USES_CHILDREN)
        return false;
    bool any = !e || e->flags & GRAPH_DEVICE_LAUNCH;
    return any || !(more & CORE_USES_GRAPHS) || e->launches_from == n->parameters.context;
}

/* ---- uploads ---- */

static core_context *context_of(struct graph *g)
{
    for (EACH_NODE(n, g)) {
        core_context *context = n->child ? context_of(n->child) : n->parameters.context;
        if (context)
            return context;
    }
    return NULL;
}

int device_set(const struct launch *l)
{
    struct executable *e = l->e;
    core_condition *q;
    core_stream inner;
    int code = core_condition_create(context_of(e->graph), 0, (enum core_condition_kind)CORE_NO_CONDITION, &q, &inner);
    if (code)
        return code;
    code = core_condition_body(q);
    if (!code)
        code = nodes_run(e->graph, inner, PRIORITY_OF_NODES);
    if (!code)
        code = core_device_graph_set(q, l->context, l->stream, e->token);
    core_condition_destroy(q);
    e->uploaded = code == CORE_OK;
    return code;
}
