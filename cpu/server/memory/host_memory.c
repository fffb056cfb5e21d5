/*
 * host_memory.c: host memory that client, worker and device share.
 *
 * The host window lies directly behind the window of device addresses. Between processes it is the payload area of the
 * channel's shared memory, mapped at that address by both; in one process the server only reserves the addresses, and
 * the client maps what it uses. The client owns the window and says what is in use (HOST_ADD); that is given to the
 * driver as page-locked, and `at` knows for every granule which range it belongs to. The client may write any of it at
 * any time: nothing is believed for standing there.
 *
 * Where the two sides share no memory (over a network), the window is mirrored: what HOST_ADD gives is memory of this
 * process, and mirror.c keeps it equal to the client's. At most `limit` bytes of it are added at one time.
 *
 * A range is registered through one context, and known to all (portable). When that context ends, another one takes the
 * range over, or the next that is made; until then nothing can be given to a device anyway.
 *
 * Everything under session.lock.
 */
#include "cpu/server/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cpu/common/address_space.h"
#include "cpu/common/log.h"

size_t host_memory_default(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t half = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 2 : 0;
    return half & ~(uint64_t)(FLYT_HOST_GRANULE - 1);
}

/* ---- the window ---- */

/* Addresses are free, but a client reserves them, too. */
#define MIRROR_SIZE (UINT64_C(64) << 30)

/* ThreadSanitizer takes an address that it cannot watch for 0, and ends the program when it gets that. */
static bool may_be_mapped(uint64_t at, uint64_t size)
{
    if (!address_space_is_narrow())
        return true;
    void *got = address_space_take(at, size, MAP_FIXED_NOREPLACE);
    const bool free = got == (void *)(uintptr_t)at;
    if (got != MAP_FAILED)
        address_space_give(got, size);
    return free;
}

static void *window_map(struct session *session, uint64_t at, uint64_t *size)
{
    struct rpc_shared_memory shared = { .fd = -1 };
    bool sharing = !session->in_process && rpc_server_shared_memory(session->server, &shared) && shared.payload_size;
    int flags = MAP_FIXED_NOREPLACE | (sharing ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    session->host.mirrored = !session->in_process && !sharing;
    session->host.refused = false;
    if (session->in_process)
        *size = session->host.wanted;
    else
        *size = sharing ? shared.payload_size : session->host.mirrors ? MIRROR_SIZE : 0;
    *size &= ~(uint64_t)(FLYT_HOST_GRANULE - 1);
    if (!*size || !session->gpu->MemHostRegister || !session->gpu->MemHostUnregister || at + *size < at) {
        *size = 0;
        return NULL;
    }
    void *memory = MAP_FAILED;
    errno = EEXIST;
    if (may_be_mapped(at, *size))
        memory = mmap((void *)(uintptr_t)at, *size, sharing ? PROT_READ | PROT_WRITE : PROT_NONE, flags, shared.fd,
                      (off_t)shared.payload);
    if (memory != MAP_FAILED && (uint64_t)(uintptr_t)memory == at)
        return memory;
    log_info(
        "event=host-memory-refused session=%llu mib=%llu address=0x%llx why=\"%s\": copies pass through the connection",
        (unsigned long long)session->id, (unsigned long long)(*size >> 20), (unsigned long long)at,
        memory == MAP_FAILED ? strerror(errno) : "an old kernel gave another address");
    if (memory != MAP_FAILED)
        munmap(memory, *size);
    session->host.refused = true;
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
    if (!host->mirrored)
        madvise(memory, size, MADV_HUGEPAGE);     /* where the system gives them for shared memory */
    madvise(memory, size, MADV_DONTDUMP);         /* writing a core would make every page of it */
    host->at = calloc(size / FLYT_HOST_GRANULE, sizeof(struct host_range *));
    if (!host->at) {
        munmap(memory, size);
        return;
    }
    host->base = at;
    host->size = size;
    if (host->mirrored)
        mirror_open(session);
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
    *host = (struct host_memory){ .wanted = host->wanted, .mirrors = host->mirrors, .pulls = host->pulls };
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

static CUresult range_register(struct session *session, struct host_range *range, struct context *context)
{
    void *memory = (void *)(uintptr_t)range->address;
    CUdeviceptr seen = 0;
    CUresult r = context_use(session, context);
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    if (r == CUDA_SUCCESS)
        r = range->shut ? session->gpu->register_shut(memory, range->size, flags)
                        : session->gpu->MemHostRegister(memory, range->size, flags);
    if (r != CUDA_SUCCESS)
        return r;
    r = session->gpu->MemHostGetDevicePointer(&seen, memory, 0);
    if (r != CUDA_SUCCESS || seen != range->address) {
        session->gpu->MemHostUnregister(memory);
        /* a device that sees it elsewhere: one address is the point of it all */
        return r ? r : CUDA_ERROR_NOT_SUPPORTED;
    }
    range->context = context;
    return CUDA_SUCCESS;
}

static CUresult range_unregister(struct session *session, struct host_range *range)
{
    CUresult r = range->context ? context_use(session, range->context) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && range->context)
        r = session->gpu->MemHostUnregister((void *)(uintptr_t)range->address);
    if (r == CUDA_SUCCESS)
        range->context = NULL;
    return r;
}

/* The range, or NULL, lies there from here on. Kernels look, too, if the memory is mirrored. */
static void range_place(struct session *session, const struct host_range *of, struct host_range *range)
{
    struct host_memory *host = &session->host;
    pthread_mutex_lock(&session->mirror.contents);
    pthread_mutex_lock(&session->mirror.lock);
    for (uint64_t i = 0; i < of->size / FLYT_HOST_GRANULE; i++)
        host->at[(of->address - host->base) / FLYT_HOST_GRANULE + i] = range;
    host->shut |= range && range->shut;
    pthread_mutex_unlock(&session->mirror.lock);
    pthread_mutex_unlock(&session->mirror.contents);
}

static void range_drop(struct session *session, struct host_range *range)
{
    struct host_memory *host = &session->host;
    struct host_range **at = &host->ranges;
    while (*at != range)
        at = &(*at)->next;
    *at = range->next;
    range_place(session, range, NULL);
    if (range->base)
        mirror_range_end(host, range);
    free(range);
}

/* Registers every range that no context has registered through this one. What fails is given up. */
static void ranges_take_over(struct session *session, struct context *context)
{
    struct host_range *next;
    for (struct host_range *range = session->host.ranges; range; range = next) {
        next = range->next;
        if (range->context)
            continue;
        CUresult r = range_register(session, range, context);
        if (r == CUDA_SUCCESS)
            continue;
        log_warning("event=host-memory-lost session=%llu bytes=%llu error=%d: its context has ended; copies from and "
                    "to it fail",
                    (unsigned long long)session->id, (unsigned long long)range->size, (int)r);
        range_drop(session, range);
    }
}

void host_memory_context_here(struct session *session, struct context *context)
{
    ranges_take_over(session, context);
}

void host_memory_context_gone(struct session *session, struct context *context)
{
    struct context *other = context_other(session, context);
    for (struct host_range *range = session->host.ranges; range; range = range->next)
        if (range->context == context && range_unregister(session, range) != CUDA_SUCCESS)
            range->context = NULL;             /* it goes with the context */
    if (other)
        ranges_take_over(session, other);
    context_use(session, context);
}

void host_memory_stop(struct session *session)
{
    while (session->host.ranges) {
        range_unregister(session, session->host.ranges);
        range_drop(session, session->host.ranges);
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

/* In one process the client has mapped the memory. The server does not rely on that: it writes marks there, and an
   address without access would end the program. */
static bool range_usable(struct session *session, struct host_range *range)
{
    if (session->host.mirrored)
        return mirror_range_begin(&session->host, range);
    return !session->in_process ||
           mprotect((void *)(uintptr_t)range->address, range->size, PROT_READ | PROT_WRITE) == 0;
}

/* A session that has moved here says again what it has, and its program may have ended all its contexts: then the range
   waits for the next one, as it would have where it comes from. */
void serve_host_add(struct session *session, struct call *call)
{
    const host_args *args = &call->args.host;
    struct host_memory *host = &session->host;
    struct context *context = context_other(session, NULL);
    uint64_t first = 0, count = 0;
    CUresult r = host_granules(host, args, &first, &count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (uint64_t i = 0; i < count && r == CUDA_SUCCESS; i++)
        if (host->at[first + i])
            r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct host_range *range = r == CUDA_SUCCESS ? calloc(1, sizeof *range) : NULL;
    if (!range && r == CUDA_SUCCESS)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (range) {
        *range = (struct host_range){ .address = args->address, .size = args->size, .shut = mirror_pulls(session) };
        r = range_usable(session, range) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS && context)
            r = range_register(session, range, context);
    }
    if (r != CUDA_SUCCESS) {
        if (range && range->base)
            mirror_range_end(host, range);
        free(range);
        call_fail(session, call, r);
        return;
    }
    range->next = host->ranges;
    host->ranges = range;
    host->ever_used = true;
    range_place(session, range, range);
    session_reply_plain(session, call->xid, CUDA_SUCCESS, false);
}

/* Is work of the context's blocking or other streams waiting or under way? What is found complete counts as that. */
static bool context_works(struct session *session, struct context *context, bool blocking)
{
    CUresult usable = context_use(session, context);
    struct stream *stream = NULL;
    while ((stream = stream_busy(session, context, blocking, stream))) {
        if (stream->first)
            return true;
        if (!stream->handle) {                    /* destroyed: its marker shows it */
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

/* No operation is waiting or under way in any stream. Asked without waiting: the driver would wait for kernels here,
   and with it everybody who wants the session's lock, perhaps the copy that such a kernel waits for. */
static bool session_idle(struct session *session)
{
    completion_settle(session);                   /* everybody who waits has been informed */
    for (struct list *link = list_first(&session->contexts); link; link = list_next(&session->contexts, link)) {
        struct context *context = LIST_OBJECT(link, struct context, of_session);
        if (context_works(session, context, false) || context_works(session, context, true))
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
    CUresult r =
        range && range->address == args->address && range->size == args->size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && (!session_idle(session) || session->mirror.first_cut))
        r = CUDA_ERROR_NOT_READY;
    if (r == CUDA_SUCCESS)
        r = range_unregister(session, range);
    if (r == CUDA_SUCCESS)
        range_drop(session, range);
    session_reply_plain(session, call->xid, r, false);
}
