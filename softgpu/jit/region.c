/*
 * region.c: which instructions belong to a region: those that its head reaches, up to the next head. Where the head
 * stands before a loop, that is all of the loop, with the loops inside it, unless it is too long for one region.
 */
#include "softgpu/jit/compile.h"

#include <string.h>

/* LEAST: instructions of a region, of which there are REGION_MOST at most. UNNAMED_MOST: of these, those
   around which all rows go to the frame and back. RUNS_MOST: instructions of a region with runs, whose rows are in the
   frame, and which is compiled sooner. LOOP_SHORT: of a loop that a region goes over, though it is one itself. */
enum { LEAST = 3, UNNAMED_MOST = 6, RUNS_MOST = 3000, LOOP_SHORT = 40 };

struct region_list { uint32_t at[RUNS_MOST], count, most, end, unnamed, unnamed_most; };

/* Behind the last branch back to the instruction; 0: there is none. */
static uint32_t behind_loop(const struct sg_jit_wish *w, uint32_t head)
{
    for (uint32_t k = w->count; k-- > head + 1;) {
        const struct exec_insn *i = &w->insns[k];
        if ((i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF) &&
            i->target == &w->insns[head])
            return k + 1;
    }
    return 0;
}

/* Before the next head, but for those of short loops. */
static uint32_t next_head(const struct sg_jit_wish *w)
{
    for (uint32_t k = w->head + 1; k < w->count; k++) {
        if (w->insns[k].straight != EXEC_STRAIGHT_REGION || w->insns[k].kind != EXEC_REGION_HEAD)
            continue;
        const uint32_t behind = behind_loop(w, k);
        if (!behind || behind - k > LOOP_SHORT)
            return k;
        k = behind - 1;
    }
    return w->count;
}

/* most: instructions of a loop that is one region. */
static uint32_t end_of(const struct sg_jit_wish *w, uint32_t most)
{
    const uint32_t behind = w->whole ? w->count : behind_loop(w, w->head);
    return behind && (w->whole || behind - w->head <= most) ? behind : next_head(w);
}

static bool is_control(const struct sg_jit_wish *w, uint32_t k)
{
    const uint8_t known = w->insns[k].known;
    return known == EXEC_STRAIGHT_CONTROL || known == EXEC_STRAIGHT_TABLE || known == EXEC_STRAIGHT_PART ||
           known == EXEC_STRAIGHT_END || known == EXEC_STRAIGHT_BARRIER;
}

/* Code behind a call or a barrier: other blocks and frames have run, and a region of its own begins there. */
static bool is_after_control(const struct sg_jit_wish *w, uint32_t k)
{
    return w->insns[k].straight == EXEC_STRAIGHT_REGION && k && is_control(w, k - 1);
}

static void reach(struct compiler *c, struct region_list *l, uint32_t k)
{
    const struct sg_jit_wish *w = c->wish;
    const bool waits = k < l->end && phase_waits(c, k);
    k += waits; /* the next phase is in the region, too */
    if (k < w->head || k >= l->end || c->in_region[k] || l->count >= l->most ||
        (is_after_control(w, k) && !waits) || is_control(w, k))
        return;
    if (w->insns[k].known == EXEC_STRAIGHT_NONE && ++l->unnamed > l->unnamed_most)
        return;
    c->in_region[k] = true;
    l->at[l->count++] = k;
}

/* Where lanes wait that parted before the head. */
static void reach_parted(struct compiler *c, struct region_list *l)
{
    const struct sg_jit_wish *w = c->wish;
    for (uint32_t k = 0; k < w->head; k++)
        if (w->insns[k].straight == EXEC_STRAIGHT_BRANCH || w->insns[k].straight == EXEC_STRAIGHT_BRANCH_IF)
            reach(c, l, (uint32_t)(w->insns[k].target - w->insns));
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
    if (c->places)
        reach_parted(c, l);
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
    struct region_list l = { .end = end_of(c->wish, RUNS_MOST) };
    c->has_runs = !c->places && !c->wish->whole && find(c, &l, RUNS_MOST, RUNS_MOST) && runs_find(c);
    l.end = end_of(c->wish, REGION_MOST);
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
            if ((next[n] <= k && !w->phases) ||
                (!c->in_region[next[n]] && !phase_waits(c, next[n]) && known != EXEC_STRAIGHT_END &&
                 known != EXEC_STRAIGHT_CONTROL && known != EXEC_STRAIGHT_TABLE))
                return false;
            ends |= known == EXEC_STRAIGHT_END; /* ways out to calls and the like are rare */
        }
    }
    return ends;
}
