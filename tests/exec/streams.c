/*
 * streams.c: kernels whose lanes go through memory of their own in loops, several elements at a time, do what the
 * interpreter does.
 *
 * Random kernels load and store neighbours: bytes, words, members of structures, in any order, with arithmetic between.
 * Lanes are in equal steps, of any size, or anywhere; what they store may be what they load. They leave their loops at
 * once or one after the other. Each kernel is loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled.
 * Each warp has memory of its own, so that the order of warps does not matter.
 *
 * shows: software GPU: random kernels whose lanes go through structures and bytes of their own leave the same memory,
 *   whether they are interpreted or compiled
 */
#include <stdlib.h>

#include "tests/exec/twice.h"

enum { GRID = 2, THREADS = 80, WARPS = 3, REGION = 8192, REGIONS = GRID * WARPS * REGION, ROWS = 6, TEXT = 16384 };
enum { OUT = 4 * (ROWS + 4) * GRID * THREADS, ALL = OUT + REGIONS };

static uint64_t seed = 20261130;
static uint32_t any(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static char ptx[TEXT];
static size_t length;
static unsigned labels;
static bool eights;                   /* addresses are multiples of 8, else of 4 */
static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    length += (size_t)vsnprintf(ptx + length, TEXT - length, format, arguments);
    va_end(arguments);
    assert_true(length < TEXT);
}

/* r10 and on, f1 to f4 and a10 to a12 are what kernels compute with. */
static unsigned row(void) { return 10 + any(ROWS); }
static unsigned real(void) { return 1 + any(4); }
static unsigned wide(void) { return 10 + any(3); }

static void put_arithmetic(void)
{
    switch (any(9)) {
    case 0: put("add.s32 r%u, r%u, r%u;\n", row(), row(), row()); break;
    case 1: put("shl.b32 r%u, r%u, %u;\n", row(), row(), any(24)); break;
    case 2: put("or.b32 r%u, r%u, r%u;\n", row(), row(), row()); break;
    case 3: put("add.f32 f%u, f%u, f%u;\n", real(), real(), real()); break;
    case 4: put("mul.f32 f%u, f%u, f%u;\n", real(), real(), real()); break;
    case 5: put("cvt.rn.f32.s32 f%u, r%u;\n", real(), row()); break;
    case 6: put("xor.b64 a%u, a%u, a%u;\n", wide(), wide(), wide()); break;
    case 7: put("mov.b32 r%u, f%u;\n", row(), real()); break;
    default: put("mul.wide.u32 a%u, r%u, r%u;\n", wide(), row(), row());
    }
}

static void put_load(unsigned size, unsigned offset)
{
    static const char *const bytes[2] = { "u8", "s8" }, *const halves[2] = { "u16", "s16" };
    if (size < 4)
        put("ld.global.%s r%u, [a2+%u];\n", (size == 1 ? bytes : halves)[any(2)], row(), offset);
    else if (size == 8)
        put("ld.global%s.u64 a%u, [a2+%u];\n", any(2) ? ".nc" : "", wide(), offset);
    else if (any(2))
        put("ld.global%s.u32 r%u, [a2+%u];\n", any(2) ? ".nc" : "", row(), offset);
    else
        put("ld.global.f32 f%u, [a2+%u];\n", real(), offset);
}

static void put_store(unsigned size, unsigned offset)
{
    if (size == 8)
        put("st.global.u64 [a3+%u], a%u;\n", offset, wide());
    else if (any(2))
        put("st.global.u32 [a3+%u], r%u;\n", offset, row());
    else
        put("st.global.f32 [a3+%u], f%u;\n", offset, real());
}

static void put_some_arithmetic(void)
{
    for (unsigned k = any(4); k > 1; k--)
        put_arithmetic();
}

static void put_loads(void)
{
    static const unsigned sizes[] = { 1, 1, 1, 2, 4, 4, 4, 8 };
    const unsigned size = sizes[any(7 + eights)];
    for (unsigned k = 0, count = 2 + any(16 / size > 6 ? 6 : 16 / size); k < count; k++) {
        const unsigned own = any(8) ? size : sizes[any(7 + eights)];
        put_load(own, any(any(10) ? 16 / own : 24 / own) * own);
        put_some_arithmetic();
    }
}

/* Neighbours, one after the other; loads between. */
static void put_stores(bool loads)
{
    const unsigned size = eights && any(2) ? 8 : 4, count = any(5) ? 16 / size : 2 + any(2), first = size * any(3);
    for (unsigned k = 0; k < count; k++) {
        if (loads)
            put_load(any(8) ? size : 4, size * k);
        put_some_arithmetic();
        put_store(any(20) ? size : 4, first + size * (any(20) ? k : any(count)));
    }
}

static void put_part(void)
{
    const unsigned label = labels++;
    const bool over = !any(3);
    if (over)
        put("and.b32 r8, r%u, %u; setp.eq.u32 p4, r8, 0; @p4 bra OVER%u;\n", any(2) ? 1 : row(), 1 + any(7), label);
    switch (any(4)) {
    case 0: put_stores(false); break;
    case 1: put_stores(true); break;
    default: put_loads();
    }
    put_some_arithmetic();
    if (over)
        put("OVER%u:\n", label);
}

/* Where the lane begins in its warp's memory. */
static void put_place(unsigned address)
{
    static const unsigned steps[] = { 64, 16, 16, 8, 8, 0, 40, 24, 20, 12, 4, 4, 4, 4 };
    const unsigned step = steps[any(eights ? 8 : 14)], first = 8 * any(REGION / 64);
    if (any(4))
        put("mul.lo.u32 r8, r4, %u;\n", step);
    else
        put("mad.lo.u32 r8, r4, 77, %u; xor.b32 r8, r8, r1; and.b32 r8, r8, %u; mul.lo.u32 r8, r8, %u;\n", any(99),
            any(2) ? 15 : 255, eights ? 8 : 4);
    put("cvt.u64.u32 a%u, r8; add.s64 a%u, a%u, a1; add.s64 a%u, a%u, %u;\n", address, address, address, address,
        address, first + (address == 3 && any(3) ? REGION / 2 : 0));
}

static const char *random_kernel(void)
{
    length = labels = 0;
    eights = any(2);
    put(".visible .entry k(.param .u64 out)\n{\n%s"
        "mov.u32 r4, %%laneid; mov.u32 r5, %%tid.x; shr.u32 r5, r5, 5; mad.lo.u32 r5, r2, %u, r5;\n"
        "mul.wide.u32 a1, r5, %u; add.s64 a1, a1, a0; add.s64 a1, a1, %u; mov.u32 r7, 0;\n",
        HEAD, WARPS, REGION, OUT);
    for (unsigned k = 0; k < ROWS; k++)
        put("mad.lo.u32 r%u, r1, %u, %u;\n", 10 + k, 1 + any(1000), any(1000));
    for (unsigned k = 0; k < 4; k++)
        put("cvt.rn.f32.u32 f%u, r%u;\n", 1 + k, 10 + k);
    for (unsigned k = 0; k < 3; k++)
        put("mul.wide.u32 a%u, r%u, r%u;\n", 10 + k, 10 + k, 11 + k);
    put_place(2);
    put_place(3);
    put(any(2) ? "mov.u32 r9, %u;\n" : "and.b32 r9, r11, 7; add.u32 r9, r9, %u;\n", 1 + any(3));
    put("LOOP:\n");
    for (unsigned part = 0; part < 1 + any(3); part++)
        put_part();
    const unsigned by = eights ? 8 : 4;
    put("add.s64 a2, a2, %u; add.s64 a3, a3, %u;\n", by * any(5), by * any(5));
    put("add.u32 r7, r7, 1; setp.lt.u32 p1, r7, r9; @p1 bra LOOP;\n");
    put_part();
    put("mul.wide.u32 a1, r1, %u; add.u64 a1, a1, a0;\n", 4 * (ROWS + 4));
    for (unsigned k = 0; k < ROWS; k++)
        put("st.global.u32 [a1+%u], r%u;\n", 4 * k, 10 + k);
    for (unsigned k = 0; k < 4; k++)
        put("st.global.f32 [a1+%u], f%u;\n", 4 * (ROWS + k), 1 + k);
    put("ret;\n}\n");
    return ptx;
}

EXEC_TEST(kernels_with_streams_are_as_the_interpreter_runs_them)
{
    enum { KERNELS = 800 };
    static unsigned char before[ALL];
    for (unsigned k = 0; k < 1 + KERNELS / exec_share(); k++) {
        unsigned modules[2];
        unsigned char *memory[2];
        twice_load(random_kernel(), modules);
        for (unsigned n = 0; n < ALL; n++)
            before[n] = (unsigned char)any(256);
        for (int plain = 0; plain < 2; plain++) {
            memory[plain] = gpu_alloc(ALL);
            memcpy(memory[plain], before, ALL);
            gpu_select(modules[plain]);
            assert_int_equal(gpu_run("k", GRID, THREADS, 1, ARG(memory[plain])), CUDA_SUCCESS);
        }
        for (unsigned n = 0; n < ALL; n++)
            if (memory[0][n] != memory[1][n])
                fail_msg("kernel %u, byte %u: %02x, plain %02x\n%s", k, n, memory[0][n], memory[1][n], ptx);
        gpu_reset();
    }
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
