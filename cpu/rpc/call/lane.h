/*
 * lane.h: lanes, connections of a session that carry only bulk bytes; what is said on them is documented in
 * cpu_rpc_prot.x. A lane is a channel; these functions are what both ends need on top of it.
 */
#ifndef FLYT_RPC_LANE_H
#define FLYT_RPC_LANE_H

#include "cpu/rpc/transport/channel.h"

enum { RPC_LANE_HEAD = 24, RPC_LANE_MAGIC = 8 };

struct rpc_lane_record { uint32_t transfer, lane; uint64_t offset, length; };

void rpc_lane_put(uint8_t head[RPC_LANE_HEAD], const struct rpc_lane_record *);
void rpc_lane_get(const uint8_t head[RPC_LANE_HEAD], struct rpc_lane_record *);

/* What is said first, in the clear. False: it is not that. */
void rpc_lane_put_hello(uint8_t hello[RPC_LANE_HEAD], uint64_t session, uint32_t lane);
bool rpc_lane_get_hello(const uint8_t hello[RPC_LANE_HEAD], uint64_t *session, uint32_t *lane);
/* Could so many first bytes be the beginning of it? */
bool rpc_lane_begins(const uint8_t *bytes, size_t count);
extern const char rpc_lane_magic[RPC_LANE_MAGIC];

/* Moves all of it, waiting as long as the channel lives, or until `deadline` (clock_now; 0: none): -ETIMEDOUT.
   Receiving gives -ENODATA for an end before the first byte, -ECONNRESET for one within. */
int rpc_lane_send(rpc_channel *, const struct iovec *, int count, uint64_t deadline);
int rpc_lane_receive(rpc_channel *, void *to, size_t size, uint64_t deadline);

/* A connected socket to a tcp:// or tls:// address, on which nothing has been said yet; it does not block. -errno with
   *error. */
int rpc_socket_connect(const char *uri, uint64_t deadline, char *error);

/* Whether somebody takes connections at that address now. Says nothing there. Waits until the deadline at most. */
bool rpc_listens(const char *uri, uint64_t deadline);

/* As rpc_channel_connect, to the same kinds of address but shm://, saying `hello` before anything else. */
int rpc_lane_connect(const char *uri, int timeout_ms, const uint8_t hello[RPC_LANE_HEAD], rpc_channel **out,
                     char *error);

#endif
