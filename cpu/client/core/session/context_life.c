/*
 * context_life.c: how contexts begin and end.
 *
 * A primary context exists while somebody retains it. Its structure stays the same one over its lives, and
 * `generation` counts them: what was made in an earlier life is not found any more.
 *
 * A process that begins need not wait for its context. The server says with HELLO whether it has room for one. If so,
 * the client asks for the context, its first memory and, where the program has little code, its code, and informs the
 * program at once that it has the context: the context is promised. The first call that needs the context takes the
 * answers (context_enter). If the server has refused it after all, because another program was quicker, that call
 * returns the server's error, and the next one asks again: so does NVIDIA's runtime, which makes a context when a call
 * needs one. The server knows nothing of a context that it has refused, so ending it costs no message.
 * The promise is made once for each device, and only for PROMISE_NS after HELLO: what the server said grows old.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/lock.h"
#include "api/forward/core.h"
#include "cpu/client/core/api_session.h"
#include "cpu/client/core/code/code.h"
#include "cpu/client/core/wire/device.h"
#include "kinds.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/memory/windows.h"
#include "cpu/client/core/stream/move.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/stream/early_return.h"
#include "cpu/client/core/wire/perf.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/client/core/wire/wire.h"

#define PROMISE_NS (2 * CLOCK_NS_PER_SECOND)

/* ---- beginning ---- */

/* The call that makes the context, under way. */
struct context_question {
    union {
        context_retain_args primary;
        context_create_args other;
    } args;
    plain_result result;
    struct wire_call call;
};

/* device: its number there. */
static void ask_of(struct client_session *session, const core_context *c, int device, struct context_question *q)
{
    q->result = (plain_result){ 0 };
    if (c->primary) {
        q->args.primary = (context_retain_args){ .context = c->wire, .device = device };
        wire_prepare(&q->call, FLYT_CONTEXT_RETAIN, (xdrproc_t)xdr_context_retain_args, &q->args.primary,
                     (xdrproc_t)xdr_plain_result, &q->result);
    } else {
        q->args.other = (context_create_args){ .context = c->wire, .device = device, .flags = c->flags };
        wire_prepare(&q->call, FLYT_CONTEXT_CREATE, (xdrproc_t)xdr_context_create_args, &q->args.other,
                     (xdrproc_t)xdr_plain_result, &q->result);
    }
    wire_submit(session, &q->call);
}

static void ask(const core_context *c, struct context_question *q)
{
    ask_of(c->session, c, client_device_find(c->device)->wire, q);
}

static int answered(struct context_question *q)
{
    int code = wire_wait(&q->call);
    xdr_free((xdrproc_t)xdr_plain_result, &q->result);
    return code;
}

/* The server has made device 0's primary context with the connection, and the program has not retained it yet. */
static atomic_bool granted;

void context_granted(uint64_t memory)
{
    memory_first_granted(context_of_wire(0), memory);
    atomic_store(&granted, true);
}

int context_grant_drop(void)
{
    core_context *c = context_of_wire(0);
    context_args args = { .context = 0 };
    if (!atomic_exchange(&granted, false))
        return CORE_OK;
    memory_forget_context(c);
    return wire_plain(&core_session, FLYT_CONTEXT_RELEASE, (xdrproc_t)xdr_context_args, &args);
}

/* The context and its first memory, asked for. */
struct promise {
    struct context_question context;
    struct map_question *memory;
};

static void promise_ask(core_context *c, struct promise *p)
{
    ask(c, &p->context);
    p->memory = memory_ask_first(c);
}

static int promise_answered(struct promise *p)
{
    int code = answered(&p->context);
    memory_first_answered(p->memory);
    return code;
}

static int make(core_context *c)
{
    struct promise p;
    promise_ask(c, &p);
    return promise_answered(&p);
}

static bool may_promise(const core_context *c)
{
    static atomic_uint_fast64_t promised;     /* bit d: for device d */
    uint64_t bit = UINT64_C(1) << (c->device & 63);
    return core_session.hello.capabilities & FLYT_CAP_ROOM && !core_perf.no_ahead && !core_perf.no_async &&
           clock_now() - core_session.hello_at < PROMISE_NS && !(atomic_fetch_or(&promised, bit) & bit);
}

/* False: no memory. */
static bool promise(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    if (!(c->promise = malloc(sizeof *c->promise)))
        return false;
    promise_ask(c, c->promise);
    context_begins(c, CONTEXT_PROMISED);
    code_ahead(c);
    return true;
}

static int begin(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    bool made = c->primary && !c->device && atomic_exchange(&granted, false);
    if (made || !may_promise(c) || !promise(c)) {
        int code = made ? CORE_OK : make(c);
        if (code)
            return code;
        context_begins(c, CONTEXT_MADE);
    }
    early_return_settle_others(c);
    return CORE_OK;
}

/* Is the promised context there? Takes the answer if it has not been taken, or asks again. */
static int kept(core_context *c)
{
    FLYT_ASSERT_HELD(&c->lock);
    if (atomic_load(&c->live) != CONTEXT_PROMISED)
        return atomic_load(&c->live) ? CORE_OK : CORE_CONTEXT_DESTROYED;  /* another thread was quicker */
    struct promise *p = c->promise;
    c->promise = NULL;
    int code = p ? promise_answered(p) : make(c);
    free(p);
    if (code)
        code_forget_context(c);
    else
        context_made(c);
    return code;
}

int context_kept(core_context *c)
{
    pthread_mutex_lock(&c->lock);
    int code = kept(c);
    pthread_mutex_unlock(&c->lock);
    return code;
}

void context_settle_promises(void)
{
    for (core_context *c = context_next_promised(NULL); c; c = context_next_promised(c)) {
        pthread_mutex_lock(&c->lock);
        if (c->promise)
            kept(c);                          /* a refusal is returned when the context is needed */
        pthread_mutex_unlock(&c->lock);
    }
}

int core_context_retain(core_context *c)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!c || !c->primary)
        return CORE_INVALID_CONTEXT;
    pthread_mutex_lock(&c->lock);
    if (!atomic_load(&c->live))
        code = begin(c);
    if (!code)
        c->owners++;
    pthread_mutex_unlock(&c->lock);
    return code;
}

int core_context_create(int device, unsigned flags, core_context **out)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!client_device_find(device))
        return CORE_INVALID_DEVICE;
    core_context *c = context_take(device);
    if (!c)
        return CORE_OUT_OF_MEMORY;
    pthread_mutex_lock(&c->lock);
    stream_open_context(c);
    c->flags = flags;
    code = begin(c);
    pthread_mutex_unlock(&c->lock);
    if (code)
        context_spare(c);
    *out = code ? NULL : c;
    return code;
}

/* ---- moving to another server ---- */

/* CUlimit: the stack, the printf buffer, the device's heap, two of the device runtime, two of the cache. */
enum { LIMITS = 7 };
struct limits { size_t value[CONTEXTS_MOST][LIMITS]; bool known[CONTEXTS_MOST][LIMITS]; };

int context_save(struct move *move)
{
    struct limits *limits = move->of[KIND_CONTEXT] = calloc(1, sizeof *limits);
    if (!limits)
        return CORE_OUT_OF_MEMORY;
    for (core_context *c = context_next(NULL); c; c = context_next(c))
        for (int i = 0; i < LIMITS; i++)
            limits->known[c->wire][i] = core_ctx_get_limit(c, &limits->value[c->wire][i], i) == CORE_OK;
    return CORE_OK;
}

static int limits_restore(struct move *move, core_context *c)
{
    const struct limits *limits = move->of[KIND_CONTEXT];
    for (int i = 0; i < LIMITS; i++) {
        size_t value = limits->value[c->wire][i], there;
        bool own = atomic_load(&c->chosen) >> i & 1;      /* what a server begins with is not known in a rehearsal */
        if (rehearsal_here() && !own)
            continue;
        if (!limits->known[c->wire][i] ||
            (!rehearsal_here() && core_ctx_get_limit(c, &there, i) == CORE_OK && there == value))
            continue;
        int code = core_limit_set(c, i, value);
        if (code)
            return move_refuse(move, code, "limit %d of a context is %zu, and the new server refuses that (error %d)",
                               i, value, code);
    }
    return CORE_OK;
}

int context_restore_one(struct move *move, core_context *c)
{
    struct context_question q;
    move_go(move, MOVE_TARGET);
    ask_of(move_calls(move), c, move->at[MOVE_TARGET].devices[c->device], &q);
    int code = answered(&q);
    return code ? move_refuse(move, code, "the new server makes no context on device %d (error %d)", c->device, code)
                : CORE_OK;
}

int context_restore(struct move *move)
{
    for (core_context *c = context_next(NULL); c; c = context_next(c)) {
        int code = move_ahead_of(move->ahead, c) ? CORE_OK : context_restore_one(move, c);
        if (code)
            return code;
        if ((code = limits_restore(move, c)))
            return code;
    }
    return CORE_OK;
}

void context_moved(struct move *move, bool moved)
{
    (void)moved;
    free(move->of[KIND_CONTEXT]);
}

/* ---- ending ---- */

static void forget(core_context *c)
{
    pending_wait_context(c, UINT64_MAX);
    context_ends(c);
    for (int kind = 0; kind < KINDS; kind++)
        if (client_kinds[kind].drop)
            client_kinds[kind].drop(c);
}

/* procedure: one of those that end a context. */
static int end(core_context *c, uint32_t procedure)
{
    FLYT_ASSERT_HELD(&c->lock);
    context_args args = { .context = c->wire };
    if (c->promise)
        kept(c);
    bool there = atomic_load(&c->live) == CONTEXT_MADE;
    memory_context_ends(c, true);
    int code = there ? wire_plain(c->session, procedure, (xdrproc_t)xdr_context_args, &args) : CORE_OK;
    if (code && code == atomic_load(&c->session->sticky) && procedure == FLYT_CONTEXT_RESET)
        code = CORE_OK;                       /* behind a kernel's fault it ends here all the same */
    if (!code)
        forget(c);
    else
        memory_context_ends(c, false);
    return code;
}

/* Before the lock is taken: the server waits for the work too, but knows nothing of copies that functions of ours
   will yet send (copy.c), nor of those in streams of other contexts that name this one's memory. Behind the work no
   rank puts into its memory. */
static void settle(core_context *c)
{
    if (!atomic_load(&c->session->sticky) && atomic_load(&c->live) == CONTEXT_MADE)
        session_several() ? memory_settle(c) : context_settle(c);
    windows_end_with(c);
}

/* Behind a kernel's fault the reset succeeds, and the context has ended. It cannot be made again: the fault stays. */
int core_context_reset(core_context *c)
{
    CANCEL_DEFERRED;
    int code = core_attach();
    if (code)
        return code;
    int sticky = c ? atomic_load(&c->session->sticky) : core_sticky();
    if (sticky == CORE_DEVICE_UNAVAILABLE)
        return session_loss_wait(c ? c->session : &core_session, sticky);
    if (!c || !c->primary)
        return CORE_INVALID_CONTEXT;
    settle(c);
    pthread_mutex_lock(&c->lock);
    if (atomic_load(&c->live) && !(code = end(c, FLYT_CONTEXT_RESET)))
        c->flags = 0;
    pthread_mutex_unlock(&c->lock);
    return code;
}

int core_context_release(core_context *c)
{
    CANCEL_DEFERRED;
    int code = core_enter();
    if (code)
        return code;
    if (!c || !c->primary)
        return CORE_INVALID_CONTEXT;
    pthread_mutex_lock(&c->lock);
    bool last = c->owners == 1;
    pthread_mutex_unlock(&c->lock);
    if (last)
        settle(c);
    pthread_mutex_lock(&c->lock);
    if (!c->owners)
        code = CORE_INVALID_CONTEXT;
    else if (c->owners > 1 || !atomic_load(&c->live) || !(code = end(c, FLYT_CONTEXT_RELEASE)))
        c->owners--;
    pthread_mutex_unlock(&c->lock);
    return code;
}

int core_context_destroy(core_context *c)
{
    CANCEL_DEFERRED;
    int code = core_context_check(c);
    if (code || (code = core_enter()))
        return code;
    if (c->primary)
        return CORE_INVALID_CONTEXT;
    settle(c);
    pthread_mutex_lock(&c->lock);
    code = atomic_load(&c->live) ? end(c, FLYT_CONTEXT_DESTROY) : CORE_CONTEXT_DESTROYED;
    pthread_mutex_unlock(&c->lock);
    if (!code)
        context_spare(c);
    return code;
}

/* ---- questions ---- */

int core_context_info(core_context *c, struct core_context_info *out)
{
    CANCEL_DEFERRED;
    int code = core_attach();
    if (code)
        return code;
    if (!c)
        return CORE_INVALID_CONTEXT;
    pthread_mutex_lock(&c->lock);
    *out = (struct core_context_info){ .device = c->device, .flags = c->flags, .primary = c->primary,
                                       .owners = c->owners };
    out->active = atomic_load(&c->live) != CONTEXT_NONE;
    out->id = atomic_load(&c->generation) * CONTEXTS_MOST + c->wire + 1;
    pthread_mutex_unlock(&c->lock);
    return CORE_OK;
}

int core_context_set_flags(core_context *c, unsigned flags)
{
    CANCEL_DEFERRED;
    int code = core_attach();
    if (code)
        return code;
    if (!c)
        return CORE_INVALID_CONTEXT;
    pthread_mutex_lock(&c->lock);
    c->flags = flags;
    pthread_mutex_unlock(&c->lock);
    return CORE_OK;
}
