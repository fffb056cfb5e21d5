/*
 * device_graph.c: graphs that kernels launch (DEVICE_GRAPH in cpu_rpc_prot.x).
 *
 * The client gives the server the calls of such a graph in the order of a stream. cudaGraphLaunch in a kernel then
 * calls device_graph_launch, in a thread of the software GPU. It only decides whether the launch is right, and notes
 * it; the executor serves the calls in a stream that the client does not know (inside.c).
 *
 * Environments (CUDA C++ Programming Guide, "Device Graph Launch"): what a launch of a graph has started is its
 * environment: its own work, and the graphs that its kernels have launched to run beside it (fire and forget). It is
 * complete when all of these are. Then the graphs run that were given it as its tail, one after the other: each takes
 * the place of the one before, and has a tail of its own, which comes first. An environment of the client's launch is
 * inside one of the stream, whose end opens the stream's gate at GRAPH_END. Graphs launched as siblings belong to the
 * environment around.
 *
 * A kernel names a graph, and the graph that it is part of, by the numbers that the program has for them. Both are
 * looked up among those of its session, and nothing else is done with them.
 */
#include "cpu/server/session.h"
#include "cpu/server/stream/host_function.h"
#include "cpu/server/stream/inside.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

/* The streams that device code names (cuda_device_runtime_api.h). */
#define STREAM_TAIL    (UINT64_C(1) << 56)
#define STREAM_FORGET  (UINT64_C(2) << 56)
#define STREAM_SIBLING (UINT64_C(3) << 56)
/* cudaError_t. What a launch beyond the limits returns is not documented. */
enum { FINE = 0, INVALID = 1, NO_MEMORY = 2, TOO_MANY = 69 };
/* The guide's limits, and ours. */
enum { FORGOTTEN_MOST = 120, TAILS_MOST = 255, GRAPHS_MOST = 65536, ENVIRONMENTS_MOST = 262144 };

/* The calls of a graph, as the client gave them. Counted by the graph and by the environments that run it. */
struct uploaded {
    unsigned references;
    struct call *call;
    struct context *context;              /* held: it may end before a stream of another context gets here */
    size_t bytes;
};

struct device_graph {
    struct tree_node node;
    struct uploaded *uploaded;
    bool queued;                          /* in some environment's tail */
};

struct environment {
    struct inside inside;
    struct tree_node node;                /* of `running` */
    struct list of_all;
    struct environment *parent;           /* NULL: it is a stream's */
    uint64_t executable;                  /* 0: likewise */
    struct uploaded *uploaded;            /* NULL: the client's launch */
    struct stream *inner;                 /* while its own work runs; NULL: not begun, or over, or the client's */
    struct environment *next;             /* in a tail */
    struct environment *tail, **tail_end; /* what its kernels want to come behind it; */
    struct environment *behind;           /* what comes behind that */
    struct stream_place *end;                    /* of a stream's: what opens the gate; NULL: not reached yet */
    unsigned pending;                     /* its own work, and environments in it */
    unsigned launched, tails;
    bool cancelled;
};

/* A place in a stream at which the stream waits for the executor: the calls of a graph come in force (uploaded), or a
   launch of the client's ends. */
struct stream_place {
    struct inside inside;
    struct list of_all;
    struct stream *outer;                 /* held */
    uint32_t ticket;
    uint64_t executable;
    struct uploaded *uploaded;
};

/* Before insides.lock and executor.queue_lock. Never held while the driver is called. */
static struct { pthread_mutex_t lock; struct list sessions; } all = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool device_graphs_offered(const struct session *session)
{
    return session->gpu->graphs && session->gpu->StreamWaitValue32;
}

uint64_t device_graphs_count(const struct session *session)
{
    pthread_mutex_lock(&all.lock);                /* kernels' launches count, too */
    uint64_t count = session->device_graphs.graph_count + session->device_graphs.environment_count;
    pthread_mutex_unlock(&all.lock);
    return count;
}

/* ---- graphs; under the lock ---- */

static void uploaded_drop(struct session *session, struct uploaded *uploaded)
{
    if (!uploaded || --uploaded->references)
        return;
    session->graph_bytes -= uploaded->bytes;
    context_drop(uploaded->context);
    call_free(uploaded->call);
    free(uploaded);
}

static struct device_graph *graph_find(const struct device_graphs *set, uint64_t executable)
{
    struct device_graph *graph = TREE_OBJECT(tree_at_or_above(&set->graphs, executable, 0), struct device_graph, node);
    return graph && graph->node.key == executable ? graph : NULL;
}

static void graph_free(struct session *session, struct device_graph *graph)
{
    tree_remove(&session->device_graphs.graphs, &graph->node);
    session->device_graphs.graph_count--;
    uploaded_drop(session, graph->uploaded);
    free(graph);
}

/* It is there from the message on, so that none comes back whose end has come before its place in the stream. */
static bool graph_make(struct device_graphs *set, uint64_t executable)
{
    struct device_graph *graph = graph_find(set, executable);
    if (!graph && set->graph_count < GRAPHS_MOST && (graph = calloc(1, sizeof *graph))) {
        graph->node.key = executable;
        tree_insert(&set->graphs, &graph->node);
        set->graph_count++;
    }
    return graph != NULL;
}

/* The calls come in force, unless the graph or its context has ended. uploaded is taken over. */
static void graph_set(struct session *session, uint64_t executable, struct uploaded *uploaded)
{
    bool ended = atomic_load(&uploaded->context->ended);
    struct device_graph *graph = ended ? NULL : graph_find(&session->device_graphs, executable);
    uploaded_drop(session, graph ? graph->uploaded : uploaded);
    if (graph)
        graph->uploaded = uploaded;
}

/* ---- environments; under the lock ---- */

static struct environment *running_find(const struct device_graphs *set, uint64_t executable)
{
    struct environment *e = TREE_OBJECT(tree_at_or_above(&set->running, executable, 0), struct environment, node);
    return e && e->node.key == executable ? e : NULL;
}

static void running_add(struct device_graphs *set, struct environment *e)
{
    e->node = (struct tree_node){ .key = e->executable, .tie = ++set->serial };
    tree_insert(&set->running, &e->node);
}

static void environment_go_on(struct inside *);

/* With its own work pending. NULL: no memory. */
static struct environment *environment_new(struct session *session, uint64_t executable, struct uploaded *uploaded)
{
    struct device_graphs *set = &session->device_graphs;
    struct environment *e = set->environment_count < ENVIRONMENTS_MOST ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return NULL;
    *e = (struct environment){ .inside = { .session = session, .go_on = environment_go_on },
                               .executable = executable, .uploaded = uploaded, .pending = 1, .tail_end = &e->tail };
    if (uploaded)
        uploaded->references++;
    list_append(&set->environments, &e->of_all);
    set->environment_count++;
    return e;
}

static void environment_free(struct environment *e)
{
    struct session *session = e->inside.session;
    list_remove(&e->of_all);
    session->device_graphs.environment_count--;
    tree_remove(&session->device_graphs.running, &e->node);
    uploaded_drop(session, e->uploaded);
    free(e);
}

/* The environment of a launch of the client's, in one of its stream. */
static struct environment *environment_of_client(struct session *session, uint64_t executable)
{
    struct environment *around = environment_new(session, 0, NULL);
    struct environment *e = around ? environment_new(session, executable, NULL) : NULL;
    if (!e) {
        if (around)
            environment_free(around);
        return NULL;
    }
    e->parent = around;
    running_add(&session->device_graphs, e);
    return e;
}

static void place_end(struct stream_place *place)
{
    gate_pass(place->inside.session, place->outer, place->ticket);
    list_remove(&place->of_all);
    uploaded_drop(place->inside.session, place->uploaded);
    stream_drop(place->inside.session, place->outer);
    free(place);
}

/* What is next in its tail takes the place of the environment that is complete. */
static struct environment *tail_take(struct environment *e)
{
    *e->tail_end = e->behind;
    struct environment *next = e->tail;
    if (!next)
        return NULL;
    struct session *session = e->inside.session;
    struct device_graph *graph = graph_find(&session->device_graphs, next->executable);
    if (graph)
        graph->queued = false;
    next->behind = next->next;
    next->parent = e->parent;
    return next;
}

/* Something of the environment is over: perhaps all of it, and all of those around. The executor, under
   session.lock. */
static void part_over(struct environment *e)
{
    while (e && --e->pending == 0) {
        struct environment *parent = e->parent, *next = tail_take(e);
        struct stream_place *end = e->end;
        struct device_graphs *set = &e->inside.session->device_graphs;
        environment_free(e);
        if (next) {
            running_add(set, next);
            inside_due(&next->inside);
            return;
        }
        if (end)
            place_end(end);
        e = parent;
    }
}

/* ---- the executor: running; under session.lock ---- */

/* False: it has come to nothing. */
static bool environment_begin(struct environment *e)
{
    struct session *session = e->inside.session;
    CUresult r;
    if (e->cancelled || atomic_load(&session->ended) || atomic_load(&e->uploaded->context->ended))
        return false;
    e->inner = stream_inner_take(session, e->uploaded->context, &r);
    if (!e->inner) {
        report_note(session, r);
        report_latch(session, r);
        return false;
    }
    e->inner->depth = 0;
    const struct call *call = e->uploaded->call;
    const flyt_body *body = &call->args.device_graph.body;
    if (inside_run(&e->inside, e->inner, call->procedure, body->calls.calls_val, body->calls.calls_len))
        return true;
    session_end(session, "a call of a graph that a kernel launched cannot be kept");
    return false;
}

static void environment_go_on(struct inside *inside)
{
    struct environment *e = (struct environment *)inside;
    if (!e->inner && environment_begin(e))
        return;
    if (e->inner)
        stream_inner_give(inside->session, e->inner);
    e->inner = NULL;
    pthread_mutex_lock(&all.lock);
    part_over(e);
    pthread_mutex_unlock(&all.lock);
}

static void place_go_on(struct inside *inside)
{
    struct stream_place *place = (struct stream_place *)inside;
    struct session *session = inside->session;
    pthread_mutex_lock(&all.lock);
    struct environment *e = place->uploaded ? NULL : running_find(&session->device_graphs, place->executable);
    if (place->uploaded && inside->waiter.result == CUDA_SUCCESS) {
        graph_set(session, place->executable, place->uploaded);
        place->uploaded = NULL;
    }
    if (e && !e->uploaded && !e->parent->end) {
        e->parent->end = place;                       /* the last part of the environment ends it */
        part_over(e);
    } else {
        place_end(place);
    }
    pthread_mutex_unlock(&all.lock);
}

/* ---- a kernel launches a graph ---- */

static int launch_beside(struct environment *around, struct device_graph *graph)
{
    struct session *session = around->inside.session;
    if (around->parent && around->launched == FORGOTTEN_MOST)
        return TOO_MANY;
    struct environment *e = environment_new(session, graph->node.key, graph->uploaded);
    if (!e)
        return NO_MEMORY;
    e->parent = around;
    around->pending++;
    around->launched++;
    running_add(&session->device_graphs, e);
    inside_due(&e->inside);
    return FINE;
}

static int launch_behind(struct environment *from, struct device_graph *graph)
{
    if (from->tails == TAILS_MOST)
        return TOO_MANY;
    struct environment *e = environment_new(from->inside.session, graph->node.key, graph->uploaded);
    if (!e)
        return NO_MEMORY;
    graph->queued = true;
    *from->tail_end = e;
    from->tail_end = &e->next;
    from->tails++;
    return FINE;
}

static int launch(struct session *session, uint64_t self, uint64_t executable, uint64_t stream)
{
    const struct device_graphs *set = &session->device_graphs;
    struct device_graph *graph = graph_find(set, executable);
    bool tail = stream == STREAM_TAIL;
    if ((!tail && stream != STREAM_FORGET && stream != STREAM_SIBLING) || !graph || !graph->uploaded || graph->queued)
        return INVALID;
    /* It runs once at a time. What runs now may come again behind itself. */
    if (running_find(set, executable) && !(tail && executable == self))
        return INVALID;
    struct environment *from = running_find(set, self);
    if (!from && !(from = environment_of_client(session, self)))
        return NO_MEMORY;
    return tail ? launch_behind(from, graph) : launch_beside(stream == STREAM_SIBLING ? from->parent : from, graph);
}

/* A softgpu_graph_launch. */
static int device_graph_launch(uint64_t owner, uint64_t self, uint64_t executable, uint64_t stream)
{
    int code = INVALID;
    pthread_mutex_lock(&all.lock);
    for (struct list *link = list_first(&all.sessions); link; link = list_next(&all.sessions, link)) {
        struct device_graphs *set = LIST_OBJECT(link, struct device_graphs, of_all);
        struct session *session = (struct session *)(void *)((char *)set - offsetof(struct session, device_graphs));
        if (session->id == owner) {
            code = launch(session, self, executable, stream);
            break;
        }
    }
    pthread_mutex_unlock(&all.lock);
    return code;
}

static void session_join(struct session *session)
{
    struct device_graphs *set = &session->device_graphs;
    if (list_linked(&set->of_all))
        return;
    pthread_mutex_lock(&all.lock);
    list_append(&all.sessions, &set->of_all);
    pthread_mutex_unlock(&all.lock);
    session->gpu->graphs(device_graph_launch);
}

int device_graph_attribute(struct session *session, struct softgpu_graph *graph)
{
    if (!device_graphs_offered(session))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!graph->executable)
        return CUDA_ERROR_INVALID_VALUE;
    session_join(session);
    graph->owner = session->id;
    return CUDA_SUCCESS;
}

/* ---- the ends ---- */

void device_graphs_release_all(struct session *session, struct context *context)
{
    FLYT_ASSERT_HELD(&session->lock);
    const struct device_graphs *set = &session->device_graphs;
    pthread_mutex_lock(&all.lock);
    for (struct list *link = list_first(&set->environments); link; link = list_next(&set->environments, link)) {
        struct environment *e = LIST_OBJECT(link, struct environment, of_all);
        e->cancelled |= !context || (e->uploaded && e->uploaded->context == context);
    }
    for (struct list *link = list_first(&set->places); link; link = list_next(&set->places, link)) {
        struct stream_place *place = LIST_OBJECT(link, struct stream_place, of_all);
        if (!context || place->outer->context == context)
            gate_pass(place->inside.session, place->outer, place->ticket);
    }
    pthread_mutex_unlock(&all.lock);
}

/* No kernel launches its graphs any more. Environments of graphs of this context have been cancelled. */
void device_graphs_drop(struct session *session, struct context *context)
{
    pthread_mutex_lock(&all.lock);
    struct tree_node *node = tree_first(&session->device_graphs.graphs);
    while (node) {
        struct device_graph *graph = TREE_OBJECT(node, struct device_graph, node);
        node = tree_next(&session->device_graphs.graphs, node);
        if (graph->uploaded && graph->uploaded->context == context)
            graph_free(session, graph);
    }
    pthread_mutex_unlock(&all.lock);
}

void device_graphs_stop(struct session *session)
{
    struct device_graphs *set = &session->device_graphs;
    pthread_mutex_lock(&session->lock);
    pthread_mutex_lock(&all.lock);
    list_remove(&set->of_all);
    for (struct list *link; (link = list_first(&set->places));)
        place_end(LIST_OBJECT(link, struct stream_place, of_all));
    for (struct list *link; (link = list_first(&set->environments));) {
        struct environment *e = LIST_OBJECT(link, struct environment, of_all);
        if (e->inner)
            stream_inner_give(session, e->inner);
        environment_free(e);
    }
    for (struct tree_node *node; (node = tree_first(&set->graphs));)
        graph_free(session, TREE_OBJECT(node, struct device_graph, node));
    pthread_mutex_unlock(&all.lock);
    pthread_mutex_unlock(&session->lock);
}

/* ---- the calls ---- */

/* uploaded is taken over, also after an error. */
static CUresult place_make(struct session *session, struct call *call, uint64_t executable, struct uploaded *uploaded)
{
    struct stream *stream = call->stream;
    struct stream_place *place = calloc(1, sizeof *place);
    CUresult r = place ? gate_take(session, stream) : CUDA_ERROR_OUT_OF_MEMORY;
    if (place) {
        stream_hold(stream);
        *place = (struct stream_place){ .inside = { .session = session, .go_on = place_go_on }, .outer = stream,
                                        .ticket = stream->gate_ticket, .executable = executable, .uploaded = uploaded };
        list_append(&session->device_graphs.places, &place->of_all);
    }
    if (r == CUDA_SUCCESS)
        r = inside_wait(&place->inside, stream, false);
    if (r == CUDA_SUCCESS)
        r = gate_wait(session, stream, &place->ticket);
    if (r == CUDA_SUCCESS) {
        completion_wait(session, stream, &place->inside.waiter);
        return r;
    }
    pthread_mutex_lock(&all.lock);
    if (place)
        place_end(place);
    else
        uploaded_drop(session, uploaded);
    pthread_mutex_unlock(&all.lock);
    return r;
}

static int device_graph_issue(struct session *session, struct call *call)
{
    struct uploaded *uploaded = calloc(1, sizeof *uploaded);
    const uint64_t executable = call->args.device_graph.executable;
    struct context *context = context_find(session, call->args.device_graph.context);
    if (!context) {
        free(uploaded);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (session->graph_bytes + call->bytes > FLYT_MAX_GRAPH_BYTES || !uploaded || !(uploaded->call = call_keep(call))) {
        free(uploaded);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uploaded->references = 1;
    uploaded->context = context;
    context_hold(context);
    uploaded->bytes = call->bytes;
    session->graph_bytes += uploaded->bytes;
    session_join(session);
    return (int)place_make(session, call, executable, uploaded);
}
static const struct operation device_graph_operation = { .issue = device_graph_issue, .numbered = true };

void serve_device_graph(struct session *session, struct call *call)
{
    const device_graph_args *args = &call->args.device_graph;
    if (!server_stream_enter(session, call, args->stream))
        return;
    CUresult r = device_graphs_offered(session) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS && !args->executable)
        r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&all.lock);
    if (r == CUDA_SUCCESS && !graph_make(&session->device_graphs, args->executable))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&all.lock);
    if (r == CUDA_SUCCESS)
        server_stream_submit(session, call, &device_graph_operation);
    else
        stream_refuse(session, call, r);
}

void serve_device_graph_drop(struct session *session, struct call *call)
{
    pthread_mutex_lock(&all.lock);
    struct device_graph *graph = graph_find(&session->device_graphs, call->args.device_graph_drop.executable);
    if (graph)
        graph_free(session, graph);
    pthread_mutex_unlock(&all.lock);
}

static int graph_end_issue(struct session *session, struct call *call)
{
    return (int)place_make(session, call, call->args.graph_end.executable, NULL);
}
static const struct operation graph_end_operation = { .issue = graph_end_issue, .numbered = true };

void serve_graph_end(struct session *session, struct call *call)
{
    if (!server_stream_enter(session, call, call->args.graph_end.stream))
        return;
    if (!device_graphs_offered(session))
        stream_refuse(session, call, CUDA_ERROR_NOT_SUPPORTED);
    else
        server_stream_submit(session, call, &graph_end_operation);
}
