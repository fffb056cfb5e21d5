/*
 * parted.c: see parted.h. The order in which groups run is that of warp.c: of those of a frame the one at the lowest
 * instruction. Groups that the scheduler has set aside, or that have waited for one of these, stay its own: then no
 * code for some lanes runs.
 */
#include "softgpu/exec/parted.h"

#include "softgpu/exec/callbacks.h"
#include "softgpu/exec/decode.h"

static int place_of(const struct sg_jit_places *p, uint32_t at)
{
    uint32_t low = 0, high = p->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (p->at[middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && p->at[low] == at ? (int)low : -1;
}

/* Where a group waits among the places; -1: elsewhere. */
static int place_of_group(const struct exec_warp *w, const struct exec_region *r, const struct exec_group *g)
{
    return place_of(&r->places, (uint32_t)(g->pc - w->frame->function->insns));
}

static bool is_other(const struct exec_warp *w, uint32_t k)
{
    const struct exec_group *g = &w->groups[k];
    return k != w->current && g->frame == w->frame && g->state == EXEC_RUNNABLE;
}

bool exec_parted_take(struct exec_warp *w, const struct exec_region *r)
{
    const struct exec_insn *insns = w->frame->function->insns, *last = insns + r->places.at[r->places.count - 1];
    for (uint32_t k = 0; k < w->group_count; k++) {
        const struct exec_group *g = &w->groups[k];
        if (is_other(w, k) && (g->gave_way || g->waited || g->pc <= insns + r->head ||
                               (g->pc <= last && place_of_group(w, r, g) < 0)))
            return false;
    }
    for (uint32_t k = 0; k < w->group_count;) {
        int place = is_other(w, k) ? place_of_group(w, r, &w->groups[k]) : -1;
        if (place < 0) {
            k++;
            continue;
        }
        w->waiting[place] |= w->groups[k].mask;
        w->groups[k] = w->groups[--w->group_count];
        if (w->current == w->group_count)
            w->current = k;
    }
    w->waiting[place_of(&r->places, r->head)] |= w->mask;
    return true;
}

/* Makes groups of the lanes that wait. */
static void add_groups(struct exec_warp *w)
{
    const struct sg_jit_places *p = &w->region->places;
    for (uint32_t k = 0; k < p->count; k++)
        if (w->waiting[k])
            exec_group_add(w, w->frame->function->insns + p->at[k], w->frame, w->waiting[k]);
}

static void forget(struct exec_warp *w) { memset(w->waiting, 0, w->region->places.count * sizeof *w->waiting); }

void exec_parted_run(struct exec_warp *w, const struct exec_region *r, sg_jit_code *code)
{
    w->region = r;
    w->united = false;
    w->stop = NULL;
    code(w, &r->function->insns[r->head]);
    if (!w->block->failed)
        add_groups(w);
    forget(w);
    if (w->stop || w->group_count > 1 || w->budget <= 0)
        exec_leave(w);
}

bool exec_parted_branch(struct exec_warp *w, const struct exec_region *r, const struct exec_insn *i, uint32_t taken)
{
    const struct exec_insn *insns = w->frame->function->insns;
    int to = place_of(&r->places, (uint32_t)(i->target - insns)),
        over = place_of(&r->places, (uint32_t)(i + 1 - insns));
    if (to < 0 || over < 0)
        return false;
    w->waiting[to] |= taken;
    w->waiting[over] |= ~taken;
    return true;
}

void exec_parted_begin(struct exec_warp *w, uint32_t lanes, const struct exec_insn *others)
{
    exec_warp_begin(w);
    if (lanes == UINT32_MAX)
        return;
    w->groups[w->current].mask = w->mask = lanes;
    exec_group_add(w, others, w->frame, ~lanes);
}

void exec_parted_near(struct exec_warp *w, uint64_t address)
{
    uint32_t count = atomic_load_explicit(&sg_memory.window_count, memory_order_acquire);
    for (uint32_t k = 0; k < count; k++) {
        const struct sg_window *window = &sg_memory.windows[k];
        uint64_t base = atomic_load_explicit(&window->base, memory_order_relaxed);
        if (address - base < atomic_load_explicit(&window->size, memory_order_relaxed))
            w->near = window;
    }
}

static void move_near(struct exec_warp *w, const struct exec_insn *i, unsigned lane)
{
    const uint64_t *address = exec_row(w, i->s[0]);
    exec_parted_near(w, address[lane] + (uint64_t)i->offset);
}

static bool is_global(const struct exec_insn *i)
{
    const bool atomic = i->known == EXEC_STRAIGHT_ATOMIC && i->space != PTX_SPACE_SHARED &&
                        !(i->flags & (EXEC_ADDRESS_UNIFORM | EXEC_ADDRESS_32 | EXEC_ADDRESS_FRAME));
    return atomic || (i->known >= EXEC_STRAIGHT_LOAD_8 && i->known <= EXEC_STRAIGHT_STORE_64) ||
           exec_is_global_vector(i);
}

static bool run(struct exec_warp *w, const struct exec_insn *i, uint32_t lanes)
{
    if (i->straight == EXEC_STRAIGHT_GUARDED)
        exec_run_guarded(w, i);
    else
        (i->straight == EXEC_STRAIGHT_NONE ? i->run : i->inner)(w, i);
    return w->pc == i + 1 && !w->stop && w->mask == lanes;
}

/* Some handlers look at the other lanes of the warp: while such a one runs, those are groups. */
static bool looks_at_others(const struct exec_insn *i)
{
    return i->known == EXEC_STRAIGHT_NONE || i->known == EXEC_STRAIGHT_EXCHANGE;
}

static bool run_among_groups(struct exec_warp *w, const struct exec_insn *i, uint32_t lanes)
{
    const uint32_t before = w->group_count;
    add_groups(w);
    const uint32_t all = w->group_count;
    if (run(w, i, lanes) && w->group_count == all) {
        w->group_count = before;
        return true;
    }
    forget(w);
    return false;
}

bool exec_parted_step(struct exec_warp *w, const struct exec_insn *i, uint32_t lanes)
{
    w->mask = lanes;
    if (is_global(i))
        move_near(w, i, (unsigned)__builtin_ctz(lanes));
    w->pc = i + 1;
    w->interpreted++;
    w->compiled--;                                    /* where it had been counted */
    if (exec_callbacks_counted)
        exec_callback_count(w, i);
    return lanes != UINT32_MAX && looks_at_others(i) ? run_among_groups(w, i, lanes) : run(w, i, lanes);
}
