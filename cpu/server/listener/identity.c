/*
 * identity.c: the certificate and the key of a GPU server. They lie in the listener's memory, and a worker gets them
 * with a connection, for the time of its handshake.
 */
#include "cpu/server/listener/identity.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/common/log.h"
#include "cpu/rpc/transport/channel.h"

/* A key that was made here stays the same when the files are read again: its fingerprint is the server's address. */
static int own(const struct identity *kept, const char *ca, struct rpc_tls_identity *identity, char *error)
{
    int status = kept->packed ? rpc_tls_identity_unpack(kept->packed, kept->size, identity)
                              : rpc_tls_identity_make(identity, error);
    if (status < 0)
        return kept->packed ? rpc_explain(error, status, "no memory") : status;
    if (!ca)
        return 0;
    free(identity->ca);
    free(identity->revoked);
    identity->ca = identity->revoked = NULL;
    return rpc_tls_identity_add_ca(identity, ca, error);
}

/* A list that is away, perhaps because somebody copies it just now, must not let the revoked ones in again. */
static void keep_list(const struct identity *kept, struct rpc_tls_identity *identity)
{
    struct rpc_tls_identity before;
    if (!identity->ca || identity->revoked || !kept->packed ||
        rpc_tls_identity_unpack(kept->packed, kept->size, &before) < 0)
        return;
    if (before.revoked && before.ca && strcmp(before.ca, identity->ca) == 0) {
        log_warning("event=revoked-list-missing: the list of revoked certificates that was read before stays");
        identity->revoked = before.revoked;
        before.revoked = NULL;
    }
    rpc_tls_identity_wipe(&before);
}

int identity_load(struct identity *kept, const struct rpc_tls_files *files)
{
    struct rpc_tls_identity identity;
    char error[RPC_ERROR_SIZE];
    size_t size;
    int status =
        files->certificate ? rpc_tls_identity_read(files, &identity, error) : own(kept, files->ca, &identity, error);
    if (status < 0) {
        log_error("event=certificate-not-read why=\"%s\"%s", error, kept->packed ? ": the one read before stays" : "");
        return -1;
    }
    keep_list(kept, &identity);
    if (!*identity.fingerprint)
        memcpy(identity.fingerprint, kept->fingerprint, sizeof kept->fingerprint);
    char *packed = rpc_tls_identity_pack(&identity, &size);
    if (packed) {
        identity_drop(kept);
        kept->packed = packed;
        kept->size = size;
        memcpy(kept->fingerprint, identity.fingerprint, sizeof kept->fingerprint);
    } else {
        log_error("event=certificate-not-read why=\"the certificates and the list of revoked ones are longer than %d "
                  "bytes\"%s",
                  RPC_TLS_PEM_MAX, kept->packed ? ": the ones read before stay" : "");
    }
    rpc_tls_identity_wipe(&identity);
    return packed ? 0 : -1;
}

bool identity_revokes(const struct identity *kept, const char *numbers)
{
    struct rpc_tls_identity identity;
    if (!*numbers || !kept->packed || rpc_tls_identity_unpack(kept->packed, kept->size, &identity) < 0)
        return false;
    bool revoked = rpc_tls_identity_revokes(&identity, numbers);
    rpc_tls_identity_wipe(&identity);
    return revoked;
}

void identity_drop(struct identity *kept)
{
    if (kept->packed)
        rpc_tls_wipe(kept->packed, kept->size);
    free(kept->packed);
    kept->packed = NULL;
}
