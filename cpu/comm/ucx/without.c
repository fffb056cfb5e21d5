/* without.c: ucx.h in a build without UCX's headers. The Makefile chooses this file or the others. */
#include "cpu/comm/ucx/ucx.h"

#include "cpu/rpc/transport/channel.h"

#include <errno.h>

int comm_ucx_open(const char *interface, struct comm_ucx **out, char *error)
{
    (void)interface;
    (void)out;
    return rpc_explain(error, -ENOPKG, "links by UCX: this Flyt was built without UCX's headers (Debian and Ubuntu: "
                                       "apt-get install libucx-dev, and build again)");
}

/* There are no cards of UCX, so nobody calls what follows. */

void comm_ucx_close(struct comm_ucx *u) { (void)u; }

int comm_ucx_join(struct comm_ucx *u, rpc_channel *socket, uint64_t deadline, rpc_channel **out, char *error)
{
    (void)u;
    (void)socket;
    (void)deadline;
    (void)out;
    return rpc_explain(error, -ENOPKG, "links by UCX: not in this build");
}

int comm_ucx_descriptor(const struct comm_ucx *u)
{
    (void)u;
    return -1;
}

void comm_ucx_progress(struct comm_ucx *u) { (void)u; }

bool comm_ucx_rest(struct comm_ucx *u)
{
    (void)u;
    return true;
}

void comm_ucx_own(rpc_channel *channel, void *owner)
{
    (void)channel;
    (void)owner;
}

void *comm_ucx_next(struct comm_ucx *u, bool *in, bool *out)
{
    (void)u;
    *in = *out = false;
    return NULL;
}
