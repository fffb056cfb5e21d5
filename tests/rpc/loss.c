/*
 * loss: the connection ends at any moment, from either side, while threads do all that can be done with it. Every
 * call must complete, every thread return, and nothing leak or race (that is for the sanitizers to say).
 */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <poll.h>

#include "tests/lib/unit.h"

enum { ROUNDS = 40, WORKERS = 5, BIG = 100 * 1024 };

struct joint {
    rpc_client      *client;
    struct service  *service;
    _Atomic unsigned submitted, told;       /* calls with a done function */
    _Atomic unsigned losses;
    _Atomic uint64_t successes;
};

static void lost(void *context, const char *reason)
{
    struct joint *joint = context;
    assert_true(strlen(reason) > 3);
    atomic_fetch_add(&joint->losses, 1);
}

struct heap_call {
    struct rpc_call    call;
    context_args       args;
    memory_info_result result;
    struct joint      *joint;
};

/* As the client core does with calls that nobody waits for. */
static void free_call(struct rpc_call *call, void *context)
{
    struct heap_call *heap = context;
    atomic_fetch_add(&heap->joint->told, 1);
    xdr_free((xdrproc_t)xdr_memory_info_result, &heap->result);
    (void)call;
    free(heap);
}

static bool submit_and_forget(struct joint *joint)
{
    struct heap_call *heap = calloc(1, sizeof *heap);
    heap->joint = joint;
    heap->call = (struct rpc_call){ .procedure = FLYT_MEMORY_INFO, .encode = (xdrproc_t)xdr_context_args,
        .args = &heap->args, .decode = (xdrproc_t)xdr_memory_info_result, .result = &heap->result,
        .done = free_call, .context = heap };
    atomic_fetch_add(&joint->submitted, 1);
    if (rpc_client_submit(joint->client, &heap->call) == RPC_SUCCESS)
        return true;
    atomic_fetch_sub(&joint->submitted, 1);
    free(heap);
    return false;
}

static void *work(void *context)
{
    struct joint *joint = context;
    CLIENT *stub = stub_of(joint->client);
    char *bytes = calloc(1, BIG);
    test_pattern(1, bytes, BIG);
    for (unsigned i = 0;; i++) {
        set_args set = { .stream = 63 };
        context_args asked = { 0 };
        memory_info_result info = { 0 };
        copy_in_args in = { .to = 1, .data = { .kind = FLYT_BULK_INLINE } };
        in.data.flyt_bulk_u.bytes.bytes_val = bytes;
        in.data.flyt_bulk_u.bytes.bytes_len = BIG;
        copy_out_args out = { .from = 1, .size = BIG };
        copy_out_result result = { 0 };
        bool good = true;
        switch (i % 5) {
        case 0: good = flyt_set_1(&set, NULL, stub) == RPC_SUCCESS; break;
        case 1: good = flyt_memory_info_1(&asked, &info, stub) == RPC_SUCCESS; break;
        case 2: good = flyt_copy_in_1(&in, NULL, stub) == RPC_SUCCESS; break;
        case 3: good = flyt_copy_out_1(&out, &result, stub) == RPC_SUCCESS; break;
        case 4: good = submit_and_forget(joint); break;
        }
        xdr_free((xdrproc_t)xdr_copy_out_result, &result);
        if (!good)
            break;
        atomic_fetch_add(&joint->successes, 1);
    }
    free(bytes);
    return NULL;
}

static void *help(void *context)
{
    struct joint *joint = context;
    events_args args = { 0 };
    events_result result = { 0 };
    struct rpc_call call = { .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &args,
                             .decode = (xdrproc_t)xdr_events_result, .result = &result };
    if (rpc_client_submit(joint->client, &call) == RPC_SUCCESS)
        rpc_client_attend(joint->client, &call);
    xdr_free((xdrproc_t)xdr_events_result, &result);
    return NULL;
}

TEST_ON(end_at_any_time, "unix", "shm", "tcp", "tls", "local")
{
    uint64_t successes = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct joint joint = { .client = NULL };
        rpc_channel *channels[2];
        pthread_t workers[WORKERS], helper;
        test_channels(*state, channels);
        joint.service = service_start(channels[1]);
        assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 30, lost, &joint, &joint.client, NULL), 0);
        assert_int_equal(pthread_create(&helper, NULL, help, &joint), 0);
        for (unsigned i = 0; i < WORKERS; i++)
            assert_int_equal(pthread_create(&workers[i], NULL, work, &joint), 0);
        /* by what has been done, not by the clock, so that a slow machine gets as far */
        uint64_t deadline = clock_now() + 20 * CLOCK_NS_PER_SECOND;
        while (atomic_load(&joint.successes) < round * 7 && clock_now() < deadline)
            sched_yield();
        bool here = round % 2 == 0;
        if (here)
            rpc_client_shutdown(joint.client);
        else
            rpc_server_shutdown(joint.service->server);
        for (unsigned i = 0; i < WORKERS; i++)
            pthread_join(workers[i], NULL);
        pthread_join(helper, NULL);
        assert_true(rpc_client_lost(joint.client));
        assert_int_equal(atomic_load(&joint.told), atomic_load(&joint.submitted));
        assert_int_equal(atomic_load(&joint.losses), here ? 0 : 1);
        successes += atomic_load(&joint.successes);
        rpc_client_destroy(joint.client);
        service_join(joint.service);
    }
    assert_true(successes >= 7 * ROUNDS * (ROUNDS - 1) / 2);
}

int main(void) { return unit_run(NULL, NULL); }
