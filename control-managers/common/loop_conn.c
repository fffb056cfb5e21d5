/*
 * loop_conn.c: one connection's life, and its bytes in and out.
 *
 * A connection that has to end because of something found deep inside a call is doomed: a timer ends it in the next
 * round, so that nobody's pointers die under their hands. conn_end is the one place where connections end.
 * Timers: `stranger` runs until conn_set_role, `half` while a record is incomplete, `slow` while the kernel does not
 * take what we send.
 */
#include "control-managers/common/loop_internal.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cpu/common/log.h"

enum { TRIM_CONNECTIONS = 400, TRIM_MS = 1000 };

/* ---- bytes ---- */

static bool bytes_append(struct bytes *bytes, const void *more, size_t size)
{
    if (bytes->capacity - bytes->size < size) {
        size_t capacity = bytes->capacity ? bytes->capacity : 512;
        while (capacity - bytes->size < size)
            capacity *= 2;
        uint8_t *at = realloc(bytes->at, capacity);
        if (!at)
            return false;
        bytes->at = at;
        bytes->capacity = capacity;
    }
    if (size) /* else there need not be any memory yet */
        memcpy(bytes->at + bytes->size, more, size);
    bytes->size += size;
    return true;
}

void bytes_drop(struct bytes *bytes, size_t count)
{
    bytes->size -= count;
    if (bytes->size)
        memmove(bytes->at, bytes->at + count, bytes->size);
    else
        bytes_free(bytes);                      /* thousands of connections say nothing most of the time */
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct bytes){ 0 };
}

/* ---- life ---- */

struct conn *conn_create(struct loop *loop, const struct conn_service *service, void *context, bool is_unix)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->loop = loop;
    conn->service = service;
    conn->context = context;
    conn->is_unix = is_unix;
    conn->next = loop->conns;
    conn->back = &loop->conns;
    if (conn->next)
        conn->next->back = &conn->next;
    loop->conns = conn;
    return conn;
}

static void freed(uv_handle_t *handle)
{
    struct conn *conn = handle->data;
    tls_session_destroy(conn->tls);
    tls_context_release(conn->tls_offered);
    connecting_free(conn);
    bytes_free(&conn->in);
    bytes_free(&conn->out);
    bytes_free(&conn->sending);
    free(conn);
}

/* Gives memory of connections that have ended back to the system. malloc keeps what lies between pieces that are in
   use: 50 MB after 2,000 connections with TLS, little after those without. malloc_trim takes milliseconds, in which the
   loop serves no call, so it is called only after TRIM_CONNECTIONS connections have ended. */
static void trim(struct loop_timer *timer, void *context)
{
    struct loop *loop = context;
    (void)timer;
    loop->ended = 0;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

static void say_goodbye(struct conn *conn)
{
    const uint8_t *at;
    if (conn->tls && conn->open) {
        tls_session_close(conn->tls);
        size_t size = tls_session_pending(conn->tls, &at);
        bytes_append(&conn->out, at, size);
    }
    if (conn->out.size && !conn->sending.size) {
        uv_buf_t buffer = uv_buf_init((char *)conn->out.at, (unsigned)conn->out.size);
        uv_try_write(&conn->uv.stream, &buffer, 1);
    }
}

void conn_end(struct conn *conn, int error, const char *why)
{
    char reason[EXPLAIN_SIZE];
    if (conn->closing)
        return;
    snprintf(reason, sizeof reason, "%s", why); /* it may live in what is freed */
    conn->closing = true;
    loop_timer_stop(&conn->stranger);
    loop_timer_stop(&conn->half);
    loop_timer_stop(&conn->slow);
    loop_timer_stop(&conn->doom);
    *conn->back = conn->next;
    if (conn->next)
        conn->next->back = conn->back;
    conn_fail_calls(conn, error ? error : -ECONNRESET, reason);
    if (conn->open && conn->service && conn->service->closed)
        conn->service->closed(conn, error, reason);
    if (!conn->open && !connecting_failed(conn, error ? error : -ECONNRESET, reason)) {
        log_info("event=refused peer=%s why=\"%s\"", conn->peer, reason);
        if (error && conn->accepted && conn->service && conn->service->refused)
            conn->service->refused(conn, reason);
    }
    listener_conn_gone(conn);
    conn->loop->ended += conn->tls != NULL;
    /* A while later, for those that end together. */
    if (conn->loop->ended >= TRIM_CONNECTIONS && !conn->loop->trim.loop)
        loop_timer_start(conn->loop, &conn->loop->trim, TRIM_MS, trim, conn->loop);
    if (conn->handle_ready) {
        say_goodbye(conn);
        uv_close(&conn->uv.handle, freed);
        conn->uv.handle.data = conn;
    } else {
        /* No handle was ever made: freed from the loop all the same, for who still holds the pointer. */
        uv_timer_t *timer = (uv_timer_t *)&conn->uv;
        _Static_assert(sizeof(uv_timer_t) <= sizeof conn->uv, "a timer takes the handle's place");
        uv_timer_init(&conn->loop->uv, timer);
        uv_close(&conn->uv.handle, freed);
        conn->uv.handle.data = conn;
    }
}

void conn_close(struct conn *conn, const char *why)
{
    if (conn->connecting)
        connecting_free(conn);                  /* the one who closes is not informed */
    conn_end(conn, 0, why);
}

static void doom_due(struct loop_timer *timer, void *context)
{
    struct conn *conn = context;
    (void)timer;
    conn_end(conn, conn->doom_error, conn->doom_why);
}

void conn_doom(struct conn *conn, int error, const char *format, ...)
{
    if (conn->doomed || conn->closing)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(conn->doom_why, sizeof conn->doom_why, format, list);
    va_end(list);
    conn->doomed = true;
    conn->doom_error = error;
    loop_timer_start(conn->loop, &conn->doom, 0, doom_due, conn);
}

/* ---- out ---- */

static void too_slow(struct loop_timer *timer, void *context)
{
    struct conn *conn = context;
    (void)timer;
    conn_doom(conn, -ETIMEDOUT, "the peer has taken nothing of what was sent for %d s", CTL_DEAD_SECONDS);
}

static void written(uv_write_t *write, int status)
{
    struct conn *conn = write->data;
    bytes_free(&conn->sending);
    loop_timer_stop(&conn->slow);
    if (conn->closing)
        return;
    if (status < 0)
        conn_doom(conn, status, "sending failed: %s", uv_strerror(status));
    else
        conn_flush(conn);
}

void conn_flush(struct conn *conn)
{
    if (conn->closing || conn->doomed || conn->sending.size || !conn->out.size)
        return;
    uv_buf_t buffer = uv_buf_init((char *)conn->out.at, (unsigned)conn->out.size);
    int sent = uv_try_write(&conn->uv.stream, &buffer, 1);
    if (sent < 0 && sent != UV_EAGAIN) {
        conn_doom(conn, sent, "sending failed: %s", uv_strerror(sent));
        return;
    }
    if (sent > 0)
        bytes_drop(&conn->out, (size_t)sent);
    if (!conn->out.size)
        return;
    conn->sending = conn->out;
    conn->out = (struct bytes){ 0 };
    conn->write.data = conn;
    buffer = uv_buf_init((char *)conn->sending.at, (unsigned)conn->sending.size);
    int failure = uv_write(&conn->write, &conn->uv.stream, &buffer, 1, written);
    if (failure < 0)
        conn_doom(conn, failure, "sending failed: %s", uv_strerror(failure));
    else
        loop_timer_start(conn->loop, &conn->slow, CTL_DEAD_SECONDS * 1000, too_slow, conn);
}

/* What TLS wants to say. */
static int take_tls_output(struct conn *conn)
{
    const uint8_t *at;
    size_t size = tls_session_pending(conn->tls, &at);
    if (size && !bytes_append(&conn->out, at, size))
        return -ENOMEM;
    tls_session_sent(conn->tls, size);
    return 0;
}

int conn_send(struct conn *conn, const void *record, size_t size)
{
    char error[EXPLAIN_SIZE] = "no memory for what must be sent";
    if (conn->closing || conn->doomed)
        return -ECONNRESET;
    if (conn->out.size + conn->sending.size + size > CONN_MAX_OUTPUT) {
        conn_doom(conn, -ENOBUFS, "the peer is too slow: %zu bytes wait to be sent to it",
                  conn->out.size + conn->sending.size);
        return -ENOBUFS;
    }
    int failure = 0;
    if (conn->tls) {
        failure = tls_session_write(conn->tls, record, size, error);
        if (failure == 0)
            failure = take_tls_output(conn);
    } else if (!bytes_append(&conn->out, record, size)) {
        failure = -ENOMEM;
    }
    if (failure)
        conn_doom(conn, failure, "%s", error);
    return failure;
}

/* ---- in ---- */

static void half_due(struct loop_timer *timer, void *context)
{
    struct conn *conn = context;
    (void)timer;
    conn_doom(conn, -ETIMEDOUT, "the peer sent half a message and then nothing for %d s", CTL_DEAD_SECONDS);
}

static void stranger_due(struct loop_timer *timer, void *context)
{
    struct conn *conn = context;
    (void)timer;
    conn_doom(conn, -ETIMEDOUT, "the peer did not identify itself within %d s", CONN_HELLO_MS / 1000);
}

static void on_read(uv_stream_t *, ssize_t, const uv_buf_t *);

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct conn *conn = handle->data;
    (void)suggested;
    *buffer = uv_buf_init((char *)conn->loop->read, LOOP_READ_SIZE);
}

/* Reading stops while too many calls wait for answers, or the peer does not take them. */
static void choose_reading(struct conn *conn)
{
    bool want = !conn->closing && !conn->doomed && conn->call_count < CONN_MAX_CALLS;
    if (want && !conn->reading) {
        int failure = uv_read_start(&conn->uv.stream, on_room, on_read);
        if (failure < 0)
            conn_doom(conn, failure, "reading failed: %s", uv_strerror(failure));
        else
            conn->reading = true;
    } else if (!want && conn->reading) {
        uv_read_stop(&conn->uv.stream);
        conn->reading = false;
    }
}

static void handle_input(struct conn *conn)
{
    conn->dispatching = true;
    size_t handled = conn_handle_records(conn);
    conn->dispatching = false;
    if (conn->closing)
        return;
    if (handled)
        loop_timer_stop(&conn->half);           /* what is in now has begun later */
    conn_flush(conn);
    if (!conn->in.size || conn->call_count >= CONN_MAX_CALLS)
        loop_timer_stop(&conn->half);
    else if (!loop_timer_running(&conn->half))
        loop_timer_start(conn->loop, &conn->half, CTL_DEAD_SECONDS * 1000, half_due, conn);
    choose_reading(conn);
}

static void resume_due(struct loop_timer *timer, void *context)
{
    (void)timer;
    handle_input(context);
}

void conn_resume(struct conn *conn)
{
    if (conn->closing || conn->doomed || conn->dispatching || conn->reading || !conn->open)
        return;
    /* From the loop, not from within call_reply: it may dispatch further calls. */
    loop_timer_start(conn->loop, &conn->half, 0, resume_due, conn);
}

static void opened(struct conn *conn)
{
    conn->open = true;
    if (conn->accepted) {
        if (conn->service && conn->service->opened)
            conn->service->opened(conn);
    } else {
        connecting_open(conn);
    }
}

/* One side has certificates, the other has none. Both shall learn it at once, or they would try again and again in
   doubt: the listener answers by an alert of TLS (RFC 8446, 6), which begins no message of ours. */
enum { TLS_ALERT = 21, TLS_HANDSHAKE = 22, TLS_MAJOR = 3 };

static bool speaks_otherwise(struct conn *conn, const uint8_t *bytes, size_t size)
{
    static const uint8_t alert[] = { TLS_ALERT, TLS_MAJOR, 3, 0, 2, 2 /* fatal */, 40 /* handshake_failure */ };
    bool first = !conn->heard_bytes && size >= 2;
    conn->heard_bytes = true;
    if (first && conn->accepted && (bytes[0] == TLS_HANDSHAKE && bytes[1] == TLS_MAJOR) != (conn->tls != NULL)) {
        bytes_append(&conn->out, alert, sizeof alert);
        conn_flush(conn);
        conn_doom(conn, -EPROTOTYPE,
                  conn->tls ? "the peer does not speak TLS, and this side wants it"
                            : "the peer speaks TLS, and this side has no certificates");
    } else if (first && !conn->accepted && !conn->tls && bytes[0] == TLS_ALERT && bytes[1] == TLS_MAJOR) {
        conn_doom(conn, -EPROTOTYPE,
                  "the peer wants TLS, and this side has no certificates (tls.ca, tls.certificate, tls.key)");
    }
    return conn->doomed;
}

/* Plain bytes: kept until they are whole records. */
static bool take_plain(struct conn *conn, const uint8_t *bytes, size_t size)
{
    if (bytes_append(&conn->in, bytes, size))
        return true;
    conn_doom(conn, -ENOMEM, "no memory for what the peer sends");
    return false;
}

static bool take_tls(struct conn *conn, const uint8_t *bytes, size_t size)
{
    char error[EXPLAIN_SIZE];
    uint8_t plain[16384];
    ssize_t got;
    int failure = tls_session_feed(conn->tls, bytes, size);
    if (failure) {
        conn_doom(conn, failure, "no memory for what the peer sends");
        return false;
    }
    if (!conn->open) {
        int done = tls_session_handshake(conn->tls, error);
        take_tls_output(conn);
        conn_flush(conn);
        if (done < 0)
            conn_doom(conn, done, "%s", error);
        if (done != 1)
            return false;
        opened(conn);
        if (conn->closing)
            return false;
    }
    while ((got = tls_session_read(conn->tls, plain, sizeof plain, error)) > 0)
        if (!take_plain(conn, plain, (size_t)got))
            return false;
    take_tls_output(conn);
    if (got == 0)
        return true;
    /* What came before the end is handled first: it may be the answer that says why the peer ends the connection. */
    handle_input(conn);
    if (conn->closing)
        return false;
    if (got == -ECONNRESET)
        conn_doom(conn, 0, "the peer closed the connection");
    else
        conn_doom(conn, (int)got, "%s", error);
    return false;
}

/* The peer's first byte: a TLS record of a handshake begins with 22; a record of ONC RPC with 0x80 or, in pieces, 0,
   since its size is far below 2^24. */
static bool settle_tls(struct conn *conn, uint8_t first)
{
    if (first == TLS_HANDSHAKE) {
        conn->tls = tls_session_create(conn->tls_offered, true, NULL);
        if (!conn->tls)
            conn_doom(conn, -ENOMEM, "no memory for TLS");
    }
    tls_context_release(conn->tls_offered);
    conn->tls_offered = NULL;
    if (first != TLS_HANDSHAKE)
        opened(conn);
    return !conn->doomed && !conn->closing;
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    struct conn *conn = stream->data;
    if (conn->closing || conn->doomed || got == 0)
        return;
    if (got < 0) {
        bool half = conn->in.size > 0;
        if (got == UV_EOF)
            conn_end(conn, half ? -EPROTO : 0, half ? "the peer closed the connection within a message"
                                                    : "the peer closed the connection");
        else
            conn_end(conn, (int)got, uv_strerror((int)got));
        return;
    }
    const uint8_t *bytes = (const uint8_t *)buffer->base;
    if (conn->tls_offered && !settle_tls(conn, bytes[0]))
        return;
    if (speaks_otherwise(conn, bytes, (size_t)got))
        return;
    bool more = conn->tls ? take_tls(conn, bytes, (size_t)got) : take_plain(conn, bytes, (size_t)got);
    if (more && !conn->closing)
        handle_input(conn);
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44               /* Linux 6.15; older C libraries do not name it */
#endif

static void set_socket_options(struct conn *conn)
{
    /* What was lost in a short cut is sent again every second, not after 6 and 12: else the peer seems silent for
       as long again. Older kernels refuse it, and a cut lasts longer there. */
    const unsigned limit = CTL_DEAD_SECONDS * 1000, again = 1000;
    uv_os_fd_t fd;
    if (conn->is_unix)
        return;
    uv_tcp_nodelay(&conn->uv.tcp, 1);
    uv_tcp_keepalive(&conn->uv.tcp, 1, CTL_DEAD_SECONDS);
    if (uv_fileno(&conn->uv.handle, &fd) == 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
        setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &again, sizeof again);
    }
}

void conn_begin(struct conn *conn)
{
    char error[EXPLAIN_SIZE];
    conn->uv.handle.data = conn;
    set_socket_options(conn);
    if (conn->accepted)
        loop_timer_start(conn->loop, &conn->stranger, CONN_HELLO_MS, stranger_due, conn);
    choose_reading(conn);
    if (conn->doomed || conn->tls_offered)
        return;
    if (!conn->tls) {
        opened(conn);
        return;
    }
    int done = tls_session_handshake(conn->tls, error);         /* the caller's first words */
    if (done < 0) {
        conn_doom(conn, done, "%s", error);
        return;
    }
    take_tls_output(conn);
    conn_flush(conn);
}

/* ---- what is known of it ---- */

void *conn_context(const struct conn *conn) { return conn->context; }
void conn_set_context(struct conn *conn, void *context) { conn->context = context; }
void conn_set_service(struct conn *conn, const struct conn_service *service) { conn->service = service; }
const char *conn_peer(const struct conn *conn) { return conn->peer; }
const char *conn_peer_host(const struct conn *conn) { return conn->host; }
const char *conn_peer_machine(const struct conn *conn) { return conn->peer_local ? "local" : conn->host; }
bool conn_encrypted(const struct conn *conn) { return conn->tls != NULL; }

void conn_set_role(struct conn *conn, ctl_role role)
{
    conn->role = role;
    if (role != CTL_ROLE_NONE)
        loop_timer_stop(&conn->stranger);
}

const char *conn_peer_certificate(const struct conn *conn)
{
    return conn->tls ? tls_session_peer(conn->tls) : NULL;
}

struct x509_st *conn_peer_x509(const struct conn *conn)
{
    return conn->tls ? tls_session_certificate(conn->tls) : NULL;
}

bool conn_revoked(const struct conn *conn, const struct tls_context *tls)
{
    return conn->tls && tls_context_revokes(tls, conn->tls);
}

void conn_binding(const struct conn *conn, uint8_t binding[32])
{
    if (!conn->tls || !tls_session_binding(conn->tls, binding))
        memset(binding, 0, 32);
}

bool conn_peer_credentials(const struct conn *conn, pid_t *pid, uid_t *uid, gid_t *gid)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    uv_os_fd_t fd;
    if (!conn->is_unix || conn->closing || uv_fileno(&conn->uv.handle, &fd) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return false;
    *pid = credentials.pid;
    *uid = credentials.uid;
    *gid = credentials.gid;
    return true;
}
