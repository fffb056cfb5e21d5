/* children.c: kernels that launch kernels, through the system calls that libcudadevrt makes: order, ends, faults. */
#include "tests/exec/main.h"

#define CALLS                                                                                                         \
    ".extern .func (.param .b64 r) __cuda_syscall_cnpv2GetParameterBufferV2 (.param .b64 f, "                        \
    ".param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n"                                         \
    ".extern .func (.param .b32 r) __cuda_syscall_cnpv2LaunchDeviceV2 (.param .b64 p, .param .b64 s);\n"              \
    ".extern .func (.param .b32 r) __cuda_syscall_cnpv2StreamCreate (.param .b64 p, .param .b32 flags);\n"            \
    ".extern .func (.param .b32 r) __cuda_syscall_cnpv2StreamDestroy (.param .b64 s);\n"
/* launch(kernel, out, value, threads, stream) gives the error: a kernel with parameters (out, value) in one block. */
#define LAUNCH                                                                                                        \
    ".func (.param .b32 r) launch (.param .b64 k, .param .b64 o, .param .b32 v, .param .b32 t, .param .b64 s)\n{\n"   \
    ".reg .b64 q<4>; .reg .b32 n<4>; .reg .pred pp;\n"                                                                \
    "ld.param.u64 q0, [k]; ld.param.u64 q1, [o]; ld.param.u32 n0, [v]; ld.param.u32 n1, [t]; ld.param.u64 q2, [s];\n" \
    "{\n.param .b64 p0; st.param.b64 [p0], q0;\n"                                                                     \
    ".param .align 4 .b8 p1[12]; st.param.b32 [p1], 1; st.param.b32 [p1+4], 1; st.param.b32 [p1+8], 1;\n"             \
    ".param .align 4 .b8 p2[12]; st.param.b32 [p2], n1; st.param.b32 [p2+4], 1; st.param.b32 [p2+8], 1;\n"            \
    ".param .b32 p3; st.param.b32 [p3], 0; .param .b64 p4;\n"                                                         \
    "call.uni (p4), __cuda_syscall_cnpv2GetParameterBufferV2, (p0, p1, p2, p3);\nld.param.b64 q3, [p4];\n}\n"         \
    "setp.eq.u64 pp, q3, 0; mov.u32 n2, 4711;\n@pp bra E;\nst.u64 [q3], q1; st.u32 [q3+8], n0;\n"                     \
    "{\n.param .b64 p0; st.param.b64 [p0], q3; .param .b64 p1; st.param.b64 [p1], q2; .param .b32 p2;\n"              \
    "call.uni (p2), __cuda_syscall_cnpv2LaunchDeviceV2, (p0, p1);\nld.param.b32 n2, [p2];\n}\n"                       \
    "E: st.param.b32 [r], n2;\nret;\n}\n"
/* with the values in registers; the result in r20 */
#define CALL_LAUNCH(kernel, out, value, threads, stream)                                                              \
    "{\n.param .b64 l0; .param .b64 l1; .param .b32 l2; .param .b32 l3; .param .b64 l4; .param .b32 l5;\n"            \
    ".reg .b64 w<3>; .reg .b32 x<2>; mov.u64 w0, " kernel "; mov.u64 w1, " out "; mov.u64 w2, " stream "; " \
        "mov.u32 x0, " \
    value "; mov.u32 x1, " threads ";\n"                                                                              \
    "st.param.b64 [l0], w0; st.param.b64 [l1], w1; st.param.b32 [l2], x0; st.param.b32 [l3], x1; "                    \
    "st.param.b64 [l4], w2;\ncall.uni (l5), launch, (l0, l1, l2, l3, l4);\nld.param.b32 r20, [l5];\n}\n"
#define NOTE                                                                                                          \
    ".visible .entry note(.param .u64 out, .param .u32 value)\n{\n.reg .b64 a<4>; .reg .b32 r<4>; .reg .pred p;\n"    \
    "ld.param.u64 a0, [out]; ld.param.u32 r0, [value]; mov.u32 r2, %tid.x; setp.ne.u32 p, r2, 0;\n@p ret;\n"          \
    "atom.global.add.u32 r1, [a0], 1; mul.wide.u32 a1, r1, 4; add.u64 a1, a1, a0; st.global.u32 [a1+4], r0;\nret;\n}\n"
#define ALL CALLS LAUNCH NOTE

EXEC_TEST(children_run_in_order)
{
    gpu_load(ALL KERNEL("k", CALL_LAUNCH("note", "a0", "1000", "1", "3") CALL_LAUNCH("note", "a0", "1001", "64", "3")
                        "mov.u32 r5, 0;\nL:\n" CALL_LAUNCH("note", "a0", "r5", "33", "0")
                        "add.u32 r5, r5, 1; setp.lt.u32 p1, r5, 50;\n@p1 bra L;\n"));
    for (int i = 0; i < 20; i++) {
        uint32_t *out = gpu_written("k", 1, 1, 512);
        assert_int_equal(out[0], 52);
        for (uint32_t n = 0; n < 50; n++)
            assert_int_equal(out[1 + n], n);
        assert_int_equal(out[51], 1000);
        assert_int_equal(out[52], 1001);
    }
}

/* Every thread of 8 blocks launches. The grid is over only when the last child is. */
EXEC_TEST(a_grid_waits_for_its_children)
{
    gpu_load(ALL KERNEL("k", CALL_LAUNCH("note", "a0", "r1", "1", "4")));
    uint32_t *out = gpu_alloc(4096), seen[512] = { 0 };
    assert_int_equal(gpu_run("k", 8, 64, 1, ARG(out)), CUDA_SUCCESS);
    assert_int_equal(out[0], 512);
    for (uint32_t n = 0; n < 512; n++)
        seen[out[1 + n]]++;
    for (uint32_t n = 0; n < 512; n++)
        assert_int_equal(seen[n], 1);
}

EXEC_TEST(streams_are_made_and_ended)
{
    gpu_load(ALL KERNEL("k",
                        "add.u64 a1, a0, 1024; mov.u64 a2, a1; st.global.u64 [a1], 0;\n"
                        "{\n.param .b64 s0; st.param.b64 [s0], a2; .param .b32 s1; st.param.b32 [s1], 1; .param "
                        ".b32 s2;\n"
                        "call.uni (s2), __cuda_syscall_cnpv2StreamCreate, (s0, s1);\nld.param.b32 r6, [s2];\n}\n"
                        "ld.global.u64 a3, [a1];\n" CALL_LAUNCH("note", "a0", "1", "1", "a3") "mov.u32 r7, r20;\n"
                        CALL_LAUNCH("note", "a0", "2", "1", "a3") "or.b32 r7, r7, r20;\n"
                        "{\n.param .b64 s0; st.param.b64 [s0], a3; .param .b32 s2;\n"
                        "call.uni (s2), __cuda_syscall_cnpv2StreamDestroy, (s0);\nld.param.b32 r8, [s2];\n}\n"
                        CALL_LAUNCH("note", "a0", "3", "1", "a3") "mov.u32 r9, r20;\n"
                        "st.global.u32 [a0+512], r6; st.global.u32 [a0+516], r7; st.global.u32 [a0+520], r8; "
                        "st.global.u32 [a0+524], r9;"));
    uint32_t *out = gpu_written("k", 1, 1, 2048);
    assert_int_equal(out[0], 2);
    assert_int_equal(out[1], 1);
    assert_int_equal(out[2], 2);
    assert_int_equal(out[128], 0);
    assert_int_equal(out[129], 0);
    assert_int_equal(out[130], 0);
    assert_int_equal(out[131], 1);                            /* the stream has ended */
}

/* Children of children, with a tail each; what fails in one ends all, and what waits behind it does not run. */
EXEC_TEST(faults_end_the_family)
{
    gpu_load(ALL ".visible .entry bad(.param .u64 out, .param .u32 value)\n{\n.reg .b64 a<2>;\n"
             "mov.u64 a0, 4096; st.global.u32 [a0], 1;\nret;\n}\n"
             ".visible .entry middle(.param .u64 out, .param .u32 value)\n{\n.reg .b64 a<4>; .reg .b32 r<24>;\n"
             "ld.param.u64 a0, [out];\n" CALL_LAUNCH("note", "a0", "5", "1", "0")
             CALL_LAUNCH("bad", "a0", "5", "1", "0") CALL_LAUNCH("note", "a0", "6", "1", "0")
             CALL_LAUNCH("note", "a0", "7", "1", "3") "ret;\n}\n"
             KERNEL("k", CALL_LAUNCH("middle", "a0", "0", "1", "0") CALL_LAUNCH("note", "a0", "8", "1", "0")
                    CALL_LAUNCH("note", "a0", "9", "1", "3")));
    for (int i = 0; i < 20; i++) {
        uint32_t *out = gpu_alloc(64);
        assert_int_equal(gpu_run("k", 1, 1, 1, ARG(out)), CUDA_ERROR_ILLEGAL_ADDRESS);
        assert_int_equal(out[0], 1);
        assert_int_equal(out[1], 5);
    }
}

EXEC_TEST(launches_that_cannot_be)
{
    gpu_load(ALL KERNEL("k", CALL_LAUNCH("note", "a0", "1", "2000", "0") "st.global.u32 [a0+16], r20;\n"
                        CALL_LAUNCH("note", "a0", "1", "0", "0") "st.global.u32 [a0+20], r20;\n"
                        CALL_LAUNCH("note", "a0", "1", "1", "77") "st.global.u32 [a0+24], r20;\n"
                        CALL_LAUNCH("4096", "a0", "1", "1", "0") "st.global.u32 [a0+28], r20;\n"));
    uint32_t *out = gpu_written("k", 1, 1, 64);
    assert_int_equal(out[0], 0);
    assert_int_equal(out[4], 7);
    assert_int_equal(out[5], 7);
    assert_int_equal(out[6], 1);
    assert_int_equal(out[7], 4711);                           /* no buffer for what is no kernel */
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
