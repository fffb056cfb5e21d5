/* op_special.c: special registers. Those that never change in a warp are rows of the warp (EXEC_ROW_…). */
#include "softgpu/exec/decode.h"

#include <string.h>
#include <time.h>

enum {
    SPECIAL_WARPID = EXEC_ROW_COUNT, SPECIAL_NWARPID, SPECIAL_SMID, SPECIAL_NSMID, SPECIAL_GRIDID,
    SPECIAL_MASK_EQ, SPECIAL_MASK_LE, SPECIAL_MASK_LT, SPECIAL_MASK_GE, SPECIAL_MASK_GT,
    SPECIAL_CLOCK, SPECIAL_CLOCK_HI, SPECIAL_CLOCK64, SPECIAL_TIMER, SPECIAL_TIMER_LO, SPECIAL_TIMER_HI,
    SPECIAL_SMEM_TOTAL, SPECIAL_SMEM_AGGREGATE, SPECIAL_SMEM_DYNAMIC, SPECIAL_SMEM_RESERVED, SPECIAL_SMEM_GROUPS,
    SPECIAL_ENVREG1, SPECIAL_ENVREG2, SPECIAL_GRAPH, SPECIAL_ZERO,
    SPECIAL_CLUSTERID, SPECIAL_NCLUSTERID = SPECIAL_CLUSTERID + 3, SPECIAL_CLUSTER_CTAID = SPECIAL_NCLUSTERID + 3,
    SPECIAL_CLUSTER_NCTAID = SPECIAL_CLUSTER_CTAID + 3, SPECIAL_CLUSTER_RANK = SPECIAL_CLUSTER_NCTAID + 3,
    SPECIAL_CLUSTER_SIZE
};

int exec_special_find(const char *name, int component, unsigned *kind, bool *wide)
{
    static const struct { const char *name; uint8_t kind; bool vector, wide;
    } names[] = {
        { "tid", EXEC_ROW_TID, true, false },
        { "ntid", EXEC_ROW_NTID, true, false },
        { "ctaid", EXEC_ROW_CTAID, true, false },
        { "nctaid", EXEC_ROW_NCTAID, true, false },
        { "laneid", EXEC_ROW_LANEID, false, false },
        { "clusterid", SPECIAL_CLUSTERID, true, false },
        { "nclusterid", SPECIAL_NCLUSTERID, true, false },
        { "cluster_ctaid", SPECIAL_CLUSTER_CTAID, true, false },
        { "cluster_nctaid", SPECIAL_CLUSTER_NCTAID, true, false },
        { "cluster_ctarank", SPECIAL_CLUSTER_RANK, false, false },
        { "cluster_nctarank", SPECIAL_CLUSTER_SIZE, false, false },
        { "warpid", SPECIAL_WARPID, false, false },
        { "nwarpid", SPECIAL_NWARPID, false, false },
        { "smid", SPECIAL_SMID, false, false },
        { "nsmid", SPECIAL_NSMID, false, false },
        { "gridid", SPECIAL_GRIDID, false, true },
        { "lanemask_eq", SPECIAL_MASK_EQ, false, false },
        { "lanemask_le", SPECIAL_MASK_LE, false, false },
        { "lanemask_lt", SPECIAL_MASK_LT, false, false },
        { "lanemask_ge", SPECIAL_MASK_GE, false, false },
        { "lanemask_gt", SPECIAL_MASK_GT, false, false },
        { "clock", SPECIAL_CLOCK, false, false },
        { "clock_hi", SPECIAL_CLOCK_HI, false, false },
        { "clock64", SPECIAL_CLOCK64, false, true },
        { "globaltimer", SPECIAL_TIMER, false, true },
        { "globaltimer_lo", SPECIAL_TIMER_LO, false, false },
        { "globaltimer_hi", SPECIAL_TIMER_HI, false, false },
        { "total_smem_size", SPECIAL_SMEM_TOTAL, false, false },
        { "aggr_smem_size", SPECIAL_SMEM_AGGREGATE, false, false },
        { "dynamic_smem_size", SPECIAL_SMEM_DYNAMIC, false, false },
        /* what the system reserves of a block's shared memory is its beginning */
        { "reserved_smem_offset_begin", SPECIAL_ZERO, false, false },
        { "reserved_smem_offset_end", SPECIAL_SMEM_RESERVED, false, false },
        { "reserved_smem_offset_cap", SPECIAL_SMEM_RESERVED, false, false },
        { "reserved_smem_offset_0", SPECIAL_ZERO, false, false },
        { "reserved_smem_offset_1", SPECIAL_SMEM_GROUPS, false, false },
        { "envreg1", SPECIAL_ENVREG1, false, false },
        { "envreg2", SPECIAL_ENVREG2, false, false },
        { "current_graph_exec", SPECIAL_GRAPH, false, true },
    };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(name, names[k].name)) {
            *wide = names[k].wide;
            *kind = names[k].kind;
            if (names[k].vector) {
                if (component == 3) {
                    *kind = SPECIAL_ZERO;
                    return 0;
                }
                *kind += component > 0 ? (unsigned)component : 0;
            }
            return 0;
        }
    *wide = false;
    *kind = SPECIAL_ZERO;
    if (!strncmp(name, "envreg", 6))
        return 0;
    if (!strncmp(name, "pm", 2)) {
        *wide = strlen(name) > 3 && !strcmp(name + strlen(name) - 3, "_64");
        return 0;
    }
    return -1;
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Cycles of the device's clock, counted from the machine's start, so that loops that wait for cycles take their
   time. */
static uint64_t cycles(const struct exec_warp *w)
{
    uint64_t ns = nanoseconds(CLOCK_MONOTONIC), mhz = w->block->grid->engine->limits.clock_khz / 1000;
    return ns / 1000 * mhz + ns % 1000 * mhz / 1000;
}

static uint32_t cluster_special(const struct exec_block *b, unsigned kind)
{
    const sg_grid *g = b->grid;
    unsigned k = (kind - SPECIAL_CLUSTERID) % 3;
    switch (kind - k) {
    case SPECIAL_CLUSTERID:      return b->ctaid[k] / g->cluster[k];
    case SPECIAL_NCLUSTERID:     return g->launch.grid[k] / g->cluster[k];
    case SPECIAL_CLUSTER_CTAID:  return b->ctaid[k] % g->cluster[k];
    case SPECIAL_CLUSTER_NCTAID: return g->cluster[k];
    default:                     return kind == SPECIAL_CLUSTER_RANK ? b->rank : g->cluster_size;
    }
}

static uint64_t uniform(struct exec_warp *w, unsigned kind)
{
    const sg_grid *g = w->block->grid;
    if (kind >= SPECIAL_CLUSTERID)
        return cluster_special(w->block, kind);
    switch (kind) {
    case SPECIAL_WARPID:         return w->index;
    case SPECIAL_NWARPID:        return g->engine->limits.max_threads_per_sm / SG_LANES;
    /* Always below %nsmid: programs use it as an index. Where there are more SMs than %nsmid, two share a number. */
    case SPECIAL_SMID:           return w->block->sm % g->engine->limits.sm_count;
    case SPECIAL_NSMID:          return g->engine->limits.sm_count;
    case SPECIAL_GRIDID:         return g->id;
    case SPECIAL_CLOCK:
    case SPECIAL_CLOCK64:        exec_poll(w, 32); return cycles(w);
    case SPECIAL_CLOCK_HI:       return cycles(w) >> 32;
    case SPECIAL_TIMER:
    case SPECIAL_TIMER_LO:       exec_poll(w, 32); return nanoseconds(CLOCK_REALTIME);
    case SPECIAL_TIMER_HI:       return nanoseconds(CLOCK_REALTIME) >> 32;
    case SPECIAL_SMEM_TOTAL:     return (g->shared_size + 127) & ~127u; /* in units of allocation */
    case SPECIAL_SMEM_AGGREGATE: return g->shared_size + g->engine->limits.shared_reserved;
    case SPECIAL_SMEM_DYNAMIC:   return g->launch.dynamic_shared;
    case SPECIAL_SMEM_RESERVED:  return g->engine->limits.shared_reserved;
    /* where cooperative groups keeps what tiles of several warps need, 288 bytes */
    case SPECIAL_SMEM_GROUPS:    return g->engine->limits.shared_reserved / 2;
    /* where cooperative groups keeps the grid's barrier; high and low word */
    case SPECIAL_ENVREG1: return g->launch.flags & SG_GRID_COOPERATIVE ? EXEC_WINDOW_BASE(EXEC_WINDOW_GRID) >> 32 : 0;
    case SPECIAL_ENVREG2:        return g->launch.flags & SG_GRID_COOPERATIVE ? 256 : 0;
    case SPECIAL_GRAPH:          return g->launch.graph.current ? g->launch.graph.executable : 0;
    default:                     return 0;
    }
}

void exec_run_explicit_cluster(struct exec_warp *w, const struct exec_insn *i)
{
    *exec_pred(w, i->p) = w->block->grid->cluster_given ? UINT32_MAX : 0;
}

/* Into a temporary row: all lanes are written. */
void exec_run_special(struct exec_warp *w, const struct exec_insn *i)
{
    void *to = w->rows + i->d;
    if (i->kind >= SPECIAL_MASK_EQ && i->kind <= SPECIAL_MASK_GT) {
        uint32_t *row = to;
        for (unsigned l = 0; l < SG_LANES; l++) {
            uint32_t eq = 1u << l, lt = eq - 1;
            row[l] = i->kind == SPECIAL_MASK_EQ   ? eq
                     : i->kind == SPECIAL_MASK_LE ? eq | lt
                     : i->kind == SPECIAL_MASK_LT ? lt
                     : i->kind == SPECIAL_MASK_GE ? ~lt
                                                  : ~(lt | eq);
        }
        return;
    }
    uint64_t value = uniform(w, i->kind);
    if (i->cell == SG_CELL_64)
        w->row->fill64(to, value);
    else
        w->row->fill32(to, (uint32_t)value);
}
