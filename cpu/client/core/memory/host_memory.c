/*
 * host_memory.c: pinned and registered host memory.
 *
 * Pinned memory lies in the host window (host_space.c), where the device reads and writes it under the address that
 * the program has. Over a network the window is mirrored: the memory is this process's alone, and the server has a copy
 * of what kernels use (mirror.h). Where there is no such window, or no room left in it, it is ordinary memory of this
 * process from the top of the session's window, so that no device address ever equals one of its own; the GPU cannot
 * reach it.
 *
 * Registered memory stays where and what it is, and its copies pass through chunks or calls. With FLYT_REGISTER=remap
 * its pages are replaced by pages of the host window with the same contents, until it is unregistered: then it is the
 * device's as well, under the address in that window. What else happens to lie in its first and last page goes along.
 * Pages that are replaced already, for another range, are left as they are.
 *
 * In both cases asynchronous copies may use the memory after the call has returned.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/env.h"
#include "cpu/common/log.h"
#include "cpu/client/core/api_memory.h"
#include "cpu/client/core/stream/context.h"
#include "host.h"
#include "memory.h"
#include "cpu/client/core/stream/mirror.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/state.h"

/* cudaHostAlloc: portable, mapped, write-combined; cudaHostRegister: … */
enum { HOST_FLAGS = 7, REGISTER_FLAGS = 15, REGISTER_IO = 4 };

/* No copy may still use memory that goes away. */
static int settle_everything(void)
{
    int first = CORE_OK;
    for (core_context *c = context_next(NULL); c; c = context_next(c)) {
        int code = context_settle(c);
        if (!first)
            first = code;
    }
    pending_wait_context(NULL, stream_serial());
    return first;
}

static size_t whole_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & ~(page - 1);
}

/* ---- FLYT_REGISTER=remap ---- */

struct remap {
    uint64_t base, size;              /* as registered */
    uint64_t first, length, alias;    /* its pages, and where the device finds them */
    struct remap *next;
};

static struct {
    pthread_rwlock_t lock;
    struct remap    *first;
    atomic_uint      count;
} remaps = { .lock = PTHREAD_RWLOCK_INITIALIZER };

static bool remap_wanted(void)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const char *text = env_get("FLYT_REGISTER");
    if (!text || !*text)
        return false;
    bool wanted = strcmp(text, "remap") == 0;
    if (wanted && host_space_any())
        return true;
    if (!atomic_flag_test_and_set(&told))
        log_warning(wanted
                        ? "FLYT_REGISTER=%s changes nothing here: this program and its GPU server share no host memory"
                        : "FLYT_REGISTER=%s is ignored: remap is the only value",
                    text);
    return false;
}

static bool remap_overlaps(uint64_t first, uint64_t length)
{
    for (const struct remap *r = remaps.first; r; r = r->next)
        if (first < r->first + r->length && r->first < first + length)
            return true;
    return false;
}

/* A second mapping of the pages at `from`, in place of what is at `at`. At once: no other thread finds a gap. */
static bool remap_show(uint64_t at, uint64_t from, uint64_t length)
{
    void *got = mremap((void *)(uintptr_t)from, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)at);
    if (got == MAP_FAILED)
        return false;
    /* Other things of the program's may lie in these pages: a forked child has them too, though shared. */
    madvise(got, length, MADV_DOFORK);
    return true;
}

/* This thread stores to its stack while the pages are replaced. Those stores would be lost. */
static bool own_stack(uint64_t first, uint64_t length)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes))
        return true;
    bool overlaps = pthread_attr_getstack(&attributes, &lowest, &size) ||
                    ((uintptr_t)lowest < first + length && first < (uintptr_t)lowest + size);
    pthread_attr_destroy(&attributes);
    return overlaps;
}

/* Nothing, where it cannot be: then its copies pass through chunks. */
static void remap_begin(uint64_t base, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = base & ~(page - 1);
    uint64_t length = ((base + size + page - 1) & ~(page - 1)) - first;
    struct remap *r = own_stack(first, length) ? NULL : malloc(sizeof *r);
    pthread_rwlock_wrlock(&remaps.lock);
    uint64_t alias = r && !remap_overlaps(first, length) ? host_space_take(length) : 0;
    if (alias) {
        memcpy((void *)(uintptr_t)alias, (const void *)(uintptr_t)first, length);
        if (!remap_show(first, alias, length)) {
            host_space_give(alias);
            alias = 0;
        }
    }
    if (alias) {
        *r = (struct remap){ base, size, first, length, alias, remaps.first };
        remaps.first = r;
        atomic_fetch_add(&remaps.count, 1);
    } else {
        free(r);
    }
    pthread_rwlock_unlock(&remaps.lock);
}

/* Gives the range pages of its own again. Nothing of the device's uses it any more. */
static void remap_end(uint64_t base)
{
    struct remap **at = &remaps.first, *r;
    pthread_rwlock_wrlock(&remaps.lock);
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    if ((r = *at)) {
        void *own = mmap(NULL, r->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own != MAP_FAILED)
            memcpy(own, (const void *)(uintptr_t)r->first, r->length);
        if (own != MAP_FAILED && mremap(own, r->length, r->length, MREMAP_MAYMOVE | MREMAP_FIXED,
                                        (void *)(uintptr_t)r->first) != MAP_FAILED) {
            host_space_give(r->alias);
            *at = r->next;
            atomic_fetch_sub(&remaps.count, 1);
            free(r);
        } else {
            r->base = r->size = 0;            /* no memory: it keeps the pages that it has */
        }
    }
    pthread_rwlock_unlock(&remaps.lock);
}

static uint64_t remap_find(uint64_t address, uint64_t size)
{
    uint64_t found = 0;
    if (!atomic_load_explicit(&remaps.count, memory_order_relaxed))
        return 0;
    pthread_rwlock_rdlock(&remaps.lock);
    for (const struct remap *r = remaps.first; r && !found; r = r->next)
        if (address - r->base < r->size && size <= r->size - (address - r->base))
            found = r->alias + (address - r->first);
    pthread_rwlock_unlock(&remaps.lock);
    return found;
}

uint64_t host_shared(uint64_t address, size_t size)
{
    return !host_space_any() ? 0 : host_space_holds(address) ? address : remap_find(address, size);
}

/* ---- pinned memory ---- */

/* From the host window; 0: there is none, or no room. */
static int allocate_shared(size_t size, unsigned flags, void **out)
{
    uint64_t at = host_space_take(size);
    if (!at)
        return CORE_NOT_FOUND;
    int code = address_add(CORE_PINNED_MEMORY, NULL, at, size, flags);
    if (!code && mirror_any && (code = mirror_room->add(at, size)))
        address_remove(CORE_PINNED_MEMORY, at, NULL);
    if (code)
        host_space_give(at);
    *out = (void *)(uintptr_t)at;
    return code ? CORE_OUT_OF_MEMORY : CORE_OK;
}

int core_host_allocate(size_t size, unsigned flags, void **out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!size || flags & ~(unsigned)HOST_FLAGS)
        return CORE_INVALID_VALUE;
    if (size > core_session.window_size)
        return CORE_OUT_OF_MEMORY;
    if ((code = allocate_shared(size, flags, out)) != CORE_NOT_FOUND)
        return code;
    uint64_t at = core_session.in_process ? 0 : window_take_top(size);
    void *memory = mmap((void *)(uintptr_t)at, whole_pages(size), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (memory == MAP_FAILED) {
        if (at)
            window_give(at, size);
        return CORE_OUT_OF_MEMORY;
    }
    code = address_add(CORE_PINNED_MEMORY, NULL, (uint64_t)(uintptr_t)memory, size, flags);
    if (code) {
        munmap(memory, whole_pages(size));
        return CORE_OUT_OF_MEMORY;
    }
    *out = memory;
    if (!core_session.in_process && !host_space_any() && !mirror_any)
        atomic_store(&mirror_missing, true);
    return CORE_OK;
}

int core_host_free(void *host)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    struct core_range range;
    if (!address_remove(CORE_PINNED_MEMORY, (uint64_t)(uintptr_t)host, &range))
        return CORE_INVALID_VALUE;
    code = settle_everything();
    uint64_t from = core_session.window, size = core_session.window_size;
    if (host_space_holds(range.base)) {
        if (mirror_any)
            mirror_room->remove(range.base);
        host_space_give(range.base);
        return code;
    }
    if (range.base - from < size && !core_session.in_process) {
        /* The numbers stay reserved. */
        mmap(host, whole_pages(range.size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        window_give(range.base, range.size);
    } else {
        munmap(host, whole_pages(range.size));
    }
    return code;
}

/* Is there memory in all of the range? */
static bool mapped(uintptr_t from, size_t size)
{
    enum { AT_ONCE = 4096 };
    unsigned char resident[AT_ONCE];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = from + size;
    for (from -= from % page; from < end; from += AT_ONCE * page)
        if (mincore((void *)from, end - from < AT_ONCE * page ? end - from : AT_ONCE * page, resident) != 0 &&
            errno == ENOMEM)
            return false;
    return true;
}

/* Pinned or managed memory, which cannot be registered. */
static bool known_otherwise(uint64_t host)
{
    struct core_range range;
    return core_address_lookup(host, &range) && range.kind != CORE_UNKNOWN_MEMORY &&
           range.kind != CORE_REGISTERED_MEMORY;
}

int core_host_register(void *host, size_t size, unsigned flags)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!host || !size || flags & ~(unsigned)REGISTER_FLAGS || (uint64_t)(uintptr_t)host + size < size)
        return CORE_INVALID_VALUE;
    if (flags & REGISTER_IO || !mapped((uintptr_t)host, size)) /* registers of a device: not of another machine's */
        return CORE_INVALID_VALUE;
    if (known_otherwise((uint64_t)(uintptr_t)host))
        return CORE_INVALID_VALUE;
    code = address_add(CORE_REGISTERED_MEMORY, NULL, (uint64_t)(uintptr_t)host, size, flags);
    if (!code && remap_wanted())
        remap_begin((uint64_t)(uintptr_t)host, size);
    return code == CORE_INVALID_VALUE ? CORE_HOST_ALREADY_REGISTERED : code;
}

int core_host_unregister(void *host)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!host)
        return CORE_INVALID_VALUE;
    if (!address_remove(CORE_REGISTERED_MEMORY, (uint64_t)(uintptr_t)host, NULL)) {
        struct core_range range; /* an address inside registered or pinned memory is no registration */
        bool inside = core_address_lookup((uint64_t)(uintptr_t)host, &range) && range.kind != CORE_UNKNOWN_MEMORY;
        return inside ? CORE_INVALID_VALUE : CORE_HOST_NOT_REGISTERED;
    }
    code = settle_everything();
    remap_end((uint64_t)(uintptr_t)host);
    if (mirror_any)
        mirror_room->alias_end((uint64_t)(uintptr_t)host);
    return code;
}

static bool pinned(const void *host, struct core_range *range)
{
    return core_address_lookup((uint64_t)(uintptr_t)host, range) && range->kind != CORE_DEVICE_MEMORY;
}

int core_host_device_pointer(void *host, uint64_t *address)
{
    CANCEL_DEFERRED;
    struct core_range range;
    int code = core_enter();
    if (code)
        return code;
    if (!pinned(host, &range))
        return CORE_INVALID_VALUE;
    uint64_t at = (uint64_t)(uintptr_t)host;
    *address = host_shared(at, 1);
    if (!*address && range.kind == CORE_REGISTERED_MEMORY && mirror_any)
        *address = mirror_room->alias(at, range.base, range.size);
    else if (!*address && mirror_holds(at))
        *address = at;
    return *address ? CORE_OK : CORE_NOT_SUPPORTED;
}

int core_host_map(void *host, uint64_t *address)
{
    CANCEL_DEFERRED;
    int code = core_host_device_pointer(host, address);
    if (!code && mirror_any)
        mirror_room->asked(*address);
    return code;
}

uint64_t core_host_behind(uint64_t address)
{
    CANCEL_DEFERRED;
    return mirror_host(address);
}

bool core_host_reached(void *host)
{
    CANCEL_DEFERRED;
    uint64_t at = (uint64_t)(uintptr_t)host;
    return !core_enter() && (host_shared(at, 1) || mirror_holds(at));
}

int core_host_flags(void *host, unsigned *flags)
{
    enum { DEVICE_MAP = 2 }; /* CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP */
    CANCEL_DEFERRED;
    struct core_range range;
    int code = core_enter();
    if (code)
        return code;
    if (!pinned(host, &range))
        return CORE_INVALID_VALUE;
    *flags = range.flags | DEVICE_MAP; /* all of it is mapped, whatever was asked, where addresses are unified */
    return CORE_OK;
}

/* ---- moving to another server ---- */

int registered_save(struct move *move)
{
    unsigned count = atomic_load(&remaps.count);
    return count ? move_refuse(move, 0, "%u registered ranges have been replaced by memory that is shared with the "
                                        "server (FLYT_REGISTER=remap)", count)
                 : CORE_OK;
}
