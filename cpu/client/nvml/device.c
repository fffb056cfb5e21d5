/*
 * device.c: NVML's functions about one device: which it is, what it has, and what is used of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cpu/client/nvml/nvml.h"
#include "cpu/client/nvml/functions.h"

typedef struct nvml_device *device_t;

/* ---- which devices there are ---- */

int nvmlDeviceGetCount_v2(unsigned *count)
{
    struct view *view;
    if (!count)
        return NVML_INVALID_ARGUMENT;
    int r = view_hold(&view);
    if (r)
        return r;
    *count = view->head.devices;
    view_release();
    return NVML_SUCCESS;
}
int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device)
{
    struct view *view;
    if (!device)
        return NVML_INVALID_ARGUMENT;
    int r = view_hold(&view);
    if (r)
        return r;
    if (index < view->head.devices)
        *device = device_handle(index);
    else
        r = NVML_INVALID_ARGUMENT;
    view_release();
    return r;
}
int nvmlDeviceGetHandleByIndex(unsigned index, device_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

static void uuid_text(const uint8_t *uuid, char *out)
{
    out += sprintf(out, "GPU-");
    for (int i = 0; i < 16; i++)
        out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

struct pci { unsigned domain, bus, slot; };

static struct pci pci_of(const char *text)
{
    struct pci pci = { 0 };
    if (sscanf(text, "%x:%x:%x", &pci.domain, &pci.bus, &pci.slot) != 3) {
        pci.domain = 0;
        (void)!sscanf(text, "%x:%x", &pci.bus, &pci.slot);
    }
    return pci;
}

/* Of the first device for which `is` says yes. */
static int find(device_t *device, bool (*is)(const struct report_device *, const void *), const void *what)
{
    struct view *view;
    if (!device || !what)
        return NVML_INVALID_ARGUMENT;
    int r = view_hold(&view);
    if (r)
        return r;
    r = NVML_NOT_FOUND;
    for (unsigned i = 0; i < view->head.devices && r; i++)
        if (is(&view->devices[i], what)) {
            *device = device_handle(i);
            r = NVML_SUCCESS;
        }
    view_release();
    return r;
}

static bool has_uuid(const struct report_device *device, const void *what)
{
    char text[64];
    uuid_text(device->uuid, text);
    return strcasecmp(text, what) == 0;
}

static bool has_address(const struct report_device *device, const void *what)
{
    struct pci one = pci_of(device->pci_bus_id), other = pci_of(what);
    return one.domain == other.domain && one.bus == other.bus && one.slot == other.slot;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) { return find(device, has_uuid, uuid); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device_t *device) { return find(device, has_address, bus); }
int nvmlDeviceGetHandleByPciBusId(const char *bus, device_t *device) { return find(device, has_address, bus); }

/* ---- what it is ---- */

/* Begins a function about a device: `view` is held and `it` is the device, or the function returns. */
#define DEVICE(handle, wanted) \
    struct view *view; \
    struct report_device *it; \
    int r = !(wanted) ? NVML_INVALID_ARGUMENT : view_device(handle, &view, &it); \
    if (r) \
        return r
#define DONE(result) \
    do { \
        view_release(); \
        return result; \
    } while (0)

int nvmlDeviceGetName(device_t device, char *name, unsigned length)
{
    DEVICE(device, name);
    r = nvml_text(name, length, it->name);
    DONE(r);
}

int nvmlDeviceGetUUID(device_t device, char *uuid, unsigned length)
{
    char text[64];
    DEVICE(device, uuid);
    uuid_text(it->uuid, text);
    r = nvml_text(uuid, length, text);
    DONE(r);
}

int nvmlDeviceGetIndex(device_t device, unsigned *index)
{
    DEVICE(device, index);
    *index = device->index;
    DONE(NVML_SUCCESS);
}
int nvmlDeviceGetMinorNumber(device_t device, unsigned *minor) { return nvmlDeviceGetIndex(device, minor); }

struct pci_info_2 { char bus_id[16]; unsigned domain, bus, device, device_id, subsystem_id; };
struct pci_info_3 { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(device_t device, struct pci_info_3 *info)
{
    DEVICE(device, info);
    struct pci pci = pci_of(it->pci_bus_id);
    *info = (struct pci_info_3){ .domain = pci.domain, .bus = pci.bus, .device = pci.slot, .device_id = 0x10de };
    snprintf(info->legacy, sizeof info->legacy, "%04X:%02X:%02X.0", pci.domain & 0xffff, pci.bus & 0xff,
             pci.slot & 0xff);
    snprintf(info->bus_id, sizeof info->bus_id, "%08X:%02X:%02X.0", pci.domain, pci.bus & 0xff, pci.slot & 0xff);
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetPciInfo_v2(device_t device, struct pci_info_2 *info)
{
    struct pci_info_3 whole;
    int r = info ? nvmlDeviceGetPciInfo_v3(device, &whole) : NVML_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        memcpy(info, &whole, sizeof *info);
    return r;
}
/* The oldest form ends before the subsystem. */
int nvmlDeviceGetPciInfo(device_t device, void *info)
{
    struct pci_info_3 whole;
    int r = info ? nvmlDeviceGetPciInfo_v3(device, &whole) : NVML_INVALID_ARGUMENT;
    if (r == NVML_SUCCESS)
        memcpy(info, &whole, sizeof(struct pci_info_2) - sizeof(unsigned));
    return r;
}

int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor)
{
    DEVICE(device, major && minor);
    *major = it->major;
    *minor = it->minor;
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetArchitecture(device_t device, unsigned *architecture)
{
    enum { TURING = 6, AMPERE = 7, ADA = 8, HOPPER = 9, BLACKWELL = 10 };
    DEVICE(device, architecture);
    *architecture = it->major >= 13                   ? ~0u
                    : it->major >= 10                  ? BLACKWELL
                    : it->major == 9                   ? HOPPER
                    : it->major == 8 && it->minor == 9 ? ADA
                    : it->major == 8                   ? AMPERE
                    : it->major == 7 && it->minor == 5 ? TURING
                                                       : (unsigned)it->major - 2;  /* Maxwell 3, Pascal 4, Volta 5 */
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetBrand(device_t device, unsigned *brand)
{
    DEVICE(device, brand);
    *brand = 0;                                 /* unknown */
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetComputeMode(device_t device, unsigned *mode)
{
    DEVICE(device, mode);
    *mode = 0;                                  /* any number of programs */
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetMaxClockInfo(device_t device, unsigned type, unsigned *mhz)
{
    enum { GRAPHICS = 0, SM = 1, MEMORY = 2 };
    DEVICE(device, mhz);
    int khz = type == MEMORY ? it->memory_clock_khz : type == GRAPHICS || type == SM ? it->clock_khz : 0;
    *mhz = (unsigned)khz / 1000;
    DONE(khz > 0 ? NVML_SUCCESS : NVML_NOT_SUPPORTED);
}

int nvmlDeviceGetMemoryBusWidth(device_t device, unsigned *width)
{
    DEVICE(device, width);
    *width = (unsigned)it->bus_width;
    DONE(it->bus_width > 0 ? NVML_SUCCESS : NVML_NOT_SUPPORTED);
}

static int zero(device_t device, unsigned *value)
{
    DEVICE(device, value);
    *value = 0;
    DONE(NVML_SUCCESS);
}
int nvmlDeviceGetMultiGpuBoard(device_t device, unsigned *several) { return zero(device, several); }
int nvmlDeviceGetDisplayMode(device_t device, unsigned *mode) { return zero(device, mode); }
int nvmlDeviceGetDisplayActive(device_t device, unsigned *active) { return zero(device, active); }
int nvmlDeviceIsMigDeviceHandle(device_t device, unsigned *is) { return zero(device, is); }
int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned *count) { return zero(device, count); }

int nvmlDeviceGetTopologyCommonAncestor(device_t one, device_t other, unsigned *level)
{
    enum { INTERNAL = 0, SYSTEM = 50 };
    unsigned index;
    int known = nvmlDeviceGetIndex(other, &index);
    if (known)
        return known;
    DEVICE(one, level);
    *level = one->index == index ? INTERNAL : SYSTEM;
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetP2PStatus(device_t one, device_t other, unsigned what, unsigned *status)
{
    enum { OK = 0, P2P_NOT_SUPPORTED = 5 };
    enum { READ, WRITE, NVLINK, ATOMICS, PROPERTY, WHATS };
    unsigned index;
    int known = nvmlDeviceGetIndex(other, &index);
    if (known)
        return known;
    DEVICE(one, status && what < WHATS);
    uint64_t peers = what == ATOMICS ? it->atomics : what == NVLINK ? 0 : it->reaches;
    *status = one->index == index || peers >> index & 1 ? OK : P2P_NOT_SUPPORTED;
    DONE(NVML_SUCCESS);
}

struct nvml_field {
    unsigned field, scope;
    long long time, latency;
    unsigned type;
    int result;
    uint64_t value;
};

int nvmlDeviceGetFieldValues(device_t device, int count, struct nvml_field *fields)
{
    DEVICE(device, fields && count >= 0);
    (void)it;
    for (int i = 0; i < count; i++)
        fields[i].result = NVML_NOT_SUPPORTED;
    DONE(NVML_SUCCESS);
}

/* ---- what is used of it ---- */

struct nvml_memory { unsigned long long total, free, used; };
struct memory_2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(device_t device, struct nvml_memory *memory)
{
    DEVICE(device, memory);
    (void)it;
    if (!view->head.usage)
        DONE(NVML_NOT_SUPPORTED);
    memory->total = used_total(view, device->index);
    memory->used = used_on(view, device->index);
    memory->free = memory->total - memory->used;
    DONE(NVML_SUCCESS);
}

int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_2 *memory)
{
    struct nvml_memory old;
    if (!memory)
        return NVML_INVALID_ARGUMENT;
    if (memory->version != (sizeof *memory | 2u << 24))
        return NVML_VERSION_MISMATCH;
    int r = nvmlDeviceGetMemoryInfo(device, &old);
    if (r == NVML_SUCCESS)
        *memory = (struct memory_2){ memory->version, old.total, 0, old.free, old.used };
    return r;
}

struct utilisation { unsigned gpu, memory; };

/* memory: nobody measures how long a GPU's memory was read or written; 0 is what is known. */
int nvmlDeviceGetUtilizationRates(device_t device, struct utilisation *utilisation)
{
    DEVICE(device, utilisation);
    (void)it;
    *utilisation = (struct utilisation){ 0 };
    for (uint32_t i = 0; i < view->head.programs; i++)
        if (used_by(&view->programs[i], device->index) && view->programs[i].busy > utilisation->gpu)
            utilisation->gpu = view->programs[i].busy;
    DONE(view->head.usage ? NVML_SUCCESS : NVML_NOT_SUPPORTED);
}

struct nvml_process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
struct process_1 { unsigned pid; unsigned long long used; };

/* Calls put(out, i, program) for each program on the device; count: in: room, out: how many there are. */
static int processes(device_t device, unsigned *count, void *out,
                     void (*put)(void *out, unsigned i, const struct report_program *, unsigned device))
{
    DEVICE(device, count);
    (void)it;
    unsigned room = out ? *count : 0;
    *count = 0;
    for (uint32_t i = 0; i < view->head.programs; i++)
        if (used_by(&view->programs[i], device->index)) {
            if (*count < room)
                put(out, *count, &view->programs[i], device->index);
            ++*count;
        }
    DONE(*count > room ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

static void put_process(void *out, unsigned i, const struct report_program *program, unsigned device)
{
    ((struct nvml_process *)out)[i] = (struct nvml_process){ program->pid, program->bytes[device], ~0u, ~0u };
}
static void put_process_1(void *out, unsigned i, const struct report_program *program, unsigned device)
{
    ((struct process_1 *)out)[i] = (struct process_1){ program->pid, program->bytes[device] };
}

int nvmlDeviceGetComputeRunningProcesses_v3(device_t device, unsigned *count, struct nvml_process *out)
{
    return processes(device, count, out, put_process);
}
int nvmlDeviceGetComputeRunningProcesses_v2(device_t device, unsigned *count, struct nvml_process *out)
{
    return processes(device, count, out, put_process);
}
int nvmlDeviceGetComputeRunningProcesses(device_t device, unsigned *count, struct process_1 *out)
{
    return processes(device, count, out, put_process_1);
}

static int no_processes(device_t device, unsigned *count, void *out)
{
    (void)out;
    return zero(device, count);
}
#define NO_PROCESSES(name) \
    int name(device_t device, unsigned *count, void *out) { return no_processes(device, count, out); }
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NO_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3)

struct sample { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; };

static void put_sample(void *out, unsigned i, const struct report_program *program, unsigned device)
{
    struct timespec now;
    (void)device;
    clock_gettime(CLOCK_REALTIME, &now);
    ((struct sample *)out)[i] = (struct sample){
        .pid = program->pid, .sm = program->busy,
        .time = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000,
    };
}

int nvmlDeviceGetProcessUtilization(device_t device, struct sample *out, unsigned *count, unsigned long long since)
{
    (void)since;
    return processes(device, count, out, put_sample);
}
