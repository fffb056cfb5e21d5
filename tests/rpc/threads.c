/* threads: many threads on one connection, the helper, batches, done functions, full buffers. */
#include "tests/rpc/service.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "tests/lib/unit.h"

#define SOCKETS "unix", "tcp", "tls"
#define EVERYWHERE SOCKETS, "local", "shm"
enum { THREADS = 8, CALLS_EACH = 10000, BIG = 512 * 1024 };

struct joint {
    const char     *kind;
    rpc_client     *client;
    struct service *service;
    pthread_t       helper;
    struct rpc_call events;
    events_args     events_arguments;
    events_result   events_answer;
    _Atomic uint64_t events_seen;
    atomic_bool     helped;
};

/* As the client core does: one EVENTS call outstanding all the time. */
static void *help(void *context)
{
    struct joint *joint = context;
    for (;;) {
        joint->events = (struct rpc_call){
            .procedure = FLYT_EVENTS, .encode = (xdrproc_t)xdr_events_args, .args = &joint->events_arguments,
            .decode = (xdrproc_t)xdr_events_result, .result = &joint->events_answer };
        if (rpc_client_submit(joint->client, &joint->events) != RPC_SUCCESS ||
            rpc_client_attend(joint->client, &joint->events) != RPC_SUCCESS)
            return NULL;
        atomic_fetch_add(&joint->events_seen, 1);
        joint->events_arguments.acknowledged = joint->events_answer.serial;
        xdr_free((xdrproc_t)xdr_events_result, &joint->events_answer);
        memset(&joint->events_answer, 0, sizeof joint->events_answer);
    }
}

static struct joint *join(const char *kind, int buffer)
{
    struct joint *joint = calloc(1, sizeof *joint);
    rpc_channel *channels[2];
    joint->kind = kind;
    if (buffer > 0) {                       /* sockets that hold next to nothing */
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        for (int i = 0; i < 2; i++) {
            setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
            setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
            assert_int_equal(rpc_channel_from_fd(fds[i], &channels[i], NULL), 0);
        }
    } else {
        test_channels(kind, channels);
    }
    joint->service = service_start(channels[1]);
    assert_int_equal(rpc_client_create(channels[0], &rpc_flyt_program, 60, NULL, NULL, &joint->client, NULL), 0);
    return joint;
}

static void add_helper(struct joint *joint)
{
    assert_int_equal(pthread_create(&joint->helper, NULL, help, joint), 0);
    atomic_store(&joint->helped, true);
    while (atomic_load(&joint->service->events_xid) == 0)
        poll(NULL, 0, 1);
}

static void part(struct joint *joint)
{
    rpc_client_shutdown(joint->client);
    if (atomic_load(&joint->helped))
        pthread_join(joint->helper, NULL);
    rpc_client_destroy(joint->client);
    service_join(joint->service);
    free(joint);
}

struct worker {
    struct joint *joint;
    unsigned      number;
    unsigned      calls;
    unsigned      failures;
    pthread_t     thread;
};

/* ASYNC calls with a running number, and now and then a SYNC call. */
static void *work(void *context)
{
    struct worker *worker = context;
    CLIENT *stub = stub_of(worker->joint->client);
    for (unsigned i = 1; i <= worker->calls; i++) {
        set_args set = { .stream = worker->number, .value = i };
        if (flyt_set_1(&set, NULL, stub) != RPC_SUCCESS)
            worker->failures++;
        if (i % 16 == 0) {
            context_args asked = { .context = (flyt_id)(worker->number * 1000000 + i) };
            memory_info_result info = { 0 };
            if (flyt_memory_info_1(&asked, &info, stub) != RPC_SUCCESS || info.total != asked.context)
                worker->failures++;
        }
    }
    return NULL;
}

/* All of them; the server has had each call in its order. */
static void run_threads(struct joint *joint, void *(*work_of)(void *), unsigned calls)
{
    struct worker workers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .joint = joint, .number = i, .calls = calls };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work_of, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    context_args asked = { 0 };
    memory_info_result info = { 0 };
    assert_int_equal(flyt_memory_info_1(&asked, &info, stub_of(joint->client)), RPC_SUCCESS);
    assert_int_equal(info.free, THREADS * calls);
    assert_int_equal(atomic_load(&joint->service->disorder), 0);
    part(joint);
}

static void many_threads(const char *kind, bool helper)
{
    struct joint *joint = join(kind, 0);
    if (helper)
        add_helper(joint);
    run_threads(joint, work, CALLS_EACH);
}

TEST_ON(threads, EVERYWHERE) { many_threads(*state, true); }
TEST_ON(threads_without_helper, "unix", "shm") { many_threads(*state, false); }

/* Sends a burst of ASYNC calls; gives the number of system calls that it took, once all has arrived. */
static uint64_t burst(struct joint *joint, unsigned first, unsigned count)
{
    struct rpc_client_statistics before, after;
    uint64_t deadline = clock_now() + 20 * CLOCK_NS_PER_SECOND;
    rpc_client_statistics(joint->client, &before);
    for (unsigned i = 0; i < count; i++) {
        set_args set = { .stream = 1, .value = first + i };
        assert_int_equal(flyt_set_1(&set, NULL, stub_of(joint->client)), RPC_SUCCESS);
    }
    while (atomic_load(&joint->service->async) < first + count - 1 && clock_now() < deadline)
        poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&joint->service->async), first + count - 1);
    rpc_client_statistics(joint->client, &after);
    assert_int_equal(after.calls - before.calls, count);
    return after.writes - before.writes;
}

/* A burst takes far fewer system calls than calls, all of it arrives without any SYNC call, and each call goes by
   itself when batching is off. How far a batch gets before the helper runs is the scheduler's affair, so the best
   of several bursts counts. */
/* Elsewhere a call costs no system call: there are none. */
TEST_ON(batches, SOCKETS)
{
    enum { BURST = 10000, ROUNDS = 10 };
    struct joint *joint = join(*state, 0);
    add_helper(joint);
    uint64_t best = UINT64_MAX;
    unsigned next = 1;
    for (unsigned i = 0; i < ROUNDS && best > BURST / 2; i++, next += BURST) {
        uint64_t writes = burst(joint, next, BURST);
        best = writes < best ? writes : best;
    }
    assert_in_range(best, 1, BURST / 2);       /* under a sanitizer calls come slowly; else it is a fortieth */
    rpc_client_set_batching(joint->client, false);
    assert_int_equal(burst(joint, next, 100), 100);
    assert_int_equal(atomic_load(&joint->service->disorder), 0);
    part(joint);
}

/* One thread that sends without end does not keep the others from their answers. */
static atomic_bool flooding;

static void *flood(void *context)
{
    struct worker *worker = context;
    stream_args stream = { 0 };
    while (atomic_load(&flooding)) {
        if (flyt_stream_destroy_1(&stream, NULL, stub_of(worker->joint->client)) != RPC_SUCCESS)
            worker->failures++;
        worker->calls++;
    }
    return NULL;
}

TEST_ON(flood_holds_nobody, EVERYWHERE)
{
    enum { ANSWERS = 200 };
    struct joint *joint = join(*state, 0);
    add_helper(joint);
    struct worker worker = { .joint = joint };
    atomic_store(&flooding, true);
    assert_int_equal(pthread_create(&worker.thread, NULL, flood, &worker), 0);
    uint64_t began = clock_now(), longest = 0;
    for (unsigned i = 0; i < ANSWERS; i++) {
        uint64_t asked = clock_now();
        context_args which = { 0 };
        memory_info_result info = { 0 };
        assert_int_equal(flyt_memory_info_1(&which, &info, stub_of(joint->client)), RPC_SUCCESS);
        longest = clock_now() - asked > longest ? clock_now() - asked : longest;
        if (i % 20 == 0) {                          /* and the helper still hears the server */
            uint64_t seen = atomic_load(&joint->events_seen);
            service_say(joint->service, i);
            while (atomic_load(&joint->events_seen) == seen && clock_now() - began < 50 * CLOCK_NS_PER_SECOND)
                sched_yield();
        }
    }
    uint64_t took = clock_now() - began;
    atomic_store(&flooding, false);
    pthread_join(worker.thread, NULL);
    assert_int_equal(worker.failures, 0);
    assert_int_equal(atomic_load(&joint->events_seen), ANSWERS / 20);
    assert_in_range(took / CLOCK_NS_PER_MS, 0, 50 * 1000);
    print_message("# %u answers beside %u calls: %.1f ms each, %.1f ms the longest\n", ANSWERS, worker.calls,
                  (double)took / ANSWERS / 1e6, (double)longest / 1e6);
    part(joint);
}

/* While the only other call in flight is waiting for something without end, ASYNC calls still go out. */
TEST_ON(nothing_sits, EVERYWHERE)
{
    struct joint *joint = join(*state, 0);
    add_helper(joint);
    stream_args stream = { 0 };
    plain_result result = { 0 };
    struct rpc_call call = { .procedure = FLYT_STREAM_SYNC, .encode = (xdrproc_t)xdr_stream_args, .args = &stream,
                             .decode = (xdrproc_t)xdr_plain_result, .result = &result };
    assert_int_equal(rpc_client_submit(joint->client, &call), RPC_SUCCESS);     /* not answered: one of four */
    for (unsigned i = 1; i <= 200; i++) {
        uint64_t deadline = clock_now() + 20 * CLOCK_NS_PER_SECOND;
        for (unsigned k = 0; k < 1 + i % 3; k++) {
            stream_args event = { .stream = 9 };
            assert_int_equal(flyt_stream_destroy_1(&event, NULL, stub_of(joint->client)), RPC_SUCCESS);
        }
        struct rpc_client_statistics sent;
        rpc_client_statistics(joint->client, &sent);
        while (atomic_load(&joint->service->async) < sent.calls - 2 && clock_now() < deadline)
            sched_yield();
        assert_int_equal(atomic_load(&joint->service->async), sent.calls - 2);  /* EVENTS, STREAM_SYNC */
    }
    part(joint);
    assert_int_equal(call.status, RPC_CANTRECV);
}

/* The server speaks while the program computes, and while another thread waits all the time. */
static void *chat(void *context)
{
    struct worker *worker = context;
    while (atomic_load(&worker->joint->events_seen) < 150) {
        context_args asked = { 0 };
        memory_info_result info = { 0 };
        if (flyt_memory_info_1(&asked, &info, stub_of(worker->joint->client)) != RPC_SUCCESS)
            worker->failures++;
        worker->calls++;
    }
    return NULL;
}

TEST_ON(server_speaks, EVERYWHERE)
{
    struct joint *joint = join(*state, 0);
    add_helper(joint);
    struct worker worker = { .joint = joint };
    for (uint32_t i = 0; i < 100; i++)
        service_say(joint->service, i);
    assert_int_equal(pthread_create(&worker.thread, NULL, chat, &worker), 0);
    for (uint32_t i = 0; i < 50; i++)
        service_say(joint->service, i);
    pthread_join(worker.thread, NULL);
    assert_int_equal(worker.failures, 0);
    assert_int_equal(atomic_load(&joint->events_seen), 150);
    part(joint);
}

/* ---- done functions ---- */

enum { CHAINS = 16, CHAIN_LENGTH = 200 };

struct link {
    struct rpc_call     call;
    struct joint       *joint;
    context_args        args;
    memory_info_result  result;
    unsigned            left;
    _Atomic unsigned   *finished;
    unsigned            failures;
};

static void next_link(struct rpc_call *call, void *context)
{
    struct link *link = context;
    if (call->status != RPC_SUCCESS || link->result.total != link->args.context)
        link->failures++;
    set_args set = { .stream = 40 + link->args.context % 16, .value = CHAIN_LENGTH + 1 - link->left };
    if (flyt_set_1(&set, NULL, stub_of(link->joint->client)) != RPC_SUCCESS)
        link->failures++;
    if (--link->left == 0 || link->failures > 0) {
        atomic_fetch_add(link->finished, 1);
        return;
    }
    memset(&link->result, 0, sizeof link->result);
    if (rpc_client_submit(link->joint->client, call) != RPC_SUCCESS) {
        link->failures++;
        atomic_fetch_add(link->finished, 1);
    }
}

/* Each done function submits the next call, and an ASYNC one; only the helper reads. */
TEST_ON(done_functions, EVERYWHERE)
{
    struct joint *joint = join(*state, 0);
    add_helper(joint);
    _Atomic unsigned finished = 0;
    static struct link links[CHAINS];
    memset(links, 0, sizeof links);
    for (unsigned i = 0; i < CHAINS; i++) {
        links[i].joint = joint;
        links[i].args.context = (flyt_id)i;
        links[i].left = CHAIN_LENGTH;
        links[i].finished = &finished;
        links[i].call = (struct rpc_call){ .procedure = FLYT_MEMORY_INFO,
            .encode = (xdrproc_t)xdr_context_args, .args = &links[i].args,
            .decode = (xdrproc_t)xdr_memory_info_result, .result = &links[i].result,
            .done = next_link, .context = &links[i] };
        assert_int_equal(rpc_client_submit(joint->client, &links[i].call), RPC_SUCCESS);
    }
    uint64_t deadline = clock_now() + 30 * CLOCK_NS_PER_SECOND;
    while (atomic_load(&finished) < CHAINS && clock_now() < deadline)
        poll(NULL, 0, 1);
    assert_int_equal(atomic_load(&finished), CHAINS);
    for (unsigned i = 0; i < CHAINS; i++)
        assert_int_equal(links[i].failures, 0);
    assert_int_equal(rpc_client_flush(joint->client), 0);
    context_args asked = { 0 };
    memory_info_result info = { 0 };
    assert_int_equal(flyt_memory_info_1(&asked, &info, stub_of(joint->client)), RPC_SUCCESS);
    assert_int_equal(info.free, CHAINS * CHAIN_LENGTH);
    assert_int_equal(atomic_load(&joint->service->disorder), 0);
    part(joint);
}

/* ---- both directions full ---- */

static void *pump(void *context)
{
    struct worker *worker = context;
    CLIENT *stub = stub_of(worker->joint->client);
    char *bytes = malloc(BIG);
    for (unsigned i = 0; i < worker->calls; i++) {
        uint64_t seed = worker->number * 1000 + i;
        test_pattern(seed, bytes, BIG);
        copy_in_args in = { .to = seed, .data = { .kind = FLYT_BULK_INLINE } };
        in.data.flyt_bulk_u.bytes.bytes_val = bytes;
        in.data.flyt_bulk_u.bytes.bytes_len = BIG;
        if (flyt_copy_in_1(&in, NULL, stub) != RPC_SUCCESS)
            worker->failures++;
        if (worker->number % 2 == 0)
            continue;
        copy_out_args out = { .from = seed, .size = BIG };
        copy_out_result result = { 0 };
        if (flyt_copy_out_1(&out, &result, stub) != RPC_SUCCESS ||
            !test_pattern_matches(seed, result.data.flyt_bulk_u.bytes.bytes_val, BIG))
            worker->failures++;
        xdr_free((xdrproc_t)xdr_copy_out_result, &result);
    }
    free(bytes);
    return NULL;
}

static _Atomic unsigned big_replies;
static void count_reply(struct rpc_call *call, void *context)
{
    (void)context;
    if (call->status == RPC_SUCCESS)
        atomic_fetch_add(&big_replies, 1);
    xdr_free((xdrproc_t)xdr_copy_out_result, call->result);
}

/* The service answers in the thread that reads, so it stops reading while its answers do not get through. A client
   that only writes would wait for ever. */
TEST_ON(one_thread_both_full, "small", "shm")
{
    enum { ROUNDS = 12 };
    struct joint *joint = strcmp(*state, "small") ? join(*state, 0) : join("unix", 4096);
    CLIENT *stub = stub_of(joint->client);
    static struct rpc_call calls[ROUNDS];
    static copy_out_result results[ROUNDS];
    char *bytes = malloc(BIG);
    atomic_store(&big_replies, 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        copy_out_args out = { .from = i, .size = BIG };
        memset(&results[i], 0, sizeof results[i]);
        calls[i] = (struct rpc_call){ .procedure = FLYT_COPY_OUT, .encode = (xdrproc_t)xdr_copy_out_args, .args = &out,
            .decode = (xdrproc_t)xdr_copy_out_result, .result = &results[i], .done = count_reply };
        assert_int_equal(rpc_client_submit(joint->client, &calls[i]), RPC_SUCCESS);
        test_pattern(i, bytes, BIG);
        copy_in_args in = { .to = i, .data = { .kind = FLYT_BULK_INLINE } };
        in.data.flyt_bulk_u.bytes.bytes_val = bytes;
        in.data.flyt_bulk_u.bytes.bytes_len = BIG;
        assert_int_equal(flyt_copy_in_1(&in, NULL, stub), RPC_SUCCESS);
    }
    context_args asked = { 0 };
    memory_info_result info = { 0 };
    assert_int_equal(flyt_memory_info_1(&asked, &info, stub), RPC_SUCCESS);
    assert_int_equal(atomic_load(&big_replies), ROUNDS);
    assert_int_equal(atomic_load(&joint->service->disorder), 0);
    free(bytes);
    part(joint);
}

TEST_ON(many_threads_both_full, EVERYWHERE)
{
    const char *kind = *state;
    struct joint *joint = join(kind, strcmp(kind, "unix") == 0 ? 4096 : 0);
    add_helper(joint);
    run_threads(joint, pump, 12);
}

int main(void) { return unit_run(NULL, NULL); }
