/*
 * arithmetic.c: operations of floats, each in a kernel of its own, on numbers that arithmetic treats apart and on any
 * others. Each kernel is loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled; results must have
 * the same bits. Under FLYT_SOFTGPU_JIT=always the first copy is compiled.
 *
 * shows: software GPU: each rounding, approximation and conversion of floats has the same bits, NaNs too, whether it is
 *   interpreted or compiled
 */
#include <math.h>

#include "tests/exec/twice.h"

enum { BLOCK = 64, COUNT = 1 << 14, TEXT = 8192 };

static uint64_t seed = 20261130;
static uint32_t any(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

struct thread { uint64_t in[3], out; };

/* From f1 to f3 and d1 to d3, which have the numbers, to f4, d4 or r4. */
static const char *const operations[] = {
    "ex2.approx.f32 f4, f1;", "ex2.approx.ftz.f32 f4, f1;", "lg2.approx.f32 f4, f1;", "lg2.approx.ftz.f32 f4, f1;",
    "sin.approx.f32 f4, f1;", "sin.approx.ftz.f32 f4, f1;", "cos.approx.f32 f4, f1;", "cos.approx.ftz.f32 f4, f1;",
    "tanh.approx.f32 f4, f1;", "div.approx.f32 f4, f1, f2;", "div.approx.ftz.f32 f4, f1, f2;",
    "rcp.approx.f32 f4, f1;", "rcp.approx.ftz.f32 f4, f1;", "sqrt.approx.ftz.f32 f4, f1;",
    "rsqrt.approx.f32 f4, f1;", "rsqrt.approx.ftz.f32 f4, f1;", "div.rn.ftz.f32 f4, f1, f2;",
    "rcp.approx.ftz.f64 d4, d1;", "rsqrt.approx.f64 d4, d1;", "rsqrt.approx.ftz.f64 d4, d1;",
    "cvt.rni.f64.f64 d4, d1;", "cvt.rzi.f64.f64 d4, d1;", "cvt.rmi.f64.f64 d4, d1;", "cvt.rpi.f64.f64 d4, d1;",
    "cvt.rni.s32.f64 r4, d1;", "cvt.rzi.s32.f64 r4, d1;", "cvt.rmi.s32.f64 r4, d1;", "cvt.rpi.s32.f64 r4, d1;",
    "cvt.rni.u32.f64 r4, d1;", "cvt.rzi.u32.f64 r4, d1;", "cvt.rmi.u32.f64 r4, d1;", "cvt.rpi.u32.f64 r4, d1;",
    "@p1 fma.rm.f32 f4, f1, f2, f3;", "@!p1 ex2.approx.ftz.f32 f4, f1;", "mad.rp.f32 f4, f1, f2, f3;",
};

/* Each with every mode, .ftz and .sat. */
static const char *const sums[] = { "add.%s%s%s.f32 f4, f1, f2;", "sub.%s%s%s.f32 f4, f1, f2;",
                                    "mul.%s%s%s.f32 f4, f1, f2;", "fma.%s%s%s.f32 f4, f1, f2, f3;" };

static uint32_t any_word(void)
{
    static const uint32_t words[] = {
        0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x00800001, 0x7f7fffff,
        0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x7fffffff, 0xffffffff, 0x3f800000,
        0xbf800000, 0x3f7fffff, 0x3f800001, 0x33800000, 0x4b400001, 0x437c0000, 0x42fe0000, 0x43000000, 0x42ffffff,
        0xc2fc0000, 0xc2fc0001, 0xc3150000, 0xc3158000, 0xc3160000, 0xc3200001, 0x3f000000, 0xbf000000, 0x49800000,
        0x49800001, 0x7e800000, 0x7e800001, 0x3c000000, 0x3bffffff, 0x4f000000, 0xcf000000, 0x4f800000,
    };
    switch (any(4)) {
    case 0: return words[any(sizeof words / sizeof *words)];
    case 1: return any(UINT32_MAX);
    case 2: return (any(2) << 31) + ((100 + any(60)) << 23) + (any(1 << 23) & -1u << any(24)); /* few digits, often */
    default: return (any(2) << 31) + ((117 + any(20)) << 23) + any(1 << 23);
    }
}

/* As f64, or f32 in the low half. */
static uint64_t any_number(void)
{
    static const uint64_t numbers[] = {
        0, 0x8000000000000000, 1, 0x000fffffffffffff, 0x0010000000000000, 0x7ff0000000000000, 0xfff0000000000000,
        0x7ff8000000000000, 0xfff8000000012345, 0x7ff0000000000001, 0x7fffffffffffffff, 0x41dfffffffffffff,
        0x41e0000000000000, 0xc1e0000000000000, 0xc1e0000000200000, 0x41efffffffe00000, 0x41f0000000000000,
        0x3fe0000000000000, 0xbfe0000000000000, 0x3fefffffffffffff, 0x4330000000000001, 0x7fd0000000000001,
    };
    const uint64_t low = any_word();
    switch (any(4)) {
    case 0: return numbers[any(sizeof numbers / sizeof *numbers)];
    case 1: return (uint64_t)any(2) << 63 | (uint64_t)(1010 + any(60)) << 52 | (uint64_t)any(1 << 20) << 32 | low;
    default: return (uint64_t)any_word() << 32 | low;
    }
}

static const char *kernel_of(const char *operation, bool loop)
{
    static char ptx[2 * TEXT];
    (void)snprintf(ptx, sizeof ptx,
                   ".visible .entry k(.param .u64 data)\n{\n"
                   ".reg .pred p<4>; .reg .b32 r<8>; .reg .b64 a<8>; .reg .f32 f<8>; .reg .f64 d<8>;\n"
                   "ld.param.u64 a0, [data]; mov.u32 r0, %%tid.x; mov.u32 r1, %%ctaid.x; mov.u32 r2, %%ntid.x;\n"
                   "mad.lo.u32 r0, r1, r2, r0; mul.wide.u32 a1, r0, %zu; add.u64 a0, a0, a1;\n"
                   "mov.u32 r4, 0; mov.b32 f4, r4; mov.f64 d4, 0d0000000000000000; mov.u32 r3, 2;\n%s"
                   "ld.global.u64 a2, [a0]; ld.global.u64 a3, [a0+8]; ld.global.u64 a4, [a0+16];\n"
                   "mov.b64 {r5, _}, a2; mov.b32 f1, r5; mov.b64 {r5, _}, a3; mov.b32 f2, r5;\n"
                   "mov.b64 {r5, r6}, a4; mov.b32 f3, r5; mov.b64 d1, a2; mov.b64 d2, a3; mov.b64 d3, a4;\n"
                   "and.b32 r6, r6, 1; setp.eq.u32 p1, r6, 0;\n%s\n%s"
                   "mov.b32 r5, f4; xor.b32 r5, r5, r4; cvt.u64.u32 a5, r5; mov.b64 a6, d4; xor.b64 a5, a5, a6;\n"
                   "st.global.u64 [a0+24], a5;\nret;\n}\n",
                   sizeof(struct thread), loop ? "AGAIN:\n" : "", operation,
                   loop ? "sub.u32 r3, r3, 1; setp.ne.u32 p2, r3, 0; @p2 bra AGAIN;\n" : "");
    return ptx;
}

static void compare(const char *what, const char *kernel, struct thread *threads)
{
    static uint64_t expected[COUNT];
    unsigned modules[2];
    twice_load(kernel, modules);
    for (int plain = 1; plain >= 0; plain--) {
        gpu_select(modules[plain]);
        assert_int_equal(gpu_run("k", COUNT / BLOCK, BLOCK, 1, ARG(threads)), CUDA_SUCCESS);
        for (unsigned t = 0; t < COUNT && plain; t++)
            expected[t] = threads[t].out;
    }
    for (unsigned t = 0; t < COUNT; t++)
        if (threads[t].out != expected[t])
            fail_msg("%s of %016llx, %016llx, %016llx: %016llx, plain %016llx", what,
                     (unsigned long long)threads[t].in[0], (unsigned long long)threads[t].in[1],
                     (unsigned long long)threads[t].in[2], (unsigned long long)threads[t].out,
                     (unsigned long long)expected[t]);
    gpu_reset();
}

static void check(const char *operation, bool loop)
{
    struct thread *threads = gpu_alloc(COUNT * sizeof *threads);
    for (unsigned t = 0; t < COUNT; t++)
        for (unsigned k = 0; k < 3; k++)
            threads[t].in[k] = any_number();
    compare(operation, kernel_of(operation, loop), threads);
}

EXEC_TEST(functions_have_the_bits_of_the_interpreter)
{
    for (size_t k = 0; k < sizeof operations / sizeof *operations; k++)
        check(operations[k], k & 1);
}

EXEC_TEST(sums_have_the_bits_of_the_interpreter_in_each_mode)
{
    static const char *const modes[] = { "rn", "rz", "rm", "rp" };
    for (unsigned k = 0; k < sizeof sums / sizeof *sums * 16; k++) {
        char text[64];
        (void)snprintf(text, sizeof text, sums[k / 16], modes[k & 3], k & 4 ? ".ftz" : "", k & 8 ? ".sat" : "");
        check(text, k & 1);
    }
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
