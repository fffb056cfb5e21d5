/*
 * driver_entry.c: chapter "Driver Entry Point Access". There is no Driver API in front of this core yet, so no name is
 * found, and the answer says so in the form of each version.
 */
#include "cpu/client/runtime/runtime.h"

enum { ENTRY_FLAGS_LAST = 2 };

static int no_entry_point(const char *symbol, void **pointer, unsigned long long flags)
{
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!symbol || !pointer || flags > ENTRY_FLAGS_LAST)
        return cudaErrorInvalidValue;
    *pointer = NULL;
    return cudaErrorSymbolNotFound;
}

#if FLYT_CUDART == 11
cudaError_t runtime_cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags)
{
    return runtime_local(no_entry_point(symbol, pointer, flags));
}

cudaError_t runtime_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags)
{
    return runtime_local(no_entry_point(symbol, pointer, flags));
}
#else
/* Since CUDA 12 it is no error that a name is not found, where the caller has room for a status. */
static int entry_point(const char *symbol, void **pointer, unsigned long long flags,
                       cudaDriverEntryPointQueryResult *status)
{
    int error = no_entry_point(symbol, pointer, flags);
    if (error != cudaErrorSymbolNotFound || !status)
        return error;
    *status = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t runtime_cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags,
                                            cudaDriverEntryPointQueryResult *status)
{
    return runtime_local(entry_point(symbol, pointer, flags, status));
}

cudaError_t runtime_cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags,
                                                 cudaDriverEntryPointQueryResult *status)
{
    return runtime_local(entry_point(symbol, pointer, flags, status));
}

cudaError_t runtime_cudaGetDriverEntryPointByVersion(const char *symbol, void **pointer, unsigned version,
                                                     unsigned long long flags, cudaDriverEntryPointQueryResult *status)
{
    (void)version;
    return runtime_local(entry_point(symbol, pointer, flags, status));
}

cudaError_t runtime_cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pointer, unsigned version,
                                                          unsigned long long flags,
                                                          cudaDriverEntryPointQueryResult *status)
{
    (void)version;
    return runtime_local(entry_point(symbol, pointer, flags, status));
}
#endif
