/*
 * driver_entry.c: chapter "Driver Entry Point Access". The functions are those of the libcuda.so.1 that lies beside
 * this library, on the same core. Where it does not, no name is found.
 */
#include "cpu/client/runtime/runtime.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { ENTRY_FLAGS_LAST = 3, ENTRY_PER_THREAD = 2, ENTRY_FOUND = 0, ENTRY_NOT_FOUND = 1 };

typedef int get_entry(const char *symbol, void **function, int version, uint64_t flags, int *status);
static get_entry *get;
/* What every libcuda.so.1 of Flyt exports, and no other: initialisation.c of the driver's room. */
static const char ours[] = "flyt_libcuda";

static void *open_driver(const char *folder, int length, const char *below)
{
    char path[PATH_MAX];
    int size = snprintf(path, sizeof path, "%.*s%slibcuda.so.1", length, folder, below);
    void *library = size > 0 && size < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library && !dlsym(library, ours)) {
        dlclose(library);
        library = NULL;
    }
    return library;
}

/* Beside libcudart.so.N, or in the folder below cricket-client.so. The runtime has initialised the driver. */
static void find_driver(void)
{
    Dl_info here;
    int (*init)(unsigned);
    if (!dladdr((void *)(uintptr_t)find_driver, &here) || !here.dli_fname || !strrchr(here.dli_fname, '/'))
        return;
    int length = (int)(strrchr(here.dli_fname, '/') - here.dli_fname) + 1;
    void *library = open_driver(here.dli_fname, length, "");
    if (!library)
        library = open_driver(here.dli_fname, length, "cudart/");
    *(void **)&init = library ? dlsym(library, "cuInit") : NULL;
    if (init && !init(0))
        *(void **)&get = dlsym(library, "cuGetProcAddress_v2");
}

/* *status: one of ENTRY_…, or of cudaDriverEntryPointQueryResult. */
static int find(const char *symbol, void **pointer, int version, unsigned long long flags, bool per_thread, int *status)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!symbol || !pointer || flags > ENTRY_FLAGS_LAST)
        return cudaErrorInvalidValue;
    pthread_once(&once, find_driver);
    *pointer = NULL;
    *status = ENTRY_NOT_FOUND;
    return get ? get(symbol, pointer, version, !flags && per_thread ? ENTRY_PER_THREAD : flags, status) : cudaSuccess;
}

#if FLYT_CUDART == 11
/* Where the name is not found, `*pointer` stays as it is. */
static int entry_point(const char *symbol, void **pointer, unsigned long long flags, bool per_thread)
{
    int status;
    void *found;
    int error = find(symbol, pointer ? &found : NULL, RUNTIME_VERSION, flags, per_thread, &status);
    if (!error && status != ENTRY_FOUND)
        error = cudaErrorSymbolNotFound;
    if (!error)
        *pointer = found;
    return error;
}

cudaError_t runtime_cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags)
{
    return runtime_local(entry_point(symbol, pointer, flags, false));
}

cudaError_t runtime_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags)
{
    return runtime_local(entry_point(symbol, pointer, flags, true));
}
#else
/* Since CUDA 12 it is no error that a name is not found. */
static int entry_point(const char *symbol, void **pointer, int version, unsigned long long flags, bool per_thread,
                       cudaDriverEntryPointQueryResult *out)
{
    int status;
    int error = find(symbol, pointer, version, flags, per_thread, &status);
    if (!error && out)
        *out = (cudaDriverEntryPointQueryResult)status;
    return error;
}

cudaError_t runtime_cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags,
                                            cudaDriverEntryPointQueryResult *status)
{
    return runtime_local(entry_point(symbol, pointer, RUNTIME_VERSION, flags, false, status));
}

cudaError_t runtime_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult *status)
{
    return runtime_local(entry_point(symbol, pointer, RUNTIME_VERSION, flags, true, status));
}

cudaError_t runtime_cudaGetDriverEntryPointByVersion(const char *symbol, void **pointer, unsigned version,
                                                     unsigned long long flags, cudaDriverEntryPointQueryResult *status)
{
    return runtime_local(entry_point(symbol, pointer, (int)version, flags, false, status));
}

cudaError_t runtime_cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pointer, unsigned version,
                                                          unsigned long long flags,
                                                          cudaDriverEntryPointQueryResult *status)
{
    return runtime_local(entry_point(symbol, pointer, (int)version, flags, true, status));
}
#endif
