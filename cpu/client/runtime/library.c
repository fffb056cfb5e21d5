/*
 * library.c: chapter "Library Management": images that a program loads by itself. The handles are the core's objects,
 * so they are also the Driver API's (CUlibrary, CUkernel), and a kernel's handle may stand wherever a kernel may.
 */
#include "cpu/client/runtime/runtime.h"

#if FLYT_CUDART >= 12
enum { JIT_OPTION_LAST = 33, LIBRARY_OPTION_LAST = 1 };

/* They are the Driver API's, but for the last. */
static int jit_options(unsigned count, const cudaJitOption *options, void **values, unsigned *registers)
{
    for (unsigned i = 0; options && i < count; i++)
        if ((int)options[i] > JIT_OPTION_LAST)
            return cudaErrorInvalidValue;
    return core_jit_options(count, (const int *)options, values, registers);
}

/* *preserved: the program keeps the code as long as the library. */
static int library_options(unsigned count, const cudaLibraryOption *options, void **values, bool *preserved)
{
    *preserved = false;
    if (count && !options)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < count; i++) {
        if ((int)options[i] < 0 || (int)options[i] > LIBRARY_OPTION_LAST)
            return cudaErrorInvalidValue;
        if (options[i] == cudaLibraryBinaryIsPreserved)
            *preserved = values && values[i] != NULL;
    }
    return cudaSuccess;
}

static int load_check(const void *out, const void *from, cudaJitOption *jit, void **jit_values, unsigned jit_count,
                      cudaLibraryOption *options, void **values, unsigned count, bool *preserved, unsigned *registers)
{
    core_context *context;
    int error = runtime_enter(&context);
    if (error)
        return error;
    if (!out || !from)
        return cudaErrorInvalidValue;
    error = jit_options(jit_count, jit, jit_values, registers);
    return error ? error : library_options(count, options, values, preserved);
}

cudaError_t runtime_cudaLibraryLoadData(cudaLibrary_t *library, const void *code, cudaJitOption *jit, void **jit_values,
                                        unsigned jit_count, cudaLibraryOption *options, void **values, unsigned count)
{
    bool preserved;
    unsigned registers = 0;
    int error = load_check(library, code, jit, jit_values, jit_count, options, values, count, &preserved, &registers);
    return runtime_local(error ? error : core_library_load(code, preserved, registers, library));
}

cudaError_t runtime_cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, cudaJitOption *jit,
                                            void **jit_values, unsigned jit_count, cudaLibraryOption *options,
                                            void **values, unsigned count)
{
    bool preserved;
    unsigned registers = 0;
    int error = load_check(library, path, jit, jit_values, jit_count, options, values, count, &preserved, &registers);
    if (!error && preserved)
        error = cudaErrorInvalidValue; /* a file's code is never the program's to keep */
    return runtime_local(error ? error : core_library_load_file(path, registers, library));
}

cudaError_t runtime_cudaLibraryUnload(cudaLibrary_t library)
{
    core_context *context;
    int error = runtime_enter(&context);
    return runtime_waited(error ? error : core_library_unload(library));
}

/* ---- what is in a library ---- */

static int find(cudaLibrary_t library, const void *out, core_context **context, core_image **image)
{
    int error = runtime_enter(context);
    if (error)
        return error;
    if (!out)
        return cudaErrorInvalidValue;
    *image = core_library_image(library);
    return *image ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

static int get_kernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    core_context *context;
    core_image *image;
    core_function *function;
    int error = find(library, name ? kernel : NULL, &context, &image);
    if (error)
        return error;
    if (!*name)
        return cudaErrorSymbolNotFound;
    if (!(error = core_function_find(context, image, name, &function)))
        *kernel = function;
    return error;
}

static int kernels(core_function **list, unsigned *count, cudaLibrary_t library)
{
    core_context *context;
    core_image *image;
    int error = find(library, count, &context, &image);
    return error ? error : core_image_list(context, image, list, count);
}

cudaError_t runtime_cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    return runtime_waited(get_kernel(kernel, library, name));
}

cudaError_t runtime_cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    return runtime_waited(kernels(NULL, count, library));
}

cudaError_t runtime_cudaLibraryEnumerateKernels(cudaKernel_t *list, unsigned room, cudaLibrary_t library)
{
    _Static_assert(sizeof *list == sizeof(core_function *), "a kernel's handle is the core's function");
    return runtime_waited(room ? kernels((core_function **)list, list ? &room : NULL, library) : cudaSuccess);
}

static int variable(void **address, size_t *size, cudaLibrary_t library, const char *name, bool managed)
{
    core_context *context;
    core_image *image;
    core_variable *found;
    struct core_range range;
    uint64_t at;
    size_t bytes;
    int error = find(library, name && (address || size) ? name : NULL, &context, &image);
    if (!error)
        error = core_variable_add(image, name, 0, false, &found);
    if (!error)
        error = core_variable_address(context, found, &at, &bytes);
    if (error)
        return error;
    if (managed && (!core_address_lookup(at, &range) || !(range.flags & CORE_MANAGED)))
        return cudaErrorSymbolNotFound;
    if (address)
        *address = (void *)(uintptr_t)at;
    if (size)
        *size = bytes;
    return cudaSuccess;
}

cudaError_t runtime_cudaLibraryGetGlobal(void **address, size_t *size, cudaLibrary_t library, const char *name)
{
    return runtime_waited(variable(address, size, library, name, false));
}

cudaError_t runtime_cudaLibraryGetManaged(void **address, size_t *size, cudaLibrary_t library, const char *name)
{
    return runtime_waited(variable(address, size, library, name, true));
}

/* Functions that both the program and its kernels call: no device has unifiedFunctionPointers. */
static int unified(void **function, cudaLibrary_t library, const char *symbol)
{
    int error = runtime_attach(NULL);
    if (!error && (!function || !symbol))
        error = cudaErrorInvalidValue;
    if (error)
        return error;
    return core_library_image(library) ? cudaErrorSymbolNotFound : cudaErrorInvalidResourceHandle;
}

cudaError_t runtime_cudaLibraryGetUnifiedFunction(void **function, cudaLibrary_t library, const char *symbol)
{
    return runtime_local(unified(function, library, symbol));
}
#endif
