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

int main(void) { return unit_run(exec_setup, exec_teardown); }
