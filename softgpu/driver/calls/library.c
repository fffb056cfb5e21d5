/* library.c: CUDA reference: Library Management. Libraries themselves: softgpu/driver/machine/library.c. */
#include "softgpu/driver/calls/calls.h"

#if CUDA_VERSION >= 12000

#include <stdlib.h>
#include <string.h>

static CUresult load(CUlibrary *out, const void *code, unsigned count, CUjit_option *options, void **values,
                     unsigned library_count, const CUlibraryOption *library_options)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    sgd_leave();
    struct sgd_jit jit;
    struct sgd_library *l;
    char log[SGD_LOG_SIZE] = "";
    r = out && code ? sgd_jit_read(&jit, count, options, values) : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < library_count && !r; i++)
        if (!library_options || (unsigned)library_options[i] >= CU_LIBRARY_NUM_OPTIONS)
            r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    r = sgd_library_new(code, &l, log, sizeof log);
    if (!r)
        *out = l->handle;
    sgd_log("%s", log);
    sgd_jit_finish(&jit, log);
    return r;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options, void **values, unsigned count,
                           CUlibraryOption *library_options, void **library_values, unsigned library_count)
{
    (void)library_values;
    return load(out, code, count, options, values, library_count, library_options);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options, void **values, unsigned count,
                               CUlibraryOption *library_options, void **library_values, unsigned library_count)
{
    (void)library_values;
    if (!sgd_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    void *data;
    CUresult r = sgd_image_file(path, &data);
    if (r)
        return r;
    r = load(out, data, count, options, values, library_count, library_options);
    free(data);
    return r;
}

CUresult cuLibraryUnload(CUlibrary handle)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    struct sgd_library *l = sgd_handle_get(SGD_LIBRARY, handle);
    if (!l) {
        sgd_leave();
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (size_t i = 0; i < l->module_count; i++) {
        struct sgd_module *m = sgd_handle_get(SGD_MODULE, l->modules[i]);
        if (m)
            sgd_module_destroy(m);
    }
    free(l->modules);
    sgd_library_free(l);
    sgd_leave();
    return CUDA_SUCCESS;
}

/* ---- kernels and variables --------------------------------------------------------------------------------------- */

static CUresult enter_library(CUlibrary handle, struct sgd_library **l)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    *l = sgd_handle_get(SGD_LIBRARY, handle);
    if (*l)
        return CUDA_SUCCESS;
    sgd_leave();
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
    struct sgd_library *l;
    CUresult r = enter_library(handle, &l);
    if (r)
        return r;
    struct sgd_kernel *k = name ? l->kernels : NULL;
    while (k && strcmp(k->name, name))
        k = k->next;
    if (!out || !name)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (!k)
        r = CUDA_ERROR_NOT_FOUND;
    else
        *out = k->handle;
    sgd_leave();
    return r;
}

#if CUDA_VERSION >= 12040
CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary handle)
{
    struct sgd_library *l;
    CUresult r = enter_library(handle, &l);
    if (r)
        return r;
    unsigned n = 0;
    for (const struct sgd_kernel *k = l->kernels; k; k = k->next)
        n++;
    if (count)
        *count = n;
    sgd_leave();
    return count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned room, CUlibrary handle)
{
    struct sgd_library *l;
    CUresult r = enter_library(handle, &l);
    if (r)
        return r;
    unsigned n = 0;
    for (const struct sgd_kernel *k = l->kernels; kernels && k && n < room; k = k->next)
        kernels[n++] = k->handle;
    sgd_leave();
    return kernels ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    struct sgd_library *l;
    struct sgd_module *m;
    CUresult r = enter_library(handle, &l);
    if (r)
        return r;
    struct sgd_context *c = sgd_context_current();
    r = !out ? CUDA_ERROR_INVALID_VALUE : !c || !c->active ? CUDA_ERROR_INVALID_CONTEXT : sgd_library_module(l, c, &m);
    if (!r)
        *out = m->handle;
    sgd_leave();
    return r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary handle, const char *name)
{
    struct sgd_library *l;
    struct sgd_module *m;
    CUresult r = enter_library(handle, &l);
    if (r)
        return r;
    uint64_t at = 0;
    size_t size = 0;
    struct sgd_context *c = sgd_context_current();
    if (!name || (!address && !bytes))
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = !c || !c->active ? CUDA_ERROR_INVALID_CONTEXT : sgd_library_module(l, c, &m);
    if (!r)
        r = sgd_module_variable(m, name, false, &at, &size);
    if (!r && address)
        *address = at;
    if (!r && bytes)
        *bytes = size;
    sgd_leave();
    return r;
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary handle, const char *name)
{
    struct sgd_library *l;
    CUresult r = enter_library(handle, &l);
    if (r)
        return r;
    uint64_t at = 0, size = 0;
    r = name && (address || bytes) ? sgd_library_managed(l, name, &at, &size) : CUDA_ERROR_INVALID_VALUE;
    if (!r && address)
        *address = at;
    if (!r && bytes)
        *bytes = size;
    sgd_leave();
    return r;
}

#endif
