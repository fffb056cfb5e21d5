/* code_questions.c: what a module contains, and how many clusters of a function run: answered once, kept by the
 * client. */
#include <stdlib.h>
#include <string.h>

#include "cpu/server/code/code.h"
#include "cpu/server/code/settings.h"

/* ---- the names of a module's functions ---- */

enum { NAMES_BYTES = 256 * 1024 };         /* of one reply, about */

static CUresult name_add(module_names_result *result, const char *name, size_t *bytes)
{
    char *copy = strlen(name) < FLYT_MAX_NAME ? strdup(name) : NULL;
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *bytes += strlen(name) + 1;
    result->names.names_val[result->names.names_len++] = copy;
    return CUDA_SUCCESS;
}

static void names_free(module_names_result *result)
{
    for (u_int i = 0; i < result->names.names_len; i++)
        free(result->names.names_val[i]);
    free(result->names.names_val);
}

static CUresult names_collect(const struct gpu *gpu, const CUfunction *functions, unsigned count, unsigned first,
                              module_names_result *result)
{
    size_t bytes = 0;
    for (unsigned i = first; i < count && result->names.names_len < FLYT_MAX_SYMBOLS && bytes < NAMES_BYTES; i++) {
        const char *name;
        CUresult r = gpu->FuncGetName(&name, functions[i]);
        if (r == CUDA_SUCCESS)
            r = name_add(result, name, &bytes);
        if (r != CUDA_SUCCESS)
            return r;
    }
    return CUDA_SUCCESS;
}

static CUresult names_read(struct session *session, const module_names_args *args, module_names_result *result)
{
    const struct gpu *gpu = session->gpu;
    struct module *module = id_map_find(session->ids[KIND_MODULE], args->module);
    unsigned count = 0;
    if (!module || module->state == CODE_LOADING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->state == CODE_FAILED)
        return module->result;
    if (!gpu->ModuleGetFunctionCount || !gpu->ModuleEnumerateFunctions || !gpu->FuncGetName)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = context_use(session, module->context);
    if (r == CUDA_SUCCESS)
        r = gpu->ModuleGetFunctionCount(&count, module->handle);
    CUfunction *functions = r == CUDA_SUCCESS ? calloc(count ? count : 1, sizeof *functions) : NULL;
    result->names.names_val = functions ? calloc(FLYT_MAX_SYMBOLS, sizeof(flyt_name)) : NULL;
    if (r == CUDA_SUCCESS && !result->names.names_val)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && count)
        r = gpu->ModuleEnumerateFunctions(functions, count, module->handle);
    if (r == CUDA_SUCCESS)
        r = names_collect(gpu, functions, count, args->first, result);
    result->count = count;
    free(functions);
    return r;
}

void serve_module_names(struct session *session, struct call *call)
{
    module_names_result result = { .count = 0 };
    CUresult r = names_read(session, &call->args.module_names, &result);
    session_reply(session, call->xid, (xdrproc_t)xdr_module_names_result, &result, r, false);
    names_free(&result);
}

/* ---- the names of its variables: no driver gives them, so they are read from the image ---- */

static CUresult variables_read(struct session *session, const module_names_args *args, module_names_result *result)
{
    struct module *module = id_map_find(session->ids[KIND_MODULE], args->module);
    layout_image *layouts = NULL;
    const void *data;
    void *wrapper = NULL;
    char log[256];
    if (!module || module->state != CODE_READY)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = image_loadable(module->image, &data, &wrapper);
    if (r == CUDA_SUCCESS)
        r = (CUresult)layout_open(data, &layouts, log, sizeof log);
    free(wrapper);
    result->names.names_val = r == CUDA_SUCCESS ? calloc(FLYT_MAX_SYMBOLS, sizeof(flyt_name)) : NULL;
    if (r == CUDA_SUCCESS && !result->names.names_val)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = 0;
    const char *name = NULL;
    for (unsigned i = 0; r == CUDA_SUCCESS && (name = layout_variable_name(layouts, i)); i++) {
        result->count = i + 1;
        if (i < args->first || result->names.names_len == FLYT_MAX_SYMBOLS || bytes >= NAMES_BYTES)
            continue;
        r = name_add(result, name, &bytes);
    }
    layout_close(layouts);
    return r;
}

void serve_module_variables(struct session *session, struct call *call)
{
    module_names_result result = { .count = 0 };
    CUresult r = variables_read(session, &call->args.module_names, &result);
    session_reply(session, call->xid, (xdrproc_t)xdr_module_names_result, &result, r, false);
    names_free(&result);
}

/* ---- clusters ---- */

static CUresult clusters(struct session *session, const clusters_args *args, int *value)
{
    const struct gpu *gpu = session->gpu;
    CUlaunchAttribute attributes[FLYT_MAX_LAUNCH_ATTRIBUTES];
    struct function *function = function_find(session, args->function);
    if (!function || function->state == CODE_LOADING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (function->state == CODE_FAILED)
        return function->result;
    if (!gpu->OccupancyMaxActiveClusters || !gpu->OccupancyMaxPotentialClusterSize)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = context_use(session, function->module->context);
    if (r == CUDA_SUCCESS)
        r = settings_apply_now(session, function);
    if (r == CUDA_SUCCESS)
        r = launch_attributes(args->attributes.attributes_val, args->attributes.attributes_len, attributes);
    if (r != CUDA_SUCCESS)
        return r;
    const CUlaunchConfig config = { .gridDimX = args->grid.x, .gridDimY = args->grid.y, .gridDimZ = args->grid.z,
                                    .blockDimX = args->block.x, .blockDimY = args->block.y,
                                    .blockDimZ = args->block.z, .sharedMemBytes = args->shared, .attrs = attributes,
                                    .numAttrs = args->attributes.attributes_len };
    return args->kind == FLYT_CLUSTERS_SIZE ? gpu->OccupancyMaxPotentialClusterSize(value, function->handle, &config)
                                            : gpu->OccupancyMaxActiveClusters(value, function->handle, &config);
}

void serve_clusters(struct session *session, struct call *call)
{
    clusters_result result = { .value = 0 };
    int value = 0;
    CUresult r = clusters(session, &call->args.clusters, &value);
    result.value = value > 0 ? (uint64_t)value : 0;
    session_reply(session, call->xid, (xdrproc_t)xdr_clusters_result, &result, r, false);
}
