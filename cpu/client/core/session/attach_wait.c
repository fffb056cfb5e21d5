/* attach_wait.c: see attach_wait.h. The lock is held for moments only: never while something is printed or waited
   for. */
#include "cpu/client/core/session/attach_wait.h"

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
    enum attach_wait_wish wish;
    double seconds; /* of FLYT_WAIT */
} waiting = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void read_wish(void)
{
    const char *text = env_get("FLYT_WAIT");
    char *end;
    waiting.wish = ATTACH_WAIT_DEFAULT;
    waiting.seconds = 0;
    if (!text || !*text)
        return;
    double seconds = strtod(text, &end);
    /* The words are those of placement.wait, vcuda-client.wait and `flytctl vm set --wait`; no and yes are older. */
    if (!strcmp(text, "fail") || !strcmp(text, "no") || !strcmp(text, "0")) {
        waiting.wish = ATTACH_WAIT_NO;
    } else if (!strcmp(text, "in-line") || !strcmp(text, "yes")) {
        waiting.wish = ATTACH_WAIT_YES;
    } else if (!*end && seconds > 0 && seconds < 4e6) {
        waiting.wish = ATTACH_WAIT_YES;
        waiting.seconds = seconds;
    } else {
        log_warning("FLYT_WAIT=%s is neither in-line, fail nor a number of seconds: it is ignored", text);
    }
}

/* ---- the thread ---- */

/* Prints the stage. Releases the lock meanwhile. */
static void tell(void)
{
    FLYT_ASSERT_HELD(&waiting.lock);
    char stage[STAGE_SIZE];
    bool hint = waiting.lines++ == 0 && !waiting.deadline;
    memcpy(stage, waiting.stage, sizeof stage);
    waiting.told = true;
    waiting.told_at = clock_now();
    pthread_mutex_unlock(&waiting.lock);
    log_warning("waiting for %s%s", stage, hint ? " (FLYT_WAIT=SECONDS limits the wait)" : "");
    pthread_mutex_lock(&waiting.lock);
}

/* Releases the lock meanwhile. */
static void give_up(void)
{
    FLYT_ASSERT_HELD(&waiting.lock);
    rpc_client *watched = waiting.watched;
    waiting.over = true;
    pthread_mutex_unlock(&waiting.lock);
    if (watched)
        rpc_client_shutdown(watched); /* clients are kept until the process ends */
    pthread_mutex_lock(&waiting.lock);
}

static void *watch(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&waiting.lock);
    while (!waiting.ending) {
        uint64_t now = clock_now(), next = UINT64_MAX;
        if (waiting.deadline && !waiting.over && now >= waiting.deadline) {
            give_up();
            continue;
        }
        if (!waiting.told && now >= waiting.tell_at) {
            tell();
            continue;
        }
        if (waiting.deadline && !waiting.over)
            next = waiting.deadline;
        if (!waiting.told && waiting.tell_at < next)
            next = waiting.tell_at;
        if (next == UINT64_MAX) {
            pthread_cond_wait(&waiting.changed, &waiting.lock);
        } else {
            struct timespec until = clock_timespec(next);
            pthread_cond_clockwait(&waiting.changed, &waiting.lock, CLOCK_MONOTONIC, &until);
        }
    }
    pthread_mutex_unlock(&waiting.lock);
    return NULL;
}

/* Without the thread the user learns less, and FLYT_WAIT limits only what has a limit of its own. */
static void start_thread(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* With the usual stack: libc takes the thread-local memory of all libraries out of it, and NVIDIA's have 100 KB. */
    int error = pthread_create(&waiting.thread, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    waiting.started = error == 0;
    if (error)
        log_debug("no thread that tells what is waited for: %s", strerror(error));
}

/* ---- the attaching thread ---- */

static uint64_t deadline_in(double ms)
{
    return clock_now() + (uint64_t)(ms * CLOCK_NS_PER_MS) + SLACK_MS * CLOCK_NS_PER_MS;
}

void attach_wait_begin(void)
{
    uint64_t now = clock_now();
    read_wish();
    waiting.ending = waiting.over = waiting.blamed = false;
    waiting.told = true;
    waiting.lines = 0;
    waiting.watched = NULL;
    waiting.told_at = now;
    waiting.deadline = waiting.seconds > 0 ? deadline_in(waiting.seconds * 1000) : 0;
    start_thread();
}

void attach_wait_end(int code)
{
    if (waiting.started) {
        pthread_mutex_lock(&waiting.lock);
        waiting.ending = true;
        pthread_cond_signal(&waiting.changed);
        pthread_mutex_unlock(&waiting.lock);
        pthread_join(waiting.thread, NULL);
        waiting.started = false;
    }
    if (code && waiting.over && !waiting.blamed)
        attach_wait_blame();
}

enum attach_wait_wish attach_wait_wish(void) { return waiting.wish; }

unsigned attach_wait_left(void)
{
    uint64_t now = clock_now(), most = waiting.deadline - SLACK_MS * CLOCK_NS_PER_MS;
    if (!waiting.deadline)
        return 0;
    return now < most ? (unsigned)((most - now) / CLOCK_NS_PER_MS) + 1 : 1;
}

int attach_wait_ms(int most)
{
    unsigned left = attach_wait_left();
    return left && left < (unsigned)most ? (int)left : most;
}

void attach_wait_stage(const char *format, ...)
{
    char stage[STAGE_SIZE];
    va_list list;
    va_start(list, format);
    vsnprintf(stage, sizeof stage, format, list);
    va_end(list);
    pthread_mutex_lock(&waiting.lock);
    if (strcmp(stage, waiting.stage) != 0) {
        uint64_t soon = clock_now() + STAGE_MS * CLOCK_NS_PER_MS, first = waiting.told_at + TELL_MS * CLOCK_NS_PER_MS;
        memcpy(waiting.stage, stage, sizeof stage);
        waiting.told = false;
        waiting.tell_at = soon > first ? soon : first;
        pthread_cond_signal(&waiting.changed);
    }
    pthread_mutex_unlock(&waiting.lock);
}

void attach_wait_limit(unsigned ms)
{
    if (waiting.seconds > 0)
        return;
    pthread_mutex_lock(&waiting.lock);
    waiting.deadline = ms ? deadline_in(ms) : 0;
    pthread_cond_signal(&waiting.changed);
    pthread_mutex_unlock(&waiting.lock);
}

void attach_wait_watch(rpc_client *client)
{
    pthread_mutex_lock(&waiting.lock);
    bool late = waiting.over && client;
    waiting.watched = client;
    pthread_mutex_unlock(&waiting.lock);
    if (late)
        rpc_client_shutdown(client);
}

bool attach_wait_over(void) { return attach_wait_left() == 1; }

bool attach_wait_blame(void)
{
    if (!attach_wait_over())
        return false;
    waiting.blamed = true;
    if (waiting.seconds > 0)
        log_error("no GPU for this program: the %g s of FLYT_WAIT are over, and it was still waiting for %s",
                  waiting.seconds, waiting.stage);
    else
        log_error("no GPU for this program: FLYT_WAIT=fail, and it would have to wait for %s", waiting.stage);
    return true;
}
