/*
 * tls.h: TLS 1.3 for the loop's connections, both ends with certificates of one CA (OpenSSL, memory BIOs).
 *
 * A folder holds ca.crt, NAME.crt and NAME.key; `flytctl ca` makes them. ca.crl beside ca.crt lists certificates that
 * are revoked (RFC 5280); without such a file none is revoked. The common name of a certificate is
 * ROLE:NAME ("node:n1", "client:vm7", "admin:ann", "cluster:main"). A certificate's extended key usage says whether it
 * may serve (cluster) or call (all others); OpenSSL checks that. Earlier versions made certificates for both.
 */
#ifndef FLYT_CONTROL_TLS_H
#define FLYT_CONTROL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct tls_context;
struct tls_session;

struct tls_files {
    const char *ca, *certificate, *key;
};

/* -ENOENT when none of the files exists (then: go without), other errors when one is missing, unreadable, badly
   protected (key), expired, or the key is not the certificate's. */
int tls_context_create(const struct tls_files *, struct tls_context **, char *error);
struct x509_st *tls_context_certificate(const struct tls_context *); /* X509; the context's */
const char *tls_context_path(const struct tls_context *);            /* of the certificate's file */
/* How many days its certificate is still valid. */
long tls_context_days(const struct tls_context *);
time_t tls_context_ends(const struct tls_context *); /* when its certificate ends, seconds since 1970 */
time_t tls_certificate_ends(const struct x509_st *);
struct tls_context *tls_context_reference(struct tls_context *); /* not thread-safe */
void tls_context_release(struct tls_context *);                  /* NULL is allowed */
/* Whether the peer of a connection, which may be older than this context, has a certificate that counts no more. */
bool tls_context_revokes(const struct tls_context *, struct tls_session *);
/* Its certificate may be used at both ends, as those of earlier versions: to be renewed. */
bool tls_context_is_old(const struct tls_context *);

/* For listeners whose TLS is another library's. chain: of a caller, its own certificate first. true: the authority made
   it, for callers, it is in date and not revoked, and *name is its common name. Any thread. */
enum { TLS_NAME_SIZE = 128 };
struct tls_der {
    const uint8_t *bytes;
    size_t size;
};
bool tls_context_check_caller(const struct tls_context *, const struct tls_der *chain, size_t count,
                              char name[TLS_NAME_SIZE]);

/* ---- one connection; used by the loop ---- */

/* peer_name: whom the peer's certificate must name, "cluster:*": anybody whose name begins so; NULL: anybody of the CA.
   NULL: no memory. */
struct tls_session *tls_session_create(struct tls_context *, bool server, const char *peer_name);
void tls_session_destroy(struct tls_session *);
/* Bytes from the network. 0 or -ENOMEM. */
int tls_session_feed(struct tls_session *, const void *, size_t);
/* Bytes for the network: returns how many are in *bytes; they are taken by tls_session_sent. */
size_t tls_session_pending(struct tls_session *, const uint8_t **bytes);
void tls_session_sent(struct tls_session *, size_t);
/* 1: done; 0: needs more; -EPROTO with *error. */
int tls_session_handshake(struct tls_session *, char *error);
/* Plain text: > 0 bytes; 0: none at present; -ECONNRESET: the peer closed properly; -EPROTO with *error. */
ssize_t tls_session_read(struct tls_session *, void *, size_t, char *error);
int tls_session_write(struct tls_session *, const void *, size_t, char *error); /* takes all */
void tls_session_close(struct tls_session *);                                   /* close_notify is pending then */
struct x509_st *tls_session_certificate(struct tls_session *); /* X509 of the peer, or NULL; the session's */
const char *tls_session_peer(struct tls_session *);            /* common name, NULL: none */
/* 32 bytes that both ends of this connection know and nobody else has (RFC 9266). false: none. */
bool tls_session_binding(struct tls_session *, uint8_t binding[32]);

#endif
