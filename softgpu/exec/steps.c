/* steps.c: the steps of a run of instructions, and what waits for what. See steps.h. */
#include "softgpu/exec/steps.h"

#include <stdlib.h>
#include <string.h>

/* RUN_MOST: instructions of a run that are ordered. More would say nothing new: such code asks for more registers than
   ptxas gives anyway. REMEMBERED: loads and stores that a later one is compared with. */
enum { RUN_MOST = 1500, CROSSING_MOST = 1024, SPACES = 3, ALL_SPACES = 7, REMEMBERED = 256 };

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

bool exec_steps_has(const struct ptx_instruction *in, const char *begins)
{
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (!strncmp(in->modifiers[i], begins, strlen(begins)))
            return true;
    return false;
}

bool exec_steps_is(const struct ptx_instruction *in, const char *const *opcodes)
{
    for (; *opcodes; opcodes++)
        if (is(in, *opcodes))
            return true;
    return false;
}

bool exec_steps_leaves(const struct ptx_instruction *in)
{
    static const char *const opcodes[] = { "bra", "brx", "ret", "exit", "trap", NULL };
    return exec_steps_is(in, opcodes);
}

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
    if (e->steps[step].role == STEP_POINTER)
        return 30;
    if (is(in, "ld") || is(in, "ldu"))
        return exec_steps_has(in, "shared") ? 24 : exec_steps_has(in, "const") ? 10 : 200;
    if (exec_steps_is(in, slow))
        return 200;
    if (is(in, "shfl") || is(in, "ldmatrix"))
        return 20;
    if (exec_steps_is(in, functions))
        return 16;
    return exec_steps_has(in, "f64") && !is(in, "mov") ? 8 : 4;
}

static void add_edge(struct eager *e, uint32_t from, uint32_t to, unsigned steps)
{
    if (from == PRESSURE_NONE || from == to || e->failed)
        return;
    if (e->edge_count == e->edge_room) {
        uint32_t room = e->edge_room ? 2 * e->edge_room : 4096;
        struct exec_edge *more = realloc(e->edges, room * sizeof *more);
        if (!more) {
            e->failed = true;
            return;
        }
        e->edges = more;
        e->edge_room = room;
    }
    e->edges[e->edge_count] = (struct exec_edge){ to, e->steps[from].first_edge, steps };
    e->steps[from].first_edge = e->edge_count++;
    e->steps[to].waits_for++;
}

static void wait_for_registers(struct eager *e, uint32_t x)
{
    struct exec_step *s = &e->steps[x];
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

/* ---- memory ---- */

static uint8_t spaces_of(const struct ptx_instruction *in)
{
    if (exec_steps_has(in, "global"))
        return 1;
    return exec_steps_has(in, "shared") ? 2 : exec_steps_has(in, "local") ? 4 : ALL_SPACES;
}

static unsigned bytes_of(const struct ptx_instruction *in)
{
    unsigned size = 0, count = 1;
    for (uint32_t i = 0; i < in->modifier_count; i++) {
        const char *m = in->modifiers[i];
        if (m[0] == 'v' && m[1] >= '2' && m[1] <= '8' && !m[2])
            count = (unsigned)(m[1] - '0');
        else if (strchr("busf", m[0]) && m[1] >= '1' && m[1] <= '9')
            size = (unsigned)atoi(m + 1) / 8;
    }
    return size * count;
}

static struct step_place place_of(const struct exec_values *v, const struct ptx_instruction *in)
{
    struct step_place p = { .spaces = spaces_of(in) };
    unsigned size = is(in, "ld") || is(in, "st") ? bytes_of(in) : 0;
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const struct ptx_operand *o = &in->operands[k];
        if (!size || o->kind != PTX_OP_MEMORY || !o->has_register)
            continue;
        p.known = true;
        p.base = v->same[o->reg];
        p.from = (int64_t)((uint64_t)v->offset[o->reg] + (uint64_t)o->integer);
        p.to = (int64_t)((uint64_t)p.from + size);
    }
    return p;
}

/* Can they not touch the same bytes? In a loop, each round is taken to move on by more than it touches. */
static bool are_apart(const struct eager *e, uint32_t x, uint32_t y)
{
    const struct exec_step *a = &e->steps[x], *b = &e->steps[y];
    if (!(a->place.spaces & b->place.spaces))
        return true;
    if (!a->place.known || !b->place.known || a->place.base != b->place.base)
        return false;
    if (a->round != b->round)
        return e->kinds[a->place.base] == ROUND_STEPS || e->kinds[a->place.base] == ROUND_MADE_OF;
    return a->place.to <= b->place.from || b->place.to <= a->place.from;
}

struct remembered {
    uint32_t steps[REMEMBERED], count;
};

static void remember(struct remembered *r, uint32_t x)
{
    if (r->count == REMEMBERED) { /* the older half is forgotten */
        r->count = REMEMBERED / 2;
        memmove(r->steps, r->steps + REMEMBERED / 2, REMEMBERED / 2 * sizeof *r->steps);
    }
    r->steps[r->count++] = x;
}

/* ---- what keeps steps in order ---- */

/* The last steps that keep others in order. */
struct order {
    uint32_t last_store[SPACES], barrier, fence, side, branch;
    struct remembered loads, stores; /* since the last barrier; loads: without those that a store waits for */
};

static bool is_load(const struct ptx_instruction *in)
{
    return exec_values_loads(in) && !is(in, "tex") && !is(in, "tld4");
}

static void order_store(struct eager *e, struct order *o, uint32_t x)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < o->loads.count; k++)
        if (are_apart(e, o->loads.steps[k], x))
            o->loads.steps[kept++] = o->loads.steps[k];
        else
            add_edge(e, o->loads.steps[k], x, 1);
    o->loads.count = kept;
    for (int k = 0; k < SPACES; k++)
        if (e->steps[x].place.spaces >> k & 1) {
            add_edge(e, o->last_store[k], x, 1);
            o->last_store[k] = x;
        }
    remember(&o->stores, x);
    add_edge(e, o->barrier, x, 1);
}

/* Stores wait for each other, so the last one that may touch the same memory stands for those before it. */
static void order_load(struct eager *e, struct order *o, uint32_t x)
{
    const struct ptx_instruction *in = of(e, x);
    if (exec_steps_has(in, "nc") || exec_steps_has(in, "const"))
        return;
    for (uint32_t k = o->stores.count; k-- > 0;) {
        uint32_t store = o->stores.steps[k];
        if (are_apart(e, store, x))
            continue;
        add_edge(e, store, x, 1);
        if (e->steps[store].place.spaces == e->steps[x].place.spaces)
            break;
    }
    add_edge(e, o->barrier, x, 1);
    remember(&o->loads, x);
}

static void order_barrier(struct eager *e, struct order *o, uint32_t x)
{
    for (uint32_t k = 0; k < o->loads.count; k++)
        add_edge(e, o->loads.steps[k], x, 1);
    o->loads.count = o->stores.count = 0;
    for (int k = 0; k < SPACES; k++) {
        add_edge(e, o->last_store[k], x, 1);
        o->last_store[k] = x;
    }
    add_edge(e, o->barrier, x, 1);
    add_edge(e, o->side, x, 1);
    o->barrier = x;
}

/* Nothing passes a barrier of a block. */
static void order_fence(struct eager *e, struct order *o, uint32_t x)
{
    for (uint32_t k = o->fence == PRESSURE_NONE ? 0 : o->fence; k < x; k++)
        add_edge(e, k, x, 0);
    o->fence = x;
}

static void order_branch(struct eager *e, struct order *o, uint32_t x)
{
    if (x + 1 == e->count) {
        for (uint32_t k = 0; k < x; k++)
            add_edge(e, k, x, 0);
        return;
    }
    add_edge(e, o->side, x, 1);
    for (uint32_t k = 0; k < o->loads.count; k++)
        add_edge(e, o->loads.steps[k], x, 1);
    o->branch = x;
}

/* Is it something that others notice, so that it keeps its place among such steps? */
static bool order_side(struct eager *e, struct order *o, uint32_t x)
{
    static const char *const stores[] = { "st", "atom", "red", NULL };
    static const char *const of_warp[] = { "shfl", "vote", "activemask", "match", "redux", NULL };
    static const char *const barriers[] = { "ld",        "ldu",      "call", "bar",   "barrier",  "membar",
                                            "fence",     "cp",       "wmma", "wgmma", "stmatrix", "mbarrier",
                                            "nanosleep", "prefetch", "sust", "suld",  NULL };
    const struct ptx_instruction *in = of(e, x);
    if (exec_steps_is(in, stores)) {
        order_store(e, o, x);
    } else if (exec_steps_is(in, of_warp)) {
        add_edge(e, o->side, x, 1);
        add_edge(e, o->barrier, x, 1);
    } else if (exec_steps_is(in, barriers)) {
        order_barrier(e, o, x);
    } else {
        return false;
    }
    return true;
}

static void wait_in_order(struct eager *e, struct order *o, uint32_t x)
{
    const struct ptx_instruction *in = of(e, x);
    add_edge(e, o->branch, x, 1);
    add_edge(e, o->fence, x, 1);
    if (e->steps[x].role != STEP_WHOLE)
        return;
    if (is(in, "bar") || is(in, "barrier"))
        order_fence(e, o, x);
    if (is_load(in))
        order_load(e, o, x);
    else if (order_side(e, o, x))
        o->side = x;
    if (exec_steps_leaves(in))
        order_branch(e, o, x);
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

static void add_step(struct eager *e, uint32_t instruction, enum step_role role)
{
    const struct exec_values *v = e->v;
    struct exec_step *s = &e->steps[e->count++];
    *s = (struct exec_step){ .instruction = instruction,
                             .role = (uint8_t)role,
                             .round = (uint8_t)e->round,
                             .first_edge = PRESSURE_NONE,
                             .place = place_of(v, &v->f->instructions[instruction]) };
    s->reads = e->lists + e->list_used;
    if (role != STEP_POINTER) {
        s->read_count = v->read_at[instruction + 1] - v->read_at[instruction];
        memcpy(s->reads, v->reads + v->read_at[instruction], s->read_count * sizeof *s->reads);
        if (role == STEP_ADDRESS)
            s->reads[s->read_count++] = v->writes[v->write_at[instruction]];
        s->read_count += add_target(e, &v->f->instructions[instruction], s->reads + s->read_count);
    }
    s->writes = s->reads + s->read_count;
    s->write_count = v->write_at[instruction + 1] - v->write_at[instruction];
    memcpy(s->writes, v->writes + v->write_at[instruction], s->write_count * sizeof *s->writes);
    e->list_used += s->read_count + s->write_count;
    for (uint32_t k = 0; e->rounds > 1 && k < s->read_count + s->write_count; k++)
        if (e->kinds[s->reads[k]] == ROUND_OWN)
            s->reads[k] += e->round * e->registers; /* reads and writes are neighbours */
}

/* How many there will be, and how many registers in their lists: at most. */
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
    *steps *= e->rounds;
    *registers *= e->rounds;
}

static void add_steps(struct eager *e, uint32_t begin, uint32_t end)
{
    const struct exec_values *v = e->v;
    size_t made = 0;
    for (uint32_t b = begin; b < end; b++)
        for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1] && made < RUN_MOST; i++) {
            if (v->left_out[i])
                continue;
            made += e->pointer[i] ? 2 : 1;
            if (e->rounds > 1 && exec_rounds_skip(e, i))
                continue;
            if (e->pointer[i])
                add_step(e, i, STEP_POINTER);
            add_step(e, i, e->pointer[i] ? STEP_ADDRESS : STEP_WHOLE);
        }
}

static void forget_registers(struct eager *e)
{
    for (uint32_t x = 0; x < e->count; x++) {
        for (uint32_t k = 0; k < e->steps[x].read_count; k++)
            e->readers[e->steps[x].reads[k]] = PRESSURE_NONE;
        for (uint32_t k = 0; k < e->steps[x].write_count; k++)
            e->readers[e->steps[x].writes[k]] = e->writer[e->steps[x].writes[k]] = PRESSURE_NONE;
    }
}

bool exec_steps_make(struct eager *e, uint32_t begin, uint32_t end)
{
    size_t steps, registers;
    measure(e, begin, end, &steps, &registers);
    e->count = e->edge_count = e->list_used = e->use_count = e->ready_count = 0;
    e->steps = calloc(steps + 1, sizeof *e->steps);
    e->lists = calloc(registers + 1, sizeof *e->lists);
    e->uses = calloc(registers + 1, sizeof *e->uses);
    e->ready = calloc(steps + 1, sizeof *e->ready);
    if (!e->steps || !e->lists || !e->uses || !e->ready)
        return false;
    for (e->round = 0; e->round < e->rounds; e->round++)
        add_steps(e, begin, end);
    struct order o = { .last_store = { PRESSURE_NONE, PRESSURE_NONE, PRESSURE_NONE },
                       .barrier = PRESSURE_NONE,
                       .fence = PRESSURE_NONE,
                       .side = PRESSURE_NONE,
                       .branch = PRESSURE_NONE };
    for (uint32_t x = 0; x < e->count; x++) {
        wait_for_registers(e, x);
        wait_in_order(e, &o, x);
    }
    forget_registers(e);
    return !e->failed;
}

void exec_steps_free(struct eager *e)
{
    free(e->steps);
    free(e->lists);
    free(e->uses);
    free(e->ready);
    e->steps = NULL;
    e->lists = e->ready = NULL;
    e->uses = NULL;
}
