/*
 * module.c: chapter "Module Management". A module is an image that was loaded into one context, or a library's part in
 * a context.
 *
 * Records of modules are kept and used again, so a handle of a module that was unloaded is found out and never
 * followed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/code/registry.h"
#include "cpu/client/driver/driver.h"

struct driver_module {
    core_context *context;
    core_image *image;
    core_library *library; /* whose image it is; NULL: the module's own */
    struct driver_module *next;     /* of those in use, or of the unused ones */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry handles, bound;
static struct driver_module *modules, *spare;

/* ---- records; under the lock ---- */

static struct driver_module *record_make(core_context *context, core_image *image, core_library *library)
{
    struct driver_module *module = spare ? spare : calloc(1, sizeof *module);
    if (!module || !registry_set(&handles, module, module)) {
        if (module != spare)
            free(module);
        return NULL;
    }
    if (module == spare)
        spare = module->next;
    *module = (struct driver_module){ context, image, library, modules };
    modules = module;
    return module;
}

/* The image of a module that had its own; NULL: a library's. */
static core_image *record_drop(struct driver_module **at)
{
    struct driver_module *module = *at;
    core_image *image = module->library ? NULL : module->image;
    *at = module->next;
    registry_set(&handles, module, NULL);
    module->next = spare;
    spare = module;
    return image;
}

/* Drops the first record that is of the context, or of the library. false: there is none. */
static bool forget_one(const core_context *context, const core_library *library)
{
    core_image *image = NULL;
    bool found = false;
    pthread_mutex_lock(&lock);
    for (struct driver_module **at = &modules; *at && !found; at = *at ? &(*at)->next : at)
        if (context ? (*at)->context == context : (*at)->library == library) {
            image = record_drop(at);
            found = true;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (image)
        core_image_remove(image);
    return found;
}

void driver_modules_forget_context(core_context *context)
{
    while (forget_one(context, NULL))
        ;
}

void driver_modules_forget_library(core_library *library)
{
    while (forget_one(NULL, library))
        ;
}

CUmodule driver_module_of(const core_image *image, const core_context *context)
{
    pthread_mutex_lock(&lock);
    struct driver_module *module = modules;
    while (module && !(module->image == image && module->context == context))
        module = module->next;
    pthread_mutex_unlock(&lock);
    return module;
}

int driver_module_of_library(core_context *context, core_library *library, core_image *image, CUmodule *out)
{
    int error = core_image_load(context, image, NULL);
    if (error)
        return error;
    CUmodule module = driver_module_of(image, context);
    if (!module) {
        pthread_mutex_lock(&lock);
        module = record_make(context, image, library);
        pthread_mutex_unlock(&lock);
    }
    *out = module;
    return module ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* A copy of what stands behind the handle. */
static int module_find(CUmodule handle, struct driver_module *out)
{
    int error = driver_ready();
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    const struct driver_module *module = registry_find(&handles, handle);
    if (module)
        *out = *module;
    pthread_mutex_unlock(&lock);
    return module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

int driver_module_image(CUmodule handle, core_context **context, core_image **image)
{
    struct driver_module module;
    int error = module_find(handle, &module);
    if (!error) {
        *context = module.context;
        *image = module.image;
    }
    return error;
}

/* ---- functions of a module belong to its context; those of a library, and of the runtime, to none ---- */

/* The function belongs to a module of this context. */
static void driver_function_bind(core_function *function, core_context *context)
{
    pthread_mutex_lock(&lock);
    registry_set(&bound, function, context);
    pthread_mutex_unlock(&lock);
}

int driver_function(core_context **context, core_function *function)
{
    core_context *owner;
    int error = core_function_check(function, NULL, NULL);
    if (!error && (owner = registry_find(&bound, function)))
        *context = owner;
    return error;
}

bool driver_function_is_kernel(core_function *function) { return !registry_find(&bound, function); }

/* ---- loading ---- */

/* registers: see core_image_add_copy. log: where the compiler's words about a failure go, which the caller frees; or
   NULL. */
static int module_load(const void *image, unsigned registers, CUmodule *out, char **log)
{
    core_context *context;
    core_image *loaded;
    int error = driver_enter(&context);
    if (!error && (!out || !image))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = core_image_add_copy(image, registers, &loaded)))
        return error;
    if (!(error = core_image_load(context, loaded, log))) {
        pthread_mutex_lock(&lock);
        CUmodule module = record_make(context, loaded, NULL);
        pthread_mutex_unlock(&lock);
        if (module) {
            *out = module;
            return CUDA_SUCCESS;
        }
        error = CUDA_ERROR_OUT_OF_MEMORY;
    }
    core_image_remove(loaded);
    /* Another thread destroys the context: the server has ended it already. */
    return error == CUDA_ERROR_INVALID_CONTEXT ? CUDA_ERROR_CONTEXT_IS_DESTROYED : error;
}

int driver_module_load(const void *image, CUmodule *out) { return module_load(image, 0, out, NULL); }

/* cuModuleLoadDataEx. */
static int driver_module_load_with(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                                   void **values)
{
    core_context *context;
    unsigned registers = 0;
    char *log = NULL;
    int error = driver_enter(&context);
    if (!error)
        error = core_jit_options(count, (const int *)options, values, &registers);
    if (error)
        return error;
    error = module_load(image, registers, module, &log);
    char *info = error ? NULL : driver_jit_describe(context, (*module)->image, count, options, values);
    driver_jit_finish(count, options, values, info ? info : "", log ? log : "");
    free(info);
    free(log);
    return error;
}

static int load_file(CUmodule *module, const char *path)
{
    core_context *context;
    void *image;
    size_t size;
    int error = driver_enter(&context);
    if (!error && (!module || !path))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = core_file_read(path, &image, &size)))
        return error;
    error = driver_module_load(image, module);
    free(image);
    return error;
}

static int unload(CUmodule handle)
{
    core_image *image = NULL;
    int error = driver_ready();
    if (error)
        return error;
    error = CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    for (struct driver_module **at = &modules; *at; at = &(*at)->next)
        if (*at == handle && !(*at)->library) {
            image = record_drop(at);
            error = CUDA_SUCCESS;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (image)
        core_image_remove(image);
    return error;
}

CUresult driver_cuModuleLoad(CUmodule *module, const char *path) { return driver_waited(load_file(module, path)); }
CUresult driver_cuModuleLoadData(CUmodule *module, const void *image)
{
    return driver_waited(driver_module_load(image, module));
}

CUresult driver_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                                   void **values)
{
    return driver_waited(driver_module_load_with(module, image, count, options, values));
}

CUresult driver_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    return driver_waited(driver_module_load(image, module));
}

CUresult driver_cuModuleUnload(CUmodule module) { return driver_waited(unload(module)); }

/* What NVIDIA's driver does since CUDA 12, unless the environment says otherwise. */
CUresult driver_cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    const char *text = getenv("CUDA_MODULE_LOADING");
    int error = driver_ready();
    if (!error && !mode)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        *mode = text && strcmp(text, "EAGER") == 0 ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return driver_local(error);
}

/* ---- what is in a module ---- */

static int get_function(CUfunction *out, CUmodule handle, const char *name)
{
    struct driver_module module;
    core_function *function;
    int error = driver_ready();
    if (!error && (!out || !name))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = module_find(handle, &module)))
        return error;
    if (!*name)
        return CUDA_ERROR_NOT_FOUND;
    if ((error = core_function_find(module.context, module.image, name, &function)))
        return error;
    if (!module.library)
        driver_function_bind(function, module.context);
    *out = function;
    return CUDA_SUCCESS;
}

int driver_symbol(core_context *context, core_image *image, const char *name, CUdeviceptr *address, size_t *size)
{
    core_variable *variable;
    uint64_t found;
    size_t bytes;
    if (!name || (!address && !size))
        return CUDA_ERROR_INVALID_VALUE;
    int error = core_variable_add(image, name, 0, false, &variable);
    if (!error)
        error = core_variable_address(context, variable, &found, &bytes);
    if (!error && address)
        *address = found;
    if (!error && size)
        *size = bytes;
    return error;
}

static int get_global(CUdeviceptr *address, size_t *size, CUmodule handle, const char *name)
{
    struct driver_module module;
    int error = module_find(handle, &module);
    return error ? error : driver_symbol(module.context, module.image, name, address, size);
}

CUresult driver_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    return driver_waited(get_function(function, module, name));
}

CUresult driver_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module, const char *name)
{
    return driver_waited(get_global(address, size, module, name));
}

/* ---- all functions of a module ---- */

static int count_functions(unsigned *count, CUmodule handle)
{
    struct driver_module module;
    int error = driver_ready();
    if (!error && !count)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = module_find(handle, &module);
    if (error)
        return error;
    *count = 0;
    return core_image_list(module.context, module.image, NULL, count);
}

static int enumerate_functions(CUfunction *functions, unsigned room, CUmodule handle)
{
    struct driver_module module;
    unsigned count = room;
    int error = driver_ready();
    if (!error && (!functions || !room))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = module_find(handle, &module);
    if (error || (error = core_image_list(module.context, module.image, functions, &count)))
        return error;
    for (unsigned i = 0; i < count && i < room && !module.library; i++)
        driver_function_bind(functions[i], module.context);
    return CUDA_SUCCESS;
}

int driver_module_each(CUmodule handle, void (*get)(void *user, CUfunction, CUmodule), void *user)
{
    unsigned count;
    int error = count_functions(&count, handle);
    CUfunction *functions = error ? NULL : calloc(count + 1, sizeof *functions);
    if (!error && !functions)
        error = CUDA_ERROR_OUT_OF_MEMORY;
    if (!error && count)
        error = enumerate_functions(functions, count, handle);
    for (unsigned i = 0; !error && i < count; i++)
        get(user, functions[i], handle);
    free(functions);
    return error;
}

CUresult driver_cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    return driver_waited(count_functions(count, module));
}

CUresult driver_cuModuleEnumerateFunctions(CUfunction *functions, unsigned room, CUmodule module)
{
    return driver_waited(enumerate_functions(functions, room, module));
}
