/* fake_libraries.c: the core's libraries for the tests of libcudart: there is none, so every handle is refused. What
   they do is tested with the real core (tests/cuda/loaded_code.cu). */
#include "cpu/client/core/core.h"

int core_function_check(const core_function *function, core_image **image, const char **name)
{
    (void)function, (void)image, (void)name;
    return CORE_INVALID_HANDLE;
}
int core_function_find(core_context *context, core_image *image, const char *name, core_function **out)
{
    (void)context, (void)image, (void)name, (void)out;
    return CORE_NOT_FOUND;
}
int core_functions(core_context *context, core_image *image, core_function **get, unsigned room, unsigned *count)
{
    (void)context, (void)image, (void)get, (void)room, (void)count;
    return CORE_INVALID_HANDLE;
}
int core_image_variable(core_context *context, core_image *image, const char *name, uint64_t *address, size_t *size)
{
    (void)context, (void)image, (void)name, (void)address, (void)size;
    return CORE_NOT_FOUND;
}
int core_jit_options_check(unsigned count, const int *options, void **values)
{
    return count && (!options || !values) ? CORE_INVALID_VALUE : CORE_OK;
}
int core_library_load(const void *code, unsigned count, const int *options, void **values, core_library **out)
{
    (void)code, (void)count, (void)options, (void)values, (void)out;
    return CORE_INVALID_IMAGE;
}
int core_library_load_file(const char *path, unsigned count, const int *options, void **values, core_library **out)
{
    (void)path, (void)count, (void)options, (void)values, (void)out;
    return CORE_FILE_NOT_FOUND;
}
int core_library_unload(core_library *library)
{
    (void)library;
    return CORE_INVALID_HANDLE;
}
int core_library_image(core_library *library, core_image **image)
{
    (void)library, (void)image;
    return CORE_INVALID_HANDLE;
}
int core_library_managed(core_context *context, core_library *library, const char *name, uint64_t *address,
                         size_t *size)
{
    (void)context, (void)library, (void)name, (void)address, (void)size;
    return CORE_INVALID_HANDLE;
}
