/*
 * cmd_ca.c: a small certificate authority, so that it is easy to be secure: one folder with ca.key, which stays where
 * it is, and ca.crt, which everybody gets; a key and a certificate for each machine, whose common name is ROLE:NAME
 * (tls.h).
 *
 * Keys are ECDSA on P-256. A certificate's extended key usage follows from its role: those of the cluster manager and
 * of GPU servers serve connections, those of nodes, VMs and administrators call. No side accepts them the other way
 * round.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cpu/common/secret.h"
#include "control-managers/common/authority.h"
#include "control-managers/flytctl/ca.h"

const struct option_row ca_create_options[] = {
    { "name", 0, "NAME", "name of the authority (flyt)", false },
    { "days", 0, "N", "how long it is valid, in days (3650)", false },
    { 0 },
};
const struct option_row ca_issue_options[] = {
    { "host", 'H', "HOST", "name or address of the machine", true },
    { "days", 0, "N", "how long it is valid, in days (90; of issuers, cluster managers and GPU servers 825)", false },
    { "out", 'o', "DIR", "where the files go (the authority's own folder)", false },
    { "force", 'f', NULL, "replace files that exist, to renew a certificate", false },
    { 0 },
};

enum { MAX_COMMON_NAME = 64, MOST_DAYS = 36500, DAY = 86400 };

int ca_fail_openssl(struct flytctl *ctl, const char *what)
{
    char text[256] = "no reason given";
    unsigned long error = ERR_get_error();
    if (error)
        ERR_error_string_n(error, text, sizeof text);
    ERR_clear_error();
    return complain(ctl, EXIT_FAILED, "%s: %s", what, text);
}

/* ---- files ---- */

int ca_write_pem(struct flytctl *ctl, const char *path, BIO *bio, enum ca_readers readers)
{
    char *bytes, error[EXPLAIN_SIZE], partial[CA_PATH_SIZE + 8];
    long size = BIO_get_mem_data(bio, &bytes);
    if (readers != READ_BY_ALL) {
        int failure = readers == READ_BY_DAEMON ? secret_write_for_daemon(path, bytes, (size_t)size, error)
                                                : secret_write(path, bytes, (size_t)size, error);
        return failure ? complain(ctl, EXIT_FAILED, "%s", error) : EXIT_FINE;
    }
    snprintf(partial, sizeof partial, "%s.new", path);
    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool written = fd >= 0 && write(fd, bytes, (size_t)size) == size && fchmod(fd, 0644) == 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    if (!written || rename(partial, path) < 0)
        return complain(ctl, EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    return EXIT_FINE;
}

static int write_key(struct flytctl *ctl, const char *path, EVP_PKEY *key, enum ca_readers readers)
{
    BIO *bio = BIO_new(BIO_s_mem());
    bool encoded = bio && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    int code = encoded ? ca_write_pem(ctl, path, bio, readers) : ca_fail_openssl(ctl, "cannot encode a key");
    BIO_free(bio);
    return code;
}

static int write_certificate(struct flytctl *ctl, const char *path, X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());
    bool encoded = bio && PEM_write_bio_X509(bio, certificate);
    int code =
        encoded ? ca_write_pem(ctl, path, bio, READ_BY_ALL) : ca_fail_openssl(ctl, "cannot encode a certificate");
    BIO_free(bio);
    return code;
}

X509 *ca_read_certificate(struct flytctl *ctl, const char *path)
{
    FILE *in = fopen(path, "re");
    if (!in) {
        complain(ctl, EXIT_NOT_FOUND, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    X509 *certificate = PEM_read_X509(in, NULL, NULL, NULL);
    fclose(in);
    if (!certificate)
        ca_fail_openssl(ctl, path);
    return certificate;
}

EVP_PKEY *ca_read_key(struct flytctl *ctl, const char *path)
{
    struct secret secret;
    char error[EXPLAIN_SIZE];
    if (secret_read(path, &secret, error)) {
        complain(ctl, EXIT_FAILED, "%s", error);
        return NULL;
    }
    BIO *bio = BIO_new_mem_buf(secret.bytes, (int)secret.size);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    secret_wipe(&secret);
    if (!key)
        ca_fail_openssl(ctl, path);
    return key;
}

/* ---- commands ---- */

int command_ca_create(struct flytctl *ctl)
{
    const char *folder = ctl->argv[0], *name = option(ctl, "name") ? option(ctl, "name") : "flyt";
    char key_path[CA_PATH_SIZE], certificate_path[CA_PATH_SIZE], common_name[MAX_COMMON_NAME + 8];
    uint64_t days = 3650;
    if (!option_number(ctl, "days", 1, MOST_DAYS, &days))
        return EXIT_USAGE;
    if (!protocol_name_valid(name) || strlen(name) > MAX_COMMON_NAME - 3 || strlen(folder) > 1000)
        return complain(ctl, EXIT_USAGE, "'%s' is no name for an authority, or the folder's path is too long", name);
    snprintf(key_path, sizeof key_path, "%s/ca.key", folder);
    snprintf(certificate_path, sizeof certificate_path, "%s/ca.crt", folder);
    snprintf(common_name, sizeof common_name, "ca:%s", name);
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return complain(ctl, EXIT_FAILED, "cannot make %s: %s", folder, strerror(errno));
    if (access(key_path, F_OK) == 0 || access(certificate_path, F_OK) == 0)
        return complain(ctl, EXIT_EXISTS,
                        "there is an authority in %s already; a new one would make all its certificates worthless",
                        folder);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    const struct authority_order order = {
        .kind = AUTHORITY_ROOT, .common_name = common_name, .seconds = (time_t)days * DAY, .key = key, .by_key = key
    };
    X509 *certificate = key ? authority_make(&order) : NULL;
    int code =
        certificate ? write_key(ctl, key_path, key, READ_BY_OWNER) : ca_fail_openssl(ctl, "cannot make an authority");
    if (code == EXIT_FINE)
        code = write_certificate(ctl, certificate_path, certificate);
    if (code == EXIT_FINE)
        report(ctl, json_pack("{s:o, s:o}", "certificate", json_text(certificate_path), "key", json_text(key_path)),
               "%s is for everybody; %s must never leave this machine", certificate_path, key_path);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return code;
}

/* "DNS:a,IP:1.2.3.4" of --host; false: complained. */
static bool alternative_names(struct flytctl *ctl, char *text, size_t size)
{
    *text = '\0';
    for (int i = 0; i < option_count(ctl, "host"); i++) {
        const char *host = option_at(ctl, "host", i);
        bool is_ip = protocol_address_valid(host);
        size_t at = strlen(text), length = strlen(host);
        if (length == 0 || length > 253 || (!is_ip && strspn(host, "0123456789.") == length) ||
            (!is_ip && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") != length) ||
            at + length + 8 > size) {
            complain(ctl, EXIT_USAGE, "--host: '%s' is neither an address nor a host's name", host);
            return false;
        }
        snprintf(text + at, size - at, "%s%s:%s", at ? "," : "", is_ip ? "IP" : "DNS", host);
    }
    return true;
}

struct issue {
    const char *folder, *out, *base, *usage;
    char common_name[128], hosts[4096];
    uint64_t days;
    enum ca_readers readers;
    bool issuer;
};

static bool read_issue(struct flytctl *ctl, struct issue *issue)
{
    static const struct {
        const char *role, *usage;
        unsigned days;
    } roles[] = {
        { "cluster", "serverAuth", 825 }, { "server", "serverAuth", 825 }, { "issuer", "clientAuth", 825 },
        { "node", "clientAuth", 90 },     { "client", "clientAuth", 90 },  { "admin", "clientAuth", 90 },
        { "operator", "clientAuth", 90 }, { "viewer", "clientAuth", 90 },
    };
    const char *role = ctl->argv[1], *name = ctl->argv[2], *usage = NULL;
    *issue = (struct issue){ .folder = ctl->argv[0],
                             .out = option(ctl, "out") ? option(ctl, "out") : ctl->argv[0],
                             .issuer = strcmp(role, "issuer") == 0 };
    for (size_t i = 0; i < COUNT(roles); i++)
        if (strcmp(roles[i].role, role) == 0) {
            usage = roles[i].usage;
            issue->days = roles[i].days;
        }
    /* The cluster manager looks for cluster.crt and issuer.crt, whatever they are called. */
    issue->base = issue->issuer || strcmp(role, "cluster") == 0 ? role : name;
    issue->usage = usage;
    bool person = strcmp(role, "admin") == 0 || strcmp(role, "operator") == 0 || strcmp(role, "viewer") == 0;
    issue->readers = person ? READ_BY_OWNER : READ_BY_DAEMON;
    snprintf(issue->common_name, sizeof issue->common_name, "%s:%s", role, name);
    if (!usage)
        complain(ctl, EXIT_USAGE,
                 "there is no role '%s': cluster, issuer, node, client, admin, operator, viewer and server are", role);
    else if (strcmp(usage, "serverAuth") != 0 && option_count(ctl, "host"))
        complain(ctl, EXIT_USAGE,
                 "--host is for those who are connected to: the roles cluster and server. Role server is for a"
                 " GPU server that is started by hand");
    else if (!protocol_name_valid(name) || strlen(issue->common_name) > MAX_COMMON_NAME)
        complain(ctl, EXIT_USAGE, "'%s' is no name that fits a certificate (with its role at most %d characters)", name,
                 MAX_COMMON_NAME);
    else if (strcmp(issue->base, "ca") == 0)
        complain(ctl, EXIT_USAGE, "a certificate called ca would replace the authority's");
    else if (strlen(issue->folder) > 1000 || strlen(issue->out) > 1000)
        complain(ctl, EXIT_USAGE, "the folder's path is too long");
    else
        return alternative_names(ctl, issue->hosts, sizeof issue->hosts) &&
               option_number(ctl, "days", 1, MOST_DAYS, &issue->days);
    return false;
}

static int issue_files(struct flytctl *ctl, const struct issue *issue, X509 *ca, EVP_PKEY *ca_key)
{
    char key_path[CA_PATH_SIZE], path[CA_PATH_SIZE], ca_copy[CA_PATH_SIZE];
    snprintf(key_path, sizeof key_path, "%s/%s.key", issue->out, issue->base);
    snprintf(path, sizeof path, "%s/%s.crt", issue->out, issue->base);
    snprintf(ca_copy, sizeof ca_copy, "%s/ca.crt", issue->out);
    if (mkdir(issue->out, 0700) < 0 && errno != EEXIST)
        return complain(ctl, EXIT_FAILED, "cannot make %s: %s", issue->out, strerror(errno));
    if (issue->issuer && X509_get_pathlen(ca) == 0)
        return complain(
            ctl, EXIT_NOT_SUPPORTED,
            "%s/ca.crt allows no issuer below it; an earlier version of flytctl made it so: "
            "issuer.crt and issuer.key beside cluster.crt may be copies of ca.crt and ca.key, or make a new "
            "authority",
            issue->folder);
    if (!option_count(ctl, "force") && (access(key_path, F_OK) == 0 || access(path, F_OK) == 0))
        return complain(ctl, EXIT_EXISTS, "%s exists; --force replaces it", access(path, F_OK) == 0 ? path : key_path);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    const struct authority_order order = { .kind = issue->issuer ? AUTHORITY_ISSUER : AUTHORITY_LEAF,
                                           .common_name = issue->common_name,
                                           .seconds = (time_t)issue->days * DAY,
                                           .key = key,
                                           .by = ca,
                                           .by_key = ca_key,
                                           .usage = issue->usage,
                                           .hosts = issue->hosts };
    X509 *certificate = key ? authority_make(&order) : NULL;
    int code = certificate ? ca_note_issued(ctl, issue->folder, certificate)
                           : ca_fail_openssl(ctl, "cannot make a certificate");
    if (code == EXIT_FINE)
        code = write_key(ctl, key_path, key, issue->readers);
    if (code == EXIT_FINE)
        code = write_certificate(ctl, path, certificate);
    if (code == EXIT_FINE && access(ca_copy, F_OK) < 0)
        code = write_certificate(ctl, ca_copy, ca);
    if (code == EXIT_FINE)
        report(ctl,
               json_pack("{s:s, s:o, s:o, s:o}", "name", issue->common_name, "certificate", json_text(path), "key",
                         json_text(key_path), "ca", json_text(ca_copy)),
               "%s: %s, %s and %s belong on its machine", issue->common_name, path, key_path, ca_copy);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return code;
}

int command_ca_issue(struct flytctl *ctl)
{
    struct issue issue;
    char path[CA_PATH_SIZE];
    if (!read_issue(ctl, &issue))
        return EXIT_USAGE;
    snprintf(path, sizeof path, "%s/ca.crt", issue.folder);
    X509 *ca = ca_read_certificate(ctl, path);
    snprintf(path, sizeof path, "%s/ca.key", issue.folder);
    EVP_PKEY *ca_key = ca ? ca_read_key(ctl, path) : NULL;
    int code = ca_key ? issue_files(ctl, &issue, ca, ca_key) : EXIT_FAILED;
    EVP_PKEY_free(ca_key);
    X509_free(ca);
    return code;
}

static void time_text(const ASN1_TIME *time, char *text, size_t size)
{
    struct tm parts;
    if (!ASN1_TIME_to_tm(time, &parts) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &parts))
        snprintf(text, size, "unknown");
}

int command_ca_show(struct flytctl *ctl)
{
    static const struct column columns[] = {
        { "FILE", "file", COLUMN_END, NULL, 0 },      { "NAME", "name", COLUMN_TEXT, NULL, 0 },
        { "ISSUER", "issuer", COLUMN_TEXT, NULL, 0 }, { "FROM", "from", COLUMN_TEXT, NULL, 1 },
        { "UNTIL", "until", COLUMN_TEXT, NULL, 0 },   { "VALID", "valid", COLUMN_YES, NULL, 0 },
    };
    json_t *rows = json_array();
    for (int i = 0; i < ctl->argc; i++) {
        X509 *certificate = ca_read_certificate(ctl, ctl->argv[i]);
        if (!certificate) {
            json_decref(rows);
            return EXIT_FAILED;
        }
        char name[256] = "", issuer[256] = "", from[32], until[32];
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
        X509_NAME_get_text_by_NID(X509_get_issuer_name(certificate), NID_commonName, issuer, sizeof issuer);
        time_text(X509_get0_notBefore(certificate), from, sizeof from);
        time_text(X509_get0_notAfter(certificate), until, sizeof until);
        bool valid = X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0 &&
                     X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
        json_array_append_new(rows, json_pack("{s:o, s:o, s:o, s:s, s:s, s:b}", "file", json_text(ctl->argv[i]), "name",
                                              json_text(name), "issuer", json_text(issuer), "from", from, "until",
                                              until, "valid", valid));
        X509_free(certificate);
    }
    return print_rows(ctl, rows, columns, COUNT(columns), "");
}
