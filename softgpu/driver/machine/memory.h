/* memory.h: memory that exists: allocations, and mappings of handles. */
#ifndef SOFTGPU_DRIVER_MACHINE_MEMORY_H
#define SOFTGPU_DRIVER_MACHINE_MEMORY_H

#include "softgpu/driver/machine/device.h"
#include "softgpu/driver/machine/space.h"

enum sgd_memory_kind {
    SGD_MEMORY_DEVICE,
    SGD_MEMORY_HOST,
    SGD_MEMORY_REGISTERED,
    SGD_MEMORY_MANAGED,
    SGD_MEMORY_MAPPED
};

/* Memory that exists: one cuMemAlloc, cuMemHostAlloc …, or one mapping of a cuMemCreate handle. */
struct sgd_memory {
    struct sgd_extent at;
    enum sgd_memory_kind kind;
    struct sgd_context *context;         /* NULL for mappings */
    struct sgd_device *device;
    uint64_t id;
    unsigned flags;                      /* of cuMemHostAlloc, cuMemHostRegister, cuMemAllocManaged */
    bool sync_memops;
    bool announced;                           /* values in it change only where softgpu_look is called behind that */
    bool internal; /* the driver's own: variables of modules, heaps, arrays. The program cannot free it */
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
    bool imported;                       /* another process made it, and counts it as used */
    int64_t offset;
    unsigned handles, mappings;
    CUmemAllocationProp prop;
};

enum { SGD_MEMORY_UNIT = 512 }; /* small allocations begin at its multiples; rows of cuMemAllocPitch are so long */

struct sgd_memory *sgd_memory_find(uint64_t address);
/* Is all of it in one allocation, or in mappings without gaps, and may some device touch it so? */
bool sgd_memory_covers(uint64_t address, uint64_t size, unsigned rights);
/* The devices of the mask may touch the context's device memory from now on, or may not any more. */
void sgd_memory_peer(const struct sgd_context *owner, unsigned devices, bool may);
CUresult sgd_memory_new(struct sgd_context *, struct sgd_device *, enum sgd_memory_kind, size_t, uint64_t *);
/* For variables and heaps of kernels. at: exactly there, else 208; 0: anywhere. */
CUresult sgd_memory_new_code(struct sgd_context *, enum sgd_memory_kind, size_t, uint64_t at, uint64_t *);
void sgd_memory_free(struct sgd_memory *);                             /* DEVICE, HOST, MANAGED, REGISTERED */
/* Under FLYT_SOFTGPU_MEMCHECK: memory that cuMemMap maps there, written before at another address or not; and that
   cuMemUnmap takes away. */
void sgd_watch_mapped(uint64_t at, size_t size, bool written);
void sgd_watch_unmapped(uint64_t at, size_t size);

/* ---- peer.c ---- */

unsigned sgd_peers_of(const struct sgd_context *owner);   /* bit d: device d may touch the context's device memory */
CUresult sgd_peer_enable(struct sgd_context *from, struct sgd_context *to);    /* contexts of different devices */
CUresult sgd_peer_disable(struct sgd_context *from, struct sgd_context *to);
void sgd_peers_forget(const struct sgd_context *);        /* it ends */

#endif
