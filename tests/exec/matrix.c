/*
 * matrix.c: mma with fragments laid out here by the figures of the PTX ISA, wmma through its own loads and stores,
 * ldmatrix and stmatrix; values small enough that every order of addition gives the same.
 */
#include "tests/exec/main.h"

static uint32_t half_of(int v)                        /* small integers as f16 */
{
    if (!v)
        return 0;
    uint32_t sign = v < 0 ? 0x8000 : 0, m = (uint32_t)(v < 0 ? -v : v), e = 31u - (uint32_t)__builtin_clz(m);
    return sign | (e + 15) << 10 | ((m << (10 - e)) & 0x3ff);
}
static uint32_t float_of(int v)
{
    union { float f; uint32_t u; } x = { .f = (float)v };
    return x.u;
}
static uint32_t bf16_of(int v) { return float_of(v) >> 16; }
static uint32_t byte_of(int v) { return (uint32_t)v & 0xff; }
static int a_at(unsigned m, unsigned k) { return (int)((m * 7 + k * 3) % 11) - 5; }
static int b_at(unsigned k, unsigned n) { return (int)((k * 5 + n * 2) % 13) - 6; }
static int c_at(unsigned m, unsigned n) { return (int)(m + n); }

static int product(unsigned m, unsigned n, unsigned inner)
{
    int sum = c_at(m, n);
    for (unsigned k = 0; k < inner; k++)
        sum += a_at(m, k) * b_at(k, n);
    return sum;
}

struct mma { const char *insn; unsigned k, bits, a, b; uint32_t (*of)(int); int integer; };

/* Registers are loaded from and stored to memory, 16 words a lane: a at 0, b at 8, c and d at 12. */
EXEC_TEST(multiply_accumulate)
{
    static const struct mma cases[] = {
        { "m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 4, 2, half_of, 0 }, { "m16n8k8.row.col.f32.f16.f16.f32", 8, 16, 2,
                                                                            1, half_of, 0 },
        { "m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, 4, 2, bf16_of, 0 }, { "m16n8k8.row.col.f32.tf32.tf32.f32", 8,
                                                                              32, 4, 2, float_of, 0 },
        { "m16n8k4.row.col.f32.tf32.tf32.f32", 4, 32, 2, 1, float_of, 0 }, { "m16n8k32.row.col.s32.s8.s8.s32", 32, 8, 4,
                                                                             2, byte_of, 1 },
        { "m16n8k16.row.col.satfinite.s32.s8.s8.s32", 16, 8, 2, 1, byte_of, 1 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct mma *x = &cases[c];
        char ptx[4096];
        const char *a[] = { "", "", "{r4, r5}", "", "{r4, r5, r6, r7}" }, *b[] = { "", "{r8}", "{r8, r9}" };
        snprintf(ptx, sizeof ptx,
                 ".visible .entry k(.param .u64 out)\n{\n%smul.wide.u32 a1, r1, 64; add.u64 a1, a1, a0;\n"
                 "ld.global.v4.b32 {r4, r5, r6, r7}, [a1]; ld.global.v2.b32 {r8, r9}, [a1+32]; ld.global.v4.b32 {r10, "
                 "r11, r12, r13}, [a1+48];\n"
                 /* lanes come to it from two arms, in two groups */
                 "setp.lt.u32 p1, r1, 9;\n@p1 bra M;\nadd.u32 r20, r1, 1;\nM: mma.sync.aligned.%s {r10, r11, r12, "
                 "r13}, %s, %s, {r10, r11, r12, r13};\n"
                 "st.global.v4.b32 [a1+48], {r10, r11, r12, r13};\nret;\n}\n",
                 HEAD, x->insn, a[x->a], b[x->b]);
        gpu_load(ptx);
        uint32_t *out = gpu_alloc(64 * 32);
        unsigned per = 32 / x->bits;
        for (unsigned l = 0; l < 32; l++) {
            uint32_t *mine = out + 16 * l;
            unsigned g = l / 4, t = l % 4;
            for (unsigned r = 0; r < x->a; r++)
                for (unsigned j = 0; j < per; j++)
                    mine[r] |= x->of(a_at(g + (r % 2 ? 8 : 0), t * per + j + (r >= 2 ? 4 * per : 0)))
                               << (j * x->bits % 32);
            for (unsigned r = 0; r < x->b; r++)
                for (unsigned j = 0; j < per; j++)
                    mine[8 + r] |= x->of(b_at(t * per + j + (r ? 4 * per : 0), g)) << (j * x->bits % 32);
            for (unsigned r = 0; r < 4; r++)
                mine[12 + r] = x->integer ? (uint32_t)c_at(g + (r >= 2 ? 8 : 0), 2 * t + r % 2)
                                          : float_of(c_at(g + (r >= 2 ? 8 : 0), 2 * t + r % 2));
        }
        assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
        for (unsigned l = 0; l < 32; l++)
            for (unsigned r = 0; r < 4; r++) {
                int v = product(l / 4 + (r >= 2 ? 8 : 0), 2 * (l % 4) + r % 2, x->k);
                if (out[16 * l + 12 + r] != (x->integer ? (uint32_t)v : float_of(v)))
                    fail_msg("%s: lane %u register %u: %x, not %d", x->insn, l, r, out[16 * l + 12 + r], v);
            }
        gpu_reset();
    }
}

EXEC_TEST(multiply_accumulate_double)
{
    gpu_load(KERNEL("k", "mul.wide.u32 a1, r1, 32; add.u64 a1, a1, a0; ld.global.v2.f64 {d1, d2}, [a1]; "
                         "ld.global.v2.f64 {d3, d4}, [a1+16];\n"
                         "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {d3, d4}, {d1}, {d2}, {d3, d4}; "
                         "st.global.v2.f64 [a1+16], {d3, d4};"));
    double *out = gpu_alloc(32 * 32);
    for (unsigned l = 0; l < 32; l++) {
        unsigned g = l / 4, t = l % 4;
        out[4 * l] = a_at(g, t);
        out[4 * l + 1] = b_at(t, g);
        out[4 * l + 2] = c_at(g, 2 * t);
        out[4 * l + 3] = c_at(g, 2 * t + 1);
    }
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
    for (unsigned l = 0; l < 32; l++)
        for (unsigned r = 0; r < 2; r++)
            assert_true(out[4 * l + 2 + r] == product(l / 4, 2 * (l % 4) + r, 4));
}

/* wmma: A by rows, B by columns, C and D by rows, leading dimensions larger than the matrices. */
EXEC_TEST(warp_matrices)
{
    static const struct { unsigned m, n; } shapes[] = { { 16, 16 }, { 8, 32 }, { 32, 8 } };
    for (int s = 0; s < 3; s++)
        for (int half = 0; half < 2; half++) {
            unsigned m = shapes[s].m, n = shapes[s].n, na = half ? 8 : m * 16 / 128, nb = half ? 8 : n * 16 / 128;
            char ptx[4096], a[64] = "{", b[64] = "{", shape[32];
            for (unsigned i = 0; i < na; i++)
                sprintf(a + strlen(a), "%sx%u", i ? ", " : "", i);
            for (unsigned i = 0; i < nb; i++)
                sprintf(b + strlen(b), "%sy%u", i ? ", " : "", i);
            strcat(a, "}");
            strcat(b, "}");
            sprintf(shape, "m%un%uk16", m, n);
            const char *in = half ? "f16" : "s8", *acc = half ? "f32" : "s32", *c = "{z0, z1, z2, z3, z4, z5, z6, z7}",
                       *of = half ? "f32.f32" : "s32.s8.s8.s32";
            snprintf(
                ptx, sizeof ptx,
                ".visible .entry k(.param .u64 out)\n{\n%s.reg .b32 x<8>, y<8>, z<8>;\nadd.u64 a1, a0, 2048; add.u64 "
                "a2, a0, 4096;\n"
                "wmma.load.a.sync.aligned.row.%s.global.%s %s, [a0], 24; wmma.load.b.sync.aligned.col.%s.global.%s %s, "
                "[a1], 32; wmma.load.c.sync.aligned.row.%s.%s %s, [a2], 40;\n"
                "wmma.mma.sync.aligned.row.col.%s.%s %s, %s, %s, %s; wmma.store.d.sync.aligned.row.%s.global.%s [a2], "
                "%s, 40;\nret;\n}\n",
                HEAD, shape, in, a, shape, in, b, shape, acc, c, shape, of, c, a, b, c, shape, acc, c);
            gpu_load(ptx);
            uint8_t *out = gpu_alloc(16384);
            uint32_t *cc = (uint32_t *)(void *)(out + 4096);
            for (unsigned k = 0; k < 16; k++) {
                for (unsigned i = 0; i < m; i++)
                    if (half)
                        ((uint16_t *)(void *)out)[24 * i + k] = (uint16_t)half_of(a_at(i, k));
                    else
                        out[24 * i + k] = (uint8_t)a_at(i, k);
                for (unsigned j = 0; j < n; j++)
                    if (half)
                        ((uint16_t *)(void *)(out + 2048))[32 * j + k] = (uint16_t)half_of(b_at(k, j));
                    else
                        out[2048 + 32 * j + k] = (uint8_t)b_at(k, j);
            }
            for (unsigned i = 0; i < m; i++)
                for (unsigned j = 0; j < n; j++)
                    cc[40 * i + j] = half ? float_of(c_at(i, j)) : (uint32_t)c_at(i, j);
            assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
            for (unsigned i = 0; i < m; i++)
                for (unsigned j = 0; j < n; j++)
                    if (cc[40 * i + j] != (half ? float_of(product(i, j, 16)) : (uint32_t)product(i, j, 16)))
                        fail_msg("%s %s: %u,%u: %x, not %d", shape, in, i, j, cc[40 * i + j], product(i, j, 16));
            gpu_reset();
        }
}

EXEC_TEST(tiles)
{
    gpu_load(".shared .align 16 .b8 s[1024];\n" KERNEL(
        "k", "mul.wide.u32 a1, r1, 16; add.u64 a2, a1, a0; mov.u64 a3, s; add.u64 a3, a3, a1; ld.global.v4.b32 {r4, "
             "r5, r6, r7}, [a2]; st.shared.v4.b32 [a3], {r4, r5, r6, r7}; bar.sync 0;\n"
             "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r8, r9, r10, r11}, [a3]; "
             "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {r12, r13}, [a3];\n"
             "movmatrix.sync.aligned.m8n8.trans.b16 r14, r8; sub.u32 r14, r14, r12; add.u64 a3, a3, 512; "
             "stmatrix.sync.aligned.m8n8.x4.shared.b16 [a3], {r8, r9, r10, r11}; bar.sync 0; ld.shared.v4.b32 {r4, r5, "
             "r6, r7}, [a3];\n"
             "mul.wide.u32 a4, r1, 64; add.u64 a4, a4, a0; st.global.v4.b32 [a4+1024], {r8, r9, r10, r11}; "
             "st.global.v4.b32 [a4+1040], {r12, r13, r14, r1}; st.global.v4.b32 [a4+1056], {r4, r5, r6, r7};"));
    uint16_t *from = gpu_alloc(4096);
    uint32_t *out = (uint32_t *)(void *)(from + 512);
    for (unsigned i = 0; i < 256; i++)
        from[i] = (uint16_t)(i * 257 + 5);
    assert_int_equal(gpu_run("k", 1, 32, 1, ARG(from)), CUDA_SUCCESS);
    for (unsigned l = 0; l < 32; l++) {
        for (unsigned k = 0; k < 4; k++)              /* matrix k: rows at lanes 8k …, 8 elements each */
            assert_int_equal(out[16 * l + k], from[64 * k + 2 * l] | (uint32_t)from[64 * k + 2 * l + 1] << 16);
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(out[16 * l + 4 + k], from[64 * k + 8 * (2 * (l % 4)) + l / 4] |
                                                      (uint32_t)from[64 * k + 8 * (2 * (l % 4) + 1) + l / 4] << 16);
        assert_int_equal(out[16 * l + 6], 0);
        assert_memory_equal(out + 16 * l + 8, from + 8 * l, 16);
    }
}

/*
 * How products are added up, which the PTX ISA leaves open, as an H200 did it (tests/gpu). All rows of A are the same,
 * and all columns of B, so D is one number. Words of a row and of a column in order of k.
 */
static const struct sum { const char *name; uint32_t a[8], b[8], c, d; } sums[] = {
    { "m16n8k16.row.col.f32.f16.f16.f32",
      { 0x3dc8b9bc, 0xc2d3c149, 0x37c53eb7, 0x4113b778, 0x41694073, 0x3a1c3d4b, 0x3b183943, 0x419cb9d4 },
      { 0x43f3439a, 0x37a73650, 0x422ac3d0, 0xb7df3e56, 0xc2b83682, 0xbea7bccd, 0xbd234131, 0xb630bd4a },
      0xc06ed01d,
      0xc1a838b3 },
    { "m16n8k16.row.col.f32.f16.f16.f32",
      { 0x3dc8b9bc, 0xc2d3c149, 0x37c53eb7, 0x4113b778, 0x41694073, 0x3a1c3d4b, 0x3b183943, 0x419cb9d4 },
      { 0x359d4281, 0x42a84313, 0x35c53c11, 0xb498bf5f, 0xc32742b7, 0xb992b5b5, 0xbc75bb8e, 0x3ffeb41e },
      0xc0349e92,
      0xc1b2e573 },
    { "m16n8k16.row.col.f32.f16.f16.f32",
      { 0x3dc8b9bc, 0xc2d3c149, 0x37c53eb7, 0x4113b778, 0x41694073, 0x3a1c3d4b, 0x3b183943, 0x419cb9d4 },
      { 0xbadbc06f, 0xbc1cbb14, 0xbd764270, 0xb676c11b, 0x355fb5df, 0xb74e3df5, 0xb6b73648, 0xc2d73e70 },
      0xc00664b6,
      0xbe26ce40 },
    { "m16n8k16.row.col.f32.bf16.bf16.f32",
      { 0xbf873f3a, 0x3fa6c070, 0xc02bbeec, 0xbfd03e99, 0x3ee2bf7f, 0x402cbf22, 0xc040becc, 0xbf22bfe1 },
      { 0x3f07400a, 0x3fafbfda, 0x3fcfc07d, 0x3e96bf70, 0xbf123f23, 0x403ebe9c, 0xc01cc04c, 0xc03e3f56 },
      0xc0349e92,
      0x419af625 },
    { "m16n8k16.row.col.f32.bf16.bf16.f32",
      { 0xbf873f3a, 0x3fa6c070, 0xc02bbeec, 0xbfd03e99, 0x3ee2bf7f, 0x402cbf22, 0xc040becc, 0xbf22bfe1 },
      { 0xbf763e88, 0x3f86bfb4, 0x3f893ff8, 0xbeeec054, 0x4002bfed, 0x3f5fc078, 0xbff13f82, 0xbff34011 },
      0x3f3b6e39,
      0x41694443 },
    { "m16n8k16.row.col.f32.bf16.bf16.f32",
      { 0xbf873f3a, 0x3fa6c070, 0xc02bbeec, 0xbfd03e99, 0x3ee2bf7f, 0x402cbf22, 0xc040becc, 0xbf22bfe1 },
      { 0xc07f3f22, 0x3f713ffb, 0x3f00bf0b, 0x3e98bf8a, 0xbeb6bf33, 0xc06a4074, 0xbf873eb9, 0xc056bf96 },
      0x40150b3e,
      0xc0b12081 },
    { "m16n8k8.row.col.f32.tf32.tf32.f32",
      { 0xbe88eefe, 0x4077ba59, 0xbfb6f7cc, 0x3f38ae14, 0x3ef02c3b, 0x3ef8ca7e, 0xbf40cb3c, 0x3ff914e9 },
      { 0xbf8f7606, 0x3eaabf5b, 0xc074d926, 0xbfb45a7f, 0x403395a2, 0x3f624ca0, 0x3eab9ea2, 0xbfcf3fcc },
      0x3f3b6e39,
      0x40a3a491 },
    { "m16n8k8.row.col.f32.tf32.tf32.f32",
      { 0xbe88eefe, 0x4077ba59, 0xbfb6f7cc, 0x3f38ae14, 0x3ef02c3b, 0x3ef8ca7e, 0xbf40cb3c, 0x3ff914e9 },
      { 0xc011587c, 0xbf933e7a, 0xc02c4b6a, 0xbfa206bc, 0x401bcfd2, 0x400a920e, 0x3fb2d4de, 0x40685a0e },
      0x40150b3e,
      0x4119f145 },
    { "m16n8k8.row.col.f32.tf32.tf32.f32",
      { 0xbe88eefe, 0x4077ba59, 0xbfb6f7cc, 0x3f38ae14, 0x3ef02c3b, 0x3ef8ca7e, 0xbf40cb3c, 0x3ff914e9 },
      { 0x3f8e82b2, 0x3f3cbaf3, 0x3f2d57ea, 0xbf51d674, 0xc04bf40e, 0xbff354fd, 0xbf55c5a4, 0xbfc1c404 },
      0x405d39df,
      0xbe8feb08 },
    { "m16n8k32.row.col.f32.e4m3.e4m3.f32",
      { 0x9cbebf24, 0xac3aa1ba, 0x319a3e3f, 0xd14d44c1, 0xc54c9fc1, 0xbbcc31bc, 0x2db3d3c0, 0xd3553026 },
      { 0x4eacd0c0, 0xbfd32f27, 0x23bbc0c2, 0x2bd7b23d, 0x3d4b39c1, 0xb1d3d051, 0xb54719ce, 0xbe2f4849 },
      0xc06ed01d,
      0x405cb7e3 },
    { "m16n8k32.row.col.f32.e4m3.e4m3.f32",
      { 0x9cbebf24, 0xac3aa1ba, 0x319a3e3f, 0xd14d44c1, 0xc54c9fc1, 0xbbcc31bc, 0x2db3d3c0, 0xd3553026 },
      { 0x191ca6a8, 0x9daa1e3f, 0x34a7c0c1, 0xcab3d731, 0x20c23252, 0x4419b73a, 0xcbac224a, 0x56573c9d },
      0x3f3b6e39,
      0xc1fd918e },
    { "m16n8k32.row.col.f32.e4m3.e4m3.f32",
      { 0x9cbebf24, 0xac3aa1ba, 0x319a3e3f, 0xd14d44c1, 0xc54c9fc1, 0xbbcc31bc, 0x2db3d3c0, 0xd3553026 },
      { 0x454c2943, 0x3ec7c4b5, 0x50caaacb, 0x9ab437d0, 0xd63ecb4e, 0xb121a625, 0x36254254, 0x45b11bb0 },
      0xc00664b6,
      0xc270ab4b },
};

EXEC_TEST(sums_of_products_are_as_an_h200_has_them)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        char ptx[2048];
        snprintf(ptx, sizeof ptx,
                 ".visible .entry k(.param .u64 out)\n{\n%s"
                 "and.b32 r1, r1, 3; mul.wide.u32 a1, r1, 4; add.u64 a1, a1, a0;\n"
                 "ld.global.b32 r4, [a1]; ld.global.b32 r5, [a1+16]; ld.global.b32 r6, [a1+32];\n"
                 "ld.global.b32 r7, [a1+48]; ld.global.b32 r8, [a0+64];\n"
                 "mma.sync.aligned.%s {r9, r10, r11, r12}, {r4, r4, r5, r5}, {r6, r7}, {r8, r8, r8, r8};\n"
                 "st.global.v4.b32 [a0+80], {r9, r10, r11, r12};\nret;\n}\n",
                 HEAD, sums[i].name);
        gpu_load(ptx);
        uint32_t *out = gpu_alloc(96);
        memcpy(out, sums[i].a, sizeof sums[i].a);
        memcpy(out + 8, sums[i].b, sizeof sums[i].b);
        out[16] = sums[i].c;
        assert_int_equal(gpu_run("k", 1, 32, 1, ARG(out)), CUDA_SUCCESS);
        for (unsigned k = 0; k < 4; k++)
            if (out[20 + k] != sums[i].d)
                fail_msg("%s, row %zu: %x instead of %x", sums[i].name, i, out[20 + k], sums[i].d);
        gpu_reset();
    }
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
