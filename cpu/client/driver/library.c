/*
 * library.c: chapter "Library Management". A library is an image that belongs to no context: its code is loaded into a
 * context when it is first used there. Its kernels are the core's functions, so a CUkernel may stand wherever a
 * CUfunction may.
 */
#include <stdlib.h>

#include "cpu/client/driver/driver.h"

static int find(CUlibrary handle, core_image **image)
{
    int error = driver_ready();
    if (error)
        return error;
    *image = core_library_image(handle);
    return *image ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- loading ---- */

/* *preserved: the program keeps the code as long as the library, so no copy is needed. cuBLASLt names an option and
   gives no values, which NVIDIA's driver accepts: a copy is made then. */
static int library_options(unsigned count, CUlibraryOption *options, void **values, bool *preserved)
{
    *preserved = false;
    if (count && !options)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if ((int)options[i] < 0 || options[i] > CU_LIBRARY_BINARY_IS_PRESERVED)
            return CUDA_ERROR_INVALID_VALUE;
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
            *preserved = values && values[i] != NULL;
    }
    return CUDA_SUCCESS;
}

static int load_data(CUlibrary *out, const void *code, CUjit_option *jit, void **jit_values, unsigned jit_count,
                     CUlibraryOption *options, void **values, unsigned count)
{
    bool preserved;
    unsigned registers = 0;
    int error = driver_ready();
    if (!error && (!out || !code))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = core_jit_options(jit_count, (const int *)jit, jit_values, &registers);
    if (!error)
        error = library_options(count, options, values, &preserved);
    return error ? error : core_library_load(code, preserved, registers, out);
}

static int load_file(CUlibrary *out, const char *path, CUjit_option *jit, void **jit_values, unsigned jit_count,
                     CUlibraryOption *options, void **values, unsigned count)
{
    bool preserved;
    unsigned registers = 0;
    int error = driver_ready();
    if (!error && (!out || !path))
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error)
        error = core_jit_options(jit_count, (const int *)jit, jit_values, &registers);
    if (!error)
        error = library_options(count, options, values, &preserved);
    if (!error && preserved)
        error = CUDA_ERROR_INVALID_VALUE;
    return error ? error : core_library_load_file(path, registers, out);
}

static int unload(CUlibrary handle)
{
    int error = driver_ready();
    return error ? error : core_library_unload(handle);
}

CUresult driver_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                                  unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    return driver_local(load_data(library, code, jit, jit_values, jit_count, options, values, count));
}

CUresult driver_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
                                      unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    return driver_local(load_file(library, path, jit, jit_values, jit_count, options, values, count));
}

CUresult driver_cuLibraryUnload(CUlibrary library) { return driver_waited(unload(library)); }

/* ---- what is in a library ---- */

/* A library belongs to no context. Where none is current, or only one that has ended, the first device's primary
   context lends itself for the question: lend_back. */
static int lend(core_context **context, bool *lent)
{
    int error = driver_enter(context);
    *lent = error == CUDA_ERROR_INVALID_CONTEXT || error == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!*lent)
        return error;
    *context = core_context_primary(0);
    error = core_context_retain(*context);
    *lent = !error;
    return error;
}

static void lend_back(core_context *context, bool lent)
{
    if (lent)
        core_context_release(context);
}

static int get_kernel(CUkernel *out, CUlibrary handle, const char *name)
{
    core_image *image;
    core_context *context;
    bool lent;
    int error = driver_ready();
    if (!error && (!out || !name))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = find(handle, &image)))
        return error;
    if (!*name)
        return CUDA_ERROR_NOT_FOUND;
    if ((error = lend(&context, &lent)))
        return error;
    error = core_function_find(context, image, name, out);
    lend_back(context, lent);
    return error;
}

/* get NULL: only counts. */
static int get_kernels(CUkernel *get, unsigned *count, CUlibrary handle)
{
    core_image *image;
    core_context *context;
    bool lent;
    int error = find(handle, &image);
    if (error || (error = lend(&context, &lent)))
        return error;
    error = core_image_list(context, image, get, count);
    lend_back(context, lent);
    return error;
}

static int count_kernels(unsigned *count, CUlibrary handle)
{
    int error = driver_ready();
    if (!error && !count)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error)
        return error;
    *count = 0;
    return get_kernels(NULL, count, handle);
}

static int enumerate_kernels(CUkernel *kernels, unsigned room, CUlibrary handle)
{
    int error = driver_ready();
    if (!error && !kernels)
        error = CUDA_ERROR_INVALID_VALUE;
    return error || !room ? error : get_kernels(kernels, &room, handle);
}

CUresult driver_cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
    return driver_waited(count_kernels(count, library));
}

CUresult driver_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned room, CUlibrary library)
{
    return driver_waited(enumerate_kernels(kernels, room, library));
}

static int get_module(CUmodule *out, CUlibrary handle)
{
    core_image *image;
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = find(handle, &image)))
        return error;
    return driver_module_of_library(context, handle, image, out);
}

static int get_global(CUdeviceptr *address, size_t *size, CUlibrary handle, const char *name)
{
    core_image *image;
    core_context *context;
    int error = driver_enter(&context);
    if (error || (error = find(handle, &image)))
        return error;
    return driver_symbol(context, image, name, address, size);
}

CUresult driver_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    return driver_waited(get_kernel(kernel, library, name));
}

CUresult driver_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    return driver_waited(get_module(module, library));
}

CUresult driver_cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
    return driver_waited(get_global(address, size, library, name));
}

/* Needs no current context. A primary context that nobody else has is kept: the variable ends with it. */
static int get_managed(CUdeviceptr *address, size_t *size, CUlibrary handle, const char *name)
{
    CUdeviceptr at;
    core_image *image;
    core_context *context;
    struct core_context_info info;
    struct core_range range;
    bool lent;
    int error = driver_ready();
    if (!error && (!name || (!address && !size)))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = find(handle, &image)) || (error = lend(&context, &lent)))
        return error;
    error = driver_symbol(context, image, name, &at, NULL);
    if (lent && (error || core_context_info(context, &info) || info.owners > 1))
        lend_back(context, lent);
    if (error)
        return error;
    if (!core_address_lookup(at, &range) || !(range.flags & CORE_MANAGED))
        return CUDA_ERROR_NOT_FOUND;
    if (address)
        *address = at;
    if (size)
        *size = range.size;
    return CUDA_SUCCESS;
}

CUresult driver_cuLibraryGetManaged(CUdeviceptr *address, size_t *size, CUlibrary library, const char *name)
{
    return driver_waited(get_managed(address, size, library, name));
}

/* Functions that both the program and its kernels call: no device has unifiedFunctionPointers. */
static int get_unified(void **function, CUlibrary library, const char *symbol)
{
    int error = driver_ready();
    if (!error && (!function || !symbol))
        error = CUDA_ERROR_INVALID_VALUE;
    if (error)
        return error;
    return core_library_image(library) ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult driver_cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *symbol)
{
    return driver_local(get_unified(function, library, symbol));
}

/* ---- kernels ---- */

static int get_library(CUlibrary *out, CUkernel kernel)
{
    core_image *image;
    int error = driver_ready();
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (error || (error = core_function_check(kernel, &image, NULL)))
        return error;
    CUlibrary library = core_library_of(image);
    if (!library)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = library;
    return CUDA_SUCCESS;
}

static int get_function(CUfunction *out, CUkernel kernel)
{
    core_context *context;
    int error = driver_enter(&context);
    if (!error && !out)
        error = CUDA_ERROR_INVALID_VALUE;
    if (!error && !(error = driver_function(&context, kernel)))
        *out = kernel;
    return error;
}

CUresult driver_cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
    return driver_local(get_library(library, kernel));
}
CUresult driver_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    return driver_local(get_function(function, kernel));
}
