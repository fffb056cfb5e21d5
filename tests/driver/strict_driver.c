/*
 * strict_driver.c: a libcuda.so.1 that stands in for NVIDIA's driver (580): the software GPU, behind the checks that
 * NVIDIA's driver makes of code images and the software GPU does not. A wrapper (of a device-linked program) is taken
 * by cuLibraryLoadData alone. An input of a link must be what its type says. A library that is not copied
 * (CU_LIBRARY_BINARY_IS_PRESERVED) must still be as it was when the driver reads it later. The first launch of a kernel
 * waits until the device is idle, unless cuFuncLoad has loaded it before. The device can RDMA, and handles for other
 * machines, which the software GPU cannot.
 */
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/code/fatbin.h"

static void *next(const char *name)
{
    static void *software;
    if (!software)
        software = dlopen("libsoftgpu.so", RTLD_NOW | RTLD_NOLOAD);
    void *function = software ? dlsym(software, name) : NULL;
    if (!function) {
        fprintf(stderr, "strict driver: the software GPU has no %s\n", name);
        abort();
    }
    return function;
}

#define NEXT(name, parameters, ...) (((CUresult (*) parameters)next(name))(__VA_ARGS__))

static uint32_t magic_of(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    return magic;
}

static bool is_elf(const void *image) { return memcmp(image, "\177ELF", 4) == 0; }

static bool is_text(const char *image) { return strstr(image, ".version") != NULL; }

static CUresult unrecognised(unsigned count, const CUjit_option *options, void **values)
{
    const char *why = "error   : Binary format for key='0', ident='' is not recognized";
    size_t room = 0;
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            room = (size_t)(uintptr_t)values[i];
    for (unsigned i = 0; i < count; i++)
        if (options[i] == CU_JIT_ERROR_LOG_BUFFER && room)
            snprintf(values[i], room, "%s", why);
    return CUDA_ERROR_INVALID_IMAGE;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    if (magic_of(image) != FATBIN_CONTAINER_MAGIC && !is_elf(image) && !is_text(image))
        return unrecognised(count, options, values);
    return NEXT("cuModuleLoadDataEx", (CUmodule *, const void *, unsigned, CUjit_option *, void **), module, image,
                count, options, values);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                          unsigned count, CUjit_option *options, void **values)
{
    static const char archive[] = "!<arch>\n";
    bool fits = size > sizeof archive;
    switch (type) {
    case CU_JIT_INPUT_PTX: fits = fits && is_text(data) && strnlen(data, size) == size - 1; break;
    case CU_JIT_INPUT_FATBINARY: fits = fits && fatbin_container_size(data, size); break;
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_OBJECT: fits = fits && is_elf(data); break;
    case CU_JIT_INPUT_LIBRARY: fits = fits && memcmp(data, archive, sizeof archive - 1) == 0; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    if (!fits)
        return unrecognised(0, NULL, NULL);
    return NEXT("cuLinkAddData_v2",
                (CUlinkState, CUjitInputType, void *, size_t, const char *, unsigned, CUjit_option *, void **), state,
                type, data, size, name, count, options, values);
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    static const int can[] = { 110, 116, 117, 118, 124, 128, 132, 142, 143, 144, 146 };
    for (size_t i = 0; i < sizeof can / sizeof *can; i++)
        if ((int)attribute == can[i]) {
            *value = 1;
            return CUDA_SUCCESS;
        }
    return NEXT("cuDeviceGetAttribute", (int *, CUdevice_attribute, CUdevice), value, attribute, device);
}

/* ---- libraries ---- */

/* One that is not copied: its bytes, and the sum of them when it was loaded. */
struct kept {
    struct kept *next;
    CUlibrary library;
    const void *code;
    uint64_t sum;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept *all;

static uint64_t sum_add(uint64_t sum, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const uint8_t *)data)[i]) * UINT64_C(1099511628211);
    return sum;
}

static uint64_t sum_of(const void *code)
{
    const struct fatbin_wrapper *wrapper = code;
    uint64_t sum = UINT64_C(14695981039346656037);
    if (magic_of(code) != FATBIN_WRAPPER_MAGIC)
        return sum;
    sum = sum_add(sum, wrapper->container, fatbin_container_size(wrapper->container, SIZE_MAX));
    for (const void *const *part = wrapper->version == 2 ? wrapper->extra : NULL; part && *part; part++)
        sum = sum_add(sum, *part, fatbin_container_size(*part, SIZE_MAX));
    return sum;
}

/* Under lock. */
static void must_be_the_same(const struct kept *k)
{
    if (sum_of(k->code) == k->sum)
        return;
    fprintf(stderr, "strict driver: the code of a library has changed before its end\n");
    abort();
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
                           unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    bool preserved = false;
    for (unsigned i = 0; i < count; i++)
        preserved = preserved || (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && values[i]);
    CUresult r = NEXT("cuLibraryLoadData",
                      (CUlibrary *, const void *, CUjit_option *, void **, unsigned, CUlibraryOption *, void **,
                       unsigned),
                      library, code, jit, jit_values, jit_count, options, values, count);
    struct kept *k = r == CUDA_SUCCESS && preserved ? calloc(1, sizeof *k) : NULL;
    if (!k)
        return r;
    pthread_mutex_lock(&lock);
    *k = (struct kept){ all, *library, code, sum_of(code) };
    all = k;
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
    pthread_mutex_lock(&lock);
    for (const struct kept *k = all; k; k = k->next)
        if (k->library == library)
            must_be_the_same(k);
    pthread_mutex_unlock(&lock);
    return NEXT("cuLibraryGetModule", (CUmodule *, CUlibrary), module, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    pthread_mutex_lock(&lock);
    for (struct kept **at = &all; *at; at = &(*at)->next)
        if ((*at)->library == library) {
            struct kept *k = *at;
            must_be_the_same(k);
            *at = k->next;
            free(k);
            break;
        }
    pthread_mutex_unlock(&lock);
    return NEXT("cuLibraryUnload", (CUlibrary), library);
}

/* ---- kernels are loaded when they are first launched ---- */

enum { LOADED_MOST = 4096 };
static CUfunction loaded[LOADED_MOST];
static unsigned loaded_count;

static bool is_loaded(CUfunction function)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < loaded_count && i < LOADED_MOST && !found; i++)
        found = loaded[i] == function;
    pthread_mutex_unlock(&lock);
    return found;
}

static void note_loaded(CUfunction function)
{
    if (is_loaded(function))
        return;
    pthread_mutex_lock(&lock);
    loaded[loaded_count++ % LOADED_MOST] = function;
    pthread_mutex_unlock(&lock);
}

static void launched(CUfunction function)
{
    if (!is_loaded(function))
        ((CUresult(*)(void))next("cuCtxSynchronize"))();
    note_loaded(function);
}

CUresult cuFuncLoad(CUfunction function)
{
    note_loaded(function);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    launched(function);
    return NEXT("cuLaunchKernelEx", (const CUlaunchConfig *, CUfunction, void **, void **), config, function,
                parameters, extra);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **parameters,
                        void **extra)
{
    launched(function);
    return NEXT("cuLaunchKernel",
                (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                 void **),
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}
