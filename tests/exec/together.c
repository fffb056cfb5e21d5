/*
 * together.c: loads in one line of code at one row of addresses plus constants, which compiled code checks together
 * (softgpu/jit/together.c), do what the interpreter does, also where only some of them may be made.
 *
 * Random loops load from addresses that all lanes share, or that are side by side, near the end of what is mapped, and
 * go on by some bytes in each round: so all loads are inside at first, and one of them is the first that is not. Some
 * are odd, under a guard, or behind an instruction that changes the address. What a round has loaded is stored, and
 * stores stand between loads. Each loop is loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled. One
 * warp runs, so memory must be equal behind a fault, too.
 *
 * shows: software GPU: unrolled loops of loads that run over the end of memory, or become odd, give the same fault, and
 *   leave the same memory, whether they are interpreted or compiled
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { GRANULE = 2 << 20, MAPPED = 192 << 20, ROUNDS = 24, OUT = SG_LANES * 4 * (ROUNDS + 1) };

/* Behind it nothing is mapped (harness.c). */
static uint64_t end_of_memory(void)
{
    return ((uint64_t)(uintptr_t)gpu_alloc(64) & ~(uint64_t)(GRANULE - 1)) + MAPPED;
}

static unsigned labels;

static const char *guard(void) { return any(10) ? "" : any(2) ? "@p1 " : "@!p1 "; }

static int offset(unsigned size) { return (int)(any(16) ? any(24) * size : any(200)) - (any(4) ? 0 : 64); }

static void put_load(void)
{
    static const struct { const char *type; unsigned size; } kinds[] = {
        { "u8", 1 }, { "s8", 1 }, { "u16", 2 }, { "s16", 2 }, { "u32", 4 }, { "u32", 4 }, { "u32", 4 }, { "u32", 4 } };
    const unsigned kind = any(10);
    if (kind < 8)
        put("%sld.global.%s r11, [a%u+%d];\n", guard(), kinds[kind].type, any(6) ? 3 : 5, offset(kinds[kind].size));
    else if (kind == 8)
        put("%sld.global.u64 a6, [a3+%d]; cvt.u32.u64 r11, a6;\n", guard(), offset(8));
    else
        put("%sld.global.v%s, [a3+%d]; xor.b32 r11, r11, r12;\n", guard(), any(2) ? "2.u32 {r11, r12}" :
            "4.u32 {r11, r12, r13, r14}", offset(16));
    put("mad.lo.u32 r20, r20, 5, r11;\n");
}

static void put_between(void)
{
    switch (any(14)) {
    case 0: put("add.s64 a3, a3, %u;\n", any(3) ? 4 * any(3) : any(4)); break;
    case 1: put("@p1 add.s64 a3, a3, 8;\n"); break;
    case 2: put("st.global.u32 [a2], r20;\n"); break;
    case 3: put("mov.b64 a5, a3;\n"); break;
    case 4: put("and.b32 r15, r20, %u; setp.eq.u32 p2, r15, 0; @p2 bra OVER%u;\nadd.u32 r20, r20, 77;\nOVER%u:\n",
                any(2), labels, labels);
            labels++; break;
    default: put("xor.b32 r20, r20, r%u;\n", 11 + any(4));
    }
}

/* The address is that of all lanes, or each lane has its own. */
static void put_loop(void)
{
    static const unsigned steps[] = { 0, 0, 0, 4, 4, 8, 2, 1, 16, 12 };
    kernel_begin();
    labels = 0;
    put(".visible .entry k(.param .u64 from, .param .u64 to, .param .u32 n, .param .u64 s)\n{\n"
        ".reg .pred p<8>; .reg .b32 r<32>; .reg .b64 a<16>;\n"
        "ld.param.u64 a3, [from]; ld.param.u64 a2, [to]; ld.param.u32 r1, [n]; ld.param.u64 a4, [s];\n"
        "mov.u32 r3, %%tid.x; mul.wide.u32 a1, r3, 4; add.s64 a2, a2, a1; setp.lt.u32 p1, r3, %u;\n"
        "mul.wide.u32 a1, r3, %u; add.s64 a3, a3, a1; mov.b64 a5, a3; mov.u32 r7, 0;\n"
        "mov.u32 r11, 1; mov.u32 r12, 2; mov.u32 r13, 3; mov.u32 r14, 4; mov.u32 r20, 5;\nLOOP:\n",
        any(3) ? 33 : any(32), steps[any(sizeof steps / sizeof *steps)]);
    for (unsigned k = 2 + any(8); k; k--) {
        put_load();
        if (any(2))
            put_between();
    }
    put("add.s64 a2, a2, %u; st.global.u32 [a2], r20; add.s64 a3, a3, a4; add.u32 r7, r7, 1;\n"
        "setp.lt.u32 p3, r7, r1; @p3 bra LOOP;\nret;\n}\n", 4 * SG_LANES);
}

EXEC_TEST(loops_of_loads_at_the_end_of_memory)
{
    enum { LOOPS = 1500, LAUNCHES = 4 };
    unsigned faults = 0, all = 0;
    for (unsigned k = 0; k < 1 + LOOPS / exec_share(); k++) {
        unsigned modules[2];
        put_loop();
        twice_load(kernel.text, modules);
        const uint64_t end = end_of_memory();
        unsigned char *to = gpu_alloc(OUT);
        for (unsigned n = 0; n < LAUNCHES; n++, all++) {
            const uint64_t by = any(4) ? 4 * any(9) : any(40),
                           back = any(2) ? 2048 : any(3) ? any(64) * 16 : any(900);
            for (unsigned at = 0; at < 4096; at++)
                ((unsigned char *)(uintptr_t)end)[(int)at - 4096] = (unsigned char)any(256);
            const struct twice_launch launch = { .shape = { .grid = { 1, 1, 1 }, .block = { SG_LANES, 1, 1 } },
                                                 .count = 4,
                                                 .arguments = { end - back - 64, (uintptr_t)to, 1 + any(ROUNDS), by },
                                                 .memory = { { .at = to, .size = OUT } } };
            faults += twice_compare(modules, &launch, kernel.text) != CUDA_SUCCESS;
        }
        gpu_reset();
    }
    print_message("# %u of %u launches ended with a fault\n", faults, all);
    assert_in_range(faults, all / 10, all / 10 * 9);
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
