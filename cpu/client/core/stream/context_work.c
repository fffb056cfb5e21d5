/*
 * context_work.c: what is known of a context's work, and waiting for it.
 *
 * `sent` counts the calls that gave a context work, `idle_at` is the count up to which all is known to have ended;
 * where both agree nothing needs to be waited for. A synchronisation of the program's goes by `heard_at`: with its
 * answer comes what kernels printed.
 */
#include <stdatomic.h>

#include "cpu/common/cancel.h"
#include "context.h"
#include "managed.h"
#include "mirror.h"
#include "pending.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/perf.h"
#include "pool_notes.h"

static void raise_to(atomic_uint_fast64_t *value, uint64_t to)
{
    uint64_t now = atomic_load(value);
    while (now < to && !atomic_compare_exchange_weak(value, &now, to))
        ;
}

bool context_known_idle(core_context *c)
{
    uint64_t sent = atomic_load(&c->sent);
    if (atomic_load(&c->idle_at) >= sent)
        return true;
    if (!stream_context_idle(c))
        return false;
    raise_to(&c->idle_at, sent);
    return true;
}

int context_finish(core_context *c)
{
    uint64_t sent = atomic_load(&c->sent), serial = stream_serial();
    context_args args = { .context = c->wire };
    int code = wire_plain(c->session, FLYT_CONTEXT_SYNC, (xdrproc_t)xdr_context_args, &args);
    if (code)
        return code;
    pending_wait_context(c, serial);
    stream_context_ended(c, sent);
    raise_to(&c->idle_at, sent);
    raise_to(&c->heard_at, sent);
    return CORE_OK;
}

int context_settle(core_context *c)
{
    return context_known_idle(c) ? CORE_OK : context_finish(c);
}

/* Always travels while anything was sent since: latched errors come back with the answer. */
int core_context_synchronize(core_context *c)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    managed_synchronised();
    if (!core_perf.no_cache && atomic_load(&c->heard_at) >= atomic_load(&c->sent)) {
        core_count_local();
        pool_release();
        return mirror_synchronised();
    }
    if ((code = context_finish(c)))
        return code;
    pool_release();
    return mirror_synchronised();
}

int context_round_trip(struct client_session *session)
{
    core_context *c = context_next(NULL);
    while (c && c->session != session)
        c = context_next(c);
    if (!c)
        return CORE_OK;
    stream_args args = { .stream = c->legacy.wire };
    int result = wire_plain(c->session, FLYT_STREAM_QUERY, (xdrproc_t)xdr_stream_args, &args);
    return result == CORE_NOT_READY ? CORE_OK : result;
}

/* ---- limits ---- */

int core_limit_set(core_context *c, int limit, size_t value)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    limit_args args = { .context = c->wire, .limit = limit, .value = value };
    limit_result result = { 0 };
    code = wire_call(c->session, FLYT_LIMIT_SET, (xdrproc_t)xdr_limit_args, &args, (xdrproc_t)xdr_limit_result,
                     &result);
    xdr_free((xdrproc_t)xdr_limit_result, &result);
    if (!code && limit >= 0 && limit < 32)
        atomic_fetch_or(&c->chosen, 1U << limit);
    return code;
}
