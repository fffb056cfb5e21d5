/*
 * library.c: libraries: code that is not tied to a context.
 *
 * The image is kept and becomes a module in each context that asks for a kernel or variable there. Managed variables
 * belong to the library (one address everywhere, also before there is a context).
 */
#include "softgpu/driver/machine/machine.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/lock.h"

void sgd_library_free(struct sgd_library *l)
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

CUresult sgd_library_new(const void *code, struct sgd_library **out, char *log, size_t log_size)
{
    struct sgd_library *l = calloc(1, sizeof *l);
    struct ptx_module *ptx = NULL;
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->initialised = true;
    CUresult r = sgd_image_read(sgd_device(0), code, &l->image, log, log_size);
    if (!r && ptx_module_read_outline(l->image.sources, l->image.count, &ptx, log, log_size))
        r = sgd_text_refused(CUDA_ERROR_INVALID_PTX, log, log_size);
    if (!r)
        r = sgd_ptx_version_check(ptx, &l->image, log, log_size);
    sgd_lock();
    if (!r)
        r = add_kernels(l, ptx);
    if (!r)
        r = add_managed(l, ptx);
    if (!r && !(l->handle = sgd_handle_new(SGD_LIBRARY, l)))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r)
        sgd_library_free(l);
    sgd_unlock();
    if (ptx)
        ptx_module_free(ptx);
    if (!r)
        *out = l;
    return r;
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
    char log[SGD_LOG_SIZE] = "";
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
