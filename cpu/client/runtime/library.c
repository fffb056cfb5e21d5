/*
 * library.c: chapter "Library Management": code that the program loads while it runs, and its kernels.
 *
 * The libraries are the core's (core/library.c), so the Driver API takes the same handles. A kernel of a library is the
 * core's function; it may stand wherever a kernel's host address may (registration.c).
 */
#include "cpu/client/runtime/runtime.h"

#if FLYT_CUDART >= 12

/* ---- loading ---- */

static int load_data(cudaLibrary_t *out, const void *code, const cudaJitOption *jit, void **jit_values,
                     unsigned jit_count, const cudaLibraryOption *options, void **values, unsigned count)
{
    core_context *context;
    core_library *library;
    int error = runtime_enter(&context);
    if (!error && !out)
        error = cudaErrorInvalidValue;
    if (!error)
        error = core_jit_options_check(jit_count, (const int *)jit, jit_values);
    if (!error)
        error = core_library_load(code, count, (const int *)options, values, &library);
    if (!error)
        *out = library;
    return error;
}

static int load_file(cudaLibrary_t *out, const char *path, const cudaJitOption *jit, void **jit_values,
                     unsigned jit_count, const cudaLibraryOption *options, void **values, unsigned count)
{
    core_context *context;
    core_library *library;
    int error = runtime_enter(&context);
    if (!error && !out)
        error = cudaErrorInvalidValue;
    if (!error)
        error = core_jit_options_check(jit_count, (const int *)jit, jit_values);
    if (!error)
        error = core_library_load_file(path, count, (const int *)options, values, &library);
    if (!error)
        *out = library;
    return error;
}

static int unload(cudaLibrary_t library)
{
    core_context *context;
    int error = runtime_enter(&context);
    return error ? error : core_library_unload(library);
}

cudaError_t runtime_cudaLibraryLoadData(cudaLibrary_t *library, const void *code, cudaJitOption *jit,
                                        void **jit_values, unsigned jit_count, cudaLibraryOption *options,
                                        void **values, unsigned count)
{
    return runtime_return(load_data(library, code, jit, jit_values, jit_count, options, values, count));
}

cudaError_t runtime_cudaLibraryLoadFromFile(cudaLibrary_t *library, const char *path, cudaJitOption *jit,
                                            void **jit_values, unsigned jit_count, cudaLibraryOption *options,
                                            void **values, unsigned count)
{
    return runtime_return(load_file(library, path, jit, jit_values, jit_count, options, values, count));
}

cudaError_t runtime_cudaLibraryUnload(cudaLibrary_t library) { return runtime_waited(unload(library)); }

/* ---- what is in a library ---- */

static int find(cudaLibrary_t library, core_context **context, core_image **image)
{
    int error = runtime_enter(context);
    return error ? error : core_library_image(library, image);
}

static int get_kernel(cudaKernel_t *out, cudaLibrary_t library, const char *name)
{
    core_context *context;
    core_image *image;
    core_function *function;
    int error = runtime_enter(&context);
    if (!error && (!out || !name))
        error = cudaErrorInvalidValue;
    if (error || (error = find(library, &context, &image)))
        return error;
    if (!*name)
        return cudaErrorSymbolNotFound;
    if (!(error = core_function_find(context, image, name, &function)))
        *out = function;
    return error;
}

static int count_kernels(unsigned *count, cudaLibrary_t library)
{
    core_context *context;
    core_image *image;
    int error = runtime_enter(&context);
    if (!error && !count)
        error = cudaErrorInvalidValue;
    if (!error)
        error = find(library, &context, &image);
    return error ? error : core_functions(context, image, NULL, 0, count);
}

static int enumerate_kernels(cudaKernel_t *kernels, unsigned room, cudaLibrary_t library)
{
    core_context *context;
    core_image *image;
    unsigned all;
    int error = runtime_enter(&context);
    if (!error && (!kernels || !room))
        error = cudaErrorInvalidValue;
    if (!error)
        error = find(library, &context, &image);
    return error ? error : core_functions(context, image, (core_function **)kernels, room, &all);
}

cudaError_t runtime_cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    return runtime_waited(get_kernel(kernel, library, name));
}

cudaError_t runtime_cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    return runtime_waited(count_kernels(count, library));
}

cudaError_t runtime_cudaLibraryEnumerateKernels(cudaKernel_t *kernels, unsigned room, cudaLibrary_t library)
{
    return runtime_waited(enumerate_kernels(kernels, room, library));
}

static int get_global(void **pointer, size_t *size, cudaLibrary_t library, const char *name)
{
    core_context *context;
    core_image *image;
    uint64_t address;
    int error = find(library, &context, &image);
    if (error)
        return error;
    if (!pointer && !size)
        return cudaErrorInvalidValue;
    error = core_image_variable(context, image, name, &address, size);
    if (!error && pointer)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

static int get_managed(void **pointer, size_t *size, cudaLibrary_t library, const char *name)
{
    core_context *context;
    uint64_t address;
    int error = runtime_enter(&context);
    if (!error && !pointer && !size)
        error = cudaErrorInvalidValue;
    if (!error)
        error = core_library_managed(context, library, name, &address, size);
    if (!error && pointer)
        *pointer = (void *)(uintptr_t)address;
    return error;
}

cudaError_t runtime_cudaLibraryGetGlobal(void **pointer, size_t *size, cudaLibrary_t library, const char *name)
{
    return runtime_waited(get_global(pointer, size, library, name));
}

cudaError_t runtime_cudaLibraryGetManaged(void **pointer, size_t *size, cudaLibrary_t library, const char *name)
{
    return runtime_waited(get_managed(pointer, size, library, name));
}
#endif
