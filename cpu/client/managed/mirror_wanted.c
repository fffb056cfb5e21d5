/*
 * mirror_wanted.c: a kernel waits for pinned memory that the server does not have. A thread of its own brings the
 * memory and says so: whoever hears of it reads the connection, and must not wait.
 *
 * The kernel comes behind all copies of its stream. Those whose bytes may still be on their way here have ended as far
 * as the server reported (cpu/server/mirror_wanted.c), so the thread waits for these, and for no others: a copy behind
 * the kernel waits for the kernel itself.
 *
 * As long as work is under way that uses pinned memory, the thread also sends now and then what the program has
 * changed, and fetches what kernels have changed. The other side may wait for that.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/client/core/stream/host_function.h"
#include "cpu/client/core/memory/memory.h"
#include "cpu/client/core/stream/pending.h"
#include "cpu/client/core/wire/state.h"
#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "mirrored.h"

struct wanted {
    struct wanted *next;
    struct client_session *session;   /* at whose server the kernel waits */
    flyt_id id;
    uint64_t address;
    bool writes;
    char kernel[FLYT_MAX_SHORT];
};

enum { REFRESH_LEAST_NS = 1000000, REFRESH_MOST_NS = 20000000, REFRESH_SHARE = 3 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t  some;
    struct wanted  *first, **last;
    bool            runs;
    atomic_bool     watching;         /* work is under way, as far as the thread knows */
} queue = { .lock = PTHREAD_MUTEX_INITIALIZER, .some = PTHREAD_COND_INITIALIZER };

/* What is no host memory fails as natively, without a word: the log of the server has the address. Where there is no
   window here, the error itself is explained (mirror_missed). */
static void explain(const struct wanted *w, int code)
{
    if (!mirror_any)
        return;
    struct core_range range;
    bool known = core_address_lookup(w->address, &range);
    const char *why = NULL;
    char text[160];
    if (known && range.kind == CORE_PINNED_MEMORY && mirror_holds(w->address)) {
        snprintf(text, sizeof text, "the GPU server has no room for its copy (error %d); start cricket-rpc-server "
                                    "with a larger --host-memory", code);
        why = text;
    } else if (known && range.kind == CORE_PINNED_MEMORY) {
        why = "over a network kernels reach only the first 64 GiB of it";
    } else if (known && range.kind == CORE_REGISTERED_MEMORY) {
        why = "over a network kernels reach registered memory only by the pointer that cudaHostGetDevicePointer gives, "
              "as the attribute canUseHostPointerForRegisteredMem says";
    } else if (mirror_inside(w->address)) {
        why = "it has been freed, or the address lies behind the end of an allocation";
    }
    const char *what = !known                                 ? "no memory, but lies among the pinned host memory"
                       : range.kind == CORE_REGISTERED_MEMORY ? "registered host memory"
                                                              : "pinned host memory";
    if (why)
        log_error("kernel %s %s address 0x%llx, which is %s of this program: %s. The kernel fails with error 700",
                  w->kernel, w->writes ? "writes to" : "reads", (unsigned long long)w->address, what, why);
}

static void serve(const struct wanted *w)
{
    uint64_t base, size;
    if (mirror_area(w->address, &base, &size)) {
        const struct host_rows place = { .address = (uint8_t *)(uintptr_t)base, .width = size, .rows = 1, .slices = 1 };
        pending_wait_done(&place);
    }
    int code = mirror_bring(w->session, w->address);
    if (code)
        explain(w, code);
    mirror_call_served(w->session, w->id, code);
}

/* Rarely where it costs much, and where nothing changes. How long until the next time; 0: no work is under way. */
static uint64_t refresh(uint64_t pause)
{
    uint64_t begun = clock_now();
    bool news;
    atomic_store(&queue.watching, false);     /* first: a launch that comes now says so again */
    if (!mirror_refresh(&news))
        return 0;
    atomic_store(&queue.watching, true);
    uint64_t took = (clock_now() - begun) * REFRESH_SHARE;
    pause = news ? REFRESH_LEAST_NS : pause + pause / 4;
    pause = pause < REFRESH_MOST_NS ? pause : REFRESH_MOST_NS;
    return pause > took ? pause : took;
}

/* Something that a kernel wants, or NULL: it is time to refresh. */
static struct wanted *next(uint64_t pause)
{
    struct timespec until = clock_timespec(clock_now() + pause);
    int late = 0;
    pthread_mutex_lock(&queue.lock);
    while (!queue.first && !late && (pause || !atomic_load(&queue.watching)))
        late = pause ? pthread_cond_clockwait(&queue.some, &queue.lock, CLOCK_MONOTONIC, &until)
                     : pthread_cond_wait(&queue.some, &queue.lock);
    struct wanted *w = queue.first;
    if (w)
        queue.first = w->next;
    pthread_mutex_unlock(&queue.lock);
    return w;
}

static void *run(void *unused)
{
    (void)unused;
    cancel_state_off();
    wire_keep_quiet();
    throttle_thread();
    for (uint64_t pause = 0;;) {
        struct wanted *w = next(pause);
        if (w)
            serve(w);
        else if (pause)
            pause = refresh(pause);
        if (!pause && atomic_load(&queue.watching))
            pause = REFRESH_LEAST_NS;
        free(w);
    }
    return NULL;
}

void mirror_watch(void)
{
    if (atomic_exchange(&queue.watching, true))
        return;
    pthread_mutex_lock(&queue.lock);
    pthread_cond_signal(&queue.some);
    pthread_mutex_unlock(&queue.lock);
}

int mirror_listen(void)
{
    pthread_t thread;
    pthread_mutex_lock(&queue.lock);
    bool runs = queue.runs;
    if (!runs) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        runs = queue.runs = pthread_create(&thread, NULL, run, NULL) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (runs)
            pthread_detach(thread);
    }
    pthread_mutex_unlock(&queue.lock);
    return runs ? CORE_OK : CORE_OUT_OF_MEMORY;
}

void mirror_wanted(struct client_session *session, const flyt_host_wanted *wanted)
{
    struct wanted *w = mirror_listen() ? NULL : calloc(1, sizeof *w);
    if (!w) {
        session_lost(session, "no memory is left to answer the server, whose kernel waits for pinned memory");
        return;
    }
    w->session = session;
    w->id = wanted->id;
    w->address = wanted->address;
    w->writes = wanted->writes;
    strncpy(w->kernel, wanted->kernel, sizeof w->kernel - 1);
    pthread_mutex_lock(&queue.lock);
    if (!queue.first)
        queue.last = &queue.first;
    *queue.last = w;
    queue.last = &w->next;
    pthread_cond_signal(&queue.some);
    pthread_mutex_unlock(&queue.lock);
}
