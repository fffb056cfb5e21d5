/* shows: Registers of kernels: as ptxas counts them, bounded as kernels declare; what costs a GPU none counts none */
/* attributes.c: what is said of a kernel that a GPU's driver would have compiled. What ptxas of CUDA 13.0 says of the
   same text for sm_120 stands beside it. */
#include <time.h>

#include "softgpu/exec/pressure.h"
#include "tests/exec/main.h"

static struct sg_kernel_info describe(const char *name)
{
    struct sg_kernel_info info;
    sg_kernel_describe(gpu_kernel(name), &info);
    return info;
}

static void near(unsigned registers, unsigned ptxas)
{
    unsigned off = registers > ptxas ? registers - ptxas : ptxas - registers;
    if (off * 10 > ptxas * 2 && off > 4)
        fail_msg("%u registers; ptxas gives %u", registers, ptxas);
}

/* Text that grows. */
struct text {
    char *at;
    size_t used, room;
};
static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *form, ...)
{
    if (t->room - t->used < 256) {
        t->room = t->room ? 2 * t->room : 4096;
        t->at = realloc(t->at, t->room);
        assert_non_null(t->at);
    }
    va_list list;
    va_start(list, form);
    t->used += (size_t)vsnprintf(t->at + t->used, t->room - t->used, form, list);
    va_end(list);
}

/* A kernel that loads `count` doubles, and stores all of them behind a barrier. */
static void add_live(struct text *t, const char *directives, unsigned count)
{
    add(t, ".visible .entry k(.param .u64 p) %s {\n.reg .b32 r; .reg .b64 a, b, c, d; .reg .f64 f<%u>;\n", directives,
        count);
    add(t, "ld.param.u64 a, [p]; cvta.to.global.u64 b, a; mov.u32 r, %%tid.x; mul.wide.u32 c, r, 8;\n");
    add(t, "add.s64 d, b, c;\n");
    for (unsigned i = 0; i < count; i++)
        add(t, "ld.global.f64 f%u, [d + %u];\n", i, i * 512);
    add(t, "bar.sync 0;\n");
    for (unsigned i = 0; i < count; i++)
        add(t, "st.global.f64 [d + %u], f%u;\n", i * 7 % count * 512, i);
    add(t, "ret;\n}\n");
}

static struct sg_kernel_info live(const char *directives, unsigned count)
{
    struct text t = { 0 };
    add_live(&t, directives, count);
    gpu_load(t.at);
    free(t.at);
    struct sg_kernel_info info = describe("k");
    gpu_reset();
    return info;
}

/* What machine code for another GPU says, on one where all threads have room with 32 registers, or 40. */
EXEC_TEST(machine_code_for_another_gpu)
{
    static const struct {
        unsigned capability, threads, registers, estimate, needed, on_2048, on_1536;
    } known[] = {
        { 80, 2048, 24, 40, 20, 24, 24 }, /* all that it likes */
        { 80, 2048, 32, 38, 30, 32, 38 }, /* there was no room for more */
        { 80, 2048, 40, 48, 45, 40, 40 }, /* it needs them */
        { 89, 1536, 38, 36, 30, 32, 38 }, /* there was room for more than it needs */
        { 89, 1536, 38, 34, 33, 35, 38 }, /* it needs more than there is room for */
        { 75, 1024, 12, 16, 10, 14, 14 }, /* older code takes a little less */
        { 75, 1024, 12, 12, 10, 12, 12 }, { 75, 1024, 60, 48, 20, 32, 40 },
        { 75, 1024, 64, 48, 45, 52, 52 }, { 75, 1024, 168, 150, 160, 168, 168 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct sg_machine_code code = { .registers = (uint8_t)known[i].registers,
                                              .capability = (uint16_t)known[i].capability,
                                              .threads_per_sm = (uint16_t)known[i].threads };
        assert_int_equal(exec_registers_near(&code, known[i].estimate, known[i].needed, 2048), known[i].on_2048);
        assert_int_equal(exec_registers_near(&code, known[i].estimate, known[i].needed, 1536), known[i].on_1536);
    }
}

EXEC_TEST(live_values_count)
{
    static const struct {
        unsigned values, ptxas;
    } known[] = {
        { 2, 10 },   { 5, 16 },   { 10, 26 },   { 20, 46 },   { 30, 66 },   { 40, 86 },
        { 60, 126 }, { 80, 166 }, { 100, 206 }, { 120, 246 }, { 200, 254 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        near(live("", known[i].values).registers, known[i].ptxas);
}

EXEC_TEST(blocks_follow)
{
    assert_int_equal(live("", 2).max_threads, 1024);
    assert_int_equal(live("", 60).max_threads, 512);
    assert_int_equal(live("", 100).max_threads, 256);
    struct text t = { 0 };
    add_live(&t, "", 100);
    gpu_load(t.at);
    free(t.at);
    assert_int_equal(sg_occupancy(gpu_limits(), gpu_kernel("k"), 256, 0), 1);
    assert_int_equal(sg_occupancy(gpu_limits(), gpu_kernel("k"), 128, 0), 2);
    assert_int_equal(sg_occupancy(gpu_limits(), gpu_kernel("k"), 288, 0), 0);
    uint64_t argument = ARG(gpu_alloc(1 << 20));
    const struct gpu_shape shape = { .grid = { 1, 1, 1 }, .block = { 512, 1, 1 } };
    assert_int_equal(gpu_launch("k", &shape, 1, &argument, 20), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
}

EXEC_TEST(declarations_bound)
{
    assert_int_equal(live(".maxntid 1024, 1, 1", 100).registers, 64);
    assert_int_equal(live(".reqntid 32, 16, 1", 100).registers, 128);
    assert_int_equal(live(".maxntid 128 .minnctapersm 8", 100).registers, 64);
    assert_int_equal(live(".maxntid 128 .minnctapersm 1000", 100).registers, 16);
    assert_int_equal(live(".maxnreg 40", 100).registers, 40);
    assert_int_equal(live(".maxntid 256 .maxnreg 200", 100).registers, 200);
    assert_int_equal(live(".maxnreg 8", 100).registers, 24); /* what ptxas makes of fewer */
    near(live(".maxnreg 256", 100).registers, 206);          /* ptxas ignores it */
    near(live(".minnctapersm 8", 100).registers, 206);       /* means nothing by itself */
    assert_int_equal(live("", 100).stack_bytes, 0);
    assert_int_equal(live(".maxnreg 200", 100).stack_bytes, 0); /* hardly fewer than it needs */
    assert_in_range(live(".maxnreg 40", 100).stack_bytes, 500, 800);
    struct sg_kernel_info info = live(".maxntid 1024, 1024, 64", 100);
    assert_int_equal(info.registers, 64);
    assert_int_equal(info.max_threads, 1024);
}

/* Parameters, constants, copies, and what is the same for all threads: 200 values, and ptxas gives 14. */
EXEC_TEST(some_values_cost_nothing)
{
    struct text t = { 0 };
    add(&t, ".visible .entry k(.param .u64 p, .param .u32 n) {\n.reg .b32 r<200>; .reg .b64 a<4>; .reg .f32 f<100>;\n"
            "ld.param.u64 a0, [p]; ld.param.u32 r0, [n]; cvta.to.global.u64 a1, a0; mov.u32 r1, %%ctaid.x;\n");
    for (unsigned i = 2; i < 100; i++)
        add(&t, "mad.lo.u32 r%u, r0, %u, r1;\n", i, i * i);
    add(&t, "mov.u32 r100, r2;\n");
    for (unsigned i = 101; i < 199; i++)
        add(&t, "add.u32 r%u, r%u, r%u;\n", i, i - 1, i - 99);
    add(&t, "mov.u32 r199, %%tid.x; mul.wide.u32 a2, r199, 4; add.u64 a3, a1, a2; st.global.u32 [a3], r198; ret;\n}\n");
    gpu_load(t.at);
    free(t.at);
    near(describe("k").registers, 14);
}

/* ptxas gives 4 and 24. */
EXEC_TEST(small_ones)
{
    gpu_load(".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
             ".visible .entry empty() { ret; }\n"
             ".visible .entry prints() { .reg .b64 a; .reg .b32 r; mov.u64 a, 0;\n"
             "{ .param .b64 x; .param .b64 y; .param .b32 z; st.param.b64 [x], a; st.param.b64 [y], a;\n"
             "call.uni (z), vprintf, (x, y); ld.param.b32 r, [z]; } ret; }\n");
    assert_int_equal(describe("empty").registers, 4);
    assert_int_equal(describe("prints").registers, 24);
}

/* Rounds of a counted loop run four at a time, with the loads of all first: ptxas gives 22. */
EXEC_TEST(loops_run_several_rounds)
{
    gpu_load(".visible .entry k(.param .u64 pp, .param .u32 count, .param .u64 qq) {\n"
             ".reg .b32 i, n, t; .reg .b64 a, b, c, d, e; .reg .f32 s, f, h; .reg .pred g;\n"
             "ld.param.u64 a, [pp]; ld.param.u64 d, [qq]; ld.param.u32 n, [count]; cvta.to.global.u64 b, a;\n"
             "mov.u32 t, %tid.x; mul.wide.u32 c, t, 4; add.s64 b, b, c; cvta.to.global.u64 d, d; add.s64 e, d, c;\n"
             "mov.u32 i, 0; mov.f32 s, 0f00000000;\n"
             "L: ld.global.f32 f, [b]; ld.global.f32 h, [e]; fma.rn.f32 s, f, h, s; add.s64 b, b, 4;\n"
             "add.s64 e, e, 16; add.s32 i, i, 1; setp.lt.s32 g, i, n; @g bra L;\n"
             "st.global.f32 [d], s; ret; }\n");
    near(describe("k").registers, 22);
}

/* A function that the kernel calls needs what it needs. */
EXEC_TEST(callees_count)
{
    struct text t = { 0 };
    add(&t, ".func f(.param .b64 p) {\n.reg .b64 a; .reg .f64 f<100>; ld.param.u64 a, [p];\n");
    for (unsigned i = 0; i < 100; i++)
        add(&t, "ld.global.f64 f%u, [a + %u];\n", i, i * 512);
    add(&t, "bar.sync 0;\n");
    for (unsigned i = 0; i < 100; i++)
        add(&t, "st.global.f64 [a + %u], f%u;\n", i * 7 % 100 * 512, i);
    add(&t, "ret;\n}\n.visible .entry k(.param .u64 p) {\n.reg .b64 a; ld.param.u64 a, [p];\n"
            "{ .param .b64 x; st.param.b64 [x], a; call.uni f, (x); } ret;\n}\n");
    gpu_load(t.at);
    free(t.at);
    near(describe("k").registers, 206);
}

/* ptxas gives a stack frame of 72 bytes. An argument of a call is in registers. */
EXEC_TEST(local_memory)
{
    gpu_load(".func f(.param .b64 p, .param .align 8 .b8 q[64]) { ret; }\n"
             ".visible .entry k(.param .u64 p) {\n.local .align 4 .b8 v[65]; .reg .b32 r, s; .reg .b64 a, b, c;\n"
             "ld.param.u64 a, [p]; mov.u32 r, %tid.x; cvt.u64.u32 b, r; mov.u64 c, v; add.u64 c, c, b;\n"
             "st.local.u8 [c], r; ld.local.u8 s, [v + 3]; st.global.u32 [a], s;\n"
             "{ .param .b64 x; .param .align 8 .b8 y[64]; st.param.b64 [x], a; call.uni f, (x, y); } ret; }\n");
    assert_int_equal(describe("k").stack_bytes, 72);
    assert_in_range(describe("k").local_bytes, 72, 300);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Both at once: 60,000 instructions in a row, and 20,000 small blocks. */
EXEC_TEST(large_kernels_are_quick)
{
    enum { ROW = 60000, BLOCKS = 20000 };
    struct text t = { 0 };
    add(&t,
        ".visible .entry k(.param .u64 p) {\n.reg .b32 r<%d>; .reg .pred q; .reg .b64 a;\nld.param.u64 a, [p];\n"
        "mov.u32 r0, %%tid.x;\n",
        ROW + 1);
    for (unsigned i = 1; i <= ROW; i++)
        add(&t, i % 16 ? "add.u32 r%u, r%u, r%u;\n" : "ld.global.u32 r%u, [a + %u];\n", i, i - 1, i / 2);
    for (unsigned i = 0; i < BLOCKS; i++)
        add(&t, "setp.eq.u32 q, r%u, 7; @q bra L%u; xor.b32 r1, r1, r%u; L%u:\n", i * 3, i, i * 3 + 1, i);
    add(&t, "st.global.u32 [a], r1; ret;\n}\n");
    gpu_load(t.at);
    free(t.at);
    sg_kernel *k = gpu_kernel("k");
    struct sg_kernel_info info;
    double begin = cpu_seconds();
    sg_kernel_describe(k, &info);
    assert_in_range((uintmax_t)(cpu_seconds() - begin), 0, 4);
    assert_in_range(info.registers, 16, 255);
    begin = cpu_seconds();
    for (int i = 0; i < 100000; i++)
        sg_kernel_describe(k, &info); /* each launch does it */
    assert_in_range((uintmax_t)(cpu_seconds() - begin), 0, 1);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
