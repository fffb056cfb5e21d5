/* function.c: what a kernel is and how it may run, of chapter "Execution Control". The first use of a kernel loads its
   image. */
#include "cpu/client/runtime/runtime.h"


#include <string.h>

/* What is known of a kernel on the current device; `out` is where the caller wants it. */
static int describe(const void *key, const void *out, const struct core_function_info **info)
{
    core_context *context;
    core_function *function;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out)
        return cudaErrorInvalidValue;
    error = runtime_function(key, &function);
    return error ? error : core_function_info(context, function, info);
}

static int get_attributes(cudaFuncAttributes *out, const void *key)
{
    const struct core_function_info *info;
    int error = describe(key, out, &info);
    if (error)
        return error;
    memset(out, 0, sizeof *out);
    out->sharedSizeBytes = (size_t)info->shared_bytes;
    out->constSizeBytes = (size_t)info->const_bytes;
    out->localSizeBytes = (size_t)info->local_bytes;
    out->maxThreadsPerBlock = info->max_threads;
    out->numRegs = info->registers;
    out->ptxVersion = info->ptx_version;
    out->binaryVersion = info->binary_version;
    out->cacheModeCA = info->cache_mode_ca;
    out->maxDynamicSharedSizeBytes = info->max_dynamic_shared;
    out->preferredShmemCarveout = info->preferred_carveout;
#if FLYT_CUDART >= 12
    out->clusterDimMustBeSet = info->cluster_must_be_set;
    out->requiredClusterWidth = info->cluster_width;
    out->requiredClusterHeight = info->cluster_height;
    out->requiredClusterDepth = info->cluster_depth;
    out->nonPortableClusterSizeAllowed = info->non_portable_cluster;
    out->clusterSchedulingPolicyPreference = info->cluster_policy;
#endif
    return cudaSuccess;
}

/* cudaFuncAttribute and CUfunction_attribute agree from here to there; the others are not for setting. */
enum { FUNCTION_ATTRIBUTE_FIRST = 8, FUNCTION_ATTRIBUTE_LAST = 15 };

static int set_attribute(core_context *context, const void *key, int attribute, int value)
{
    core_function *function;
    if (attribute < FUNCTION_ATTRIBUTE_FIRST || attribute > FUNCTION_ATTRIBUTE_LAST)
        return cudaErrorInvalidValue;
    int error = runtime_function(key, &function);
    return error ? error : core_function_set(context, function, attribute, value);
}

static int set_attribute_here(const void *key, int attribute, int value)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : set_attribute(context, key, attribute, value);
}

cudaError_t runtime_cudaFuncGetAttributes(cudaFuncAttributes *out, const void *key)
{
    return runtime_waited(get_attributes(out, key));
}

cudaError_t runtime_cudaFuncSetAttribute(const void *key, cudaFuncAttribute attribute, int value)
{
    return runtime_waited(set_attribute_here(key, attribute, value));
}

#if FLYT_CUDART >= 12
static int set_attribute_for(const void *key, int attribute, int value, int device)
{
    core_context *context;
    int error = runtime_attach_device(device);
    if (!error)
        error = runtime_retain(device, &context);
    return error ? error : set_attribute(context, key, attribute, value);
}

cudaError_t runtime_cudaKernelSetAttributeForDevice(cudaKernel_t key, cudaFuncAttribute attribute, int value,
                                                    int device)
{
    return runtime_waited(set_attribute_for(key, attribute, value, device));
}
#endif

static int set_cache_config(const void *key, cudaFuncCache config)
{
    core_context *context;
    core_function *function;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (config > cudaFuncCachePreferEqual)
        return cudaErrorInvalidValue;
    error = runtime_function(key, &function);
    return error ? error : core_function_set_cache(context, function, (int)config);
}

/* No GPU since compute capability 5 has a choice of bank sizes: checked, and without effect, as natively. */
static int set_shared_config(const void *key, cudaSharedMemConfig config)
{
    core_context *context;
    core_function *function;
    int error = runtime_enter(&context);
    if (error)
        return error;
    return config > cudaSharedMemBankSizeEightByte ? cudaErrorInvalidValue : runtime_function(key, &function);
}

cudaError_t runtime_cudaFuncSetCacheConfig(const void *key, cudaFuncCache config)
{
    return runtime_return(set_cache_config(key, config));
}

cudaError_t runtime_cudaFuncSetSharedMemConfig(const void *key, cudaSharedMemConfig config)
{
    return runtime_local(set_shared_config(key, config));
}

#if FLYT_CUDART >= 12
static int get_name(const char **name, const void *key)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!name)
        return cudaErrorInvalidValue;
    const struct runtime_function *record = runtime_function_record(key);
    if (record)
        *name = record->name;
    return record || !core_function_check(key, NULL, name) ? cudaSuccess : RUNTIME_NO_KERNEL;
}

static int get_parameter(const void *key, size_t index, size_t *offset, size_t *size)
{
    const struct core_function_info *info;
    int error = describe(key, offset, &info);
    if (error)
        return error;
    if (index >= info->parameter_count)
        return cudaErrorInvalidValue;
    *offset = info->parameters[index].offset;
    if (size)
        *size = info->parameters[index].size;
    return cudaSuccess;
}

cudaError_t runtime_cudaFuncGetName(const char **name, const void *key) { return runtime_local(get_name(name, key)); }
cudaError_t runtime_cudaFuncGetParamInfo(const void *key, size_t index, size_t *offset, size_t *size)
{
    return runtime_waited(get_parameter(key, index, offset, size));
}
#endif

/* The driver's handle of a kernel is the core's object: the Driver API lives on the same core. */
static int get_driver_function(cudaFunction_t *function, const void *key)
{
    core_function *found;
    int error = runtime_attach(NULL);
    if (error || !function) /* NVIDIA's runtime has no error for NULL */
        return error;
    if (!(error = runtime_function(key, &found)))
        *function = found;
    return error == RUNTIME_NO_KERNEL ? cudaErrorInvalidDeviceFunction : error;       /* a handle is no key here */
}

cudaError_t runtime_cudaGetFuncBySymbol(cudaFunction_t *function, const void *key)
{
    return runtime_local(get_driver_function(function, key));
}

/* Chapter "Execution Control", obsolete since doubles are everywhere: nothing to convert. */
#if FLYT_CUDART <= 12
static int keep_double(const double *value)
{
    int error = runtime_attach(NULL);
    return error ? error : value ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t runtime_cudaSetDoubleForDevice(double *value) { return runtime_local(keep_double(value)); }
cudaError_t runtime_cudaSetDoubleForHost(double *value) { return runtime_local(keep_double(value)); }
#endif
