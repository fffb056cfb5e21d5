/*
 * live.c: which rows the function may still read behind each of its instructions: only these go back to the frame where
 * the code ends. Each lane goes its own way, and what holds for all ways holds for it.
 */
#include "softgpu/jit/compile.h"

#include <stdlib.h>
#include <string.h>

#include "softgpu/exec/fused.h"

enum { WORD = 64 };

static void set_rows(const struct compiler *c, uint64_t *set, exec_source at, bool value)
{
    for (const struct row_variable *r = row_first(c, at); r; r = r->next ? &c->rows[r->next - 1] : NULL)
        if (r->at == at) {
            const uint32_t k = (uint32_t)(r - c->rows);
            uint64_t bit = UINT64_C(1) << (k % WORD);
            set[k / WORD] = value ? set[k / WORD] | bit : set[k / WORD] & ~bit;
        }
}

static bool says_nothing(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_NONE || i->known == EXEC_STRAIGHT_CONTROL || i->known == EXEC_STRAIGHT_TABLE ||
           i->known == EXEC_STRAIGHT_PART;
}

/* Before an instruction: what is needed behind it, without what it writes in every lane, and what it reads. */
static void before(const struct compiler *c, const struct exec_insn *i, uint64_t *set)
{
    const struct exec_vector *v = i->extra;
    const struct exec_pieces *p = i->extra;
    const struct exec_matrix_rows *x = i->extra;
    const bool guarded = i->straight == EXEC_STRAIGHT_GUARDED, matrix = i->known == EXEC_STRAIGHT_MATRIX;
    if (says_nothing(i)) {
        for (uint32_t k = 0; k < c->live_words; k++)
            set[k] = UINT64_MAX;
        return;
    }
    if (!guarded && !(i->flags & EXEC_LABEL)) { /* the d of a branch is no row */
        set_rows(c, set, i->d | EXEC_BASE_FRAME, false);
        set_rows(c, set, i->p | EXEC_BASE_FRAME, false);
        for (unsigned k = 0; i->known == EXEC_STRAIGHT_LOAD_VECTOR && k < i->vector; k++)
            set_rows(c, set, v->to[k] | EXEC_BASE_FRAME, false);
        for (unsigned k = 0; i->known == EXEC_STRAIGHT_SPLIT && k < 2; k++)
            if (!p->sink[k])
                set_rows(c, set, p->to[k] | EXEC_BASE_FRAME, false);
        for (unsigned k = 0; matrix && k < x->writes; k++)
            set_rows(c, set, x->to[k] | EXEC_BASE_FRAME, false);
    }
    if (guarded || i->straight == EXEC_STRAIGHT_BRANCH_IF)
        set_rows(c, set, i->guard | EXEC_BASE_FRAME, true);
    for (unsigned k = 0; k < SG_MAX_SOURCES; k++)
        set_rows(c, set, i->s[k], true);
    for (unsigned k = 0; i->known == EXEC_STRAIGHT_STORE_VECTOR && k < i->vector; k++)
        set_rows(c, set, v->from[k], true);
    for (unsigned k = 0; i->known == EXEC_STRAIGHT_JOIN && k < 2; k++)
        set_rows(c, set, p->rows[k], true);
    for (unsigned k = 0; matrix && k < x->reads; k++)
        set_rows(c, set, x->from[k], true);
    set_rows(c, set, i->in | EXEC_BASE_FRAME, true);
    set_rows(c, set, i->q | EXEC_BASE_FRAME, true);
    if (i->known == EXEC_STRAIGHT_ALU)
        set_rows(c, set, EXEC_PRED_CARRY | EXEC_BASE_FRAME, true);
}

static void add(const struct compiler *c, uint64_t *set, uint32_t k)
{
    for (uint32_t word = 0; k < c->wish->count && word < c->live_words; word++)
        set[word] |= c->live[(size_t)k * c->live_words + word];
}

/* Computes the set of one instruction anew. true: it differs from the one before. */
static bool renew(struct compiler *c, uint32_t k, uint64_t *set)
{
    const struct exec_insn *i = &c->wish->insns[k];
    uint64_t *known = c->live + (size_t)k * c->live_words;
    bool branch = i->straight == EXEC_STRAIGHT_BRANCH, more = false;
    memset(set, 0, c->live_words * sizeof *set);
    if (i->known != EXEC_STRAIGHT_END) {
        if (branch || i->straight == EXEC_STRAIGHT_BRANCH_IF)
            add(c, set, (uint32_t)(i->target - c->wish->insns));
        if (!branch)
            add(c, set, k + 1);
        before(c, i, set);
    }
    for (uint32_t word = 0; word < c->live_words; word++) {
        more |= known[word] != set[word];
        known[word] = set[word];
    }
    return more;
}

bool live_find(struct compiler *c)
{
    c->live_words = c->row_count / WORD + 1;
    c->live = calloc((size_t)c->wish->count * c->live_words, sizeof *c->live);
    uint64_t *set = calloc(c->live_words, sizeof *set);
    for (bool more = c->live && set; more;) {
        more = false;
        for (uint32_t k = c->wish->count; k-- > 0;)
            more |= renew(c, k, set);
    }
    free(set);
    return c->live && set;
}

/* Does compiled code end before it, since the interpreter has to do it? */
static bool ends_code(const struct exec_insn *i)
{
    return says_nothing(i) || i->known == EXEC_STRAIGHT_BARRIER || i->straight == EXEC_STRAIGHT_REGION;
}

/* May lanes stand before the instruction, or wait in it, while others run? */
static bool is_apart(const struct sg_jit_wish *w, uint32_t k, const bool *target)
{
    const struct exec_insn *i = k ? &w->insns[k - 1] : NULL;
    return !k || target[k] || w->insns[k].known == EXEC_STRAIGHT_EXCHANGE || i->known == EXEC_STRAIGHT_EXCHANGE ||
           ends_code(&w->insns[k]) || says_nothing(i) || i->straight == EXEC_STRAIGHT_BRANCH ||
           i->straight == EXEC_STRAIGHT_BRANCH_IF || i->straight == EXEC_STRAIGHT_HALT ||
           i->known == EXEC_STRAIGHT_END || i->known == EXEC_STRAIGHT_BARRIER;
}

void live_apart(struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    bool *target = calloc(w->count + 1u, sizeof *target);
    c->failed |= !target;
    for (uint32_t k = 0; target && k < w->count; k++)
        if (w->insns[k].straight == EXEC_STRAIGHT_BRANCH || w->insns[k].straight == EXEC_STRAIGHT_BRANCH_IF)
            target[w->insns[k].target - w->insns] = true;
    for (uint32_t row = 0; target && row < c->row_count; row++) {
        c->rows[row].lasts = w->count > REGION_MOST; /* a region may end anywhere */
        for (uint32_t k = 0; k < w->count && !c->rows[row].lasts; k++)
            c->rows[row].lasts = live_at(c, k, row) && is_apart(w, k, target);
        for (uint32_t place = 0; place < c->places->count; place++)
            c->rows[row].awaited |= live_at(c, c->places->at[place], row);
    }
    free(target);
}

bool live_at(const struct compiler *c, uint32_t k, uint32_t row)
{
    return c->live[(size_t)k * c->live_words + row / WORD] >> (row % WORD) & 1;
}
