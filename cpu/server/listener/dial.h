/*
 * dial.h: connections for links of a worker to the GPU server of another one (cpu/server/links). A worker connects to
 * nothing. It asks its listener, which connects to addresses that the administrator has named (--links) and hands the
 * sockets down. A client says the address; one that differs from the administrator's by a letter is refused.
 */
#ifndef FLYT_SERVER_DIAL_H
#define FLYT_SERVER_DIAL_H

#include <sys/types.h>

#include "cpu/server/listener/listener.h"

/* ---- the listener's part ---- */

/* Whether each part of the list is tcp://HOST:PORT or tls://HOST:PORT; * for PORT means any. Else why
   (RPC_ERROR_SIZE). */
bool dial_list_check(const char *list, char *why);
/* Answers the worker at the other end of the socket, at once or from a thread. list: NULL: nothing is allowed. */
void dial_begin(const char *list, pid_t worker, int socket, const struct worker_dial *);

/* ---- the worker's part (dial_worker.c) ---- */

/* As links_ways.dial says: asks the listener, or waits for what the node manager gives. */
int dial_ask(const char *address, unsigned count, uint64_t deadline, int *fds, char *error);
int dial_await(const char *address, unsigned count, uint64_t deadline, int *fds, char *error);
/* Connections that the node manager has made to `address`. Takes the descriptors over. */
void dial_given(const char *address, const int *fds, unsigned count);
/* An answer of the listener's. Takes the descriptors over. */
void dial_hear(struct worker_dialled *, const int *fds, unsigned count);

#endif
