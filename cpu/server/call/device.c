/*
 * device.c: the devices as the driver shows them, and the snapshot of them that HELLO sends. What a session makes on a
 * device hangs from its contexts (context.h).
 */
#include "cpu/server/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "cpu/rpc/credit.h"
#include "cpu/server/tenant/charge.h"
#include "cpu/server/tenant/tenant.h"

enum { DEVICE_HIGHEST_ATTRIBUTE = 255 };

struct device *server_device_find(struct session *session, int index)
{
    return index >= 0 && index < session->device_count ? &session->devices[index] : NULL;
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
        if (session->gpu->DeviceGet(&session->devices[i].handle, i) != CUDA_SUCCESS)
            return -1;
    }
    return 0;
}

/* ---- the snapshot ---- */

/* Of a device that had one context, when the snapshot was made; both are 0 where the driver did not say. */
struct memory_then {
    uint64_t free, taken;
};
static struct memory_then memory_then[FLYT_MAX_DEVICES];

static void snapshot_memory(const struct gpu *gpu, struct memory_then *out)
{
    size_t free_bytes, total;
    if (gpu->MemGetInfo(&free_bytes, &total) == CUDA_SUCCESS && free_bytes <= total)
        *out = (struct memory_then){ free_bytes, total - free_bytes };
}

/* Priorities, and what memory is left, can be asked of a current context only, so that the device's is made for a
   moment. */
static CUresult snapshot_context(const struct gpu *gpu, CUdevice device, flyt_device *out, struct memory_then *memory)
{
    CUcontext context;
    CUresult r = gpu->DevicePrimaryCtxRetain(&context, device);
    if (r != CUDA_SUCCESS)
        return r;
    r = gpu->CtxSetCurrent(context);
    if (r == CUDA_SUCCESS)
        r = gpu->CtxGetStreamPriorityRange(&out->priority_least, &out->priority_greatest);
    if (r == CUDA_SUCCESS)
        snapshot_memory(gpu, memory);
    gpu->CtxSetCurrent(NULL);
    gpu->DevicePrimaryCtxRelease(device);
    return r;
}

static void snapshot_attributes(const struct gpu *gpu, CUdevice device, flyt_device *out)
{
    out->attributes.attributes_len = 0;
    for (int i = 1; i <= DEVICE_HIGHEST_ATTRIBUTE; i++) {
        int value;
        if (gpu->DeviceGetAttribute(&value, (CUdevice_attribute)i, device) == CUDA_SUCCESS)
            out->attributes.attributes_val[out->attributes.attributes_len++] = (flyt_attribute){ i, value };
    }
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
        r = snapshot_context(gpu, device, out, &memory_then[index]);
    if (r != CUDA_SUCCESS)
        return r;
    memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
    out->total_memory = total < tenant_limit() ? total : tenant_limit();
    out->name = strdup(name);
    out->pci_bus_id = strdup(bus);
    out->attributes.attributes_val = calloc(DEVICE_HIGHEST_ATTRIBUTE, sizeof(flyt_attribute));
    if (!out->name || !out->pci_bus_id || !out->attributes.attributes_val)
        return CUDA_ERROR_OUT_OF_MEMORY;
    snapshot_attributes(gpu, device, out);
    return CUDA_SUCCESS;
}

static pthread_mutex_t shown_lock = PTHREAD_MUTEX_INITIALIZER;
static flyt_device *shown;
static int shown_count;

int devices_snapshot(const struct gpu *gpu, const flyt_device **out, int *count, char *error)
{
    int result = 0;
    char name[64];
    pthread_mutex_lock(&shown_lock);
    if (!shown) {
        CUresult r = gpu->DeviceGetCount(&shown_count);
        if (shown_count > FLYT_MAX_DEVICES)
            shown_count = FLYT_MAX_DEVICES;
        flyt_device *new = calloc(FLYT_MAX_DEVICES, sizeof *new);
        if (!new)
            r = CUDA_ERROR_OUT_OF_MEMORY;
        for (int i = 0; r == CUDA_SUCCESS && i < shown_count; i++)
            r = snapshot_device(gpu, i, &new[i]);
        if (r == CUDA_SUCCESS) {
            shown = new;
        } else {
            snprintf(error, RPC_ERROR_SIZE, "cannot describe the %s devices: %s", gpu->kind,
                     gpu_error_name(gpu, r, name, sizeof name));
            free(new);
            result = -1;
        }
    }
    *out = shown;
    *count = shown_count;
    pthread_mutex_unlock(&shown_lock);
    return result;
}

void devices_become(const struct gpu *gpu, unsigned capability, bool insists)
{
    if (!gpu->capability || !capability)
        return;
    unsigned now = gpu->capability(capability, insists);
    pthread_mutex_lock(&shown_lock);
    for (int i = 0; shown && i < shown_count; i++) {
        CUdevice device;
        if (gpu->DeviceGet(&device, i) == CUDA_SUCCESS)
            snapshot_attributes(gpu, device, &shown[i]);
    }
    pthread_mutex_unlock(&shown_lock);
    log_info("event=capability wanted=%u.%u is=%u.%u", capability / 10, capability % 10, now / 10, now % 10);
}

/* ---- is there room for a context? ---- */

static int attribute_of(const flyt_device *device, CUdevice_attribute name)
{
    for (u_int i = 0; i < device->attributes.attributes_len; i++)
        if (device->attributes.attributes_val[i].name == (int)name)
            return device->attributes.attributes_val[i].value;
    return 0;
}

/* What a context takes is known, and charged to the tenant, only where the driver counts for this process alone
   (charge.c). The credit is the most that a client asks for. */
static bool device_has_room(const struct session *session, const flyt_device *device, unsigned index,
                            const struct memory_then *then)
{
    uint64_t credit = credit_ahead(UINT64_MAX, device->total_memory), taken = charge_private(session) ? then->taken : 0;
    return attribute_of(device, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_DEFAULT &&
           then->free >= taken + credit && tenant_roomy(index, taken + credit);
}

bool devices_have_room(const struct session *session, const flyt_device *devices, int count)
{
    bool room = count > 0;
    for (int i = 0; i < count && room; i++)
        room = device_has_room(session, &devices[i], (unsigned)i, &memory_then[i]);
    return room;
}
