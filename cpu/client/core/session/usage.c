/*
 * usage.c: what the programs of this tenant use, as the server sees it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

int core_usage(struct core_usage **programs, unsigned *count, uint64_t *limit)
{
    CANCEL_DEFERRED;
    usage_args args = { .most = FLYT_MAX_USAGE };
    usage_result result = { 0 };
    *programs = NULL;
    *count = 0;
    *limit = 0;
    if (!(core_session.hello.capabilities & FLYT_CAP_USAGE))
        return CORE_NOT_SUPPORTED;
    int code = wire_call(&core_session, FLYT_USAGE, (xdrproc_t)xdr_usage_args, &args, (xdrproc_t)xdr_usage_result,
                         &result);
    u_int found = code ? 0 : result.programs.programs_len;
    if (!code && !(*programs = calloc(found ? found : 1, sizeof **programs)))
        code = CORE_OUT_OF_MEMORY;
    for (u_int i = 0; i < found && !code; i++) {
        const flyt_usage *from = &result.programs.programs_val[i];
        struct core_usage *to = &(*programs)[i];
        to->pid = from->pid;
        to->busy = from->busy < 100 ? from->busy : 100;
        snprintf(to->executable, sizeof to->executable, "%s", from->executable);
        for (u_int d = 0; d < from->bytes.bytes_len && d < CORE_USAGE_DEVICES; d++)
            to->bytes[d] = from->bytes.bytes_val[d];
    }
    if (!code) {
        *count = found;
        *limit = result.limit;
    }
    xdr_free((xdrproc_t)xdr_usage_result, &result);
    return code;
}
