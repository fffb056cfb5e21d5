/* family.h: the order of grids that kernels launch (family.c). Every call is made under the engine's lock. */
#ifndef SOFTGPU_EXEC_FAMILY_H
#define SOFTGPU_EXEC_FAMILY_H

#include "softgpu/exec/exec.h"

/* Handles of streams in device code (driver_types.h); what kernels create has larger ones. */
enum { EXEC_STREAM_NULL, EXEC_STREAM_LEGACY, EXEC_STREAM_PER_THREAD, EXEC_STREAM_TAIL, EXEC_STREAM_FORGET,
       EXEC_STREAM_CREATED = 0x1000 };
enum exec_family { EXEC_FAMILY_FINE, EXEC_FAMILY_NO_STREAM, EXEC_FAMILY_NO_MEMORY };

/* A kernel of the block launches child. Grids that may start are put at the end of the list *ready (grid->next). */
enum exec_family exec_family_launch(struct exec_block *, sg_grid *child, uint64_t stream, sg_grid **ready);
/* The grid of that task has ended: what waited for it may start. */
void exec_family_over(struct exec_task *, sg_grid **ready);
uint64_t exec_family_create(sg_grid *, bool event);         /* 0: no host memory */
bool exec_family_destroy(sg_grid *, uint64_t handle, bool event);
enum exec_family exec_family_record(struct exec_block *, uint64_t event, uint64_t stream);
enum exec_family exec_family_wait(struct exec_block *, uint64_t stream, uint64_t event);
void exec_family_leave_block(struct exec_block *);          /* the block has ended */
void exec_family_leave(sg_grid *);                          /* the grid has ended: its streams and events go */

#endif
