/*
 * wgmma.c: products of four warps with operands in shared memory. Matrices are laid out here by the canonical layouts
 * of the PTX ISA, in elements; values are small integers, so that every order of addition gives the same.
 *
 * shows: software GPU: wgmma in all types, layouts, swizzles and sparse forms gives the product that the host computes,
 *   and bit by bit what mma.sync gives; wait_group waits for all four warps.
 */
#include "tests/exec/main.h"
#include "tests/lib/dice.h"

enum { SHARED = 45056, B_AT = 10240, IMAGE = 65536, A_AT = IMAGE + SHARED, WORDS = 128 };
enum kind { REAL, INTEGER, BITS };
struct type { const char *name; unsigned bits, exponent, fraction; enum kind kind; bool is_signed; };
static const struct type F16 = { "f16", 16, 5, 10, REAL, true }, BF16 = { "bf16", 16, 8, 7, REAL, true },
                         TF32 = { "tf32", 32, 8, 23, REAL, true }, E4M3 = { "e4m3", 8, 4, 3, REAL, true },
                         E5M2 = { "e5m2", 8, 5, 2, REAL, true }, F32 = { "f32", 32, 8, 23, REAL, true },
                         S8 = { "s8", 8, 0, 0, INTEGER, true }, U8 = { "u8", 8, 0, 0, INTEGER, false },
                         B1 = { "b1", 1, 0, 0, BITS, false };
static const struct { const struct type *a, *b; bool half; } combinations[] = {
    { &F16, &F16, false }, { &F16, &F16, true }, { &BF16, &BF16, false }, { &TF32, &TF32, false },
    { &E4M3, &E4M3, false }, { &E4M3, &E5M2, true }, { &E5M2, &E4M3, false }, { &E5M2, &E5M2, true },
    { &S8, &S8, false }, { &S8, &U8, false }, { &U8, &S8, false }, { &U8, &U8, false }, { &B1, &B1, false },
};

static uint64_t seed = 20261122;
static uint32_t below(uint32_t n) { return dice(&seed, n); }

static uint32_t encode(const struct type *t, int v)
{
    uint32_t mask = t->bits == 32 ? UINT32_MAX : (1u << t->bits) - 1;
    if (!t->exponent || !v)
        return (uint32_t)v & mask;
    uint32_t sign = v < 0, m = (uint32_t)(v < 0 ? -v : v), e = 31u - (uint32_t)__builtin_clz(m);
    uint32_t bias = (1u << (t->exponent - 1)) - 1;
    uint32_t fraction = e > t->fraction ? (m - (1u << e)) >> (e - t->fraction) : (m - (1u << e)) << (t->fraction - e);
    return sign << (t->exponent + t->fraction) | (e + bias) << t->fraction | fraction;
}

/* One matrix in shared memory. swizzle: 0 to 3; offsets in bytes. */
struct layout { unsigned start, leading, stride, base, swizzle; bool major_mn; };

/* Where an element lies: `line` along M or N. */
static unsigned element_at(const struct layout *l, unsigned bytes, unsigned line, unsigned k)
{
    static const unsigned codes[] = { 1, 2, 4, 8 };
    const unsigned t = 16 / bytes, s = codes[l->swizzle];
    unsigned at;
    if (l->major_mn && !l->swizzle)
        at = (line % t) * bytes + line / t * l->stride + k % 8 * 16 + k / 8 * l->leading;
    else if (l->major_mn)
        at = (line % (t * s)) * bytes + line / (t * s) * l->leading + k % 8 * s * 16 + k / 8 * l->stride;
    else if (!l->swizzle)
        at = line % 8 * 16 + line / 8 * l->stride + k % t * bytes + k / t * l->leading;
    else
        at = line % 8 * s * 16 + line / 8 * l->stride + k * bytes;
    if (l->base) /* the pattern begins at the start */
        return l->start + (at ^ (at >> 7 & (s - 1)) << 4);
    at += l->start;
    return at ^ (at >> 7 & (s - 1)) << 4;
}

static uint64_t descriptor(const struct layout *l)
{
    static const uint64_t codes[] = { 0, 3, 2, 1 };
    return (uint64_t)(l->start >> 4) | (uint64_t)(l->leading >> 4) << 16 | (uint64_t)(l->stride >> 4) << 32 |
           (uint64_t)l->base << 49 | codes[l->swizzle] << 62;
}

/* At `start`, of `lines` by k elements. */
static struct layout some_layout(unsigned start, unsigned lines, unsigned k, unsigned bytes, bool may_major_mn)
{
    const unsigned depth = k * bytes;
    struct layout l = { .start = start, .swizzle = below(4), .major_mn = may_major_mn && below(2) };
    const unsigned span = 16u << l.swizzle, atom = 8 * span;
    if (l.major_mn && !l.swizzle) {
        l.stride = 128 * (k / 8) + 16 * below(3);
        l.leading = 128;
        if (below(2)) {
            l.stride = 128;
            l.leading = lines / 8 * 128 + 16 * below(3);
        }
    } else if (l.major_mn) {
        l.leading = atom * (k / 8) + atom * below(2);
        l.stride = atom;
    } else if (!l.swizzle) {
        l.leading = 128 + 16 * below(2);
        l.stride = l.leading * (depth / 16) + 16 * below(2);
    } else {
        while ((16u << l.swizzle) < depth)
            l.swizzle++;
        l.stride = 8 * (16u << l.swizzle);
        l.leading = 16;
    }
    if (l.swizzle && below(3) == 0) {
        l.base = l.swizzle == 3 ? 1 + below(7) : l.swizzle == 2 ? 1 + below(3) : 1;
        l.start += 128 * l.base;
    }
    return l;
}

struct product {
    const struct type *a, *b;
    bool half, sparse, registers, accumulates, negates_a, negates_b;
    unsigned n, k; /* of b1: words of 32 bits */
};
static int a_dense[64][64], b_dense[64][256];
static uint32_t a_bits[64][8], b_bits[8][256];

/* Of a chunk of a row of a sparse A, which two of four (of tf32: which of two) are there. */
static unsigned first_of(unsigned row, unsigned chunk) { return (row + chunk) % 3; }
static unsigned second_of(unsigned row, unsigned chunk) { return first_of(row, chunk) == 2 ? 3 : 2 + row % 2; }
static unsigned column_of(const struct product *p, unsigned row, unsigned stored)
{
    if (!p->sparse)
        return stored;
    if (p->a->bits == 32)
        return stored * 2 + (row + stored) % 2;
    return stored / 2 * 4 + (stored % 2 ? second_of(row, stored / 2) : first_of(row, stored / 2));
}

static uint32_t metadata_of(const struct product *p, unsigned selector, unsigned warp, unsigned lane)
{
    uint32_t word = 0;
    for (unsigned in = 0; in < 16; in++)
        for (unsigned chunk = 0; chunk < p->k / (p->a->bits == 32 ? 2 : 4); chunk++) {
            unsigned row = 16 * warp + in, thread, shift;
            uint32_t bits = p->a->bits == 32 ? (row + chunk) % 2 ? 14u : 4u
                                             : first_of(row, chunk) | second_of(row, chunk) << 2;
            if (p->a->bits >= 16) {
                thread = 2 * selector + chunk / 4;
                shift = in / 8 * 16 + chunk % 4 * 4;
            } else {
                thread = chunk / 8 * 2 + in / 8;
                shift = chunk % 8 * 4;
            }
            if (lane == in % 8 * 4 + thread)
                word |= bits << shift;
        }
    return word;
}

static void fill(const struct product *p)
{
    memset(a_dense, 0, sizeof a_dense);
    for (unsigned row = 0; row < 64; row++)
        for (unsigned s = 0; s < (p->sparse ? p->k / 2 : p->k); s++) {
            a_dense[row][column_of(p, row, s)] = p->a->is_signed ? (int)below(7) - 3 : (int)below(4);
            if (p->a->kind == BITS)
                a_bits[row][s] = below(1u << 31) << 1 ^ below(1u << 31);
        }
    for (unsigned k = 0; k < p->k; k++)
        for (unsigned n = 0; n < p->n; n++) {
            b_dense[k][n] = p->b->is_signed ? (int)below(7) - 3 : (int)below(4);
            if (p->b->kind == BITS)
                b_bits[k][n] = below(1u << 31) << 1 ^ below(1u << 31);
        }
}

static int start_of(unsigned row, unsigned column) { return (int)(row % 9) - (int)(column % 13); }

static int expected(const struct product *p, unsigned row, unsigned column)
{
    int sum = 0;
    for (unsigned k = 0; k < p->k; k++)
        sum += p->a->kind == BITS ? __builtin_popcount(a_bits[row][k] & b_bits[k][column])
                                  : a_dense[row][k] * b_dense[k][column];
    if (p->negates_a != p->negates_b)
        sum = -sum;
    return sum + (p->accumulates ? start_of(row, column) : 0);
}

static uint32_t a_word(const struct product *p, unsigned row, unsigned s)
{
    return p->a->kind == BITS ? a_bits[row][s] : encode(p->a, a_dense[row][column_of(p, row, s)]);
}

static void put(unsigned char *image, const struct layout *l, unsigned bytes, unsigned line, unsigned k, uint32_t value)
{
    unsigned at = element_at(l, bytes, line, k);
    assert_true(at + bytes <= SHARED);
    memcpy(image + at, &value, bytes);
}

/* Element e of a lane's part of 16 rows of D. */
static unsigned d_row(unsigned lane, unsigned e) { return lane / 4 + e / 2 % 2 * 8; }
static unsigned d_column(unsigned lane, unsigned e) { return e / 4 * 8 + lane % 4 * 2 + e % 2; }

static void registers(char *to, char name, unsigned count)
{
    to += sprintf(to, "{");
    for (unsigned i = 0; i < count; i++)
        to += sprintf(to, "%s%c%u", i ? ", " : "", name, i);
    strcpy(to, "}");
}

/* Parameters: out: 128 words of D for each thread, then what shared memory holds, then 8 words for each thread: A in
   registers, metadata. da, db: descriptors. */
static const char *const FRAME =
    ".shared .align 1024 .b8 s[45056];\n"
    ".visible .entry k(.param .u64 out, .param .u64 first, .param .u64 second, .param .u64 scale)\n{\n%s"
    ".reg .b32 z<128>, x<4>, e, n; .reg .b64 m, f, q, da, db; .reg .pred go;\n"
    "ld.param.u64 da, [first]; ld.param.u64 db, [second]; ld.param.u32 r5, [scale]; setp.ne.u32 go, r5, 0;\n"
    "mul.wide.u32 m, r1, 512; add.u64 m, m, a0; mul.wide.u32 f, r1, 32; add.u64 f, f, a0; add.u64 f, f, 110592;\n"
    "ld.global.v4.b32 {x0, x1, x2, x3}, [f]; ld.global.b32 e, [f+16]; shl.b32 n, r1, 4;\n"
    "C: cvt.u64.u32 q, n; add.u64 q, q, a0; ld.global.v4.b32 {r8, r9, r10, r11}, [q+65536]; mov.u32 r12, s;\n"
    "add.u32 r12, r12, n; st.shared.v4.b32 [r12], {r8, r9, r10, r11}; add.u32 n, n, 2048; setp.lt.u32 p1, n, 45056;\n"
    "@p1 bra C;\nmov.u32 r12, s; cvt.u64.u32 q, r12; shr.u64 q, q, 4; add.u64 da, da, q; add.u64 db, db, q;\n"
    "fence.proxy.async; bar.sync 0;\n%s\nret;\n}\n";

static void run(const struct product *p)
{
    static char ptx[65536], body[32768], list[2048];
    const unsigned bytes = p->a->kind == BITS ? 4 : p->a->bits / 8, stored = p->sparse ? p->k / 2 : p->k;
    const unsigned words = p->half ? p->n / 4 : p->n / 2, selector = p->a->bits == 8 ? 0 : below(2);
    const bool transposes = p->a->bits == 16;
    struct layout a = some_layout(0, 64, stored, bytes, transposes && !p->registers);
    struct layout b;
    char from[64] = "da", scales[64] = "", shape[32], metadata[16] = "";
    do
        b = some_layout(B_AT, p->n, p->k, bytes, false);
    while (b.start + (p->n / 8 + 1) * b.stride > SHARED);
    if (transposes && below(2))
        do
            b = some_layout(B_AT, p->n, p->k, bytes, true);
        while (!b.major_mn || element_at(&b, 2, p->n - 1, p->k - 1) + 4096 > SHARED ||
               (p->n % (8u << b.swizzle) && b.swizzle));
    fill(p);
    if (p->registers)
        registers(from, 'x', 4);
    if (p->a->kind == REAL)
        sprintf(scales, ", %d, %d", p->negates_a ? -1 : 1, p->negates_b ? -1 : 1);
    if (transposes && !p->registers)
        sprintf(scales + strlen(scales), ", %d", a.major_mn);
    if (transposes)
        sprintf(scales + strlen(scales), ", %d", b.major_mn);
    if (p->sparse)
        sprintf(metadata, " e, %u,", selector);
    sprintf(shape, "m64n%uk%u", p->n, p->a->kind == BITS ? p->k * 32 : p->k);
    registers(list, 'z', words);
    char *at = body;
    for (unsigned r = 0; r < words; r++)
        at += sprintf(at, "ld.global.b32 z%u, [m+%u];\n", r, 4 * r);
    at += sprintf(at, "wgmma.fence.sync.aligned;\nwgmma.mma_async%s.sync.aligned.%s.%s.%s.%s%s %s, %s, db,%s go%s;\n"
                      "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n",
                  p->sparse ? ".sp" : "", shape, p->a->kind != REAL ? "s32" : p->half ? "f16" : "f32", p->a->name,
                  p->b->name, p->a->kind == BITS ? ".and.popc" : "", list, from, metadata, scales);
    for (unsigned r = 0; r < words; r++)
        at += sprintf(at, "st.global.b32 [m+%u], z%u;\n", 4 * r, r);
    snprintf(ptx, sizeof ptx, FRAME, HEAD, body);
    gpu_load(ptx);
    unsigned char *out = gpu_alloc(A_AT + 128 * 32), *image = out + IMAGE;
    for (unsigned i = 0; i < SHARED; i++)
        image[i] = (unsigned char)below(256);
    for (unsigned row = 0; row < 64 && !p->registers; row++)
        for (unsigned s = 0; s < stored; s++)
            put(image, &a, bytes, row, s, a_word(p, row, s));
    for (unsigned column = 0; column < p->n; column++)
        for (unsigned k = 0; k < p->k; k++)
            put(image, &b, bytes, column, k,
                p->b->kind == BITS ? b_bits[k][column] : encode(p->b, b_dense[k][column]));
    const struct type *d = p->half ? &F16 : &F32;
    for (unsigned t = 0; t < 128; t++) {
        uint32_t *more = (uint32_t *)(void *)(out + A_AT + t * 32), *mine = (uint32_t *)(void *)(out + t * 512);
        unsigned per = 4 / bytes, lane = t % 32;
        for (unsigned r = 0; r < 4 && p->registers; r++)
            for (unsigned e = 0; e < per; e++)
                more[r] |= a_word(p, t / 32 * 16 + lane / 4 + r % 2 * 8, r / 2 * 4 * per + lane % 4 * per + e)
                           << 8 * bytes * e;
        if (p->sparse)
            more[4] = metadata_of(p, selector, t / 32, lane);
        for (unsigned e = 0; e < p->n / 2; e++) {
            int v = start_of(16 * (t / 32) + d_row(lane, e), d_column(lane, e));
            if (p->half)
                mine[e / 2] |= encode(d, v) << e % 2 * 16;
            else
                mine[e] = p->a->kind == REAL ? encode(d, v) : (uint32_t)v;
        }
    }
    assert_int_equal(gpu_run("k", 1, 128, 4, ARG(out), descriptor(&a), descriptor(&b), (uint64_t)p->accumulates),
                     CUDA_SUCCESS);
    for (unsigned t = 0; t < 128; t++)
        for (unsigned e = 0; e < p->n / 2; e++) {
            const uint32_t *mine = (const uint32_t *)(const void *)(out + t * 512);
            unsigned row = 16 * (t / 32) + d_row(t % 32, e), column = d_column(t % 32, e);
            int v = expected(p, row, column);
            uint32_t wanted = p->a->kind == REAL ? encode(d, v) : (uint32_t)v;
            uint32_t got = p->half ? mine[e / 2] >> e % 2 * 16 & 0xffff : mine[e];
            if (got != wanted && !(got << 1 == 0 && v == 0))
                fail_msg("%s %s.%s%s%s a %u/%d b %u/%d base %u %u: row %u column %u: %x, not %d", shape, p->a->name,
                         p->b->name, p->sparse ? " sparse" : "", p->registers ? " registers" : "", a.swizzle,
                         a.major_mn, b.swizzle, b.major_mn, a.base, b.base, row, column, got, v);
        }
    gpu_reset();
}

static void every_type(bool sparse)
{
    static const unsigned sizes[] = { 8, 16, 64, 96, 256 };
    for (unsigned c = 0; c < sizeof combinations / sizeof *combinations; c++)
        for (unsigned i = 0; i < 12; i++) {
            const struct type *a = combinations[c].a, *b = combinations[c].b;
            if (sparse && a->kind == BITS)
                continue;
            struct product p = { .a = a, .b = b, .half = combinations[c].half, .sparse = sparse,
                                 .registers = i % 3 == 0, .accumulates = i % 4 != 1, .n = sizes[below(5)] };
            p.k = (a->kind == BITS ? 8 : 256 / a->bits) * (sparse ? 2u : 1u);
            p.negates_a = a->kind == REAL && below(3) == 0;
            p.negates_b = a->kind == REAL && below(3) == 0;
            run(&p);
        }
}

EXEC_TEST(dense_products) { (void)state, every_type(false); }
EXEC_TEST(sparse_products) { (void)state, every_type(true); }

/* Random numbers, products of them rounded: the same order of addition as mma.sync, hence the same bits. */
EXEC_TEST(as_mma_sync)
{
    static char ptx[16384];
    snprintf(ptx, sizeof ptx, FRAME, HEAD,
             "and.b32 r13, r1, 31; shl.b32 r14, r13, 2; add.u32 r14, r14, r12; ld.shared.b32 r15, [r14+10240];\n"
             "ld.shared.b32 r16, [r14+10368]; mov.b32 z0, 0; mov.b32 z1, 0; mov.b32 z2, 0; mov.b32 z3, 0;\n"
             "mov.b32 z4, 0; mov.b32 z5, 0; mov.b32 z6, 0; mov.b32 z7, 0;\n"
             "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {z0, z1, z2, z3}, {x0, x1, x2, x3}, {r15, r16}, "
             "{z0, z1, z2, z3};\nwgmma.fence.sync.aligned;\n"
             "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {z4, z5, z6, z7}, {x0, x1, x2, x3}, db, 1, 1, 1, 0;\n"
             "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
             "st.global.v4.b32 [m], {z0, z1, z2, z3}; st.global.v4.b32 [m+16], {z4, z5, z6, z7};");
    gpu_load(ptx);
    unsigned char *out = gpu_alloc(A_AT + 128 * 32);
    uint16_t *a = (uint16_t *)(void *)(out + A_AT), *b = (uint16_t *)(void *)(out + IMAGE + B_AT);
    for (unsigned i = 0; i < 128 * 16; i++)
        a[i] = (uint16_t)(0x3000 + below(0x1000) + below(2) * 0x8000);
    for (unsigned i = 0; i < 128; i++)
        b[i] = (uint16_t)(0x3000 + below(0x1000) + below(2) * 0x8000);
    /* column n of B: eight k at 16 * n, the others 128 bytes behind; lane l of mma has k 2 * (l % 4) and the next of
       column l / 4 */
    const struct layout l = { .start = B_AT, .leading = 128, .stride = 256 };
    assert_int_equal(gpu_run("k", 1, 128, 4, ARG(out), UINT64_C(0), descriptor(&l), UINT64_C(1)), CUDA_SUCCESS);
    uint32_t any = 0;
    for (unsigned t = 0; t < 128; t++)
        for (unsigned r = 0; r < 4; r++) {
            const uint32_t *mine = (const uint32_t *)(const void *)(out + 512 * t);
            assert_int_equal(mine[r], mine[4 + r]);
            any |= mine[r];
        }
    assert_int_not_equal(any, 0);
}

EXEC_TEST(sums_are_clamped)
{
    static char ptx[16384];
    snprintf(ptx, sizeof ptx, FRAME, HEAD,
             "mov.b32 x0, 0x01010101; mov.b32 x1, x0; mov.b32 x2, x0; mov.b32 x3, x0; mov.b32 z0, 0x7ffffff0;\n"
             "mov.b32 z1, 0x80000001; mov.b32 z2, z0; mov.b32 z3, z1; mov.b32 z4, z0; mov.b32 z5, z0; mov.b32 z6, z0;\n"
             "mov.b32 z7, z0; wgmma.fence.sync.aligned;\n"
             "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8.satfinite {z0, z1, z2, z3}, {x0, x1, x2, x3}, db, 1;\n"
             "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {z4, z5, z6, z7}, {x0, x1, x2, x3}, db, 1;\n"
             "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\n"
             "st.global.v4.b32 [m], {z0, z1, z2, z3}; st.global.v4.b32 [m+16], {z4, z5, z6, z7};");
    gpu_load(ptx);
    unsigned char *out = gpu_alloc(A_AT + 128 * 32);
    /* even columns are ones, odd ones minus ones */
    for (unsigned n = 0; n < 8; n++)
        for (unsigned k = 0; k < 32; k++)
            out[IMAGE + B_AT + n * 16 + k % 16 + k / 16 * 128] = n % 2 ? 255 : 1;
    const struct layout l = { .start = B_AT, .leading = 128, .stride = 256 };
    assert_int_equal(gpu_run("k", 1, 128, 4, ARG(out), UINT64_C(0), descriptor(&l), UINT64_C(1)), CUDA_SUCCESS);
    for (unsigned t = 0; t < 128; t++) {
        const uint32_t *mine = (const uint32_t *)(const void *)(out + 512 * t);
        assert_int_equal(mine[0], 0x7fffffff);
        assert_int_equal(mine[1], 0x80000000);
        assert_int_equal(mine[4], 0x80000010);
        assert_int_equal(mine[5], 0x7fffffd0);
    }
}

/* The first warp overwrites B as soon as its group is complete; the others are late. */
EXEC_TEST(a_group_is_complete_when_all_warps_have_computed)
{
    static char ptx[16384];
    snprintf(ptx, sizeof ptx, FRAME, HEAD,
             "mov.b32 x0, 0x01010101; mov.b32 x1, x0; mov.b32 x2, x0; mov.b32 x3, x0; mov.u32 n, r1;\n"
             "L: setp.lt.u32 p1, n, 32;\n@p1 bra D;\nsub.u32 n, n, 32; mov.u32 r20, 0;\n"
             "M: add.u32 r20, r20, 1; setp.lt.u32 p2, r20, 20000;\n@p2 bra M;\nbra L;\nD: wgmma.fence.sync.aligned;\n"
             "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {z0, z1, z2, z3}, {x0, x1, x2, x3}, db, 0;\n"
             "wgmma.commit_group.sync.aligned;\n"
             "wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.u8 {z4, z5, z6, z7}, {x0, x1, x2, x3}, db, 0;\n"
             "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; wgmma.wait_group.sync.aligned 0;\n"
             "setp.gt.u32 p1, r1, 0;\n@p1 bra E;\nmov.u32 r21, 0;\n"
             "O: add.u32 r22, r12, r21; st.shared.b32 [r22+10240], r21; add.u32 r21, r21, 4;\n"
             "setp.lt.u32 p2, r21, 512;\n@p2 bra O;\nE: st.global.v4.b32 [m], {z0, z1, z2, z3};\n"
             "st.global.v4.b32 [m+16], {z4, z5, z6, z7};");
    gpu_load(ptx);
    unsigned char *out = gpu_alloc(A_AT + 128 * 32);
    memset(out + IMAGE + B_AT, 1, 512);
    const struct layout l = { .start = B_AT, .leading = 128, .stride = 256 };
    assert_int_equal(gpu_run("k", 1, 128, 4, ARG(out), UINT64_C(0), descriptor(&l), UINT64_C(1)), CUDA_SUCCESS);
    for (unsigned t = 0; t < 128; t++)
        for (unsigned r = 0; r < 8; r++)
            assert_int_equal(((const uint32_t *)(const void *)(out + 512 * t))[r], 32);
}

EXEC_TEST(what_is_wrong_is_told)
{
    static char ptx[16384];
    static const char *const wrong[] = {
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {z0, z1, z2, z3}, da, db, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {z0, z1, z2, z3}, da, db, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {z0, z1, z2, z3}, da, db, 1, 1, 1, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {z0, z1}, da, db, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {z0, z1, z2, z3}, {x0, x1}, db, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n264k16.f32.f16.f16 {z0, z1, z2, z3}, da, db, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.e4m3 {z0, z1, z2, z3}, da, db, 1;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {z0, z1, z2, z3}, da, db, e, 9, 1, 1, 1, 0, 0;",
        "wgmma.forget.sync.aligned;",
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(ptx, sizeof ptx, FRAME, HEAD, wrong[i]);
        assert_non_null(gpu_refuses(ptx, "k"));
        gpu_reset();
    }
    snprintf(ptx, sizeof ptx, FRAME, HEAD,
             "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {z0, z1, z2, z3}, da, db, 1, 1, 1, 0, 0;");
    gpu_load(ptx);
    unsigned char *out = gpu_alloc(A_AT + 128 * 32);
    const struct layout l = { .start = 200000, .leading = 128, .stride = 256 };
    assert_int_equal(gpu_run("k", 1, 128, 4, ARG(out), UINT64_C(0), descriptor(&l), UINT64_C(1)),
                     CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void) { return unit_run(exec_setup, exec_teardown); }
