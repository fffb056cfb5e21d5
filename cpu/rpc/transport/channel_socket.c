/*
 * channel_socket.c: channels over connected stream sockets (TCP and unix). The descriptor stays in whatever
 * mode it was in: every call says MSG_DONTWAIT itself, and MSG_NOSIGNAL, so that no SIGPIPE is ever raised.
 */
#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/transport/liveness.h"

#include "cpu/common/cancel.h"
#include "cpu/common/clock.h"
#include "cpu/common/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* So much may lie unsent in a TCP socket: it is what others' calls have to stand behind. */
enum { TCP_UNSENT = 512 * 1024 };

/* What a unix socket should hold: a call with FLYT_MAX_INLINE bytes. The system may grant less. */
enum { UNIX_BUFFER = 2 * 1024 * 1024 };

void rpc_socket_tune(int fd)
{
    int domain = 0, on = 1;
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0)
        return;
    if (domain == AF_UNIX) {
        int wanted = UNIX_BUFFER, now = 0;
        size = sizeof now;
        /* never less than it is: a test may have chosen a small one (the system doubles what is asked for) */
        if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &now, &size) == 0 && now >= 64 * 1024 && now < wanted)
            setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
        return;
    }
    int unsent = TCP_UNSENT;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    rpc_network_watch(fd);
}

struct socket_channel {
    rpc_channel base;
    int         fd;
    int         wake;           /* eventfd */
};

static struct socket_channel *of(rpc_channel *channel)
{
    return (struct socket_channel *)channel;
}

static ssize_t socket_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    CANCEL_OFF;
    struct msghdr message = { .msg_iov = (struct iovec *)vector, .msg_iovlen = (size_t)count };
    for (;;) {
        /* one piece, as most are: the kernel need not fetch and check a list */
        ssize_t sent = count == 1
                           ? send(of(channel)->fd, vector->iov_base, vector->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                           : sendmsg(of(channel)->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0)
            return sent;
        if (errno == EINTR)
            continue;
        return errno == EWOULDBLOCK || errno == ENOBUFS ? -EAGAIN : -errno;
    }
}

static ssize_t socket_receive(rpc_channel *channel, struct rpc_inbox *inbox)
{
    CANCEL_OFF;
    size_t room;
    uint8_t *into = rpc_inbox_room(inbox, &room);
    if (!into)
        return -ENOMEM;
    for (;;) {
        ssize_t got = recv(of(channel)->fd, into, room, MSG_DONTWAIT);
        if (got >= 0) {
            rpc_inbox_received(inbox, (size_t)got);
            return got;
        }
        if (errno == EINTR)
            continue;
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    }
}

static ssize_t socket_receive_into(rpc_channel *channel, const struct iovec *vector, int count)
{
    CANCEL_OFF;
    struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)vector, .msg_iovlen = (size_t)count };
    for (;;) {
        ssize_t got = recvmsg(of(channel)->fd, &message, MSG_DONTWAIT);
        if (got >= 0)
            return got;
        if (errno == EINTR)
            continue;
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    }
}

static int socket_poll(rpc_channel *channel, int events, int timeout_ms, bool wakeable)
{
    CANCEL_OFF;
    struct pollfd fds[2] = {
        { .fd = of(channel)->fd, .events = (short)events },
        { .fd = of(channel)->wake, .events = POLLIN },
    };
    uint64_t deadline = timeout_ms > 0 ? clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS : 0;
    for (;;) {
        int ready = poll(fds, wakeable ? 2 : 1, timeout_ms);
        if (ready == 0)
            return 0;
        if (ready > 0)
            break;
        if (errno != EINTR)
            return -errno;
        if (timeout_ms > 0)
            timeout_ms = clock_poll_timeout(deadline);
    }
    int result = fds[0].revents & events;
    if (fds[0].revents & (POLLERR | POLLHUP | POLLNVAL))
        result |= events;           /* send or receive will say what it is */
    if (wakeable && (fds[1].revents & POLLIN)) {
        uint64_t count;
        ssize_t ignored = read(of(channel)->wake, &count, sizeof count);    /* non-blocking; only this thread reads */
        (void)ignored;
        result |= RPC_CHANNEL_WOKEN;
    }
    return result;
}

static int socket_peer(rpc_channel *channel)
{
    struct pollfd poller = { .fd = of(channel)->fd, .events = POLLRDHUP };
    if (poll(&poller, 1, 0) > 0 && poller.revents)
        return -ECONNRESET;
    return rpc_network_silent(of(channel)->fd) ? -ETIMEDOUT : 0;
}

static void socket_wake(rpc_channel *channel)
{
    CANCEL_OFF;
    uint64_t one = 1;
    ssize_t ignored = write(of(channel)->wake, &one, sizeof one);   /* full means: woken already */
    (void)ignored;
}

static void socket_shutdown(rpc_channel *channel)
{
    shutdown(of(channel)->fd, SHUT_RDWR);
}

/* Once: the numbers may be others' afterwards. */
static void socket_abandon(rpc_channel *channel)
{
    int *const ours[] = { &of(channel)->fd, &of(channel)->wake };
    for (int i = 0; i < 2; i++) {
        if (*ours[i] >= 0)
            close(*ours[i]);
        *ours[i] = -1;
    }
}

static void socket_destroy(rpc_channel *channel)
{
    socket_abandon(channel);
    free(channel);
}

static const struct rpc_channel_operations socket_operations = {
    .send = socket_send,
    .receive = socket_receive,
    .receive_into = socket_receive_into,
    .descriptor = rpc_channel_socket,
    .poll = socket_poll,
    .peer = socket_peer,
    .wake = socket_wake,
    .shutdown = socket_shutdown,
    .destroy = socket_destroy,
    .abandon = socket_abandon,
    .part = socket_abandon,
};

int rpc_channel_from_fd(int fd, rpc_channel **out, char *error)
{
    int type = 0, domain = 0;
    socklen_t size = sizeof type;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0)
        return rpc_explain(error, -errno, "descriptor %d is no socket: %s", fd, strerror(errno));
    size = sizeof domain;
    if (type != SOCK_STREAM || getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0)
        return rpc_explain(error, -EPROTOTYPE, "descriptor %d is no stream socket", fd);

    struct socket_channel *channel = malloc(sizeof *channel);
    if (!channel)
        return rpc_explain(error, -ENOMEM, "no memory for a connection");
    int wake = fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (wake < 0) {
        int status = -errno;
        free(channel);
        return rpc_explain(error, status, "no eventfd for a connection: %s", strerror(-status));
    }
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    rpc_socket_tune(fd);
    channel->base.operations = &socket_operations;
    atomic_init(&channel->base.transport, domain == AF_UNIX ? "unix" : "tcp");
    atomic_init(&channel->base.direct, false);
    channel->fd = fd;
    channel->wake = wake;
    *out = &channel->base;
    return 0;
}

int rpc_channel_socket(const rpc_channel *channel)
{
    return ((const struct socket_channel *)channel)->fd;
}
