/*
 * convert_small.c: cvt of softgpu/alu from and to formats of 8, 6 and 4 bits, with scales, and with random bits that
 * decide the rounding, against exact.h; each format is walked through completely.
 */
#include "tests/alu/exact.h"

static const struct {
    const char *name;
    const struct format *format;
    unsigned shift;
} smalls[] = {
    { "e4m3x2", &E4M3, 8 }, { "e5m2x2", &E5M2, 8 }, { "e2m1x2", &E2M1, 4 },
    { "e2m3x2", &E2M3, 8 }, { "e3m2x2", &E3M2, 8 },
};
static uint32_t expect_small(struct format f, double x, bool relu)
{
    if (x != x)
        return f.has_nan ? format_nan(f) : format_highest(f);
    if (relu && signbit(x))
        return 0;
    if (isinf(x) || x == 0)
        return (signbit(x) ? 1u << (f.exponent_bits + f.fraction_bits) : 0) | (x == 0 ? 0 : format_highest(f));
    return exact_round(f, exact_of(x), 'n', true);
}
TEST(test_small_formats)
{
    for (unsigned k = 0; k < 5; k++)
        for (unsigned relu = 0; relu < 2; relu++)
            ALU_LEVELS(level)
            {
                const struct format f = *smalls[k].format;
                struct alu_case two, pair, back;
                struct alu_run run = { 0 };
                alu_getf(&two, level, 2, "cvt.rn.satfinite%s.%s.f32", relu ? ".relu" : "", smalls[k].name);
                alu_getf(&pair, level, 1, "cvt.rn.satfinite%s.%s.f16x2", relu ? ".relu" : "", smalls[k].name);
                alu_getf(&back, level, 1, "cvt.rn%s.f16x2.%s", relu ? ".relu" : "", smalls[k].name);
                for (unsigned round = 0; round < 200; round++) {
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned s = 0; s < 2; s++) /* half of them where the format has its numbers */
                            run.s[s].u.w[i] = alu_random() & 1
                                                  ? (uint32_t)alu_float(8, 23)
                                                  : u32((float)ldexp((double)(int64_t)(alu_random() % 513 - 256),
                                                                     (int)(alu_random() % 26) - 22));
                    alu_execute(&two, &run);
                    for (unsigned i = 0; i < 32; i++)
                        assert_int_equal(run.d.u.w[i], expect_small(f, f32(run.s[0].u.w[i]), relu) << smalls[k].shift |
                                                           expect_small(f, f32(run.s[1].u.w[i]), relu));
                }
                for (unsigned x = 0; x < 0x10000; x += 32) { /* every f16, in both places */
                    for (unsigned i = 0; i < 32; i++)
                        run.s[0].u.w[i] = (x + i) << 16 | (0xffff - x - i);
                    alu_execute(&pair, &run);
                    for (unsigned i = 0; i < 32; i++)
                        assert_int_equal(run.d.u.w[i], expect_small(f, format_double(F16, x + i), relu)
                                                               << smalls[k].shift |
                                                           expect_small(f, format_double(F16, 0xffff - x - i), relu));
                }
                const uint32_t patterns = 1u << (1 + f.exponent_bits + f.fraction_bits);
                for (unsigned x = 0; x < patterns; x += 16) { /* every small number */
                    for (unsigned i = 0; i < 32; i++)
                        run.s[0].u.w[i] = ((x + i) % patterns) << smalls[k].shift | (patterns - 1 - (x + i) % patterns);
                    alu_execute(&back, &run);
                    for (unsigned i = 0; i < 32; i++)
                        for (unsigned high = 0; high < 2; high++) {
                            const double y =
                                format_double(f, high ? (x + i) % patterns : patterns - 1 - (x + i) % patterns);
                            const uint32_t got = run.d.u.w[i] >> (16 * high) & 0xffff;
                            if (y != y)
                                assert_int_equal(got, 0x7fff);
                            else if (relu && signbit(y))
                                assert_int_equal(got, 0);
                            else
                                assert_true(format_double(F16, got) == y && (got >> 15) == (uint32_t)(signbit(y) != 0));
                        }
                }
            }
}

/* The small formats from and to bf16, and s2f6: signed 1/64 in eight bits. A scale is the power of two of a ue8m0. */
static double scale_of(uint32_t s) { return s == 255 ? (double)NAN : ldexp(1, (int)s - 127); }
static uint32_t expect_bf16(double x, bool relu, bool finite)
{
    const uint32_t sign = signbit(x) ? 0x8000 : 0;
    if (x != x)
        return 0x7fff;
    if (relu && sign)
        return 0;
    return isinf(x) ? sign | (finite ? 0x7f7f : 0x7f80) : x == 0 ? sign : exact_round(BF16, exact_of(x), 'n', finite);
}
static uint32_t expect_fixed(double x, bool relu)
{
    const double y = nearbyint(x * 64); /* to even */
    return x != x || y > 127 ? 127 : relu && y < 0 ? 0 : (uint32_t)(int32_t)(y < -128 ? -128 : y) & 0xff;
}
static uint32_t random_scales(void)
{
    const uint32_t near = (uint32_t)(alu_random() % 24 + 115) << 8 | (uint32_t)(alu_random() % 24 + 115);
    return alu_random() & 1 ? near : (uint32_t)alu_random() & 0xffff;
}
/* flags: 1 .relu, 2 .satfinite, 4 .scaled */
static const char *modified(char text[96], const char *to, const char *from, unsigned flags)
{
    snprintf(text, 96, "cvt.rn%s%s%s.%s.%s", flags & 2 ? ".satfinite" : "", flags & 1 ? ".relu" : "",
             flags & 4 ? ".scaled::n2::ue8m0" : "", to, from);
    return text;
}
TEST(test_bf16_of_small)
{
    for (unsigned k = 0; k < 6 * 8; k++)
        ALU_LEVELS(level)
        {
            const unsigned flags = k % 8, kind = k / 8, shift = kind < 5 ? smalls[kind].shift : 8;
            const struct format f = kind < 5 ? *smalls[kind].format : E4M3;
            const uint32_t patterns = kind < 5 ? 1u << (1 + f.exponent_bits + f.fraction_bits) : 256;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[96];
            alu_get(&c, level, modified(text, "bf16x2", kind < 5 ? smalls[kind].name : "s2f6x2", flags),
                    flags & 4 ? 2 : 1);
            for (unsigned round = 0; round < 300; round++) {
                uint32_t part[32][2];
                for (unsigned i = 0; i < 32; i++) {
                    part[i][0] = (uint32_t)(round * 32 + i) % patterns;
                    part[i][1] = (uint32_t)alu_random() % patterns;
                    run.s[0].u.w[i] = part[i][0] << shift | part[i][1];
                    run.s[1].u.w[i] = flags & 4 ? random_scales() : 0x7f7f;
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned at = 0; at < 2; at++) {
                        const double x = kind < 5 ? format_double(f, part[i][at]) : (double)(int8_t)part[i][at] / 64,
                                     y = x * scale_of(run.s[1].u.w[i] >> (at ? 0 : 8) & 0xff);
                        assert_int_equal(run.d.u.w[i] >> (at ? 0 : 16) & 0xffff, expect_bf16(y, flags & 1, flags & 2));
                    }
            }
        }
}
TEST(test_small_of_bf16)
{
    for (unsigned k = 0; k < 5 * 2; k++)
        ALU_LEVELS(level)
        {
            const struct format f = *smalls[k / 2].format;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[96];
            alu_get(&c, level, modified(text, smalls[k / 2].name, "bf16x2", 2 | k % 2), 1);
            for (unsigned x = 0; x < 0x10000; x += 32) { /* every one, in both places */
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (x + i) << 16 | (0xffff - x - i);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    assert_int_equal(run.d.u.w[i], expect_small(f, format_double(BF16, x + i), k % 2)
                                                           << smalls[k / 2].shift |
                                                       expect_small(f, format_double(BF16, 0xffff - x - i), k % 2));
            }
        }
}
TEST(test_fixed)
{
    for (unsigned k = 0; k < 8; k++)
        ALU_LEVELS(level)
        {
            const unsigned flags = 2 | (k & 1) | (k & 2 ? 4 : 0), pair = k >> 2;
            struct alu_case c;
            struct alu_run run = { 0 };
            char text[96];
            alu_get(&c, level, modified(text, "s2f6x2", pair ? "bf16x2" : "f32", flags),
                    2 - pair + (flags & 4 ? 1 : 0));
            for (unsigned round = 0; round < 600; round++) {
                for (unsigned i = 0; i < 32; i++) {
                    for (unsigned s = 0; s < 2; s++) /* most of them where there is something to round */
                        run.s[s].u.w[i] = alu_random() % 4
                                              ? u32((float)ldexp((double)(int64_t)(alu_random() % 1025 - 512),
                                                                 (int)(alu_random() % 8) - 12))
                                              : (uint32_t)alu_float(8, 23);
                    if (pair)
                        run.s[0].u.w[i] = (run.s[0].u.w[i] & 0xffff0000) | run.s[1].u.w[i] >> 16;
                    run.s[2 - pair].u.w[i] = flags & 4 ? random_scales() : 0x7f7f;
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const uint32_t a = run.s[0].u.w[i], scales = run.s[2 - pair].u.w[i];
                    const double high = f32(pair ? a & 0xffff0000 : a), low = f32(pair ? a << 16 : run.s[1].u.w[i]);
                    assert_int_equal(run.d.u.w[i], expect_fixed(high / scale_of(scales >> 8), flags & 1) << 8 |
                                                       expect_fixed(low / scale_of(scales & 0xff), flags & 1));
                }
            }
        }
}

/*
 * .rs by its definition: what is lost of x, counted in 2^-bits of the distance to the next number and cut off, is added
 * to the random bits, and a carry takes the next number.
 */
static uint32_t expect_random(struct format f, double x, uint32_t random, unsigned bits, bool relu, bool finite)
{
    const uint32_t highest = format_highest(f), sign = 1u << (f.exponent_bits + f.fraction_bits);
    if (x != x)
        return f.has_nan ? format_nan(f) : highest;
    if (relu && signbit(x))
        return 0;
    const double y = fabs(x);
    uint32_t low = 0, high = highest + 2; /* low's value <= y < high's */
    while (low + 1 < high) {
        const uint32_t middle = low + (high - low) / 2;
        *((double)format_value(f, middle) <= y ? &low : &high) = middle;
    }
    if (low <= highest) {
        const double gap = (double)(format_value(f, low + 1) - format_value(f, low));
        const double lost = (y - (double)format_value(f, low)) / gap;
        low += floor(ldexp(lost, (int)bits)) + random >= ldexp(1, (int)bits);
    }
    if (low > highest)
        low = finite ? highest : highest + 1;
    return low | (signbit(x) ? sign : 0);
}

/* Near the numbers of a format, its ends, and far away. Mostly what is lost is next to what the random bits carry. */
static uint32_t near_format(struct format f, uint32_t random, unsigned bits)
{
    if (alu_random() % 4 == 0)
        return (uint32_t)alu_float(8, 23);
    const uint32_t low = (uint32_t)alu_random() % (format_highest(f) + 1);
    const double value = (double)format_value(f, low), gap = (double)(format_value(f, low + 1)) - value;
    const double lost = ldexp((1u << bits) - random + (double)(alu_random() % 5) / 2 - 1, -(int)bits);
    return u32((float)(alu_random() & 1 ? value + lost * gap : -(value + lost * gap)));
}

TEST(test_random_pairs)
{
    for (unsigned flags = 0; flags < 8; flags++)
        ALU_LEVELS(level)
        {
            const bool bf = flags & 1, relu = flags & 2, finite = flags & 4;
            const struct format f = bf ? BF16 : F16;
            const unsigned bits = bf ? 16 : 13;
            struct alu_case c;
            struct alu_run run = { 0 };
            alu_getf(&c, level, 3, "cvt.rs%s%s.%s.f32", relu ? ".relu" : "", finite ? ".satfinite" : "",
                     bf ? "bf16x2" : "f16x2");
            for (unsigned round = 0; round < 300; round++) {
                for (unsigned i = 0; i < 32; i++) {
                    run.s[2].u.w[i] = (uint32_t)alu_random();
                    for (unsigned s = 0; s < 2; s++)
                        run.s[s].u.w[i] = near_format(f, run.s[2].u.w[i] >> (s ? 0 : 16) & ((1u << bits) - 1), bits);
                }
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++)
                    for (unsigned s = 0; s < 2; s++) {
                        const uint32_t random = run.s[2].u.w[i] >> (s ? 0 : 16) & ((1u << bits) - 1),
                                       want = expect_random(f, f32(run.s[s].u.w[i]), random, bits, relu, finite),
                                       got = run.d.u.w[i] >> (s ? 0 : 16) & 0xffff;
                        if (got != want)
                            fail_msg("%s (%s) of %08x, random %04x, gives %04x, not %04x", c.name, sg_cpu_name(level),
                                     run.s[s].u.w[i], random, got, want);
                    }
            }
        }
}

/* The bits of the four: measured on a B200; two share 16, the first of them in reversed order. */
static uint32_t random_of_four(uint32_t x, unsigned which, bool narrow)
{
    const uint32_t shared = narrow ? which < 2 ? (x >> 24) << 8 | (x >> 8 & 0xff) : (x >> 16 & 0xff) << 8 | (x & 0xff)
                            : which < 2 ? x >> 16
                                        : x & 0xffff;
    uint32_t reversed = 0;
    for (unsigned k = 0; k < 16; k++)
        reversed |= (shared >> k & 1) << (15 - k);
    return which & 1 ? shared : reversed;
}

TEST(test_random_fours)
{
    for (unsigned k = 0; k < 5; k++)
        for (unsigned relu = 0; relu < 2; relu++)
            ALU_LEVELS(level)
            {
                const struct format f = *smalls[k].format;
                const unsigned shift = smalls[k].shift;
                struct alu_case c;
                struct alu_run run = { 0 };
                alu_getf(&c, level, 2, "cvt.rs%s.satfinite.%.4sx4.f32", relu ? ".relu" : "",
                         smalls[k].name); /* a vector, and the random bits */
                assert_int_equal(c.alu.source_count, 5);
                for (unsigned round = 0; round < 300; round++) {
                    for (unsigned i = 0; i < 32; i++) {
                        run.s[4].u.w[i] = (uint32_t)alu_random();
                        for (unsigned s = 0; s < 4; s++)
                            run.s[s].u.w[i] = near_format(f, random_of_four(run.s[4].u.w[i], s, shift == 4), 16);
                    }
                    alu_execute(&c, &run);
                    for (unsigned i = 0; i < 32; i++) {
                        uint32_t want = 0;
                        for (unsigned s = 0; s < 4; s++)
                            want = want << shift | expect_random(f, f32(run.s[s].u.w[i]),
                                                                 random_of_four(run.s[4].u.w[i], s, shift == 4), 16,
                                                                 relu, true);
                        if (run.d.u.w[i] != want)
                            fail_msg("%s (%s) of %08x %08x %08x %08x, random %08x, gives %08x, not %08x", c.name,
                                     sg_cpu_name(level), run.s[0].u.w[i], run.s[1].u.w[i], run.s[2].u.w[i],
                                     run.s[3].u.w[i], run.s[4].u.w[i], run.d.u.w[i], want);
                    }
                }
            }
}

/* ue8m0 is a power of two; checked by its definition, over every bf16 */
TEST(test_ue8m0)
{
    for (unsigned flags = 0; flags < 4; flags++)
        ALU_LEVELS(level)
        {
            const bool up = flags & 1, finite = flags & 2;
            struct alu_case c, back;
            struct alu_run run = { 0 };
            alu_getf(&c, level, 1, "cvt.%s%s.ue8m0x2.bf16x2", up ? "rp" : "rz", finite ? ".satfinite" : "");
            alu_get(&back, level, "cvt.rn.bf16x2.ue8m0x2", 1);
            for (unsigned x = 0; x < 0x10000; x += 32) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (x + i) << 16 | (x + i);
                alu_execute(&c, &run);
                for (unsigned i = 0; i < 32; i++) {
                    const double y = fabs(format_double(BF16, x + i));
                    unsigned want = 0;
                    while (want < 254 && ldexp(1, (int)want + 1 - 127) <= y)
                        want++;
                    if (up && want < 254 && ldexp(1, (int)want - 127) < y)
                        want++;
                    if (y != y || (!finite && (isinf(y) || (up && y > 0x1p127))))
                        want = 255;
                    assert_int_equal(run.d.u.w[i], want << 8 | want);
                }
            }
            for (unsigned x = 0; x < 256; x += 32) {
                for (unsigned i = 0; i < 32; i++)
                    run.s[0].u.w[i] = (x + i) << 8 | (x + i);
                alu_execute(&back, &run);
                for (unsigned i = 0; i < 32; i++)
                    assert_true(x + i == 255
                                    ? run.d.u.w[i] == 0x7fff7fff
                                    : format_double(BF16, run.d.u.w[i] & 0xffff) == ldexp(1, (int)(x + i) - 127));
            }
        }
}

int main(void) { return unit_run(NULL, NULL); }
