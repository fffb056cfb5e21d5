/* fake_code.c: images, functions, variables and launches of the core without a server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/fake_state.h"

struct core_image { const void *wrapper; };
struct core_function { core_image *image; char name[64]; };
struct core_variable { core_image *image; char name[64]; size_t size; uint64_t address; };
static struct core_function functions[FAKE_NAMES];
static struct core_variable variables[FAKE_NAMES];

void fake_code_reset(void)
{
    memset(functions, 0, sizeof functions);
    memset(variables, 0, sizeof variables);
}

int core_image_add(const void *wrapper, core_image **image)
{
    *image = malloc(sizeof **image);
    (*image)->wrapper = wrapper;
    fake.images++;
    return CORE_OK;
}
void core_image_remove(core_image *image)
{
    fake.images_removed++;
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (functions[i].image == image)
            functions[i].image = NULL;
        if (variables[i].image == image)
            variables[i].image = NULL;
    }
    free(image);
}
int core_function_add(core_image *image, const char *name, core_function **out)
{
    int empty = -1;
    for (int i = 0; i < FAKE_NAMES; i++) {
        if (functions[i].image == image && strcmp(functions[i].name, name) == 0)
            return *out = &functions[i], CORE_OK;
        if (!functions[i].image)
            empty = i;
    }
    if (empty < 0)
        return CORE_OUT_OF_MEMORY;
    functions[empty].image = image;
    snprintf(functions[empty].name, sizeof functions[empty].name, "%s", name);
    return *out = &functions[empty], CORE_OK;
}

/* There are no libraries here (tests/conformance has them), so no handle is a library's kernel. */
int core_function_check(const core_function *function, core_image **image, const char **name)
{
    (void)function, (void)image, (void)name;
    return CORE_INVALID_HANDLE;
}

int core_function_find(core_context *c, core_image *image, const char *name, core_function **out)
{
    (void)c;
    return core_function_add(image, name, out);
}

int core_image_list(core_context *c, core_image *image, core_function **get, unsigned *count)
{
    (void)c, (void)image, (void)get, (void)count;
    return CORE_NOT_SUPPORTED;
}

int core_jit_options(unsigned count, const int *options, void *const *values, unsigned *registers)
{
    (void)count, (void)options, (void)values, (void)registers;
    return CORE_NOT_SUPPORTED;
}

int core_library_load(const void *code, bool preserved, unsigned registers, core_library **out)
{
    (void)code, (void)preserved, (void)registers, (void)out;
    return CORE_NOT_SUPPORTED;
}

int core_library_load_file(const char *path, unsigned registers, core_library **out)
{
    (void)path, (void)registers, (void)out;
    return CORE_NOT_SUPPORTED;
}

int core_library_unload(core_library *library)
{
    (void)library;
    return CORE_INVALID_HANDLE;
}

core_image *core_library_image(const core_library *library)
{
    (void)library;
    return NULL;
}

int core_variable_add(core_image *image, const char *name, size_t size, bool is_constant, core_variable **out)
{
    (void)is_constant;
    for (int i = 0; i < FAKE_NAMES; i++)
        if (!variables[i].image) {
            variables[i].image = image;
            variables[i].size = size;
            variables[i].address = 0;
            snprintf(variables[i].name, sizeof variables[i].name, "%s", name);
            return *out = &variables[i], CORE_OK;
        }
    return CORE_OUT_OF_MEMORY;
}
int core_function_info(core_context *context, core_function *function, const struct core_function_info **out)
{
    static const struct core_parameter parameters[] = {{0, 8}, {8, 4}};
    static const struct core_function_info info = {
        .parameters = parameters,
        .parameter_count = 2,
        .parameter_bytes = 12,
        .max_threads = 512,
        .shared_bytes = 1,
        .const_bytes = 2,
        .local_bytes = 3,
        .registers = 40,
        .ptx_version = 90,
        .binary_version = 121,
        .cache_mode_ca = 1,
        .max_dynamic_shared = 49152,
        .preferred_carveout = -1,
        .cluster_must_be_set = 5,
        .cluster_width = 6,
        .cluster_height = 7,
        .cluster_depth = 8,
        .non_portable_cluster = 9,
    };
    (void)context, (void)function;
    int error = fake_answer(__func__);
    if (!error)
        *out = &info;
    return error;
}
int core_function_set(core_context *context, core_function *function, int attribute, int value)
{
    (void)context, (void)function;
    fake.attributes_set = attribute;
    fake.attribute_value = value;
    return fake_answer(__func__);
}
int core_function_set_cache(core_context *context, core_function *function, int config)
{
    return (void)context, (void)function, (void)config, fake_answer(__func__);
}
int core_variable_address(core_context *context, core_variable *variable, uint64_t *address, size_t *size)
{
    if (strncmp(variable->name, "missing", 7) == 0)
        return CORE_NOT_FOUND;
    if (!variable->address) {
        int error = core_memory_allocate(context, variable->size, &variable->address);
        if (error)
            return error;
    }
    *address = variable->address;
    *size = variable->size;
    return fake_answer(__func__);
}
int core_occupancy_blocks(core_context *context, core_function *function, int block_size, size_t shared, unsigned flags,
                          int *blocks)
{
    (void)context, (void)function, (void)shared, (void)flags;
    *blocks = 1536 / block_size;
    return fake_answer(__func__);
}
int core_occupancy_available_dynamic_smem_per_block(core_context *context, size_t *shared, core_function *function,
                                                    int blocks, int block_size)
{
    (void)context, (void)function, (void)block_size;
    *shared = 100000 / (size_t)blocks;
    return fake_answer(__func__);
}
int core_launch_check(core_context *context, const struct core_launch *launch)
{
    return (void)launch, context->active ? CORE_OK : CORE_CONTEXT_DESTROYED;
}
int core_launch_attribute_check(core_context *context, struct core_launch_attribute *attribute)
{
    return (void)attribute, context->active ? CORE_OK : CORE_CONTEXT_DESTROYED;
}
int core_launch(core_context *context, const struct core_launch *launch)
{
    int error = context->active ? fake_note(__func__, launch->stream, false) : CORE_CONTEXT_DESTROYED;
    if (!error && !launch->grid[0])
        error = CORE_INVALID_VALUE;
    if (error)
        return error;
    fake.launch = *launch;
    fake.launch_device = context->device;
    fake.launches++;
    snprintf(fake.launch_name, sizeof fake.launch_name, "%s", launch->function->name);
    return CORE_OK;
}
