/*
 * tls_context.c: whom one trusts. A context lives no longer than one handshake: nothing is shared between connections,
 * and a server's key goes with it.
 *
 * A fingerprint in the address is the whole identity: neither dates nor names nor authorities are looked at then.
 * Otherwise the certificate has to be made by the authority, be valid now, and name the host of the address: as
 * alternative name, or as the common name node:HOST, which is what `flytctl ca` writes. name= in the address replaces
 * the host.
 */
#include "cpu/rpc/tls/tls_context.h"

#include "cpu/rpc/transport/channel.h"

#include "cpu/common/certificate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

const char *tls_reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *text = code ? ERR_reason_error_string(code) : NULL;
    return text ? text : "no reason given";
}

bool tls_fingerprint(const X509 *certificate, char out[RPC_PIN_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (X509_digest(certificate, EVP_sha256(), digest, &size) != 1 || size * 2 + 1 != RPC_PIN_SIZE)
        return false;
    for (unsigned i = 0; i < size; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
    return true;
}

static SSL_CTX *context_new(const SSL_METHOD *method, char *error)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(method);
    if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) {
        rpc_explain(error, 0, "OpenSSL here offers no TLS 1.3: %s", tls_reason());
        SSL_CTX_free(context);
        return NULL;
    }
    /* One connection lives long; nothing is resumed. An end without a farewell is an end: records say what is whole. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    /* AES-128 first: with the processor's help it is several times as fast as ChaCha20. */
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
    return context;
}

/* ---- the peer ---- */

static int common_name(const X509 *certificate, char *out, int size)
{
    int length = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, out, size);
    if (length < 0 || (size_t)length != strlen(out)) {
        out[0] = 0;
        return -1;
    }
    return 0;
}

static bool named(X509 *certificate, const struct tls_wanted *wanted)
{
    char name[256], node[300];
    unsigned char address[16];
    if (common_name(certificate, name, sizeof name) == 0) {
        snprintf(node, sizeof node, "node:%s", wanted->host);
        if (strcmp(name, *wanted->name ? wanted->name : node) == 0)
            return true;
    }
    if (*wanted->name)
        return X509_check_host(certificate, wanted->name, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
    if (inet_pton(AF_INET, wanted->host, address) == 1 || inet_pton(AF_INET6, wanted->host, address) == 1)
        return X509_check_ip_asc(certificate, wanted->host, 0) == 1;
    return X509_check_host(certificate, wanted->host, 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
}

static int refuse(X509_STORE_CTX *store, struct tls_wanted *wanted, int code, int status)
{
    X509_STORE_CTX_set_error(store, code);
    wanted->status = status;
    return 0;
}

static int check_server(X509_STORE_CTX *store, void *context)
{
    struct tls_wanted *wanted = context;
    X509 *certificate = X509_STORE_CTX_get0_cert(store);
    char name[256] = "", pin[RPC_PIN_SIZE];
    common_name(certificate, name, sizeof name);
    if (*wanted->pin) {
        if (tls_fingerprint(certificate, pin) && strcmp(pin, wanted->pin) == 0) {
            X509_STORE_CTX_set_error(store, X509_V_OK);
            return 1;
        }
        snprintf(wanted->problem, sizeof wanted->problem,
                 "its certificate is not the one whose fingerprint the address gives: "
                 "was the server started again since the address was read, or is somebody between?");
        return refuse(store, wanted, X509_V_ERR_CERT_REJECTED, -EKEYREJECTED);
    }
    if (X509_verify_cert(store) != 1) {
        int code = X509_STORE_CTX_get_error(store);
        bool late = code == X509_V_ERR_CERT_HAS_EXPIRED, early = code == X509_V_ERR_CERT_NOT_YET_VALID;
        if (late)
            snprintf(wanted->problem, sizeof wanted->problem,
                     "its certificate (%.60s) or its authority's has expired: make a new one "
                     "(`flytctl ca issue … --force`) and give it to the server",
                     name);
        else if (early)
            snprintf(wanted->problem, sizeof wanted->problem,
                     "its certificate (%.60s) is not valid yet: are the clocks right?", name);
        else
            snprintf(wanted->problem, sizeof wanted->problem,
                     "its certificate (%.60s) was not made by the authority in FLYT_TLS_CA (%s): "
                     "is that file of this cluster?",
                     name, X509_verify_cert_error_string(code));
        return refuse(store, wanted, code, late || early ? -EKEYEXPIRED : -EKEYREJECTED);
    }
    if (named(certificate, wanted))
        return 1;
    snprintf(wanted->problem, sizeof wanted->problem,
             "its certificate is for %.60s, not for %.60s: name the host as the certificate does, "
             "add it there (`flytctl ca issue … --host`), or put ?name=%.60s behind the address",
             *name ? name : "somebody else", *wanted->name ? wanted->name : wanted->host, *name ? name : "…");
    return refuse(store, wanted, X509_V_ERR_HOSTNAME_MISMATCH, -EKEYREJECTED);
}

/* ---- contexts ---- */

int tls_client_context(const struct rpc_tls_files *files, struct tls_wanted *wanted, SSL_CTX **out, char *error)
{
    SSL_CTX *context = context_new(TLS_client_method(), error);
    if (!context)
        return -EIO;
    int status = 0;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(context, check_server, wanted);
    if (!*wanted->pin && SSL_CTX_load_verify_locations(context, files->ca, NULL) != 1)
        status = rpc_explain(error, -EINVAL, "reading the authority's certificate %s (FLYT_TLS_CA): %s", files->ca,
                             tls_reason());
    else if (files->certificate && SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1)
        status = rpc_explain(error, -EINVAL, "reading the certificate %s (FLYT_TLS_CERTIFICATE): %s",
                             files->certificate, tls_reason());
    else if (files->certificate && SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1)
        status = rpc_explain(error, -EINVAL, "reading the key %s (FLYT_TLS_KEY): %s", files->key, tls_reason());
    else if (files->certificate && SSL_CTX_check_private_key(context) != 1)
        status = rpc_explain(error, -EINVAL, "%s is not the key of %s", files->key, files->certificate);
    if (status < 0)
        SSL_CTX_free(context);
    else
        *out = context;
    ERR_clear_error();
    return status;
}

static bool use_chain(SSL_CTX *context, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = bio ? PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL) : NULL;
    bool good = certificate && SSL_CTX_use_certificate(context, certificate) == 1;
    X509_free(certificate);
    while (good && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (SSL_CTX_add0_chain_cert(context, certificate) != 1) {
            X509_free(certificate);
            good = false;
        }
    if (good)
        ERR_clear_error(); /* the end of the file is no error */
    BIO_free(bio);
    return good;
}

/* A context would keep it as long as the connection lives. */
int tls_server_key(SSL *ssl, const struct rpc_tls_identity *identity, char *error)
{
    BIO *bio = BIO_new_mem_buf(identity->key, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    int status = 0;
    if (!key)
        status = rpc_explain(error, -EINVAL, "there is no private key in it (PEM without a password is expected): %s",
                             tls_reason());
    else if (SSL_use_PrivateKey(ssl, key) != 1 || SSL_check_private_key(ssl) != 1)
        status = rpc_explain(error, -EINVAL, "the key is not the certificate's (%s)", tls_reason());
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
    return status;
}

static bool use_authority(SSL_CTX *context, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate;
    int count = 0;
    while (bio && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        count += X509_STORE_add_cert(SSL_CTX_get_cert_store(context), certificate) == 1 &&
                 SSL_CTX_add_client_CA(context, certificate) == 1;
        X509_free(certificate);
    }
    BIO_free(bio);
    if (count > 0)
        ERR_clear_error();
    return count > 0;
}

STACK_OF(X509_CRL) * tls_revoked(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    STACK_OF(X509_CRL) *lists = bio ? sk_X509_CRL_new_null() : NULL;
    X509_CRL *list;
    while (lists && (list = PEM_read_bio_X509_CRL(bio, NULL, NULL, NULL)))
        if (!sk_X509_CRL_push(lists, list))
            X509_CRL_free(list);
    BIO_free(bio);
    if (lists && sk_X509_CRL_num(lists) == 0) {
        sk_X509_CRL_free(lists);
        return NULL;
    }
    ERR_clear_error();
    return lists;
}

/* They are looked at by certificate_verify. */
static bool use_revoked(SSL_CTX *context, const char *pem)
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    STACK_OF(X509_CRL) *lists = tls_revoked(pem);
    bool good = lists != NULL;
    for (int i = 0; good && i < sk_X509_CRL_num(lists); i++)
        good = X509_STORE_add_crl(store, sk_X509_CRL_value(lists, i)) == 1;
    sk_X509_CRL_pop_free(lists, X509_CRL_free);
    return good;
}

int tls_server_context(const struct rpc_tls_identity *identity, SSL_CTX **out, char *error)
{
    SSL_CTX *context = context_new(TLS_server_method(), error);
    if (!context)
        return -EIO;
    int status = 0;
    SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
    if (!use_chain(context, identity->certificate))
        status = rpc_explain(error, -EINVAL, "there is no certificate in it (PEM is expected): %s", tls_reason());
    else if (identity->ca && !use_authority(context, identity->ca))
        status = rpc_explain(error, -EINVAL, "there is no certificate of an authority in it (PEM is expected): %s",
                             tls_reason());
    else if (identity->revoked && !use_revoked(context, identity->revoked))
        status = rpc_explain(error, -EINVAL, "there is no list of revoked certificates beside it (PEM is expected): %s",
                             tls_reason());
    if (identity->ca)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, certificate_verify);
    if (status < 0)
        SSL_CTX_free(context);
    else
        *out = context;
    ERR_clear_error();
    return status;
}
