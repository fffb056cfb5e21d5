/*
 * device.c: chapter "Device Management" without the properties (properties.c). Questions about devices are answered
 * from the core's snapshot and make no context; the current device is the thread's.
 */
#include "cpu/client/graph/capture.h"
#include "cpu/client/runtime/runtime.h"

#include "api/forward/core.h"

#include <stdio.h>
#include <string.h>

/* ---- count, current device ---- */

static int get_device_count(int *count)
{
    int found;
    int error = runtime_attach(&found);
    if (error)
        return error; /* *count stays what it was, also when there is no device */
    if (!count)
        return cudaErrorInvalidValue;
    *count = found;
    return cudaSuccess;
}

static int get_device(int *device)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!device)
        return cudaErrorInvalidValue;
    *device = runtime_device();
    return cudaSuccess;
}

static int set_device(int device)
{
    int error = FLYT_CUDART >= 12 ? runtime_attach_to_use(device) : runtime_attach_device(device);
    if (error)
        return error;
    if (core_in_host_function()) /* whose thread never has a device */
        return cudaErrorNotPermitted;
    core_context *context = NULL;
    /* Since CUDA 12 the context is made here, before at the first use. */
    if (FLYT_CUDART >= 12)
        error = runtime_retain(device, &context);
    runtime_choose(device, error ? NULL : context);
    runtime_thread.chosen = device + 1;
    return error;
}

cudaError_t runtime_cudaGetDeviceCount(int *count) { return runtime_local(get_device_count(count)); }
cudaError_t runtime_cudaGetDevice(int *device) { return runtime_local(get_device(device)); }
cudaError_t runtime_cudaSetDevice(int device) { return runtime_local(set_device(device)); }

/* ---- attributes ---- */

static int get_attribute(int *value, int attribute, int device)
{
    int error = runtime_attach_device(device);
    if (error)
        return error;
    return value ? core_device_attribute(device, attribute, value) : cudaErrorInvalidValue;
}

cudaError_t runtime_cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    return runtime_local(get_attribute(value, attribute, device));
}

static int get_priority_range(int *least, int *greatest)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    const struct core_device *device = core_device(runtime_current());
    if (!device)
        return cudaErrorInvalidDevice;
    if (least)
        *least = device->priority_least;
    if (greatest)
        *greatest = device->priority_greatest;
    return cudaSuccess;
}

cudaError_t runtime_cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    return runtime_local(get_priority_range(least, greatest));
}

/* ---- PCI bus ids ---- */

static int get_pci_bus_id(char *text, int size, int ordinal)
{
    int error = runtime_attach_device(ordinal);
    if (error)
        return error;
    const struct core_device *device = core_device(ordinal);
    if (!text || size <= 0 || strlen(device->pci_bus_id) >= (size_t)size)
        return cudaErrorInvalidValue;
    strcpy(text, device->pci_bus_id);
    return cudaSuccess;
}

static int get_by_pci_bus_id(int *found, const char *text)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    return found && text ? core_device_by_pci_bus_id(text, found) : cudaErrorInvalidValue;
}

cudaError_t runtime_cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    return runtime_local(get_pci_bus_id(text, size, device));
}

cudaError_t runtime_cudaDeviceGetByPCIBusId(int *device, const char *text)
{
    return runtime_local(get_by_pci_bus_id(device, text));
}

/* ---- flags, cache preferences: kept here, since they change nothing that a program could see through a server ---- */

enum {
    FLAG_SCHEDULE_MASK = 0x7,
    FLAG_MAP_HOST = 0x8,
    FLAGS_KNOWN = FLYT_CUDART == 11 ? 0x1F : 0xFF /* also those that only the Driver API names */
};

static atomic_uint cache_preference[RUNTIME_MAX_DEVICES], bank_size[RUNTIME_MAX_DEVICES];

static bool flags_are_valid(unsigned flags)
{
    unsigned schedule = flags & FLAG_SCHEDULE_MASK;
    return !(flags & ~(unsigned)FLAGS_KNOWN) && (schedule & (schedule - 1)) == 0;
}

static int set_flags(int device, unsigned flags)
{
    if (!flags_are_valid(flags))
        return cudaErrorInvalidValue;
    return core_context_set_flags(core_context_primary(device), flags);
}

static int set_current_flags(unsigned flags)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if ((error = set_flags(runtime_device(), flags)))
        return error;
    core_context *context; /* since CUDA 12 the device is initialised with them at once */
    return FLYT_CUDART >= 12 ? runtime_enter(&context) : cudaSuccess;
}

static int get_flags(unsigned *flags)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!flags)
        return cudaErrorInvalidValue;
    struct core_context_info info;
    if ((error = core_context_info(core_context_primary(runtime_device()), &info)))
        return error;
    *flags = FLAG_MAP_HOST | info.flags;
    return cudaSuccess;
}

cudaError_t runtime_cudaSetDeviceFlags(unsigned flags) { return runtime_local(set_current_flags(flags)); }
cudaError_t runtime_cudaGetDeviceFlags(unsigned *flags) { return runtime_local(get_flags(flags)); }

#if FLYT_CUDART >= 12
static int init_device(int device, unsigned flags, unsigned options)
{
    enum { OPTION_FLAGS_VALID = 1 };
    int error = runtime_attach_to_use(device);
    if (error)
        return error;
    if (options & OPTION_FLAGS_VALID && (error = set_flags(device, flags)))
        return error;
    core_context *context;
    return runtime_retain(device, &context);
}

cudaError_t runtime_cudaInitDevice(int device, unsigned flags, unsigned options)
{
    return runtime_local(init_device(device, flags, options));
}
#endif

static int preference_set(atomic_uint *table, unsigned value, unsigned greatest)
{
    core_context *context;
    int error = runtime_enter(&context), device = runtime_current();
    if (error)
        return error;
    if (value > greatest)
        return cudaErrorInvalidValue;
    if (device < RUNTIME_MAX_DEVICES)
        atomic_store_explicit(&table[device], value, memory_order_relaxed);
    return cudaSuccess;
}

static int preference_get(const atomic_uint *table, unsigned *value)
{
    core_context *context;
    int error = runtime_enter(&context), device = runtime_current();
    if (error)
        return error;
    if (!value)
        return cudaErrorInvalidValue;
    *value = device < RUNTIME_MAX_DEVICES ? atomic_load_explicit(&table[device], memory_order_relaxed) : 0;
    return cudaSuccess;
}

static int set_cache_config(cudaFuncCache config)
{
    return runtime_local(preference_set(cache_preference, config, cudaFuncCachePreferEqual));
}

static int get_cache_config(cudaFuncCache *config) { return runtime_local(preference_get(cache_preference, config)); }

cudaError_t runtime_cudaDeviceSetCacheConfig(cudaFuncCache config) { return set_cache_config(config); }
cudaError_t runtime_cudaDeviceGetCacheConfig(cudaFuncCache *config) { return get_cache_config(config); }

/* Bank sizes cannot be chosen on any GPU since compute capability 5: accepted, and four bytes is what they have. */
cudaError_t runtime_cudaDeviceSetSharedMemConfig(cudaSharedMemConfig config)
{
    return runtime_local(preference_set(bank_size, config, cudaSharedMemBankSizeEightByte));
}

cudaError_t runtime_cudaDeviceGetSharedMemConfig(cudaSharedMemConfig *config)
{
    int error = preference_get(bank_size, config);
    if (!error)
        *config = cudaSharedMemBankSizeFourByte;
    return runtime_local(error);
}

/* ---- synchronisation, reset, limits ---- */

static int synchronize(void)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error)
        error = issue_check_context(context);
    return runtime_waited(error ? error : core_context_synchronize(context));
}

/* In a thread that has no current context this does nothing, as NVIDIA's runtime does nothing then. */
static int reset(void)
{
    int error = core_in_host_function() ? cudaErrorNotPermitted : runtime_attach(NULL);
    if (error || !core_current)
        return runtime_return(error);
    int device = runtime_device();
    core_context *primary = core_context_primary(device);
    if (device < RUNTIME_MAX_DEVICES)
        atomic_store_explicit(&cache_preference[device], 0, memory_order_relaxed);
    issue_context_ends(primary);
    error = core_context_reset(primary);
    if (runtime_released(device) && !error)
        core_context_release(primary);
    core_take_latched(); /* what its work has left behind went with it */
    return runtime_return(error);
}

/* The driver knows some that have no name in the Runtime API: 215. */
enum { LIMIT_LAST = 6, LIMIT_SHARED = 7, LIMIT_KNOWN = 9 };

static int get_limit(size_t *value, unsigned limit)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && (!value || limit > LIMIT_KNOWN))
        error = cudaErrorInvalidValue;
    else if (!error && limit > LIMIT_SHARED)
        error = cudaErrorUnsupportedLimit;
    return runtime_waited(error ? error : core_ctx_get_limit(context, value, (int)limit));
}

static int set_limit(unsigned limit, size_t value)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (!error && limit > LIMIT_LAST)
        error = limit > LIMIT_KNOWN     ? cudaErrorInvalidValue
                : limit == LIMIT_SHARED ? cudaErrorNotPermitted
                                        : cudaErrorUnsupportedLimit;
    return runtime_waited(error ? error : core_limit_set(context, (int)limit, value));
}

cudaError_t runtime_cudaDeviceSynchronize(void) { return synchronize(); }
cudaError_t runtime_cudaDeviceReset(void) { return reset(); }
cudaError_t runtime_cudaDeviceGetLimit(size_t *value, cudaLimit limit) { return get_limit(value, limit); }
cudaError_t runtime_cudaDeviceSetLimit(cudaLimit limit, size_t value) { return set_limit(limit, value); }

static int reset_persisting(void)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : core_ctx_reset_persisting_l2cache(context);
}

cudaError_t runtime_cudaCtxResetPersistingL2Cache(void) { return runtime_return(reset_persisting()); }

#if FLYT_CUDART <= 12
/* Chapter "Thread Management": the same under older names. */
cudaError_t runtime_cudaThreadSynchronize(void) { return synchronize(); }
cudaError_t runtime_cudaThreadExit(void) { return reset(); }
cudaError_t runtime_cudaThreadGetLimit(size_t *value, cudaLimit limit) { return get_limit(value, limit); }
cudaError_t runtime_cudaThreadSetLimit(cudaLimit limit, size_t value) { return set_limit(limit, value); }
cudaError_t runtime_cudaThreadGetCacheConfig(cudaFuncCache *config) { return get_cache_config(config); }
cudaError_t runtime_cudaThreadSetCacheConfig(cudaFuncCache config) { return set_cache_config(config); }
#endif
