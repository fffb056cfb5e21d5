/*
 * condition.c: nodes of conditions, and the handles of their values.
 *
 * A handle is the address of a word of device memory: cudaGraphSetConditional of the software GPU stores there, and the
 * server reads there. Words are not used again while their context lives: an unfinished launch may still name them.
 *
 * A condition is one step of a launch. Its bodies are recorded when the step is given to its stream, each node behind
 * those that it follows: a body runs in one stream of the server's.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/client/graph/executable.h"
#include "cpu/common/cancel.h"

struct condition_word {
    uint64_t word;
    core_context *context;
    graph_handle of; /* the graph that it was created for */
    unsigned depth;  /* in so many conditions */
    uint32_t value;
    bool assigned;   /* the word becomes `value` when the graph begins */
    bool used;       /* a node of the program's has it */
    atomic_uint holders;
    struct list of_all;
    struct condition_word *next; /* of the graph */
};

enum { SLAB_WORDS = 1024, WORD_SIZE = 4 };

/* Under the lock of the graphs. */
static struct list all;

/* Memory that words are taken from, one behind the other. */
static struct {
    pthread_mutex_t lock;
    struct slab { core_context *context; uint64_t life, address; unsigned used; } slabs[8];
} words = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- words ---- */

static int word_from(struct slab *slab, core_context *context, uint64_t life, uint64_t *word)
{
    int code = CORE_OK;
    if (slab->context != context || slab->life != life || slab->used == SLAB_WORDS) {
        code = core_memory_allocate(context, SLAB_WORDS * WORD_SIZE, &slab->address);
        slab->context = code ? NULL : context;
        slab->life = life;
        slab->used = 0;
    }
    if (!code)
        *word = slab->address + WORD_SIZE * slab->used++;
    return code;
}

/* Each context has a slab, until there are more contexts than places: then words of a slab stay unused. */
static int word_take(core_context *context, uint64_t *word)
{
    struct core_context_info info;
    int code = core_context_info(context, &info);
    if (code)
        return code;
    const unsigned places = sizeof words.slabs / sizeof words.slabs[0];
    pthread_mutex_lock(&words.lock);
    unsigned place = (unsigned)(info.id % places);
    for (unsigned i = 0; i < places; i++)
        if (words.slabs[i].context == context && words.slabs[i].life == info.id)
            place = i;
    code = word_from(&words.slabs[place], context, info.id, word);
    pthread_mutex_unlock(&words.lock);
    return code;
}

/* ---- handles ---- */

void condition_hold(struct condition_word *c) { atomic_fetch_add(&c->holders, 1); }

void condition_drop(struct condition_word *c)
{
    if (atomic_fetch_sub(&c->holders, 1) != 1)
        return;
    list_remove(&c->of_all);
    free(c);
}

void conditions_drop(struct graph *g)
{
    for (struct condition_word *c; (c = g->conditions);) {
        g->conditions = c->next;
        c->of = 0;
        condition_drop(c);
    }
}

static struct condition_word *find(uint64_t word)
{
    for (struct list *link = list_first(&all); link; link = list_next(&all, link))
        if (LIST_OBJECT(link, struct condition_word, of_all)->word == word)
            return LIST_OBJECT(link, struct condition_word, of_all);
    return NULL;
}

/* How many conditions the graph is in. */
static unsigned depth_of(const struct graph *g)
{
    unsigned depth = 0;
    for (; g->parent; g = g->parent->graph)
        depth += g->parent->parameters.kind == GRAPH_CONDITION;
    return depth;
}

int graph_condition_create(graph_handle handle, core_context *context, uint32_t value, unsigned flags, uint64_t *out)
{
    CANCEL_DEFERRED;
    uint64_t word;
    if (flags & ~(unsigned)GRAPH_ASSIGN_DEFAULT)
        return CORE_INVALID_VALUE;
    int code = core_condition_offered();
    if (code == CORE_NOT_SUPPORTED)
        core_unsupported("a conditional node on this GPU server");
    if (code || (code = graphs_enter()))
        return code;
    bool known = graph_of(handle) != NULL;
    graphs_leave();
    if (!known)
        return CORE_INVALID_VALUE;
    struct condition_word *c = calloc(1, sizeof *c);
    code = c ? word_take(context, &word) : CORE_OUT_OF_MEMORY;
    if (code || (code = graphs_enter())) {
        free(c);
        return code;
    }
    struct graph *g = graph_of(handle);
    if (g) {
        *c = (struct condition_word){ .word = word,
                                      .context = context,
                                      .of = handle,
                                      .depth = depth_of(g),
                                      .value = value,
                                      .assigned = flags & GRAPH_ASSIGN_DEFAULT,
                                      .holders = 1,
                                      .next = g->conditions };
        g->conditions = c;
        list_append(&all, &c->of_all);
        *out = word;
    }
    graphs_leave();
    if (!g)
        free(c);
    return g ? CORE_OK : CORE_INVALID_VALUE;
}

/* ---- nodes ---- */

static struct model_node *body_node(const struct graph *g)
{
    while (g->parent && g->parent->parameters.kind != GRAPH_CONDITION)
        g = g->parent->graph;
    return g->parent;
}

static bool in_child(const struct graph *g)
{
    for (; g->parent; g = g->parent->graph)
        if (g->parent->parameters.kind != GRAPH_CONDITION)
            return true;
    return false;
}

static bool kind_fits(enum graph_kind kind)
{
    return kind == GRAPH_KERNEL || kind == GRAPH_COPY || kind == GRAPH_SET || kind == GRAPH_CHILD ||
           kind == GRAPH_EMPTY || kind == GRAPH_CONDITION;
}

static bool size_fits(const struct graph_condition *c)
{
    switch (c->type) {
    case CORE_IF: return c->count == 1 || c->count == 2;
    case CORE_WHILE: return c->count == 1;
    case CORE_SWITCH: return c->count > 0;
    default: return false;
    }
}

int condition_admit(struct graph *g, struct graph_parameters *p)
{
    if (body_node(g) && !kind_fits(p->kind) && p->kind != GRAPH_HOST) /* of that NVIDIA's driver speaks in check_body */
        return CORE_NOT_SUPPORTED;
    if (p->kind != GRAPH_CONDITION)
        return CORE_OK;
    if (in_child(g))
        return CORE_NOT_SUPPORTED; /* a child has no conditions */
    if (depth_of(g) == CORE_CONDITION_DEPTH) {
        core_unsupported("a conditional node inside 16 others");
        return CORE_NOT_SUPPORTED;
    }
    struct condition_word *c = find(p->condition.handle);
    if (!c || c->used || c->context != p->context || !size_fits(&p->condition))
        return CORE_INVALID_VALUE;
    const struct graph *home = g;
    while (home && home->token != c->of)
        home = home->parent ? home->parent->graph : NULL;
    p->condition.word = c;
    return home ? CORE_OK : CORE_INVALID_VALUE;
}

bool bodies_make(struct model_node *n, const struct model_node *like, bool with_handles)
{
    struct graph_condition *p = &n->parameters.condition;
    n->bodies = calloc(p->count, sizeof *n->bodies);
    n->body_handles = calloc(p->count, sizeof *n->body_handles);
    bool good = n->bodies && n->body_handles;
    for (unsigned i = 0; i < p->count && good; i++) {
        struct graph *body = like ? graph_copy_of(like->bodies[i], with_handles) : graph_new(with_handles);
        good = body != NULL;
        if (!good)
            break;
        body->parent = n;
        n->bodies[i] = body;
        n->body_handles[i] = body->token;
    }
    p->bodies = n->body_handles;
    if (n->token)
        p->word->used = true;
    return good;
}

void bodies_drop(struct model_node *n)
{
    const struct graph_condition *p = &n->parameters.condition;
    if (n->parameters.kind != GRAPH_CONDITION)
        return;
    for (unsigned i = 0; n->bodies && i < p->count; i++)
        if (n->bodies[i])
            graph_free(n->bodies[i]);
    free(n->bodies);
    free(n->body_handles);
    if (n->token && p->word)
        p->word->used = false;
}

/* ---- before a graph becomes an executable ---- */

bool graph_has_conditions(struct graph *g)
{
    for (EACH_NODE(n, g))
        if (n->parameters.kind == GRAPH_CONDITION)
            return true;
    return false; /* and no child has any */
}

static bool has_unused(const struct graph *g)
{
    for (const struct condition_word *c = g->conditions; c; c = c->next)
        if (!c->used)
            return true;
    return false;
}

/* What runs in a body: all of one context, in an order. */
static int check_body(struct graph *g, const core_context *context, struct model_node **cycle)
{
    struct model_node **order = graph_order(g, cycle);
    int code = order ? CORE_OK : *cycle ? CORE_INVALID_VALUE : CORE_OUT_OF_MEMORY;
    free(order);
    for (EACH_NODE(n, g)) {
        enum graph_kind kind = n->parameters.kind;
        if (code)
            break;
        if (!kind_fits(kind))
            code = CORE_INVALID_VALUE;
        else if (kind != GRAPH_EMPTY && kind != GRAPH_CHILD && n->parameters.context != context)
            code = CORE_INVALID_VALUE;
        else if (n->child)
            code = check_body(n->child, context, cycle);
    }
    return code;
}

int conditions_check(struct graph *g, struct model_node **cycle, bool *unused)
{
    int code = CORE_OK;
    if ((*unused = has_unused(g)))
        return CORE_INVALID_VALUE;
    for (EACH_NODE(n, g)) {
        struct graph *body;
        if (n->parameters.kind != GRAPH_CONDITION)
            continue;
        for (size_t i = 0; !code && (body = node_inner(n, i)); i++) {
            code = check_body(body, n->parameters.context, cycle);
            if (!code)
                code = conditions_check(body, cycle, unused);
        }
    }
    return code;
}

/* ---- running ---- */

int conditions_begin(struct graph *g, unsigned depth, core_context *context, core_stream stream)
{
    int code = CORE_OK;
    for (EACH_NODE(n, g)) {
        struct graph *body;
        if (n->parameters.kind != GRAPH_CONDITION)
            continue;
        const struct condition_word *c = n->parameters.condition.word;
        const struct core_box to = { c->word, WORD_SIZE, 1 };
        if (!code && c->assigned && c->depth == depth)
            code = core_set(context, stream, &to, &(struct core_extent){ 1, 1, 1 }, c->value, WORD_SIZE, false);
        for (size_t i = 0; !code && (body = node_inner(n, i)); i++)
            code = conditions_begin(body, depth, context, stream);
    }
    return code;
}

int nodes_run(struct graph *g, core_stream stream, int priority)
{
    struct model_node *cycle, **order = graph_order(g, &cycle);
    int code = order ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (size_t i = 0; !code && i < g->count; i++)
        if (order[i]->child)
            code = nodes_run(order[i]->child, stream, priority);
        else if (!order[i]->disabled)
            code = node_run(order[i], stream, priority);
    free(order);
    return code;
}

int condition_run(const struct model_node *n, core_stream stream, int priority)
{
    const struct graph_condition *p = &n->parameters.condition;
    core_context *context = n->parameters.context;
    core_condition *q;
    core_stream inner;
    struct graph *body;
    int code = core_condition_create(context, p->word->word, (enum core_condition_kind)p->type, &q, &inner);
    if (code)
        return code;
    for (size_t i = 0; !code && (body = node_inner(n, i)); i++) {
        code = core_condition_body(q);
        if (!code)
            code = conditions_begin(body, depth_of(body), context, inner);
        if (!code)
            code = nodes_run(body, inner, priority);
    }
    if (!code)
        code = core_condition_submit(q, context, stream);
    core_condition_destroy(q);
    return code;
}
