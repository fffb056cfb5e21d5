/* authority.c: see authority.h. Keys are ECDSA on P-256. */
#include "control-managers/common/authority.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "cpu/common/certificate.h"
#include "cpu/common/explain.h"
#include "cpu/common/secret.h"

enum { DAY = 86400, EARLIER = 3600, RENEW_DAYS = 30, NAME_SIZE = 128 };

struct authority {
    X509 *certificate;
    EVP_PKEY *key;
    bool root; /* it is ca.crt itself */
};

/* ---- making one ---- */

static bool add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    bool added = extension && X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}

static bool set_serial(X509 *certificate)
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] &= 0x7f;
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool set = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate));
    BN_free(number);
    return set;
}

static bool add_name(X509_NAME *name, const char *field, const char *text)
{
    return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) == 1;
}

/* Valid from a little earlier: clocks differ. */
static bool set_dates(X509 *certificate, time_t seconds)
{
    long earlier = seconds / 10 < EARLIER ? (long)(seconds / 10) : EARLIER;
    return X509_gmtime_adj(X509_getm_notBefore(certificate), -earlier) &&
           X509_time_adj_ex(X509_getm_notAfter(certificate), (int)(seconds / DAY), (long)(seconds % DAY), NULL);
}

static bool add_use(X509 *certificate, X509 *by, const struct authority_order *order)
{
    switch (order->kind) {
    case AUTHORITY_ROOT:
        return add_extension(certificate, by, NID_basic_constraints, "critical,CA:TRUE,pathlen:1") &&
               add_extension(certificate, by, NID_key_usage, "critical,keyCertSign,cRLSign");
    case AUTHORITY_ISSUER:
        return add_extension(certificate, by, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
               add_extension(certificate, by, NID_key_usage, "critical,keyCertSign") &&
               add_extension(certificate, by, NID_ext_key_usage, "clientAuth");
    case AUTHORITY_LEAF: break;
    }
    return add_extension(certificate, by, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(certificate, by, NID_key_usage, "critical,digitalSignature") &&
           add_extension(certificate, by, NID_ext_key_usage, order->usage) &&
           (!*order->hosts || add_extension(certificate, by, NID_subject_alt_name, order->hosts));
}

X509 *authority_make(const struct authority_order *order)
{
    X509 *certificate = X509_new(), *by = order->by ? order->by : certificate;
    X509_NAME *name = certificate ? X509_get_subject_name(certificate) : NULL;
    bool made = certificate && X509_set_version(certificate, 2) && set_serial(certificate) &&
                set_dates(certificate, order->seconds) && add_name(name, "CN", order->common_name) &&
                (!order->line || add_name(name, "serialNumber", order->line)) &&
                X509_set_issuer_name(certificate, X509_get_subject_name(by)) &&
                X509_set_pubkey(certificate, order->key) &&
                add_extension(certificate, by, NID_subject_key_identifier, "hash") &&
                add_extension(certificate, by, NID_authority_key_identifier, "keyid:always") &&
                add_use(certificate, by, order) && X509_sign(certificate, order->by_key, EVP_sha256());
    if (made)
        return certificate;
    X509_free(certificate);
    return NULL;
}

/* ---- times ---- */

static time_t seconds_of(const ASN1_TIME *time)
{
    struct tm parts;
    return ASN1_TIME_to_tm(time, &parts) ? timegm(&parts) : 0;
}

time_t authority_end(const X509 *certificate) { return seconds_of(X509_get0_notAfter(certificate)); }

/* The given part of its time before it ends, at most so many days. */
static time_t before_end(const X509 *certificate, time_t part, time_t days)
{
    time_t end = authority_end(certificate), life = end - seconds_of(X509_get0_notBefore(certificate));
    return end - (life / part < days * DAY ? life / part : days * DAY);
}

time_t authority_due(const X509 *certificate) { return before_end(certificate, 3, RENEW_DAYS); }

long authority_days(const struct authority *authority)
{
    return (long)((authority_end(authority->certificate) - time(NULL)) / DAY);
}

/* ---- the issuer ---- */

static X509 *read_certificate(const char *path, char *error)
{
    FILE *in = fopen(path, "re");
    X509 *certificate = in ? PEM_read_X509(in, NULL, NULL, NULL) : NULL;
    if (!certificate)
        explain(error, 0, "%s is no certificate that can be read: %s", path, in ? "PEM is expected" : strerror(errno));
    if (in)
        fclose(in);
    return certificate;
}

static EVP_PKEY *read_key(const char *path, char *error)
{
    struct secret secret;
    if (secret_read(path, &secret, error) < 0)
        return NULL;
    BIO *bio = BIO_new_mem_buf(secret.bytes, (int)secret.size);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    secret_wipe(&secret);
    if (!key)
        explain(error, 0, "%s is no private key: PEM without a password is expected", path);
    return key;
}

/* Of the root, directly, and in date. */
static bool is_of(X509 *certificate, X509 *root, const char **why)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    bool good = store && context && X509_STORE_add_cert(store, root) == 1 &&
                X509_STORE_CTX_init(context, store, certificate, NULL) == 1 && X509_verify_cert(context) == 1;
    *why = good || !context ? "" : X509_verify_cert_error_string(X509_STORE_CTX_get_error(context));
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return good;
}

static int check(const struct authority *authority, const char *root, const char *path, char *error)
{
    const char *why;
    X509 *ca = read_certificate(root, error);
    int failure = 0;
    if (!ca)
        return -EINVAL;
    if (!is_of(authority->certificate, ca, &why))
        failure = explain(error, -EINVAL, "the issuer %s is not one of %s: %s", path, root, why);
    else if (X509_check_ca(authority->certificate) != 1)
        failure = explain(error, -EINVAL,
                          "%s is the certificate of no issuer (`flytctl ca issue DIR issuer NAME` makes one)", path);
    else if (X509_check_private_key(authority->certificate, authority->key) != 1)
        failure = explain(error, -EINVAL, "the key beside %s is not the issuer's", path);
    X509_free(ca);
    return failure;
}

int authority_open(const char *root, const char *certificate, const char *key, struct authority **out, char *error)
{
    if (access(certificate, F_OK) != 0 && access(key, F_OK) != 0 && errno == ENOENT)
        return explain(error, -ENOENT, "there is no %s", certificate);
    struct authority *authority = calloc(1, sizeof *authority);
    if (!authority)
        return explain(error, -ENOMEM, "no memory for an issuer");
    int failure = -EINVAL;
    if ((authority->certificate = read_certificate(certificate, error)) && (authority->key = read_key(key, error)))
        failure = check(authority, root, certificate, error);
    ERR_clear_error();
    if (failure) {
        authority_close(authority);
        return failure;
    }
    authority->root =
        X509_NAME_cmp(X509_get_subject_name(authority->certificate), X509_get_issuer_name(authority->certificate)) == 0;
    *out = authority;
    return 0;
}

void authority_close(struct authority *authority)
{
    if (!authority)
        return;
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
    free(authority);
}

/* ---- renewing ---- */

/* What authority_request makes. Others may be weak, or take long to check. */
static bool is_p256(const EVP_PKEY *key)
{
    char group[32] = "";
    size_t length;
    return EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_group_name(key, group, sizeof group, &length) == 1 &&
           strcmp(group, "prime256v1") == 0;
}

/* The key that a request is about, once it has shown that its sender has the private half; to be freed. */
static EVP_PKEY *requested_key(const void *request, size_t size, const char *name, char *error)
{
    const unsigned char *at = request;
    char asked[NAME_SIZE] = "";
    X509_REQ *parsed = size <= AUTHORITY_MAX_REQUEST ? d2i_X509_REQ(NULL, &at, (long)size) : NULL;
    EVP_PKEY *key = parsed ? X509_REQ_get_pubkey(parsed) : NULL;
    if (parsed)
        X509_NAME_get_text_by_NID(X509_REQ_get_subject_name(parsed), NID_commonName, asked, sizeof asked);
    const char *problem = NULL;
    if (!key || at != (const unsigned char *)request + size)
        problem = "it is no request for a certificate (PKCS #10)";
    else if (!is_p256(key))
        problem = "its key is not one of ECDSA on P-256";
    else if (X509_REQ_verify(parsed, key) != 1)
        problem = "its sender does not have the key";
    else if (strcmp(asked, name) != 0)
        problem = "it is for somebody else";
    X509_REQ_free(parsed);
    ERR_clear_error();
    if (!problem)
        return key;
    explain(error, 0, "the request of %s is refused: %s", name, problem);
    EVP_PKEY_free(key);
    return NULL;
}

static char *chain_text(const struct authority *authority, X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *bytes = NULL, *text = NULL;
    if (bio && PEM_write_bio_X509(bio, certificate) &&
        (authority->root || PEM_write_bio_X509(bio, authority->certificate))) {
        long size = BIO_get_mem_data(bio, &bytes);
        text = size > 0 && size <= AUTHORITY_MAX_CHAIN ? strndup(bytes, (size_t)size) : NULL;
    }
    BIO_free(bio);
    return text;
}

int authority_renew(const struct authority *authority, const X509 *old, const void *request, size_t size,
                    time_t seconds, char **chain, char *error)
{
    char name[NAME_SIZE] = "", line[CERTIFICATE_NUMBER_SIZE];
    time_t now = time(NULL), left = authority_end(authority->certificate) - now;
    X509_NAME_get_text_by_NID(X509_get_subject_name(old), NID_commonName, name, sizeof name);
    certificate_line(old, line);
    if (strncmp(name, "node:", 5) != 0 && strncmp(name, "client:", 7) != 0)
        return explain(error, -EPERM, "certificates of nodes and VMs are renewed, not one of %s", name);
    if (authority_end(old) < now)
        return explain(error, -EKEYEXPIRED,
                       "the certificate of %s has expired, and is not renewed: `flytctl ca issue` makes a new one",
                       name);
    if (left <= 0)
        return explain(error, -EKEYEXPIRED, "the issuer's own certificate has expired");
    if (now < before_end(old, 2, 2 * RENEW_DAYS))
        return explain(error, -EAGAIN, "the certificate of %s is not to be renewed yet", name);
    EVP_PKEY *key = requested_key(request, size, name, error);
    if (!key)
        return -EINVAL;
    const struct authority_order order = { .kind = AUTHORITY_LEAF,
                                           .common_name = name,
                                           .line = line,
                                           .seconds = seconds < left ? seconds : left,
                                           .key = key,
                                           .by = authority->certificate,
                                           .by_key = authority->key,
                                           .usage = "clientAuth",
                                           .hosts = "" };
    X509 *certificate = authority_make(&order);
    *chain = certificate ? chain_text(authority, certificate) : NULL;
    X509_free(certificate);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return *chain ? 0 : explain(error, -EIO, "a certificate for %s could not be made", name);
}

EVP_PKEY *authority_request(const X509 *old, uint8_t **der, size_t *size)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *request = key ? X509_REQ_new() : NULL;
    *der = NULL;
    int length = -1;
    if (request && X509_REQ_set_subject_name(request, X509_get_subject_name(old)) &&
        X509_REQ_set_pubkey(request, key) && X509_REQ_sign(request, key, EVP_sha256()))
        length = i2d_X509_REQ(request, der);
    X509_REQ_free(request);
    ERR_clear_error();
    if (length > 0) {
        *size = (size_t)length;
        return key;
    }
    EVP_PKEY_free(key);
    return NULL;
}
