/*
 * gate.c: the gate of api_gate.h: the places of threads, and how it is shut.
 *
 * A thread stores its name and reads core_gate_state, without a fence in between: the processor may read first. The
 * thread that shuts the gate stores the state and then has the kernel run a full barrier in every thread of the
 * process (membarrier). A thread whose barrier comes before its store reads the state afterwards, so it finds the gate
 * shut; the name of any other one can be seen. Where the kernel has no membarrier, or a sandbox forbids it, or
 * FLYT_PERF=no_membarrier asks for it, the state has FENCED from the beginning: then every entry takes the long way,
 * whose store and load are ordered (some nanoseconds). If a sandbox comes to forbid membarrier later, shutting the gate
 * fails.
 *
 * Places are in a list that only grows. One is taken at a thread's first call, and given back by the destructor of a
 * pthread key, whichever way the thread ends: also when it is cancelled inside a call (cancel.h). A destructor of the
 * program may call CUDA later still: the thread then takes a place again. In the child of a fork, only the thread that
 * forked is left.
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

/* Their names are not NULL, so who has one of these takes the long way. */
static struct core_gate_slot nobody = { .in = "nobody" };   /* a thread that has not called yet */
static struct core_gate_slot own = { .in = "a thread of the core" };

_Thread_local struct core_gate_slot *core_gate_own = &nobody;
atomic_uint core_gate_state;

static struct core_gate_slot *_Atomic slots;
static atomic_bool uncounted;               /* a thread has no place */
static pthread_key_t thread_key;
static bool key_made;

/* ---- places ---- */

static struct core_gate_slot *slot_take(void)
{
    int number = (int)gettid();
    for (struct core_gate_slot *slot = atomic_load(&slots); slot; slot = slot->next) {
        int none = 0;
        if (!atomic_load(&slot->thread) && atomic_compare_exchange_strong(&slot->thread, &none, number))
            return slot;
    }
    struct core_gate_slot *slot = aligned_alloc(_Alignof(struct core_gate_slot), sizeof *slot);
    if (!slot)
        return NULL;
    memset(slot, 0, sizeof *slot);
    atomic_store(&slot->thread, number);
    slot->next = atomic_load(&slots);
    while (!atomic_compare_exchange_weak(&slots, &slot->next, slot))
        ;
    return slot;
}

static void slot_give(struct core_gate_slot *slot)
{
    atomic_store(&slot->in, NULL);
    atomic_store(&slot->stream, 0);
    atomic_store(&slot->waits, false);
    atomic_store(&slot->thread, 0);
}

static void thread_ended(void *slot)
{
    core_gate_own = &nobody;
    slot_give(slot);
}

const char *core_gate_slow(const char *name)
{
    if (core_gate_own != &nobody)
        return atomic_load_explicit(&core_gate_own->in, memory_order_relaxed);
    struct core_gate_slot *slot = key_made ? slot_take() : NULL;
    if (slot && pthread_setspecific(thread_key, slot)) {
        slot_give(slot);
        slot = NULL;
    }
    if (!slot) {
        atomic_store(&uncounted, true);
        return name;
    }
    core_gate_own = slot;
    return core_gate_enter(name);
}

void core_gate_wait(struct core_gate_slot *slot, const char *name)
{
    int error = errno;
    for (;;) {
        /* seq_cst, both: this takes the place of membarrier */
        atomic_store(&slot->in, name);
        unsigned now = atomic_load(&core_gate_state);
        if (!(now & CORE_GATE_SHUT))
            break;
        atomic_store(&slot->in, NULL);
        atomic_store(&slot->waits, true);
        syscall(SYS_futex, &core_gate_state, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
        atomic_store(&slot->waits, false);
    }
    errno = error;
}

void gate_pass(void)
{
    core_gate_own = &own;
}

void gate_note_stream(uint64_t stream)
{
    struct core_gate_slot *slot = core_gate_own;
    if (slot != &nobody && slot != &own)
        atomic_store_explicit(&slot->stream, stream, memory_order_relaxed);
}

unsigned core_gate_waiting(void)
{
    unsigned count = 0;
    for (struct core_gate_slot *slot = atomic_load(&slots); slot; slot = slot->next)
        count += atomic_load(&slot->waits);
    return count;
}

/* ---- shutting it ---- */

static bool every_thread_passes_a_barrier(void)
{
    if (atomic_load(&core_gate_state) & CORE_GATE_FENCED)
        return true;
    return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) &&
           !syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
}

/* Waits until the thread is out. False: it is not, and the time is over. */
static bool comes_out(struct core_gate_slot *slot, uint64_t until, struct core_gate_inside *inside)
{
    for (long pause = LOOK_NS;; pause = pause < LOOK_MOST_NS ? 2 * pause : pause) {
        const char *in = atomic_load(&slot->in);
        if (!in)
            return true;
        if (clock_now() >= until) {
            *inside = (struct core_gate_inside){ atomic_load(&slot->thread), in, atomic_load(&slot->stream) };
            return false;
        }
        nanosleep(&(struct timespec){ 0, pause }, NULL);
    }
}

int core_gate_close(uint64_t limit, struct core_gate_inside *inside)
{
    CANCEL_OFF;
    const struct core_gate_slot *mine = core_gate_own;
    *inside = (struct core_gate_inside){ 0 };
    if (mine != &nobody && mine != &own && atomic_load(&mine->in)) {
        *inside = (struct core_gate_inside){ gettid(), atomic_load(&mine->in), 0 };
        return CORE_INVALID_VALUE;
    }
    if (atomic_load(&uncounted))
        return CORE_NOT_SUPPORTED;
    if (atomic_fetch_or(&core_gate_state, CORE_GATE_SHUT) & CORE_GATE_SHUT)
        return CORE_SYSTEM_NOT_READY;
    int code = every_thread_passes_a_barrier() ? CORE_OK : CORE_NOT_SUPPORTED;
    uint64_t until = clock_now() + limit;
    for (struct core_gate_slot *slot = atomic_load(&slots); slot && !code; slot = slot->next)
        if (!comes_out(slot, until, inside))
            code = CORE_NOT_READY;
    if (!code && atomic_load(&uncounted))   /* since we looked */
        code = CORE_NOT_SUPPORTED;
    if (code)
        core_gate_open();
    return code;
}

void core_gate_open(void)
{
    atomic_fetch_and(&core_gate_state, ~(unsigned)CORE_GATE_SHUT);
    syscall(SYS_futex, &core_gate_state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- the process ---- */

static void in_child(void)
{
    struct core_gate_slot *mine = core_gate_own;
    atomic_fetch_and(&core_gate_state, ~(unsigned)CORE_GATE_SHUT);
    for (struct core_gate_slot *slot = atomic_load(&slots); slot; slot = slot->next)
        if (slot != mine)
            slot_give(slot);
    if (mine != &nobody && mine != &own)
        atomic_store(&mine->thread, (int)gettid());
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
    pthread_atfork(NULL, NULL, in_child);
}
