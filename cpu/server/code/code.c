/* code.c: the calls about modules and functions. See code.h; the work itself is done by loader.c. */
#include "cpu/server/code/code.h"
#include "cpu/server/code/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FUNCTION_HIGHEST_ATTRIBUTE = 31 };

#define LAYOUTS_MOST ((size_t)1 << 20)        /* bytes of code that are read for a few attributes */

/* ---- finding, and the end ---- */

struct function *function_find(struct session *session, uint32_t id)
{
    struct function *function = id_map_find(session->ids[KIND_FUNCTION], id);
    return function;
}

/* Out of the maps. Deferred launches may still hold it. */
static void module_forget(struct session *session, struct module *module)
{
    id_map_remove(session->ids[KIND_MODULE], module->id);
    for (struct function *f = module->functions; f; f = f->next)
        id_map_remove(session->ids[KIND_FUNCTION], f->id);
    memory_symbols_drop(session, module);
    module->unloaded = true;
    module_drop(session, module);
}

struct drop_modules { struct session *session; struct context *context; };

static void module_drop_one(uint32_t id, void *object, void *context)
{
    struct drop_modules *drop = context;
    struct module *module = object;
    (void)id;
    if (module->context == drop->context)
        module_forget(drop->session, module);
}

void modules_drop_all(struct session *session, struct context *context)
{
    struct drop_modules drop = { session, context };
    id_map_each(session->ids[KIND_MODULE], module_drop_one, &drop);
    loader_drain(session, context);
}

/* ---- modules ---- */

void serve_module_load(struct session *session, struct call *call)
{
    const module_load_args *args = &call->args.module_load;
    struct context *context = context_find(session, args->context);
    struct image *image = image_find(session, args->hash);
    struct module *module = id_map_find(session->ids[KIND_MODULE], args->module);
    CUresult r = context ? context_use(session, context) : CUDA_ERROR_INVALID_CONTEXT;
    if (r == CUDA_SUCCESS && (!image || !image->complete))
        r = CUDA_ERROR_INVALID_IMAGE;
    if (r == CUDA_SUCCESS && module && (module->context != context || module->image != image))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && !module) {
        module = calloc(1, sizeof *module);
        if (module && id_map_set(session->ids[KIND_MODULE], args->module, module) != 0) {
            free(module);
            module = NULL;
            r = CUDA_ERROR_INVALID_VALUE;
        } else if (!module) {
            r = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            module->references = 1;
            module->id = args->module;
            module->context = context;
            module->image = image;
            module->state = CODE_LOADING;
            image->references++;
        }
    }
    if (r != CUDA_SUCCESS) {
        call_fail(session, call, r);
        return;
    }
    if (module->state == CODE_FAILED && module->result == CUDA_ERROR_OUT_OF_MEMORY)
        module->state = CODE_LOADING;                     /* there may be enough now */
    module->references++;                                 /* the job's */
    loader_load(session, call, module);
}

void serve_module_unload(struct session *session, struct call *call)
{
    struct module *module = id_map_find(session->ids[KIND_MODULE], call->args.module.module);
    if (!module)
        call_fail(session, call, CUDA_ERROR_INVALID_HANDLE);
    else
        module_forget(session, module);
}

void module_look_up(struct session *session, struct module *module, const module_load_args *args,
                    module_load_result *result)
{
    u_int count = args->symbols.symbols_len;
    result->symbols.symbols_val = calloc(count ? count : 1, sizeof(flyt_symbol));
    if (!result->symbols.symbols_val)
        return;
    result->symbols.symbols_len = count;
    for (u_int i = 0; i < count; i++) {
        flyt_symbol *symbol = &result->symbols.symbols_val[i];
        CUdeviceptr address = 0;
        size_t size = 0;
        symbol->result =
            (int)session->gpu->ModuleGetGlobal(&address, &size, module->handle, args->symbols.symbols_val[i]);
        symbol->address = address;
        symbol->size = size;
        unsigned managed = 0;
        if (symbol->result == CUDA_SUCCESS && session->gpu->PointerGetAttribute &&
            session->gpu->PointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) == CUDA_SUCCESS)
            symbol->managed = managed != 0;
    }
}

/* ---- functions ---- */

void function_reply(struct session *session, uint32_t xid, const struct function *function, const char *log)
{
    function_get_result result;
    memset(&result, 0, sizeof result);
    if (function->result == CUDA_SUCCESS) {
        result.attributes.attributes_val = function->attributes;
        result.attributes.attributes_len = function->attribute_count;
        result.params.params_val = function->params;
        result.params.params_len = function->param_count;
    }
    if (log && *log) {
        result.log.log_val = (char *)(uintptr_t)log;
        result.log.log_len = (u_int)strnlen(log, FLYT_MAX_LOG);
    }
    session_reply(session, xid, (xdrproc_t)xdr_function_get_result, &result, function->result, false);
}

/* Its attributes may have been set meanwhile. */
static void function_ask_again(struct session *session, struct function *function)
{
    if (function->state != CODE_READY || context_use(session, function->module->context) != CUDA_SUCCESS)
        return;
    settings_apply_now(session, function);
    for (uint32_t i = 0; i < function->attribute_count; i++) {
        int value;
        if (session->gpu->FuncGetAttribute(&value, (CUfunction_attribute)function->attributes[i].name,
                                           function->handle) == CUDA_SUCCESS)
            function->attributes[i].value = value;
    }
}

void serve_function_get(struct session *session, struct call *call)
{
    const function_get_args *args = &call->args.function_get;
    struct module *module = id_map_find(session->ids[KIND_MODULE], args->module);
    struct function *function = id_map_find(session->ids[KIND_FUNCTION], args->function);
    CUresult r = !module ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS && function && (function->module != module || strcmp(function->name, args->name) != 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && module->state == CODE_FAILED)
        r = module->result;
    if (r == CUDA_SUCCESS && function && function->state == CODE_FAILED && function->result == CUDA_ERROR_OUT_OF_MEMORY)
        function->state = CODE_LOADING;
    if (r == CUDA_SUCCESS && function && function->state != CODE_LOADING) {
        function_ask_again(session, function);
        function_reply(session, call->xid, function, NULL);
        return;
    }
    if (r == CUDA_SUCCESS && !function) {
        function = calloc(1, sizeof *function);
        if (function && (!(function->name = strdup(args->name)) ||
                         id_map_set(session->ids[KIND_FUNCTION], args->function, function) != 0)) {
            r = function->name ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
            free(function->name);
            free(function);
            function = NULL;
        } else if (function) {
            function->id = args->function;
            function->module = module;
            function->state = CODE_LOADING;
            function->next = module->functions;
            module->functions = function;
        } else {
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (r != CUDA_SUCCESS) {
        call_fail(session, call, r);
        return;
    }
    module->references++;                                 /* the job's */
    loader_get(session, call, function);
}

void serve_func_set_attribute(struct session *session, struct call *call)
{
    const func_set_attribute_args *args = &call->args.func_set_attribute;
    struct function *function = function_find(session, args->hfunc);
    CUresult r = !function || function->state == CODE_LOADING ? CUDA_ERROR_INVALID_HANDLE : function->result;
    if (r == CUDA_SUCCESS)
        r = context_use(session, function->module->context);
    if (r == CUDA_SUCCESS)
        r = settings_set(session, function, args->attrib, args->value);
    session_reply_plain(session, call->xid, r, false);
}

/* Into module->layouts; from an image of at most `most` bytes, else 801. */
static CUresult module_layouts(struct module *module, size_t most)
{
    char log[256];
    const void *data;
    void *wrapper = NULL;
    CUresult r = image_loadable(module->image, &data, &wrapper);
    if (r == CUDA_SUCCESS && !layout_is_small(data, most))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (r == CUDA_SUCCESS)
        r = (CUresult)layout_open(data, &module->layouts, log, sizeof log);
    free(wrapper);
    return r;
}

/* Parameters as the driver gives them, else as the image does. */
static CUresult function_params(struct session *session, struct function *function)
{
    struct module *module = function->module;
    if (session->gpu->FuncGetParamInfo) {
        uint32_t room = 0;
        for (size_t i = 0; i < FLYT_MAX_PARAM_COUNT; i++) {
            size_t offset, size;
            if (session->gpu->FuncGetParamInfo(function->handle, i, &offset, &size) != CUDA_SUCCESS)
                break;
            if (i == room) {
                room = room ? 2 * room : 16;
                flyt_param *more = realloc(function->params, room * sizeof *more);
                if (!more)
                    return CUDA_ERROR_OUT_OF_MEMORY;
                function->params = more;
            }
            function->params[i] = (flyt_param){ (u_int)offset, (u_int)size };
            function->param_count = (uint32_t)i + 1;
            if (offset + size > function->param_bytes)
                function->param_bytes = (uint32_t)(offset + size);
        }
        return CUDA_SUCCESS;
    }
    struct layout layout;
    if (!module->layouts) {
        CUresult r = module_layouts(module, SIZE_MAX);
        if (r != CUDA_SUCCESS)
            return r;
    }
    if (layout_find(module->layouts, function->name, &layout) != 0)
        return CUDA_ERROR_NOT_FOUND;
    if (layout.count > FLYT_MAX_PARAM_COUNT)
        return CUDA_ERROR_INVALID_IMAGE;
    function->params = calloc(layout.count ? layout.count : 1, sizeof *function->params);
    if (!function->params)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < layout.count; i++)
        function->params[i] = (flyt_param){ layout.params[i].offset, layout.params[i].size };
    function->param_count = layout.count;
    function->param_bytes = layout.bytes;
    return CUDA_SUCCESS;
}

/* What NVIDIA's driver does not say of a kernel, and a launch is checked for. Large images are not read for it: the
   launch is refused all the same, only later. function->attributes has room. */
static void attributes_of_image(struct function *function)
{
    struct module *module = function->module;
    struct layout layout;
    if (!module->layouts && !module->layouts_sought)
        module_layouts(module, LAYOUTS_MOST);
    module->layouts_sought = true;
    if (!module->layouts || layout_find(module->layouts, function->name, &layout))
        return;
    const flyt_attribute all[] = { { SOFTGPU_FUNCTION_BLOCK_X, (int)layout.required[0] },
                                   { SOFTGPU_FUNCTION_BLOCK_Y, (int)layout.required[1] },
                                   { SOFTGPU_FUNCTION_BLOCK_Z, (int)layout.required[2] },
                                   { SOFTGPU_FUNCTION_CLUSTER_MOST, (int)layout.cluster_most },
                                   { SOFTGPU_FUNCTION_CLUSTER_GRID, layout.grid_of_clusters },
                                   { SOFTGPU_FUNCTION_ONE_THREAD, layout.required[0] != 0 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value)
            function->attributes[function->attribute_count++] = all[i];
}

static CUresult function_attributes(struct session *session, struct function *function)
{
    static const int own[] = { SOFTGPU_FUNCTION_USES, SOFTGPU_FUNCTION_BLOCK_X, SOFTGPU_FUNCTION_BLOCK_Y,
                               SOFTGPU_FUNCTION_BLOCK_Z, SOFTGPU_FUNCTION_CLUSTER_MOST,
                               SOFTGPU_FUNCTION_CLUSTER_GRID };
    enum { OWN = sizeof own / sizeof own[0] };
    flyt_attribute *attributes = calloc(FUNCTION_HIGHEST_ATTRIBUTE + 1 + OWN, sizeof *attributes);
    uint32_t count = 0;
    int value;
    if (!attributes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i <= FUNCTION_HIGHEST_ATTRIBUTE; i++) {
        CUresult r = session->gpu->FuncGetAttribute(&value, (CUfunction_attribute)i, function->handle);
        if (r == CUDA_SUCCESS)
            attributes[count++] = (flyt_attribute){ i, value };
        else if (i == 0) {                                /* lazy loading fails here, if it does */
            free(attributes);
            return r;
        }
    }
    for (int i = 0; i < OWN && session->gpu->graphs; i++) /* the software GPU */
        if (session->gpu->FuncGetAttribute(&value, (CUfunction_attribute)own[i], function->handle) == CUDA_SUCCESS &&
            value)
            attributes[count++] = (flyt_attribute){ own[i], value };
    function->attributes = attributes;
    function->attribute_count = count;
    if (!session->gpu->graphs)
        attributes_of_image(function);
    return CUDA_SUCCESS;
}

CUresult function_describe(struct session *session, struct function *function)
{
    CUresult r = session->gpu->ModuleGetFunction(&function->handle, function->module->handle, function->name);
    if (r == CUDA_SUCCESS)
        r = function_attributes(session, function);
    if (r == CUDA_SUCCESS)
        r = function_params(session, function);
    return r;
}
