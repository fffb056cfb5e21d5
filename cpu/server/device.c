/*
 * device.c: devices, their primary contexts, limits, and the snapshot that HELLO sends.
 *
 * The server uses primary contexts only, one per device and process, retained at DEVICE_INIT. A context is current
 * per thread; device_use makes it so and remembers, since it is called before every operation.
 */
#include "cpu/server/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/server/charge.h"
#include "cpu/server/code.h"
#include "cpu/server/lanes.h"
#include "cpu/server/tenant.h"

enum { DEVICE_HIGHEST_ATTRIBUTE = 255 };
#define DEVICE_CLOSE_NS CLOCK_NS_PER_SECOND

/* What this thread has made current. The generation tells a context from an earlier one at the same address. */
static _Thread_local CUcontext current_context;
static _Thread_local unsigned current_generation;
static _Atomic unsigned context_generation = 1;

struct device *device_find(struct session *session, int index)
{
    return index >= 0 && index < session->device_count ? &session->devices[index] : NULL;
}

CUresult device_use(struct session *session, struct device *device)
{
    CUcontext context = device->context;
    unsigned generation = atomic_load_explicit(&context_generation, memory_order_relaxed);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context == current_context && generation == current_generation)
        return CUDA_SUCCESS;
    CUresult r = session->gpu->CtxSetCurrent(context);
    if (r == CUDA_SUCCESS) {
        current_context = context;
        current_generation = generation;
    }
    return r;
}

int devices_create(struct session *session, char *error)
{
    char name[64];
    CUresult r = session->gpu->DeviceGetCount(&session->device_count);
    if (r != CUDA_SUCCESS || session->device_count < 1) {
        snprintf(error, RPC_ERROR_SIZE, "the %s driver has no device for a session: %s", session->gpu->kind,
                 gpu_error_name(session->gpu, r, name, sizeof name));
        return -1;
    }
    if (session->device_count > FLYT_MAX_DEVICES)
        session->device_count = FLYT_MAX_DEVICES;
    session->devices = calloc((size_t)session->device_count, sizeof *session->devices);
    if (!session->devices)
        return -1;
    for (int i = 0; i < session->device_count; i++) {
        session->devices[i].index = i;
        if (staging_start(&session->devices[i]) != 0 || pthread_mutex_init(&session->devices[i].gates_lock, NULL) != 0)
            return -1;
        if (session->gpu->DeviceGet(&session->devices[i].handle, i) != CUDA_SUCCESS)
            return -1;
    }
    return 0;
}

/* ---- the snapshot ---- */

/* Priorities can be asked of a current context only, so that the device's is made for a moment. */
static CUresult snapshot_priorities(const struct gpu *gpu, CUdevice device, flyt_device *out)
{
    CUcontext context;
    CUresult r = gpu->DevicePrimaryCtxRetain(&context, device);
    if (r != CUDA_SUCCESS)
        return r;
    r = gpu->CtxSetCurrent(context);
    if (r == CUDA_SUCCESS)
        r = gpu->CtxGetStreamPriorityRange(&out->priority_least, &out->priority_greatest);
    gpu->CtxSetCurrent(NULL);
    gpu->DevicePrimaryCtxRelease(device);
    return r;
}

static CUresult snapshot_device(const struct gpu *gpu, int index, flyt_device *out)
{
    char name[FLYT_MAX_SHORT] = "", bus[64] = "";
    CUdevice device;
    CUuuid uuid;
    size_t total;
    CUresult r = gpu->DeviceGet(&device, index);
    if (r == CUDA_SUCCESS)
        r = gpu->DeviceGetName(name, sizeof name, device);
    if (r == CUDA_SUCCESS)
        r = gpu->DeviceGetPCIBusId(bus, sizeof bus, device);
    if (r == CUDA_SUCCESS)
        r = gpu->DeviceGetUuid(&uuid, device);
    if (r == CUDA_SUCCESS)
        r = gpu->DeviceTotalMem(&total, device);
    if (r == CUDA_SUCCESS)
        r = snapshot_priorities(gpu, device, out);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
    out->total_memory = total < tenant_limit() ? total : tenant_limit();
    out->name = strdup(name);
    out->pci_bus_id = strdup(bus);
    out->attributes.attributes_val = calloc(DEVICE_HIGHEST_ATTRIBUTE, sizeof(flyt_attribute));
    if (!out->name || !out->pci_bus_id || !out->attributes.attributes_val)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 1; i <= DEVICE_HIGHEST_ATTRIBUTE; i++) {
        int value;
        if (gpu->DeviceGetAttribute(&value, (CUdevice_attribute)i, device) == CUDA_SUCCESS)
            out->attributes.attributes_val[out->attributes.attributes_len++] = (flyt_attribute){ i, value };
    }
    return CUDA_SUCCESS;
}

int devices_snapshot(const struct gpu *gpu, const flyt_device **out, int *count, char *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static flyt_device *devices;
    static int device_count;
    int result = 0;
    char name[64];
    pthread_mutex_lock(&lock);
    if (!devices) {
        CUresult r = gpu->DeviceGetCount(&device_count);
        if (device_count > FLYT_MAX_DEVICES)
            device_count = FLYT_MAX_DEVICES;
        flyt_device *new = calloc(FLYT_MAX_DEVICES, sizeof *new);
        if (!new)
            r = CUDA_ERROR_OUT_OF_MEMORY;
        for (int i = 0; r == CUDA_SUCCESS && i < device_count; i++)
            r = snapshot_device(gpu, i, &new[i]);
        if (r == CUDA_SUCCESS) {
            devices = new;
        } else {
            snprintf(error, RPC_ERROR_SIZE, "cannot describe the %s devices: %s", gpu->kind,
                     gpu_error_name(gpu, r, name, sizeof name));
            free(new);
            result = -1;
        }
    }
    *out = devices;
    *count = device_count;
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- contexts ---- */

/* The context goes, and what it was found to take. */
static void device_release(struct session *session, struct device *device)
{
    session->gpu->DevicePrimaryCtxRelease(device->handle);
    device->context = NULL;
    atomic_fetch_add(&context_generation, 1);
    charge_context_gone(session, device);
}

void serve_device_init(struct session *session, struct call *call)
{
    struct device *device = device_find(session, call->args.device.device);
    CUresult r = device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS && !device->context) {
        CUcontext context;
        r = session->gpu->DevicePrimaryCtxRetain(&context, device->handle);
        if (r == CUDA_SUCCESS) {
            device->context = context;
            r = device_use(session, device);
            if (r == CUDA_SUCCESS)
                r = charge_context(session, device);
            if (r != CUDA_SUCCESS)
                device_release(session, device);
        }
        if (r == CUDA_SUCCESS) {
            staging_prepare(session, device);
            lanes_device_init(session, device);
            gates_make(session, device);
            host_memory_device_here(session, device);
        }
    }
    session_reply_plain(session, call->xid, r, false);
}

/* Everything that the session has on the device goes; ours first, so that the driver's reset finds nothing of which
   we still hold a handle. What waits is answered with CUDA_ERROR_CONTEXT_IS_DESTROYED. The device is idle. */
static void device_clear(struct session *session, struct device *device)
{
    device_use(session, device);
    loader_drain(session, device);
    streams_drop_all(session, device, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    events_drop_all(session, device);
    modules_drop_all(session, device);
    completion_events_free(session, device);
    gates_free(session, device);
    lanes_device_gone(session, device);
    staging_stop(session, device);
    memory_drop_all(session, device);
    host_memory_device_gone(session, device);
}

void serve_device_reset(struct session *session, struct call *call)
{
    struct device *device = device_find(session, call->args.device.device);
    CUresult r = device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS && device->context) {
        device_use(session, device);
        host_functions_release_all(session, device);
        session->gpu->CtxSynchronize();
        device_clear(session, device);
        r = session->gpu->DevicePrimaryCtxReset(device->handle);
        device_release(session, device);
        ledger_clear_sticky(session, CUDA_ERROR_ASSERT);
    }
    session_reply_plain(session, call->xid, r, false);
}

/* Waits a little for what runs. True: the device is idle, or has failed. */
static bool device_settles(struct session *session, struct device *device)
{
    uint64_t until = clock_now() + DEVICE_CLOSE_NS;
    for (struct list *link = list_first(&device->streams); link; link = list_next(&device->streams, link)) {
        const struct stream *stream = LIST_OBJECT(link, struct stream, of_device);
        while (device_use(session, device) == CUDA_SUCCESS && session->gpu->StreamQuery(stream->handle) == CUDA_ERROR_NOT_READY) {
            if (clock_now() > until)
                return false;
            usleep(1000);
        }
    }
    return !atomic_load(&session->completion.watching) || !completion_poll(session, NULL) || clock_now() < until;
}

/* In a process that goes on. False: a kernel does not end, and neither driver lets its memory go under it. */
static bool device_close(struct session *session, struct device *device)
{
    host_functions_release_all(session, device);
    if (!device_settles(session, device))
        return false;
    device_clear(session, device);
    session->gpu->CtxSetCurrent(NULL);
    current_context = NULL;
    device_release(session, device);
    return true;
}

bool devices_close(struct session *session)
{
    bool closed = true;
    for (int i = 0; i < session->device_count; i++)
        if (session->devices[i].context)
            closed = device_close(session, &session->devices[i]) && closed;
    if (!closed)
        return false;
    for (int i = 0; i < session->device_count; i++) {
        pthread_mutex_destroy(&session->devices[i].staging.lock);
        pthread_mutex_destroy(&session->devices[i].gates_lock);
    }
    memory_stop(session);
    return true;
}

/* ---- limits and amounts ---- */

void serve_limit_get(struct session *session, struct call *call)
{
    const limit_args *args = &call->args.limit;
    struct device *device = device_find(session, args->device);
    limit_result result;
    size_t value = 0;
    memset(&result, 0, sizeof result);
    CUresult r = device ? device_use(session, device) : CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS)
        r = session->gpu->CtxGetLimit(&value, (CUlimit)args->limit);
    result.value = value;
    session_reply(session, call->xid, (xdrproc_t)xdr_limit_result, &result, r, false);
}

/* Stacks and the like grow with it: what the tenant may not have is undone. */
static CUresult limit_set_charged(struct session *session, struct device *device, CUlimit limit, size_t value)
{
    size_t before = 0;
    CUresult r = session->gpu->CtxGetLimit(&before, limit);
    struct charge charge = charge_begin(session, device);
    if (r == CUDA_SUCCESS)
        r = session->gpu->CtxSetLimit(limit, value);
    if (r == CUDA_SUCCESS && (r = charge_end(session, &charge)) != CUDA_SUCCESS) {
        session->gpu->CtxSetLimit(limit, before);
        charge_end(session, &charge);
    }
    charge_finish(session);
    return r;
}

/* By the loader. */
static void limit_set(struct session *session, struct call *call)
{
    const limit_args *args = &call->args.limit;
    struct device *device = device_find(session, args->device);
    limit_result result;
    size_t value = 0;
    memset(&result, 0, sizeof result);
    CUresult r = device ? device_use(session, device) : CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS)
        r = limit_set_charged(session, device, (CUlimit)args->limit, args->value);
    if (r == CUDA_SUCCESS)
        r = session->gpu->CtxGetLimit(&value, (CUlimit)args->limit);      /* what was really set */
    result.value = value;
    session_reply(session, call->xid, (xdrproc_t)xdr_limit_result, &result, r, false);
}

/* In order with the modules, which need heaps and stacks. */
void serve_limit_set(struct session *session, struct call *call)
{
    if (!loader_serve(session, call, limit_set))
        call_fail(session, call, CUDA_ERROR_OUT_OF_MEMORY);
}

/* What the tenant's other programs use is not free; what they hold unused is. */
static void memory_info_reply(struct session *session, struct call *call)
{
    struct device *device = device_find(session, call->args.device.device);
    memory_info_result result;
    size_t free_bytes = 0, total = 0;
    uint64_t idle;
    memset(&result, 0, sizeof result);
    CUresult r = device ? device_use(session, device) : CUDA_ERROR_INVALID_DEVICE;
    if (r == CUDA_SUCCESS)
        r = session->gpu->MemGetInfo(&free_bytes, &total);
    bool share = !charge_private(session);
    uint64_t left = tenant_left(share, &idle), most = tenant_limit();
    result.free = free_bytes + (share ? idle : 0);
    result.free = result.free < left ? result.free : left;
    result.total = total < most ? total : most;
    session_reply(session, call->xid, (xdrproc_t)xdr_memory_info_result, &result, r, false);
}

static void memory_info_blocking(struct session *session, struct call *call)
{
    tenant_survey(TENANT_PATIENCE_NS);
    pthread_mutex_lock(&session->lock);
    memory_info_reply(session, call);
    pthread_mutex_unlock(&session->lock);
}

/* Where a limit is shared each question asks the others: what one program is told by another to have freed, is free. */
void serve_memory_info(struct session *session, struct call *call)
{
    if (!charge_shared(session) || !call_serve_blocking(session, call, memory_info_blocking))
        memory_info_reply(session, call);
}
