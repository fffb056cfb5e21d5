/*
 * context.c: contexts, and how they are found. context_life.c makes and ends them.
 *
 * Structures stand in a table and are never freed, so a call with a context that has ended meanwhile is harmless. A
 * structure's place is the context's id on the wire, whoever's it is. The first ones are the devices' primary
 * contexts, by number of the device.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cpu/common/lock.h"
#include "context.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/wire/device.h"
#include "cpu/client/core/wire/state.h"

_Thread_local core_context *core_current;
atomic_bool core_initialised;

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
    const struct client_device *facts = client_device_find(device);
    c->wire = wire;
    c->session = facts->session;
    c->device = device;
    c->primary = primary;
    c->facts = &facts->public;
}

int context_open(void)
{
    for (int i = 0; i < device_count(); i++) {
        pthread_mutex_init(&contexts[i].lock, NULL);
        context_set(&contexts[i], (flyt_id)i, i, true);
    }
    atomic_store(&table.count, (unsigned)device_count());
    return CORE_OK;
}

/* ---- finding ---- */

core_context *core_context_primary(int device)
{
    return core_attach() == CORE_OK && client_device_find(device) ? &contexts[device] : NULL;
}

/* Of the context that is current in this thread; NULL: none is. */
static struct client_session *context_session(void) { return core_current ? core_current->session : NULL; }

/* A program with several sessions gets the error of its thread's context. */
int core_sticky(void)
{
    if (!session_ready())
        return CORE_OK;
    struct client_session *session = session_several() ? context_session() : &core_session;
    int code = session ? atomic_load_explicit(&session->sticky, memory_order_relaxed) : session_sticky_of_all();
    return code == CORE_DEVICE_UNAVAILABLE ? session_loss_wait(session ? session : &core_session, code) : code;
}

int core_take_latched(void)
{
    if (!session_ready())
        return CORE_OK;
    struct client_session *session = session_several() ? context_session() : &core_session;
    if (!session || !atomic_load_explicit(&session->latched, memory_order_relaxed))
        return CORE_OK;
    return atomic_exchange(&session->latched, 0);
}

/* As core_enter, where it is known whose session it concerns. */
static int enter(const core_context *c)
{
    int code = core_attach();
    if (code)
        return code;
    if (!c)
        return (code = core_enter()) ? code : CORE_INVALID_CONTEXT;
    return atomic_load_explicit(&c->session->sticky, memory_order_relaxed);
}

/* Whether the context was reset after a kernel's fault, which `code` is. Calls in it then fail as in any destroyed
   context, as they do natively; calls in contexts that live fail with the fault. */
static bool ended_behind_fault(const core_context *c, int code)
{
    return c && code != CORE_DEVICE_UNAVAILABLE && session_ready() &&
           !atomic_load_explicit(&c->live, memory_order_acquire);
}

int context_enter(const core_context *c)
{
    int code = enter(c);
    if (code)
        return ended_behind_fault(c, code) ? CORE_CONTEXT_DESTROYED : code;
    switch (atomic_load_explicit(&c->live, memory_order_acquire)) {
    case CONTEXT_MADE:
        return CORE_OK;
    case CONTEXT_PROMISED:
        return context_kept((core_context *)(uintptr_t)c);
    default:
        return CORE_CONTEXT_DESTROYED;
    }
}

int core_context_enter(const core_context *c)
{
    int code = enter(c);
    if (code)
        return ended_behind_fault(c, code) ? CORE_CONTEXT_DESTROYED : code;
    return atomic_load_explicit(&c->live, memory_order_acquire) ? CORE_OK : CORE_CONTEXT_DESTROYED;
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

static core_context *next_of(const core_context *c, enum context_life life)
{
    unsigned count = atomic_load(&table.count);
    for (unsigned i = c ? c->wire + 1 : 0; i < count; i++)
        if (atomic_load_explicit(&contexts[i].live, memory_order_acquire) == (int)life)
            return &contexts[i];
    return NULL;
}

core_context *context_next(const core_context *c) { return next_of(c, CONTEXT_MADE); }
core_context *context_next_promised(const core_context *c) { return next_of(c, CONTEXT_PROMISED); }

core_context *context_of_wire(flyt_id wire)
{
    return wire < atomic_load(&table.count) ? &contexts[wire] : NULL;
}

uint64_t context_count(void)
{
    return atomic_load(&table.live);
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

void context_begins(core_context *c, enum context_life life)
{
    FLYT_ASSERT_HELD(&c->lock);
    atomic_fetch_add(&table.live, 1);
    atomic_store_explicit(&c->live, (int)life, memory_order_release);
}

bool context_lock_promised(core_context *c)
{
    if (!c || core_enter() || atomic_load(&c->live) != CONTEXT_PROMISED)
        return false;
    pthread_mutex_lock(&c->lock);
    if (c->promise)
        return true;
    pthread_mutex_unlock(&c->lock);
    return false;
}

void context_made(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    atomic_store_explicit(&c->live, CONTEXT_MADE, memory_order_release);
}

void context_ends(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    atomic_fetch_add(&c->generation, 1);
    changes_note();
    atomic_store(&c->live, CONTEXT_NONE);
    atomic_fetch_sub(&table.live, 1);
    atomic_store(&c->idle_at, atomic_load(&c->sent));
    atomic_store(&c->heard_at, atomic_load(&c->sent));
}
