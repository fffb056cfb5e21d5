/* entry.c: cuGetProcAddress and what is not offered. CUDA reference: Driver Entry Point Access. */
#include "softgpu/driver/calls/calls.h"
#include "softgpu/driver/calls/symbols.h"
#include "cpu/common/log.h"

#include <stdint.h>

/* Once per process and name would need a table; once per name in a row is enough to be seen and not to flood. */
int sgd_unsupported(const char *name)
{
    static _Atomic(const char *) last;
    if (last != name)
        log_info("software GPU: %s is not offered", name);
    last = name;
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult query(const char *name, void **out, int version, cuuint64_t flags,
                      enum driver_entry_status *status)
{
    if (!name || !out || flags >= 4)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (void *)(uintptr_t)driver_entry_find(sgd_entries, sgd_entry_count, name, version, flags, status);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
    enum driver_entry_status status;
    void *found = NULL;
    CUresult r = query(name, out ? &found : NULL, version, flags, &status);
    if (!r && !found)
        return CUDA_ERROR_NOT_FOUND;
    if (!r)
        *out = found;
    return r;
}

#if CUDA_VERSION >= 12000
CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result)
{
    enum driver_entry_status status;
    CUresult r = query(name, out, version, flags, &status);
    if (!r && result)
        *result = (CUdriverProcAddressQueryResult)status;
    return r;
}
#endif

/* No private tables: whoever needs them runs on Flyt's own libcuda. */
CUresult cuGetExportTable(const void **out, const CUuuid *id)
{
    (void)id;
    if (out)
        *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
