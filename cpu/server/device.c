/*
 * device.c: the devices as the driver shows them, and the snapshot of them that HELLO sends. What a session makes on a
 * device hangs from its contexts (context.h).
 */
#include "cpu/server/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/server/tenant.h"

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
