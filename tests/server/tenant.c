/*
 * tenant.c: several sessions of one tenant, spoken to by hand on the null device: the limit over all of them, recall
 * from who does not use it, and clients that lie, never answer, or are killed.
 *
 * shows: quota: clients that map without end, never answer a recall, answer nonsense or unmap what is not theirs harm
  *   nobody else
 */
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/server/tenant/tenant_accounts.h"
#include "cpu/server/tenant/tenant_shared.h"
#include "tests/server/ledger.h"


static int begin(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    ledger_begin(f, "null");
    assert_int_equal(f->a.hello.devices.devices_val[0].total_memory, LIMIT);
    *state = f;
    return 0;
}

static int end(void **state)
{
    ledger_end(*state);
    free(*state);
    return 0;
}

static void recalled(struct peer *peer, unsigned number, uint64_t idle)
{
    recalled_args args = { number, idle };
    flyt_recalled_1(&args, NULL, peer->stub);
}

/* Free and total as a client is told. */
static uint64_t told_free(struct peer *peer)
{
    context_args args = { 0 };
    memory_info_result result = { 0 };
    assert_int_equal(flyt_memory_info_1(&args, &result, peer->stub), RPC_SUCCESS);
    assert_int_equal(result.head.result, 0);
    assert_int_equal(result.total, LIMIT);
    uint64_t bytes = result.free;
    xdr_free((xdrproc_t)xdr_memory_info_result, (char *)&result);
    return bytes;
}

/* Answers recalls of one client as told, until it has answered `answers` of them. */
struct answerer {
    struct peer *peer;
    uint64_t give, at, idle;
    int answers;
    uint64_t asked;
    pthread_t thread;
};

static void *answerer_main(void *context)
{
    struct answerer *a = context;
    for (int left = a->answers; left;) {
        events_args args = { 0 };
        events_result result = { 0 };
        if (flyt_events_1(&args, &result, a->peer->stub) != RPC_SUCCESS)
            return NULL;
        for (u_int i = 0; i < result.events.events_len; i++) {
            const flyt_event *event = &result.events.events_val[i];
            if (event->kind != FLYT_EVENT_RECALL)
                continue;
            a->asked = event->flyt_event_u.recall.bytes;
            if (a->give)
                unmap(a->peer, a->at, a->give);
            recalled(a->peer, event->flyt_event_u.recall.number, a->idle);
            rpc_client_flush(a->peer->client);
            left--;
        }
        xdr_free((xdrproc_t)xdr_events_result, (char *)&result);
    }
    return NULL;
}

static void answer(struct answerer *a) { assert_int_equal(pthread_create(&a->thread, NULL, answerer_main, a), 0); }
static void answered(struct answerer *a) { assert_int_equal(pthread_join(a->thread, NULL), 0); }

TEST_WITH(one_limit, begin, end)
{
    struct fixture *f = *state;
    /* What is welcome comes while there is plenty: an eighth stays. */
    assert_int_equal(map_least(&f->a, 0, 32 * MIB, 4 * MIB, false), 32 * MIB);
    assert_int_equal(map_least(&f->b, 0, 28 * MIB, 4 * MIB, false), 4 * MIB);
    assert_int_equal(held(f), 36 * MIB);
    assert_int_equal(map(&f->b, 4 * MIB, 30 * MIB), 0);
    assert_int_equal(map(&f->b, 4 * MIB, 28 * MIB), 28 * MIB);
    assert_int_equal(map(&f->b, 32 * MIB, PIECE), 0);
    assert_int_equal(held(f), LIMIT);
    /* part of it goes, by whole pieces, also of several MAPs at once */
    unmap(&f->b, 2 * MIB, 4 * MIB);
    assert_int_equal(peer_context_sync(&f->b), 0);
    assert_int_equal(f->b.last.latched, 0);
    assert_int_equal(held(f), LIMIT - 4 * MIB);
    assert_int_equal(map(&f->a, 32 * MIB, 4 * MIB), 4 * MIB);
    assert_int_equal(peer_context_reset(&f->a), 0);
    held_becomes(f, 28 * MIB);
}

TEST_WITH(recall_moves_credit, begin, end)
{
    struct fixture *f = *state;
    assert_int_equal(map(&f->a, 0, 40 * MIB), 40 * MIB);
    struct answerer giver = { .peer = &f->a, .give = 8 * MIB, .at = 32 * MIB, .idle = 0, .answers = 1 };
    answer(&giver);
    assert_int_equal(map_least(&f->b, 0, 32 * MIB, 32 * MIB, true), 32 * MIB);
    answered(&giver);
    assert_int_equal(giver.asked, 8 * MIB); /* what lacked */
    assert_int_equal(held(f), LIMIT);
    /* nobody has any: it fails as soon as all have said so, and not only after the 500 ms for those who say nothing */
    bool soon = false;
    for (int tries = 0; tries < 5 && !soon; tries++) { /* a busy machine may be late */
        giver = (struct answerer){ .peer = &f->a, .answers = 1 };
        answer(&giver);
        uint64_t start = clock_now();
        assert_int_equal(map_least(&f->b, 32 * MIB, PIECE, PIECE, true), 0);
        soon = clock_now() - start < 450 * CLOCK_NS_PER_MS;
        answered(&giver);
    }
    assert_true(soon);
    /* What is free is asked for as well: what a holds unused is free to b. */
    giver = (struct answerer){ .peer = &f->a, .idle = 20 * MIB, .answers = 1 };
    answer(&giver);
    assert_int_equal(told_free(&f->b), 20 * MIB);
    answered(&giver);
    assert_int_equal(giver.asked, 0);
}

TEST_WITH(the_deaf_and_the_liars, begin, end)
{
    struct fixture *f = *state;
    assert_int_equal(map(&f->a, 0, 60 * MIB), 60 * MIB);
    recalled(&f->a, 77, 60 * MIB); /* nobody asked */
    assert_int_equal(peer_context_sync(&f->a), 0);
    /* It does not answer: a little patience, and less each time. */
    uint64_t start = clock_now();
    assert_int_equal(map_least(&f->b, 0, 6 * MIB, 6 * MIB, true), 0);
    uint64_t first = clock_now() - start;
    assert_true(first > 400 * CLOCK_NS_PER_MS && first < 5 * CLOCK_NS_PER_SECOND);
    start = clock_now();
    for (int i = 0; i < 100; i++)
        assert_int_equal(map_least(&f->b, 0, 6 * MIB, 6 * MIB, true), 0);
    assert_true(clock_now() - start < 20 * CLOCK_NS_PER_SECOND);
    assert_true(told_free(&f->b) == 4 * MIB);
    /* It claims more than it has. */
    struct answerer liar = { .peer = &f->a, .idle = UINT64_MAX, .answers = 1 };
    answer(&liar);
    answered(&liar); /* what was asked while it was silent */
    assert_true(told_free(&f->b) <= LIMIT);
    /* Unmapping what is not there, or not all of a piece, is its own mistake. */
    static const uint64_t wrong[][2] = {
        { 60 * MIB, PIECE },         { MIB, PIECE }, { 0, MIB }, { 0, 62 * MIB }, { UINT64_MAX / 2, PIECE },
        { 0, UINT64_MAX - MIB + 1 }, { 0, 0 }
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        unmap(&f->a, wrong[i][0], wrong[i][1]);
        assert_int_equal(peer_context_sync(&f->a), 0);
        assert_int_equal(f->a.last.latched, 1);
    }
    assert_int_equal(held(f), 60 * MIB);
    assert_int_equal(map_least(&f->b, 0, 4 * MIB, 4 * MIB, true), 4 * MIB);
}

/* Many at once, none waited for: each is answered, and the other goes on meanwhile. */
TEST_WITH(mapping_without_end, begin, end)
{
    enum { CALLS = 400 };
    static map_args args[CALLS];
    static map_result results[CALLS];
    static struct rpc_call calls[CALLS];
    struct fixture *f = *state;
    assert_int_equal(map(&f->b, 0, 32 * MIB), 32 * MIB);
    memset(results, 0, sizeof results);
    memset(calls, 0, sizeof calls);
    for (int i = 0; i < CALLS; i++) {
        args[i] = (map_args){
            .address = f->a.base + (uint64_t)i * PIECE, .size = PIECE, .least = PIECE, .piece = PIECE, .recall = 1
        };
        calls[i] = (struct rpc_call){ .procedure = FLYT_MAP,
                                      .encode = (xdrproc_t)xdr_map_args,
                                      .args = &args[i],
                                      .decode = (xdrproc_t)xdr_map_result,
                                      .result = &results[i] };
        assert_int_equal(rpc_client_submit(f->a.client, &calls[i]), RPC_SUCCESS);
    }
    uint64_t start = clock_now();
    unmap(&f->b, 0, PIECE);
    assert_int_equal(peer_context_sync(&f->b), 0);
    assert_int_equal(f->b.last.latched, 0);
    assert_true(clock_now() - start < CLOCK_NS_PER_SECOND);
    int made = 0;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(rpc_client_wait(f->a.client, &calls[i]), RPC_SUCCESS);
        made += results[i].head.result == 0;
        assert_true(results[i].head.result == 0 || results[i].head.result == 2);
        xdr_free((xdrproc_t)xdr_map_result, (char *)&results[i]);
    }
    assert_true(made >= 16 && made <= 17);
    assert_int_equal(held(f), 30 * MIB + (uint64_t)made * PIECE);
    assert_true(clock_now() - start < 10 * CLOCK_NS_PER_SECOND);
}

/* A worker that is killed holds nothing, and is not waited for. */
TEST_WITH(killed, begin, end)
{
    struct fixture *f = *state;
    assert_int_equal(map(&f->a, 0, 60 * MIB), 60 * MIB);
    int64_t worker = 0;
    for (uint32_t i = 0; i < f->ledger->high; i++)
        if (f->ledger->slots[i].bytes == 60 * MIB)
            worker = f->ledger->slots[i].pid;
    assert_true(worker > 0);
    kill((pid_t)worker, SIGKILL);
    assert_int_equal(map_least(&f->b, 0, 40 * MIB, 40 * MIB, true), 40 * MIB);
    held_becomes(f, 40 * MIB);
}

/* Calls and errors of all workers, those that have ended included, as a reader without the lock finds them. */
static void figures_sum(const struct ledger *ledger, uint64_t *calls, uint64_t *errors)
{
    for (uint64_t before;;) {
        before = atomic_load(&ledger->folds);
        *calls = atomic_load(&ledger->ended.calls);
        *errors = atomic_load(&ledger->ended.errors);
        for (uint32_t i = 0; i < ledger->high; i++) {
            *calls += atomic_load(&ledger->figures[i].calls);
            *errors += atomic_load(&ledger->figures[i].errors);
        }
        if (before % 2 == 0 && before == atomic_load(&ledger->folds))
            return;
    }
}

/* Each call counts once, and what a worker that is killed has done stays. */
TEST_WITH(figures_never_fall, begin, end)
{
    enum { CALLS = 100, ERRORS = 3 };
    struct fixture *f = *state;
    uint64_t calls, errors, before, failed, until = clock_now() + 20 * CLOCK_NS_PER_SECOND;
    figures_sum(f->ledger, &before, &failed);
    for (int i = 0; i < CALLS; i++)
        told_free(&f->a);
    for (int i = 0; i < ERRORS; i++) {
        context_args args = { .context = 4711 };
        memory_info_result result = { 0 };
        assert_int_equal(flyt_memory_info_1(&args, &result, f->a.stub), RPC_SUCCESS);
        assert_int_not_equal(result.head.result, 0);
        xdr_free((xdrproc_t)xdr_memory_info_result, (char *)&result);
    }
    figures_sum(f->ledger, &calls, &errors);
    assert_int_equal(calls - before, CALLS + ERRORS);
    assert_int_equal(errors - failed, ERRORS);
    before = calls;
    int64_t worker = 0;
    for (uint32_t i = 0; i < f->ledger->high; i++)
        if (atomic_load(&f->ledger->figures[i].errors) >= ERRORS)
            worker = f->ledger->slots[i].pid;
    assert_true(worker > 0);
    uint64_t timed = 0;
    for (uint32_t i = 0; i < f->ledger->high; i++)
        for (int k = 0; k < LEDGER_TIMES; k++)
            timed += atomic_load(&f->ledger->figures[i].times[k]);
    assert_in_range(timed, CALLS / LEDGER_TIMED, CALLS);
    kill((pid_t)worker, SIGKILL);
    while (atomic_load(&f->ledger->ended.errors) < ERRORS) {
        figures_sum(f->ledger, &calls, &errors);
        assert_true(calls >= before && errors >= failed + ERRORS);
        assert_true(clock_now() < until);
    }
    figures_sum(f->ledger, &calls, &errors);
    assert_int_equal(calls, before);
}

/* The disk has room for all of it: a page without would be a SIGBUS in the middle of a program. */
TEST_WITH(ledger_is_allocated, begin, end)
{
    struct fixture *f = *state;
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_true((size_t)st.st_blocks * 512 >= sizeof *f->ledger);
}

/* A program that imports one piece of memory without end takes one row, not all rows of its VM. */
TEST(imports_share_a_row)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    assert_non_null(ledger);
    for (int i = 0; i < LEDGER_SHARED + 1; i++)
        assert_true(shared_add(ledger, 7, 0, 4096, 100));
    assert_true(shared_add(ledger, 7, 0, 4096, 200));
    assert_int_equal(ledger->shared_count, 2);
    assert_int_equal(shared_sum(ledger, LEDGER_ALL), 4096);
    for (int i = 0; i < LEDGER_SHARED + 1; i++)
        assert_true(shared_drop(ledger, 7, 100));
    assert_false(shared_drop(ledger, 7, 100));
    assert_true(shared_held(ledger, 7));
    assert_true(shared_drop(ledger, 7, 200));
    assert_false(shared_held(ledger, 7));
    free(ledger);
}

/* A server of one device has no rows; of several each has its own account, and the slot the sums. */
TEST(devices_have_accounts)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    assert_non_null(ledger);
    struct ledger_slot *a = &ledger->slots[0], *b = &ledger->slots[1];
    a->pid = 100;
    b->pid = 200;
    assert_true(account_add(ledger, a, 0, 8 * MIB, 4 * MIB));
    assert_true(ledger->account_high == 0 && account_devices(ledger) == 0);
    assert_true(account_add(ledger, a, 3, 2 * MIB, 2 * MIB) && account_add(ledger, b, 3, MIB, 0));
    assert_true(account_add(ledger, a, 3, MIB, 0) && account_devices(ledger) == 3);
    assert_true(a->bytes == 11 * MIB && a->credit == 6 * MIB && ledger->account_high == 2);
    assert_true(account_of(ledger, a, 0).bytes == 8 * MIB && account_of(ledger, a, 0).credit == 4 * MIB);
    assert_true(account_of(ledger, a, 3).bytes == 3 * MIB && account_of(ledger, a, 3).credit == 2 * MIB);
    assert_true(account_of(ledger, a, 1).bytes == 0 && account_of(ledger, a, LEDGER_ALL).bytes == 11 * MIB);
    assert_true(account_of(ledger, b, 0).bytes == 0 && account_of(ledger, b, 3).bytes == MIB);
    account_take(ledger, a, 3, 64 * MIB, 64 * MIB);     /* more than it has: nothing wraps */
    assert_true(account_of(ledger, a, 3).bytes == 0 && a->bytes == 0 && account_of(ledger, a, 0).bytes == 0);
    account_forget(ledger, 100);
    assert_true(account_of(ledger, b, 3).bytes == MIB && account_devices(ledger) == 3);
    /* All rows are taken: a charge is refused and changes nothing. */
    for (uint32_t i = 0; i < LEDGER_ACCOUNTS - 1; i++)
        assert_true(account_add(ledger, a, 1000 + i, 1, 0));
    const uint64_t before = a->bytes;
    assert_false(account_add(ledger, a, 5, MIB, MIB));
    assert_true(a->bytes == before && account_add(ledger, a, 0, MIB, 0));
    free(ledger);
}

int main(void) { return unit_run(NULL, NULL); }
