/*
 * loop_connect.c: outward connections: look the name up, try its addresses in turn, TLS, all within one deadline.
 *
 * A handle whose connect failed cannot be used again, so each address has a handle of its own (struct attempt) and the
 * winner's socket is handed to the connection's.
 */
#include "control-managers/common/loop_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct connecting {
    struct conn      *conn;             /* NULL: nobody waits any more */
    char              uri[CTL_MAX_URI + 1];
    struct addrinfo  *addresses, *at;
    uv_getaddrinfo_t  lookup;
    uv_poll_t         poll;
    int               fd;               /* being connected, -1: none */
    bool              looking_up, polling, cancelled;
    int               last_error;
    unsigned          timeout_ms;
    struct loop_timer deadline;
    void            (*connected)(struct conn *, int, const char *);
};

static void release(struct connecting *connecting)
{
    if (connecting->looking_up || connecting->polling)
        return;                                 /* their callbacks come back here */
    if (connecting->addresses)
        uv_freeaddrinfo(connecting->addresses);
    free(connecting);
}

static void poll_closed(uv_handle_t *handle)
{
    struct connecting *connecting = handle->data;
    connecting->polling = false;
    release(connecting);
}

/* Lets go of it; what libuv still holds frees it. */
static void detach(struct connecting *connecting)
{
    connecting->cancelled = true;
    connecting->conn = NULL;
    loop_timer_stop(&connecting->deadline);
    if (connecting->looking_up)
        uv_cancel((uv_req_t *)&connecting->lookup);
    if (connecting->polling && !uv_is_closing((uv_handle_t *)&connecting->poll))
        uv_close((uv_handle_t *)&connecting->poll, poll_closed);
    if (connecting->fd >= 0)
        close(connecting->fd);
    connecting->fd = -1;
    release(connecting);
}

void connecting_free(struct conn *conn)
{
    if (!conn->connecting)
        return;
    struct connecting *connecting = conn->connecting;
    conn->connecting = NULL;
    detach(connecting);
}

void connecting_open(struct conn *conn)
{
    struct connecting *connecting = conn->connecting;
    void (*connected)(struct conn *, int, const char *) = connecting->connected;
    conn->connecting = NULL;
    detach(connecting);
    if (connected)
        connected(conn, 0, "");
}

bool connecting_failed(struct conn *conn, int error, const char *why)
{
    struct connecting *connecting = conn->connecting;
    if (!connecting)
        return !conn->accepted;
    void (*connected)(struct conn *, int, const char *) = connecting->connected;
    char text[EXPLAIN_SIZE];
    snprintf(text, sizeof text, "connecting to %s: %.600s", connecting->uri, why);
    conn->connecting = NULL;
    detach(connecting);
    if (connected)
        connected(conn, error, text);
    return true;
}

static void overdue(struct loop_timer *timer, void *context)
{
    struct connecting *connecting = context;
    (void)timer;
    conn_end(connecting->conn, -ETIMEDOUT, "no connection within the time allowed");
}

/* The socket is connected: hands it to the connection. */
static void adopt(struct connecting *connecting, int fd)
{
    struct conn *conn = connecting->conn;
    int failure = conn->is_unix ? uv_pipe_init(&conn->loop->uv, &conn->uv.pipe, 0)
                                : uv_tcp_init(&conn->loop->uv, &conn->uv.tcp);
    if (failure == 0) {
        conn->handle_ready = true;
        conn->uv.handle.data = conn;
        failure = conn->is_unix ? uv_pipe_open(&conn->uv.pipe, fd) : uv_tcp_open(&conn->uv.tcp, fd);
    }
    if (failure < 0) {
        close(fd);
        conn_end(conn, failure, uv_strerror(failure));
        return;
    }
    conn_begin(conn);
}

static void try_next(struct connecting *);

/* A poll handle is bound to one descriptor: a used one has to be closed before the next attempt. */
static void poll_closed_for_next(uv_handle_t *handle)
{
    struct connecting *connecting = handle->data;
    connecting->polling = false;
    if (connecting->cancelled)
        release(connecting);
    else
        try_next(connecting);
}

static void poll_done(uv_poll_t *poll, int status, int events)
{
    struct connecting *connecting = poll->data;
    int error = 0;
    socklen_t size = sizeof error;
    (void)events;
    if (connecting->cancelled)
        return;
    /* The status of a refused connection says only that something is wrong: the socket knows what. */
    if (getsockopt(connecting->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (!error && status < 0)
        error = -status;
    uv_poll_stop(poll);
    if (error) {
        connecting->last_error = -error;
        uv_close((uv_handle_t *)poll, poll_closed_for_next);
        close(connecting->fd);
        connecting->fd = -1;
        return;
    }
    /* A descriptor of its own: closing the poll handle would take this one out of the loop's epoll. */
    int fd = fcntl(connecting->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        conn_end(connecting->conn, -errno, strerror(errno));
    else
        adopt(connecting, fd);
}

static int begin_attempt(struct connecting *connecting, const struct sockaddr *address, socklen_t size)
{
    struct conn *conn = connecting->conn;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, address, size) < 0 && errno != EINPROGRESS) {
        int failure = -errno;
        close(fd);
        return failure;
    }
    int failure = uv_poll_init(&conn->loop->uv, &connecting->poll, fd);
    if (failure < 0) {
        close(fd);
        return failure;
    }
    connecting->fd = fd;
    connecting->polling = true;
    connecting->poll.data = connecting;
    return uv_poll_start(&connecting->poll, UV_WRITABLE, poll_done);
}

static void failed(struct connecting *connecting)
{
    conn_end(connecting->conn, connecting->last_error, strerror(-connecting->last_error));
}

static void try_next(struct connecting *connecting)
{
    while (connecting->at) {
        struct addrinfo *at = connecting->at;
        connecting->at = at->ai_next;
        int failure = begin_attempt(connecting, at->ai_addr, at->ai_addrlen);
        if (failure == 0)
            return;
        connecting->last_error = failure;
    }
    failed(connecting);
}

static void looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *addresses)
{
    struct connecting *connecting = lookup->data;
    connecting->looking_up = false;
    connecting->addresses = addresses;
    if (connecting->cancelled) {
        release(connecting);
        return;
    }
    if (status < 0) {
        conn_end(connecting->conn, status, uv_strerror(status));
        return;
    }
    connecting->at = addresses;
    connecting->last_error = -EHOSTUNREACH;
    try_next(connecting);
}

/* A numeric address needs no thread that looks it up. */
static void begin_numeric(struct loop_timer *timer, void *context)
{
    struct connecting *connecting = context;
    loop_timer_start(connecting->conn->loop, timer, connecting->timeout_ms, overdue, connecting);
    try_next(connecting);
}

static bool is_numeric(struct connecting *connecting, const struct loop_address *address)
{
    const struct addrinfo numeric = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
    if (getaddrinfo(address->host, address->service, &numeric, &connecting->addresses)) {
        connecting->addresses = NULL;
        return false;
    }
    connecting->at = connecting->addresses;
    connecting->last_error = -EHOSTUNREACH;
    return true;
}

static void begin_unix(struct loop_timer *timer, void *context)
{
    struct connecting *connecting = context;
    struct conn *conn = connecting->conn;
    struct loop_address address;
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    loop_timer_start(conn->loop, timer, connecting->timeout_ms, overdue, connecting);
    loop_address_parse(connecting->uri, &address, NULL);
    memcpy(name.sun_path, address.path, sizeof name.sun_path);
    int failure = begin_attempt(connecting, (struct sockaddr *)&name, sizeof name);
    if (failure) {
        connecting->last_error = failure;
        failed(connecting);
    }
}

int conn_connect(struct loop *loop, const struct conn_options *options, struct conn **out, char *error)
{
    static const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct loop_address address;
    int failure = loop_address_parse(options->uri, &address, error);
    if (failure)
        return failure;
    struct conn *conn = conn_create(loop, options->service, options->context, address.is_unix);
    struct connecting *connecting = calloc(1, sizeof *connecting);
    if (!conn || !connecting) {
        free(connecting);
        if (conn)
            conn_end(conn, -ENOMEM, "no memory");
        return explain(error, -ENOMEM, "no memory to connect to %s", options->uri);
    }
    connecting->conn = conn;
    connecting->fd = -1;
    connecting->connected = options->connected;
    snprintf(connecting->uri, sizeof connecting->uri, "%s", options->uri);
    snprintf(conn->peer, sizeof conn->peer, "%s", options->uri);
    conn->connecting = connecting;
    if (options->tls && !address.is_unix) {
        conn->tls = tls_session_create(options->tls, false, options->tls_name);
        if (!conn->tls) {
            conn_close(conn, "no memory");
            return explain(error, -ENOMEM, "no memory for TLS with %s", options->uri);
        }
    }
    connecting->timeout_ms = options->timeout_ms ? options->timeout_ms : CTL_CALL_SECONDS * 1000;
    if (address.is_unix) {
        loop_timer_start(loop, &connecting->deadline, 0, begin_unix, connecting);
    } else if (is_numeric(connecting, &address)) {
        snprintf(conn->host, sizeof conn->host, "%.63s", address.host);
        loop_timer_start(loop, &connecting->deadline, 0, begin_numeric, connecting);
    } else {
        snprintf(conn->host, sizeof conn->host, "%.63s", address.host);
        loop_timer_start(loop, &connecting->deadline, connecting->timeout_ms, overdue, connecting);
        connecting->lookup.data = connecting;
        failure = uv_getaddrinfo(&loop->uv, &connecting->lookup, looked_up, address.host, address.service, &hints);
        if (failure < 0) {
            conn_close(conn, uv_strerror(failure));
            return explain(error, failure, "looking up %s: %s", address.host, uv_strerror(failure));
        }
        connecting->looking_up = true;
    }
    *out = conn;
    return 0;
}
