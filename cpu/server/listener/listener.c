/*
 * listener.c: listens, and hands each connection to a worker (workers.h).
 *
 * One thread, one poll loop; of a client's bytes it takes a pass (knock.h), and else it only looks at the first: a
 * lane of a session goes to the worker that has the session. Any other connection waits at the door (door.h) until
 * its first byte has come (then it gets a worker, or waits in line for one), is closed, or LISTENER_SILENCE_NS have
 * passed: so a peer that says nothing costs a descriptor for a while, never a worker. A server of a cluster gives
 * workers only to those that have shown a good pass first (knock.h). The others get an usher, which is a worker
 * without a GPU, of which a few are made at a time, and which sends them the reason of the refusal.
 */
#include "cpu/server/listener/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/rpc.h"
#include "cpu/server/listener/bridges.h"
#include "cpu/server/listener/door.h"
#include "cpu/server/listener/identity.h"
#include "cpu/server/code/image_cache.h"
#include "cpu/server/listener/knock.h"
#include "cpu/server/listener/orders.h"
#include "cpu/server/listener/spawn.h"
#include "cpu/server/tenant/tenant.h"
#include "cpu/server/listener/workers.h"

/* LeakSanitizer looks at its own process as a debugger does. */
#if defined __has_feature
#if __has_feature(address_sanitizer)
#define LISTENER_SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__
#define LISTENER_SANITIZED 1
#endif

#define LISTENER_SILENCE_NS (10 * CLOCK_NS_PER_SECOND)
#define LISTENER_PAUSE_NS (100 * CLOCK_NS_PER_MS)         /* after accepting has failed: no descriptors or no memory */
#define LISTENER_AGAIN_NS (20 * CLOCK_NS_PER_MS)

struct listener {
    const struct listener_options *options;
    rpc_listener *open[LISTENER_MAX_URIS];
    int open_count;
    struct door door;
    uint64_t serve_after; /* 0, or: somebody waits whose source was barred until then */
    struct log_limit said_silent, said_lane, said_full;
    uint64_t accept_after;                /* 0, or: accepting failed, and is tried again then */
    bool accept_failed;                   /* said so */
    struct workers workers;
    struct orders orders;
    struct bridges bridges;
    int signals;
    struct image_cache *cache;
    struct identity identity;
    bool tickets;                         /* they are asked for */
    bool announced, stopping;
    int exit_code;
};

/* ---- what the workers have said ---- */

static void listener_stop(struct listener *l, int code)
{
    if (l->stopping)
        return;
    l->stopping = l->workers.stopping = true;
    l->exit_code = code;
}

static bool listens_tls(const rpc_listener *open)
{
    return strncmp(rpc_listener_uri(open), "tls://", 6) == 0;
}

static void listener_announce(struct listener *l)
{
    l->announced = true;
    if (l->options->show_device)
        printf("device multiprocessors %d\n", l->workers.multiprocessors);
    /* A certificate that nobody signed is known by its fingerprint only. */
    for (int i = 0; i < l->open_count; i++) {
        bool pinned = listens_tls(l->open[i]) && !l->options->tls_files.certificate;
        printf("listening on %s%s%s\n", rpc_listener_uri(l->open[i]), pinned ? "?sha256=" : "",
               pinned ? l->identity.fingerprint : "");
    }
    fflush(stdout);
}

/* ---- connections ---- */

static void listener_accept(struct listener *l, rpc_listener *from)
{
    int fd = rpc_listener_accept(from);
    if (fd < 0) {
        if (fd == -EAGAIN || fd == -EINTR || fd == -ECONNABORTED)
            return;
        /* The connection stays in the kernel's queue, and poll would return at once, again and again. */
        l->accept_after = clock_now() + LISTENER_PAUSE_NS;
        if (!l->accept_failed)
            log_warning("event=accept-failed address=%s why=\"%s\": tried again every %llu ms, and not said again "
                        "until it works",
                        rpc_listener_uri(from), strerror(-fd),
                        (unsigned long long)(LISTENER_PAUSE_NS / CLOCK_NS_PER_MS));
        l->accept_failed = true;
        return;
    }
    l->accept_failed = false;
    char more[48];
    if (!door_add(&l->door, fd, listens_tls(from), clock_now() + LISTENER_SILENCE_NS) &&
        log_limit_says(&l->said_full, more))
        log_warning("event=connection-closed why=\"its machine or user has %d that wait already\"%s",
                    DOOR_SOURCE_PLACES, more);
}

static void listener_drop(struct listener *l, int i) { door_remove(&l->door, i); }

/* ---- lanes ---- */

/* A connection whose first bytes say that it is a lane of a session goes to the worker that has the session: its
   process id is the upper half of the session's number. */
static void listener_give_lane(struct listener *l, int i, const uint8_t *hello)
{
    uint64_t session;
    uint32_t number;
    int one = 1;
    bool sound = rpc_lane_get_hello(hello, &session, &number);
    struct worker *owner = sound ? workers_of_session(&l->workers, session) : NULL;
    setsockopt(l->door.waiting[i].fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    char more[48];
    if (!owner && log_limit_says(&l->said_lane, more))
        log_info("event=lane-refused session=%llu why=\"there is no such session\"%s",
                 sound ? (unsigned long long)session : 0, more);
    else if (owner && spawn_hand_over(owner->socket, l->door.waiting[i].fd, l->door.waiting[i].tls, &l->identity,
                                      NULL) != 0)
        log_info("event=lane-refused worker=%d why=\"the worker does not take it\"", (int)owner->pid);
}

/* ---- first bytes ---- */

enum first_bytes { FIRST_CALL, FIRST_LANE, FIRST_KNOCK, FIRST_INCOMPLETE };

/* What n first bytes are the beginning of. Of a lane all of the hello is waited for, of a knock its head. */
static enum first_bytes listener_first(struct door_waiting *waiting, const uint8_t *bytes, size_t n)
{
    bool lane = rpc_lane_begins(bytes, n), knock = !waiting->knock && rpc_knock_begins(bytes, n);
    int whole = knock ? RPC_KNOCK_HEAD : RPC_LANE_HEAD;
    if (!lane && !knock)
        return FIRST_CALL;
    if (n >= (size_t)whole)
        return knock ? FIRST_KNOCK : FIRST_LANE;
    setsockopt(waiting->fd, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole); /* poll says nothing before (TCP) */
    return FIRST_INCOMPLETE;
}

/* Takes what has come of a knock. False: the connection is of no use. */
static bool listener_take_knock(struct door_waiting *waiting)
{
    if (!waiting->knock)
        waiting->knock = calloc(1, sizeof *waiting->knock);
    return waiting->knock && knock_receive(waiting->knock, waiting->fd) == 0;
}

/* Whether it has no use for a worker with a GPU. */
static bool listener_unwelcome(const struct listener *l, const struct door_waiting *waiting)
{
    return l->tickets && !(waiting->knock && waiting->knock->good);
}

/* ---- workers for calls ---- */

/* Whether one more client of the source may have a worker before it has proved itself. */
static bool listener_may_greet(struct listener *l, const struct door_source *source, uint64_t now)
{
    int all = 0, own = 0;
    for (int w = 0; w < l->workers.count; w++)
        if (l->workers.all[w].state == WORKER_GREETING) {
            all++;
            own += door_same_source(&l->workers.all[w].source, source);
        }
    if (all >= DOOR_GREETING || own >= DOOR_SOURCE_GREETING)
        return false; /* until one of them has, or has ended */
    uint64_t until = door_barred(&l->door, source, now);
    if (until && (!l->serve_after || until < l->serve_after))
        l->serve_after = until;
    return !until;
}

/* First come, first served, as far as there are idle workers; but no source keeps the others from theirs. */
static void listener_serve_waiting(struct listener *l)
{
    uint64_t now = clock_now();
    l->serve_after = 0;
    for (int i = 0; i < l->door.count;) {
        const struct door_waiting *waiting = &l->door.waiting[i];
        bool usher = listener_unwelcome(l, waiting);
        struct worker *worker = usher ? NULL : workers_idle(&l->workers);
        if (!waiting->spoke || (!usher && !worker) || !listener_may_greet(l, &waiting->source, now)) {
            i++;
            continue;
        }
        if (usher && (l->workers.count == WORKERS_MOST || !(worker = workers_start(&l->workers, true)))) {
            listener_drop(l, i);
            continue;
        }
        worker->state = WORKER_GREETING;
        worker->source = waiting->source;
        worker->program = !usher && waiting->knock ? waiting->knock->program : 0;
        if (worker->program || !l->tickets)
            bridges_lend(&l->bridges, worker, worker->program); /* before the connection: it is there in time */
        if (spawn_hand_over(worker->socket, waiting->fd, waiting->tls, &l->identity, waiting->knock) != 0) {
            worker->state = WORKER_BUSY; /* it has just died; the next one */
            if (usher)
                listener_drop(l, i);
            continue;
        }
        log_debug("event=connection worker=%d", (int)worker->pid);
        workers_give(&l->workers, worker, i);
    }
}

/* Looks at what came over connection i. False: it is of no use any more. */
static bool listener_read(struct listener *l, int i, short events)
{
    struct door_waiting *waiting = &l->door.waiting[i];
    uint8_t bytes[RPC_LANE_HEAD];
    bool ended = events & (POLLHUP | POLLERR | POLLRDHUP);
    if (waiting->knock && !waiting->knock->whole)
        return listener_take_knock(waiting);
    ssize_t n = recv(waiting->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0)
        return false;
    switch (listener_first(waiting, bytes, (size_t)n)) {
    case FIRST_LANE:
        listener_give_lane(l, i, bytes);
        return false;
    case FIRST_KNOCK: return listener_take_knock(waiting);
    case FIRST_CALL:
        waiting->spoke = true;
        return true;
    case FIRST_INCOMPLETE: break;
    }
    waiting->again = clock_now() + LISTENER_AGAIN_NS; /* of a unix socket poll would say at once that there is some */
    return !ended;
}

/* Looks at connection i after poll. */
static void listener_look(struct listener *l, int i, short events, uint64_t now)
{
    struct door_waiting *waiting = &l->door.waiting[i];
    char more[48];
    bool due = waiting->again && now >= waiting->again;
    waiting->again = due ? 0 : waiting->again;
    if ((due || events & (POLLIN | POLLHUP | POLLERR | POLLRDHUP)) && !listener_read(l, i, events)) {
        listener_drop(l, i);
    } else if (!waiting->spoke && now >= waiting->deadline) {
        if (log_limit_says(&l->said_silent, more))
            log_info("event=connection-closed why=\"it sent nothing\"%s", more);
        listener_drop(l, i);
    }
}

/* ---- revoked certificates ---- */

/* Ends the session of a client whose certificate counts no more. By SIGKILL: kernels of that client run in the worker,
   which need not end by itself. */
static void listener_cut_off(const struct listener *l, const struct worker *worker)
{
    if (!identity_revokes(&l->identity, worker->numbers))
        return;
    log_warning("event=client-cut-off worker=%d why=\"its certificate was revoked\"", (int)worker->pid);
    kill(worker->pid, SIGKILL);
}

static void listener_greeted(struct listener *l, const struct worker *worker)
{
    if (worker->program || !l->tickets)
        bridges_greeted(&l->bridges, worker->program);
    listener_cut_off(l, worker); /* the list may be newer than its handshake */
}

static void listener_read_again(struct listener *l)
{
    if (identity_load(&l->identity, &l->options->tls_files) != 0)
        return;
    log_info("event=certificate-read: new connections get it");
    for (int i = 0; i < l->workers.count; i++)
        listener_cut_off(l, &l->workers.all[i]);
}

/* ---- the loop ---- */

static void listener_signal(struct listener *l)
{
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD) {
            workers_reap(&l->workers);
        } else if (info.ssi_signo == SIGHUP) {
            listener_read_again(l);
        } else {
            log_info("event=stopping why=\"%s\"", strsignal((int)info.ssi_signo));
            listener_stop(l, 0);
        }
}

/* Until when poll may sleep. */
static uint64_t listener_deadline(const struct listener *l)
{
    uint64_t deadline = l->accept_after ? l->accept_after : UINT64_MAX;
    if (orders_due(&l->orders) < deadline)
        deadline = orders_due(&l->orders);
    if (workers_due(&l->workers) < deadline)
        deadline = workers_due(&l->workers);
    if (l->serve_after && l->serve_after < deadline)
        deadline = l->serve_after;
    for (int i = 0; i < l->door.count; i++) {
        const struct door_waiting *waiting = &l->door.waiting[i];
        uint64_t next = waiting->again && waiting->again < waiting->deadline ? waiting->again : waiting->deadline;
        if (!waiting->spoke && next < deadline)
            deadline = next;
    }
    return deadline;
}

/* Takes all that workers have said of their clients: an order may be about a program that was just answered, and a
   worker may have ended since. A worker sends two messages. */
static void listener_hear_greetings(struct listener *l)
{
    for (int i = 0; i < l->workers.count; i++)
        for (int n = 0; n < 2 && l->workers.all[i].state == WORKER_GREETING; n++)
            if (workers_hear(&l->workers, &l->workers.all[i]))
                listener_greeted(l, &l->workers.all[i]);
}

static void listener_turn(struct listener *l)
{
    static struct pollfd polled[1 + LISTENER_MAX_URIS + WORKERS_MOST + DOOR_PLACES + ORDERS_POLLED];
    int n = 0, waiting = l->door.count, workers = l->workers.count;
    if (l->accept_after && l->accept_after <= clock_now())
        l->accept_after = 0;
    bool room = !l->accept_after;
    polled[n++] = (struct pollfd){ .fd = l->signals, .events = POLLIN };
    for (int i = 0; i < l->open_count; i++)
        polled[n++] = (struct pollfd){ .fd = room ? rpc_listener_fd(l->open[i]) : -1, .events = POLLIN };
    for (int i = 0; i < workers; i++)
        polled[n++] =
            (struct pollfd){ .fd = workers_listens(&l->workers.all[i]) ? l->workers.all[i].socket : -1,
                             .events = POLLIN };
    for (int i = 0; i < waiting; i++)
        polled[n++] = (struct pollfd){
            .fd = l->door.waiting[i].spoke || l->door.waiting[i].again ? -1 : l->door.waiting[i].fd,
            .events = POLLIN | POLLRDHUP
        };
    const struct pollfd *of_orders = polled + n;
    orders_poll(&l->orders, polled + n);
    n += ORDERS_POLLED;
    uint64_t deadline = listener_deadline(l);
    if (poll(polled, (nfds_t)n, deadline == UINT64_MAX ? -1 : clock_poll_timeout(deadline)) < 0)
        return;
    uint64_t now = clock_now();
    /* From the last to the first: each step may shorten what is behind it. */
    const struct pollfd *of_waiting = polled + 1 + l->open_count + workers, *of_workers = polled + 1 + l->open_count;
    for (int i = waiting - 1; i >= 0; i--)
        listener_look(l, i, of_waiting[i].revents, now);
    for (int i = 0; i < workers; i++)
        if (of_workers[i].revents & POLLIN && workers_hear(&l->workers, &l->workers.all[i]))
            listener_greeted(l, &l->workers.all[i]);
    for (int i = 0; i < l->open_count && !l->accept_after; i++)
        if (polled[1 + i].revents & POLLIN)
            listener_accept(l, l->open[i]);
    if (polled[0].revents || of_orders[1].revents)
        listener_hear_greetings(l);
    if (polled[0].revents & POLLIN)
        listener_signal(l);
    orders_turn(&l->orders, of_orders);
    if (l->workers.ready && !l->announced)
        listener_announce(l);
    if (l->workers.failure)
        listener_stop(l, l->workers.failure);
    listener_serve_waiting(l);
    workers_keep_spares(&l->workers);
}

static int listener_open_all(struct listener *l)
{
    char error[RPC_ERROR_SIZE];
    for (int i = 0; i < l->options->uri_count; i++) {
        const char *uri = l->options->uris[i];
        int fd = l->options->fds[i];
        if ((fd ? rpc_listener_adopt(uri, fd, &l->open[l->open_count], error)
                : rpc_listener_open(uri, &l->open[l->open_count], error)) != 0) {
            log_error("event=cannot-serve why=\"%s\"", error);
            return -1;
        }
        l->open_count++;
    }
    return 0;
}

/* As many files as we may have; and of these, half for connections that have no worker yet. */
static int listener_raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return DOOR_PLACES / 2;
    if (files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0)
            getrlimit(RLIMIT_NOFILE, &files);
    }
    return files.rlim_cur / 2 < DOOR_PLACES ? (int)(files.rlim_cur / 2) : DOOR_PLACES;
}

int listener_main(const struct listener_options *options)
{
    struct listener *l = calloc(1, sizeof *l);
    sigset_t signals;
    if (!l) {
        log_error("event=cannot-serve why=\"no memory\"");
        return 1;
    }
    l->options = l->workers.options = options;
    l->workers.door = &l->door;
    l->tickets = ticket_wanted();
    l->door.most = listener_raise_files();
    orders_open(&l->orders, options->control, options->gpu, &l->workers, &l->bridges);
    l->signals = -1;
    l->exit_code = 1;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    if (options->tls_files.certificate || options->tls_files.ca)
        sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    l->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signals < 0) {
        log_error("event=cannot-serve why=\"signalfd: %s\"", strerror(errno));
        goto out;
    }
    if (options->tls && identity_load(&l->identity, &options->tls_files) < 0)
        goto out;
#ifndef LISTENER_SANITIZED
    if (options->tls)
        /* a worker, of the same user, cannot open our memory, where the key is */
        prctl(PR_SET_DUMPABLE, 0);
#endif
    if (listener_open_all(l) < 0)
        goto out;
    l->workers.cache = l->cache = image_cache_create();
    if (!l->cache)
        log_warning("event=no-image-cache why=\"no directory can be made in $TMPDIR or /tmp\": each client sends its "
                    "own images");
    tenant_reset(l->cache ? image_cache_path(l->cache) : NULL);
    workers_keep_spares(&l->workers);
    while (!l->stopping)
        listener_turn(l);
out:
    for (int i = 0; i < l->open_count; i++)
        rpc_listener_close(l->open[i]);
    while (l->door.count)
        listener_drop(l, 0);
    l->workers.stopping = true;
    orders_close(&l->orders);
    bridges_close(&l->bridges);
    workers_end(&l->workers, l->signals);
    image_cache_remove(l->cache);
    identity_drop(&l->identity);
    if (l->signals >= 0)
        close(l->signals);
    int code = l->exit_code;
    free(l);
    return code;
}
