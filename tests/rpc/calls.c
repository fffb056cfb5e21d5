/* calls: client and server over each transport, through the stubs and through rpc_call. */
#include "tests/rpc/service.h"

#include <errno.h>
#include <unistd.h>

#include "tests/lib/unit.h"

#define EVERYWHERE "unix", "shm", "tcp", "tls", "tls-rekey", "local"

struct joint {
    const char     *kind;
    rpc_client     *client;
    struct service *service;
};

static int set_up(void **state)
{
    struct joint *joint = calloc(1, sizeof *joint);
    rpc_channel *channels[2];
    joint->kind = *state;
    test_channels(joint->kind, channels);
    joint->service = service_start(channels[1]);
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 20, NULL, NULL, &joint->client, NULL), 0);
    *state = joint;
    return 0;
}

static int tear_down(void **state)
{
    struct joint *joint = *state;
    rpc_client_destroy(joint->client);
    service_join(joint->service);
    free(joint);
    return 0;
}

TEST_ON_WITH(stubs, set_up, tear_down, EVERYWHERE)
{
    struct joint *joint = *state;
    CLIENT *stub = stub_of(joint->client);
    assert_int_equal(
        strncmp(joint->kind, rpc_client_transport(joint->client), strlen(rpc_client_transport(joint->client))), 0);

    for (int i = 0; i < 100; i++) {
        context_args context = { .context = (flyt_id)i };
        memory_info_result info = { 0 };
        set_args set = { .stream = 3, .value = (unsigned)i + 1 };
        assert_int_equal(flyt_set_1(&set, NULL, stub), RPC_SUCCESS);
        assert_int_equal(flyt_memory_info_1(&context, &info, stub), RPC_SUCCESS);
        assert_int_equal(info.total, i);
        assert_int_equal(info.free, i + 1);
        xdr_free((xdrproc_t)xdr_memory_info_result, &info);
    }
    assert_int_equal(atomic_load(&joint->service->disorder), 0);
}

TEST_ON_WITH(bulk, set_up, tear_down, EVERYWHERE)
{
    struct joint *joint = *state;
    CLIENT *stub = stub_of(joint->client);
    static const size_t sizes[] = { 0, 1, 3, 4, 1000, 32767, 32768, 32769, 65536, 262144, FLYT_MAX_INLINE };
    char *bytes = malloc(FLYT_MAX_INLINE);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_pattern(i, bytes, sizes[i]);
        copy_in_args in = { .to = i, .data = { .kind = FLYT_BULK_INLINE } };
        in.data.flyt_bulk_u.bytes.bytes_val = bytes;
        in.data.flyt_bulk_u.bytes.bytes_len = (u_int)sizes[i];
        assert_int_equal(flyt_copy_in_1(&in, NULL, stub), RPC_SUCCESS);
        memset(bytes, 0xaa, sizes[i]);              /* the caller may use its buffer again at once */

        copy_out_args out = { .from = 100 + i, .size = sizes[i] };
        copy_out_result result = { 0 };
        assert_int_equal(flyt_copy_out_1(&out, &result, stub), RPC_SUCCESS);
        assert_int_equal(result.data.flyt_bulk_u.bytes.bytes_len, sizes[i]);
        assert_true(test_pattern_matches(100 + i, result.data.flyt_bulk_u.bytes.bytes_val, sizes[i]));
        xdr_free((xdrproc_t)xdr_copy_out_result, &result);
    }
    free(bytes);
    assert_int_equal(atomic_load(&joint->service->disorder), 0);
}

/* TEST_REVERSED calls, answered last first. */
TEST_ON_WITH(out_of_order, set_up, tear_down, EVERYWHERE)
{
    struct joint *joint = *state;
    struct rpc_call calls[TEST_REVERSED];
    stream_args args[TEST_REVERSED];
    plain_result results[TEST_REVERSED];
    memset(results, 0, sizeof results);
    for (unsigned i = 0; i < TEST_REVERSED; i++) {
        args[i].stream = i;
        calls[i] = (struct rpc_call){ .procedure = FLYT_STREAM_SYNC,
                                      .encode = (xdrproc_t)xdr_stream_args, .args = &args[i],
                                      .decode = (xdrproc_t)xdr_plain_result, .result = &results[i] };
        assert_int_equal(rpc_client_submit(joint->client, &calls[i]), RPC_SUCCESS);
    }
    for (unsigned i = 0; i < TEST_REVERSED; i++) {
        assert_int_equal(rpc_client_wait(joint->client, &calls[i]), RPC_SUCCESS);
        assert_int_equal(results[i].head.result, calls[i].xid);
    }
}

TEST_ON_WITH(unknown_procedure, set_up, tear_down, EVERYWHERE)
{
    struct joint *joint = *state;
    struct rpc_call call = { .procedure = 9999 };
    assert_int_equal(rpc_client_submit(joint->client, &call), RPC_PROCUNAVAIL);
    assert_true(call.complete);
}

TEST_ON_WITH(too_long, set_up, tear_down, EVERYWHERE)
{
    struct joint *joint = *state;
    char *name = malloc(FLYT_MAX_NAME + 2);
    memset(name, 'x', FLYT_MAX_NAME + 1);
    name[FLYT_MAX_NAME + 1] = 0;
    function_get_args args = { .name = name };
    function_get_result result = { 0 };
    assert_int_equal(flyt_function_get_1(&args, &result, stub_of(joint->client)), RPC_CANTENCODEARGS);
    name[FLYT_MAX_NAME] = 0;                        /* and the connection is none the worse */
    assert_int_equal(flyt_function_get_1(&args, &result, stub_of(joint->client)), RPC_SUCCESS);
    xdr_free((xdrproc_t)xdr_function_get_result, &result);
    free(name);
}

int main(void) { return unit_run(NULL, NULL); }
