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
    "add.f64 d4, d1, d2;", "sub.f64 d4, d1, d2;", "mul.f64 d4, d1, d2;", "fma.rn.f64 d4, d1, d2, d3;",
    "div.rn.f64 d4, d1, d2;", "rcp.rn.f64 d4, d1;", "sqrt.rn.f64 d4, d1;",
    "rcp.approx.ftz.f64 d4, d1;", "rsqrt.approx.f64 d4, d1;", "rsqrt.approx.ftz.f64 d4, d1;",
    "cvt.rni.f32.f32 f4, f1;", "cvt.rzi.f32.f32 f4, f1;", "cvt.rmi.f32.f32 f4, f1;", "cvt.rpi.f32.f32 f4, f1;",
    "cvt.rni.s32.f32 r4, f1;", "cvt.rzi.s32.f32 r4, f1;", "cvt.rmi.s32.f32 r4, f1;", "cvt.rpi.s32.f32 r4, f1;",
    "cvt.rni.u32.f32 r4, f1;", "cvt.rzi.u32.f32 r4, f1;", "cvt.rmi.u32.f32 r4, f1;", "cvt.rpi.u32.f32 r4, f1;",
    "cvt.rn.f16.f32 h1, f1; cvt.u32.u16 r4, h1;", "cvt.f32.f16 f4, h1;",
    "cvt.rni.f64.f64 d4, d1;", "cvt.rzi.f64.f64 d4, d1;", "cvt.rmi.f64.f64 d4, d1;", "cvt.rpi.f64.f64 d4, d1;",
    "cvt.rni.s32.f64 r4, d1;", "cvt.rzi.s32.f64 r4, d1;", "cvt.rmi.s32.f64 r4, d1;", "cvt.rpi.s32.f64 r4, d1;",
    "cvt.rni.u32.f64 r4, d1;", "cvt.rzi.u32.f64 r4, d1;", "cvt.rmi.u32.f64 r4, d1;", "cvt.rpi.u32.f64 r4, d1;",
    "cvt.rn.f32.s64 f4, a2;", "cvt.rn.f32.u64 f4, a2;", "cvt.rn.f64.s64 d4, a2;", "cvt.rn.f64.u64 d4, a2;",
    "cvt.rn.f32.s16 f4, h1;", "cvt.rn.f32.s8 f4, h1;", "cvt.rn.f32.u8 f4, h1;", "cvt.rn.f32.s8 f4, r5;",
    "cvt.rn.f32.u16 f4, h1;", "@p1 fma.rm.f32 f4, f1, f2, f3;", "@!p1 ex2.approx.ftz.f32 f4, f1;",
    "mad.rp.f32 f4, f1, f2, f3;",
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
                   ".reg .pred p<4>; .reg .b16 h<2>; .reg .b32 r<8>; .reg .b64 a<8>; .reg .f32 f<8>; .reg .f64 d<8>;\n"
                   "ld.param.u64 a0, [data]; mov.u32 r0, %%tid.x; mov.u32 r1, %%ctaid.x; mov.u32 r2, %%ntid.x;\n"
                   "mad.lo.u32 r0, r1, r2, r0; mul.wide.u32 a1, r0, %zu; add.u64 a0, a0, a1;\n"
                   "mov.u32 r4, 0; mov.b32 f4, r4; mov.f64 d4, 0d0000000000000000; mov.u32 r3, 2;\n%s"
                   "ld.global.u64 a2, [a0]; ld.global.u64 a3, [a0+8]; ld.global.u64 a4, [a0+16];\n"
                   "mov.b64 {r5, _}, a2; mov.b32 f1, r5; mov.b64 {r5, _}, a3; mov.b32 f2, r5;\n"
                   "mov.b64 {r5, r6}, a4; mov.b32 f3, r5; mov.b64 d1, a2; mov.b64 d2, a3; mov.b64 d3, a4;\n"
                   "cvt.u16.u64 h1, a2; and.b32 r6, r6, 1; setp.eq.u32 p1, r6, 0;\n%s\n%s"
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

/* ---- NaNs that meet ---- */

/* D: one of the registers d1 to d6. P: p1 or p2. */
static const char *const lines[] = {
    "add.f64 D, D, D;", "sub.f64 D, D, D;", "mul.f64 D, D, D;", "fma.rn.f64 D, D, D, D;", "fma.rn.f64 D, D, D, D;",
    "fma.rn.f64 D, D, D, 0d3FE0000000000000;", "div.rn.f64 D, D, D;", "rcp.rn.f64 D, D;", "sqrt.rn.f64 D, D;",
    "neg.f64 D, D;", "abs.f64 D, D;", "min.f64 D, D, D;", "max.f64 D, D, D;", "setp.lt.f64 P, D, D;",
    "setp.neu.and.f64 P, D, D, P;", "selp.f64 D, D, D, P;", "mov.f64 D, D;", "mov.f64 D, 0d7FF8000000000123;",
    "@P mul.f64 D, D, D;", "@!P fma.rn.f64 D, D, D, D;", "@P neg.f64 D, D;", "@P mov.f64 D, D;",
    "mov.b64 {r5, r6}, D;", "mov.b64 D, {r5, r6};", "cvt.rn.f32.f64 f4, D;", "cvt.f64.f32 D, f4;",
    "add.f32 f4, f4, f2;", "xor.b32 r5, r5, r6;", "cvt.rzi.f64.f64 D, D;", "cvt.rni.s32.f64 r5, D;",
    "rcp.approx.ftz.f64 D, D;", "mul.f64 D, D, 0dBFF0000000000000;", "mul.f64 D, D, 0d3FF0000000000000;",
    "add.f64 D, D, 0d8000000000000000;", "st.global.f64 [a0+24], D;", "ld.global.f64 D, [a0+8];",
    "xor.pred P, P, P;", "@P xor.b32 r6, r6, r5;", "cvt.rn.f64.s32 D, r5;", "mul.wide.s32 a5, r5, r6;",
    "mov.b64 D, a5;", "mov.b64 a5, D;", "cvt.rn.f64.s64 D, a5;",
};

static size_t line_of_doubles(char *to)
{
    size_t n = 0;
    for (const char *text = lines[any(sizeof lines / sizeof *lines)]; *text; text++)
        if (*text == 'D' || *text == 'P')
            n += (size_t)sprintf(to + n, *text == 'D' ? "d%u" : "p%u", 1 + any(*text == 'D' ? 6 : 2));
        else
            to[n++] = *text;
    to[n++] = '\n';
    return n;
}

/* Some lines, now and then in a loop, as often for all lanes or each its own; some are jumped over by some lanes. */
static const char *kernel_of_doubles(void)
{
    static char body[TEXT];
    const bool loop = any(3);
    size_t n = (size_t)sprintf(body, "and.b32 r3, %s, 3; add.u32 r3, r3, 1; mov.f64 d4, d1; mov.f64 d5, d2;\n"
                                     "mov.f64 d6, d3; setp.lt.s32 p2, r5, 0; mov.u64 a5, a2;\nROUND:\n",
                               any(2) ? "r6" : "r1");
    for (unsigned part = 0; part < 3; part++) {
        for (unsigned k = any(6); k; k--)
            n += line_of_doubles(body + n);
        n += (size_t)sprintf(body + n, "@%sp%u bra OVER%u;\n", any(2) ? "!" : "", 1 + any(2), part);
        for (unsigned k = 1 + any(10); k; k--)
            n += line_of_doubles(body + n);
        n += (size_t)sprintf(body + n, "OVER%u:\n", part);
    }
    n += (size_t)sprintf(body + n, "sub.u32 r3, r3, 1; setp.ne.u32 p3, r3, 0;\n%smov.b32 r4, f4;\n"
                                   "xor.b32 r4, r4, r5; mad.lo.u32 r4, r4, 77, r6; cvt.u64.u32 a6, r4;\n",
                         loop ? "@p3 bra ROUND;\n" : "");
    for (unsigned k = 1; k < 7; k++)
        n += (size_t)sprintf(body + n, "mov.b64 a7, d%u; mad.lo.u64 a6, a6, 77, a7;\n", k);
    (void)sprintf(body + n, "xor.b64 a6, a6, a5; mov.b64 d4, a6; mov.u32 r4, 0; mov.b32 f4, r4;");
    assert_true(strlen(body) < sizeof body);
    return kernel_of(body, false);
}

EXEC_TEST(arithmetic_of_f64_has_the_nans_of_the_interpreter)
{
    enum { KERNELS = 400 };
    for (unsigned k = 0; k < KERNELS / exec_share() + 8; k++) {
        char what[32];
        struct thread *threads = gpu_alloc(COUNT * sizeof *threads);
        const unsigned often = 1 + any(40);
        for (unsigned t = 0; t < COUNT; t++)
            for (unsigned s = 0; s < 3; s++)
                threads[t].in[s] = any(often) ? (uint64_t)any(2) << 63 | (uint64_t)(1020 + any(6)) << 52 | any_word()
                                              : any_number();
        (void)snprintf(what, sizeof what, "kernel of f64 %u", k);
        compare(what, kernel_of_doubles(), threads);
    }
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
