/* tls_context.h: what the files of this folder share; needs OpenSSL's headers. */
#ifndef FLYT_RPC_TLS_CONTEXT_H
#define FLYT_RPC_TLS_CONTEXT_H

#include "cpu/rpc/tls/channel_tls.h"

#include <openssl/ssl.h>

/* What is wanted of the peer; kept by the caller as long as its SSL. */
struct tls_wanted {
    const char *pin, *name, *host;      /* "" where not asked for */
    char        problem[400];           /* why it was refused */
    int         status;                 /* -EKEYREJECTED, -EKEYEXPIRED */
};

int tls_client_context(const struct rpc_tls_files *, struct tls_wanted *, SSL_CTX **out, char *error);
/* Without its key: that is for one SSL only, which can be made to forget it (SSL_certs_clear). */
int tls_server_context(const struct rpc_tls_identity *, SSL_CTX **out, char *error);
int tls_server_key(SSL *, const struct rpc_tls_identity *, char *error);

/* The lists of revoked certificates in PEM text, to be freed by sk_X509_CRL_pop_free. NULL: there is none in it. */
STACK_OF(X509_CRL) *tls_revoked(const char *pem);

/* Lower case hexadecimal. False: no memory. */
bool tls_fingerprint(const X509 *, char out[RPC_PIN_SIZE]);

/* The newest reason that OpenSSL gives, in this thread. */
const char *tls_reason(void);

#endif
