/* tls_identity.c: a server's certificate and key: read from files, or made for this server alone. */
#include "cpu/rpc/tls/tls_context.h"

#include "cpu/common/certificate.h"
#include "cpu/rpc/transport/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

void rpc_tls_wipe(void *bytes, size_t size) { OPENSSL_cleanse(bytes, size); }

static void text_wipe(char *text)
{
    if (text)
        OPENSSL_cleanse(text, strlen(text));
    free(text);
}

void rpc_tls_identity_wipe(struct rpc_tls_identity *identity)
{
    text_wipe(identity->certificate);
    text_wipe(identity->key);
    text_wipe(identity->ca);
    text_wipe(identity->revoked);
    *identity = (struct rpc_tls_identity){ 0 };
}

/* The text of a file; NULL with *error. `secret`: nobody but its owner, who is this user or root, may read it; a group
 * may. */
static char *text_read(const char *path, bool secret, char *error)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a pipe must not stop the server */
    if (fd < 0 || fstat(fd, &st) != 0) {
        rpc_explain(error, 0, "reading %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    char *text = NULL;
    ssize_t size = 0;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > RPC_TLS_PEM_MAX / 2)
        rpc_explain(error, 0, "%s is no file of at most %d bytes", path, RPC_TLS_PEM_MAX / 2);
    else if (secret && ((st.st_mode & 027) || (st.st_uid != geteuid() && st.st_uid != 0)))
        rpc_explain(error, 0, "%s holds a private key, and others may read or change it: chmod 600 %s", path, path);
    else if (!(text = calloc(1, (size_t)st.st_size + 1)) || (size = read(fd, text, (size_t)st.st_size)) != st.st_size ||
             strlen(text) != (size_t)size) {
        rpc_explain(error, 0, "%s is no text: PEM is expected", path);
        text_wipe(text);
        text = NULL;
    }
    close(fd);
    return text;
}

/* Its leaf: valid now? Fills in the fingerprint. */
static int identity_check(struct rpc_tls_identity *identity, const char *path, char *error)
{
    SSL_CTX *context;
    char why[RPC_ERROR_SIZE];
    int status = tls_server_context(identity, &context, why);
    if (status < 0)
        return rpc_explain(error, status, "%s: %.300s", path, why);
    X509 *leaf = SSL_CTX_get0_certificate(context);
    SSL *ssl = SSL_new(context);
    if (!ssl)
        status = rpc_explain(error, -ENOMEM, "%s: no memory", path);
    else if ((status = tls_server_key(ssl, identity, why)) < 0)
        rpc_explain(error, status, "the key of %s: %.300s", path, why);
    else if (!tls_fingerprint(leaf, identity->fingerprint))
        status = rpc_explain(error, -ENOMEM, "%s: no memory", path);
    else if (X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0)
        status = rpc_explain(error, -EKEYEXPIRED,
                             "the certificate %s has expired: make a new one (`flytctl ca issue … --force`)", path);
    else if (X509_cmp_current_time(X509_get0_notBefore(leaf)) > 0)
        status = rpc_explain(error, -EKEYEXPIRED, "the certificate %s is not valid yet: is the clock right?", path);
    SSL_free(ssl);
    SSL_CTX_free(context);
    ERR_clear_error();
    return status;
}

/* Whether each list is signed by one of the authorities. */
static bool lists_are_of(const char *revoked, const char *ca)
{
    STACK_OF(X509_CRL) *lists = tls_revoked(revoked);
    bool good = lists != NULL;
    for (int i = 0; good && i < sk_X509_CRL_num(lists); i++) {
        BIO *bio = BIO_new_mem_buf(ca, -1);
        X509 *authority;
        good = false;
        while (bio && !good && (authority = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
            good = X509_CRL_verify(sk_X509_CRL_value(lists, i), X509_get0_pubkey(authority)) == 1;
            X509_free(authority);
        }
        BIO_free(bio);
    }
    sk_X509_CRL_pop_free(lists, X509_CRL_free);
    ERR_clear_error();
    return good;
}

/* ca.crl beside ca.crt, if it is there. */
static int add_revoked(struct rpc_tls_identity *identity, const char *ca, char *error)
{
    char path[4096];
    size_t length = strlen(ca);
    bool suffix = length > 4 && strcmp(ca + length - 4, ".crt") == 0;
    if (snprintf(path, sizeof path, "%.*s.crl", (int)(suffix ? length - 4 : length), ca) >= (int)sizeof path)
        return rpc_explain(error, -ENAMETOOLONG, "%s is too long", ca);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return 0;
    identity->revoked = text_read(path, false, error);
    if (!identity->revoked)
        return -EINVAL;
    return lists_are_of(identity->revoked, identity->ca)
               ? 0
               : rpc_explain(error, -EINVAL, "%s is no list of revoked certificates of the authority in %s", path, ca);
}

bool rpc_tls_identity_revokes(const struct rpc_tls_identity *identity, const char *numbers)
{
    STACK_OF(X509_CRL) *lists = identity->revoked && *numbers ? tls_revoked(identity->revoked) : NULL;
    bool found = false;
    for (int i = 0; lists && !found && i < sk_X509_CRL_num(lists); i++)
        found = certificate_numbers_listed(sk_X509_CRL_value(lists, i), numbers);
    sk_X509_CRL_pop_free(lists, X509_CRL_free);
    return found;
}

int rpc_tls_identity_add_ca(struct rpc_tls_identity *identity, const char *path, char *error)
{
    identity->ca = text_read(path, false, error);
    int status = identity->ca ? add_revoked(identity, path, error) : -EINVAL;
    if (status == 0)
        status = identity_check(identity, path, error);
    if (status < 0)
        rpc_tls_identity_wipe(identity);
    return status;
}

int rpc_tls_identity_read(const struct rpc_tls_files *files, struct rpc_tls_identity *out, char *error)
{
    struct rpc_tls_identity identity = { 0 };
    int status = -EINVAL;
    if ((identity.certificate = text_read(files->certificate, false, error)) &&
        (identity.key = text_read(files->key, true, error)))
        status = identity_check(&identity, files->certificate, error);
    if (status == 0 && files->ca)
        status = rpc_tls_identity_add_ca(&identity, files->ca, error);
    if (status < 0)
        rpc_tls_identity_wipe(&identity);
    else
        *out = identity;
    return status;
}

/* ---- one of its own ---- */

static char *pem_text(BIO *bio)
{
    char *bytes = NULL;
    long size = BIO_get_mem_data(bio, &bytes);
    return size > 0 ? strndup(bytes, (size_t)size) : NULL;
}

static X509 *self_signed(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    X509_NAME *name = certificate ? X509_get_subject_name(certificate) : NULL;
    /* "No well-defined expiration date", RFC 5280, section 4.1.2.5: the fingerprint is what counts. */
    bool made =
        certificate && X509_set_version(certificate, 2) && ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) &&
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) &&
        ASN1_TIME_set_string(X509_getm_notAfter(certificate), "99991231235959Z") &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)"flyt server", -1, -1, 0) &&
        X509_set_issuer_name(certificate, name) && X509_set_pubkey(certificate, key) &&
        X509_sign(certificate, key, EVP_sha256());
    if (made)
        return certificate;
    X509_free(certificate);
    return NULL;
}

int rpc_tls_identity_make(struct rpc_tls_identity *out, char *error)
{
    struct rpc_tls_identity identity = { 0 };
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = key ? self_signed(key) : NULL;
    BIO *of_key = BIO_new(BIO_s_secmem()), *of_certificate = BIO_new(BIO_s_mem());
    int status = 0;
    if (certificate && of_key && of_certificate &&
        PEM_write_bio_PKCS8PrivateKey(of_key, key, NULL, NULL, 0, NULL, NULL) == 1 &&
        PEM_write_bio_X509(of_certificate, certificate) == 1) {
        identity.key = pem_text(of_key);
        identity.certificate = pem_text(of_certificate);
    }
    if (!identity.key || !identity.certificate || !tls_fingerprint(certificate, identity.fingerprint)) {
        status = rpc_explain(error, -EIO, "making a key for TLS: %s", tls_reason());
        rpc_tls_identity_wipe(&identity);
    } else {
        *out = identity;
    }
    BIO_free(of_key);
    BIO_free(of_certificate);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}

/* ---- on its way to another process ---- */

enum { PARTS = 4 };

char *rpc_tls_identity_pack(const struct rpc_tls_identity *identity, size_t *size)
{
    const char *parts[PARTS] = { identity->certificate, identity->key, identity->ca ? identity->ca : "",
                                 identity->revoked ? identity->revoked : "" };
    size_t total = 0;
    for (int i = 0; i < PARTS; i++)
        total += strlen(parts[i]) + 1;
    char *bytes = total <= RPC_TLS_PEM_MAX ? malloc(total) : NULL, *at = bytes;
    for (int i = 0; bytes && i < PARTS; i++)
        at = stpcpy(at, parts[i]) + 1;
    *size = total;
    return bytes;
}

int rpc_tls_identity_unpack(const char *bytes, size_t size, struct rpc_tls_identity *out)
{
    const char *parts[PARTS] = { bytes };
    size_t found = 0;
    if (size == 0 || size > RPC_TLS_PEM_MAX || bytes[size - 1])
        return -EINVAL;
    for (size_t i = 0; i < size; i++)
        if (!bytes[i] && ++found < PARTS)
            parts[found] = bytes + i + 1;
    if (found != PARTS)
        return -EINVAL;
    *out = (struct rpc_tls_identity){ .certificate = strdup(parts[0]),
                                      .key = strdup(parts[1]),
                                      .ca = *parts[2] ? strdup(parts[2]) : NULL,
                                      .revoked = *parts[3] ? strdup(parts[3]) : NULL };
    if (out->certificate && out->key && (out->ca || !*parts[2]) && (out->revoked || !*parts[3]))
        return 0;
    rpc_tls_identity_wipe(out);
    return -ENOMEM;
}
