/* reach.h: connecting to a GPU server, and HELLO, for the session's first connection and for later ones (reach.c). */
#ifndef FLYT_CLIENT_CORE_REACH_H
#define FLYT_CLIENT_CORE_REACH_H

#include <stdbool.h>

#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct client_session;

enum { REACH_CONNECT_MS = 5000 };

bool reach_is(const char *uri, const char *scheme);
/* Why calls reach the server as they do, for people who ask `flytctl vm show`. */
void reach_because(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Goes on through shared memory where there is any. kept: the memory of the connection that the session has; NULL: it
   has none. 0 or -errno: then the channel is gone. */
int reach_memory(const char *uri, const struct rpc_shared_memory *kept, rpc_channel **, char *error);
/* Says HELLO. compute: of capability.h. */
int reach_hello(struct client_session *, rpc_client *, const void *ticket, size_t ticket_size, flyt_wish,
                uint64_t compute, hello_result *);
/* How many bytes of a host window that a server offers behind `window` can be used. */
uint64_t reach_host_size(uint64_t window, uint64_t size);

#endif
