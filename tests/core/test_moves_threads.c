/*
 * Programs with several threads move between two servers (core_move, docs/moving.md) while their threads are inside
 * calls of libcuda.so.1: the same results as without, or a refusal that names what does not end. Arguments: unix or
 * tcp, and the path of cricket-rpc-server. Each test in a process of its own.
 *
 * shows: moving: random programs of several threads compute the same while they are moved and without
 * shows: moving: what a thread writes to pinned memory while the session moves is not lost
 * shows: moving: a thread inside a call that cannot end, a stream that waits and a host function that waits for a
 *   thread are named after the limit, and the program goes on where it was and can move later
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/core/moved_program.h"
#include "tests/core/kernels.h"
#include "tests/lib/dice.h"
#include "tests/lib/fnv.h"
#include "tests/lib/unit.h"

/* fill(address, count, value); add(address, count): adds the index to each word. */
static const char ptx[] = KERNELS_BEGIN KERNEL_FILL KERNEL_ADD;

static CUcontext context;
static CUfunction fill, add;

static void begin(void)
{
    CUmodule module;
    context = moved_begin();
    OK(cuModuleLoadData(&module, ptx));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    OK(cuModuleGetFunction(&add, module, "add"));
}

/* ---- random programs ---- */

enum { THREADS = 4, BLOCKS = 3, BLOCK = 32 * 1024, STEPS = 100, MOVES = 3 };

static atomic_int moves_done, threads_left;
static bool moving;

struct worker {
    pthread_t thread;
    uint64_t seed, hash;
    atomic_uint called;                       /* by host functions */
};

static void called(void *count)
{
    int version;
    OK(cuDriverGetVersion(&version));         /* the thread of host functions passes the gate */
    atomic_fetch_add((atomic_uint *)count, 1);
}

static void launch(CUfunction f, CUstream s, CUdeviceptr at, uint32_t count, uint32_t value)
{
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, (void *[]){ &at, &count, &value }, NULL));
}

static void *work(void *mine)
{
    struct worker *w = mine;
    CUdeviceptr block[BLOCKS];
    CUstream stream;
    CUevent event;
    uint32_t *pinned, host[BLOCK / 4], before = 0;
    OK(cuCtxSetCurrent(context));
    OK(cuMemHostAlloc((void **)&pinned, BLOCK, 0));
    OK(cuStreamCreate(&stream, 1));
    OK(cuEventCreate(&event, 2));
    for (int i = 0; i < BLOCKS; i++) {
        OK(cuMemAlloc_v2(&block[i], BLOCK));
        launch(fill, stream, block[i], BLOCK / 4, (uint32_t)i);
    }
    for (int step = 0; step < STEPS; step++) {
        uint32_t b = dice(&w->seed, BLOCKS), o = dice(&w->seed, BLOCKS), value = dice(&w->seed, 1000);
        /* The other side cannot come too late. */
        while (moving && step >= STEPS * (1 + atomic_load(&moves_done)) / (MOVES + 1)) {
            CUresult result = cuStreamQuery(stream);
            CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
            usleep(100);
        }
        switch (dice(&w->seed, 10)) {
        case 0:
            launch(fill, stream, block[b], BLOCK / 8, value);
            break;
        case 1:
        case 2:
            launch(add, stream, block[b], BLOCK / 4, 0);
            break;
        case 3:
            for (uint32_t i = 0; i < BLOCK / 4; i++)
                host[i] = value + i;
            OK(cuMemcpyHtoDAsync_v2(block[b], host, BLOCK, stream));
            OK(cuStreamSynchronize(stream));
            break;
        case 4:
            OK(cuMemcpyDtoHAsync_v2(pinned, block[b], BLOCK, stream));
            OK(cuEventRecord(event, stream));
            OK(cuEventSynchronize(event));
            fnv_add(&w->hash, pinned, BLOCK);
            break;
        case 5:
            if (b != o)
                OK(cuMemcpyDtoDAsync_v2(block[b], block[o], BLOCK, stream));
            break;
        case 6:
            OK(cuMemsetD32Async(block[b], value, BLOCK / 16, stream));
            break;
        case 7:
            before = atomic_load(&w->called);
            OK(cuLaunchHostFunc(stream, called, &w->called));
            OK(cuStreamSynchronize(stream));
            w->hash += atomic_load(&w->called) - before;
            break;
        case 8:
            OK(cuStreamSynchronize(stream));
            OK(cuStreamDestroy_v2(stream));
            OK(cuStreamCreate(&stream, 1));
            OK(cuMemFree_v2(block[b]));
            OK(cuMemAlloc_v2(&block[b], BLOCK));
            launch(fill, stream, block[b], BLOCK / 4, value);
            break;
        default:
            OK(cuStreamSynchronize(stream));
            OK(cuMemcpyDtoH_v2(host, block[b], BLOCK));
            fnv_add(&w->hash, host, BLOCK);
        }
    }
    OK(cuCtxSynchronize());
    for (int i = 0; i < BLOCKS; i++) {
        OK(cuMemcpyDtoH_v2(host, block[i], BLOCK));
        fnv_add(&w->hash, host, BLOCK);
    }
    atomic_fetch_sub(&threads_left, 1);
    return NULL;
}

static uint64_t program_seed;

static void program(void)
{
    static struct worker workers[THREADS];
    begin();
    atomic_store(&threads_left, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].seed = program_seed * 100 + (uint64_t)i;
        CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; moving && atomic_load(&threads_left); i++) {
        int code = moved_try((i + 1) % 2, 30000);
        if (code)
            fprintf(stderr, "not moved: %s\n", why);
        CHECK(code == 0);
        atomic_fetch_add(&moves_done, 1);
    }
    uint64_t hash = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        hash = hash * 31 + workers[i].hash;
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0 && (!moving || atomic_load(&moves_done) >= MOVES));
    printf("%016llx\n", (unsigned long long)hash);
}

static void body_still(void) { program(); }

static void body_moving(void)
{
    moving = true;
    program();
}

TEST(random_programs)
{
    for (program_seed = 1; program_seed <= 2; program_seed++) {
        char still[2000], moved[2000];
        assert_int_equal(isolated_output(body_still, 60, still, sizeof still), 0);
        assert_int_equal(isolated_output(body_moving, 120, moved, sizeof moved), 0);
        assert_string_equal(still, moved);
    }
}

/* ---- what does not end ---- */

static atomic_int waiting_thread;
static CUstream held;
static CUdeviceptr word_device;

static void *waits_in_call(void *unused)
{
    (void)unused;
    OK(cuCtxSetCurrent(context));
    atomic_store(&waiting_thread, (int)gettid());
    OK(cuStreamSynchronize(held));
    return NULL;
}

/* Until the stream's word is 1. */
static void hold_stream(void)
{
    begin();
    OK(cuStreamCreate(&held, 1));
    OK(cuMemAlloc_v2(&word_device, 64));
    OK(cuMemsetD32_v2(word_device, 0, 16));
    OK(cuStreamWaitValue32_v2(held, word_device, 1, 1 /* equal */));
}

static void release_stream(void)
{
    static const uint32_t one = 1;
    OK(cuMemcpyHtoD_v2(word_device, &one, sizeof one));
    OK(cuStreamSynchronize(held));
}

static void body_thread_named(void)
{
    pthread_t thread;
    char number[32], stream[32];
    hold_stream();
    CHECK(pthread_create(&thread, NULL, waits_in_call, NULL) == 0);
    /* It may not be in its call yet: then the stream is named. */
    for (int i = 0; i < 200 && !strstr(why, "cuStreamSynchronize"); i++)
        CHECK(moved_try(1, 50) == CORE_NOT_READY);
    snprintf(number, sizeof number, "thread %d ", atomic_load(&waiting_thread));
    snprintf(stream, sizeof stream, "stream 0x%llx", (unsigned long long)(uintptr_t)held);
    fprintf(stderr, "# %s\n", why);
    CHECK(strstr(why, number) && strstr(why, stream));
    release_stream();
    pthread_join(thread, NULL);
    CHECK(moved_try(1, 0) == 0 && core_sticky() == 0);
}

static void body_stream_named(void)
{
    char stream[32];
    hold_stream();
    CHECK(moved_try(1, 100) == CORE_NOT_READY);
    snprintf(stream, sizeof stream, "stream 0x%llx", (unsigned long long)(uintptr_t)held);
    fprintf(stderr, "# %s\n", why);
    CHECK(strstr(why, stream));
    release_stream();
    CHECK(moved_try(1, 0) == 0 && core_sticky() == 0);
}

static atomic_bool function_runs, function_may_end;

static void waits_for_program(void *unused)
{
    (void)unused;
    atomic_store(&function_runs, true);
    while (!atomic_load(&function_may_end))
        sched_yield();
}

static void *ends_function(void *unused)
{
    int version;
    (void)unused;
    while (!(atomic_load(&core_gate_state) & CORE_GATE_SHUT))
        sched_yield();
    OK(cuDriverGetVersion(&version));         /* waits at the gate */
    atomic_store(&function_may_end, true);
    return NULL;
}

static void body_function_named(void)
{
    pthread_t thread;
    begin();
    OK(cuStreamCreate(&held, 1));
    OK(cuLaunchHostFunc(held, waits_for_program, NULL));
    while (!atomic_load(&function_runs))
        sched_yield();
    CHECK(pthread_create(&thread, NULL, ends_function, NULL) == 0);
    CHECK(moved_try(1, 100) == CORE_NOT_READY);
    fprintf(stderr, "# %s\n", why);
    CHECK(strstr(why, "host function"));
    pthread_join(thread, NULL);
    OK(cuStreamSynchronize(held));
    CHECK(moved_try(1, 0) == 0 && core_sticky() == 0);
}

/* ---- pinned memory that a thread writes meanwhile ---- */

enum { PINNED_WORDS = 1 << 18 };
static volatile uint32_t *pinned_words;
static atomic_bool writing_ends;
static atomic_uint passes;

static void *writes_pinned(void *unused)
{
    (void)unused;
    for (uint32_t pass = 1; !atomic_load(&writing_ends); pass++) {
        for (uint32_t i = 0; i < PINNED_WORDS; i++) {
            if (pinned_words[i] != (pass - 1) * 3 + i) {
                fprintf(stderr, "word %u is %u, not %u: what was written in pass %u is lost\n", i, pinned_words[i],
                        (pass - 1) * 3 + i, pass - 1);
                _exit(1);
            }
            pinned_words[i] = pass * 3 + i;
        }
        atomic_store(&passes, pass);
    }
    return NULL;
}

static void body_pinned_written(void)
{
    pthread_t thread;
    CUdeviceptr device, memory;
    static uint32_t back[PINNED_WORDS];
    begin();
    OK(cuMemHostAlloc((void **)&pinned_words, PINNED_WORDS * 4, 2 /* mapped */));
    OK(cuMemAlloc_v2(&memory, PINNED_WORDS * 4));
    for (uint32_t i = 0; i < PINNED_WORDS; i++)
        pinned_words[i] = i;
    CHECK(pthread_create(&thread, NULL, writes_pinned, NULL) == 0);
    for (int i = 0; i < 8; i++) {
        unsigned before = atomic_load(&passes);
        while (atomic_load(&passes) == before)
            sched_yield();
        int code = moved_try((i + 1) % 2, 0);
        if (code)
            fprintf(stderr, "not moved: %s\n", why);
        CHECK(code == 0);
    }
    atomic_store(&writing_ends, true);
    pthread_join(thread, NULL);
    /* The device sees the same pages, and writes into them. */
    OK(cuMemcpyHtoD_v2(memory, (const void *)pinned_words, PINNED_WORDS * 4));
    OK(cuMemcpyDtoH_v2(back, memory, PINNED_WORDS * 4));
    CHECK(memcmp(back, (const void *)pinned_words, PINNED_WORDS * 4) == 0);
    OK(cuMemHostGetDevicePointer_v2(&device, (void *)(uintptr_t)pinned_words, 0));
    launch(fill, 0, device, PINNED_WORDS, 4711);
    OK(cuCtxSynchronize());
    for (uint32_t i = 0; i < PINNED_WORDS; i++)
        CHECK(pinned_words[i] == 4711);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

TEST(thread_named) { assert_int_equal(isolated(body_thread_named, 60), 0); }
TEST(stream_named) { assert_int_equal(isolated(body_stream_named, 60), 0); }
TEST(function_named) { assert_int_equal(isolated(body_function_named, 60), 0); }
TEST(pinned_written) { assert_int_equal(isolated(body_pinned_written, 60), 0); }

int main(int argc, char **argv) { return two_servers_run(argc, argv, ""); }
