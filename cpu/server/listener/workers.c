/*
 * workers.c: the worker processes of one server. A worker is this program again with --worker. It says that it is
 * ready, or why it is not, over a socket pair, gets one connection over it, says when that client has proved itself,
 * and ends with it. Workers that fail at the start are tried again at growing intervals; if the very first one fails,
 * the server gives up, since nothing will be better by itself.
 */
#include "cpu/server/listener/workers.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/server/comm/comms.h"
#include "cpu/server/listener/spawn.h"
#include "cpu/server/listener/ticket.h"
#include "cpu/server/tenant/tenant.h"

#define WORKERS_STOP_NS (2 * CLOCK_NS_PER_SECOND)
#define WORKERS_FIRST_PAUSE_NS (100 * CLOCK_NS_PER_MS)
#define WORKERS_LAST_PAUSE_NS (10 * CLOCK_NS_PER_SECOND)

struct worker *workers_start(struct workers *w, bool usher)
{
    int socket;
    pid_t pid = spawn_worker(w->options, w->cache, usher, &socket);
    if (pid < 0)
        return NULL;
    struct worker *worker = &w->all[w->count++];
    *worker = (struct worker){ .pid = pid, .socket = socket, .usher = usher, .state = WORKER_STARTING };
    return worker;
}

static int workers_count(const struct workers *w, enum worker_state state)
{
    int n = 0;
    for (int i = 0; i < w->count; i++)
        n += w->all[i].state == state;
    return n;
}

static void back_off(struct workers *w)
{
    w->pause = w->pause ? 2 * w->pause : WORKERS_FIRST_PAUSE_NS;
    if (w->pause > WORKERS_LAST_PAUSE_NS)
        w->pause = WORKERS_LAST_PAUSE_NS;
    w->start_after = clock_now() + w->pause;
}

void workers_keep_spares(struct workers *w)
{
    if (w->stopping || clock_now() < w->start_after)
        return;
    int missing = w->options->spares - workers_count(w, WORKER_IDLE) - workers_count(w, WORKER_STARTING);
    while (missing-- > 0 && w->count < WORKERS_MOST)
        if (!workers_start(w, false)) {
            back_off(w);
            return;
        }
}

void workers_renew_spares(struct workers *w)
{
    for (int i = 0; w->ready && i < w->count; i++) {
        struct worker *worker = &w->all[i];
        if (worker->usher || worker->state >= WORKER_GREETING)
            continue;
        worker->replaced = true;
        worker->state = WORKER_BUSY; /* nobody gets it any more */
        kill(worker->pid, SIGKILL);
    }
}

bool workers_listens(const struct worker *worker)
{
    return worker->state != WORKER_IDLE && !worker->replaced && !worker->deaf &&
           !(worker->usher && worker->state == WORKER_BUSY);
}

static void let_go(struct worker *worker)
{
    if (worker->holds)
        door_close(&worker->held);
    worker->holds = false;
}

void workers_give(struct workers *w, struct worker *worker, int i)
{
    worker->held = door_take(w->door, i);
    worker->holds = true;
}

bool workers_hear(struct workers *w, struct worker *worker)
{
    if (worker->state == WORKER_BUSY) {
        workers_relay(w, worker);
        return false;
    }
    struct worker_message message;
    ssize_t n = recv(worker->socket, &message, sizeof message, MSG_DONTWAIT);
    if (n != sizeof message)
        return false; /* its end is noticed by SIGCHLD */
    message.text[sizeof message.text - 1] = 0;
    if (message.word == WORKER_TAKEN) {
        let_go(worker);
        return false;
    }
    if (message.word == WORKER_GREETED) {
        if (worker->state != WORKER_GREETING)
            return false;
        let_go(worker);
        worker->state = WORKER_BUSY;
        worker->greeted = ++w->greeted;
        snprintf(worker->numbers, sizeof worker->numbers, "%.*s", (int)sizeof worker->numbers - 1, message.text);
        return true;
    }
    if (worker->usher || worker->state != WORKER_STARTING)
        return false;
    if (message.word == WORKER_READY) {
        worker->state = WORKER_IDLE;
        w->pause = 0;
        if (!w->ready) {
            log_info("event=serving driver=%s", message.text);
            w->ready = true;
            w->multiprocessors = message.multiprocessors;
        }
        return false;
    }
    log_error("event=worker-failed why=\"%s\"", message.text);
    if (!w->ready && !w->failure)
        w->failure = 3;
    return false;
}

/* The worker has ended. Its connection goes to another one, if it had not taken it; else its client may have failed to
   prove itself. */
static void connection_left(struct workers *w, struct worker *worker)
{
    if (worker->holds && !w->stopping)
        door_put_back(w->door, &worker->held);
    else if (worker->holds)
        door_close(&worker->held);
    else if (worker->state == WORKER_GREETING)
        door_failed(w->door, &worker->source, clock_now());
    worker->holds = false;
}

void workers_reap(struct workers *w)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int i = 0;
        while (i < w->count && w->all[i].pid != pid)
            i++;
        if (i == w->count)
            continue;
        struct worker *worker = &w->all[i];
        char more[48];
        for (int n = 0; n < 2 && (worker->state == WORKER_STARTING || worker->state == WORKER_GREETING); n++)
            workers_hear(w, worker); /* perhaps it said why, that it took its connection, or that its client is known */
        connection_left(w, worker);
        if (worker->replaced)
            log_debug("event=worker-replaced worker=%d", (int)pid);
        else if (WIFSIGNALED(status) && w->stopping)
            log_info("event=worker-stopped worker=%d", (int)pid);
        else if (WIFSIGNALED(status))
            log_warning("event=worker-ended worker=%d signal=%d why=\"%s\"%s", (int)pid, WTERMSIG(status),
                        strsignal(WTERMSIG(status)),
                        worker->state == WORKER_BUSY ? ": its client has lost its session" : "");
        else if (log_limit_says(&w->said_ended, more))
            log_info("event=worker-ended worker=%d status=%d%s", (int)pid, WEXITSTATUS(status), more);
        if (worker->state < WORKER_GREETING && !w->stopping && !w->failure) {
            back_off(w);
            if (!w->ready) {
                log_error("event=cannot-serve why=\"the first worker ended before it was ready\"");
                w->failure = 1;
            }
        }
        tenant_forget(pid);
        ticket_ended(pid);
        book_end(pid);
        if (worker->asked)
            workers_tell_gone(w, pid);
        close(worker->socket);
        *worker = w->all[--w->count];
    }
}

void workers_end(struct workers *w, int signals_fd)
{
    uint64_t deadline = clock_now() + WORKERS_STOP_NS;
    for (int i = 0; i < w->count; i++)
        kill(w->all[i].pid, SIGTERM);
    while (w->count) {
        struct pollfd signals = { .fd = signals_fd, .events = POLLIN };
        struct signalfd_siginfo info;
        if (clock_now() >= deadline) {
            for (int i = 0; i < w->count; i++)
                kill(w->all[i].pid, SIGKILL);
            deadline = UINT64_MAX;
        }
        poll(&signals, 1, deadline == UINT64_MAX ? 100 : clock_poll_timeout(deadline));
        while (read(signals_fd, &info, sizeof info) == sizeof info)
            ;
        workers_reap(w);
    }
}

uint64_t workers_due(const struct workers *w)
{
    bool missing = workers_count(w, WORKER_IDLE) + workers_count(w, WORKER_STARTING) < w->options->spares;
    return w->start_after && missing ? w->start_after : UINT64_MAX;
}

struct worker *workers_of_session(struct workers *w, uint64_t session)
{
    for (int i = 0; i < w->count; i++)
        if (w->all[i].state >= WORKER_GREETING && (uint64_t)w->all[i].pid == session >> 32)
            return &w->all[i];
    return NULL;
}

struct worker *workers_idle(struct workers *w)
{
    for (int i = 0; i < w->count; i++)
        if (w->all[i].state == WORKER_IDLE)
            return &w->all[i];
    return NULL;
}
