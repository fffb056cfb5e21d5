/* needs.c: how many registers ptxas would give a function, from what can be measured in it. See pressure.h. */
#include <math.h>
#include <string.h>

#include "softgpu/exec/pressure.h"

enum {
    MOST = 255,  /* that an instruction can name */
    ENOUGH = 40, /* more make no difference to what it prefers */
    BEND = 12,
    UNIT = 8,
    OF_CALLS = 24, /* a function that is not known may use so many; NVIDIA's printf and malloc are such */
    LEAST = 8,
    OF_NOTHING = 4,
};

/* Made by tests/exec/registers.py --fit, against ptxas for compute capability 9.0 and for 12.0. room: with so many
   registers all threads of an SM have theirs. preferred: of the measures; must: of 1, narrow, and calls. */
static const struct weights {
    unsigned room;
    double preferred[MEASURES], must[3];
} threads_2048 = { 32, { 3.02, 0.56, 0.37, 0.33, 0.06, -1.29, -0.46, 0.79 }, { 0.00, 1.00, 8.00 } },
  threads_1536 = { 40, { 2.45, 0.58, 0.54, 0.26, 0.07, -1.76, -0.19, 1.14 }, { 0.00, 1.00, 8.00 } };

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

static bool has(const struct ptx_instruction *in, const char *modifier)
{
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (!strcmp(in->modifiers[i], modifier))
            return true;
    return false;
}

static void note_call(const struct ptx_module *m, const struct ptx_instruction *in, struct exec_measures *out)
{
    bool known = false;
    for (uint32_t k = 0; k < in->operand_count; k++)
        known |= in->operands[k].kind == PTX_OP_FUNCTION && m->functions[in->operands[k].index].defined;
    out->calls |= known;
    out->calls_unknown |= !known;
}

static double least(double a, double b) { return a < b ? a : b; }

static void count(const struct ptx_module *m, const struct ptx_function *f, struct exec_measures *out)
{
    double *of = out->of;
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        const struct ptx_instruction *in = &f->instructions[i];
        bool divides = is(in, "div") || is(in, "rem"), real = has(in, "f32") || has(in, "f64");
        if (is(in, "call"))
            note_call(m, in, out);
        if (divides && has(in, "f32") && has(in, "rn"))
            of[MEASURE_FLOAT_DIVISION] = 1;
        of[MEASURE_INTEGER_DIVISIONS] += divides && !real && !has(in, "s64") && !has(in, "u64");
    }
    of[MEASURE_INTEGER_DIVISIONS] = least(of[MEASURE_INTEGER_DIVISIONS], 4);
}

bool exec_registers_measure(const struct ptx_module *m, const struct ptx_function *f, struct exec_measures *out)
{
    struct exec_values v;
    unsigned loops = 0;
    *out = (struct exec_measures){ .of = { [MEASURE_ONE] = 1 } };
    bool done = exec_values_build(&v, f, true);
    if (done)
        out->of[MEASURE_PLAIN] = least(exec_pressure(&v), ENOUGH);
    exec_values_free(&v);
    if (!done)
        return false;
    done = exec_values_build(&v, f, false);
    if (done) {
        out->narrow = exec_pressure(&v);
        unsigned eager = exec_pressure_eager(&v, ENOUGH, &loops);
        out->of[MEASURE_EAGER] = least(eager, BEND);
        out->of[MEASURE_EAGER_MORE] = eager > BEND ? eager - BEND : 0;
        out->of[MEASURE_LOOPS] = least(loops, 2 * ENOUGH);
        for (uint32_t i = 0; i < f->instruction_count; i++)
            out->instructions += !v.left_out[i];
        out->of[MEASURE_LOG_SIZE] = log(out->instructions + 1);
        count(m, f, out);
    }
    exec_values_free(&v);
    return done;
}

unsigned exec_registers_weigh(const struct exec_measures *m, unsigned threads_per_sm)
{
    const struct weights *w = threads_per_sm >= 2048 ? &threads_2048 : &threads_1536;
    double must = w->must[0] + w->must[1] * m->narrow + w->must[2] * m->calls, preferred = 0;
    unsigned registers, lowest = m->calls_unknown ? OF_CALLS : LEAST;
    for (int k = 0; k < MEASURES; k++)
        preferred += w->preferred[k] * m->of[k];
    if (m->instructions <= 1)
        return OF_NOTHING; /* it returns */
    if (must > w->room)
        registers = (unsigned)(least(must, MOST) + UNIT - 2) / UNIT * UNIT;
    else if (preferred >= w->room)
        registers = w->room;
    else
        registers = preferred < lowest ? lowest : (unsigned)(preferred + 1) / 2 * 2; /* mostly, they are even */
    registers = registers < lowest ? lowest : registers;
    return registers > MOST ? MOST : registers;
}
