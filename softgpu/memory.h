/*
 * memory.h: the software GPU's address space, as the executor sees it.
 *
 * Device memory is host memory of this process at the device address itself: a pointer is checked and used. Addresses
 * lie in a few windows (cuMemAddressReserve, cuMemAlloc, pinned and managed memory); within a window each 2 MiB granule
 * has one byte of rights, so the check of an access is a subtraction, a compare and a load. The table is defined in
 * softgpu/exec/address.c, which reads it; softgpu/driver/ fills it in and changes it.
 *
 * Slots are used again after a window went: a reader that loses that race sees a wrong window for an
 * address that was invalid anyway, never memory outside a rights array (those only grow and are kept).
 *
 * Any thread may look while another maps: rights are C11 atomics, read relaxed. Unmapping does not wait
 * for kernels (as on hardware): an access that races with it faults (700), or, if it was checked before,
 * touches fresh pages that the driver leaves there while grids run.
 */
#ifndef SOFTGPU_MEMORY_H
#define SOFTGPU_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cpu/common/softgpu.h"

enum { SG_GRANULE_SHIFT = 21, SG_MAX_WINDOWS = 256 };

enum sg_rights { SG_READ = 1, SG_WRITE = 2 }; /* bits; shifted left by 2*device modulo 4 devices: see sg_rights_of */

struct sg_window {
    _Atomic uint64_t base, size;                    /* size 0: unused slot */
    _Atomic uint8_t *_Atomic rights;                        /* one byte per granule: 2 bits for each of 4 devices */
};

struct sg_memory {
    _Atomic uint32_t window_count;                  /* windows[0..count) are valid; grows only */
    struct sg_window windows[SG_MAX_WINDOWS];
};
extern struct sg_memory sg_memory;                  /* one address space per process, as in CUDA */
extern _Atomic(softgpu_absent *) sg_absent;         /* asked before an access fails; NULL: nobody */
extern _Atomic(softgpu_released *) sg_released;     /* called at fences and releases; or NULL */

/* May `device` (0..3; higher ones share rights with device & 3) touch [address, address+size) so? */
static inline bool sg_memory_may(uint64_t address, uint64_t size, unsigned device, unsigned rights)
{
    uint32_t n = atomic_load_explicit(&sg_memory.window_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        const struct sg_window *w = &sg_memory.windows[i];
        uint64_t extent = atomic_load_explicit(&w->size, memory_order_acquire);
        uint64_t off = address - atomic_load_explicit(&w->base, memory_order_relaxed);
        if (off >= extent || size > extent - off)
            continue;
        _Atomic uint8_t *of = atomic_load_explicit(&w->rights, memory_order_relaxed);
        unsigned want = rights << (2 * (device & 3u));
        uint64_t last = (off + (size ? size - 1 : 0)) >> SG_GRANULE_SHIFT;
        for (uint64_t g = off >> SG_GRANULE_SHIFT; g <= last; g++)
            if ((atomic_load_explicit(&of[g], memory_order_relaxed) & want) != want)
                return false;
        return true;
    }
    return false;
}

/* ---- watch.c: which granules were written ---- */

enum { SG_WATCH_TAKEN = 1, SG_WATCH_NO_MEMORY };
/* Sets a bit of changed[] for each granule of the window that was written since it was asked last, or that became
   memory; the first time, for each that is memory. again: goes on watching; else it ends. Another window is watched:
   SG_WATCH_TAKEN. No part of the driver writes meanwhile; then the caller waits until the turns that are under way in
   each engine have ended (sg_engine_turns_note), before it reads what has changed. */
int  sg_watch_ask(struct sg_window *, uint8_t *changed, bool again);
void sg_watch_drop(const struct sg_window *);   /* the window goes; nobody may touch any of it any more */
/* No right to it was found. If one is to write, and watching has taken the right, it is given back, and the memory
   counts as written. Whether the device, or any one, may touch it so now. */
bool sg_watch_opens(uint64_t address, uint64_t size, unsigned device, unsigned rights);
bool sg_watch_opens_to_any(uint64_t address, uint64_t size, unsigned rights);
/* The device may write there, although the table of rights says that it may not. */
bool sg_watch_holds(uint64_t address, unsigned device);
/* Between these the driver changes rights of the window. False: it is not watched, and there is nothing to unlock. */
bool sg_watch_lock(const struct sg_window *);
void sg_watch_unlock(void);
/* Devices (bits as in the table) have other rights to the granule. open: somebody may touch it. */
void sg_watch_changed(uint64_t granule, unsigned devices, bool open);

#endif
