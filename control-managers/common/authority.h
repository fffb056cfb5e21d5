/*
 * authority.h: certificates as Flyt's authority makes them (`flytctl ca`), and the issuer, by which the cluster manager
 * renews those of nodes and VMs.
 *
 * An issuer is an authority below the root (ca.crt). Its certificate says clientAuth: OpenSSL takes nobody who serves
 * for one that it made, so its key is not good for posing as the cluster manager. And what it made counts for nodes and
 * VMs only, not for administrators (tls.c).
 */
#ifndef FLYT_CONTROL_AUTHORITY_H
#define FLYT_CONTROL_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <openssl/evp.h>
#include <openssl/x509.h>

enum { AUTHORITY_MAX_REQUEST = 4096, AUTHORITY_MAX_CHAIN = 16384 };

enum authority_kind { AUTHORITY_ROOT, AUTHORITY_ISSUER, AUTHORITY_LEAF };
struct authority_order {
    enum authority_kind kind;
    const char *common_name;
    const char *line; /* certificate.h; NULL: it begins one */
    time_t seconds;   /* how long it holds */
    EVP_PKEY *key;    /* its own */
    X509 *by;         /* NULL: signed by itself */
    EVP_PKEY *by_key;
    const char *usage; /* "serverAuth", "clientAuth" */
    const char *hosts; /* "DNS:a,IP:1.2.3.4" or "" */
};
/* NULL: OpenSSL's errors say why. */
X509 *authority_make(const struct authority_order *);

/* ---- the issuer ---- */

struct authority;

/* -ENOENT: there is neither of the two files. Other errors: one is missing, unreadable, badly protected or out of date,
   or they do not fit together or to the root. */
int authority_open(const char *root, const char *certificate, const char *key, struct authority **, char *error);
void authority_close(struct authority *);
/* Days until it ends. */
long authority_days(const struct authority *);

/* When a certificate is to be renewed: a third of its time before it ends, at most 30 days. */
time_t authority_due(const X509 *);
time_t authority_end(const X509 *);

/* A certificate for the key of a request (PKCS #10, DER), with the name, use and line of `old`. The caller has
   made sure that the holder of `old` asks. *chain: PEM, the new one and the issuer's, to be freed. -EINVAL: the request
   is no good; -EKEYEXPIRED: `old` has expired; -EAGAIN: it is not due; -EPERM: it is of no node and no VM. */
int authority_renew(const struct authority *, const X509 *old, const void *request, size_t size, time_t seconds,
                    char **chain, char *error);

/* The other side: a request for the name of `old` with a new key. *der is to be freed by OPENSSL_free. */
EVP_PKEY *authority_request(const X509 *old, uint8_t **der, size_t *size);

#endif
