/*
 * usage.c: what the tenant's programs use of the devices, for a client that asks (USAGE): libnvidia-ml and flyt-smi.
 */
#include "cpu/server/session.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/tenant_ledger.h"
#include "cpu/server/tenant/tenant.h"
#include "cpu/server/tenant/usage.h"

void usage_begin(struct session *session, const hello_args *args)
{
    if (!session->in_process)
        tenant_program(args->pid, args->executable);
}

void usage_device(const struct device *device)
{
    tenant_device((unsigned)device->index, device->mapped + device->charged);
}

/* What the look finds counts for the time since the look before; no longer, where this process did not run. */
void usage_look(struct session *session, uint64_t tick)
{
    uint64_t served = atomic_load_explicit(&session->executor.served, memory_order_relaxed), now = clock_now();
    bool busy = atomic_load_explicit(&session->completion.watching, memory_order_relaxed) != 0 || served % 2 != 0;
    uint64_t since = session->pulse.looked ? now - session->pulse.looked : 0;
    if (busy)
        figure_add(&session->figures->busy_us, (since < 2 * tick ? since : 2 * tick) / (CLOCK_NS_PER_MS / 1000));
    session->pulse.looked = now;
    tenant_look(busy);
}

void serve_usage(struct session *session, struct call *call)
{
    unsigned most = call->args.usage.most < FLYT_MAX_USAGE ? call->args.usage.most : FLYT_MAX_USAGE;
    unsigned devices = session->device_count < TENANT_DEVICES ? (unsigned)session->device_count : TENANT_DEVICES;
    struct tenant_usage *found = calloc(most ? most : 1, sizeof *found);
    flyt_usage *programs = calloc(most ? most : 1, sizeof *programs);
    usage_result result;
    memset(&result, 0, sizeof result);
    int count = found && programs ? tenant_usage(found, most) : 0;
    for (int i = 0; i < count; i++)
        programs[i] = (flyt_usage){ .pid = found[i].pid, .executable = found[i].executable, .busy = found[i].busy,
                                    .bytes = { devices, found[i].bytes } };
    result.limit = tenant_limit() == UINT64_MAX ? 0 : tenant_limit();
    result.programs.programs_len = count > 0 ? (u_int)count : 0;
    result.programs.programs_val = programs;
    CUresult r = !found || !programs ? CUDA_ERROR_OUT_OF_MEMORY : count < 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
    session_reply(session, call->xid, (xdrproc_t)xdr_usage_result, &result, r, false);
    free(programs);
    free(found);
}
