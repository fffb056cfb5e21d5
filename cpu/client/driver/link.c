/*
 * link.c: the linker of chapter "Module Management" (cuLink…), for one input. PTX is compiled when it is added, as
 * natively, so that its errors come then. The program gets the same PTX as the linked image: cuModuleLoadData takes it.
 * Several inputs would have to be linked by the driver behind the server, which is not implemented.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/registry.h"
#include "cpu/client/driver/driver.h"

struct driver_link {
    void *code; /* with a NUL behind it; NULL: nothing was added */
    size_t size;
    unsigned option_count; /* of cuLinkCreate: where the program wants the log */
    CUjit_option *options;
    void **values;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry handles;

static int create(unsigned count, CUjit_option *options, void **values, CUlinkState *out)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error)
        error = out ? driver_jit_options(count, options, values) : CUDA_ERROR_INVALID_VALUE;
    if (error)
        return error;
    struct driver_link *link = calloc(1, sizeof *link);
    CUjit_option *kept = calloc(count + 1, sizeof *kept);
    if (count && kept)
        memcpy(kept, options, count * sizeof *kept);
    pthread_mutex_lock(&lock);
    bool known = link && kept && registry_set(&handles, link, link);
    pthread_mutex_unlock(&lock);
    if (!known) {
        free(link);
        free(kept);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *link = (struct driver_link){ .option_count = count, .options = kept, .values = values };
    *out = link;
    return CUDA_SUCCESS;
}

static int find(CUlinkState state)
{
    core_context *context;
    int error = driver_enter(&context);
    return error || registry_find(&handles, state) ? error : CUDA_ERROR_INVALID_HANDLE;
}

/* Whether the compiler accepts the PTX; the log goes where the program wants it. */
static int compile(const struct driver_link *link, const char *ptx)
{
    CUmodule module;
    int error =
        driver_module_load_with(&module, ptx, link->option_count, link->options, link->values);
    return error ? error : (int)driver_cuModuleUnload(module);
}

/* code is the link's from here on, or freed. */
static int add(struct driver_link *link, CUjitInputType type, void *code, size_t size)
{
    int error = type == CU_JIT_INPUT_PTX ? compile(link, code) : CUDA_SUCCESS;
    if (error) {
        free(code);
        return error;
    }
    link->code = code;
    link->size = type == CU_JIT_INPUT_PTX ? strlen(code) + 1 : size;
    return CUDA_SUCCESS;
}

static int check(CUlinkState state, CUjitInputType type, unsigned count, CUjit_option *options, void **values)
{
    int error = find(state);
    if (!error && type >= CU_JIT_NUM_INPUT_TYPES)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_jit_options(count, options, values);
    if (error)
        return error;
    if (state->code || type > CU_JIT_INPUT_FATBINARY) {
        core_unsupported(state->code ? "the linker (cuLinkAddData) with more than one input"
                                     : "the linker (cuLinkAddData) with objects, libraries and NVVM");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

static int add_data(CUlinkState state, CUjitInputType type, const void *data, size_t size, unsigned count,
                    CUjit_option *options, void **values)
{
    int error = check(state, type, count, options, values);
    if (!error && (!data || !size))
        error = CUDA_ERROR_INVALID_VALUE;
    char *code = error ? NULL : malloc(size + 1);
    if (!error && !code)
        error = CUDA_ERROR_OUT_OF_MEMORY;
    if (error)
        return error;
    memcpy(code, data, size);
    code[size] = '\0';
    return add(state, type, code, size);
}

static int add_file(CUlinkState state, CUjitInputType type, const char *path, unsigned count, CUjit_option *options,
                    void **values)
{
    void *code;
    size_t size;
    int error = check(state, type, count, options, values);
    if (!error && !path)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = driver_file_read(path, &code, &size);
    return error ? error : add(state, type, code, size);
}

static int complete(CUlinkState state, void **image, size_t *size)
{
    int error = find(state);
    if (!error && !image)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !state->code)
        error = CUDA_ERROR_INVALID_IMAGE; /* nothing to link */
    if (error)
        return error;
    *image = state->code;
    if (size)
        *size = state->size;
    return CUDA_SUCCESS;
}

static int destroy(CUlinkState state)
{
    int error = driver_ready();
    if (error)
        return error;
    pthread_mutex_lock(&lock);
    struct driver_link *link = registry_find(&handles, state);
    registry_set(&handles, state, NULL);
    pthread_mutex_unlock(&lock);
    if (!link)
        return CUDA_ERROR_INVALID_HANDLE;
    free(link->code);
    free(link->options);
    free(link);
    return CUDA_SUCCESS;
}

CUresult driver_cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *state)
{
    return driver_local(create(count, options, values, state));
}

CUresult driver_cuLinkCreate(unsigned count, CUjit_option *options, void **values, CUlinkState *state)
{
    return driver_local(create(count, options, values, state));
}

CUresult driver_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                                 unsigned count, CUjit_option *options, void **values)
{
    (void)name;
    return driver_waited(add_data(state, type, data, size, count, options, values));
}

CUresult driver_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                              unsigned count, CUjit_option *options, void **values)
{
    (void)name;
    return driver_waited(add_data(state, type, data, size, count, options, values));
}

CUresult driver_cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned count,
                                 CUjit_option *options, void **values)
{
    return driver_waited(add_file(state, type, path, count, options, values));
}

CUresult driver_cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned count,
                              CUjit_option *options, void **values)
{
    return driver_waited(add_file(state, type, path, count, options, values));
}

CUresult driver_cuLinkComplete(CUlinkState state, void **image, size_t *size)
{
    return driver_local(complete(state, image, size));
}

CUresult driver_cuLinkDestroy(CUlinkState state) { return driver_local(destroy(state)); }
