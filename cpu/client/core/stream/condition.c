/*
 * condition.c: conditions of graphs: parts of a graph that the server runs, or runs again, as a word of device memory
 * says (CONDITION in cpu_rpc_prot.x).
 *
 * The bodies are recorded by the functions that would send their calls: a stand-in takes the place of the server's
 * inner stream. Its recorder decides what a body can have, and takes the encoded calls.
 */
#include <pthread.h>
#include <stdlib.h>

#include "device_graph.h"
#include "cpu/common/cancel.h"
#include "context.h"
#include "mirror.h"
#include "op.h"
#include "cpu/client/core/api_copy.h"
#include "cpu/client/core/api_graph.h"
#include "cpu/client/core/wire/state.h"

struct core_condition {
    struct stream_recorder recorder;          /* first: the structure is found by it */
    struct stand_in *stand_in;
    core_stream stream;                       /* the stand-in's token */
    enum core_condition_kind kind;
    uint64_t word;
    bool refused, exhausted;                  /* something could not be recorded; for lack of memory */
    struct recorded { uint32_t procedure, size; size_t at; } *calls;   /* at: of its arguments, in `bytes` */
    size_t call_count, call_room;
    uint8_t *bytes;
    size_t used, room;
    size_t *bodies;                           /* the call with which each begins */
    size_t body_count, body_room;
};

/* ---- stand-ins: like all structures of streams, they are used again and never freed ---- */

struct stand_in {
    struct client_stream stream;
    struct stand_in *next;
};
static struct { pthread_mutex_t lock; struct stand_in *spare; } stand_ins = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct stand_in *stand_in_take(void)
{
    pthread_mutex_lock(&stand_ins.lock);
    struct stand_in *s = stand_ins.spare;
    if (s)
        stand_ins.spare = s->next;
    pthread_mutex_unlock(&stand_ins.lock);
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    pthread_mutex_init(&s->stream.lock, NULL);
    s->stream.wire = FLYT_GRAPH_STREAM;
    return s;
}

static void stand_in_give(struct stand_in *s)
{
    atomic_store(&s->stream.recorder, NULL);
    pthread_mutex_lock(&stand_ins.lock);
    s->next = stand_ins.spare;
    stand_ins.spare = s;
    pthread_mutex_unlock(&stand_ins.lock);
}

/* ---- recording ---- */

/* Room for one more element. */
static bool grow(void **list, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return true;
    size_t more = *room ? *room * 2 : 16;
    void *grown = realloc(*list, more * size);
    if (!grown)
        return false;
    *list = grown;
    *room = more;
    return true;
}

static bool bytes_grow(struct core_condition *q, size_t bytes)
{
    if (q->room - q->used >= bytes)
        return true;
    size_t room = (q->room + bytes) * 2;
    uint8_t *grown = realloc(q->bytes, room);
    if (!grown)
        return false;
    q->bytes = grown;
    q->room = room;
    return true;
}

static int keep(struct stream_recorder *recorder, struct client_stream *s, const struct stream_call *call,
                const uint8_t *body, size_t size)
{
    struct core_condition *q = (struct core_condition *)recorder;
    (void)s;
    if (!body)
        size = xdr_sizeof(call->encode, call->args);
    if (q->used + size > FLYT_MAX_GRAPH_ARGS || !bytes_grow(q, size) ||
        !grow((void **)&q->calls, q->call_count, &q->call_room, sizeof *q->calls) ||
        !stream_call_put(call, body, q->bytes + q->used, size)) {
        q->exhausted = true;
        return CORE_OUT_OF_MEMORY;
    }
    q->calls[q->call_count++] = (struct recorded){ call->procedure, (uint32_t)size, q->used };
    q->used += size;
    return CORE_OK;
}

/* A copy or a set of mirrored pinned memory, whose turn the server decides: it uses the server's copy of the memory. */
static bool reach_mirrored(const struct op *op, struct op *changed)
{
    *changed = *op;
    if (op->kind == OP_SET && !op->set.reach && !op->set.blocking)
        return (changed->set.reach = mirror_reach(&core_session, op->set.to.address)) != 0;
    if (op->kind != OP_COPY || op->copy.blocking || !op->copy.pinned || op->copy.to_device == op->copy.from_device)
        return false;
    struct core_box *side = op->copy.to_device ? &changed->copy.span.from : &changed->copy.span.to;
    changed->copy.route = COPY_REACH;
    return (side->address = mirror_reach(&core_session, side->address)) != 0;
}

static int take(struct stream_recorder *recorder, struct client_stream *s, const struct op *op)
{
    struct core_condition *q = (struct core_condition *)recorder;
    struct op changed;
    bool can = op->kind == OP_LAUNCH || op->kind == OP_CONDITION ||
               (op->kind == OP_SET && op->set.reach && !op->set.blocking) ||
               (op->kind == OP_COPY && op->copy.route == COPY_REACH && !op->copy.blocking);
    if (can)
        return op_send(s, op);
    if (reach_mirrored(op, &changed))
        return op_send(s, &changed);
    q->refused = true;
    return CORE_NOT_SUPPORTED;
}

_Static_assert(CORE_CONDITION_DEPTH == FLYT_MAX_CONDITION_DEPTH, "the message names it");

int core_condition_offered(void)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    return core_session.hello.capabilities & FLYT_CAP_CONDITIONS ? CORE_OK : CORE_NOT_SUPPORTED;
}

int core_condition_create(core_context *c, uint64_t word, enum core_condition_kind kind, core_condition **out,
                          core_stream *stand_in)
{
    CANCEL_DEFERRED;
    int code = core_condition_offered();
    if (code)
        return code;
    struct core_condition *q = calloc(1, sizeof *q);
    struct stand_in *s = q ? stand_in_take() : NULL;
    core_stream stream = s ? stream_lend(&s->stream, c) : 0;
    if (!stream) {
        if (s)
            stand_in_give(s);
        free(q);
        return CORE_OUT_OF_MEMORY;
    }
    *q = (struct core_condition){ .recorder = { take, keep }, .stand_in = s, .stream = stream, .kind = kind,
                                  .word = word };
    atomic_store(&s->stream.recorder, &q->recorder);
    *out = q;
    *stand_in = stream;
    return CORE_OK;
}

int core_condition_body(core_condition *q)
{
    CANCEL_DEFERRED;
    if (!grow((void **)&q->bodies, q->body_count, &q->body_room, sizeof *q->bodies))
        return CORE_OUT_OF_MEMORY;
    q->bodies[q->body_count++] = q->call_count;
    return CORE_OK;
}

void core_condition_destroy(core_condition *q)
{
    CANCEL_DEFERRED;
    if (!q)
        return;
    stream_return(q->stream);
    stand_in_give(q->stand_in);
    free(q->calls);
    free(q->bytes);
    free(q->bodies);
    free(q);
}

/* ---- giving it to a stream ---- */

int condition_op(struct client_stream *s, const struct op *op)
{
    condition_args args = *op->condition.args;
    args.stream = s->wire;
    int code = stream_send(s, &(struct stream_call){ FLYT_CONDITION, (xdrproc_t)xdr_condition_args, &args, true,
                                                     op->condition.bytes }, NULL);
    if (mirror_heeded())
        mirror_work_sent();
    return code;
}

static int submit(core_condition *q, struct client_stream *s)
{
    flyt_graph_call *calls = malloc((q->call_count + 1) * sizeof *calls);
    flyt_body *bodies = malloc((q->body_count + 1) * sizeof *bodies);
    int code = calls && bodies ? CORE_OK : CORE_OUT_OF_MEMORY;
    for (size_t i = 0; i < q->call_count && !code; i++)
        calls[i] = (flyt_graph_call){ q->calls[i].procedure,
                                      { q->calls[i].size, (char *)q->bytes + q->calls[i].at } };
    for (size_t i = 0; i < q->body_count && !code; i++) {
        size_t end = i + 1 < q->body_count ? q->bodies[i + 1] : q->call_count;
        bodies[i] = (flyt_body){ { (u_int)(end - q->bodies[i]), calls + q->bodies[i] } };
    }
    if (!code) {
        const condition_args args = { .kind = (int)q->kind, .word = q->word,
                                      .bodies = { (u_int)q->body_count, bodies } };
        code = op_submit(s, &(struct op){ .kind = OP_CONDITION, .condition = { &args, q->used } });
    }
    free(calls);
    free(bodies);
    return code;
}

/* ---- graphs that kernels launch ---- */

int core_device_graphs_offered(void)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    return core_session.hello.capabilities & FLYT_CAP_DEVICE_GRAPHS ? CORE_OK : CORE_NOT_SUPPORTED;
}

static int recorded_check(const core_condition *q)
{
    if (q->refused)
        return CORE_NOT_SUPPORTED;
    bool fits = !q->exhausted && q->body_count <= FLYT_MAX_BODIES && q->call_count <= FLYT_MAX_BODY_CALLS;
    return fits ? CORE_OK : CORE_OUT_OF_MEMORY;
}

static void calls_list(const core_condition *q, flyt_graph_call *calls)
{
    for (size_t i = 0; i < q->call_count; i++)
        calls[i] = (flyt_graph_call){ q->calls[i].procedure,
                                      { q->calls[i].size, (char *)q->bytes + q->calls[i].at } };
}

int core_device_graph_set(core_condition *q, core_context *c, core_stream stream, uint64_t executable)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    if (!code)
        code = recorded_check(q);
    flyt_graph_call *calls = code ? NULL : malloc((q->call_count + 1) * sizeof *calls);
    if (!calls)
        return code ? code : CORE_OUT_OF_MEMORY;
    calls_list(q, calls);
    device_graph_args args = { .stream = s->wire, .context = q->stand_in->stream.context->wire,
                               .executable = executable, .body = { { (u_int)q->call_count, calls } } };
    code = stream_send(s, &(struct stream_call){ FLYT_DEVICE_GRAPH, (xdrproc_t)xdr_device_graph_args, &args, true,
                                                 q->used }, NULL);
    if (!code)
        code = device_graph_keep(q->stand_in->stream.context, &args);
    free(calls);
    return code;
}

void core_device_graph_drop(uint64_t executable)
{
    CANCEL_DEFERRED;
    device_graph_drop_args args = { executable };
    device_graph_forget(executable);
    if (!core_enter())
        wire_send(&core_session, FLYT_DEVICE_GRAPH_DROP, (xdrproc_t)xdr_device_graph_drop_args, &args);
}

int graph_end_op(struct client_stream *s, const struct op *op)
{
    graph_end_args args = { .stream = s->wire, .executable = op->graph_end.executable };
    return stream_send(s, &(struct stream_call){ FLYT_GRAPH_END, (xdrproc_t)xdr_graph_end_args, &args, true, 0 },
                       NULL);
}

int core_graph_end(core_context *c, core_stream stream, uint64_t executable)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    return code ? code : op_submit(s, &(struct op){ .kind = OP_GRAPH_END, .graph_end = { executable } });
}

/* ---- giving it to a stream, as a condition ---- */

int core_condition_submit(core_condition *q, core_context *c, core_stream stream)
{
    CANCEL_DEFERRED;
    struct client_stream *s;
    int code = client_stream_enter(c, stream, &s);
    if (!code)
        code = recorded_check(q);
    return code ? code : submit(q, s);
}
