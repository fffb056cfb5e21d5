/*
 * state.c: what state the session is in: whether there is one, and which of its errors stay.
 *
 * state moves NEW -> ATTACHING -> READY or FAILED, once; fork() makes a READY session CHILD in the child, where
 * every call gives 3 and nothing of the parent's is touched. A lost connection stays READY with a sticky error. While
 * the session moves to another server (move.c) it is MOVING, and calls wait for attach_lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/api_graph.h"
#include "cpu/client/core/copy/lanes.h"
#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "deep.h"
#include "state.h"

enum state { STATE_NEW, STATE_ATTACHING, STATE_READY, STATE_MOVING, STATE_FAILED, STATE_CHILD };
/* from the end of the calls to what session_lost says: microseconds, on an idle machine */
#define LOSS_SAID_NS CLOCK_NS_PER_SECOND

struct client_session core_session = { .events = { .lock = PTHREAD_MUTEX_INITIALIZER } };
session_link_way *session_link;
int session_dead_seconds;

static atomic_uint_fast64_t changes;

void changes_note(void) { atomic_fetch_add(&changes, 1); }
uint64_t core_changes(void) { return atomic_load(&changes); }

static atomic_int state;
static int failure;
static pthread_t mover;                 /* while MOVING */
static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t loss_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t name_lock = PTHREAD_MUTEX_INITIALIZER;   /* number and nonce of the first session */
static pthread_cond_t loss_said = PTHREAD_COND_INITIALIZER;
static bool loss_held;                  /* of the first session; late: what came meanwhile */
static char loss_late[RPC_ERROR_SIZE];

/* ---- errors that stay ---- */

void session_set_sticky(struct client_session *session, int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&session->sticky, &none, code);
}

void session_latch(struct client_session *session, int code)
{
    int none = 0;
    atomic_compare_exchange_strong(&session->latched, &none, code);
}

void session_fail(struct client_session *session, const char *what, int code)
{
    CANCEL_OFF;
    pthread_mutex_lock(&loss_lock);
    if (!atomic_load(&session->sticky))
        log_error("%s failed with error %d, and work of the GPU server %s depends on it. Every CUDA call that concerns "
                  "its GPUs fails from here on; start the program again", what, code, session->uri);
    session_set_sticky(session, CORE_DEVICE_UNAVAILABLE);
    pthread_mutex_unlock(&loss_lock);
}

int session_sticky_of_all(void)
{
    int code = atomic_load_explicit(&core_session.sticky, memory_order_relaxed);
    for (const struct client_session *s = core_session.next; code && s; s = s->next)
        if (!atomic_load_explicit(&s->sticky, memory_order_relaxed))
            return CORE_OK;
    return code;
}

/* Called by the rpc layer, in any thread, and by whoever finds the server at fault. Says it once. */
void session_lost(void *which, const char *reason)
{
    struct client_session *session = which;
    CANCEL_OFF;
    pthread_mutex_lock(&loss_lock);
    if (loss_held && session == &core_session) {
        snprintf(loss_late, sizeof loss_late, "%s", reason);
        pthread_mutex_unlock(&loss_lock);
        return;
    }
    bool first = !session->loss.told && session_ready();
    if (!session->loss.reason[0])
        snprintf(session->loss.reason, sizeof session->loss.reason, "%s", reason);
    /* under the lock: another thread that finds the loss fails no call before this is said */
    if (first) {
        log_error("the connection to the GPU server %s is lost: %s. Every CUDA call %sfails from here on; start the "
                  "program again",
                  session->uri, reason, session_several() ? "that concerns its GPUs " : "");
        session->loss.told = true;
        pthread_cond_broadcast(&loss_said);
    }
    session_set_sticky(session, CORE_DEVICE_UNAVAILABLE);          /* before anybody's call fails */
    pthread_mutex_unlock(&loss_lock);
    if (session == &core_session)
        lanes_lost();
    if (!first)
        return;
    pthread_mutex_lock(&loss_lock);
    session->loss.telling = true;               /* no lock of the lanes from here on: who waits may hold one */
    pthread_mutex_unlock(&loss_lock);
    session_explain_loss(session);
    pthread_mutex_lock(&loss_lock);
    session->loss.telling = false;
    pthread_cond_broadcast(&loss_said);
    pthread_mutex_unlock(&loss_lock);
}

void session_loss_hold(void)
{
    pthread_mutex_lock(&loss_lock);
    loss_held = true;
    loss_late[0] = 0;
    pthread_mutex_unlock(&loss_lock);
}

void session_loss_hold_end(bool gone)
{
    char reason[sizeof loss_late];
    pthread_mutex_lock(&loss_lock);
    loss_held = false;
    snprintf(reason, sizeof reason, "%s", gone ? "" : loss_late);
    pthread_mutex_unlock(&loss_lock);
    if (*reason)
        session_lost(&core_session, reason);
}

int session_loss_wait(struct client_session *session, int code)
{
    CANCEL_OFF;
    pthread_mutex_lock(&loss_lock);
    /* The transport ends its calls before it calls session_lost. After an end that was meant nobody does: once, then,
       in vain. */
    struct timespec until = clock_timespec(clock_now() + LOSS_SAID_NS);
    while (!session->loss.told && !session->loss.untold && atomic_load(&state) == STATE_READY &&
           rpc_client_lost(session->client))
        session->loss.untold = pthread_cond_clockwait(&loss_said, &loss_lock, CLOCK_MONOTONIC, &until) == ETIMEDOUT;
    while (session->loss.telling)
        pthread_cond_wait(&loss_said, &loss_lock);
    pthread_mutex_unlock(&loss_lock);
    return code;
}

const char *session_loss_reason(const struct client_session *session)
{
    return session->loss.reason;
}

void session_loss_forget(void)
{
    pthread_mutex_lock(&loss_lock);
    core_session.loss.reason[0] = 0;
    atomic_store(&core_session.sticky, CORE_OK);
    pthread_mutex_unlock(&loss_lock);
}

/* ---- the state ---- */

bool core_forked(void)
{
    return atomic_load_explicit(&state, memory_order_relaxed) == STATE_CHILD;
}

bool session_ready(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    return now == STATE_READY || now == STATE_MOVING;
}

uint64_t session_number(void)
{
    pthread_mutex_lock(&name_lock);
    uint64_t number = core_session.hello.session;
    pthread_mutex_unlock(&name_lock);
    return number;
}

void session_nonce(const struct client_session *session, char nonce[FLYT_HASH_SIZE])
{
    pthread_mutex_lock(&name_lock);
    memcpy(nonce, session->hello.nonce, FLYT_HASH_SIZE);
    pthread_mutex_unlock(&name_lock);
}

void session_name(uint64_t number, const char nonce[FLYT_HASH_SIZE])
{
    pthread_mutex_lock(&name_lock);
    core_session.hello.session = number;
    memcpy(core_session.hello.nonce, nonce, FLYT_HASH_SIZE);
    pthread_mutex_unlock(&name_lock);
}

bool session_becomes_child(void)
{
    pthread_mutex_init(&attach_lock, NULL);   /* a thread that is not in this process may have held it */
    int now = atomic_load(&state);
    bool becomes = now == STATE_READY || now == STATE_ATTACHING || now == STATE_MOVING;
    if (becomes)
        atomic_store(&state, STATE_CHILD);
    return becomes;
}

void session_closes(int code)
{
    atomic_store(&state, STATE_FAILED);
    failure = code;
}

static int attach_deep(void *to_use) { return session_attach(*(const bool *)to_use); }

static int attach(bool to_use)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (now == STATE_READY)
        return CORE_OK;
    if (now == STATE_CHILD)
        return CORE_NOT_INITIALIZED;
    if (now == STATE_FAILED)
        return failure;
    if (now == STATE_MOVING && pthread_equal(mover, pthread_self()))
        return CORE_OK;
    CANCEL_OFF;
    pthread_mutex_lock(&attach_lock);
    now = atomic_load(&state);
    if (now == STATE_NEW) {
        atomic_store(&state, STATE_ATTACHING);
        failure = deep_call(attach_deep, &to_use);
        pthread_mutex_lock(&loss_lock);       /* so a loss is reported here, or by session_lost, and never by neither */
        for (struct client_session *s = &core_session; s && !failure; s = s->next)
            if ((failure = atomic_load(&s->sticky)))
                log_error("the GPU server %s went away during the handshake: %s", s->uri, s->loss.reason);
        atomic_store_explicit(&state, failure ? STATE_FAILED : STATE_READY, memory_order_release);
        pthread_mutex_unlock(&loss_lock);
    }
    pthread_mutex_unlock(&attach_lock);
    return failure;
}

int core_attach(void) { return attach(false); }

int core_attach_to_use(void) { return attach(true); }

int session_move_begin(void)
{
    int code = core_attach();
    if (code)
        return code;
    pthread_mutex_lock(&attach_lock);
    code = atomic_load(&state) == STATE_READY ? core_session.sticky : CORE_SYSTEM_NOT_READY;
    mover = pthread_self();
    if (code)
        pthread_mutex_unlock(&attach_lock);
    else
        atomic_store(&state, STATE_MOVING);
    return code;
}

void session_move_end(void)
{
    atomic_store_explicit(&state, STATE_READY, memory_order_release);
    pthread_mutex_unlock(&attach_lock);
}

bool session_moving(void)
{
    return atomic_load_explicit(&state, memory_order_acquire) == STATE_MOVING;
}

static atomic_bool keeps;

void session_keep_begin(void) { atomic_store(&keeps, true); }
void session_keep_end(void) { atomic_store(&keeps, false); }
bool session_keeps(void) { return atomic_load(&keeps); }

int core_enter(void)
{
    if (atomic_load_explicit(&state, memory_order_acquire) != STATE_READY) {
        int code = core_attach();
        if (code)
            return code;
    }
    return session_sticky_of_all();
}

void core_unsupported(const char *name)
{
    CANCEL_DEFERRED;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *told[512];
    static unsigned count;
    if (core_forked())
        return;
    pthread_mutex_lock(&lock);
    bool known = false;
    for (unsigned i = 0; i < count && !known; i++)
        known = strcmp(told[i], name) == 0;
    if (!known && count < sizeof told / sizeof told[0]) {
        char *copy = strdup(name);
        if (copy)
            told[count++] = copy;
    }
    pthread_mutex_unlock(&lock);
    if (known)
        core_log(CORE_LOG_ERROR, "%s is not supported by this version of Flyt", name);
    else
        log_warning("%s is not supported by this version of Flyt; it returns error 801", name);
}
