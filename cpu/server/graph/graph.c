/*
 * graph.c: graphs: lists of calls that the client sends once and launches often. The protocol says what they mean
 * (cpu_rpc_prot.x).
 *
 * A graph holds its calls as they stood in their messages, and names no object of the session: each launch decodes them
 * and serves them like calls that have just come. So nothing is trusted that a single message would have to prove, and
 * an object may end while a graph names it.
 */
#include "cpu/server/graph/graph.h"

#include <stdlib.h>
#include <string.h>

struct kept {
    const struct procedure *procedure;    /* NULL: not set yet */
    uint32_t size;
    uint8_t *args;
};
struct served_graph {
    uint32_t count;
    struct kept *calls;
};

static void kept_clear(struct session *session, struct kept *kept)
{
    session->graph_bytes -= kept->size;
    free(kept->args);
    *kept = (struct kept){ 0 };
}

/* Its number of places becomes `count`. False: there is no memory, or more than the session may have. */
static bool graph_resize(struct session *session, struct served_graph *graph, uint32_t count)
{
    if (count == graph->count)
        return true;
    for (uint32_t i = count; i < graph->count; i++)
        kept_clear(session, &graph->calls[i]);
    size_t before = (size_t)graph->count * FLYT_GRAPH_PLACE_COST, after = (size_t)count * FLYT_GRAPH_PLACE_COST;
    if (session->graph_bytes - before + after > FLYT_MAX_GRAPH_BYTES)
        return false;
    struct kept *calls = realloc(graph->calls, ((size_t)count + 1) * sizeof *calls);
    if (!calls)
        return false;
    graph->calls = calls;
    for (uint32_t i = graph->count; i < count; i++)
        calls[i] = (struct kept){ 0 };
    graph->count = count;
    session->graph_bytes += after - before;
    return true;
}

static const char *graph_set_call(struct session *session, struct kept *kept, const flyt_graph_call *call)
{
    const uint32_t size = call->args.args_len;
    const struct procedure *procedure = procedure_find(call->procedure);
    kept_clear(session, kept);
    if (session->graph_bytes + size > FLYT_MAX_GRAPH_BYTES)
        return "its graphs have too many bytes";
    if (!call_may_be_kept(procedure, (uint8_t *)call->args.args_val, size))
        return "a call of its graph cannot be kept";
    if (!(kept->args = malloc((size_t)size + 1)))
        return "there is no memory for its graph";
    memcpy(kept->args, call->args.args_val, size);
    kept->procedure = procedure;
    kept->size = size;
    session->graph_bytes += size;
    return NULL;
}

static struct served_graph *graph_make(struct session *session, uint32_t id)
{
    struct served_graph *graph = calloc(1, sizeof *graph);
    if (graph && id_map_set(session->ids[KIND_GRAPH], id, graph) == 0)
        return graph;
    free(graph);
    return NULL;
}

void serve_graph_set(struct session *session, struct call *call)
{
    const graph_set_args *args = &call->args.graph_set;
    const uint32_t count = args->calls.calls_len;
    struct served_graph *graph = id_map_find(session->ids[KIND_GRAPH], args->graph);
    if (!graph && !(graph = graph_make(session, args->graph))) {
        session_end(session, "its graph cannot be made");
        return;
    }
    if (args->first > args->count || count > args->count - args->first) {
        session_end(session, "it set calls behind the end of its graph");
        return;
    }
    if (!graph_resize(session, graph, args->count)) {
        session_end(session, "its graphs have too many calls");
        return;
    }
    const char *why = NULL;
    for (uint32_t i = 0; i < count && !why; i++)
        why = graph_set_call(session, &graph->calls[args->first + i], &args->calls.calls_val[i]);
    if (why)
        session_end(session, why);
}

void serve_graph_launch(struct session *session, struct call *call)
{
    const graph_launch_args *args = &call->args.graph_launch;
    const struct served_graph *graph = id_map_find(session->ids[KIND_GRAPH], args->graph);
    if (!graph || args->count > FLYT_MAX_GRAPH_CALLS || args->first > graph->count ||
        args->count > graph->count - args->first) {
        session_end(session, "it launched calls that its graph does not have");
        return;
    }
    for (const struct kept *kept = graph->calls + args->first, *end = kept + args->count; kept < end; kept++)
        if (!kept->procedure || !call_serve_kept(session, kept->procedure, kept->args, kept->size, args->stream)) {
            session_end(session, "a call of its graph is not set, or there is no memory for it");
            return;
        }
}

static void graph_free(struct session *session, struct served_graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++)
        kept_clear(session, &graph->calls[i]);
    session->graph_bytes -= (size_t)graph->count * FLYT_GRAPH_PLACE_COST;
    free(graph->calls);
    free(graph);
}

void serve_graph_drop(struct session *session, struct call *call)
{
    struct served_graph *graph = id_map_remove(session->ids[KIND_GRAPH], call->args.graph.graph);
    if (graph)
        graph_free(session, graph);
    else
        call_fail(session, call, CUDA_ERROR_INVALID_HANDLE);
}

static void stop_one(uint32_t id, void *object, void *session)
{
    (void)id;
    graph_free(session, object);
}

void graphs_stop(struct session *session) { id_map_each(session->ids[KIND_GRAPH], stop_one, session); }
