/*
 * by_signal.c: pages are watched with mprotect and SIGSEGV.
 *
 * The program may have a handler of its own, and may set one at any time. It gets what is not ours, as the kernel would
 * have called it. Whether ours is still in its place is looked at when managed memory is allocated, before work that
 * may use pages which the program has open, and when the program waits for work. A program that sets a handler after
 * that, and then touches managed memory, gets that fault itself; docs/managed-memory.md says so.
 *
 * The handler runs on the program's alternate stack if the program wanted that for its own: it may be small, and ours
 * does nothing but wait.
 */
#include <linux/futex.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "cpu/client/core/stream/managed.h"
#include "room.h"
#include "spans.h"

enum { WRITES = 2 };                          /* of the error code that the processor gives with a page fault */
enum answer { ANSWER_NONE, ANSWER_OURS, ANSWER_NOT };

/* What the program had in our place. Replaced, never changed; earlier ones may still be read. */
static struct sigaction *_Atomic chained;

/* ---- the handler ---- */

struct waiting { struct fault fault; _Atomic uint32_t answer; };

static void done(struct fault *f, bool ours)
{
    struct waiting *w = (struct waiting *)f;
    _Atomic uint32_t *answer = &w->answer;
    atomic_store(answer, ours ? ANSWER_OURS : ANSWER_NOT);
    /* The thread may have gone on by now; then the wake-up reaches no thread. */
    syscall(SYS_futex, answer, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static bool ask(uint64_t address, bool writes)
{
    struct waiting w = { .fault = { .address = address, .writes = writes, .thread = (pid_t)syscall(SYS_gettid),
                                    .done = done } };
    fault_put(&w.fault);
    uint32_t answer;
    while (!(answer = atomic_load(&w.answer)))
        syscall(SYS_futex, &w.answer, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, ANSWER_NONE, NULL, NULL, 0);
    return answer == ANSWER_OURS;
}

/* As the kernel would have called it. */
static void call(const struct sigaction *own, int number, siginfo_t *info, void *context)
{
    sigset_t mask = own->sa_mask, before;
    if (!(own->sa_flags & SA_NODEFER))
        sigaddset(&mask, number);
    pthread_sigmask(SIG_BLOCK, &mask, &before);
    if (own->sa_flags & SA_NODEFER) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, number);
        pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    }
    if (own->sa_flags & SA_SIGINFO)
        own->sa_sigaction(number, info, context);
    else
        own->sa_handler(number);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void hand_on(int number, siginfo_t *info, void *context)
{
    struct sigaction own = *atomic_load(&chained), none = { .sa_handler = SIG_DFL };
    bool handled = (own.sa_flags & SA_SIGINFO) || (own.sa_handler != SIG_DFL && own.sa_handler != SIG_IGN);
    if (handled && !(own.sa_flags & (int)SA_RESETHAND)) {
        call(&own, number, info, context);
        return;
    }
    if (!handled && own.sa_handler == SIG_IGN && info->si_code <= 0)
        return;                               /* somebody sent it */
    /* The access is made again when this returns, and the system does what it does without us. What was sent is sent
       again. */
    sigaction(number, &none, NULL);
    if (handled)
        call(&own, number, info, context);
    else if (info->si_code <= 0)
        raise(number);
}

static void handler(int number, siginfo_t *info, void *context)
{
    int error = errno;
    uint64_t address = (uint64_t)(uintptr_t)info->si_addr;
    bool writes = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & WRITES;
    bool possible = info->si_code > 0 && fault_possible(address);
    if (possible && faults_forked()) {
        /* A child of the program has what the program had here when it forked, or zeros. */
        possible = mprotect((void *)(uintptr_t)(address & ~(uint64_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE) == 0;
        if (possible) {
            errno = error;
            return;
        }
    }
    if (possible && ask(address, writes)) {
        errno = error;
        return;
    }
    errno = error;
    hand_on(number, info, context);
}

static bool take_place(void)
{
    struct sigaction now;
    if (sigaction(SIGSEGV, NULL, &now) != 0)
        return false;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler)
        return true;
    struct sigaction *own = malloc(sizeof *own);
    if (!own)
        return false;
    *own = now;
    atomic_store(&chained, own);
    struct sigaction ours = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART };
    ours.sa_flags |= now.sa_flags & SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    return sigaction(SIGSEGV, &ours, NULL) == 0;
}

/* ---- the way ---- */

static void *at(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

static void signal_look_after(void)
{
    take_place();
}

static bool signal_open(void)
{
    atomic_store(&managed_wants_to_know, true);
    return faults_open(-1, NULL) && take_place();
}

static bool signal_begin(uint64_t base, size_t size)
{
    (void)base, (void)size;
    return true;
}

static void signal_admit(uint64_t base, size_t size)
{
    (void)base, (void)size;
}

/* The addresses stay reserved. */
static void signal_hide(uint64_t base, size_t size)
{
    mmap(at(base), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void *signal_stage(size_t size)
{
    void *staged = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return staged == MAP_FAILED ? NULL : staged;
}

static void signal_unstage(void *staged, size_t size)
{
    munmap(staged, size);
}

static bool signal_protect(uint64_t base, size_t size, bool writable)
{
    return mprotect(at(base), size, writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0;
}

static bool signal_reveal(uint64_t base, void *staged, size_t size, bool writable)
{
    if (!writable && mprotect(staged, size, PROT_READ) != 0)
        return false;
    return mremap(staged, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at(base)) == at(base);
}

static bool signal_zero(uint64_t base, size_t size)
{
    return mprotect(at(base), size, PROT_READ | PROT_WRITE) == 0;
}

const struct pages_way pages_by_signal = {
    .name = "signal",
    .open = signal_open,
    .begin = signal_begin,
    .end = signal_hide,
    .admit = signal_admit,
    .look_after = signal_look_after,
    .stage = signal_stage,
    .unstage = signal_unstage,
    .reveal = signal_reveal,
    .zero = signal_zero,
    .protect = signal_protect,
    .hide = signal_hide,
};
