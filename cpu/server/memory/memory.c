/*
 * memory.c: the session's window of device addresses and what is mapped in it.
 *
 * The window is reserved with the driver before it is offered, and looked at: the address asked for is only a hint.
 * The client then reserves the same numbers in its own process; what it cannot have it refuses (WINDOW), and the next
 * candidate is offered. MAP creates one handle for each piece and maps all of it; UNMAP takes whole pieces back. `at`
 * knows for every granule what lies there, so that an address from the client is checked in O(1) per granule.
 */
#include "cpu/server/session.h"
#include "cpu/server/memory/share.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/address_space.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/credit.h"
#include "cpu/server/tenant/charge.h"
#include "cpu/server/memory/clear.h"
#include "cpu/server/tenant/tenant.h"
#include "cpu/server/tenant/usage.h"

/* Where neither a Linux process nor the CUDA driver usually has anything, all below 2^46; then wherever the driver
   likes. The low ones are for a session in the process of a program with ThreadSanitizer. */
static const uint64_t window_hints[] = {
    UINT64_C(0x200000000000), UINT64_C(0x210000000000), UINT64_C(0x240000000000), UINT64_C(0x280000000000),
    UINT64_C(0x2c0000000000), UINT64_C(0x180000000000), UINT64_C(0x140000000000), UINT64_C(0x380000000000),
    0, 0, 0, 0,
};
static const uint64_t window_hints_narrow[] = {
    ADDRESS_SPACE_LOW, UINT64_C(0x003000000000), UINT64_C(0x005000000000), 0, 0, 0, 0, 0, 0, 0, 0, 0,
};
static const uint64_t window_sizes[] = { UINT64_C(1) << 40, UINT64_C(1) << 38, UINT64_C(1) << 36, UINT64_C(1) << 34,
                                         UINT64_C(1) << 32 };

enum {
    WINDOW_HINTS = sizeof window_hints / sizeof *window_hints,
    WINDOW_SIZES = sizeof window_sizes / sizeof *window_sizes,
    /* The driver may give a window of 1 TiB elsewhere, until it is given back: in the range where ThreadSanitizer and
       the C library map what they need at that time, which has hardly more than that. */
    WINDOW_SIZE_NARROW = 1
};

_Static_assert(sizeof window_hints == sizeof window_hints_narrow, "as many");

CUmemAllocationProp memory_properties(const struct session *session, const struct device *device)
{
    CUmemAllocationProp properties;
    memset(&properties, 0, sizeof properties);
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device->index;
    if (session->shareable)
        properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return properties;
}

/* The largest granularity of all devices; all are powers of two. */
static CUresult window_granularity(struct session *session, uint64_t *granularity)
{
    *granularity = 0;
    for (int i = 0; i < session->device_count; i++) {
        CUmemAllocationProp properties = memory_properties(session, &session->devices[i]);
        size_t bytes = 0;
        CUresult r = session->gpu->MemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        if (r != CUDA_SUCCESS)
            return r;
        if (bytes > *granularity)
            *granularity = bytes;
    }
    return *granularity ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

static void window_free(struct session *session)
{
    struct window *window = &session->window;
    host_memory_close(session);
    if (window->base)
        session->gpu->MemAddressFree(window->base, window->size);
    free(window->at);
    window->base = 0;
    window->at = NULL;
}

/* Reserves a window of that size, at the hint if that is not 0. The window that the session has is given back once
   there is another one. 0; -ENOSPC: the driver gives none there; -ENOMEM. */
static int window_reserve(struct session *session, uint64_t hint, uint64_t size)
{
    struct window *window = &session->window;
    uint64_t refused = window->base;
    CUdeviceptr at = 0;
    if (session->gpu->MemAddressReserve(&at, size, window->granularity, hint, 0) != CUDA_SUCCESS)
        return -ENOSPC;
    if ((hint && at != hint) || at == refused || at % window->granularity) {
        session->gpu->MemAddressFree(at, size);
        return -ENOSPC;
    }
    struct mapping **table = calloc(size / window->granularity, sizeof(struct mapping *));
    if (!table) {
        session->gpu->MemAddressFree(at, size);
        return -ENOMEM;
    }
    window_free(session);
    window->at = table;
    window->base = at;
    window->size = size;
    host_memory_open(session, at + size);
    return 0;
}

/* The next candidate. An earlier one is given back: the client cannot have it, but knows its size, which stays. */
int memory_window_reserve(struct session *session, char *error)
{
    struct window *window = &session->window;
    char name[64];
    CUresult r = window_granularity(session, &window->granularity);
    const uint64_t told = window->base ? window->size : 0;
    const bool narrow = address_space_is_narrow();
    const uint64_t *hints = narrow ? window_hints_narrow : window_hints;
    bool bare = false; /* the window is a new one, behind which there is no room for host memory */
    for (; r == CUDA_SUCCESS && window->attempt < WINDOW_HINTS; window->attempt++)
        for (int i = narrow ? WINDOW_SIZE_NARROW : 0; i < WINDOW_SIZES; i++) {
            if (told && window_sizes[i] != told)
                continue;
            int status = window_reserve(session, hints[window->attempt], window_sizes[i]);
            if (status == -ENOMEM) {
                snprintf(error, RPC_ERROR_SIZE, "no memory for the table of the address window");
                return -1;
            }
            bare = bare || !status;
            if (status == 0 && session->host.refused)
                break; /* there may be room behind another one */
            if (status == 0) {
                window->attempt++;
                return 0;
            }
        }
    if (bare)
        return 0;
    if (r != CUDA_SUCCESS)
        snprintf(error, RPC_ERROR_SIZE, "the driver has no virtual memory management: %s",
                 gpu_error_name(session->gpu, r, name, sizeof name));
    else
        snprintf(error, RPC_ERROR_SIZE, "no window of device addresses suits both the driver and the client");
    return -1;
}

void serve_window(struct session *session, struct call *call)
{
    window_result result;
    char error[RPC_ERROR_SIZE];
    memset(&result, 0, sizeof result);
    if (list_first(&session->contexts) || session->in_process) {
        call_fail(session, call, CUDA_ERROR_INVALID_VALUE);           /* too late: something may be mapped */
        return;
    }
    CUresult r = CUDA_SUCCESS;
    if (call->args.window.refused == session->window.base && memory_window_reserve(session, error) < 0) {
        log_warning("event=no-window session=%llu why=\"%s\"", (unsigned long long)session->id, error);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    result.window = session->window.base;
    result.host_size = session->host.size;
    session_reply(session, call->xid, (xdrproc_t)xdr_window_result, &result, r, false);
}

/* Some drivers refuse a hint now and then, and take it when they are asked again. */
void serve_window_take(struct session *session, struct call *call)
{
    enum { TRIES = 8 };
    const window_take_args *args = &call->args.window_take;
    struct window *window = &session->window;
    bool here = window->base == args->window && window->size == args->size, known = false;
    for (int i = 0; i < WINDOW_SIZES; i++)
        known = known || args->size == window_sizes[i];
    if (list_first(&session->contexts) || session->in_process || !known || !args->window ||
        args->window % window->granularity) {
        call_fail(session, call, CUDA_ERROR_INVALID_VALUE);
        return;
    }
    for (int i = 0; i < TRIES && !here; i++)
        here = window_reserve(session, args->window, args->size) == 0;
    window_result result;
    memset(&result, 0, sizeof result);
    result.window = window->base;
    result.host_size = session->host.size;
    session_reply(session, call->xid, (xdrproc_t)xdr_window_result, &result, CUDA_SUCCESS, false);
}

/* ---- mapping ---- */

bool memory_granules(const struct window *window, uint64_t address, uint64_t size, uint64_t *first, uint64_t *count)
{
    uint64_t offset = address - window->base;
    if (!size || offset >= window->size || size > window->size - offset ||
        offset % window->granularity || size % window->granularity)
        return false;
    *first = offset / window->granularity;
    *count = size / window->granularity;
    return true;
}

/* Pieces of `unit` bytes; or, sizes not NULL, those whose memory another worker has made. */
struct piece_plan { uint64_t unit; const uint64_t *sizes; const int *fds; };

/* One handle for each piece; access is given to all of them together. */
static CUresult piece_make(struct session *session, struct mapping *piece, const CUmemAllocationProp *properties,
                           const int *fd)
{
    CUresult r = fd ? session->gpu->adopt_memory(&piece->handle, *fd, piece->size, properties->location.id)
                    : session->gpu->MemCreate(&piece->handle, piece->size, properties, 0);
    if (r != CUDA_SUCCESS)
        return r;
    r = session->gpu->MemMap(piece->address, piece->size, 0, piece->handle, 0);
    if (r != CUDA_SUCCESS)
        session->gpu->MemRelease(piece->handle);
    return r;
}

/* Everything of it goes back but its charge. *shared grows by what is charged as shared memory. */
static CUresult piece_end(struct session *session, struct mapping *piece, uint64_t *shared)
{
    struct window *window = &session->window;
    uint64_t first = (piece->address - window->base) / window->granularity;
    CUresult r = session->gpu->MemUnmap(piece->address, piece->size);
    CUresult released = session->gpu->MemRelease(piece->handle);
    for (uint64_t i = 0; i < piece->size / window->granularity; i++)
        window->at[first + i] = NULL;
    window->pieces--;
    if (share_part_end(session, piece->part))
        *shared += piece->size;
    free(piece);
    return r ? r : released;
}

/* The pieces of [address, address + size), which is full of whole ones. Their charge goes back as well. */
static CUresult pieces_end(struct session *session, struct context *context, uint64_t address, uint64_t size)
{
    struct window *window = &session->window;
    uint64_t shared = 0;
    CUresult r = CUDA_SUCCESS;
    charge_lock(session);
    for (uint64_t at = address; at < address + size;) {
        struct mapping *piece = window->at[(at - window->base) / window->granularity];
        at += piece->size;
        context->mapped -= piece->size;
        context->device->mapped -= piece->size;
        usage_device(context->device);
        CUresult ended = piece_end(session, piece, &shared);
        r = r ? r : ended;
    }
    charge_unlock(session);
    tenant_release(TENANT_CREDIT, (unsigned)context->device->index, size - shared);
    return r;
}

static CUresult pieces_make_charged(struct session *session, struct context *context, uint64_t address, uint64_t size,
                                    const struct piece_plan *how, uint64_t *made)
{
    struct window *window = &session->window;
    CUmemAllocationProp properties = memory_properties(session, context->device);
    CUmemAccessDesc access[FLYT_MAX_DEVICES];
    CUresult r = CUDA_SUCCESS;
    *made = 0;
    for (size_t number = 0; *made < size; number++) {
        const uint64_t unit = how->sizes ? how->sizes[number] : how->unit;
        struct mapping *piece = malloc(sizeof *piece);
        if (!piece)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *piece = (struct mapping){ .address = address + *made, .size = unit, .context = context };
        r = piece_make(session, piece, &properties, how->fds ? &how->fds[number] : NULL);
        if (r != CUDA_SUCCESS) {
            free(piece);
            return r;
        }
        uint64_t first = (piece->address - window->base) / window->granularity;
        for (uint64_t i = 0; i < unit / window->granularity; i++)
            window->at[first + i] = piece;
        window->pieces++;
        context->mapped += unit;
        context->device->mapped += unit;
        usage_device(context->device);
        *made += unit;
    }
    return session->gpu->MemSetAccess(address, size, access, peer_access(session, context, access));
}

/* All of it, or nothing. */
static CUresult pieces_make_of(struct session *session, struct context *context, uint64_t address, uint64_t size,
                               const struct piece_plan *how)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct window *window = &session->window;
    uint64_t first = (address - window->base) / window->granularity, made = 0;
    CUresult r = context_use(session, context);
    for (uint64_t i = 0; r == CUDA_SUCCESS && i < size / window->granularity; i++)
        if (window->at[first + i])
            r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !tenant_charge(TENANT_CREDIT, (unsigned)context->device->index, size))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS)
        return r;
    charge_lock(session);
    r = pieces_make_charged(session, context, address, size, how, &made);
    charge_unlock(session);
    if (r == CUDA_SUCCESS && !how->fds)
        r = clear_mapped(session, address, size);
    if (r != CUDA_SUCCESS && made)
        pieces_end(session, context, address, made);       /* its charge, too */
    if (r != CUDA_SUCCESS)
        tenant_release(TENANT_CREDIT, (unsigned)context->device->index, size - made);
    return r;
}

static CUresult pieces_make(struct session *session, struct context *context, uint64_t address, uint64_t size,
                            uint64_t unit)
{
    return pieces_make_of(session, context, address, size, &(struct piece_plan){ .unit = unit });
}

/* No allocation of the program has it. */
static void watch_mapped(struct session *session, uint64_t address, uint64_t size)
{
    if (size && session->gpu->extent)
        session->gpu->extent(address, size, GPU_EXTENT_NOBODYS);
}

uint64_t memory_first_credit(struct session *session, struct context *context, uint64_t device_memory, uint64_t wanted)
{
    const struct window *window = &session->window;
    uint64_t piece = credit_piece(window->granularity, device_memory), ahead = credit_ahead(wanted, device_memory);
    uint64_t size = (ahead + piece - 1) / piece * piece;
    if (!size || size > window->size || !tenant_roomy((unsigned)context->device->index, size) ||
        pieces_make(session, context, window->base, size, piece) != CUDA_SUCCESS)
        return 0;
    watch_mapped(session, window->base, size);
    return size;
}

static void map_reply(struct session *session, struct call *call, uint64_t size, CUresult r)
{
    map_result result;
    memset(&result, 0, sizeof result);
    result.size = r == CUDA_SUCCESS ? size : 0;
    watch_mapped(session, call->args.map.address, result.size);
    report_note(session, r);
    session_reply(session, call->xid, (xdrproc_t)xdr_map_result, &result, r, false);
}

/* In a thread of its own, without session.lock: other programs are asked for what they do not use. */
static void map_blocking(struct session *session, struct call *call)
{
    const map_args *args = &call->args.map;
    struct tenant_try try = tenant_try_begin(0, args->least, TENANT_PATIENCE_NS, false);
    CUresult r;
    do {
        pthread_mutex_lock(&session->lock);
        struct context *context = context_find(session, args->context);
        try.device = context ? (uint32_t)context->device->index : 0;
        r = context ? pieces_make(session, context, args->address, args->least, args->piece)
                    : CUDA_ERROR_INVALID_CONTEXT;
        if (r == CUDA_SUCCESS)
            map_reply(session, call, args->least, r);
        pthread_mutex_unlock(&session->lock);
    } while (r == CUDA_ERROR_OUT_OF_MEMORY && tenant_try_again(&try));
    if (r != CUDA_SUCCESS)
        map_reply(session, call, 0, r);
}

void serve_map(struct session *session, struct call *call)
{
    map_args *args = &call->args.map;
    struct context *context = context_find(session, args->context);
    uint64_t first, count;
    if (!args->least)
        args->least = args->size;
    if (!args->piece)
        args->piece = args->least;
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && (!memory_granules(&session->window, args->address, args->size, &first, &count) ||
                              args->least > args->size || args->piece % session->window.granularity ||
                              args->least % args->piece || args->size % args->piece))
        r = CUDA_ERROR_INVALID_VALUE;
    uint64_t size = r == CUDA_SUCCESS && tenant_roomy((unsigned)context->device->index, args->size) ? args->size
                                                                                                    : args->least;
    if (r == CUDA_SUCCESS)
        r = pieces_make(session, context, args->address, size, args->piece);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && size > args->least) {
        size = args->least;
        r = pieces_make(session, context, args->address, size, args->piece);
    }
    if (r == CUDA_ERROR_OUT_OF_MEMORY && args->recall && charge_shared(session) &&
        call_serve_blocking(session, call, map_blocking))
        return;
    map_reply(session, call, size, r);
}

/* The context whose whole pieces fill the range; NULL: they do not. */
static struct context *pieces_find(const struct window *window, const unmap_args *args)
{
    uint64_t first, count;
    if (!memory_granules(window, args->address, args->size, &first, &count))
        return NULL;
    struct context *context = window->at[first] ? window->at[first]->context : NULL;
    for (uint64_t at = args->address; context && at < args->address + args->size;) {
        const struct mapping *piece = window->at[(at - window->base) / window->granularity];
        if (!piece || piece->address != at || piece->context != context ||
            piece->size > args->address + args->size - at)
            return NULL;
        at += piece->size;
    }
    return context && context->id == args->context ? context : NULL;
}

void serve_unmap(struct session *session, struct call *call)
{
    const unmap_args *args = &call->args.unmap;
    struct context *context = pieces_find(&session->window, args);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = pieces_end(session, context, args->address, args->size);
    if (r != CUDA_SUCCESS)
        call_fail(session, call, r);
}

/* ---- memory of one program that others use ---- */

/* Makes each piece of the range exportable. *parts: one of each, which the caller frees. */
static CUresult pieces_export(struct session *session, uint64_t address, uint64_t size, struct share_part ***parts,
                              uint32_t *count)
{
    struct window *window = &session->window;
    uint64_t first = (address - window->base) / window->granularity,
             last = (address + size - 1 - window->base) / window->granularity;
    CUresult r = CUDA_SUCCESS;
    *parts = calloc(last - first + 1, sizeof **parts);
    if (!*parts)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = first; i <= last && r == CUDA_SUCCESS; i++) {
        struct mapping *piece = window->at[i];
        if (!piece || !piece->context)
            return CUDA_ERROR_INVALID_VALUE;
        if (i > first && piece == window->at[i - 1])
            continue;
        r = *count == SHARE_PARTS ? CUDA_ERROR_OUT_OF_MEMORY
                                  : share_part_make(session, piece->handle, piece->size, TENANT_CREDIT,
                                                    (unsigned)piece->context->device->index, &piece->part);
        (*parts)[(*count)++] = piece->part;
    }
    return r;
}

/* again: by that key; NULL: *key is made. */
static CUresult range_export(struct session *session, uint64_t address, uint64_t size, const struct share_key *again,
                             struct share_key *key)
{
    const struct window *window = &session->window;
    uint64_t offset = address - window->base;
    struct share_part **parts = NULL;
    uint32_t count = 0;
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    if (size && offset < window->size && size <= window->size - offset)
        r = pieces_export(session, address, size, &parts, &count);
    if (r == CUDA_SUCCESS) {
        const struct mapping *piece = window->at[offset / window->granularity];
        const struct device *device = piece->context->device;
        r = again ? share_export_again(session, device, parts, count, address - piece->address, size, again)
                  : share_export(session, device, parts, count, address - piece->address, size, key);
    }
    free(parts);
    return r;
}

CUresult memory_export_again(struct session *session, uint64_t address, uint64_t size, const struct share_key *key)
{
    return range_export(session, address, size, key, NULL);
}

void serve_memory_export(struct session *session, struct call *call)
{
    const memory_export_args *args = &call->args.memory_export;
    struct share_key key;
    export_result result;
    memset(&result, 0, sizeof result);
    CUresult r = session->shareable ? range_export(session, args->address, args->size, NULL, &key)
                                    : CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        share_key_put(result.share, &key);
    report_note(session, r);
    session_reply(session, call->xid, (xdrproc_t)xdr_export_result, &result, r, false);
}

void serve_share_end(struct session *session, struct call *call)
{
    share_end(session, call->args.share_end.number);
}

/* ---- memory of a session that moves (bridge.c) ---- */

CUresult memory_lend(struct session *session, struct context *context, uint64_t address, uint64_t size,
                     struct lent *lent)
{
    const struct window *window = &session->window;
    uint64_t first, count;
    CUresult r = memory_granules(window, address, size, &first, &count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    lent->count = 0;
    for (uint64_t at = address; r == CUDA_SUCCESS && at < address + size && lent->count < LENT_MOST;) {
        const struct mapping *piece = window->at[(at - window->base) / window->granularity];
        if (!piece || piece->context != context || piece->address != at || piece->size > address + size - at)
            return CUDA_ERROR_INVALID_VALUE;
        r = session->gpu->MemExportToShareableHandle(&lent->fds[lent->count], piece->handle,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        lent->sizes[lent->count] = piece->size;
        lent->count += r == CUDA_SUCCESS;
        at += piece->size;
    }
    return r;
}

CUresult memory_adopt(struct session *session, struct context *context, uint64_t address, uint64_t most,
                      const struct lent *lent, uint64_t *size)
{
    const struct window *window = &session->window;
    uint64_t sum = 0, first, count;
    for (unsigned i = 0; i < lent->count; i++) {
        if (lent->sizes[i] > most - sum || lent->sizes[i] % window->granularity)
            return CUDA_ERROR_INVALID_VALUE;
        sum += lent->sizes[i];
    }
    if (!memory_granules(window, address, sum, &first, &count))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = pieces_make_of(session, context, address, sum, &(struct piece_plan){ 0, lent->sizes, lent->fds });
    if (r == CUDA_SUCCESS)
        watch_mapped(session, address, sum);
    *size = r == CUDA_SUCCESS ? sum : 0;
    return r;
}

void memory_adopted_end(struct session *session, struct context *context, uint64_t address, uint64_t size)
{
    if (context_use(session, context) == CUDA_SUCCESS)
        pieces_end(session, context, address, size);
}

/* In order behind the UNMAPs that it speaks of. */
void serve_recalled(struct session *session, struct call *call)
{
    (void)session;
    tenant_answer(call->args.recalled.number, call->args.recalled.idle);
}

void memory_drop_all(struct session *session, struct context *context)
{
    struct window *window = &session->window;
    uint64_t granules = window->at ? window->size / window->granularity : 0;
    for (uint64_t i = 0; context->mapped && i < granules; i++)
        if (window->at[i] && window->at[i]->context == context)
            pieces_end(session, context, window->at[i]->address, window->at[i]->size);
}

CUresult memory_pieces_access(struct session *session, const struct context *context, const struct device *device,
                              CUmemAccess_flags flags)
{
    const struct window *window = &session->window;
    uint64_t left = context->mapped;
    CUmemAccessDesc access = { .location = memory_properties(session, device).location, .flags = flags };
    CUresult r = CUDA_SUCCESS;
    for (uint64_t at = 0; left && at < window->size;) {
        const struct mapping *piece = window->at[at / window->granularity];
        at += piece ? piece->size : window->granularity;
        if (!piece || piece->context != context)
            continue;
        CUresult set = session->gpu->MemSetAccess(piece->address, piece->size, &access, 1);
        r = r ? r : set;
        left -= piece->size;
    }
    return r;
}

/* ---- what the client may name ---- */

static size_t symbol_position(const struct session *session, uint64_t address)
{
    size_t low = 0, high = session->symbol_count;      /* first range that begins behind address */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (session->symbols[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool memory_known(struct session *session, uint64_t address, uint64_t size)
{
    const struct window *window = &session->window;
    uint64_t offset = address - window->base;
    if (!size)
        return true;
    if (host_memory_here(session, address))
        return host_memory_known(session, address, size);
    if (offset < window->size) {
        if (size > window->size - offset)
            return false;
        uint64_t last = (offset + size - 1) / window->granularity;
        for (uint64_t i = offset / window->granularity; i <= last; i++)
            if (!window->at[i])
                return false;
        return true;
    }
    size_t at = symbol_position(session, address);
    if (!at)
        return false;
    const struct symbol_range *range = &session->symbols[at - 1];
    return address - range->address < range->size && size <= range->size - (address - range->address);
}

const struct context *memory_context(struct session *session, uint64_t address)
{
    const struct window *window = &session->window;
    uint64_t offset = address - window->base;
    const struct mapping *mapping = offset < window->size ? window->at[offset / window->granularity] : NULL;
    return mapping ? mapping->context : NULL;
}

int memory_symbol_add(struct session *session, uint64_t address, uint64_t size, struct module *module)
{
    size_t at = symbol_position(session, address);
    if (at && session->symbols[at - 1].address == address)
        return 0;
    if (session->symbol_count == session->symbol_room) {
        size_t room = session->symbol_room ? 2 * session->symbol_room : 64;
        struct symbol_range *more = realloc(session->symbols, room * sizeof *more);
        if (!more)
            return -1;
        session->symbols = more;
        session->symbol_room = room;
    }
    memmove(session->symbols + at + 1, session->symbols + at, (session->symbol_count - at) * sizeof *session->symbols);
    session->symbols[at] = (struct symbol_range){ address, size, module };
    session->symbol_count++;
    return 0;
}

void memory_symbols_drop(struct session *session, struct module *module)
{
    size_t kept = 0;
    for (size_t i = 0; i < session->symbol_count; i++)
        if (session->symbols[i].module != module)
            session->symbols[kept++] = session->symbols[i];
    session->symbol_count = kept;
}

void memory_stop(struct session *session)
{
    host_memory_stop(session);
    window_free(session);
    free(session->symbols);
    session->symbols = NULL;
    session->symbol_count = 0;
}
