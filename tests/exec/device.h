/* device.h: the device on which the executor's tests, its fuzzer and its benchmark run, and its memory. */
#ifndef FLYT_TESTS_EXEC_DEVICE_H
#define FLYT_TESTS_EXEC_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "softgpu/engine.h"
#include "softgpu/memory.h"

/* local_memory: of all threads together, in bytes. */
static inline struct sg_limits device_limits(unsigned sms, size_t local_memory)
{
    return (struct sg_limits){
        .sm_count = sms,
        .cc_major = 12,
        .cc_minor = 1,
        .warp_size = 32,
        .max_threads_per_block = 1024,
        .max_block = { 1024, 1024, 64 },
        .max_grid = { 0x7fffffff, 65535, 65535 },
        .max_threads_per_sm = 1536,
        .max_blocks_per_sm = 24,
        .regs_per_sm = 65536,
        .regs_per_block = 65536,
        .shared_per_sm = 100 << 10,
        .shared_per_block = 48 << 10,
        .shared_per_block_optin = 99 << 10,
        .shared_reserved = 1024,
        .local_memory = local_memory,
        .clock_khz = 2000000,
    };
}

/* A window of `size` bytes, the only one. Kernels may use its granules from `first` to `last`, without that one.
   wish: where it should lie, or 0. rights: one for each granule; they must stay. NULL: the system has no such
   memory. */
static inline unsigned char *device_window_at(uintptr_t wish, size_t size, _Atomic uint8_t *rights, size_t first,
                                              size_t last)
{
    const size_t granule = (size_t)1 << SG_GRANULE_SHIFT;
    void *room = mmap((void *)wish, size + granule, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    const uintptr_t base = ((uintptr_t)room + granule - 1) & ~(uintptr_t)(granule - 1);
    for (size_t i = first; i < last; i++)
        rights[i] = SG_READ | SG_WRITE;
    atomic_store(&sg_memory.windows[0].base, base);
    atomic_store(&sg_memory.windows[0].size, (uint64_t)size);
    atomic_store(&sg_memory.windows[0].rights, rights);
    atomic_store(&sg_memory.window_count, 1);
    return (unsigned char *)base;
}

static inline unsigned char *device_window(size_t size, _Atomic uint8_t *rights, size_t first, size_t last)
{
    return device_window_at(0, size, rights, first, last);
}

#endif
