/*
 * library.c: libraries: code that is not tied to a context. CUDA reference: Library Management.
 *
 * The image is kept and becomes a module in each context that asks for a kernel or variable there. Managed variables
 * belong to the library (one address everywhere, also before there is a context).
 */
#include "softgpu/driver/driver.h"

#if CUDA_VERSION >= 12000

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

enum { LOG_SIZE = 8192 };

CUresult sgd_library_managed(const struct sgd_library *l, const char *name, uint64_t *address, uint64_t *size)
{
    for (size_t i = 0; i < l->managed_count; i++)
        if (!strcmp(l->managed[i].name, name)) {
            *address = l->managed[i].address;
            *size = l->managed[i].size;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

static void library_free(struct sgd_library *l)
{
    while (l->kernels) {
        struct sgd_kernel *k = l->kernels;
        l->kernels = k->next;
        if (k->handle)
            sgd_handle_drop(k->handle);
        free(k->name);
        free(k);
    }
    for (size_t i = 0; i < l->managed_count; i++) {
        struct sgd_memory *m = sgd_memory_find(l->managed[i].address);
        if (m)
            sgd_memory_free(m);
        free((void *)(uintptr_t)l->managed[i].name);
    }
    free(l->managed);
    if (l->handle)
        sgd_handle_drop(l->handle);
    sgd_image_free(&l->image);
    free(l);
}

static CUresult add_kernels(struct sgd_library *l, const struct ptx_module *ptx)
{
    struct sgd_kernel **tail = &l->kernels;
    for (uint32_t i = 0; i < ptx->function_count; i++) {
        if (!ptx->functions[i].is_entry || !ptx->functions[i].defined)
            continue;
        struct sgd_kernel *k = calloc(1, sizeof *k);
        if (!k)
            return CUDA_ERROR_OUT_OF_MEMORY;
        *tail = k;
        tail = &k->next;
        k->library = l;
        k->name = strdup(ptx->functions[i].name);
        k->handle = sgd_handle_new(SGD_KERNEL, k);
        if (!k->name || !k->handle)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

static CUresult add_managed(struct sgd_library *l, const struct ptx_module *ptx)
{
    l->managed = calloc(ptx->variable_count + 1, sizeof *l->managed);
    if (!l->managed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < ptx->variable_count; i++) {
        const struct ptx_variable *v = &ptx->variables[i];
        if (!v->managed || !v->size)
            continue;
        struct sgd_variable *m = &l->managed[l->managed_count];
        CUresult r = sgd_memory_new(NULL, sgd_device(0), SGD_MEMORY_MANAGED, v->size, &m->address);
        if (r)
            return r;
        struct sgd_memory *memory = sgd_memory_find(m->address);
        memory->flags = CU_MEM_ATTACH_GLOBAL;
        memory->internal = true;
        m->size = v->size;
        l->managed_count++;
        m->name = strdup(v->name);
        if (!m->name)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (v->init)
            memcpy((void *)(uintptr_t)m->address, v->init, v->size);
        l->initialised = l->initialised && !v->relocation_count;     /* addresses come with the first module */
    }
    return CUDA_SUCCESS;
}

static CUresult library_new(const void *code, struct sgd_library **out, char *log, size_t log_size)
{
    struct sgd_library *l = calloc(1, sizeof *l);
    struct ptx_module *ptx = NULL;
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->initialised = true;
    CUresult r = sgd_image_read(sgd_device(0), code, &l->image, log, log_size);
    if (!r && ptx_module_read_outline(l->image.sources, l->image.count, &ptx, log, log_size))
        r = CUDA_ERROR_INVALID_PTX;
    sgd_lock();
    if (!r)
        r = add_kernels(l, ptx);
    if (!r)
        r = add_managed(l, ptx);
    if (!r && !(l->handle = sgd_handle_new(SGD_LIBRARY, l)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r)
        library_free(l);
    sgd_unlock();
    if (ptx)
        ptx_module_free(ptx);
    if (!r)
        *out = l;
    return r;
}

static CUresult load(CUlibrary *out, const void *code, unsigned count, CUjit_option *options, void **values,
                     unsigned library_count, const CUlibraryOption *library_options)
{
    CUresult r = sgd_enter();
    if (r)
        return r;
    sgd_leave();
    struct sgd_jit jit;
    struct sgd_library *l;
    char log[LOG_SIZE] = "";
    r = out && code ? sgd_jit_read(&jit, count, options, values) : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < library_count && !r; i++)
        if (!library_options || (unsigned)library_options[i] >= CU_LIBRARY_NUM_OPTIONS)
            r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return r;
    r = library_new(code, &l, log, sizeof log);
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
    library_free(l);
    sgd_leave();
    return CUDA_SUCCESS;
}

/* The library's module in that context, made at first need. Lets the mutex go meanwhile. */
CUresult sgd_library_module(struct sgd_library *l, struct sgd_context *c, struct sgd_module **out)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    for (;;) {
        for (size_t i = 0; i < l->module_count; i++) {
            *out = sgd_handle_get(SGD_MODULE, l->modules[i]);
            if (*out && (*out)->context == c)
                return CUDA_SUCCESS;
        }
        if (!l->loading)
            break;
        sgd_wait(NULL);                      /* another thread makes one: it may be this */
    }
    CUmodule *grown = realloc(l->modules, (l->module_count + 1) * sizeof *grown);
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->modules = grown;
    l->loading = true;
    char log[LOG_SIZE] = "";
    CUresult r = sgd_module_new(c, &l->image, l, out, log, sizeof log);
    l->loading = false;
    sgd_progress();
    sgd_log("%s", log);
    if (r)
        return r;
    l->initialised = true;
    l->modules[l->module_count++] = (*out)->handle;
    return CUDA_SUCCESS;
}

/* ---- kernels and variables ---------------------------------------------------------------------------------------------- */

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

#else

CUresult sgd_library_managed(const struct sgd_library *l, const char *name, uint64_t *address, uint64_t *size)
{
    (void)l, (void)name, (void)address, (void)size;
    return CUDA_ERROR_NOT_FOUND;
}

CUresult sgd_library_module(struct sgd_library *l, struct sgd_context *c, struct sgd_module **out)
{
    (void)l, (void)c, (void)out;
    return CUDA_ERROR_NOT_SUPPORTED;
}

#endif
