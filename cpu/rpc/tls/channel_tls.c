/*
 * channel_tls.c: the channel. It stands on a socket's channel, which waits, wakes and ends for it.
 *
 * One SSL object serves both directions, so one lock does (`lock`): who sends and who receives take turns, never for
 * longer than it takes to encrypt or decrypt some ten kilobytes. No call under the lock blocks.
 *
 * Sending. Up to TLS_CHUNK bytes are encrypted into `out` and sent with one system call. What of it the socket does not
 * take stays there, and the plain bytes it stands for are `owed`: encrypted, but not reported as taken. The sender
 * comes again with the same bytes, as it does after every -EAGAIN, and when `out` is empty those are reported. So
 * a caller to whom bytes were reported as taken knows that they are in the socket, and nothing waits here without
 * somebody who comes again.
 *
 * Receiving. Several records are fetched at once (`in`); `more` says that some of them may still be here, where poll()
 * of the socket would not see them. It is cleared only when OpenSSL found too little, which means that `in` is empty
 * too.
 *
 * Ends. destroy sends close_notify, if there is room; abandon, in the child of a fork, closes descriptors and touches
 * nothing else: the session goes on in the parent.
 */
#include "cpu/rpc/tls/channel_state.h"

#include "cpu/common/cancel.h"
#include "cpu/common/certificate.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>

enum {
    TLS_CHUNK   = 64 * 1024,            /* encrypted and sent at once */
    TLS_PIECE   = 4 * 1024,             /* smaller pieces share a record */
    TLS_RECEIVE = 256 * 1024,           /* decrypted at once */
    TLS_OVERHEAD = 256,                 /* more than a record adds */
    TLS_OUT     = TLS_CHUNK + (TLS_CHUNK / TLS_RECORD + 2) * TLS_OVERHEAD
};
#define TLS_UPDATE_BYTES (UINT64_C(64) << 30)

static struct tls_channel *of(rpc_channel *channel)
{
    return (struct tls_channel *)channel;
}

/* ---- between OpenSSL and the socket ---- */

static int bio_write(BIO *bio, const char *bytes, int size)
{
    struct tls_channel *c = BIO_get_data(bio);
    size_t more = (size_t)size;
    if (c->out_size - c->out_end < more) {
        size_t larger = c->out_end + more + TLS_OUT;
        uint8_t *out = realloc(c->out, larger);
        if (!out)
            return -1;
        c->out = out;
        c->out_size = larger;
    }
    memcpy(c->out + c->out_end, bytes, more);
    c->out_end += more;
    return size;
}

/* OpenSSL asks for a head and a record in turn. What has come is fetched at once, with as much as fits beside it. */
static int bio_read(BIO *bio, char *bytes, int size)
{
    struct tls_channel *c = BIO_get_data(bio);
    size_t here = c->in_end - c->in_start;
    BIO_clear_retry_flags(bio);
    if (here > 0) {
        here = here < (size_t)size ? here : (size_t)size;
        memcpy(bytes, c->in + c->in_start, here);
        c->in_start += here;
        return (int)here;
    }
    struct iovec into[2] = { { bytes, (size_t)size }, { c->in, sizeof c->in } };
    struct msghdr message = { .msg_iov = into, .msg_iovlen = 2 };
    ssize_t got;
    do
        got = recvmsg(c->fd, &message, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    c->in_start = 0;
    c->in_end = got > size ? (size_t)got - (size_t)size : 0;
    if (got > size)
        return size;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(bio);
    else if (got < 0)
        c->failure = -errno;
    else if (got == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)got;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH: return 1;
    case BIO_CTRL_EOF:   return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:             return 0;
    }
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

/* Belongs to one channel: no table that all share, and that would have to be freed at the end of the process. */
static BIO_METHOD *bio_method(void)
{
    BIO_METHOD *method = BIO_meth_new(128 | BIO_TYPE_SOURCE_SINK, "flyt");
    if (method && BIO_meth_set_write(method, bio_write) && BIO_meth_set_read(method, bio_read) &&
        BIO_meth_set_ctrl(method, bio_control) && BIO_meth_set_create(method, bio_create))
        return method;
    BIO_meth_free(method);
    return NULL;
}

int tls_flush(struct tls_channel *c)
{
    while (c->out_start < c->out_end) {
        ssize_t sent = send(c->fd, c->out + c->out_start, c->out_end - c->out_start, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0)
            c->out_start += (size_t)sent;
        else if (errno != EINTR)
            return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? -EAGAIN : -errno;
    }
    c->out_start = c->out_end = 0;
    return 0;
}

int tls_why_not(struct tls_channel *c, int result)
{
    switch (SSL_get_error(c->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        return c->failure ? c->failure : 0;
    default:
        break;
    }
    /* The peer's farewell may be about us: a client learns here that the server wanted a certificate of it. */
    switch (ERR_GET_REASON(ERR_peek_last_error())) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return -EKEYREJECTED;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return -EKEYEXPIRED;
    default:
        return -EPROTO;
    }
}

/* ---- operations ---- */

static int encrypt(struct tls_channel *c, const void *bytes, size_t size)
{
    size_t done = 0;
    if (c->sent >= c->update) {
        if (SSL_key_update(c->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
            return -EPROTO;
        c->sent = 0;
    }
    if (SSL_write_ex(c->ssl, bytes, size, &done) != 1 || done != size)
        return c->out_size - c->out_end < TLS_OVERHEAD ? -ENOMEM : -EPROTO;
    c->sent += size;
    return 0;
}

/* Encrypts the first bytes of the pieces, at most TLS_CHUNK, in few records; how many, or -errno. */
static ssize_t encrypt_pieces(struct tls_channel *c, const struct iovec *vector, int count)
{
    size_t total = 0, kept = 0, at = 0;
    int status = 0;
    for (int i = 0; i < count && status == 0 && total < TLS_CHUNK;) {
        size_t left = vector[i].iov_len - at, room = TLS_CHUNK - total;
        const uint8_t *bytes = (const uint8_t *)vector[i].iov_base + at;
        size_t part = left < room ? left : room;
        if (kept == 0 && part >= TLS_PIECE) {
            status = encrypt(c, bytes, part);
        } else {
            part = part < TLS_RECORD - kept ? part : TLS_RECORD - kept;
            if (part > 0)
                memcpy(c->record + kept, bytes, part);      /* a piece without bytes may be NULL */
            kept += part;
            if (kept == TLS_RECORD) {
                status = encrypt(c, c->record, kept);
                kept = 0;
            }
        }
        total += part;
        at += part;
        if (at == vector[i].iov_len) {
            at = 0;
            i++;
        }
    }
    if (status == 0 && kept > 0)
        status = encrypt(c, c->record, kept);
    return status < 0 ? status : (ssize_t)total;
}

static size_t vector_size(const struct iovec *vector, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += vector[i].iov_len;
    return size;
}

static ssize_t send_locked(struct tls_channel *c, const struct iovec *vector, int count)
{
    size_t size = vector_size(vector, count);
    int status = tls_flush(c);
    if (status < 0)
        return status;
    if (c->owed == 0) {
        ERR_clear_error();
        ssize_t encrypted = encrypt_pieces(c, vector, count);
        if (encrypted < 0)
            return encrypted;
        c->owed = (size_t)encrypted;
        if ((status = tls_flush(c)) < 0)
            return status;
    }
    size_t taken = c->owed < size ? c->owed : size;
    c->owed -= taken;
    return (ssize_t)taken;
}

static ssize_t tls_send(rpc_channel *channel, const struct iovec *vector, int count)
{
    CANCEL_OFF;
    struct tls_channel *c = of(channel);
    pthread_mutex_lock(&c->lock);
    ssize_t sent = send_locked(c, vector, count);
    pthread_mutex_unlock(&c->lock);
    return sent;
}

static ssize_t receive_locked(struct tls_channel *c, uint8_t *into, size_t room)
{
    size_t total = 0, got;
    int status = -EAGAIN;
    bool more = true;
    ERR_clear_error();
    while (total < room && total < TLS_RECEIVE) {
        if (SSL_read_ex(c->ssl, into + total, room - total, &got) == 1) {
            total += got;
            continue;
        }
        status = tls_why_not(c, 0);
        more = status != -EAGAIN;               /* an end is found again by whoever asks */
        break;
    }
    atomic_store_explicit(&c->more, more, memory_order_release);
    /* What the peer asked for by the way (new keys); if there is no room, it goes with what is sent next. */
    if (c->out_end > c->out_start && c->owed == 0)
        tls_flush(c);
    return total > 0 ? (ssize_t)total : status;
}

static ssize_t tls_receive(rpc_channel *channel, struct rpc_inbox *inbox)
{
    CANCEL_OFF;
    struct tls_channel *c = of(channel);
    size_t room;
    uint8_t *into = rpc_inbox_room(inbox, &room);
    if (!into)
        return -ENOMEM;
    pthread_mutex_lock(&c->lock);
    ssize_t got = receive_locked(c, into, room);
    pthread_mutex_unlock(&c->lock);
    if (got > 0)
        rpc_inbox_received(inbox, (size_t)got);
    return got;
}

static ssize_t tls_receive_into(rpc_channel *channel, const struct iovec *vector, int count)
{
    CANCEL_OFF;
    struct tls_channel *c = of(channel);
    ssize_t total = 0;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < count && total < TLS_RECEIVE; i++) {
        ssize_t got = receive_locked(c, vector[i].iov_base, vector[i].iov_len);
        if (got <= 0) {
            total = total > 0 ? total : got;
            break;
        }
        total += got;
        if ((size_t)got < vector[i].iov_len)
            break;
    }
    pthread_mutex_unlock(&c->lock);
    return total;
}

/* Readable says that there may be more than what is held back here: read until -EAGAIN before you poll it. */
static int tls_descriptor(const rpc_channel *channel)
{
    return ((const struct tls_channel *)channel)->fd;
}

static int tls_poll(rpc_channel *channel, int events, int timeout_ms, bool wakeable)
{
    struct tls_channel *c = of(channel);
    if ((events & POLLIN) && atomic_load_explicit(&c->more, memory_order_acquire))
        return POLLIN | (rpc_channel_poll(c->socket, events & ~POLLIN, 0, wakeable) & ~POLLIN);
    return rpc_channel_poll(c->socket, events, timeout_ms, wakeable);
}

static int tls_peer(rpc_channel *channel)
{
    return rpc_channel_peer(of(channel)->socket);
}

static void tls_wake(rpc_channel *channel)
{
    rpc_channel_wake(of(channel)->socket);
}

static void tls_shutdown(rpc_channel *channel)
{
    rpc_channel_shutdown(of(channel)->socket);
}

static void tls_abandon(rpc_channel *channel)
{
    rpc_channel_abandon(of(channel)->socket);
}

static void tls_part(rpc_channel *channel) { rpc_channel_part(of(channel)->socket); }

static void channel_free(struct tls_channel *c)
{
    SSL_free(c->ssl);                   /* and its BIO */
    BIO_meth_free(c->method);
    pthread_mutex_destroy(&c->lock);
    free(c->out);
    free(c);
}

void tls_destroy(rpc_channel *channel)
{
    struct tls_channel *c = of(channel);
    ERR_clear_error();
    if (c->established && tls_flush(c) == 0 && SSL_shutdown(c->ssl) >= 0)
        tls_flush(c);
    ERR_clear_error();
    rpc_channel_destroy(c->socket);
    channel_free(c);
}

static const struct rpc_channel_operations tls_operations = {
    .send = tls_send,
    .receive = tls_receive,
    .receive_into = tls_receive_into,
    .descriptor = tls_descriptor,
    .poll = tls_poll,
    .peer = tls_peer,
    .wake = tls_wake,
    .shutdown = tls_shutdown,
    .destroy = tls_destroy,
    .abandon = tls_abandon,
    .part = tls_part,
};

void rpc_channel_tls_set_update(rpc_channel *channel, uint64_t bytes)
{
    of(channel)->update = bytes;
}

struct tls_channel *tls_channel_create(int fd, SSL_CTX *context, char *error)
{
    struct tls_channel *c = calloc(1, sizeof *c);
    BIO_METHOD *method = NULL;
    BIO *bio = NULL;
    if (!c || pthread_mutex_init(&c->lock, NULL) != 0) {
        free(c);
        rpc_explain(error, -ENOMEM, "no memory for TLS");
        return NULL;
    }
    c->fd = fd;
    c->update = TLS_UPDATE_BYTES;
    c->base.operations = &tls_operations;
    atomic_init(&c->base.transport, "tls");
    atomic_init(&c->base.direct, false);
    atomic_init(&c->more, false);
    c->out = malloc(TLS_OUT);
    c->out_size = TLS_OUT;
    c->ssl = c->out ? SSL_new(context) : NULL;
    method = c->ssl ? bio_method() : NULL;
    bio = method ? BIO_new(method) : NULL;
    if (!bio || rpc_channel_from_fd(fd, &c->socket, error) < 0) {
        if (!bio)
            rpc_explain(error, -ENOMEM, "no memory for TLS");
        BIO_free(bio);
        BIO_meth_free(method);
        channel_free(c);
        return NULL;
    }
    BIO_set_data(bio, c);
    SSL_set_bio(c->ssl, bio, bio);
    c->method = method;
    return c;
}

void rpc_channel_tls_numbers(const rpc_channel *channel, char out[RPC_TLS_NUMBERS_SIZE])
{
    const SSL *ssl = ((const struct tls_channel *)channel)->ssl;
    static_assert((int)RPC_TLS_NUMBERS_SIZE == (int)CERTIFICATE_NUMBERS_SIZE, "one size");
    certificate_numbers(SSL_get_verify_mode(ssl) == SSL_VERIFY_NONE ? NULL : SSL_get0_verified_chain(ssl), out);
}
