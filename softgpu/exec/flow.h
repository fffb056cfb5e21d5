/* flow.h: the basic blocks of a function: where each begins, which may follow it, and in which order they are laid out;
   see flow.c and order.c. */
#ifndef SOFTGPU_EXEC_FLOW_H
#define SOFTGPU_EXEC_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "softgpu/ptx/ptx.h"

struct exec_flow {
    const struct ptx_function *f;
    uint32_t blocks;          /* the last one is empty: the return behind the last instruction */
    uint32_t *first;          /* per block its first instruction, and one element more */
    uint32_t *block_of;       /* per instruction; one element more, of the last block */
    uint32_t *next, *next_at; /* block b is followed by next[next_at[b]] … next[next_at[b + 1] - 1] */
};

/* false: no host memory. In both cases, exec_flow_free frees what there is. */
bool exec_flow_build(struct exec_flow *, const struct ptx_function *);
void exec_flow_free(struct exec_flow *);
/* May lanes leave block b at its end, into the block behind it in the text? If so that is the first of its `next`. */
bool exec_flow_falls(const struct exec_flow *, uint32_t b);
/* Do lanes leave the function in block b? Lanes that trap do not: the grid ends. */
bool exec_flow_leaves(const struct exec_flow *, uint32_t b);

/* All blocks, in the order in which their code is to be laid out; the caller frees it. NULL: no host memory. */
uint32_t *exec_order(const struct exec_flow *);

#endif
