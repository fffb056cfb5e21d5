/*
 * listener.c: sockets that servers listen on.
 *
 * A unix socket's file outlives a server that was killed. Who may replace it is settled by a lock on
 * "<path>.lock", held as long as the listener lives (the kernel drops it with the process): with the lock in
 * hand nobody else can be listening, except a program that does not know the lock, which is asked by
 * connecting. The lock file stays behind; removing it would let two servers hold two different locks.
 */
#include "cpu/rpc/transport/address.h"
#include "cpu/rpc/transport/channel.h"

#include "cpu/common/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 128, URI_SIZE = RPC_HOST_SIZE + RPC_PATH_SIZE + 16 };

struct rpc_listener {
    int  fd;
    int  lock;                              /* -1: TCP, or a socket that somebody else has made */
    char path[RPC_PATH_SIZE];               /* what is removed in the end; empty: nothing */
    char uri[URI_SIZE];
};

/* The descriptor of the held lock, or -errno. */
static int lock_path(const char *path)
{
    char name[RPC_PATH_SIZE + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    int fd = fd_keep(open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int status = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
    close(fd);
    return status;
}

static bool somebody_listens(const struct sockaddr_un *at)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true;                        /* unknown: leave the file alone */
    bool refused = connect(fd, (const struct sockaddr *)at, sizeof *at) != 0 && errno == ECONNREFUSED;
    close(fd);
    return !refused;
}

static int bind_unix(int fd, const struct sockaddr_un *at, mode_t mode)
{
    /* The file is made with the socket's mode less the umask, so it is never more open than it should be. */
    if (fchmod(fd, mode) != 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)at, sizeof *at) != 0) {
        struct stat there;
        if (errno != EADDRINUSE)
            return -errno;
        if (lstat(at->sun_path, &there) != 0 || !S_ISSOCK(there.st_mode) || somebody_listens(at))
            return -EADDRINUSE;
        if (unlink(at->sun_path) != 0 || bind(fd, (const struct sockaddr *)at, sizeof *at) != 0)
            return -errno;
    }
    if (chmod(at->sun_path, mode) != 0 || listen(fd, BACKLOG) != 0) {
        int status = -errno;
        unlink(at->sun_path);
        return status;
    }
    return 0;
}

static void take_unix(int fd, int lock, const struct rpc_address *address, struct rpc_listener *listener)
{
    listener->fd = fd;
    listener->lock = lock;
    snprintf(listener->uri, sizeof listener->uri, "%s://%s", address->kind == RPC_ADDRESS_SHM ? "shm" : "unix",
             address->path);
}

static int listen_unix(const struct rpc_address *address, struct rpc_listener *listener)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    memcpy(at.sun_path, address->path, sizeof at.sun_path);
    int lock = lock_path(address->path);
    if (lock < 0)
        return lock;
    int fd = fd_keep(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    int status = fd < 0 ? -errno : bind_unix(fd, &at, address->mode);
    if (status < 0) {
        if (fd >= 0)
            close(fd);
        close(lock);
        return status;
    }
    take_unix(fd, lock, address, listener);
    memcpy(listener->path, address->path, sizeof listener->path);
    return 0;
}

static int listen_on(const struct addrinfo *one)
{
    int on = 1;
    int fd = fd_keep(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);   /* a restarted server need not wait a minute */
    if (bind(fd, one->ai_addr, one->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    return fd;
}

static void take_tcp(int fd, const struct rpc_address *address, struct rpc_listener *listener)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof at;
    unsigned port = 0;
    if (getsockname(fd, (struct sockaddr *)&at, &size) == 0)
        port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                              : ((struct sockaddr_in *)&at)->sin_port);
    bool brackets = strchr(address->host, ':') != NULL;
    snprintf(listener->uri, sizeof listener->uri, "%s://%s%s%s:%u", address->kind == RPC_ADDRESS_TLS ? "tls" : "tcp",
             brackets ? "[" : "", address->host, brackets ? "]" : "", port);
    listener->fd = fd;
    listener->lock = -1;
}

static int listen_tcp(const struct rpc_address *address, struct rpc_listener *listener, const char **why)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(address->host, address->service, &hints, &found);
    if (failure != 0) {
        *why = gai_strerror(failure);
        return -EADDRNOTAVAIL;
    }
    int fd = -EADDRNOTAVAIL;
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next)
        fd = listen_on(one);
    freeaddrinfo(found);
    if (fd < 0)
        return fd;

    take_tcp(fd, address, listener);
    return 0;
}

int rpc_listener_open(const char *uri, rpc_listener **out, char *error)
{
    struct rpc_address address;
    const char *why = NULL;
    int status = rpc_address_parse(uri, &address, error);
    if (status < 0)
        return status;
    struct rpc_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return rpc_explain(error, -ENOMEM, "listening on %s: no memory", uri);
    if (*address.pin || *address.name) {
        free(listener);
        return rpc_explain(error, -EINVAL, "listening on %s: ?sha256= and ?name= are for clients", uri);
    }
    bool tcp = address.kind == RPC_ADDRESS_TCP || address.kind == RPC_ADDRESS_TLS;
    status = tcp ? listen_tcp(&address, listener, &why) : listen_unix(&address, listener);
    if (status < 0) {
        free(listener);
        return rpc_explain(error, status, "listening on %s: %s%s", uri, why ? why : strerror(-status),
                           status == -EADDRINUSE ? " (is another server running there?)" : "");
    }
    *out = listener;
    return 0;
}

int rpc_listener_adopt(const char *uri, int fd, rpc_listener **out, char *error)
{
    struct rpc_address address;
    int listens = 0, status = rpc_address_parse(uri, &address, error);
    socklen_t size = sizeof listens;
    if (status < 0)
        return status;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
        return rpc_explain(error, -EINVAL, "descriptor %d is no socket that listens", fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    struct rpc_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return rpc_explain(error, -ENOMEM, "listening on %s: no memory", uri);
    if (address.kind == RPC_ADDRESS_TCP || address.kind == RPC_ADDRESS_TLS)
        take_tcp(fd, &address, listener);
    else
        take_unix(fd, -1, &address, listener);
    *out = listener;
    return 0;
}

int rpc_listener_fd(const rpc_listener *listener)
{
    return listener->fd;
}

const char *rpc_listener_uri(const rpc_listener *listener)
{
    return listener->uri;
}

int rpc_listener_accept(rpc_listener *listener)
{
    for (;;) {
        int fd = fd_keep(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC));
        if (fd >= 0) {
            rpc_socket_tune(fd);
            return fd;
        }
        if (errno != EINTR && errno != ECONNABORTED)
            return -errno;
    }
}

void rpc_listener_close(rpc_listener *listener)
{
    if (!listener)
        return;
    if (listener->path[0])
        unlink(listener->path);
    close(listener->fd);
    if (listener->lock >= 0)
        close(listener->lock);
    free(listener);
}
