/*
 * handle.c: memory handles (virtual memory management): device memory without an address, which the client maps where
 * it wants in the window, at several places at a time if it likes. A handle belongs to no context. Its memory goes
 * when its id is released and nothing maps it any more. A handle that was imported stands for memory of another
 * program, which may consist of several pieces that are mapped one behind the other (share.h).
 *
 * Whole handles are mapped, and unmapped in whole. struct window knows each granule of a mapping, as it knows the
 * pieces of MAP; `handle` distinguishes the two.
 */
#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"
#include "cpu/server/tenant/charge.h"
#include "cpu/server/memory/clear.h"
#include "cpu/server/session.h"
#include "cpu/server/memory/share.h"
#include "cpu/server/tenant/tenant.h"

struct handle {
    struct device *device;
    CUmemGenericAllocationHandle memory;  /* not of an imported one */
    uint64_t size;
    uint32_t uses;                        /* its id, and each mapping */
    struct share_part *part;              /* it was exported, else NULL */
    bool imported;
    struct share_import import;
};

static struct handle *handle_find(const struct session *session, uint32_t id)
{
    return id_map_find(session->ids[KIND_HANDLE], id);
}

static void handle_charged(struct session *session, struct device *device, uint64_t size, bool more)
{
    charge_lock(session);
    device->mapped += more ? size : -size;
    charge_unlock(session);
}

static CUresult handle_drop(struct session *session, struct handle *handle)
{
    CUresult r;
    if (--handle->uses)
        return CUDA_SUCCESS;
    if (handle->imported) {
        r = share_import_end(session, &handle->import);
        session->shares->imports--;
    } else {
        r = session->gpu->MemRelease(handle->memory);
        handle_charged(session, handle->device, handle->size, false);
        if (!share_part_end(session, handle->part))
            tenant_release(TENANT_FIXED, (unsigned)handle->device->index, handle->size);
    }
    free(handle);
    return r;
}

/* fd: of memory that another worker has made; NULL: it is made here. */
static CUresult handle_make(struct session *session, const handle_create_args *args, const int *fd)
{
    FLYT_ASSERT_HELD(&session->lock);
    struct device *device = server_device_find(session, args->device);
    uint64_t granularity = session->window.granularity;
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!args->size || args->size % granularity || args->size > session->window.size)
        return CUDA_ERROR_INVALID_VALUE;
    struct handle *handle = malloc(sizeof *handle);
    if (!handle || !tenant_charge(TENANT_FIXED, (unsigned)device->index, args->size)) {
        free(handle);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = (struct handle){ .device = device, .size = args->size, .uses = 1 };
    CUmemAllocationProp properties = memory_properties(session, device);
    CUresult r = fd ? session->gpu->adopt_memory(&handle->memory, *fd, args->size, device->index)
                    : session->gpu->MemCreate(&handle->memory, args->size, &properties, 0);
    if (r != CUDA_SUCCESS) {
        tenant_release(TENANT_FIXED, (unsigned)device->index, args->size);
        free(handle);
        return r;
    }
    handle_charged(session, device, args->size, true);
    if (!fd)
        r = clear_handle(session, device, handle->memory, args->size);
    if (r != CUDA_SUCCESS) {
        handle_drop(session, handle);
        return r;
    }
    if (id_map_set(session->ids[KIND_HANDLE], args->handle, handle) != 0) {
        handle_drop(session, handle);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static void handle_answer(struct session *session, struct call *call, CUresult r)
{
    plain_result result = { .head = { .result = 0 } };
    report_note(session, r);
    session_reply(session, call->xid, (xdrproc_t)xdr_plain_result, &result, r, false);
}

/* In a thread of its own, without session.lock: other programs of the tenant are asked for what they do not use. */
static void create_blocking(struct session *session, struct call *call)
{
    const handle_create_args *args = &call->args.handle_create;
    struct tenant_try try = tenant_try_begin((unsigned)args->device, args->size, TENANT_PATIENCE_NS, false);
    CUresult r;
    do {
        pthread_mutex_lock(&session->lock);
        r = handle_make(session, args, NULL);
        if (r == CUDA_SUCCESS)
            handle_answer(session, call, r);
        pthread_mutex_unlock(&session->lock);
    } while (r == CUDA_ERROR_OUT_OF_MEMORY && tenant_try_again(&try));
    if (r != CUDA_SUCCESS)
        handle_answer(session, call, r);
}

void serve_handle_create(struct session *session, struct call *call)
{
    CUresult r = handle_make(session, &call->args.handle_create, NULL);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && charge_shared(session) && call_serve_blocking(session, call, create_blocking))
        return;
    handle_answer(session, call, r);
}

void serve_handle_release(struct session *session, struct call *call)
{
    struct handle *handle = id_map_remove(session->ids[KIND_HANDLE], call->args.handle_release.handle);
    CUresult r = handle ? handle_drop(session, handle) : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        call_fail(session, call, r);
}

/* ---- memory of a session that moves (bridge.c) ---- */

CUresult handle_lend(struct session *session, uint64_t id, struct lent *lent)
{
    const struct handle *handle = id > UINT32_MAX ? NULL : handle_find(session, (uint32_t)id);
    lent->count = 0;
    if (!handle || handle->imported)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = session->gpu->MemExportToShareableHandle(&lent->fds[0], handle->memory,
                                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    lent->sizes[0] = handle->size;
    lent->count = r == CUDA_SUCCESS;
    return r;
}

CUresult handle_adopt(struct session *session, uint32_t id, int device, const struct lent *lent)
{
    const handle_create_args args = { .handle = id, .device = device, .size = lent->sizes[0] };
    return lent->count == 1 ? handle_make(session, &args, &lent->fds[0]) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- memory that programs share ---- */

void serve_handle_export(struct session *session, struct call *call)
{
    struct handle *handle = handle_find(session, call->args.handle_export.handle);
    struct share_key key;
    export_result result;
    memset(&result, 0, sizeof result);
    CUresult r = !session->shareable                   ? CUDA_ERROR_NOT_SUPPORTED
                 : !handle || handle->imported         ? CUDA_ERROR_INVALID_VALUE
                                                       : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        r = share_part_make(session, handle->memory, handle->size, TENANT_FIXED, (unsigned)handle->device->index,
                            &handle->part);
    if (r == CUDA_SUCCESS)
        r = share_export(session, handle->device, &handle->part, 1, 0, handle->size, &key);
    if (r == CUDA_SUCCESS)
        share_key_put(result.share, &key);
    report_note(session, r);
    session_reply(session, call->xid, (xdrproc_t)xdr_export_result, &result, r, false);
}

static CUresult handle_again(struct session *session, const share_again_args *args, const struct share_key *key)
{
    struct handle *handle = handle_find(session, args->handle);
    CUresult r = !handle || handle->imported
                     ? CUDA_ERROR_INVALID_VALUE
                     : share_part_make(session, handle->memory, handle->size, TENANT_FIXED,
                                       (unsigned)handle->device->index, &handle->part);
    return r == CUDA_SUCCESS
               ? share_export_again(session, handle->device, &handle->part, 1, 0, handle->size, key)
               : r;
}

void serve_share_again(struct session *session, struct call *call)
{
    const share_again_args *args = &call->args.share_again;
    struct share_key key;
    share_key_get(args->share, &key);
    handle_answer(session, call, !session->shareable ? CUDA_ERROR_NOT_SUPPORTED
                                 : args->in_window   ? memory_export_again(session, args->address, args->size, &key)
                                                     : handle_again(session, args, &key));
}

static CUresult import_named(struct session *session, uint32_t id, struct share_import *import)
{
    struct handle *handle = malloc(sizeof *handle);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = (struct handle){ .device = server_device_find(session, (int)import->device), .size = import->size,
                               .uses = 1, .imported = true, .import = *import };
    if (id_map_set(session->ids[KIND_HANDLE], id, handle) == 0) {
        session->shares->imports++;
        return CUDA_SUCCESS;
    }
    free(handle);
    return CUDA_ERROR_INVALID_VALUE;
}

/* In a thread of its own, without session.lock: another worker is asked. */
static void import_blocking(struct session *session, struct call *call)
{
    struct share_key key;
    struct share_import import;
    import_result result;
    memset(&result, 0, sizeof result);
    share_key_get(call->args.handle_import.share, &key);
    CUresult r = share_import(session, &key, &import);
    pthread_mutex_lock(&session->lock);
    if (r == CUDA_SUCCESS) {
        result.device = (int)import.device;
        result.size = import.size;
        result.offset = import.offset;
        result.length = import.length;
        r = import_named(session, call->args.handle_import.handle, &import);
        if (r != CUDA_SUCCESS)
            share_import_end(session, &import);
    }
    report_note(session, r);
    session_reply(session, call->xid, (xdrproc_t)xdr_import_result, &result, r, false);
    pthread_mutex_unlock(&session->lock);
}

void serve_handle_import(struct session *session, struct call *call)
{
    if (!session->shareable)
        call_fail(session, call, CUDA_ERROR_NOT_SUPPORTED);
    else if (!call_serve_blocking(session, call, import_blocking))
        call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- mapping ---- */

static void granules_set(struct window *window, uint64_t first, uint64_t count, struct mapping *mapping)
{
    for (uint64_t i = 0; i < count; i++)
        window->at[first + i] = mapping;
}

/* All pieces, one behind the other; or none. */
static CUresult map_imported(struct session *session, uint64_t address, const struct share_import *import)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t at = address;
    for (uint32_t i = 0; i < import->count && r == CUDA_SUCCESS; i++) {
        r = session->gpu->MemMap(at, import->parts[i].size, 0, import->parts[i].handle, 0);
        at += r == CUDA_SUCCESS ? import->parts[i].size : 0;
    }
    if (r != CUDA_SUCCESS && at > address)
        session->gpu->MemUnmap(address, at - address);
    return r;
}

static CUresult map(struct session *session, const handle_map_args *args)
{
    struct window *window = &session->window;
    struct handle *handle = handle_find(session, args->handle);
    uint64_t first, count;
    if (!handle || !memory_granules(window, args->address, handle->size, &first, &count))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t i = 0; i < count; i++)
        if (window->at[first + i])
            return CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping = malloc(sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = handle->imported ? map_imported(session, args->address, &handle->import)
                                  : session->gpu->MemMap(args->address, handle->size, 0, handle->memory, 0);
    if (r != CUDA_SUCCESS) {
        free(mapping);
        return r;
    }
    *mapping = (struct mapping){ .address = args->address, .size = handle->size, .shared = handle };
    handle->uses++;
    window->shared++;
    granules_set(window, first, count, mapping);
    return CUDA_SUCCESS;
}

void serve_handle_map(struct session *session, struct call *call)
{
    handle_answer(session, call, map(session, &call->args.handle_map));
}

/* The mapping of a handle that begins at the address and ends before `end`; NULL: none. */
static struct mapping *mapping_at(const struct window *window, uint64_t address, uint64_t end)
{
    struct mapping *mapping = window->at[(address - window->base) / window->granularity];
    return mapping && mapping->shared && mapping->address == address && mapping->size <= end - address ? mapping : NULL;
}

/* Whole mappings of handles fill the range. */
static bool mappings_fill(const struct window *window, uint64_t address, uint64_t size)
{
    uint64_t first, count;
    if (!memory_granules(window, address, size, &first, &count))
        return false;
    for (uint64_t at = address; at < address + size;) {
        const struct mapping *mapping = mapping_at(window, at, address + size);
        if (!mapping)
            return false;
        at += mapping->size;
    }
    return true;
}

static CUresult unmap(struct session *session, uint64_t address, uint64_t size)
{
    struct window *window = &session->window;
    CUresult r = session->gpu->MemUnmap(address, size);
    for (uint64_t at = address; at < address + size;) {
        struct mapping *mapping = mapping_at(window, at, address + size);
        at += mapping->size;
        granules_set(window, (mapping->address - window->base) / window->granularity,
                     mapping->size / window->granularity, NULL);
        CUresult dropped = handle_drop(session, mapping->shared);
        r = r ? r : dropped;
        window->shared--;
        free(mapping);
    }
    return r;
}

void serve_handle_unmap(struct session *session, struct call *call)
{
    const handle_unmap_args *args = &call->args.handle_unmap;
    CUresult r = mappings_fill(&session->window, args->address, args->size)
                     ? unmap(session, args->address, args->size)
                     : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS)
        call_fail(session, call, r);
}

void serve_handle_access(struct session *session, struct call *call)
{
    const handle_access_args *args = &call->args.handle_access;
    const struct device *device = server_device_find(session, args->device);
    CUresult r = device && mappings_fill(&session->window, args->address, args->size) ? CUDA_SUCCESS
                                                                                      : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS) {
        CUmemAccessDesc access = { .location = memory_properties(session, device).location,
                                   .flags = (CUmemAccess_flags)args->flags };
        r = session->gpu->MemSetAccess(args->address, args->size, &access, 1);
    }
    handle_answer(session, call, r);
}

static void release_one(uint32_t id, void *handle, void *session)
{
    id_map_remove(((struct session *)session)->ids[KIND_HANDLE], id);
    handle_drop(session, handle);
}

void handles_stop(struct session *session)
{
    struct window *window = &session->window;
    uint64_t granules = window->at ? window->size / window->granularity : 0;
    for (uint64_t i = 0; window->shared && i < granules; i++)
        if (window->at[i] && window->at[i]->shared)
            unmap(session, window->at[i]->address, window->at[i]->size);
    id_map_each(session->ids[KIND_HANDLE], release_one, session);
}
