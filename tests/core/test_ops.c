/*
 * test_ops.c: a stream's operations as data (op.h): each kind is recorded instead of sent, and sent later.
 *
 * shows: client core: every operation of a stream passes through one place, where it can be recorded; a recorded call
 *   has copies of a launch's parameters, and recorded operations do in their order what they would have done
 */
#include "cpu/client/core/stream/op.h"
#include "tests/lib/unit.h"
#include "work.h"

/* An operation that points to nothing of the caller's is recorded itself, any other as the call that op_send makes of
   it: encoded, as graphs record them. */
static struct recording {
    struct stream_recorder recorder; /* first: the structure is found by it */
    struct recorded { struct op op; struct stream_call call; uint8_t bytes[256]; u_int size; } list[64];
    int count;
    unsigned kinds;
} recording;

static int take(struct stream_recorder *recorder, struct client_stream *s, const struct op *op)
{
    struct recording *r = (struct recording *)recorder;
    int code = CORE_OK;
    if (op->kind == OP_VALUES || op->kind == OP_LAUNCH || op->kind == OP_CONDITION || op->kind == OP_GRAPH_END)
        code = op_send(s, op);
    else
        r->list[r->count++] = (struct recorded){ .op = *op };
    if (code == CORE_OK)
        r->kinds |= 1u << op->kind;
    return code;
}

static int keep(struct stream_recorder *recorder, struct client_stream *s, const struct stream_call *call,
                const uint8_t *body, size_t size)
{
    struct recording *r = (struct recording *)recorder;
    struct recorded *next = &r->list[r->count++];
    (void)s;
    if (!body)
        size = xdr_sizeof(call->encode, call->args);
    *next = (struct recorded){ .call = *call, .size = (u_int)size };
    CHECK(size <= sizeof next->bytes && stream_call_put(call, body, next->bytes, size));
    return CORE_OK;
}

static bool_t put_bytes(XDR *xdr, struct recorded *r) { return xdr_opaque(xdr, (char *)r->bytes, r->size); }

static int replay(struct client_stream *s, struct recorded *r)
{
    if (!r->size)
        return op_send(s, &r->op);
    struct stream_call call = { r->call.procedure, (xdrproc_t)put_bytes, r, r->call.weighty, r->call.bytes };
    return stream_send(s, &call, NULL);
}

static uint64_t calls(void)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof fake_calls / sizeof *fake_calls; i++)
        sum += i == FLYT_EVENTS ? 0 : fake_calls[i];
    return sum;
}

static int heard;
static void hear(void *user, int status)
{
    (void)status;
    heard = *(int *)user;
}

/* Gives the stream one operation of each kind. The parameters of the launches are gone when it returns. */
static void give_all(core_stream t, core_event e, uint64_t a, uint64_t variable, uint32_t *pinned, int *user)
{
    struct client_stream *s;
    CHECK(client_stream_find(on(0), t, &s) == 0);
    CHECK(op_submit(s, &(struct op){ .kind = OP_PREFETCH, .prefetch = { variable, 4, -1 } }) == 0);
    /* freed or changed after the call, as the parameters of a launch are */
    struct core_value values[] = { { CORE_WRITE_VALUE_32, a + 252, 1, 0 }, { .kind = CORE_MEMORY_BARRIER } };
    CHECK(core_values(on(0), t, values, 2) == 0 && core_values(on(0), t, values, 0) == 1);
    char bytes[8] = { 0 };
    flyt_graph_call call = { FLYT_SET, { sizeof bytes, bytes } };
    flyt_body body = { { 1, &call } };
    const condition_args condition = { .kind = FLYT_CONDITION_IF, .word = a + 248, .bodies = { 1, &body } };
    CHECK(op_submit(s, &(struct op){ .kind = OP_CONDITION, .condition = { &condition, sizeof bytes } }) == 0);
    CHECK(core_graph_end(on(0), t, 1) == 0);
    CHECK(op_submit(s, &(struct op){ .kind = OP_EXTENT, .extent = { a + 240, 8, FLYT_EXTENT_ALLOCATED } }) == 0);
    CHECK(fill(t, a, 64, 5) == 0 && fill(t, a + 4, 1, 6) == 0);
    CHECK(core_set(on(0), t, &(struct core_box){ a + 8, 4, 1 }, &(struct core_extent){ 4, 1, 1 }, 7, 1, false) == 0);
    CHECK(copy_on_device(on(0), t, a + 16, a, 12, false) == 0);
    CHECK(copy_out(on(0), t, pinned, a, 256, false) == 0);
    CHECK(core_event_record(on(0), e, t, 0) == 0 && core_stream_wait(on(0), t, e, 0) == 0);
    CHECK(core_host_function(on(0), t, hear, user, false) == 0);
    CHECK(launch("fill", t, (void *[]){ &a, NULL, NULL }) == 1);          /* found when it is given, recorded or not */
}

static void body_recorded(void)
{
    fake_start();
    uint64_t a = allocate(4096);
    core_stream t;
    core_event e;
    struct client_stream *s;
    core_image *image;
    core_variable *v;
    uint64_t variable;
    size_t size;
    void *memory;
    int user = 9;
    uint32_t *pinned;
    CHECK(core_host_allocate(4096, 0, &memory) == 0 && core_stream_create(on(0), 1, 0, &t) == 0 &&
          core_event_create(on(0), 0, &e) == 0 && fill(t, a, 64, 1) == 0 && core_stream_synchronize(on(0), t) == 0);
    pinned = memory;
    CHECK(core_image_add("// variables\n.version 9.0\n", &image) == 0 &&
          core_variable_add(image, "shared", 4, false, &v) == 0 &&
          core_variable_address(on(0), v, &variable, &size) == 0);
    CHECK(client_stream_find(on(0), t, &s) == 0);
    recording.recorder = (struct stream_recorder){ take, keep };
    atomic_store(&s->recorder, &recording.recorder);
    uint64_t before = calls(), sent = atomic_load(&s->sent);
    give_all(t, e, a, variable, pinned, &user);
    atomic_store(&s->recorder, NULL);
    CHECK(recording.count == 13 && calls() == before && atomic_load(&s->sent) == sent);
    /* all but a collective, and the wait for an event of another server: there is one */
    CHECK(recording.kinds == (((1u << OP_KINDS) - 1) & ~(1u << OP_EVENT_ACROSS | 1u << OP_COLLECTIVE)));
    /* twice, as a graph may be launched */
    for (int round = 0; round < 2; round++) {
        heard = 0;
        memset(pinned, 0, 256);
        CHECK(fill(t, a, 64, 0) == 0);
        for (int i = 0; i < recording.count; i++)
            CHECK(replay(s, &recording.list[i]) == 0);
        CHECK(core_stream_synchronize(on(0), t) == 0 && core_event_query(e) == 0);
        CHECK(pinned[0] == 5 && pinned[1] == 6 && pinned[2] == 0x07070707 && pinned[3] == 5);
        CHECK(pinned[4] == 5 && pinned[5] == 6 && pinned[6] == 0x07070707 && pinned[63] == 5 && heard == 9);
    }
}

ISOLATED(ops, body_recorded)

int main(void) { return unit_run(NULL, NULL); }
