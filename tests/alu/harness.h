/*
 * harness.h: runs one instruction on rows of test values, in every clone that this processor has.
 *
 * alu_case("add.s32", 2) is an instruction with that many operands after the destination; ALU_LEVELS loops over clones.
 */
#ifndef TESTS_ALU_HARNESS_H
#define TESTS_ALU_HARNESS_H

#include "softgpu/alu/decode.h"
#include "tests/lib/unit.h"

/* Patterns of bits as floats, and back. */
static inline float f32(uint64_t x)
{
    float f;
    memcpy(&f, &x, sizeof f);
    return f;
} /* of its low half */
static inline uint32_t u32(float f)
{
    uint32_t x;
    memcpy(&x, &f, sizeof x);
    return x;
}
static inline double f64(uint64_t x)
{
    double f;
    memcpy(&f, &x, sizeof f);
    return f;
}
static inline uint64_t u64(double f)
{
    uint64_t x;
    memcpy(&x, &f, sizeof x);
    return x;
}

struct alu_case {
    char name[128]; /* as it was asked for */
    char text[128];
    const char *modifiers[16];
    struct ptx_operand operands[8];
    struct ptx_instruction instruction;
    struct sg_alu alu;
    char why[160];
};

/* Splits "opcode.modifier.modifier"; sources: operands after the first. -1 if refused, with why. */
static inline int alu_find(struct alu_case *c, enum sg_cpu level, const char *text, unsigned sources)
{
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%s", text);
    snprintf(c->text, sizeof c->text, "%s", text);
    c->instruction.modifiers = c->modifiers;
    c->instruction.operands = c->operands;
    c->instruction.operand_count = 1 + sources;
    c->instruction.guard = -1;
    for (char *save, *word = strtok_r(c->text, ".", &save); word; word = strtok_r(NULL, ".", &save)) {
        if (!c->instruction.opcode)
            c->instruction.opcode = word;
        else
            c->modifiers[c->instruction.modifier_count++] = word;
    }
    return sg_alu_find_for(level, &c->instruction, &c->alu, c->why, sizeof c->why);
}

static inline void alu_get(struct alu_case *c, enum sg_cpu level, const char *text, unsigned sources)
{
    if (alu_find(c, level, text, sources))
        fail_msg("%s refused: %s", text, c->why);
}

/* alu_get, with a text that is put together as by printf. */
__attribute__((format(printf, 4, 5))) static inline void alu_getf(struct alu_case *c, enum sg_cpu level,
                                                                  unsigned sources, const char *format, ...)
{
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    alu_get(c, level, text, sources);
}

/* What has to be refused, with a reason that names the cause. */
struct alu_refused { const char *text; unsigned sources; const char *reason; };

static inline void alu_check_refused(const struct alu_refused *refused, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct alu_case c;
        if (alu_find(&c, SG_CPU_BASE, refused[i].text, refused[i].sources) != -1)
            fail_msg("%s was accepted", refused[i].text);
        if (!strstr(c.why, refused[i].reason))
            fail_msg("%s: '%s' does not name '%s'", refused[i].text, c.why, refused[i].reason);
    }
}

/* Rows of up to 64 bits. read and write by lane whatever the cell. */
struct alu_row { _Alignas(64) union { uint32_t w[32]; uint64_t q[32]; } u; };

static inline void row_set(struct alu_row *row, enum sg_cell cell, unsigned lane, uint64_t value)
{
    if (cell == SG_CELL_64)
        row->u.q[lane] = value;
    else
        row->u.w[lane] = (uint32_t)value;
}
static inline uint64_t row_get(const struct alu_row *row, enum sg_cell cell, unsigned lane)
{
    return cell == SG_CELL_64 ? row->u.q[lane] : row->u.w[lane];
}

struct alu_run {
    struct alu_row d, s[SG_MAX_SOURCES];
    uint32_t carry, p, q, in;
    uint64_t immediate;               /* of the operand, where the instruction has one */
    bool no_q;
};

/* Runs it; where cells are alike, again with d in the place of each source, which must give the same. */
static inline void alu_execute(const struct alu_case *c, struct alu_run *run)
{
    struct sg_rows r = { .d = c->alu.destination == SG_CELL_PRED ? NULL : &run->d, .carry = &run->carry, .p = &run->p,
                         .q = run->no_q ? NULL : &run->q, .in = run->in,
                         .immediate = c->alu.immediate_source >= 0 ? run->immediate : c->alu.immediate };
    const uint32_t carry = run->carry;
    for (unsigned i = 0; i < c->alu.source_count; i++)
        r.s[i] = &run->s[i];
    memset(&run->d, 0xa5, sizeof run->d);
    c->alu.function(&r);
    for (unsigned i = 0; i < c->alu.source_count && r.d; i++) {
        if (c->alu.source[i] != c->alu.destination)
            continue;
        struct alu_row kept = run->s[i];
        uint32_t carry_again = carry, p = 0, q = 0;
        struct sg_rows again = r;
        again.d = &run->s[i];
        again.carry = &carry_again;
        again.p = &p;
        again.q = run->no_q ? NULL : &q;
        c->alu.function(&again);
        for (unsigned lane = 0; lane < SG_LANES; lane++)
            if (row_get(&run->s[i], c->alu.destination, lane) != row_get(&run->d, c->alu.destination, lane))
                fail_msg("%s in place of source %u differs in lane %u", c->instruction.opcode, i, lane);
        run->s[i] = kept;
    }
}

/* ---- values ---- */

static uint64_t alu_seed = 0x9e3779b97f4a7c15;
static inline uint64_t alu_random(void)
{
    uint64_t z = (alu_seed += 0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Integers of that many bits: edges half of the time. */
static inline uint64_t alu_integer(unsigned bits)
{
    const uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    const uint64_t power = (uint64_t)1 << alu_random() % bits;
    switch (alu_random() % 12) {
    case 0:  return 0;
    case 1:  return 1;
    case 2:  return mask;
    case 3:  return mask >> 1;
    case 4:  return (mask >> 1) + 1;
    case 5:  return power & mask;
    case 6:  return (power - 1) & mask;
    case 7:  return (0 - power) & mask;
    case 8:  return alu_random() % 70 & mask;
    default: return alu_random() & mask;
    }
}

/* Patterns of an IEEE format: zeros, subnormals, infinities, NaNs and ends of ranges half of the time. */
static inline uint64_t alu_float(unsigned exponent_bits, unsigned fraction_bits)
{
    const uint64_t fraction = ((uint64_t)1 << fraction_bits) - 1, exponents = ((uint64_t)1 << exponent_bits) - 1;
    const uint64_t sign = alu_random() >> 63 << (exponent_bits + fraction_bits), bias = exponents >> 1;
    switch (alu_random() % 16) {
    case 0:  return sign;
    case 1:  return sign | exponents << fraction_bits;
    case 2:  return sign | exponents << fraction_bits | (alu_random() & fraction) | 1;
    case 3:  return sign | (alu_random() & fraction);
    case 4:  return sign | 1;
    case 5:  return sign | fraction;
    case 6:  return sign | (exponents - 1) << fraction_bits | fraction;
    case 7:  return sign | (uint64_t)1 << fraction_bits;
    case 8:  return sign | bias << fraction_bits;
    case 9:  return sign | bias << fraction_bits | (alu_random() & 3);
    case 10: return sign | (bias - 1 + alu_random() % 3) << fraction_bits | (alu_random() & fraction);
    case 11:
        return sign | (bias + alu_random() % 64 % (bias - 1)) << fraction_bits |
               (alu_random() & fraction & ~(fraction >> 6));
    default: return sign | (alu_random() % exponents) << fraction_bits | (alu_random() & fraction);
    }
}

#define ALU_LEVELS(level) for (enum sg_cpu level = SG_CPU_BASE; level <= sg_cpu_level(); level++)

#endif
