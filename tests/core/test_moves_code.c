/*
 * Programs load and unload code while a session moves (core_move, docs/moving.md, "Code"): the new server has most
 * modules before the program comes to rest. Arguments: unix, tcp, bridge or direct, and the path of cricket-rpc-server.
 * Each test in a process of its own.
 *
 * shows: moving: modules, functions, their attributes and variables are as the program has them where it has loaded,
 *   unloaded and changed some after the new server had loaded its modules, also under the numbers of others; no module
 *   that the program had before is loaded while it stands still
 * shows: moving: threads that load, use and unload code all the time find what their variables held after each of many
 *   moves
 * shows: moving: a program moves while threads unload code with many functions, and others use functions for the first
 *   time, which get the numbers of those
 * shows: moving: the heap of kernels is made before modules are loaded that need it; a program that changes its size
 *   after that goes on, and moves later
 * shows: moving: the memory of all contexts of a program with two GPUs is copied while it goes on
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/held_move.h"
#include "tests/core/moved_program.h"
#include "tests/lib/unit.h"

enum { LIMIT_MS = 20000, MOVES = 12, THREADS = 3, PTX_MOST = 4096 };
#define SHARED CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
#define HEAP   CU_LIMIT_MALLOC_HEAP_SIZE

static CUdeviceptr out;

/* count(out): adds 1 to a variable, and stores it, times a factor; again(out): without adding anything; keep(out): with
   a word of malloc() in place of the variable, which the module then needs a heap for. */
static void make_ptx(char *ptx, unsigned factor, bool allocates)
{
    snprintf(ptx, PTX_MOST,
             ".version 7.0\n.target sm_70\n.address_size 64\n"
             ".visible .global .align 4 .u32 hidden;\n.global .align 8 .u64 kept;\n%s"
             ".visible .entry count(.param .u64 a) {\n"
             "  .reg .u64 %%a; .reg .u32 %%i;\n"
             "  ld.param.u64 %%a, [a]; ld.global.u32 %%i, [hidden]; add.u32 %%i, %%i, 1; st.global.u32 [hidden], %%i;\n"
             "  mul.lo.u32 %%i, %%i, %u; st.global.u32 [%%a], %%i; ret;\n}\n"
             ".visible .entry again(.param .u64 a) {\n"
             "  .reg .u64 %%a; .reg .u32 %%i;\n"
             "  ld.param.u64 %%a, [a]; ld.global.u32 %%i, [hidden]; mul.lo.u32 %%i, %%i, %u;\n"
             "  st.global.u32 [%%a], %%i; ret;\n}\n%s",
             allocates ? ".extern .func (.param .b64 r) malloc(.param .b64 s);\n" : "", factor, factor,
             allocates ? ".visible .entry keep(.param .u64 a) {\n"
                         "  .reg .u64 %a, %n; .reg .u32 %i; .reg .pred %p;\n"
                         "  ld.param.u64 %a, [a]; ld.global.u64 %n, [kept]; setp.ne.u64 %p, %n, 0; @%p bra L;\n"
                         "  { .param .b64 s; .param .b64 r; st.param.b64 [s], 64; call (r), malloc, (s);\n"
                         "    ld.param.b64 %n, [r]; }\n"
                         "  st.global.u64 [kept], %n; mov.u32 %i, 0; st.global.u32 [%n], %i;\n"
                         "L: ld.global.u32 %i, [%n]; add.u32 %i, %i, 1; st.global.u32 [%n], %i;\n"
                         "  st.global.u32 [%a], %i; ret;\n}\n"
                       : "");
}

struct code {
    CUmodule module;
    CUfunction count;
    unsigned factor, counted;
};

static CUfunction function_of(CUmodule module, const char *name)
{
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, name));
    return function;
}

static void load(struct code *code, unsigned factor, bool allocates)
{
    char ptx[PTX_MOST];
    make_ptx(ptx, factor, allocates);
    *code = (struct code){ .factor = factor };
    OK(cuModuleLoadData(&code->module, ptx));
    code->count = function_of(code->module, "count");
}

static uint32_t run(CUfunction function, CUdeviceptr at)
{
    uint32_t word = 0;
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, (void *[]){ &at }, NULL));
    OK(cuMemcpyDtoH_v2(&word, at, 4));
    return word;
}

static void use(struct code *code)
{
    CHECK(run(code->count, out) == ++code->counted * code->factor);
}

/* ---- while the program goes on ---- */

static void begin(void)
{
    setenv("FLYT_LOG", "info", 1);
    moved_begin();
    OK(cuMemAlloc_v2(&out, 4096));
}

static void body_changed(void)
{
    struct code stays, goes, comes, again, last;
    pthread_t mover;
    atomic_int code = -1;
    int value;
    begin();
    load(&stays, 3, false);
    load(&goes, 5, false);
    load(&again, 7, false);
    load(&last, 11, false);
    use(&stays);
    use(&goes);
    use(&again);
    use(&last);
    OK(cuFuncSetAttribute(stays.count, SHARED, 1024));
    hold("code");
    CHECK(pthread_create(&mover, NULL, held_move, &code) == 0);
    hold_await(&code);
    OK(cuModuleUnload(goes.module));          /* its numbers are those of the next one */
    load(&comes, 13, false);
    use(&comes);
    OK(cuModuleUnload(again.module));
    load(&again, 7, false);
    use(&again);
    use(&stays);
    CUfunction looks = function_of(stays.module, "again");
    CHECK(run(looks, out) == 6);
    OK(cuFuncSetAttribute(stays.count, SHARED, 2048));
    OK(cuFuncSetAttribute(last.count, SHARED, 512));
    unlink(hold_path);
    pthread_join(mover, NULL);
    if (code)
        fprintf(stderr, "not moved: %d: %s\n", code, why);
    CHECK(code == 0);
    use(&stays);
    use(&comes);
    use(&again);
    use(&last);
    CHECK(run(looks, out) == 9);
    OK(cuFuncGetAttribute(&value, SHARED, stays.count));
    CHECK(value == 2048);
    OK(cuFuncGetAttribute(&value, SHARED, last.count));
    CHECK(value == 512);
    moved_to(0, false, LIMIT_MS);
    use(&stays);
    use(&comes);
    OK(cuModuleUnload(stays.module));
    load(&goes, 17, false);
    use(&goes);
    moved_to(1, true, LIMIT_MS);
    use(&goes);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

TEST(changed)
{
    static char output[65536];
    assert_int_equal(isolated_output(body_changed, 60, output, sizeof output), 0);
    /* What was loaded behind the hold, and nothing else. */
    if (!strstr(output, "2 of 4 modules were loaded") || !strstr(output, "0 of 4 modules were loaded"))
        fprintf(stderr, "%s", output);
    assert_non_null(strstr(output, "2 of 4 modules were loaded at the new server while the program stood still"));
    assert_non_null(strstr(output, "0 of 4 modules were loaded at the new server while the program stood still"));
}

/* ---- all the time ---- */

static atomic_bool stop;
static CUcontext context;
static atomic_uint loads;

static void *load_and_unload(void *number)
{
    unsigned factor = 100 * (1 + (unsigned)(uintptr_t)number);
    struct code kept, code;
    CUdeviceptr at;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&at, 4096));
    load(&kept, factor, false);
    while (!atomic_load(&stop)) {
        factor++;
        load(&code, factor, factor % 2);
        for (int i = 0; i < 3; i++) {
            CHECK(run(code.count, at) == ++code.counted * code.factor);
            CHECK(run(kept.count, at) == ++kept.counted * kept.factor);
        }
        OK(cuModuleUnload(code.module));
        atomic_fetch_add(&loads, 1);
    }
    return NULL;
}

/* The threads go on between the moves. */
static void move_often(void)
{
    for (int i = 0; i < MOVES; i++) {
        int code = moved_try(1 - i % 2, LIMIT_MS);
        for (int tries = 0; code == 600 && tries < 20; tries++)     /* code was unloaded while it was sent */
            code = moved_try(1 - i % 2, LIMIT_MS);
        if (code)
            fprintf(stderr, "not moved: %d: %s\n", code, why);
        CHECK(code == 0);
        for (unsigned before = atomic_load(&loads); atomic_load(&loads) < before + THREADS;)
            usleep(1000);
    }
}

static void body_all_the_time(void)
{
    pthread_t threads[THREADS];
    setenv("FLYT_LOG", "error", 1);
    context = moved_begin();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, load_and_unload, (void *)i) == 0);
    move_often();
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

TEST(all_the_time) { assert_int_equal(isolated(body_all_the_time, 120), 0); }

/* ---- functions that are looked up meanwhile ---- */

/* Lists of functions that are longer than what comes with a module (FEW_FUNCTIONS): each is asked for at its first use,
   and gets the lowest free number, which one of another module had before. */

enum { MANY = 600, SOME = 40, PAIRS = 2 };

static char *make_many(unsigned count, unsigned first)
{
    char *ptx = malloc(count * 256 + 256);
    int at = sprintf(ptx, ".version 7.0\n.target sm_70\n.address_size 64\n");
    for (unsigned i = 0; i < count; i++)
        at += sprintf(ptx + at,
                      ".visible .entry f%u(.param .u64 a) {\n .reg .u64 %%a; ld.param.u64 %%a, [a]; "
                      "st.global.u32 [%%a], %u; ret;\n}\n", i, first + i);
    return ptx;
}

static void look_up_and_run(CUmodule module, unsigned i, unsigned first, CUdeviceptr at)
{
    char name[16];
    snprintf(name, sizeof name, "f%u", i);
    CHECK(run(function_of(module, name), at) == first + i);
}

static void *unload_many(void *first)
{
    const unsigned base = 100000 * (1 + (unsigned)(uintptr_t)first);
    char *ptx = make_many(SOME, base);
    CUdeviceptr at;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&at, 4096));
    while (!atomic_load(&stop)) {
        CUmodule module;
        OK(cuModuleLoadData(&module, ptx));
        for (unsigned i = 0; i < SOME; i++)
            look_up_and_run(module, i, base, at);
        OK(cuModuleUnload(module));
        atomic_fetch_add(&loads, 1);
    }
    free(ptx);
    return NULL;
}

static void *look_up_many(void *number)
{
    const unsigned base = 1000000 * (1 + (unsigned)(uintptr_t)number);
    char *ptx = make_many(MANY, base);
    CUdeviceptr at;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&at, 4096));
    while (!atomic_load(&stop)) {
        CUmodule module;
        OK(cuModuleLoadData(&module, ptx));
        for (unsigned i = 0; i < MANY && !atomic_load(&stop); i++)
            look_up_and_run(module, i, base, at);
        OK(cuModuleUnload(module));
    }
    free(ptx);
    return NULL;
}

static void body_lookups(void)
{
    pthread_t threads[2 * PAIRS];
    setenv("FLYT_LOG", "error", 1);
    context = moved_begin();
    for (uintptr_t i = 0; i < 2 * PAIRS; i++)
        CHECK(pthread_create(&threads[i], NULL, i % 2 ? look_up_many : unload_many, (void *)i) == 0);
    move_often();
    atomic_store(&stop, true);
    for (int i = 0; i < 2 * PAIRS; i++)
        pthread_join(threads[i], NULL);
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

TEST(lookups) { assert_int_equal(isolated(body_lookups, 120), 0); }

/* ---- the heap of kernels ---- */

static void body_heap(void)
{
    struct code code;
    pthread_t mover;
    atomic_int moved = -1;
    size_t size = 0;
    begin();
    OK(cuCtxSetLimit(HEAP, 3 << 20));
    load(&code, 3, true);
    CUfunction keep = function_of(code.module, "keep");
    hold("code");
    CHECK(pthread_create(&mover, NULL, held_move, &moved) == 0);
    hold_await(&moved);
    OK(cuCtxSetLimit(HEAP, 5 << 20));
    unlink(hold_path);
    pthread_join(mover, NULL);
    if (moved != 600)
        fprintf(stderr, "%d: %s\n", atomic_load(&moved), why);
    CHECK(moved == 600 && strstr(why, "heap"));
    use(&code);
    moved_to(1, false, LIMIT_MS);
    OK(cuCtxGetLimit(&size, HEAP));
    CHECK(size == 5 << 20);
    for (uint32_t i = 1; i < 6; i++) {
        CHECK(run(keep, out) == i);
        use(&code);
        moved_to((int)(i + 1) % 2, false, LIMIT_MS);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

TEST(heap_of_kernels) { assert_int_equal(isolated(body_heap, 60), 0); }

/* ---- two GPUs ---- */

enum { TWO = 2, HELD = 24 << 20 };

static void body_two_devices(void)
{
    struct { CUcontext context; CUdeviceptr at; struct code code; } on[TWO];
    setenv("FLYT_LOG", "info", 1);
    OK(cuInit(0));
    for (int i = 0; i < TWO; i++) {
        CUdevice device;
        OK(cuDeviceGet(&device, i));
        OK(cuDevicePrimaryCtxRetain(&on[i].context, device));
        OK(cuCtxSetCurrent(on[i].context));
        OK(cuMemAlloc_v2(&on[i].at, HELD));
        OK(cuMemsetD32_v2(on[i].at, 7 + (unsigned)i, HELD / 4));
        load(&on[i].code, 3 + (unsigned)i, false);
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < TWO; i++) {
            uint32_t word = 0;
            OK(cuCtxSetCurrent(on[i].context));
            CHECK(run(on[i].code.count, on[i].at + 64) == ++on[i].code.counted * on[i].code.factor);
            OK(cuMemcpyDtoH_v2(&word, on[i].at + HELD - 4, 4));
            CHECK(word == 7 + (uint32_t)i);
        }
        moved_to((round + 1) % 2, false, LIMIT_MS);
    }
    CHECK(core_sticky() == 0 && core_take_latched() == 0);
}

TEST(two_devices)
{
    static char output[65536];
    double most = 0;
    assert_int_equal(isolated_output(body_two_devices, 60, output, sizeof output), 0);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        const char *said = strstr(line, " MiB have been copied while the program went on");
        while (said && said > line && said[-1] != ' ')
            said--;
        most = said && atof(said) > most ? atof(said) : most;
    }
    if (strcmp(servers_kind, "bridge") != 0)
        assert_true(most >= TWO * (HELD >> 20));
}

int main(int argc, char **argv)
{
    setenv("FLYT_SOFTGPU_DEVICES", "2", 1);
    return two_servers_run(argc, argv, "");
}
