/*
 * eager.c: how many registers are alive when the instructions stand in the order in which a GPU waits least.
 *
 * Each run of blocks that lanes enter only at its beginning is ordered by itself, as a compiler's list scheduling does
 * it: of the instructions whose operands are there, the one comes next that the longest chain of others waits for,
 * where a load counts as many steps. A run is a block, and those behind it that only it leads to. What waits for what:
 * steps.c. A loop is looked at a second time, with several rounds of it as one run (rounds.c).
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/steps.h"

/* ALL_MOST: instructions of a function that are ordered; POINTER_SIZE: registers */
enum { ALL_MOST = 200000, POINTER_SIZE = 2 };

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

/* ---- placing the steps ---- */

static bool alive_behind(const struct eager *e, uint32_t last, uint32_t reg)
{
    uint32_t own = reg % e->registers, c = e->v->crossing_of[own];
    if (e->rounds > 1 && e->kinds[own] == ROUND_OWN && reg / e->registers + 1 != e->rounds)
        return false;
    return c != PRESSURE_NONE && e->v->out[(size_t)last * e->v->words + c / 64] >> (c % 64) & 1;
}

static void find_heights(struct eager *e)
{
    for (uint32_t x = e->count; x-- > 0;)
        for (uint32_t k = e->steps[x].first_edge; k != PRESSURE_NONE; k = e->edges[k].next) {
            unsigned height = e->steps[e->edges[k].to].height + e->edges[k].latency;
            if (height > e->steps[x].height)
                e->steps[x].height = height;
        }
}

/* The place in `ready` of the best one now: it waits least, then the most waits for it, then it is the first. */
static uint32_t best(const struct eager *e, unsigned now)
{
    uint32_t chosen = 0;
    int64_t most = INT64_MIN;
    for (uint32_t k = 0; k < e->ready_count; k++) {
        const struct exec_step *s = &e->steps[e->ready[k]];
        int64_t stall = s->when > now ? s->when - now : 0;
        int64_t score = (-stall * 1000 + (int64_t)s->height * 10) * 8 - e->ready[k];
        if (score > most) {
            most = score;
            chosen = k;
        }
    }
    return chosen;
}

/* Registers for what costs nothing until an instruction of memory must have it in registers: an address that is the
   same for all threads, and a constant that is stored. */
static unsigned held(const struct exec_values *v, const struct ptx_instruction *in)
{
    static const char *const opcodes[] = { "st", "atom", "red", "ld", NULL };
    if (!exec_steps_is(in, opcodes) || exec_steps_has(in, "param") || exec_steps_has(in, "const"))
        return 0;
    unsigned count = 0;
    for (uint32_t k = is(in, "ld") || is(in, "atom") ? 1 : 0; k < in->operand_count; k++) {
        const struct ptx_operand *o = &in->operands[k];
        bool has_register = o->kind == PTX_OP_REGISTER || (o->kind == PTX_OP_MEMORY && o->has_register);
        bool free = !has_register || (!v->cost[o->reg] && v->same[o->reg] == o->reg);
        if (!free)
            continue;
        if (o->kind == PTX_OP_MEMORY)
            count += exec_steps_has(in, "shared") ? 0 : POINTER_SIZE;
        else if (o->kind == PTX_OP_REGISTER)
            count += ptx_type_size(v->f->registers[o->reg].type) > 4 ? 2 : 1;
        else
            count += o->kind == PTX_OP_INTEGER || o->kind == PTX_OP_FLOAT;
    }
    return count;
}

/* Takes the step's effect on what is alive into account. The registers that are needed while it runs. */
static unsigned live(struct eager *e, const struct exec_step *s, uint32_t last, unsigned *alive)
{
    const struct ptx_instruction *in = &e->v->f->instructions[s->instruction];
    unsigned unused = 0;
    for (uint32_t k = 0; k < s->read_count; k++) {
        uint32_t r = s->reads[k];
        if (--e->uses_left[r] == 0 && e->alive[r] && !alive_behind(e, last, r)) {
            *alive -= step_cost(e, r);
            e->alive[r] = false;
        }
    }
    for (uint32_t k = 0; k < s->write_count; k++) {
        uint32_t r = s->writes[k];
        if (e->alive[r])
            continue;
        if (e->uses_left[r] || alive_behind(e, last, r)) {
            *alive += step_cost(e, r);
            e->alive[r] = true;
        } else {
            unused += step_cost(e, r);
        }
    }
    return *alive + unused + (s->role == STEP_POINTER ? 0 : exec_values_scratch(in) + held(e->v, in));
}

static void begin_placing(struct eager *e)
{
    find_heights(e);
    for (uint32_t x = 0; x < e->count; x++) {
        for (uint32_t k = 0; k < e->steps[x].read_count; k++)
            e->uses_left[e->steps[x].reads[k]]++;
        if (!e->steps[x].waits_for)
            e->ready[e->ready_count++] = x;
    }
}

static void end_placing(struct eager *e)
{
    for (uint32_t x = 0; x < e->count; x++) {
        for (uint32_t k = 0; k < e->steps[x].read_count; k++) {
            e->uses_left[e->steps[x].reads[k]] = 0;
            e->alive[e->steps[x].reads[k]] = false;
        }
        for (uint32_t k = 0; k < e->steps[x].write_count; k++)
            e->alive[e->steps[x].writes[k]] = false;
    }
    for (uint32_t c = 0; c < e->v->crossing_count; c++)
        e->alive[e->v->crossing[c]] = false;
}

/* The most that are alive in blocks begin … end - 1. */
static unsigned place(struct eager *e, uint32_t begin, uint32_t end, unsigned enough)
{
    const uint64_t *in = e->v->in + (size_t)begin * e->v->words;
    unsigned alive = 0, now = 0, most;
    for (uint32_t c = 0; c < e->v->crossing_count; c++)
        if (in[c / 64] >> (c % 64) & 1) {
            alive += e->v->cost[e->v->crossing[c]];
            e->alive[e->v->crossing[c]] = true;
        }
    most = alive;
    begin_placing(e);
    while (e->ready_count && most < enough) {
        uint32_t at = best(e, now), x = e->ready[at];
        struct exec_step *s = &e->steps[x];
        e->ready[at] = e->ready[--e->ready_count];
        now = (s->when > now ? s->when : now) + 2;
        unsigned here = live(e, s, end - 1, &alive);
        most = here > most ? here : most;
        for (uint32_t k = s->first_edge; k != PRESSURE_NONE; k = e->edges[k].next) {
            struct exec_step *to = &e->steps[e->edges[k].to];
            if (now + e->edges[k].latency > to->when + 2)
                to->when = now + e->edges[k].latency - 2;
            if (!--to->waits_for)
                e->ready[e->ready_count++] = e->edges[k].to;
        }
    }
    end_placing(e);
    return most;
}

static unsigned pressure_of(struct eager *e, uint32_t begin, uint32_t end, unsigned enough)
{
    unsigned most = exec_steps_make(e, begin, end) ? place(e, begin, end, enough) : 0;
    exec_steps_free(e);
    return most;
}

static unsigned pressure_of_rounds(struct eager *e, uint32_t begin, uint32_t end, unsigned enough)
{
    exec_rounds_kinds(e, begin, end);
    e->rounds = ROUNDS;
    unsigned most = pressure_of(e, begin, end, enough);
    e->rounds = 1;
    return most;
}

/* ---- runs ---- */

static bool falls_into_the_next(const struct exec_values *v, const uint32_t *entries, uint32_t b)
{
    return b + 1 < v->flow.blocks && exec_flow_falls(&v->flow, b) && entries[b + 1] == 1;
}

/* The block behind the run that begins with the block. */
static uint32_t end_of_run(const struct exec_values *v, const uint32_t *entries, uint32_t begin)
{
    uint32_t end = begin + 1;
    while (falls_into_the_next(v, entries, end - 1))
        end++;
    return end;
}

/* The block behind the one that leads back to the run's beginning; the run's end: there is none. */
static uint32_t end_of_loop(const struct exec_flow *g, uint32_t begin, uint32_t end)
{
    for (uint32_t b = begin; b < end; b++)
        for (uint32_t k = g->next_at[b]; k < g->next_at[b + 1]; k++)
            if (g->next[k] == begin)
                return b + 1;
    return end;
}

/* ---- all of it ---- */

/* Does the instruction multiply an index by the size of what it counts? Such a product and a sum are one of a GPU's. */
static bool scales(const struct exec_values *v, uint32_t i)
{
    const struct ptx_instruction *in = &v->f->instructions[i];
    return (is(in, "mul") && exec_steps_has(in, "wide")) || (is(in, "shl") && v->left_out[i]);
}

/* Sums of a scaled index and a parameter, which is 64 bits wide: a GPU has the pointer in registers first, and makes
   the address in the same ones. */
static bool find_pointers(struct eager *e)
{
    const struct exec_values *v = e->v;
    uint32_t *made = calloc(e->registers, sizeof *made); /* per register: the instruction */
    for (uint32_t i = 0; made && i < v->f->instruction_count; i++) {
        const struct ptx_instruction *in = &v->f->instructions[i];
        if (in->operand_count && in->operands[0].kind == PTX_OP_REGISTER)
            made[in->operands[0].reg] = i;
    }
    for (uint32_t i = 0; made && i < v->f->instruction_count; i++) {
        const struct ptx_instruction *in = &v->f->instructions[i];
        bool one = !v->left_out[i] && v->write_at[i + 1] - v->write_at[i] == 1 && (is(in, "add") || is(in, "mad"));
        if (!one || v->cost[v->writes[v->write_at[i]]] != POINTER_SIZE || exec_steps_has(in, "f"))
            continue;
        bool scaled = is(in, "mad"), pointer = false;
        for (uint32_t k = 1; k < in->operand_count; k++) {
            const struct ptx_operand *o = &in->operands[k];
            if (o->kind != PTX_OP_REGISTER)
                continue;
            scaled |= scales(v, made[o->reg]);
            pointer |= !v->cost[o->reg] && ptx_type_size(v->f->registers[o->reg].type) == 8;
        }
        e->pointer[i] = scaled && pointer;
    }
    free(made);
    return made;
}

static uint32_t *count_entries(const struct exec_flow *g)
{
    uint32_t *entries = calloc(g->blocks + 1u, sizeof *entries);
    for (uint32_t k = 0; entries && k < g->next_at[g->blocks]; k++)
        entries[g->next[k]]++;
    return entries;
}

static bool begin(struct eager *e, const struct exec_values *v)
{
    size_t n = v->f->register_count + 1u, all = n * ROUNDS;
    *e = (struct eager){ .v = v, .registers = (uint32_t)n, .rounds = 1 };
    e->pointer = calloc(v->f->instruction_count + 1u, sizeof *e->pointer);
    e->kinds = calloc(n, sizeof *e->kinds);
    e->writer = malloc(all * sizeof *e->writer);
    e->readers = malloc(all * sizeof *e->readers);
    e->uses_left = calloc(all, sizeof *e->uses_left);
    e->alive = calloc(all, sizeof *e->alive);
    if (!e->pointer || !e->kinds || !e->writer || !e->readers || !e->uses_left || !e->alive)
        return false;
    for (size_t r = 0; r < all; r++)
        e->writer[r] = e->readers[r] = PRESSURE_NONE;
    return find_pointers(e);
}

static void finish(struct eager *e)
{
    free(e->pointer);
    free(e->kinds);
    free(e->writer);
    free(e->readers);
    free(e->uses_left);
    free(e->alive);
    free(e->edges);
}

unsigned exec_pressure_eager(const struct exec_values *v, unsigned enough, unsigned *loops)
{
    struct eager e;
    uint32_t *entries = count_entries(&v->flow), placed = 0;
    unsigned most = 0;
    *loops = 0;
    bool done = begin(&e, v) && entries;
    for (uint32_t b = 0, end; done && !e.failed && b < v->flow.blocks && placed < ALL_MOST; b = end) {
        end = end_of_run(v, entries, b);
        unsigned here = pressure_of(&e, b, end, enough);
        most = here > most ? here : most;
        placed += e.count;
        uint32_t loop = end_of_loop(&v->flow, b, end);
        if (exec_rounds_suit(&e, b, loop)) { /* it has two entries, so it begins a run */
            here = pressure_of_rounds(&e, b, loop, enough);
            *loops = here > *loops ? here : *loops;
            placed += e.count;
        }
    }
    free(entries);
    finish(&e);
    return most < enough ? most : enough;
}
