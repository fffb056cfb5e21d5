/*
 * loop.c: the loop itself, its timers, signals and posts.
 *
 * Timers form a pairing heap of the owners' structs: starting one is O(1) and cannot fail, stopping and firing one is
 * O(log n). One uv_timer_t waits for the first of them.
 */
#include "control-managers/common/loop_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/common/log.h"

enum { LATE_MS = 1000 };

/* The clock stands still while a timer is overdue by more than LATE_MS: then this process did not run (it was stopped,
   its machine suspended or overloaded), and what came meanwhile has not been read. Without that, everybody else would
   be taken for silent, and every call for unanswered, the moment it runs again. */
uint64_t loop_now(struct loop *loop)
{
    uint64_t now = uv_hrtime() / 1000000 - loop->slept;
    if (loop->timers && now > loop->timers->due + LATE_MS) {
        loop->slept += now - loop->timers->due - LATE_MS;
        now = loop->timers->due + LATE_MS;
    }
    return now;
}

int64_t loop_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

uv_loop_t *loop_uv(struct loop *loop)
{
    return &loop->uv;
}

/* ---- timers ---- */

static struct loop_timer *meld(struct loop_timer *a, struct loop_timer *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->due < a->due) {
        struct loop_timer *other = a;
        a = b;
        b = other;
    }
    b->next = a->child;
    if (b->next)
        b->next->back = b;
    b->back = a;
    a->child = b;
    return a;
}

/* Two passes: pairs from the left, then all from the right. */
static struct loop_timer *meld_children(struct loop_timer *parent)
{
    struct loop_timer *pairs = NULL, *root = NULL, *at = parent->child;
    parent->child = NULL;
    while (at) {
        struct loop_timer *a = at, *b = at->next;
        at = b ? b->next : NULL;
        a->next = a->back = NULL;
        if (b)
            b->next = b->back = NULL;
        struct loop_timer *pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs) {
        struct loop_timer *next = pairs->next;
        pairs->next = pairs->back = NULL;
        root = meld(root, pairs);
        pairs = next;
    }
    return root;
}

static void take_out(struct loop *loop, struct loop_timer *timer)
{
    struct loop_timer *rest = meld_children(timer);
    if (timer == loop->timers) {
        loop->timers = rest;
    } else {
        if (timer->back->child == timer)
            timer->back->child = timer->next;
        else
            timer->back->next = timer->next;
        if (timer->next)
            timer->next->back = timer->back;
        loop->timers = meld(loop->timers, rest);
    }
    timer->next = timer->back = NULL;
    timer->loop = NULL;
}

static void fire(uv_timer_t *clock);

static void set_clock(struct loop *loop)
{
    if (loop->firing)
        return;
    if (!loop->timers) {
        uv_timer_stop(&loop->clock);
        return;
    }
    uint64_t now = loop_now(loop);
    uv_update_time(&loop->uv);
    /* Never 0: libuv would call fire again and again within one round, and nothing else would have its turn. */
    uv_timer_start(&loop->clock, fire, loop->timers->due > now ? loop->timers->due - now : 1, 0);
}

/* ---- what holds the loop ---- */

/* The kernel is asked for the thread's processor time, which takes a system call, after handlers that took SHORT_NS by
   the clock, and before a handler if it was not for MARK_NS. So two questions enclose a long handler, and little
   besides. */
enum { SHORT_NS = 500000, MARK_NS = 200000, LONG_NS = 5000000 };

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

const double loop_held_seconds[LOOP_HELD - 1] = { 0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 1 };

static void add_held(struct loop_held *held, uint64_t ns)
{
    int i = 0;
    while (i < LOOP_HELD - 1 && (double)ns > loop_held_seconds[i] * 1e9)
        i++;
    held->counts[i]++;
    held->ns += ns;
    held->most_ns = ns > held->most_ns ? ns : held->most_ns;
}

uint64_t loop_begin_held(struct loop *loop)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    if (now - loop->mark_ns > MARK_NS) {
        loop->mark_ns = now;
        loop->mark_worked_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    }
    return now;
}

uint64_t loop_note_held(struct loop *loop, uint64_t begun, const char *what)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), took = now - begun, worked = took;
    if (took > SHORT_NS) {
        uint64_t thread = clock_ns(CLOCK_THREAD_CPUTIME_ID), since_mark = thread - loop->mark_worked_ns;
        worked = since_mark < took ? since_mark : took;
        loop->mark_ns = now;
        loop->mark_worked_ns = thread;
    }
    add_held(&loop->held, took);
    add_held(&loop->worked, worked);
    char more[48];
    if (worked > LONG_NS && log_limit_says(&loop->long_lines, more))
        log_info("event=loop-held what=%s worked-us=%llu took-us=%llu%s", what, (unsigned long long)(worked / 1000),
                 (unsigned long long)(took / 1000), more);
    return took;
}

const struct loop_held *loop_held(const struct loop *loop) { return &loop->held; }
const struct loop_held *loop_worked(const struct loop *loop) { return &loop->worked; }

static void fire(uv_timer_t *clock)
{
    struct loop *loop = clock->data;
    uint64_t now = loop_now(loop);
    loop->firing = true;
    while (loop->timers && loop->timers->due <= now) {
        struct loop_timer *timer = loop->timers;
        take_out(loop, timer);
        uint64_t begun = loop_begin_held(loop);
        timer->fn(timer, timer->context);
        loop_note_held(loop, begun, "timer");
    }
    loop->firing = false;
    set_clock(loop);
}

void loop_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t ms, void (*fn)(struct loop_timer *, void *),
                      void *context)
{
    loop_timer_stop(timer);
    /* At least 1 ms: what restarts itself at once must not starve the rest. */
    *timer = (struct loop_timer){ .loop = loop, .due = loop_now(loop) + (ms ? ms : 1), .fn = fn, .context = context };
    bool first = !loop->timers || timer->due < loop->timers->due;
    loop->timers = meld(loop->timers, timer);
    if (first)
        set_clock(loop);
}

void loop_timer_stop(struct loop_timer *timer)
{
    struct loop *loop = timer->loop;
    if (!loop)
        return;
    bool first = timer == loop->timers;
    take_out(loop, timer);
    if (first && !loop->timers)
        set_clock(loop);                        /* else it wakes once for nothing, which costs less */
}

/* ---- posts ---- */

static void run_posted(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct loop_posted *posted = loop->posted;
    loop->posted = NULL;
    loop->posted_end = &loop->posted;
    pthread_mutex_unlock(&loop->lock);
    while (posted) {
        struct loop_posted *next = posted->next;
        uint64_t begun = loop_begin_held(loop);
        posted->fn(posted->context);
        loop_note_held(loop, begun, "result");
        free(posted);
        posted = next;
    }
}

static void woken(uv_async_t *wake)
{
    run_posted(wake->data);
}

int loop_post(struct loop *loop, void (*fn)(void *), void *context)
{
    struct loop_posted *posted = malloc(sizeof *posted);
    if (!posted)
        return -ENOMEM;
    *posted = (struct loop_posted){ .fn = fn, .context = context };
    pthread_mutex_lock(&loop->lock);
    *loop->posted_end = posted;
    loop->posted_end = &posted->next;
    pthread_mutex_unlock(&loop->lock);
    uv_async_send(&loop->wake);
    return 0;
}

/* ---- signals ---- */

static void signalled(uv_signal_t *uv, int number)
{
    struct loop_signal_handle *handle = uv->data;
    handle->fn(number, handle->context);
}

int loop_signal(struct loop *loop, int number, void (*fn)(int, void *), void *context)
{
    struct loop_signal_handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return -ENOMEM;
    handle->fn = fn;
    handle->context = context;
    handle->uv.data = handle;
    uv_signal_init(&loop->uv, &handle->uv);
    handle->next = loop->signals;
    loop->signals = handle;
    return uv_signal_start(&handle->uv, signalled, number);
}

/* ---- life ---- */

struct loop *loop_create(void)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->encode = malloc(LOOP_ENCODE_SIZE);
    if (!loop->encode || uv_loop_init(&loop->uv) < 0) {
        free(loop->encode);
        free(loop);
        return NULL;
    }
    signal(SIGPIPE, SIG_IGN);
    loop->posted_end = &loop->posted;
    pthread_mutex_init(&loop->lock, NULL);
    uv_timer_init(&loop->uv, &loop->clock);
    loop->clock.data = loop;
    uv_async_init(&loop->uv, &loop->wake, woken);
    loop->wake.data = loop;
    return loop;
}

void loop_run(struct loop *loop)
{
    loop->stopping = false;
    set_clock(loop);
    while (!loop->stopping)
        uv_run(&loop->uv, UV_RUN_ONCE);
    loop->stopping = false;
}

void loop_run_once(struct loop *loop)
{
    uv_run(&loop->uv, UV_RUN_ONCE);
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
    uv_stop(&loop->uv);
}

static void close_what_is_left(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    while (loop->conns)
        conn_close(loop->conns, "this program ends");
    run_posted(loop);
    uv_walk(&loop->uv, close_what_is_left, NULL);
    while (uv_loop_close(&loop->uv) == UV_EBUSY)
        uv_run(&loop->uv, UV_RUN_DEFAULT);
    while (loop->signals) {
        struct loop_signal_handle *handle = loop->signals;
        loop->signals = handle->next;
        free(handle);
    }
    pthread_mutex_destroy(&loop->lock);
    free(loop->encode);
    free(loop);
}
