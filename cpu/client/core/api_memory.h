/*
 * api_memory.h: device memory, virtual memory, memory of several programs, stream-ordered memory.
 */
#ifndef FLYT_CLIENT_CORE_API_MEMORY_H
#define FLYT_CLIENT_CORE_API_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/api_stream.h"

/* ---- memory (memory.c, address.c) ------------------------------------------------------------------- */

CORE_API int core_memory_info(core_context *, size_t *free_bytes, size_t *total_bytes);
/* 256-byte aligned. Usually no message: from credit already mapped. Out of memory fails here, never later.
   size 0: 1 (the front end turns it into CUDA's answer). */
CORE_API int core_memory_allocate(core_context *, size_t size, uint64_t *address);
/* Implicitly synchronises as cudaFree does while work is outstanding. Also of a pool's memory. Not the start of an
   allocation: 1. */
CORE_API int core_memory_free(uint64_t address);
CORE_API int core_host_allocate(size_t size, unsigned flags, void **out);    /* pinned; cudaHostAlloc flags */
CORE_API int core_host_free(void *);
CORE_API int core_host_register(void *, size_t, unsigned flags);
CORE_API int core_host_unregister(void *);
/* Device address of pinned or registered memory; 801: it has none. core_host_map: the program asks, and may give it to
   kernels by ways that are not seen. */
CORE_API int core_host_device_pointer(void *host, uint64_t *address);
CORE_API int core_host_map(void *host, uint64_t *address);
/* Back again: the host's address of a device address of registered memory; any other address as it is. */
CORE_API uint64_t core_host_behind(uint64_t address);
CORE_API bool core_host_reached(void *host); /* copies on the device may name it */
CORE_API int core_host_flags(void *host, unsigned *flags);

enum core_memory_kind { CORE_UNKNOWN_MEMORY, CORE_DEVICE_MEMORY, CORE_PINNED_MEMORY, CORE_REGISTERED_MEMORY };
/* context: the owner of device memory, else NULL; device: its device, else -1. */
struct core_range {
    enum core_memory_kind kind;
    core_context *context;
    int device;
    uint64_t base;
    size_t size;
    unsigned flags;         /* of host memory: as it was allocated or registered; of device memory: CORE_MANAGED … */
    uint64_t id;            /* no other range of the process has it, or had it */
    bool synchronous;       /* of device memory: synchronous copies and sets of it always wait */
};
enum {
    CORE_MANAGED = 16,           /* the program may touch it, too (cpu/client/managed/managed.h) */
    CORE_HOST_MAPPED = 32        /* a handle of the host's memory is mapped there (handle_host.c) */
};
/* The allocation that contains address; false: none (ordinary memory of the process, or nothing). Symbols of
   loaded modules count as device memory. */
CORE_API bool core_address_lookup(uint64_t address, struct core_range *);
/* Sets range.synchronous of the device memory that contains address (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS); 1: there is
   none. */
CORE_API int core_address_set_synchronous(uint64_t address, bool);

/* ---- virtual memory management (handle.c) -----------------------------------------------------------------------
 * Addresses without memory, memory without addresses, and both brought together, as cuMemAddressReserve, cuMemCreate
 * and cuMemMap do it. What does not fit together gives 1. Sizes and addresses are whole granules. */
typedef uint64_t core_handle;

CORE_API int core_memory_granularity(size_t *bytes);
/* Waits for all work that may use memory of the context; NULL: of any. */
CORE_API int core_memory_settle(core_context *owner);
/* alignment: 0 or a power of two; hint: an address that would be welcome, or 0. 2: no room in the window. */
CORE_API int core_reservation_create(size_t size, size_t alignment, uint64_t hint, uint64_t *address);
/* Addresses that count as memory of the device at once, whatever is mapped there: what graphs will allocate. */
CORE_API int core_reservation_note(int device, size_t size, uint64_t *address);
/* all of it, and nothing is mapped there */
CORE_API int core_reservation_free(uint64_t address, size_t size);
/* shared: it can be exported; 801: not from this server. Waits. */
CORE_API int core_handle_create(int device, size_t size, bool shared, core_handle *);
/* As often as it was created and asked for (core_handle_at). Memory that is mapped stays until it is unmapped. */
CORE_API int core_handle_release(core_handle);
/* Memory of the host, for kernels of every device that is given access. place: where the program wants it. 801: the
   program cannot touch memory of this session. Waits. */
struct core_host_place { int type, id; };    /* CUmemLocation; type 0: it is a device's memory */
CORE_API bool core_handle_host_possible(void);
CORE_API int core_handle_create_host(int device, size_t size, struct core_host_place, core_handle *);
struct core_handle_info { int device; size_t size; bool shared; struct core_host_place place; };
CORE_API int core_handle_info(core_handle, struct core_handle_info *);
CORE_API int core_handle_at(uint64_t address, core_handle *);                /* what is mapped there; to be released */
CORE_API int core_handle_map(uint64_t address, size_t size, core_handle);    /* all of it; waits */
CORE_API int core_handle_unmap(uint64_t address, size_t size);               /* whole mappings; waits for no stream */
/* What a device may do there. access: CUmemAccess_flags. Not 0: also where no access to the memory's device exists. */
CORE_API int core_access_set(uint64_t address, size_t size, int device, unsigned access);      /* waits */
CORE_API int core_access_get(uint64_t address, int device, unsigned *access);
/* What the program itself may do where memory of the host is mapped. 1: it is other memory. 801: access to read only,
   or the program has access to that memory at another address. Waits. */
CORE_API int core_access_set_host(uint64_t address, size_t size, unsigned access);
CORE_API int core_access_get_host(uint64_t address, unsigned *access);

/* ---- what is allocated of such memory (extent.c) ----------------------------------------------------------------
 * A server that watches what kernels do to memory (FLYT_SOFTGPU_MEMCHECK) learns from here which bytes of mapped memory
 * are an allocation. Nothing is sent to other servers. CORE_OK, or the session's error. */
enum core_extent_state { CORE_EXTENT_FREED, CORE_EXTENT_ALLOCATED, CORE_EXTENT_NOBODYS };
CORE_API int core_extent_note(uint64_t address, uint64_t size, enum core_extent_state); /* at once */
/* Notes it behind what the stream has been given. */
CORE_API int core_extent_note_in(core_context *, core_stream, uint64_t address, uint64_t size, enum core_extent_state);

/* ---- memory of several programs (share.c) -----------------------------------------------------------------------
 * Programs of one GPU server can use each other's memory. What one exports is named by random bytes, which it gives to
 * the other as a file descriptor or as a handle of 64 bytes. 801: the server cannot do this (local:, the null device).
 * 1: there is no such memory, or not any more. */

/* 0 or 801. */
CORE_API int core_share_check(void);
/* The descriptor is the caller's: a sealed file in memory, which other processes may get in any way. It does not keep
   the memory. 1: the handle was created without `shared`. The first time it waits. */
CORE_API int core_handle_export(core_handle, int *fd);
/* fd stays the caller's. Waits. */
CORE_API int core_handle_import(int fd, core_handle *);

enum { CORE_IPC_SIZE = 64 };
/* Whether core_ipc_memory_get can name it. */
CORE_API bool core_ipc_capable(const struct core_range *);
/* Names the allocation that holds the address, as long as it is not freed. 1: it is no memory of core_memory_allocate.
   The first time for an allocation it waits. */
CORE_API int core_ipc_memory_get(uint64_t address, void *handle);
/* The address of the allocation's first byte, in this process; the same one if the context has it open already. 201:
   this process has exported it. 217: it is another device's. Waits. */
CORE_API int core_ipc_memory_open(core_context *, const void *handle, uint64_t *address);
/* As often as it was opened. Waits for work that may use it. 1: the address is not open. */
CORE_API int core_ipc_memory_close(uint64_t address);

/* ---- stream-ordered memory (pool.c) ----------------------------------------------------------------------------
 * A pool gives memory in the order of streams: what is freed in a stream can be used again, before the work that used
 * it has ended, by what comes after it. No call here waits, except for memory that a pool lacks. */
typedef uint64_t core_pool;

/* Numbers as CUmemPool_attribute. Values of the first three: whether it is allowed; of the others: bytes. */
enum core_pool_attribute {
    CORE_POOL_FOLLOW_EVENTS = 1,
    CORE_POOL_OPPORTUNISTIC,
    CORE_POOL_INTERNAL_DEPENDENCIES,
    CORE_POOL_RELEASE_THRESHOLD,
    CORE_POOL_RESERVED,
    CORE_POOL_RESERVED_HIGH,
    CORE_POOL_USED,
    CORE_POOL_USED_HIGH
};

CORE_API int core_pool_default(int device, core_pool *);
CORE_API int core_pool_current(int device, core_pool *);
CORE_API int core_pool_set_current(int device, core_pool); /* 1: it is another device's */
/* most: bytes that it may have; 0: no limit. shared: it can be exported; 801: not from this server. */
CORE_API int core_pool_create(int device, uint64_t most, bool shared, core_pool *);
/* As core_handle_export and core_handle_import. From an imported pool nothing can be allocated. */
CORE_API int core_pool_export(core_pool, int *fd);
CORE_API int core_pool_import(int fd, core_pool *);
/* Names an allocation of a pool that can be exported: CORE_IPC_SIZE bytes. Waits. */
CORE_API int core_pool_pointer_export(uint64_t address, void *data);
/* The address of such an allocation in this process, which frees it before the other one does; that waits for all work.
   1: it is not of this pool, or has been imported already. Waits. */
CORE_API int core_pool_pointer_import(core_pool, const void *data, uint64_t *address);
CORE_API int core_pool_destroy(core_pool); /* 1: a default pool. What is allocated stays */
/* readers, writers: other devices that may use the pool's memory; bit d is device d. imported: another process's pool,
   of which nothing can be allocated. 1: no such pool. */
struct core_pool_info { int device; bool shared, imported; uint64_t readers, writers; };
CORE_API int core_pool_info(core_pool, struct core_pool_info *);
/* Gives memory back that nobody uses, until the pool has not more than `keep` bytes. */
CORE_API int core_pool_trim(core_pool, uint64_t keep);
CORE_API int core_pool_get(core_pool, enum core_pool_attribute, uint64_t *value);
CORE_API int core_pool_set(core_pool, enum core_pool_attribute, uint64_t value);
/* access: CUmemAccess_flags. 101: the device cannot reach memory of the pool's device. Waits, but for the pool's own
   device. */
CORE_API int core_pool_access_set(core_pool, int device, unsigned access);
CORE_API int core_pool_access_get(core_pool, int device, unsigned *access);
/* pool 0: the current one of the stream's device. size 0: 1. */
CORE_API int core_pool_allocate(core_context *, core_stream, core_pool, size_t size, uint64_t *address);
/* Frees memory of core_memory_allocate, too; then it waits. */
CORE_API int core_pool_free(core_context *, core_stream, uint64_t address);
CORE_API core_pool core_pool_of(uint64_t address); /* 0: in none */

#endif
