/*
 * executable.c: executable graphs: how they are made, changed and ended.
 */
#include "cpu/client/graph/executable.h"

#include <stdlib.h>

#include "cpu/client/graph/handles.h"
#include "cpu/common/cancel.h"

/* ---- entering ---- */

int executable_enter(graph_executable token, struct executable **out)
{
    int code = graphs_enter();
    if (code)
        return code;
    struct executable *e = handle_find(HANDLE_EXECUTABLE, token);
    if (e)
        e->references++;
    graphs_leave();
    if (!e)
        return CORE_INVALID_VALUE;
    pthread_mutex_lock(&e->lock);
    *out = e;
    return CORE_OK;
}

static void executable_free(struct executable *e)
{
    if (e->flags & GRAPH_DEVICE_LAUNCH && e->token)
        core_device_graph_drop(e->token);
    kept_drop(e);
    plan_drop(&e->plan);
    if (e->joined)
        core_event_destroy(e->joined);
    if (e->started)
        core_event_destroy(e->started);
    if (e->graph)
        users_release_behind(e->graph, e->ended_context, e->ended);
    if (!memory_executable_ends(e) && e->ended)
        core_event_destroy(e->ended);
    if (e->graph && !graphs_enter()) {
        graph_free(e->graph);
        graphs_leave();
    }
    pthread_mutex_destroy(&e->lock);
    free(e->named);
    free(e);
}

static void unreference(struct executable *e)
{
    if (graphs_enter())
        return;
    bool last = --e->references == 0;
    graphs_leave();
    if (last)
        executable_free(e);
}

void executable_leave(struct executable *e)
{
    pthread_mutex_unlock(&e->lock);
    unreference(e);
}

/* ---- making ---- */

static size_t nodes_in(struct graph *g)
{
    size_t count = g->count;
    struct graph *inner;
    for (EACH_NODE(n, g))
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            count += nodes_in(inner);
    return count;
}

static void names_fill(struct executable *e, struct graph *g)
{
    for (EACH_NODE(n, g)) {
        e->named[e->named_count++] = (struct named){ n->original, n };
        if (n->parameters.kind == GRAPH_ALLOCATE || n->parameters.kind == GRAPH_FREE)
            e->uses_memory = true;
        if (n->parameters.kind == GRAPH_CONDITION)
            e->has_conditions = true;
        struct graph *inner;
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            names_fill(e, inner);
    }
}

static int by_original(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    return a->original < b->original ? -1 : a->original > b->original;
}

static struct model_node *named_node(const struct executable *e, graph_node original)
{
    const struct named key = { .original = original };
    struct named *found = original ? bsearch(&key, e->named, e->named_count, sizeof key, by_original) : NULL;
    return found ? found->node : NULL;
}

/* Under the lock of the graphs: the graph may have another executable now. */
static void only_leave(struct executable *e)
{
    struct graph *g = graph_of(e->only_of);
    if (g)
        g->instantiated = false;
    e->only_of = 0;
}

static int executable_fill(struct executable *e, struct graph_failure *failure)
{
    struct model_node *cycle;
    int code = plan_make(&e->plan, e->graph, &cycle);
    if (cycle)
        *failure = (struct graph_failure){ cycle->original, GRAPH_INVALID_STRUCTURE };
    if (code)
        return code;
    if (!(e->named = malloc((nodes_in(e->graph) + 1) * sizeof *e->named)))
        return CORE_OUT_OF_MEMORY;
    names_fill(e, e->graph);
    if (e->uses_memory && !memory_executable(e))
        return CORE_OUT_OF_MEMORY;
    qsort(e->named, e->named_count, sizeof *e->named, by_original);
    e->graph->executable = e;
    return device_look(e, failure);
}

/* What was given to a kernel node piece by piece fits together only when all is there. */
static int kernels_check(struct graph *g, struct graph_failure *failure)
{
    for (EACH_NODE(n, g)) {
        const struct graph_kernel *k = &n->parameters.kernel;
        bool kernel = n->parameters.kind == GRAPH_KERNEL && (k->attribute_count || k->cooperative);
        int code = kernel ? kernel_check(n->parameters.context, k) : CORE_OK;
        if (code)
            *failure = (struct graph_failure){ n->original, GRAPH_NOT_MADE };
        struct graph *inner;
        for (size_t i = 0; !code && (inner = node_inner(n, i)); i++)
            code = kernels_check(inner, failure);
        if (code)
            return code;
    }
    return CORE_OK;
}

int graph_instantiate(graph_handle handle, unsigned long long flags, graph_executable *out,
                      struct graph_failure *failure)
{
    CANCEL_DEFERRED;
    *failure = (struct graph_failure){ 0, GRAPH_NOT_MADE };
    if (flags & ~15ull)
        return CORE_INVALID_VALUE;
    if (flags & GRAPH_DEVICE_LAUNCH && flags & GRAPH_FREE_ON_LAUNCH)
        return CORE_INVALID_VALUE;
    bool device = flags & GRAPH_DEVICE_LAUNCH, offered = !device || core_device_graphs_offered() == CORE_OK;
    struct executable *e = calloc(1, sizeof *e);
    if (!e)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_init(&e->lock, NULL);
    e->flags = flags;
    e->references = 1;
    int code = graphs_enter();
    if (!code) {
        struct graph *g = graph_of(handle);
        bool only = g && graph_is_single(g), unused = false;
        struct model_node *cycle = NULL;
        if (!g || (only && g->instantiated) || g->moved || (g->parent && g->parent->bodies))
            code = CORE_INVALID_VALUE;
        else if ((code = conditions_check(g, &cycle, &unused)))
            *failure = (struct graph_failure){ cycle ? cycle->token : 0, unused  ? GRAPH_HANDLE_UNUSED
                                                                         : cycle ? GRAPH_INVALID_STRUCTURE
                                                                                 : GRAPH_NOT_MADE };
        else if (device && (code = device_check(g, failure)))
            ;
        else if (!offered)
            code = CORE_NOT_SUPPORTED;
        else if (!(e->graph = graph_copy_of(g, false)))
            code = CORE_OUT_OF_MEMORY;
        else if (only) {
            g->instantiated = true;
            e->only_of = handle;
        }
        graphs_leave();
    }
    if (!offered && code == CORE_NOT_SUPPORTED && failure->reason == GRAPH_NOT_MADE)
        core_unsupported("a graph that kernels launch, on this GPU server");
    if (!code)
        code = executable_fill(e, failure);
    if (!code)
        code = kernels_check(e->graph, failure);
    if (!code && !(code = graphs_enter())) {
        if (!(e->token = handle_add(HANDLE_EXECUTABLE, e)))
            code = CORE_OUT_OF_MEMORY;
        graphs_leave();
    }
    if (code) {
        if (e->only_of && !graphs_enter()) {
            only_leave(e);
            graphs_leave();
        }
        executable_free(e);
        return code;
    }
    failure->reason = GRAPH_MADE;
    *out = e->token;
    return CORE_OK;
}

int graph_executable_destroy(graph_executable token)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    struct executable *e = handle_find(HANDLE_EXECUTABLE, token);
    if (e) {
        handle_remove(HANDLE_EXECUTABLE, token);
        only_leave(e);
    }
    graphs_leave();
    if (!e)
        return CORE_INVALID_VALUE;
    unreference(e);
    return CORE_OK;
}

int graph_executable_flags(graph_executable token, unsigned long long *flags)
{
    CANCEL_DEFERRED;
    struct executable *e;
    int code = executable_enter(token, &e);
    if (code)
        return code;
    *flags = e->flags & ~(unsigned long long)GRAPH_UPLOAD;
    executable_leave(e);
    return CORE_OK;
}

/* ---- changing single nodes ---- */

/* Under its lock: what the server has of it is out of date. */
static void executable_changed(struct executable *e)
{
    struct graph_failure none;
    e->changed = true;
    e->uploaded = false;
    if (e->flags & GRAPH_DEVICE_LAUNCH)
        device_look(e, &none);
}

/* Enters the executable, and finds its node of a kind that can be disabled: kernels, copies and memsets. On success the
   caller leaves the executable. */
static int enter_switch(graph_executable token, graph_node original, struct executable **e, struct model_node **node)
{
    int code = executable_enter(token, e);
    if (code)
        return code;
    struct model_node *n = named_node(*e, original);
    if (n && (n->parameters.kind == GRAPH_KERNEL || n->parameters.kind == GRAPH_COPY ||
              n->parameters.kind == GRAPH_SET)) {
        *node = n;
        return CORE_OK;
    }
    executable_leave(*e);
    return CORE_INVALID_VALUE;
}

int graph_executable_enable(graph_executable token, graph_node original, bool enabled)
{
    CANCEL_DEFERRED;
    struct executable *e;
    struct model_node *n;
    int code = enter_switch(token, original, &e, &n);
    if (code)
        return code;
    n->disabled = !enabled;
    executable_changed(e);
    executable_leave(e);
    return CORE_OK;
}

int graph_executable_enabled(graph_executable token, graph_node original, bool *enabled)
{
    CANCEL_DEFERRED;
    struct executable *e;
    struct model_node *n;
    int code = enter_switch(token, original, &e, &n);
    if (code)
        return code;
    *enabled = !n->disabled;
    executable_leave(e);
    return CORE_OK;
}

/* ---- update ---- */

static enum core_memory_kind memory_kind(uint64_t address)
{
    struct core_range range;
    return core_address_lookup(address, &range) ? range.kind : CORE_UNKNOWN_MEMORY;
}

static bool same_place(uint64_t a, uint64_t b)
{
    return (memory_kind(a) == CORE_DEVICE_MEMORY) == (memory_kind(b) == CORE_DEVICE_MEMORY);
}

/* Addresses and values may change, and what a wait waits for; not how many there are, and of which kinds. */
static bool same_values(const struct graph_values *now, const struct graph_values *new)
{
    bool same = now->count == new->count;
    for (unsigned i = 0; i < now->count && same; i++) {
        const struct core_value *a = &now->list[i], *b = &new->list[i];
        bool wait = a->kind == CORE_WAIT_VALUE_32 || a->kind == CORE_WAIT_VALUE_64;
        same = a->kind == b->kind && (wait || a->flags == b->flags);
    }
    return same;
}

/* Whether an executable's node can take these parameters: what native keeps fixed must be the same. */
static enum graph_updated compare(const struct model_node *node, const struct graph_parameters *new)
{
    const struct graph_parameters *now = &node->parameters;
    if (now->kind != new->kind)
        return GRAPH_KIND_CHANGED;
    switch (now->kind) {
    case GRAPH_KERNEL:
        return now->context == new->context && device_may_use(node, new->kernel.uses)
                   ? GRAPH_UPDATED
                   : GRAPH_FUNCTION_CHANGE_UNSUPPORTED;
    case GRAPH_COPY:
        return now->context == new->context &&same_place(now->copy.to.base, new->copy.to.base) &&
                       same_place(now->copy.from.base, new->copy.from.base)
                   ? GRAPH_UPDATED
                   : GRAPH_PARAMETERS_CHANGED;
    case GRAPH_SET:
        return now->context == new->context && (now->set.height == 1) == (new->set.height == 1)
                   ? GRAPH_UPDATED
                   : GRAPH_PARAMETERS_CHANGED;
    case GRAPH_ALLOCATE:
        return now->allocation.address == new->allocation.address ? GRAPH_UPDATED : GRAPH_UPDATE_NOT_SUPPORTED;
    case GRAPH_FREE: return now->freed == new->freed ? GRAPH_UPDATED : GRAPH_UPDATE_NOT_SUPPORTED;
    case GRAPH_VALUES:
        return now->context == new->context && same_values(&now->values, &new->values) ? GRAPH_UPDATED
                                                                                       : GRAPH_PARAMETERS_CHANGED;
    case GRAPH_CONDITION:
        return now->context == new->context && now->condition.type == new->condition.type &&
                       now->condition.count == new->condition.count
                   ? GRAPH_UPDATED
                   : GRAPH_PARAMETERS_CHANGED;
    case GRAPH_COLLECTIVE:
        return now->context == new->context && now->collective.comm == new->collective.comm &&
                       !now->collective.messages == !new->collective.messages &&
                       !now->collective.sided == !new->collective.sided &&
                       now->collective.waits == new->collective.waits
                   ? GRAPH_UPDATED
                   : GRAPH_PARAMETERS_CHANGED;
    default: return GRAPH_UPDATED;
    }
}

/* Both graphs' nodes are numbered in `place`. */
static bool same_edges(const struct edges *a, const struct edges *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        size_t j = 0;
        while (j < b->count && b->items[j].node->place != a->items[i].node->place)
            j++;
        if (j == b->count)
            return false;
    }
    return true;
}

static void number(struct graph *g)
{
    size_t place = 0;
    for (EACH_NODE(n, g))
        n->place = place++;
}

static struct model_node *next_node(struct graph *g, struct model_node *n)
{
    return LIST_OBJECT(n ? list_next(&g->nodes, &n->of_graph) : list_first(&g->nodes), struct model_node, of_graph);
}

static bool compare_graphs(struct graph *now, struct graph *new, struct graph_update *out)
{
    number(now);
    number(new);
    struct model_node *a = next_node(now, NULL), *b = next_node(new, NULL);
    for (; a && b; a = next_node(now, a), b = next_node(new, b)) {
        out->node = b->token;
        out->result = compare(a, &b->parameters);
        if (!out->result && !same_edges(&a->before, &b->before)) {
            out->result = GRAPH_TOPOLOGY_CHANGED;
            out->from = b->before.count ? b->before.items[0].node->token : 0;
        }
        if (out->result)
            return false;
        struct graph *inner;
        for (size_t i = 0; (inner = node_inner(a, i)); i++)
            if (!compare_graphs(inner, node_inner(b, i), out))
                return false;
    }
    out->node = 0;
    if (!a && !b)
        return true;
    *out = (struct graph_update){ .result = GRAPH_TOPOLOGY_CHANGED, .node = b ? b->token : 0 };
    return false;
}

/* Copies first, so that the executable changes as a whole or not at all. */
static bool copies_make(struct graph *new, struct graph_parameters *copies, size_t *count)
{
    for (EACH_NODE(n, new)) {
        if (!parameters_copy(&n->parameters, &copies[*count]))
            return false;
        ++*count;
        struct graph *inner;
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            if (!copies_make(inner, copies, count))
                return false;
    }
    return true;
}

/* What a function that a node once had does, another one may always do. */
static void uses_keep(struct graph_parameters *now, const struct graph_parameters *before)
{
    if (now->kind == GRAPH_KERNEL)
        now->kernel.uses |= before->kernel.uses;
}

static void copies_take(struct graph *g, struct graph_parameters *copies, size_t *count)
{
    for (EACH_NODE(n, g)) {
        struct graph_parameters before = n->parameters;
        n->parameters = copies[*count];
        uses_keep(&n->parameters, &before);
        copies[(*count)++] = before;
        struct graph *inner;
        for (size_t i = 0; (inner = node_inner(n, i)); i++)
            copies_take(inner, copies, count);
    }
}

/* The caller drops *count copies, and frees the list, also after an error. */
static int copies_new(struct graph *new, struct graph_parameters **copies, size_t *count)
{
    *copies = calloc(nodes_in(new) + 1, sizeof **copies);
    return *copies && copies_make(new, *copies, count) ? CORE_OK : CORE_OUT_OF_MEMORY;
}

/* Under both locks. *old gets the user objects' references that the executable no longer holds. */
static int update(struct graph *now, struct graph *new, struct graph_update *out, struct leftovers **old)
{
    *out = (struct graph_update){ .result = GRAPH_UPDATE_ERROR };
    if (!new)
        return CORE_INVALID_VALUE;
    if (!compare_graphs(now, new, out))
        return GRAPH_UPDATE_FAILURE;
    struct graph_parameters *copies;
    size_t count = 0, taken = 0;
    int code = copies_new(new, &copies, &count);
    if (!code && !(*old = users_replace(now, new)))
        code = CORE_OUT_OF_MEMORY;
    if (!code)
        copies_take(now, copies, &taken);
    while (count)
        parameters_drop(&copies[--count]);
    free(copies);
    return code;
}

/* Under the executable's lock. Launches that are under way need the references until they end. Those that are the
   caller's to release, when it has left the executable, stay in *old. */
static void update_ends(const struct executable *e, struct leftovers **old)
{
    if (users_wait(*old, e->ended_context, e->ended))
        *old = NULL;
}

int graph_executable_update(graph_executable token, graph_handle handle, struct graph_update *out)
{
    CANCEL_DEFERRED;
    struct executable *e;
    struct leftovers *old = NULL;
    *out = (struct graph_update){ .result = GRAPH_UPDATE_ERROR };
    int code = executable_enter(token, &e);
    if (code)
        return code;
    if (!(code = graphs_enter())) {
        struct graph *g = graph_of(handle);
        code = update(e->graph, g && g->moved ? NULL : g, out, &old);
        executable_changed(e);
        graphs_leave();
    }
    update_ends(e, &old);
    executable_leave(e);
    users_release(old);
    return code;
}

/* Under the executable's lock: what the node's attributes and its new parameters are together. */
static int set_attributes(const struct executable *e, graph_node original, struct graph_parameters *own)
{
    const struct model_node *n = named_node(e, original);
    if (!n || n->parameters.kind != GRAPH_KERNEL)
        return CORE_INVALID_VALUE;
    int code = attributes_keep(own, &n->parameters);
    bool checked = !own->kernel.attribute_count && !own->kernel.cooperative;
    return code || checked ? code : kernel_check(own->context, &own->kernel);
}

/* Under both locks. own is taken over, or is what it replaces. *old as update gives it. */
static int set(struct executable *e, graph_node original, struct graph_parameters *own, struct leftovers **old)
{
    struct graph_update why;
    struct model_node *n = named_node(e, original);
    if (!n || n->parameters.kind != own->kind || own->kind == GRAPH_ALLOCATE || own->kind == GRAPH_FREE ||
        own->kind == GRAPH_EMPTY || own->kind == GRAPH_CONDITION)
        return CORE_INVALID_VALUE;
    if (own->kind == GRAPH_CHILD)
        return update(n->child, graph_of(own->child), &why, old);
    if (compare(n, own))
        return CORE_INVALID_VALUE;
    struct graph_parameters before = n->parameters;
    n->parameters = *own;
    uses_keep(&n->parameters, &before);
    *own = before;
    return CORE_OK;
}

int graph_executable_set(graph_executable token, graph_node original, const struct graph_parameters *parameters)
{
    CANCEL_DEFERRED;
    struct executable *e;
    struct leftovers *old = NULL;
    struct graph_parameters own;
    int code = parameters_prepare(parameters, &own);
    if (code)
        return code;
    if (!(code = executable_enter(token, &e))) {
        code = own.kind == GRAPH_KERNEL ? set_attributes(e, original, &own) : CORE_OK;
        if (!code && !(code = graphs_enter())) {
            code = set(e, original, &own, &old);
            executable_changed(e);
            graphs_leave();
        }
        update_ends(e, &old);
        executable_leave(e);
    }
    users_release(old);
    parameters_drop(&own);
    return code;
}
