/*
 * handlers.c: handlers that instructions of several op_*.c files consist of, and those that operands become. They stand
 * below the files that decode.
 */
#include "softgpu/exec/decode.h"

#include <string.h>

void exec_run_guarded(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t all = w->mask, lanes = (*exec_pred(w, i->guard) ^ i->guard_flip) & all;
    if (!lanes)
        return;
    w->mask = lanes;
    i->inner(w, i);
    w->mask = all;
}

void exec_run_copy32(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t *to = (uint32_t *)(void *)(w->rows + i->d);
    if (exec_full(w))
        w->row->copy32(to, exec_row(w, i->s[0]));
    else
        w->row->blend32(to, exec_row(w, i->s[0]), w->mask);
}

void exec_run_copy64(struct exec_warp *w, const struct exec_insn *i)
{
    uint64_t *to = (uint64_t *)(void *)(w->rows + i->d);
    if (exec_full(w))
        w->row->copy64(to, exec_row(w, i->s[0]));
    else
        w->row->blend64(to, exec_row(w, i->s[0]), w->mask);
}

void exec_run_copy128(struct exec_warp *w, const struct exec_insn *i)
{
    const unsigned char *from = exec_row(w, i->s[0]);
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        memmove(w->rows + i->d + 16 * l, from + 16 * l, 16);
    }
}

void exec_run_local_address(struct exec_warp *w, const struct exec_insn *i)
{
    /* The row is a temporary: lanes outside the mask do not matter. */
    w->row->fill64((uint64_t *)(void *)(w->rows + i->d), (uint64_t)i->offset + w->frame->local_base);
}

/* Any number of rows, a predicate as source. */
void exec_run_alu_row(struct exec_warp *w, const struct exec_insn *i)
{
    struct sg_rows r = { .p = NULL };
    for (unsigned k = 0; k < SG_MAX_SOURCES; k++)
        r.s[k] = exec_row(w, i->s[k]);
    r.immediate = (uint64_t)i->offset;
    r.in = *exec_pred(w, i->in) ^ i->in_flip;
    if (exec_full(w)) {
        r.d = w->rows + i->d;
        i->alu(&r);
    } else {
        r.d = w->temp[0];
        i->alu(&r);
        exec_blend(w, i->d, i->cell, w->temp[0]);
    }
}

/* Before a control instruction with a guard: the lanes that do not take part go on behind it. */
void exec_run_part(struct exec_warp *w, const struct exec_insn *i)
{
    uint32_t lanes = (*exec_pred(w, i->guard) ^ i->guard_flip) & w->mask;
    if (lanes == w->mask)
        return;
    if (!lanes) {
        exec_jump(w, w->pc + 1);
        return;
    }
    exec_group_add(w, w->pc + 1, w->frame, w->mask & ~lanes);
    w->mask = lanes;
    w->stop = w->pc + 1;
}

/* Stands before each store to shared memory of kernels with barriers. As long as no warp has read any since the barrier
   opened, there is nothing to wait for: older warps come first, and do what the others do. */
void exec_run_halt(struct exec_warp *w, const struct exec_insn *i)
{
    (void)i;
    if (!w->halts || !w->block->read)
        return;
    w->halts--;
    w->halted = true;
    exec_leave(w);
}
