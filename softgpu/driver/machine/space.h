/* space.h: the address space of the process's devices: reservations, windows, rights, what backs an address. */
#ifndef SOFTGPU_DRIVER_MACHINE_SPACE_H
#define SOFTGPU_DRIVER_MACHINE_SPACE_H

#include "cpu/common/tree.h"
#include "softgpu/driver/machine/state.h"

/* ---- extents.c: address ranges in order ------------------------------------------------------------- */

struct sgd_extent { uint64_t base, size; struct tree_node node; };     /* first member of what is kept */
struct sgd_extents { struct tree tree; };
bool sgd_extents_add(struct sgd_extents *, struct sgd_extent *);       /* false: it has no size, or another is there */
void sgd_extents_remove(struct sgd_extents *, struct sgd_extent *);
void *sgd_extents_find(const struct sgd_extents *, uint64_t address);  /* the one that contains it, or NULL */
void *sgd_extents_lower(const struct sgd_extents *, uint64_t address); /* the first that ends above it, or NULL */
void *sgd_extents_next(const struct sgd_extents *, const struct sgd_extent *);   /* the one behind it, or NULL */

/* ---- space.c --------------------------------------------------------------------------------------- */

CUresult sgd_space_start(void);
/* Address space: size and alignment multiples of the granule. hint 0: none. 0 when there is no room. */
uint64_t sgd_space_reserve(uint64_t size, uint64_t alignment, uint64_t hint);
/* For variables and heaps of kernels; at: exactly there, 0: anywhere. Whole granules. 0: there is no room. */
uint64_t sgd_space_reserve_code(uint64_t size, uint64_t at);
void sgd_space_release(uint64_t base, uint64_t size);
uint64_t sgd_space_reserved(uint64_t address, uint64_t *size);         /* base of the reservation there, or 0 */
/* Backs [base, +size) with private memory, or with a file; takes the memory away again. */
bool sgd_space_back(uint64_t base, uint64_t size, int fd, int64_t offset);
void sgd_space_unback(uint64_t base, uint64_t size);
/* rights: enum sg_rights for each device of the mask. */
void sgd_space_rights(uint64_t base, uint64_t size, unsigned device_mask, unsigned rights);
unsigned sgd_space_rights_of(uint64_t address, int device);
/* Kernels may not touch these granules until their rights are set again, and the driver may. False: no memory. */
bool sgd_space_shut(uint64_t base, uint64_t size);
bool sgd_space_is_shut(uint64_t address, uint64_t size);               /* some of it */
int sgd_space_share(uint64_t base, uint64_t size); /* the same, or part of one where whole granules adjoin */
void sgd_space_unshare(int slot, uint64_t base, uint64_t size);
bool sgd_space_shared(uint64_t address); /* lies in one that share made: perhaps nobody's now */
bool sgd_space_any(uint64_t address, uint64_t size, unsigned rights);  /* some device may touch all of it so */
bool sgd_space_inside(uint64_t address);                               /* an address of ours at all? */
/* A grid starts or ends: while one runs, memory that goes is replaced by fresh pages. */
void sgd_space_grid(bool starts);
/* As sg_watch_ask (softgpu/memory.h), of the window that begins at base. size: bytes of changed[], a bit a granule. The
   caller has the mutex. */
CUresult sgd_space_watch(uint64_t base, uint8_t *changed, uint64_t size, bool again);
/* Held shared while bytes of device memory move, exclusive while memory goes away. */
void sgd_space_hold(void);
void sgd_space_unhold(void);

#endif
