/*
 * charge.c: see charge.h.
 *
 * Where the driver counts for this process only (the software GPU, the null device), what is not free and not credit is
 * ours, so that device->charged always follows an absolute number. NVIDIA's driver counts for the whole device: there
 * the difference across one operation is taken, and a context's own share is not known. (What others do in that moment
 * is counted too ◊; the driver's own limit is the backstop.)
 */
#include "cpu/server/tenant/charge.h"

#include <string.h>

#include "cpu/common/lock.h"
#include "cpu/server/tenant/tenant.h"
#include "cpu/server/tenant/usage.h"

void charge_lock(struct session *session) { pthread_mutex_lock(&session->charging); }
void charge_unlock(struct session *session) { pthread_mutex_unlock(&session->charging); }

bool charge_private(const struct session *session) { return strcmp(session->gpu->kind, "nvidia") != 0; }

bool charge_shared(const struct session *session)
{
    return (tenant_limit() != UINT64_MAX || !charge_private(session)) && tenant_shared();
}

/* What of the device is taken beside our credit. */
static uint64_t charge_measure(struct session *session, const struct device *device, uint64_t otherwise)
{
    FLYT_ASSERT_HELD(&session->charging);
    size_t free_bytes, total;
    if (session->gpu->MemGetInfo(&free_bytes, &total) != CUDA_SUCCESS || free_bytes > total)
        return otherwise;
    uint64_t taken = total - free_bytes;
    return taken > device->mapped ? taken - device->mapped : 0;
}

struct charge charge_begin(struct session *session, struct context *context)
{
    struct charge charge = { .context = context };
    pthread_mutex_lock(&session->measuring);
    charge_lock(session);
    charge.before = charge_private(session) ? context->device->charged : charge_measure(session, context->device, 0);
    charge_unlock(session);
    return charge;
}

static CUresult charge_settle(struct session *session, struct charge *charge, bool own)
{
    struct context *context = charge->context;
    charge_lock(session);
    uint64_t now = charge_measure(session, context->device, charge->before),
             given = charge->before > now ? charge->before - now : 0;
    given = given < context->charged ? given : context->charged;
    context->charged -= given;
    context->device->charged -= given;
    usage_device(context->device);
    charge_unlock(session);
    if (given)
        tenant_release(TENANT_FIXED, (unsigned)context->device->index, given);
    if (now > charge->before) {
        if (!tenant_charge_waiting(TENANT_FIXED, (unsigned)context->device->index, now - charge->before, own))
            return CUDA_ERROR_OUT_OF_MEMORY;
        charge_lock(session);
        context->charged += now - charge->before;
        context->device->charged += now - charge->before;
        usage_device(context->device);
        charge_unlock(session);
    }
    charge->before = now;
    return CUDA_SUCCESS;
}

CUresult charge_end(struct session *session, struct charge *charge) { return charge_settle(session, charge, true); }

void charge_finish(struct session *session) { pthread_mutex_unlock(&session->measuring); }

CUresult charge_context(struct session *session, struct context *context)
{
    if (!charge_private(session))
        return CUDA_SUCCESS;
    struct charge charge = charge_begin(session, context);
    CUresult r = charge_settle(session, &charge, false);
    charge_finish(session);
    return r;
}

void charge_context_gone(struct session *session, struct context *context)
{
    charge_lock(session);
    uint64_t charged = context->charged;
    context->charged = 0;
    context->device->charged -= charged;
    usage_device(context->device);
    charge_unlock(session);
    tenant_release(TENANT_FIXED, (unsigned)context->device->index, charged);
}
