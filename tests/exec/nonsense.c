/* nonsense.c: PTX that no compiler makes: what would lead out of a table, a row of registers or a buffer of the
 * software GPU is refused when it is decoded, or ends the grid with an error.
 *
 * shows: hostile PTX: shapes and types of matrices, sizes of vectors, registers and launches that do not exist are
 *   refused, and chains of events end however long they are; nothing of this ends the process
 */
#include "tests/exec/main.h"

#define EIGHT "{d0, d1, d2, d3, d4, d5, d6, d7}"

EXEC_TEST(what_would_lead_out_of_a_buffer_is_refused)
{
    static const char *const bodies[] = {
        /* more elements than the product of doubles has room for, in mma's layout and in wmma's */
        "mma.sync.aligned.m8n32k4.row.col.f64.f64.f64.f64 " EIGHT ", {d0}, {d0, d1, d2, d3}, " EIGHT ";",
        "wmma.mma.sync.aligned.row.col.m8n32k4.f64.f64.f64.f64 " EIGHT ", {d0}, {d0, d1, d2, d3}, " EIGHT ";",
        "mma.sync.aligned.m16n16k8.row.col.f64.f64.f64.f64 " EIGHT ", {d0, d1, d2, d3}, {d0, d1, d2, d3}, " EIGHT ";",
        /* doubles among floats */
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f64 {f0, f1, f2, f3}, {r0, r1}, {r2}, {d0, d1, d2, d3};",
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f64.f32 {f0, f1, f2, f3}, {r0, r1}, {d0, d1}, {f0, f1, f2, f3};",
        /* results that are none of hardware's */
        "mma.sync.aligned.m16n8k8.row.col.bf16.f16.f16.f32 {r4, r5}, {r0, r1}, {r2}, {f0, f1, f2, f3};",
        "mma.sync.aligned.m16n8k8.row.col.e4m3.f16.f16.f32 {r4}, {r0, r1}, {r2}, {f0, f1, f2, f3};",
        "mma.sync.aligned.m16n8k16.row.col.s8.s8.s8.s32 {r4}, {r0, r1}, {r2}, {r5, r6, r7, r8};",
        /* columns that mma's layout has no place for */
        "mma.sync.aligned.m16n16k8.row.col.f32.f16.f16.f32 {f0, f1, f2, f3, f4, f5, f6, f7}, {r0, r1}, {r2, r3}, "
        "{f0, f1, f2, f3, f4, f5, f6, f7};",
        /* vectors of more than 32 bytes, and of elements that are vectors */
        "ld.global.v8.b64 {a1, a2, a3, a4, a5, a6, a7, a8}, [a0];",
        "st.global.v8.b64 [a0], {a1, a2, a3, a4, a5, a6, a7, a8};",
        ".reg .b128 q<4>; ld.global.v4.b128 {q0, q1, q2, q3}, [a0];",
        ".reg .b128 q<4>; st.global.v2.b128 [a0], {q0, q1};",
        /* values that are wider than the register */
        "mov.b64 r4, {r0, r1};",
        ".reg .b128 q; mov.b128 a1, {a2, a3};",
        "mov.v2.b64 {r4, r5}, {a1, a2};",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char ptx[4096];
        snprintf(ptx, sizeof ptx, ".visible .entry k(.param .u64 out)\n{\n%s%s\nret;\n}\n", HEAD, bodies[i]);
        if (!gpu_refuses(ptx, "k"))
            fail_msg("not refused: %s", bodies[i]);
        gpu_reset();
    }
}

#define SYSCALL(result, name, parameters) \
    ".extern .func (.param " result " r) __cuda_syscall_cnpv2" name " (" parameters ");\n"
#define LAUNCHES(shared)                                                                                               \
    SYSCALL(".b64", "GetParameterBufferV2",                                                                            \
            ".param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param " shared " s")                \
    SYSCALL(".b32", "LaunchDeviceV2", ".param .b64 p, .param .b64 s")
#define ONE(name)                                                                                                      \
    ".param .align 4 .b8 " name "[12]; st.param.b32 [" name "], 1; st.param.b32 [" name "+4], 1; "                     \
    "st.param.b32 [" name "+8], 1;\n"
/* Launches `child` with the parameter a0 in one thread; the error goes to out[2]. */
#define LAUNCH(shared, value)                                                                                          \
    "mov.u64 a1, child;\n{\n.param .b64 p0; st.param.b64 [p0], a1;\n" ONE("p1") ONE("p2")                              \
    ".param " shared " p3; st.param" shared " [p3], " value "; .param .b64 p4;\n"                                      \
    "call.uni (p4), __cuda_syscall_cnpv2GetParameterBufferV2, (p0, p1, p2, p3);\nld.param.b64 a2, [p4];\n}\n"          \
    "st.u64 [a2], a0;\n"                                                                                               \
    "{\n.param .b64 p0; st.param.b64 [p0], a2; .param .b64 p1; st.param.b64 [p1], 0; .param .b32 p2;\n"                \
    "call.uni (p2), __cuda_syscall_cnpv2LaunchDeviceV2, (p0, p1);\nld.param.b32 r5, [p2];\n}\n"                        \
    "st.global.u32 [a0+8], r5;\n"

/* A child that does not end before the kernel says so, and behind it a chain of waits for an event that was never
   recorded: all of them end when the child does. */
EXEC_TEST(chains_of_waits_end)
{
    gpu_load(LAUNCHES(".b32") SYSCALL(".b32", "EventCreate", ".param .b64 p, .param .b32 flags")
             SYSCALL(".b32", "StreamWaitEvent", ".param .b64 s, .param .b64 e")
             KERNEL("child", "L: ld.volatile.global.u32 r4, [a0]; setp.eq.u32 p1, r4, 0;\n@p1 bra L;\n"
                    "st.global.u32 [a0+4], 1;")
             KERNEL("k", LAUNCH(".b32", "0") "add.u64 a3, a0, 64;\n"
                    "{\n.param .b64 p0; st.param.b64 [p0], a3; .param .b32 p1; st.param.b32 [p1], 2; .param .b32 p2;\n"
                    "call.uni (p2), __cuda_syscall_cnpv2EventCreate, (p0, p1);\nld.param.b32 r5, [p2];\n}\n"
                    "st.global.u32 [a0+12], r5; ld.global.u64 a4, [a3]; mov.u32 r6, 0;\nW:\n"
                    "{\n.param .b64 p0; st.param.b64 [p0], 0; .param .b64 p1; st.param.b64 [p1], a4; .param .b32 p2;\n"
                    "call.uni (p2), __cuda_syscall_cnpv2StreamWaitEvent, (p0, p1);\nld.param.b32 r5, [p2];\n}\n"
                    "add.u32 r6, r6, 1; setp.lt.u32 p1, r6, 300000;\n@p1 bra W;\nst.volatile.global.u32 [a0], 1;"));
    uint32_t *out = gpu_written("k", 1, 1, 128);
    assert_int_equal(out[1], 1);
    assert_int_equal(out[2], 0);
    assert_int_equal(out[3], 0);
}

/* Shared memory of a launch in a kernel, as a number of 64 bits: with the child's own it would become a small one. */
EXEC_TEST(sizes_do_not_wrap)
{
    gpu_load(LAUNCHES(".b64") KERNEL("child", ".shared .b8 s[256]; st.shared.u32 [s], 1; st.global.u32 [a0+4], 1;")
             KERNEL("k", LAUNCH(".b64", "-128")));
    uint32_t *out = gpu_written("k", 1, 1, 128);
    assert_int_equal(out[2], 7);                      /* CONFIGURATION in device_runtime.c */
    assert_int_equal(out[1], 0);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
