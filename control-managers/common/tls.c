#include "control-managers/common/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "cpu/common/certificate.h"
#include "cpu/common/explain.h"
#include "cpu/common/secret.h"

struct tls_context {
    SSL_CTX *ssl;
    char *path; /* of the certificate */
    unsigned references;
};

struct tls_session {
    struct tls_context *context;
    SSL *ssl;
    BIO *in, *out;
    char name[128]; /* whom the peer's certificate must name; "" any */
    char peer[TLS_NAME_SIZE];
};

/* The newest reason that OpenSSL gives. */
static const char *reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    return text ? text : "no reason given";
}

/* ---- contexts ---- */

static int check_files(const struct tls_files *files, char *error)
{
    const char *paths[] = { files->ca, files->certificate, files->key };
    int there = 0;
    const char *missing = NULL;
    for (int i = 0; i < 3; i++) {
        if (access(paths[i], R_OK) == 0)
            there++;
        else if (errno != ENOENT && errno != ENOTDIR)
            /* Not taken for missing: the daemon would go on without TLS. */
            return explain(error, -errno, "reading %s: %s", paths[i], strerror(errno));
        else
            missing = paths[i];
    }
    if (there == 0)
        return explain(error, -ENOENT, "there are no certificates: %s does not exist", files->ca);
    if (missing)
        return explain(error, -EINVAL, "TLS needs %s, %s and %s: %s is missing (`flytctl ca` makes them)", files->ca,
                       files->certificate, files->key, missing);
    int fd = open(files->key, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return explain(error, -errno, "opening %s: %s", files->key, strerror(errno));
    int failure = secret_check_fd(fd, files->key, error);
    close(fd);
    return failure;
}

static int check_dates(SSL_CTX *ssl, const char *path, char *error)
{
    X509 *certificate = SSL_CTX_get0_certificate(ssl);
    if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        return explain(error, -EKEYEXPIRED, "the certificate %s has expired: make a new one (`flytctl ca`)", path);
    if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0)
        return explain(error, -EKEYEXPIRED, "the certificate %s is not valid yet: is the clock right?", path);
    return 0;
}

/* ca.crl beside ca.crt. 0 and *out NULL: there is none. To be freed. */
static int read_revoked(const char *ca, X509_CRL **out, char *error)
{
    char path[4096];
    size_t length = strlen(ca);
    bool suffix = length > 4 && strcmp(ca + length - 4, ".crt") == 0;
    *out = NULL;
    if (snprintf(path, sizeof path, "%.*s.crl", (int)(suffix ? length - 4 : length), ca) >= (int)sizeof path)
        return explain(error, -ENAMETOOLONG, "%s is too long", ca);
    BIO *bio = BIO_new_file(path, "r");
    if (!bio)
        return access(path, F_OK) != 0 && errno == ENOENT
                   ? 0
                   : explain(error, -EACCES, "the list of revoked certificates %s cannot be read", path);
    *out = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL);
    BIO_free(bio);
    return *out ? 0 : explain(error, -EINVAL, "reading the list of revoked certificates %s: %s", path, reason());
}

/* For certificate_verify. The authority must have signed the list. */
static int add_revoked(SSL_CTX *ssl, const char *ca, char *error)
{
    X509_CRL *list;
    int failure = read_revoked(ca, &list, error);
    if (failure || !list)
        return failure;
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    BIO *bio = BIO_new_file(ca, "r");
    X509 *authority = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    bool ours = authority && X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1;
    X509_free(authority);
    BIO_free(bio);
    if (!ours)
        failure = explain(error, -EINVAL, "the list of revoked certificates beside %s is not of that authority", ca);
    else if (X509_STORE_add_crl(store, list) != 1)
        failure = explain(error, -EINVAL, "the list of revoked certificates beside %s: %s", ca, reason());
    X509_CRL_free(list);
    return failure;
}

static int fill(SSL_CTX *ssl, const struct tls_files *files, char *error)
{
    ERR_clear_error();
    if (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) != 1)
        return explain(error, -EIO, "OpenSSL here has no TLS 1.3");
    if (SSL_CTX_load_verify_locations(ssl, files->ca, NULL) != 1)
        return explain(error, -EINVAL, "reading the CA's certificate %s: %s", files->ca, reason());
    if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate) != 1)
        return explain(error, -EINVAL, "reading the certificate %s: %s", files->certificate, reason());
    if (SSL_CTX_use_PrivateKey_file(ssl, files->key, SSL_FILETYPE_PEM) != 1)
        return explain(error, -EINVAL, "reading the key %s: %s", files->key, reason());
    if (SSL_CTX_check_private_key(ssl) != 1)
        return explain(error, -EINVAL, "%s is not the key of %s", files->key, files->certificate);
    /* The peer of a listener may be without one: it proves itself by CTL_AUTH then. */
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, certificate_verify);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ssl, 0); /* no resumption: connections live long */
    SSL_CTX_set_mode(ssl,
                     SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    int failure = add_revoked(ssl, files->ca, error);
    return failure ? failure : check_dates(ssl, files->certificate, error);
}

int tls_context_create(const struct tls_files *files, struct tls_context **out, char *error)
{
    int failure = check_files(files, error);
    if (failure)
        return failure;
    struct tls_context *context = calloc(1, sizeof *context);
    SSL_CTX *ssl = SSL_CTX_new(TLS_method());
    char *path = strdup(files->certificate);
    failure = context && ssl && path ? fill(ssl, files, error) : explain(error, -ENOMEM, "no memory for TLS");
    ERR_clear_error();
    if (failure) {
        SSL_CTX_free(ssl);
        free(path);
        free(context);
        return failure;
    }
    *context = (struct tls_context){ .ssl = ssl, .path = path, .references = 1 };
    *out = context;
    return 0;
}

X509 *tls_context_certificate(const struct tls_context *context) { return SSL_CTX_get0_certificate(context->ssl); }

const char *tls_context_path(const struct tls_context *context) { return context->path; }

time_t tls_certificate_ends(const X509 *certificate)
{
    int days = 0, seconds = 0;
    ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(certificate));
    return time(NULL) + (time_t)days * 86400 + seconds;
}

time_t tls_context_ends(const struct tls_context *context)
{
    return tls_certificate_ends(SSL_CTX_get0_certificate(context->ssl));
}

long tls_context_days(const struct tls_context *context)
{
    int days = 0, seconds = 0;
    ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(SSL_CTX_get0_certificate(context->ssl)));
    return days;
}

bool tls_context_is_old(const struct tls_context *context)
{
    X509 *certificate = SSL_CTX_get0_certificate(context->ssl);
    return X509_check_purpose(certificate, X509_PURPOSE_SSL_CLIENT, 0) == 1 &&
           X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) == 1;
}

struct tls_context *tls_context_reference(struct tls_context *context)
{
    context->references++;
    return context;
}

void tls_context_release(struct tls_context *context)
{
    if (!context || --context->references)
        return;
    SSL_CTX_free(context->ssl);
    free(context->path);
    free(context);
}

bool tls_context_revokes(const struct tls_context *context, struct tls_session *session)
{
    const STACK_OF(X509) *chain = SSL_get0_verified_chain(session->ssl);
    for (int i = 0; chain && i < sk_X509_num(chain); i++)
        if (certificate_revoked(SSL_CTX_get_cert_store(context->ssl), sk_X509_value(chain, i)))
            return true;
    return false;
}

/* ---- sessions ---- */

struct tls_session *tls_session_create(struct tls_context *context, bool server, const char *peer_name)
{
    struct tls_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->ssl = SSL_new(context->ssl);
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (!session->ssl || !session->in || !session->out) {
        SSL_free(session->ssl);
        BIO_free(session->in);
        BIO_free(session->out);
        free(session);
        return NULL;
    }
    BIO_set_mem_eof_return(session->in, -1); /* empty: come again */
    BIO_set_mem_eof_return(session->out, -1);
    SSL_set_bio(session->ssl, session->in, session->out);
    if (server)
        SSL_set_accept_state(session->ssl);
    else
        SSL_set_connect_state(session->ssl);
    if (peer_name)
        snprintf(session->name, sizeof session->name, "%s", peer_name);
    session->context = tls_context_reference(context);
    return session;
}

void tls_session_destroy(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl); /* and both BIOs */
    tls_context_release(session->context);
    free(session);
}

int tls_session_feed(struct tls_session *session, const void *bytes, size_t size)
{
    return size == 0 || BIO_write(session->in, bytes, (int)size) == (int)size ? 0 : -ENOMEM;
}

size_t tls_session_pending(struct tls_session *session, const uint8_t **bytes)
{
    char *at = NULL;
    long size = BIO_get_mem_data(session->out, &at);
    *bytes = (const uint8_t *)at;
    return size > 0 ? (size_t)size : 0;
}

void tls_session_sent(struct tls_session *session, size_t size)
{
    char waste[4096];
    const uint8_t *at;
    if (size == tls_session_pending(session, &at)) {
        (void)BIO_reset(session->out);
        return;
    }
    while (size > 0) {
        int got = BIO_read(session->out, waste, (int)(size < sizeof waste ? size : sizeof waste));
        if (got <= 0)
            return;
        size -= (size_t)got;
    }
}

static bool name_fits(const char *wanted, const char *name)
{
    size_t length = strlen(wanted);
    return wanted[length - 1] == '*' ? strncmp(wanted, name, length - 1) == 0 && name[length - 1]
                                     : strcmp(wanted, name) == 0;
}

/* What an issuer below the root has made counts for nodes and VMs only (authority.h): leaf, issuer, root. */
static bool issuer_may(const STACK_OF(X509) * chain, const char *name)
{
    return !chain || sk_X509_num(chain) <= 2 || strncmp(name, "node:", 5) == 0 || strncmp(name, "client:", 7) == 0;
}

/* "" where it has none, or one that cannot be a name. */
static void common_name(const X509 *certificate, char name[TLS_NAME_SIZE])
{
    int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, TLS_NAME_SIZE);
    if (length < 0 || (size_t)length != strlen(name))
        name[0] = '\0';
}

/* Remembers who the peer is; -EKEYREJECTED when it is not whom we wanted. */
static int learn_peer(struct tls_session *session, char *error)
{
    X509 *certificate = SSL_get1_peer_certificate(session->ssl);
    if (certificate) {
        common_name(certificate, session->peer);
        X509_free(certificate);
    }
    if (!issuer_may(SSL_get0_verified_chain(session->ssl), session->peer))
        return explain(error, -EKEYREJECTED,
                       "the peer's certificate names '%s', and its issuer may make only those of "
                       "nodes and VMs",
                       session->peer);
    if (*session->name && !name_fits(session->name, session->peer))
        return explain(error, -EKEYREJECTED, "the peer's certificate names '%s', expected was '%s'", session->peer,
                       session->name);
    return 1;
}

/* What OpenSSL's newest error means. -EKEYREJECTED: the peer has looked at our certificate and refused us. */
static int peer_refuses(char *error)
{
    switch (ERR_GET_REASON(ERR_peek_last_error())) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        return explain(error, -EKEYREJECTED,
                       "TLS: the peer does not accept this side's certificate (%s): is it of the same CA, and in"
                       " date?",
                       reason());
    default: return 0;
    }
}

bool tls_context_check_caller(const struct tls_context *context, const struct tls_der *chain, size_t count,
                              char name[TLS_NAME_SIZE])
{
    STACK_OF(X509) *shown = sk_X509_new_null();
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    bool good = shown && check && count > 0;
    for (size_t i = 0; i < count && good; i++) {
        const uint8_t *at = chain[i].bytes;
        X509 *one = d2i_X509(NULL, &at, (long)chain[i].size);
        good = one && sk_X509_push(shown, one) > 0;
        if (!good)
            X509_free(one);
    }
    good =
        good && X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context->ssl), sk_X509_value(shown, 0), shown) == 1;
    if (good) {
        X509_STORE_CTX_set_default(check, "ssl_client");
        X509_STORE_CTX_set_verify_cb(check, certificate_verify);
        good = X509_verify_cert(check) == 1;
    }
    if (good) {
        common_name(sk_X509_value(shown, 0), name);
        good = *name && issuer_may(X509_STORE_CTX_get0_chain(check), name);
    }
    X509_STORE_CTX_free(check);
    sk_X509_pop_free(shown, X509_free);
    ERR_clear_error();
    return good;
}

int tls_session_handshake(struct tls_session *session, char *error)
{
    ERR_clear_error();
    int done = SSL_do_handshake(session->ssl);
    if (done == 1)
        return learn_peer(session, error);
    int what = SSL_get_error(session->ssl, done);
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE)
        return 0;
    long verified = SSL_get_verify_result(session->ssl);
    int failure;
    if (verified != X509_V_OK)
        failure = explain(error, -EKEYREJECTED,
                          "TLS: the peer's certificate is not good: %s (is it of the same CA, and in date?)",
                          X509_verify_cert_error_string(verified));
    else if ((failure = peer_refuses(error)) == 0)
        failure =
            explain(error, -EPROTOTYPE,
                    "TLS: the handshake failed: %s (has the peer certificates too, so that it speaks TLS?)", reason());
    ERR_clear_error();
    return failure;
}

ssize_t tls_session_read(struct tls_session *session, void *bytes, size_t size, char *error)
{
    ERR_clear_error();
    int got = SSL_read(session->ssl, bytes, (int)size);
    if (got > 0)
        return got;
    switch (SSL_get_error(session->ssl, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return 0;
    case SSL_ERROR_ZERO_RETURN: return -ECONNRESET;
    default: break;
    }
    /* With TLS 1.3 a client learns only here that the server does not accept its certificate. */
    int failure = peer_refuses(error);
    if (!failure)
        failure = explain(error, -EPROTO, "TLS: %s", reason());
    ERR_clear_error();
    return failure;
}

int tls_session_write(struct tls_session *session, const void *bytes, size_t size, char *error)
{
    const uint8_t *at = bytes;
    ERR_clear_error();
    while (size > 0) {
        int put = SSL_write(session->ssl, at, (int)size);
        if (put <= 0) {
            explain(error, 0, "TLS: %s", reason());
            ERR_clear_error();
            return -EPROTO;
        }
        at += put;
        size -= (size_t)put;
    }
    return 0;
}

void tls_session_close(struct tls_session *session)
{
    ERR_clear_error();
    SSL_shutdown(session->ssl);
    ERR_clear_error();
}

bool tls_session_binding(struct tls_session *session, uint8_t binding[32])
{
    static const char label[] = "EXPORTER-Channel-Binding";
    bool there = SSL_export_keying_material(session->ssl, binding, 32, label, sizeof label - 1, NULL, 0, 0) == 1;
    ERR_clear_error();
    return there;
}

X509 *tls_session_certificate(struct tls_session *session) { return SSL_get0_peer_certificate(session->ssl); }

const char *tls_session_peer(struct tls_session *session) { return *session->peer ? session->peer : NULL; }
