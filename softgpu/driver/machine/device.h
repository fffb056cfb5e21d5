/* device.h: devices, the machines that grids run on, and contexts. */
#ifndef SOFTGPU_DRIVER_MACHINE_DEVICE_H
#define SOFTGPU_DRIVER_MACHINE_DEVICE_H

#include "cpu/common/lock.h"
#include "cpu/common/tree.h"
#include "softgpu/driver/machine/state.h"
#include "softgpu/engine.h"

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
/* Of all machines: sg_engine_turns_note, sg_engine_turns_passed. A machine that has gone has no turns any more. */
void sgd_turns_note(void);
bool sgd_turns_passed(void);

struct sgd_device {
    int ordinal;
    struct sg_limits limits;
    struct sgd_machine *machine;         /* from the first context on */
    size_t total, used;                  /* total: as at the start; see sgd_device_total */
    struct sgd_context *primary;         /* always there after cuInit; active while retained */
    int64_t pool_end;                    /* next free byte of the backing file; holes are punched, never filled */
    int pool_fd;
};
struct sgd_device *sgd_device(int ordinal);              /* NULL: no such device */
/* What it has now (softgpu_limits), and what of that is free. */
size_t sgd_device_total(const struct sgd_device *);
size_t sgd_device_free(const struct sgd_device *);
unsigned sgd_family_threads(unsigned cc);                        /* of an SM, for a device of that capability */
int sgd_attribute(const struct sgd_device *, int attribute);     /* attributes.c */
CUresult sgd_devices_start(void);                        /* without their primary contexts */
void sgd_devices_describe(void);                         /* sgd_config has another capability; no context is active */
bool sgd_device_take(struct sgd_device *, size_t);       /* accounts memory; false: out of it */
void sgd_device_give(struct sgd_device *, size_t);

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
    sg_heap *heap;                       /* of malloc() in kernels; NULL: no module has needed it (heap.c) */
    uint64_t heap_memory;                /* its address */
    bool heap_wanted, heap_used;         /* a module may call malloc(); one of its kernels was launched */
    sg_print *print;                     /* what its kernels have printed; while active */
    CUfunc_cache cache;
    CUsharedconfig shared_config;
    struct sgd_stream *legacy;           /* the NULL stream */
    struct sgd_stream *streams;          /* all of this context, legacy included */
    struct sgd_stream *per_thread;       /* of them, those of threads */
    struct sgd_stream *fresh;            /* blocking ones that got work since the legacy stream's last operation */
    unsigned busy;                       /* blocking ones with something queued, legacy included */
    struct sgd_module *modules;
    struct sgd_event *events;
    struct tree slabs, code_slabs;       /* memory.c: small allocations are cut from them */
    /* What the next texture or surface object, and the next module, have to be (calls/place.c); 0: as it comes. */
    uint64_t place_object, place_heap;
    struct softgpu_module_place place_module;
};
struct sgd_context *sgd_context_get(CUcontext);          /* by handle; NULL: invalid */
CUresult sgd_context_new(struct sgd_device *, bool primary, unsigned flags, unsigned sm_count, struct sgd_context **);
bool sgd_context_any(void);                              /* one of any device is active, or ends */
CUresult sgd_context_activate(struct sgd_context *);     /* one that is active already stays so */

/* A thread that lets the mutex go and needs the context afterwards holds it meanwhile. A thread that ends the context
   waits until nobody holds it. The context may be inactive (ending) when the holder has the mutex again. */
static inline void sgd_context_hold(struct sgd_context *c)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    c->holders++;
}
static inline void sgd_context_release(struct sgd_context *c)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    if (!--c->holders && c->ending)
        sgd_progress();
}

/* Writes what the context's kernels have printed (native does so at synchronising calls), and releases the context,
   which the caller held. Lets the mutex go meanwhile. */
void sgd_context_flush(struct sgd_context *);
/* Waits for its work and its holders, then destroys all that hangs from it. Lets the mutex go meanwhile. */
void sgd_context_deactivate(struct sgd_context *);
CUresult sgd_context_apply_limits(struct sgd_context *);

CUresult sgd_heap_ensure(struct sgd_context *);          /* for a module whose kernels call malloc() */
/* CUDA_ERROR_INVALID_VALUE once a kernel that may call malloc() was launched. After an error all is as before. */
CUresult sgd_heap_resize(struct sgd_context *, size_t);
/* Makes it, of the size that the limit says, at that address, or 208. */
CUresult sgd_heap_place(struct sgd_context *, uint64_t address);
uint64_t sgd_heap_state_size(const struct sgd_context *);     /* 0: there is no heap */
/* sg_heap_state. 1: there is no heap, or no such part. */
CUresult sgd_heap_state(struct sgd_context *, uint64_t offset, void *bytes, uint64_t size, bool write);

#endif
