/*
 * regions.c: kernels longer than one region of the compiler (softgpu/exec/jit.h), whose lanes part: what compiled code
 * leaves to the interpreter, and that both do the same.
 *
 * Random kernels have a loop of more than a thousand instructions, in which lanes go different ways and leave short
 * loops at different times, with much code that is never run, and as much behind it. Each is loaded twice, once with
 * FLYT_SOFTGPU_FUSED=off, which is never compiled. Under FLYT_SOFTGPU_JIT=always the first copy is.
 *
 * shows: software GPU: in kernels of thousands of instructions, compiled code executes nearly all where lanes part and
 *   behind loops, and leaves what the interpreter leaves
 * shows: software GPU: compiled code that finds memory in another window looks there first the next time
 */
#include "softgpu/exec/callbacks.h"
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { THREADS = 160, ROWS = 8, BYTES = 4 * (ROWS + 2) * THREADS };

static unsigned labels;

/* r10 to r17 and f1 to f3 are what kernels compute with. */
static void put_lines(unsigned count)
{
    static const char *const texts[] = {
        "add.s32 r%u, r%u, r%u;\n", "xor.b32 r%u, r%u, r%u;\n", "mul.lo.s32 r%u, r%u, r%u;\n",
        "sub.s32 r%u, r%u, r%u;\n", "max.s32 r%u, r%u, r%u;\n", "shf.l.wrap.b32 r%u, r%u, r%u, 7;\n",
        "and.b32 r%u, r%u, r%u;\n",
    };
    for (unsigned k = 0; k < count; k++)
        if (!any(6))
            put("fma.rn.f32 f%u, f%u, f%u, f0;\n", 1 + any(3), 1 + any(3), 1 + any(3));
        else
            put(texts[any(sizeof texts / sizeof *texts)], 10 + any(ROWS), 10 + any(ROWS), 10 + any(ROWS));
}

static void put_condition(unsigned p)
{
    static const char *const texts[] = {
        "and.b32 r8, r1, %u; setp.eq.u32 p%u, r8, 0;\n", "shr.u32 r8, r12, %u; setp.lt.s32 p%u, r8, 3;\n",
        "add.u32 r8, r10, %u; and.b32 r8, r8, 1; setp.ne.u32 p%u, r8, 0;\n",
    };
    put(texts[any(3)], 1 + any(16), p);
}

static void put_part(unsigned depth);
/* Lanes that have two ways, one of which may lead to the end of the part. */
static void put_ways(unsigned depth)
{
    const unsigned label = labels++;
    put_condition(4);
    put("@%sp4 bra OTHER%u;\n", any(2) ? "!" : "", label);
    put_lines(1 + any(8));
    if (depth)
        put_part(depth - 1);
    if (any(3))
        put("bra.uni JOIN%u;\n", label);
    put("OTHER%u:\n", label);
    put_lines(1 + any(8));
    if (depth && !any(3)) {
        put_condition(5);
        put("@p5 bra JOIN%u;\n", label);
        put_part(depth - 1);
    }
    put("JOIN%u:\n", label);
}

/* A short loop, which lanes leave at different times. */
static void put_loop(void)
{
    const unsigned label = labels++;
    put("and.b32 r9, r%u, %u;\nAGAIN%u:\n", 10 + any(ROWS), 1 + any(7), label);
    put_lines(2 + any(6));
    put("add.s32 r9, r9, -1; setp.gt.s32 p6, r9, 0; @p6 bra AGAIN%u;\n", label);
}

/* Long code with loops, where no lane ever goes. */
static void put_unused(void)
{
    const unsigned label = labels++;
    put("@!p7 bra PAST%u;\n", label);
    for (unsigned k = 0; k < 4; k++) {
        put_lines(46);
        put_loop();
    }
    put("PAST%u:\n", label);
}

static void put_part(unsigned depth)
{
    put_lines(4 + any(12));
    any(4) ? put_ways(depth) : put_loop();
}

/* parts: in the loop, and behind it. unused: behind each part, with code that is never run. */
static const char *random_kernel(unsigned parts, bool unused)
{
    kernel_begin();
    labels = 0;
    put(".visible .entry k(.param .u64 out)\n{\n%s cvt.rn.f32.u32 f0, r1; mov.u32 r7, 0;\n"
        "setp.eq.u32 p7, r1, -1;\n", HEAD);
    for (unsigned k = 0; k < 3; k++)
        put("add.f32 f%u, f0, 0f3F%u00000;\n", 1 + k, k);
    for (unsigned k = 0; k < ROWS; k++)
        put("mad.lo.u32 r%u, r1, %u, %u;\n", 10 + k, 1 + any(1000), any(1000));
    put("LOOP: and.b32 r8, r12, 1023; setp.eq.u32 p2, r8, 77; @p2 bra LEFT;\n");
    for (unsigned part = 0; part < parts; part++) {
        put_part(2);
        if (unused)
            put_unused();
    }
    put("add.u32 r7, r7, 1; and.b32 r8, r1, 3; add.u32 r8, r8, 1; setp.lt.u32 p1, r7, r8; @p1 bra LOOP;\nLEFT:\n");
    for (unsigned part = 0; part < parts; part++)
        put_part(2);
    put("mul.wide.u32 a1, r1, %u; add.u64 a1, a1, a0;\n", 4 * (ROWS + 2));
    for (unsigned k = 0; k < ROWS; k++)
        put("st.global.u32 [a1+%u], r%u;\n", 4 * k, 10 + k);
    put("st.global.f32 [a1+%u], f1; st.global.f32 [a1+%u], f2;\nret;\n}\n", 4 * ROWS, 4 * ROWS + 4);
    return kernel.text;
}

static unsigned long long all;
static double share;
static void read_share(const char *line)
{
    sscanf(line, "softgpu: %llu instructions of warps, %lf", &all, &share);
}

/* The counts are those of all kernels, so this comes first. */
EXEC_TEST(long_kernels_whose_lanes_part_are_compiled)
{
    enum { COMPILED = 90 };
    if (!getenv("FLYT_SOFTGPU_JIT"))
        skip();
    for (unsigned unused = 0; unused < 2; unused++) {
        gpu_load(random_kernel(16, unused));
        assert_int_equal(gpu_run("k", 2, THREADS / 2, 1, ARG(gpu_alloc(BYTES))), CUDA_SUCCESS);
        exec_callbacks_tell(read_share);
        assert_true(all > 1000);
        if (share < COMPILED)
            fail_msg("%.1f %% of %llu instructions were in compiled code", share, all);
    }
}

/* A second window, where all memory is; in the first one, where warps look at first, there is none. */
static void move_memory(void)
{
    static _Atomic uint8_t none[1];
    struct sg_window *w = sg_memory.windows;
    atomic_store(&w[1].base, atomic_load(&w[0].base));
    atomic_store(&w[1].rights, atomic_load(&w[0].rights));
    atomic_store(&w[1].size, atomic_load(&w[0].size));
    atomic_store(&sg_memory.window_count, 2);
    atomic_store(&w[0].size, 0);
    atomic_store(&w[0].base, UINT64_C(1) << SG_GRANULE_SHIFT);
    atomic_store(&w[0].rights, none);
    atomic_store(&w[0].size, UINT64_C(1) << SG_GRANULE_SHIFT);
}

/* Of the block that is running. */
static const struct sg_window *near_window(void)
{
    sg_engine *e = gpu_engine();
    pthread_mutex_lock(&e->lock);
    const struct sg_window *near = e->grids->resident->warps[0].near;
    pthread_mutex_unlock(&e->lock);
    return near;
}

/* Lanes side by side would be done one by one, if the warp went on looking in a window where they are not. */
EXEC_TEST(warps_look_where_they_have_found_memory)
{
    enum { GO_ON = 0, DONE = 32, READ = 64, WORDS = 96 };
    if (!getenv("FLYT_SOFTGPU_JIT"))
        skip();
    move_memory();
    uint32_t *words = gpu_alloc(WORDS * sizeof *words);
    for (unsigned l = 0; l < SG_LANES; l++)
        words[READ + l] = 1 + l;
    gpu_load(KERNEL("k", "mul.wide.u32 a1, r1, 4; add.u64 a1, a1, a0;\n"
                         "LOOP: ld.global.u32 r2, [a1+256]; st.global.u32 [a1+128], r2;\n"
                         "ld.volatile.global.u32 r3, [a0]; setp.eq.u32 p1, r3, 0; @p1 bra LOOP;"));
    const struct gpu_shape shape = { .grid = { 1, 1, 1 }, .block = { SG_LANES, 1, 1 } };
    const uint64_t argument = ARG(words);
    struct gpu_running *running = gpu_begin("k", &shape, 1, &argument);
    while (!__atomic_load_n(&words[DONE + SG_LANES - 1], __ATOMIC_ACQUIRE))
        usleep(1000);
    const struct sg_window *near = near_window();
    __atomic_store_n(&words[GO_ON], 1, __ATOMIC_RELEASE);
    assert_int_equal(gpu_wait(running, 60), CUDA_SUCCESS);
    assert_ptr_equal(near, &sg_memory.windows[1]);
    for (unsigned l = 0; l < SG_LANES; l++)
        assert_int_equal(words[DONE + l], 1 + l);
    gpu_reset();
}

EXEC_TEST(long_kernels_do_what_the_interpreter_does)
{
    enum { KERNELS = 60 };
    for (unsigned k = 0; k < 1 + KERNELS / exec_share(); k++) {
        unsigned char *out = gpu_alloc(BYTES);
        const struct twice_launch l = { .shape = { .grid = { 2, 1, 1 }, .block = { THREADS / 2, 1, 1 } }, .count = 1,
                                        .arguments = { ARG(out) }, .memory = { { out, NULL, BYTES } } };
        unsigned modules[2];
        char what[32];
        snprintf(what, sizeof what, "kernel %u", k);
        twice_load(random_kernel(16, k & 1), modules);
        assert_int_equal(twice_compare(modules, &l, what), CUDA_SUCCESS);
        gpu_reset();
    }
}

/* A register of 64 bits that is the same in all lanes, and then one of which a conversion reads 8 bits. */
EXEC_TEST(registers_of_two_widths_are_as_the_interpreter_has_them)
{
    unsigned char *out = gpu_alloc(BYTES);
    const struct twice_launch l = { .shape = { .grid = { 1, 1, 1 }, .block = { 2 * SG_LANES, 1, 1 } }, .count = 1,
                                    .arguments = { ARG(out) }, .memory = { { out, NULL, BYTES } } };
    unsigned modules[2];
    twice_load(KERNEL("k", ".local .align 16 .b8 memory[256];\n" MINE64
                           "mov.u64 a5, memory; add.u64 a6, a5, 0; cvt.u16.u32 h1, r1; and.b16 h1, h1, 127;\n"
                           "cvt.u64.u16 a5, h1; cvt.s64.s8 a7, a5; add.s64 a8, a6, a7; st.local.u8 [a8], h1;\n"
                           "ld.local.u8 h2, [a8]; cvt.u32.u16 r5, h2; cvt.u64.u32 a9, r5; add.s64 a9, a9, a7;\n"
                           "st.global.u64 [mine], a9;"),
               modules);
    assert_int_equal(twice_compare(modules, &l, "two widths"), CUDA_SUCCESS);
    gpu_reset();
}

static int before(void **state)
{
    setenv("FLYT_STATS", "1", 1);
    return twice_setup(state);
}

int main(void) { return unit_run(before, exec_teardown); }
