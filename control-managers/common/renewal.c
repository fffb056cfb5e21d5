/* renewal.c: see renewal.h. */
#include "control-managers/common/renewal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "control-managers/common/authority.h"
#include "control-managers/common/daemon.h"
#include "cpu/common/explain.h"
#include "cpu/common/log.h"
#include "cpu/common/secret.h"

enum { FIRST_MS = 1000, LONGEST_MS = 3600 * 1000, WARN_MS = 24 * 3600 * 1000, NAME_SIZE = 128 };

struct renewal {
    struct loop *loop;
    struct link *link;
    struct tls_files files;
    const char *path;
    struct tls_context **now;
    struct loop_timer timer;
    EVP_PKEY *key;   /* of the request that is under way */
    uint64_t warned; /* loop_now, or 0 */
};

bool renewal_path(const char *state_folder, char path[RENEWAL_PATH_SIZE])
{
    return snprintf(path, RENEWAL_PATH_SIZE, "%s/renewed.pem", state_folder) < RENEWAL_PATH_SIZE;
}

/* ---- which one counts ---- */

static STACK_OF(X509) * read_all(BIO *bio)
{
    STACK_OF(X509) *all = bio ? sk_X509_new_null() : NULL;
    X509 *certificate;
    while (all && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (!sk_X509_push(all, certificate))
            X509_free(certificate);
    BIO_free(bio);
    ERR_clear_error();
    return all;
}

static void name_of(const X509 *certificate, char name[NAME_SIZE])
{
    name[0] = '\0';
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, NAME_SIZE);
}

/* Whether the first of `all` is good for a client of the authority in this file. */
static bool is_of(STACK_OF(X509) * all, const char *ca, const char **why)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    bool good = store && context && X509_STORE_load_file(store, ca) == 1 &&
                X509_STORE_CTX_init(context, store, sk_X509_value(all, 0), all) == 1 &&
                X509_STORE_CTX_set_default(context, "ssl_client") == 1 && X509_verify_cert(context) == 1;
    int code = context ? X509_STORE_CTX_get_error(context) : X509_V_ERR_OUT_OF_MEM;
    *why = good ? "" : code ? X509_verify_cert_error_string(code) : "the authority's certificate cannot be read";
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    ERR_clear_error();
    return good;
}

/* Whether what was renewed takes the place of the configured one. */
static bool counts(STACK_OF(X509) * configured, STACK_OF(X509) * renewed, const char *ca, char *error)
{
    char name[NAME_SIZE], other[NAME_SIZE];
    const char *why;
    if (sk_X509_num(configured) <= 0)
        return false;
    if (sk_X509_num(renewed) <= 0) {
        explain(error, 0, "there is no certificate in it");
        return false;
    }
    const X509 *old = sk_X509_value(configured, 0), *fresh = sk_X509_value(renewed, 0);
    name_of(old, name);
    name_of(fresh, other);
    if (strcmp(name, other) != 0) {
        explain(error, 0, "it is of %s, and the configured one of %s", other, name);
        return false;
    }
    if (ASN1_TIME_compare(X509_get0_notBefore(fresh), X509_get0_notBefore(old)) < 0)
        return false; /* the administrator has issued a newer one */
    if (is_of(renewed, ca, &why))
        return true;
    explain(error, 0, "%s", why);
    return false;
}

void renewal_pick(struct tls_files *files, const char *renewed, char *error)
{
    error[0] = '\0';
    if (!renewed || !*renewed || access(renewed, F_OK) != 0)
        return;
    STACK_OF(X509) *configured = read_all(BIO_new_file(files->certificate, "r")),
                   *fresh = read_all(BIO_new_file(renewed, "r"));
    if (counts(configured, fresh, files->ca, error))
        files->certificate = files->key = renewed;
    sk_X509_pop_free(configured, X509_free);
    sk_X509_pop_free(fresh, X509_free);
    ERR_clear_error();
}

/* ---- asking ---- */

static void look(struct loop_timer *, void *);

/* Again after a tenth of what is left, so that many tries fit before the end. */
static void again(struct renewal *renewal)
{
    X509 *certificate = tls_context_certificate(*renewal->now);
    int64_t left = ((int64_t)authority_end(certificate) - (int64_t)time(NULL)) * 1000;
    int64_t until_due = ((int64_t)authority_due(certificate) - (int64_t)time(NULL)) * 1000;
    int64_t ms = until_due > 0 ? until_due : left / 10;
    if (ms > LONGEST_MS || left <= 0)
        ms = LONGEST_MS; /* clocks are set, and files replaced */
    if (ms < FIRST_MS)
        ms = FIRST_MS;
    loop_timer_start(renewal->loop, &renewal->timer, (uint64_t)ms, look, renewal);
}

static void warn(struct renewal *renewal, const char *why)
{
    uint64_t now = loop_now(renewal->loop);
    if (renewal->warned && now - renewal->warned < WARN_MS)
        return;
    renewal->warned = now;
    log_warning(
        "event=certificate-ends path=%s days=%ld why=\"it is not renewed: %s\": make a new one (`flytctl ca issue "
        "DIR ROLE NAME --force`), and reload this daemon",
        tls_context_path(*renewal->now), tls_context_days(*renewal->now), why);
}

/* The answer has to be for our key and our name, and of our authority. */
static bool fits(const struct renewal *renewal, STACK_OF(X509) * chain, const char **why)
{
    char name[NAME_SIZE], other[NAME_SIZE];
    const X509 *old = tls_context_certificate(*renewal->now);
    X509 *fresh = sk_X509_num(chain) > 0 ? sk_X509_value(chain, 0) : NULL;
    *why = "it is no certificate";
    if (!fresh)
        return false;
    name_of(old, name);
    name_of(fresh, other);
    *why = "it is for another name";
    if (strcmp(name, other) != 0)
        return false;
    *why = "it is not for the key of this daemon";
    if (X509_check_private_key(fresh, renewal->key) != 1)
        return false;
    return is_of(chain, renewal->files.ca, why);
}

static int keep(const struct renewal *renewal, const char *chain, size_t size, char *error)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    char *bytes = NULL;
    int failure = -EIO;
    if (bio && PEM_write_bio_PKCS8PrivateKey(bio, renewal->key, NULL, NULL, 0, NULL, NULL) == 1 &&
        BIO_write(bio, chain, (int)size) == (int)size) {
        long length = BIO_get_mem_data(bio, &bytes);
        failure = secret_write(renewal->path, bytes, (size_t)length, error);
    } else {
        explain(error, 0, "the key cannot be encoded");
    }
    BIO_free(bio);
    ERR_clear_error();
    return failure;
}

/* From now on the new one counts. The link connects again: the cluster manager knows this daemon by the certificate of
   the connection. */
static void take(struct renewal *renewal)
{
    char error[EXPLAIN_SIZE] = "";
    struct tls_context *fresh;
    struct tls_files files = renewal->files;
    renewal_pick(&files, renewal->path, error);
    if (*error || tls_context_create(&files, &fresh, error) < 0) {
        log_error("event=certificate-not-renewed path=%s why=\"%s\"", renewal->path, error);
        return;
    }
    tls_context_release(*renewal->now);
    *renewal->now = fresh;
    link_set_tls(renewal->link, fresh);
    renewal->warned = 0;
    log_info("event=certificate-renewed path=%s days=%ld", renewal->path, tls_context_days(fresh));
    if (link_conn(renewal->link))
        conn_close(link_conn(renewal->link), "this side connects again with its new certificate");
}

static void answered(void *context, int error, const char *why, void *object)
{
    struct renewal *renewal = context;
    const ctl_renew_result *result = object;
    char text[EXPLAIN_SIZE];
    if (error == -ECONNRESET) {
        log_debug("event=certificate-not-renewed why=\"%s\"", why);
    } else if (error) {
        warn(renewal, error == -ENOSYS ? "the cluster manager is of an earlier release" : why);
    } else if (result->status.code != CTL_OK) {
        warn(renewal, result->status.text);
    } else {
        STACK_OF(X509) *chain = read_all(BIO_new_mem_buf(result->chain.chain_val, (int)result->chain.chain_len));
        bool good = fits(renewal, chain, &why);
        sk_X509_pop_free(chain, X509_free);
        if (!good) {
            snprintf(text, sizeof text, "what the cluster manager sends is not good: %s", why);
            warn(renewal, text);
        } else if (keep(renewal, result->chain.chain_val, result->chain.chain_len, text) < 0) {
            warn(renewal, text);
        } else {
            take(renewal);
        }
    }
    EVP_PKEY_free(renewal->key);
    renewal->key = NULL;
    again(renewal);
}

static void ask(struct renewal *renewal)
{
    char error[EXPLAIN_SIZE];
    uint8_t *der = NULL;
    size_t size = 0;
    renewal->key = authority_request(tls_context_certificate(*renewal->now), &der, &size);
    const ctl_renew_args args = { .request = { .request_len = (u_int)size, .request_val = (char *)der } };
    int failure = renewal->key
                      ? link_call(renewal->link, CTL_RENEW, &args, CTL_CALL_SECONDS * 1000, answered, renewal, error)
                      : explain(error, -EIO, "no key can be made");
    OPENSSL_free(der);
    if (!failure)
        return;
    EVP_PKEY_free(renewal->key);
    renewal->key = NULL;
    warn(renewal, error);
    again(renewal);
}

static void look(struct loop_timer *timer, void *context)
{
    struct renewal *renewal = context;
    if (authority_due(tls_context_certificate(*renewal->now)) > time(NULL))
        again(renewal);
    else if (!link_conn(renewal->link)) /* the link says why */
        loop_timer_start(renewal->loop, timer, FIRST_MS, look, renewal);
    else
        ask(renewal);
}

void renewal_look(struct renewal *renewal)
{
    if (*renewal->now && !renewal->key)
        loop_timer_start(renewal->loop, &renewal->timer, FIRST_MS, look, renewal);
}

/* A daemon that is killed in keep() leaves a key nobody knows of. The lock of the folder is held: no other daemon
   writes there. */
static void remove_left_behind(const char *path)
{
    static const char random_part[] = ".XXXXXX"; /* secret_write */
    const char *name = strrchr(path, '/') + 1;
    size_t size = strlen(name);
    char folder[RENEWAL_PATH_SIZE];
    snprintf(folder, sizeof folder, "%.*s", (int)(name - path), path);
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        const char *rest = entry->d_name + size;
        bool temporary = strncmp(entry->d_name, name, size) == 0 && *rest == '.' &&
                         strlen(rest) == strlen(random_part);
        if (temporary && unlinkat(dirfd(all), entry->d_name, 0) < 0)
            log_warning("event=file-not-removed path=%s%s why=\"%s\"", folder, entry->d_name, strerror(errno));
    }
    if (all)
        closedir(all);
}

struct renewal *renewal_start(struct loop *loop, struct link *link, const struct tls_files *files, const char *renewed,
                              struct tls_context **now)
{
    struct renewal *renewal = calloc(1, sizeof *renewal);
    if (!renewal)
        return NULL;
    *renewal = (struct renewal){ .loop = loop, .link = link, .files = *files, .path = renewed, .now = now };
    remove_left_behind(renewed);
    renewal_look(renewal);
    return renewal;
}

void renewal_stop(struct renewal *renewal)
{
    if (!renewal)
        return;
    loop_timer_stop(&renewal->timer);
    EVP_PKEY_free(renewal->key);
    free(renewal);
}
