/* warps.c: shfl, vote, match, redux, elect, barriers with reductions, and the special registers, against C. */
#include "tests/exec/main.h"

static uint32_t shuffled(const uint32_t *a, int l, const char *mode, int b, int c, int *in)
{
    int segment = c >> 8 & 31, clamp = c & 31, most = (l & segment) | (clamp & ~segment), least = l & segment, j;
    b &= 31;
    if (!strcmp(mode, "up"))
        j = l - b, *in = j >= most;
    else if (!strcmp(mode, "down"))
        j = l + b, *in = j <= most;
    else if (!strcmp(mode, "bfly"))
        j = l ^ b, *in = j <= most;
    else
        j = least | (b & ~segment), *in = j <= most;
    return a[*in ? j : l];
}

EXEC_TEST(shuffles)
{
    static const char *const modes[] = { "up", "down", "bfly", "idx" };
    for (int m = 0; m < 4; m++) {
        char ptx[2048];
        /* whole warp; in the arm of a branch with its own mask (the slow way); of tiles of 8 at once */
        snprintf(ptx, sizeof ptx,
                 ".visible .entry k(.param .u64 out, .param .u32 b, .param .u32 c)\n{\n%s%s"
                 "ld.param.u32 r4, [b]; ld.param.u32 r5, [c]; mul.lo.u32 r6, r1, 77;\n"
                 "shfl.sync.%s.b32 r7|p1, r6, r4, r5, -1; selp.u32 r8, 1, 0, p1;\n"
                 "and.b32 r9, r1, 24; mov.u32 r10, 255; shl.b32 r10, r10, r9; setp.ge.u32 p2, r1, 16;\n@p2 bra "
                 "UP;\nnot.b32 r12, r1;\n"
                 "UP: shfl.sync.%s.b32 r11, r6, r4, r5, r10;\n"
                 "st.global.u32 [mine], r7; st.global.u32 [mine+128], r8; st.global.u32 [mine+256], r11;\nret;\n}\n",
                 HEAD, MINE, modes[m], modes[m]);
        gpu_load(ptx);
        uint32_t *out = gpu_alloc(512), a[32];
        for (uint32_t i = 0; i < 32; i++)
            a[i] = i * 77;
        for (int b = 0; b < 34; b += 3)
            for (int width = 2; width <= 32; width *= 2) {
                int c = ((32 - width) << 8) | (m == 0 ? 0 : 31);
                assert_int_equal(gpu_run("k", 1, 32, 3, ARG(out), (uint64_t)b, (uint64_t)c), CUDA_SUCCESS);
                for (int l = 0; l < 32; l++) {
                    int in;
                    uint32_t v = shuffled(a, l, modes[m], b, c, &in);
                    assert_int_equal(out[l], v);
                    assert_int_equal(out[32 + l], in);
                    if (width <= 8)
                        assert_int_equal(out[64 + l], v);
                }
            }
        gpu_reset();
    }
}

/* A lane that does not execute the shuffle gives 0, whatever its register holds: lanes in the other arm of a branch,
   lanes that the mask names but that have exited, and lanes that meet in two arms. */
EXEC_TEST(shuffles_from_absent_lanes)
{
    gpu_load(
        KERNEL("k", ".reg .b64 mine; mul.wide.u32 mine, r1, 32; add.u64 mine, mine, a0; add.u32 r6, r1, 1000; "
                    "setp.lt.u32 p1, r1, 8;\n"
                    "mov.u32 r7, 7; mov.u32 r8, 7; mov.u32 r9, 7; mov.u32 r10, 7;\n@!p1 bra BEHIND;\n"
                    "shfl.sync.down.b32 r7|p2, r6, 4, 31, 0xff; shfl.sync.bfly.b32 r8, r6, 16, 31, 0xff; "
                    "shfl.sync.idx.b32 r9, r6, 9, 31, 0xff;\n"
                    "shfl.down.b32 r10, r6, 2, 31; @p2 add.u32 r10, r10, 10000;\n"
                    "BEHIND: st.global.v4.u32 [mine], {r7, r8, r9, r10};")
        /* of 16 lanes that remain, all are named; lanes 16 and up have exited */
        KERNEL("exited", MINE "add.u32 r6, r1, 1000; setp.ge.u32 p1, r1, 16;\n@p1 ret;\n"
                              "shfl.sync.down.b32 r7, r6, 8, 31, -1; st.global.u32 [mine], r7;")
        /* lanes 0..7 and 8..15 come from two arms, 16 and up never do */
        KERNEL("arms", MINE
               "add.u32 r6, r1, 1000; setp.ge.u32 p1, r1, 16; setp.ge.u32 p2, r1, 8;\n@p1 bra END;\n@p2 bra UPPER;\n"
               "shfl.sync.down.b32 r7, r6, 12, 31, 0xffff; bra STORE;\n"
               "UPPER: shfl.sync.down.b32 r7, r6, 4, 31, 0xffff;\nSTORE: st.global.u32 [mine], r7;\nEND:"));
    uint32_t *out = gpu_written("k", 1, 32, 32 * 32);
    for (uint32_t l = 0; l < 32; l++) {
        const uint32_t e[] = { l < 8 ? l < 4 ? 1000 + l + 4 : 0 : 7, l < 8 ? 0 : 7, l < 8 ? 0 : 7,
                               l < 8 ? (l < 6 ? 1000 + l + 2 : 0) + 10000 : 7 };
        assert_memory_equal(out + 8 * l, e, sizeof e);
    }
    memset(out, 0, 128);
    assert_int_equal(gpu_run("exited", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(out[l], l < 8 ? 1000 + l + 8 : 0);
    memset(out, 0, 128);
    assert_int_equal(gpu_run("arms", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
    for (uint32_t l = 0; l < 32; l++)
        assert_int_equal(out[l], l < 4 ? 1000 + l + 12 : l >= 8 && l < 12 ? 1000 + l + 4 : 0);
}

EXEC_TEST(votes_and_matches)
{
    gpu_load(KERNEL("k", ".reg .b64 v; mul.wide.u32 a9, r1, 64; add.u64 a9, a9, a0; setp.lt.u32 p1, r1, 13; rem.u32 "
                         "r4, r1, 5; cvt.u64.u32 v, r4; shl.b64 v, v, 40;\n"
                         "vote.sync.ballot.b32 r5, p1, -1; vote.sync.all.pred p2, p1, -1; vote.sync.any.pred p3, p1, "
                         "-1; vote.sync.uni.pred p4, p1, -1; vote.sync.any.pred p5, !p1, 0xffffffff;\n"
                         "selp.u32 r6, 1, 0, p2; @p3 add.u32 r6, r6, 2; @p4 add.u32 r6, r6, 4; @p5 add.u32 r6, r6, 8;\n"
                         "match.any.sync.b32 r7, r4, -1; match.any.sync.b64 r8, v, -1; match.all.sync.b32 r9|p6, r4, "
                         "-1; @p6 add.u32 r6, r6, 16; match.all.sync.b64 r10|p7, 5, -1; @p7 add.u32 r6, r6, 32;\n"
                         "elect.sync r11|p6, -1; @p6 add.u32 r6, r6, 64;\n"
                         "setp.lt.u32 p5, r1, 7; @p5 vote.sync.all.pred p2, p1, 127; @p5 activemask.b32 r12; @!p5 "
                         "mov.u32 r12, 0; @p5 add.u32 r6, r6, 128;\n"
                         "st.v4.u32 [a9], {r5, r6, r7, r8}; st.v4.u32 [a9+16], {r9, r10, r11, r12};"));
    uint32_t *out = gpu_written("k", 1, 32, 64 * 32);
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < 32; k++)
            same |= (uint32_t)(k % 5 == i % 5) << k;
        const uint32_t e[] = { 0x1fff, 2 + 8 + 32 + (i == 0 ? 64 : 0) + (i < 7 ? 128 : 0), same, same, 0, UINT32_MAX, 0,
                               i < 7 ? 127 : 0 };
        assert_memory_equal(out + 16 * i, e, sizeof e);
    }
}

/* Lanes that come together and each name only the lanes below their own: nobody waits, each gets the votes of the lanes
   that it names. */
EXEC_TEST(sets_without_the_lane_itself)
{
    gpu_load(KERNEL("k", MINE "mov.u32 r4, %lanemask_lt; and.b32 r5, r1, 5; setp.eq.u32 p1, r5, 5;\n"
                              "vote.sync.ballot.b32 r6, p1, r4; add.u32 r7, r1, 1000;\n"
                              "shfl.sync.up.b32 r8, r7, 1, 0, r4; bar.warp.sync r4; match.all.sync.b32 r9|p2, r1, r4; "
                              "elect.sync r9|p2, r4; shl.b32 r6, r6, 1; add.u32 r6, r6, r8;\n"
                              "st.global.u32 [mine], r6;"));
    uint32_t *out = gpu_written("k", 1, 32, 128);
    for (uint32_t l = 0, below = 0; l < 32; l++) {
        assert_int_equal(out[l], below * 2 + 1000 + (l ? l - 1 : 0));
        below |= (uint32_t)((l & 5) == 5) << l;
    }
}

EXEC_TEST(reductions)
{
    gpu_load(KERNEL(
        "k", "mul.wide.u32 a9, r1, 64; add.u64 a9, a9, a0; sub.s32 r4, r1, 10; setp.gt.u32 p1, r1, 20;\n@p1 ret;\n"
             "redux.sync.add.s32 r5, r4, 0x1fffff; redux.sync.min.s32 r6, r4, 0x1fffff; redux.sync.max.u32 r7, r4, "
             "0x1fffff; redux.sync.and.b32 r8, r1, 0x1fffff;\n"
             "redux.sync.or.b32 r9, r1, 0x1fffff; redux.sync.xor.b32 r10, r1, 0x1fffff; cvt.rn.f32.s32 f1, r4; "
             "redux.sync.min.f32 f2, f1, 0x1fffff; redux.sync.max.abs.f32 f3, f1, 0x1fffff;\n"
             "st.v4.u32 [a9], {r5, r6, r7, r8}; st.v2.u32 [a9+16], {r9, r10}; st.v2.f32 [a9+24], {f2, f3};"));
    uint32_t *out = gpu_written("k", 1, 32, 64 * 32);
    uint32_t or = 0, xor = 0;
    for (uint32_t i = 0; i <= 20; i++)
        or |= i, xor ^= i;
    for (uint32_t i = 0; i <= 20; i++) {
        const uint32_t e[] = { 0, (uint32_t)-10, (uint32_t)-1, 0, or, xor, 0xc1200000, 0x41200000 };
        assert_memory_equal(out + 16 * i, e, sizeof e);
    }
}

EXEC_TEST(block_reductions_and_barrier_counts)
{
    gpu_load(KERNEL(
        "k", "mul.wide.u32 a9, r1, 16; add.u64 a9, a9, a0; setp.lt.u32 p1, r1, 77; bar.red.popc.u32 r4, 0, p1; "
             "bar.red.and.pred p2, 0, p1; barrier.cta.red.or.pred p3, 0, p1;\n"
             "setp.ge.u32 p5, r1, 0; barrier.red.aligned.and.pred p4, 1, 96, !p5; selp.u32 r5, 1, 0, p2; @p3 add.u32 "
             "r5, r5, 2; @p4 add.u32 r5, r5, 4; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
             "mov.u32 r6, 3; barrier.sync r6, 96; st.v2.u32 [a9], {r4, r5};"));
    uint32_t *out = gpu_written("k", 1, 90, 16 * 90);
    for (uint32_t i = 0; i < 90; i++) {
        assert_int_equal(out[4 * i], 77);
        assert_int_equal(out[4 * i + 1], 2);
    }
}

EXEC_TEST(special_registers)
{
    gpu_load(KERNEL(
        "k",
        "mov.u32 r4, %tid.y; mov.u32 r5, %tid.z; mov.u32 r6, %ntid.y; mov.u32 r7, %ntid.z; mov.u32 r8, %ctaid.y; "
        "mov.u32 r9, %nctaid.y; mov.u32 r10, %nctaid.x;\n"
        /* in the block */
        "mad.lo.u32 r11, r5, r6, r4; mov.u32 r12, %tid.x; mad.lo.u32 r11, r11, r3, r12;\n"
        "mad.lo.u32 r13, r8, r10, r2; mov.u32 r14, 24; mad.lo.u32 r13, r13, r14, r11; mul.wide.u32 a9, r13, 64; "
        "add.u64 a9, a9, a0;\n"
        "st.v4.u32 [a9], {r12, r4, r5, r2}; st.v4.u32 [a9+16], {r8, r9, r10, r7};\n"
        "mov.u32 r15, %lanemask_lt; mov.u32 r16, %lanemask_ge; xor.b32 r17, r15, r16; mov.u32 r18, %lanemask_eq; "
        "mov.u32 r19, %lanemask_le; xor.b32 r19, r19, r15; sub.u32 r18, r18, r19; mov.u32 r20, %lanemask_gt; sub.u32 "
        "r20, r16, r20; sub.u32 r20, r20, r19;\n"
        "mov.u32 r21, %warpid; mov.u32 r22, %nsmid; mov.u32 r23, %smid; setp.lt.u32 p1, r23, r22; selp.u32 r23, 1, 0, "
        "p1;\n"
        "mov.u64 a1, %globaltimer; mov.u64 a2, %clock64; mov.u32 r24, %clock; mov.u64 a3, %clock64; setp.ge.u64 p2, "
        "a3, a2; selp.u32 r25, 1, 0, p2; mov.u64 a4, %globaltimer; setp.ge.u64 p3, a4, a1; @p3 add.u32 r25, r25, 2;\n"
        "mov.u32 r26, %dynamic_smem_size; mov.u32 r27, %total_smem_size; mov.u32 r28, %cluster_nctarank; mov.u32 r29, "
        "%pm0; add.u32 r28, r28, r29; mov.u32 r29, %cluster_ctarank; add.u32 r28, r28, r29;\n"
        "st.v4.u32 [a9+32], {r17, r18, r20, r21}; st.v4.u32 [a9+48], {r23, r25, r26, r28};"));
    uint32_t *out = gpu_alloc(64 * 24 * 6);
    struct gpu_shape shape = { { 3, 2, 1 }, { 4, 3, 2 }, 48, 0, { 0 } };
    uint64_t argument = ARG(out);
    assert_int_equal(gpu_launch("k", &shape, 1, &argument, 20), CUDA_SUCCESS);
    for (uint32_t b = 0; b < 6; b++)
        for (uint32_t t = 0; t < 24; t++) {
            const uint32_t e[] = { t % 4, t / 4 % 3, t / 12, b % 3, b / 3, 2, 3, 2, UINT32_MAX, 0, 0, 0, 1, 3, 48, 1 };
            assert_memory_equal(out + 16 * (24 * b + t), e, sizeof e);
        }
}

EXEC_TEST(atomics)
{
    static const struct { const char *insn; uint64_t start, operand, expected; unsigned size;
    } cases[] = {
        { "add.u32", 5, 3, 5 + 64 * 3, 4 },
        { "add.u64", 5, 3, 5 + 64 * 3, 8 },
        { "add.s32", 5, (uint64_t)-3, (uint32_t)(5 - 64 * 3), 4 },
        { "min.s32", 5, (uint64_t)-7, (uint32_t)-7, 4 },
        { "min.u32", 5, (uint64_t)-7, 5, 4 },
        { "max.s64", (uint64_t)-5, 1, 1, 8 },
        { "max.u64", (uint64_t)-5, 1, (uint64_t)-5, 8 },
        { "and.b32", 0xff, 0x3c, 0x3c, 4 },
        { "or.b64", 0xff, 0xf00, 0xfff, 8 },
        { "xor.b32", 0xff, 0xf, 0xff, 4 },
        { "inc.u32", 0, 9, 64 % 10, 4 },
        { "dec.u32", 0, 9, (10 - 64 % 10) % 10, 4 },
        { "exch.b32", 1, 2, 2, 4 },
        { "exch.b64", 1, 2, 2, 8 },
        { "add.f32", 0x3f800000, 0x3f000000, 0x42040000, 4 },
        { "add.f64", 0x3ff0000000000000, 0x3fe0000000000000, 0x4040800000000000, 8 },
        { "add.noftz.f16x2", 0x3c003800, 0x40003c00, 0x58085410 - 8, 4 },
        { "add.noftz.bf16x2", 0x3f800000, 0x3f803f80, 0x42824280, 4 },
        { "add.noftz.f16", 0x3c00, 0x3c00, 0x5410, 2 },
    };
    static const char *const spaces[] = { "global", "gpu.global", "shared", "", "release.sys" };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t s = 0; s < sizeof spaces / sizeof *spaces; s++) {
            char ptx[2048];
            const char *reg = cases[c].size == 8 ? "a3" : cases[c].size == 2 ? "h1" : "r4", *space = spaces[s];
            int shared = !strcmp(space, "shared"), plain = !strchr(space, '.') && strcmp(space, "release.sys");
            snprintf(
                ptx, sizeof ptx,
                ".shared .align 8 .u64 s;\n.visible .entry k(.param .u64 out, .param .u64 operand)\n{\n%s"
                "ld.param.u64 a1, [operand]; ld.global.u64 a2, [a0]; mov.u32 r9, %%tid.x; setp.eq.u32 p1, r9, 0; @p1 "
                "st.shared.u64 [s], a2; bar.sync 0; ld.param.b%u %s, [operand];\n"
                "red%s%s%s.%s [%s], %s; bar.sync 0; @p1 ld.shared.u64 a2, [s]; @p1 st.global.u64 [%s], a2;\nret;\n}\n",
                HEAD, cases[c].size * 8, reg,
                plain                      ? ""
                : strstr(space, "release") ? ".release.sys"
                                           : ".relaxed.gpu",
                *space && !strstr(space, "release") ? "." : "",
                shared                                ? "shared"
                : *space && !strstr(space, "release") ? "global"
                                                      : "",
                cases[c].insn, shared ? "s" : "a0", reg, shared ? "a0" : "s");
            if (!shared) {                            /* nothing to copy back */
                char *at = strstr(ptx, "; bar.sync 0; @p1 ld.shared");
                strcpy(at, ";\nret;\n}\n");
            }
            gpu_load(ptx);
            uint64_t *out = gpu_alloc(64);
            *out = cases[c].start;
            int result = gpu_run("k", shared ? 1 : 2, shared ? 64 : 32, 2, ARG(out), cases[c].operand);
            uint64_t got = 0;
            memcpy(&got, out, cases[c].size);
            if (result || got != cases[c].expected)
                fail_msg("red.%s.%s: %d, %llx not %llx", space, cases[c].insn, result, (unsigned long long)got,
                         (unsigned long long)cases[c].expected);
            gpu_reset();
        }
}

EXEC_TEST(atomics_return_the_old_value)
{
    gpu_load(KERNEL(
        "k",
        MINE "atom.global.add.u32 r4, [a0+4096], 1; atom.add.acq_rel.gpu.u32 r5, [a0+4100], 2; atom.global.cas.b32 r6, "
             "[a0+4104], 0, r1; atom.global.exch.b32 r7, [a0+4108], r1;\n"
             "st.global.u32 [mine], r4; add.u32 r6, r1, 5; setp.lt.u32 p1, r1, 40; @p1 atom.global.max.u32 r8, "
             "[a0+4112], r6; atom.global.cas.b64 a5, [a0+4120], 0, 9; atom.global.add.f32 f1, [a0+4128], 0f3F800000;\n"
             "atom.global.cas.b16 h1, [a0+4132], 0, 7; .reg .b128 q<3>; mov.b128 q0, {0, 0}; mov.b128 q1, {a0, a0}; "
             "atom.global.cas.b128 q2, [a0+4144], q0, q1; red.global.add.v2.f32 [a0+4160], {0f3F800000, 0f40000000};"));
    uint32_t *out = gpu_written("k", 4, 64, 8192);
    uint8_t seen[256] = { 0 };
    for (unsigned i = 0; i < 256; i++) {
        assert_true(out[i] < 256 && !seen[out[i]]);
        seen[out[i]] = 1;
    }
    assert_int_equal(out[1024], 256);
    assert_int_equal(out[1025], 512);
    assert_int_equal(out[1028], 44);
    assert_int_equal(out[1030], 9);
    assert_int_equal(out[1032], 0x43800000);
    assert_int_equal(out[1033], 7);
    const uint64_t pair[2] = { ARG(out), ARG(out) };
    assert_memory_equal(out + 1036, pair, 16);
    assert_int_equal(out[1040], 0x43800000);
    assert_int_equal(out[1041], 0x44000000);
}

/* atom.add.f32 and red.add.f32 flush subnormals on global memory, whatever the address is called, and not on shared
 * memory. */
EXEC_TEST(float_atomics_flush_on_global_memory_only)
{
    static const struct { uint32_t old, operand, flushed, kept; } cases[] = {
        /* both subnormal: zeros of their sign */
        { 1, 1, 0, 2 }, { 0x80000001, 0x80000001, 0x80000000, 0x80000002 },
        { 0x007fffff, 0x3f800000, 0x3f800000, 0x3f800000 }, { 0x3f800000, 5, 0x3f800000, 0x3f800000 },
        { 0x00800001, 0x80800000, 0, 1 }, { 0x80800001, 0x00800000, 0x80000000, 0x80000001 },   /* only the result is */
        { 0x00400000, 0x00400000, 0, 0x00800000 }, { 0x00800000, 0x80400000, 0x00800000, 0x00400000 },
        { 0x3f800000, 0x40000000, 0x40400000, 0x40400000 },
    };
    gpu_load(".shared .align 8 .b32 s[16];\n"
             ".visible .entry k(.param .u64 out, .param .u32 old, .param .u32 operand)\n{\n" HEAD
             ".reg .b64 g<8>; ld.param.u32 r4, [old]; ld.param.u32 r5, [operand];\n"
             "mov.u64 g1, s; cvta.shared.u64 g2, g1; cvta.to.global.u64 g3, a0;\n"
             "st.global.v4.u32 [a0], {r4, r4, r4, r4}; st.global.v4.u32 [a0+16], {r4, r4, r4, r4};\n"
             "st.shared.u32 [s], r4; st.shared.u32 [s+4], r4; st.shared.u32 [s+8], r4; st.shared.u32 [s+12], r4;\n"
             "red.global.add.f32 [g3], r5; atom.global.add.f32 r6, [g3+4], r5; red.add.f32 [a0+8], r5; "
             "atom.relaxed.gpu.add.f32 r7, [a0+12], r5;\n"
             "red.global.add.v2.f32 [g3+16], {r5, r5}; atom.global.add.v2.f32 {r8, r9}, [g3+24], {r5, r5};\n"
             "red.shared.add.f32 [s], r5; atom.shared.add.f32 r10, [s+4], r5; red.add.f32 [g2+8], r5; atom.add.f32 "
             "r11, [g2+12], r5;\n"
             "st.global.v4.u32 [a0+32], {r6, r7, r8, r9}; st.global.v2.u32 [a0+48], {r10, r11};\n"
             "ld.shared.v4.u32 {r12, r13, r14, r15}, [s]; st.global.v4.u32 [a0+64], {r12, r13, r14, r15};\nret;\n}\n");
    uint32_t *out = gpu_alloc(128);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_int_equal(gpu_run("k", 1, 1, 3, ARG(out), (uint64_t)cases[c].old, (uint64_t)cases[c].operand),
                         CUDA_SUCCESS);
        for (unsigned k = 0; k < 8; k++)
            assert_int_equal(out[k], cases[c].flushed);
        for (unsigned k = 8; k < 14; k++)
            assert_int_equal(out[k], cases[c].old);                   /* what was there before, as it was */
        for (unsigned k = 16; k < 20; k++)
            assert_int_equal(out[k], cases[c].kept);
    }
}

/* The other types keep subnormals everywhere. */
EXEC_TEST(other_float_atomics_keep_subnormals)
{
    gpu_load(KERNEL("k",
                    "red.global.add.noftz.f16x2 [a0], 0x00010001; red.global.add.noftz.bf16x2 [a0+4], 0x00010001;\n"
                    "mov.u64 a1, 1; red.global.add.f64 [a0+8], a1; mov.b16 h1, 1; red.global.add.noftz.f16 [a0+16], "
                    "h1; red.global.add.noftz.bf16 [a0+18], h1;"));
    uint32_t *out = gpu_alloc(64);
    const uint32_t start[] = { 0x00020001, 0x00020001, 2, 0, 0x00010002 }, e[] = { 0x00030002, 0x00030002, 3, 0,
                                                                                   0x00020003 };
    memcpy(out, start, sizeof start);
    assert_int_equal(gpu_run("k", 1, 1, 1, ARG(out)), CUDA_SUCCESS);
    assert_memory_equal(out, e, sizeof e);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
