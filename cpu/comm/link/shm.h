/*
 * shm.h: a channel of a link through memory that two processes of one machine share: the rings of cpu/rpc/shm/ring.h,
 * beside the unix socket that brought them together. Unlike the channels of cpu/rpc/shm it is made for epoll: whoever
 * finds no room or nothing to read gets a byte over the socket when that changes.
 */
#ifndef FLYT_COMM_LINK_SHM_H
#define FLYT_COMM_LINK_SHM_H

#include "cpu/rpc/rpc.h"

#include <stdint.h>

/* Both over a channel on a unix socket, which they take over if they succeed. Make: lays the memory out and sends it to
   the peer; join: receives it. 0 or -errno. */
int comm_shm_make(rpc_channel *socket, rpc_channel **out);
int comm_shm_join(rpc_channel *socket, uint64_t deadline, rpc_channel **out);

#endif
