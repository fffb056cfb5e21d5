/*
 * The gate of the front ends' entries (api_gate.h), alone: which threads wait, pass or are named, and what ends of
 * threads and forks leave behind. Each test in a process of its own.
 *
 * shows: the gate: while it is shut no thread is inside, with membarrier and without; a thread that does not come
 *   out is named with its call and its stream, and the gate opens again
 * shows: the gate: threads that end inside a call, are cancelled, or are not in the child of a fork hold nobody up
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cpu/client/core/wire/gate.h"
#include "cpu/common/clock.h"
#include "tests/lib/unit.h"
#include "isolated.h"

#define LONG_NS (20 * CLOCK_NS_PER_SECOND)

static struct core_gate_inside who;

static void await(atomic_int *what, int value)
{
    while (atomic_load(what) != value)
        sched_yield();
}

static bool shut(void) { return atomic_load(&core_gate_state) & CORE_GATE_SHUT; }

/* ---- a thread inside ---- */

static atomic_int step;

static void *holds(void *unused)
{
    (void)unused;
    CORE_GATE("holds");
    gate_note_stream(77);
    atomic_store(&step, (int)gettid());
    while (atomic_load(&step) != -1)
        sched_yield();
    return NULL;
}

static void body_named(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, holds, NULL) == 0);
    while (!atomic_load(&step))
        sched_yield();
    uint64_t begun = clock_now();
    CHECK(core_gate_close(30 * CLOCK_NS_PER_MS, &who) == CORE_NOT_READY);
    CHECK(clock_now() - begun >= 30 * CLOCK_NS_PER_MS);
    CHECK(who.thread == atomic_load(&step) && who.stream == 77 && strcmp(who.call, "holds") == 0 && !shut());
    { CORE_GATE("passes"); }
    atomic_store(&step, -1);
    CHECK(core_gate_close(LONG_NS, &who) == 0 && shut() && core_gate_close(LONG_NS, &who) == CORE_SYSTEM_NOT_READY);
    CHECK(shut());
    core_gate_open();
    pthread_join(thread, NULL);
    CORE_GATE("myself");
    CHECK(core_gate_close(LONG_NS, &who) == CORE_INVALID_VALUE && who.thread == gettid());
}

/* ---- a callback of the program calls again ---- */

static void *calls_again(void *unused)
{
    (void)unused;
    CORE_GATE("outer");
    atomic_store(&step, 1);
    while (!shut())
        sched_yield();
    {
        CORE_GATE("inner");
    }
    CHECK(strcmp(atomic_load(&core_gate_own.in), "outer") == 0);
    return NULL;
}

static void *core_thread(void *unused)
{
    (void)unused;
    gate_pass();
    while (!shut())
        sched_yield();
    {
        CORE_GATE("of the core");
        atomic_store(&step, 2);
    }
    return NULL;
}

static void *passes_once(void *ended)
{
    {
        CORE_GATE("once");
    }
    atomic_store((atomic_int *)ended, 1);
    return NULL;
}

static void body_passes(void)
{
    static atomic_int ended;
    pthread_t thread[3];
    CHECK(pthread_create(&thread[0], NULL, calls_again, NULL) == 0);
    await(&step, 1);
    CHECK(pthread_create(&thread[1], NULL, core_thread, NULL) == 0);
    CHECK(core_gate_close(LONG_NS, &who) == 0);     /* the first one comes out, though it called again */
    await(&step, 2);
    CHECK(pthread_create(&thread[2], NULL, passes_once, &ended) == 0);
    while (core_gate_waiting() != 1)
        sched_yield();
    CHECK(!atomic_load(&ended));
    core_gate_open();
    await(&ended, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
}

/* ---- nobody is inside while it is shut ---- */

enum { BUSY = 64 };
static atomic_bool resting, over;
static struct { _Alignas(64) uint64_t calls; } state_of[BUSY];
static int busy_threads;

static void *is_busy(void *mine)
{
    uint64_t *calls = mine;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        CORE_GATE("is_busy");
        CHECK(!atomic_load_explicit(&resting, memory_order_relaxed));
        ++*calls;                             /* read by the other side without a lock, while the gate is shut */
    }
    return NULL;
}

static uint64_t all_calls(void)
{
    uint64_t sum = 0;
    for (int i = 0; i < busy_threads; i++)
        sum += state_of[i].calls;
    return sum;
}

static void busy_program(int threads, bool fenced)
{
    pthread_t thread[BUSY];
    uint64_t slowest = 0, before = 0;
    if (fenced)
        atomic_fetch_or(&core_gate_state, CORE_GATE_FENCED);
    busy_threads = threads;
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&thread[i], NULL, is_busy, &state_of[i].calls) == 0);
    gate_prepare();
    for (int i = 0; i < (threads == BUSY ? 5 : 20); i++) {
        uint64_t begun = clock_now();
        CHECK(core_gate_close(LONG_NS, &who) == 0);
        uint64_t took = clock_now() - begun, sum = all_calls();
        slowest = took > slowest ? took : slowest;
        atomic_store_explicit(&resting, true, memory_order_relaxed);
        for (int look = 0; look < 3; look++) {
            sched_yield();
            CHECK(all_calls() == sum);
        }
        atomic_store_explicit(&resting, false, memory_order_relaxed);
        core_gate_open();
        if (i % 10 == 9) {                    /* and they go on */
            while (!core_gate_close(LONG_NS, &who) && all_calls() == before)
                core_gate_open();
            before = all_calls();
            core_gate_open();
        }
    }
    atomic_store(&over, true);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("# %d threads%s: at rest after %.2f ms at most\n", threads, fenced ? ", fenced" : "", (double)slowest / 1e6);
}

static void body_busy(void) { busy_program(4, false); }
static void body_busy_fenced(void) { busy_program(4, true); }
static void body_busy_many(void) { busy_program(BUSY, false); }

/* The thread's store to its place may still be on its way when it reads that the gate is open. */
static void *looks_twice(void *unused)
{
    (void)unused;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        CORE_GATE("looks_twice");
        for (int i = 0; i < 30; i++) {
            CHECK(!atomic_load_explicit(&resting, memory_order_relaxed));
            __builtin_ia32_pause();
        }
    }
    return NULL;
}

static void body_order(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, looks_twice, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        CHECK(core_gate_close(LONG_NS, &who) == 0);
        atomic_store_explicit(&resting, true, memory_order_relaxed);
        for (int look = 0; look < 100; look++)
            __builtin_ia32_pause();
        atomic_store_explicit(&resting, false, memory_order_relaxed);
        core_gate_open();
        for (int look = 0; look < 200 + i % 1000; look++)
            __builtin_ia32_pause();
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

/* ---- ends ---- */

static void *ends_inside(void *unused)
{
    (void)unused;
    CORE_GATE("ends_inside");
    pthread_exit(NULL);
}

static void *is_cancelled(void *unused)
{
    (void)unused;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    CORE_GATE("is_cancelled");
    atomic_store(&step, 1);
    for (;;)
        ;
    return NULL;
}

static pthread_key_t late;

static void calls_late(void *again)
{
    CORE_GATE("calls_late");
    if (again == &step)
        pthread_setspecific(late, &late);     /* and once more, after the core's own destructor */
}

static void *ends_calling(void *unused)
{
    (void)unused;
    CORE_GATE("ends_calling");
    pthread_setspecific(late, &step);
    return NULL;
}

static void body_ends(void)
{
    pthread_t thread;
    CHECK(pthread_key_create(&late, calls_late) == 0);
    for (int i = 0; i < 50; i++) {
        atomic_store(&step, 0);
        CHECK(pthread_create(&thread, NULL, i % 3 == 0 ? ends_inside : i % 3 == 1 ? ends_calling : is_cancelled,
                             NULL) == 0);
        if (i % 3 == 2) {
            await(&step, 1);
            CHECK(core_gate_close(CLOCK_NS_PER_MS, &who) == CORE_NOT_READY);
            pthread_cancel(thread);
        }
        pthread_join(thread, NULL);
        CHECK(core_gate_close(LONG_NS, &who) == 0);
        core_gate_open();
    }
}

#ifdef __SANITIZE_THREAD__
/* The child has no thread that it could join. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "atexit_sleep_ms=50:report_thread_leaks=0"; }
#endif

/* The thread that is inside is not in the child, nor is who shut the gate. */
static void body_fork_(void)
{
    pthread_t thread;
    int status;
    CHECK(pthread_create(&thread, NULL, holds, NULL) == 0);
    while (!atomic_load(&step))
        sched_yield();
    for (int round = 0; round < 2; round++) {
        if (round) {
            atomic_store(&step, -1);
            CHECK(core_gate_close(LONG_NS, &who) == 0);
        }
        pid_t child = fork();
        if (!child) {
            { CORE_GATE("in the child"); }
            CHECK(core_gate_close(LONG_NS, &who) == 0);
            core_gate_open();
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        CHECK(!!round == shut());
    }
    core_gate_open();
    pthread_join(thread, NULL);
}

TEST(named) { assert_int_equal(isolated(body_named, 60), 0); }
TEST(passes) { assert_int_equal(isolated(body_passes, 60), 0); }
TEST(busy) { assert_int_equal(isolated(body_busy, 60), 0); }
TEST(busy_fenced) { assert_int_equal(isolated(body_busy_fenced, 60), 0); }
TEST(busy_many) { assert_int_equal(isolated(body_busy_many, 60), 0); }
TEST(order) { assert_int_equal(isolated(body_order, 60), 0); }
TEST(ends) { assert_int_equal(isolated(body_ends, 60), 0); }
TEST(fork_) { assert_int_equal(isolated(body_fork_, 60), 0); }

int main(void) { return unit_run(NULL, NULL); }
