/*
 * eager.c: how many registers are alive when the instructions stand in the order in which a GPU waits least.
 *
 * Each run of blocks that lanes enter only at its beginning (a block, and those behind it that only it leads to) is
 * ordered by itself, as a compiler's list scheduling does it: of the instructions whose operands are there, the one
 * comes next that the longest chain of others waits for, where a load counts as many steps. Loads and stores keep their
 * order where they may touch the same memory, and nothing passes a barrier. Only the loading of a pointer that is a
 * parameter passes a branch: a GPU has the pointer in registers first, and makes the address in the same ones.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/pressure.h"

/* RUN_MOST: instructions of a run that are ordered, ALL_MOST: of a function. More would say nothing new: such code asks
   for more than ptxas gives anyway. */
enum { RUN_MOST = 1500, ALL_MOST = 200000, CROSSING_MOST = 1024, LOOP_MOST = 100, ROUNDS = 4, SPACES = 3 };

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

static bool has(const struct ptx_instruction *in, const char *begin)
{
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (!strncmp(in->modifiers[i], begin, strlen(begin)))
            return true;
    return false;
}

static bool is_one_of(const struct ptx_instruction *in, const char *const *opcodes)
{
    for (; *opcodes; opcodes++)
        if (is(in, *opcodes))
            return true;
    return false;
}

/* ---- a run of instructions, and what waits for what ---- */

enum role { WHOLE, POINTER, ADDRESS }; /* the loading of a pointer, and the instruction that makes an address of it */
struct step {
    uint32_t instruction;
    uint8_t role;
    uint32_t *reads, read_count, *writes, write_count;
    uint32_t first_edge, waits_for; /* PRESSURE_NONE: none; how many that have not been placed */
    unsigned height, when;          /* of the chain that waits for it; when its operands are there */
};
struct edge {
    uint32_t to, next, latency;
};

struct eager {
    const struct exec_values *v;
    bool *pointer; /* per instruction: it adds to a pointer that is a parameter */
    struct step *steps;
    uint32_t count;
    struct edge *edges;
    uint32_t edge_count, edge_room;
    uint32_t *lists, list_used; /* of registers: the steps' reads and writes */
    uint32_t *writer, *readers; /* per register: the last step that wrote it, and the reads since (a list) */
    struct {
        uint32_t step, next;
    } * uses;
    uint32_t use_count;
    uint32_t *uses_left; /* per register: reads that are still to come */
    bool *alive;
    uint32_t *ready, ready_count;
    bool failed;
};

static const struct ptx_instruction *of(const struct eager *e, uint32_t step)
{
    return &e->v->f->instructions[e->steps[step].instruction];
}

static unsigned latency(const struct eager *e, uint32_t step)
{
    static const char *const slow[] = { "tex", "tld4", "suld", "atom", NULL };
    static const char *const functions[] = { "div", "sqrt", "rsqrt", "rcp",  "ex2", "lg2",
                                             "sin", "cos",  "mma",   "wmma", NULL };
    const struct ptx_instruction *in = of(e, step);
    if (e->steps[step].role == POINTER)
        return 30;
    if (is(in, "ld") || is(in, "ldu"))
        return has(in, "shared") ? 24 : has(in, "const") ? 10 : 200;
    if (is_one_of(in, slow))
        return 200;
    if (is(in, "shfl") || is(in, "ldmatrix"))
        return 20;
    if (is_one_of(in, functions))
        return 16;
    return has(in, "f64") && !is(in, "mov") ? 8 : 4;
}

static void add_edge(struct eager *e, uint32_t from, uint32_t to, unsigned steps)
{
    if (from == PRESSURE_NONE || from == to || e->failed)
        return;
    if (e->edge_count == e->edge_room) {
        uint32_t room = e->edge_room ? 2 * e->edge_room : 4096;
        struct edge *more = realloc(e->edges, room * sizeof *more);
        if (!more) {
            e->failed = true;
            return;
        }
        e->edges = more;
        e->edge_room = room;
    }
    e->edges[e->edge_count] = (struct edge){ to, e->steps[from].first_edge, steps };
    e->steps[from].first_edge = e->edge_count++;
    e->steps[to].waits_for++;
}

static void wait_for_registers(struct eager *e, uint32_t x)
{
    struct step *s = &e->steps[x];
    for (uint32_t k = 0; k < s->read_count; k++) {
        uint32_t r = s->reads[k];
        if (e->writer[r] != PRESSURE_NONE)
            add_edge(e, e->writer[r], x, latency(e, e->writer[r]));
        e->uses[e->use_count].step = x;
        e->uses[e->use_count].next = e->readers[r];
        e->readers[r] = e->use_count++;
    }
    for (uint32_t k = 0; k < s->write_count; k++) {
        uint32_t r = s->writes[k];
        for (uint32_t u = e->readers[r]; u != PRESSURE_NONE; u = e->uses[u].next)
            add_edge(e, e->uses[u].step, x, 1);
        add_edge(e, e->writer[r], x, 1);
        e->readers[r] = PRESSURE_NONE;
        e->writer[r] = x;
    }
}

/* The last steps that keep others in order. */
struct order {
    uint32_t stores[SPACES], barrier, side, branch;
    uint32_t *loads, load_count; /* since the last store, or barrier */
};

/* A bit for each of global, shared and local memory. */
static unsigned spaces_of(const struct ptx_instruction *in)
{
    return has(in, "global") ? 1 : has(in, "shared") ? 2 : has(in, "local") ? 4 : 7;
}

static bool is_load(const struct ptx_instruction *in)
{
    return exec_values_loads(in) && !is(in, "tex") && !is(in, "tld4");
}

static bool leaves(const struct ptx_instruction *in)
{
    static const char *const opcodes[] = { "bra", "brx", "ret", "exit", "trap", NULL };
    return is_one_of(in, opcodes);
}

static void order_store(struct eager *e, struct order *o, uint32_t x)
{
    unsigned spaces = spaces_of(of(e, x));
    uint32_t kept = 0;
    for (uint32_t k = 0; k < o->load_count; k++)
        if (spaces_of(of(e, o->loads[k])) & spaces)
            add_edge(e, o->loads[k], x, 1);
        else
            o->loads[kept++] = o->loads[k];
    o->load_count = kept;
    for (int k = 0; k < SPACES; k++)
        if (spaces >> k & 1) {
            add_edge(e, o->stores[k], x, 1);
            o->stores[k] = x;
        }
    add_edge(e, o->barrier, x, 1);
}

static void order_load(struct eager *e, struct order *o, uint32_t x)
{
    const struct ptx_instruction *in = of(e, x);
    if (has(in, "nc") || has(in, "const"))
        return;
    for (int k = 0; k < SPACES; k++)
        if (spaces_of(in) >> k & 1)
            add_edge(e, o->stores[k], x, 1);
    add_edge(e, o->barrier, x, 1);
    o->loads[o->load_count++] = x;
}

static void order_barrier(struct eager *e, struct order *o, uint32_t x)
{
    for (uint32_t k = 0; k < o->load_count; k++)
        add_edge(e, o->loads[k], x, 1);
    o->load_count = 0;
    for (int k = 0; k < SPACES; k++) {
        add_edge(e, o->stores[k], x, 1);
        o->stores[k] = x;
    }
    add_edge(e, o->barrier, x, 1);
    add_edge(e, o->side, x, 1);
    o->barrier = x;
}

static void wait_in_order(struct eager *e, struct order *o, uint32_t x)
{
    static const char *const stores[] = { "st", "atom", "red", NULL };
    static const char *const of_warp[] = { "shfl", "vote", "activemask", "match", "redux", NULL };
    static const char *const barriers[] = { "ld",        "ldu",      "call", "bar",   "barrier",  "membar",
                                            "fence",     "cp",       "wmma", "wgmma", "stmatrix", "mbarrier",
                                            "nanosleep", "prefetch", "sust", "suld",  NULL };
    const struct ptx_instruction *in = of(e, x);
    add_edge(e, o->branch, x, 1);
    if (is_load(in)) {
        order_load(e, o, x);
        return;
    }
    bool side = true;
    if (is_one_of(in, stores)) {
        order_store(e, o, x);
    } else if (is_one_of(in, of_warp)) {
        add_edge(e, o->side, x, 1);
        add_edge(e, o->barrier, x, 1);
    } else if (is_one_of(in, barriers)) {
        order_barrier(e, o, x);
    } else {
        side = false;
    }
    if (side)
        o->side = x;
    if (!leaves(in))
        return;
    if (x + 1 == e->count) {
        for (uint32_t k = 0; k < x; k++)
            add_edge(e, k, x, 0);
        return;
    }
    add_edge(e, o->side, x, 1);
    for (uint32_t k = 0; k < o->load_count; k++)
        add_edge(e, o->loads[k], x, 1);
    o->branch = x;
}

/* ---- making the steps ---- */

/* Lists of more would take much memory, where the code asks for more registers than there are anyway. */
static bool has_targets(const struct eager *e, const struct ptx_instruction *in)
{
    return is(in, "bra") && e->v->crossing_count <= CROSSING_MOST;
}

/* What is alive where the branch goes to must be there until then. */
static uint32_t add_target(const struct eager *e, const struct ptx_instruction *in, uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; has_targets(e, in) && i < in->operand_count; i++) {
        if (in->operands[i].kind != PTX_OP_LABEL)
            continue;
        const uint64_t *alive = e->v->in + (size_t)e->v->flow.block_of[in->operands[i].index] * e->v->words;
        for (uint32_t c = 0; c < e->v->crossing_count; c++)
            if (alive[c / 64] >> (c % 64) & 1)
                list[count++] = e->v->crossing[c];
    }
    return count;
}

static void add_step(struct eager *e, uint32_t instruction, enum role role)
{
    const struct exec_values *v = e->v;
    struct step *s = &e->steps[e->count++];
    *s = (struct step){ .instruction = instruction, .role = (uint8_t)role, .first_edge = PRESSURE_NONE };
    s->reads = e->lists + e->list_used;
    if (role != POINTER) {
        s->read_count = v->read_at[instruction + 1] - v->read_at[instruction];
        memcpy(s->reads, v->reads + v->read_at[instruction], s->read_count * sizeof *s->reads);
        if (role == ADDRESS)
            s->reads[s->read_count++] = v->writes[v->write_at[instruction]];
        s->read_count += add_target(e, &v->f->instructions[instruction], s->reads + s->read_count);
    }
    s->writes = s->reads + s->read_count;
    s->write_count = v->write_at[instruction + 1] - v->write_at[instruction];
    memcpy(s->writes, v->writes + v->write_at[instruction], s->write_count * sizeof *s->writes);
    e->list_used += s->read_count + s->write_count;
}

/* How many there will be, and how many registers in their lists. */
static void measure(const struct eager *e, uint32_t begin, uint32_t end, size_t *steps, size_t *registers)
{
    const struct exec_values *v = e->v;
    *steps = *registers = 0;
    for (uint32_t b = begin; b < end; b++)
        for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1] && *steps < RUN_MOST; i++) {
            if (v->left_out[i])
                continue;
            *steps += e->pointer[i] ? 2 : 1;
            *registers += v->read_at[i + 1] - v->read_at[i] + 2 * (v->write_at[i + 1] - v->write_at[i]) + 1;
            if (has_targets(e, &v->f->instructions[i]))
                *registers += v->crossing_count;
        }
}

static bool make_steps(struct eager *e, uint32_t begin, uint32_t end)
{
    const struct exec_values *v = e->v;
    size_t steps, registers;
    measure(e, begin, end, &steps, &registers);
    e->count = e->edge_count = e->list_used = e->use_count = e->ready_count = 0;
    e->steps = calloc(steps + 1, sizeof *e->steps);
    e->lists = calloc(registers + 1, sizeof *e->lists);
    e->uses = calloc(registers + 1, sizeof *e->uses);
    e->ready = calloc(steps + 1, sizeof *e->ready);
    struct order o = { { PRESSURE_NONE, PRESSURE_NONE, PRESSURE_NONE },
                       PRESSURE_NONE,
                       PRESSURE_NONE,
                       PRESSURE_NONE,
                       calloc(steps + 1, sizeof *o.loads),
                       0 };
    bool done = e->steps && e->lists && e->uses && e->ready && o.loads;
    size_t made = 0;
    for (uint32_t b = begin; done && b < end; b++)
        for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1] && made < RUN_MOST; i++) {
            if (v->left_out[i])
                continue;
            if (e->pointer[i])
                add_step(e, i, POINTER);
            add_step(e, i, e->pointer[i] ? ADDRESS : WHOLE);
            made += e->pointer[i] ? 2 : 1;
        }
    for (uint32_t x = 0; done && x < e->count; x++) {
        wait_for_registers(e, x);
        if (e->steps[x].role == WHOLE)
            wait_in_order(e, &o, x);
        else if (e->steps[x].role == ADDRESS)
            add_edge(e, o.branch, x, 1);
    }
    for (uint32_t x = 0; done && x < e->count; x++) {
        for (uint32_t k = 0; k < e->steps[x].read_count; k++)
            e->readers[e->steps[x].reads[k]] = PRESSURE_NONE;
        for (uint32_t k = 0; k < e->steps[x].write_count; k++)
            e->readers[e->steps[x].writes[k]] = e->writer[e->steps[x].writes[k]] = PRESSURE_NONE;
    }
    free(o.loads);
    return done && !e->failed;
}

/* ---- placing them ---- */

static bool alive_behind(const struct eager *e, uint32_t last, uint32_t reg)
{
    uint32_t c = e->v->crossing_of[reg];
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
        const struct step *s = &e->steps[e->ready[k]];
        int64_t stall = s->when > now ? s->when - now : 0;
        int64_t score = (-stall * 1000 + (int64_t)s->height * 10) * 8 - e->ready[k];
        if (score > most) {
            most = score;
            chosen = k;
        }
    }
    return chosen;
}

/* Takes the step's effect on what is alive into account. The registers that are needed while it runs. */
static unsigned live(struct eager *e, const struct step *s, uint32_t last, unsigned *alive)
{
    unsigned unused = 0;
    for (uint32_t k = 0; k < s->read_count; k++) {
        uint32_t r = s->reads[k];
        if (--e->uses_left[r] == 0 && e->alive[r] && !alive_behind(e, last, r)) {
            *alive -= e->v->cost[r];
            e->alive[r] = false;
        }
    }
    for (uint32_t k = 0; k < s->write_count; k++) {
        uint32_t r = s->writes[k];
        if (e->alive[r])
            continue;
        if (e->uses_left[r] || alive_behind(e, last, r)) {
            *alive += e->v->cost[r];
            e->alive[r] = true;
        } else {
            unused += e->v->cost[r];
        }
    }
    unsigned scratch = s->role == POINTER ? 0 : exec_values_scratch(&e->v->f->instructions[s->instruction]);
    return *alive + unused + scratch;
}

/* The most that are alive in blocks begin … end - 1. */
static unsigned place(struct eager *e, uint32_t begin, uint32_t end, unsigned enough)
{
    const uint64_t *in = e->v->in + (size_t)begin * e->v->words;
    unsigned alive = 0, now = 0, most;
    find_heights(e);
    for (uint32_t c = 0; c < e->v->crossing_count; c++)
        if (in[c / 64] >> (c % 64) & 1) {
            alive += e->v->cost[e->v->crossing[c]];
            e->alive[e->v->crossing[c]] = true;
        }
    most = alive;
    for (uint32_t x = 0; x < e->count; x++) {
        for (uint32_t k = 0; k < e->steps[x].read_count; k++)
            e->uses_left[e->steps[x].reads[k]]++;
        if (!e->steps[x].waits_for)
            e->ready[e->ready_count++] = x;
    }
    while (e->ready_count && most < enough) {
        uint32_t at = best(e, now), x = e->ready[at];
        struct step *s = &e->steps[x];
        e->ready[at] = e->ready[--e->ready_count];
        now = (s->when > now ? s->when : now) + 2;
        unsigned here = live(e, s, end - 1, &alive);
        most = here > most ? here : most;
        for (uint32_t k = s->first_edge; k != PRESSURE_NONE; k = e->edges[k].next) {
            struct step *to = &e->steps[e->edges[k].to];
            if (now + e->edges[k].latency > to->when + 2)
                to->when = now + e->edges[k].latency - 2;
            if (!--to->waits_for)
                e->ready[e->ready_count++] = e->edges[k].to;
        }
    }
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
    return most;
}

static unsigned pressure_of(struct eager *e, uint32_t begin, uint32_t end, unsigned enough)
{
    unsigned most = make_steps(e, begin, end) ? place(e, begin, end, enough) : 0;
    free(e->steps);
    free(e->lists);
    free(e->uses);
    free(e->ready);
    return most;
}

/* ---- loops of one block ---- */

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

/* Is block b a loop of a kind that ptxas runs several rounds of at a time, to load for all of them first? */
static bool is_such_loop(const struct exec_values *v, uint32_t b)
{
    static const char *const alone[] = { "bar", "barrier", "call", "atom", NULL };
    uint32_t first = v->flow.first[b], end = v->flow.first[b + 1], count = 0;
    bool again = false, loads = false;
    for (uint32_t k = v->flow.next_at[b]; k < v->flow.next_at[b + 1]; k++)
        again |= v->flow.next[k] == b;
    for (uint32_t i = first; again && i < end; i++) {
        const struct ptx_instruction *in = &v->f->instructions[i];
        if (is_one_of(in, alone) || has(in, "volatile"))
            return false;
        count += !v->left_out[i];
        loads |= exec_values_loads(in) && !has(in, "const");
    }
    return again && loads && count <= LOOP_MOST && is_counted(v->f, first, end);
}

static unsigned rounds_at_a_time(struct eager *e, uint32_t b)
{
    const struct exec_values *v = e->v;
    const uint64_t *in = v->in + (size_t)b * v->words;
    unsigned most = pressure_of(e, b, b + 1, UINT32_MAX), through = 0;
    for (uint32_t c = 0; c < v->crossing_count; c++)
        if (in[c / 64] >> (c % 64) & 1)
            through += v->cost[v->crossing[c]];
    for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1]; i++)
        for (uint32_t k = v->write_at[i]; k < v->write_at[i + 1]; k++) {
            uint32_t c = v->crossing_of[v->writes[k]];
            if (c != PRESSURE_NONE && in[c / 64] >> (c % 64) & 1 && !e->alive[v->writes[k]]) {
                e->alive[v->writes[k]] = true;
                through -= v->cost[v->writes[k]];
            }
        }
    for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1]; i++)
        for (uint32_t k = v->write_at[i]; k < v->write_at[i + 1]; k++)
            e->alive[v->writes[k]] = false;
    return most > through ? through + ROUNDS * (most - through) : through;
}

/* ---- all of it ---- */

/* Sums of something with a parameter, which is 64 bits wide. */
static void find_pointers(struct eager *e)
{
    const struct exec_values *v = e->v;
    for (uint32_t i = 0; i < v->f->instruction_count; i++) {
        const struct ptx_instruction *in = &v->f->instructions[i];
        bool one = !v->left_out[i] && v->write_at[i + 1] - v->write_at[i] == 1 && (is(in, "add") || is(in, "mad"));
        if (!one || v->cost[v->writes[v->write_at[i]]] != 2 || has(in, "f"))
            continue;
        for (uint32_t k = 1; k < in->operand_count; k++) {
            const struct ptx_operand *o = &in->operands[k];
            e->pointer[i] |=
                o->kind == PTX_OP_REGISTER && !v->cost[o->reg] && ptx_type_size(v->f->registers[o->reg].type) == 8;
        }
    }
}

static bool falls_into_the_next(const struct exec_values *v, const uint32_t *entries, uint32_t b)
{
    return b + 1 < v->flow.blocks && exec_flow_falls(&v->flow, b) && entries[b + 1] == 1;
}

unsigned exec_pressure_eager(const struct exec_values *v, unsigned enough, unsigned *loops)
{
    size_t n = v->f->register_count + 1u;
    struct eager e = { .v = v };
    uint32_t *entries = calloc(v->flow.blocks + 1u, sizeof *entries), placed = 0;
    unsigned most = 0;
    *loops = 0;
    e.pointer = calloc(v->f->instruction_count + 1u, sizeof *e.pointer);
    e.writer = malloc(n * sizeof *e.writer);
    e.readers = malloc(n * sizeof *e.readers);
    e.uses_left = calloc(n, sizeof *e.uses_left);
    e.alive = calloc(n, sizeof *e.alive);
    bool done = entries && e.pointer && e.writer && e.readers && e.uses_left && e.alive;
    for (size_t r = 0; done && r < n; r++)
        e.writer[r] = e.readers[r] = PRESSURE_NONE;
    for (uint32_t b = 0; done && b < v->flow.blocks; b++)
        for (uint32_t k = v->flow.next_at[b]; k < v->flow.next_at[b + 1]; k++)
            entries[v->flow.next[k]]++;
    if (done)
        find_pointers(&e);
    for (uint32_t b = 0, end; done && !e.failed && b < v->flow.blocks && most < enough && placed < ALL_MOST; b = end) {
        for (end = b + 1; falls_into_the_next(v, entries, end - 1);)
            end++;
        unsigned here = pressure_of(&e, b, end, enough);
        most = here > most ? here : most;
        placed += e.count;
        if (is_such_loop(v, b)) { /* it has two entries, so it begins a run */
            here = rounds_at_a_time(&e, b);
            *loops = here > *loops ? here : *loops;
        }
    }
    free(entries);
    free(e.pointer);
    free(e.writer);
    free(e.readers);
    free(e.uses_left);
    free(e.alive);
    free(e.edges);
    return most < enough ? most : enough;
}
