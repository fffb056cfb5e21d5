/*
 * coordinator.h: what coordinator.c (members: sessions at GPU servers) and communicator.c (ranks, links, transfers)
 * share.
 *
 * Each pair of ranks and direction has a stream of its own at the sender and one at the receiver, so that no transfer
 * waits for one of another pair. Nothing here has a thread: calls that wait for each other are all sent before the
 * first answer is waited for.
 */
#ifndef FLYT_CLIENT_COORDINATOR_COORDINATOR_H
#define FLYT_CLIENT_COORDINATOR_COORDINATOR_H

#define FLYT_COORDINATOR_API __attribute__((visibility("default")))
#include "cpu/client/coordinator/flyt_coordinator.h"
#include "cpu/rpc/cpu_rpc_classes.h"
#include "cpu/rpc/cpu_rpc_prot.h"
#include "cpu/rpc/rpc.h"

#include <stdbool.h>

struct coordinator_member {
    const char *server; /* its address; the coordinator's copy */
    rpc_client *client;
    rpc_client *manager;                          /* managed.c: of a cluster's server; NULL: it was started by hand */
    uint64_t window, window_size, granule, taken; /* taken: bytes of the window that were given away */
    uint32_t links, streams;                      /* ids that were given away */
};

struct flyt_coordinator {
    unsigned count;
    struct coordinator_member members[FLYT_COORDINATOR_MEMBERS];
    flyt_communicator *first;
};

/* The error text of this thread; returns status. */
int coordinator_explain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A call of the data plane. SYNC: answered; the result begins with a flyt_head, whose error becomes a negative errno
   value, and the caller frees it. ASYNC: sent. */
int member_call(struct coordinator_member *, uint32_t procedure, xdrproc_t encode, void *args, xdrproc_t decode,
                void *result, const char *what);
#define MEMBER_XDR(type) ((xdrproc_t)(void (*)(void))xdr_##type)
/* Registers what the member has for links, once a link has been made. */
int member_register(struct coordinator_member *, uint64_t address, uint64_t size);
void communicators_destroy(flyt_coordinator *);

/* ---- managed.c: servers of a cluster, that the client manager of this VM gives ---- */

/* Whether the name of a server asks for one. */
bool managed_wanted(const char *server);
/* A GPU server of the cluster for this member, whose client manager keeps it as long as member->manager is connected.
   Connects to it; *ticket, malloced: for HELLO. */
int managed_open(struct coordinator_member *, rpc_channel **out, void **ticket, size_t *size);
/* Has the server of `from` connected to that of `to`, for links of their sessions. address: what LINK_JOIN is to name
   at `from`; RPC_ERROR_SIZE. */
int managed_connect(struct coordinator_member *from, struct coordinator_member *to, unsigned connections,
                    char *address);

#endif
