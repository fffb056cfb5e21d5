/*
 * usage.c: what the programs of this tenant use, as its GPU servers see it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

struct usage_list { struct core_usage *of; unsigned count; };

static void take(struct core_usage *to, const flyt_usage *from, u_int first)
{
    to->pid = from->pid;
    to->busy = from->busy < 100 ? from->busy : 100;
    snprintf(to->executable, sizeof to->executable, "%s", from->executable);
    for (u_int d = 0; d < from->bytes.bytes_len && d + first < CORE_USAGE_DEVICES; d++)
        to->bytes[d + first] = from->bytes.bytes_val[d];
}

/* first: how many devices the servers before this one have. */
static int ask(struct client_session *session, u_int first, struct usage_list *list, uint64_t *limit)
{
    usage_args args = { .most = FLYT_MAX_USAGE };
    usage_result result = { 0 };
    int code = wire_call(session, FLYT_USAGE, (xdrproc_t)xdr_usage_args, &args, (xdrproc_t)xdr_usage_result, &result);
    const u_int found = code ? 0 : result.programs.programs_len;
    struct core_usage *more = code ? NULL : realloc(list->of, (list->count + found + 1) * sizeof *more);
    if (!code && !more)
        code = CORE_OUT_OF_MEMORY;
    if (more)
        list->of = more;
    for (u_int i = 0; i < found && !code; i++) {
        more[list->count] = (struct core_usage){ 0 };
        take(&more[list->count++], &result.programs.programs_val[i], first);
    }
    *limit = code ? 0 : result.limit;
    xdr_free((xdrproc_t)xdr_usage_result, &result);
    return code;
}

int core_usage(struct core_usage **programs, unsigned *count, uint64_t *limit)
{
    CANCEL_DEFERRED;
    struct usage_list list = { NULL, 0 };
    u_int first = 0;
    int code = CORE_OK;
    *programs = NULL;
    *count = 0;
    *limit = 0;
    if (!(core_session.hello.capabilities & FLYT_CAP_USAGE))
        return CORE_NOT_SUPPORTED;
    for (struct client_session *session = &core_session; session && !code; session = session->next) {
        uint64_t most = 0;
        code = ask(session, first, &list, &most);
        *limit += most;
        first += session->hello.devices.devices_len;
    }
    if (code) {
        free(list.of);
        *limit = 0;
        return code;
    }
    *programs = list.of;
    *count = list.count;
    return CORE_OK;
}
