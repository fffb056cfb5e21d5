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
    case ADD_SAT: return saturate(a + b);
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
    { "add.sat", ADD_SAT, 2, U(3) },
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

static void test_operations(void **state)
{
    (void)state;
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
static void test_carry(void **state)
{
    (void)state;
    for (size_t o = 0; o < sizeof carries / sizeof *carries; o++)
        for (unsigned k = 2; k < 6; k++)
            ALU_LEVELS(level) {
                const struct type t = types[k];
                struct alu_case c;
                struct alu_run run = { 0 };
                char text[64];
                snprintf(text, sizeof text, "%s.%s", carries[o].opcode, t.name);
                alu_get(&c, level, text, carries[o].product ? 3 : 2);
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

static uint16_t pair_reference(enum op op, bool is_signed, uint16_t a, uint16_t b)
{
    return (uint16_t)cut((uwide)reference(op, (struct type){ "", 16, is_signed }, a, b, 0), 16);
}
static void test_pairs(void **state)
{
    (void)state;
    static const struct { const char *text; enum op op; bool is_signed; } pairs[] = {
        { "add.u16x2", ADD, 0 }, { "add.s16x2", ADD, 1 }, { "min.u16x2", MIN, 0 }, { "min.s16x2", MIN,
                                                                                     1 }, { "max.u16x2", MAX, 0 },
        { "max.s16x2", MAX, 1 }, { "min.relu.s16x2", MIN_RELU, 1 }, { "max.relu.s16x2", MAX_RELU, 1 },
    };
    for (size_t o = 0; o < sizeof pairs / sizeof *pairs; o++)
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_get(&c, level, pairs[o].text, 2);
            for (unsigned round = 0; round < 100; round++) {
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 2; s++)
                        run.s[s].u.w[i] = (uint32_t)(alu_integer(16) | alu_integer(16) << 16);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const uint32_t a = run.s[0].u.w[i], b = run.s[1].u.w[i];
                    const uint32_t low = pair_reference(pairs[o].op, pairs[o].is_signed, (uint16_t)a, (uint16_t)b);
                    const uint32_t high =
                        pair_reference(pairs[o].op, pairs[o].is_signed, (uint16_t)(a >> 16), (uint16_t)(b >> 16));
                    assert_int_equal(run.d.u.w[i], low | high << 16);
                }
            }
        }
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct alu_refused refused[] = {
        { "add.sat.u64", 2, "sat" },
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

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_operations), cmocka_unit_test(test_carry),
                                        cmocka_unit_test(test_pairs),
                                        cmocka_unit_test(test_refusals) };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
