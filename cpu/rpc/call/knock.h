/*
 * knock.h: what a program with a ticket says to a GPU server before anything else, in the clear, also at tls://
 * addresses: its pass, that is its ticket without the secret at its end (cpu/common/ticket.h). So a server of a cluster
 * spends nothing on connections of strangers. The server answers nothing to it.
 *
 *   "FlytPass"  u16 size (big endian)  the pass
 */
#ifndef FLYT_RPC_KNOCK_H
#define FLYT_RPC_KNOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RPC_KNOCK_HEAD = 10, RPC_KNOCK_PASS_MOST = 1024, RPC_KNOCK_MOST = RPC_KNOCK_HEAD + RPC_KNOCK_PASS_MOST };
enum { RPC_KNOCK_SECRET = 16 };       /* so many bytes at the end of a ticket are kept back */

/* How many bytes were written; 0: it cannot be a ticket. */
size_t rpc_knock_put(uint8_t out[RPC_KNOCK_MOST], const void *ticket, size_t size);
/* Could so many first bytes be the beginning of it? */
bool rpc_knock_begins(const uint8_t *bytes, size_t count);
/* How long all of it is; 0: longer than it may be, or empty. */
size_t rpc_knock_size(const uint8_t head[RPC_KNOCK_HEAD]);

#endif
