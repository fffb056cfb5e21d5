/*
 * host_memory.c: pinned and registered host memory. It is ordinary memory of this process; what makes it special
 * is that asynchronous copies may use it after the call has returned. Allocations come from the top of the
 * session's window, so that no device address ever equals one of theirs. The GPU cannot reach them.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

enum { HOST_FLAGS = 7, REGISTER_FLAGS = 15 };       /* cudaHostAlloc: portable, mapped, write-combined; cudaHostRegister: … */

/* No copy may still use memory that goes away. */
static int settle_everything(void)
{
    int first = CORE_OK;
    for (int i = 0; i < device_count(); i++) {
        int code = core_device_active(i) ? device_settle(i) : CORE_OK;
        if (!first)
            first = code;
    }
    outs_wait_device(-1, stream_serial());
    return first;
}

static size_t whole_pages(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) & ~(page - 1);
}

int core_host_allocate(size_t size, unsigned flags, void **out)
{
    int code = core_enter();
    if (code)
        return code;
    if (!size || flags & ~(unsigned)HOST_FLAGS)
        return CORE_INVALID_VALUE;
    if (size > core_session.window_size)
        return CORE_OUT_OF_MEMORY;
    uint64_t at = core_session.in_process ? 0 : window_take_top(size);
    void *memory = mmap((void *)(uintptr_t)at, whole_pages(size), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (memory == MAP_FAILED) {
        if (at)
            window_give(at, size);
        return CORE_OUT_OF_MEMORY;
    }
    code = address_add(CORE_PINNED_MEMORY, -1, (uint64_t)(uintptr_t)memory, size, flags);
    if (code) {
        munmap(memory, whole_pages(size));
        return CORE_OUT_OF_MEMORY;
    }
    *out = memory;
    return CORE_OK;
}

int core_host_free(void *host)
{
    int code = core_enter();
    if (code)
        return code;
    struct core_range range;
    if (!address_remove(CORE_PINNED_MEMORY, (uint64_t)(uintptr_t)host, &range))
        return CORE_INVALID_VALUE;
    code = settle_everything();
    uint64_t from = core_session.window, size = core_session.window_size;
    if (range.base - from < size && !core_session.in_process) {
        /* The numbers stay reserved. */
        mmap(host, whole_pages(range.size), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        window_give(range.base, range.size);
    } else {
        munmap(host, whole_pages(range.size));
    }
    return code;
}

int core_host_register(void *host, size_t size, unsigned flags)
{
    int code = core_enter();
    if (code)
        return code;
    if (!host || !size || flags & ~(unsigned)REGISTER_FLAGS || (uint64_t)(uintptr_t)host + size < size)
        return CORE_INVALID_VALUE;
    code = address_add(CORE_REGISTERED_MEMORY, -1, (uint64_t)(uintptr_t)host, size, flags);
    return code == CORE_INVALID_VALUE ? CORE_HOST_ALREADY_REGISTERED : code;
}

int core_host_unregister(void *host)
{
    int code = core_enter();
    if (code)
        return code;
    if (!host)
        return CORE_INVALID_VALUE;
    if (!address_remove(CORE_REGISTERED_MEMORY, (uint64_t)(uintptr_t)host, NULL))
        return CORE_HOST_NOT_REGISTERED;
    return settle_everything();
}

int core_host_device_pointer(void *host, uint64_t *address)
{
    int code = core_enter();
    if (code)
        return code;
    *address = 0;
    return address_pinned(host, 1) ? CORE_NOT_SUPPORTED : CORE_INVALID_VALUE;
}

int core_host_flags(void *host, unsigned *flags)
{
    int code = core_enter();
    struct core_range range;
    if (code)
        return code;
    if (!core_address_lookup((uint64_t)(uintptr_t)host, &range)
        || (range.kind != CORE_PINNED_MEMORY && range.kind != CORE_REGISTERED_MEMORY))
        return CORE_INVALID_VALUE;
    *flags = range.flags;
    return CORE_OK;
}
