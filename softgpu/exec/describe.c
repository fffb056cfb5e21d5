/* describe.c: what a GPU's driver would say of a kernel: its attributes. */
#include <stdatomic.h>

#include "softgpu/exec/exec.h"
#include "softgpu/exec/place.h"
#include "softgpu/exec/pressure.h"

enum { REGISTERS_LEAST = 16, REGISTERS_MOST = 255, REGISTERS_UNIT = 8 };

/* Threads of a block, as the kernel was declared: at most `most`. */
static unsigned declared_threads(const struct ptx_function *f, unsigned most)
{
    for (int pass = 0; pass < 2; pass++) {
        const uint32_t *n = pass ? f->req_ntid : f->max_ntid;
        uint64_t threads = n[0];
        for (int i = 1; i < 3 && threads < most; i++)
            threads *= n[i] ? n[i] : 1;
        if (n[0] && threads < most)
            most = (unsigned)threads;
    }
    return most;
}

/* Those of the kernel and of all that it calls by name; what it calls by pointer is not known. Looked at once: it takes
   about as long as decoding. Two threads at a time come to the same. */
static unsigned registers_needed(const sg_kernel *k)
{
    _Atomic uint32_t *kept = &((sg_kernel *)(uintptr_t)k)->registers;
    const struct ptx_module *m = k->program->module;
    unsigned most = atomic_load_explicit(kept, memory_order_relaxed);
    if (most)
        return most;
    for (uint32_t i = 0; i < m->function_count; i++) {
        const struct exec_function *code = atomic_load_explicit(&k->functions[i], memory_order_acquire);
        struct exec_measures measures;
        if (!code || !code->ptx->defined)
            continue;
        unsigned here = exec_registers_measure(m, code->ptx, &measures)
                            ? exec_registers_weigh(&measures, k->program->engine->limits.max_threads_per_sm)
                            : code->registers;
        most = here > most ? here : most;
    }
    most = most > REGISTERS_MOST ? REGISTERS_MOST : most;
    atomic_store_explicit(kept, most, memory_order_relaxed);
    return most;
}

/* .maxntid, .reqntid, .minnctapersm and .maxnreg bound them, as they bound what ptxas gives. *threads: of a block. */
static unsigned registers_bounded(const sg_kernel *k, unsigned *threads)
{
    const struct sg_limits *l = &k->program->engine->limits;
    const struct ptx_function *f = k->ptx;
    unsigned registers = registers_needed(k), most = REGISTERS_MOST;
    *threads = declared_threads(f, l->max_threads_per_block);
    if (f->max_ntid[0] || f->req_ntid[0]) {
        unsigned all = (*threads + 31) / 32 * 32, blocks = f->min_ncta_per_sm;
        blocks = !blocks ? 1 : blocks > l->max_blocks_per_sm ? l->max_blocks_per_sm : blocks;
        most = l->regs_per_block / (all * blocks) / REGISTERS_UNIT * REGISTERS_UNIT;
        most = most > REGISTERS_MOST ? REGISTERS_MOST : most < REGISTERS_LEAST ? REGISTERS_LEAST : most;
    }
    if (f->max_nreg && f->max_nreg < most)
        most = f->max_nreg;
    return registers < most ? registers : most;
}

void sg_kernel_describe(const sg_kernel *k, struct sg_kernel_info *info)
{
    const struct sg_limits *l = &k->program->engine->limits;
    *info = (struct sg_kernel_info){ .function = k->ptx,
                                     .static_shared = k->static_shared,
                                     .local_bytes = k->local_static,
                                     .uses = k->uses,
                                     .calls_pointers = k->calls_pointers,
                                     .ptx_version = k->program->module->target,
                                     .binary_version = l->cc_major * 10 + l->cc_minor };
    info->registers = registers_bounded(k, &info->max_threads);
    unsigned room = exec_warps_of_registers(l, info->registers) * l->warp_size;
    if (room < info->max_threads)
        info->max_threads = room;
    for (uint32_t v = 0; v < k->program->module->variable_count; v++)
        if (k->program->module->variables[v].space == PTX_SPACE_CONST)
            info->const_bytes += k->program->module->variables[v].size;
}
