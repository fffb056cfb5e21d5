/*
 * core.h: one process's connection to one GPU server, as the Runtime API (cpu/client/runtime/) and the Driver API
 * (cpu/client/driver/) use it.
 *
 * The core owns what a process has once, however many front ends live in it: the session, the order of its
 * calls, ids, the address map, the allocator, the registry of code images, and the sticky error. It has no
 * "current device" and no "last error": those belong to the front ends.
 *
 * Result codes are CUresult values (equal to cudaError_t where both have the code). Every function may also
 * return the session's sticky error, 3 (CUDA_ERROR_NOT_INITIALIZED) in the child of a fork, or what the
 * loss of the connection gives. All functions are thread-safe; a thread that is cancelled inside (pthread_cancel)
 * ends behind the call (cpu/common/cancel.h). A function that is said to wait costs one round trip; the others
 * cost no wait. Handles are tokens, checked before use: a freed, foreign or random one gives 400
 * (CUDA_ERROR_INVALID_HANDLE), never a crash.
 *
 * The files of this folder stand on floors. A file uses its own floor and those above it in this list; tools/circles
 * checks that, and tools/circles.debt names the exceptions with their reasons.
 *
 *   wire/     state.c  the session's state and sticky error;  wire.c  every call passes here;
 *             device.c, pci.c  devices;
 *             notify.c  the server's EVENTS calls;  span.c  the shape of a copy;  perf.c  switches;
 *             stats.c, trace.c, error_log.c  what users and tools can see of calls
 *   stream/   context.c, stream.c, event.c  the objects;  send.c  numbers and order of a stream's calls;
 *             op.c  the table of operations;  progress.c, idle.c  what is known to have ended;
 *             backlog.c, throttle.c  how much may be under way;  pending.c, early_return.c  copies that are not done;
 *             host_function.c;  sequence.c, condition.c  graphs that the server keeps;  managed.c, pool_notes.c  the
 *             way to rooms that are called from here;  move_state.c  which server a move's calls go to
 *   memory/   window.c, address.c  addresses;  memory.c, heap.c, credit.c  cudaMalloc;  handle*.c  virtual memory
 *             management;  pool*.c  stream-ordered memory;  host_*.c  pinned memory;  share*.c, event_shared.c  memory
 *             and events of several programs
 *   copy/     copy.c  plans each copy and chooses its route: copy_in.c, copy_out.c, copy_pending.c, copy_deferred.c;
 *             chunks.c  pieces of shared memory;  lanes*.c  connections for data;  set.c, values.c, array.c
 *   code/     image.c, registered.c, library.c  code as the program names it;  code.c, code_ask.c, code_load.c  how it
 *             comes to a context;  launch.c;  link.c;  texture.c, texref.c, tensor_map.c;  forward.c  the ids of calls
 *             that are only handed on (generated: cpu/api/driver.api)
 *   session/  session.c  the connection;  helper.c  the one thread of the core;  context_life.c  how contexts begin and
 *             end;  kinds.c  the table of all kinds of objects;  move.c, *_move.c  moves to another server;  local.c,
 *             manager.c  where the server is found;  peer.c, usage.c, stats_report.c
 */
#ifndef FLYT_CLIENT_CORE_H
#define FLYT_CLIENT_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/client/core/exported_names.h"

/* A function that front ends call: exported, as flyt_ and its name. */
#define CORE_API __attribute__((visibility("default")))

/* The codes that the core itself gives; numbers as in cuda.h. */
enum core_result {
    CORE_OK = 0,
    CORE_INVALID_VALUE = 1,
    CORE_OUT_OF_MEMORY = 2,
    CORE_NOT_INITIALIZED = 3,
    CORE_DEINITIALIZED = 4,
    CORE_DEVICE_UNAVAILABLE = 46,
    CORE_NO_DEVICE = 100,
    CORE_INVALID_DEVICE = 101,
    CORE_INVALID_IMAGE = 200,
    CORE_INVALID_CONTEXT = 201,
    CORE_NO_BINARY_FOR_GPU = 209,
    CORE_PEER_ACCESS_UNSUPPORTED = 217,
    CORE_INVALID_PTX = 218,
    CORE_INVALID_SOURCE = 300,
    CORE_FILE_NOT_FOUND = 301,
    CORE_OPERATING_SYSTEM = 304,
    CORE_INVALID_HANDLE = 400,
    CORE_NOT_FOUND = 500,
    CORE_NOT_READY = 600,
    CORE_LAUNCH_OUT_OF_RESOURCES = 701,
    CORE_PEER_ACCESS_ALREADY_ENABLED = 704,
    CORE_PEER_ACCESS_NOT_ENABLED = 705,
    CORE_CONTEXT_DESTROYED = 709,
    CORE_HOST_ALREADY_REGISTERED = 712,
    CORE_HOST_NOT_REGISTERED = 713,
    CORE_NOT_SUPPORTED = 801,
    CORE_SYSTEM_NOT_READY = 802,
    CORE_UNKNOWN = 999
};

/* Grows whenever something that a sequence may name has ended or has become another thing: a module, a context, memory
   of the program's own. */
CORE_API uint64_t core_changes(void);

typedef uint64_t core_stream; /* 0: legacy default of the context; or: */
#define CORE_STREAM_LEGACY ((core_stream)1)
#define CORE_STREAM_PER_THREAD ((core_stream)2)

/* ---- session (session.c) ------------------------------------------------------------------------ */

/* Connects, at the first call of the process, to $FLYT_SERVER (default: unix:///run/flyt/server.sock), shakes hands,
   reserves the window. Waits. The failure of the first attempt is explained once on stderr and kept: 802 when no
   server is there, 803 when the versions differ. In the child of a fork: 3, without touching the parent's session. */
CORE_API int core_attach(void);
/* core_attach for a caller that will retain device 0's primary context at once: the server makes it, with its first
   memory, before it answers the handshake, and the caller waits once instead of twice. */
CORE_API int core_attach_to_use(void);
CORE_API bool core_forked(void);
/* The Runtime API has been initialised, which counts for the Driver API too: NVIDIA's runtime calls cuInit. The front
   ends set it and look; the core does neither. */
extern CORE_API atomic_bool core_initialised;

/* First error that stays until the process ends (700, 714-719, loss of the server), or 0; no call is made. */
CORE_API int core_sticky(void);
/* Takes the error of an earlier ASYNC call that a reply delivered since the last take, or 0. The front end
   asks after each call that waited, and returns it from that call. */
CORE_API int core_take_latched(void);

/* Moves the session to the server at `uri`; afterwards all handles and pointers mean what they meant before (docs/
   moving.md). Waits until all work has ended. No other thread may be inside a call, or write to page-locked memory.
   0; else the session is where it was, and `why` (size bytes) says why: 801 where something cannot be moved, another
   code where something failed. */
CORE_API int core_move(const char *uri, char *why, size_t size);

/* Calls that were answered without the server; who answers counts. All is counted with FLYT_STATS only. */
CORE_API void core_count_local(void);

struct core_statistics { uint64_t travelled, waited, local, bytes_sent, bytes_received; unsigned lanes; };
CORE_API void core_statistics(struct core_statistics *);

/* ---- devices (device.c): a snapshot taken at connect, filtered by CUDA_VISIBLE_DEVICES and ordered by
   CUDA_DEVICE_ORDER; a device is its index there ---- */

struct core_device {
    uint8_t uuid[16];
    const char *name, *pci_bus_id;
    uint64_t total_memory;
    int priority_least, priority_greatest;
};
CORE_API int core_device_count(int *count);
CORE_API int core_driver_version(int *version);
CORE_API const struct core_device *core_device(int device);                /* NULL: no such device */
CORE_API int core_device_attribute(int device, int attribute, int *value); /* CUdevice_attribute; unknown: 1 */
/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function]. 1: not such a text; 101:
 * none. */
CORE_API int core_device_by_pci_bus_id(const char *text, int *device);

/* ---- what the programs of this tenant use (usage.c): asked of the server, waits ---- */

enum { CORE_USAGE_DEVICES = 64 };
struct core_usage {
    unsigned pid;                                   /* on the machine where it runs */
    unsigned busy;                                  /* per cent of the last two seconds */
    char     executable[256];
    uint64_t bytes[CORE_USAGE_DEVICES];             /* of each device of the server, in the order of core_device
                                                       without $CUDA_VISIBLE_DEVICES */
};
/* limit: bytes of device memory that they may have together; 0: none. *programs is freed by the caller. 801: the server
   keeps no books, or is of an earlier version. */
CORE_API int core_usage(struct core_usage **programs, unsigned *count, uint64_t *limit);

/* ---- contexts (context.c, context_work.c, context_life.c) ------------------------------------------------------
 * What the driver API calls a context: streams, events, modules and memory belong to one. A device has one primary
 * context, which exists while somebody retains it, and any number of others. Stacks of current contexts belong to the
 * front ends.
 *
 * A context's structure is never freed, so a stale pointer is safe to use: the call gives 709
 * (CUDA_ERROR_CONTEXT_IS_DESTROYED). Only core_context_check finds out a pointer that a program made up: front ends
 * call it where a program hands one in. A structure may become another context's later, as an address of malloc's may.
 */
typedef struct core_context core_context;

/* The device's primary context, whether it exists or not. NULL: there is no such device, or no server. */
CORE_API core_context *core_context_primary(int device);
/* 0; 201: no context was ever there; 709: it was destroyed, or is a primary context that nobody retains. */
CORE_API int core_context_check(const core_context *);
CORE_API bool core_context_active(const core_context *);                    /* it exists */
/* What each call of a front end begins with: 0 when the context can be used, or the code to return. Costs a few
   loads. */
CORE_API int core_context_enter(const core_context *);
/* A primary context gets one more owner; the first one makes it (waits). NULL, or not a primary one: 201. */
CORE_API int core_context_retain(core_context *);
/* One owner less. The last one ends the context as core_context_reset does. 201: it has no owner. */
CORE_API int core_context_release(core_context *);
/* What the Driver API calls the thread's current context, or NULL. The front ends set it; the core does not look. It
   may have ended. */
extern CORE_API _Thread_local core_context *core_current __attribute__((tls_model("initial-exec")));
/* Ends a primary context, whoever retains it: its streams, events and memory are gone (modules come back by
   themselves at their next use). Its owners stay owners, as CUDA says, and release it later.
   Clears 710, never the errors that stay. Waits. */
CORE_API int core_context_reset(core_context *);
/* A further context of the device. flags: as cuCtxCreate takes them. Waits. */
CORE_API int core_context_create(int device, unsigned flags, core_context **);
/* Kernels of the context may touch the peer's device memory, or may not any more. 217: the devices cannot; 704, 705:
   it is so already. Waits. */
CORE_API int core_peer_enable(core_context *, core_context *peer);
CORE_API int core_peer_disable(core_context *, core_context *peer);
/* Ends a context of core_context_create, with all that belongs to it. A primary one: 201. Waits. */
CORE_API int core_context_destroy(core_context *);
/* id: no other context of the process has it, or had it. */
struct core_context_info { int device; unsigned flags; bool primary, active; unsigned owners; uint64_t id; };
/* 201: NULL. */
CORE_API int core_context_info(core_context *, struct core_context_info *);
/* Of a primary context, also while it does not exist, or of any other one. */
CORE_API int core_context_set_flags(core_context *, unsigned flags);
CORE_API int core_context_synchronize(core_context *);                      /* waits */
CORE_API int core_limit_set(core_context *, int limit, size_t value);       /* CUlimit; waits */

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
enum { CORE_MANAGED = 16 };  /* the program may touch it, too (cpu/client/managed/managed.h) */
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
struct core_handle_info { int device; size_t size; bool shared; };
CORE_API int core_handle_info(core_handle, struct core_handle_info *);
CORE_API int core_handle_at(uint64_t address, core_handle *);                /* what is mapped there; to be released */
CORE_API int core_handle_map(uint64_t address, size_t size, core_handle);    /* all of it; waits */
CORE_API int core_handle_unmap(uint64_t address, size_t size);               /* whole mappings; waits for no stream */
/* What a device may do there. access: CUmemAccess_flags. Not 0: also where no access to the memory's device exists. */
CORE_API int core_access_set(uint64_t address, size_t size, int device, unsigned access);      /* waits */
CORE_API int core_access_get(uint64_t address, int device, unsigned *access);

/* ---- what is allocated of such memory (extent.c) ----------------------------------------------------------------
 * A server that watches what kernels do to memory (FLYT_SOFTGPU_MEMCHECK) learns from here which bytes of mapped memory
 * are an allocation. Other servers are told nothing. CORE_OK, or the session's error. */
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

/* ---- copies and memset (copy.c, set.c) --------------------------------------------------------------------------
 * The stream is a token; `blocking` says that the caller is a synchronous function: it returns when native's would.
 * Without it, pageable sources have been taken on return, pinned ones need not; a device-to-host copy into pageable
 * memory has arrived on return, into pinned memory it arrives later, before any synchronisation with its stream
 * returns. A copy between host memory and host memory is done when the function returns, as native. */

struct core_box { uint64_t address; size_t pitch, height; };   /* address: host pointer or device address */
struct core_extent { size_t width, height, depth; };            /* bytes, rows, slices */

/* What the program states about the two addresses. The addresses say how the copy travels; 1: the statement contradicts
   them. The numbers are those of cudaMemcpyKind. */
enum core_direction {
    CORE_HOST_TO_HOST,
    CORE_HOST_TO_DEVICE,
    CORE_DEVICE_TO_HOST,
    CORE_DEVICE_TO_DEVICE,
    CORE_ANY_DIRECTION
};
/* Whether the direction fits what lies at the addresses: 0 or 1. Nothing is sent. */
CORE_API int core_copy_check(const void *to, const void *from, enum core_direction);
CORE_API int core_copy(core_context *, core_stream, void *to, const void *from, size_t size, enum core_direction,
                       bool blocking);
CORE_API int core_copy_box(core_context *, core_stream, const struct core_box *to, const struct core_box *from,
                           const struct core_extent *, enum core_direction, bool blocking);
/* A copy that is made when its turn in the stream comes: ordinary memory of the process is read or written then, by a
   function of the stream (core_host_function). Errors are latched. */
CORE_API int core_copy_box_deferred(core_context *, core_stream, const struct core_box *to, const struct core_box *from,
                                    const struct core_extent *, enum core_direction);
/* Elements of 1, 2 or 4 bytes; extent.width counts elements. */
CORE_API int core_set(core_context *, core_stream, const struct core_box *to, const struct core_extent *,
                      uint32_t value, unsigned element, bool blocking);

/* ---- stream memory operations (values.c) ---- */

/* Numbers as CUstreamBatchMemOpType. */
enum core_value_kind {
    CORE_WAIT_VALUE_32 = 1,
    CORE_WRITE_VALUE_32 = 2,
    CORE_FLUSH_REMOTE_WRITES = 3,
    CORE_WAIT_VALUE_64 = 4,
    CORE_WRITE_VALUE_64 = 5,
    CORE_MEMORY_BARRIER = 6
};
struct core_value {
    enum core_value_kind kind;
    uint64_t address, value;
    unsigned flags;
};
/* The stream does these one after the other. flags: CUstreamWaitValue_flags and so on. 801: a device cannot do it. */
CORE_API int core_values(core_context *, core_stream, const struct core_value *, unsigned count);
/* Whether core_values would take them, in any stream of the context. Nothing is sent. */
CORE_API int core_values_check(core_context *, const struct core_value *, unsigned count);

/* ---- arrays (array.c) -------------------------------------------------------------------------------------------
 * CUDA arrays and mipmapped arrays. The handle is what programs hold. An array belongs to a context and ends with it.
 * Textures and surfaces are forwarded calls (api/forward/core.h), but for the one below. */

typedef uint64_t core_array;
/* As CUDA_ARRAY3D_DESCRIPTOR says it; format: CUarray_format. A dimension that the array lacks is 0. texel: bytes of an
   element, which the core fills in. */
struct core_array_shape { size_t width, height, depth; int format; unsigned channels, flags, texel; };

/* Both wait. 1: no such shape; 801: of this format or with these flags there are none yet. */
CORE_API int core_array_create(core_context *, const struct core_array_shape *, core_array *);
CORE_API int core_mipmap_create(core_context *, const struct core_array_shape *, unsigned levels, core_array *);
/* Waits. A level of a mipmapped array: it belongs to that, and is the same each time. 1: no such level. */
CORE_API int core_mipmap_level(core_array mipmap, unsigned level, core_array *);
/* Waits for the array's context. A level cannot be freed: 400. */
CORE_API int core_array_free(core_array);
CORE_API int core_mipmap_free(core_array);
CORE_API int core_array_shape(core_array, struct core_array_shape *);
CORE_API int core_mipmap_shape(core_array, struct core_array_shape *, unsigned *levels);
/* The bytes of an array from a place on (x in bytes), as a side of a copy: pitch and height are the array's. Valid as
   long as the array is. 1: the extent does not fit. */
CORE_API int core_array_box(core_array, const size_t at[3], const struct core_extent *, struct core_box *);
/* Of a side that core_array_box made: the array, and where in it; false: the address is none in an array. */
CORE_API bool core_array_at(uint64_t address, core_array *, size_t at[3]);
/* core_tex_object_create, after a look at the memory that the texture is made of (texture.c). Waits. 1: NULL where the
   driver has none, or memory that is not the program's; view may be NULL. */
struct CUDA_RESOURCE_DESC;
struct CUDA_TEXTURE_DESC;
struct CUDA_RESOURCE_VIEW_DESC;
CORE_API int core_texture_create(core_context *, uint64_t *texture, const struct CUDA_RESOURCE_DESC *,
                                 const struct CUDA_TEXTURE_DESC *, const struct CUDA_RESOURCE_VIEW_DESC *view);

/* ---- streams and events (stream.c, event.c) --------------------------------------------------------------------- */

CORE_API int core_stream_create(core_context *, unsigned flags, int priority, core_stream *);
CORE_API int core_stream_destroy(core_stream);
CORE_API int core_stream_synchronize(core_context *, core_stream);              /* waits, unless known to be idle */
CORE_API int core_stream_query(core_context *, core_stream);                    /* 0, 600 or an error */
struct core_stream_info { core_context *context; int device; unsigned flags; int priority; uint64_t id; };
CORE_API int core_stream_info(core_context *, core_stream, struct core_stream_info *);

/* Attributes of streams, by the numbers of CUlaunchAttributeID (stream_attributes.c). 1: streams have none of that
   number; 400: no stream. value: as CUlaunchAttributeValue. */
CORE_API int core_stream_get_attribute(core_context *, core_stream, int id, void *value);
CORE_API int core_stream_set_attribute(core_context *, core_stream, int id, const void *value);
CORE_API int core_stream_copy_attributes(core_context *, core_stream to, core_stream from);
/* Whether any stream ever had an attribute set; if not, core_stream_attributes_add need not be called. */
CORE_API extern atomic_bool core_stream_attributes_set;

typedef uint64_t core_event;
CORE_API int core_event_create(core_context *, unsigned flags, core_event *);
CORE_API int core_event_destroy(core_event);
CORE_API int core_event_check(core_event); /* 0, or 400: there is no such event */
/* Checks an event that a launch is to record (attributes 7 and 12); 1: it keeps times, or other processes know it,
   which CUDA's reference forbids. */
CORE_API int core_event_check_of_launch(core_event);
CORE_API int core_event_record(core_context *, core_event, core_stream, unsigned flags);
CORE_API int core_event_synchronize(core_event);
CORE_API int core_event_query(core_event);
CORE_API int core_event_elapsed(core_event start, core_event end, float *milliseconds);
CORE_API int core_stream_wait(core_context *, core_stream, core_event, unsigned flags);
/* The event, which is the context's (400), stands for all that the context's streams have been given so far. */
CORE_API int core_context_record(core_context *, core_event);
/* All that the context's streams are given from now on waits for the event, also in streams that are made later. */
CORE_API int core_context_wait(core_context *, core_event);
/* A name of CORE_IPC_SIZE bytes for other programs of the server (share.c); from now on each call about the event waits
   for the server. 400: the event was not made for it. */
CORE_API int core_ipc_event_get(core_event, void *handle);
/* 1: it is no such name; 201: the event is of this process. Waits. */
CORE_API int core_ipc_event_open(core_context *, const void *handle, core_event *);

/* function(user, status) runs in a thread of the core's once the stream's earlier work has finished; later work of
   the stream waits for it. on_error: also after an error, with it as status (cudaStreamAddCallback); else only
   after success (cudaLaunchHostFunc). */
CORE_API int core_host_function(core_context *, core_stream, void (*function)(void *user, int status), void *user,
                                bool on_error);
/* Whether the caller is such a function. Its stream waits for it, so it must not wait for any: the front ends refuse
   (800). */
CORE_API bool core_in_host_function(void);

/* ---- sequences (sequence.c) --------------------------------------------------------------------------------------
 * What a graph gives its streams at each launch. The server keeps it, and one message gives it to the streams again.
 * The caller sees to it that one thread at a time uses a sequence. */
typedef struct core_sequence core_sequence;

enum { CORE_SEQUENCE_STREAMS = 32 };  /* beside the stream of the launch */

/* 801: the server keeps none, or FLYT_PERF=no_graph. */
CORE_API int core_sequence_create(core_sequence **);
CORE_API void core_sequence_destroy(core_sequence *);
/* From here up to core_sequence_end, what the caller gives these streams and *stand_in is kept, and not sent. No other
   thread may use the streams meanwhile. *stand_in stands for the stream of a launch, which is one of `context`. */
CORE_API int core_sequence_begin(core_sequence *, core_context *, const core_stream *streams, unsigned count,
                                 core_stream *stand_in);
/* Launches, conditions, stream memory operations, event records and waits, copies and sets that need nothing of this
   process can be kept. A function that was
   to give a stream anything else has returned 600, and this false; all that was kept since `mark` is forgotten. */
CORE_API uint32_t core_sequence_mark(const core_sequence *);
CORE_API bool core_sequence_kept(core_sequence *, uint32_t mark);
/* Ends a segment: what one launch gives the streams at once. false: it would be empty, and is none. */
CORE_API bool core_sequence_cut(core_sequence *);
/* Sends the server what it does not have yet; with `good` false forgets all that was kept since the begin. 2: the
   session's graphs have no more room; the sequence is empty then. */
CORE_API int core_sequence_end(core_sequence *, bool good);
/* segment: from 0, in the order of core_sequence_cut. */
CORE_API int core_sequence_launch(core_sequence *, core_context *, core_stream, unsigned segment);

/* ---- conditions (condition.c) --------------------------------------------------------------------------------------
 * Parts of a graph that the server runs, or runs again, as a word of device memory says when their turn in the stream
 * has come. The stream goes on when they are complete. One thread at a time uses a condition. */
typedef struct core_condition core_condition;

enum { CORE_CONDITION_DEPTH = 16 }; /* so many conditions inside each other at most, as the server allows */
/* Numbers as CUgraphConditionalNodeType. What each does with its bodies says cpu_rpc_prot.x. */
enum core_condition_kind { CORE_IF = 0, CORE_WHILE = 1, CORE_SWITCH = 2 };
enum { CORE_NO_CONDITION = -1 };

/* 0, or 801: the server, or its GPU, has none. */
CORE_API int core_condition_offered(void);
/* word: the address of 4 bytes. What the caller gives *stand_in from core_condition_body on becomes the next body:
   launches, conditions, copies and sets that need nothing of this process. *stand_in goes with the condition. */
CORE_API int core_condition_create(core_context *, uint64_t word, enum core_condition_kind, core_condition **,
                                   core_stream *stand_in);
CORE_API int core_condition_body(core_condition *);
/* Gives it to the stream. 801: a body was given something else; 2: the bodies have too many calls, or no memory. */
CORE_API int core_condition_submit(core_condition *, core_context *, core_stream);
CORE_API void core_condition_destroy(core_condition *);

/* ---- graphs that kernels launch (condition.c) ----------------------------------------------------------------------
 * `executable` is what the program, and its kernels, name an executable graph by; never 0. */

/* 0, or 801: the server, or its GPU, has none. */
CORE_API int core_device_graphs_offered(void);
/* From this place in the stream on, a kernel that launches the graph starts what the only body has; the condition's
   kind is CORE_NO_CONDITION. 801 and 2: as core_condition_submit. */
CORE_API int core_device_graph_set(core_condition *, core_context *, core_stream, uint64_t executable);
/* No kernel can launch it any more. */
CORE_API void core_device_graph_drop(uint64_t executable);
/* Behind all work of a launch: the stream waits for what its kernels have launched. */
CORE_API int core_graph_end(core_context *, core_stream, uint64_t executable);

/* ---- code (code.c, image.c) ----------------------------------------------------------------------------------------
 * An image is one registered fat binary (wrapper or raw) of the process; loading it into a context happens at first
 * use. A function or variable is found by image and name. */
typedef struct core_image core_image;
typedef struct core_function core_function;
typedef struct core_variable core_variable;

/* wrapper: magic 0x466243B1 (version 1 or 2), or a container, PTX text or cubin. Nothing is read from it before the
   first use; it must live until core_image_remove. Never fails for lack of a server. */
CORE_API int core_image_add(const void *wrapper, core_image **);
/* Adds an image, reads it at once (200: it cannot be read) and keeps a copy of it. */
CORE_API int core_image_add_copy(const void *wrapper, core_image **);
/* Loads it into the context, which otherwise its first use does. *log: the compiler's words about a failure, which the
   caller frees, or NULL; log may be NULL. Waits. */
CORE_API int core_image_load(core_context *, core_image *, char **log);
CORE_API void core_image_remove(core_image *);             /* also its functions and variables; unloads if connected */
struct core_link_input {
    int type;  /* CUjitInputType */
    bool text; /* PTX; its last byte is the NUL */
    const void *data;
    size_t size;
    const char *name; /* for messages */
};
/* Has the driver behind the server link the inputs. *image: the result, with a NUL behind its `size` bytes; the caller
   frees it. image may be NULL: then the driver only takes (and compiles) the inputs. *log: the linker's words about a
   failure, or unchanged; the caller frees it. Waits. */
CORE_API int core_link(core_context *, const struct core_link_input *, unsigned count, void **image, size_t *size,
                       char **log);
/* Same arguments, same object. The name is copied. */
CORE_API int core_function_add(core_image *, const char *name, core_function **);
/* Adds a function that the image may lack: 500, and nothing on stderr. Loads the image into the context. Waits. */
CORE_API int core_function_find(core_context *, core_image *, const char *name, core_function **);
/* The names of the image's functions; the caller frees the array, which holds the names too. 801: the driver behind the
   server does not tell. Loads the image into the context. Waits. */
CORE_API int core_image_functions(core_context *, core_image *, char ***names, unsigned *count);
/* Whether a program's handle is a function whose image was not removed: 0 or 400. Its image and its name; both may be
 * NULL. */
CORE_API int core_function_check(const core_function *, core_image **, const char **name);
/* The image's functions, of which `get` has room for *count, and their number in *count. get NULL: only the number.
   801, which is printed: as above. Loads the image into the context. Waits. */
CORE_API int core_image_list(core_context *, core_image *, core_function **get, unsigned *count);
/* A whole file, with a NUL behind its `size` bytes; the caller frees it. 301: it cannot be read; 200: it is empty. */
CORE_API int core_file_read(const char *path, void **, size_t *size);
CORE_API int core_variable_add(core_image *, const char *name, size_t size, bool is_constant, core_variable **);

/* Libraries (library.c): images of the program's that belong to no context. Handles that are none are found out and
   never followed. preserved: the code stays as long as the library, so no copy is needed. */
typedef struct core_library core_library;
CORE_API int core_library_load(const void *code, bool preserved, core_library **);
CORE_API int core_library_load_file(const char *path, core_library **);
CORE_API int core_library_unload(core_library *);          /* 400: there is none */
CORE_API core_image *core_library_image(const core_library *);       /* NULL: there is none */
CORE_API core_library *core_library_of(const core_image *); /* NULL: the image is no library's */
/* Set by a front end that keeps something about libraries; called before one is unloaded. */
extern CORE_API void (*core_library_ends)(core_library *);

struct core_parameter { uint32_t offset, size; };
/* The attributes stand in the order of CUfunction_attribute, so each has a name here and a number. A program can set
   those from CORE_FUNCTION_SETTABLE on. */
enum { CORE_FUNCTION_ATTRIBUTES = 16, CORE_FUNCTION_SETTABLE = 8 };
/* A kernel, or what it calls, launches graphs or asks for its own; it launches kernels. */
enum { CORE_USES_GRAPHS = 1, CORE_USES_CHILDREN = 2 };
struct core_function_info {
    const struct core_parameter *parameters; uint32_t parameter_count; uint32_t parameter_bytes;
    union {
        struct {
            int max_threads, shared_bytes, const_bytes, local_bytes, registers, ptx_version, binary_version;
            int cache_mode_ca, max_dynamic_shared, preferred_carveout, cluster_must_be_set, cluster_width;
            int cluster_height, cluster_depth, non_portable_cluster, cluster_policy;
        };
        int attributes[CORE_FUNCTION_ATTRIBUTES];
    };
    unsigned uses;      /* CORE_USES_...; 0 where the server does not tell */
};
/* Loads the image into the context if need be. Waits, the first time per context. The error is the one that native
   gives at the first launch, and is explained once on stderr with the compiler's log. */
CORE_API int core_function_info(core_context *, core_function *, const struct core_function_info **);
/* CUfunction_attribute; waits */
CORE_API int core_function_set(core_context *, core_function *, int attribute, int value);
CORE_API int core_variable_address(core_context *, core_variable *, uint64_t *address, size_t *size);
CORE_API int core_occupancy_blocks(core_context *, core_function *, int block_size, size_t shared, unsigned flags,
                                   int *blocks);

struct core_launch;
/* How large a cluster of such a launch may be (size), or how many run at a time on the device. Waits. */
CORE_API int core_occupancy_clusters(core_context *, const struct core_launch *, bool size, int *answer);

/* TILED: as cuTensorMapEncodeTiled; the first `rank` numbers of each kind count. IM2COL: as cuTensorMapEncodeIm2col;
   `box` has the channels and the pixels, and the corners have `rank` - 2 numbers. IM2COL_WIDE: as
   cuTensorMapEncodeIm2colWide; `box` has the channels, the pixels and the mode, and the corners have one number. The
   server's driver writes the map, which has 128 bytes. Both wait. */
enum core_tensor_kind { CORE_TENSOR_TILED, CORE_TENSOR_IM2COL, CORE_TENSOR_IM2COL_WIDE };
struct core_tensor {
    enum core_tensor_kind kind;
    uint64_t address, dims[5], strides[5];
    uint32_t rank, box[5], steps[5];
    int lower[3], upper[3];
    int type, interleave, swizzle, promotion, fill;
};
CORE_API int core_tensor_map_encode(core_context *, const struct core_tensor *, void *map);
CORE_API int core_tensor_map_replace(core_context *, void *map, uint64_t address);

struct core_launch_attribute { int id; uint8_t value[64]; };
struct core_launch {
    core_function *function;
    core_stream stream;
    uint32_t grid[3], block[3];
    size_t shared;
    bool cooperative;
    bool of_node;                              /* of a graph: what the program may change was allowed to the node */
    void **arguments;                          /* one pointer per parameter; or NULL with packed/packed_size */
    const void *packed; size_t packed_size;
    const struct core_launch_attribute *attributes; uint32_t attribute_count;
};
/* Gives a launch the attributes of its stream that it does not have itself; `room` holds its attributes then. */
enum { CORE_LAUNCH_ATTRIBUTES = 32 };
CORE_API int core_stream_attributes_add(core_context *, struct core_launch *,
                                        struct core_launch_attribute room[CORE_LAUNCH_ATTRIBUTES]);
/* Before a graph is launched into the stream. Its work counts as the stream's, whichever streams it goes through: what
   the program wrote into managed memory goes to the device. */
CORE_API int core_graph_begins(core_context *, core_stream);
/* Checks what native checks at the launch (dimensions, shared memory, cooperative fit), then sends. */
CORE_API int core_launch(core_context *, const struct core_launch *);
/* Launches as a part of a graph: its kernels can launch others. current: they can ask which graph it is. */
CORE_API int core_launch_in_graph(core_context *, const struct core_launch *, uint64_t executable, bool current);
/* The checks of core_launch, of everything but the stream and the parameters; nothing is sent. */
CORE_API int core_launch_check(core_context *, const struct core_launch *);
/* Those of one attribute's value that need no launch: 0 or 1. */
CORE_API int core_launch_attribute_check(core_context *, const struct core_launch_attribute *);

/* ---- the log of errors (error_log.c): what cuLogs… and cudaLogs… show ----------------------------------------------
 * All front ends share it. No connection is needed, and none is made. */

enum core_log_level { CORE_LOG_ERROR, CORE_LOG_WARNING };
/* Why a call is about to fail, for the program's author. One line, cut at 199 bytes. */
CORE_API void core_log(enum core_log_level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A call of the program's returns this code. Runs the program's callbacks, so the caller holds no lock. code_name may
   be NULL. */
CORE_API void core_log_failure(int code, const char *code_name, const char *function);

typedef void core_log_function(void *user, int level, char *message, size_t length);
/* 1: no function. handle may be NULL. */
CORE_API int core_log_register(core_log_function *, void *user, void **handle);
/* Waits for the callback where other threads are inside it. 1: no callback has the handle. */
CORE_API int core_log_unregister(void *handle);
/* The iterator of the next message. */
CORE_API uint32_t core_log_end(void);
/* Each writes the messages from *iterator on (iterator NULL: all), and moves *iterator to the end. 1: there was never
   such an iterator; the file cannot be written; or no message fits into the buffer, whose size *size says: then *size
   becomes 0, else the length of what was written before its NUL. */
CORE_API int core_log_dump_to_file(uint32_t *iterator, const char *path);
CORE_API int core_log_dump_to_memory(uint32_t *iterator, char *buffer, size_t *size);

/* One line on stderr, once per name, that something unsupported was asked for. */
CORE_API void core_unsupported(const char *name);

#endif
