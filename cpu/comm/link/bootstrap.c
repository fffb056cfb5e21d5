/* bootstrap.c: see bootstrap.h. */
#include "cpu/comm/link/bootstrap.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/fd.h"
#include "cpu/common/little_endian.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 16, PORT_USUAL = 20000, RETRY_MS = 20 };
static const char magic[8] = { 'F', 'l', 'y', 't', 'B', 'o', 'o', 't' };

static int explain(char *error, int status, const char *what, const char *why)
{
    if (error)
        snprintf(error, RPC_ERROR_SIZE, "exchanging handles: %s: %s", what, why);
    return status;
}

static int find(const char *host, unsigned gpu, struct addrinfo **found, char *error)
{
    char service[16], *end = NULL;
    const char *text = env_get("FLYT_BOOTSTRAP_PORT_BASE");
    unsigned long base = text && *text ? strtoul(text, &end, 10) : PORT_USUAL;
    if ((end && *end) || base < 1 || base + gpu > 65535)
        return explain(error, -EINVAL, "FLYT_BOOTSTRAP_PORT_BASE", "it is a port that leaves room for a GPU's number");
    snprintf(service, sizeof service, "%lu", base + gpu);
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC,
                                    .ai_flags = AI_NUMERICSERV | (host ? 0 : AI_PASSIVE) };
    int failure = getaddrinfo(host, service, &hints, found);
    return failure ? explain(error, -EADDRNOTAVAIL, host ? host : "the port", gai_strerror(failure)) : 0;
}

static int wait_for(int fd, short events, uint64_t deadline)
{
    struct pollfd poller = { .fd = fd, .events = events };
    int ready;
    do
        ready = poll(&poller, 1, clock_poll_timeout(deadline));
    while (ready < 0 && errno == EINTR);
    return ready < 0 ? -errno : ready == 0 ? -ETIMEDOUT : 0;
}

int comm_bootstrap_accept(unsigned gpu, uint64_t deadline, char *error)
{
    struct addrinfo *found = NULL;
    int on = 1, off = 0, status = find(NULL, gpu, &found, error);
    if (status < 0)
        return status;
    int fd = -1;
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next) {
        fd = fd_keep(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (one->ai_family == AF_INET6)
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        if (bind(fd, one->ai_addr, one->ai_addrlen) != 0 || listen(fd, 1) != 0) {
            status = -errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        return explain(error, status < 0 ? status : -errno, "listening", strerror(status < 0 ? -status : errno));
    status = wait_for(fd, POLLIN, deadline);
    int peer = status == 0 ? fd_keep(accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) : status;
    if (status == 0 && peer < 0)
        peer = -errno;
    close(fd);
    return peer < 0 ? explain(error, peer, "waiting for the other process", strerror(-peer)) : peer;
}

static int try_call(const struct addrinfo *found, uint64_t deadline)
{
    int status = -EADDRNOTAVAIL;
    for (const struct addrinfo *one = found; one; one = one->ai_next) {
        int failure = 0;
        socklen_t size = sizeof failure;
        int fd = fd_keep(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (fd < 0)
            return -errno;
        status = connect(fd, one->ai_addr, one->ai_addrlen) == 0 ? 0 : -errno;
        if (status == -EINPROGRESS && (status = wait_for(fd, POLLOUT, deadline)) == 0)
            status = getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 ? -errno : -failure;
        if (status == 0)
            return fd;
        close(fd);
    }
    return status;
}

int comm_bootstrap_call(const char *host, unsigned gpu, uint64_t deadline, char *error)
{
    struct addrinfo *found = NULL;
    int status = find(host, gpu, &found, error);
    if (status < 0)
        return status;
    while ((status = try_call(found, deadline)) == -ECONNREFUSED && clock_now() < deadline)
        poll(NULL, 0, RETRY_MS);
    freeaddrinfo(found);
    return status < 0 ? explain(error, status, host, strerror(-status)) : status;
}

static int move(int fd, uint8_t *bytes, size_t size, bool out, uint64_t deadline)
{
    while (size > 0) {
        ssize_t done = out ? send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, bytes, size, MSG_DONTWAIT);
        if (done > 0) {
            bytes += done;
            size -= (size_t)done;
            continue;
        }
        if (done == 0)
            return -ECONNRESET;
        int status = errno == EINTR                             ? 0
                     : errno == EAGAIN || errno == EWOULDBLOCK ? wait_for(fd, out ? POLLOUT : POLLIN, deadline)
                                                               : -errno;
        if (status < 0)
            return status;
    }
    return 0;
}

int comm_bootstrap_exchange(int fd, const void *mine, size_t size, void *theirs, size_t room, size_t *got,
                            uint64_t deadline, char *error)
{
    uint8_t head[HEAD];
    memcpy(head, magic, sizeof magic);
    little_put(head + sizeof magic, size, 8);
    int status = size > COMM_BOOTSTRAP_MOST ? -EMSGSIZE : move(fd, head, HEAD, true, deadline);
    if (status == 0)
        status = move(fd, head, HEAD, false, deadline);
    /* Both have said how much: no one waits for the other's bytes with its own unsent, as they fit into the socket or
       the other end reads. */
    const uint8_t *at = head + sizeof magic;
    *got = status == 0 ? (size_t)little_get(&at, 8) : 0;
    if (status == 0 && (memcmp(head, magic, sizeof magic) != 0 || *got > room))
        status = -EPROTO;
    for (size_t sent = 0, read = 0; status == 0 && (sent < size || read < *got);) {
        /* in turn, a piece each: neither end's socket can be full in both directions */
        size_t part = size - sent < 4096 ? size - sent : 4096, more = *got - read < 4096 ? *got - read : 4096;
        status = move(fd, (uint8_t *)(uintptr_t)mine + sent, part, true, deadline);
        if (status == 0)
            status = move(fd, (uint8_t *)theirs + read, more, false, deadline);
        sent += part;
        read += more;
    }
    return status < 0 ? explain(error, status, "the other process", strerror(-status)) : 0;
}
