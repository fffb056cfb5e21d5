/*
 * driver.h: the software GPU's CUDA driver, inside.
 *
 * One mutex (state.c) guards every object of the driver: API functions hold it for their bookkeeping, never
 * while bytes move, host functions run or somebody waits. Kernels run in exec/, copies in two worker
 * threads, host functions in one callback thread (as in NVIDIA's driver, so a host function that blocks
 * holds up the others here too).
 *
 *   state.c      initialisation, the mutex, faults that stick, handles
 *   config.c     what the environment says; domain.c faults that reach other processes
 *   device.c     devices; attributes.c their attributes
 *   context.c    contexts, primary and created; current.c the stack of each thread
 *   extents.c    ordered sets of address ranges
 *   space.c      the address space: windows, rights, what backs an address
 *   vmm.c        cuMemAddressReserve … ; memory.c cuMemAlloc … ; host.c pinned and managed; pointer.c attributes
 *   queue.c      streams as queues of operations; turn.c which of them starts when, the heart; run.c what each does
 *   stream.c, event.c, value.c, copy.c, set.c, launch.c   the calls that put operations there
 *   array.c, texture.c   arrays, texture and surface objects
 *   image.c, module.c, library.c, function.c, occupancy.c  code
 *   errors.c, entry.c (cuGetProcAddress), per_thread.c, symbols.awk (what is not offered)   the rest
 *
 * Handles are tokens, not pointers (a freed or foreign one is recognised). Follows: CUDA Driver API reference.
 */
#ifndef SOFTGPU_DRIVER_H
#define SOFTGPU_DRIVER_H

/* All versions of each function are declared under their own names. */
#define __CUDA_API_VERSION_INTERNAL 1
#define __CUDA_API_PUSH_VISIBILITY_DEFAULT 1
#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/common/tree.h"
#include "softgpu/engine.h"
#include "softgpu/memory.h"

enum {
    SGD_MAX_DEVICES = 16,
    SGD_GRANULE = 1 << SG_GRANULE_SHIFT,
    SGD_MAX_OUTSTANDING = 1024,          /* operations of a stream that the driver takes without blocking */
    SGD_PRIORITY_LEAST = 0, SGD_PRIORITY_GREATEST = -5,
    SGD_LIMITS = 16,                     /* CUlimit values known */
    SGD_STACK_DEPTH = 128                /* contexts pushed per thread */
};

struct sgd_config {                      /* config.c; constant after cuInit */
    unsigned devices, sm_count, cc_major, cc_minor, threads;
    size_t memory;                       /* bytes per device */
    uint64_t chaos;                      /* seed; 0: off */
    bool chaos_oom, fault_gpu;
};
extern struct sgd_config sgd_config;
void sgd_config_read(void);

/* ---- state.c ---------------------------------------------------------------------------------------- */

/* Is the driver usable? Then takes the mutex and returns CUDA_SUCCESS; else the code that the API function
   returns: 3 before cuInit and in the child of a fork, or the fault that sticks. */
CUresult sgd_enter(void);
/* The same, and the calling thread's current context must be usable: 201, 709. */
struct sgd_context;
CUresult sgd_enter_current(struct sgd_context **);
void sgd_leave(void);
extern pthread_mutex_t sgd_mutex;        /* for FLYT_ASSERT_HELD */
void sgd_lock(void);                     /* for threads of our own and for release paths */
void sgd_unlock(void);
void sgd_wait(const uint64_t *deadline_ns);   /* waits for sgd_progress(); the mutex is released meanwhile */
void sgd_wait_on(pthread_cond_t *, const uint64_t *deadline_ns);
void sgd_cond_init(pthread_cond_t *);    /* on CLOCK_MONOTONIC */
void sgd_progress(void);                 /* something that somebody may wait for has changed */
bool sgd_initialised(void);

/* The first fault is kept; every later call returns it. Under the mutex. */
void sgd_fault_raise(CUresult);
CUresult sgd_fault(void);
void sgd_fault_clear_assert(void);

/* domain.c: the fault domain `gpu`. What another process of the card has run into, or CUDA_SUCCESS. */
CUresult sgd_domain_join(void);
void sgd_domain_tell(CUresult);
CUresult sgd_domain_fault(void);

/* Text of the last failure of the calling thread (softgpu_last_log). */
void sgd_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t sgd_random(uint64_t below);     /* chaos; under the mutex; 0 when chaos is off */
uint64_t sgd_now(void);                  /* ns, CLOCK_MONOTONIC */
uint64_t sgd_next_id(void);

enum sgd_kind {
    SGD_FREE, SGD_CONTEXT, SGD_STREAM, SGD_EVENT, SGD_MODULE, SGD_FUNCTION, SGD_LIBRARY, SGD_KERNEL, SGD_PHYSICAL, SGD_ARRAY
};
void *sgd_handle_new(enum sgd_kind, void *object);       /* NULL: out of memory */
void *sgd_handle_get(enum sgd_kind, const void *handle); /* NULL: not one, or no more */
void  sgd_handle_drop(const void *handle);

/* ---- device.c, context.c --------------------------------------------------------------------------- */

/* What grids run on: the whole device, or the SMs of a context with execution affinity. */
struct sgd_machine {
    struct sgd_machine *next;            /* all of them */
    sg_engine *engine;
    struct sgd_device *device;
    struct sg_limits limits;             /* sm_count is the machine's */
};
extern struct sgd_machine *sgd_machines;
CUresult sgd_machine_new(struct sgd_device *, unsigned sm_count, struct sgd_machine **);
void sgd_machine_destroy(struct sgd_machine *);

struct sgd_device {
    int ordinal;
    struct sg_limits limits;
    struct sgd_machine *machine;         /* from the first context on */
    size_t total, used;
    struct sgd_context *primary;         /* always there after cuInit; active while retained */
    unsigned peers;                      /* bit d: device d may touch this device's cuMemAlloc memory */
    int64_t pool_end;                    /* next free byte of the backing file; holes are punched, never filled */
    int pool_fd;
};
struct sgd_device *sgd_device(int ordinal);              /* NULL: no such device */
int sgd_attribute(const struct sgd_device *, int attribute);

struct sgd_stream;
struct sgd_context {
    CUcontext handle;
    struct sgd_device *device;
    struct sgd_machine *machine;         /* while active */
    unsigned sm_count;                   /* execution affinity; 0: none */
    bool primary, active;
    bool ending;                         /* sgd_context_deactivate is at work */
    unsigned holders;                    /* see sgd_context_hold */
    unsigned flags, api_version, retains;
    uint64_t id;
    size_t limits[SGD_LIMITS];
    size_t reserved;                     /* of the device's memory, for stacks and printf */
    sg_heap *heap;                       /* of malloc() in kernels; NULL: no module has needed it */
    sg_print *print;                     /* what its kernels have printed; while active */
    CUfunc_cache cache;
    CUsharedconfig shared_config;
    struct sgd_stream *legacy;           /* the NULL stream */
    struct sgd_stream *streams;          /* all of this context, legacy included */
    struct sgd_stream *per_thread;       /* of them, those of threads */
    struct sgd_stream *fresh;            /* blocking ones that were given work since the legacy stream's last operation */
    unsigned busy;                       /* blocking ones with something queued, legacy included */
    struct sgd_module *modules;
    struct sgd_event *events;
    struct tree slabs;                   /* memory.c: small allocations are cut from them */
    unsigned peer_enabled;               /* bit d: cuCtxEnablePeerAccess to a context of device d */
};
struct sgd_context *sgd_context_get(CUcontext);          /* by handle; NULL: invalid */
struct sgd_context *sgd_context_current(void);           /* of this thread; may be inactive; NULL: none */
CUresult sgd_context_new(struct sgd_device *, bool primary, unsigned flags, unsigned sm_count, struct sgd_context **);
CUresult sgd_context_activate(struct sgd_context *);
/* A thread that lets the mutex go and needs the context afterwards holds it meanwhile. A thread that ends the context waits
   until nobody holds it. The context may be inactive (ending) when the holder has the mutex again. */
void sgd_context_hold(struct sgd_context *);
void sgd_context_release(struct sgd_context *);
/* Writes what the context's kernels have printed (native does so at synchronising calls), and releases the context, which
   the caller held. Lets the mutex go meanwhile. */
void sgd_context_flush(struct sgd_context *);
void sgd_context_deactivate(struct sgd_context *);       /* waits for its work and its holders, then destroys all that hangs from it */
CUresult sgd_context_apply_limits(struct sgd_context *);
bool sgd_current_any(void);                              /* this thread has a current context, be it destroyed */
void sgd_current_forget(CUcontext);                      /* from this thread's stack top (cuCtxDestroy) */
CUresult sgd_current_push(CUcontext);
CUcontext sgd_current_pop(void);

/* ---- extents.c: address ranges in order ------------------------------------------------------------- */

struct sgd_extent { uint64_t base, size; struct tree_node node; };     /* first member of what is kept */
struct sgd_extents { struct tree tree; };
bool sgd_extents_add(struct sgd_extents *, struct sgd_extent *);       /* false: it has no size, or another is there */
void sgd_extents_remove(struct sgd_extents *, struct sgd_extent *);
void *sgd_extents_find(const struct sgd_extents *, uint64_t address);  /* the one that contains it, or NULL */
void *sgd_extents_lower(const struct sgd_extents *, uint64_t address); /* the first that ends above it, or NULL */
void *sgd_extents_next(const struct sgd_extents *, const struct sgd_extent *);   /* the one behind it, or NULL */

/* ---- space.c --------------------------------------------------------------------------------------- */

enum sgd_memory_kind { SGD_MEMORY_DEVICE, SGD_MEMORY_HOST, SGD_MEMORY_REGISTERED, SGD_MEMORY_MANAGED, SGD_MEMORY_MAPPED };

/* Memory that exists: one cuMemAlloc, cuMemHostAlloc …, or one mapping of a cuMemCreate handle. */
struct sgd_memory {
    struct sgd_extent at;
    enum sgd_memory_kind kind;
    struct sgd_context *context;         /* NULL for mappings */
    struct sgd_device *device;
    uint64_t id;
    unsigned flags;                      /* of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged */
    bool sync_memops;
    bool internal;                       /* the driver's own: variables of modules, heaps, arrays. The program cannot free it */
    struct sgd_physical *physical;       /* MAPPED */
    struct sgd_slab *slab;               /* small cuMemAlloc */
    unsigned window;                     /* REGISTERED: slot */
    uint64_t rights_size;                /* bytes of address space behind it, granules */
};
extern struct sgd_extents sgd_memories;

struct sgd_physical {                    /* a cuMemCreate handle */
    CUmemGenericAllocationHandle handle;
    struct sgd_device *device;           /* NULL: host memory */
    size_t size;
    int fd; bool own_fd;
    int64_t offset;
    unsigned handles, mappings;
    CUmemAllocationProp prop;
};

CUresult sgd_space_start(void);
/* Address space: size and alignment multiples of the granule. hint 0: none. 0 when there is no room. */
uint64_t sgd_space_reserve(uint64_t size, uint64_t alignment, uint64_t hint);
void sgd_space_release(uint64_t base, uint64_t size);
uint64_t sgd_space_reserved(uint64_t address, uint64_t *size);         /* base of the reservation there, or 0 */
/* Backs [base, +size) with private memory, or with a file; takes the memory away again. */
bool sgd_space_back(uint64_t base, uint64_t size, int fd, int64_t offset);
void sgd_space_unback(uint64_t base, uint64_t size);
/* rights: enum sg_rights for each device of the mask. */
void sgd_space_rights(uint64_t base, uint64_t size, unsigned device_mask, unsigned rights);
unsigned sgd_space_rights_of(uint64_t address, int device);
int sgd_space_window(uint64_t base, uint64_t size);                    /* a window of its own; slot or -1 */
void sgd_space_unwindow(int slot);
int sgd_space_share(uint64_t base, uint64_t size);                     /* the same, or part of one where whole granules adjoin */
void sgd_space_unshare(int slot, uint64_t base, uint64_t size);
bool sgd_space_shared(uint64_t address);                               /* lies in one that share made: perhaps nobody's now */
bool sgd_space_any(uint64_t address, uint64_t size, unsigned rights);  /* some device may touch all of it so */
bool sgd_space_inside(uint64_t address);                               /* an address of ours at all? */
/* Held shared while bytes of device memory move, exclusive while memory goes away. */
void sgd_space_hold(void);
void sgd_space_unhold(void);

struct sgd_memory *sgd_memory_find(uint64_t address);
/* Is all of it in one allocation, or in mappings without gaps, and may some device touch it so? */
bool sgd_memory_covers(uint64_t address, uint64_t size, unsigned rights);
void sgd_memory_peer(struct sgd_device *, int peer, bool may);
CUresult sgd_memory_new(struct sgd_context *, struct sgd_device *, enum sgd_memory_kind, size_t, uint64_t *);
void sgd_memory_free(struct sgd_memory *);                             /* DEVICE, HOST, MANAGED, REGISTERED */
bool sgd_device_take(struct sgd_device *, size_t);                     /* account; false: out of memory */
void sgd_device_give(struct sgd_device *, size_t);

#include "softgpu/driver/queue.h"
#include "softgpu/driver/code.h"
#include "softgpu/driver/array.h"

#endif
