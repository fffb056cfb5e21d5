/* function.c: what a kernel is and how it may run, of chapter "Execution Control". First use of a kernel loads its image. */
#include "cpu/client/runtime/runtime.h"

#include <string.h>

/* What is known of a kernel on the current device; `out` is where the caller wants it. */
static int describe(const void *key, const void *out, const struct core_function_info **info) {
    int device;
    core_function *function;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (!out)
        return CUDART_INVALID_VALUE;
    error = runtime_function(key, &function);
    return error ? error : core_function_info(device, function, info);
}

static int get_attributes(struct cudart_function_attributes *out, const void *key) {
    const struct core_function_info *info;
    int error = describe(key, out, &info);
    if (error)
        return error;
    memset(out, 0, sizeof *out);
    out->shared = (size_t)info->shared_bytes;
    out->constant = (size_t)info->const_bytes;
    out->local = (size_t)info->local_bytes;
    out->max_threads = info->max_threads;
    out->registers = info->registers;
    out->ptx_version = info->ptx_version;
    out->binary_version = info->binary_version;
    out->cache_mode_ca = info->cache_mode_ca;
    out->max_dynamic_shared = info->max_dynamic_shared;
    out->preferred_carveout = info->preferred_carveout;
#if FLYT_CUDART >= 12
    out->cluster_must_be_set = info->cluster_must_be_set;
    out->cluster_width = info->cluster_width;
    out->cluster_height = info->cluster_height;
    out->cluster_depth = info->cluster_depth;
    out->non_portable_cluster = info->non_portable_cluster;
#endif
    return CUDART_OK;
}

/* cudaFuncAttribute and CUfunction_attribute agree from here to there; the others are not for setting. */
enum { FUNCTION_ATTRIBUTE_FIRST = 8, FUNCTION_ATTRIBUTE_LAST = FLYT_CUDART >= 12 ? 15 : 9 };

static int set_attribute(int device, const void *key, int attribute, int value) {
    core_function *function;
    if (attribute < FUNCTION_ATTRIBUTE_FIRST || attribute > FUNCTION_ATTRIBUTE_LAST)
        return CUDART_INVALID_VALUE;
    int error = runtime_function(key, &function);
    return error ? error : core_function_set(device, function, attribute, value);
}

static int set_attribute_here(const void *key, int attribute, int value) {
    int device;
    int error = runtime_enter(&device);
    return error ? error : set_attribute(device, key, attribute, value);
}

static int set_attribute_for(const void *key, int attribute, int value, int device) {
    int error = runtime_attach_device(device);
    if (!error && !core_device_active(device))
        error = core_device_activate(device);
    return error ? error : set_attribute(device, key, attribute, value);
}

RUNTIME_API int cudaFuncGetAttributes(struct cudart_function_attributes *out, const void *key) { return runtime_waited(get_attributes(out, key)); }
RUNTIME_API int cudaFuncSetAttribute(const void *key, int attribute, int value) { return runtime_waited(set_attribute_here(key, attribute, value)); }
RUNTIME_API int cudaKernelSetAttributeForDevice(const void *key, int attribute, int value, int device) {
    return runtime_waited(set_attribute_for(key, attribute, value, device));
}

enum { CACHE_PREFER_LAST = 3, BANK_SIZE_LAST = 2 };

static int set_cache_config(const void *key, unsigned config) {
    int device;
    core_function *function;
    int error = runtime_enter(&device);
    if (error)
        return error;
    if (config > CACHE_PREFER_LAST)
        return CUDART_INVALID_VALUE;
    return (error = runtime_function(key, &function)) ? error : core_function_cache(device, function, (int)config);
}

/* No GPU since compute capability 5 has a choice of bank sizes: checked, and without effect, as natively. */
static int set_shared_config(const void *key, unsigned config) {
    int device;
    core_function *function;
    int error = runtime_enter(&device);
    if (error)
        return error;
    return config > BANK_SIZE_LAST ? CUDART_INVALID_VALUE : runtime_function(key, &function);
}

RUNTIME_API int cudaFuncSetCacheConfig(const void *key, unsigned config) { return runtime_return(set_cache_config(key, config)); }
RUNTIME_API int cudaFuncSetSharedMemConfig(const void *key, unsigned config) { return runtime_local(set_shared_config(key, config)); }

static int get_name(const char **name, const void *key) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!name)
        return CUDART_INVALID_VALUE;
    const struct runtime_function *record = runtime_function_record(key);
    if (!record)
        return CUDART_INVALID_FUNCTION;
    *name = record->name;
    return CUDART_OK;
}

static int get_parameter(const void *key, size_t index, size_t *offset, size_t *size) {
    const struct core_function_info *info;
    int error = describe(key, offset, &info);
    if (error)
        return error;
    if (index >= info->parameter_count)
        return CUDART_INVALID_VALUE;
    *offset = info->parameters[index].offset;
    if (size)
        *size = info->parameters[index].size;
    return CUDART_OK;
}

/* The driver's handle of a kernel is the core's object: the Driver API lives on the same core. */
static int get_driver_function(core_function **function, const void *key) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    return function ? runtime_function(key, function) : CUDART_INVALID_VALUE;
}

RUNTIME_API int cudaFuncGetName(const char **name, const void *key) { return runtime_local(get_name(name, key)); }
RUNTIME_API int cudaFuncGetParamInfo(const void *key, size_t index, size_t *offset, size_t *size) { return runtime_waited(get_parameter(key, index, offset, size)); }
RUNTIME_API int cudaGetFuncBySymbol(core_function **function, const void *key) { return runtime_local(get_driver_function(function, key)); }

/* Chapter "Execution Control", obsolete since doubles are everywhere: nothing to convert. */
#if FLYT_CUDART <= 12
static int keep_double(const double *value) {
    int error = runtime_attach(NULL);
    return error ? error : value ? CUDART_OK : CUDART_INVALID_VALUE;
}
RUNTIME_API int cudaSetDoubleForDevice(double *value) { return runtime_local(keep_double(value)); }
RUNTIME_API int cudaSetDoubleForHost(double *value) { return runtime_local(keep_double(value)); }
#endif
