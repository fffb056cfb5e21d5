/* certificates.h: authorities and certificates for the tests of TLS, made when a test asks for them. */
#ifndef FLYT_TESTS_RPC_CERTIFICATES_H
#define FLYT_TESTS_RPC_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "cpu/rpc/tls/channel_tls.h"

enum { DAY = 86400 };

struct authority {
    EVP_PKEY *key;
    X509 *certificate;
    char path[64];
};
/* Files of a certificate and its key. */
struct shown {
    char certificate[64], key[64];
};

/* Where the files go; the test makes it (mkdtemp) and removes it. */
extern char folder[];

/* These assert. */
void authority_make(struct authority *, const char *name);
void authority_end(struct authority *);
/* A certificate in BASE.crt and BASE.key. hosts: its alternative names, as OpenSSL writes them. It is valid from `from`
   to `to` seconds from now. */
void issue(struct shown *, const char *base, const char *name, const char *hosts, long from, long to,
           const struct authority *by);
/* As the server takes it, dates unseen: a server may run longer than its certificate. ca: a file, or NULL. The texts
   are the caller's. */
void load(const struct shown *, const char *ca, struct rpc_tls_identity *out);

#endif
