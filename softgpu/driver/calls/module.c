/* module.c: CUDA reference: Module Management. Modules themselves: softgpu/driver/machine/module.c. */
#include "softgpu/driver/calls/calls.h"

#include <stdlib.h>

static CUresult load(CUmodule *out, const void *data, unsigned count, CUjit_option *options, void **values)
{
    struct sgd_context *c;
    struct sgd_jit jit;
    char log[SGD_LOG_SIZE] = "";
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    r = out && data ? sgd_jit_read(&jit, count, options, values) : CUDA_ERROR_INVALID_VALUE;
    if (r) {
        sgd_leave();
        return r;
    }
    struct sgd_image image;
    struct sgd_module *m;
    r = sgd_image_read(c->device, data, &image, log, sizeof log);
    if (!r) {
        r = sgd_module_new(c, &image, NULL, &m, log, sizeof log);
        sgd_image_free(&image);
    }
    if (!r)
        *out = m->handle;
    sgd_leave();
    sgd_log("%s", log);
    sgd_jit_finish(&jit, log);
    return r;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image) { return load(out, image, 0, NULL, NULL); }
CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) { return load(out, image, 0, NULL, NULL); }

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count, CUjit_option *options, void **values)
{
    return load(out, image, count, options, values);
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    void *data;
    CUresult r = sgd_image_file(path, &data);
    if (r)
        return r;
    r = load(out, data, 0, NULL, NULL);
    free(data);
    return r;
}

CUresult cuModuleUnload(CUmodule handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_module *m = sgd_handle_get(SGD_MODULE, handle);
    if (!m || m->library) {
        sgd_leave();
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct sgd_context *c = m->context;
    sgd_context_hold(c);
    sgd_module_destroy(m);
    sgd_context_flush(c);
    sgd_leave();
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

static CUresult enter_module(CUmodule handle, struct sgd_module **m)
{
    struct sgd_context *c;
    CUresult r = sgd_enter_current(&c);
    if (r)
        return r;
    *m = sgd_handle_get(SGD_MODULE, handle);
    if (*m)
        return CUDA_SUCCESS;
    sgd_leave();
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
    struct sgd_module *m;
    struct sgd_function *f;
    CUresult r = enter_module(handle, &m);
    if (r)
        return r;
    r = out && name ? sgd_module_function(m, name, &f) : CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = f->handle;
    sgd_leave();
    return r;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule handle, const char *name)
{
    struct sgd_module *m;
    CUresult r = enter_module(handle, &m);
    if (r)
        return r;
    uint64_t at = 0;
    size_t size = 0;
    r = name && (address || bytes) ? sgd_module_variable(m, name, false, &at, &size) : CUDA_ERROR_INVALID_VALUE;
    if (!r && address)
        *address = at;
    if (!r && bytes)
        *bytes = size;
    sgd_leave();
    return r;
}

#if CUDA_VERSION >= 12040
CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule handle)
{
    struct sgd_module *m;
    CUresult r = enter_module(handle, &m);
    if (r)
        return r;
    unsigned n = 0;
    for (uint32_t i = 0; i < m->ptx->function_count; i++)
        n += m->ptx->functions[i].is_entry && m->ptx->functions[i].defined;
    if (count)
        *count = n;
    sgd_leave();
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned room, CUmodule handle)
{
    struct sgd_module *m;
    CUresult r = enter_module(handle, &m);
    if (r)
        return r;
    if (!functions)
        r = CUDA_ERROR_INVALID_VALUE;
    unsigned n = 0;
    for (uint32_t i = 0; i < m->ptx->function_count && n < room && !r; i++) {
        const struct ptx_function *p = &m->ptx->functions[i];
        struct sgd_function *f;
        if (!p->is_entry || !p->defined)
            continue;
        r = sgd_module_function(m, p->name, &f);
        if (!r)
            functions[n++] = f->handle;
    }
    sgd_leave();
    return r;
}
#endif
