/*
 * capture.c: captures: how they begin and end, and what is asked about them.
 */
#include "cpu/client/graph/capture_state.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/cancel.h"

atomic_uint capture_count;

static struct list all;
static uint64_t last_id;

enum { STREAM_NON_BLOCKING = 1 };

/* ---- threads ---- */

static _Thread_local int thread_mode;

/* Distinguishes threads. */
static const void *capture_thread(void) { return &thread_mode; }
static enum capture_mode capture_thread_mode(void) { return (enum capture_mode)thread_mode; }

int capture_exchange_mode(int *mode)
{
    if (*mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
        return CORE_INVALID_VALUE;
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CORE_OK;
}

/* ---- finding ---- */

#define CAPTURE_AT(link) LIST_OBJECT(link, struct capture, of_all)
#define CAPTURED_AT(link) LIST_OBJECT(link, struct captured, of_capture)
#define EACH_CAPTURE(name)                               \
    struct capture *name = CAPTURE_AT(list_first(&all)); \
    name;                                                \
    name = CAPTURE_AT(list_next(&all, &name->of_all))
#define EACH_CAPTURED(name, c)                                      \
    struct captured *name = CAPTURED_AT(list_first(&(c)->streams)); \
    name;                                                           \
    name = CAPTURED_AT(list_next(&(c)->streams, &name->of_capture))

struct capture *capture_find(uint64_t id)
{
    for (EACH_CAPTURE(c))
        if (c->id == id)
            return c;
    return NULL;
}

struct captured *captured_find(uint64_t stream)
{
    for (EACH_CAPTURE(c))
        for (EACH_CAPTURED(s, c))
            if (s->stream == stream)
                return s;
    return NULL;
}

void capture_invalidate(struct capture *c) { c->invalid = true; }

int capture_refuse_legacy(const core_context *context, bool invalidate)
{
    int code = CORE_OK;
    for (EACH_CAPTURE(c))
        for (EACH_CAPTURED(s, c))
            if (s->context == context && s->blocking) {
                code = GRAPH_CAPTURE_IMPLICIT;
                if (invalidate)
                    capture_invalidate(c);
            }
    return code;
}

/* ---- beginning and ending ---- */

struct captured *captured_join(struct capture *c, uint64_t stream, core_context *context, bool blocking)
{
    struct captured *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct captured){ .capture = c, .stream = stream, .context = context, .blocking = blocking };
    list_append(&c->streams, &s->of_capture);
    atomic_fetch_add(&capture_count, 1);
    return s;
}

/* The graph stays, unless the capture failed and made it. */
static void capture_finish(struct capture *c, bool failed)
{
    for (struct list *link; (link = list_first(&c->streams));) {
        struct captured *s = CAPTURED_AT(link);
        list_remove(link);
        frontier_drop(&s->frontier);
        free(s);
        atomic_fetch_sub(&capture_count, 1);
    }
    list_remove(&c->of_all);
    if (c->graph)
        c->graph->captures--;
    if (c->graph && c->own && failed)
        graph_free(c->graph);
    free(c);
}

/* Under the lock. g: NULL, a new one. */
static int begin(const struct core_stream_info *info, struct graph *g, const graph_node *before,
                 const struct graph_edge *edges, size_t count, enum capture_mode mode)
{
    if (captured_find(info->id))
        return GRAPH_ILLEGAL_STATE;
    for (size_t i = 0; i < count; i++)
        if (!node_of(before[i]) || node_of(before[i])->graph != g)
            return CORE_INVALID_VALUE;
    struct capture *c = calloc(1, sizeof *c);
    if (!c)
        return CORE_OUT_OF_MEMORY;
    *c = (struct capture){ .id = ++last_id, .mode = mode, .thread = capture_thread(), .own = !g };
    list_append(&all, &c->of_all);
    if ((c->graph = g ? g : graph_new(true)))
        c->graph->captures++;
    struct captured *s =
        c->graph ? captured_join(c, info->id, info->context, !(info->flags & STREAM_NON_BLOCKING)) : NULL;
    bool good = s != NULL;
    for (size_t i = 0; good && i < count; i++)
        good = frontier_add(&s->frontier, before[i], edges ? &edges[i] : NULL);
    if (!good)
        capture_finish(c, true);
    return good ? CORE_OK : CORE_OUT_OF_MEMORY;
}

static int begin_in(core_context *context, core_stream stream, const graph_handle *handle, const graph_node *before,
                    const struct graph_edge *edges, size_t count, enum capture_mode mode)
{
    struct core_stream_info info;
    if ((int)mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED || (count && !before))
        return CORE_INVALID_VALUE;
    if (stream <= CORE_STREAM_LEGACY)
        return GRAPH_CAPTURE_UNSUPPORTED;
    int code = core_stream_info(context, stream, &info);
    if (code || (code = graphs_enter()))
        return code;
    struct graph *g = handle ? graph_of(*handle) : NULL;
    code = handle && !g ? CORE_INVALID_VALUE : begin(&info, g, before, edges, count, mode);
    graphs_leave();
    return code;
}

int capture_begin(core_context *context, core_stream stream, enum capture_mode mode)
{
    CANCEL_DEFERRED;
    return begin_in(context, stream, NULL, NULL, NULL, 0, mode);
}

int capture_begin_to(core_context *context, core_stream stream, graph_handle graph, const graph_node *before,
                     const struct graph_edge *edges, size_t count, enum capture_mode mode)
{
    CANCEL_DEFERRED;
    return begin_in(context, stream, &graph, before, edges, count, mode);
}

/* All that joined streams were given comes before what the origin would be given next. */
static int check_joined(struct capture *c, const struct captured *origin)
{
    struct model_node **last = frontier_nodes(&origin->frontier);
    bool marked = last && graph_mark_before(c->graph, last, origin->frontier.count);
    free(last);
    if (!marked)
        return CORE_OUT_OF_MEMORY;
    for (EACH_CAPTURED(s, c))
        for (size_t i = 0; i < s->frontier.count; i++) {
            struct model_node *n = node_of(s->frontier.nodes[i]);
            if (n && n->graph == c->graph && !n->place)
                return GRAPH_CAPTURE_UNJOINED;
        }
    return CORE_OK;
}

static int end(uint64_t stream, graph_handle *out)
{
    struct captured *s = captured_find(stream);
    if (!out && !(s && !s->capture->own))
        return CORE_INVALID_VALUE; /* the program would never get hold of the graph */
    if (!s)
        return GRAPH_ILLEGAL_STATE;
    struct capture *c = s->capture;
    if (c->mode != CAPTURE_RELAXED && c->thread != capture_thread())
        return GRAPH_CAPTURE_WRONG_THREAD;
    if (list_first(&c->streams) != &s->of_capture) {
        capture_invalidate(c);
        return GRAPH_CAPTURE_UNMATCHED;
    }
    int code = c->invalid ? GRAPH_CAPTURE_INVALIDATED : check_joined(c, s);
    if (!code && out)
        *out = c->graph->token;
    capture_finish(c, code != CORE_OK);
    return code;
}

int capture_end(core_context *context, core_stream stream, graph_handle *out)
{
    CANCEL_DEFERRED;
    struct core_stream_info info;
    if (out)
        *out = 0;
    int code = core_stream_info(context, stream, &info);
    if (code || (code = graphs_enter()))
        return code;
    code = end(info.id, out);
    graphs_leave();
    return code;
}

/* ---- questions ---- */

int capture_info(core_context *context, core_stream stream, struct capture_info *out)
{
    CANCEL_DEFERRED;
    struct core_stream_info info;
    *out = (struct capture_info){ .status = CAPTURE_NONE };
    int code = core_stream_info(context, stream, &info);
    if (code || !capture_any() || (code = graphs_enter()))
        return code;
    const struct captured *s = captured_find(info.id);
    if (!s && stream <= CORE_STREAM_LEGACY)
        code = capture_refuse_legacy(info.context, false);
    else if (s && s->capture->invalid)
        *out = (struct capture_info){ .status = CAPTURE_INVALIDATED, .id = s->capture->id };
    else if (s)
        *out = (struct capture_info){ CAPTURE_ACTIVE,    s->capture->id,    s->capture->graph->token,
                                      s->frontier.nodes, s->frontier.edges, s->frontier.count };
    graphs_leave();
    return code;
}

int capture_info_check(const struct capture_info *info, bool nodes, bool edges)
{
    static const struct graph_edge none;
    if (edges && !nodes)
        return CORE_INVALID_VALUE;
    for (size_t i = 0; nodes && !edges && i < info->count; i++)
        if (memcmp(&info->edges[i], &none, sizeof none))
            return GRAPH_LOSSY_QUERY;
    return CORE_OK;
}

/* Under the lock. */
static int update(struct captured *s, const graph_node *nodes, const struct graph_edge *edges, size_t count, bool only)
{
    struct frontier with = { 0 };
    if (!s)
        return GRAPH_ILLEGAL_STATE;
    if (s->capture->invalid)
        return GRAPH_CAPTURE_INVALIDATED;
    bool good = only || frontier_merge(&with, &s->frontier), known = true;
    for (size_t i = 0; i < count && good && known; i++) {
        const struct model_node *n = node_of(nodes[i]);
        known = n && n->graph == s->capture->graph;
        good = frontier_add(&with, nodes[i], edges ? &edges[i] : NULL);
    }
    if (!good || !known) {
        frontier_drop(&with);
        return known ? CORE_OUT_OF_MEMORY : CORE_INVALID_VALUE;
    }
    frontier_drop(&s->frontier);
    s->frontier = with;
    return CORE_OK;
}

int capture_update(core_context *context, core_stream stream, const graph_node *nodes, const struct graph_edge *edges,
                   size_t count, bool only)
{
    CANCEL_DEFERRED;
    struct core_stream_info info;
    if (count && !nodes)
        return CORE_INVALID_VALUE;
    int code = core_stream_info(context, stream, &info);
    if (code || (code = graphs_enter()))
        return code;
    code = update(captured_find(info.id), nodes, edges, count, only);
    graphs_leave();
    return code;
}

/* ---- calls that may be refused ---- */

/* By the mode of the calling thread, and the modes in which captures began. */
static bool forbidden(const struct capture *c)
{
    bool mine = c->thread == capture_thread();
    switch (capture_thread_mode()) {
    case CAPTURE_GLOBAL: return mine ? c->mode != CAPTURE_RELAXED : c->mode == CAPTURE_GLOBAL;
    case CAPTURE_THREAD_LOCAL: return mine && c->mode != CAPTURE_RELAXED;
    default: return false;
    }
}

static int refuse_unsafe(void)
{
    int code = CORE_OK;
    for (EACH_CAPTURE(c))
        if (forbidden(c)) {
            capture_invalidate(c);
            code = GRAPH_CAPTURE_UNSUPPORTED;
        }
    return code;
}

int capture_check_unsafe(void)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    code = refuse_unsafe();
    graphs_leave();
    return code;
}

int capture_check_stream(core_context *context, core_stream stream)
{
    CANCEL_DEFERRED;
    struct core_stream_info info;
    int code = core_stream_info(context, stream, &info);
    if (code)
        return CORE_OK; /* the call itself says it better */
    if ((code = graphs_enter()))
        return code;
    struct captured *s = captured_find(info.id);
    if (s) {
        capture_invalidate(s->capture);
        code = GRAPH_CAPTURE_UNSUPPORTED;
    } else if (stream <= CORE_STREAM_LEGACY) {
        code = capture_refuse_legacy(info.context, true);
    }
    if (!code)
        code = refuse_unsafe();
    graphs_leave();
    return code;
}

int capture_check_context(core_context *context)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    for (EACH_CAPTURE(c))
        for (EACH_CAPTURED(s, c))
            if (s->context == context) {
                capture_invalidate(c);
                code = GRAPH_CAPTURE_UNSUPPORTED;
            }
    if (!code)
        code = refuse_unsafe();
    graphs_leave();
    return code;
}

int capture_check_event(core_event event)
{
    CANCEL_DEFERRED;
    int code = graphs_enter();
    if (code)
        return code;
    const struct mark *m = mark_find(event);
    struct capture *c = m ? capture_find(m->capture) : NULL;
    if (c)
        capture_invalidate(c);
    code = m ? GRAPH_CAPTURED_EVENT : refuse_unsafe();
    graphs_leave();
    return code;
}

void capture_forget_stream(core_context *context, core_stream stream)
{
    CANCEL_DEFERRED;
    struct core_stream_info info;
    if (core_stream_info(context, stream, &info) || graphs_enter())
        return;
    struct captured *s = captured_find(info.id);
    if (s && list_first(&s->capture->streams) == &s->of_capture)
        capture_finish(s->capture, true);
    else if (s)
        s->stream = CAPTURED_GONE; /* what it was given must still be joined */
    graphs_leave();
}

/* A new stream of the context may get the number of a captured one that has ended with it. */
void capture_forget_context(const core_context *context)
{
    CANCEL_DEFERRED;
    if (graphs_enter())
        return;
    for (struct list *link = list_first(&all), *next; link; link = next) {
        struct capture *c = CAPTURE_AT(link);
        next = list_next(&all, link);
        bool ends = false;
        for (EACH_CAPTURED(s, c))
            ends = ends || s->context == context;
        if (ends)
            capture_finish(c, true);
    }
    graphs_leave();
}

void capture_forget_event(core_event event)
{
    CANCEL_DEFERRED;
    if (graphs_enter())
        return;
    mark_remove(event);
    graphs_leave();
}
