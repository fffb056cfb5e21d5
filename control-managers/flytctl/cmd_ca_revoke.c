/*
 * cmd_ca_revoke.c: takes certificates back. DIR/issued has a line for each that the authority made,
 *   NUMBER UNTIL ROLE:NAME      (hexadecimal, seconds since 1970)
 * and DIR/ca.crl is the signed list of revoked ones (RFC 5280). Daemons read ca.crl beside their ca.crt.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bn.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control-managers/flytctl/ca.h"

const struct option_row ca_revoke_options[] = {
    { "certificate", 0, "FILE", "this one, in place of all of the name; also one that DIR/issued does not have",
      false },
    { 0 },
};

/* A list is made when something changes, so it may be old: it holds as long as an authority does. */
enum { LIST_DAYS = 36500, NAME_SIZE = 128, NUMBER_SIZE = 64 };

int ca_note_issued(struct flytctl *ctl, const char *folder, const X509 *certificate)
{
    char path[CA_PATH_SIZE], name[NAME_SIZE] = "", line[NAME_SIZE + NUMBER_SIZE + 64];
    struct tm parts;
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof name);
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *text = number ? BN_bn2hex(number) : NULL;
    bool known = text && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts);
    int length = known ? snprintf(line, sizeof line, "%s %lld %s\n", text, (long long)timegm(&parts), name) : -1;
    OPENSSL_free(text);
    BN_free(number);
    if (length < 0)
        return ca_fail_openssl(ctl, "cannot read the certificate that was made");
    snprintf(path, sizeof path, "%s/issued", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written = fd >= 0 && write(fd, line, (size_t)length) == length && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return written ? EXIT_FINE
                   : complain(ctl, EXIT_FAILED, "cannot write %s: %s: it has to know what can be revoked", path,
                              strerror(errno));
}

/* The list as it is; an empty one where there is none. NULL: it has been said why. */
static X509_CRL *read_list(struct flytctl *ctl, const char *path, const X509 *ca)
{
    FILE *in = fopen(path, "re");
    X509_CRL *list = in ? PEM_read_X509_CRL(in, NULL, NULL, NULL) : NULL;
    if (in)
        fclose(in);
    else if (errno == ENOENT && (list = X509_CRL_new()) &&
             !(X509_CRL_set_version(list, X509_CRL_VERSION_2) &&
               X509_CRL_set_issuer_name(list, X509_get_subject_name(ca)))) {
        X509_CRL_free(list);
        list = NULL;
    }
    if (!list)
        ca_fail_openssl(ctl, path);
    return list;
}

/* 1: it was put into the list; 0: it was there; -1: it failed. */
static int put(X509_CRL *list, const ASN1_INTEGER *number)
{
    X509_REVOKED *entry;
    if (X509_CRL_get0_by_serial(list, &entry, (ASN1_INTEGER *)(uintptr_t)number) == 1)
        return 0;
    ASN1_TIME *now = X509_gmtime_adj(NULL, 0);
    entry = X509_REVOKED_new();
    bool made = now && entry && X509_REVOKED_set_serialNumber(entry, (ASN1_INTEGER *)(uintptr_t)number) &&
                X509_REVOKED_set_revocationDate(entry, now) && X509_CRL_add0_revoked(list, entry);
    ASN1_TIME_free(now);
    if (!made)
        X509_REVOKED_free(entry);
    return made ? 1 : -1;
}

/* Every certificate of that name, also those that have ended: one that was renewed goes on under the number of the
   first (certificate.h). How many there are; -1: it failed. *fresh: how many of them
   were not in the list. */
static int put_all(struct flytctl *ctl, X509_CRL *list, const char *folder, const char *name, int *fresh)
{
    char path[CA_PATH_SIZE], line[256], number[NUMBER_SIZE + 1], whose[NAME_SIZE];
    long long until;
    int found = 0, result = 0;
    snprintf(path, sizeof path, "%s/issued", folder);
    FILE *in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? 0 : (complain(ctl, EXIT_FAILED, "cannot read %s: %s", path, strerror(errno)), -1);
    while (result >= 0 && fgets(line, sizeof line, in)) {
        BIGNUM *value = NULL;
        if (sscanf(line, "%64s %lld %127s", number, &until, whose) != 3 || strcmp(whose, name) != 0 ||
            !BN_hex2bn(&value, number))
            continue;
        ASN1_INTEGER *serial = BN_to_ASN1_INTEGER(value, NULL);
        result = serial ? put(list, serial) : -1;
        *fresh += result > 0;
        found++;
        ASN1_INTEGER_free(serial);
        BN_free(value);
    }
    fclose(in);
    return result < 0 ? (ca_fail_openssl(ctl, "cannot list a certificate"), -1) : found;
}

static int put_file(struct flytctl *ctl, X509_CRL *list, const char *path, const char *name, int *fresh)
{
    char whose[NAME_SIZE] = "";
    X509 *certificate = ca_read_certificate(ctl, path);
    if (!certificate)
        return -1;
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, whose, sizeof whose);
    int result = strcmp(whose, name) == 0 ? put(list, X509_get0_serialNumber(certificate)) : -1;
    X509_free(certificate);
    if (result < 0)
        complain(ctl, EXIT_FAILED, "%s is a certificate of %s, not of %s", path, whose, name);
    *fresh += result > 0;
    return result < 0 ? -1 : 1;
}

static int write_list(struct flytctl *ctl, X509_CRL *list, const char *path, EVP_PKEY *key)
{
    ASN1_TIME *now = X509_gmtime_adj(NULL, -3600), *until = X509_time_adj_ex(NULL, LIST_DAYS, 0, NULL);
    BIO *bio = BIO_new(BIO_s_mem());
    bool made = now && until && bio && X509_CRL_set1_lastUpdate(list, now) && X509_CRL_set1_nextUpdate(list, until) &&
                X509_CRL_sort(list) && X509_CRL_sign(list, key, EVP_sha256()) && PEM_write_bio_X509_CRL(bio, list);
    int code = made ? ca_write_pem(ctl, path, bio, READ_BY_ALL) : ca_fail_openssl(ctl, "cannot make the list");
    BIO_free(bio);
    ASN1_TIME_free(until);
    ASN1_TIME_free(now);
    return code;
}

int command_ca_revoke(struct flytctl *ctl)
{
    const char *folder = ctl->argv[0], *file = option(ctl, "certificate");
    char path[CA_PATH_SIZE], list_path[CA_PATH_SIZE], name[NAME_SIZE];
    int fresh = 0, code = EXIT_FAILED;
    int length = snprintf(name, sizeof name, "%s:%s", ctl->argv[1], ctl->argv[2]);
    if (strlen(folder) > 1000 || length < 0 || (size_t)length >= sizeof name)
        return complain(ctl, EXIT_USAGE, "the folder's path, or the name, is too long");
    snprintf(list_path, sizeof list_path, "%s/ca.crl", folder);
    snprintf(path, sizeof path, "%s/ca.crt", folder);
    X509 *ca = ca_read_certificate(ctl, path);
    snprintf(path, sizeof path, "%s/ca.key", folder);
    EVP_PKEY *key = ca ? ca_read_key(ctl, path) : NULL;
    X509_CRL *list = key ? read_list(ctl, list_path, ca) : NULL;
    int found = !list ? -1 : file ? put_file(ctl, list, file, name, &fresh) : put_all(ctl, list, folder, name, &fresh);
    if (found == 0)
        code =
            complain(ctl, EXIT_NOT_FOUND,
                     "%s/issued has no certificate of %s; --certificate FILE names one", folder, name);
    else if (found > 0)
        code = write_list(ctl, list, list_path, key);
    if (code == EXIT_FINE)
        report(ctl,
               json_pack("{s:s, s:i, s:i, s:o}", "name", name, "certificates", found, "revoked", fresh, "list",
                         json_text(list_path)),
               "%s: %d of %d certificates revoked now; %s belongs beside each ca.crt, and the daemons read it when they"
               " reload",
               name, fresh, found, list_path);
    X509_CRL_free(list);
    EVP_PKEY_free(key);
    X509_free(ca);
    return code;
}
