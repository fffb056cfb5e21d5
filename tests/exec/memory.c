/* memory.c: ld, st and their spaces, widths, vectors, generic addresses, copies, moves. */
#include "tests/exec/main.h"

/* Each type through a register of its size and, for loads, a wider one; contiguous, gathered, uniform, half of the
 * lanes. */
EXEC_TEST(loads_and_stores_of_all_types)
{
    static const struct { const char *type, *reg; unsigned size; int sign; unsigned cell;
    } cases[] = {
        { "u8", "h1", 1, 0, 2 },   { "s8", "h1", 1, 1, 2 },   { "u8", "r10", 1, 0, 4 },  { "s8", "r10", 1, 1, 4 },
        { "s8", "a10", 1, 1, 8 },  { "u16", "h1", 2, 0, 2 },  { "s16", "h1", 2, 1, 2 },  { "s16", "r10", 2, 1, 4 },
        { "b16", "a10", 2, 0, 8 }, { "b32", "r10", 4, 0, 4 }, { "s32", "a10", 4, 1, 8 }, { "u32", "a10", 4, 0, 8 },
        { "f32", "f1", 4, 0, 4 },  { "u64", "a10", 8, 0, 8 }, { "f64", "d1", 8, 0, 8 },
    };
    static const char *const ways[] = { "", "xor.b32 r6, r6, 5;", "mov.u32 r6, 3;", "setp.lt.u32 p2, r1, 20; ",
                                        "add.u32 r6, r6, 1; rem.u32 r6, r6, 64; setp.gt.u32 p2, r1, 40; " };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            char ptx[3000];
            const char *guard = way >= 3 ? "@p2 " : "";
            snprintf(ptx, sizeof ptx,
                     ".visible .entry k(.param .u64 out, .param .u64 from)\n{\n%s"
                     "ld.param.u64 a1, [from]; mov.u32 r6, r1; mov.u64 a10, 77; mov.u32 r10, 77; mov.u16 h1, 77; "
                     "mov.f32 f1, 0f0000004D; mov.b64 d1, a10;\n"
                     "%s mul.wide.u32 a2, r6, %u; add.u64 a2, a2, a1; %sld.global.%s %s, [a2];\n"
                     "mul.wide.u32 a3, r1, 8; add.u64 a3, a3, a0; st.global.b%u [a3], %s;\n"
                     "mul.wide.u32 a4, r1, %u; add.u64 a4, a4, a0; %sst.global.%s [a4+1024], %s;\nret;\n}\n",
                     HEAD, ways[way], cases[c].size, guard, cases[c].type, cases[c].reg, cases[c].cell * 8,
                     cases[c].reg, cases[c].size, guard, cases[c].type, cases[c].reg);
            gpu_load(ptx);
            uint8_t *from = gpu_alloc(1024), *out = gpu_alloc(2048), stored[512] = { 0 };
            for (int i = 0; i < 1024; i++)
                from[i] = (uint8_t)(i * 37 + 200);
            assert_int_equal(gpu_run("k", 1, 64, 2, ARG(out), ARG(from)), CUDA_SUCCESS);
            for (unsigned l = 0; l < 64; l++) {
                unsigned index = way == 1 ? l ^ 5 : way == 2 ? 3 : way == 4 ? (l + 1) % 64 : l;
                uint64_t v = 0, got = 0;
                memcpy(&v, from + index * cases[c].size, cases[c].size);
                if (cases[c].sign)
                    v = (uint64_t)((int64_t)(v << (64 - 8 * cases[c].size)) >> (64 - 8 * cases[c].size));
                if (cases[c].cell < 8)
                    v &= (UINT64_C(1) << (8 * cases[c].cell)) - 1;
                int active = way == 3 ? l < 20 : way == 4 ? l > 40 : 1;
                memcpy(&got, out + 8 * l, cases[c].cell);
                if (got != (active ? v : 77))
                    fail_msg("ld.%s %s way %zu lane %u: %llx not %llx", cases[c].type, cases[c].reg, way, l,
                             (unsigned long long)got, (unsigned long long)v);
                if (active)
                    memcpy(stored + l * cases[c].size, &v, cases[c].size);
            }
            if (memcmp(stored, out + 1024, 64 * cases[c].size))
                fail_msg("st.%s %s way %zu", cases[c].type, cases[c].reg, way);
            gpu_reset();
        }
}

EXEC_TEST(vectors)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .u64 from)\n{\n" HEAD ".reg .v4 .f32 v;\n"
             "ld.param.u64 a1, [from]; mul.wide.u32 a2, r1, 16; add.u64 a3, a2, a1; add.u64 a4, a2, a0;\n"
             "ld.global.v4.u32 {r4, r5, r6, r7}, [a3]; st.global.v4.u32 [a4], {r7, r6, r5, r4};\n"
             "ld.global.nc.v2.u64 {a5, a6}, [a3]; st.global.v2.u64 [a4+1024], {a6, a5};\n"
             "ld.global.v4.f32 v, [a3]; st.global.v4.f32 [a4+2048], {v.y, v.x, v.w, v.z};\n"
             "ld.global.v2.f32 {_, f3}, [a3]; st.global.v2.u32 [a4+3072], {r1, 9};\n"
             "setp.lt.u32 p1, r1, 9; @p1 st.global.f32 [a4+3080], f3;\n"
             "ld.global.v4.u8 {h1, h2, h3, h4}, [a3]; st.global.v4.u8 [a4+4096], {h4, h3, h2, h1};\n"
             "@p1 ld.global.v4.u16 {h1, h2, h3, h4}, [a3]; st.global.v4.u16 [a4+5120], {h1, h2, h3, h4};\nret;\n}\n");
    uint32_t *from = gpu_alloc(1024), *out = gpu_alloc(8192);
    for (uint32_t i = 0; i < 256; i++)
        from[i] = i * 0x01234567u;
    assert_int_equal(gpu_run("k", 1, 64, 2, ARG(out), ARG(from)), CUDA_SUCCESS);
    for (unsigned l = 0; l < 64; l++) {
        const uint32_t *f = from + 4 * l, *o = out + 4 * l;
        for (unsigned k = 0; k < 4; k++) {
            assert_int_equal(o[k], f[3 - k]);
            assert_int_equal(o[256 + k], f[k ^ 2]);
            assert_int_equal(o[512 + k], f[k ^ 1]);
        }
        assert_int_equal(o[768], l);
        assert_int_equal(o[769], 9);
        assert_int_equal(o[770], l < 9 ? f[1] : 0);
        assert_int_equal(o[1024], __builtin_bswap32(f[0]));
        if (l < 9)
            assert_memory_equal(o + 1280, f, 8);
    }
}

/* Pairs of 32 bits one behind the other, at an address that is a multiple of 8 and not of 16. */
EXEC_TEST(pairs_at_odd_addresses)
{
    gpu_load(".shared .align 16 .b8 s[528];\n.visible .entry k(.param .u64 out, .param .u64 from)\n{\n" HEAD
             "ld.param.u64 a1, [from]; mul.wide.u32 a2, r1, 8; add.u64 a3, a2, a1; add.u64 a4, a2, a0;\n"
             "mov.u64 a5, s; add.u64 a5, a5, a2; setp.lt.u32 p1, r1, 33;\n"
             "ld.global.v2.b32 {r4, r5}, [a3+8]; st.shared.v2.b32 [a5+8], {r5, r4};\n"
             "ld.shared.v2.b32 {r6, r7}, [a5+8];\n"
             "st.global.v2.b32 [a4+8], {r6, r7}; @p1 ld.global.v2.b32 {r6, r7}, [a3+8];\n"
             "@p1 st.global.v2.b32 [a4+1032], {r6, r7};\nret;\n}\n");
    uint32_t *from = gpu_alloc(1024), *out = gpu_alloc(4096);
    for (uint32_t i = 0; i < 256; i++)
        from[i] = i * 0x01234567u;
    assert_int_equal(gpu_run("k", 1, 64, 2, ARG(out), ARG(from)), CUDA_SUCCESS);
    for (unsigned l = 0; l < 64; l++)
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(out[2 + 2 * l + k], from[2 + 2 * l + (k ^ 1)]);
            assert_int_equal(out[258 + 2 * l + k], l < 33 ? from[2 + 2 * l + k] : 0);
        }
}

/* One value through every space, by its own address and by generic ones. */
EXEC_TEST(spaces_and_generic_addresses)
{
    gpu_load(
        ".global .align 4 .u32 g[64] = {5, 6, 7};\n.const .align 4 .u32 c[4] = {11, 12, 13, 14};\n.shared .align 4 .b8 "
        "s[256];\n"
        ".extern .shared .align 16 .b8 dyn[];\n" KERNEL(
            "k", ".local .align 8 .b8 l[64]; .shared .align 4 .u32 own;\n"
                 "mov.u32 r9, %tid.x; mul.wide.u32 a2, r9, 4;\n"
                 /* shared, generic and not */
                 "mov.u64 a3, s; add.u64 a4, a3, a2; add.u32 r4, r1, 100; st.shared.u32 [a4], r4; cvta.shared.u64 a5, "
                 "a4; ld.u32 r5, [a5];\n"
                 "cvta.to.shared.u64 a6, a5; ld.shared.u32 r6, [a6]; sub.u32 r7, r5, r6;\n"
                 /* local: every lane its own */
                 "mov.u64 a7, l; st.local.u32 [a7+4], r4; st.local.u32 [l+8], r1; cvta.local.u64 a8, a7; ld.u32 r8, "
                 "[a8+4]; ld.u32 r10, [a8+8]; st.u64 [a8+16], a8; ld.local.u64 a9, [l+16];\n"
                 /* global, const, dynamic shared */
                 "mov.u64 a10, g; cvta.global.u64 a11, a10; ld.u32 r11, [a11+4]; ld.global.u32 r12, [g+8]; "
                 "ld.const.u32 r13, [c+12]; mov.u64 a12, c; ld.const.u32 r14, [a12+4];\n"
                 "mov.u32 r15, dyn; mad.lo.u32 r15, r9, 4, r15; st.shared.u32 [r15], r1; ld.shared.u32 r16, [r15];\n"
                 "mov.u64 a13, own; setp.eq.u32 p1, r9, 0; @p1 st.shared.u32 [own], 31; bar.sync 0; ld.shared.u32 r17, "
                 "[a13];\n"
                 "isspacep.shared p2, a5; selp.u32 r18, 1, 0, p2; isspacep.local p3, a8; @p3 add.u32 r18, r18, 2; "
                 "isspacep.global p4, a11; @p4 add.u32 r18, r18, 4; isspacep.global p5, a5; @p5 add.u32 r18, r18, 8;\n"
                 "mul.wide.u32 a14, r1, 64; add.u64 a14, a14, a0;\n"
                 "st.global.v4.u32 [a14], {r5, r7, r8, r10}; st.global.v4.u32 [a14+16], {r11, r12, r13, r14}; "
                 "st.global.v4.u32 [a14+32], {r16, r17, r18, r1}; sub.u64 a9, a9, a8; st.u64 [a14+48], a9;"));
    uint32_t *out = gpu_alloc(64 * 64);
    struct gpu_shape shape = { { 2, 1, 1 }, { 32, 1, 1 }, 128, 0, { 0 } };
    uint64_t argument = ARG(out);
    assert_int_equal(gpu_launch("k", &shape, 1, &argument, 20), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t expected[14] = { i + 100, 0, i + 100, i, 6, 7, 14, 12, i, 31, 7, i, 0, 0 };
        assert_memory_equal(out + 16 * i, expected, sizeof expected);
    }
}

/* One active lane after the other, in each space. */
EXEC_TEST(lanes_alone)
{
    gpu_load(".shared .align 4 .b8 s[256];\n" KERNEL(
        "k", MINE
        ".local .align 4 .b8 l[128]; mov.u32 r4, s; mad.lo.u32 r4, r1, 4, r4; cvt.u64.u32 a3, r4; mov.u64 a4, l; "
        "and.b64 a5, a3, 124; add.u64 a4, a4, a5; cvta.local.u64 a6, a4; cvta.shared.u64 a7, a3; mov.u32 r10, 0;\n"
        "NEXT: setp.eq.u32 p1, r1, r10; add.u32 r5, r1, 3;\n@p1 st.shared.u32 [r4], r5;\n@p1 ld.shared.u32 r6, "
        "[a3];\n@p1 st.local.u32 [a4], r6;\n@p1 ld.local.u32 r7, [a4];\n@p1 ld.u32 r8, [a6];\n@p1 atom.shared.add.u32 "
        "r9, [r4], r7;\n"
        "@p1 ld.u32 r9, [a7];\n@p1 add.u32 r9, r9, r8;\n@p1 st.global.u32 [mine], r9;\n@p1 ld.global.u32 r11, "
        "[mine];\n@p1 st.global.u32 [mine+256], r11;\nadd.u32 r10, r10, 1; setp.lt.u32 p2, r10, 64;\n@p2 bra NEXT;"));
    uint32_t *out = gpu_written("k", 1, 64, 512);
    for (uint32_t i = 0; i < 128; i++)
        assert_int_equal(out[i], 3 * (i % 64 + 3));
}

/* Parameters by address, in parts, of every size; through a pointer to the parameter block. */
EXEC_TEST(parameters)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .u8 b, .param .u16 h, .param .f32 f, .param .align 8 .b8 "
             "st[24], .param .u64 w)\n{\n" HEAD
             "ld.param.u8 r4, [b]; ld.param.s16 r5, [h]; ld.param.b32 r6, [f]; ld.param.u32 r7, [st+4]; ld.param.u8 "
             "r8, [st]; ld.param.v2.u16 {h1, h2}, [st]; cvt.u32.u16 r9, h2;\n"
             "mov.b64 a5, st; add.u64 a5, a5, 4; ld.param.u32 r10, [a5]; cvta.param.u64 a6, a5; ld.u32 r11, [a6]; "
             "ld.param.u64 a7, [w];\n"
             "st.global.v4.u32 [a0], {r4, r5, r6, r7}; st.global.v4.u32 [a0+16], {r8, r9, r10, r11}; st.global.u64 "
             "[a0+32], a7;\nret;\n}\n");
    uint32_t *out = gpu_alloc(64);
    assert_int_equal(
        gpu_run("k", 1, 1, 6, ARG(out), ARG(0xfe), ARG(0xfffd), ARG(0x3f800000), ARG(0x1122334455667788), ARG(0x99)),
        CUDA_SUCCESS);
    const uint32_t expected[] = { 0xfe, 0xfffffffd, 0x3f800000, 0x11223344, 0x88, 0x5566, 0x11223344, 0x11223344, 0x99,
                                  0 };
    assert_memory_equal(out, expected, sizeof expected);
}

/* Compilers that were asked for short pointers keep a parameter's address in 32 bits (Triton's tensor maps). */
EXEC_TEST(short_addresses_of_parameters)
{
    gpu_load(".visible .entry k(.param .u64 out, .param .align 8 .b8 st[16])\n{\n" HEAD
             "mov.b32 r4, st; cvt.u64.u32 a4, r4; cvta.param.u64 a5, a4; ld.u64 a6, [a5];\n"
             "add.u32 r5, r4, 4; ld.param.u32 r6, [r5]; cvta.to.param.u64 a7, a5; cvt.u32.u64 r7, a7; "
             "ld.param.u32 r8, [r7];\n"
             "st.global.u64 [a0], a6; st.global.v2.u32 [a0+8], {r6, r8};\nret;\n}\n");
    uint32_t *out = gpu_alloc(16);
    assert_int_equal(gpu_run("k", 1, 32, 2, ARG(out), ARG(0x1122334455667788)), CUDA_SUCCESS);
    const uint32_t expected[] = { 0x55667788, 0x11223344, 0x11223344, 0x55667788 };
    assert_memory_equal(out, expected, sizeof expected);
}

EXEC_TEST(moves)
{
    gpu_load(KERNEL("k",
                    ".reg .b128 q<2>; mov.b64 a1, {r1, 7}; mov.b64 {r4, r5}, a1; mov.b32 {h1, h2}, 0x12345678; mov.b32 "
                    "r6, {h2, h1};\n"
                    "mov.b64 {h3, h4, h5, h6}, 0x0004000300020001; cvt.u32.u16 r7, h6; mov.b64 {_, r8}, 0x500000004; "
                    "mov.b128 q0, {a1, 99}; mov.b128 q1, q0; mov.b128 {a2, a3}, q1;\n"
                    "mov.f32 f1, 0d3FF8000000000000; mov.b32 r9, f1; mov.f64 d1, 1.25; mov.b64 a4, d1; mov.pred p1, 1; "
                    "not.pred p2, p1; or.pred p3, p1, p2; xor.pred p4, p3, 1; and.pred p5, p1, !p4;\n"
                    "selp.u32 r10, 1, 0, p5; mov.u32 r11, %laneid; mov.v2.u32 {r4, r5}, {r5, r4}; mov.u16 h7, %ntid.x; "
                    "cvt.u32.u16 r12, h7;\n"
                    "mul.wide.u32 a9, r1, 64; add.u64 a9, a9, a0; st.v4.u32 [a9], {r4, r5, r6, r7}; st.v4.u32 [a9+16], "
                    "{r8, r9, r10, r11}; st.v2.u64 [a9+32], {a2, a3}; st.u64 [a9+48], a4; st.u32 [a9+56], r12;"));
    uint32_t *out = gpu_written("k", 1, 40, 64 * 40);
    for (uint32_t i = 0; i < 40; i++) {
        const uint32_t e[] = { 7, i, 0x56781234, 4, 5, 0x3fc00000, 1, i % 32, i, 7, 99, 0, 0, 0x3ff40000, 40 };
        assert_memory_equal(out + 16 * i, e, sizeof e);
    }
}

EXEC_TEST(asynchronous_copies)
{
    gpu_load(".shared .align 16 .b8 s[1024];\n.visible .entry k(.param .u64 out, .param .u64 from)\n{\n" HEAD
             "ld.param.u64 a1, [from]; mul.wide.u32 a2, r1, 16; add.u64 a1, a1, a2; mov.u32 r4, s; mad.lo.u32 r4, r1, "
             "16, r4; rem.u32 r5, r1, 17;\n"
             "cp.async.cg.shared.global [r4], [a1], 16, r5; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n"
             "ld.shared.v4.u32 {r6, r7, r8, r9}, [r4]; add.u64 a3, a0, a2; st.global.v4.u32 [a3], {r6, r7, r8, r9};\n"
             "cp.async.ca.shared.global.L2::128B [r4], [a1], 4; cp.async.wait_all; ld.shared.u32 r6, [r4]; "
             "st.global.u32 [a3+2048], r6;\nret;\n}\n");
    uint8_t *from = gpu_alloc(1024), *out = gpu_alloc(4096);
    for (int i = 0; i < 1024; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    assert_int_equal(gpu_run("k", 1, 64, 2, ARG(out), ARG(from)), CUDA_SUCCESS);
    for (unsigned l = 0; l < 64; l++) {
        for (unsigned k = 0; k < 16; k++)
            assert_int_equal(out[16 * l + k], k < l % 17 ? from[16 * l + k] : 0);
        assert_memory_equal(out + 2048 + 16 * l, from + 16 * l, 4);
    }
}

EXEC_TEST(bulk_copies)
{
    gpu_load(
        ".shared .align 16 .b8 s[2048];\n.shared .align 8 .b64 b;\n.visible .entry k(.param .u64 out, .param .u64 "
        "from)\n{\n" HEAD "ld.param.u64 a1, [from]; setp.eq.u32 p1, r1, 0; mov.u32 r4, s; "
                          "createpolicy.fractional.L2::evict_last.b64 a7, 1.0;\n@p1 mbarrier.init.shared::cta.b64 [b], "
                          "1;\nfence.mbarrier_init.release.cluster; bar.sync 0;\n@!p1 bra WAIT;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 a3, [b], 1024; "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [r4], [a1], 1024, [b], a7;\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p2, [b], 0;\n@!p2 bra WAIT;\nmad.lo.u32 r5, r1, 16, r4; "
        "ld.shared.u32 r6, [r5]; add.u32 r6, r6, 1; st.shared.u32 [r5], r6; fence.proxy.async; bar.sync 0;\n@!p1 ret;\n"
        "cp.async.bulk.global.shared::cta.bulk_group [a0], [r4], 1024; cp.async.bulk.commit_group; "
        "cp.async.bulk.wait_group 0;\nret;\n}\n");
    uint32_t *from = gpu_alloc(1024), *out = gpu_alloc(1024);
    for (uint32_t i = 0; i < 256; i++)
        from[i] = i * 3;
    assert_int_equal(gpu_run("k", 1, 64, 2, ARG(out), ARG(from)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(out[i], i * 3 + (i % 4 == 0));
}

/* Bytes at both ends that may belong to nobody are neither read nor written; all are announced. */
EXEC_TEST(bulk_copies_beyond_memory)
{
    gpu_load(".shared .align 16 .b8 s[64];\n.shared .align 8 .b64 b;\n"
             ".visible .entry k(.param .u64 out, .param .u64 from, .param .u32 left, .param .u32 right, "
             ".param .u32 size)\n{\n" HEAD
             "ld.param.u64 a1, [from]; ld.param.u32 r10, [left]; ld.param.u32 r11, [right]; "
             "ld.param.u32 r12, [size]; mov.u32 r4, s; setp.eq.u32 p1, r1, 0; shl.b32 r5, r1, 2; add.u32 r5, r5, r4; "
             "st.shared.u32 [r5], 0xeeeeeeee; bar.sync 0;\n@!p1 bra WAIT;\n"
             "mbarrier.init.shared::cta.b64 [b], 1; mbarrier.arrive.expect_tx.shared::cta.b64 a3, [b], r12; "
             "createpolicy.fractional.L2::evict_last.b64 a7, 1.0;\n"
             "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint.ignore_oob [r4], [a1], r12, "
             "r10, r11, [b], a7;\n"
             "WAIT: bar.sync 0;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p2, [b], 0;\n@!p2 bra AGAIN;\n"
             "mul.wide.u32 a4, r1, 4; add.u64 a4, a4, a0; ld.shared.u32 r6, [r5]; st.global.u32 [a4], r6;\n"
             "ret;\n}\n");
    unsigned char *out = gpu_alloc(64), *inside = gpu_alloc(64), from[64], want[64];
    static const struct {
        unsigned left, right, size;
    } cases[] = {
        { 0, 0, 64 }, { 3, 0, 48 }, { 0, 15, 48 }, { 5, 7, 16 }, { 15, 15, 16 }, { 8, 9, 32 },
    };
    for (unsigned k = 0; k < 64; k++)
        from[k] = (unsigned char)(k + 1);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const unsigned left = cases[k].left, right = cases[k].right, size = cases[k].size;
        memcpy(inside, from, 64);
        memset(want, 0xee, sizeof want);
        if (left + right < size)
            memcpy(want + left, from + left, size - left - right);
        assert_int_equal(gpu_run("k", 1, 16, 5, ARG(out), ARG(inside), ARG(left), ARG(right), ARG(size)), CUDA_SUCCESS);
        assert_memory_equal(out, want, sizeof want);
    }
    assert_non_null(gpu_refuses(
        ".shared .align 16 .b8 s[64];\n.shared .align 8 .b64 b;\n" KERNEL(
            "k",
            "mov.u32 r4, s; cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [r4], [a0], 16, "
            "3, [b];"),
        "k"));
}

/* A generic address can lead to 32 bytes at once, too. */
EXEC_TEST(wide_vectors_by_generic_addresses)
{
    gpu_load(KERNEL("k",
                    "add.u64 a1, a0, 32; ld.v8.b32 {r4, r5, r6, r7, r8, r9, r10, r11}, [a0]; add.u32 r4, r4, 1; "
                    "st.v8.b32 [a1], {r11, r10, r9, r8, r7, r6, r5, r4}; ld.v4.b64 {a2, a3, a4, a5}, [a1].unified; "
                    "st.v4.b64 [a1+32], {a5, a4, a3, a2}; ld.v8.b32 {r4, _, r6, _, _, _, _, r11}, [a0]; "
                    "st.global.v4.b32 [a0+96], {r4, r6, r11, 0};"));
    uint32_t *out = gpu_alloc(128);
    for (uint32_t k = 0; k < 8; k++)
        out[k] = k + 10;
    assert_int_equal(gpu_run("k", 1, 1, 1, ARG(out)), CUDA_SUCCESS);
    const uint32_t want[] = { 17, 16, 15, 14, 13, 12, 11, 11, 11, 11, 13, 12, 15, 14, 17, 16, 10, 12, 17, 0 };
    assert_memory_equal(out + 8, want, sizeof want);
}

/* mov.v4 of a special register: x, y, z and 0; of registers, all at once. */
EXEC_TEST(vectors_are_moved)
{
    gpu_load(KERNEL("k", ".reg .v4 .b32 v; mov.v4.u32 {r4, r5, r6, r7}, %tid; mov.v4.u32 v, %ntid; "
                         "mov.v4.u32 {r8, _, r9, _}, %ctaid; mov.v4.u32 {r4, r5, r6, r7}, {r5, r4, r7, r6};\n"
                         "mad.lo.u32 r10, r4, v.x, r5; mul.wide.u32 a1, r10, 32; add.u64 a1, a1, a0;\n"
                         "st.global.v4.u32 [a1], {r4, r5, r6, r7}; st.global.v4.u32 [a1+16], {v.x, v.y, v.z, v.w};"));
    uint32_t *out = gpu_alloc(32 * 12);
    const struct gpu_shape shape = { .grid = { 1, 1, 1 }, .block = { 4, 3, 1 } };
    const uint64_t argument = ARG(out);
    assert_int_equal(gpu_launch("k", &shape, 1, &argument, 60), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 12; i++) {
        const uint32_t want[] = { i / 4, i % 4, 0, 0, 4, 3, 1, 0 };
        assert_memory_equal(out + 8 * i, want, sizeof want);
    }
}

/* Four registers in one operand of arithmetic: two numbers share 16 random bits, which the first of them takes in
   reversed order. */
EXEC_TEST(vectors_in_arithmetic)
{
    gpu_load(KERNEL("k", MINE "mov.b32 r4, 0f3f880000; mov.b32 r5, 0x00018000; setp.lt.u32 p1, r1, 16;\n"
                              "mov.u32 r6, r1;\n"
                              "@p1 cvt.rs.satfinite.e4m3x4.f32 r6, {r4, r4, 0fBF880000, r4}, r5; "
                              "st.global.u32 [mine], r6;"));
    uint32_t *out = gpu_written("k", 1, 32, 4 * 32);
    for (uint32_t i = 0; i < 32; i++)
        assert_int_equal(out[i], i < 16 ? 0x3938b839 : i);
    assert_non_null(gpu_refuses(KERNEL("k", "cvt.rs.satfinite.e4m3x4.f32 r6, {r4, r4}, r5;"), "k"));
    assert_non_null(gpu_refuses(KERNEL("k", "cvt.rs.satfinite.e4m3x4.f32 r6, r4, r5;"), "k"));
}

/* Blocks add what they have in shared memory to global memory; each value is added atomically. */
/* st.async and red.async to the block's own memory, st.bulk, and a copy of some bytes of each 16. */
EXEC_TEST(asynchronous_stores)
{
    gpu_load(".shared .align 16 .b8 s[64]; .shared .align 8 .b64 bar;\n" KERNEL(
        "k", "setp.ne.u32 p1, r1, 0; mov.u32 r20, s; mov.u32 r21, bar; @p1 bra WAIT;\n"
             "mbarrier.init.shared.b64 [r21], 1; mov.u64 a5, 64; st.bulk.weak.shared::cta [r20], a5, 0;\n"
             "mbarrier.arrive.expect_tx.shared.b64 _, [r21], 28; mov.u32 r4, 7;\n"
             "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [r20], {r4, r4, 9, 10}, [r21];\n"
             "st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [r20+16], 11, [r21];\n"
             "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [r20+4], 5, [r21];\n"
             "WAIT: bar.sync 0;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p2, [r21], 0; @!p2 bra AGAIN;\n"
             "shl.b32 r6, r1, 2; add.u32 r6, r6, r20; ld.shared.u32 r7, [r6];\n"
             "mul.wide.u32 a1, r1, 4; add.u64 a1, a1, a0; st.global.u32 [a1], r7;\n"
             "mov.u16 h1, 0x00f1; @p1 bra END;\n"
             "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [a0+64], [r20], 16, h1;\n"
             "END: add.u32 r6, r6, 0;"));
    uint32_t *out = gpu_alloc(4096);
    memset(out, 0xee, 128);
    assert_int_equal(gpu_run("k", 1, 16, 1, ARG(out)), CUDA_SUCCESS);
    const uint32_t want[16] = { 7, 12, 9, 10, 11 };
    assert_memory_equal(out, want, sizeof want);
    const uint32_t some[4] = { 0xeeeeee07, 12, 0xeeeeeeee, 0xeeeeeeee };
    assert_memory_equal(out + 16, some, sizeof some);
}

EXEC_TEST(bulk_reductions)
{
    gpu_load(
        ".shared .align 16 .b8 s[1024];\n.shared .align 16 .b8 t[512];\n.shared .align 8 .b64 b;\n"
        ".visible .entry k(.param .u64 out, .param .u64 seen)\n{\n" HEAD
        "ld.param.u64 a1, [seen]; mov.u32 r1, %tid.x; mov.u32 r4, s; mad.lo.u32 r5, r1, 4, r4; st.shared.u32 [r5], r1; "
        "mov.b32 r6, 0x3f000000;\n"
        "st.shared.u32 [r5+512], r6; mov.u32 r7, t; mad.lo.u32 r8, r1, 4, r7; st.shared.u32 [r8], 7; setp.eq.u32 p1, "
        "r1, 0;\n"
        "@p1 mbarrier.init.shared::cta.b64 [b], 1;\nfence.proxy.async; bar.sync 0;\n@!p1 bra WAIT;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [a0], [r4], 512;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [a0+512], [r4+512], 512;\n"
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32 [a0+1024], [r4], 512;\n"
        "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 a3, [b], 512;\n"
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.xor.b32 [r7], [r4], 512, [b];\n"
        "WAIT: mbarrier.try_wait.parity.shared::cta.b64 p2, [b], 0;\n@!p2 bra WAIT;\n"
        "ld.shared.u32 r6, [r8]; mul.wide.u32 a4, r1, 4; add.u64 a1, a1, a4; st.global.u32 [a1], r6;\nret;\n}\n");
    enum { BLOCKS = 50 };
    uint32_t *out = gpu_alloc(3 * 512), *seen = gpu_alloc(512);
    assert_int_equal(gpu_run("k", BLOCKS, 128, 2, ARG(out), ARG(seen)), CUDA_SUCCESS);
    for (uint32_t i = 0; i < 128; i++) {
        float sum;
        memcpy(&sum, &out[128 + i], 4);
        assert_int_equal(out[i], i * BLOCKS);
        assert_true(sum == 0.5f * BLOCKS);
        assert_int_equal(out[256 + i], i);
        assert_int_equal(seen[i], i ^ 7);
    }
    assert_non_null(gpu_refuses(".visible .entry k(.param .u64 out)\n{\n" HEAD
        "mov.u32 r4, 0; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.b32 [a0], [r4], 16; ret;\n}\n", "k"));
}

/* Rows across the boundary of two granules, and accesses that hints decorate. */
EXEC_TEST(boundaries_and_hints)
{
    gpu_load(KERNEL("k", MINE "ld.relaxed.sys.global.L1::no_allocate.b32 r4, [mine]; st.mmio.relaxed.sys.global.b32 "
                              "[mine], r1; ld.weak.global.cs.L2::128B.u32 r5, [mine];\n"
                              "ld.global.cv.u32 r6, [mine]; st.global.wt.u32 [mine], r5; ldu.global.u32 r7, [a0]; "
                              "prefetch.global.L2 [a0]; prefetchu.L1 [a0];\n"
                              "add.u32 r4, r4, r6; add.u32 r4, r4, r7; st.release.sys.global.u32 [mine], r4; "
                              "fence.proxy.alias; fence.sc.sys; membar.cta;"));
    uint8_t *out = gpu_alloc(6 << 20);
    uint32_t *at = (uint32_t *)(void *)(out + (4 << 20) - ((uintptr_t)out & ((2 << 20) - 1)) - 64);
    for (unsigned i = 0; i < 32; i++)
        at[i] = 1000;
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(at)), CUDA_SUCCESS);
    for (uint32_t i = 1; i < 32; i++)
        assert_int_equal(at[i], 1000 + i);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
