/*
 * link.c: the linker of chapter "Module Management" (cuLink…). Inputs are kept here; the driver behind the server
 * looks at each when it is added, as natively, so that its errors come then, and links all inputs in cuLinkComplete.
 * On the software GPU, which has no machine code, the linked image is PTX; cuModuleLoadData takes it like any other.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/code/registry.h"
#include "cpu/client/driver/driver.h"

struct driver_link {
    struct core_link_input *inputs; /* their data and names are ours */
    unsigned input_count;
    void *image; /* linked; NULL: not yet */
    size_t size;
    unsigned registers;    /* that its PTX may take; 0: no bound */
    unsigned option_count; /* of cuLinkCreate: where the program wants the log */
    CUjit_option *options;
    void **values;
    void **given; /* what they were: writing a log replaces the size of its buffer */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry handles;

static int create(unsigned count, CUjit_option *options, void **values, CUlinkState *out)
{
    core_context *context;
    unsigned registers = 0;
    int error = driver_enter(&context);
    if (!error)
        error = out ? core_jit_options(count, (const int *)options, values, &registers) : CUDA_ERROR_INVALID_VALUE;
    if (error)
        return error;
    struct driver_link *link = calloc(1, sizeof *link);
    CUjit_option *kept = calloc(count + 1, sizeof *kept);
    void **given = calloc(count + 1, sizeof *given);
    if (count && kept && given) {
        memcpy(kept, options, count * sizeof *kept);
        memcpy(given, values, count * sizeof *given);
    }
    pthread_mutex_lock(&lock);
    bool known = link && kept && given && registry_set(&handles, link, link);
    pthread_mutex_unlock(&lock);
    if (!known) {
        free(link);
        free(kept);
        free(given);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *link = (struct driver_link){
        .registers = registers, .option_count = count, .options = kept, .values = values, .given = given
    };
    *out = link;
    return CUDA_SUCCESS;
}

static int find(CUlinkState state, core_context **context)
{
    int error = driver_enter(context);
    return error || registry_find(&handles, state) ? error : CUDA_ERROR_INVALID_HANDLE;
}

/* The link's log says why it failed; after a success it is empty. */
static int finish(const struct driver_link *link, int error, char *log)
{
    for (unsigned i = 0; i < link->option_count; i++)
        if (link->options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES ||
            link->options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            link->values[i] = link->given[i];
    driver_jit_finish(link->option_count, link->options, link->values, "", log ? log : "");
    free(log);
    return error;
}

static void say_no_linker(void)
{
    core_unsupported("the linker (cuLink…) with more than one input on a device without one");
}

/* The device has no linker (the null device): what is one piece of PTX, or one image, needs none. */
static bool needs_no_linker(const struct driver_link *link, int error)
{
    return error == CUDA_ERROR_NOT_SUPPORTED && link->input_count == 1 &&
           link->inputs[0].type <= CU_JIT_INPUT_FATBINARY;
}

/* code is the link's from here on, or freed. It has a NUL behind it. */
static int add(core_context *context, struct driver_link *link, CUjitInputType type, char *code, size_t size,
               const char *name, unsigned registers)
{
    char *log = NULL, *named = strdup(name ? name : "");
    struct core_link_input *more = realloc(link->inputs, (link->input_count + 1) * sizeof *more);
    if (more)
        link->inputs = more;
    if (!more || !named) {
        free(code);
        free(named);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Where there is no machine code, PTX stands in its place: see cpu/client/run/nvrtc.c. */
    bool text =
        type == CU_JIT_INPUT_PTX || (type == CU_JIT_INPUT_CUBIN && memchr(code, '.', size) && code[0] != '\177');
    struct core_link_input *input = &link->inputs[link->input_count];
    *input = (struct core_link_input){
        type, text, code, text ? strlen(code) + 1 : size, named, registers ? registers : link->registers
    };
    int error = core_link(context, input, 1, NULL, NULL, &log);
    link->input_count++;
    if (needs_no_linker(link, error))
        error = CUDA_SUCCESS;
    else if (error == CUDA_ERROR_NOT_SUPPORTED && !log)
        say_no_linker();
    if (!error)
        return finish(link, error, log);
    link->input_count--;
    free(code);
    free(named);
    return finish(link, error, log);
}

static int check(CUlinkState state, core_context **context, CUjitInputType type, unsigned count, CUjit_option *options,
                 void **values, unsigned *registers)
{
    int error = find(state, context);
    if (!error && type >= CU_JIT_NUM_INPUT_TYPES)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = core_jit_options(count, (const int *)options, values, registers);
    return !error && state->image ? CUDA_ERROR_INVALID_HANDLE : error; /* completed: nothing can be added */
}

static int add_data(CUlinkState state, CUjitInputType type, const void *data, size_t size, const char *name,
                    unsigned count, CUjit_option *options, void **values)
{
    core_context *context;
    unsigned registers = 0;
    int error = check(state, &context, type, count, options, values, &registers);
    if (!error && (!data || !size))
        error = CUDA_ERROR_INVALID_VALUE;
    char *code = error ? NULL : malloc(size + 1);
    if (!error && !code)
        error = CUDA_ERROR_OUT_OF_MEMORY;
    if (error)
        return error;
    memcpy(code, data, size);
    code[size] = '\0';
    return add(context, state, type, code, size, name, registers);
}

static int add_file(CUlinkState state, CUjitInputType type, const char *path, unsigned count, CUjit_option *options,
                    void **values)
{
    core_context *context;
    void *code;
    unsigned registers = 0;
    size_t size;
    int error = check(state, &context, type, count, options, values, &registers);
    if (!error && !path)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = core_file_read(path, &code, &size);
    return error ? error : add(context, state, type, code, size, path, registers);
}

static int complete(CUlinkState state, void **image, size_t *size)
{
    core_context *context;
    char *log = NULL;
    int error = find(state, &context);
    if (!error && !image)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !state->input_count)
        error = CUDA_ERROR_INVALID_IMAGE; /* nothing to link */
    if (error)
        return error;
    if (!state->image)
        error = core_link(context, state->inputs, state->input_count, &state->image, &state->size, &log);
    if (needs_no_linker(state, error)) {
        const struct core_link_input *only = &state->inputs[0];
        state->image = calloc(1, only->size + 1);
        if (state->image)
            memcpy(state->image, only->data, only->size);
        state->size = only->size;
        error = state->image ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    } else if (error == CUDA_ERROR_NOT_SUPPORTED) {
        say_no_linker();
    }
    if (!error) {
        *image = state->image;
        if (size)
            *size = state->size;
    }
    return finish(state, error, log);
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
    for (unsigned i = 0; i < link->input_count; i++) {
        free((void *)(uintptr_t)link->inputs[i].data);
        free((void *)(uintptr_t)link->inputs[i].name);
    }
    free(link->inputs);
    free(link->image);
    free(link->options);
    free(link->given);
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
    return driver_waited(add_data(state, type, data, size, name, count, options, values));
}

CUresult driver_cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                              unsigned count, CUjit_option *options, void **values)
{
    return driver_waited(add_data(state, type, data, size, name, count, options, values));
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
    return driver_waited(complete(state, image, size));
}

CUresult driver_cuLinkDestroy(CUlinkState state) { return driver_local(destroy(state)); }
