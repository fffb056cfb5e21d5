/* flow.c: the basic blocks of a function. */
#include "softgpu/exec/flow.h"

#include <stdlib.h>
#include <string.h>

static bool is(const struct ptx_instruction *in, const char *opcode) { return !strcmp(in->opcode, opcode); }

static bool ends_block(const struct ptx_instruction *in)
{
    return is(in, "bra") || is(in, "brx") || is(in, "ret") || is(in, "exit") || is(in, "trap");
}

/* The last instruction of a block; NULL: it is the empty one. */
static const struct ptx_instruction *last_of(const struct exec_flow *g, uint32_t b)
{
    return b + 1 < g->blocks ? &g->f->instructions[g->first[b + 1] - 1] : NULL;
}

bool exec_flow_falls(const struct exec_flow *g, uint32_t b)
{
    const struct ptx_instruction *last = last_of(g, b);
    return last && (last->guard >= 0 || !ends_block(last));
}

bool exec_flow_leaves(const struct exec_flow *g, uint32_t b)
{
    const struct ptx_instruction *last = last_of(g, b);
    return !last || is(last, "ret") || is(last, "exit");
}

/* The labels that an instruction names: one of bra, a table's of brx. Tables may name other tables, which are refused
   when the instruction is decoded. */
struct labels {
    const struct ptx_operand *list;
    uint32_t count;
};
static struct labels labels_of(const struct ptx_instruction *in)
{
    for (uint32_t k = 0; k < in->operand_count; k++) {
        const struct ptx_operand *o = &in->operands[k];
        if (o->kind == PTX_OP_LABEL)
            return (struct labels){ o, 1 };
        if (o->kind == PTX_OP_LABEL_TABLE)
            return (struct labels){ o->elements, o->element_count };
    }
    return (struct labels){ NULL, 0 };
}

/* Marks where blocks begin. Returns how many labels instructions name. */
static size_t find_starts(const struct ptx_function *f, uint8_t *starts)
{
    size_t count = 0;
    starts[0] = starts[f->instruction_count] = 1;
    for (uint32_t i = 0; i < f->instruction_count; i++) {
        const struct ptx_instruction *in = &f->instructions[i];
        struct labels l = labels_of(in);
        if (ends_block(in))
            starts[i + 1] = 1;
        for (uint32_t k = 0; k < l.count; k++)
            if (l.list[k].kind == PTX_OP_LABEL) {
                starts[l.list[k].index] = 1;
                count++;
            }
    }
    return count;
}

bool exec_flow_build(struct exec_flow *g, const struct ptx_function *f)
{
    uint32_t n = f->instruction_count, edges = 0;
    *g = (struct exec_flow){ .f = f };
    uint8_t *starts = calloc(n + 1u, 1);
    if (!starts)
        return false;
    size_t labels = find_starts(f, starts), blocks = 0;
    for (uint32_t i = 0; i <= n; i++)
        blocks += starts[i];
    g->block_of = calloc(n + 1u, sizeof *g->block_of);
    g->first = calloc(blocks + 1, sizeof *g->first);
    g->next_at = calloc(blocks + 1, sizeof *g->next_at);
    g->next = calloc(blocks + labels, sizeof *g->next);
    if (!g->block_of || !g->first || !g->next_at || !g->next) {
        free(starts);
        return false;
    }
    for (uint32_t i = 0; i <= n; i++) {
        if (starts[i])
            g->first[g->blocks++] = i;
        g->block_of[i] = g->blocks - 1;
    }
    free(starts);
    g->first[g->blocks] = n;
    for (uint32_t b = 0; b < g->blocks; b++) {
        g->next_at[b] = edges;
        if (exec_flow_falls(g, b))
            g->next[edges++] = b + 1;
        const struct ptx_instruction *last = last_of(g, b);
        struct labels l = last ? labels_of(last) : (struct labels){ NULL, 0 };
        for (uint32_t k = 0; k < l.count; k++)
            if (l.list[k].kind == PTX_OP_LABEL)
                g->next[edges++] = g->block_of[l.list[k].index];
    }
    g->next_at[g->blocks] = edges;
    return true;
}

void exec_flow_free(struct exec_flow *g)
{
    free(g->first);
    free(g->block_of);
    free(g->next);
    free(g->next_at);
}
