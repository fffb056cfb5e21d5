/*
 * region.c: which instructions belong to a region: those that its head reaches, up to the next head. Where the head
 * stands before a loop, that is all of the loop, with the loops inside it.
 */
#include "softgpu/jit/compile.h"

/* MOST, LEAST: instructions of a region; a larger one would take too long to compile. UNNAMED_MOST: of these, those
   around which all rows go to the frame and back. */
enum { MOST = 300, LEAST = 3, UNNAMED_MOST = 6 };

/* Behind the last branch back to the head; else before the next head. */
static uint32_t end_of(const struct sg_jit_wish *w)
{
    uint32_t end = 0;
    for (uint32_t k = w->head + 1; k < w->count; k++) {
        const struct exec_insn *i = &w->insns[k];
        bool branch = i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF;
        if (branch && i->target == &w->insns[w->head])
            end = k + 1;
    }
    for (uint32_t k = w->head + 1; !end && k < w->count; k++)
        if (w->insns[k].straight == EXEC_STRAIGHT_REGION)
            end = k;
    return end ? end : w->count;
}

static bool is_control(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_CONTROL || i->known == EXEC_STRAIGHT_END || i->known == EXEC_STRAIGHT_BARRIER;
}

/* Code behind a call or a barrier: other blocks and frames have run, and a region of its own begins there. */
static bool is_after_control(const struct sg_jit_wish *w, uint32_t k)
{
    return w->insns[k].straight == EXEC_STRAIGHT_REGION && k && is_control(&w->insns[k - 1]);
}

static void reach(struct compiler *c, uint32_t *list, uint32_t *count, uint32_t k, uint32_t end,
                  uint32_t *unnamed)
{
    const struct sg_jit_wish *w = c->wish;
    if (k < w->head || k >= end || c->in_region[k] || *count >= MOST || is_after_control(w, k) ||
        is_control(&w->insns[k]))
        return;
    if (w->insns[k].known == EXEC_STRAIGHT_NONE && ++*unnamed > UNNAMED_MOST)
        return;
    c->in_region[k] = true;
    list[(*count)++] = k;
}

bool region_find(struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    uint32_t list[MOST], count = 0, unnamed = 0, end = end_of(w);
    c->in_region[w->head] = true;
    list[count++] = w->head;
    for (uint32_t at = 0; at < count; at++) {
        const struct exec_insn *i = &w->insns[list[at]];
        if (i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF)
            reach(c, list, &count, (uint32_t)(i->target - w->insns), end, &unnamed);
        if (i->straight != EXEC_STRAIGHT_BRANCH)
            reach(c, list, &count, list[at] + 1, end, &unnamed);
    }
    return count > LEAST;
}
