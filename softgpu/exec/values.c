/*
 * values.c: which registers of PTX a GPU has registers for, which instructions use them, and where they are alive. See
 * pressure.h.
 *
 * PTX is nearly in static single assignment form: what is left out must be assigned once. A copy, an address with
 * another offset, and an index that was made 64 bits wide have the register that they are made of: the GPU's load adds
 * the offset, and its multiplication makes the index wide when it makes the address.
 */
#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/pressure.h"

enum { SETS_MOST = 8 << 20 }; /* words of a set of all blocks: 64 MiB */

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

static bool is_one_of(const struct ptx_instruction *in, const char *const *opcodes)
{
    for (; *opcodes; opcodes++)
        if (is(in, *opcodes))
            return true;
    return false;
}

static bool has(const struct ptx_instruction *in, const char *modifier)
{
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (!strcmp(in->modifiers[i], modifier))
            return true;
    return false;
}

static bool has_type(const struct ptx_instruction *in, const char *begin)
{
    for (uint32_t i = 0; i < in->modifier_count; i++)
        if (!strncmp(in->modifiers[i], begin, strlen(begin)))
            return true;
    return false;
}

bool exec_values_loads(const struct ptx_instruction *in)
{
    static const char *const loads[] = { "ld", "ldu", "ldmatrix", "tex", "tld4", NULL };
    return is_one_of(in, loads) && !has(in, "param") && !has(in, "volatile");
}

/* Found by calibration: what a kernel that does nothing else has more than one with a multiplication in that place. */
unsigned exec_values_scratch(const struct ptx_instruction *in)
{
    enum { DOUBLE = 16, DOUBLE_ROOT = 12, SINGLE = 7, SINGLE_ROOT = 4, WIDE = 9, INTEGER = 4, TEXTURE = 3 };
    static const char *const divisions[] = { "div", "rem", NULL }, *const roots[] = { "sqrt", "rcp", "rsqrt", NULL };
    if (is_one_of(in, divisions))
        return has(in, "f64")                     ? DOUBLE
               : has(in, "f32")                   ? has(in, "rn") ? SINGLE : 0
               : has(in, "s64") || has(in, "u64") ? WIDE
                                                  : INTEGER;
    if (is(in, "tex") || is(in, "tld4"))
        return TEXTURE; /* coordinates and texels are neighbours */
    if (is_one_of(in, roots))
        return has(in, "f64") ? DOUBLE_ROOT : has(in, "rn") ? SINGLE_ROOT : 0;
    return 0;
}

/* ---- what an instruction reads and writes ---- */

/* Has it no result, or is operand 0 none? An address in the place of a result counts as read in any case. */
static bool lacks_result(const struct ptx_instruction *in)
{
    static const char *const opcodes[] = { "st",       "red",           "membar",       "fence",      "bra",
                                           "brx",      "ret",           "exit",         "trap",       "cp",
                                           "prefetch", "prefetchu",     "discard",      "nanosleep",  "sust",
                                           "sured",    "brkpt",         "stmatrix",     "setmaxnreg", "griddepcontrol",
                                           "pmevent",  "applypriority", "stackrestore", NULL };
    if (is(in, "bar") || is(in, "barrier"))
        return !has(in, "red");
    if (is(in, "multimem"))
        return !has(in, "ld_reduce");
    return is_one_of(in, opcodes) || (is(in, "wmma") && has(in, "store"));
}

struct visit {
    const struct exec_values *v;
    bool writes;           /* wanted: what is written, or what is read */
    uint32_t *list, count; /* NULL: they are only counted */
    void (*each)(struct visit *, uint32_t reg);
    void *context;
};

static void visit_operand(struct visit *v, const struct ptx_operand *o, bool result)
{
    if ((o->kind == PTX_OP_REGISTER && result == v->writes) ||
        (o->kind == PTX_OP_MEMORY && o->has_register && !v->writes))
        v->each(v, o->reg);
    for (uint32_t i = 0; i < o->element_count; i++)
        visit_operand(v, &o->elements[i], result && (o->kind == PTX_OP_VECTOR || o->kind == PTX_OP_LIST));
    if (o->second)
        visit_operand(v, o->second, result);
}

/* A result that may stay away (a guard), and one that is added to, are read, too. */
static void visit_instruction(struct visit *v, const struct ptx_instruction *in)
{
    bool adds = is(in, "wgmma"), result = adds || !lacks_result(in);
    if (in->guard >= 0 && !v->writes)
        v->each(v, (uint32_t)in->guard);
    if (is(in, "call"))
        result = in->operand_count > 1 && in->operands[0].kind == PTX_OP_LIST;
    for (uint32_t i = result ? 1 : 0; i < in->operand_count; i++)
        visit_operand(v, &in->operands[i], false);
    if (!result || !in->operand_count)
        return;
    visit_operand(v, &in->operands[0], true);
    if (!v->writes && (adds || in->guard >= 0))
        visit_operand(v, &in->operands[0], false);
}

/* ---- what is left out ---- */

static unsigned cost_of(enum ptx_type type)
{
    return type == PTX_PRED ? 0 : ptx_type_size(type) > 8 ? 4 : ptx_type_size(type) > 4 ? 2 : 1;
}

static uint32_t same_as(const struct exec_values *v, uint32_t reg)
{
    while (v->same[reg] != reg)
        reg = v->same[reg] = v->same[v->same[reg]];
    return reg;
}

struct facts {
    struct exec_values *v;
    uint32_t *assigned; /* per register: how often */
    bool *free;         /* per register: a constant, or the same for all threads */
};

static bool is_literal(const struct ptx_operand *o)
{
    return o->kind == PTX_OP_INTEGER || o->kind == PTX_OP_FLOAT || o->kind == PTX_OP_VARIABLE ||
           o->kind == PTX_OP_FUNCTION || o->kind == PTX_OP_LABEL || o->kind == PTX_OP_SINK;
}

/* Special registers that are the same for all threads of a block. */
static bool is_shared_special(const struct ptx_operand *o)
{
    static const char *const names[] = { "ntid", "nctaid", "ctaid", "cluster", "warpsize", "WARP_SZ", NULL };
    for (const char *const *name = names; o->kind == PTX_OP_SPECIAL && o->text && *name; name++)
        if (!strncmp(o->text, *name, strlen(*name)))
            return true;
    return false;
}

static bool is_free(const struct facts *k, const struct ptx_operand *o)
{
    if (o->kind == PTX_OP_REGISTER || (o->kind == PTX_OP_MEMORY && o->has_register))
        return k->free[same_as(k->v, o->reg)];
    return is_literal(o) || is_shared_special(o) || o->kind == PTX_OP_MEMORY;
}

/* What a GPU computes once for all threads of a warp: integers. */
static bool is_uniform_kind(const struct ptx_instruction *in)
{
    static const char *const opcodes[] = { "mov", "add",  "sub", "mul", "mad",  "shl",  "shr", "and",  "or",
                                           "xor", "not",  "neg", "min", "max",  "selp", "cvt", "cvta", "bfe",
                                           "bfi", "lop3", "shf", "abs", "prmt", "popc", "clz", "setp", NULL };
    if (is(in, "ld"))
        return has(in, "param") || has(in, "const");
    return is_one_of(in, opcodes) && !has_type(in, "f16") && !has_type(in, "f32") && !has_type(in, "f64") &&
           !has_type(in, "bf16");
}

static bool is_wide(const struct exec_values *v, uint32_t reg) { return cost_of(v->f->registers[reg].type) == 2; }

/* The register that the result can be made from in the instruction that uses it; PRESSURE_NONE: there is none. */
static uint32_t stands_for(const struct facts *k, const struct ptx_instruction *in, uint32_t result)
{
    const struct ptx_operand *from = &in->operands[1];
    if (in->operand_count < 2 || from->kind != PTX_OP_REGISTER || from->component >= 0)
        return PRESSURE_NONE;
    uint32_t source = same_as(k->v, from->reg);
    if (k->assigned[source] > 1 || source == result)
        return PRESSURE_NONE;
    bool by_constant = in->operand_count > 2 && is_literal(&in->operands[2]);
    bool wide = is_wide(k->v, result), narrow = k->v->cost[source] == 1;
    if (is(in, "mov") || is(in, "cvta"))
        return cost_of(k->v->f->registers[source].type) == cost_of(k->v->f->registers[result].type) ? source
                                                                                                    : PRESSURE_NONE;
    if (!wide || has_type(in, "f"))
        return PRESSURE_NONE;
    if (is(in, "add") && by_constant && in->operands[2].kind == PTX_OP_INTEGER && k->v->cost[source] == 2)
        return source; /* an offset */
    bool widens = (is(in, "mul") && has(in, "wide") && by_constant) || is(in, "cvt");
    bool scales = is(in, "shl") && by_constant && source != from->reg; /* what has been made wide */
    return narrow && (widens || scales) ? source : PRESSURE_NONE;
}

static bool widens_a_number(const struct facts *k, const struct ptx_instruction *in, uint32_t result)
{
    const struct ptx_operand *from = &in->operands[1];
    return is(in, "cvt") && in->operand_count > 1 && is_wide(k->v, result) && !has_type(in, "f") &&
           from->kind == PTX_OP_REGISTER && cost_of(k->v->f->registers[from->reg].type) == 1;
}

static void join(struct exec_values *v, const struct ptx_instruction *in, uint32_t result, uint32_t source)
{
    uint64_t offset = (uint64_t)v->offset[in->operands[1].reg];
    if (is(in, "add") && in->operand_count > 2)
        offset += (uint64_t)in->operands[2].integer;
    v->same[result] = source;
    v->offset[result] = (int64_t)offset;
}

static bool leave_out(struct facts *k, const struct ptx_instruction *in, uint32_t result)
{
    bool all = true;
    for (uint32_t i = 1; i < in->operand_count; i++)
        all &= is_free(k, &in->operands[i]);
    bool constant = (is(in, "ld") && has(in, "param")) || (is(in, "mov") && all);
    if (constant || (all && is_uniform_kind(in) && k->v->cost[result])) {
        k->free[result] = true;
        return true;
    }
    uint32_t source = stands_for(k, in, result);
    if (source == PRESSURE_NONE) {
        if (widens_a_number(k, in, result))
            k->v->cost[result] = 1; /* its upper half is known, or a copy of the sign */
        return false;
    }
    if (k->free[source])
        k->free[result] = true;
    else
        join(k->v, in, result, source);
    return true;
}

static void count_assignment(struct visit *v, uint32_t reg) { ((uint32_t *)v->context)[reg]++; }

/* Twice, since a loop's values may be made of such that stand behind it. */
static void find_left_out(struct facts *k)
{
    struct exec_values *v = k->v;
    struct visit count = { .v = v, .writes = true, .each = count_assignment, .context = k->assigned };
    for (uint32_t i = 0; i < v->f->instruction_count; i++)
        visit_instruction(&count, &v->f->instructions[i]);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < v->f->instruction_count; i++) {
            const struct ptx_instruction *in = &v->f->instructions[i];
            bool one = in->operand_count && in->operands[0].kind == PTX_OP_REGISTER && in->guard < 0 &&
                       !lacks_result(in) && !is(in, "call") && !is(in, "wgmma");
            if (one && !v->left_out[i] && k->assigned[in->operands[0].reg] == 1)
                v->left_out[i] = leave_out(k, in, in->operands[0].reg);
        }
    for (uint32_t r = 0; r < v->f->register_count; r++)
        if (k->free[r])
            v->cost[r] = 0;
}

/* ---- lists of reads and writes ---- */

static void add_to_list(struct visit *v, uint32_t reg)
{
    uint32_t r = same_as(v->v, reg);
    if (!v->v->cost[r] && v->v->f->registers[r].type != PTX_PRED)
        return;
    uint32_t begin = *(uint32_t *)v->context;
    for (uint32_t i = begin; v->list && i < v->count; i++)
        if (v->list[i] == r)
            return;
    if (v->list)
        v->list[v->count] = r;
    v->count++;
}

/* Counts, or fills, the list; at[]: where each instruction's part begins. */
static void make_list(struct exec_values *v, bool writes, uint32_t *list, uint32_t *at)
{
    uint32_t begin = 0;
    struct visit visit = { .v = v, .writes = writes, .list = list, .each = add_to_list, .context = &begin };
    for (uint32_t i = 0; i < v->f->instruction_count; i++) {
        at[i] = begin = visit.count;
        if (!v->left_out[i])
            visit_instruction(&visit, &v->f->instructions[i]);
    }
    at[v->f->instruction_count] = visit.count;
}

static bool make_lists(struct exec_values *v)
{
    size_t n = v->f->instruction_count + 1u;
    v->read_at = calloc(n, sizeof *v->read_at);
    v->write_at = calloc(n, sizeof *v->write_at);
    if (!v->read_at || !v->write_at)
        return false;
    make_list(v, false, NULL, v->read_at);
    make_list(v, true, NULL, v->write_at);
    v->reads = calloc(v->read_at[n - 1] + 1u, sizeof *v->reads);
    v->writes = calloc(v->write_at[n - 1] + 1u, sizeof *v->writes);
    if (!v->reads || !v->writes)
        return false;
    make_list(v, false, v->reads, v->read_at);
    make_list(v, true, v->writes, v->write_at);
    return true;
}

/* ---- where they are alive ---- */

/* Those that some block reads before it writes them. */
static bool find_crossing(struct exec_values *v)
{
    uint32_t *written = calloc(v->f->register_count + 1u, sizeof *written); /* the last block that did, and 1 */
    v->crossing = calloc(v->f->register_count + 1u, sizeof *v->crossing);
    v->crossing_of = malloc((v->f->register_count + 1u) * sizeof *v->crossing_of);
    if (!written || !v->crossing || !v->crossing_of) {
        free(written);
        return false;
    }
    for (uint32_t r = 0; r <= v->f->register_count; r++)
        v->crossing_of[r] = PRESSURE_NONE;
    for (uint32_t b = 0; b < v->flow.blocks; b++)
        for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1]; i++) {
            for (uint32_t k = v->read_at[i]; k < v->read_at[i + 1]; k++)
                if (written[v->reads[k]] != b + 1 && v->crossing_of[v->reads[k]] == PRESSURE_NONE) {
                    v->crossing_of[v->reads[k]] = v->crossing_count;
                    v->crossing[v->crossing_count++] = v->reads[k];
                }
            for (uint32_t k = v->write_at[i]; k < v->write_at[i + 1]; k++)
                written[v->writes[k]] = b + 1;
        }
    free(written);
    return true;
}

static void scan_block(const struct exec_values *v, uint32_t b, uint64_t *use, uint64_t *kill)
{
    for (uint32_t i = v->flow.first[b]; i < v->flow.first[b + 1]; i++) {
        for (uint32_t k = v->read_at[i]; k < v->read_at[i + 1]; k++) {
            uint32_t c = v->crossing_of[v->reads[k]];
            if (c != PRESSURE_NONE && !(kill[c / 64] >> (c % 64) & 1))
                use[c / 64] |= UINT64_C(1) << (c % 64);
        }
        for (uint32_t k = v->write_at[i]; k < v->write_at[i + 1]; k++) {
            uint32_t c = v->crossing_of[v->writes[k]];
            if (c != PRESSURE_NONE)
                kill[c / 64] |= UINT64_C(1) << (c % 64);
        }
    }
}

static void solve(struct exec_values *v, const uint64_t *use, const uint64_t *kill)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = v->flow.blocks; b-- > 0;) {
            size_t at = (size_t)b * v->words;
            for (uint32_t e = v->flow.next_at[b]; e < v->flow.next_at[b + 1]; e++)
                for (uint32_t k = 0; k < v->words; k++)
                    v->out[at + k] |= v->in[(size_t)v->flow.next[e] * v->words + k];
            for (uint32_t k = 0; k < v->words; k++) {
                uint64_t in = use[at + k] | (v->out[at + k] & ~kill[at + k]);
                changed |= in != v->in[at + k];
                v->in[at + k] = in;
            }
        }
    }
}

static bool find_alive(struct exec_values *v)
{
    if (!find_crossing(v))
        return false;
    v->words = v->crossing_count / 64 + 1;
    size_t size = (size_t)v->flow.blocks * v->words;
    if (size > SETS_MOST)
        return false;
    uint64_t *use = calloc(size, sizeof *use), *kill = calloc(size, sizeof *kill);
    v->in = calloc(size, sizeof *v->in);
    v->out = calloc(size, sizeof *v->out);
    bool done = use && kill && v->in && v->out;
    if (done) {
        for (uint32_t b = 0; b < v->flow.blocks; b++)
            scan_block(v, b, use + (size_t)b * v->words, kill + (size_t)b * v->words);
        solve(v, use, kill);
    }
    free(use);
    free(kill);
    return done;
}

bool exec_values_build(struct exec_values *v, const struct ptx_function *f, bool plain)
{
    *v = (struct exec_values){ .f = f };
    bool done = exec_flow_build(&v->flow, f);
    size_t n = f->register_count + 1u;
    struct facts k = { .v = v, .assigned = calloc(n, sizeof *k.assigned), .free = calloc(n, sizeof *k.free) };
    v->cost = calloc(n, sizeof *v->cost);
    v->same = calloc(n, sizeof *v->same);
    v->offset = calloc(n, sizeof *v->offset);
    v->left_out = calloc(f->instruction_count + 1u, sizeof *v->left_out);
    done = done && k.assigned && k.free && v->cost && v->same && v->offset && v->left_out;
    for (uint32_t r = 0; done && r < f->register_count; r++) {
        unsigned vector = f->registers[r].vector > 1 ? f->registers[r].vector : 1;
        v->cost[r] = (uint8_t)(cost_of(f->registers[r].type) * vector);
        v->same[r] = r;
    }
    if (done && !plain)
        find_left_out(&k);
    free(k.assigned);
    free(k.free);
    return done && make_lists(v) && find_alive(v);
}

void exec_values_free(struct exec_values *v)
{
    exec_flow_free(&v->flow);
    free(v->cost);
    free(v->same);
    free(v->left_out);
    free(v->offset);
    free(v->reads);
    free(v->read_at);
    free(v->writes);
    free(v->write_at);
    free(v->crossing);
    free(v->crossing_of);
    free(v->in);
    free(v->out);
}
