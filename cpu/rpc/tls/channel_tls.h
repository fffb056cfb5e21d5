/*
 * channel_tls.h: a channel over TCP with TLS 1.3 (RFC 8446), by OpenSSL.
 *
 * The server shows a certificate; the client knows it by its fingerprint, which is part of the address
 * (tls://host:port?sha256=…), or by an authority (CA) that made it and the name in it. The client needs none: it
 * proves itself by its ticket, unless the server names an authority for clients too.
 *
 * Who links channel_tls.o, tls_context.o and tls_identity.o needs libssl. Others, above all the library that is loaded
 * into every CUDA program, get at it through libflyt-tls.so, and only when an address says tls:// (tls_load.c).
 */
#ifndef FLYT_RPC_CHANNEL_TLS_H
#define FLYT_RPC_CHANNEL_TLS_H

#include "cpu/rpc/transport/address.h"
#include "cpu/rpc/rpc.h"

/* ---- clients ---- */

/* Of the address, its kind aside, pin and name count. Takes over fd, connected, also when it fails (-EPROTO: the peer
   does not speak TLS, or refuses; -EKEYREJECTED: it is not whom we want; -EKEYEXPIRED; -ETIMEDOUT). Waits until
   `deadline`. */
typedef int rpc_tls_connect_function(int fd, const struct rpc_address *, const struct rpc_tls_files *,
                                     uint64_t deadline, rpc_channel **out, char *error);
__attribute__((visibility("default"))) rpc_tls_connect_function rpc_channel_tls_connect;      /* needs libssl */
/* tls_load.c: what libflyt-tls.so exports under that name. NULL, with error (RPC_ERROR_SIZE). */
void *rpc_tls_symbol(const char *name, char *error);
rpc_tls_connect_function rpc_tls_load_connect;         /* the same, wherever it is */

/* What has to be given beside the address, or is not: -EINVAL, before anybody connects. */
int rpc_tls_check_client(const char *uri, const struct rpc_address *, const struct rpc_tls_files *, char *error);

/* ---- servers ---- */

enum { RPC_TLS_PEM_MAX = 64 * 1024, RPC_TLS_NUMBERS_SIZE = 256 };

/* What a server shows and wants, as PEM text; in memory, so that it reaches processes that may read no files. */
struct rpc_tls_identity {
    char *certificate;                          /* and those between it and its authority */
    char *key;
    char *ca;                                   /* clients must have a certificate of it; NULL: they need none */
    char *revoked;                              /* lists of revoked certificates (RFC 5280), or NULL */
    char  fingerprint[RPC_PIN_SIZE];            /* SHA-256 of the certificate, hexadecimal */
};

/* Reads the files and sees that they fit together, are valid now, and the key is protected. ca NULL: clients need
 * none. */
int  rpc_tls_identity_read(const struct rpc_tls_files *, struct rpc_tls_identity *, char *error);
/* A key of its own that no file ever holds, and a certificate of it signed by itself: good for who knows its
 * fingerprint. */
int  rpc_tls_identity_make(struct rpc_tls_identity *, char *error);
/* Clients must have a certificate of the authority in this file, which is not in the list beside it (ca.crl beside
 * ca.crt; none: nothing is revoked). */
int  rpc_tls_identity_add_ca(struct rpc_tls_identity *, const char *path, char *error);
/* With bytes from elsewhere: "certificate\0key\0ca\0revoked\0", the last two may be empty. -EINVAL. */
int  rpc_tls_identity_unpack(const char *bytes, size_t size, struct rpc_tls_identity *);
/* The other way; malloced, to be wiped by rpc_tls_wipe. NULL: no memory, or longer than RPC_TLS_PEM_MAX. */
char *rpc_tls_identity_pack(const struct rpc_tls_identity *, size_t *size);
void rpc_tls_identity_wipe(struct rpc_tls_identity *);
void rpc_tls_wipe(void *bytes, size_t size);

/* What takes time at the first use, done in advance. */
void rpc_tls_prepare(void);

/* Takes over fd, also when it fails, and answers the handshake on it: -EPROTO (*error says what the peer did),
 * -ETIMEDOUT. When it returns, the channel holds the keys of this connection only, not the identity's. */
int rpc_channel_tls_accept(int fd, const struct rpc_tls_identity *, int timeout_ms, rpc_channel **out, char *error);

/* The numbers by which a list can take back the certificate that the peer has shown; "" where it showed none. Of a
 * channel made by rpc_channel_tls_accept. */
void rpc_channel_tls_numbers(const rpc_channel *, char out[RPC_TLS_NUMBERS_SIZE]);
/* Whether the identity's list has one of them. */
bool rpc_tls_identity_revokes(const struct rpc_tls_identity *, const char *numbers);

/* Whether the first byte that came over fd, without taking it, is that of a TLS handshake. An RPC record's never is:
   it would have more fragments than any of ours. */
bool rpc_tls_spoken(int fd);

/* For tests: new keys after so many bytes sent (else every 64 GiB; RFC 8446, section 5.5). */
void rpc_channel_tls_set_update(rpc_channel *, uint64_t bytes);

#endif
