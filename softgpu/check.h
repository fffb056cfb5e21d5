/*
 * check.h: FLYT_SOFTGPU_MEMCHECK. With 1, kernels are watched for accesses beyond an allocation, to freed memory, and
 * for reads of global and shared memory that nothing has written; with `race`, also for races on shared memory within a
 * block. Without it, sg_check is 0: kernels are decoded without any check in them, and nothing here is called.
 *
 * softgpu/driver/ says what is allocated, freed and written from outside kernels. Memory of which it says nothing may
 * be accessed as far as it is mapped.
 */
#ifndef SOFTGPU_CHECK_H
#define SOFTGPU_CHECK_H

#include <stdint.h>

enum { SG_CHECK_MEMORY = 1, SG_CHECK_RACE = 2 };
extern unsigned sg_check;                           /* set once, before the first program is made */

void sg_check_allocated(uint64_t base, uint64_t size);  /* nothing has been written there */
void sg_check_freed(uint64_t base, uint64_t size);
void sg_check_nobodys(uint64_t base, uint64_t size);    /* mapped, but no allocation (yet) */
void sg_check_written(uint64_t base, uint64_t size);    /* what is allocated of it */

#endif
