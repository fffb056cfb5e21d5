/*
 * local.c: accesses of local memory and parameters of calls, as the compiler makes them, do what the interpreter does.
 *
 * Random kernels with an array of each thread, and a function with one of its own that they call, are loaded twice,
 * once with FLYT_SOFTGPU_FUSED=off, which is never compiled. Elements of all sizes and vectors of them are at places
 * that are known, the same for all lanes, or each lane's own; now and then not aligned, or outside. What threads leave
 * in their arrays and registers, the error and the line of the log that describes a fault must be equal.
 *
 * shows: software GPU: random kernels with arrays in local memory leave the same in them, and the same fault and
 *   message, whether they are interpreted or compiled
 */
#include "tests/exec/random.h"
#include "tests/exec/twice.h"

enum { THREADS = 64, ARRAY = 64, EACH = 2 * ARRAY, OUT = EACH * THREADS, VALUES = 32 * THREADS };

/* ---- kernels ---- */

/* a4: the array. Results of 64 bytes behind it. */
#define REGISTERS                                                                                          \
    ".reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<32>; .reg .b64 a<32>; .reg .f32 f<8>; .reg .f64 d<8>;\n" \
    ".local .align 16 .b8 m[64];\nmov.u64 a4, m;\n"
#define START                                                                                                     \
    ".func (.param .b64 z) g(.param .b64 x, .param .b32 y, .param .align 4 .b8 v[8])\n{\n" REGISTERS              \
    "ld.param.b64 a8, [x]; ld.param.b32 r4, [y]; ld.param.v4.u8 {r5, r6, r7, r8}, [v]; ld.param.u16 h4, [v+6];\n" \
    "and.b32 r13, r4, 56; cvt.u64.u32 a10, r13; add.s64 a10, a10, a4; st.local.u64 [a10], a8;\n"                  \
    "st.local.v4.u8 [m+8], {r8, r7, r6, r5}; ld.local.u64 a9, [m+8]; xor.b64 a9, a9, a8; cvt.u64.u16 a8, h4;\n"   \
    "setp.gt.u32 p1, r4, 1000; @p1 bra ELSE; shl.b64 a9, a9, 1; ELSE:\n"                                          \
    "add.u64 a9, a9, a8; st.param.b64 [z], a9;\nret;\n}\n"                                                        \
    ".visible .entry k(.param .u64 out, .param .u64 values, .param .u32 where)\n{\n" REGISTERS                    \
    "ld.param.u64 a0, [out]; ld.param.u64 a3, [values]; ld.param.u32 r3, [where]; mov.u32 r0, %tid.x;\n"          \
    "mul.wide.u32 a5, r0, 32; add.u64 a3, a3, a5; mul.wide.u32 a5, r0, 128; add.u64 a0, a0, a5;\n"                \
    "ld.global.v4.u32 {r4, r5, r6, r7}, [a3]; ld.global.v2.u64 {a8, a9}, [a3+16]; cvt.u64.u32 a7, r3;\n"          \
    "mov.b32 f4, r4; cvt.u16.u32 h4, r5; cvt.u16.u32 h5, r6; mov.b64 d4, a8; mov.b64 d5, a9;\n"                   \
    "setp.lt.u32 p1, r4, r5; st.local.v4.u32 [m+16], {r4, r5, r6, r7}; st.local.v2.u64 [m+32], {a8, a9};\n"
#define END                                                                                                       \
    "DONE: bar.sync 0;\nld.volatile.local.v2.u64 {a16, a17}, [m]; ld.volatile.local.v2.u64 {a18, a19}, [m+16];\n" \
    "ld.volatile.local.v2.u64 {a20, a21}, [m+32]; ld.volatile.local.v2.u64 {a22, a23}, [m+48];\n"                 \
    "st.global.v2.u64 [a0], {a16, a17}; st.global.v2.u64 [a0+16], {a18, a19};\n"                                  \
    "st.global.v2.u64 [a0+32], {a20, a21}; st.global.v2.u64 [a0+48], {a22, a23};\n"                               \
    "st.global.v4.u32 [a0+64], {r4, r5, r6, r7}; st.global.v2.u64 [a0+80], {a8, a9};\n"                           \
    "cvt.u32.u16 r13, h4; cvt.u32.u16 r14, h5; mov.b32 r15, f4; mov.b64 a16, d4; mov.b64 a17, d5;\n"              \
    "st.global.v4.u32 [a0+96], {r13, r14, r15, r15}; st.global.v2.u64 [a0+112], {a16, a17};\nret;\n}\n"

/* A: the address. */
static const struct access {
    const char *text;
    unsigned size;
} accesses[] = {
    { "ld.local.u8 r4, [A];", 1 },
    { "ld.local.s8 r5, [A];", 1 },
    { "ld.local.u8 h4, [A];", 1 },
    { "ld.local.s8 h5, [A];", 1 },
    { "ld.local.s8 a8, [A];", 1 },
    { "ld.local.u16 h4, [A];", 2 },
    { "ld.local.s16 r6, [A];", 2 },
    { "ld.local.u16 a9, [A];", 2 },
    { "ld.local.u32 r7, [A];", 4 },
    { "ld.local.f32 f4, [A];", 4 },
    { "ld.local.s32 a8, [A];", 4 },
    { "ld.local.u64 a9, [A];", 8 },
    { "ld.local.f64 d4, [A];", 8 },
    { "ld.local.v2.u8 {h4, r5}, [A];", 2 },
    { "ld.local.v4.u8 {r4, _, h5, r6}, [A];", 4 },
    { "ld.local.v2.s8 {r4, a8}, [A];", 2 },
    { "ld.local.v2.u16 {h5, r7}, [A];", 4 },
    { "ld.local.v4.s16 {r4, r5, h4, _}, [A];", 8 },
    { "ld.local.v2.u32 {r4, a8}, [A];", 8 },
    { "ld.local.v4.f32 {r4, r5, r6, r7}, [A];", 16 },
    { "ld.local.v2.f64 {d4, d5}, [A];", 16 },
    { "ld.volatile.local.u32 r5, [A];", 4 },
    { "st.local.u8 [A], r4;", 1 },
    { "st.local.u8 [A], h4;", 1 },
    { "st.local.u8 [A], 77;", 1 },
    { "st.local.s8 [A], a8;", 1 },
    { "st.local.u16 [A], h5;", 2 },
    { "st.local.u16 [A], r6;", 2 },
    { "st.local.u32 [A], r7;", 4 },
    { "st.local.f32 [A], f4;", 4 },
    { "st.local.u32 [A], a9;", 4 },
    { "st.local.u64 [A], a8;", 8 },
    { "st.local.f64 [A], d5;", 8 },
    { "st.local.v2.u8 [A], {h4, h5};", 2 },
    { "st.local.v4.u8 [A], {r4, h4, 3, r6};", 4 },
    { "st.local.v4.u16 [A], {h5, r4, h4, 9};", 8 },
    { "st.local.v2.u32 [A], {r4, a8};", 8 },
    { "st.local.v4.f32 [A], {r7, r6, r5, r4};", 16 },
    { "st.local.v2.f64 [A], {d5, d4};", 16 },
};

/* The place of an access of so many bytes, in the registers a10, a11 and r14 or by its name. */
static const char *place(unsigned bytes)
{
    static char name[32];
    const unsigned room = any(2) ? ARRAY : 16; /* each lane's place: all in one piece of 16 bytes, or anywhere */
    const unsigned align = any(50) ? ~(bytes - 1) : ~0u, behind = any(50) ? 0 : any(2) ? 64 : 4096;
    switch (any(6)) {
    case 0:
    case 1: (void)snprintf(name, sizeof name, "m+%u", (any(ARRAY) & align) + behind); return name;
    case 2:
        (void)snprintf(name, sizeof name, "a10+%u", behind);
        put("add.s64 a10, a4, %u;\n", any(ARRAY) & align);
        return name;
    case 3: /* known when the kernel begins */
        put("and.b64 a10, a7, %u; add.s64 a10, a10, a4;\n", (ARRAY - 1) & align);
        return "a10";
    case 4:
        put("and.b32 r14, r%u, %u; cvt.u32.u64 r15, a4; add.s32 r14, r14, r15;\n", 4 + any(4),
            ((room - 1) & align) + behind);
        return "r14";
    default:
        put("and.b32 r14, r%u, %u; cvt.u64.u32 a10, r14; add.s64 a10, a10, a4;\n", 4 + any(4),
            ((room - 1) & align) + behind);
        return "a10";
    }
}

static void put_access_line(void)
{
    static const char *const guards[] = { "@p1 ", "@!p1 ", "@p2 ", "", "", "", "", "" };
    const struct access *a = &accesses[any(sizeof accesses / sizeof *accesses)];
    const char *address = place(a->size);
    put_access(guards[any(8)], a->text, address);
}

static void put_other_line(void)
{
    switch (any(8)) {
    case 0: put("xor.b32 r%u, r%u, r%u;\n", 4 + any(4), 4 + any(4), 4 + any(4)); break;
    case 1: put("add.s64 a8, a8, a9; shr.u64 a9, a8, %u;\n", any(40)); break;
    case 2: put("setp.lt.u32 p%u, r%u, r%u;\n", 1 + any(2), 4 + any(4), 4 + any(4)); break;
    case 3: put("cvta.local.u64 a12, a4; ld.u32 r5, [a12+%u];\n", 4 * any(16)); break;
    case 4:
        put("cvta.local.u64 a12, a4; cvta.to.local.u64 a13, a12;\nst.local.u32 [a13+%u], r4;\n", 4 * any(16));
        break;
    case 5:
    case 6:
        put("{ .param .b64 x; .param .b32 y; .param .align 4 .b8 v[8]; .param .b64 z;\n"
            "st.param.b64 [x], a%u; st.param.b32 [y], r%u; st.param.v4.u8 [v], {r4, h4, 5, r6};\n"
            "st.param.v2.u16 [v+4], {h4, h5}; call (z), g, (x, y, v); ld.param.b64 a%u, [z]; }\n",
            8 + any(2), 4 + any(4), 8 + any(2));
        break;
    default: put("mov.b32 r%u, %u;\n", 4 + any(4), any(1u << 30));
    }
}

static const char *random_kernel(void)
{
    kernel_begin();
    put("%ssetp.lt.u32 p2, r5, r6; %s\nAGAIN:\n", START,
        any(2) ? "mov.u32 r20, 3;" : "shr.u32 r20, r6, 29; max.u32 r20, r20, 1;");
    for (int part = 0; part < 3; part++) {
        put("@%sp%u bra OVER%d;\n", any(2) ? "!" : "", 1 + any(2), part);
        for (uint32_t k = 0; k < 6; k++)
            any(3) ? put_access_line() : put_other_line();
        put("OVER%d:\n", part);
        put_access_line();
    }
    put("%s%s", "sub.u32 r20, r20, 1; setp.ne.u32 p3, r20, 0; @p3 bra AGAIN;\n", END);
    return kernel.text;
}

static void compare(unsigned char *memory, const unsigned modules[2], unsigned k, unsigned faults[2])
{
    const uint32_t threads = any(2) ? THREADS : 1 + any(THREADS), where = any(ARRAY);
    const struct twice_launch l = { .shape = { .grid = { 1, 1, 1 }, .block = { threads, 1, 1 } }, .count = 3,
                                    .arguments = { ARG(memory), ARG(memory + OUT), where },
                                    .memory = { { memory, NULL, OUT } } };
    char what[64];
    snprintf(what, sizeof what, "kernel %u, %u threads", k, threads);
    for (unsigned b = 0; b < VALUES; b++)
        memory[OUT + b] = (unsigned char)(any(3) ? any(256) : 0);
    faults[twice_compare(modules, &l, what) != CUDA_SUCCESS]++;
}

EXEC_TEST(local_memory_is_as_the_interpreter_has_it)
{
    enum { KERNELS = 400, RUNS = 6 };
    unsigned faults[2] = { 0, 0 };
    const unsigned kernels = KERNELS / exec_share();
    for (unsigned k = 0; k < kernels; k++) {
        unsigned modules[2];
        unsigned char *memory = gpu_alloc(OUT + VALUES);
        twice_load(random_kernel(), modules);
        for (unsigned round = 0; round < RUNS; round++)
            compare(memory, modules, k, faults);
        gpu_reset();
    }
    assert_true(faults[0] > kernels && faults[1] > kernels / 4);
}

int main(void) { return unit_run(twice_setup, exec_teardown); }
