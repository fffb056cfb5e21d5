/*
 * mirror.c: pinned memory of a client with which no memory is shared (docs/pinned-memory.md).
 *
 * What the client adds (host_memory.c) is memory of this process, which the driver knows as page-locked and kernels use
 * in place. Beside each range stands its base: the bytes that client and server had in common last. The client sends
 * what it has changed (HOST_PATCH) before work that may look, and asks for what the device has changed (HOST_CHANGES)
 * when it has waited for work: the bytes that differ from the base.
 * A range that a kernel touches need not be there: mirror_wanted.c.
 */
#include "cpu/server/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/common/patch.h"

enum { CHANGES_ROOM = 512 * 1024 };

/* ---- ranges; under session.lock ---- */

bool mirror_range_begin(struct host_memory *host, struct host_range *range)
{
    void *at = (void *)(uintptr_t)range->address;
    if (range->size > host->wanted || host->added > host->wanted - range->size) {
        log_warning("event=host-memory-refused bytes=%llu added=%llu limit=%llu why=\"kernels of this program use more "
                    "pinned memory than --host-memory allows\"",
                    (unsigned long long)range->size, (unsigned long long)host->added,
                    (unsigned long long)host->wanted);
        return false;
    }
    void *base = mmap(NULL, range->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    if (mprotect(at, range->size, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, range->size);
        return false;
    }
    madvise(base, range->size, MADV_DONTDUMP);
    range->base = base;
    host->added += range->size;
    return true;
}

/* A kernel that breaks the rules may still stand before its access: it finds zeros then, and no signal. */
void mirror_range_end(struct host_memory *host, struct host_range *range)
{
    void *at = (void *)(uintptr_t)range->address;
    if (mmap(at, range->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
        MAP_FAILED)
        log_warning("event=host-memory-kept bytes=%llu why=\"%s\"", (unsigned long long)range->size, strerror(errno));
    munmap(range->base, range->size);
    range->base = NULL;
    host->added -= range->size;
}

/* A patch_place. Names that are wrong find nothing. */
static bool place(void *user, uint64_t address, size_t size, uint8_t **memory, uint8_t **base)
{
    const struct host_memory *host = &((const struct session *)user)->host;
    const struct host_range *range =
        address - host->base < host->size ? host->at[(address - host->base) / FLYT_HOST_GRANULE] : NULL;
    if (!range || !range->base || size > range->size - (address - range->address))
        return false;
    *memory = (uint8_t *)(uintptr_t)address;
    *base = range->base + (address - range->address);
    return true;
}

/* Kernels stand before the memory, or go on. With drivers whose kernels cannot wait nothing is ever shut. */
static void ranges_shut(struct session *session, bool shut)
{
    struct host_memory *host = &session->host;
    if (!mirror_pulls(session) || host->shut == shut)
        return;
    pthread_mutex_lock(&session->mirror.lock);
    host->shut = shut;
    for (struct host_range *range = host->ranges; range; range = range->next) {
        range->shut = shut;
        session->gpu->shut(range->address, range->size, shut);
    }
    pthread_cond_broadcast(&session->mirror.answered);
    pthread_mutex_unlock(&session->mirror.lock);
}

void serve_host_patch(struct session *session, struct call *call)
{
    const host_patch_args *args = &call->args.host_patch;
    if (args->patch.patch_len)
        ranges_shut(session, true);
    bool good = patch_apply((const uint8_t *)args->patch.patch_val, args->patch.patch_len, place, session);
    if (!args->more || !good)
        ranges_shut(session, false);
    if (!good)
        call_fail(session, call, CUDA_ERROR_INVALID_VALUE);
}

/* The first range that ends above the address, in their order; NULL: there is none. */
static struct host_range *range_above(const struct host_memory *host, uint64_t address)
{
    uint64_t granule = address > host->base ? (address - host->base) / FLYT_HOST_GRANULE : 0;
    while (granule < host->size / FLYT_HOST_GRANULE && !host->at[granule])
        granule++;
    return granule < host->size / FLYT_HOST_GRANULE ? host->at[granule] : NULL;
}

void serve_host_changes(struct session *session, struct call *call)
{
    uint64_t from = call->args.host_changes.from & ~(uint64_t)(PATCH_LINE - 1);
    struct patch patch = { .bytes = malloc(CHANGES_ROOM), .room = CHANGES_ROOM };
    host_changes_result result;
    memset(&result, 0, sizeof result);
    if (!session->host.mirrored || !patch.bytes) {
        call_fail(session, call, patch.bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY);
        free(patch.bytes);
        return;
    }
    struct host_range *range;
    while (!result.next && (range = range_above(&session->host, from))) {
        uint64_t at = from > range->address ? from : range->address, left = range->address + range->size - at;
        size_t seen = patch_add(&patch, at, (uint8_t *)(uintptr_t)at, range->base + (at - range->address), left);
        from = at + seen;
        result.next = seen < left ? from : 0;
    }
    result.patch.patch_val = (char *)patch.bytes;
    result.patch.patch_len = (u_int)patch.used;
    session_reply(session, call->xid, (xdrproc_t)xdr_host_changes_result, &result, CUDA_SUCCESS, false);
    free(patch.bytes);
}
