/* needs.c: how many registers ptxas would give a function, from what can be measured in it. See pressure.h. */
#include <math.h>
#include <string.h>

#include "softgpu/exec/pressure.h"

enum {
    MOST = 255,  /* that an instruction can name, less one */
    ENOUGH = 40, /* of a small kernel */
    BEND = 12,
    LOOPS_MOST = 24,
    UNIT = 8,
    WARP = 32,
    OF_SM = 65536,
    UNKNOWN_BLOCK = 128, /* threads of a block that is not declared: warps get registers four at a time */
    OVERHEAD = 4, /* the stack's pointer, two that a GPU has in any case, and one for what ptxas does not place well */
    OF_CALLEES = 8, /* that a call keeps */
    OF_CALLS = 24,  /* a function that is not known may use so many; NVIDIA's printf and malloc are such */
    LEAST = 8,
    OF_NOTHING = 4,
};

/* Made by tests/exec/registers.py --fit, against ptxas for compute capability 9.0 and for 12.0. room: with so many
   registers all threads of an SM have theirs. */
static const struct weights {
    unsigned room;
    double small[MEASURES], large[LARGE_MEASURES];
} threads_2048 = { 32, { 4.82, 0.67, 0.61, 0.15, 0.21, 0.34, 2.02, 0.52 }, { 3.33, 0.90, 0.05, 0.05 } },
  threads_1536 = { 40, { 3.37, 0.76, 0.64, 0.12, 0.15, 0.38, 1.26, 0.98 }, { -0.07, 0.99, 0.00, 0.09 } };

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

static void note_call(const struct ptx_module *m, const struct ptx_instruction *in, struct exec_measures *out)
{
    bool known = false;
    for (uint32_t k = 0; k < in->operand_count; k++)
        known |= in->operands[k].kind == PTX_OP_FUNCTION && m->functions[in->operands[k].index].defined;
    out->calls |= known;
    out->calls_unknown |= !known;
}

static double least(double a, double b) { return a < b ? a : b; }

static unsigned declared_threads(const struct ptx_function *f)
{
    const uint32_t *n = f->max_ntid[0] ? f->max_ntid : f->req_ntid;
    uint64_t threads = n[0];
    for (int i = 1; i < 3; i++)
        threads = threads < OF_SM ? threads * (n[i] ? n[i] : 1) : threads;
    return threads < OF_SM ? (unsigned)threads : OF_SM;
}

static void note_instructions(const struct ptx_module *m, const struct exec_values *v, struct exec_measures *out)
{
    for (uint32_t i = 0; i < v->f->instruction_count; i++) {
        const struct ptx_instruction *in = &v->f->instructions[i];
        out->instructions += !v->left_out[i];
        if (is(in, "call"))
            note_call(m, in, out);
        if (is(in, "bar") || is(in, "barrier"))
            out->of[MEASURE_BARRIERS] = 1;
    }
    out->of[MEASURE_LOG_SIZE] = log(out->instructions + 1);
}

static void bend(double *measures, unsigned registers)
{
    measures[0] = least(registers, BEND);
    measures[1] = least(registers, ENOUGH) - measures[0];
}

bool exec_registers_measure(const struct ptx_module *m, const struct ptx_function *f, struct exec_measures *out)
{
    struct exec_values v;
    *out = (struct exec_measures){ .of = { [MEASURE_ONE] = 1 },
                                   .large = { [LARGE_ONE] = 1 },
                                   .threads = declared_threads(f) };
    bool done = exec_values_build(&v, f, true);
    unsigned plain = done ? exec_pressure(&v) : 0;
    exec_values_free(&v);
    if (!done)
        return false;
    bend(&out->of[MEASURE_PLAIN], plain);
    out->large[LARGE_PLAIN] = least(plain, 2 * MOST);
    done = exec_values_build(&v, f, false);
    if (done) {
        unsigned loops, eager = exec_pressure_eager(&v, MOST, &loops), narrow = exec_pressure(&v);
        bend(&out->of[MEASURE_EAGER], eager);
        out->of[MEASURE_LOOPS] = loops > eager ? least(loops - eager, LOOPS_MOST) : 0;
        note_instructions(m, &v, out);
        out->large[LARGE_NARROW] = least(narrow, 2 * MOST);
        out->large[LARGE_EAGER] = eager;
        out->needed = narrow + OVERHEAD + (out->calls ? OF_CALLEES : 0);
    }
    exec_values_free(&v);
    return done;
}

static unsigned rounded(unsigned registers) { return (registers + UNIT - 1) / UNIT * UNIT; }

/* The most registers with which as many blocks have room on an SM as with `needed`. */
static unsigned level(unsigned needed, unsigned threads, const struct weights *w, unsigned threads_per_sm)
{
    unsigned block = threads ? (threads + WARP - 1) / WARP * WARP : UNKNOWN_BLOCK;
    unsigned registers = rounded(needed > w->room ? needed : w->room);
    unsigned fit = threads_per_sm / block, blocks = OF_SM / (block * registers);
    blocks = blocks < fit ? blocks : fit;
    while (blocks && registers < MOST && OF_SM / (block * (registers + UNIT)) >= blocks)
        registers += UNIT;
    return registers < MOST ? registers : MOST;
}

static double weigh(const double *weights, const double *measures, int count)
{
    double sum = 0;
    for (int k = 0; k < count; k++)
        sum += weights[k] * measures[k];
    return sum;
}

unsigned exec_registers_weigh(const struct exec_measures *m, unsigned threads_per_sm)
{
    const struct weights *w = threads_per_sm >= 2048 ? &threads_2048 : &threads_1536;
    unsigned registers, lowest = m->calls_unknown ? OF_CALLS : LEAST;
    if (m->instructions <= 1)
        return OF_NOTHING; /* it returns */
    if (m->needed > w->room) {
        unsigned most = level(m->needed, m->threads, w, threads_per_sm), needed = m->needed;
        double liked = weigh(w->large, m->large, LARGE_MEASURES);
        registers = liked <= needed ? needed : (unsigned)(least(liked, MOST) + 0.5);
        registers = registers < most ? registers : most;
    } else {
        double liked = weigh(w->small, m->of, MEASURES);
        registers = liked >= w->room - 0.5 ? w->room : liked <= 0 ? 0 : (unsigned)(liked + 1) / 2 * 2; /* mostly even */
    }
    registers = registers < lowest ? lowest : registers;
    return registers > MOST ? MOST : registers;
}

/* ---- machine code for another GPU ---- */

enum {
    SCARCE = 75, /* the last capability whose code takes fewer registers for the same text */
    PART = 4,    /* of what the estimate has more, or the machine code: chosen on some 400 kernels */
    STEP = 2,
};

/* With so many registers all threads of an SM have room. ptxas likes to use them, and seldom more. */
static unsigned room_of(unsigned threads_per_sm) { return OF_SM / threads_per_sm / UNIT * UNIT; }

static unsigned at_most(unsigned a, unsigned b) { return a < b ? a : b; }

static unsigned at_least(unsigned a, unsigned b) { return a > b ? a : b; }

/* A kernel that had all that it liked, and room for more. */
static unsigned near_small(unsigned registers, unsigned estimate)
{
    unsigned more = registers + (estimate - registers + PART - 1) / PART;
    more = (more + STEP - 1) / STEP * STEP;
    return estimate >= registers + STEP ? at_least(more, registers + STEP) : more;
}

unsigned exec_registers_near(const struct sg_machine_code *code, unsigned estimate, unsigned needed,
                             unsigned threads_per_sm)
{
    unsigned registers = code->registers, room = room_of(threads_per_sm), room_there = room_of(code->threads_per_sm);
    if (registers > room_there) /* that many for waiting less, or because it cannot do with fewer */
        return needed <= room ? at_least(estimate, room) : registers;
    if (registers > room) { /* they cost nothing there */
        unsigned fewer = at_most(estimate, registers);
        return needed <= room ? room : fewer + (registers - fewer) / PART;
    }
    if (registers == room_there) /* it may like more, and there was none */
        return at_least(registers, at_most(estimate, room));
    if (code->capability <= SCARCE && estimate > registers)
        return at_most(near_small(registers, estimate), room);
    return registers;
}
