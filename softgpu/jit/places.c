/*
 * places.c: code for some lanes: those that do not run wait at places. The code goes from place to place in the order
 * of instructions. Those that branch backward go on there at once, since nobody waits at a lower place; those that
 * branch forward wait, and the places on the way have their turn first.
 */
#include "softgpu/jit/compile.h"

#include <string.h>

static bool add(struct sg_jit_places *p, uint32_t k)
{
    uint32_t at = 0;
    while (at < p->count && p->at[at] < k)
        at++;
    if (at < p->count && p->at[at] == k)
        return true;
    if (p->count == SG_JIT_PLACES)
        return false;
    memmove(p->at + at + 1, p->at + at, (p->count - at) * sizeof *p->at);
    p->at[at] = k;
    p->count++;
    return true;
}

/* Where lanes come in that parted before they came to the region. */
static bool find_arrivals(struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    bool fits = true;
    for (uint32_t k = 0; k < w->head; k++) {
        const struct exec_insn *i = &w->insns[k];
        const bool branch = i->straight == EXEC_STRAIGHT_BRANCH || i->straight == EXEC_STRAIGHT_BRANCH_IF;
        if (branch && i->target > &w->insns[w->head] && c->in_region[i->target - w->insns])
            fits &= add(c->places, (uint32_t)(i->target - w->insns));
    }
    return fits;
}

bool places_find(struct compiler *c)
{
    const struct sg_jit_wish *w = c->wish;
    c->places->count = 0;
    bool fits = add(c->places, w->head);
    for (uint32_t k = w->head; k < w->count; k++) {
        const struct exec_insn *i = &w->insns[k];
        bool jump = i->straight == EXEC_STRAIGHT_BRANCH, branch = i->straight == EXEC_STRAIGHT_BRANCH_IF;
        if (!c->in_region[k])
            continue;
        if (jump || branch)
            fits &= add(c->places, (uint32_t)(i->target - w->insns));
        if (branch || (!jump && !c->in_region[k + 1]))
            fits &= add(c->places, k + 1);
    }
    return fits && find_arrivals(c);
}

LLVMValueRef active_lanes(struct compiler *c) { return LLVMBuildLoad2(c->builder, c->i32, c->active, ""); }
void set_active_lanes(struct compiler *c, LLVMValueRef lanes) { LLVMBuildStore(c->builder, lanes, c->active); }

static LLVMValueRef waiting(struct compiler *c, uint32_t place)
{
    return address_of(c, c->warp, offsetof(struct exec_warp, waiting) + place * sizeof(uint32_t));
}

void places_begin(struct compiler *c)
{
    c->active = variable_new(c, c->i32, "active");
    set_active_lanes(c, constant_32(c, 0));
    for (uint32_t place = 0; place < c->places->count; place++)
        c->arrive[place] = block_new(c, "arrive");
}

void places_arrive(struct compiler *c, uint32_t place, LLVMBasicBlockRef body)
{
    LLVMBuilderRef b = c->builder;
    const bool last = place + 1 == c->places->count;
    LLVMBasicBlockRef next = last ? block_new(c, "nobody") : c->arrive[place + 1];
    LLVMPositionBuilderAtEnd(b, c->arrive[place]);
    LLVMValueRef at = waiting(c, place), lanes = LLVMBuildOr(b, active_lanes(c), load_from(c, c->i32, at, 4), "");
    store_to(c, constant_32(c, 0), at, 4);
    set_active_lanes(c, lanes);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntEQ, lanes, constant_32(c, 0), ""), next, body);
    if (last) { /* never reached: each active lane is at some place */
        LLVMPositionBuilderAtEnd(b, next);
        LLVMBuildRet(b, constant_64(c, 0));
    }
}

LLVMBasicBlockRef place_block(const struct compiler *c, uint32_t k)
{
    for (uint32_t place = 0; place < c->places->count; place++)
        if (c->places->at[place] == k)
            return c->arrive[place];
    return NULL;
}

LLVMBasicBlockRef place_behind(struct compiler *c, uint32_t k)
{
    uint32_t place = 0;
    while (c->places->at[place] <= k)
        place++;
    return c->arrive[place];
}

void place_wait(struct compiler *c, uint32_t k, LLVMValueRef lanes)
{
    uint32_t place = 0;
    while (c->places->at[place] != k)
        place++;
    LLVMValueRef at = waiting(c, place);
    store_to(c, LLVMBuildOr(c->builder, load_from(c, c->i32, at, 4), lanes, ""), at, 4);
}
