/* function.c: what is asked about functions and kernels. CUDA reference: Execution Control, Library Management. */
#include "softgpu/driver/calls/calls.h"

CUresult sgd_enter_function(CUfunction handle, struct sgd_function **f)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = sgd_function_find(handle, c, f);
    if (r)
        sgd_leave();
    return r;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    r = value ? sgd_function_get_attribute(f, attribute, value) : CUDA_ERROR_INVALID_VALUE;
    sgd_leave();
    return r;
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    r = sgd_function_set_attribute(f, attribute, value);
    sgd_leave();
    return r;
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    sgd_leave();
    return (unsigned)config <= CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    sgd_leave();
    return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    if (out)
        *out = f->module->handle;
    sgd_leave();
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 12000
static CUresult enter_kernel(CUkernel handle, struct sgd_kernel **k)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    *k = sgd_handle_get(SGD_KERNEL, handle);
    if (*k)
        return CUDA_SUCCESS;
    sgd_leave();
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function((CUfunction)handle, &f);
    if (r)
        return r;
    if (out)
        *out = f->handle;
    sgd_leave();
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The kernel on `device`, in its primary context, which is retained by whoever asks about it. */
static CUresult on_device(struct sgd_kernel *k, CUdevice device, struct sgd_function **f)
{
    struct sgd_device *d = sgd_device(device);
    if (!d)
        return CUDA_ERROR_INVALID_DEVICE;
    struct sgd_context *c = sgd_context_current();
    if (!c || c->device != d || !c->active)
        c = d->primary;
    return c->active ? sgd_kernel_function(k, c, f) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel handle, CUdevice device)
{
    struct sgd_kernel *k;
    struct sgd_function *f;
    CUresult r = enter_kernel(handle, &k);
    if (r)
        return r;
    r = value ? on_device(k, device, &f) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = sgd_function_get_attribute(f, attribute, value);
    sgd_leave();
    return r;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle, CUdevice device)
{
    struct sgd_kernel *k;
    struct sgd_function *f;
    CUresult r = enter_kernel(handle, &k);
    if (r)
        return r;
    r = on_device(k, device, &f);
    if (!r)
        r = sgd_function_set_attribute(f, attribute, value);
    if (!r) {
        k->attributes[attribute].set = true;
        k->attributes[attribute].value = value;
    }
    sgd_leave();
    return r;
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device)
{
    struct sgd_kernel *k;
    CUresult r = enter_kernel(handle, &k);
    if (r)
        return r;
    r = !sgd_device(device)                             ? CUDA_ERROR_INVALID_DEVICE
        : (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                        : CUDA_SUCCESS;
    sgd_leave();
    return r;
}
#endif

#if CUDA_VERSION >= 12030
CUresult cuFuncGetName(const char **name, CUfunction handle)
{
    struct sgd_function *f;
    CUresult r = handle ? sgd_enter_function(handle, &f) : CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    if (name)
        *name = f->info.function->name;
    sgd_leave();
    return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetName(const char **name, CUkernel handle)
{
    struct sgd_kernel *k;
    CUresult r = handle ? enter_kernel(handle, &k) : CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    if (name)
        *name = k->name;
    sgd_leave();
    return name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

#if CUDA_VERSION >= 12040
CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    const struct ptx_prototype *p = &f->info.function->signature;
    if (!offset || index >= p->param_count) {
        r = CUDA_ERROR_INVALID_VALUE;
    } else {
        *offset = p->params[index].offset;
        if (size)
            *size = p->params[index].size;
    }
    sgd_leave();
    return r;
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)handle, index, offset, size);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (r)
        return r;
    if (state)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    sgd_leave();
    return state ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncLoad(CUfunction handle)
{
    struct sgd_function *f;
    CUresult r = sgd_enter_function(handle, &f);
    if (!r)
        sgd_leave();
    return r;
}
#endif

#if CUDA_VERSION >= 12050
CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel handle)
{
    struct sgd_kernel *k;
    CUresult r = enter_kernel(handle, &k);
    if (r)
        return r;
    if (out)
        *out = k->library->handle;
    sgd_leave();
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif
