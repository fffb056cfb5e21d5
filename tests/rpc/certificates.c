/* certificates.c: see certificates.h. */
#include "tests/rpc/certificates.h"

#include <sys/stat.h>

#include "tests/lib/unit.h"
#include <openssl/pem.h>
#include <openssl/x509v3.h>

char folder[] = "/tmp/flyt-tls.XXXXXX";

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

/* Valid from `from` to `to` seconds from now. by NULL: an authority. */
static X509 *certify(const char *name, const char *hosts, long from, long to, EVP_PKEY *key, const struct authority *by)
{
    static long serial = 1;
    X509 *certificate = X509_new();
    X509_NAME *subject = X509_get_subject_name(certificate);
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), to);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(certificate, by ? X509_get_subject_name(by->certificate) : subject);
    X509_set_pubkey(certificate, key);
    extend(certificate, by ? by->certificate : certificate, NID_basic_constraints,
           by ? "critical,CA:FALSE" : "critical,CA:TRUE");
    if (hosts)
        extend(certificate, by->certificate, NID_subject_alt_name, hosts);
    assert_true(X509_sign(certificate, by ? by->key : key, EVP_sha256()) > 0);
    return certificate;
}

static void save(const char *path, X509 *certificate, EVP_PKEY *key)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fchmod(fileno(file), 0600);
    assert_int_equal(certificate ? PEM_write_X509(file, certificate)
                                 : PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL),
                     1);
    fclose(file);
}

void authority_make(struct authority *authority, const char *name)
{
    authority->key = EVP_EC_gen("P-256");
    authority->certificate = certify(name, NULL, -DAY, DAY, authority->key, NULL);
    snprintf(authority->path, sizeof authority->path, "%s/%s.crt", folder, name);
    save(authority->path, authority->certificate, NULL);
}

void authority_end(struct authority *authority)
{
    EVP_PKEY_free(authority->key);
    X509_free(authority->certificate);
}

void issue(struct shown *shown, const char *base, const char *name, const char *hosts, long from, long to,
           const struct authority *by)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = certify(name, hosts, from, to, key, by);
    snprintf(shown->certificate, sizeof shown->certificate, "%s/%s.crt", folder, base);
    snprintf(shown->key, sizeof shown->key, "%s/%s.key", folder, base);
    save(shown->certificate, certificate, NULL);
    save(shown->key, NULL, key);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

void load(const struct shown *shown, const char *ca, struct rpc_tls_identity *out)
{
    char *texts[3] = { NULL, NULL, NULL };
    const char *paths[3] = { shown->certificate, shown->key, ca };
    for (int i = 0; i < 3 && paths[i]; i++) {
        texts[i] = calloc(1, 8192);
        FILE *file = fopen(paths[i], "r");
        assert_non_null(file);
        assert_true(fread(texts[i], 1, 8191, file) > 0);
        fclose(file);
    }
    *out = (struct rpc_tls_identity){ .certificate = texts[0], .key = texts[1], .ca = texts[2] };
}
