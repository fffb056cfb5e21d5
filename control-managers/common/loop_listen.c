/*
 * loop_listen.c: listeners. Connections beyond the limit wait in the kernel's queue until others have ended.
 */
#include "control-managers/common/loop_internal.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cpu/common/log.h"

/* The kernel takes less where net.core.somaxconn says so. Who finds the queue full is not refused but waits a second or
   three for the next try of his own kernel, and all peers of a manager that was started again come at once. */
enum { BACKLOG = 65535, DEFAULT_MAX_CONNECTIONS = 65536 };

struct loop_listener {
    struct loop  *loop;
    union { uv_handle_t handle; uv_stream_t stream; uv_tcp_t tcp; uv_pipe_t pipe; } uv;
    bool          is_unix, plain_too, waiting;  /* waiting: one is there that was not accepted */
    struct tls_context *tls;
    const struct conn_service *service;
    void         *context;
    size_t        count, max;
    struct conn  *conns;
    char          uri[CTL_MAX_URI + 1];
};

static void accept_next(struct loop_listener *);

void listener_conn_gone(struct conn *conn)
{
    struct loop_listener *listener = conn->listener;
    if (!listener)
        return;
    *conn->listener_back = conn->listener_next;
    if (conn->listener_next)
        conn->listener_next->listener_back = conn->listener_back;
    conn->listener = NULL;
    listener->count--;
    if (listener->waiting)
        accept_next(listener);
}

/* A connection from an address to itself stays on the machine that has it; one from a loopback address anyway. */
static bool peer_is_local(const uv_tcp_t *tcp, const char *peer)
{
    struct sockaddr_storage own;
    int size = sizeof own;
    char host[64];
    if (strncmp(peer, "127.", 4) == 0 || strncmp(peer, "::ffff:127.", 11) == 0 || strcmp(peer, "::1") == 0)
        return true;
    if (uv_tcp_getsockname(tcp, (struct sockaddr *)&own, &size) != 0 ||
        getnameinfo((struct sockaddr *)&own, (socklen_t)size, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return false;
    return strcmp(host, peer) == 0;
}

static void name_peer(struct conn *conn)
{
    struct sockaddr_storage address;
    int size = sizeof address;
    char service[16];
    pid_t pid;
    uid_t uid;
    gid_t gid;
    if (conn->is_unix && conn_peer_credentials(conn, &pid, &uid, &gid))
        snprintf(conn->peer, sizeof conn->peer, "pid %d of uid %u", pid, uid);
    else if (!conn->is_unix && uv_tcp_getpeername(&conn->uv.tcp, (struct sockaddr *)&address, &size) == 0 &&
             getnameinfo((struct sockaddr *)&address, (socklen_t)size, conn->host, sizeof conn->host, service,
                         sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        conn->peer_local = peer_is_local(&conn->uv.tcp, conn->host);
        if (strncmp(conn->host, "::ffff:", 7) == 0)            /* IPv4 through a socket for both */
            memmove(conn->host, conn->host + 7, strlen(conn->host + 7) + 1);
        snprintf(conn->peer, sizeof conn->peer, strchr(conn->host, ':') ? "[%s]:%s" : "%s:%s", conn->host, service);
    } else {
        snprintf(conn->peer, sizeof conn->peer, "a peer that has gone");
    }
}

static void accept_next(struct loop_listener *listener)
{
    struct conn *conn = conn_create(listener->loop, listener->service, listener->context, listener->is_unix);
    listener->waiting = !conn;
    if (!conn)
        return;                                 /* tried again when a connection ends */
    conn->accepted = true;
    int failure = conn->is_unix ? uv_pipe_init(&conn->loop->uv, &conn->uv.pipe, 0)
                                : uv_tcp_init(&conn->loop->uv, &conn->uv.tcp);
    if (failure == 0) {
        conn->handle_ready = true;
        conn->uv.handle.data = conn;
        failure = uv_accept(&listener->uv.stream, &conn->uv.stream);
    }
    if (failure == 0 && listener->tls && !conn->is_unix && listener->plain_too) {
        conn->tls_offered = tls_context_reference(listener->tls);
    } else if (failure == 0 && listener->tls && !conn->is_unix) {
        conn->tls = tls_session_create(listener->tls, true, NULL);
        failure = conn->tls ? 0 : -ENOMEM;
    }
    name_peer(conn);
    if (failure < 0) {
        conn_end(conn, failure, uv_strerror(failure));
        return;
    }
    conn->listener = listener;
    conn->listener_next = listener->conns;
    conn->listener_back = &listener->conns;
    if (conn->listener_next)
        conn->listener_next->listener_back = &conn->listener_next;
    listener->conns = conn;
    listener->count++;
    conn_begin(conn);
}

static void on_connection(uv_stream_t *stream, int status)
{
    struct loop_listener *listener = stream->data;
    if (status < 0) {
        log_warning("event=accept-failed listener=%s why=\"%s\"", listener->uri, uv_strerror(status));
        return;
    }
    if (listener->count >= listener->max) {
        if (!listener->waiting)
            log_warning("event=connections-full listener=%s count=%zu: further ones wait", listener->uri,
                        listener->count);
        listener->waiting = true;
        return;
    }
    accept_next(listener);
}

/* ---- opening ---- */

/* Removes the socket of a daemon that is no more. */
static int clear_stale(const char *path, char *error)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    struct stat status;
    if (lstat(path, &status) < 0)
        return 0;
    if (!S_ISSOCK(status.st_mode))
        return explain(error, -EEXIST, "listening on %s: there is something that is no socket", path);
    snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return explain(error, -errno, "listening on %s: %s", path, strerror(errno));
    int refused = connect(fd, (struct sockaddr *)&name, sizeof name) < 0 && errno == ECONNREFUSED;
    close(fd);
    if (!refused)
        return explain(error, -EADDRINUSE, "listening on %s: another program listens there", path);
    unlink(path);
    return 0;
}

/* libuv says that access is denied where the folder of the socket does not exist. */
static bool lacks_folder(const char *path)
{
    char folder[sizeof((struct sockaddr_un *)0)->sun_path + 1];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder)
        return false;
    *slash = '\0';
    return access(folder, F_OK) != 0 && errno == ENOENT;
}

static int listen_unix(struct loop_listener *listener, const struct loop_listen_options *options, const char *path,
                       char *error)
{
    int failure = clear_stale(path, error);
    if (failure)
        return failure;
    mode_t mode = options->mode ? options->mode : 0600, mask = umask(0177);     /* nobody before chmod */
    failure = uv_pipe_bind(&listener->uv.pipe, path);
    umask(mask);
    if (failure == -EACCES && lacks_folder(path))
        return explain(error, -ENOENT, "listening on %s: its folder does not exist", path);
    if (failure == 0 && options->group && options->group != (gid_t)-1 && chown(path, (uid_t)-1, options->group) < 0)
        failure = -errno;
    if (failure == 0 && chmod(path, mode) < 0)
        failure = -errno;
    if (failure < 0)
        return explain(error, failure, "listening on %s: %s", path, strerror(-failure));
    return 0;
}

static int listen_tcp(struct loop_listener *listener, const struct loop_address *address, const char *uri, char *error)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found;
    int failure = getaddrinfo(*address->host ? address->host : NULL, address->service, &hints, &found);
    if (failure)
        return explain(error, -EADDRNOTAVAIL, "listening on %s: %s", uri, gai_strerror(failure));
    failure = uv_tcp_bind(&listener->uv.tcp, found->ai_addr, 0);
    freeaddrinfo(found);
    return failure < 0 ? explain(error, failure, "listening on %s: %s", uri, uv_strerror(failure)) : 0;
}

static void real_uri(struct loop_listener *listener, const struct loop_address *address)
{
    struct sockaddr_storage bound;
    int size = sizeof bound;
    char service[16] = "0";
    if (listener->is_unix) {
        snprintf(listener->uri, sizeof listener->uri, "unix://%s", address->path);
        return;
    }
    if (uv_tcp_getsockname(&listener->uv.tcp, (struct sockaddr *)&bound, &size) == 0)
        getnameinfo((struct sockaddr *)&bound, (socklen_t)size, NULL, 0, service, sizeof service, NI_NUMERICSERV);
    snprintf(listener->uri, sizeof listener->uri, strchr(address->host, ':') ? "tcp://[%s]:%s" : "tcp://%s:%s",
             address->host, service);
}

static void listener_freed(uv_handle_t *handle)
{
    free(handle->data);
}

int loop_listen(struct loop *loop, const struct loop_listen_options *options, struct loop_listener **out, char *error)
{
    struct loop_address address;
    int failure = loop_address_parse(options->uri, &address, error);
    if (failure)
        return failure;
    struct loop_listener *listener = calloc(1, sizeof *listener);
    if (!listener)
        return explain(error, -ENOMEM, "no memory to listen on %s", options->uri);
    listener->loop = loop;
    listener->is_unix = address.is_unix;
    listener->plain_too = options->plain_too;
    listener->service = options->service;
    listener->context = options->context;
    listener->max = options->max_connections ? options->max_connections : DEFAULT_MAX_CONNECTIONS;
    if (address.is_unix)
        uv_pipe_init(&loop->uv, &listener->uv.pipe, 0);
    else
        uv_tcp_init(&loop->uv, &listener->uv.tcp);
    listener->uv.handle.data = listener;
    loop_listener_set_tls(listener, options->tls);
    failure = address.is_unix ? listen_unix(listener, options, address.path, error)
                              : listen_tcp(listener, &address, options->uri, error);
    if (failure == 0) {
        failure = uv_listen(&listener->uv.stream, BACKLOG, on_connection);
        if (failure < 0)
            explain(error, failure, "listening on %s: %s", options->uri, uv_strerror(failure));
    }
    if (failure < 0) {
        loop_listener_close(listener);
        return failure;
    }
    real_uri(listener, &address);
    *out = listener;
    return 0;
}

const char *loop_listener_uri(const struct loop_listener *listener)
{
    return listener->uri;
}

void loop_listener_set_tls(struct loop_listener *listener, struct tls_context *tls)
{
    struct tls_context *old = listener->tls;
    listener->tls = tls ? tls_context_reference(tls) : NULL;
    tls_context_release(old);
}

void loop_listener_close(struct loop_listener *listener)
{
    if (!listener)
        return;
    listener->waiting = false;
    while (listener->conns) {
        struct conn *conn = listener->conns;
        listener->conns = conn->listener_next;
        conn->listener = NULL;
    }
    tls_context_release(listener->tls);
    listener->tls = NULL;
    uv_close(&listener->uv.handle, listener_freed);         /* removes the socket file */
}
