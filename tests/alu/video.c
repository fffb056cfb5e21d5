/*
 * video.c: scalar and SIMD video instructions of softgpu/alu against PTX's description, one element at a time.
 */
#include "tests/alu/harness.h"

static int64_t extend(uint64_t x, unsigned bits, bool is_signed)
{
    x &= ((uint64_t)1 << bits) - 1;
    return is_signed && x >> (bits - 1) ? (int64_t)x - ((int64_t)1 << bits) : (int64_t)x;
}
static int64_t clamp(int64_t x, unsigned bits, bool is_signed)
{
    const int64_t most = is_signed ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1,
                  least = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    return x > most ? most : x < least ? least : x;
}
static int64_t operate(const char *name, const char *mode, int64_t x, int64_t y)
{
    if (!strcmp(name, "add"))
        return x + y;
    if (!strcmp(name, "sub"))
        return x - y;
    if (!strcmp(name, "absdiff"))
        return llabs(x - y);
    if (!strcmp(name, "min"))
        return x < y ? x : y;
    if (!strcmp(name, "max"))
        return x < y ? y : x;
    /* halves away from zero upward, as (a + b + 1) / 2 floored */
    if (!strcmp(name, "avrg"))
        return x + y >= 0 ? (x + y + 1) / 2 : -((-(x + y) + 1) / 2);
    if (!strcmp(name, "set"))
        return !strcmp(mode, ".eq")   ? x == y
               : !strcmp(mode, ".ne") ? x != y
               : !strcmp(mode, ".lt") ? x < y
               : !strcmp(mode, ".le") ? x <= y
               : !strcmp(mode, ".gt") ? x > y
                                      : x >= y;
    const int64_t n = !strcmp(mode, ".wrap") ? y % 32 : y > 32 ? 32 : y;
    if (!strcmp(name, "shl"))
        return x * ((int64_t)1 << n);
    return x >= 0 ? x / ((int64_t)1 << n) : -((-x + ((int64_t)1 << n) - 1) / ((int64_t)1 << n));
}

/* An operand with a selector: sel as the reader gives it */
static void select_part(struct ptx_operand *o, const char *sel)
{
    o->kind = PTX_OP_REGISTER;
    o->component = -1;
    o->text = NULL;
    if (strlen(sel) == 2)
        o->component = (int8_t)((sel[0] == 'b' ? PTX_BYTE_0 : PTX_HALF_0) + sel[1] - '0');
    else if (*sel) {
        o->component = PTX_SELECTOR;
        o->text = sel;
    }
}
static int find(struct alu_case *c, enum sg_cpu level, const char *text, unsigned sources, const char *d, const char *a,
                const char *b)
{
    alu_find(c, level, text, sources);                        /* splits the text */
    select_part(&c->operands[0], d);
    select_part(&c->operands[1], a);
    select_part(&c->operands[2], b);
    select_part(&c->operands[3], "");
    return sg_alu_find_for(level, &c->instruction, &c->alu, c->why, sizeof c->why);
}
static void fill(struct alu_run *run)
{
    for (unsigned i = 0; i < 32; i++)
        for (unsigned s = 0; s < 3; s++)
            run->s[s].u.w[i] =
                alu_random() % 3
                    ? (uint32_t)alu_random()
                    : (uint32_t)(alu_integer(8) | alu_integer(8) << 8 | alu_integer(8) << 16 | alu_integer(8) << 24);
}
static const char *const types[] = { "u32", "s32" };
static const char *const parts[] = { "", "b0", "b1", "b2", "b3", "h0", "h1" };
static unsigned part_bits(const char *p) { return !*p ? 32 : *p == 'b' ? 8 : 16; }
static unsigned part_shift(const char *p) { return !*p ? 0 : (unsigned)(p[1] - '0') * part_bits(p); }

static const char *pick_mode(const char *name)
{
    static const char *const orders[] = { ".eq", ".ne", ".lt", ".le", ".gt", ".ge" }, *const wraps[] = { ".clamp",
                                                                                                         ".wrap" };
    return !strcmp(name, "set")               ? orders[alu_random() % 6]
           : name[0] == 's' && name[1] == 'h' ? wraps[alu_random() % 2]
                                              : "";
}

TEST(test_scalar)
{
    static const char *const names[] = { "add", "sub", "absdiff", "min", "max", "shl", "shr", "set" };
    static const char *const seconds[] = { "", ".add", ".min", ".max" };
    for (unsigned trial = 0; trial < 6000; trial++) {
        const char *name = names[alu_random() % 8], *mode = pick_mode(name), *second = seconds[alu_random() % 4];
        const bool set = !strcmp(name, "set"), shift = name[0] == 's' && name[1] == 'h';
        const unsigned dt = set ? 0 : alu_random() & 1, at = alu_random() & 1, bt = shift ? 0 : alu_random() & 1;
        const bool sat = !set && alu_random() & 1;
        const char *d = *second ? "" : parts[alu_random() % 7], *a = parts[alu_random() % 7],
                   *b = parts[alu_random() % 7];
        const bool has_c = *second || *d;
        char text[64];
        snprintf(text, sizeof text, "v%s%s%s.%s.%s%s%s%s", name, set ? "" : ".", set ? "" : types[dt], types[at],
                 types[bt], sat ? ".sat" : "", mode, second);
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            if (find(&c, level, text, has_c ? 3 : 2, d, a, b))
                fail_msg("%s refused: %s", text, c.why);
            fill(&run);
            alu_execute(&c, &run);
            for (unsigned i = 0; i < 32; i++) {
                const int64_t x = extend(run.s[0].u.w[i] >> part_shift(a), part_bits(a), at),
                              y = extend(run.s[1].u.w[i] >> part_shift(b), part_bits(b), bt);
                const int64_t z = extend(run.s[2].u.w[i], 32, dt);
                int64_t t = operate(name, mode, x, y);
                if (sat)
                    t = clamp(t, part_bits(d), dt);
                uint32_t want = (uint32_t)t;
                if (*second) {
                    const int64_t first = extend((uint64_t)t, 32, dt);
                    want = (uint32_t)(!strcmp(second, ".add")   ? z + first
                                      : !strcmp(second, ".min") ? (z < first ? z : first)
                                      : z > first               ? z
                                                                : first);
                } else if (*d) {
                    const uint32_t mask = ((1u << part_bits(d)) - 1) << part_shift(d);
                    want = (run.s[2].u.w[i] & ~mask) | ((uint32_t)t << part_shift(d) & mask);
                }
                if (run.d.u.w[i] != want)
                    fail_msg("%s (%s) .%s .%s .%s of %08x %08x %08x gives %08x, not %08x", text, sg_cpu_name(level), d,
                             a, b, run.s[0].u.w[i], run.s[1].u.w[i], run.s[2].u.w[i], run.d.u.w[i], want);
            }
        }
    }
}

TEST(test_vmad)
{
    static const char *const scales[] = { "", ".shr7", ".shr15" };
    for (unsigned trial = 0; trial < 2000; trial++) {
        const unsigned dt = alu_random() & 1, at = alu_random() & 1, bt = alu_random() & 1,
                       scale = (unsigned)(alu_random() % 3), negate = (unsigned)(alu_random() % 4);
        const bool sat = alu_random() & 1, po = negate == 3;     /* 0 nothing, 1 the product, 2 c, 3 .po */
        const char *a = parts[alu_random() % 7], *b = parts[alu_random() % 7];
        char text[64];
        snprintf(text, sizeof text, "vmad.%s.%s.%s%s%s%s", types[dt], types[at], types[bt], po ? ".po" : "",
                 sat ? ".sat" : "", scales[scale]);
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            find(&c, level, text, 3, "", a, b);
            c.operands[1].negated = negate == 1;
            c.operands[3].negated = negate == 2;
            assert_int_equal(sg_alu_find_for(level, &c.instruction, &c.alu, c.why, sizeof c.why), 0);
            fill(&run);
            alu_execute(&c, &run);
            for (unsigned i = 0; i < 32; i++) {
                const bool is_signed = at || bt || negate == 1 || negate == 2;
                const __int128 product = (__int128)extend(run.s[0].u.w[i] >> part_shift(a), part_bits(a), at) *
                                         extend(run.s[1].u.w[i] >> part_shift(b), part_bits(b), bt);
                const __int128 z = extend(run.s[2].u.w[i], 32, is_signed);
                __int128 t = (negate == 1 ? -product : product) + (negate == 2 ? -z : z) + po;
                const __int128 by = scale == 0 ? 1 : scale == 1 ? 128 : 32768;
                t = t >= 0 ? t / by : -((-t + by - 1) / by);
                const __int128 most = is_signed ? INT32_MAX : UINT32_MAX, least = is_signed ? INT32_MIN : 0;
                const uint32_t want = (uint32_t)(!sat ? t : t > most ? most : t < least ? least : t);
                assert_int_equal(run.d.u.w[i], want);
            }
        }
    }
}

TEST(test_simd)
{
    static const char *const names[] = { "add", "sub", "avrg", "absdiff", "min", "max", "set" };
    for (unsigned trial = 0; trial < 6000; trial++) {
        const char *name = names[alu_random() % 7], *mode = pick_mode(name);
        const bool set = !strcmp(name, "set"), add = alu_random() & 1, sat = !set && !add && alu_random() & 1;
        const unsigned n = alu_random() & 1 ? 4 : 2, bits = 32 / n, dt = set ? 0 : alu_random() & 1,
                       at = alu_random() & 1, bt = alu_random() & 1;
        const char letter = n == 4 ? 'b' : 'h';
        char text[64], mask[8] = "", a[8] = "", b[8] = "";
        const unsigned written = alu_random() & 1 ? (1u << n) - 1 : 1 + (unsigned)(alu_random() % ((1u << n) - 1));
        unsigned from[2][4];
        for (unsigned e = 0; e < n; e++) {
            from[0][e] = e;
            from[1][e] = n + e;
        }
        if (alu_random() & 1)                                  /* selectors on both */
            for (unsigned s = 0; s < 2; s++) {
                char *to = s ? b : a;
                to[0] = letter;
                for (unsigned e = 0; e < n; e++) {
                    from[s][e] = (unsigned)(alu_random() % (2 * n));
                    to[n - e] = (char)('0' + from[s][e]);
                }
            }
        if (written != (1u << n) - 1) {
            unsigned at_char = 0;
            mask[at_char++] = letter;
            for (unsigned e = n; e-- > 0;)
                if (written >> e & 1)
                    mask[at_char++] = (char)('0' + e);
        }
        snprintf(text, sizeof text, "v%s%u%s%s.%s.%s%s%s%s", name, n, set ? "" : ".", set ? "" : types[dt], types[at],
                 types[bt], mode, sat ? ".sat" : "", add ? ".add" : "");
        ALU_LEVELS(level) {
            struct alu_case c;
            struct alu_run run = { 0 };
            if (find(&c, level, text, 3, mask, a, b))
                fail_msg("%s refused: %s", text, c.why);
            fill(&run);
            alu_execute(&c, &run);
            for (unsigned i = 0; i < 32; i++) {
                const uint64_t both = (uint64_t)run.s[1].u.w[i] << 32 | run.s[0].u.w[i];
                uint32_t want = run.s[2].u.w[i];
                for (unsigned e = 0; e < n; e++) {
                    int64_t t = operate(name, mode, extend(both >> (bits * from[0][e]), bits, at),
                                        extend(both >> (bits * from[1][e]), bits, bt));
                    if (sat)
                        t = clamp(t, bits, dt);
                    const uint32_t element = (uint32_t)(((uint64_t)1 << bits) - 1) << (bits * e);
                    if (written >> e & 1)
                        want = add ? want + (uint32_t)t : (want & ~element) | ((uint32_t)t << (bits * e) & element);
                }
                if (run.d.u.w[i] != want)
                    fail_msg("%s (%s) .%s .%s .%s of %08x %08x %08x gives %08x, not %08x", text, sg_cpu_name(level),
                             mask, a, b, run.s[0].u.w[i], run.s[1].u.w[i], run.s[2].u.w[i], run.d.u.w[i], want);
            }
        }
    }
}

TEST(test_refusals)
{
    static const struct { const char *text; unsigned sources; const char *d, *a, *b, *reason; } refused[] = {
        { "vadd.u32.u32", 2, "", "", "", "types" }, { "vadd.u32.u32.u16", 2, "", "", "",
                                                      "u16" }, { "vadd.u32.u32.u32.add", 3, "b0", "", "", "not both" },
        { "vadd4.u32.u32.u32", 3, "", "h10", "", "h10" }, { "vadd4.u32.u32.u32", 3, "", "b321", "",
                                                            "4 elements" }, { "vadd2.u32.u32.u32", 3, "", "h45", "",
                                                                              "2 elements" },
        { "vadd4.u32.u32.u32", 2, "", "", "", "three operands" }, { "vshl.u32.u32.u32", 2, "", "", "",
                                                                    "mode" }, { "vset.u32.u32", 2, "", "", "",
                                                                                "comparison" },
        { "vadd.u32.u32.u32", 2, "", "b10", "", "b10" }, { "add.u32", 2, "", "b1", "",
                                                           "part" }, { "vadd4.u32.u32.u32.sat.add", 3, "", "", "",
                                                                       ".add or .sat" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct alu_case c;
        if (find(&c, SG_CPU_BASE, refused[i].text, refused[i].sources, refused[i].d, refused[i].a, refused[i].b) != -1)
            fail_msg("%s was accepted", refused[i].text);
        if (!strstr(c.why, refused[i].reason))
            fail_msg("%s: '%s' does not name '%s'", refused[i].text, c.why, refused[i].reason);
    }
}

int main(void) { return unit_run(NULL, NULL); }
