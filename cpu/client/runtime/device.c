/*
 * device.c: chapter "Device Management" without the properties (properties.c). Questions about devices are answered
 * from the core's snapshot and make no context; the current device is the thread's.
 */
#include "cpu/client/runtime/runtime.h"

#include <stdio.h>
#include <string.h>

/* ---- what the launch checks need ---- */

static struct { atomic_bool known; struct runtime_limits limits; } known_limits[RUNTIME_MAX_DEVICES];

static void read_limits(int device, struct runtime_limits *limits) {
    int value;
    for (int axis = 0; axis < 3; axis++) {
        limits->block[axis] = core_device_attribute(device, CUDART_ATTRIBUTE_BLOCK_X + axis, &value) ? 0 : (unsigned)value;
        limits->grid[axis] = core_device_attribute(device, CUDART_ATTRIBUTE_GRID_X + axis, &value) ? 0 : (unsigned)value;
    }
    limits->threads = core_device_attribute(device, CUDART_ATTRIBUTE_THREADS_PER_BLOCK, &value) ? 0 : (unsigned)value;
    limits->pitch = core_device_attribute(device, CUDART_ATTRIBUTE_MAX_PITCH, &value) ? SIZE_MAX : (size_t)value;
}

const struct runtime_limits *runtime_limits(int device, struct runtime_limits *space) {
    if (device >= RUNTIME_MAX_DEVICES) {
        read_limits(device, space);
        return space;
    }
    /* Two threads may fill a row at once: both write the same values, so the copy below is made first and the row
       only by the one that wins the flag `filling`. */
    static atomic_flag filling[RUNTIME_MAX_DEVICES];
    if (LIKELY(atomic_load_explicit(&known_limits[device].known, memory_order_acquire)))
        return &known_limits[device].limits;
    read_limits(device, space);
    if (space->threads && !atomic_flag_test_and_set(&filling[device])) {
        known_limits[device].limits = *space;
        atomic_store_explicit(&known_limits[device].known, true, memory_order_release);
    }
    return space;
}

/* ---- count, current device ---- */

static int get_device_count(int *count) {
    int found;
    int error = runtime_attach(&found);
    if (error)
        return error;                       /* *count stays what it was, also when there is no device */
    if (!count)
        return CUDART_INVALID_VALUE;
    *count = found;
    return CUDART_OK;
}

static int get_device(int *device) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!device)
        return CUDART_INVALID_VALUE;
    *device = runtime_device();
    return CUDART_OK;
}

static int set_device(int device) {
    int error = runtime_attach_device(device);
    if (error)
        return error;
    if (core_in_host_function())            /* whose thread never has a device */
        return CUDART_NOT_PERMITTED;
    runtime_thread.device = device + 1;
    /* Since CUDA 12 the context is made here, before at the first use. */
    return FLYT_CUDART >= 12 && !core_device_active(device) ? core_device_activate(device) : CUDART_OK;
}

RUNTIME_API int cudaGetDeviceCount(int *count) { return runtime_local(get_device_count(count)); }
RUNTIME_API int cudaGetDevice(int *device) { return runtime_local(get_device(device)); }
RUNTIME_API int cudaSetDevice(int device) { return runtime_local(set_device(device)); }

/* ---- attributes ---- */

/* What the GPU can but this library cannot yet; a program that asks first then takes its other way. */
static bool attribute_is_withheld(int attribute) {
    switch (attribute) {
    case CUDART_ATTRIBUTE_MANAGED:
    case CUDART_ATTRIBUTE_PAGEABLE_ACCESS:
    case CUDART_ATTRIBUTE_CONCURRENT_MANAGED:
    case CUDART_ATTRIBUTE_MULTI_DEVICE_LAUNCH:
    case CUDART_ATTRIBUTE_FLUSH_REMOTE:
    case CUDART_ATTRIBUTE_GPUDIRECT:
    case CUDART_ATTRIBUTE_HOST_PAGE_TABLES:
    case CUDART_ATTRIBUTE_DIRECT_MANAGED:
    case CUDART_ATTRIBUTE_SPARSE_ARRAYS:
    case CUDART_ATTRIBUTE_TIMELINE_SEMAPHORES:
    case CUDART_ATTRIBUTE_MEMORY_POOLS:
    case CUDART_ATTRIBUTE_POOL_HANDLES:
    case CUDART_ATTRIBUTE_DEFERRED_ARRAYS:
    case CUDART_ATTRIBUTE_IPC_EVENTS:
    case CUDART_ATTRIBUTE_UNIFIED_FUNCTIONS:
    case CUDART_ATTRIBUTE_HOST_NUMA_POOLS:
    case CUDART_ATTRIBUTE_HOST_POOLS:
        return true;
    default:
        return false;
    }
}

int runtime_attribute(int device, int attribute, int *value) {
    int error = core_device_attribute(device, attribute, value);
    if (!error && attribute_is_withheld(attribute))
        *value = 0;
    return error;
}

static int get_attribute(int *value, int attribute, int device) {
    int error = runtime_attach_device(device);
    if (error)
        return error;
    return value ? runtime_attribute(device, attribute, value) : CUDART_INVALID_VALUE;
}

RUNTIME_API int cudaDeviceGetAttribute(int *value, int attribute, int device) { return runtime_local(get_attribute(value, attribute, device)); }

static int get_priority_range(int *least, int *greatest) {
    int current;
    int error = runtime_enter(&current);
    if (error)
        return error;
    const struct core_device *device = core_device(current);
    if (!device)
        return CUDART_INVALID_DEVICE;
    if (least)
        *least = device->priority_least;
    if (greatest)
        *greatest = device->priority_greatest;
    return CUDART_OK;
}

RUNTIME_API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return runtime_local(get_priority_range(least, greatest)); }

/* ---- PCI bus ids ---- */

static int get_pci_bus_id(char *text, int size, int ordinal) {
    int error = runtime_attach_device(ordinal);
    if (error)
        return error;
    const struct core_device *device = core_device(ordinal);
    if (!text || size <= 0 || strlen(device->pci_bus_id) >= (size_t)size)
        return CUDART_INVALID_VALUE;
    strcpy(text, device->pci_bus_id);
    return CUDART_OK;
}

struct pci_address { unsigned domain, bus, device, function; };

/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function], hexadecimal. */
static bool parse_pci_address(const char *text, struct pci_address *address) {
    int end = 0;
    *address = (struct pci_address){0, 0, 0, 0};
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &address->domain, &address->bus, &address->device, &address->function, &end) == 4 && !text[end])
        return true;
    *address = (struct pci_address){0, 0, 0, 0};
    if (sscanf(text, "%8x:%2x:%2x%n", &address->domain, &address->bus, &address->device, &end) == 3 && !text[end])
        return true;
    *address = (struct pci_address){0, 0, 0, 0};
    return sscanf(text, "%2x:%2x.%1x%n", &address->bus, &address->device, &address->function, &end) == 3 && !text[end];
}

static int get_by_pci_bus_id(int *found, const char *text) {
    int count;
    int error = runtime_attach(&count);
    if (error)
        return error;
    struct pci_address wanted, has;
    if (!found || !text || !parse_pci_address(text, &wanted))
        return CUDART_INVALID_VALUE;
    for (int i = 0; i < count; i++) {
        const struct core_device *device = core_device(i);
        if (device && parse_pci_address(device->pci_bus_id, &has) && has.domain == wanted.domain && has.bus == wanted.bus && has.device == wanted.device) {
            *found = i;
            return CUDART_OK;
        }
    }
    return CUDART_INVALID_DEVICE;
}

RUNTIME_API int cudaDeviceGetPCIBusId(char *text, int size, int device) { return runtime_local(get_pci_bus_id(text, size, device)); }
RUNTIME_API int cudaDeviceGetByPCIBusId(int *device, const char *text) { return runtime_local(get_by_pci_bus_id(device, text)); }

/* ---- flags, cache preferences: kept here, since they change nothing that a program could see through a server ---- */

enum {
    FLAG_SCHEDULE_MASK = 0x7, FLAG_MAP_HOST = 0x8, FLAG_LOCAL_RESIZE = 0x10, FLAG_SYNC_MEMORY = 0x80,
    FLAGS_KNOWN = FLAG_SCHEDULE_MASK | FLAG_MAP_HOST | FLAG_LOCAL_RESIZE | FLAG_SYNC_MEMORY
};

static atomic_uint device_flags[RUNTIME_MAX_DEVICES], cache_preference[RUNTIME_MAX_DEVICES], bank_size[RUNTIME_MAX_DEVICES];

static bool flags_are_valid(unsigned flags) {
    unsigned schedule = flags & FLAG_SCHEDULE_MASK;
    return !(flags & ~(unsigned)FLAGS_KNOWN) && (schedule & (schedule - 1)) == 0;
}

static int set_flags(int device, unsigned flags) {
    if (!flags_are_valid(flags))
        return CUDART_INVALID_VALUE;
    if (device < RUNTIME_MAX_DEVICES)
        atomic_store_explicit(&device_flags[device], flags, memory_order_relaxed);
    return CUDART_OK;
}

static int set_current_flags(unsigned flags) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if ((error = set_flags(runtime_device(), flags)))
        return error;
    int device;                                 /* since CUDA 12 the device is initialised with them at once */
    return FLYT_CUDART >= 12 ? runtime_enter(&device) : CUDART_OK;
}

static int get_flags(unsigned *flags) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!flags)
        return CUDART_INVALID_VALUE;
    int device = runtime_device();
    *flags = FLAG_MAP_HOST | (device < RUNTIME_MAX_DEVICES ? atomic_load_explicit(&device_flags[device], memory_order_relaxed) : 0);
    return CUDART_OK;
}

static int init_device(int device, unsigned flags, unsigned options) {
    enum { OPTION_FLAGS_VALID = 1 };
    int error = runtime_attach_device(device);
    if (error)
        return error;
    if (options & ~(unsigned)OPTION_FLAGS_VALID)
        return CUDART_INVALID_VALUE;
    if (options & OPTION_FLAGS_VALID && (error = set_flags(device, flags)))
        return error;
    return core_device_active(device) ? CUDART_OK : core_device_activate(device);
}

RUNTIME_API int cudaSetDeviceFlags(unsigned flags) { return runtime_local(set_current_flags(flags)); }
RUNTIME_API int cudaGetDeviceFlags(unsigned *flags) { return runtime_local(get_flags(flags)); }
RUNTIME_API int cudaInitDevice(int device, unsigned flags, unsigned options) { return runtime_local(init_device(device, flags, options)); }

static int preference_set(atomic_uint *table, unsigned value, unsigned greatest) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (value > greatest)
        return CUDART_INVALID_VALUE;
    if (device < RUNTIME_MAX_DEVICES)
        atomic_store_explicit(&table[device], value, memory_order_relaxed);
    return CUDART_OK;
}

static int preference_get(const atomic_uint *table, unsigned *value) {
    int device;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!value)
        return CUDART_INVALID_VALUE;
    *value = device < RUNTIME_MAX_DEVICES ? atomic_load_explicit(&table[device], memory_order_relaxed) : 0;
    return CUDART_OK;
}

enum { CACHE_PREFER_EQUAL = 3, BANK_FOUR_BYTES = 1, BANK_EIGHT_BYTES = 2 };

static int set_cache_config(unsigned config) { return runtime_local(preference_set(cache_preference, config, CACHE_PREFER_EQUAL)); }
static int get_cache_config(unsigned *config) { return runtime_local(preference_get(cache_preference, config)); }

RUNTIME_API int cudaDeviceSetCacheConfig(unsigned config) { return set_cache_config(config); }
RUNTIME_API int cudaDeviceGetCacheConfig(unsigned *config) { return get_cache_config(config); }

/* Bank sizes cannot be chosen on any GPU since compute capability 5: accepted, and four bytes is what they have. */
RUNTIME_API int cudaDeviceSetSharedMemConfig(unsigned config) { return runtime_local(preference_set(bank_size, config, BANK_EIGHT_BYTES)); }
RUNTIME_API int cudaDeviceGetSharedMemConfig(unsigned *config) {
    int error = preference_get(bank_size, config);
    if (!error)
        *config = BANK_FOUR_BYTES;
    return runtime_local(error);
}

/* ---- synchronisation, reset, limits ---- */

static int synchronize(void) {
    int device;
    int error = runtime_enter(&device);
    return runtime_waited(error ? error : core_device_synchronize(device));
}

static int reset(void) {
    int error = core_in_host_function() ? CUDART_NOT_PERMITTED : runtime_attach(NULL);
    if (error)
        return runtime_return(error);
    int device = runtime_device();
    if (device < RUNTIME_MAX_DEVICES) {
        atomic_store_explicit(&device_flags[device], 0, memory_order_relaxed);
        atomic_store_explicit(&cache_preference[device], 0, memory_order_relaxed);
    }
    return runtime_waited(core_device_active(device) ? core_device_reset(device) : core_sticky());
}

enum { LIMIT_LAST = 6 };

static int get_limit(size_t *value, unsigned limit) {
    int device;
    int error = runtime_enter(&device);
    if (!error && (!value || limit > LIMIT_LAST))
        error = CUDART_INVALID_VALUE;
    return runtime_waited(error ? error : core_limit_get(device, (int)limit, value));
}

static int set_limit(unsigned limit, size_t value) {
    int device;
    int error = runtime_enter(&device);
    if (!error && limit > LIMIT_LAST)
        error = CUDART_INVALID_VALUE;
    return runtime_waited(error ? error : core_limit_set(device, (int)limit, value));
}

RUNTIME_API int cudaDeviceSynchronize(void) { return synchronize(); }
RUNTIME_API int cudaDeviceReset(void) { return reset(); }
RUNTIME_API int cudaDeviceGetLimit(size_t *value, unsigned limit) { return get_limit(value, limit); }
RUNTIME_API int cudaDeviceSetLimit(unsigned limit, size_t value) { return set_limit(limit, value); }

#if FLYT_CUDART <= 12
/* Chapter "Thread Management": the same under older names. */
RUNTIME_API int cudaThreadSynchronize(void) { return synchronize(); }
RUNTIME_API int cudaThreadExit(void) { return reset(); }
RUNTIME_API int cudaThreadGetLimit(size_t *value, unsigned limit) { return get_limit(value, limit); }
RUNTIME_API int cudaThreadSetLimit(unsigned limit, size_t value) { return set_limit(limit, value); }
RUNTIME_API int cudaThreadGetCacheConfig(unsigned *config) { return get_cache_config(config); }
RUNTIME_API int cudaThreadSetCacheConfig(unsigned config) { return set_cache_config(config); }
#endif
