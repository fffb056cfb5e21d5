/*
 * fault.c: a program's access to a page that it does not have.
 *
 * The thread that touched the page stands, in a signal handler or in the kernel. It may hold locks of the program or of
 * the C library, its stack may be small. So a thread of our own, the server of faults, does everything: fetching a
 * page is a call to the GPU server. It never waits for work of the program's, since a host function, for which that
 * work may wait, may itself need a page. Where the device may still use a page, a second thread waits for that work,
 * and gives the fault back afterwards.
 *
 * Neither thread prints what kernels printed: the thread that stands may hold the lock of stdout.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cpu/client/core/stream/context.h"
#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"
#include "cpu/common/fd.h"
#include "cpu/common/log.h"
#include "room.h"
#include "spans.h"

enum { RANGES_MOST = 64 };

static struct {
    struct fault *_Atomic first;      /* put by any thread, newest first */
    int   wake;                       /* an eventfd: there are some */
    int   descriptor;
    void (*readable)(void);
    atomic_bool forked;
} server = { .wake = -1, .descriptor = -1 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  some;
    struct fault   *first;
} unsettled = { .lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER };

/* ---- which addresses are possible ---- */

/* A thread of the program writes a page, and another thread, which gives work to the device, takes the page away and
   reads it. The page's protection orders the two: it is closed to writing before it is read (move_close), and who
   writes later waits. ThreadSanitizer knows nothing of page tables, and would take each such page for a race. */
#ifdef __SANITIZE_THREAD__
void AnnotateBenignRaceSized(const char *file, int line, const volatile void *at, size_t size, const char *why);
static void ordered_by_protection(uint64_t base, size_t size)
{
    AnnotateBenignRaceSized(__FILE__, __LINE__, (const volatile void *)(uintptr_t)base, size, "page protection");
}
#else
static void ordered_by_protection(uint64_t base, size_t size) { (void)base, (void)size; }
#endif

static struct { atomic_uint_fast64_t base, end; } ranges[RANGES_MOST];
static atomic_uint ranges_count;

/* Under the lock of the pages. When there are too many, the last one grows over what lies between: it is a quick test
   only. */
void fault_range(uint64_t base, size_t size)
{
    unsigned count = atomic_load(&ranges_count);
    ordered_by_protection(base, size);
    if (fault_possible(base) && fault_possible(base + size - 1))
        return;
    if (count < RANGES_MOST) {
        atomic_store(&ranges[count].base, base);
        atomic_store(&ranges[count].end, base + size);
        atomic_store(&ranges_count, count + 1);
        return;
    }
    if (base < atomic_load(&ranges[count - 1].base))
        atomic_store(&ranges[count - 1].base, base);
    if (base + size > atomic_load(&ranges[count - 1].end))
        atomic_store(&ranges[count - 1].end, base + size);
}

bool fault_possible(uint64_t address)
{
    for (unsigned i = 0, count = atomic_load(&ranges_count); i < count; i++)
        if (address >= atomic_load(&ranges[i].base) && address < atomic_load(&ranges[i].end))
            return true;
    return false;
}

/* ---- serving ---- */

void fault_put(struct fault *f)
{
    struct fault *first = atomic_load(&server.first);
    do
        f->next = first;
    while (!atomic_compare_exchange_weak(&server.first, &first, f));
    uint64_t one = 1;
    while (write(server.wake, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static void wait_for(struct fault *f)
{
    pthread_mutex_lock(&unsettled.lock);
    f->next = unsettled.first;
    unsettled.first = f;
    pthread_cond_signal(&unsettled.some);
    pthread_mutex_unlock(&unsettled.lock);
}

static void say_lost(int code)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&told))
        log_error("managed memory could not be fetched from the GPU server (%d): the program reads old values or "
                  "zeros in place of what the GPU wrote", code);
}

/* Opens the page. False: the fault waits for work first. */
static bool serve(struct fault *f, bool *ours)
{
    struct span *s = span_find(f->address);
    size_t page = s ? (f->address - span_base(s)) / PAGE : 0;
    uint8_t state = s ? s->state[page] : PAGE_NOBODYS;
    *ours = state != PAGE_NOBODYS;
    if (state == PAGE_NOBODYS || state == PAGE_DIRTY || (state == PAGE_CLEAN && !f->writes))
        return true;
    bool in_function = f->thread == host_function_thread();
    if (state == PAGE_DEVICE && !f->settled && !in_function && !work_ended(s->scope[page])) {
        f->opened = s->opened[page];
        return false;
    }
    /* The page has been open meanwhile, for another access: the thread may have gone on, and have launched work that
       writes it. If it still stands, it comes again. */
    if (state == PAGE_DEVICE && f->settled && f->opened != s->opened[page])
        return true;
    int code = move_open(s, page, f->writes, in_function);
    if (code == CORE_OUT_OF_MEMORY)
        *ours = false;
    else if (code)
        say_lost(code);
    return true;
}

static void serve_all(void)
{
    struct fault *f = atomic_exchange(&server.first, NULL), *next;
    pthread_mutex_lock(&spans_lock);
    for (; f; f = next) {
        bool ours;
        next = f->next;
        if (serve(f, &ours))
            f->done(f, ours);
        else
            wait_for(f);
    }
    pthread_mutex_unlock(&spans_lock);
}

static void thread_begins(void)
{
    cancel_state_off();
    wire_keep_quiet();
    throttle_thread();
}

static void *server_run(void *unused)
{
    (void)unused;
    thread_begins();
    struct pollfd fds[2] = { { .fd = server.wake, .events = POLLIN }, { .fd = server.descriptor, .events = POLLIN } };
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        uint64_t number;
        if (fds[0].revents && read(server.wake, &number, sizeof number) < 0 && errno != EAGAIN && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            server.readable();
        serve_all();
    }
}

/* Waits for all work: what is known of single streams would do, but a program that keeps the rules never comes here. */
static void *waiter_run(void *unused)
{
    (void)unused;
    thread_begins();
    for (;;) {
        pthread_mutex_lock(&unsettled.lock);
        while (!unsettled.first)
            pthread_cond_wait(&unsettled.some, &unsettled.lock);
        struct fault *f = unsettled.first, *next;
        unsettled.first = NULL;
        pthread_mutex_unlock(&unsettled.lock);
        for (core_context *c = context_next(NULL); c; c = context_next(c))
            context_settle(c);                /* what fails is every later call's error */
        for (; f; f = next) {
            next = f->next;
            f->settled = true;
            fault_put(f);
        }
    }
    return NULL;
}

static bool start(void *(*run)(void *))
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (good)
        pthread_detach(thread);
    return good;
}

bool faults_open(int descriptor, void (*readable)(void))
{
    server.wake = fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    server.descriptor = descriptor;
    server.readable = readable;
    return server.wake >= 0 && start(server_run) && start(waiter_run);
}

void faults_become_child(void)
{
    atomic_store(&server.forked, true);
}

bool faults_forked(void)
{
    return atomic_load(&server.forked);
}
