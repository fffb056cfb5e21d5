/* constants.c: what the instructions of a kernel own: constants as rows, and other memory that goes with the kernel. */
#include "softgpu/exec/exec.h"

#include <stdlib.h>

#include "softgpu/ptx/budget.h"

bool exec_kernel_take(sg_kernel *k, size_t bytes)
{
    if (!ptx_budget_take(bytes))
        return false;
    atomic_fetch_add(&k->taken, bytes);
    return true;
}

void *exec_kernel_own(sg_kernel *k, size_t size)
{
    struct exec_owned *o = exec_kernel_take(k, sizeof(max_align_t) + size) ? calloc(1, sizeof(max_align_t) + size)
                                                                           : NULL;
    if (!o)
        return NULL;
    o->next = k->owned;
    k->owned = o;
    return (unsigned char *)o + sizeof(max_align_t);
}

static void *constant_room(sg_kernel *k, size_t size)
{
    enum { CHUNK = 16384 };
    struct exec_rows_block *c = k->constants;
    if (!c || c->used + size > CHUNK) {
        c = exec_kernel_take(k, sizeof *c + CHUNK) ? aligned_alloc(64, sizeof *c + CHUNK) : NULL;
        if (!c)
            return NULL;
        c->next = k->constants;
        c->used = 0;
        k->constants = c;
    }
    void *room = c->bytes + c->used;
    c->used += size;
    return room;
}

static size_t slot_of(const sg_kernel *k, uint64_t value, enum sg_cell cell)
{
    size_t i = (size_t)((value * 0x9E3779B97F4A7C15u) >> 20) ^ cell;
    for (;; i++) {
        const struct constant_slot *s = &k->slots[i & (k->slot_capacity - 1)];
        if (!s->row || (s->value == value && s->cell == cell))
            return i & (k->slot_capacity - 1);
    }
}

const void *exec_kernel_constant(sg_kernel *k, uint64_t value, enum sg_cell cell)
{
    if (2 * (k->slot_count + 1) > k->slot_capacity) {
        struct constant_slot *old = k->slots;
        size_t old_capacity = k->slot_capacity, capacity = old_capacity ? 2 * old_capacity : 64;
        struct constant_slot *fresh = calloc(capacity, sizeof *fresh);
        if (!fresh)
            return NULL;
        k->slots = fresh;
        k->slot_capacity = capacity;
        for (size_t i = 0; i < old_capacity; i++)
            if (old[i].row)
                k->slots[slot_of(k, old[i].value, (enum sg_cell)old[i].cell)] = old[i];
        free(old);
    }
    struct constant_slot *s = &k->slots[slot_of(k, value, cell)];
    if (s->row)
        return s->row;
    void *row = constant_room(k, cell == SG_CELL_128  ? 16 * SG_LANES
                                 : cell == SG_CELL_64 ? 8 * SG_LANES
                                                      : 4 * SG_LANES);
    if (!row)
        return NULL;
    for (unsigned l = 0; l < SG_LANES; l++) {
        if (cell == SG_CELL_128)
            ((uint64_t *)row)[2 * l] = value, ((uint64_t *)row)[2 * l + 1] = 0;
        else if (cell == SG_CELL_64)
            ((uint64_t *)row)[l] = value;
        else
            ((uint32_t *)row)[l] = (uint32_t)value;
    }
    *s = (struct constant_slot){ value, row, cell };
    k->slot_count++;
    return row;
}
