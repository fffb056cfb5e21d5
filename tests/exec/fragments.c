/*
 * fragments.c: products of matrices in the forms that newer and older architectures have: sparse, block-scaled, of
 * numbers of 4 to 8 bits, in quarters of a warp; and the loads that go with them. Fragments are laid out here by the
 * figures of the PTX ISA; values are small integers, so that every order of addition gives the same.
 *
 * shows: software GPU: sparse and block-scaled products, all types of 4 to 8 bits, mma.m8n8k4: as a plain product on
 *   the host.
 */
#include "tests/exec/main.h"

/* bits: of a register that an element takes; shift: where in it; exponent 0: an integer. */
struct type {
    const char *name;
    unsigned bits, exponent, fraction, shift;
};
static const struct type F16 = { "f16", 16, 5, 10, 0 }, BF16 = { "bf16", 16, 8, 7, 0 }, TF32 = { "tf32", 32, 8, 23, 0 },
                         E4M3 = { "e4m3", 8, 4, 3, 0 }, E5M2 = { "e5m2", 8, 5, 2, 0 }, E3M2 = { "e3m2", 8, 3, 2, 0 },
                         E2M3 = { "e2m3", 8, 2, 3, 0 }, E2M1 = { "e2m1", 8, 2, 1, 2 }, FP4 = { "e2m1", 4, 2, 1, 0 },
                         S8 = { "s8", 8, 0, 0, 0 }, S4 = { "s4", 4, 0, 0, 0 }, F32 = { "f32", 32, 8, 23, 0 };

static uint32_t encode(const struct type *t, int v)
{
    uint32_t mask = t->bits == 32 ? UINT32_MAX : (1u << t->bits) - 1;
    if (!t->exponent || !v)
        return (uint32_t)v & mask;
    uint32_t sign = v < 0, m = (uint32_t)(v < 0 ? -v : v), e = 31u - (uint32_t)__builtin_clz(m);
    uint32_t bias = (1u << (t->exponent - 1)) - 1, fraction = (m - (1u << e)) << (t->fraction - e);
    if (e > t->fraction)
        fraction = (m - (1u << e)) >> (e - t->fraction);
    return (sign << (t->exponent + t->fraction) | (e + bias) << t->fraction | fraction) << t->shift;
}

/* Every lane has this in memory; the kernel loads it, and stores z. */
struct lane {
    uint32_t x[8], y[4], z[8], metadata, scale[2], selector[4], spare[5];
};

static const char *const FRAME =
    ".visible .entry k(.param .u64 out)\n{\n%s.reg .b32 x<8>, y<4>, z<8>, e, s<2>; .reg .b16 i<4>; .reg .b32 w<4>;\n"
    "mul.wide.u32 a1, r1, 128; add.u64 a1, a1, a0;\n"
    "ld.global.v4.b32 {x0, x1, x2, x3}, [a1]; ld.global.v4.b32 {x4, x5, x6, x7}, [a1+16];\n"
    "ld.global.v4.b32 {y0, y1, y2, y3}, [a1+32]; ld.global.v4.b32 {z0, z1, z2, z3}, [a1+48];\n"
    "ld.global.v4.b32 {z4, z5, z6, z7}, [a1+64]; ld.global.b32 e, [a1+80]; ld.global.b32 s0, [a1+84];\n"
    "ld.global.b32 s1, [a1+88]; ld.global.b32 w0, [a1+92]; ld.global.b32 w1, [a1+96]; ld.global.b32 w2, [a1+100];\n"
    "ld.global.b32 w3, [a1+104]; cvt.u16.u32 i0, w0; cvt.u16.u32 i1, w1; cvt.u16.u32 i2, w2; cvt.u16.u32 i3, w3;\n"
    "%s;\nst.global.v4.b32 [a1+48], {z0, z1, z2, z3}; st.global.v4.b32 [a1+64], {z4, z5, z6, z7};\nret;\n}\n";

static void run(const char *insn, struct lane *lanes)
{
    char ptx[4096];
    snprintf(ptx, sizeof ptx, FRAME, HEAD, insn);
    gpu_load(ptx);
    struct lane *out = gpu_alloc(32 * sizeof *out);
    memcpy(out, lanes, 32 * sizeof *out);
    if (gpu_run("k", 1, 32, 1, ARG(out)) != CUDA_SUCCESS)
        fail_msg("%s fails", insn);
    memcpy(lanes, out, 32 * sizeof *out);
    gpu_reset();
}

static void put(uint32_t *words, unsigned n, const struct type *t, int v)
{
    unsigned per = 32 / t->bits;
    words[n / per] |= encode(t, v) << (n % per * t->bits);
}

/* "{x0, x1}" */
static const char *registers(char name, unsigned count)
{
    static char text[4][96];
    static int next;
    char *at = text[next++ & 3];
    size_t n = (size_t)sprintf(at, "{");
    for (unsigned i = 0; i < count; i++)
        n += (size_t)sprintf(at + n, "%s%c%u", i ? ", " : "", name, i);
    strcpy(at + n, "}");
    return at;
}

static int value(unsigned row, unsigned column, unsigned seed)
{
    static const int some[] = { 1, -2, 3, 0, -1, 2, -3 };
    return some[(row * 5 + column * 3 + row * column + seed) % 7];
}
static int start(unsigned row, unsigned column) { return (int)row - 2 * (int)column; }

/* Of m16n8: a register's element n of a lane. */
static unsigned c_row(unsigned lane, unsigned n) { return lane / 4 + n / 2 * 8; }
static unsigned c_column(unsigned lane, unsigned n) { return lane % 4 * 2 + n % 2; }

struct product {
    const struct type *a, *b, *c; /* c: NULL for s32 */
    unsigned k;
    const char *modifiers;    /* "%s" stands for the types: "kind::f8f6f4.m16n8k32.row.col.%s" */
    unsigned chunk, selector; /* sparse: elements of A per four bits of metadata */
    unsigned scales;          /* per row of A */
};
static int a_dense[16][256], b_dense[256][8];

/* Of a chunk of a row, which two of four (of tf32: which of two) are there: never the same for all. */
static unsigned first_of(unsigned row, unsigned chunk) { return (row + chunk) % 3; }
static unsigned second_of(unsigned row, unsigned chunk) { return first_of(row, chunk) == 2 ? 3 : 2 + row % 2; }

static unsigned stored_column(const struct product *p, unsigned row, unsigned stored)
{
    unsigned each = p->chunk / 2, chunk = stored / each;
    if (p->chunk == 2)
        return chunk * 2 + (row + chunk) % 2;
    unsigned unit = p->chunk / 4, in = stored % each;
    return chunk * p->chunk + (in / unit ? second_of(row, chunk) : first_of(row, chunk)) * unit + in % unit;
}

static void lay_metadata(const struct product *p, struct lane *lanes)
{
    for (unsigned row = 0; row < 16; row++)
        for (unsigned chunk = 0; chunk < p->k / p->chunk; chunk++) {
            uint32_t bits =
                p->chunk == 2 ? ((row + chunk) % 2 ? 14u : 4u) : first_of(row, chunk) | second_of(row, chunk) << 2;
            unsigned thread, shift;
            if (p->a->bits >= 16) { /* four chunks of row g, then of row g + 8 */
                thread = p->k / p->chunk > 4 ? 2 * p->selector + chunk / 4 : p->selector;
                shift = row / 8 * 16 + chunk % 4 * 4;
            } else { /* eight chunks of one row */
                thread = 2 * p->selector + chunk / 8 * 2 + row / 8;
                shift = chunk % 8 * 4;
            }
            lanes[row % 8 * 4 + thread].metadata |= bits << shift;
        }
}

static int scale_exponent(unsigned line, unsigned block) { return (int)((line + 2 * block) % 3) - 1; }

/* Bytes 1 and up of thread pair 1, and of thread 2: what the selectors name. */
static void lay_scales(const struct product *p, struct lane *lanes, bool e4m3)
{
    unsigned byte = p->scales == 1 ? 3 : p->scales == 2 ? 2 : 0;
    for (unsigned l = 0; l < 32; l++) {
        lanes[l].scale[0] = lanes[l].scale[1] = 0x55555555;
        lanes[l].selector[0] = lanes[l].selector[2] = byte;
        lanes[l].selector[1] = 1, lanes[l].selector[3] = 2;
    }
    for (unsigned side = 0; side < 2; side++)
        for (unsigned line = 0; line < (side ? 8u : 16u); line++)
            for (unsigned block = 0; block < p->scales; block++) {
                unsigned lane = side ? line * 4 + 2 : line % 8 * 4 + 2 + line / 8, shift = (byte + block) * 8;
                uint32_t code = (uint32_t)(scale_exponent(line, block) + (e4m3 ? 7 : 127)) << (e4m3 ? 3 : 0);
                lanes[lane].scale[side] = (lanes[lane].scale[side] & ~(255u << shift)) | code << shift;
            }
}

static double expected(const struct product *p, unsigned row, unsigned column)
{
    double sum = start(row, column);
    for (unsigned k = 0; k < p->k; k++) {
        double v = (double)a_dense[row][k] * b_dense[k][column];
        if (p->scales) {
            unsigned block = k / (p->k / p->scales);
            int e = scale_exponent(row, block) + scale_exponent(column, block);
            v *= e == 2 ? 4 : e == 1 ? 2 : e == 0 ? 1 : e == -1 ? 0.5 : 0.25;
        }
        sum += v;
    }
    return sum;
}

static double f16_value(uint32_t h)
{
    double m = (h & 0x3ff) / 1024.0 + 1;
    int e = (int)(h >> 10 & 31) - 15;
    if (!(h & 0x7fff))
        return 0;
    for (; e > 0; e--)
        m *= 2;
    for (; e < 0; e++)
        m /= 2;
    return h >> 15 ? -m : m;
}

static void check_product(const struct product *p)
{
    struct lane lanes[32] = { 0 };
    unsigned stored_k = p->chunk ? p->k / 2 : p->k;
    bool integer = !p->c, half = p->c && p->c->bits == 16;
    memset(a_dense, 0, sizeof a_dense);
    for (unsigned row = 0; row < 16; row++)
        for (unsigned s = 0; s < stored_k; s++)
            a_dense[row][p->chunk ? stored_column(p, row, s) : s] = value(row, s, 1);
    for (unsigned k = 0; k < p->k; k++)
        for (unsigned column = 0; column < 8; column++)
            b_dense[k][column] = value(k, column, 4);
    unsigned per_a = 32 / p->a->bits, per_b = 32 / p->b->bits;
    unsigned count_a = 16 * stored_k / 32 / per_a, count_b = p->k * 8 / 32 / per_b;
    for (unsigned l = 0; l < 32; l++) {
        unsigned g = l / 4, t = l % 4;
        for (unsigned r = 0; r < count_a; r++)
            for (unsigned j = 0; j < per_a; j++)
                put(lanes[l].x, r * per_a + j, p->a, value(g + r % 2 * 8, r / 2 * 4 * per_a + t * per_a + j, 1));
        for (unsigned r = 0; r < count_b; r++)
            for (unsigned j = 0; j < per_b; j++)
                put(lanes[l].y, r * per_b + j, p->b, b_dense[r * 4 * per_b + t * per_b + j][g]);
        for (unsigned n = 0; n < 4; n++)
            if (integer)
                lanes[l].z[n] = (uint32_t)start(c_row(l, n), c_column(l, n));
            else
                put(lanes[l].z, n, p->c, start(c_row(l, n), c_column(l, n)));
    }
    if (p->chunk)
        lay_metadata(p, lanes);
    if (p->scales)
        lay_scales(p, lanes, strstr(p->modifiers, "ue4m3"));
    char types[64], insn[512], mnemonic[128], z[32];
    const char *c = integer ? "s32" : p->c->name;
    snprintf(types, sizeof types, "%s.%s.%s.%s", c, p->a->name, p->b->name, c);
    snprintf(mnemonic, sizeof mnemonic, p->modifiers, types);
    snprintf(z, sizeof z, "%s", registers('z', half ? 2 : 4));
    int n = snprintf(insn, sizeof insn, "mma.%ssync.aligned.%s %s, %s, %s, %s", p->chunk ? "sp::ordered_metadata." : "",
                     mnemonic, z, registers('x', count_a), registers('y', count_b), z);
    if (p->chunk)
        n += snprintf(insn + n, sizeof insn - (size_t)n, ", e, %u", p->selector);
    if (p->scales)
        snprintf(insn + n, sizeof insn - (size_t)n, ", {s0}, {i0, i1}, {s1}, {i2, i3}");
    run(insn, lanes);
    for (unsigned l = 0; l < 32; l++)
        for (unsigned r = 0; r < 4; r++) {
            union {
                uint32_t u;
                float f;
            } v = { .u = lanes[l].z[half ? r / 2 : r] };
            double got = integer ? (int32_t)v.u : half ? f16_value(v.u >> (r % 2 * 16) & 0xffff) : v.f;
            double want = expected(p, c_row(l, r), c_column(l, r));
            if (got != want)
                fail_msg("%s: row %u, column %u: %g, not %g", insn, c_row(l, r), c_column(l, r), got, want);
        }
}

EXEC_TEST(sparse)
{
    static const struct {
        const struct type *a, *b, *c;
        unsigned k, chunk, selectors;
    } cases[] = {
        { &F16, &F16, &F32, 16, 4, 4 }, { &F16, &F16, &F32, 32, 4, 2 },   { &BF16, &BF16, &F32, 32, 4, 2 },
        { &F16, &F16, &F16, 16, 4, 4 }, { &TF32, &TF32, &F32, 8, 2, 4 },  { &TF32, &TF32, &F32, 16, 2, 2 },
        { &S8, &S8, NULL, 32, 4, 2 },   { &S8, &S8, NULL, 64, 4, 1 },     { &S4, &S4, NULL, 64, 8, 2 },
        { &S4, &S4, NULL, 128, 8, 1 },  { &E4M3, &E5M2, &F32, 64, 4, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (unsigned selector = 0; selector < cases[i].selectors; selector++) {
            char modifiers[64];
            snprintf(modifiers, sizeof modifiers, "m16n8k%u.row.col.%%s", cases[i].k);
            check_product(&(struct product){ cases[i].a, cases[i].b, cases[i].c, cases[i].k, modifiers, cases[i].chunk,
                                             selector, 0 });
        }
    check_product(&(struct product){ &E2M1, &E3M2, &F32, 64, "kind::f8f6f4.m16n8k64.row.col.%s", 4, 0, 0 });
}

EXEC_TEST(narrow)
{
    static const struct type *const types[] = { &E4M3, &E5M2, &E3M2, &E2M3, &E2M1 };
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++) {
            const char *const one = "kind::f8f6f4.m16n8k32.row.col.%s";
            const char *const other = "m16n8k32.row.col.kind::f8f6f4.%s";
            check_product(&(struct product){ types[a], types[b], &F32, 32, one, 0, 0, 0 });
            check_product(&(struct product){ types[a], types[b], &F16, 32, other, 0, 0, 0 });
        }
}

EXEC_TEST(block_scaled)
{
    static const struct type *const types[] = { &E4M3, &E5M2, &E3M2, &E2M3, &E2M1 };
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < 5; b++)
            check_product(&(struct product){ types[a], types[b], &F32, 32,
                                             "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.%s.ue8m0", 0, 0,
                                             1 });
    check_product(&(struct product){ &FP4, &FP4, &F32, 64,
                                     "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.%s.ue8m0", 0, 0, 2 });
    check_product(&(struct product){ &FP4, &FP4, &F32, 64,
                                     "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.%s.ue8m0", 0, 0, 2 });
    check_product(&(struct product){ &FP4, &FP4, &F32, 64,
                                     "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.%s.ue4m3", 0, 0, 4 });
}

/* mma.m8n8k4: lanes 4q … and 4q + 16 … compute product q. */
EXEC_TEST(quarters)
{
    for (int form = 0; form < 12; form++) {
        bool a_column = form & 1, b_column = form & 2, half_c = form / 4 != 2, half_d = form / 4 == 0;
        struct lane lanes[32] = { 0 };
        char insn[256], z[64], x[32], y[32];
        for (unsigned l = 0; l < 32; l++) {
            unsigned q = l % 16 / 4, upper = l >= 16 ? 4 : 0, mine = l % 4 + upper;
            for (unsigned i = 0; i < 4; i++) {
                put(lanes[l].x, i, &F16, a_column ? value(i + upper, l % 4, q) : value(mine, i, q));
                put(lanes[l].y, i, &F16, b_column ? value(i, mine, q + 3) : value(l % 4, i + upper, q + 3));
            }
            for (unsigned i = 0; i < 8; i++)
                if (half_c)
                    put(lanes[l].z, i, &F16, start(mine, i));
                else
                    put(lanes[l].z, i, &F32, start((l & 1) + (i & 2) + upper, (i & 4) + (l & 2) + (i & 1)));
        }
        snprintf(z, sizeof z, "%s", registers('z', half_c ? 4 : 8));
        snprintf(x, sizeof x, "%s", registers('x', 2));
        snprintf(y, sizeof y, "%s", registers('y', 2));
        snprintf(insn, sizeof insn, "mma.sync.aligned.m8n8k4.%s.%s.%s.f16.f16.%s %s, %s, %s, %s",
                 a_column ? "col" : "row", b_column ? "col" : "row", half_d ? "f16" : "f32", half_c ? "f16" : "f32",
                 registers('z', half_d ? 4 : 8), x, y, z);
        run(insn, lanes);
        for (unsigned l = 0; l < 32; l++)
            for (unsigned i = 0; i < 8; i++) {
                unsigned q = l % 16 / 4, upper = l >= 16 ? 4 : 0;
                unsigned row = half_d ? l % 4 + upper : (l & 1) + (i & 2) + upper;
                unsigned column = half_d ? i : (i & 4) + (l & 2) + (i & 1);
                int want = start(row, column);
                for (unsigned k = 0; k < 4; k++)
                    want += value(row, k, q) * value(k, column, q + 3);
                union {
                    uint32_t u;
                    float f;
                } v = { .u = lanes[l].z[half_d ? i / 2 : i] };
                double got = half_d ? f16_value(v.u >> (i % 2 * 16) & 0xffff) : v.f;
                if (got != want)
                    fail_msg("%s: product %u, row %u, column %u: %g, not %d", insn, q, row, column, got, want);
            }
    }
}

/* wmma of 4 bits and of 1 bit: A by rows, B by columns, both with longer lines than the matrix. */
EXEC_TEST(packed)
{
    for (int bits = 4; bits; bits = bits == 4 ? 1 : 0) {
        unsigned k = bits == 4 ? 32 : 128;
        char ptx[2048], type[32], mma[128];
        snprintf(type, sizeof type, "m8n8k%u", k);
        snprintf(mma, sizeof mma,
                 bits == 4 ? "wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.s4.s32"
                           : "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32");
        snprintf(ptx, sizeof ptx,
                 ".visible .entry k(.param .u64 out)\n{\n%s.reg .b32 x, y, z<2>; add.u64 a1, a0, 1024; add.u64 a2, a0, "
                 "2048;\nwmma.load.a.sync.aligned.row.%s.global.%s {x}, [a0], %u; "
                 "wmma.load.b.sync.aligned.col.%s.global.%s {y}, [a1], %u; "
                 "wmma.load.c.sync.aligned.row.%s.global.s32 {z0, z1}, [a2];\n%s {z0, z1}, {x}, {y}, {z0, z1};\n"
                 "wmma.store.d.sync.aligned.row.%s.global.s32 [a2], {z0, z1};\nret;\n}\n",
                 HEAD, type, bits == 4 ? "s4" : "b1", 2 * k, type, bits == 4 ? "s4" : "b1", 2 * k, type, mma, type);
        gpu_load(ptx);
        uint8_t *memory = gpu_alloc(4096);
        int32_t *c = (int32_t *)(void *)(memory + 2048);
        for (unsigned line = 0; line < 8; line++)
            for (unsigned i = 0; i < k; i++) {
                unsigned at = (line * 2 * k + i) * (unsigned)bits;
                uint32_t mask = (1u << bits) - 1;
                memory[at / 8] |= (uint8_t)(((uint32_t)value(line, i, 0) & mask) << at % 8);
                memory[1024 + at / 8] |= (uint8_t)(((uint32_t)value(i, line, 2) & mask) << at % 8);
                c[line * 8 + i % 8] = start(line, i % 8);
            }
        assert_int_equal(gpu_run("k", 1, 32, 1, ARG(memory)), CUDA_SUCCESS);
        for (unsigned row = 0; row < 8; row++)
            for (unsigned column = 0; column < 8; column++) {
                int want = start(row, column);
                for (unsigned i = 0; i < k; i++) {
                    int a = value(row, i, 0), b = value(i, column, 2);
                    want += bits == 4 ? a * b : (a ^ b) & 1;
                }
                assert_int_equal(c[row * 8 + column], want);
            }
        gpu_reset();
    }
}

/* ldmatrix of bytes, and of 6 and 4 bits that become bytes. */
EXEC_TEST(byte_tiles)
{
    static const struct {
        const char *form;
        unsigned bits, registers, square;
    } cases[] = {
        { "m16n16.x1.trans.shared.b8", 8, 2, 1 },
        { "m16n16.x2.trans.shared.b8", 8, 4, 1 },
        { "m16n16.x2.trans.shared.b8x16.b6x16_p32", 6, 4, 1 },
        { "m16n16.x1.trans.shared.b8x16.b4x16_p64", 4, 2, 1 },
        { "m8n16.x1.shared.b8x16.b6x16_p32", 6, 1, 0 },
        { "m8n16.x4.shared.b8x16.b4x16_p64", 4, 4, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char insn[512];
        snprintf(insn, sizeof insn,
                 ".shared .align 16 .b8 tile[512]; .reg .b64 at; mul.wide.u32 at, r1, 16; mov.u64 a3, tile; "
                 "add.u64 a3, a3, at; st.shared.v4.b32 [a3], {x0, x1, x2, x3}; bar.sync 0; "
                 "ldmatrix.sync.aligned.%s %s, [a3]",
                 cases[i].form, registers('z', cases[i].registers));
        struct lane lanes[32] = { 0 };
        unsigned bits = cases[i].bits;
        for (unsigned l = 0; l < 32; l++)
            for (unsigned n = 0; n < 16; n++)
                for (unsigned b = 0; b < bits; b++)
                    lanes[l].x[(n * bits + b) / 32] |= ((l * 7 + n * 3) >> b & 1u) << ((n * bits + b) % 32);
        run(insn, lanes);
        for (unsigned l = 0; l < 32; l++)
            for (unsigned r = 0; r < cases[i].registers; r++)
                for (unsigned j = 0; j < 4; j++) {
                    unsigned row = l / 4, column = l % 4 * 4 + j; /* of the matrix in registers */
                    unsigned line = cases[i].square ? r / 2 * 16 + column : r * 8 + row;
                    unsigned n = cases[i].square ? row + r % 2 * 8 : column;
                    assert_int_equal(lanes[l].z[r] >> (8 * j) & 255, (line * 7 + n * 3) & ((1u << bits) - 1));
                }
    }
}

/* 16 by 8 bytes a register: a lane has two columns of row l / 4, then of the row eight below; column c is line c. */
EXEC_TEST(byte_tiles_stored)
{
    for (unsigned count = 1; count <= 4; count *= 2) {
        char insn[512];
        struct lane lanes[32] = { 0 };
        snprintf(insn, sizeof insn,
                 ".shared .align 16 .b8 tile[512]; .reg .b64 at; mul.wide.u32 at, r1, 16; mov.u64 a3, tile; "
                 "add.u64 a3, a3, at; stmatrix.sync.aligned.m16n8.x%u.trans.shared.b8 [a3], %s; bar.sync 0; "
                 "ld.shared.v4.b32 {z0, z1, z2, z3}, [a3]", count, registers('x', count));
        for (unsigned l = 0; l < 32; l++)
            for (unsigned r = 0; r < count; r++)
                for (unsigned j = 0; j < 4; j++) {
                    unsigned row = l / 4 + j / 2 * 8, column = r * 8 + l % 4 * 2 + j % 2;
                    lanes[l].x[r] |= ((row * 37 + column * 5 + 1) & 255u) << 8 * j;
                }
        run(insn, lanes);
        for (unsigned column = 0; column < 8 * count; column++)
            for (unsigned row = 0; row < 16; row++)
                assert_int_equal(lanes[column].z[row / 4] >> row % 4 * 8 & 255, (row * 37 + column * 5 + 1) & 255);
    }
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
