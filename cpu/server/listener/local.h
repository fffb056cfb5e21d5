/*
 * local.h: the session code as a library, for FLYT_SERVER=local: (libflyt-server.so, opened by the client
 * with dlopen).
 *
 * One process may serve several channels. The threads of a served channel block all signals and end by
 * themselves when the channel is shut down; flyt_server_local_end waits for that, so that the process can
 * exit without a thread inside the driver. In the child of a fork none of this exists: do not call it.
 */
#ifndef FLYT_SERVER_LOCAL_H
#define FLYT_SERVER_LOCAL_H

#include "cpu/rpc/rpc.h"

struct flyt_server_local;

/* Serves `channel` (one half of rpc_channel_pair) in threads of this process, and owns it from here on, also
   on failure. gpu: "auto" (NULL is the same), "nvidia", "software" or "null". Returns 0, or a negative errno
   value and what failed in error (RPC_ERROR_SIZE bytes). HELLO's answer has in_process = 1. */
int flyt_server_local(rpc_channel *channel, const char *gpu, struct flyt_server_local **out, char *error);

/* After the client's half was shut down: waits until the session has given everything back, and frees it. */
void flyt_server_local_end(struct flyt_server_local *);

/* What dlsym gives for the two names above. */
typedef int  flyt_server_local_function(rpc_channel *, const char *, struct flyt_server_local **, char *);
typedef void flyt_server_local_end_function(struct flyt_server_local *);

#endif
