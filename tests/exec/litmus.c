/*
 * litmus.c: the memory model over blocks on two cores: MP, SB, LB, IRIW and atomicity of 8-byte accesses.
 * Each block has one thread; the blocks meet before each round at a counter, so that rounds overlap closely.
 */
#include "tests/exec/main.h"

enum { ROUNDS = 1500, STRIDE = 256 };

/* a1 = this round's cells (x at 0, y at 64, results at 128 …), r20 = round; the blocks of a test meet first. */
#define ROUND(blocks, body)                                                                                 \
    "mov.u32 r20, 0; mov.u64 a1, a0; add.u64 a1, a1, 256;\n"                                                \
    "NEXT: red.relaxed.gpu.global.add.u32 [a0], 1; add.u32 r21, r20, 1; mul.lo.u32 r21, r21, " blocks ";\n" \
    "MEET: ld.relaxed.gpu.global.u32 r22, [a0]; setp.lt.u32 p7, r22, r21;\n@p7 bra MEET;\n" body "\n"       \
    "BEHIND: add.u64 a1, a1, 256; add.u32 r20, r20, 1; setp.lt.u32 p6, r20, 1500;\n@p6 bra NEXT;\n"

static uint32_t *run(const char *kernel, uint32_t blocks)
{
    uint32_t *out = gpu_written(kernel, blocks, 1, (ROUNDS + 1) * STRIDE);
    return out + STRIDE / 4;
}

EXEC_TEST(message_passing)
{
    gpu_load(KERNEL(
        "k", "setp.eq.u32 p1, r2, 0;\n" ROUND(
                 "2", "@p1 bra WRITE;\nld.acquire.gpu.global.u32 r4, [a1+64]; ld.relaxed.gpu.global.u32 r5, [a1];\n"
                      "st.global.u32 [a1+128], r4; st.global.u32 [a1+132], r5; bra BEHIND;\n"
                      "WRITE: st.relaxed.gpu.global.u32 [a1], 1; st.release.gpu.global.u32 [a1+64], 1;"))
             /* the same with fences and plain accesses */
             KERNEL("fenced", "setp.eq.u32 p1, r2, 0;\n" ROUND(
                                  "2", "@p1 bra WRITE;\nld.volatile.global.u32 r4, [a1+64]; fence.acq_rel.gpu; "
                                       "ld.volatile.global.u32 r5, [a1];\n"
                                       "st.global.u32 [a1+128], r4; st.global.u32 [a1+132], r5; bra BEHIND;\n"
                                       "WRITE: st.global.u32 [a1], 1; membar.gl; st.volatile.global.u32 [a1+64], 1;")));
    for (int which = 0; which < 2; which++) {
        uint32_t *out = run(which ? "fenced" : "k", 2);
        for (unsigned i = 0; i < ROUNDS; i++)
            assert_false(out[i * 64 + 32] == 1 && out[i * 64 + 33] == 0);
    }
}

EXEC_TEST(store_buffering)
{
    gpu_load(KERNEL(
        "k",
        "setp.eq.u32 p1, r2, 0;\n" ROUND(
            "2",
            "@p1 bra OTHER;\nst.relaxed.gpu.global.u32 [a1], 1; fence.sc.gpu; ld.relaxed.gpu.global.u32 r4, [a1+64];\n"
            "st.global.u32 [a1+128], r4; bra BEHIND;\n"
            "OTHER: st.relaxed.gpu.global.u32 [a1+64], 1; fence.sc.gpu; ld.relaxed.gpu.global.u32 r4, [a1];\n"
            "st.global.u32 [a1+192], r4;")));
    uint32_t *out = run("k", 2);
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_false(out[i * 64 + 32] == 0 && out[i * 64 + 48] == 0);
}

EXEC_TEST(load_buffering)
{
    gpu_load(KERNEL("k", "setp.eq.u32 p1, r2, 0;\n" ROUND(
                             "2", "@p1 bra OTHER;\nld.relaxed.gpu.global.u32 r4, [a1]; st.relaxed.gpu.global.u32 "
                                  "[a1+64], r4; st.global.u32 [a1+128], r4; bra BEHIND;\n"
                                  "OTHER: ld.relaxed.gpu.global.u32 r4, [a1+64]; st.relaxed.gpu.global.u32 [a1], r4; "
                                  "st.global.u32 [a1+192], r4;")));
    uint32_t *out = run("k", 2);
    for (unsigned i = 0; i < ROUNDS; i++)             /* no value out of thin air */
        assert_true(out[i * 64 + 32] == 0 && out[i * 64 + 48] == 0);
}

EXEC_TEST(independent_reads)
{
    gpu_load(KERNEL(
        "k", "setp.eq.u32 p1, r2, 0; setp.eq.u32 p2, r2, 1; setp.eq.u32 p3, r2, 2;\n" ROUND(
                 "4", "@p1 bra X;\n@p2 bra Y;\n@p3 bra XY;\n"
                      "ld.relaxed.gpu.global.u32 r4, [a1+64]; fence.sc.gpu; ld.relaxed.gpu.global.u32 r5, [a1]; "
                      "st.global.v2.u32 [a1+192], {r4, r5}; bra BEHIND;\n"
                      "XY: ld.relaxed.gpu.global.u32 r4, [a1]; fence.sc.gpu; ld.relaxed.gpu.global.u32 r5, [a1+64]; "
                      "st.global.v2.u32 [a1+128], {r4, r5}; bra BEHIND;\n"
                      "X: st.relaxed.gpu.global.u32 [a1], 1; bra BEHIND;\nY: st.relaxed.gpu.global.u32 [a1+64], 1;")));
    uint32_t *out = run("k", 4);
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_false(out[i * 64 + 32] == 1 && out[i * 64 + 33] == 0 && out[i * 64 + 48] == 1 && out[i * 64 + 49] == 0);
}

/* Rows of 8-byte elements written whole by one block, each half never seen without the other by another. */
EXEC_TEST(eight_bytes_are_whole)
{
    gpu_load(KERNEL("k", "mov.u32 r9, %tid.x; mul.wide.u32 a3, r9, 8; add.u64 a3, a3, a0; mov.u32 r10, 0; mov.u32 r11, "
                         "0; setp.eq.u32 p1, r2, 0;\n"
                         "LOOP: @p1 bra WRITE;\nld.volatile.global.u64 a4, [a3]; cvt.u32.u64 r12, a4; shr.u64 a5, a4, "
                         "32; cvt.u32.u64 r13, a5;\n"
                         "setp.ne.u32 p2, r12, r13; @p2 add.u32 r11, r11, 1; bra BEHIND;\n"
                         "WRITE: mov.b64 a6, {r10, r10}; st.volatile.global.u64 [a3], a6;\n"
                         "BEHIND: add.u32 r10, r10, 1; setp.lt.u32 p3, r10, 20000;\n@p3 bra LOOP;\n"
                         "@!p1 red.global.add.u32 [a0+512], r11;"));
    uint32_t *out = gpu_written("k", 2, 32, 1024);
    assert_int_equal(out[128], 0);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
