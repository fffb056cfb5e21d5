/*
 * managed.h: managed memory, as front ends see it (allocation.c, advice.c, prefetch.c). docs/managed-memory.md says how
 * it works and what it promises.
 */
#ifndef FLYT_CLIENT_MANAGED_H
#define FLYT_CLIENT_MANAGED_H

#include "cpu/client/core/core.h"

/* CUmemAttach_flags */
enum { MANAGED_GLOBAL = 1, MANAGED_HOST = 2, MANAGED_SINGLE = 4 };
/* A place of memory, instead of a device: the program's side, and none. As cudaCpuDeviceId and cudaInvalidDeviceId. */
enum { MANAGED_ON_HOST = -1, MANAGED_NOWHERE = -2 };
/* CUmem_advise */
enum managed_advice {
    MANAGED_SET_READ_MOSTLY = 1,
    MANAGED_UNSET_READ_MOSTLY,
    MANAGED_SET_PREFERRED,
    MANAGED_UNSET_PREFERRED,
    MANAGED_SET_ACCESSED_BY,
    MANAGED_UNSET_ACCESSED_BY
};

/* Memory of the context's device that the program may touch, too. flags: MANAGED_GLOBAL or MANAGED_HOST; 1: anything
   else, or size 0. Freed with core_memory_free. 801: not in this session (the server is in this process, with a driver
   whose memory the process cannot touch). */
CORE_API int core_managed_allocate(core_context *, size_t size, unsigned flags, uint64_t *address);
/* Which work may use the allocation, from here on: that of every stream, none, or that of this stream. size: 0 or the
   allocation's. 1: it is no managed memory, or MANAGED_SINGLE and a legacy stream. */
CORE_API int core_managed_attach(core_context *, core_stream, uint64_t address, size_t size, unsigned flags);
/* device: an ordinal, or MANAGED_ON_HOST. 1: the range is not managed; 101: no such device. */
CORE_API int core_managed_advise(uint64_t address, size_t size, enum managed_advice, int device);
/* Memory moves to the device, or to the program (MANAGED_ON_HOST), in the stream's order. Errors as above. */
CORE_API int core_prefetch(core_context *, core_stream, uint64_t address, size_t size, int device);
/* CUmem_range_attribute of the whole range, into size bytes at data. 1: the range is not managed, no such attribute, or
   not the size that it has. */
CORE_API int core_managed_attribute(uint64_t address, size_t size, int attribute, void *data, size_t data_size);

#endif
