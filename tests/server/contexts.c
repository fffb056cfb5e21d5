/*
 * contexts.c: several contexts of one device in one session: each has its own streams, code and memory, its own default
 * stream and its own end. Names that stand for nothing, or for something else, are refused.
 */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cuda.h>

#include "cpu/common/clock.h"
#include "tests/server/kernels.h"
#include "tests/server/peer.h"

enum { CONTEXTS = 3, SPIN = 100, GONE = 201, UNKNOWN = 400, DESTROYED = 709 };

static struct server server;

struct fixture { struct peer peer; uint64_t at[CONTEXTS]; };

#define PLAIN_OF(f, name, ...) PLAIN(&(f)->peer, name, name##_args, __VA_ARGS__)

/* The calls that only name a context. */
typedef context_args context_sync_args, context_destroy_args, context_release_args, context_reset_args;

static uint32_t stream_of(uint32_t context) { return FLYT_FIRST_STREAM + context; }

/* Memory, a stream that does not block, module, functions (add has the context's number) and an event. */
static void fill(struct fixture *f, uint32_t context)
{
    uint32_t bytes;
    f->peer.context = context;
    f->at[context] = f->peer.base + context * f->peer.granule;
    assert_int_equal(peer_map(&f->peer, f->at[context], f->peer.granule), 0);
    peer_stream_create(&f->peer, stream_of(context), CU_STREAM_NON_BLOCKING);
    peer_event_create(&f->peer, context);
    assert_int_equal(peer_load(&f->peer, context, kernels_ptx, NULL, 0), 0);
    assert_int_equal(peer_function(&f->peer, context, context, "add", &bytes), 0);
    assert_int_equal(peer_function(&f->peer, SPIN + context, context, "spin", &bytes), 0);
    peer_set(&f->peer, context, f->at[context], 4096, 0, 1);
    assert_int_equal(peer_context_sync(&f->peer), 0);
    assert_int_equal(f->peer.last.latched, 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    peer_open(&f->peer, server.uri[0]);
    fill(f, 0);
    for (uint32_t context = 1; context < CONTEXTS; context++) {
        assert_int_equal(PLAIN_OF(f, context_create, { context, 0, 0 }), 0);
        fill(f, context);
    }
    *state = f;
    return 0;
}

/* One word goes up by one. */
static void add(struct fixture *f, uint32_t function, uint32_t stream, uint64_t at)
{
    struct { uint64_t p; uint32_t n; } __attribute__((packed)) params = { at, 1 };
    peer_launch(&f->peer, function, stream, 1, 1, &params, sizeof params);
}

static uint32_t word(struct fixture *f, uint32_t stream, uint64_t at)
{
    uint32_t value = 0;
    assert_int_equal(peer_copy_out(&f->peer, stream, &value, at, 4), 0);
    assert_int_equal(f->peer.last.latched, 0);
    return value;
}

static int latched(struct fixture *f)
{
    f->peer.context = 0;
    assert_int_equal(peer_context_sync(&f->peer), 0);
    return f->peer.last.latched;
}

/* ---- each has its own ---- */

TEST_WITH(destroying_one_leaves_the_others, setup, peer_tear_down)
{
    struct fixture *f = *state;
    for (uint32_t round = 1; round <= 3; round++) {
        for (uint32_t context = 0; context < CONTEXTS; context++)
            add(f, context, stream_of(context), f->at[context]);
        for (uint32_t context = 0; context < CONTEXTS; context++)
            assert_int_equal(word(f, stream_of(context), f->at[context]), context == 1 ? 1 : round);
        add(f, 2, stream_of(2), f->at[2] + 64);                          /* under way while the other ends */
        assert_int_equal(PLAIN_OF(f, context_destroy, { 1 }), 0);
        assert_int_equal(PLAIN_OF(f, context_sync, { 1 }), GONE);
        assert_int_equal(peer_stream_sync(&f->peer, stream_of(1)), UNKNOWN);
        assert_int_equal(peer_stream_sync(&f->peer, 1), GONE);
        assert_int_equal(peer_event_query(&f->peer, 1), UNKNOWN);
        assert_int_equal(peer_copy_out(&f->peer, stream_of(0), NULL, f->at[1], 4), 1);
        add(f, 1, stream_of(0), f->at[0]);                               /* a function that has gone */
        assert_int_equal(latched(f), UNKNOWN);
        assert_int_equal(word(f, stream_of(2), f->at[2] + 64), round);
        assert_int_equal(PLAIN_OF(f, context_create, { 1, 0, 0 }), 0); /* all ids are free again */
        fill(f, 1);
    }
}

TEST_WITH(resetting_the_primary_leaves_the_others, setup, peer_tear_down)
{
    struct fixture *f = *state;
    add(f, 1, 1, f->at[1]);
    assert_int_equal(PLAIN_OF(f, context_reset, { 0 }), 0);
    assert_int_equal(word(f, 1, f->at[1]), 1);
    add(f, 1, stream_of(1), f->at[1]);
    assert_int_equal(word(f, stream_of(1), f->at[1]), 2);
    assert_int_equal(PLAIN_OF(f, context_sync, { 0 }), GONE);
    assert_int_equal(PLAIN_OF(f, context_retain, { 5, 0 }), 0); /* under another name */
    assert_int_equal(PLAIN_OF(f, context_retain, { 0, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_release, { 5 }), 0);
    assert_int_equal(PLAIN_OF(f, context_retain, { 0, 0 }), 0);
    fill(f, 0);
    add(f, 0, 0, f->at[0]);
    assert_int_equal(word(f, 0, f->at[0]), 1);
}

/* A program frees what it has by ending the context: nothing of it stays with the device. */
TEST_WITH(memory_goes_with_the_context, setup, peer_tear_down)
{
    struct fixture *f = *state;
    memory_info_result before = { 0 }, after = { 0 };
    context_args primary = { 0 };
    assert_int_equal(flyt_memory_info_1(&primary, &before, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(PLAIN_OF(f, context_create, { 3, 0, 0 }), 0);
    f->peer.context = 3;
    assert_int_equal(peer_map(&f->peer, f->peer.base + 64 * f->peer.granule, 16 * f->peer.granule), 0);
    assert_int_equal(PLAIN_OF(f, context_destroy, { 3 }), 0);
    assert_int_equal(flyt_memory_info_1(&primary, &after, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(before.free, after.free);
    xdr_free((xdrproc_t)xdr_memory_info_result, (char *)&before);
    xdr_free((xdrproc_t)xdr_memory_info_result, (char *)&after);
    /* what one context has mapped another one cannot unmap */
    unmap_args foreign = { 2, f->at[1], f->peer.granule };
    flyt_unmap_1(&foreign, NULL, f->peer.stub);
    assert_int_equal(latched(f), 1);
    assert_int_equal(word(f, 1, f->at[1]), 0);
}

TEST_WITH(memory_crosses, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t value = 41;
    peer_copy_in(&f->peer, 1, f->at[1], &value, 4);
    add(f, 1, 1, f->at[1]);
    copy_args copy = { 1, f->at[2], f->at[1], 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);
    assert_int_equal(peer_stream_sync(&f->peer, 1), 0);
    add(f, 2, 2, f->at[2]);
    assert_int_equal(word(f, 2, f->at[2]), 43);
    assert_int_equal(latched(f), 0);
}

/* ---- default streams ---- */

/* A default stream waits for the blocking streams of its own context, and they for it; not for those of others. */
TEST_WITH(default_streams_are_apart, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t one = 1;
    f->peer.context = 1;
    peer_stream_create(&f->peer, 80, CU_STREAM_DEFAULT);
    f->peer.context = 2;
    peer_stream_create(&f->peer, 82, CU_STREAM_DEFAULT);
    peer_launch(&f->peer, SPIN + 1, 80, 1, 1, &f->at[1], 8);
    add(f, 1, 1, f->at[1] + 64);                                         /* the default stream stands behind it */
    add(f, 2, 2, f->at[2] + 64);
    add(f, 2, 82, f->at[2] + 64);
    add(f, 0, 0, f->at[0] + 64);
    assert_int_equal(peer_stream_sync(&f->peer, 82), 0);
    assert_int_equal(peer_stream_sync(&f->peer, 2), 0);
    assert_int_equal(peer_stream_sync(&f->peer, 0), 0);
    assert_int_equal(PLAIN_OF(f, context_sync, { 2 }), 0);
    assert_int_equal(word(f, 2, f->at[2] + 64), 2);
    assert_int_equal(word(f, 0, f->at[0] + 64), 1);
    assert_int_equal(peer_stream_query(&f->peer, 1), 600);
    assert_int_equal(peer_stream_query(&f->peer, 80), 600);
    peer_copy_in(&f->peer, stream_of(1), f->at[1], &one, 4);
    assert_int_equal(PLAIN_OF(f, context_sync, { 1 }), 0);
    assert_int_equal(word(f, 1, f->at[1] + 64), 1);
    assert_int_equal(latched(f), 0);
}

/* The same where operations wait in the server: more of them than the driver takes. */
TEST_WITH(many_operations_stay_in_order, setup, peer_tear_down)
{
    struct fixture *f = *state;
    uint32_t one = 1, zero = 0;
    f->peer.context = 1;
    peer_stream_create(&f->peer, 80, CU_STREAM_DEFAULT);
    peer_launch(&f->peer, SPIN + 1, 80, 1, 1, &f->at[1], 8);
    for (int i = 0; i < 700; i++)
        add(f, 1, 80, f->at[1] + 64);
    copy_args copy = { 1, f->at[1] + 128, f->at[1] + 64, 4, 0 };
    flyt_copy_1(&copy, NULL, f->peer.stub);                              /* behind all of them */
    peer_set(&f->peer, 80, f->at[1] + 64, 1, zero, 4);                   /* behind the copy */
    add(f, 2, 2, f->at[2]);
    assert_int_equal(word(f, 2, f->at[2]), 1);
    peer_copy_in(&f->peer, stream_of(1), f->at[1], &one, 4);
    assert_int_equal(word(f, 1, f->at[1] + 128), 700);
    assert_int_equal(word(f, 80, f->at[1] + 64), 0);
    assert_int_equal(latched(f), 0);
}

/* The numbers of a default stream are those of its id. */
TEST_WITH(numbers_count_on, setup, peer_tear_down)
{
    struct fixture *f = *state;
    assert_int_equal(PLAIN_OF(f, context_create, { 7, 0, 0 }), 0);
    f->peer.context = 7;
    assert_int_equal(peer_map(&f->peer, f->peer.base + 7 * f->peer.granule, f->peer.granule), 0);
    for (int i = 0; i < 5; i++)
        peer_set(&f->peer, 7, f->peer.base + 7 * f->peer.granule, 16, 0, 1);
    assert_int_equal(peer_stream_sync(&f->peer, 7), 0);
    assert_int_equal(peer_done(&f->peer, 7), 5);
    assert_int_equal(PLAIN_OF(f, context_destroy, { 7 }), 0);
    peer_set(&f->peer, 7, f->at[1], 16, 0, 1);                           /* counted, and refused */
    assert_int_equal(latched(f), GONE);
    assert_int_equal(PLAIN_OF(f, context_create, { 7, 0, 0 }), 0);
    f->peer.context = 7;
    assert_int_equal(peer_map(&f->peer, f->peer.base + 7 * f->peer.granule, f->peer.granule), 0);
    assert_int_equal(peer_done(&f->peer, 7), 6);
    peer_set(&f->peer, 7, f->peer.base + 7 * f->peer.granule, 16, 0, 1);
    assert_int_equal(peer_stream_sync(&f->peer, 7), 0);
    assert_int_equal(peer_done(&f->peer, 7), 7);
    assert_int_equal(latched(f), 0);
}

/* ---- what waits when a context ends ---- */

/* A stream of one context waits for an event of another. That event's recording has not come to its turn when its
   context ends: it never will, and nobody must wait for it for ever. */
TEST_WITH(who_waits_for_a_context_goes_on, setup, peer_tear_down)
{
    struct fixture *f = *state;
    const uint32_t stream = stream_of(1);
    host_function_args function = { stream, 1 };
    flyt_host_function_1(&function, NULL, f->peer.stub);                 /* nobody ends it */
    for (int i = 0; i < 700; i++)
        add(f, 1, stream, f->at[1]);
    peer_event_record(&f->peer, 1, stream);
    peer_stream_wait(&f->peer, stream_of(2), 1);
    add(f, 2, stream_of(2), f->at[2]);
    assert_int_equal(peer_stream_query(&f->peer, stream_of(2)), 600);
    stream_args args = { stream };
    plain_result synced = { 0 };
    struct rpc_call sync = { .procedure = FLYT_STREAM_SYNC, .encode = (xdrproc_t)xdr_stream_args, .args = &args,
                             .decode = (xdrproc_t)xdr_plain_result, .result = &synced };
    assert_int_equal(rpc_client_submit(f->peer.client, &sync), RPC_SUCCESS);
    assert_int_equal(rpc_client_flush(f->peer.client), 0);
    assert_int_equal(PLAIN_OF(f, context_destroy, { 1 }), 0);
    assert_int_equal(rpc_client_wait(f->peer.client, &sync), RPC_SUCCESS);
    assert_int_equal(peer_took(&f->peer, RPC_SUCCESS, (xdrproc_t)xdr_plain_result, &synced), DESTROYED);
    assert_int_equal(word(f, stream_of(2), f->at[2]), 1);
    assert_int_equal(latched(f), 0);
}

/* ---- names ---- */

TEST_WITH(contexts_do_not_mix, setup, peer_tear_down)
{
    struct fixture *f = *state;
    peer_event_record(&f->peer, 1, stream_of(2));
    assert_int_equal(latched(f), UNKNOWN);
    add(f, 1, stream_of(2), f->at[2]);
    assert_int_equal(latched(f), UNKNOWN);
    f->peer.context = 2;
    assert_int_equal(peer_load(&f->peer, 1, kernels_ptx, NULL, 0), 1);   /* the id of a module of context 1 */
    peer_event_record(&f->peer, 1, stream_of(1));
    peer_stream_wait(&f->peer, stream_of(2), 1);                         /* but waiting crosses contexts */
    assert_int_equal(peer_stream_sync(&f->peer, stream_of(2)), 0);
    assert_int_equal(latched(f), 0);
}

TEST_WITH(wrong_names_are_refused, setup, peer_tear_down)
{
    struct fixture *f = *state;
    assert_int_equal(PLAIN_OF(f, context_retain, { 0, 0 }), 0); /* it is called that already */
    assert_int_equal(PLAIN_OF(f, context_retain, { 9, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_retain, { 1, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { 1, 0, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { 0, 0, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { FLYT_MAX_CONTEXTS, 0, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { UINT32_MAX, 0, 0 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { 9, 7, 0 }), 101);
    assert_int_equal(PLAIN_OF(f, context_create, { 9, -1, 0 }), 101);
    assert_int_equal(PLAIN_OF(f, context_create, { 9, 0, 3 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { 9, 0, 0x1000 }), 1);
    assert_int_equal(PLAIN_OF(f, context_create, { 9, 0, 0x20 }), 801); /* core dumps */
    assert_int_equal(PLAIN_OF(f, context_create, { 9, 0, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST }), 0);
    assert_int_equal(PLAIN_OF(f, context_destroy, { 9 }), 0);
    assert_int_equal(PLAIN_OF(f, context_destroy, { 9 }), GONE);
    assert_int_equal(PLAIN_OF(f, context_destroy, { 0 }), GONE);
    assert_int_equal(PLAIN_OF(f, context_release, { 1 }), GONE);
    assert_int_equal(PLAIN_OF(f, context_reset, { 1 }), GONE);
    assert_int_equal(PLAIN_OF(f, context_reset, { UINT32_MAX }), GONE);
    assert_int_equal(PLAIN_OF(f, context_release, { 33 }), GONE);
    f->peer.context = 9;
    assert_int_equal(peer_map(&f->peer, f->peer.base + 9 * f->peer.granule, f->peer.granule), GONE);
    assert_int_equal(peer_load(&f->peer, 9, kernels_ptx, NULL, 0), GONE);
    assert_int_equal(peer_context_sync(&f->peer), GONE);
    peer_stream_create(&f->peer, 90, 0);
    assert_int_equal(latched(f), GONE);
    f->peer.context = 9;
    peer_event_create(&f->peer, 90);
    assert_int_equal(latched(f), GONE);
    peer_stream_create(&f->peer, 1, 0);                                  /* the id of a default stream */
    assert_int_equal(latched(f), 1);
    limit_args limit = { 9, 0, 0 };
    limit_result value = { 0 };
    ctx_get_limit_args ask = { 9, 0 };
    ctx_get_limit_result answer = { 0 };
    assert_int_equal(flyt_ctx_get_limit_1(&ask, &answer, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(answer.head.result, GONE);
    xdr_free((xdrproc_t)xdr_ctx_get_limit_result, (char *)&answer);
    assert_int_equal(flyt_limit_set_1(&limit, &value, f->peer.stub), RPC_SUCCESS);
    assert_int_equal(value.head.result, GONE);
    xdr_free((xdrproc_t)xdr_limit_result, (char *)&value);
    for (uint32_t context = 0; context < CONTEXTS; context++)            /* and nothing has come to harm */
        add(f, context, context, f->at[context]);
    for (uint32_t context = 0; context < CONTEXTS; context++)
        assert_int_equal(word(f, context, f->at[context]), 1);
}

/* As many as there are names, in this process; they end with the session. */
TEST(the_number_is_bounded)
{
    struct fixture f = { 0 };
    peer_local(&f.peer, "null");
    peer_hello(&f.peer);
    for (int round = 0; round < 2; round++) {
        for (uint32_t context = 1; context < FLYT_MAX_CONTEXTS; context++)
            assert_int_equal(PLAIN_OF(&f, context_create, { context, 0, 0 }), 0);
        assert_int_equal(PLAIN_OF(&f, context_create, { FLYT_MAX_CONTEXTS, 0, 0 }), 1);
        for (uint32_t context = FLYT_MAX_CONTEXTS - 1; context && !round; context--)
            assert_int_equal(PLAIN_OF(&f, context_destroy, { context }), 0);
    }
    f.peer.context = 5;
    assert_int_equal(peer_map(&f.peer, f.peer.base, f.peer.granule), 0);
    peer_close(&f.peer);
}

/* The log says what a session had when it ended: every kind of object is counted. */
TEST(objects_are_counted)
{
    static char log[1 << 16];
    struct server other;
    struct fixture f = { 0 };
    setenv("FLYT_LOG", "debug", 1);
    server_start(&other, "software", NULL);
    unsetenv("FLYT_LOG");
    peer_open(&f.peer, other.uri[0]);
    fill(&f, 0);
    assert_int_equal(PLAIN_OF(&f, context_create, { 1, 0, 0 }), 0);
    fill(&f, 1);
    peer_close(&f.peer);
    const char *line = NULL;
    for (uint64_t until = clock_now() + 20 * CLOCK_NS_PER_SECOND; !line && clock_now() < until; poll(NULL, 0, 2)) {
        ssize_t n = pread(other.log, log, sizeof log - 1, 0);
        log[n > 0 ? n : 0] = 0;
        line = strstr(log, "event=session-objects");
    }
    if (!line || !strstr(line, " stream=4 event=2 module=2 function=4 image=1 mapping=2 context=2"))
        fail_msg("the log has: %s", line ? line : "no such line");
    server_stop(&other, SIGTERM);
}

/* HELLO makes the first context, and maps memory in it, where the client wishes that. */
TEST(hello_brings_a_context)
{
    struct peer peer;
    peer_connect(&peer, server.uri[0]);
    hello_args args = { .major = FLYT_PROTOCOL_MAJOR,
                        .host = (char *)"h",
                        .executable = (char *)"e",
                        .wish = { .context = 1, .credit = 5 << 20 } };
    assert_int_equal(flyt_hello_1(&args, &peer.hello, peer.stub), RPC_SUCCESS);
    assert_int_equal(peer.hello.head.result, 0);
    assert_int_equal(peer.hello.granted.context, 1);
    uint64_t base = peer.hello.window, granule = peer.hello.granularity, credit = peer.hello.granted.credit;
    assert_true(credit >= 5 << 20 && credit % granule == 0);
    assert_int_equal(peer_context_sync(&peer), 0);
    context_retain_args same = { 0, 0 }, other = { 1, 0 };
    plain_result plain = { 0 };
    assert_int_equal(flyt_context_retain_1(&same, &plain, peer.stub), RPC_SUCCESS);
    assert_int_equal(plain.head.result, 0);
    assert_int_equal(flyt_context_retain_1(&other, &plain, peer.stub), RPC_SUCCESS);
    assert_int_equal(plain.head.result, 1);
    /* the memory is like what MAP gives: it is there, and can be given back */
    map_args map = { .address = base + credit - granule, .size = granule };
    map_result mapped = { 0 };
    assert_int_equal(flyt_map_1(&map, &mapped, peer.stub), RPC_SUCCESS);
    assert_int_equal(mapped.head.result, 1);
    unmap_args unmap = { 0, base, credit };
    flyt_unmap_1(&unmap, NULL, peer.stub);
    assert_int_equal(peer_context_sync(&peer), 0);
    assert_int_equal(peer.last.latched, 0);
    /* another window only without the context */
    window_args refuse = { base };
    window_result window = { 0 };
    context_args end = { 0 };
    assert_int_equal(flyt_window_1(&refuse, &window, peer.stub), RPC_SUCCESS);
    assert_int_equal(window.head.result, 1);
    assert_int_equal(flyt_context_release_1(&end, &plain, peer.stub), RPC_SUCCESS);
    assert_int_equal(plain.head.result, 0);
    assert_int_equal(flyt_window_1(&refuse, &window, peer.stub), RPC_SUCCESS);
    assert_int_equal(window.head.result, 0);
    assert_true(window.window && window.window != base);
    peer_close(&peer);
}

int main(void)
{
    server_start(&server, "software", NULL);
    int failed = unit_run(NULL, NULL);
    failed += server_stop(&server, SIGTERM) != 0;
    return failed;
}
