/* fault.c: how a kernel's error ends its grid. */
#include "softgpu/exec/exec.h"

#include <stdio.h>

#include "cpu/common/log.h"

void exec_fault_address(struct exec_warp *w, const struct exec_insn *i, int error, const char *what, unsigned lane,
                        uint64_t address)
{
    struct exec_block *b = w->block;
    sg_grid *g = b->grid;
    int none = 0;
    if (atomic_compare_exchange_strong(&g->error, &none, error))
        log_info("softgpu: %s: %s, address %#llx, at PTX line %u, block %u,%u,%u, thread %u of the block: error %d",
                 g->kernel->ptx->name, what, (unsigned long long)address, i ? i->line : 0, b->ctaid[0], b->ctaid[1],
                 b->ctaid[2], w->index * SG_LANES + lane, error);
    b->failed = true;
    exec_leave(w);
}

void exec_fault(struct exec_warp *w, const struct exec_insn *i, int error, const char *what)
{
    exec_fault_address(w, i, error, what, w->mask ? (unsigned)__builtin_ctz(w->mask) : 0, 0);
}
