/*
 * listener.c: listens, keeps some workers ready, hands each connection to one of them.
 *
 * One thread, one poll loop; it never takes a client's bytes, it only looks at the first: a lane of a session goes to
 * the worker that has the session. Any other connection waits at the door (door.h) until its first byte has come (then
 * it gets a worker, or waits in line for one), is closed, or LISTENER_SILENCE_NS have passed: so a peer that says
 * nothing costs a descriptor for a while, never a worker.
 *
 * A worker is this program again with --worker. It says that it is ready, or why it is not, over a socket pair, gets
 * one connection over it, says when that client has proved itself, and ends with it. Workers that fail at the start are
 * tried again at growing intervals; if the very first one fails, the server gives up, since nothing will be better by
 * itself.
 */
#include "cpu/server/listener.h"

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
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/common/clock.h"
#include "cpu/common/log.h"
#include "cpu/common/log_limit.h"
#include "cpu/rpc/tls/channel_tls.h"
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/rpc.h"
#include "cpu/server/door.h"
#include "cpu/server/image_cache.h"
#include "cpu/server/tenant.h"

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
#define LISTENER_STOP_NS    (2 * CLOCK_NS_PER_SECOND)
#define LISTENER_FIRST_PAUSE_NS (100 * CLOCK_NS_PER_MS)
#define LISTENER_LAST_PAUSE_NS  (10 * CLOCK_NS_PER_SECOND)
enum { LISTENER_MAX_WORKERS = 4096 };

/* GREETING: it has a client, which has not proved itself. */
enum worker_state { WORKER_STARTING, WORKER_IDLE, WORKER_GREETING, WORKER_BUSY };
struct worker {
    pid_t pid;
    int socket;
    enum worker_state state;
    struct door_source source;
};

struct listener {
    const struct listener_options *options;
    rpc_listener *open[LISTENER_MAX_URIS];
    int open_count;
    struct door door;
    uint64_t serve_after; /* 0, or: somebody waits whose source was barred until then */
    struct log_limit said_silent, said_lane, said_full, said_ended;
    uint64_t accept_after;                /* 0, or: accepting failed, and is tried again then */
    bool accept_failed;                   /* said so */
    struct worker workers[LISTENER_MAX_WORKERS];
    int worker_count;
    int signals;
    struct image_cache *cache;
    char *identity;                       /* packed, for each connection by TLS; no worker has it before */
    size_t identity_size;
    char fingerprint[RPC_PIN_SIZE];
    bool announced, stopping;
    int exit_code;
    uint64_t start_after, pause;          /* back-off after a worker that failed at its start */
};

/* ---- workers ---- */

/* In the child, between fork and exec. */
static void worker_exec(const struct listener *l, int socket, pid_t parent)
{
    char *arguments[12] = { (char *)(uintptr_t)"cricket-rpc-server", (char *)(uintptr_t)"--worker",
                            (char *)(uintptr_t)"--gpu",
                           (char *)(uintptr_t)l->options->gpu };
    int count = 4;
    sigset_t none;
    if (l->options->tls)
        arguments[count++] = (char *)(uintptr_t)"--tls";
    if (l->cache) {
        arguments[count++] = (char *)(uintptr_t)"--cache";
        arguments[count++] = (char *)(uintptr_t)image_cache_path(l->cache);
    }
    if (l->options->host_memory) {
        arguments[count++] = (char *)(uintptr_t)"--host-memory";
        arguments[count++] = (char *)(uintptr_t)l->options->host_memory;
    }
    if (l->options->bar) {
        arguments[count++] = (char *)(uintptr_t)"--bar";
        arguments[count++] = (char *)(uintptr_t)l->options->bar;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0)
        _exit(1);
    if (socket == WORKER_SOCKET)
        fcntl(socket, F_SETFD, 0);
    else if (dup2(socket, WORKER_SOCKET) < 0)
        _exit(1);
    close_range(WORKER_SOCKET + 1, ~0u, 0);               /* also what the listener has inherited itself */
    execv("/proc/self/exe", arguments);
    _exit(127);
}

static int listener_start_worker(struct listener *l)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        log_error("event=worker-not-started why=\"socketpair: %s\"", strerror(errno));
        return -1;
    }
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        worker_exec(l, pair[1], parent);
    close(pair[1]);
    if (pid < 0) {
        log_error("event=worker-not-started why=\"fork: %s\"", strerror(errno));
        close(pair[0]);
        return -1;
    }
    l->workers[l->worker_count++] = (struct worker){ .pid = pid, .socket = pair[0], .state = WORKER_STARTING };
    log_debug("event=worker-started worker=%d", (int)pid);
    return 0;
}

static int listener_count(const struct listener *l, enum worker_state state)
{
    int n = 0;
    for (int i = 0; i < l->worker_count; i++)
        n += l->workers[i].state == state;
    return n;
}

static void listener_back_off(struct listener *l)
{
    l->pause = l->pause ? 2 * l->pause : LISTENER_FIRST_PAUSE_NS;
    if (l->pause > LISTENER_LAST_PAUSE_NS)
        l->pause = LISTENER_LAST_PAUSE_NS;
    l->start_after = clock_now() + l->pause;
}

/* As many starting or idle as there should be. */
static void listener_keep_spares(struct listener *l)
{
    if (l->stopping || clock_now() < l->start_after)
        return;
    int missing = l->options->spares - listener_count(l, WORKER_IDLE) - listener_count(l, WORKER_STARTING);
    while (missing-- > 0 && l->worker_count < LISTENER_MAX_WORKERS)
        if (listener_start_worker(l) < 0) {
            listener_back_off(l);
            return;
        }
}

static void listener_stop(struct listener *l, int code)
{
    if (l->stopping)
        return;
    l->stopping = true;
    l->exit_code = code;
}

static bool listens_tls(const rpc_listener *open)
{
    return strncmp(rpc_listener_uri(open), "tls://", 6) == 0;
}

static void listener_announce(struct listener *l, int multiprocessors)
{
    l->announced = true;
    if (l->options->show_device)
        printf("device multiprocessors %d\n", multiprocessors);
    /* A certificate that nobody signed is known by its fingerprint only. */
    for (int i = 0; i < l->open_count; i++) {
        bool pinned = listens_tls(l->open[i]) && !l->options->tls_files.certificate;
        printf("listening on %s%s%s\n", rpc_listener_uri(l->open[i]), pinned ? "?sha256=" : "",
               pinned ? l->fingerprint : "");
    }
    fflush(stdout);
}

/* Whether a message that a peer has caused is written: " (N more)" goes behind it. */
static bool listener_says(struct log_limit *limit, char more[48])
{
    unsigned left_out = 0;
    if (!log_limit_passes(limit, &left_out))
        return false;
    more[0] = '\0';
    if (left_out)
        snprintf(more, 48, " (and %u more before)", left_out);
    return true;
}

/* What a worker says. */
static void listener_hear(struct listener *l, struct worker *worker)
{
    struct worker_message message;
    ssize_t n = recv(worker->socket, &message, sizeof message, MSG_DONTWAIT);
    if (n != sizeof message)
        return;                                           /* its end is noticed by SIGCHLD */
    message.text[sizeof message.text - 1] = 0;
    if (message.word == WORKER_GREETED) {
        if (worker->state == WORKER_GREETING)
            worker->state = WORKER_BUSY;
        return;
    }
    if (message.word == WORKER_READY) {
        worker->state = WORKER_IDLE;
        l->pause = 0;
        if (!l->announced) {
            log_info("event=serving driver=%s", message.text);
            listener_announce(l, message.multiprocessors);
        }
        return;
    }
    log_error("event=worker-failed why=\"%s\"", message.text);
    if (!l->announced)
        listener_stop(l, 3);
}

static void listener_reap(struct listener *l)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        int i = 0;
        while (i < l->worker_count && l->workers[i].pid != pid)
            i++;
        if (i == l->worker_count)
            continue;
        struct worker *worker = &l->workers[i];
        char more[48];
        if (worker->state == WORKER_STARTING || worker->state == WORKER_GREETING)
            listener_hear(l, worker); /* perhaps it said why, or that its client is welcome */
        if (worker->state == WORKER_GREETING)
            door_failed(&l->door, &worker->source, clock_now());
        if (WIFSIGNALED(status) && l->stopping)
            log_info("event=worker-stopped worker=%d", (int)pid);
        else if (WIFSIGNALED(status))
            log_warning("event=worker-ended worker=%d signal=%d why=\"%s\"%s", (int)pid, WTERMSIG(status),
                        strsignal(WTERMSIG(status)),
                        worker->state == WORKER_BUSY ? ": its client has lost its session" : "");
        else if (listener_says(&l->said_ended, more))
            log_info("event=worker-ended worker=%d status=%d%s", (int)pid, WEXITSTATUS(status), more);
        if (worker->state < WORKER_GREETING && !l->stopping) {
            listener_back_off(l);
            if (!l->announced) {
                log_error("event=cannot-serve why=\"the first worker ended before it was ready\"");
                listener_stop(l, 1);
            }
        }
        tenant_forget(pid);
        close(worker->socket);
        *worker = l->workers[--l->worker_count];
    }
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
        listener_says(&l->said_full, more))
        log_warning("event=connection-closed why=\"its machine or user has %d that wait already\"%s",
                    DOOR_SOURCE_PLACES, more);
}

static void listener_drop(struct listener *l, int i) { door_remove(&l->door, i, true); }

static int listener_hand_over(const struct listener *l, struct worker *worker, int fd, bool tls)
{
    char how = tls ? WORKER_TLS : WORKER_PLAIN;
    union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control;
    struct iovec data[2] = { { &how, 1 }, { l->identity, tls ? l->identity_size : 0 } };
    struct msghdr message = { .msg_iov = data, .msg_iovlen = 2, .msg_control = &control,
                              .msg_controllen = sizeof control };
    memset(&control, 0, sizeof control);
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(part), &fd, sizeof fd);
    return sendmsg(worker->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0 ? 0 : -errno;
}

/* ---- lanes ---- */

/* A connection whose first bytes say that it is a lane of a session goes to the worker that has the session: its
   process id is the upper half of the session's number. */
static void listener_give_lane(struct listener *l, int i, const uint8_t *hello)
{
    uint64_t session;
    uint32_t number;
    struct worker *owner = NULL;
    int one = 1;
    bool sound = rpc_lane_get_hello(hello, &session, &number);
    for (int w = 0; w < l->worker_count && sound && !owner; w++)
        if (l->workers[w].state >= WORKER_GREETING && (uint64_t)l->workers[w].pid == session >> 32)
            owner = &l->workers[w];
    setsockopt(l->door.waiting[i].fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    char more[48];
    if (!owner && listener_says(&l->said_lane, more))
        log_info("event=lane-refused session=%llu why=\"there is no such session\"%s",
                 sound ? (unsigned long long)session : 0, more);
    else if (owner && listener_hand_over(l, owner, l->door.waiting[i].fd, l->door.waiting[i].tls) != 0)
        log_info("event=lane-refused worker=%d why=\"the worker does not take it\"", (int)owner->pid);
    listener_drop(l, i);
}

enum first_bytes { FIRST_CALL, FIRST_LANE, FIRST_INCOMPLETE };

/* What n first bytes are the beginning of. Of a lane all of the hello is waited for. */
static enum first_bytes listener_first(int fd, const uint8_t *bytes, size_t n)
{
    int whole = RPC_LANE_HEAD;
    if (!rpc_lane_begins(bytes, n))
        return FIRST_CALL;
    if (n == RPC_LANE_HEAD)
        return FIRST_LANE;
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole);      /* poll says nothing before (TCP) */
    return FIRST_INCOMPLETE;
}

/* ---- workers for calls ---- */

/* Whether one more client of the source may have a worker before it has proved itself. */
static bool listener_may_greet(struct listener *l, const struct door_source *source, uint64_t now)
{
    int all = 0, own = 0;
    for (int w = 0; w < l->worker_count; w++)
        if (l->workers[w].state == WORKER_GREETING) {
            all++;
            own += door_same_source(&l->workers[w].source, source);
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
        const struct waiting *waiting = &l->door.waiting[i];
        struct worker *idle = NULL;
        for (int w = 0; w < l->worker_count && !idle; w++)
            if (l->workers[w].state == WORKER_IDLE)
                idle = &l->workers[w];
        if (!idle)
            return;
        if (!waiting->spoke || !listener_may_greet(l, &waiting->source, now)) {
            i++;
            continue;
        }
        idle->state = WORKER_GREETING;
        idle->source = waiting->source;
        if (listener_hand_over(l, idle, waiting->fd, waiting->tls) != 0) {
            idle->state = WORKER_BUSY; /* it has just died; the next one */
            continue;
        }
        log_debug("event=connection worker=%d", (int)idle->pid);
        listener_drop(l, i);
    }
}

/* Looks at connection i after poll. True: it is still there. */
static bool listener_look(struct listener *l, int i, short events, uint64_t now)
{
    struct waiting *waiting = &l->door.waiting[i];
    if (events & (POLLIN | POLLHUP | POLLERR | POLLRDHUP)) {
        uint8_t bytes[RPC_LANE_HEAD];
        ssize_t n = recv(waiting->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        enum first_bytes first = n > 0 ? listener_first(waiting->fd, bytes, (size_t)n) : FIRST_INCOMPLETE;
        if (first == FIRST_LANE) {
            listener_give_lane(l, i, bytes);
            return false;
        }
        if (first == FIRST_CALL)
            waiting->spoke = true;
        else if (n == 0 || (n > 0 && events & (POLLHUP | POLLERR | POLLRDHUP)) ||
                 (n < 0 && errno != EAGAIN && errno != EINTR)) {
            listener_drop(l, i);
            return false;
        }
    }
    if (!waiting->spoke && now >= waiting->deadline) {
        char more[48];
        if (listener_says(&l->said_silent, more))
            log_info("event=connection-closed why=\"it said nothing\"%s", more);
        listener_drop(l, i);
        return false;
    }
    return true;
}

/* ---- TLS ---- */

/* Reads or makes what is shown at tls://. When it fails, what was there before stays. */
static int listener_identify(struct listener *l)
{
    struct rpc_tls_identity identity;
    char error[RPC_ERROR_SIZE];
    size_t size;
    const struct rpc_tls_files *files = &l->options->tls_files;
    int status =
        files->certificate ? rpc_tls_identity_read(files, &identity, error) : rpc_tls_identity_make(&identity, error);
    if (status == 0 && !files->certificate && files->ca)
        status = rpc_tls_identity_add_ca(&identity, files->ca, error);
    if (status < 0) {
        log_error("event=certificate-not-read why=\"%s\"%s", error, l->identity ? ": the one read before stays" : "");
        return -1;
    }
    char *packed = rpc_tls_identity_pack(&identity, &size);
    if (packed) {
        if (l->identity)
            rpc_tls_wipe(l->identity, l->identity_size);
        free(l->identity);
        l->identity = packed;
        l->identity_size = size;
        memcpy(l->fingerprint, identity.fingerprint, sizeof l->fingerprint);
    } else {
        log_error("event=certificate-not-read why=\"the certificates are longer than %d bytes\"", RPC_TLS_PEM_MAX);
    }
    rpc_tls_identity_wipe(&identity);
    return packed ? 0 : -1;
}

/* ---- the loop ---- */

static void listener_signal(struct listener *l)
{
    struct signalfd_siginfo info;
    while (read(l->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGCHLD) {
            listener_reap(l);
        } else if (info.ssi_signo == SIGHUP) {
            if (listener_identify(l) == 0)
                log_info("event=certificate-read: new connections get it");
        } else {
            log_info("event=stopping why=\"%s\"", strsignal((int)info.ssi_signo));
            listener_stop(l, 0);
        }
}

/* Until when poll may sleep. */
static uint64_t listener_deadline(const struct listener *l)
{
    uint64_t deadline = l->accept_after ? l->accept_after : UINT64_MAX;
    if (l->start_after && listener_count(l, WORKER_IDLE) + listener_count(l, WORKER_STARTING) < l->options->spares &&
        l->start_after < deadline)
        deadline = l->start_after;
    if (l->serve_after && l->serve_after < deadline)
        deadline = l->serve_after;
    for (int i = 0; i < l->door.count; i++)
        if (!l->door.waiting[i].spoke && l->door.waiting[i].deadline < deadline)
            deadline = l->door.waiting[i].deadline;
    return deadline;
}

/* Those that have something to say. */
static bool listener_listens(const struct worker *worker)
{
    return worker->state == WORKER_STARTING || worker->state == WORKER_GREETING;
}

static void listener_turn(struct listener *l)
{
    static struct pollfd polled[1 + LISTENER_MAX_URIS + LISTENER_MAX_WORKERS + DOOR_PLACES];
    int n = 0, waiting = l->door.count, workers = l->worker_count;
    if (l->accept_after && l->accept_after <= clock_now())
        l->accept_after = 0;
    bool room = !l->accept_after;
    polled[n++] = (struct pollfd){ .fd = l->signals, .events = POLLIN };
    for (int i = 0; i < l->open_count; i++)
        polled[n++] = (struct pollfd){ .fd = room ? rpc_listener_fd(l->open[i]) : -1, .events = POLLIN };
    for (int i = 0; i < workers; i++)
        polled[n++] =
            (struct pollfd){ .fd = listener_listens(&l->workers[i]) ? l->workers[i].socket : -1, .events = POLLIN };
    for (int i = 0; i < waiting; i++)
        polled[n++] = (struct pollfd){ .fd = l->door.waiting[i].spoke ? -1 : l->door.waiting[i].fd,
                                       .events = POLLIN | POLLRDHUP };
    uint64_t deadline = listener_deadline(l);
    if (poll(polled, (nfds_t)n, deadline == UINT64_MAX ? -1 : clock_poll_timeout(deadline)) < 0)
        return;
    uint64_t now = clock_now();
    /* From the last to the first: each step may shorten what is behind it. */
    const struct pollfd *of_waiting = polled + 1 + l->open_count + workers, *of_workers = polled + 1 + l->open_count;
    for (int i = waiting - 1; i >= 0; i--)
        listener_look(l, i, of_waiting[i].revents, now);
    for (int i = 0; i < workers; i++)
        if (of_workers[i].revents & POLLIN)
            listener_hear(l, &l->workers[i]);
    for (int i = 0; i < l->open_count && !l->accept_after; i++)
        if (polled[1 + i].revents & POLLIN)
            listener_accept(l, l->open[i]);
    if (polled[0].revents & POLLIN)
        listener_signal(l);
    listener_serve_waiting(l);
    listener_keep_spares(l);
}

/* Ends every worker and waits for it. */
static void listener_end_workers(struct listener *l)
{
    uint64_t deadline = clock_now() + LISTENER_STOP_NS;
    for (int i = 0; i < l->worker_count; i++)
        kill(l->workers[i].pid, SIGTERM);
    while (l->worker_count) {
        struct pollfd signals = { .fd = l->signals, .events = POLLIN };
        struct signalfd_siginfo info;
        if (clock_now() >= deadline) {
            for (int i = 0; i < l->worker_count; i++)
                kill(l->workers[i].pid, SIGKILL);
            deadline = UINT64_MAX;
        }
        poll(&signals, 1, deadline == UINT64_MAX ? 100 : clock_poll_timeout(deadline));
        while (read(l->signals, &info, sizeof info) == sizeof info)
            ;
        listener_reap(l);
    }
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
    l->options = options;
    l->door.most = listener_raise_files();
    l->signals = -1;
    l->exit_code = 1;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    if (options->tls_files.certificate)
        sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    l->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signals < 0) {
        log_error("event=cannot-serve why=\"signalfd: %s\"", strerror(errno));
        goto out;
    }
    if (options->tls && listener_identify(l) < 0)
        goto out;
#ifndef LISTENER_SANITIZED
    if (options->tls)
        /* a worker, of the same user, cannot open our memory, where the key is */
        prctl(PR_SET_DUMPABLE, 0);
#endif
    if (listener_open_all(l) < 0)
        goto out;
    l->cache = image_cache_create();
    if (!l->cache)
        log_warning("event=no-image-cache why=\"no directory can be made in $TMPDIR or /tmp\": each client sends its "
                    "own images");
    tenant_reset(l->cache ? image_cache_path(l->cache) : NULL);
    listener_keep_spares(l);
    while (!l->stopping)
        listener_turn(l);
out:
    for (int i = 0; i < l->open_count; i++)
        rpc_listener_close(l->open[i]);
    while (l->door.count)
        listener_drop(l, 0);
    if (l->worker_count)
        listener_end_workers(l);
    image_cache_remove(l->cache);
    if (l->identity)
        rpc_tls_wipe(l->identity, l->identity_size);
    free(l->identity);
    if (l->signals >= 0)
        close(l->signals);
    int code = l->exit_code;
    free(l);
    return code;
}
