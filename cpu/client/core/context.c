/*
 * context.c: contexts, and what is known of their work. context_life.c makes and ends them.
 *
 * Structures stand in a table and are never freed, so a call with a context that has ended meanwhile is harmless. A structure's place
 * is the context's id on the wire, whoever's it is. The first ones are the devices' primary contexts, by number of the device.
 *
 * `sent` counts the calls that gave a context work, `idle_at` is the count up to which all is known to have ended; where both
 * agree nothing needs to be waited for. A synchronisation of the program's goes by `heard_at`: with its answer comes what
 * kernels printed.
 */
#include "cpu/common/lock.h"
#include "internal.h"

static core_context contexts[CONTEXTS_MOST];
static struct {
    pthread_mutex_t lock;
    atomic_uint     count;            /* structures that were ever used */
    atomic_uint     live;
    core_context   *spare[CONTEXTS_MOST];
    unsigned        spares;
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void context_set(core_context *c, flyt_id wire, int device, bool primary)
{
    c->wire = wire;
    c->device = device;
    c->primary = primary;
    c->facts = &device_find(device)->public;
}

int context_open(void)
{
    for (int i = 0; i < device_count(); i++) {
        pthread_mutex_init(&contexts[i].lock, NULL);
        context_set(&contexts[i], (flyt_id)i, i, true);
        stream_open_context(&contexts[i]);
    }
    atomic_store(&table.count, (unsigned)device_count());
    return CORE_OK;
}

/* ---- finding ---- */

core_context *core_context_primary(int device)
{
    return core_attach() == CORE_OK && device_find(device) ? &contexts[device] : NULL;
}

int context_enter(const core_context *c)
{
    int code = core_enter();
    if (code)
        return code;
    if (!c)
        return CORE_INVALID_CONTEXT;
    return atomic_load_explicit(&c->live, memory_order_acquire) ? CORE_OK : CORE_CONTEXT_DESTROYED;
}

int core_context_enter(const core_context *c)
{
    return context_enter(c);
}

bool core_context_active(const core_context *c)
{
    return c && session_ready() && atomic_load_explicit(&c->live, memory_order_acquire);
}

/* Compares numbers: of what a program made up, nothing is read. */
static bool in_table(const core_context *c)
{
    uintptr_t offset = (uintptr_t)c - (uintptr_t)contexts;
    return offset < atomic_load(&table.count) * sizeof *c && offset % sizeof *c == 0;
}

int core_context_check(const core_context *c)
{
    int code = core_attach();
    if (code)
        return code;
    if (!in_table(c))
        return CORE_INVALID_CONTEXT;
    return atomic_load_explicit(&c->live, memory_order_acquire) ? CORE_OK : CORE_CONTEXT_DESTROYED;
}

core_context *context_next(const core_context *c)
{
    unsigned count = atomic_load(&table.count);
    for (unsigned i = c ? c->wire + 1 : 0; i < count; i++)
        if (atomic_load_explicit(&contexts[i].live, memory_order_acquire))
            return &contexts[i];
    return NULL;
}

core_context *context_of_wire(flyt_id wire)
{
    return wire < atomic_load(&table.count) ? &contexts[wire] : NULL;
}

bool context_only_one(void)
{
    return atomic_load(&table.live) <= 1;
}

/* ---- the table ---- */

core_context *context_take(int device)
{
    pthread_mutex_lock(&table.lock);
    flyt_id wire = atomic_load(&table.count);
    core_context *c = table.spares ? table.spare[--table.spares] : NULL;
    if (c) {
        context_set(c, c->wire, device, false);
    } else if (wire < CONTEXTS_MOST) {
        c = &contexts[wire];
        pthread_mutex_init(&c->lock, NULL);
        context_set(c, wire, device, false);
        stream_open_context(c);
        atomic_store(&table.count, wire + 1);
    }
    pthread_mutex_unlock(&table.lock);
    return c;
}

void context_spare(core_context *c)
{
    pthread_mutex_lock(&table.lock);
    table.spare[table.spares++] = c;
    pthread_mutex_unlock(&table.lock);
}

void context_begins(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    atomic_fetch_add(&table.live, 1);
    atomic_store_explicit(&c->live, true, memory_order_release);
}

void context_ends(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    atomic_fetch_add(&c->generation, 1);
    atomic_store(&c->live, false);
    atomic_fetch_sub(&table.live, 1);
    atomic_store(&c->idle_at, atomic_load(&c->sent));
    atomic_store(&c->heard_at, atomic_load(&c->sent));
}

/* ---- waiting ---- */

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

static int context_wait(core_context *c)
{
    uint64_t sent = atomic_load(&c->sent), serial = stream_serial();
    context_args args = { .context = c->wire };
    int code = wire_plain(FLYT_CONTEXT_SYNC, (xdrproc_t)xdr_context_args, &args);
    if (code)
        return code;
    outs_wait_context(c, serial);
    stream_context_ended(c, sent);
    raise_to(&c->idle_at, sent);
    raise_to(&c->heard_at, sent);
    return CORE_OK;
}

int context_settle(core_context *c)
{
    return context_known_idle(c) ? CORE_OK : context_wait(c);
}

/* Always travels while anything was sent since: latched errors come back with the answer. */
int core_context_synchronize(core_context *c)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    if (!core_perf.no_cache && atomic_load(&c->heard_at) >= atomic_load(&c->sent)) {
        core_count_local();
        return CORE_OK;
    }
    return context_wait(c);
}

/* ---- limits ---- */

int core_limit_get(core_context *c, int limit, size_t *value)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    limit_args args = { .context = c->wire, .limit = limit };
    limit_result result = { 0 };
    code = wire_call(FLYT_LIMIT_GET, (xdrproc_t)xdr_limit_args, &args, (xdrproc_t)xdr_limit_result, &result);
    *value = result.value;
    xdr_free((xdrproc_t)xdr_limit_result, &result);
    return code;
}

int core_limit_set(core_context *c, int limit, size_t value)
{
    CANCEL_DEFERRED;
    int code = context_enter(c);
    if (code)
        return code;
    limit_args args = { .context = c->wire, .limit = limit, .value = value };
    limit_result result = { 0 };
    code = wire_call(FLYT_LIMIT_SET, (xdrproc_t)xdr_limit_args, &args, (xdrproc_t)xdr_limit_result, &result);
    xdr_free((xdrproc_t)xdr_limit_result, &result);
    return code;
}
