/* connect.c: a channel to the server that a URI names (rpc.h). */
#include "cpu/rpc/transport/channel.h"
#include "cpu/rpc/call/knock.h"
#include "cpu/rpc/call/lane.h"
#include "cpu/rpc/tls/channel_tls.h"
#include "cpu/rpc/transport/address.h"

#include "cpu/common/clock.h"
#include "cpu/common/env.h"
#include "cpu/common/fd.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>


/* A unix socket whose queue of connections is full refuses at once; so often it is asked again. */
enum { UNIX_RETRY_MS = 5 };

/* A host that no neighbour knows at present may only just have had its cable pulled; so often it is asked for again. */
enum { UNREACHED_RETRY_MS = 100 };

/* Waits until a connection in progress is there. 0 or -errno. */
static int connect_finish(int fd, uint64_t deadline)
{
    struct pollfd poller = { .fd = fd, .events = POLLOUT };
    for (;;) {
        int ready = poll(&poller, 1, clock_poll_timeout(deadline));
        if (ready == 0)
            return -ETIMEDOUT;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0)
            return -errno;
        int failure = 0;
        socklen_t size = sizeof failure;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
            return -errno;
        return -failure;
    }
}

/* A connected socket, or -errno. */
static int connect_to(const struct sockaddr *to, socklen_t size, uint64_t deadline)
{
    int fd = fd_keep(socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0)
        return -errno;
    int status = 0;
    while (connect(fd, to, size) != 0) {
        if (errno == EINTR)
            continue;
        if (errno == EISCONN)
            break;
        if (errno == EINPROGRESS || errno == EALREADY) {
            status = connect_finish(fd, deadline);
            break;
        }
        if (errno == EAGAIN && to->sa_family == AF_UNIX && clock_now() < deadline) {
            poll(NULL, 0, UNIX_RETRY_MS);       /* its queue is full; there is nothing to wait on */
            continue;
        }
        status = -errno;
        break;
    }
    if (status == 0)
        return fd;
    close(fd);
    return status;
}

/*
 * Whether the socket may be one that another user has put there to be taken for the server. In a folder where everybody
 * may write, such as /tmp, only root's sockets and our own count. `own` of a GPU server belongs to the server's user:
 * what counts is the first folder above that is not the socket's owner's.
 */
static bool planted(const char *path, uid_t *owner)
{
    char folder[RPC_PATH_SIZE];
    struct stat socket, above;
    if (stat(path, &socket) != 0 || socket.st_uid == 0 || socket.st_uid == geteuid())
        return false;
    *owner = socket.st_uid;
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash; (slash = strrchr(folder, '/'));) {
        slash[slash == folder] = '\0';
        if (stat(folder, &above) != 0)
            return false; /* connecting says why */
        if (above.st_uid != socket.st_uid)
            return above.st_mode & S_IWOTH;
        if (slash == folder)
            break;
    }
    return true; /* the whole path is that user's */
}

static int connect_unix(const char *uri, const struct rpc_address *address, uint64_t deadline, char *error)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    memcpy(to.sun_path, address->path, sizeof to.sun_path);
    uid_t owner;
    if (planted(address->path, &owner) && !env_get("FLYT_FOREIGN_SOCKET"))
        return rpc_explain(
            error, -EACCES,
            "connecting to %s: the socket belongs to user %u, and lies where everybody may write. If that "
            "is the server's user, set FLYT_FOREIGN_SOCKET=1, or put the socket into a folder of its own",
            uri, (unsigned)owner);
    int fd = connect_to((struct sockaddr *)&to, sizeof to, deadline);
    if (fd < 0)
        return rpc_explain(error, fd, "connecting to %s: %s%s", uri, strerror(-fd),
                           fd == -ENOENT || fd == -ECONNREFUSED ? " (no server is listening there)" : "");
    return fd;
}

/* A lookup that may outlive the wait for it: a name server that does not answer keeps getaddrinfo busy for a minute. */
struct lookup {
    struct gaicb request;
    struct gaicb *list[1];
    struct addrinfo hints;
    char host[RPC_HOST_SIZE], service[RPC_SERVICE_SIZE];
};

/* As getaddrinfo, but not beyond the deadline: EAI_AGAIN then. */
static int look_up(const struct rpc_address *address, uint64_t deadline, struct addrinfo **found)
{
    const struct addrinfo numeric = { .ai_family = AF_UNSPEC,
                                      .ai_socktype = SOCK_STREAM,
                                      .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
    if (getaddrinfo(address->host, address->service, &numeric, found) == 0)
        return 0;
    struct lookup *lookup = malloc(sizeof *lookup);
    if (!lookup)
        return EAI_MEMORY;
    *lookup =
        (struct lookup){ .hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV } };
    memcpy(lookup->host, address->host, sizeof lookup->host);
    memcpy(lookup->service, address->service, sizeof lookup->service);
    lookup->request.ar_name = lookup->host;
    lookup->request.ar_service = lookup->service;
    lookup->request.ar_request = &lookup->hints;
    lookup->list[0] = &lookup->request;
    int failure = getaddrinfo_a(GAI_NOWAIT, lookup->list, 1, NULL);
    while (failure == 0 && (failure = gai_error(&lookup->request)) == EAI_INPROGRESS && clock_now() < deadline) {
        struct timespec left = clock_timespec(deadline - clock_now());
        const struct gaicb *const waited[] = { &lookup->request };
        gai_suspend(waited, 1, &left); /* its answer is the reason to look, whatever it is */
        failure = 0;
    }
    if (failure == EAI_INPROGRESS && gai_cancel(&lookup->request) != EAI_CANCELED)
        return EAI_AGAIN; /* libc still writes into it: it stays, once per such failure */
    *found = lookup->request.ar_result;
    free(lookup);
    return failure == EAI_INPROGRESS ? EAI_AGAIN : failure;
}

static int connect_tcp(const char *uri, const struct rpc_address *address, uint64_t deadline, char *error)
{
    struct addrinfo *found = NULL;
    int failure = look_up(address, deadline, &found);
    if (failure != 0) /* -EHOSTUNREACH: the name server did not answer; later it may */
        return rpc_explain(error, failure == EAI_AGAIN ? -EHOSTUNREACH : -EADDRNOTAVAIL,
                           "connecting to %s: looking up %s: %s", uri, address->host, gai_strerror(failure));
    int fd = -EHOSTUNREACH;
    for (struct addrinfo *one = found; one;) {
        fd = connect_to(one->ai_addr, one->ai_addrlen, deadline);
        if (fd >= 0)
            break;
        one = one->ai_next;
        if (one || fd != -EHOSTUNREACH || clock_now() >= deadline)
            continue;
        poll(NULL, 0, UNREACHED_RETRY_MS);
        one = found;
    }
    freeaddrinfo(found);
    if (fd < 0)
        return rpc_explain(error, fd, "connecting to %s: %s%s", uri, strerror(-fd),
                           fd == -ECONNREFUSED ? " (no server is listening there)" : "");
    return fd;
}

int rpc_socket_connect(const char *uri, uint64_t deadline, char *error)
{
    struct rpc_address address;
    int status = rpc_address_parse(uri, &address, error);
    if (status < 0)
        return status;
    if (address.kind != RPC_ADDRESS_TCP && address.kind != RPC_ADDRESS_TLS)
        return rpc_explain(error, -EINVAL, "%s is no tcp:// or tls:// address", uri);
    return connect_tcp(uri, &address, deadline, error);
}

/* A connected socket, or a negative error. */
static int connect_socket(const char *uri, const struct rpc_address *address, uint64_t deadline, char *error)
{
    bool tcp = address->kind == RPC_ADDRESS_TCP || address->kind == RPC_ADDRESS_TLS;
    return tcp ? connect_tcp(uri, address, deadline, error) : connect_unix(uri, address, deadline, error);
}

bool rpc_listens(const char *uri, uint64_t deadline)
{
    struct rpc_address address;
    int fd = rpc_address_parse(uri, &address, NULL) < 0 ? -1 : connect_socket(uri, &address, deadline, NULL);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int connect_tls(const char *uri, int fd, const struct rpc_address *address, const struct rpc_tls_files *files,
                       uint64_t deadline, rpc_channel **out, char *error)
{
    char why[RPC_ERROR_SIZE] = "";
    int status = rpc_tls_load_connect(fd, address, files, deadline, out, why);
    return status < 0 ? rpc_explain(error, status, "connecting to %.*s: %s", (int)strcspn(uri, "?"), uri, why) : 0;
}

static const char *setting(const char *name)
{
    const char *value = env_get(name);
    return value && *value ? value : NULL;
}

/* size bytes at hello (0: none) are said before anything else; they are shorter than any socket's buffer. */
static int connect_saying(const char *uri, int timeout_ms, int total_ms, const uint8_t *hello, size_t size,
                          rpc_channel **out, char *error)
{
    struct rpc_address address;
    int status = rpc_address_parse(uri, &address, error);
    if (status < 0)
        return status;
    uint64_t now = clock_now(), end = now + (uint64_t)(total_ms > 0 ? total_ms : 0) * CLOCK_NS_PER_MS,
             deadline = now + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * CLOCK_NS_PER_MS;
    const struct rpc_tls_files files = { setting("FLYT_TLS_CA"), setting("FLYT_TLS_CERTIFICATE"),
                                         setting("FLYT_TLS_KEY") };
    if (address.kind == RPC_ADDRESS_TLS && (status = rpc_tls_check_client(uri, &address, &files, error)) < 0)
        return status;
    int fd = connect_socket(uri, &address, deadline, error);
    if (fd < 0)
        return fd;
    if (size && send(fd, hello, size, MSG_NOSIGNAL) != (ssize_t)size) {
        close(fd);
        return rpc_explain(error, -ECONNRESET, "connecting to %s: the connection ended at once", uri);
    }
    if (address.kind == RPC_ADDRESS_TLS)
        return connect_tls(uri, fd, &address, &files, end, out, error);
    status = rpc_channel_from_fd(fd, out, error);
    if (status < 0)
        close(fd);
    else if (address.kind == RPC_ADDRESS_SHM)
        status = rpc_channel_offer(*out, true, out, error);
    return status;
}

int rpc_channel_connect(const char *uri, int timeout_ms, rpc_channel **out, char *error)
{
    return connect_saying(uri, timeout_ms, timeout_ms + RPC_HANDSHAKE_MS, NULL, 0, out, error);
}

int rpc_channel_connect_within(const char *uri, int timeout_ms, int total_ms, const void *ticket, size_t size,
                               rpc_channel **out, char *error)
{
    uint8_t knock[RPC_KNOCK_MOST];
    return connect_saying(uri, timeout_ms, total_ms, knock, rpc_knock_put(knock, ticket, size), out, error);
}

int rpc_lane_connect(const char *uri, int timeout_ms, const uint8_t hello[RPC_LANE_HEAD], rpc_channel **out,
                     char *error)
{
    if (strncmp(uri, "shm://", 6) == 0)
        return rpc_explain(error, -EINVAL, "%s: there are no lanes over shared memory", uri);
    return connect_saying(uri, timeout_ms, timeout_ms + RPC_HANDSHAKE_MS, hello, RPC_LANE_HEAD, out, error);
}
