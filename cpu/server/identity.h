/* identity.h: what the listener shows at tls:// addresses; see identity.c. */
#ifndef FLYT_SERVER_IDENTITY_H
#define FLYT_SERVER_IDENTITY_H

#include <stddef.h>

#include "cpu/rpc/tls/channel_tls.h"

/* Packed, for each connection by TLS; no worker has it before. Begins as zeros. */
struct identity {
    char  *packed;
    size_t size;
    char   fingerprint[RPC_PIN_SIZE];
};

/* Reads it from the files, or makes one where they name no certificate. -1: it has been said why, and what was there
   before stays. */
int  identity_load(struct identity *, const struct rpc_tls_files *);
void identity_drop(struct identity *);

#endif
