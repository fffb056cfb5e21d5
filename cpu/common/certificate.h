/*
 * certificate.h: which certificates are revoked (RFC 5280), for the control plane and for GPU servers. OpenSSL's own
 * check demands a list of each authority of a chain. Here one list, signed by the root, names certificates of the root
 * and of the issuers below it: numbers are random, so that no two are the same.
 *
 * A renewed certificate carries the number of the one that it comes from, in its subject (serialNumber, X.520): its
 * line. The list takes back all of a line by the first number, which is the one that the authority has noted.
 */
#ifndef FLYT_COMMON_CERTIFICATE_H
#define FLYT_COMMON_CERTIFICATE_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/x509.h>

enum { CERTIFICATE_NUMBER_SIZE = 44, CERTIFICATE_NUMBERS_SIZE = 256 };

/* Hexadecimal; "" where there is none. line: the number at the beginning of its line, which may be its own. */
void certificate_number(const X509 *, char out[CERTIFICATE_NUMBER_SIZE]);
void certificate_line(const X509 *, char out[CERTIFICATE_NUMBER_SIZE]);
/* All numbers of the chain by which one of the lists can take it back, with spaces between; "" for NULL. */
void certificate_numbers(const STACK_OF(X509) * chain, char out[CERTIFICATE_NUMBERS_SIZE]);

/* Whether one of the lists in the store has the certificate, or its line. */
bool certificate_revoked(X509_STORE *, const X509 *);
/* Whether the list has one of the numbers. */
bool certificate_numbers_listed(X509_CRL *, const char *numbers);

/* For SSL_CTX_set_verify: besides what OpenSSL checks, no certificate of the chain may be revoked. */
int certificate_verify(int good, X509_STORE_CTX *);

#endif
