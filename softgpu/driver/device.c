/* device.c: the devices, as FLYT_SOFTGPU_* describes them; all alike. CUDA reference: Device Management. */
#include "softgpu/driver/driver.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct sgd_device devices[SGD_MAX_DEVICES];
struct sgd_machine *sgd_machines;

/* What NVIDIA's programming guide, table "Technical Specifications per Compute Capability", says of each family. */
struct family { unsigned cc, threads_per_sm, blocks_per_sm; size_t shared_per_sm, shared_optin, reserved; };
static const struct family families[] = {               /* the last whose cc is not above */
    { 30, 2048, 16,  48 << 10,  48 << 10, 0 },
    { 50, 2048, 32,  64 << 10,  48 << 10, 0 },
    { 52, 2048, 32,  96 << 10,  48 << 10, 0 },
    { 70, 2048, 32,  96 << 10,  96 << 10, 0 },
    { 75, 1024, 16,  64 << 10,  64 << 10, 0 },
    { 80, 2048, 32, 164 << 10, 163 << 10, 1 << 10 },
    { 86, 1536, 16, 100 << 10,  99 << 10, 1 << 10 },
    { 87, 1536, 16, 164 << 10, 163 << 10, 1 << 10 },
    { 89, 1536, 24, 100 << 10,  99 << 10, 1 << 10 },
    { 90, 2048, 32, 228 << 10, 227 << 10, 1 << 10 },
    { 120, 1536, 24, 100 << 10, 99 << 10, 1 << 10 },
};

static void describe(struct sg_limits *l)
{
    unsigned cc = sgd_config.cc_major * 10 + sgd_config.cc_minor;
    const struct family *f = families;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].cc <= cc)
            f = &families[i];
    *l = (struct sg_limits){
        .sm_count = sgd_config.sm_count, .cc_major = sgd_config.cc_major, .cc_minor = sgd_config.cc_minor,
        .warp_size = 32, .max_threads_per_block = 1024,
        .max_block = { 1024, 1024, 64 }, .max_grid = { 2147483647, 65535, 65535 },
        .max_threads_per_sm = f->threads_per_sm, .max_blocks_per_sm = f->blocks_per_sm,
        .regs_per_sm = 65536, .regs_per_block = 65536,
        .shared_per_sm = f->shared_per_sm, .shared_per_block = 48 << 10, .shared_per_block_optin = f->shared_optin,
        .shared_reserved = f->reserved, .clock_khz = 1000000,
    };
}

CUresult sgd_devices_start(void);
CUresult sgd_devices_start(void)
{
    for (unsigned i = 0; i < sgd_config.devices; i++) {
        struct sgd_device *d = &devices[i];
        d->ordinal = (int)i;
        d->total = sgd_config.memory;
        describe(&d->limits);
        d->pool_fd = -1;
        CUresult r = sgd_context_new(d, true, 0, 0, &d->primary);
        if (r)
            return r;
    }
    return CUDA_SUCCESS;
}

struct sgd_device *sgd_device(int ordinal)
{
    return ordinal >= 0 && (unsigned)ordinal < sgd_config.devices ? &devices[ordinal] : NULL;
}

CUresult sgd_machine_new(struct sgd_device *d, unsigned sm_count, struct sgd_machine **out)
{
    struct sgd_machine *m = calloc(1, sizeof *m);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->device = d;
    m->limits = d->limits;
    m->limits.sm_count = sm_count;
    CUresult r = (CUresult)sg_engine_create(&m->limits, (unsigned)d->ordinal, sgd_config.threads, sgd_config.chaos, &m->engine);
    if (r) {
        free(m);
        return r;
    }
    m->next = sgd_machines;
    sgd_machines = m;
    *out = m;
    return CUDA_SUCCESS;
}

/* Nothing runs on it any more. */
void sgd_machine_destroy(struct sgd_machine *m)
{
    struct sgd_machine **at = &sgd_machines;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    sgd_unlock();
    sg_engine_destroy(m->engine);
    sgd_lock();
    free(m);
}

bool sgd_device_take(struct sgd_device *d, size_t size)
{
    if (size > d->total - d->used)
        return false;
    if (sgd_config.chaos_oom && sgd_random(64) == 63)
        return false;
    d->used += size;
    return true;
}

void sgd_device_give(struct sgd_device *d, size_t size)
{
    d->used -= size <= d->used ? size : d->used;
}

/* ---- calls that need no context --------------------------------------------------------------------------- */

/* As NVIDIA's: the version of the API that this library offers; works before cuInit. */
CUresult cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

static CUresult enter_device(int ordinal, const void *out, struct sgd_device **d)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    *d = sgd_device(ordinal);
    r = !*d ? CUDA_ERROR_INVALID_DEVICE : !out ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (r)
        sgd_leave();
    return r;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    struct sgd_device *d;
    CUresult r = enter_device(ordinal, device, &d);
    if (r)
        return r;
    *device = ordinal;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    if (count)
        *count = (int)sgd_config.devices;
    sgd_leave();
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, name, &d);
    if (r)
        return r;
    if (size > 0)
        snprintf(name, (size_t)size, "Flyt software GPU");
    sgd_leave();
    return size > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The same for the same ordinal in every process of every machine. */
CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    static const unsigned char base[16] = { 0xf1, 0x7a, 0x50, 0xf7, 0x69, 0x70, 0x40, 0x75,
                                            0x80, 0x00, 'F', 'l', 'y', 't', 0, 0 };
    struct sgd_device *d;
    CUresult r = enter_device(device, uuid, &d);
    if (r)
        return r;
    memcpy(uuid->bytes, base, sizeof base);
    uuid->bytes[15] = (char)d->ordinal;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, bytes, &d);
    if (r)
        return r;
    *bytes = d->total;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, value, &d);
    if (r)
        return r;
    bool known = attribute >= 1 && attribute < CU_DEVICE_ATTRIBUTE_MAX;
    if (known)
        *value = sgd_attribute(d, (int)attribute);
    sgd_leave();
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, major && minor ? major : NULL, &d);
    if (r)
        return r;
    *major = (int)d->limits.cc_major;
    *minor = (int)d->limits.cc_minor;
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *p, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, p, &d);
    if (r)
        return r;
    const struct sg_limits *l = &d->limits;
    *p = (CUdevprop){
        .maxThreadsPerBlock = (int)l->max_threads_per_block,
        .maxThreadsDim = { (int)l->max_block[0], (int)l->max_block[1], (int)l->max_block[2] },
        .maxGridSize = { (int)l->max_grid[0], (int)l->max_grid[1], (int)l->max_grid[2] },
        .sharedMemPerBlock = (int)l->shared_per_block,
        .totalConstantMemory = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
        .SIMDWidth = (int)l->warp_size,
        .memPitch = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
        .regsPerBlock = (int)l->regs_per_block,
        .clockRate = (int)l->clock_khz,
        .textureAlign = sgd_attribute(d, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    };
    sgd_leave();
    return CUDA_SUCCESS;
}

/* "0000:01:00.0": the devices sit on buses 1, 2 … */
CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, id, &d);
    if (r)
        return r;
    int need = size > 0 ? snprintf(id, (size_t)size, "%04X:%02X:%02X.0", 0, (unsigned)d->ordinal + 1, 0) : 1;
    sgd_leave();
    return need < size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    bool read = id && (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4
                       || (domain = 0, sscanf(id, "%x:%x.%x", &bus, &slot, &function) == 3)
                       || (function = 0, sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3));
    r = !device || !id ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (!r && (!read || domain || slot || function || !bus || !sgd_device((int)bus - 1)))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        *device = (int)bus - 1;
    sgd_leave();
    return r;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, can, &d);
    if (r)
        return r;
    if (sgd_device(peer))
        *can = peer != device;
    else
        r = CUDA_ERROR_INVALID_DEVICE;
    sgd_leave();
    return r;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    struct sgd_device *d;
    CUresult r = enter_device(from, value, &d);
    if (r)
        return r;
    if (!sgd_device(to) || from == to)
        r = CUDA_ERROR_INVALID_DEVICE;
    else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
        *value = 0;
    else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED || attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
        *value = 1;
    else if (attribute == CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
        *value = 0;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    struct sgd_device *d;
    CUresult r = enter_device(device, supported, &d);
    if (r)
        return r;
    if (type == CU_EXEC_AFFINITY_TYPE_SM_COUNT)
        *supported = 1;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}
