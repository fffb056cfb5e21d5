/*
 * Programs of four threads with objects of nearly all kinds move many times between two servers with the software GPU
 * (core_move, docs/moving.md): they compute the same as without. Arguments: unix, tcp or mixed (one of each), the path
 * of cricket-rpc-server, and for the random programs the first seed and how many; `lose`: only the programs that lose
 * their server. Each test in a process of its own.
 *
 * shows: moving: random programs of several threads with streams, events, graphs, pools, mapped handles, managed
 *   memory, arrays, textures, surfaces, pinned memory, modules and a heap compute the same while they move fifty times,
 *   or are suspended and resumed in between, between servers that are reached in the same way and in different ways,
 *   also with chaos; what they have set they read back
 * shows: recovery: such programs compute the same when their GPU server is killed twelve times, while checkpoints are
 *   made all the time and the journal begins with the last one
 * shows: moving: texture references stay bound; an event that a graph records has the time of the last record
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/core/moved_program.h"
#include "tests/core/moved_worker.h"
#include "tests/lib/unit.h"

static bool chaotic;

/* ---- random programs ---- */

enum { THREADS = 4, STEPS = 300, MOVES = 50, SUSPENDS_EACH = 7, LOSSES = 12, LIMIT_MS = 30000 };

static atomic_int moves_done, threads_left;
static atomic_uint steps;
static bool moving, striking;

static void *work(void *mine)
{
    struct worker *w = mine;
    worker_begin(w);
    for (int step = 0; step < STEPS; step++) {
        /* The other side cannot come too late. */
        const int all = moving ? MOVES : LOSSES;
        while ((moving || striking) && step >= STEPS * (1 + atomic_load(&moves_done)) / (all + 1)) {
            CUresult result = cuStreamQuery(w->stream);
            CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
            usleep(100);
        }
        worker_step(w);
        atomic_fetch_add(&steps, 1);
    }
    worker_end(w);
    atomic_fetch_sub(&threads_left, 1);
    return NULL;
}

static uint64_t program_seed, first_seed = 1, seeds = 1;

/* At any moment: while a checkpoint is written, and just after it. Not again before the program has gone on. */
static void strike(void)
{
    static unsigned before;
    if (atomic_load(&steps) < before + THREADS) {
        usleep(2000);
        return;
    }
    before = atomic_load(&steps);
    usleep((useconds_t)(program_seed * 7919 + (uint64_t)atomic_load(&moves_done) * 104729) % 400000);
    if (two_servers_signal_workers(SIGKILL) > 0)
        atomic_fetch_add(&moves_done, 1);
}

static void program(void)
{
    static struct worker workers[THREADS];
    worker_context = moved_begin();
    atomic_store(&threads_left, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = program_seed * 100 + (uint64_t)i;
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; moving && atomic_load(&threads_left) && i < MOVES; i++) {
        /* when it is suspended, with its own threads at the gate */
        moved_to((i + 1) % 2, i % SUSPENDS_EACH == SUSPENDS_EACH - 1, LIMIT_MS);
        atomic_fetch_add(&moves_done, 1);
    }
    while (striking && atomic_load(&threads_left) && atomic_load(&moves_done) < LOSSES)
        strike();
    uint64_t hash = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        hash = hash * 31 + workers[i].hash;
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0 && (!moving || atomic_load(&moves_done) == MOVES));
    printf("X%016llx\n", (unsigned long long)hash);
}

static void body_still(void) { program(); }

static void body_moving(void)
{
    moving = true;
    program();
}

static void body_losing(void)
{
    striking = true;
    program();
}

/* Programs that lose their server again and again, and have no more of a journal than since the last checkpoint, unless
   the environment wishes another recovery. */
TEST(random_losses)
{
    const char *wish = getenv("FLYT_RECOVERY");
    char recovery[64];
    snprintf(recovery, sizeof recovery, "%s", wish ? wish : "checkpoint:150ms");
    worker_is_lost = true;
    setenv("FLYT_PERF", "no_payload", 1);
    for (program_seed = first_seed; program_seed < first_seed + seeds; program_seed++) {
        static char still[2000], lost[65536];
        setenv("FLYT_RECOVERY", "off", 1);
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        setenv("FLYT_RECOVERY", recovery, 1);
        assert_int_equal(isolated_output(body_losing, 240, lost, sizeof lost), 0);
        char *hash = strrchr(lost, 'X'); /* behind what the log said */
        if (!hash || strcmp(still, hash))
            fprintf(stderr, "# seed %llu\n", (unsigned long long)program_seed);
        assert_non_null(hash);
        assert_string_equal(still, hash);
    }
}

TEST(random_programs)
{
    for (program_seed = first_seed; program_seed < first_seed + seeds; program_seed++) {
        char still[2000], moved[2000];
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        assert_int_equal(isolated_output(body_moving, 120, moved, sizeof moved), 0);
        if (strcmp(still, moved))
            fprintf(stderr, "# seed %llu%s\n", (unsigned long long)program_seed, chaotic ? ", with chaos" : "");
        assert_string_equal(still, moved);
    }
}

/* ---- events ---- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Between two moves there is no event with a time. */
static void body_times_end(void)
{
    CUevent event[2];
    float ms;
    moved_begin();
    for (int i = 0; i < 2; i++) {
        OK(cuEventCreate(&event[0], 0));
        OK(cuEventRecord(event[0], 0));
        moved_to(1, false, LIMIT_MS);
        OK(cuEventCreate(&event[1], 0));
        OK(cuEventRecord(event[1], 0));
        OK(cuEventSynchronize(event[1]));
        OK(cuEventElapsedTime(&ms, event[0], event[1]));
        CHECK(ms > 0);
        OK(cuEventDestroy_v2(event[0]));
        OK(cuEventDestroy_v2(event[1]));
        moved_to(0, false, LIMIT_MS);
    }
}

/* A graph that the server keeps records an event again after the move. */
static void body_graph_records(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node, set;
    CUevent event, later;
    CUdeviceptr at;
    float ms;
    CUcontext context = moved_begin();
    OK(cuMemAlloc_v2(&at, 4096));
    OK(cuEventCreate(&event, 0));
    OK(cuEventCreate(&later, 0));
    OK(cuGraphCreate(&graph, 0));
    const CUDA_MEMSET_NODE_PARAMS zero = { .dst = at, .elementSize = 4, .width = 16, .height = 1 };
    OK(cuGraphAddMemsetNode(&set, graph, NULL, 0, &zero, context));
    OK(cuGraphAddEventRecordNode(&node, graph, &set, 1, event));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 4; i++)
        OK(cuGraphLaunch(exec, 0));
    OK(cuCtxSynchronize());
    moved_to(1, false, LIMIT_MS);
    for (int i = 0; i < 4; i++) {
        usleep(50000);                        /* counts: the record before was so much earlier */
        double before = now_ms();
        OK(cuGraphLaunch(exec, 0));
        OK(cuEventRecord(later, 0));
        OK(cuEventSynchronize(later));
        double most = now_ms() - before + 1;
        OK(cuEventElapsedTime(&ms, event, later));
        if (ms > most)
            fprintf(stderr, "launch %d: %f ms, at most %f\n", i, (double)ms, most);
        CHECK(ms >= 0 && ms <= most);
    }
}

/* ---- texture references ---- */

/* bound(out): the words of a texture reference, by a block of 32 threads. */
static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n.global .texref words;\n"
    ".visible .entry bound(.param .u64 o) {\n"
    "  .reg .u64 %o, %a; .reg .u32 %x, %r<4>;\n"
    "  ld.param.u64 %o, [o]; mov.u32 %x, %tid.x; tex.1d.v4.u32.s32 {%r0, %r1, %r2, %r3}, [words, {%x}];\n"
    "  mad.wide.u32 %a, %x, 4, %o; st.global.u32 [%a], %r0; ret;\n}\n";

static void body_texrefs(void)
{
    enum { COUNT = 64 };
    CUmodule module;
    CUtexref words;
    CUfunction bound;
    CUdeviceptr data, out;
    uint32_t host[COUNT], got[32];
    moved_begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&bound, module, "bound"));
    OK(cuModuleGetTexRef(&words, module, "words"));
    OK(cuMemAlloc_v2(&data, sizeof host));
    OK(cuMemAlloc_v2(&out, sizeof got));
    for (uint32_t i = 0; i < COUNT; i++)
        host[i] = 3 * i + 1;
    OK(cuMemcpyHtoD_v2(data, host, sizeof host));
    OK(cuTexRefSetFormat(words, 3 /* 32 bits */, 1));
    OK(cuTexRefSetFlags(words, 1 /* integers */));
    OK(cuTexRefSetAddress_v2(NULL, words, data, sizeof host));
    for (int i = 0; i < 4; i++) {
        OK(cuMemsetD32_v2(out, 0, 32));
        OK(cuLaunchKernel(bound, 1, 1, 1, 32, 1, 1, 0, 0, (void *[]){ &out }, NULL));
        OK(cuMemcpyDtoH_v2(got, out, sizeof got));
        CHECK(memcmp(got, host, sizeof got) == 0);
        if (i == 2)                           /* bound elsewhere, and moved before a launch */
            OK(cuMemcpyHtoD_v2(data, (memmove(host, host + 1, sizeof host - 4), host), sizeof host));
        moved_to((i + 1) % 2, false, LIMIT_MS);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

#define ISOLATED(name, limit) TEST(name) { assert_int_equal(isolated(body_##name, limit), 0); }
ISOLATED(times_end, 60)
ISOLATED(graph_records, 60)
ISOLATED(texrefs, 60)

int main(int argc, char **argv)
{
    chaotic = getenv("FLYT_SOFTGPU_CHAOS") != NULL;
    const bool loses = argc > 3 && strcmp(argv[argc - 1], "lose") == 0;
    if (loses)
        setenv("FLYT_TEST_ONLY", "random_losses", 1);
    else
        cmocka_set_skip_filter("random_losses");
    if (argc > 4) {
        first_seed = strtoull(argv[3], NULL, 10);
        seeds = strtoull(argv[4], NULL, 10);
    }
    return two_servers_run(argc, argv, " [FIRST-SEED COUNT] [lose]");
}
