/*
 * manager.h: how a library or tool reaches the client manager of this machine, and asks it (manager_prot.x).
 *
 * For those that keep a connection of their own for a few questions. The client core has more to do: it waits for a
 * client manager that is about to start, and moves.
 */
#ifndef FLYT_RPC_MANAGER_H
#define FLYT_RPC_MANAGER_H

#include "cpu/rpc/manager_prot.h"
#include "cpu/rpc/rpc.h"

/* Of an installation. */
#define RPC_MANAGER_SOCKET    "/run/flyt/client-manager.sock"
#define RPC_MANAGER_XDR(type) ((xdrproc_t)(void (*)(void))xdr_##type)
enum { RPC_MANAGER_URI_SIZE = 4096 };

/* The socket, as users know it: what FLYT_MANAGER names, or that of an installation. */
const char *rpc_manager_socket(void);
/* Its address: unix:// and the path. */
void rpc_manager_uri(char uri[RPC_MANAGER_URI_SIZE]);

/* A connection that has greeted. software: the name of the library. lacks: what an older client manager does not do,
   for its refusal: "makes no links". 0; or a negative errno value and *error. */
int rpc_manager_open(const char *software, const char *lacks, rpc_client **, char *error);

/* A call. The result begins with a manager_status; the caller frees it, whatever has come. 0 also where the answer is
   MANAGER_WAITING; else a negative errno value, and *error has the client manager's text. */
int rpc_manager_ask(rpc_client *, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode, void *result,
                    char *error);

#endif
