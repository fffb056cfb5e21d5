/* integer.c: integer arithmetic of softgpu/alu against 128-bit arithmetic, one lane at a time. */
#include "tests/alu/harness.h"

typedef __int128 wide;
typedef unsigned __int128 uwide;

struct type { const char *name; unsigned bits; bool is_signed; };
static const struct type types[] = { { "u16", 16, false }, { "s16", 16, true }, { "u32", 32, false },
                                     { "s32", 32, true },  { "u64", 64, false }, { "s64", 64, true } };

static uint64_t cut(uwide x, unsigned bits) { return (uint64_t)(bits == 64 ? x : x & (((uwide)1 << bits) - 1)); }
static wide value(uint64_t x, struct type t)
{
    return t.is_signed && x >> (t.bits - 1) & 1 ? (wide)x - ((wide)1 << t.bits) : (wide)x;
}

enum op {
    ADD,
    SUB,
    MUL_LO,
    MUL_HI,
    MUL_WIDE,
    MAD_LO,
    MAD_HI,
    MAD_WIDE,
    SAD,
    DIV,
    REM,
    ABS,
    NEG,
    MIN,
    MAX,
    ADD_SAT,
    SUB_SAT,
    MAD_HI_SAT,
    MUL24_LO,
    MUL24_HI,
    MAD24_LO,
    MAD24_HI,
    MAD24_HI_SAT,
    MIN_RELU,
    MAX_RELU
};

static wide saturate(wide x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x; }
static wide of24(uint64_t x, struct type t)
{
    return t.is_signed && x >> 23 & 1 ? (wide)(x & 0xffffff) - 0x1000000 : (wide)(x & 0xffffff);
}

static wide reference(enum op op, struct type t, uint64_t a0, uint64_t b0, uint64_t c0)
{
    const wide a = value(a0, t), b = value(b0, t), c = value(c0, t);
    const wide high = (wide)((uwide)a * (uwide)b) >> t.bits;                   /* s64 fits; u64 see below */
    const wide product24 = of24(a0, t) * of24(b0, t);
    switch (op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL_LO: return (wide)((uwide)a * (uwide)b);
    case MUL_HI: return t.bits == 64 && !t.is_signed ? (wide)(((uwide)a0 * b0) >> 64) : high;
    case MUL_WIDE: return a * b;
    case MAD_LO: return (wide)((uwide)a * (uwide)b + (uwide)c);
    case MAD_HI: return (wide)((t.bits == 64 && !t.is_signed ? ((uwide)a0 * b0) >> 64 : (uwide)high) + (uwide)c);
    case MAD_WIDE: return a * b + (wide)(t.is_signed ? (wide)(int64_t)c0 : (wide)c0);
    case SAD: return c + (a < b ? b - a : a - b);
    case DIV: return b ? a / b : -1;
    case REM: return b ? a % b : -1;
    case ABS: return a < 0 ? -a : a;
    case NEG: return -a;
    case MIN: return a < b ? a : b;
    case MAX: return a > b ? a : b;
    case ADD_SAT: return t.is_signed ? saturate(a + b) : a + b > UINT32_MAX ? UINT32_MAX : a + b;
    case SUB_SAT: return saturate(a - b);
    case MAD_HI_SAT: return saturate(high + c);
    case MUL24_LO: return product24;
    case MUL24_HI: return product24 >> 16;
    case MAD24_LO: return product24 + c;
    case MAD24_HI: return (product24 >> 16) + c;
    case MAD24_HI_SAT: return saturate((wide)(int32_t)(uint32_t)(product24 >> 16) + c);
    case MIN_RELU: return a < 0 || b < 0 ? 0 : a < b ? a : b;
    default: return a < 0 && b < 0 ? 0 : a > b ? a : b;
    }
}

#define INT6 0x3f
#define U(x) (1u << (x))
static const struct { const char *text; enum op op; unsigned sources, types;
} operations[] = {
    { "add", ADD, 2, INT6 },
    { "sub", SUB, 2, INT6 },
    { "mul.lo", MUL_LO, 2, INT6 },
    { "mul.hi", MUL_HI, 2, INT6 },
    { "mul.wide", MUL_WIDE, 2, 0xf },
    { "mad.lo", MAD_LO, 3, INT6 },
    { "mad.hi", MAD_HI, 3, INT6 },
    { "mad.wide", MAD_WIDE, 3, 0xf },
    { "sad", SAD, 3, INT6 },
    { "div", DIV, 2, INT6 },
    { "rem", REM, 2, INT6 },
    { "abs", ABS, 1, U(1) | U(3) | U(5) },
    { "neg", NEG, 1, U(1) | U(3) | U(5) },
    { "min", MIN, 2, INT6 },
    { "max", MAX, 2, INT6 },
    { "add.sat", ADD_SAT, 2, U(2) | U(3) },
    { "sub.sat", SUB_SAT, 2, U(3) },
    { "mad.hi.sat", MAD_HI_SAT, 3, U(3) },
    { "mul24.lo", MUL24_LO, 2, U(2) | U(3) },
    { "mul24.hi", MUL24_HI, 2, U(2) | U(3) },
    { "mad24.lo", MAD24_LO, 3, U(2) | U(3) },
    { "mad24.hi", MAD24_HI, 3, U(2) | U(3) },
    { "mad24.hi.sat", MAD24_HI_SAT, 3, U(3) },
    { "min.relu", MIN_RELU, 2, U(3) },
    { "max.relu", MAX_RELU, 2, U(3) },
};

TEST(test_operations)
{
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
        for (unsigned k = 0; k < 6; k++) {
            const struct type t = types[k];
            char text[64];
            snprintf(text, sizeof text, "%s.%s", operations[o].text, t.name);
            ALU_LEVELS(level) {
                struct alu_case c;
                struct alu_run run = { 0 };
                if (!(operations[o].types >> k & 1)) {
                    assert_int_equal(alu_find(&c, level, text, operations[o].sources), -1);
                    assert_true(strlen(c.why) > 0);
                    continue;
                }
                alu_get(&c, level, text, operations[o].sources);
                const bool widens = operations[o].op == MUL_WIDE || operations[o].op == MAD_WIDE;
                const unsigned to = widens ? 2 * t.bits : t.bits;
                for (unsigned round = 0; round < 200; round++) {
                    uint64_t v[3][32];
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < operations[o].sources; s++) {
                            v[s][i] = alu_integer(s == 2 && widens ? to : t.bits);
                            row_set(&run.s[s], c.alu.source[s], i, v[s][i]);
                        }
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        const uint64_t third =
                            operations[o].op == MAD_WIDE
                                ? cut((uwide)value(v[2][i], (struct type){ "", to, t.is_signed }), 64)
                                : v[2][i];
                        const uint64_t want = cut((uwide)reference(operations[o].op, t, v[0][i], v[1][i], third), to);
                        const uint64_t got = row_get(&run.d, c.alu.destination, i);
                        if (got != want)
                            fail_msg("%s (%s) of %#jx, %#jx, %#jx gives %#jx, not %#jx", text, sg_cpu_name(level),
                                     (uintmax_t)v[0][i], (uintmax_t)v[1][i], (uintmax_t)v[2][i], (uintmax_t)got,
                                     (uintmax_t)want);
                    }
                }
            }
        }
}

/* Carry: value and carry out from one wider sum. Subtraction adds the complement, so its carry is 1 where nothing is
 * borrowed. */
static const struct { const char *opcode; bool product, hi, subtract, reads, writes; } carries[] = {
    { "add.cc", 0, 0, 0, 0, 1 },    { "addc", 0, 0, 0, 1, 0 },    { "addc.cc", 0, 0, 0, 1, 1 },
    { "sub.cc", 0, 0, 1, 0, 1 },    { "subc", 0, 0, 1, 1, 0 },    { "subc.cc", 0, 0, 1, 1, 1 },
    { "mad.lo.cc", 1, 0, 0, 0, 1 }, { "mad.hi.cc", 1, 1, 0, 0, 1 }, { "madc.lo", 1, 0, 0, 1, 0 },
    { "madc.lo.cc", 1, 0, 0, 1, 1 }, { "madc.hi", 1, 1, 0, 1, 0 }, { "madc.hi.cc", 1, 1, 0, 1, 1 },
};
TEST(test_carry)
{
    for (size_t o = 0; o < sizeof carries / sizeof *carries; o++)
        for (unsigned k = 2; k < 6; k++)
            ALU_LEVELS(level) {
                const struct type t = types[k];
                struct alu_case c;
                struct alu_run run = { 0 };
                alu_getf(&c, level, carries[o].product ? 3 : 2, "%s.%s", carries[o].opcode, t.name);
                assert_int_equal(c.alu.reads_carry, carries[o].reads);
                assert_int_equal(c.alu.writes_carry, carries[o].writes);
                for (unsigned round = 0; round < 200; round++) {
                    uint64_t v[3][32];
                    const uint32_t in = (uint32_t)alu_random();
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < c.alu.source_count; s++)
                            row_set(&run.s[s], c.alu.source[s], i, v[s][i] = alu_integer(t.bits));
                    run.carry = in;
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        const unsigned carry = carries[o].reads ? in >> i & 1 : carries[o].subtract;
                        const wide product = (wide)reference(carries[o].hi ? MUL_HI : MUL_LO, t, v[0][i], v[1][i], 0);
                        const uwide first = carries[o].product ? cut((uwide)product, t.bits) : v[0][i];
                        const uwide second = carries[o].product    ? v[2][i]
                                             : carries[o].subtract ? cut(~(uwide)v[1][i], t.bits)
                                                                   : v[1][i];
                        const uwide sum = first + second + carry;
                        assert_true(row_get(&run.d, c.alu.destination, i) == cut(sum, t.bits));
                        if (carries[o].writes)
                            assert_int_equal(run.carry >> i & 1, sum >> t.bits & 1);
                        else
                            assert_int_equal(run.carry, in);
                    }
                }
            }
}

/* One of the numbers of 16 or 8 bits. */
static uint32_t part_reference(enum op op, struct type t, uint32_t a, uint32_t b)
{
    const wide highest = ((wide)1 << (t.bits - t.is_signed)) - 1, least = t.is_signed ? -highest - 1 : 0;
    wide x = reference(op == ADD_SAT ? ADD : op == SUB_SAT ? SUB : op, t, a, b, 0);
    if (op == ADD_SAT || op == SUB_SAT)
        x = x > highest ? highest : x < least ? least : x;
    return (uint32_t)cut((uwide)x, t.bits);
}
TEST(test_packed)
{
    static const struct {
        const char *text;
        enum op op;
    } forms[] = { { "add", ADD },         { "sub", SUB },           { "min", MIN },
                  { "max", MAX },         { "min.relu", MIN_RELU }, { "max.relu", MAX_RELU },
                  { "add.sat", ADD_SAT }, { "sub.sat", SUB_SAT },   { "neg", NEG } };
    static const struct type kinds[] = {
        { "u16x2", 16, false }, { "s16x2", 16, true }, { "u8x4", 8, false }, { "s8x4", 8, true }
    };
    for (size_t k = 0; k < 4 * sizeof forms / sizeof *forms; k++)
        ALU_LEVELS(level) {
            const struct type t = kinds[k % 4];
            const enum op op = forms[k / 4].op;
            const bool lacks = ((op == MIN_RELU || op == MAX_RELU) && !t.is_signed) ||
                               (op == SUB_SAT && t.bits == 16) || (op == NEG && k % 4 == 2);
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[32];
            snprintf(text, sizeof text, "%s.%s", forms[k / 4].text, t.name);
            if (lacks)
                continue;
            alu_get(&c, level, text, op == NEG ? 1 : 2);
            for (unsigned round = 0; round < 100; round++) {
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 2; s++)
                        run.s[s].u.w[i] = (uint32_t)(alu_integer(t.bits) | alu_integer(t.bits) << 16) |
                                          (t.bits == 8 ? (uint32_t)(alu_integer(8) << 8 | alu_integer(8) << 24) : 0);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    uint32_t want = 0;
                    for (unsigned at = 0; at < 32; at += t.bits)
                        want |= part_reference(op, t, (uint32_t)cut(run.s[0].u.w[i] >> at, t.bits),
                                               (uint32_t)cut(run.s[1].u.w[i] >> at, t.bits))
                                << at;
                    assert_int_equal(run.d.u.w[i], want);
                }
            }
        }
}

TEST(test_refusals)
{
    static const struct alu_refused refused[] = {
        { "add.sat.u64", 2, "sat" },
        { "sub.sat.u32", 2, "sat" },
        { "sub.sat.u16x2", 2, "sat" },
        { "min.relu.u8x4", 2, "relu" },
        { "neg.u8x4", 1, "u8x4" },
        { "mul.lo.u8x4", 2, "u8x4" },
        { "add.quick.s32", 2, "'quick'" },
        { "add", 2, "type" },
        { "mul.s32", 2, ".lo" },
        { "mul.lo.hi.s32", 2, "more than one" },
        { "mul.wide.s64", 2, "s64" },
        { "add.s32", 3, "operands" },
        { "add.b32", 2, "b32" },
        { "frobnicate.s32", 2, "frobnicate" },
        { "add.s32.s32.s32.s32.s32", 2, "types" },
        { "mad.lo.sat.s32", 3, "sat" },
        { "add.rn.s32", 2, "rn" },
        { "addc.u16", 2, "u16" },
        { "rem.f32", 2, "f32" },
        { "add.s32.s32", 2, "" },
        { "div.ftz.s32", 2, "ftz" },
    };
    alu_check_refused(refused, sizeof refused / sizeof *refused);
}

int main(void) { return unit_run(NULL, NULL); }
