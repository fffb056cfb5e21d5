/*
 * pool_shared.h: allocations of pools that other processes export (pool_shared.c). A pool that was imported has none of
 * its own.
 */
#ifndef FLYT_CLIENT_CORE_POOL_SHARED_H
#define FLYT_CLIENT_CORE_POOL_SHARED_H

#include "memory.h"

/* What names a pool: part of what its file holds. No two pools have the same. */
enum { POOL_NAME = 32 };
int pool_name_make(int device, char *name);                 /* a code */
int pool_name_device(const char *name);                     /* of this process; -1: the program does not see it */

/* What names an allocation for other processes; CORE_IPC_SIZE bytes. Waits. A code. */
int pool_pointer_name(const char *pool, struct handle_chunk *, uint64_t address, uint64_t size, void *data);
/* The allocation's address in this process, where other devices may do what `others` says. 1: it is none of that pool,
   a byte of `data` was changed, or it was imported already. Waits. */
int pool_pointer_open(const char *pool, const void *data, const struct rights *others, uint64_t *address);
/* What another device may do with all that was imported from the pool: CUmemAccess_flags. A code. Waits. */
int pool_pointers_access(const char *pool, int device, unsigned access);
/* No work uses the allocation. False: it is none of these. */
bool pool_pointer_close(uint64_t address);
bool pool_pointer_known(uint64_t address);
/* All that were imported from the pool are gone. */
void pool_pointers_forget(const char *pool);
/* How many there are of the pool. */
unsigned pool_pointers_count(const char *pool);

#endif
