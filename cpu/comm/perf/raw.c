/* raw.c: raw streams, for comparison. A thread for each connection, which blocks. See perf.h. */
#include "cpu/comm/perf/perf.h"

#include "cpu/comm/link/nic.h"
#include "cpu/common/clock.h"
#include "cpu/common/env.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct raw_work {
    uint8_t *memory;
    uint64_t size;
    atomic_uint_fast64_t next; /* the first chunk that no thread has taken */
};

struct raw_stream {
    struct raw_work *work;
    int fd, status;
    pthread_t thread;
};

int perf_raw_listen(const struct perf_options *options, struct perf_raw *raw, int fds[COMM_NICS_MOST], char *error)
{
    struct comm_nic nics[COMM_NICS_MOST];
    const char *names = options->interfaces ? options->interfaces : env_get("FLYT_COMM_INTERFACES");
    int count = comm_nic_list(names, nics, error);
    if (count < 0)
        return count;
    raw->count = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        struct sockaddr_storage at;
        socklen_t size = comm_nic_socket_address(&nics[i].address, &at);
        fds[i] = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&at, size) != 0 || listen(fds[i], 64) != 0 ||
            getsockname(fds[i], (struct sockaddr *)&at, &size) != 0)
            return -errno;
        raw->addresses[i] = nics[i].address;
        raw->addresses[i].port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                                                : ((struct sockaddr_in *)&at)->sin_port);
    }
    return 0;
}

/* Where the next bytes go, or come from; at most a chunk. 0: there are no more. */
static uint64_t take(struct raw_work *work, uint64_t *at)
{
    *at = atomic_fetch_add(&work->next, COMM_CHUNK);
    return *at >= work->size ? 0 : work->size - *at < COMM_CHUNK ? work->size - *at : COMM_CHUNK;
}

static void *receive_stream(void *context)
{
    struct raw_stream *s = context;
    for (;;) {
        uint64_t at = atomic_fetch_add(&s->work->next, COMM_CHUNK) % s->work->size;
        uint64_t most = s->work->size - at < COMM_CHUNK ? s->work->size - at : COMM_CHUNK;
        for (uint64_t done = 0; done < most;) {
            ssize_t got = recv(s->fd, s->work->memory + at + done, most - done, 0);
            if (got <= 0) {
                s->status = got < 0 ? -errno : 0;
                return NULL;
            }
            done += (uint64_t)got;
        }
    }
}

static void *send_stream(void *context)
{
    struct raw_stream *s = context;
    uint64_t at, left;
    char answer;
    while ((left = take(s->work, &at)) > 0) {
        while (left > 0) {
            ssize_t sent = send(s->fd, s->work->memory + at, left, MSG_NOSIGNAL);
            if (sent <= 0) {
                s->status = -errno;
                return NULL;
            }
            at += (uint64_t)sent;
            left -= (uint64_t)sent;
        }
    }
    if (shutdown(s->fd, SHUT_WR) != 0 || recv(s->fd, &answer, 1, MSG_WAITALL) != 1)
        s->status = -ECONNRESET;
    return NULL;
}

static int run_all(struct raw_stream *streams, unsigned count, void *(*run)(void *))
{
    unsigned started = 0;
    int status = 0;
    for (; started < count && status == 0; started += status == 0)
        status = -pthread_create(&streams[started].thread, NULL, run, &streams[started]);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(streams[i].thread, NULL);
        status = status == 0 ? streams[i].status : status;
    }
    return status;
}

int perf_raw_receive(const int *fds, unsigned count, unsigned channels, uint8_t *memory, uint64_t size)
{
    struct raw_work work = { .memory = memory, .size = size };
    struct raw_stream streams[COMM_CHANNELS_MOST];
    int status = 0;
    for (unsigned i = 0; i < channels; i++) {
        /* In the order in which the other end connects, a card at a time. */
        int fd = accept4(fds[(i + 1) % count], NULL, NULL, SOCK_CLOEXEC);
        streams[i] = (struct raw_stream){ .work = &work, .fd = fd };
        status = streams[i].fd < 0 ? -errno : status;
    }
    if (status == 0)
        status = run_all(streams, channels, receive_stream);
    for (unsigned i = 0; i < channels; i++) {
        if (streams[i].fd < 0)
            continue;
        if (status == 0 && send(streams[i].fd, "", 1, MSG_NOSIGNAL) != 1)
            status = -errno;
        close(streams[i].fd);
    }
    return status;
}

int perf_raw_send(const struct perf_raw *raw, unsigned channels, const uint8_t *memory, uint64_t size, uint64_t *ns)
{
    struct raw_work work = { .memory = (uint8_t *)(uintptr_t)memory, .size = size };
    struct raw_stream streams[COMM_CHANNELS_MOST];
    int status = 0, on = 1;
    for (unsigned i = 0; i < channels; i++) {
        struct sockaddr_storage at;
        socklen_t length = comm_nic_socket_address(&raw->addresses[(i + 1) % raw->count], &at);
        streams[i] = (struct raw_stream){ .work = &work, .fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0) };
        if (streams[i].fd < 0 || connect(streams[i].fd, (struct sockaddr *)&at, length) != 0)
            status = -errno;
        else
            setsockopt(streams[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    uint64_t begin = clock_now();
    if (status == 0)
        status = run_all(streams, channels, send_stream);
    *ns = clock_now() - begin;
    for (unsigned i = 0; i < channels; i++)
        if (streams[i].fd >= 0)
            close(streams[i].fd);
    return status;
}
