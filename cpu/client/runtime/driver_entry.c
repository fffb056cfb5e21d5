/*
 * driver_entry.c: chapter "Driver Entry Point Access". There is no Driver API in front of this core yet, so no name is
 * found, and the answer says so in the form of each version.
 */
#include "cpu/client/runtime/runtime.h"

enum { ENTRY_NOT_FOUND = 1, ENTRY_FLAGS_LAST = 2 };

static int entry_point(const char *symbol, void **pointer, unsigned long long flags, int *status) {
    int error = runtime_attach(NULL);
    if (error)
        return error;
    if (!symbol || !pointer || flags > ENTRY_FLAGS_LAST)
        return CUDART_INVALID_VALUE;
    *pointer = NULL;
#if FLYT_CUDART == 11
    (void)status;
    return CUDART_NOT_FOUND;
#else
    if (!status)
        return CUDART_NOT_FOUND;
    *status = ENTRY_NOT_FOUND;
    return CUDART_OK;
#endif
}

#if FLYT_CUDART == 11
RUNTIME_API int cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags) { return runtime_local(entry_point(symbol, pointer, flags, NULL)); }
RUNTIME_API int cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags) { return runtime_local(entry_point(symbol, pointer, flags, NULL)); }
#else
RUNTIME_API int cudaGetDriverEntryPoint(const char *symbol, void **pointer, unsigned long long flags, int *status) {
    return runtime_local(entry_point(symbol, pointer, flags, status));
}
RUNTIME_API int cudaGetDriverEntryPoint_ptsz(const char *symbol, void **pointer, unsigned long long flags, int *status) {
    return runtime_local(entry_point(symbol, pointer, flags, status));
}
RUNTIME_API int cudaGetDriverEntryPointByVersion(const char *symbol, void **pointer, unsigned version, unsigned long long flags, int *status) {
    (void)version;
    return runtime_local(entry_point(symbol, pointer, flags, status));
}
RUNTIME_API int cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **pointer, unsigned version, unsigned long long flags, int *status) {
    (void)version;
    return runtime_local(entry_point(symbol, pointer, flags, status));
}
#endif
