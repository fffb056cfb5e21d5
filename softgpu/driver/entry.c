/* entry.c: cuGetProcAddress and what is not offered. CUDA reference: Driver Entry Point Access. */
#include "softgpu/driver/driver.h"
#include "softgpu/driver/symbols.h"
#include "cpu/common/log.h"

#include <string.h>

/* Once per process and name would need a table; once per name in a row is enough to be seen and not to flood. */
int sgd_unsupported(const char *name)
{
    static _Atomic(const char *) last;
    if (last != name)
        log_info("software GPU: %s is not offered", name);
    last = name;
    return CUDA_ERROR_NOT_SUPPORTED;
}

enum { FOUND, UNKNOWN, TOO_OLD };        /* CUdriverProcAddressQueryResult, which headers of 11.8 lack */

/* The newest meaning of the name that `version` (compared unsigned, as natively) knows. */
static void *lookup(const char *name, unsigned version, int per_thread, int *status)
{
    const struct sgd_symbol *best = NULL;
    *status = UNKNOWN;
    for (size_t i = 0; i < sgd_symbol_count; i++) {
        const struct sgd_symbol *s = &sgd_symbols[i];
        if (s->per_thread != per_thread || strcmp(s->name, name))
            continue;
        if (*status == UNKNOWN)
            *status = TOO_OLD;
        if ((unsigned)s->version <= version && (!best || s->version > best->version))
            best = s;
    }
    if (!best)
        return NULL;
    *status = FOUND;
    void *address;
    memcpy(&address, &best->address, sizeof address);
    return address;
}

static CUresult query(const char *name, void **out, int version, cuuint64_t flags, int *status)
{
    if (!name || !out || flags >= 4)
        return CUDA_ERROR_INVALID_VALUE;
    *status = UNKNOWN;
    void *found = flags & 2u ? lookup(name, (unsigned)version, 1, status) : NULL;
    if (*status == UNKNOWN)                  /* the per-thread variants alone, where there are any */
        found = lookup(name, (unsigned)version, 0, status);
    *out = found;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
    int status;
    void *found = NULL;
    CUresult r = query(name, out ? &found : NULL, version, flags, &status);
    if (!r && !found)
        return CUDA_ERROR_NOT_FOUND;
    if (!r)
        *out = found;
    return r;
}

#if CUDA_VERSION >= 12000
CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *result)
{
    int status;
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
