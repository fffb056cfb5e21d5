/*
 * ucx.h: channels of a link by UCX (https://openucx.org), which moves bytes by RDMA, TCP or shared memory.
 *
 *   ucx.c          a channel: a stream of bytes each way, as sockets carry it
 *   heard.c        messages that come, and which channel they belong to
 *   card.c         what the thread of a card has: a context and a worker of UCX; progress
 *   join.c         how the two ends of a channel come together
 *   library.c      libucp.so.0, which is opened when an engine first wants it
 *   without.c      in place of all of these in a build without UCX's headers (libucx-dev)
 *   ucx_state.h    what they share
 *
 * Why it is opened by name: programs and GPU servers that do not use UCX need not have it, and no plugin of ours has to
 * be found. Structures and prototypes come from UCX's headers.
 *
 * The channel's socket, over which both ends have proved its key, stays open beside it: it says when the peer ends.
 * What UCX carries is not encrypted. A message begins with 16 random bytes that only the two ends of the channel know;
 * others are dropped, whoever reaches the worker. The peer is not trusted beyond that: what it says is checked.
 *
 * Flow. Each end keeps a ring of UCX_RING bytes for what it sends and one for what it receives, both laid out alike. A
 * sender copies a piece of the stream, of at most UCX_MESSAGE bytes, into its ring and gives it to UCX as one active
 * message. Small ones come with it; large ones the receiver fetches (rendezvous) into the same place of its own ring.
 * The receiver says how far it has read (ACK). So UCX touches no memory but the rings: a link may fail, and its
 * transfers end, while UCX is still at work.
 *
 * Threads. Where a card has two threads, each has a worker: that is what is called a card here. One mutex protects the
 * worker and all channels on it. Only its thread makes progress and receives; any thread may send. It is the last lock:
 * no other one is taken under it.
 */
#ifndef FLYT_COMM_UCX_UCX_H
#define FLYT_COMM_UCX_UCX_H

#include "cpu/rpc/rpc.h"

#include <stdbool.h>
#include <stdint.h>

struct comm_ucx;                                /* of one card */

/* interface: the card's name; UCX then uses its devices only, unless UCX_NET_DEVICES is set. NULL: what UCX chooses.
   0 or -errno with *error: -ENOPKG: there is no UCX here, and which package has it. */
int  comm_ucx_open(const char *interface, struct comm_ucx **out, char *error);
/* Its channels are destroyed, and nobody is inside. NULL is allowed. */
void comm_ucx_close(struct comm_ucx *);

/* Both ends call it with the greeted connection of a channel, which is taken over if it succeeds, and while the card's
   thread makes progress. Waits until the deadline. 0 or -errno with *error. */
int  comm_ucx_join(struct comm_ucx *, rpc_channel *socket, uint64_t deadline, rpc_channel **out, char *error);

/* ---- for the thread of the card ---- */

/* Readable when comm_ucx_progress is due. */
int  comm_ucx_descriptor(const struct comm_ucx *);
void comm_ucx_progress(struct comm_ucx *);
/* True: nothing is left to do, and the descriptor will say when there is. */
bool comm_ucx_rest(struct comm_ucx *);
/* Who owns the channel, from here on; NULL: nobody, and comm_ucx_next will not give the former one any more. Any
   thread. */
void comm_ucx_own(rpc_channel *, void *owner);
/* The owner of a channel that may have something to read (*in), or has room again (*out). NULL: there is none. */
void *comm_ucx_next(struct comm_ucx *, bool *in, bool *out);

#endif
