/* shows: The server: graphs: kept calls do what single ones do, in the order of their launches; what they name is
 *   looked up when they run; conditions choose and repeat bodies; graphs for kernels are checked; a client that breaks
 *   the rules ends its session */
/* graphs.c: kept calls (GRAPH_…), spoken by hand. */
#include "tests/server/peer.h"

enum { INVALID = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };

/* A SET of one word, as it stands in a message. */
static flyt_graph_call set_call(char room[64], uint32_t stream, uint64_t to, uint32_t value)
{
    set_args args = { .stream = stream, .to = { to, 4, 1 }, .extent = { 1, 1, 1 }, .value = value, .element = 4 };
    XDR xdr;
    xdrmem_create(&xdr, room, 64, XDR_ENCODE);
    assert_true(xdr_set_args(&xdr, &args));
    return (flyt_graph_call){ FLYT_SET, { XDR_GETPOS(&xdr), room } };
}

static void keep(struct peer *p, uint32_t graph, uint32_t count, uint32_t first, flyt_graph_call *calls, uint32_t n)
{
    flyt_graph_set_1(&(graph_set_args){ graph, count, first, { n, calls } }, NULL, p->stub);
}

static void launch(struct peer *p, uint32_t graph, uint32_t stream, uint32_t first, uint32_t count)
{
    flyt_graph_launch_1(&(graph_launch_args){ graph, stream, first, count }, NULL, p->stub);
}

static uint32_t word_at(struct peer *p, uint32_t stream, uint64_t at)
{
    uint32_t word = 0;
    assert_int_equal(peer_copy_out(p, stream, &word, at, sizeof word), 0);
    return word;
}

TEST_WITH(kept_calls_are_calls, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base;
    char room[3][64];
    assert_int_equal(peer_map(p, at, p->granule), 0);
    peer_stream_create(p, 64, 0);
    flyt_graph_call calls[] = { set_call(room[0], FLYT_GRAPH_STREAM, at, 11), set_call(room[1], 64, at + 4, 12),
                                set_call(room[2], FLYT_GRAPH_STREAM, at + 8, 13) };
    keep(p, 5, 3, 0, calls, 3);
    assert_int_equal(word_at(p, 0, at), 0); /* nothing has run */
    launch(p, 5, 0, 0, 3);
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, 0);
    assert_true(word_at(p, 0, at) == 11 && word_at(p, 0, at + 4) == 12 && word_at(p, 0, at + 8) == 13);
    /* Each call has a number in its stream, and so has each copy above. */
    assert_int_equal(peer_stream_sync(p, 0), 0);
    assert_int_equal(peer_stream_sync(p, 64), 0);
    assert_int_equal(peer_done(p, 0), 2 + 4);
    assert_int_equal(peer_done(p, 64), 1);
    /* Another launch, with one call changed, another stream, and only a part. */
    calls[0] = set_call(room[0], FLYT_GRAPH_STREAM, at, 21);
    keep(p, 5, 3, 0, calls, 1);
    launch(p, 5, 64, 0, 2);
    assert_true(word_at(p, 64, at) == 21 && word_at(p, 64, at + 4) == 12);
    assert_int_equal(peer_stream_sync(p, 64), 0);
    assert_int_equal(peer_done(p, 64), 1 + 2 + 2);
    flyt_graph_drop_1(&(graph_args){ 5 }, NULL, p->stub);
    flyt_graph_drop_1(&(graph_args){ 5 }, NULL, p->stub);
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, INVALID_HANDLE);
}

TEST_WITH(objects_are_looked_up_when_it_runs, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base;
    char room[2][64];
    assert_int_equal(peer_map(p, at, p->granule), 0);
    peer_stream_create(p, 64, 0);
    flyt_graph_call calls[] = { set_call(room[0], 64, at, 1),
                                set_call(room[1], FLYT_GRAPH_STREAM, at + p->granule, 2) };
    keep(p, 1, 2, 0, calls, 2);
    flyt_stream_destroy_1(&(stream_args){ 64 }, NULL, p->stub);
    launch(p, 1, 0, 0, 1);
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, INVALID_HANDLE);
    launch(p, 1, 0, 1, 1); /* memory that is not there */
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, INVALID);
    launch(p, 1, 99, 1, 1); /* no such stream */
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, INVALID_HANDLE);
    assert_int_equal(word_at(p, 0, at), 0);
}

/* ---- conditions ---- */

static void condition(struct peer *p, uint32_t stream, int kind, uint64_t word, flyt_body *bodies, uint32_t count)
{
    flyt_condition_1(&(condition_args){ stream, kind, word, { count, bodies } }, NULL, p->stub);
}

static void set_now(struct peer *p, uint64_t to, uint32_t value)
{
    set_args args = { .stream = 0, .to = { to, 4, 1 }, .extent = { 1, 1, 1 }, .value = value, .element = 4 };
    flyt_set_1(&args, NULL, p->stub);
}

/* Word 0 is the condition; body 0 sets words 1 and 0, body 1 sets word 2. The client counts the condition alone. */
TEST_WITH(conditions_choose_and_repeat, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base;
    char room[4][64], whole[1024];
    assert_int_equal(peer_map(p, at, p->granule), 0);
    flyt_graph_call first[] = { set_call(room[0], FLYT_GRAPH_STREAM, at + 4, 7),
                                set_call(room[1], FLYT_GRAPH_STREAM, at, 0) };
    flyt_graph_call second[] = { set_call(room[2], 99 /* the server runs it in the body's stream */, at + 8, 9) };
    flyt_body bodies[] = { { { 2, first } }, { { 1, second } } };
    condition(p, 0, FLYT_CONDITION_IF, at, bodies, 2);
    assert_true(word_at(p, 0, at + 4) == 0 && word_at(p, 0, at + 8) == 9);
    set_now(p, at, 5);
    condition(p, 0, FLYT_CONDITION_IF, at, bodies, 1);
    assert_true(word_at(p, 0, at + 4) == 7 && word_at(p, 0, at) == 0);
    set_now(p, at + 4, 0);
    set_now(p, at, 1);
    condition(p, 0, FLYT_CONDITION_WHILE, at, bodies, 1);
    assert_true(word_at(p, 0, at + 4) == 7 && word_at(p, 0, at) == 0);
    set_now(p, at + 8, 0);
    set_now(p, at, 1);
    condition(p, 0, FLYT_CONDITION_SWITCH, at, bodies, 2);
    assert_int_equal(word_at(p, 0, at + 8), 9);
    set_now(p, at + 8, 0);
    set_now(p, at, 2);
    condition(p, 0, FLYT_CONDITION_SWITCH, at, bodies, 2);
    assert_int_equal(word_at(p, 0, at + 8), 0);
    assert_int_equal(peer_stream_sync(p, 0), 0);
    assert_int_equal(peer_done(p, 0), 5 + 7 + 8);
    /* In a condition, and kept: word 3 runs it, word 0 then sets words 1 and 0. */
    condition_args args = { FLYT_GRAPH_STREAM, FLYT_CONDITION_IF, at, { 1, bodies } };
    XDR xdr;
    xdrmem_create(&xdr, whole, sizeof whole, XDR_ENCODE);
    assert_true(xdr_condition_args(&xdr, &args));
    flyt_graph_call inner = { FLYT_CONDITION, { XDR_GETPOS(&xdr), whole } };
    flyt_body outer = { { 1, &inner } };
    set_now(p, at + 4, 0);
    set_now(p, at, 1);
    set_now(p, at + 12, 1);
    condition(p, 0, FLYT_CONDITION_IF, at + 12, &outer, 1);
    assert_true(word_at(p, 0, at + 4) == 7 && word_at(p, 0, at) == 0);
    set_now(p, at + 4, 0);
    set_now(p, at, 1);
    keep(p, 3, 1, 0, &inner, 1);
    launch(p, 3, 0, 0, 1);
    assert_true(word_at(p, 0, at + 4) == 7 && word_at(p, 0, at) == 0);
    assert_int_equal(p->last.latched, 0);
}

TEST_WITH(conditions_are_checked, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    uint64_t at = p->base;
    assert_int_equal(peer_map(p, at, p->granule), 0);
    flyt_body bodies[2] = { { { 0, NULL } } };
    const struct { int kind; uint64_t word; uint32_t count; } wrong[] = {
        { FLYT_CONDITION_IF, at + p->granule, 1 }, { FLYT_CONDITION_IF, at + 2, 1 }, { FLYT_CONDITION_IF, 0, 1 },
        { FLYT_CONDITION_WHILE, at, 2 }, { 3, at, 1 }, { -1, at, 1 },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        condition(p, 0, wrong[i].kind, wrong[i].word, bodies, wrong[i].count);
        assert_int_equal(peer_context_sync(p), 0);
        assert_int_equal(p->last.latched, INVALID);
    }
    condition(p, 77, FLYT_CONDITION_IF, at, bodies, 1);
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, INVALID_HANDLE);
    /* Without bodies it does nothing. A call that fails in a body is latched, and the rest goes on. */
    condition(p, 0, FLYT_CONDITION_IF, at, NULL, 0);
    set_now(p, at, 1);
    char room[2][64];
    flyt_graph_call calls[] = { set_call(room[0], FLYT_GRAPH_STREAM, at + p->granule, 1),
                                set_call(room[1], FLYT_GRAPH_STREAM, at + 4, 3) };
    bodies[0] = (flyt_body){ { 2, calls } };
    condition(p, 0, FLYT_CONDITION_IF, at, bodies, 1);
    assert_int_equal(peer_stream_sync(p, 0), 0);
    assert_int_equal(p->last.latched, INVALID);
    assert_int_equal(word_at(p, 0, at + 4), 3);
}

/* ---- graphs that kernels launch ---- */

static void graph_for_kernels(struct peer *p, uint32_t stream, uint32_t context, uint64_t executable)
{
    flyt_device_graph_1(&(device_graph_args){ stream, context, executable, { { 0, NULL } } }, NULL, p->stub);
}

static void graph_ends(struct peer *p, uint32_t stream, uint64_t executable)
{
    flyt_graph_end_1(&(graph_end_args){ stream, executable }, NULL, p->stub);
}

TEST_WITH(graphs_for_kernels_are_checked, peer_set_up, peer_tear_down)
{
    struct peer *p = *state;
    const struct { uint32_t stream, context; uint64_t executable; uint32_t latched; } wrong[] = {
        { 0, 0, 0, INVALID }, { 0, 77, 1, INVALID_CONTEXT }, { 77, 0, 1, INVALID_HANDLE },
    };
    peer_stream_create(p, 64, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        graph_for_kernels(p, wrong[i].stream, wrong[i].context, wrong[i].executable);
        assert_int_equal(peer_context_sync(p), 0);
        assert_int_equal(p->last.latched, wrong[i].latched);
    }
    graph_ends(p, 77, 1);
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, INVALID_HANDLE);
    /* No stream waits for what no kernel has launched, nor for a graph whose end comes before its place. */
    for (uint64_t executable = 1; executable <= 100; executable++) {
        graph_for_kernels(p, 64, 0, executable);
        graph_for_kernels(p, 0, 0, executable % 7 + 1);
        if (executable % 2)
            flyt_device_graph_drop_1(&(device_graph_drop_args){ executable }, NULL, p->stub);
        graph_ends(p, executable % 3 ? 64 : 0, executable ^ 1);
        graph_ends(p, 64, UINT64_MAX);
    }
    flyt_device_graph_drop_1(&(device_graph_drop_args){ UINT64_MAX }, NULL, p->stub);
    assert_int_equal(peer_stream_sync(p, 64), 0);
    assert_int_equal(peer_context_sync(p), 0);
    assert_int_equal(p->last.latched, 0);
    graph_for_kernels(p, 64, 0, 1);
    graph_ends(p, 64, 1);
    assert_int_equal(peer_context_reset(p), 0);
}

/* Each of these ends the session. */
static void run_other(struct peer *p, flyt_graph_call *call)
{
    char room[16] = { 0 };
    flyt_graph_call other = { FLYT_STREAM_SYNC, { 4, room } };
    flyt_body body[] = { { { 1, &other } }, { { 1, &other } } };
    (void)call;
    assert_int_equal(peer_map(p, p->base, p->granule), 0);
    condition(p, 0, FLYT_CONDITION_IF, p->base, body, 2);
    for (int i = 0; i < 500; i++) { /* it ends when the body begins */
        plain_result result = { 0 };
        if (flyt_context_sync_1(&(context_args){ 0 }, &result, p->stub) != RPC_SUCCESS)
            return;
    }
}
static void set_behind_the_end(struct peer *p, flyt_graph_call *call) { keep(p, 1, 1, 1, call, 1); }
static void set_huge(struct peer *p, flyt_graph_call *call) { keep(p, 1, UINT32_MAX, 0, call, 1); }
static void set_overflow(struct peer *p, flyt_graph_call *call) { keep(p, 1, 1, UINT32_MAX, call, 1); }
static void set_id(struct peer *p, flyt_graph_call *call) { keep(p, UINT32_MAX, 1, 0, call, 1); }
static void launch_unknown(struct peer *p, flyt_graph_call *call)
{
    (void)call;
    launch(p, 1, 0, 0, 1);
}
static void launch_unset(struct peer *p, flyt_graph_call *call)
{
    keep(p, 1, 2, 0, call, 1);
    launch(p, 1, 0, 0, 2);
}
static void launch_behind_the_end(struct peer *p, flyt_graph_call *call)
{
    keep(p, 1, 1, 0, call, 1);
    launch(p, 1, 0, UINT32_MAX, 2);
}
static void keep_other(struct peer *p, flyt_graph_call *call)
{
    char room[16] = { 0 };
    (void)call;
    keep(p, 1, 1, 0, &(flyt_graph_call){ FLYT_STREAM_SYNC, { 4, room } }, 1);
}
static void keep_itself(struct peer *p, flyt_graph_call *call)
{
    char room[16] = { 0 };
    (void)call;
    keep(p, 1, 1, 0, &(flyt_graph_call){ FLYT_GRAPH_LAUNCH, { 16, room } }, 1);
}
static void keep_unknown(struct peer *p, flyt_graph_call *call)
{
    call->procedure = 0xFFFFFF;
    keep(p, 1, 1, 0, call, 1);
}
static void keep_short(struct peer *p, flyt_graph_call *call)
{
    call->args.args_len -= 4;
    keep(p, 1, 1, 0, call, 1);
}
static void keep_long(struct peer *p, flyt_graph_call *call)
{
    call->args.args_len += 4;
    keep(p, 1, 1, 0, call, 1);
}

static void too_many(struct peer *p, flyt_graph_call *call)
{
    for (uint32_t i = 1; i < 40; i++)
        keep(p, i, FLYT_MAX_GRAPH_BYTES / FLYT_GRAPH_PLACE_COST / 20, 0, call, 1);
}

TEST(rules)
{
    static void (*const wrong[])(struct peer *, flyt_graph_call *) = {
        set_behind_the_end, set_huge, set_overflow, set_id, launch_unknown, launch_unset, launch_behind_the_end,
        keep_other, run_other, keep_itself, keep_unknown, keep_short, keep_long, too_many,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct peer p;
        memset(&p, 0, sizeof p);
        char room[64] = { 0 };
        peer_library(&p, "software");
        peer_hello(&p);
        flyt_graph_call call = set_call(room, FLYT_GRAPH_STREAM, p.base, 1);
        wrong[i](&p, &call);
        plain_result result = { 0 };
        enum clnt_stat status = flyt_context_sync_1(&(context_args){ 0 }, &result, p.stub);
        if (status == RPC_SUCCESS)
            fail_msg("rule %zu was broken and the session went on", i);
        peer_close(&p);
    }
}

int main(void) { return unit_run(NULL, NULL); }
