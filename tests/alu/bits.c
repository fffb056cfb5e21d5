/*
 * bits.c: logic, shifts, bit fields, permutations and dot products of softgpu/alu, each against the bit-by-bit
 * description that PTX gives of it.
 */
#include "tests/alu/harness.h"

typedef uint64_t reference(const uint64_t *v, unsigned bits, bool is_signed, unsigned variant);

static uint64_t cut(uint64_t x, unsigned bits) { return bits == 64 ? x : x & (((uint64_t)1 << bits) - 1); }
static int64_t extend(uint64_t x, unsigned bits) { return (int64_t)(x << (64 - bits)) >> (64 - bits); }
static unsigned bit(uint64_t x, unsigned at) { return at < 64 ? (unsigned)(x >> at & 1) : 0; }

static uint64_t logic(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)s;
    uint64_t d = 0;
    for (unsigned i = 0; i < bits; i++) {
        const unsigned a = bit(v[0], i), b = bit(v[1], i);
        d |= (uint64_t)(variant == 0 ? a && b : variant == 1 ? a || b : variant == 2 ? a != b : !a) << i;
    }
    return variant == 4 ? cut(v[0], bits) == 0 : d;
}
static uint64_t shift(const uint64_t *v, unsigned bits, bool s, unsigned left)
{
    const uint64_t sign = s ? bit(v[0], bits - 1) : 0;
    uint64_t d = 0;
    for (unsigned i = 0; i < bits; i++) {
        const uint64_t from = left ? (uint64_t)i - v[1] : (uint64_t)i + v[1];
        d |= (from < bits ? bit(v[0], (unsigned)from) : left ? 0 : sign) << i;
    }
    return d;
}
static uint64_t funnel(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)bits, (void)s;
    const bool right = variant & 1, clamp = variant & 2;
    const uint64_t n = clamp ? v[2] > 32 ? 32 : v[2] : v[2] % 32;
    uint64_t d = 0;
    for (unsigned i = 0; i < 32; i++) {
        const uint64_t from = right ? i + n : 32 + i - n;     /* in b:a */
        d |= (uint64_t)bit(from < 32 ? v[0] : v[1], from % 32) << i;
        if (from == 64)
            d &= ~((uint64_t)1 << i);
    }
    return d;
}
static uint64_t popc(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)s, (void)variant;
    unsigned n = 0;
    for (unsigned i = 0; i < bits; i++)
        n += bit(v[0], i);
    return n;
}
static uint64_t clz(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)s, (void)variant;
    unsigned n = 0;
    while (n < bits && !bit(v[0], bits - 1 - n))
        n++;
    return n;
}
static uint64_t brev(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)s, (void)variant;
    uint64_t d = 0;
    for (unsigned i = 0; i < bits; i++)
        d |= (uint64_t)bit(v[0], bits - 1 - i) << i;
    return d;
}
static uint64_t bfind(const uint64_t *v, unsigned bits, bool s, unsigned shiftamt)
{
    const uint64_t a = s && bit(v[0], bits - 1) ? ~v[0] : v[0];
    for (unsigned i = bits; i-- > 0;)
        if (bit(a, i))
            return shiftamt ? bits - 1 - i : i;
    return UINT32_MAX;
}
/* Of a field: what is more than 255 is far away where the field has 64 bits, else its lower 8 bits count. */
static unsigned count(uint64_t x, unsigned bits)
{
    return bits == 64 && (uint32_t)x > 255 ? 255 : (unsigned)x & 255;
}
static uint64_t bfe(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)variant;
    const unsigned position = count(v[1], bits), length = count(v[2], bits), top = position + length;
    const unsigned sign = !s || length == 0 ? 0 : bit(v[0], top - 1 < bits - 1 ? top - 1 : bits - 1);
    uint64_t d = 0;
    for (unsigned i = 0; i < bits; i++)
        d |= (uint64_t)(i < length && position + i < bits ? bit(v[0], position + i) : sign) << i;
    return d;
}
static uint64_t bfi(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)s, (void)variant;
    const unsigned position = count(v[2], bits), length = count(v[3], bits);
    uint64_t d = v[1];
    for (unsigned i = 0; i < length && position + i < bits; i++)
        d = (d & ~((uint64_t)1 << (position + i))) | (uint64_t)bit(v[0], i) << (position + i);
    return d;
}
static uint64_t bmsk(const uint64_t *v, unsigned bits, bool s, unsigned clamp)
{
    (void)bits, (void)s;
    const uint64_t from = clamp ? v[0] : v[0] % 32, length = clamp ? v[1] : v[1] % 32;
    uint64_t d = 0;
    for (uint64_t i = 0; i < 32; i++)
        d |= (uint64_t)(i >= from && i - from < length) << i;
    return d;
}
static uint64_t szext(const uint64_t *v, unsigned bits, bool s, unsigned clamp)
{
    (void)bits;
    const uint64_t n = clamp ? v[1] : v[1] % 32;
    return n == 0 ? 0 : n >= 32 ? v[0] : s ? (uint64_t)extend(v[0], (unsigned)n) : cut(v[0], (unsigned)n);
}
static uint64_t fns(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)bits, (void)s, (void)variant;
    const int32_t offset = (int32_t)v[2];
    int64_t position = (int64_t)v[1], left = llabs((long long)offset) - 1;
    if (offset == 0)
        return v[1] < 32 && bit(v[0], (unsigned)v[1]) ? v[1] : UINT32_MAX;
    for (; position >= 0 && position < 32; position += offset > 0 ? 1 : -1)
        if (bit(v[0], (unsigned)position) && left-- == 0)
            return (uint64_t)position;
    return UINT32_MAX;
}
/* variant: 1 a signed, 2 b signed, 4 dp2a, 8 hi */
static uint64_t dot(const uint64_t *v, unsigned bits, bool s, unsigned variant)
{
    (void)bits, (void)s;
    int64_t sum = (int64_t)v[2];
    for (unsigned i = 0; i < (variant & 4 ? 2u : 4u); i++) {
        const unsigned wide = variant & 4 ? 16 : 8, at = variant & 8 ? i + 2 : i;
        const uint64_t a = cut(v[0] >> (wide * i), wide), b = cut(v[1] >> (8 * at), 8);
        sum += (variant & 1 ? extend(a, wide) : (int64_t)a) * (variant & 2 ? extend(b, 8) : (int64_t)b);
    }
    return (uint64_t)sum;
}
static uint64_t prmt(const uint64_t *v, unsigned bits, bool s, unsigned mode)
{
    (void)bits, (void)s;
    /* selectors as PTX tabulates them, most significant byte first */
    static const uint8_t tables[7][4][4] = {
        { { 0 } },
        { { 3, 2, 1, 0 }, { 4, 3, 2, 1 }, { 5, 4, 3, 2 }, { 6, 5, 4, 3 } },
        { { 5, 6, 7, 0 }, { 6, 7, 0, 1 }, { 7, 0, 1, 2 }, { 0, 1, 2, 3 } },
        { { 0, 0, 0, 0 }, { 1, 1, 1, 1 }, { 2, 2, 2, 2 }, { 3, 3, 3, 3 } },
        { { 3, 2, 1, 0 }, { 3, 2, 1, 1 }, { 3, 2, 2, 2 }, { 3, 3, 3, 3 } },
        { { 0, 0, 0, 0 }, { 1, 1, 1, 0 }, { 2, 2, 1, 0 }, { 3, 2, 1, 0 } },
        { { 1, 0, 1, 0 }, { 3, 2, 3, 2 }, { 1, 0, 1, 0 }, { 3, 2, 3, 2 } },
    };
    uint64_t d = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned selector = mode ? tables[mode][v[2] & 3][3 - i] : (unsigned)(v[2] >> (4 * i) & 15);
        const unsigned at = selector & 7;
        unsigned byte = (unsigned)((at < 4 ? v[0] : v[1]) >> (8 * (at & 3)) & 255);
        if (selector & 8)
            byte = byte & 128 ? 255 : 0;
        d |= (uint64_t)byte << (8 * i);
    }
    return d;
}

static const struct { const char *text; reference *reference; unsigned bits; bool is_signed; unsigned variant,
                      sources; unsigned d_bits;
} cases[] = {
    { "and.b16", logic, 16, 0, 0, 2, 16 },
    { "and.b32", logic, 32, 0, 0, 2, 32 },
    { "and.b64", logic, 64, 0, 0, 2, 64 },
    { "or.b16", logic, 16, 0, 1, 2, 16 },
    { "or.b32", logic, 32, 0, 1, 2, 32 },
    { "or.b64", logic, 64, 0, 1, 2, 64 },
    { "xor.b16", logic, 16, 0, 2, 2, 16 },
    { "xor.b32", logic, 32, 0, 2, 2, 32 },
    { "xor.b64", logic, 64, 0, 2, 2, 64 },
    { "not.b16", logic, 16, 0, 3, 1, 16 },
    { "not.b32", logic, 32, 0, 3, 1, 32 },
    { "not.b64", logic, 64, 0, 3, 1, 64 },
    { "cnot.b16", logic, 16, 0, 4, 1, 16 },
    { "cnot.b32", logic, 32, 0, 4, 1, 32 },
    { "cnot.b64", logic, 64, 0, 4, 1, 64 },
    { "shl.b16", shift, 16, 0, 1, 2, 16 },
    { "shl.b32", shift, 32, 0, 1, 2, 32 },
    { "shl.b64", shift, 64, 0, 1, 2, 64 },
    { "shr.b16", shift, 16, 0, 0, 2, 16 },
    { "shr.u32", shift, 32, 0, 0, 2, 32 },
    { "shr.u64", shift, 64, 0, 0, 2, 64 },
    { "shr.b32", shift, 32, 0, 0, 2, 32 },
    { "shr.s16", shift, 16, 1, 0, 2, 16 },
    { "shr.s32", shift, 32, 1, 0, 2, 32 },
    { "shr.s64", shift, 64, 1, 0, 2, 64 },
    { "shr.u16", shift, 16, 0, 0, 2, 16 },
    { "shf.l.wrap.b32", funnel, 32, 0, 0, 3, 32 },
    { "shf.r.wrap.b32", funnel, 32, 0, 1, 3, 32 },
    { "shf.l.clamp.b32", funnel, 32, 0, 2, 3, 32 },
    { "shf.r.clamp.b32", funnel, 32, 0, 3, 3, 32 },
    { "popc.b32", popc, 32, 0, 0, 1, 32 },
    { "popc.b64", popc, 64, 0, 0, 1, 32 },
    { "clz.b32", clz, 32, 0, 0, 1, 32 },
    { "clz.b64", clz, 64, 0, 0, 1, 32 },
    { "brev.b32", brev, 32, 0, 0, 1, 32 },
    { "brev.b64", brev, 64, 0, 0, 1, 64 },
    { "bfind.u32", bfind, 32, 0, 0, 1, 32 },
    { "bfind.s32", bfind, 32, 1, 0, 1, 32 },
    { "bfind.u64", bfind, 64, 0, 0, 1, 32 },
    { "bfind.s64", bfind, 64, 1, 0, 1, 32 },
    { "bfind.shiftamt.u32", bfind, 32, 0, 1, 1, 32 },
    { "bfind.shiftamt.s32", bfind, 32, 1, 1, 1, 32 },
    { "bfind.shiftamt.u64", bfind, 64, 0, 1, 1, 32 },
    { "bfind.shiftamt.s64", bfind, 64, 1, 1, 1, 32 },
    { "bfe.u32", bfe, 32, 0, 0, 3, 32 },
    { "bfe.s32", bfe, 32, 1, 0, 3, 32 },
    { "bfe.u64", bfe, 64, 0, 0, 3, 64 },
    { "bfe.s64", bfe, 64, 1, 0, 3, 64 },
    { "bfi.b32", bfi, 32, 0, 0, 4, 32 },
    { "bfi.b64", bfi, 64, 0, 0, 4, 64 },
    { "bmsk.wrap.b32", bmsk, 32, 0, 0, 2, 32 },
    { "bmsk.clamp.b32", bmsk, 32, 0, 1, 2, 32 },
    { "szext.wrap.u32", szext, 32, 0, 0, 2, 32 },
    { "szext.wrap.s32", szext, 32, 1, 0, 2, 32 },
    { "szext.clamp.u32", szext, 32, 0, 1, 2, 32 },
    { "szext.clamp.s32", szext, 32, 1, 1, 2, 32 },
    { "fns.b32", fns, 32, 0, 0, 3, 32 },
    { "dp4a.u32.u32", dot, 32, 0, 0, 3, 32 },
    { "dp4a.s32.u32", dot, 32, 0, 1, 3, 32 },
    { "dp4a.u32.s32", dot, 32, 0, 2, 3, 32 },
    { "dp4a.s32.s32", dot, 32, 0, 3, 3, 32 },
    { "dp2a.lo.u32.u32", dot, 32, 0, 4, 3, 32 },
    { "dp2a.lo.s32.u32", dot, 32, 0, 5, 3, 32 },
    { "dp2a.lo.u32.s32", dot, 32, 0, 6, 3, 32 },
    { "dp2a.lo.s32.s32", dot, 32, 0, 7, 3, 32 },
    { "dp2a.hi.u32.u32", dot, 32, 0, 12, 3, 32 },
    { "dp2a.hi.s32.u32", dot, 32, 0, 13, 3, 32 },
    { "dp2a.hi.u32.s32", dot, 32, 0, 14, 3, 32 },
    { "dp2a.hi.s32.s32", dot, 32, 0, 15, 3, 32 },
    { "prmt.b32", prmt, 32, 0, 0, 3, 32 },
    { "prmt.b32.f4e", prmt, 32, 0, 1, 3, 32 },
    { "prmt.b32.b4e", prmt, 32, 0, 2, 3, 32 },
    { "prmt.b32.rc8", prmt, 32, 0, 3, 3, 32 },
    { "prmt.b32.ecl", prmt, 32, 0, 4, 3, 32 },
    { "prmt.b32.ecr", prmt, 32, 0, 5, 3, 32 },
    { "prmt.b32.rc16", prmt, 32, 0, 6, 3, 32 },
};

TEST(test_bits)
{
    for (size_t o = 0; o < sizeof cases / sizeof *cases; o++)
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_get(&c, level, cases[o].text, cases[o].sources);
            for (unsigned round = 0; round < 200; round++) {
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < cases[o].sources; s++) {
                        const bool narrow = c.alu.source[s] == SG_CELL_32;
                        const bool amount = s == cases[o].sources - 1 || (s > 0 && cases[o].sources - 2 == s);
                        row_set(&run.s[s], c.alu.source[s], i,
                                amount && alu_random() & 1
                                    ? alu_random() % 70
                                    : alu_integer(narrow ? cases[o].bits < 32 && s == 0 ? cases[o].bits : 32 : 64));
                        if (cases[o].bits == 16 && cases[o].reference == logic)
                            run.s[s].u.w[i] &= 0xffff;
                    }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    uint64_t v[4] = { 0 };
                    for (unsigned s = 0; s < cases[o].sources; s++)
                        v[s] = row_get(&run.s[s], c.alu.source[s], i);
                    const uint64_t want = cut(
                        cases[o].reference(v, cases[o].bits, cases[o].is_signed, cases[o].variant), cases[o].d_bits);
                    const uint64_t got = row_get(&run.d, c.alu.destination, i);
                    if (got != want)
                        fail_msg("%s (%s) of %jx %jx %jx %jx gives %jx, not %jx", cases[o].text, sg_cpu_name(level),
                                 (uintmax_t)v[0], (uintmax_t)v[1], (uintmax_t)v[2], (uintmax_t)v[3], (uintmax_t)got,
                                 (uintmax_t)want);
                }
            }
        }
}

/* Every table, and the predicate forms */
TEST(test_lop3)
{
    ALU_LEVELS(level)
        for (unsigned form = 0; form < 3; form++) {
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_get(&c, level, form == 0 ? "lop3.b32" : form == 1 ? "lop3.or.b32" : "lop3.and.b32", form ? 5 : 4);
            assert_int_equal(c.alu.immediate_source, 4);
            assert_int_equal(c.alu.predicate_source, form ? 5 : -1);
            assert_int_equal(c.alu.second_predicate, form != 0);
            for (unsigned table = 0; table < 256; table++) {
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 3; s++)
                        run.s[s].u.w[i] = alu_random() & 1 ? (uint32_t)alu_integer(32) : 0;
                run.immediate = table;
                run.in = (uint32_t)alu_random();
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    uint32_t want = 0;
                    for (unsigned b = 0; b < 32; b++)
                        want |= (table >> (bit(run.s[0].u.w[i], b) << 2 | bit(run.s[1].u.w[i], b) << 1 |
                                           bit(run.s[2].u.w[i], b)) &
                                 1)
                                << b;
                    assert_int_equal(run.d.u.w[i], want);
                    if (form)
                        assert_int_equal(run.p >> i & 1,
                                         form == 1 ? want != 0 || run.in >> i & 1 : want != 0 && run.in >> i & 1);
                }
            }
            if (form) {                                        /* destination _ */
                struct sg_rows r = { .s = { &run.s[0], &run.s[1], &run.s[2] }, .p = &run.q, .in = run.in,
                                     .immediate = run.immediate };
                c.alu.function(&r);
                assert_int_equal(run.q, run.p);
            }
        }
}

TEST(test_predicates)
{
    static const char *const texts[] = { "and.pred", "or.pred", "xor.pred", "not.pred" };
    ALU_LEVELS(level)
        for (unsigned o = 0; o < 4; o++) {
            struct alu_case c;
            alu_get(&c, level, texts[o], o == 3 ? 1 : 2);
            assert_int_equal(c.alu.destination, SG_CELL_PRED);
            uint32_t a = 0x0ff0f00f, b = 0x12345678, p = 0;
            const struct sg_rows r = { .s = { &a, &b }, .p = &p };
            c.alu.function(&r);
            assert_int_equal(p, o == 0 ? a & b : o == 1 ? a | b : o == 2 ? a ^ b : ~a);
            const struct sg_rows same = { .s = { &a, &b }, .p = &a };
            c.alu.function(&same);
            assert_int_equal(a, p);
        }
}

TEST(test_resize)
{
    struct alu_row from, to;
    for (unsigned i = 0; i < 32; i++)
        from.u.w[i] = 0xffffff80 + i;
    const struct sg_rows r = { .d = &to, .s = { &from } };
    sg_alu_resize(PTX_S8, PTX_B16)(&r);
    assert_int_equal(to.u.w[0], 0xff80);
    sg_alu_resize(PTX_S8, PTX_S64)(&r);
    assert_true(to.u.q[1] == (uint64_t)-127);
    sg_alu_resize(PTX_U8, PTX_B32)(&r);
    assert_int_equal(to.u.w[31], 0x9f);
    assert_null(sg_alu_resize(PTX_U32, PTX_F32));
    assert_null(sg_alu_resize(PTX_PRED, PTX_U32));
}

TEST(test_refusals)
{
    static const struct alu_refused refused[] = {
        { "and.u32", 2, "u32" },      { "shl.s32", 2, "s32" },
        { "shf.l.b32", 3, "mode" },   { "shf.wrap.b32", 3, "direction" },
        { "bfe.b32", 3, "b32" },      { "popc.u32", 1, "u32" },
        { "lop3.xor.b32", 5, "xor" }, { "lop3.or.b32", 4, "operands" },
        { "dp4a.u32", 3, "types" },   { "dp2a.u32.u32", 3, ".lo" },
        { "brev.b16", 1, "b16" },     { "prmt.b32.f4e.ecl", 3, "mode" },
        { "and", 2, "type" },
    };
    alu_check_refused(refused, sizeof refused / sizeof *refused);
}

int main(void) { return unit_run(NULL, NULL); }
