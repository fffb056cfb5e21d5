/*
 * host_memory.c: host memory that client, worker and device share.
 *
 * The host window lies directly behind the window of device addresses. Between processes it is the payload area of the
 * channel's shared memory, mapped at that address by both; in one process the server only reserves the addresses, and the
 * client maps what it uses. The client owns the window and says what is in use (HOST_ADD); that is given to the driver as page-locked, and `at` knows for every granule which
 * range it belongs to. The client may write any of it at any time: nothing is believed for standing there.
 *
 * A range is registered through the context of one device, and known to all (portable). When that device is reset, another
 * active one takes it over, or the next that becomes active; until then nothing can be given to a device anyway.
 *
 * Everything under session.lock.
 */
#include "cpu/server/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/common/log.h"

struct host_range {
    uint64_t address, size;
    struct device *device;                /* through whose context it is registered; NULL: not now */
    struct host_range *next;
};

size_t host_memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t half = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 2 : 0;
    return half & ~(uint64_t)(FLYT_HOST_GRANULE - 1);
}

/* ---- the window ---- */

static void *window_map(struct session *session, uint64_t at, uint64_t *size)
{
    struct rpc_shared_memory shared = { .fd = -1 };
    int flags = MAP_FIXED_NOREPLACE | (session->in_process ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED);
    if (session->in_process) {
        *size = session->host.wanted;
    } else {
        *size = rpc_server_shared_memory(session->server, &shared) ? shared.payload_size : 0;
    }
    *size &= ~(uint64_t)(FLYT_HOST_GRANULE - 1);
    if (!*size || !session->gpu->MemHostRegister || !session->gpu->MemHostUnregister || at + *size < at) {
        *size = 0;
        return NULL;
    }
    void *memory = mmap((void *)(uintptr_t)at, *size, session->in_process ? PROT_NONE : PROT_READ | PROT_WRITE, flags, shared.fd,
                        (off_t)shared.payload);
    if (memory != MAP_FAILED && (uint64_t)(uintptr_t)memory == at)
        return memory;
    log_info("event=host-memory-refused session=%llu mib=%llu address=0x%llx why=\"%s\": copies pass through the connection",
             (unsigned long long)session->id, (unsigned long long)(*size >> 20), (unsigned long long)at,
             memory == MAP_FAILED ? strerror(errno) : "an old kernel gave another address");
    if (memory != MAP_FAILED)
        munmap(memory, *size);
    *size = 0;
    return NULL;
}

/* In one process the program may look at its memory as long as it lives, also when its session has ended (in its last
   destructors): it goes with the process, or when another session wants the place. */
static struct { pthread_mutex_t lock; uint64_t base, size; } kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void kept_replace(uint64_t base, uint64_t size)
{
    pthread_mutex_lock(&kept.lock);
    if (kept.size)
        munmap((void *)(uintptr_t)kept.base, kept.size);
    kept.base = base;
    kept.size = size;
    pthread_mutex_unlock(&kept.lock);
}

void host_memory_open(struct session *session, uint64_t at)
{
    struct host_memory *host = &session->host;
    uint64_t size;
    if (session->in_process)
        kept_replace(0, 0);
    void *memory = window_map(session, at, &size);
    if (!memory)
        return;
    madvise(memory, size, MADV_HUGEPAGE);         /* where the system gives them for shared memory */
    madvise(memory, size, MADV_DONTDUMP);         /* writing a core would make every page of it */
    host->at = calloc(size / FLYT_HOST_GRANULE, sizeof(struct host_range *));
    if (!host->at) {
        munmap(memory, size);
        return;
    }
    host->base = at;
    host->size = size;
}

/* Nothing of it is registered. */
void host_memory_close(struct session *session)
{
    struct host_memory *host = &session->host;
    if (host->size && session->in_process && host->ever_used)
        kept_replace(host->base, host->size);
    else if (host->size)
        munmap((void *)(uintptr_t)host->base, host->size);
    free(host->at);
    *host = (struct host_memory){ .wanted = host->wanted };
}

bool host_memory_here(const struct session *session, uint64_t address)
{
    return address - session->host.base < session->host.size;
}

bool host_memory_known(const struct session *session, uint64_t address, uint64_t size)
{
    const struct host_memory *host = &session->host;
    if (!host_memory_here(session, address))
        return false;
    const struct host_range *range = host->at[(address - host->base) / FLYT_HOST_GRANULE];
    return range && size <= range->size - (address - range->address);
}

/* ---- the driver ---- */

static CUresult range_register(struct session *session, struct host_range *range, struct device *device)
{
    void *memory = (void *)(uintptr_t)range->address;
    CUdeviceptr seen = 0;
    CUresult r = device_use(session, device);
    if (r == CUDA_SUCCESS)
        r = session->gpu->MemHostRegister(memory, range->size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    if (r != CUDA_SUCCESS)
        return r;
    r = session->gpu->MemHostGetDevicePointer(&seen, memory, 0);
    if (r != CUDA_SUCCESS || seen != range->address) {
        session->gpu->MemHostUnregister(memory);
        return r ? r : CUDA_ERROR_NOT_SUPPORTED;  /* a device that sees it elsewhere: one address is the point of it all */
    }
    range->device = device;
    return CUDA_SUCCESS;
}

static CUresult range_unregister(struct session *session, struct host_range *range)
{
    CUresult r = range->device ? device_use(session, range->device) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && range->device)
        r = session->gpu->MemHostUnregister((void *)(uintptr_t)range->address);
    if (r == CUDA_SUCCESS)
        range->device = NULL;
    return r;
}

static struct device *active_device(struct session *session, const struct device *but)
{
    for (int i = 0; i < session->device_count; i++)
        if (session->devices[i].context && &session->devices[i] != but)
            return &session->devices[i];
    return NULL;
}

static void range_drop(struct host_memory *host, struct host_range *range)
{
    struct host_range **at = &host->ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    for (uint64_t i = 0; i < range->size / FLYT_HOST_GRANULE; i++)
        host->at[(range->address - host->base) / FLYT_HOST_GRANULE + i] = NULL;
    free(range);
}

/* Every range that no device knows of: by this one, else it is nobody's any more. */
static void ranges_take_over(struct session *session, struct device *device)
{
    struct host_range *next;
    for (struct host_range *range = session->host.ranges; range; range = next) {
        next = range->next;
        if (range->device)
            continue;
        CUresult r = range_register(session, range, device);
        if (r == CUDA_SUCCESS)
            continue;
        log_warning("event=host-memory-lost session=%llu bytes=%llu error=%d: the device has been reset; copies from and to it fail",
                    (unsigned long long)session->id, (unsigned long long)range->size, (int)r);
        range_drop(&session->host, range);
    }
}

void host_memory_device_here(struct session *session, struct device *device)
{
    ranges_take_over(session, device);
}

void host_memory_device_gone(struct session *session, struct device *device)
{
    struct device *other = active_device(session, device);
    for (struct host_range *range = session->host.ranges; range; range = range->next)
        if (range->device == device && range_unregister(session, range) != CUDA_SUCCESS)
            range->device = NULL;             /* it goes with the context */
    if (other)
        ranges_take_over(session, other);
    device_use(session, device);
}

void host_memory_stop(struct session *session)
{
    while (session->host.ranges) {
        range_unregister(session, session->host.ranges);
        range_drop(&session->host, session->host.ranges);
    }
    host_memory_close(session);
}

/* ---- the calls ---- */

static bool host_granules(const struct host_memory *host, const host_args *args, uint64_t *first, uint64_t *count)
{
    uint64_t offset = args->address - host->base;
    if (!args->size || offset >= host->size || args->size > host->size - offset || offset % FLYT_HOST_GRANULE ||
        args->size % FLYT_HOST_GRANULE)
        return false;
    *first = offset / FLYT_HOST_GRANULE;
    *count = args->size / FLYT_HOST_GRANULE;
    return true;
}

/* In one process the client has mapped the memory. The server does not rely on that: it writes marks there, and an address
   without access would end the program. */
static bool range_usable(const struct session *session, const host_args *args)
{
    return !session->in_process || mprotect((void *)(uintptr_t)args->address, args->size, PROT_READ | PROT_WRITE) == 0;
}

void serve_host_add(struct session *session, struct call *call)
{
    const host_args *args = &call->args.host;
    struct host_memory *host = &session->host;
    struct device *device = active_device(session, NULL);
    uint64_t first = 0, count = 0;
    CUresult r = !host_granules(host, args, &first, &count) ? CUDA_ERROR_INVALID_VALUE : device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        if (host->at[first + i])
            r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct host_range *range = r == CUDA_SUCCESS ? calloc(1, sizeof *range) : NULL;
    if (!range && r == CUDA_SUCCESS)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (range && !range_usable(session, args)) {
        free(range);
        range = NULL;
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (range) {
        *range = (struct host_range){ .address = args->address, .size = args->size };
        r = range_register(session, range, device);
    }
    if (r != CUDA_SUCCESS) {
        free(range);
        call_fail(session, call, r);
        return;
    }
    range->next = host->ranges;
    host->ranges = range;
    host->ever_used = true;
    for (uint64_t i = 0; i < count; i++)
        host->at[first + i] = range;
    session_reply_plain(session, call->xid, CUDA_SUCCESS, false);
}

/* Is work of the device's blocking or other streams waiting or under way? What is found complete counts as that. */
static bool device_works(struct session *session, struct device *device, bool blocking)
{
    CUresult usable = device_use(session, device);
    struct stream *stream = NULL;
    while ((stream = stream_busy(session, device, blocking, stream))) {
        if (stream->first)
            return true;
        if (!stream->handle) {                    /* destroyed: its marker tells */
            completion_poll(session, stream);
            if (atomic_load(&stream->done) < stream->received)
                return true;
            continue;
        }
        CUresult r = usable == CUDA_SUCCESS ? session->gpu->StreamQuery(stream->handle) : usable;
        if (r == CUDA_ERROR_NOT_READY)
            return true;
        if (r == CUDA_SUCCESS)
            completion_advance(session, stream, stream->issued);
    }
    return false;
}

/* No operation is waiting or under way in any stream. Asked without waiting: the driver would wait for kernels here, and
   with it everybody who wants the session's lock, perhaps the copy that such a kernel waits for. */
static bool session_idle(struct session *session)
{
    completion_settle(session);                   /* who still has to be told has been told */
    for (int i = 0; i < session->device_count; i++) {
        struct device *device = &session->devices[i];
        if (device->context && (device_works(session, device, false) || device_works(session, device, true)))
            return false;
    }
    return true;
}

void serve_host_remove(struct session *session, struct call *call)
{
    const host_args *args = &call->args.host;
    struct host_memory *host = &session->host;
    uint64_t first, count;
    struct host_range *range = host_granules(host, args, &first, &count) ? host->at[first] : NULL;
    CUresult r = range && range->address == args->address && range->size == args->size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !session_idle(session))
        r = CUDA_ERROR_NOT_READY;
    if (r == CUDA_SUCCESS)
        r = range_unregister(session, range);
    if (r == CUDA_SUCCESS)
        range_drop(host, range);
    session_reply_plain(session, call->xid, r, false);
}
