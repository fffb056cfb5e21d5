/*
 * phases.c: kernels with barriers, whose blocks the compiler may run phase by phase (softgpu/exec/phases.h), do
 * what the interpreter does.
 *
 * Random kernels are loaded twice, once with FLYT_SOFTGPU_FUSED=off, which is never compiled. Their phases read and
 * write shared memory, some of it without a barrier between a read and a store; lanes and warps part, end, wait at
 * different barriers, and go round loops with and without a barrier in it; predicates and rows live from phase to
 * phase. Some access what is not mapped. The error must be equal, and all memory, or the line of the log that describes
 * the fault.
 *
 * shows: software GPU: random kernels with barriers leave the same memory, the same fault and the same message, whether
 *   their blocks are run by the interpreter or, from barrier to barrier, by compiled code
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { AREA = 64 << 10, WORDS = 1024 };

/* ---- kernels ----
   r1: the thread in its block, r4: how many there are, r3: in the grid; r6: its own value, r5 and r8: others. a1: its
   word of the data, r7: its word of `own`. */
#define START                                                                                                       \
    ".visible .entry k(.param .u64 data, .param .u32 rounds)\n{\n"                                                  \
    ".shared .align 4 .b8 own[%u];\n"                                                                               \
    ".reg .pred p<8>; .reg .b32 r<32>; .reg .b64 a<16>; .reg .f32 f<8>;\n"                                          \
    "ld.param.u64 a0, [data]; ld.param.u32 r2, [rounds]; mov.u32 r1, %%tid.x; mov.u32 r4, %%ntid.x;\n"              \
    "mov.u32 r9, %%ctaid.x; mov.u32 r12, %%tid.y; mad.lo.u32 r1, r12, r4, r1; mov.u32 r12, %%ntid.y;\n"             \
    "mul.lo.u32 r4, r4, r12; mad.lo.u32 r3, r9, r4, r1; mul.wide.u32 a1, r3, 4; add.s64 a1, a0, a1;\n"              \
    "ld.global.u32 r6, [a1]; mov.u32 r7, own; shl.b32 r10, r1, 2; add.u32 r7, r7, r10; st.shared.u32 [r7], r6;\n"   \
    "mov.u32 r5, r9; mov.u32 r8, 7; setp.lt.u32 p2, r1, %u; bar.sync 0;\n"

static unsigned labels;

/* An address of shared memory in r11: of another thread, or one that all share. */
static void put_other_place(void)
{
    switch (any(3)) {
    case 0:
        put("add.u32 r11, r1, %u; rem.u32 r11, r11, r4; shl.b32 r11, r11, 2;\n", 1 + any(100));
        put("mov.u32 r10, own; add.u32 r11, r11, r10;\n");
        break;
    case 1: put("xor.b32 r11, r7, %u;\n", 4u << any(5)); break;
    default: put("mov.u32 r11, own;\n");
    }
}

/* Instructions that compute, and loads and stores of what nobody else stores to. */
static void put_line(void)
{
    static const char *const texts[] = {
        "add.u32 r5, r5, r6;", "mad.lo.u32 r8, r8, r5, r1;", "xor.b32 r6, r6, r8;", "shr.u32 r8, r6, 3;",
        "ld.global.u32 r5, [a1];", "st.global.u32 [a1], r6;", "setp.lt.u32 p2, r5, r8;", "setp.eq.u32 p3, r9, 0;",
        "@p2 add.u32 r6, r6, 77;", "@!p3 mov.u32 r5, r1;", "@p2 st.global.u32 [a1], r8;", "add.u32 r5, r5, r9;",
        "ld.shared.u32 r8, [r7];", "@p3 ld.shared.u32 r5, [r7];", "setp.gt.u32 p4, r1, 40;", "@p4 xor.b32 r6, r6, r1;",
        "cvt.rn.f32.u32 f1, r6; mul.f32 f2, f1, 0f7f800000; sub.f32 f2, f2, f2; mov.b32 r5, f2;",
        "ld.global.u32 r8, [a1+8188];", "ld.global.u8 r8, [a1+2];", "mov.u32 r8, %laneid;", "popc.b32 r5, r6;",
        "membar.cta;",
    };
    put("%s\n", texts[any(sizeof texts / sizeof *texts)]);
}

static void put_lines(unsigned most)
{
    for (unsigned k = 0, count = any(most + 1); k < count; k++)
        put_line();
}

/* Threads for which it is true: whole warps, parts of one, or any. */
static void put_condition(void)
{
    switch (any(5)) {
    case 0: put("setp.ge.u32 p1, r1, %u;\n", 32 * any(5)); break;
    case 1: put("setp.ge.u32 p1, r1, %u;\n", any(70)); break;
    case 2: put("and.b32 r10, r1, %u; setp.eq.u32 p1, r10, 0;\n", 1u << any(7)); break;
    case 3: put("setp.lt.u32 p1, r5, r8;\n"); break;
    default: put("setp.eq.u32 p1, r9, %u;\n", any(3));
    }
}

/* One thread reads another's word, and each stores to its own: with or without a barrier between. */
static void put_exchange(bool barrier)
{
    put_other_place();
    put("ld.shared.u32 r5, [r11]; add.u32 r6, r6, r5;\n%s", barrier ? "bar.sync 0;\n" : "");
    put_lines(2);
    put("st.shared.u32 [r7], r6;\n");
}

/* A step of a sum over a tree; the threads that take part read what those behind them store in no phase of theirs. */
static void put_tree(unsigned label)
{
    const unsigned rest = 1u << any(7);
    put("setp.ge.u32 p1, r1, %u; @p1 bra L%u;\nld.shared.u32 r5, [r7]; ld.shared.u32 r8, [r7+%u];\n"
        "add.u32 r5, r5, r8; st.shared.u32 [r7], r5;\nL%u:\n", rest, label, 4 * rest, label);
}

static void put_phase(bool faults)
{
    const unsigned label = labels++;
    switch (faults && !any(3) ? 11 : any(11)) {
    case 0: put_tree(label); break;
    case 1: put_exchange(false); break;
    case 2: put_exchange(true); break;
    case 3:                                   /* lanes and warps that skip something, in one line or not */
        put_condition();
        put("@%sp1 bra L%u;\n", any(2) ? "!" : "", label);
        put_lines(6);
        if (any(2))
            put("st.shared.u32 [r7], r6;\n");
        put_lines(2);
        put("L%u:\n", label);
        break;
    case 4:                                   /* two ways */
        put_condition();
        put("@p1 bra L%u;\n", label);
        put_lines(4);
        put("bra M%u;\nL%u:\n", label, label);
        put_lines(4);
        put("M%u:\n", label);
        break;
    case 5:                                   /* a loop in a phase, with as many rounds for all or not */
        put("%s\nL%u:\n", any(2) ? "mov.u32 r14, r2;"
                              : "and.b32 r14, r1, 96; shr.u32 r14, r14, 5; add.u32 r14, r14, 1;", label);
        put_lines(4);
        put("sub.u32 r14, r14, 1; setp.ne.u32 p5, r14, 0; @p5 bra L%u;\n", label);
        break;
    case 6:                                   /* a barrier in a loop */
        put("mov.u32 r14, r2;\nL%u:\n", label);
        put_lines(2);
        put_exchange(true);
        put("sub.u32 r14, r14, 1; setp.ne.u32 p5, r14, 0; bar.sync 0; @p5 bra L%u;\n", label);
        break;
    case 7:                                   /* warps wait at different barriers */
        put("and.b32 r10, r1, 32; setp.eq.u32 p1, r10, 0; @p1 bra L%u;\n", label);
        put_lines(3);
        put("bar.sync 0;\nbra M%u;\nL%u:\n", label, label);
        put_lines(3);
        put("bar.sync 0;\nM%u:\n", label);
        break;
    case 8:                                   /* threads end before a barrier */
        if (any(3)) {
            put_lines(4);
        } else {
            put_condition();
            put("@p1 exit;\n");
        }
        break;
    case 9:
        put_other_place();
        put("bar.sync 0; red.shared.add.u32 [r11], r1; bar.sync 0;\n");
        break;
    case 11:
        put_condition();
        put("@p1 ld.global.u32 r8, [a1+%u];\n", any(2) ? 1u << 30 : 1 + any(3));
        break;
    default: put_lines(6);
    }
}

static const char *random_kernel(bool faults)
{
    kernel_begin();
    put(START, 4 * WORDS, any(100));
    labels = 0;
    for (unsigned k = 0, count = 1 + any(7); k < count; k++) {
        put_phase(faults);
        put_lines(2);
        put("bar.sync 0;\n");
    }
    put("bar.sync 0; ld.shared.u32 r10, [r7]; xor.b32 r6, r6, r5; add.u32 r6, r6, r8; xor.b32 r6, r6, r10;\n"
        "selp.u32 r10, 5, 9, p2; add.u32 r6, r6, r10; selp.u32 r10, 50, 90, p3; add.u32 r6, r6, r10;\n"
        "ld.shared.u32 r10, [own+8]; add.u32 r6, r6, r10; st.global.u32 [a1], r6;\nret;\n}\n");
    return kernel.text;
}

/* ---- runs ---- */

/* All blocks have room at once, and run in their order. */
static struct gpu_shape any_shape(void)
{
    static const uint32_t lines_of[] = { 32, 64, 96, 128, 256, 80, 128, 128 };
    struct gpu_shape s = { .grid = { 1 + any(4), 1, 1 }, .block = { lines_of[any(8)], 1, 1 } };
    if (!any(4)) {
        s.block[0] = any(2) ? 16 : 32;
        s.block[1] = 2 + 2 * any(4);
    }
    return s;
}

static void compare(unsigned char *memory, const unsigned modules[2], unsigned faults[2])
{
    static unsigned char before[AREA];
    const struct twice_launch l = { .shape = any_shape(), .count = 2, .arguments = { ARG(memory) + 64, 1 + any(4) },
                                    .memory = { { memory, before, AREA } }, .open_after_faults = true };
    char what[64];
    snprintf(what, sizeof what, "grid %u of %u,%u", l.shape.grid[0], l.shape.block[0], l.shape.block[1]);
    for (unsigned b = 0; b < AREA; b++)
        before[b] = (unsigned char)any(256);
    faults[twice_compare(modules, &l, what) != CUDA_SUCCESS]++;
}

EXEC_TEST(kernels_with_barriers_are_as_the_interpreter_runs_them)
{
    enum { KERNELS = 400, RUNS = 6 };
    unsigned faults[2] = { 0, 0 };
    const unsigned kernels = KERNELS / exec_share();
    for (unsigned k = 0; k < kernels; k++) {
        unsigned modules[2];
        twice_load(random_kernel(k % 3 == 0), modules);
        for (unsigned round = 0; round < RUNS; round++)
            compare(gpu_alloc(AREA), modules, faults);
        gpu_reset();
    }
    assert_true(faults[0] > kernels && faults[1] > kernels / 20);
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
