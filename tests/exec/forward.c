/*
 * forward.c: kernels without loops and barriers, whose blocks the compiler may run as a whole (softgpu/exec/whole.c),
 * do what the interpreter does.
 *
 * Random kernels of that kind are loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled. Both run in
 * grids of the same random shape: lines and rectangles, blocks whose last warp is full or not, threads that have
 * nothing to do, lanes that part at branches, accesses that leave what is mapped or are not aligned. All memory, the
 * error and the line of the log that describes a fault must be equal.
 *
 * shows: software GPU: random kernels without loops leave the same memory, the same fault and the same message, whether
 *   their blocks are run by the interpreter or by compiled code for whole blocks
 * shows: software GPU: a sum that is no number has the bits that the interpreter gives it, also where loads of bytes
 *   stand around it
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { AREA = 64 << 10, THREADS_MOST = 4096 };

/* The last bytes that kernels may touch: behind them nothing is mapped. */
static unsigned char *area(void)
{
    enum { MAPPED = 192 << 20, GRANULE = 2 << 20 }; /* as harness.c has it */
    uintptr_t begin = (uintptr_t)gpu_alloc(64) & ~(uintptr_t)(GRANULE - 1);
    return (unsigned char *)(begin + MAPPED - AREA);
}

/* ---- kernels ---- */

#define START                                                                                                    \
    ".visible .entry k(.param .u64 data, .param .u32 count, .param .u32 width)\n{\n"                             \
    ".reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<32>; .reg .b64 a<32>; .reg .f32 f<16>;\n"                      \
    "ld.param.u64 a0, [data]; ld.param.u32 r1, [count]; ld.param.u32 r2, [width];\n"                             \
    "mov.u32 r3, %tid.x; mov.u32 r4, %ctaid.x; mov.u32 r5, %ntid.x; mad.lo.s32 r3, r4, r5, r3;\n"                \
    "mov.u32 r6, %tid.y; mov.u32 r7, %ctaid.y; mov.u32 r8, %ntid.y; mad.lo.s32 r6, r7, r8, r6;\n"                \
    "mad.lo.s32 r9, r6, r2, r3; setp.ge.u32 p1, r9, r1; @p1 bra DONE;\n"                                         \
    "mov.u32 r10, %nctaid.x; mov.u32 r11, %laneid; xor.b32 r12, r9, r10; mul.wide.s32 a1, r9, 4;\n"              \
    "add.s64 a1, a0, a1; cvt.rn.f32.u32 f4, r9; cvt.rn.f32.s32 f5, r3; mov.b32 f6, r12; mov.u32 r13, 0;\n"       \
    "mul.wide.u32 a4, r12, r3; mov.u64 a5, 5; cvt.u16.u32 h4, r9; mov.u64 a6, data; and.b32 r14, r6, 8;\n"       \
    "cvt.u64.u32 a7, r14; add.u64 a7, a7, a6;\n"

/* To where an address register leads: lanes a few bytes apart, at one place, or any way. */
static void put_address(void)
{
    static const unsigned steps[] = { 1, 2, 4, 8, 16, 12, 0, 6, 20 };
    const unsigned step = steps[any(9)];
    switch (any(8)) {
    case 0: put("mul.wide.u32 a2, r3, %u; add.s64 a2, a2, a0;\n", step); break;
    case 1: put("and.b32 r14, r12, 1023; mul.wide.u32 a2, r14, %u; add.s64 a2, a2, a0;\n", step); break;
    case 2: put("mov.u64 a2, a0;\n"); break;
    case 3: put("sub.s32 r14, r9, r2; mul.wide.s32 a2, r14, 4; add.s64 a2, a2, a0;\n"); break;
    case 4: put("add.s32 r14, r9, r2; mul.wide.s32 a2, r14, 4; add.s64 a2, a2, a0;\n"); break;
    default: put("mul.wide.s32 a2, r9, %u; add.s64 a2, a2, a0;\n", step);
    }
}

static void put_other_line(void);
/* Bytes side by side, of which a number is put together, and what a program does meanwhile. */
static void put_line_of_bytes(void)
{
    const unsigned others = any(3);
    for (unsigned k = 0, count = 2 + any(8); k < count; k++) {
        for (unsigned other = 0; other < others; other++)
            put_other_line();
        put("%sld.global.%s %s, [a2+%d]; shl.b32 r%u, r%u, 8; or.b32 r12, r12, r13;\n",
            any(20) ? "" : "@p2 ", any(3) ? "u8" : "s8", any(3) ? "r13" : "h4", (int)any(any(4) ? 12 : 40) - 8,
            12 + any(2), 12 + any(2));
    }
}

static void put_memory_line(void)
{
    static const char *const texts[] = {
        "ld.global.f32 f5, [A];", "ld.global.u32 r12, [A];", "ld.global.u8 r13, [A];", "ld.global.s16 r13, [A];",
        "ld.global.s8 h4, [A];",
        "ld.global.u64 a4, [A];", "ld.global.v2.u32 {r12, r13}, [A];", "ld.global.v4.f32 {f4, f5, f6, f7}, [A];",
        "ld.u32 r12, [A];", "ld.global.nc.f32 f6, [A];", "st.global.u32 [A], r12;", "st.global.f32 [A], f5;",
        "st.global.u8 [A], r13;", "st.global.u16 [A], h4;", "st.global.u64 [A], a4;", "st.u32 [A], r13;",
        "ld.param.u32 r12, [a6+8];", "ld.param.v2.u32 {r12, _}, [a7];", "ld.param.s8 r13, [a6+8];",
        "membar.gl;", "@p2 fence.acq_rel.gpu;", "ld.param.u64 a4, [a6];", "@p2 ld.param.u32 r13, [a7];",
        "st.global.v2.f32 [A], {f5, f6};", "@p2 ld.global.f32 f5, [A];", "@!p2 st.global.u32 [A], r12;",
    };
    static const char *const places[] = { "a1", "a1+4", "a1+-4", "a2", "a2+8", "a2", "a1", "a1" };
    if (!any(4)) {
        put_line_of_bytes();
        return;
    }
    const char *text = texts[any(sizeof texts / sizeof *texts)];
    if (strchr(text, 'A'))
        put_access("", text, places[any(8)]);
    else
        put("%s\n", text);
}

static void put_other_line(void)
{
    static const char *const texts[] = {
        "add.f32 f5, f5, f4;", "mul.f32 f6, f5, f4;", "fma.rn.f32 f4, f5, f6, f4;", "div.rn.f32 f5, f4, f6;",
        "add.s32 r12, r12, r13;", "mad.lo.s32 r13, r12, r9, r3;", "xor.b32 r12, r12, r13;", "shr.u32 r13, r12, 3;",
        "setp.lt.u32 p2, r12, r13;", "setp.gt.f32 p2, f5, f4;", "setp.eq.s32 p3, r3, 0;",
        "setp.ne.and.u32 p2, r3, 0, p3;",
        "selp.b32 r13, r12, r9, p2;", "@p2 add.s32 r13, r13, 77;", "@!p3 mov.u32 r12, r11;", "add.s64 a4, a4, a5;",
        "mul.lo.s64 a5, a4, a5;", "cvt.u32.u64 r12, a4;", "ex2.approx.ftz.f32 f5, f4;", "div.u32 r13, r12, r9;",
        "add.cc.u32 r12, r12, r9; addc.u32 r13, r13, 0;", "mov.u32 r13, %ctaid.x;", "mov.u32 r12, %tid.y;",
        "mov.b64 a4, {r12, r13};", "cvt.u16.u32 h4, r13;", "min.u32 r13, r13, 1000;", "popc.b32 r12, r13;",
        "mov.u32 r12, %nctaid.y;", "mov.u32 r13, %ntid.x;", "div.u32 r13, r12, r2;", "rem.s32 r12, r13, r10;",
        "sub.f32 f5, f6, f5;", "neg.f32 f6, f5;", "abs.f32 f4, f6;", "selp.f32 f6, f5, f4, p2;", "mov.f32 f5, f6;",
        "mov.b32 f6, r13;", "mov.b32 r13, f6;", "selp.f32 f5, f6, 0f7fc12345, p3;", "@p2 mul.f32 f6, f6, f5;",
        "@!p2 neg.f32 f5, f4;", "max.f32 f4, f5, f6;", "mul.f32 f5, f4, 0f7f800000;", "mov.b32 f5, 0xffc54321;",
        "div.s32 r12, r9, -7;", "rem.u32 r13, r2, r10;", "div.u32 r12, r13, %ctaid.x;", "addc.u32 r13, %ctaid.x, 1;",
    };
    put("%s\n", texts[any(sizeof texts / sizeof *texts)]);
}

static const char *random_kernel(void)
{
    kernel_begin();
    put("%s", START);
    put("setp.lt.u32 p2, r11, %u; setp.eq.s32 p3, r3, 0;\n", any(40));
    put_address();
    for (unsigned part = 0; part < 1 + any(3); part++) {
        if (any(2)) {
            static const char *const conditions[] = {
                "setp.ne.u32 p4, r3, 0;", "and.b32 r14, r9, 32; setp.eq.u32 p4, r14, 0;", "setp.lt.u32 p4, r12, r13;",
                "setp.gt.u32 p4, r9, 100;", "and.b32 r14, r9, 1; setp.eq.u32 p4, r14, 0;", "setp.lt.u32 p4, r9, r1;",
            };
            put("%s @%sp4 bra OVER%u;\n", conditions[any(6)], any(2) ? "!" : "", part);
        } else
            put("@p7 bra OVER%u;\n", part); /* nobody's: p7 is 0 */
        for (unsigned k = 0; k < 2 + any(6); k++)
            any(3) ? put_other_line() : put_memory_line();
        put("OVER%u:\n", part);
        if (!any(3))
            put_address();
        if (!any(6))
            put("@%sp%u bra DONE;\n", any(2) ? "!" : "", 2 + any(2));
        any(2) ? put_other_line() : put_memory_line();
    }
    if (!any(4))
        put("@p3 exit;\n");
    put("mov.b32 r14, f4; xor.b32 r12, r12, r14; mov.b32 r14, f5; xor.b32 r12, r12, r14;\n"
        "mov.b32 r14, f6; xor.b32 r13, r13, r14; xor.b32 r12, r12, r13; cvt.u32.u64 r14, a4;\n"
        "xor.b32 r12, r12, r14; cvt.u32.u16 r14, h4; add.s32 r12, r12, r14;\n"
        "st.global.u32 [a1], r12;\nDONE:\nret;\n}\n");
    return kernel.text;
}

/* ---- runs ---- */

static struct twice_launch any_launch(unsigned char *memory)
{
    static const uint32_t lines[] = { 32, 64, 96, 128, 256, 80, 33, 1024 }, rows[] = { 32, 64, 128 };
    struct twice_launch l = { .shape = { .grid = { 1 + any(6), 1, 1 }, .block = { lines[any(8)], 1, 1 } }, .count = 3 };
    if (!any(4)) { /* a warp has threads of several lines */
        static const uint32_t short_lines[] = { 16, 8, 20, 48, 1 };
        l.shape.grid[1] = 1 + any(3);
        l.shape.block[0] = short_lines[any(5)];
        l.shape.block[1] = 2 + any(15);
        l.shape.block[2] = 1 + any(2);
    } else if (any(2)) {
        l.shape.grid[1] = 1 + any(3);
        l.shape.block[0] = rows[any(3)];
        l.shape.block[1] = 1 + any(4);
    }
    /* All blocks have room at once. Then they run in their order, so that what one reads of another is known. */
    const uint32_t *n = l.shape.block;
    const unsigned room = gpu_limits()->sm_count * sg_occupancy(gpu_limits(), gpu_kernel("k"), n[0] * n[1] * n[2], 0);
    if (l.shape.grid[0] * l.shape.grid[1] > room)
        l.shape.grid[1] = 1;
    if (l.shape.grid[0] > room)
        l.shape.grid[0] = room;
    const uint32_t width = l.shape.grid[0] * l.shape.block[0],
                   threads = width * l.shape.grid[1] * l.shape.block[1];
    const uint32_t bytes = 4 * threads + 4096; /* before the end, or a bit too near to it; now and then not aligned */
    const uint64_t start = (uintptr_t)memory + AREA - bytes;
    assert_true(bytes < AREA);
    l.arguments[0] = start + (any(4) ? 0 : 4000 + 4 * any(100)) + (any(20) ? 0 : 1 + any(3));
    l.arguments[1] = any(2) ? threads : any(threads + 1);
    l.arguments[2] = width;
    return l;
}

static void compare(unsigned char *memory, const unsigned modules[2], unsigned k, unsigned faults[2])
{
    static unsigned char before[AREA];
    struct twice_launch l = any_launch(memory);
    char what[96];
    snprintf(what, sizeof what, "kernel %u, grid %u,%u of %u,%u, count %u", k, l.shape.grid[0], l.shape.grid[1],
             l.shape.block[0], l.shape.block[1], (unsigned)l.arguments[1]);
    for (unsigned b = 0; b < AREA; b++)
        before[b] = (unsigned char)any(256);
    l.memory[0] = (struct twice_memory){ memory, before, AREA };
    faults[twice_compare(modules, &l, what) != CUDA_SUCCESS]++;
}

EXEC_TEST(kernels_without_loops_are_as_the_interpreter_runs_them)
{
    enum { KERNELS = 400, RUNS = 12 };
    unsigned faults[2] = { 0, 0 };
    const unsigned kernels = KERNELS / exec_share();
    for (unsigned k = 0; k < kernels; k++) {
        unsigned modules[2];
        unsigned char *memory = area();
        twice_load(random_kernel(), modules);
        for (unsigned round = 0; round < RUNS; round++)
            compare(memory, modules, k, faults);
        gpu_reset();
    }
    assert_true(faults[0] > kernels && faults[1] > kernels / 4);
}

/* ---- a divisor that all lanes share ---- */

static const char divides[] =
    ".visible .entry k(.param .u64 data, .param .u32 count, .param .u32 by)\n{\n"
    ".reg .pred p<2>; .reg .b32 r<16>; .reg .b64 a<8>;\n"
    "ld.param.u64 a0, [data]; ld.param.u32 r2, [by]; mov.u32 r3, %tid.x; mov.u32 r4, %ctaid.x; mov.u32 r5, %ntid.x;\n"
    "mad.lo.u32 r3, r4, r5, r3; mul.wide.u32 a1, r3, 20; add.s64 a0, a0, a1; ld.global.u32 r6, [a0];\n"
    "div.u32 r7, r6, r2; rem.u32 r8, r6, r2; div.s32 r9, r6, r2; rem.s32 r10, r6, r2;\n"
    "st.global.u32 [a0+4], r7; st.global.u32 [a0+8], r8; st.global.u32 [a0+12], r9; st.global.u32 [a0+16], r10;\n"
    "ret;\n}\n";

/* Around whole quotients, and any. */
static uint32_t dividend(uint32_t by)
{
    static const uint32_t some[] = { 0, 1, 0x7fffffff, 0x80000000, 0x80000001, UINT32_MAX };
    return any(8) == 0 ? some[any(6)] : any(4) ? by * any(UINT32_MAX) + any(3) - 1 : any(UINT32_MAX);
}

static void divide(uint32_t by)
{
    enum { VALUES = 512 };
    static uint32_t *data;
    const struct gpu_shape shape = { .grid = { VALUES / 128, 1, 1 }, .block = { 128, 1, 1 } };
    data = gpu_alloc(20 * VALUES);
    for (unsigned k = 0; k < VALUES; k++)
        data[5 * k] = dividend(by);
    const uint64_t arguments[3] = { ARG(data), VALUES, by };
    assert_int_equal(gpu_launch("k", &shape, 3, arguments, 60), CUDA_SUCCESS);
    for (unsigned k = 0; k < VALUES; k++) {
        const uint32_t a = data[5 * k];
        const int64_t x = (int32_t)a, y = (int32_t)by;
        const uint32_t wanted[4] = { by ? a / by : UINT32_MAX, by ? a % by : UINT32_MAX,
                                     (uint32_t)(by ? x / y : -1), (uint32_t)(by ? x % y : -1) };
        for (unsigned n = 0; n < 4; n++)
            if (data[5 * k + 1 + n] != wanted[n])
                fail_msg("%u and %u: result %u is %u, not %u", a, by, n, data[5 * k + 1 + n], wanted[n]);
    }
}

EXEC_TEST(quotients_by_one_divisor_are_exact)
{
    static const uint32_t some[] = { 0, 1, 2, 3, 7, 10, 49, 641, 65535, 65537, 0x7fffffff, 0x80000000, 0x80000001,
                                     0xfffffffe, UINT32_MAX };
    gpu_load(divides);
    for (unsigned k = 0; k < sizeof some / sizeof *some; k++)
        divide(some[k]);
    for (unsigned k = 0; k < 100; k++)
        divide(any(UINT32_MAX) >> any(31));
}

/* ---- loads of bytes, which have two ways ---- */

/* Stores 7fffffff, which a sum that is none has, from a register that gets something else between the loads. */
static const char sums_between_bytes[] =
    ".visible .entry k(.param .u64 data)\n{\n"
    ".reg .b32 r<16>; .reg .b64 a<8>; .reg .f32 f<8>;\n"
    "ld.param.u64 a0, [data]; mov.u32 r1, %tid.x; mul.wide.u32 a1, r1, 4; add.s64 a1, a1, a0;\n"
    "and.b32 r2, r1, 21; mul.wide.u32 a2, r2, 4; add.s64 a2, a2, a0;\n" /* not in steps */
    "and.b32 r3, r1, 0; or.b32 r3, r3, 0x7f800000; mov.b32 f1, r3; neg.f32 f2, f1; add.f32 f3, f1, f2;\n"
    "ld.global.u8 r4, [a2]; mov.f32 f4, f3; mov.b32 f3, r1; ld.global.u8 r5, [a2+1]; ld.global.u8 r6, [a2+2];\n"
    "or.b32 r4, r4, r5; or.b32 r4, r4, r6; st.global.u32 [a1+128], r4; st.global.f32 [a1+256], f4;\nret;\n}\n";

EXEC_TEST(sums_that_are_none_are_canonical_between_loads_of_bytes)
{
    enum { BYTES = 256 };
    gpu_load(sums_between_bytes);
    uint32_t *end = (uint32_t *)(void *)(area() + AREA), *first = gpu_alloc(3 * SG_LANES * 4);
    for (unsigned k = 0; k < SG_LANES; k++)
        first[k] = k << 10 | k;
    for (unsigned near = 0; near < 2; near++) { /* one way, and the other, beside what is not mapped */
        uint32_t *data = near ? end - 3 * SG_LANES : first;
        memcpy(data, first, SG_LANES * 4);
        assert_int_equal(gpu_run("k", 1, SG_LANES, 1, ARG(data)), CUDA_SUCCESS);
        for (unsigned k = 0; k < SG_LANES; k++) {
            assert_int_equal(data[SG_LANES + k], (k & 21) | (k & 21) << 2);
            assert_int_equal(data[2 * SG_LANES + k], 0x7fffffff);
        }
    }
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
