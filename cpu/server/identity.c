/*
 * identity.c: the certificate and the key of a GPU server. They lie in the listener's memory, and a worker gets them
 * with a connection, for the time of its handshake.
 */
#include "cpu/server/identity.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"

int identity_load(struct identity *kept, const struct rpc_tls_files *files)
{
    struct rpc_tls_identity identity;
    char error[RPC_ERROR_SIZE];
    size_t size;
    int status =
        files->certificate ? rpc_tls_identity_read(files, &identity, error) : rpc_tls_identity_make(&identity, error);
    if (status == 0 && !files->certificate && files->ca)
        status = rpc_tls_identity_add_ca(&identity, files->ca, error);
    if (status < 0) {
        log_error("event=certificate-not-read why=\"%s\"%s", error, kept->packed ? ": the one read before stays" : "");
        return -1;
    }
    char *packed = rpc_tls_identity_pack(&identity, &size);
    if (packed) {
        identity_drop(kept);
        kept->packed = packed;
        kept->size = size;
        memcpy(kept->fingerprint, identity.fingerprint, sizeof kept->fingerprint);
    } else {
        log_error("event=certificate-not-read why=\"the certificates are longer than %d bytes\"", RPC_TLS_PEM_MAX);
    }
    rpc_tls_identity_wipe(&identity);
    return packed ? 0 : -1;
}

void identity_drop(struct identity *kept)
{
    if (kept->packed)
        rpc_tls_wipe(kept->packed, kept->size);
    free(kept->packed);
    kept->packed = NULL;
}
