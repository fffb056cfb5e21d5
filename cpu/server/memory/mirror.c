/*
 * mirror.c: pinned memory of a client with which no memory is shared (docs/pinned-memory.md).
 *
 * What the client adds (host_memory.c) is memory of this process, which the driver knows as page-locked and kernels use
 * in place. Beside each range stands its base: the bytes that client and server had in common last. The client sends
 * what it has changed (HOST_PATCH) before work that may look, and asks for what the device has changed (HOST_CHANGES)
 * when it has waited for work: the bytes that differ from the base.
 *
 * A program may also look, without a call, for what a kernel writes: first data, and behind a fence a word that says
 * so. Who sees the word must see the data. So the software GPU reports each fence of system scope, and of each release
 * (released): what kernels have changed by then becomes a cut, and cuts are sent in their order. Beyond CUTS_MOST bytes
 * nothing is cut any more until the client has asked; what is left of a cut has no order.
 *
 * A range that a kernel touches need not be there: mirror_wanted.c.
 */
#include "cpu/server/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/common/patch.h"

enum { CHANGES_ROOM = 512 * 1024, CUTS_MOST = 4 << 20, PAGE = 4096, PAGES = FLYT_HOST_GRANULE / PAGE };

struct cut {
    struct cut *next;
    size_t size;
    uint8_t bytes[];
};

bool mirror_pulls(const struct session *session)
{
    return session->host.mirrored && session->host.size && session->host.pulls && session->gpu->absences;
}

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
    pthread_mutex_lock(&session->mirror.contents);
    bool good = patch_apply((const uint8_t *)args->patch.patch_val, args->patch.patch_len, place, session);
    pthread_mutex_unlock(&session->mirror.contents);
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

/* Appends what the device has changed of [from, end of the range) to the patch. How far it came. Pages that nobody has
   touched yet are not touched here either. */
static uint64_t range_cut(struct patch *patch, const struct host_range *range, uint64_t from)
{
    unsigned char resident[PAGES];
    uint64_t end = range->address + range->size;
    while (from < end) {
        uint64_t granule = from & ~(uint64_t)(FLYT_HOST_GRANULE - 1), beyond = granule + FLYT_HOST_GRANULE;
        if (mincore((void *)(uintptr_t)granule, FLYT_HOST_GRANULE, resident) != 0)
            memset(resident, 1, sizeof resident);
        while (from < beyond) {
            uint64_t next = (from / PAGE + 1) * PAGE, left = next - from;
            size_t seen = left;
            if (resident[(from - granule) / PAGE] & 1)
                seen = patch_add(patch, from, (uint8_t *)(uintptr_t)from, range->base + (from - range->address), left);
            from += seen;
            if (seen < left)
                return from;
        }
    }
    return end;
}

/* Adds to the patch what kernels have changed, in all ranges that end above the address.
   The next address to look at; 0: that was all. */
static uint64_t ranges_cut(const struct session *session, struct patch *patch, uint64_t from)
{
    FLYT_ASSERT_HELD(&session->mirror.contents);
    struct host_range *range;
    while ((range = range_above(&session->host, from))) {
        from = range_cut(patch, range, from > range->address ? from : range->address);
        if (from < range->address + range->size)
            return from;
    }
    return 0;
}

static void cut_take(struct mirror *mirror, struct patch *patch)
{
    FLYT_ASSERT_HELD(&mirror->contents);
    for (struct cut *cut; (cut = mirror->first_cut) && cut->size <= patch->room - patch->used;) {
        memcpy(patch->bytes + patch->used, cut->bytes, cut->size);
        patch->used += cut->size;
        mirror->cut_bytes -= cut->size;
        if (!(mirror->first_cut = cut->next))
            mirror->last_cut = &mirror->first_cut;
        free(cut);
    }
}

/* One cut: what has changed from that address on, as much as it holds. *next as ranges_cut says. NULL: nothing, or no
   memory. */
static struct cut *cut_make(const struct session *session, uint64_t from, uint64_t *next)
{
    FLYT_ASSERT_HELD(&session->mirror.contents);
    struct cut *cut = malloc(sizeof *cut + CHANGES_ROOM), *fitted;
    struct patch patch = { .bytes = cut ? cut->bytes : NULL, .room = CHANGES_ROOM };
    *next = cut ? ranges_cut(session, &patch, from) : 0;
    if (!patch.used) {
        free(cut);
        return NULL;
    }
    cut->next = NULL;
    cut->size = patch.used;
    fitted = realloc(cut, sizeof *cut + patch.used);
    if (fitted)
        cut = fitted;
    return cut;
}

void mirror_cut(struct session *session)
{
    struct mirror *mirror = &session->mirror;
    pthread_mutex_lock(&mirror->contents);
    uint64_t from = session->host.added ? session->host.base : 0;
    while (from && mirror->cut_bytes < CUTS_MOST) {
        struct cut *cut = cut_make(session, from, &from);
        if (!cut)
            break;
        *mirror->last_cut = cut;
        mirror->last_cut = &cut->next;
        mirror->cut_bytes += cut->size;
    }
    pthread_mutex_unlock(&mirror->contents);
}

void serve_host_changes(struct session *session, struct call *call)
{
    struct mirror *mirror = &session->mirror;
    uint64_t from = call->args.host_changes.from & ~(uint64_t)(PATCH_LINE - 1);
    struct patch patch = { .bytes = malloc(CHANGES_ROOM), .room = CHANGES_ROOM };
    host_changes_result result;
    memset(&result, 0, sizeof result);
    if (!session->host.mirrored || !patch.bytes) {
        call_fail(session, call, patch.bytes ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY);
        free(patch.bytes);
        return;
    }
    pthread_mutex_lock(&mirror->contents);
    cut_take(mirror, &patch);
    if (mirror->first_cut)
        result.next = from > session->host.base ? from : session->host.base;
    else
        result.next = ranges_cut(session, &patch, from);
    pthread_mutex_unlock(&mirror->contents);
    result.patch.patch_val = (char *)patch.bytes;
    result.patch.patch_len = (u_int)patch.used;
    session_reply(session, call->xid, (xdrproc_t)xdr_host_changes_result, &result, CUDA_SUCCESS, false);
    free(patch.bytes);
}

void mirror_cuts_drop(struct mirror *mirror)
{
    while (mirror->first_cut) {
        struct cut *next = mirror->first_cut->next;
        free(mirror->first_cut);
        mirror->first_cut = next;
    }
    mirror->last_cut = &mirror->first_cut;
    mirror->cut_bytes = 0;
}
