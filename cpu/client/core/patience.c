/* patience.c: see patience.h. The lock is held for moments only: never while something is printed or waited for. */
#include "cpu/client/core/patience.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/lock.h"
#include "cpu/common/log.h"

enum {
    TELL_MS = 2000, /* after so long the user hears, and at most so often */
    STAGE_MS = 300, /* a stage that is over sooner is not worth a line */
    SLACK_MS = 250, /* the daemons know the limit too; their own refusal says more, and should come first */
    STAGE_SIZE = 1024
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, ending;
    bool told; /* of this stage; true while there is none */
    bool over, blamed;
    unsigned lines;
    char stage[STAGE_SIZE];
    uint64_t tell_at, told_at; /* ns; told_at: when the last line was printed, or the beginning */
    uint64_t deadline;         /* ns; 0: none */
    rpc_client *watched;
    enum patience_wish wish;
    double seconds; /* of FLYT_WAIT */
} patience = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void read_wish(void)
{
    const char *text = env_get("FLYT_WAIT");
    char *end;
    patience.wish = PATIENCE_DEFAULT;
    patience.seconds = 0;
    if (!text || !*text)
        return;
    double seconds = strtod(text, &end);
    /* The words are those of placement.wait, vcuda-client.wait and `flytctl vm set --wait`; no and yes are older. */
    if (!strcmp(text, "fail") || !strcmp(text, "no") || !strcmp(text, "0")) {
        patience.wish = PATIENCE_NO;
    } else if (!strcmp(text, "in-line") || !strcmp(text, "yes")) {
        patience.wish = PATIENCE_YES;
    } else if (!*end && seconds > 0 && seconds < 4e6) {
        patience.wish = PATIENCE_YES;
        patience.seconds = seconds;
    } else {
        log_warning("FLYT_WAIT=%s is neither in-line, fail nor a number of seconds: it is ignored", text);
    }
}

/* ---- the thread ---- */

/* Prints the stage. Releases the lock meanwhile. */
static void tell(void)
{
    FLYT_ASSERT_HELD(&patience.lock);
    char stage[STAGE_SIZE];
    bool hint = patience.lines++ == 0 && !patience.deadline;
    memcpy(stage, patience.stage, sizeof stage);
    patience.told = true;
    patience.told_at = clock_now();
    pthread_mutex_unlock(&patience.lock);
    log_warning("waiting for %s%s", stage, hint ? " (FLYT_WAIT=SECONDS limits the wait)" : "");
    pthread_mutex_lock(&patience.lock);
}

/* Releases the lock meanwhile. */
static void give_up(void)
{
    FLYT_ASSERT_HELD(&patience.lock);
    rpc_client *watched = patience.watched;
    patience.over = true;
    pthread_mutex_unlock(&patience.lock);
    if (watched)
        rpc_client_shutdown(watched); /* clients are kept until the process ends */
    pthread_mutex_lock(&patience.lock);
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&patience.lock);
    while (!patience.ending) {
        uint64_t now = clock_now(), next = UINT64_MAX;
        if (patience.deadline && !patience.over && now >= patience.deadline) {
            give_up();
            continue;
        }
        if (!patience.told && now >= patience.tell_at) {
            tell();
            continue;
        }
        if (patience.deadline && !patience.over)
            next = patience.deadline;
        if (!patience.told && patience.tell_at < next)
            next = patience.tell_at;
        if (next == UINT64_MAX) {
            pthread_cond_wait(&patience.changed, &patience.lock);
        } else {
            struct timespec until = clock_timespec(next);
            pthread_cond_clockwait(&patience.changed, &patience.lock, CLOCK_MONOTONIC, &until);
        }
    }
    pthread_mutex_unlock(&patience.lock);
    return NULL;
}

/* Without the thread the user is told less, and FLYT_WAIT limits only what has a limit of its own. */
static void start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* With the usual stack: libc takes the thread-local memory of all libraries out of it, and NVIDIA's have 100 KB. */
    int error = pthread_create(&patience.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    patience.started = error == 0;
    if (error)
        log_debug("no thread that tells what is waited for: %s", strerror(error));
}

/* ---- the attaching thread ---- */

static uint64_t deadline_in(double ms)
{
    return clock_now() + (uint64_t)(ms * CLOCK_NS_PER_MS) + SLACK_MS * CLOCK_NS_PER_MS;
}

void patience_begin(void)
{
    uint64_t now = clock_now();
    read_wish();
    patience.ending = patience.over = patience.blamed = false;
    patience.told = true;
    patience.lines = 0;
    patience.watched = NULL;
    patience.told_at = now;
    patience.deadline = patience.seconds > 0 ? deadline_in(patience.seconds * 1000) : 0;
    start_thread();
}

void patience_end(int code)
{
    if (patience.started) {
        pthread_mutex_lock(&patience.lock);
        patience.ending = true;
        pthread_cond_signal(&patience.changed);
        pthread_mutex_unlock(&patience.lock);
        pthread_join(patience.thread, NULL);
        patience.started = false;
    }
    if (code && patience.over && !patience.blamed)
        patience_blame();
}

enum patience_wish patience_wish(void) { return patience.wish; }

unsigned patience_left(void)
{
    uint64_t now = clock_now(), most = patience.deadline - SLACK_MS * CLOCK_NS_PER_MS;
    if (!patience.deadline)
        return 0;
    return now < most ? (unsigned)((most - now) / CLOCK_NS_PER_MS) + 1 : 1;
}

int patience_ms(int most)
{
    unsigned left = patience_left();
    return left && left < (unsigned)most ? (int)left : most;
}

void patience_stage(const char *format, ...)
{
    char stage[STAGE_SIZE];
    va_list list;
    va_start(list, format);
    vsnprintf(stage, sizeof stage, format, list);
    va_end(list);
    pthread_mutex_lock(&patience.lock);
    if (strcmp(stage, patience.stage) != 0) {
        uint64_t soon = clock_now() + STAGE_MS * CLOCK_NS_PER_MS, first = patience.told_at + TELL_MS * CLOCK_NS_PER_MS;
        memcpy(patience.stage, stage, sizeof stage);
        patience.told = false;
        patience.tell_at = soon > first ? soon : first;
        pthread_cond_signal(&patience.changed);
    }
    pthread_mutex_unlock(&patience.lock);
}

void patience_limit(unsigned ms)
{
    if (patience.seconds > 0)
        return;
    pthread_mutex_lock(&patience.lock);
    patience.deadline = ms ? deadline_in(ms) : 0;
    pthread_cond_signal(&patience.changed);
    pthread_mutex_unlock(&patience.lock);
}

void patience_watch(rpc_client *client)
{
    pthread_mutex_lock(&patience.lock);
    bool late = patience.over && client;
    patience.watched = client;
    pthread_mutex_unlock(&patience.lock);
    if (late)
        rpc_client_shutdown(client);
}

bool patience_over(void) { return patience_left() == 1; }

bool patience_blame(void)
{
    if (!patience_over())
        return false;
    patience.blamed = true;
    if (patience.seconds > 0)
        log_error("no GPU for this program: the %g s of FLYT_WAIT are over, and it was still waiting for %s",
                  patience.seconds, patience.stage);
    else
        log_error("no GPU for this program: FLYT_WAIT=fail, and it would have to wait for %s", patience.stage);
    return true;
}
