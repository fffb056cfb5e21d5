/*
 * gate.c: the gate of api_gate.h: the places of threads, and how it is shut.
 *
 * A thread stores its name and reads whether its short way is shut, without a fence in between: the processor may
 * read first. The thread that shuts the gate shuts all these ways and then has the kernel run a full barrier in every
 * thread of the process (membarrier). A thread whose barrier comes before its store reads afterwards, so it finds its
 * way shut; the name of any other one can be seen. Where the kernel has no membarrier, or a sandbox forbids it, or
 * FLYT_PERF=no_membarrier asks for it, all short ways are shut from the beginning (FENCED): the long way orders the
 * store and the load (some nanoseconds). If a sandbox forbids membarrier later, shutting the gate fails.
 *
 * What a thread stores lies in its thread-local storage, so that it needs one register and no look-up. A place in a
 * list says where. It is taken at the thread's first call and given back by the destructor of a pthread key, whichever
 * way the thread ends: also when it is cancelled inside a call (cancel.h). Destructors of the program may call CUDA
 * later still; these calls are only counted. In the child of a fork, only the thread that forked is left.
 *
 * A program that leaves a callback by longjmp, past an entry, stays inside: it cannot come to rest any more, and the
 * call is named.
 */
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "gate.h"

enum { LOOK_NS = 20000, LOOK_MOST_NS = 500000 };            /* between two looks at a thread that is inside */

/* What `in` is of a thread that must take the long way. */
static const char nobody[] = "nobody";                      /* it has not called yet */
static const char core_thread[] = "a thread of the core";
static const char ended[] = "the end of a thread";
static const char uncounted_call[] = "a call without a place";

_Thread_local struct core_gate_thread core_gate_own = { .in = nobody };
_Alignas(64) atomic_uint core_gate_state;

/* A thread that can be inside. */
struct place {
    struct core_gate_thread *of;            /* in the thread's own storage; NULL: the place is free */
    pid_t thread;
    atomic_uint_fast64_t stream;            /* that it waits for; 0: not known */
    atomic_bool waits;                      /* at the gate */
    struct place *next;                     /* of all there are; none is ever freed */
};
static _Thread_local struct place *own_place;

/* The lock is held for moments only, and never at the gate. */
static struct { pthread_mutex_t lock; struct place *first; } places = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_uint end_calls;               /* under way, of threads that have given back their place */
static atomic_bool uncounted;               /* a thread has no place */
static pthread_key_t thread_key;
static bool key_made;

/* ---- places ---- */

static struct place *place_find(void)
{
    struct place *place = places.first;
    while (place && place->of)
        place = place->next;
    if (!place && (place = calloc(1, sizeof *place))) {
        place->next = places.first;
        places.first = place;
    }
    return place;
}

/* Under the lock. */
static void place_free(struct place *place)
{
    place->of = NULL;
    atomic_store(&place->stream, 0);
    atomic_store(&place->waits, false);
}

static void wait_open(unsigned now)
{
    int error = errno;
    syscall(SYS_futex, &core_gate_state, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
    errno = error;
}

/* At the gate, of threads that have no place yet. */
static atomic_uint newcomers;

static void newcomer_waits(void)
{
    atomic_fetch_add(&newcomers, 1);
    for (unsigned now; (now = atomic_load(&core_gate_state)) & CORE_GATE_SHUT;)
        wait_open(now);
    atomic_fetch_sub(&newcomers, 1);
}

static bool place_take(void)
{
    if (atomic_load(&core_gate_state) & CORE_GATE_SHUT)
        newcomer_waits();
    CANCEL_OFF;
    pthread_mutex_lock(&places.lock);
    struct place *place = key_made ? place_find() : NULL;
    if (place && pthread_setspecific(thread_key, place))
        place = NULL;
    if (place) {
        place->of = &core_gate_own;
        place->thread = gettid();
        own_place = place;
        atomic_store(&core_gate_own.in, NULL);
        atomic_store(&core_gate_own.shut, atomic_load(&core_gate_state));
    }
    pthread_mutex_unlock(&places.lock);
    return place != NULL;
}

static void thread_ended(void *place)
{
    pthread_mutex_lock(&places.lock);
    place_free(place);
    pthread_mutex_unlock(&places.lock);
    own_place = NULL;
    atomic_store(&core_gate_own.in, ended);
}

/* ---- the long way ---- */

/* seq_cst, all of them: they take the place of membarrier. */
static void pass(const char *name)
{
    for (unsigned now;;) {
        atomic_store(&core_gate_own.in, name);
        if (!((now = atomic_load(&core_gate_state)) & CORE_GATE_SHUT))
            return;
        atomic_store(&core_gate_own.in, NULL);
        atomic_store(&own_place->waits, true);
        wait_open(now);
        atomic_store(&own_place->waits, false);
    }
}

static void pass_counted(void)
{
    for (unsigned now;;) {
        atomic_fetch_add(&end_calls, 1);
        if (!((now = atomic_load(&core_gate_state)) & CORE_GATE_SHUT))
            return;
        atomic_fetch_sub(&end_calls, 1);
        wait_open(now);
    }
}

const char *core_gate_slow(const char *name)
{
    CANCEL_DEFERRED;
    const char *outer = atomic_load_explicit(&core_gate_own.in, memory_order_relaxed);
    if (outer == ended) {
        pass_counted();
        return ended;
    }
    if (outer == nobody && !place_take()) {
        atomic_store(&uncounted, true);
        return uncounted_call;
    }
    if (outer && outer != nobody)
        return outer;
    pass(name);
    return NULL;
}

void core_gate_slow_out(const char *outer)
{
    if (outer == ended)
        atomic_fetch_sub(&end_calls, 1);
}

void gate_pass(void)
{
    atomic_store(&core_gate_own.in, core_thread);
}

void gate_note_stream(uint64_t stream)
{
    if (own_place)
        atomic_store_explicit(&own_place->stream, stream, memory_order_relaxed);
}

unsigned core_gate_waiting(void)
{
    CANCEL_OFF;
    pthread_mutex_lock(&places.lock);
    unsigned count = atomic_load(&newcomers);
    for (const struct place *place = places.first; place; place = place->next)
        count += place->of && atomic_load(&place->waits);
    pthread_mutex_unlock(&places.lock);
    return count;
}

/* ---- shutting it ---- */

/* The first time in a process of several threads it takes milliseconds, so it comes before the gate is shut. */
static bool barrier_prepare(void)
{
    return atomic_load(&core_gate_state) & CORE_GATE_FENCED ||
           !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0);
}

void gate_prepare(void) { barrier_prepare(); }

static bool every_thread_passes_a_barrier(void)
{
    return atomic_load(&core_gate_state) & CORE_GATE_FENCED ||
           !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
}

/* False: it is shut already. It is shut before the lock is taken, so that threads which begin to call, and would take a
   place, do not keep us from the lock: they wait at the gate (place_take). */
static bool ways_shut(bool shut)
{
    unsigned before = shut ? atomic_fetch_or(&core_gate_state, CORE_GATE_SHUT)
                           : atomic_fetch_and(&core_gate_state, ~(unsigned)CORE_GATE_SHUT);
    pthread_mutex_lock(&places.lock);
    for (struct place *place = places.first; place; place = place->next)
        if (place->of)
            atomic_store(&place->of->shut, atomic_load(&core_gate_state));
    pthread_mutex_unlock(&places.lock);
    return !(shut && before & CORE_GATE_SHUT);
}

static bool somebody_inside(struct core_gate_inside *inside)
{
    *inside = (struct core_gate_inside){ .call = atomic_load(&end_calls) ? ended : NULL };
    pthread_mutex_lock(&places.lock);
    for (const struct place *place = places.first; place && !inside->call; place = place->next) {
        const char *in = place->of ? atomic_load(&place->of->in) : NULL;
        if (in)
            *inside = (struct core_gate_inside){ place->thread, in, atomic_load(&place->stream) };
    }
    pthread_mutex_unlock(&places.lock);
    return inside->call;
}

int core_gate_close(uint64_t limit, struct core_gate_inside *inside)
{
    CANCEL_OFF;
    *inside = (struct core_gate_inside){ 0 };
    if (own_place && atomic_load(&core_gate_own.in)) {
        *inside = (struct core_gate_inside){ gettid(), atomic_load(&core_gate_own.in), 0 };
        return CORE_INVALID_VALUE;
    }
    if (atomic_load(&uncounted))
        return CORE_NOT_SUPPORTED;
    if (!barrier_prepare())
        return CORE_NOT_SUPPORTED;
    if (!ways_shut(true))
        return CORE_SYSTEM_NOT_READY;
    int code = every_thread_passes_a_barrier() ? CORE_OK : CORE_NOT_SUPPORTED;
    uint64_t until = clock_now() + limit;
    for (long pause = LOOK_NS; !code && somebody_inside(inside); pause = pause < LOOK_MOST_NS ? 2 * pause : pause) {
        if (clock_now() >= until)
            code = CORE_NOT_READY;
        else
            nanosleep(&(struct timespec){ 0, pause }, NULL);
    }
    if (!code && atomic_load(&uncounted))   /* since we looked */
        code = CORE_NOT_SUPPORTED;
    if (code)
        core_gate_open();
    return code;
}

void core_gate_open(void)
{
    CANCEL_OFF;
    ways_shut(false);
    syscall(SYS_futex, &core_gate_state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- the process ---- */

static void before_fork(void) { pthread_mutex_lock(&places.lock); }
static void in_parent(void) { pthread_mutex_unlock(&places.lock); }

static void in_child(void)
{
    for (struct place *place = places.first; place; place = place->next)
        if (place != own_place)
            place_free(place);
    if (own_place)
        own_place->thread = gettid();
    pthread_mutex_unlock(&places.lock);       /* this thread took it, in the parent */
    atomic_store(&end_calls, 0);
    atomic_store(&newcomers, 0);
    ways_shut(false);
}

static bool membarrier_is_there(void)
{
    long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
    const char *perf = env_get("FLYT_PERF");
    return commands >= 0 && commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED && !(perf && strstr(perf, "no_membarrier"));
}

/* Before any call: a thread must not have taken the short way where that needs membarrier. */
__attribute__((constructor)) static void begin(void)
{
    if (!membarrier_is_there())
        atomic_fetch_or(&core_gate_state, CORE_GATE_FENCED);
    key_made = !pthread_key_create(&thread_key, thread_ended);
    pthread_atfork(before_fork, in_parent, in_child);
}
