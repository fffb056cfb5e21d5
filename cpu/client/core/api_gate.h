/*
 * api_gate.h: the gate that a thread of the program passes at each entry of the Runtime API and the Driver API. While
 * it is shut, calls that begin wait there, and those that had begun come to their end: so the session comes to rest.
 *
 * The entries pass it, and not the functions of the core: launching a graph, say, is many calls of the core under the
 * graph's locks, and a thread that rested between two of them would hold those locks. cpu/api writes the gate into each
 * entry that it generates; export_tables.c has it by hand.
 *
 * Both sides must not miss each other: a thread stores its name and then reads whether the gate is shut; who shuts
 * it stores that and then reads the names. The thread pays for no fence between its two steps. The other side does
 * (gate.c).
 */
#ifndef FLYT_CLIENT_CORE_API_GATE_H
#define FLYT_CLIENT_CORE_API_GATE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "cpu/client/core/api_errors.h"

/* What a thread has of the gate. Only the thread itself writes `in`. */
struct core_gate_thread {
    const char *_Atomic in;                 /* the entry that the program called; NULL: the thread is in none */
    atomic_uint shut;                       /* not 0: the short way is shut */
};
extern CORE_API _Thread_local struct core_gate_thread core_gate_own __attribute__((tls_model("initial-exec")));

/* What each thread's `shut` should be. SHUT: while the session rests. FENCED: always, where there is no membarrier. */
enum { CORE_GATE_SHUT = 1, CORE_GATE_FENCED = 2 };
extern CORE_API atomic_uint core_gate_state;

/* A thread that passes for the first time, or again while it is inside (a callback of the program), or whose short way
   is shut. */
CORE_API const char *core_gate_slow(const char *name);
CORE_API void core_gate_slow_out(const char *outer);

#define CORE_GATE_INLINE static inline __attribute__((always_inline))

/* The short way in: no function is called, so an entry need not save its parameters. name: of the entry; it lives as
   long as the process. True: the thread is inside, up to core_gate_out. False: it is not; CORE_GATE is the long way. */
CORE_GATE_INLINE bool core_gate_in(const char *name)
{
    if (__builtin_expect(atomic_load_explicit(&core_gate_own.in, memory_order_relaxed) != NULL, 0))
        return false;
    __asm__("" : "+r"(name));                 /* a register for this alone: the compiler would keep it over the call */
    atomic_store_explicit(&core_gate_own.in, name, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    /* acquire: after the gate has been open again, the thread sees what was changed while it was shut */
    if (__builtin_expect(!atomic_load_explicit(&core_gate_own.shut, memory_order_acquire), 1))
        return true;
    atomic_store_explicit(&core_gate_own.in, NULL, memory_order_release);
    return false;
}

CORE_GATE_INLINE void core_gate_out(void)
{
    atomic_store_explicit(&core_gate_own.in, NULL, memory_order_release);
}

/* The long way. Returns what core_gate_leave takes: NULL where the thread was outside. */
static inline const char *core_gate_enter(const char *name)
{
    return core_gate_in(name) ? NULL : core_gate_slow(name);
}

static inline void core_gate_leave(const char *const *outer)
{
    if (__builtin_expect(!*outer, 1))
        core_gate_out();
    else
        core_gate_slow_out(*outer);
}

/* A declaration: the thread is inside from here to the end of the block, however that is left, except by longjmp. */
#define CORE_GATE(name) CORE_GATE_AT(name, __LINE__)
#define CORE_GATE_AT(name, line) CORE_GATE_IN(name, line)
#define CORE_GATE_IN(name, line) \
    const char *const gate_outer_##line __attribute__((cleanup(core_gate_leave), unused)) = core_gate_enter(name)

/* ---- shutting it (gate.c) ---- */

/* A thread that did not come out. */
struct core_gate_inside {
    pid_t       thread;
    const char *call;
    uint64_t    stream;                     /* that it waits for; 0: not known */
};

/* Shuts the gate and waits until no thread is inside. 0: so it is, until core_gate_open. 600: after `limit`
   nanoseconds a thread is still inside: *inside says which, and the gate is open again. 1: the calling thread is inside
   itself, and waits for nobody. 802: it is shut already. 801: the system forbids what this takes (membarrier), or there
   is no memory for each thread's place. */
CORE_API int core_gate_close(uint64_t limit, struct core_gate_inside *inside);
CORE_API void core_gate_open(void);
/* How many threads wait at the gate. For tests. */
CORE_API unsigned core_gate_waiting(void);

#endif
