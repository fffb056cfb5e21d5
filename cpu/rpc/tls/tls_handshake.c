/*
 * tls_handshake.c: how a channel with TLS comes about: the handshake, why it failed, and what is wiped behind it.
 */
#include "cpu/rpc/tls/channel_state.h"

#include "cpu/common/clock.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>

/* OpenSSL must not be torn down at the end of a process whose last destructors may still use it. */
static void prepare(void)
{
    OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT | OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
}

/* What OpenSSL gives back is wiped: parts of keys are among it, in places where OpenSSL itself does not see to that. */
static void *wiping_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return malloc(size);
}

static void wiping_free(void *bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    if (bytes)
        OPENSSL_cleanse(bytes, malloc_usable_size(bytes));
    free(bytes);
}

static void *wiping_realloc(void *bytes, size_t size, const char *file, int line)
{
    size_t before = bytes ? malloc_usable_size(bytes) : 0;
    void *other = malloc(size);
    if (!other)
        return NULL;
    if (bytes)
        memcpy(other, bytes, before < size ? before : size);
    wiping_free(bytes, file, line);
    return other;
}

/* Wipes the part of the stack that lies below. */
static __attribute__((noinline)) void wipe_stack(void)
{
    char below[64 * 1024];
    OPENSSL_cleanse(below, sizeof below);
}

void rpc_tls_prepare(void)
{
    CRYPTO_set_mem_functions(wiping_malloc, wiping_realloc, wiping_free);
    prepare();
    SSL_CTX_free(SSL_CTX_new(TLS_server_method()));
    ERR_clear_error();
}

/* 0, or -errno: -EPROTO and others of tls_why_not, -ECONNRESET: the peer has gone, -ETIMEDOUT. */
static int handshake(struct tls_channel *c, uint64_t deadline)
{
    for (;;) {
        ERR_clear_error();
        int done = SSL_do_handshake(c->ssl);
        int status = done == 1 ? 0 : tls_why_not(c, done);
        int flushed = tls_flush(c);
        if (flushed < 0 && flushed != -EAGAIN)
            return status < 0 && status != -EAGAIN ? status : flushed;
        if (done == 1 && flushed == 0)
            return 0;
        if (done != 1 && status != -EAGAIN)
            return status == 0 ? -ECONNRESET : status;
        int ready = rpc_channel_poll(c->socket, flushed < 0 ? POLLOUT : POLLIN, clock_poll_timeout(deadline), false);
        if (ready <= 0)
            return ready < 0 ? ready : -ETIMEDOUT;
    }
}

int rpc_channel_tls_connect(int fd, const struct rpc_address *address, const struct rpc_tls_files *files,
                            uint64_t deadline, rpc_channel **out, char *error)
{
    struct tls_wanted wanted = { .pin = address->pin, .name = address->name, .host = address->host };
    struct tls_channel *c = NULL;
    SSL_CTX *context = NULL;
    prepare();
    int status = tls_client_context(files, &wanted, &context, error);
    if (status == 0 && !(c = tls_channel_create(fd, context, error)))
        status = -ENOMEM;
    if (status < 0) {
        SSL_CTX_free(context);
        close(fd);
        return status;
    }
    SSL_set_connect_state(c->ssl);
    if (!*address->pin)
        SSL_set_tlsext_host_name(c->ssl, address->host);
    status = handshake(c, deadline);
    SSL_CTX_free(context);
    if (status == 0) {
        c->established = true;
        *out = &c->base;
        return 0;
    }
    if (wanted.status)
        status = rpc_explain(error, wanted.status, "the server is not trusted: %s", wanted.problem);
    else if (status == -ETIMEDOUT)
        rpc_explain(
            error, status,
            "the server did not answer the TLS handshake in time (is it overloaded, or does it listen on tcp://?)");
    else if (status == -ECONNRESET || status == -EPIPE)
        rpc_explain(
            error, status,
            "the server ended the connection during the TLS handshake; does it listen on tls://? Its log says why");
    else if (status == -EPROTO)
        rpc_explain(error, status, "the server does not speak TLS 1.3 as expected (%s); does it listen on tls://?",
                    tls_reason());
    else
        rpc_explain(error, status, "TLS handshake: %s (%s)", strerror(-status), tls_reason());
    ERR_clear_error();
    tls_destroy(&c->base);
    return status;
}

/* What the client did, or thinks of us. */
static int explain_client(const struct tls_channel *c, int status, char *error)
{
    long verified = SSL_get_verify_result(c->ssl);
    int reason = ERR_GET_REASON(ERR_peek_last_error());
    if (status == -ETIMEDOUT)
        return rpc_explain(error, status, "it did not finish the TLS handshake in time");
    if (status == -ECONNRESET || status == -EPIPE)
        return rpc_explain(error, -EPROTO, "it ended the connection during the TLS handshake");
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
        return rpc_explain(
            error, -EPROTO,
            "it shows no certificate, and --tls-ca wants one: give it FLYT_TLS_CERTIFICATE and FLYT_TLS_KEY");
    if (verified == X509_V_ERR_CERT_REVOKED)
        return rpc_explain(error, -EPROTO, "its certificate was revoked");
    if (verified != X509_V_OK)
        return rpc_explain(error, -EPROTO,
                           "its certificate is not accepted: %s (is it made by the authority of --tls-ca?)",
                           X509_verify_cert_error_string(verified));
    if (status == -EKEYREJECTED || status == -EKEYEXPIRED)
        return rpc_explain(error, -EPROTO,
                           "it does not trust this server's certificate (%s): its FLYT_TLS_CA, the name, the dates or "
                           "the fingerprint in its address do not fit",
                           tls_reason());
    return rpc_explain(error, -EPROTO, "it does not speak TLS 1.3 as expected (%s)", tls_reason());
}

int rpc_channel_tls_accept(int fd, const struct rpc_tls_identity *identity, int timeout_ms, rpc_channel **out,
                           char *error)
{
    SSL_CTX *context = NULL;
    prepare();
    int status = tls_server_context(identity, &context, error);
    struct tls_channel *c = status < 0 ? NULL : tls_channel_create(fd, context, error);
    if (!c) {
        SSL_CTX_free(context);
        close(fd);
        return status < 0 ? status : -ENOMEM;
    }
    SSL_set_accept_state(c->ssl);
    status = tls_server_key(c->ssl, identity, error);
    if (status < 0) {
        SSL_CTX_free(context);
        tls_destroy(&c->base);
        return status;
    }
    status = handshake(c, clock_now() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS);
    /* The key goes: kernels of the client run in this process from now on. */
    SSL_certs_clear(c->ssl);
    SSL_CTX_free(context);
    wipe_stack();
    if (status == 0) {
        c->established = true;
        *out = &c->base;
        return 0;
    }
    status = explain_client(c, status, error);
    ERR_clear_error();
    tls_destroy(&c->base);
    return status;
}

bool rpc_tls_spoken(int fd)
{
    uint8_t first;
    return recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first == SSL3_RT_HANDSHAKE;
}
