/* blocks.h: where managed memory comes from (blocks.c). All under spans_lock. */
#ifndef FLYT_CLIENT_MANAGED_BLOCKS_H
#define FLYT_CLIENT_MANAGED_BLOCKS_H

#include <stdint.h>

#include "cpu/client/core/core.h"

/* Device memory of the context that every device may use. A result code. Waits. */
int  block_take(core_context *, uint64_t size, uint64_t *address);
/* No work uses it any more. */
void block_put(core_context *, uint64_t address);
bool block_is_handle(uint64_t address);                     /* it is no part of a heap */
void blocks_forget_context(core_context *);                 /* after its end */
/* The sizes that waste no memory are multiples of this. */
uint64_t block_unit(void);

#endif
