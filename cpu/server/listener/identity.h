/* identity.h: what the listener shows at tls:// addresses; see identity.c. */
#ifndef FLYT_SERVER_IDENTITY_H
#define FLYT_SERVER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "cpu/rpc/tls/channel_tls.h"

/* Packed, for each connection by TLS; no worker has it before. Begins as zeros. */
struct identity {
    char  *packed;
    size_t size;
    char   fingerprint[RPC_PIN_SIZE];
};

/* Reads it from the files, or makes one where they name no certificate. -1: it has been said why, and what was there
   before stays. Again with the same files: reads them again; what was made stays. */
int  identity_load(struct identity *, const struct rpc_tls_files *);
/* Whether the client's certificate with these numbers (rpc_channel_tls_numbers) counts no more. */
bool identity_revokes(const struct identity *, const char *numbers);
void identity_drop(struct identity *);

#endif
