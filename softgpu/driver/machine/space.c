/*
 * space.c: the address space of the process's devices.
 *
 * A main window (address space only, no memory) is taken from the host once; reservations come out of it, at their hint
 * when that is free. What asks for more than a quarter of it, or hints at an address outside, gets a window of its own.
 * Registered host memory is a window each, at the host's own address; ranges of whole granules that follow each other
 * share one that grows, for windows are few and every access looks through them.
 *
 * rights[] of a window is a sparse private mapping, kept with its slot and only ever replaced by a larger one (the
 * old one stays: a kernel may be reading it; slots are few, so is what is lost).
 *
 * Who moves bytes of device memory holds `moving` shared; who takes memory away holds it exclusively, so the driver
 * itself never touches a page that is gone. Kernels are not waited for: that is CUDA's contract. A kernel may stand
 * between its look at rights[] and its access, so while grids run, memory that goes is replaced by fresh zero pages
 * instead of nothing, and a window's address space stays until none runs.
 */
#include "softgpu/driver/machine/machine.h"
#include "cpu/common/address_space.h"
#include "cpu/common/gaps.h"
#include "cpu/common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void sgd_space_unwindow(int slot);

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Address space is free, but ThreadSanitizer leaves little of it: there the smaller ones. */
static const uint64_t main_sizes[] = { 1ull << 40, 256ull << 30, 64ull << 30, 32ull << 30, 4ull << 30 };
/* CODE_PART: one part in so many is for variables and heaps of kernels. Programs have their addresses, so they must be
   free in the process to which a session moves, whatever else has been placed there before. */
enum { MAIN_SIZES = sizeof main_sizes / sizeof *main_sizes, NARROW_SIZE = 2, CODE_PART = 8, LOOKS = 100 };

/* Neither libraries, nor AddressSanitizer, nor the sessions' windows lie there. */
#define MAIN_HINT UINT64_C(0x110000000000)
/* Behind the largest window that a session may have there (ADDRESS_SPACE_LOW), and smaller ones. */
#define MAIN_HINT_NARROW UINT64_C(0x006000000000)

/* room: bytes of rights[]; sharers: registered ranges in a window that grows, 0: it is another kind of window; shut: of
   the same size as rights[], bytes that are not 0 for granules that are shut, NULL: none ever was */
static struct { uint64_t room; bool used; unsigned sharers; _Atomic uint8_t *_Atomic shut; } slots[SG_MAX_WINDOWS];
enum { SHARED_ROOM = 1 << 15 };             /* granules that a shared window can grow to, at least: 64 GiB */
static uint64_t main_base, main_size;
static struct sgd_extents reservations;     /* struct reservation */
static struct gaps main_free, code_free;    /* of the main window; of its last part, from code_base on */
static uint64_t code_base;
static unsigned grids_running;
static pthread_rwlock_t moving = PTHREAD_RWLOCK_INITIALIZER;

static struct grave { struct grave *next; uint64_t base, size; } *graves;   /* windows gone while grids ran */

struct reservation { struct sgd_extent at; int slot; };      /* slot -1: in the main window */

static uint64_t granules(uint64_t size) { return (size + SGD_GRANULE - 1) >> SG_GRANULE_SHIFT; }

static void *take(uint64_t hint, uint64_t size, bool must)
{
    void *p = address_space_take(hint, size, must ? MAP_FIXED_NOREPLACE : 0);
    if (p == MAP_FAILED)
        return NULL;
    if (must && (uint64_t)(uintptr_t)p != hint) {        /* an old kernel takes the flag for a hint */
        address_space_give(p, size);
        return NULL;
    }
    return p;
}

/* Takes address space aligned to the granule (or more), anywhere. */
static uint64_t take_aligned(uint64_t size, uint64_t alignment)
{
    if (alignment < SGD_GRANULE)
        alignment = SGD_GRANULE;
    char *p = take(0, size + alignment, false);
    if (!p)
        return 0;
    uint64_t at = (uint64_t)(uintptr_t)p, base = (at + alignment - 1) & ~(alignment - 1);
    if (base > at)
        address_space_give(p, base - at);
    if (at + alignment > base)
        address_space_give((void *)(uintptr_t)(base + size), at + alignment - base);
    return base;
}

/* ---- windows -------------------------------------------------------------------------------------------- */

static int window_new(uint64_t base, uint64_t size, uint64_t room)
{
    uint32_t count = atomic_load(&sg_memory.window_count);
    uint32_t slot = 0;
    while (slot < count && slots[slot].used)
        slot++;
    if (slot == SG_MAX_WINDOWS) {
        log_warning("software GPU: all %d windows of the address space are in use (large reservations and "
                    "registered host ranges); free some", SG_MAX_WINDOWS);
        return -1;
    }
    struct sg_window *w = &sg_memory.windows[slot];
    uint64_t need = granules(size) < room ? room : granules(size);
    if (slots[slot].room < need) {
        void *rights = mmap(NULL, need, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (rights == MAP_FAILED)
            return -1;
        atomic_store(&w->rights, (_Atomic uint8_t *)rights);
        atomic_store(&slots[slot].shut, NULL);
        slots[slot].room = need;
    }
    slots[slot].used = true;
    atomic_store(&w->base, base);
    atomic_store_explicit(&w->size, size, memory_order_release);
    if (slot == count)
        atomic_store_explicit(&sg_memory.window_count, count + 1, memory_order_release);
    return (int)slot;
}

/* A window of its own: its slot, or -1. */
static int sgd_space_window(uint64_t base, uint64_t size) { return window_new(base, size, 0); }

static bool in_shared(uint32_t slot, uint64_t address, bool or_behind)
{
    const struct sg_window *w = &sg_memory.windows[slot];
    uint64_t off = address - atomic_load(&w->base), size = atomic_load(&w->size);
    return slots[slot].sharers && (off < size || (or_behind && off == size));
}

bool sgd_space_shared(uint64_t address)
{
    bool shared = false;
    for (uint32_t i = 0; i < atomic_load(&sg_memory.window_count) && !shared; i++)
        shared = in_shared(i, address, false);
    return shared;
}

int sgd_space_share(uint64_t base, uint64_t size)
{
    if ((base | size) & (SGD_GRANULE - 1))
        return sgd_space_window(base, size);
    for (uint32_t i = 0; i < atomic_load(&sg_memory.window_count); i++) {
        struct sg_window *w = &sg_memory.windows[i];
        uint64_t end = base + size - atomic_load(&w->base);
        if (!in_shared(i, base, true) || granules(end) > slots[i].room)
            continue;
        if (end > atomic_load(&w->size))     /* release: the rights behind the old end are clear, as in a new window */
            atomic_store_explicit(&w->size, end, memory_order_release);
        slots[i].sharers++;
        return (int)i;
    }
    int slot = window_new(base, size, SHARED_ROOM);
    if (slot >= 0)
        slots[slot].sharers = 1;
    return slot;
}

void sgd_space_unshare(int slot, uint64_t base, uint64_t size)
{
    if (slots[slot].sharers <= 1) {
        slots[slot].sharers = 0;
        sgd_space_unwindow(slot);
        return;
    }
    pthread_rwlock_wrlock(&moving);
    sgd_space_rights(base, size, ~0u, 0);
    pthread_rwlock_unlock(&moving);
    slots[slot].sharers--;
}

static void sgd_space_unwindow(int slot)
{
    struct sg_window *w = &sg_memory.windows[slot];
    uint64_t base = atomic_load(&w->base), size = atomic_load(&w->size);
    pthread_rwlock_wrlock(&moving);
    sgd_space_rights(base, size, ~0u, 0);
    sg_watch_drop(w);
    atomic_store(&w->size, 0);
    slots[slot].used = false;
    pthread_rwlock_unlock(&moving);
}

static struct sg_window *window_of(uint64_t address)
{
    uint32_t count = atomic_load(&sg_memory.window_count);
    for (uint32_t i = 0; i < count; i++) {
        struct sg_window *w = &sg_memory.windows[i];
        if (address - atomic_load(&w->base) < atomic_load(&w->size))
            return w;
    }
    return NULL;
}

bool sgd_space_inside(uint64_t address) { return window_of(address) != NULL; }

static unsigned spread(unsigned device_mask, unsigned rights)
{
    unsigned bits = 0;
    for (unsigned d = 0; d < 32; d++)
        if (device_mask >> d & 1u)
            bits |= rights << (2 * (d & 3u));
    return bits;
}

void sgd_space_rights(uint64_t base, uint64_t size, unsigned device_mask, unsigned rights)
{
    struct sg_window *w = window_of(base);
    if (!w || !size)
        return;
    unsigned clear = spread(device_mask, SG_READ | SG_WRITE), set = spread(device_mask, rights);
    uint64_t off = base - atomic_load(&w->base), last = (off + size - 1) >> SG_GRANULE_SHIFT;
    _Atomic uint8_t *of = atomic_load(&w->rights), *shut = atomic_load(&slots[w - sg_memory.windows].shut);
    const bool watched = sg_watch_lock(w);
    for (uint64_t g = off >> SG_GRANULE_SHIFT; g <= last; g++) {
        atomic_store(&of[g], (uint8_t)((atomic_load(&of[g]) & ~clear) | set));
        if (watched)
            sg_watch_changed(g, clear, set != 0);
        if (shut)
            atomic_store(&shut[g], 0);
    }
    if (watched)
        sg_watch_unlock();
}

bool sgd_space_shut(uint64_t base, uint64_t size)
{
    struct sg_window *w = window_of(base);
    uint32_t slot = w ? (uint32_t)(w - sg_memory.windows) : 0;
    if (!w || !size)
        return false;
    if (!atomic_load(&slots[slot].shut)) {
        void *shut = mmap(NULL, slots[slot].room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1, 0);
        if (shut == MAP_FAILED)
            return false;
        atomic_store(&slots[slot].shut, (_Atomic uint8_t *)shut);
    }
    _Atomic uint8_t *of = atomic_load(&w->rights), *shut = atomic_load(&slots[slot].shut);
    uint64_t off = base - atomic_load(&w->base), last = (off + size - 1) >> SG_GRANULE_SHIFT;
    for (uint64_t g = off >> SG_GRANULE_SHIFT; g <= last; g++) {
        atomic_store(&shut[g], 1);               /* first: who finds no rights must find this */
        atomic_store(&of[g], 0);
    }
    return true;
}

bool sgd_space_is_shut(uint64_t address, uint64_t size)
{
    const struct sg_window *w = window_of(address);
    const _Atomic uint8_t *shut = w ? atomic_load(&slots[w - sg_memory.windows].shut) : NULL;
    uint64_t off = w ? address - atomic_load(&w->base) : 0;
    if (!shut || size > atomic_load(&w->size) - off)
        return false;
    for (uint64_t g = off >> SG_GRANULE_SHIFT, last = (off + size - 1) >> SG_GRANULE_SHIFT; g <= last; g++)
        if (atomic_load(&shut[g]))
            return true;
    return false;
}

unsigned sgd_space_rights_of(uint64_t address, int device)
{
    unsigned rights = 0;
    for (unsigned bit = SG_READ; bit <= SG_WRITE; bit <<= 1)
        if (sg_memory_may(address, 1, (unsigned)device, bit))
            rights |= bit;
    if (sg_watch_holds(address, (unsigned)device))
        rights |= SG_WRITE;
    return rights;
}

static bool open_to_any(uint64_t address, uint64_t size, unsigned rights)
{
    for (unsigned d = 0; d < 4; d++)
        if (sg_memory_may(address, size, d, rights))
            return true;
    return false;
}

/* Shut memory stops kernels only; a part of the piece may be shut. Another thread may open it between the two checks:
   then the first finds no rights, and the second finds nothing shut. So both are made again. */
bool sgd_space_any(uint64_t address, uint64_t size, unsigned rights)
{
    for (int look = 0; look < LOOKS; look++) {
        if (open_to_any(address, size, rights))
            return true;
        if (sg_watch_opens_to_any(address, size, rights))
            return true;
        if (size && sgd_space_is_shut(address, size) && window_of(address) == window_of(address + size - 1))
            return true;
    }
    return false;
}

/* ---- reservations --------------------------------------------------------------------------------------- */

void sgd_space_grid(bool starts) { grids_running = starts ? grids_running + 1 : grids_running - 1; }

/* Takes the lock of who moves bytes: none of them has found a right that is taken away here, and writes later. */
CUresult sgd_space_watch(uint64_t base, uint8_t *changed, uint64_t size, bool again)
{
    struct sg_window *w = window_of(base);
    if (!w || atomic_load(&w->base) != base || size < (granules(atomic_load(&w->size)) + 7) / 8)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_rwlock_wrlock(&moving);
    int result = sg_watch_ask(w, changed, again);
    pthread_rwlock_unlock(&moving);
    return !result ? CUDA_SUCCESS : result == SG_WATCH_TAKEN ? CUDA_ERROR_NOT_PERMITTED : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sgd_space_start(void)
{
    /* At the same place in each process, if it is free: then what the driver places lies at the same addresses there,
       and a session can move (docs/moving.md). */
    const bool narrow = address_space_is_narrow();
    const uint64_t hint = narrow ? MAIN_HINT_NARROW : MAIN_HINT;
    main_size = main_sizes[narrow ? NARROW_SIZE : 0];
    main_base = take(hint, main_size, true) ? hint : 0;
    for (size_t i = narrow ? NARROW_SIZE : 0; i < MAIN_SIZES && !main_base; i++) {
        main_size = main_sizes[i];
        main_base = take_aligned(main_size, SGD_GRANULE);
    }
    code_base = main_base + main_size - main_size / CODE_PART;
    if (!main_base || sgd_space_window(main_base, main_size) < 0 ||
        !gaps_give(&main_free, main_base, code_base - main_base) ||
        !gaps_give(&code_free, code_base, main_size / CODE_PART)) {
        log_error("software GPU: no address space for device memory (%s); raise the limit on %s", strerror(errno),
                  errno == EAGAIN ? "locked memory (ulimit -l), which counts reserved addresses too"
                                  : "virtual memory (ulimit -v)");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static bool is_free(uint64_t base, uint64_t size)
{
    const struct sgd_extent *next = sgd_extents_lower(&reservations, base);
    return !next || next->base >= base + size;
}

static bool in_main(uint64_t base, uint64_t size)
{
    return base >= main_base && base - main_base < main_size && size <= main_size - (base - main_base);
}

static void clear_graves(void)
{
    while (graves && !grids_running) {
        struct grave *g = graves;
        graves = g->next;
        munmap((void *)(uintptr_t)g->base, g->size);
        free(g);
    }
}

static void bury(uint64_t base, uint64_t size)
{
    struct grave *g = grids_running ? malloc(sizeof *g) : NULL;
    if (!g) {
        munmap((void *)(uintptr_t)base, size);
        return;
    }
    *g = (struct grave){ graves, base, size };
    graves = g;
}

uint64_t sgd_space_reserve_code(uint64_t size, uint64_t at)
{
    if (at && (at % SGD_GRANULE || !in_main(at, size)))
        return 0;
    struct reservation *r = calloc(1, sizeof *r);
    struct gaps *from = !at || at >= code_base ? &code_free : &main_free;
    uint64_t base = 0;
    if (r && at)
        base = gaps_take_at(from, at, size) ? at : 0;
    else if (r)
        base = gaps_take(from, size, SGD_GRANULE, 0, false);
    if (!base) {
        free(r);
        return r && !at ? sgd_space_reserve(size, SGD_GRANULE, 0) : 0;
    }
    *r = (struct reservation){ .at = { .base = base, .size = size }, .slot = -1 };
    sgd_extents_add(&reservations, &r->at);
    return base;
}

uint64_t sgd_space_reserve(uint64_t size, uint64_t alignment, uint64_t hint)
{
    struct reservation *r = calloc(1, sizeof *r);
    if (!r)
        return 0;
    clear_graves();
    if (alignment < SGD_GRANULE)
        alignment = SGD_GRANULE;
    uint64_t base = 0;
    bool hinted = hint && !(hint & (alignment - 1)) && hint + size > hint && sgd_random(8) != 7 && is_free(hint, size);
    if (hint && sgd_config.chaos && !hinted)
        log_debug("software GPU: chaos or occupation refuses address %#llx", (unsigned long long)hint);
    r->slot = -1;
    if (hinted && in_main(hint, size))
        base = gaps_take_at(&main_free, hint, size) ? hint : 0;
    else if (hinted && !window_of(hint) && take(hint, size, true))
        base = hint;
    else if (size <= main_size / 4)
        base = gaps_take(&main_free, size, alignment, 0, false);
    if (!base)
        base = take_aligned(size, alignment);
    if (!base) {
        free(r);
        return 0;
    }
    r->at = (struct sgd_extent){ .base = base, .size = size };
    bool own = !in_main(base, size);
    if (own)
        r->slot = sgd_space_window(base, size);
    if (own && r->slot < 0) {
        munmap((void *)(uintptr_t)base, size);
        free(r);
        return 0;
    }
    sgd_extents_add(&reservations, &r->at);
    return base;
}

void sgd_space_release(uint64_t base, uint64_t size)
{
    struct reservation *r = sgd_extents_find(&reservations, base);
    if (!r || r->at.base != base || r->at.size != size)
        return;
    sgd_extents_remove(&reservations, &r->at);
    if (r->slot >= 0) {
        sgd_space_unwindow(r->slot);
        bury(base, size);
    } else {
        gaps_give(base >= code_base ? &code_free : &main_free, base, size);
    }
    free(r);
}

uint64_t sgd_space_reserved(uint64_t address, uint64_t *size)
{
    const struct sgd_extent *e = sgd_extents_find(&reservations, address);
    if (!e)
        return 0;
    *size = e->size;
    return e->base;
}

/* ---- memory behind addresses ---------------------------------------------------------------------------- */

bool sgd_space_back(uint64_t base, uint64_t size, int fd, int64_t offset)
{
    int flags = MAP_FIXED | MAP_NORESERVE | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    return mmap((void *)(uintptr_t)base, size, PROT_READ | PROT_WRITE, flags, fd, fd < 0 ? 0 : offset) != MAP_FAILED;
}

void sgd_space_unback(uint64_t base, uint64_t size)
{
    sgd_space_rights(base, size, ~0u, 0);
    int protection = grids_running ? PROT_READ | PROT_WRITE : PROT_NONE;
    pthread_rwlock_wrlock(&moving);
    if (mmap((void *)(uintptr_t)base, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
        log_error("software GPU: cannot unmap %llu bytes at %#llx: %s", (unsigned long long)size,
                  (unsigned long long)base, strerror(errno));
    pthread_rwlock_unlock(&moving);
}

void sgd_space_hold(void) { pthread_rwlock_rdlock(&moving); }
void sgd_space_unhold(void) { pthread_rwlock_unlock(&moving); }
