/*
 * initialisation.c: chapters "Initialization", "Version Management", "Error Handling", "Driver Entry Point Access" and
 * "Profiler Control".
 */
#include "cpu/client/driver/driver.h"

enum { FLAGS_END = 4, OWN_VERSION = 13000 };

/* What the loader of the real driver looks for: cpu/common/driver_library.h. */
DRIVER_API extern const char flyt_libcuda[];
const char flyt_libcuda[] = "Flyt's libcuda.so.1, for programs";

CUresult driver_cuInit(unsigned flags) { return driver_local(flags ? CUDA_ERROR_INVALID_VALUE : driver_initialise()); }

/* The server's. Without a server it is this library's: the runtimes ask before cuInit, which then says what is wrong.
   */
CUresult driver_cuDriverGetVersion(int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    if (core_driver_version(version))
        *version = OWN_VERSION;
    return driver_local(CUDA_SUCCESS);
}

/* ---- errors ---- */

CUresult driver_cuGetErrorName(CUresult code, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = driver_error_name((int)code);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuGetErrorString(CUresult code, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = driver_error_text((int)code);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- addresses of functions ---- */

static int find(const char *symbol, void **function, int version, uint64_t flags, enum driver_entry_status *status)
{
    if (!symbol || !function || flags >= FLAGS_END)
        return CUDA_ERROR_INVALID_VALUE;
    *function =
        (void *)(uintptr_t)driver_entry_find(driver_entries, driver_entry_count, symbol, version, flags, status);
    return CUDA_SUCCESS;
}

CUresult driver_cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
    enum driver_entry_status found;
    int error = find(symbol, function, version, flags, &found);
    if (!error && status)
        *status = (CUdriverProcAddressQueryResult)found;
    return (CUresult)error;
}

/* The first form has no status: it returns an error, and leaves *function as it was. */
CUresult driver_cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    enum driver_entry_status found;
    void *address;
    int error = find(symbol, function ? &address : NULL, version, flags, &found);
    if (error || found != DRIVER_ENTRY_FOUND)
        return error ? (CUresult)error : CUDA_ERROR_NOT_FOUND;
    *function = address;
    return CUDA_SUCCESS;
}

/* NVIDIA's driver gives the same answer about a table that it does not have. Runtimes ask before cuInit. */
CUresult driver_cuGetExportTable(const void **table, const CUuuid *id)
{
    if (!table)
        return CUDA_ERROR_INVALID_VALUE;
    *table = id ? driver_export_table(id) : NULL;
    return *table ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- profiler: without one attached these do nothing natively either ---- */

static int profile(void)
{
    core_context *context;
    return driver_enter(&context);
}

/* Since CUDA 12 that is the answer to everybody. */
CUresult driver_cuProfilerInitialize(const char *configuration, const char *output, CUoutput_mode mode)
{
    (void)configuration, (void)output, (void)mode;
    return driver_local(CUDA_ERROR_NOT_SUPPORTED);
}

CUresult driver_cuProfilerStart(void) { return driver_local(profile()); }
CUresult driver_cuProfilerStop(void) { return driver_local(profile()); }
