/*
 * address.c: from addresses of a kernel to addresses of the host, with every check on the way.
 *
 * The usual row of global addresses is contiguous and lies in one granule or two: one look into the table of rights
 * does for all lanes. Otherwise each lane is checked, and the granule found last is remembered for the next lane only
 * within the instruction, since rights may change at any time.
 */
#include "softgpu/exec/exec.h"

#include <cuda.h>

#include "softgpu/memory.h"

struct sg_memory sg_memory;
_Atomic(softgpu_absent *) sg_absent;
_Atomic(softgpu_released *) sg_released;

enum { SPREAD_SHIFT = 26, BROUGHT_ROUNDS = 1000 };

static inline uint64_t window_of(uint64_t a) { return a >> 32; }

/* NULL also for a range that is not in one piece: only aligned accesses of up to 16 bytes always are. */
static void *local_piece(const struct exec_warp *w, unsigned lane, uint64_t offset, uint64_t n)
{
    uint64_t size = w->block->grid->local_size;
    return offset <= size && n <= size - offset && (offset & 15) + n <= 16 ? exec_local(w, lane, offset) : NULL;
}

/* The memory may be shut again before this looks: the program's next patch has come meanwhile. Each round waits
   until it is open, so a few rounds are enough; that they end is for accesses of which only a part can be brought. */
__attribute__((noinline)) bool exec_brought(const struct exec_warp *w, uint64_t a, uint64_t n, unsigned rights)
{
    softgpu_absent *absent = atomic_load(&sg_absent);
    if (sg_watch_opens(a, n, w->granule_device, rights))
        return true;
    if (!absent)
        return false;
    for (int round = 0; round < BROUGHT_ROUNDS; round++) {
        if (!absent(a, n, rights & SG_WRITE, w->block->grid->kernel->ptx->name))
            return false;
        if (sg_memory_may(a, n, w->granule_device, rights))
            return true;
    }
    return false;
}

void *exec_address_lane(struct exec_warp *w, unsigned lane, uint64_t a, uint64_t n, unsigned rights)
{
    if (!(a & EXEC_WINDOW_BIT))
        return sg_memory_may(a, n, w->granule_device, rights) || exec_brought(w, a, n, rights) ? (void *)(uintptr_t)a
                                                                                              : NULL;
    uint64_t offset = a & UINT32_MAX, size = 0;
    unsigned char *base = NULL;
    sg_grid *g = w->block->grid;
    switch (window_of(a)) {
    case EXEC_WINDOW_SHARED: {
        const struct exec_block *b = exec_shared_block(w->block, offset);
        offset &= EXEC_SHARED_OFFSET;
        if (b)
            base = b->shared, size = b->shared_size;
        break;
    }
    case EXEC_WINDOW_LOCAL:  return local_piece(w, lane, offset, n);
    case EXEC_WINDOW_PARAM:  base = g->params; size = rights & SG_WRITE ? 0 : g->params_size; break;
    case EXEC_WINDOW_LAUNCH: return exec_buffer_address(w->block, offset, n);
    case EXEC_WINDOW_GRID:   base = (unsigned char *)g->workspace; offset -= 256; size = sizeof g->workspace; break;
    default: break;
    }
    return base && offset <= size && n <= size - offset ? base + offset : NULL;
}

static enum exec_found fault(struct exec_warp *w, const struct exec_insn *i, unsigned lane, uint64_t a, int error)
{
    exec_fault_address(w, i, error,
                       error == CUDA_ERROR_MISALIGNED_ADDRESS ? "misaligned address" : "address that is not mapped",
                       lane, a);
    return EXEC_FOUND_NONE;
}

/* Lane by lane; any mixture of windows. */
static enum exec_found each_lane(struct exec_warp *w, const struct exec_insn *i, const uint64_t *a, uint64_t offset,
                                 unsigned n, unsigned align, unsigned rights)
{
    uint64_t granule = UINT64_MAX;
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at = a[l] + offset;
        if (at & (align - 1))
            return fault(w, i, l, at, CUDA_ERROR_MISALIGNED_ADDRESS);
        if (at >> SG_GRANULE_SHIFT == granule) {      /* aligned: it does not cross into the next */
            w->address[l] = at;
            continue;
        }
        void *p = exec_address_lane(w, l, at, n, rights);
        if (!p)
            return fault(w, i, l, at, CUDA_ERROR_ILLEGAL_ADDRESS);
        if (!(at & EXEC_WINDOW_BIT) && n <= align)
            granule = at >> SG_GRANULE_SHIFT;
        w->address[l] = (uintptr_t)p;
    }
    return EXEC_FOUND_LANES;
}

/* a: NULL when all lanes have the same offset. */
static enum exec_found local_row(struct exec_warp *w, const struct exec_insn *i, const uint64_t *a, uint64_t offset,
                                 unsigned n, unsigned align)
{
    static const uint64_t same[SG_LANES];
    uint64_t size = w->block->grid->local_size;
    struct exec_shape s;
    w->row->local(w->address, a ? a : same, offset, (uintptr_t)w->local, w->mask, &s);
    if (s.all & (align - 1))
        return fault(w, i, (unsigned)__builtin_ctz(w->mask), offset, CUDA_ERROR_MISALIGNED_ADDRESS);
    if (s.most > size || n > size - s.most)
        return fault(w, i, (unsigned)__builtin_ctz(w->mask), s.most, CUDA_ERROR_ILLEGAL_ADDRESS);
    return EXEC_FOUND_LANES;
}

/* Shared memory of several blocks of the cluster, or an address that is wrong. Not inline: in exec_address it would
   cost every gathered access a fifth of its speed. */
__attribute__((noinline)) static enum exec_found cluster_row(struct exec_warp *w, const struct exec_insn *i,
                                                             const void *a, uint64_t offset, unsigned n, unsigned align)
{
    for (uint32_t m = w->mask; m; m &= m - 1) {
        unsigned l = (unsigned)__builtin_ctz(m);
        uint64_t at = (exec_lane(a, i->flags & EXEC_ADDRESS_32 ? SG_CELL_32 : SG_CELL_64, l) + offset) & UINT32_MAX;
        if (at & (align - 1))
            return fault(w, i, l, at, CUDA_ERROR_MISALIGNED_ADDRESS);
        void *p = exec_address_lane(w, l, at | EXEC_WINDOW_BASE(EXEC_WINDOW_SHARED), n, 0);
        if (!p)
            return fault(w, i, l, at, CUDA_ERROR_ILLEGAL_ADDRESS);
        w->address[l] = (uintptr_t)p;
    }
    return EXEC_FOUND_LANES;
}

static enum exec_found shared_row(struct exec_warp *w, const struct exec_insn *i, const void *a, uint64_t offset,
                                  unsigned n, unsigned align)
{
    uint64_t size = w->block->shared_size;
    uintptr_t base = (uintptr_t)w->block->shared;
    struct exec_shape s;
    w->row->shared[i->flags & EXEC_ADDRESS_32 ? 0 : 1](w->address, a, (uint32_t)offset, base, w->mask, n, &s);
    if (s.most > size || n > size - s.most)
        return cluster_row(w, i, a, offset, n, align);
    if (s.all & (align - 1))
        return fault(w, i, (unsigned)__builtin_ctz(w->mask), s.first, CUDA_ERROR_MISALIGNED_ADDRESS);
    if (!s.spread) {
        w->address[0] = w->address[__builtin_ctz(w->mask)];
        return EXEC_FOUND_UNIFORM;
    }
    if (s.contiguous && s.first <= size && (uint64_t)n * SG_LANES <= size - s.first) {
        w->address[0] = base + s.first;
        return EXEC_FOUND_ROW;
    }
    return EXEC_FOUND_LANES;
}

static enum exec_found uniform(struct exec_warp *w, const struct exec_insn *i, uint64_t at, unsigned n, unsigned align,
                               unsigned rights)
{
    unsigned lane = (unsigned)__builtin_ctz(w->mask);
    if (i->space == PTX_SPACE_LOCAL)
        return local_row(w, i, NULL, at, n, align);
    if (i->space == PTX_SPACE_SHARED)
        at = (at & UINT32_MAX) | EXEC_WINDOW_BASE(EXEC_WINDOW_SHARED);
    else if (i->space == PTX_SPACE_PARAM)
        at += EXEC_WINDOW_BASE(EXEC_WINDOW_PARAM);
    if (at & (align - 1))
        return fault(w, i, lane, at, CUDA_ERROR_MISALIGNED_ADDRESS);
    if (window_of(at) == EXEC_WINDOW_LOCAL)
        return local_row(w, i, NULL, at, n, align);
    void *p = exec_address_lane(w, lane, at, n, rights);
    if (!p)
        return fault(w, i, lane, at, CUDA_ERROR_ILLEGAL_ADDRESS);
    w->address[0] = (uintptr_t)p;
    return EXEC_FOUND_UNIFORM;
}

enum exec_found exec_address(struct exec_warp *w, const struct exec_insn *i, unsigned n, unsigned align,
                             unsigned rights)
{
    uint64_t offset = (uint64_t)i->offset;
    if (i->flags & EXEC_ADDRESS_FRAME)
        offset += w->frame->local_base;
    if (i->flags & EXEC_ADDRESS_UNIFORM)
        return uniform(w, i, offset, n, align, rights);
    const uint64_t *a = exec_row(w, i->s[0]);
    if (i->space == PTX_SPACE_SHARED)
        return shared_row(w, i, a, offset, n, align);
    if (i->flags & EXEC_ADDRESS_32) {
        uint64_t *wide = (uint64_t *)(void *)w->temp[1];
        w->row->widen(wide, (const uint32_t *)(const void *)a);
        a = wide;
    }
    if (i->space == PTX_SPACE_LOCAL)
        return local_row(w, i, a, offset, n, align);
    struct exec_shape s;
    w->row->shape(a, offset, w->mask, n, &s);
    uint64_t row = (uint64_t)n * SG_LANES;
    if (s.all & EXEC_WINDOW_BIT || s.all & (align - 1))
        return each_lane(w, i, a, offset, n, align, rights);
    if (s.contiguous) {
        w->address[0] = s.first;
        if (sg_memory_may(s.first, row, w->granule_device, rights))
            return EXEC_FOUND_ROW;
        unsigned low = (unsigned)__builtin_ctz(w->mask), high = 31 - (unsigned)__builtin_clz(w->mask);
        if (sg_memory_may(s.first + (uint64_t)low * n, (uint64_t)(high - low + 1) * n, w->granule_device, rights))
            return EXEC_FOUND_CONTIGUOUS;
    } else if (!s.spread) {
        if (!sg_memory_may(s.first, n, w->granule_device, rights) && !exec_brought(w, s.first, n, rights))
            return fault(w, i, (unsigned)__builtin_ctz(w->mask), s.first, CUDA_ERROR_ILLEGAL_ADDRESS);
        w->address[0] = s.first;
        return EXEC_FOUND_UNIFORM;
    } else if (s.spread >> SPREAD_SHIFT == 0 && n <= align) {
        /* somewhere in one aligned part of the address space: open as a whole, in one look? */
        uint64_t bits = s.spread >> SG_GRANULE_SHIFT ? 63 - (unsigned)__builtin_clzll(s.spread) + 1 : SG_GRANULE_SHIFT;
        uint64_t part = UINT64_C(1) << bits;
        if (bits <= SG_GRANULE_SHIFT ? sg_memory_may(s.first, n, w->granule_device, rights)
                                     : sg_memory_may(s.first & ~(part - 1), part, w->granule_device, rights)) {
            w->row->add64(w->address, a, offset);
            return EXEC_FOUND_LANES;
        }
    }
    return each_lane(w, i, a, offset, n, align, rights);
}
