/* decode.c: a function of PTX into instructions: the frame's layout, the walk over the blocks in the order that order.c
   gives them, labels. See decode.h. It stands above the op_*.c files. */
#include "softgpu/check.h"
#include "softgpu/exec/decode.h"
#include "softgpu/exec/flow.h"
#include "softgpu/exec/jit.h"
#include "softgpu/exec/registers.h"
#include "softgpu/exec/straight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t align_up(uint32_t value, uint32_t align) { return (value + align - 1) / align * align; }

static uint32_t cell_bytes(enum ptx_type t)
{
    return decode_cell(t) == SG_CELL_128 ? 16 : decode_cell(t) == SG_CELL_64 ? 8 : 4;
}

static bool has_register_parameters(const struct ptx_function *f)
{
    const struct ptx_prototype *p = &f->signature;
    bool has = false;
    for (uint32_t k = 0; k < p->param_count; k++)
        has |= p->params[k].space == PTX_SPACE_REG;
    for (uint32_t k = 0; k < p->return_count; k++)
        has |= p->returns[k].space == PTX_SPACE_REG;
    return has;
}

/* Predicates first, then the rows, largest cells first. */
static int layout_registers(struct exec_decoder *d, const struct exec_flow *flow)
{
    const struct ptx_function *f = d->f;
    uint32_t predicates = EXEC_PRED_FIRST, rows[3];
    /* Parameters in registers live at once from the beginning, and results until the end: each keeps a row. */
    if (has_register_parameters(f) || !exec_registers_place(flow, d->register_at, rows)) {
        memset(rows, 0, sizeof rows);
        for (uint32_t i = 0; i < f->register_count; i++) {
            uint32_t pool = cell_bytes(f->registers[i].type) / 8;
            d->register_at[i] = rows[pool];
            rows[pool] += f->registers[i].vector ? f->registers[i].vector : 1;
        }
    }
    for (uint32_t i = 0; i < f->register_count; i++)
        if (f->registers[i].type == PTX_PRED) {
            d->register_at[i] = predicates;
            predicates += 4;
        }
    uint64_t base[3], top = align_up(predicates, 64);
    for (int pool = 2; pool >= 0; pool--) {
        base[pool] = top;
        top += (uint64_t)rows[pool] * SG_LANES * (4u << pool);
    }
    if (top > (1u << 30))
        return decode_error(d, "too many registers");
    for (uint32_t i = 0; i < f->register_count; i++)
        if (f->registers[i].type != PTX_PRED) {
            uint32_t cell = cell_bytes(f->registers[i].type);
            d->register_at[i] = (uint32_t)base[cell / 8] + d->register_at[i] * cell * SG_LANES;
        }
    d->temp_base = (uint32_t)top;
    d->out->registers = rows[0] + 2 * rows[1] + 4 * rows[2] + 8;
    return 0;
}

static int layout_locals(struct exec_decoder *d)
{
    const struct ptx_function *f = d->f;
    struct exec_function *o = d->out;
    o->variable_offset = calloc(f->variable_count + 1u, sizeof *o->variable_offset);
    o->param_offset = calloc(f->signature.param_count + 1u, sizeof *o->param_offset);
    o->return_offset = calloc(f->signature.return_count + 1u, sizeof *o->return_offset);
    if (!o->variable_offset || !o->param_offset || !o->return_offset)
        return decode_error(d, "no host memory");
    struct exec_locals l = { .variables = o->variable_offset, .params = o->param_offset, .returns = o->return_offset };
    const char *why = exec_locals_place(f, &l);
    if (why)
        return decode_error(d, "%s", why);
    o->stack_size = l.stack;
    o->local_size = l.size;
    return 0;
}

/* Does it write to shared memory, or may it? */
static bool is_store(const struct exec_decoder *d)
{
    static const char *const opcodes[] = { "st", "atom", "red", "cp", "stmatrix" };
    enum ptx_space space = decode_space(d, NULL);
    for (size_t k = 0; k < sizeof opcodes / sizeof *opcodes; k++)
        if (!strcmp(d->in->opcode, opcodes[k]))
            return space == PTX_SPACE_SHARED || space == PTX_SPACE_GENERIC;
    return false;
}

/* The instruction cannot be executed. true: this is a survey, and decoding goes on behind it. */
static bool surveyed(struct exec_decoder *d)
{
    const sg_program *p = d->kernel->program;
    if (!p->unknown)
        return false;
    p->unknown(p->unknown_context, d->f, d->in, d->log);
    d->log[0] = 0;
    d->failed = false;
    return true;
}

static int decode_region(struct exec_decoder *d, uint8_t kind)
{
    struct exec_region *r = exec_kernel_own(d->kernel, sizeof *r);
    if (!r)
        return decode_error(d, "no host memory");
    r->next = d->kernel->regions;
    d->kernel->regions = r;
    return decode_put(d, (struct exec_insn){ .run = exec_run_region, .extra = r, .kind = kind });
}

/* Before a store, a warp may have to halt, and goes on behind that. */
static int decode_halt(struct exec_decoder *d)
{
    return decode_put(d, (struct exec_insn){ .run = exec_run_halt }) ||
                   (d->regions && decode_region(d, EXEC_REGION_INSIDE))
               ? -1
               : 0;
}

static int decode_instruction(struct exec_decoder *d)
{
    d->temp_next = 0;
    if (d->kernel->has_barriers && is_store(d) && decode_halt(d))
        return -1;
    decode_function *decode = decode_find(d->in->opcode);
    if (sg_check && decode_check_before(d))
        return -1;
    if ((decode ? decode : decode_arithmetic)(d) && !surveyed(d))
        return -1;
    return sg_check ? decode_check_after(d) : 0;
}

static bool branches_to(const struct exec_decoder *d, const struct exec_flow *g, uint32_t block)
{
    const struct ptx_instruction *in = d->in;
    return !strcmp(in->opcode, "bra") && in->operand_count == 1 && in->operands[0].kind == PTX_OP_LABEL &&
           g->block_of[in->operands[0].index] == block;
}

/* After the last instruction of a block that falls into another one than `next`. A branch to `next` under a guard
   becomes one to the other, under the opposite guard. */
static int decode_fall(struct exec_decoder *d, const struct exec_flow *g, uint32_t b, uint32_t next)
{
    struct exec_insn *last = d->count ? &d->insns[d->count - 1] : NULL;
    if (last && last->flags & EXEC_LABEL && d->in->guard >= 0 && branches_to(d, g, next)) {
        last->d = g->first[b + 1];
        last->guard_flip = ~last->guard_flip;
        return 0;
    }
    return decode_jump(d, g->first[b + 1]);
}

/* Does the interpreter come back from elsewhere behind the instruction? */
static bool returns_behind(const struct ptx_instruction *in)
{
    return !strcmp(in->opcode, "bar") || !strcmp(in->opcode, "barrier") || !strcmp(in->opcode, "call");
}

/* `next`: the block that is laid out behind it. head: it is one of a region. */
static int decode_block(struct exec_decoder *d, const struct exec_flow *g, uint32_t b, uint32_t next, bool head)
{
    uint32_t end = g->first[b + 1];
    d->in = NULL;
    for (d->at = g->first[b]; d->at < end; d->at++) {
        d->in = &d->f->instructions[d->at];
        d->first_insn[d->at] = d->count;
        if (d->regions && (d->at == g->first[b] ? head : returns_behind(d->in - 1)) &&
            decode_region(d, EXEC_REGION_HEAD))
            return -1;
        bool needless = d->at + 1 == end && d->in->guard < 0 && branches_to(d, g, next);
        if (!needless && decode_instruction(d))
            return -1;
    }
    if (b + 1 < g->blocks)
        return exec_flow_falls(g, b) && next != b + 1 ? decode_fall(d, g, b, next) : 0;
    d->first_insn[end] = d->count;
    /* a body may end without one */
    return decode_give_registers(d)
               ? -1
               : decode_put(d, (struct exec_insn){ .run = exec_run_return, .known = EXEC_STRAIGHT_END });
}

/* Instructions of a region: the most, if there is a place to cut it; the least where it is cut, and where it leads to
   the end. */
enum { REGION_LONG = 512, REGION_ENOUGH = 256, REGION_LEAST = 4 };

/* Per place in the order, whether it lies in a loop: between the block that a branch backward leads to and the
   branch. */
static void find_loops(const struct exec_flow *g, const uint32_t *order, const uint32_t *place, bool *in_loop)
{
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = g->blocks; i-- > 0;) {
        for (uint32_t k = g->next_at[order[i]]; k < g->next_at[order[i] + 1]; k++)
            if (place[g->next[k]] <= i && place[g->next[k]] < lowest)
                lowest = place[g->next[k]];
        in_loop[i] = lowest <= i;
    }
}

static bool is_short_end(const struct exec_flow *g, uint32_t b)
{
    return exec_flow_leaves(g, b) && g->first[b + 1] - g->first[b] < REGION_LEAST;
}

/* Blocks where the code comes in from a loop or an instruction that has ended a region. */
static void find_heads(const struct exec_flow *g, const uint32_t *place, const bool *in_loop, bool *heads)
{
    heads[0] = true;
    for (uint32_t b = 0; b < g->blocks; b++) {
        const uint32_t end = g->first[b + 1];
        const bool ended = end > g->first[b] && returns_behind(&g->f->instructions[end - 1]);
        for (uint32_t k = g->next_at[b]; k < g->next_at[b + 1]; k++) {
            const uint32_t next = g->next[k], to = place[next];
            const bool left = in_loop[place[b]] && !in_loop[to] && !is_short_end(g, next);
            heads[next] |= ended || to <= place[b] || left;
        }
    }
}

/* Per place in the order, how many branches may lead lanes past its block. */
static void count_ways_past(const struct exec_flow *g, const uint32_t *order, const uint32_t *place, uint32_t *past)
{
    for (uint32_t i = 0; i < g->blocks; i++)
        for (uint32_t k = g->next_at[order[i]]; k < g->next_at[order[i] + 1]; k++)
            if (place[g->next[k]] > i + 1) {
                past[i + 1]++;
                past[place[g->next[k]]]--;
            }
    for (uint32_t i = 1; i < g->blocks; i++)
        past[i] += past[i - 1];
}

/* A compiler takes only so much code at once. So long code is cut, where the fewest branches lead past. The count
   begins anew at each head outside of loops. */
static void cut(const struct exec_flow *g, const uint32_t *order, const bool *in_loop, const uint32_t *past,
                bool *heads)
{
    uint32_t since = 0, best = 0;
    for (uint32_t i = 0; i < g->blocks; i++) {
        const uint32_t b = order[i];
        if (heads[b] && !in_loop[i])
            since = best = 0;
        if (since >= REGION_ENOUGH && (!best || past[i] < past[best]) && !is_short_end(g, b))
            best = i;
        since += g->first[b + 1] - g->first[b];
        if (since < REGION_LONG || !best)
            continue;
        i = best;
        heads[order[i]] = true;
        since = g->first[order[i] + 1] - g->first[order[i]];
        best = 0;
    }
}

/* Per block, whether a region begins with it: at the beginning, in front of loops and behind them, behind barriers and
   calls, and in the midst of long code. NULL: no host memory. */
static bool *region_heads(const struct exec_flow *g, const uint32_t *order)
{
    bool *heads = calloc(g->blocks, sizeof *heads), *in_loop = calloc(g->blocks, sizeof *in_loop);
    uint32_t *place = calloc(g->blocks, sizeof *place), *past = calloc(g->blocks, sizeof *past);
    if (heads && in_loop && place && past) {
        for (uint32_t i = 0; i < g->blocks; i++)
            place[order[i]] = i;
        find_loops(g, order, place, in_loop);
        find_heads(g, place, in_loop, heads);
        count_ways_past(g, order, place, past);
        cut(g, order, in_loop, past, heads);
    } else {
        free(heads);
        heads = NULL;
    }
    free(in_loop);
    free(past);
    free(place);
    return heads;
}

static int decode_body(struct exec_decoder *d, const struct exec_flow *g)
{
    uint32_t *order = exec_order(g);
    bool *heads = order ? region_heads(g, order) : NULL;
    int result = heads ? decode_take_registers(d) : decode_error(d, "no host memory");
    if (heads && !result && order[0])
        result = decode_jump(d, 0);
    for (uint32_t i = 0; !result && i < g->blocks; i++)
        result = decode_block(d, g, order[i], i + 1 < g->blocks ? order[i + 1] : UINT32_MAX, heads[order[i]]);
    free(heads);
    free(order);
    return result;
}

/* The table is the insn's own. */
static void resolve_table(const struct exec_decoder *d, const void *extra)
{
    struct exec_targets *t = (struct exec_targets *)(uintptr_t)extra;
    for (uint32_t k = 0; k < t->count; k++)
        t->at[k] = d->first_insn[t->at[k]];
}

static void resolve_labels(struct exec_decoder *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->insns[i].known == EXEC_STRAIGHT_TABLE)
            resolve_table(d, d->insns[i].extra);
        if (d->insns[i].flags & EXEC_LABEL) {
            uint32_t to = d->first_insn[d->insns[i].d];
            d->insns[i].target = d->insns + to;
            d->insns[i].cost = to <= i ? i - to + 1 : 0;
        }
    }
}

struct exec_function *exec_decode(sg_kernel *k, uint32_t index, char *log, size_t log_size)
{
    struct ptx_module *m = k->program->module;
    const struct ptx_function *f = &m->functions[index];
    if (ptx_function_read(m, index, log, log_size))
        return NULL;
    struct exec_decoder d = { .kernel = k, .module = m, .f = f, .index = index, .log = log, .log_size = log_size };
    struct exec_flow flow;
    bool flows = exec_flow_build(&flow, f);
    d.out = calloc(1, sizeof *d.out);
    d.register_at = calloc(f->register_count + 1u, sizeof *d.register_at);
    d.first_insn = calloc(f->instruction_count + 1u, sizeof *d.first_insn);
    if (!flows || !d.out || !d.register_at || !d.first_insn) {
        snprintf(log, log_size, "%s: no host memory", f->name);
        goto fail;
    }
    d.out->ptx = f;
    d.regions = !k->program->plain && !sg_check && exec_jit_on();
    if (layout_registers(&d, &flow) || layout_locals(&d) || decode_body(&d, &flow))
        goto fail;
    resolve_labels(&d);
    if (!k->program->plain)
        exec_straighten(d.insns, d.count);
    d.out->insns = d.insns;
    d.out->insn_count = d.count;
    d.out->rows_size = d.temp_base + d.temp_most * 16 * SG_LANES;
    free(d.register_at);
    free(d.first_insn);
    exec_flow_free(&flow);
    return d.out;
fail:
    exec_flow_free(&flow);
    free(d.register_at);
    free(d.first_insn);
    free(d.insns);
    if (d.out)
        exec_function_free(d.out);
    return NULL;
}

void exec_function_free(struct exec_function *f)
{
    if (!f)
        return;
    free(f->insns);
    free(f->variable_offset);
    free(f->param_offset);
    free(f->return_offset);
    free(f);
}
