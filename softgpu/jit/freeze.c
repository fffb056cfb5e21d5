/* freeze.c: see freeze.h. */
#include "softgpu/jit/freeze.h"

#include <link.h>
#include <llvm-c/Analysis.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* Hardly any program uses it, and debuggers do not stop at it. */
enum { SIGNAL = SIGURG };

static struct {
    _Atomic pid_t thread, process;      /* thread 0: none may be stopped */
    uintptr_t from, until;            /* LLVM's code */
    _Atomic bool stopped;
    sem_t looked;
} freeze;

static int find_code(struct dl_phdr_info *object, size_t size, void *unused)
{
    const uintptr_t inside = (uintptr_t)LLVMVerifyModule;
    (void)size;
    (void)unused;
    for (unsigned k = 0; k < object->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[k];
        const uintptr_t from = object->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && inside - from < p->p_memsz) {
            freeze.from = from;
            freeze.until = from + p->p_memsz;
            return 1;
        }
    }
    return 0;
}

bool freeze_is_self(void) { return gettid() == atomic_load(&freeze.thread); }

/* Runs in the thread that compiles. */
static void look(int number, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    sigset_t all;
    (void)number;
    (void)info;
    if (!freeze_is_self())
        return;
    const bool stop = at >= freeze.from && at < freeze.until;
    atomic_store(&freeze.stopped, stop);
    sem_post(&freeze.looked);
    if (stop) {
        sigfillset(&all);
        for (;;)
            sigsuspend(&all);
    }
}

static void let_in(int how)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGNAL);
    pthread_sigmask(how, &only, NULL);
}

void freeze_enter(void)
{
    if (!freeze.until) {
        sem_init(&freeze.looked, 0, 0);
        dl_iterate_phdr(find_code, NULL);
    }
    atomic_store(&freeze.process, getpid());
    atomic_store(&freeze.thread, gettid());
    let_in(SIG_UNBLOCK);
}

void freeze_leave(void)
{
    let_in(SIG_BLOCK);
    atomic_store(&freeze.thread, 0);
}

bool freeze_try(void)
{
    const struct sigaction ours = { .sa_sigaction = look, .sa_flags = SA_SIGINFO | SA_RESTART };
    const struct timespec pause = { .tv_nsec = 100000 };
    const pid_t thread = atomic_load(&freeze.thread), process = getpid();
    struct sigaction before;
    if (!thread || atomic_load(&freeze.process) != process || sigaction(SIGNAL, &ours, &before))
        return false;
    bool looked = false;
    if (!tgkill(process, thread, SIGNAL))
        while (!(looked = !sem_trywait(&freeze.looked)) && atomic_load(&freeze.thread))
            nanosleep(&pause, NULL);
    sigaction(SIGNAL, &before, NULL);      /* the signal has come, or the thread lets it in no more */
    return looked && atomic_load(&freeze.stopped);
}
