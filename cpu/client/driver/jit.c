/* jit.c: the logs of the driver's compiler, as options of cuModuleLoadDataEx and the linker want them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/driver/driver.h"

/* Writes the log where the options `buffer` and `size` want it, and its length in place of the buffer's. */
static void write_log(unsigned count, const CUjit_option *options, void **values, CUjit_option buffer,
                      CUjit_option size, const char *log)
{
    char *to = NULL;
    void **room = NULL;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == buffer)
            to = values[i];
        if (options[i] == size)
            room = &values[i];
    }
    if (!room)
        return;
    size_t most = (uintptr_t)*room, length = strlen(log);
    length = !to || !most ? 0 : length < most ? length : most - 1;
    if (to && most) {
        memcpy(to, log, length);
        to[length] = '\0';
    }
    *room = (void *)length;
}

void driver_jit_finish(unsigned count, const CUjit_option *options, void **values, const char *info, const char *error)
{
    write_log(count, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info);
    write_log(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error);
}

/* ---- what is said of kernels ---- */

/* The log of information that the options ask for in detail: its size; 0: none. */
static size_t verbose_size(unsigned count, const CUjit_option *options, void **values)
{
    bool verbose = false, buffer = false;
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        verbose |= options[i] == CU_JIT_LOG_VERBOSE && (int)(uintptr_t)values[i];
        buffer |= options[i] == CU_JIT_INFO_LOG_BUFFER && values[i];
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
            size = (unsigned)(uintptr_t)values[i];
    }
    return verbose && buffer ? size : 0;
}

/* In the words of NVIDIA's assembler, without what is not known: which of the stack frame is spilled registers. */
static void describe(FILE *to, core_context *context, core_function *f, int sm)
{
    const struct core_function_info *info;
    const char *name;
    if (core_function_check(f, NULL, &name) || core_function_info(context, f, &info))
        return;
    fprintf(to, "ptxas info    : Compiling entry function '%s' for 'sm_%d'\n", name, sm);
    fprintf(to, "ptxas info    : Function properties for %s\n    %d bytes stack frame\n", name, info->local_bytes);
    fprintf(to, "ptxas info    : Used %d registers", info->registers);
    if (info->shared_bytes)
        fprintf(to, ", %d bytes smem", info->shared_bytes);
    if (info->const_bytes)
        fprintf(to, ", %d bytes cmem[3]", info->const_bytes);
    fputc('\n', to);
}

char *driver_jit_describe(core_context *context, core_image *image, unsigned count, const CUjit_option *options,
                          void **values)
{
    enum { MAJOR = 75, MINOR = 76 }; /* of CUdevice_attribute */
    size_t most = verbose_size(count, options, values), size;
    unsigned kernels = 0;
    int major = 0, minor = 0;
    if (!most || core_image_list(context, image, NULL, &kernels) || !kernels)
        return NULL;
    char *text = NULL;
    core_function **list = calloc(kernels, sizeof *list);
    FILE *to = list ? open_memstream(&text, &size) : NULL;
    if (to && !core_image_list(context, image, list, &kernels)) {
        core_device_attribute(0, MAJOR, &major);
        core_device_attribute(0, MINOR, &minor);
        for (unsigned i = 0; i < kernels && (size_t)ftell(to) < most; i++)
            describe(to, context, list[i], major * 10 + minor);
    }
    if (to)
        fclose(to);
    free(list);
    return text;
}
