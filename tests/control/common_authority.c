/*
 * common_authority.c: what an issuer renews, what it refuses, and what one that was stolen is good for.
 *
 * shows: attacks: requests for another name, of another's key, of what has expired are not renewed
 * shows: attacks: a stolen issuer's certificates of administrators and of the cluster manager are refused by both ends
 */
#include "tests/control/common_peer.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "control-managers/common/authority.h"
#include "control-managers/common/tls.h"
#include "cpu/common/certificate.h"

enum { DAY = 86400 };

static char folder[64];
static EVP_PKEY *root_key, *issuer_key;
static X509 *root, *issuer;
static struct authority *authority;

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void write_pem(const char *name, EVP_PKEY *key, X509 *first, X509 *second)
{
    FILE *out = fopen(in_folder(name), "w");
    assert_non_null(out);
    fchmod(fileno(out), 0600);
    if (key)
        assert_int_equal(PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL), 1);
    if (first)
        assert_int_equal(PEM_write_X509(out, first), 1);
    if (second)
        assert_int_equal(PEM_write_X509(out, second), 1);
    fclose(out);
}

static X509 *made(enum authority_kind kind, const char *name, const char *usage, time_t seconds, EVP_PKEY *key,
                  X509 *by, EVP_PKEY *by_key)
{
    const struct authority_order order = { .kind = kind,
                                           .common_name = name,
                                           .seconds = seconds,
                                           .key = key,
                                           .by = by,
                                           .by_key = by_key,
                                           .usage = usage,
                                           .hosts = "" };
    X509 *certificate = authority_make(&order);
    assert_non_null(certificate);
    return certificate;
}

static int setup(void **state)
{
    (void)state;
    char error[CONTROL_ERROR_SIZE];
    snprintf(folder, sizeof folder, "/tmp/flyt-authority-XXXXXX");
    assert_non_null(mkdtemp(folder));
    root_key = EVP_EC_gen("P-256");
    issuer_key = EVP_EC_gen("P-256");
    root = made(AUTHORITY_ROOT, "ca:x", "", 100 * DAY, root_key, NULL, root_key);
    issuer = made(AUTHORITY_ISSUER, "issuer:x", "", 50 * DAY, issuer_key, root, root_key);
    write_pem("ca.crt", NULL, root, NULL);
    write_pem("issuer.crt", NULL, issuer, NULL);
    write_pem("issuer.key", issuer_key, NULL, NULL);
    assert_int_equal(
        authority_open(in_folder("ca.crt"), in_folder("issuer.crt"), in_folder("issuer.key"), &authority, error), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    authority_close(authority);
    X509_free(root);
    X509_free(issuer);
    EVP_PKEY_free(root_key);
    EVP_PKEY_free(issuer_key);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* A certificate that is due: only so many seconds are left of 90 days. */
static X509 *due(const char *name, time_t left, EVP_PKEY *key)
{
    X509 *certificate = made(AUTHORITY_LEAF, name, "clientAuth", left, key, root, root_key);
    X509_gmtime_adj(X509_getm_notBefore(certificate), (long)(left - 90L * DAY));
    X509_gmtime_adj(X509_getm_notAfter(certificate), (long)left);
    assert_true(X509_sign(certificate, root_key, EVP_sha256()));
    return certificate;
}

/* What comes of a request for `asked` with the key, signed by `signer`, in the name of `old`. */
static int renews(X509 *old, const char *asked, EVP_PKEY *key, EVP_PKEY *signer, char **chain, char *error)
{
    X509_REQ *request = X509_REQ_new();
    uint8_t *der = NULL;
    X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(request), "CN", MBSTRING_UTF8, (const uint8_t *)asked, -1, -1,
                               0);
    X509_REQ_set_pubkey(request, key);
    assert_true(X509_REQ_sign(request, signer, EVP_sha256()));
    int size = i2d_X509_REQ(request, &der);
    X509_REQ_free(request);
    *chain = NULL;
    int failure = authority_renew(authority, old, der, (size_t)size, 90 * DAY, chain, error);
    OPENSSL_free(der);
    return failure;
}

TEST(test_renews)
{
    char error[CONTROL_ERROR_SIZE], *chain, name[64], first[CERTIFICATE_NUMBER_SIZE], line[CERTIFICATE_NUMBER_SIZE];
    EVP_PKEY *key = EVP_EC_gen("P-256"), *fresh = EVP_EC_gen("P-256");
    X509 *old = due("client:vm1", 20 * DAY, key);
    assert_int_equal(renews(old, "client:vm1", fresh, fresh, &chain, error), 0);
    BIO *bio = BIO_new_mem_buf(chain, -1);
    X509 *next = PEM_read_bio_X509(bio, NULL, NULL, NULL), *by = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    assert_non_null(next);
    assert_int_equal(X509_cmp(by, issuer), 0);
    assert_int_equal(X509_check_private_key(next, fresh), 1);
    X509_NAME_get_text_by_NID(X509_get_subject_name(next), NID_commonName, name, sizeof name);
    assert_string_equal(name, "client:vm1");
    /* No longer than its issuer. */
    assert_true(authority_end(next) <= authority_end(issuer) + 1);
    /* Its line goes on, also over two renewals. */
    certificate_number(old, first);
    certificate_line(next, line);
    assert_string_equal(line, first);
    assert_int_equal(X509_check_ca(next), 0);
    BIO_free(bio);
    X509_free(next);
    X509_free(by);
    X509_free(old);
    free(chain);
    EVP_PKEY_free(key);
    EVP_PKEY_free(fresh);
}

static void refused(X509 *old, const char *asked, EVP_PKEY *key, EVP_PKEY *signer, int failure, const char *word)
{
    char error[CONTROL_ERROR_SIZE] = "", *chain;
    assert_int_equal(renews(old, asked, key, signer, &chain, error), failure);
    assert_null(chain);
    if (!strstr(error, word))
        fail_msg("'%s' lacks '%s'", error, word);
}

TEST(test_refuses)
{
    char error[CONTROL_ERROR_SIZE], *chain = NULL;
    EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256"), *weak = EVP_RSA_gen(1024),
             *larger = EVP_EC_gen("P-384");
    X509 *old = due("client:vm1", 20 * DAY, key), *ended = due("client:vm1", -10, key),
         *young = due("client:vm1", 80 * DAY, key), *person = due("admin:ann", 20 * DAY, key),
         *cluster = due("cluster:main", 20 * DAY, key);
    refused(old, "client:vm2", other, other, -EINVAL, "somebody else");
    refused(old, "admin:vm1", other, other, -EINVAL, "somebody else");
    refused(old, "client:vm1", other, key, -EINVAL, "does not have the key");
    refused(old, "client:vm1", weak, weak, -EINVAL, "P-256");
    refused(old, "client:vm1", larger, larger, -EINVAL, "P-256");
    refused(ended, "client:vm1", other, other, -EKEYEXPIRED, "has expired");
    refused(young, "client:vm1", other, other, -EAGAIN, "not to be renewed yet");
    refused(person, "admin:ann", other, other, -EPERM, "not one of admin:ann");
    refused(cluster, "cluster:main", other, other, -EPERM, "not one of cluster:main");
    assert_int_equal(authority_renew(authority, old, "garbage", 7, 90 * DAY, &chain, error), -EINVAL);
    assert_int_equal(authority_renew(authority, old, "", 0, 90 * DAY, &chain, error), -EINVAL);
    X509 *all[] = { old, ended, young, person, cluster };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        X509_free(all[i]);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other);
    EVP_PKEY_free(weak);
    EVP_PKEY_free(larger);
}

TEST(test_files)
{
    char error[CONTROL_ERROR_SIZE];
    struct authority *none = NULL;
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *leaf = made(AUTHORITY_LEAF, "node:n1", "clientAuth", DAY, key, root, root_key);
    X509 *stranger = made(AUTHORITY_ROOT, "ca:y", "", DAY, key, NULL, key);
    write_pem("leaf.crt", NULL, leaf, NULL);
    write_pem("leaf.key", key, NULL, NULL);
    write_pem("stranger.crt", NULL, stranger, NULL);
    const char *ca = in_folder("ca.crt"), *leaf_key = in_folder("leaf.key");
    assert_int_equal(authority_open(ca, in_folder("no.crt"), in_folder("no.key"), &none, error), -ENOENT);
    assert_int_equal(authority_open(ca, in_folder("leaf.crt"), leaf_key, &none, error), -EINVAL);
    assert_int_equal(authority_open(ca, in_folder("stranger.crt"), leaf_key, &none, error), -EINVAL);
    ca = in_folder("ca.crt");
    assert_int_equal(authority_open(ca, in_folder("issuer.crt"), in_folder("leaf.key"), &none, error), -EINVAL);
    chmod(in_folder("leaf.key"), 0644);
    assert_int_equal(authority_open(ca, in_folder("issuer.crt"), in_folder("leaf.key"), &none, error), -EINVAL);
    assert_non_null(strstr(error, "chmod"));
    assert_null(none);
    X509_free(leaf);
    X509_free(stranger);
    EVP_PKEY_free(key);
}

/* ---- a stolen issuer ---- */

static struct tls_context *context_of(const char *name, EVP_PKEY *key, X509 *certificate, X509 *by)
{
    char error[CONTROL_ERROR_SIZE], certificates[64], keys[64];
    struct tls_context *context;
    snprintf(certificates, sizeof certificates, "%s.crt", name);
    snprintf(keys, sizeof keys, "%s.key", name);
    write_pem(certificates, NULL, certificate, by);
    write_pem(keys, key, NULL, NULL);
    const struct tls_files files = { in_folder("ca.crt"), in_folder(certificates), in_folder(keys) };
    if (tls_context_create(&files, &context, error) != 0)
        fail_msg("%s", error);
    return context;
}

static void pass_on(struct tls_session *from, struct tls_session *to)
{
    const uint8_t *bytes;
    size_t size = tls_session_pending(from, &bytes);
    assert_int_equal(tls_session_feed(to, bytes, size), 0);
    tls_session_sent(from, size);
}

/* Whether both ends are content. wanted: whom the caller wants to see. */
static bool connects(struct tls_context *listener, struct tls_context *caller, const char *wanted)
{
    char error[CONTROL_ERROR_SIZE] = "", bytes[16];
    struct tls_session *server = tls_session_create(listener, true, NULL),
                       *client = tls_session_create(caller, false, wanted);
    int here = 0, there = 0;
    for (int i = 0; i < 10 && here >= 0 && there >= 0 && !(here == 1 && there == 1); i++) {
        if (there != 1)
            there = tls_session_handshake(client, error);
        pass_on(client, server);
        if (here != 1)
            here = tls_session_handshake(server, error);
        pass_on(server, client);
    }
    bool good = here == 1 && there == 1 && tls_session_read(client, bytes, sizeof bytes, error) >= 0;
    tls_session_destroy(server);
    tls_session_destroy(client);
    return good;
}

TEST(test_stolen)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cluster = made(AUTHORITY_LEAF, "cluster:main", "serverAuth", DAY, key, root, root_key);
    X509 *node = made(AUTHORITY_LEAF, "node:n1", "clientAuth", DAY, key, issuer, issuer_key);
    X509 *admin = made(AUTHORITY_LEAF, "admin:ann", "clientAuth", DAY, key, issuer, issuer_key);
    X509 *real = made(AUTHORITY_LEAF, "admin:ann", "clientAuth", DAY, key, root, root_key);
    X509 *false_one = made(AUTHORITY_LEAF, "cluster:main", "serverAuth", DAY, key, issuer, issuer_key);
    X509 *below = made(AUTHORITY_ISSUER, "issuer:y", "", DAY, key, issuer, issuer_key);
    X509 *deep = made(AUTHORITY_LEAF, "node:n1", "clientAuth", DAY, key, below, key);
    struct {
        X509 *certificate, *by;
        struct tls_context *context;
    } all[] = {
        { cluster, NULL, NULL }, { node, issuer, NULL },      { admin, issuer, NULL },
        { real, NULL, NULL },    { false_one, issuer, NULL }, { deep, below, NULL },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        all[i].context = context_of("one", key, all[i].certificate, all[i].by);
    assert_true(connects(all[0].context, all[1].context, "cluster:*"));
    assert_true(connects(all[0].context, all[3].context, "cluster:*"));
    assert_false(connects(all[0].context, all[2].context, "cluster:*")); /* an administrator of its own */
    assert_false(connects(all[4].context, all[1].context, "cluster:*")); /* a cluster manager of its own */
    assert_false(connects(all[0].context, all[5].context, "cluster:*")); /* an issuer below it */
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tls_context_release(all[i].context);
        X509_free(all[i].certificate);
    }
    X509_free(below);
    EVP_PKEY_free(key);
}

int main(void) { return unit_run(setup, teardown); }
