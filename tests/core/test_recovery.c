/*
 * Recovery (docs/elastic.md): programs whose GPU server is killed while they run, with real servers and the software
 * GPU. Either the program goes on, and every value is what it would have been, or it gets 46. Arguments: unix or tcp,
 * and the path of cricket-rpc-server; and `long`, for the test that takes minutes alone. Each test in a process of its
 * own.
 *
 * shows: recovery: a program goes on after its worker or its GPU server was killed, with the same handles, addresses
 *   and values, also if that happens again and again, with threads inside calls, and after it has waited for minutes
 *   for one answer
 * shows: recovery: host functions run once each, in their turn
 * shows: recovery: the end of an array waits for no host function that it did not wait for before
 * shows: recovery: a program that was given a value that does not come out the same, one that has used something that
 *   cannot be repeated, and one whose journal is full, get error 46 after the loss; so does one that makes each of six
 *   servers end
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/driver/types.h"
#include "api/forward/core.h"
#include "cpu/common/clock.h"
#include "tests/core/kernels.h"
#include "tests/lib/dice.h"
#include "tests/lib/unit.h"
#include "program.h"
#include "two_servers.h"

/* print(n): says "hello n". fill(address, count, value). count_up(out): adds 1 to a variable, and stores it at out.
   add(address, count, value). clock(out): stores the time. slow(address, turns): takes long, and adds 1 then. */
const char program_code[] =
    KERNELS_BEGIN KERNEL_FILL KERNEL_COUNT_UP
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".global .align 1 .b8 text[10] = {104, 101, 108, 108, 111, 32, 37, 100, 10, 0};\n"
    ".visible .entry print(.param .u32 n) {\n"
    "  .local .align 8 .b8 args[8]; .reg .u64 %d<5>; .reg .u32 %i<3>; .reg .pred %p;\n"
    "  mov.u32 %i1, %tid.x; setp.ne.u32 %p, %i1, 0; @%p ret;\n"
    "  mov.u64 %d1, args; cvta.local.u64 %d2, %d1; ld.param.u32 %i1, [n]; st.local.u32 [%d1], %i1;\n"
    "  mov.u64 %d3, text; cvta.global.u64 %d4, %d3;\n"
    "  { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %d4; st.param.b64 [a], %d2;\n"
    "  call.uni (r), vprintf, (f, a); ld.param.b32 %i2, [r]; }\n  ret;\n}\n"
    ".visible .entry add(.param .u64 a, .param .u32 n, .param .u32 v) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n"
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; ld.param.u32 %i2, [v]; mov.u32 %i3, %tid.x;\n"
    "L: setp.ge.u32 %p, %i3, %i1; @%p ret;\n"
    "  mad.wide.u32 %a2, %i3, 4, %a1; ld.global.u32 %i4, [%a2]; add.u32 %i4, %i4, %i2; st.global.u32 [%a2], %i4;\n"
    "  add.u32 %i3, %i3, 32; bra L;\n}\n"
    ".visible .entry clock(.param .u64 a) {\n"
    "  .reg .u64 %a<4>;\n"
    "  ld.param.u64 %a1, [a]; mov.u64 %a2, %globaltimer; st.global.u64 [%a1], %a2; ret;\n}\n"
    ".visible .entry slow(.param .u64 a, .param .u32 n) {\n"
    "  .reg .u64 %a<4>; .reg .u32 %i<6>; .reg .pred %p;\n"
    "  ld.param.u64 %a1, [a]; ld.param.u32 %i1, [n]; mov.u32 %i3, %tid.x; setp.ne.u32 %p, %i3, 0; @%p ret;\n"
    "L: sub.u32 %i1, %i1, 1; setp.ne.u32 %p, %i1, 0; @%p bra L;\n"
    "  ld.global.u32 %i2, [%a1]; add.u32 %i2, %i2, 1; st.global.u32 [%a1], %i2; ret;\n}\n";

/* ---- the blows ---- */

static unsigned kill_workers(void) { return two_servers_signal_workers(SIGKILL); }

static void pause_ms(unsigned ms) { nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL); }

/* ---- what the programs do ---- */

static core_context *begin(const char *recovery)
{
    setenv("FLYT_RECOVERY", recovery, 1);
    core_context *c = on(0);
    CHECK(c && core_image_add(program_code, &image) == 0);
    return c;
}

/* The workers that wait for a session are stopped, so one of them has been given the connection when they end. */
static void body_given_a_dying_worker(void)
{
    CHECK(two_servers_signal_workers(SIGSTOP) > 0);
    if (fork() == 0) {
        pause_ms(150);
        kill_workers();
        _exit(0);
    }
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096);
    CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0 && word_at(c, out) == 1);
    wait(NULL);
    CHECK(two_servers_signal_workers(0) > 0);
}

/* A variable counts the launches of the whole life; memory keeps what was copied in. */
static void body_worker_killed(void)
{
    enum { SIZE = 3 * 1024 * 1024 + 44 };
    static unsigned char data[SIZE], got[SIZE];
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096), big = allocate(c, SIZE);
    uint64_t chance = 7;
    for (unsigned i = 0; i < SIZE; i++)
        data[i] = (unsigned char)dice(&chance, 256);
    CHECK(copy_in(c, 0, big, data, SIZE, true) == 0);
    for (uint32_t i = 1; i <= 60; i++) {
        CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0);
        if (i % 15 == 0)
            CHECK(kill_workers() > 0);
        CHECK(word_at(c, out) == i);
    }
    CHECK(copy_out(c, 0, got, big, SIZE, true) == 0 && memcmp(got, data, SIZE) == 0);
    uint64_t late = allocate(c, 64 * MIB);
    uint32_t count = 1000, value = 4711;
    CHECK(launch(c, 0, "fill", (void *[]){ &late, &count, &value }) == 0 && word_at(c, late + 3996) == 4711);
}

/* A kernel runs, and a thread waits for it. */
static void body_inside_a_call(void)
{
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096);
    uint32_t zero = 0, turns = 3000000;
    CHECK(copy_in(c, 0, out, &zero, sizeof zero, true) == 0);
    for (uint32_t i = 1; i <= 3; i++) {
        CHECK(launch(c, 0, "slow", (void *[]){ &out, &turns }) == 0);
        if (fork() == 0) {
            pause_ms(30);
            kill_workers();
            _exit(0);
        }
        CHECK(word_at(c, out) == i);
        wait(NULL);
    }
}

/* What one stream did was found complete by asking; another stream relies on it, without any order between the two. */
static void body_queries(void)
{
    core_context *c = begin("journal");
    core_stream a, b;
    uint64_t memory = allocate(c, 4096), copy = allocate(c, 4096);
    uint32_t zero = 0, turns = 200000;
    CHECK(core_stream_create(c, 1, 0, &a) == 0 && core_stream_create(c, 1, 0, &b) == 0);
    CHECK(copy_in(c, 0, memory, &zero, sizeof zero, true) == 0);
    for (uint32_t i = 1; i <= 12; i++) {
        CHECK(launch(c, a, "slow", (void *[]){ &memory, &turns }) == 0);
        int code;
        while ((code = core_stream_query(c, a)) == CORE_NOT_READY)
            pause_ms(1);
        CHECK(code == 0 && copy_on_device(c, b, copy, memory, 4, false) == 0);
        if (i % 4 == 0)
            kill_workers();
        CHECK(core_stream_synchronize(c, b) == 0 && word_at(c, copy) == i);
    }
}

/* Streams that come when the program is not protected any more: they hear of the new server, not of the words that the
   lost one wrote. The new stream has the id of the old one, and as many calls. */
static void body_unprotected_later(void)
{
    enum { CALLS = 12 };
    static char data[512 * 1024];
    core_context *c = begin("journal:1M");
    core_stream first, second, other;
    uint64_t out = allocate(c, 4096), room = allocate(c, sizeof data);
    uint32_t zero = 0, turns = 30000000, got = 7;
    CHECK(copy_in(c, 0, out, &zero, sizeof zero, true) == 0);
    CHECK(core_stream_create(c, 1, 0, &first) == 0 && core_stream_create(c, 1, 0, &other) == 0);
    for (unsigned i = 0; i < CALLS; i++)
        CHECK(launch(c, first, "count_up", (void *[]){ &room }) == 0);
    CHECK(core_stream_synchronize(c, first) == 0 && kill_workers() > 0 && word_at(c, room) == CALLS);
    CHECK(core_stream_destroy(first) == 0 && core_context_synchronize(c) == 0);
    for (unsigned i = 0; i < 4; i++)
        CHECK(copy_in(c, 0, room, data, sizeof data, true) == 0);
    CHECK(core_stream_create(c, 1, 0, &second) == 0);
    CHECK(launch(c, second, "slow", (void *[]){ &out, &turns }) == 0);
    for (unsigned i = 1; i < CALLS; i++)
        CHECK(launch(c, second, "count_up", (void *[]){ &room }) == 0);
    int code;
    while ((code = core_stream_query(c, second)) == CORE_NOT_READY)
        pause_ms(1);
    CHECK(code == 0);
    CHECK(copy_out(c, other, &got, out, sizeof got, true) == 0 && got == 1);
}

/* Each runs once, in its turn, although the server is killed before, while and after it runs. */
enum { FUNCTIONS = 24 };
static atomic_uint functions_run;
static uint32_t order[FUNCTIONS];

static void note_order(void *user, int status)
{
    uint32_t number = (uint32_t)(uintptr_t)user, at = atomic_fetch_add(&functions_run, 1);
    if (status == 0 && at < FUNCTIONS)
        order[at] = number;
    if (number % 8 == 7)
        kill_workers();
    if (number % 4 == 3)
        pause_ms(20);
}

static void body_host_functions(void)
{
    core_context *c = begin("journal");
    core_stream stream;
    uint64_t out = allocate(c, 4096);
    CHECK(core_stream_create(c, 1, 0, &stream) == 0);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        CHECK(launch(c, stream, "count_up", (void *[]){ &out }) == 0);
        CHECK(core_host_function(c, stream, note_order, (void *)(uintptr_t)i, false) == 0);
        if (i % 6 == 5) {
            kill_workers();
            CHECK(core_stream_synchronize(c, stream) == 0 && atomic_load(&functions_run) == i + 1);
        }
    }
    CHECK(core_stream_synchronize(c, stream) == 0 && word_at(c, out) == FUNCTIONS);
    CHECK(atomic_load(&functions_run) == FUNCTIONS);
    for (uint32_t i = 0; i < FUNCTIONS; i++)
        CHECK(order[i] == i);
}

/* An array ends, for which everything is waited for that streams have been given until then. Just after that a host
   function is due that ends only when the array has ended. At the new server, too, the array must not wait for it. */
static atomic_bool array_ended, may_go_on;

static void *end_array(void *array)
{
    CHECK(core_array_destroy(on(0), *(core_array *)array) == 0);
    atomic_store(&array_ended, true);
    return NULL;
}

static void wait_to_go_on(void *unused, int status)
{
    (void)unused, (void)status;
    while (!atomic_load(&may_go_on))
        pause_ms(1);
}

static void body_ended_beside(void)
{
    enum { ROUNDS = 8, LOOKS = 400 };
    core_context *c = begin("journal");
    core_stream busy, held;
    uint64_t out = allocate(c, 4096);
    uint32_t zero = 0, turns = 1000000;
    CHECK(copy_in(c, 0, out, &zero, sizeof zero, true) == 0);
    CHECK(core_stream_create(c, 1, 0, &busy) == 0 && core_stream_create(c, 1, 0, &held) == 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        core_array array;
        atomic_store(&array_ended, false);
        atomic_store(&may_go_on, false);
        CHECK(core_array_create(c, &(struct core_array_shape){ 8, 0, 0, 3, 1, 0, 4 }, &array) == 0);
        CHECK(launch(c, busy, "slow", (void *[]){ &out, &turns }) == 0);
        CHECK(pthread_create(&thread, NULL, end_array, &array) == 0);
        pause_ms(3);
        CHECK(core_host_function(c, held, wait_to_go_on, NULL, false) == 0);
        for (unsigned look = 0; look < LOOKS && !atomic_load(&array_ended); look++)
            pause_ms(2);
        atomic_store(&may_go_on, true);
        CHECK(pthread_join(thread, NULL) == 0 && core_stream_synchronize(c, held) == 0);
    }
    CHECK(kill_workers() > 0 && word_at(c, out) == ROUNDS);
}

/* What was printed comes once, whether the program had it before the loss, or its call had no answer, or nobody had
   asked for it. */
enum { PRINTED = 12 };

static void body_printed(void)
{
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096);
    uint32_t zero = 0, turns = 1000000;
    CHECK(copy_in(c, 0, out, &zero, sizeof zero, true) == 0);
    for (uint32_t i = 0; i < PRINTED; i++) {
        CHECK(launch(c, 0, "print", (void *[]){ &i }) == 0);
        if (i % 4 == 1)
            CHECK(launch(c, 0, "slow", (void *[]){ &out, &turns }) == 0);
        if (i % 4 < 3)
            CHECK(core_stream_synchronize(c, 0) == 0);
        if (i % 4 != 1)
            CHECK(kill_workers() > 0);
        if (i % 4 == 0 && fork() == 0) {
            pause_ms(20);
            kill_workers();
            _exit(0);
        }
    }
    CHECK(core_context_synchronize(c) == 0 && word_at(c, out) == PRINTED / 4);
    while (wait(NULL) > 0)
        ;
}

TEST(printed)
{
    static char output[65536];
    assert_int_equal(isolated_output(body_printed, 60, output, sizeof output), 0);
    const char *at = output;
    for (unsigned i = 0; i < PRINTED; i++) {
        char line[32];
        snprintf(line, sizeof line, "hello %u\n", i);
        at = strstr(at, line);
        assert_non_null(at);
        at += strlen(line);
    }
    assert_null(strstr(at, "hello"));
}

/* ---- several threads, at any moment ---- */

enum { THREADS = 4, WORDS = 4096 };
static atomic_bool over;
static atomic_uint blows, steps;

/* Not again before the program has gone on. */
static void *strike(void *seed)
{
    uint64_t chance = *(const uint64_t *)seed;
    for (unsigned before = 0; !atomic_load(&over);) {
        pause_ms(dice(&chance, 100));
        if (atomic_load(&steps) == before)
            continue;
        before = atomic_load(&steps);
        atomic_fetch_add(&blows, kill_workers() > 0);
    }
    return NULL;
}

struct worker {
    core_context *context;
    uint64_t seed;
    unsigned steps;
};

/* What a thread's memory has is known here without asking. */
static void *work(void *context)
{
    const struct worker *w = context;
    uint64_t chance = w->seed;
    core_context *c = w->context;
    uint32_t *model = calloc(WORDS, sizeof *model), *got = calloc(WORDS, sizeof *got);
    uint64_t memory = allocate(c, WORDS * sizeof *model);
    core_stream stream;
    CHECK(core_stream_create(c, 1, 0, &stream) == 0);
    CHECK(copy_in(c, stream, memory, model, WORDS * sizeof *model, true) == 0);
    for (unsigned step = 0; step < w->steps; step++) {
        uint32_t count = 1 + dice(&chance, WORDS), value = dice(&chance, UINT32_MAX);
        switch (dice(&chance, 6)) {
        case 0:
            CHECK(launch(c, stream, "fill", (void *[]){ &memory, &count, &value }) == 0);
            for (uint32_t i = 0; i < count; i++)
                model[i] = value;
            break;
        case 1:
        case 2:
            CHECK(launch(c, stream, "add", (void *[]){ &memory, &count, &value }) == 0);
            for (uint32_t i = 0; i < count; i++)
                model[i] += value;
            break;
        case 3:
            for (uint32_t i = 0; i < count; i++)
                model[i] = dice(&chance, UINT32_MAX);
            CHECK(copy_in(c, stream, memory, model, count * sizeof *model, true) == 0);
            break;
        case 4: { /* memory comes and goes */
            uint64_t other = allocate(c, WORDS * sizeof *model);
            CHECK(copy_on_device(c, stream, other, memory, WORDS * sizeof *model, false) == 0);
            CHECK(core_stream_synchronize(c, stream) == 0 && core_memory_free(memory) == 0);
            memory = other;
            break;
        }
        default:
            CHECK(copy_out(c, stream, got, memory, WORDS * sizeof *model, true) == 0);
            CHECK(memcmp(got, model, WORDS * sizeof *model) == 0);
        }
        atomic_fetch_add(&steps, 1);
    }
    CHECK(copy_out(c, stream, got, memory, WORDS * sizeof *model, true) == 0);
    CHECK(memcmp(got, model, WORDS * sizeof *model) == 0);
    free(model);
    free(got);
    return NULL;
}

static void body_threads(void)
{
    const char *seed_text = getenv("FLYT_TEST_SEED");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 1;
    core_context *c = begin("journal");
    struct worker workers[THREADS];
    pthread_t threads[THREADS], striker;
    CHECK(pthread_create(&striker, NULL, strike, &seed) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ c, seed * THREADS + i, 300 };
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&over, true);
    pthread_join(striker, NULL);
    fprintf(stderr, "seed %llu: %u blows\n", (unsigned long long)seed, atomic_load(&blows));
    CHECK(atomic_load(&blows) > 0);
}

/* ---- the server itself ---- */

static void body_server_killed(void)
{
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096);
    for (uint32_t i = 1; i <= 20; i++) {
        CHECK(launch(c, 0, "count_up", (void *[]){ &out }) == 0);
        if (i == 10) {
            kill_workers();
            kill(servers[0], SIGKILL);
            unsigned tries = 0; /* workers that are about to end may have the port for a moment */
            while (two_servers_again() && tries++ < 50)
                pause_ms(100);
        }
        CHECK(word_at(c, out) == i);
    }
    kill(servers[0], SIGTERM); /* a child of this process */
    waitpid(servers[0], NULL, 0);
}

/* Only with the argument `long`: the program has waited for one answer for longer than a minute. */
static void body_long_answer(void)
{
    const uint64_t shortest = 60 * CLOCK_NS_PER_SECOND, wanted = 80 * CLOCK_NS_PER_SECOND;
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096), fastest = UINT64_MAX, begun;
    uint32_t zero = 0, turns = 20000000, launches = 0;
    CHECK(copy_in(c, 0, out, &zero, sizeof zero, true) == 0);
    for (; launches < 3; launches++) {
        begun = clock_now();
        CHECK(launch(c, 0, "slow", (void *[]){ &out, &turns }) == 0 && core_stream_synchronize(c, 0) == 0);
        fastest = clock_now() - begun < fastest ? clock_now() - begun : fastest;
    }
    for (uint64_t more = wanted / fastest; more; more--, launches++)
        CHECK(launch(c, 0, "slow", (void *[]){ &out, &turns }) == 0);
    begun = clock_now();
    CHECK(core_stream_synchronize(c, 0) == 0 && clock_now() - begun > shortest);
    CHECK(kill_workers() > 0 && word_at(c, out) == launches);
}

/* ---- what is not recovered ---- */

static atomic_bool lost_for_good;

/* Each server ends while the kernel runs, and only then: this thread has an answer of it before. */
static void *end_each_server(void *context)
{
    core_context *c = context;
    core_stream other;
    uint64_t out = allocate(c, 4096);
    CHECK(core_stream_create(c, 1, 0, &other) == 0);
    while (launch(c, other, "count_up", (void *[]){ &out }) == 0 && core_stream_synchronize(c, other) == 0) {
        atomic_fetch_add(&blows, 1);
        kill_workers();
    }
    atomic_store(&lost_for_good, true);
    return NULL;
}

static void body_no_further(void)
{
    enum { SERVERS = 6 };
    core_context *c = begin("journal");
    pthread_t thread;
    uint64_t out = allocate(c, 4096);
    uint32_t turns = UINT32_MAX;
    CHECK(launch(c, 0, "slow", (void *[]){ &out, &turns }) == 0);
    CHECK(pthread_create(&thread, NULL, end_each_server, c) == 0);
    CHECK(core_stream_synchronize(c, 0) == CORE_DEVICE_UNAVAILABLE);
    pthread_join(thread, NULL);
    CHECK(atomic_load(&lost_for_good) && atomic_load(&blows) >= 2 && atomic_load(&blows) <= SERVERS);
}

static void body_other_values(void)
{
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096), time = 0;
    CHECK(launch(c, 0, "clock", (void *[]){ &out }) == 0 && copy_out(c, 0, &time, out, sizeof time, true) == 0 && time);
    kill_workers();
    CHECK(copy_out(c, 0, &time, out, sizeof time, true) == CORE_DEVICE_UNAVAILABLE);
    CHECK(core_memory_allocate(c, 4096, &out) == CORE_DEVICE_UNAVAILABLE);
}

/* Nobody has seen the time. */
static void body_unseen_values(void)
{
    core_context *c = begin("journal");
    uint64_t out = allocate(c, 4096), time = 0;
    CHECK(launch(c, 0, "clock", (void *[]){ &out }) == 0 && core_context_synchronize(c) == 0);
    kill_workers();
    CHECK(copy_out(c, 0, &time, out, sizeof time, true) == 0 && time);
}

static void body_pinned_memory(void)
{
    core_context *c = begin("journal");
    void *pinned;
    uint64_t out = allocate(c, 4096);
    CHECK(core_host_allocate(4096, 0, &pinned) == 0);
    kill_workers();
    uint32_t word;
    /* over a network kernels reach it when they need it: none has */
    int expected = strcmp(servers_kind, "tcp") == 0 ? CORE_OK : CORE_DEVICE_UNAVAILABLE;
    CHECK(copy_out(c, 0, &word, out, sizeof word, true) == expected);
}

static void body_full_journal(void)
{
    core_context *c = begin("journal:1M");
    static char data[512 * 1024];
    uint64_t out = allocate(c, sizeof data);
    for (unsigned i = 0; i < 4; i++)
        CHECK(copy_in(c, 0, out, data, sizeof data, true) == 0);
    kill_workers();
    CHECK(copy_out(c, 0, data, out, sizeof data, true) == CORE_DEVICE_UNAVAILABLE);
}

static void body_off(void)
{
    core_context *c = begin("off");
    uint64_t out = allocate(c, 4096);
    kill_workers();
    uint32_t word;
    CHECK(copy_out(c, 0, &word, out, sizeof word, true) == CORE_DEVICE_UNAVAILABLE);
}

#define ISOLATED(name, limit) \
    TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(given_a_dying_worker, 60)
ISOLATED(worker_killed, 60)
ISOLATED(inside_a_call, 60)
ISOLATED(queries, 60)
ISOLATED(unprotected_later, 60)
ISOLATED(host_functions, 60)
ISOLATED(ended_beside, 60)
ISOLATED(threads, 120)
ISOLATED(no_further, 60)
ISOLATED(other_values, 60)
ISOLATED(unseen_values, 60)
ISOLATED(pinned_memory, 60)
ISOLATED(full_journal, 60)
ISOLATED(off, 60)
ISOLATED(server_killed, 60)
ISOLATED(long_answer, 580)

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[3], "long") == 0)
        setenv("FLYT_TEST_ONLY", "long_answer", 1);
    else
        cmocka_set_skip_filter("long_answer");
    return two_servers_run(argc, argv, " [long]");
}
