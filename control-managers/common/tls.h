/*
 * tls.h: TLS 1.3 for the loop's connections, both ends with certificates of one CA (OpenSSL, memory BIOs).
 *
 * A folder holds ca.crt, NAME.crt and NAME.key; `flytctl ca` makes them. The common name of a certificate is
 * ROLE:NAME ("node:n1", "client:vm7", "admin:ann", "cluster:main").
 */
#ifndef FLYT_CONTROL_TLS_H
#define FLYT_CONTROL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls_context;

struct tls_files { const char *ca, *certificate, *key; };

/* -ENOENT when none of the files exists (then: go without), other errors when one is missing, unreadable, badly
   protected (key), expired, or the key is not the certificate's. */
int  tls_context_create(const struct tls_files *, struct tls_context **, char *error);
/* How many days its certificate is still valid. */
long tls_context_days(const struct tls_context *);
struct tls_context *tls_context_reference(struct tls_context *);        /* not thread-safe */
void tls_context_release(struct tls_context *);                         /* NULL is allowed */

/* ---- one connection; used by the loop ---- */

struct tls_session;
struct tls_session *tls_session_create(struct tls_context *, bool server, const char *peer_name);       /* NULL: no memory */
void    tls_session_destroy(struct tls_session *);
/* Bytes from the network. 0 or -ENOMEM. */
int     tls_session_feed(struct tls_session *, const void *, size_t);
/* Bytes for the network: returns how many are in *bytes; they are taken by tls_session_sent. */
size_t  tls_session_pending(struct tls_session *, const uint8_t **bytes);
void    tls_session_sent(struct tls_session *, size_t);
/* 1: done; 0: needs more; -EPROTO with *error. */
int     tls_session_handshake(struct tls_session *, char *error);
/* Plain text: > 0 bytes; 0: none at present; -ECONNRESET: the peer closed properly; -EPROTO with *error. */
ssize_t tls_session_read(struct tls_session *, void *, size_t, char *error);
int     tls_session_write(struct tls_session *, const void *, size_t, char *error);     /* takes all */
void    tls_session_close(struct tls_session *);                        /* close_notify is pending then */
const char *tls_session_peer(struct tls_session *);                     /* common name, NULL: none */

#endif
