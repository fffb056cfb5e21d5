/*
 * channel_state.h: what channel_tls.c (the channel) and tls_handshake.c (how it comes about) share; needs OpenSSL's
 * headers.
 */
#ifndef FLYT_RPC_TLS_CHANNEL_STATE_H
#define FLYT_RPC_TLS_CHANNEL_STATE_H

#include <pthread.h>

#include <openssl/bio.h>

#include "cpu/rpc/tls/tls_context.h"
#include "cpu/rpc/transport/channel.h"

enum {
    TLS_RECORD = 16 * 1024,             /* plain bytes of a full record */
    TLS_IN     = 5 * 16 * 1024          /* received at once, beside what is asked for */
};

struct tls_channel {
    rpc_channel     base;
    rpc_channel    *socket;
    int             fd;                 /* the socket's */
    pthread_mutex_t lock;
    SSL            *ssl;
    BIO_METHOD     *method;
    int             failure;            /* of the socket, as the BIO saw it */
    size_t          owed;
    uint8_t        *out;
    size_t          out_start, out_end, out_size;
    size_t          in_start, in_end;   /* received and not yet taken */
    uint64_t        sent, update;       /* since the keys are new; when they are to be renewed */
    atomic_bool     more;
    bool            established;
    uint8_t         record[TLS_RECORD];
    uint8_t         in[TLS_IN];
};

/* On fd, which stays the caller's when it fails (NULL; error has the reason). Nothing has been sent yet. */
struct tls_channel *tls_channel_create(int fd, SSL_CTX *, char *error);
void tls_destroy(rpc_channel *);

/* Sends what is encrypted. 0: all is in the socket; -EAGAIN; another -errno. */
int tls_flush(struct tls_channel *);
/* Why SSL_read or SSL_do_handshake did not go on, as -errno; 0: the end of the stream. */
int tls_why_not(struct tls_channel *, int result);

#endif
