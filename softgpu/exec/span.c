/* span.c: see span.h. */
#include "softgpu/exec/span.h"

/* Granules on each side of an access that are looked at. */
enum { SIDE = 32 };
#define GRANULE (UINT64_C(1) << SG_GRANULE_SHIFT)

struct granules { _Atomic uint8_t *of; uint64_t count; unsigned wanted; };

static bool has_right(const struct granules *g, uint64_t k)
{
    return k < g->count && (atomic_load_explicit(&g->of[k], memory_order_relaxed) & g->wanted) == g->wanted;
}

/* The bytes around an offset of the window that may be touched likewise: [*from, *to). false: it may not. */
static bool extent_of(const struct granules *g, uint64_t offset, uint64_t *from, uint64_t *to)
{
    const uint64_t at = offset >> SG_GRANULE_SHIFT;
    uint64_t first = at, behind = at + 1;
    if (!has_right(g, at))
        return false;
    while (first && at - first < SIDE && has_right(g, first - 1))
        first--;
    while (behind - at < SIDE && has_right(g, behind))
        behind++;
    *from = first * GRANULE;
    *to = behind * GRANULE;
    return true;
}

bool exec_span_find(struct exec_block *b, uint32_t span, uint64_t address, uint32_t bytes, uint32_t rights)
{
    uint32_t count = atomic_load_explicit(&sg_memory.window_count, memory_order_acquire);
    for (uint32_t k = 0; k < count; k++) {
        const struct sg_window *w = &sg_memory.windows[k];
        const uint64_t size = atomic_load_explicit(&w->size, memory_order_acquire),
                       base = atomic_load_explicit(&w->base, memory_order_relaxed), offset = address - base;
        const struct granules g = { atomic_load_explicit(&w->rights, memory_order_relaxed),
                                    (size + GRANULE - 1) / GRANULE, rights << 2 * (b->grid->engine->ordinal & 3u) };
        uint64_t from, to;
        if (offset >= size || !extent_of(&g, offset, &from, &to))
            continue;
        to = to < size ? to : size;
        if (to - offset < bytes)
            return false;
        struct exec_span *s = span < EXEC_SPANS ? &b->spans[span] : &b->reaches[span - EXEC_SPANS];
        *s = (struct exec_span){ base + from, to - from - bytes + 1 };
        return true;
    }
    return false;
}
