/*
 * registers.c: which row each register of a function gets.
 *
 * PTX names a new register for nearly every value: thousands in a large kernel, of which few are alive at once. A row
 * each would not fit the caches. So: liveness over the basic blocks, the hull of the positions where a register is
 * alive, and rows given out in order of their beginnings (linear scan), 32-, 64- and 128-bit rows apart.
 *
 * Lanes of a frame may stand at different places and share rows: each lane's cell holds what that lane's own path says,
 * and handlers write cells of active lanes only. A guarded definition does not end what was there before. A result
 * never gets the row of an operand that ends in the same instruction: no handler has to care.
 */
#include "softgpu/exec/registers.h"

#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/decode.h"

struct live_graph {
    const struct exec_flow *flow;
    const struct ptx_function *f;
    uint32_t words, blocks;
    const uint32_t *first;                /* of the flow */
    uint64_t *in, *use, *kill;            /* per block: alive at its beginning, read before written, written whole */
};

static bool bit(const uint64_t *s, uint32_t i) { return s[i / 64] >> (i % 64) & 1; }
static void set(uint64_t *s, uint32_t i) { s[i / 64] |= UINT64_C(1) << (i % 64); }

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

/* Does operand 0 take the result? Only what is known to: for others it counts as read. */
static bool has_result(const struct ptx_instruction *in)
{
    static const char *const known[] = { "mov",        "and",       "or",     "xor",       "not",          "ld",
                                         "ldu",        "cvta",      "atom",   "shfl",      "match",        "redux",
                                         "activemask", "vote",      "alloca", "stacksave", "mapa",         "getctarank",
                                         "ldmatrix",   "movmatrix", "mma",    "elect",     "createpolicy", NULL };
    for (int k = 0; known[k]; k++)
        if (is(in, known[k]))
            return true;
    return !decode_find(in->opcode) || (is(in, "wmma") && in->modifier_count && strcmp(in->modifiers[0], "store"));
}

typedef void visit(void *context, uint32_t reg, bool whole);
static void visit_operand(const struct live_graph *g, const struct ptx_operand *o, bool result, visit *read,
                          visit *write, void *context)
{
    if (o->kind == PTX_OP_REGISTER || (o->kind == PTX_OP_MEMORY && o->has_register)) {
        if (g->f->registers[o->reg].type != PTX_PRED) {
            bool whole = g->f->registers[o->reg].vector <= 1;
            if (result && o->kind == PTX_OP_REGISTER)
                write(context, o->reg, whole);
            else
                read(context, o->reg, whole);
        }
    }
    for (uint32_t i = 0; i < o->element_count; i++)
        visit_operand(g, &o->elements[i], result && o->kind == PTX_OP_VECTOR, read, write, context);
    if (o->second)
        visit_operand(g, o->second, result, read, write, context);
}

static void visit_instruction(const struct live_graph *g, const struct ptx_instruction *in, visit *read, visit *write,
                              void *context)
{
    bool result = has_result(in);
    for (uint32_t k = result ? 1 : 0; k < in->operand_count; k++)
        visit_operand(g, &in->operands[k], false, read, write, context);
    if (result && in->operand_count)
        visit_operand(g, &in->operands[0], in->guard < 0, read, write, context);
}

struct scan { struct live_graph *g; uint32_t block; };
static void scan_read(void *context, uint32_t reg, bool whole)
{
    struct scan *s = context;
    (void)whole;
    if (!bit(s->g->kill + (size_t)s->block * s->g->words, reg))
        set(s->g->use + (size_t)s->block * s->g->words, reg);
}
static void scan_write(void *context, uint32_t reg, bool whole)
{
    struct scan *s = context;
    if (whole)
        set(s->g->kill + (size_t)s->block * s->g->words, reg);
    else
        scan_read(context, reg, whole);
}

static bool build(struct live_graph *g)
{
    g->words = g->f->register_count / 64 + 1;
    size_t size = (size_t)g->blocks * g->words;
    if (size > (8u << 20))
        return false;                     /* 64 MiB a set: better a row each */
    g->in = calloc(size, 8);
    g->use = calloc(size, 8);
    g->kill = calloc(size, 8);
    if (!g->in || !g->use || !g->kill)
        return false;
    for (uint32_t b = 0; b < g->blocks; b++) {
        struct scan s = { g, b };
        for (uint32_t i = g->first[b]; i < g->first[b + 1]; i++)
            visit_instruction(g, &g->f->instructions[i], scan_read, scan_write, &s);
    }
    return true;
}

/* What is alive at the end of a block: at the beginning of those that may follow. */
static void block_out(const struct live_graph *g, uint32_t b, uint64_t *out)
{
    memset(out, 0, g->words * 8u);
    for (uint32_t e = g->flow->next_at[b]; e < g->flow->next_at[b + 1]; e++) {
        const uint64_t *in = g->in + (size_t)g->flow->next[e] * g->words;
        for (uint32_t k = 0; k < g->words; k++)
            out[k] |= in[k];
    }
}

static void solve(struct live_graph *g, uint64_t *out)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = g->blocks; b-- > 0;) {
            block_out(g, b, out);
            uint64_t *in = g->in + (size_t)b * g->words;
            const uint64_t *use = g->use + (size_t)b * g->words, *kill = g->kill + (size_t)b * g->words;
            for (uint32_t k = 0; k < g->words; k++) {
                uint64_t v = use[k] | (out[k] & ~kill[k]);
                changed |= v != in[k];
                in[k] = v;
            }
        }
    }
}

struct hull { uint32_t begin, end; };
struct hull_mark { struct hull *hulls; uint32_t at; };
static void extend(struct hull *h, uint32_t at)
{
    h->begin = at < h->begin ? at : h->begin;
    h->end = at > h->end ? at : h->end;
}
static void mark_any(void *context, uint32_t reg, bool whole)
{
    struct hull_mark *m = context;
    (void)whole;
    extend(&m->hulls[reg], m->at);
}

static void find_hulls(struct live_graph *g, uint64_t *out, struct hull *hulls)
{
    const struct ptx_function *f = g->f;
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        struct hull_mark m = { hulls, i };
        visit_instruction(g, &f->instructions[i], mark_any, mark_any, &m);
    }
    for (uint32_t b = 0; b < g->blocks; b++) {
        block_out(g, b, out);
        const uint64_t *in = g->in + (size_t)b * g->words;
        uint32_t begin = g->first[b], end = g->first[b + 1];
        for (uint32_t r = 0; r < f->register_count; r++) {
            if (bit(in, r))
                extend(&hulls[r], begin);
            if (bit(out, r) && end)
                extend(&hulls[r], end - 1);
        }
    }
}

static _Thread_local const struct hull *sorting;
static int by_begin(const void *a, const void *b)
{
    uint32_t x = sorting[*(const uint32_t *)a].begin, y = sorting[*(const uint32_t *)b].begin;
    return x < y ? -1 : x > y;
}

static unsigned pool_of(enum ptx_type t)
{
    return decode_cell(t) == SG_CELL_128 ? 2 : decode_cell(t) == SG_CELL_64 ? 1 : 0;
}

/* Rows of one pool, each free from a position on: the one free longest is taken (a heap by that position). */
struct row_pool { struct { uint32_t free_at, row; } *heap; uint32_t count, rows; };
static void heap_sink(struct row_pool *p)
{
    for (uint32_t i = 0;;) {
        uint32_t least = i, l = 2 * i + 1, r = l + 1;
        if (l < p->count && p->heap[l].free_at < p->heap[least].free_at)
            least = l;
        if (r < p->count && p->heap[r].free_at < p->heap[least].free_at)
            least = r;
        if (least == i)
            return;
        uint32_t at = p->heap[i].free_at, row = p->heap[i].row;
        p->heap[i] = p->heap[least];
        p->heap[least].free_at = at;
        p->heap[least].row = row;
        i = least;
    }
}
static uint32_t take_row(struct row_pool *p, const struct hull *h)
{
    if (p->count && p->heap[0].free_at <= h->begin) {
        uint32_t row = p->heap[0].row;
        p->heap[0].free_at = h->end + 1;
        heap_sink(p);
        return row;
    }
    uint32_t i = p->count++;
    p->heap[i].row = p->rows++;
    p->heap[i].free_at = h->end + 1;
    for (; i && p->heap[(i - 1) / 2].free_at > p->heap[i].free_at; i = (i - 1) / 2) {
        uint32_t at = p->heap[i].free_at, row = p->heap[i].row, up = (i - 1) / 2;
        p->heap[i] = p->heap[up];
        p->heap[up].free_at = at;
        p->heap[up].row = row;
    }
    return p->heap[i].row;
}

bool exec_registers_place(const struct exec_flow *flow, uint32_t *row, uint32_t rows[3])
{
    const struct ptx_function *f = flow->f;
    struct live_graph g = { .flow = flow, .f = f, .blocks = flow->blocks, .first = flow->first };
    struct row_pool pools[3] = { 0 };
    uint64_t *out = NULL;
    struct hull *hulls = calloc(f->register_count + 1u, sizeof *hulls);
    uint32_t *order = calloc(f->register_count + 1u, sizeof *order), count = 0;
    bool done = false;
    memset(rows, 0, 3 * sizeof *rows);
    if (!hulls || !order || !build(&g) || !(out = calloc(g.words, 8)))
        goto out;
    for (unsigned k = 0; k < 3; k++)
        if (!(pools[k].heap = calloc(f->register_count + 1u, sizeof *pools[k].heap)))
            goto out;
    solve(&g, out);
    for (uint32_t r = 0; r < f->register_count; r++)
        hulls[r].begin = UINT32_MAX;
    find_hulls(&g, out, hulls);
    for (uint32_t r = 0; r < f->register_count; r++)
        if (f->registers[r].type != PTX_PRED && f->registers[r].vector <= 1 && hulls[r].begin != UINT32_MAX)
            order[count++] = r;
    sorting = hulls;
    qsort(order, count, sizeof *order, by_begin);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t r = order[k];
        row[r] = take_row(&pools[pool_of(f->registers[r].type)], &hulls[r]);
    }
    for (uint32_t r = 0; r < f->register_count; r++) {
        struct row_pool *p = &pools[pool_of(f->registers[r].type)];
        if (f->registers[r].type != PTX_PRED && f->registers[r].vector > 1) {     /* neighbouring rows of its own */
            row[r] = p->rows;
            p->rows += f->registers[r].vector;
        } else if (hulls[r].begin == UINT32_MAX)
            row[r] = 0;                   /* never used */
    }
    for (unsigned k = 0; k < 3; k++)
        rows[k] = pools[k].rows;
    done = true;
out:
    for (unsigned k = 0; k < 3; k++)
        free(pools[k].heap);
    free(g.in);
    free(g.use);
    free(g.kill);
    free(out);
    free(hulls);
    free(order);
    return done;
}
