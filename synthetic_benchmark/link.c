/*
 * link.c: a slow link. It listens on a port of this machine and passes every connection on to another port, all
 * connections together at so many bytes a second each way.
 *
 *     bench_link PORT BYTES_PER_SECOND [DELAY_US]    prints `port N` and serves until its stdin ends
 *
 * As a switch does it: each connection has a small queue each way; the queues take turns, a quantum at a time (deficit
 * round robin), and a byte leaves when the link is free for it. A full queue is not read, so TCP holds the sender up;
 * nothing is dropped. With a delay every byte also arrives so much later, over every fourth connection; over those
 * between them two, three and four times as much, as if they took different ways. One thread, epoll, a timer for the
 * link.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { QUEUE = 64 * 1024, QUANTUM = 8 * 1024, SOCKET_BUFFER = 64 * 1024, BURST_US = 200, MARKS = 256,
       CONNECTIONS = 256 };

/* One direction of a connection: bytes that have come and not left, in a ring. */
struct way {
    uint8_t  bytes[QUEUE];
    size_t   start, count;
    uint64_t arrived[MARKS];            /* when, for the delay: marks of how many bytes */
    size_t   marked[MARKS];
    unsigned first_mark, mark_count;
    bool     ended;                     /* its source has */
    bool     told;                      /* and its sink knows */
    bool     readable, writable;
};

struct connection {
    int        ends[2];
    struct way ways[2];                 /* ways[i] flows from ends[i] to ends[1 - i] */
    uint64_t   delay;
    bool       dead;
};

static struct {
    int      epoll, listener, timer, target;
    double   rate;                      /* bytes per ns */
    uint64_t delay, free_at[2];         /* when the link has sent what it was given */
    unsigned turn[2];                   /* whose it is */
    struct connection *all[CONNECTIONS];
    unsigned count, taken;
} relay;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void tune(int fd)
{
    int size = SOCKET_BUFFER, on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void watch(struct connection *c, int end)
{
    /* The end's number in the lowest bit of the pointer. */
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                 .data.u64 = (uint64_t)(uintptr_t)c | (uint64_t)end };
    epoll_ctl(relay.epoll, EPOLL_CTL_ADD, c->ends[end], &event);
}

static void take_connection(void)
{
    if (relay.count == CONNECTIONS)
        return;
    int near = accept4(relay.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct connection *c = near < 0 ? NULL : calloc(1, sizeof *c);
    int far = c ? socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)relay.target),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (far < 0) {
        if (near >= 0)
            close(near);
        free(c);
        return;
    }
    tune(near);
    tune(far);
    if (connect(far, (struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS) {
        close(near);
        close(far);
        free(c);
        return;
    }
    c->ends[0] = near;
    c->ends[1] = far;
    c->delay = relay.delay * (1 + relay.taken++ % 4);
    relay.all[relay.count++] = c;
    watch(c, 0);
    watch(c, 1);
}

/* ---- in and out of the queues ---- */

static void fill(struct connection *c, int i)
{
    struct way *w = &c->ways[i];
    while (w->readable && !w->ended && w->count < QUEUE && w->mark_count < MARKS) {
        size_t at = (w->start + w->count) % QUEUE, room = QUEUE - w->count;
        size_t part = QUEUE - at < room ? QUEUE - at : room;
        ssize_t got = recv(c->ends[i], w->bytes + at, part, 0);
        if (got > 0) {
            unsigned mark = (w->first_mark + w->mark_count++) % MARKS;
            w->arrived[mark] = now();
            w->marked[mark] = (size_t)got;
            w->count += (size_t)got;
        } else if (got < 0 && errno == EAGAIN) {
            w->readable = false;
        } else if (got == 0) {
            w->ended = true;
        } else if (errno != EINTR) {
            c->dead = true;
            return;
        }
    }
}

/* Bytes that may leave as far as the delay is concerned; else *due is when the next may. */
static size_t ripe(const struct way *w, uint64_t delay, uint64_t time, uint64_t *due)
{
    size_t count = 0;
    for (unsigned i = 0; i < w->mark_count; i++) {
        unsigned mark = (w->first_mark + i) % MARKS;
        if (w->arrived[mark] + delay > time) {
            if (!count && w->arrived[mark] + delay < *due)
                *due = w->arrived[mark] + delay;
            break;
        }
        count += w->marked[mark];
    }
    return count;
}

static void unmark(struct way *w, size_t count)
{
    while (count > 0) {
        size_t *marked = &w->marked[w->first_mark];
        size_t part = *marked < count ? *marked : count;
        *marked -= part;
        count -= part;
        if (!*marked) {
            w->first_mark = (w->first_mark + 1) % MARKS;
            w->mark_count--;
        }
    }
}

/* A turn of one queue. How many bytes have left. */
static size_t send_some(struct connection *c, int i, uint64_t time, uint64_t *due)
{
    struct way *w = &c->ways[i];
    size_t sent = 0, may = ripe(w, c->delay, time, due);
    if (may > QUANTUM)
        may = QUANTUM;
    while (sent < may && w->writable) {
        size_t part = QUEUE - w->start;
        if (part > may - sent)
            part = may - sent;
        ssize_t n = send(c->ends[1 - i], w->bytes + w->start, part, MSG_NOSIGNAL);
        if (n > 0) {
            w->start = (w->start + (size_t)n) % QUEUE;
            w->count -= (size_t)n;
            sent += (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            w->writable = false;
        } else if (errno != EINTR) {
            c->dead = true;
            break;
        }
    }
    unmark(w, sent);
    if (w->ended && !w->count && !w->told) {
        w->told = true;
        shutdown(c->ends[1 - i], SHUT_WR);
    }
    return sent;
}

/* Lets leave what the link has time for. When something is left that only waits for time, *due is when. */
static void serve_way(int i, uint64_t *due)
{
    uint64_t time = now(), ahead = time + BURST_US * 1000u;
    if (relay.free_at[i] < time)
        relay.free_at[i] = time;
    for (unsigned idle = 0; idle < relay.count;) {
        if (relay.free_at[i] >= ahead) {
            uint64_t again = relay.free_at[i] - BURST_US * 1000u / 2;
            if (again < *due)
                *due = again;
            return;
        }
        struct connection *c = relay.all[relay.turn[i]++ % relay.count];
        if (!c->dead)
            fill(c, i);
        size_t sent = c->dead ? 0 : send_some(c, i, time, due);
        relay.free_at[i] += (uint64_t)((double)sent / relay.rate);
        idle = sent ? 0 : idle + 1;
    }
}

static void bury(void)
{
    for (unsigned n = 0; n < relay.count;) {
        struct connection *c = relay.all[n];
        if (!c->dead && !(c->ways[0].told && c->ways[1].told)) {
            n++;
            continue;
        }
        relay.all[n] = relay.all[--relay.count];
        if (c->dead)                                      /* the other end should see an error, too */
            for (int i = 0; i < 2; i++)
                setsockopt(c->ends[i], SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
        close(c->ends[0]);
        close(c->ends[1]);
        free(c);
    }
}

static void set_timer(uint64_t due)
{
    struct itimerspec when = { 0 };
    if (due != UINT64_MAX) {
        when.it_value.tv_sec = (time_t)(due / 1000000000u);
        when.it_value.tv_nsec = (long)(due % 1000000000u) + (due == 0);
    }
    timerfd_settime(relay.timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool turn(void)
{
    struct epoll_event events[64];
    int n = epoll_wait(relay.epoll, events, 64, -1);
    for (int i = 0; i < n; i++) {
        uint64_t what = events[i].data.u64;
        if (what == 0) {
            char byte;
            if (read(0, &byte, 1) <= 0)
                return false;
        } else if (what == 1) {
            take_connection();
        } else if (what == 2) {
            uint64_t count;
            ssize_t ignored = read(relay.timer, &count, sizeof count);
            (void)ignored;
        } else {
            struct connection *c = (struct connection *)(uintptr_t)(what & ~(uint64_t)1);
            int end = (int)(what & 1);
            if (events[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
                c->ways[end].readable = true;
            if (events[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
                c->ways[1 - end].writable = true;
        }
    }
    uint64_t due = UINT64_MAX;
    serve_way(0, &due);
    serve_way(1, &due);
    bury();
    set_timer(due);
    return true;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench_link: %s: %s\n", what, strerror(errno));
    return 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof at;
    if (argc < 3 || atof(argv[2]) <= 0) {
        fprintf(stderr, "usage: bench_link PORT BYTES_PER_SECOND [DELAY_US]\n");
        return 2;
    }
    relay.target = atoi(argv[1]);
    relay.rate = atof(argv[2]) / 1e9;
    relay.delay = argc > 3 ? strtoull(argv[3], NULL, 10) * 1000u : 0;
    relay.epoll = epoll_create1(EPOLL_CLOEXEC);
    relay.timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    relay.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (relay.epoll < 0 || relay.timer < 0 || relay.listener < 0)
        return fail("cannot begin");
    tune(relay.listener);                                 /* before the handshake: it bounds the window */
    if (bind(relay.listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(relay.listener, 64) != 0 ||
        getsockname(relay.listener, (struct sockaddr *)&at, &size) != 0)
        return fail("cannot listen");
    epoll_ctl(relay.epoll, EPOLL_CTL_ADD, relay.listener, &(struct epoll_event){ .events = EPOLLIN, .data.u64 = 1 });
    epoll_ctl(relay.epoll, EPOLL_CTL_ADD, relay.timer, &(struct epoll_event){ .events = EPOLLIN, .data.u64 = 2 });
    if (epoll_ctl(relay.epoll, EPOLL_CTL_ADD, 0, &(struct epoll_event){ .events = EPOLLIN, .data.u64 = 0 }) != 0)
        return fail("stdin must be a pipe");
    printf("port %d\n", ntohs(at.sin_port));
    fflush(stdout);
    while (turn())
        ;
    return 0;
}
