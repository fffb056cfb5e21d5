/* function.c: what functions and kernels are and how they may run, of chapters "Execution Control" and "Library
   Management". */
#include "cpu/client/driver/driver.h"

_Static_assert((int)CORE_FUNCTION_SETTABLE == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
                   (int)CORE_FUNCTION_ATTRIBUTES == CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE + 1,
               "core_function_info has the attributes by their numbers");

static int get_attribute(core_context *context, core_function *function, int attribute, int *value)
{
    const struct core_function_info *info;
    int error = value ? driver_function(&context, function) : CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = core_function_info(context, function, &info);
    if (error)
        return error;
    if (attribute < 0 || attribute >= CORE_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    *value = info->attributes[attribute];
    return CUDA_SUCCESS;
}

static int set_attribute(core_context *context, core_function *function, int attribute, int value)
{
    if (attribute < CORE_FUNCTION_SETTABLE || attribute >= CORE_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    int error = driver_function(&context, function);
    return error ? error : core_function_set(context, function, attribute, value);
}

static int set_cache(core_context *context, core_function *function, int config)
{
    if (config < 0 || config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    int error = driver_function(&context, function);
    return error ? error : core_function_set_cache(context, function, config);
}

static int get_parameter(core_function *function, size_t index, size_t *offset, size_t *size)
{
    const struct core_function_info *info;
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !offset)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_function(&context, function);
    if (error || (error = core_function_info(context, function, &info)))
        return error;
    if (index >= info->parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = info->parameters[index].offset;
    if (size)
        *size = info->parameters[index].size;
    return CUDA_SUCCESS;
}

/* A null handle is a wrong value here, as NVIDIA's driver says (cuda-python's tests), and no wrong handle. */
static int get_name(const char **name, core_function *function)
{
    int error = driver_ready();
    if (!error && (!name || !function))
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_function_check(function, NULL, name);
}

/* ---- functions, of the current context ---- */

CUresult driver_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : get_attribute(context, function, (int)attribute, value));
}

CUresult driver_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : set_attribute(context, function, (int)attribute, value));
}

CUresult driver_cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config)
{
    core_context *context;
    int error = driver_enter(&context);
    return driver_waited(error ? error : set_cache(context, function, (int)config));
}

/* No GPU since compute capability 5 has a choice of bank sizes: checked, and without effect, as natively. */
CUresult driver_cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        error = CUDA_ERROR_INVALID_VALUE;
    return driver_local(error ? error : driver_function(&context, function));
}

CUresult driver_cuFuncGetName(const char **name, CUfunction function) { return driver_local(get_name(name, function)); }
CUresult driver_cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
{
    return driver_waited(get_parameter(function, index, offset, size));
}

static int get_module(CUmodule *module, CUfunction function)
{
    core_context *context;
    core_image *image;
    int error = driver_enter(&context);
    if (!error && !module)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_function(&context, function);
    if (error || (error = core_function_check(function, &image, NULL)))
        return error;
    CUlibrary library = core_library_of(image);
    if (library)
        return driver_module_of_library(context, library, image, module);
    CUmodule found = driver_module_of(image, context);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    *module = found;
    return CUDA_SUCCESS;
}

CUresult driver_cuFuncGetModule(CUmodule *module, CUfunction function)
{
    return driver_local(get_module(module, function));
}

/* A function that cuModuleGetFunction has found is loaded; a kernel of a library is loaded here. */
static int load(CUfunction function)
{
    const struct core_function_info *info;
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = driver_function(&context, function);
    return error ? error : core_function_info(context, function, &info);
}

CUresult driver_cuFuncLoad(CUfunction function) { return driver_waited(load(function)); }
CUresult driver_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    int error = state ? load(function) : CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return driver_waited(error);
}

/* ---- kernels, for one device: its current context, or else its primary one ---- */

/* They need no context: where there is none yet, the primary one lends itself for the question (*lent). */
static int context_of(CUdevice device, core_context **context, bool *lent)
{
    struct core_context_info info;
    int error = driver_device(device);
    *lent = false;
    if (error)
        return error;
    if (driver_current && !core_context_info(driver_current, &info) && info.device == device && info.active)
        *context = driver_current;
    else
        *context = core_context_primary(device);
    error = core_context_enter(*context);
    if (error != CUDA_ERROR_INVALID_CONTEXT && error != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        return error;
    error = core_context_retain(*context);
    *lent = !error;
    return error;
}

/* keep: what was set in the context would go with it. */
static int answer(core_context *context, bool lent, bool keep, int error)
{
    if (lent && (error || !keep))
        core_context_release(context);
    return driver_waited(error);
}

CUresult driver_cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device)
{
    core_context *context;
    bool lent;
    int error = context_of(device, &context, &lent);
    return answer(context, lent, false, error ? error : get_attribute(context, kernel, (int)attribute, value));
}

CUresult driver_cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device)
{
    core_context *context;
    bool lent;
    int error = context_of(device, &context, &lent);
    return answer(context, lent, true, error ? error : set_attribute(context, kernel, (int)attribute, value));
}

CUresult driver_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    core_context *context;
    bool lent;
    int error = context_of(device, &context, &lent);
    return answer(context, lent, true, error ? error : set_cache(context, kernel, (int)config));
}

CUresult driver_cuKernelGetName(const char **name, CUkernel kernel) { return driver_local(get_name(name, kernel)); }
CUresult driver_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
    return driver_waited(get_parameter(kernel, index, offset, size));
}
