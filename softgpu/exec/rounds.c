/*
 * rounds.c: loops of which ptxas runs several rounds at a time, so that the loads of all come first. See steps.h.
 *
 * Such a loop is one run of instructions, its branch compares what each round changes by a constant, and nothing in it
 * must keep its place. What changes by a constant, and what is made of it by sums and multiples, has one register for
 * all rounds: those of the later ones are an offset away. What a round makes otherwise has a register in each.
 */
#include <string.h>

#include "softgpu/exec/steps.h"

enum { LOOP_MOST = 100, TEXT_MOST = 4 * LOOP_MOST }; /* instructions that a GPU has, and all */

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

/* copied: it may be a copy of what is changed, which PTX has at the end of a round. */
static bool steps_by_constant(const struct ptx_function *f, uint32_t first, uint32_t end, uint32_t reg, bool copied)
{
    for (uint32_t i = first; i < end; i++) {
        const struct ptx_instruction *in = &f->instructions[i];
        bool sets = in->operand_count > 1 && in->operands[0].kind == PTX_OP_REGISTER && in->operands[0].reg == reg;
        if (!sets)
            continue;
        if ((is(in, "add") || is(in, "sub")) && in->operand_count > 2 && in->operands[2].kind == PTX_OP_INTEGER)
            return true;
        if (copied && is(in, "mov") && in->operands[1].kind == PTX_OP_REGISTER &&
            steps_by_constant(f, first, i, in->operands[1].reg, false))
            return true;
    }
    return false;
}

/* Does the loop's branch compare what each round changes by a constant? */
static bool is_counted(const struct ptx_function *f, uint32_t first, uint32_t end)
{
    const struct ptx_instruction *branch = &f->instructions[end - 1];
    for (uint32_t i = first; is(branch, "bra") && branch->guard >= 0 && i < end; i++) {
        const struct ptx_instruction *in = &f->instructions[i];
        if (!is(in, "setp") || !in->operand_count || in->operands[0].kind != PTX_OP_REGISTER ||
            in->operands[0].reg != (uint32_t)branch->guard)
            continue;
        for (uint32_t k = 1; k < in->operand_count; k++)
            if (in->operands[k].kind == PTX_OP_REGISTER && steps_by_constant(f, first, end, in->operands[k].reg, true))
                return true;
    }
    return false;
}

bool exec_rounds_suit(const struct eager *e, uint32_t begin, uint32_t end)
{
    static const char *const keeps[] = { "bar", "barrier", "call", "atom", NULL };
    const struct exec_values *v = e->v;
    uint32_t first = v->flow.first[begin], stop = v->flow.first[end], count = 0;
    bool again = false, loads = false;
    for (uint32_t k = v->flow.next_at[end - 1]; k < v->flow.next_at[end]; k++)
        again |= v->flow.next[k] == begin;
    if (!again || stop - first > TEXT_MOST)
        return false;
    for (uint32_t i = first; i < stop; i++) {
        const struct ptx_instruction *in = &v->f->instructions[i];
        bool leaves = i + 1 < stop && exec_steps_leaves(in);
        if (leaves || exec_steps_is(in, keeps) || exec_steps_has(in, "volatile"))
            return false;
        count += !v->left_out[i];
        loads |= exec_values_loads(in) && !exec_steps_has(in, "const");
    }
    return loads && count <= LOOP_MOST && is_counted(v->f, first, stop);
}

/* Is the result a sum or a multiple of what changes by a constant, so that it changes by one, too? */
static bool is_made_of_steps(const struct eager *e, const struct ptx_instruction *in)
{
    static const char *const opcodes[] = { "add", "sub", "mul", "mad", "shl", "cvt", "mov", NULL };
    bool steps = false, multiplies = is(in, "mul") || is(in, "mad") || is(in, "shl");
    if (!exec_steps_is(in, opcodes) || in->guard >= 0 || exec_steps_has(in, "f"))
        return false;
    for (uint32_t k = 1; k < in->operand_count; k++) {
        const struct ptx_operand *o = &in->operands[k];
        if (o->kind == PTX_OP_INTEGER || o->kind == PTX_OP_VARIABLE)
            continue;
        if (o->kind != PTX_OP_REGISTER)
            return false;
        uint8_t kind = e->kinds[e->v->same[o->reg]];
        bool factor = multiplies && k < 3;
        if (kind == ROUND_CARRIED || kind == ROUND_OWN || (kind == ROUND_SAME && factor))
            return false;
        steps |= kind != ROUND_SAME;
    }
    return steps;
}

void exec_rounds_kinds(struct eager *e, uint32_t begin, uint32_t end)
{
    const struct exec_values *v = e->v;
    const uint64_t *in = v->in + (size_t)begin * v->words;
    uint32_t first = v->flow.first[begin], stop = v->flow.first[end];
    memset(e->kinds, ROUND_SAME, e->registers * sizeof *e->kinds);
    for (uint32_t k = v->write_at[first]; k < v->write_at[stop]; k++)
        e->kinds[v->writes[k]] = ROUND_OWN;
    for (uint32_t c = 0; c < v->crossing_count; c++) {
        uint32_t reg = v->crossing[c];
        if (in[c / 64] >> (c % 64) & 1 && e->kinds[reg] == ROUND_OWN)
            e->kinds[reg] = steps_by_constant(v->f, first, stop, reg, true) ? ROUND_STEPS : ROUND_CARRIED;
    }
    for (uint32_t i = first; i < stop; i++)
        if (v->write_at[i + 1] - v->write_at[i] == 1 && e->kinds[v->writes[v->write_at[i]]] == ROUND_OWN &&
            is_made_of_steps(e, &v->f->instructions[i]))
            e->kinds[v->writes[v->write_at[i]]] = ROUND_MADE_OF;
}

bool exec_rounds_skip(const struct eager *e, uint32_t instruction)
{
    const struct exec_values *v = e->v;
    const struct ptx_instruction *in = &v->f->instructions[instruction];
    bool last = e->round + 1 == e->rounds;
    if (v->write_at[instruction + 1] - v->write_at[instruction] == 1) {
        uint8_t kind = e->kinds[v->writes[v->write_at[instruction]]];
        if (kind == ROUND_MADE_OF)
            return e->round > 0;
        if (kind == ROUND_STEPS)
            return !last;
    }
    return is(in, "bra") && !last;
}
