/*
 * region.c: which instructions belong to a region: those that its head reaches, up to the next head. Where the head
 * stands before a loop, that is all of the loop, with the loops inside it.
 */
#include "softgpu/jit/compile.h"

#include <string.h>

/* LEAST: instructions of a region, of which there are REGION_MOST at most. UNNAMED_MOST: of these, those
   around which all rows go to the frame and back. RUNS_MOST: instructions of a region with runs, whose rows are in the
   frame, and which is compiled sooner. */
enum { LEAST = 3, UNNAMED_MOST = 6, RUNS_MOST = 3000 };

struct region_list { uint32_t at[RUNS_MOST], count, most, end, unnamed, unnamed_most; };

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
        if (w->insns[k].straight == EXEC_STRAIGHT_REGION && w->insns[k].kind == EXEC_REGION_HEAD)
            end = k;
    return end ? end : w->count;
}

static bool is_control(const struct sg_jit_wish *w, uint32_t k)
{
    const uint8_t known = w->insns[k].known;
    return known == EXEC_STRAIGHT_CONTROL || known == EXEC_STRAIGHT_PART || known == EXEC_STRAIGHT_END ||
           known == EXEC_STRAIGHT_BARRIER;
}

/* Code behind a call or a barrier: other blocks and frames have run, and a region of its own begins there. */
static bool is_after_control(const struct sg_jit_wish *w, uint32_t k)
{
    return w->insns[k].straight == EXEC_STRAIGHT_REGION && k && is_control(w, k - 1);
}

static void reach(struct compiler *c, struct region_list *l, uint32_t k)
{
    const struct sg_jit_wish *w = c->wish;
    if (k < w->head || k >= l->end || c->in_region[k] || l->count >= l->most || is_after_control(w, k) ||
        is_control(w, k))
        return;
    if (w->insns[k].known == EXEC_STRAIGHT_NONE && ++l->unnamed > l->unnamed_most)
        return;
    c->in_region[k] = true;
    l->at[l->count++] = k;
}

static bool find(struct compiler *c, struct region_list *l, uint32_t most, uint32_t unnamed_most)
{
    const struct sg_jit_wish *w = c->wish;
    memset(c->in_region, 0, w->count * sizeof *c->in_region);
    l->count = l->unnamed = 0;
    l->most = most;
    l->unnamed_most = unnamed_most;
    c->in_region[w->head] = true;
    l->at[l->count++] = w->head;
    for (uint32_t at = 0; at < l->count; at++) {
        const struct exec_insn *i = &w->insns[l->at[at]];
        if (i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF)
            reach(c, l, (uint32_t)(i->target - w->insns));
        if (i->straight != EXEC_STRAIGHT_BRANCH)
            reach(c, l, l->at[at] + 1);
    }
    return l->count > LEAST;
}

bool region_find(struct compiler *c)
{
    struct region_list l = { .end = c->wish->whole ? c->wish->count : end_of(c->wish) };
    c->has_runs = !c->places && !c->wish->whole && find(c, &l, RUNS_MOST, RUNS_MOST) && runs_find(c);
    return c->has_runs || find(c, &l, REGION_MOST, UNNAMED_MOST);
}

bool region_is_whole(const struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    bool ends = false;
    for (uint32_t k = 0; k < w->count; k++) {
        const struct exec_insn *i = &w->insns[k];
        const bool jump = i->straight == EXEC_STRAIGHT_BRANCH, branch = i->straight == EXEC_STRAIGHT_BRANCH_IF;
        uint32_t next[2], count = 0;
        if (!c->in_region[k])
            continue;
        if (jump || branch)
            next[count++] = (uint32_t)(i->target - w->insns);
        if (!jump)
            next[count++] = k + 1;
        for (uint32_t n = 0; n < count; n++) {
            const uint8_t known = w->insns[next[n]].known;
            if (next[n] <= k ||
                (!c->in_region[next[n]] && known != EXEC_STRAIGHT_END && known != EXEC_STRAIGHT_CONTROL))
                return false;
            ends |= known == EXEC_STRAIGHT_END; /* ways out to calls and the like are rare */
        }
    }
    return ends;
}
