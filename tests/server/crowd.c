/* shows: The server: very many streams that stand still: what the driver holds of all of them together is bounded, the
 *   operation that lets them go on gets through, and then all of them run in order */
/* crowd.c: bytes inside the driver, of all streams of a session (cpu/server/crowd.c). */
#include <signal.h>

#include "cpu/server/session.h"
#include "tests/server/peer.h"

/* All launches together are several times MOST, and fit into what the server keeps itself. */
enum { MOST = 8 << 20, STREAMS = 64, FIRST = 64, LAUNCHES = 512, PARAMETERS = 1000, GO = 5, OTHER = 10000 };

/* Each launch adds 1 to its stream's word if that has the launch's number; else it leaves it, and all that follow. */
static const char kernel[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry step(.param .u64 p, .param .u32 n, .param .align 8 .b8 more[984])\n{\n"
    " .reg .pred %q; .reg .b32 %r<4>; .reg .b64 %d;\n"
    " ld.param.u64 %d, [p]; ld.param.u32 %r1, [n]; ld.global.u32 %r2, [%d];\n"
    " setp.ne.u32 %q, %r1, %r2; @%q ret; add.u32 %r3, %r2, 1; st.global.u32 [%d], %r3; ret;\n}\n";

struct parameters { uint64_t at; uint32_t number; uint8_t more[984]; };

/* The words that the streams wait for, and those that they count in. */
static uint64_t gate_of(const struct peer *p) { return p->base; }
static uint64_t count_of(const struct peer *p, uint32_t i) { return p->base + 4096 + 4 * i; }

static void value(struct peer *p, uint32_t stream, int kind, uint64_t at, uint64_t number)
{
    flyt_value v = { kind, at, number, 0 };
    flyt_values_1(&(values_args){ stream, { 1, &v } }, NULL, p->stub);
}

static void enter_all(struct peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        peer_stream_create(p, FIRST + i, CU_STREAM_NON_BLOCKING);
        value(p, FIRST + i, CU_STREAM_MEM_OP_WAIT_VALUE_32, gate_of(p), GO);
    }
    for (uint32_t i = 0; i < STREAMS; i++)
        for (uint32_t n = 0; n < LAUNCHES - 1; n++) {
            struct parameters parameters = { .at = count_of(p, i), .number = n };
            peer_launch(p, 0, FIRST + i, 1, 1, &parameters, PARAMETERS);
        }
}

static uint64_t inside(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    uint64_t bytes = session->crowd.entered - atomic_load(&session->crowd.left);
    pthread_mutex_unlock(&session->lock);
    return bytes;
}

TEST(many_streams_stand_still)
{
    struct peer p;
    uint32_t counted[STREAMS], bytes;
    char log[200];
    peer_library(&p, "software");
    struct session *session = *(struct session **)(void *)p.local;    /* its first member: cpu/server/local.c */
    assert_true(session->crowd.most <= SESSION_DRIVER_BYTES && session->crowd.most > MOST);
    session->crowd.most = MOST; /* before its first operation */
    peer_hello(&p);
    assert_int_equal(peer_map(&p, p.base, p.granule), 0);
    peer_set(&p, 0, p.base, p.granule / 4, 0, 4);
    assert_int_equal(peer_load(&p, 0, kernel, log, sizeof log), 0);
    assert_int_equal(peer_function(&p, 0, 0, "step", &bytes), 0);
    assert_int_equal(bytes, PARAMETERS);
    assert_int_equal(peer_context_sync(&p), 0);
    enter_all(&p);
    /* A question about another stream is answered behind all that. */
    peer_stream_create(&p, OTHER, CU_STREAM_NON_BLOCKING);
    assert_int_equal(peer_stream_query(&p, OTHER), 0);
    assert_in_range(inside(session), MOST / 2, MOST + 4096);
    assert_true(atomic_load(&session->executor.deferred_calls) > STREAMS * LAUNCHES / 2);
    /* It goes past them, and all of them run, each stream's in order. */
    value(&p, OTHER, CU_STREAM_MEM_OP_WRITE_VALUE_32, gate_of(&p), GO);
    assert_int_equal(peer_context_sync(&p), 0);
    assert_int_equal(p.last.latched, 0);
    assert_int_equal(peer_copy_out(&p, 0, counted, count_of(&p, 0), sizeof counted), 0);
    for (uint32_t i = 0; i < STREAMS; i++)
        assert_int_equal(counted[i], LAUNCHES - 1);
    for (uint32_t i = 0; i < STREAMS; i++)
        assert_int_equal(peer_stream_sync(&p, FIRST + i), 0);
    assert_int_equal(peer_stream_sync(&p, OTHER), 0);
    assert_true(inside(session) < MOST / 100);
    peer_close(&p);
}

/* Each message asks for all streams, which stand still. */
TEST(calls_that_wait_are_bounded)
{
    struct server server;
    struct peer p;
    enum { MANY = 2000, CALLS = 2 * SESSION_WAITS / MANY };
    server_start(&server, "software", NULL);
    peer_open(&p, server.uri[0]);
    assert_int_equal(peer_map(&p, p.base, p.granule), 0);
    peer_set(&p, 0, p.base, p.granule / 4, 0, 4);
    assert_int_equal(peer_context_sync(&p), 0);
    peer_stream_create(&p, OTHER, CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < MANY; i++) {
        peer_stream_create(&p, FIRST + i, CU_STREAM_NON_BLOCKING);
        value(&p, FIRST + i, CU_STREAM_MEM_OP_WAIT_VALUE_32, gate_of(&p), GO);
    }
    struct rpc_call *calls = calloc(CALLS, sizeof *calls);
    plain_result *results = calloc(CALLS, sizeof *results);
    context_args all = { 0 };
    assert_true(calls && results);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct rpc_call){ .procedure = FLYT_CONTEXT_SYNC, .encode = (xdrproc_t)xdr_context_args,
                                      .args = &all, .decode = (xdrproc_t)xdr_plain_result, .result = &results[i] };
        if (rpc_client_submit(p.client, &calls[i]) != RPC_SUCCESS)
            break; /* the session has ended */
    }
    value(&p, OTHER, CU_STREAM_MEM_OP_WRITE_VALUE_32, gate_of(&p), GO);
    enum clnt_stat status = rpc_client_wait(p.client, &calls[0]);
    if (status == RPC_SUCCESS)
        fail_msg("%d calls waited for %d streams each, and the session went on", CALLS, MANY);
    peer_close(&p);
    free(calls);
    free(results);
    server_stop(&server, SIGTERM);
}

int main(void) { return unit_run(NULL, NULL); }
